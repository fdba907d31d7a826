//! Exhaustive search: visits every graph of switches once, ordered by layer, as long as the upper bound permits holding the workers.
//!
//! Switches are added below others in ascending order of (layer, number), so each graph has one order; among equal
//! switches the lowest number is next. A branch ends if 1 + the worth of its switches with their links + the potential
//! of the others is below the target (`bound.rs` has the proof, which holds for the given links).

use super::super::capacities::Capacities;
use super::bound::{potential, usable, worth};
use super::graph::Graph;

/// Maximum number of useful switches that are searched.
pub(super) const SWITCHES_MAX: usize = 10;

/// Number of graphs after which the search gives up.
const GRAPHS_MAX: u64 = 1_000_000;

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// A graph that holds the workers.
    Found(Graph),
    /// There is none.
    Refuted,
    /// The search was not completed.
    Unknown,
}

/// Searches for a graph that holds `target` workers.
pub(super) fn search(capacities: &Capacities, target: u64) -> Answer {
    let usable = usable(capacities);
    if usable.len() > SWITCHES_MAX {
        return Answer::Unknown;
    }
    let switches = capacities.switches();
    let potential: Vec<i64> = (0..switches).map(|switch| potential(capacities, switch)).collect();
    let rest = usable.iter().map(|&switch| potential[switch]).sum();
    let mut search = Search { capacities, target: target as i64, left: GRAPHS_MAX, usable, potential, found: false };
    let mut branch = Branch {
        graph: Graph::new(switches),
        free: (0..switches).map(|switch| capacities.ports(switch)).collect(),
        depth: vec![0; switches],
        value: 1,
        rest,
        last: (0, 0),
    };
    search.extend(&mut branch);
    match (search.found, search.left) {
        (true, _) => Answer::Found(branch.graph),
        (false, 0) => Answer::Unknown,
        (false, _) => Answer::Refuted,
    }
}

struct Search<'a> {
    capacities: &'a Capacities<'a>,
    target: i64,
    left: u64,
    usable: Vec<usize>,
    /// How many workers each switch may add, whatever its links.
    potential: Vec<i64>,
    found: bool,
}

struct Branch {
    graph: Graph,
    free: Vec<u64>,
    depth: Vec<u64>,
    /// Number of workers that the switches in use may have.
    value: i64,
    /// Number of workers that the others may add.
    rest: i64,
    /// Layer and number of the last switch.
    last: (u64, usize),
}

impl Search<'_> {
    /// Tries every graph that extends the branch; returns whether the search ends, with the branch as found.
    fn extend(&mut self, branch: &mut Branch) -> bool {
        if branch.value >= self.target && branch.last.0 > 0 {
            let workers = branch.graph.workers(self.capacities).unwrap_or(0);
            if workers as i64 >= self.target {
                self.found = true;
                return true;
            }
        }
        if branch.value + branch.rest < self.target {
            return false;
        }
        for at in 0..self.usable.len() {
            let switch = self.usable[at];
            if branch.graph.uses(switch) || self.usable[..at].iter().any(|&other| self.is_next(branch, other, switch)) {
                continue;
            }
            let heads = self.heads(branch, switch);
            let aggregates = self.capacities.inventory.switches[switch].aggregates;
            for set in 1u64..1 << heads.len() {
                let links = u64::from(set.count_ones());
                if links >= self.capacities.ports(switch) || aggregates && links > 1 {
                    continue;
                }
                let up = heads.iter().enumerate().filter(|(bit, _)| set >> bit & 1 == 1).map(|(_, &head)| head);
                if self.add(branch, switch, up.collect()) {
                    return true;
                }
            }
        }
        false
    }

    /// Whether `other` is unused and equal to `switch`, so that it comes first.
    fn is_next(&self, branch: &Branch, other: usize, switch: usize) -> bool {
        let inventory = self.capacities.inventory;
        let own = |switch: usize| {
            let found = &inventory.switches[switch];
            (found.ports, found.rate_bps, found.aggregates)
        };
        let special = |switch: usize| inventory.links.keys().any(|&(a, b)| a == switch || b == switch);
        !branch.graph.uses(other) && own(other) == own(switch) && !special(other) && !special(switch)
    }

    /// Returns the possible upward neighbours of a switch.
    fn heads(&self, branch: &Branch, switch: usize) -> Vec<usize> {
        let server = self.capacities.switches();
        if branch.last.0 == 0 {
            return [server].into_iter().filter(|&server| self.capacities.flows(switch, server) > 0).collect();
        }
        let fits = |head: usize| {
            branch.graph.uses(head)
                && branch.free[head] > 0
                && branch.depth[head] < self.capacities.inventory.layers
                && self.capacities.flows(switch, head) > 0
        };
        self.usable.iter().copied().filter(|&head| fits(head)).collect()
    }

    /// Adds a switch, continues from there, and removes it unless the search ends.
    fn add(&mut self, branch: &mut Branch, switch: usize, up: Vec<usize>) -> bool {
        if self.left == 0 {
            return true;
        }
        self.left -= 1;
        let server = self.capacities.switches();
        let layer = 1 + up.iter().filter(|&&head| head < server).map(|&head| branch.depth[head]).max().unwrap_or(0);
        if (layer, switch) <= branch.last {
            return false;
        }
        let (ports, links) = (self.capacities.ports(switch), up.len() as u64);
        let own = match self.capacities.inventory.switches[switch].aggregates {
            true => ports as i64 - 2,
            false => {
                let sum = up.iter().fold(0u64, |sum, &head| sum.saturating_add(self.capacities.flows(switch, head)));
                worth(ports, links, sum)
            }
        };
        let before = (branch.value, branch.rest, branch.last);
        (branch.value, branch.rest, branch.last) = (before.0 + own, before.1 - self.potential[switch], (layer, switch));
        branch.free[switch] -= links;
        branch.depth[switch] = layer;
        up.iter().filter(|&&head| head < server).for_each(|&head| branch.free[head] -= 1);
        branch.graph.up[switch] = up;
        if self.extend(branch) {
            return true;
        }
        let up = std::mem::take(&mut branch.graph.up[switch]);
        up.iter().filter(|&&head| head < server).for_each(|&head| branch.free[head] += 1);
        branch.free[switch] += links;
        (branch.value, branch.rest, branch.last) = before;
        false
    }
}
