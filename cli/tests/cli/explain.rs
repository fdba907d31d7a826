//! Every line of real runs of every system is defined, `pktgen explain` defines the terms, and docs/schema.md is its
//! output: `UPDATE_DOCS=1 cargo test --release --workspace --test cli explain::` rewrites it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{cases_of_systems, pktgen, root};
use pktgen_capture::DEFINITIONS;
use pktgen_core::config::{Document, Value};
use pktgen_planning::STUDIES;
use pktgen_records::Line;
use pktgen_report::definitions::{definition_of, families};

fn succeeds(folder: &Path, args: &[&str]) -> String {
    let output = pktgen(folder, args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Runs the experiment without a report; returns the lines of all of its runs.
fn lines_of(folder: &Path, name: &str, experiment: &str) -> Vec<Line> {
    let file = format!("{name}.toml");
    fs::write(folder.join(&file), format!("name = \"{name}\"\n{experiment}")).expect("writable");
    succeeds(folder, &["-q", "replay", &file, "--no-report", "--out", name]);
    analyzed(folder, &[name])
}

fn analyzed(folder: &Path, args: &[&str]) -> Vec<Line> {
    let text = succeeds(folder, &[&["-q", "analyze", "--json"], args].concat());
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"))).collect()
}

/// OLAF with transmission control up to a goal, and background traffic beside it.
const OLAF: &str = r#"
[workload]
clusters = 2
workers_per_cluster = 3
updates = 60
background_rate = "5Gbps"
[schedule]
kind = "poisson"
offered = "60Gbps"
[topology]
rate = "20Gbps"
[endpoint]
workers = "transmission_control"
[format]
lanes = true
[capture]
states = true
goal = 5
"#;

/// A queue that drops, and captures of both sides.
const FIFO: &str = r#"
[workload]
clusters = 3
workers_per_cluster = 3
updates = 200
[schedule]
kind = "poisson"
offered = "60Gbps"
[topology]
rate = "40Gbps"
[target]
program = "forward"
queue = "fifo"
slots = 8
[capture]
pcap = true
"#;

/// Two jobs with stragglers, with results that lack some contributions.
const TRIO: &str = r#"
[workload]
kind = "dense"
model = "custom"
parameters = 4096
workers = 3
jobs = 2
iterations = 4
elements = 1024
compute = "1ms"
typical = "10ms"
straggler_probability = 0.5
[topology]
kind = "rack"
[endpoint]
workers = "trio_ml"
[target]
program = "trio_ml"
timeout = "2ms"
"#;

/// Real time with two queues at each end.
const QUEUES: &str = r#"
[workload]
clusters = 2
workers_per_cluster = 2
updates = 50
[schedule]
offered = "40Mbps"
[topology]
rate = "20Mbps"
[transport]
kind = "ring"
queues = 2
linger = "50ms"
"#;

const SWITCHML: &str = r#"
[workload]
kind = "dense"
model = "custom"
parameters = 4096
workers = 3
iterations = 3
elements = 256
compute = "1ms"
[topology]
kind = "rack"
[endpoint]
workers = "switchml"
"#;

/// Agents that learn, up to a reward that is reached at once.
const LEARN: &str = r#"
[workload]
kind = "learn"
clusters = 1
updates = 20
reward_goal = 1.0
[endpoint]
workers = "learner"
"#;

fn sparse(workers: &str) -> String {
    format!(
        "[workload]\nkind = \"sparse\"\nmodel = \"oa\"\npairs = 2000\nworkers = 5\niterations = 3\ncompute = \"20us\"\n\
         [topology]\nkind = \"star\"\nservers = 2\n[endpoint]\nworkers = \"{workers}\"\ntimeout = \"30us\"\n[transport]\nfault_loss = 0.03\n"
    )
}

/// Studies by kind, with keys that shorten them.
const EXAMPLES: [(&str, &str); 7] = [
    ("float_sum", "pairs = 100"),
    ("float_sum", "pairs = 100\nmethod = \"integer\""),
    ("negotiation", ""),
    ("hot_precision", ""),
    ("recirculations", "batches = 2"),
    ("soar", "size = 16\nk = 3\nuse_case = \"word_count\""),
    (
        "atro",
        "scheme = \"spar\"\nrepetitions = 2\nworkers = 90\nswitches = 20\nports = 24\naggregators = 4\nlayers = 5",
    ),
];

/// Returns the lines of runs of every system, and of captures.
fn everything(folder: &Path) -> Vec<Line> {
    let mut lines = lines_of(folder, "olaf", OLAF);
    lines.extend(lines_of(folder, "fifo", FIFO));
    lines.extend(lines_of(folder, "learn", LEARN));
    lines.extend(lines_of(folder, "trio", TRIO));
    lines.extend(lines_of(folder, "queues", QUEUES));
    lines.extend(lines_of(
        folder,
        "stamps",
        &QUEUES
            .replace("kind = \"ring\"", "kind = \"udp\"")
            .replace("queues = 2", "stamps = \"kernel\"\nsent_stamps_every = 5"),
    ));
    lines.extend(lines_of(folder, "switchml", SWITCHML));
    for workers in ["libra", "ps_lite"] {
        lines.extend(lines_of(folder, workers, &sparse(workers)));
    }
    // Systems with an experiment for wires, in virtual time and small, as the fence runs it.
    for (config, set) in cases_of_systems().into_iter().filter(|(config, _)| config.ends_with("/wires")) {
        let (file, out) = (root().join("configs").join(format!("{config}.toml")), config.replace('/', "-"));
        let set = set.iter().flat_map(|set| ["--set", set]);
        let words = ["-q", "replay", file.to_str().expect("UTF-8"), "--no-report", "--out", out.as_str()];
        succeeds(folder, &words.into_iter().chain(set).collect::<Vec<_>>());
        lines.extend(analyzed(folder, &[&out]));
    }
    for (i, (kind, keys)) in EXAMPLES.iter().enumerate() {
        lines.extend(lines_of(folder, &format!("study{i}"), &format!("[study]\nkind = \"{kind}\"\n{keys}\n")));
    }
    succeeds(folder, &["-q", "place", "soar", "BT(8)", "-k", "2", "--emit", "soar.toml"]);
    let atro = "--workers 90 --switches 20 --ports 24 --aggregators 4 --emit atro.toml --messages 40";
    succeeds(folder, &[&["-q", "place", "atro"][..], &atro.split(' ').collect::<Vec<_>>()].concat());
    for plan in ["soar", "atro"] {
        succeeds(folder, &["-q", "replay", &format!("{plan}.toml"), "--no-report", "--out", plan]);
        lines.extend(analyzed(folder, &[plan]));
    }
    lines.extend(analyzed(folder, &["fifo/capture.pcapng", "--sent", "fifo/sent.pcapng", "--forwards"]));
    lines.extend(analyzed(folder, &["fifo/capture.pcapng", "--sent", "fifo/sent.pcapng"]));
    lines
}

/// Metrics without a line in any run here, since none has two clocks, a flow that never delivered, or a device without
/// books; and those that reports add to runs.
const ELSEWHERE: [&str; 5] =
    ["clock_offset", "clock_offset_error", "flow_never_delivered", "sums_unchecked", "damaged"];
const OF_REPORTS: [&str; 2] = ["groups", "comparison"];

#[test]
fn definitions_are_sentences_and_no_two_are_of_the_same_lines() {
    let mut told = BTreeSet::new();
    for family in families(&STUDIES, &DEFINITIONS) {
        assert!(!family.definitions.is_empty() && !family.about.is_empty(), "{}", family.name);
        for known in family.definitions {
            let what = format!("{} in {}", known.metric, known.unit);
            let names: Vec<_> = known.labels.iter().map(|label| (label.name, label.values)).collect();
            assert!(told.insert((known.metric, known.unit, names)), "{what} is defined twice");
            assert!(!known.unit.is_empty() && !known.metric.is_empty(), "{what}");
            assert!(known.definition.ends_with('.') && known.definition.len() > 10, "{what}: {}", known.definition);
            assert!(known.labels.iter().all(|label| !label.about.is_empty()), "{what}");
            assert!(known.keys().iter().all(|key| known.has_key(key)), "{what}");
        }
    }
    assert!(told.len() > 120, "{}", told.len());
}

#[test]
fn every_line_of_every_system_is_defined_and_every_definition_has_lines() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let lines = everything(folder.path());
    let (mut undefined, mut used) = (BTreeSet::new(), BTreeSet::new());
    let families = families(&STUDIES, &DEFINITIONS);
    for line in &lines {
        match definition_of(line, &families) {
            Some(known) => _ = used.insert((known.metric, known.unit, known.definition)),
            None => _ = undefined.insert(line.to_json()),
        }
    }
    assert!(undefined.is_empty(), "nobody defines {undefined:#?}");
    let families = families.into_iter().filter(|family| !OF_REPORTS.contains(&family.name));
    let all = families.flat_map(|family| family.definitions);
    let all = all.map(|known| (known.metric, known.unit, known.definition));
    let unused: Vec<_> = all.filter(|known| !used.contains(known) && !ELSEWHERE.contains(&known.0)).collect();
    assert!(unused.is_empty(), "no run has {unused:#?}");
}

#[test]
fn what_reports_add_is_defined() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let experiment = "name = \"x\"\n[workload]\nclusters = 2\nworkers_per_cluster = 2\nupdates = 20\n[schedule]\noffered = \"40Gbps\"\n\
        [capture]\ngoal = 2\n[sweep]\nseeds = \"1..2\"\n[[sweep.variants]]\nname = \"A\"\n[[sweep.variants]]\nname = \"B\"\n\
        target.slots = 4\n[report]\nbaseline = \"A\"\nmetrics = [\"aom_cut/cluster\", \"speedup\", \"received_ratio\", \
        \"aom_mean/cluster/S1\", \"loss/S1\", \"aom_fairness/groups\"]\n[[report.groups]]\nname = \"S1\"\nclusters = \"0\"\n";
    fs::write(folder.join("x.toml"), experiment).expect("writable");
    let report: serde_json::Value =
        serde_json::from_str(&succeeds(folder, &["-q", "replay", "x.toml", "--out", "x", "--json"])).expect("JSON");
    let columns = report["columns"].as_array().expect("columns");
    assert!(columns.len() >= 6, "{columns:?}");
    for column in columns {
        let key = column["key"].as_str().expect("a key");
        let mut all = families(&STUDIES, &DEFINITIONS).into_iter().flat_map(|family| family.definitions);
        assert!(all.any(|known| known.has_key(key)), "nobody defines {key}");
    }
}

#[test]
fn names_are_explained() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let explain = |args: &[&str]| succeeds(folder.path(), &[&["explain"], args].concat());
    for (name, words) in [
        ("aom_mean", &["metric (aom)", "exact integral", "ns", "lower", "aom_mean/worker", "design §4", "full"][..]),
        ("aom_mean/cluster", &["metric (aom)", "timing  one-way"]),
        ("aom_mean/cluster/S1", &["metric (groups)"]),
        ("dropped/queue_full", &["metric (counts)", "updates"]),
        ("received.newest_gen_ps", &["column of received", "int64", "unit    ps"]),
        ("t_gen_ps", &["column of sent", "column of tables/sent"]),
        ("queue_full", &["drop reason", "code    0", "no free slot"]),
        ("olaf", &["in pktgen list formats", "in pktgen list programs"]),
        ("aom", &["in pktgen list metrics", "aom_peak_p99"]),
        ("phi", &["metric (plan)", "metric (findings)"]),
        ("device/packets", &["metric (results)", "count"]),
        ("device_drops", &["cause of a diagnosis", "the device loses frames that it took"]),
        ("spans_differ", &["note on a capture", "span less time than the senders'"]),
        ("damaged", &["fault of a verdict", "note on a capture"]),
        ("clause_verdict", &["in pktgen list schemas", "verdict on one clause"]),
    ] {
        let said = explain(&[name]);
        for word in words {
            assert!(said.contains(word), "{name} should say {word:?}: {said}");
        }
    }
    assert!(!explain(&["aom_mean/cluster"]).contains("groups"));
    let listed = succeeds(folder.path(), &["list", "configs", "--json"]);
    let configs: Vec<serde_json::Value> =
        listed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let names: Vec<&str> = configs.iter().map(|config| config["name"].as_str().expect("a name")).collect();
    let said = explain(&names);
    for (name, config) in names.iter().zip(&configs) {
        let own = format!("{name}: in pktgen list configs\n  {}", config["about"].as_str().expect("a text"));
        assert!(said.contains(&own), "{own}: {said}");
    }
    let line: serde_json::Value = serde_json::from_str(&explain(&["sums_wrong", "--json"])).expect("one object");
    assert_eq!((&line["unit"], &line["better"], line["timing"].is_null()), (&"packets".into(), &"lower".into(), true));
    let all = explain(&["--all", "--json"]);
    assert!(all.lines().count() > 300, "{}", all.lines().count());
    assert!(all.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
    assert_eq!(explain(&["--all", "--markdown"]), explain(&["--markdown"]));
    let one = explain(&["loss", "--markdown"]);
    assert!(one.contains("| `loss` |") && !one.contains("aom_mean"), "{one}");
}

/// Whether the clocks of hosts matter is a property of every time.
#[test]
fn every_time_has_a_timing() {
    let all = families(&STUDIES, &DEFINITIONS);
    for known in all.iter().flat_map(|family| &family.definitions) {
        assert_eq!(known.timing.is_some(), known.unit == "ns", "{}", known.metric);
    }
}

#[test]
fn metrics_of_shipped_reports_are_defined() {
    let known = families(&STUDIES, &DEFINITIONS).into_iter().flat_map(|family| family.definitions);
    let known: Vec<_> = known.collect();
    let mut found = 0;
    for line in succeeds(&root(), &["list", "configs", "--json"]).lines() {
        let config: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let name = config["name"].as_str().expect("a name");
        let file = root().join("configs").join(format!("{name}.toml"));
        let document = Document::load(&file, &[]).expect("an experiment");
        let Some(Value::List(metrics)) = document.get("report.metrics") else { continue };
        for key in metrics.iter().map(|entry| entry.value.to_label()) {
            assert!(known.iter().any(|known| known.has_key(&key)), "{name}: there is no metric \"{key}\"");
            found += 1;
        }
    }
    assert!(found > 100, "{found}");
}

#[test]
fn what_there_is_not_is_refused_with_what_is_near() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (args, words) in [
        (&["aom_men"][..], &["\"aom_men\"", "did you mean \"aom_mean\"?"][..]),
        (&["loss", "recieved.packet"], &["\"recieved.packet\"", "received.packet"]),
        (&["aom_mean/rack"], &["\"aom_mean/rack\""]),
        (&["aom_mean/cluster/id"], &[][..]),
        (&["--markdown", "--json"], &["choose one"]),
        (&["--all", "loss"], &["--all"]),
    ] {
        let output = pktgen(folder.path(), &[&["explain"], args].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        // Any word after a flow may be a group.
        let expected = if words.is_empty() { 0 } else { 2 };
        assert_eq!(output.status.code(), Some(expected), "{args:?}: {said}");
        assert!(words.iter().all(|word| said.contains(word)), "{args:?}: {said}");
        assert!(expected == 0 || output.stdout.is_empty(), "{args:?}");
    }
}

fn schema_page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/schema.md")
}

#[test]
fn the_schema_page_is_what_explain_prints() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let fresh = succeeds(folder.path(), &["explain", "--markdown"]);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(schema_page(), fresh).expect("writable");
        return;
    }
    let shown = fs::read_to_string(schema_page()).expect("docs/schema.md");
    assert!(shown == fresh, "docs/schema.md is old; run with UPDATE_DOCS=1 and review the difference");
}

#[test]
fn columns_of_files_are_those_that_are_explained() {
    let text = fs::read_to_string(schema_page()).expect("docs/schema.md");
    for stream in ["sent", "books", "received", "states", "iterations", "results", "frames", "trace", "tables/sent"] {
        assert!(text.contains(&format!("### {stream}\n")), "{stream}");
    }
}
