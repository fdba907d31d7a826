//! Which clusters are active: those with an arrival within a window. OLAF §5 calls their number N.

use pktgen_core::time::Time;

/// No cluster.
const NONE: u32 = u32::MAX;

/// Counts clusters with an arrival in the last `window`: a list ordered by latest arrival, threaded
/// through an array, so that arrivals and expiries cost a few writes.
#[derive(Debug, Clone)]
pub struct Activity {
    window: Time,
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
        let node = Node { last: 0, older: NONE, newer: NONE, listed: false };
        Activity { window, nodes: vec![node; clusters], oldest: NONE, newest: NONE, active: 0 }
    }

    /// An update of `cluster` arrived at `t`.
    #[inline]
    pub fn arrival(&mut self, t: Time, cluster: u16) {
        let id = u32::from(cluster);
        if id as usize >= self.nodes.len() {
            return;
        }
        self.nodes[id as usize].last = t;
        if self.newest == id {
            return;
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
                activity.arrival(t, cluster);
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
