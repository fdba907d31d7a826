//! WHEN updates are generated.
//!
//! A schedule turns a [`Pace`] (how many updates each worker has and how fast it is relative to the
//! others) into a [`Timeline`]: worker and time, in order. Line rates are not its business: arrivals
//! are serialised by the host's link.

mod as_recorded;
mod constant;
mod merge;
mod on_off;
mod open;
mod poisson;
mod speed;

use crate::Result;
use crate::config::Section;
use crate::registry::Named;
use crate::seed::Seed;
use crate::time::Time;

pub use open::open;
pub use speed::Speed;

/// What a schedule must know of the workload.
#[derive(Debug, Clone)]
pub struct Pace {
    /// Mean period of each worker relative to the others, by worker id.
    pub period: Vec<f64>,
    /// Updates of each worker.
    pub updates: u32,
    /// Bits of one update on the wire.
    pub update_bits: u64,
}

/// Generation times in order, with the worker of each.
pub trait Timeline {
    /// The next generation; none when all updates are out.
    fn next(&mut self) -> Option<(Time, u32)>;
}

/// Makes timelines.
pub trait Schedule: Named + Sync {
    /// Reads its keys and makes a timeline.
    fn open(&self, section: &mut Section, pace: &Pace, seed: Seed) -> Result<Box<dyn Timeline + Send>>;
}

/// Every schedule, by name.
pub static SCHEDULES: &[&dyn Schedule] =
    &[&constant::Constant, &poisson::Poisson, &on_off::OnOff, &as_recorded::AsRecorded];
