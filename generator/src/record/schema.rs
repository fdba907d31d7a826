//! The columns of the three streams in Arrow and Parquet files.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

/// Stream name of what workers sent; the file is `sent.parquet`.
pub const SENT: &str = "sent";
/// Stream name of what devices did.
pub const BOOKS: &str = "books";
/// Stream name of what reached the parameter server.
pub const RECEIVED: &str = "received";
/// Stream name of what workers knew and did, where it was asked for.
pub const STATES: &str = "states";
/// Stream name of the iterations of synchronous training.
pub const ITERATIONS: &str = "iterations";
/// Stream name of the results that workers of synchronous training got.
pub const RESULTS: &str = "results";
/// Version of all schemas; a reader refuses a newer one.
pub const SCHEMA_VERSION: u32 = 1;

fn schema(kind: &str, fields: &[(&str, DataType, bool)]) -> SchemaRef {
    let fields: Vec<_> =
        fields.iter().map(|(name, data, nullable)| Field::new(*name, data.clone(), *nullable)).collect();
    let metadata = HashMap::from([
        ("pktgen.kind".to_owned(), kind.to_owned()),
        ("pktgen.version".to_owned(), SCHEMA_VERSION.to_string()),
    ]);
    Arc::new(Schema::new_with_metadata(fields, metadata))
}

/// Columns of `sent`.
pub fn sent_schema() -> SchemaRef {
    use DataType::*;
    schema(
        SENT,
        &[
            ("t_gen_ps", Int64, false),
            ("t_due_ps", Int64, false),
            ("t_sent_ps", Int64, true),
            ("cluster", UInt16, false),
            ("worker", UInt32, false),
            ("seq", UInt32, false),
            ("attempt", UInt8, false),
            ("block", UInt32, true),
            ("bytes", UInt32, false),
            ("reward", Float32, true),
        ],
    )
}

/// Columns of `books`. `action` and `reason` are the codes of [`super::Action`] and [`super::Reason`].
pub fn books_schema() -> SchemaRef {
    use DataType::*;
    schema(
        BOOKS,
        &[
            ("t_ps", Int64, false),
            ("node", UInt16, false),
            ("packet_in", UInt64, false),
            ("action", UInt8, false),
            ("packet_out", UInt64, true),
            ("reason", UInt8, true),
        ],
    )
}

/// Columns of `received`. `sum_ok` is the code of [`super::SumOk`].
pub fn received_schema() -> SchemaRef {
    use DataType::*;
    schema(
        RECEIVED,
        &[
            ("t_recv_ps", Int64, false),
            ("packet", UInt64, false),
            ("cluster", UInt16, false),
            ("newest_worker", UInt32, false),
            ("newest_seq", UInt32, false),
            ("newest_gen_ps", Int64, false),
            ("count", UInt16, false),
            ("bytes", UInt32, false),
            ("reward", Float32, true),
            ("accepted", Boolean, false),
            ("sum_ok", UInt8, false),
            ("node", UInt16, false),
            ("digest", UInt64, true),
        ],
    )
}

/// Columns of `states`, one row per ACK at a worker and per update that it generated; see [`super::State`].
pub fn states_schema() -> SchemaRef {
    use DataType::*;
    schema(
        STATES,
        &[
            ("t_ps", Int64, false),
            ("worker", UInt32, false),
            ("active", UInt16, false),
            ("capacity", UInt32, false),
            ("occupancy", UInt32, false),
            ("ack_age_ps", Int64, true),
            ("p_send", Float32, true),
            ("sent", Boolean, true),
        ],
    )
}

/// Columns of `iterations`, one row per worker and iteration of synchronous training; see [`super::Iteration`].
pub fn iterations_schema() -> SchemaRef {
    use DataType::*;
    schema(
        ITERATIONS,
        &[
            ("t_start_ps", Int64, false),
            ("t_ready_ps", Int64, false),
            ("t_end_ps", Int64, false),
            ("delay_ps", Int64, false),
            ("worker", UInt32, false),
            ("cluster", UInt16, false),
            ("iteration", UInt32, false),
            ("sent", UInt32, false),
            ("skipped", UInt32, false),
            ("degraded", UInt32, false),
            ("sources", UInt64, false),
            ("elements", UInt64, false),
            ("missed", Boolean, false),
        ],
    )
}

/// Columns of `results`, one row per result at a worker of synchronous training; see [`super::Reply`].
pub fn results_schema() -> SchemaRef {
    use DataType::*;
    schema(
        RESULTS,
        &[
            ("t_recv_ps", Int64, false),
            ("t_sent_ps", Int64, true),
            ("worker", UInt32, false),
            ("cluster", UInt16, false),
            ("seq", UInt32, false),
            ("packet", UInt64, false),
            ("count", UInt16, false),
            ("degraded", Boolean, false),
            ("again", Boolean, false),
        ],
    )
}
