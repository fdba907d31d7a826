//! Synchronous training of dense models: the keys, and the workload as an open loop.
//!
//! Closed-loop endpoints take [`Source::dense`] and decide themselves what leaves when. Every other endpoint, and a
//! trace, sees workers that do not wait for results: all blocks of an iteration exist when its computation ends.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::sync::Arc;

use super::{Driven, Known, Source, Update, Workload};
use crate::config::{Entry, FromValue, KeyTables, Origin, Section, Value, above_to, settings};
use crate::dense::models::MODELS;
use crate::dense::straggler::{PATTERNS, POINTS_MAX, Slowness};
use crate::dense::{self, DensePlan, ELEMENTS_MAX, ITERATIONS_MAX, JOBS_MAX};
use crate::registry::{Named, find};
use crate::seed::Seed;
use crate::sparse;
use crate::time::{HORIZON, Time, too_late};
use crate::topology::Population;
use crate::units::Span;
use crate::wire::frame::{FRAME_MAX, HEAD};
use crate::wire::update::UPDATE_HEAD;
use crate::{Error, Result};

/// `kind = "dense"`.
pub struct Dense;

impl Named for Dense {
    fn name(&self) -> &'static str {
        "dense"
    }
    fn about(&self) -> &'static str {
        "synchronous training of dense models: jobs, iterations, blocks, stragglers"
    }
}

/// Most elements of a model: integers of TOML have 64 bits with a sign.
const PARAMETERS_MAX: u64 = i64::MAX as u64;

settings! {
    /// What is read of the model.
    struct Model {
        /// Name of the model (`pktgen list models`), of a sparse one too.
        model: String = "resnet50";
        /// Elements of the model; required for `custom`.
        parameters: Option<u64> in 1..=PARAMETERS_MAX;
        /// Share of the model that is sent.
        scale: f64 = 1.0 in above_to(0.0, 1.0), "it is the share of the model that is sent";
    }
}

settings! {
    /// What it reads from `[workload]` beside the model and stragglers, for a model with this share of elements that are not 0.
    struct Settings(density: f64) {
        /// Elements of a packet.
        elements: u16 = 1024 in 1..=ELEMENTS_MAX;
        /// Maximum number of blocks of the model that are sent; sufficient where every block takes the same time.
        blocks_max: Option<u32> in 1..=u32::MAX;
        /// Jobs.
        jobs: u16 = 1 in 1..=JOBS_MAX;
        /// Workers per job.
        workers: u32 = 6 in 1..=u32::from(JOBS_MAX);
        /// Iterations per worker.
        iterations: u32 = 100 in 1..=ITERATIONS_MAX;
        /// Computation time per iteration; not stated in the paper.
        compute: Span = "100ms";
        /// Relative jitter of the computation time, in both directions.
        compute_jitter: f64 = 0.0 in 0.0..=1.0;
        /// Share of elements that count as useful (`useful_elements_per_s`); all that is sent is not zero.
        density: f64 = density said "1; of a sparse model, its own" in 0.0..=1.0;
        /// Typical iteration time, the unit of straggler delays; computed by a formula if not set.
        typical: Option<Span>;
    }
}

settings! {
    /// What is read of stragglers.
    struct Slow {
        /// Which workers may straggle: `one`, `fixed`, `each`, `none` (docs/dense.md).
        stragglers: String = "one";
        /// Probability that such a worker is delayed at a delay point.
        straggler_probability: f64 = 0.0 in 0.0..=1.0;
        /// Range of a straggler's delay, in typical iteration times.
        straggler_delay: Range = (Range::default_value());
        /// Delay points per iteration.
        delay_points: u8 = 3 in 1..=POINTS_MAX as u8;
    }
}

impl Workload for Dense {
    fn keys(&self) -> KeyTables {
        &[Model::KEYS, Settings::KEYS, Slow::KEYS]
    }

    /// Nothing of `[schedule]` says when blocks are generated: computing does.
    fn open(&self, section: &mut Section, _: &mut Section, seed: Seed) -> Result<Box<dyn Source>> {
        let (model, elements, density) = model(section)?;
        let settings = Settings::read(section, density)?;
        let elements_per_packet = settings.elements;
        // A model of which every part takes the same time need not be sent whole.
        let most = settings.blocks_max.map_or(u64::MAX, |blocks| u64::from(blocks) * u64::from(elements_per_packet));
        let plan = DensePlan {
            model,
            elements_total: elements.min(most),
            elements_per_packet,
            jobs: settings.jobs,
            workers_per_job: settings.workers,
            iterations: settings.iterations,
            compute: settings.compute.ps(),
            compute_jitter: settings.compute_jitter,
            density: settings.density,
            slowness: slowness(section)?,
            typical: settings.typical.map(Span::ps),
        };
        plan.check().map_err(|(key, why)| Error::config(format!("{}: {why}", section.place(key))))?;
        Ok(Box::new(Rounds::new(Arc::new(dense::Dense::new(plan, seed)?))))
    }
}

/// Name of the model, the elements of its gradient after `scale`, and the share of them that is not 0. Sparse models are
/// known, too: sent whole, as aggregation for dense ones must (LIBRA §5.1).
fn model(section: &mut Section) -> Result<(String, u64, f64)> {
    let Model { model: name, parameters, scale } = Model::read(section)?;
    let sparse = sparse::models::MODELS.iter().find(|model| model.name() == name).and_then(|model| model.facts());
    let takes = sparse.is_none() && find(MODELS, "model", &name, &section.place("model"))?.needs_parameters();
    if parameters.is_some() && !takes {
        return Err(Error::config(format!(
            "{}: model \"{name}\" has a number of its own; leave it out, or set workload.model = \"custom\"",
            section.place("parameters")
        )));
    }
    if let Some(facts) = sparse {
        let elements = scaled(facts.parameters, scale);
        return Ok((name, elements, f64::from(facts.pairs) / facts.parameters as f64));
    }
    let model = find(MODELS, "model", &name, &section.place("model"))?;
    if model.needs_parameters() && parameters.is_none() {
        return Err(Error::config(format!(
            "{}: model \"{name}\" has as many elements as workload.parameters says; set it to 1 or more",
            section.place("model")
        )));
    }
    let elements = scaled(model.elements(parameters.unwrap_or(0)), scale);
    Ok((name, elements, 1.0))
}

/// The part of a model that is sent.
fn scaled(elements: u64, scale: f64) -> u64 {
    // Not through a float where nothing is scaled; at least one packet.
    if scale < 1.0 { ((elements as f64 * scale).round() as u64).max(1) } else { elements }
}

fn slowness(section: &mut Section) -> Result<Slowness> {
    let Slow { stragglers, straggler_probability: probability, straggler_delay: range, delay_points: points } =
        Slow::read(section)?;
    let pattern = *find(PATTERNS, "straggler pattern", &stragglers, &section.place("stragglers"))?;
    Ok(Slowness { pattern, probability, delay: (range.0, range.1), points })
}

/// A list of two numbers.
struct Range(f64, f64);

impl Range {
    fn default_value() -> Value {
        let (least, most) = Slowness::default().delay;
        let item = |x: f64| Entry { value: x.into(), origin: Origin::Default };
        Value::List(vec![item(least), item(most)])
    }
}

impl FromValue for Range {
    fn takes() -> String {
        "a list of two numbers, the lower first".to_owned()
    }

    fn from_value(value: &Value) -> Result<Self, String> {
        let wrong = || format!("{} is not a list of two numbers, the lower first", value.to_toml());
        let Value::List(items) = value else { return Err(wrong()) };
        let [least, most] = items.as_slice() else { return Err(wrong()) };
        Ok(Range(f64::from_value(&least.value)?, f64::from_value(&most.value)?))
    }
}

/// What happens next: the end of a worker's computation. Ties go to the lower worker.
type Turn = Reverse<(Time, u32, u32)>;

/// The workload as an open loop, one entry per worker.
struct Rounds {
    dense: Arc<dense::Dense>,
    population: Population,
    /// Time, worker, iteration.
    turns: BinaryHeap<Turn>,
    /// The next block of the first turn.
    block: u32,
    head: Option<Update>,
    failure: Option<String>,
}

impl Rounds {
    fn new(dense: Arc<dense::Dense>) -> Self {
        let population = Population::regular(dense.jobs(), dense.workers_per_job());
        let turns = (0..dense.workers()).map(|w| Reverse((lasts(&dense, w, 0), w, 0))).collect();
        let mut rounds = Rounds { dense, population, turns, block: 0, head: None, failure: None };
        rounds.load();
        rounds
    }

    fn load(&mut self) {
        self.head = None;
        let Some(&Reverse((t_gen, worker, iteration))) = self.turns.peek() else { return };
        if t_gen > HORIZON {
            let keys = "lower workload.compute, workload.typical or workload.iterations";
            self.failure = Some(too_late("the end of the next computation", t_gen as f64, keys));
            return;
        }
        self.head = Some(Update {
            t_gen,
            cluster: self.dense.job_of(worker),
            worker,
            seq: self.dense.number(iteration, self.block),
            bytes: frame_bytes(self.dense.elements_of(self.block)),
            // Synchronous training has none; packets that have a field for it carry 0.
            reward: None,
            iteration: Some(iteration),
        });
    }

    /// To the next block, or to the next iteration of this worker.
    fn advance(&mut self) {
        self.block += 1;
        if self.block == self.dense.blocks() {
            self.block = 0;
            if let Some(mut top) = self.turns.peek_mut() {
                let Reverse((at, worker, iteration)) = *top;
                if iteration + 1 < self.dense.iterations() {
                    let next = at.saturating_add(lasts(&self.dense, worker, iteration + 1));
                    *top = Reverse((next, worker, iteration + 1));
                } else {
                    PeekMut::pop(top);
                }
            }
        }
        self.load();
    }
}

/// How long `worker` computes in `iteration`, with its sleeps if their unit is known.
fn lasts(dense: &dense::Dense, worker: u32, iteration: u32) -> Time {
    let sleeps = dense.typical().map_or(0, |typical| dense.delay_of(worker, iteration, typical));
    dense.compute_of(worker, iteration).saturating_add(sleeps)
}

/// The frame of an update with so many gradients. An OLAF frame has room for 2241; what Trio-ML's shorter header
/// leaves room for beyond them is not sent by an open loop.
fn frame_bytes(elements: u16) -> u32 {
    (HEAD + UPDATE_HEAD + 4 * usize::from(elements)).min(FRAME_MAX) as u32
}

impl Source for Rounds {
    fn population(&self) -> &Population {
        &self.population
    }

    fn known(&self) -> Known {
        let driven = Some(Driven::Dense(self.dense.clone()));
        Known { driven, ..Known::pulled(frame_bytes(self.dense.elements_of(0))) }
    }

    fn peek(&self) -> Option<&Update> {
        self.head.as_ref()
    }

    fn take(&mut self, values: &mut [u8]) {
        let Some(Update { worker, iteration: Some(iteration), .. }) = self.head else { return };
        self.dense.floats_le(worker, iteration, self.block, values);
        self.advance();
    }

    fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
}
