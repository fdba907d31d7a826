//! Balances computed from fates, by worker.

use std::collections::BTreeMap;

use pktgen_core::record::{Balance, PacketId, Reason};

use super::{FATES, Fate};
use crate::packets::PacketTable;

/// Packets by the code of their fate, numbers of first and further attempts, and updates of which no attempt came.
#[derive(Debug, Clone)]
struct Tally {
    by_fate: [u64; FATES.len() + Reason::ALL.len()],
    generated: u64,
    repeated: u64,
    lost: u64,
}

impl Default for Tally {
    fn default() -> Self {
        Tally { by_fate: [0; FATES.len() + Reason::ALL.len()], generated: 0, repeated: 0, lost: 0 }
    }
}

impl Tally {
    fn plus(mut self, more: &Tally) -> Tally {
        self.by_fate.iter_mut().zip(more.by_fate).for_each(|(sum, more)| *sum += more);
        self.generated += more.generated;
        self.repeated += more.repeated;
        self.lost += more.lost;
        self
    }

    fn close(&self) -> Balance {
        let of = |fate: Fate| self.by_fate[usize::from(fate.code())];
        let mut balance = Balance {
            generated: self.generated,
            retransmitted: self.repeated,
            withheld: of(Fate::Withheld),
            in_flight: of(Fate::InFlight),
            delivered_alone: of(Fate::DeliveredAlone),
            delivered_merged: of(Fate::DeliveredMerged),
            subsumed: of(Fate::Subsumed),
            outranked: of(Fate::Outranked),
            unaccounted: of(Fate::Unaccounted),
            ..Balance::default()
        };
        for reason in Reason::ALL {
            balance.add_dropped(reason, of(Fate::Dropped(reason)));
        }
        balance.sent = balance.generated + balance.retransmitted - balance.withheld;
        balance.close();
        balance
    }
}

/// Counts of the fates of all packets, by worker, with updates and background traffic separate.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tallies(BTreeMap<u32, [Tally; 2]>);

impl Tallies {
    /// Counts the fates.
    pub(crate) fn of(packets: &PacketTable) -> Tallies {
        let mut all = Tallies::default();
        let mut last: Option<(u32, [Tally; 2])> = None;
        for number in packets.present() {
            let worker = packets.worker(number);
            let own = match &mut last {
                Some((known, own)) if *known == worker => own,
                other => {
                    if let Some((worker, own)) = other.take() {
                        all.add(worker, &own);
                    }
                    &mut other.insert((worker, Default::default())).1
                }
            };
            let tally = &mut own[usize::from(packets.is_update(number))];
            tally.by_fate[usize::from(packets.fate(number).code())] += 1;
            *if packets.is_repeated(number) { &mut tally.repeated } else { &mut tally.generated } += 1;
            tally.lost += u64::from(is_lost(packets, number));
        }
        if let Some((worker, own)) = last {
            all.add(worker, &own);
        }
        all
    }

    fn add(&mut self, worker: u32, more: &[Tally; 2]) {
        let own = self.0.entry(worker).or_default();
        own.iter_mut().zip(more).for_each(|(sum, more)| *sum = std::mem::take(sum).plus(more));
    }

    /// Returns the balance over the packets selected by `wanted` from their worker and whether they are updates.
    pub(crate) fn balance_of(&self, wanted: impl Fn(u32, bool) -> bool) -> Balance {
        let sides =
            self.0.iter().flat_map(|(worker, [other, updates])| [(*worker, false, other), (*worker, true, updates)]);
        let chosen = sides.filter(|(worker, updates, _)| wanted(*worker, *updates));
        chosen.fold(Tally::default(), |sum, (.., tally)| sum.plus(tally)).close()
    }

    /// Returns the number of updates of which no attempt arrived or is in flight.
    pub(crate) fn lost(&self) -> u64 {
        self.0.values().map(|[_, updates]| updates.lost).sum()
    }

    /// Returns the workers that generated or sent updates, by number.
    pub(crate) fn senders(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().filter(|(_, [_, own])| own.generated + own.repeated > 0).map(|(worker, _)| *worker)
    }

    /// Returns the balances of the first `count` workers, and the number of packets of others.
    pub(crate) fn balances(&self, count: usize) -> (Vec<Balance>, u64) {
        let (mut all, mut others) = (vec![Tally::default().close(); count], 0);
        for (worker, [other, updates]) in &self.0 {
            let sum = other.clone().plus(updates);
            match all.get_mut(*worker as usize) {
                Some(own) => *own = sum.close(),
                None => others += sum.generated + sum.repeated,
            }
        }
        (all, others)
    }
}

/// Whether `number` is the first attempt of an update that was sent, and of which no attempt arrived or is in flight.
fn is_lost(packets: &PacketTable, number: u32) -> bool {
    let comes = |fate| matches!(fate, Fate::DeliveredAlone | Fate::DeliveredMerged | Fate::InFlight);
    let fate = packets.fate(number);
    if packets.is_repeated(number) || comes(fate) {
        return false;
    }
    let (id, mut left) = (packets.id(number), fate != Fate::Withheld);
    for attempt in 1..=packets.last_attempt() {
        let again = packets.number(PacketId::new(id.worker(), id.seq(), attempt).0);
        let Some(fate) = again.map(|again| packets.fate(again)) else { continue };
        if comes(fate) {
            return false;
        }
        left |= fate != Fate::Withheld;
    }
    left
}

/// Returns the sum of the differences of all entries of two balances, in updates.
pub fn difference(a: &Balance, b: &Balance) -> u64 {
    let pairs = [
        (a.generated, b.generated),
        (a.retransmitted, b.retransmitted),
        (a.withheld, b.withheld),
        (a.sent, b.sent),
        (a.delivered_alone, b.delivered_alone),
        (a.delivered_merged, b.delivered_merged),
        (a.subsumed, b.subsumed),
        (a.outranked, b.outranked),
        (a.in_flight, b.in_flight),
        (a.unaccounted, b.unaccounted),
    ];
    let mut reasons: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (reason, &n) in &a.dropped {
        reasons.entry(reason).or_default().0 = n;
    }
    for (reason, &n) in &b.dropped {
        reasons.entry(reason).or_default().1 = n;
    }
    pairs.iter().chain(reasons.values()).map(|(x, y)| x.abs_diff(*y)).sum()
}

/// Adds `more` to `sum`, entry by entry; saturating, so that invented numbers do not overflow.
pub fn add(sum: &mut Balance, more: &Balance) {
    let pairs = [
        (&mut sum.generated, more.generated),
        (&mut sum.retransmitted, more.retransmitted),
        (&mut sum.withheld, more.withheld),
        (&mut sum.sent, more.sent),
        (&mut sum.delivered_alone, more.delivered_alone),
        (&mut sum.delivered_merged, more.delivered_merged),
        (&mut sum.subsumed, more.subsumed),
        (&mut sum.outranked, more.outranked),
        (&mut sum.in_flight, more.in_flight),
        (&mut sum.unaccounted, more.unaccounted),
    ];
    for (entry, n) in pairs {
        *entry = entry.saturating_add(n);
    }
    for (reason, n) in &more.dropped {
        let entry = sum.dropped.entry(reason.clone()).or_default();
        *entry = entry.saturating_add(*n);
    }
    sum.unknown = sum.unknown.saturating_add(more.unknown);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Story;

    #[test]
    fn an_update_is_lost_if_no_attempt_comes() {
        use Fate::{DeliveredAlone, DeliveredMerged, InFlight, Withheld};
        let dropped = Fate::Dropped(Reason::Fault);
        let cases: [(&[Fate], u64); 11] = [
            (&[DeliveredMerged], 0),
            (&[DeliveredAlone, DeliveredAlone, DeliveredAlone], 0),
            (&[dropped, dropped, DeliveredMerged], 0),
            (&[DeliveredAlone, dropped], 0),
            (&[dropped, InFlight], 0),
            (&[Withheld, DeliveredAlone], 0),
            (&[Withheld, Withheld], 0),
            (&[dropped], 1),
            (&[dropped, dropped], 1),
            (&[Withheld, dropped], 1),
            (&[dropped, Withheld], 1),
        ];
        for (fates, expected) in cases {
            // Another update arrives in every attempt.
            let mut story = Story::new();
            for seq in [6, 7] {
                story.sent_seq(0, seq, 0, Some(0), 0);
                for (attempt, _) in (0..).zip(fates).skip(1) {
                    story.sent_again(0, seq, attempt, 0, 0);
                }
            }
            let mut packets = PacketTable::default();
            packets.read(&story.records.sent).unwrap();
            for (attempt, fate) in (0..).zip(fates) {
                let number = |seq| packets.number(PacketId::new(0, seq, attempt).0).unwrap();
                let (other, own) = (number(6), number(7));
                packets.set_fate(other, DeliveredAlone);
                packets.set_fate(own, *fate);
            }
            assert_eq!(Tallies::of(&packets).lost(), expected, "{fates:?}");
        }
    }

    #[test]
    fn balances_differ_by_every_entry() {
        let a =
            Balance { sent: 5, retransmitted: 1, dropped: [("no_route".to_owned(), 2)].into(), ..Default::default() };
        let b = Balance { sent: 7, dropped: [("malformed".to_owned(), 3)].into(), ..Default::default() };
        assert_eq!((difference(&a, &b), difference(&a, &a)), (8, 0));
        let mut sum = a.clone();
        add(&mut sum, &b);
        assert_eq!((sum.sent, sum.retransmitted, sum.dropped_total(), sum.dropped["no_route"]), (12, 1, 5, 2));
    }
}
