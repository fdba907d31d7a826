//! Repeats test runs that report a disturbance by a busy machine.

use crate::{Need, skip};

/// Attempts before the machine counts as busy: a host has disturbed six runs in a row.
const TRIES: usize = 10;

/// Calls `attempt` with the number of the attempt until a run is undisturbed. `attempt` returns none if the run reports that the machine
/// disturbed it; it asserts what must hold in every run. If all were disturbed, `what` is skipped for lack of cores.
#[track_caller]
pub fn undisturbed<T>(what: &str, attempt: impl FnMut(usize) -> Option<T>) -> Option<T> {
    let found = (0..TRIES).find_map(attempt);
    if found.is_none() {
        skip(Need::Cores, what, format!("the machine disturbed {TRIES} runs of {TRIES}"));
    }
    found
}
