//! Flags of `pktgen tune`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use pktgen_core::units::{PacketRate, Size};

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Frames leave on the interface as fast as they can, or at --pps: connect it to a device that may be flooded, or to nothing.\n\
Exit codes: 0 settings were found; 1 stopped before, or none keeps the rate without a loss; 2 usage or configuration; 3 no transport\n\
can send on the interface.")]
pub(crate) struct Tune {
    /// Interface that sends
    #[arg(value_name = "IF")]
    pub(crate) interface: String,
    /// The interface at the other end of the cable, where it is in the same network namespace: settings that lose frames are not chosen
    #[arg(long, value_name = "IF")]
    pub(crate) peer: Option<String>,
    /// Find the settings that keep deadlines best at this rate, as 100k or 2M packets per second [default: those that send fastest]
    #[arg(long, value_name = "N")]
    pub(crate) pps: Option<PacketRate>,
    /// Bytes of a frame
    #[arg(long, value_name = "SIZE", default_value = "256B")]
    pub(crate) bytes: Size,
    /// Rounds, in each of which every setting is tried
    #[arg(long, value_name = "N", default_value_t = 9)]
    pub(crate) rounds: u32,
    /// Length of a trial
    #[arg(long, value_name = "SPAN", default_value = "300ms")]
    pub(crate) trial: String,
    /// Override a key of the experiment that is run, which is wires/rates (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Folder for transport.toml and tuning.json; must be new or empty [default: runs/tune-IF-N]
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
}
