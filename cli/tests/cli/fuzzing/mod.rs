//! Arbitrary bytes as a capture, trace, run dir or experiment: the inputs and their readers. Every entry point returns
//! a result or an error; a panic, a hang or too much memory fails the test that runs these (`fuzz.rs`).
//!
//! To add an entry point, add a [`Target`]: `prepare` makes valid files once, `attempt` modifies some of them and reads them.

mod captures;
mod experiments;
mod imports;
pub mod mutate;
mod profiles;
mod runs;
mod traces;

use std::path::{Path, PathBuf};

use mutate::Random;

/// An entry point that reads files.
pub struct Target {
    pub name: &'static str,
    /// Runs one of this many cases: slow targets are tried less often.
    pub one_of: u64,
    /// Makes valid files below a folder, and returns them.
    pub prepare: fn(&Path) -> Samples,
    /// Writes modified files and reads them.
    pub attempt: fn(&Samples, &mut Random),
}

/// All readers of files that others may have written.
pub static TARGETS: &[Target] = &[
    Target { name: "captures", one_of: 1, prepare: captures::prepare, attempt: captures::attempt },
    Target { name: "traces", one_of: 1, prepare: traces::prepare, attempt: traces::attempt },
    Target { name: "imports", one_of: 1, prepare: imports::prepare, attempt: imports::attempt },
    Target { name: "experiments", one_of: 1, prepare: experiments::prepare, attempt: experiments::attempt },
    Target { name: "profiles", one_of: 1, prepare: profiles::prepare, attempt: profiles::attempt },
    Target { name: "run dirs", one_of: 2, prepare: runs::prepare, attempt: runs::attempt },
    Target { name: "unfinished run dirs", one_of: 2, prepare: runs::prepare_unfinished, attempt: runs::recover },
    Target { name: "parts of runs", one_of: 4, prepare: runs::prepare_parts, attempt: runs::merge },
];

/// Valid files: their paths and contents.
pub struct Samples {
    /// Folder of the modified files.
    pub folder: PathBuf,
    /// Groups of files that belong together, below `folder`.
    pub groups: Vec<Vec<(PathBuf, Vec<u8>)>>,
}

impl Samples {
    /// Returns the files below `folder`, one group for each of `parts`, which are files or folders there.
    pub fn of(folder: &Path, parts: &[&str]) -> Samples {
        let read = |path: PathBuf| (path.clone(), std::fs::read(path).expect("readable"));
        let groups = parts.iter().map(|part| {
            let path = folder.join(part);
            if path.is_file() {
                return vec![read(path)];
            }
            let mut files = Vec::new();
            below(&path, &mut files);
            files.sort();
            files.into_iter().map(read).collect()
        });
        Samples { folder: folder.to_owned(), groups: groups.collect() }
    }

    /// Modifies one file of group `which`, sometimes replaces it by another or removes it. Returns its path.
    pub fn change(&self, which: usize, random: &mut Random) -> PathBuf {
        let group = &self.groups[which];
        let (path, bytes) = &group[random.below(group.len())];
        let (_, others) = random.of(&self.groups);
        let mut bytes = bytes.clone();
        match random.below(20) {
            0 => bytes = others[random.below(others.len())].1.clone(),
            1 => {
                let _ = std::fs::remove_file(path);
                return path.clone();
            }
            _ => {
                let donor = &others[random.below(others.len())].1;
                mutate::mutate(&mut bytes, donor, random);
            }
        }
        std::fs::write(path, bytes).expect("writable");
        path.clone()
    }

    /// Restores the files of group `which`.
    pub fn restore(&self, which: usize) {
        for (path, bytes) in &self.groups[which] {
            std::fs::write(path, bytes).expect("writable");
        }
    }
}

fn below(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { below(&path, files) } else { files.push(path) }
    }
}

/// Runs the binary, which must succeed.
pub fn pktgen(args: &[&str], folder: &Path) {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_pktgen"));
    let output = command.current_dir(folder).args(args).output().expect("it runs");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}
