//! Dense places of numbers that name things, in the order in which they are first seen: a table for small numbers, a map for others.
//!
//! Called by what is kept per cluster or worker.

use pktgen_core::index::{Index, NOWHERE};

/// Numbers below are in the table, which grows as far as they go: 4 bytes each.
const TABLE: u32 = 1 << 20;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Places {
    table: Vec<u32>,
    others: Index,
    len: u32,
}

impl Places {
    /// The place of `id`; the next free one if it is new.
    #[inline]
    pub(crate) fn place(&mut self, id: u32) -> usize {
        if let Some(known) = self.get(id) {
            return known;
        }
        let place = self.len;
        self.len += 1;
        if id < TABLE {
            if self.table.len() <= id as usize {
                self.table.resize(id as usize + 1, NOWHERE);
            }
            self.table[id as usize] = place;
        } else {
            self.others.insert(u64::from(id), place);
        }
        place as usize
    }

    /// The place of `id`; none if it is new.
    #[inline]
    pub(crate) fn get(&self, id: u32) -> Option<usize> {
        match self.table.get(id as usize) {
            Some(&NOWHERE) => None,
            Some(&place) => Some(place as usize),
            None if id < TABLE => None,
            None => self.others.get(&u64::from(id)).map(|place| *place as usize),
        }
    }
}
