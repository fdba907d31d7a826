//! Groups and their aggregates, gathered batch by batch: counts, sums, minima, maxima and means, which decompose.
//!
//! Called by [`crate::grouped`]. Integers are summed in 128 bits, so that order and batches do not show.

use std::hash::Hash;

use polars::prelude::*;

/// Values of keys that have a place in a table, for each of the first groups of the keys before.
const NARROW: usize = 1023;
/// Groups of the keys before with such a table.
const TABLES: usize = 1024;

/// What is computed of the cells of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Aggregate {
    /// Rows.
    Rows,
    /// Cells that are not empty.
    Count,
    Sum,
    Least,
    Most,
    Mean,
}

/// Numbers of the groups of one key more: each is a group of the keys before, and a value.
#[derive(Default)]
struct Level {
    groups: Vec<(u32, Option<u64>)>,
    table: Vec<u32>,
    others: PlHashMap<(u32, Option<u64>), u32>,
}

impl Level {
    /// Makes the tables of so many groups of the keys before.
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

    /// The number of a group without one, or that has no place in the tables.
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
    /// Sum, number and greatest or least of integers.
    Whole(Vec<Whole>),
    Float(Vec<Float>),
    Count(Vec<u64>),
}

#[derive(Clone, Copy)]
struct Whole {
    value: i128,
    cells: u64,
}

#[derive(Clone, Copy)]
struct Float {
    value: f64,
    cells: u64,
}

impl Whole {
    #[inline]
    fn add(&mut self, aggregate: Aggregate, other: Whole) {
        if other.cells == 0 {
            return;
        }
        self.value = match aggregate {
            _ if self.cells == 0 => other.value,
            Aggregate::Least => self.value.min(other.value),
            Aggregate::Most => self.value.max(other.value),
            _ => self.value + other.value,
        };
        self.cells += other.cells;
    }
}

impl Float {
    #[inline]
    fn add(&mut self, aggregate: Aggregate, other: Float) {
        if other.cells == 0 {
            return;
        }
        // What is not a number is neither least nor greatest where there is a number.
        self.value = match aggregate {
            _ if self.cells == 0 => other.value,
            Aggregate::Least => self.value.min(other.value),
            Aggregate::Most => self.value.max(other.value),
            _ => self.value + other.value,
        };
        self.cells += other.cells;
    }
}

/// Groups by some keys.
pub(crate) struct Groups {
    levels: Vec<Level>,
    cells: Vec<(Aggregate, Cells)>,
    /// Sums of magnitudes, of sums of integers.
    magnitudes: Vec<u128>,
    scratch: Vec<u32>,
}

/// Calls `each` with the place and the value of every cell, or none.
fn each_cell<T: PolarsNumericType>(cells: &ChunkedArray<T>, mut each: impl FnMut(usize, Option<T::Native>)) {
    match cells.cont_slice() {
        Ok(values) => values.iter().enumerate().for_each(|(row, value)| each(row, Some(*value))),
        Err(_) => cells.iter().enumerate().for_each(|(row, value)| each(row, value)),
    }
}

impl Groups {
    /// No groups by so many keys; aggregates with the types of what they are of.
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

    /// How many there are: without keys one.
    pub(crate) fn len(&self) -> usize {
        self.levels.last().map_or(1, |level| level.groups.len())
    }

    /// Bytes that they hold, about.
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
                Cells::Whole(wholes) => wholes.resize(groups, Whole { value: 0, cells: 0 }),
                Cells::Float(floats) => floats.resize(groups, Float { value: 0.0, cells: 0 }),
            }
        }
    }

    /// Adds `rows` rows: their keys as integers of 64 bits or codes, and what the aggregates are of; none of rows.
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
                        wholes[groups[row] as usize].add(*aggregate, Whole { value, cells: 1 });
                    };
                    match of.dtype() {
                        DataType::UInt64 => each_cell(of.u64()?, |row, value| whole(row, value.map(i128::from))),
                        _ => each_cell(of.i64()?, |row, value| whole(row, value.map(i128::from))),
                    }
                }
                (Cells::Float(floats), Some(of)) => each_cell(of.f64()?, |row, value| {
                    if let Some(value) = value {
                        floats[groups[row] as usize].add(*aggregate, Float { value, cells: 1 });
                    }
                }),
                _ => polars_bail!(ComputeError: "an aggregate of no column"),
            }
        }
        self.scratch = groups;
        Ok(())
    }

    /// Adds the groups of another one.
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
                // Both are of the same plan.
                _ => {}
            }
        }
        self.magnitudes.iter_mut().zip(other.magnitudes).for_each(|(own, other)| *own += other);
    }

    /// The values of a key, for each group.
    pub(crate) fn key(&self, key: usize) -> Vec<Option<u64>> {
        let mut groups: Vec<u32> = (0..self.len() as u32).collect();
        for level in self.levels[key + 1..].iter().rev() {
            groups.iter_mut().for_each(|group| *group = level.groups[*group as usize].0);
        }
        groups.into_iter().map(|group| self.levels[key].groups[group as usize].1).collect()
    }

    /// An aggregate of all groups, in the type that polars gives it.
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

    /// The sum of the magnitudes of what aggregate `at` sums.
    pub(crate) fn magnitude(&self, at: usize) -> u128 {
        self.magnitudes[at]
    }
}
