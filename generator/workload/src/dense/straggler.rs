//! Workers that slow down: the slow-worker pattern.
//!
//! Trio §6.1, "Straggler generation pattern": every iteration has three points at which one of the servers may decide,
//! with probability p, to slow down; it then sleeps between 0.5 and 2 typical iteration times, uniformly. Which server
//! may decide is not said; [`Pattern`] lists the readings. Delays here are factors of the typical iteration time, which
//! endpoints know. Read by the workload `dense`, asked by endpoints.

use crate::registry::Named;
use crate::seed::{Draws, Seed};

/// Most delay points of an iteration.
pub const POINTS_MAX: usize = 8;

/// Who may slow down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// In each iteration one server of a job, drawn uniformly anew.
    One,
    /// Always the first server of a job.
    Fixed,
    /// Every server, each for itself.
    Each,
    /// No worker.
    Off,
}

impl Named for Pattern {
    fn name(&self) -> &'static str {
        match self {
            Pattern::One => "one",
            Pattern::Fixed => "fixed",
            Pattern::Each => "each",
            Pattern::Off => "none",
        }
    }
    fn about(&self) -> &'static str {
        match self {
            Pattern::One => "in each iteration one server, drawn uniformly, may slow down",
            Pattern::Fixed => "always the first server of a job may slow down",
            Pattern::Each => "every server decides for itself",
            Pattern::Off => "no worker slows down",
        }
    }
}

/// Every pattern, by name.
pub(crate) static PATTERNS: &[&Pattern] = &[&Pattern::One, &Pattern::Fixed, &Pattern::Each, &Pattern::Off];

/// How workers slow down, as written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slowness {
    /// Who may.
    pub pattern: Pattern,
    /// p: how likely a server that may slow down does so at a point.
    pub probability: f64,
    /// Shortest and longest delay, in typical iteration times.
    pub delay: (f64, f64),
    /// Points of an iteration, up to [`POINTS_MAX`].
    pub points: u8,
}

impl Default for Slowness {
    fn default() -> Self {
        Slowness { pattern: Pattern::One, probability: 0.0, delay: (0.5, 2.0), points: 3 }
    }
}

/// The delays of all workers: a pure function of seed, worker, iteration and point.
#[derive(Debug, Clone, Copy)]
pub struct Stragglers {
    slowness: Slowness,
    workers_per_job: u32,
    who: Draws,
    whether: Draws,
    how_long: Draws,
}

impl Stragglers {
    /// For jobs of `workers_per_job` workers, ids ordered by job.
    pub(super) fn new(slowness: Slowness, workers_per_job: u32, seed: Seed) -> Self {
        let [who, whether, how_long] = ["who", "whether", "how_long"].map(|n| seed.draws(&format!("straggler.{n}")));
        Stragglers { slowness, workers_per_job: workers_per_job.max(1), who, whether, how_long }
    }

    /// Delay points of an iteration; what [`delays`](Self::delays) has beyond them is 0.
    pub fn points(&self) -> usize {
        usize::from(self.slowness.points).min(POINTS_MAX)
    }

    /// Whether no worker ever slows down.
    pub fn is_none(&self) -> bool {
        self.slowness.pattern == Pattern::Off || self.slowness.probability <= 0.0
    }

    /// Whether `worker` may slow down in `iteration`.
    #[inline]
    pub(crate) fn may_slow(&self, worker: u32, iteration: u32) -> bool {
        let (job, server) = (worker / self.workers_per_job, worker % self.workers_per_job);
        match self.slowness.pattern {
            Pattern::One => {
                let drawn = self.who.unit(job, iteration, 0) * f64::from(self.workers_per_job);
                server == drawn as u32
            }
            Pattern::Fixed => server == 0,
            Pattern::Each => true,
            Pattern::Off => false,
        }
    }

    /// How long `worker` sleeps at each point of `iteration`, in typical iteration times; 0 for not at all.
    pub fn delays(&self, worker: u32, iteration: u32) -> [f64; POINTS_MAX] {
        let mut delays = [0.0; POINTS_MAX];
        if self.is_none() || !self.may_slow(worker, iteration) {
            return delays;
        }
        let (least, most) = self.slowness.delay;
        for (point, delay) in delays.iter_mut().enumerate().take(self.points()) {
            if self.whether.unit(worker, iteration, point as u32) < self.slowness.probability {
                *delay = least + (most - least) * self.how_long.unit(worker, iteration, point as u32);
            }
        }
        delays
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKERS: u32 = 6;
    const ITERATIONS: u32 = 20_000;

    fn stragglers(pattern: Pattern, probability: f64) -> Stragglers {
        Stragglers::new(Slowness { pattern, probability, ..Slowness::default() }, WORKERS, Seed(11))
    }

    /// Of the workers of one job over all iterations: how often each slowed down, and all delays.
    fn seen(s: &Stragglers, first: u32) -> (Vec<usize>, Vec<f64>) {
        let (mut events, mut delays) = (vec![0; WORKERS as usize], Vec::new());
        for iteration in 0..ITERATIONS {
            for worker in 0..WORKERS {
                let own = s.delays(first + worker, iteration).into_iter().filter(|d| *d > 0.0);
                let before = delays.len();
                delays.extend(own);
                events[worker as usize] += delays.len() - before;
            }
        }
        (events, delays)
    }

    #[test]
    fn one_server_per_iteration_decides_at_three_points() {
        let s = stragglers(Pattern::One, 0.16);
        for first in [0, WORKERS, 40 * WORKERS] {
            for iteration in 0..2000 {
                let may: Vec<_> = (first..first + WORKERS).filter(|w| s.may_slow(*w, iteration)).collect();
                assert_eq!(may.len(), 1);
                let slow = (first..first + WORKERS).filter(|w| s.delays(*w, iteration).iter().any(|d| *d > 0.0));
                assert!(slow.eq(may.into_iter().filter(|w| s.delays(*w, iteration) != [0.0; POINTS_MAX])));
            }
            let (events, delays) = seen(&s, first);
            let expected = 3.0 * 0.16 * f64::from(ITERATIONS);
            assert!((delays.len() as f64 / expected - 1.0).abs() < 0.04, "{}", delays.len());
            for count in events {
                assert!((count as f64 / expected * f64::from(WORKERS) - 1.0).abs() < 0.12, "{count}");
            }
            assert!(delays.iter().all(|d| (0.5..2.0).contains(d)));
            // 3 points, p, and 1.25 on the mean.
            let mean = delays.iter().sum::<f64>() / f64::from(ITERATIONS);
            assert!((mean / (3.0 * 0.16 * 1.25) - 1.0).abs() < 0.04, "{mean}");
            let quarter = delays.iter().filter(|d| **d < 0.875).count() as f64 / delays.len() as f64;
            assert!((quarter - 0.25).abs() < 0.02, "{quarter}");
        }
    }

    #[test]
    fn the_other_readings() {
        let (events, _) = seen(&stragglers(Pattern::Fixed, 0.16), 6);
        assert!(events[0] > 9_000 && events[1..] == [0; 5], "{events:?}");
        let (events, delays) = seen(&stragglers(Pattern::Each, 0.16), 0);
        let expected = 3.0 * 0.16 * f64::from(ITERATIONS);
        assert!(events.iter().all(|n| (*n as f64 / expected - 1.0).abs() < 0.05), "{events:?}");
        assert!((delays.len() as f64 / (6.0 * expected) - 1.0).abs() < 0.02);
        for none in [stragglers(Pattern::Off, 1.0), stragglers(Pattern::One, 0.0), stragglers(Pattern::Each, 0.0)] {
            assert!(none.is_none() && seen(&none, 0).1.is_empty());
        }
        let (events, _) = seen(&stragglers(Pattern::One, 1.0), 0);
        assert_eq!(events.iter().sum::<usize>(), 3 * ITERATIONS as usize);
    }

    #[test]
    fn delays_do_not_depend_on_the_order_of_questions() {
        let s = stragglers(Pattern::Each, 0.5);
        let forwards: Vec<_> = (0..600).map(|i| s.delays(i % 6, i / 6)).collect();
        let again = stragglers(Pattern::Each, 0.5);
        let backwards: Vec<_> = (0..600).rev().map(|i| again.delays(i % 6, i / 6)).collect();
        assert!(forwards.iter().eq(backwards.iter().rev()));
        let other = Stragglers::new(s.slowness, WORKERS, Seed(12));
        assert!((0..600).any(|i| other.delays(i % 6, i / 6) != forwards[i as usize]));
    }

    #[test]
    fn raising_the_probability_only_adds_delays() {
        // Sweeps over p then compare like with like.
        let (low, high) = (stragglers(Pattern::One, 0.1), stragglers(Pattern::One, 0.4));
        for i in 0..6000 {
            let (low, high) = (low.delays(i % 6, i / 6), high.delays(i % 6, i / 6));
            assert!(low.iter().zip(&high).all(|(l, h)| *l == 0.0 || l == h));
        }
    }

    #[test]
    fn points_are_as_many_as_asked_for() {
        for points in 0..=9 {
            let slowness = Slowness { pattern: Pattern::Each, probability: 1.0, points, ..Slowness::default() };
            let s = Stragglers::new(slowness, 6, Seed(1));
            let used = s.delays(3, 4).iter().filter(|d| **d > 0.0).count();
            assert_eq!((used, s.points()), (usize::from(points).min(8), usize::from(points).min(8)));
        }
    }
}
