//! Flags of `pktgen control`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};
use pktgen_core::units::PacketRate;

#[derive(Debug, ClapArgs)]
pub(crate) struct Control {
    /// Socket that the run printed, or its run dir
    pub(crate) run: PathBuf,
    #[command(subcommand)]
    pub(crate) command: ControlCommand,
}

/// A number above 0.
fn positive(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|n: &f64| n.is_finite() && *n > 0.0)
        .ok_or_else(|| "it must be a number above 0".to_owned())
}

#[derive(Debug, Subcommand)]
pub(crate) enum ControlCommand {
    /// How it is steered at present
    Status,
    /// Begin to send (--hold), or go on
    Start,
    /// End the run cleanly
    Stop,
    /// Send nothing until told to go on
    Pause,
    /// Go on
    Resume,
    /// Another mean rate, in packets per second; of workers that react the cap of what they send
    Rate {
        /// As 50k, 2M or 0.5
        pps: PacketRate,
    },
    /// So many times the present rate
    Factor {
        /// As 1.1 or 0.5
        #[arg(value_parser = positive)]
        factor: f64,
    },
    /// Count from 0 in live statistics; records keep everything
    Reset,
    /// Print what happens, one JSON object a line, until the run ends
    Events,
}
