//! The settings of workers of sparse training, `[endpoint]`.

use std::sync::Arc;

use crate::format::{COLD_PAIR, HEADER, HOT_PAIRS};
use pktgen_core::config::{Section, settings};
use pktgen_core::record::Training;
use pktgen_core::time::{HORIZON, SECOND, Time};
use pktgen_core::{Error, Result};
use pktgen_wire::wire::frame::{FRAME_MAX, HEAD};
use pktgen_workload::sparse::Sparse;
use pktgen_workload::sparse::layout::Layout;
use pktgen_workload::sparse::packaging::{Estimate, Packaging};
use pktgen_workload::sparse::shards::{Partition, Shards};
use pktgen_workload::workload::Source;

use super::packing::{Heat, Rules};
use super::reliable::Reliable;
use pktgen_engine::endpoint::{Facts, WorkerKind, refuse_traffic_beside};
use pktgen_engine::target::sparse::Adder;

/// Maximum number of packets in flight.
const WINDOW_MAX: u32 = 1 << 16;
/// Maximum number of registers: those of more stages than any pipeline has.
const REGISTERS_MAX: u32 = 1 << 12;

settings! {
    /// What workers read from `[endpoint]` beside when they send again.
    pub(super) struct Written {
        /// Registers of the pipeline that hold hot parameters.
        registers: u32 = 28 in 1..=REGISTERS_MAX;
        /// Layout of parameters in registers.
        layout: bool = "heat" of [("heat", true, ""), ("random", false, "")];
        /// Packing order of pairs.
        packaging: Packaging = "algorithm1" of [
            ("algorithm1", Packaging::Algorithm1, ""), ("rank_order", Packaging::RankOrder, "")
        ];
        /// Estimate of a packet's room used by packing; not specified in the paper (§3.4, Algorithm 1, line 1).
        estimate: Estimate = "capacity" of [("capacity", Estimate::Capacity, ""), ("registers", Estimate::Registers, "")];
        /// Maximum number of recirculations per packet (§4: at most one).
        max_recirculations: u32 = 1;
        /// Size of frames with cold parameters, in bytes.
        cold_bytes: u32 = 1500 in (HEAD + HEADER + COLD_PAIR) as u32..=FRAME_MAX as u32;
        /// Window: packets in flight to a switch.
        window: u32 = 512 in 1..=WINDOW_MAX;
        /// Addition in the switch, by which sums of a device without books are checked: the same key as `target.add`.
        add: bool = "tables" of [("tables", true, ""), ("exact", false, "")];
        /// Distribution of parameters over several servers.
        partition: Partition = "hash" of [("hash", Partition::Hash, ""), ("ranges", Partition::Ranges, "")];
    }
}

settings! {
    /// What the server reads, too.
    pub(super) keys Shared {
        /// Whether workers are synchronised.
        mode: bool = "sync" of [("sync", false, ""), ("async", true, "each worker pulls what it needs")];
    }
}

/// The rules of all workers of a run.
#[derive(Clone)]
pub(super) struct Settings {
    pub rules: Rules,
    /// The adder of an external switch.
    pub adder: Adder,
    window: u32,
    pub reliable: Reliable,
    /// Whether another switch may take over without the packets that workers have sent.
    pub failover: bool,
    pub cold_bytes: usize,
    pub training: Training,
}

impl Settings {
    pub fn read(
        section: &mut Section,
        facts: &Facts,
        source: &dyn Source,
        kind: &dyn WorkerKind,
        hot: bool,
    ) -> Result<Self> {
        let sparse = sparse_of(source, kind.name())?;
        let written = Written::read(section)?;
        let Written { registers, packaging, estimate, max_recirculations, cold_bytes, window, .. } = written;
        let slots = sparse.hot().len().div_ceil(registers);
        let layout = match written.layout {
            true => Layout::heat(registers),
            false => Layout::random(registers, slots, facts.seed),
        };
        let reliable = Reliable::read(section)?;
        let pulls = is_asynchronous(section)?;
        let cold_pairs = (cold_bytes as usize - HEAD - HEADER) / COLD_PAIR;
        let shards = Arc::new(Shards::new(&sparse, &layout, written.partition, &facts.racks.rack_of));
        let rules = Rules { sparse, layout, shards, packaging, estimate, max_recirculations, hot, cold_pairs, pulls };
        let training = training(&rules, facts, window);
        let cold_bytes = HEAD + HEADER + cold_pairs * COLD_PAIR;
        let failover = hot && facts.standby.is_some();
        let adder = if written.add { Adder::tables() } else { Adder::Exact };
        Ok(Settings { rules, adder, window, failover, reliable, cold_bytes, training })
    }

    pub fn window(&self, heat: Heat) -> u32 {
        match heat {
            Heat::Hot => self.window,
            Heat::Cold => self.reliable.window,
        }
    }
}

/// Whether no worker waits for others, according to `mode`.
pub(super) fn is_asynchronous(section: &mut Section) -> Result<bool> {
    Shared::mode(section)
}

fn sparse_of(source: &dyn Source, who: &str) -> Result<Arc<Sparse>> {
    let sparse = source.known().sparse().ok_or_else(|| {
        Error::config(format!(
            "endpoint.workers = \"{who}\" sends the pairs of a sparse model in iterations: it needs workload.kind = \"sparse\", once and \
             unedited (no repeat, moves, stop, speed or background traffic)"
        ))
    })?;
    refuse_traffic_beside(source, who)?;
    Ok(sparse)
}

/// Returns the training for the manifest. The ideal time is computing plus sending every pair once over the worker's link.
fn training(rules: &Rules, facts: &Facts, window: u32) -> Training {
    let sparse = &rules.sparse;
    let bits = u128::from(sparse.pairs() + sparse.dense()) * 8 * COLD_PAIR as u128;
    let sending = bits * SECOND as u128 / u128::from(facts.host_rate_bps.max(1));
    Training {
        model: sparse.model().to_owned(),
        jobs: sparse.jobs(),
        workers: sparse.workers_per_job(),
        iterations: sparse.iterations(),
        blocks: sparse.pairs().div_ceil(HOT_PAIRS as u32),
        elements: sparse.parameters(),
        compute_ps: sparse.compute(),
        host_rate_bps: facts.host_rate_bps,
        ideal_ps: sparse.compute() + sending.min(HORIZON as u128) as Time,
        window,
        timeout_ps: None,
        iterations_to_target: None,
    }
}
