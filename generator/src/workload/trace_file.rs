//! Replaying a trace file, as recorded or scaled in time.

use std::path::Path;

use super::{Source, Update, Workload};
use crate::config::Section;
use crate::gradient::Pool;
use crate::record::{NO_CLUSTER, PacketId};
use crate::registry::Named;
use crate::seed::Seed;
use crate::time::{SECOND, Time};
use crate::topology::Population;
use crate::trace::{Block, Reader};
use crate::units::Rate;
use crate::wire::frame::{FRAME_MAX, HEAD};
use crate::wire::olaf::{FRAME_MIN, elements_in};
use crate::{Error, Result};

/// `kind = "trace"`.
pub struct TraceFile;

impl Named for TraceFile {
    fn name(&self) -> &'static str {
        "trace"
    }
    fn about(&self) -> &'static str {
        "updates from a Parquet trace (workload.trace = FILE)"
    }
}

impl Workload for TraceFile {
    fn open(&self, section: &mut Section, _: &mut Section, _: Seed) -> Result<Box<dyn Source>> {
        Err(Error::config(format!("{}: workload \"trace\" needs a file; set workload.trace", section.place("kind"))))
    }
}

/// Opens the trace at `path`. Times are as recorded, divided by `schedule.speed`, or stretched so that
/// the whole run has the rate `schedule.offered`.
pub(super) fn open(path: &Path, _: &mut Section, schedule: &mut Section, seed: Seed) -> Result<Box<dyn Source>> {
    let _: String = schedule.get("kind", "as_recorded")?;
    let speed: f64 = schedule.get("speed", 1.0)?;
    let offered: Option<Rate> = schedule.get_opt("offered")?;
    if speed.partial_cmp(&0.0) != Some(std::cmp::Ordering::Greater) {
        return Err(Error::config(format!("{}: {speed} is not above 0", schedule.place("speed"))));
    }
    let survey = Survey::make(path)?;
    // 2³² parts of one, so that scaling is exact integer arithmetic.
    let one = 1u128 << 32;
    let factor = match offered {
        Some(rate) if survey.last > survey.first && rate.bps() > 0 => {
            let wanted = survey.bits * SECOND as u128 / u128::from(rate.bps());
            wanted * one / (survey.last - survey.first) as u128
        }
        _ => (one as f64 / speed) as u128,
    };
    let mut source = Recorded {
        pool: Pool::new(seed, elements_in((survey.frame_max as usize).max(FRAME_MIN))),
        population: survey.population,
        reader: Reader::open(path)?,
        block: Block::default(),
        at: 0,
        first: survey.first,
        factor,
        head: None,
        failure: None,
        frame_max: survey.frame_max,
    };
    source.load();
    Ok(Box::new(source))
}

/// What must be known of a trace before it is replayed.
struct Survey {
    population: Population,
    first: Time,
    last: Time,
    bits: u128,
    frame_max: u32,
}

impl Survey {
    fn make(path: &Path) -> Result<Self> {
        let mut reader = Reader::open(path)?;
        let mut survey = Survey {
            population: Population { cluster_of: Vec::new() },
            first: Time::MAX,
            last: Time::MIN,
            bits: 0,
            frame_max: 0,
        };
        let mut row = 0u64;
        while let Some(block) = reader.next_block()? {
            for update in &block.updates {
                survey
                    .add(update)
                    .map_err(|what| Error::data(path, format!("row {row}: {what}; `pktgen trace check` tells more")))?;
                row += 1;
            }
        }
        match survey.population.cluster_of.iter().position(|c| *c == u16::MAX - 1) {
            Some(worker) => {
                Err(Error::data(path, format!("worker {worker} has no updates; worker ids must be dense from 0")))
            }
            None => Ok(survey),
        }
    }

    fn add(&mut self, update: &Update) -> Result<(), String> {
        let least = if update.cluster == NO_CLUSTER { HEAD } else { FRAME_MIN };
        if update.worker >= PacketId::WORKERS_MAX {
            return Err(format!("worker {} is not below {}", update.worker, PacketId::WORKERS_MAX));
        }
        if !(least as u32..=FRAME_MAX as u32).contains(&update.bytes) {
            return Err(format!("{} bytes; frames have {least} to {FRAME_MAX}", update.bytes));
        }
        if update.t_gen < self.last.max(0) {
            return Err(format!("time {} ps is before {} ps", update.t_gen, self.last.max(0)));
        }
        let clusters = &mut self.population.cluster_of;
        let id = update.worker as usize;
        if id >= clusters.len() {
            // A mark for workers not seen yet; it is not a cluster that traces may use.
            clusters.resize(id + 1, u16::MAX - 1);
        }
        if clusters[id] != u16::MAX - 1 && clusters[id] != update.cluster {
            return Err(format!("worker {id} is in clusters {} and {}", clusters[id], update.cluster));
        }
        clusters[id] = update.cluster;
        self.first = self.first.min(update.t_gen);
        self.last = update.t_gen;
        self.bits += u128::from(update.bytes) * 8;
        self.frame_max = self.frame_max.max(update.bytes);
        Ok(())
    }
}

struct Recorded {
    pool: Pool,
    population: Population,
    reader: Reader,
    block: Block,
    at: usize,
    first: Time,
    factor: u128,
    head: Option<Update>,
    failure: Option<String>,
    frame_max: u32,
}

impl Recorded {
    /// Makes the update at `at` the head, reading the next block where this one ends.
    fn load(&mut self) {
        while self.at >= self.block.updates.len() {
            match self.reader.next_block() {
                Ok(Some(block)) => (self.block, self.at) = (block, 0),
                Ok(None) => {
                    self.head = None;
                    return;
                }
                Err(e) => {
                    self.failure = Some(e.to_string());
                    self.head = None;
                    return;
                }
            }
        }
        let mut update = self.block.updates[self.at];
        update.t_gen = (((update.t_gen - self.first) as u128 * self.factor) >> 32) as Time;
        self.head = Some(update);
    }
}

impl Source for Recorded {
    fn population(&self) -> &Population {
        &self.population
    }

    fn frame_max(&self) -> u32 {
        self.frame_max
    }

    fn peek(&self) -> Option<&Update> {
        self.head.as_ref()
    }

    fn take(&mut self, values: &mut [u8]) {
        let Some(update) = self.head else { return };
        let recorded = self.block.values(self.at);
        if recorded.is_empty() {
            self.pool.fill(update.worker, update.seq, values);
        } else {
            // A shorter recording repeats: real values in every lane.
            for (value, number) in values.as_chunks_mut::<4>().0.iter_mut().zip(recorded.iter().cycle()) {
                *value = number.to_le_bytes();
            }
        }
        self.at += 1;
        self.load();
    }

    fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
}
