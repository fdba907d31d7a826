//! Flags of `pktgen certify`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::target::AllowLaunch;

const EXITS: &str = "\
Verdicts per clause: passed, failed, not decidable, not applicable. docs/certify.md has the clauses and the method.\n\
Exit codes: 0 nothing failed and all was decidable (the device conforms, where all clauses were carried out); 1 a clause failed or is not decidable; 2 usage or configuration; 3 this host cannot.";

#[derive(Debug, ClapArgs)]
#[command(after_help = EXITS)]
pub(crate) struct Certify {
    /// Experiment file (TOML), or a built-in experiment by its name (pktgen list configs)
    #[arg(required_unless_present_any = ["list", "markdown"])]
    pub(crate) experiment: Option<PathBuf>,
    /// Override a key, for example --set target.pool=16 (repeatable; wins over file and environment)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Only this clause, by its id or number (repeatable) [default: all]
    #[arg(long, value_name = "CLAUSE")]
    pub(crate) clause: Vec<String>,
    /// Not this clause, which the device is not said to follow: it is not applicable (repeatable)
    #[arg(long, value_name = "CLAUSE")]
    pub(crate) except: Vec<String>,
    /// Run of a sweep whose settings count, by the name of its folder [default: the first]
    #[arg(long, value_name = "NAME")]
    pub(crate) run: Option<String>,
    /// A certificate for every run of the sweep, each in a folder of its own, and tables of what was measured
    #[arg(long, conflicts_with = "run")]
    pub(crate) all_runs: bool,
    /// What is carried out: correctness; quick: that twice and the throughput, about three minutes, which is no conformance; full: with
    /// performance, for as long as the RFCs say
    #[arg(long, value_name = "NAME", default_value = "correctness", value_parser = ["correctness", "quick", "full"])]
    pub(crate) profile: String,
    /// Repeats of each clause [default: what each says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeats: Option<u32>,
    /// Seed of all content [default: that of the experiment]
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Folder for the certificate and its evidence; must be new or empty, or have a certificate that was killed, which goes on
    /// [default: runs/certify-NAME-N]
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) launch: AllowLaunch,
    /// Print the clauses and stop
    #[arg(long)]
    pub(crate) list: bool,
    /// Print the methodology with all clauses and stop: docs/certify.md
    #[arg(long, conflicts_with = "list")]
    pub(crate) markdown: bool,
}
