//! Rows into columns: one way per stream.

use std::sync::Arc;

use pktgen_generator::arrow::array::{
    ArrayRef, AsArray, BooleanArray, Float32Array, Int64Array, ListArray, RecordBatch, UInt8Array, UInt16Array,
    UInt32Array, UInt64Array,
};
use pktgen_generator::arrow::buffer::OffsetBuffer;
use pktgen_generator::arrow::datatypes::{DataType, Field, Int64Type, SchemaRef};
use pktgen_generator::record::{
    BOOKS, Book, ITERATIONS, Iteration, LANES, LaneWords, NAMES, Name, PAYLOADS, PayloadPart, RECEIVED, RESULTS,
    Received, Reply, SENT, STAMPS, STATES, Sent, Stamp, State, books_schema, iterations_schema, lanes_schema,
    names_schema, payloads_schema, received_schema, results_schema, sent_schema, stamps_schema, states_schema,
};

/// A stream of rows that are columns on disk.
pub(super) trait Columns: 'static {
    /// What a row is.
    type Row: Copy + Send + 'static;
    /// File stem of the finished stream.
    const NAME: &'static str;
    /// Columns in files.
    fn schema() -> SchemaRef;
    /// The columns of these rows, in the schema's order.
    fn arrays(rows: &[Self::Row]) -> Vec<ArrayRef>;
    /// The times by which streams of several writers become one.
    fn times(batch: &RecordBatch) -> Option<Int64Array> {
        batch.columns().first()?.as_primitive_opt::<Int64Type>().cloned()
    }
}

/// Columns of `sent`.
pub(super) struct SentColumns;

impl Columns for SentColumns {
    type Row = Sent;
    const NAME: &'static str = SENT;

    fn schema() -> SchemaRef {
        sent_schema()
    }

    fn arrays(rows: &[Sent]) -> Vec<ArrayRef> {
        vec![
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.t_gen))),
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.t_due))),
            Arc::new(rows.iter().map(|r| r.t_sent).collect::<Int64Array>()),
            Arc::new(UInt16Array::from_iter_values(rows.iter().map(|r| r.cluster))),
            Arc::new(UInt32Array::from_iter_values(rows.iter().map(|r| r.worker))),
            Arc::new(UInt32Array::from_iter_values(rows.iter().map(|r| r.seq))),
            Arc::new(UInt8Array::from_iter_values(rows.iter().map(|r| r.attempt))),
            Arc::new(rows.iter().map(|r| r.block).collect::<UInt32Array>()),
            Arc::new(UInt32Array::from_iter_values(rows.iter().map(|r| r.bytes))),
            Arc::new(rows.iter().map(|r| r.reward).collect::<Float32Array>()),
        ]
    }

    /// When each left, or was to leave: in that order senders write them.
    fn times(batch: &RecordBatch) -> Option<Int64Array> {
        let column = |name| batch.column_by_name(name)?.as_primitive_opt::<Int64Type>();
        let (due, left) = (column("t_due_ps")?, column("t_sent_ps")?);
        Some(due.iter().zip(left).map(|(due, left)| left.or(due)).collect())
    }
}

/// Columns of `books`.
pub(super) struct BookColumns;

impl Columns for BookColumns {
    type Row = Book;
    const NAME: &'static str = BOOKS;

    fn schema() -> SchemaRef {
        books_schema()
    }

    fn arrays(rows: &[Book]) -> Vec<ArrayRef> {
        vec![
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.t))),
            Arc::new(UInt16Array::from_iter_values(rows.iter().map(|r| r.node))),
            Arc::new(UInt64Array::from_iter_values(rows.iter().map(|r| r.packet_in.0))),
            Arc::new(UInt8Array::from_iter_values(rows.iter().map(|r| r.action as u8))),
            Arc::new(rows.iter().map(|r| r.packet_out.map(|p| p.0)).collect::<UInt64Array>()),
            Arc::new(rows.iter().map(|r| r.reason.map(|r| r as u8)).collect::<UInt8Array>()),
        ]
    }
}

/// Columns of `received`.
pub(super) struct ReceivedColumns;

impl Columns for ReceivedColumns {
    type Row = Received;
    const NAME: &'static str = RECEIVED;

    fn schema() -> SchemaRef {
        received_schema()
    }

    fn arrays(rows: &[Received]) -> Vec<ArrayRef> {
        vec![
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.t_recv))),
            Arc::new(UInt64Array::from_iter_values(rows.iter().map(|r| r.packet.0))),
            Arc::new(UInt16Array::from_iter_values(rows.iter().map(|r| r.cluster))),
            Arc::new(UInt32Array::from_iter_values(rows.iter().map(|r| r.newest_worker))),
            Arc::new(UInt32Array::from_iter_values(rows.iter().map(|r| r.newest_seq))),
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.newest_gen))),
            Arc::new(UInt16Array::from_iter_values(rows.iter().map(|r| r.count))),
            Arc::new(UInt32Array::from_iter_values(rows.iter().map(|r| r.bytes))),
            Arc::new(rows.iter().map(|r| r.reward).collect::<Float32Array>()),
            Arc::new(rows.iter().map(|r| Some(r.accepted)).collect::<BooleanArray>()),
            Arc::new(UInt8Array::from_iter_values(rows.iter().map(|r| r.sum_ok as u8))),
            Arc::new(UInt16Array::from_iter_values(rows.iter().map(|r| r.node))),
            Arc::new(rows.iter().map(|r| r.digest).collect::<UInt64Array>()),
        ]
    }
}

/// Columns of `states`.
pub(super) struct StateColumns;

impl Columns for StateColumns {
    type Row = State;
    const NAME: &'static str = STATES;

    fn schema() -> SchemaRef {
        states_schema()
    }

    fn arrays(rows: &[State]) -> Vec<ArrayRef> {
        vec![
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.t))),
            Arc::new(UInt32Array::from_iter_values(rows.iter().map(|r| r.worker))),
            Arc::new(UInt16Array::from_iter_values(rows.iter().map(|r| r.active))),
            Arc::new(UInt32Array::from_iter_values(rows.iter().map(|r| r.capacity))),
            Arc::new(UInt32Array::from_iter_values(rows.iter().map(|r| r.occupancy))),
            Arc::new(rows.iter().map(|r| r.ack_age).collect::<Int64Array>()),
            Arc::new(rows.iter().map(|r| r.p_send).collect::<Float32Array>()),
            Arc::new(rows.iter().map(|r| r.sent).collect::<BooleanArray>()),
        ]
    }
}

/// Columns of `iterations`.
pub(super) struct IterationColumns;

impl Columns for IterationColumns {
    type Row = Iteration;
    const NAME: &'static str = ITERATIONS;

    fn schema() -> SchemaRef {
        iterations_schema()
    }

    fn arrays(rows: &[Iteration]) -> Vec<ArrayRef> {
        vec![
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.t_start))),
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.t_ready))),
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.t_end))),
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.delay))),
            Arc::new(UInt32Array::from_iter_values(rows.iter().map(|r| r.worker))),
            Arc::new(UInt16Array::from_iter_values(rows.iter().map(|r| r.cluster))),
            Arc::new(UInt32Array::from_iter_values(rows.iter().map(|r| r.iteration))),
            Arc::new(UInt32Array::from_iter_values(rows.iter().map(|r| r.sent))),
            Arc::new(UInt32Array::from_iter_values(rows.iter().map(|r| r.skipped))),
            Arc::new(UInt32Array::from_iter_values(rows.iter().map(|r| r.degraded))),
            Arc::new(UInt64Array::from_iter_values(rows.iter().map(|r| r.sources))),
            Arc::new(UInt64Array::from_iter_values(rows.iter().map(|r| r.elements))),
            Arc::new(rows.iter().map(|r| Some(r.missed)).collect::<BooleanArray>()),
        ]
    }
}

/// Columns of `results`.
pub(super) struct ReplyColumns;

impl Columns for ReplyColumns {
    type Row = Reply;
    const NAME: &'static str = RESULTS;

    fn schema() -> SchemaRef {
        results_schema()
    }

    fn arrays(rows: &[Reply]) -> Vec<ArrayRef> {
        vec![
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.t_recv))),
            Arc::new(rows.iter().map(|r| r.t_sent).collect::<Int64Array>()),
            Arc::new(UInt32Array::from_iter_values(rows.iter().map(|r| r.worker))),
            Arc::new(UInt16Array::from_iter_values(rows.iter().map(|r| r.cluster))),
            Arc::new(UInt32Array::from_iter_values(rows.iter().map(|r| r.seq))),
            Arc::new(UInt64Array::from_iter_values(rows.iter().map(|r| r.packet.0))),
            Arc::new(UInt16Array::from_iter_values(rows.iter().map(|r| r.count))),
            Arc::new(rows.iter().map(|r| Some(r.degraded)).collect::<BooleanArray>()),
            Arc::new(rows.iter().map(|r| Some(r.again)).collect::<BooleanArray>()),
        ]
    }
}

/// Columns of `lanes`.
pub(super) struct LaneColumns;

impl Columns for LaneColumns {
    type Row = LaneWords;
    const NAME: &'static str = LANES;

    fn schema() -> SchemaRef {
        lanes_schema()
    }

    fn arrays(rows: &[LaneWords]) -> Vec<ArrayRef> {
        vec![
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.t_recv))),
            Arc::new(UInt16Array::from_iter_values(rows.iter().map(|r| r.cluster))),
            lists(rows, |row| &row.words[..usize::from(row.count)]),
        ]
    }
}

/// A list of words per row.
fn lists<R>(rows: &[R], words: impl Fn(&R) -> &[u32]) -> ArrayRef {
    let offsets = OffsetBuffer::from_lengths(rows.iter().map(|row| words(row).len()));
    let values = Arc::new(UInt32Array::from_iter_values(rows.iter().flat_map(|row| words(row).iter().copied())));
    Arc::new(ListArray::new(Arc::new(Field::new("item", DataType::UInt32, false)), offsets, values, None))
}

/// Columns of `names`.
pub(super) struct NameColumns;

impl Columns for NameColumns {
    type Row = Name;
    const NAME: &'static str = NAMES;

    fn schema() -> SchemaRef {
        names_schema()
    }

    fn arrays(rows: &[Name]) -> Vec<ArrayRef> {
        vec![
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.t_recv))),
            Arc::new(rows.iter().map(|r| r.packet.map(|p| p.0)).collect::<UInt64Array>()),
            Arc::new(UInt16Array::from_iter_values(rows.iter().map(|r| r.count))),
        ]
    }
}

/// Columns of `payloads`.
pub(super) struct PayloadColumns;

impl Columns for PayloadColumns {
    type Row = PayloadPart;
    const NAME: &'static str = PAYLOADS;

    fn schema() -> SchemaRef {
        payloads_schema()
    }

    fn arrays(rows: &[PayloadPart]) -> Vec<ArrayRef> {
        vec![
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.t_recv))),
            Arc::new(UInt16Array::from_iter_values(rows.iter().map(|r| r.part))),
            lists(rows, |row| &row.words[..usize::from(row.count)]),
        ]
    }
}

/// Columns of `stamps`.
pub(super) struct StampColumns;

impl Columns for StampColumns {
    type Row = Stamp;
    const NAME: &'static str = STAMPS;

    fn schema() -> SchemaRef {
        stamps_schema()
    }

    fn arrays(rows: &[Stamp]) -> Vec<ArrayRef> {
        vec![
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.t))),
            Arc::new(rows.iter().map(|r| r.packet.map(|p| p.0)).collect::<UInt64Array>()),
            Arc::new(rows.iter().map(|r| r.received_ns).collect::<Int64Array>()),
            Arc::new(rows.iter().map(|r| r.sent_ns).collect::<Int64Array>()),
        ]
    }
}
