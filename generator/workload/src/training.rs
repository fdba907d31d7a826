//! Workers that train in iterations, whatever the model: who is of which job, and how long computing takes.

use std::ops::Deref;

use crate::dense::Dense;
use crate::seed::Draws;
use crate::sparse::Sparse;
use crate::time::{HORIZON, Time, too_late};

/// The workers of a dense or sparse workload, which derefs to them.
#[derive(Debug)]
pub struct Crew {
    pub(crate) jobs: u16,
    pub(crate) workers_per_job: u32,
    pub(crate) iterations: u32,
    pub(crate) compute: Time,
    /// Share by which it varies, up and down.
    pub(crate) compute_jitter: f64,
    pub(crate) jitter: Draws,
}

impl Crew {
    /// Jobs.
    pub fn jobs(&self) -> u16 {
        self.jobs
    }

    /// Workers of each job.
    pub fn workers_per_job(&self) -> u32 {
        self.workers_per_job
    }

    /// Workers of all jobs: job `j` has the ids from `j · workers_per_job` on.
    pub fn workers(&self) -> u32 {
        u32::from(self.jobs) * self.workers_per_job
    }

    /// The job of a worker.
    #[inline]
    pub fn job_of(&self, worker: u32) -> u16 {
        (worker / self.workers_per_job) as u16
    }

    /// Number of a worker within its job.
    #[inline]
    pub fn rank_of(&self, worker: u32) -> u32 {
        worker % self.workers_per_job
    }

    /// Iterations.
    pub fn iterations(&self) -> u32 {
        self.iterations
    }

    /// Time of one iteration's computation, without jitter.
    pub fn compute(&self) -> Time {
        self.compute
    }

    /// Time of the computation of `worker` in `iteration`: uniform within the jitter around the mean.
    pub fn compute_of(&self, worker: u32, iteration: u32) -> Time {
        if self.compute_jitter == 0.0 {
            return self.compute;
        }
        let swing = 2.0 * self.jitter.unit(worker, iteration, 0) - 1.0;
        (self.compute as f64 * (1.0 + self.compute_jitter * swing)).round() as Time
    }
}

/// What is wrong with the times of computing: the key of `[workload]` to change, and why.
pub(crate) fn check_compute(compute: Time, jitter: f64, iterations: u32) -> Result<(), (&'static str, String)> {
    let end = compute as f64 * (1.0 + jitter) * f64::from(iterations);
    if compute < 0 || end > HORIZON as f64 {
        let keys = "lower workload.compute or workload.iterations";
        return Err(("compute", too_late("the end of the last computation", end, keys)));
    }
    Ok(())
}

impl Deref for Dense {
    type Target = Crew;

    fn deref(&self) -> &Crew {
        self.crew()
    }
}

impl Deref for Sparse {
    type Target = Crew;

    fn deref(&self) -> &Crew {
        self.crew()
    }
}
