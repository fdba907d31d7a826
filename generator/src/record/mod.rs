//! What a run leaves behind: the three streams, the fates and the manifest.
//!
//! A fourth, [`State`], says what workers under transmission control knew, where a run asks for it.
//! Three streams, each written by who knows (design §5): [`Sent`] by the workers, [`Book`] by each
//! software device, [`Received`] by the parameter server. Analysis resolves every update's fate from
//! them. The rows are plain structs here; `schema` gives their columns in files.

mod manifest;
mod row;
mod schema;

pub use manifest::{
    Balance, Counters, Group, MANIFEST_VERSION, Manifest, Published, ReportPlan, RunState, SweepManifest, SweepRun,
    Validity,
};
pub use row::{Action, Book, NO_CLUSTER, PacketId, Reason, Received, Sent, State, SumOk};
pub use schema::{
    BOOKS, RECEIVED, SCHEMA_VERSION, SENT, STATES, books_schema, received_schema, sent_schema, states_schema,
};
