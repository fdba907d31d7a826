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
use super::pairs::{alike, is_steered, place};
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
    /// Seeds at which all have a value that have any.
    pub seeds: usize,
    /// Points that are in no mean over all points, since an implementation has no value there.
    pub points_left_out: usize,
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
    /// Its median over these seeds; none where it has no value at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Estimate>,
    /// Runs without a value (a goal that was missed) where another implementation has one.
    pub lacking: usize,
    /// Best place that it may have.
    pub best: usize,
    /// Worst place that it may have.
    pub worst: usize,
}

/// Values by seed of one implementation; none of a run that has no value.
type Seeds = BTreeMap<u64, Option<f64>>;

/// What all sides did at one point, by side.
struct Point {
    labels: Labels,
    sides: Vec<Seeds>,
}

/// One row before it is ordered: values of each implementation, by the same seeds; empty of one that has none.
struct Row<'a> {
    rule: &'a Rule,
    labels: Option<Labels>,
    points_left_out: usize,
    exact: bool,
    values: Vec<Vec<f64>>,
    lacks: Lacks,
}

/// How often each side (first index) has no value where another (second) has one.
#[derive(Clone)]
struct Lacks(Vec<Vec<usize>>);

/// Ranks `sides` by every rule that has a direction.
pub(crate) fn rank(sides: &[Side], rules: &Rules) -> Vec<Ranking> {
    let across = across_all(sides);
    let mut rows = Vec::new();
    for rule in rules.rules.iter().filter(|rule| rule.direction != Direction::Equal) {
        let points = common(sides, &rule.metric, across);
        let exact = rule.metric != TIME && sides.iter().all(|side| side.sweep.runs.iter().all(|run| run.exact));
        rows.extend(Row::over_all(rule, &points, exact));
        rows.extend(points.into_iter().map(|point| Row::of(rule, point, exact)));
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

/// What all sides did at the points at which all have runs and any has a value.
fn common(sides: &[Side], metric: &str, across: bool) -> Vec<Point> {
    let mut points: Vec<Point> = Vec::new();
    let mut known: BTreeMap<Labels, usize> = BTreeMap::new();
    for (i, side) in sides.iter().enumerate() {
        for run in side.sweep.runs.iter().filter(|run| run.validity.is_valid() && !is_steered(run)) {
            let labels = place(run, across);
            let at = *known.entry(alike(&labels)).or_insert_with(|| {
                points.push(Point { labels, sides: vec![Seeds::new(); sides.len()] });
                points.len() - 1
            });
            points[at].sides[i].entry(run.seed).or_insert(run.value(metric));
        }
    }
    let any = |point: &Point| point.sides.iter().flat_map(BTreeMap::values).any(Option::is_some);
    points.retain(|point| point.sides.iter().all(|side| !side.is_empty()) && any(point));
    points
}

impl Point {
    /// The value of a side, if it has a run of this seed and that has one.
    fn value(&self, side: usize, seed: u64) -> Option<f64> {
        self.sides[side].get(&seed).copied().flatten()
    }

    /// Sides that have any value.
    fn present(&self) -> Vec<usize> {
        (0..self.sides.len()).filter(|side| self.sides[*side].values().any(Option::is_some)).collect()
    }

    /// Seeds at which all sides have a value that have any.
    fn shared(&self) -> BTreeSet<u64> {
        let present = self.present();
        let all = |seed: &u64| present.iter().all(|side| self.value(*side, *seed).is_some());
        self.sides.iter().flat_map(BTreeMap::keys).copied().filter(all).collect()
    }

    fn lacks(&self) -> Lacks {
        let without = |side: usize| self.sides[side].iter().filter(|(_, value)| value.is_none()).map(|(seed, _)| *seed);
        let count = |side, other| without(side).filter(|seed| self.value(other, *seed).is_some()).count();
        let all = 0..self.sides.len();
        Lacks(all.clone().map(|side| all.clone().map(|other| count(side, other)).collect()).collect())
    }
}

impl Lacks {
    fn sum(self, other: Lacks) -> Lacks {
        let rows = self.0.into_iter().zip(other.0);
        Lacks(rows.map(|(a, b)| a.into_iter().zip(b).map(|(a, b)| a + b).collect()).collect())
    }
}

impl<'a> Row<'a> {
    fn of(rule: &'a Rule, point: Point, exact: bool) -> Row<'a> {
        let shared = point.shared();
        let values = |side| shared.iter().filter_map(|seed| point.value(side, *seed)).collect();
        let values = (0..point.sides.len()).map(values).collect();
        let lacks = point.lacks();
        Row { rule, labels: Some(point.labels), points_left_out: 0, exact, values, lacks }
    }

    /// Per side and seed the mean over all points at which all have values (geometric, where all values are positive) of the seeds that
    /// all these points have; none if there are none, or there is one point only.
    fn over_all(rule: &'a Rule, points: &[Point], exact: bool) -> Option<Row<'a>> {
        let sides = points.first()?.sides.len();
        let lacks = points.iter().map(Point::lacks).reduce(Lacks::sum)?;
        let whole: Vec<&Point> = points.iter().filter(|point| point.present().len() == sides).collect();
        let shared = whole.iter().map(|point| point.shared()).reduce(|a, b| &a & &b)?;
        if points.len() < 2 || shared.is_empty() {
            return None;
        }
        let values = |side: usize, seed: u64| whole.iter().filter_map(move |point| point.value(side, seed));
        let positive = (0..sides).all(|side| shared.iter().all(|seed| values(side, *seed).all(|value| value > 0.0)));
        let mean = |side: usize, seed: u64| {
            let all: Vec<f64> = values(side, seed).map(|value| if positive { value.ln() } else { value }).collect();
            let mean = stats::mean(&all).unwrap_or(0.0);
            if positive { mean.exp() } else { mean }
        };
        let values = (0..sides).map(|side| shared.iter().map(|seed| mean(side, *seed)).collect()).collect();
        Some(Row { rule, labels: None, points_left_out: points.len() - whole.len(), exact, values, lacks })
    }
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
        // A run without a value may be the worst: those that have one do not speak for it.
        if rows[*row].lacks.0[better][worse] > 0 {
            continue;
        }
        places[*row][better].1 -= 1;
        places[*row][worse].0 += 1;
    }
    rows.into_iter().zip(places).map(|(row, places)| ranking(sides, row, &places)).collect()
}

fn ranking(sides: &[Side], row: Row, places: &[(usize, usize)]) -> Ranking {
    let metric = row.rule.metric.clone();
    let unit = sides.iter().find_map(|side| side.sweep.units.get(&metric)).cloned().unwrap_or_default();
    let lacking = |side: usize| row.lacks.0[side].iter().copied().max().unwrap_or(0);
    let standing = |i: usize| Standing {
        implementation: sides[i].name.clone(),
        value: stats::estimate(&row.values[i], row.exact),
        lacking: lacking(i),
        best: places[i].0,
        worst: places[i].1,
    };
    let mut all: Vec<Standing> = (0..sides.len()).map(standing).collect();
    let sign = if row.rule.direction == Direction::Lower { 1.0 } else { -1.0 };
    let size = |one: &Standing| one.value.map_or(f64::INFINITY, |value| sign * value.median);
    all.sort_by(|a, b| {
        let by_place = (a.best + a.worst).cmp(&(b.best + b.worst));
        by_place.then(size(a).total_cmp(&size(b)))
    });
    let seeds = row.values.iter().map(Vec::len).max().unwrap_or(0);
    let compared = seeds >= SEEDS_MIN || row.exact;
    let Row { rule, labels, points_left_out, .. } = row;
    Ranking { metric, unit, direction: rule.direction, labels, seeds, points_left_out, compared, places: all }
}

impl Standing {
    /// The place for people: one, or from which to which.
    pub fn shown(&self) -> String {
        if self.best == self.worst { self.best.to_string() } else { format!("{}–{}", self.best, self.worst) }
    }
}
