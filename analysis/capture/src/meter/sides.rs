//! Comparison of the two sides: whether the captures of the senders have the workers of what arrived, and those of the server results.

use std::collections::HashSet;

use pktgen_wire::wire::Captured;

use super::{Meter, Pending, Source, Worker};

impl Meter {
    /// Records that a packet was sent at `t`. Returns when it arrived, if it did before: the clock of the receiving side may be behind.
    #[inline]
    pub(super) fn record_sending(&mut self, packet: u64, t: i64) -> Option<i64> {
        let received = self.ahead.as_mut().and_then(|ahead| ahead.take(&packet));
        if received.is_some() {
            self.totals.unseen -= 1;
            self.totals.matched += 1;
        }
        if let Some(pending) = &mut self.pending {
            pending.put(packet, t);
        }
        received
    }

    /// Records that a packet arrived at `t`. Returns when it was sent, if that was captured before.
    #[inline]
    pub(super) fn record_arrival(&mut self, packet: u64, t: i64) -> Option<i64> {
        let (Some(pending), Some(ahead)) = (&self.pending, &mut self.ahead) else { return None };
        let sent = pending.get(&packet);
        if sent.is_some() {
            self.totals.matched += 1;
        } else {
            self.totals.unseen += u64::from(ahead.get(&packet).is_none());
            ahead.put(packet, t);
        }
        sent
    }

    /// Determines whether the captures of the senders have what arrived. Called after the last event.
    pub(crate) fn compare_sides(&mut self) {
        let [senders, server] = &self.sources;
        // Of a worker of whom much arrived and nothing was sent, no limit of memory hides it.
        let is_unsent = |own: &Worker| !own.received.is_empty() && own.sent.is_empty();
        // Packets that arrived without our header may have it in the captures of the senders, which a run writes.
        let headed = self.workers.iter().filter(|own| !own.sent.is_empty()).map(|own| own.flow.id);
        let headed: HashSet<u32> = headed.collect();
        let is_bare = |format: u8| {
            let format = self.totals.formats.get(usize::from(format));
            format.is_some_and(|format| matches!(format.facts().updates, Captured::Headless(_)))
        };
        self.totals.bare = !headed.is_empty() && server.iter().any(|source| is_bare(source.0));
        let is_sent = |source: &Source| senders.contains(source) || is_bare(source.0) && headed.contains(&source.2);
        let all_sent = server.iter().all(is_sent);
        self.totals.unsent_workers = !all_sent || self.pending.is_some() && self.workers.iter().any(is_unsent);
        self.totals.short_sums = self.sums.short_sums();
        self.totals.elsewhere = self.sums.elsewhere;
        self.totals.silent_jobs = self.jobs.silent(self.totals.formats);
        self.totals.forgot = [&self.pending, &self.ahead].into_iter().flatten().any(Pending::forgot);
    }
}
