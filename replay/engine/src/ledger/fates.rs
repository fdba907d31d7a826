//! Fates of packets, counted by worker.

use pktgen_core::record::{Balance, PacketId, Reason};

/// Fates of one worker's updates. What most updates change is in one cache line.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(64))]
pub(super) struct Fates {
    pub generated: u64,
    pub sent: u64,
    alone: u64,
    merged: u64,
    subsumed: u64,
    outranked: u64,
    pub in_flight: u64,
    pub withheld: u64,
    pub retransmitted: u64,
    pub unaccounted: u64,
    pub dropped: [u64; Reason::ALL.len()],
}

const _: () = assert!(std::mem::offset_of!(Fates, in_flight) < 64);

/// The fate of a packet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Fate {
    Delivered,
    Subsumed,
    Outranked,
    Dropped(Reason),
    InFlight,
}

impl Fates {
    /// Counts a packet with this fate.
    #[inline]
    pub(super) fn count(&mut self, fate: Fate, alone: bool) {
        match fate {
            Fate::Delivered if alone => self.alone += 1,
            Fate::Delivered => self.merged += 1,
            Fate::Subsumed => self.subsumed += 1,
            Fate::Outranked => self.outranked += 1,
            Fate::Dropped(reason) => self.dropped[reason as usize] += 1,
            Fate::InFlight => self.in_flight += 1,
        }
    }

    pub(super) fn balance(&self) -> Balance {
        let mut balance = Balance {
            generated: self.generated,
            withheld: self.withheld,
            retransmitted: self.retransmitted,
            sent: self.sent,
            delivered_alone: self.alone,
            delivered_merged: self.merged,
            subsumed: self.subsumed,
            outranked: self.outranked,
            in_flight: self.in_flight,
            unaccounted: self.unaccounted,
            ..Default::default()
        };
        for reason in Reason::ALL {
            balance.add_dropped(reason, self.dropped[reason as usize]);
        }
        balance.close();
        balance
    }
}

/// The fates of all workers' packets, and the rows about packets that are not under way.
pub(super) struct FateCounts {
    pub by_worker: Vec<Fates>,
    pub strangers: u64,
}

impl FateCounts {
    pub(super) fn new(workers: usize) -> Self {
        FateCounts { by_worker: vec![Fates::default(); workers], strangers: 0 }
    }

    #[inline]
    pub(super) fn of(&mut self, packet: PacketId) -> &mut Fates {
        &mut self.by_worker[packet.worker() as usize]
    }

    #[inline]
    pub(super) fn stranger_if(&mut self, strange: bool) {
        self.strangers += u64::from(strange);
    }
}

/// Returns the sum of balances.
pub fn total(parts: &[Balance]) -> Balance {
    let mut sum = Balance::default();
    for part in parts {
        sum.generated += part.generated;
        sum.withheld += part.withheld;
        sum.retransmitted += part.retransmitted;
        sum.sent += part.sent;
        sum.delivered_alone += part.delivered_alone;
        sum.delivered_merged += part.delivered_merged;
        sum.subsumed += part.subsumed;
        sum.outranked += part.outranked;
        sum.in_flight += part.in_flight;
        sum.unaccounted += part.unaccounted;
        for (reason, n) in &part.dropped {
            *sum.dropped.entry(reason.clone()).or_default() += n;
        }
        sum.unknown += part.unknown;
    }
    sum
}
