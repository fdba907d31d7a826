//! The only file that reads a clock. Everything else is told the time.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

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
