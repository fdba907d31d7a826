//! The only file that reads a clock. Everything else is told the time.
#![expect(unsafe_code, reason = "asks the kernel for the number of its monotonic clock")]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pktgen_generator::time::{NS, Time};

/// Wall-clock time in ns since 1970: for manifests, never for pacing.
#[expect(clippy::disallowed_methods, reason = "this file is where clocks are read")]
pub fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
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

/// The clock of a run in real time: picoseconds since its anchor, on the kernel's monotonic clock.
#[derive(Debug, Clone, Copy)]
pub struct RunClock {
    anchor_monotonic_ns: i64,
    anchor_unix_ns: u64,
}

impl RunClock {
    /// A run begins now.
    pub fn start() -> Self {
        Self::start_in(0)
    }

    /// A run begins after `lead`; until then the time is 0.
    pub fn start_in(lead: Time) -> Self {
        let lead_ns = (lead / NS).max(0);
        RunClock { anchor_monotonic_ns: monotonic_ns() + lead_ns, anchor_unix_ns: unix_ns() + lead_ns as u64 }
    }

    /// Time since the anchor.
    #[inline]
    pub fn now(&self) -> Time {
        (monotonic_ns() - self.anchor_monotonic_ns).max(0) * NS
    }

    /// The anchor in ns since 1970.
    pub fn anchor_unix_ns(&self) -> u64 {
        self.anchor_unix_ns
    }

    /// What makes its times comparable with those of other processes of this host: the anchor on the monotonic clock,
    /// and the boot from which that one counts.
    pub fn facts(&self) -> Vec<(String, String)> {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        vec![
            ("clock.boot_id".into(), boot.trim().to_owned()),
            ("clock.anchor_monotonic_ns".into(), self.anchor_monotonic_ns.to_string()),
        ]
    }
}

/// The kernel's monotonic clock, which all processes of a host share. The standard library hides its number.
#[inline]
fn monotonic_ns() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills a timespec that outlives the call; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
