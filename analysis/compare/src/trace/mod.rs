//! Did scaling a trace keep what matters? Statistics of two traces side by side, each with a limit.
//!
//! Called by `pktgen trace check ORIGINAL SCALED`. One file per property; [`FAITHFUL`] lists them, docs/traces.md says what
//! each measures and where its limit comes from. [`sample`] is what is read of a trace, `text` the table.

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

/// What a scaled trace should have in common with its original.
pub trait TraceProperty: Named + Sync {
    /// Compares the two: one finding per statistic.
    fn compare(&self, original: &Sample, scaled: &Sample) -> Vec<PropertyFinding>;
}

/// Every property, in the order of the table.
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
    /// Beyond it, or there is nothing left to compare.
    Fail,
    /// The original has nothing to compare with: neither kept nor lost.
    NotApplicable,
}

/// One statistic of one property.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PropertyFinding {
    /// Name of the property.
    pub property: &'static str,
    /// What was measured; why not, if it was not.
    pub statistic: String,
    /// The difference; none if it was not measured.
    pub value: Option<f64>,
    /// The largest that passes.
    pub limit: Option<f64>,
    /// The verdict.
    pub outcome: PropertyOutcome,
}

impl PropertyFinding {
    fn judged(property: &dyn Named, statistic: &str, value: f64, limit: f64) -> PropertyFinding {
        // What is no number has not passed.
        let outcome = if value <= limit { PropertyOutcome::Pass } else { PropertyOutcome::Fail };
        let (value, limit) = (Some(value), Some(limit));
        PropertyFinding { property: property.name(), statistic: statistic.to_owned(), value, limit, outcome }
    }

    fn unmeasured(property: &dyn Named, why: &str, outcome: PropertyOutcome) -> PropertyFinding {
        PropertyFinding { property: property.name(), statistic: why.to_owned(), value: None, limit: None, outcome }
    }

    /// The original has nothing of this property.
    fn not_applicable(property: &dyn Named, why: &str) -> PropertyFinding {
        PropertyFinding::unmeasured(property, why, PropertyOutcome::NotApplicable)
    }

    /// The original has it and the scaled trace has not.
    fn lost(property: &dyn Named, why: &str) -> PropertyFinding {
        PropertyFinding::unmeasured(property, why, PropertyOutcome::Fail)
    }
}

/// What is said of a trace as a whole.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Size {
    /// Workers.
    pub workers: usize,
    /// Updates.
    pub updates: usize,
}

/// A scaled trace beside its original.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fidelity {
    /// The original.
    pub original: Size,
    /// The scaled one.
    pub scaled: Size,
    /// By what times were scaled: the ratio of the medians of the workers' mean gaps. Every statistic is relative to mean
    /// gaps, so none depends on it.
    pub time_factor: Option<f64>,
    /// All findings, in the order of [`FAITHFUL`].
    pub findings: Vec<PropertyFinding>,
    /// Whether none has failed.
    pub passed: bool,
}

/// Reads two traces and compares them; a file that is no sound trace is an error.
pub fn compare(original: &Path, scaled: &Path) -> Result<Fidelity> {
    Ok(compare_samples(&Sample::read(original)?, &Sample::read(scaled)?))
}

/// Compares what was read.
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
