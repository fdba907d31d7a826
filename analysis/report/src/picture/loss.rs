//! Dropped updates by reason, one bar per point of the sweep.

use pktgen_core::record::Reason;
use pktgen_core::registry::Named;
use pktgen_records::stats;

use super::Picture;
use crate::chart::{Chart, Kind, ROWS_MAX, Series, rows_note};
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
        let series: Vec<Series> = Reason::ALL.iter().filter_map(of).collect();
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

/// Returns the mean over the runs of the point: unlike medians, means of parts add up to the mean of the whole.
fn share(sweep: &SweepData, point: &PointSummary, reason: &str) -> Option<f64> {
    let of = |run: &usize| {
        let values = &sweep.runs[*run].scalars;
        let dropped = values.get(format!("dropped/{reason}").as_str()).copied().unwrap_or(0.0);
        let sent = values.get("sent").copied().filter(|sent| *sent > 0.0)?;
        Some(dropped / sent)
    };
    stats::mean(&point.runs.iter().filter_map(of).collect::<Vec<_>>())
}
