//! Output of answers as text, JSON lines, CSV, Parquet or an Arrow stream. Integers are exact in all formats, and empty cells are empty.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use pktgen_core::arrow::array::RecordBatch;
use pktgen_core::arrow::error::ArrowError;
use pktgen_core::arrow::ipc::writer::StreamWriter;
use pktgen_core::printable::one_line;
use pktgen_core::{Error, Result};
use pktgen_records::frame::batch;
use polars::prelude::*;
use serde_json::Value;

use crate::source::broken;

/// Number of rows written at a time.
const ROWS: usize = 1 << 14;
/// Number of rows that determine the width of columns of text.
const MEASURED: usize = 1000;

/// Output format of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerForm {
    /// Aligned columns, for people.
    Table,
    /// One JSON object per row.
    Jsonl,
    /// Comma-separated, with a header; ambiguous texts are quoted.
    Csv,
    /// Parquet, compressed with Zstandard.
    Parquet,
    /// An Arrow IPC stream.
    Arrow,
}

impl AnswerForm {
    /// All formats.
    pub const ALL: [AnswerForm; 5] =
        [AnswerForm::Table, AnswerForm::Jsonl, AnswerForm::Csv, AnswerForm::Parquet, AnswerForm::Arrow];

    /// Returns its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            AnswerForm::Table => "table",
            AnswerForm::Jsonl => "jsonl",
            AnswerForm::Csv => "csv",
            AnswerForm::Parquet => "parquet",
            AnswerForm::Arrow => "arrow",
        }
    }
}

/// The result of a query.
#[derive(Debug, Clone)]
pub struct QueryAnswer(pub(crate) DataFrame);

impl QueryAnswer {
    /// Converts to the types that are written: 64-bit integers, double precision, text, booleans.
    pub(crate) fn of(frame: DataFrame) -> Result<QueryAnswer> {
        let rows = frame.height();
        let cell = |column: &Column| {
            let to = match column.dtype() {
                DataType::UInt64 | DataType::Int64 | DataType::Float64 | DataType::String | DataType::Boolean => {
                    return Ok(column.clone());
                }
                integer if integer.is_integer() => DataType::Int64,
                float if float.is_float() => DataType::Float64,
                DataType::Decimal(..) => DataType::Float64,
                DataType::Null => DataType::String,
                DataType::List(_) => {
                    let name = column.name();
                    return Err(Error::config(format!(
                        "SQL: the column \"{name}\" of the answer has all values of each group: GROUP BY its columns, or aggregate them (MIN(x))"
                    )));
                }
                other => {
                    let name = column.name();
                    return Err(Error::config(format!(
                        "SQL: the column \"{name}\" of the answer is {other:?}: CAST it to BIGINT, DOUBLE or TEXT"
                    )));
                }
            };
            column.strict_cast(&to).map_err(broken)
        };
        let columns = frame.columns().iter().map(cell).collect::<Result<Vec<_>>>()?;
        Ok(QueryAnswer(DataFrame::new(rows, columns).map_err(broken)?))
    }

    /// Returns the names of its columns.
    pub fn columns(&self) -> Vec<&str> {
        self.0.columns().iter().map(|column| column.name().as_str()).collect()
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.0.height()
    }

    /// Whether a column contains numbers.
    pub(crate) fn is_number(&self, column: usize) -> bool {
        self.0.columns().get(column).is_some_and(|column| column.dtype().is_primitive_numeric())
    }

    /// Returns a cell.
    pub fn cell(&self, row: usize, column: usize) -> Value {
        let Some(Ok(value)) = self.0.columns().get(column).map(|column| column.get(row)) else { return Value::Null };
        match value {
            AnyValue::Boolean(value) => value.into(),
            AnyValue::String(value) => value.into(),
            AnyValue::StringOwned(value) => value.as_str().into(),
            AnyValue::Int64(value) => value.into(),
            AnyValue::UInt64(value) => value.into(),
            // Values that are not finite become null in JSON.
            AnyValue::Float64(value) => value.into(),
            _ => Value::Null,
        }
    }

    /// Writes the answer.
    pub fn write(&self, form: AnswerForm, out: &mut dyn Write) -> io::Result<()> {
        match form {
            AnswerForm::Table => self.table(out),
            AnswerForm::Jsonl => self.lines(out),
            AnswerForm::Csv => self.csv(out),
            AnswerForm::Parquet => {
                let level = ZstdLevel::try_new(1).map_err(io::Error::other)?;
                let properties = WriterProperties::builder().set_compression(Compression::ZSTD(level)).build();
                let mut file = Vec::new();
                let mut writer = ArrowWriter::try_new(&mut file, self.batch(0)?.schema(), Some(properties))
                    .map_err(io::Error::other)?;
                for from in self.slices() {
                    writer.write(&self.batch(from)?).map_err(io::Error::other)?;
                }
                writer.close().map_err(io::Error::other)?;
                out.write_all(&file)
            }
            AnswerForm::Arrow => {
                let mut writer = StreamWriter::try_new(out, &self.batch(0)?.schema()).map_err(of_output)?;
                for from in self.slices() {
                    writer.write(&self.batch(from)?).map_err(of_output)?;
                }
                writer.finish().map_err(of_output)
            }
        }
    }

    fn slices(&self) -> impl Iterator<Item = usize> {
        (0..self.rows()).step_by(ROWS)
    }

    fn batch(&self, from: usize) -> io::Result<RecordBatch> {
        batch(&self.0.slice(from as i64, ROWS)).map_err(io::Error::other)
    }

    fn cells(&self, row: usize) -> impl Iterator<Item = Value> {
        (0..self.0.width()).map(move |column| self.cell(row, column))
    }

    fn lines(&self, out: &mut dyn Write) -> io::Result<()> {
        let names: Arc<[String]> = self.columns().into_iter().map(|name| Value::from(name).to_string()).collect();
        for row in 0..self.rows() {
            for (column, (name, cell)) in names.iter().zip(self.cells(row)).enumerate() {
                write!(out, "{}{name}:{cell}", if column == 0 { '{' } else { ',' })?;
            }
            out.write_all(if names.is_empty() { b"{}\n" } else { b"}\n" })?;
        }
        Ok(())
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        let quoted = |text: &str| {
            let plain = !text.is_empty() && !text.contains(['"', ',', '\n', '\r']);
            if plain { text.to_owned() } else { format!("\"{}\"", text.replace('"', "\"\"")) }
        };
        // Readers skip blank lines.
        let empty = if self.0.width() == 1 { "\"\"" } else { "" };
        let text = |cell: Value| match cell {
            Value::Null => empty.to_owned(),
            Value::String(text) => quoted(&text),
            other => other.to_string(),
        };
        writeln!(out, "{}", self.columns().into_iter().map(quoted).collect::<Vec<_>>().join(","))?;
        for row in 0..self.rows() {
            writeln!(out, "{}", self.cells(row).map(text).collect::<Vec<_>>().join(","))?;
        }
        Ok(())
    }

    /// Writes aligned columns, numbers right-aligned and texts left-aligned; wide cells beyond the first rows shift the
    /// rest of their line.
    fn table(&self, out: &mut dyn Write) -> io::Result<()> {
        let text = |cell: Value| match cell {
            Value::Null => "-".to_owned(),
            Value::String(text) => one_line(&text),
            other => other.to_string(),
        };
        let names: Vec<String> = self.columns().into_iter().map(one_line).collect();
        let left: Vec<bool> = self.0.columns().iter().map(|column| column.dtype().is_string()).collect();
        let mut widths: Vec<usize> = names.iter().map(|name| name.chars().count()).collect();
        for row in 0..self.rows().min(MEASURED) {
            for (width, cell) in widths.iter_mut().zip(self.cells(row)) {
                *width = (*width).max(text(cell).chars().count());
            }
        }
        let mut line = |cells: &mut dyn Iterator<Item = String>| {
            let padded = cells.zip(&widths).zip(&left).map(|((cell, width), left)| match left {
                true => format!("{cell:<width$}"),
                false => format!("{cell:>width$}"),
            });
            let padded = padded.collect::<Vec<_>>().join("  ");
            writeln!(out, "{}", padded.trim_end())
        };
        line(&mut names.iter().cloned())?;
        line(&mut widths.iter().map(|width| "-".repeat(*width)))?;
        (0..self.rows()).try_for_each(|row| line(&mut self.cells(row).map(text)))
    }
}

/// Returns the error of the output itself: a closed pipe is known by its kind.
fn of_output(fault: ArrowError) -> io::Error {
    match fault {
        ArrowError::IoError(_, fault) => fault,
        other => io::Error::other(other),
    }
}

#[cfg(test)]
mod tests {
    use pktgen_core::arrow::array::{Array as _, Float64Array};

    use super::*;

    fn answer() -> QueryAnswer {
        let frame = DataFrame::new_infer_height(vec![
            Column::new("id".into(), [Some(u64::MAX), None]),
            Column::new("t".into(), [i64::MIN, 7]),
            Column::new("x".into(), [0.1f64, f64::INFINITY]),
            Column::new("n".into(), [1u32, 2]),
            Column::new("text".into(), [Some("a,\"b\"\n\u{1b}"), Some("")]),
        ]);
        QueryAnswer::of(frame.unwrap()).unwrap()
    }

    fn written(form: AnswerForm) -> String {
        let mut out = Vec::new();
        answer().write(form, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn integers_are_exact_and_empty_cells_are_empty() {
        assert_eq!(
            written(AnswerForm::Jsonl),
            "{\"id\":18446744073709551615,\"t\":-9223372036854775808,\"x\":0.1,\"n\":1,\"text\":\"a,\\\"b\\\"\\n\\u001b\"}\n\
             {\"id\":null,\"t\":7,\"x\":null,\"n\":2,\"text\":\"\"}\n"
        );
        assert_eq!(
            written(AnswerForm::Csv),
            "id,t,x,n,text\n18446744073709551615,-9223372036854775808,0.1,1,\"a,\"\"b\"\"\n\u{1b}\"\n,7,,2,\"\"\n"
        );
        // Numbers that are not finite are empty as text only.
        let batch = answer().batch(0).unwrap();
        let numbers = batch.column_by_name("x").unwrap().as_any().downcast_ref::<Float64Array>().unwrap();
        assert_eq!((numbers.null_count(), numbers.value(1)), (0, f64::INFINITY));
        let table = written(AnswerForm::Table);
        assert_eq!(table.lines().count(), 4, "{table}");
        assert!(table.lines().all(|line| !line.contains('\u{1b}')), "{table}");
        assert!(table.lines().nth(3).unwrap().trim_start().starts_with('-'), "{table}");
    }

    struct ClosedPipe;

    impl Write for ClosedPipe {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn closed_pipes_are_known_in_every_form() {
        for form in AnswerForm::ALL {
            let fault = answer().write(form, &mut ClosedPipe).unwrap_err();
            assert_eq!(fault.kind(), io::ErrorKind::BrokenPipe, "{form:?}");
        }
    }

    /// A blank line would be no row.
    #[test]
    fn empty_cells_of_one_column_are_rows_of_csv() {
        let frame = DataFrame::new_infer_height(vec![Column::new("x".into(), [Some(1i64), None, Some(2)])]).unwrap();
        let mut out = Vec::new();
        QueryAnswer::of(frame).unwrap().write(AnswerForm::Csv, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "x\n1\n\"\"\n2\n");
    }

    #[test]
    fn what_has_no_form_is_refused_with_a_remedy() {
        let list = Series::new("x".into(), [1i64]).implode().unwrap().into_series().into_column();
        let refused = QueryAnswer::of(DataFrame::new_infer_height(vec![list]).unwrap()).unwrap_err().to_string();
        assert!(refused.contains("the column \"x\"") && refused.contains("aggregate them (MIN(x))"), "{refused}");
        let days = Column::new("d".into(), [1i32]).cast(&DataType::Date).unwrap();
        let refused = QueryAnswer::of(DataFrame::new_infer_height(vec![days]).unwrap()).unwrap_err().to_string();
        assert!(refused.contains("the column \"d\"") && refused.contains("CAST"), "{refused}");
    }
}
