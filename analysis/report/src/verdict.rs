//! The answer in sentences: validity, the variants compared with the baseline, and our values compared with published ones.
//!
//! Called by [`crate::model`].

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use pktgen_core::record::{Bound, Note, Published};
use pktgen_records::human::{self, Scale, scale_for};
use pktgen_records::stats::{Interval, agrees, too_few};
use serde::Serialize;

use crate::answer::{self, At, Tally};
use crate::baseline::{self, ITERATION_SPEEDUP, SPEEDUP, TARGET_SPEEDUP, missed_goals};
use crate::headings::{heading, is_study};
use crate::lead;
use crate::sweep::configuration::mixed;
use crate::sweep::data::{Labels, Lacking, PointSummary, RunSummary, SweepData, VARIANT};
use crate::sweep::data::{describe, matches, name_of};

/// The answer of a report.
#[derive(Debug, Clone, Serialize)]
pub struct Verdict {
    /// Whether all runs are valid.
    pub valid: bool,
    /// Whether the Age-of-Model is clearly worse than the baseline's at any point (95 % interval below 0).
    pub worse: bool,
    /// The answer in sentences.
    pub lines: Vec<String>,
    /// Range of the lines that compare values, which the first screen of a page presents in its own way.
    #[serde(skip)]
    pub(crate) compared: Range<usize>,
}

/// The metric of the sentence about the Age-of-Model.
const CUT: &str = "aom_cut/cluster";
/// Metrics of sentences about speedups, one for every variant that has a value.
const SPEEDUPS: [(&str, &str); 3] = [
    (SPEEDUP, "speedup to the goal"),
    (ITERATION_SPEEDUP, "speedup of iterations"),
    (TARGET_SPEEDUP, "speedup to any accuracy (per contribution in results)"),
];

/// Comparison of our values with published ones.
#[derive(Default)]
pub(crate) struct Comparison {
    /// A sentence per published value that our interval does not contain, or that cannot be compared.
    pub(crate) lines: Vec<String>,
    /// Number of values that could be compared.
    compared: usize,
    /// Number of values at points with too few seeds, and the minimum number of seeds among these.
    few: Option<(usize, usize)>,
    /// Number of compared values that our interval does not contain.
    pub(crate) outside: usize,
}

/// Compares every published value with ours at every point that it applies to.
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
            // A published value with two interpretations is one number: the closest interpretation counts.
            let mut readings: BTreeMap<(String, u64), Vec<&str>> = BTreeMap::new();
            for (key, value) in &published.values {
                readings.entry((reading_of(key), value.to_bits())).or_default().push(key);
            }
            for ((_, value), keys) in readings {
                let value = f64::from_bits(value);
                let off =
                    |key: &&&str| sweep.of_valid(point, key).map_or(f64::INFINITY, |ours| (ours.median - value).abs());
                let nearest = keys.iter().min_by(|a, b| off(a).total_cmp(&off(b)));
                if let Some(key) = nearest {
                    comparison.add(sweep, point, published, key, value);
                }
            }
        }
    }
    comparison
}

/// Returns the key of a published value regardless of whether it is interpreted per cluster or per worker.
fn reading_of(key: &str) -> String {
    let part = |part: &str| if part == "worker" { "cluster" } else { part }.to_owned();
    key.split('/').map(part).collect::<Vec<_>>().join("/")
}

impl Comparison {
    fn add(&mut self, sweep: &SweepData, point: &PointSummary, published: &Published, key: &str, value: f64) {
        let source = &published.source;
        let at = describe(&point.labels);
        let Some(ours) = sweep.of_valid(point, key) else {
            let valid = if point.cells.contains_key(key) { "valid runs" } else { "runs" };
            self.lines.push(format!("{source}: {key} at {at} is published, but our {valid} have no such value"));
            return;
        };
        let (Some(agrees), Some(interval)) = (agrees(&ours, published, key), ours.interval) else {
            let (values, least) = self.few.unwrap_or((0, usize::MAX));
            self.few = Some((values + 1, least.min(ours.n)));
            return;
        };
        self.compared += 1;
        if agrees {
            return;
        }
        self.outside += 1;
        // For a bound, the median is compared.
        let compared = if published.bound.is_none() { interval } else { Interval { lo: ours.median, hi: ours.median } };
        let scale = answer::placing(value, compared, heading(sweep, key).scale);
        let median = scale.show(ours.median);
        let range = match ours.exact {
            true => " (exact)".to_owned(),
            false => format!(" [{}, {}]", scale.number(interval.lo), scale.number(interval.hi)),
        };
        let (sign, paper, off) =
            (Bound::sign(published.bound), scale.show(value), scale.difference(ours.median - value));
        self.lines.push(format!("{source}: {key} at {at}: paper {sign}{paper}, ours {median}{range}, {off}"));
    }
}

/// Summarises the runs and the comparison.
pub(crate) fn verdict(sweep: &SweepData, comparison: &Comparison) -> Verdict {
    let invalid = sweep.runs.iter().filter(|run| !run.validity.is_valid()).count();
    let all = sweep.runs.len();
    let mut lines = vec![match invalid {
        0 if is_study(sweep) => format!("Valid: all {all} studies did what they were asked."),
        0 => format!("Valid: all {all} runs closed their balance and did what they were asked."),
        _ => format!("INVALID: {invalid} of {all} runs are invalid; do not use these numbers before reading why."),
    }];
    lines.extend(told(&sweep.runs, "Caution", |run| kinds(run.validity.cautions())));
    lines.extend(mixed(sweep));
    lines.extend(sweep.manifest.shard.iter().map(|part| part.sentence(all)));
    let before = lines.len();
    let (compared_lines, worse) = against_baseline(sweep);
    lines.extend(asked(sweep));
    lines.extend(compared_lines);
    lines.extend(speedups(sweep));
    if lines.len() == before {
        lines.extend(answer::measured(sweep));
    }
    let told = before..lines.len();
    lines.extend(missed_goals(&sweep.runs));
    let Comparison { compared, outside, few, .. } = comparison;
    if *compared > 0 {
        let inside = compared - outside;
        let bounds = sweep.manifest.paper.iter().any(|published| published.bound.is_some());
        lines.push(format!(
            "Paper: {inside} of {compared} published values lie within our 95 % intervals, {outside} outside.{}",
            if bounds { " A bound that holds counts as within." } else { "" }
        ));
    }
    if let Some((values, least)) = few {
        let values = if *values == 1 { "one published value".to_owned() } else { format!("{values} published values") };
        lines.push(format!("Paper: {values} beside ours; {}.", too_few(*least)));
    }
    Verdict { valid: invalid == 0, worse, lines, compared: told }
}

/// Returns cautions that precede any number of these runs wherever they are shown: signs that the measurement differs
/// from what was declared, runs of a point that differ in settings, files without digests, missing runs of the plan.
pub fn cautions(sweep: &SweepData) -> Vec<String> {
    let mut all = told(&sweep.runs, "Caution", |run| kinds(run.validity.cautions()));
    all.extend(mixed(sweep));
    all.extend(told(&sweep.runs, "Note", |run| kinds(run.validity.notes.iter().filter(is_unverified))));
    all.extend(sweep.manifest.shard.iter().map(|part| part.sentence(sweep.runs.len())));
    all
}

/// Returns the other remarks of runs, as reports of one sweep have them: notes that are no cautions, and what the values of runs lack.
pub fn remarks(runs: &[RunSummary]) -> Vec<String> {
    told(runs, "Remark", |run| {
        let mut all = kinds(run.validity.notes.iter().filter(|note| !note.is_doubt() && !is_unverified(note)));
        all.extend(run.notes.iter().map(|note| (note.note.to_owned(), note.text.clone())));
        all
    })
}

fn is_unverified(note: &&Note) -> bool {
    matches!(note, Note::Unverified {} | Note::NotVerified {})
}

/// Returns the kind and the text of each of these notes.
fn kinds<'a>(notes: impl Iterator<Item = &'a Note>) -> Vec<(String, String)> {
    notes.map(|note| (kind(note), note.to_string())).collect()
}

/// Returns the code of a note, also of one of a part. Sentences of older versions have no other kind.
fn kind(note: &Note) -> String {
    match note {
        Note::OfPart { note, .. } => kind(note),
        Note::Told { said } => said.clone(),
        note => note.code().to_owned(),
    }
}

/// Returns a sentence for each kind of these notes, with the number of runs that have one; a run may have several. If their texts
/// differ, the sentence has that of the first run as an example. `notes` returns kinds and texts.
fn told<'a>(
    runs: &'a [RunSummary],
    word: &str,
    notes: impl Fn(&'a RunSummary) -> Vec<(String, String)>,
) -> Vec<String> {
    // Each kind, its first text and the run of that, the number of runs, and whether another text differs.
    let mut told: Vec<(String, String, &RunSummary, usize, bool)> = Vec::new();
    for run in runs {
        let mut seen = BTreeSet::new();
        for (kind, text) in notes(run) {
            let is_first = seen.insert(kind.clone());
            match told.iter_mut().find(|(known, ..)| *known == kind) {
                Some((_, first, _, count, differ)) => {
                    *count += usize::from(is_first);
                    *differ = *differ || text != *first;
                }
                None => told.push((kind, text, run, 1, false)),
            }
        }
    }
    let all = runs.len();
    let sentence = |(_, text, run, count, differ): (String, String, &RunSummary, usize, bool)| {
        let example = if differ { format!("; for example, {}", name_of(run)) } else { String::new() };
        format!("{word}, {count} of {all} runs{example}: {text}.")
    };
    told.into_iter().map(sentence).collect()
}

/// Returns the page's main answer, if no other sentence contains it: one per variant.
fn asked(sweep: &SweepData) -> Vec<String> {
    let told = |key: &str| key == CUT || SPEEDUPS.iter().any(|(known, _)| *known == key);
    let Some((key, zero, (more, less))) = lead::asked(sweep).filter(|(key, ..)| !told(key)) else { return Vec::new() };
    against(sweep, key, &human::title(key), &heading(sweep, key).scale, (zero, more, less))
}

/// Returns one sentence per speedup and variant whose times could be compared with the baseline's.
fn speedups(sweep: &SweepData) -> Vec<String> {
    let ratio = scale_for("ratio", 1.0);
    SPEEDUPS.iter().flat_map(|(key, what)| against(sweep, key, what, &ratio, (1.0, "faster", "slower"))).collect()
}

/// One sentence per variant that has values of `key`, which is called `what`: above `zero` they are `more`, below it `less`.
fn against(
    sweep: &SweepData,
    key: &str,
    what: &str,
    scale: &Scale,
    (zero, more, less): (f64, &str, &str),
) -> Vec<String> {
    let Some(base) = &sweep.manifest.report.baseline else { return Vec::new() };
    let sentence = |(variant, values): (&str, Vec<At>)| {
        let tally = Tally::of(&values, zero, &lacking(sweep, key, variant)).told(more, less);
        let (each, kind) = (answer::each(&values, scale, Some(zero)), answer::kind(&values));
        format!("{variant} against {base}: {what} {each} ({kind}); {tally}.")
    };
    by_variant(sweep, key).into_iter().map(sentence).collect()
}

/// Returns the values of `key` at every point that has one, by variant.
pub(crate) fn by_variant<'a>(sweep: &'a SweepData, key: &str) -> BTreeMap<&'a str, Vec<At<'a>>> {
    let mut variants: BTreeMap<&str, Vec<At>> = BTreeMap::new();
    for point in &sweep.points {
        if let Some(cell) = point.cells.get(key) {
            let variant = point.labels.get(VARIANT).map_or("", String::as_str);
            variants.entry(variant).or_default().push((&point.labels, *cell));
        }
    }
    variants
}

/// Returns the points of a variant with pairs that have no value of `key`, since one run of the pair has none.
pub(crate) fn lacking<'a>(sweep: &'a SweepData, key: &str, variant: &str) -> Vec<(&'a Labels, Lacking)> {
    let is_of = |point: &&PointSummary| point.labels.get(VARIANT).map_or("", String::as_str) == variant;
    let of = |point: &'a PointSummary| Some((&point.labels, *point.lacking.get(key)?));
    sweep.points.iter().filter(is_of).filter_map(of).collect()
}

/// Returns one sentence per variant about its Age-of-Model compared with the baseline's, and whether any point is worse.
fn against_baseline(sweep: &SweepData) -> (Vec<String>, bool) {
    // Findings of studies have no better direction.
    let baseline = sweep.manifest.report.baseline.as_ref().filter(|_| !is_study(sweep));
    let Some(base) = baseline else { return (Vec::new(), false) };
    let cuts = by_variant(sweep, CUT);
    // Runs without full records have no ages, but may be compared by other metrics.
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
    let mut worse_anywhere = false;
    let sentence = |(variant, cuts): (&str, Vec<At>)| {
        let tally = Tally::of(&cuts, 0.0, &lacking(sweep, CUT, variant));
        worse_anywhere |= tally.below > 0;
        let (each, kind) = (answer::each(&cuts, &answer::percent(), Some(0.0)), answer::kind(&cuts));
        let tally = tally.told("better", "worse");
        format!("{variant} against {base}: mean Age-of-Model of clusters cut by {each} ({kind}); {tally}.")
    };
    let lines = cuts.into_iter().map(sentence).collect();
    (lines, worse_anywhere)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run may have a note for each of its interfaces.
    #[test]
    fn runs_are_counted_and_not_their_notes() {
        let changed =
            |end: &str| Note::CarrierChanged { end: end.into(), interface: "e".into(), changes: 1, state: "up".into() };
        let mut run = RunSummary::default();
        run.validity.notes = vec![changed("workers"), changed("server")];
        let runs = [run, RunSummary::default()];
        let said = told(&runs, "Caution", |run| kinds(run.validity.cautions()));
        assert!(said.len() == 1 && said[0].starts_with("Caution, 1 of 2 runs"), "{said:?}");
    }

    /// Numbers of one run are not those of all.
    #[test]
    fn a_text_that_differs_among_runs_is_an_example() {
        let counts = |twice: u64, never: u64| Note::CountedUnlikeOnce { twice, never };
        let run = |seed: u64, note: Note| {
            let mut run = RunSummary { dir: format!("paper,seed={seed}"), seed, ..RunSummary::default() };
            run.validity.notes = vec![note];
            run
        };
        let cautions = |runs: &[RunSummary]| told(runs, "Caution", |run| kinds(run.validity.cautions()));
        let text = counts(258, 0).to_string();
        let equal = [1, 2].map(|seed| run(seed, counts(258, 0)));
        assert_eq!(cautions(&equal), [format!("Caution, 2 of 2 runs: {text}.")]);
        let differ = [run(1, counts(258, 0)), run(2, counts(220, 9)), run(3, counts(258, 0))];
        let example = "for example, paper,seed=1 (all defaults, seed 1)";
        assert_eq!(cautions(&differ), [format!("Caution, 3 of 3 runs; {example}: {text}.")]);
    }

    /// They have no code, and say unlike things.
    #[test]
    fn sentences_of_older_versions_are_each_told() {
        let said = |said: &str| Note::Told { said: said.into() };
        let mut runs = [RunSummary::default(), RunSummary::default()];
        runs[0].validity.notes = vec![said("copy mode"), said("late"), Note::LimitDecided { share_percent: 9 }];
        runs[1].validity.notes = vec![said("late"), Note::NotVerified {}];
        assert_eq!(remarks(&runs), ["Remark, 1 of 2 runs: copy mode.", "Remark, 2 of 2 runs: late."]);
    }
}
