//! Metrics as queries: those of analysis/query/metrics.sql against the analysis, and an experiment's own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use pktgen_core::definition::Better;
use pktgen_core::user_metric::UserMetric;
use pktgen_query::metrics::queries;
use pktgen_query::user::SqlMetrics;
use pktgen_records::memory::MemoryBound;
use pktgen_records::user::{Unanswered, UserMetrics};
use pktgen_records::{Line, analyze_run};

use super::made;
use crate::support::{pktgen, root, text};

/// Runs of other systems, small.
const MORE: [&str; 6] = [
    "configs/olaf/table1.toml --set sweep.seeds=1 --set workload.updates=60 --set sweep.axes.topology.rate=[\"20Gbps\"]",
    "configs/iswitch/threshold.toml --set sweep.seeds=1 --set workload.updates=40",
    "configs/atp/fallback.toml --set sweep.seeds=1 --set workload.iterations=2 --set capture.records=full \
     --set sweep.axes.endpoint.aggregators=[100]",
    "configs/trio/figure14.toml --set sweep.seeds=1 --set workload.iterations=4 --set workload.scale=0.001 \
     --set capture.records=full --set sweep.axes.target.timeout=[\"2ms\"]",
    // Repeats of what the device has already are dropped and not lost.
    "configs/trio/figure14.toml --set sweep.seeds=1 --set workload.iterations=4 --set workload.scale=0.001 \
     --set capture.records=full --set sweep.axes.target.timeout=[\"2ms\"] --set endpoint.retransmit=1ms",
    "configs/libra/figure12.toml --run Libra,model=ncf,workers=8,seed=1 --set sweep.seeds=1 --set workload.iterations=1 \
     --set capture.records=full",
];

/// Returns the values of the lines of a metric by their labels.
fn by_labels(lines: &[Line], metric: &str, labels: &BTreeSet<&str>) -> BTreeMap<String, Option<f64>> {
    let of = |line: &&Line| {
        line.metric == metric && line.labels.keys().map(String::as_str).collect::<BTreeSet<_>>() == *labels
    };
    let key = |line: &Line| line.labels.iter().map(|(name, value)| format!("{name}={value} ")).collect::<String>();
    lines.iter().filter(of).map(|line| (key(line), line.value)).collect()
}

/// Returns the complete runs below `folder`.
fn runs_in(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("readable") {
        let path = entry.expect("readable").path();
        if path.join("manifest.json").exists() {
            found.push(path);
        } else if path.is_dir() && !path.is_symlink() {
            found.append(&mut runs_in(&path));
        }
    }
    found.sort();
    found
}

fn is_pairs(dir: &Path) -> bool {
    fs::read_to_string(dir.join("manifest.json")).expect("readable").contains("\"family\": \"pairs\"")
}

#[test]
fn metrics_are_what_their_queries_say() {
    let folder = made();
    for (i, command) in MORE.iter().enumerate() {
        let out = format!("more{i}");
        let words: Vec<&str> =
            ["-q", "replay", "--no-report", "--out", &out].into_iter().chain(command.split(' ')).collect();
        let output = pktgen(folder.path(), &words);
        assert!(output.status.success(), "{command}: {}", text(&output.stderr));
    }
    let mut compared: BTreeMap<(&str, &[&str]), usize> = BTreeMap::new();
    let queries = queries();
    let mut wrong = Vec::new();
    for dir in runs_in(folder.path()) {
        let lines = analyze_run(&dir).expect("analysed").lines;
        for query in &queries {
            let labels: BTreeSet<&str> = query.labels.iter().copied().collect();
            let (name, sql) = (query.metric.to_owned(), query.sql.to_owned());
            let metric = UserMetric { name, sql, unit: String::new(), better: Better::Neither, about: String::new() };
            let ours = match SqlMetrics.lines(&dir, &metric, MemoryBound::HALF) {
                Ok(lines) => lines,
                Err(Unanswered::NotRecorded(_)) => continue,
                Err(Unanswered::Failed(fault)) => panic!("{}: {fault}", query.metric),
            };
            let mut theirs = by_labels(&lines, query.metric, &labels);
            theirs.retain(|key, _| !key.contains("\"worker\""));
            let ours = by_labels(&ours, query.metric, &labels);
            // Sums by key do not give the number of updates they represent: such metrics have no value.
            let none = is_pairs(&dir) && theirs.values().all(Option::is_none);
            if theirs.is_empty() || none {
                continue;
            }
            let close = |a: &Option<f64>, b: &Option<f64>| match (a, b) {
                (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * a.abs().max(b.abs()),
                (a, b) => a == b,
            };
            let equal = ours.len() == theirs.len()
                && ours.iter().all(|(key, value)| theirs.get(key).is_some_and(|own| close(value, own)));
            if !equal {
                wrong.push(format!("{} of {}: {ours:?} and {theirs:?}", query.metric, dir.display()));
            }
            *compared.entry((query.metric, &query.labels)).or_default() +=
                theirs.values().filter(|value| value.is_some()).count();
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let never: Vec<_> = queries
        .iter()
        .filter(|query| compared.get(&(query.metric, &query.labels[..])).is_none_or(|n| *n == 0))
        .collect();
    assert!(never.is_empty(), "compared with no value: {never:?}");
}

/// SwitchML with losses on wires inside the process, where results do not say which transmission they hold.
const LOSING: &str = r#"name = "losing"
[workload]
kind = "dense"
model = "custom"
parameters = 9001
workers = 3
iterations = 5
elements = 64
compute = "10ms"
[topology]
kind = "rack"
host_rate = "1Gbps"
[target]
program = "switchml"
pool = 9
[endpoint]
workers = "switchml"
pool = 9
retransmit = "20ms"
[transport]
kind = "ring"
fault_loss = 0.05
"#;

#[test]
fn results_on_wires_are_joined_as_the_page_says() {
    let page = fs::read_to_string(root().join("docs/query.md")).expect("the page");
    let (_, rest) = page.split_once("A result of SwitchML on wires does not say").expect("the paragraph");
    let (sql, _) = rest.split_once("```sql\n").and_then(|(_, rest)| rest.split_once("```")).expect("a statement");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    fs::write(folder.join("losing.toml"), LOSING).expect("writable");
    let output = pktgen(folder, &["-q", "replay", "losing.toml", "--no-report", "--out", "run"]);
    // On a busy machine the run may be invalid, and its records are whole.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", text(&output.stderr));
    let output = pktgen(folder, &["-q", "query", "run", sql, "--json"]);
    let asked: serde_json::Value = serde_json::from_str(text(&output.stdout).trim()).expect("JSON");
    let lines = analyze_run(&folder.join("run")).expect("analysed").lines;
    let theirs = lines.iter().find(|line| line.metric == "host_latency_mean").and_then(|line| line.value);
    let (ours, theirs) = (asked["value"].as_f64().expect("a number"), theirs.expect("a value"));
    assert!((ours - theirs).abs() <= 1e-9 * theirs, "{ours} and {theirs}");
}

/// Returns an experiment with metrics of its own, with `slots` slots.
fn own(slots: u32) -> String {
    format!(
        r#"name = "own"
[workload]
kind = "rl"
clusters = 3
workers_per_cluster = 2
updates = 100
[schedule]
kind = "poisson"
offered = "10Gbps"
line_rate = "100Gbps"
[topology]
kind = "bottleneck"
rate = "5Gbps"
[target]
program = "olaf"
queue = "olaf"
slots = {slots}
[sweep]
seeds = "1..6"
[metrics.tail_age]
sql = "SELECT QUANTILE_DISC(t_recv_ps - newest_gen_ps, 0.99) / 1000 AS value FROM received"
unit = "ns"
better = "lower"
about = "99th percentile of the age of what arrives"
[metrics.drops]
sql = """
WITH dropped AS (SELECT reason, COUNT(*) AS n FROM fates WHERE fate = 'dropped' GROUP BY reason)
SELECT reason, SUM(n) AS value FROM dropped GROUP BY reason"""
unit = "updates"
[metrics.members]
sql = "SELECT 'cluster' AS flow, cluster AS id, AVG(count) AS value FROM received GROUP BY cluster"
unit = "updates"
"#
    )
}

fn values(lines: &str, metric: &str) -> Vec<(serde_json::Value, serde_json::Value)> {
    let lines = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    lines.filter(|line| line["metric"] == metric).map(|line| (line["labels"].clone(), line["value"].clone())).collect()
}

fn ran(folder: &Path, words: &[&str], code: i32) -> (String, String) {
    let output = pktgen(folder, words);
    let (out, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{words:?}: {out}{said}");
    (out, said)
}

#[test]
fn an_experiment_measures_by_queries_of_its_own() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    for (name, slots) in [("new", 4), ("old", 2)] {
        let file = format!("{name}.toml");
        fs::write(folder.join(&file), own(slots)).expect("writable");
        ran(folder, &["-q", "replay", &file, "--out", name], 0);
    }
    // The lines are those of the query, and of the equivalent metric.
    let (lines, _) = ran(folder, &["-q", "analyze", "new/seed=1", "--json"], 0);
    let tail = "SELECT QUANTILE_DISC(t_recv_ps - newest_gen_ps, 0.99) / 1000 AS value FROM received";
    let (asked, _) = ran(folder, &["-q", "query", "new/seed=1", tail, "--json"], 0);
    let asked: serde_json::Value = serde_json::from_str(&asked).expect("JSON");
    assert_eq!(values(&lines, "tail_age"), [(serde_json::json!({}), asked["value"].clone())]);
    let mut dropped = values(&lines, "dropped");
    dropped.retain(|(labels, _)| labels.get("reason").is_some());
    assert!(!dropped.is_empty() && values(&lines, "drops") == dropped, "{dropped:?}");
    let ids: Vec<_> = values(&lines, "members").iter().map(|(labels, _)| labels["id"].clone()).collect();
    assert_eq!(ids, [0, 1, 2]);
    // In a dump, as in the analysis.
    let (dump, _) = ran(folder, &["-q", "dump", "--canonical", "new/seed=1"], 0);
    let of_dump = dump.lines().filter(|line| line.starts_with("metric\ttail_age\t")).count();
    assert_eq!(of_dump, 1, "{dump}");
    let members = dump.lines().filter(|line| line.starts_with("metric\tmembers\t")).count();
    assert_eq!(members, 3, "{dump}");
    // In the report: columns, their descriptions, and the keys of labelled metrics.
    let (report, _) = ran(folder, &["-q", "report", "new", "--json"], 0);
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    let columns: Vec<_> =
        report["columns"].as_array().expect("columns").iter().map(|column| column["key"].clone()).collect();
    assert!(columns.contains(&"tail_age".into()) && columns.contains(&"drops/reward_low".into()), "{columns:?}");
    let notes = report["notes"].to_string();
    assert!(
        notes.contains("tail_age is a metric of the experiment's own, lower is better: 99th percentile"),
        "{notes}"
    );
    // In comparisons: judged by the preferred direction, if there is one.
    let (verdict, _) = ran(folder, &["-q", "report", "new", "--baseline", "old", "--json", "--history", "h.jsonl"], 1);
    let verdict: serde_json::Value = serde_json::from_str(&verdict).expect("JSON");
    let judged = verdict["versus"][0]["judgements"].as_array().expect("judgements").clone();
    let of = |metric: &str| judged.iter().find(|one| one["metric"] == metric).cloned();
    assert_eq!(of("tail_age").expect("judged")["outcome"], "worse");
    assert!(of("drops/reward_low").is_none());
    let history = fs::read_to_string(folder.join("h.jsonl")).expect("readable");
    assert!(history.contains("\"tail_age\":"), "{history}");
    // Not if the two define it differently.
    let other = own(2).replace("0.99) / 1000", "0.9) / 1000");
    fs::write(folder.join("other.toml"), other).expect("writable");
    ran(folder, &["-q", "replay", "other.toml", "--out", "other", "--no-report"], 0);
    let (verdict, _) = ran(folder, &["-q", "report", "new", "--baseline", "other", "--json"], 0);
    assert!(
        verdict.contains("metrics.tail_age is not defined alike") && !verdict.contains("\"metric\":\"tail_age\""),
        "{verdict}"
    );
}

#[test]
fn metrics_that_are_wrong_are_refused_and_those_that_lack_records_have_no_value() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    fs::write(folder.join("x.toml"), own(4)).expect("writable");
    for (sql, says) in [
        (
            "SELECT wroker AS value FROM sent",
            "metrics.tail_age.sql: SQL, line 1, column 8: there is no column \"wroker\" here, did you mean \"worker\"?",
        ),
        (
            "SELECT * FROM read_csv('/etc/passwd')",
            "metrics.tail_age.sql: SQL, line 1, column 15: read_csv(…) is refused",
        ),
        ("DROP TABLE sent", "DROP is refused"),
        ("SELECT reason AS value FROM fates", "holds no numbers"),
    ] {
        let set = format!("metrics.tail_age.sql={sql}");
        let (_, said) = ran(folder, &["-q", "replay", "x.toml", "--out", "never", "--set", &set], 2);
        assert!(said.contains(says), "{sql}: {said}");
        assert!(!folder.join("never").exists(), "nothing ran");
    }
    let (_, said) = ran(folder, &["replay", "x.toml", "--set", "metrics.loss.sql=SELECT 1 AS value"], 2);
    assert!(said.contains("metrics.loss: there is a metric of this name"), "{said}");
    // Unrecorded data has no value, and a note gives the reason.
    let few = [
        "-q",
        "replay",
        "x.toml",
        "--out",
        "none",
        "--no-report",
        "--set",
        "capture.records=none",
        "--set",
        "sweep.seeds=1",
    ];
    ran(folder, &few, 0);
    let (lines, said) = ran(folder, &["analyze", "none", "--json"], 0);
    assert_eq!(values(&lines, "tail_age")[0].1, serde_json::Value::Null);
    assert!(said.contains("metric_not_computed") && said.contains("it has no table `received`"), "{said}");
    // A metric that fails on the existing rows.
    let set = "metrics.tail_age.sql=SELECT worker AS value FROM sent";
    ran(folder, &["-q", "replay", "x.toml", "--out", "two", "--no-report", "--set", set, "--set", "sweep.seeds=1"], 0);
    let (lines, said) = ran(folder, &["analyze", "two", "--json"], 1);
    assert!(said.contains("metric_failed") && said.contains("two rows without labels"), "{said}");
    assert_eq!(values(&lines, "tail_age")[0].1, serde_json::Value::Null);
    // A manifest that was changed.
    let path = folder.join("two/manifest.json");
    let changed =
        fs::read_to_string(&path).expect("readable").replace("SELECT worker AS value FROM sent", "DELETE FROM sent");
    fs::write(&path, changed).expect("writable");
    let (_, said) = ran(folder, &["analyze", "two", "--json", "--no-verify"], 1);
    assert!(said.contains("DELETE is refused"), "{said}");
}
