//! Traces in files: Parquet with a known schema and a manifest beside it.
//!
//! [`write`] and [`read`] stream record batches, so that traces larger than memory pass through; a
//! [`TraceManifest`] says where a trace comes from. `scale` makes other sizes and rates of a trace, `import` takes
//! files of other tools, `check` validates; `rules` says what every trace must be, `stretch` scales times exactly.

mod check;
mod import;
mod manifest;
mod read;
mod rules;
mod scale;
mod schema;
mod stretch;
mod write;

pub use check::{Info, check, info};
pub use import::{IMPORTERS, ImportOptions, Importer, convert, recognise};
pub use manifest::TraceManifest;
pub(crate) use manifest::file_hash;
pub use read::{Block, Reader};
pub use rules::FRAME_BYTES;
pub(crate) use rules::{Rules, frame_of};
pub use scale::{ScalePlan, scale};
pub use schema::{TRACE, TRACE_VERSION};
pub(crate) use stretch::Stretch;
pub use write::{Writer, synthesise};
