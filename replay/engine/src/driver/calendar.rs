//! The next event among a fixed set of slots.
//!
//! Every source of events (a port, a timer, a link) has one slot with the time of its next event, so
//! nothing grows with the number of frames in flight. A few slots are scanned, without mispredicted branches; more are the leaves of a
//! tournament tree, where an update costs log₂ of their number. In large networks most slots have no event: a heap holds only those that
//! have one, and costs the logarithm of their number. Ties go to the lower slot: the order of slots is the order of events at equal times.

use pktgen_core::time::{NEVER, Time};

/// Largest number of slots for which a scan is faster than a tree.
const SCAN_MAX: usize = 16;
/// Largest number of slots for which the tree stays in the nearest cache.
const TREE_MAX: usize = 1024;

/// A slot without an event.
const NOWHERE: u32 = u32::MAX;
/// Children of an event in the heap: siblings share a cache line.
const ARITY: usize = 4;

/// Time and slot of an event.
type Event = (Time, u32);

/// Data structure of the slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// An entry per slot.
    Scan,
    /// A tournament tree: slot `i` is at leaf `size + i`, and each inner node holds the time and slot of its winner.
    Tournament,
    /// A heap of the slots that have an event, the earliest first.
    Heap,
}

/// The slots.
#[derive(Debug, Clone)]
pub struct Calendar {
    form: Form,
    events: Vec<Event>,
    /// Leaves of the tournament.
    size: usize,
    /// Position of each slot's event in the heap.
    place: Vec<u32>,
}

impl Calendar {
    /// A calendar with `slots` slots, all at [`NEVER`].
    pub fn new(slots: usize) -> Self {
        if slots <= SCAN_MAX {
            let events = (0..slots.max(1)).map(|i| (NEVER, i as u32)).collect();
            return Calendar { form: Form::Scan, events, size: 0, place: Vec::new() };
        }
        if slots > TREE_MAX {
            return Calendar { form: Form::Heap, events: Vec::new(), size: 0, place: vec![NOWHERE; slots] };
        }
        let size = slots.next_power_of_two();
        let mut events = vec![(NEVER, 0); size * 2];
        for slot in 0..size {
            events[size + slot].1 = slot as u32;
        }
        for i in (1..size).rev() {
            events[i] = events[2 * i];
        }
        Calendar { form: Form::Tournament, events, size, place: Vec::new() }
    }

    /// Returns time and slot of the next event; the time is [`NEVER`] if there is none.
    #[inline]
    pub fn first(&self) -> Event {
        match self.form {
            Form::Scan => {
                let mut best = (NEVER, 0);
                for &event in &self.events {
                    best = if event.0 < best.0 { event } else { best };
                }
                best
            }
            Form::Tournament => self.events[1],
            Form::Heap => self.events.first().copied().unwrap_or((NEVER, 0)),
        }
    }

    /// Events of which the second to the fifth are some, then those behind them: the levels of the heap below its top. Empty in other forms.
    pub fn soon(&self) -> [&[Event]; 2] {
        let level = |from: usize, to: usize| &self.events[from.min(self.events.len())..to.min(self.events.len())];
        match self.form {
            Form::Heap => [level(1, 1 + ARITY), level(1 + ARITY, 1 + ARITY + ARITY * ARITY)],
            Form::Scan | Form::Tournament => [&[], &[]],
        }
    }

    /// The next event of `slot` is at `t`.
    #[inline]
    pub fn set(&mut self, slot: u32, t: Time) {
        match self.form {
            Form::Scan => self.events[slot as usize].0 = t,
            Form::Tournament => self.play(slot, t),
            Form::Heap => self.move_in_heap(slot, t),
        }
    }

    #[inline]
    fn play(&mut self, slot: u32, t: Time) {
        let mut i = self.size + slot as usize;
        self.events[i].0 = t;
        while i > 1 {
            i /= 2;
            let (left, right) = (self.events[2 * i], self.events[2 * i + 1]);
            let winner = if left.0 <= right.0 { left } else { right };
            if self.events[i] == winner {
                return;
            }
            self.events[i] = winner;
        }
    }

    fn move_in_heap(&mut self, slot: u32, t: Time) {
        let (event, at) = ((t, slot), self.place[slot as usize]);
        if at == NOWHERE {
            if t != NEVER {
                self.events.push(event);
                self.rise(self.events.len() - 1, event);
            }
            return;
        }
        let at = at as usize;
        if t != NEVER {
            return self.move_from(at, event);
        }
        self.place[slot as usize] = NOWHERE;
        if let Some(last) = self.events.pop().filter(|last| last.1 != slot) {
            self.move_from(at, last);
        }
    }

    /// Places `event` at `at`, or moves it up or down to its position.
    fn move_from(&mut self, at: usize, event: Event) {
        if at > 0 && event < self.events[(at - 1) / ARITY] { self.rise(at, event) } else { self.sink(at, event) }
    }

    fn put(&mut self, at: usize, event: Event) {
        self.events[at] = event;
        self.place[event.1 as usize] = at as u32;
    }

    fn rise(&mut self, mut at: usize, event: Event) {
        while at > 0 {
            let above = (at - 1) / ARITY;
            if self.events[above] <= event {
                break;
            }
            self.put(at, self.events[above]);
            at = above;
        }
        self.put(at, event);
    }

    fn sink(&mut self, mut at: usize, event: Event) {
        loop {
            let first = at * ARITY + 1;
            let end = self.events.len().min(first + ARITY);
            let Some((below, least)) = (first..end).map(|i| (i, self.events[i])).min_by_key(|(_, event)| *event) else {
                break;
            };
            if event <= least {
                break;
            }
            self.put(at, least);
            at = below;
        }
        self.put(at, event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn finds_what_a_plain_search_finds(
            slots in prop_oneof![1usize..40, Just(2000)],
            sets in prop::collection::vec((0usize..60, prop_oneof![4 => 0i64..50, 1 => Just(NEVER)]), 0..300),
        ) {
            let (mut calendar, mut plain) = (Calendar::new(slots), vec![NEVER; slots]);
            for (slot, t) in sets {
                // Distant slots, too.
                let slot = slot * 31 % slots;
                calendar.set(slot as u32, t);
                plain[slot] = t;
                let (best, &time) = plain.iter().enumerate().min_by_key(|(i, t)| (**t, *i)).unwrap();
                let (first, at) = calendar.first();
                prop_assert_eq!(first, time);
                prop_assert!(time == NEVER || at == best as u32);
                let second = plain.iter().enumerate().filter(|(i, t)| *i != best && **t != NEVER).min_by_key(|(i, t)| (**t, *i));
                if let (true, Some((slot, _))) = (slots > TREE_MAX, second) {
                    prop_assert!(calendar.soon()[0].iter().any(|event| event.1 == slot as u32));
                }
            }
        }
    }
}
