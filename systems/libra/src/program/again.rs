//! What goes through the pipeline again (LIBRA §4).
//!
//! Recirculated frames share one port: it carries one at a time at its rate, and the others wait, in the order in which
//! they came. "Recirculations can degrade the performance" (§3.4) that way, and not by the further pass alone. How much
//! may wait is not bounded here; `recirculation_wait_max_ns` says how long it was.

use pktgen_core::time::{Serialiser, Time};
use pktgen_core::units::{Rate, Size};

/// Bytes on an Ethernet link beside a frame: FCS, preamble, gap. The port is one of the switch, looped.
const BESIDE: u64 = 24;

/// The port, and what went through it.
#[derive(Debug, Default)]
pub(super) struct Again {
    /// None: no limit.
    port: Option<Serialiser>,
    /// When it is idle.
    idle: Time,
    /// Bytes that it carried.
    pub(super) bytes: u64,
    /// The longest that a frame waited.
    pub(super) wait_max: Time,
}

impl Again {
    /// A port of so many bits per second; 0: no limit.
    pub(super) fn new(rate: Rate) -> Self {
        let port = (rate.bps() > 0).then(|| Serialiser::new(rate, Size::from_bytes(BESIDE)));
        Again { port, ..Again::default() }
    }

    /// When the last of `passes` passes begins of a frame of `len` bytes whose first begins at `t`, if one takes `latency`.
    #[inline]
    pub(super) fn last_pass(&mut self, t: Time, passes: u32, len: u16, latency: Time) -> Time {
        let mut begins = t;
        for _ in 1..passes {
            let ends = begins.saturating_add(latency);
            self.bytes += u64::from(len) + BESIDE;
            begins = match &mut self.port {
                Some(port) => {
                    self.wait_max = self.wait_max.max(self.idle - ends);
                    self.idle = ends.max(self.idle).saturating_add(port.take(len.into()));
                    self.idle
                }
                None => ends,
            };
        }
        begins
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        // Idle again, and twice around: the second time it need not wait.
        assert_eq!(port.last_pass(9_000_000, 3, 76, 400_000), 11_400_000);
        let mut free = Again::new(Rate::from_bps(0));
        assert_eq!((0..9).map(|_| free.last_pass(0, 3, 76, 400)).max(), Some(800));
    }
}
