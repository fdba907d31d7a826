//! Background traffic beside updates: workers that send it, and workers that refuse it.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use pktgen_core::config::Document;
use pktgen_realtime::plan::prepare;
use pktgen_realtime::run::Experiment;
use pktgen_records::{Analysis, Options};

/// Runs this experiment.
fn run(text: &str, dir: &Path) -> Analysis {
    let experiment = Experiment::open(pktgen_registry::all(), Document::parse(text, "test").unwrap()).unwrap();
    experiment.execute(dir, 1, &AtomicBool::new(false), &|_, _| {}).unwrap();
    Analysis::open(dir, Options::default()).unwrap()
}

/// Synchronous training with these workers, over this network.
fn training(workload: &str, topology: &str, workers: &str) -> String {
    format!(
        "name = \"t\"\n[workload]\nworkers = 3\niterations = 3\ncompute = \"10us\"\n{workload}\n[topology]\nkind = \"{topology}\"\n\
         [endpoint]\nworkers = \"{workers}\"\n"
    )
}

const DENSE: &str = "kind = \"dense\"\nmodel = \"custom\"\nparameters = 2000";
const SPARSE: &str = "kind = \"sparse\"\nmodel = \"oa\"\npairs = 200";

#[test]
fn workers_that_iterate_refuse_it() {
    for (model, topology, workers) in [
        (format!("{DENSE}\nelements = 62"), "star", "atp"),
        (format!("{DENSE}\nelements = 256"), "rack", "switchml"),
        (format!("{DENSE}\nelements = 256"), "rack", "trio_ml"),
        (SPARSE.to_owned(), "star", "libra"),
        (SPARSE.to_owned(), "star", "ps_lite"),
    ] {
        let planned = |more: &str| {
            let text = training(&format!("{model}\n{more}"), topology, workers);
            prepare(pktgen_registry::all(), Document::parse(&text, "test").unwrap(), 1).map(|_| ())
        };
        planned("").unwrap_or_else(|why| panic!("{workers}: {why}"));
        let message = planned("background_rate = \"1Gbps\"").unwrap_err().to_string();
        for part in ["workload.background_rate", workers, "open_loop"] {
            assert!(message.contains(part), "{workers}: {message}");
        }
    }
}

#[test]
fn an_open_loop_of_training_sends_it() {
    let folder = tempfile::tempdir().unwrap();
    let model = format!("{DENSE}\nelements = 62\nbackground_rate = \"9Gbps\"");
    let text = training(&model, "star", "open_loop") + "[target]\nprogram = \"forward\"\n";
    let run = run(&text, folder.path());
    let manifest = &run.manifest;
    assert!(manifest.validity.is_valid(), "{:?}", manifest.validity);
    assert_eq!(run.unknown(), 0.0, "{:?} is not {:?}", run.balance(), manifest.balance);
    let lines = run.lines().unwrap();
    let sent = lines.iter().find(|line| line.metric == "sent" && line.labels.contains_key("traffic"));
    assert!(sent.and_then(|line| line.value) > Some(0.0), "{sent:?}");
}

/// An AllReduce of 50 messages along a tree, with these keys of `[workload]`.
fn all_reduce(workload: &str, dir: &Path) -> Analysis {
    run(
        &format!(
            "name = \"t\"\n[workload]\nclusters = 1\nworkers_per_cluster = 6\nupdates = 50\nbytes = \"256B\"\n{workload}\n[schedule]\n\
             kind = \"constant\"\nperiod = \"10us\"\nphase = \"zero\"\n[topology]\nkind = \"tree\"\nsize = 8\n[endpoint]\n\
             allreduce = true\n[target]\nprogram = \"reduce\"\n"
        ),
        dir,
    )
}

fn value(run: &Analysis, metric: &str) -> Option<f64> {
    let lines = run.lines().unwrap();
    lines.iter().find(|line| line.metric == metric).unwrap_or_else(|| panic!("no line {metric}")).value
}

#[test]
fn flows_have_no_part_in_the_rate_of_an_all_reduce() {
    let folder = tempfile::tempdir().unwrap();
    let rate = |name: &str, workload: &str| {
        let run = all_reduce(workload, &folder.path().join(name));
        assert!(run.manifest.validity.is_valid(), "{name}: {:?}", run.manifest.validity);
        value(&run, "allreduce_rate").unwrap_or_else(|| panic!("{name}: no rate"))
    };
    let alone = rate("alone", "");
    assert!((rate("beside", "background_rate = \"1kbps\"") / alone - 1.0).abs() < 0.01);
    assert!(rate("much", "background_rate = \"400Mbps\"") > 0.0);
}

#[test]
fn flows_do_not_change_the_plan() {
    let folder = tempfile::tempdir().unwrap();
    let of = |name: &str, workload: &str| {
        let run = all_reduce(workload, &folder.path().join(name));
        ["phi", "phi_planned", "links_unlike_plan"].map(|metric| value(&run, metric))
    };
    let alone = of("alone", "");
    assert!(alone[0] > Some(0.0), "{alone:?}");
    assert_eq!(of("beside", "background_rate = \"1Mbps\""), alone);
}
