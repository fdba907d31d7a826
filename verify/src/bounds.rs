//! Bounds that are known before solving: generation windows, the maximum wait, and which events are possible.
//!
//! Used by [`super::encode`], which omits impossible events. Every bound follows from an argument over all behaviours:
//!
//! - *Spread*: if every gap is at least F services, an update has left the device before its cluster's next one
//!   arrives. By induction over time: with at most one update per cluster in the device, an arrival finds at most
//!   F − 1 others, waits at most F − 1 services and is gone after F. Then nothing merges.
//! - In general at most F − 1 others wait and one is on the wire, so the wait is at most F services; and the cluster that is
//!   appended finds a free slot, which bounds it by the number of slots too.
//! - *Lead*: how far the peaks of u can exceed those of v in sum, where arrivals are spread and both have as many. An
//!   update of u waits at most one service for each other cluster that has an update in the device. If v has, u meets
//!   it: it arrived o ≥ 0 before, and o is less than F services, so that no two of u meet the same of v, and the
//!   meetings are in order for both. Let them be m, from the first to the last a gaps of u and b of v. Between these two
//!   the spans of u and v differ by the last o minus the first. What the last costs u is at most one service and at most
//!   what is left of v's, which is v's own wait plus one service minus o; so with v's wait, which counts for v, the last
//!   o is paid for. Together the meetings win u at most m services, and only the other gaps can be long for u and short
//!   for v. A solver sees this only by going through all the ways to meet.

use super::setup::{Setup, Ticks};

/// See the module documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    /// Earliest and latest generation by cluster and update.
    pub window: Vec<Vec<(Ticks, Ticks)>>,
    /// Maximum wait of an appended update until its transmission starts.
    pub wait: Ticks,
    /// Whether at most one update per cluster is in the device at a time.
    pub spread: bool,
    /// Whether updates of the cluster can merge.
    pub merges: Vec<bool>,
    /// Whether updates can be dropped.
    pub drops: bool,
    /// Whether transmission control can withhold updates.
    pub holds: bool,
}

impl Bounds {
    /// Computes the bounds of `setup`.
    pub fn of(setup: &Setup) -> Bounds {
        let clusters = setup.clusters.len() as Ticks;
        let slots = Ticks::from(setup.slots);
        let held = Ticks::from(setup.hold_slot);
        let spread = setup.clusters.iter().all(|c| c.arrivals.least_gap() >= clusters * setup.service);
        let others = if spread { clusters - 1 } else { clusters };
        let wait = others.min(slots - held) * setup.service;
        // Unless arrivals are spread, a cluster's own last arrival may still be on the wire; the slots hold other
        // waiting updates and one on the wire.
        let most_occupied = if spread { clusters - 2 + held } else { clusters - 1 + held };
        Bounds {
            window: setup.clusters.iter().map(|c| (0..c.updates).map(|k| c.arrivals.window(k)).collect()).collect(),
            wait,
            spread,
            merges: setup.clusters.iter().map(|c| c.arrivals.least_gap() < wait).collect(),
            drops: slots <= most_occupied,
            // Without congestion (Qmax ≥ N) all updates are sent (§5).
            holds: slots < clusters,
        }
    }

    /// Whether every update is sent and delivered alone.
    pub fn plain(&self, cluster: usize) -> bool {
        !self.merges[cluster] && !self.drops && !self.holds
    }

    /// Returns the maximum by which the sum of u's peaks can exceed that of v's: see *Lead* above. `None` if it does not apply.
    pub fn lead(&self, setup: &Setup, u: usize, v: usize) -> Option<Ticks> {
        let (one, other) = (&setup.clusters[u], &setup.clusters[v]);
        if !(self.spread && self.plain(u) && self.plain(v) && one.updates == other.updates) {
            return None;
        }
        let (clusters, c, gaps) = (setup.clusters.len() as Ticks, setup.service, one.updates - 1);
        // The maximum of the waits for third clusters, without any meeting.
        let rest = (clusters - 2) * c * gaps as Ticks;
        let mut most = one.arrivals.stretch(gaps, 1).1 - other.arrivals.stretch(gaps, 1).0;
        // The first update of u has no peak, so its meeting does not count.
        for a in 0..gaps {
            for b in 0..=gaps {
                let ((a_least, a_most), (b_least, b_most)) = (one.arrivals.stretch(a, 1), other.arrivals.stretch(b, 1));
                let apart = clusters * c - 1;
                if a_least > b_most + apart || b_least > a_most + apart {
                    continue;
                }
                let meetings = a.min(b) as Ticks + 1;
                let (longest, shortest) = (one.arrivals.stretch(gaps - a, 2).1, other.arrivals.stretch(gaps - b, 2).0);
                most = most.max(longest - shortest + (a_most - b_least).min(0) + c * meetings);
            }
        }
        Some(most + rest)
    }

    /// Whether update `b` always arrives after the queue entry of `a`, and all entries before, have left the device.
    pub(crate) fn gone_before(&self, setup: &Setup, a: (usize, usize), b: (usize, usize)) -> bool {
        self.window[a.0][a.1].1 + self.wait + setup.service <= self.window[b.0][b.1].0
    }

    /// Returns whether `a` arrives before `b`, for updates of two clusters, if this is certain. Ties are resolved in
    /// favour of the lower cluster.
    pub fn order(&self, a: (usize, usize), b: (usize, usize)) -> Option<bool> {
        let ((a_low, a_high), (b_low, b_high)) = (self.window[a.0][a.1], self.window[b.0][b.1]);
        let first_wins_ties = a.0 < b.0;
        if a_high < b_low || (first_wins_ties && a_high == b_low) {
            Some(true)
        } else if b_high < a_low || (!first_wins_ties && b_high == a_low) {
            Some(false)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::candidates;
    use crate::reference::Run;
    use crate::setup::{Arrivals, Cluster};
    use crate::tests::tiny;

    #[test]
    fn what_cannot_happen_is_known() {
        let gaps = |gap_min| vec![Cluster { updates: 3, arrivals: Arrivals::Free { gap_min, gap_max: 100 } }; 2];
        let of = |gap_min, slots, hold_slot| {
            Bounds::of(&Setup { clusters: gaps(gap_min), service: 10, slots, hold_slot, ..tiny() })
        };
        let b = of(20, 2, true);
        assert!(b.spread && b.plain(0) && b.wait == 10);
        assert!(!of(19, 2, true).spread);
        assert!(of(19, 2, true).drops, "own one on the wire, the other waits");
        let b = of(19, 3, true);
        assert!(!b.drops && !b.holds && b.wait == 20 && b.merges[0]);
        let b = of(20, 1, true);
        assert!(b.drops && b.holds && b.wait == 0 && !b.merges[0]);
        let b = of(20, 1, false);
        assert!(!b.drops && b.holds && b.wait == 10);
    }

    #[test]
    fn the_lead_is_reached_to_the_tick() {
        for (clusters, updates, gap_max) in [(2, 24, 200_000), (3, 24, 101_000), (3, 24, 200_000)] {
            let arrivals = Arrivals::Free { gap_min: 100_000, gap_max };
            let clusters = vec![Cluster { updates, arrivals }; clusters];
            let setup = Setup { slots: 3, clusters, service: 2000, candidates: 400, ..tiny() };
            let lead =
                i128::from(Bounds::of(&setup).lead(&setup, 2.min(setup.clusters.len() - 1), 0).expect("it applies"));
            let ahead = |run: &Run| run.flows[setup.clusters.len() - 1].total().0 - run.flows[0].total().0;
            assert!(candidates::find(&setup, |run| ahead(run) >= lead).is_some(), "{lead}");
        }
    }

    proptest! {
        #[test]
        fn nobody_leads_by_more(clusters in 2usize..4, updates in 2usize..7, service in 1i64..4, gap in 0i64..4, more in 0i64..9, jitter in prop::option::of(0i64..3)) {
            let gap_min = clusters as i64 * service + gap;
            let arrivals = match jitter {
                None => Arrivals::Free { gap_min, gap_max: gap_min + more },
                Some(jitter) => Arrivals::Periodic { period: gap_min + jitter, phase: None, jitter },
            };
            let clusters = vec![Cluster { updates, arrivals }; clusters];
            let setup = Setup { slots: clusters.len() as u32, clusters, service, candidates: 2000, ..tiny() };
            let bounds = Bounds::of(&setup);
            let lead = bounds.lead(&setup, 0, 1).expect("it applies") as i128;
            let found = candidates::find(&setup, |run| run.flows[0].total().0 - run.flows[1].total().0 > lead);
            prop_assert_eq!(found, None);
        }
    }
}
