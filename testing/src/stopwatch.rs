//! A clock for benchmarks of code that must not read one itself.

use std::time::{Duration, Instant};

/// Measures a duration on the monotonic clock.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts the stopwatch.
    #[expect(clippy::disallowed_methods, reason = "benches measure")]
    pub fn start() -> Self {
        Stopwatch(Instant::now())
    }

    /// Returns the time since the start.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}
