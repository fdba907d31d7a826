//! Planners' predictions are replayed and measured, from files to metrics: SOAR's example for every choice of switches,
//! and a plan in the style of ATRO at its rate and above it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use pktgen_core::config::Document;
use pktgen_core::plan::{FlowSource, PLAN_VERSION, Plan, PlanFlow, PlanLink, PlanNode, PlanRole};
use pktgen_core::record::{Answers, Manifest, RunState, Validity};
use pktgen_core::tree::ROOT;
use pktgen_core::tree::make::{Rates, binary};
use pktgen_core::units::Rate;
use pktgen_planning::emit::{Emission, files};
use pktgen_realtime::run::Experiment;
use pktgen_records::{Line, analyze_run};

/// Executes `plan` in `folder`; returns the lines of its metrics, and its manifest.
fn run(folder: &Path, plan: &Plan, emission: &Emission) -> (Vec<Line>, Manifest) {
    let path = folder.join(format!("{}.toml", emission.name));
    for (file, text) in files(plan, &path, emission).expect("possible") {
        std::fs::write(file, text).expect("writable");
    }
    execute(folder, &emission.name, Document::load(&path, &[]).expect("TOML"))
}

/// Executes an experiment of one run in `folder`; returns the lines of its metrics, and its manifest.
fn execute(folder: &Path, name: &str, document: Document) -> (Vec<Line>, Manifest) {
    let experiment = Experiment::open(pktgen_registry::all(), document).expect("an experiment");
    let out = folder.join(name);
    let finished = experiment.execute(&out, 1, &AtomicBool::new(false), &|_, _| {}).expect("it runs");
    assert_eq!((finished[0].state, &finished[0].validity), (RunState::Finished, &Validity::default()));
    let manifest = std::fs::read_to_string(out.join("manifest.json")).expect("a manifest");
    (analyze_run(&out).expect("a run").lines, serde_json::from_str(&manifest).expect("JSON"))
}

fn value(lines: &[Line], metric: &str) -> f64 {
    let line = lines.iter().find(|line| line.metric == metric).unwrap_or_else(|| panic!("no line {metric}"));
    line.value.unwrap_or_else(|| panic!("{metric} cannot be said"))
}

/// Returns the messages by link and direction, according to the lines.
fn link_messages(lines: &[Line]) -> Vec<[u64; 2]> {
    let mut links: BTreeMap<u64, [u64; 2]> = BTreeMap::new();
    for line in lines.iter().filter(|line| line.metric == "link_messages") {
        let id = line.labels["id"].as_u64().expect("a number");
        let down = line.labels["direction"] == "down";
        links.entry(id).or_default()[usize::from(down)] = line.value.expect("a count") as u64;
    }
    links.into_values().collect()
}

/// SOAR's example (Figures 2 and 3): a complete binary tree of 7 switches, loads 2, 6, 5, 4 at the leaves, rates 1.
fn example(placer: &str, blue: u32) -> Plan {
    let tree = binary(8, Rates::Constant).expect("a tree").with_load(vec![0, 0, 0, 2, 6, 5, 4]);
    let blue: Vec<_> = (0..7).map(|i| blue >> i & 1 == 1).collect();
    tree.plan(placer, &blue, Rate::from_bps(1_000_000_000))
}

#[test]
fn soars_example_measures_what_it_promises_for_every_choice_of_switches() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut least = [f64::INFINITY; 8];
    for blue in 0..1u32 << 7 {
        let plan = example("all", blue);
        let (lines, manifest) = run(folder.path(), &plan, &Emission::of(&plan, &format!("b{blue}")));
        assert_eq!(value(&lines, "links_unlike_plan"), 0.0, "{blue:b}");
        assert_eq!(link_messages(&lines), plan.messages(), "{blue:b}");
        let (phi, promised) = (value(&lines, "phi"), value(&lines, "phi_planned"));
        assert!((phi - promised).abs() <= 1e-12 * promised, "{blue:b}: {phi} for {promised}");
        assert_eq!(
            (value(&lines, "sums_wrong"), value(&lines, "balance_unknown"), manifest.balance.sent),
            (0.0, 0.0, 17)
        );
        assert_eq!(manifest.balance.delivered_alone + manifest.balance.delivered_merged, 17);
        let k = blue.count_ones() as usize;
        least[k] = least[k].min(phi);
    }
    // §2 and Figure 3: all red 51, the best with 1, 2, 3 and 4 aggregating switches, all blue 7.
    assert_eq!([0, 1, 2, 3, 4, 7].map(|k| least[k]), [51.0, 35.0, 20.0, 15.0, 11.0, 7.0]);
}

/// Complete binary trees with loads 4 to 6 at the leaves, rates that fall with the distance from the root, and any switches.
#[test]
fn larger_trees_with_unequal_rates_keep_their_promise() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut state = 1u64;
    let mut draw = |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    };
    for (size, blue) in [(128, 4), (256, 9), (512, 2)] {
        let tree = binary(size, Rates::Linear).expect("a tree");
        let load = (0..tree.len() as u32).map(|v| if tree.children(v).is_empty() { 4 + draw(3) } else { 0 }).collect();
        let tree = tree.with_load(load);
        let blue: Vec<_> = (0..tree.len()).map(|_| draw(blue) == 0).collect();
        let plan = tree.plan("drawn", &blue, Rate::from_bps(1_000_000_000));
        // Equation 3 (Lemma 6.1): every blue switch that has something, and every worker of a red one, pays for the way to the
        // next blue switch above it, or to the destination.
        let way = |mut at: u32| {
            let mut cost = tree.rho(at);
            while tree.parent(at) != ROOT && !blue[tree.parent(at) as usize] {
                (at, cost) = (tree.parent(at), cost + tree.rho(tree.parent(at)));
            }
            cost
        };
        let pays = |v: u32| if blue[v as usize] { way(v) } else { tree.load(v) as f64 * way(v) };
        let phi: f64 = (0..tree.len() as u32).map(pays).sum();
        let plan = Plan { phi: Some(phi), ..plan };
        let (lines, _) = run(folder.path(), &plan, &Emission::of(&plan, &format!("t{size}")));
        assert_eq!((value(&lines, "links_unlike_plan"), link_messages(&lines)), (0.0, plan.messages()), "{size}");
        let (measured, promised) = (value(&lines, "phi"), value(&lines, "phi_planned"));
        assert!((measured - promised).abs() <= 1e-12 * promised, "{size}: {measured} for {promised}");
    }
}

const CAPACITY_BPS: u64 = 100_000_000_000;

/// Two aggregators and a switch that forwards, two flows on each of its uplinks (m = 2), four workers at it and two at the
/// lower aggregator; the upper one is next to the server.
fn atro() -> Plan {
    let node = |name: &str, role| PlanNode { name: name.into(), role, workers: Vec::new() };
    let mut nodes = vec![
        node("ps", PlanRole::Server),
        node("a1", PlanRole::Aggregator),
        node("a2", PlanRole::Aggregator),
        node("c1", PlanRole::Common),
    ];
    let link = |from, to| PlanLink { from, to, rate_bps: CAPACITY_BPS, cost: None };
    let mut links = vec![link(1, 0), link(2, 1), link(3, 1), link(3, 2)];
    let mut flows = vec![
        PlanFlow { source: FlowSource::Aggregator(1), path: vec![1, 0] },
        PlanFlow { source: FlowSource::Aggregator(2), path: vec![2, 1] },
    ];
    for (worker, way) in [&[2][..], &[2], &[3, 1], &[3, 1], &[3, 2], &[3, 2]].into_iter().enumerate() {
        let host = nodes.len();
        nodes.push(PlanNode { workers: vec![worker as u32], ..node(&format!("w{worker}"), PlanRole::Host) });
        links.push(link(host, way[0]));
        let path = std::iter::once(host).chain(way.iter().copied()).collect();
        flows.push(PlanFlow { source: FlowSource::Worker(worker as u32), path });
    }
    let (version, placer) = (PLAN_VERSION, "hand".to_owned());
    Plan { version, placer, nodes, links, flows, rate_bps: Some(CAPACITY_BPS / 2), phi: None }
}

#[test]
fn a_plan_of_atros_kind_reaches_its_rate_and_no_more() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let plan = atro();
    let rate = value(&run(folder.path(), &plan, &Emission::of(&plan, "rate")).0, "rate_planned");
    assert_eq!(rate, 50e9);
    for (name, factor) in [("half", 0.5), ("full", 1.0), ("above", 1.02)] {
        let emission = Emission { factor, ..Emission::of(&plan, name) };
        let n = f64::from(emission.messages);
        let (lines, manifest) = run(folder.path(), &plan, &emission);
        let [reached, load, queue] =
            ["allreduce_rate", "link_load_max", "queue_max"].map(|metric| value(&lines, metric));
        assert_eq!(value(&lines, "links_unlike_plan"), 0.0, "nothing is lost, only late");
        let back = plan.messages().iter().map(|[up, _]| [up * 2000; 2]).collect::<Vec<_>>();
        assert_eq!(link_messages(&lines), back);
        assert_eq!((value(&lines, "sums_wrong"), value(&lines, "balance_unknown")), (0.0, 0.0));
        let bits = manifest.planned.map(|planned| 1999 * planned.message_bits);
        let whole = |own: &Answers| own.messages == 2000 && own.later_bits == bits;
        assert!(manifest.counters.answers.iter().all(whole));
        if factor <= 1.0 {
            // The first and the last message of a link's flows may arrive apart: one message more or less.
            assert!(
                reached >= 0.98 * factor * rate && load <= factor + 2.0 / n && queue <= 2.0,
                "{name}: {reached} {load} {queue}"
            );
        } else {
            // The switch's uplinks are offered more than their capacity: their queues grow by 2 % of the arrivals, and
            // no more returns than they carry.
            assert!(load >= 1.019 && queue >= 0.019 * 2.0 * n / 1.02 - 4.0, "{load} {queue}");
            assert!(reached <= 1.001 * rate, "{reached}");
        }
    }
}

#[test]
fn a_run_says_by_itself_what_was_promised() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let plan = example("soar", 0b10100);
    let (_, manifest) = run(folder.path(), &plan, &Emission::of(&plan, "own"));
    let planned = manifest.planned.expect("the plan");
    assert!(planned.down_bps.is_empty(), "links of a plan have one rate");
    assert_eq!((planned.plan, planned.allreduce, planned.message_bits), (plan, false, (256 + 24) * 8));
    // The links' messages are counted: with one message less the number differs.
    let out = folder.path().join("own");
    let path = out.join("manifest.json");
    let mut text: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    text["counters"]["links"][0][0]["messages"] = 1.into();
    std::fs::write(&path, pktgen_core::record::digest::seal(&text.to_string())).unwrap();
    assert_eq!(value(&analyze_run(&out).unwrap().lines, "links_unlike_plan"), 1.0);
}

/// Two hosts of two workers at devices that aggregate, and answers: 200 messages of 12,000 bits on the wire, one each 1.2 µs.
fn answered(devices: &str, links: &str) -> Document {
    let text = format!(
        "[workload]\nkind = \"rl\"\nclusters = 1\nworkers_per_cluster = 4\nupdates = 200\nbytes = \"1476B\"\n\
         [schedule]\nkind = \"constant\"\nperiod = \"1.2us\"\nphase = \"zero\"\n\
         [topology]\nkind = \"custom\"\nhosts = [\"h0 0-1\", \"h1 2-3\"]\ndevices = [{devices}]\noverhead = \"24B\"\n\
         links = [\"h0 s0 100Gbps\", \"h1 s0 100Gbps\", {links}]\n\
         [target]\nprogram = \"reduce\"\nqueue = \"fifo\"\nslots = 1000\n\
         [endpoint]\nworkers = \"open_loop\"\nallreduce = true\nacknowledge = false\n"
    );
    Document::parse(&text, "answered").expect("TOML")
}

#[test]
fn of_parallel_links_the_first_carries_the_plan() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let links = "\"s0 s1 40Gbps\", \"s0 s1 1Gbps\", \"s1 ps 40Gbps\"";
    let (lines, _) = execute(folder.path(), "parallel", answered("\"s0\", \"s1\"", links));
    assert_eq!(value(&lines, "links_unlike_plan"), 0.0);
    let [of_hosts, of_devices] = [[400; 2], [200; 2]];
    assert_eq!(link_messages(&lines), [of_hosts, of_hosts, of_devices, of_devices]);
}

/// Two workers end before their last message: those of the others are summed at the lower device, and wait at the upper one.
#[test]
fn messages_that_only_some_workers_generated_keep_the_promise() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text = "seed = 3\n\
         [workload]\nkind = \"rl\"\nclusters = 1\nworkers_per_cluster = 4\nupdates = 200\nbytes = \"1476B\"\n\
         [schedule]\nkind = \"constant\"\nperiod = \"1us\"\nstop = \"10.5us\"\n\
         [topology]\nkind = \"custom\"\nhosts = [\"h0 0-1\", \"h1 2-3\"]\ndevices = [\"s0\", \"s1\"]\noverhead = \"24B\"\n\
         links = [\"h1 s0 100Gbps\", \"h0 s1 100Gbps\", \"s0 s1 100Gbps\", \"s1 ps 100Gbps\"]\n\
         [target]\nprogram = \"reduce\"\nqueue = \"fifo\"\nslots = 1000\n\
         [endpoint]\nworkers = \"open_loop\"\nallreduce = true\nacknowledge = false\n";
    let (lines, manifest) = execute(folder.path(), "some", Document::parse(text, "some").expect("TOML"));
    let generated: Vec<u64> = manifest.balance_by_worker.iter().map(|own| own.generated).collect();
    assert_eq!(generated, [10, 10, 11, 11]);
    assert_eq!(link_messages(&lines), [[22, 20], [20, 20], [11, 10], [10, 10]]);
    assert_eq!(value(&lines, "links_unlike_plan"), 0.0);
}

#[test]
fn a_part_that_comes_too_late_is_lost_with_all_its_attempts() {
    // The workers begin more than the device's timeout apart.
    let text = "[workload]\nclusters = 1\nworkers_per_cluster = 2\nupdates = 1\nbytes = \"256B\"\n\
                [schedule]\nkind = \"constant\"\nperiod = \"1ms\"\n[topology]\nkind = \"bottleneck\"\n\
                [target]\nprogram = \"reduce\"\ntimeout = \"10us\"\n\
                [endpoint]\nworkers = \"retransmit\"\ntimeout = \"200us\"\n";
    let folder = tempfile::tempdir().expect("a folder");
    let (lines, manifest) = execute(folder.path(), "late", Document::parse(text, "x.toml").expect("TOML"));
    assert_eq!(manifest.balance.dropped, BTreeMap::from([("late".to_owned(), 256)]));
    assert_eq!(value(&lines, "loss"), 256.0 / 257.0);
}

#[test]
fn a_way_back_has_its_own_rate() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (lines, manifest) = execute(folder.path(), "down", answered("\"s0\"", "\"s0 ps 40Gbps 5Gbps\""));
    let gbps = |rate: u64| rate * 1_000_000_000;
    assert_eq!(manifest.planned.expect("the plan").down_bps, [100, 100, 5].map(gbps));
    // 10 Gbit/s of answers, of which every second one has to wait.
    assert_eq!((value(&lines, "link_load_max"), value(&lines, "queue_max")), (2.0, 100.0));
}

/// A switch without a sum duplicates frames, and the link behind it delays them by up to 50 others: copies come after their packets were dropped
/// or summed.
#[test]
fn late_copies_have_no_fate_of_their_own() {
    let text = "seed = 5\n[workload]\nkind = \"rl\"\nclusters = 1\nworkers_per_cluster = 2\nupdates = 2000\nbytes = \"256B\"\n\
                [schedule]\nkind = \"constant\"\nperiod = \"2us\"\n\
                [topology]\nkind = \"custom\"\nhosts = [\"h0 0\", \"h1 1\"]\ndevices = [\"r\", \"s1\"]\n\
                links = [\"h0 r 100Gbps\", \"r s1 100Gbps\", \"h1 s1 100Gbps\", \"s1 ps 40Gbps\"]\n\
                [target]\nprogram = \"reduce\"\nqueue = \"fifo\"\nslots = 1000\naggregators = [\"s1\"]\nopen_messages = 1\n\
                [endpoint]\nworkers = \"open_loop\"\nallreduce = true\nacknowledge = false\n\
                [transport]\nfault_duplicate = 0.3\nfault_reorder = 0.3\nfault_reorder_by = 50\nfault_at = \"up\"\n";
    let folder = tempfile::tempdir().expect("a folder");
    let (_, manifest) = execute(folder.path(), "late", Document::parse(text, "x.toml").expect("TOML"));
    let (balance, copies) = (&manifest.balance, manifest.counters.device["duplicates"]);
    assert!(balance.dropped["table_full"] > 100 && copies > 100, "{balance:?}, {copies} copies");
}
