//! The sender's log, as far as it had come when a packet arrived: what may be in it.

use super::members::{Account, SentRows};
use super::{Candidates, Layout, Member, ranks};
use crate::index::{self, Index};
use crate::record::NO_CLUSTER;

/// No row.
const NONE: u32 = u32::MAX;

/// What became of a row of `sent`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// It never left.
    Withheld,
    Open,
    Unclear,
    Alone,
    Merged,
}

/// What workers of a cluster sent.
pub(super) struct Log<'a> {
    layout: &'a Layout,
    sent: SentRows<'a>,
    state: Vec<State>,
    /// Rows of each worker in the order in which they left, and how many of them had left.
    rows: Vec<Vec<u32>>,
    /// with the slack that is granted,
    left: Vec<usize>,
    /// when the packet arrived by the sender's own clock,
    sure: Vec<usize>,
    /// and that much before: the thread that noted its arrival may have been stopped, too.
    early: Vec<usize>,
    /// Where members share their number: up to where all that may be unclear are marked.
    marked: Vec<usize>,
    /// Workers by cluster and rank.
    workers: Vec<Vec<u32>>,
    /// First row of an update, and further attempts.
    first: Index,
    again: Vec<u32>,
    /// Which packet is looked at.
    cluster: usize,
    until: i64,
}

fn key(worker: u32, seq: u32) -> u64 {
    u64::from(worker) << 32 | u64::from(seq)
}

impl<'a> Log<'a> {
    pub(super) fn new(layout: &'a Layout, cluster_of: &[u16], sent: SentRows<'a>) -> Self {
        let mut workers: Vec<Vec<u32>> = Vec::new();
        for (worker, (cluster, rank)) in cluster_of.iter().zip(ranks(cluster_of)).enumerate() {
            if *cluster != NO_CLUSTER {
                let cluster = usize::from(*cluster);
                workers.resize(workers.len().max(cluster + 1), Vec::new());
                debug_assert_eq!(workers[cluster].len(), rank as usize);
                workers[cluster].push(worker as u32);
            }
        }
        let mut log = Log {
            layout,
            sent,
            state: Vec::with_capacity(sent.worker.len()),
            rows: vec![Vec::new(); cluster_of.len()],
            left: vec![0; cluster_of.len()],
            sure: vec![0; cluster_of.len()],
            early: vec![0; cluster_of.len()],
            marked: vec![0; cluster_of.len()],
            workers,
            first: index::with_room(sent.worker.len()),
            again: vec![NONE; sent.worker.len()],
            cluster: 0,
            until: i64::MIN,
        };
        for (row, left) in sent.t_sent_ps.iter().enumerate() {
            let of = log.rows.get_mut(sent.worker[row] as usize).filter(|_| sent.cluster[row] != NO_CLUSTER);
            let (Some(own), Some(_)) = (of, left) else {
                log.state.push(State::Withheld);
                continue;
            };
            own.push(row as u32);
            log.state.push(State::Open);
            let first = log.first.entry(key(sent.worker[row], sent.seq[row])).or_insert(row as u32);
            if *first != row as u32 {
                log.again[row] = std::mem::replace(first, row as u32);
            }
        }
        log.rows.iter_mut().for_each(|own| own.sort_by_key(|row| sent.t_sent_ps[*row as usize]));
        log
    }

    /// A packet of `cluster` arrived at `t`, or up to `slack` before; nothing can be in it that left `slack` later or after that.
    pub(super) fn look(&mut self, cluster: u16, t: i64, slack: i64) {
        (self.cluster, self.until) = (usize::from(cluster), t.saturating_add(slack));
        for worker in self.workers.get(self.cluster).into_iter().flatten() {
            let own = &self.rows[*worker as usize];
            let sent = |at: usize, until: i64| {
                own.get(at).is_some_and(|row| self.sent.t_sent_ps[*row as usize].is_some_and(|t| t <= until))
            };
            let sure = &mut self.sure[*worker as usize];
            while sent(*sure, t) {
                *sure += 1;
            }
            let mut left = *sure;
            while sent(left, self.until) {
                left += 1;
            }
            self.left[*worker as usize] = left;
            let mut early = *sure;
            while early > 0 && !sent(early - 1, t.saturating_sub(slack)) {
                early -= 1;
            }
            self.early[*worker as usize] = early;
        }
    }

    fn worker(&self, rank: u32) -> Option<u32> {
        self.workers.get(self.cluster)?.get(rank as usize).copied()
    }

    /// The transmissions of an update that may be in the packet.
    fn attempts(&self, worker: u32, seq: u32) -> impl Iterator<Item = usize> {
        let mut next = self.first.get(&key(worker, seq)).copied().unwrap_or(NONE);
        let rows = std::iter::from_fn(move || {
            let row = next;
            next = *self.again.get(row as usize)?;
            Some(row as usize)
        });
        rows.filter(|row| self.is_open(*row) && self.sent.t_sent_ps[*row].is_some_and(|t| t <= self.until))
    }

    fn is_open(&self, row: usize) -> bool {
        matches!(self.state[row], State::Open | State::Unclear)
    }

    /// The rows of a worker that may be in the packet: those of a window that have not arrived yet.
    fn recent(&self, rank: u32) -> impl Iterator<Item = usize> {
        let worker = self.worker(rank).map(|worker| worker as usize);
        let left = worker.map_or(&[][..], |worker| &self.rows[worker][..self.left[worker]]);
        let early = worker.map_or(0, |worker| self.early[worker]);
        // Where members share their number, its bits say which window.
        let from = if self.layout.shared { 0 } else { early.saturating_sub(self.layout.window as usize) };
        left[from..].iter().map(|row| *row as usize).filter(|row| self.is_open(*row))
    }

    /// A member of a packet with `count` members; returns its row.
    pub(super) fn deliver(&mut self, member: Member, count: usize) -> Option<u32> {
        let worker = self.worker(member.rank)?;
        let row = self.attempts(worker, member.seq).last()?;
        self.state[row] = if count == 1 { State::Alone } else { State::Merged };
        Some(row as u32)
    }

    /// The members of the packet are unknown.
    pub(super) fn may_be_any(&mut self) {
        for rank in 0..self.workers.get(self.cluster).map_or(0, |all| all.len() as u32) {
            let Some(worker) = self.worker(rank).map(|worker| worker as usize) else { continue };
            let left = self.left[worker];
            // Otherwise each packet would mark all rows before it anew.
            let from = match self.layout.shared {
                true => self.marked[worker].min(left),
                false => self.early[worker].saturating_sub(self.layout.window as usize),
            };
            for at in from..left {
                let row = self.rows[worker][at] as usize;
                if self.is_open(row) {
                    self.state[row] = State::Unclear;
                }
            }
            self.marked[worker] = self.marked[worker].max(left);
        }
    }

    /// Where everything went.
    pub(super) fn account(&self) -> Account {
        let mut account = Account::default();
        for own in &self.rows {
            let arrived = |row: &&u32| matches!(self.state[**row as usize], State::Alone | State::Merged);
            let newest = own.iter().filter(arrived).map(|row| self.sent.seq[*row as usize]).max();
            let unclear = |row: &&u32| self.state[**row as usize] == State::Unclear;
            let unclear = own.iter().filter(unclear).map(|row| self.sent.seq[*row as usize]).max();
            for row in own.iter().map(|row| *row as usize) {
                account.sent += 1;
                // Blocks do not replace each other.
                let overtaken = !self.layout.shared && newest.is_some_and(|newest| newest > self.sent.seq[row]);
                *match self.state[row] {
                    State::Alone => &mut account.alone,
                    State::Merged => &mut account.merged,
                    State::Unclear => &mut account.unclear,
                    State::Open | State::Withheld if overtaken => &mut account.overtaken,
                    // A newer one may have been delivered.
                    State::Open | State::Withheld
                        if !self.layout.shared && unclear.is_some_and(|unclear| unclear > self.sent.seq[row]) =>
                    {
                        &mut account.unclear
                    }
                    State::Open | State::Withheld => &mut account.missing,
                } += 1;
            }
        }
        account
    }
}

impl Candidates for Log<'_> {
    fn list(&self, rank: u32, out: &mut Vec<u32>) {
        out.extend(self.recent(rank).map(|row| self.sent.seq[row]));
    }

    fn may(&self, rank: u32, seq: u32) -> bool {
        self.worker(rank).is_some_and(|worker| self.attempts(worker, seq).next().is_some())
    }
}
