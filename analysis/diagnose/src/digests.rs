//! Digests of sent payloads: which arrived, and which arrived more than once.

use std::collections::HashMap;

use crate::frame::Quick;

/// Number of payloads before and after the next expected one that are searched first for an arrival.
const WINDOW: usize = 128;
/// Number of arrivals that are searched among all payloads before a table is worth its memory.
const SEARCHES_MAX: usize = 32;
/// End of a chain.
const NONE: u32 = u32::MAX;

/// Digests in the order of sending. Most arrivals are in that order, so each is found close to the one before.
#[derive(Default)]
pub(crate) struct Digests {
    order: Vec<u64>,
    came: Vec<bool>,
    /// Index after the last arrival.
    next: usize,
    searches: usize,
    table: Option<Table>,
}

/// Index of digests.
struct Table {
    first: HashMap<u64, u32, Quick>,
    /// For each index: the next one with the same digest.
    again: Vec<u32>,
}

impl Table {
    fn new(order: &[u64]) -> Table {
        let (mut first, mut again) = (HashMap::default(), vec![NONE; order.len()]);
        first.reserve(order.len());
        for (at, digest) in order.iter().enumerate().rev() {
            again[at] = first.insert(*digest, at as u32).unwrap_or(NONE);
        }
        Table { first, again }
    }

    fn places(&self, digest: u64) -> impl Iterator<Item = usize> {
        let next = |at: &u32| Some(self.again[*at as usize]).filter(|at| *at != NONE);
        std::iter::successors(self.first.get(&digest).copied(), next).map(|at| at as usize)
    }
}

impl Digests {
    /// Reserves space for this many frames.
    pub(crate) fn reserve(&mut self, frames: usize) {
        self.order.reserve(frames);
        self.came.reserve(frames);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Records a sent payload, before any arrival.
    pub(crate) fn left(&mut self, digest: u64) {
        self.order.push(digest);
        self.came.push(false);
    }

    /// Records an arrival: `None` if the payload was never sent, otherwise whether it arrived more often than it was sent.
    pub(crate) fn arrive(&mut self, digest: u64) -> Option<bool> {
        let (at, known) = match self.near(digest) {
            Some(at) => (Some(at), true),
            None => self.anywhere(digest),
        };
        if let Some(at) = at {
            self.came[at] = true;
            self.next = self.next.max(at + 1);
        }
        known.then_some(at.is_none())
    }

    /// Whether a payload was sent and never arrived.
    pub(crate) fn is_missing(&mut self, digest: u64) -> bool {
        self.make_table();
        let (table, came) = (self.table.as_ref(), &self.came);
        let mut places = table.into_iter().flat_map(|table| table.places(digest)).peekable();
        places.peek().is_some() && places.all(|at| !came[at])
    }

    fn near(&self, digest: u64) -> Option<usize> {
        let ahead = self.next..self.order.len().min(self.next + WINDOW);
        let behind = self.next.saturating_sub(WINDOW)..self.next;
        ahead.chain(behind.rev()).find(|at| self.order[*at] == digest && !self.came[*at])
    }

    /// Returns one that has not arrived, and whether there is any.
    fn anywhere(&mut self, digest: u64) -> (Option<usize>, bool) {
        self.searches += 1;
        let came = &self.came;
        if self.searches <= SEARCHES_MAX {
            let mut places = (self.next..self.order.len()).chain(0..self.next).filter(|at| self.order[*at] == digest);
            let mut known = false;
            let at = places.find(|at| {
                known = true;
                !came[*at]
            });
            return (at, known);
        }
        self.make_table();
        let table = self.table.as_ref();
        let mut known = false;
        let mut places = table.into_iter().flat_map(|table| table.places(digest)).inspect(|_| known = true);
        let at = places.find(|at| !self.came[*at]);
        (at, known)
    }

    fn make_table(&mut self) {
        if self.table.is_none() {
            self.table = Some(Table::new(&self.order));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_in_any_order_are_those_that_a_table_finds() {
        let mut state = 3u64;
        let mut next = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        // Found by a search and by a table.
        for odd in [0, 1, 4, 400] {
            // Some payloads are sent twice; some are lost, arrive again, overtake others, or were never sent.
            let sent: Vec<u64> = (0..5000).map(|i| if next(50) == 0 { i / 2 } else { i }).collect();
            let mut arrivals: Vec<u64> = sent.iter().copied().filter(|_| next(9) > 0).collect();
            for _ in 0..odd {
                let (a, b) = (next(4000) as usize, next(4000) as usize);
                arrivals.swap(a, a + b % 7);
                arrivals.insert(b, arrivals[a]);
                arrivals.insert(a, 1 << 40 | next(9));
            }
            let mut digests = Digests::default();
            let mut table: HashMap<u64, [u32; 2]> = HashMap::new();
            for digest in &sent {
                digests.left(*digest);
                table.entry(*digest).or_default()[0] += 1;
            }
            for digest in &arrivals {
                let expected = table.get_mut(digest).map(|counts| {
                    counts[1] += 1;
                    counts[1] > counts[0]
                });
                assert_eq!(digests.arrive(*digest), expected, "{digest}");
            }
            assert!(sent.iter().all(|digest| digests.is_missing(*digest) == (table[digest][1] == 0)));
        }
    }
}
