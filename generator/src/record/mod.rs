//! What a run leaves behind: the three streams, the fates and the manifest.
//!
//! A fourth, [`State`], says what workers under transmission control knew, where a run asks for it. Synchronous
//! training adds [`Iteration`]s, and [`Reply`]s: the results as each worker got them.
//! Three streams, each written by who knows (design §5): [`Sent`] by the workers, [`Book`] by each
//! software device, [`Received`] by the parameter server. Analysis resolves every update's fate from
//! them. The rows are plain structs here; `schema` gives their columns in files.

pub mod digest;
mod interface;
mod manifest;
mod row;
mod schema;
mod shard;
mod stamps;
mod verdict;

pub use digest::{FileDigest, FileDigests, Hashing, Verified};
pub use interface::InterfaceCounts;
pub use manifest::{
    Answers, Balance, Bound, Counters, Group, LinkLoad, MANIFEST_VERSION, Manifest, Planned, Published, QueueCounts,
    Rank, ReportPlan, RunState, SweepManifest, SweepRun, Training,
};
pub use row::{
    Action, Book, Iteration, LaneWords, NO_CLUSTER, Name, PacketId, PayloadPart, Reason, Received, Reply, Sent, State,
    SumOk,
};
pub use schema::{
    BOOKS, ITERATIONS, LANES, NAMES, PAYLOADS, RECEIVED, RESULTS, SCHEMA_VERSION, SENT, STAMPS, STATES, STREAMS,
    books_schema, iterations_schema, lanes_schema, names_schema, payloads_schema, received_schema, results_schema,
    sent_schema, stamps_schema, states_schema,
};
pub use shard::{PLANNED, SweepShard, plan_hash};
pub use stamps::{STAMPS_RECEIVED, STAMPS_SENT, Stamp, StampClock};
pub use verdict::{Facts, Fault, Incidents, Note, Unseen, Validity, judge};
