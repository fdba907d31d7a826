//! Sparse training (LIBRA §2.2, §3.1): which parameters a worker updates in an iteration, and with what.
//!
//! [`models`] says how many parameters there are and how many of them are hot, [`curve`] how often which is updated,
//! [`fit`] how a curve follows from what is stated, [`hot`] which parameters are found to be hot, [`keys`] what they are
//! called, `batch` what a worker pushes. [`layout`] says where hot parameters live in a switch, [`packaging`] how their
//! gradients become packets, [`pipeline`] how often those must go through it. Made by the workload `sparse`; endpoints get it from
//! [`Source::sparse`](crate::workload::Source::sparse).

mod batch;
pub mod curve;
pub mod fit;
pub mod float;
pub mod hot;
pub mod keys;
pub mod layout;
pub mod models;
pub mod packaging;
pub mod pipeline;
mod plan;
pub mod read;

use std::sync::Arc;

use crate::gradient::Pool;
use crate::seed::{Draws, Seed};
use crate::time::Time;
use crate::{Error, Result};

pub use batch::Batch;
use curve::Curve;
use hot::{Hot, Order};
use keys::Keys;
pub use plan::{DENSE_SHARE, HotFrom, Plan};

/// A sparse workload. Share it in an `Arc`.
#[derive(Debug)]
pub struct Sparse {
    plan: Plan,
    curve: Curve,
    pairs: f64,
    seed: Seed,
    pool: Pool,
    jitter: Draws,
    blocks: Vec<batch::Block>,
    /// Of each job.
    hot: Vec<Hot>,
    /// One more than the last hot rank.
    hot_end: u64,
    hot_is_exact: bool,
}

impl Sparse {
    /// The seed of the run.
    pub fn seed(&self) -> Seed {
        self.seed
    }

    /// Makes it; refuses a plan that [`Plan::check`] refuses.
    pub fn new(plan: Plan, seed: Seed) -> Result<Self> {
        plan.check().map_err(|(key, why)| Error::config(format!("workload.{key}: {why}")))?;
        let dense = plan.dense.min(plan.hot);
        let order = match plan.hot_from {
            HotFrom::Exact => Order::Exact(plan.hot - dense),
            HotFrom::Sample => {
                hot::identify(&plan.curve, plan.hot - dense, plan.sample_rate, plan.training_updates, seed)?
            }
        };
        let order = Arc::new(order);
        let hot = (0..plan.jobs).map(|job| Hot::new(dense, Keys::new(seed, job), order.clone())).collect();
        Ok(Sparse {
            pairs: plan.pairs.into(),
            curve: plan.curve.clone(),
            seed,
            pool: Pool::new(seed, 0),
            jitter: seed.draws("sparse.compute_jitter"),
            blocks: batch::blocks(&plan.curve, plan.pairs.into()),
            hot,
            hot_end: order.end(),
            hot_is_exact: matches!(*order, Order::Exact(_)),
            plan,
        })
    }

    /// Name of the model.
    pub fn model(&self) -> &str {
        &self.plan.model
    }

    /// Jobs.
    pub fn jobs(&self) -> u16 {
        self.plan.jobs
    }

    /// Workers of each job.
    pub fn workers_per_job(&self) -> u32 {
        self.plan.workers_per_job
    }

    /// Workers of all jobs: job `j` has the ids from `j · workers_per_job` on.
    pub fn workers(&self) -> u32 {
        u32::from(self.plan.jobs) * self.plan.workers_per_job
    }

    /// The job of a worker.
    #[inline]
    pub fn job_of(&self, worker: u32) -> u16 {
        (worker / self.plan.workers_per_job) as u16
    }

    /// Number of a worker within its job.
    #[inline]
    pub fn rank_of(&self, worker: u32) -> u32 {
        worker % self.plan.workers_per_job
    }

    /// Iterations.
    pub fn iterations(&self) -> u32 {
        self.plan.iterations
    }

    /// Time of one iteration's computation, without jitter.
    pub fn compute(&self) -> Time {
        self.plan.compute
    }

    /// Time of the computation of `worker` in `iteration`: uniform within the jitter around the mean.
    pub fn compute_of(&self, worker: u32, iteration: u32) -> Time {
        if self.plan.compute_jitter == 0.0 {
            return self.plan.compute;
        }
        let swing = 2.0 * self.jitter.unit(worker, iteration, 0) - 1.0;
        (self.plan.compute as f64 * (1.0 + self.plan.compute_jitter * swing)).round() as Time
    }

    /// Sparse parameters of a job, after scaling.
    pub fn parameters(&self) -> u64 {
        self.plan.parameters
    }

    /// Dense parameters of a job.
    pub fn dense(&self) -> u32 {
        self.plan.dense
    }

    /// Sparse pairs of a batch, in the mean.
    pub fn pairs(&self) -> u32 {
        self.plan.pairs
    }

    /// How often which sparse parameter is updated.
    pub fn curve(&self) -> &Curve {
        &self.curve
    }

    /// Hot parameters of the first job.
    pub fn hot(&self) -> &Hot {
        &self.hot[0]
    }

    /// Hot parameters of a job: the same indices, other keys. Those of the first for a job that there is not.
    pub fn hot_of(&self, job: u16) -> &Hot {
        self.hot.get(usize::from(job)).unwrap_or(&self.hot[0])
    }

    /// Keys of a job.
    pub fn keys_of(&self, job: u16) -> Keys {
        Keys::new(self.seed, job)
    }
}
