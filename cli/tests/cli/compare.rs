//! Comparisons with the real binary: a planted regression is reported as worse, and equal runs are not.

use std::fs;
use std::path::Path;
use std::process::Output;
use std::sync::Arc;

use crate::support::{pktgen, text};
use pktgen_compare::{Comparison, Outcome, Rules, Side};
use pktgen_records::Options;
use pktgen_report::SweepData;
use tempfile::TempDir;

/// A small experiment: 6 workers in 2 clusters, 40 updates each.
const SMALL: &str = r#"
name = "small"
[workload]
clusters = 2
workers_per_cluster = 3
updates = 40
[schedule]
kind = "poisson"
offered = "60Gbps"
[topology]
rate = "20Gbps"
"#;

/// Runs the binary, checks the exit code, and returns stdout.
fn exits(folder: &Path, args: &[&str], code: i32) -> String {
    let output = pktgen(folder, args);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}\n{}", text(&output.stdout));
    assert!(!said.contains("panicked"), "{said}");
    text(&output.stdout)
}

/// Checks that the command is refused with exit code 2 and these words.
fn refuses(folder: &Path, args: &[&str], words: &[&str]) {
    let output = pktgen(folder, args);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
    for word in words {
        assert!(said.contains(word), "{args:?} should say {word:?}: {said}");
    }
}

fn replay(folder: &Path, out: &str, seeds: &str, set: &[&str]) {
    let seeds = format!("sweep.seeds={seeds}");
    let mut args = vec!["replay", "x.toml", "-q", "--no-report", "--out", out, "--set", &seeds];
    set.iter().for_each(|key| args.extend(["--set", key]));
    exits(folder, &args, 0);
}

fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("x.toml"), SMALL).expect("writable");
    folder
}

fn side(folder: &Path, name: &str) -> Side {
    let sweep = SweepData::open(&folder.join(name), &mut |_, _| {}).expect("a sweep");
    Side { name: name.to_owned(), sweep }
}

fn compared(old: &Side, new: &Side, rules: &Rules) -> Comparison {
    Comparison::of(&[old.clone(), new.clone()], Some(0), rules).expect("comparable")
}

/// Returns the tags of an XML document after checking that each is closed by its own name and that there is one root.
fn well_formed(xml: &str) -> Vec<String> {
    let (mut open, mut seen) = (Vec::new(), Vec::new());
    let body = xml.strip_prefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n").expect("a declaration");
    for part in body.split('<').skip(1) {
        let (tag, after) = part.split_once('>').expect("a tag ends");
        assert!(!after.contains('&') || after.contains(';'), "{after}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name));
        } else {
            let name = tag.trim_end_matches('/').split(' ').next().expect("a name").to_owned();
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
            seen.push(name.clone());
            if !tag.ends_with('/') {
                open.push(name);
            }
        }
    }
    assert!(open.is_empty() && seen.first().is_some_and(|root| root == "testsuites"));
    seen
}

#[test]
fn exit_codes_and_formats() {
    let folder = folder();
    let dir = folder.path();
    replay(dir, "old", "1..10", &[]);
    replay(dir, "again", "1..10", &[]);
    replay(dir, "slow", "1..10", &["topology.rate=10Gbps"]);
    // The same seeds give the same runs.
    let said = exits(dir, &["report", "again", "--baseline", "old", "--strict"], 0);
    assert!(
        said.starts_with("Valid: all 20 runs.\nConfigurations of old and again: the same.\nagain against old: SAME;"),
        "{said}"
    );
    for file in ["compare.html", "compare.md", "compare.json", "compare.xml"] {
        assert!(dir.join("again").join(file).exists(), "{file}");
    }
    let said = exits(dir, &["report", "slow", "--baseline", "old", "-o", "c.xml", "-o", "c.json", "-o", "c.md"], 1);
    assert!(said.contains("slow against old: WORSE;"), "{said}");
    assert!(said.contains("\nConfigurations of old and slow: topology.rate: 20Gbps → 10Gbps.\n"), "{said}");
    assert!(!dir.join("slow/compare.html").exists());
    let json: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(dir.join("c.json")).expect("written")).expect("JSON");
    assert_eq!(json["outcome"], "worse");
    let one_line = exits(dir, &["report", "slow", "--baseline", "old", "--json", "-q"], 1);
    assert_eq!(serde_json::from_str::<serde_json::Value>(one_line.trim_end()).expect("JSON on a line"), json);
    let tags = well_formed(&fs::read_to_string(dir.join("c.xml")).expect("written"));
    assert_eq!(
        tags.iter().filter(|tag| *tag == "failure").count(),
        json["versus"][0]["judgements"]
            .as_array()
            .expect("judgements")
            .iter()
            .filter(|one| one["outcome"] == "worse")
            .count()
    );
    assert!(fs::read_to_string(dir.join("c.md")).expect("written").starts_with("**WORSE**: slow against old\n"));
    assert!(exits(dir, &["report", "old", "--baseline", "slow"], 0).contains("BETTER"));
    // One seed is too few unless there are no differences.
    replay(dir, "one", "1", &["topology.rate=10Gbps"]);
    let few = ["report", "one", "--baseline", "old"];
    let said = exits(dir, &few, 0);
    assert!(said.contains("CANNOT TELL") && said.contains("one seed: not compared."), "{said}");
    assert!(!said.contains(" worse (") && !said.contains(" better ["), "{said}");
    exits(dir, &[&few[..], &["--strict"]].concat(), 1);
    // An unusable run causes a failure, whatever its numbers are.
    let manifest = dir.join("again").join(first_run(&dir.join("again"))).join("manifest.json");
    let text = fs::read_to_string(&manifest).expect("readable");
    let mut invalid: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    invalid["incidents"] = serde_json::json!({ "faults": [{ "code": "leaked", "frames": 1 }], "notes": [] });
    fs::write(&manifest, invalid.to_string()).expect("writable");
    assert!(
        exits(dir, &["report", "again", "--baseline", "old", "--no-verify"], 1).starts_with("INVALID: 1 of 20 runs")
    );
}

/// Returns the folder of the first run of a sweep.
fn first_run(sweep: &Path) -> String {
    let text = fs::read_to_string(sweep.join("sweep.json")).expect("a sweep");
    let sweep: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    sweep["runs"][0]["dir"].as_str().expect("a folder").to_owned()
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let folder = folder();
    let dir = folder.path();
    replay(dir, "old", "1..3", &[]);
    replay(dir, "other", "4..6", &[]);
    refuses(dir, &["report", "other", "--baseline", "old"], &["no seed in common", "sweep.seeds"]);
    refuses(dir, &["report", "old", "--baseline", "old", "-o", "x.pdf"], &["x.pdf", ".html, .md, .json, .xml"]);
    refuses(dir, &["report", "old", "-o", "x.xml"], &["x.xml"]);
    refuses(dir, &["report"], &["needs a RUN"]);
    refuses(dir, &["report", "--baseline", "old"], &["needs a RUN"]);
    refuses(dir, &["report", "old", "--baseline", "old"], &["two implementations"]);
    refuses(dir, &["report", "old", "other", "old"], &["given twice"]);
    refuses(dir, &["report", "old", "--baseline", "nowhere"], &["nowhere"]);
    refuses(dir, &["report", "old", "--rules", "r.toml"], &["--baseline"]);
    refuses(dir, &["report", "old", "--strict"], &["--baseline"]);
    fs::write(dir.join("r.toml"), "[[rule]]\nmetrik = \"loss\"\n").expect("writable");
    refuses(
        dir,
        &["report", "other", "--baseline", "old", "--rules", "r.toml"],
        &["r.toml:2:", "did you mean \"metric\"?"],
    );
    let rule = "[[rule]]\nmetric = \"losss\"\ndirection = \"lower\"\ntolerance = \"1pp\"\n";
    fs::write(dir.join("r.toml"), rule).expect("writable");
    refuses(
        dir,
        &["report", "other", "--baseline", "old", "--rules", "r.toml"],
        &["r.toml:1:", "did you mean \"loss\"?"],
    );
    // The printed rules can be read back.
    let printed = exits(dir, &["report", "--print-rules"], 0);
    fs::write(dir.join("r.toml"), &printed).expect("writable");
    assert_eq!(exits(dir, &["report", "--print-rules", "--rules", "r.toml"], 0), printed);
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs/rules/olaf.toml");
    exits(dir, &["report", "--print-rules", "--rules", example.to_str().expect("text")], 0);
}

/// A report shows the differences of a run from the experiment file.
#[test]
fn reports_say_what_was_run() {
    let folder = folder();
    let dir = folder.path();
    let text = SMALL.replace("name = \"small\"\n", "name = \"small\"\nabout = \"a link of 20 Gbit/s\"\n");
    fs::write(dir.join("x.toml"), format!("{text}[report]\nfitted = [\"rate = 20Gbps is fitted\"]\n"))
        .expect("writable");
    replay(dir, "changed", "1..2", &["topology.rate=10Gbps"]);
    replay(dir, "plain", "1..2", &[]);
    let before = "Of the experiment file, before the overrides topology.rate=10Gbps";
    let shown = exits(dir, &["report", "changed"], 0);
    assert!(shown.contains("Overrides: sweep.seeds=1..2, topology.rate=10Gbps."), "{shown}");
    let said = text_of(&pktgen(dir, &["report", "changed"]));
    let command = "command: ";
    for part in ["version: pktgen 0.", "commit: ", "date: 20", "host: none: virtual time", "seeds: 2 (1, 2)", command] {
        assert!(said.contains(part), "{part} is not in {said}");
    }
    for form in ["html", "md"] {
        let page = fs::read_to_string(dir.join(format!("changed/report.{form}"))).expect("written").replace("\\_", "_");
        assert!(page.contains(&format!("{before}: a link of 20 Gbit/s")), "{form}");
        assert_eq!(page.matches(before).count(), 2, "{form}: the fitted parameters too");
        for part in ["commit", "2 (1, 2)", "--set sweep.seeds=1..2 --set topology.rate=10Gbps", "virtual time"] {
            assert!(page.contains(part), "{form}: {part}");
        }
        exits(dir, &["report", "plain"], 0);
        let page = fs::read_to_string(dir.join(format!("plain/report.{form}"))).expect("written");
        assert!(!page.contains("before the overrides"), "{form}: seeds change nothing that a text states");
    }
    let json: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(dir.join("changed/report.json")).expect("written")).expect("JSON");
    assert_eq!(
        (&json["schema"], json["made"]["overrides"][1].as_str()),
        (&"report/1".into(), Some("topology.rate=10Gbps"))
    );
    let tool =
        format!("pktgen {} ({})", json["made"]["version"].as_str().unwrap(), json["made"]["commit"].as_str().unwrap());
    assert_eq!(json["tool"], tool.as_str());
}

/// A study without random numbers is exact with one seed; one with random numbers is not, nor is a run of frames.
#[test]
fn runs_know_whether_chance_had_a_part() {
    let folder = folder();
    let dir = folder.path();
    let configs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs");
    let uses_chance = |file: &str, set: &[&str]| {
        let (path, out) = (configs.join(file), format!("run-{}", file.replace('/', "-") + &set.concat()));
        let mut args = vec!["-q", "replay", path.to_str().expect("text"), "--no-report", "--out", &out];
        set.iter().for_each(|key| args.extend(["--set", key]));
        exits(dir, &args, 0);
        let run = dir.join(&out).join(first_run(&dir.join(&out)));
        let text = fs::read_to_string(run.join("manifest.json")).expect("a manifest");
        serde_json::from_str::<serde_json::Value>(&text).expect("JSON")["uses_chance"].clone()
    };
    assert_eq!(uses_chance("libra/figure17.toml", &[]), false);
    assert_eq!(uses_chance("atro/figure5.toml", &["sweep.seeds=1"]), false, "the first variant is ATRO itself");
    assert_eq!(uses_chance("soar/figure6.toml", &["sweep.seeds=1"]), true);
    replay(dir, "one", "1", &[]);
    let manifest = fs::read_to_string(dir.join("one/manifest.json")).expect("a manifest");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&manifest).expect("JSON")["uses_chance"], true);
    let said = exits(dir, &["report", "run-libra-figure17.toml"], 0);
    assert!(said.contains("(exact)") || said.contains("lie within"), "{said}");
}

#[test]
fn plots_are_written_as_asked() {
    let folder = folder();
    let at = folder.path();
    replay(at, "run", "1", &[]);
    let written = |to: &str, formats: &[&str]| -> Vec<(String, Vec<u8>)> {
        let mut args = vec!["report", "run", "-q", "--out", "out.html", "--plots", to];
        formats.iter().for_each(|format| args.extend(["--plots-format", format]));
        exits(at, &args, 0);
        let files = fs::read_dir(at.join(to)).expect("a folder").map(|entry| entry.expect("a file").path());
        files.map(|path| (path.display().to_string(), fs::read(&path).expect("a plot"))).collect()
    };
    let ending =
        |files: &[(String, Vec<u8>)], ending: &str| files.iter().filter(|(name, _)| name.ends_with(ending)).count();
    let both = written("both", &[]);
    let charts = ending(&both, ".svg");
    assert!(charts > 5 && ending(&both, ".png") == charts && both.len() == 2 * charts, "{charts} of {}", both.len());
    for (name, bytes) in &both {
        let begins: &[u8] = if name.ends_with(".png") { b"\x89PNG" } else { b"<svg" };
        assert!(bytes.starts_with(begins) && bytes.len() > 1000, "{name}: {} bytes", bytes.len());
    }
    for format in ["svg", "png"] {
        let one = written(format, &[format]);
        assert_eq!((one.len(), ending(&one, format)), (charts, charts));
    }
}

#[test]
fn several_are_ranked() {
    let folder = folder();
    let dir = folder.path();
    for (out, rate) in [("fast", "40Gbps"), ("middle", "20Gbps"), ("slow", "10Gbps")] {
        replay(dir, out, "1..8", &[&format!("topology.rate={rate}")]);
    }
    exits(dir, &["report", "slow", "fast", "middle"], 0);
    assert!(dir.join("middle/rank.html").exists() && !dir.join("middle/compare.html").exists());
    let said = exits(dir, &["report", "slow", "fast", "middle", "-o", "r.html"], 0);
    assert!(said.contains("AoM mean, cluster (lower is better) at all defaults: 1 fast, 2 middle, 3 slow."), "{said}");
    assert!(!said.contains("WORSE"), "{said}");
    let page = fs::read_to_string(dir.join("r.html")).expect("written");
    assert!(page.contains("<h2>Places</h2>") && page.contains("3: "));
    let said = exits(dir, &["report", "slow", "fast", "middle", "--baseline", "middle"], 1);
    assert!(said.contains("slow against middle: WORSE") && said.contains("fast against middle: BETTER"), "{said}");
}

#[test]
fn histories_grow_by_a_line_per_run() {
    let folder = folder();
    let dir = folder.path();
    for (i, rate) in ["20Gbps", "20Gbps", "10Gbps"].iter().enumerate() {
        let out = format!("run{i}");
        replay(dir, &out, "1..2", &[&format!("topology.rate={rate}")]);
        exits(dir, &["report", &out, "--history", "h.jsonl"], 0);
        exits(dir, &["report", &out, "--history", "h.jsonl"], 0);
    }
    // The baseline is remembered if it is among the runs, in whatever spelling.
    exits(dir, &["report", "./run0", "run1", "--baseline", "run0", "--history", "both.jsonl"], 0);
    assert_eq!(fs::read_to_string(dir.join("both.jsonl")).expect("written").lines().count(), 2);
    let text = fs::read_to_string(dir.join("h.jsonl")).expect("written");
    assert_eq!(text.lines().count(), 3);
    let shown = exits(dir, &["history", "h.jsonl", "-o", "h.html"], 0);
    assert!(shown.contains("small: AoM mean, cluster at all defaults (3 runs)") && shown.contains('█'), "{shown}");
    assert_eq!(exits(dir, &["report", "--history", "h.jsonl"], 0), shown);
    assert!(fs::read_to_string(dir.join("h.html")).expect("written").contains("<polyline"));
    let series: serde_json::Value =
        serde_json::from_str(&exits(dir, &["history", "h.jsonl", "--metric", "loss", "--json"], 0)).expect("one line");
    assert_eq!((&series["schema"], &series["metric"]), (&"series/1".into(), &"loss".into()));
    refuses(dir, &["history", "h.jsonl", "--metric", "losss"], &["did you mean \"loss\"?"]);
    refuses(dir, &["history", "h.jsonl", "-o", "h.pdf"], &["h.pdf"]);
    let of_oldest = ["report", "run0", "--age", "oldest", "--history", "h.jsonl"];
    refuses(dir, &of_oldest, &["--age oldest", "newest"]);
    refuses(dir, &[&of_oldest[..], &["--baseline", "run1"]].concat(), &["--age oldest", "newest"]);
    fs::write(dir.join("h.jsonl"), format!("{text}{{\"version\":1,\"ru")).expect("writable");
    let torn = pktgen(dir, &["history", "h.jsonl"]);
    let shown = String::from_utf8_lossy(&torn.stdout);
    assert!(torn.status.success() && shown.contains("warning: h.jsonl:4: skipped"), "{shown}{}", text_of(&torn));
    // JSON has the number, and the sentences are on stderr.
    let torn = pktgen(dir, &["history", "h.jsonl", "--metric", "loss", "--json"]);
    let series: serde_json::Value = serde_json::from_slice(&torn.stdout).expect("one line");
    assert!(series["unread"] == 1 && text_of(&torn).contains("h.jsonl:4: skipped"), "{series}");
}

fn text_of(output: &Output) -> String {
    text(&output.stderr)
}

/// Measurement 3 of the comparison: ages of real runs increased by 5 %, exactly and by a change of the experiment.
#[test]
fn a_planted_regression_of_5_percent_is_called_worse() {
    let folder = folder();
    let dir = folder.path();
    replay(dir, "old", "1..30", &[]);
    replay(dir, "planted", "1..30", &[PLANTED]);
    let rules = Rules::parse(AGE_ALONE, "rules").expect("rules");
    let (old, planted) = (side(dir, "old"), side(dir, "planted"));
    let mut few = old.clone();
    few.sweep.runs.truncate(10);
    let mut scaled = few.clone();
    for run in &mut scaled.sweep.runs {
        run.scalars.insert("aom_mean/cluster", 1.05 * run.scalars["aom_mean/cluster"]);
    }
    for (old, new, least, most) in [(&few, &scaled, 0.0499, 0.0501), (&old, &planted, 0.03, 0.08)] {
        let comparison = compared(old, new, &rules);
        let effect = comparison.versus[0].judgements[0].effect.expect("an effect");
        assert!((least..=most).contains(&effect.value), "{effect:?}");
        assert_eq!(comparison.outcome, Some(Outcome::Worse), "{effect:?}");
        assert_eq!(compared(new, old, &rules).outcome, Some(Outcome::Better));
    }
}

const AGE_ALONE: &str = "[[rule]]\nmetric = \"aom_mean/cluster\"\ndirection = \"lower\"\ntolerance = \"2%\"\n";
/// Costs about 5 % of Age-of-Model: ages of single seeds differ by 3.6 %, so certainty takes more than 10 seeds.
const PLANTED: &str = "topology.rate=19Gbps";

/// Measurement 3: 100 pairs of samples of the same experiment, each of 10 seeds; the two of a pair share no seed.
#[test]
fn two_samples_of_the_same_thing_are_hardly_ever_called_different() {
    let folder = folder();
    let dir = folder.path();
    replay(dir, "pool", "1..400", &[]);
    let pool = side(dir, "pool");
    let (mut worse, mut different) = (0, 0);
    // A small generator is sufficient for shuffling.
    let mut state = 1u64;
    for _ in 0..100 {
        let mut order: Vec<usize> = (0..pool.sweep.runs.len()).collect();
        for i in (1..order.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            order.swap(i, (state >> 33) as usize % (i + 1));
        }
        let sample = |from: usize, name: &str| {
            let mut side = Side { name: name.to_owned(), sweep: pool.sweep.clone() };
            let run = |(k, at): (usize, &usize)| {
                let mut run = pool.sweep.runs[*at].clone();
                run.seed = k as u64;
                run
            };
            side.sweep.runs = order[from..from + 10].iter().enumerate().map(run).collect();
            side
        };
        let comparison = compared(&sample(0, "old"), &sample(10, "new"), &Rules::built_in());
        assert!(comparison.valid && comparison.versus[0].pairing.pairs == 10);
        worse += usize::from(comparison.outcome == Some(Outcome::Worse));
        different += usize::from(!matches!(comparison.outcome, Some(Outcome::Same | Outcome::CannotTell)));
    }
    assert!(different <= 5 && worse <= 5, "{different} called different, {worse} of them worse");
}

/// 100 points of 5 seeds on each side, five metrics each; `analysis/compare/benches/compare.rs` measures the duration.
#[test]
fn a_thousand_runs_are_compared() {
    let folder = folder();
    replay(folder.path(), "one", "1..2", &[]);
    let one = side(folder.path(), "one");
    let many = |name: &str, by: f64| {
        let mut side = Side { name: name.to_owned(), sweep: one.sweep.clone() };
        side.sweep.runs = (0..500u64)
            .map(|i| {
                let mut run = one.sweep.runs[0].clone();
                run.seed = i % 5;
                Arc::make_mut(&mut run.labels).insert("rate".into(), (i / 5).to_string());
                let noise = 1.0 + 0.01 * ((i * 7919 % 101) as f64 / 101.0) * by;
                run.scalars = run.scalars.iter().map(|(key, value)| (key.clone(), value * noise)).collect();
                run
            })
            .collect();
        side.sweep.options = Options::default();
        side
    };
    let (old, new) = (many("old", 1.0), many("new", 1.7));
    let comparison = compared(&old, &new, &Rules::built_in());
    let json = comparison.render("json").expect("a form").expect("JSON");
    assert_eq!(comparison.versus[0].pairing.pairs, 500);
    assert!(comparison.versus[0].judgements.len() >= 300 && json.len() > 1000);
}
