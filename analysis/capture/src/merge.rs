//! Merges several files into one stream in the order of time.

use super::input::Input;
use super::{Event, Side};

/// Number of events created at a time: few enough to stay in the nearest caches, and enough that waiting for the bytes
/// of one packet overlaps with the next ones.
const BATCH: usize = 256;

/// The files, and the next events of each.
pub(super) struct Merge {
    inputs: Vec<Input>,
    /// For each input: events, and how many of them were consumed.
    waiting: Vec<(Vec<Event>, usize)>,
    /// The file of each event of the last batch; empty if there is only one.
    files: Vec<u32>,
}

impl Merge {
    pub(super) fn new(inputs: Vec<Input>) -> Self {
        let waiting = inputs.iter().map(|_| (Vec::with_capacity(BATCH), 0)).collect();
        Merge { inputs, waiting, files: Vec::with_capacity(BATCH) }
    }

    /// Replaces `batch` by the next events in the order of time; leaves it empty at the end. At equal times, sent
    /// packets come before received ones.
    pub(super) fn next(&mut self, batch: &mut Vec<Event>) {
        batch.clear();
        self.files.clear();
        if let [only] = self.inputs.as_mut_slice() {
            return only.fill(batch, BATCH);
        }
        while batch.len() < BATCH {
            let Some(first) = self.earliest() else { return };
            let (events, gone) = &mut self.waiting[first];
            batch.push(events[*gone]);
            self.files.push(first as u32);
            *gone += 1;
        }
    }

    /// Returns the index of the file of an event of the last batch.
    #[inline]
    pub(super) fn file_of(&self, place: usize) -> u32 {
        self.files.get(place).copied().unwrap_or(0)
    }

    fn earliest(&mut self) -> Option<usize> {
        let mut first: Option<(i64, bool, usize)> = None;
        for (i, (input, (events, gone))) in self.inputs.iter_mut().zip(&mut self.waiting).enumerate() {
            if *gone == events.len() {
                events.clear();
                *gone = 0;
                input.fill(events, BATCH);
            }
            if let Some(event) = events.get(*gone) {
                let this = (event.t, event.side == Side::Server, i);
                first = Some(first.map_or(this, |first| first.min(this)));
            }
        }
        first.map(|(_, _, i)| i)
    }

    /// Whether packets of a file were not in the order of time.
    pub(super) fn is_unordered(&self) -> bool {
        self.inputs.iter().any(Input::is_unordered)
    }

    /// Returns the coarsest resolutions of the server's files so far; that of a file with one resolution is known with the first batch.
    pub(super) fn resolutions_at_server(&self) -> impl Iterator<Item = u64> {
        self.inputs.iter().filter_map(Input::resolution_at_server)
    }

    pub(super) fn bytes_read(&self) -> u64 {
        self.inputs.iter().map(Input::bytes_read).sum()
    }

    pub(super) fn into_inputs(self) -> Vec<Input> {
        self.inputs
    }
}
