//! Reads tables of any format batch by batch: Parquet, Arrow files and Arrow streams. Damage is reported as an error,
//! even if the decoder panics.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use pktgen_core::arrow::array::{RecordBatch, RecordBatchReader};
use pktgen_core::arrow::datatypes::SchemaRef;
use pktgen_core::arrow::error::ArrowError;
use pktgen_core::arrow::ipc::reader::{FileReader, StreamReader};
use pktgen_core::{Error, Result, footer, quiet};

/// Number of rows in memory at a time.
const ROWS: usize = 1 << 12;

type Decoder = Box<dyn RecordBatchReader>;

/// A table being read.
pub struct Batches {
    path: PathBuf,
    decoder: Decoder,
}

impl Batches {
    /// Opens a table; the extension of its name determines the format.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(Error::io("open", path))?;
        let form = path.extension().unwrap_or_default();
        if form == "parquet" {
            footer::check(&file, path, footer::OUR_ROWS)?;
        }
        let open = || -> std::result::Result<Decoder, String> {
            if form == "parquet" {
                let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|e| e.to_string())?;
                Ok(Box::new(builder.with_batch_size(ROWS).build().map_err(|e| e.to_string())?))
            } else if form == "arrow" {
                Ok(Box::new(FileReader::try_new(file, None).map_err(|e| e.to_string())?))
            } else {
                Ok(Box::new(StreamReader::try_new(BufReader::new(file), None).map_err(|e| e.to_string())?))
            }
        };
        let decoder = quiet::attempt(open).unwrap_or_else(|| Err("the decoder gave up".to_owned()));
        let decoder = decoder.map_err(|error| Error::data(path, format!("it is no whole table: {error}")))?;
        Ok(Batches { path: path.to_owned(), decoder })
    }

    /// Returns the columns, which a table without rows has, too.
    pub fn schema(&self) -> SchemaRef {
        self.decoder.schema()
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the next batch; `None` at the end.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let decoder = &mut self.decoder;
        let gave_up = || Some(Err(ArrowError::IpcError("the decoder gave up".to_owned())));
        let next = quiet::attempt(|| decoder.next()).unwrap_or_else(gave_up);
        next.transpose()
            .map_err(|error| Error::data(&self.path, format!("damaged behind its last whole batch: {error}")))
    }
}
