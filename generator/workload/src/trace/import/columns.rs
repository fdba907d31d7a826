//! Record batches with our column names, any integer and float widths, some columns left out: what Parquet and Arrow
//! share.

use std::collections::HashMap;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};

use crate::arrow::array::{Array, AsArray, RecordBatch};
use crate::arrow::datatypes::{
    DataType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, Schema, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};

use super::sink::Sink;
use super::{Altered, Notes, frame_for};
use crate::trace::schema::{accept_version, list_lacks, no_value, trace_schema};
use crate::workload::Update;
use crate::{Error, Result};

/// What a file must at least say.
const NEEDED: [&str; 3] = ["t_ps", "cluster", "worker"];

/// What a key can be.
const KEYS: RangeInclusive<i128> = 0..=u64::MAX as i128;
/// Rows that are widened at a time.
const ROWS: usize = 8192;

/// Columns that a trace does not have; refuses a file of a newer version, and one without those that it needs.
pub(super) fn strangers(schema: &Schema, input: &Path) -> Result<Vec<String>> {
    accept_version(schema, input)?;
    let names: Vec<_> = schema.fields().iter().map(|f| f.name().clone()).collect();
    if let Some(missing) = NEEDED.iter().find(|needed| !names.iter().any(|name| name == *needed)) {
        return Err(Error::data(
            input,
            format!(
                "column \"{missing}\" is missing; it has {}; a trace needs {} and may have seq, bytes, reward, keys, \
                 values and iteration",
                if names.is_empty() { "no columns".to_owned() } else { names.join(", ") },
                NEEDED.join(", ")
            ),
        ));
    }
    let ours = trace_schema();
    let twice = |name: &&String| names.iter().filter(|other| other == name).count() > 1;
    if let Some(name) = names.iter().filter(|name| ours.field_with_name(name).is_ok()).find(twice) {
        return Err(Error::data(input, format!("it has column \"{name}\" twice; keep one")));
    }
    Ok(names.into_iter().filter(|name| ours.field_with_name(name).is_err()).collect())
}

/// The columns of some rows, widened.
struct Columns {
    t: Vec<Option<i128>>,
    cluster: Vec<Option<i128>>,
    worker: Vec<Option<i128>>,
    seq: Option<Vec<Option<i128>>>,
    bytes: Option<Vec<Option<i128>>>,
    iteration: Option<Vec<Option<i128>>>,
    reward: Option<Vec<Option<f64>>>,
    values: Option<Lists<f64>>,
    keys: Option<Lists<i128>>,
}

/// The numbers of all rows' lists, and where each row's are.
struct Lists<T> {
    numbers: Vec<Option<T>>,
    ranges: Vec<Range<usize>>,
}

impl<T: Copy> Lists<T> {
    /// The numbers of row `i`, each as `narrow` makes it; the row is number `row` of the file.
    fn row<N>(
        &self,
        name: &str,
        (i, row): (usize, u64),
        narrow: impl Fn(T) -> Result<N, String>,
    ) -> Result<Vec<N>, String> {
        let cell = |x: &Option<T>| x.ok_or_else(|| list_lacks(name, row));
        self.numbers[self.ranges[i].clone()].iter().map(|x| narrow(cell(x)?)).collect()
    }
}

impl Columns {
    fn of(batch: &RecordBatch) -> Result<Self, String> {
        let integer = |name: &str| {
            let Some(column) = batch.column_by_name(name) else { return Ok(None) };
            integers(column).map(Some).ok_or_else(|| wrong(name, column, "a whole number of any width"))
        };
        // Some tools write a column without a single value with a type of its own: it is absent.
        let optional = |name: &str| match batch.column_by_name(name) {
            Some(column) if *column.data_type() == DataType::Null => Ok(None),
            _ => integer(name),
        };
        let needed = |name: &str| integer(name)?.ok_or_else(|| format!("column \"{name}\" is missing"));
        let reward = match batch.column_by_name("reward") {
            None => None,
            Some(column) => Some(floats(column).ok_or_else(|| wrong("reward", column, "a number"))?),
        };
        // A column without a single list has no type that says anything.
        let lists_of = |name: &str| batch.column_by_name(name).filter(|c| c.logical_null_count() < c.len());
        let values = match lists_of("values") {
            None => None,
            Some(column) => Some(lists(column, floats).ok_or_else(|| wrong("values", column, "a list of numbers"))?),
        };
        let keys = match lists_of("keys") {
            None => None,
            Some(column) => {
                Some(lists(column, integers).ok_or_else(|| wrong("keys", column, "a list of whole numbers"))?)
            }
        };
        Ok(Columns {
            t: needed("t_ps")?,
            cluster: needed("cluster")?,
            worker: needed("worker")?,
            seq: optional("seq")?,
            bytes: optional("bytes")?,
            iteration: optional("iteration")?,
            reward,
            values,
            keys,
        })
    }
}

fn wrong(name: &str, column: &dyn Array, wanted: &str) -> String {
    format!("column \"{name}\" has type {}; it must be {wanted}", column.data_type())
}

/// Goes through the rows of a file.
pub(super) struct Rows {
    path: PathBuf,
    row: u64,
    bytes: u32,
    /// For files without sequence numbers: the next one of each worker.
    next_seq: HashMap<u32, u32>,
    altered: Altered,
}

impl Rows {
    /// Of `path`; `bytes` is the frame size where neither a column nor values say it.
    pub(super) fn new(path: &Path, bytes: u32) -> Self {
        Rows { path: path.to_owned(), row: 0, bytes, next_seq: HashMap::new(), altered: Altered::default() }
    }

    /// The next rows of the file.
    pub(super) fn push(&mut self, batch: &RecordBatch, sink: &mut Sink) -> Result<()> {
        for start in (0..batch.num_rows()).step_by(ROWS) {
            let part = batch.slice(start, ROWS.min(batch.num_rows() - start));
            let columns = Columns::of(&part).map_err(|what| Error::data(&self.path, what))?;
            for i in 0..part.num_rows() {
                let (update, keys, values) = self.update(&columns, i).map_err(|what| Error::data(&self.path, what))?;
                // The row is all there is to say.
                sink.push_pairs(&update, &keys, &values, String::new)?;
            }
        }
        Ok(())
    }

    /// After the last row: what was left out and what was made.
    pub(super) fn note(&self, ignored: Vec<String>, notes: &mut Notes) {
        if !ignored.is_empty() {
            notes.insert("ignored_columns".to_owned(), ignored.join(", "));
        }
        if !self.next_seq.is_empty() {
            notes.insert("seq".to_owned(), "counted per worker".to_owned());
        }
        self.altered.note(self.bytes, notes);
    }

    /// Row `i` of `columns`, which is the next row of the file, with its keys and values.
    fn update(&mut self, columns: &Columns, i: usize) -> Result<(Update, Vec<u64>, Vec<f32>), String> {
        let row = self.row;
        self.row += 1;
        let must = |name: &str, cell: Option<i128>| cell.ok_or_else(|| no_value(name, row));
        let worker = narrow("worker", row, must("worker", columns.worker[i])?, 0..=u32::MAX.into())?;
        let rounded = &self.altered.rounded;
        let single = |name: &str, value: f64| {
            let narrow = single(name, row, value)?;
            rounded.set(rounded.get() + u64::from(f64::from(narrow) != value));
            Ok::<_, String>(narrow)
        };
        let values = columns.values.as_ref().map(|all| all.row("values", (i, row), |x| single("values", x)));
        let keys = columns.keys.as_ref().map(|all| all.row("keys", (i, row), |n| narrow("keys", row, n, KEYS)));
        let (values, keys) = (values.transpose()?.unwrap_or_default(), keys.transpose()?.unwrap_or_default());
        let optional = |column: &Option<Vec<Option<i128>>>| column.as_ref().and_then(|cells| cells[i]);
        let whole = |name: &str, cell: Option<i128>| -> Result<Option<u32>, String> {
            cell.map(|n| narrow(name, row, n, 0..=u32::MAX.into())).transpose()
        };
        let seq = match &columns.seq {
            Some(cells) => narrow("seq", row, must("seq", cells[i])?, 0..=u32::MAX.into())?,
            None => {
                let next = self.next_seq.entry(worker).or_insert(0);
                let seq = *next;
                *next = seq.checked_add(1).ok_or_else(|| format!("row {row}: worker {worker} has too many updates"))?;
                seq
            }
        };
        let mut is_sized = false;
        let bytes = match whole("bytes", optional(&columns.bytes))? {
            Some(bytes) => bytes,
            None => {
                is_sized = keys.is_empty() && values.is_empty();
                frame_for(keys.len(), values.len(), self.bytes).map_err(|why| format!("row {row}: {why}"))?
            }
        };
        let reward = columns.reward.as_ref().and_then(|cells| cells[i]);
        let update = Update {
            t_gen: narrow("t_ps", row, must("t_ps", columns.t[i])?, 0..=i64::MAX.into())?,
            cluster: narrow("cluster", row, must("cluster", columns.cluster[i])?, 0..=u16::MAX.into())?,
            worker,
            seq,
            bytes,
            reward: reward.map(|x| single("reward", x)).transpose()?,
            iteration: whole("iteration", optional(&columns.iteration))?,
        };
        self.altered.sized += u64::from(is_sized);
        self.altered.see(bytes, keys.len(), values.len());
        Ok((update, keys, values))
    }
}

/// `value` as a narrower integer.
fn narrow<T: TryFrom<i128>>(name: &str, row: u64, value: i128, range: RangeInclusive<i128>) -> Result<T, String> {
    let (least, most) = (*range.start(), *range.end());
    let fits = Some(value).filter(|value| range.contains(value)).and_then(|value| T::try_from(value).ok());
    fits.ok_or_else(|| format!("column \"{name}\", row {row}: {value} is not from {least} to {most}"))
}

/// `value` in 32 bits, rounded.
fn single(name: &str, row: u64, value: f64) -> Result<f32, String> {
    let narrow = value as f32;
    if narrow.is_finite() {
        return Ok(narrow);
    }
    Err(format!("column \"{name}\", row {row}: {value} is not a finite number of 32 bits"))
}

/// The integers of a column; none if it holds something else.
fn integers(column: &dyn Array) -> Option<Vec<Option<i128>>> {
    macro_rules! widen {
        ($type:ty) => {
            Some(column.as_primitive_opt::<$type>()?.iter().map(|cell| cell.map(i128::from)).collect())
        };
    }
    match column.data_type() {
        DataType::Int8 => widen!(Int8Type),
        DataType::Int16 => widen!(Int16Type),
        DataType::Int32 => widen!(Int32Type),
        DataType::Int64 => widen!(Int64Type),
        DataType::UInt8 => widen!(UInt8Type),
        DataType::UInt16 => widen!(UInt16Type),
        DataType::UInt32 => widen!(UInt32Type),
        DataType::UInt64 => widen!(UInt64Type),
        DataType::Null => Some(vec![None; column.len()]),
        _ => None,
    }
}

/// The numbers of a column; none if it holds something else.
fn floats(column: &dyn Array) -> Option<Vec<Option<f64>>> {
    match column.data_type() {
        DataType::Float32 => {
            Some(column.as_primitive_opt::<Float32Type>()?.iter().map(|cell| cell.map(f64::from)).collect())
        }
        DataType::Float64 => Some(column.as_primitive_opt::<Float64Type>()?.iter().collect()),
        DataType::Float16 => {
            Some(column.as_primitive_opt::<Float16Type>()?.iter().map(|cell| cell.map(f64::from)).collect())
        }
        _ => Some(integers(column)?.into_iter().map(|cell| cell.map(odd)).collect()),
    }
}

/// An integer in 64 bits: where they do not hold it, the odd one of the two beside it, so that it is rounded to 32 bits as if at once.
fn odd(n: i128) -> f64 {
    let near = n as f64;
    if near as i128 == n {
        return near;
    }
    let beyond = (near as i128).unsigned_abs() > n.unsigned_abs();
    f64::from_bits((near.to_bits() - u64::from(beyond)) | 1)
}

/// The lists of a column, their numbers as `widen` makes them; none if it holds something else.
fn lists<T: Clone>(column: &dyn Array, widen: fn(&dyn Array) -> Option<Vec<Option<T>>>) -> Option<Lists<T>> {
    let rows = 0..column.len();
    // A column that is a part of another has all values of that one: only its own are widened.
    let own = |values: &dyn Array, offsets: &[usize]| {
        let (first, last) = (*offsets.first()?, *offsets.last()?);
        let ranges = offsets.windows(2).map(|pair| pair[0] - first..pair[1] - first).collect::<Vec<_>>();
        Some((widen(&values.slice(first, last - first))?, ranges))
    };
    let (numbers, ranges): (_, Vec<Range<usize>>) = match column.data_type() {
        DataType::List(_) => {
            let lists = column.as_list_opt::<i32>()?;
            own(lists.values(), &lists.value_offsets().iter().map(|at| *at as usize).collect::<Vec<_>>())?
        }
        DataType::LargeList(_) => {
            let lists = column.as_list_opt::<i64>()?;
            own(lists.values(), &lists.value_offsets().iter().map(|at| *at as usize).collect::<Vec<_>>())?
        }
        DataType::FixedSizeList(_, _) => {
            let lists = column.as_fixed_size_list_opt()?;
            let (start, length) = (|i| lists.value_offset_at(i), lists.value_length() as usize);
            (widen(lists.values())?, rows.map(|i| start(i)..start(i) + length).collect())
        }
        _ => return None,
    };
    // A row without a list has no values, whatever its place holds.
    let present = |(i, range): (usize, Range<usize>)| if column.is_valid(i) { range } else { 0..0 };
    Some(Lists { numbers, ranges: ranges.into_iter().enumerate().map(present).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By way of 64 bits an integer becomes the nearest number of 32 bits, and what is not exact is seen.
    #[test]
    fn integers_are_rounded_once() {
        for (n, nearest) in [
            ((1i128 << 60) + (1 << 36) + 1, 1_152_921_642_045_800_448.0f32),
            (-(1i128 << 60) - (1 << 36) - 1, -1_152_921_642_045_800_448.0),
            ((1 << 53) + 1, 9_007_199_254_740_992.0),
            (16_777_217, 16_777_216.0),
            (i128::from(u64::MAX), 18_446_744_073_709_551_616.0),
        ] {
            assert_eq!(odd(n) as f32, nearest, "{n}");
            assert_ne!(f64::from(nearest), odd(n), "{n} is not exact");
        }
        assert_eq!((odd(-7), odd(1 << 53)), (-7.0, 9_007_199_254_740_992.0));
    }
}
