//! Cells of columns of any stream: their order and their text.

use std::cmp::Ordering;
use std::fmt::Debug;

use pktgen_core::arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray, BooleanArray, ListArray, PrimitiveArray,
    StringArray,
};
use pktgen_core::arrow::datatypes::{self as arrow_types, DataType, UInt32Type};
use pktgen_core::arrow::error::ArrowError;

use crate::frame::primitives;

/// A column, row by row.
pub(super) trait Cells {
    /// Compares two cells: empty cells first, then by value; floats in their total order.
    fn compare(&self, a: usize, b: usize) -> Ordering;

    /// Returns the shortest text that is parsed to the same value; `None` for an empty cell.
    fn text(&self, row: usize) -> Option<String>;
}

/// Returns the cells of a column, if streams have columns of this type.
pub(super) fn cells(column: &ArrayRef) -> Result<Box<dyn Cells>, ArrowError> {
    macro_rules! by_type {
        ($($arrow:ident, $kind:ident);*) => {
            match column.data_type() {
                $(DataType::$arrow => Box::new(column.as_primitive::<arrow_types::$kind>().clone()) as Box<dyn Cells>,)*
                DataType::Boolean => Box::new(column.as_boolean().clone()),
                DataType::Utf8 => Box::new(column.as_string::<i32>().clone()),
                DataType::List(item) if *item.data_type() == DataType::UInt32 => Box::new(column.as_list::<i32>().clone()),
                other => {
                    return Err(ArrowError::NotYetImplemented(format!("a column of {other}, which no stream of pktgen has")));
                }
            }
        };
    }
    Ok(primitives!(by_type))
}

fn either<A: Array>(cells: &A, a: usize, b: usize, compare: impl FnOnce() -> Ordering) -> Ordering {
    match (cells.is_valid(a), cells.is_valid(b)) {
        (true, true) => compare(),
        (a, b) => a.cmp(&b),
    }
}

impl<T: ArrowPrimitiveType<Native: Debug + ArrowNativeTypeOp>> Cells for PrimitiveArray<T> {
    fn compare(&self, a: usize, b: usize) -> Ordering {
        either(self, a, b, || self.value(a).compare(self.value(b)))
    }

    fn text(&self, row: usize) -> Option<String> {
        self.is_valid(row).then(|| format!("{:?}", self.value(row)))
    }
}

impl Cells for BooleanArray {
    fn compare(&self, a: usize, b: usize) -> Ordering {
        either(self, a, b, || self.value(a).cmp(&self.value(b)))
    }

    fn text(&self, row: usize) -> Option<String> {
        self.is_valid(row).then(|| self.value(row).to_string())
    }
}

impl Cells for StringArray {
    fn compare(&self, a: usize, b: usize) -> Ordering {
        either(self, a, b, || self.value(a).cmp(self.value(b)))
    }

    fn text(&self, row: usize) -> Option<String> {
        self.is_valid(row).then(|| self.value(row).to_owned())
    }
}

impl Cells for ListArray {
    fn compare(&self, a: usize, b: usize) -> Ordering {
        let values = |row: usize| self.value(row).as_primitive::<UInt32Type>().clone();
        either(self, a, b, || values(a).values().cmp(values(b).values()))
    }

    fn text(&self, row: usize) -> Option<String> {
        self.is_valid(row).then(|| format!("{:?}", self.value(row).as_primitive::<UInt32Type>().values().as_ref()))
    }
}
