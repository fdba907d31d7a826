//! Metrics along an axis of a sweep: ages of groups, speedup, times of synchronous training, and findings of studies.
//!
//! An axis whose labels are numbers or quantities is drawn to scale; for lists that differ in one entry, by that entry.
//! Other labels become groups of bars.

use std::borrow::Cow;
use std::collections::BTreeMap;

use pktgen_core::registry::Named;
use pktgen_core::units::Quantity;
use pktgen_records::human;
use pktgen_records::metric::iterations::{EFFECTIVE_TIME, IDEAL_TIME, ITERATION_TIME};
use pktgen_records::stats::Interval;
use serde_json::Value;

use super::{Picture, medians, unit_of_chart};
use crate::baseline::{ITERATION_SPEEDUP, SPEEDUP, TARGET_SPEEDUP};
use crate::chart::{Chart, Kind, SERIES_MAX, Series, Span as Whisker, first_charts, first_of};
use crate::headings::{axes, is_study, is_synchronous, metric_keys};
use crate::lead;
use crate::sweep::data::describe;
use crate::sweep::data::{Labels, PointSummary, SweepData, VARIANT};
use crate::sweep::settings::at;

/// Maximum length of a category's name that fits below its bars.
const CATEGORY_MAX: usize = 18;

/// The contents of a chart along an axis.
struct Wanted {
    title: Cow<'static, str>,
    /// Name and unit of y.
    y: (Cow<'static, str>, &'static str),
    /// Keys, with their names in the legend.
    keys: Vec<(String, String)>,
    /// The preferred unit of the x axis.
    prefer: &'static str,
}

impl Wanted {
    fn shows(&self, key: &str) -> bool {
        self.keys.iter().any(|(own, _)| own == key)
    }
}

/// A chart of synchronous training.
struct OfTraining {
    title: &'static str,
    y: (&'static str, &'static str),
    /// Keys, with their names in the legend; all are drawn if the report's table contains one other than the ideal.
    keys: &'static [(&'static str, &'static str)],
    prefer: &'static str,
}

/// Charts of synchronous training, named after the figures of TRIO that they reproduce.
const OF_TRAINING: [OfTraining; 9] = [
    // Figure 13.
    OfTraining {
        title: "Iteration time",
        y: ("iteration time", "ns"),
        keys: &[(ITERATION_TIME, ""), (IDEAL_TIME, "ideal")],
        prefer: "",
    },
    OfTraining {
        title: "Time per iteration's worth of samples",
        y: ("effective iteration time", "ns"),
        keys: &[(EFFECTIVE_TIME, ""), (IDEAL_TIME, "ideal")],
        prefer: "",
    },
    OfTraining {
        title: "Speedup of iterations over the baseline",
        y: ("speedup", ""),
        keys: &[(ITERATION_SPEEDUP, "")],
        prefer: "",
    },
    OfTraining {
        title: "Speedup to any accuracy over the baseline",
        y: ("speedup", ""),
        keys: &[(TARGET_SPEEDUP, "")],
        prefer: "",
    },
    // Figure 14: against the timeout.
    OfTraining {
        title: "Time to recover from stragglers",
        y: ("recovery time", "ns"),
        keys: &[("recovery_time_max", "longest"), ("recovery_time_mean", "mean"), ("recovery_time_min", "shortest")],
        prefer: "ns",
    },
    // Figure 15.
    OfTraining {
        title: "Aggregation latency of a packet",
        y: ("aggregation latency", "ns"),
        keys: &[("aggregation_latency_mean", "")],
        prefer: "",
    },
    OfTraining {
        title: "Aggregation rate",
        y: ("aggregation rate", "elements/s"),
        keys: &[("aggregation_rate", "")],
        prefer: "",
    },
    // Figure 16.
    OfTraining {
        title: "Latency of results",
        y: ("result latency", "ns"),
        keys: &[("result_latency_mean", "")],
        prefer: "",
    },
    OfTraining {
        title: "Aggregation throughput",
        y: ("throughput", "elements/s"),
        keys: &[("elements_per_s", "")],
        prefer: "",
    },
];

/// An axis for x.
struct Axis {
    /// Its label; none for the variant alone.
    label: String,
    name: String,
    unit: &'static str,
    /// Position of each value.
    places: BTreeMap<String, f64>,
    /// Names of the positions, if they are not numbers.
    categories: Vec<String>,
}

/// See the module documentation.
pub(super) struct Against;

impl Named for Against {
    fn name(&self) -> &'static str {
        "against"
    }

    fn about(&self) -> &'static str {
        "metrics against an axis of the sweep: ages of groups, speedup, training times, results of studies"
    }
}

impl Picture for Against {
    fn heading(&self) -> &'static str {
        "Against the axes of the sweep"
    }

    fn charts(&self, sweep: &SweepData) -> Vec<Chart> {
        all(sweep)
    }
}

/// Returns all charts of this kind: ages if the report has groups, speedup if it requests it, and for synchronous
/// training those of the columns of its table.
fn all(sweep: &SweepData) -> Vec<Chart> {
    let plan = &sweep.manifest.report;
    let mut wanted = Vec::new();
    if !plan.groups.is_empty() {
        let name = |group: &str| (format!("aom_mean/cluster/{group}"), group.to_owned());
        wanted.push(Wanted {
            title: "Average Age-of-Model of clusters by group".into(),
            y: ("average age".into(), "ns"),
            keys: plan.groups.iter().map(|group| name(&group.name)).collect(),
            prefer: "",
        });
    }
    if plan.metrics.iter().any(|key| key == SPEEDUP) {
        let keys = vec![(SPEEDUP.to_owned(), String::new())];
        wanted.push(Wanted {
            title: "Speedup over the baseline".into(),
            y: ("speedup".into(), ""),
            keys,
            prefer: "bps",
        });
    }
    if is_synchronous(sweep) {
        wanted.extend(of_training(&metric_keys(sweep)));
    }
    if is_study(sweep) {
        wanted.extend(metric_keys(sweep).iter().filter_map(|key| of_study(sweep, key)));
    }
    let answer = of_answer(sweep).filter(|own| !wanted.iter().any(|other| other.shows(&own.keys[0].0)));
    let answer = answer.iter().flat_map(|wanted| against(sweep, wanted)).enumerate();
    // One chart shows the answer; the others are for further settings.
    let answer = answer.map(|(i, chart)| Chart { folded: i > 0, ..chart });
    answer.chain(wanted.iter().flat_map(|wanted| against(sweep, wanted))).collect()
}

/// Returns the metrics that answer the experiment's question.
fn of_answer(sweep: &SweepData) -> Option<Wanted> {
    let keys = lead::drawn(sweep);
    let (first, _) = keys.first()?;
    let unit = sweep.units.get(first).map_or("", String::as_str);
    let title = human::title(first);
    let names: Vec<String> = keys.iter().map(|(key, _)| human::title(key)).collect();
    let (title, name) =
        if names.len() == 1 { (title.clone(), title) } else { (names.join(", "), lead::shared(&names)) };
    Some(Wanted { title: title.into(), y: (name.into(), unit_of_chart(unit)), keys, prefer: "" })
}

/// Returns a column of a study's table if it differs between points.
fn of_study(sweep: &SweepData, key: &str) -> Option<Wanted> {
    let medians: Vec<f64> = sweep.points.iter().filter_map(|point| Some(point.cells.get(key)?.median)).collect();
    let differs = medians.iter().any(|median| *median != medians[0]);
    let unit = sweep.units.get(key).map_or("", String::as_str);
    let title = human::title(key);
    differs.then(|| Wanted {
        title: title.clone().into(),
        y: (title.into(), unit_of_chart(unit)),
        keys: vec![(key.to_owned(), String::new())],
        prefer: "",
    })
}

/// Returns the charts of synchronous training for a table with `columns`.
fn of_training(columns: &[String]) -> impl Iterator<Item = Wanted> {
    let has = |key: &str| key != IDEAL_TIME && columns.iter().any(|column| column == key);
    let drawn = OF_TRAINING.iter().filter(move |picture| picture.keys.iter().any(|(key, _)| has(key)));
    drawn.map(|picture| Wanted {
        title: picture.title.into(),
        y: (picture.y.0.into(), picture.y.1),
        keys: picture.keys.iter().map(|(key, name)| ((*key).to_owned(), (*name).to_owned())).collect(),
        prefer: picture.prefer,
    })
}

/// Returns one chart if all of its lines can be distinguished, otherwise one per setting of the other axes.
fn against(sweep: &SweepData, wanted: &Wanted) -> Vec<Chart> {
    let Some(axis) = choose(sweep, wanted.prefer) else { return Vec::new() };
    let points: Vec<_> = sweep.points.iter().collect();
    let all = lines(&points, &axis, wanted, true);
    let shown = points.iter().flat_map(|point| wanted.keys.iter().filter_map(|(key, _)| point.cells.get(key)));
    let what = medians(shown);
    if all.len() <= SERIES_MAX {
        return draw(all, &axis, wanted, "", &what).into_iter().collect();
    }
    let mut settings: Vec<(Labels, Vec<&PointSummary>)> = Vec::new();
    for point in &sweep.points {
        let rest = without(&point.labels, &axis);
        match settings.iter_mut().find(|(labels, _)| *labels == rest) {
            Some((_, points)) => points.push(point),
            None => settings.push((rest, vec![point])),
        }
    }
    let all = settings.iter().map(|(rest, points)| (rest, lines(points, &axis, wanted, false)));
    let of_setting = |(rest, mut series): (&Labels, Vec<Series>)| {
        let what = format!("{what}{}", first_of(series.len(), "lines"));
        series.truncate(SERIES_MAX);
        draw(series, &axis, wanted, &at(rest), &what)
    };
    first_charts(all.filter(|(_, series)| !series.is_empty()), of_setting, "setting")
}

/// Returns the position of a point on the axis.
fn place(point: &PointSummary, axis: &Axis) -> Option<f64> {
    axis.places.get(point.labels.get(&axis.label)?).copied()
}

/// Returns the labels except the axis and the variant.
fn without(labels: &Labels, axis: &Axis) -> Labels {
    let rest = labels.iter().filter(|(name, _)| **name != axis.label && *name != VARIANT);
    rest.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Returns a line per variant, key and, with `with_rest`, setting of the other axes; lines without values are omitted.
fn lines(points: &[&PointSummary], axis: &Axis, wanted: &Wanted, with_rest: bool) -> Vec<Series> {
    let mut lines: Vec<Series> = Vec::new();
    let one_ideal = one_ideal(points);
    let variants: Vec<Option<&String>> = match axis.label == VARIANT {
        true => Vec::new(),
        false => points.iter().map(|point| point.labels.get(VARIANT)).collect(),
    };
    for point in points {
        let Some(x) = place(point, axis) else { continue };
        let rest = if with_rest { without(&point.labels, axis) } else { Labels::new() };
        let variant = if axis.label == VARIANT { None } else { point.labels.get(VARIANT) };
        for (key, called) in &wanted.keys {
            let Some(cell) = point.cells.get(key) else { continue };
            let rest = if rest.is_empty() { String::new() } else { describe(&rest) };
            let shared = one_ideal && key == IDEAL_TIME;
            // A variant may have the same name.
            let is_taken = shared && variants.contains(&Some(called));
            let called = if is_taken { "ideal time" } else { called.as_str() };
            let parts = [variant.filter(|_| !shared).map_or("", String::as_str), called, &rest];
            let name = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
            let at = lines.iter().position(|line| line.name == name).unwrap_or_else(|| {
                lines.push(Series { name, ..Default::default() });
                lines.len() - 1
            });
            if shared && lines[at].points.iter().any(|(other, _)| *other == x) {
                continue;
            }
            lines[at].points.push((x, cell.median));
            lines[at].spans.extend(cell.interval.map(|Interval { lo, hi }| Whisker { x, lo, hi }));
        }
    }
    for line in &mut lines {
        line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
        line.spans.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
    lines
}

/// Whether all variants have the same ideal everywhere, so that it is one line.
fn one_ideal(points: &[&PointSummary]) -> bool {
    let mut ideals: BTreeMap<Vec<(&String, &String)>, f64> = BTreeMap::new();
    points.iter().all(|point| {
        let Some(cell) = point.cells.get(IDEAL_TIME) else { return true };
        let setting = point.labels.iter().filter(|(axis, _)| *axis != VARIANT).collect();
        *ideals.entry(setting).or_insert(cell.median) == cell.median
    })
}

fn draw(series: Vec<Series>, axis: &Axis, wanted: &Wanted, at: &str, what: &str) -> Option<Chart> {
    let title = format!("{}{at}, {what}", wanted.title);
    (!series.is_empty()).then(|| Chart {
        kind: if axis.categories.is_empty() { Kind::Line } else { Kind::Bars },
        title,
        x: (axis.name.clone(), axis.unit),
        y: (wanted.y.0.clone().into_owned(), wanted.y.1),
        categories: axis.categories.clone(),
        series,
        keys: wanted.keys.iter().map(|(key, _)| key.clone()).collect(),
        ..Default::default()
    })
}

/// Selects the axis for x: one in unit `prefer`, one with numbers, one with names, or the variant; among these, the one
/// with the most values.
fn choose(sweep: &SweepData, prefer: &str) -> Option<Axis> {
    let candidates = axes(sweep).into_iter().filter_map(|label| axis(sweep, label));
    let rank = |axis: &Axis| {
        let numbers = axis.categories.is_empty();
        (numbers && !prefer.is_empty() && axis.unit == prefer, numbers, axis.label != VARIANT, axis.places.len())
    };
    // Ties are resolved in favour of the first.
    candidates.reduce(|best, next| if rank(&next) > rank(&best) { next } else { best })
}

/// Returns the axis `label`; `None` if it has only one value and is not the variant.
fn axis(sweep: &SweepData, label: String) -> Option<Axis> {
    let mut values: Vec<&String> = Vec::new();
    for value in sweep.points.iter().filter_map(|point| point.labels.get(&label)) {
        if !values.contains(&value) {
            values.push(value);
        }
    }
    if label != VARIANT {
        if values.len() < 2 {
            return None;
        }
        if let Some((entry, unit, numbers)) = numbers(&values) {
            let name = entry.map_or(label.clone(), |entry| format!("{label}, entry {}", entry + 1));
            let places = values.into_iter().cloned().zip(numbers).collect();
            return Some(Axis { name, label, unit, places, categories: Vec::new() });
        }
    }
    let categories = values.iter().map(|value| category(value)).collect();
    let places = values.into_iter().cloned().zip((0..).map(f64::from)).collect();
    Some(Axis { name: label.clone(), label, unit: "", places, categories })
}

/// Returns the value without list punctuation, shortened to fit.
fn category(value: &str) -> String {
    let plain: String = value.chars().filter(|c| !"[]\"".contains(*c)).collect();
    if plain.chars().count() <= CATEGORY_MAX {
        return plain;
    }
    plain.chars().take(CATEGORY_MAX - 1).chain(['…']).collect()
}

/// Returns the values as numbers of one unit; for lists the only entry in which they differ, with its index.
fn numbers(values: &[&String]) -> Option<(Option<usize>, &'static str, Vec<f64>)> {
    if let Some((unit, numbers)) = alike(values.iter().map(|value| quantity(value))) {
        return Some((None, unit, numbers));
    }
    let lists: Vec<Vec<Value>> = values.iter().map(|value| serde_json::from_str(value).ok()).collect::<Option<_>>()?;
    let length = lists.first()?.len();
    if lists.iter().any(|list| list.len() != length) {
        return None;
    }
    let mut differing = (0..length).filter(|entry| lists.iter().any(|list| list[*entry] != lists[0][*entry]));
    let entry = differing.next()?;
    if differing.next().is_some() {
        return None;
    }
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let (unit, numbers) = alike(lists.iter().map(|list| quantity(&text(&list[entry]))))?;
    Some((Some(entry), unit, numbers))
}

/// Returns all `quantities` if each exists and they have one unit.
fn alike(quantities: impl Iterator<Item = Option<(f64, &'static str)>>) -> Option<(&'static str, Vec<f64>)> {
    let all: Vec<(f64, &'static str)> = quantities.collect::<Option<_>>()?;
    let unit = all.first()?.1;
    all.iter().all(|(_, other)| *other == unit).then(|| (unit, all.iter().map(|(number, _)| *number).collect()))
}

/// Parses a number, or a quantity in the unit of charts.
fn quantity(text: &str) -> Option<(f64, &'static str)> {
    Some(match Quantity::read(text)? {
        Quantity::Number(number) => (number, ""),
        Quantity::Rate(rate) => (rate.bps() as f64, "bps"),
        Quantity::Span(span) => (span.ps() as f64 / 1000.0, "ns"),
        Quantity::Size(size) => (size.bits() as f64 / 8.0, "bytes"),
    })
}

#[cfg(test)]
#[path = "against_tests.rs"]
mod tests;
