//! Groups and their aggregates, accumulated batch by batch: counts, sums, minima, maxima and means, which can be decomposed.
//!
//! Called by [`crate::grouped`]. Integers are added up in 128 bits, so the order and batches do not affect the result.

use std::hash::Hash;
use std::ops::Add;

use polars::prelude::*;

/// Number of key values (from 0) with a table entry, for each of the first groups of the preceding keys; one more entry
/// is for empty cells.
const NARROW: usize = 1023;
/// Maximum number of groups of the preceding keys with such a table.
const TABLES: usize = 1024;

/// An aggregate of the cells of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Aggregate {
    /// Number of rows.
    Rows,
    /// Number of cells that are not empty.
    Count,
    Sum,
    Least,
    Most,
    Mean,
}

/// Groups by one more key: each is a group of the preceding keys and a value.
#[derive(Default)]
struct Level {
    groups: Vec<(u32, Option<u64>)>,
    table: Vec<u32>,
    others: PlHashMap<(u32, Option<u64>), u32>,
}

impl Level {
    /// Creates the tables of this many groups of the preceding keys.
    fn expect(&mut self, before: usize) {
        let places = before.min(TABLES) * (NARROW + 1);
        if self.table.len() < places {
            self.table.resize(places, 0);
        }
    }

    #[inline]
    fn group(&mut self, before: u32, value: Option<u64>) -> u32 {
        // An empty cell has the place behind the values; what is larger has none.
        let place = match value {
            None => NARROW,
            Some(value) if value < NARROW as u64 => value as usize,
            Some(_) => NARROW + 1,
        };
        let at = before as usize * (NARROW + 1) + place;
        match self.table.get(at) {
            Some(known) if place <= NARROW && *known > 0 => *known - 1,
            _ => self.other(before, value, (place <= NARROW).then_some(at)),
        }
    }

    /// Returns the number of a group that is new or has no table entry.
    fn other(&mut self, before: u32, value: Option<u64>, at: Option<usize>) -> u32 {
        let Level { groups, others, table } = self;
        let mut new = || {
            groups.push((before, value));
            groups.len() as u32 - 1
        };
        match at.and_then(|at| table.get_mut(at)) {
            Some(place) => {
                let group = new();
                *place = group + 1;
                group
            }
            None => *others.entry((before, value)).or_insert_with(new),
        }
    }
}

/// An aggregate of all groups.
enum Cells {
    /// Sum, count and extremum of integers.
    Whole(Vec<Part<i128>>),
    Float(Vec<Part<f64>>),
    Count(Vec<u64>),
}

/// A type of sums and extrema.
trait Number: Copy + Add<Output = Self> {
    fn least(self, other: Self) -> Self;
    fn most(self, other: Self) -> Self;
}

impl Number for i128 {
    #[inline]
    fn least(self, other: i128) -> i128 {
        self.min(other)
    }

    #[inline]
    fn most(self, other: i128) -> i128 {
        self.max(other)
    }
}

/// NaN is neither extremum if there is a number.
impl Number for f64 {
    #[inline]
    fn least(self, other: f64) -> f64 {
        self.min(other)
    }

    #[inline]
    fn most(self, other: f64) -> f64 {
        self.max(other)
    }
}

/// The sum, minimum or maximum of some cells of a group.
#[derive(Clone, Copy)]
struct Part<T> {
    value: T,
    cells: u64,
}

impl<T: Number> Part<T> {
    /// Adds another part.
    #[inline]
    fn add(&mut self, aggregate: Aggregate, other: Self) {
        if other.cells == 0 {
            return;
        }
        self.value = match aggregate {
            _ if self.cells == 0 => other.value,
            Aggregate::Least => self.value.least(other.value),
            Aggregate::Most => self.value.most(other.value),
            _ => self.value + other.value,
        };
        self.cells += other.cells;
    }
}

/// Groups by some keys.
pub(crate) struct Groups {
    levels: Vec<Level>,
    cells: Vec<(Aggregate, Cells)>,
    /// For sums of integers: sums of the magnitudes.
    magnitudes: Vec<u128>,
    scratch: Vec<u32>,
}

/// Calls `each` with the index and the value of every cell, `None` if empty.
fn each_cell<T: PolarsNumericType>(cells: &ChunkedArray<T>, mut each: impl FnMut(usize, Option<T::Native>)) {
    match cells.cont_slice() {
        Ok(values) => values.iter().enumerate().for_each(|(row, value)| each(row, Some(*value))),
        Err(_) => cells.iter().enumerate().for_each(|(row, value)| each(row, value)),
    }
}

impl Groups {
    /// Creates empty groups by this many keys; aggregates have the types of their operands.
    pub(crate) fn new(keys: usize, aggregates: &[(Aggregate, DataType)]) -> Groups {
        let cells = aggregates.iter().map(|(aggregate, of)| match (aggregate, of) {
            (Aggregate::Rows | Aggregate::Count, _) => (*aggregate, Cells::Count(Vec::new())),
            (_, DataType::Float64) => (*aggregate, Cells::Float(Vec::new())),
            _ => (*aggregate, Cells::Whole(Vec::new())),
        });
        let levels = (0..keys).map(|_| Level::default()).collect();
        let mut groups =
            Groups { levels, cells: cells.collect(), magnitudes: vec![0; aggregates.len()], scratch: Vec::new() };
        groups.grow();
        groups
    }

    /// Returns the number of groups: one without keys.
    pub(crate) fn len(&self) -> usize {
        self.levels.last().map_or(1, |level| level.groups.len())
    }

    /// Returns their approximate memory in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let of = |level: &Level| level.groups.len() * 24 + level.others.len() * 56 + level.table.len() * 4;
        let keys: usize = self.levels.iter().map(of).sum();
        (keys + self.len() * self.cells.len() * 32) as u64
    }

    fn grow(&mut self) {
        let groups = self.len();
        for (_, cells) in &mut self.cells {
            match cells {
                Cells::Count(counts) => counts.resize(groups, 0),
                Cells::Whole(wholes) => wholes.resize(groups, Part { value: 0, cells: 0 }),
                Cells::Float(floats) => floats.resize(groups, Part { value: 0.0, cells: 0 }),
            }
        }
    }

    /// Adds `rows` rows: their keys as 64-bit integers or codes, and the operands of the aggregates; `None` for counts of rows.
    pub(crate) fn add(&mut self, rows: usize, keys: &[Column], of: &[Option<Column>]) -> PolarsResult<()> {
        let mut groups = std::mem::take(&mut self.scratch);
        groups.clear();
        groups.resize(rows, 0);
        let mut before = 1;
        for (level, key) in self.levels.iter_mut().zip(keys) {
            level.expect(before);
            let mut next = |row: usize, value: Option<u64>| groups[row] = level.group(groups[row], value);
            match key.dtype() {
                DataType::UInt32 => each_cell(key.u32()?, |row, value| next(row, value.map(u64::from))),
                DataType::UInt64 => each_cell(key.u64()?, next),
                _ => each_cell(key.i64()?, |row, value| next(row, value.map(|value| value as u64))),
            }
            before = level.groups.len();
        }
        self.grow();
        for (((aggregate, cells), magnitude), of) in self.cells.iter_mut().zip(&mut self.magnitudes).zip(of) {
            match (cells, of) {
                (Cells::Count(counts), None) => groups.iter().for_each(|group| counts[*group as usize] += 1),
                (Cells::Count(counts), Some(of)) if of.null_count() == 0 => {
                    groups.iter().for_each(|group| counts[*group as usize] += 1);
                }
                (Cells::Count(counts), Some(of)) => {
                    let full = of.is_not_null();
                    let full = groups.iter().zip(full.iter()).filter(|(_, full)| *full == Some(true));
                    full.for_each(|(group, _)| counts[*group as usize] += 1);
                }
                (Cells::Whole(wholes), Some(of)) => {
                    let mut whole = |row: usize, value: Option<i128>| {
                        let Some(value) = value else { return };
                        *magnitude += value.unsigned_abs();
                        wholes[groups[row] as usize].add(*aggregate, Part { value, cells: 1 });
                    };
                    match of.dtype() {
                        DataType::UInt64 => each_cell(of.u64()?, |row, value| whole(row, value.map(i128::from))),
                        _ => each_cell(of.i64()?, |row, value| whole(row, value.map(i128::from))),
                    }
                }
                (Cells::Float(floats), Some(of)) => each_cell(of.f64()?, |row, value| {
                    if let Some(value) = value {
                        floats[groups[row] as usize].add(*aggregate, Part { value, cells: 1 });
                    }
                }),
                _ => polars_bail!(ComputeError: "an aggregate of no column"),
            }
        }
        self.scratch = groups;
        Ok(())
    }

    /// Adds the groups of another instance.
    pub(crate) fn merge(&mut self, other: Groups) {
        let mut places = vec![0];
        let mut before = 1;
        for (level, others) in self.levels.iter_mut().zip(&other.levels) {
            level.expect(before);
            places =
                others.groups.iter().map(|(before, value)| level.group(places[*before as usize], *value)).collect();
            before = level.groups.len();
        }
        self.grow();
        for ((aggregate, cells), (_, others)) in self.cells.iter_mut().zip(&other.cells) {
            let places = places.iter().map(|place| *place as usize);
            match (cells, others) {
                (Cells::Count(own), Cells::Count(others)) => {
                    places.zip(others).for_each(|(place, other)| own[place] += other);
                }
                (Cells::Whole(own), Cells::Whole(others)) => {
                    places.zip(others).for_each(|(place, other)| own[place].add(*aggregate, *other));
                }
                (Cells::Float(own), Cells::Float(others)) => {
                    places.zip(others).for_each(|(place, other)| own[place].add(*aggregate, *other));
                }
                // Both belong to the same plan.
                _ => {}
            }
        }
        self.magnitudes.iter_mut().zip(other.magnitudes).for_each(|(own, other)| *own += other);
    }

    /// Returns the values of a key, for each group.
    pub(crate) fn key(&self, key: usize) -> Vec<Option<u64>> {
        let mut groups: Vec<u32> = (0..self.len() as u32).collect();
        for level in self.levels[key + 1..].iter().rev() {
            groups.iter_mut().for_each(|group| *group = level.groups[*group as usize].0);
        }
        groups.into_iter().map(|group| self.levels[key].groups[group as usize].1).collect()
    }

    /// Returns an aggregate of all groups, in the type that polars uses.
    pub(crate) fn aggregate(&self, at: usize, name: PlSmallStr, of: &DataType) -> PolarsResult<Column> {
        let (aggregate, cells) = &self.cells[at];
        let mean = *aggregate == Aggregate::Mean;
        let column = match cells {
            Cells::Count(counts) => {
                let counts = UInt64Chunked::from_iter_values(name, counts.iter().copied());
                return counts.into_column().strict_cast(&IDX_DTYPE);
            }
            Cells::Whole(wholes) if mean => {
                let cells = wholes.iter().map(|of| (of.cells > 0).then(|| of.value as f64 / of.cells as f64));
                Float64Chunked::from_iter_options(name, cells).into_column()
            }
            Cells::Float(floats) if mean => {
                let cells = floats.iter().map(|of| (of.cells > 0).then(|| of.value / of.cells as f64));
                Float64Chunked::from_iter_options(name, cells).into_column()
            }
            Cells::Float(floats) => {
                let sum = *aggregate == Aggregate::Sum;
                let cells = floats.iter().map(|of| (sum || of.cells > 0).then_some(of.value));
                Float64Chunked::from_iter_options(name, cells).into_column()
            }
            Cells::Whole(wholes) => {
                let sum = *aggregate == Aggregate::Sum;
                let cells = wholes.iter().map(|of| (sum || of.cells > 0).then_some(of.value));
                match of {
                    DataType::UInt64 => {
                        UInt64Chunked::from_iter_options(name, cells.map(|cell| cell.map(|cell| cell as u64)))
                            .into_column()
                    }
                    _ => Int64Chunked::from_iter_options(name, cells.map(|cell| cell.map(|cell| cell as i64)))
                        .into_column(),
                }
            }
        };
        Ok(column)
    }

    /// Returns the sum of the magnitudes of the operands of aggregate `at`.
    pub(crate) fn magnitude(&self, at: usize) -> u128 {
        self.magnitudes[at]
    }
}
