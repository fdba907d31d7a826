//! The keys of `[target]` that the program reads, and their limits.

use crate::format::RESULT_PAIRS;
use pktgen_core::config::Section;
use pktgen_core::time::{SECOND, Time};
use pktgen_core::units::{Rate, Size};
use pktgen_core::{Error, Result};

use super::failing::Failing;
use super::ranks::Ranks;
use super::resources::{Layouts, PARAMETER_BYTES, REGISTERS_PER_STAGE, Resources, STAGES};
use pktgen_engine::target::program::Place;
use pktgen_engine::target::sparse::{Adder, SparsePlace};

/// All keys.
pub const KEYS: &[&str] = &[
    "memory",
    "add",
    "repeat_writes",
    "bloom_bits",
    "bloom_hashes",
    "pass_latency",
    "stages",
    "recirculation_rate",
    "cpu_latency",
    "result_timeout",
    "records",
    "fails",
    "fails_at",
    "fails_then",
    "fails_then_at",
    "fails_device",
    "fails_loss",
    "fails_memory",
    "fails_delay",
];

/// How a switch finds out that it has added a packet before (LIBRA §3.6, "repeat-write-error").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// Every packet is looked up in exact records: ours.
    Strict,
    /// Only packets that say that they were resent are looked up in exact records, which the paper's switch has in its CPU.
    Paper,
    /// Only packets that say that they were resent are looked up in a Bloom filter, which the paper says would do as well.
    Bloom,
}

/// What the control plane configures.
#[derive(Clone)]
pub struct Settings {
    /// How it adds.
    pub adder: Adder,
    /// How it finds repeated writes.
    pub writes: Writes,
    /// Bits of a job's Bloom filter.
    pub bloom_bits: u32,
    /// Bits that a packet sets there.
    pub bloom_hashes: u32,
    /// Time of one pass through the pipeline.
    pub latency: Time,
    /// What the port carries by which frames go through it again; 0: no limit.
    pub recirculation_rate: Rate,
    /// Time that the switch's CPU takes for a packet.
    pub cpu_latency: Time,
    /// After how long a result is sent again for the first time.
    pub result_timeout: Time,
    /// Numbers of a worker that are remembered.
    pub records: u32,
    /// Memory that it takes.
    pub resources: Resources,
    /// What goes wrong with it.
    pub(super) failing: Failing,
}

impl Settings {
    /// Reads them for a device at `place`.
    pub fn read(section: &mut Section, place: &Place, known: &SparsePlace) -> Result<Self> {
        let workers = known.sparse.workers_per_job();
        if workers > Ranks::MAX {
            return Err(Error::config(format!(
                "workload.workers: a switch knows up to {} workers of a job, and there are {workers}",
                Ranks::MAX
            )));
        }
        let rack = place.rack();
        let hot = fits(section, known, rack)?;
        let tables = section.choose("add", "tables", &[("tables", true), ("exact", false)])?;
        let adder = if tables { Adder::tables() } else { Adder::Exact };
        let choices = [("strict", Writes::Strict), ("paper", Writes::Paper), ("bloom", Writes::Bloom)];
        let writes = section.choose("repeat_writes", "strict", &choices)?;
        let bloom_bits = section.get_in("bloom_bits", 1u32 << 17, 64..=1u32 << 27)?;
        let bloom_hashes = section.get_in("bloom_hashes", 3u32, 1..=16u32)?;
        // A pass through a switch's pipeline takes some hundred nanoseconds; the paper has no figure. Where time passes by
        // itself it is what the host takes.
        let latency = section.get_span_in("pass_latency", "400ns", 0..=SECOND)?;
        // §5.6: the CPU "may introduce extra delay". From the pipeline over PCIe to a process and back; ours, no figure in the paper.
        let recirculation_rate: Rate = section.get("recirculation_rate", "100Gbps")?;
        let cpu_latency = section.get_span_in("cpu_latency", "20us", 0..=SECOND)?;
        let result_timeout = section.get_span_in("result_timeout", "1ms", 1..=SECOND)?;
        let records = section.get_in("records", 4096u32, 1..=1u32 << 20)?;
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
        has_stages(section, &resources, known)?;
        let (latency, cpu_latency) = if place.real_time { (0, 0) } else { (latency, cpu_latency) };
        let recirculation_rate = if place.real_time { Rate::from_bps(0) } else { recirculation_rate };
        Ok(Settings {
            adder,
            writes,
            bloom_bits,
            bloom_hashes,
            latency,
            recirculation_rate,
            cpu_latency,
            result_timeout,
            records,
            resources,
            failing,
        })
    }

    /// What asking the CPU adds to the answer to a packet: in the mode of the paper its records are there, and only packets
    /// that say that they were resent are looked up (LIBRA §3.6: "Our current implement relies on local CPUs").
    pub(super) fn look_up(&self, attempt: u8) -> Time {
        if self.writes == Writes::Paper && attempt > 0 { self.cpu_latency } else { 0 }
    }
}

/// The stages that the program is estimated to take are at most those of a pipeline: twelve (LIBRA §4).
fn has_stages(section: &mut Section, resources: &Resources, known: &SparsePlace) -> Result<()> {
    let stages: u32 = section.get_in("stages", STAGES, 1..=1000u32)?;
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
        "{place}: {stages}, and with {registers} registers the program is estimated to take {}; {fewer}say with {place} how \
         many the switch has",
        resources.stages,
        place = section.place("stages")
    )))
}

/// Hot parameters of a job, if they fit its part of the memory: equal parts (LIBRA §6, "Multi-tenant training"). 1 MiB is
/// 5 % of a switch's 20 MiB, the most that the paper gives to registers (§5.1). `MB` is 10^6 and `MiB` 2^20 bytes.
fn fits(section: &mut Section, known: &SparsePlace, rack: u32) -> Result<u32> {
    let memory: Size = section.get("memory", "1MiB")?;
    let (jobs, hot) = (u64::from(known.sparse.jobs()).max(1), known.hot(rack));
    let each = memory.bits() / 8 / jobs / PARAMETER_BYTES;
    if each < u64::from(hot) {
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
            u64::from(hot) * jobs * PARAMETER_BYTES
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
