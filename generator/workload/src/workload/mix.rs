//! Two sources as one, in the order of time. The second ends with the first.

use super::{Known, Source, Update};
use crate::topology::Population;

/// Updates of `main`, with `extra` traffic beside them until `main` ends.
pub(super) struct Mix {
    main: Box<dyn Source>,
    extra: Box<dyn Source>,
    population: Population,
}

impl Mix {
    /// The workers of `extra` already have ids after those of `main`.
    pub(super) fn new(main: Box<dyn Source>, extra: Box<dyn Source>) -> Self {
        let mut population = main.population().clone();
        population.cluster_of.extend(&extra.population().cluster_of);
        Mix { main, extra, population }
    }

    /// Whether the next one is from `extra`.
    fn extra_is_next(&self) -> bool {
        match (self.main.peek(), self.extra.peek()) {
            (Some(main), Some(extra)) => extra.t_gen < main.t_gen,
            _ => false,
        }
    }
}

impl Source for Mix {
    fn population(&self) -> &Population {
        &self.population
    }

    /// Times, ids and the largest update are those of the main source; what is beside it has ids of its own.
    fn known(&self) -> Known {
        let main = self.main.known().without_learning();
        let frame_max = main.frame_max.max(self.extra.known().frame_max);
        Known { frame_max, again: None, beside: true, ..main }
    }

    fn peek(&self) -> Option<&Update> {
        if self.extra_is_next() { self.extra.peek() } else { self.main.peek() }
    }

    fn take(&mut self, values: &mut [u8]) {
        if self.extra_is_next() { self.extra.take(values) } else { self.main.take(values) }
    }

    fn failure(&self) -> Option<&str> {
        self.main.failure().or(self.extra.failure())
    }
}
