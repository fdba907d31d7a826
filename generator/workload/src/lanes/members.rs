//! Who was in each packet of a run, from its lanes and the sender's log alone: no packet ids and no books, which a device that is a
//! black box does not have. docs/provenance.md says what can be known.
//!
//! Called by analysis, for metrics, and by replay, which checks the sums of such a device.

use super::log::Log;
use super::{Decoded, Layout, decode};
use crate::record::NO_CLUSTER;

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

/// The fate of every update as far as a black box shows it: in transmissions.
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

/// Columns of what workers sent.
#[derive(Debug, Clone, Copy)]
pub struct SentRows<'a> {
    /// When each left; none if it was withheld.
    pub t_sent_ps: &'a [Option<i64>],
    /// Clusters.
    pub cluster: &'a [u16],
    /// Workers.
    pub worker: &'a [u32],
    /// Sequence numbers.
    pub seq: &'a [u32],
}

/// A packet that arrived.
#[derive(Debug, Clone, Copy)]
pub struct Arrived<'a> {
    /// When.
    pub t_recv_ps: i64,
    /// Its cluster, or [`NO_CLUSTER`].
    pub cluster: u16,
    /// The worker of its newest member, as its header says; `None` if it does not say so.
    pub worker: Option<u32>,
    /// Its lanes.
    pub words: &'a [u32],
}

impl Arrived<'_> {
    /// Returns whether it names a cluster of which its newest member is not: lanes of either cluster may fit it by chance.
    fn contradicts_itself(&self, cluster_of: &[u16]) -> bool {
        let own = self.worker.and_then(|worker| cluster_of.get(worker as usize));
        own.is_some_and(|own| *own != self.cluster)
    }
}

/// The answer for a whole run.
#[derive(Debug, Clone, Default)]
pub struct Members {
    /// By packet that arrived.
    pub answers: Vec<Answer>,
    /// Where the members of each packet start in `members`; one longer than the packets.
    pub starts: Vec<usize>,
    /// Rows of what was sent.
    pub members: Vec<u32>,
    /// Where every update went.
    pub account: Account,
}

impl Members {
    /// Reads the lanes of what arrived, in its order. `by_itself` says that clocks run by themselves: the run was in real time.
    pub fn resolve<'a>(
        layout: &Layout,
        cluster_of: &[u16],
        sent: SentRows,
        arrived: impl Iterator<Item = Arrived<'a>>,
        by_itself: bool,
    ) -> Members {
        let slacks = if by_itself { &SLACKS_PS[..] } else { &[0] };
        let mut log = Log::new(layout, cluster_of, sent);
        let mut found = Members { starts: vec![0], ..Members::default() };
        for packet in arrived {
            let answer = match packet.cluster {
                NO_CLUSTER => Answer::Other,
                // Results of synchronous protocols are of a job, and of no worker.
                _ if !layout.shared && packet.contradicts_itself(cluster_of) => Answer::Contradiction,
                _ => found.read(layout, &mut log, packet, slacks),
            };
            found.answers.push(answer);
            found.starts.push(found.members.len());
        }
        found.account = log.account();
        found
    }

    fn read(&mut self, layout: &Layout, log: &mut Log, packet: Arrived, slacks: &[i64]) -> Answer {
        let mut decoded = Decoded::Contradiction("");
        for slack in slacks {
            log.look(packet.cluster, packet.t_recv_ps, *slack);
            decoded = decode(layout, packet.words, log);
            if !matches!(decoded, Decoded::Contradiction(_)) {
                break;
            }
        }
        match decoded {
            Decoded::Members(found) => {
                self.members.extend(found.iter().filter_map(|member| log.deliver(*member, found.len())));
                Answer::Known
            }
            Decoded::Ambiguous(known) => {
                log.may_be_any();
                Answer::Ambiguous(known.count)
            }
            Decoded::Contradiction(_) => Answer::Contradiction,
        }
    }

    /// The members of packet `packet` that are known.
    pub fn of(&self, packet: usize) -> &[u32] {
        &self.members[self.starts[packet]..self.starts[packet + 1]]
    }
}
