use pktgen_core::time::{MS, SECOND};

use super::*;

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
    let Ends { mut feed, sent } = view.begin("a run".into(), 2, Expected::MergesUnderLoad);
    (0..30).for_each(|_| sent.count(1));
    // Of a cluster that there is not, or of none: nobody's.
    sent.count(7);
    feed.delivered(delivered(20 * MS, 5 * MS, 7, 1));
    feed.delivered(delivered(20 * MS, 5 * MS, NO_CLUSTER, 1));
    feed.delivered(delivered(20 * MS, 10 * MS, 1, 1));
    feed.delivered(delivered(50 * MS, 40 * MS, 1, 3));
    let glance = view.look(&at(60 * MS)).unwrap();
    let [quiet, busy] = &glance.clusters[..] else { panic!("two clusters") };
    assert_eq!((quiet.totals, quiet.age), (ClusterTotals::default(), None));
    assert_eq!(busy.totals, ClusterTotals { sent: 30, packets: 2, updates: 4, bytes: 512 });
    // 40 ms from its first generation to the second delivery, 10 ms on from there, beginning at an age of 10 ms.
    assert_eq!(busy.age, Some(20 * MS));
    let mean = (0.5 * 40.0 * 40.0 + 10.0 * 15.0) / 50.0 * MS as f64;
    assert!((busy.age_mean_ps.unwrap() - mean).abs() < 1.0, "{:?} {mean}", busy.age_mean_ps);
    // The window is not over yet.
    assert_eq!(busy.last, ClusterTotals::default());
    assert_eq!(view.look(&at(SECOND)).unwrap().clusters[1].last, busy.totals);
    assert_eq!(view.look(&at(2 * SECOND)).unwrap().clusters[1].last, ClusterTotals::default());
}

#[test]
fn what_has_no_room_is_counted() {
    let view = View::default();
    let mut feed = view.begin("a run".into(), 1, Expected::Single).feed;
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
        // Another process hears them.
        (Expected::Elsewhere, last(1000, 0, 0), None),
        (Expected::Single, last(1000, 0, 0), Some(WarningKind::Silence)),
        // Under load Olaf merges; what it need not merge it forwards.
        (Expected::MergesUnderLoad, last(1000, 500, 500), Some(WarningKind::NoAggregation)),
        (Expected::MergesUnderLoad, last(1000, 500, 900), None),
        (Expected::MergesUnderLoad, last(1000, 1000, 1000), None),
        (Expected::MergesUnderLoad, last(1000, 950, 950), None),
        // A result is a sum, whatever the load.
        (Expected::Sums(6), last(1000, 1000, 1000), Some(WarningKind::NoAggregation)),
        (Expected::Sums(6), last(1000, 166, 996), None),
        (Expected::Sums(1), last(1000, 1000, 1000), None),
        (Expected::Single, last(1000, 400, 400), None),
        (Expected::Unknown, last(1000, 400, 400), None),
        // Silence is silence.
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
