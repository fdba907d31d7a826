//! Distribution of the age of models: over time and at its peaks.

use pktgen_core::registry::Named;

use super::Picture;
use crate::chart::{Chart, Kind, SERIES_MAX, Series, first_charts, first_of};
use crate::sweep::data::{Labels, RunSummary, SweepData};
use crate::sweep::kept::{Cdf, Kept};
use crate::sweep::settings::{at, settings, unread, variant};

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
        let words = of("Age-of-Model over time (CDF), all clusters", "age", "share of time");
        let over_time = Words { kind: Kind::Line, thinned: "A line has a point at every half percent.", ..words };
        let peaks = of("Peaks of the Age-of-Model (CDF), all clusters", "peak age", "share of peaks");
        let mut charts = curves(sweep, &over_time, |kept| &kept.age_cdf);
        charts.extend(curves(sweep, &peaks, |kept| &kept.peak_cdf));
        charts
    }

    fn is_of_first_seed(&self, sweep: &SweepData) -> bool {
        sweep.units.contains_key("aom_mean/cluster")
    }
}

/// The first view of a chart of cumulative shares: a few large values would otherwise compress all others.
pub(super) struct FirstView {
    /// The share that every line reaches in it.
    pub(super) share: f64,
    /// Where it ends, in words.
    pub(super) words: &'static str,
}

/// Texts of a chart of cumulative shares.
pub(super) struct Words {
    title: &'static str,
    x: &'static str,
    y: &'static str,
    /// Steps for shares of a count; lines for shares of time, which are continuous.
    kind: Kind,
    /// How the points were thinned.
    pub(super) thinned: &'static str,
    pub(super) first_view: FirstView,
}

/// Returns texts of shares of a count.
pub(super) fn of(title: &'static str, x: &'static str, y: &'static str) -> Words {
    let thinned = "A line has a point at every half percent, or at every value if there are at most 200.";
    let first_view = FirstView { share: 0.95, words: "every line has reached 95 %" };
    Words { title, x, y, kind: Kind::Step, thinned, first_view }
}

/// Returns one chart per setting with such curves, with a line per variant, for the first seed.
pub(super) fn curves(sweep: &SweepData, words: &Words, pick: impl Fn(&Kept) -> &Cdf) -> Vec<Chart> {
    let draw = |(rest, runs): (&Labels, Vec<&RunSummary>)| {
        let all: Vec<Series> = runs
            .into_iter()
            .map(|run| Series { name: variant(run).to_owned(), points: pick(&run.kept).clone(), ..Default::default() })
            .collect();
        let shown = words.first_view.share;
        let reached = |series: &Series| series.points.iter().find(|point| point.1 >= shown).map(|point| point.0);
        // Of the lines that are drawn.
        let end = all.iter().take(SERIES_MAX).filter_map(reached).fold(0.0, f64::max);
        let more = first_of(all.len(), "variants");
        let first = match end > 0.0 {
            true => format!("The first view ends where {}. ", words.first_view.words),
            false => String::new(),
        };
        Some(Chart {
            kind: words.kind,
            title: format!("{}{}, first seed{more}", words.title, at(rest)),
            x: (words.x.to_owned(), "ns"),
            y: (words.y.to_owned(), "share"),
            note: format!("{first}{}", words.thinned),
            zoom: (end > 0.0).then_some((0.0, end)),
            series: all.into_iter().take(SERIES_MAX).collect(),
            ..Default::default()
        })
    };
    let all = settings(sweep);
    let has_curve = |run: &&RunSummary| !pick(&run.kept).is_empty();
    let with = all.iter().map(|(rest, runs)| (rest, runs.iter().copied().filter(has_curve).collect::<Vec<_>>()));
    let mut charts = first_charts(with.filter(|(_, runs)| !runs.is_empty()), draw, "setting");
    if let Some(last) = charts.last_mut() {
        last.remark(&unread(&sweep.runs));
    }
    charts
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pktgen_records::testing::write_sweep;

    use super::*;
    use crate::plot::figure;

    fn charts(cdf: &[(f64, f64)]) -> Vec<Chart> {
        let run =
            RunSummary { kept: Arc::new(Kept { peak_cdf: cdf.to_vec(), ..Kept::default() }), ..RunSummary::default() };
        let dir = tempfile::tempdir().unwrap();
        write_sweep(dir.path(), 1);
        let mut sweep = SweepData::open(dir.path(), &mut |_, _| {}).unwrap();
        sweep.runs = vec![run];
        AgeCdf.charts(&sweep)
    }

    #[test]
    fn the_first_view_is_that_of_the_lines_that_are_drawn() {
        let run = |n: usize| RunSummary {
            kept: Arc::new(Kept { age_cdf: vec![(n as f64, 1.0)], ..Kept::default() }),
            ..RunSummary::default()
        };
        let dir = tempfile::tempdir().unwrap();
        write_sweep(dir.path(), 1);
        let mut sweep = SweepData::open(dir.path(), &mut |_, _| {}).unwrap();
        sweep.runs = (1..=SERIES_MAX + 1).map(run).collect();
        let found = AgeCdf.charts(&sweep);
        assert_eq!(found[0].series.len(), SERIES_MAX);
        assert_eq!(found[0].zoom, Some((0.0, SERIES_MAX as f64)));
        assert!(found[0].title.ends_with("(first 8 of 9 variants)"), "{}", found[0].title);
        // The note names a run without records, wherever it is; the title counts lines that were cut off.
        sweep.runs.insert(0, RunSummary { seed: 7, undrawn: true, ..RunSummary::default() });
        let said = " 1 run without readable records is not drawn: run, seed 7.";
        for (runs, title) in [(SERIES_MAX + 2, "(first 8 of 9 variants)"), (SERIES_MAX, ", first seed")] {
            sweep.runs.truncate(runs);
            let found = AgeCdf.charts(&sweep);
            assert!(found[0].title.ends_with(title), "{}", found[0].title);
            assert!(found[0].note.ends_with(said), "{}", found[0].note);
        }
    }

    /// Returns the points of the first line of a chart.
    fn corners(chart: &Chart) -> Vec<(f64, f64)> {
        let text = figure(chart);
        let line = text.lines().find(|line| line.starts_with("<polyline")).unwrap();
        let points = line.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
        let number = |text: &str| text.parse::<f64>().unwrap();
        points.split(' ').map(|point| point.split_once(',').unwrap()).map(|(x, y)| (number(x), number(y))).collect()
    }

    #[test]
    fn shares_of_a_count_rise_in_steps() {
        let found = charts(&[(10.0, 0.0), (10.0, 0.5), (1000.0, 1.0)]);
        let [chart] = found.as_slice() else { panic!("one chart: {found:?}") };
        assert_eq!(chart.kind, Kind::Step);
        assert!(
            chart.note.starts_with("The first view ends") && chart.note.ends_with("at most 200."),
            "{}",
            chart.note
        );
        let all = corners(chart);
        assert!(all.windows(2).all(|two| two[0].0 == two[1].0 || two[0].1 == two[1].1), "{all:?}");
        // A single value is a step as well.
        assert_eq!(corners(&charts(&[(7.0, 1.0)])[0]).len(), 2);
        // Without anything above 0 there is one view, with all values in it.
        let found = charts(&[(-7.0, 0.0), (-7.0, 0.5), (-3.0, 1.0)]);
        let [below] = found.as_slice() else { panic!("one chart: {found:?}") };
        assert!(below.zoom.is_none() && !below.note.contains("first view"), "{}", below.note);
        assert!(corners(below).iter().all(|(x, _)| (70.0..=496.0).contains(x)), "{:?}", corners(below));
    }
}
