//! The parameter server's side of learning: reward gate, model steps and global weights (OLAF §2.1).
//!
//! There is one model per cluster, since clusters are tenants. An update whose reward is above r_g moves the
//! model ([`Step`]: `g_a = avg(g_a, g_i)`, `w = w + γ·g_a`); g_i of an aggregate is the mean of its members. The
//! paper's r_g starts at −∞ and is the reward stored last, read literally the highest so far (`max`); `moving_average`
//! uses an exponential average of all rewards instead, which keeps accepting when rewards fall.

use pktgen_core::Result;
use pktgen_core::config::{FromValue, Section, Value, above_to, settings};
use pktgen_workload::learner::Learning;

use super::Facts;
use super::step::{Memory, Step};

/// The gate's rule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Gate {
    /// Accepts all updates.
    Off,
    /// Accepts rewards above all previous ones.
    Max,
    /// Accepts rewards above the average of the previous ones; the newest has this weight.
    MovingAverage(f64),
}

/// The content of an ACK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Carries {
    /// No model.
    Nothing,
    /// The gradients of the acknowledged packet (§7: "aggregated gradients").
    Gradients,
    /// g_a.
    Average,
    /// w.
    Weights,
}

impl FromValue for Carries {
    fn takes() -> String {
        "none, gradients, average, weights".to_owned()
    }

    fn from_value(value: &Value) -> Result<Self, String> {
        match value {
            Value::Text(text) if text == "none" => Ok(Carries::Nothing),
            Value::Text(text) if text == "gradients" => Ok(Carries::Gradients),
            Value::Text(text) if text == "average" => Ok(Carries::Average),
            Value::Text(text) if text == "weights" => Ok(Carries::Weights),
            other => Err(format!("{} is not known; there are: none, gradients, average, weights", other.to_toml())),
        }
    }
}

/// When the model moves, and which workers are answered (§2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// At each packet; its sender is answered at once.
    Asynchronous,
    /// After a number of updates; all workers of the cluster get an ACK, and none waits for it.
    Periodic,
    /// After the round's update of each worker; all wait for the ACK.
    Synchronous,
}

settings! {
    /// What workers that learn read from `[endpoint]`, and the server for them.
    pub(super) keys Learners {
        /// When the server updates the model, and which workers it answers.
        mode: Mode = "asynchronous" of [
            ("asynchronous", Mode::Asynchronous, ""), ("periodic", Mode::Periodic, ""), ("synchronous", Mode::Synchronous, "")
        ];
    }
}

settings! {
    /// What the server reads for workers that learn.
    pub(super) keys Steps {
        /// Updates per step in periodic mode, which alone reads it; if not set, the number of workers of the cluster.
        batch: Option<u32> in 1.., "a step of 0 updates moves nothing";
        /// Optimiser: how a step changes the model.
        step: Step = "average" of [("average", Step::Average, ""), ("adam", Step::Adam, "")];
        /// Unit of a step's count: packets, or the updates that they represent.
        step_per: bool = "packet" of [("packet", false, ""), ("update", true, "")];
    }
}

settings! {
    /// What the server reads from `[endpoint]`, whoever its workers are.
    pub(super) struct Moves {
        /// Weight of the newest reward in the moving average.
        gate_weight: f64 = 0.1 in above_to(0.0, 1.0);
        /// Reward gate: which updates the server accepts.
        gate: Gate = "off" of [
            ("off", Gate::Off, "all"), ("max", Gate::Max, "rewards above all previous ones"),
            ("moving_average", Gate::MovingAverage(0.0), "rewards above the moving average")
        ];
        /// Learning rate: factor of the gradients.
        learning_rate: f64 = 0.001 in above_to(0.0, RATE_MAX);
    }
}

/// Settings of the server for workers that learn; the default applies to others.
#[derive(Debug, Clone, Copy)]
struct Learns {
    mode: Mode,
    /// Updates that make a step in periodic mode, if not as many as workers.
    batch: Option<u32>,
    step: Step,
    /// Whether a step counts for as many as the updates that it is of.
    per_update: bool,
}

impl Default for Learns {
    fn default() -> Self {
        Learns { mode: Mode::Asynchronous, batch: None, step: Step::Average, per_update: false }
    }
}

impl Learns {
    /// Reads `mode`, `batch`, `step` and `step_per` from `[endpoint]`.
    fn read(section: &mut Section) -> Result<Self> {
        let mode = Learners::mode(section)?;
        Ok(Learns {
            // Not read in other modes, so that it is noted as a key without effect.
            batch: if mode == Mode::Periodic { Steps::batch(section)? } else { None },
            mode,
            step: Steps::step(section)?,
            per_update: Steps::step_per(section)?,
        })
    }
}

/// The workers to be answered now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Sender,
    Everyone,
    Nobody,
}

/// A cluster's model.
#[derive(Debug, Clone)]
struct Model {
    /// r_g.
    reward: f64,
    /// State of its steps, including g_a; empty before the first accepted update.
    memory: Memory,
    /// w. Where workers do not learn, their first weights are unknown, so w starts at 0.
    weights: Vec<f32>,
    /// The sum of accepted gradients since the last step, and the number of their updates.
    waiting: (Vec<f32>, u32),
    /// Updates since the last step, accepted or not.
    arrived: u32,
    /// Updates per step; 1 if each packet makes one.
    batch: u32,
}

/// Maximum learning rate.
const RATE_MAX: f64 = 1000.0;

/// The models of all clusters, and their update rule.
pub(super) struct Models {
    how: Learns,
    gate: Gate,
    rate: f32,
    /// Whether average and weights are needed.
    learns: bool,
    models: Vec<Model>,
}

impl Models {
    /// Reads `gate`, `gate_weight` and `learning_rate` from `[endpoint]`, and the keys for workers that learn.
    pub(super) fn read(section: &mut Section, facts: &Facts, carries: Carries) -> Result<Self> {
        let mut sizes = vec![0u32; facts.workers.clusters_ever()];
        for cluster in &facts.workers.cluster_of {
            sizes.get_mut(usize::from(*cluster)).into_iter().for_each(|size| *size += 1);
        }
        let how = if facts.kind.behaviour().learns { Learns::read(section)? } else { Learns::default() };
        let mut models = Self::of(section, &sizes, how, carries)?;
        if let Some(learning) = &facts.learning {
            models.begin_with(learning);
        }
        Ok(models)
    }

    /// Makes the models for clusters of these sizes.
    fn of(section: &mut Section, sizes: &[u32], how: Learns, carries: Carries) -> Result<Self> {
        let Moves { gate_weight, gate, learning_rate } = Moves::read(section)?;
        let rate = section.factor("learning_rate", learning_rate)?;
        let gate = if let Gate::MovingAverage(_) = gate { Gate::MovingAverage(gate_weight) } else { gate };
        let model = |size: &u32| Model {
            reward: f64::NEG_INFINITY,
            memory: Memory::default(),
            weights: Vec::new(),
            waiting: (Vec::new(), 0),
            arrived: 0,
            batch: match how.mode {
                Mode::Asynchronous => 1,
                Mode::Periodic => how.batch.unwrap_or(*size),
                Mode::Synchronous => *size,
            },
        };
        let learns = matches!(carries, Carries::Average | Carries::Weights);
        let models = sizes.iter().map(model).collect();
        Ok(Models { how, gate, rate, learns, models })
    }

    /// Sets the workers' first weights. §2.1 takes the weights of the worker that comes first; here all workers of a
    /// cluster start with the same.
    fn begin_with(&mut self, learning: &Learning) {
        for (cluster, model) in self.models.iter_mut().enumerate() {
            model.weights = learning.first_weights(cluster as u16);
        }
    }

    /// Processes an update of `cluster` with this reward that represents `count` updates; `sum` is the sum of their
    /// gradients (little-endian f32s). Returns whether it is accepted, and which workers are answered.
    pub(super) fn update(&mut self, cluster: u16, reward: f32, count: u16, sum: &[u8]) -> (bool, Answer) {
        let Some(model) = self.models.get_mut(usize::from(cluster)) else { return (true, Answer::Sender) };
        let reward = f64::from(reward);
        let accepted = match self.gate {
            Gate::Off => true,
            Gate::Max | Gate::MovingAverage(_) => reward > model.reward,
        };
        match self.gate {
            Gate::Off => {}
            Gate::Max if accepted => model.reward = reward,
            Gate::Max => {}
            Gate::MovingAverage(_) if model.reward == f64::NEG_INFINITY => model.reward = reward,
            Gate::MovingAverage(weight) => model.reward += weight * (reward - model.reward),
        }
        if accepted && self.learns {
            model.gather(count, sum);
        }
        model.arrived += u32::from(count);
        if model.arrived < model.batch {
            return (accepted, Answer::Nobody);
        }
        model.arrived = 0;
        let of = std::mem::take(&mut model.waiting.1);
        if of > 0 {
            model.learn(self.how.step, self.rate * if self.how.per_update { of as f32 } else { 1.0 }, of as f32);
        }
        (accepted, if self.how.mode == Mode::Asynchronous { Answer::Sender } else { Answer::Everyone })
    }

    /// Returns the content of an ACK to `cluster`.
    pub(super) fn vector(&self, cluster: u16, carries: Carries) -> &[f32] {
        match (self.models.get(usize::from(cluster)), carries) {
            (Some(model), Carries::Average) => &model.memory.average,
            (Some(model), Carries::Weights) => &model.weights,
            _ => &[],
        }
    }
}

impl Model {
    /// Adds the gradients of `count` updates to those of the next step.
    fn gather(&mut self, count: u16, sum: &[u8]) {
        let gradients = sum.as_chunks::<4>().0;
        let (waiting, of) = &mut self.waiting;
        if *of == 0 {
            waiting.clear();
        }
        if waiting.len() < gradients.len() {
            waiting.resize(gradients.len(), 0.0);
        }
        for (all, bytes) in waiting.iter_mut().zip(gradients) {
            *all += f32::from_le_bytes(*bytes);
        }
        *of += u32::from(count);
    }

    /// Moves the weights by the mean of the collected gradients of `count` updates.
    fn learn(&mut self, step: Step, rate: f32, count: f32) {
        let own = &mut self.waiting.0;
        own.iter_mut().for_each(|g| *g /= count);
        if self.weights.len() < own.len() {
            self.weights.resize(own.len(), 0.0);
        }
        step.take(&mut self.memory, &mut self.weights, own, rate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn models(gate: &str, carries: Carries) -> Models {
        let mut section = Section::of("endpoint", &[("gate", gate.into()), ("gate_weight", 0.5.into())]);
        Models::of(&mut section, &[3, 3], Learns::default(), carries).unwrap()
    }

    fn bytes(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    #[test]
    fn a_learning_rate_that_32_bits_do_not_hold_is_refused() {
        let read = |rate: f64| {
            let mut section = Section::of("endpoint", &[("learning_rate", rate.into())]);
            Models::of(&mut section, &[3], Learns::default(), Carries::Weights).err().map(|error| error.to_string())
        };
        for rate in [1e-46, 1e-40] {
            let why = read(rate).expect("refused");
            assert!(why.contains("endpoint.learning_rate") && why.contains("1.1754944e-38"), "{why}");
        }
        assert_eq!(read(1e-37), None);
    }

    #[test]
    fn gates_accept_by_their_rule_and_per_cluster() {
        let rewards = [1.0, 0.5, 2.0, 2.0, 1.2, 1.8];
        for (gate, expected) in [
            ("off", [true; 6]),
            ("max", [true, false, true, false, false, false]),
            // r_g before each: −∞, 1, 0.75, 1.375, 1.6875, 1.44375
            ("moving_average", [true, false, true, true, false, true]),
        ] {
            let mut models = models(gate, Carries::Nothing);
            let accepted = rewards.map(|r| models.update(0, r, 1, &[]).0);
            assert_eq!(accepted, expected, "{gate}");
            assert!(models.update(1, -5.0, 1, &[]).0, "{gate}: another cluster begins anew");
        }
    }

    #[test]
    fn accepted_updates_move_average_and_weights() {
        let mut models = models("max", Carries::Weights);
        assert_eq!(models.update(0, 1.0, 2, &bytes(&[4.0, -2.0])), (true, Answer::Sender));
        assert_eq!(models.vector(0, Carries::Average), [2.0, -1.0]);
        assert_eq!(models.update(0, 0.5, 1, &bytes(&[100.0, 100.0])), (false, Answer::Sender));
        assert!(models.update(0, 2.0, 1, &bytes(&[1.0, 1.0])).0);
        assert_eq!(models.vector(0, Carries::Average), [1.5, 0.0]);
        assert_eq!(models.vector(0, Carries::Weights), [0.001 * 2.0 + 0.001 * 1.5, -0.001]);
        assert!(models.vector(1, Carries::Weights).is_empty());
    }

    /// A cluster of three workers that learn.
    fn learning(keys: &[(&str, Value)]) -> Models {
        let mut section = Section::of("endpoint", keys);
        let how = Learns::read(&mut section).unwrap();
        Models::of(&mut section, &[3], how, Carries::Weights).unwrap()
    }

    #[test]
    fn only_periodic_mode_reads_the_batch() {
        for (mode, reads) in [("asynchronous", false), ("synchronous", false), ("periodic", true)] {
            let mut section = Section::of("endpoint", &[("mode", mode.into()), ("batch", 4u32.into())]);
            Learns::read(&mut section).unwrap();
            assert_eq!(section.asked().iter().any(|key| key == "batch"), reads, "{mode}");
        }
    }

    /// A batch makes one step by its mean; rejected updates count as arrived, and move nothing.
    #[test]
    fn batches_move_the_model_once_and_tell_everyone() {
        for (mode, batch) in [("synchronous", None), ("periodic", None), ("periodic", Some(4u32))] {
            let mut keys = vec![("mode", mode.into()), ("gate", "max".into()), ("learning_rate", 1.0.into())];
            keys.extend(batch.map(|n| ("batch", n.into())));
            let mut models = learning(&keys);
            assert_eq!(models.update(0, 1.0, 1, &bytes(&[1.0])), (true, Answer::Nobody));
            assert_eq!(models.update(0, 0.0, 1, &bytes(&[50.0])), (false, Answer::Nobody));
            assert!(models.vector(0, Carries::Weights).is_empty());
            let last = batch.map_or(1, |_| 2);
            assert_eq!(models.update(0, 2.0, last, &bytes(&[5.0])), (true, Answer::Everyone));
            assert_eq!(models.vector(0, Carries::Weights), [6.0 / f32::from(1 + last)], "{mode}");
            assert_eq!(models.update(0, 3.0, 1, &bytes(&[9.0])), (true, Answer::Nobody), "a new batch");
        }
    }

    #[test]
    fn a_step_may_count_for_all_that_it_is_of() {
        for (step_per, expected) in [("packet", 2.0), ("update", 6.0)] {
            let keys = [("step_per", step_per.into()), ("learning_rate", 1.0.into())];
            let mut models = learning(&keys);
            models.update(0, 1.0, 3, &bytes(&[6.0]));
            assert_eq!(models.vector(0, Carries::Weights), [expected]);
        }
    }

    #[test]
    fn unknown_values_are_named() {
        let mut section = Section::of("endpoint", &[("gate", "best".into())]);
        let message = Models::of(&mut section, &[1], Learns::default(), Carries::Nothing).err().unwrap().to_string();
        assert!(message.contains("best") && message.contains("moving_average"), "{message}");
    }
}
