//! Flags of `pktgen certify`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::target::AllowLaunch;

const EXITS: &str = "\
Verdicts per clause: passed, failed, not decidable, not applicable, measured (performance without a goal). docs/certify.md has the clauses and the method.\n\
Exit codes: 0 no clause failed and all were decidable (the device conforms, if all clauses were tested); 1 a clause failed or is not decidable; 2 usage or configuration; 3 not possible on this host.";

/// The arguments of a test, which lists have no use for.
const OF_A_TEST: [&str; 11] =
    ["experiment", "set", "clause", "except", "run", "all_runs", "profile", "repeats", "seed", "out", "allow_launch"];

#[derive(Debug, ClapArgs)]
#[command(after_help = EXITS)]
pub(crate) struct Certify {
    /// Experiment file (TOML), or name of a built-in experiment (pktgen list configs)
    #[arg(required_unless_present_any = ["list", "markdown"])]
    pub(crate) experiment: Option<PathBuf>,
    /// Override a key, for example --set target.pool=16 (repeatable; takes precedence over file and environment)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Test only this clause, by id or number (repeatable) [default: all]
    #[arg(long, value_name = "CLAUSE")]
    pub(crate) clause: Vec<String>,
    /// Exclude this clause as not applicable, because the device does not claim it (repeatable)
    #[arg(long, value_name = "CLAUSE")]
    pub(crate) except: Vec<String>,
    /// Run of a sweep whose settings are used, by the name of its folder [default: the first]
    #[arg(long, value_name = "NAME")]
    pub(crate) run: Option<String>,
    /// Write a certificate for every run of the sweep, each in its own folder, and tables of the measurements
    #[arg(long, conflicts_with = "run")]
    pub(crate) all_runs: bool,
    /// Extent of the test: correctness; quick: correctness with two repeats, and throughput, about three minutes, no
    /// proof of conformance; full: with performance, with the durations of the RFCs
    #[arg(long, value_name = "NAME", default_value = "correctness", value_parser = ["correctness", "quick", "full"])]
    pub(crate) profile: String,
    /// Repeats of each clause [default: defined per clause]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeats: Option<u32>,
    /// Seed of all packet contents; not with --all-runs of a sweep of several seeds [default: that of the experiment]
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Folder for the certificate and its evidence; must be new or empty, or contain an interrupted certificate, which
    /// is resumed [default: runs/certify-NAME-N]
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) launch: AllowLaunch,
    /// Print the clauses and exit
    #[arg(long, conflicts_with_all = OF_A_TEST)]
    pub(crate) list: bool,
    /// Print the methodology with all clauses and exit: docs/certify.md
    #[arg(long, conflicts_with = "list", conflicts_with_all = OF_A_TEST)]
    pub(crate) markdown: bool,
}
