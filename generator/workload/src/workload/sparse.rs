//! Sparse training: the keys, and the workload as an open loop. [`recorded`] has what a trace makes of it.
//!
//! Closed-loop endpoints take [`Source::sparse`] and decide themselves what leaves when, with keys. Every other endpoint,
//! and a trace, sees the gradients alone, in frames: when a computation ends, all pairs of the batch exist, hot ones first,
//! and what does not fit a frame is a further update.

mod recorded;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::sync::Arc;

use super::survey::Replayed;
use super::{Driven, Known, Source, Update, Workload};
use crate::config::{KeyTables, Section, above_to, settings};
use crate::registry::Named;
use crate::seed::Seed;
use crate::sparse::hot::{memory_limit, principle, principle_of_sample};
use crate::sparse::read::{Model, OfBatch, OfCurve, shape};
use crate::sparse::{self, Batch, DENSE_SHARE, HotFrom, MEMBERS_MAX, SparsePlan};
use crate::time::{HORIZON, Time, too_late};
use crate::topology::Population;
use crate::units::Span;
use crate::wire::frame::{FRAME_MAX, HEAD};
use crate::wire::update::UPDATE_HEAD;
use crate::{Error, Result};

/// `kind = "sparse"`.
pub struct Sparse;

/// Gradients of a frame.
const ELEMENTS: usize = (FRAME_MAX - HEAD - UPDATE_HEAD) / 4;

settings! {
    /// What it reads from `[workload]` beside the model; less where it is recorded.
    keys Settings {
        /// Share of the model that is sent.
        scale: f64 = 1.0 in above_to(0.0, 1.0), "parameters, pairs, dense and hot ones are scaled by it";
        /// Minimum share of updates that hot parameters receive; determines their number (LIBRA §3.3).
        proportion: Option<f64>;
        /// Maximum share of the 20 MiB of a switch (§5.7) that hot parameters may occupy, at 4 bytes each. LIBRA §3.3: "c should be small (0.05 ∼ 0.1)"; §5.1 has 5 %.
        memory_share: f64 = 0.05 in above_to(0.0, 1.0);
        /// Basis for choosing hot parameters: all updates, or a sample of the training.
        hot_from: HotFrom = "exact" of [("exact", HotFrom::Exact, ""), ("sample", HotFrom::Sample, "")];
        /// Share of the data in the sample (§5.3: precision above 90 %).
        sample_rate: f64 = 0.08 in above_to(0.0, 1.0);
        /// Updates of the training that is sampled, before scaling.
        training_updates: f64 = 1e8 in 1.0..=1e15;
        /// Jobs; a trace has its own number.
        jobs: u16 = 1 in 1..=MEMBERS_MAX;
        /// Workers per job; a trace has its own number.
        workers: u32 = 8 in 1..=u32::from(MEMBERS_MAX);
        /// Iterations per worker.
        iterations: u32 said "100; a trace has its own number" in 1..=u32::MAX;
        /// Computation time per iteration; not stated in the paper.
        compute: Span = "100ms";
        /// Relative jitter of the computation time, in both directions.
        compute_jitter: f64 = 0.0 in 0.0..=1.0;
    }
}

impl Named for Sparse {
    fn name(&self) -> &'static str {
        "sparse"
    }
    fn about(&self) -> &'static str {
        "training of sparse models: keys and gradients; a few hot parameters receive most updates"
    }
}

impl Workload for Sparse {
    fn keys(&self) -> KeyTables {
        &[Model::KEYS, OfCurve::KEYS, OfBatch::KEYS, Replayed::KEYS, Settings::KEYS]
    }

    fn replays_traces(&self) -> bool {
        true
    }

    /// Nothing of `[schedule]` says when batches are pushed: computing does.
    fn open(&self, section: &mut Section, _: &mut Section, seed: Seed) -> Result<Box<dyn Source>> {
        let made = match Replayed::trace(section)? {
            Some(traces) => recorded::open(&traces, section, seed)?,
            None => {
                let plan = plan(section, seed)?;
                plan.check().map_err(|(key, why)| Error::config(format!("{}: {why}", section.place(key))))?;
                sparse::Sparse::new(plan, seed)?
            }
        };
        Ok(Box::new(Rounds::new(Arc::new(made))))
    }
}

fn plan(section: &mut Section, seed: Seed) -> Result<SparsePlan> {
    let shape = shape(section)?;
    let scale = Settings::scale(section)?;
    let pairs = OfBatch::pairs(section, shape.pairs)?;
    let dense = OfBatch::dense(section, (f64::from(pairs) * DENSE_SHARE).round() as u32)?;
    let hot_from = Settings::hot_from(section)?;
    let plan = SparsePlan {
        pairs,
        dense,
        jobs: Settings::jobs(section)?,
        workers_per_job: Settings::workers(section)?,
        iterations: Settings::iterations(section, 100)?,
        compute: Settings::compute(section)?.ps(),
        compute_jitter: Settings::compute_jitter(section)?,
        hot_from,
        sample_rate: Settings::sample_rate(section)?,
        training_updates: Settings::training_updates(section)?,
        ..SparsePlan::of_shape(shape.clone())
    };
    let known = HotKnown { hot: shape.hot, is_told: shape.hot_is_told, dense, proportion: None };
    let (rate, updates) = (plan.sample_rate, plan.training_updates);
    let hot = hot(section, &known, |p, memory| match hot_from {
        HotFrom::Exact => principle(&shape.curve, p, memory),
        HotFrom::Sample => principle_of_sample(&shape.curve, p, memory, rate, updates, seed),
    })?;
    let plan = SparsePlan { hot, ..plan };
    Ok(if scale < 1.0 { plan.scaled(scale) } else { plan })
}

/// What is known of the number of hot parameters.
struct HotKnown {
    hot: u32,
    /// Whether it is written.
    is_told: bool,
    /// Dense ones among them.
    dense: u32,
    /// What `proportion` is unless it is written.
    proportion: Option<f64>,
}

/// How many parameters are hot, before scaling: what is written or known of the model, or what `proportion` takes; by
/// Principle 1 (LIBRA §3.3) within `memory_share` of the memory. Where a sample says which they are, it says how many, too.
fn hot(
    section: &mut Section,
    known: &HotKnown,
    principle: impl FnOnce(f64, f64) -> Result<u64, String>,
) -> Result<u32> {
    let proportion: Option<f64> = match known.proportion {
        Some(default) => Some(section.get("proportion", default)?),
        None => Settings::proportion(section)?,
    };
    let memory = Settings::memory_share(section)?;
    let mut hot = known.hot;
    if let Some(p) = proportion {
        let place = section.place("proportion");
        if !(p > 0.0 && p < 1.0) {
            return Err(Error::config(format!("{place}: {p} is not above 0 and below 1")));
        }
        let least = principle(p, memory).map_err(|why| Error::config(format!("{place}: {why}")))?;
        let least = u32::try_from(least).unwrap_or(u32::MAX).saturating_add(known.dense);
        if known.is_told && known.hot < least {
            return Err(Error::config(format!(
                "{place}: a proportion of {p} of the updates takes {least} hot parameters ({} dense ones among them), but \
                 workload.hot is {}; raise it or lower proportion",
                known.dense, known.hot
            )));
        }
        hot = if known.is_told { known.hot } else { least };
    }
    if u64::from(hot) > memory_limit(memory) {
        return Err(Error::config(format!(
            "{}: {hot} hot parameters take 4 bytes each, but {memory} of 20 MB holds {}; lower it or raise \
             workload.memory_share",
            section.place("hot"),
            memory_limit(memory)
        )));
    }
    Ok(hot)
}

/// What happens next: the end of a worker's computation. Ties go to the lower worker.
type Turn = Reverse<(Time, u32, u32)>;

/// The workload as an open loop, one entry per worker.
struct Rounds {
    sparse: Arc<sparse::Sparse>,
    population: Population,
    /// Time, worker, iteration.
    turns: BinaryHeap<Turn>,
    /// The batch of the first turn, and how many of its pairs are sent.
    batch: Batch,
    sent: usize,
    /// Next sequence number of every worker.
    next: Vec<u32>,
    head: Option<Update>,
    failure: Option<String>,
}

impl Rounds {
    fn new(sparse: Arc<sparse::Sparse>) -> Self {
        let population = Population::regular(sparse.jobs(), sparse.workers_per_job());
        let turns = (0..sparse.workers()).map(|w| Reverse((sparse.compute_of(w, 0), w, 0))).collect();
        let next = vec![0; sparse.workers() as usize];
        let batch = Batch::default();
        let mut rounds = Rounds { sparse, population, turns, batch, sent: 0, next, head: None, failure: None };
        rounds.begin();
        rounds.load();
        rounds
    }

    /// Makes the batch of the first turn; turns without pairs pass.
    fn begin(&mut self) {
        self.sent = 0;
        while let Some(&Reverse((_, worker, iteration))) = self.turns.peek() {
            self.sparse.batch(worker, iteration, &mut self.batch);
            if self.pairs() > 0 {
                return;
            }
            self.pass();
        }
    }

    fn pairs(&self) -> usize {
        self.batch.hot.len() + self.batch.cold.len()
    }

    /// To the next iteration of the first turn's worker.
    fn pass(&mut self) {
        let Some(mut top) = self.turns.peek_mut() else { return };
        let Reverse((at, worker, iteration)) = *top;
        if iteration + 1 < self.sparse.iterations() {
            *top = Reverse((at.saturating_add(self.sparse.compute_of(worker, iteration + 1)), worker, iteration + 1));
        } else {
            PeekMut::pop(top);
        }
    }

    fn elements(&self) -> usize {
        (self.pairs() - self.sent).min(ELEMENTS)
    }

    fn load(&mut self) {
        self.head = None;
        let Some(&Reverse((t_gen, worker, iteration))) = self.turns.peek() else { return };
        if t_gen > HORIZON {
            let keys = "lower workload.compute or workload.iterations";
            self.failure = Some(too_late("the end of the next computation", t_gen as f64, keys));
            return;
        }
        self.head = Some(Update {
            t_gen,
            cluster: self.sparse.job_of(worker),
            worker,
            seq: self.next[worker as usize],
            bytes: frame_bytes(self.elements()),
            // Synchronous training has none; packets that have a field for it carry 0.
            reward: None,
            iteration: Some(iteration),
        });
    }
}

fn frame_bytes(elements: usize) -> u32 {
    (HEAD + UPDATE_HEAD + 4 * elements) as u32
}

impl Source for Rounds {
    fn population(&self) -> &Population {
        &self.population
    }

    fn known(&self) -> Known {
        // Batches vary; none has more than all parameters.
        let most = self.sparse.parameters().saturating_add(self.sparse.dense().into());
        let frame_max = frame_bytes(usize::try_from(most).unwrap_or(ELEMENTS).min(ELEMENTS));
        Known { driven: Some(Driven::Sparse(self.sparse.clone())), ..Known::pulled(frame_max) }
    }

    fn peek(&self) -> Option<&Update> {
        self.head.as_ref()
    }

    fn take(&mut self, values: &mut [u8]) {
        let Some(Update { worker, .. }) = self.head else { return };
        let elements = self.elements();
        let Batch { hot, cold } = &self.batch;
        let gradients = hot.iter().map(|(_, value)| value).chain(cold.iter().map(|(_, value)| value));
        let (chunks, _) = values.as_chunks_mut::<4>();
        for (to, value) in chunks.iter_mut().zip(gradients.skip(self.sent).take(elements)) {
            *to = value.to_le_bytes();
        }
        self.sent += elements;
        let Some(next) = self.next[worker as usize].checked_add(1) else {
            self.failure = Some(format!(
                "worker {worker} has used all its {} packet numbers; lower workload.iterations or workload.pairs",
                u32::MAX
            ));
            self.head = None;
            self.turns.clear();
            return;
        };
        self.next[worker as usize] = next;
        if self.sent == self.pairs() {
            self.pass();
            self.begin();
        }
        self.load();
    }

    fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Value;

    fn open(values: &[(&str, Value)]) -> Result<Box<dyn Source>> {
        let mut schedule = Section::of("schedule", &[]);
        Sparse.open(&mut Section::of("workload", values), &mut schedule, Seed(1))
    }

    #[test]
    fn an_open_loop_sends_every_gradient_once() {
        let keys =
            [("scale", 0.2.into()), ("jobs", 2u32.into()), ("workers", 3u32.into()), ("iterations", 4u32.into())];
        let mut source = open(&[keys.as_slice(), &[("compute_jitter", 0.3.into())]].concat()).unwrap();
        let sparse = source.known().sparse().unwrap();
        assert!(source.known().dense().is_none());
        let mut got = vec![Vec::new(); 6 * 4];
        let (mut last, mut next) = (0, [0; 6]);
        while let Some(update) = source.peek().copied() {
            let worker = update.worker as usize;
            assert!(update.t_gen >= last && update.bytes <= source.known().frame_max);
            assert_eq!((update.seq, update.cluster), (next[worker], sparse.job_of(update.worker)));
            (last, next[worker]) = (update.t_gen, next[worker] + 1);
            let mut values = vec![0; update.bytes as usize - HEAD - UPDATE_HEAD];
            source.take(&mut values);
            got[worker * 4 + update.iteration.unwrap() as usize].extend(values);
        }
        let mut batch = Batch::default();
        for (worker, iteration) in (0..6).flat_map(|w| (0..4).map(move |i| (w, i))) {
            sparse.batch(worker, iteration, &mut batch);
            let values = batch.hot.iter().map(|(_, x)| *x).chain(batch.cold.iter().map(|(_, x)| *x));
            let expected: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
            assert_eq!(got[(worker * 4 + iteration) as usize], expected);
        }
        assert!(next.iter().all(|packets| *packets > 4), "batches take several frames");
        assert!(source.failure().is_none());
    }

    #[test]
    fn hot_parameters_obey_principle_1() {
        let hot = |values: &[(&str, Value)]| open(values).map(|source| source.known().sparse().unwrap().hot().len());
        assert_eq!(hot(&[]).unwrap(), 30_000);
        assert_eq!(hot(&[("hot", 60_000u32.into()), ("scale", 0.1.into())]).unwrap(), 6000);
        // 60 % of the updates and 120 dense parameters.
        let found = hot(&[("proportion", 0.6.into())]).unwrap();
        assert!((40_000..50_000).contains(&found), "{found}");
        assert_eq!(hot(&[("proportion", 0.6.into()), ("dense", 0u32.into())]).unwrap(), found - 120);
        // A sample of few updates has 60 % of them in fewer parameters than the curve.
        let few = [("training_updates", 5e6.into()), ("hot_from", "sample".into()), ("proportion", 0.6.into())];
        assert!(hot(&few).unwrap() < found - 1000);
        let both: [(&str, Value); 2] = [("proportion", 0.6.into()), ("memory_share", 0.005.into())];
        for (values, part) in [
            (&both[..], "holds 26214"),
            (&[both[0].clone(), ("hot", 30_000u32.into())], "workload.hot is 30000"),
            (&[both[1].clone()], "holds 26214"),
            (&[("proportion", 1.5.into())], "workload.proportion"),
            (&[("memory_share", 0.0.into())], "workload.memory_share"),
        ] {
            let message = hot(values).unwrap_err().to_string();
            assert!(message.contains(part), "{part}: {message}");
        }
    }

    #[test]
    fn numbers_are_refused_at_any_scale() {
        for scale in [1.0f64, 0.5, 0.01] {
            for (key, value, range) in [
                ("pairs", 0i64, "1 to 50000000"),
                ("dense", 50_000_001, "0 to 50000000"),
                ("iterations", 0, "1 to 4294967295"),
            ] {
                let message =
                    open(&[("scale", scale.into()), (key, value.into())]).map(|_| ()).unwrap_err().to_string();
                assert_eq!(message, format!("workload.{key}: {value} is not from {range}"), "{scale}");
            }
        }
        // The default is in the range, too.
        let flat: [(&str, Value); 6] = [
            ("model", "custom".into()),
            ("parameters", 1_000_000_000i64.into()),
            ("hot", 1_000_000u32.into()),
            ("hot_share", 0.001.into()),
            ("curve", "zipf".into()),
            ("exponent", 0.0.into()),
        ];
        assert_eq!(shape(&mut Section::of("workload", &flat)).unwrap().pairs, 50_000_000);
    }

    #[test]
    fn models_and_curves_are_told_in_many_ways() {
        let points = |points: &[(i64, f64)]| {
            let plain = |value: Value| crate::config::Entry { value, origin: crate::config::Origin::Default };
            let point = |(k, share): &(i64, f64)| plain(Value::List(vec![plain((*k).into()), plain((*share).into())]));
            Value::List(points.iter().map(point).collect())
        };
        let custom: [(&str, Value); 4] = [
            ("model", "custom".into()),
            ("parameters", 1_000_000i64.into()),
            ("hot", 10_000u32.into()),
            ("hot_share", 0.5.into()),
        ];
        let with =
            |more: &[(&'static str, Value)]| open(&[&custom[..], more].concat()).map(|s| s.known().sparse().unwrap());
        for more in [
            &[][..],
            &[("curve", "zipf".into())],
            &[("curve", "mandelbrot".into()), ("offset", 500.0.into())],
            &[("curve", "joined".into())],
        ] {
            let sparse = with(more).unwrap();
            assert!((sparse.curve().share(10_000) - 0.5).abs() < 1e-9 && sparse.parameters() == 1_000_000, "{more:?}");
            assert!(sparse.pairs() > 0);
        }
        let exponent = [("curve", "mandelbrot".into()), ("exponent", 0.7.into()), ("offset", 3.0.into())];
        assert_eq!(
            *with(&exponent).unwrap().curve(),
            crate::sparse::curve::Curve::mandelbrot(1_000_000, 0.7, 3.0).unwrap()
        );
        let listed =
            with(&[("curve", "empirical".into()), ("points", points(&[(20_000, 0.6), (1_000_000, 1.0)]))]).unwrap();
        assert!(listed.parameters() == 1_000_000 && (listed.curve().share(10_000) - 0.3).abs() < 1e-9);
        // One list for each of several models.
        let named = |name: &str| {
            let plain = |value: Value| crate::config::Entry { value, origin: crate::config::Origin::Default };
            Value::Table([(name.to_owned(), plain(points(&[(10_000, 0.6), (1_000_000, 1.0)])))].into())
        };
        let empirical = |name: &str| with(&[("curve", "empirical".into()), ("points", named(name))]);
        assert_eq!(empirical("custom").unwrap().parameters(), 1_000_000);
        for (name, part) in [("oa", "or one for each model"), ("ao", "there is no model \"ao\"")] {
            assert!(empirical(name).unwrap_err().to_string().contains(part), "{name}");
        }
        for (more, part) in [
            (&[("curve", "empirical".into())][..], "workload.points"),
            (&[("curve", "empirical".into()), ("points", points(&[(5, 0.9)]))], "workload.points"),
            (&[("curve", "empirical".into()), ("points", points(&[(20_000, 0.6), (90_000, 1.0)]))], "90000 ranks"),
            (&[("curve", "empirical".into()), ("points", 3i64.into())], "list of points"),
            (&[("curve", "pareto".into())], "zipf, joined"),
            (&[("curve", "zipf".into()), ("exponent", Value::from(-1.0))], "workload.exponent"),
            (&[("scale", 0.0.into())], "workload.scale"),
            (&[("hot_from", "guess".into())], "exact, sample"),
            (&[("pairs", 1_000_000u32.into())], "at most"),
        ] {
            let message = with(more).map(|_| ()).unwrap_err().to_string();
            assert!(message.contains(part), "{part}: {message}");
        }
        let message = open(&custom[..3]).map(|_| ()).unwrap_err().to_string();
        assert!(message.contains("hot_share is missing"), "{message}");
        let flat: [(&str, Value); 2] = [("model", "ncf".into()), ("curve", "mandelbrot".into())];
        let message = open(&flat).map(|_| ()).unwrap_err().to_string();
        assert!(message.contains("joined"), "{message}");
    }
}
