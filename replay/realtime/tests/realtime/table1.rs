//! OLAF's Table 1 from the shipped configs, in memory: the balances and losses that the report shows.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use pktgen_core::Result;
use pktgen_core::config::{Document, Run};
use pktgen_core::record::{Balance, Book, Received, Sent};
use pktgen_engine::driver::virtual_time::Simulation;
use pktgen_engine::ledger::total;
use pktgen_engine::recorder::Recorder;
use pktgen_realtime::run::Experiment;
use pktgen_registry::all;

/// Counts rows without keeping them.
#[derive(Default)]
struct Count {
    sent: u64,
    books: u64,
    received: u64,
}

impl Recorder for Count {
    fn sent(&mut self, _: &Sent) -> Result<()> {
        self.sent += 1;
        Ok(())
    }
    fn book(&mut self, _: &Book) -> Result<()> {
        self.books += 1;
        Ok(())
    }
    fn received(&mut self, _: &Received, _: &[u8]) -> Result<()> {
        self.received += 1;
        Ok(())
    }
}

fn experiment(name: &str, seeds: &str) -> Experiment {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs/olaf").join(name);
    Experiment::open(all(), Document::load(&path, &[format!("sweep.seeds=\"{seeds}\"")]).unwrap()).unwrap()
}

fn run(experiment: &Experiment, run: &Run) -> Balance {
    let plan = experiment.plan(run).unwrap();
    let mut count = Count::default();
    let mut outcome = Simulation::new(plan.parts)
        .run(plan.spec.capture.until, &AtomicBool::new(false), &mut count, &mut |_| {})
        .unwrap();
    let balance = total(&outcome.ledger.close());
    assert_eq!(outcome.ledger.strangers(), 0);
    assert_eq!(outcome.leaked, 0);
    assert_eq!((balance.unknown, balance.in_flight), (0, 0));
    assert_eq!(balance.sent, 13_500);
    assert_eq!(outcome.counters.sums_ok, outcome.counters.packets_received, "every sum is right, bit for bit");
    assert_eq!((count.sent, count.received), (13_500, outcome.counters.packets_received));
    balance
}

/// Returns the median loss by variant and rate.
fn losses(name: &str, seeds: &str) -> BTreeMap<(String, String), f64> {
    let experiment = experiment(name, seeds);
    let mut all: BTreeMap<(String, String), Vec<f64>> = BTreeMap::new();
    for one in &experiment.runs {
        let balance = run(&experiment, one);
        let key = (one.labels["variant"].clone(), one.labels["topology.rate"].clone());
        all.entry(key.clone()).or_default().push(balance.dropped_total() as f64 / balance.sent as f64);
    }
    let median = |mut v: Vec<f64>| {
        v.sort_by(f64::total_cmp);
        v[v.len() / 2]
    };
    all.into_iter().map(|(k, v)| (k, median(v))).collect()
}

fn loss(all: &BTreeMap<(String, String), f64>, variant: &str, rate: &str) -> f64 {
    all[&(variant.to_owned(), rate.to_owned())]
}

#[test]
fn workers_at_random_times_lose_what_the_paper_says() {
    let all = losses("table1.toml", "1..9");
    assert!((loss(&all, "FIFO", "40Gbps") - 0.558).abs() < 0.02);
    assert!((loss(&all, "FIFO", "20Gbps") - 0.743).abs() < 0.01);
    // The loss by drops in Olaf; the rest of the published loss is updates replaced by newer ones.
    for rate in ["40Gbps", "20Gbps"] {
        assert!(loss(&all, "Olaf", rate) < 0.05);
    }
}
