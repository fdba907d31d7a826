//! Heads: aggregators with free ports for links from common switches, and the maximum number of such links.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::flow::Network;

/// Returns the maximum number of links from `commons` switches, at most `each` from one, to heads with these free
/// ports, without duplicates (equation 2: x is 0 or 1). `free` is in ascending order.
pub(super) fn most_links(commons: u64, each: u64, free: &[u64]) -> u64 {
    let heads = free.len() as u64;
    let (mut best, mut sum) = (u64::MAX, 0);
    for x in 0..=free.len() {
        best = best.min(sum + commons * each.min(heads - x as u64));
        sum += free.get(x).unwrap_or(&0);
    }
    best
}

/// Ports of a common switch: `full` links of m flows, each with m ports, and `rest` remaining ports (ATRO notes: o and t).
#[derive(Debug, Clone, Copy)]
pub(super) struct Shares {
    /// Flows per link.
    pub m: u64,
    /// ⌊p / (m + 1)⌋.
    pub full: u64,
    /// p mod (m + 1).
    pub rest: u64,
}

impl Shares {
    /// Computes the shares of a switch with this many ports.
    pub fn new(ports: u64, m: u64) -> Self {
        Shares { m, full: ports / (m + 1), rest: ports % (m + 1) }
    }

    /// Returns the number of workers that a further, not full link adds: t − 2 if positive.
    pub fn partial(&self) -> u64 {
        self.rest.saturating_sub(2)
    }

    /// Returns the number of additional workers due to one common switch with links to this many heads.
    pub(crate) fn gain(&self, heads: u64) -> u64 {
        (self.m - 1) * self.full.min(heads) + if heads > self.full { self.partial() } else { 0 }
    }

    /// Returns the number of workers that common switches add, each linked to heads only.
    pub fn single(&self, commons: u64, free: &[u64]) -> u64 {
        let full = most_links(commons, self.full, free);
        let more = if self.partial() > 0 { most_links(commons, self.full + 1, free) - full } else { 0 };
        (self.m - 1) * full + self.partial() * more
    }
}

/// Above this number of possible links the assignment is greedy: a flow through all of them would not fit into memory.
const FLOW_MAX: usize = 4_000_000;

/// Assigns heads to each common switch: in each stage a switch gets up to a given number more, with the maximum total.
pub(super) fn deal(free: &[u64], stages: &[Vec<u64>]) -> Vec<Vec<usize>> {
    let Some(first) = stages.first() else { return Vec::new() };
    let commons = first.len();
    if commons * free.len() > FLOW_MAX {
        return deal_greedily(free, stages);
    }
    let (source, sink) = (commons + free.len(), commons + free.len() + 1);
    let mut network = Network::new(sink + 1);
    let sources: Vec<usize> = (0..commons).map(|common| network.add(source, common, 0)).collect();
    let mut links = Vec::new();
    for (common, &more) in first.iter().enumerate() {
        // Each switch begins with another head, so that the first flow found is already spread.
        for i in 0..free.len() {
            let head = (i + common * more as usize) % free.len();
            links.push((common, head, network.add(common, commons + head, 1)));
        }
    }
    for (head, room) in free.iter().enumerate() {
        network.add(commons + head, sink, *room);
    }
    for stage in stages {
        for (edge, more) in sources.iter().zip(stage) {
            network.widen(*edge, *more);
        }
        network.run(source, sink);
    }
    let mut dealt = vec![Vec::new(); commons];
    for (common, head, edge) in links {
        if network.flow(edge) > 0 {
            dealt[common].push(head);
        }
    }
    dealt
}

/// Does the same switch by switch, using the heads with most free ports: optimal if all switches get the same number.
fn deal_greedily(free: &[u64], stages: &[Vec<u64>]) -> Vec<Vec<usize>> {
    let mut rooms: BinaryHeap<(u64, Reverse<usize>)> =
        (0..free.len()).map(|head| (free[head], Reverse(head))).collect();
    let mut dealt = vec![Vec::new(); stages.first().map_or(0, Vec::len)];
    for stage in stages {
        for (own, &more) in dealt.iter_mut().zip(stage) {
            let (mut left, mut passed) = (more, Vec::new());
            while left > 0 {
                let Some((room, Reverse(head))) = rooms.pop().filter(|(room, _)| *room > 0) else { break };
                if own.contains(&head) {
                    passed.push((room, Reverse(head)));
                } else {
                    own.push(head);
                    passed.push((room - 1, Reverse(head)));
                    left -= 1;
                }
            }
            rooms.extend(passed);
        }
    }
    dealt
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_limited_by_switches_and_by_heads() {
        assert_eq!(most_links(3, 2, &[1, 5, 5]), 6);
        assert_eq!(most_links(3, 3, &[1, 5, 5]), 7);
        assert_eq!(most_links(3, 9, &[]), 0);
        assert_eq!(most_links(0, 2, &[4]), 0);
    }

    #[test]
    fn as_many_links_are_dealt_as_there_can_be() {
        for (commons, each, free) in [(3, 2, vec![1, 5, 5]), (3, 3, vec![1, 5, 5]), (7, 4, vec![3, 3, 3, 4, 6, 9])] {
            let stages = [vec![each; commons]];
            for dealt in [deal(&free, &stages), deal_greedily(&free, &stages)] {
                assert_eq!(dealt.iter().map(Vec::len).sum::<usize>() as u64, most_links(commons as u64, each, &free));
                for (head, room) in free.iter().enumerate() {
                    assert!(dealt.iter().filter(|heads| heads.contains(&head)).count() as u64 <= *room);
                }
            }
        }
    }

    #[test]
    fn a_later_stage_leaves_what_earlier_ones_gave() {
        let free = [2, 2, 2];
        let dealt = deal(&free, &[vec![1; 4], vec![1; 4]]);
        assert!(dealt.iter().all(|heads| !heads.is_empty()));
        assert_eq!(dealt.iter().map(Vec::len).sum::<usize>() as u64, most_links(4, 2, &free));
    }
}
