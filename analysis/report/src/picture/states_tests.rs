//! Tests of [`super`]: selection of workers and window, and the charts in reports.

use pktgen_records::Options;
use pktgen_records::testing::Story;

use super::*;
use crate::{Model, REPORTS};

fn open(story: &Story, clusters: &[u16]) -> Analysis {
    let dir = tempfile::tempdir().unwrap();
    let mut manifest = story.manifest();
    manifest.clusters = clusters.to_vec();
    story.write_with(dir.path(), &manifest);
    Analysis::open(dir.path(), Options::default()).unwrap()
}

/// Returns a run with `n` decisions of each of `workers` workers, one per 1000 ps, each after an ACK that reports `k mod 5` clusters.
fn told(workers: u32, n: u32) -> Story {
    let mut story = Story::new();
    for k in 0..n {
        for worker in 0..workers {
            let t = i64::from(k) * 1000 + i64::from(worker);
            story.state(t, worker, ((k % 5) as u16, 2), None);
            story.state(t + 500, worker, ((k % 5) as u16, 2), Some((500, 0.5, k % 3 != 0)));
        }
    }
    story
}

#[test]
fn the_first_workers_of_clusters_all_over_are_shown() {
    // Two workers in each of ten clusters; in cluster 0 only the second has decisions.
    let clusters: Vec<u16> = (0..20u16).map(|worker| worker / 2).collect();
    let mut story = told(20, 3);
    let states = story.states.as_mut().unwrap();
    states.worker.iter_mut().filter(|worker| **worker == 0).for_each(|worker| *worker = 1);
    let (shown, all) = thinned(&open(&story, &clusters));
    let who: Vec<_> = shown.iter().map(|worker| (worker.worker, worker.cluster)).collect();
    assert_eq!((who, all), (vec![(1, 0), (6, 3), (12, 6), (18, 9)], 19));
    // Workers missing in the manifest are excluded, and background traffic, too.
    assert_eq!(thinned(&open(&told(2, 3), &[])), (Vec::new(), 0));
    assert_eq!(thinned(&open(&told(1, 3), &[pktgen_core::record::NO_CLUSTER])), (Vec::new(), 0));
    assert_eq!(thinned(&open(&Story::new(), &[0])), (Vec::new(), 0));
}

#[test]
fn the_window_is_in_the_middle_and_holds_what_was_heard_before_it() {
    let (shown, _) = thinned(&open(&told(1, 1000), &[0]));
    let worker = &shown[0];
    assert_eq!(worker.decisions.len(), DECISIONS_WANTED + 1);
    let (first, last) = (worker.decisions[0].t_ps, worker.decisions[DECISIONS_WANTED].t_ps);
    assert!(first > 400_000 && last < 600_000, "{first} {last}");
    assert_eq!((worker.heard[0].0, worker.heard.last().unwrap().0), (first, last));
    // At the first decision, the worker has the report of the ACK 500 ps before.
    let k = (first - 500) / 1000;
    assert_eq!(worker.heard[0].1, (k % 5) as f64 / 2.0);
    let withheld = worker.decisions.iter().filter(|decision| decision.withheld).count();
    assert!((20..=21).contains(&withheld), "{withheld}");
    assert!(worker.decisions.iter().all(|decision| decision.withheld == ((decision.t_ps - 500) / 1000 % 3 == 0)));
}

#[test]
fn a_window_is_cut_where_somebody_hears_too_much() {
    let mut story = told(1, 10);
    for k in 0..3000u16 {
        story.state(5000 + i64::from(k), 0, (k % 2, 2), None);
    }
    let worker = &thinned(&open(&story, &[0])).0[0];
    assert!(worker.heard.len() <= CHANGES_MAX + 3, "{}", worker.heard.len());
    assert!(!worker.decisions.is_empty());
}

#[test]
fn reports_draw_the_first_run_of_each_point() {
    let dir = tempfile::tempdir().unwrap();
    let mut story = told(2, 40);
    story.sent(0, 0, Some(0), 0).sent(1, 0, Some(0), 1).received(9, 0, 0, 1).received(9, 1, 0, 1);
    story.write(dir.path());
    let mut sweep = SweepData::open(dir.path(), &mut |_, _| {}).unwrap();
    let charts = all(&sweep);
    assert_eq!(charts.len(), 2);
    assert!(charts[0].title.contains("seed 1") && charts[0].title.contains("withheld"), "{}", charts[0].title);
    assert_eq!(charts[0].series.len(), 2);
    assert!(charts.iter().all(|chart| !chart.title.contains(" of 2 workers")), "{}", charts[0].title);
    assert_eq!((charts[0].series[0].points.len(), charts[0].series[0].marks.len()), (40, 14));
    assert_eq!(charts[0].series[1].name, "worker 1 of cluster 1");
    // Level until the next change: every x except the first occurs twice.
    let heard = &charts[1].series[0].points;
    assert!(heard.windows(2).all(|pair| pair[0].0 <= pair[1].0) && heard.iter().any(|(_, level)| *level == 2.0));
    let html = REPORTS.iter().find(|report| report.name() == "html").unwrap();
    let page = html.render(&Model::build(&sweep)).unwrap();
    assert!(page.contains("Congestion as reported to workers by ACKs"));
    assert_eq!(page.matches("class=\"cross s0\"").count(), 14);
    // Further workers and points are counted.
    sweep.runs[0].deciders = 20;
    let titles: Vec<String> = all(&sweep).into_iter().map(|chart| chart.title).collect();
    assert!(titles.iter().all(|title| title.contains(", seed 1 (2 of 20 workers); ")), "{titles:?}");
    sweep.points = vec![sweep.points[0].clone(); CHARTS_MAX + 1];
    let charts = all(&sweep);
    assert_eq!(charts.len(), 2 * CHARTS_MAX);
    assert_eq!(charts[2 * CHARTS_MAX - 1].note, "1 further point is not drawn.");
}
