//! Times in capture files.

use crate::time::{NS, SECOND, Time};

/// Capture time of a packet: picoseconds since 1970. 128 bits, since 64 cover only 106 days, and a file may contain
/// any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    // In halves: a whole i128 is copied in pieces and read at once, which stalls the processor for every packet.
    high: i64,
    low: u64,
}

impl Stamp {
    /// Converts from picoseconds since 1970.
    #[inline]
    pub const fn from_unix_ps(ps: i128) -> Self {
        Stamp { high: (ps >> 64) as i64, low: ps as u64 }
    }

    /// Returns picoseconds since 1970.
    #[inline]
    pub const fn unix_ps(self) -> i128 {
        (self.high as i128) << 64 | self.low as i128
    }

    /// Returns whole nanoseconds since 1970, clamped to the years 1677 to 2262.
    pub fn unix_ns(self) -> i64 {
        let ns = self.unix_ps().div_euclid(i128::from(NS));
        ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    /// Returns the time since an anchor; `None` if it exceeds 106 days.
    #[inline(always)]
    pub fn since(self, anchor_unix_ns: u64) -> Option<Time> {
        Time::try_from(self.unix_ps() - i128::from(anchor_unix_ns) * i128::from(NS)).ok()
    }
}

/// Length of a tick of a file's times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ticks {
    /// A multiple of a picosecond.
    Times(u64),
    /// A fraction of a picosecond, as its divisor.
    Parts(i128),
    /// 2⁻ⁿ seconds.
    Binary(u32),
}

impl Ticks {
    /// Microseconds, the default of files without a resolution.
    pub(super) const MICRO: Ticks = Ticks::Times(1_000_000);
    /// Nanoseconds.
    pub(super) const NANO: Ticks = Ticks::Times(1_000);

    /// Converts pcapng's `if_tsresol`: 10⁻ⁿ seconds, or 2⁻ⁿ if its first bit is set.
    pub(super) fn of(resolution: u8) -> Self {
        let n = u32::from(resolution & 0x7f);
        match (resolution & 0x80 != 0, n) {
            (true, n) => Ticks::Binary(n),
            (false, ..=12) => Ticks::Times(10u64.pow(12 - n)),
            // So fine that all 64 bits of ticks are less than a picosecond.
            (false, 51..) => Ticks::Parts(i128::MAX),
            (false, n) => Ticks::Parts(10i128.pow(n - 12)),
        }
    }

    /// Returns the length of a tick in whole ps; 1 if it is less.
    #[inline]
    pub(super) fn ps(self) -> u64 {
        match self {
            Ticks::Times(ps) => ps,
            Ticks::Parts(_) => 1,
            Ticks::Binary(n) => (SECOND as u64).checked_shr(n).unwrap_or(0).max(1),
        }
    }

    /// Returns the time `ticks` ticks after `offset_ps`, rounded down to picoseconds.
    #[inline]
    pub(super) fn stamp(self, ticks: u64, offset_ps: i128) -> Stamp {
        let ps = match self {
            Ticks::Times(ps) => i128::from(ticks) * i128::from(ps),
            Ticks::Parts(parts) => i128::from(ticks) / parts,
            Ticks::Binary(n) => (i128::from(ticks) * i128::from(SECOND)) >> n,
        };
        Stamp::from_unix_ps(ps + offset_ps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_of_every_resolution_are_picoseconds() {
        for (resolution, ticks, ps) in [
            (0u8, 3u64, 3_000_000_000_000i128),
            (6, 7, 7_000_000),
            (9, 7, 7_000),
            (12, 7, 7),
            (15, 7_999, 7),
            (31, u64::MAX, 1),
            (32, u64::MAX, 0),
            (127, u64::MAX, 0),
            (0x80, 3, 3_000_000_000_000),
            (0x80 | 10, 1 << 9, 500_000_000_000),
            (0x80 | 32, 1 << 31, 500_000_000_000),
            (0x80 | 127, u64::MAX, 0),
            (0, u64::MAX, u64::MAX as i128 * 1_000_000_000_000),
        ] {
            assert_eq!(
                Ticks::of(resolution).stamp(ticks, 0).unix_ps(),
                ps,
                "resolution {resolution:#x}, {ticks} ticks"
            );
        }
    }

    #[test]
    fn a_tick_has_a_length() {
        let lengths = [(6u8, 1_000_000u64), (9, 1_000), (12, 1), (40, 1), (0x80, 1_000_000_000_000), (0x80 | 127, 1)];
        for (resolution, ps) in lengths {
            assert_eq!(Ticks::of(resolution).ps(), ps, "resolution {resolution:#x}");
        }
    }

    #[test]
    fn a_stamp_is_a_time_since_an_anchor_within_106_days() {
        let stamp = Stamp::from_unix_ps(1_700_000_000_123_456_789_012);
        assert_eq!(stamp.unix_ns(), 1_700_000_000_123_456_789);
        assert_eq!(stamp.since(1_700_000_000_000_000_000), Some(123_456_789_012));
        assert_eq!(stamp.since(0), None);
        assert_eq!(Stamp::from_unix_ps(-1).unix_ns(), -1);
        assert_eq!(Stamp::from_unix_ps(-1).since(0), Some(-1));
        assert_eq!(Stamp::from_unix_ps(i128::MAX / 2).unix_ns(), i64::MAX);
    }
}
