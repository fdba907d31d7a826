//! Recirculation through the pipeline (LIBRA §4).
//!
//! Recirculated frames share one port, which carries one at a time at its rate; the others wait in the order of
//! arrival. "Recirculations can degrade the performance" (§3.4) in this way, too, and not only by the additional pass.
//! The number of waiting frames is not limited here; `recirculation_wait_max_ns` shows the maximum wait.

use pktgen_core::time::{Serialiser, Time};
use pktgen_core::units::{Rate, Size};

/// Overhead of a frame on an Ethernet link in bytes: FCS, preamble, gap. The port is a looped port of the switch.
const BESIDE: u64 = 24;

/// The recirculation port and its counters.
#[derive(Debug, Default)]
pub(super) struct Again {
    /// `None`: unlimited.
    port: Option<Serialiser>,
    /// When it becomes idle.
    idle: Time,
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
        // Idle again, and recirculated twice: the second time it need not wait.
        assert_eq!(port.last_pass(9_000_000, 3, 76, 400_000), 11_400_000);
        let mut free = Again::new(Rate::from_bps(0));
        assert_eq!((0..9).map(|_| free.last_pass(0, 3, 76, 400)).max(), Some(800));
    }
}
