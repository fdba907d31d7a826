//! A sweep as data: what is stored of runs and points, and their names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pktgen_core::record::{Note, Published, SweepManifest, Validity};
use pktgen_core::time::NS;
use pktgen_core::units::canonical;
use pktgen_core::user_metric::UserMetric;
use pktgen_records::metric::is_one_way;
use pktgen_records::resolved::Options;
use pktgen_records::stats::{self, Estimate, Interval};

use crate::sweep::common::Common;
use crate::sweep::kept::{Kept, WorkerStates};
use crate::sweep::scalars::Scalars;

/// The label that contains the variant; a baseline is one of its values.
pub const VARIANT: &str = "variant";
/// Labels of a run or a point: axis → value.
pub type Labels = BTreeMap<String, String>;

/// The data of one run that reports need.
#[derive(Debug, Clone, Default)]
pub struct RunSummary {
    /// Folder relative to that of the sweep.
    pub dir: String,
    /// Axis → value.
    pub labels: Arc<Labels>,
    /// Seed.
    pub seed: u64,
    /// Whether its numbers may be used. Runs that could not be read are invalid, too, and have no numbers.
    pub validity: Validity,
    /// Notes for readers of its values.
    pub notes: Vec<pktgen_records::Note>,
    /// Values by [`Line::key`], including comparisons with the baseline. Runs of a sweep share the keys.
    pub scalars: Scalars,
    /// Comparisons with the baseline that have no value: the key, and why.
    pub lacks: Vec<(&'static str, Lack)>,
    /// Comparisons with the baseline that clocks may have changed: the key, and the least and the largest value by clocks that agree.
    pub apart: Vec<(&'static str, [f64; 2])>,
    /// Its clusters, by number.
    pub clusters: Vec<u32>,
    /// Average Age-of-Model of each cluster, in ns.
    pub cluster_aom_ns: Vec<(u64, f64)>,
    /// Share of received packets that represent at most this many updates.
    pub aggregation_cdf: Vec<(u64, f64)>,
    /// Data for charts from its records; only for the first seed of its point.
    pub kept: Arc<Kept>,
    /// Whether charts of the first seed lack it, since it never began or could not be read.
    pub undrawn: bool,
    /// Progress to the goal; `None` if it had no goal.
    pub goal: Option<GoalSummary>,
    /// Default columns of its table, if it is a study. Runs of a sweep share this, its configuration and others where they are equal.
    pub study_keys: Arc<Vec<String>>,
    /// Identifies its workload and schedule.
    pub workload: String,
    /// Identifies the plan of its network; `None` without a plan.
    pub network: Option<u64>,
    /// Hash of the profile of its external device; `None` without one, and if its version did not record it.
    pub profile: Option<String>,
    /// Whether it is the first run whose network can be drawn; known if no run of the first setting and seed could be read.
    pub has_network: bool,
    /// Whether its manifest states that no chance was involved: any seed gives these values.
    pub exact: bool,
    /// The resolved configuration without its seed.
    pub config: Arc<str>,
    /// What made it, when and where.
    pub made: RunMade,
    /// Whether its device may merge while only lanes of payloads show which updates a packet contains.
    pub hides_members: bool,
    /// Whether packets at its server do not contain how many updates they represent, so that elements are not known.
    pub hides_elements: bool,
    /// Whether its device may merge and does not say what it lost.
    pub hides_losses: bool,
    /// Its experiment's own metrics.
    pub user_metrics: Arc<Vec<UserMetric>>,
    /// States of some workers under transmission control, for plots.
    pub states: Vec<WorkerStates>,
    /// Number of workers with such states.
    pub deciders: usize,
}

/// Why a pair has no value of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    /// Only the baseline's run has a value.
    Own,
    /// Only the variant's run has a value.
    Baseline,
    /// Their values differ and have no ratio: one is 0 or less, or may be by clocks that agree.
    Ratio,
    /// Their values are equal and have no ratio: both are 0 or less.
    Equal,
}

/// Numbers of pairs without a value of a comparison.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lacking {
    /// Pairs in which the variant's run has none.
    pub own: usize,
    /// Pairs in which the baseline's run has none.
    pub baseline: usize,
    /// Pairs whose values differ and have no ratio.
    pub ratio: usize,
    /// Pairs whose values are equal and have no ratio: neither side is better there.
    pub equal: usize,
}

impl Lacking {
    pub(crate) fn count(&mut self, lack: Lack) {
        match lack {
            Lack::Own => self.own += 1,
            Lack::Baseline => self.baseline += 1,
            Lack::Ratio => self.ratio += 1,
            Lack::Equal => self.equal += 1,
        }
    }
}

/// Metrics with a line for each occurring reason: a run with the total and without such a line has none for that reason.
const BY_REASON: [&str; 1] = ["dropped"];

impl RunSummary {
    /// Returns a value by the key of its line.
    pub fn value(&self, key: &str) -> Option<f64> {
        let own = self.scalars.get(key);
        own.or_else(|| {
            let (sum, _) = key.split_once('/')?;
            (BY_REASON.contains(&sum) && self.scalars.get(sum).is_some()).then_some(0.0)
        })
    }

    /// Returns the maximum distance of the clocks of its workers and its server, in ns; 0 of one clock.
    pub fn clocks_within(&self) -> f64 {
        pktgen_records::clocks_within(&self.validity.notes).map_or(0.0, |within| (within / NS) as f64)
    }

    /// Returns the least and the largest value that a key may have by clocks that agree; where clocks do not matter, its value.
    fn ends(&self, key: &str) -> Option<[f64; 2]> {
        let (value, within) = (self.value(key)?, self.clocks_within());
        let compared = self.apart.iter().find(|(own, _)| *own == key).map(|(_, ends)| *ends);
        let one_way = || (within > 0.0 && is_one_way(key)).then_some([value - within, value + within]);
        Some(compared.or_else(one_way).unwrap_or([value; 2]))
    }

    /// Whether its rate was adjusted while it ran, so that it depends on the run, not on the seed.
    pub fn is_steered(&self) -> bool {
        let steered = |note: &Note| match note {
            Note::OfPart { note, .. } => matches!(**note, Note::Steered { .. }),
            note => matches!(note, Note::Steered { .. }),
        };
        self.validity.notes.iter().any(steered)
    }
}

/// Returns the maximum error of values of `key` in `runs`, in their unit, since the clocks of workers and servers may be apart.
pub fn clock_error<'a>(runs: impl IntoIterator<Item = &'a RunSummary>, key: &str) -> f64 {
    let of = |run: &RunSummary| {
        let (value, [least, largest]) = run.value(key).zip(run.ends(key))?;
        Some((value - least).max(largest - value))
    };
    runs.into_iter().filter_map(of).fold(0.0, f64::max)
}

/// Returns the value of a point over `runs` with the interval that it may have by clocks that agree.
pub(crate) fn by_agreeing_clocks(value: Estimate, runs: &[&RunSummary], key: &str) -> Estimate {
    if runs.iter().all(|run| run.clocks_within() == 0.0 && run.apart.is_empty()) {
        return value;
    }
    let end = |end: usize| {
        let ends: Vec<f64> = runs.iter().filter_map(|run| Some(run.ends(key)?[end])).collect();
        stats::estimate(&ends, value.exact)?.interval
    };
    let interval = end(0).zip(end(1)).map(|(least, largest)| Interval { lo: least.lo, hi: largest.hi });
    Estimate { interval: value.interval.and(interval), ..value }
}

/// Adds zero counts for reasons that occur only in other runs.
pub(crate) fn with_all_reasons(runs: &mut [RunSummary], common: &mut Common) {
    let is_of_reason = |key: &&Arc<str>| key.split_once('/').is_some_and(|(sum, _)| BY_REASON.contains(&sum));
    let keys: BTreeSet<Arc<str>> =
        runs.iter().flat_map(|run| run.scalars.iter().map(|(key, _)| key).filter(is_of_reason).cloned()).collect();
    for run in runs {
        for key in &keys {
            if let Some(value) = run.value(key) {
                run.scalars.insert(key.clone(), value);
            }
        }
        common.share(run);
    }
}

/// What made a run, when and where.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunMade {
    /// Tool, version and commit.
    pub tool: String,
    /// Time in ns since 1970.
    pub unix_ns: u64,
    /// Facts about the host; in virtual time, the control socket alone.
    pub host: Arc<BTreeMap<String, String>>,
    /// The command line; empty if it was not recorded.
    pub command: Arc<Vec<String>>,
    /// Whether the version that made it recorded neither command nor overrides.
    pub predates_overrides: bool,
}

/// Progress of a run to a goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GoalSummary {
    /// Number of updates of every worker that must be represented.
    pub updates: u32,
    /// Number of workers that must reach the goal.
    pub workers: usize,
    /// Number of workers that have not reached it.
    pub short: usize,
}

/// One point of a sweep.
#[derive(Debug, Clone, Default)]
pub struct PointSummary {
    /// Axis → value.
    pub labels: Labels,
    /// Its runs, as indices of [`SweepData::runs`].
    pub runs: Vec<usize>,
    /// Median and interval over the seeds, by key.
    pub cells: BTreeMap<String, Estimate>,
    /// Pairs without a value of a comparison with the baseline, by its key.
    pub lacking: BTreeMap<&'static str, Lacking>,
}

/// An analysed sweep.
#[derive(Debug, Clone)]
pub struct SweepData {
    /// Its manifest.
    pub manifest: SweepManifest,
    /// Options of the analysis.
    pub options: Options,
    /// Unit of each key.
    pub units: BTreeMap<String, String>,
    /// Its runs, in the manifest's order.
    pub runs: Vec<RunSummary>,
    /// Its points, in the order of their first runs.
    pub points: Vec<PointSummary>,
}

impl SweepData {
    /// Returns the experiments' own metrics in the order of their names; of several with one name, that of the first run.
    pub fn user_metrics(&self) -> Vec<&UserMetric> {
        let mut metrics: BTreeMap<&str, &UserMetric> = BTreeMap::new();
        for metric in self.runs.iter().flat_map(|run| run.user_metrics.iter()) {
            metrics.entry(&metric.name).or_insert(metric);
        }
        metrics.into_values().collect()
    }

    /// Returns the value of a point over its valid runs; only these are compared.
    pub(crate) fn of_valid(&self, point: &PointSummary, key: &str) -> Option<Estimate> {
        let cell = *point.cells.get(key)?;
        let runs: Vec<&RunSummary> = point.runs.iter().filter_map(|run| self.runs.get(*run)).collect();
        if runs.iter().all(|run| run.validity.is_valid()) {
            return Some(cell);
        }
        estimate(&valid(&runs), key, cell.exact)
    }

    /// Returns the same for comparison with the values of other points.
    pub(crate) fn compared(&self, point: &PointSummary, key: &str) -> Option<Estimate> {
        let runs: Vec<&RunSummary> = point.runs.iter().filter_map(|run| self.runs.get(*run)).collect();
        Some(by_agreeing_clocks(self.of_valid(point, key)?, &valid(&runs), key))
    }
}

fn valid<'a>(runs: &[&'a RunSummary]) -> Vec<&'a RunSummary> {
    runs.iter().copied().filter(|run| run.validity.is_valid()).collect()
}

/// Returns the value of a point over `runs`; the interval of a comparison with the baseline is that by clocks that agree.
pub(crate) fn estimate(runs: &[&RunSummary], key: &str, exact: bool) -> Option<Estimate> {
    let value = stats::estimate(&runs.iter().filter_map(|run| run.value(key)).collect::<Vec<_>>(), exact)?;
    let is_comparison = runs.iter().any(|run| run.apart.iter().any(|(own, _)| *own == key));
    Some(if is_comparison { by_agreeing_clocks(value, runs, key) } else { value })
}

/// Returns the setting of a run.
pub(crate) fn without_variant(labels: &Labels) -> Labels {
    let mut rest = labels.clone();
    rest.remove(VARIANT);
    rest
}

/// Formats a run in messages: its folder, labels and seed.
pub fn name_of(run: &RunSummary) -> String {
    let dir = if ["", "."].contains(&run.dir.as_str()) { "run" } else { &run.dir };
    format!("{dir} ({}, seed {})", describe(&run.labels), run.seed)
}

/// Formats labels as `axis=value, …` for sentences.
pub fn describe(labels: &Labels) -> String {
    let parts: Vec<String> = labels.iter().map(|(axis, value)| format!("{axis}={value}")).collect();
    if parts.is_empty() { "all defaults".to_owned() } else { parts.join(", ") }
}

/// Returns the labels with numbers and quantities in canonical spelling, so that `20Gbps` and `20000Mbps` are one point; names of
/// variants are unchanged.
pub fn canonical_labels(labels: &Labels) -> Labels {
    let spelled = |(axis, value): (&String, &String)| {
        let value = if axis == VARIANT { value.clone() } else { canonical(value) };
        (axis.clone(), value)
    };
    labels.iter().map(spelled).collect()
}

/// Whether two values of an axis are equal, numbers and quantities in any spelling.
pub fn is_same(axis: &str, a: &str, b: &str) -> bool {
    a == b || axis != VARIANT && canonical(a) == canonical(b)
}

/// Whether `labels` have all values of `at`, numbers and quantities in any spelling.
pub fn is_at(at: &Labels, labels: &Labels) -> bool {
    at.iter().all(|(axis, value)| labels.get(axis).is_some_and(|own| is_same(axis, own, value)))
}

/// Whether the published row applies to the point: all of its labels must be equal.
pub(crate) fn matches(published: &Published, point: &PointSummary) -> bool {
    is_at(&published.at, &point.labels)
}

/// Returns the published row that the table shows for `metric` at the point: the one with the most labels, and of those the first.
pub(crate) fn published_at<'a>(paper: &'a [Published], metric: &str, point: &PointSummary) -> Option<&'a Published> {
    let all = paper.iter().filter(|row| row.values.contains_key(metric) && matches(row, point));
    all.rev().max_by_key(|row| row.at.len())
}

/// Returns why a run's numbers may not be used.
pub fn why_invalid(run: &RunSummary) -> Vec<String> {
    run.validity.faults.iter().map(|fault| fault.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_value_for_the_point_is_shown() {
        let row = |at: &[(&str, &str)], value: f64| {
            let at = at.iter().map(|(axis, value)| ((*axis).to_owned(), (*value).to_owned())).collect();
            let mut row = Published { at, ..Published::default() };
            row.insert("loss", value, &value.to_string());
            row
        };
        let other = Published { at: Labels::from([("rate".to_owned(), "20".to_owned())]), ..Published::default() };
        let paper = [row(&[], 1.0), other, row(&[("rate", "20")], 2.0), row(&[("rate", "20")], 3.0), row(&[], 4.0)];
        let shown = |rate: &str| {
            let labels = Labels::from([("rate".to_owned(), rate.to_owned())]);
            published_at(&paper, "loss", &PointSummary { labels, ..PointSummary::default() })
                .map(|row| row.values["loss"])
        };
        assert_eq!((shown("20"), shown("10")), (Some(2.0), Some(1.0)));
    }

    #[test]
    fn published_values_are_of_a_point_in_any_spelling_of_its_quantities() {
        let labels = |axis: &str, value: &str| Labels::from([(axis.to_owned(), value.to_owned())]);
        let applies = |axis: &str, published: &str, own: &str| {
            let at = labels(axis, published);
            let published = Published { at, ..Published::default() };
            matches(&published, &PointSummary { labels: labels(axis, own), ..PointSummary::default() })
        };
        assert!(applies("topology.rate", "20Gbps", "20000Mbps") && applies("target.slots", "4", "4"));
        assert!(!applies("topology.rate", "20Gbps", "20Mbps") && !applies(VARIANT, "1.0", "1"));
        assert!(!applies("topology.rate", "20Gbps", "other") && !applies("topology.delay", "20", "20us"));
        assert_eq!(canonical_labels(&labels("topology.rate", "20000Mbps")), labels("topology.rate", "20Gbps"));
        assert_eq!(canonical_labels(&labels(VARIANT, "1.0")), labels(VARIANT, "1.0"));
    }
}
