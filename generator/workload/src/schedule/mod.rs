//! WHEN updates are generated.
//!
//! A schedule turns a [`Pace`] (how many updates each worker has and how fast it is relative to the
//! others) into a [`Timeline`]: worker and time, in order. Line rates are not its business: arrivals
//! are serialised by the host's link.

mod as_recorded;
mod constant;
mod grid;
mod merge;
mod on_off;
mod open;
mod poisson;
mod speed;
mod tempo;
mod upcoming;

use crate::Result;
use crate::config::{KeyTables, Section};
use crate::registry::Named;
use crate::seed::Seed;
use crate::time::Time;

pub use open::open;
pub(crate) use open::{Line, allow_unused};
pub(crate) use speed::Speed;
pub use tempo::{Pass, Tempo};

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
    /// The next generation; none when all updates are out. A time above [`crate::time::HORIZON`] stands for any
    /// time that late: [`open`] ends the timeline there.
    fn next(&mut self) -> Option<(Time, u32)>;

    /// Why the timeline ended before all updates were out, if it did.
    fn failure(&self) -> Option<&str> {
        None
    }
}

/// Makes timelines.
pub trait Schedule: Named + Sync {
    /// The keys of `[schedule]` that [`open`](Self::open) reads: they stay valid when a sweep also visits other
    /// schedules.
    fn keys(&self) -> KeyTables;

    /// Reads its keys and makes a timeline.
    fn open(&self, section: &mut Section, pace: &Pace, seed: Seed) -> Result<Box<dyn Timeline + Send>>;
}

/// The keys of `[schedule]` that are read whichever it is.
pub const COMMON: KeyTables = &[Line::KEYS, tempo::Times::KEYS];

/// Every schedule, by name.
pub static SCHEDULES: &[&dyn Schedule] =
    &[&constant::Constant, &grid::Grid, &poisson::Poisson, &on_off::OnOff, &as_recorded::AsRecorded];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_name_the_keys_that_they_read() {
        for schedule in SCHEDULES {
            let mut section = Section::of("schedule", &[]);
            let pace = Pace { period: vec![1.0], updates: 1, update_bits: 2048 };
            // Some need a key or a trace and refuse; all have read everything by then.
            let _ = schedule.open(&mut section, &pace, Seed(1));
            let mut asked: Vec<_> = section.asked().iter().map(String::as_str).collect();
            let mut named: Vec<_> = crate::config::names_of(schedule.keys()).collect();
            asked.sort_unstable();
            named.sort_unstable();
            assert_eq!(asked, named, "{}", schedule.name());
        }
    }
}
