//! The settings of workers of sparse training, `[endpoint]`.

use std::sync::Arc;

use crate::format::{COLD_PAIR, HEADER, HOT_PAIRS};
use pktgen_core::config::{Section, joined};
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
use super::reliable::{self, Reliable};
use pktgen_engine::endpoint::{Facts, WorkerKind};

/// The keys that are read.
pub(super) const KEYS: &[&str] = &joined::<11>(&[OWN, &reliable::KEYS]);
const OWN: &[&str] = &[
    "mode",
    "registers",
    "layout",
    "packaging",
    "estimate",
    "max_recirculations",
    "cold_bytes",
    "window",
    "partition",
];

/// Most packets that may be under way.
const WINDOW_MAX: u32 = 1 << 16;
/// Most registers: those of more stages than any pipeline has.
const REGISTERS_MAX: u32 = 1 << 12;

/// The rules of all workers of a run.
#[derive(Clone)]
pub(super) struct Settings {
    pub rules: Rules,
    window: u32,
    pub reliable: Reliable,
    /// Another switch may take over, without what workers have sent.
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
        let registers = section.get_in("registers", 28u32, 1..=REGISTERS_MAX)?;
        let slots = sparse.hot().len().div_ceil(registers);
        let layout = match section.choose("layout", "heat", &[("heat", true), ("random", false)])? {
            true => Layout::heat(registers),
            false => Layout::random(registers, slots, facts.seed),
        };
        let packagings = [("algorithm1", Packaging::Algorithm1), ("rank_order", Packaging::RankOrder)];
        let packaging = section.choose("packaging", "algorithm1", &packagings)?;
        // §3.4, Algorithm 1, line 1: the paper does not say.
        let estimates = [("capacity", Estimate::Capacity), ("registers", Estimate::Registers)];
        let estimate = section.choose("estimate", "capacity", &estimates)?;
        // §4: at most once.
        let max_recirculations: u32 = section.get("max_recirculations", 1u32)?;
        let cold_bytes: u32 = section.get("cold_bytes", 1500u32)?;
        let head = (HEAD + HEADER) as u32;
        if !(head + COLD_PAIR as u32..=FRAME_MAX as u32).contains(&cold_bytes) {
            return Err(Error::config(format!(
                "{}: {cold_bytes}; a frame with cold parameters has {} to {FRAME_MAX} bytes",
                section.place("cold_bytes"),
                head + COLD_PAIR as u32
            )));
        }
        let window = section.get_in("window", 512u32, 1..=WINDOW_MAX)?;
        let reliable = Reliable::read(section)?;
        let pulls = is_asynchronous(section)?;
        let cold_pairs = (cold_bytes - head) as usize / COLD_PAIR;
        let partitions = [("hash", Partition::Hash), ("ranges", Partition::Ranges)];
        let partition = section.choose("partition", "hash", &partitions)?;
        let shards = Arc::new(Shards::new(&sparse, &layout, partition, &facts.racks.rack_of));
        let rules = Rules { sparse, layout, shards, packaging, estimate, max_recirculations, hot, cold_pairs, pulls };
        let training = training(&rules, facts, window);
        let cold_bytes = HEAD + HEADER + cold_pairs * COLD_PAIR;
        let failover = hot && facts.standby.is_some();
        Ok(Settings { rules, window, failover, reliable, cold_bytes, training })
    }

    pub fn window(&self, heat: Heat) -> u32 {
        match heat {
            Heat::Hot => self.window,
            Heat::Cold => self.reliable.window,
        }
    }
}

/// Whether by `mode` no worker waits for others.
pub(super) fn is_asynchronous(section: &mut Section) -> Result<bool> {
    section.choose("mode", "sync", &[("sync", false), ("async", true)])
}

fn sparse_of(source: &dyn Source, who: &str) -> Result<Arc<Sparse>> {
    source.known().sparse().ok_or_else(|| {
        Error::config(format!(
            "endpoint.workers = \"{who}\" sends the pairs of a sparse model in iterations: it needs workload.kind = \"sparse\", once and \
             unedited (no repeat, moves, stop, speed or background traffic)"
        ))
    })
}

/// What is trained, for the manifest. Ideal is: computing, and every pair once over the worker's link.
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
