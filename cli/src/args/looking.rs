//! Flags of those who look on at a run.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use pktgen_core::units::Span;

/// Looking on at a run in real time.
#[derive(Debug, Clone, Default, ClapArgs)]
#[command(next_help_heading = "Looking on at a run in real time (docs/live.md)")]
pub(crate) struct Looking {
    /// Show it on the terminal: rates, lateness, losses, ages and aggregation per cluster; q ends the run
    #[arg(long)]
    pub(crate) tui: bool,
    /// Serve the same to Prometheus at this address, as 127.0.0.1:9400 (then http://127.0.0.1:9400/metrics)
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Write what was sent, received, lost and how late, of each interval of this length, as 1s; at least 100ms
    #[arg(long, value_name = "SPAN")]
    pub(crate) stats: Option<Span>,
    /// Where --stats writes: FILE.csv, FILE.jsonl, - for JSON lines on standard output, or run for stats.jsonl in the run dir,
    /// which pktgen serve shows [default: -]
    #[arg(long, value_name = "FILE", requires = "stats")]
    pub(crate) stats_to: Option<PathBuf>,
    /// Let the run be steered by a Unix socket, at PATH or in the user's runtime folder (pktgen control, docs/control.md)
    #[arg(long, value_name = "PATH", num_args = 0..=1)]
    pub(crate) control: Option<Option<PathBuf>>,
    /// Send nothing until told to begin, by --control or a key of --tui
    #[arg(long)]
    pub(crate) hold: bool,
}
