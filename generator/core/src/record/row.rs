//! The rows of a run's streams. Each column is declared once; struct, schema and writer are generated from it.

use crate::arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use crate::arrow::datatypes::{Int64Type, SchemaRef};
use crate::column::{Column, StreamTable};
use crate::time::Time;

use super::cell::{Cell, Words};
use super::code::{Action, Heat, Reason, SumOk};

/// Identifies one attempt of one update everywhere: in books, captures and balances.
///
/// 24 bits of worker, 8 of attempt, 32 of sequence number, so that any observer can compute it from
/// a packet's header. An aggregate has the id of its newest member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PacketId(pub u64);

impl PacketId {
    /// A packet that no worker sent, such as a copy made by the network.
    pub const NOBODY: PacketId = PacketId(u64::MAX);
    /// Maximum number of workers that ids can distinguish.
    pub const WORKERS_MAX: u32 = 1 << 24;

    /// Returns the id of this attempt.
    #[inline]
    pub const fn new(worker: u32, seq: u32, attempt: u8) -> Self {
        PacketId((worker as u64) << 40 | (attempt as u64) << 32 | seq as u64)
    }

    /// Returns the worker that sent it.
    #[inline]
    pub const fn worker(self) -> u32 {
        (self.0 >> 40) as u32
    }

    /// Returns its sequence number.
    #[inline]
    pub const fn seq(self) -> u32 {
        self.0 as u32
    }

    /// Returns the attempt: 0 for the first transmission.
    #[inline]
    pub const fn attempt(self) -> u8 {
        (self.0 >> 32) as u8
    }
}

/// The cluster of traffic that belongs to no cluster.
pub const NO_CLUSTER: u16 = u16::MAX;

/// Stream of transmissions of workers; the file is `sent.parquet`.
pub const SENT: &str = "sent";
/// Stream of device actions.
pub const BOOKS: &str = "books";
/// Stream of packets at the parameter server.
pub const RECEIVED: &str = "received";
/// Stream of the states and decisions of workers, if requested.
pub const STATES: &str = "states";
/// Stream of the iterations of synchronous training.
pub const ITERATIONS: &str = "iterations";
/// Stream of the results that workers of synchronous training received.
pub const RESULTS: &str = "results";
/// Stream of packet ids derived from content, where layouts carry no ids.
pub const NAMES: &str = "names";
/// Stream of the payloads of received packets, where sums are checked by lanes.
pub const PAYLOADS: &str = "payloads";
/// Stream of the lanes of received packets, where updates carry any.
pub const LANES: &str = "lanes";
/// Stream of stamps of the kernel or a card, if requested.
pub const STAMPS: &str = "stamps";
/// Stream of control changes during a run, if there were any.
pub const CONTROLS: &str = "controls";
/// Version of all schemas; a reader refuses a newer one.
pub const SCHEMA_VERSION: u32 = 2;

const PS: &str = "ps";
const NS: &str = "ns";
const NUMBER: &str = "number";
const CODE: &str = "code";
const COUNT: &str = "count";
const BYTES: &str = "bytes";
const YES_NO: &str = "yes or no";
const REWARD: &str = "reward";

/// A row of a stream.
pub trait Row: Copy + Send + 'static {
    /// The stream.
    const STREAM: StreamTable;
    /// Time columns, by which streams of several writers are merged: a row without a value in the first is ordered by the next.
    const ORDER: &'static [&'static str];

    /// Returns the columns of these rows, in the schema's order.
    fn arrays(rows: &[Self]) -> Vec<ArrayRef>;

    /// Returns the columns in files.
    fn schema() -> SchemaRef {
        Self::STREAM.schema(SCHEMA_VERSION)
    }

    /// Returns the times of the rows of a batch; `None` if it is not of this stream.
    fn times(batch: &RecordBatch) -> Option<Int64Array> {
        let mut columns = Self::ORDER.iter().map(|name| batch.column_by_name(name)?.as_primitive_opt::<Int64Type>());
        let first = columns.next()??.clone();
        columns
            .try_fold(first, |known, next| Some(known.iter().zip(next?).map(|(known, next)| known.or(next)).collect()))
    }
}

macro_rules! rows {
    ($(
        $(#[$meta:meta])*
        $row:ident = $name:ident, $what:literal, ordered by $($order:literal),+ {
            $($field:ident: $cell:ty as $column:literal in $unit:expr, $about:literal;)+
        }
    )+) => {
        $(
            $(#[$meta])*
            #[derive(Debug, Clone, Copy, PartialEq)]
            pub struct $row {
                $(#[doc = $about] pub $field: $cell,)+
            }

            impl Row for $row {
                const STREAM: StreamTable = StreamTable {
                    name: $name,
                    row: $what,
                    columns: &[$(Column {
                        name: $column,
                        data: <$cell as Cell>::DATA,
                        optional: <$cell as Cell>::OPTIONAL,
                        unit: $unit,
                        about: $about,
                    }),+],
                };
                const ORDER: &'static [&'static str] = &[$($order),+];

                fn arrays(rows: &[$row]) -> Vec<ArrayRef> {
                    vec![$(<$cell as Cell>::array(rows.iter().map(|row| &row.$field))),+]
                }
            }
        )+

        /// The streams of a run dir, each with its columns.
        pub static STREAMS: [StreamTable; [$($name),+].len()] = [$(<$row as Row>::STREAM),+];
    };
}

rows! {
    /// One transmission by a worker.
    Sent = SENT, "one transmission of a worker", ordered by "t_sent_ps", "t_due_ps" {
        t_gen: Time as "t_gen_ps" in PS, "When the update was generated, since the run's anchor.";
        t_due: Time as "t_due_ps" in PS, "When the schedule wanted it out.";
        t_sent: Option<Time> as "t_sent_ps" in PS,
            "When its first bit left, or would have left if the run was cut before; empty if it was withheld or that is unknown.";
        cluster: Option<u16> as "cluster" in NUMBER,
            "The worker's cluster when it generated it; 65535 for traffic that belongs to none. Empty in training.";
        job: Option<u16> as "job" in NUMBER, "Job of the worker, in training.";
        worker: u32 as "worker" in NUMBER, "Worker.";
        seq: u32 as "seq" in NUMBER, "Number of the update at its worker.";
        attempt: u8 as "attempt" in NUMBER, "0 for the first transmission, then 1, 2 and so on.";
        block: Option<u32> as "block" in NUMBER, "Block or iteration, in synchronous systems.";
        bytes: u32 as "bytes" in BYTES, "Length of the frame.";
        reward: Option<f32> as "reward" in REWARD, "Reward of the update; empty for traffic that carries none.";
        heat: Option<Heat> as "heat" in CODE, "Are its pairs summed on the way, or by the server? A code of `heat`; empty unless sums are by key.";
    }

    /// One line of a device's books.
    Book = BOOKS, "what a device did; the order is that of events", ordered by "t_ps" {
        t: Time as "t_ps" in PS, "When it happened.";
        node: u16 as "node" in NUMBER, "Which device: index into `nodes` of the manifest.";
        packet_in: PacketId as "packet_in" in NUMBER,
            "The packet whose fate the row records: 24 bits of worker, 8 of attempt, 32 of sequence number.";
        action: Action as "action" in CODE, "What happened to it: a code of the actions.";
        packet_out: Option<PacketId> as "packet_out" in NUMBER, "The packet that stands in its place or carries it now.";
        reason: Option<Reason> as "reason" in CODE, "Why it was dropped: a code of the drop reasons; empty for other actions.";
    }

    /// One packet at the parameter server.
    Received = RECEIVED, "one packet at the parameter server", ordered by "t_recv_ps" {
        t_recv: Time as "t_recv_ps" in PS, "When its last bit arrived.";
        packet: PacketId as "packet" in NUMBER,
            "Which packet. An aggregate is known by its newest member; in training by the packet that opened the sum (Trio-ML, Libra), that of its lowest worker (SwitchML; on wires with retransmissions its first transmission), or the one that carries the sum (ATP).";
        cluster: Option<u16> as "cluster" in NUMBER,
            "The cluster whose age it refreshes; 65535 for traffic that belongs to none. Empty in training.";
        job: Option<u16> as "job" in NUMBER, "The job whose sum it is, or of whose worker, in training.";
        newest_worker: u32 as "newest_worker" in NUMBER, "Worker of the newest member; in training, of `packet`.";
        newest_seq: u32 as "newest_seq" in NUMBER, "Sequence number of the newest member; in training, of `packet`.";
        newest_gen: Time as "newest_gen_ps" in PS,
            "When the newest member was generated; 0 in training: results carry no generation time. When it arrived if no id is on the wire: take `names`.";
        count: u16 as "count" in "updates", "How many updates its content represents.";
        bytes: u32 as "bytes" in BYTES, "Length of the frame.";
        reward: Option<f32> as "reward" in REWARD, "Mean reward of the members, weighted by their counts.";
        accepted: bool as "accepted" in YES_NO,
            "Did its receiver take its content? Not if the server's reward gate refuses it or, in training, if some of it had arrived before or it came too late.";
        sum_ok: SumOk as "sum_ok" in CODE, "Is the payload the sum of the members, bit for bit? A code of `sum_ok`.";
        node: u16 as "node" in NUMBER, "Who received it: index into `nodes` of the manifest.";
        digest: Option<u64> as "digest" in NUMBER, "Stands for the gradients, where sums are verified after the run (real time).";
        heat: Option<Heat> as "heat" in CODE, "Were its pairs summed on the way? A code of `heat`; empty unless sums are by key.";
        part: Option<u32> as "part" in NUMBER, "Which part of a sum by key it is, from 0; empty of packets that are no parts.";
        last: Option<bool> as "last" in YES_NO, "Does a worker have all of the sum with it? Empty of packets that are no parts.";
    }

    /// What a worker under transmission control knew and did (OLAF §5): one row per ACK and per generated update.
    State = STATES, "with `capture.states`: an ACK at a worker, or a decision of transmission control", ordered by "t_ps" {
        t: Time as "t_ps" in PS, "When.";
        worker: u32 as "worker" in NUMBER, "Worker.";
        active: u16 as "active" in COUNT, "Active clusters, as the last ACK says; 0 before the first.";
        capacity: u32 as "capacity" in COUNT, "Slots of the queue, as the last ACK says.";
        occupancy: u32 as "occupancy" in COUNT, "Slots of the queue that are in use, as the last ACK says.";
        ack_age: Option<Time> as "ack_age_ps" in PS, "Time since the last ACK; empty before the first.";
        p_send: Option<f32> as "p_send" in "probability", "With which it sends; empty in a row about an ACK.";
        sent: Option<bool> as "sent" in YES_NO, "Did it send? Empty in a row about an ACK.";
    }

    /// What an iteration was to a worker of synchronous training.
    Iteration = ITERATIONS, "synchronous training: an iteration that ended, per worker", ordered by "t_start_ps" {
        t_start: Time as "t_start_ps" in PS, "When it began: with its computation.";
        t_ready: Time as "t_ready_ps" in PS, "When the worker had computed its gradients, delays included, and began to send.";
        t_end: Time as "t_end_ps" in PS, "When it had the results of all blocks.";
        delay: Time as "delay_ps" in PS, "For how long it was held up as a straggler.";
        worker: u32 as "worker" in NUMBER, "Worker.";
        job: u16 as "job" in NUMBER, "Job of the worker.";
        iteration: u32 as "iteration" in NUMBER, "Which iteration, from 0.";
        sent: u32 as "sent" in COUNT, "Blocks that it sent.";
        skipped: u32 as "skipped" in COUNT, "Blocks that it did not send, since their result was there.";
        degraded: u32 as "degraded" in COUNT, "Results that lacked sources.";
        sources: u64 as "sources" in COUNT, "Sources of all results together.";
        elements: u64 as "elements" in COUNT, "Gradients other than 0 that it contributed; of sparse models all pairs.";
        missed: bool as "missed" in YES_NO,
            "It had all results when it wanted to begin, and computed nothing; of sums by key, it pushed, but its results had no sum, since a switch that failed had added its pushes.";
    }

    /// A result that a worker of synchronous training got.
    Reply = RESULTS, "synchronous training: a result at a worker", ordered by "t_recv_ps" {
        t_recv: Time as "t_recv_ps" in PS, "When its last bit arrived.";
        t_sent: Option<Time> as "t_sent_ps" in PS,
            "When the worker sent its own contribution to the block; empty if it had not, or has left the iteration.";
        worker: u32 as "worker" in NUMBER, "Worker.";
        job: u16 as "job" in NUMBER, "Job of the worker.";
        seq: u32 as "seq" in NUMBER, "The block, numbered over all iterations.";
        packet: PacketId as "packet" in NUMBER, "Which result: the packet under which the books know the aggregate; of SwitchML on wires with retransmissions its first transmission.";
        count: u16 as "count" in COUNT, "Sources that it represents.";
        degraded: bool as "degraded" in YES_NO, "Sources are missing.";
        again: bool as "again" in YES_NO, "The worker had a result of this block already.";
    }

    /// The lanes of a packet that arrived.
    LaneWords = LANES, "with `format.lanes`: a packet of `received`, in the same order", ordered by "t_recv_ps" {
        t_recv: Time as "t_recv_ps" in PS, "When the packet's last bit arrived.";
        cluster: Option<u16> as "cluster" in NUMBER,
            "Its cluster, which its addresses tell; 65535 for traffic that belongs to none. Empty in training.";
        job: Option<u16> as "job" in NUMBER, "The job whose sum it is, in training.";
        words: Words as "words" in NUMBER, "Its lanes as they lay in it: the bits of f32s, or integers.";
    }

    /// Part of the payload of a packet that arrived.
    PayloadPart = PAYLOADS, "with `format.lanes` and a device without books: part of the payload of a packet of `received`, in the same order", ordered by "t_recv_ps" {
        t_recv: Time as "t_recv_ps" in PS, "When the packet's last bit arrived.";
        part: u16 as "part" in NUMBER, "Which part of its payload, from 0: a packet may have several rows.";
        words: Words as "words" in NUMBER, "Up to 64 gradients as they lay in it: the bits of f32s.";
    }

    /// The name of a packet that arrived without one, as its content tells it.
    Name = NAMES, "with strict layouts of OLAF: a packet of `received`, in the same order, as its content names it", ordered by "t_recv_ps" {
        t_recv: Time as "t_recv_ps" in PS, "When the packet's last bit arrived.";
        packet: Option<PacketId> as "packet" in NUMBER, "The packet that holds the same; empty if none is known to.";
        count: u16 as "count" in COUNT, "Updates that it represents; 0 if that is not known.";
    }

    /// A change of a run in progress.
    SteeredRow = CONTROLS, "a run that was steered: a change, as `pktgen control` or a key asked for it", ordered by "t_ps" {
        t: Time as "t_ps" in PS, "When it was asked for.";
        applied: Time as "applied_ps" in PS, "From when on it is in force.";
        schedule: Option<Time> as "schedule_ps" in PS,
            "Time of the schedule then: what is scheduled from there on is due, and generated, as the row says. Empty of workers that react.";
        held: bool as "held" in YES_NO, "Do workers send nothing from then on?";
        speed: Option<f32> as "speed" in "ratio", "How fast the schedule goes when it is not held, against the experiment. Empty of workers that react.";
        pps: Option<f32> as "pps" in "packets/s", "Mean rate that follows from it, or the cap of workers that react; empty where there is none.";
        reset: bool as "reset" in YES_NO, "Were live counters reset?";
        stopped: bool as "stopped" in YES_NO, "Was the run ended?";
    }

    /// A packet that should have been stamped.
    Stamp = STAMPS, "with `transport.stamps`: a packet of `received`; with `transport.sent_stamps_every`: a marked frame of the workers", ordered by "t_ps" {
        t: Time as "t_ps" in PS, "When the packet had been read, or just before the call that sent it, by the run's clock.";
        packet: Option<PacketId> as "packet" in NUMBER,
            "Which packet was received, as in `received`. Empty for one that was sent.";
        received_ns: Option<i64> as "received_ns" in NS,
            "When it arrived, by the clock that `clocks` of the manifest names and `stamp_clocks` measures; empty if it was \
             not stamped, or was sent.";
        sent_ns: Option<i64> as "sent_ns" in NS,
            "When it left, by the clock that is named there; empty if it was not stamped, or was received.";
    }
}

impl Sent {
    /// Returns its cluster or job.
    #[inline]
    pub fn tenant(&self) -> u16 {
        self.cluster.or(self.job).unwrap_or(NO_CLUSTER)
    }
}

impl Received {
    /// Returns its cluster or job.
    #[inline]
    pub fn tenant(&self) -> u16 {
        self.cluster.or(self.job).unwrap_or(NO_CLUSTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_ids_hold_their_parts() {
        let id = PacketId::new(PacketId::WORKERS_MAX - 1, u32::MAX, 255);
        assert_eq!((id.worker(), id.seq(), id.attempt()), (PacketId::WORKERS_MAX - 1, u32::MAX, 255));
        assert_eq!(PacketId::new(1, 2, 3), PacketId((1 << 40) | (3 << 32) | 2));
    }
}
