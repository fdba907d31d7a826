//! A worker that moves to another cluster during a run: ages, fates and balance are correct across the move.

use pktgen_core::age::Sawtooth;
use pktgen_core::record::PacketId;
use proptest::prelude::*;

use crate::age::{AgeOf, Ages, FlowAge};
use crate::model::Fates;
use crate::testing::Story;

const US: i64 = 1_000_000;

fn ages(story: &Story) -> (Ages, Fates) {
    let fates = Fates::resolve(&story.records);
    (Ages::compute(&story.records, |row| fates.members_of(row), AgeOf::Newest).unwrap(), fates)
}

fn means(ages: &[FlowAge]) -> Vec<(u32, f64)> {
    ages.iter().map(|age| (age.id, age.mean_ns.unwrap())).collect()
}

/// Worker 0 begins in cluster 0 and has moved when the device receives its second update; worker 1 is in cluster 1. The
/// device merges both in cluster 1, although worker 0's update was generated in cluster 0.
fn moved() -> Story {
    let mut story = Story::new();
    story.sent_seq(0, 0, 0, Some(0), 0).sent_seq(0, 1, 4 * US, Some(4 * US), 0);
    story.sent_seq(0, 2, 10 * US, Some(10 * US), 1).sent_seq(1, 0, 2 * US, Some(2 * US), 1);
    story.received_seq(2 * US, 0, 0, 0, 1);
    story.merged_into(5 * US, PacketId::new(1, 0, 0), PacketId::new(0, 1, 0));
    story.attempt_received(6 * US, PacketId::new(0, 1, 0), 1, true);
    *story.records.received.count.last_mut().unwrap() = 2;
    story.attempt_received(12 * US, PacketId::new(0, 2, 0), 1, true);
    story
}

#[test]
fn the_cluster_of_the_delivery_is_refreshed() {
    let story = moved();
    let (ages, fates) = ages(&story);
    let balance = fates.balance();
    assert_eq!((balance.unknown, balance.delivered_alone, balance.delivered_merged), (0, 2, 2));
    // Cluster 0 ages from 0 to its last generation at 4 µs: its only delivery, at 2 µs, carried generation 0. Cluster 1
    // ages from 2 µs to 6 µs, is then 2 µs old and ages until 12 µs: to 8 µs.
    assert_eq!(means(&ages.clusters), [(0, 2000.0), (1, (16.0 / 2.0 + (64.0 - 4.0) / 2.0) / 10.0 * 1000.0)]);
    // Worker 0 continues across its move: 0 → 6, 2 → 8 in 12 µs; worker 1 is refreshed to worker 0's generation.
    assert_eq!(means(&ages.workers), [(0, (36.0 / 2.0 + 60.0 / 2.0) / 12.0 * 1000.0), (1, 2000.0)]);
    assert!(ages.clusters.iter().chain(&ages.workers).all(|age| age.delivered));
}

#[test]
fn a_delivery_before_the_clusters_first_generation_belongs_to_it() {
    // The device knows about the move immediately; worker 0 generates in cluster 9 only at 8 µs, or never.
    let mut story = Story::new();
    story.sent_seq(0, 0, US, Some(US), 0).attempt_received(3 * US, PacketId::new(0, 0, 0), 9, true);
    let (never, fates) = ages(&story);
    assert_eq!(fates.balance().unknown, 0);
    // Cluster 0 generated once, and nothing was delivered in it: no window, no mean.
    assert_eq!(
        never.clusters.iter().map(|age| (age.id, age.mean_ns)).collect::<Vec<_>>(),
        [(0, None), (9, Some(1000.0))]
    );
    assert_eq!((never.clusters[0].delivered, never.clusters[1].delivered), (false, true));
    story.sent_seq(0, 1, 8 * US, Some(8 * US), 9);
    let (later, _) = ages(&story);
    assert_eq!((later.clusters[1].id, later.clusters[1].mean_ns), (9, Some(3500.0)));
}

#[test]
fn metrics_of_a_run_with_a_move() {
    let dir = tempfile::tempdir().unwrap();
    moved().write(dir.path());
    let measured = crate::analyze_run(dir.path()).unwrap();
    let value = |key: &str| measured.lines.iter().find(|line| line.key().as_deref() == Some(key)).unwrap().value;
    assert_eq!((value("balance_unknown"), value("flows_never_delivered/cluster")), (Some(0.0), Some(0.0)));
    assert!(measured.notes.is_empty(), "{:?}", measured.notes);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// One worker with random clusters at generation and delivery; every update is delivered alone and late.
    #[test]
    fn agrees_with_the_oracle_per_cluster(steps in prop::collection::vec((1i64..1000, 1i64..3000, 0u16..3, 0u16..3), 1..40)) {
        let mut story = Story::new();
        let mut t_gen = 0;
        let mut deliveries = Vec::new();
        // Per cluster: the first generation and the last event of its updates.
        let mut windows = [(i64::MAX, i64::MIN); 3];
        for (seq, &(gap, delay, sent_in, received_in)) in (0u32..).zip(&steps) {
            t_gen += gap;
            story.sent_seq(0, seq, t_gen, Some(t_gen), sent_in);
            deliveries.push((t_gen + delay, seq, t_gen, received_in));
            for (cluster, t) in [(sent_in, t_gen), (received_in, t_gen + delay)] {
                let window = &mut windows[usize::from(cluster)];
                *window = (window.0.min(t_gen), window.1.max(t));
            }
        }
        deliveries.sort_unstable();
        for &(t, seq, _, cluster) in &deliveries {
            story.attempt_received(t, PacketId::new(0, seq, 0), cluster, true);
        }
        let (ages, fates) = ages(&story);
        prop_assert_eq!(fates.balance().unknown, 0);
        for age in &ages.clusters {
            let (start, end) = windows[age.id as usize];
            let mut oracle = Sawtooth::default();
            oracle.generated(start);
            for &(t, _, generation, _) in deliveries.iter().filter(|delivery| u32::from(delivery.3) == age.id) {
                oracle.delivered(t, generation);
            }
            oracle.advance(end);
            let expected = oracle.mean().map(|ps| ps / 1000.0);
            prop_assert!(match (age.mean_ns, expected) {
                (Some(ours), Some(theirs)) => (ours - theirs).abs() <= 1e-9 * theirs.abs().max(1.0),
                (ours, theirs) => ours == theirs,
            }, "cluster {}: {:?} {:?}", age.id, age.mean_ns, expected);
        }
    }
}
