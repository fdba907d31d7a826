//! Tests of [`super`]: selection of axis and lines, and labels of every kind.

use pktgen_records::stats::Estimate;
use pktgen_records::testing::write_sweep;

use super::*;
use crate::{Model, REPORTS};

/// Returns a sweep of points with these labels whose speedups are 1, 2, …
fn sweep_of(points: &[&[(&str, &str)]]) -> SweepData {
    let dir = tempfile::tempdir().unwrap();
    write_sweep(dir.path(), 1);
    let mut sweep = SweepData::open(dir.path(), &mut |_, _| {}).unwrap();
    sweep.manifest.axes.clear();
    sweep.manifest.report.metrics = vec![SPEEDUP.to_owned()];
    sweep.points = (1u32..)
        .zip(points)
        .map(|(n, labels)| {
            let value = f64::from(n);
            let interval = Some(Interval { lo: value - 0.5, hi: value + 0.5 });
            let cell = Estimate { median: value, interval, n: 5, exact: false };
            let labels = labels.iter().map(|(axis, value)| ((*axis).to_owned(), (*value).to_owned())).collect();
            PointSummary { labels, runs: vec![0], cells: [(SPEEDUP.to_owned(), cell)].into(), ..Default::default() }
        })
        .collect();
    sweep
}

fn drawn(sweep: &SweepData) -> Vec<(String, Vec<(f64, f64)>)> {
    let charts = all(sweep);
    assert!(charts.len() <= 1, "{charts:?}");
    charts.into_iter().flat_map(|chart| chart.series).map(|series| (series.name, series.points)).collect()
}

#[test]
fn speedup_is_drawn_against_the_rate() {
    let sweep = sweep_of(&[
        &[("variant", "Olaf"), ("topology.rate", "40Gbps"), ("endpoint.timeout", "2us")],
        &[("variant", "Olaf"), ("topology.rate", "5Gbps"), ("endpoint.timeout", "2us")],
        &[("variant", "Olaf"), ("topology.rate", "5Gbps"), ("endpoint.timeout", "4us")],
        &[("variant", "Olaf"), ("topology.rate", "5Gbps"), ("endpoint.timeout", "8us")],
    ]);
    // There are more timeouts than rates, but rates are preferred.
    let chart = &all(&sweep)[0];
    assert_eq!((chart.x.0.as_str(), chart.x.1, chart.kind), ("topology.rate", "bps", Kind::Line));
    let lines = drawn(&sweep);
    assert_eq!(lines[0], ("Olaf, endpoint.timeout=2us".to_owned(), vec![(5e9, 2.0), (40e9, 1.0)]));
    assert_eq!(lines.len(), 3);
    assert_eq!(chart.series[0].spans[1], Whisker { x: 40e9, lo: 0.5, hi: 1.5 });
}

#[test]
fn plain_numbers_spans_and_sizes_are_to_scale() {
    let alpha = sweep_of(&[&[("alpha", "1")], &[("alpha", "0.1")], &[("alpha", "0.5")]]);
    assert_eq!(drawn(&alpha), [(String::new(), vec![(0.1, 2.0), (0.5, 3.0), (1.0, 1.0)])]);
    assert_eq!(quantity("1.5us"), Some((1500.0, "ns")));
    assert_eq!(quantity("2048bit"), Some((256.0, "bytes")));
    assert_eq!((quantity("fifo"), quantity("NaN"), quantity("")), (None, None, None));
}

#[test]
fn of_lists_the_entry_that_differs_is_drawn() {
    let lists = sweep_of(&[
        &[("topology.leaf_rates", "[\"80kbps\", \"800kbps\"]")],
        &[("topology.leaf_rates", "[\"800kbps\", \"800kbps\"]")],
    ]);
    let chart = &all(&lists)[0];
    assert_eq!((chart.x.0.as_str(), chart.x.1), ("topology.leaf_rates, entry 1", "bps"));
    assert_eq!(drawn(&lists)[0].1, [(8e4, 1.0), (8e5, 2.0)]);
    let numbers = sweep_of(&[&[("k", "[1, 2, 3]")], &[("k", "[1, 2.5, 3]")]]);
    assert_eq!(drawn(&numbers)[0].1, [(2.0, 1.0), (2.5, 2.0)]);
}

#[test]
fn what_has_no_numbers_becomes_bars() {
    for labels in [
        ["[\"80kbps\", \"8kbps\"]", "[\"800kbps\", \"80kbps\"]"],
        ["[\"80kbps\"]", "[\"80kbps\", \"8kbps\"]"],
        ["[]", "[1]"],
        ["40Gbps", "2us"],
        ["[\"80kbps\"", "<&\">"],
    ] {
        let sweep = sweep_of(&[&[("x", labels[0])], &[("x", labels[1])]]);
        let chart = &all(&sweep)[0];
        assert_eq!((chart.kind, chart.categories.len()), (Kind::Bars, 2), "{labels:?}");
        assert_eq!(chart.series[0].points, [(0.0, 1.0), (1.0, 2.0)]);
        for report in REPORTS {
            report.render(&Model::build(&sweep)).unwrap();
        }
        assert!(!crate::summary(&Model::build(&sweep), "x").is_empty());
    }
    assert_eq!(category("[\"80kbps\", \"800kbps\", \"8Mbps\"]"), "80kbps, 800kbps, …");
    // Variants alone become the categories.
    let variants = sweep_of(&[&[("variant", "a")], &[("variant", "b")]]);
    let chart = &all(&variants)[0];
    assert_eq!(
        (chart.categories.as_slice(), chart.x.0.as_str()),
        (["a".to_owned(), "b".to_owned()].as_slice(), "variant")
    );
    assert_eq!(chart.series.len(), 1);
}

#[test]
fn too_many_lines_become_pictures() {
    let timeouts: Vec<String> = (1..=12).map(|us| format!("{us}us")).collect();
    let labels: Vec<[(&str, &str); 2]> = timeouts
        .iter()
        .flat_map(|timeout| ["5Gbps", "10Gbps"].map(|rate| [("rate", rate), ("timeout", timeout.as_str())]))
        .collect();
    let points: Vec<&[(&str, &str)]> = labels.iter().map(|labels| labels.as_slice()).collect();
    let charts = all(&sweep_of(&points));
    assert_eq!((charts.len(), charts[7].note.as_str()), (8, "4 further settings are not drawn."));
    assert!(charts[..7].iter().all(|chart| chart.note.is_empty()));
    assert!(charts.iter().all(|chart| chart.series.len() == 1 && chart.series[0].points.len() == 2));
    assert!(charts[1].title.contains("at timeout=2us"), "{}", charts[1].title);
}

#[test]
fn lines_that_are_not_drawn_are_counted() {
    let names: Vec<String> = (1..=9).map(|n| format!("v{n}")).collect();
    let labels: Vec<[(&str, &str); 2]> = names
        .iter()
        .flat_map(|name| ["5Gbps", "10Gbps"].map(|rate| [("rate", rate), ("variant", name.as_str())]))
        .collect();
    let points: Vec<&[(&str, &str)]> = labels.iter().map(|labels| labels.as_slice()).collect();
    let charts = all(&sweep_of(&points));
    assert_eq!((charts.len(), charts[0].series.len()), (1, 8));
    assert!(charts[0].title.ends_with(" (first 8 of 9 lines)"), "{}", charts[0].title);
}

#[test]
fn nothing_is_drawn_where_nothing_is() {
    let mut sweep = sweep_of(&[&[], &[]]);
    assert!(all(&sweep).is_empty());
    sweep = sweep_of(&[&[("rate", "1Gbps")]]);
    assert!(all(&sweep).is_empty());
    sweep = sweep_of(&[&[("rate", "1Gbps")], &[("rate", "2Gbps")]]);
    sweep.points.iter_mut().for_each(|point| point.cells.clear());
    assert!(all(&sweep).is_empty());
}

#[test]
fn figures_show_intervals() {
    let sweep = sweep_of(&[&[("rate", "1Gbps")], &[("rate", "2Gbps")]]);
    let svg = crate::plot::figure(&all(&sweep)[0]);
    assert_eq!((svg.matches("class=\"whisker s0\"").count(), svg.matches("<circle").count()), (2, 2), "{svg}");
    // The upper end of the highest interval is inside the chart.
    assert!(!svg.contains("V-") && !svg.contains(" -"), "{svg}");
}

#[test]
fn rates_and_seconds_have_their_units_on_an_axis() {
    for (unit, shown) in [("bps", "bps"), ("bit/s", "bit/s"), ("s", "s"), ("packets", "")] {
        assert_eq!(unit_of_chart(unit), shown);
    }
}
