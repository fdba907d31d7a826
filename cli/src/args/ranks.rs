//! Flags of `pktgen replay --rank`.

use clap::Args as ClapArgs;
use pktgen_core::units::Span;
use pktgen_realtime::run::{Instant, RankFlag};

/// One run by several processes under a launcher.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "One run from several hosts (docs/ranks.md)")]
pub(crate) struct Ranks {
    /// Be this rank of how many, from 0, as 0/3; auto: as mpirun, srun or PKTGEN_RANK say. --out is a folder that all ranks
    /// see, and each writes into its rank-I
    #[arg(long, value_name = "auto|I/N", requires = "out", conflicts_with_all = ["role", "shard", "find_rate", "print_config", "jobs"])]
    pub(crate) rank: Option<RankFlag>,
    /// What each rank is, as workers,workers,device,server [default: the last is the server, all others workers]
    #[arg(long, value_name = "LIST", requires = "rank")]
    pub(crate) roles: Option<String>,
    /// Begin then, by each host's own clock, as 2026-11-22T19:45:00Z or seconds since 1970 [default: the next full second
    /// after all ranks are ready]
    #[arg(long, value_name = "T", requires = "rank")]
    pub(crate) start_at: Option<Instant>,
    /// How long ranks wait for each other
    #[arg(long, value_name = "SPAN", default_value = "60s", requires = "rank")]
    pub(crate) wait_ranks: Span,
    /// Rank 0 waits for the others' ends, and joins all run dirs into the folder's whole
    #[arg(long, requires = "rank")]
    pub(crate) merge: bool,
    /// Device and server end when nothing came for so long, after something did, if they do not see that all workers have ended
    #[arg(long, value_name = "SPAN", default_value = "30s", requires = "rank")]
    pub(crate) idle: Span,
    /// They end after so long, as 60s
    #[arg(long = "for", value_name = "SPAN", requires = "rank")]
    pub(crate) most: Option<Span>,
}
