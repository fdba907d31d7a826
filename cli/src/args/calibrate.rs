//! Flags of `pktgen calibrate`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::Experiment;

const EXITS: &str = "\
The experiment names its parameters in [[calibrate.parameters]]: docs/calibrate.md.\n\
Exit codes: 0 the targets can be met together, and a parameter is determined; 1 they cannot, or none is; 2 usage or configuration.";

#[derive(Debug, ClapArgs)]
#[command(after_help = EXITS)]
pub(crate) struct Calibrate {
    #[command(flatten)]
    pub(crate) experiment: Experiment,
    /// Target values: paper (published values of the experiment), a run dir or folder of runs, or a capture at the
    /// server; several are repeats [default: values in [[calibrate.targets]]]
    #[arg(long, value_name = "paper|RUN|CAPTURE")]
    pub(crate) to: Vec<PathBuf>,
    /// Predict an unmeasured point: keys with values, for example workload.clusters=4,schedule.offered=2Gbps (repeatable)
    #[arg(long, value_name = "KEY=VALUE,...")]
    pub(crate) predict: Vec<String>,
    /// Folder for the result; must be new or empty, or contain an interrupted calibration, which is resumed [default:
    /// runs/calibrate-NAME-N]
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
    /// Read runs of --to that were changed since they were written, and damaged captures
    #[arg(long)]
    pub(crate) no_verify: bool,
    /// Parallel runs, 1 to 1024 [default: one per core]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) jobs: Option<u16>,
}
