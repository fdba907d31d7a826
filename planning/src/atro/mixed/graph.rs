//! Switches and their upward links, by their numbers in the inventory.

use super::super::capacities::Capacities;
use super::super::skeleton::{SERVER, Skeleton};

/// The upward neighbours of each switch: switches, or the server, the number after the last; empty if it is unused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Graph {
    /// Upward links.
    pub up: Vec<Vec<usize>>,
}

/// A graph with the inventory number of each switch of the skeleton.
pub(super) struct Numbered {
    /// The switches, upper ones first.
    pub skeleton: Skeleton,
    /// Numbers in the inventory.
    pub of: Vec<usize>,
}

impl Graph {
    /// Creates a graph without links.
    pub fn new(switches: usize) -> Self {
        Graph { up: vec![Vec::new(); switches] }
    }

    /// Whether a switch is in use.
    pub fn uses(&self, switch: usize) -> bool {
        !self.up[switch].is_empty()
    }

    /// Whether a switch has links from below.
    pub(super) fn feeds(&self, switch: usize) -> bool {
        self.up.iter().any(|up| up.contains(&switch))
    }

    /// Returns the graphs without a switch, whose links from below lead to one of those above it; to one of those below it, if
    /// above it is only the server.
    pub(super) fn without(&self, switch: usize) -> impl Iterator<Item = Graph> {
        let server = self.up.len();
        let below: Vec<usize> = (0..server).filter(|&other| self.up[other].contains(&switch)).collect();
        let ends = if self.up[switch] == [server] { below.clone() } else { self.up[switch].clone() };
        ends.into_iter().map(move |end| {
            let mut graph = self.clone();
            graph.up[switch].clear();
            for &other in &below {
                let above = if other == end { server } else { end };
                let up = &mut graph.up[other];
                up.retain(|&old| old != switch && old != above);
                up.push(above);
            }
            graph
        })
    }

    /// Returns the switches in order; `None` if the graph is impossible in this inventory at this rate: a loop, or too
    /// few ports, layers or flows.
    pub fn numbered(&self, capacities: &Capacities) -> Option<Numbered> {
        let (switches, server) = (self.up.len(), self.up.len());
        let mut down = vec![0u64; switches + 1];
        let mut below = vec![Vec::new(); switches + 1];
        for (switch, up) in self.up.iter().enumerate() {
            for &above in up {
                down[above] += 1;
                below[above].push(switch);
            }
        }
        let fits = |switch: usize| {
            let up = &self.up[switch];
            up.len() as u64 + down[switch] <= capacities.ports(switch)
                && up.iter().all(|&above| capacities.flows(switch, above) > 0)
                && (up.len() == 1 || !capacities.inventory.switches[switch].aggregates)
        };
        if down[server] != 1 || !(0..switches).all(|switch| !self.uses(switch) || fits(switch)) {
            return None;
        }
        let (mut skeleton, mut of) = (Skeleton::new(0), vec![server]);
        let mut number = vec![None; switches + 1];
        number[server] = Some(SERVER);
        let mut open: Vec<usize> = self.up.iter().map(Vec::len).collect();
        let mut next = 0;
        while let Some(&above) = of.get(next) {
            next += 1;
            for &switch in &below[above] {
                open[switch] -= 1;
                if open[switch] > 0 {
                    continue;
                }
                let up: Vec<usize> = self.up[switch].iter().filter_map(|&above| number[above]).collect();
                let aggregates = capacities.inventory.switches[switch].aggregates;
                let own = skeleton.add_with(capacities.ports(switch), aggregates, &up);
                if skeleton.depth(own) > capacities.inventory.layers {
                    return None;
                }
                number[switch] = Some(own);
                of.push(switch);
            }
        }
        (of.len() == 1 + self.up.iter().filter(|up| !up.is_empty()).count()).then_some(Numbered { skeleton, of })
    }

    /// Returns the maximum number of workers; `None` if the graph is impossible or the flows of aggregators do not fit.
    pub fn workers(&self, capacities: &Capacities) -> Option<u64> {
        let Numbered { skeleton, of } = self.numbered(capacities)?;
        skeleton.workers_by(&|a, b| capacities.flows(of[a], of[b]))
    }
}
