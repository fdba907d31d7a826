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
        factor: f64,
    },
    /// Count from 0 in live statistics; records keep everything
    Reset,
    /// Print what happens, one JSON object a line, until the run ends
    Events,
}
