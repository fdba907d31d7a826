//! Look-up of names in registries, with a suggestion if the name is unknown.

use crate::{Error, Result};

/// A registered extension: a name and a one-line description.
pub trait Named {
    /// Returns the name in experiment files and on the command line.
    fn name(&self) -> &'static str;
    /// Returns one line for `pktgen list` and the docs.
    fn about(&self) -> &'static str;
}

/// Returns the entry of `list` called `name`; errors name the kind of entry `what` and the position `at`.
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

/// Returns `, did you mean "x"?` for the nearest of `names`, or an empty text if none is near.
pub fn suggest(name: &str, names: &[&str]) -> String {
    names
        .iter()
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(score, _)| *score > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| format!(", did you mean \"{candidate}\"?"))
        .unwrap_or_default()
}
