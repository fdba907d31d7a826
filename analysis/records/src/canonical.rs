//! The canonical form of a run (docs/dump.md): streams, metrics and verdict as sorted lines, for comparing two versions.
//!
//! Called by the CLI's `dump`. It does not depend on the order of columns or rows in files.

use std::cmp::Ordering;
use std::io::{Write, sink};
use std::path::Path;
use std::sync::Arc;

use pktgen_core::arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, RecordBatch};
use pktgen_core::arrow::compute::concat_batches;
use pktgen_core::arrow::datatypes::{Field, Schema, UInt16Type, UInt32Type};
use pktgen_core::arrow::error::ArrowError;
use pktgen_core::record::digest::{Hashing, verify_run};
use pktgen_core::record::{
    Action, BOOKS, CONTROLS, Edition, Heat, ITERATIONS, LANES, Manifest, NAMES, PAYLOADS, RECEIVED, RESULTS, Reason,
    SENT, STAMPS, STATES, SumOk, Validity,
};
use pktgen_core::{Error, Result};
use pktgen_workload::study::TIMES;
use serde::Serialize;
use serde_json::Value;

mod cells;

use crate::batches::Batches;
use crate::canonical::cells::cells;
use crate::line::Line;
use crate::resolved::{Analysis, Options};
use crate::run::{has_ended, read_json};

/// The streams and their columns, in the order of output and sorting. The layout stays the same when the record schema
/// changes; [`RENAMED`] maps newer names to these.
const LAYOUT: [(&str, &[&str]); 11] = [
    (SENT, &["t_gen_ps", "t_due_ps", "t_sent_ps", "cluster", "worker", "seq", "attempt", "block", "bytes", "reward"]),
    (BOOKS, &["t_ps", "node", "packet_in", "action", "packet_out", "reason"]),
    (
        RECEIVED,
        &[
            "t_recv_ps",
            "packet",
            "cluster",
            "newest_worker",
            "newest_seq",
            "newest_gen_ps",
            "count",
            "bytes",
            "reward",
            "accepted",
            "sum_ok",
            "node",
            "digest",
        ],
    ),
    (STATES, &["t_ps", "worker", "active", "capacity", "occupancy", "ack_age_ps", "p_send", "sent"]),
    (
        ITERATIONS,
        &[
            "t_start_ps",
            "t_ready_ps",
            "t_end_ps",
            "delay_ps",
            "worker",
            "cluster",
            "iteration",
            "sent",
            "skipped",
            "degraded",
            "sources",
            "elements",
            "missed",
        ],
    ),
    (RESULTS, &["t_recv_ps", "t_sent_ps", "worker", "cluster", "seq", "packet", "count", "degraded", "again"]),
    (LANES, &["t_recv_ps", "cluster", "words"]),
    (PAYLOADS, &["t_recv_ps", "part", "words"]),
    (NAMES, &["t_recv_ps", "packet", "count"]),
    (CONTROLS, &["t_ps", "applied_ps", "schedule_ps", "held", "speed", "pps", "reset", "stopped"]),
    (STAMPS, &["t_ps", "packet", "received_ns", "sent_ns"]),
];

/// Columns with other names in files: stream, name in files, name in [`LAYOUT`].
const RENAMED: [(&str, &str, &str); 2] = [(ITERATIONS, "job", "cluster"), (RESULTS, "job", "cluster")];

/// Columns whose cells are in another column of [`LAYOUT`]: stream, name in files, name there. A job replaces the cluster; a part of a sum
/// by key replaces the number of the newest member, with the highest bit set for the last part.
const MOVED: [(&str, &str, &str); 5] = [
    (SENT, "job", "cluster"),
    (RECEIVED, "job", "cluster"),
    (LANES, "job", "cluster"),
    (RECEIVED, "part", "newest_seq"),
    (RECEIVED, "last", "newest_seq"),
];

/// Text of an empty cell.
const EMPTY: &str = "-";

/// A part of a run: one stream, the metrics or the verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DumpPart {
    /// The stream's name, `metrics` or `verdict`.
    pub name: String,
    /// Names of the columns of a stream; empty for metrics and verdict.
    pub head: String,
    /// The lines, sorted.
    pub lines: Vec<String>,
}

impl DumpPart {
    /// Returns the SHA-256 of the head and the lines, each with its line feed, in hexadecimal. An empty head is an empty line.
    pub fn digest(&self) -> String {
        let mut hashing = Hashing::new(sink());
        for line in std::iter::once(&self.head).chain(&self.lines) {
            // Writing to a sink cannot fail.
            let _ = hashing.write_all(line.as_bytes()).and_then(|()| hashing.write_all(b"\n"));
        }
        hashing.digest().map(|digest| digest.sha256).unwrap_or_default()
    }
}

/// A run in canonical form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Canonical {
    /// Streams in the order of the layout, metrics, verdict.
    pub parts: Vec<DumpPart>,
    /// Whether the numbers may be used.
    pub valid: bool,
}

impl Canonical {
    /// Reads the run in `dir`. Parts of a run have no metrics and keep the verdict that they were written with.
    pub fn open(dir: &Path, options: Options) -> Result<Canonical> {
        let path = dir.join("manifest.json");
        let manifest: Manifest = read_json(&path, "a run dir")?;
        if manifest.part.as_deref().is_some_and(|part| part != "frames") {
            has_ended(dir, &manifest)?;
            if !options.no_verify {
                let text = std::fs::read(&path).map_err(Error::io("read", &path))?;
                verify_run(dir, &text, &manifest.files)?;
            }
            let verdict = verdict(&manifest.validity, &[]);
            return Ok(Canonical { parts: with_streams(dir, [verdict])?, valid: manifest.validity.is_valid() });
        }
        let analysis = Analysis::open(dir, options)?;
        let remarks: Vec<&str> = analysis.remarks().iter().map(|note| note.note).collect();
        let validity = analysis.validity();
        let own = [metrics(&analysis.lines()?), verdict(&validity, &remarks)];
        Ok(Canonical { parts: with_streams(dir, own)?, valid: validity.is_valid() })
    }
}

/// Returns the streams in `dir`, then the other parts.
fn with_streams<const N: usize>(dir: &Path, others: [DumpPart; N]) -> Result<Vec<DumpPart>> {
    let mut parts = Vec::new();
    for (name, columns) in LAYOUT {
        let path = dir.join(format!("{name}.parquet"));
        if path.exists() {
            parts.push(stream(&path, name, columns)?);
        }
    }
    parts.extend(others);
    Ok(parts)
}

fn stream(path: &Path, name: &str, known: &[&str]) -> Result<DumpPart> {
    let mut batches = Batches::open(path)?;
    let damaged = |fault: ArrowError| Error::data(path, format!("it cannot be tabulated: {fault}"));
    let schema = batches.schema();
    let edition = Edition::of(path, name, &schema).map_err(|fault| Error::data(path, fault))?;
    let wanted = edition.columns(&schema);
    let mut all = vec![edition.read(RecordBatch::new_empty(schema.clone()), &wanted).map_err(damaged)?];
    while let Some(batch) = batches.next_batch()? {
        all.push(edition.read(batch, &wanted).map_err(damaged)?);
    }
    let whole =
        concat_batches(&all[0].schema(), &all).and_then(|whole| laid_out(name, &whole, known)).map_err(damaged)?;
    let canonical = |found: &str| -> String {
        let renamed = RENAMED.iter().find(|(stream, from, _)| *stream == name && *from == found);
        renamed.map_or(found, |(_, _, to)| to).to_owned()
    };
    let mut columns: Vec<(usize, String)> =
        whole.schema().fields().iter().map(|field| canonical(field.name())).enumerate().collect();
    columns.sort_by_key(|(_, name)| (known.iter().position(|known| known == name).unwrap_or(usize::MAX), name.clone()));
    let order: Vec<usize> = columns.iter().map(|(found, _)| *found).collect();
    let sorted = whole.project(&order).map_err(damaged)?;
    let names: Vec<String> = columns.into_iter().map(|(_, name)| name).collect();
    let lines = rows(name, &names, &sorted).map_err(damaged)?;
    Ok(DumpPart { name: name.to_owned(), head: format!("columns\t{name}\t{}", names.join("\t")), lines })
}

/// Rearranges a stream: moves the columns in [`MOVED`], and omits empty columns that [`LAYOUT`] lacks.
fn laid_out(stream: &str, batch: &RecordBatch, known: &[&str]) -> std::result::Result<RecordBatch, ArrowError> {
    let (mut fields, mut columns) = (Vec::new(), Vec::new());
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        let name = field.name().as_str();
        let moved = MOVED.iter().any(|(of, from, _)| (*of, *from) == (stream, name));
        let lacking = !known.contains(&name) && !RENAMED.iter().any(|(of, from, _)| (*of, *from) == (stream, name));
        if moved || lacking && column.null_count() == batch.num_rows() {
            continue;
        }
        let column = match (stream, name) {
            (SENT | RECEIVED | LANES, "cluster") => joined::<UInt16Type>(batch, name, "job", |job, _| job),
            (RECEIVED, "newest_seq") => joined::<UInt32Type>(batch, name, "part", |part, row| {
                let last = batch.column_by_name("last").and_then(|last| last.as_boolean_opt());
                part | u32::from(last.is_some_and(|last| last.is_valid(row) && last.value(row))) << 31
            }),
            _ => None,
        }
        .unwrap_or_else(|| column.clone());
        fields.push(Field::new(name, column.data_type().clone(), true));
        columns.push(column);
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
}

/// Returns the cells of a column, replaced by those of `other` where that has any; `None` if types differ.
fn joined<T: ArrowPrimitiveType>(
    batch: &RecordBatch,
    name: &str,
    other: &str,
    as_there: impl Fn(T::Native, usize) -> T::Native,
) -> Option<ArrayRef> {
    let of = |name: &str| batch.column_by_name(name)?.as_primitive_opt::<T>();
    let rows = of(name)?.iter().zip(of(other)?).enumerate();
    let cells = rows.map(|(row, (cell, other))| other.map(|other| as_there(other, row)).or(cell));
    Some(Arc::new(cells.collect::<PrimitiveArray<T>>()))
}

/// Formats the rows of a stream as lines, sorted by their cells.
fn rows(stream: &str, names: &[String], batch: &RecordBatch) -> std::result::Result<Vec<String>, ArrowError> {
    let columns = batch.columns().iter().map(cells).collect::<std::result::Result<Vec<_>, _>>()?;
    let mut order: Vec<usize> = (0..batch.num_rows()).collect();
    order.sort_unstable_by(|a, b| {
        columns.iter().map(|column| column.compare(*a, *b)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    });
    let line = |row: &usize| {
        let mut line = stream.to_owned();
        for (column, name) in columns.iter().zip(names) {
            let text = column.text(*row);
            line.push('\t');
            line.push_str(text.as_deref().map_or(EMPTY, |text| code_name(stream, name, text).unwrap_or(text)));
        }
        line
    };
    Ok(order.iter().map(line).collect())
}

/// Returns the name of a code in a column of codes.
fn code_name(stream: &str, column: &str, text: &str) -> Option<&'static str> {
    let code: usize = text.parse().ok()?;
    match (stream, column) {
        (BOOKS, "action") => Action::ALL.get(code).map(|action| action.name()),
        (BOOKS, "reason") => Reason::ALL.get(code).map(|reason| reason.name()),
        (SENT | RECEIVED, "heat") => Heat::ALL.get(code).map(|heat| heat.name()),
        (RECEIVED, "sum_ok") => SumOk::ALL.get(code).map(|sum| sum.name()),
        _ => None,
    }
}

fn metrics(lines: &[Line]) -> DumpPart {
    let line = |line: &Line| {
        let labels: Vec<String> = line
            .labels
            .iter()
            .map(|(name, value)| format!("{name}={}", value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
            .collect();
        let value = line.value.map_or(EMPTY.to_owned(), |value| Value::from(value).to_string());
        format!("metric\t{}\t{}\t{}\t{value}", line.metric, labels.join(" "), line.unit)
    };
    let mut lines: Vec<String> = lines.iter().filter(|line| !TIMES.contains(&&*line.metric)).map(line).collect();
    lines.sort_unstable();
    DumpPart { name: "metrics".to_owned(), head: String::new(), lines }
}

fn verdict(validity: &Validity, remarks: &[&str]) -> DumpPart {
    let mut lines: Vec<String> = validity.faults.iter().map(|fault| finding("fault", fault.code(), fault)).collect();
    lines.extend(validity.notes.iter().map(|note| finding("note", note.code(), note)));
    lines.extend(remarks.iter().map(|remark| format!("remark\t{remark}")));
    lines.sort_unstable();
    lines.insert(0, format!("valid\t{}", validity.is_valid()));
    DumpPart { name: "verdict".to_owned(), head: String::new(), lines }
}

/// Formats a fault or a note: its code and its fields.
fn finding(kind: &str, code: &str, finding: &impl Serialize) -> String {
    let mut fields = serde_json::to_value(finding).unwrap_or_default();
    if let Value::Object(fields) = &mut fields {
        fields.remove("code");
    }
    format!("{kind}\t{code}\t{fields}")
}

#[cfg(test)]
#[path = "canonical_tests.rs"]
mod tests;
