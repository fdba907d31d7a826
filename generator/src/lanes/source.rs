//! A source whose updates carry lanes.

use std::sync::Arc;

use super::Lanes;
use crate::dense::Dense;
use crate::sparse::Sparse;
use crate::time::Time;
use crate::topology::Population;
use crate::workload::{Source, Update};

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

    fn frame_max(&self) -> u32 {
        self.inner.frame_max()
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

    fn rest(&self) -> Option<Time> {
        self.inner.rest()
    }

    fn dense(&self) -> Option<Arc<Dense>> {
        self.inner.dense()
    }

    fn sparse(&self) -> Option<Arc<Sparse>> {
        self.inner.sparse()
    }

    fn failure(&self) -> Option<&str> {
        self.inner.failure()
    }
}
