//! Flags of `pktgen init`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Exit codes: 0 written, and can run on this host; 2 usage or configuration; 3 cannot run on this host, or an interface\n\
is refused. Without a terminal there are no questions: a missing flag is an error, which names it.")]
pub(crate) struct Init {
    /// Folder for experiment.toml and device.toml; must be new or empty
    pub(crate) out: PathBuf,
    /// Device: a profile (pktgen device list), path of a profile file, or a system (olaf, switchml, trio_ml, libra)
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<String>,
    /// Command that runs the device; launched for every run
    #[arg(long, value_name = "CMD")]
    pub(crate) launch: Option<String>,
    /// Interfaces of the launched device: workers' side, server's side; created together with those of pktgen
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
    /// Total rate of all workers, as 20Mbps; for workers that wait for results, an upper limit [default: that of the
    /// device's template; no limit for workers that wait for results]
    #[arg(long, value_name = "RATE")]
    pub(crate) rate: Option<String>,
}
