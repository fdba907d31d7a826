//! The dense workload of synchronous data-parallel training: what a closed-loop endpoint needs to know.
//!
//! Trio §4: in every iteration each worker of a job computes the gradients of the whole model, sends them block by
//! block (a block is what fits one packet) and waits for the sums. [`models`] says how long the gradient is, `content`
//! what is in it, [`fixed`] how it becomes whole numbers, [`straggler`] who is late. When which block leaves is the
//! endpoint's affair: windows and results decide. Made by the workload `dense`; endpoints get it from
//! [`Source::dense`](crate::workload::Source::dense).

mod content;
pub mod fixed;
pub mod models;
pub mod straggler;
pub mod tensor;

use crate::seed::Seed;
use crate::time::{HORIZON, MS, Time, too_late};
use crate::training::{Crew, check_compute};
use crate::{Error, Result};
use straggler::{POINTS_MAX, Slowness, Stragglers};

/// Most jobs, and most workers of one: both are a byte on the wire (Trio §4, Figure 8).
pub(crate) const JOBS_MAX: u16 = 255;
/// Most iterations: the generation number has 16 bits (Trio §4, Figure 8).
pub(crate) const ITERATIONS_MAX: u32 = 65_535;
/// Most gradients of a packet: those of the largest frame, after 42 bytes of headers and Trio-ML's 12.
pub const ELEMENTS_MAX: u16 = 2245;

/// What a dense workload is made of. The default is ResNet50 on six workers (Trio §6.1) for 100 iterations.
#[derive(Debug, Clone, PartialEq)]
pub struct DensePlan {
    /// Name of the model.
    pub model: String,
    /// Elements of its gradient.
    pub elements_total: u64,
    /// Gradients per packet.
    pub elements_per_packet: u16,
    /// Jobs.
    pub jobs: u16,
    /// Workers of each job.
    pub workers_per_job: u32,
    /// Iterations.
    pub iterations: u32,
    /// Time of one iteration's computation.
    pub compute: Time,
    /// Share by which it varies, up and down.
    pub compute_jitter: f64,
    /// Share of the gradients that are not 0, as far as it is known: they are sent anyway.
    pub density: f64,
    /// Which workers slow down, and how.
    pub slowness: Slowness,
    /// Typical iteration time, where it is given.
    pub typical: Option<Time>,
}

impl Default for DensePlan {
    fn default() -> Self {
        DensePlan {
            model: "resnet50".to_owned(),
            elements_total: 25_557_032,
            elements_per_packet: 1024,
            jobs: 1,
            workers_per_job: 6,
            iterations: 100,
            compute: 100 * MS,
            compute_jitter: 0.0,
            density: 1.0,
            slowness: Slowness::default(),
            typical: None,
        }
    }
}

impl DensePlan {
    /// What is wrong with it: the key of `[workload]` to change, and why.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        let most = u64::from(u32::MAX);
        let slow = &self.slowness;
        let (least_delay, most_delay) = slow.delay;
        for (key, value, least, most) in [
            ("elements", self.elements_per_packet.into(), 1, ELEMENTS_MAX.into()),
            ("jobs", self.jobs.into(), 1, JOBS_MAX.into()),
            ("workers", self.workers_per_job.into(), 1, JOBS_MAX.into()),
            ("iterations", self.iterations.into(), 1, ITERATIONS_MAX.into()),
            ("delay_points", slow.points.into(), 1, POINTS_MAX as u64),
            ("parameters", self.elements_total, 1, u64::MAX),
        ] {
            if !(least..=most).contains(&value) {
                return Err((key, format!("{value} is not from {least} to {most}")));
            }
        }
        for (key, share) in [
            ("compute_jitter", self.compute_jitter),
            ("straggler_probability", slow.probability),
            ("density", self.density),
        ] {
            if !(0.0..=1.0).contains(&share) {
                return Err((key, format!("{share} is not from 0 to 1")));
            }
        }
        if !(0.0 <= least_delay && least_delay <= most_delay && most_delay <= 1e6) {
            let why =
                "a delay is drawn between two factors of the typical iteration time, from 0 to 1e6, the lower first";
            return Err(("straggler_delay", format!("[{least_delay}, {most_delay}]: {why}")));
        }
        let packets = self.packets();
        if packets > u128::from(most) {
            return Err((
                "iterations",
                format!(
                    "{} iterations of {} packets ({} elements in packets of {}) are {packets} of each worker, whose \
                     numbers end at {most}; ask for fewer iterations, more workload.elements or less workload.scale",
                    self.iterations,
                    self.elements_total.div_ceil(self.elements_per_packet.into()),
                    self.elements_total,
                    self.elements_per_packet
                ),
            ));
        }
        if let Some(typical) = self.typical.filter(|t| !(0..=HORIZON).contains(t)) {
            let what = too_late("the end of a typical iteration", typical as f64, "lower workload.typical");
            return Err(("typical", what));
        }
        check_compute(self.compute, self.compute_jitter, self.iterations)
    }

    /// Packets of one worker over all iterations.
    fn packets(&self) -> u128 {
        let blocks = self.elements_total.div_ceil(u64::from(self.elements_per_packet).max(1));
        u128::from(blocks) * u128::from(self.iterations)
    }
}

/// A dense workload. A few numbers and about 40 KB of content: share it in an `Arc`.
#[derive(Debug)]
pub struct Dense {
    plan: DensePlan,
    blocks: u32,
    last: u16,
    crew: Crew,
    stragglers: Stragglers,
    content: content::Content,
}

impl Dense {
    /// Makes it; refuses a plan that [`DensePlan::check`] refuses.
    pub fn new(plan: DensePlan, seed: Seed) -> Result<Self> {
        plan.check().map_err(|(key, why)| Error::config(format!("workload.{key}: {why}")))?;
        let elements = u64::from(plan.elements_per_packet);
        Ok(Dense {
            // Both are checked: at most as many as packets, and below the elements of a packet.
            blocks: plan.elements_total.div_ceil(elements) as u32,
            last: ((plan.elements_total - 1) % elements + 1) as u16,
            crew: Crew {
                jobs: plan.jobs,
                workers_per_job: plan.workers_per_job,
                iterations: plan.iterations,
                compute: plan.compute,
                compute_jitter: plan.compute_jitter,
                jitter: seed.draws("dense.compute_jitter"),
            },
            stragglers: Stragglers::new(plan.slowness, plan.workers_per_job, seed),
            content: content::Content::new(seed, usize::from(plan.elements_per_packet)),
            plan,
        })
    }

    /// Name of the model.
    pub fn model(&self) -> &str {
        &self.plan.model
    }

    /// Its workers.
    pub(crate) fn crew(&self) -> &Crew {
        &self.crew
    }

    /// Gradients of a worker in an iteration that are not 0.
    pub fn nonzero(&self) -> u64 {
        (self.plan.elements_total as f64 * self.plan.density).round() as u64
    }

    /// Packets of each worker in each iteration.
    #[inline]
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Gradients of a packet; the last of an iteration may have fewer.
    #[inline]
    pub fn elements_per_packet(&self) -> u16 {
        self.plan.elements_per_packet
    }

    /// Gradients of a block; none of a block that is not there.
    #[inline]
    pub fn elements_of(&self, block: u32) -> u16 {
        match block + u32::from(block < u32::MAX) {
            next if next < self.blocks => self.plan.elements_per_packet,
            next if next == self.blocks => self.last,
            _ => 0,
        }
    }

    /// Elements of the gradient, after scaling the model.
    pub fn elements_total(&self) -> u64 {
        self.plan.elements_total
    }

    /// Typical iteration time, if it is given: what delays of stragglers are factors of. An endpoint that knows its
    /// own without stragglers may use that where none is given.
    pub fn typical(&self) -> Option<Time> {
        self.plan.typical
    }

    /// Which workers slow down.
    pub fn stragglers(&self) -> &Stragglers {
        &self.stragglers
    }

    /// How long `worker` sleeps in `iteration`, over all its delay points, if a typical iteration takes `typical`.
    pub(crate) fn delay_of(&self, worker: u32, iteration: u32, typical: Time) -> Time {
        let factors: f64 = self.stragglers.delays(worker, iteration).iter().sum();
        (factors * typical as f64).round() as Time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dense(change: impl FnOnce(&mut DensePlan)) -> Result<Dense> {
        let mut plan = DensePlan::default();
        change(&mut plan);
        Dense::new(plan, Seed(1))
    }

    #[test]
    fn blocks_cover_the_model() {
        for (total, elements) in [(25_557_032, 1024), (1, 1), (1, 2245), (7, 7), (8, 7), (2245 * 3, 2245), (1000, 1)] {
            let dense = dense(|p| (p.elements_total, p.elements_per_packet) = (total, elements)).unwrap();
            let sum: u64 = (0..dense.blocks()).map(|b| u64::from(dense.elements_of(b))).sum();
            assert_eq!(sum, total);
            assert!((0..dense.blocks()).all(|b| (1..=elements).contains(&dense.elements_of(b))));
            assert_eq!([dense.blocks(), u32::MAX - 1, u32::MAX].map(|b| dense.elements_of(b)), [0; 3]);
        }
        assert_eq!(dense(|_| ()).unwrap().blocks(), 24_959);
    }

    #[test]
    fn workers_are_ordered_by_job() {
        let dense = dense(|p| (p.jobs, p.workers_per_job) = (3, 5)).unwrap();
        assert_eq!(dense.workers(), 15);
        for worker in 0..15 {
            assert_eq!(u32::from(dense.job_of(worker)) * 5 + dense.rank_of(worker), worker);
        }
        assert_eq!((dense.job_of(4), dense.job_of(5), dense.rank_of(5)), (0, 1, 0));
    }

    #[test]
    fn jitter_stays_within_its_share() {
        assert_eq!(dense(|_| ()).unwrap().compute_of(3, 9), 100 * MS);
        let dense = dense(|p| p.compute_jitter = 0.2).unwrap();
        let all: Vec<_> = (0..6).flat_map(|w| (0..2000).map(move |i| (w, i))).collect();
        let times: Vec<_> = all.iter().map(|(w, i)| dense.compute_of(*w, *i)).collect();
        assert!(times.iter().all(|t| (80 * MS..=120 * MS).contains(t)));
        assert!(times.iter().any(|t| *t < 81 * MS) && times.iter().any(|t| *t > 119 * MS));
        let mean = times.iter().sum::<Time>() / times.len() as Time;
        assert!((99 * MS..101 * MS).contains(&mean), "{mean}");
        assert!(all.iter().rev().zip(times.iter().rev()).all(|((w, i), t)| dense.compute_of(*w, *i) == *t));
    }

    #[test]
    fn delays_are_factors_of_the_typical_time() {
        let dense = dense(|p| p.slowness = Slowness { probability: 1.0, delay: (2.0, 2.0), ..p.slowness }).unwrap();
        let slow: Vec<_> = (0..6).filter(|w| dense.delay_of(*w, 7, 10 * MS) > 0).collect();
        assert_eq!(slow.len(), 1);
        assert_eq!(dense.delay_of(slow[0], 7, 10 * MS), 60 * MS);
    }

    /// Makes a plan worse.
    type Change = fn(&mut DensePlan);

    #[test]
    fn plans_that_cannot_be_are_refused() {
        let refused: [(&str, Change); 17] = [
            ("elements: 0", |p| p.elements_per_packet = 0),
            ("elements: 2246", |p| p.elements_per_packet = 2246),
            ("jobs: 0", |p| p.jobs = 0),
            ("jobs: 256", |p| p.jobs = 256),
            ("workers: 0", |p| p.workers_per_job = 0),
            ("workers: 256", |p| p.workers_per_job = 256),
            ("iterations: 0", |p| p.iterations = 0),
            ("iterations: 65536", |p| p.iterations = 65_536),
            ("delay_points: 9", |p| p.slowness.points = 9),
            ("parameters: 0", |p| p.elements_total = 0),
            ("compute_jitter: NaN", |p| p.compute_jitter = f64::NAN),
            ("straggler_probability: 1.5", |p| p.slowness.probability = 1.5),
            ("straggler_delay: [2, 1]", |p| p.slowness.delay = (2.0, 1.0)),
            ("straggler_delay: [NaN, 1]", |p| p.slowness.delay = (f64::NAN, 1.0)),
            ("numbers end at 4294967295", |p| (p.iterations, p.elements_per_packet) = (65_535, 64)),
            ("26 days", |p| p.compute = HORIZON / 99),
            ("26 days", |p| p.typical = Some(Time::MAX)),
        ];
        for (part, change) in refused {
            let message = dense(change).unwrap_err().to_string();
            assert!(message.contains(part) && message.contains("workload."), "{part}: {message}");
        }
        // As many packets as there are numbers, and not one more.
        let full = |total| dense(|p| (p.elements_total, p.elements_per_packet, p.iterations) = (total, 1, 1));
        assert_eq!(full(u64::from(u32::MAX)).unwrap().blocks(), u32::MAX);
        assert!(full(1 << 32).is_err());
        assert!(full(u64::MAX).is_err());
    }
}
