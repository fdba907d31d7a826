//! Rows into columns: one builder per stream.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Float32Array, Int64Array, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::{ArrowNativeType, SchemaRef};
use pktgen_generator::record::{Book, Received, Sent, books_schema, received_schema, sent_schema};

/// A stream of rows that can be turned into columns.
pub(super) trait Columns: Default {
    /// What a row is.
    type Row;
    /// File stem.
    const NAME: &'static str;
    /// Columns in files.
    fn schema() -> SchemaRef;
    /// Appends a row.
    fn push(&mut self, row: &Self::Row);
    /// Rows so far.
    fn len(&self) -> usize;
    /// Takes everything out as arrays.
    fn take(&mut self) -> Vec<ArrayRef>;
}

/// A column whose values may be missing.
#[derive(Default)]
struct Optional<T> {
    values: Vec<T>,
    present: Vec<bool>,
}

impl<T: Default> Optional<T> {
    #[inline]
    fn push(&mut self, value: Option<T>) {
        self.present.push(value.is_some());
        self.values.push(value.unwrap_or_default());
    }

    fn take(&mut self) -> (Vec<T>, Option<NullBuffer>) {
        let present = std::mem::take(&mut self.present);
        let nulls = present.iter().any(|p| !p).then(|| NullBuffer::from(present));
        (std::mem::take(&mut self.values), nulls)
    }
}

/// A vector as an Arrow buffer, without copying.
fn scalars<T: ArrowNativeType>(values: &mut Vec<T>) -> ScalarBuffer<T> {
    let taken = std::mem::take(values);
    values.reserve(taken.len());
    let len = taken.len();
    ScalarBuffer::new(Buffer::from_vec(taken), 0, len)
}

/// Columns of `sent`.
#[derive(Default)]
pub(super) struct SentColumns {
    t_gen: Vec<i64>,
    t_due: Vec<i64>,
    t_sent: Optional<i64>,
    cluster: Vec<u16>,
    worker: Vec<u32>,
    seq: Vec<u32>,
    attempt: Vec<u8>,
    block: Optional<u32>,
    bytes: Vec<u32>,
    reward: Optional<f32>,
}

impl Columns for SentColumns {
    type Row = Sent;
    const NAME: &'static str = pktgen_generator::record::SENT;

    fn schema() -> SchemaRef {
        sent_schema()
    }

    #[inline]
    fn push(&mut self, row: &Sent) {
        self.t_gen.push(row.t_gen);
        self.t_due.push(row.t_due);
        self.t_sent.push(row.t_sent);
        self.cluster.push(row.cluster);
        self.worker.push(row.worker);
        self.seq.push(row.seq);
        self.attempt.push(row.attempt);
        self.block.push(row.block);
        self.bytes.push(row.bytes);
        self.reward.push(row.reward);
    }

    fn len(&self) -> usize {
        self.t_gen.len()
    }

    fn take(&mut self) -> Vec<ArrayRef> {
        let (mut t_sent, sent_nulls) = self.t_sent.take();
        let (mut block, block_nulls) = self.block.take();
        let (mut reward, reward_nulls) = self.reward.take();
        vec![
            Arc::new(Int64Array::new(scalars(&mut self.t_gen), None)),
            Arc::new(Int64Array::new(scalars(&mut self.t_due), None)),
            Arc::new(Int64Array::new(scalars(&mut t_sent), sent_nulls)),
            Arc::new(UInt16Array::new(scalars(&mut self.cluster), None)),
            Arc::new(UInt32Array::new(scalars(&mut self.worker), None)),
            Arc::new(UInt32Array::new(scalars(&mut self.seq), None)),
            Arc::new(UInt8Array::new(scalars(&mut self.attempt), None)),
            Arc::new(UInt32Array::new(scalars(&mut block), block_nulls)),
            Arc::new(UInt32Array::new(scalars(&mut self.bytes), None)),
            Arc::new(Float32Array::new(scalars(&mut reward), reward_nulls)),
        ]
    }
}

/// Columns of `books`.
#[derive(Default)]
pub(super) struct BookColumns {
    t: Vec<i64>,
    node: Vec<u16>,
    packet_in: Vec<u64>,
    action: Vec<u8>,
    packet_out: Optional<u64>,
    reason: Optional<u8>,
}

impl Columns for BookColumns {
    type Row = Book;
    const NAME: &'static str = pktgen_generator::record::BOOKS;

    fn schema() -> SchemaRef {
        books_schema()
    }

    #[inline]
    fn push(&mut self, row: &Book) {
        self.t.push(row.t);
        self.node.push(row.node);
        self.packet_in.push(row.packet_in.0);
        self.action.push(row.action as u8);
        self.packet_out.push(row.packet_out.map(|p| p.0));
        self.reason.push(row.reason.map(|r| r as u8));
    }

    fn len(&self) -> usize {
        self.t.len()
    }

    fn take(&mut self) -> Vec<ArrayRef> {
        let (mut packet_out, out_nulls) = self.packet_out.take();
        let (mut reason, reason_nulls) = self.reason.take();
        vec![
            Arc::new(Int64Array::new(scalars(&mut self.t), None)),
            Arc::new(UInt16Array::new(scalars(&mut self.node), None)),
            Arc::new(UInt64Array::new(scalars(&mut self.packet_in), None)),
            Arc::new(UInt8Array::new(scalars(&mut self.action), None)),
            Arc::new(UInt64Array::new(scalars(&mut packet_out), out_nulls)),
            Arc::new(UInt8Array::new(scalars(&mut reason), reason_nulls)),
        ]
    }
}

/// Columns of `received`.
#[derive(Default)]
pub(super) struct ReceivedColumns {
    t_recv: Vec<i64>,
    packet: Vec<u64>,
    cluster: Vec<u16>,
    newest_worker: Vec<u32>,
    newest_seq: Vec<u32>,
    newest_gen: Vec<i64>,
    count: Vec<u16>,
    bytes: Vec<u32>,
    reward: Optional<f32>,
    accepted: Vec<bool>,
    sum_ok: Vec<u8>,
    node: Vec<u16>,
}

impl Columns for ReceivedColumns {
    type Row = Received;
    const NAME: &'static str = pktgen_generator::record::RECEIVED;

    fn schema() -> SchemaRef {
        received_schema()
    }

    #[inline]
    fn push(&mut self, row: &Received) {
        self.t_recv.push(row.t_recv);
        self.packet.push(row.packet.0);
        self.cluster.push(row.cluster);
        self.newest_worker.push(row.newest_worker);
        self.newest_seq.push(row.newest_seq);
        self.newest_gen.push(row.newest_gen);
        self.count.push(row.count);
        self.bytes.push(row.bytes);
        self.reward.push(row.reward);
        self.accepted.push(row.accepted);
        self.sum_ok.push(row.sum_ok as u8);
        self.node.push(row.node);
    }

    fn len(&self) -> usize {
        self.t_recv.len()
    }

    fn take(&mut self) -> Vec<ArrayRef> {
        let (mut reward, reward_nulls) = self.reward.take();
        let accepted = std::mem::take(&mut self.accepted);
        vec![
            Arc::new(Int64Array::new(scalars(&mut self.t_recv), None)),
            Arc::new(UInt64Array::new(scalars(&mut self.packet), None)),
            Arc::new(UInt16Array::new(scalars(&mut self.cluster), None)),
            Arc::new(UInt32Array::new(scalars(&mut self.newest_worker), None)),
            Arc::new(UInt32Array::new(scalars(&mut self.newest_seq), None)),
            Arc::new(Int64Array::new(scalars(&mut self.newest_gen), None)),
            Arc::new(UInt16Array::new(scalars(&mut self.count), None)),
            Arc::new(UInt32Array::new(scalars(&mut self.bytes), None)),
            Arc::new(Float32Array::new(scalars(&mut reward), reward_nulls)),
            Arc::new(BooleanArray::new(BooleanBuffer::from(accepted), None)),
            Arc::new(UInt8Array::new(scalars(&mut self.sum_ok), None)),
            Arc::new(UInt16Array::new(scalars(&mut self.node), None)),
        ]
    }
}
