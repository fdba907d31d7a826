//! Flags of `pktgen control`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};
use pktgen_core::units::PacketRate;

#[derive(Debug, ClapArgs)]
pub(crate) struct Control {
    /// Control socket printed by the run, or its run dir
    pub(crate) run: PathBuf,
    #[command(subcommand)]
    pub(crate) command: ControlCommand,
}

/// Parses a number above 0.
fn positive(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|n: &f64| n.is_finite() && *n > 0.0)
        .ok_or_else(|| "it must be a number above 0".to_owned())
}

#[derive(Debug, Subcommand)]
pub(crate) enum ControlCommand {
    /// Print the current state
    Status,
    /// Start sending (after --hold), or resume
    Start,
    /// End the run cleanly
    Stop,
    /// Stop sending until resume
    Pause,
    /// Resume sending
    Resume,
    /// Change the mean rate, in packets/s; for workers that react to results, the cap of their rate
    Rate {
        /// As 50k, 2M or 0.5
        pps: PacketRate,
    },
    /// Multiply the current rate
    Factor {
        /// As 1.1 or 0.5
        #[arg(value_parser = positive)]
        factor: f64,
    },
    /// Reset live statistics to 0; records are not affected
    Reset,
    /// Print events, one JSON object per line, until the run ends
    Events,
}
