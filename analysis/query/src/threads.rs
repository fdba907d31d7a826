//! Numbers of threads that polars takes from the environment: it panics with some texts.
//!
//! Called by [`crate::statement`] before polars receives a statement.

use pktgen_core::{Error, Result};

/// Whether polars panics with the text of a variable.
type Panics = fn(&str) -> bool;

/// Variables of polars. It ignores texts of the first one that are no number.
const VARIABLES: [(&str, Panics); 3] = [
    ("POLARS_MAX_THREADS", |text| text.trim_ascii().parse::<u64>() == Ok(0)),
    ("POLARS_ASYNC_THREAD_COUNT", is_no_number),
    ("POLARS_MAX_BLOCKING_THREAD_COUNT", is_no_number),
];

fn is_no_number(text: &str) -> bool {
    text.parse::<usize>().unwrap_or(0) == 0
}

/// Refuses variables with which polars panics; `text_of` returns the text of a variable that is set.
pub(crate) fn check(text_of: impl Fn(&str) -> Option<String>) -> Result<()> {
    for (name, panics) in VARIABLES {
        if let Some(text) = text_of(name).filter(|text| panics(text)) {
            let what = "a query needs a whole number of threads from 1; raise or unset this environment variable";
            return Err(Error::config(format!("{name}={text}: {what}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_with_which_polars_panics_are_refused() {
        let check = |name: &str, text: &str| check(|other| (other == name).then(|| text.to_owned()));
        for (name, refused, taken) in [
            ("POLARS_MAX_THREADS", &["0", " 00 "][..], &["1", " 8", "", "abc", "-1"][..]),
            ("POLARS_ASYNC_THREAD_COUNT", &["0", "abc", "", "-1", " 4"], &["1", "4"]),
            ("POLARS_MAX_BLOCKING_THREAD_COUNT", &["0", "1.5"], &["1", "512"]),
            ("POLARS_VERBOSE", &[], &["0"]),
        ] {
            for text in refused {
                let fault = check(name, text).unwrap_err();
                let start = format!("{name}={text}: a query needs a whole number of threads from 1;");
                assert!(fault.to_string().starts_with(&start), "{fault}");
                assert_eq!(fault.exit_code(), 2);
            }
            assert!(taken.iter().all(|text| check(name, text).is_ok()), "{name}");
        }
    }
}
