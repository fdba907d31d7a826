//! The experiments of `configs/`, built in: their names work in every folder, without the repository.

use std::path::Path;

use pktgen_core::registry::suggest;

/// Names (folder and file of `configs/`, without `.toml`) and texts, sorted; written by `build.rs`.
const SHIPPED: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/shipped.rs"));

/// The built-in experiment that `path` names, with the path that it has in the repository.
pub(super) fn named(path: &Path) -> Option<(String, &'static str)> {
    let wanted = path.to_str()?;
    let (name, text) = SHIPPED.iter().find(|(name, _)| *name == wanted)?;
    Some((format!("configs/{name}.toml"), text))
}

/// The nearest name, as words of an error.
pub(super) fn near(path: &Path) -> String {
    let names: Vec<_> = SHIPPED.iter().map(|(name, _)| *name).collect();
    suggest(&path.to_string_lossy(), &names)
}

/// Every name, and what its experiment is about.
pub(super) fn all() -> Vec<(&'static str, &'static str)> {
    SHIPPED.iter().map(|(name, text)| (*name, about(text))).collect()
}

/// The text of the key `about`.
fn about(text: &'static str) -> &'static str {
    text.lines().find_map(|line| line.strip_prefix("about = \"")?.strip_suffix('"')).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiments_are_known_by_name_and_say_what_they_are_about() {
        assert!(SHIPPED.len() > 50, "{}", SHIPPED.len());
        for (name, about) in all() {
            assert!(!about.is_empty(), "{name}: the first lines have no about");
            let (path, text) = named(Path::new(name)).expect("known by its name");
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
            assert_eq!(std::fs::read_to_string(folder.join(path)).expect("in the repository"), text, "{name}");
        }
        assert!(named(Path::new("rules/olaf")).is_none(), "rules are no experiment");
    }
}
