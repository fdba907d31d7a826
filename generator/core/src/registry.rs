//! Looking a name up in a registry, with the nearest valid name when it is not there.

use crate::{Error, Result};

/// What every registered extension has: a name and one line about it.
pub trait Named {
    /// The name in experiment files and on the command line.
    fn name(&self) -> &'static str;
    /// One line for `pktgen list` and the docs.
    fn about(&self) -> &'static str;
}

/// The entry of `list` called `name`; `what` says what is looked up, `at` where the name stands.
pub fn find<'a, T: Named + ?Sized>(list: &[&'a T], what: &str, name: &str, at: &str) -> Result<&'a T> {
    list.iter().find(|entry| entry.name() == name).copied().ok_or_else(|| {
        let names: Vec<_> = list.iter().map(|entry| entry.name()).collect();
        Error::config(format!(
            "{at}: there is no {what} \"{name}\"{}; there are: {}",
            suggest(name, &names),
            names.join(", ")
        ))
    })
}

/// `, did you mean "x"?` for the nearest of `names`, or nothing if none is near.
pub fn suggest(name: &str, names: &[&str]) -> String {
    names
        .iter()
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(score, _)| *score > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| format!(", did you mean \"{candidate}\"?"))
        .unwrap_or_default()
}
