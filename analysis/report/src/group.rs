//! Groups of clusters that a report summarises (`[[report.groups]]`), such as OLAF's S1 and S2.
//!
//! Called by [`crate::sweep`] per run and by [`crate::check`]. Groups belong to the report, not to the run, so these
//! lines exist only in reports.

use std::collections::BTreeMap;

use pktgen_core::definition::{Better, Definition, Label, Timing};
use pktgen_core::record::{Group, ReportPlan};

use pktgen_records::age::FlowAge;
use pktgen_records::labels::{AGED, FLOW};
use pktgen_records::line::{Line, NS, SHARE};
use pktgen_records::metric::counts;
use pktgen_records::resolved::Analysis;
use pktgen_records::stats;

const GROUP: Label = Label::new("group", "name of the group");
const GROUPS: &str = "report.groups";
/// Key of the index over all groups.
const OF_GROUPS: &str = "aom_fairness/groups";

/// Definitions of the lines below.
pub(crate) const DEFINITIONS: [Definition; 3] = [
    Definition::new(
        "aom_mean",
        NS,
        Better::Lower,
        "Mean of the average ages of the group's clusters, or of their workers.",
    )
    .labels(&[FLOW, GROUP])
    .timed(Timing::OneWay)
    .source("design §4")
    .needs(AGED),
    Definition::new(
        "loss",
        SHARE,
        Better::Lower,
        "`loss` of the group's workers; no value if updates of several groups were dropped as repeats and some of these are \
         in no sum (`never_counted`).",
    )
        .labels(&[GROUP])
        .source("design §4")
        .needs(GROUPS),
    Definition::new("aom_fairness", "index", Better::Higher, "Jain's index over the groups' mean ages of clusters.")
        .labels(&[Label::one_of("flow", &["groups"], "of groups")])
        .source("design §4")
        .needs(AGED),
];

/// Returns the keys of the lines below.
pub(crate) fn keys(plan: &ReportPlan) -> Vec<String> {
    if plan.groups.is_empty() {
        return Vec::new();
    }
    plan.groups.iter().flat_map(keys_of).chain([OF_GROUPS.to_owned()]).collect()
}

fn keys_of(group: &Group) -> [String; 3] {
    let name = &group.name;
    [format!("aom_mean/cluster/{name}"), format!("aom_mean/worker/{name}"), format!("loss/{name}")]
}

/// Returns the clusters over which the plan defines `key`; `None` if it is not one of [`keys`].
pub(crate) fn definition(plan: &ReportPlan, key: &str) -> Option<String> {
    let of = |group: &Group| {
        let mut clusters = group.clusters.clone();
        clusters.sort_unstable();
        clusters.dedup();
        let named = clusters.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
        format!("{} {named}", if clusters.len() == 1 { "cluster" } else { "clusters" })
    };
    if key == OF_GROUPS {
        let mut all: Vec<String> = plan.groups.iter().map(of).collect();
        all.sort_unstable();
        return (!all.is_empty()).then(|| all.join("; "));
    }
    plan.groups.iter().find(|group| keys_of(group).iter().any(|own| own == key)).map(of)
}

/// Returns for each group the mean over its clusters' ages, that over its workers' ages, and the loss of its workers,
/// and Jain's index over the groups' mean ages of clusters if each group has one. A worker belongs to the group of the
/// cluster in which it began, even if it moved: so the meaning of loss does not depend on what was recorded.
pub(crate) fn lines(run: &Analysis, plan: &ReportPlan) -> Vec<Line> {
    let mut out = Vec::new();
    let mut means = Vec::new();
    for group in &plan.groups {
        let has = |cluster: u16| group.clusters.contains(&cluster);
        let began = |worker: u32| run.manifest.clusters.get(worker as usize).is_some_and(|cluster| has(*cluster));
        if let Some(ages) = run.ages() {
            let clusters = mean(&ages.clusters, &|id| u16::try_from(id).is_ok_and(has));
            means.push(clusters);
            out.push(named(Line::new("aom_mean", NS, clusters).with("flow", "cluster"), group));
            let workers = run.ages_of_workers().and_then(|workers| mean(workers, &began));
            out.push(named(Line::new("aom_mean", NS, workers).with("flow", "worker"), group));
        }
        let loss = run.balance_of_workers(&began).and_then(|balance| counts::loss(run, &balance));
        out.push(named(Line::new("loss", SHARE, loss), group));
    }
    // An index over some of the groups could be mistaken for one over all.
    let all: Option<Vec<f64>> = means.into_iter().collect();
    if let Some(means) = all.filter(|means| !means.is_empty()) {
        out.push(Line::new("aom_fairness", "index", stats::jain(&means)).with("flow", "groups"));
    }
    out
}

fn named(line: Line, group: &Group) -> Line {
    line.with("group", group.name.as_str())
}

fn mean(ages: &[FlowAge], wanted: &dyn Fn(u32) -> bool) -> Option<f64> {
    let of_group: Vec<f64> = ages.iter().filter(|age| wanted(age.id)).filter_map(|age| age.mean_ns).collect();
    stats::mean(&of_group)
}

/// Returns one sentence per mistake in `[[report.groups]]`; `seen` are the clusters of all runs.
pub(crate) fn mistakes(plan: &ReportPlan, seen: &[u32]) -> Vec<String> {
    let mut out = Vec::new();
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for group in &plan.groups {
        *names.entry(&group.name).or_default() += 1;
        let absent: Vec<String> =
            group.clusters.iter().filter(|id| !seen.contains(&u32::from(**id))).map(u16::to_string).collect();
        let name = &group.name;
        // If no run could be read, the clusters are unknown.
        if !seen.is_empty() && !absent.is_empty() {
            let range = format!("{} to {}", seen[0], seen[seen.len() - 1]);
            let which = absent.join(", ");
            out.push(format!("report.groups \"{name}\": no run has cluster {which}; there are: {range}"));
        }
    }
    let twice = names.into_iter().filter(|(_, times)| *times > 1);
    out.extend(twice.map(|(name, _)| format!("report.groups: two groups are called \"{name}\"; rename one")));
    out
}

#[cfg(test)]
#[path = "group_tests.rs"]
mod tests;
