//! An iteration of an agent: episodes on the model that it holds, and the policy gradient of them.
//!
//! The gradient is that of PPO (OLAF §2.1, "Experimental Underpinning") at its first pass over what was played, where no
//! ratio has left 1 and nothing is clipped: generalised advantages, normalised; a value that learns the returns; a little
//! entropy. It points uphill, as the paper's `w + γ·g` has it.

use super::{Net, STATE_MAX, Task};
use crate::seed::{Draws, Seed, unit};
use crate::time::Time;

/// How much a later reward counts.
const DISCOUNT: f32 = 0.99;
/// How far advantages look ahead.
const DECAY: f32 = 0.95;
/// Weight of the value's error.
const VALUE: f32 = 0.5;
/// Weight of the policy's entropy.
const ENTROPY: f32 = 0.01;

/// What all agents of a run share.
pub struct Learning {
    pub(crate) task: &'static dyn Task,
    pub(crate) net: Net,
    /// Clusters, and workers of each.
    pub(crate) clusters: (u16, u32),
    /// Iterations of each worker.
    pub(crate) updates: u32,
    /// An iteration ends with the first episode that ends after so many steps.
    pub(crate) steps: u32,
    /// Steps after which an episode is cut.
    pub(crate) limit: u32,
    /// Time of a step on a machine of speed 1.
    pub(crate) step_time: Time,
    /// How much slower each worker's machine is.
    pub(crate) slowness: Vec<f64>,
    /// Share by which the time of an iteration varies, up and down.
    pub(crate) jitter: f64,
    pub(crate) draws: Draws,
    pub(crate) seed: Seed,
}

/// What an iteration was, its gradient apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Played {
    /// Mean return of its episodes: r_i of §2.1.
    pub reward: f32,
    /// Steps of them.
    pub steps: u32,
}

/// What was seen and done, step by step.
#[derive(Debug, Default)]
pub(super) struct Steps {
    pub(super) states: Vec<f32>,
    /// What the layers gave.
    pub(super) units: Vec<f32>,
    pub(super) actions: Vec<usize>,
    pub(super) rewards: Vec<f32>,
    /// Where each episode ends, and the value of its last state: 0 if it was over, an estimate if it was cut.
    pub(super) ends: Vec<(usize, f32)>,
}

/// How much better each action was than expected, and what each state was worth.
#[derive(Debug, Clone, Default)]
pub(super) struct Judged {
    pub(super) advantages: Vec<f32>,
    pub(super) returns: Vec<f32>,
}

impl Learning {
    /// Clusters, and workers of each.
    pub fn clusters(&self) -> (u16, u32) {
        self.clusters
    }

    /// Workers in all.
    pub fn workers(&self) -> u32 {
        u32::from(self.clusters.0) * self.clusters.1
    }

    /// Iterations of each worker.
    pub fn updates(&self) -> u32 {
        self.updates
    }

    /// Parameters of the model.
    pub fn parameters(&self) -> usize {
        self.net.parameters()
    }

    /// The cluster of a worker.
    pub fn cluster_of(&self, worker: u32) -> u16 {
        (worker / self.clusters.1) as u16
    }

    /// The model that all workers of a cluster begin with.
    pub fn first_weights(&self, cluster: u16) -> Vec<f32> {
        self.net.first(&mut self.seed.stream("learner.weights", cluster.into(), 0))
    }

    /// How long `worker` takes for an iteration of so many steps.
    pub fn lasts(&self, worker: u32, iteration: u32, steps: u32) -> Time {
        let swing = 1.0 + self.jitter * (2.0 * self.draws.unit(worker, iteration, 0) - 1.0);
        (self.step_time as f64 * f64::from(steps) * self.slowness[worker as usize] * swing).round().max(1.0) as Time
    }

    /// Iteration `iteration` of `worker` on the model `weights`; its gradient is written into `gradient`.
    pub(crate) fn iterate(&self, worker: u32, iteration: u32, weights: &[f32], gradient: &mut [f32]) -> Played {
        let steps = self.play(worker, iteration, weights);
        let judged = self.judge(&steps);
        self.ascend(&steps, &judged, weights, gradient);
        let reward = steps.rewards.iter().sum::<f32>() / steps.ends.len() as f32;
        Played { reward, steps: steps.rewards.len() as u32 }
    }

    /// Plays episodes until there are enough steps.
    pub(super) fn play(&self, worker: u32, iteration: u32, weights: &[f32]) -> Steps {
        let mut stream = self.seed.stream("learner.episode", worker.into(), iteration.into());
        let (size, actions) = (self.task.state(), self.task.actions());
        let mut steps = Steps::default();
        let mut units = vec![0.0; self.net.units()];
        let chances_at = units.len() - self.net.outputs();
        while steps.rewards.len() < self.steps as usize {
            let mut state = [0.0f64; STATE_MAX];
            self.task.begin(&mut stream, &mut state[..size]);
            let (begun, mut over) = (steps.rewards.len(), false);
            while !over && steps.rewards.len() - begun < self.limit as usize {
                let seen = steps.states.len();
                steps.states.extend(state[..size].iter().map(|x| *x as f32));
                self.net.forward(weights, &steps.states[seen..], &mut units);
                let action = choose(&units[chances_at..chances_at + actions], unit(&mut stream) as f32);
                let (reward, down) = self.task.step(action, &mut state[..size]);
                over = down;
                steps.units.extend_from_slice(&units);
                steps.actions.push(action);
                steps.rewards.push(reward);
            }
            let mut last = 0.0;
            if !over {
                let seen = state.map(|x| x as f32);
                self.net.forward(weights, &seen[..size], &mut units);
                last = units[units.len() - 1];
            }
            steps.ends.push((steps.rewards.len(), last));
        }
        steps
    }

    /// Generalised advantages with mean 0 and deviation 1, and returns.
    pub(super) fn judge(&self, steps: &Steps) -> Judged {
        let (count, units) = (steps.rewards.len(), self.net.units());
        let value = |step: usize| steps.units[(step + 1) * units - 1];
        let mut judged = Judged { advantages: vec![0.0; count], returns: vec![0.0; count] };
        let mut begin = 0;
        for &(end, last) in &steps.ends {
            let (mut after, mut running) = (last, 0.0);
            for step in (begin..end).rev() {
                let error = steps.rewards[step] * self.task.reward_scale() + DISCOUNT * after - value(step);
                running = error + DISCOUNT * DECAY * running;
                after = value(step);
                judged.advantages[step] = running;
                judged.returns[step] = running + after;
            }
            begin = end;
        }
        let mean = judged.advantages.iter().sum::<f32>() / count as f32;
        let square = judged.advantages.iter().map(|a| (a - mean) * (a - mean)).sum::<f32>() / count as f32;
        let deviation = square.sqrt() + 1e-8;
        judged.advantages.iter_mut().for_each(|a| *a = (*a - mean) / deviation);
        judged
    }

    /// The gradient of the objective: the mean over steps of `log π(a)·A − VALUE·(V − R)²/2 + ENTROPY·H`.
    pub(super) fn ascend(&self, steps: &Steps, judged: &Judged, weights: &[f32], gradient: &mut [f32]) {
        let (size, units, actions) = (self.task.state(), self.net.units(), self.task.actions());
        let share = 1.0 / steps.rewards.len() as f32;
        let mut slope = vec![0.0; self.net.outputs()];
        let mut chances = vec![0.0; actions];
        gradient.fill(0.0);
        for (step, given) in steps.units.chunks_exact(units).enumerate() {
            let outputs = &given[units - slope.len()..];
            softmax(&outputs[..actions], &mut chances);
            let entropy: f32 = -chances.iter().map(|p| p * p.ln()).sum::<f32>();
            for (action, p) in chances.iter().enumerate() {
                let taken = f32::from(u8::from(action == steps.actions[step]));
                slope[action] = share * (judged.advantages[step] * (taken - p) - ENTROPY * p * (p.ln() + entropy));
            }
            slope[actions] = -share * VALUE * (outputs[actions] - judged.returns[step]);
            self.net.backward(weights, &steps.states[step * size..][..size], given, &slope, gradient);
        }
    }

    /// The objective itself.
    #[cfg(test)]
    pub(super) fn objective(&self, steps: &Steps, judged: &Judged, weights: &[f32]) -> f64 {
        let (size, actions) = (self.task.state(), self.task.actions());
        let (mut units, mut chances) = (vec![0.0; self.net.units()], vec![0.0; actions]);
        let mut sum = 0.0f64;
        for step in 0..steps.rewards.len() {
            self.net.forward(weights, &steps.states[step * size..][..size], &mut units);
            let outputs = &units[units.len() - actions - 1..];
            softmax(&outputs[..actions], &mut chances);
            let entropy: f64 = -chances.iter().map(|p| f64::from(*p) * f64::from(*p).ln()).sum::<f64>();
            let error = f64::from(outputs[actions] - judged.returns[step]);
            sum += f64::from(chances[steps.actions[step]]).ln() * f64::from(judged.advantages[step])
                - f64::from(VALUE) * 0.5 * error * error
                + f64::from(ENTROPY) * entropy;
        }
        sum / steps.rewards.len() as f64
    }
}

/// The chances that outputs stand for; none is 0, so that each has a logarithm.
fn softmax(outputs: &[f32], chances: &mut [f32]) {
    let most = outputs.iter().copied().fold(f32::MIN, f32::max);
    chances.iter_mut().zip(outputs).for_each(|(p, x)| *p = (x - most).max(-60.0).exp());
    let sum: f32 = chances.iter().sum();
    chances.iter_mut().for_each(|p| *p /= sum);
}

/// The action that a draw from 0 to 1 chooses.
fn choose(outputs: &[f32], draw: f32) -> usize {
    let mut chances = [0.0; STATE_MAX];
    let chances = &mut chances[..outputs.len()];
    softmax(outputs, chances);
    let mut below = 0.0;
    for (action, p) in chances.iter().enumerate() {
        below += p;
        if draw < below {
            return action;
        }
    }
    outputs.len() - 1
}
