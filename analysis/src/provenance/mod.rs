//! Provenance without the device's help: who was in each packet, from its lanes and the sender's log alone.
//!
//! Called by [`crate::analyze`] where a run has lanes. It reads what workers sent, and of what arrived the time, the
//! cluster and the lanes: no packet ids and no books, which a device that is a black box does not have. docs/provenance.md
//! says what can be known. Where there are books, [`Provenance::wrong`] compares.

mod log;

use pktgen_generator::Result;
use pktgen_generator::lanes::{Decoded, Layout, decode};
use pktgen_generator::record::{Manifest, NO_CLUSTER};

use crate::age::{AgeOf, Ages};
use crate::fates::{Fates, is_update};
use crate::run::{LaneColumns, ReceivedColumns, Records};
use log::Log;

/// How much later than it arrived a packet may have been noted as sent, where clocks run by themselves: a sender on a busy host may
/// be stopped between sending and looking at its clock, and a receiver before it notes what came. Wider spans are looked at only where
/// a narrower one explains nothing: beyond the window marks have several candidates, and large sums then several explanations.
const SLACKS_PS: [i64; 7] =
    [0, 100_000_000, 1_000_000_000, 5_000_000_000, 20_000_000_000, 60_000_000_000, 200_000_000_000];

/// What the lanes of a received packet say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It is no update.
    Other,
    /// Its members are known.
    Known,
    /// They are not; how many there are may be.
    Ambiguous(Option<u32>),
    /// Nothing that was sent explains it.
    Contradiction,
}

/// Where every update went, as a black box lets it be told: in transmissions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Account {
    /// What left workers.
    pub sent: u64,
    /// Delivered as the only member of a packet.
    pub alone: u64,
    /// Delivered as members of aggregates.
    pub merged: u64,
    /// Not delivered, and a newer update of the same worker was: subsumed, outranked or lost.
    pub overtaken: u64,
    /// Not delivered, and nothing newer of the worker was: lost, outranked, or still under way at the end.
    pub missing: u64,
    /// May be members of packets whose members are not known.
    pub unclear: u64,
}

/// The answer for a whole run.
#[derive(Debug, Clone)]
pub struct Provenance {
    /// By row of `received`.
    pub answers: Vec<Answer>,
    /// Where the members of each row start in `members`; one longer than the rows.
    starts: Vec<usize>,
    /// Rows of `sent`.
    members: Vec<u32>,
    /// Where every update went.
    pub account: Account,
    /// Ages of all flows, by the members that are known; none in synchronous training.
    pub ages: Option<Ages>,
}

impl Provenance {
    /// Reads the lanes of a run.
    pub fn resolve(manifest: &Manifest, layout: &Layout, records: &Records, lanes: &LaneColumns) -> Result<Provenance> {
        let received = &records.received;
        let by_itself = manifest.clocks.get("sent.t_sent_ps").is_some_and(|clock| clock != "virtual");
        let slacks = if by_itself { &SLACKS_PS[..] } else { &[0] };
        let mut log = Log::new(layout, &manifest.clusters, &records.sent);
        let (mut answers, mut starts, mut members) = (Vec::new(), vec![0], Vec::new());
        for (row, cluster) in received.cluster.iter().enumerate() {
            let answer = if is_update(*cluster) {
                let mut decoded = Decoded::Contradiction("");
                for slack in slacks {
                    log.look(*cluster, received.t_recv_ps[row], *slack);
                    decoded = decode(layout, lanes.words_of(row), &log);
                    if !matches!(decoded, Decoded::Contradiction(_)) {
                        break;
                    }
                }
                match decoded {
                    Decoded::Members(found) => {
                        members.extend(found.iter().filter_map(|member| log.deliver(*member, found.len())));
                        Answer::Known
                    }
                    Decoded::Ambiguous(known) => {
                        log.may_be_any();
                        Answer::Ambiguous(known.count)
                    }
                    Decoded::Contradiction(_) => Answer::Contradiction,
                }
            } else {
                Answer::Other
            };
            answers.push(answer);
            starts.push(members.len());
        }
        let account = log.account();
        let mut found = Provenance { answers, starts, members, account, ages: None };
        if manifest.training.is_none() {
            found.ages = Some(found.ages_of(records)?);
        }
        Ok(found)
    }

    /// Ages by the members that are known; other packets refresh nobody.
    fn ages_of(&self, records: &Records) -> Result<Ages> {
        let received = &records.received;
        let newest = |row| self.members_of(row).iter().map(|member| records.sent.t_gen_ps[*member as usize]).max();
        let newest: Vec<Option<i64>> = (0..self.answers.len()).map(newest).collect();
        let cluster = received.cluster.iter().zip(&newest);
        let told = ReceivedColumns {
            t_recv_ps: received.t_recv_ps.clone(),
            cluster: cluster.map(|(cluster, newest)| if newest.is_some() { *cluster } else { NO_CLUSTER }).collect(),
            newest_gen_ps: newest.iter().map(|newest| newest.unwrap_or(0)).collect(),
            ..ReceivedColumns::default()
        };
        let told = Records { sent: records.sent.clone(), received: told, ..Records::default() };
        let fates = Fates { member_start: self.starts.clone(), members: self.members.clone(), ..Fates::default() };
        Ages::compute(&told, &fates, AgeOf::Newest)
    }

    /// The members of row `row` of `received` that are known, as rows of `sent`.
    pub fn members_of(&self, row: usize) -> &[u32] {
        &self.members[self.starts[row]..self.starts[row + 1]]
    }

    /// Packets with this answer.
    pub fn packets(&self, wanted: impl Fn(&Answer) -> bool) -> u64 {
        self.answers.iter().filter(|answer| wanted(answer)).count() as u64
    }

    /// Updates that are known to be in packets whose members are not known.
    pub fn unidentified(&self) -> u64 {
        let of = |answer: &Answer| match answer {
            Answer::Ambiguous(count) => u64::from(count.unwrap_or(0)),
            _ => 0,
        };
        self.answers.iter().map(of).sum()
    }

    /// Packets whose members are not those that the books name.
    pub fn wrong(&self, records: &Records, fates: &Fates) -> u64 {
        // Which attempt of an update arrived lanes do not say.
        let named = |rows: &[u32]| {
            let mut named: Vec<_> =
                rows.iter().map(|row| (records.sent.worker[*row as usize], records.sent.seq[*row as usize])).collect();
            named.sort_unstable();
            named
        };
        let known = |row: &usize| self.answers[*row] == Answer::Known;
        let rows = (0..self.answers.len()).filter(known);
        rows.filter(|row| named(self.members_of(*row)) != named(fates.members_of(*row))).count() as u64
    }
}

#[cfg(test)]
mod tests;
