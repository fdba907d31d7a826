//! `pktgen calibrate`: finds planted parameters, continues a killed calibration to the same result, and reports what it cannot determine.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::text;
use serde_json::Value;

/// A queue before a slow link; its length and the used share of the link are parameters.
pub(crate) const TWIN: &str = r#"
name = "twin"
[workload]
kind = "rl"
clusters = 4
workers_per_cluster = 2
updates = 100
bytes = "256B"
[schedule]
kind = "poisson"
offered = "10Gbps"
line_rate = "100Gbps"
[topology]
rate = "8Gbps"
[target]
program = "forward"
queue = "fifo"
slots = 8
[calibrate]
metrics = ["received", "aom_mean/cluster", "host_latency_p50"]
settings = 80
[[calibrate.parameters]]
key = "target.slots"
from = 2
to = 40
scale = "log"
[[calibrate.parameters]]
key = "target.dequeue_efficiency"
from = 0.3
to = 1.0
"#;

fn pktgen(folder: &Path, words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pktgen"));
    command.current_dir(folder).args(words.split(' ').filter(|word| !word.is_empty())).output().expect("it runs")
}

fn told(output: &Output) -> String {
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

fn answer(folder: &Path, out: &str) -> Value {
    let file = folder.join(out).join("calibration.json");
    serde_json::from_str(&fs::read_to_string(file).expect("an answer")).expect("JSON")
}

/// Returns a folder with the experiment and runs of it with these settings.
fn measured(settings: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("twin.toml"), TWIN).expect("written");
    let words = format!("-q replay twin.toml --out measured --no-report --set sweep.seeds=101..108 {settings}");
    let output = pktgen(folder.path(), &words);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    folder
}

const PLANTED: &str = "--set target.slots=12 --set target.dequeue_efficiency=0.7";

#[test]
fn planted_parameters_are_found_and_predict_another_rate() {
    let folder = measured(PLANTED);
    let at = folder.path();
    let output = pktgen(at, "calibrate twin.toml --to measured --out a --predict topology.rate=6Gbps");
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let found = answer(at, "a");
    for (i, truth) in [12.0, 0.7].into_iter().enumerate() {
        let parameter = &found["answer"]["parameters"][i];
        assert_eq!(parameter["state"], "determined", "{parameter}");
        let ends: Vec<f64> = parameter["ends"].as_array().expect("ends").iter().filter_map(Value::as_f64).collect();
        // Five standard deviations: intervals of 95 % miss the value one time in twenty.
        let half = (ends[1] - ends[0]) / 2.0;
        let middle = f64::midpoint(ends[0], ends[1]);
        assert!((truth - middle).abs() <= 2.5 * half + 1.0 - truth.min(1.0), "{parameter}");
        assert!(parameter["width"].as_f64().expect("a width") < 0.2, "{parameter}");
    }
    // The prediction equals the device's result, to 3 % or to the spread of its repeats.
    let words = format!(
        "-q replay twin.toml --out there --no-report --set sweep.seeds=201..208 --set topology.rate=6Gbps {PLANTED}"
    );
    assert_eq!(pktgen(at, &words).status.code(), Some(0));
    let output = pktgen(at, "--json -q report there --out there.json");
    assert!(output.status.success(), "{}", told(&output));
    let there: Value =
        serde_json::from_str(&fs::read_to_string(at.join("there.json")).expect("a report")).expect("JSON");
    let predictions = found["predictions"].as_array().expect("predictions");
    assert_eq!(predictions.len(), 3);
    let column = there["columns"].as_array().expect("columns").iter().position(|it| it["key"] == "received");
    let measured = &there["rows"][0]["cells"][column.expect("received")]["ours"];
    let [median, lo, hi] = ["median", "lo", "hi"].map(|key| measured[key].as_f64().expect("a number"));
    let own = predictions.iter().find(|it| it["metric"] == "received").expect("predicted");
    let value = own["value"].as_f64().expect("a value");
    assert!((value - median).abs() < (0.03 * median).max(hi - lo), "{own}, measured {measured}");
    // The experiment with the best setting can be replayed.
    let output = pktgen(at, "-q replay a/best.toml --out best --no-report");
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let page = fs::read_to_string(at.join("a/calibration.html")).expect("a page");
    assert!(page.contains("target.slots") && page.contains("<svg") && page.contains("Predictions"));
}

/// The values of a point replace those of parameters and of variants.
#[test]
fn a_prediction_is_of_its_point() {
    let folder = measured(PLANTED);
    let at = folder.path();
    let variant = "[[sweep.variants]]\nname = \"one\"\ntopology.rate = \"8Gbps\"\n";
    fs::write(at.join("twin.toml"), format!("{TWIN}{variant}")).expect("written");
    let words = format!("-q replay twin.toml --out varied --no-report --set sweep.seeds=101..104 {PLANTED}");
    assert_eq!(pktgen(at, &words).status.code(), Some(0));
    let points = "--predict target.slots=2 --predict target.slots=40 --predict target.slots=40,topology.rate=2Gbps";
    let words = format!("calibrate twin.toml --to varied --out a --set calibrate.settings=24 {points}");
    let output = pktgen(at, &words);
    assert!([Some(0), Some(1)].contains(&output.status.code()), "{}", told(&output));
    let found = answer(at, "a");
    let received = |point: &str| {
        let all = found["predictions"].as_array().expect("predictions");
        let own = all.iter().find(|it| it["point"] == point && it["metric"] == "received").expect("predicted");
        own["value"].as_f64().expect("a value")
    };
    let [few, many] = ["target.slots=2", "target.slots=40"].map(received);
    assert!(few < many, "{few} {many}");
    let slow = received("target.slots=40, topology.rate=2Gbps");
    assert!(slow < many, "{slow} {many}");
    // Another point in the same folder: the settings before are kept.
    let words = "calibrate twin.toml --to varied --out a --set calibrate.settings=24 --predict target.slots=20";
    let again = pktgen(at, words);
    assert_eq!(again.status.code(), output.status.code(), "{}", told(&again));
    assert!(told(&again).contains("settings were run before and are kept"), "{}", told(&again));
    for folder in ["predict-target.slots=2", "predict-target.slots=40__topology.rate=2Gbps", "predict-target.slots=20"]
    {
        assert!(at.join("a").join(folder).join("evaluations.jsonl").exists(), "{folder}");
    }
}

/// Runs that differ in an axis or a variant that the experiment lacks are no repeats of each other.
#[test]
fn measured_points_that_are_one_of_the_experiment_are_refused() {
    let folder = measured("");
    let at = folder.path();
    let axes = |more: &str| format!("{TWIN}[sweep.axes]\ntopology.rate = [\"8Gbps\"]\n{more}");
    fs::write(at.join("device.toml"), axes("transport.linger = [\"2ms\", \"3ms\"]\n")).expect("written");
    fs::write(at.join("one.toml"), axes("")).expect("written");
    let output = pktgen(at, "-q replay device.toml --out varied --no-report --set sweep.seeds=101..102");
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let output = pktgen(at, "calibrate one.toml --to varied --out a");
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    for part in ["transport.linger=2ms and at ", "transport.linger=3ms are one point of the experiment"] {
        assert!(told(&output).contains(part), "{part}\n{}", told(&output));
    }
    // Nor are they if each has a `--to` of its own.
    let runs = fs::read_dir(at.join("varied")).expect("runs").map(|run| run.expect("a run").file_name());
    let runs: Vec<String> = runs.map(|run| format!("varied/{}", run.to_string_lossy())).collect();
    let run = |value: &str| {
        let found = runs.iter().find(|run| run.contains(&format!("linger={value}")) && run.contains("seed=101"));
        found.unwrap_or_else(|| panic!("{value}: {runs:?}"))
    };
    let output = pktgen(at, &format!("calibrate one.toml --to {} --to {} --out b", run("2ms"), run("3ms")));
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    assert!(told(&output).contains("transport.linger=3ms are one point of the experiment"), "{}", told(&output));
}

/// Points that cannot be predicted are refused before anything is run.
#[test]
fn points_are_read_before_the_search() {
    let folder = measured("");
    let at = folder.path();
    let axes = format!("{TWIN}[sweep.axes]\ntopology.rate = [\"8Gbps\", \"6Gbps\"]\n");
    fs::write(at.join("axes.toml"), &axes).expect("written");
    let rows = "[[paper.rows]]\nat.\"topology.rate\" = \"8000Mbps\"\nloss = 0.1\n";
    fs::write(at.join("paper.toml"), format!("{axes}{rows}")).expect("written");
    let spelled = "--set sweep.seeds=103..104 --set sweep.axes.topology.rate=[\"8000Mbps\",\"6Gbps\"]";
    for words in ["rates --set sweep.seeds=101..102", &format!("spelled {spelled}")] {
        let output = pktgen(at, &format!("-q replay axes.toml --no-report --out {words}"));
        assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    }
    for (words, part) in [
        ("axes.toml --to rates --predict topology.rate=7Gbps", "the sweep varies topology.rate"),
        // Targets and points are found in any spelling of a quantity: the second point is the first one refused.
        ("paper.toml --to paper --predict topology.rate=8Gbps --predict target.slot=3", "did you mean \"slots\"?"),
        ("axes.toml --to rates --to spelled --predict target.slot=3", "did you mean \"slots\"?"),
        ("twin.toml --to measured --predict target.slot=3", "did you mean \"slots\"?"),
    ] {
        let output = pktgen(at, &format!("calibrate {words} --out bad"));
        assert_eq!(output.status.code(), Some(2), "{}", told(&output));
        assert!(told(&output).contains(part), "{part}\n{}", told(&output));
        let evaluations = fs::read_to_string(at.join("bad/evaluations.jsonl")).expect("a file");
        assert_eq!(evaluations.lines().count(), 1, "no setting was run");
        fs::remove_dir_all(at.join("bad")).expect("there");
    }
}

#[test]
fn a_calibration_that_was_killed_goes_on_to_the_same_answer() {
    let folder = measured(PLANTED);
    let at = folder.path();
    let words = "-q calibrate twin.toml --to measured --out";
    let whole = pktgen(at, &format!("{words} a"));
    assert_eq!(whole.status.code(), Some(0), "{}", told(&whole));
    // Killed in the middle of a line, with runs in progress.
    fs::create_dir_all(at.join("b/runs")).expect("a folder");
    fs::write(at.join("b/runs/left"), "").expect("written");
    let all = fs::read_to_string(at.join("a/evaluations.jsonl")).expect("evaluations");
    let lines: Vec<&str> = all.lines().collect();
    let cut = &lines[14][..lines[14].len() / 2];
    fs::write(at.join("b/evaluations.jsonl"), format!("{}\n{cut}", lines[..14].join("\n"))).expect("written");
    // Refused while another process uses the folder.
    let evaluations = fs::File::open(at.join("b/evaluations.jsonl")).expect("evaluations");
    evaluations.lock().expect("a lock");
    let beside = pktgen(at, &format!("{words} b"));
    assert!(told(&beside).contains("another process calibrates in this folder"), "{}", told(&beside));
    drop(evaluations);
    // Nothing can be written: the cut line goes, the others stay.
    let line = format!("ulimit -f 0; exec {} {words} b", env!("CARGO_BIN_EXE_pktgen"));
    let stuck = Command::new("bash").args(["-c", &line]).current_dir(at).output().expect("bash runs");
    assert_ne!(stuck.status.code(), Some(0), "{}", told(&stuck));
    let left = fs::read_to_string(at.join("b/evaluations.jsonl")).expect("evaluations");
    assert_eq!(left, format!("{}\n", lines[..14].join("\n")), "{}", told(&stuck));
    let again = pktgen(at, &format!("{words} b"));
    assert_eq!(again.status.code(), Some(0), "{}", told(&again));
    for file in ["calibration.json", "calibration.html", "best.toml", "evaluations.jsonl"] {
        let read = |out: &str| fs::read_to_string(at.join(out).join(file)).expect("a file");
        assert_eq!(read("a"), read("b"), "{file}");
    }
    // A calibration with other settings is refused.
    let other = pktgen(at, &format!("{words} a --set target.slots=9"));
    assert_eq!(other.status.code(), Some(2), "{}", told(&other));
    assert!(told(&other).contains("another calibration's"), "{}", told(&other));
}

/// Evaluations of a trace do not count for another one of the same name.
#[test]
fn a_calibration_of_another_trace_is_refused() {
    let folder = measured("");
    let at = folder.path();
    for seed in [1, 2] {
        fs::create_dir(at.join(format!("of-{seed}"))).expect("a folder");
        let words = format!("-q trace synth twin.toml -o of-{seed}/t.parquet --set seed={seed}");
        let output = pktgen(at, &words);
        assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    }
    let words =
        "calibrate twin.toml --to measured --out a --set calibrate.settings=24 --set workload.trace=now/t.parquet";
    fs::rename(at.join("of-1"), at.join("now")).expect("renamed");
    for kept in [false, true] {
        let output = pktgen(at, words);
        assert!([Some(0), Some(1)].contains(&output.status.code()), "{}", told(&output));
        assert_eq!(told(&output).contains("settings were run before and are kept"), kept, "{}", told(&output));
    }
    let first = fs::read_to_string(at.join("a/evaluations.jsonl")).expect("evaluations");
    let digest = first.lines().next().map(|line| serde_json::from_str::<Value>(line).expect("JSON")["digest"].clone());
    assert_eq!(digest.as_ref().and_then(Value::as_str).map(str::len), Some(64), "SHA-256");
    fs::rename(at.join("now"), at.join("before")).expect("renamed");
    fs::rename(at.join("of-2"), at.join("now")).expect("renamed");
    let output = pktgen(at, words);
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    assert!(told(&output).contains("another calibration's"), "{}", told(&output));
}

/// Nor do those of a profile for another one of the same name.
#[test]
fn a_calibration_of_another_profile_is_refused() {
    let folder = measured("");
    let at = folder.path();
    let card = include_str!("../../../configs/hardware/generic.toml");
    let words = "calibrate twin.toml --to measured --out a --set calibrate.settings=24 --set target.profile=card.toml";
    fs::write(at.join("card.toml"), card).expect("written");
    for kept in [false, true] {
        let output = pktgen(at, words);
        assert!([Some(0), Some(1)].contains(&output.status.code()), "{}", told(&output));
        assert_eq!(told(&output).contains("settings were run before and are kept"), kept, "{}", told(&output));
    }
    fs::write(at.join("card.toml"), card.replace("most = 9036", "most = 9000")).expect("written");
    let output = pktgen(at, words);
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    assert!(told(&output).contains("another calibration's"), "{}", told(&output));
}

#[test]
fn what_has_no_effect_is_named() {
    let folder = measured("");
    let at = folder.path();
    let idle = "\n[[calibrate.parameters]]\nkey = \"transport.linger\"\nfrom = \"1ms\"\nto = \"900ms\"\n";
    fs::write(at.join("idle.toml"), format!("{TWIN}{idle}")).expect("written");
    let output = pktgen(at, "calibrate idle.toml --to measured --out a --set calibrate.settings=60");
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert!(
        told(&output).contains("transport.linger: no target changes with it by more than its noise"),
        "{}",
        told(&output)
    );
    let found = answer(at, "a");
    assert_eq!(found["answer"]["parameters"][2]["state"], "undetermined");
    assert_eq!(found["answer"]["parameters"][2]["without_effect"], true);
    // A single parameter that has no effect: nothing is determined.
    let none = TWIN.split("[[calibrate.parameters]]").next().expect("text").to_owned() + idle;
    fs::write(at.join("none.toml"), none).expect("written");
    let output = pktgen(at, "calibrate none.toml --to measured --out b");
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(told(&output).starts_with("nothing is determined"), "{}", told(&output));
}

#[test]
fn targets_that_contradict_each_other_are_named() {
    let folder = measured("");
    let at = folder.path();
    let targets = "\n[[calibrate.targets]]\nmetric = \"received\"\nvalue = 500\nprecision = 0.5\n\
                   [[calibrate.targets]]\nmetric = \"loss\"\nvalue = 0.9\nprecision = 0.005\n\
                   [[calibrate.targets]]\nmetric = \"host_latency_p50\"\n";
    fs::write(at.join("both.toml"), format!("{TWIN}{targets}")).expect("written");
    let output = pktgen(at, "calibrate both.toml --to measured --out a");
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(told(&output).starts_with("the targets cannot be met together"), "{}", told(&output));
    let found = answer(at, "a");
    let conflict = found["answer"]["conflict"]["targets"].as_array().expect("a conflict");
    assert!(conflict.iter().any(|it| it == "received") || conflict.iter().any(|it| it == "loss"), "{conflict:?}");
    assert!(!found["answer"]["left_out"].as_array().expect("a list").is_empty());
    assert!(fs::read_to_string(at.join("a/calibration.html")).expect("a page").contains("cannot be met together"));
}

/// Measured runs are read as they were written, or refused.
#[test]
fn measured_runs_that_were_changed_are_no_targets() {
    let folder = measured("");
    let at = folder.path();
    fs::write(at.join("twin.toml"), TWIN).expect("written");
    let run = at.join("measured");
    let path = if run.join("received.parquet").exists() {
        run
    } else {
        fs::read_dir(&run)
            .expect("runs")
            .filter_map(|entry| Some(entry.ok()?.path()))
            .find(|path| path.is_dir())
            .expect("a run")
    };
    let path = path.join("received.parquet");
    let mut bytes = fs::read(&path).expect("readable");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).expect("written");
    let output = pktgen(at, "calibrate twin.toml --to measured --out c");
    let told = told(&output);
    assert!(
        told.contains("is invalid and no target: ")
            && told.contains("received.parquet: its content is not what was written"),
        "{told}"
    );
}

/// The twin with one parameter.
fn parameter(text: &str) -> String {
    format!("{}\n[[calibrate.parameters]]\n{text}\n", TWIN.split("[calibrate]").next().expect("text"))
}

/// Parameters that no run can have name the key and the way out.
#[test]
fn parameters_that_no_run_can_have_are_refused() {
    let folder = measured("");
    let at = folder.path();
    for (text, part) in [
        (
            "key = \"sweep.seeds\"\nfrom = 1\nto = 9",
            "calibrate.parameters 1: sweep.seeds is no key that runs differ in",
        ),
        ("key = \"calibrate.settings\"\nfrom = 20\nto = 99", "calibrate.settings is no key that runs differ in"),
        ("key = \"certify.loss\"\nfrom = 0.0\nto = 0.1", "certify.loss is no key that runs differ in"),
        ("key = \"name\"\nchoices = [\"a\", \"b\"]", "name is no key that runs differ in"),
        (
            "key = \"target.slots\"\nfrom = 2\nto = 64.0",
            "pktgen: parameter target.slots=33.0: target.slots: 33.0 is not a whole number",
        ),
        (
            "key = \"target.slots\"\nfrom = 2\nto = 64.0",
            "; if target.slots has whole numbers, write both ends of its range without a point",
        ),
    ] {
        fs::write(at.join("bad.toml"), parameter(text)).expect("written");
        let output = pktgen(at, "calibrate bad.toml --to measured --out bad");
        let _ = fs::remove_dir_all(at.join("bad"));
        assert_eq!(output.status.code(), Some(2), "{}", told(&output));
        assert!(told(&output).contains(part), "{part}\n{}", told(&output));
    }
}

/// Copies are no repeats, nor is a run that was made again.
#[test]
fn a_copy_of_a_run_is_that_run() {
    let folder = measured("--set capture.pcap=true");
    let at = folder.path();
    let run = at.join("measured/seed=101");
    fs::create_dir(at.join("copy")).expect("a folder");
    for file in fs::read_dir(&run).expect("a run dir").map(|file| file.expect("a file")) {
        fs::copy(file.path(), at.join("copy").join(file.file_name())).expect("copied");
    }
    for name in ["a.pcapng", "b.pcapng"] {
        fs::copy(run.join("capture.pcapng"), at.join(name)).expect("copied");
    }
    let words = "-q replay twin.toml --out again --no-report --set sweep.seeds=101..108 --set capture.pcap=true";
    assert_eq!(pktgen(at, words).status.code(), Some(0));
    for (to, first, second) in [
        ("--to measured/seed=101 --to copy", "measured/seed=101", "copy"),
        ("--to copy --to measured", "copy", "measured/seed=101"),
        ("--to measured --to again", "measured/seed=101", "again/seed=101"),
        ("--to a.pcapng --to b.pcapng", "a.pcapng", "b.pcapng"),
        ("--to measured --to a.pcapng", "measured/seed=101", "a.pcapng"),
        ("--to a.pcapng --to copy", "a.pcapng", "copy"),
        ("--to copy/capture.pcapng --to measured/seed=101", "copy/capture.pcapng", "measured/seed=101"),
    ] {
        let output = pktgen(at, &format!("calibrate twin.toml {to} --out bad"));
        let part = format!(
            "is there twice, and a run is one repeat; {first} and {second} hold the same run; name one of them"
        );
        assert!(output.status.code() == Some(2) && told(&output).contains(&part), "{to}: {}", told(&output));
    }
}

#[test]
fn bad_input_names_the_value_and_the_remedy() {
    let folder = measured("");
    let at = folder.path();
    for (file, words, part) in [
        (
            TWIN.split("[calibrate]").next().expect("text").to_owned(),
            "--to measured",
            "no parameters; name them in [[calibrate.parameters]]",
        ),
        (parameter("key = \"target.slots\""), "--to measured", "target.slots has no range"),
        (parameter("key = \"target.slot\"\nfrom = 1\nto = 9"), "--to measured", "did you mean \"slots\"?"),
        (
            parameter("key = \"target.slots\"\nvariant = \"x\"\nfrom = 1\nto = 9"),
            "--to measured",
            "there is no such variant",
        ),
        (
            format!("{TWIN}[[calibrate.parameters]]\nkey = \"target.slots\"\nfrom = 1\nto = 9\n"),
            "--to measured",
            "3: target.slots would undo an earlier parameter of the same key, target.slots; take one out",
        ),
        (TWIN.to_owned(), "", "there are no targets: give --to"),
        (TWIN.to_owned(), "--to nowhere", "--to nowhere: neither \"paper\""),
        (TWIN.to_owned(), "--to paper", "there are no targets"),
        (TWIN.to_owned(), "--to measured --to ./measured", "seed 101) is there twice, and a run is one repeat"),
        (TWIN.to_owned(), "--to measured/seed=101 --to measured", "seed 101) is there twice"),
        (
            TWIN.to_owned(),
            "--to measured --set calibrate.metrics=[\"nothing\"]",
            "there are no targets: nothing was not measured and is no target",
        ),
        (TWIN.to_owned(), "--to measured --set calibrate.settings=3", "calibrate.settings = 3"),
        (TWIN.to_owned(), "--to measured --predict target.slots", "write KEY=VALUE"),
        (
            format!("{TWIN}[[calibrate.targets]]\nmetric = \"goal_time\""),
            "--to measured",
            "target goal_time has no value",
        ),
        (
            format!("{TWIN}[[calibrate.targets]]\nmetric = \"goal_time\"\nvalue = 1"),
            "--to measured",
            "settings have a value of it",
        ),
        (format!("{TWIN}[sweep.axes]\ntarget.slots = [2, 4]"), "--to measured", "the sweep varies it"),
    ] {
        fs::write(at.join("bad.toml"), &file).expect("written");
        let output = pktgen(at, &format!("calibrate bad.toml {words} --out bad"));
        let _ = fs::remove_dir_all(at.join("bad"));
        assert!([Some(1), Some(2)].contains(&output.status.code()), "{}", told(&output));
        assert!(told(&output).contains(part), "{words}: {part}\n{}", told(&output));
    }
    // Run dirs in a folder are read as those of a sweep, here up to the missing metric.
    fs::remove_file(at.join("measured/sweep.json")).expect("there");
    fs::create_dir(at.join("empty")).expect("a folder");
    for (to, part) in [("measured", "there are no targets"), ("empty", "it is no run dir and no sweep")] {
        let words = format!("calibrate twin.toml --to {to} --out bad --set calibrate.metrics=[\"nothing\"]");
        let output = pktgen(at, &words);
        assert!(output.status.code() == Some(2) && told(&output).contains(part), "{to}: {}", told(&output));
    }
}
