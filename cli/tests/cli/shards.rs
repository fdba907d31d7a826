//! A sweep in shards: the joined result equals that of one process, bit for bit; killed shards continue; missing,
//! duplicate and foreign ones are reported.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::sharded::{
    begin, contents, folder, join, of_parts, parts, pktgen, refused, same_sweep, shard, succeeds, unsharded,
};
use pktgen_testing::{Need, skip};
use serde_json::Value;

/// 18 runs: 3 variants, 3 rates, 2 seeds.
const OLAF: &str = r#"
name = "small"
[workload]
clusters = 2
workers_per_cluster = 3
updates = 60
[schedule]
kind = "poisson"
offered = "60Gbps"
[sweep]
seeds = "1..2"
[sweep.axes]
topology.rate = ["40Gbps", "20Gbps", "10Gbps"]
[[sweep.variants]]
name = "FIFO"
target.queue = "fifo"
target.program = "forward"
[[sweep.variants]]
name = "Olaf"
[[sweep.variants]]
name = "Olaf, control"
endpoint.workers = "transmission_control"
capture.states = true
[report]
baseline = "FIFO"
[[paper.rows]]
source = "Table 0"
at.variant = "Olaf"
loss = 0.1234567890123456789
"#;

/// 18 runs that take long enough for a kill in the middle.
fn longer() -> String {
    OLAF.replace("updates = 60", "updates = 8000")
}

fn published(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs").join(name);
    fs::read_to_string(path).expect("a published experiment")
}

#[test]
fn shards_join_to_what_one_process_gives() {
    let folder = folder(OLAF);
    unsharded(folder.path(), &[]);
    for n in [1, 3, 7, 40] {
        let parts = parts(folder.path(), n, &[]);
        let counts: Vec<_> = parts.iter().map(|part| part["runs"].as_u64().expect("a number")).collect();
        let (least, most) = (counts.iter().min().expect("some"), counts.iter().max().expect("some"));
        assert!(counts.iter().sum::<u64>() == 18 && most - least <= 1, "{counts:?}");
        // In any order.
        let mut names = of_parts(n);
        names.reverse();
        join(folder.path(), n, &names, &[]);
        same_sweep(folder.path(), n);
    }
}

#[test]
fn published_sweeps_join_too() {
    for (name, set) in [
        // This study measures its own time, which the comparison ignores; the next measures none.
        ("soar/figure6.toml", ["sweep.seeds=1..2", "sweep.axes.study.k=[1, 8]", "study.size=64"]),
        ("libra/table2.toml", ["sweep.seeds=1..3", "study.pairs=500", "name=sums"]),
        ("olaf/table1.toml", ["sweep.seeds=1..2", "workload.updates=30", "target.slots=6"]),
    ] {
        let folder = folder(&published(name));
        unsharded(folder.path(), &set);
        parts(folder.path(), 7, &set);
        join(folder.path(), 7, &of_parts(7), &[]);
        same_sweep(folder.path(), 7);
    }
}

#[test]
fn a_single_run_is_a_sweep_of_one() {
    let folder = folder("name = \"one\"\n[workload]\nupdates = 20\n[schedule]\noffered = \"60Gbps\"\n");
    unsharded(folder.path(), &[]);
    parts(folder.path(), 2, &[]);
    join(folder.path(), 2, &of_parts(2), &[]);
    same_sweep(folder.path(), 2);
    assert!(folder.path().join("joined-2/sweep/manifest.json").exists(), "the run dir is the folder itself");
}

/// Starts shard 1/2 and signals it after some of its runs; returns how many it has, and its messages.
fn stopped(folder: &Path, signal: &str) -> (u64, String) {
    let dir = folder.join("parts-2/1");
    fs::remove_dir_all(&dir).expect("removable");
    let mut child = begin(folder, "1/2", "parts-2/1");
    let finished = || {
        let entries = fs::read_dir(&dir).into_iter().flatten();
        let manifests = entries.filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("manifest.json")).ok());
        manifests.filter(|text| text.contains("\"state\": \"finished\"")).count() as u64
    };
    while finished() < 2 {
        assert!(child.try_wait().expect("a child").is_none(), "it is at work");
        std::thread::sleep(Duration::from_millis(2));
    }
    let line = format!("kill {signal} {}", child.id());
    assert!(Command::new("bash").args(["-c", &line]).status().expect("bash runs").success());
    let output = child.wait_with_output().expect("it ended");
    assert!(!output.status.success());
    (finished(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_shard_that_was_killed_or_stopped_goes_on() {
    let folder = folder(&longer());
    unsharded(folder.path(), &[]);
    parts(folder.path(), 2, &[]);
    for signal in ["-TERM", "-KILL"] {
        let (before, said) = stopped(folder.path(), signal);
        assert!((2..9).contains(&before), "{before} runs were finished");
        assert!(signal == "-KILL" || said.contains("the same command goes on from there"), "{said}");
        let why = refused(folder.path(), &["merge", "parts-2/1", "parts-2/2", "-o", "early"]);
        assert!(why.contains(&format!("{} of 18 planned runs are missing: shard 1/2 lacks", 9 - before)), "{why}");
        let told = shard(folder.path(), "1/2", "parts-2/1", &[]);
        assert_eq!((&told["kept"], &told["finished"]), (&before.into(), &9.into()), "{told}");
        assert!(told["redone"].as_u64() <= Some(1), "{told}");
    }
    let again = shard(folder.path(), "1/2", "parts-2/1", &[]);
    assert_eq!((&again["kept"], &again["redone"]), (&9.into(), &0.into()), "{again}");
    join(folder.path(), 2, &of_parts(2), &[]);
    same_sweep(folder.path(), 2);
}

/// The remains of a process that died at any point: before the manifest, in the streams, interrupted by its user. A lost plan is
/// written again.
#[test]
fn whatever_is_unfinished_is_redone() {
    let folder = folder(OLAF);
    unsharded(folder.path(), &[]);
    parts(folder.path(), 1, &[]);
    let dir = folder.path().join("parts-1/1");
    let run = |name: &str| dir.join(name);
    fs::remove_dir_all(run("FIFO,rate=40Gbps,seed=1")).expect("removable");
    fs::remove_file(run("Olaf,rate=40Gbps,seed=1").join("manifest.json")).expect("removable");
    for (name, state) in [("FIFO,rate=20Gbps,seed=2", "running"), ("Olaf,rate=10Gbps,seed=2", "interrupted")] {
        let path = run(name).join("manifest.json");
        let text = fs::read_to_string(&path).expect("a manifest").replace("\"finished\"", &format!("\"{state}\""));
        fs::write(&path, pktgen_core::record::digest::seal(&text)).expect("writable");
        fs::rename(run(name).join("sent.parquet"), run(name).join("sent.arrows")).expect("a stream");
    }
    fs::remove_file(dir.join("planned.json")).expect("removable");
    let why = refused(folder.path(), &["merge", "parts-1/1", "-o", "bad"]);
    assert!(why.contains("planned.json: it is missing; run the shard again"), "{why}");
    fs::write(dir.join("planned.json"), "").expect("writable");
    let why = refused(folder.path(), &["merge", "parts-1/1", "-o", "bad"]);
    assert!(why.contains("planned.json: it is not JSON") && why.contains("run the shard again"), "{why}");
    let told = shard(folder.path(), "1/1", "parts-1/1", &[]);
    let counts = ["runs", "finished", "kept", "redone"].map(|key| told[key].as_u64().expect("a number"));
    assert_eq!(counts, [18, 18, 14, 3]);
    // A process that died before it had begun: nothing but a plan that was not put in place.
    let early = folder.path().join("early");
    fs::create_dir(&early).expect("a folder");
    fs::write(early.join("planned.json.pktgen.partial"), "{").expect("writable");
    assert_eq!(shard(folder.path(), "18/18", "early", &[])["finished"], 1);
    join(folder.path(), 1, &of_parts(1), &[]);
    same_sweep(folder.path(), 1);
}

/// Two runs in real time, with a capture of all frames.
const WIRES: &str = "name = \"wires\"\n[workload]\nclusters = 3\nworkers_per_cluster = 3\nupdates = 300\nbytes = \"256B\"\n\
    [schedule]\nkind = \"constant\"\njitter = 0.3\noffered = \"16.384Mbps\"\n[topology]\nrate = \"1Gbps\"\n\
    [target]\nprogram = \"forward\"\nqueue = \"fifo\"\nslots = 4096\n\
    [transport]\nkind = \"ring\"\nwait = \"block\"\ntap = \"tap.pcapng\"\n[sweep]\nseeds = \"1..2\"\n";

#[test]
fn a_run_that_a_full_disk_cut_is_redone() {
    let folder = folder(WIRES);
    let dir = folder.path();
    let line = format!("ulimit -f 200; exec {} replay x.toml --shard 1/1 --out out", env!("CARGO_BIN_EXE_pktgen"));
    let cut = Command::new("bash").args(["-c", &line]).current_dir(dir).output().expect("bash runs");
    let said = String::from_utf8_lossy(&cut.stderr);
    assert!(cut.status.code() == Some(1) && said.contains("File too large"), "{:?}: {said}", cut.status);
    let plan = fs::read_to_string(dir.join("out/planned.json")).expect("a plan");
    let plan: Value = serde_json::from_str(&plan).expect("JSON");
    let first = dir.join("out").join(plan["runs"][0]["dir"].as_str().expect("two runs"));
    let manifest = || fs::read_to_string(first.join("manifest.json")).expect("a manifest");
    assert!(manifest().contains("\"role_failed\"") && manifest().contains("\"finished\""), "{}", manifest());
    let again = pktgen(dir, &["--json", "replay", "x.toml", "--shard", "1/1", "--out", "out"]);
    let told = String::from_utf8_lossy(&again.stdout);
    let share =
        told.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).find(|line| line["kept"].is_u64());
    let share = share.unwrap_or_else(|| panic!("{told}{}", String::from_utf8_lossy(&again.stderr)));
    assert_eq!((&share["finished"], &share["kept"], &share["redone"]), (&2.into(), &0.into(), &1.into()), "{share}");
    assert!(!manifest().contains("\"role_failed\""), "{}", manifest());
}

#[test]
fn two_processes_in_one_folder_do_each_run_once() {
    let folder = folder(&longer());
    let both = [(); 2].map(|()| begin(folder.path(), "1/3", "out"));
    let told = both.map(|child| {
        let output = child.wait_with_output().expect("it ended");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).expect("JSON")
    });
    let mut kept = told.each_ref().map(|told| told["kept"].as_u64().expect("a number"));
    kept.sort_unstable();
    assert_eq!(kept, [0, 6], "the second waited, and found all done");
    assert!(told.iter().all(|told| told["finished"] == 6 && told["redone"] == 0), "{told:?}");
}

#[test]
fn what_is_there_twice_counts_once_or_is_refused() {
    let folder = folder(OLAF);
    let dir = folder.path();
    unsharded(dir, &[]);
    parts(dir, 3, &[]);
    // A shard of six is half a shard of three: the same runs again.
    shard(dir, "2/6", "again", &[]);
    let names = ["parts-3/1", "parts-3/2", "parts-3/3", "again"].map(str::to_owned);
    let said = join(dir, 3, &names, &[]);
    assert!(said.contains("3 runs were there more than once, the same bit for bit"), "{said}");
    same_sweep(dir, 3);
    let run = fs::read_dir(dir.join("again")).expect("a folder").filter_map(|entry| {
        let path = entry.expect("an entry").path();
        path.join("received.parquet").exists().then_some(path)
    });
    let run = run.min().expect("a run");
    let stream = run.join("received.parquet");
    let mut bytes = fs::read(&stream).expect("a stream");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    // A new file: the old one's bytes are also those of the joined sweep.
    fs::remove_file(&stream).expect("removable");
    fs::write(&stream, bytes).expect("writable");
    let damaged = pktgen(dir, &["merge", &names[0], &names[1], &names[2], &names[3], "-o", "bad"]);
    assert_eq!(damaged.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&damaged.stderr).contains("received.parquet: its content is not what was written"));
    let why = refused(dir, &["merge", &names[0], &names[1], &names[2], &names[3], "-o", "bad", "--no-verify"]);
    assert!(why.contains("different results (received.parquet differs)") && why.contains("again/"), "{why}");
    assert!(!dir.join("bad").exists(), "nothing was written");
    same_sweep(dir, 3);
}

#[test]
fn what_is_missing_is_named_and_can_be_joined_later() {
    let folder = folder(OLAF);
    let dir = folder.path();
    unsharded(dir, &[]);
    parts(dir, 4, &[]);
    fs::remove_dir_all(dir.join("parts-4/3/FIFO,rate=20Gbps,seed=1")).expect("removable");
    let three = ["parts-4/1", "parts-4/3", "parts-4/4"];
    let why = refused(dir, &[&["merge"], &three[..], &["-o", "out"]].concat());
    for part in [
        "6 of 18 planned runs are missing",
        "shard 2/4 lacks 5: FIFO,rate=40Gbps,seed=2 ",
        "shard 3/4 lacks 1: FIFO,rate=20Gbps,seed=1;",
        "--partial",
    ] {
        assert!(why.contains(part), "{part}: {why}");
    }
    assert!(!dir.join("out").exists(), "nothing was written");
    let told = succeeds(dir, &[&["--json", "merge"], &three[..], &["-o", "out", "--partial"]].concat());
    let told: Value = serde_json::from_str(&told).expect("JSON");
    assert_eq!((&told["runs"], &told["missing"]), (&12.into(), &6.into()));
    let report: Value = serde_json::from_slice(&pktgen(dir, &["report", "out", "--json"]).stdout).expect("JSON");
    assert!(
        report["verdict"]["lines"][1].as_str().expect("a line").starts_with("INCOMPLETE: 12 of the 18"),
        "{report}"
    );
    // The report of a single shard identifies it.
    let report = String::from_utf8(pktgen(dir, &["report", "parts-4/1"]).stdout).expect("UTF-8");
    assert!(report.contains("PART: shard 1/4 of a sweep, 5 of its 18 runs"), "{report}");
    shard(dir, "3/4", "parts-4/3", &[]);
    join(dir, 4, &["out", "parts-4/2", "parts-4/3"].map(str::to_owned), &[]);
    same_sweep(dir, 4);
}

/// A merge that meets a full disk after some runs, here the limit of a file's size, leaves the plan of all runs.
#[test]
fn a_merge_that_ended_early_is_no_whole_sweep() {
    use std::os::unix::fs::MetadataExt;
    let folder = folder(OLAF);
    let dir = folder.path();
    let device = |path: &Path| fs::metadata(path).map(|about| about.dev());
    // Within a file system files are linked, which needs no room.
    let elsewhere = ["/dev/shm", env!("CARGO_TARGET_TMPDIR")]
        .map(Path::new)
        .into_iter()
        .find(|other| device(other).is_ok_and(|other| device(dir).is_ok_and(|own| own != other)));
    let Some(room) = elsewhere.and_then(|other| tempfile::tempdir_in(other).ok()) else {
        return skip(Need::Mounts, "a merge that met a full disk", "no second file system");
    };
    parts(dir, 2, &[]);
    let plan = fs::read_to_string(dir.join("parts-2/2/planned.json")).expect("a plan");
    let plan: Value = serde_json::from_str(&plan).expect("JSON");
    let last = plan["runs"][17]["dir"].as_str().expect("18 runs");
    fs::write(dir.join("parts-2/2").join(last).join("large"), vec![0_u8; 1 << 20]).expect("writable");
    let out = room.path().join("out").display().to_string();
    let args = format!("merge parts-2/1 parts-2/2 -o {out}");
    let line = format!("ulimit -f 512; exec {} {args}", env!("CARGO_BIN_EXE_pktgen"));
    let merged = Command::new("bash").args(["-c", &line]).current_dir(dir).output().expect("bash runs");
    let said = String::from_utf8_lossy(&merged.stderr);
    assert!(merged.status.code() == Some(1) && said.contains("File too large"), "{:?}: {said}", merged.status);
    let report = pktgen(dir, &["report", &out]);
    let said = String::from_utf8_lossy(&[report.stdout, report.stderr].concat()).into_owned();
    assert!(report.status.code() == Some(1) && said.contains("1 of 18 runs"), "{:?}: {said}", report.status);
    assert!(said.contains("the run never began"), "{said}");
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let folder = folder(OLAF);
    let dir = folder.path();
    parts(dir, 2, &[]);
    for (set, words) in [
        ("workload.updates=61", "their configurations differ"),
        ("sweep.seeds=1..3", "one has 18 runs, the other 27"),
        ("sweep.seeds=2..3", "their axes, seeds, [report] or [paper] differ"),
        ("name=other", "\"small\" and \"other\""),
    ] {
        let out = format!("of {set}");
        shard(dir, "2/2", &out, &[set]);
        let why = refused(dir, &["merge", "parts-2/1", &out, "-o", "out"]);
        assert!(why.contains("are not shards of one sweep") && why.contains(words), "{why}");
        // Nor does a shard go on with what another sweep began.
        let why = refused(dir, &["replay", "x.toml", "--set", set, "--shard", "1/2", "--out", "parts-2/1"]);
        assert!(why.contains("parts-2/1: the shard is of another sweep"), "{why}");
    }
    // The file itself was changed, for a shard that begins and for one that goes on.
    fs::write(dir.join("x.toml"), OLAF.replace("offered = \"60Gbps\"", "offered = \"50Gbps\"")).expect("writable");
    shard(dir, "2/2", "changed", &[]);
    let why = refused(dir, &["merge", "parts-2/1", "changed", "-o", "out"]);
    assert!(why.contains("are not shards of one sweep") && why.contains("their configurations differ"), "{why}");
    let why = refused(dir, &["replay", "x.toml", "--shard", "1/2", "--out", "parts-2/1"]);
    assert!(why.contains("or its configuration was changed since"), "{why}");
    fs::write(dir.join("x.toml"), OLAF).expect("writable");
    let why = refused(dir, &["replay", "x.toml", "--shard", "2/2", "--out", "parts-2/1"]);
    assert!(why.contains("the folder holds shard 1/2, and this is shard 2/2"), "{why}");
    // Another profile of the same name.
    let card = published("hardware/generic.toml");
    fs::write(dir.join("card.toml"), &card).expect("writable");
    let set = "target.profile=card.toml";
    shard(dir, "1/2", "profile", &[set]);
    fs::write(dir.join("card.toml"), card.replace("most = 9036", "most = 9000")).expect("writable");
    let why = refused(dir, &["replay", "x.toml", "--set", set, "--shard", "1/2", "--out", "profile"]);
    assert!(why.contains("profile: the shard is of another sweep"), "{why}");
    // From another build.
    let path = dir.join("parts-2/2/sweep.json");
    let text = fs::read_to_string(&path).expect("a file").replace("\"tool\": \"pktgen ", "\"tool\": \"pktgen 99.");
    fs::write(&path, pktgen_core::record::digest::seal(&text)).expect("writable");
    let why = refused(dir, &["merge", "parts-2/1", "parts-2/2", "-o", "out"]);
    assert!(why.contains("made one,") && why.contains("pktgen 99."), "{why}");
    let why = refused(dir, &["replay", "x.toml", "--shard", "2/2", "--out", "parts-2/2"]);
    assert!(why.contains("their runs are not mixed"), "{why}");
    assert!(!dir.join("out").exists(), "nothing was written");
}

#[test]
fn wrong_shards_and_folders_are_refused() {
    let folder = folder(OLAF);
    let dir = folder.path();
    fs::create_dir(dir.join("mine")).expect("a folder");
    fs::write(dir.join("mine/thesis.txt"), "all of it").expect("writable");
    let replay = |more: &[&str]| refused(dir, &[&["replay", "x.toml"], more].concat());
    assert!(replay(&["--shard", "1/2", "--out", "mine"]).contains("no shard was begun there"));
    assert_eq!(fs::read_dir(dir.join("mine")).expect("a folder").count(), 1, "nothing was added");
    assert!(replay(&["--shard", "3/2", "--out", "o"]).contains("there is no shard 3 of 2"));
    assert!(replay(&["--shard", "0/2", "--out", "o"]).contains("counted from 1"));
    assert!(replay(&["--shard", "1/2"]).contains("--out"));
    assert!(replay(&["--shard", "1/2", "--out", "o", "--set", "target.slot=3"]).contains("did you mean \"slots\""));
    unsharded(dir, &[]);
    parts(dir, 2, &[]);
    let merge = |more: &[&str]| refused(dir, &[&["merge", "-o", "out"], more].concat());
    assert!(merge(&["parts-2/1", "mine"]).contains("mine: it is no shard of a sweep"));
    assert!(merge(&["parts-2/1", "whole/sweep"]).contains("whole/sweep: it is a whole sweep"));
    assert!(merge(&["parts-2/1", "parts-2/2", "--clock-error", "1us"]).contains("--clock-error is for parts"));
    assert!(merge(&["whole/sweep", "--partial"]).contains("--partial is for shards"));
    // A run dir that was put in the place of another.
    let (a, b) = (dir.join("parts-2/1/FIFO,rate=40Gbps,seed=1"), dir.join("parts-2/1/Olaf,rate=40Gbps,seed=1"));
    fs::remove_dir_all(&a).expect("removable");
    fs::rename(&b, &a).expect("movable");
    assert!(merge(&["parts-2/1", "parts-2/2"]).contains("it is the run"));
    // A plan that leads out of the folder.
    for part in ["1", "2"] {
        let path = dir.join("parts-2").join(part).join("planned.json");
        let text = fs::read_to_string(&path).expect("a plan").replace("\"FIFO,rate=40Gbps,seed=1\"", "\"../../away\"");
        fs::write(&path, pktgen_core::record::digest::seal(&text)).expect("writable");
    }
    assert!(merge(&["parts-2/1", "parts-2/2"]).contains("a run's folder cannot be called \"../../away\""));
    assert!(!dir.join("out").exists(), "nothing was written");
}

/// The repository's scripts, each shard a process that a launcher starts.
fn script(folder: &Path, before: &[&str], name: &str, more: &[&str], env: &[(&str, &str)]) -> (i32, String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/shards").join(name).display().to_string();
    let words: Vec<&str> = before.iter().chain([&path.as_str()]).chain(more).copied().collect();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(folder).env("PKTGEN", env!("CARGO_BIN_EXE_pktgen"));
    let output = command.envs(env.iter().copied()).stdin(Stdio::null()).output().expect("it runs");
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn mpirun_does_a_sweep() {
    if Command::new("mpirun").arg("--version").output().is_err() {
        return skip(Need::Mpirun, "a sweep under mpirun", "mpirun does not run");
    }
    let folder = folder(OLAF);
    unsharded(folder.path(), &[]);
    let mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "3"];
    let (code, said) = script(folder.path(), &mpirun, "rank", &["parts-3", "x.toml"], &[]);
    assert_eq!(code, 0, "{said}");
    let names = [1, 2, 3].map(|shard| format!("parts-3/shard-{shard}-of-3"));
    join(folder.path(), 3, &names, &[]);
    same_sweep(folder.path(), 3);
    let (code, said) = script(folder.path(), &mpirun, "rank", &["parts-3", "y.toml"], &[]);
    assert!(code == 2 && said.contains("y.toml"), "{code}: {said}");
    assert_eq!(script(folder.path(), &[], "rank", &["parts-3", "x.toml"], &[]).0, 2, "without a launcher");
}

#[test]
fn a_job_array_does_a_sweep() {
    let folder = folder(OLAF);
    unsharded(folder.path(), &[]);
    for task in ["3", "1", "2"] {
        let env = [("SLURM_ARRAY_TASK_ID", task), ("SLURM_CPUS_PER_TASK", "1")];
        let (code, said) = script(folder.path(), &["bash"], "array.sbatch", &["3", "parts-3", "x.toml"], &env);
        assert_eq!(code, 0, "{said}");
    }
    join(folder.path(), 3, &[1, 2, 3].map(|shard| format!("parts-3/shard-{shard}-of-3")), &[]);
    same_sweep(folder.path(), 3);
    assert_eq!(script(folder.path(), &["bash"], "array.sbatch", &["3", "parts-3", "x.toml"], &[]).0, 2);
}

#[test]
fn inputs_are_linked_and_stay_as_they_are() {
    use std::os::unix::fs::MetadataExt;
    let folder = folder(OLAF);
    let dir = folder.path();
    parts(dir, 2, &[]);
    let before = contents(&dir.join("parts-2"));
    assert!(pktgen(dir, &["-q", "merge", "parts-2/1", "parts-2/2", "-o", "out"]).status.success());
    pktgen(dir, &["report", "out"]);
    assert_eq!(before, contents(&dir.join("parts-2")));
    let stream = "FIFO,rate=40Gbps,seed=1/received.parquet";
    let inode = |path: &str| fs::metadata(dir.join(path).join(stream)).expect("a stream").ino();
    assert_eq!(inode("out"), inode("parts-2/1"));
    let why = refused(dir, &["merge", "parts-2/1", "parts-2/2", "-o", "out"]);
    assert!(why.contains("out: the folder is not empty"), "{why}");
}
