//! Sparse training (LIBRA §2.2, §3.1): which parameters a worker updates in an iteration, and with what.
//!
//! [`models`] says how many parameters there are and how many of them are hot, [`curve`] how often which is updated,
//! [`fit`] how a curve follows from what is stated, [`hot`] which parameters are found to be hot, [`keys`] what they are
//! called, `batch` what a worker pushes; [`recording`] has pairs that were recorded instead. [`layout`] says where hot parameters live in a switch, [`packaging`] how their
//! gradients become packets, [`pipeline`] how often those must go through it, [`shards`] which of several servers has which parameters. Made by the workload `sparse`; endpoints get it from
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
pub mod recording;
pub mod shards;
pub(crate) mod tail;

use std::sync::Arc;

use crate::seed::Seed;
use crate::training::Crew;
use crate::{Error, Result};

pub use batch::Batch;
#[cfg(test)]
use curve::Curve;
use hot::{Hot, HotOrder};
use keys::Keys;
pub(crate) use plan::{DENSE_SHARE, HOT_MAX, MEMBERS_MAX, PARAMETERS_MAX};
pub use plan::{HotFrom, SparsePlan};
pub use recording::{Recording, Replay};

/// A sparse workload. Share it in an `Arc`.
#[derive(Debug)]
pub struct Sparse {
    model: String,
    parameters: u64,
    dense: u32,
    pairs: u32,
    seed: Seed,
    crew: Crew,
    /// Of each job.
    hot: Vec<Hot>,
    pushes: Pushes,
}

/// Where what workers push comes from.
#[derive(Debug)]
enum Pushes {
    Drawn(Box<batch::Drawn>),
    Recorded(recording::Pushes),
}

impl Sparse {
    /// The seed of the run.
    pub fn seed(&self) -> Seed {
        self.seed
    }

    /// Makes it; refuses a plan that [`SparsePlan::check`] refuses.
    pub fn new(plan: SparsePlan, seed: Seed) -> Result<Self> {
        plan.check().map_err(|(key, why)| Error::config(format!("workload.{key}: {why}")))?;
        let dense = plan.dense.min(plan.hot);
        let order = match plan.hot_from {
            HotFrom::Exact => HotOrder::Exact(plan.hot - dense),
            HotFrom::Sample => {
                hot::identify(&plan.curve, plan.hot - dense, plan.sample_rate, plan.training_updates, seed)?
            }
        };
        let order = Arc::new(order);
        Ok(Sparse {
            model: plan.model,
            parameters: plan.parameters,
            dense: plan.dense,
            pairs: plan.pairs,
            seed,
            crew: Crew {
                jobs: plan.jobs,
                workers_per_job: plan.workers_per_job,
                iterations: plan.iterations,
                compute: plan.compute,
                compute_jitter: plan.compute_jitter,
                jitter: seed.draws("sparse.compute_jitter"),
            },
            hot: (0..plan.jobs).map(|job| Hot::new(dense, Keys::new(seed, job), order.clone())).collect(),
            pushes: Pushes::Drawn(Box::new(batch::Drawn::new(plan.curve, plan.pairs, seed, &order))),
        })
    }

    /// Of recorded pairs; refuses what [`Replay::check`] refuses. All jobs have the same hot parameters.
    pub fn recorded(replay: Replay, seed: Seed) -> Result<Self> {
        replay.check().map_err(|(key, why)| Error::config(format!("workload.{key}: {why}")))?;
        let crew = Crew {
            jobs: replay.jobs,
            workers_per_job: replay.workers_per_job,
            iterations: replay.iterations,
            compute: replay.compute,
            compute_jitter: replay.compute_jitter,
            jitter: seed.draws("sparse.compute_jitter"),
        };
        let (model, parameters) = (replay.model.clone(), replay.parameters);
        let (pairs, order, pushes) = replay.split();
        let hot = vec![Hot::recorded(Arc::new(order)); usize::from(crew.jobs)];
        Ok(Sparse { model, parameters, dense: 0, pairs, seed, crew, hot, pushes: Pushes::Recorded(pushes) })
    }

    /// Name of the model.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Its workers.
    pub(crate) fn crew(&self) -> &Crew {
        &self.crew
    }

    /// Sparse parameters of a job, after scaling.
    pub fn parameters(&self) -> u64 {
        self.parameters
    }

    /// Dense parameters of a job.
    pub fn dense(&self) -> u32 {
        self.dense
    }

    /// Sparse pairs of a batch, in the mean.
    pub fn pairs(&self) -> u32 {
        self.pairs
    }

    /// How often which sparse parameter is updated.
    #[cfg(test)]
    pub(crate) fn curve(&self) -> &Curve {
        match &self.pushes {
            Pushes::Drawn(drawn) => drawn.curve(),
            Pushes::Recorded(_) => panic!("recorded pairs have no curve"),
        }
    }

    /// Hot parameters of the first job.
    pub fn hot(&self) -> &Hot {
        &self.hot[0]
    }

    /// Hot parameters of a job: the same indices, other keys unless they are recorded. Those of the first for a job that there
    /// is not.
    pub fn hot_of(&self, job: u16) -> &Hot {
        self.hot.get(usize::from(job)).unwrap_or(&self.hot[0])
    }

    /// Keys of a job, where they are drawn.
    pub(crate) fn keys_of(&self, job: u16) -> Keys {
        Keys::new(self.seed, job)
    }

    /// The pairs of `worker` in `iteration` into `into`, whose memory is used again.
    pub fn batch(&self, worker: u32, iteration: u32, into: &mut Batch) {
        match &self.pushes {
            Pushes::Drawn(drawn) => self.draw(drawn, worker, iteration, into),
            Pushes::Recorded(pushes) => pushes.batch(worker, iteration, into),
        }
    }
}
