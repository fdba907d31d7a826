//! Output files at paths given by the user.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pktgen_core::record::STREAMS;
use pktgen_core::record::digest::{FRAME_FILES, FileDigests};
use pktgen_core::whole::end_of_links;
use pktgen_core::{Error, Result};

/// The file that identifies a run dir.
const RUN: &str = "manifest.json";
/// Files that identify folders of other commands.
const INDEXES: [&str; 3] = [RUN, "sweep.json", "tables.json"];

/// What an index holds in every version: its number, and later the listed files. Files of other programs have neither.
#[derive(serde::Deserialize)]
struct Index {
    version: Option<u32>,
    files: Option<FileDigests>,
}

/// Refuses to write to `path` if it is a file of a run dir, a sweep or a folder of tables, whose records would be lost, or would be
/// taken for one, such as a stream that the manifest does not list: the folder would be refused. For a link, its target is checked.
pub(crate) fn check_output(path: &Path) -> Result<()> {
    match clash(path).or_else(|| clash(&end_of_links(path))) {
        None => Ok(()),
        Some(why) => Err(Error::config(format!("{}: {why}; choose another name or folder", path.display()))),
    }
}

/// Returns why no output may have the name `path`, if it is, or would be taken for, a file of a run, a sweep or tables.
fn clash(path: &Path) -> Option<String> {
    let name = path.file_name().unwrap_or_default();
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    let is_stream = path.file_stem().is_some_and(|stem| STREAMS.iter().any(|stream| stem == stream.name))
        && path.extension().is_some_and(|ending| ending == "parquet" || ending == "arrows");
    let is_frames = FRAME_FILES.iter().any(|frames| name == *frames);
    let place = folder.display();
    INDEXES.iter().find_map(|index| {
        let text = std::fs::read(folder.join(index)).ok()?;
        let Index { version, files } = serde_json::from_slice(&text).ok()?;
        if version.is_none() && files.is_none() {
            return None;
        }
        let is_listed = files.is_some_and(|files| files.contains_key(&*name.to_string_lossy()));
        let is_index = INDEXES.iter().any(|own| name == *own);
        let is_record = is_listed || is_index || *index == RUN && (is_stream || is_frames);
        // Streams of a killed run are not listed, and are lost as well.
        is_record.then(|| match path.exists() {
            true => format!("names a file of the run or sweep in {place}, which would be lost"),
            false => format!("would be taken for a file of the run or sweep in {place}, which would then be refused"),
        })
    })
}

/// Does the same for all `outputs` of a command, which must differ from its `inputs` and from each other.
pub(crate) fn check_outputs<'a>(
    outputs: impl IntoIterator<Item = &'a PathBuf>,
    inputs: impl IntoIterator<Item = &'a Path>,
) -> Result<()> {
    let outputs: Vec<&PathBuf> = outputs.into_iter().collect();
    let inputs: Vec<&Path> = inputs.into_iter().collect();
    // Links denote the same file, too.
    let file =
        |path: &Path| path.metadata().ok().filter(|facts| facts.is_file()).map(|facts| (facts.dev(), facts.ino()));
    for (n, path) in outputs.iter().enumerate() {
        check_output(path)?;
        if outputs[..n].contains(path) {
            return Err(Error::config(format!("{}: two outputs have this name; give each its own", path.display())));
        }
        let own = file(path);
        if own.is_some() && inputs.iter().any(|input| file(input) == own) {
            return Err(Error::config(format!(
                "{}: is an input, and would be lost; choose another name for the output",
                path.display()
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_runs_are_not_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| check_output(&dir.path().join(name)).map_err(|error| error.to_string());
        assert!(["manifest.json", "sent.parquet", "x.html"].iter().all(|name| at(name).is_ok()), "no run");
        let text = r#"{"files": {"sent.parquet": {"bytes": 1, "sha256": "00"}}}"#;
        std::fs::write(dir.path().join("manifest.json"), text).unwrap();
        let refused = |name: &str, why: &str| {
            let error = at(name).unwrap_err();
            assert!(error.ends_with(&format!("{why}; choose another name or folder")), "{error}");
        };
        refused("manifest.json", "which would be lost");
        refused("sweep.json", "which would then be refused");
        refused("sent.parquet", "which would then be refused");
        assert!(at("report.html").is_ok() && at("own.parquet").is_ok());
        // A run is refused with streams that its manifest does not list.
        for name in ["states.parquet", "sent.arrows", "received.arrows", "frames.arrows", "frames.parquet"] {
            refused(name, "which would then be refused");
            std::fs::write(dir.path().join(name), "of a killed run").unwrap();
            refused(name, "which would be lost");
        }
        assert!(["states.csv", "states.json", "states"].iter().all(|name| at(name).is_ok()));
        std::fs::rename(dir.path().join("manifest.json"), dir.path().join("tables.json")).unwrap();
        assert!(at("states.parquet").is_ok() && at("sent.parquet").is_err(), "a folder of tables");
    }

    #[test]
    fn manifests_of_other_programs_are_no_runs() {
        let dir = tempfile::tempdir().unwrap();
        let at = |text: &str, name: &str| {
            std::fs::write(dir.path().join("manifest.json"), text).unwrap();
            check_output(&dir.path().join(name))
        };
        // Of a web application, an extension of a browser, a build.
        for text in [r#"{"name": "app"}"#, r#"{"version": "1.0"}"#, r#"{"files": {"main.js": "/main.1.js"}}"#, "[]"] {
            for name in ["sent.parquet", "states.arrows", "frames.parquet", "manifest.json"] {
                assert!(at(text, name).is_ok(), "{text}: {name}");
            }
        }
        for text in [r#"{"version": 1}"#, r#"{"version": 2, "files": {}}"#, r#"{"files": {}}"#] {
            for name in ["sent.parquet", "manifest.json"] {
                assert!(at(text, name).is_err(), "{text}: {name}");
            }
        }
    }

    #[test]
    fn links_to_files_of_runs_are_not_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir(at("run")).unwrap();
        let text = r#"{"files": {"sent.parquet": {"bytes": 1, "sha256": "00"}}}"#;
        std::fs::write(at("run/manifest.json"), text).unwrap();
        for name in ["sent.parquet", "own.csv"] {
            std::fs::write(at("run").join(name), "x").unwrap();
        }
        let link = |to: &str| {
            let link = at(&format!("to-{to}"));
            std::os::unix::fs::symlink(at("run").join(to), &link).unwrap();
            check_output(&link).map_err(|error| error.to_string())
        };
        for name in ["sent.parquet", "manifest.json"] {
            let error = link(name).unwrap_err();
            assert!(error.contains(&format!("to-{name}: names a file")) && error.contains("/run, which"), "{error}");
        }
        assert_eq!(link("own.csv"), Ok(()));
        // Links to files that do not exist yet.
        let error = link("states.parquet").unwrap_err();
        assert!(error.contains("to-states.parquet: would be taken") && error.contains("/run, which"), "{error}");
        assert_eq!(link("new.csv"), Ok(()));
    }

    #[test]
    fn inputs_are_not_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let [input, link, hard, other] = ["in", "link", "hard", "other"].map(|name| dir.path().join(name));
        std::fs::write(&input, "x").unwrap();
        std::os::unix::fs::symlink(&input, &link).unwrap();
        std::fs::hard_link(&input, &hard).unwrap();
        for lost in [&input, &link, &hard] {
            let error = check_outputs([&other, lost], [input.as_path()]).unwrap_err().to_string();
            assert!(error.contains("would be lost"), "{error}");
        }
        check_outputs([&other], [input.as_path()]).unwrap();
        assert!(check_outputs([&other, &other], []).unwrap_err().to_string().contains("two outputs"));
    }
}
