use std::fs::File;
use std::path::Path;

use polars_io::prelude::{ParquetReader, SerReader};
use prelude::*;

pub mod prelude {
    pub use polars_core::prelude::*;
    pub use polars_lazy::dsl::*;
    pub use polars_lazy::prelude::*;
}

/// Whole columns in memory.
pub fn run(folder: &Path, _how: &str) -> DataFrame {
    let read = |name: &str, columns: &[&str]| {
        let columns = columns.iter().map(|name| (*name).to_owned()).collect();
        let file = File::open(folder.join(name)).expect("a file");
        ParquetReader::new(file).with_columns(Some(columns)).finish().expect("a frame").lazy()
    };
    let sent = read("sent.parquet", &["packet", "t_gen_ps", "cluster", "bytes"]);
    crate::query(sent, read("received.parquet", &["packet", "t_recv_ps"])).collect().expect("a result")
}
