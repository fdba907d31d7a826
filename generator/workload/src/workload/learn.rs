//! Agents that learn in the loop: the keys, and the workload as an open loop.
//!
//! The endpoint `learner` takes [`Source::learning`] and computes each update on the model that its worker holds. Every other
//! endpoint, and a trace, sees workers without answers: they stay at their first model.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use super::{Driven, Known, Source, Update, Workload, rl};
use crate::config::{Entry, FromValue, KeyTables, Origin, Section, Value, settings, spans};
use crate::learner::{Agent, Learning, Net, TASKS};
use crate::record::PacketId;
use crate::registry::{Named, find};
use crate::seed::Seed;
use crate::time::{HORIZON, SECOND, Time, too_late};
use crate::topology::Population;
use crate::units::Span;
use crate::wire::frame::{FRAME_MAX, HEAD};
use crate::wire::update::{ACK_HEAD, UPDATE_HEAD};
use crate::{Error, Result};

/// Parameters that an acknowledgement has room for.
const PARAMETERS_MAX: usize = (FRAME_MAX - HEAD - ACK_HEAD) / 4;

/// `kind = "learn"`.
pub(crate) struct Learn;

impl Named for Learn {
    fn name(&self) -> &'static str {
        "learn"
    }
    fn about(&self) -> &'static str {
        "reinforcement learning in the loop: each update is the gradient of the worker's current model"
    }
}

settings! {
    /// What says which task it is.
    keys Which {
        /// Task that agents learn.
        task: String = "cartpole";
    }
}

settings! {
    /// What it reads from `[workload]` beside that, for a task with this limit.
    struct Settings(limit: u32) {
        /// Clusters, each with a model.
        clusters: u16 = 9 in 1..=1000;
        /// Workers per cluster.
        workers_per_cluster: u32 = 3 in 1..=PacketId::WORKERS_MAX / 1001;
        /// Updates per worker.
        updates: u32 = 200 in 1..=100_000_000;
        /// Sizes of the network's hidden layers.
        hidden: Layers = (Layers::default_value());
        /// Minimum number of task steps per update.
        steps: u32 = 1 in 1..=1_000_000;
        /// Maximum number of steps per episode.
        limit: u32 = limit said "the task's" in 1..=1_000_000;
        /// Computation time per step.
        step_time: Span = "90us" in spans(1..=SECOND);
        /// Maximum relative jitter of an iteration's computation time.
        compute_jitter: f64 = 0.05 in 0.0..=1.0;
        /// Reward at which the task counts as learned; `pktgen analyze` reports when it was reached.
        reward_goal: Option<f64>;
    }
}

impl Workload for Learn {
    fn keys(&self) -> KeyTables {
        &[Which::KEYS, Settings::KEYS, rl::Spread::KEYS]
    }

    /// Nothing of `[schedule]` says when updates are generated: playing does.
    fn open(&self, section: &mut Section, _: &mut Section, seed: Seed) -> Result<Box<dyn Source>> {
        let task = find(TASKS, "task", &Which::task(section)?, &section.place("task"))?;
        // The network does not go by `reward_goal`: `analyze` says when it was reached.
        let settings = Settings::read(section, task.limit())?;
        let net = net(section, &settings.hidden, task.state(), task.actions())?;
        let (clusters, workers) = (settings.clusters, settings.workers_per_cluster);
        let slowness = rl::periods(section, clusters, workers, seed)?;
        let learning = Learning {
            clusters: (clusters, workers),
            updates: settings.updates,
            steps: settings.steps,
            limit: settings.limit,
            step_time: settings.step_time.ps(),
            jitter: settings.compute_jitter,
            draws: seed.draws("learner.jitter"),
            task,
            net,
            slowness,
            seed,
        };
        Ok(Box::new(Alone::new(Arc::new(learning))))
    }
}

/// The network of a task, from `hidden`.
fn net(section: &Section, Layers(hidden): &Layers, state: usize, actions: usize) -> Result<Net> {
    // One output per action and the value: shared, so that a model fits a packet (OLAF §8.2).
    let net = Net::new([&[state], &hidden[..], &[actions + 1]].concat());
    if hidden.contains(&0) || net.parameters() > PARAMETERS_MAX {
        return Err(Error::config(format!(
            "{}: layers of {hidden:?} units make {} parameters; each layer has at least 1, and a packet holds at most {PARAMETERS_MAX} parameters",
            section.place("hidden"),
            net.parameters()
        )));
    }
    Ok(net)
}

/// A list of sizes.
struct Layers(Vec<usize>);

impl Layers {
    fn default_value() -> Value {
        Value::List(vec![Entry { value: 16u32.into(), origin: Origin::Default }])
    }
}

impl FromValue for Layers {
    fn takes() -> String {
        "a list of the sizes of hidden layers".to_owned()
    }

    fn from_value(value: &Value) -> Result<Self, String> {
        let wrong =
            || format!("{} is not a list of the sizes of hidden layers, such as [16] or [16, 8]", value.to_toml());
        let Value::List(items) = value else { return Err(wrong()) };
        let size = |item: &Entry| u32::from_value(&item.value).ok().filter(|n| *n <= 4096).map(|n| n as usize);
        let sizes: Option<Vec<usize>> = items.iter().map(size).collect();
        sizes.filter(|sizes| !sizes.is_empty()).map(Layers).ok_or_else(wrong)
    }
}

/// The workload as an open loop.
struct Alone {
    learning: Arc<Learning>,
    population: Population,
    agents: Vec<Agent>,
    /// When each worker's iteration ends. Ties go to the lower worker.
    turns: BinaryHeap<Reverse<(Time, u32)>>,
    head: Option<Update>,
    failure: Option<String>,
}

impl Alone {
    fn new(learning: Arc<Learning>) -> Self {
        let (clusters, workers) = learning.clusters();
        let mut agents: Vec<_> = (0..learning.workers()).map(|worker| Agent::new(&learning, worker)).collect();
        let begin = |(worker, agent): (usize, &mut Agent)| Some(Reverse((agent.begin(&learning)?, worker as u32)));
        let turns = agents.iter_mut().enumerate().filter_map(begin).collect();
        let population = Population::regular(clusters, workers);
        let mut alone = Alone { learning, population, agents, turns, head: None, failure: None };
        alone.load();
        alone
    }

    fn load(&mut self) {
        self.head = None;
        let Some(&Reverse((t_gen, worker))) = self.turns.peek() else { return };
        if t_gen > HORIZON {
            let keys = "lower workload.step_time or workload.updates";
            self.failure = Some(too_late("the end of the next iteration", t_gen as f64, keys));
            return;
        }
        self.head = Some(self.learning.update(&self.agents[worker as usize], worker, t_gen));
    }
}

impl Learning {
    /// The update of a worker whose iteration ends at `t_gen`.
    pub fn update(&self, agent: &Agent, worker: u32, t_gen: Time) -> Update {
        Update {
            t_gen,
            cluster: self.cluster_of(worker),
            worker,
            seq: agent.iteration(),
            bytes: (HEAD + UPDATE_HEAD + 4 * self.parameters()) as u32,
            reward: Some(agent.reward()),
            iteration: None,
        }
    }
}

impl Source for Alone {
    fn population(&self) -> &Population {
        &self.population
    }

    fn known(&self) -> Known {
        let frame_max = (HEAD + UPDATE_HEAD + 4 * self.learning.parameters()) as u32;
        Known { driven: Some(Driven::Learning(self.learning.clone())), ..Known::pulled(frame_max) }
    }

    fn peek(&self) -> Option<&Update> {
        self.head.as_ref()
    }

    fn take(&mut self, values: &mut [u8]) {
        let Some(Update { worker, t_gen, .. }) = self.head else { return };
        let agent = &mut self.agents[worker as usize];
        agent.write(values);
        self.turns.pop();
        if let Some(time) = agent.begin(&self.learning) {
            self.turns.push(Reverse((t_gen.saturating_add(time), worker)));
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

    #[test]
    fn workers_that_nobody_answers_stay_at_their_first_model() {
        let keys = [("clusters", 2u32.into()), ("updates", 4u32.into()), ("step_time", "1us".into())];
        let mut source =
            Learn.open(&mut Section::of("workload", &keys), &mut Section::of("schedule", &[]), Seed(5)).unwrap();
        let learning = source.known().learning().unwrap();
        let (mut values, mut gradient) = (vec![0; 4 * learning.parameters()], vec![0.0; learning.parameters()]);
        let (mut seen, mut last) = ([0; 6], 0);
        while let Some(update) = source.peek().copied() {
            assert!(update.t_gen >= last);
            last = update.t_gen;
            assert_eq!(update.seq, seen[update.worker as usize]);
            assert_eq!((u32::from(update.cluster), update.bytes), (update.worker / 3, 72 + 4 * 131));
            seen[update.worker as usize] += 1;
            source.take(&mut values);
            let first = learning.first_weights(update.cluster);
            let played = learning.iterate(update.worker, update.seq, &first, &mut gradient);
            assert_eq!(update.reward, Some(played.reward));
            assert!(gradient.iter().zip(values.as_chunks::<4>().0).all(|(g, bytes)| g.to_le_bytes() == *bytes));
        }
        assert_eq!(seen, [4; 6]);
    }
}
