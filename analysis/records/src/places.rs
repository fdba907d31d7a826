//! Maps ids to dense indices in the order of first occurrence: with a table for small ids and a map for others.
//!
//! Called by code that stores data per cluster or worker.

use pktgen_core::index::{Index, NOWHERE};

/// Ids below this are in the table, which grows up to the largest: 4 bytes each.
const TABLE: u32 = 1 << 20;

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Places {
    table: Vec<u32>,
    others: Index,
    len: u32,
}

impl Places {
    /// Returns the index of `id`; assigns the next free one if it is new.
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

    /// Returns the index of `id`; `None` if it is new.
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
