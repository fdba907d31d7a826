//! Flags of `pktgen device`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

use super::Experiment;

#[derive(Debug, Subcommand)]
pub(crate) enum Device {
    /// List built-in profiles
    List,
    /// Print a profile
    Show {
        /// Name of a profile (pktgen device list), or path of a profile file
        profile: String,
    },
    /// Check an experiment against every limit of a device, with the source of each limit
    #[command(after_help = DEVICE_EXITS)]
    Check(DeviceOf),
    /// Print the control-plane configuration of a device for an experiment, as JSON or in the device's own syntax where public
    #[command(after_help = DEVICE_EXITS)]
    Plan {
        #[command(flatten)]
        of: DeviceOf,
        /// json, or the device's own syntax (pktgen device show)
        #[arg(long, default_value = "json")]
        syntax: String,
        /// Write files into this folder instead of printing them; must be new or empty
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// Compare a capture with the expected packets of its run; prints the first wrong field of the first wrong packet, exit code 1 if there is one
    Compare(Captured),
}

/// A capture and the run that it is of.
#[derive(Debug, ClapArgs)]
pub(crate) struct Captured {
    #[command(flatten)]
    pub(crate) experiment: Experiment,
    /// Capture file: pcap or pcapng
    pub(crate) capture: PathBuf,
    /// Where the capture was made: between workers and device (every bit is compared), or behind the device (fields
    /// that its profile declares as rewritten are ignored)
    #[arg(long, value_parser = ["workers", "server"], default_value = "workers")]
    pub(crate) at: String,
    /// Run of the experiment's sweep, by the name of its folder [default: the first]
    #[arg(long, value_name = "NAME")]
    pub(crate) run: Option<String>,
}

/// A device and an experiment.
#[derive(Debug, ClapArgs)]
pub(crate) struct DeviceOf {
    /// Name of a profile, or path of a profile file
    pub(crate) profile: String,
    #[command(flatten)]
    pub(crate) experiment: Experiment,
    /// Run of the experiment's sweep, by the name of its folder [default: the first]
    #[arg(long, value_name = "NAME")]
    pub(crate) run: Option<String>,
}

const DEVICE_EXITS: &str = "docs/device.md describes profiles. Exit codes: 0 the experiment fits; 2 it exceeds a limit (the message has \
value, limit, source and remedy).";
