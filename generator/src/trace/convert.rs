//! Foreign files into traces: CSV with the header `t_ps,cluster,worker,seq,reward[,values…]`, and
//! Parquet with our column names.

use std::collections::BTreeMap;
use std::path::Path;

use super::manifest::{TraceManifest, file_hash};
use super::read::Reader;
use super::write::Writer;
use crate::wire::frame::{FRAME_MAX, HEAD};
use crate::wire::olaf::{FRAME_MIN, UPDATE_HEAD};
use crate::workload::Update;
use crate::{Error, Result};

/// The columns that a CSV file must begin with.
const CSV_COLUMNS: [&str; 5] = ["t_ps", "cluster", "worker", "seq", "reward"];

/// Converts `input` (by its extension) to the trace `output`. `bytes` is the frame size where the
/// values do not say; with values, a frame has just the room that they need.
pub fn convert(input: &Path, output: &Path, bytes: u32, licence: &str) -> Result<TraceManifest> {
    let details = BTreeMap::from([
        ("from".to_owned(), input.file_name().unwrap_or_default().to_string_lossy().into_owned()),
        ("from_sha256".to_owned(), file_hash(input)?),
    ]);
    let writer = Writer::create(output)?;
    let extension = input.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    let filled = match extension.as_str() {
        "csv" => from_csv(input, writer, bytes),
        "parquet" => from_parquet(input, writer),
        other => Err(Error::data(
            input,
            format!("the extension \"{other}\" is not one that is converted; there are: csv, parquet"),
        )),
    };
    match filled {
        Ok(writer) => writer.finish("converted", details, licence),
        Err(e) => {
            // Nothing half-made stays behind; the error is what matters if this fails too.
            let mut partial = output.as_os_str().to_owned();
            partial.push(".partial");
            let _ = std::fs::remove_file(partial);
            Err(e)
        }
    }
}

fn from_csv(input: &Path, mut writer: Writer, bytes: u32) -> Result<Writer> {
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
        writer.push(&update, &values)?;
    }
    Ok(writer)
}

/// The frame that `values` need, or `bytes` without any.
fn frame_for(values: usize, bytes: u32) -> Result<u32, String> {
    let wanted = if values == 0 { bytes as usize } else { HEAD + UPDATE_HEAD + 4 * values };
    if (FRAME_MIN..=FRAME_MAX).contains(&wanted) {
        Ok(wanted as u32)
    } else {
        Err(format!("{values} values need a frame of {wanted} bytes; frames have {FRAME_MIN} to {FRAME_MAX}"))
    }
}

fn from_parquet(input: &Path, mut writer: Writer) -> Result<Writer> {
    let mut reader = Reader::open(input)?;
    while let Some(block) = reader.next_block()? {
        for (i, update) in block.updates.iter().enumerate() {
            writer.push(update, block.values(i))?;
        }
    }
    Ok(writer)
}
