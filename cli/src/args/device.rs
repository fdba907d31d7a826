//! Flags of `pktgen device`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

use super::Experiment;

#[derive(Debug, Subcommand)]
pub(crate) enum Device {
    /// The profiles that are built in
    List,
    /// Print a profile
    Show {
        /// Name of a profile (pktgen device list), or the path of one
        profile: String,
    },
    /// Check an experiment against every limit of a device, with the source of each limit
    #[command(after_help = DEVICE_EXITS)]
    Check(DeviceOf),
    /// Print the control-plane configuration of a device for an experiment, as JSON or in its own syntax where that is public
    #[command(after_help = DEVICE_EXITS)]
    Plan {
        #[command(flatten)]
        of: DeviceOf,
        /// json, or a syntax of the device's own (pktgen device show)
        #[arg(long, default_value = "json")]
        syntax: String,
        /// Write files into this folder, which must be new or empty, instead of printing them
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// Compare a capture with what its run should have sent: prints the first wrong field of the first wrong packet; exit code 1 if there is one
    Compare(Captured),
}

/// A capture and the run that it is of.
#[derive(Debug, ClapArgs)]
pub(crate) struct Captured {
    #[command(flatten)]
    pub(crate) experiment: Experiment,
    /// The capture: pcap or pcapng
    pub(crate) capture: PathBuf,
    /// Where it was made: between workers and device, where every bit counts, or behind the device, where what its profile
    /// says that it rewrites does not
    #[arg(long, value_parser = ["workers", "server"], default_value = "workers")]
    pub(crate) at: String,
    /// Which run of the experiment's sweep, by its folder's name [default: the first]
    #[arg(long, value_name = "NAME")]
    pub(crate) run: Option<String>,
}

/// A device and an experiment.
#[derive(Debug, ClapArgs)]
pub(crate) struct DeviceOf {
    /// Name of a profile, or the path of one
    pub(crate) profile: String,
    #[command(flatten)]
    pub(crate) experiment: Experiment,
    /// Which run of the experiment's sweep, by its folder's name [default: the first]
    #[arg(long, value_name = "NAME")]
    pub(crate) run: Option<String>,
}

const DEVICE_EXITS: &str = "docs/device.md describes profiles. Exit codes: 0 it fits; 2 the profile refuses, with the value, the limit, its \
source and the way out.";
