//! Experiments: every file of `configs`, modified, and read up to the planning of a run.

use std::path::Path;

use pktgen_core::config::{Document, Value};
use pktgen_planning::STUDIES;
use pktgen_realtime::run::Experiment;
use pktgen_verify::PROPERTIES;

use super::mutate::Random;
use super::{Samples, below};

pub fn prepare(folder: &Path) -> Samples {
    let configs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs");
    let mut files = Vec::new();
    below(&configs, &mut files);
    files.sort();
    let mut names = Vec::new();
    for (i, file) in files.iter().enumerate() {
        names.push(format!("{i}.toml"));
        std::fs::copy(file, folder.join(&names[i])).expect("readable");
    }
    Samples::of(folder, &names.iter().map(String::as_str).collect::<Vec<_>>())
}

pub fn attempt(samples: &Samples, random: &mut Random) {
    let which = random.below(samples.groups.len());
    let path = samples.change(which, random);
    read(&path);
    samples.restore(which);
}

/// Returns whether it has few updates. If a rate is offered, planning draws all of them, which may take long: 65536
/// workers times 40000 updates are no damage.
fn is_modest(document: &Document) -> bool {
    let keys = ["clusters", "workers_per_cluster", "workers", "updates", "iterations"];
    let number = |key: &&str| match document.get(&format!("workload.{key}")) {
        Some(Value::Integer(n)) => (*n).max(1) as f64,
        _ => 1.0,
    };
    keys.iter().map(number).product::<f64>() < 1e7
}

fn read(path: &Path) {
    let Ok(document) = Document::load(path, &[]) else { return };
    for property in PROPERTIES {
        let _ = property.open(document.clone()).map(|question| question.cases());
    }
    let modest = is_modest(&document);
    let Ok(experiment) = Experiment::open_with(pktgen_registry::all(), document, &STUDIES) else { return };
    if let Some(run) = experiment.runs.first().filter(|_| modest) {
        let _ = experiment.config(run);
    }
}
