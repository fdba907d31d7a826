//! Waiting for events. No test asserts how long something takes: a guard only ends what hangs.

use std::time::Duration;

/// A hang guard: far longer than anything takes on a machine that works, however loaded.
pub const HANG: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(10);

/// Waits until `holds`; false when the hang guard ends it.
pub fn happens(mut holds: impl FnMut() -> bool) -> bool {
    // Sleeps are counted, so that a machine that stood still is not held against the test.
    for _ in 0..HANG.as_millis() / POLL.as_millis() {
        if holds() {
            return true;
        }
        std::thread::sleep(POLL);
    }
    false
}

/// Waits until `holds`.
///
/// # Panics
/// When the hang guard ends it.
#[track_caller]
pub fn eventually(what: &str, holds: impl FnMut() -> bool) {
    assert!(happens(holds), "hang guard of {HANG:?}: {what} did not happen");
}
