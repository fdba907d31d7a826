//! Run dirs: finished ones, analysed and reported; unfinished ones, recovered; parts, merged.

use std::path::{Path, PathBuf};

use pktgen_core::arrow::ipc::reader::StreamReader;
use pktgen_core::arrow::ipc::writer::StreamWriter;
use pktgen_query::Database;
use pktgen_query::user::SqlMetrics;
use pktgen_realtime::capture::recover as recover_run;
use pktgen_realtime::run::merge as merge_runs;
use pktgen_records::age::AgeOf;
use pktgen_records::memory::MemoryBound;
use pktgen_records::resolved::UserAnswers;
use pktgen_records::{Options, analyze_run_with};
use pktgen_report::{Model, REPORTS, SweepData, run_dirs};

use super::mutate::Random;
use super::{Samples, pktgen};

/// Does not verify digests, so that damage reaches the decoders.
const ANY: Options = Options {
    age_of: AgeOf::Newest,
    no_verify: true,
    memory: MemoryBound::HALF,
    studies: &[],
    user_metrics: UserAnswers::By(&SqlMetrics),
};

const QUERY: pktgen_query::Options = pktgen_query::Options { no_verify: true, memory: 1 << 30, process: 1 << 30 };

const SMALL: &str = "[workload]\nclusters = 2\nworkers_per_cluster = 3\nupdates = 30\n\
                     [schedule]\nkind = \"poisson\"\noffered = \"60Gbps\"\n[topology]\nrate = \"20Gbps\"\n\
                     [endpoint]\nworkers = \"transmission_control\"\n[target]\nprogram = \"olaf\"\nqueue = \"olaf\"\n";

fn config(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs/wires").join(name).display().to_string()
}

/// Makes a run of each kind, and a sweep.
pub fn prepare(folder: &Path) -> Samples {
    std::fs::write(folder.join("x.toml"), SMALL).expect("writable");
    let run = |args: &[&str]| pktgen(&[&["-q", "replay", "--no-report"][..], args].concat(), folder);
    run(&["x.toml", "--out", "olaf", "--set", "capture.states=true", "--set", "format.lanes=true"]);
    run(&["x.toml", "--out", "sweep", "--set", "sweep.seeds=\"1..2\""]);
    let few = ["--set", "transport.kind=virtual", "--set", "workload.iterations=2"];
    for (name, scale) in [("trio-ml", "0.0005"), ("libra", "0.002")] {
        let scale = format!("workload.scale={scale}");
        run(&[&[config(&format!("{name}.toml")).as_str(), "--out", name, "--set", &scale][..], &few].concat());
    }
    Samples::of(folder, &["olaf", "sweep", "trio-ml", "libra"])
}

pub fn attempt(samples: &Samples, random: &mut Random) {
    let which = random.below(samples.groups.len());
    samples.change(which, random);
    let dir = samples.folder.join(["olaf", "sweep", "trio-ml", "libra"][which]);
    for run in run_dirs(&dir, true).unwrap_or_default() {
        let _ = analyze_run_with(&run.dir, ANY);
    }
    if let Ok(database) = Database::open(&dir, QUERY) {
        for table in database.tables() {
            let _ = database.query(&format!("SELECT * FROM {}", table.name));
        }
    }
    if let Ok(data) = SweepData::open_with(&dir, ANY, &mut |_, _| {}) {
        let model = Model::build(&data);
        for report in REPORTS {
            let _ = report.render(&model);
        }
        let _ = pktgen_report::summary(&model, "here");
    }
    samples.restore(which);
}

const STREAMS: [&str; 5] = ["sent", "books", "received", "states", "lanes"];

/// Makes a killed run: streams as Arrow, a manifest with the state running. The first rows of its streams suffice.
pub fn prepare_unfinished(folder: &Path) -> Samples {
    let long =
        SMALL.replace("updates = 30", "updates = 2000000") + "[capture]\nstates = true\n[format]\nlanes = true\n";
    std::fs::write(folder.join("x.toml"), long).expect("writable");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_pktgen"));
    command.current_dir(folder).args(["-q", "replay", "x.toml", "--out", "long"]);
    let mut child = command.spawn().expect("it runs");
    let path = |name: &str| folder.join("long").join(format!("{name}.arrows"));
    let there = |name: &&str| std::fs::metadata(path(name)).is_ok_and(|facts| facts.len() > 1 << 20);
    let written = pktgen_testing::happens(|| STREAMS.iter().all(there));
    let _ = child.kill();
    let _ = child.wait();
    assert!(written, "hang guard: the run wrote nothing");
    std::fs::create_dir(folder.join("killed")).expect("writable");
    std::fs::copy(folder.join("long/manifest.json"), folder.join("killed/manifest.json")).expect("a manifest");
    for name in STREAMS {
        shorten(&path(name), &folder.join("killed").join(format!("{name}.arrows")));
    }
    std::fs::remove_dir_all(folder.join("long")).expect("removable");
    Samples::of(folder, &["killed"])
}

/// Copies the first rows of a stream, in batches of 40.
fn shorten(from: &Path, to: &Path) {
    let file = std::fs::File::open(from).expect("a stream");
    let mut reader = StreamReader::try_new(file, None).expect("a stream");
    let batch = reader.next().expect("a batch").expect("a whole batch");
    let mut writer =
        StreamWriter::try_new(std::fs::File::create(to).expect("writable"), &batch.schema()).expect("writable");
    for at in [0, 40, 80, 120] {
        writer.write(&batch.slice(at, 40)).expect("writable");
    }
    writer.finish().expect("writable");
}

pub fn recover(samples: &Samples, random: &mut Random) {
    samples.change(0, random);
    let dir = samples.folder.join("killed");
    if recover_run(&dir, true).is_ok() {
        let _ = analyze_run_with(&dir, ANY);
    }
    // Recovery writes other files.
    for name in ["sent", "books", "received", "states", "iterations", "results", "lanes"] {
        for ending in ["parquet", "parquet.pktgen.partial"] {
            let _ = std::fs::remove_file(dir.join(format!("{name}.{ending}")));
        }
    }
    samples.restore(0);
}

/// Makes the three parts of a run over files.
pub fn prepare_parts(folder: &Path) -> Samples {
    std::fs::write(folder.join("x.toml"), SMALL.replace("transmission_control", "open_loop")).expect("writable");
    let files = "transport.files=[\"one.pcap\",\"two.pcap\"]";
    let set = ["--set", "transport.kind=pcap", "--set", files];
    let part = |args: &[&str]| pktgen(&[&["-q"][..], args, &set].concat(), folder);
    part(&["replay", "x.toml", "--role", "workers", "--out", "parts/a"]);
    part(&["target", "x.toml", "--out", "parts/b"]);
    part(&["capture", "x.toml", "--out", "parts/c"]);
    Samples::of(folder, &["parts"])
}

pub fn merge(samples: &Samples, random: &mut Random) {
    samples.change(0, random);
    let dirs: Vec<PathBuf> = ["a", "b", "c"].iter().map(|name| samples.folder.join("parts").join(name)).collect();
    let out = samples.folder.join("merged");
    if merge_runs(pktgen_registry::all(), &dirs, &out, None, true).is_ok() {
        let _ = analyze_run_with(&out, ANY);
    }
    let _ = std::fs::remove_dir_all(&out);
    samples.restore(0);
}
