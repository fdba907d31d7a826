//! Reading traces block by block.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::arrow::array::{Array, AsArray, ListArray, RecordBatch};
use crate::arrow::datatypes::{ArrowPrimitiveType, Float32Type, Int64Type, Schema, UInt16Type, UInt32Type, UInt64Type};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};

use super::schema::{accept, list_lacks, no_value};
use crate::footer;
use crate::quiet::attempt;
use crate::regular::check_regular;
use crate::workload::Update;
use crate::{Error, Result};

/// Rows in memory at a time, and about how many bytes of them: rows of gradients are kilobytes.
const BATCH: usize = 8192;
const BATCH_BYTES: i64 = 1 << 24;

/// Some consecutive updates of a trace.
#[derive(Debug, Default)]
pub struct Block {
    /// The updates.
    pub updates: Vec<Update>,
    keys: Option<ListArray>,
    values: Option<ListArray>,
}

impl Block {
    /// Values of update `i` of this block; empty where the trace has none.
    pub fn values(&self, i: usize) -> &[f32] {
        row::<Float32Type>(self.values.as_ref(), i)
    }

    /// Keys of the values of update `i` of this block; empty where the trace has none.
    pub fn keys(&self, i: usize) -> &[u64] {
        row::<UInt64Type>(self.keys.as_ref(), i)
    }
}

/// Row `i` of a column of lists.
fn row<T: ArrowPrimitiveType>(lists: Option<&ListArray>, i: usize) -> &[T::Native] {
    let Some(lists) = lists.filter(|lists| lists.is_valid(i)) else { return &[] };
    let offsets = lists.value_offsets();
    &lists.values().as_primitive::<T>().values()[offsets[i] as usize..offsets[i + 1] as usize]
}

/// A column of lists whose numbers are `T`s; none if it is anything else.
fn lists<T: ArrowPrimitiveType>(column: &dyn Array) -> Option<&ListArray> {
    column.as_list_opt::<i32>().filter(|lists| lists.values().as_primitive_opt::<T>().is_some())
}

/// The first row of a column that is null.
fn first_null(column: &dyn Array) -> Option<usize> {
    let mut rows = 0..column.len();
    if column.null_count() == 0 { None } else { rows.find(|i| column.is_null(*i)) }
}

/// The first row of a column whose list has a number that is null.
fn first_lacking(lists: &ListArray) -> Option<usize> {
    let (offsets, numbers) = (lists.value_offsets(), lists.values());
    let lacks = |i: usize| (offsets[i]..offsets[i + 1]).any(|at| numbers.is_null(at as usize));
    let mut rows = 0..lists.len();
    if numbers.null_count() == 0 { None } else { rows.find(|i| lists.is_valid(*i) && lacks(*i)) }
}

/// Streams a trace file.
pub struct Reader {
    path: PathBuf,
    batches: Batches,
    /// Rows read.
    row: u64,
}

/// A Parquet file, batch by batch. The decoder panics on some damage: that is an error here.
pub(super) struct Batches {
    path: PathBuf,
    inner: ParquetRecordBatchReader,
}

impl Iterator for Batches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        match attempt(|| self.inner.next()) {
            Some(batch) => batch.map(|b| b.map_err(|e| Error::data(&self.path, format!("damaged: {e}")))),
            None => Some(Err(Error::data(&self.path, "damaged: its pages contradict its schema"))),
        }
    }
}

/// Opens any Parquet file in blocks of rows; `accept` judges its schema.
pub(super) fn open_parquet(path: &Path, accept: impl FnOnce(&Schema) -> Result<()>) -> Result<Batches> {
    check_regular(path)?;
    let file = File::open(path).map_err(Error::io("open trace", path))?;
    footer::check(&file, path, footer::ANY_ROWS)?;
    let opened = attempt(|| ParquetRecordBatchReaderBuilder::try_new(file));
    let builder = opened.ok_or_else(|| Error::data(path, "not a readable Parquet file: its footer is damaged"))?;
    let builder = builder.map_err(|e| {
        Error::data(
            path,
            format!("not a readable Parquet file ({e}); is it truncated? CSV goes through `pktgen trace convert`"),
        )
    })?;
    accept(builder.schema())?;
    let rows = batch(builder.metadata());
    let inner = attempt(|| builder.with_batch_size(rows).build());
    let inner = inner.ok_or_else(|| Error::data(path, "cannot be read: its footer is damaged"))?;
    let inner = inner.map_err(|e| Error::data(path, format!("cannot be read: {e}")))?;
    Ok(Batches { path: path.to_owned(), inner })
}

/// Rows of a block.
fn batch(metadata: &ParquetMetaData) -> usize {
    let add = |(bytes, rows): (i64, i64), group: &RowGroupMetaData| {
        (bytes.saturating_add(group.total_byte_size()), rows.saturating_add(group.num_rows()))
    };
    let (bytes, rows) = metadata.row_groups().iter().fold((0, 0), add);
    (BATCH_BYTES / (bytes / rows.max(1)).max(1)).clamp(64, BATCH as i64) as usize
}

impl Reader {
    /// Opens `path` and checks its schema.
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Reader { path: path.to_owned(), batches: open_parquet(path, |schema| accept(schema, path))?, row: 0 })
    }

    /// The next block; none at the end.
    pub fn next_block(&mut self) -> Result<Option<Block>> {
        match self.batches.next().transpose()? {
            None => Ok(None),
            Some(batch) => {
                let block = self.block(&batch)?;
                self.row += batch.num_rows() as u64;
                Ok(Some(block))
            }
        }
    }

    fn block(&self, batch: &RecordBatch) -> Result<Block> {
        let column = |name: &str| batch.column_by_name(name);
        let wrong = |name: &str| Error::data(&self.path, format!("column \"{name}\" has an unexpected type"));
        let place = |i: usize| self.row + i as u64;
        macro_rules! required {
            ($name:literal, $type:ty) => {{
                let cells = column($name).and_then(|c| c.as_primitive_opt::<$type>()).ok_or_else(|| wrong($name))?;
                if let Some(i) = first_null(cells) {
                    return Err(Error::data(&self.path, no_value($name, place(i))));
                }
                cells
            }};
        }
        macro_rules! optional {
            ($name:literal, $type:ty) => {
                column($name).map(|c| c.as_primitive_opt::<$type>().ok_or_else(|| wrong($name))).transpose()?
            };
        }
        macro_rules! optional_lists {
            ($name:literal, $type:ty) => {{
                let all = column($name).map(|c| lists::<$type>(c).ok_or_else(|| wrong($name))).transpose()?;
                if let Some(i) = all.and_then(first_lacking) {
                    return Err(Error::data(&self.path, list_lacks($name, place(i))));
                }
                all.cloned()
            }};
        }
        let t = required!("t_ps", Int64Type);
        let cluster = required!("cluster", UInt16Type);
        let worker = required!("worker", UInt32Type);
        let seq = required!("seq", UInt32Type);
        let bytes = required!("bytes", UInt32Type);
        let reward = optional!("reward", Float32Type);
        let iteration = optional!("iteration", UInt32Type);
        let updates = (0..batch.num_rows())
            .map(|i| Update {
                t_gen: t.value(i),
                cluster: cluster.value(i),
                worker: worker.value(i),
                seq: seq.value(i),
                bytes: bytes.value(i),
                reward: reward.filter(|c| c.is_valid(i)).map(|c| c.value(i)),
                iteration: iteration.filter(|c| c.is_valid(i)).map(|c| c.value(i)),
            })
            .collect();
        let keys = optional_lists!("keys", UInt64Type);
        let values = optional_lists!("values", Float32Type);
        Ok(Block { updates, keys, values })
    }
}
