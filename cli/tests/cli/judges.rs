//! One judge, two sources of facts: the verdict of a run about itself and the verdict from its records agree, for every shipped experiment
//! in virtual time, and over the transports that need no privileges. Longer runs are ended early and judged as they are then. Runs on
//! wires in namespaces are checked in the same way wherever tests read a manifest (`wired::manifest`).

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pktgen_core::config::Document;
use pktgen_core::record::{Facts, Manifest, judge};
use pktgen_planning::STUDIES;
use pktgen_realtime::run::{Experiment, Task};
use pktgen_records::{Analysis, Options};
use pktgen_testing::alone::in_own_process;

/// Time limit of a run.
const MOMENT: Duration = Duration::from_secs(2);

fn configs() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs");
    let mut found = Vec::new();
    for folder in std::fs::read_dir(root).expect("configs").map(|folder| folder.expect("an entry").path()) {
        // These are no experiments.
        if !["hardware", "rules", "verify"].iter().any(|other| folder.ends_with(other)) {
            let files = std::fs::read_dir(folder).expect("a folder of experiments");
            found.extend(files.map(|file| file.expect("a file").path()));
        }
    }
    found.sort();
    found
}

/// Runs a test in a process of its own, in the project's folder, to which the traces of experiments are relative.
fn in_the_projects_folder(name: &str, body: fn()) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    in_own_process(module_path!(), name, &folder, body);
}

/// Runs the first run of an experiment for a moment, or to its end, and returns its folder.
fn run(config: &Path, set: &[&str], out: &Path) -> PathBuf {
    let set: Vec<String> = set.iter().map(|set| (*set).to_owned()).collect();
    let document = Document::load(config, &set).unwrap_or_else(|e| panic!("{e}"));
    let experiment =
        Experiment::open_with(pktgen_registry::all(), document, &STUDIES).unwrap_or_else(|e| panic!("{e}"));
    let (stop, ended) = (AtomicBool::new(false), AtomicBool::new(false));
    let dir = out.join("run");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let ticks = MOMENT.as_millis() / 10;
            for _ in 0..ticks {
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            stop.store(true, Ordering::Relaxed);
        });
        let done = experiment.execute_part(&experiment.runs[0], &dir, &Task::whole(&stop));
        ended.store(true, Ordering::Relaxed);
        done.unwrap_or_else(|e| panic!("{}: {e}", config.display()))
    });
    dir
}

fn verdicts_agree(dir: &Path, what: &str) {
    let text = std::fs::read(dir.join("manifest.json")).expect("a manifest");
    let manifest: Manifest = serde_json::from_slice(&text).expect("a manifest");
    assert_eq!(judge(&Facts::of(&manifest)), manifest.validity, "{what}: the manifest's facts and its verdict");
    let analysis = Analysis::open(dir, Options::default()).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!(analysis.validity(), manifest.validity, "{what}: the records' verdict and the manifest's");
}

#[test]
fn every_experiment_has_one_verdict() {
    in_the_projects_folder("every_experiment_has_one_verdict", || {
        for config in configs() {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let in_virtual_time = ["transport.kind=virtual"];
            let text = std::fs::read_to_string(&config).expect("an experiment");
            // Top-speed pacing exists for wires only.
            if text.contains("pacing = \"top\"") {
                continue;
            }
            let set = if text.contains("[transport]") { &in_virtual_time[..] } else { &[] };
            verdicts_agree(&run(&config, set, folder.path()), &config.display().to_string());
        }
    });
}

#[test]
fn every_transport_without_rights_has_one_verdict() {
    in_the_projects_folder("every_transport_without_rights_has_one_verdict", || {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs");
        let strict = "transport.on_wire=strict";
        let cases: [(&str, &[&str]); 10] = [
            ("olaf/table1-wires.toml", &["transport.kind=ring"]),
            ("olaf/table1-wires.toml", &["transport.kind=udp"]),
            ("olaf/table1-wires.toml", &["transport.kind=ring", strict]),
            ("olaf/table1-wires.toml", &["transport.kind=ring", strict, "format.lanes=true"]),
            ("olaf/table1-wires.toml", &["transport.kind=ring", "format.lanes=true", "transport.fault_loss=0.02"]),
            ("wires/switchml.toml", &["transport.kind=ring", strict, "workload.scale=0.002"]),
            ("wires/switchml.toml", &["transport.kind=ring", "transport.on_wire=roce", "workload.scale=0.002"]),
            ("wires/trio-ml.toml", &["transport.kind=ring", "workload.scale=0.002"]),
            ("wires/trio-ml.toml", &["transport.kind=udp", "workload.scale=0.002"]),
            ("wires/libra.toml", &["transport.kind=ring"]),
        ];
        for (config, set) in cases {
            let folder = tempfile::tempdir().expect("a temporary folder");
            verdicts_agree(&run(&root.join(config), set, folder.path()), &format!("{config} {set:?}"));
        }
    });
}
