//! Retransmission of packets without acknowledgement (LIBRA §3.6), with the same settings for workers and server.

use pktgen_core::config::{Section, settings};
use pktgen_core::time::{HORIZON, Time};
use pktgen_core::units::Span;
use pktgen_core::{Error, Result};

/// Maximum number of retransmissions before a packet is given up.
pub(super) const RESENDS: u8 = 15;
/// Number of times that a timeout is doubled: the maximum is 16 times the initial one.
const DOUBLINGS: u8 = 4;
/// Maximum window.
const WINDOW_MAX: u32 = 1 << 16;

/// Timeout and window of retransmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reliable {
    /// Initial timeout of a packet.
    pub(super) timeout: Time,
    /// Maximum number of packets to or from the server in flight, counted from the oldest unacknowledged one.
    pub(super) window: u32,
}

settings! {
    /// What says it. The paper gives neither; both are our choice.
    pub(super) struct Written {
        /// Initial retransmission timeout of a packet without an acknowledgement; at most a day.
        timeout: Span = "10ms";
        /// Window to and from the server: packets in flight, counted from the oldest unacknowledged one.
        cold_window: u32 = 128 in 1..=WINDOW_MAX;
    }
}

impl Reliable {
    /// Reads `timeout` and `cold_window`. The paper specifies neither; both are our choice.
    pub(super) fn read(section: &mut Section) -> Result<Self> {
        let Written { timeout, cold_window: window } = Written::read(section)?;
        if !(1..=HORIZON >> DOUBLINGS).contains(&timeout.ps()) {
            return Err(Error::config(format!(
                "{}: {timeout}; a timeout must be above 0 and at most a day",
                section.place("timeout")
            )));
        }
        Ok(Reliable { timeout: timeout.ps(), window })
    }

    /// Returns the timeout after attempt number `attempt`.
    #[inline]
    pub(super) fn after(&self, attempt: u8) -> Time {
        self.timeout << attempt.min(DOUBLINGS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pktgen_core::config::Value;
    use pktgen_core::time::MS;

    #[test]
    fn timeouts_double_up_to_sixteen_times() {
        let reliable = Reliable::read(&mut Section::of("endpoint", &[])).unwrap();
        let waits: Vec<Time> = [0, 1, 2, 3, 4, 5, 15].map(|attempt| reliable.after(attempt) / MS).into();
        assert_eq!(waits, [10, 20, 40, 80, 160, 160, 160]);
    }

    #[test]
    fn impossible_values_name_their_key() {
        for (key, value) in [("timeout", Value::from("0ns")), ("timeout", "40d".into()), ("cold_window", 0i64.into())] {
            let error = Reliable::read(&mut Section::of("endpoint", &[(key, value)])).unwrap_err().to_string();
            assert!(error.contains(key), "{error}");
        }
    }
}
