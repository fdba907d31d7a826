//! The window of a worker towards one receiver (a `Lane` in the code), a switch or a server: sent and acknowledged packets.
//!
//! Packets have indices in the iteration, and numbers that continue over all iterations. No packet is sent `window` or
//! more after the oldest unacknowledged one, so the receiver needs few records to recognise repeated packets.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use pktgen_core::time::{NEVER, Time};

use super::packing::Shape;
use super::reliable::{RESENDS, Reliable};

/// A packet between the oldest unacknowledged one and the next one.
#[derive(Debug, Clone, Copy)]
struct Sent {
    done: bool,
    attempt: u8,
    /// Departure time, as far as known.
    left: Time,
}

/// The window towards one receiver.
#[derive(Debug, Default)]
pub(super) struct Lane {
    /// Number of the first packet of the iteration.
    base: u32,
    pub shape: Shape,
    /// Index of the oldest unacknowledged packet.
    floor: u32,
    sent: VecDeque<Sent>,
    /// Timeouts of transmissions (index, attempt).
    timers: BinaryHeap<Reverse<(Time, u32, u8)>>,
    given_up: u32,
}

impl Lane {
    /// Begins an iteration of this shape; all packets of the previous one must be acknowledged.
    pub fn begin(&mut self, shape: Shape) {
        self.base += self.shape.total();
        self.shape = shape;
        self.floor = 0;
        self.sent.clear();
        self.timers.clear();
    }

    /// Returns the number of an index.
    pub fn number(&self, place: u32) -> u32 {
        self.base + place
    }

    /// Returns the next index that may be sent for the first time, below `limit`.
    pub fn next(&self, limit: u32, window: u32) -> Option<u32> {
        let next = self.floor + self.sent.len() as u32;
        (next < limit && self.sent.len() < window as usize).then_some(next)
    }

    /// Whether everything before `place` is acknowledged.
    pub(crate) fn has_all_before(&self, place: u32) -> bool {
        self.floor >= place
    }

    /// Records that `place` is sent for the first time at `t`.
    pub fn send(&mut self, place: u32, t: Time, reliable: Reliable) {
        self.sent.push_back(Sent { done: false, attempt: 0, left: t });
        self.timers.push(Reverse((t + reliable.after(0), place, 0)));
    }

    /// Records that a transmission left at `t`.
    pub fn left(&mut self, number: u32, attempt: u8, t: Time) {
        if let Some(sent) = self.slot(number).filter(|sent| sent.attempt == attempt) {
            sent.left = t;
        }
    }

    fn slot(&mut self, number: u32) -> Option<&mut Sent> {
        let place = number.checked_sub(self.base)?.checked_sub(self.floor)?;
        self.sent.get_mut(place as usize)
    }

    /// Records an acknowledgement; returns false if it was acknowledged before or never sent.
    pub fn acknowledge(&mut self, number: u32) -> bool {
        let Some(sent) = self.slot(number).filter(|sent| !sent.done) else { return false };
        sent.done = true;
        while self.sent.pop_front_if(|sent| sent.done).is_some() {
            self.floor += 1;
        }
        true
    }

    /// Returns the next timeout; forgets those of acknowledged packets.
    pub fn wake(&mut self, reliable: Reliable) -> Time {
        while let Some(&Reverse((t, place, attempt))) = self.timers.peek() {
            let waits = self.sent.get(place.wrapping_sub(self.floor) as usize);
            match waits.filter(|sent| !sent.done && sent.attempt == attempt) {
                // It waited for its link: its timeout begins with its departure.
                Some(sent) if sent.left + reliable.after(attempt) > t => {
                    let later = sent.left + reliable.after(attempt);
                    self.timers.pop();
                    self.timers.push(Reverse((later, place, attempt)));
                }
                Some(_) => return t,
                None => {
                    self.timers.pop();
                }
            }
        }
        NEVER
    }

    /// Returns a transmission that has timed out at `t` and must be sent again: its index and the new attempt.
    pub fn expire(&mut self, t: Time, reliable: Reliable) -> Option<(u32, u8)> {
        while self.wake(reliable) <= t {
            let Some(Reverse((_, place, attempt))) = self.timers.pop() else { break };
            let Some(sent) = self.sent.get_mut((place - self.floor) as usize) else { continue };
            if attempt == RESENDS {
                self.given_up += 1;
                continue;
            }
            (sent.attempt, sent.left) = (attempt + 1, t);
            self.timers.push(Reverse((t + reliable.after(attempt + 1), place, attempt + 1)));
            return Some((place, attempt + 1));
        }
        None
    }

    /// Returns the number of packets that were given up after the maximum number of attempts.
    pub fn given_up(&self) -> u32 {
        self.given_up
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEN: Reliable = Reliable { timeout: 10, window: 4 };

    fn lane(pushes: u32) -> Lane {
        let mut lane = Lane::default();
        lane.begin(Shape { pulls: 0, pushes, ends: 1 });
        lane
    }

    #[test]
    fn the_window_begins_at_the_oldest_without_acknowledgement() {
        let mut lane = lane(9);
        for place in 0..4 {
            assert_eq!(lane.next(9, 4), Some(place));
            lane.send(place, 0, TEN);
        }
        assert_eq!(lane.next(9, 4), None);
        assert!(lane.acknowledge(1) && !lane.acknowledge(1) && !lane.acknowledge(7));
        assert_eq!(lane.next(9, 4), None, "0 is still under way");
        assert!(lane.acknowledge(0) && lane.has_all_before(2) && !lane.has_all_before(3));
        assert_eq!((lane.next(9, 4), lane.next(4, 4)), (Some(4), None));
    }

    #[test]
    fn numbers_go_on_over_iterations() {
        let mut lane = lane(2);
        (0..3).for_each(|place| lane.send(place, 0, TEN));
        (0..3).for_each(|number| assert!(lane.acknowledge(number)));
        lane.begin(Shape { pulls: 1, pushes: 1, ends: 0 });
        assert_eq!((lane.number(0), lane.next(2, 4)), (3, Some(0)));
        lane.send(0, 5, TEN);
        assert!(!lane.acknowledge(2), "of the iteration before");
        assert!(lane.acknowledge(3));
    }

    #[test]
    fn timeouts_double_from_when_it_left_and_end() {
        let mut lane = lane(1);
        lane.send(0, 0, TEN);
        lane.left(0, 0, 5);
        assert_eq!((lane.expire(14, TEN), lane.wake(TEN)), (None, 15));
        let mut times = Vec::new();
        while lane.wake(TEN) != NEVER {
            let t = lane.wake(TEN);
            times.push(t);
            let _ = lane.expire(t, TEN);
        }
        assert_eq!(&times[..5], [15, 35, 75, 155, 315]);
        assert_eq!((times.len(), times[15] - times[14], lane.given_up()), (16, 160, 1));
    }
}
