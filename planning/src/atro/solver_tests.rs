//! Compares the criterion with the paper's program, solved by a solver.

use super::milp::{MilpForm, MilpQuestion, program};
use super::solver::{DEFAULT, MilpReply, solve};
use super::testing::cluster;
use super::*;

fn ask(cluster: &Cluster, m: u64, form: MilpForm, question: MilpQuestion) -> MilpReply {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("atro.lp");
    let inventory = Inventory::of_cluster(cluster, 1);
    let capacities = Capacities::new(&inventory, cluster.capacity_bps / m);
    std::fs::write(&file, program(&capacities, form, question)).unwrap();
    solve(DEFAULT, &file, 120).unwrap()
}

/// Switches, aggregators, ports, layers, flows per link of every kind of small cluster.
const TINY: [(u64, u64, u64, u64, u64); 12] = [
    (2, 0, 3, 2, 2),
    (3, 0, 3, 2, 3),
    (2, 0, 4, 2, 4),
    (1, 1, 4, 1, 2),
    (2, 1, 4, 1, 2),
    (2, 1, 4, 2, 2),
    (3, 1, 3, 2, 2),
    (3, 1, 3, 3, 3),
    (3, 2, 4, 3, 2),
    (3, 2, 3, 2, 1),
    (3, 3, 4, 2, 2),
    (4, 1, 3, 3, 2),
];

#[test]
fn the_program_with_every_worker_named_agrees() {
    for (switches, aggregators, ports, layers, m) in TINY {
        let cluster = cluster(switches, aggregators, ports, layers);
        let most = most_workers(&cluster, m).workers;
        let fits = |workers: u64| ask(&cluster, m, MilpForm::Named, MilpQuestion::Fits(workers));
        assert!(matches!(fits(most), MilpReply::Optimal(_)), "{cluster:?} {m}: {most} workers fit");
        assert_eq!(fits(most + 1), MilpReply::Infeasible, "{cluster:?} {m}: not {} workers", most + 1);
    }
}

#[test]
fn the_program_with_workers_counted_agrees() {
    let larger = [(4, 1, 5, 4, 2), (4, 2, 4, 3, 3), (5, 1, 3, 4, 3), (5, 2, 5, 2, 2), (5, 3, 6, 2, 2), (6, 1, 4, 3, 4)];
    for (switches, aggregators, ports, layers, m) in TINY.into_iter().chain(larger) {
        let cluster = cluster(switches, aggregators, ports, layers);
        let most = most_workers(&cluster, m).workers;
        assert_eq!(
            ask(&cluster, m, MilpForm::Counted, MilpQuestion::Most),
            MilpReply::Optimal(most as f64),
            "{cluster:?} {m}"
        );
        let more = ask(&cluster, m, MilpForm::Counted, MilpQuestion::Fits(most + 1));
        assert_eq!(more, MilpReply::Infeasible, "{cluster:?} {m}");
    }
}
