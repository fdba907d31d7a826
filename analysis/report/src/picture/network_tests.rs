//! Tests of [`super`]: loads equal bytes counted individually.

use pktgen_core::plan::{PLAN_VERSION, Plan, PlanLink, PlanNode};
use pktgen_core::record::{Counters, Fault, LinkLoad, Manifest, Note, RunState, Training, Unseen};
use pktgen_records::Options;
use pktgen_records::testing::{Story, small_run};

use super::*;

/// A star of four workers with a host each, at 1 Gbit/s, and 20 bytes of overhead.
const CONFIG: &str = "[topology]\nkind = \"bottleneck\"\nrate = \"1Gbps\"\n";

fn network(story: &Story, config: &str, nodes: &[&str]) -> Option<Network> {
    network_of(story, config, nodes, |_| {})
}

fn network_of(story: &Story, config: &str, nodes: &[&str], change: impl Fn(&mut Manifest)) -> Option<Network> {
    let dir = tempfile::tempdir().unwrap();
    let mut manifest = story.manifest();
    manifest.config = config.to_owned();
    manifest.nodes = nodes.iter().map(|name| (*name).to_owned()).collect();
    change(&mut manifest);
    story.write_with(dir.path(), &manifest);
    of(&Analysis::open(dir.path(), Options::default()).unwrap())
}

/// Returns the topology of a configuration.
fn nodes(config: &str, clusters: Vec<u16>) -> Topology {
    let mut document = Document::parse(config, "test").unwrap();
    topology::open(&mut document, &Population { cluster_of: clusters, moves: Vec::new() }).unwrap()
}

#[test]
fn loads_are_the_bytes_of_what_crossed() {
    let mut story = small_run(true, 1_000_000);
    for seq in 0..40u32 {
        for worker in [1, 3] {
            let t = i64::from(seq) * 1_000_000 + 500_050;
            let books = &mut story.records.books;
            books.t_ps.push(t);
            books.node.push(0);
            books.packet_in.push(PacketId::new(worker, seq, 0).0);
            books.action.push(Action::Departed as u8);
            books.packet_out.push(pktgen_records::run::NO_PACKET);
            books.reason.push(pktgen_records::run::NO_REASON);
        }
    }
    let topology = nodes(CONFIG, vec![0, 0, 1, 1]);
    let names: Vec<&str> = topology.nodes.iter().map(|node| node.name.as_str()).collect();
    let device = topology.nodes.iter().position(|node| node.role == Role::Device).unwrap();
    story.records.books.node.iter_mut().for_each(|node| *node = device as u16);
    let network = network(&story, CONFIG, &names).unwrap();
    let role = |cable: &Cable| (network.nodes[cable.from].role, network.nodes[cable.to].role);
    let up = network.cables.iter().find(|cable| role(cable) == ("aggregator", "server")).unwrap();
    let hosts: Vec<&Cable> = network.cables.iter().filter(|cable| role(cable).0 == "host").collect();
    let overhead = topology.links[0].overhead.bits() as f64 / 8.0;
    // 40 aggregates of each of two clusters left the device, and 40 updates of each of four workers arrived, each with 256 bytes.
    assert_eq!(up.up_bytes, Some(80.0 * (256.0 + overhead)));
    assert_eq!(hosts.iter().map(|cable| cable.up_bytes.unwrap()).sum::<f64>(), 160.0 * (256.0 + overhead));
    let seconds = story.manifest().counters.end_ps as f64 / 1e12;
    let share = up.up_bytes.unwrap() * 8.0 / (1e9 * seconds);
    assert!((up.up.unwrap() / share - 1.0).abs() < 1e-12, "{up:?} {share}");
    assert_eq!(up.down, None, "acknowledgements are not recorded");
}

/// Workers withhold everything: their links carried nothing, nor did that of a device with books.
#[test]
fn a_link_that_carried_nothing_is_known() {
    let mut story = small_run(true, 1_000_000);
    story.records.sent.t_sent_ps.fill(None);
    story.records.books = Default::default();
    story.records.received = Default::default();
    let topology = nodes(CONFIG, vec![0, 0, 1, 1]);
    let names: Vec<&str> = topology.nodes.iter().map(|node| node.name.as_str()).collect();
    for external in [false, true] {
        let network = network_of(&story, CONFIG, &names, |manifest| {
            manifest.counters.end_ps = 40_000_000;
            if external {
                (manifest.external, manifest.unseen) = (Some("generic".to_owned()), Some(Unseen::default()));
            }
        });
        let network = network.unwrap();
        let role = |node: usize| network.nodes[node].role;
        let (hosts, others): (Vec<&Cable>, Vec<&Cable>) =
            network.cables.iter().partition(|cable| role(cable.from) == "host");
        assert!(!hosts.is_empty() && !others.is_empty(), "{:?}", network.cables);
        assert!(hosts.iter().all(|cable| (cable.up, cable.up_bytes) == (Some(0.0), Some(0.0))), "{hosts:?}");
        let of_device = (!external).then_some(0.0);
        assert!(others.iter().all(|cable| cable.up == of_device), "{external}: {others:?}");
        assert!(network.cables.iter().all(|cable| cable.down.is_none()), "acknowledgements are not recorded");
        // Unknown loads are dashed, and 0 is known.
        let chart = Chart { kind: Kind::Network, network: Some(network.clone()), ..Default::default() };
        let dashed = crate::plot::figure(&chart).matches("stroke-dasharray=\"2 3\"").count();
        assert_eq!(dashed, if external { others.len() } else { 0 });
    }
}

/// The run ends with acknowledgements on a slow way back, which the links towards the server do not wait for.
#[test]
fn shares_are_of_the_time_in_which_updates_were_on_their_way() {
    let mut story = small_run(false, 1_000_000);
    let topology = nodes(CONFIG, vec![0, 0, 1, 1]);
    let names: Vec<&str> = topology.nodes.iter().map(|node| node.name.as_str()).collect();
    let share = |story: &Story, factor: i64| {
        let network = network_of(story, CONFIG, &names, |manifest| manifest.counters.end_ps *= factor).unwrap();
        assert!(note(&network).contains("that crossed the link"), "{}", note(&network));
        let hosts = network.cables.iter().find(|cable| network.nodes[cable.from].role == "host").unwrap();
        (hosts.up.unwrap(), hosts.up_bytes.unwrap() * 8.0)
    };
    let (alone, bits) = share(&story, 1);
    // The device drops the last update after 39.5 µs.
    let rate_bps = topology.links[0].rate.bps() as f64;
    assert!((alone / (bits / (rate_bps * 39.5e-6)) - 1.0).abs() < 1e-12, "{alone}");
    assert_eq!(share(&story, 12), (alone, bits));
    // An update that is sent later and does not arrive was on its way, too.
    story.sent_seq(3, 40, 79_000_000, Some(79_000_000), 1);
    let (later, bits) = share(&story, 12);
    assert!((later / (bits / (rate_bps * 79e-6)) - 1.0).abs() < 1e-12, "{later}");
}

/// Updates that wait for a link when a run is cut have times of sending behind its end.
#[test]
fn what_waits_at_the_end_of_a_cut_run_crossed_no_link() {
    let mut story = small_run(false, 1_000_000);
    let topology = nodes(CONFIG, vec![0, 0, 1, 1]);
    let names: Vec<&str> = topology.nodes.iter().map(|node| node.name.as_str()).collect();
    let host = |story: &Story, clock: &str, change: &dyn Fn(&mut Manifest)| {
        let network = network_of(story, CONFIG, &names, |manifest| {
            manifest.counters.end_ps = 40_000_000;
            manifest.clocks.insert("sent.t_sent_ps".to_owned(), clock.to_owned());
            change(manifest);
        });
        let network = network.unwrap();
        let cable = network.cables.iter().find(|cable| network.nodes[cable.from].role == "host").unwrap();
        (cable.up, cable.up_bytes)
    };
    let cut = |manifest: &mut Manifest| manifest.validity.notes.push(Note::CutOff { in_flight: 1 });
    let goal = |manifest: &mut Manifest| manifest.counters.goal_ps = Some(40_000_000);
    let interrupted = |manifest: &mut Manifest| manifest.state = RunState::Interrupted;
    // Such a run has no counters.
    let killed = |manifest: &mut Manifest| {
        (manifest.state, manifest.counters) = (RunState::Interrupted, Counters::default());
        manifest.validity.faults.push(Fault::Killed {});
    };
    let alone = host(&story, "virtual", &cut);
    assert_eq!(host(&story, "virtual", &|_| ()), alone);
    story.sent_seq(0, 40, 39_000_000, Some(90_000_000), 0);
    for change in [&cut as &dyn Fn(&mut Manifest), &goal, &interrupted, &killed] {
        assert_eq!(host(&story, "virtual", change), alone);
    }
    // Of a run that is not cut, all that was sent crossed its links. In real time every update with a time of sending left.
    assert!(host(&story, "virtual", &|_| ()).1 > alone.1 && host(&story, "monotonic", &cut).1 > alone.1);
    // Without records of devices and the server, the end of a killed run is unknown.
    story.records.books = Default::default();
    story.records.received = Default::default();
    assert!(host(&story, "virtual", &killed).1 > alone.1);
}

/// Results of slow servers come long after the last update.
#[test]
fn shares_of_training_are_of_the_time_until_its_last_iteration_ended() {
    let mut story = small_run(false, 1_000_000);
    story.training = Some(Training { jobs: 1, workers: 4, iterations: 1, ..Training::default() });
    story.iterates(0, [0, 1, 60, 0], [1, 0, 0, 1]).iterates(1, [0, 1, 79, 0], [1, 0, 0, 1]);
    let topology = nodes(CONFIG, vec![0, 0, 1, 1]);
    let names: Vec<&str> = topology.nodes.iter().map(|node| node.name.as_str()).collect();
    let network = network_of(&story, CONFIG, &names, |manifest| manifest.counters.end_ps *= 12).unwrap();
    let hosts = network.cables.iter().find(|cable| network.nodes[cable.from].role == "host").unwrap();
    let (share, bits) = (hosts.up.unwrap(), hosts.up_bytes.unwrap() * 8.0);
    let rate_bps = topology.links[0].rate.bps() as f64;
    assert!((share / (bits / (rate_bps * 79e-6)) - 1.0).abs() < 1e-12, "{share}");
    // Ends of iterations and acknowledgements of results are not among them.
    let note = note(&network);
    assert!(note.contains("of updates that crossed") && note.contains("until the last iteration ended"), "{note}");
}

#[test]
fn what_cannot_be_known_is_not_drawn() {
    let story = small_run(true, 1_000_000);
    assert!(network(&story, "", &["sw1", "sw2", "ps"]).is_none(), "the names are not those of the configuration");
    assert!(network(&story, "this is no TOML", &["sw1"]).is_none());
    assert!(network(&story, "[topology]\nkind = \"unheard of\"", &["sw1"]).is_none());
}

#[test]
fn hosts_of_a_switch_stand_together() {
    let nodes: Nodes = [("ps", "server"), ("sw", "aggregator"), ("a", "host"), ("b", "host")]
        .map(|(n, r)| (n.to_owned(), r, 3))
        .into();
    let wire = |from, to, bits| Wire { from, to, rates: [10.0, 10.0], bits: [bits, None] };
    let wires = [wire(2, 1, Some(4.0)), wire(3, 1, Some(8.0)), wire(1, 0, Some(12.0))];
    let network = together(&nodes, &wires, 2.0);
    assert_eq!(network.nodes.len(), 3);
    assert_eq!((network.nodes[2].label.as_str(), network.nodes[2].name.as_str()), ("2 ×", "2 hosts with 6 workers"));
    // 12 bits on 2 links of 10 bit/s in 2 s; 12 bits on one.
    let shares: Vec<_> = network.cables.iter().map(|cable| cable.up.unwrap()).collect();
    assert!(shares.contains(&0.3) && shares.contains(&0.6) && shares.len() == 2, "{shares:?}");
}

#[test]
fn loads_of_a_plan_are_shares_of_the_rate_of_their_direction() {
    let node = |name: &str, role| PlanNode { name: name.to_owned(), role, workers: Vec::new() };
    let plan = Plan {
        version: PLAN_VERSION,
        placer: "hand".to_owned(),
        nodes: vec![node("s", PlanRole::Aggregator), node("ps", PlanRole::Server)],
        links: vec![PlanLink { from: 0, to: 1, rate_bps: 40, cost: None }],
        flows: Vec::new(),
        rate_bps: None,
        phi: None,
    };
    let load = LinkLoad { bits: 20, ..LinkLoad::default() };
    for (down_bps, down) in [(Vec::new(), 0.5), (vec![5], 4.0)] {
        let planned = Planned { plan: plan.clone(), allreduce: true, message_bits: 1, down_bps };
        let (nodes, wires) = planned_network(&planned, &[[load; 2]]);
        let network = together(&nodes, &wires, 1.0);
        assert_eq!((network.cables[0].up, network.cables[0].down), (Some(0.5), Some(down)));
        assert!(note(&network).contains("that came to the link"), "{}", note(&network));
    }
}
