//! Provenance without the device's help: the members of each packet, from its lanes and the senders' records alone.
//!
//! Called by [`crate::analyze`] if a run has lanes. It uses the transmissions of workers and the arrival time, cluster
//! and lanes of arrivals: no ledger, which a black-box device lacks, and packet ids only to refuse packets that name a
//! worker of another cluster than their own. docs/provenance.md explains what can be known. If there is a ledger,
//! [`Provenance::named`] compares.

use pktgen_core::Result;
use pktgen_core::record::{Manifest, NO_CLUSTER, PacketId};
pub use pktgen_workload::lanes::Answer;
use pktgen_workload::lanes::{Account, Arrived, Layout, Members, SentRows};

use crate::age::{AgeOf, Ages};
use crate::run::{LaneColumns, ReceivedColumns, Records};

/// The result for a whole run.
#[derive(Debug, Clone)]
pub struct Provenance {
    found: Members,
    /// Where every update went.
    pub account: Account,
    /// Ages of all clusters and workers by the known members; `None` in synchronous training, and without a common clock.
    pub ages: Option<Ages>,
}

impl Provenance {
    /// Reads the lanes of a run.
    pub fn resolve(manifest: &Manifest, layout: &Layout, records: &Records, lanes: &LaneColumns) -> Result<Provenance> {
        let (sent, received) = (&records.sent, &records.received);
        let sent =
            SentRows { t_sent_ps: &sent.t_sent_ps, cluster: &sent.cluster, worker: &sent.worker, seq: &sent.seq };
        let arrived = |row: usize| Arrived {
            t_recv_ps: received.t_recv_ps[row],
            cluster: received.cluster[row],
            worker: received.packet.get(row).map(|packet| PacketId(*packet).worker()),
            // Those of a killed run's last packets may be missing: such a packet may have any updates.
            words: lanes.words_of(row),
        };
        let arrived = (0..received.cluster.len()).map(arrived);
        let found = Members::resolve(layout, &manifest.clusters, sent, arrived, manifest.is_real_time());
        let mut found = Provenance { account: found.account, found, ages: None };
        if manifest.training.is_none() && manifest.has_one_clock() && !manifest.is_at_top_speed() {
            found.ages = Some(found.ages_of(records)?);
        }
        Ok(found)
    }

    /// Computes ages by the known members; other packets do not refresh any age.
    fn ages_of(&self, records: &Records) -> Result<Ages> {
        let received = &records.received;
        let newest = |row| self.members_of(row).iter().map(|member| records.sent.t_gen_ps[*member as usize]).max();
        let newest: Vec<Option<i64>> = (0..self.found.answers.len()).map(newest).collect();
        let cluster = received.cluster.iter().zip(&newest);
        let told = ReceivedColumns {
            t_recv_ps: received.t_recv_ps.clone(),
            cluster: cluster.map(|(cluster, newest)| if newest.is_some() { *cluster } else { NO_CLUSTER }).collect(),
            newest_gen_ps: newest.iter().map(|newest| newest.unwrap_or(0)).collect(),
            ..ReceivedColumns::default()
        };
        let told = Records { sent: records.sent.clone(), received: told, ..Records::default() };
        Ages::compute(&told, |row| self.members_of(row), AgeOf::Newest)
    }

    /// Returns the known members of row `row` of `received`, as rows of `sent`.
    pub(crate) fn members_of(&self, row: usize) -> &[u32] {
        self.found.of(row)
    }

    /// Returns the number of packets with this answer.
    pub fn packets(&self, wanted: impl Fn(&Answer) -> bool) -> u64 {
        self.found.answers.iter().filter(|answer| wanted(answer)).count() as u64
    }

    /// Returns the number of updates in packets whose members are unknown.
    pub fn unidentified(&self) -> u64 {
        let of = |answer: &Answer| match answer {
            Answer::Ambiguous(count) => u64::from(count.unwrap_or(0)),
            _ => 0,
        };
        self.found.answers.iter().map(of).sum()
    }

    /// Returns the members according to lanes, for comparison with the ledger.
    pub fn named<'a>(&'a self, records: &'a Records) -> LaneNames<'a> {
        LaneNames { found: self, records }
    }
}

/// See [`Provenance::named`].
pub struct LaneNames<'a> {
    found: &'a Provenance,
    records: &'a Records,
}

impl LaneNames<'_> {
    /// Whether the members of row `row` of `received` are known and differ from `theirs`.
    pub fn differs(&self, row: usize, theirs: impl Iterator<Item = PacketId>) -> bool {
        if self.found.found.answers.get(row) != Some(&Answer::Known) {
            return false;
        }
        let sorted = |mut all: Vec<(u32, u32)>| {
            all.sort_unstable();
            all
        };
        // Lanes do not show which attempt of an update arrived.
        let sent = &self.records.sent;
        let ours = self.found.members_of(row).iter().map(|row| (sent.worker[*row as usize], sent.seq[*row as usize]));
        sorted(ours.collect()) != sorted(theirs.map(|id| (id.worker(), id.seq())).collect())
    }
}

#[cfg(test)]
mod tests;
