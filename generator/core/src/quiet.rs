//! Calls to third-party code that may panic, without a panic message on stderr.
//!
//! Parquet readers assert on some corrupt pages; bad input must be an error.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    /// Whether panics of this thread are expected and caught.
    static EXPECTED: Cell<bool> = const { Cell::new(false) };
}
/// Guards the installation of the hook, which passes unexpected panics on to the previous hook.
static HOOK: Once = Once::new();

/// Returns the result of `job`; `None`, without a message, if it panics. `job` must not start threads.
pub fn attempt<T>(job: impl FnOnce() -> T) -> Option<T> {
    HOOK.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !EXPECTED.get() {
                others(panic);
            }
        }));
    });
    let before = EXPECTED.replace(true);
    let outcome = panic::catch_unwind(AssertUnwindSafe(job));
    EXPECTED.set(before);
    outcome.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_none_and_is_expected_only_inside() {
        assert_eq!(attempt(|| 3), Some(3));
        assert_eq!(attempt(|| if EXPECTED.get() { panic!("quietly") } else { 1 }), None);
        assert!(!EXPECTED.get());
    }
}
