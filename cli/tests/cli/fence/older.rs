//! Files of older versions remain readable with the same contents: configs, run dirs, baselines and histories (made by
//! `older/make` with a binary of that version).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{Scratch, compared, finish, unpacked, unstamped};

/// Commits of these versions.
const VERSIONS: [&str; 2] = ["7799c96", "f27ad16"];
/// Runs, and folders of runs.
const RUNS: [&str; 14] = [
    "baseline", "control", "counters", "device", "killed", "lanes", "merged", "reduce", "server", "shards", "sparse",
    "study", "sweep", "training",
];
/// Runs in real time, and a part with the sent packets.
const MORE: [&str; 2] = ["wire", "workers"];

/// Defaults that changed since then: key, old value, new value. 32 registers take 13 stages, and a pipeline has 12 (LIBRA §4).
const CHANGED: [(&str, &str, &str); 1] = [("endpoint.registers", "32", "28")];
/// Keys that were resolved and had no effect, by the beginning of the config's name: sums with exponents have no factor, and sums by
/// key had queues of 65,536 slots.
const UNUSED: [(&str, &str); 3] =
    [("wires/switchml.toml", "endpoint.scale"), ("libra/", "target.slots"), ("wires/libra.toml", "target.slots")];
/// Configs that set 32 themselves.
const REFUSED: [&str; 2] = ["libra/figure12.toml", "libra/recorded.toml"];

/// Returns the files of a version.
fn opened(version: &str) -> Scratch {
    let scratch = Scratch::new();
    fs::remove_file(scratch.path("configs")).expect("a link");
    let packed = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fence/older/{version}.tar.zst"));
    let archive = unpacked(&fs::read(&packed).unwrap_or_else(|fault| panic!("{}: {fault}", packed.display())));
    let mut tar = Command::new("tar");
    let mut tar = tar.args(["-x", "-C"]).arg(scratch.path("")).stdin(Stdio::piped()).spawn().expect("tar runs");
    std::io::Write::write_all(&mut tar.stdin.take().expect("a pipe"), &archive).expect("tar reads");
    assert!(tar.wait().expect("tar ends").success(), "{version}: tar");
    scratch
}

/// Lists the numbers and booleans of a JSON document, each with its path, except pictures, which repeat the records.
fn leaves(value: &Value, path: &str, out: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            let wanted = map.iter().filter(|(key, _)| !["charts", "made", "created_unix_ns"].contains(&key.as_str()));
            wanted.for_each(|(key, value)| leaves(value, &format!("{path}/{key}"), out));
        }
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(i, value)| leaves(value, &format!("{path}/{i}"), out));
        }
        Value::Number(_) | Value::Bool(_) => out.push(format!("{path}\t{value}")),
        Value::Null | Value::String(_) => {}
    }
}

/// Returns the numbers of a JSON document as a part.
fn numbers(name: &str, json: &str) -> String {
    let value: Value = serde_json::from_str(json).unwrap_or_else(|fault| panic!("{name}: {fault}"));
    let mut out = Vec::new();
    leaves(&value, "", &mut out);
    out.iter().map(|line| format!("{name}\t{line}\n")).collect()
}

/// Returns the JSON output of `pktgen report`.
fn report(scratch: &Scratch, name: &str, args: &[&str]) -> Result<String, String> {
    let file = format!("{name}.json");
    scratch.output(&[&["-q", "report", "-o", &file], args].concat(), &[])?;
    let text = fs::read_to_string(scratch.path(&file)).expect("a report");
    // The version was a separate number.
    let version = |kind: &str| format!("\"schema\": \"{kind}/1\"");
    let text = ["report", "comparison"].iter().fold(text, |text, kind| text.replace(&version(kind), "\"version\": 1"));
    Ok(numbers(name, &text))
}

fn reports(scratch: &Scratch) -> Result<String, String> {
    let mut found = String::new();
    for runs in ["sweep", "training", "sparse", "study", "merged", "shards"] {
        found += &report(scratch, runs, &[runs])?;
    }
    found += &report(scratch, "compared", &["baseline", "--baseline", "sweep"])?;
    // One series per line.
    let history = scratch.output(&["-q", "--json", "history", "history.jsonl", "--all"], &[])?;
    found += &numbers("history", &format!("[{}]", history.trim_end().replace('\n', ",")));
    let captured = scratch.output(&["-q", "--json", "analyze", "server.pcapng", "--sent", "workers.pcapng"], &[]);
    Ok(found + &unstamped(&captured?).lines().map(|line| format!("captured\t{line}\n")).collect::<String>())
}

/// Returns the numbers of a line of a history.
fn remembered(line: &str) -> BTreeSet<String> {
    let (mut out, value) = (Vec::new(), serde_json::from_str(line).expect("a line of JSON"));
    leaves(&value, "", &mut out);
    // The median of a count by reason was that of the runs with a non-zero count; a latency that nothing measures was 0.
    let is_other = |leaf: &String| {
        let others = ["/medians/dropped/", "/medians/aggregation_latency_mean\t0.0"];
        leaf.starts_with("/version\t") || others.iter().any(|other| leaf.contains(other))
    };
    out.into_iter().filter(|leaf| !is_other(leaf)).collect()
}

/// Runs whose medians that version wrote into its history, in this order.
const REMEMBERED: [&str; 4] = ["sweep", "baseline", "control", "training"];

/// Every number that the version wrote into its history is still found in its runs.
fn forgotten(scratch: &Scratch) -> Result<Vec<String>, String> {
    for runs in REMEMBERED {
        scratch.output(&["-q", "report", runs, "--history", "today.jsonl", "-o", "again.json"], &[])?;
    }
    let read = |name: &str| fs::read_to_string(scratch.path(name)).expect("a history");
    let (old, today) = (read("history.jsonl"), read("today.jsonl"));
    assert_eq!((old.lines().count(), today.lines().count()), (REMEMBERED.len(), REMEMBERED.len()));
    let mut differences = Vec::new();
    for ((old, today), runs) in old.lines().zip(today.lines()).zip(REMEMBERED) {
        let (old, today) = (remembered(old), remembered(today));
        assert!(old.len() > 100, "{runs}: {} numbers", old.len());
        differences.extend(
            old.difference(&today).map(|was| format!("{runs}, history: {} is no more", was.replace('\t', " "))),
        );
    }
    Ok(differences)
}

#[test]
fn runs_of_older_versions_say_what_they_said() {
    let mut differences = Vec::new();
    for version in VERSIONS {
        let scratch = opened(version);
        scratch.run(&[], &["-q", "analyze", "--recover", "killed"], &[]);
        for run in RUNS.into_iter().chain(MORE) {
            let name = format!("older/{version}/{run}");
            let found = scratch.dump(run);
            differences
                .extend(found.map_or_else(|why| vec![format!("{name}: {why}")], |found| compared(&name, &found)));
        }
        let lost = forgotten(&scratch).unwrap_or_else(|why| vec![why]);
        differences.extend(lost.into_iter().map(|what| format!("older/{version}/{what}")));
        let name = format!("older/{version}/reports");
        let found = reports(&scratch);
        differences.extend(found.map_or_else(|why| vec![format!("{name}: {why}")], |found| compared(&name, &found)));
        // The first version did not record the overrides that `make` gives.
        scratch.output(&["-q", "report", "sweep", "-o", "made.md"], &[]).expect("a report");
        let made = fs::read_to_string(scratch.path("made.md")).expect("a report");
        let unknown = made.contains("overrides: not recorded");
        assert!(unknown == (version == VERSIONS[0]) && !made.contains("overrides: none"), "{version}: {made}");
    }
    finish(&differences);
}

/// Writes the fractions in a value by one rule: published numbers are resolved as they are written.
fn by_value(text: &str) -> String {
    let number = |word: &str| {
        let own = word.trim_end_matches([',', ']', '}']);
        let number = own.parse::<f64>().ok().filter(|_| own.contains(['.', 'e']));
        number.map_or(word.to_owned(), |number| format!("{number:?}{}", &word[own.len()..]))
    };
    text.split(' ').map(number).collect::<Vec<_>>().join(" ")
}

/// Returns the values by dotted key.
fn keys(config: &str) -> BTreeMap<String, String> {
    let (mut section, mut all) = (String::new(), BTreeMap::new());
    for line in config.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = format!("{}.", name.trim_matches(['[', ']']));
        } else if let Some((key, value)) = line.split_once(" = ") {
            // Several tables of one name are distinguished by their contents.
            all.insert(format!("{section}{key}"), by_value(value));
        }
    }
    all
}

#[test]
fn configs_of_older_versions_mean_what_they_meant() {
    let mut differences = Vec::new();
    for version in VERSIONS {
        let scratch = opened(version);
        let mut all: Vec<PathBuf> = Vec::new();
        for folder in fs::read_dir(scratch.path("configs")).expect("configs") {
            let files = fs::read_dir(folder.expect("an entry").path()).expect("a folder of configs");
            all.extend(files.map(|file| file.expect("an entry").path()));
        }
        all.sort_unstable();
        let mut resolved = BTreeSet::new();
        for path in all {
            let below = path.strip_prefix(scratch.path("configs")).expect("below configs").display().to_string();
            let old = scratch.path("resolved").join(below.replace('/', "-"));
            if !old.exists() {
                continue;
            }
            resolved.insert(below.clone());
            let name = format!("older/{version}/configs/{below}");
            match scratch.output(&["replay", &format!("configs/{below}"), "--print-config"], &[]) {
                Err(why) if REFUSED.contains(&&*below) => {
                    assert!(why.contains("say with target.stages"), "{name}: {why}")
                }
                Err(why) => differences.push(format!("{name}: {why}")),
                Ok(text) => {
                    let meant = |key: &str, was: &str| match CHANGED.iter().find(|(known, ..)| *known == key) {
                        Some((_, old, new)) if *old == was => (*new).to_owned(),
                        _ => was.to_owned(),
                    };
                    let (was, is) = (keys(&fs::read_to_string(&old).expect("readable")), keys(&text));
                    let is_used =
                        |key: &str| !UNUSED.iter().any(|(of, unused)| below.starts_with(of) && *unused == key);
                    let moved =
                        was.iter().filter(|(key, value)| is_used(key) && is.get(*key) != Some(&meant(key, value)));
                    differences.extend(moved.map(|(key, value)| {
                        format!("{name}: {key} is {}, not {value}", is.get(key).map_or("missing", String::as_str))
                    }));
                }
            }
        }
        assert!(resolved.len() > 25, "{version}: {resolved:?}");
    }
    finish(&differences);
}
