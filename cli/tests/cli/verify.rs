//! `pktgen verify` as a user meets it. Every behaviour that it shows was replayed in virtual time by itself; a
//! replay that differs is an error, so the sweep of odd settings below compares model, reference and simulator.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::{pktgen, text};
use serde_json::{Value, json};
use tempfile::TempDir;

fn folder(config: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("x.toml"), config).expect("writable");
    folder
}

/// Verifies `x.toml` and checks the exit code; returns the object of `--json`.
fn verified(folder: &Path, more: &[&str], code: i32) -> Value {
    let args = [&["verify", "aom-fairness", "x.toml", "--json"], more].concat();
    let output = pktgen(folder, &args);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one object")
}

fn shipped(name: &str) -> TempDir {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs/verify").join(name);
    folder(&fs::read_to_string(path).expect("a shipped config"))
}

/// Returns (Qmax, ε in µs, all, any) of every case, after checking that every behaviour was replayed.
fn verdicts(whole: &Value) -> Vec<(u64, u64, String, String)> {
    let word = |answer: &Value| {
        if let Some(behaviour) = answer.get("behaviour") {
            assert_eq!(behaviour["replayed"], "same AoM");
            let folder = Path::new(behaviour["folder"].as_str().expect("a folder")).to_owned();
            assert!(!folder.as_os_str().is_empty());
        }
        answer["verdict"].as_str().expect("a word").to_owned()
    };
    let case = |case: &Value| {
        let number = |key: &str| case[key].as_u64().expect("a number");
        (number("slots"), number("epsilon_us"), word(&case["all"]), word(&case["any"]))
    };
    whole["cases"].as_array().expect("cases").iter().map(case).collect()
}

#[test]
fn the_papers_cases_under_every_reading() {
    let equal = shipped("paper-100-100.toml");
    for (slots, epsilon, all, any) in verdicts(&verified(equal.path(), &[], 1)) {
        // With one slot a cluster may starve; with two, one update may wait for the other's p/C = 2 ms, for ever.
        let fair = slots > 1 && epsilon >= 2000;
        assert_eq!((all.as_str(), any.as_str()), (if fair { "holds" } else { "fails" }, "holds"), "{slots} {epsilon}");
    }
    let unequal = shipped("paper-100-300.toml");
    for (slots, epsilon, all, any) in verdicts(&verified(unequal.path(), &[], 1)) {
        // Without congestion transmission control does not act, and the peaks differ by 200 ms.
        let any_expected = if slots == 1 { "holds" } else { "fails" };
        assert_eq!((all.as_str(), any.as_str()), ("fails", any_expected), "{slots} {epsilon}");
    }
}

const FAIR: &str = "name = \"fair\"\n[verify]\nupdates = 4\nphase = [\"0ms\", \"50ms\"]\nepsilon = \"100us\"\n";

#[test]
fn fair_is_accepted_and_unfair_rejected() {
    let folder = folder(FAIR);
    assert_eq!(verdicts(&verified(folder.path(), &["--out", "a"], 0)), [(2, 100, "holds".into(), "holds".into())]);
    let unfair = ["--set", "verify.period=[\"100ms\", \"101ms\"]", "--out", "b"];
    assert_eq!(verdicts(&verified(folder.path(), &unfair, 1)), [(2, 100, "fails".into(), "fails".into())]);
    let plain = pktgen(folder.path(), &["verify", "aom-fairness", "x.toml", "--out", "c"]);
    let said = text(&plain.stdout);
    assert!(said.contains("replayed: same AoM") && said.contains("cluster 0 102.001ms"), "{said}");
}

/// Behaviours are written at the end; what would be lost then is refused before the solver is started.
#[test]
fn a_folder_that_cannot_be_used_is_refused_before_the_work() {
    let folder = folder(FAIR);
    fs::create_dir(folder.path().join("full")).expect("a folder");
    fs::create_dir(folder.path().join("empty")).expect("a folder");
    fs::write(folder.path().join("full/x"), "x").expect("writable");
    let refused = |more: &[&str], words: &str| {
        let args = [&["verify", "aom-fairness", "x.toml", "--solver", "no-such-solver"], more].concat();
        let output = pktgen(folder.path(), &args);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(words), "{args:?}: {said}");
    };
    refused(&["--out", "full", "--emit", "m.smt2"], "full: the folder is not empty");
    assert!(!folder.path().join("m.smt2").exists());
    refused(&["--out", "full", "--find", "max-rate"], "full: the folder is not empty");
    refused(&["--out", "empty", "--emit", "empty/m.smt2"], "empty: the folder is not empty");
    refused(&["--out", "new/a", "--emit", "x.toml"], "x.toml: is an input");
    assert!(!folder.path().join("new").exists());
}

#[test]
fn the_model_does_not_replace_the_experiment() {
    let folder = folder(FAIR);
    let output = pktgen(folder.path(), &["verify", "aom-fairness", "x.toml", "--emit", "x.toml"]);
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("x.toml: is an input, and would be lost"), "{said}");
    assert_eq!(fs::read_to_string(folder.path().join("x.toml")).expect("readable"), FAIR);
}

#[test]
fn a_counterexample_is_an_experiment_of_its_own() {
    let folder = folder("[verify]\nupdates = [6, 2]\nperiod = [\"100ms\", \"300ms\"]\nslots = 1\nepsilon = \"1ms\"\n");
    let whole = verified(folder.path(), &["--out", "out"], 1);
    let witness = whole["cases"][0]["any"]["behaviour"]["folder"].as_str().expect("a folder");
    let file = format!("{witness}/experiment.toml");
    let replayed = pktgen(folder.path(), &["replay", &file, "--out", "again", "--no-report"]);
    assert!(replayed.status.success(), "{}", text(&replayed.stderr));
    let metrics = text(&pktgen(folder.path(), &["analyze", "again", "--json"]).stdout);
    let expected = fs::read_to_string(folder.path().join(witness).join("expected.json")).expect("expectations");
    let expected: Value = serde_json::from_str(&expected).expect("an object");
    for (v, cluster) in expected["clusters"].as_array().expect("clusters").iter().enumerate() {
        let labels = json!({ "flow": "cluster", "id": v });
        let mut lines = metrics.lines().map(|line| serde_json::from_str::<Value>(line).expect("an object"));
        let line = lines.find(|line| line["metric"] == "aom_peak_mean" && line["labels"] == labels);
        let measured = line.expect("a line")["value"].as_f64().expect("a number");
        let expected = cluster["average_peak_us"].as_f64().expect("a number") * 1e3;
        assert!((measured - expected).abs() < 1e-3, "{measured} ns, expected {expected}");
    }
    let choices = &expected["clusters"][0]["choices"];
    assert!(choices.as_str().expect("a text").contains('0'), "transmission control holds something back: {choices}");
    let again = pktgen(folder.path(), &["verify", "aom-fairness", "x.toml", "--out", "out"]);
    assert_eq!(again.status.code(), Some(2), "a folder that holds something is somebody's");
}

/// Settings under which updates queue, merge, drop and are held back, with free and periodic arrivals, by both ways of
/// finding behaviours.
#[test]
fn every_behaviour_is_replayed_exactly() {
    let folder = folder("[verify]\nclusters = 2\n");
    let mut state = 7u64;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut replayed = 0;
    for index in 0..24 {
        let service = [1, 2, 4, 5, 10][next(5) as usize];
        let mut keys = vec![
            format!("clusters={}", 2 + next(2)),
            format!("updates={}", 3 + next(4)),
            format!("service=\"{service}us\""),
            format!("delay=\"{}us\"", next(3)),
            format!("slots={}", 1 + next(3)),
            format!("slot_in_transmission={}", next(2) == 0),
            format!("epsilon=\"{}us\"", next(8)),
            format!("delta_t=\"{}us\"", 1 + next(30)),
            format!("slope={}", [0, 20_000, 100_000][next(3) as usize]),
            format!("candidates={}", [0, 100][next(2) as usize]),
        ];
        if next(3) == 0 {
            keys.push(format!("active_window=\"{}us\"", 1 + next(20)));
        }
        let period = 2 + next(15);
        match next(2) {
            0 => keys.extend([
                "arrivals=free".into(),
                format!("gap_min=\"{period}us\""),
                format!("gap_max=\"{}us\"", period + next(9)),
            ]),
            _ => keys.extend([format!("period=\"{period}us\""), format!("jitter=\"{}us\"", next(2))]),
        }
        let sets: Vec<_> = keys.iter().map(|key| format!("verify.{key}")).collect();
        let out = format!("out{index}");
        let mut args = vec!["verify", "aom-fairness", "x.toml", "--json", "--out", &out, "--timeout", "20"];
        sets.iter().for_each(|set| args.extend(["--set", set]));
        let output = pktgen(folder.path(), &args);
        assert!(
            matches!(output.status.code(), Some(0 | 1)) && output.stderr.is_empty(),
            "{sets:?}: {}",
            text(&output.stderr)
        );
        let whole: Value = serde_json::from_slice(&output.stdout).expect("one object");
        replayed += output_behaviours(&whole);
    }
    assert!(replayed >= 20, "only {replayed} behaviours were found");
}

fn output_behaviours(whole: &Value) -> usize {
    verdicts(whole);
    let case = &whole["cases"][0];
    ["all", "any"].iter().filter(|key| case[**key].get("behaviour").is_some()).count()
}

#[test]
fn what_cannot_be_answered_says_why() {
    let folder = folder(FAIR);
    let refuse = |more: &[&str], code: i32, words: &[&str]| {
        let output = pktgen(folder.path(), &[&["verify", "aom-fairness", "x.toml"], more].concat());
        let said = text(&output.stderr) + &text(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    };
    refuse(&["--solver", "no-such-solver"], 3, &["no-such-solver", "not installed", "apt-get install z3", "--solver"]);
    refuse(&["--timeout", "0", "--set", "verify.candidates=0"], 1, &["unknown after 0.0", "out of time"]);
    refuse(&["--timeout=-1"], 2, &["--timeout"]);
    refuse(&["--set", "verify.slotz=1"], 2, &["verify.slotz", "did you mean \"slots\""]);
    let output = pktgen(folder.path(), &["verify", "aom-fairnes", "x.toml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("did you mean \"aom-fairness\""));
}

#[test]
fn the_model_can_be_taken_elsewhere() {
    let folder = folder(FAIR);
    verified(folder.path(), &["--emit", "model.smt2", "--out", "out"], 0);
    let solved = Command::new("z3").arg(folder.path().join("model.smt2")).output().expect("z3 (scripts/install-tools)");
    let said = text(&solved.stdout);
    let answers: Vec<_> = said.lines().filter(|line| *line == "sat" || *line == "unsat").collect();
    assert_eq!(answers, ["sat", "unsat", "unsat"], "{said}");
}

#[test]
fn the_largest_rate_is_shown_with_both_sides() {
    let folder = folder("[verify]\nupdates = 3\nepsilon = \"2ms\"\n");
    let whole = verified(folder.path(), &["--find", "max-rate", "--out", "out"], 0);
    let case = &whole["cases"][0];
    assert_eq!((&case["holds"]["period_us"], &case["beyond"]["period_us"]), (&json!(4000), &json!(3999)), "{case}");
    assert_eq!((&case["holds"]["verdict"], &case["beyond"]["verdict"]), (&json!("holds"), &json!("fails")));
    assert!(folder.path().join("out").read_dir().expect("a folder").next().is_some(), "the failing side was replayed");
}

#[test]
fn shipped_configs_are_read_and_an_experiment_may_hold_the_section() {
    let configs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs/verify");
    for entry in fs::read_dir(configs).expect("configs/verify") {
        let name = entry.expect("an entry").file_name().to_string_lossy().into_owned();
        let folder = shipped(&name);
        let args = ["verify", "aom-fairness", "x.toml", "--set", "verify.updates=3", "--out", "out"];
        let output = pktgen(folder.path(), &args);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{name}: {}", text(&output.stderr));
    }
    let folder =
        folder(&format!("{FAIR}[workload]\nclusters = 2\nworkers_per_cluster = 1\n[schedule]\noffered = \"1Gbps\"\n"));
    verified(folder.path(), &["--out", "a"], 0);
    let output = pktgen(folder.path(), &["replay", "x.toml", "--print-config"]);
    assert!(output.status.success() && !text(&output.stdout).contains("[verify]"), "{}", text(&output.stderr));
}
