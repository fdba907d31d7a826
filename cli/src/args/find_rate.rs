//! Flags of the search for the highest rate.

use clap::Args as ClapArgs;

/// The search for the highest rate.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Finding the highest rate")]
pub(crate) struct FindRate {
    /// Search the highest rate without more loss than --loss, with correct sums and, if given, an AoM of at most --aom
    #[arg(long, conflicts_with_all = ["role", "speed", "rate", "pps", "top", "passes"])]
    pub(crate) find_rate: bool,
    /// RFC 2544: throughput, latency, losses and bursts of raw frames of these sizes, with FCS [without any: 64,128,256,512,1024,1280,1518]
    #[arg(long, value_name = "BYTES", value_delimiter = ',', num_args = 0..=1, requires = "find_rate", conflicts_with_all = ["loss", "aom", "exceed", "sum"])]
    pub(crate) rfc2544: Option<Vec<u32>>,
    /// RFC 2544: trials of latency, and bursts that must pass
    #[arg(long, value_name = "N", default_value_t = 3, requires = "rfc2544")]
    pub(crate) repeats: u32,
    /// Share of sent updates that may be dropped
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, requires = "find_rate")]
    pub(crate) loss: f64,
    /// Largest mean Age-of-Model of clusters, as 5ms
    #[arg(long, value_name = "SPAN", requires = "find_rate")]
    pub(crate) aom: Option<String>,
    /// First rate to try, in packets/s
    #[arg(long, value_name = "PPS", default_value_t = 1000.0, requires = "find_rate")]
    pub(crate) from: f64,
    /// Highest rate to try, in packets/s
    #[arg(long, value_name = "PPS", default_value_t = 10_000_000.0, requires = "find_rate")]
    pub(crate) to: f64,
    /// Length of a trial
    #[arg(long, value_name = "SPAN", default_value = "2s", requires = "find_rate")]
    pub(crate) trial: String,
    /// How near the rate that passed and the one that failed must be
    #[arg(long, value_name = "SHARE", default_value_t = 0.02, requires = "find_rate")]
    pub(crate) precision: f64,
    /// Further trials that the rate must pass
    #[arg(long, value_name = "N", default_value_t = 2, requires = "find_rate")]
    pub(crate) confirm: u32,
    /// Trials at most; with --exceed or --sum, rates at most
    #[arg(long, value_name = "N", default_value_t = 40, requires = "find_rate")]
    pub(crate) trials: u32,
    /// RFC 9971: repeat trials of a rate, each with a seed of its own; share of their time in which more than --loss may be lost [default with --sum: 0.5]
    #[arg(long, value_name = "SHARE", requires = "find_rate", conflicts_with = "confirm")]
    pub(crate) exceed: Option<f64>,
    /// RFC 9971: time of trials that decides about a rate [default with --exceed: 21 trials]
    #[arg(long, value_name = "SPAN", requires = "find_rate", conflicts_with = "confirm")]
    pub(crate) sum: Option<String>,
}
