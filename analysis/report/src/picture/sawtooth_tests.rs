//! Tests of [`super`]: the drawing agrees with the measurements.

use std::sync::Arc;

use pktgen_records::age::Tooth;
use pktgen_records::testing::{Dice, Story, write_sweep};
use pktgen_records::{Analysis, Options};

use super::*;

fn regular(period: i64, n: i64) -> Sawtooth {
    let teeth = (1..=n).map(|i| Tooth { t_ps: i * period, before_ps: period + 7, after_ps: 7 }).collect();
    Sawtooth { id: 0, start: (0, 7), end_ps: n * period, teeth }
}

/// Returns a run of two clusters whose updates are generated at random times and delivered after random delays.
fn analysis(updates: u32) -> Analysis {
    let mut dice = Dice::new(7);
    let mut story = Story::new();
    let mut t = 0;
    for seq in 0..updates {
        for worker in 0..2 {
            t += (dice.exponential() * 1e6) as i64 + 1;
            story.sent_seq(worker, seq, t, Some(t), worker as u16);
            if dice.uniform() < 0.7 {
                story.received_seq(t + 1 + (dice.exponential() * 3e6) as i64, worker, seq, t, 1);
            } else {
                story.dropped_seq(t + 5, worker, seq);
            }
        }
    }
    let dir = tempfile::tempdir().unwrap();
    story.write(dir.path());
    Analysis::open(dir.path(), Options::default()).unwrap()
}

/// Returns the area below a line divided by its length.
fn mean(points: &[(f64, f64)]) -> f64 {
    let area: f64 = points.windows(2).map(|pair| (pair[1].0 - pair[0].0) * (pair[0].1 + pair[1].1) / 2.0).sum();
    area / (points[points.len() - 1].0 - points[0].0)
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * b.abs()
}

#[test]
fn the_line_integrates_to_the_reported_mean() {
    let analysis = analysis(400);
    let ages = analysis.resolved.as_ref().unwrap().ages().unwrap();
    let sawteeth = ages.sawteeth(9).unwrap();
    assert_eq!(sawteeth.len(), 2);
    for (own, age) in sawteeth.iter().zip(&ages.clusters) {
        assert_eq!(own.id, age.id);
        let points = points(own, i64::MIN, i64::MAX);
        assert!(near(mean(&points), age.mean_ns.unwrap()), "{} {:?}", mean(&points), age.mean_ns);
        assert!(near(own.mean_ns(i64::MIN, i64::MAX).unwrap(), age.mean_ns.unwrap()));
        let highest = points.iter().map(|point| point.1).fold(0.0, f64::max);
        assert!(highest >= age.peak_max_ns.unwrap() && points.len() >= 2 * own.teeth.len());
    }
}

#[test]
fn thinned_lines_keep_every_peak_and_are_exact_inside() {
    let analysis = analysis(6000);
    let ages = analysis.resolved.as_ref().unwrap().ages().unwrap();
    let own = &ages.traces[1].sawtooth().unwrap();
    let (from, to) = window(&[own]).unwrap();
    let thinned = thinned(own, from, to);
    assert!(own.teeth.len() > 2000 && thinned.len() < 2 * BUCKETS + 3 * TEETH_WANTED, "{}", thinned.len());
    let highest = |points: &[(f64, f64)]| points.iter().map(|point| point.1).fold(0.0, f64::max);
    let all = points(own, i64::MIN, i64::MAX);
    assert_eq!(highest(&thinned), highest(&all));
    assert!(thinned.windows(2).all(|pair| pair[0].0 <= pair[1].0), "in the order of time");
    // The extremes of each interval, found by examining every point of the line.
    let step = (own.end_ps - own.start.0) as f64 / 1000.0 / BUCKETS as f64;
    for i in [0usize, 17, 100, BUCKETS - 1] {
        let (a, b) =
            (own.start.0 as f64 / 1000.0 + step * i as f64, own.start.0 as f64 / 1000.0 + step * (i + 1) as f64);
        // The extremes of an interval may be at its ends, which are whole picoseconds; this simple computation excludes those.
        let inside = |points: &[(f64, f64)], margin: f64| -> Vec<(f64, f64)> {
            points.iter().filter(|point| point.0 > a + margin && point.0 < b - margin).copied().collect()
        };
        assert!(highest(&inside(&thinned, -0.002)) >= highest(&inside(&all, 0.002)) - 1e-6, "span {i}");
    }
    let exact = points(own, from, to);
    let start = thinned.iter().position(|point| *point == exact[0]).unwrap();
    assert_eq!(&thinned[start..start + exact.len()], exact.as_slice());
}

#[test]
fn spans_of_time_have_the_means_of_their_parts() {
    let own = regular(10_000, 5);
    // From 7 to 10 007 ps in each period: 5.007 ns on average.
    assert!(near(own.mean_ns(0, 50_000).unwrap(), 5.007));
    // The first half of a period: from 0.007 to 5.007 ns.
    assert!(near(own.mean_ns(20_000, 25_000).unwrap(), 2.507));
    // Outside the window the interval is empty.
    assert!(near(own.mean_ns(45_000, 90_000).unwrap(), 7.507));
    assert_eq!((own.mean_ns(50_000, 60_000), own.mean_ns(-9, 0)), (None, None));
}

#[test]
fn a_window_shows_the_sparse_series_and_does_not_blur_the_dense_one() {
    let (sparse, dense) = (regular(10_000, 1000), regular(5_000, 2000));
    let (from, to) = window(&[&sparse, &dense]).unwrap();
    let inside = |own: &Sawtooth| own.teeth.iter().filter(|tooth| (from..=to).contains(&tooth.t_ps)).count();
    assert_eq!(inside(&sparse), TEETH_WANTED + 1);
    assert!(inside(&dense) <= TEETH_MAX + 1 && from > 4_000_000 && to < 6_000_000);
    let (from, to) = window(&[&regular(10_000, 100), &regular(10, 100_000)]).unwrap();
    let blurred = regular(10, 100_000);
    assert!(blurred.teeth.iter().filter(|tooth| (from..=to).contains(&tooth.t_ps)).count() <= TEETH_MAX + 1);
    assert_eq!(window(&[]), None);
}

#[test]
fn a_sawtooth_shows_the_baseline_and_two_others() {
    let run = |name: &str| {
        let mut run =
            RunSummary { labels: Arc::new([("variant".to_owned(), name.to_owned())].into()), ..Default::default() };
        Arc::make_mut(&mut run.kept).sawteeth = vec![regular(10_000, 50)];
        run
    };
    let runs = ["a", "b", "base", "c"].map(run);
    let runs: Vec<&RunSummary> = runs.iter().collect();
    let chart = draw(&Labels::new(), &runs, Some("base"), 0).unwrap();
    let names: Vec<_> = chart.series.iter().map(|series| series.name.as_str()).collect();
    assert_eq!(names, ["base", "a", "b"]);
    assert!(chart.title.ends_with("(1 more variant is not drawn)"), "{}", chart.title);
    assert!(draw(&Labels::new(), &runs, None, 1).is_none(), "there is one cluster");
    // The note of a chart names runs without records; the title counts lines that were cut off.
    let unread = RunSummary { undrawn: true, ..Default::default() };
    for (drawn, title) in [(3, "over time, first seed"), (4, "(1 more variant is not drawn)")] {
        let runs: Vec<&RunSummary> = runs[..drawn].iter().copied().chain([&unread]).collect();
        let chart = draw(&Labels::new(), &runs, Some("base"), 0).unwrap();
        assert!(chart.title.ends_with(title), "{}", chart.title);
    }
}

#[test]
fn variants_are_compared_by_the_number_of_the_cluster() {
    let run = |(name, ids): (&str, [u32; 2])| {
        let mut run =
            RunSummary { labels: Arc::new([("variant".to_owned(), name.to_owned())].into()), ..Default::default() };
        Arc::make_mut(&mut run.kept).sawteeth = ids.map(|id| Sawtooth { id, ..regular(10_000, 50) }).to_vec();
        run
    };
    let runs = [("a", [0, 1]), ("b", [1, 2])].map(run);
    let runs: Vec<&RunSummary> = runs.iter().collect();
    assert_eq!(clusters(&runs), [0, 1, 2]);
    for (id, wanted) in [(0, vec!["a"]), (1, vec!["a", "b"]), (2, vec!["b"])] {
        let chart = draw(&Labels::new(), &runs, None, id).unwrap();
        let names: Vec<_> = chart.series.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(names, wanted);
        assert!(chart.title.contains(&format!("of cluster {id} over time")), "{}", chart.title);
    }
}

/// Of twelve clusters, some have deliveries: the others are counted, whatever the number of charts.
#[test]
fn clusters_without_a_chart_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    write_sweep(dir.path(), 1);
    let mut sweep = SweepData::open(dir.path(), &mut |_, _| {}).unwrap();
    let mut drawn = |with: u32| {
        let mut run = RunSummary { clusters: (0..12).collect(), ..RunSummary::default() };
        // The first cluster has none.
        let sawteeth = (1..=with).map(|id| Sawtooth { id, ..regular(10_000, 50) });
        let without = Sawtooth { teeth: Vec::new(), ..regular(10_000, 50) };
        Arc::make_mut(&mut run.kept).sawteeth = std::iter::once(without).chain(sawteeth).collect();
        sweep.runs = vec![run];
        let charts = Sawteeth.charts(&sweep);
        let note = charts.last().map_or(String::new(), |chart| chart.note.clone());
        (charts.len(), note.rsplit(". ").next().unwrap().to_owned())
    };
    assert_eq!(drawn(0), (0, String::new()));
    assert_eq!(drawn(1), (1, "11 further clusters are not drawn.".to_owned()));
    assert_eq!(drawn(3), (3, "9 further clusters are not drawn.".to_owned()));
    assert_eq!(drawn(11), (10, "2 further clusters are not drawn.".to_owned()));
    // All of the clusters have a chart.
    let run = &mut sweep.runs[0];
    run.clusters = (1..=3).collect();
    Arc::make_mut(&mut run.kept).sawteeth.truncate(4);
    let charts = Sawteeth.charts(&sweep);
    assert!(charts.len() == 3 && charts.iter().all(|chart| !chart.note.contains("not drawn")), "{charts:?}");
}

#[test]
fn variants_without_deliveries_are_named() {
    let without = |id| Sawtooth { id, teeth: Vec::new(), ..regular(10_000, 50) };
    let with = |id| Sawtooth { id, ..regular(10_000, 50) };
    let run = |name: &str, sawteeth: Vec<Sawtooth>, peaks: usize| {
        let mut run =
            RunSummary { labels: Arc::new([("variant".to_owned(), name.to_owned())].into()), ..Default::default() };
        let kept = Arc::make_mut(&mut run.kept);
        (kept.sawteeth, kept.peak_cdf) = (sawteeth, vec![(1.0, 1.0); peaks]);
        run
    };
    let mut runs = vec![
        run("a", vec![with(0), with(1)], 1),
        run("b", vec![without(0), with(1)], 1),
        // Of the first cluster alone: nothing is known of its cluster 1, unless nothing was delivered in any.
        run("c", vec![without(0)], 1),
        run("d", vec![without(0)], 0),
        // Another seed, and a run without ages.
        run("a", Vec::new(), 0),
        run("e", Vec::new(), 0),
    ];
    let said = |runs: &[RunSummary], id: u32| {
        let note = draw(&Labels::new(), &runs.iter().collect::<Vec<_>>(), None, id).unwrap().note;
        note.split_once("middle of the run.").unwrap().1.to_owned()
    };
    let what = "without deliveries that lower the age";
    assert_eq!(said(&runs, 0), format!(" 3 variants {what} are not drawn: b; c; d."));
    assert_eq!(said(&runs, 1), format!(" 1 variant {what} is not drawn: d."));
    assert_eq!(said(&runs[..1], 0), "");
    runs.extend(["f", "g"].map(|name| run(name, vec![without(0)], 0)));
    assert_eq!(said(&runs, 0), format!(" 5 variants {what} are not drawn: b; c; d; 2 more."));
}

#[test]
fn a_line_is_cut_at_both_ends() {
    let points = points(&regular(10_000, 5), 15_000, 25_000);
    // 5 ns after the tooth at 10 ns the age is 5.007 ns; then the tooth at 20 ns; 5 ns after it.
    assert_eq!(points, [(15.0, 5.007), (20.0, 10.007), (20.0, 0.007), (25.0, 5.007)]);
}
