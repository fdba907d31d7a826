//! Hand-made plans: their promises, and invalid plans.

use serde_json::Value;

use super::*;
use crate::topology::{Role, Topology};
use crate::units::{Rate, Size};

fn node(name: &str, role: PlanRole, workers: &[u32]) -> PlanNode {
    PlanNode { name: name.into(), role, workers: workers.to_vec() }
}

fn link(from: usize, to: usize, cost: Option<f64>) -> PlanLink {
    PlanLink { from, to, rate_bps: 1_000_000_000, cost }
}

fn flow(source: FlowSource, path: &[usize]) -> PlanFlow {
    PlanFlow { source, path: path.to_vec() }
}

/// Two hosts, with two workers and one, at a forwarding switch, and an aggregating switch behind it.
fn star() -> Plan {
    let workers = [(0, 0), (1, 0), (2, 1)].map(|(worker, host)| flow(FlowSource::Worker(worker), &[host, 2, 3]));
    let mut flows = workers.to_vec();
    flows.push(flow(FlowSource::Aggregator(3), &[3, 4]));
    Plan {
        version: PLAN_VERSION,
        placer: "hand".into(),
        nodes: vec![
            node("h0", PlanRole::Host, &[0, 1]),
            node("h1", PlanRole::Host, &[2]),
            node("common", PlanRole::Common, &[]),
            node("sums", PlanRole::Aggregator, &[]),
            node("ps", PlanRole::Server, &[]),
        ],
        links: vec![link(0, 2, None), link(1, 2, None), link(2, 3, Some(0.5)), link(3, 4, Some(2.0))],
        flows,
        rate_bps: None,
        phi: None,
    }
}

#[test]
fn what_links_carry_is_known_beforehand() {
    let plan = star();
    plan.check().unwrap();
    assert_eq!(plan.hosts(), [Some(0), Some(0), Some(1)]);
    assert_eq!(plan.messages(), [[2, 0], [1, 0], [3, 0], [1, 0]]);
    assert_eq!(plan.utilisation(), 3.0 * 0.5 + 2.0);
    // The aggregator sums each cluster separately.
    assert_eq!(plan.clusters(&[0, 4, 0]), [vec![0], vec![4], vec![0], vec![0, 4]]);
    let whole = plan.whole(&[0, 4, 0], |worker| [7, 5, 6][worker]);
    assert_eq!(whole, [vec![(0, 7)], vec![(4, 5)], vec![(0, 6)], vec![(0, 6), (4, 5)]]);
    let clusters = plan.clusters(&[0, 4, 0]);
    assert_eq!(plan.messages_of(|flow| clusters[flow].len() as u64), [[2, 0], [1, 0], [3, 0], [2, 0]]);
    let backwards =
        Plan { links: plan.links.iter().map(|l| PlanLink { from: l.to, to: l.from, ..*l }).collect(), ..plan };
    assert_eq!(backwards.messages(), [[0, 2], [0, 1], [0, 3], [0, 1]]);
}

#[test]
fn files_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.json");
    let read = |text: &str| {
        std::fs::write(&path, text).unwrap();
        Plan::read(&path).map_err(|e| e.to_string())
    };
    assert_eq!(read(&serde_json::to_string(&star()).unwrap()).unwrap(), star());
    assert!(read("{}").unwrap_err().contains("not a plan"));
    // A list of values in place of an object would be read in the order of the fields.
    let whole = serde_json::to_value(star()).unwrap();
    let values = |object: &Value, names: &[&str]| names.iter().map(|name| object[*name].clone()).collect::<Value>();
    let refused =
        |json: &Value| read(&json.to_string()).unwrap_err().contains("sequence, expected an object at line 1");
    assert!(refused(&values(&whole, &["version", "placer", "nodes", "links", "flows", "rate_bps", "phi"])));
    for (list, names) in [
        ("nodes", &["name", "role", "workers"][..]),
        ("links", &["from", "to", "rate_bps", "cost"]),
        ("flows", &["source", "path"]),
    ] {
        let mut json = whole.clone();
        json[list][0] = values(&whole[list][0], names);
        assert!(refused(&json), "{list}");
    }
    let newer = serde_json::to_string(&Plan { version: 9, ..star() }).unwrap();
    assert!(read(&newer).unwrap_err().contains("version 9"));
    assert!(Plan::read(&folder.path().join("none")).unwrap_err().to_string().contains("none"));
}

type Change = fn(&mut Plan);

#[test]
fn what_is_no_plan_is_refused() {
    let cases: &[(Change, &str)] = &[
        (|p| p.nodes[4].role = PlanRole::Common, "0 servers"),
        (|p| p.nodes[1].role = PlanRole::Server, "2 servers"),
        (|p| p.nodes[1].name = "h0".into(), "two nodes are called \"h0\""),
        (|p| p.nodes[2].workers = vec![3], "\"common\" is no host"),
        (|p| p.nodes[1].workers = vec![2, 0], "worker 0 is on \"h0\" and on \"h1\""),
        (|p| p.nodes[1].workers = vec![3], "worker 2 is on no host"),
        (|p| p.nodes.iter_mut().for_each(|n| n.workers.clear()), "no workers"),
        (|p| p.links[0].to = 9, "no node 9"),
        (|p| p.links[2].to = 2, "linked to itself"),
        (|p| p.links[2].rate_bps = 0, "rate 0"),
        (|p| p.links[2].cost = Some(f64::NAN), "has cost NaN; a cost is a number from 0 on"),
        (|p| p.links[2].cost = Some(-1.0), "has cost -1; a cost is a number from 0 on"),
        (|p| p.links.push(link(3, 2, None)), "two links join"),
        (|p| p.links.push(link(0, 3, None)), "\"h0\" has 2 links"),
        (|p| p.flows[0].path = vec![0], "flow 0: its path has fewer"),
        (|p| p.flows[0].path = vec![1, 2, 3], "worker 0 is not on node 1"),
        (|p| p.flows[0].source = FlowSource::Worker(7), "worker 7"),
        (|p| p.flows[3].source = FlowSource::Aggregator(2), "node 2 is no aggregator"),
        (|p| p.flows[3].source = FlowSource::Aggregator(77), "node 77 is no aggregator"),
        (|p| p.flows[0].path = vec![0, 3], "no link joins nodes 0 and 3"),
        (|p| p.flows[0].path = vec![0, 2, 3, 4], "\"sums\" on its way does not forward"),
        (|p| p.flows[0].path = vec![0, 2], "\"common\" at its end does not take it"),
        (|p| drop(p.flows.remove(1)), "worker 1 sends 0 flows"),
        (|p| p.flows.push(p.flows[0].clone()), "worker 0 sends 2 flows"),
        (|p| drop(p.flows.pop()), "takes 3 flows and emits 0"),
        (|p| p.flows.push(p.flows[3].clone()), "takes 3 flows and emits 2"),
    ];
    refuses(cases);
}

/// The star costs 3.5 a round; three flows on a link of 1 Gbit/s leave each a third of it.
#[test]
fn what_is_promised_must_be_the_plans() {
    let kept: &[Change] = &[
        |p| p.phi = Some(3.5 + 1e-12),
        |p| p.rate_bps = Some(333_333_333),
        |p| p.links.iter_mut().for_each(|link| link.cost = Some(0.0)),
        |p| (p.phi, p.rate_bps) = (Some(3.5), Some(1)),
    ];
    for change in kept {
        let mut plan = star();
        change(&mut plan);
        assert_eq!(plan.check(), Ok(()));
    }
    refuses(&[
        (|p| p.phi = Some(19.0), "phi: 19; its flows cost 3.5 on its links"),
        (|p| p.phi = Some(-1.0), "phi: -1;"),
        (|p| p.phi = Some(f64::NAN), "phi: NaN;"),
        (|p| p.rate_bps = Some(0), "rate_bps: 0 is not from 1 to 333333333"),
        (|p| p.rate_bps = Some(333_333_334), "rate_bps: 333333334 is not from 1 to 333333333"),
        (
            |p| (p.links[2].from, p.links[2].to) = (3, 2),
            "the link from \"sums\" to \"common\": its flows run the other way; `from` is the end nearer to the workers",
        ),
    ]);
}

fn refuses(cases: &[(Change, &str)]) {
    for (change, part) in cases {
        let mut plan = star();
        change(&mut plan);
        let message = plan.check().expect_err(part);
        assert!(message.contains(part), "{message}, not {part}");
    }
}

#[test]
fn flows_that_go_round_are_refused() {
    let mut plan = star();
    plan.nodes.push(node("other", PlanRole::Aggregator, &[]));
    plan.links.push(link(3, 5, None));
    plan.flows[3] = flow(FlowSource::Aggregator(3), &[3, 5]);
    plan.flows.push(flow(FlowSource::Aggregator(5), &[5, 3]));
    assert!(plan.check().unwrap_err().contains("never reaches the server"));
    let mut plan = star();
    plan.nodes.push(node("far", PlanRole::Common, &[]));
    plan.links.push(link(2, 5, None));
    plan.flows[0].path = vec![0, 2, 5, 2, 3];
    assert!(plan.check().unwrap_err().contains("passes a node twice"));
}

/// Two hosts at one leaf each, a root above, and the server at the root.
fn tree() -> Topology {
    let mut t = Topology::default();
    let (rate, none) = (Rate::from_bps(1000), Size::default());
    let hosts = [0, 1].map(|i| t.add(format!("h{i}"), Role::Host(vec![2 * i, 2 * i + 1])));
    let leaves = [0, 1].map(|i| t.add(format!("SW{i}"), Role::Device));
    let root = t.add("root", Role::Device);
    let server = t.add("ps", Role::Server);
    for (host, leaf) in hosts.into_iter().zip(leaves) {
        t.connect(host, leaf, rate, rate, 0, none);
        t.connect(root, leaf, rate, rate, 0, none);
    }
    t.connect(server, root, rate, rate, 0, none);
    t
}

#[test]
fn a_network_has_a_plan_of_its_shortest_ways() {
    let topology = tree();
    let ports: Vec<u16> = {
        let routes = topology.routes();
        (0..topology.nodes.len() as u32).map(|node| routes.port(node, 5)).collect()
    };
    let plan = |names: Option<&[String]>| Plan::of_network(&topology, &ports, names, |_| true);
    let all = plan(None).unwrap();
    all.check().unwrap();
    assert_eq!(all.messages(), [[2, 0], [1, 0], [2, 0], [1, 0], [1, 0]]);
    assert!(
        all.links.iter().all(|l| l.to == 4 || l.to == 5 || l.from < 2),
        "the end nearer to the workers comes first"
    );
    let one = plan(Some(&["SW1".to_owned()])).unwrap();
    one.check().unwrap();
    assert_eq!(one.messages(), [[2, 0], [2, 0], [2, 0], [1, 0], [3, 0]]);
    let none = plan(Some(&[])).unwrap();
    assert_eq!(none.messages()[4], [4, 0]);
    for name in ["h0", "SW7"] {
        let message = plan(Some(&[name.to_owned()])).unwrap_err().to_string();
        assert!(message.contains(name) && message.contains("target.aggregators"), "{message}");
    }
    // Workers that do not take part have no flow.
    let some = Plan::of_network(&topology, &ports, None, |worker| worker != 1).unwrap();
    assert_eq!(some.messages()[0], [1, 0]);
}
