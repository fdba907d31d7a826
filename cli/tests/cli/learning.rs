//! Learning in the loop, as users run it (docs/learning.md).

use std::fs;
use std::path::Path;

use crate::support::figures::{Medians, report, values};
use crate::support::pktgen;
use pktgen_records::run::RunData;
use serde_json::Value;

fn get(all: &Medians, parts: &[&str], metric: &str) -> f64 {
    let found = values(all, parts, metric);
    assert_eq!(found.len(), 1, "{parts:?} {metric}");
    found[0]
}

const SMALL: &str = r#"
name = "small"
[workload]
kind = "learn"
clusters = 3
updates = 30
steps = 100
step_time = "9ns"
worker_sigma = 0.3
[topology]
rate = "5Gbps"
[target]
slots = 2
[endpoint]
workers = "learner"
step = "adam"
"#;

/// With lost, merged and late updates, every sum equals what its members sent, and every update is accounted for.
#[test]
fn sums_are_verified_the_balance_closes_and_a_seed_says_all() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    fs::write(folder.join("small.toml"), SMALL).expect("writable");
    for queue in ["olaf", "fifo"] {
        let program = if queue == "olaf" { "target.program=olaf" } else { "target.program=forward" };
        let queue = format!("target.queue={queue}");
        let run = |out: &str, seed: &str| {
            let set = ["--set", program, "--set", &queue, "--set", seed];
            let output =
                pktgen(folder, &[&["-q", "replay", "small.toml", "--no-report", "--out", out][..], &set].concat());
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let text = fs::read_to_string(folder.join(out).join("manifest.json")).expect("a manifest");
            let manifest: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            assert_eq!(manifest["validity"]["valid"], true);
            let count = |part: &str, name: &str| manifest[part][name].as_u64().expect("a number");
            assert_eq!(count("balance", "sent"), 270);
            assert!(count("balance", "sent") > count("counters", "packets_received"), "the network is congested");
            assert_eq!(count("counters", "sums_ok"), count("counters", "packets_received"));
            ["sent", "received"]
                .map(|name| fs::read(folder.join(out).join(format!("{name}.parquet"))).expect("a stream"))
        };
        let name = |n: u32| format!("{}{n}", &queue[13..]);
        let first = run(&name(1), "seed=5");
        assert!(first == run(&name(2), "seed=5"), "{queue}: the same seed, the same bytes");
        assert!(first != run(&name(3), "seed=6"));
    }
}

/// A device that multicasts acknowledgements sends each to all workers: late ones of a round do not start the round after the next.
#[test]
fn nobody_is_a_round_ahead() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text = SMALL.replace("clusters = 3", "clusters = 1\nworkers_per_cluster = 8").replace("9ns", "8ns");
    fs::write(folder.path().join("rounds.toml"), text).expect("writable");
    let set = [
        "target.program=olaf",
        "target.queue=olaf",
        "target.slots=64",
        "target.reward_filter=false",
        "endpoint.mode=synchronous",
        "topology.rate=40Gbps",
        "topology.downlink_rate=10Gbps",
    ];
    let set: Vec<&str> = set.iter().flat_map(|set| ["--set", set]).collect();
    let output =
        pktgen(folder.path(), &[&["-q", "replay", "rounds.toml", "--no-report", "--out", "x"][..], &set].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let sent = RunData::open(&folder.path().join("x"))
        .expect("a run")
        .records
        .expect("all records")
        .whole()
        .expect("readable")
        .sent
        .clone();
    let mut rows: Vec<_> = (0..sent.seq.len()).map(|i| (sent.t_gen_ps[i], sent.worker[i], sent.seq[i])).collect();
    rows.sort_unstable();
    let mut done = [0; 8];
    for (t, worker, round) in rows {
        assert!(done.iter().all(|done| *done >= round), "round {round} of worker {worker} at {t} ps: {done:?}");
        done[worker as usize] = round + 1;
    }
    assert_eq!(done, [30; 8]);
}

/// Synchronous mode has no remedy for loss, and reports it.
#[test]
fn a_round_that_never_ends_makes_the_run_invalid() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("small.toml"), SMALL).expect("writable");
    let set = ["target.program=forward", "target.queue=fifo", "endpoint.mode=synchronous", "transport.fault_loss=0.05"];
    let set: Vec<&str> = set.iter().flat_map(|set| ["--set", set]).collect();
    let output = pktgen(folder.path(), &[&["-q", "replay", "small.toml", "--out", "x"][..], &set].concat());
    assert_eq!(output.status.code(), Some(1));
    let text = fs::read_to_string(folder.path().join("x/manifest.json")).expect("a manifest");
    assert!(text.contains("synchronous mode has no remedy"), "{text}");
}

#[test]
fn congestion_costs_reward_and_olaf_spares_it() {
    let set = ["sweep.seeds=\"1..2\"", "sweep.axes.endpoint.step_per=[\"update\"]", "workload.updates=120"];
    let all = report("olaf/figure8.toml", &set);
    let end =
        |variant, rate| get(&all, &[&format!("variant={variant}"), &format!("topology.rate={rate}")], "reward_end");
    let (none, olaf) = (end("no loss", "20Gbps"), end("Olaf", "20Gbps"));
    let (fifo_40, fifo_20) = (end("FIFO", "40Gbps"), end("FIFO", "20Gbps"));
    assert!(olaf > fifo_40 + 5.0 && fifo_40 > fifo_20 + 20.0, "{none} {olaf} {fifo_40} {fifo_20}");
    assert!(none > 0.9 * olaf, "{none} {olaf}");
    for metric in ["sums_wrong", "balance_unknown"] {
        assert!(values(&all, &[], metric).iter().all(|value| *value == 0.0), "{metric}");
    }
}

#[test]
fn asynchronous_is_above_periodic_and_synchronous_at_equal_time() {
    let all = report("olaf/figure2.toml", &["sweep.seeds=\"1..3\""]);
    let end = |variant: &str| get(&all, &[&format!("variant={variant}")], "reward_by_time/100%");
    let modes = ["asynchronous", "periodic", "synchronous"].map(end);
    assert!(modes[0] > modes[1] && modes[1] > modes[2], "{modes:?}");
}

#[test]
fn more_workers_need_fewer_iterations() {
    let all = report("olaf/figure3.toml", &["sweep.seeds=\"1..3\""]);
    let workers = |n: u32| get(&all, &[&format!("workload.workers_per_cluster={n}")], "updates_to_reward");
    let needed = [1, 2, 4, 8].map(workers);
    assert!(needed.windows(2).all(|pair| pair[1] < pair[0]), "{needed:?}");
}

/// The page's tables of Figures 8, 2 and 3 show the numbers of docs/evidence.json, rounded once.
#[test]
fn tables_of_the_page_have_the_numbers_of_the_runs() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let read = |name: &str| fs::read_to_string(docs.join(name)).expect("readable");
    let (page, numbers) = (read("learning.md"), read("evidence.json"));
    let numbers: Value = serde_json::from_str(&numbers).expect("JSON");
    let shown = |config: &str, metric: &str, labels: &[(&str, &str)]| {
        let has = |point: &&Value| {
            point["metric"] == metric && labels.iter().all(|(axis, value)| point["labels"][axis] == *value)
        };
        let point = numbers[config]["points"].as_array().expect("points").iter().find(has).expect("such a point");
        let [median, lo, hi] = ["median", "lo", "hi"].map(|key| point[key].as_f64().expect("a number").round());
        format!("{median} [{lo}, {hi}]")
    };
    let mut rows = Vec::new();
    for (variant, rate) in [("no loss", ""), ("Olaf", "40"), ("Olaf", "20"), ("FIFO", "40"), ("FIFO", "20")] {
        let network = if rate.is_empty() { variant.to_owned() } else { format!("{variant}, {rate} Gbit/s") };
        let rate = format!("{}Gbps", if rate.is_empty() { "40" } else { rate });
        let [update, packet] = ["update", "packet"].map(|per| {
            let labels = [("variant", variant), ("topology.rate", rate.as_str()), ("endpoint.step_per", per)];
            shown("olaf/figure8", "reward_end", &labels)
        });
        let packet = if packet == update { "the same" } else { packet.as_str() };
        rows.push((network, format!(" | {update} | {packet} |")));
    }
    let per_update = ["periodic", "synchronous"].map(|mode| format!("{mode}, a step per update"));
    for mode in ["asynchronous", "periodic", "synchronous"].into_iter().chain(per_update.iter().map(String::as_str)) {
        let reward = shown("olaf/figure2", "reward_by_time/100%", &[("variant", mode)]);
        rows.push((mode.to_owned(), format!(" | {reward} |")));
    }
    for workers in ["1", "2", "4", "8"] {
        let needed = shown("olaf/figure3", "updates_to_reward", &[("workload.workers_per_cluster", workers)]);
        rows.push((workers.to_owned(), format!(" | {needed} |")));
    }
    for (name, cells) in rows {
        let is_row = |line: &str| line.starts_with(&format!("| {name} | ")) && line.contains(&cells);
        assert!(page.lines().any(is_row), "docs/learning.md has no row \"{name}\" with{cells}");
    }
}
