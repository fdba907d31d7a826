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
use crate::seed::Seed;
use crate::training::Crew;
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
    crew: Crew,
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
            crew: Crew {
                jobs: plan.jobs,
                workers_per_job: plan.workers_per_job,
                iterations: plan.iterations,
                compute: plan.compute,
                compute_jitter: plan.compute_jitter,
                jitter: seed.draws("sparse.compute_jitter"),
            },
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

    /// Its workers.
    pub(crate) fn crew(&self) -> &Crew {
        &self.crew
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
    #[cfg(test)]
    pub(crate) fn curve(&self) -> &Curve {
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
