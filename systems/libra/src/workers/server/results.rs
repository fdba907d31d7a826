//! Results on their way to workers: what may be sent, what waits for acknowledgements, what is sent again.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use pktgen_core::time::{NEVER, Time};

use super::super::reliable::{RESENDS, Reliable};

/// The pairs of an iteration that were pushed, with their sums, while results of them are not acknowledged.
#[derive(Debug, Default)]
struct Batch {
    pairs: Vec<u8>,
    /// Results that are not done with.
    left: usize,
}

/// A result: the number of the push that it answers, and where its pairs are.
#[derive(Debug, Clone, Copy)]
struct Answer {
    number: u32,
    batch: u32,
    from: u32,
    len: u32,
}

/// A result that was sent, or is about to be.
#[derive(Debug, Clone, Copy)]
struct UnderWay {
    answer: Answer,
    attempt: u8,
    /// It waits for the server's time: no timer runs.
    queued: bool,
}

/// The results of one worker. Nothing is sent a window or more after the oldest that is not acknowledged, so that the
/// worker knows which it has. Pushes obeyed the same window, so no result waits for one that comes after it.
#[derive(Debug, Default)]
struct Lane {
    /// By number modulo the window; made when the first is due.
    ring: Vec<Option<UnderWay>>,
    count: u32,
    oldest: u32,
    /// One more than the highest that is under way.
    next: u32,
    blocked: VecDeque<Answer>,
}

impl Lane {
    fn fits(&self, number: u32, window: u32) -> bool {
        self.count == 0
            || (number < self.oldest.saturating_add(window)
                && self.next <= number.saturating_add(window)
                && self.ring[(number % window) as usize].is_none())
    }

    fn start(&mut self, answer: Answer, window: u32) {
        if self.ring.is_empty() {
            self.ring.resize(window as usize, None);
        }
        let number = answer.number;
        (self.oldest, self.next) = match self.count {
            0 => (number, number + 1),
            _ => (self.oldest.min(number), self.next.max(number + 1)),
        };
        self.count += 1;
        self.ring[(number % window) as usize] = Some(UnderWay { answer, attempt: 0, queued: true });
    }

    fn get(&mut self, number: u32, window: u32) -> Option<&mut UnderWay> {
        let slot = self.ring.get_mut((number % window) as usize)?;
        slot.as_mut().filter(|under_way| under_way.answer.number == number)
    }

    fn end(&mut self, number: u32, window: u32) -> Option<Answer> {
        let answer = self.get(number, window)?.answer;
        self.ring[(number % window) as usize] = None;
        self.count -= 1;
        while self.oldest < self.next && self.ring[(self.oldest % window) as usize].is_none() {
            self.oldest += 1;
        }
        Some(answer)
    }
}

/// A result that is to be served: worker, number, pairs' bytes.
pub(super) type Ready = (u32, u32, usize);

/// When which attempt of which result has waited long enough.
type Timer = Reverse<(Time, u32, u32, u8)>;

/// The results of all workers.
#[derive(Debug)]
pub(super) struct Results {
    reliable: Reliable,
    lanes: Vec<Lane>,
    batches: Vec<Batch>,
    free: Vec<u32>,
    timers: BinaryHeap<Timer>,
    /// Results that were never acknowledged, and the worker of the first.
    pub(super) given_up: Option<(u64, u32)>,
}

impl Results {
    pub(super) fn new(reliable: Reliable, workers: usize) -> Self {
        let lanes = (0..workers).map(|_| Lane::default()).collect();
        Results { reliable, lanes, batches: Vec::new(), free: Vec::new(), timers: BinaryHeap::new(), given_up: None }
    }

    /// The results of an iteration: for each push in the order of arrival its worker, number and bytes of `pairs`. What
    /// may be sent now goes to `ready`. Returns room of an earlier iteration.
    pub(super) fn add(&mut self, pairs: Vec<u8>, pushes: &[(u32, u32, u32)], ready: &mut Vec<Ready>) -> Vec<u8> {
        if pushes.is_empty() {
            return pairs;
        }
        let batch = self.free.pop().unwrap_or_else(|| {
            self.batches.push(Batch::default());
            self.batches.len() as u32 - 1
        });
        let place = &mut self.batches[batch as usize];
        let spare = std::mem::replace(&mut place.pairs, pairs);
        place.left = pushes.len();
        let mut from = 0;
        for &(worker, number, len) in pushes {
            self.lanes[worker as usize].blocked.push_back(Answer { number, batch, from, len });
            from += len;
            self.unblock(worker, ready);
        }
        spare
    }

    /// What of a worker's results may be sent.
    fn unblock(&mut self, worker: u32, ready: &mut Vec<Ready>) {
        let (lane, window) = (&mut self.lanes[worker as usize], self.reliable.window);
        while let Some(&answer) = lane.blocked.front().filter(|answer| lane.fits(answer.number, window)) {
            lane.blocked.pop_front();
            lane.start(answer, window);
            ready.push((worker, answer.number, answer.len as usize));
        }
    }

    /// Attempt and pairs of a result that was served and leaves at `t`; none if it was acknowledged in the meantime.
    pub(super) fn leave(&mut self, worker: u32, number: u32, t: Time) -> Option<(u8, &[u8])> {
        let under_way = self.lanes[worker as usize].get(number, self.reliable.window)?;
        under_way.queued = false;
        let UnderWay { answer, attempt, .. } = *under_way;
        self.timers.push(Reverse((t + self.reliable.after(attempt), worker, number, attempt)));
        let from = answer.from as usize;
        let pairs = self.batches[answer.batch as usize].pairs.get(from..from + answer.len as usize)?;
        Some((attempt, pairs))
    }

    /// A worker acknowledged a result. What may be sent now goes to `ready`. False if it was not waited for.
    pub(super) fn acknowledged(&mut self, worker: u32, number: u32, ready: &mut Vec<Ready>) -> bool {
        let Some(answer) = self.lanes[worker as usize].end(number, self.reliable.window) else { return false };
        let batch = &mut self.batches[answer.batch as usize];
        batch.left -= 1;
        if batch.left == 0 {
            batch.pairs.clear();
            self.free.push(answer.batch);
        }
        self.unblock(worker, ready);
        self.drop_settled_timers();
        true
    }

    /// When the next timer runs out.
    #[inline]
    pub(super) fn next_timer(&self) -> Time {
        self.timers.peek().map_or(NEVER, |timer| timer.0.0)
    }

    /// The next timer has run out. Its result goes to `ready` once more; nothing comes of the last attempt.
    pub(super) fn time_out(&mut self, ready: &mut Vec<Ready>) {
        let Some(Reverse((_, worker, number, attempt))) = self.timers.pop() else { return };
        if attempt < RESENDS {
            if let Some(under_way) = self.lanes[worker as usize].get(number, self.reliable.window) {
                (under_way.attempt, under_way.queued) = (attempt + 1, true);
                ready.push((worker, number, under_way.answer.len as usize));
            }
        } else if self.acknowledged(worker, number, ready) {
            self.given_up.get_or_insert((0, worker)).0 += 1;
        }
        self.drop_settled_timers();
    }

    /// Forgets timers of results that are acknowledged, as far as they are next: they would wake us for nothing, and keep
    /// a run alive that has ended.
    fn drop_settled_timers(&mut self) {
        while let Some(&Reverse((_, worker, number, attempt))) = self.timers.peek() {
            let under_way = self.lanes[worker as usize].get(number, self.reliable.window);
            if under_way.is_some_and(|under_way| under_way.attempt == attempt && !under_way.queued) {
                return;
            }
            self.timers.pop();
        }
    }
}
