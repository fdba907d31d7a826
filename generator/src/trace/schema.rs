//! Columns of a trace (design §5).

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use crate::{Error, Result};

/// Version of the schema; a reader refuses a newer one.
pub const TRACE_VERSION: u32 = 1;

/// The schema that traces are written with.
pub fn trace_schema() -> SchemaRef {
    use DataType::*;
    let list = |item: DataType| List(Arc::new(Field::new("item", item, false)));
    let fields = vec![
        Field::new("t_ps", Int64, false),
        Field::new("cluster", UInt16, false),
        Field::new("worker", UInt32, false),
        Field::new("seq", UInt32, false),
        Field::new("bytes", UInt32, false),
        Field::new("reward", Float32, true),
        Field::new("keys", list(UInt64), true),
        Field::new("values", list(Float32), true),
        Field::new("iteration", UInt32, true),
    ];
    let metadata = HashMap::from([
        ("pktgen.kind".to_owned(), "trace".to_owned()),
        ("pktgen.version".to_owned(), TRACE_VERSION.to_string()),
    ]);
    Arc::new(Schema::new_with_metadata(fields, metadata))
}

/// Refuses a trace of a version that this tool does not know.
pub(super) fn accept_version(schema: &Schema, path: &Path) -> Result<()> {
    let version = schema.metadata().get("pktgen.version").and_then(|v| v.parse::<u32>().ok());
    if version.is_some_and(|v| v > TRACE_VERSION) {
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

/// Is a file's schema one that we can read? Columns may be missing if they are optional, and may come
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
                        "not a trace: column \"{}\" is missing; it has {}; `pktgen trace convert` takes foreign files",
                        field.name(),
                        if names.is_empty() { "no columns".to_owned() } else { names.join(", ") }
                    ),
                ));
            }
            Ok(found) if found.data_type() != field.data_type() => {
                return Err(Error::data(
                    path,
                    format!(
                        "column \"{}\" has type {}; it must be {}; `pktgen trace convert` takes foreign files",
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
