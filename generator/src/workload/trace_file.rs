//! Replaying a trace file, as recorded or scaled in time.

use std::path::Path;

use super::{Source, Update, Workload};
use crate::config::Section;
use crate::gradient::Pool;
use crate::registry::{Named, find};
use crate::schedule::{SCHEDULES, Tempo};
use crate::seed::Seed;
use crate::time::{Time, too_late};
use crate::topology::Population;
use crate::trace::{Block, Reader, Rules, Stretch};
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
    fn keys(&self) -> &'static [&'static str] {
        &["trace"]
    }

    /// Opens the trace. Times start at 0 with its first update; [`Tempo::read`] says how they are scaled.
    fn open(&self, section: &mut Section, schedule: &mut Section, seed: Seed) -> Result<Box<dyn Source>> {
        let Some(path) = section.get_opt::<String>("trace")? else {
            return Err(Error::config(format!(
                "{}: workload \"trace\" needs a file; set workload.trace",
                section.place("kind")
            )));
        };
        let path = Path::new(&path);
        let kind: String = schedule.get("kind", "as_recorded")?;
        find(SCHEDULES, "schedule", &kind, &schedule.place("kind"))?;
        schedule.settle("kind", "as_recorded");
        let tempo = Tempo::read(schedule)?;
        let survey = Survey::make(path)?;
        let stretch = survey.stretch(tempo, schedule)?;
        let mut source = Recorded {
            pool: Pool::new(seed, elements_in((survey.frame_max as usize).max(FRAME_MIN))),
            population: survey.population,
            reader: Reader::open(path)?,
            block: Block::default(),
            at: 0,
            stretch,
            head: None,
            failure: None,
            frame_max: survey.frame_max,
        };
        source.load();
        Ok(Box::new(source))
    }
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
    /// Reads the whole trace and refuses it if it breaks a rule.
    fn make(path: &Path) -> Result<Self> {
        let mut reader = Reader::open(path)?;
        let mut rules = Rules::default();
        let population = Population::default();
        let mut survey = Survey { population, first: Time::MAX, last: 0, bits: 0, frame_max: 0 };
        let refuse = |what: &str| Error::data(path, format!("{what}; `pktgen trace check` tells more"));
        while let Some(block) = reader.next_block()? {
            for (i, update) in block.updates.iter().enumerate() {
                rules.update(update, block.values(i));
                survey.first = survey.first.min(update.t_gen);
                survey.last = update.t_gen;
                survey.bits += u128::from(update.bytes) * 8;
                survey.frame_max = survey.frame_max.max(update.bytes);
            }
            if let Some(what) = rules.problems().first() {
                return Err(refuse(what));
            }
        }
        let (clusters, problems) = rules.finish();
        match problems.first() {
            Some(what) => Err(refuse(what)),
            None => {
                survey.population.cluster_of = clusters;
                Ok(survey)
            }
        }
    }

    /// How times are scaled; refuses a tempo at which the trace is too long.
    fn stretch(&self, tempo: Tempo, schedule: &Section) -> Result<Stretch> {
        let (stretch, key) = match tempo {
            Tempo::Recorded => (Stretch::none(self.first), "speed"),
            Tempo::Speed(speed) => (Stretch::speed(self.first, speed), "speed"),
            Tempo::Offered(rate) => (Stretch::offered(self.first, self.last, self.bits, rate), "offered"),
        };
        if stretch.at(self.last).is_none() {
            let what = format!("{}: the last update of the trace", schedule.place(key));
            let keys = "raise schedule.offered or schedule.speed, or shorten the trace";
            return Err(Error::config(too_late(&what, stretch.about(self.last), keys)));
        }
        Ok(stretch)
    }
}

struct Recorded {
    pool: Pool,
    population: Population,
    reader: Reader,
    block: Block,
    at: usize,
    stretch: Stretch,
    head: Option<Update>,
    failure: Option<String>,
    frame_max: u32,
}

impl Recorded {
    /// Makes the update at `at` the head, reading the next block where this one ends.
    fn load(&mut self) {
        self.head = None;
        while self.at >= self.block.updates.len() {
            match self.reader.next_block() {
                Ok(Some(block)) => (self.block, self.at) = (block, 0),
                Ok(None) => return,
                Err(e) => {
                    self.failure = Some(e.to_string());
                    return;
                }
            }
        }
        let update = self.block.updates[self.at];
        let known = (update.worker as usize) < self.population.len() && update.bytes <= self.frame_max;
        match self.stretch.at(update.t_gen).filter(|_| known) {
            Some(t_gen) => self.head = Some(Update { t_gen, ..update }),
            // The survey has seen every row: this is another file now.
            None => self.failure = Some("the trace was changed while it was replayed".to_owned()),
        }
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
