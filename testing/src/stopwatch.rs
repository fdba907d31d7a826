//! A clock for benches of what must not read one.

use std::time::{Duration, Instant};

/// Measures how long something takes, on the monotonic clock.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts now.
    #[expect(clippy::disallowed_methods, reason = "benches measure")]
    pub fn start() -> Self {
        Stopwatch(Instant::now())
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}
