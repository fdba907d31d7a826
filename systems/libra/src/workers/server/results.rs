//! Results to workers: which may be sent, which wait for acknowledgements, and which are sent again.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use pktgen_core::time::{NEVER, Time};

use super::super::reliable::{RESENDS, Reliable};

/// The pushed pairs of an iteration with their sums, stored while results are unacknowledged.
#[derive(Debug, Default)]
struct Batch {
    pairs: Vec<u8>,
    /// Number of unfinished results.
    left: usize,
}

/// A result: the number of the push that it answers, and the position of its pairs.
#[derive(Debug, Clone, Copy)]
struct Answer {
    number: u32,
    batch: u32,
    from: u32,
    len: u32,
}

/// A result that was sent or is about to be.
#[derive(Debug, Clone, Copy)]
struct UnderWay {
    answer: Answer,
    attempt: u8,
    /// Whether it waits for the server's processing: no timer runs.
    queued: bool,
}

/// The results of one worker. Nothing is sent a window or more after the oldest unacknowledged one, so the worker can
/// recognise repeated results. Pushes observed the same window, so no result waits for a later one.
#[derive(Debug, Default)]
struct Lane {
    /// By number modulo the window; created when the first is due.
    ring: Vec<Option<UnderWay>>,
    count: u32,
    oldest: u32,
    /// One more than the highest number in flight.
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

/// A result to be processed: worker, number, length of the pairs.
pub(super) type Ready = (u32, u32, usize);

/// Timeout of an attempt of a result.
type Timer = Reverse<(Time, u32, u32, u8)>;

/// The results of all workers.
#[derive(Debug)]
pub(super) struct Results {
    reliable: Reliable,
    lanes: Vec<Lane>,
    batches: Vec<Batch>,
    free: Vec<u32>,
    timers: BinaryHeap<Timer>,
    /// Number of results that were never acknowledged, and the worker of the first.
    pub(super) given_up: Option<(u64, u32)>,
}

impl Results {
    pub(super) fn new(reliable: Reliable, workers: usize) -> Self {
        let lanes = (0..workers).map(|_| Lane::default()).collect();
        Results { reliable, lanes, batches: Vec::new(), free: Vec::new(), timers: BinaryHeap::new(), given_up: None }
    }

    /// Adds the results of an iteration: worker, number and length in `pairs` of each push in the order of arrival.
    /// Those that may be sent now go to `ready`. Returns memory of an earlier iteration for reuse.
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

    /// Moves the results of a worker that may be sent to `ready`.
    fn unblock(&mut self, worker: u32, ready: &mut Vec<Ready>) {
        let (lane, window) = (&mut self.lanes[worker as usize], self.reliable.window);
        while let Some(&answer) = lane.blocked.front().filter(|answer| lane.fits(answer.number, window)) {
            lane.blocked.pop_front();
            lane.start(answer, window);
            ready.push((worker, answer.number, answer.len as usize));
        }
    }

    /// Returns attempt and pairs of a processed result that leaves at `t`; `None` if it was acknowledged in the meantime.
    pub(super) fn leave(&mut self, worker: u32, number: u32, t: Time) -> Option<(u8, &[u8])> {
        let under_way = self.lanes[worker as usize].get(number, self.reliable.window)?;
        under_way.queued = false;
        let UnderWay { answer, attempt, .. } = *under_way;
        self.timers.push(Reverse((t + self.reliable.after(attempt), worker, number, attempt)));
        let from = answer.from as usize;
        let pairs = self.batches[answer.batch as usize].pairs.get(from..from + answer.len as usize)?;
        Some((attempt, pairs))
    }

    /// Records a worker's acknowledgement of a result. Results that may be sent now go to `ready`. Returns false if it was not expected.
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

    /// Returns the next timeout.
    #[inline]
    pub(super) fn next_timer(&self) -> Time {
        self.timers.peek().map_or(NEVER, |timer| timer.0.0)
    }

    /// Handles the next timeout. Its result goes to `ready` again, except after the last attempt.
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

    /// Removes the next timers of acknowledged results, which would cause useless wake-ups and keep a finished run alive.
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
