//! Flags of those who look on at a run.

use std::net::SocketAddr;

use clap::Args as ClapArgs;

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
}
