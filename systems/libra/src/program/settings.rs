//! The keys of `[target]` for the program, and their limits.

use crate::format::RESULT_PAIRS;
use pktgen_core::config::{Section, settings, spans};
use pktgen_core::time::{SECOND, Time};
use pktgen_core::units::{Rate, Size, Span};
use pktgen_core::{Error, Result};

use super::failing::Failing;
use super::ranks::Ranks;
use super::resources::{Layouts, PARAMETER_BYTES, REGISTERS_PER_STAGE, Resources, STAGES};
use pktgen_engine::target::program::Place;
use pktgen_engine::target::sparse::{Adder, SparsePlace};

/// How a switch detects packets that were already added (LIBRA §3.6, "repeat-write-error").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// Every packet is looked up in exact records (our choice).
    Strict,
    /// Only packets marked as resent are looked up in exact records, which the paper's switch has in its CPU.
    Paper,
    /// Only packets marked as resent are looked up in a Bloom filter, which the paper mentions as an alternative.
    Bloom,
}

settings! {
    /// What it reads from `[target]`, failures apart.
    #[derive(Clone, Copy)]
    pub(crate) struct Written {
        /// Register memory, divided equally among jobs (LIBRA §6). 1 MiB is 5 % of a switch's 20 MiB, the maximum of §5.1.
        memory: Size = "1MiB";
        /// Addition in the switch: by lookup tables, as in the paper, or exact.
        add: bool = "tables" of [("tables", true, ""), ("exact", false, "")];
        /// Detection of packets that were already added (LIBRA §3.6).
        repeat_writes: Writes = "strict" of [
            ("strict", Writes::Strict, "looks up every packet in exact records"),
            ("paper", Writes::Paper, "the CPU looks up resent packets"),
            ("bloom", Writes::Bloom, "looks up resent packets in a Bloom filter")
        ];
        /// Size of a job's Bloom filter, in bits.
        bloom_bits: u32 = (1 << 17) in 64..=1 << 27;
        /// Hash functions of the Bloom filter: bits set per packet.
        bloom_hashes: u32 = 3 in 1..=16;
        /// Latency of one pass through the pipeline: some hundred nanoseconds; no figure in the paper.
        pass_latency: Span = "400ns" in spans(0..=SECOND);
        /// Rate of the recirculation port; 0: unlimited.
        recirculation_rate: Rate = "100Gbps";
        /// Latency of the switch's CPU per packet: over PCIe to a process and back. §5.6: it "may introduce extra
        /// delay"; no figure in the paper.
        cpu_latency: Span = "20us" in spans(0..=SECOND);
        /// Initial retransmission timeout of a result.
        result_timeout: Span = "1ms" in spans(1..=SECOND);
        /// Sequence numbers remembered per worker.
        records: u32 = 4096 in 1..=1 << 20;
        /// Stages of the pipeline (LIBRA §4: twelve).
        stages: u32 = STAGES in 1..=1000;
    }
}

/// The configuration by the control plane.
#[derive(Clone)]
pub struct Settings {
    /// The adder.
    pub adder: Adder,
    /// How repeated writes are detected.
    pub writes: Writes,
    /// Number of bits of a job's Bloom filter.
    pub bloom_bits: u32,
    /// Number of bits set per packet.
    pub bloom_hashes: u32,
    /// Latency of one pass through the pipeline.
    pub latency: Time,
    /// Rate of the recirculation port; 0: unlimited.
    pub recirculation_rate: Rate,
    /// Latency of the switch's CPU per packet.
    pub cpu_latency: Time,
    /// Initial retransmission timeout of a result.
    pub result_timeout: Time,
    /// Number of sequence numbers remembered per worker.
    pub records: u32,
    /// Resources that it uses.
    pub resources: Resources,
    /// Its failures.
    pub(super) failing: Failing,
}

impl Settings {
    /// Reads the settings for a device at `place`.
    pub fn read(section: &mut Section, place: &Place, known: &SparsePlace) -> Result<Self> {
        let workers = known.sparse.workers_per_job();
        if workers > Ranks::MAX {
            return Err(Error::config(format!(
                "workload.workers: a switch knows up to {} workers of a job, and there are {workers}",
                Ranks::MAX
            )));
        }
        let rack = place.rack();
        let written = Written::read(section)?;
        let hot = fits(section, written.memory, known, rack)?;
        let Written { add, repeat_writes: writes, bloom_bits, records, .. } = written;
        let adder = if add { Adder::tables() } else { Adder::Exact };
        if records < known.window {
            return Err(Error::config(format!(
                "{}: {records} numbers of a worker are remembered, and it may have {} packets unacknowledged; give {1} \
                 or more, or a smaller endpoint.window",
                section.place("records"),
                known.window
            )));
        }
        let failing = Failing::read(section, place, known.sparse.seed())?;
        let resources = Resources::of(&Layouts {
            hot,
            position_tables: if known.shards.racks() > 1 { known.sparse.jobs().into() } else { 1 },
            jobs: known.sparse.jobs().into(),
            registers: known.layout.registers(),
            tables: adder.bytes(),
            workers: known.sparse.workers(),
            window: known.window,
            writes,
            bloom_bits,
        });
        has_stages(section, written.stages, &resources, known)?;
        // In real time, the host's own time replaces these.
        let (latency, cpu_latency, recirculation_rate) = match place.real_time {
            true => (0, 0, Rate::from_bps(0)),
            false => (written.pass_latency.ps(), written.cpu_latency.ps(), written.recirculation_rate),
        };
        Ok(Settings {
            adder,
            writes,
            bloom_bits,
            bloom_hashes: written.bloom_hashes,
            latency,
            recirculation_rate,
            cpu_latency,
            result_timeout: written.result_timeout.ps(),
            records,
            resources,
            failing,
        })
    }

    /// Returns the additional delay of an answer due to the CPU: in the paper's mode the records are there, and only
    /// packets marked as resent are looked up (LIBRA §3.6: "Our current implement relies on local CPUs").
    pub(super) fn look_up(&self, attempt: u8) -> Time {
        if self.writes == Writes::Paper && attempt > 0 { self.cpu_latency } else { 0 }
    }
}

/// Checks that the estimated number of stages does not exceed that of a pipeline: twelve (LIBRA §4).
fn has_stages(section: &Section, stages: u32, resources: &Resources, known: &SparsePlace) -> Result<()> {
    if resources.stages <= stages {
        return Ok(());
    }
    let over = (resources.stages - stages) * REGISTERS_PER_STAGE;
    let registers = known.layout.registers();
    let fewer = match registers.next_multiple_of(REGISTERS_PER_STAGE).saturating_sub(over) {
        0 => String::new(),
        fewer => format!("give {fewer} endpoint.registers or fewer ({REGISTERS_PER_STAGE} are a stage), or "),
    };
    Err(Error::config(format!(
        "{}: {stages}, and with {registers} registers the program is estimated to take {}; {fewer}say with \
         target.stages how many the switch has",
        section.place("stages"),
        resources.stages
    )))
}

/// Returns the number of hot parameters of a job if they fit into its equal share of the memory (LIBRA §6, "Multi-tenant training"). 1 MiB
/// is 5 % of a switch's 20 MiB, the maximum that the paper gives to registers (§5.1). `MB` is 10^6 and `MiB` 2^20 bytes.
fn fits(section: &Section, memory: Size, known: &SparsePlace, rack: u32) -> Result<u32> {
    let (jobs, hot) = (u64::from(known.sparse.jobs()).max(1), known.hot(rack));
    let each = memory.bits() / 8 / jobs / PARAMETER_BYTES;
    if each < u64::from(hot) {
        // All switches have the same memory, so the one with the most parameters decides.
        let most = (0..known.shards.racks()).map(|rack| known.hot(rack)).max().unwrap_or(hot);
        return Err(Error::config(format!(
            "{}: {memory} for {jobs} jobs holds {each} parameters of {PARAMETER_BYTES} B each, and {}; give {} B or more, fewer jobs \
             or fewer hot parameters",
            section.place("memory"),
            match known.shards.racks() {
                1 => format!("workload.hot is {hot}"),
                racks => format!(
                    "of {} workload.hot the switch of rack {rack} of {racks} has {hot}",
                    known.sparse.hot().len()
                ),
            },
            u64::from(most) * jobs * PARAMETER_BYTES
        )));
    }
    let most = u32::from(u16::MAX) * RESULT_PAIRS as u32;
    if hot > most {
        return Err(Error::config(format!(
            "workload.hot: {hot}; the results of an iteration are at most {} packets of {RESULT_PAIRS} parameters; give {most} \
             or less",
            u16::MAX
        )));
    }
    Ok(hot)
}
