//! Parquet files of other tools: our column names with any integer and float widths, some columns left out.

use std::path::PathBuf;

use super::columns::{Rows, strangers};
use super::sink::Sink;
use super::{ImportOptions, Importer, Notes};
use crate::Result;
use crate::registry::Named;
use crate::trace::read::open_parquet;

/// The importer.
pub struct Parquet;

impl Named for Parquet {
    fn name(&self) -> &'static str {
        "parquet"
    }
    fn about(&self) -> &'static str {
        "Parquet with the columns of a trace, in any width and order; optional columns may be absent"
    }
}

impl Importer for Parquet {
    fn extensions(&self) -> &'static [&'static str] {
        &["parquet", "pq"]
    }

    fn begins(&self, head: &[u8]) -> bool {
        head.starts_with(b"PAR1")
    }

    fn read(&self, inputs: &[PathBuf], options: &ImportOptions, sink: &mut Sink) -> Result<Notes> {
        let mut notes = Notes::new();
        for input in inputs {
            let mut ignored = Vec::new();
            let batches = open_parquet(input, |schema| {
                ignored = strangers(schema, input)?;
                Ok(())
            })?;
            let mut rows = Rows::new(input, options.bytes);
            for batch in batches {
                rows.push(&batch?, sink)?;
            }
            rows.note(ignored, &mut notes);
        }
        Ok(notes)
    }
}
