//! The only file that reads a clock. Everything else is told the time.

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

/// The clock of a run in real time: picoseconds since its anchor, on the monotonic clock.
#[derive(Debug, Clone, Copy)]
pub struct RunClock {
    anchor: Instant,
    anchor_unix_ns: u64,
}

impl RunClock {
    /// A run begins now.
    #[expect(clippy::disallowed_methods, reason = "this file is where clocks are read")]
    pub fn start() -> Self {
        RunClock { anchor: Instant::now(), anchor_unix_ns: unix_ns() }
    }

    /// Time since the anchor.
    #[inline]
    pub fn now(&self) -> Time {
        self.anchor.elapsed().as_nanos() as Time * NS
    }

    /// The anchor in ns since 1970.
    pub fn anchor_unix_ns(&self) -> u64 {
        self.anchor_unix_ns
    }
}
