//! Flags of `pktgen trace scale`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

#[derive(Debug, ClapArgs)]
pub(crate) struct Scale {
    /// Trace to read
    pub(crate) input: PathBuf,
    /// Trace to write
    #[arg(short, long)]
    pub(crate) out: PathBuf,
    /// Number of clusters
    #[arg(long)]
    pub(crate) clusters: Option<u16>,
    /// Workers per cluster
    #[arg(long)]
    pub(crate) workers: Option<u32>,
    /// Updates per worker
    #[arg(long)]
    pub(crate) updates: Option<u32>,
    /// Mean rate of the whole run, as 60Gbps
    #[arg(long)]
    pub(crate) rate: Option<String>,
    /// Factor of all times, as 0.001
    #[arg(long)]
    pub(crate) time: Option<String>,
    /// Skew of the workers' rates: exponent of their ratios (1 as recorded, 0 all equal)
    #[arg(long)]
    pub(crate) skew: Option<f64>,
    /// Frame size, as 256B
    #[arg(long)]
    pub(crate) bytes: Option<String>,
    /// Seed of random choices for copied workers
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}
