//! The content of a run dir: the streams, the fates and the manifest.
//!
//! Three streams, each written by its source (design §5): [`Sent`] by the workers, [`Book`] by each software device,
//! [`Received`] by the parameter server. Analysis derives every update's fate from them. A fourth, [`State`], holds the
//! state of workers under transmission control, if requested. Synchronous training adds [`Iteration`]s, and [`Reply`]s:
//! the results at each worker. Each row is a plain struct whose fields are the columns in files.

mod cell;
mod code;
mod counter;
pub mod digest;
mod end;
mod interface;
pub mod lanes;
mod load;
mod manifest;
mod older;
mod published;
mod row;
mod shard;
mod stamps;
mod verdict;

pub use cell::{Cell, LANES_MAX, Words};
pub use code::{Action, Heat, Reason, SumOk};
pub use counter::{Counter, CounterRule, REQUESTS_RESENT, RESULTS_AGAIN, RESULTS_LATE};
pub use digest::{FileDigest, FileDigests, Hashing, Verified, hex};
pub use end::EndCounts;
pub use interface::InterfaceCounts;
pub use load::{AckCopies, CarriedBits, DeviceLoad};
pub use manifest::{
    Answers, Balance, Counters, Family, Group, LinkLoad, MANIFEST_VERSION, Manifest, PacingCounts, Planned,
    QueueCounts, Rank, ReportPlan, RunState, SweepManifest, SweepRun, Training,
};
pub use older::Edition;
pub use published::{Bound, Published};
pub use row::{
    BOOKS, Book, CONTROLS, ITERATIONS, Iteration, LANES, LaneWords, NAMES, NO_CLUSTER, Name, PAYLOADS, PacketId,
    PayloadPart, RECEIVED, RESULTS, Received, Reply, Row, SCHEMA_VERSION, SENT, STAMPS, STATES, STREAMS, Sent, Stamp,
    State, SteeredRow,
};
pub use shard::{PLANNED, SweepShard, plan_hash};
pub use stamps::{STAMPS_RECEIVED, STAMPS_SENT, StampClock};
pub use verdict::{
    CHECKSUMS_WRONG, Facts, Fault, Incidents, LOCKSTEP_COUNTER, Note, UDP_CHECKSUM_ERRORS, Unseen, Validity,
    WAITS_FOR_ALL, WIRES_CHECKSUMS_WRONG, judge,
};
