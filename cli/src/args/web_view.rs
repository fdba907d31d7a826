//! Flags of `pktgen serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args as ClapArgs;

#[derive(Debug, ClapArgs)]
#[command(after_help = "docs/serve.md has the flags of runs that are shown in progress, and the rules of access.\n\
                        Exit codes: 0 ended by Ctrl-C, SIGTERM or SIGHUP; 2 usage, or the address is not available.")]
pub(crate) struct WebView {
    /// Run dir, or folder of run dirs, at most six folders deep
    pub(crate) dir: PathBuf,
    /// Listen address of the page; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
    /// Allow other hosts: --listen with an address that they reach
    #[arg(long)]
    pub(crate) allow_others: bool,
    /// Host name by which browsers reach this host, in addition to its addresses (repeatable)
    #[arg(long, value_name = "NAME", requires = "allow_others")]
    pub(crate) name: Vec<String>,
}
