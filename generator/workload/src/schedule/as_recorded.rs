//! The times of a trace, as they are or scaled; [`crate::workload`] applies them.

use super::tempo::{Recorded, Times};
use super::{Pace, Schedule, Tempo, Timeline};
use crate::config::{KeyTables, Section};
use crate::registry::Named;
use crate::seed::Seed;
use crate::{Error, Result};

/// `kind = "as_recorded"`.
pub(crate) struct AsRecorded;

impl Named for AsRecorded {
    fn name(&self) -> &'static str {
        "as_recorded"
    }
    fn about(&self) -> &'static str {
        "recorded times of the trace, scaled by speed, or to a mean rate (offered, pps)"
    }
}

impl Schedule for AsRecorded {
    fn keys(&self) -> KeyTables {
        &[Recorded::KEYS, Times::KEYS]
    }

    fn open(&self, section: &mut Section, _: &Pace, _: Seed) -> Result<Box<dyn Timeline + Send>> {
        Tempo::of_trace(section)?;
        Err(Error::config(format!(
            "{}: \"as_recorded\" needs a trace; set workload.trace to a file, or choose another schedule",
            section.place("kind")
        )))
    }
}
