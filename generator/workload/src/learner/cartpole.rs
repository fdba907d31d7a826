//! CartPole: a cart on a track holds a pole upright (Barto, Sutton and Anderson 1983, "Neuronlike adaptive elements that
//! can solve difficult learning control problems"), with the constants of Gymnasium's CartPole-v1.

use super::Task;
use crate::registry::Named;
use crate::seed::{Stream, unit};

/// Acceleration of gravity in m/s².
const GRAVITY: f64 = 9.8;
/// Mass of the pole, in kg.
const POLE: f64 = 0.1;
/// Mass of cart and pole, in kg.
const TOTAL: f64 = 1.1;
/// Half of the pole's length, in m.
const HALF: f64 = 0.5;
/// How hard the cart is pushed, in N.
const FORCE: f64 = 10.0;
/// Time of a step, in s.
const STEP: f64 = 0.02;
/// The track ends here, in m from its middle.
const TRACK: f64 = 2.4;
/// The pole has fallen beyond this angle: 12 degrees.
const FALLEN: f64 = 12.0 * 2.0 * std::f64::consts::PI / 360.0;

/// `task = "cartpole"`; the state is place, speed, angle and speed of the angle.
pub(super) struct CartPole;

impl Named for CartPole {
    fn name(&self) -> &'static str {
        "cartpole"
    }
    fn about(&self) -> &'static str {
        "a cart holds a pole upright: 4 numbers, 2 actions, a reward of 1 for every step"
    }
}

impl Task for CartPole {
    fn state(&self) -> usize {
        4
    }

    fn actions(&self) -> usize {
        2
    }

    fn limit(&self) -> u32 {
        500
    }

    fn reward_scale(&self) -> f32 {
        0.02
    }

    fn begin(&self, stream: &mut Stream, state: &mut [f64]) {
        state.iter_mut().for_each(|x| *x = 0.1 * unit(stream) - 0.05);
    }

    fn step(&self, action: usize, state: &mut [f64]) -> (f32, bool) {
        let &mut [place, speed, angle, turning] = state else { return (0.0, true) };
        let force = if action == 1 { FORCE } else { -FORCE };
        let (sin, cos) = angle.sin_cos();
        let pushed = (force + POLE * HALF * turning * turning * sin) / TOTAL;
        let turns = (GRAVITY * sin - cos * pushed) / (HALF * (4.0 / 3.0 - POLE * cos * cos / TOTAL));
        let moves = pushed - POLE * HALF * turns * cos / TOTAL;
        let next = [place + STEP * speed, speed + STEP * moves, angle + STEP * turning, turning + STEP * turns];
        state.copy_from_slice(&next);
        (1.0, next[0].abs() > TRACK || next[2].abs() > FALLEN)
    }
}
