//! Flags of `pktgen diagnose`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::AllowLaunch;

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Exit codes: 0 no problem found; 1 a cause is likely or certain; 2 usage, configuration or a damaged run;\n\
4 cause unknown, or the data to find it is missing. docs/diagnose.md has the causes.")]
pub(crate) struct Diagnose {
    /// Run dir, or experiment file (TOML) to run on this host
    #[arg(value_name = "RUN|EXPERIMENT", required_unless_present = "list")]
    pub(crate) subject: Option<PathBuf>,
    /// Override a key of the experiment (repeatable; takes precedence over file and environment)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Counters of the device for the run: a JSON object, or the run dir of `pktgen target`
    #[arg(long, value_name = "FILE|DIR")]
    pub(crate) device: Option<PathBuf>,
    /// Read files that were changed since they were written
    #[arg(long)]
    pub(crate) no_verify: bool,
    #[command(flatten)]
    pub(crate) launch: AllowLaunch,
    /// Print all causes and their codes as a Markdown table
    #[arg(long, conflicts_with = "subject")]
    pub(crate) list: bool,
}
