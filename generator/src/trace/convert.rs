//! Foreign files into traces: CSV with the header `t_ps,cluster,worker,seq,reward[,values…]`, and
//! Parquet with our column names and any widths.

use std::collections::BTreeMap;
use std::path::Path;

use super::foreign;
use super::manifest::{TraceManifest, file_hash};
use super::rules::Rules;
use super::write::{Writer, refuse_same};
use crate::wire::frame::{FRAME_MAX, HEAD};
use crate::wire::olaf::{FRAME_MIN, UPDATE_HEAD};
use crate::workload::Update;
use crate::{Error, Result};

/// The columns that a CSV file must begin with.
const CSV_COLUMNS: [&str; 5] = ["t_ps", "cluster", "worker", "seq", "reward"];

/// Takes converted updates: each is written and held against the rules of traces.
pub(super) struct Sink {
    writer: Writer,
    rules: Rules,
}

impl Sink {
    pub(super) fn push(&mut self, update: &Update, values: &[f32]) -> Result<()> {
        self.rules.update(update, values);
        self.writer.push(update, values)
    }
}

/// Converts `input` (by its extension) to the trace `output`. `bytes` is the frame size where neither a column nor
/// the values say it; with values, a frame has just the room that they need. A file that breaks a rule of
/// [`check`](super::check) is refused, and nothing stays behind.
pub fn convert(input: &Path, output: &Path, bytes: u32, licence: &str) -> Result<TraceManifest> {
    refuse_same(input, output)?;
    let extension = input.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    if !["csv", "parquet"].contains(&extension.as_str()) {
        return Err(Error::data(
            input,
            format!("the extension \"{extension}\" is not one that is converted; there are: csv, parquet"),
        ));
    }
    let mut details = BTreeMap::from([
        ("from".to_owned(), input.file_name().unwrap_or_default().to_string_lossy().into_owned()),
        ("from_sha256".to_owned(), file_hash(input)?),
    ]);
    let mut sink = Sink { writer: Writer::create(output)?, rules: Rules::default() };
    if extension == "csv" {
        from_csv(input, bytes, &mut sink)?;
    } else {
        let ignored = foreign::read(input, bytes, &mut sink)?;
        if !ignored.is_empty() {
            details.insert("ignored_columns".to_owned(), ignored.join(", "));
        }
    }
    let (_, problems) = sink.rules.finish();
    if !problems.is_empty() {
        return Err(Error::data(input, format!("{}; rows count from 0, without a header", problems.join("; "))));
    }
    sink.writer.finish("converted", details, licence)
}

fn from_csv(input: &Path, bytes: u32, sink: &mut Sink) -> Result<()> {
    let at = |line: u64, what: String| Error::data(input, format!("line {line}: {what}"));
    let mut reader = csv::ReaderBuilder::new()
        .flexible(true)
        .trim(csv::Trim::All)
        .from_path(input)
        .map_err(|e| Error::data(input, format!("cannot be read: {e}")))?;
    let header = reader.headers().map_err(|e| Error::data(input, format!("no header: {e}")))?.clone();
    if header.len() < CSV_COLUMNS.len() || CSV_COLUMNS.iter().zip(&header).any(|(want, got)| *want != got) {
        return Err(at(
            1,
            format!(
                "the header is \"{}\"; it must begin with {}",
                header.iter().collect::<Vec<_>>().join(","),
                CSV_COLUMNS.join(",")
            ),
        ));
    }
    for record in reader.records() {
        let record = record.map_err(|e| Error::data(input, e.to_string()))?;
        let line = record.position().map_or(0, csv::Position::line);
        let field = |i: usize| {
            record.get(i).ok_or_else(|| {
                at(line, format!("{} columns; there must be at least {}", record.len(), CSV_COLUMNS.len()))
            })
        };
        fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
            text.parse().map_err(|_| format!("\"{text}\" is not a number in range"))
        }
        let named =
            |i: usize, e: String| at(line, format!("column {}: {e}", CSV_COLUMNS.get(i).copied().unwrap_or("values")));
        let values: Vec<f32> = (CSV_COLUMNS.len()..record.len())
            .map(|i| number(&record[i]).map_err(|e| named(i, e)))
            .collect::<Result<_>>()?;
        let reward = field(4)?;
        let update = Update {
            t_gen: number(field(0)?).map_err(|e| named(0, e))?,
            cluster: number(field(1)?).map_err(|e| named(1, e))?,
            worker: number(field(2)?).map_err(|e| named(2, e))?,
            seq: number(field(3)?).map_err(|e| named(3, e))?,
            bytes: frame_for(values.len(), bytes).map_err(|e| at(line, e))?,
            reward: if reward.is_empty() { None } else { Some(number(reward).map_err(|e| named(4, e))?) },
            iteration: None,
        };
        sink.push(&update, &values)?;
    }
    Ok(())
}

/// The frame that `values` need, or `bytes` without any.
pub(super) fn frame_for(values: usize, bytes: u32) -> Result<u32, String> {
    let wanted = if values == 0 { bytes as usize } else { HEAD + UPDATE_HEAD + 4 * values };
    if (FRAME_MIN..=FRAME_MAX).contains(&wanted) {
        Ok(wanted as u32)
    } else {
        Err(format!("{values} values need a frame of {wanted} bytes; frames have {FRAME_MIN} to {FRAME_MAX}"))
    }
}

#[cfg(test)]
#[path = "convert_tests.rs"]
mod tests;
