//! One worker of synchronous training: its iteration, the blocks that it has sent, and the results that it has.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use pktgen_core::record::{Iteration, PacketId};
use pktgen_core::time::{HORIZON, NEVER, Time};
use pktgen_workload::dense::Dense;

use super::settings::{Missed, Order};
use super::{Layout, ResultHead, Settings, UNSENT_MAX};
use crate::endpoint::Host;

/// The activity of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Computing,
    Sending,
    Done,
}

/// The significance of a result for a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrived {
    First,
    Again,
}

/// Results of one iteration at a worker.
#[derive(Debug, Clone, Default)]
struct Round {
    /// One bit per block; empty before the first result, so that one frame with a forged late iteration does not
    /// allocate memory for all iterations before it.
    got: Vec<u64>,
    count: u32,
    degraded: u32,
    sources: u64,
    /// Arrival of the last of them.
    t_last: Time,
}

impl Round {
    fn new(blocks: u32) -> Self {
        Round { got: vec![0; (blocks as usize).div_ceil(64)], ..Round::default() }
    }

    #[inline]
    fn has(&self, block: u32) -> bool {
        self.got.get(block as usize / 64).is_some_and(|word| word >> (block % 64) & 1 == 1)
    }

    fn add(&mut self, block: u32, blocks: u32, head: &ResultHead, t: Time) -> bool {
        if self.has(block) {
            return false;
        }
        if self.got.is_empty() {
            *self = Round::new(blocks);
        }
        self.got[block as usize / 64] |= 1 << (block % 64);
        self.count += 1;
        self.degraded += u32::from(head.degraded);
        self.sources += u64::from(head.count);
        self.t_last = self.t_last.max(t);
        true
    }

    fn clear(&mut self) {
        self.got.fill(0);
        (self.count, self.degraded, self.sources, self.t_last) = (0, 0, 0, 0);
    }
}

/// A worker.
pub struct Worker {
    id: u32,
    pub job: u16,
    pub source: u8,
    pub iteration: u32,
    phase: Phase,
    t_start: Time,
    /// Time at which all results of the previous iteration had arrived: from then on the others are in this iteration.
    t_others: Time,
    /// End of its computation.
    pub t_ready: Time,
    delay: Time,
    /// Duration of the shortest iteration with all workers and without delay; [`NEVER`] before there is one.
    shortest: Time,
    /// Periods of delay, in order.
    held_up: Vec<(Time, Time)>,
    /// The current iteration, and later ones with results.
    rounds: VecDeque<Round>,
    /// The next block to be considered, in order.
    next: u32,
    /// Blocks whose slot is free, if blocks wait for slots.
    freed: VecDeque<u32>,
    outstanding: u32,
    /// Maximum number of outstanding blocks, how often it was halved, and the result, numbered over all iterations,
    /// with which it changes next.
    window: u32,
    halved: u32,
    changes_at: u32,
    /// The first block without a result.
    oldest: u32,
    /// Blocks overtaken by later results, to be sent again, each with the end of the window at that time; and the block up to which
    /// this was done.
    overtaken: VecDeque<(u32, u32)>,
    overtaken_to: u32,
    /// The last attempt of each block of the iteration.
    attempts: Vec<u8>,
    /// Time of the last arrival or first transmission, and the number of retransmissions since then.
    silent_since: Time,
    silences: u32,
    sent: u32,
    /// Whether the last packet of the iteration, which may have fewer elements, is among them.
    sent_last: bool,
    /// Departure of each block of the iteration; [`NEVER`] if it has not left.
    left_at: Vec<Time>,
    /// Frames handed over that have not left.
    unsent: u32,
    /// Departure of the last frame's first bit: nothing is handed over before then, so a window that is halved meanwhile holds back what
    /// had been permitted. In virtual time it is known as soon as the frame is handed over.
    link_free: Time,
    /// Blocks that may have to be sent again: start of the wait, block, and last attempt.
    waiting: VecDeque<(Time, u32, u8)>,
    /// Exponents from results of the iteration, by packet; empty without exponents.
    exponents: Vec<i8>,
    /// Number of retransmissions, and the number of further ones after which the timeout doubles.
    timeouts: u32,
    threshold: u32,
    patience: u32,
    /// The latest time of a call: nothing is sent before.
    now: Time,
}

/// Retransmissions after which the timeout doubles; the threshold then grows by this number, as in the public client.
const THRESHOLD: u32 = 100;
/// The maximum attempt of a block: SwitchML's packets have 7 bits for it (`systems/switchml/src/format.rs`).
pub(super) const ATTEMPT_MAX: u8 = i8::MAX as u8;

/// Returns the part of `elements` that `sent` are of `all`: the product may need more than 64 bits.
fn share_of(elements: u64, sent: u64, all: u64) -> u64 {
    (u128::from(elements) * u128::from(sent) / u128::from(all)) as u64
}

impl Worker {
    pub fn new(id: u32, layout: &Layout, settings: &Settings) -> Self {
        let dense = &layout.dense;
        let job = (id / dense.workers_per_job()) as u16;
        Worker {
            id,
            job,
            source: (id % dense.workers_per_job()) as u8,
            iteration: 0,
            phase: Phase::Computing,
            t_start: 0,
            t_others: 0,
            t_ready: 0,
            delay: 0,
            shortest: NEVER,
            held_up: Vec::new(),
            rounds: VecDeque::from([Round::new(layout.packets())]),
            next: 0,
            freed: VecDeque::new(),
            outstanding: 0,
            window: settings.window,
            halved: 0,
            changes_at: settings.window - 1,
            oldest: 0,
            overtaken: VecDeque::new(),
            overtaken_to: 0,
            attempts: vec![0; layout.packets() as usize],
            silent_since: 0,
            silences: 0,
            sent: 0,
            sent_last: false,
            left_at: vec![NEVER; layout.packets() as usize],
            unsent: 0,
            link_free: 0,
            waiting: VecDeque::new(),
            exponents: vec![0; layout.lead().min(1) as usize * layout.packets() as usize],
            timeouts: 0,
            threshold: THRESHOLD,
            patience: 1,
            now: 0,
        }
    }

    /// Returns the current timeout for a result; `None` if there is no timeout.
    fn timeout(&self, settings: &Settings) -> Option<Time> {
        settings.retransmit.map(|timeout| timeout.saturating_mul(Time::from(self.patience)))
    }

    /// Begins the current iteration at `t`; skips iterations completed without it, if permitted.
    pub fn begin(&mut self, t: Time, layout: &Layout, settings: &Settings, host: &mut Host) {
        let dense = &layout.dense;
        self.now = t;
        while self.iteration < dense.iterations() {
            self.t_start = t;
            let missed = self.rounds[0].count == layout.packets() && settings.missed != Missed::Compute;
            if !missed {
                return self.compute(t, dense, settings);
            }
            (self.t_ready, self.delay) = (t, 0);
            self.record(t, layout, true, host);
            self.advance(layout.packets());
        }
        self.phase = Phase::Done;
    }

    /// Computes from `t` on, or with the others if it joins them: the delays of a straggler are at equal distances within the computation,
    /// the first at its beginning (§6.1 "Straggler generation pattern" says three points in each iteration, not where: our choice).
    fn compute(&mut self, t: Time, dense: &Dense, settings: &Settings) {
        let compute = dense.compute_of(self.id, self.iteration);
        let factors = dense.stragglers().delays(self.id, self.iteration);
        let points = dense.stragglers().points().max(1) as Time;
        let typical = if settings.measured && self.shortest < NEVER { self.shortest } else { settings.typical };
        let start = if settings.missed == Missed::Join { self.t_others } else { t };
        self.held_up.clear();
        self.delay = 0;
        for (point, factor) in (0..points).zip(factors) {
            // Capped at the horizon, when the run has been stopped long ago, so that nothing wraps.
            let delay = ((factor * typical as f64) as Time).min(HORIZON);
            let from = start + compute / points * point + compute % points * point / points + self.delay;
            if delay > 0 && from >= t {
                self.held_up.push((from, from + delay));
                self.delay = (self.delay + delay).min(HORIZON);
            }
        }
        self.t_ready = t.max(start + compute + self.delay);
        self.phase = Phase::Computing;
    }

    /// Returns the exponent that a result named for the content of packet `index`.
    pub fn told(&self, layout: &Layout, index: u32) -> i8 {
        layout.block_of(index).and_then(|block| self.exponents.get(block as usize)).copied().unwrap_or(0)
    }

    /// Returns its window, and how often it was halved.
    pub fn window(&self) -> (u32, u32) {
        (self.window, self.halved)
    }

    /// Returns whether it has ended its last iteration.
    pub fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// Returns whether it has used all attempts of a block without a result.
    pub(super) fn has_given_up(&self) -> bool {
        let mut attempts = self.attempts.iter().zip(0..);
        attempts.any(|(attempt, block)| *attempt == ATTEMPT_MAX && !self.rounds[0].has(block))
    }

    /// Returns when it has something to do.
    pub fn wake(&self, settings: &Settings) -> Time {
        match self.phase {
            Phase::Done => NEVER,
            Phase::Computing => self.t_ready.max(self.now),
            Phase::Sending => {
                let again = match (self.timeout(settings), self.waiting.front()) {
                    _ if self.opens(settings) => NEVER,
                    _ if settings.order == Order::Sliding => self.silence_ends(settings),
                    (Some(timeout), Some((since, ..))) => since.saturating_add(timeout),
                    _ => NEVER,
                };
                let may = self.may_send(settings) || !self.overtaken.is_empty();
                let ready = if may { self.link_free } else { NEVER };
                if self.unsent >= UNSENT_MAX { NEVER } else { ready.min(again).max(self.now) }
            }
        }
    }

    /// Returns whether blocks of the first window remain, if blocks wait for slots. All else leaves behind that window, as if it was
    /// handed over at once, although at most [`UNSENT_MAX`] frames wait for the link.
    fn opens(&self, settings: &Settings) -> bool {
        settings.order == Order::Slots && self.next < settings.window.min(self.left_at.len() as u32)
    }

    fn may_send(&self, settings: &Settings) -> bool {
        let blocks = self.left_at.len() as u32;
        match settings.order {
            Order::Slots => self.opens(settings) || !self.freed.is_empty(),
            Order::Outstanding => self.next < blocks && self.outstanding < settings.window,
            Order::Sliding => self.next < self.window_end(blocks),
        }
    }

    /// Returns the block behind the last one in a sliding window.
    fn window_end(&self, blocks: u32) -> u32 {
        blocks.min(self.oldest.saturating_add(self.window))
    }

    /// Returns whether overtaken blocks may be sent again: behind the window in which they were overtaken, as if that was handed over at
    /// once, although at most [`UNSENT_MAX`] frames wait for the link. The window may have been halved since.
    fn resends(&self, settings: &Settings) -> bool {
        self.overtaken.front().is_some_and(|(_, end)| self.next >= *end) || !self.may_send(settings)
    }

    /// Returns the next block to send at `t`, and its attempt.
    pub fn next(&mut self, t: Time, settings: &Settings) -> Option<(u32, u8)> {
        self.now = self.now.max(t);
        if self.phase == Phase::Computing && t >= self.t_ready {
            self.phase = Phase::Sending;
        }
        if self.phase != Phase::Sending || self.unsent >= UNSENT_MAX {
            return None;
        }
        if !self.opens(settings)
            && let Some(again) = self.overdue(t, settings).or_else(|| self.next_overtaken(settings))
        {
            self.unsent += 1;
            return Some(again);
        }
        let block = self.next_block(settings)?;
        self.silent_since = t;
        self.unsent += 1;
        self.sent += 1;
        self.sent_last |= block as usize + 1 == self.left_at.len();
        self.outstanding += 1;
        Some((block, 0))
    }

    fn next_block(&mut self, settings: &Settings) -> Option<u32> {
        let blocks = self.left_at.len() as u32;
        match settings.order {
            Order::Slots if self.opens(settings) => return Some(self.step()),
            Order::Slots => return self.freed.pop_front(),
            Order::Sliding => return self.may_send(settings).then(|| self.step()),
            Order::Outstanding if self.outstanding >= settings.window => return None,
            Order::Outstanding => {}
        }
        // Blocks with a result need no contribution.
        while self.next < blocks && self.rounds[0].has(self.next) {
            self.next += 1;
        }
        (self.next < blocks).then(|| self.step())
    }

    fn step(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }

    /// Returns when it sends its oldest block again, if its window is handed over and nothing arrives until then: the wait doubles each
    /// time.
    fn silence_ends(&self, settings: &Settings) -> Time {
        let waits = self.oldest < self.next && self.attempts[self.oldest as usize] < ATTEMPT_MAX;
        let waits = waits && !self.may_send(settings);
        match settings.retransmit.filter(|_| waits) {
            Some(timeout) => self.silent_since.saturating_add(timeout.saturating_mul(1 << self.silences.min(40))),
            None => NEVER,
        }
    }

    /// Returns a block that waited too long for its result.
    fn overdue(&mut self, t: Time, settings: &Settings) -> Option<(u32, u8)> {
        if settings.order == Order::Sliding {
            return (self.silence_ends(settings) <= t).then(|| {
                (self.silent_since, self.silences) = (t, self.silences + 1);
                let attempt = &mut self.attempts[self.oldest as usize];
                *attempt += 1;
                (self.oldest, *attempt)
            });
        }
        let timeout = self.timeout(settings)?;
        while let Some(&(since, block, attempt)) = self.waiting.front() {
            // Attempts are exhausted: a further transmission could not be distinguished from the last.
            if self.rounds[0].has(block) || attempt == ATTEMPT_MAX || attempt < self.attempts[block as usize] {
                self.waiting.pop_front();
            } else if since.saturating_add(timeout) <= t {
                self.waiting.pop_front();
                self.timeouts += 1;
                if self.timeouts >= self.threshold {
                    let patience = self.patience.saturating_mul(2);
                    (self.timeouts, self.threshold, self.patience) = (0, self.threshold + THRESHOLD, patience);
                }
                self.attempts[block as usize] = attempt + 1;
                return Some((block, attempt + 1));
            } else {
                return None;
            }
        }
        None
    }

    /// Returns a block that a later result has overtaken.
    fn next_overtaken(&mut self, settings: &Settings) -> Option<(u32, u8)> {
        while self.resends(settings)
            && let Some((block, _)) = self.overtaken.pop_front()
        {
            let attempt = &mut self.attempts[block as usize];
            if !self.rounds[0].has(block) && *attempt < ATTEMPT_MAX {
                *attempt += 1;
                return Some((block, *attempt));
            }
        }
        None
    }

    /// Handles a result in a sliding window: advances the oldest block, schedules overtaken blocks again, and adapts the window.
    fn slide(&mut self, head: &ResultHead, t: Time, blocks: u32, settings: &Settings) {
        let block = head.seq % blocks;
        (self.silent_since, self.silences) = (t, 0);
        while self.oldest < blocks && self.rounds[0].has(self.oldest) {
            self.oldest += 1;
        }
        if settings.gaps && block > self.oldest {
            let (from, end) = (self.oldest.max(self.overtaken_to), self.window_end(blocks));
            let missing = (from..block).filter(|block| !self.rounds[0].has(*block));
            self.overtaken.extend(missing.map(|block| (block, end)));
            self.overtaken_to = self.overtaken_to.max(block);
        }
        if let Some(control) = settings.control.filter(|_| head.seq == self.changes_at) {
            self.halved += u32::from(head.congested);
            self.window = match head.congested {
                true => (self.window / 2).max(1),
                false => self.window.saturating_add(control.step).min(settings.window),
            };
            // Results that overtook this one are here already: the first that is not ends the next window.
            let (begin, next) = (head.seq - block, self.changes_at.saturating_add(self.window));
            let missing = (next - begin..blocks).find(|block| !self.rounds[0].has(*block)).unwrap_or(blocks);
            self.changes_at = next.max(begin.saturating_add(missing));
        }
    }

    /// Handles the departure of a frame from the host at `t`.
    pub fn left(&mut self, packet: PacketId, blocks: u32, t: Time, settings: &Settings) {
        let seq = packet.seq();
        self.unsent = self.unsent.saturating_sub(1);
        self.link_free = self.link_free.max(t);
        if seq / blocks != self.iteration {
            return;
        }
        let block = seq % blocks;
        let at = &mut self.left_at[block as usize];
        *at = (*at).min(t);
        match settings.order {
            Order::Sliding => self.silent_since = if packet.attempt() == 0 { t } else { self.silent_since },
            _ if settings.retransmit.is_some() => self.waiting.push_back((t, block, packet.attempt())),
            _ => {}
        }
    }

    /// Returns when it sent its contribution to a block, if at or before `t` and in the current iteration. The
    /// departure of a frame that waits for its link may already be known.
    pub(crate) fn sent_at(&self, iteration: u32, block: u32, t: Time) -> Option<Time> {
        let at = self.left_at[block as usize];
        (iteration == self.iteration && at <= t).then_some(at)
    }

    /// Returns whether it has contributed to a block, or has passed its iteration.
    pub fn contributed(&self, iteration: u32, block: u32) -> bool {
        iteration < self.iteration || (iteration == self.iteration && self.left_at[block as usize] != NEVER)
    }

    /// Returns the number of iterations from its own to this one; `None` if it has ended this one.
    fn ahead(&self, iteration: u32) -> Option<u32> {
        iteration.checked_sub(self.iteration).filter(|_| self.phase != Phase::Done)
    }

    /// Returns whether it has no result of a block yet.
    pub fn needs(&self, iteration: u32, block: u32) -> bool {
        let has = |ahead: u32| self.rounds.get(ahead as usize).is_some_and(|round| round.has(block));
        self.ahead(iteration).is_some_and(|ahead| !has(ahead))
    }

    /// Handles the arrival of a result at `t`.
    pub fn arrived(&mut self, head: &ResultHead, t: Time, blocks: u32, settings: &Settings) -> Arrived {
        self.now = self.now.max(t);
        let (iteration, block) = (head.seq / blocks, head.seq % blocks);
        let Some(ahead) = self.ahead(iteration) else { return Arrived::Again };
        while self.rounds.len() <= ahead as usize {
            self.rounds.push_back(Round::default());
        }
        if !self.rounds[ahead as usize].add(block, blocks, head, t) {
            return Arrived::Again;
        }
        if ahead == 0 {
            if let Some(told) = self.exponents.get_mut(block as usize) {
                *told = head.exponent;
            }
            if block < self.next {
                self.outstanding = self.outstanding.saturating_sub(1);
            }
            match settings.order {
                Order::Slots if block + settings.window < blocks => self.freed.push_back(block + settings.window),
                Order::Sliding => self.slide(head, t, blocks, settings),
                _ => {}
            }
            let all = self.rounds[0].count == blocks;
            if all && settings.missed == Missed::Abandon && self.phase == Phase::Computing {
                // The current delay cannot be aborted.
                self.held_up.retain(|(from, _)| *from <= t);
                self.delay = self.held_up.iter().map(|(from, to)| to - from).sum();
                let held_until = self.held_up.last().map_or(t, |(_, to)| *to);
                self.t_ready = self.t_ready.min(held_until.max(t));
            }
        }
        Arrived::First
    }

    /// Ends the iteration at `t` if all results are there and the worker has nothing else to do.
    pub fn end_if_all(&mut self, t: Time, layout: &Layout, settings: &Settings, host: &mut Host) {
        if self.phase != Phase::Sending || self.rounds[0].count < layout.packets() {
            return;
        }
        if self.delay == 0 && self.rounds[0].degraded == 0 {
            // One that it joined began with the others.
            let began = if settings.missed == Missed::Join { self.t_others } else { self.t_start };
            self.shortest = self.shortest.min(t - began);
        }
        self.record(t, layout, false, host);
        self.advance(layout.packets());
        self.begin(t, layout, settings, host);
    }

    /// Returns the gradients other than 0 in the packets that it sent, whose share is that of the whole model.
    fn sent_nonzero(&self, layout: &Layout) -> u64 {
        let dense = &layout.dense;
        let per_packet = u64::from(dense.elements_per_packet());
        let whole = u64::from(self.sent.saturating_sub(layout.lead())) * per_packet;
        let absent = per_packet - u64::from(dense.elements_of(dense.blocks() - 1));
        let sent = if self.sent_last { whole.saturating_sub(absent) } else { whole };
        share_of(dense.nonzero(), sent, dense.elements_total())
    }

    fn record(&self, t_end: Time, layout: &Layout, missed: bool, host: &mut Host) {
        let (round, packets) = (&self.rounds[0], layout.packets());
        host.iterations.push(Iteration {
            t_start: self.t_start,
            t_ready: self.t_ready,
            t_end,
            delay: self.delay,
            worker: self.id,
            job: self.job,
            iteration: self.iteration,
            sent: self.sent,
            skipped: packets - self.sent,
            degraded: round.degraded,
            sources: round.sources,
            elements: self.sent_nonzero(layout),
            missed,
        });
    }

    /// Advances to the next iteration.
    fn advance(&mut self, blocks: u32) {
        self.iteration += 1;
        self.t_others = self.rounds[0].t_last;
        // The oldest round is reused as the newest, if there is no newer one: nothing is allocated.
        if let Some(mut round) = self.rounds.pop_front()
            && self.rounds.is_empty()
        {
            round.clear();
            self.rounds.push_back(round);
        }
        debug_assert_eq!(self.left_at.len(), blocks as usize);
        self.left_at.fill(NEVER);
        self.attempts.fill(0);
        (self.next, self.outstanding, self.sent, self.sent_last) = (0, 0, 0, false);
        (self.oldest, self.overtaken_to) = (0, 0);
        self.freed.clear();
        self.waiting.clear();
        self.overtaken.clear();
    }
}
