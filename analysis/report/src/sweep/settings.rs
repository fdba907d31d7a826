//! Groups runs for charts: one chart per setting of the axes other than the variant, with the variants side by side.

use crate::sweep::data::{Labels, RunSummary, SweepData, VARIANT, describe, without_variant};

/// Maximum number of runs or variants that a note names.
const NAMED_MAX: usize = 3;

/// Returns the runs by their labels without the variant, in the order of first appearance.
pub(crate) fn settings(sweep: &SweepData) -> Vec<(Labels, Vec<&RunSummary>)> {
    let mut groups: Vec<(Labels, Vec<&RunSummary>)> = Vec::new();
    for run in &sweep.runs {
        let rest = without_variant(&run.labels);
        match groups.iter_mut().find(|(labels, _)| *labels == rest) {
            Some((_, runs)) => runs.push(run),
            None => groups.push((rest, vec![run])),
        }
    }
    groups
}

/// Returns the runs of each variant, in the order of first appearance.
pub(crate) fn variants<'a>(runs: &[&'a RunSummary]) -> Vec<(&'a str, Vec<&'a RunSummary>)> {
    let mut groups: Vec<(&str, Vec<&RunSummary>)> = Vec::new();
    for run in runs {
        match groups.iter_mut().find(|(name, _)| *name == variant(run)) {
            Some((_, runs)) => runs.push(run),
            None => groups.push((variant(run), vec![run])),
        }
    }
    groups
}

pub(crate) fn variant(run: &RunSummary) -> &str {
    run.labels.get(VARIANT).map_or("ours", String::as_str)
}

pub(crate) fn at(rest: &Labels) -> String {
    if rest.is_empty() { String::new() } else { format!(" at {}", describe(rest)) }
}

/// Describes the runs that charts of the first seed lack, since they never began or could not be read; empty if there are none.
pub(crate) fn unread<'a>(runs: impl IntoIterator<Item = &'a RunSummary>) -> String {
    let name = |run: &RunSummary| format!("{}, seed {}", point_name(&run.labels), run.seed);
    let names = runs.into_iter().filter(|run| run.undrawn).map(name).collect();
    none_of(names, "run", "readable records")
}

/// Counts and names the runs or variants (`one`) that are not drawn since they are without `what`; empty if there are none.
pub(crate) fn none_of(mut names: Vec<String>, one: &str, what: &str) -> String {
    let all = names.len();
    if all > NAMED_MAX {
        names.truncate(NAMED_MAX);
        names.push(format!("{} more", all - NAMED_MAX));
    }
    match all {
        0 => String::new(),
        1 => format!("1 {one} without {what} is not drawn: {}.", names[0]),
        n => format!("{n} {one}s without {what} are not drawn: {}.", names.join("; ")),
    }
}

/// Whether none of the runs of the first setting and seed could be read, which alone have data over time of all clusters and a network.
pub(crate) fn is_first_unread(sweep: &SweepData) -> bool {
    let all_of = |runs: &[&RunSummary]| variants(runs).iter().all(|(_, own)| own.iter().any(|run| run.undrawn));
    settings(sweep).first().is_some_and(|(_, runs)| all_of(runs))
}

/// Returns a point's name in a row: the variant, then the last parts of its axes with their values.
pub(crate) fn point_name(labels: &Labels) -> String {
    let last = |axis: &str| axis.rsplit('.').next().unwrap_or_default().to_owned();
    let rest = labels.iter().filter(|(axis, _)| *axis != VARIANT);
    let parts = rest.map(|(axis, value)| format!("{} {value}", last(axis)));
    let parts: Vec<String> = labels.get(VARIANT).cloned().into_iter().chain(parts).collect();
    if parts.is_empty() { "run".to_owned() } else { parts.join(", ") }
}
