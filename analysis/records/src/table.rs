//! Reading Parquet files into plain columns, and writing metric lines as a table.
//!
//! Called by [`crate::run`] for the streams. Everything that can be wrong with a file that
//! another program wrote (truncated, other columns, other types, nulls) becomes a message here.

use std::fs::File;
use std::path::{Path, PathBuf};

use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::arrow::{ArrowWriter, ProjectionMask};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use pktgen_core::arrow::array::{RecordBatch, RecordBatchReader};
use pktgen_core::arrow::datatypes::Schema;
use pktgen_core::record::Edition;
use pktgen_core::regular::check_regular;
use pktgen_core::whole::write_whole;
use pktgen_core::{Error, Result, footer, quiet};
use polars::prelude::*;

use crate::frame;

/// Rows that are decoded at a time.
const ROWS: usize = 1 << 16;

/// The projected columns of one Parquet file.
pub(crate) struct Table {
    path: PathBuf,
    frame: DataFrame,
}

impl Table {
    /// Reads `columns` of `path`.
    pub(crate) fn read(path: &Path, columns: &[&str]) -> Result<Table> {
        Table::read_with(path, columns, |_| Ok(Edition::CURRENT))
    }

    /// Reads `columns` of the file of a stream, whatever version of the schema it has.
    pub(crate) fn read_stream(path: &Path, stream: &str, columns: &[&str]) -> Result<Table> {
        Table::read_with(path, columns, |schema| Edition::of(path, stream, schema))
    }

    fn read_with(
        path: &Path,
        columns: &[&str],
        edition: impl Fn(&Schema) -> std::result::Result<Edition, String>,
    ) -> Result<Table> {
        check_regular(path)?;
        let file = File::open(path).map_err(Error::io("read", path))?;
        footer::check(&file, path, footer::OUR_ROWS)?;
        // The decoder asserts on some corrupt pages; a damaged file must not end the program.
        let gave_up =
            || Error::data(path, "the Parquet decoder gave up: the file is damaged; run the experiment again");
        let decoded = quiet::attempt(|| decode(file, columns, edition)).ok_or_else(gave_up)?;
        let frame = decoded.map_err(|fault| Error::data(path, fault))?;
        Ok(Table { path: path.to_owned(), frame })
    }

    /// The file that was read.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn column(&self, name: &str) -> Result<&Column> {
        self.frame.column(name).map_err(|_| Error::data(&self.path, format!("it has no column \"{name}\"")))
    }

    fn wrong_type(&self, name: &str, want: &str) -> Error {
        let found = self.frame.column(name).map(|column| format!("{:?}", column.dtype())).unwrap_or_default();
        Error::data(
            &self.path,
            format!("column \"{name}\" holds {found}, not {want}; is this a stream of a pktgen run?"),
        )
    }

    fn full<T: PolarsNumericType>(&self, name: &str, chunked: &ChunkedArray<T>) -> Result<Vec<T::Native>> {
        if chunked.null_count() > 0 {
            let what = format!("column \"{name}\" has {} empty values but must have none", chunked.null_count());
            return Err(Error::data(&self.path, what));
        }
        let mut values = Vec::with_capacity(chunked.len());
        for chunk in chunked.downcast_iter() {
            values.extend_from_slice(chunk.values());
        }
        Ok(values)
    }
}

impl Table {
    /// Lists of numbers, one after the other, and where each begins; one longer than the rows.
    pub(crate) fn u32_lists(&self, name: &str) -> Result<(Vec<u32>, Vec<usize>)> {
        let wrong = || self.wrong_type(name, "List(UInt32)");
        let lists = self.column(name)?.list().map_err(|_| wrong())?;
        let (mut values, mut starts) = (Vec::new(), vec![0]);
        for row in 0..lists.len() {
            let list = lists.get_as_series(row).ok_or_else(wrong)?;
            let list = list.u32().map_err(|_| wrong())?;
            list.downcast_iter().for_each(|chunk| values.extend_from_slice(chunk.values()));
            starts.push(values.len());
        }
        Ok((values, starts))
    }
}

/// Getters that insist on a type and on values everywhere.
macro_rules! getters {
    ($($name:ident: $native:ty, $want:literal;)*) => {
        impl Table {
            $(pub(crate) fn $name(&self, name: &str) -> Result<Vec<$native>> {
                let column = self.column(name)?;
                let chunked = column.$name().map_err(|_| self.wrong_type(name, $want))?;
                self.full(name, chunked)
            })*
        }
    };
}
getters! {
    i64: i64, "Int64";
    u64: u64, "UInt64";
    u32: u32, "UInt32";
    u16: u16, "UInt16";
    u8: u8, "UInt8";
}

impl Table {
    /// Times that may be absent.
    pub(crate) fn i64_or_none(&self, name: &str) -> Result<Vec<Option<i64>>> {
        let chunked = self.column(name)?.i64().map_err(|_| self.wrong_type(name, "Int64"))?;
        Ok(chunked.iter().collect())
    }

    /// Numbers that may be absent; `absent` stands for those.
    pub(crate) fn u64_or(&self, name: &str, absent: u64) -> Result<Vec<u64>> {
        let chunked = self.column(name)?.u64().map_err(|_| self.wrong_type(name, "UInt64"))?;
        Ok(chunked.iter().map(|value| value.unwrap_or(absent)).collect())
    }

    /// Measures that may be absent.
    pub(crate) fn f32_or_none(&self, name: &str) -> Result<Vec<Option<f32>>> {
        let chunked = self.column(name)?.f32().map_err(|_| self.wrong_type(name, "Float32"))?;
        Ok(chunked.iter().collect())
    }

    /// Answers that may be absent.
    pub(crate) fn bool_or_none(&self, name: &str) -> Result<Vec<Option<bool>>> {
        let chunked = self.column(name)?.bool().map_err(|_| self.wrong_type(name, "Boolean"))?;
        Ok(chunked.iter().collect())
    }

    /// Answers that must be given.
    pub(crate) fn bool(&self, name: &str) -> Result<Vec<bool>> {
        let answers: Option<Vec<bool>> = self.bool_or_none(name)?.into_iter().collect();
        answers.ok_or_else(|| Error::data(&self.path, format!("column \"{name}\" has empty values but must have none")))
    }

    fn numbers(&self, name: &str) -> Result<&UInt16Chunked> {
        self.column(name)?.u16().map_err(|_| self.wrong_type(name, "UInt16"))
    }

    /// The cluster or job of each row.
    pub(crate) fn tenants(&self) -> Result<Vec<u16>> {
        let (clusters, jobs) = (self.numbers("cluster")?, self.numbers("job")?);
        let tenants: Option<_> = clusters.iter().zip(jobs.iter()).map(|(cluster, job)| cluster.or(job)).collect();
        tenants.ok_or_else(|| Error::data(&self.path, "a row has neither cluster nor job"))
    }

    /// Codes that may be absent; `absent` stands for those.
    pub(crate) fn u8_or(&self, name: &str, absent: u8) -> Result<Vec<u8>> {
        let chunked = self.column(name)?.u8().map_err(|_| self.wrong_type(name, "UInt8"))?;
        Ok(chunked.iter().map(|value| value.unwrap_or(absent)).collect())
    }
}

/// The rows of a Parquet file, of `columns`; `edition` says how its schema is read.
pub(crate) fn decode(
    file: File,
    columns: &[&str],
    edition: impl FnOnce(&Schema) -> std::result::Result<Edition, String>,
) -> std::result::Result<DataFrame, String> {
    let torn = |fault: &dyn std::fmt::Display| {
        format!("it is not a complete Parquet file ({fault}); was the run killed while writing it?")
    };
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|fault| torn(&fault))?;
    let place = |name: &&str| {
        let missing = |_| format!("a column is missing (\"{name}\"); is this a stream of a pktgen run?");
        builder.schema().index_of(name).map_err(missing)
    };
    let edition = edition(builder.schema())?;
    let sources = edition.sources(columns);
    let places = sources.iter().map(place).collect::<std::result::Result<Vec<_>, _>>()?;
    let mask = ProjectionMask::roots(builder.parquet_schema(), places);
    let batches = builder.with_projection(mask).with_batch_size(ROWS).build().map_err(|fault| torn(&fault))?;
    let empty = batches.schema();
    let mut whole = None::<DataFrame>;
    for batch in batches {
        let batch = edition.read(batch.map_err(|fault| torn(&fault))?, columns).map_err(|fault| fault.to_string())?;
        let frame = frame::frame(batch).map_err(|fault| fault.to_string())?;
        match &mut whole {
            Some(whole) => whole.vstack_mut_owned(frame).map(drop).map_err(|fault| fault.to_string())?,
            None => whole = Some(frame),
        }
    }
    let none = || {
        let none = edition.read(RecordBatch::new_empty(empty), columns).map_err(|fault| fault.to_string())?;
        frame::frame(none).map_err(|fault| fault.to_string())
    };
    whole.map_or_else(none, Ok)
}

/// Turns a polars error about data in memory into ours.
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
