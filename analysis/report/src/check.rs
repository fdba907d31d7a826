//! Finds mistakes in an experiment's `[report]` and `[paper]`: unknown names.
//!
//! Called by [`crate::model`]. A misspelt metric would otherwise become a column of dashes.

use std::collections::BTreeSet;

use pktgen_core::definition::Definition;
use pktgen_core::record::ReportPlan;
use pktgen_core::registry::suggest;
use pktgen_core::study::Study;
use pktgen_records::metric::{METRICS, findings};

use crate::sweep::data::{SweepData, VARIANT};
use crate::{baseline, group};

/// Returns every key that reports can list, whether or not a run has it, except those of a report's groups.
pub fn known_keys(studies: &[&dyn Study]) -> Vec<String> {
    let added = findings::added(studies);
    let added = added.iter().flat_map(Definition::keys);
    METRICS.iter().flat_map(|metric| metric.keys()).chain(added).chain(baseline::keys()).collect()
}

/// Returns what a report's plan adds to the definition of a metric: the baseline, or the clusters of groups. `None` if nothing.
pub fn definition(plan: &ReportPlan, key: &str) -> Option<String> {
    if baseline::keys().any(|derived| derived == key) {
        return plan.baseline.as_ref().map(|name| format!("against {name}"));
    }
    group::definition(plan, key)
}

/// Returns one sentence per unknown name, with the most similar known one.
pub(crate) fn warnings(sweep: &SweepData) -> Vec<String> {
    let plan = &sweep.manifest.report;
    let known: Vec<String> = known_keys(sweep.options.studies).into_iter().chain(group::keys(plan)).collect();
    let own = sweep.user_metrics();
    let mut known: Vec<&str> = known.iter().map(String::as_str).chain(sweep.units.keys().map(String::as_str)).collect();
    known.extend(own.iter().map(|metric| metric.name.as_str()));
    let mut listed = BTreeSet::new();
    known.retain(|key| listed.insert(*key));
    let is_known = |key: &String| known.contains(&key.as_str());
    let mut out: Vec<String> = group::mistakes(plan, &clusters(sweep));
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

/// Returns the clusters of all runs, sorted.
fn clusters(sweep: &SweepData) -> Vec<u32> {
    let mut ids: Vec<u32> = sweep.runs.iter().flat_map(|run| run.clusters.iter().copied()).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
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
