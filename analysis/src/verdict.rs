//! The answer in sentences: validity, the variants against the baseline, ours against the published values.
//!
//! Called by [`crate::model`].

use std::collections::BTreeMap;

use pktgen_generator::record::{Bound, Published};

use crate::baseline::{self, ITERATION_SPEEDUP, SPEEDUP, TARGET_SPEEDUP, missed_goals};
use crate::human::scale_for;
use crate::model::{Verdict, agrees, describe, heading, is_study, matches};
use crate::stats::Interval;
use crate::sweep::{PointSummary, SweepData, VARIANT};

/// Sentences about speedups: each of these, by key, for every variant that has it.
const SPEEDUPS: [(&str, &str); 3] = [
    (SPEEDUP, "speedup to the goal"),
    (ITERATION_SPEEDUP, "speedup of iterations"),
    (TARGET_SPEEDUP, "speedup per contribution that is in results, which is that to any accuracy"),
];

/// Our values against the published ones.
#[derive(Default)]
pub(crate) struct Comparison {
    /// A sentence per published value that our interval does not hold, or that cannot be compared.
    pub(crate) lines: Vec<String>,
    /// Values that could be compared.
    compared: usize,
    /// Those of them that our interval does not hold.
    pub(crate) outside: usize,
}

/// Compares every published value with ours at every point that it belongs to.
pub(crate) fn compare(sweep: &SweepData) -> Comparison {
    let mut comparison = Comparison::default();
    for published in &sweep.manifest.paper {
        let source = &published.source;
        let points: Vec<_> = sweep.points.iter().filter(|point| matches(published, point)).collect();
        if points.is_empty() {
            let at = describe(&published.at);
            comparison.lines.push(format!("{source}: no run is at {at}, so its values are compared with nothing"));
        }
        for point in points {
            for (key, &value) in &published.values {
                comparison.add(sweep, point, published, key, value);
            }
        }
    }
    comparison
}

impl Comparison {
    fn add(&mut self, sweep: &SweepData, point: &PointSummary, published: &Published, key: &str, value: f64) {
        let source = &published.source;
        let at = describe(&point.labels);
        let Some(ours) = point.cells.get(key) else {
            self.lines.push(format!("{source}: {key} at {at} is published, but our runs have no such value"));
            return;
        };
        self.compared += 1;
        if agrees(ours, value, published.bound) {
            return;
        }
        self.outside += 1;
        let scale = heading(sweep, key).scale;
        let (median, lo, hi) = (scale.show(ours.median), scale.number(ours.lo), scale.number(ours.hi));
        let (sign, paper, off) =
            (Bound::sign(published.bound), scale.show(value), scale.difference(ours.median - value));
        self.lines.push(format!("{source}: {key} at {at}: paper {sign}{paper}, ours {median} [{lo}, {hi}], {off}"));
    }
}

/// Says what the runs and the comparison come to.
pub(crate) fn verdict(sweep: &SweepData, comparison: &Comparison) -> Verdict {
    let invalid = sweep.runs.iter().filter(|run| !run.validity.is_valid()).count();
    let all = sweep.runs.len();
    let mut lines = vec![match invalid {
        0 if is_study(sweep) => format!("Valid: all {all} studies did what they were asked."),
        0 => format!("Valid: all {all} runs closed their balance and did what they were asked."),
        _ => format!("INVALID: {invalid} of {all} runs are invalid; do not use these numbers before reading why."),
    }];
    lines.extend(sweep.manifest.shard.iter().map(|part| part.sentence(all)));
    let (compared_lines, worse) = against_baseline(sweep);
    lines.extend(compared_lines);
    lines.extend(speedups(sweep));
    lines.extend(missed_goals(&sweep.runs));
    let Comparison { compared, outside, .. } = comparison;
    if *compared > 0 {
        let inside = compared - outside;
        let bounds = sweep.manifest.paper.iter().any(|published| published.bound.is_some());
        lines.push(format!(
            "Paper: {inside} of {compared} published values lie within our 95 % intervals, {outside} outside.{}",
            if bounds { " A bound that holds counts as within." } else { "" }
        ));
    }
    Verdict { valid: invalid == 0, worse, lines }
}

/// One sentence per speedup and variant whose times could be compared with the baseline's.
fn speedups(sweep: &SweepData) -> Vec<String> {
    let Some(baseline) = &sweep.manifest.report.baseline else { return Vec::new() };
    let mut sentences = Vec::new();
    for (key, what) in SPEEDUPS {
        let mut variants: BTreeMap<&str, Vec<Interval>> = BTreeMap::new();
        for point in &sweep.points {
            if let Some(speedup) = point.cells.get(key) {
                variants.entry(point.labels.get(VARIANT).map_or("", String::as_str)).or_default().push(*speedup);
            }
        }
        let say = |(variant, speedups): (&&str, &Vec<Interval>)| {
            format!("{variant} against {baseline}: {what} {}.", range(speedups))
        };
        sentences.extend(variants.iter().map(say));
    }
    sentences
}

/// From the least to the largest, and where they are clearly above or below 1.
fn range(speedups: &[Interval]) -> String {
    let scale = scale_for("ratio", 1.0);
    let least = speedups.iter().map(|speedup| speedup.median).fold(f64::INFINITY, f64::min);
    let most = speedups.iter().map(|speedup| speedup.median).fold(f64::NEG_INFINITY, f64::max);
    let range =
        if least == most { scale.show(least) } else { format!("{} to {}", scale.show(least), scale.show(most)) };
    let faster = speedups.iter().filter(|speedup| speedup.lo > 1.0).count();
    let slower = speedups.iter().filter(|speedup| speedup.hi < 1.0).count();
    let (n, points) = (speedups.len(), if speedups.len() == 1 { "point" } else { "points" });
    let same = n - faster - slower;
    format!("{range} (medians); faster at {faster}, slower at {slower}, undecided at {same} of {n} {points}")
}

/// One sentence per variant about its Age-of-Model against the baseline's, and whether any point is worse.
fn against_baseline(sweep: &SweepData) -> (Vec<String>, bool) {
    // Findings of studies have no direction, so neither is better.
    let baseline = sweep.manifest.report.baseline.as_ref().filter(|_| !is_study(sweep));
    let Some(base) = baseline else { return (Vec::new(), false) };
    let mut cuts: BTreeMap<&str, Vec<Interval>> = BTreeMap::new();
    for point in &sweep.points {
        let variant = point.labels.get(VARIANT).map_or("", String::as_str);
        if let Some(cut) = point.cells.get("aom_cut/cluster") {
            cuts.entry(variant).or_default().push(*cut);
        }
    }
    // Runs without full records have no ages, but may have been compared otherwise.
    let compared = baseline::keys().any(|key| sweep.points.iter().any(|point| point.cells.contains_key(&key)));
    if cuts.is_empty() && compared {
        return (Vec::new(), false);
    }
    if cuts.is_empty() {
        return (
            vec![format!("Baseline {base}: no run could be paired with a run of it, so nothing is compared.")],
            false,
        );
    }
    let percent = scale_for("share", 1.0);
    let mut worse_anywhere = false;
    let sentence = |(variant, cuts): (&str, &Vec<Interval>)| {
        let better = cuts.iter().filter(|cut| cut.lo > 0.0).count();
        let worse = cuts.iter().filter(|cut| cut.hi < 0.0).count();
        worse_anywhere |= worse > 0;
        let ends = |pick: fn(f64, f64) -> f64, start| cuts.iter().map(|cut| cut.median).fold(start, pick);
        let (least, most) =
            (percent.show(ends(f64::min, f64::INFINITY)), percent.show(ends(f64::max, f64::NEG_INFINITY)));
        let same = cuts.len() - better - worse;
        let range = if least == most { least } else { format!("{least} to {most}") };
        let (n, points) = (cuts.len(), if cuts.len() == 1 { "point" } else { "points" });
        format!(
            "{variant} against {base}: mean Age-of-Model of clusters cut by {range} (medians); \
             better at {better}, worse at {worse}, undecided at {same} of {n} {points}."
        )
    };
    let lines = cuts.iter().map(|(variant, cuts)| (*variant, cuts)).map(sentence).collect();
    (lines, worse_anywhere)
}
