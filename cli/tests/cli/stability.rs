//! Stability of what programs read (docs/stability.md): docs/schemas.json lists the members of every kind of JSON object and
//! the columns of every stream, with their versions. What is gone or changed without a new version fails here, also when
//! `UPDATE_DOCS=1 cargo test --release --workspace --test cli -- stability::` writes the file anew.

mod declared;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pktgen_core::column::StreamTable;
use pktgen_core::record::{SCHEMA_VERSION, STREAMS};
use pktgen_testing::{Need, eventually, skip};
use pktgen_workload::trace::{TRACE, TRACE_VERSION};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::declared::DECLARED;
use crate::support::bench::{Device, cabled};
use crate::support::{pktgen, root, text, wired};

/// A kind: version, and types by member. A `?` behind the types: not in every object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Shape {
    version: u32,
    members: BTreeMap<String, String>,
}

type Shapes = BTreeMap<String, Shape>;

/// Objects whose keys are data; their members are listed as one, `*`.
const MAPS: &[&str] = &[
    "calibration.answer.targets[].at",
    "calibration.predictions[].at",
    "clause_verdict.counted",
    "comparison.rankings[].labels",
    "comparison.versus[].judgements[].labels",
    "device_plan.entries",
    "device_start.counters",
    "history.points[].clock_errors",
    "history.points[].labels",
    "history.points[].lacking",
    "history.points[].medians",
    "history.units",
    "manifest.balance.dropped",
    "manifest.balance_by_worker[].dropped",
    "manifest.clocks",
    "manifest.files",
    "manifest.host",
    "manifest.labels",
    "metric.labels",
    "report.rows[].labels",
    "series.labels",
    "stats.device",
    "sweep.paper[].at",
    "sweep.paper[].values",
    "sweep.runs[].labels",
    "trace_made.details",
];

/// Kinds whose optional members depend on the host.
const OF_HOST: [&str; 10] =
    ["captured", "counted", "diagnosis", "finding", "rate", "rfc2544", "role", "stats", "tuning", "wrong_packet"];

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Observations of a kind: for each member its types, and in how many of its parents it was.
#[derive(Default)]
struct Seen {
    version: u32,
    types: BTreeMap<String, BTreeSet<&'static str>>,
    times: BTreeMap<String, usize>,
    parents: BTreeMap<String, usize>,
}

impl Seen {
    fn object(&mut self, at: &str, value: &Value) {
        *self.parents.entry(at.to_owned()).or_default() += 1;
        for (key, value) in value.as_object().into_iter().flatten().filter(|(key, _)| *key != "schema") {
            let member = if MAPS.contains(&at) { "*" } else { key };
            self.member(at, member, value);
        }
    }

    fn member(&mut self, at: &str, name: &str, value: &Value) {
        let path = format!("{at}.{name}");
        *self.times.entry(path.clone()).or_default() += 1;
        self.value(&path, value);
    }

    fn value(&mut self, path: &str, value: &Value) {
        self.types.entry(path.to_owned()).or_default().insert(type_of(value));
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.value(&format!("{path}[]"), item)),
            Value::Object(_) => self.object(path, value),
            _ => {}
        }
    }

    fn shape(&self) -> Shape {
        let word = |(path, types): (&String, &BTreeSet<&str>)| {
            let types = types.iter().copied().collect::<Vec<_>>().join("|");
            let parent = path.rsplit_once('.').map_or("", |(parent, _)| parent);
            let (times, parents) = (self.times.get(path), self.parents.get(parent));
            let optional = times.is_some() && times < parents && !path.ends_with('*');
            let (_, own) = path.split_once('.').unwrap_or(("", path));
            (own.to_owned(), format!("{types}{}", if optional { "?" } else { "" }))
        };
        Shape { version: self.version, members: self.types.iter().map(word).collect() }
    }
}

/// Collects objects by the kind that they state.
#[derive(Default)]
struct Collection(BTreeMap<String, Seen>);

impl Collection {
    /// Collects every object of the text, one per line.
    fn lines(&mut self, text: &str) {
        for line in text.lines().filter(|line| line.starts_with('{')) {
            let object: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
            let stated = object["schema"].as_str().unwrap_or_else(|| panic!("no schema: {line:.200}"));
            let (name, version) = stated.split_once('/').expect("NAME/VERSION");
            self.add(name, version.parse().expect("a number"), &object);
        }
    }

    fn add(&mut self, name: &str, version: u32, object: &Value) {
        let seen = self.0.entry(name.to_owned()).or_default();
        assert!(seen.version == 0 || seen.version == version, "{name}: versions {} and {version}", seen.version);
        seen.version = version;
        seen.object(name, object);
    }

    /// Returns the shapes of all kinds and streams.
    fn shapes(&self) -> Shapes {
        let mut shapes: Shapes = self.0.iter().map(|(name, seen)| (name.clone(), seen.shape())).collect();
        declare(&mut shapes);
        let streams = STREAMS.iter().map(|stream| (stream, SCHEMA_VERSION)).chain([(&TRACE, TRACE_VERSION)]);
        shapes.extend(streams.map(|stream| (format!("stream {}", stream.0.name), columns(stream))));
        shapes
    }

    /// Collects a file that has its version in a member.
    fn file(&mut self, name: &str, path: &Path) {
        let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let object: Value =
            serde_json::from_str(text.lines().next().filter(|_| name == "history").unwrap_or(&text)).expect("JSON");
        self.add(name, object["version"].as_u64().expect("a version") as u32, &object);
    }
}

/// Columns of a stream of files.
fn columns((stream, version): (&StreamTable, u32)) -> Shape {
    let word = |column: &pktgen_core::column::Column| {
        let unit = if column.unit.is_empty() { String::new() } else { format!(" in {}", column.unit) };
        (column.name.to_owned(), format!("{}{}{unit}", column.data.name(), if column.optional { "?" } else { "" }))
    };
    Shape { version, members: stream.columns.iter().map(word).collect() }
}

/// Adds the types that members may have beside those that were seen. Kinds that were not collected remain absent, and members that the
/// objects seen lack are gone, unless these may lack them.
fn declare(shapes: &mut Shapes) {
    let all = shapes.clone();
    for (kind, member, types) in DECLARED {
        let Some(shape) = shapes.get_mut(*kind) else { continue };
        let seen = &all[*kind].members;
        let is_inside = |own: &String, object: &str| own.strip_prefix(object).is_some_and(|rest| rest.starts_with('.'));
        let has_others =
            member.rsplit_once('.').is_none_or(|(object, _)| seen.keys().any(|own| is_inside(own, object)));
        let may_lack = types.ends_with('?') || member.ends_with("[]") || member.ends_with('*');
        if has_others && !may_lack && !seen.contains_key(*member) {
            continue;
        }
        let seen = shape.members.remove(*member).unwrap_or_default();
        let all: BTreeSet<&str> = [*types, &seen[..]].into_iter().flat_map(types_of).collect();
        let optional = if types.ends_with('?') || seen.ends_with('?') { "?" } else { "" };
        let all = all.into_iter().collect::<Vec<_>>().join("|") + optional;
        shape.members.insert((*member).to_owned(), all);
    }
}

/// Returns the single types of a member.
fn types_of(types: &str) -> impl Iterator<Item = &str> {
    types.trim_end_matches('?').split('|').filter(|one| !one.is_empty())
}

/// Two variants whose difference is plain, with published values and own metrics.
const SWEEP: &str = r#"
name = "small"
[workload]
clusters = 2
workers_per_cluster = 3
updates = 60
[schedule]
kind = "poisson"
offered = "60Gbps"
[topology]
rate = "20Gbps"
[sweep]
seeds = "1..5"
[[sweep.variants]]
name = "FIFO"
target.queue = "fifo"
target.program = "forward"
[[sweep.variants]]
name = "Olaf"
[report]
baseline = "FIFO"
[metrics.starved]
sql = "SELECT count(*) FROM sent WHERE worker = 1"
unit = "updates"
better = "lower"
about = "What worker 1 sent."
[[paper.rows]]
source = "Table 0"
at.variant = "Olaf"
loss = 0.1
"#;

/// A hardware device, of which a capture is compared.
const CAPTURED: &str = r#"
name = "captured"
[workload]
clusters = 2
workers_per_cluster = 2
updates = 20
bytes = "256B"
[schedule]
offered = "10Mbps"
[topology]
rate = "100Mbps"
[target]
program = "forward"
queue = "fifo"
slots = 512
[transport]
kind = "ring"
linger = "200ms"
tap = "tap.pcapng"
"#;

/// One case that fails, and one that holds at some rates.
const VERIFIED: &str = r#"
name = "v"
[verify]
clusters = 2
updates = 3
arrivals = "periodic"
period = "1ms"
phase = "free"
service = "20us"
delta_t = "4ms"
slope = "1/delta_t"
slots = [1, 2]
epsilon = ["100us", "100ms"]
"#;

struct Collector {
    folder: tempfile::TempDir,
    found: Collection,
}

impl Collector {
    /// Runs a command with `--json` and collects its stdout, which is returned; the exit code must be `code`.
    fn take(&mut self, code: i32, words: &str) -> String {
        let args: Vec<_> = words.split(' ').collect();
        let output = pktgen(self.folder.path(), &[&["--json", "-q"], &args[..]].concat());
        assert_eq!(output.status.code(), Some(code), "{words}: {}", text(&output.stderr));
        let lines = text(&output.stdout);
        self.found.lines(&lines);
        lines
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, content: &str) {
        fs::write(self.path(name), content).expect("writable");
    }
}

/// Runs, reports, comparisons, histories.
fn of_runs(all: &mut Collector) {
    all.write("x.toml", SWEEP);
    all.take(0, "replay x.toml --out x");
    all.take(0, "replay x.toml --out y --set target.slots=2");
    all.take(0, "analyze x");
    all.take(0, "report x --history h.jsonl");
    all.take(0, "report y --history h.jsonl");
    let compared = pktgen(all.folder.path(), &["--json", "-q", "report", "y", "--baseline", "x"]);
    all.found.lines(&text(&compared.stdout));
    all.take(0, "history h.jsonl --all");
    all.take(0, "query --tables x");
    all.take(0, "replay x.toml --dry-run --run Olaf,seed=1");
    all.take(0, "replay x.toml --shard 1/2 --out parts/1");
    all.take(0, "replay x.toml --shard 2/2 --out parts/2");
    all.take(0, "merge parts/1 parts/2 --out whole");
    let path = all.path("x/Olaf,seed=1/manifest.json");
    all.found.file("manifest", &path);
    for (name, file) in [("sweep", "x/sweep.json"), ("history", "h.jsonl")] {
        let path = all.path(file);
        all.found.file(name, &path);
    }
    // One row in ten is enough to say that there are fewer.
    all.take(0, "replay x.toml --out few --no-report --set capture.records=\"every:10\"");
    let noted = pktgen(all.folder.path(), &["--json", "analyze", "few"]);
    all.found.lines(&text(&noted.stderr));
}

/// Parts of a run, their merge, and plans of devices: commands whose result is a folder or files.
fn of_folders(all: &mut Collector) {
    let [wires, table1] =
        ["table1-wires", "table1"].map(|name| root().join(format!("configs/olaf/{name}.toml")).display().to_string());
    let file = |name: &str| all.path(name).display().to_string();
    let files = format!("transport.files=[\"{}\",\"{}\"]", file("workers.pcapng"), file("server.pcapng"));
    let part = format!("{wires} --run Olaf,rate=40Mbps,seed=1 --set transport.kind=pcap --set {files} --out part");
    for words in [
        format!("replay --role workers {part}/workers"),
        format!("target {part}/device"),
        format!("capture {part}/server"),
        "merge part/workers part/device part/server -o joined".to_owned(),
        format!("device plan alveo-u55c-olaf {table1} --out planned"),
    ] {
        let lines = all.take(0, &words);
        let is_object = |line: &str| line.starts_with('{');
        assert!(lines.contains("\"folder/1\"") && lines.lines().all(is_object), "{words}: {lines}");
    }
}

/// Lists, definitions, what the host can do.
fn of_lists(all: &mut Collector) {
    for words in ["list", "list --keys", "list schemas", "list configs", "explain", "device list"] {
        all.take(0, words);
    }
    all.take(0, "doctor");
}

/// Traces, planners, devices.
fn of_others(all: &mut Collector) {
    all.take(0, "trace synth x.toml -o t.parquet");
    all.take(0, "trace info t.parquet");
    all.take(0, "trace scale t.parquet -o wide.parquet --workers 12");
    let kept = pktgen(all.folder.path(), &["--json", "-q", "trace", "check", "t.parquet", "wide.parquet"]);
    all.found.lines(&text(&kept.stdout));
    all.take(0, "place soar BT(8) -k 2 --plan plan.json");
    all.take(0, "place soar BT(8) -k 2 --explain");
    let path = all.path("plan.json");
    all.found.file("plan", &path);
    all.write("loads.json", r#"[{"0":1,"1":2,"2":3,"3":4},{"3":1}]"#);
    all.take(0, "place soar BT(8) -k 2 --workloads loads.json --capacity 1");
    all.take(0, "place soar BT(8) -k 2 --workloads loads.json");
    let wiring = "place atro --workers 12 --switches 4 --ports 8 --aggregators 2 --capacity 100Gbps";
    all.take(0, wiring);
    all.take(0, &format!("{wiring} --device-ports 384"));
    all.take(0, "device show alveo-u55c-olaf");
    let table1 = root().join("configs/olaf/table1.toml").display().to_string();
    all.take(0, &format!("device check alveo-u55c-olaf {table1}"));
    all.take(0, &format!("device plan alveo-u55c-olaf {table1}"));
    // Entries differ by device.
    for (profile, experiment) in [
        ("tofino-switchml", "wires/switchml"),
        ("tofino-libra", "wires/libra"),
        ("mx480-trio-ml", "wires/trio-ml"),
        ("generic", "wires/live"),
    ] {
        let experiment = root().join(format!("configs/{experiment}.toml")).display().to_string();
        all.take(0, &format!("device plan {profile} {experiment}"));
    }
    all.write("twin.toml", crate::calibrate::TWIN);
    all.take(0, "replay twin.toml --out measured --no-report --set target.slots=9");
    all.take(0, "calibrate twin.toml --to measured --predict target.slots=5 --out calibrated");
    all.take(0, "certify --list");
    let switchml = root().join("configs/wires/switchml.toml").display().to_string();
    all.take(0, &format!("certify {switchml} --set transport.kind=virtual --clause switchml-sum --out certified"));
    all.write("c.toml", CAPTURED);
    all.take(0, "replay c.toml --out c --no-report");
    all.take(0, "device compare c.toml c/tap-workers.pcapng");
    // A host that paused is a cause: run again, beside a load often.
    for _ in 0..30 {
        if pktgen(all.folder.path(), &["-q", "diagnose", "c"]).status.success() {
            break;
        }
        fs::remove_dir_all(all.path("c")).expect("removable");
        pktgen(all.folder.path(), &["-q", "replay", "c.toml", "--out", "c", "--no-report"]);
    }
    all.take(0, "diagnose c");
}

/// A run in real time, monitored and controlled.
fn of_live(all: &mut Collector) {
    all.take(0, "replay c.toml --out live --no-report --stats 100ms");
    let folder = all.folder.path().to_owned();
    let begin = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pktgen"));
        let command = command.current_dir(&folder).args(["--json", "-q"]).args(words);
        command.stdout(Stdio::piped()).spawn().expect("the binary runs")
    };
    let mut serve = begin(&["serve", "."]);
    let line = BufReader::new(serve.stdout.take().expect("a pipe")).lines().next().expect("a line");
    all.found.lines(&line.expect("UTF-8"));
    let _ = (serve.kill(), serve.wait());
    let mut run = begin(&["replay", "c.toml", "--out", "steered", "--no-report", "--control", "s.sock", "--hold"]);
    let steered = || text(&pktgen(&folder, &["control", "s.sock", "status"]).stdout);
    eventually("a run that is steered", || steered().contains("run \""));
    let mut events = begin(&["control", "s.sock", "events"]);
    let mut lines = BufReader::new(events.stdout.take().expect("a pipe")).lines().map(|line| line.expect("a line"));
    all.found.lines(&lines.next().expect("a reply"));
    all.take(0, "control s.sock status");
    all.take(0, "control s.sock start");
    assert!(run.wait().expect("it ends").success());
    lines.for_each(|line| all.found.lines(&line));
    assert!(events.wait().expect("it ends").success());
}

/// Outputs that need more than this program.
fn of_needs(all: &mut Collector, left_out: &mut Vec<&str>) {
    let limits = "name = \"limits\"\n[workload]\nupdates = 400\n[schedule]\noffered = \"20Mbps\"\n[topology]\nrate = \"30Mbps\"\n\
         [target]\nprogram = \"forward\"\nqueue = \"fifo\"\n";
    all.write("limits.toml", limits);
    all.take(0, "replay limits.toml --find-rate --trial 100ms --precision 0.1 --out rate");
    all.take(0, "replay limits.toml --find-rate --trial 100ms --precision 0.1 --sum 300ms --out goal");
    if Command::new("z3").arg("--version").output().is_ok() {
        all.write("v.toml", VERIFIED);
        all.take(1, "verify aom-fairness v.toml --out v1");
        all.take(1, "verify aom-fairness v.toml --find max-rate --out v2");
    } else {
        skip(Need::Z3, "the shape of verifications", "z3 is not installed");
        left_out.extend(["verification", "verified_rate"]);
    }
    for (name, script) in [("dead.toml", "exit 3"), ("started.toml", "echo x > /tmp/ready; exec sleep 60")] {
        let path = root().join("cli/tests/cli/support/bench/olaf.toml");
        let bench = fs::read_to_string(path).expect("an experiment");
        let launch = format!("command = [\"sh\", \"-c\", \"{script}\"]\nports = [\"e0\", \"e1\"]");
        let ready = "ready = \"file\"\nfile = \"/tmp/ready\"";
        all.write(name, &format!("{bench}\n[target.launch]\n{launch}\n{ready}\n"));
    }
    let own = "mount -t sysfs sysfs /sys && ip link add name x0 type veth peer name x1 && ip link set x0 up && ip link set x1 up";
    let init = "--json init made --device switchml --workers-if x0 --workers 4 --rate 1Gbps";
    let count = "--json -q capture --iface x0 --for 100ms";
    let check = "--json -q target check --allow-launch";
    let raw = "[workload]\nkind = \"raw\"\npackets = 50\n[schedule]\noffered = \"1Mbps\"\n[target]\nkind = \"external\"\n\
        [transport]\nkind = \"af_packet\"\nwait = \"block\"\nlinger = \"200ms\"\ninterfaces = [\"x0\", \"\", \"\", \"x1\"]\n";
    all.write("raw.toml", raw);
    let tables = "--json -q replay raw.toml --out tables --find-rate --rfc2544 64 --trial 50ms --from 1000 --to 2000 --repeats 1";
    let tune = "--json -q tune x0 --peer x1 --rounds 6 --trial 10ms --out tuned";
    let script = format!(
        "{own} && \"$0\" {init} && \"$0\" {count} --count-only && \"$0\" {count} --kind af_packet --out captured && \
         {{ \"$0\" {check} dead.toml; \"$0\" {tables}; \"$0\" {tune}; \"$0\" {check} started.toml; }}"
    );
    let inside = Command::new("unshare")
        .args(["-n", "-m", "sh", "-c", &script, env!("CARGO_BIN_EXE_pktgen")])
        .current_dir(all.folder.path())
        .output();
    let why = match &inside {
        Ok(output) if output.status.success() => return all.found.lines(&text(&output.stdout)),
        Ok(output) => text(&output.stderr),
        Err(why) => why.to_string(),
    };
    skip(Need::Xdp, "the shape of captures and of launched devices", why);
    left_out.extend(["captured", "counted", "device_start", "initiated", "rfc2544", "tuning"]);
}

/// What a device does wrong.
fn of_wrong_devices(all: &mut Collector, left_out: &mut Vec<&'static str>) {
    let net = match cabled("shapes") {
        Ok(net) => net,
        Err(why) => {
            skip(Need::Netns, "the shape of lists of wrong packets", why);
            return left_out.extend(["wrong", "wrong_packet"]);
        }
    };
    let device = Device::start(&net, &["--in", "e0", "--out", "e1", "--seed", "7", "--fault", "corrupt"]);
    let olaf = root().join("cli/tests/cli/support/bench/olaf.toml").display().to_string();
    let out = all.folder.path().join("damaged").display().to_string();
    let words = ["replay", &olaf, "--no-probe", "--no-report", "--out", &out];
    let set = ["target.program=forward", "target.queue=fifo", "capture.pcap=true"];
    wired::pktgen(&net.inside("h"), &words, &set).output().expect("it runs");
    assert!(device.stop().of("corrupted") > 0.0);
    all.take(1, &format!("analyze --wrong {out}"));
}

/// Returns whether a member belongs to a list that is present but empty this time.
fn is_of_an_empty_list(member: &str, now: &Shape) -> bool {
    let is_there = |member: &str| now.members.contains_key(member);
    member.match_indices("[]").any(|(at, _)| is_there(&member[..at]) && !is_there(&member[..at + 2]))
}

/// Returns the changes of a kind since `kept` was written.
fn changes(name: &str, kept: &Shape, now: &Shape) -> Vec<String> {
    let mut found = Vec::new();
    for (member, types) in &kept.members {
        match now.members.get(member) {
            Some(own) if own == types => {}
            None if types.ends_with('?') && OF_HOST.contains(&name) => {}
            None if OF_HOST.contains(&name) && is_of_an_empty_list(member, now) => {}
            // What was never seen with a value may have one of any type, and there may be none now.
            Some(own)
                if OF_HOST.contains(&name)
                    && (types == "null" || own.split(['|', '?']).all(|own| own == "null" || types.contains(own))) => {}
            Some(own) => found.push(format!("{name}.{member} was {types} and is {own}")),
            None => found.push(format!("{name}.{member} ({types}) is gone")),
        }
    }
    found
}

#[test]
fn nothing_changes_without_a_new_version() {
    let mut all = Collector { folder: tempfile::tempdir().expect("a temporary folder"), found: Collection::default() };
    let mut left_out = Vec::new();
    of_runs(&mut all);
    of_folders(&mut all);
    of_lists(&mut all);
    of_others(&mut all);
    of_live(&mut all);
    of_needs(&mut all, &mut left_out);
    of_wrong_devices(&mut all, &mut left_out);
    let listed = pktgen(all.folder.path(), &["--json", "list", "schemas"]);
    let mut now = all.found.shapes();
    let path = root().join("docs/schemas.json");
    let kept: Shapes =
        fs::read(&path).map_or_else(|_| Shapes::new(), |text| serde_json::from_slice(&text).expect("JSON"));
    let mut unversioned = Vec::new();
    for (name, kept) in &kept {
        match now.get(name) {
            Some(now) if now.version > kept.version => {}
            Some(now) if now.version < kept.version => {
                unversioned.push(format!("{name}: version {} after {}", now.version, kept.version))
            }
            Some(now) => unversioned.extend(changes(name, kept, now)),
            None if left_out.contains(&&name[..]) => {}
            None => unversioned.push(format!("{name} is gone")),
        }
    }
    assert!(unversioned.is_empty(), "raise the version, and say so in CHANGELOG.md:\n{}", unversioned.join("\n"));
    for name in left_out.iter().filter_map(|name| kept.get_key_value(*name)) {
        now.insert(name.0.clone(), name.1.clone());
    }
    // The command lists the existing kinds.
    let names = |name: &str| [name.to_owned(), format!("stream {name}")];
    for line in text(&listed.stdout).lines() {
        let kind: Value = serde_json::from_str(line).expect("JSON");
        let name = kind["name"].as_str().expect("a name");
        let known = names(name).into_iter().find_map(|name| now.get(&name));
        let known = known.unwrap_or_else(|| panic!("{name} is listed, and no command here printed it"));
        assert_eq!(kind["version"], known.version, "{name}");
    }
    let whole = serde_json::to_string_pretty(&now).expect("JSON") + "\n";
    if std::env::var_os("UPDATE_DOCS").is_some() {
        return fs::write(&path, whole).expect("writable");
    }
    let added: Vec<_> = now
        .iter()
        .filter(|(name, shape)| kept.get(*name) != Some(shape) && !OF_HOST.contains(&&name[..]))
        .map(|(name, _)| name)
        .collect();
    assert!(added.is_empty(), "new members: UPDATE_DOCS=1 writes docs/schemas.json anew: {added:?}");
}

/// What was `null` or empty in all collected objects has a type in `DECLARED`.
#[test]
fn every_member_has_the_types_that_it_may_have() {
    let text = fs::read(root().join("docs/schemas.json")).expect("the file");
    let kept: Shapes = serde_json::from_slice(&text).expect("JSON");
    let mut again = kept.clone();
    declare(&mut again);
    assert_eq!(again, kept, "UPDATE_DOCS=1 writes docs/schemas.json anew");
    let mut open = Vec::new();
    for (name, Shape { members, .. }) in kept.iter().filter(|(name, _)| !name.starts_with("stream ")) {
        for (member, types) in members {
            let has = |what: &str| types_of(types).any(|one| one == what);
            let inside = format!("{member}.");
            let is_open = types_of(types).all(|one| one == "null")
                || has("array") && !members.contains_key(&format!("{member}[]"))
                || has("object") && !members.keys().any(|other| other.starts_with(&inside));
            if is_open {
                open.push(format!("{name}.{member}: {types}"));
            }
        }
    }
    assert!(open.is_empty(), "no type, or no type of what is inside; add it to DECLARED: {open:#?}");
    let types = |name: &str, member: &str| &kept[name].members[member][..];
    for (name, member, expected) in [
        ("certificate", "conforms", "bool|null"),
        ("metric", "value", "null|number"),
        ("report", "rows[].cells[].ours", "null|object"),
        ("report", "rows[].cells[].ours.lo", "number?"),
        ("comparison", "outcome", "null|string"),
    ] {
        assert_eq!(types(name, member), expected, "{name}.{member}");
    }
}

#[test]
fn what_is_gone_or_changed_is_named() {
    let shape = |members: &[(&str, &str)]| Shape {
        version: 1,
        members: members.iter().map(|(name, types)| ((*name).to_owned(), (*types).to_owned())).collect(),
    };
    let kept = shape(&[("a", "number"), ("b", "string?")]);
    assert!(changes("x", &kept, &shape(&[("a", "number"), ("b", "string?"), ("c", "null")])).is_empty());
    assert_eq!(changes("x", &kept, &shape(&[("a", "string"), ("b", "string?")])), ["x.a was number and is string"]);
    assert_eq!(changes("x", &kept, &shape(&[("a", "number")])), ["x.b (string?) is gone"]);
    assert!(changes("finding", &kept, &shape(&[("a", "number")])).is_empty(), "it depends on the host");
    assert_eq!(changes("finding", &kept, &shape(&[("b", "string")])), ["finding.a (number) is gone"]);
    // A member that is declared, and that no object has any more.
    let mut shapes = Shapes::from([("metric".to_owned(), shape(&[("unit", "string")]))]);
    declare(&mut shapes);
    assert!(!shapes["metric"].members.contains_key("value"));
}
