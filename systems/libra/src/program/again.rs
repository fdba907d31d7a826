//! Recirculation through the pipeline (LIBRA §4).
//!
//! Recirculated frames share one port, which carries one at a time at its rate. A frame gets the first gap at or after
//! its arrival at the port that is long enough: in the order of arrival if each frame is recirculated once. Further
//! recirculations of a frame are reserved together with its first one, and the port carries others between them.
//! "Recirculations can degrade the performance" (§3.4) in this way, too, and not only by the additional pass. The number
//! of waiting frames is not limited here; `recirculation_wait_max_ns` shows the maximum wait.

use std::collections::VecDeque;

use pktgen_core::time::{Serialiser, Time};
use pktgen_core::units::{Rate, Size};

/// Overhead of a frame on an Ethernet link in bytes: FCS, preamble, gap. The port is a looped port of the switch.
const BESIDE: u64 = 24;

/// The recirculation port and its counters.
#[derive(Debug, Default)]
pub(super) struct Again {
    /// `None`: unlimited.
    port: Option<Serialiser>,
    /// When it is busy: spans from a time to another, in chronological order, with gaps between them.
    busy: VecDeque<(Time, Time)>,
    /// Number of bytes that it carried.
    pub(super) bytes: u64,
    /// Maximum wait of a frame.
    pub(super) wait_max: Time,
}

impl Again {
    /// Creates a port with this rate; 0: unlimited.
    pub(super) fn new(rate: Rate) -> Self {
        let port = (rate.bps() > 0).then(|| Serialiser::new(rate, Size::from_bytes(BESIDE)));
        Again { port, ..Again::default() }
    }

    /// Returns when the last of `passes` passes begins, for a frame of `len` bytes whose first pass begins at `t` and takes `latency`.
    /// Times `t` never decrease from call to call.
    #[inline]
    pub(super) fn last_pass(&mut self, t: Time, passes: u32, len: u16, latency: Time) -> Time {
        let mut begins = t;
        if passes > 1 {
            while self.busy.pop_front_if(|(_, ends)| *ends <= t).is_some() {}
        }
        for _ in 1..passes {
            let ends = begins.saturating_add(latency);
            self.bytes += u64::from(len) + BESIDE;
            begins = match &mut self.port {
                Some(port) => {
                    let (from, to) = reserve(&mut self.busy, ends, port.take(len.into()));
                    self.wait_max = self.wait_max.max(from - ends);
                    to
                }
                None => ends,
            };
        }
        begins
    }
}

/// Reserves the first gap of `length` at or after `t`; returns its begin and end.
#[inline]
fn reserve(busy: &mut VecDeque<(Time, Time)>, t: Time, length: Time) -> (Time, Time) {
    let mut place = match busy.back() {
        Some((_, ends)) if *ends > t => busy.partition_point(|(_, ends)| *ends <= t),
        _ => busy.len(),
    };
    let mut from = t;
    while let Some(&(begins, ends)) = busy.get(place) {
        if from.saturating_add(length) <= begins {
            break;
        }
        from = ends;
        place += 1;
    }
    let to = from.saturating_add(length);
    let before = place.checked_sub(1).filter(|before| busy[*before].1 == from);
    let after = busy.get(place).map(|(begins, _)| *begins) == Some(to);
    match (before, after) {
        (Some(before), false) => busy[before].1 = to,
        (None, true) => busy[place].0 = from,
        (None, false) => busy.insert(place, (from, to)),
        (Some(before), true) => {
            busy[before].1 = busy[place].1;
            busy.remove(place);
        }
    }
    (from, to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_pass_is_at_once() {
        let mut port = Again::new(Rate::from_bps(1_000_000_000));
        assert_eq!((port.last_pass(7, 1, 1000, 400), port.bytes, port.wait_max), (7, 0, 0));
    }

    #[test]
    fn frames_wait_for_each_other_at_the_port_and_nowhere_else() {
        // 100 bytes take 800 ns at 1 Gbit/s.
        let mut port = Again::new(Rate::from_bps(1_000_000_000));
        assert_eq!(port.last_pass(0, 2, 76, 400_000), 1_200_000);
        assert_eq!(port.last_pass(100_000, 1, 76, 400_000), 100_000);
        assert_eq!(port.last_pass(100_000, 2, 76, 400_000), 2_000_000);
        assert_eq!((port.bytes, port.wait_max), (200, 700_000));
        // Idle again, and recirculated twice: the second time it need not wait.
        assert_eq!(port.last_pass(9_000_000, 3, 76, 400_000), 11_400_000);
        let mut free = Again::new(Rate::from_bps(0));
        assert_eq!((0..9).map(|_| free.last_pass(0, 3, 76, 400)).max(), Some(800));
    }

    #[test]
    fn a_frame_holds_the_port_only_while_it_is_there() {
        let mut port = Again::new(Rate::from_bps(1_000_000_000));
        // At the port from 4 to 4.8 µs and from 8.8 to 9.6 µs.
        assert_eq!(port.last_pass(0, 3, 76, 4_000_000), 9_600_000);
        assert_eq!(port.last_pass(500_000, 2, 76, 4_000_000), 5_600_000);
        assert_eq!((port.bytes, port.wait_max), (300, 300_000));
        // The gap is too short for a frame that arrives at 8.4 µs.
        assert_eq!(port.last_pass(4_400_000, 2, 76, 4_000_000), 10_400_000);
        assert_eq!(Vec::from(port.busy.clone()), [(4_000_000, 5_600_000), (8_800_000, 10_400_000)]);
    }

    /// Reserves the first gap of `length` at or after `t` by trying all times at which one may begin.
    fn naive(busy: &mut Vec<(Time, Time)>, t: Time, length: Time) -> (Time, Time) {
        let fits = |from: &Time| busy.iter().all(|(begins, ends)| *ends <= *from || from + length <= *begins);
        let later = busy.iter().map(|(_, ends)| *ends).filter(|ends| *ends > t);
        let from = later.chain([t]).filter(fits).min().unwrap();
        busy.push((from, from + length));
        (from, from + length)
    }

    proptest! {
        #[test]
        fn every_frame_gets_the_first_gap(frames in prop::collection::vec((0i64..3_000, 1u32..5, 1u16..200), 1..100)) {
            const LATENCY: Time = 2_000;
            // A bit per picosecond.
            let mut port = Again::new(Rate::from_bps(1_000_000_000_000));
            let mut busy: Vec<(Time, Time)> = Vec::new();
            let mut t: Time = 0;
            for (later, passes, len) in frames {
                t += later;
                let length = (Time::from(len) + BESIDE as Time) * 8;
                let expected = (1..passes).fold(t, |begins, _| naive(&mut busy, begins + LATENCY, length).1);
                prop_assert_eq!(port.last_pass(t, passes, len, LATENCY), expected);
                prop_assert!(port.busy.iter().zip(port.busy.iter().skip(1)).all(|(one, next)| one.1 < next.0));
            }
        }

        /// Of frames that are recirculated once at most, each waits for those before it.
        #[test]
        fn one_recirculation_is_in_the_order_of_arrival(
            frames in prop::collection::vec((0i64..3_000, 1u32..3, 1u16..200), 1..100),
        ) {
            let mut port = Again::new(Rate::from_bps(1_000_000_000_000));
            let (mut t, mut idle): (Time, Time) = (0, 0);
            for (later, passes, len) in frames {
                t += later;
                if passes == 2 {
                    idle = idle.max(t + 2_000) + (Time::from(len) + BESIDE as Time) * 8;
                }
                let expected = if passes == 2 { idle } else { t };
                prop_assert_eq!(port.last_pass(t, passes, len, 2_000), expected);
            }
        }
    }
}
