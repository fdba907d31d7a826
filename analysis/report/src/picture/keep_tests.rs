//! Tests of [`super`]: curves and heat maps agree with metrics.

use pktgen_records::Options;
use pktgen_records::testing::{Dice, Story, write_sweep};

use super::*;
use crate::picture::all;
use crate::{Model, SweepData};

/// Returns a run of one cluster with enough packets that its curves are thinned.
fn story() -> Story {
    let mut dice = Dice::new(3);
    let mut story = Story::new();
    let mut t = 0;
    for seq in 0..900u32 {
        t += (dice.exponential() * 1e6) as i64 + 1;
        story.sent_seq(0, seq, t, Some(t + 10), 4);
        story.received_seq(t + 2_000_000 + (dice.exponential() * 3e6) as i64, 0, seq, t, 1);
    }
    story
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * b.abs()
}

fn at(cdf: &Cdf, share: f64) -> f64 {
    cdf.iter().find(|point| (point.1 - share).abs() < 1e-9).unwrap_or_else(|| panic!("no point at {share}")).0
}

#[test]
fn curves_have_the_quantiles_of_the_metrics() {
    let dir = tempfile::tempdir().unwrap();
    story().write(dir.path());
    let analysis = Analysis::open(dir.path(), Options::default()).unwrap();
    let kept = of(&analysis, dir.path(), Depth::All).unwrap();
    let lines = analysis.lines().unwrap();
    let value = |key: &str| lines.iter().find(|line| line.key().as_deref() == Some(key)).unwrap().value.unwrap();
    assert_eq!(at(&kept.host_cdf, 0.5), value("host_latency_p50"));
    assert_eq!(at(&kept.host_cdf, 0.99), value("host_latency_p99"));
    assert_eq!(kept.host_cdf.last().copied(), Some((value("host_latency_max"), 1.0)));
    // With one cluster, its quantiles over time are those of all clusters.
    for (share, key) in [(0.5, "aom_p50/cluster"), (0.9, "aom_p90/cluster"), (0.99, "aom_p99/cluster")] {
        assert!(near(at(&kept.age_cdf, share), value(key)), "{key}");
    }
    assert_eq!(at(&kept.peak_cdf, 0.99), value("aom_peak_p99/cluster"));
    assert_eq!(kept.peak_cdf.last().unwrap().0, value("aom_peak_max/cluster"));
}

#[test]
fn cells_over_time_have_the_mean_of_the_run() {
    let dir = tempfile::tempdir().unwrap();
    story().write(dir.path());
    let analysis = Analysis::open(dir.path(), Options::default()).unwrap();
    let over = of(&analysis, dir.path(), Depth::All).unwrap().over_time.unwrap();
    let (id, cells) = &over.clusters[0];
    assert_eq!((*id, cells.len()), (4, BINS));
    // Intervals are equal to within a picosecond.
    let mean = cells.iter().map(|cell| cell.unwrap()).sum::<f64>() / BINS as f64;
    let ages = analysis.resolved.as_ref().unwrap().ages().unwrap();
    assert!((mean / ages.clusters[0].mean_ns.unwrap() - 1.0).abs() < 1e-6);
}

#[test]
fn intervals_cover_the_clusters_without_a_row() {
    let last = CLUSTERS_MAX as u32;
    // The last cluster begins before all others, and ends after them.
    let time = |worker: u32, seq: u32| {
        let (begin, period) = if worker == last { (0, 4_000_000) } else { (10_000_000, 1_000_000) };
        (begin + i64::from(seq) * period, worker, seq)
    };
    let mut all: Vec<_> = (0..=last).flat_map(|worker| (0..9).map(move |seq| time(worker, seq))).collect();
    all.sort_unstable();
    let mut story = Story::new();
    for (t, worker, seq) in all {
        story.sent_seq(worker, seq, t, Some(t), worker as u16).received_seq(t + 1000, worker, seq, t, 1);
    }
    let dir = tempfile::tempdir().unwrap();
    story.write(dir.path());
    let analysis = Analysis::open(dir.path(), Options::default()).unwrap();
    let over = of(&analysis, dir.path(), Depth::All).unwrap().over_time.unwrap();
    assert_eq!((over.clusters.len(), over.from_ns), (CLUSTERS_MAX, 0.0));
    assert!(near(over.step_ns * BINS as f64, 32_001.0), "{}", over.step_ns);
    assert!(over.clusters.iter().all(|(_, cells)| cells[0].is_none() && cells[BINS / 2].is_some()));
}

#[test]
fn few_values_are_all_drawn() {
    assert_eq!(cdf(vec![3000, 1000, 2000, 2000]), [(1.0, 0.0), (1.0, 0.25), (2.0, 0.5), (2.0, 0.75), (3.0, 1.0)]);
    assert!(cdf(vec![]).is_empty());
}

#[test]
fn half_percents_have_the_nearest_rank() {
    let all = cdf((1..=400).map(|rank| rank * 1000).collect());
    let wanted = (1..=POINTS).map(|i| (f64::from(2 * i), f64::from(i) / f64::from(POINTS)));
    assert_eq!(all, std::iter::once((1.0, 0.0)).chain(wanted).collect::<Cdf>());
}

#[test]
fn cells_and_bars_are_the_metrics() {
    let dir = tempfile::tempdir().unwrap();
    write_sweep(dir.path(), 3);
    let sweep = SweepData::open(dir.path(), &mut |_, _| {}).unwrap();
    let charts = all(&sweep);
    let of = |name: &str| charts.iter().find(|chart| chart.picture == name).unwrap();
    let heat = of("heat");
    assert_eq!(heat.categories, ["0", "1"]);
    for (row, point) in heat.series.iter().zip(&sweep.points) {
        for (column, value) in &row.points {
            let ages: Vec<f64> =
                point.runs.iter().map(|run| sweep.runs[*run].cluster_aom_ns[*column as usize].1).collect();
            assert_eq!(Some(*value), pktgen_records::stats::median(&ages));
        }
    }
    let loss = of("loss");
    assert_eq!(loss.series.iter().map(|series| series.name.as_str()).collect::<Vec<_>>(), ["queue full"]);
    for (row, point) in sweep.points.iter().enumerate() {
        // FIFO drops every second update, Olaf none.
        let lost = if point.labels["variant"] == "fifo" { 0.5 } else { 0.0 };
        assert_eq!(loss.series[0].points[row], (row as f64, lost));
        assert_eq!(point.cells["loss"].median, lost);
    }
    let paper: Vec<_> = charts.iter().filter(|chart| chart.picture == "paper").collect();
    assert_eq!(paper.len(), 2, "no run has the third metric");
    assert!(paper.iter().any(|chart| chart.series[1].points.iter().any(|(_, value)| *value == 1000.0)));
    assert_eq!(Model::build(&sweep).charts.len(), charts.len());
}

#[test]
fn only_the_first_seed_is_kept_and_only_its_first_setting_whole() {
    let dir = tempfile::tempdir().unwrap();
    write_sweep(dir.path(), 2);
    let sweep = SweepData::open(dir.path(), &mut |_, _| {}).unwrap();
    let kept = |variant: &str, rate: &str, seed| {
        let is_it = |run: &&crate::sweep::data::RunSummary| {
            run.labels["variant"] == variant && run.labels["rate"] == rate && run.seed == seed
        };
        let run = sweep.runs.iter().find(is_it).unwrap();
        (run.kept.sawteeth.len(), run.kept.host_cdf.is_empty())
    };
    assert_eq!((kept("fifo", "20", 1), kept("olaf", "20", 1)), ((2, false), (2, false)));
    assert_eq!((kept("olaf", "40", 1), kept("fifo", "20", 2)), ((1, false), (0, true)));
}

/// Runs of a script may have other seeds at each point.
#[test]
fn points_without_the_first_seed_are_drawn_by_their_own() {
    let dir = tempfile::tempdir().unwrap();
    write_sweep(dir.path(), 3);
    let path = dir.path().join("sweep.json");
    let mut plan: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let left = ["fifo-20-2", "fifo-20-1", "olaf-20-1", "olaf-20-2", "fifo-40-3", "olaf-40-2"];
    let all = plan["runs"].as_array().unwrap().clone();
    let run = |name: &str| all.iter().find(|run| run["dir"] == *name).unwrap().clone();
    plan["runs"] = left.map(run).to_vec().into();
    std::fs::write(&path, plan.to_string()).unwrap();
    let sweep = SweepData::open(dir.path(), &mut |_, _| {}).unwrap();
    let drawn = sweep.runs.iter().filter(|run| !run.kept.host_cdf.is_empty()).map(|run| run.dir.as_str());
    assert_eq!(drawn.collect::<Vec<_>>(), ["fifo-20-2", "olaf-20-2", "fifo-40-3", "olaf-40-2"]);
}
