//! Agents that learn: a task, one network for policy and value, and an iteration as a pure function (model, seed → update).
//!
//! OLAF §2.1: a worker plays on the model that it holds and sends the gradient with the mean reward. [`iteration`] does that;
//! who holds which model when is the endpoint's business. To add a task: a new file here, its `mod` line and its entry in
//! [`TASKS`]. Made by the workload `learn`.

mod agent;
mod cartpole;
mod iteration;
mod net;

use crate::registry::Named;
use crate::seed::Stream;

pub use agent::Agent;
pub use iteration::Learning;
pub use net::Net;

/// Most numbers of a state.
pub(crate) const STATE_MAX: usize = 8;

/// What agents learn to do. Its whole state is observed.
pub trait Task: Named + Sync {
    /// Numbers of a state, at most [`STATE_MAX`].
    fn state(&self) -> usize;

    /// Actions.
    fn actions(&self) -> usize;

    /// Steps after which an episode is cut if the experiment does not say.
    fn limit(&self) -> u32;

    /// What brings its returns near 1, in which the network learns values.
    fn reward_scale(&self) -> f32;

    /// Draws the first state of an episode.
    fn begin(&self, stream: &mut Stream, state: &mut [f64]);

    /// Moves the state by one step; the reward of it, and is the episode over?
    fn step(&self, action: usize, state: &mut [f64]) -> (f32, bool);
}

/// Every task, by name.
pub static TASKS: &[&dyn Task] = &[&cartpole::CartPole];

#[cfg(test)]
mod tests;
