//! Reduction along a plan in virtual time: every link carries the messages of SOAR's Algorithm 1, every sum is verified
//! and every balance closes, whatever the tree, the aggregating switches and the order of arrivals.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use pktgen_core::Result;
use pktgen_core::config::Document;
use pktgen_core::plan::Plan;
use pktgen_core::record::{Balance, Book, Received, Sent};
use pktgen_core::tree::{Switch, Tree};
use pktgen_core::units::Rate;
use pktgen_engine::driver::virtual_time::{Outcome, Simulation};
use pktgen_engine::ledger::total;
use pktgen_engine::recorder::Recorder;
use pktgen_planning::emit::{Emission, files};
use pktgen_realtime::run::Experiment;
use proptest::prelude::*;

/// Keeps no rows.
struct Nothing;

impl Recorder for Nothing {
    fn sent(&mut self, _: &Sent) -> Result<()> {
        Ok(())
    }
    fn book(&mut self, _: &Book) -> Result<()> {
        Ok(())
    }
    fn received(&mut self, _: &Received, _: &[u8]) -> Result<()> {
        Ok(())
    }
}

fn simulate(document: Document) -> Outcome {
    let experiment = Experiment::open(pktgen_registry::all(), document).unwrap();
    let plan = experiment.plan(&experiment.runs[0]).unwrap();
    Simulation::new(plan.parts)
        .run(plan.spec.capture.until, &AtomicBool::new(false), &mut Nothing, &mut |_| {})
        .unwrap()
}

/// Checks the properties of every run; returns where updates went.
fn sound(outcome: &mut Outcome) -> Balance {
    let balance = total(&outcome.ledger.close());
    let counters = &outcome.counters;
    assert_eq!((balance.unknown, outcome.ledger.strangers(), outcome.leaked), (0, 0, 0), "{balance:?}");
    assert_eq!((counters.sums_ok, counters.sums_wrong, counters.foreign), (counters.packets_received, 0, 0));
    assert!(outcome.faults.is_empty(), "{:?}", outcome.faults);
    balance
}

fn carried(outcome: &Outcome) -> Vec<[u64; 2]> {
    outcome.counters.links.iter().map(|ways| ways.map(|way| way.messages)).collect()
}

/// A switch, identified in the manual count by its place in the list.
#[derive(Debug, Clone)]
struct OwnSwitch {
    parent: Option<usize>,
    load: u32,
    blue: bool,
    rate: f64,
}

fn plan(tree: &[OwnSwitch]) -> Plan {
    let switch = |(i, own): (usize, &OwnSwitch)| Switch {
        id: i as u64,
        parent: own.parent.map(|parent| parent as u64),
        rate: own.rate,
        load: own.load.into(),
        available: true,
    };
    let switches: Vec<_> = tree.iter().enumerate().map(switch).collect();
    let blue: Vec<_> = tree.iter().map(|own| own.blue).collect();
    Tree::new(&switches).unwrap().plan("hand", &blue, Rate::from_bps(1_000_000_000))
}

/// A random tree; every switch is above those that come after it, or is not.
fn tree() -> impl Strategy<Value = Vec<OwnSwitch>> {
    let switch = (any::<prop::sample::Index>(), 0u32..5, any::<bool>(), prop::sample::select(vec![1u64, 3, 10]));
    prop::collection::vec(switch, 1..14).prop_map(|switches| {
        let made = switches.iter().enumerate().map(|(i, (parent, load, blue, gbps))| OwnSwitch {
            parent: (i > 0).then(|| parent.index(i.max(1))),
            load: load + u32::from(i == 0),
            blue: *blue,
            rate: *gbps as f64,
        });
        made.collect()
    })
}

/// Messages of one cluster on the link above each switch, counted from the leaves on (SOAR §2, Algorithm 1). Parents have
/// lower numbers.
fn messages(tree: &[OwnSwitch], of_cluster: impl Fn(usize) -> u64) -> Vec<u64> {
    let mut messages: Vec<u64> = (0..tree.len()).map(of_cluster).collect();
    for at in (0..tree.len()).rev() {
        if tree[at].blue {
            messages[at] = messages[at].min(1);
        }
        if let Some(parent) = tree[at].parent {
            messages[parent] += messages[at];
        }
    }
    messages
}

/// Writes the plan and its experiment to `folder`, and reads it with these keys set.
fn document(folder: &Path, plan: &Plan, emission: &Emission, keys: &[String]) -> Document {
    let path = folder.join("x.toml");
    for (file, text) in files(plan, &path, emission).unwrap() {
        std::fs::write(file, text).unwrap();
    }
    Document::load(&path, keys).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]
    #[test]
    fn links_carry_what_is_counted_by_hand_in_any_order_of_arrival(
        tree in tree(), rounds in 1u32..5, two_clusters: bool, allreduce: bool, together: bool, seed in 0u64..1000,
        copies: bool,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let plan = plan(&tree);
        let workers = plan.hosts().len() as u32;
        let clusters = if two_clusters && workers.is_multiple_of(2) { 2 } else { 1 };
        let emission = Emission { messages: rounds, allreduce, ..Emission::of(&plan, "random") };
        let mut keys = vec![
            format!("seed={seed}"), format!("workload.clusters={clusters}"),
            format!("workload.workers_per_cluster={}", workers / clusters), "topology.delay=300ns".into(),
        ];
        if !together {
            keys.extend(["schedule.kind=poisson".to_owned(), "schedule.period=700ns".to_owned()]);
        }
        // A server that only receives treats copies as foreign frames; aggregators, the answering server and its workers recognise them.
        let copies = copies && allreduce;
        if copies {
            keys.extend(["transport.fault_duplicate=0.2".to_owned(), "transport.fault_at=both".to_owned()]);
        }
        let mut outcome = simulate(document(folder.path(), &plan, &emission, &keys));
        let balance = sound(&mut outcome);
        prop_assert_eq!((balance.sent, balance.in_flight, balance.dropped_total()), (u64::from(workers * rounds), 0, 0));

        let (mut first, mut loads) = (0, Vec::new());
        for switch in &tree {
            let of = |cluster: u32| (first..first + switch.load).filter(|w| w * clusters / workers == cluster).count();
            loads.push([of(0) as u64, of(1) as u64]);
            first += switch.load;
        }
        let by_cluster = (0..clusters as usize).map(|cluster| messages(&tree, |at| loads[at][cluster]));
        let up = by_cluster.fold(vec![0; tree.len()], |sum, own| sum.iter().zip(own).map(|(a, b)| a + b).collect());
        let links = carried(&outcome);
        for (at, up) in up.iter().map(|n| n * u64::from(rounds)).enumerate() {
            let down = if allreduce { up } else { 0 };
            if copies {
                prop_assert!(links[at][0] >= up && links[at][1] >= down, "s{}: {:?}, {}", at, links[at], up);
            } else {
                prop_assert_eq!(links[at], [up, down], "the link above s{}", at);
            }
        }
        let got: Vec<_> = outcome.counters.answers.iter().map(|own| own.messages).collect();
        prop_assert_eq!(got, if allreduce { vec![u64::from(rounds); workers as usize] } else { Vec::new() });
    }
}

const TOPOLOGIES: [&str; 4] = [
    "kind = \"bottleneck\"\nrate = \"20Gbps\"",
    "kind = \"multi_hop\"\nhost_rate = \"10Gbps\"\nleaf_rates = [\"8Gbps\", \"8Gbps\"]\nroot_rate = \"6Gbps\"\ndownlink_rate = \"10Gbps\"\nleaf_slots = 4096\nroot_slots = 4096",
    "kind = \"custom\"\ndevices = [\"A\", \"B\", \"R\"]\nhosts = [\"h0 0-2\", \"h1 3-5\"]\nlinks = [\"h0 A 9Gbps\", \"h1 B 9Gbps\", \"A R 7Gbps\", \"B R 7Gbps\", \"R ps 5Gbps\"]",
    "kind = \"star\"",
];

fn on_a_network(topology: &str, clusters: u32, rest: &str) -> String {
    format!(
        "[workload]\nclusters = {clusters}\nworkers_per_cluster = {}\nupdates = 40\n[schedule]\nkind = \"poisson\"\n\
         offered = \"25Gbps\"\n[topology]\n{topology}\n[target]\nprogram = \"reduce\"\n{rest}",
        6 / clusters
    )
}

#[test]
fn networks_without_a_plan_reduce_along_their_shortest_ways() {
    for (topology, allreduce) in TOPOLOGIES.iter().flat_map(|topology| [(topology, false), (topology, true)]) {
        let text = on_a_network(topology, 2, &format!("slots = 4096\n[endpoint]\nallreduce = {allreduce}\n"));
        let mut outcome = simulate(Document::parse(&text, "x.toml").unwrap());
        let balance = sound(&mut outcome);
        assert_eq!((balance.delivered_merged, balance.in_flight), (240, 0), "{topology}");
        assert_eq!(outcome.counters.packets_received, 80, "one sum of each message of each cluster: {topology}");
        let answers = outcome.counters.answers.iter().map(|own| own.messages).sum::<u64>();
        assert_eq!(answers, if allreduce { 240 } else { 0 }, "{topology}");
    }
    // The switch at the root does not aggregate: the sums of the others arrive.
    let named = on_a_network(TOPOLOGIES[2], 1, "slots = 4096\naggregators = [\"A\"]\n");
    let mut outcome = simulate(Document::parse(&named, "x.toml").unwrap());
    let balance = sound(&mut outcome);
    assert_eq!((balance.delivered_merged, balance.delivered_alone), (120, 120));
}

#[test]
fn what_is_lost_leaves_sums_open_or_partial_and_the_balance_closes() {
    // Sums of two switches meet at a third; a queue of one frame loses some of them on the way.
    for timeout in ["", "timeout = \"1us\"\n"] {
        let rest = format!("slots = 1\nopen_messages = 3\n{timeout}");
        let mut outcome = simulate(Document::parse(&on_a_network(TOPOLOGIES[2], 1, &rest), "x.toml").unwrap());
        let balance = sound(&mut outcome);
        let device = &outcome.counters.device;
        let [open, partial, no_room] = ["open_at_end", "sums_partial", "no_room"].map(|name| device[name]);
        assert!(balance.dropped["queue_full"] > 0, "{balance:?}");
        match timeout {
            "" => assert!(open > 0 && partial == 0 && no_room > 0 && balance.in_flight > 0, "{device:?}"),
            _ => assert!(open == 0 && partial > 0 && balance.in_flight == 0, "{device:?} {balance:?}"),
        }
    }
}

/// A chain of switches, each with a worker; the first has two. The first and the last worker are in time, at either end.
#[test]
fn incomplete_sums_are_in_time_at_the_levels_above() {
    for switches in 1..=5usize {
        let workers = switches + 1;
        let list = |range: std::ops::Range<usize>, item: &dyn Fn(usize) -> String| {
            range.map(|i| format!("\"{}\"", item(i))).collect::<Vec<_>>().join(", ")
        };
        let rate = |worker: usize| if (1..switches).contains(&worker) { "1Mbps" } else { "100Gbps" };
        let cable = |worker: usize| format!("h{worker} s{} {}", worker.saturating_sub(1), rate(worker));
        let above = |i: usize| if i + 1 == switches { "ps".to_owned() } else { format!("s{}", i + 1) };
        let text = format!(
            "[workload]\nclusters = 1\nworkers_per_cluster = {workers}\nupdates = 1\nbytes = \"256B\"\n\
             [schedule]\nkind = \"constant\"\nperiod = \"1ms\"\nphase = \"zero\"\n\
             [topology]\nkind = \"custom\"\nhosts = [{}]\ndevices = [{}]\nlinks = [{}, {}]\n\
             [target]\nprogram = \"reduce\"\nslots = 4096\ntimeout = \"10us\"\n",
            list(0..workers, &|worker| format!("h{worker} {worker}")),
            list(0..switches, &|i| format!("s{i}")),
            list(0..workers, &cable),
            list(0..switches, &|i| format!("s{i} {} 100Gbps", above(i))),
        );
        let mut outcome = simulate(Document::parse(&text, "x.toml").unwrap());
        let balance = sound(&mut outcome);
        assert_eq!((balance.delivered_merged, balance.in_flight), (2, 0), "{switches}: {balance:?}");
        let late = balance.dropped.get("late").copied().unwrap_or_default();
        assert_eq!(late, switches as u64 - 1, "{switches}: the workers behind slow links alone");
    }
}

#[test]
fn copies_of_dropped_parts_have_no_rows() {
    let rest = "slots = 4096\nopen_messages = 1\n[endpoint]\nallreduce = true\n[transport]\nfault_duplicate = 0.1\n\
                fault_at = \"up\"\n";
    for seed in 0..4 {
        let text = format!("seed = {seed}\n{}", on_a_network(TOPOLOGIES[0], 1, rest));
        let mut outcome = simulate(Document::parse(&text, "x.toml").unwrap());
        let balance = sound(&mut outcome);
        let [no_room, duplicates] = ["no_room", "duplicates"].map(|name| outcome.counters.device[name]);
        assert!(no_room > 0 && duplicates > 0 && balance.dropped["table_full"] == no_room, "{balance:?}");
    }
}

#[test]
fn experiments_that_cannot_reduce_are_refused() {
    let says = |text: &str, part: &str| {
        let experiment = Experiment::open(pktgen_registry::all(), Document::parse(text, "x.toml").unwrap()).unwrap();
        let message = experiment.plan(&experiment.runs[0]).err().expect(part).to_string();
        assert!(message.contains(part), "{message}, not {part}");
    };
    let on = |topology: &str, rest: &str| on_a_network(topology, 1, rest);
    says(&on(TOPOLOGIES[0], "aggregators = [\"host\"]\n"), "\"host\" is no device");
    says(&on(TOPOLOGIES[0], "aggregators = 3\n"), "no list of devices");
    says(&on("kind = \"plan\"", "aggregators = []\n"), "leave it out");
    says(&on("kind = \"rack\"", ""), "has none");
    says(&on(TOPOLOGIES[0], "queue = \"olaf\"\n"), "needs a program that identifies");
    let forward =
        on(TOPOLOGIES[0], "queue = \"fifo\"\n[endpoint]\nallreduce = true\n").replace("reduce\"", "forward\"");
    says(&forward, "use a target.program that follows one");
    let moves = "[[workload.moves]]\nat = \"1us\"\nworker = 0\ncluster = 1\n";
    says(&format!("{}{moves}", on(TOPOLOGIES[0], "")), "workload.moves");
    let real = "[endpoint]\nallreduce = true\n[transport]\nkind = \"ring\"\n";
    let experiment =
        Experiment::open(pktgen_registry::all(), Document::parse(&on(TOPOLOGIES[0], real), "x.toml").unwrap()).unwrap();
    let message = experiment.prepare(&experiment.runs[0]).err().expect("real time").to_string();
    assert!(message.contains("virtual time"), "{message}");
}
