//! Switches and the links between them, from the server downwards, with the number of workers that fit and their routes.
//!
//! For every shape, workers and flows are assigned by one rule: the outputs of aggregators first, then as many workers
//! as ports and links carry. So a shape cannot claim more than it holds.

use super::flow::Network;

/// The number of the parameter server.
pub(super) const SERVER: usize = 0;

/// The number of the switch next to the server, which is added first.
pub(super) const FIRST: usize = 1;

/// Maximum number of links between switches that are tried one by one.
const LEAN_MAX: usize = 1000;

/// A switch of a skeleton.
#[derive(Debug, Clone)]
struct Switch {
    aggregates: bool,
    ports: u64,
    /// Upper ends of its links.
    up: Vec<usize>,
    /// Number of links from below.
    down: u64,
    depth: u64,
}

/// Switches, each after those above it; number 0 is the server.
#[derive(Debug, Clone)]
pub(super) struct Skeleton {
    ports: u64,
    switches: Vec<Switch>,
}

/// Route of a flow: switches from the one of the worker, or from the aggregator that emits it, to the receiving aggregator or server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Route {
    /// Whether it is a worker's or an aggregator's.
    pub from_worker: bool,
    /// Its switches.
    pub path: Vec<usize>,
}

impl Skeleton {
    /// Creates a skeleton with only the server, which has one port; switches have `ports` unless added with another number.
    pub fn new(ports: u64) -> Self {
        let server = Switch { aggregates: false, ports: 1, up: Vec::new(), down: 0, depth: 0 };
        Skeleton { ports, switches: vec![server] }
    }

    /// Adds a switch below others and returns its number.
    pub fn add(&mut self, aggregates: bool, up: &[usize]) -> usize {
        self.add_with(self.ports, aggregates, up)
    }

    /// Adds a switch with this many ports.
    pub(super) fn add_with(&mut self, ports: u64, aggregates: bool, up: &[usize]) -> usize {
        let depth = 1 + up.iter().map(|&above| self.switches[above].depth).max().unwrap_or(0);
        for &above in up {
            self.switches[above].down += 1;
        }
        self.switches.push(Switch { aggregates, ports, up: up.to_vec(), down: 0, depth });
        self.switches.len() - 1
    }

    /// Returns the layer of a switch: 1 next to the server.
    pub fn depth(&self, switch: usize) -> u64 {
        self.switches[switch].depth
    }

    /// Returns the number of ports without a link to a switch or the server.
    pub fn free(&self, switch: usize) -> u64 {
        let switch = &self.switches[switch];
        switch.ports - (switch.up.len() as u64 + switch.down).min(switch.ports)
    }

    /// Returns the switches that aggregate.
    pub fn aggregators(&self) -> impl Iterator<Item = usize> + '_ {
        (1..self.switches.len()).filter(|&switch| self.switches[switch].aggregates)
    }

    /// Whether a switch aggregates.
    pub fn aggregates(&self, switch: usize) -> bool {
        self.switches[switch].aggregates
    }

    fn commons(&self) -> impl Iterator<Item = usize> + '_ {
        (1..self.switches.len()).filter(|&switch| !self.switches[switch].aggregates)
    }

    /// Returns the maximum number of workers with `m` flows per link; `None` if not even the aggregators' outputs fit.
    pub fn workers(&self, m: u64) -> Option<u64> {
        self.workers_by(&|_, _| m)
    }

    /// Returns the maximum number of workers with a given number of flows on each link from a switch to the one above.
    pub(super) fn workers_by(&self, flows: &dyn Fn(usize, usize) -> u64) -> Option<u64> {
        let filled = self.fill(flows)?;
        let on_commons = filled.inputs.iter().map(|&(_, edge, outputs)| filled.network.flow(edge) - outputs);
        let on_aggregators = self.aggregators().map(|switch| self.free(switch));
        Some(on_commons.sum::<u64>() + on_aggregators.sum::<u64>())
    }

    /// Returns all routes with as many workers as fit with a given number of flows on each link, those of workers on aggregators first.
    pub(super) fn routes_by(&self, flows: &dyn Fn(usize, usize) -> u64) -> Option<Vec<Route>> {
        let filled = self.fill(flows)?;
        let mut left: Vec<Vec<(usize, u64)>> = vec![Vec::new(); self.switches.len()];
        for &(switch, above, edge) in &filled.links {
            left[switch].push((above, filled.network.flow(edge)));
        }
        let mut routes = Vec::new();
        for switch in self.aggregators() {
            let mut path = vec![switch];
            self.climb(&mut left, self.switches[switch].up[0], &mut path);
            routes.push(Route { from_worker: false, path });
            routes.extend((0..self.free(switch)).map(|_| Route { from_worker: true, path: vec![switch] }));
        }
        for &(switch, edge, outputs) in &filled.inputs {
            for _ in outputs..filled.network.flow(edge) {
                let mut path = Vec::new();
                self.climb(&mut left, switch, &mut path);
                routes.push(Route { from_worker: true, path });
            }
        }
        Some(routes)
    }

    /// Returns the skeleton without upward links of common switches that this many workers do not need; `None` if it has too many links to be
    /// tried one by one.
    pub(super) fn lean_by(&self, flows: &dyn Fn(usize, usize) -> u64, workers: u64) -> Option<Skeleton> {
        if self.switches.iter().map(|switch| switch.up.len()).sum::<usize>() > LEAN_MAX {
            return None;
        }
        let mut lean = self.clone();
        // The last switches first: surplus workers are on them.
        for switch in self.commons().collect::<Vec<_>>().into_iter().rev() {
            for at in (0..self.switches[switch].up.len()).rev() {
                let above = lean.switches[switch].up.remove(at);
                lean.switches[above].down -= 1;
                if lean.workers_by(flows).is_none_or(|most| most < workers) {
                    lean.switches[switch].up.insert(at, above);
                    lean.switches[above].down += 1;
                }
            }
        }
        Some(lean)
    }

    /// Follows the remaining flow up to an aggregator or the server.
    fn climb(&self, left: &mut [Vec<(usize, u64)>], from: usize, path: &mut Vec<usize>) {
        let mut at = from;
        path.push(at);
        while at != SERVER && !self.switches[at].aggregates {
            let Some((above, flow)) = left[at].iter_mut().find(|(_, flow)| *flow > 0) else { return };
            *flow -= 1;
            at = *above;
            path.push(at);
        }
    }

    fn fill(&self, flows: &dyn Fn(usize, usize) -> u64) -> Option<Filled> {
        let (source, sink) = (self.switches.len(), self.switches.len() + 1);
        let mut network = Network::new(self.switches.len() + 2);
        let mut links = Vec::new();
        for switch in self.commons() {
            for &above in &self.switches[switch].up {
                let takes = above == SERVER || self.switches[above].aggregates;
                let edge = network.add(switch, if takes { sink } else { above }, flows(switch, above));
                links.push((switch, above, edge));
            }
        }
        let mut outputs = vec![0; self.switches.len()];
        for switch in self.aggregators() {
            outputs[self.switches[switch].up[0]] += 1;
        }
        let inputs: Vec<_> = self
            .commons()
            .map(|switch| (switch, network.add(source, switch, outputs[switch]), outputs[switch]))
            .collect();
        if network.run(source, sink) < inputs.iter().map(|(.., outputs)| outputs).sum() {
            return None;
        }
        for &(switch, edge, _) in &inputs {
            network.widen(edge, self.free(switch));
        }
        network.run(source, sink);
        Some(Filled { network, links, inputs })
    }
}

/// A flow through common switches.
struct Filled {
    network: Network,
    /// Common switch, upper neighbour, and the edge between them.
    links: Vec<(usize, usize, usize)>,
    /// Common switch, the edge of all its inputs from workers and aggregators, and the aggregators' part of it.
    inputs: Vec<(usize, usize, u64)>,
}
