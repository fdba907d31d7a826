//! The only file that reads a clock. Everything else gets the time as an argument.
#![expect(unsafe_code, reason = "asks the kernel for the number of its monotonic clock")]

mod host;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pktgen_core::time::{HORIZON, NEVER, NS, Time};

pub(crate) use host::Watched;
pub use host::{CardClock, CardOffset, ClockChange, WallClock};

/// Wall-clock time in ns since 1970: for manifests, never for pacing.
#[expect(clippy::disallowed_methods, reason = "this file is where clocks are read")]
pub fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}

/// The monotonic clock and the wall clock at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// The monotonic clock.
    pub monotonic_ns: i64,
    /// The wall clock, ns since 1970.
    pub unix_ns: u64,
    /// The wall clock was read within so many ns of the monotonic one.
    pub width_ns: u64,
}

/// How often both clocks are read: the closest pair counts.
const READINGS: usize = 9;

/// Reads both clocks, one as close after the other as can be had.
pub fn reading() -> Reading {
    let once = || {
        let before = monotonic_ns();
        let unix_ns = unix_ns();
        let width = monotonic_ns() - before;
        Reading { monotonic_ns: before + width / 2, unix_ns, width_ns: width as u64 }
    };
    let first = once();
    (1..READINGS).map(|_| once()).fold(first, |best, new| if new.width_ns < best.width_ns { new } else { best })
}

/// Measures how long something takes, on the monotonic clock.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts now.
    #[expect(clippy::disallowed_methods, reason = "this file is where clocks are read")]
    pub fn start() -> Self {
        Stopwatch(Instant::now())
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// The clock of a run in real time: picoseconds since its anchor, on the kernel's monotonic clock; or on that of files.
#[derive(Debug, Clone)]
pub struct RunClock {
    anchor_monotonic_ns: i64,
    anchor_unix_ns: u64,
    file: Option<FileClock>,
}

impl RunClock {
    /// A run begins now.
    pub fn start() -> Self {
        Self::start_in(0)
    }

    /// A run begins after `lead`; until then the time is 0.
    pub fn start_in(lead: Time) -> Self {
        let lead_ns = (lead / NS).max(0);
        // The closest of several readings: who compares stamps of the wall clock with times of the run sees what lies between the two.
        let Reading { monotonic_ns, unix_ns, .. } = reading();
        Self::start_on(monotonic_ns + lead_ns, unix_ns + lead_ns as u64)
    }

    /// A run begins at this instant of the wall clock, ns since 1970, which this reading places on the monotonic clock.
    pub fn start_at(unix_ns: u64, reading: Reading) -> Self {
        let ahead = unix_ns.wrapping_sub(reading.unix_ns) as i64;
        Self::start_on(reading.monotonic_ns + ahead, unix_ns)
    }

    /// A run begins when the monotonic clock shows this, agreed on by the processes of this boot of the host.
    pub(crate) fn start_on(anchor_monotonic_ns: i64, anchor_unix_ns: u64) -> Self {
        RunClock { anchor_monotonic_ns, anchor_unix_ns, file: None }
    }

    /// A run in the time of files, which counts from this anchor, in ns since 1970.
    pub fn of_file(clock: FileClock, anchor_unix_ns: u64) -> Self {
        RunClock { anchor_monotonic_ns: 0, anchor_unix_ns, file: Some(clock) }
    }

    /// Time since the anchor.
    #[inline]
    pub fn now(&self) -> Time {
        match &self.file {
            None => (monotonic_ns() - self.anchor_monotonic_ns).max(0) * NS,
            Some(file) => file.now(),
        }
    }

    /// How long it is until the anchor; below 0 after it. Files begin at once.
    pub fn ahead(&self) -> Time {
        match &self.file {
            None => (self.anchor_monotonic_ns - monotonic_ns()).saturating_mul(NS),
            Some(_) => 0,
        }
    }

    /// The anchor in ns since 1970.
    pub fn anchor_unix_ns(&self) -> u64 {
        self.anchor_unix_ns
    }

    /// The anchor on the monotonic clock.
    pub(crate) fn anchor_monotonic_ns(&self) -> i64 {
        self.anchor_monotonic_ns
    }

    /// What makes its times comparable with those of other processes of this host: the anchor on the monotonic clock,
    /// and the boot from which that one counts. Files have one time wherever they are read.
    pub fn facts(&self) -> Vec<(String, String)> {
        let boot = match &self.file {
            None => boot_id(),
            Some(_) => "files".to_owned(),
        };
        vec![("clock.boot_id".into(), boot), ("clock.anchor_monotonic_ns".into(), self.anchor_monotonic_ns.to_string())]
    }

    /// The clock of files, if it is one.
    pub fn file(&self) -> Option<&FileClock> {
        self.file.as_ref()
    }
}

/// The boot of this host from which its monotonic clock counts.
pub fn boot_id() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    boot.trim().to_owned()
}

/// The kernel's monotonic clock, which all processes of a host share. The standard library hides its number.
#[inline]
pub(crate) fn monotonic_ns() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills a timespec that outlives the call; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Time that passes by being waited for: that of a role whose wires are files. All copies show the same time.
///
/// It goes in whole nanoseconds, as the monotonic clock does and as files keep times: what is stamped with it is read
/// back exactly.
#[derive(Debug, Clone, Default)]
pub struct FileClock(Arc<FileTime>);

#[derive(Debug)]
struct FileTime {
    now: AtomicI64,
    /// When the next frame of a file arrives: waiting ends there.
    arrival: AtomicI64,
    anchor_unix_ns: AtomicU64,
}

impl Default for FileTime {
    fn default() -> Self {
        FileTime { now: AtomicI64::new(0), arrival: AtomicI64::new(NEVER), anchor_unix_ns: AtomicU64::new(0) }
    }
}

impl FileClock {
    /// Time 0, nothing to arrive, anchored in 1970.
    pub fn new() -> Self {
        FileClock::default()
    }

    /// Begins anew: times count from this anchor, in ns since 1970.
    pub(crate) fn restart(&self, anchor_unix_ns: u64) {
        self.0.now.store(0, Ordering::Relaxed);
        self.0.arrival.store(NEVER, Ordering::Relaxed);
        self.0.anchor_unix_ns.store(anchor_unix_ns, Ordering::Relaxed);
    }

    /// Time since the anchor.
    #[inline]
    pub fn now(&self) -> Time {
        self.0.now.load(Ordering::Relaxed)
    }

    /// The anchor that the files gave, in ns since 1970; known once wires are open.
    pub fn anchor_unix_ns(&self) -> u64 {
        self.0.anchor_unix_ns.load(Ordering::Relaxed)
    }

    /// The next frame arrives then; [`NEVER`] if there is none.
    pub(crate) fn set_arrival(&self, t: Time) {
        self.0.arrival.store(t, Ordering::Relaxed);
    }

    /// When the next frame arrives.
    pub fn arrival(&self) -> Time {
        self.0.arrival.load(Ordering::Relaxed)
    }

    /// Waits until `t` or until the next frame arrives, whichever comes first: it is then at once. Never goes back.
    pub(crate) fn wait_until(&self, t: Time) {
        let t = t.min(self.arrival()).min(HORIZON);
        self.0.now.fetch_max((t + NS - 1).div_euclid(NS) * NS, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_clock_goes_on_by_waiting_and_stops_at_arrivals() {
        let clock = FileClock::new();
        let run = RunClock::of_file(clock.clone(), 77);
        assert_eq!((run.now(), run.anchor_unix_ns()), (0, 77));
        clock.wait_until(5 * NS);
        assert_eq!(run.now(), 5 * NS);
        clock.wait_until(3 * NS);
        assert_eq!(run.now(), 5 * NS, "never back");
        clock.set_arrival(7 * NS + 1);
        clock.wait_until(20 * NS);
        assert_eq!(run.now(), 8 * NS, "whole nanoseconds, and not before the arrival");
        clock.set_arrival(NEVER);
        clock.wait_until(NEVER);
        assert_eq!(run.now() / NS, HORIZON / NS + i64::from(HORIZON % NS > 0), "no sum of two times wraps");
        clock.restart(9);
        assert_eq!((run.now(), clock.arrival(), clock.anchor_unix_ns()), (0, NEVER, 9));
    }

    #[test]
    fn a_run_begins_at_an_instant_of_the_wall_clock() {
        let now = reading();
        assert!(now.width_ns < 1_000_000 && now.monotonic_ns > 0);
        let later = RunClock::start_at(now.unix_ns + 50_000_000, now);
        assert_eq!((later.now(), later.anchor_unix_ns()), (0, now.unix_ns + 50_000_000), "it has not begun");
        assert_eq!(later.anchor_monotonic_ns(), now.monotonic_ns + 50_000_000);
        assert!(later.ahead() > 0 && later.ahead() <= 50_000_000 * NS);
        let earlier = RunClock::start_at(now.unix_ns - 1_000_000, now);
        assert!(earlier.ahead() <= -1_000_000 * NS && earlier.now() >= 1_000_000 * NS);
        let same = RunClock::start_on(later.anchor_monotonic_ns(), later.anchor_unix_ns());
        assert!((same.ahead() - later.ahead()).abs() < 10_000_000 * NS);
    }

    #[test]
    fn the_monotonic_clock_goes_on_by_itself() {
        let run = RunClock::start();
        let first = run.now();
        std::thread::sleep(Duration::from_millis(2));
        assert!(run.now() - first >= 2_000_000 * NS && run.file().is_none());
    }
}
