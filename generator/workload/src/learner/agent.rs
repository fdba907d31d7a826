//! One worker: the model that it holds, and the update that it is at.

use super::Learning;
use crate::time::Time;

/// A worker of a run. It computes on the model that it holds; what it hears meanwhile waits until the iteration is over
/// (OLAF §8.2: workers "do not preempt when receiving an updated global model but use it as soon as they finish").
#[derive(Debug, Clone)]
pub struct Agent {
    worker: u32,
    /// Iterations that it has begun.
    begun: u32,
    weights: Vec<f32>,
    /// The newest model that it heard of, if it does not use it yet.
    heard: Option<Vec<f32>>,
    gradient: Vec<f32>,
    reward: f32,
}

impl Agent {
    /// A worker with its cluster's first model.
    pub fn new(learning: &Learning, worker: u32) -> Self {
        let weights = learning.first_weights(learning.cluster_of(worker));
        let gradient = vec![0.0; weights.len()];
        Agent { worker, begun: 0, weights, heard: None, gradient, reward: 0.0 }
    }

    /// Takes up the newest model that it heard of and computes the next iteration; how long that takes. None if it has
    /// done all.
    pub fn begin(&mut self, learning: &Learning) -> Option<Time> {
        if self.begun == learning.updates() {
            return None;
        }
        if let Some(heard) = self.heard.take() {
            self.weights = heard;
        }
        let iteration = self.begun;
        self.begun += 1;
        let played = learning.iterate(self.worker, iteration, &self.weights, &mut self.gradient);
        self.reward = played.reward;
        Some(learning.lasts(self.worker, iteration, played.steps))
    }

    /// A model came, as little-endian f32s. One of another size is none.
    pub fn hear(&mut self, model: &[u8]) {
        let numbers = model.as_chunks::<4>().0;
        if numbers.len() == self.weights.len() {
            self.heard = Some(numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect());
        }
    }

    /// Number of the iteration that it is at, from 0.
    pub fn iteration(&self) -> u32 {
        self.begun.saturating_sub(1)
    }

    /// The model that it computes on.
    pub fn weights(&self) -> &[f32] {
        &self.weights
    }

    /// The mean reward of the iteration.
    pub fn reward(&self) -> f32 {
        self.reward
    }

    /// Whether its gradient is made of numbers.
    pub fn is_finite(&self) -> bool {
        self.gradient.iter().all(|value| value.is_finite())
    }

    /// Writes its gradient as little-endian f32s, as many as fit.
    pub fn write(&self, values: &mut [u8]) {
        let places = values.as_chunks_mut::<4>().0;
        places.iter_mut().zip(&self.gradient).for_each(|(bytes, value)| *bytes = value.to_le_bytes());
    }
}
