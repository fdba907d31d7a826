//! Flags for observing a run.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use pktgen_core::units::Span;

/// Looking on at a run in real time.
#[derive(Debug, Clone, Default, ClapArgs)]
#[command(next_help_heading = "Looking on at a run in real time (docs/live.md)")]
pub(crate) struct Looking {
    /// Show live statistics on the terminal: rates, lateness, losses, ages and aggregation per cluster; q ends the run
    #[arg(long)]
    pub(crate) tui: bool,
    /// Serve live statistics to Prometheus at this address, as 127.0.0.1:9400 (then http://127.0.0.1:9400/metrics)
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Write statistics (sent, received, lost, lateness) at this interval, as 1s; at least 100ms
    #[arg(long, value_name = "SPAN")]
    pub(crate) stats: Option<Span>,
    /// Output of --stats: FILE.csv, FILE.jsonl, - for JSON lines on standard output, or run for stats.jsonl in the run
    /// dir, which pktgen serve shows [default: -]
    #[arg(long, value_name = "FILE", requires = "stats")]
    pub(crate) stats_to: Option<PathBuf>,
    /// Accept commands of pktgen control on a Unix socket, at PATH or in the user's runtime folder (docs/control.md)
    #[arg(long, value_name = "PATH", num_args = 0..=1)]
    pub(crate) control: Option<Option<PathBuf>>,
    /// Hold: send nothing until started by pktgen control or a key of --tui
    #[arg(long)]
    pub(crate) hold: bool,
}

impl Looking {
    /// Returns the first flag that is given, of those that watch or control a run.
    pub(crate) fn first(&self) -> Option<&'static str> {
        let Looking { tui, metrics, stats, control, hold, stats_to: _ } = self;
        let given = [
            (*tui, "--tui"),
            (metrics.is_some(), "--metrics"),
            (stats.is_some(), "--stats"),
            (control.is_some(), "--control"),
            (*hold, "--hold"),
        ];
        given.into_iter().find(|(given, _)| *given).map(|(_, flag)| flag)
    }
}
