//! Checks whether a scaled trace has the properties of its original: statistics of both traces side by side, each with a limit.
//!
//! Called by `pktgen trace check ORIGINAL SCALED`. One file per property; [`FAITHFUL`] lists them, and docs/traces.md
//! explains what each measures and the source of its limit. [`sample`] is the data read from a trace, `text` the table.

mod autocorrelation;
mod burstiness;
mod correlation;
mod gaps;
mod keys;
mod pace;
mod rates;
mod rewards;
pub mod sample;
mod text;
mod values;

use std::path::Path;

use pktgen_core::Result;
use pktgen_core::registry::Named;
use serde::Serialize;

use pktgen_records::stats::median;
use sample::Sample;

/// A property that a scaled trace should share with its original.
pub trait TraceProperty: Named + Sync {
    /// Compares the two traces: one finding per statistic.
    fn compare(&self, original: &Sample, scaled: &Sample) -> Vec<PropertyFinding>;
}

/// All properties, in the order of the table.
pub static FAITHFUL: &[&dyn TraceProperty] = &[
    &gaps::Gaps,
    &autocorrelation::Autocorrelation,
    &burstiness::Burstiness,
    &pace::Pace,
    &correlation::Correlation,
    &rates::Rates,
    &rewards::Rewards,
    &values::Values,
    &keys::Keys,
];

/// Whether a property was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PropertyOutcome {
    /// Within the limit.
    Pass,
    /// Beyond the limit, or the scaled trace has nothing to compare.
    Fail,
    /// The original lacks the property.
    NotApplicable,
}

/// One statistic of one property.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PropertyFinding {
    /// Name of the property.
    pub property: &'static str,
    /// What was measured, or why nothing was.
    pub statistic: String,
    /// The difference; `None` if it was not measured.
    pub value: Option<f64>,
    /// The largest difference that passes.
    pub limit: Option<f64>,
    /// The verdict.
    pub outcome: PropertyOutcome,
}

impl PropertyFinding {
    fn judged(property: &dyn Named, statistic: &str, value: f64, limit: f64) -> PropertyFinding {
        // NaN does not pass.
        let outcome = if value <= limit { PropertyOutcome::Pass } else { PropertyOutcome::Fail };
        let (value, limit) = (Some(value), Some(limit));
        PropertyFinding { property: property.name(), statistic: statistic.to_owned(), value, limit, outcome }
    }

    fn unmeasured(property: &dyn Named, why: &str, outcome: PropertyOutcome) -> PropertyFinding {
        PropertyFinding { property: property.name(), statistic: why.to_owned(), value: None, limit: None, outcome }
    }

    /// Returns the finding for a property that the original lacks.
    fn not_applicable(property: &dyn Named, why: &str) -> PropertyFinding {
        PropertyFinding::unmeasured(property, why, PropertyOutcome::NotApplicable)
    }

    /// Returns the finding for a property that only the original has.
    fn lost(property: &dyn Named, why: &str) -> PropertyFinding {
        PropertyFinding::unmeasured(property, why, PropertyOutcome::Fail)
    }
}

/// Size of a trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Size {
    /// Number of workers.
    pub workers: usize,
    /// Number of updates.
    pub updates: usize,
}

/// Comparison of a scaled trace with its original.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fidelity {
    /// Size of the original.
    pub original: Size,
    /// Size of the scaled trace.
    pub scaled: Size,
    /// Factor by which times were scaled: the ratio of the medians of the workers' mean gaps. All statistics are
    /// relative to mean gaps and independent of it.
    pub time_factor: Option<f64>,
    /// All findings, in the order of [`FAITHFUL`].
    pub findings: Vec<PropertyFinding>,
    /// Whether none failed.
    pub passed: bool,
}

/// Reads two traces and compares them; fails if a file is not a valid trace.
pub fn compare(original: &Path, scaled: &Path) -> Result<Fidelity> {
    Ok(compare_samples(&Sample::read(original)?, &Sample::read(scaled)?))
}

/// Compares two samples.
pub fn compare_samples(original: &Sample, scaled: &Sample) -> Fidelity {
    let size = |sample: &Sample| Size { workers: sample.workers.len(), updates: sample.updates() };
    let gap = |sample: &Sample| median(&sample.workers.iter().filter_map(|own| own.mean_gap()).collect::<Vec<_>>());
    let findings: Vec<_> = FAITHFUL.iter().flat_map(|property| property.compare(original, scaled)).collect();
    Fidelity {
        original: size(original),
        scaled: size(scaled),
        time_factor: gap(original).zip(gap(scaled)).map(|(original, scaled)| scaled / original),
        passed: findings.iter().all(|finding| finding.outcome != PropertyOutcome::Fail),
        findings,
    }
}
