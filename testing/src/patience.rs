//! Waits for events. No test asserts a duration: a guard only ends tests that hang.

use std::time::Duration;

/// Hang guard: far longer than any operation takes on a working machine, however loaded.
pub const HANG: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(10);

/// Waits until `holds` returns true; returns false if the hang guard expires first.
pub fn happens(mut holds: impl FnMut() -> bool) -> bool {
    // Counts sleeps instead of reading a clock, so that time in which the machine was suspended does not count.
    for _ in 0..HANG.as_millis() / POLL.as_millis() {
        if holds() {
            return true;
        }
        std::thread::sleep(POLL);
    }
    false
}

/// Waits until `holds` returns true.
///
/// # Panics
/// If the hang guard expires first.
#[track_caller]
pub fn eventually(what: &str, holds: impl FnMut() -> bool) {
    assert!(happens(holds), "hang guard of {HANG:?}: {what} did not happen");
}
