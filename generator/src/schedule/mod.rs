//! WHEN updates are generated.
//!
//! A schedule turns a [`Pace`] (how many updates each worker has and how fast it is relative to the
//! others) into a [`Timeline`]: worker and time, in order. Line rates are not its business: arrivals
//! are serialised by the host's link.

mod as_recorded;
mod constant;
mod merge;
mod on_off;
mod poisson;

use crate::config::Section;
use crate::registry::Named;
use crate::seed::Seed;
use crate::time::Time;
use crate::units::{Rate, Span};
use crate::{Error, Result};

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

/// How fast: the whole run's mean rate, or a worker's mean period. Shared by the schedules.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Speed {
    /// All bits of the run over its duration.
    Offered(Rate),
    /// Mean period of a worker with relative period 1.
    Period(Span),
}

impl Speed {
    /// Reads `offered` or `period`; exactly one of them must be there.
    pub fn read(section: &mut Section) -> Result<Self> {
        let offered: Option<Rate> = section.get_opt("offered")?;
        let period: Option<Span> = section.get_opt("period")?;
        match (offered, period) {
            (Some(rate), None) if rate.bps() > 0 => Ok(Speed::Offered(rate)),
            (None, Some(span)) if span.ps() > 0 => Ok(Speed::Period(span)),
            (None, None) => Err(Error::config(
                "schedule: neither \"offered\" nor \"period\" is given; give one, for example offered = \"60Gbps\"",
            )),
            (Some(_), Some(_)) => Err(Error::config(format!(
                "{}: \"offered\" and \"period\" are both given; give one",
                section.place("period")
            ))),
            _ => Err(Error::config(format!("{}: the speed must be above 0", section.name()))),
        }
    }
}
