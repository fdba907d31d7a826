//! Compares accounts of trials with a card that counts its operations on every update.

use std::collections::VecDeque;
use std::sync::Arc;

use pktgen_core::config::Document;
use pktgen_core::time::{MS, Time, US};
use pktgen_core::topology::Population;
use pktgen_engine::clause::LoadPhase;
use proptest::prelude::*;

use super::*;

fn ground(clusters: u16, workers: u32) -> ProbeGround {
    let workers = Population::regular(clusters, workers);
    ProbeGround {
        port_of: (0..workers.len() as u16).collect(),
        server: Some(workers.len() as u16),
        workers: Arc::new(workers),
        late: 0,
        output: None,
        links: Vec::new(),
        patience: 0,
        frame_bytes: 256,
        hot: None,
        keys: Document::parse("", "test").unwrap(),
    }
}

/// Floats hold whole numbers up to 2^24.
#[test]
fn numbers_beyond_24_bits_are_told_apart() {
    let load = OfferedLoad::of(LoadPhase::burst((1 << 24) + 1), 0);
    let mut own = Updates::new(&ground(1, 1), load).unwrap();
    (own.sent, own.fates) = (vec![0; 1 << 24], vec![Fate::Unmerged; 1 << 24]);
    let frame = own.send(1).1.to_vec();
    own.take(2, 1, &frame);
    assert_eq!((own.account.forwarded, own.is_complete()), (1, true));
}

/// A waiting update or merge.
struct Waiting {
    cluster: usize,
    sender: usize,
    count: u64,
    /// Send time of its newest update.
    newest: Time,
    frame: Vec<u8>,
}

/// A card with Algorithm 1 that counts its operations.
#[derive(Default)]
struct Counting {
    queue: VecDeque<Waiting>,
    leaving: Option<(Time, Waiting)>,
    unmerged: u64,
    merged: u64,
    replaced: u64,
    dropped: u64,
    /// Departures: time, cluster, and the newest update.
    left: Vec<(Time, usize, Time)>,
    /// Time of the first update of each cluster.
    first: Vec<Option<Time>>,
}

impl Counting {
    fn arrive(&mut self, new: Waiting, slots: usize) {
        let waiting = self.queue.len();
        match self.queue.iter_mut().find(|old| old.cluster == new.cluster) {
            Some(old) if old.sender == new.sender && old.count == 1 => {
                self.replaced += 1;
                *old = new;
            }
            Some(old) => {
                for (at, four) in new.frame[HEAD + strict::UPDATE_HEAD..].as_chunks::<4>().0.iter().enumerate() {
                    let at = HEAD + strict::UPDATE_HEAD + at * 4;
                    let sum = f32::from_le_bytes(old.frame[at..at + 4].try_into().unwrap()) + f32::from_le_bytes(*four);
                    old.frame[at..at + 4].copy_from_slice(&sum.to_le_bytes());
                }
                (old.count, old.newest) = (old.count + 1, new.newest);
            }
            None if waiting >= slots => self.dropped += 1,
            None => self.queue.push_back(new),
        }
    }

    /// Returns the Age-of-Model of each cluster up to `end` by its definition: the time since the newest update that had left.
    fn ages(&self, end: Time) -> Vec<f64> {
        let of = |(cluster, first): (usize, &Option<Time>)| {
            let first = (*first)?;
            let (mut area, mut now, mut newest) = (0.0, first, first);
            let own = self.left.iter().filter(|(t, of, _)| *of == cluster && *t <= end);
            for (t, newer) in own.map(|(t, _, newer)| (*t, *newer)).chain([(end, 0)]) {
                let span = (t - now) as f64;
                area += span * ((now - newest) as f64 + span / 2.0);
                (now, newest) = (t, newest.max(newer));
            }
            (end > first).then(|| area / (end - first) as f64)
        };
        self.first.iter().enumerate().filter_map(of).collect()
    }

    fn start(&mut self, t: Time, service: Time) {
        if self.leaving.is_none() {
            self.leaving = self.queue.pop_front().map(|next| (t + service, next));
        }
    }
}

/// Runs a trial event by event.
fn trial(own: &mut Updates, slots: usize, service: Time) -> (LoadAccount, Counting) {
    late_trial(own, slots, service, |_| 0)
}

/// The same by a bench that sends the n-th update late.
fn late_trial(own: &mut Updates, slots: usize, service: Time, late: impl Fn(usize) -> Time) -> (LoadAccount, Counting) {
    let mut card = Counting { first: vec![None; own.members.len()], ..Counting::default() };
    loop {
        let leaves = card.leaving.as_ref().map(|(t, _)| *t);
        let next = own.next().map(|due| due + late(own.sent.len()));
        match (next.map(|t| own.sent.last().map_or(t, |last| t.max(*last))), leaves) {
            (Some(t), leaves) if leaves.is_none_or(|other| t < other) => {
                let sender = own.sent.len() % own.senders.len();
                let cluster = own.senders[sender].cluster;
                let frame = own.send(t).1.to_vec();
                card.first[cluster].get_or_insert(t);
                card.arrive(Waiting { cluster, sender, count: 1, newest: t, frame }, slots);
                card.start(t, service);
            }
            (_, Some(t)) => {
                let (_, update) = card.leaving.take().unwrap();
                *(if update.count == 1 { &mut card.unmerged } else { &mut card.merged }) += update.count;
                card.left.push((t, update.cluster, update.newest));
                own.take(t, own.server, &update.frame);
                card.start(t, service);
            }
            _ => return (own.account(), card),
        }
    }
}

proptest! {
    #[test]
    fn what_is_told_of_updates_is_what_became_of_them(
        clusters in 1u16..9, workers in 1u32..4, slots in 1usize..9, gap_us in 1i64..60, service_us in 1i64..60, shares: bool,
    ) {
        let ground = ground(clusters, workers);
        let load = OfferedLoad { shares, ..OfferedLoad::of(LoadPhase::rate(1e6 / gap_us as f64, 5 * MS), 0) };
        let mut own = Updates::new(&ground, load).unwrap();
        let (account, card) = trial(&mut own, slots, service_us * US);
        prop_assert_eq!((account.forwarded, account.merged), (card.unmerged, card.merged));
        prop_assert_eq!((account.wrong, account.unsent), (0, 0));
        let ages = card.ages(5 * MS);
        prop_assert_eq!(account.ages.len(), ages.len());
        for (own, naive) in account.ages.iter().zip(&ages) {
            prop_assert!((own - naive).abs() <= 1e-9 * naive, "{own} {naive}");
        }
        // Nothing is reported that did not happen, and nothing is omitted.
        prop_assert!(account.replaced <= card.replaced, "{} {}", account.replaced, card.replaced);
        prop_assert!(account.lost() <= card.dropped, "{} {}", account.lost(), card.dropped);
        prop_assert_eq!(account.replaced + account.lost() + account.untold, card.replaced + card.dropped);
    }
}

proptest! {
    #[test]
    fn a_bench_that_is_late_by_less_than_updates_are_apart_loses_none(
        clusters in 1u16..9, slots in 1usize..9, gap_us in 1i64..60, lates in prop::collection::vec(0i64..=100, 1..50),
    ) {
        let keys = Document::parse(&format!("[target]\nslots = {slots}\n"), "test").unwrap();
        let ground = ProbeGround { keys, ..ground(clusters, 1) };
        let load = OfferedLoad::of(LoadPhase::rate(1e6 / gap_us as f64, 5 * MS), 0);
        let mut own = Updates::new(&ground, load).unwrap();
        // Rates are no whole numbers: a nanosecond for their rounding.
        let (service, most) = (gap_us * US - US / 1000, own.apart() - US / 1000);
        let (account, card) = late_trial(&mut own, slots, service, |n| most * lates[n % lates.len()] / 100);
        prop_assert_eq!((account.forwarded, card.replaced + card.dropped), (account.offered, 0));
    }
}

#[test]
fn of_workers_in_random_order_some_of_what_is_missing_is_told_apart() {
    let mut told = [0, 0];
    for (slots, clusters, workers) in [(8, 8, 1), (3, 8, 1), (5, 8, 1), (3, 8, 3)] {
        let load = OfferedLoad { shares: true, ..OfferedLoad::of(LoadPhase::rate(1e5, 50 * MS), 7) };
        let mut own = Updates::new(&ground(clusters, workers), load).unwrap();
        let (account, card) = trial(&mut own, slots, 30 * US);
        assert!(card.replaced + card.dropped > 2000, "{slots} slots: {account:?}");
        told = [told[0] + account.replaced, told[1] + account.lost()];
    }
    // If all clusters wait all the time, the order of departures shows almost nothing about replaced updates.
    assert!(told[0] > 10 && told[1] > 2000, "{told:?}");
}

#[test]
fn a_device_that_changes_an_update_has_not_forwarded_it() {
    let mut own = Updates::new(&ground(4, 1), OfferedLoad::of(LoadPhase::rate(1e5, MS), 0)).unwrap();
    for n in 0u64..100 {
        let t = own.next().unwrap();
        let mut frame = own.send(t).1.to_vec();
        if n == 7 {
            put(&mut frame, 9, 0.5);
        }
        if n != 9 {
            own.take(t + US, own.server, &frame);
        }
    }
    let account = own.account();
    assert_eq!((account.offered, account.forwarded, account.wrong), (100, 98, 1));
    assert_eq!(account.last_lost, Some(90 * US));
    assert_eq!(account.latency.range(), Some((US, US)));
}
