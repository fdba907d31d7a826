//! Sets the commit that the crate is built from, for the manifests of runs. Reads git's files; runs nothing.

use std::fs;
use std::path::Path;

fn main() {
    let git = Path::new("../../.git");
    println!("cargo::rerun-if-changed=build.rs");
    let head = git.join("HEAD");
    let mut commit = None;
    if let Ok(text) = fs::read_to_string(&head) {
        println!("cargo::rerun-if-changed={}", head.display());
        commit = match text.trim().strip_prefix("ref: ") {
            None => Some(text.trim().to_owned()),
            Some(name) => branch(git, name),
        };
    }
    let short = commit.as_deref().and_then(|c| c.get(..12)).unwrap_or("no commit");
    println!("cargo::rustc-env=PKTGEN_COMMIT={short}");
}

/// The commit of a branch, from its own file or the packed ones.
fn branch(git: &Path, name: &str) -> Option<String> {
    let own = git.join(name);
    if let Ok(text) = fs::read_to_string(&own) {
        println!("cargo::rerun-if-changed={}", own.display());
        return Some(text.trim().to_owned());
    }
    let packed = fs::read_to_string(git.join("packed-refs")).ok()?;
    packed.lines().find_map(|line| line.strip_suffix(name).map(|commit| commit.trim().to_owned()))
}
