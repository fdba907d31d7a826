//! Memory of a query: counted while tables are read, and watched while polars computes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use pktgen_core::{Error, Result};

/// Interval at which the memory of this process is checked.
const EVERY: Duration = Duration::from_millis(5);
/// Stack of the thread that plans and computes: sufficient for the plans of the longest statement.
const STACK: usize = 256 << 20;
/// Minimum memory of a query.
pub(crate) const LEAST: u64 = 16 << 20;

/// Returns the memory in use by this process in bytes; `None` if the system does not provide it.
fn resident() -> Option<u64> {
    resident_in(&std::fs::read_to_string("/proc/self/status").ok()?)
}

/// Returns the memory in use in bytes according to the text of /proc/self/status, whose unit does not depend on the page size.
fn resident_in(status: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = value.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kib.checked_mul(1024)
}

/// Formats a number of bytes.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{:.0} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.0} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

/// Memory for the rows of a query's tables.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: u64,
    /// Total memory per byte of rows, in hundredths.
    times: AtomicU64,
    held: AtomicU64,
}

impl Budget {
    pub(crate) fn new(limit: u64) -> Budget {
        Budget { limit, times: AtomicU64::new(100), held: AtomicU64::new(0) }
    }

    /// Sets the operations of the plan that copy or index all of their rows.
    pub(crate) fn plan(&self, operations: &[(&'static str, u64)]) {
        let times = 100 + operations.iter().map(|(_, times)| times).sum::<u64>();
        self.times.store(times, Ordering::Relaxed);
    }

    /// Returns the total memory for `bytes` of rows.
    fn in_all(&self, bytes: u64) -> u64 {
        (u128::from(bytes) * u128::from(self.times.load(Ordering::Relaxed)) / 100).min(u128::from(u64::MAX)) as u64
    }

    /// Refuses a query that is known in advance to exceed the limit.
    pub(crate) fn expect(&self, what: &str, bytes: u64, beside: u64) -> Result<()> {
        let needs = self.in_all(bytes.saturating_add(self.held.load(Ordering::Relaxed))).saturating_add(beside);
        if needs > self.limit { Err(self.refused(what, needs)) } else { Ok(()) }
    }

    /// Counts more rows in memory; `done` of `all` rows of this table have been read.
    pub(crate) fn hold(&self, what: &str, bytes: u64, done: u64, all: Option<u64>) -> Result<()> {
        let held = self.held.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if self.in_all(held) <= self.limit {
            return Ok(());
        }
        let share = all.filter(|all| *all > 0).map_or(1.0, |all| (done as f64 / all as f64).clamp(1e-6, 1.0));
        Err(self.refused(what, (self.in_all(held) as f64 / share) as u64))
    }

    /// Counts rows that are no longer in memory.
    pub(crate) fn free(&self, bytes: u64) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn refused(&self, what: &str, needs: u64) -> Error {
        Error::config(format!(
            "{what} needs about {}, --memory is {}: name fewer columns, choose rows by WHERE, or give more memory",
            size(needs),
            size(self.limit)
        ))
    }
}

/// Runs `job` on a stack for deep trees.
pub(crate) fn deep<T: Send>(job: impl FnOnce() -> T + Send) -> Result<T> {
    let no_thread = |fault| Error::Host(format!("no thread for the query: {fault}"));
    let gave_up = || Error::Invalid("the parser gave up; please report this".to_owned());
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, job).map_err(no_thread)?;
        thread.join().map_err(|_| gave_up())
    })
}

/// Runs both jobs concurrently, the first one in a thread of its own.
pub(crate) fn beside<A: Send, B>(job: impl FnOnce() -> A + Send, own: impl FnOnce() -> B) -> Result<(A, B)> {
    thread::scope(|scope| {
        let thread = scope.spawn(job);
        let own = own();
        let gave_up = |_| Error::Invalid("comparing digests gave up; please report this".to_owned());
        Ok((thread.join().map_err(gave_up)?, own))
    })
}

/// Runs `job` in a thread of its own; fails if the memory of this process grows by more than `limit` bytes meanwhile.
/// The job then continues until the process ends. `what` names it in the error.
pub(crate) fn watched<T: Send + 'static>(
    limit: u64,
    what: &str,
    job: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let (sender, receiver) = mpsc::channel();
    let before = resident().unwrap_or(0);
    let run = move || _ = sender.send(job());
    let thread = thread::Builder::new().name("query".to_owned()).stack_size(STACK).spawn(run);
    thread.map_err(|fault| Error::Host(format!("no thread for the query: {fault}")))?;
    loop {
        match receiver.recv_timeout(EVERY) {
            Ok(answer) => return answer,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Error::Invalid("the query gave up inside polars; please report this".to_owned()));
            }
            Err(RecvTimeoutError::Timeout) => {
                let holds = resident().unwrap_or(0).saturating_sub(before);
                if holds > limit {
                    let (holds, limit) = (size(holds), size(limit));
                    return Err(Error::config(format!(
                        "{what} holds {holds} and is not done, --memory is {limit}: name fewer columns, choose rows by WHERE, or \
                         give more memory"
                    )));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_much_is_refused_with_what_it_needs() {
        let budget = Budget::new(1_000_000);
        budget.plan(&[("ORDER BY", 100)]);
        budget.hold("`sent`", 400_000, 1, Some(10)).unwrap();
        let refused = budget.hold("`sent`", 200_000, 5, Some(10)).unwrap_err().to_string();
        assert!(refused.starts_with("`sent` needs about 2 MB, --memory is 1 MB: "), "{refused}");
        budget.free(500_000);
        budget.hold("`sent`", 400_000, 6, Some(10)).unwrap();
        assert!(Budget::new(10).expect("x", 5, 5).is_ok() && Budget::new(10).expect("x", 5, 6).is_err());
    }

    #[test]
    fn memory_in_use_is_read_in_kib() {
        let status = "Name:\tpktgen\nVmHWM:\t    9000 kB\nVmRSS:\t    2052 kB\nRssAnon:\t     100 kB\n";
        assert_eq!(resident_in(status), Some(2052 * 1024));
        for status in ["", "Name:\tpktgen\n", "VmRSS:\t 12 pages\n", "VmRSS:\t kB\n"] {
            assert_eq!(resident_in(status), None, "{status:?}");
        }
        assert!(resident().is_some_and(|bytes| bytes > 1 << 20));
    }

    #[test]
    fn a_job_that_holds_too_much_is_left() {
        assert_eq!(watched(1 << 40, "it", || Ok(3)).unwrap(), 3);
        let greedy = || {
            let held: Vec<Vec<u8>> = (0..200).map(|_| vec![1; 1 << 20]).collect();
            // Waits until the watcher notices and ends the wait: the receiver is gone when the test ends.
            thread::sleep(EVERY * 200);
            Ok(held.len())
        };
        let refused = watched(1 << 20, "it", greedy).unwrap_err().to_string();
        assert!(refused.starts_with("it holds ") && refused.contains("--memory is 1 MB"), "{refused}");
    }
}
