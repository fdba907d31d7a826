//! Integer maximum flow (Dinic), for links, routes and the baseline ARO.

/// A network under construction, then a flow in it.
pub(super) struct Network {
    edges: Vec<Vec<u32>>,
    to: Vec<u32>,
    left: Vec<u64>,
}

impl Network {
    /// Creates a network of `nodes` nodes.
    pub fn new(nodes: usize) -> Self {
        Network { edges: vec![Vec::new(); nodes], to: Vec::new(), left: Vec::new() }
    }

    /// Adds an edge; its index is used in [`Self::flow`] and [`Self::widen`].
    pub fn add(&mut self, from: usize, to: usize, capacity: u64) -> usize {
        let edge = self.to.len();
        self.edges[from].push(edge as u32);
        self.edges[to].push(edge as u32 + 1);
        self.to.extend([to as u32, from as u32]);
        self.left.extend([capacity, 0]);
        edge
    }

    /// Increases the capacity of an edge.
    pub fn widen(&mut self, edge: usize, by: u64) {
        self.left[edge] += by;
    }

    /// Returns the flow along an edge.
    pub fn flow(&self, edge: usize) -> u64 {
        self.left[edge + 1]
    }

    /// Sends as much more as possible; existing flow from the source is never reduced.
    pub fn run(&mut self, source: usize, sink: usize) -> u64 {
        let mut sent = 0;
        loop {
            let levels = self.levels(source);
            if levels[sink] == u32::MAX {
                return sent;
            }
            let mut next = vec![0; self.edges.len()];
            loop {
                let more = self.push(source, sink, &levels, &mut next);
                if more == 0 {
                    break;
                }
                sent += more;
            }
        }
    }

    fn levels(&self, source: usize) -> Vec<u32> {
        let mut levels = vec![u32::MAX; self.edges.len()];
        levels[source] = 0;
        let mut queue = std::collections::VecDeque::from([source]);
        while let Some(node) = queue.pop_front() {
            for &edge in &self.edges[node] {
                let to = self.to[edge as usize] as usize;
                if self.left[edge as usize] > 0 && levels[to] == u32::MAX {
                    levels[to] = levels[node] + 1;
                    queue.push_back(to);
                }
            }
        }
        levels
    }

    /// Sends along one path of rising levels, if there is one left; `next` has the first edge of each node still to be tried.
    fn push(&mut self, source: usize, sink: usize, levels: &[u32], next: &mut [usize]) -> u64 {
        let mut path: Vec<usize> = Vec::new();
        let mut node = source;
        while node != sink {
            match self.edges[node].get(next[node]) {
                Some(&edge) => {
                    let (edge, to) = (edge as usize, self.to[edge as usize] as usize);
                    if self.left[edge] > 0 && levels[to] == levels[node] + 1 {
                        path.push(edge);
                        node = to;
                    } else {
                        next[node] += 1;
                    }
                }
                None => {
                    let Some(edge) = path.pop() else { return 0 };
                    node = self.to[edge ^ 1] as usize;
                    next[node] += 1;
                }
            }
        }
        let sent = path.iter().map(|&edge| self.left[edge]).min().unwrap_or(0);
        for edge in path {
            self.left[edge] -= sent;
            self.left[edge ^ 1] += sent;
        }
        sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_the_smallest_cut_and_never_leaves_what_it_has() {
        let mut network = Network::new(4);
        let (first, second) = (network.add(0, 1, 3), network.add(0, 2, 0));
        network.add(1, 2, 2);
        network.add(1, 3, 1);
        let last = network.add(2, 3, 2);
        assert_eq!(network.run(0, 3), 3);
        network.widen(second, 5);
        assert_eq!(network.run(0, 3), 0);
        assert_eq!((network.flow(first), network.flow(second), network.flow(last)), (3, 0, 2));
    }

    #[test]
    fn paths_may_be_long() {
        let nodes = 1_000_000;
        let mut network = Network::new(nodes);
        let edges: Vec<usize> = (1..nodes).map(|node| network.add(node - 1, node, 2)).collect();
        assert_eq!(network.run(0, nodes - 1), 2);
        assert!(edges.into_iter().all(|edge| network.flow(edge) == 2));
    }
}
