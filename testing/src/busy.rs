//! What a busy machine may spoil, and says so: it is tried again.

use crate::{Need, skip};

/// Attempts before a machine counts as busy.
const TRIES: usize = 5;

/// Attempts until one is undisturbed: `attempt` is given its number, and returns none where the run says that the machine was in its
/// way. What must hold of every run, `attempt` asserts. If all were disturbed, `what` is skipped for want of cores.
#[track_caller]
pub fn undisturbed<T>(what: &str, attempt: impl FnMut(usize) -> Option<T>) -> Option<T> {
    let found = (0..TRIES).find_map(attempt);
    if found.is_none() {
        skip(Need::Cores, what, format!("the machine disturbed {TRIES} runs of {TRIES}"));
    }
    found
}
