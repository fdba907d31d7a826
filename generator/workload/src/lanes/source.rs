//! A source whose updates carry lanes.

use std::sync::Arc;

use super::Lanes;
use crate::topology::Population;
use crate::workload::{Known, Source, Update};

/// The updates of `inner`, lanes over their first gradients.
pub(super) struct Laned {
    inner: Box<dyn Source>,
    lanes: Arc<Lanes>,
}

impl Laned {
    pub(super) fn new(inner: Box<dyn Source>, lanes: Arc<Lanes>) -> Self {
        Laned { inner, lanes }
    }
}

impl Source for Laned {
    fn population(&self) -> &Population {
        self.inner.population()
    }

    fn known(&self) -> Known {
        self.inner.known().without_learning()
    }

    fn peek(&self) -> Option<&Update> {
        self.inner.peek()
    }

    #[inline]
    fn take(&mut self, values: &mut [u8]) {
        let Some((worker, seq)) = self.inner.peek().map(|update| (update.worker, update.seq)) else { return };
        self.inner.take(values);
        self.lanes.write(worker, seq, values);
    }

    fn failure(&self) -> Option<&str> {
        self.inner.failure()
    }
}
