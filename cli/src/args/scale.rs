//! `pktgen trace scale`: what to make of a trace.

use std::path::PathBuf;

use clap::Args as ClapArgs;

#[derive(Debug, ClapArgs)]
pub(crate) struct Scale {
    /// Trace to read
    pub(crate) input: PathBuf,
    /// Trace to write
    #[arg(short, long)]
    pub(crate) out: PathBuf,
    /// Clusters
    #[arg(long)]
    pub(crate) clusters: Option<u16>,
    /// Workers in each cluster
    #[arg(long)]
    pub(crate) workers: Option<u32>,
    /// Updates of each worker
    #[arg(long)]
    pub(crate) updates: Option<u32>,
    /// Mean rate of the whole run, as 60Gbps
    #[arg(long)]
    pub(crate) rate: Option<String>,
    /// What times are multiplied by, as 0.001
    #[arg(long)]
    pub(crate) time: Option<String>,
    /// How unequal the workers' rates are: the exponent of their ratios (1 as recorded, 0 all equal)
    #[arg(long)]
    pub(crate) skew: Option<f64>,
    /// Frame size, as 256B
    #[arg(long)]
    pub(crate) bytes: Option<String>,
    /// Seed of what copies draw
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}
