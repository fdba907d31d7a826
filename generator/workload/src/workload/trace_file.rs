//! Replaying trace files one after the other, as recorded or scaled in time.

use std::sync::Arc;

use super::held::{self, Held};
use super::survey::{Leg, Replayed, Survey, keyless_bytes};
use super::{Known, NextPass, Source, Update, Workload};
use crate::config::{KeyTables, Section};
use crate::gradient::{GradientPool, tile};
use crate::registry::{Named, find};
use crate::schedule::{SCHEDULES, Tempo};
use crate::seed::Seed;
use crate::time::Time;
use crate::topology::Population;
use crate::trace::{Block, Reader, Stretch};
use crate::wire::update::{FRAME_MIN, elements_in};
use crate::{Error, Result};

/// `kind = "trace"`.
pub(crate) struct TraceFile;

impl Named for TraceFile {
    fn name(&self) -> &'static str {
        "trace"
    }
    fn about(&self) -> &'static str {
        "updates from Parquet traces (workload.trace = FILE, or several)"
    }
}

impl Workload for TraceFile {
    fn keys(&self) -> KeyTables {
        &[Replayed::KEYS]
    }

    /// Opens the traces. Times start at 0 with the first update; [`Tempo::of_trace`] says how they are scaled.
    fn open(&self, section: &mut Section, schedule: &mut Section, seed: Seed) -> Result<Box<dyn Source>> {
        let Some(traces) = Replayed::trace(section)? else {
            return Err(Error::config(format!(
                "{}: workload \"trace\" needs a file; set workload.trace",
                section.place("kind")
            )));
        };
        let kind: String = schedule.get("kind", "as_recorded")?;
        find(SCHEDULES, "schedule", &kind, &schedule.place("kind"))?;
        schedule.settle("kind", "as_recorded");
        let survey = Survey::make(&traces, &section.place("trace"))?;
        if let Some(what) = &survey.beyond {
            return Err(Error::config(format!("{}: {what}", section.place("trace"))));
        }
        let fits = held::fits(survey.pass.count, survey.values);
        let source = recorded(survey, schedule, seed)?;
        Ok(if fits { Box::new(source.hold()) } else { Box::new(source) })
    }

    fn keeps_tempo(&self) -> bool {
        true
    }
}

/// The updates of traces that were looked at.
fn recorded(survey: Survey, schedule: &mut Section, seed: Seed) -> Result<Recorded> {
    let tempo = Tempo::of_trace(schedule)?;
    let Survey { legs, population, pass, frame_max, update_max, .. } = survey;
    let playback = Playback {
        pool: GradientPool::new(seed, elements_in((frame_max as usize).max(FRAME_MIN))),
        stretch: tempo.stretch(&pass, 0, schedule)?,
        rest: tempo.rest(&pass),
        population,
        legs,
        frame_max,
        update_max,
    };
    Recorded::begin(Arc::new(playback))
}

/// What is the same of every pass over the files.
struct Playback {
    pool: GradientPool,
    population: Population,
    legs: Vec<Leg>,
    stretch: Stretch,
    frame_max: u32,
    update_max: u32,
    rest: Option<Time>,
}

struct Recorded {
    playback: Arc<Playback>,
    /// Reads the file at `leg`.
    reader: Reader,
    leg: usize,
    block: Block,
    at: usize,
    /// What is added to each worker's sequence numbers in this file, and one more than its last there.
    base: Vec<u64>,
    next: Vec<u64>,
    head: Option<Update>,
    failure: Option<String>,
}

impl Recorded {
    /// Begins a pass over the files, which were looked at already.
    fn begin(playback: Arc<Playback>) -> Result<Self> {
        let numbers = vec![0; playback.population.len()];
        let mut source = Recorded {
            reader: Reader::open(&playback.legs[0].path)?,
            playback,
            leg: 0,
            block: Block::default(),
            at: 0,
            base: numbers.clone(),
            next: numbers,
            head: None,
            failure: None,
        };
        source.load();
        Ok(source)
    }

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

    /// All of it in memory.
    fn hold(mut self) -> Held {
        let facts = held::Facts {
            population: self.playback.population.clone(),
            frame_max: self.playback.frame_max,
            update_max: self.playback.update_max,
            rest: self.playback.rest,
            pool: self.playback.pool.clone(),
        };
        let mut held = Held::new(facts);
        while let Some(update) = self.head {
            held.push(update, self.block.values(self.at));
            self.at += 1;
            self.load();
        }
        held.end(self.failure);
        held
    }

    /// The next block of this file, or of the next one.
    fn next_block(&mut self) -> Result<Option<Block>> {
        loop {
            if let Some(block) = self.reader.next_block()? {
                return Ok(Some(block));
            }
            let Some(leg) = self.playback.legs.get(self.leg + 1) else { return Ok(None) };
            self.reader = Reader::open(&leg.path)?;
            self.leg += 1;
            self.base.copy_from_slice(&self.next);
        }
    }

    /// An update of a file with its time and number in the replay; none if the survey has not seen it.
    fn place(&self, update: &Update) -> Option<Update> {
        let base = *self.base.get(update.worker as usize)?;
        let t_gen = self.playback.stretch.at(self.playback.legs[self.leg].at(update.t_gen)?)?;
        let seq = u32::try_from(u64::from(update.seq) + base).ok()?;
        let bytes = keyless_bytes(update, self.block.keys(self.at).len(), self.block.values(self.at).len());
        (bytes <= self.playback.frame_max).then_some(Update { t_gen, seq, bytes, ..*update })
    }
}

impl Source for Recorded {
    fn population(&self) -> &Population {
        &self.playback.population
    }

    fn known(&self) -> Known {
        let Playback { rest, frame_max, update_max, .. } = *self.playback;
        let playback = self.playback.clone();
        let again: NextPass =
            Arc::new(move || -> Result<Box<dyn Source>> { Ok(Box::new(Recorded::begin(playback.clone())?)) });
        Known { rest, update_max, again: Some(again), ..Known::pulled(frame_max) }
    }

    fn peek(&self) -> Option<&Update> {
        self.head.as_ref()
    }

    fn take(&mut self, values: &mut [u8]) {
        let Some(update) = self.head else { return };
        let recorded = self.block.values(self.at);
        if recorded.is_empty() {
            self.playback.pool.fill(update.worker, update.seq, values);
        } else {
            tile(recorded, values);
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
    use super::super::repeat::Repeat;
    use super::*;
    use crate::record::NO_CLUSTER;
    use crate::seed::mix;
    use crate::time::HORIZON;
    use crate::trace::Writer;

    /// Everything that a source says, a few passes long.
    fn all(source: &mut dyn Source) -> Vec<(Update, Vec<u8>)> {
        let mut all = Vec::new();
        while let Some(update) = source.peek().copied() {
            // Frames may have more gradients than the recording.
            let mut values = vec![0; 4 * 7];
            source.take(&mut values);
            all.push((update, values));
        }
        all
    }

    /// Without keys a frame has room for all gradients of its pairs; more than a frame holds are refused.
    #[test]
    fn gradients_of_pairs_are_all_sent() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pairs.parquet");
        let write = |pairs: u32, bytes: u32| {
            let mut writer = Writer::create(&path).unwrap();
            let update = Update { t_gen: 0, cluster: 0, worker: 0, seq: 0, bytes, reward: None, iteration: None };
            let (keys, values): (Vec<u64>, Vec<f32>) = (0..pairs).map(|i| (u64::from(i), i as f32 + 0.5)).unzip();
            writer.push_pairs(&update, &keys, &values).unwrap();
            writer.finish("recorded", Default::default(), "CC0-1.0").unwrap();
            let mut section = Section::of("workload", &[("trace", path.display().to_string().into())]);
            TraceFile.open(&mut section, &mut Section::of("schedule", &[]), Seed(1))
        };
        let mut source = write(5, 82).unwrap();
        let update = source.peek().copied().unwrap();
        assert_eq!((update.bytes, source.known().frame_max, elements_in(update.bytes as usize)), (92, 92, 5));
        let mut values = vec![0; 20];
        source.take(&mut values);
        let sent: Vec<f32> = values.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        assert_eq!(sent, [0.5, 1.5, 2.5, 3.5, 4.5]);
        assert_eq!(write(100, 842).unwrap().peek().unwrap().bytes, 842, "the size that was recorded");
        let message = write(2242, 9036).err().unwrap().to_string();
        assert!(
            message.contains("2242 pairs") && message.contains("at most 2241") && message.contains("sparse"),
            "{message}"
        );
    }

    #[test]
    fn background_traffic_of_a_trace_is_no_update() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("beside.parquet");
        let mut writer = Writer::create(&path).unwrap();
        let update = Update { t_gen: 0, cluster: 0, worker: 0, seq: 0, bytes: 256, reward: Some(1.0), iteration: None };
        let plain = Update { t_gen: 1_000, cluster: NO_CLUSTER, worker: 1, bytes: 1_000, reward: None, ..update };
        for update in [update, plain] {
            writer.push(&update, &[]).unwrap();
        }
        writer.finish("recorded", Default::default(), "CC0-1.0").unwrap();
        let survey = || Survey::make(&super::super::survey::Traces(vec![path.clone()]), "here").unwrap();
        let read = || recorded(survey(), &mut Section::of("schedule", &[]), Seed(1)).unwrap();
        for known in [read().known(), read().hold().known(), read().known().changed()] {
            assert_eq!((known.frame_max, known.update_max), (1_000, 256));
        }
    }

    #[test]
    fn a_trace_in_memory_says_what_the_file_says() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["a", "b"].map(|name| folder.path().join(format!("{name}.parquet")));
        for path in &paths {
            let mut writer = Writer::create(path).unwrap();
            for i in 0..20_000u32 {
                let (worker, seq) = (i % 5, i / 5);
                let t_gen = i64::from(i) * 1_000 + i64::from(mix(u64::from(i)) as u8);
                let update = Update { t_gen, cluster: 0, worker, seq, bytes: 256, reward: Some(1.0), iteration: None };
                // Some have fewer than a frame has, some none.
                writer.push(&update, &[i as f32, 0.5, -1.25][..(i % 4) as usize]).unwrap();
            }
            writer.finish("recorded", Default::default(), "CC0-1.0").unwrap();
        }
        let survey = Survey::make(&super::super::survey::Traces(paths.to_vec()), "here").unwrap();
        let schedule = &mut Section::of("schedule", &[("speed", "1.5".into())]);
        let read = |survey: Survey, schedule: &mut Section| recorded(survey, schedule, Seed(3)).unwrap();
        let mut file = read(survey, schedule);
        let survey = Survey::make(&super::super::survey::Traces(paths.to_vec()), "here").unwrap();
        let mut held = read(survey, schedule).hold();
        assert!(!file.repeat(3));
        assert!(held.repeat(3));
        // Passes after the first read the files once more, and no survey.
        let begin = file.known().again.expect("what is known of it is kept");
        let from_file = all(&mut Repeat::new(Box::new(file), 3, Box::new(move || begin())));
        let from_memory = all(&mut held);
        assert_eq!(from_memory.len(), 120_000);
        assert!(from_file == from_memory);
        assert!(held::fits(1 << 20, 46 << 20) && !held::fits(1 << 20, 64 << 20));
    }

    #[test]
    fn passes_in_memory_end_where_numbers_and_times_do() {
        let update =
            |t_gen, worker| Update { t_gen, cluster: 0, worker, seq: 0, bytes: 256, reward: None, iteration: None };
        let facts = || held::Facts {
            population: Population::regular(1, 2),
            frame_max: 256,
            update_max: 256,
            rest: None,
            pool: GradientPool::new(Seed(1), 46),
        };
        let mut late = Held::new(facts());
        late.push(update(0, 0), &[]);
        late.push(update(HORIZON / 3, 1), &[]);
        assert!(late.repeat(0));
        // Two passes have the second a mean gap, which is the span, after the first.
        let times: Vec<_> = all(&mut late).iter().map(|(update, _)| (update.t_gen, update.seq)).collect();
        let third = HORIZON / 3;
        assert_eq!(times, [(0, 0), (third, 0), (2 * third, 1), (3 * third, 1)]);
        assert!(late.failure().unwrap().contains("26 days"));
        let mut many = Held::new(facts());
        many.push(Update { seq: 0, ..update(0, 1) }, &[]);
        many.push(Update { seq: 0, ..update(1, 0) }, &[]);
        assert!(many.repeat(0));
        many.use_up(0, u32::MAX - 1);
        let seqs: Vec<_> = all(&mut many).iter().map(|(update, _)| (update.worker, update.seq)).collect();
        assert_eq!(seqs, [(1, 0), (0, u32::MAX - 1), (1, 1), (0, u32::MAX), (1, 2)]);
        assert!(many.failure().unwrap().contains("worker 0 has used all"));
    }

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
