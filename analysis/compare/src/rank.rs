//! The order of several implementations, per metric and point and over all points.
//!
//! Called by [`super`]. A place is an interval: from 1 + those that are surely better to the number of all − those that
//! are surely worse. So those that cannot be distinguished share places.

use std::collections::{BTreeMap, BTreeSet};

use pktgen_records::stats::{self, Estimate, SEEDS_MIN};
use pktgen_report::sweep::data::{Labels, VARIANT};
use pktgen_report::sweep::in_parallel;
use pktgen_workload::study::TIME;
use serde::Serialize;

use super::Side;
use super::effect::{Differences, Sample, resamples};
use super::judge::holm;
use super::pairs::{is_steered, place};
use super::rules::{Band, Direction, Rule, Rules};

/// The order by one metric.
#[derive(Debug, Clone, Serialize)]
pub struct Ranking {
    /// Key of the metric.
    pub metric: String,
    /// Unit of its values.
    pub unit: String,
    /// Which way is better.
    pub direction: Direction,
    /// The point; none for the mean over all points.
    pub labels: Option<Labels>,
    /// Seeds that all have.
    pub seeds: usize,
    /// Whether there are enough seeds for an order, or nothing was left to chance. Else everything may have every place.
    pub compared: bool,
    /// The implementations, the best first.
    pub places: Vec<Standing>,
}

/// An implementation's place.
#[derive(Debug, Clone, Serialize)]
pub struct Standing {
    /// Which.
    pub implementation: String,
    /// Its median over these seeds.
    pub value: Estimate,
    /// Best place that it may have.
    pub best: usize,
    /// Worst place that it may have.
    pub worst: usize,
}

/// Values by seed of one implementation.
type Seeds = BTreeMap<u64, f64>;

/// One row before it is ordered: values of each implementation, by the same seeds.
struct Row<'a> {
    rule: &'a Rule,
    labels: Option<Labels>,
    exact: bool,
    values: Vec<Vec<f64>>,
}

/// Ranks `sides` by every rule that has a direction.
pub(crate) fn rank(sides: &[Side], rules: &Rules) -> Vec<Ranking> {
    let across = across_all(sides);
    let mut rows = Vec::new();
    for rule in rules.rules.iter().filter(|rule| rule.direction != Direction::Equal) {
        let points = common(sides, &rule.metric, across);
        let exact = rule.metric != TIME && sides.iter().all(|side| side.sweep.runs.iter().all(|run| run.exact));
        if points.len() > 1
            && let Some(values) = over_all(&points)
        {
            rows.push(Row { rule, labels: None, exact, values });
        }
        rows.extend(points.into_iter().map(|(labels, sides)| Row {
            rule,
            labels: Some(labels),
            exact,
            values: in_step(&sides),
        }));
    }
    ordered(sides, rows, rules.alpha)
}

/// Whether each side has one variant throughout, and these differ. Then they are what is ranked.
fn across_all(sides: &[Side]) -> bool {
    let variants = |side: &Side| -> BTreeSet<Option<String>> {
        side.sweep.runs.iter().map(|run| run.labels.get(VARIANT).cloned()).collect()
    };
    let all: Vec<_> = sides.iter().map(variants).collect();
    all.iter().all(|one| one.len() == 1) && all.windows(2).any(|two| two[0] != two[1])
}

/// Values of the metric at the points that all sides have, by side and seed; only seeds that all have.
fn common(sides: &[Side], metric: &str, across: bool) -> Vec<(Labels, Vec<Seeds>)> {
    let mut points: Vec<(Labels, Vec<Seeds>)> = Vec::new();
    for (i, side) in sides.iter().enumerate() {
        for run in side.sweep.runs.iter().filter(|run| run.validity.is_valid() && !is_steered(run)) {
            let Some(value) = run.value(metric) else { continue };
            let labels = place(run, across);
            let at = points.iter().position(|(known, _)| *known == labels).unwrap_or_else(|| {
                points.push((labels, vec![Seeds::new(); sides.len()]));
                points.len() - 1
            });
            points[at].1[i].entry(run.seed).or_insert(value);
        }
    }
    for (_, sides) in &mut points {
        let shared: BTreeSet<u64> =
            sides[0].keys().copied().filter(|seed| sides.iter().all(|side| side.contains_key(seed))).collect();
        sides.iter_mut().for_each(|side| side.retain(|seed, _| shared.contains(seed)));
    }
    points.retain(|(_, sides)| !sides[0].is_empty());
    points
}

fn in_step(sides: &[Seeds]) -> Vec<Vec<f64>> {
    sides.iter().map(|side| side.values().copied().collect()).collect()
}

/// Per side and seed the mean over all points (geometric, where all values are positive) of the seeds that all points
/// have; none if there are none.
fn over_all(points: &[(Labels, Vec<Seeds>)]) -> Option<Vec<Vec<f64>>> {
    let first = points.first()?.1.first()?;
    let seeds: Vec<u64> =
        first.keys().copied().filter(|seed| points.iter().all(|(_, sides)| sides[0].contains_key(seed))).collect();
    let values = |side: usize, seed: u64| points.iter().filter_map(move |(_, sides)| sides[side].get(&seed).copied());
    let sides = points[0].1.len();
    let positive = (0..sides).all(|side| seeds.iter().all(|seed| values(side, *seed).all(|value| value > 0.0)));
    let mean = |side: usize, seed: u64| {
        let all: Vec<f64> = values(side, seed).map(|value| if positive { value.ln() } else { value }).collect();
        let mean = stats::mean(&all).unwrap_or(0.0);
        if positive { mean.exp() } else { mean }
    };
    let means = |side| seeds.iter().map(|seed| mean(side, *seed)).collect();
    (!seeds.is_empty()).then(|| (0..sides).map(means).collect())
}

/// Orders every row; who is surely better is found for all pairs of all rows together.
fn ordered(sides: &[Side], rows: Vec<Row>, alpha: f64) -> Vec<Ranking> {
    let pairs: Vec<(usize, usize)> = (0..sides.len()).flat_map(|j| (0..j).map(move |i| (i, j))).collect();
    let tests: Vec<(usize, usize, usize)> =
        (0..rows.len()).flat_map(|row| pairs.iter().map(move |(i, j)| (row, *i, *j))).collect();
    let resamples = resamples(tests.len());
    let sample = |(row, i, j): &(usize, usize, usize)| {
        let values = &rows[*row].values;
        let both: Vec<(f64, f64)> = values[*i].iter().copied().zip(values[*j].iter().copied()).collect();
        Sample::of(&Differences::of(&both, Band::Relative(0.0)).exactly(rows[*row].exact), resamples)
    };
    let samples = in_parallel(&tests, &sample, &mut |_, _| {});
    let chance = |sample: &Option<Sample>| {
        let sample = sample.as_ref().filter(|sample| sample.is_judged() && !sample.is_nothing())?;
        Some((2.0 * sample.above(0.0).min(sample.below(0.0))).min(1.0))
    };
    let chances: Vec<Option<f64>> = samples.iter().map(chance).collect();
    let levels = holm(&chances, alpha);
    let mut places: Vec<Vec<(usize, usize)>> = rows.iter().map(|_| vec![(1, sides.len()); sides.len()]).collect();
    for (((row, i, j), sample), (level, chance)) in tests.iter().zip(&samples).zip(levels.iter().zip(&chances)) {
        let (Some(sample), Some(_)) = (sample, chance) else { continue };
        let (lo, hi) = sample.interval(*level);
        // The second is surely above, or below, the first.
        let lower = rows[*row].rule.direction == Direction::Lower;
        let (better, worse) = match (lo > 0.0, hi < 0.0) {
            (true, _) => {
                if lower {
                    (*i, *j)
                } else {
                    (*j, *i)
                }
            }
            (_, true) => {
                if lower {
                    (*j, *i)
                } else {
                    (*i, *j)
                }
            }
            _ => continue,
        };
        places[*row][better].1 -= 1;
        places[*row][worse].0 += 1;
    }
    rows.into_iter().zip(places).filter_map(|(row, places)| ranking(sides, row, &places)).collect()
}

fn ranking(sides: &[Side], row: Row, places: &[(usize, usize)]) -> Option<Ranking> {
    let metric = row.rule.metric.clone();
    let unit = sides.iter().find_map(|side| side.sweep.units.get(&metric)).cloned().unwrap_or_default();
    let mut all: Vec<Standing> = Vec::new();
    for ((side, values), (best, worst)) in sides.iter().zip(&row.values).zip(places) {
        let value = stats::estimate(values, row.exact)?;
        all.push(Standing { implementation: side.name.clone(), value, best: *best, worst: *worst });
    }
    let sign = if row.rule.direction == Direction::Lower { 1.0 } else { -1.0 };
    all.sort_by(|a, b| {
        let by_place = (a.best + a.worst).cmp(&(b.best + b.worst));
        by_place.then((sign * a.value.median).total_cmp(&(sign * b.value.median)))
    });
    let seeds = row.values.first().map_or(0, Vec::len);
    let compared = seeds >= SEEDS_MIN || row.exact;
    Some(Ranking { metric, unit, direction: row.rule.direction, labels: row.labels, seeds, compared, places: all })
}

impl Standing {
    /// The place for people: one, or from which to which.
    pub fn shown(&self) -> String {
        if self.best == self.worst { self.best.to_string() } else { format!("{}–{}", self.best, self.worst) }
    }
}
