//! Cells of records, and their conversion to columns.

use std::sync::Arc;

use crate::arrow::array::{
    ArrayRef, BooleanArray, Float32Array, Int64Array, ListArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use crate::arrow::buffer::OffsetBuffer;
use crate::arrow::datatypes::{DataType, Field};
use crate::column::Data;

use super::code::{Action, Heat, Reason, SumOk};
use super::row::PacketId;

/// A value in a column.
pub trait Cell: Sized + 'static {
    /// Its type in files.
    const DATA: Data;
    /// Whether it may be empty.
    const OPTIONAL: bool = false;

    /// Makes a column of cells.
    fn array<'a>(cells: impl Iterator<Item = &'a Self> + Clone) -> ArrayRef;
}

/// Maximum number of lanes of a packet, and capacity of rows of records.
pub const LANES_MAX: usize = 64;

macro_rules! cells {
    ($($value:ty: $data:ident in $array:ty = |$cell:ident| $stored:expr;)*) => {$(
        impl Cell for $value {
            const DATA: Data = Data::$data;

            fn array<'a>(cells: impl Iterator<Item = &'a Self> + Clone) -> ArrayRef {
                Arc::new(<$array>::from_iter_values(cells.map(|$cell| $stored)))
            }
        }

        impl Cell for Option<$value> {
            const DATA: Data = Data::$data;
            const OPTIONAL: bool = true;

            fn array<'a>(cells: impl Iterator<Item = &'a Self> + Clone) -> ArrayRef {
                Arc::new(cells.map(|cell| cell.map(|$cell| $stored)).collect::<$array>())
            }
        }
    )*};
}

cells! {
    i64: Int64 in Int64Array = |cell| cell.to_owned();
    u64: UInt64 in UInt64Array = |cell| cell.to_owned();
    u32: UInt32 in UInt32Array = |cell| cell.to_owned();
    u16: UInt16 in UInt16Array = |cell| cell.to_owned();
    u8: UInt8 in UInt8Array = |cell| cell.to_owned();
    f32: Float32 in Float32Array = |cell| cell.to_owned();
    PacketId: UInt64 in UInt64Array = |cell| cell.0;
    Action: UInt8 in UInt8Array = |cell| cell.to_owned() as u8;
    Reason: UInt8 in UInt8Array = |cell| cell.to_owned() as u8;
    SumOk: UInt8 in UInt8Array = |cell| cell.to_owned() as u8;
    Heat: UInt8 in UInt8Array = |cell| cell.to_owned() as u8;
}

impl Cell for bool {
    const DATA: Data = Data::Boolean;

    fn array<'a>(cells: impl Iterator<Item = &'a Self> + Clone) -> ArrayRef {
        Arc::new(cells.map(|cell| Some(*cell)).collect::<BooleanArray>())
    }
}

impl Cell for Option<bool> {
    const DATA: Data = Data::Boolean;
    const OPTIONAL: bool = true;

    fn array<'a>(cells: impl Iterator<Item = &'a Self> + Clone) -> ArrayRef {
        Arc::new(cells.copied().collect::<BooleanArray>())
    }
}

/// The lanes of a packet, up to [`LANES_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Words {
    count: u8,
    words: [u32; LANES_MAX],
}

impl Words {
    /// Words that `fill` writes; it returns their number.
    #[inline]
    pub fn new(fill: impl FnOnce(&mut [u32; LANES_MAX]) -> usize) -> Self {
        let mut words = [0; LANES_MAX];
        let count = fill(&mut words).min(LANES_MAX) as u8;
        Words { count, words }
    }

    /// Returns the words.
    pub fn as_slice(&self) -> &[u32] {
        &self.words[..usize::from(self.count)]
    }
}

impl Cell for Words {
    const DATA: Data = Data::ListUInt32;

    fn array<'a>(cells: impl Iterator<Item = &'a Self> + Clone) -> ArrayRef {
        let offsets = OffsetBuffer::from_lengths(cells.clone().map(|words| words.as_slice().len()));
        let values = UInt32Array::from_iter_values(cells.flat_map(|words| words.as_slice().iter().copied()));
        Arc::new(ListArray::new(Arc::new(Field::new("item", DataType::UInt32, false)), offsets, Arc::new(values), None))
    }
}
