//! The way of a worker that is made through one that was recorded.
//!
//! A copy is a local block bootstrap (Paparoditis and Politis 2002): it goes through the run from beginning to end in
//! blocks of neighbouring updates, and takes each block from near the time in the run at which it is itself. So what changes in
//! the course of training (gaps, rewards, gradients) changes in the copy at the same time, neighbours stay neighbours, and yet
//! two copies are different. It ends when the recorded worker does. (Blocks placed by number would wander off in time, as
//! gaps vary: what workers have in common was lost.) Updates of one instant, the frames of a large gradient, stay together.
//! Blocks overlap, so a copy has numbers of iterations of its own: recorded ones would repeat and go back.

use std::ops::Range;

use rand::RngExt;

use super::spool::{Member, Row, Spool};
use crate::Result;
use crate::seed::Stream;
use crate::time::Time;

/// Most updates of a block: above the lags at which gaps are seen to be correlated.
const BLOCK_MAX: u32 = 32;
/// How far a block is taken from its place: this share of the run to either side. Workers that share a model change together,
/// within hundredths of a run: at 0.05, the recorded correlation of 0.84 between workers fell to 0.58.
const REACH: f64 = 0.01;
/// A copy with this many times the updates expected takes its blocks from its very place: where long gaps are rare, many blocks
/// without one may follow each other.
const LONG: f64 = 2.0;
/// Rows that are read at once.
const AHEAD: u32 = 64;

/// How a worker goes through a recorded one.
#[derive(Debug, Clone)]
pub(super) enum Way {
    /// From the first to the last, and again: the recorded worker itself, or a copy in step with all others.
    InOrder,
    /// In blocks; the draws are those of the cluster, so that its workers stay in step.
    Blocks(Stream),
}

/// A worker that is made.
pub(super) struct Walk<'a> {
    spool: &'a Spool,
    own: &'a Member,
    way: Way,
    pub(super) cluster: u16,
    pub(super) worker: u32,
    /// Whether this is the recorded worker, in order.
    pub(super) original: bool,
    /// Number of the update it is at, and how many are wanted; none is for as long as the recorded one.
    pub(super) seq: u32,
    wanted: Option<u32>,
    /// What gaps are multiplied by.
    pace: f64,
    /// When it is; the end of time if that is out of range.
    pub(super) at: Time,
    /// Rows that were read, and the one it is at.
    rows: Vec<Row>,
    next: usize,
    /// In blocks, the iteration of the update it is at.
    iteration: u32,
    /// Numbers of those of the block that are not read yet.
    rest: Range<u32>,
}

impl<'a> Walk<'a> {
    /// A worker at its first update.
    pub(super) fn begin(
        spool: &'a Spool,
        own: &'a Member,
        mut way: Way,
        wanted: Option<u32>,
        pace: f64,
    ) -> Result<Walk<'a>> {
        let late = match &mut way {
            Way::InOrder => 0,
            Way::Blocks(stream) => (stream.random::<f64>() * own.mean_pause() as f64 * pace) as Time,
        };
        let at = own.first.saturating_add(late);
        let (cluster, worker, original) = (0, 0, false);
        let (rows, next, rest) = (Vec::new(), 0, 0..0);
        let (seq, iteration) = (0, own.iteration.unwrap_or(0));
        let mut walk =
            Walk { spool, own, way, cluster, worker, original, seq, wanted, pace, at, rows, next, iteration, rest };
        walk.load()?;
        Ok(walk)
    }

    /// The update it is at.
    pub(super) fn row(&self) -> Row {
        let mut row = self.rows[self.next];
        row.iteration = row.iteration.map(|recorded| match (&self.way, self.spool.in_step) {
            (Way::Blocks(_), _) => self.iteration,
            (Way::InOrder, Some(iterations)) => {
                recorded.saturating_add(iterations.saturating_mul(self.seq / self.own.n))
            }
            (Way::InOrder, None) => recorded,
        });
        row
    }

    /// Whether the update it is at is the recorded one itself.
    pub(super) fn is_recorded(&self) -> bool {
        self.original && self.seq < self.own.n
    }

    /// Number of updates expected of a copy: those of its recorded worker, more at a faster pace.
    pub(super) fn expected(&self) -> f64 {
        f64::from(self.own.n) / self.pace.min(1.0)
    }

    /// Whether it is a copy with far more updates than expected ([`LONG`]).
    pub(super) fn is_long(&self) -> bool {
        self.wanted.is_none() && f64::from(self.seq) >= LONG * self.expected()
    }

    /// To the next update; false at the end.
    pub(super) fn step(&mut self) -> Result<bool> {
        let in_order = matches!(self.way, Way::InOrder);
        let most = self.wanted.unwrap_or(if in_order { self.own.n } else { u32::MAX });
        if self.seq + 1 >= most {
            return Ok(false);
        }
        let before = self.rows[self.next].iteration;
        self.seq += 1;
        self.next += 1;
        let is_fresh = self.next == self.rows.len() && self.load()?;
        let passed = match (before, self.rows[self.next].iteration) {
            // An iteration that a block cuts off ends with it.
            _ if is_fresh => 1,
            (before, now) if before == now => 0,
            (before, now) => now.unwrap_or(0).saturating_sub(before.unwrap_or(0)).max(1),
        };
        self.iteration = self.iteration.saturating_add(passed);
        let gap = self.rows[self.next].gap;
        // No rounding where nothing is changed; a gap stays one, so that the worker comes to its end.
        let scaled = || ((gap as f64 * self.pace) as Time).max(Time::from(gap > 0));
        let gap = if self.pace == 1.0 { gap } else { scaled() };
        let at = self.at.saturating_add(gap);
        // All at once, it does not come to the end by time.
        let all = self.own.mean_pause() == 0 && self.seq >= self.own.n;
        if self.wanted.is_none() && !in_order && (at > self.own.last || all) {
            return Ok(false);
        }
        self.at = at;
        Ok(true)
    }

    /// Reads the next rows of the block, or the first of another; true for another.
    fn load(&mut self) -> Result<bool> {
        let is_fresh = self.rest.is_empty();
        if is_fresh {
            self.rest = self.block()?;
        }
        let to = self.rest.end.min(self.rest.start.saturating_add(AHEAD));
        self.spool.read(self.own, self.rest.start, to, &mut self.rows)?;
        (self.rest.start, self.next) = (to, 0);
        Ok(is_fresh)
    }

    /// Numbers of the rows of the next block: whole instants, so that the first has a gap and time goes on.
    fn block(&mut self) -> Result<Range<u32>> {
        let n = self.own.n;
        let reach = if self.is_long() { 0.0 } else { REACH * f64::from(n) };
        let Way::Blocks(stream) = &mut self.way else { return Ok(self.seq % n..n) };
        let place = match self.wanted {
            // A wanted number of updates goes through the whole run.
            Some(wanted) => (u64::from(self.seq) * u64::from(n) / u64::from(wanted)) as u32,
            None => self.spool.place(self.own, self.at)?,
        };
        let longest = (n / 8).clamp(1, BLOCK_MAX).min((self.wanted.unwrap_or(n) / 10).max(1));
        let drawn: f64 = stream.random();
        // Where blocks end differs from copy to copy.
        let length = if self.seq == 0 { stream.random_range(1..=longest) } else { longest };
        // Where more updates are wanted than recorded, a block is longer than the part of the run that it stands for: its middle
        // is there.
        let lead = self.wanted.map_or(0.0, |wanted| f64::from(length) * (1.0 - f64::from(n) / f64::from(wanted)) / 2.0);
        let place = (f64::from(place) - lead).max(0.0);
        // Reflected at both ends, where a clamp would make all copies begin alike. The end of the run cuts a block, so that the last
        // rows, and a long gap there, are drawn like all others.
        let start = (place + (2.0 * drawn - 1.0) * reach).abs();
        let start = if start < f64::from(n) { start } else { 2.0 * f64::from(n) - start };
        let start = (start as u32).min(n - 1);
        let begin = self.spool.instant_begin(self.own, start)?;
        Ok(begin..self.spool.instant_end(self.own, begin.saturating_add(length).min(n))?)
    }
}
