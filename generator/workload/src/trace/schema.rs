//! Columns of a trace (design §5).

use std::path::Path;

use crate::arrow::datatypes::{Schema, SchemaRef};

use crate::column::Data::{Float32, Int64, ListFloat32, ListUInt64, UInt16, UInt32};
use crate::column::{Column, StreamTable};
use crate::{Error, Result};

/// Version of the schema; a reader refuses a newer one.
pub const TRACE_VERSION: u32 = 1;

static COLUMNS: [Column; 9] = [
    Column::new("t_ps", Int64, "ps", "When the update is generated, from the start of the trace."),
    Column::new("cluster", UInt16, "number", "Cluster, or 65535 for traffic that belongs to none."),
    Column::new("worker", UInt32, "number", "Worker."),
    Column::new("seq", UInt32, "number", "Number of the update at its worker."),
    Column::new("bytes", UInt32, "bytes", "Length of the frame."),
    Column::maybe("reward", Float32, "reward", "Reward of the update."),
    Column::maybe("keys", ListUInt64, "number", "Keys of the gradients, in sparse training."),
    Column::maybe("values", ListFloat32, "gradient", "The gradients, where the trace has them."),
    Column::maybe("iteration", UInt32, "number", "Iteration, in synchronous training."),
];

/// The columns of a trace.
pub static TRACE: StreamTable = StreamTable { name: "trace", row: "one update, for a replay", columns: &COLUMNS };

/// The schema that traces are written with.
pub(crate) fn trace_schema() -> SchemaRef {
    TRACE.schema(TRACE_VERSION)
}

/// Refuses a trace of a version that this tool does not know.
pub(super) fn accept_version(schema: &Schema, path: &Path) -> Result<()> {
    let fact = |key: &str| schema.metadata().get(key);
    // Other streams have versions of their own.
    let is_trace = fact("pktgen.kind").is_none_or(|kind| kind == TRACE.name);
    let version = fact("pktgen.version").and_then(|v| v.parse::<u32>().ok());
    if is_trace && version.is_some_and(|v| v > TRACE_VERSION) {
        return Err(Error::data(
            path,
            format!(
                "trace schema version {} is newer than {TRACE_VERSION}, which this tool reads; update pktgen",
                version.unwrap_or_default()
            ),
        ));
    }
    Ok(())
}

/// Whether a file's schema is readable. Columns may be missing if they are optional, and may come
/// in any order.
pub(super) fn accept(schema: &Schema, path: &Path) -> Result<()> {
    accept_version(schema, path)?;
    let ours = trace_schema();
    for field in ours.fields().iter().filter(|f| !f.is_nullable()) {
        match schema.field_with_name(field.name()) {
            Err(_) => {
                let names: Vec<_> = schema.fields().iter().map(|f| f.name().as_str()).collect();
                return Err(Error::data(
                    path,
                    format!(
                        "not a trace: column \"{}\" is missing; it has {}; `pktgen trace convert` reads files of other tools",
                        field.name(),
                        if names.is_empty() { "no columns".to_owned() } else { names.join(", ") }
                    ),
                ));
            }
            Ok(found) if found.data_type() != field.data_type() => {
                return Err(Error::data(
                    path,
                    format!(
                        "column \"{}\" has type {}; it must be {}; `pktgen trace convert` reads files of other tools",
                        field.name(),
                        found.data_type(),
                        field.data_type()
                    ),
                ));
            }
            Ok(_) => {}
        }
    }
    Ok(())
}

/// Describes a row without the value that it must have.
pub(super) fn no_value(column: &str, row: u64) -> String {
    format!("column \"{column}\", row {row}: no value")
}

/// Describes a row whose list has a place without a value.
pub(super) fn list_lacks(column: &str, row: u64) -> String {
    format!("column \"{column}\", row {row}: a list lacks a value")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::column::Data;
    use crate::record::STREAMS;

    #[test]
    fn every_column_of_a_stream_says_what_it_is_and_in_what_unit() {
        for stream in STREAMS.iter().chain([&TRACE]) {
            let names: BTreeSet<_> = stream.columns.iter().map(|column| column.name).collect();
            assert_eq!(names.len(), stream.columns.len(), "{}", stream.name);
            for column in stream.columns {
                let what = format!("{}.{}", stream.name, column.name);
                let sentence = column.about.ends_with(['.', '?', '…']) || column.about.ends_with("`.");
                assert!(sentence && !column.unit.is_empty(), "{what}: {}", column.about);
                assert_eq!(column.name.ends_with("_ps"), column.unit == "ps", "{what}");
                assert_eq!(column.data == Data::Boolean, column.unit == "yes or no", "{what}");
            }
        }
    }

    #[test]
    fn schemas_are_those_of_the_columns() {
        for stream in STREAMS.iter().chain([&TRACE]) {
            let schema = stream.schema(7);
            let all = schema.fields().iter().zip(stream.columns);
            assert!(all.clone().all(|(field, column)| field.name() == column.name), "{}", stream.name);
            assert!(all.clone().all(|(field, column)| field.is_nullable() == column.optional), "{}", stream.name);
            assert_eq!(
                (schema.metadata()["pktgen.kind"].as_str(), &schema.metadata()["pktgen.version"][..]),
                (stream.name, "7")
            );
        }
    }
}
