//! Flags of the search for the highest rate.

use clap::Args as ClapArgs;

/// The search for the highest rate.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Finding the highest rate")]
pub(crate) struct FindRate {
    /// Find the highest rate with a loss of at most --loss, correct sums and, if given, an AoM of at most --aom
    #[arg(long, conflicts_with_all = ["role", "speed", "rate", "pps", "top", "passes"])]
    pub(crate) find_rate: bool,
    /// RFC 2544: measure throughput, latency, loss and bursts of raw frames of these sizes, with FCS [without sizes: 64,128,256,512,1024,1280,1518]
    #[arg(long, value_name = "BYTES", value_delimiter = ',', num_args = 0..=1, requires = "find_rate", conflicts_with_all = ["loss", "aom", "exceed", "sum"])]
    pub(crate) rfc2544: Option<Vec<u32>>,
    /// RFC 2544: number of latency trials, and of bursts that must pass
    #[arg(long, value_name = "N", default_value_t = 3, requires = "rfc2544")]
    pub(crate) repeats: u32,
    /// Maximum share of sent updates that may be dropped
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, requires = "find_rate")]
    pub(crate) loss: f64,
    /// Maximum mean Age-of-Model of clusters, as 5ms
    #[arg(long, value_name = "SPAN", requires = "find_rate")]
    pub(crate) aom: Option<String>,
    /// First rate to try, in packets/s
    #[arg(long, value_name = "PPS", default_value_t = 1000.0, requires = "find_rate")]
    pub(crate) from: f64,
    /// Highest rate to try, in packets/s
    #[arg(long, value_name = "PPS", default_value_t = 10_000_000.0, requires = "find_rate")]
    pub(crate) to: f64,
    /// Duration of a trial
    #[arg(long, value_name = "SPAN", default_value = "2s", requires = "find_rate")]
    pub(crate) trial: String,
    /// Precision: maximum relative distance between the passed and the failed rate
    #[arg(long, value_name = "SHARE", default_value_t = 0.02, requires = "find_rate")]
    pub(crate) precision: f64,
    /// Confirmation trials that the rate must pass
    #[arg(long, value_name = "N", default_value_t = 2, requires = "find_rate")]
    pub(crate) confirm: u32,
    /// Maximum number of trials; with --exceed or --sum, of rates
    #[arg(long, value_name = "N", default_value_t = 40, requires = "find_rate")]
    pub(crate) trials: u32,
    /// RFC 9971: repeat trials of a rate, each with its own seed; maximum share of their time in trials with more loss than --loss [default with --sum: 0.5]
    #[arg(long, value_name = "SHARE", requires = "find_rate", conflicts_with = "confirm")]
    pub(crate) exceed: Option<f64>,
    /// RFC 9971: total trial time that decides a rate [default with --exceed: 21 trials]
    #[arg(long, value_name = "SPAN", requires = "find_rate", conflicts_with = "confirm")]
    pub(crate) sum: Option<String>,
}
