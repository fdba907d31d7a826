//! Flags of `pktgen serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args as ClapArgs;

#[derive(Debug, ClapArgs)]
#[command(
    after_help = "docs/serve.md says what a run must be started with so that it can be watched, and who is let in.\n\
                        Exit codes: 0 ended by Ctrl-C or SIGTERM; 2 usage, or an address that cannot be listened at."
)]
pub(crate) struct WebView {
    /// A run dir, or a folder of them, at most six folders deep
    pub(crate) dir: PathBuf,
    /// Address of the page; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
    /// Let other hosts look on: --listen with an address that they reach
    #[arg(long)]
    pub(crate) allow_others: bool,
    /// A name by which browsers reach this host, beside its addresses (repeatable)
    #[arg(long, value_name = "NAME", requires = "allow_others")]
    pub(crate) name: Vec<String>,
}
