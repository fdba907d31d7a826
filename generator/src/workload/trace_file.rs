//! Replaying trace files one after the other, as recorded or scaled in time.

use super::survey::{Leg, Survey, Traces};
use super::{Source, Update, Workload};
use crate::config::Section;
use crate::gradient::Pool;
use crate::registry::{Named, find};
use crate::schedule::{SCHEDULES, Tempo};
use crate::seed::Seed;
use crate::time::Time;
use crate::topology::Population;
use crate::trace::{Block, Reader, Stretch};
use crate::wire::olaf::{FRAME_MIN, elements_in};
use crate::{Error, Result};

/// `kind = "trace"`.
pub struct TraceFile;

impl Named for TraceFile {
    fn name(&self) -> &'static str {
        "trace"
    }
    fn about(&self) -> &'static str {
        "updates from Parquet traces (workload.trace = FILE, or several)"
    }
}

impl Workload for TraceFile {
    fn keys(&self) -> &'static [&'static str] {
        &["trace"]
    }

    /// Opens the traces. Times start at 0 with the first update; [`Tempo::of_trace`] says how they are scaled.
    fn open(&self, section: &mut Section, schedule: &mut Section, seed: Seed) -> Result<Box<dyn Source>> {
        let Some(traces) = section.get_opt::<Traces>("trace")? else {
            return Err(Error::config(format!(
                "{}: workload \"trace\" needs a file; set workload.trace",
                section.place("kind")
            )));
        };
        let kind: String = schedule.get("kind", "as_recorded")?;
        find(SCHEDULES, "schedule", &kind, &schedule.place("kind"))?;
        schedule.settle("kind", "as_recorded");
        let tempo = Tempo::of_trace(schedule)?;
        let Survey { legs, population, pass, frame_max } = Survey::make(&traces, &section.place("trace"))?;
        let numbers = vec![0; population.len()];
        let mut source = Recorded {
            pool: Pool::new(seed, elements_in((frame_max as usize).max(FRAME_MIN))),
            population,
            reader: Reader::open(&legs[0].path)?,
            legs,
            leg: 0,
            block: Block::default(),
            at: 0,
            stretch: tempo.stretch(&pass, 0, schedule)?,
            base: numbers.clone(),
            next: numbers,
            head: None,
            failure: None,
            frame_max,
            rest: tempo.rest(&pass),
        };
        source.load();
        Ok(Box::new(source))
    }

    fn keeps_tempo(&self) -> bool {
        true
    }
}

struct Recorded {
    pool: Pool,
    population: Population,
    /// The files; `reader` reads the one at `leg`.
    legs: Vec<Leg>,
    leg: usize,
    reader: Reader,
    block: Block,
    at: usize,
    stretch: Stretch,
    /// What is added to each worker's sequence numbers in this file, and one more than its last there.
    base: Vec<u64>,
    next: Vec<u64>,
    head: Option<Update>,
    failure: Option<String>,
    frame_max: u32,
    rest: Option<Time>,
}

impl Recorded {
    /// Makes the update at `at` the head, reading the next block where this one ends.
    fn load(&mut self) {
        self.head = None;
        while self.at >= self.block.updates.len() {
            match self.next_block() {
                Ok(Some(block)) => (self.block, self.at) = (block, 0),
                Ok(None) => return,
                Err(e) => {
                    self.failure = Some(e.to_string());
                    return;
                }
            }
        }
        match self.place(&self.block.updates[self.at]) {
            Some(update) => {
                self.next[update.worker as usize] = u64::from(update.seq) + 1;
                self.head = Some(update);
            }
            // The survey has seen every row: this is another file now.
            None => self.failure = Some("the trace was changed while it was replayed".to_owned()),
        }
    }

    /// The next block of this file, or of the next one.
    fn next_block(&mut self) -> Result<Option<Block>> {
        loop {
            if let Some(block) = self.reader.next_block()? {
                return Ok(Some(block));
            }
            let Some(leg) = self.legs.get(self.leg + 1) else { return Ok(None) };
            self.reader = Reader::open(&leg.path)?;
            self.leg += 1;
            self.base.copy_from_slice(&self.next);
        }
    }

    /// An update of a file with its time and number in the replay; none if the survey has not seen it.
    fn place(&self, update: &Update) -> Option<Update> {
        let base = *self.base.get(update.worker as usize)?;
        let t_gen = self.stretch.at(self.legs[self.leg].at(update.t_gen)?)?;
        let seq = u32::try_from(u64::from(update.seq) + base).ok()?;
        (update.bytes <= self.frame_max).then_some(Update { t_gen, seq, ..*update })
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

    fn rest(&self) -> Option<Time> {
        self.rest
    }

    fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Writer;

    #[test]
    fn broken_traces_are_not_replayed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        let good = Update { t_gen: 5, cluster: 0, worker: 0, seq: 0, bytes: 256, reward: Some(1.0), iteration: None };
        for (second, part) in [
            (Update { seq: 0, ..good }, "row 1: worker 0 has seq 0 after 1 updates"),
            (Update { seq: 2, ..good }, "seq 2 after 1"),
            (Update { seq: 1, reward: Some(f32::INFINITY), ..good }, "finite"),
            (Update { seq: 1, cluster: 1, ..good }, "clusters 0 and 1"),
            (Update { worker: 2, ..good }, "dense"),
            (Update { seq: 1, bytes: 10_000, ..good }, "10000 bytes"),
            (Update { seq: 1, t_gen: Time::MAX, ..good }, "26 days"),
        ] {
            let mut writer = Writer::create(&path).unwrap();
            writer.push(&good, &[]).unwrap();
            writer.push(&second, &[]).unwrap();
            writer.finish("recorded", Default::default(), "CC0-1.0").unwrap();
            let mut section = Section::of("workload", &[("trace", path.display().to_string().into())]);
            let opened = TraceFile.open(&mut section, &mut Section::of("schedule", &[]), Seed(1));
            let message = opened.err().expect(part).to_string();
            assert!(message.contains(part), "{message}");
        }
    }
}
