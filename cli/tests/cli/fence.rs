//! The fence: every config at a small scale gives the streams, metrics and verdicts stored in `cli/tests/fence/kept`,
//! and files of older versions remain readable (docs/dump.md). A difference is reported by config, run, part, column
//! and row. `UPDATE_FENCE=1` rewrites the stored dumps.

mod cases;
mod compare;
mod older;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use crate::support::netns::Net;
use crate::support::{cases_of_systems, root};
use cases::{Case, DAMAGED, FILES, MODELS, PROFILES, RULES, SENDERS, VIRTUAL, WIRES};
use pktgen_core::record::digest::file_digest;
use pktgen_testing::{Need, skip};
use pktgen_wire::pcap::{Form, Reader, Writer, WriterOptions};
use tempfile::TempDir;

/// Compression level of the stored dumps.
const LEVEL: i32 = 19;
/// Notes that depend on the host.
const OF_HOST: [&str; 4] = ["far_core", "one_queue", "shared_cores", "short_socket"];

fn kept() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fence/kept")
}

fn updates() -> bool {
    std::env::var_os("UPDATE_FENCE").is_some()
}

/// A folder in which experiments find their traces.
struct Scratch(TempDir);

impl Scratch {
    fn new() -> Scratch {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).expect("the repository");
        for name in ["configs", "traces"] {
            std::os::unix::fs::symlink(root.join(name), folder.path().join(name)).expect("a link");
        }
        Scratch(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, before: &[String], args: &[&str], set: &[&str]) -> Output {
        let binary = env!("CARGO_BIN_EXE_pktgen").to_owned();
        let mut all = before.iter().chain([&binary]);
        let mut command = Command::new(all.next().expect("a program"));
        command.args(all).args(args).args(set.iter().flat_map(|set| ["--set", set])).current_dir(self.0.path());
        command.output().expect("the binary runs")
    }

    /// Returns standard output; an error describes the failure. Invalid runs are no failure: dumps have their verdicts.
    fn output(&self, args: &[&str], set: &[&str]) -> Result<String, String> {
        said(args, &self.run(&[], args, set))
    }

    /// Returns the dump of `run`, including the capture files in its folders.
    fn dump(&self, run: &str) -> Result<String, String> {
        let (mut out, dump) = (String::new(), self.output(&["-q", "dump", "--canonical", run], &[])?);
        for line in dump.lines() {
            out += &format!("{line}\n");
            if let Some(folder) = line.strip_prefix("run\t") {
                out += &files(&self.path(run).join(folder));
            }
        }
        Ok(out)
    }
}

fn said(args: &[&str], output: &Output) -> Result<String, String> {
    match output.status.code() {
        Some(0 | 1) => String::from_utf8(output.stdout.clone()).map_err(|error| error.to_string()),
        _ => Err(format!("pktgen {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// Returns a line about each capture file in `folder`.
fn files(folder: &Path) -> String {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut captures: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "pcapng")).collect();
    captures.sort_unstable();
    let line = |path: &PathBuf| {
        let digest = file_digest(path).expect("a readable file");
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        format!("file\t{name}\t{}\t{}\n", digest.bytes, digest.sha256)
    };
    captures.iter().map(line).collect()
}

/// Returns the parts of a dump for reviewers: digests, verdicts, and the metrics of all flows.
fn summary(dump: &str, digests: &str) -> String {
    let single = |line: &str| {
        let labels = line.split('\t').nth(2).unwrap_or_default();
        labels.split(' ').any(|label| label.starts_with("id=") || label.starts_with("n="))
    };
    let mut digests = digests.lines().filter(|line| !line.starts_with("run\t"));
    let mut out = String::new();
    for line in dump.lines() {
        let kind = line.split('\t').next().unwrap_or_default();
        let told = match kind {
            "valid" | "fault" | "note" | "remark" | "file" | "run" => true,
            "metric" => !single(line),
            _ => false,
        };
        if told {
            out += &format!("{line}\n");
        }
        if kind == "run" {
            for line in digests.by_ref() {
                out += &format!("{line}\n");
                if line.starts_with("digest\tverdict\t") {
                    break;
                }
            }
        }
    }
    out
}

/// Returns the differences from the dump stored as `name`, which is rewritten on request.
fn compared(name: &str, found: &str) -> Vec<String> {
    let path = kept().join(format!("{name}.zst"));
    if updates() {
        fs::create_dir_all(path.parent().expect("a folder")).expect("writable");
        let same = fs::read(&path).is_ok_and(|packed| unpacked(&packed) == found.as_bytes());
        if !same {
            fs::write(&path, zstd::encode_all(found.as_bytes(), LEVEL).expect("packed")).expect("writable");
        }
        return Vec::new();
    }
    let Some(old) = kept_dump(name) else { return vec![format!("{name}: nothing is kept")] };
    let found = without_new_metrics(&old, found);
    compare::differences(&old, &found).into_iter().map(|what| format!("{name}: {what}")).collect()
}

/// Returns the stored dump of this name.
fn kept_dump(name: &str) -> Option<String> {
    let packed = fs::read(kept().join(format!("{name}.zst"))).ok()?;
    Some(String::from_utf8(unpacked(&packed)).expect("UTF-8"))
}

/// Returns the name of the metric of a line.
fn metric_of(line: &str) -> Option<&str> {
    line.strip_prefix("metric\t")?.split('\t').next()
}

/// Returns `found` without metrics that neither `old` nor the texts of other stored dumps have: a new metric changes no number.
fn without_new_metrics(old: &str, found: &str) -> String {
    static KNOWN: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
        let files = fs::read_dir(kept()).expect("a folder").map(|entry| entry.expect("an entry").path());
        let texts = files.filter(|path| path.extension().is_some_and(|end| end == "txt"));
        let names = |text: String| text.lines().filter_map(metric_of).map(str::to_owned).collect::<Vec<_>>();
        texts.flat_map(|path| names(fs::read_to_string(path).expect("a text"))).collect()
    });
    let own: BTreeSet<&str> = old.lines().filter_map(metric_of).collect();
    let is_known = |line: &&str| metric_of(line).is_none_or(|name| own.contains(name) || KNOWN.contains(name));
    found.lines().filter(is_known).map(|line| format!("{line}\n")).collect()
}

#[test]
fn new_metrics_are_no_differences() {
    let (old, new) = ("run\t.\nmetric\tsent\t\tupdates\t1\n", "metric\tsent\t\tupdates\t2\nmetric\tloss\t\tshare\t0\n");
    assert_eq!(without_new_metrics(old, &format!("{new}metric\tnever_stored\t\tns\t5\n")), new);
}

fn unpacked(packed: &[u8]) -> Vec<u8> {
    zstd::decode_all(packed).expect("a packed file")
}

/// The same with a text for reviewers beside it.
fn compared_with_summary(name: &str, found: &str, digests: &str) -> Vec<String> {
    let (path, text) = (kept().join(format!("{name}.txt")), summary(found, digests));
    let differences = compared(name, found);
    if updates() {
        fs::write(&path, text).expect("writable");
    } else if kept_dump(name).is_some_and(|old| old == found) && fs::read_to_string(&path).is_ok_and(|old| old != text)
    {
        return vec![format!("{name}: {name}.txt is not of the same dump; dump --digest?")];
    }
    differences
}

/// Fails if there are differences, and reports them.
fn finish(differences: &[String]) {
    assert!(
        differences.is_empty(),
        "{} differences; if they are meant, UPDATE_FENCE=1 make fence writes what is kept anew\n{}",
        differences.len(),
        differences.join("\n")
    );
}

fn name_of(config: &str) -> String {
    config.replace('/', "-")
}

fn toml(config: &str) -> String {
    format!("configs/{config}.toml")
}

/// Runs the cases in virtual time whose config begins with `prefix`.
fn in_virtual_time(prefix: &str) {
    let cases: Vec<&Case> = VIRTUAL.iter().filter(|(config, _)| config.starts_with(prefix)).collect();
    assert!(!cases.is_empty());
    finish(&cases.iter().flat_map(|(config, set)| in_virtual_time_of(config, set)).collect::<Vec<_>>());
}

/// Runs one case in virtual time; returns its differences from the stored dump.
fn in_virtual_time_of(config: &str, set: &[&str]) -> Vec<String> {
    let (scratch, name) = (Scratch::new(), name_of(config));
    let run = || -> Result<Vec<String>, String> {
        let text = fs::read_to_string(scratch.path(&toml(config))).expect("a config");
        let full = |key: &str| !text.contains("[study]") && !set.iter().any(|set| set.starts_with(key));
        let mut set = set.to_vec();
        set.extend(full("capture.records").then_some(r#"capture.records="full""#));
        set.extend(full("capture.pcap").then_some("capture.pcap=true"));
        scratch.output(&["-q", "replay", &toml(config), "--no-report", "--jobs", "1", "--out", "run"], &set)?;
        let digests = scratch.output(&["-q", "dump", "--canonical", "--digest", "run"], &[])?;
        Ok(compared_with_summary(&name, &scratch.dump("run")?, &digests))
    };
    run().unwrap_or_else(|failure| vec![format!("{name}: {failure}")])
}

#[test]
fn systems_with_cases_of_their_own() {
    let cases = cases_of_systems();
    assert!(!cases.is_empty());
    let differences = cases
        .iter()
        .flat_map(|(config, set)| in_virtual_time_of(config, &set.iter().map(String::as_str).collect::<Vec<_>>()));
    finish(&differences.collect::<Vec<_>>());
}

#[test]
fn olaf_in_virtual_time() {
    in_virtual_time("olaf/");
}

#[test]
fn libra_in_virtual_time() {
    in_virtual_time("libra/");
}

#[test]
fn studies_of_soar() {
    in_virtual_time("soar/");
}

#[test]
fn studies_of_atro() {
    in_virtual_time("atro/");
}

#[test]
fn configs_of_wires_in_virtual_time() {
    in_virtual_time("wires/");
}

/// Names of the two files between the roles.
const CABLES: &str = r#"transport.files=["workers.pcapng","server.pcapng"]"#;
const OVER_FILES: &str = r#"transport.kind="pcap""#;

/// Runs the three parts of a run, one after the other.
fn in_parts(scratch: &Scratch, config: &str, run: Option<&str>, set: &[&str]) -> Result<(), String> {
    let config = toml(config);
    let set = [set, &[OVER_FILES, CABLES]].concat();
    let of_run: Vec<&str> = run.iter().flat_map(|run| ["--run", run]).collect();
    for (command, out) in [
        (&["replay", &config, "--role", "workers"][..], "a"),
        (&["target", &config], "b"),
        (&["capture", &config], "c"),
    ] {
        scratch.output(&[&["-q"], command, &of_run, &["--out", out]].concat(), &set)?;
    }
    Ok(())
}

fn over_files(config: &str, run: Option<&str>, set: &[&str]) -> Result<String, String> {
    let scratch = Scratch::new();
    in_parts(&scratch, config, run, set)?;
    scratch.output(&["-q", "merge", "a", "b", "c", "-o", "whole"], &[])?;
    Ok(scratch.dump("whole")? + &files(scratch.0.path()))
}

/// Runs with one fault, a payload changed between device and server, which makes the run invalid.
fn damaged(config: &str, set: &[&str]) -> Result<String, String> {
    let scratch = Scratch::new();
    in_parts(&scratch, config, None, set)?;
    let cable = scratch.path("server.pcapng");
    let mut bytes = fs::read(&cable).expect("a capture");
    // In the last elements of the last frame.
    let at = bytes.len() - 40;
    bytes[at] ^= 0x40;
    fs::write(&cable, bytes).expect("writable");
    let set = [set, &[OVER_FILES, CABLES]].concat();
    scratch.output(&["-q", "capture", &toml(config), "--out", "d"], &set)?;
    scratch.output(&["-q", "merge", "a", "b", "d", "-o", "whole"], &[])?;
    scratch.dump("whole")
}

fn senders_over_files(config: &str, set: &[&str]) -> Result<String, String> {
    let scratch = Scratch::new();
    let set = [set, &[OVER_FILES, CABLES]].concat();
    scratch.output(&["-q", "replay", &toml(config), "--role", "workers", "--out", "a"], &set)?;
    Ok(scratch.dump("a")? + &files(scratch.0.path()))
}

#[test]
fn capture_files() {
    let whole = FILES.iter().map(|(config, run, set)| {
        let variant = run.and_then(|run| run.split(',').next()).unwrap_or("run");
        (format!("files/{}-{variant}", name_of(config)), over_files(config, *run, set))
    });
    let senders =
        SENDERS.iter().map(|(config, set)| (format!("files/{}", name_of(config)), senders_over_files(config, set)));
    let invalid =
        DAMAGED.iter().map(|(config, set)| (format!("files/{}-damaged", name_of(config)), damaged(config, set)));
    let differences = whole.chain(senders).chain(invalid).flat_map(|(name, found)| match found {
        Ok(found) => compared(&name, &found),
        Err(failure) => vec![format!("{name}: {failure}")],
    });
    finish(&differences.collect::<Vec<_>>());
}

/// Extracts the workers' frames at the device from a run that was tapped there, without ACKs and results.
fn arrivals_of(tapped: &Path, arrivals: &Path) {
    let mut reader = Reader::open(tapped).expect("a capture");
    let first = reader.next().expect("a packet").and_then(|packet| packet.time).expect("the first packet");
    let anchor = reader.anchor_unix_ns(first);
    let mut reader = Reader::open(tapped).expect("a capture");
    // Times count from the run's anchor, which is stored as 0: a fixture has no date.
    let mut writer = Writer::create_new(arrivals, WriterOptions::new(Form::Pcapng)).expect("writable");
    while let Some(packet) = reader.next().expect("a packet") {
        let t = packet.time.and_then(|time| time.since(anchor)).expect("a time");
        // Workers are in 10.0.0.0/8.
        if packet.bytes.get(26) == Some(&10) {
            writer.packet(0, t, packet.bytes, packet.len).expect("writable");
        }
    }
    writer.finish().expect("written");
}

/// Devices that receive the frames of a run on a wire, at the same times, act in the same way.
fn replayed(arrivals: &Path, config: &str, run: Option<&str>, set: &[&str]) -> Result<String, String> {
    let scratch = Scratch::new();
    let packed = fs::read(arrivals).map_err(|fault| format!("{}: {fault}", arrivals.display()))?;
    fs::write(scratch.path("workers.pcapng"), unpacked(&packed)).expect("writable");
    // Frames from the device to workers are recorded only by a tap.
    let set = [set, &[OVER_FILES, CABLES, r#"transport.tap="tap.pcapng""#]].concat();
    let of_run: Vec<&str> = run.iter().flat_map(|run| ["--run", run]).collect();
    scratch.output(&[&["-q", "target", &toml(config)][..], &of_run, &["--out", "device"]].concat(), &set)?;
    Ok(scratch.dump("device")? + &files(scratch.0.path()))
}

/// Returns a namespace for af_packet; none if it is not permitted.
fn space() -> Option<Net> {
    match Net::make("fence", &["x"], &[(("x", "w0"), ("x", "d0")), (("x", "d1"), ("x", "s0"))]) {
        Ok(net) => Some(net),
        Err(why) => {
            skip(Need::Netns, "the fence over af_packet on veth pairs", why);
            None
        }
    }
}

/// Returns verdict, balance and updates of a new run on a wire. Its arrivals are recorded if none are stored and an update is requested.
fn live(before: &[String], arrivals: &Path, config: &str, run: Option<&str>, set: &[&str]) -> Result<String, String> {
    let scratch = Scratch::new();
    let seeds: &[&str] = if run.is_some() { &["sweep.seeds=1"] } else { &[] };
    let set = [set, seeds, &[r#"transport.tap="tap.pcapng""#]].concat();
    let args = ["-q", "replay", &toml(config), "--no-report", "--out", "run"];
    said(&args, &scratch.run(before, &args, &set))?;
    let own = format!("run/{}", run.unwrap_or_default());
    if updates() && !arrivals.exists() {
        let tapped = scratch.path(&own).join("tap-device-down.pcapng");
        arrivals_of(&tapped, &scratch.path("arrivals.pcapng"));
        let packed = fs::read(scratch.path("arrivals.pcapng")).expect("arrivals");
        fs::create_dir_all(arrivals.parent().expect("a folder")).expect("writable");
        fs::write(arrivals, zstd::encode_all(&packed[..], LEVEL).expect("packed")).expect("writable");
    }
    let dump = scratch.output(&["-q", "dump", "--canonical", own.trim_end_matches('/')], &[])?;
    let told = |line: &&str| {
        let fields: Vec<&str> = line.split('\t').collect();
        match fields[0] {
            "metric" => ["balance_unknown", "generated"].contains(&fields[1]),
            "note" => !OF_HOST.contains(&fields[1]),
            kind => ["valid", "fault", "remark"].contains(&kind),
        }
    };
    // Fields of findings may contain times.
    let coded = |line: &str| match line.split('\t').collect::<Vec<_>>()[..] {
        [kind @ ("fault" | "note"), code, _] => format!("{kind}\t{code}\n"),
        _ => format!("{line}\n"),
    };
    Ok(dump.lines().filter(told).map(coded).collect())
}

#[test]
fn wires() {
    let net = space();
    let mut differences = Vec::new();
    for (config, run, set, kinds) in WIRES {
        for kind in *kinds {
            let name = format!("wires/{}-{kind}", name_of(config));
            let arrivals = kept().join(format!("{name}.pcapng.zst"));
            let named = format!("transport.kind=\"{kind}\"");
            let mut on_wire = [*set, &[named.as_str()]].concat();
            let mut before = Vec::new();
            if *kind == "af_packet" {
                // Where results go to workers there is no server, and only one cable.
                let synchronous = ["wires/switchml", "wires/trio-ml"].contains(config);
                let four = r#"transport.interfaces=["w0","d0","d1","s0"]"#;
                on_wire.push(if synchronous { r#"transport.interfaces=["w0","d0"]"# } else { four });
                before = net.as_ref().map_or(Vec::new(), |net| net.inside("x"));
            }
            let mut told = |name: &str, found: Result<String, String>| {
                differences
                    .extend(found.map_or_else(|why| vec![format!("{name}: {why}")], |found| compared(name, &found)));
            };
            if *kind != "af_packet" || net.is_some() {
                told(&format!("{name}-live"), live(&before, &arrivals, config, *run, &on_wire));
            }
            told(&name, replayed(&arrivals, config, *run, set));
        }
    }
    finish(&differences);
}

/// Returns a text as a part whose lines are compared.
fn as_part(name: &str, text: &str) -> String {
    text.lines().map(|line| format!("{name}\t{line}\n")).collect()
}

fn model(config: &str, set: &[&str]) -> String {
    let scratch = Scratch::new();
    // The solver's queries are stored: no solver is needed.
    let args = ["-q", "verify", "aom-fairness", &toml(config), "--solver", "true", "--emit", "m.smt2", "--out", "v"];
    scratch.run(&[], &args, set);
    let mut all: Vec<PathBuf> =
        fs::read_dir(scratch.0.path()).expect("a folder").map(|e| e.expect("an entry").path()).collect();
    all.retain(|path| path.extension().is_some_and(|extension| extension == "smt2"));
    all.sort_unstable();
    let part = |path: &PathBuf| {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        as_part(&name, &fs::read_to_string(path).expect("a model"))
    };
    all.iter().map(part).collect()
}

/// Returns JSON without the versions of its objects, which docs/schemas.json contains.
fn unstamped(text: &str) -> String {
    let mut rest = text;
    let mut kept = String::new();
    while let Some((before, after)) = rest.split_once("\"schema\":") {
        kept += before;
        rest = after.split_once(',').map_or("", |(_, rest)| rest.trim_start());
    }
    kept + rest
}

#[test]
fn models_profiles_and_rules() {
    let mut differences = Vec::new();
    for (config, set) in MODELS {
        differences.extend(compared(&name_of(config), &model(config, set)));
    }
    for (profile, config, set) in PROFILES {
        let (scratch, profile_file, file) = (Scratch::new(), toml(profile), toml(config));
        let run = || -> Result<String, String> {
            let plan = scratch.output(&["-q", "device", "plan", &profile_file, &file], set)?;
            let check = scratch.output(&["-q", "--json", "device", "check", &profile_file, &file], set)?;
            Ok(as_part("plan", &unstamped(&plan)) + &as_part("check", &unstamped(&check)))
        };
        let name = name_of(profile);
        differences.extend(run().map_or_else(|why| vec![format!("{name}: {why}")], |found| compared(&name, &found)));
    }
    for rules in RULES {
        let scratch = Scratch::new();
        let found = scratch.output(&["-q", "report", "--print-rules", "--rules", &toml(rules)], &[]);
        let found = found.map(|text| as_part("rules", &text)).unwrap_or_else(|why| as_part("failed", &why));
        differences.extend(compared(&name_of(rules), &found));
    }
    finish(&differences);
}

#[test]
fn every_config_is_fenced() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs");
    let mut found = BTreeSet::new();
    for folder in fs::read_dir(&root).expect("configs") {
        let folder = folder.expect("an entry").path();
        for file in fs::read_dir(&folder).expect("a folder of configs") {
            let path = file.expect("an entry").path();
            let below = path.strip_prefix(&root).expect("below configs").with_extension("");
            found.insert(below.to_string_lossy().into_owned());
        }
    }
    let listed = VIRTUAL.iter().chain(MODELS).map(|(config, _)| *config);
    let listed = listed.chain(PROFILES.iter().map(|(profile, ..)| *profile)).chain(RULES.iter().copied());
    let listed: BTreeSet<String> = listed.map(str::to_owned).chain(cases_of_systems().into_keys()).collect();
    let only = |some: &BTreeSet<String>, others: &BTreeSet<String>| {
        some.difference(others).map(String::as_str).collect::<Vec<_>>().join(", ")
    };
    let (unlisted, gone) = (only(&found, &listed), only(&listed, &found));
    assert!(
        unlisted.is_empty() && gone.is_empty(),
        "configs without a case: {unlisted}; list each in its system's fence.json, a profile in PROFILES and others in VIRTUAL of \
         cli/tests/cli/fence/cases.rs. Cases without a config: {gone}"
    );
}

/// The texts that `scripts/fence-check` changes exist: otherwise its defects could not be planted.
#[test]
fn plants_find_their_place() {
    for plant in fs::read_dir(root().join("scripts/fence-plants")).expect("plants") {
        let path = plant.expect("an entry").path();
        let plant: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(&path).expect("readable")).expect("JSON");
        for edit in plant["edits"].as_array().expect("edits") {
            let (file, old) = (edit["file"].as_str().expect("a file"), edit["old"].as_str().expect("a text"));
            let text =
                fs::read_to_string(root().join(file)).unwrap_or_else(|e| panic!("{}: {file}: {e}", path.display()));
            assert_eq!(text.matches(old).count(), 1, "{}: {file}", path.display());
        }
        // The tests that find the defect belong to an existing crate.
        let by: Vec<&str> = plant["by"].as_array().into_iter().flatten().filter_map(|word| word.as_str()).collect();
        if let Some(at) = by.iter().position(|word| *word == "--test") {
            let named = format!("tests/{}/main.rs", by[at + 1]);
            let crates = ["cli".into()].into_iter().chain(
                fs::read_dir(root().join("replay"))
                    .expect("crates")
                    .map(|entry| format!("replay/{}", entry.expect("an entry").file_name().display())),
            );
            assert!(crates.map(|own: String| root().join(own).join(&named)).any(|file| file.exists()), "{named}");
        }
    }
}
