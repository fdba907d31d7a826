//! Published values beside ours, with one chart per metric in the paper.

use pktgen_core::record::Bound;
use pktgen_core::registry::Named;
use pktgen_records::human;
use pktgen_records::stats::{Estimate, Interval};

use super::{Picture, medians, unit_of_chart};
use crate::chart::{Chart, Kind, ROWS_MAX, Series, Span, rows_note};
use crate::sweep::data::{PointSummary, SweepData, published_at};
use crate::sweep::settings::point_name;

/// See the module documentation.
pub(super) struct Paper;

impl Named for Paper {
    fn name(&self) -> &'static str {
        "paper"
    }

    fn about(&self) -> &'static str {
        "published values beside measured ones with their intervals, one picture per metric"
    }
}

impl Picture for Paper {
    fn heading(&self) -> &'static str {
        "Paper beside ours"
    }

    fn charts(&self, sweep: &SweepData) -> Vec<Chart> {
        let mut keys: Vec<&String> = Vec::new();
        for key in sweep.manifest.paper.iter().flat_map(|published| published.values.keys()) {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys.into_iter().filter_map(|key| draw(sweep, key)).collect()
    }
}

/// The series of a published value, by its bound.
const SERIES: [(Option<Bound>, &str); 3] =
    [(None, "paper"), (Some(Bound::Above), "paper: more than"), (Some(Bound::Below), "paper: less than")];

fn draw(sweep: &SweepData, key: &str) -> Option<Chart> {
    let with = sweep.points.iter().filter_map(|point| {
        // As in the table.
        let paper = published_at(&sweep.manifest.paper, key, point)?;
        Some((point, (*paper.values.get(key)?, paper.bound)))
    });
    let all: Vec<(&PointSummary, (f64, Option<Bound>))> = with.collect();
    let rows = &all[..all.len().min(ROWS_MAX)];
    let mut ours = Series { name: "ours".to_owned(), ..Default::default() };
    let valid: Vec<Option<Estimate>> = rows.iter().map(|(point, _)| sweep.of_valid(point, key)).collect();
    for (row, cell) in valid.iter().enumerate() {
        if let Some(cell) = cell {
            ours.points.push((row as f64, cell.median));
            ours.spans.extend(cell.interval.map(|Interval { lo, hi }| Span { x: row as f64, lo, hi }));
        }
    }
    if ours.points.is_empty() {
        return None;
    }
    let papers = SERIES.into_iter().map(|(bound, name)| {
        let rows = rows.iter().enumerate().filter(|(_, (_, (_, own)))| *own == bound);
        let points = rows.map(|(row, (_, (value, _)))| (row as f64, *value)).collect();
        Series { name: name.to_owned(), points, ..Default::default() }
    });
    let unit = sweep.units.get(key).map_or("", String::as_str);
    let title = human::title(key);
    Some(Chart {
        kind: Kind::Dots,
        title: format!("{title}: paper beside ours, {}", medians(valid.iter().flatten())),
        note: rows_note(all.len()),
        x: (title, unit_of_chart(unit)),
        categories: rows.iter().map(|(point, _)| point_name(&point.labels)).collect(),
        series: std::iter::once(ours).chain(papers).collect(),
        ..Default::default()
    })
}
