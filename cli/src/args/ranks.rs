//! Flags of `pktgen replay --rank`.

use clap::Args as ClapArgs;
use pktgen_core::units::Span;
use pktgen_realtime::run::{Instant, RankFlag};

/// One run by several processes under a launcher.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "One run from several hosts (docs/ranks.md)")]
pub(crate) struct Ranks {
    /// Rank of this process and number of ranks, from 0, as 0/3; auto: from mpirun, srun or PKTGEN_RANK. --out is a
    /// folder shared by all ranks; each writes into its rank-I
    #[arg(long, value_name = "auto|I/N", requires = "out", conflicts_with_all = ["role", "shard", "find_rate", "print_config", "dry_run", "jobs"])]
    pub(crate) rank: Option<RankFlag>,
    /// Role of each rank, as workers,workers,device,server [default: the last is the server, all others workers]
    #[arg(long, value_name = "LIST", requires = "rank")]
    pub(crate) roles: Option<String>,
    /// Start time, by each host's own clock, as 2026-11-22T19:45:00Z or seconds since 1970 [default: the next full
    /// second after all ranks are ready]
    #[arg(long, value_name = "T", requires = "rank")]
    pub(crate) start_at: Option<Instant>,
    /// Timeout for waiting for the other ranks
    #[arg(long, value_name = "SPAN", default_value = "60s", requires = "rank")]
    pub(crate) wait_ranks: Span,
    /// Rank 0 waits for the others to end, and merges all run dirs into the folder's whole
    #[arg(long, requires = "rank")]
    pub(crate) merge: bool,
    /// Device and server end after this time without a frame, once frames came, if they do not see all workers end
    #[arg(long, value_name = "SPAN", default_value = "30s", requires = "rank")]
    pub(crate) idle: Span,
    /// Device and server end after this time, as 60s
    #[arg(long = "for", value_name = "SPAN", requires = "rank")]
    pub(crate) most: Option<Span>,
}
