//! Flags of `pktgen tune`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use pktgen_core::units::{PacketRate, Size};

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Sends on the interface at the maximum rate, or at --pps: connect it to a device that may be flooded, or leave it unconnected.\n\
Exit codes: 0 settings found; 1 interrupted, or no setting keeps the rate without loss; 2 usage or configuration; 3 no transport\n\
can send on the interface.")]
pub(crate) struct Tune {
    /// Interface that sends
    #[arg(value_name = "IF")]
    pub(crate) interface: String,
    /// Interface at the other end of the cable, in the same network namespace: settings that lose frames are excluded
    #[arg(long, value_name = "IF")]
    pub(crate) peer: Option<String>,
    /// Find the settings that keep deadlines best at this rate in packets/s, as 100k or 2M [default: those that send fastest]
    #[arg(long, value_name = "N")]
    pub(crate) pps: Option<PacketRate>,
    /// Frame size [default: 256B]
    #[arg(long, value_name = "SIZE")]
    pub(crate) bytes: Option<Size>,
    /// Rounds; every setting is tried once per round
    #[arg(long, value_name = "N", default_value_t = 9)]
    pub(crate) rounds: u32,
    /// Duration of a trial
    #[arg(long, value_name = "SPAN", default_value = "300ms")]
    pub(crate) trial: String,
    /// Override a key of the experiment used for trials, wires/rates, except those that are tuned (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Folder for transport.toml and tuning.json; must be new or empty [default: runs/tune-IF-N]
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
}
