//! Sums of contributions (Trio-ML, SwitchML): which results are copies, who contributed, in flat memory.
//!
//! Called by [`super::meter`]. A result goes to every worker of a job, so a capture may hold it many times: the first is its
//! delivery, as in run dirs.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};

use pktgen_wire::wire::sight::Sight;

use super::Event;

/// Entries that are remembered: so many up to twice as many.
const KEPT: usize = 1 << 20;

/// The latest entries of a map.
pub(super) struct Recent<K, V, S = RandomState> {
    young: HashMap<K, V, S>,
    old: HashMap<K, V, S>,
    kept: usize,
}

impl<K: Eq + Hash, V: Copy, S: BuildHasher + Default> Recent<K, V, S> {
    /// Remembers at least the latest `kept`.
    pub(super) fn new(kept: usize) -> Self {
        Recent { young: HashMap::default(), old: HashMap::default(), kept }
    }

    pub(super) fn put(&mut self, key: K, value: V) {
        if self.young.len() == self.kept {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }

    pub(super) fn get(&self, key: &K) -> Option<V> {
        self.young.get(key).or_else(|| self.old.get(key)).copied()
    }
}

/// What all packets of a sum have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct SumId {
    format: u8,
    cluster: u16,
    round: u16,
    seq: u32,
}

impl SumId {
    fn of(event: &Event) -> Self {
        let Sight { cluster, round, seq, .. } = event.sight;
        SumId { format: event.format, cluster, round, seq }
    }
}

/// The sums of a capture.
pub(super) struct Sums {
    /// By sum and worker: was it sent again?
    contributions: Recent<(SumId, u32), bool>,
    contributors: Recent<SumId, u16>,
    /// By sum, by the source that opened it, where results say that, and by what they hold.
    results: Recent<(SumId, u32, u16, u32), ()>,
    /// Fewest and most contributors of the sums whose results were seen.
    workers: Option<(u16, u16)>,
    /// Results that are copies, or of a contribution that was sent again and opened a sum of its own: their header does not say which.
    pub(super) ambiguous: u64,
}

impl Sums {
    pub(super) fn new() -> Self {
        Sums {
            contributions: Recent::new(KEPT),
            contributors: Recent::new(KEPT),
            results: Recent::new(KEPT),
            workers: None,
            ambiguous: 0,
        }
    }

    /// Takes note of a contribution; true if its worker had sent it before.
    pub(super) fn contribution(&mut self, event: &Event) -> bool {
        let (sum, Some(worker)) = (SumId::of(event), event.sight.worker) else { return false };
        let known = self.contributions.get(&(sum, worker));
        self.contributions.put((sum, worker), known.is_some());
        if known.is_some() {
            return true;
        }
        let others = self.contributors.get(&sum).unwrap_or(0);
        self.contributors.put(sum, others.saturating_add(1));
        false
    }

    /// Takes note of a result that names who opened its sum, unless it has all workers; false if it is a copy. A device below another
    /// opens a sum there for each of its own: they differ in what they hold.
    pub(super) fn result(&mut self, event: &Event, of_all: bool) -> bool {
        let sum = SumId::of(event);
        // The worker of a result that has all is the one that it was sent to.
        let opener = if of_all { 0 } else { event.sight.worker.unwrap_or(0) };
        let result = (sum, opener, event.sight.count, event.content);
        if self.results.get(&result).is_some() {
            self.ambiguous += u64::from(!of_all && self.contributions.get(&(sum, opener)) == Some(true));
            return false;
        }
        self.results.put(result, ());
        if of_all {
            let n = self.contributors.get(&sum).unwrap_or(0);
            self.workers = Some(self.workers.map_or((n, n), |(least, most)| (least.min(n), most.max(n))));
        }
        true
    }

    /// How many workers contributed to every sum that has all; none if that is not known, or not the same of all.
    pub(super) fn workers(&self) -> Option<u16> {
        self.workers.filter(|(least, most)| least == most && *least > 0).map(|(n, _)| n)
    }
}

#[cfg(test)]
mod tests {
    use pktgen_wire::wire::sight::What;

    use super::super::Side;
    use super::*;

    fn event(what: What, worker: Option<u32>, seq: u32, round: u16) -> Event {
        let sight =
            Sight { what, cluster: 1, worker, seq, round, attempt: 0, generation: None, count: 1, elements: 64 };
        Event { t: 0, side: Side::Server, bytes: 300, format: 2, sight, content: 0 }
    }

    #[test]
    fn results_are_counted_once_and_by_their_contributors() {
        let mut sums = Sums::new();
        for worker in 0..3 {
            assert!(!sums.contribution(&event(What::Update, Some(worker), 7, 0)));
        }
        assert!(sums.contribution(&event(What::Update, Some(1), 7, 0)), "sent again");
        assert!(!sums.contribution(&event(What::Update, None, 7, 0)), "of nobody who is known");
        // A copy for every worker.
        let copies = (0..3).map(|to| sums.result(&event(What::Result, Some(to), 7, 0), true));
        assert_eq!(copies.collect::<Vec<_>>(), [true, false, false]);
        assert_eq!(sums.workers(), Some(3));
        // The same number in the next round is another sum; of it nobody's contribution was seen.
        assert!(sums.result(&event(What::Result, None, 7, 1), true));
        assert_eq!(sums.workers(), None);
    }

    #[test]
    fn partial_sums_are_told_apart_by_who_opened_them() {
        let mut sums = Sums::new();
        let of = [(4, true), (4, false), (5, true), (4, false)];
        for (opener, is_new) in of {
            assert_eq!(sums.result(&event(What::Result, Some(opener), 7, 0), false), is_new);
        }
        assert_eq!(sums.ambiguous, 0);
        // Of a device below, which opened two sums: they hold different values, or have different numbers of sources.
        let of = |count, content| {
            let event = event(What::Result, Some(9), 7, 0);
            Event { content, sight: Sight { count, ..event.sight }, ..event }
        };
        let different = [of(1, 77), of(1, 78), of(1, 77), of(2, 78)];
        assert_eq!(different.map(|event| sums.result(&event, false)), [true, true, false, true]);
        // After it was sent again the next one may be of a sum of its own.
        for again in [false, true] {
            assert_eq!(sums.contribution(&event(What::Update, Some(4), 7, 0)), again);
        }
        assert!(!sums.result(&event(What::Result, Some(4), 7, 0), false));
        assert_eq!(sums.ambiguous, 1);
    }

    #[test]
    fn what_is_old_is_forgotten() {
        let mut recent: Recent<u32, u32> = Recent::new(4);
        (0..20).for_each(|i| recent.put(i, i * i));
        assert_eq!((recent.get(&19), recent.get(&16), recent.get(&2)), (Some(361), Some(256), None));
    }
}
