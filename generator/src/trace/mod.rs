//! Traces in files: Parquet with a known schema and a manifest beside it.
//!
//! [`write`] and [`read`] stream record batches, so that traces larger than memory pass through; a
//! [`TraceManifest`] says where a trace comes from. `scale` makes other sizes and rates of a trace, `convert` takes
//! foreign files, `check` distrusts.

mod check;
mod convert;
mod manifest;
mod read;
mod scale;
mod schema;
mod write;

pub use check::{check, info, Info};
pub use convert::convert;
pub use manifest::{file_hash, hex, manifest_path, TraceManifest};
pub use read::{Block, Reader};
pub use scale::{scale, Scaling};
pub use schema::{trace_schema, TRACE_VERSION};
pub use write::{synthesise, Writer};
