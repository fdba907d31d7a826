//! Numbers of threads that polars takes from the environment: it panics with some texts, and starts as many as are named.
//!
//! Called by [`crate::statement`] before polars receives a statement.

use pktgen_core::{Error, Result};

/// Maximum number of threads, above the cores of a host. A few thousand take seconds to start, many more do not start.
const MAX: u64 = 1024;

/// Whether the text of a variable is refused.
type Refused = fn(&str) -> bool;

/// Variables of polars. It ignores texts of the first one that are no number.
const VARIABLES: [(&str, Refused); 3] = [
    ("POLARS_MAX_THREADS", |text| text.trim_ascii().parse::<u64>().is_ok_and(|threads| !is_in_range(threads))),
    ("POLARS_ASYNC_THREAD_COUNT", is_no_number),
    ("POLARS_MAX_BLOCKING_THREAD_COUNT", is_no_number),
];

fn is_in_range(threads: u64) -> bool {
    (1..=MAX).contains(&threads)
}

fn is_no_number(text: &str) -> bool {
    !text.parse::<u64>().is_ok_and(is_in_range)
}

/// Refuses numbers that are outside the range; `text_of` returns the text of a variable that is set.
pub(crate) fn check(text_of: impl Fn(&str) -> Option<String>) -> Result<()> {
    for (name, refused) in VARIABLES {
        if let Some(text) = text_of(name).filter(|text| refused(text)) {
            return Err(Error::config(format!(
                "{name}={text}: a query needs a whole number of threads from 1 to {MAX}; change or unset this \
                 environment variable"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_threads_outside_the_range_are_refused() {
        let check = |name: &str, text: &str| check(|other| (other == name).then(|| text.to_owned()));
        for (name, refused, taken) in [
            ("POLARS_MAX_THREADS", &["0", " 00 ", "1025", " 100000"][..], &["1", " 8", "1024", "", "abc", "-1"][..]),
            ("POLARS_ASYNC_THREAD_COUNT", &["0", "abc", "", "-1", " 4", "1025"], &["1", "4", "1024"]),
            ("POLARS_MAX_BLOCKING_THREAD_COUNT", &["0", "1.5", "1025"], &["1", "512"]),
            ("POLARS_VERBOSE", &[], &["0"]),
        ] {
            for text in refused {
                let fault = check(name, text).unwrap_err();
                let start = format!("{name}={text}: a query needs a whole number of threads from 1 to 1024;");
                assert!(fault.to_string().starts_with(&start), "{fault}");
                assert_eq!(fault.exit_code(), 2);
            }
            assert!(taken.iter().all(|text| check(name, text).is_ok()), "{name}");
        }
    }
}
