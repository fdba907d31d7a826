//! Lists the experiments below `configs/` for `src/commands/shipped.rs`, which builds them in.

use std::fs;
use std::io::{Error, Result};
use std::path::Path;

/// Folders of `configs/` that hold no experiments: profiles of hardware, which are built in elsewhere, and rules of comparisons.
const OTHERS: [&str; 2] = ["hardware", "rules"];

fn main() -> Result<()> {
    let configs = Path::new("../configs");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={}", configs.display());
    let mut names = Vec::new();
    for folder in names_in(configs)?.into_iter().filter(|folder| !OTHERS.contains(&folder.as_str())) {
        let files = names_in(&configs.join(&folder))?;
        names.extend(files.iter().filter_map(|file| file.strip_suffix(".toml")).map(|name| format!("{folder}/{name}")));
    }
    let entry = |name: &String| {
        let path = format!("/../configs/{name}.toml");
        format!("    ({name:?}, include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), {path:?}))),\n")
    };
    let list: String = names.iter().map(entry).collect();
    let out = std::env::var("OUT_DIR").map_err(Error::other)?;
    fs::write(Path::new(&out).join("shipped.rs"), format!("&[\n{list}]\n"))
}

/// The sorted names in `folder`.
fn names_in(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}
