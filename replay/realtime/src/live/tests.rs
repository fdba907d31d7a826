use pktgen_core::record::NO_CLUSTER;
use pktgen_core::time::{MS, SECOND};

use super::*;

const SEES: Sees =
    Sees { sends: true, device: true, server: true, results: false, paced: true, counted: true, dated: true };

fn at(t: Time) -> Progress {
    Progress { t, ..Progress::default() }
}

fn delivered(t: Time, generation: Time, cluster: u16, count: u16) -> Delivered {
    Delivered { t, generation, bytes: 256, cluster, count }
}

#[test]
fn what_is_seen_is_what_was_sent_and_delivered() {
    let view = View::default();
    assert!(view.look(&at(0)).is_none());
    let Ends { mut feed, sent, .. } =
        view.begin(("a run".into(), Path::new("out")), 2, Expected::MergesUnderLoad, SEES);
    (0..30).for_each(|_| sent.count(1, 5));
    sent.generated(1, 60 * MS);
    // For an unknown cluster, or for none: not counted by cluster.
    sent.count(7, 40);
    feed.delivered(delivered(20 * MS, 5 * MS, 7, 1));
    feed.delivered(delivered(20 * MS, 5 * MS, NO_CLUSTER, 1));
    feed.delivered(delivered(20 * MS, 10 * MS, 1, 1));
    feed.delivered(delivered(50 * MS, 40 * MS, 1, 3));
    let glance = view.look(&at(60 * MS)).unwrap();
    let [quiet, busy] = &glance.clusters[..] else { panic!("two clusters") };
    assert_eq!((quiet.totals, quiet.age), (ClusterTotals::default(), None));
    assert_eq!(busy.totals, ClusterTotals { sent: 30, packets: 2, updates: 4, bytes: 512 });
    // 40 ms from its first generation to the second delivery, 10 ms on from there, starting at an age of 10 ms.
    assert_eq!(busy.age, Some(20 * MS));
    let mean = (0.5 * 40.0 * 40.0 + 10.0 * 15.0) / 50.0 * MS as f64;
    assert!((busy.age_mean_ps.unwrap() - mean).abs() < 1.0, "{:?} {mean}", busy.age_mean_ps);
    // The window is not complete yet.
    assert_eq!(busy.last, ClusterTotals::default());
    assert_eq!(view.look(&at(SECOND)).unwrap().clusters[1].last, busy.totals);
    assert_eq!(view.look(&at(2 * SECOND)).unwrap().clusters[1].last, ClusterTotals::default());
}

/// As in reports: a starved cluster ages up to its last generation, and the current age goes on.
#[test]
fn the_mean_age_ends_with_the_last_generation_or_arrival() {
    let looked = |sees: Sees| {
        let view = View::default();
        let Ends { mut feed, sent, .. } = view.begin(("a run".into(), Path::new("out")), 2, Expected::Single, sees);
        for (cluster, generation) in [(0, 10), (1, 10), (1, 40)] {
            sent.generated(cluster, generation * MS);
        }
        for cluster in [0, 1] {
            feed.delivered(delivered(20 * MS, 10 * MS, cluster, 1));
        }
        [60 * MS, 10 * SECOND].map(|t| {
            let glance = view.look(&at(t)).unwrap();
            let ages: Vec<_> =
                glance.clusters.iter().map(|seen| (seen.age.unwrap(), seen.age_mean_ps.unwrap())).collect();
            ages
        })
    };
    for (t, ages) in [60 * MS, 10 * SECOND].into_iter().zip(looked(SEES)) {
        assert_eq!(ages, [(t - 10 * MS, 5.0 * MS as f64), (t - 10 * MS, 15.0 * MS as f64)]);
    }
    // A process without the workers does not know that there are no more generations.
    let [_, late] = looked(Sees { sends: false, ..SEES });
    assert!((late[0].1 - (10 * SECOND - 10 * MS) as f64 / 2.0).abs() < 1.0, "{}", late[0].1);
}

#[test]
fn packets_without_generation_times_have_no_age() {
    let view = View::default();
    let sees = Sees { dated: false, ..SEES };
    let Ends { mut feed, .. } = view.begin(("a run".into(), Path::new("out")), 1, Expected::Sums(4), sees);
    feed.delivered(delivered(500 * MS, 0, 0, 4));
    let cluster = view.look(&at(SECOND)).unwrap().clusters[0];
    assert_eq!((cluster.totals.packets, cluster.age, cluster.age_mean_ps), (1, None, None));
}

/// Whoever looks late sees counts per second all the same.
#[test]
fn counts_of_a_longer_window_are_per_second() {
    let view = View::default();
    assert!(view.look(&at(0)).is_none());
    let Ends { sent, .. } = view.begin(("a run".into(), Path::new("out")), 1, Expected::Single, SEES);
    sent.count(0, 1);
    // A look is a little late always.
    assert_eq!(view.look(&at(SECOND + MS / 20)).unwrap().clusters[0].last.sent, 1);
    (0..200).for_each(|_| sent.count(0, 1));
    assert_eq!(view.look(&at(3 * SECOND + MS / 20)).unwrap().clusters[0].last.sent, 100);
}

/// Sparse training: results at workers beside packets at the server.
#[test]
fn deliveries_at_both_ends_are_counted() {
    let sees = Sees { results: true, counted: false, ..SEES };
    let view = View::with_intervals(Some(SECOND));
    let Ends { mut feed, results, sent, .. } =
        view.begin(("a run".into(), Path::new("out")), 1, Expected::SumsByKey, sees);
    let mut results = results.expect("a second feed");
    (0..9).for_each(|_| sent.count(0, 5));
    feed.delivered(delivered(500 * MS, 0, 0, 1));
    (0..4).for_each(|n| results.delivered(delivered((100 + n) * MS, 0, 0, 0)));
    results.delivered(delivered(1500 * MS, 0, 0, 0));
    sent.counted(SECOND);
    let glance = view.look(&at(SECOND)).unwrap();
    let interval = glance.interval.unwrap();
    assert_eq!((interval.during.received, interval.during.represented), (Some(5), None));
    assert_eq!((interval.during.received_bytes, glance.clusters[0].totals.packets), (Some(5 * 256), 5));
    assert!(glance.warnings.is_empty());
    for sees in [SEES, Sees { results: true, server: false, ..SEES }] {
        let ends = view.begin(("a run".into(), Path::new("out")), 1, Expected::Unknown, sees);
        assert!(ends.results.is_none());
    }
}

#[test]
fn what_has_no_room_is_counted() {
    let view = View::default();
    let mut feed = view.begin(("a run".into(), Path::new("out")), 1, Expected::Single, SEES).feed;
    for i in 0..WAITING as i64 + 5 {
        feed.delivered(delivered(i, i, 0, 1));
    }
    let glance = view.look(&at(SECOND)).unwrap();
    assert_eq!((glance.skipped, glance.clusters[0].totals.packets), (5, WAITING as u64));
}

#[test]
fn a_second_in_which_nothing_is_aggregated_is_named() {
    let last = |sent, packets, updates| ClusterTotals { sent, packets, updates, bytes: 0 };
    let says =
        |expected: Expected, last: ClusterTotals| Warning::of(expected, 3, &last, SECOND).map(|warning| warning.what);
    for (expected, last, what) in [
        // Another process receives.
        (Expected::Elsewhere, last(1000, 0, 0), None),
        (Expected::Single, last(1000, 0, 0), Some(WarningKind::Silence)),
        // Under load Olaf merges; otherwise it forwards.
        (Expected::MergesUnderLoad, last(1000, 500, 500), Some(WarningKind::NoAggregation)),
        (Expected::MergesUnderLoad, last(1000, 500, 900), None),
        (Expected::MergesUnderLoad, last(1000, 1000, 1000), None),
        (Expected::MergesUnderLoad, last(1000, 950, 950), None),
        // A result is a sum, under any load.
        (Expected::Sums(6), last(1000, 1000, 1000), Some(WarningKind::NoAggregation)),
        (Expected::Sums(6), last(1000, 166, 996), None),
        (Expected::Sums(1), last(1000, 1000, 1000), None),
        (Expected::Single, last(1000, 400, 400), None),
        (Expected::Unknown, last(1000, 400, 400), None),
        // Sums by key leave at the end of an iteration, which may take longer than a second.
        (Expected::SumsByKey, last(1000, 0, 0), None),
        // Silence is reported in any other case.
        (Expected::Unknown, last(1000, 0, 0), Some(WarningKind::Silence)),
        (Expected::Single, last(1000, 0, 0), Some(WarningKind::Silence)),
        (Expected::Single, last(50, 0, 0), None),
        (Expected::MergesUnderLoad, last(90, 50, 50), None),
    ] {
        assert_eq!(says(expected, last), what, "{expected:?} {last:?}");
    }
    let text = Warning::of(Expected::Sums(6), 3, &last(1000, 1000, 1000), SECOND).unwrap().to_string();
    assert!(text.starts_with("cluster 3: nothing is being aggregated: 1000 packets arrived in 1.0 s"), "{text}");
}

fn looked(view: &View, t: Time, over: bool) -> Option<StatsInterval> {
    view.look(&Progress { over, ..at(t) }).unwrap().interval
}

#[test]
fn intervals_are_of_one_moment_and_add_up() {
    let view = View::with_intervals(Some(SECOND));
    let Ends { mut feed, sent, .. } = view.begin(("a run".into(), Path::new("out")), 1, Expected::Single, SEES);
    (0..10).for_each(|i| sent.count(i % 2, 5));
    feed.delivered(delivered(900 * MS, 1, 0, 4));
    // It arrived after the time up to which departures are counted.
    feed.delivered(delivered(960 * MS, 1, 0, 1));
    sent.counted(950 * MS);
    assert_eq!(looked(&view, 999 * MS, false), None);
    let first = looked(&view, 1001 * MS, false).unwrap();
    assert_eq!((first.begin, first.end, first.last, first.late_ns), (0, 950 * MS, false, Some([5, 5, 5])));
    let LiveTotals { sent: all, received, represented, received_bytes, lost, refused } = first.during;
    assert_eq!([all, received, represented, received_bytes, lost, refused], [10, 1, 4, 256, 0, 0].map(Some));
    assert_eq!(first.total, first.during);
    assert_eq!((first.unread, first.device), (Some(0), None));
    sent.count(0, 7000);
    sent.counted(1500 * MS);
    assert_eq!(looked(&view, 1900 * MS, false), None);
    let last = looked(&view, 1950 * MS, true).unwrap();
    assert_eq!((last.begin, last.end, last.last), (950 * MS, 1950 * MS, true));
    assert_eq!((last.during.sent, last.total.sent, last.total.received), (Some(1), Some(11), Some(2)));
    let [p50, p99, most] = last.late_ns.unwrap();
    assert!(p50 == most && p99 == most && (7000..7250).contains(&most), "{most}");
    assert_eq!(looked(&view, 3000 * MS, true), None, "a run has one last interval");
}

#[test]
fn what_a_process_does_not_see_has_no_value() {
    let none = Sees { sends: false, device: false, server: false, ..SEES };
    for (sees, known) in [
        (Sees { sends: true, ..none }, [true, false, false, false, false, true]),
        (Sees { sends: true, results: true, ..none }, [true, true, true, true, false, true]),
        (Sees { device: true, ..none }, [false, true, false, false, true, false]),
        (Sees { server: true, ..none }, [false, true, true, true, true, false]),
        (Sees { results: true, counted: false, ..SEES }, [true, true, false, true, true, true]),
    ] {
        let view = View::with_intervals(Some(SECOND));
        let _ends = view.begin(("a run".into(), Path::new("out")), 1, Expected::Unknown, sees);
        let StatsInterval { during, late_ns, .. } = looked(&view, SECOND, true).unwrap();
        let LiveTotals { sent, received, represented, received_bytes, lost, refused } = during;
        let all = [sent, received, represented, received_bytes, lost, refused];
        assert_eq!(all.map(|value| value.is_some()), known, "{sees:?}");
        assert_eq!(late_ns, None, "no frame left");
    }
    // Deliveries that were not read in time are missing from now on, and so is the total.
    let view = View::with_intervals(Some(SECOND));
    let Ends { mut feed, .. } = view.begin(("a run".into(), Path::new("out")), 1, Expected::Single, SEES);
    (0..WAITING as i64 + 5).for_each(|i| feed.delivered(delivered(i, i, 0, 1)));
    let gap = looked(&view, SECOND, false).unwrap();
    assert_eq!((gap.unread, gap.during.received, gap.total.received), (Some(5), None, None));
    feed.delivered(delivered(1500 * MS, 1, 0, 1));
    let after = looked(&view, 2 * SECOND, false).unwrap();
    assert_eq!((after.unread, after.during.received, after.total.received), (Some(0), Some(1), None));
}

#[test]
fn what_threads_sent_is_counted_before_its_rows_are_written() {
    let view = View::with_intervals(Some(SECOND));
    let Ends { mut feed, sent, .. } = view.begin(("a run".into(), Path::new("out")), 1, Expected::Single, SEES);
    sent.counted(0);
    let lanes: Vec<_> = sent.lanes(2).collect();
    lanes[0].left(3, 400 * MS);
    lanes[1].left(1, 950 * MS);
    lanes[0].left(0, 990 * MS);
    feed.delivered(delivered(940 * MS, 1, 0, 1));
    feed.delivered(delivered(960 * MS, 1, 0, 1));
    let glance = view.look(&at(SECOND)).unwrap();
    let interval = glance.interval.unwrap();
    assert_eq!((interval.end, interval.during.sent, interval.during.received), (950 * MS, Some(4), Some(1)));
    // Its cluster waits for the rows.
    assert_eq!(glance.clusters[0].totals, ClusterTotals::default());
    sent.count(0, 1);
    sent.counted(950 * MS);
    assert_eq!(view.look(&at(SECOND)).unwrap().clusters[0].totals.packets, 1);
}

/// While a run is paused, rows of frames that left wait for the rest of their round, and the sending threads go on.
#[test]
fn ages_grow_while_rows_of_clusters_wait() {
    let view = View::with_intervals(Some(SECOND));
    let Ends { mut feed, sent, .. } = view.begin(("a run".into(), Path::new("out")), 1, Expected::Single, SEES);
    sent.counted(400 * MS);
    sent.generated(0, 390 * MS);
    let lane = sent.lanes(1).next().expect("a lane");
    lane.left(2, 500 * MS);
    feed.delivered(delivered(400 * MS, 390 * MS, 0, 1));
    feed.delivered(delivered(500 * MS, 480 * MS, 0, 1));
    for t in [SECOND, 2 * SECOND] {
        lane.left(0, t);
        let glance = view.look(&at(t)).unwrap();
        let ClusterStats { age, age_mean_ps, totals, .. } = glance.clusters[0];
        // Counts are of the rows that are written.
        assert_eq!((glance.interval.unwrap().end, age, totals.packets), (t, Some(t - 480 * MS), 1));
        // The mean ends with the last arrival: 110 ms after the first generation, at an age of as much.
        assert!((age_mean_ps.unwrap() - 55.0 * MS as f64).abs() < 1.0, "{age_mean_ps:?}");
    }
}
