//! Dropped updates by reason, one bar per point of the sweep.

use pktgen_core::record::Reason;
use pktgen_core::registry::Named;
use pktgen_records::stats;

use super::Picture;
use crate::chart::{Chart, Kind, ROWS_MAX, SERIES_MAX, Series, rows_note};
use crate::sweep::data::{PointSummary, SweepData};
use crate::sweep::settings::point_name;

/// See the module documentation.
pub(super) struct Loss;

impl Named for Loss {
    fn name(&self) -> &'static str {
        "loss"
    }

    fn about(&self) -> &'static str {
        "share of sent updates that were dropped, by reason, as stacked bars per point; duplicates are not lost"
    }
}

impl Picture for Loss {
    fn heading(&self) -> &'static str {
        "Drops by reason"
    }

    fn charts(&self, sweep: &SweepData) -> Vec<Chart> {
        let rows: Vec<&PointSummary> = sweep.points.iter().filter(|point| point.cells.contains_key("loss")).collect();
        let note = rows_note(rows.len());
        let rows = &rows[..rows.len().min(ROWS_MAX)];
        let of = |reason: &Reason| {
            let share = |point: &&PointSummary| share(sweep, point, reason.name()).unwrap_or(0.0);
            let points: Vec<(f64, f64)> =
                rows.iter().enumerate().map(|(row, point)| (row as f64, share(point))).collect();
            points.iter().any(|(_, share)| *share > 0.0).then(|| Series {
                name: reason.name().replace('_', " "),
                points,
                ..Default::default()
            })
        };
        let series = with_others(Reason::ALL.iter().filter_map(of).collect());
        if series.is_empty() {
            return Vec::new();
        }
        vec![Chart {
            kind: Kind::Stack,
            title: "Dropped updates by reason, share of those sent, mean over seeds (duplicates are not lost)"
                .to_owned(),
            note,
            x: ("share of sent updates".to_owned(), "share"),
            categories: rows.iter().map(|point| point_name(&point.labels)).collect(),
            series,
            ..Default::default()
        }]
    }
}

/// Keeps the reasons with the most drops and adds up the others, so that no two have the same colour.
fn with_others(mut series: Vec<Series>) -> Vec<Series> {
    if series.len() <= SERIES_MAX {
        return series;
    }
    let total = |one: &Series| one.points.iter().map(|(_, share)| *share).sum::<f64>();
    series.sort_by(|a, b| total(b).total_cmp(&total(a)));
    let others = series.split_off(SERIES_MAX - 1);
    let mut points = others[0].points.clone();
    for one in &others[1..] {
        points.iter_mut().zip(&one.points).for_each(|(sum, own)| sum.1 += own.1);
    }
    series.push(Series { name: "other reasons".to_owned(), points, ..Default::default() });
    series
}

/// Returns the mean over the runs of the point: unlike medians, means of parts add up to the mean of the whole.
fn share(sweep: &SweepData, point: &PointSummary, reason: &str) -> Option<f64> {
    let of = |run: &usize| {
        let values = &sweep.runs[*run].scalars;
        let dropped = values.get(&format!("dropped/{reason}")).unwrap_or(0.0);
        let sent = values.get("sent").filter(|sent| *sent > 0.0)?;
        Some(dropped / sent)
    };
    stats::mean(&point.runs.iter().filter_map(of).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rarest_of_many_reasons_are_one_part() {
        let reason = |i: usize| Series {
            name: i.to_string(),
            points: vec![(0.0, i as f64), (1.0, 2.0 * i as f64)],
            ..Default::default()
        };
        let few = with_others((1..=SERIES_MAX).map(reason).collect());
        assert_eq!((few.len(), few[0].name.as_str()), (SERIES_MAX, "1"));
        let many = with_others((1..=SERIES_MAX + 2).map(reason).collect());
        let last = many.last().unwrap();
        assert_eq!((many.len(), many[0].name.as_str(), last.name.as_str()), (SERIES_MAX, "10", "other reasons"));
        assert_eq!(last.points, [(0.0, 6.0), (1.0, 12.0)]);
    }
}
