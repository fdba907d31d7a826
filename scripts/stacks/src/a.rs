pub use polars::prelude;
use std::path::Path;

use polars::prelude::*;

/// By the streaming engine, or that in memory.
pub fn run(folder: &Path, how: &str) -> DataFrame {
    let engine = if how == "memory" { Engine::InMemory } else { Engine::Streaming };
    let scan = |name: &str| {
        let path = folder.join(name);
        LazyFrame::scan_parquet(PlRefPath::new(path.to_str().expect("text")), Default::default()).expect("a scan")
    };
    let found = crate::query(scan("sent.parquet"), scan("received.parquet")).collect_with_engine(engine);
    found.expect("a result").unwrap_single()
}
