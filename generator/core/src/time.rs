//! Time in picoseconds, and the serialisation of frames on a link.
//!
//! Everything that has a time takes it as an argument. `i64` picoseconds reach 106 days.

use crate::units::{Rate, Size};

/// A point in time or a span, in picoseconds from the run's anchor.
pub type Time = i64;

/// One nanosecond.
pub const NS: Time = 1_000;
/// One microsecond.
pub const US: Time = 1_000_000;
/// One millisecond.
pub const MS: Time = 1_000_000_000;
/// One second.
pub const SECOND: Time = 1_000_000_000_000;
/// The latest time that a run may reach: 26 days. Later events are refused or make the run
/// invalid, so that no sum of two times wraps.
pub const HORIZON: Time = Time::MAX / 4;
/// Later than every event.
pub const NEVER: Time = Time::MAX;

/// Returns the message for an event `what` at `ps` picoseconds, which is later than [`HORIZON`]; `keys` names the keys
/// to change. A float, because the time may not fit a [`Time`].
pub fn too_late(what: &str, ps: f64, keys: &str) -> String {
    let days = ps / (86_400.0 * SECOND as f64);
    let days = if days < 1e6 { format!("{days:.2}") } else { format!("{days:.1e}") };
    format!("{what} would be at {days} days; a run lasts at most 26 days; {keys}")
}

/// Converts frames to time on a link; carries the remaining fraction of a picosecond over, so
/// that no rounding accumulates: after n frames the clock is exactly `floor(bits / rate)`.
#[derive(Debug, Clone)]
pub struct Serialiser {
    rate_bps: u64,
    overhead_bits: u64,
    /// Remainder of the last frame, in units of 1/rate picoseconds.
    remainder: u64,
    /// Length in bits, duration and remainder of the last frame: most links carry frames of one size.
    memo: (u64, u64, u64),
}

impl Serialiser {
    /// A link of `rate` where each frame carries `overhead` besides its own bytes (0 for the papers'
    /// figures, 24 bytes for Ethernet with FCS, preamble and gap).
    pub fn new(rate: Rate, overhead: Size) -> Self {
        Serialiser { rate_bps: rate.bps(), overhead_bits: overhead.bits(), remainder: 0, memo: (0, 0, 0) }
    }

    /// Returns how long a frame of `bytes` occupies the link. Call once per frame, in order.
    #[inline]
    pub fn take(&mut self, bytes: u32) -> Time {
        let bits = u64::from(bytes) * 8 + self.overhead_bits;
        if self.memo.0 != bits {
            let ps = u128::from(bits) * SECOND as u128;
            let rate = u128::from(self.rate_bps);
            self.memo = (bits, (ps / rate) as u64, (ps % rate) as u64);
        }
        let (_, whole, rest) = self.memo;
        self.remainder += rest;
        let carry = self.remainder >= self.rate_bps;
        if carry {
            self.remainder -= self.rate_bps;
        }
        (whole + u64::from(carry)) as Time
    }

    /// Returns by how much longer the link is busy than its whole picoseconds, in units of 1/rate picoseconds.
    #[inline]
    pub fn remainder(&self) -> u64 {
        self.remainder
    }

    /// Returns the number of frames of `bytes` that occupy the link for another `wait`, parts of a frame rounded up. `before` is the
    /// remainder when the link was last idle: frames may last fractions of a picosecond.
    #[inline]
    pub fn frames_in(&self, wait: Time, bytes: u32, before: u64) -> u64 {
        let occupied = wait as u128 * u128::from(self.rate_bps) + u128::from(self.remainder);
        let frame = (u128::from(bytes) * 8 + u128::from(self.overhead_bits)) * SECOND as u128;
        occupied.saturating_sub(u128::from(before)).div_ceil(frame.max(1)) as u64
    }

    /// Returns the rate of the link.
    pub fn rate(&self) -> Rate {
        Rate::from_bps(self.rate_bps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remainder_is_carried_and_nothing_drifts() {
        let rate = Rate::from_bps(7_000_000_013);
        let mut link = Serialiser::new(rate, Size::from_bytes(24));
        let (mut t, mut bits) = (0i64, 0u128);
        for i in 0..10_000u32 {
            let bytes = 64 + i % 1437;
            t += link.take(bytes);
            bits += u128::from(bytes + 24) * 8;
            assert_eq!(t as u128, bits * SECOND as u128 / u128::from(rate.bps()));
        }
    }

    #[test]
    fn a_frame_of_256_bytes_lasts_51_2_ns_at_40_gbps() {
        let mut link = Serialiser::new(Rate::from_bps(40_000_000_000), Size::from_bytes(0));
        assert_eq!(link.take(256), 51_200);
    }
}
