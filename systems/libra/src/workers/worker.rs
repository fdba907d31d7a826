//! One worker of sparse training: its progress in the iteration, and the results that it has.

use crate::format::{ATTEMPT_MAX, FRESH_SHIFT, Header, ResultHead};
use pktgen_core::record::{Iteration, PacketId};
use pktgen_core::time::{NEVER, Time};

use super::destinations::{Destination, Destinations};
use super::lane::Lane;
use super::packing::{Heat, Item, Packed, Packing, Shape};
use super::settings::Settings;

/// The phase of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It requests the parameters that it will update.
    Pulling,
    Computing,
    /// It sends gradients, and then waits for results.
    Pushing,
    /// It reports to the switch that it has all results, if another switch may need this information.
    Leaving,
    Done,
}

/// A transmission that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Due {
    pub to: Destination,
    pub item: Item,
    /// Number among the packets to this destination, over all iterations.
    pub number: u32,
    pub attempt: u8,
}

/// What the arrival of a result means to a worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ResultArrival {
    /// Whether it is the last missing one of the switch's in this iteration.
    pub completes: bool,
    /// Whether this transmission of it had arrived: a further attempt is no copy.
    pub again: bool,
    /// Whether it is a further attempt, and the first transmission of the result that arrived.
    pub late: bool,
    /// Whether it is a further attempt of a result that had arrived.
    pub further: bool,
}

/// The results of an iteration from one switch.
#[derive(Debug, Default)]
struct Results {
    /// Number of the first one, known after the first arrival.
    base: u32,
    /// Their number, known after the first arrival.
    total: Option<u32>,
    /// By part: the attempts that arrived, one bit each. They stay until the first arrival of the next iteration.
    got: Vec<u16>,
    count: u32,
    /// Whether no worker added anything, as far as the switch knows.
    empty: bool,
}

impl Results {
    fn are_all(&self) -> bool {
        self.total == Some(self.count)
    }

    /// Adds a transmission of a result of this iteration. One without an opener and without pairs says that there is no sum.
    fn add(&mut self, number: u32, attempt: u8, head: &ResultHead, has_pairs: bool) -> ResultArrival {
        let (part, total) = (u32::from(head.part), u32::from(head.parts));
        let first = number.wrapping_sub(part);
        // A switch that restarted: the incomplete results of the previous one will not be completed.
        let anew = !self.are_all() && first >> FRESH_SHIFT > self.base >> FRESH_SHIFT;
        if self.total.is_none() || anew {
            let got = vec![0; total as usize];
            let empty = head.opener.is_none() && !has_pairs;
            *self = Results { base: first, total: Some(total), got, count: 0, empty };
        }
        if first != self.base || self.total != Some(total) {
            return ResultArrival::default();
        }
        let again = self.has(number, attempt);
        let got = &mut self.got[part as usize];
        let is_first = *got == 0;
        *got |= 1 << attempt;
        self.count += u32::from(is_first);
        let is_resent = attempt > 0 && !again;
        ResultArrival {
            completes: is_first && self.are_all(),
            again,
            late: is_resent && is_first,
            further: is_resent && !is_first,
        }
    }

    /// Returns what a transmission is after the iteration of its result.
    fn after(&self, number: u32, attempt: u8) -> ResultArrival {
        let again = self.has(number, attempt);
        let had = self.got.get(number.wrapping_sub(self.base) as usize).is_some_and(|got| *got != 0);
        ResultArrival { again, further: attempt > 0 && !again && had, ..ResultArrival::default() }
    }

    /// Whether this transmission of a result has arrived, as far as it is of the last iteration with results. Transmissions that share
    /// the last number are not known to be copies.
    fn has(&self, number: u32, attempt: u8) -> bool {
        let got = self.got.get(number.wrapping_sub(self.base) as usize);
        attempt < ATTEMPT_MAX && got.is_some_and(|got| got & (1u16 << attempt) != 0)
    }

    fn begin(&mut self) {
        self.total = None;
    }
}

/// A worker.
pub(super) struct Worker {
    pub id: u32,
    pub job: u16,
    iteration: u32,
    phase: Phase,
    t_start: Time,
    pub t_ready: Time,
    pub packed: Packed,
    destinations: Destinations,
    /// By the index of their destination.
    lanes: Vec<Lane>,
    /// The destination that is tried first, among switches and among servers.
    turns: [u32; 2],
    /// By switch.
    results: Vec<Results>,
    /// By server: which pushes it has answered.
    answered: Vec<Vec<bool>>,
    /// Number of pushes without an answer.
    unanswered: u32,
    /// When an end is sent again although it was acknowledged, and how often it was.
    nudge: (Time, u8),
}

impl Worker {
    pub fn new(id: u32, packing: &mut Packing) -> Self {
        let destinations = Destinations::of(&packing.rules.shards);
        let count = |heat| destinations.count(heat) as usize;
        let mut worker = Worker {
            id,
            job: packing.rules.sparse.job_of(id),
            iteration: 0,
            phase: Phase::Computing,
            t_start: 0,
            t_ready: 0,
            packed: Packed::default(),
            destinations,
            lanes: destinations.all().map(|_| Lane::default()).collect(),
            // Workers begin with different ones.
            turns: [Heat::Hot, Heat::Cold].map(|heat| id % destinations.count(heat)),
            results: (0..count(Heat::Hot)).map(|_| Results::default()).collect(),
            answered: vec![Vec::new(); count(Heat::Cold)],
            unanswered: 0,
            nudge: (NEVER, 0),
        };
        worker.begin(0, packing);
        worker
    }

    /// Begins its current iteration.
    fn begin(&mut self, t: Time, packing: &mut Packing) {
        packing.pack(self.id, self.iteration, &mut self.packed);
        for (lane, part) in self.lanes.iter_mut().zip(&self.packed.parts) {
            lane.begin(part.shape);
        }
        self.unanswered = 0;
        for (answered, part) in self.answered.iter_mut().zip(&self.packed.parts[self.results.len()..]) {
            answered.clear();
            answered.resize(part.shape.pushes as usize, false);
            self.unanswered += part.shape.pushes;
        }
        self.t_start = t;
        self.phase = Phase::Pulling;
        self.pulled(t, packing);
    }

    /// Proceeds to computing if nothing remains to be pulled.
    fn pulled(&mut self, t: Time, packing: &Packing) {
        if self.phase == Phase::Pulling && self.lanes.iter().all(|lane| lane.has_all_before(lane.shape.pulls)) {
            self.phase = Phase::Computing;
            self.t_ready = t.saturating_add(packing.rules.sparse.compute_of(self.id, self.iteration));
        }
    }

    /// Returns the limit of indices that may be sent: an end follows when all pushes are acknowledged.
    fn limit(&self, place: usize) -> u32 {
        let lane = &self.lanes[place];
        let pushes = lane.shape.pulls + lane.shape.pushes;
        match self.phase {
            Phase::Pulling => lane.shape.pulls,
            Phase::Computing | Phase::Done => 0,
            Phase::Leaving => lane.shape.ends,
            Phase::Pushing if lane.has_all_before(pushes) => pushes + lane.shape.ends,
            Phase::Pushing => pushes,
        }
    }

    /// Returns the time of its next action.
    pub fn wake(&mut self, settings: &Settings) -> Time {
        match self.phase {
            Phase::Computing => return self.t_ready,
            Phase::Done => return NEVER,
            Phase::Pulling | Phase::Pushing | Phase::Leaving => {}
        }
        let mut wake = if settings.failover { self.nudge.0 } else { NEVER };
        for to in self.destinations.all() {
            let place = self.destinations.place(to);
            let limit = self.limit(place);
            let lane = &mut self.lanes[place];
            if lane.next(limit, settings.window(to.heat)).is_some() {
                return 0;
            }
            wake = wake.min(lane.wake(settings.reliable));
        }
        wake
    }

    /// Returns the next transmission that is due at `t`.
    pub fn due(&mut self, t: Time, settings: &Settings) -> Option<Due> {
        if self.phase == Phase::Computing && self.t_ready <= t {
            self.phase = Phase::Pushing;
        }
        if let Some(due) = [Heat::Hot, Heat::Cold].into_iter().find_map(|heat| self.due_to(heat, t, settings)) {
            return Some(due);
        }
        // With standby switches there is one rack.
        if self.phase == Phase::Leaving && self.lanes[0].given_up() > 0 {
            // It has everything that it needs.
            self.phase = Phase::Done;
        }
        if !settings.failover || t < self.nudge.0 {
            return None;
        }
        if self.nudge.1 >= ATTEMPT_MAX {
            self.nudge.0 = NEVER;
            return None;
        }
        // The switch that acknowledged the end may be gone with it.
        let lane = &self.lanes[0];
        let attempt = self.nudge.1 + 1;
        self.nudge = (t.saturating_add(settings.reliable.after(attempt)), attempt);
        let to = Destination { heat: Heat::Hot, number: 0 };
        Some(Due { to, item: Item::End, number: lane.number(lane.shape.total() - 1), attempt })
    }

    /// Returns the next transmission to switches, or to servers, which take turns.
    fn due_to(&mut self, heat: Heat, t: Time, settings: &Settings) -> Option<Due> {
        let count = self.destinations.count(heat);
        let first = self.turns[heat as usize];
        for number in (first..count).chain(0..first) {
            let to = Destination { heat, number };
            let at = self.destinations.place(to);
            let limit = self.limit(at);
            let lane = &mut self.lanes[at];
            let (place, attempt) = match lane.expire(t, settings.reliable) {
                Some(again) => again,
                None => match lane.next(limit, settings.window(heat)) {
                    Some(place) => {
                        lane.send(place, t, settings.reliable);
                        (place, 0)
                    }
                    None => continue,
                },
            };
            self.turns[heat as usize] = (number + 1) % count;
            let item = lane.shape.item(place)?;
            return Some(Due { to, item, number: lane.number(place), attempt });
        }
        None
    }

    /// Starts the wait for results after the hot end is acknowledged; after a while the end is sent again.
    pub fn waits(&mut self, t: Time, settings: &Settings) {
        let lane = &self.lanes[0];
        let waits = self.phase == Phase::Pushing
            && lane.shape.ends > 0
            && lane.has_all_before(lane.shape.total())
            && !self.results[0].are_all();
        match (waits, self.nudge.0) {
            (true, NEVER) if self.nudge.1 < ATTEMPT_MAX => {
                self.nudge = (t.saturating_add(settings.reliable.after(0)), 0);
            }
            (true, _) => {}
            (false, _) => self.nudge = (NEVER, 0),
        }
    }

    /// Whether it has sent its end as often as it may, and still waits for results.
    pub(super) fn has_nudged_in_vain(&self) -> bool {
        self.nudge == (NEVER, ATTEMPT_MAX)
    }

    /// Lets such a worker send its end as often again.
    pub(super) fn nudge_again(&mut self, t: Time, settings: &Settings) {
        self.nudge = (NEVER, 0);
        self.waits(t, settings);
    }

    /// Records that a transmission left.
    pub fn left(&mut self, packet: PacketId, t: Time) {
        if let Some((to, number)) = self.destinations.find(packet.seq()) {
            self.lanes[self.destinations.place(to)].left(number, packet.attempt(), t);
        }
    }

    /// Records that a packet was acknowledged, or a pull answered; returns false if it was before.
    pub fn acknowledged(&mut self, seq: u32, t: Time, packing: &Packing) -> bool {
        let Some((to, number)) = self.destinations.find(seq) else { return false };
        let first = self.lanes[self.destinations.place(to)].acknowledge(number);
        if first {
            self.pulled(t, packing);
            let left = self.lanes.iter().all(|lane| lane.has_all_before(lane.shape.total()));
            if self.phase == Phase::Leaving && left {
                self.phase = Phase::Done;
            }
        }
        first
    }

    /// Adds a result of a switch. Those of other iterations, which a switch sends until they are acknowledged or which arrive late from a
    /// replaced one, are ignored, but may be copies.
    pub(crate) fn hot_result(&mut self, header: &Header, head: &ResultHead, has_pairs: bool) -> ResultArrival {
        let Some((Destination { heat: Heat::Hot, number: rack }, number)) = self.destinations.find(header.seq) else {
            return ResultArrival::default();
        };
        let results = &mut self.results[rack as usize];
        if head.iteration == self.iteration && self.phase == Phase::Pushing {
            return results.add(number, header.attempt, head, has_pairs);
        }
        results.after(number, header.attempt)
    }

    /// Adds the server's answer to a push or a pull.
    pub(crate) fn cold_result(&mut self, seq: u32, t: Time, packing: &Packing) -> bool {
        let Some((to, number)) = self.destinations.find(seq) else { return false };
        let lane = &self.lanes[self.destinations.place(to)];
        let place = number.wrapping_sub(lane.number(0));
        if place < lane.shape.pulls {
            self.acknowledged(seq, t, packing);
            return false;
        }
        let answered = &mut self.answered[to.number as usize];
        if let Some(answered) = answered.get_mut((place - lane.shape.pulls) as usize) {
            self.unanswered -= u32::from(!std::mem::replace(answered, true));
        }
        // An answer to a push is acknowledged each time it arrives.
        true
    }

    /// Ends the iteration at `t` if nothing is missing, and begins the next one.
    pub fn end_if_all(&mut self, t: Time, packing: &mut Packing, failover: bool) -> Option<Iteration> {
        let all_sent = self.lanes.iter().all(|lane| lane.has_all_before(lane.shape.total()));
        if self.phase != Phase::Pushing || !all_sent {
            return None;
        }
        let rules = &packing.rules;
        let last = self.iteration + 1 == rules.sparse.iterations();
        // Asynchronous workers receive the switches' sums after all training.
        let hot = !rules.hot || self.results.iter().all(Results::are_all) || (rules.pulls && !last);
        let cold = rules.pulls || self.unanswered == 0;
        if !(hot && cold) {
            return None;
        }
        let sent = self.lanes.iter().map(|lane| lane.shape.pushes).sum();
        // Its pushes were added by a switch that is gone, with the sums.
        let misses = |(lane, results): (&Lane, &Results)| lane.shape.pushes > 0 && results.are_all() && results.empty;
        let missed = self.lanes.iter().zip(&self.results).any(misses);
        let row = Iteration {
            t_start: self.t_start,
            t_ready: self.t_ready,
            t_end: t,
            delay: 0,
            worker: self.id,
            job: self.job,
            iteration: self.iteration,
            sent,
            skipped: 0,
            degraded: 0,
            // No iteration ends without all workers: every push is in the sums unless these are lost.
            sources: if missed { 0 } else { u64::from(sent) * u64::from(rules.sparse.workers_per_job()) },
            elements: self.packed.pairs(),
            missed,
        };
        self.results.iter_mut().for_each(Results::begin);
        self.iteration += 1;
        if last && failover {
            self.phase = Phase::Leaving;
            self.lanes.iter_mut().for_each(|lane| lane.begin(Shape::default()));
            self.lanes[0].shape.ends = 1;
        } else if last {
            self.phase = Phase::Done;
        } else {
            self.begin(t, packing);
        }
        Some(row)
    }

    pub fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    pub fn iteration(&self) -> u32 {
        self.iteration
    }

    /// Returns the number of packets that were given up.
    pub fn given_up(&self) -> u32 {
        self.lanes.iter().map(Lane::given_up).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A result that was not acknowledged in time comes in a further attempt, which may be copied, too.
    #[test]
    fn a_transmission_that_comes_again_is_a_copy_also_after_its_iteration() {
        let mut results = Results::default();
        let heads = [0, 1].map(|part| ResultHead { part, parts: 2, iteration: 0, opener: None });
        assert!(!results.has(0, 0), "nothing came");
        // With part and attempt: completes, again, late, further.
        for (part, attempt, meanings) in [
            (1, 0, [false; 4]),
            (1, 0, [false, true, false, false]),
            (1, 1, [false, false, false, true]),
            (1, 1, [false, true, false, false]),
            (0, 2, [true, false, true, false]),
            (0, 0, [false; 4]),
            (0, 2, [false, true, false, false]),
            (0, 15, [false, false, false, true]),
            (0, 15, [false, false, false, true]),
        ] {
            let ResultArrival { completes, again, late, further } =
                results.add(part, attempt, &heads[part as usize], true);
            assert_eq!([completes, again, late, further], meanings, "part {part}, attempt {attempt}");
        }
        results.begin();
        let known = [(0, 0), (1, 1), (1, 2), (2, 0)].map(|(number, attempt)| results.has(number, attempt));
        assert_eq!(known, [true, true, false, false]);
        let further = [(0, 0), (0, 1), (0, 2), (2, 1)].map(|(number, attempt)| results.after(number, attempt).further);
        assert_eq!(further, [false, true, false, false]);
        // Of the next iteration, the first result is number 2.
        assert!(!results.add(2, 0, &heads[0], true).again);
        assert_eq!([0, 1, 2, 3].map(|number| results.has(number, 0)), [false, false, true, false]);
    }
}
