//! The columns of the streams in Arrow and Parquet files, and what they say.

use crate::arrow::datatypes::SchemaRef;

use crate::column::Data::{Boolean, Float32, Int64, ListUInt32, UInt8, UInt16, UInt32, UInt64};
use crate::column::{Column, Stream};

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
/// Stream name of the packets' names, where layouts carry none.
pub const NAMES: &str = "names";
/// Stream name of the payloads of what arrived, where sums are checked by lanes.
pub const PAYLOADS: &str = "payloads";
/// Stream name of the lanes of what arrived, where updates carry any.
pub const LANES: &str = "lanes";
/// Stream name of what the kernel or a card stamped, where it was asked for.
pub const STAMPS: &str = "stamps";
/// Version of all schemas; a reader refuses a newer one.
pub const SCHEMA_VERSION: u32 = 1;

const PS: &str = "ps";
const NS: &str = "ns";
const NUMBER: &str = "number";
const CODE: &str = "code";
const COUNT: &str = "count";
const BYTES: &str = "bytes";
const YES_NO: &str = "yes or no";
const REWARD: &str = "reward";

const JOB: Column = Column::new("cluster", UInt16, NUMBER, "Job of the worker.");
const WORKER: Column = Column::new("worker", UInt32, NUMBER, "Worker.");

static SENT_COLUMNS: [Column; 10] = [
    Column::new("t_gen_ps", Int64, PS, "When the update was generated, since the run's anchor."),
    Column::new("t_due_ps", Int64, PS, "When the schedule wanted it out."),
    Column::maybe("t_sent_ps", Int64, PS, "When its first bit left; empty where it was withheld or nobody can know."),
    Column::new(
        "cluster",
        UInt16,
        NUMBER,
        "The worker's cluster when it generated it; 65535 for traffic that belongs to none.",
    ),
    WORKER,
    Column::new("seq", UInt32, NUMBER, "Number of the update at its worker."),
    Column::new("attempt", UInt8, NUMBER, "0 for the first transmission, then 1, 2 and so on."),
    Column::maybe("block", UInt32, NUMBER, "Block or iteration, in synchronous systems."),
    Column::new("bytes", UInt32, BYTES, "Length of the frame."),
    Column::maybe("reward", Float32, REWARD, "Reward of the update; empty for traffic that carries none."),
];

static BOOKS_COLUMNS: [Column; 6] = [
    Column::new("t_ps", Int64, PS, "When it happened."),
    Column::new("node", UInt16, NUMBER, "Which device: index into `nodes` of the manifest."),
    Column::new(
        "packet_in",
        UInt64,
        NUMBER,
        "The packet whose fate the row tells: 24 bits of worker, 8 of attempt, 32 of sequence number.",
    ),
    Column::new("action", UInt8, CODE, "What happened to it: a code of the actions."),
    Column::maybe("packet_out", UInt64, NUMBER, "The packet that stands in its place or carries it now."),
    Column::maybe("reason", UInt8, CODE, "Why it was dropped: a code of the drop reasons; empty for other actions."),
];

static RECEIVED_COLUMNS: [Column; 13] = [
    Column::new("t_recv_ps", Int64, PS, "When its last bit arrived."),
    Column::new("packet", UInt64, NUMBER, "Which packet; an aggregate is known by its newest member."),
    Column::new(
        "cluster",
        UInt16,
        NUMBER,
        "The cluster whose age it refreshes; 65535 for traffic that belongs to none.",
    ),
    Column::new("newest_worker", UInt32, NUMBER, "Worker of the newest member."),
    Column::new(
        "newest_seq",
        UInt32,
        NUMBER,
        "Sequence number of the newest member. Of a sum by key: which part it is, and its highest bit where the part makes \
         the sum complete.",
    ),
    Column::new("newest_gen_ps", Int64, PS, "When the newest member was generated."),
    Column::new("count", UInt16, "updates", "How many updates its content represents."),
    Column::new("bytes", UInt32, BYTES, "Length of the frame."),
    Column::maybe("reward", Float32, REWARD, "Mean reward of the members, weighted by their counts."),
    Column::new("accepted", Boolean, YES_NO, "Did the server's reward gate accept it?"),
    Column::new("sum_ok", UInt8, CODE, "Is the payload the sum of the members, bit for bit? A code of `sum_ok`."),
    Column::new("node", UInt16, NUMBER, "Who received it: index into `nodes` of the manifest."),
    Column::maybe(
        "digest",
        UInt64,
        NUMBER,
        "Stands for the gradients, where sums are verified after the run (real time).",
    ),
];

static STATES_COLUMNS: [Column; 8] = [
    Column::new("t_ps", Int64, PS, "When."),
    WORKER,
    Column::new("active", UInt16, COUNT, "Active clusters, as the last ACK says; 0 before the first."),
    Column::new("capacity", UInt32, COUNT, "Slots of the queue, as the last ACK says."),
    Column::new("occupancy", UInt32, COUNT, "Slots of the queue that are in use, as the last ACK says."),
    Column::maybe("ack_age_ps", Int64, PS, "Time since the last ACK; empty before the first."),
    Column::maybe("p_send", Float32, "probability", "With which it sends; empty in a row about an ACK."),
    Column::maybe("sent", Boolean, YES_NO, "Did it send? Empty in a row about an ACK."),
];

static ITERATIONS_COLUMNS: [Column; 13] = [
    Column::new("t_start_ps", Int64, PS, "When it began: with its computation."),
    Column::new(
        "t_ready_ps",
        Int64,
        PS,
        "When the worker had computed its gradients, delays included, and began to send.",
    ),
    Column::new("t_end_ps", Int64, PS, "When it had the results of all blocks."),
    Column::new("delay_ps", Int64, PS, "For how long it was held up as a straggler."),
    WORKER,
    JOB,
    Column::new("iteration", UInt32, NUMBER, "Which iteration, from 0."),
    Column::new("sent", UInt32, COUNT, "Blocks that it sent."),
    Column::new("skipped", UInt32, COUNT, "Blocks that it did not send, since their result was there."),
    Column::new("degraded", UInt32, COUNT, "Results that lacked sources."),
    Column::new("sources", UInt64, COUNT, "Sources of all results together."),
    Column::new("elements", UInt64, COUNT, "Gradients other than 0 that it contributed."),
    Column::new("missed", Boolean, YES_NO, "It had all results when it wanted to begin, and computed nothing."),
];

static RESULTS_COLUMNS: [Column; 9] = [
    Column::new("t_recv_ps", Int64, PS, "When its last bit arrived."),
    Column::maybe(
        "t_sent_ps",
        Int64,
        PS,
        "When the worker sent its own contribution to the block; empty if it had not.",
    ),
    WORKER,
    JOB,
    Column::new("seq", UInt32, NUMBER, "The block, numbered over all iterations."),
    Column::new("packet", UInt64, NUMBER, "Which result: the packet under which the books know the aggregate."),
    Column::new("count", UInt16, COUNT, "Sources that it represents."),
    Column::new("degraded", Boolean, YES_NO, "Sources are missing."),
    Column::new("again", Boolean, YES_NO, "The worker had a result of this block already."),
];

static LANES_COLUMNS: [Column; 3] = [
    Column::new("t_recv_ps", Int64, PS, "When the packet's last bit arrived."),
    Column::new(
        "cluster",
        UInt16,
        NUMBER,
        "Its cluster, which its addresses tell; 65535 for traffic that belongs to none.",
    ),
    Column::new("words", ListUInt32, NUMBER, "Its lanes as they lay in it: the bits of f32s, or integers."),
];

static NAMES_COLUMNS: [Column; 3] = [
    Column::new("t_recv_ps", Int64, PS, "When the packet's last bit arrived."),
    Column::maybe("packet", UInt64, NUMBER, "The packet that holds the same; empty if none is known to."),
    Column::new("count", UInt16, COUNT, "Updates that it represents; 0 if that is not known."),
];

static PAYLOADS_COLUMNS: [Column; 3] = [
    Column::new("t_recv_ps", Int64, PS, "When the packet's last bit arrived."),
    Column::new("part", UInt16, NUMBER, "Which part of its payload, from 0: a packet may have several rows."),
    Column::new("words", ListUInt32, NUMBER, "Up to 64 gradients as they lay in it: the bits of f32s."),
];

static STAMPS_COLUMNS: [Column; 4] = [
    Column::new(
        "t_ps",
        Int64,
        PS,
        "When the packet had been read, or just before the call that sent it, by the run's clock.",
    ),
    Column::maybe(
        "packet",
        UInt64,
        NUMBER,
        "Which packet was received; an aggregate is known by its newest member. Empty for one that was sent.",
    ),
    Column::maybe(
        "received_ns",
        Int64,
        NS,
        "When it arrived, by the clock that `clocks` of the manifest names and `stamp_clocks` measures; empty if it was not stamped, or was sent.",
    ),
    Column::maybe(
        "sent_ns",
        Int64,
        NS,
        "When it left, by the clock that is named there; empty if it was not stamped, or was received.",
    ),
];

const SENT_STREAM: Stream = Stream { name: SENT, row: "one transmission of a worker", columns: &SENT_COLUMNS };
const BOOKS_STREAM: Stream =
    Stream { name: BOOKS, row: "what a device did; the order is that of events", columns: &BOOKS_COLUMNS };
const RECEIVED_STREAM: Stream =
    Stream { name: RECEIVED, row: "one packet at the parameter server", columns: &RECEIVED_COLUMNS };
const STATES_STREAM: Stream = Stream {
    name: STATES,
    row: "with `capture.states`: an ACK at a worker, or a decision of transmission control",
    columns: &STATES_COLUMNS,
};
const ITERATIONS_STREAM: Stream = Stream {
    name: ITERATIONS,
    row: "synchronous training: an iteration that ended, per worker",
    columns: &ITERATIONS_COLUMNS,
};
const RESULTS_STREAM: Stream =
    Stream { name: RESULTS, row: "synchronous training: a result at a worker", columns: &RESULTS_COLUMNS };

const LANES_STREAM: Stream = Stream {
    name: LANES,
    row: "with `format.lanes`: a packet of `received`, in the same order",
    columns: &LANES_COLUMNS,
};

const NAMES_STREAM: Stream = Stream {
    name: NAMES,
    row: "with strict layouts of OLAF: a packet of `received`, in the same order, as its content names it",
    columns: &NAMES_COLUMNS,
};

const PAYLOADS_STREAM: Stream = Stream {
    name: PAYLOADS,
    row: "with `format.lanes` and a device without books: part of the payload of a packet of `received`, in the same order",
    columns: &PAYLOADS_COLUMNS,
};

const STAMPS_STREAM: Stream = Stream {
    name: STAMPS,
    row: "with `transport.stamps`: a packet of `received`; with `transport.sent_stamps_every`: a marked frame of the workers",
    columns: &STAMPS_COLUMNS,
};

/// The streams of a run dir, each with its columns.
pub static STREAMS: [Stream; 10] = [
    SENT_STREAM,
    BOOKS_STREAM,
    RECEIVED_STREAM,
    STATES_STREAM,
    ITERATIONS_STREAM,
    RESULTS_STREAM,
    LANES_STREAM,
    PAYLOADS_STREAM,
    NAMES_STREAM,
    STAMPS_STREAM,
];

/// Columns of `sent`.
pub fn sent_schema() -> SchemaRef {
    SENT_STREAM.schema(SCHEMA_VERSION)
}

/// Columns of `books`. `action` and `reason` are the codes of [`super::Action`] and [`super::Reason`].
pub fn books_schema() -> SchemaRef {
    BOOKS_STREAM.schema(SCHEMA_VERSION)
}

/// Columns of `received`. `sum_ok` is the code of [`super::SumOk`].
pub fn received_schema() -> SchemaRef {
    RECEIVED_STREAM.schema(SCHEMA_VERSION)
}

/// Columns of `states`, one row per ACK at a worker and per update that it generated; see [`super::State`].
pub fn states_schema() -> SchemaRef {
    STATES_STREAM.schema(SCHEMA_VERSION)
}

/// Columns of `iterations`, one row per worker and iteration of synchronous training; see [`super::Iteration`].
pub fn iterations_schema() -> SchemaRef {
    ITERATIONS_STREAM.schema(SCHEMA_VERSION)
}

/// Columns of `results`, one row per result at a worker of synchronous training; see [`super::Reply`].
pub fn results_schema() -> SchemaRef {
    RESULTS_STREAM.schema(SCHEMA_VERSION)
}

/// Columns of `lanes`, one row per row of `received`; see [`super::LaneWords`].
pub fn lanes_schema() -> SchemaRef {
    LANES_STREAM.schema(SCHEMA_VERSION)
}

/// Columns of `names`, one row per row of `received`; see [`super::Name`].
pub fn names_schema() -> SchemaRef {
    NAMES_STREAM.schema(SCHEMA_VERSION)
}

/// Columns of `payloads`; see [`super::PayloadPart`].
pub fn payloads_schema() -> SchemaRef {
    PAYLOADS_STREAM.schema(SCHEMA_VERSION)
}

/// Columns of `stamps`; see [`super::Stamp`].
pub fn stamps_schema() -> SchemaRef {
    STAMPS_STREAM.schema(SCHEMA_VERSION)
}
