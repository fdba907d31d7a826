//! Distribution of the age of models: over time and at its peaks.

use pktgen_core::registry::Named;

use super::Picture;
use crate::chart::{CHARTS_MAX, Chart, Kind, SERIES_MAX, Series};
use crate::sweep::data::{Labels, RunSummary, SweepData};
use crate::sweep::kept::{Cdf, Kept};
use crate::sweep::settings::{at, settings, variant};

/// See the module documentation.
pub(super) struct AgeCdf;

impl Named for AgeCdf {
    fn name(&self) -> &'static str {
        "age_cdf"
    }

    fn about(&self) -> &'static str {
        "CDF of the Age-of-Model over time, and of its peaks, all clusters together"
    }
}

impl Picture for AgeCdf {
    fn heading(&self) -> &'static str {
        "How ages are spread"
    }

    fn charts(&self, sweep: &SweepData) -> Vec<Chart> {
        let over_time = of("Age-of-Model over time (CDF), all clusters", "age", "share of time");
        let peaks = of("Peaks of the Age-of-Model (CDF), all clusters", "peak age", "share of peaks");
        let mut charts = curves(sweep, &over_time, |kept| &kept.age_cdf);
        charts.extend(curves(sweep, &peaks, |kept| &kept.peak_cdf));
        charts
    }
}

/// The share that every line reaches in the first view: a few large values would otherwise compress all others.
const SHOWN_FIRST: f64 = 0.95;

/// Texts of a chart of cumulative shares.
pub(super) struct Words {
    title: &'static str,
    x: &'static str,
    y: &'static str,
}

pub(super) fn of(title: &'static str, x: &'static str, y: &'static str) -> Words {
    Words { title, x, y }
}

/// Returns one chart per setting with such curves, with a line per variant, for the first seed.
pub(super) fn curves(sweep: &SweepData, words: &Words, pick: impl Fn(&Kept) -> &Cdf) -> Vec<Chart> {
    let draw = |(rest, runs): &(Labels, Vec<&RunSummary>)| {
        let with = runs.iter().filter(|run| !pick(&run.kept).is_empty());
        let all: Vec<Series> = with
            .map(|run| Series { name: variant(run).to_owned(), points: pick(&run.kept).clone(), ..Default::default() })
            .collect();
        let reached = |series: &Series| series.points.iter().find(|point| point.1 >= SHOWN_FIRST).map(|point| point.0);
        let end = all.iter().filter_map(reached).fold(0.0, f64::max);
        let more = if all.len() > SERIES_MAX {
            format!(" (first {SERIES_MAX} of {} variants)", all.len())
        } else {
            String::new()
        };
        (!all.is_empty()).then(|| Chart {
            kind: Kind::Line,
            title: format!("{}{}, first seed{more}", words.title, at(rest)),
            x: (words.x.to_owned(), "ns"),
            y: (words.y.to_owned(), "share"),
            note: format!("The first view ends where every line has reached {:.0} %.", SHOWN_FIRST * 100.0),
            zoom: (end > 0.0).then_some((0.0, end)),
            series: all.into_iter().take(SERIES_MAX).collect(),
            ..Default::default()
        })
    };
    settings(sweep).iter().filter_map(draw).take(CHARTS_MAX).collect()
}
