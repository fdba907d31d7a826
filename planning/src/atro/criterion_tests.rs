//! Compares N(m) with worked examples, proved by the paper's program, and tests its monotonicity.

use proptest::prelude::*;

use super::testing::{arbitrary, cluster};
use super::*;

fn agrees(cases: &[(u64, u64, u64, u64, u64, u64)]) {
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|&(s, a, p, m, l, expected)| {
            let reach = most_workers(&cluster(s, a, p, l), m);
            (reach.workers != expected || reach.bound < expected)
                .then(|| format!("{s},{a},{p},{m},{l}: {reach:?}, not {expected}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn without_aggregators() {
    agrees(&[(2, 0, 3, 7, 2, 3), (3, 0, 7, 2, 3, 2), (5, 0, 3, 7, 1, 2), (4, 0, 3, 4, 3, 4)]);
}

#[test]
fn one_line() {
    agrees(&[(5, 1, 8, 2, 5, 11), (5, 2, 7, 5, 3, 23), (4, 1, 7, 5, 4, 18), (6, 3, 7, 4, 5, 25), (7, 4, 7, 7, 5, 36)]);
}

#[test]
fn layers_bind() {
    agrees(&[
        (5, 2, 8, 7, 1, 7),
        (6, 2, 3, 4, 2, 4),
        (6, 1, 5, 5, 2, 16),
        (5, 3, 6, 2, 2, 15),
        (6, 3, 8, 4, 2, 28),
        (4, 3, 8, 3, 2, 21),
        (6, 1, 3, 3, 3, 6),
        (6, 1, 3, 3, 4, 7),
        (10, 3, 9, 2, 3, 42),
        (10, 3, 9, 2, 4, 43),
        (10, 3, 6, 2, 4, 26),
        (10, 3, 6, 2, 5, 27),
        (10, 2, 7, 3, 3, 32),
        (11, 3, 4, 2, 3, 14),
    ]);
}

#[test]
fn ports_are_saturated() {
    agrees(&[
        (6, 1, 4, 4, 3, 12),
        (9, 2, 6, 2, 3, 20),
        (10, 2, 7, 3, 5, 34),
        (8, 2, 4, 4, 4, 17),
        (6, 1, 5, 3, 6, 14),
        (7, 1, 6, 4, 3, 23),
        (11, 2, 6, 2, 5, 20),
        (8, 1, 4, 3, 3, 11),
        (6, 2, 3, 7, 3, 7),
    ]);
}

#[test]
fn the_papers_scale() {
    let reach = |aggregators: u64, m: u64| {
        let reach = most_workers(&cluster(20, aggregators, 24, 5), m);
        assert_eq!(reach.workers, reach.bound, "proved");
        reach.workers
    };
    assert_eq!([1, 2, 3, 4, 5].map(|m| reach(1, m)), [23, 42, 61, 80, 99]);
    assert_eq!([1, 2, 3].map(|m| reach(2, m)), [45, 81, 117]);
    assert_eq!([1, 2].map(|m| reach(3, m)), [67, 118]);
    assert_eq!([1, 2].map(|m| reach(4, m)), [89, 153]);
}

#[test]
fn flows_per_link_at_the_papers_scale() {
    let flows = |aggregators: u64, workers: u64| flows_per_link(&cluster(20, aggregators, 24, 5), workers).unwrap();
    // Figure 4: 100 Gbit/s up to 80 workers, 50 with 90.
    assert_eq!([60, 70, 80, 90].map(|workers| flows(4, workers)), [1, 1, 1, 2]);
    // Figure 5; the text gives 33 Gbit/s for 4 aggregators, which is the optimum for 2.
    assert_eq!([1, 2, 3, 4, 5, 6, 8].map(|aggregators| flows(aggregators, 90)), [5, 3, 2, 2, 1, 1, 1]);
}

proptest! {
    /// Workers that fit still fit with one more switch, aggregator, layer or flow per link.
    #[test]
    fn more_of_anything_never_hurts((cluster, m) in arbitrary()) {
        let reach = most_workers(&cluster, m);
        prop_assert!(reach.workers <= reach.bound);
        let Cluster { switches, aggregators, layers, .. } = cluster;
        let mut more = vec![
            (Cluster { switches: switches + 1, ..cluster }, m),
            (Cluster { switches: switches + 1, aggregators: aggregators + 1, ..cluster }, m),
            (Cluster { layers: layers + 1, ..cluster }, m),
            (cluster, m + 1),
        ];
        if aggregators < switches {
            more.push((Cluster { aggregators: aggregators + 1, ..cluster }, m));
        }
        for (cluster, m) in more {
            prop_assert!(most_workers(&cluster, m).workers >= reach.workers, "{cluster:?} {m}");
        }
    }
}
