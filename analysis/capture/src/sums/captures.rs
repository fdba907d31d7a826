//! Whether captures are whole and agree: contributions to results, and the order of results in several files.

use std::collections::BTreeSet;

use super::super::Event;
use super::super::recent::Recent;
use super::{Renewal, SumId, Sums};

/// Progress of results in slots by file. Files of several hosts have clocks of their own: results of one may stand behind later ones of another.
pub(super) struct FileOrder {
    /// Index of the file that the next packets are of.
    file: u16,
    /// The last number in a slot of a file, with its format.
    last: Recent<(u8, u16, u16), u64>,
    /// Files whose results stand behind later ones of other files.
    behind: BTreeSet<u16>,
}

impl FileOrder {
    pub(super) fn new(kept: usize) -> Self {
        FileOrder { file: 0, last: Recent::new(kept), behind: BTreeSet::new() }
    }

    /// Returns the bit of the file in sets of files; of many files, some share one.
    pub(super) fn own(&self) -> u32 {
        1 << (self.file % 32)
    }

    /// Compares a result that counts as new with the files that had an equal one before, if any. It belongs to that sum if this file was not as
    /// far as the others (`is_apart`) and did not have it yet.
    pub(super) fn compare(&mut self, is_apart: bool, known: Option<u32>) {
        if is_apart && known.is_some_and(|files| files & self.own() == 0) {
            self.behind.insert(self.file);
        }
    }
}

impl Sums {
    /// Sets the index of the file that the next packets are of.
    pub(crate) fn read_from(&mut self, file: u16) {
        self.files.file = file;
    }

    /// Returns the files whose results stand behind later ones of other files.
    pub(crate) fn files_behind(&self) -> &BTreeSet<u16> {
        &self.files.behind
    }

    /// Records the number of a result in a slot of its file. Returns whether the last one there was another number than the last of all files.
    pub(super) fn is_apart(&mut self, event: &Event) -> bool {
        let id = SumId::of(event);
        if self.renewals.of(id.format) != Renewal::Slots {
            return false;
        }
        let (place, number) = ((id.format, id.round, self.files.file), id.number());
        let own = self.files.last.get(&place);
        if own != Some(number) {
            self.files.last.put(place, number);
        }
        own.is_some_and(|own| own != number && self.renewals.last.get(&id.slot(None)) != Some(own))
    }

    /// Compares the number of sources of a result with the contributions so far: where the sides are in no order, others follow.
    /// Sequences that restart may have another id at each actor.
    pub(super) fn compare_sources(&mut self, sum: SumId, sources: u16) {
        if sources > self.contributors.get(&sum).map_or(0, |open| open.workers) {
            let before = self.short.get(&sum);
            self.short_count += u64::from(before.is_none());
            self.short.put(sum, before.map_or(sources, |before| before.max(sources)));
        }
    }

    /// Returns the number of sums of which a result has more sources than contributions were captured; 0 if some were forgotten.
    pub(crate) fn short_sums(&self) -> u64 {
        if self.contributors.forgot() || self.short.forgot() { 0 } else { self.short_count }
    }
}
