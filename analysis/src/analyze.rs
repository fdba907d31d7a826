//! From a run dir to lines: opens it, resolves fates and ages once, and asks every metric.
//!
//! Called by the CLI's `analyze` and by [`crate::sweep`].

use std::path::Path;

use pktgen_generator::Result;
use pktgen_generator::record::{Balance, Manifest};

use crate::age::{AgeOf, Ages};
use crate::fates::{Fates, is_update};
use crate::line::Line;
use crate::metric::METRICS;
use crate::run::{Records, RunData};

/// Choices of an analysis.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Which member's generation time an aggregate carries.
    pub age_of: AgeOf,
}

/// What the streams of a run say, resolved.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// The streams.
    pub records: Records,
    /// What became of every packet.
    pub fates: Fates,
    /// Ages of all flows.
    pub ages: Ages,
}

/// A run, ready for metrics.
#[derive(Debug, Clone)]
pub struct Analysis {
    /// The manifest.
    pub manifest: Manifest,
    /// The resolved streams; none unless every transmission was recorded.
    pub resolved: Option<Resolved>,
}

impl Analysis {
    /// Resolves `run`.
    pub fn new(run: RunData, options: Options) -> Result<Analysis> {
        let resolve = |records: Records| -> Result<Resolved> {
            let fates = Fates::resolve(&records);
            let ages = Ages::compute(&records, &fates, options.age_of)?;
            Ok(Resolved { records, fates, ages })
        };
        Ok(Analysis { manifest: run.manifest, resolved: run.records.map(resolve).transpose()? })
    }

    /// Opens and resolves the run in `dir`.
    pub fn open(dir: &Path, options: Options) -> Result<Analysis> {
        Analysis::new(RunData::open(dir)?, options)
    }

    /// All lines of all metrics, in the order of [`METRICS`].
    pub fn lines(&self) -> Result<Vec<Line>> {
        let mut out = Vec::new();
        for metric in METRICS {
            metric.compute(self, &mut out)?;
        }
        Ok(out)
    }

    /// The balance of updates: from the records where there are any, else from the manifest.
    pub fn balance(&self) -> Balance {
        match &self.resolved {
            Some(resolved) => resolved.fates.balance_of(|packet| is_update(resolved.records.sent.cluster[packet])),
            None => self.manifest.balance.clone(),
        }
    }
}

/// All metrics of the run in `dir`, with default options.
pub fn analyze_run(dir: &Path) -> Result<Vec<Line>> {
    analyze_run_with(dir, Options::default())
}

/// All metrics of the run in `dir`.
pub fn analyze_run_with(dir: &Path, options: Options) -> Result<Vec<Line>> {
    Analysis::open(dir, options)?.lines()
}
