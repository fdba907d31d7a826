//! The two streams of synchronous training: iterations of each worker, and the results that workers received.
//!
//! Called by [`crate::run`]; `metric/iterations.rs` and `metric/results.rs` read the columns. Iterations are always
//! complete; results are recorded as specified by `capture.records`.

use std::path::Path;

use pktgen_core::record::{ITERATIONS, Manifest, RESULTS};
use pktgen_core::{Error, Result};

use crate::table::Table;

/// The columns of `iterations` that are read.
const ITERATION_NAMES: [&str; 12] = [
    "t_start_ps",
    "t_ready_ps",
    "t_end_ps",
    "delay_ps",
    "worker",
    "job",
    "sent",
    "skipped",
    "degraded",
    "sources",
    "elements",
    "missed",
];
/// The columns of `results` that are read.
const RESULT_NAMES: [&str; 4] = ["t_recv_ps", "t_sent_ps", "degraded", "again"];

/// Columns of `iterations`, one entry per worker and iteration.
#[derive(Debug, Clone, Default)]
pub struct IterationColumns {
    /// Beginning of the iterations, with their computation.
    pub t_start_ps: Vec<i64>,
    /// Times at which the gradients were computed, including delays.
    pub t_ready_ps: Vec<i64>,
    /// Times at which the results of all blocks had arrived.
    pub t_end_ps: Vec<i64>,
    /// Delays of the worker as a straggler.
    pub delay_ps: Vec<i64>,
    /// Workers.
    pub worker: Vec<u32>,
    /// Their jobs.
    pub job: Vec<u16>,
    /// Numbers of blocks sent.
    pub sent: Vec<u32>,
    /// Numbers of blocks not sent, since their result had already arrived.
    pub skipped: Vec<u32>,
    /// Numbers of results that lacked sources.
    pub degraded: Vec<u32>,
    /// Total numbers of sources of all results.
    pub sources: Vec<u64>,
    /// Numbers of nonzero gradients contributed.
    pub elements: Vec<u64>,
    /// Whether all results arrived before the worker began, so that it computed nothing; of sums by key, whether a failed switch lost its pushes.
    pub missed: Vec<bool>,
}

/// Columns of `results`, one entry per result and worker.
#[derive(Debug, Clone, Default)]
pub struct ResultColumns {
    /// Times of the last bit.
    pub t_recv_ps: Vec<i64>,
    /// Times at which the worker sent its own contribution; `None` if it had not.
    pub t_sent_ps: Vec<Option<i64>>,
    /// Whether the result lacks sources.
    pub degraded: Vec<bool>,
    /// Whether the worker already had a result of this block.
    pub again: Vec<bool>,
}

/// Iterations and results.
#[derive(Debug, Clone, Default)]
pub struct Rounds {
    /// All iterations that ended.
    pub iterations: IterationColumns,
    /// Results of the recorded blocks; `None` if none were recorded (`records = "none"`).
    pub results: Option<ResultColumns>,
}

impl Rounds {
    /// Reads the streams of the run in `dir`; `None` unless it is synchronous training.
    pub(crate) fn read(dir: &Path, manifest: &Manifest) -> Result<Option<Rounds>> {
        if manifest.training.is_none() {
            return Ok(None);
        }
        let results = (manifest.records != "none").then(|| read_results(dir)).transpose()?;
        Ok(Some(Rounds { iterations: read_iterations(dir)?, results }))
    }
}

fn stream(dir: &Path, name: &str, columns: &[&'static str]) -> Result<Table> {
    let path = dir.join(format!("{name}.parquet"));
    if !path.exists() {
        let what = format!(
            "it is missing although the manifest describes a training; copy the whole run dir, {name} included"
        );
        return Err(Error::data(&path, what));
    }
    Table::read_stream(&path, name, columns)
}

fn read_iterations(dir: &Path) -> Result<IterationColumns> {
    let table = stream(dir, ITERATIONS, &ITERATION_NAMES)?;
    Ok(IterationColumns {
        t_start_ps: table.i64("t_start_ps")?,
        t_ready_ps: table.i64("t_ready_ps")?,
        t_end_ps: table.i64("t_end_ps")?,
        delay_ps: table.i64("delay_ps")?,
        worker: table.u32("worker")?,
        job: table.u16("job")?,
        sent: table.u32("sent")?,
        skipped: table.u32("skipped")?,
        degraded: table.u32("degraded")?,
        sources: table.u64("sources")?,
        elements: table.u64("elements")?,
        missed: table.bool("missed")?,
    })
}

fn read_results(dir: &Path) -> Result<ResultColumns> {
    let table = stream(dir, RESULTS, &RESULT_NAMES)?;
    Ok(ResultColumns {
        t_recv_ps: table.i64("t_recv_ps")?,
        t_sent_ps: table.i64_or_none("t_sent_ps")?,
        degraded: table.bool("degraded")?,
        again: table.bool("again")?,
    })
}

#[cfg(test)]
#[path = "rounds_tests.rs"]
mod tests;
