//! The first screen of a page: the experiment's question, the answer with a line per comparison, and its chart.
//!
//! Called by [`crate::model`], [`crate::report`] and, for the chart, by [`crate::picture`].

use std::collections::BTreeSet;

use pktgen_core::definition::Better;
use pktgen_records::human::{scale_for, setting as setting_of, title};
use pktgen_records::metric::is_one_way;
use pktgen_records::stats::{Estimate, SEEDS_MIN, too_few};

use crate::answer::{At, Shown, Tally, shown};
use crate::baseline::{ITERATION_SPEEDUP, SPEEDUP, TARGET_SPEEDUP, THROUGHPUT_RATIO};
use crate::definitions::families;
use crate::headings::{axes, heading, is_study, metric_keys};
use crate::sweep::data::{Labels, PointSummary, RunSummary, SweepData, VARIANT, without_variant};
use crate::verdict::{by_variant, lacking};

/// Maximum number of lines shown immediately, and of variants in a question.
const OPEN_MAX: usize = 4;
/// Maximum number of metrics of an experiment without comparisons.
const METRICS_MAX: usize = 3;

/// The first screen of a page.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lead {
    /// The question.
    pub(crate) question: String,
    /// The answer, with one line per comparison.
    pub(crate) answers: Vec<Answer>,
    /// Further lines, shown on demand.
    pub(crate) more: Vec<Answer>,
}

/// One line of the answer.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    /// The variant or the metric.
    pub(crate) name: String,
    /// Its values; of many points the least and the largest.
    pub(crate) values: Vec<Shown>,
    /// Number of points.
    pub(crate) points: usize,
    /// Summary of the values in words.
    pub(crate) told: String,
    /// Class of the line: `better`, `worse` or `open`.
    pub(crate) class: &'static str,
}

/// Question and answer of a comparison with the baseline: key, question before the baseline's name, value of no effect,
/// words for more and less, and the metric of the chart.
struct Against {
    key: &'static str,
    question: &'static str,
    zero: f64,
    words: (&'static str, &'static str),
    drawn: &'static str,
}

const AGAINST: [Against; 8] = [
    age("aom_cut/cluster", "aom_mean/cluster"),
    age("aom_cut/worker", "aom_mean/worker"),
    ratio(SPEEDUP, "How much sooner is the goal reached than with", ("faster", "slower")),
    ratio(ITERATION_SPEEDUP, "How much faster are iterations than with", ("faster", "slower")),
    ratio(TARGET_SPEEDUP, "How much faster is any accuracy reached than with", ("faster", "slower")),
    ratio(THROUGHPUT_RATIO, "How high is the throughput, over that of", ("higher", "lower")),
    ratio("received_ratio", "How many packets are received, over those of", ("more", "fewer")),
    Against {
        key: "reward_gain",
        question: "How much higher is the reward in the end than with",
        zero: 0.0,
        words: ("higher", "lower"),
        drawn: "reward_end",
    },
];

const fn age(key: &'static str, drawn: &'static str) -> Against {
    Against { key, question: "How much younger are models than with", zero: 0.0, words: ("better", "worse"), drawn }
}

const fn ratio(key: &'static str, question: &'static str, words: (&'static str, &'static str)) -> Against {
    Against { key, question, zero: 1.0, words, drawn: key }
}

/// Returns the experiment's comparison with the baseline: its key, the value of no effect, and words for more and less.
pub(crate) fn asked(sweep: &SweepData) -> Option<(&'static str, f64, (&'static str, &'static str))> {
    match Subject::of(sweep)? {
        Subject::Baseline(against, _) => Some((against.key, against.zero, against.words)),
        _ => None,
    }
}

/// The subject of an experiment.
enum Subject<'a> {
    /// Comparison of variants with the baseline.
    Baseline(&'a Against, &'a str),
    /// Comparison of variants with each other.
    Variants(String),
    /// Values of some metrics.
    Metrics(Vec<String>),
}

impl Subject<'_> {
    fn of(sweep: &SweepData) -> Option<Subject<'_>> {
        let has = |key: &str| sweep.points.iter().any(|point| point.cells.contains_key(key));
        let keys: Vec<String> = metric_keys(sweep).into_iter().filter(|key| has(key)).collect();
        // Findings of studies are not compared with a baseline.
        if let Some(base) = sweep.manifest.report.baseline.as_deref().filter(|_| !is_study(sweep)) {
            let named = keys.iter().find_map(|key| AGAINST.iter().find(|against| against.key == key));
            if let Some(against) = named.or_else(|| AGAINST.iter().find(|against| has(against.key))) {
                return Some(Subject::Baseline(against, base));
            }
        }
        let first = keys.first()?.clone();
        let mut variants = sweep.points.iter().filter_map(|point| point.labels.get(VARIANT));
        let one = variants.next();
        if variants.any(|variant| Some(variant) != one) {
            return Some(Subject::Variants(first));
        }
        let age =
            Some("aom_mean/cluster".to_owned()).filter(|key| sweep.manifest.report.metrics.is_empty() && has(key));
        let mut chosen: Vec<String> = Vec::new();
        for key in age.into_iter().chain(keys) {
            if !chosen.contains(&key) {
                chosen.push(key);
            }
        }
        let unit = |key: &String| sweep.units.get(key).cloned();
        // Along an axis: metrics that fit into one chart.
        if !axes(sweep).is_empty() {
            let first = unit(&chosen[0]);
            chosen.retain(|key| unit(key) == first);
        }
        chosen.truncate(METRICS_MAX);
        Some(Subject::Metrics(chosen))
    }
}

/// Returns the keys in the chart of the answer, with their names in its legend.
pub(crate) fn drawn(sweep: &SweepData) -> Vec<(String, String)> {
    match Subject::of(sweep) {
        None => Vec::new(),
        Some(Subject::Baseline(against, _)) => vec![(against.drawn.to_owned(), String::new())],
        Some(Subject::Variants(key)) => vec![(key, String::new())],
        Some(Subject::Metrics(keys)) if keys.len() == 1 => vec![(keys[0].clone(), String::new())],
        Some(Subject::Metrics(keys)) => keys.into_iter().map(|key| (key.clone(), title(&key))).collect(),
    }
}

impl Lead {
    /// Returns the question of a sweep and its answer.
    pub(crate) fn of(sweep: &SweepData) -> Lead {
        let name = &sweep.manifest.experiment;
        let lead = match Subject::of(sweep) {
            None => Lead { question: format!("What does {name} measure?"), ..Lead::default() },
            Some(Subject::Baseline(against, base)) => against_baseline(sweep, against, base),
            Some(Subject::Variants(key)) => among(sweep, &key),
            Some(Subject::Metrics(keys)) => of_metrics(sweep, &keys),
        };
        let own = sweep.manifest.report.question.clone();
        Lead { question: own.unwrap_or(lead.question), ..lead }
    }

    /// Creates a lead; lines after the first few are shown on demand.
    fn new(question: String, mut answers: Vec<Answer>) -> Lead {
        let more = answers.split_off(answers.len().min(OPEN_MAX));
        Lead { question, answers, more }
    }
}

fn against_baseline(sweep: &SweepData, against: &Against, base: &str) -> Lead {
    let scale = if against.zero == 0.0 { scale_for("share", 1.0) } else { scale_for("ratio", 1.0) };
    let of = by_variant(sweep, against.key);
    let answers = in_order(sweep).into_iter().filter_map(|variant| {
        let values = of.get(variant)?;
        let tally = Tally::of(values, against.zero, &lacking(sweep, against.key, variant));
        let class = match (tally.above, tally.below) {
            (_, 1..) => "worse",
            (1.., 0) => "better",
            _ => "open",
        };
        let told = tally.told(against.words.0, against.words.1);
        Some(Answer {
            name: variant.to_owned(),
            values: shown(values, &scale, Some(against.zero)),
            points: values.len(),
            told,
            class,
        })
    });
    Lead::new(format!("{} {base}?", against.question), answers.collect())
}

/// Returns the variants in the order of the experiment.
fn in_order(sweep: &SweepData) -> Vec<&str> {
    let mut variants: Vec<&str> = Vec::new();
    for point in &sweep.points {
        let variant = point.labels.get(VARIANT).map_or("", String::as_str);
        if !variants.contains(&variant) {
            variants.push(variant);
        }
    }
    variants
}

fn among(sweep: &SweepData, key: &str) -> Lead {
    let scale = heading(sweep, key).scale;
    let (variants, of) = (in_order(sweep), by_variant(sweep, key));
    let better = direction(sweep, key);
    let (best, all) = best_at(sweep, key, better);
    let word = if better == Better::Lower { "lowest" } else { "highest" };
    let count = |variant: &str| best.iter().filter(|one| **one == variant).count();
    let valid = sweep.points.iter().filter_map(|point| sweep.of_valid(point, key));
    let seeds = valid.filter(|value| !value.exact).map(|value| value.n).min();
    let within = sweep.runs.iter().map(RunSummary::clocks_within).fold(0.0, f64::max);
    let undecided = match seeds {
        _ if better == Better::Neither || all == 0 => String::new(),
        Some(n) if n < SEEDS_MIN => too_few(n),
        _ if within > 0.0 && is_one_way(key) => {
            format!("not told apart: the clocks of workers and server may be apart by {:.3} us", within / 1000.0)
        }
        _ => "not told apart".to_owned(),
    };
    let mut answers: Vec<(usize, Answer)> = Vec::new();
    for variant in &variants {
        let Some(values) = of.get(variant) else { continue };
        let (count, values, points) = (count(variant), shown(values, &scale, None), values.len());
        let told = match count {
            0 if best.is_empty() => undecided.clone(),
            0 => String::new(),
            n if n == all && all == 1 => word.to_owned(),
            n if n == all => format!("{word} at all {all} points"),
            n => format!("{word} at {n} of {all} points"),
        };
        answers.push((count, Answer { name: (*variant).to_owned(), values, points, told, class: "open" }));
    }
    // Sorted by how often they are best; ties in the order of the experiment.
    answers.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    // Those that are best most often are marked, unless all are equally often.
    let most = answers.first().map_or(0, |(count, _)| *count);
    if answers.iter().any(|(count, _)| *count < most) {
        answers.iter_mut().filter(|(count, _)| *count == most).for_each(|(_, answer)| answer.class = "better");
    }
    let which = match variants.len() {
        n if n > OPEN_MAX => format!("{n} variants"),
        _ => listed(&variants.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()),
    };
    let question = match better {
        Better::Neither => format!("How do {which} compare in {}?", title(key)),
        _ => format!("Which of {which} has the {word} {}?", title(key)),
    };
    // Variants that are best somewhere are shown immediately; if none is better, the first ones.
    let open =
        if best.is_empty() { OPEN_MAX } else { answers.iter().filter(|(count, _)| *count > 0).count().min(OPEN_MAX) };
    let mut answers: Vec<Answer> = answers.into_iter().map(|(_, answer)| answer).collect();
    let more = answers.split_off(open.min(answers.len()));
    Lead { question, answers, more }
}

/// Returns which values of a metric are better, by its definition.
fn direction(sweep: &SweepData, key: &str) -> Better {
    let name = key.split('/').next().unwrap_or(key);
    let own = sweep.user_metrics().into_iter().find(|metric| metric.name == name).map(|metric| metric.better);
    let definitions = families(sweep.options.studies, &[]).into_iter().flat_map(|family| family.definitions);
    let mut known = definitions.filter(|definition| definition.metric == name).map(|definition| definition.better);
    own.or_else(|| known.find(|better| *better != Better::Neither)).unwrap_or(Better::Neither)
}

/// Returns the variants that are best at each setting that several variants have, and the number of these settings, by valid
/// runs. A variant is best if every value in its interval is better than all values in the intervals of the others, and it has a
/// value for every seed for which another one has one: a run without a value, such as a missed goal, may be the worst.
fn best_at<'a>(sweep: &'a SweepData, key: &str, better: Better) -> (Vec<&'a str>, usize) {
    type One<'a> = (&'a str, Estimate, &'a PointSummary);
    let mut settings: Vec<(Labels, Vec<One>)> = Vec::new();
    for point in &sweep.points {
        let (Some(variant), Some(cell)) = (point.labels.get(VARIANT), sweep.compared(point, key)) else { continue };
        let setting = without_variant(&point.labels);
        match settings.iter_mut().find(|(labels, _)| *labels == setting) {
            Some((_, values)) => values.push((variant, cell, point)),
            None => settings.push((setting, vec![(variant, cell, point)])),
        }
    }
    settings.retain(|(_, values)| values.len() > 1 && better != Better::Neither);
    let seeds = |point: &PointSummary, valued: bool| -> BTreeSet<u64> {
        let runs = point.runs.iter().filter_map(|run| sweep.runs.get(*run));
        runs.filter(|run| run.validity.is_valid() && run.value(key).is_some() == valued).map(|run| run.seed).collect()
    };
    let is_best = |own: &One, all: &[One]| {
        let lacks = seeds(own.2, false);
        let beats = |other: &One| is_better(&own.1, &other.1, better) && lacks.is_disjoint(&seeds(other.2, true));
        all.iter().all(|other| other.0 == own.0 || beats(other))
    };
    let best = settings
        .iter()
        .flat_map(|(_, values)| values.iter().filter(|own| is_best(own, values)).map(|(variant, ..)| *variant));
    (best.collect(), settings.len())
}

/// Whether every value of one interval is better than all of another one, or equally good if no chance was involved.
fn is_better(own: &Estimate, other: &Estimate, better: Better) -> bool {
    let ends = |cell: &Estimate| match (cell.exact, cell.interval) {
        (true, _) => Some((cell.median, cell.median)),
        (false, interval) => interval.map(|interval| (interval.lo, interval.hi)),
    };
    let (Some(own_ends), Some(other_ends)) = (ends(own), ends(other)) else { return false };
    let (worst, best) = match better {
        Better::Lower => (own_ends.1, other_ends.0),
        _ => (-own_ends.0, -other_ends.1),
    };
    worst < best || (worst == best && own.exact && other.exact)
}

fn of_metrics(sweep: &SweepData, keys: &[String]) -> Lead {
    let answers = keys.iter().map(|key| {
        let cells = sweep.points.iter().filter_map(|point| Some((&point.labels, *point.cells.get(key)?)));
        let values: Vec<At> = cells.collect();
        let scale = heading(sweep, key).scale;
        Answer {
            name: title(key),
            values: shown(&values, &scale, None),
            points: values.len(),
            told: String::new(),
            class: "open",
        }
    });
    let names: Vec<String> = keys.iter().map(|key| title(key)).collect();
    let axes: Vec<String> = axes(sweep).iter().map(|axis| setting_of(axis, "").trim().to_owned()).collect();
    let question = match (axes.as_slice(), sweep.runs.len()) {
        ([], 1) => format!("What does {} measure?", sweep.manifest.experiment),
        ([], runs) => format!("What do {runs} runs of {} measure?", sweep.manifest.experiment),
        (axes, _) => format!("How does the {} depend on the {}?", shared(&names), listed(axes)),
    };
    Lead::new(question, answers.collect())
}

/// Returns the common first words of the names, or the first name.
pub(crate) fn shared(names: &[String]) -> String {
    let words: Vec<Vec<&str>> = names.iter().map(|name| name.split(' ').collect()).collect();
    let alike = |i: &usize| words.iter().all(|own| own.get(*i).is_some_and(|word| *word == words[0][*i]));
    let count = (0..words[0].len()).take_while(alike).count();
    if count == 0 { names[0].clone() } else { words[0][..count].join(" ").trim_end_matches(',').to_owned() }
}

/// Formats a list: "a, b and c".
fn listed(names: &[String]) -> String {
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => names.concat(),
    }
}

#[cfg(test)]
#[path = "lead_tests.rs"]
mod tests;
