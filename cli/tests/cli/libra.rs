//! Sparse training over links with faults, from run dirs: the files agree with the manifest, and a run whose switch
//! counts wrong is reported as such.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use pktgen_core::config::Document;
use pktgen_realtime::plan::prepare;
use pktgen_realtime::run::Experiment;
use pktgen_records::{Analysis, Options};

/// Runs with these keys; returns the analysis.
fn run(endpoint: &str, writes: &str, faults: &str, dir: &Path) -> Analysis {
    let text = format!(
        "name = \"t\"\n[workload]\nkind = \"sparse\"\nmodel = \"oa\"\npairs = 2000\nworkers = 5\njobs = 2\niterations = 3\n\
         compute = \"20us\"\n[topology]\nkind = \"star\"\n[endpoint]\n{endpoint}\ntimeout = \"30us\"\n[target]\n{writes}\n\
         [transport]\n{faults}\n"
    );
    let experiment = Experiment::open(pktgen_registry::all(), Document::parse(&text, "test").unwrap()).unwrap();
    experiment.execute(dir, 1, &AtomicBool::new(false), &|_, _| {}).unwrap();
    Analysis::open(dir, Options::default()).unwrap()
}

const FAULTS: &str = "fault_loss = 0.03\nfault_duplicate = 0.1\nfault_reorder = 0.1\nfault_reorder_by = 300\nfault_reorder_hold = \"60us\"";

#[test]
fn files_say_what_manifests_say() {
    let folder = tempfile::tempdir().unwrap();
    let libra = "workers = \"libra\"";
    let cases = [
        (libra, ""),
        ("workers = \"libra\"\nmode = \"async\"", ""),
        ("workers = \"ps_lite\"", ""),
        ("workers = \"ps_lite\"\nmode = \"async\"", ""),
        (libra, "repeat_writes = \"paper\""),
        (libra, "repeat_writes = \"bloom\"\nbloom_bits = 64"),
    ];
    for (number, (endpoint, writes)) in cases.into_iter().enumerate() {
        let run = run(endpoint, writes, FAULTS, &folder.path().join(number.to_string()));
        let (manifest, what) = (&run.manifest, format!("{endpoint} {writes}"));
        assert!(manifest.validity.is_valid(), "{what}: {:?}", manifest.validity);
        assert_eq!(run.unknown(), 0.0, "{what}: {:?} is not {:?}", run.balance(), manifest.balance);
        assert!(manifest.balance.retransmitted > 0 && manifest.balance.dropped_total() > 0, "{what}");
        let count = |name: &str| manifest.counters.device[name];
        let wrong = count("counted_twice") + count("never_counted");
        let notes = manifest.validity.notes.iter().filter(|note| note.code() == "counted_unlike_once");
        assert_eq!((wrong > 0, notes.count()), (!writes.is_empty(), usize::from(wrong > 0)), "{what}: {wrong}");
        assert_eq!(count("never_counted") > 0, writes.contains("64"), "{what}");
        let lines = run.lines().unwrap();
        let value = |name: &str| lines.iter().find(|line| line.metric == name).and_then(|line| line.value).unwrap();
        assert_eq!(value("counted_twice") + value("never_counted"), wrong as f64);
        assert!(value("retransmitted_share") > 0.0 && value("server_busy_share") > 0.0, "{what}");
    }
}

/// Several parameter servers, around one switch and in racks of their own.
#[test]
fn files_say_what_several_servers_did() {
    let folder = tempfile::tempdir().unwrap();
    let shapes = ["kind = \"star\"", "kind = \"leaf_spine\"\nleaves = 3\nspines = 2\nleaf_hosts = 6"];
    let modes = [
        "workers = \"libra\"",
        "workers = \"libra\"\nmode = \"async\"",
        "workers = \"ps_lite\"\npartition = \"ranges\"",
    ];
    for (number, (shape, mode)) in shapes.iter().flat_map(|shape| modes.map(|mode| (shape, mode))).enumerate() {
        let text = format!(
            "name = \"t\"\n[workload]\nkind = \"sparse\"\nmodel = \"oa\"\npairs = 2000\nworkers = 5\njobs = 2\niterations = 3\n\
             compute = \"20us\"\n[topology]\n{shape}\nservers = 3\n[endpoint]\n{mode}\ntimeout = \"60us\"\n[transport]\n{FAULTS}\n"
        );
        let dir = folder.path().join(number.to_string());
        let experiment = Experiment::open(pktgen_registry::all(), Document::parse(&text, "test").unwrap()).unwrap();
        experiment.execute(&dir, 1, &AtomicBool::new(false), &|_, _| {}).unwrap();
        let run = Analysis::open(&dir, Options::default()).unwrap();
        let (manifest, what) = (&run.manifest, format!("{shape} {mode}"));
        assert!(manifest.validity.is_valid(), "{what}: {:?}", manifest.validity);
        assert_eq!(run.unknown(), 0.0, "{what}: {:?} is not {:?}", run.balance(), manifest.balance);
        let count = |name: &str| manifest.counters.device[name];
        assert_eq!((count("servers"), count("counted_twice"), count("never_counted")), (3, 0, 0), "{what}");
        let lines = run.lines().unwrap();
        let value = |name: &str| lines.iter().find(|line| line.metric == name).and_then(|line| line.value).unwrap();
        let (mean, most) = (value("server_busy_share"), value("server_busy_most_share"));
        assert!(0.0 < mean && mean <= most && most < 3.0 * mean, "{what}: {mean}, {most}");
    }
}

/// Settings that cannot be divided among several servers are refused, with a remedy.
#[test]
fn several_servers_are_refused_where_there_can_be_one() {
    let says = |text: &str, parts: &[&str]| {
        let document = Document::parse(&format!("name = \"t\"\n{text}"), "test").unwrap();
        let message = prepare(pktgen_registry::all(), document, 1).err().expect("refused").to_string();
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    };
    let several = "[topology]\nkind = \"star\"\nservers = 3\n";
    let updates = "[workload]\nclusters = 1\nworkers_per_cluster = 2\nupdates = 9\n[schedule]\noffered = \"1Gbps\"\n";
    says(&format!("{updates}{several}"), &["topology.servers: 3", "open_loop", "ps_lite"]);
    let sparse =
        "[workload]\nkind = \"sparse\"\nmodel = \"oa\"\npairs = 200\nworkers = 2\n[endpoint]\nworkers = \"libra\"\n";
    says(
        &format!("{sparse}{several}[transport]\nkind = \"ring\"\n"),
        &["topology.servers: 3", "transport.kind = \"virtual\""],
    );
    says(&format!("{sparse}{several}standby = 1\n"), &["topology.standby", "topology.servers"]);
}

/// The losses of a failed switch are in the files too.
#[test]
fn files_say_what_died_with_a_switch() {
    let folder = tempfile::tempdir().unwrap();
    let mut lost = 0;
    for seed in 0..6 {
        let text = format!(
            "name = \"t\"\nseed = {seed}\n[workload]\nkind = \"sparse\"\nmodel = \"oa\"\npairs = 1000\nworkers = 4\niterations = 5\n\
             compute = \"50us\"\n[topology]\nkind = \"star\"\nhosts = 2\nstandby = 2\n[endpoint]\nworkers = \"libra\"\ntimeout = \"100us\"\n\
             heartbeat = \"50us\"\nheartbeat_timeout = \"200us\"\n[target]\nprogram = \"libra\"\nfails = \"memory\"\nfails_at = \"{}us\"\n\
             fails_then = \"crash\"\nfails_then_at = \"{}us\"\n[transport]\nfault_loss = 0.01\nfault_duplicate = 0.1\nfault_reorder = 0.05\n\
             fault_reorder_by = 300\nfault_reorder_hold = \"300us\"\n",
            200 + 60 * seed,
            230 + 60 * seed,
        );
        let dir = folder.path().join(seed.to_string());
        let experiment = Experiment::open(pktgen_registry::all(), Document::parse(&text, "test").unwrap()).unwrap();
        experiment.execute(&dir, 1, &AtomicBool::new(false), &|_, _| {}).unwrap();
        let run = Analysis::open(&dir, Options::default()).unwrap();
        let manifest = &run.manifest;
        assert!(manifest.validity.is_valid(), "{seed}: {:?}", manifest.validity);
        assert_eq!(run.unknown(), 0.0, "{seed}: {:?} is not {:?}", run.balance(), manifest.balance);
        lost += manifest.balance.dropped.get("device_lost").copied().unwrap_or_default();
    }
    assert!(lost > 0);
}

/// The configuration in a manifest is the one that ran: it gives the same rows again.
#[test]
fn a_resolved_configuration_gives_its_run_again() {
    let folder = tempfile::tempdir().unwrap();
    let run = |text: &str, name: &str| {
        let dir = folder.path().join(name);
        let experiment = Experiment::open(pktgen_registry::all(), Document::parse(text, "test").unwrap()).unwrap();
        experiment.execute(&dir, 1, &AtomicBool::new(false), &|_, _| {}).unwrap();
        let config = Analysis::open(&dir, Options::default()).unwrap().manifest.config.clone();
        let rows =
            ["sent", "books", "received"].map(|stream| std::fs::read(dir.join(format!("{stream}.parquet"))).unwrap());
        (config, rows)
    };
    let cases = [
        ("fat_tree", "libra", "", "slots = 65536"),
        ("leaf_spine", "libra", "", "slots = 65536"),
        ("fat_tree", "ps_lite", "", "slots = 65536"),
        ("fat_tree", "libra", "[target]\nslots = 16\n", "slots = 16"),
    ];
    for (number, (topology, workers, target, slots)) in cases.into_iter().enumerate() {
        let text = format!(
            "name = \"t\"\n[workload]\nkind = \"sparse\"\nmodel = \"custom\"\nparameters = 100000\nhot = 500\nhot_share = 0.6\n\
             curve = \"zipf\"\npairs = 10\nworkers = 4\njobs = 2\niterations = 1\ncompute = \"1ms\"\n[topology]\nkind = \"{topology}\"\n\
             [endpoint]\nworkers = \"{workers}\"\n{target}"
        );
        let (config, rows) = run(&text, &format!("{number}-written"));
        assert!(config.lines().any(|line| line == slots), "{topology}, {workers}: {config}");
        let (again, same) = run(&config, &format!("{number}-resolved"));
        assert_eq!(again, config, "{topology}, {workers}");
        assert!(rows == same, "{topology}, {workers}: other rows");
    }
}

/// The page's table of Figure 15 shows the precisions of docs/evidence.json, rounded once.
#[test]
fn the_table_of_samples_has_the_numbers_of_the_runs() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let read = |name: &str| std::fs::read_to_string(docs.join(name)).expect("readable");
    let (page, numbers) = (read("sparse.md"), read("evidence.json"));
    let numbers: serde_json::Value = serde_json::from_str(&numbers).expect("JSON");
    let points = numbers["libra/figure15"]["points"].as_array().expect("points");
    for model in ["oa", "se", "deeplight", "lstm", "ncf"] {
        let shown = |metric: &str, rate: &str| {
            let is = |point: &&serde_json::Value| {
                let labels = &point["labels"];
                point["metric"] == metric && labels["study.model"] == model && labels["study.sample_rate"] == rate
            };
            format!("{:.3}", points.iter().find(is).expect("such a point")["median"].as_f64().expect("a number"))
        };
        let start = format!("| `{model}` | {} | {} | ", shown("hot_precision", "0.04"), shown("hot_precision", "0.08"));
        let [few, many] = ["0.04", "0.08"].map(|rate| shown("hot_precision_fixed", rate));
        let end = format!(" | {few} / {many} |");
        let is_row = |line: &str| line.starts_with(&start) && line.ends_with(&end);
        assert!(page.lines().any(is_row), "docs/sparse.md has no row \"{start}…{end}\"");
    }
}
