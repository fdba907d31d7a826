//! The accuracy of a host's clocks: whether its wall clock is synchronised, and the offsets of cards' clocks.
//!
//! The daemon that synchronises the clock (chronyd, ntpd, phc2sys) reports the state and the maximum error to the kernel, which adds the
//! possible drift of the crystal. This bound is usually wide. A card's clock (PHC) is read together with the wall clock if the hardware
//! supports it (PTP_SYS_OFFSET_PRECISE), else between two readings of the wall clock, of which the closest pair counts.
#![expect(unsafe_code, reason = "asks the kernel about its clocks; every block says why it is sound")]

use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::AsRawFd;

use pktgen_core::record::StampClock;

/// The kernel's state of the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WallClock {
    /// Whether it is synchronised.
    pub synchronised: bool,
    /// Maximum error in ns.
    pub max_error_ns: u64,
}

impl WallClock {
    /// Queries the kernel, without changes.
    pub fn look() -> io::Result<Self> {
        // SAFETY: all zeros is a valid timex that changes nothing; the kernel fills it.
        let (code, timex) = unsafe {
            let mut timex: libc::timex = mem::zeroed();
            (libc::adjtimex(&raw mut timex), timex)
        };
        if code < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self::of(code, timex.status, timex.maxerror))
    }

    /// Combines `code` and `status`, which are redundant: a clock that one of them calls bad is bad. Errors are in us.
    fn of(code: i32, status: i32, max_error_us: i64) -> Self {
        WallClock {
            synchronised: code != libc::TIME_ERROR && status & libc::STA_UNSYNC == 0,
            max_error_ns: max_error_us.max(0) as u64 * 1000,
        }
    }
}

/// Offset of a card's clock from the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CardOffset {
    /// Excess of the card's clock, in ns. Cards that follow PTP show TAI, which is 37 s ahead of UTC.
    pub ns: i64,
    /// Maximum error in ns.
    pub error_ns: u64,
    /// Whether hardware read both clocks at once: the remaining error is that of converting its counter.
    pub at_once: bool,
}

/// The clock of a network card.
#[derive(Debug)]
pub struct CardClock {
    device: File,
}

/// Number of requested pairs of readings; the kernel permits up to 25.
const SAMPLES: usize = 25;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Stamp {
    seconds: i64,
    ns: u32,
    reserved: u32,
}

/// `struct ptp_sys_offset_extended` of linux/ptp_clock.h: wall clock, card, wall clock.
#[repr(C)]
struct Extended {
    samples: u32,
    reserved: [u32; 3],
    stamps: [[Stamp; 3]; SAMPLES],
}

/// `struct ptp_sys_offset_precise` of linux/ptp_clock.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Precise {
    card: Stamp,
    wall: Stamp,
    monotonic_raw: Stamp,
    reserved: [u32; 4],
}

/// Both readings are rounded to whole ns.
const PRECISE_ERROR_NS: u64 = 2;

/// `_IOWR('=', 8, struct ptp_sys_offset_precise)`.
const PRECISE: u64 = 0b11 << 30 | (mem::size_of::<Precise>() as u64) << 16 | (b'=' as u64) << 8 | 8;

/// `_IOWR('=', 9, struct ptp_sys_offset_extended)`.
const EXTENDED: u64 = 0b11 << 30 | (mem::size_of::<Extended>() as u64) << 16 | (b'=' as u64) << 8 | 9;

impl CardClock {
    /// Opens the clock with this number: /dev/ptpN.
    pub fn open(number: u32) -> io::Result<Self> {
        Ok(CardClock { device: File::open(format!("/dev/ptp{number}"))? })
    }

    /// Returns its current offset from the wall clock.
    pub fn offset(&self) -> io::Result<CardOffset> {
        // Most cards do not support it: the fallback's error is the one reported.
        self.precise().or_else(|_| self.extended())
    }

    /// Reads the offset by hardware that reads both clocks at once.
    fn precise(&self) -> io::Result<CardOffset> {
        let mut room = Precise::default();
        // SAFETY: the kernel fills a structure of this size, which the request names, and which outlives the call.
        if unsafe { libc::ioctl(self.device.as_raw_fd(), PRECISE as libc::Ioctl, &raw mut room) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(room.offset())
    }

    /// Reads the offset by readings of the wall clock before and after one of the card.
    fn extended(&self) -> io::Result<CardOffset> {
        let mut room = Extended { samples: SAMPLES as u32, reserved: [0; 3], stamps: [[Stamp::default(); 3]; SAMPLES] };
        // SAFETY: the kernel reads the head and fills as many stamps as that asks for, which is all that there is room for.
        if unsafe { libc::ioctl(self.device.as_raw_fd(), EXTENDED as libc::Ioctl, &raw mut room) } < 0 {
            return Err(io::Error::last_os_error());
        }
        let samples = room.stamps.iter().take(room.samples as usize).map(|stamps| stamps.each_ref().map(whole));
        closest(samples).ok_or_else(|| io::Error::other("it was not read"))
    }
}

impl Precise {
    fn offset(&self) -> CardOffset {
        CardOffset {
            ns: whole(&self.card).saturating_sub(whole(&self.wall)),
            error_ns: PRECISE_ERROR_NS,
            at_once: true,
        }
    }
}

fn whole(stamp: &Stamp) -> i64 {
    stamp.seconds.saturating_mul(1_000_000_000).saturating_add(i64::from(stamp.ns))
}

/// Returns the offset by the closest pair of readings.
fn closest(samples: impl Iterator<Item = [i64; 3]>) -> Option<CardOffset> {
    let ordered = samples.filter(|[before, _, after]| before <= after);
    let [before, card, after] = ordered.min_by_key(|[before, _, after]| after - before)?;
    let half = (after - before) / 2;
    Some(CardOffset {
        ns: card.saturating_sub(before + half),
        error_ns: (after - before - half) as u64,
        at_once: false,
    })
}

/// Clocks before a run, for comparison with those after it.
#[derive(Debug)]
pub(crate) struct Watched {
    wall: Option<WallClock>,
    reading: super::Reading,
    cards: Vec<(String, Card)>,
}

/// A card's clock with its offset, or why there is none.
type Card = Result<(CardClock, CardOffset), String>;

/// State of clocks before and after a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClockChange {
    /// The wall clock before and after.
    pub wall: [Option<WallClock>; 2],
    /// Its movement against the monotonic clock, in ns, and the uncertainty: any movement is a step, since both follow
    /// the same corrections.
    pub moved_ns: (i64, u64),
    /// The wall clock and the monotonic clock, before and after.
    pub readings: [super::Reading; 2],
    /// By interface: the card's offset before and after, or why there is none.
    pub cards: Vec<(String, Result<[CardOffset; 2], String>)>,
}

impl Watched {
    /// Reads the wall clock, and the clocks of these interfaces by number.
    pub fn begin(interfaces: &[(String, Option<u32>)]) -> Self {
        let open = |number: u32| {
            let clock = CardClock::open(number)?;
            let offset = clock.offset()?;
            Ok::<_, io::Error>((clock, offset))
        };
        let card = |(name, number): &(String, Option<u32>)| {
            let clock = match number {
                None => Err("no clock".to_owned()),
                Some(number) => open(*number).map_err(|e| format!("/dev/ptp{number}: {e}")),
            };
            (name.clone(), clock)
        };
        let cards = interfaces.iter().map(card).collect();
        Watched { wall: WallClock::look().ok(), reading: super::reading(), cards }
    }

    /// Reads them again.
    pub fn end(self) -> ClockChange {
        let now = super::reading();
        let wall_ns = now.unix_ns.wrapping_sub(self.reading.unix_ns) as i64;
        let moved_ns = wall_ns - (now.monotonic_ns - self.reading.monotonic_ns);
        let again = |clock: Card| {
            let (clock, before) = clock?;
            clock.offset().map(|after| [before, after]).map_err(|e| e.to_string())
        };
        let cards = self.cards.into_iter().map(|(name, clock)| (name, again(clock))).collect();
        let read_within = now.width_ns + self.reading.width_ns;
        let readings = [self.reading, now];
        ClockChange { wall: [self.wall, WallClock::look().ok()], moved_ns: (moved_ns, read_within), readings, cards }
    }
}

/// A larger movement of the wall clock during a run means that it was set.
const STEP_NS: u64 = 100_000;

impl ClockChange {
    /// Returns the maximum error of the wall clock during the run, in ns; `None` if it was not synchronised throughout,
    /// or was set during the run.
    pub fn error_ns(&self) -> Option<u64> {
        let (moved, within) = (self.moved_ns.0.unsigned_abs(), self.moved_ns.1);
        let [before, after] = self.wall;
        let kept = before.zip(after).filter(|(a, b)| a.synchronised && b.synchronised && moved <= STEP_NS + within);
        kept.map(|(a, b)| a.max_error_ns.max(b.max_error_ns))
    }

    /// Returns the offset of the wall clock, or of the clock of `card`'s interface, for a run that began when the
    /// monotonic clock showed `anchor_monotonic_ns`; an error states why it is unknown.
    pub fn stamp_clock(&self, card: Option<&str>, anchor_monotonic_ns: i64) -> Result<StampClock, String> {
        let wall = |reading: &super::Reading| {
            (reading.unix_ns as i64).saturating_sub(reading.monotonic_ns).saturating_add(anchor_monotonic_ns)
        };
        let mut clock = StampClock {
            zero_ns: self.readings.each_ref().map(wall),
            error_ns: self.readings.iter().map(|reading| reading.width_ns).max().unwrap_or(0),
        };
        if let Some(name) = card {
            let found = self.cards.iter().find(|(interface, _)| interface == name);
            let (_, offsets) = found.ok_or_else(|| format!("the clock of {name}'s card was not looked at"))?;
            let offsets = offsets.as_ref().map_err(|why| format!("the clock of {name}'s card: {why}"))?;
            for (zero, offset) in clock.zero_ns.iter_mut().zip(offsets) {
                *zero = zero.saturating_add(offset.ns);
            }
            clock.error_ns += offsets.iter().map(|offset| offset.error_ns).max().unwrap_or(0);
        }
        Ok(clock)
    }

    /// Returns facts for the manifest.
    pub fn facts(&self) -> Vec<(String, String)> {
        let wall = |seen: Option<WallClock>| match seen {
            None => "the kernel does not say".to_owned(),
            Some(WallClock { synchronised: false, .. }) => "not synchronised".to_owned(),
            Some(WallClock { max_error_ns, .. }) => format!("synchronised, off by {max_error_ns} ns at most"),
        };
        let mut facts = vec![
            ("clock.wall.before".to_owned(), wall(self.wall[0])),
            ("clock.wall.after".into(), wall(self.wall[1])),
            ("clock.wall_moved_ns".into(), format!("{} within {}", self.moved_ns.0, self.moved_ns.1)),
        ];
        facts.extend(self.error_ns().map(|ns| ("clock.error_ns".into(), ns.to_string())));
        for (interface, card) in &self.cards {
            let text = match card {
                Err(why) => why.clone(),
                Ok([a, b]) => format!(
                    "wall clock + {} ns within {} before, + {} ns within {} after, {}",
                    a.ns,
                    a.error_ns,
                    b.ns,
                    b.error_ns,
                    if a.at_once && b.at_once { "read by hardware at one instant" } else { "read in between" }
                ),
            };
            facts.push((format!("clock.card.{interface}"), text));
        }
        facts
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_kernel_says_something_and_cards_that_are_not_there_are_said() {
        assert!(WallClock::look().is_ok());
        let lo = ("lo".to_owned(), None);
        let absent = ("eth9".to_owned(), Some(4711));
        let seen = Watched::begin(&[lo, absent]).end();
        assert!(seen.moved_ns.0.unsigned_abs() < 1_000_000_000 && seen.wall[0].is_some());
        let facts = seen.facts();
        let fact = |key: &str| facts.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str());
        assert_eq!(fact("clock.card.lo"), Some("no clock"));
        assert!(fact("clock.card.eth9").is_some_and(|why| why.starts_with("/dev/ptp4711: ")));
    }

    #[test]
    fn a_request_is_that_of_the_header() {
        assert_eq!((mem::size_of::<Extended>(), EXTENDED), (1216, 0xc4c0_3d09));
        assert_eq!((mem::size_of::<Precise>(), PRECISE), (64, 0xc040_3d08));
    }

    #[test]
    fn what_hardware_read_at_once_is_the_difference() {
        let stamp = |seconds, ns| Stamp { seconds, ns, reserved: 0 };
        let read = Precise { card: stamp(1037, 5), wall: stamp(999, 999_999_998), ..Precise::default() };
        assert_eq!(read.offset(), CardOffset { ns: 37_000_000_007, error_ns: 2, at_once: true });
    }

    /// A file that is not a clock refuses both requests, with the reason.
    #[test]
    fn what_is_no_clock_says_so() {
        let clock = CardClock { device: File::open("/dev/null").unwrap() };
        assert!(clock.precise().is_err() && clock.offset().is_err());
    }

    #[test]
    fn a_clock_counts_as_kept_if_it_was_all_the_time() {
        let kept = |max_error_us| Some(WallClock::of(0, 0, max_error_us));
        let free = Some(WallClock::of(libc::TIME_ERROR, 0, 3));
        assert_eq!(free, Some(WallClock { synchronised: false, max_error_ns: 3000 }));
        assert!(!WallClock::of(0, libc::STA_UNSYNC, 0).synchronised);
        let readings = [READING; 2];
        let error = |wall, moved_ns| ClockChange { wall, moved_ns, readings, cards: Vec::new() }.error_ns();
        assert_eq!(error([kept(5), kept(7)], (0, 50)), Some(7000));
        assert_eq!(error([kept(5), free], (0, 50)), None);
        assert_eq!(error([free, kept(5)], (0, 50)), None);
        assert_eq!(error([None, kept(5)], (0, 50)), None);
        assert_eq!(error([kept(5), kept(5)], (-2_000_000, 50)), None, "it was set");
        assert_eq!(error([kept(5), kept(5)], (90_000, 50)), Some(5000));
    }

    const READING: super::super::Reading = super::super::Reading { monotonic_ns: 0, unix_ns: 0, width_ns: 0 };

    /// The run began at 1000 on the monotonic clock, which was 5000 behind the wall clock, later 5003.
    #[test]
    fn clocks_of_stamps_are_told_by_what_they_show_at_the_beginning() {
        let readings = [(100, 5100, 20), (9000, 14_003, 30)]
            .map(|(monotonic_ns, unix_ns, width_ns)| super::super::Reading { monotonic_ns, unix_ns, width_ns });
        let offset = |ns, error_ns| CardOffset { ns, error_ns, at_once: false };
        let cards = vec![
            ("a0".to_owned(), Ok([offset(37_000, 40), offset(37_010, 15)])),
            ("b0".to_owned(), Err("no clock".to_owned())),
        ];
        let seen = ClockChange { wall: [None; 2], moved_ns: (3, 50), readings, cards };
        assert_eq!(seen.stamp_clock(None, 1000), Ok(StampClock { zero_ns: [6000, 6003], error_ns: 30 }));
        assert_eq!(seen.stamp_clock(Some("a0"), 1000), Ok(StampClock { zero_ns: [43_000, 43_013], error_ns: 70 }));
        assert!(seen.stamp_clock(Some("b0"), 1000).is_err_and(|why| why.contains("b0's card: no clock")));
        assert!(seen.stamp_clock(Some("c0"), 1000).is_err());
    }

    proptest! {
        /// For any pairs of readings, the card's offset is within the reported error.
        #[test]
        fn offsets_are_within_their_error(
            offset in -100_000_000_000i64..100_000_000_000,
            samples in prop::collection::vec((0i64..1_000_000_000, 0i64..50_000, 0i64..50_000), 1..25),
        ) {
            let read = samples.iter().map(|(t, a, b)| [*t, t + a + offset, t + a + b]);
            let found = closest(read).expect("a sample");
            prop_assert!(found.ns.abs_diff(offset) <= found.error_ns);
            let narrowest = samples.iter().map(|(_, a, b)| a + b).min().expect("a sample");
            prop_assert!(found.error_ns as i64 <= narrowest / 2 + 1);
        }
    }
}
