//! The number of active clusters: those with an arrival within a window. OLAF §5 calls it N.

use pktgen_core::prefetch;
use pktgen_core::time::Time;

/// No cluster.
const NONE: u32 = u32::MAX;

/// Places of clusters: open addressing with linear probing, at most half full. An entry is one word: cluster, place.
#[derive(Debug, Clone, Default)]
struct Seen {
    entries: Vec<u32>,
    used: usize,
}

impl Seen {
    /// The place of a cluster.
    #[inline]
    fn get(&self, cluster: u16) -> Option<u16> {
        let mut at = self.first(cluster);
        loop {
            let entry = *self.entries.get(at)?;
            if entry == NONE {
                return None;
            }
            if (entry >> 16) as u16 == cluster {
                return Some(entry as u16);
            }
            at = (at + 1) & (self.entries.len() - 1);
        }
    }

    /// Where the search for a cluster begins: neighbours and multiples of powers of two are spread alike.
    #[inline]
    fn first(&self, cluster: u16) -> usize {
        let spread = usize::from(cluster.wrapping_mul(0x9e37));
        (spread * self.entries.len()) >> 16
    }

    /// Puts in a cluster that is not there.
    #[cold]
    fn insert(&mut self, cluster: u16, place: u16) {
        if 2 * (self.used + 1) > self.entries.len() {
            let larger = vec![NONE; (2 * self.entries.len()).max(16)];
            let old = std::mem::replace(&mut self.entries, larger);
            old.into_iter().filter(|entry| *entry != NONE).for_each(|entry| self.put(entry));
        }
        self.put(u32::from(cluster) << 16 | u32::from(place));
        self.used += 1;
    }

    fn put(&mut self, entry: u32) {
        let mut at = self.first((entry >> 16) as u16);
        while self.entries[at] != NONE {
            at = (at + 1) & (self.entries.len() - 1);
        }
        self.entries[at] = entry;
    }
}

/// Counts clusters with an arrival in the last `window`: a list ordered by latest arrival, threaded
/// through an array, so that arrivals and expiries cost a few writes. The array has the clusters that were seen here, in the order in
/// which they were: in a large network a device sees few of them, and what it keeps fits a few cache lines.
#[derive(Debug, Clone)]
pub struct Activity {
    window: Time,
    /// Clusters that may be seen are below this.
    clusters: usize,
    seen: Seen,
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
    /// An activity counter for clusters below `clusters`.
    pub fn new(clusters: usize, window: Time) -> Self {
        Activity { window, clusters, seen: Seen::default(), nodes: Vec::new(), oldest: NONE, newest: NONE, active: 0 }
    }

    /// Returns the place of a cluster among those seen, if it was seen.
    #[inline]
    pub fn place(&self, cluster: u16) -> Option<usize> {
        self.seen.get(cluster).map(usize::from)
    }

    /// Returns the place of a cluster, a new one if it was not seen; `None` if there is no such cluster.
    #[inline]
    fn enter(&mut self, cluster: u16) -> Option<u32> {
        if let Some(place) = self.seen.get(cluster) {
            return Some(place.into());
        }
        if usize::from(cluster) >= self.clusters {
            return None;
        }
        let place = self.nodes.len() as u16;
        self.nodes.push(Node { last: 0, older: NONE, newer: NONE, listed: false });
        self.seen.insert(cluster, place);
        Some(place.into())
    }

    /// Records an update of `cluster` at `t`; returns its place among those seen, or `None` if there is no such cluster.
    #[inline(always)]
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

    /// Fetches what leads to the place of a cluster.
    pub fn fetch(&self, cluster: u16) {
        self.seen.entries.get(self.seen.first(cluster)).into_iter().for_each(prefetch);
    }

    /// Fetches what is kept at a place.
    pub fn fetch_at(&self, place: usize) {
        self.nodes.get(place).into_iter().for_each(prefetch);
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

    /// Returns the number of active clusters at `t`.
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

    #[test]
    fn clusters_at_any_distance_are_found() {
        for stride in [1u16, 2, 16, 64, 256, 4096, 4369] {
            let mut seen = Seen::default();
            for (cluster, place) in (0..u16::MAX).step_by(stride.into()).zip(0u16..) {
                assert_eq!(seen.get(cluster), None);
                seen.insert(cluster, place);
            }
            for (cluster, place) in (0..u16::MAX).step_by(stride.into()).zip(0u16..) {
                assert_eq!(seen.get(cluster), Some(place), "{stride}");
            }
        }
    }

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
