//! Several files as one stream, in the order of time.

use pktgen_generator::Result;

use super::input::Input;
use super::{Event, Side};

/// The files, and the next event of each.
pub(super) struct Merge {
    inputs: Vec<Input>,
    next: Vec<Option<Event>>,
}

impl Merge {
    pub(super) fn new(mut inputs: Vec<Input>) -> Result<Self> {
        let next = inputs.iter_mut().map(Input::next_event).collect();
        Ok(Merge { inputs, next })
    }

    /// The earliest event. At equal times what was sent comes before what was received.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<Event>> {
        let first = if self.inputs.len() == 1 { 0 } else { self.earliest() };
        let Some(event) = self.next.get_mut(first).and_then(Option::take) else { return Ok(None) };
        self.next[first] = self.inputs[first].next_event();
        Ok(Some(event))
    }

    fn earliest(&self) -> usize {
        let waiting = self.next.iter().enumerate().filter_map(|(i, event)| event.as_ref().map(|event| (i, event)));
        waiting.min_by_key(|(i, event)| (event.t, event.side == Side::Server, *i)).map_or(0, |(i, _)| i)
    }

    pub(super) fn bytes_read(&self) -> u64 {
        self.inputs.iter().map(Input::bytes_read).sum()
    }

    pub(super) fn into_inputs(self) -> Vec<Input> {
        self.inputs
    }
}
