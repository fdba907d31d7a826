//! Version 1 of the record schema, read as the current one: the only place that knows how it was.
//!
//! Version 1 had no columns `job`, `heat`, `part` and `last`. Of training, `cluster` was the job. Of sums by key, the lowest bit of a
//! packet's sequence number was set where it was cold, and `newest_seq` of a part of a sum, whose `count` was 0, was the
//! number of the part, its highest bit set where the part made the sum complete.

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

/// Set in `newest_seq` of a part that made its sum complete.
const LAST: u32 = 1 << 31;

/// Columns that version 1 did not have.
const ADDED: [(&str, &[&str]); 5] = [
    (SENT, &["job", "heat"]),
    (RECEIVED, &["job", "heat", "part", "last"]),
    (ITERATIONS, &["job"]),
    (RESULTS, &["job"]),
    (LANES, &["job"]),
];

type Read<T> = std::result::Result<T, ArrowError>;

/// In which version of the schema a stream was written, and what reading it takes.
#[derive(Debug, Clone, Copy)]
pub struct Edition {
    stream: &'static str,
    older: Option<Older>,
}

/// What the columns of version 1 do not say of a run.
#[derive(Debug, Clone, Copy)]
struct Older {
    /// It trains: clusters are jobs.
    trains: bool,
    /// Its account is of sums by key.
    by_key: bool,
}

impl Edition {
    /// The current version.
    pub const CURRENT: Edition = Edition { stream: "", older: None };

    /// The version of the file of `stream` at `path`, which has this schema. An error says what is wrong with the file.
    pub fn of(path: &Path, stream: &str, schema: &Schema) -> std::result::Result<Edition, String> {
        let Some(&(stream, _)) = ADDED.iter().find(|(changed, _)| *changed == stream) else {
            return Ok(Edition::CURRENT);
        };
        let stated = schema.metadata().get("pktgen.version").and_then(|version| version.parse::<u32>().ok());
        match stated {
            Some(1) => {}
            // Other programs that write a table anew leave the version out.
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

    /// The columns of a file with this schema, by their current names.
    pub fn columns<'a>(&self, schema: &'a Schema) -> Vec<&'a str> {
        let moved = |name: &str| name == "cluster" && matches!(self.stream, ITERATIONS | RESULTS);
        let kept = schema.fields().iter().map(|field| field.name().as_str());
        let kept = kept.filter(|name| self.older.is_none() || !moved(name));
        let added = ADDED.iter().filter(|(stream, _)| self.older.is_some() && *stream == self.stream);
        kept.chain(added.flat_map(|(_, names)| names.iter().copied())).collect()
    }

    /// The columns in the file that `wanted` are made of.
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

    /// A batch that has the sources of `wanted` as one that has these.
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
    /// A column of the current version; none where it is as it was.
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

    /// Heats of packets with these sequence numbers.
    fn heats(self, seqs: impl Iterator<Item = Option<u64>>) -> ArrayRef {
        let heat = |seq: u64| if seq & 1 == 1 { Heat::Cold } else { Heat::Hot };
        Arc::new(seqs.map(|seq| seq.filter(|_| self.by_key).map(|seq| heat(seq) as u8)).collect::<UInt8Array>())
    }

    /// The number of the part that each row is, and [`LAST`]; none of rows that are no parts.
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
