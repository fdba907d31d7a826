//! Waiting for events. No test asserts how long something takes: a guard only ends what hangs.

use std::time::Duration;

/// A hang guard: far longer than anything takes on a machine that works, however loaded.
pub const HANG: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(10);

/// Waits until `holds`.
///
/// # Panics
/// When the hang guard ends it.
#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    // Sleeps are counted, so that a machine that stood still is not held against the test.
    for _ in 0..HANG.as_millis() / POLL.as_millis() {
        if holds() {
            return;
        }
        std::thread::sleep(POLL);
    }
    panic!("hang guard of {HANG:?}: {what} did not happen");
}
