//! Reads Parquet files, batch by batch or at once, into plain columns, and writes metric lines as a table.
//!
//! Called by [`crate::stream`] and [`crate::run`] for the streams. [`crate::stream_file`] reports incomplete files;
//! this module reports missing columns, wrong types and nulls.

use std::path::{Path, PathBuf};

use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use pktgen_core::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray, RecordBatch,
};
use pktgen_core::arrow::datatypes::{Float32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use pktgen_core::whole::write_whole;
use pktgen_core::{Error, Result};
use polars::prelude::{DataFrame, PolarsError};

use crate::frame;
use crate::stream_file::{StreamBatches, StreamFile};

/// Number of rows decoded at a time; few in tests, so that there are several batches.
const ROWS: usize = if cfg!(test) { 16 } else { 1 << 13 };

/// A Parquet file, some columns of which are read batch by batch.
pub(crate) struct Reader {
    file: StreamFile,
    batches: StreamBatches,
    /// Number of rows before the next batch; `None` before the first batch, which a file without rows has, too.
    row: Option<usize>,
}

/// Rows of some columns of a Parquet file.
pub(crate) struct Table {
    path: PathBuf,
    batches: Vec<RecordBatch>,
    first_row: usize,
}

impl Reader {
    /// Opens the file of a stream with any version of the schema.
    pub(crate) fn stream(path: &Path, stream: &str, columns: &[&'static str]) -> Result<Reader> {
        Reader::of(StreamFile::open(path, stream)?, columns)
    }

    fn of(file: StreamFile, columns: &[&'static str]) -> Result<Reader> {
        let batches = file.read(columns, None, ROWS)?;
        Ok(Reader { file, batches, row: None })
    }

    /// Returns the number of rows according to the file.
    pub(crate) fn rows(&self) -> usize {
        self.file.rows()
    }

    /// Returns the next batch; `None` at the end. A file without rows has one empty batch.
    pub(crate) fn next_table(&mut self) -> Result<Option<Table>> {
        let batch = match self.batches.next_batch()? {
            None if self.row.is_some() => return Ok(None),
            None => self.batches.empty()?,
            Some(batch) => batch,
        };
        let first_row = self.row.unwrap_or(0);
        self.row = Some(first_row + batch.num_rows());
        Ok(Some(Table { path: self.file.path().to_owned(), batches: vec![batch], first_row }))
    }

    fn whole(mut self) -> Result<Table> {
        let mut whole = Table { path: self.file.path().to_owned(), batches: Vec::new(), first_row: 0 };
        while let Some(mut table) = self.next_table()? {
            whole.batches.append(&mut table.batches);
        }
        Ok(whole)
    }
}

impl Table {
    /// Reads `columns` of `path`.
    pub(crate) fn read(path: &Path, columns: &[&'static str]) -> Result<Table> {
        Reader::of(StreamFile::open_current(path)?, columns)?.whole()
    }

    /// Reads `columns` of the file of a stream with any version of the schema.
    pub(crate) fn read_stream(path: &Path, stream: &str, columns: &[&'static str]) -> Result<Table> {
        Reader::stream(path, stream, columns)?.whole()
    }

    /// Returns the path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the index of its first row in the file.
    pub(crate) fn first_row(&self) -> usize {
        self.first_row
    }

    fn rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// Returns the pieces of a column, converted by `typed`.
    fn pieces<'a, A>(
        &'a self,
        name: &str,
        want: &str,
        typed: impl Fn(&'a ArrayRef) -> Option<&'a A>,
    ) -> Result<Vec<&'a A>> {
        let piece = |batch: &'a RecordBatch| {
            let missing = || Error::data(&self.path, format!("it has no column \"{name}\""));
            let array = batch.column_by_name(name).ok_or_else(missing)?;
            typed(array).ok_or_else(|| {
                let what = format!(
                    "column \"{name}\" holds {:?}, not {want}; is this a stream of a pktgen run?",
                    array.data_type()
                );
                Error::data(&self.path, what)
            })
        };
        self.batches.iter().map(piece).collect()
    }

    fn numbers<T: ArrowPrimitiveType>(&self, name: &str) -> Result<Vec<&PrimitiveArray<T>>> {
        self.pieces(name, &format!("{:?}", T::DATA_TYPE), |array| array.as_primitive_opt::<T>())
    }

    /// Returns numbers that must be present.
    fn full<T: ArrowPrimitiveType>(&self, name: &str) -> Result<Vec<T::Native>> {
        let pieces = self.numbers::<T>(name)?;
        let empty: usize = pieces.iter().map(|piece| piece.null_count()).sum();
        if empty > 0 {
            return Err(Error::data(
                &self.path,
                format!("column \"{name}\" has {empty} empty values but must have none"),
            ));
        }
        let mut values = Vec::with_capacity(self.rows());
        pieces.iter().for_each(|piece| values.extend_from_slice(piece.values()));
        Ok(values)
    }

    /// Returns numbers that may be missing; `absent` replaces those.
    fn or<T: ArrowPrimitiveType>(&self, name: &str, absent: T::Native) -> Result<Vec<T::Native>> {
        let mut values = Vec::with_capacity(self.rows());
        for piece in self.numbers::<T>(name)? {
            match piece.null_count() {
                0 => values.extend_from_slice(piece.values()),
                n if n == piece.len() => values.resize(values.len() + n, absent),
                _ => values.extend(piece.iter().map(|value| value.unwrap_or(absent))),
            }
        }
        Ok(values)
    }

    fn or_none<T: ArrowPrimitiveType>(&self, name: &str) -> Result<Vec<Option<T::Native>>> {
        let mut values = Vec::with_capacity(self.rows());
        for piece in self.numbers::<T>(name)? {
            match piece.null_count() {
                0 => values.extend(piece.values().iter().map(|value| Some(*value))),
                _ => values.extend(piece.iter()),
            }
        }
        Ok(values)
    }
}

/// Defines getters that require a type and values in all rows.
macro_rules! getters {
    ($($name:ident: $native:ty, $kind:ty;)*) => {
        impl Table {
            $(pub(crate) fn $name(&self, name: &str) -> Result<Vec<$native>> {
                self.full::<$kind>(name)
            })*
        }
    };
}
getters! {
    i64: i64, Int64Type;
    u64: u64, UInt64Type;
    u32: u32, UInt32Type;
    u16: u16, UInt16Type;
    u8: u8, UInt8Type;
}

impl Table {
    /// Returns times that may be missing.
    pub(crate) fn i64_or_none(&self, name: &str) -> Result<Vec<Option<i64>>> {
        self.or_none::<Int64Type>(name)
    }

    /// Returns measures that may be missing.
    pub(crate) fn f32_or_none(&self, name: &str) -> Result<Vec<Option<f32>>> {
        self.or_none::<Float32Type>(name)
    }

    /// Returns numbers that may be missing; `absent` replaces those.
    pub(crate) fn u64_or(&self, name: &str, absent: u64) -> Result<Vec<u64>> {
        self.or::<UInt64Type>(name, absent)
    }

    /// Returns codes that may be missing; `absent` replaces those.
    pub(crate) fn u8_or(&self, name: &str, absent: u8) -> Result<Vec<u8>> {
        self.or::<UInt8Type>(name, absent)
    }

    /// Returns booleans that may be missing.
    pub(crate) fn bool_or_none(&self, name: &str) -> Result<Vec<Option<bool>>> {
        let pieces: Vec<&BooleanArray> = self.pieces(name, "Boolean", |array| array.as_boolean_opt())?;
        Ok(pieces.into_iter().flat_map(BooleanArray::iter).collect())
    }

    /// Returns booleans that must be present.
    pub(crate) fn bool(&self, name: &str) -> Result<Vec<bool>> {
        let answers: Option<Vec<bool>> = self.bool_or_none(name)?.into_iter().collect();
        answers.ok_or_else(|| Error::data(&self.path, format!("column \"{name}\" has empty values but must have none")))
    }

    /// Returns the cluster or job of each row.
    pub(crate) fn tenants(&self) -> Result<Vec<u16>> {
        let (clusters, jobs) = (self.numbers::<UInt16Type>("cluster")?, self.numbers::<UInt16Type>("job")?);
        let mut tenants = Vec::with_capacity(self.rows());
        for (clusters, jobs) in clusters.iter().zip(jobs) {
            match [clusters.null_count(), jobs.null_count()] {
                [0, _] => tenants.extend_from_slice(clusters.values()),
                [n, 0] if n == clusters.len() => tenants.extend_from_slice(jobs.values()),
                _ => {
                    let both = clusters.iter().zip(jobs.iter()).map(|(cluster, job)| cluster.or(job));
                    let both: Option<Vec<u16>> = both.collect();
                    let neither = || Error::data(&self.path, "a row has neither cluster nor job");
                    tenants.append(&mut both.ok_or_else(neither)?);
                }
            }
        }
        Ok(tenants)
    }

    /// Returns concatenated lists of numbers, and where each begins, with one more entry than rows.
    pub(crate) fn u32_lists(&self, name: &str) -> Result<(Vec<u32>, Vec<usize>)> {
        let want = "List(UInt32)";
        let lists = self.pieces(name, want, |array| {
            array.as_list_opt::<i32>().filter(|lists| lists.values().as_primitive_opt::<UInt32Type>().is_some())
        })?;
        let (mut values, mut starts) = (Vec::new(), vec![0]);
        for list in lists.into_iter().flat_map(|piece| piece.iter()) {
            let Some(list) = list else {
                return Err(Error::data(&self.path, format!("column \"{name}\" has empty values but must have none")));
            };
            values.extend_from_slice(list.as_primitive::<UInt32Type>().values());
            starts.push(values.len());
        }
        Ok((values, starts))
    }
}

/// Converts a polars error about data in memory.
pub(crate) fn polars_fault(doing: &str) -> impl FnOnce(PolarsError) -> Error {
    let doing = doing.to_owned();
    move |fault| Error::Invalid(format!("{doing} failed inside polars: {fault}; please report this"))
}

/// Writes `frame` to `path` as Parquet.
pub(crate) fn write(path: &Path, frame: &DataFrame) -> Result<()> {
    let batch = frame::batch(frame).map_err(polars_fault("encoding a table"))?;
    let broken = |fault| Error::Invalid(format!("encoding a table failed: {fault}; please report this"));
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default())).build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).map_err(broken)?;
    writer.write(&batch).map_err(broken)?;
    write_whole(path, writer.into_inner().map_err(broken)?).map(drop)
}
