//! When a result is sent again, as workers send packets again (LIBRA §3.6).

use pktgen_generator::Result;
use pktgen_generator::config::Section;
use pktgen_generator::time::Time;
use pktgen_generator::wire::libra::ATTEMPT_MAX;

use super::super::settings::{read_cold_window, read_timeout};

/// How often a packet is sent again before its sender gives up.
pub(super) const RESENDS: u8 = ATTEMPT_MAX;
/// A timeout is doubled so often: 16 times the first is the longest.
const DOUBLINGS: u8 = 4;

/// How long is waited for an acknowledgement, and how many packets may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reliable {
    /// Before a packet is sent again for the first time.
    pub(super) timeout: Time,
    /// Packets from the oldest one without acknowledgement on that may be under way.
    pub(super) window: u32,
}

impl Reliable {
    /// Reads `timeout` and `cold_window`, which are the workers' too.
    pub(super) fn read(section: &mut Section) -> Result<Self> {
        Ok(Reliable { timeout: read_timeout(section)?, window: read_cold_window(section)? })
    }

    /// How long is waited after attempt number `attempt`.
    #[inline]
    pub(super) fn after(&self, attempt: u8) -> Time {
        self.timeout << attempt.min(DOUBLINGS)
    }
}
