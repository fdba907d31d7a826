//! Captures of our own: a run of every system in virtual time, and files written by wires and middleware.

use std::path::{Path, PathBuf};
use std::process::Command;

fn replay(out: &Path, config: &str, args: &[&str], set: &[&str]) {
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs").join(config);
    let mut command = Command::new(env!("CARGO_BIN_EXE_pktgen"));
    command.args(["-q", "replay", "--no-report", "--out"]).arg(out).arg(config).args(args);
    let output = command.args(set.iter().flat_map(|set| ["--set", set])).output().expect("it runs");
    assert!(output.status.success(), "{out:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A tenth of the model.
const SMALL: &str = "workload.scale=0.002";
const VIRTUAL: [&str; 2] = ["transport.kind=virtual", "capture.pcap=true"];

/// A run of each system in virtual time: its format, and what its servers or workers received.
pub fn runs(folder: &Path) -> Vec<(&'static str, PathBuf)> {
    let training = ["workload.iterations=1", SMALL];
    let olaf = ["--run", "Olaf,rate=40Gbps,seed=1"];
    let runs: [(&str, &str, &[&str], &[&str]); 4] = [
        ("olaf", "olaf/table1.toml", &olaf, &["workload.updates=60"]),
        ("trio_ml", "wires/trio-ml.toml", &[], &training),
        ("switchml", "wires/switchml.toml", &[], &training),
        ("libra", "wires/libra.toml", &[], &["workload.iterations=3"]),
    ];
    runs.map(|(format, config, args, set)| {
        let out = folder.join(format);
        replay(&out, config, args, &[&VIRTUAL[..], set].concat());
        (format, out.join("capture.pcapng"))
    })
    .into()
}

/// What a tap sees of each system on rings, in real time: updates and ACKs, contributions and results.
pub fn taps(folder: &Path) -> Vec<(&'static str, PathBuf)> {
    let tap = ["transport.kind=ring", "transport.tap=tap.pcapng"];
    let runs: [(&str, &str, &[&str], &[&str]); 4] = [
        ("olaf", "olaf/table1-wires.toml", &["--run", "Olaf,rate=40Mbps,seed=1"], &["workload.updates=40"]),
        ("trio_ml", "wires/trio-ml.toml", &[], &["workload.iterations=1", SMALL]),
        ("switchml", "wires/switchml.toml", &[], &["workload.iterations=1", SMALL]),
        ("libra", "wires/libra.toml", &[], &["workload.iterations=2"]),
    ];
    let mut files = Vec::new();
    for (format, config, args, set) in runs {
        let out = folder.join(format!("tap-{format}"));
        replay(&out, config, args, &[&tap[..], set].concat());
        let mut own: Vec<_> = std::fs::read_dir(&out)
            .expect("a run dir")
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "pcapng"))
            .collect();
        own.sort();
        assert!(own.len() > 1, "{own:?}");
        // Two ends see all there is.
        own.drain(1..own.len() - 1);
        files.extend(own.into_iter().map(|path| (format, path)));
    }
    files
}

/// Returns the files of workers whose wire is a file, in each form.
pub fn files(folder: &Path) -> Vec<(&'static str, PathBuf)> {
    ["pcap", "pcapng"]
        .map(|form| {
            let file = folder.join(format!("workers.{form}"));
            let files = format!("transport.files=[\"{}\",\"\"]", file.display());
            let args = ["--role", "workers", "--run", "Olaf,rate=40Mbps,seed=1"];
            let out = folder.join(format!("workers-{form}"));
            replay(&out, "olaf/table1-wires.toml", &args, &["transport.kind=pcap", &files, "workload.updates=40"]);
            ("olaf", file)
        })
        .into()
}
