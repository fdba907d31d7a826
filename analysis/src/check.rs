//! Mistakes in an experiment's `[report]` and `[paper]`: names that nothing has.
//!
//! Called by [`crate::model`]. A misspelt metric would otherwise be a column of dashes.

use std::collections::BTreeSet;

use pktgen_generator::registry::suggest;

use crate::metric::METRICS;
use crate::sweep::{DERIVED, SweepData, VARIANT};

/// Every key that reports can tabulate, whether or not a run has it.
pub fn known_keys() -> Vec<String> {
    let derived = DERIVED.iter().map(|(key, _)| (*key).to_owned());
    METRICS.iter().flat_map(|metric| metric.keys()).chain(derived).collect()
}

/// One sentence per name that nothing has, with the nearest that something has.
pub(crate) fn warnings(sweep: &SweepData) -> Vec<String> {
    let known = known_keys();
    let known: Vec<&str> = known.iter().map(String::as_str).chain(sweep.units.keys().map(String::as_str)).collect();
    let is_known = |key: &String| known.contains(&key.as_str());
    let plan = &sweep.manifest.report;
    let mut out: Vec<String> = Vec::new();
    for key in plan.metrics.iter().filter(|key| !is_known(key)) {
        out.push(format!("report.metrics: there is no metric \"{key}\"{}", near(key, &known)));
    }
    let mut told = BTreeSet::new();
    for published in &sweep.manifest.paper {
        for key in published.values.keys().filter(|key| !is_known(key)) {
            if told.insert((&published.source, key)) {
                let source = &published.source;
                out.push(format!("paper.rows of \"{source}\": there is no metric \"{key}\"{}", near(key, &known)));
            }
        }
    }
    out.extend(plan.baseline.as_ref().and_then(|baseline| wrong_baseline(sweep, baseline)));
    out
}

fn near(key: &str, known: &[&str]) -> String {
    match suggest(key, known) {
        near if near.is_empty() => format!("; there are: {}", known.join(", ")),
        near => near,
    }
}

fn wrong_baseline(sweep: &SweepData, baseline: &str) -> Option<String> {
    let variants = sweep.points.iter().filter_map(|point| point.labels.get(VARIANT));
    let mut names: Vec<&str> = Vec::new();
    for name in variants {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    if names.contains(&baseline) {
        return None;
    }
    let remedy = match names.is_empty() {
        true => "; the sweep has no variants ([[sweep.variants]])".to_owned(),
        false => format!("{}; there are: {}", suggest(baseline, &names), names.join(", ")),
    };
    Some(format!("report.baseline: no variant is called \"{baseline}\"{remedy}"))
}
