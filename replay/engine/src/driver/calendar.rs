//! The next event among a fixed set of slots.
//!
//! Every source of events (a port, a timer, a link) has one slot with the time of its next event, so
//! nothing grows with what is in flight. Few slots are scanned, which costs no mispredicted branch; many are the
//! leaves of a tournament tree, where an update costs log₂ of their number. Ties go to the lower slot: the
//! order of slots is the order of events at equal times.

use pktgen_core::time::{NEVER, Time};

/// Up to here a scan is faster than a tree.
const SCAN_MAX: usize = 16;

/// The slots.
#[derive(Debug, Clone)]
pub struct Calendar {
    /// A tree has slot `i` at leaf `size + i`, and each inner node holds the time and slot of its winner. Without
    /// a tree (`size` 0) slot `i` is simply entry `i`.
    nodes: Vec<(Time, u32)>,
    size: usize,
}

impl Calendar {
    /// With `slots` slots, all at [`NEVER`].
    pub fn new(slots: usize) -> Self {
        if slots <= SCAN_MAX {
            return Calendar { nodes: (0..slots.max(1)).map(|i| (NEVER, i as u32)).collect(), size: 0 };
        }
        let size = slots.next_power_of_two();
        let mut nodes = vec![(NEVER, 0); size * 2];
        for slot in 0..size {
            nodes[size + slot].1 = slot as u32;
        }
        for i in (1..size).rev() {
            nodes[i] = nodes[2 * i];
        }
        Calendar { nodes, size }
    }

    /// Time and slot of the next event; the time is [`NEVER`] if there is none.
    #[inline]
    pub fn first(&self) -> (Time, u32) {
        if self.size > 0 {
            return self.nodes[1];
        }
        let mut best = (NEVER, 0);
        for &node in &self.nodes {
            best = if node.0 < best.0 { node } else { best };
        }
        best
    }

    /// The next event of `slot` is at `t`.
    #[inline]
    pub fn set(&mut self, slot: u32, t: Time) {
        let mut i = self.size + slot as usize;
        self.nodes[i].0 = t;
        while i > 1 && self.size > 0 {
            i /= 2;
            let (left, right) = (self.nodes[2 * i], self.nodes[2 * i + 1]);
            let winner = if left.0 <= right.0 { left } else { right };
            // Above a node that keeps its winner nothing changes.
            if self.nodes[i] == winner {
                break;
            }
            self.nodes[i] = winner;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn finds_what_a_plain_search_finds(slots in 1usize..40, sets in prop::collection::vec((0usize..40, 0i64..50), 0..200)) {
            let (mut calendar, mut plain) = (Calendar::new(slots), vec![NEVER; slots]);
            for (slot, t) in sets {
                let slot = slot % slots;
                calendar.set(slot as u32, t);
                plain[slot] = t;
                let (best, &time) = plain.iter().enumerate().min_by_key(|(i, t)| (**t, *i)).unwrap();
                prop_assert_eq!(calendar.first(), (time, best as u32));
            }
        }
    }
}
