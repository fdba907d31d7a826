//! Which clusters are active: those with an arrival within a window. OLAF §5 calls their number N.

use pktgen_core::time::Time;

/// No cluster.
const NONE: u32 = u32::MAX;

/// Counts clusters with an arrival in the last `window`: a list ordered by latest arrival, threaded
/// through an array, so that arrivals and expiries cost a few writes. The array has the clusters that were seen here, in the order in
/// which they were: in a large network a device sees few.
#[derive(Debug, Clone)]
pub struct Activity {
    window: Time,
    /// By cluster: one more than its place among those seen, or 0.
    seen: Vec<u32>,
    nodes: Vec<Node>,
    oldest: u32,
    newest: u32,
    active: u16,
}

#[derive(Debug, Clone, Copy)]
struct Node {
    last: Time,
    older: u32,
    newer: u32,
    listed: bool,
}

impl Activity {
    /// For clusters below `clusters`.
    pub fn new(clusters: usize, window: Time) -> Self {
        Activity { window, seen: vec![0; clusters], nodes: Vec::new(), oldest: NONE, newest: NONE, active: 0 }
    }

    /// The place of a cluster among those seen, if it was.
    #[inline]
    pub fn place(&self, cluster: u16) -> Option<usize> {
        (*self.seen.get(usize::from(cluster))? as usize).checked_sub(1)
    }

    /// The place of a cluster, which is the next one if it was not seen; none if there is no such cluster.
    #[inline]
    fn enter(&mut self, cluster: u16) -> Option<u32> {
        let seen = self.seen.get_mut(usize::from(cluster))?;
        if *seen == 0 {
            self.nodes.push(Node { last: 0, older: NONE, newer: NONE, listed: false });
            *seen = self.nodes.len() as u32;
        }
        Some(*seen - 1)
    }

    /// An update of `cluster` arrived at `t`; its place among those seen, or none if there is no such cluster.
    #[inline]
    pub fn arrival(&mut self, t: Time, cluster: u16) -> Option<usize> {
        let id = self.enter(cluster)?;
        self.nodes[id as usize].last = t;
        if self.newest == id {
            return Some(id as usize);
        }
        if self.nodes[id as usize].listed {
            self.unlink(id);
        }
        let newest = self.newest;
        self.nodes[id as usize] = Node { last: t, older: newest, newer: NONE, listed: true };
        match newest {
            NONE => self.oldest = id,
            other => self.nodes[other as usize].newer = id,
        }
        self.newest = id;
        self.active += 1;
        Some(id as usize)
    }

    fn unlink(&mut self, id: u32) {
        let Node { older, newer, .. } = self.nodes[id as usize];
        match older {
            NONE => self.oldest = newer,
            other => self.nodes[other as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            other => self.nodes[other as usize].older = older,
        }
        self.nodes[id as usize].listed = false;
        self.active -= 1;
    }

    /// How many are active at `t`.
    pub fn active(&mut self, t: Time) -> u16 {
        while self.oldest != NONE && t - self.nodes[self.oldest as usize].last >= self.window {
            self.unlink(self.oldest);
        }
        self.active
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn counts_like_a_scan(steps in prop::collection::vec((0i64..20, 0u16..6, any::<bool>()), 0..100)) {
            let (mut activity, mut last, mut t) = (Activity::new(5, 30), [None; 5], 0);
            for (gap, cluster, ask) in steps {
                t += gap;
                let place = activity.arrival(t, cluster);
                prop_assert_eq!(place, activity.place(cluster));
                prop_assert_eq!(place.is_some(), cluster < 5);
                if let Some(slot) = last.get_mut(usize::from(cluster)) {
                    *slot = Some(t);
                }
                if ask {
                    let expected = last.iter().flatten().filter(|l| t - **l < 30).count();
                    prop_assert_eq!(usize::from(activity.active(t)), expected);
                }
            }
        }
    }
}
