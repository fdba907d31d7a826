//! ATRO's planner: wiring, routes and their validation, at the paper's scale (20 ms allowed; its authors need 2 to 330 s with
//! Gurobi) and for 10,000 workers (10 s allowed). ARO's exact routes beside it: one draw of 30.

use criterion::{Criterion, criterion_group, criterion_main};
use pktgen_core::seed::Seed;
use pktgen_planning::atro::baseline::{BASELINES, BaselineCase, Network, Topology};
use pktgen_planning::atro::{Cluster, wire};

const CAPACITY_BPS: u64 = 100_000_000_000;

fn cluster(switches: u64, aggregators: u64) -> Cluster {
    Cluster { switches, aggregators, ports: 24, layers: 5, capacity_bps: CAPACITY_BPS }
}

fn wirings(c: &mut Criterion) {
    let mut group = c.benchmark_group("atro");
    for (aggregators, rate_gbps) in [(1, 20), (2, 33), (4, 50), (6, 100)] {
        let paper = cluster(20, aggregators);
        group.bench_function(format!("90 workers, {aggregators} of 20 switches aggregate"), |b| {
            b.iter(|| {
                let wiring = wire(&paper, 90, &[]).expect("feasible");
                assert!(wiring.optimal && wiring.rate_bps / 1_000_000_000 == rate_gbps);
            });
        });
    }
    group.sample_size(10);
    for workers in [10_000, 20_000] {
        let large = cluster(2222, 444);
        group.bench_function(format!("{workers} workers, 444 of 2,222 switches aggregate"), |b| {
            b.iter(|| assert!(wire(&large, workers, &[]).expect("feasible").flows_per_link >= 2));
        });
    }
    group.finish();
}

fn baselines(c: &mut Criterion) {
    let mut group = c.benchmark_group("atro baselines");
    for (name, topology) in Topology::ALL {
        let case =
            BaselineCase { network: Network::of(topology), workers: 90, aggregators: 4, capacity_bps: CAPACITY_BPS };
        for baseline in BASELINES {
            let mut seed = 0;
            group.bench_function(format!("{}, {name}", baseline.name()), |b| {
                b.iter(|| {
                    seed += 1;
                    assert!(baseline.busiest(&case, Seed(seed)) > 0);
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, wirings, baselines);
criterion_main!(benches);
