//! A comparison of a thousand runs, 100 points of 5 seeds on each side, and its JSON: less than a second was promised.

use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use pktgen_compare::{Comparison, Rules, Side};
use pktgen_core::record::{MANIFEST_VERSION, ReportPlan, SweepManifest};
use pktgen_records::Options;
use pktgen_report::SweepData;
use pktgen_report::sweep::data::{PointSummary, RunSummary};

const METRICS: [(&str, &str); 5] =
    [("aom_mean", "ns"), ("latency_mean", "ns"), ("sent", "updates"), ("delivered", "updates"), ("loss", "share")];

fn side(name: &str, by: f64) -> Side {
    let manifest = SweepManifest {
        shard: None,
        version: MANIFEST_VERSION,
        experiment: "x".to_owned(),
        about: String::new(),
        overrides: Vec::new(),
        axes: Vec::new(),
        runs: Vec::new(),
        report: ReportPlan::default(),
        paper: Vec::new(),
    };
    let labels = |i: u64| [("rate".to_owned(), (i / 5).to_string())].into_iter().collect();
    let run = |i: u64| {
        let noise = 1.0 + 0.01 * ((i * 7919 % 101) as f64 / 101.0) * by;
        let scalars = METRICS.iter().map(|(key, _)| ((*key).into(), 1000.0 * noise)).collect();
        RunSummary { dir: i.to_string(), labels: Arc::new(labels(i)), seed: i % 5, scalars, ..Default::default() }
    };
    let point = |i: u64| PointSummary { labels: labels(5 * i), ..Default::default() };
    let units = METRICS.map(|(key, unit)| (key.to_owned(), unit.to_owned())).into_iter().collect();
    let (runs, points) = ((0..500).map(run).collect(), (0..100).map(point).collect());
    Side { name: name.to_owned(), sweep: SweepData { manifest, options: Options::default(), units, runs, points } }
}

fn thousand(c: &mut Criterion) {
    let (sides, rules) = ([side("old", 1.0), side("new", 1.7)], Rules::built_in());
    let mut group = c.benchmark_group("compare");
    group.sample_size(10);
    group.bench_function("1,000 runs, 5 metrics", |b| {
        b.iter(|| {
            let comparison = Comparison::of(&sides, Some(0), &rules).expect("comparable");
            assert_eq!(comparison.versus[0].pairing.pairs, 500);
            comparison.render("json").expect("a form").expect("JSON").len()
        });
    });
    group.finish();
}

criterion_group!(benches, thousand);
criterion_main!(benches);
