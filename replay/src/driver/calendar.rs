//! The next event among a fixed set of slots: a tournament tree over their times.
//!
//! Every source of events (a port, a timer, a link) has one slot with the time of its next event, so
//! an update costs log₂ of the number of slots, whatever is in flight. Ties go to the lower slot: the
//! order of slots is the order of events at equal times.

use pktgen_generator::time::{NEVER, Time};

/// The tree. Slot `i` is leaf `size + i`; each inner node holds the time and slot of its winner.
#[derive(Debug, Clone)]
pub struct Calendar {
    nodes: Vec<(Time, u32)>,
    size: usize,
}

impl Calendar {
    /// With `slots` slots, all at [`NEVER`].
    pub fn new(slots: usize) -> Self {
        let size = slots.next_power_of_two().max(2);
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
        self.nodes[1]
    }

    /// The next event of `slot` is at `t`.
    #[inline]
    pub fn set(&mut self, slot: u32, t: Time) {
        let mut i = self.size + slot as usize;
        self.nodes[i].0 = t;
        while i > 1 {
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
        fn finds_what_a_scan_finds(slots in 1usize..40, sets in prop::collection::vec((0usize..40, 0i64..50), 0..200)) {
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
