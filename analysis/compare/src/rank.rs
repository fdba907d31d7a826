//! Ranks several implementations, per metric and point and over all points.
//!
//! Called by [`super`]. A place is an interval: from 1 + the number of implementations that are certainly better to the
//! total number − those that are certainly worse. So implementations that cannot be distinguished share places.

use std::collections::{BTreeMap, BTreeSet};

use pktgen_records::stats::{self, Estimate, SEEDS_MIN};
use pktgen_report::sweep::data::{Labels, VARIANT, canonical_labels, clock_error};
use pktgen_report::sweep::in_parallel;
use pktgen_workload::study::TIME;
use serde::Serialize;

use super::Side;
use super::effect::{Differences, Sample, resamples};
use super::judge::holm;
use super::pairs::place;
use super::rules::{Band, Direction, Rule, Rules};

/// The ranking by one metric.
#[derive(Debug, Clone, Serialize)]
pub struct Ranking {
    /// Key of the metric.
    pub metric: String,
    /// Unit of its values.
    pub unit: String,
    /// Which way is better.
    pub direction: Direction,
    /// The point; `None` for the mean over all points.
    pub labels: Option<Labels>,
    /// Number of seeds for which all implementations with any value have one.
    pub seeds: usize,
    /// Number of points excluded from the mean over all points, since an implementation has no value there.
    pub points_left_out: usize,
    /// Whether there are enough seeds for a ranking, or no chance was involved. Otherwise, every place is possible for all.
    pub compared: bool,
    /// The implementations, the best first.
    pub places: Vec<Standing>,
}

/// An implementation's place.
#[derive(Debug, Clone, Serialize)]
pub struct Standing {
    /// Its name.
    pub implementation: String,
    /// Its median over these seeds; `None` if it has no value at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Estimate>,
    /// Runs without a value (a goal that was missed) where any other implementation has one.
    pub lacking: usize,
    /// Best possible place.
    pub best: usize,
    /// Worst possible place.
    pub worst: usize,
}

/// Values of one implementation by seed; `None` for a run without a value.
type Seeds = BTreeMap<u64, Option<f64>>;

/// Results of all sides at one point.
struct Point {
    labels: Labels,
    sides: Vec<Seeds>,
    /// Maximum error of the values of each side by its clocks.
    errors: Vec<f64>,
}

/// A row before ranking: values of each implementation for the same seeds; empty for one without values.
struct Row<'a> {
    rule: &'a Rule,
    labels: Option<Labels>,
    points_left_out: usize,
    exact: bool,
    values: Vec<Vec<f64>>,
    lacks: Lacks,
    /// Maximum error of the values of each side by its clocks.
    errors: Vec<f64>,
}

/// How often each side (first index) has no value where another side (second index) has one; with itself as second index: where any
/// other side has one.
#[derive(Clone)]
struct Lacks(Vec<Vec<usize>>);

/// Ranks `sides` by every rule with a direction.
pub(crate) fn rank(sides: &[Side], rules: &Rules) -> Vec<Ranking> {
    let across = across_all(sides);
    let mut rows = Vec::new();
    for rule in rules.rules.iter().filter(|rule| orders(rule)) {
        let (points, elsewhere) = common(sides, &rule.metric, across);
        let exact = rule.metric != TIME && sides.iter().all(|side| side.sweep.runs.iter().all(|run| run.exact));
        rows.extend(Row::over_all(rule, &points, elsewhere, exact));
        rows.extend(points.into_iter().map(|point| Row::of(rule, point, exact)));
    }
    ordered(sides, rows, rules.alpha)
}

/// Whether a rule orders implementations.
fn orders(rule: &Rule) -> bool {
    rule.direction != Direction::Equal && rule.withheld.is_none()
}

/// Returns the reason why nothing is ranked.
pub(crate) fn nothing(rules: &Rules) -> String {
    let why = if rules.rules.iter().any(orders) {
        "there is no point at which all implementations have valid runs and one has a value"
    } else {
        "rules with direction = \"equal\", and metrics that are not defined alike, give no order"
    };
    format!("Nothing is ranked: {why}.")
}

/// Whether each side has a single variant and these differ. Then the variants are ranked.
pub(crate) fn across_all(sides: &[Side]) -> bool {
    let variants = |side: &Side| -> BTreeSet<Option<String>> {
        side.sweep.runs.iter().map(|run| run.labels.get(VARIANT).cloned()).collect()
    };
    let all: Vec<_> = sides.iter().map(variants).collect();
    all.iter().all(|one| one.len() == 1) && all.windows(2).any(|two| two[0] != two[1])
}

/// Returns the results at the points at which all sides have runs and any has a value, and the number of other points with
/// a value.
fn common(sides: &[Side], metric: &str, across: bool) -> (Vec<Point>, usize) {
    let mut points: Vec<Point> = Vec::new();
    let mut known: BTreeMap<Labels, usize> = BTreeMap::new();
    for (i, side) in sides.iter().enumerate() {
        for run in side.sweep.runs.iter().filter(|run| run.validity.is_valid() && !run.is_steered()) {
            let labels = place(run, across);
            let at = *known.entry(canonical_labels(&labels)).or_insert_with(|| {
                let (seeds, errors) = (vec![Seeds::new(); sides.len()], vec![0.0; sides.len()]);
                points.push(Point { labels, sides: seeds, errors });
                points.len() - 1
            });
            points[at].sides[i].entry(run.seed).or_insert(run.value(metric));
            points[at].errors[i] = clock_error([run], metric).max(points[at].errors[i]);
        }
    }
    let any = |point: &Point| point.sides.iter().flat_map(BTreeMap::values).any(Option::is_some);
    points.retain(any);
    let valued = points.len();
    points.retain(|point| point.sides.iter().all(|side| !side.is_empty()));
    let elsewhere = valued - points.len();
    (points, elsewhere)
}

impl Point {
    /// Returns the value of a side for this seed, if any.
    fn value(&self, side: usize, seed: u64) -> Option<f64> {
        self.sides[side].get(&seed).copied().flatten()
    }

    /// Returns the sides that have any value.
    fn present(&self) -> Vec<usize> {
        (0..self.sides.len()).filter(|side| self.sides[*side].values().any(Option::is_some)).collect()
    }

    /// Returns the seeds for which all sides with any value have one.
    fn shared(&self) -> BTreeSet<u64> {
        let present = self.present();
        let all = |seed: &u64| present.iter().all(|side| self.value(*side, *seed).is_some());
        self.sides.iter().flat_map(BTreeMap::keys).copied().filter(all).collect()
    }

    fn lacks(&self) -> Lacks {
        let without = |side: usize| self.sides[side].iter().filter(|(_, value)| value.is_none()).map(|(seed, _)| *seed);
        let all = 0..self.sides.len();
        let any = |seed: &u64| all.clone().any(|other| self.value(other, *seed).is_some());
        let has = |side: usize, other: usize, seed: &u64| {
            if side == other { any(seed) } else { self.value(other, *seed).is_some() }
        };
        let count = |side, other| without(side).filter(|seed| has(side, other, seed)).count();
        Lacks(all.clone().map(|side| all.clone().map(|other| count(side, other)).collect()).collect())
    }
}

impl Lacks {
    fn sum(self, other: Lacks) -> Lacks {
        let rows = self.0.into_iter().zip(other.0);
        Lacks(rows.map(|(a, b)| a.into_iter().zip(b).map(|(a, b)| a + b).collect()).collect())
    }
}

/// Whether each side has the same value for every seed; otherwise its values are not exact, whatever their runs state.
fn all_alike(values: &[Vec<f64>]) -> bool {
    values.iter().all(|side| side.iter().all(|value| *value == side[0]))
}

impl<'a> Row<'a> {
    fn of(rule: &'a Rule, point: Point, exact: bool) -> Row<'a> {
        let shared = point.shared();
        let values = |side| shared.iter().filter_map(|seed| point.value(side, *seed)).collect();
        let values: Vec<Vec<f64>> = (0..point.sides.len()).map(values).collect();
        let lacks = point.lacks();
        let exact = exact && all_alike(&values);
        Row { rule, labels: Some(point.labels), points_left_out: 0, exact, values, lacks, errors: point.errors }
    }

    /// Returns, per side and seed, the mean over all points at which all have values (geometric if all values are
    /// positive), for the seeds that all these points share; `None` without such seeds or with a single point. Some sides
    /// have no runs at points `elsewhere`.
    fn over_all(rule: &'a Rule, points: &[Point], elsewhere: usize, exact: bool) -> Option<Row<'a>> {
        let sides = points.first()?.sides.len();
        let lacks = points.iter().map(Point::lacks).reduce(Lacks::sum)?;
        let whole: Vec<&Point> = points.iter().filter(|point| point.present().len() == sides).collect();
        let shared = whole.iter().map(|point| point.shared()).reduce(|a, b| &a & &b)?;
        if points.len() < 2 || shared.is_empty() {
            return None;
        }
        // All values, or the least that they may be: errors are once or not subtracted.
        let values = |side: usize, seed: u64, errors: f64| {
            whole.iter().filter_map(move |point| Some(point.value(side, seed)? - errors * point.errors[side]))
        };
        let positive =
            (0..sides).all(|side| shared.iter().all(|seed| values(side, *seed, 0.0).all(|value| value > 0.0)));
        let mean = |side: usize, seed: u64, errors: f64| {
            let scaled = |value: f64| if positive { value.max(0.0).ln() } else { value };
            let all: Vec<f64> = values(side, seed, errors).map(scaled).collect();
            let mean = stats::mean(&all).unwrap_or(0.0);
            if positive { mean.exp() } else { mean }
        };
        let of = |side| shared.iter().map(|seed| mean(side, *seed, 0.0)).collect();
        let values: Vec<Vec<f64>> = (0..sides).map(of).collect();
        let exact = exact && all_alike(&values);
        let points_left_out = points.len() - whole.len() + elsewhere;
        let error = |side: usize| {
            let errors = shared.iter().map(|seed| mean(side, *seed, 0.0) - mean(side, *seed, 1.0));
            errors.fold(0.0, f64::max)
        };
        let errors = (0..sides).map(error).collect();
        Some(Row { rule, labels: None, points_left_out, exact, values, lacks, errors })
    }
}

/// Ranks every row; the significant differences of all pairs of all rows are determined together.
fn ordered(sides: &[Side], rows: Vec<Row>, alpha: f64) -> Vec<Ranking> {
    let pairs: Vec<(usize, usize)> = (0..sides.len()).flat_map(|j| (0..j).map(move |i| (i, j))).collect();
    let tests: Vec<(usize, usize, usize)> =
        (0..rows.len()).flat_map(|row| pairs.iter().map(move |(i, j)| (row, *i, *j))).collect();
    let resamples = resamples(tests.len(), alpha);
    let sample = |(row, i, j): &(usize, usize, usize)| {
        let values = &rows[*row].values;
        let both: Vec<(f64, f64)> = values[*i].iter().copied().zip(values[*j].iter().copied()).collect();
        let differences = Differences::of(&both, Band::Relative(0.0)).exactly(rows[*row].exact);
        let errors = [*i, *j].map(|side| rows[*row].errors[side]);
        Sample::of(&differences.off_by(&both, errors), resamples, alpha)
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
        // The second is certainly above or below the first.
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
        // A run without a value may be the worst: the others do not represent it.
        if rows[*row].lacks.0[better][worse] > 0 {
            continue;
        }
        places[*row][better].1 -= 1;
        places[*row][worse].0 += 1;
    }
    rows.into_iter().zip(places).map(|(row, places)| ranking(sides, row, &places)).collect()
}

/// Returns the unit of a metric.
fn unit_of(sides: &[Side], metric: &str) -> String {
    sides.iter().find_map(|side| side.sweep.units.get(metric)).cloned().unwrap_or_default()
}

fn ranking(sides: &[Side], row: Row, places: &[(usize, usize)]) -> Ranking {
    let metric = row.rule.metric.clone();
    let unit = unit_of(sides, &metric);
    let standing = |i: usize| Standing {
        implementation: sides[i].name.clone(),
        value: stats::estimate(&row.values[i], row.exact),
        lacking: row.lacks.0[i][i],
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
    let compared = seeds >= SEEDS_MIN || row.exact && seeds > 0;
    let Row { rule, labels, points_left_out, .. } = row;
    Ranking { metric, unit, direction: rule.direction, labels, seeds, points_left_out, compared, places: all }
}

impl Standing {
    /// Formats the place: a single one or a range.
    pub fn shown(&self) -> String {
        if self.best == self.worst { self.best.to_string() } else { format!("{}–{}", self.best, self.worst) }
    }
}

#[cfg(test)]
#[path = "rank_tests.rs"]
mod tests;
