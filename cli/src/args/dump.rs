//! Flags of `pktgen dump`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

/// See docs/dump.md.
#[derive(Debug, ClapArgs)]
pub(crate) struct Dump {
    /// Run dir, or folder of run dirs
    pub(crate) run: PathBuf,
    /// Canonical form, the only one: sorted, without parts that differ between identical runs (docs/dump.md)
    #[arg(long, required = true)]
    pub(crate) canonical: bool,
    /// Print one line per part (stream, metrics, verdict): number of rows and SHA-256
    #[arg(long)]
    pub(crate) digest: bool,
    /// Output file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Read files that were changed since they were written; noted in the output
    #[arg(long)]
    pub(crate) no_verify: bool,
}
