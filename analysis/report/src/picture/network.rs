//! The network of a run with the load of its links.
//!
//! Runs that execute a plan counted the load. For others, it is computed from the records for the direction towards the server: updates
//! sent by workers crossed their hosts' links, and a packet that departed from a device crossed the next link on its path, with the length
//! of its arrival or, if it never arrived, of its sending. Other packets of workers (ends of iterations, acknowledgements of results) have no
//! rows, nor have acknowledgements and results on links: shares from records are of the time in which updates were on their way or workers
//! waited for results, since the run may end with acknowledgements on a slow way back.

use std::collections::{BTreeMap, HashMap};

use pktgen_core::Result;
use pktgen_core::config::Document;
use pktgen_core::plan::PlanRole;
use pktgen_core::record::{Action, Fault, Manifest, Note, PacketId, Planned, RunState};
use pktgen_core::registry::Named;
use pktgen_core::topology::{self, NodeId, Population, Role, Topology};
use pktgen_records::resolved::{Analysis, Resolved};
use pktgen_records::stream::Streams;

use super::Picture;
use crate::chart::{Cable, Chart, ChartNode, Kind, Network, first_charts};
use crate::sweep::data::{RunSummary, SweepData};
use crate::sweep::settings::{is_first_unread, point_name, settings, unread};

/// Maximum number of nodes; larger networks are not drawn.
const NODES_MAX: usize = 600;

/// See the module documentation.
pub(super) struct NetworkLoad;

impl Named for NetworkLoad {
    fn name(&self) -> &'static str {
        "network"
    }

    fn about(&self) -> &'static str {
        "network with the utilisation of each link, where counters or records have it"
    }
}

impl Picture for NetworkLoad {
    fn heading(&self) -> &'static str {
        "Network and link loads"
    }

    fn charts(&self, sweep: &SweepData) -> Vec<Chart> {
        let with = sweep.runs.iter().filter_map(|run| Some((run, run.kept.network.as_ref()?)));
        let draw = |(run, network): (&RunSummary, &Network)| {
            Some(Chart {
                kind: Kind::Network,
                title: format!("Network and load of its links, {}, seed {}", point_name(&run.labels), run.seed),
                note: note(network),
                network: Some(network.clone()),
                ..Default::default()
            })
        };
        let mut charts = first_charts(with, draw, "variant");
        // Networks are those of the first setting.
        if let (Some(last), Some((_, runs))) = (charts.last_mut(), settings(sweep).first()) {
            last.remark(&unread(runs.iter().copied()));
        }
        charts
    }

    fn is_of_first_seed(&self, sweep: &SweepData) -> bool {
        sweep.runs.iter().any(|run| run.has_network) && is_first_unread(sweep)
    }
}

/// Explains why a link that lost much may have carried less than its capacity.
const IDLE: &str =
    "Workers end at different times, so a link that loses while all send may be below 100 % over the run.";

fn note(network: &Network) -> String {
    let known = |way: fn(&Cable) -> Option<f64>| network.cables.iter().any(|cable| way(cable).is_some());
    match (known(|cable| cable.up), known(|cable| cable.down)) {
        (false, false) => "The records do not tell what its links carried.".to_owned(),
        (_, false) => {
            let what = "bits on the wire of updates that crossed the link, by its rate and the time until the last update was sent or came to a device or the server, in training also until the last iteration ended";
            format!("Shares are of the way towards the server: {what}. Of the way back nothing is recorded. {IDLE}")
        }
        (_, true) => {
            let what = "bits on the wire that came to the link, by its rate and the length of the run; above 100 % they had to wait or were lost";
            format!("Shares are of the way towards the server (↑) and away from it (↓): {what}. {IDLE}")
        }
    }
}

/// A link before hosts are grouped.
#[derive(Debug, Clone, Copy, Default)]
struct Wire {
    from: usize,
    to: usize,
    /// Rates of both directions, up first, in bit/s.
    rates: [f64; 2],
    /// Bits that both directions carried; `None` if unknown.
    bits: [Option<f64>; 2],
}

/// Whether the network of a run can be drawn.
pub(crate) fn is_known(manifest: &Manifest) -> bool {
    match &manifest.planned {
        Some(planned) => planned.plan.nodes.len() <= NODES_MAX,
        None => topology_of(manifest).is_some(),
    }
}

/// Returns the network of `run`; `None` if its configuration does not describe one that can be drawn.
pub(super) fn of(run: &Analysis) -> Option<Network> {
    let end_ps = run.manifest.counters.end_ps;
    let (nodes, wires, span_ps) = match &run.manifest.planned {
        Some(planned) => {
            let (nodes, wires) = planned_network(planned, &run.manifest.counters.links);
            (nodes, wires, end_ps)
        }
        None => {
            let (nodes, wires, until_ps) = open(run)?;
            (nodes, wires, until_ps.unwrap_or(end_ps))
        }
    };
    (nodes.len() <= NODES_MAX).then(|| together(&nodes, &wires, span_ps as f64 / 1e12))
}

/// Names, classes and workers of nodes.
type Nodes = Vec<(String, &'static str, usize)>;

fn planned_network(planned: &Planned, loads: &[[pktgen_core::record::LinkLoad; 2]]) -> (Nodes, Vec<Wire>) {
    let class = |role| match role {
        PlanRole::Host => "host",
        PlanRole::Common => "common",
        PlanRole::Aggregator => "aggregator",
        PlanRole::Server => "server",
    };
    let nodes = planned.plan.nodes.iter().map(|node| (node.name.clone(), class(node.role), node.workers.len()));
    let links = planned.plan.links.iter().zip(planned.rates_bps()).enumerate();
    let wires = links.map(|(i, (link, rates_bps))| Wire {
        from: link.from,
        to: link.to,
        rates: rates_bps.map(|rate_bps| rate_bps as f64),
        bits: loads.get(i).map_or([None; 2], |ways| ways.map(|way| Some(way.bits as f64))),
    });
    (nodes.collect(), wires.collect())
}

/// Returns the topology of the configuration of a run, if it is that of its nodes and can be drawn.
fn topology_of(manifest: &Manifest) -> Option<Topology> {
    let mut document = Document::parse(&manifest.config, "config").ok()?;
    let workers = Population { cluster_of: manifest.clusters.clone(), moves: Vec::new() };
    let topology = topology::open(&mut document, &workers).ok()?;
    let same = topology.nodes.iter().map(|node| &node.name).eq(manifest.nodes.iter());
    (same && topology.nodes.len() <= NODES_MAX).then_some(topology)
}

/// Returns the nodes and links of a run's topology, and the end of the time that shares are of, if it is known.
fn open(run: &Analysis) -> Option<(Nodes, Vec<Wire>, Option<i64>)> {
    let topology = topology_of(&run.manifest)?;
    let sums: Vec<_> = topology.aggregators().into_iter().chain(topology.top).collect();
    let class = |id: usize| match &topology.nodes[id].role {
        Role::Host(_) => "host",
        Role::Server => "server",
        Role::Controller => "controller",
        Role::Device if sums.contains(&(id as NodeId)) => "aggregator",
        Role::Device => "common",
    };
    let of = |(id, node): (usize, &topology::Node)| {
        let workers = if let Role::Host(workers) = &node.role { workers.len() } else { 0 };
        (node.name.clone(), class(id), workers)
    };
    let nodes = topology.nodes.iter().enumerate().map(of).collect();
    let carried = run.resolved.as_ref().and_then(|resolved| carried(run, resolved, &topology));
    let wires = wires(&topology, carried.as_ref().map(|own| own.bits.as_slice()));
    Some((nodes, wires, carried.and_then(|own| own.until_ps)))
}

/// Returns the cables of `topology`, each from the end that is farther from the sink.
fn wires(topology: &Topology, carried: Option<&[Option<f64>]>) -> Vec<Wire> {
    let (hops, exits) = (hops(topology), topology.exits());
    let mut wires = Vec::new();
    for (i, link) in topology.links.iter().enumerate() {
        let (from, to) = (link.from as usize, link.to as usize);
        let back =
            exits.of(link.to).iter().map(|back| *back as usize).find(|back| topology.links[*back].to == link.from);
        // Each cable once: in the direction towards the sink, or if both ends are equally far, the first.
        if hops[from] < hops[to] || hops[from] == hops[to] && back.is_some_and(|back| back < i) {
            continue;
        }
        let rate = |i: usize| topology.links[i].rate.bps() as f64;
        let bits = |i: usize| carried.and_then(|carried| carried[i]);
        wires.push(Wire {
            from,
            to,
            rates: [rate(i), back.map_or(rate(i), rate)],
            bits: [bits(i), back.and_then(bits)],
        });
    }
    wires
}

/// Returns the distance of each node from the sink, in hops.
fn hops(topology: &Topology) -> Vec<u32> {
    let mut hops = vec![u32::MAX; topology.nodes.len()];
    let Some(sink) = topology.sink() else { return hops };
    let exits = topology.exits();
    hops[sink as usize] = 0;
    let mut open = std::collections::VecDeque::from([sink]);
    while let Some(at) = open.pop_front() {
        for link in exits.of(at).iter().map(|link| &topology.links[*link as usize]) {
            if hops[link.to as usize] == u32::MAX {
                hops[link.to as usize] = hops[at as usize] + 1;
                open.push_back(link.to);
            }
        }
    }
    hops
}

/// What the links carried towards the server.
struct Carried {
    /// Bits of updates on each directed link, including overhead; `None` where the records do not tell.
    bits: Vec<Option<f64>>,
    /// When the last update was sent or came to a device or the server, or the last iteration ended; `None` if none came to either.
    until_ps: Option<i64>,
}

/// Returns the time after which no update left. In virtual time, updates that wait for a link when a run is cut have times of sending behind its
/// end. A killed run has no counters: its end is that of its records of devices and the server, if they have rows.
fn end_of_sending(manifest: &Manifest, streams: &Streams) -> Result<i64> {
    let noted = manifest.validity.notes.iter().any(|note| matches!(note, Note::CutOff { .. }));
    let is_cut = noted || manifest.counters.goal_ps.is_some() || manifest.state == RunState::Interrupted;
    if !is_cut || manifest.is_real_time() {
        return Ok(i64::MAX);
    }
    if !manifest.validity.faults.iter().any(Fault::is_kill) {
        return Ok(manifest.counters.end_ps);
    }
    let mut last_ps: Option<i64> = None;
    streams.received(&mut |received, _| {
        last_ps = last_ps.max(received.t_recv_ps.iter().copied().max());
        Ok(())
    })?;
    streams.books(&mut |books, _| {
        last_ps = last_ps.max(books.t_ps.iter().copied().max());
        Ok(())
    })?;
    Ok(last_ps.unwrap_or(i64::MAX))
}

/// Returns what the links of a run carried, by its records.
fn carried(run: &Analysis, resolved: &Resolved, topology: &Topology) -> Option<Carried> {
    let (routes, exits, sink) = (topology.routes(), topology.exits(), topology.sink()?);
    let hosts = topology.host_of(run.manifest.clusters.len());
    let towards = |node| exits.of(node).get(usize::from(routes.port(node, sink))).map(|link| *link as usize);
    let next: Vec<Option<usize>> = (0..topology.nodes.len() as NodeId).map(towards).collect();
    let mut bits = vec![None; topology.links.len()];
    // Results returning to workers, and sums by key, have other lengths when they depart.
    let departs = run.rounds.is_none() && !run.has_sums_by_key();
    // A link whose packets the records list carried nothing if they list none.
    let is_recorded = |node: &topology::Node| match &node.role {
        Role::Host(workers) => !workers.is_empty(),
        Role::Device => departs && run.manifest.external.is_none(),
        Role::Server | Role::Controller => false,
    };
    for (_, link) in topology.nodes.iter().zip(&next).filter(|(node, _)| is_recorded(node)) {
        if let Some(link) = link {
            bits[*link] = Some(0.0);
        }
    }
    let mut add = |link: Option<usize>, bytes: u32| {
        if let Some(link) = link {
            let overhead = topology.links[link].overhead.bits() as f64;
            *bits[link].get_or_insert(0.0) += f64::from(bytes) * 8.0 + overhead;
        }
    };
    // Nearly all packets have one length: a table contains the others.
    let mut lengths = Lengths::default();
    let streams = &resolved.streams;
    let (mut last_sent_ps, end_ps) = (i64::MIN, end_of_sending(&run.manifest, streams).ok()?);
    let last_came_ps = run.manifest.counters.received_ps.map(|(_, last)| last);
    let ended_ps = run.rounds.as_ref().and_then(|rounds| rounds.iterations.t_end_ps.iter().copied().max());
    let mut last_came_ps = last_came_ps.max(ended_ps);
    let sent = streams.sent(&mut |sent, _| {
        for (row, bytes) in sent.bytes.iter().enumerate() {
            lengths.set(PacketId::new(sent.worker[row], sent.seq[row], sent.attempt[row]).0, *bytes);
            if let Some(t) = sent.t_sent_ps[row].filter(|t| *t <= end_ps) {
                last_sent_ps = last_sent_ps.max(t);
                let host = hosts.get(sent.worker[row] as usize).copied().unwrap_or(NodeId::MAX);
                add(next.get(host as usize).copied().flatten(), *bytes);
            }
        }
        Ok(())
    });
    sent.ok()?;
    if departs {
        let received = streams.received(&mut |received, _| {
            received.packet.iter().zip(&received.bytes).for_each(|(packet, bytes)| lengths.set(*packet, *bytes));
            last_came_ps = last_came_ps.max(received.t_recv_ps.iter().copied().max());
            Ok(())
        });
        let books = streams.books(&mut |books, _| {
            last_came_ps = last_came_ps.max(books.t_ps.iter().copied().max());
            for (row, _) in books.action.iter().enumerate().filter(|(_, action)| **action == Action::Departed as u8) {
                let bytes = lengths.of(books.packet_in[row]);
                add(next.get(usize::from(books.node[row])).copied().flatten(), bytes);
            }
            Ok(())
        });
        received.and(books).ok()?;
    }
    Some(Carried { bits, until_ps: last_came_ps.map(|t| t.max(last_sent_ps)) })
}

/// Lengths of packets by their ids: the first one recorded applies to packets that are not listed.
#[derive(Default)]
struct Lengths {
    most: Option<u32>,
    others: HashMap<u64, u32>,
}

impl Lengths {
    fn set(&mut self, id: u64, bytes: u32) {
        if *self.most.get_or_insert(bytes) != bytes {
            self.others.insert(id, bytes);
        } else if !self.others.is_empty() {
            self.others.remove(&id);
        }
    }

    fn of(&self, id: u64) -> u32 {
        self.others.get(&id).copied().or(self.most).unwrap_or(0)
    }
}

/// Groups the hosts of each switch.
fn together(nodes: &Nodes, wires: &[Wire], seconds: f64) -> Network {
    let mut network = Network::default();
    let mut place = vec![usize::MAX; nodes.len()];
    let is_host = |node: usize| nodes[node].1 == "host";
    for (node, (name, role, _)) in nodes.iter().enumerate().filter(|(node, _)| !is_host(*node)) {
        place[node] = network.nodes.len();
        network.nodes.push(ChartNode { name: name.clone(), label: name.clone(), role });
    }
    // For each switch: the index of its hosts, their number, and their workers.
    let mut hosts: BTreeMap<usize, (usize, usize, usize)> = BTreeMap::new();
    for wire in wires.iter().filter(|wire| is_host(wire.from)) {
        let own = hosts.entry(wire.to).or_insert((network.nodes.len(), 0, 0));
        place[wire.from] = own.0;
        (own.1, own.2) = (own.1 + 1, own.2 + nodes[wire.from].2);
        let name = nodes[wire.from].0.clone();
        match own.1 {
            1 => network.nodes.push(ChartNode { label: name.clone(), name, role: "host" }),
            _ => {
                let place = &mut network.nodes[own.0];
                (place.name, place.label) = (format!("{} hosts with {} workers", own.1, own.2), format!("{} ×", own.1));
            }
        }
    }
    let mut cables: BTreeMap<(usize, usize), Wire> = BTreeMap::new();
    for wire in wires.iter().filter(|wire| place[wire.from] != usize::MAX && place[wire.to] != usize::MAX) {
        let all = cables.entry((place[wire.from], place[wire.to])).or_default();
        for way in 0..2 {
            all.rates[way] += wire.rates[way];
            if let Some(bits) = wire.bits[way] {
                *all.bits[way].get_or_insert(0.0) += bits;
            }
        }
    }
    let cable = |((from, to), wire): ((usize, usize), Wire)| {
        let share = |way: usize| Some(wire.bits[way]? / (wire.rates[way] * seconds)).filter(|share| share.is_finite());
        let up_bytes = wire.bits[0].map(|bits| bits / 8.0);
        Cable { from, to, up: share(0), down: share(1), up_bytes }
    };
    network.cables = cables.into_iter().map(cable).collect();
    network
}

#[cfg(test)]
#[path = "network_tests.rs"]
mod tests;
