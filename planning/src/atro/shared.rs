//! Links to heads fed by several common switches: used if there are more switches than links.
//!
//! `k` switches and `h` links joined in one component add min(h(m − 1), k(p − 2) − 2(h − 1)) workers: either all links
//! are full, or all ports are used.

use super::cluster::Cluster;

/// Maximum size of a component, in switches and in links.
const SWITCHES_MAX: usize = 12;
const LINKS_MAX: usize = 24;

/// The best partitions of switches and links into components.
#[derive(Debug)]
pub(super) struct Partition {
    links: usize,
    /// Worth and first component (switches, links), by numbers of switches and links.
    best: Vec<(u64, (usize, usize))>,
    m: u64,
    ports: u64,
}

/// A common switch of a component.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Member {
    /// Number of links to heads.
    pub held: u64,
    /// Members to which it gives flows; these never give flows themselves.
    pub gives: Vec<usize>,
}

impl Partition {
    /// Computes the partitions for all common switches of a cluster.
    pub fn new(cluster: &Cluster, m: u64) -> Self {
        let commons = cluster.commons() as usize;
        let links = (cluster.commons() * cluster.aggregators).min(cluster.aggregators * (cluster.ports - 1)) as usize;
        let mut partition = Partition { links, best: Vec::new(), m, ports: cluster.ports };
        for switches in 0..=commons {
            for free in 0..=links {
                let mut best = (0, (0, 0));
                for k in 1..=switches.min(SWITCHES_MAX) {
                    for h in 1..=free.min(LINKS_MAX) {
                        let worth = partition.component(k as u64, h as u64) + partition.at(switches - k, free - h).0;
                        if worth > best.0 {
                            best = (worth, (k, h));
                        }
                    }
                }
                partition.best.push(best);
            }
        }
        partition
    }

    fn at(&self, switches: usize, links: usize) -> (u64, (usize, usize)) {
        self.best[switches * (self.links + 1) + links]
    }

    /// Returns the worth of a component of `k` switches and `h` links. In two layers, a link is fed by at most p switches.
    fn component(&self, k: u64, h: u64) -> u64 {
        let q = self.ports - 1;
        if k > h * q + 1 {
            return 0;
        }
        (h * (self.m.min(q * q) - 1)).min((k * (self.ports - 2)).saturating_sub(2 * (h - 1)))
    }

    /// Returns the number of workers that this many switches with this many links add.
    pub fn worth(&self, switches: u64, links: u64) -> u64 {
        self.at(switches as usize, (links as usize).min(self.links)).0
    }

    /// Returns the components that achieve this: switches and links of each.
    pub fn components(&self, switches: u64, links: u64) -> Vec<(usize, usize)> {
        let (mut switches, mut links) = (switches as usize, (links as usize).min(self.links));
        let mut components = Vec::new();
        loop {
            let (worth, (k, h)) = self.at(switches, links);
            if worth == 0 {
                return components;
            }
            components.push((k, h));
            (switches, links) = (switches - k, links - h);
        }
    }

    /// Joins `k` switches and `h` links, at most `heads` of them at one switch: links are assigned along the switches one after another; a
    /// link that needs several is held by one of them, to which the others give. A giver never takes, so there are two layers.
    pub fn join(&self, k: usize, h: usize, heads: u64) -> Vec<Member> {
        let mut members = vec![Member::default(); k];
        let mut line = Line { at: 0, left: self.ports, gives: false, fresh: 1 };
        for _ in 0..h {
            let full = |line: &Line| members[line.at].held >= heads;
            if line.left < 2 || full(&line) && (!line.gives || line.fresh >= k) {
                line = Line { at: line.fresh, left: self.ports, gives: false, fresh: line.fresh + 1 };
            }
            if line.at >= k {
                break;
            }
            if members[line.at].held < heads && (line.left > self.m || line.fresh >= k) {
                members[line.at].held += 1;
                line.left -= line.left.min(self.m + 1);
            } else if !line.gives {
                self.take_from_next(&mut members, &mut line);
            } else if line.fresh < k {
                self.give_onwards(&mut members, &mut line, heads);
            }
        }
        members
    }

    /// Lets the switch hold the link and the next ones give what it lacks.
    fn take_from_next(&self, members: &mut [Member], line: &mut Line) {
        let (holder, p) = (line.at, self.ports);
        let carried = |givers: u64| (line.left - 1 - givers) + givers * (p - 1);
        let most = (line.left - 1).min((members.len() - line.fresh) as u64);
        let givers = (1..=most).find(|&givers| carried(givers) >= self.m).unwrap_or(most);
        members[holder].held += 1;
        let spare = carried(givers).saturating_sub(self.m).min(p - 1);
        self.give(members, line, holder, givers, spare);
    }

    /// Lets the switch give to the next one, which holds the link: all that remains, unless the holder cannot hold
    /// another link and so needs its own ports only for this one.
    fn give_onwards(&self, members: &mut [Member], line: &mut Line, heads: u64) {
        let (p, holder) = (self.ports, line.fresh);
        line.fresh += 1;
        members[line.at].gives.push(holder);
        members[holder].held += 1;
        let lacks = self.m.saturating_sub(p - 2);
        if heads == 1 && lacks < line.left {
            line.left -= lacks + 1;
            return;
        }
        let given = line.left - 1;
        let carried = |givers: u64| given + (p - 2 - givers) + givers * (p - 1);
        let most = (p - 2).min((members.len() - line.fresh) as u64);
        let givers = (0..=most).find(|&givers| carried(givers) >= self.m).unwrap_or(most);
        let spare = carried(givers).saturating_sub(self.m).min(p - 1);
        self.give(members, line, holder, givers, spare);
    }

    /// Lets the next switches give to a holder; the last of them, or the holder, has `left` ports left.
    fn give(&self, members: &mut [Member], line: &mut Line, holder: usize, givers: u64, left: u64) {
        let fresh = line.fresh + givers as usize;
        members[line.fresh..fresh].iter_mut().for_each(|giver| giver.gives.push(holder));
        let at = if givers > 0 { fresh - 1 } else { holder };
        *line = Line { at, left, gives: givers > 0, fresh };
    }
}

/// The position along the switches at which the next link begins.
struct Line {
    at: usize,
    /// Remaining ports of that switch.
    left: u64,
    /// Whether it already gives, and so cannot take.
    gives: bool,
    /// The first unused switch.
    fresh: usize,
}
