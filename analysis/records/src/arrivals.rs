//! Counts of arrivals at the server, added up row by row.
//!
//! Called by [`crate::pass`] and captures.

use pktgen_core::record::Heat;

use crate::columns::{NO_PACKET, ReceivedColumns};
use crate::fates::is_update;
use crate::line::Line;

/// Counts of arrivals at the server.
#[derive(Debug, Clone)]
pub struct ServerTally {
    /// Packets with updates.
    pub packets: u64,
    /// Packets of background traffic.
    pub background: u64,
    /// Packets with updates whose content their receiver took.
    pub accepted: u64,
    /// Packets of hot sums, which arrive at workers.
    pub hot: u64,
    /// Packets with an id, by their number of updates.
    pub by_count: Vec<u64>,
    /// First and last packet with updates, bits and updates.
    pub seen: AtServer,
}

impl ServerTally {
    pub(crate) fn new() -> ServerTally {
        let by_count = vec![0; usize::from(u16::MAX) + 1];
        ServerTally { packets: 0, background: 0, accepted: 0, hot: 0, by_count, seen: AtServer::default() }
    }

    #[inline]
    /// Adds a row of `received`.
    pub(crate) fn add(&mut self, received: &ReceivedColumns, row: usize) {
        if !is_update(received.cluster[row]) {
            self.background += 1;
            return;
        }
        self.packets += 1;
        self.accepted += u64::from(received.accepted[row]);
        self.hot += u64::from(received.heat[row] == Heat::Hot as u8);
        self.by_count[usize::from(received.count[row])] += u64::from(received.packet[row] != NO_PACKET);
        self.seen.add(received.t_recv_ps[row], received.bytes[row], received.count[row]);
    }
}

/// Sums for rates at the server.
#[derive(Debug, Clone, Copy, Default)]
pub struct AtServer {
    /// Time, bits and updates of the first packet.
    first: Option<(i64, u64, u64)>,
    last: i64,
    bits: u64,
    updates: u64,
}

impl AtServer {
    /// Adds a packet with updates.
    #[inline]
    pub fn add(&mut self, t: i64, bytes: u32, count: u16) {
        let (bits, updates) = (u64::from(bytes) * 8, u64::from(count));
        match self.first {
            Some((first, ..)) if first <= t => self.last = self.last.max(t),
            Some(_) => self.first = Some((t, bits, updates)),
            None => (self.first, self.last) = (Some((t, bits, updates)), t),
        }
        self.bits += bits;
        self.updates += updates;
    }

    /// Makes every packet, which was added as one update, represent `n` updates.
    pub fn multiply(&mut self, n: u16) {
        self.updates *= u64::from(n);
        if let Some((_, _, updates)) = &mut self.first {
            *updates *= u64::from(n);
        }
    }

    /// Outputs rates between the first packet and the last.
    pub fn lines(&self, out: &mut Vec<Line>) {
        let rate = |all: u64, of_first: fn((i64, u64, u64)) -> u64| {
            let first = self.first?;
            let seconds = positive(self.last.saturating_sub(first.0) as f64 * 1e-12)?;
            Some((all - of_first(first)) as f64 / seconds)
        };
        out.push(Line::new("throughput_bps", "bps", rate(self.bits, |first| first.1)));
        out.push(Line::new("updates_per_s", "updates/s", rate(self.updates, |first| first.2)));
    }
}

/// Returns `seconds` if positive.
pub(crate) fn positive(seconds: f64) -> Option<f64> {
    (seconds > 0.0).then_some(seconds)
}
