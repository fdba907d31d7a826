//! Flags of `pktgen init`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Exit codes: 0 written, and it can run here; 2 usage or configuration; 3 it cannot run on this host, or an interface is\n\
refused. Without a terminal nothing is asked: a flag that is missing is an error that names it.")]
pub(crate) struct Init {
    /// Folder for experiment.toml and device.toml; must be new or empty
    pub(crate) out: PathBuf,
    /// Device: a profile of pktgen device list, the path of one, or a system (olaf, switchml, trio_ml, libra)
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<String>,
    /// Command that is the device: it is launched for every run
    #[arg(long, value_name = "CMD")]
    pub(crate) launch: Option<String>,
    /// Interfaces of the launched device, which are made with those of pktgen: workers' side, server's side
    #[arg(long, value_name = "IF,IF", value_delimiter = ',', requires = "launch")]
    pub(crate) ports: Vec<String>,
    /// Command that prints the launched device's counters as a JSON object
    #[arg(long, value_name = "CMD", requires = "launch")]
    pub(crate) counters: Option<String>,
    /// Interface of the workers
    #[arg(long, value_name = "IF")]
    pub(crate) workers_if: Option<String>,
    /// Interface of the parameter server, for systems that have one
    #[arg(long, value_name = "IF")]
    pub(crate) server_if: Option<String>,
    /// Number of workers
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) workers: Option<u32>,
    /// Rate of all workers together, as 20Mbps; what waits for results does not exceed it [default: that of the device's template; none
    /// for what waits for results]
    #[arg(long, value_name = "RATE")]
    pub(crate) rate: Option<String>,
}
