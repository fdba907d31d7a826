//! The only file that reads clocks. All other code gets the time as an argument.
#![expect(unsafe_code, reason = "asks the kernel for the number of its monotonic clock")]

mod host;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pktgen_core::time::{HORIZON, NEVER, NS, Time};

pub(crate) use host::Watched;
pub use host::{CardClock, CardOffset, ClockChange, WallClock};

/// Returns the wall-clock time in ns since 1970: for manifests, never for pacing.
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
    /// Uncertainty of the wall clock relative to the monotonic one, in ns.
    pub width_ns: u64,
}

/// Number of readings of both clocks: the closest pair counts.
const READINGS: usize = 9;

/// Reads both clocks as close together as possible.
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

/// A stopwatch on the monotonic clock.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts now.
    #[expect(clippy::disallowed_methods, reason = "this file is where clocks are read")]
    pub fn start() -> Self {
        Stopwatch(Instant::now())
    }

    /// Returns the time since the start.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// The clock of a run in real time: picoseconds since its anchor, on the kernel's monotonic clock or on that of files.
#[derive(Debug, Clone)]
pub struct RunClock {
    anchor_monotonic_ns: i64,
    anchor_unix_ns: u64,
    file: Option<FileClock>,
}

impl RunClock {
    /// Starts a run now.
    pub fn start() -> Self {
        Self::start_in(0)
    }

    /// Starts a run after `lead`; until then the time is 0.
    pub fn start_in(lead: Time) -> Self {
        let lead_ns = (lead / NS).max(0);
        // The closest of several readings: the distance affects comparisons of wall-clock stamps with times of the run.
        let Reading { monotonic_ns, unix_ns, .. } = reading();
        Self::start_on(monotonic_ns + lead_ns, unix_ns + lead_ns as u64)
    }

    /// Starts a run at this wall-clock time, in ns since 1970, which `reading` converts to the monotonic clock.
    pub fn start_at(unix_ns: u64, reading: Reading) -> Self {
        let ahead = unix_ns.wrapping_sub(reading.unix_ns) as i64;
        Self::start_on(reading.monotonic_ns + ahead, unix_ns)
    }

    /// Starts a run at this time of the monotonic clock, agreed on by processes of the same boot.
    pub(crate) fn start_on(anchor_monotonic_ns: i64, anchor_unix_ns: u64) -> Self {
        RunClock { anchor_monotonic_ns, anchor_unix_ns, file: None }
    }

    /// A clock in the time of files, with this anchor in ns since 1970.
    pub fn of_file(clock: FileClock, anchor_unix_ns: u64) -> Self {
        RunClock { anchor_monotonic_ns: 0, anchor_unix_ns, file: Some(clock) }
    }

    /// Returns the time since the anchor.
    #[inline]
    pub fn now(&self) -> Time {
        match &self.file {
            None => (monotonic_ns() - self.anchor_monotonic_ns).max(0) * NS,
            Some(file) => file.now(),
        }
    }

    /// Returns the time until the anchor; negative after it. Files begin at once.
    pub fn ahead(&self) -> Time {
        match &self.file {
            None => (self.anchor_monotonic_ns - monotonic_ns()).saturating_mul(NS),
            Some(_) => 0,
        }
    }

    /// Returns the anchor in ns since 1970.
    pub fn anchor_unix_ns(&self) -> u64 {
        self.anchor_unix_ns
    }

    /// Returns the anchor on the monotonic clock.
    pub(crate) fn anchor_monotonic_ns(&self) -> i64 {
        self.anchor_monotonic_ns
    }

    /// Returns the facts that make its times comparable with those of other processes of this host: the anchor on the
    /// monotonic clock, and the boot. Files have the same time wherever they are read.
    pub fn facts(&self) -> Vec<(String, String)> {
        let boot = match &self.file {
            None => boot_id(),
            Some(_) => "files".to_owned(),
        };
        vec![("clock.boot_id".into(), boot), ("clock.anchor_monotonic_ns".into(), self.anchor_monotonic_ns.to_string())]
    }

    /// Returns the clock of files, if it is one.
    pub fn file(&self) -> Option<&FileClock> {
        self.file.as_ref()
    }
}

/// Returns the boot id of this host, with the offset of a time namespace: they determine the origin of the monotonic clock.
pub fn boot_id() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    origin(read("/proc/sys/kernel/random/boot_id").trim(), &read("/proc/self/timens_offsets"))
}

/// Returns the origin of the monotonic clock, from a boot id and the offsets of a time namespace.
fn origin(boot: &str, offsets: &str) -> String {
    let offset = offsets.lines().find_map(|line| line.strip_prefix("monotonic"));
    let words: Vec<&str> = offset.unwrap_or_default().split_whitespace().collect();
    match words[..] {
        [seconds, ns] if !boot.is_empty() && (seconds, ns) != ("0", "0") => format!("{boot}+{seconds}s{ns}"),
        _ => boot.to_owned(),
    }
}

/// Returns the boot of an origin.
pub(crate) fn boot_of(origin: &str) -> &str {
    origin.split_once('+').map_or(origin, |(boot, _)| boot)
}

/// Returns the kernel's monotonic clock, which all processes of a host share. The standard library hides its value.
#[inline]
pub(crate) fn monotonic_ns() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills a timespec that outlives the call; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// A clock that advances only by waiting, for roles whose wires are files. All copies show the same time.
///
/// It counts whole nanoseconds, as the monotonic clock and files do: a time stamped with it is read back exactly.
#[derive(Debug, Clone, Default)]
pub struct FileClock(Arc<FileTime>);

#[derive(Debug)]
struct FileTime {
    now: AtomicI64,
    /// Arrival of the next frame of a file, where waiting ends.
    arrival: AtomicI64,
    anchor_unix_ns: AtomicU64,
}

impl Default for FileTime {
    fn default() -> Self {
        FileTime { now: AtomicI64::new(0), arrival: AtomicI64::new(NEVER), anchor_unix_ns: AtomicU64::new(0) }
    }
}

impl FileClock {
    /// A clock at time 0, with no arrivals, anchored in 1970.
    pub fn new() -> Self {
        FileClock::default()
    }

    /// Restarts it with this anchor, in ns since 1970.
    pub(crate) fn restart(&self, anchor_unix_ns: u64) {
        self.0.now.store(0, Ordering::Relaxed);
        self.0.arrival.store(NEVER, Ordering::Relaxed);
        self.0.anchor_unix_ns.store(anchor_unix_ns, Ordering::Relaxed);
    }

    /// Returns the time since the anchor.
    #[inline]
    pub fn now(&self) -> Time {
        self.0.now.load(Ordering::Relaxed)
    }

    /// Returns the anchor from the files, in ns since 1970; known once wires are open.
    pub fn anchor_unix_ns(&self) -> u64 {
        self.0.anchor_unix_ns.load(Ordering::Relaxed)
    }

    /// Sets the arrival of the next frame; [`NEVER`] if there is none.
    pub(crate) fn set_arrival(&self, t: Time) {
        self.0.arrival.store(t, Ordering::Relaxed);
    }

    /// Returns the arrival of the next frame.
    pub fn arrival(&self) -> Time {
        self.0.arrival.load(Ordering::Relaxed)
    }

    /// Advances at once to `t` or to the next arrival, whichever is earlier. Never goes back.
    pub(crate) fn wait_until(&self, t: Time) {
        let t = t.min(self.arrival()).min(HORIZON);
        self.0.now.fetch_max((t + NS - 1).div_euclid(NS) * NS, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_namespace_has_another_origin_on_the_same_boot() {
        let of = |seconds: &str| origin("1f-2a", &format!("monotonic  {seconds}         0\nboottime   77         0\n"));
        assert_eq!([of("0"), of("5000"), of("-5")], ["1f-2a", "1f-2a+5000s0", "1f-2a+-5s0"]);
        // A kernel without time namespaces; files of no kernel at all.
        assert_eq!([origin("1f-2a", ""), origin("", "monotonic 5 0\n")], ["1f-2a", ""]);
        assert_eq!([boot_of(&of("-5")), boot_of("1f-2a"), boot_of("")], ["1f-2a", "1f-2a", ""]);
    }

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
        // Far longer than a busy host lets this test wait for a core.
        const MINUTE_NS: u64 = 60_000_000_000;
        let now = reading();
        assert!(now.width_ns < 1_000_000 && now.monotonic_ns > 0);
        let later = RunClock::start_at(now.unix_ns + MINUTE_NS, now);
        assert_eq!((later.now(), later.anchor_unix_ns()), (0, now.unix_ns + MINUTE_NS), "it has not begun");
        assert_eq!(later.anchor_monotonic_ns(), now.monotonic_ns + MINUTE_NS as i64);
        assert!(later.ahead() > 0 && later.ahead() <= MINUTE_NS as i64 * NS);
        let earlier = RunClock::start_at(now.unix_ns - 1_000_000, now);
        assert!(earlier.ahead() <= -1_000_000 * NS && earlier.now() >= 1_000_000 * NS);
        let same = RunClock::start_on(later.anchor_monotonic_ns(), later.anchor_unix_ns());
        let (first, second) = (later.ahead(), same.ahead());
        assert!(second <= first && second > 0, "{first} {second}");
    }

    #[test]
    fn the_monotonic_clock_goes_on_by_itself() {
        let run = RunClock::start();
        let first = run.now();
        std::thread::sleep(Duration::from_millis(2));
        assert!(run.now() - first >= 2_000_000 * NS && run.file().is_none());
    }
}
