//! The parts of arrow-rs that this workspace uses, under the module names of the crate `arrow`.
//!
//! `arrow` itself also builds kernels for casts, sorting, arithmetic and text; nothing here calls them, and they take
//! longer to build than all crates of this workspace. All of these import arrow from here.

pub use arrow_buffer as buffer;
pub use arrow_ipc as ipc;

/// Arrays, their builders, and batches of them.
pub mod array {
    pub use arrow_array::ArrowNativeTypeOp;
    pub use arrow_array::array::*;
    pub use arrow_array::builder::*;
    pub use arrow_array::cast::{self, AsArray};
    pub use arrow_array::{RecordBatch, RecordBatchOptions, RecordBatchReader};
}

/// Types of columns, and of their cells.
pub mod datatypes {
    pub use arrow_array::types::*;
    pub use arrow_buffer::ArrowNativeType;
    pub use arrow_schema::*;
}

/// Errors of arrow.
pub mod error {
    pub use arrow_schema::ArrowError;
}

/// The kernels in use.
pub mod compute {
    pub use arrow_select::concat::concat_batches;
    pub use arrow_select::interleave::interleave_record_batch;
}
