//! Links to heads that several common switches feed: where there are more switches than links.
//!
//! `k` switches and `h` links joined in one component add min(h(m − 1), k(p − 2) − 2(h − 1)) workers: either all links are
//! full, or all ports are taken.

use super::cluster::Cluster;

/// Largest component that is considered, in switches and in links.
const SWITCHES_MAX: usize = 12;
const LINKS_MAX: usize = 24;

/// The best ways to part so many switches and links into components.
#[derive(Debug)]
pub(super) struct Partition {
    links: usize,
    /// Worth, and the first component (switches, links), by switches and links.
    best: Vec<(u64, (usize, usize))>,
    m: u64,
    ports: u64,
}

/// A common switch of a component.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Member {
    /// Links to heads.
    pub held: u64,
    /// Members to which it gives flows; they are never givers themselves.
    pub gives: Vec<usize>,
}

impl Partition {
    /// Of all common switches of a cluster.
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

    /// What a component of `k` switches and `h` links is worth.
    fn component(&self, k: u64, h: u64) -> u64 {
        (h * (self.m - 1)).min((k * (self.ports - 2)).saturating_sub(2 * (h - 1)))
    }

    /// Workers that so many switches with so many links add.
    pub fn worth(&self, switches: u64, links: u64) -> u64 {
        self.at(switches as usize, (links as usize).min(self.links)).0
    }

    /// The components that are worth it: switches and links of each.
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

    /// Joins `k` switches and `h` links: links are laid along the switches one after the other; a link that needs
    /// several is held by one of them, to which the others give. Who gives never takes, so there are two layers.
    pub fn join(&self, k: usize, h: usize) -> Vec<Member> {
        let mut members = vec![Member::default(); k];
        let mut line = Line { at: 0, left: self.ports, gives: false };
        for _ in 0..h {
            if line.left < 2 {
                line = Line { at: line.at + 1, left: self.ports, gives: false };
            }
            if line.at >= k {
                break;
            }
            if line.left > self.m || line.at + 1 == k {
                members[line.at].held += 1;
                line.left -= line.left.min(self.m + 1);
            } else if line.gives {
                self.give_onwards(&mut members, &mut line);
            } else {
                self.take_from_next(&mut members, &mut line);
            }
        }
        members
    }

    /// The switch holds the link and the next ones give what it lacks.
    fn take_from_next(&self, members: &mut [Member], line: &mut Line) {
        let (holder, p) = (line.at, self.ports);
        let carried = |givers: u64| (line.left - 1 - givers) + givers * (p - 1);
        let most = (line.left - 1).min((members.len() - 1 - holder) as u64);
        let givers = (1..=most).find(|&givers| carried(givers) >= self.m).unwrap_or(most);
        members[holder].held += 1;
        for giver in 1..=givers as usize {
            members[holder + giver].gives.push(holder);
        }
        let spare = carried(givers).saturating_sub(self.m).min(p - 1);
        *line = Line { at: holder + givers as usize, left: spare, gives: true };
    }

    /// The switch gives what it has left to the next one, which holds the link.
    fn give_onwards(&self, members: &mut [Member], line: &mut Line) {
        let (p, holder) = (self.ports, line.at + 1);
        members[line.at].gives.push(holder);
        members[holder].held += 1;
        let given = line.left - 1;
        let carried = |givers: u64| given + (p - 2 - givers) + givers * (p - 1);
        let most = (p - 2).min((members.len() - 1 - holder) as u64);
        let givers = (0..=most).find(|&givers| carried(givers) >= self.m).unwrap_or(most);
        for giver in 1..=givers as usize {
            members[holder + giver].gives.push(holder);
        }
        let spare = carried(givers).saturating_sub(self.m).min(p - 1);
        *line = Line { at: holder + givers as usize, left: spare, gives: givers > 0 };
    }
}

/// Where along the switches the next link begins.
struct Line {
    at: usize,
    /// Ports of that switch that are left.
    left: u64,
    /// Whether it gives already, and so cannot take.
    gives: bool,
}
