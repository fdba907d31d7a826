//! The parameter server's side of learning: its reward gate, the average gradient, the global weights (OLAF §2.1).
//!
//! There is one model per cluster, since clusters are tenants. An update whose reward is above r_g moves the
//! model: `g_a = avg(g_a, g_i)`, `w = w + γ·g_a`; g_i of an aggregate is the mean of its members. The paper's r_g
//! begins at −∞ and is what was stored last, read literally the highest reward so far (`max`); `moving_average`
//! keeps an exponential average of all rewards instead, which goes on accepting when rewards fall.

use pktgen_generator::config::{FromValue, Section, Value};
use pktgen_generator::{Error, Result};

/// Which updates are accepted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Gate {
    /// All.
    Off,
    /// Those with a reward above all before.
    Max,
    /// Those with a reward above the average of those before; the newest counts with this weight.
    MovingAverage(f64),
}

/// What the ACK of an update carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Carries {
    /// No model.
    Nothing,
    /// The gradients of the packet that it answers (§7: "aggregated gradients").
    Gradients,
    /// g_a.
    Average,
    /// w.
    Weights,
}

impl FromValue for Carries {
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

/// A cluster's model.
#[derive(Debug, Clone)]
struct Model {
    /// r_g.
    reward: f64,
    /// g_a; empty before the first accepted update.
    average: Vec<f32>,
    /// w; the workers' first weights are not in gradient packets, so it begins at 0.
    weights: Vec<f32>,
}

/// The models of all clusters, and the rule by which they move.
pub(super) struct Models {
    gate: Gate,
    rate: f32,
    /// Are average and weights asked for?
    learns: bool,
    models: Vec<Model>,
}

impl Models {
    /// Reads `gate`, `gate_weight` and `learning_rate` from `[endpoint]`.
    pub(super) fn read(section: &mut Section, clusters: usize, carries: Carries) -> Result<Self> {
        let weight: f64 = section.get("gate_weight", 0.1)?;
        if !(weight > 0.0 && weight <= 1.0) {
            return Err(Error::config(format!(
                "{}: {weight} is not above 0 and at most 1",
                section.place("gate_weight")
            )));
        }
        let gates = [("off", Gate::Off), ("max", Gate::Max), ("moving_average", Gate::MovingAverage(weight))];
        let gate = section.choose("gate", "off", &gates)?;
        let rate: f64 = section.get("learning_rate", 0.001)?;
        let learns = matches!(carries, Carries::Average | Carries::Weights);
        let model = Model { reward: f64::NEG_INFINITY, average: Vec::new(), weights: Vec::new() };
        Ok(Models { gate, rate: rate as f32, learns, models: vec![model; clusters] })
    }

    /// An update of `cluster` with this reward that represents `count` updates, the sum of whose gradients
    /// (little-endian f32s) is `sum`. Is it accepted?
    pub(super) fn update(&mut self, cluster: u16, reward: f32, count: u16, sum: &[u8]) -> bool {
        let Some(model) = self.models.get_mut(usize::from(cluster)) else { return true };
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
            model.learn(f32::from(count), self.rate, sum);
        }
        accepted
    }

    /// What an ACK to `cluster` carries.
    pub(super) fn vector(&self, cluster: u16, carries: Carries) -> &[f32] {
        match (self.models.get(usize::from(cluster)), carries) {
            (Some(model), Carries::Average) => &model.average,
            (Some(model), Carries::Weights) => &model.weights,
            _ => &[],
        }
    }
}

impl Model {
    fn learn(&mut self, count: f32, rate: f32, sum: &[u8]) {
        let gradients = sum.as_chunks::<4>().0;
        let known = self.average.len();
        if known < gradients.len() {
            self.average.resize(gradients.len(), 0.0);
            self.weights.resize(gradients.len(), 0.0);
        }
        for (i, bytes) in gradients.iter().enumerate() {
            let own = f32::from_le_bytes(*bytes) / count;
            // The first gradient of an element has nothing to be averaged with.
            self.average[i] = if i < known { (self.average[i] + own) / 2.0 } else { own };
            self.weights[i] += rate * self.average[i];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn models(gate: &str, carries: Carries) -> Models {
        let mut section = Section::of("endpoint", &[("gate", gate.into()), ("gate_weight", 0.5.into())]);
        Models::read(&mut section, 2, carries).unwrap()
    }

    fn bytes(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
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
            let accepted = rewards.map(|r| models.update(0, r, 1, &[]));
            assert_eq!(accepted, expected, "{gate}");
            assert!(models.update(1, -5.0, 1, &[]), "{gate}: another cluster begins anew");
        }
    }

    #[test]
    fn accepted_updates_move_average_and_weights() {
        let mut models = models("max", Carries::Weights);
        assert!(models.update(0, 1.0, 2, &bytes(&[4.0, -2.0])));
        assert_eq!(models.vector(0, Carries::Average), [2.0, -1.0]);
        assert!(!models.update(0, 0.5, 1, &bytes(&[100.0, 100.0])));
        assert!(models.update(0, 2.0, 1, &bytes(&[1.0, 1.0])));
        assert_eq!(models.vector(0, Carries::Average), [1.5, 0.0]);
        assert_eq!(models.vector(0, Carries::Weights), [0.001 * 2.0 + 0.001 * 1.5, -0.001]);
        assert!(models.vector(1, Carries::Weights).is_empty());
    }

    #[test]
    fn unknown_values_are_named() {
        let mut section = Section::of("endpoint", &[("gate", "best".into())]);
        let message = Models::read(&mut section, 1, Carries::Nothing).err().unwrap().to_string();
        assert!(message.contains("best") && message.contains("moving_average"), "{message}");
    }
}
