//! A Parquet file as read by this workspace: opened once, checked, and decoded by columns and row groups.
//!
//! Called by [`crate::table`] and by queries. Anything wrong with a file written by another program that its footer
//! reveals becomes an error message here.

use std::fs::File;
use std::path::{Path, PathBuf};

use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::file::metadata::ParquetMetaData;
use pktgen_core::arrow::array::{RecordBatch, RecordBatchReader};
use pktgen_core::arrow::datatypes::Schema;
use pktgen_core::record::Edition;
use pktgen_core::regular::check_regular;
use pktgen_core::{Error, Result, footer, quiet};

type EditionOf<'a> = &'a dyn Fn(&Schema) -> std::result::Result<Edition, String>;

/// A Parquet file with its footer.
#[derive(Debug)]
pub struct StreamFile {
    path: PathBuf,
    edition: Edition,
    metadata: ArrowReaderMetadata,
}

/// Some columns of a [`StreamFile`], read batch by batch.
pub struct StreamBatches {
    path: PathBuf,
    columns: Vec<&'static str>,
    edition: Edition,
    batches: ParquetRecordBatchReader,
}

fn gave_up(path: &Path) -> Error {
    Error::data(path, "the Parquet decoder gave up: the file is damaged; run the experiment again")
}

fn torn(fault: &dyn std::fmt::Display) -> String {
    format!("it is not a complete Parquet file ({fault}); was the run killed while writing it?")
}

impl StreamFile {
    /// Opens the file of a stream with any version of the schema.
    pub fn open(path: &Path, stream: &str) -> Result<StreamFile> {
        StreamFile::open_as(path, &|schema| Edition::of(path, stream, schema))
    }

    /// Opens a file that is not a stream.
    pub(crate) fn open_current(path: &Path) -> Result<StreamFile> {
        StreamFile::open_as(path, &|_| Ok(Edition::CURRENT))
    }

    fn open_as(path: &Path, edition: EditionOf) -> Result<StreamFile> {
        check_regular(path)?;
        let file = File::open(path).map_err(Error::io("read", path))?;
        footer::check(&file, path, footer::OUR_ROWS)?;
        let loaded = quiet::attempt(|| ArrowReaderMetadata::load(&file, Default::default()));
        let metadata = loaded.ok_or_else(|| gave_up(path))?.map_err(|fault| Error::data(path, torn(&fault)))?;
        let edition = edition(metadata.schema()).map_err(|fault| Error::data(path, fault))?;
        Ok(StreamFile { path: path.to_owned(), edition, metadata })
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the number of rows according to the footer.
    pub fn rows(&self) -> usize {
        usize::try_from(self.metadata.metadata().file_metadata().num_rows()).unwrap_or(0)
    }

    /// Returns the footer with the metadata of row groups.
    pub fn footer(&self) -> &ParquetMetaData {
        self.metadata.metadata()
    }

    /// Returns the schema of the file.
    pub fn schema(&self) -> &Schema {
        self.metadata.schema()
    }

    /// Whether `column` is a column of the file that is read unchanged.
    pub fn has(&self, column: &str) -> bool {
        self.edition.sources(&[column]) == [column] && self.schema().index_of(column).is_ok()
    }

    /// Decodes `columns` of one row group or of all, `rows` rows at a time.
    pub fn read(&self, columns: &[&'static str], group: Option<usize>, rows: usize) -> Result<StreamBatches> {
        let place = |name: &&str| {
            let missing = |_| {
                Error::data(&self.path, format!("a column is missing (\"{name}\"); is this a stream of a pktgen run?"))
            };
            self.schema().index_of(name).map_err(missing)
        };
        let places = self.edition.sources(columns).iter().map(place).collect::<Result<Vec<_>>>()?;
        // A separate descriptor, since clones share the position in the file.
        let file = File::open(&self.path).map_err(Error::io("read", &self.path))?;
        let begin = || {
            let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone());
            let mask = ProjectionMask::roots(builder.parquet_schema(), places);
            let builder = builder.with_projection(mask).with_batch_size(rows);
            match group {
                Some(group) => builder.with_row_groups(vec![group]).build(),
                None => builder.build(),
            }
        };
        let batches = quiet::attempt(begin).ok_or_else(|| gave_up(&self.path))?;
        let batches = batches.map_err(|fault| Error::data(&self.path, torn(&fault)))?;
        Ok(StreamBatches { path: self.path.clone(), columns: columns.to_vec(), edition: self.edition, batches })
    }
}

impl StreamBatches {
    /// Returns the next batch; `None` at the end.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        // The decoder panics on some corrupt pages; a damaged file must not end the program.
        let next = quiet::attempt(|| self.batches.next()).ok_or_else(|| gave_up(&self.path))?;
        let Some(batch) = next else { return Ok(None) };
        self.of(batch.map_err(|fault| Error::data(&self.path, torn(&fault)))?).map(Some)
    }

    /// Returns a batch without rows.
    pub(crate) fn empty(&self) -> Result<RecordBatch> {
        self.of(RecordBatch::new_empty(self.batches.schema()))
    }

    fn of(&self, batch: RecordBatch) -> Result<RecordBatch> {
        self.edition.read(batch, &self.columns).map_err(|fault| Error::data(&self.path, fault.to_string()))
    }
}
