//! Version 1 of the record schema, read as the current one. No other module knows version 1.
//!
//! Version 1 had no columns `job`, `heat`, `part` and `last`. In training, `cluster` was the job. In sums by key, the
//! lowest bit of a packet's sequence number marked cold packets, and in a part of a sum, whose `count` was 0,
//! `newest_seq` was the number of the part, with the highest bit set if the part completed the sum.

use std::path::Path;
use std::slice::from_ref;
use std::sync::Arc;

use crate::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray, RecordBatch, RecordBatchOptions,
    UInt8Array, UInt32Array, new_null_array,
};
use crate::arrow::datatypes::{DataType, Field, Schema, UInt16Type, UInt32Type, UInt64Type};
use crate::arrow::error::ArrowError;

use super::code::Heat;
use super::manifest::{Family, Manifest};
use super::row::{ITERATIONS, LANES, PacketId, RECEIVED, RESULTS, SCHEMA_VERSION, SENT};

/// Set in `newest_seq` of a part that completed its sum.
const LAST: u32 = 1 << 31;

/// Columns that version 1 lacked.
const ADDED: [(&str, &[&str]); 5] = [
    (SENT, &["job", "heat"]),
    (RECEIVED, &["job", "heat", "part", "last"]),
    (ITERATIONS, &["job"]),
    (RESULTS, &["job"]),
    (LANES, &["job"]),
];

type Read<T> = std::result::Result<T, ArrowError>;

/// The schema version of a stream, and the facts needed to read it.
#[derive(Debug, Clone, Copy)]
pub struct Edition {
    stream: &'static str,
    older: Option<Older>,
}

/// Facts about a run that the columns of version 1 do not contain.
#[derive(Debug, Clone, Copy)]
struct Older {
    /// Whether it trains: clusters are jobs.
    trains: bool,
    /// Whether its account is of sums by key.
    by_key: bool,
}

impl Edition {
    /// The current version.
    pub const CURRENT: Edition = Edition { stream: "", older: None };

    /// Returns the version of the file of `stream` at `path`, with this schema; an error describes the defect of the file.
    pub fn of(path: &Path, stream: &str, schema: &Schema) -> std::result::Result<Edition, String> {
        let Some(&(stream, _)) = ADDED.iter().find(|(changed, _)| *changed == stream) else {
            return Ok(Edition::CURRENT);
        };
        let stated = schema.metadata().get("pktgen.version").and_then(|version| version.parse::<u32>().ok());
        match stated {
            Some(1) => {}
            // Other programs that rewrite a table omit the version.
            None if schema.index_of("job").is_err() => {}
            Some(newer) if newer > SCHEMA_VERSION => {
                return Err(format!(
                    "version {newer} of the record schema is newer than {SCHEMA_VERSION}, the newest known here; update pktgen"
                ));
            }
            _ => return Ok(Edition::CURRENT),
        }
        let manifest = path.with_file_name("manifest.json");
        let text = std::fs::read(&manifest).map_err(|fault| {
            format!(
                "it is of an older version, which reads with manifest.json beside it: {fault}; copy the whole run dir"
            )
        })?;
        let manifest: Manifest = serde_json::from_slice(&text)
            .map_err(|fault| format!("manifest.json beside it is no manifest: {fault}"))?;
        let older = Older { trains: manifest.training.is_some(), by_key: manifest.family() == Family::Pairs };
        Ok(Edition { stream, older: Some(older) })
    }

    /// Returns the columns of a file with this schema, by their current names.
    pub fn columns<'a>(&self, schema: &'a Schema) -> Vec<&'a str> {
        let moved = |name: &str| name == "cluster" && matches!(self.stream, ITERATIONS | RESULTS);
        let kept = schema.fields().iter().map(|field| field.name().as_str());
        let kept = kept.filter(|name| self.older.is_none() || !moved(name));
        let added = ADDED.iter().filter(|(stream, _)| self.older.is_some() && *stream == self.stream);
        kept.chain(added.flat_map(|(_, names)| names.iter().copied())).collect()
    }

    /// Returns the columns of the file from which `wanted` are derived.
    pub fn sources<'a>(&self, wanted: &[&'a str]) -> Vec<&'a str> {
        let mut all = Vec::new();
        for name in wanted {
            let from: &[&'a str] = match (self.older, self.stream, *name) {
                (None, ..) => from_ref(name),
                (_, _, "job") => &["cluster"],
                (_, SENT, "heat") => &["seq"],
                (_, RECEIVED, "heat") => &["packet"],
                (_, RECEIVED, "part" | "last" | "newest_seq") => &["packet", "newest_seq", "count"],
                _ => from_ref(name),
            };
            all.extend(from.iter().filter(|source| !all.contains(*source)).copied().collect::<Vec<_>>());
        }
        all
    }

    /// Converts a batch of the sources of `wanted` to a batch of `wanted`.
    pub fn read(&self, batch: RecordBatch, wanted: &[&str]) -> Read<RecordBatch> {
        let Some(older) = self.older else { return Ok(batch) };
        let (mut fields, mut columns) = (Vec::new(), Vec::new());
        for name in wanted {
            let (field, column) = match older.column(self.stream, name, &batch)? {
                Some(column) => (Field::new(*name, column.data_type().clone(), self.may_be_empty(name)), column),
                None => (batch.schema().field_with_name(name)?.clone(), named(&batch, name)?.clone()),
            };
            fields.push(field);
            columns.push(column);
        }
        let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &rows)
    }

    fn may_be_empty(&self, name: &str) -> bool {
        matches!((self.stream, name), (SENT | RECEIVED | LANES, "cluster" | "job") | (_, "heat" | "part" | "last"))
    }
}

impl Older {
    /// Returns a column of the current version; `None` if it is unchanged.
    fn column(self, stream: &str, name: &str, batch: &RecordBatch) -> Read<Option<ArrayRef>> {
        let rows = batch.num_rows();
        let if_so = |so: bool, name: &str| match so {
            true => named(batch, name).cloned(),
            false => Ok(new_null_array(&DataType::UInt16, rows)),
        };
        let column: ArrayRef = match (stream, name) {
            (SENT | RECEIVED | LANES, "job") => if_so(self.trains, "cluster")?,
            (SENT | RECEIVED | LANES, "cluster") => if_so(!self.trains, "cluster")?,
            (ITERATIONS | RESULTS, "job") => if_so(true, "cluster")?,
            (SENT, "heat") => {
                let seqs = numbers::<UInt32Type>(batch, "seq")?;
                self.heats(seqs.iter().map(|seq| seq.map(u64::from)))
            }
            (RECEIVED, "heat") => self.heats(numbers::<UInt64Type>(batch, "packet")?.iter()),
            (RECEIVED, "part") => Arc::new(self.parts(batch)?.map(|part| Some(part? & !LAST)).collect::<UInt32Array>()),
            (RECEIVED, "last") => {
                Arc::new(self.parts(batch)?.map(|part| Some(part? & LAST != 0)).collect::<BooleanArray>())
            }
            (RECEIVED, "newest_seq") => {
                let packets = numbers::<UInt64Type>(batch, "packet")?.iter();
                let seqs = numbers::<UInt32Type>(batch, "newest_seq")?.iter();
                let rows = self.parts(batch)?.zip(packets).zip(seqs);
                let newest = rows.map(|((part, packet), seq)| part.map_or(seq, |_| Some(PacketId(packet?).seq())));
                Arc::new(newest.collect::<UInt32Array>())
            }
            _ => return Ok(None),
        };
        Ok(Some(column))
    }

    /// Returns the heats of packets with these sequence numbers.
    fn heats(self, seqs: impl Iterator<Item = Option<u64>>) -> ArrayRef {
        let heat = |seq: u64| if seq & 1 == 1 { Heat::Cold } else { Heat::Hot };
        Arc::new(seqs.map(|seq| seq.filter(|_| self.by_key).map(|seq| heat(seq) as u8)).collect::<UInt8Array>())
    }

    /// Returns the part number of each row, including [`LAST`]; `None` for rows that are not parts.
    fn parts(self, batch: &RecordBatch) -> Read<impl Iterator<Item = Option<u32>>> {
        let counts = numbers::<UInt16Type>(batch, "count")?.iter();
        let seqs = numbers::<UInt32Type>(batch, "newest_seq")?.iter();
        Ok(counts.zip(seqs).map(move |(count, seq)| seq.filter(|_| self.by_key && count == Some(0))))
    }
}

fn named<'a>(batch: &'a RecordBatch, name: &str) -> Read<&'a ArrayRef> {
    batch.column_by_name(name).ok_or_else(|| ArrowError::SchemaError(format!("it has no column \"{name}\"")))
}

fn numbers<'a, T: ArrowPrimitiveType>(batch: &'a RecordBatch, name: &str) -> Read<&'a PrimitiveArray<T>> {
    let wrong = || ArrowError::SchemaError(format!("column \"{name}\" does not hold {}", T::DATA_TYPE));
    named(batch, name)?.as_primitive_opt().ok_or_else(wrong)
}

#[cfg(test)]
#[path = "older_tests.rs"]
mod tests;
