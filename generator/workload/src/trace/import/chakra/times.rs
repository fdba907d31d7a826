//! When nodes begin: as recorded, else when the last of those has ended that they wait for.

use std::collections::{HashMap, HashSet};

use super::file::Node;

/// The nodes of a file by their ids, and when they begin.
pub(super) struct Times<'a> {
    nodes: &'a [(u64, Node)],
    places: HashMap<u64, usize>,
    /// Known so far, in microseconds.
    starts: Vec<Option<u64>>,
    /// When those begin that wait for nothing and have no time: with the first that has one.
    pub(super) origin: u64,
    /// Whether any node has a time.
    pub(super) recorded: bool,
}

impl<'a> Times<'a> {
    pub(super) fn new(nodes: &'a [(u64, Node)]) -> Result<Self, String> {
        let mut places = HashMap::with_capacity(nodes.len());
        for (place, (at, node)) in nodes.iter().enumerate() {
            if let Some(before) = places.insert(node.id, place) {
                let before = nodes[before].0;
                return Err(format!("byte {at}: node {} is there twice, the first at byte {before}", node.id));
            }
        }
        let recorded = nodes.iter().map(|(_, node)| node.start).filter(|start| *start > 0).min();
        let starts = nodes.iter().map(|(_, node)| (node.start > 0).then_some(node.start)).collect();
        Ok(Times { nodes, places, starts, origin: recorded.unwrap_or(0), recorded: recorded.is_some() })
    }

    /// When the node at `place` begins, in microseconds.
    pub(super) fn start(&mut self, place: usize) -> Result<u64, String> {
        // Nodes that wait for the one on top, each with how many of its own it has looked at, and the latest end of those.
        let mut path = vec![(place, 0, self.origin)];
        let mut waiting = HashSet::from([place]);
        while let Some((place, looked, latest)) = path.last_mut() {
            if self.starts[*place].is_some() {
                waiting.remove(place);
                path.pop();
                continue;
            }
            let (at, node) = &self.nodes[*place];
            let Some(dep) = node.deps.get(*looked) else {
                self.starts[*place] = Some(*latest);
                continue;
            };
            let why = |what: String| format!("byte {at}: node {}: it has no start time, and {what}", node.id);
            let Some(&before) = self.places.get(dep) else {
                return Err(why(format!("waits for node {dep}, which is not in the file")));
            };
            if let Some(start) = self.starts[before] {
                let end = start.checked_add(self.nodes[before].1.duration);
                *latest = (*latest).max(end.ok_or_else(|| why(format!("node {dep} ends later than times reach")))?);
                *looked += 1;
            } else if !waiting.insert(before) {
                return Err(why(format!("waits for node {dep}, which waits for it: a circle")));
            } else {
                path.push((before, 0, self.origin));
            }
        }
        self.starts[place].ok_or_else(|| "no time was found".to_owned())
    }
}
