//! Flags of `pktgen target`, and the flag that permits an experiment to start its device.

use clap::{Args as ClapArgs, Subcommand};

use super::{Experiment, Serve, Tempo};

#[derive(Debug, ClapArgs)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Target {
    #[command(subcommand)]
    pub(crate) other: Option<TargetCommand>,
    #[command(flatten)]
    pub(crate) experiment: Option<Experiment>,
    #[command(flatten)]
    pub(crate) tempo: Tempo,
    #[command(flatten)]
    pub(crate) serve: Serve,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TargetCommand {
    /// Start the device of an experiment ([target.launch]), wait until it is ready, report, and stop it; or probe its
    /// hardware
    Check {
        #[command(flatten)]
        experiment: Experiment,
        /// Run of the experiment's sweep, by the name of its folder
        #[arg(long, value_name = "NAME")]
        run: Option<String>,
        #[command(flatten)]
        launch: AllowLaunch,
    },
}

/// Commands of an experiment.
#[derive(Debug, Clone, Copy, ClapArgs)]
pub(crate) struct AllowLaunch {
    /// Allow the commands of the experiment's [target.launch], which start its device (docs/launch.md)
    #[arg(long)]
    pub(crate) allow_launch: bool,
}
