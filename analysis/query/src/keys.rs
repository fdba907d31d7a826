//! The set of keys in a column of integers, with one bit each, for skipping rows of another table.

use std::sync::{Arc, OnceLock};

use polars::prelude::*;

/// Maximum number of bits of [`Keys`], as a power of two.
const MOST: u32 = 28;

/// The set of a table's keys, one bit each. Several keys may share a bit.
pub(crate) struct Keys {
    bits: Vec<u64>,
    shift: u32,
}

/// A column and its keys, once these are known.
pub(crate) type Known = (PlSmallStr, Arc<OnceLock<Keys>>);

impl Keys {
    pub(crate) fn of(column: &Column) -> Option<Keys> {
        // About one in ten other keys passes.
        let power = (column.len() as u64 * 8).max(64).next_power_of_two().ilog2().min(MOST);
        let mut keys = Keys { bits: vec![0; 1 << (power - 6)], shift: 64 - power };
        each(column, |key| {
            if let Some(key) = key {
                let place = keys.place(key);
                keys.bits[place >> 6] |= 1 << (place & 63);
            }
        })?;
        Some(keys)
    }

    #[inline]
    fn place(&self, key: u64) -> usize {
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    /// Returns which cells of a column may be among the keys; `None` if they are not 64-bit integers.
    pub(crate) fn may_have(&self, column: &Column) -> Option<BooleanChunked> {
        let mut mask = Vec::with_capacity(column.len());
        let has = |place: usize| self.bits[place >> 6] >> (place & 63) & 1 == 1;
        each(column, |key| mask.push(key.is_some_and(|key| has(self.place(key)))))?;
        Some(BooleanChunked::from_slice(PlSmallStr::EMPTY, &mask))
    }
}

fn each(column: &Column, mut each: impl FnMut(Option<u64>)) -> Option<()> {
    match column.dtype() {
        DataType::UInt64 => column.u64().ok()?.iter().for_each(&mut each),
        DataType::Int64 => column.i64().ok()?.iter().for_each(|key| each(key.map(|key| key as u64))),
        _ => return None,
    }
    Some(())
}
