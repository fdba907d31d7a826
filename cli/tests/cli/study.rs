//! Experiments without a network: a study is run, analysed and reported like any other experiment.

use std::fs;
use std::path::Path;

use crate::support::pktgen;
use serde_json::Value;

const STUDY: &str = r#"
name = "sums"
[study]
kind = "float_sum"
pairs = 2000
[sweep]
seeds = "1..3"
[sweep.axes]
study.data = ["gradients", "uniform"]
[[sweep.variants]]
name = "Tables"
[[sweep.variants]]
name = "Integer"
study.method = "integer"
[[paper.rows]]
source = "Table 2"
at.variant = "Tables"
at."study.data" = "uniform"
sum_precision_mean = 0.9984
"#;

fn succeeds(folder: &Path, args: &[&str]) -> String {
    let output = pktgen(folder, args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn refuses(experiment: &str, args: &[&str], words: &[&str]) {
    let folder = folder(experiment);
    let output = pktgen(folder.path(), args);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
    for word in words {
        assert!(said.contains(word), "{args:?} should say {word:?}: {said}");
    }
    assert!(!folder.path().join("out/manifest.json").exists(), "nothing is left behind");
}

fn folder(experiment: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("x.toml"), experiment).expect("writable");
    folder
}

#[test]
fn a_study_is_swept_and_reported() {
    let folder = folder(STUDY);
    let dir = folder.path();
    let report = succeeds(dir, &["-q", "replay", "x.toml", "--out", "out", "--json"]);
    let model: Value = serde_json::from_str(&report).expect("one object of JSON");
    assert_eq!(model["verdict"]["valid"], Value::Bool(true));
    assert_eq!(model["rows"].as_array().expect("rows").len(), 4);
    // The columns shown are those that the study declares.
    let keys: Vec<_> = model["columns"].as_array().expect("columns").iter().map(|c| c["key"].clone()).collect();
    assert!(keys.contains(&"sum_precision_mean".into()) && keys.contains(&"table_bytes".into()), "{keys:?}");
    assert_eq!(model["warnings"], serde_json::json!([]));
    for form in ["html", "md"] {
        let text = fs::read_to_string(dir.join(format!("out/report.{form}"))).expect("a report");
        assert!(text.contains("99.84") && !text.contains("Age-of-Model") && !text.contains("aom"), "{form}");
    }
    let run = "out/Tables,data=uniform,seed=2";
    let names = fs::read_dir(dir.join(run)).expect("a run dir").map(|entry| entry.expect("an entry").file_name());
    assert_eq!(names.collect::<Vec<_>>(), ["manifest.json"], "there are no streams");
    let lines = succeeds(dir, &["analyze", run, "--json", "--table", "table.parquet"]);
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(lines.iter().all(|line| line["value"].is_number()), "{lines:?}");
    assert!(lines.iter().any(|line| line["metric"] == "table_bytes" && line["value"] == 418_304.0), "{lines:?}");
    // A run dir alone shows all that its study declares, too.
    let alone: Value = serde_json::from_str(&succeeds(dir, &["-q", "report", run, "--json"])).expect("JSON");
    assert_eq!(alone["columns"][0]["key"], "sum_precision_median");
}

#[test]
fn a_study_repeats_from_its_resolved_configuration() {
    let folder = folder("[study]\nkind = \"float_sum\"\npairs = 500\n");
    let dir = folder.path();
    let config = succeeds(dir, &["replay", "x.toml", "--print-config", "--set", "study.data=uniform"]);
    assert!(config.contains("data = \"uniform\"") && config.contains("method = \"tables\""), "{config}");
    fs::write(dir.join("again.toml"), config).expect("writable");
    let values = |file: &str, out: &str, set: &[&str]| {
        succeeds(dir, &[&["-q", "replay", file, "--out", out, "--no-report"], set].concat());
        succeeds(dir, &["analyze", out, "--json"])
    };
    assert_eq!(values("x.toml", "a", &["--set", "study.data=uniform"]), values("again.toml", "b", &[]));
}

#[test]
fn what_is_no_study_is_refused() {
    let run = ["replay", "x.toml", "--out", "out"];
    let study = "[study]\nkind = \"float_sum\"\n";
    refuses("[study]\npairs = 1\n", &run, &["study.kind", "float_sum"]);
    refuses("[study]\nkind = \"float_sums\"\n", &run, &["study.kind", "did you mean \"float_sum\"?"]);
    refuses(&format!("{study}pears = 3\n"), &run, &["x.toml:3", "study.pears", "did you mean \"pairs\"?"]);
    refuses(&format!("{study}pairs = 0\n"), &run, &["study.pairs"]);
    for section in ["workload", "schedule", "topology", "target", "endpoint", "transport", "capture"] {
        let text = format!("{study}[{section}]\nkind = \"x\"\n");
        refuses(&text, &run, &["x.toml:3", &format!("[{section}] cannot stand beside [study]")]);
    }
    refuses(study, &["replay", "x.toml", "--out", "out", "--set", "target.slots=3"], &["[target] cannot stand beside"]);
    refuses(study, &["target", "x.toml", "--out", "out"], &["[study]"]);
    refuses(study, &["doctor", "x.toml"], &["[study]"]);
    // Also studies of the placers, and those that variants or an axis choose.
    let variants = "[[sweep.variants]]\nname = \"a\"\nstudy.kind = \"soar\"\n";
    let axis = "[sweep.axes]\nstudy.kind = [\"soar\"]\n";
    let quoted = "[sweep.axes]\n\"study.kind\" = [\"soar\"]\n";
    for study in [study, "[study]\nkind = \"soar\"\n", variants, axis, quoted] {
        let commands: [&[&str]; 4] = [
            &["replay", "x.toml", "--find-rate", "--out", "out"],
            &["replay", "x.toml", "--find-rate", "--rfc2544", "64", "--out", "out"],
            &["certify", "x.toml", "--out", "out"],
            &["trace", "synth", "x.toml", "-o", "x.parquet"],
        ];
        commands.iter().for_each(|command| refuses(study, command, &["x.toml", "measured without a network"]));
    }
}

#[test]
fn studies_are_listed() {
    let names = succeeds(Path::new("."), &["list", "studies"]);
    assert!(names.contains("float_sum") && names.contains("negotiation"), "{names}");
}

/// Keys of a curve that it does not use are named, and those that it uses are not.
#[test]
fn keys_that_a_curve_does_not_use_are_without_effect() {
    let text = "name = \"r\"\n[study]\nkind = \"recirculations\"\nbatches = 1\npairs = 200\ncurve = \"mandelbrot\"\n";
    let folder = folder(text);
    let said = |set: &[&str], out: &str| {
        let set: Vec<_> = set.iter().flat_map(|set| ["--set", set]).collect();
        let output = pktgen(folder.path(), &[&["replay", "x.toml", "--no-report", "--out", out][..], &set].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        said
    };
    let law = ["study.exponent=1.2", "study.offset=500.0"];
    let told = said(&[&law[..], &["study.hot_share=0.7"]].concat(), "law");
    let named = "without effect, since nothing that was chosen reads it: study.hot_share (--set study.hot_share=0.7)";
    assert!(told.contains(named), "{told}");
    let used = [said(&law, "used"), said(&["study.offset=500.0", "study.hot_share=0.7"], "share")];
    assert!(used.iter().all(|said| !said.contains("without effect")), "{used:?}");
    let told = said(&["study.curve=fitted", "study.exponent=1.2", "study.offset=500.0"], "fitted");
    assert!(told.contains("study.exponent (--set") && told.contains("study.offset (--set"), "{told}");
}
