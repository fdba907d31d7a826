//! A source with other times: `schedule.speed` and `schedule.pps` for whatever a schedule has made. Traces are
//! scaled where they are read. What speeds and means are is defined with [`Tempo`].

use std::sync::Arc;

use super::{Known, NextPass, Source, Update, Workload};
use crate::config::Section;
use crate::schedule::{Pass, Tempo};
use crate::seed::Seed;
use crate::time::{HORIZON, Time, too_late};
use crate::topology::Population;
use crate::trace::Stretch;
use crate::{Error, Result};

/// How the times of every pass of a source are scaled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scaling {
    stretch: Stretch,
    rest: Option<Time>,
}

impl Scaling {
    /// Reads the keys; none if times stay as they are. A mean needs the pass: the workload is opened once to see it.
    pub(super) fn read(
        kind: &dyn Workload,
        section: &Section,
        schedule: &mut Section,
        seed: Seed,
    ) -> Result<Option<Self>> {
        let tempo = if kind.is_timed(section) { Tempo::of_trace(schedule)? } else { Tempo::of_made(schedule)? };
        if tempo.is_none() {
            return Ok(None);
        }
        let pass = if tempo.needs_pass() {
            measure(kind.open(&mut section.clone(), &mut schedule.clone(), seed)?)?
        } else {
            Pass::default()
        };
        Ok(Some(Scaling { stretch: tempo.stretch(&pass, 0, schedule)?, rest: tempo.rest(&pass) }))
    }
}

/// What a source amounts to.
fn measure(mut source: Box<dyn Source>) -> Result<Pass> {
    let mut pass = Pass::default();
    while let Some(update) = source.peek() {
        pass.add(update.t_gen, update.bytes);
        source.take(&mut []);
    }
    match source.failure() {
        Some(why) => Err(Error::config(format!("[workload]: its end is not in reach, so it has no mean rate: {why}"))),
        None => Ok(pass),
    }
}

/// A source with every time scaled.
pub(super) struct Scaled {
    source: Box<dyn Source>,
    scaling: Scaling,
    head: Option<Update>,
    failure: Option<String>,
}

impl Scaled {
    pub(super) fn new(source: Box<dyn Source>, scaling: Scaling) -> Self {
        let mut scaled = Scaled { source, scaling, head: None, failure: None };
        scaled.load();
        scaled
    }

    fn load(&mut self) {
        let stretch = &self.scaling.stretch;
        self.head = self.source.peek().and_then(|u| Some(Update { t_gen: stretch.at(u.t_gen)?, ..*u }));
        if self.head.is_none() && self.source.peek().is_some() {
            let keys = "raise schedule.speed or schedule.pps, or send fewer updates";
            self.failure = Some(too_late("the next update of a scaled workload", HORIZON as f64, keys));
        }
    }
}

// Only pulled: compute times of endpoints in a loop would be those before scaling.
impl Source for Scaled {
    fn population(&self) -> &Population {
        self.source.population()
    }

    fn known(&self) -> Known {
        let (known, scaling) = (self.source.known(), self.scaling);
        let again = known.again.clone().map(|begin| -> NextPass {
            Arc::new(move || -> Result<Box<dyn Source>> { Ok(Box::new(Scaled::new(begin()?, scaling))) })
        });
        Known { rest: scaling.rest, again, ..known.changed() }
    }

    fn peek(&self) -> Option<&Update> {
        self.head.as_ref()
    }

    fn take(&mut self, values: &mut [u8]) {
        if self.head.is_some() {
            self.source.take(values);
            self.load();
        }
    }

    fn passes(&self) -> Option<u32> {
        self.source.passes()
    }

    fn failure(&self) -> Option<&str> {
        self.failure.as_deref().or(self.source.failure())
    }
}
