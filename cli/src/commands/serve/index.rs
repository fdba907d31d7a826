//! Index of a folder: run dirs, sweeps, pages. Links are not followed, and nothing outside the folder is opened.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, Metadata, TryLockError};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use super::manifest::{RunFile, SweepFile, read};
use crate::commands::live::RUN_ROWS;

/// Maximum depth of folders below the served one; the runs of a sweep are one deeper.
const DEPTH: usize = 6;
/// Maximum numbers of examined folder entries and of listed run dirs.
const ENTRIES_MAX: usize = 100_000;
const RUNS_MAX: usize = 5000;
/// Maximum number and length of an invalid run's reasons in a list.
const WHY_MAX: usize = 3;
const WHY_CHARS: usize = 240;

pub(super) const MANIFEST: &str = "manifest.json";
const SWEEP: &str = "sweep.json";
pub(super) const REPORT: &str = "report.html";

/// Identifies contents of a file or a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Edition {
    /// Of a file: a hash of its length, inode and times. A copy may have the length and the time of modification of another file.
    mark: u64,
    /// Time of modification: seconds and nanoseconds.
    modified: (i64, i64),
}

fn hash(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

fn edition(about: &Metadata) -> Edition {
    let modified = (about.mtime(), about.mtime_nsec());
    let changed = (about.ctime(), about.ctime_nsec());
    Edition { mark: hash((about.len(), about.dev(), about.ino(), modified, changed)), modified }
}

/// Kind of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Run,
    Sweep,
}

impl Kind {
    fn name(self) -> &'static str {
        if self == Kind::Run { "run" } else { "sweep" }
    }
}

/// State of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// A process has locked it or its statistics.
    InProgress,
    /// It began, but no process has locked its statistics.
    Killed,
    /// It began; it is unknown whether it is still running.
    Unknown,
    Interrupted,
    Finished,
}

impl State {
    pub(super) fn name(self) -> &'static str {
        match self {
            State::InProgress => "in_progress",
            State::Killed => "killed",
            State::Unknown => "unknown",
            State::Interrupted => "interrupted",
            State::Finished => "finished",
        }
    }
}

/// A run dir or a sweep.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) kind: Kind,
    pub(super) state: State,
    /// Whether it has its report.
    pub(super) report: bool,
    /// Whether it has statistics.
    pub(super) rows: bool,
    pub(super) edition: Edition,
    /// Facts for lists.
    facts: Value,
}

/// Contents of a folder.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// By path relative to the folder; the folder itself is "".
    pub(super) found: BTreeMap<String, Found>,
    /// Other pages: comparisons and histories.
    pub(super) pages: Vec<String>,
    /// Whether the list is incomplete.
    left_out: bool,
    /// The list of runs, computed on the first request.
    list: OnceLock<Arc<str>>,
}

impl Index {
    /// Returns the list of runs.
    pub(super) fn list(&self, folder: &str) -> Arc<str> {
        self.list.get_or_init(|| self.listed(folder).into()).clone()
    }

    fn listed(&self, folder: &str) -> String {
        let item = |(path, found): (&String, &Found)| {
            let mut item = found.facts.clone();
            item["path"] = json!(path);
            item["state"] = json!(found.state.name());
            item["report"] = json!(found.report);
            item["rows"] = json!(found.rows);
            item
        };
        let runs: Vec<_> = self.found.iter().map(item).collect();
        json!({ "folder": folder, "runs": runs, "pages": self.pages, "left_out": self.left_out }).to_string()
    }

    /// Identifies the contents at `path`: those of a sweep change with its runs, too.
    pub(super) fn edition(&self, path: &str) -> Edition {
        let inside = if path.is_empty() { String::new() } else { format!("{path}/") };
        let below = self.found.range(inside.clone()..).take_while(|(known, _)| known.starts_with(&inside));
        let below = below.map(|(known, found)| (known.as_str(), found.edition));
        let own = self.found.get(path).filter(|_| !path.is_empty());
        let all: Vec<_> = own.map(|found| (path, found.edition)).into_iter().chain(below).collect();
        let modified = all.iter().map(|(_, edition)| edition.modified).max().unwrap_or_default();
        Edition { mark: hash(all), modified }
    }

    /// Whether a run is known to be in progress.
    pub(super) fn busy(&self) -> bool {
        self.found.values().any(|found| found.state == State::InProgress)
    }
}

/// A served folder.
pub(super) struct Folder {
    /// Path without links.
    root: PathBuf,
    /// Summaries of manifests by path, valid while the manifests are unchanged.
    known: HashMap<String, (Edition, Summary)>,
}

/// Summary of a manifest.
#[derive(Debug, Clone)]
struct Summary {
    running: bool,
    interrupted: bool,
    facts: Value,
}

impl Folder {
    pub(super) fn new(root: PathBuf) -> Self {
        Folder { root, known: HashMap::new() }
    }

    /// Scans the folder again.
    pub(super) fn scan(&mut self) -> Index {
        let mut index = Index::default();
        let (mut folders, mut entries) = (vec![(String::new(), 0)], 0);
        let mut known = std::mem::take(&mut self.known);
        while let Some((path, depth)) = folders.pop() {
            let Ok(listed) = fs::read_dir(self.root.join(&path)) else { continue };
            let mut names = Names::default();
            for entry in listed.flatten() {
                entries += 1;
                if entries > ENTRIES_MAX {
                    index.left_out = true;
                    break;
                }
                names.add(&entry);
            }
            index.left_out |= names.unnamed;
            if let Some(found) = self.find(&path, &names, &mut known) {
                if index.found.len() >= RUNS_MAX {
                    index.left_out = true;
                    break;
                }
                index.found.insert(path.clone(), found);
            } else if names.has(REPORT) {
                // The report of a folder of runs without sweep.json, or any page of that name.
                names.pages.push(REPORT.to_owned());
            }
            let room = RUNS_MAX.saturating_sub(index.pages.len());
            index.left_out |= names.pages.len() > room;
            index.pages.extend(names.pages.iter().take(room).map(|page| joined(&path, page)));
            let most = DEPTH + usize::from(names.has(SWEEP));
            index.left_out |= depth >= most && !names.folders.is_empty();
            if depth < most {
                folders.extend(names.folders.iter().map(|name| (joined(&path, name), depth + 1)));
            }
        }
        index.pages.sort();
        let with_report = index.found.iter().filter(|(_, found)| found.report && found.kind == Kind::Sweep);
        let old = with_report.filter(|(path, _)| !self.is_of(path, index.edition(path)));
        let old: Vec<String> = old.map(|(path, _)| path.clone()).collect();
        for path in old {
            if let Some(found) = index.found.get_mut(&path) {
                found.report = false;
            }
        }
        index
    }

    fn find(&mut self, path: &str, names: &Names, known: &mut HashMap<String, (Edition, Summary)>) -> Option<Found> {
        let (kind, file) = match (names.has(MANIFEST), names.has(SWEEP)) {
            (true, _) => (Kind::Run, MANIFEST),
            (false, true) => (Kind::Sweep, SWEEP),
            _ => return None,
        };
        let file = open(&self.root, &joined(path, file))?;
        let edition = edition(&file.metadata().ok()?);
        let summary = match known.remove(path) {
            Some((read, summary)) if read == edition => summary,
            _ => summary(kind, file),
        };
        let rows = names.has(RUN_ROWS);
        let state = match (&summary, kind) {
            (Summary { running: true, .. }, _) => self.holder(path, rows, edition),
            (Summary { interrupted: true, .. }, _) => State::Interrupted,
            _ => State::Finished,
        };
        let report = names.has(REPORT) && self.is_of(path, edition);
        let facts = summary.facts.clone();
        self.known.insert(path.to_owned(), (edition, summary));
        Some(Found { kind, state, report, rows, edition, facts })
    }

    /// Returns whether a process has locked an unfinished run or its statistics. A missing lock of the folder proves
    /// nothing, since older versions do not lock it.
    fn holder(&self, path: &str, rows: bool, read: Edition) -> State {
        let held = |file: Option<File>| {
            file.map_or(State::Unknown, |file| match file.try_lock_shared() {
                Err(TryLockError::WouldBlock) => State::InProgress,
                Err(TryLockError::Error(_)) => State::Unknown,
                Ok(()) => State::Killed,
            })
        };
        let state = match (held(File::open(self.root.join(path)).ok()), rows) {
            (State::InProgress, _) => State::InProgress,
            (_, false) => State::Unknown,
            (_, true) => held(open(&self.root, &joined(path, RUN_ROWS))),
        };
        // It may have ended since its manifest was read: the next scan shows how.
        let now = open(&self.root, &joined(path, MANIFEST)).and_then(|file| file.metadata().ok());
        if state == State::Killed && now.is_some_and(|about| edition(&about) != read) {
            State::InProgress
        } else {
            state
        }
    }

    /// Whether the existing report is not older than the current manifest.
    fn is_of(&self, path: &str, edition: Edition) -> bool {
        let about = fs::symlink_metadata(self.root.join(joined(path, REPORT)));
        about.is_ok_and(|about| (about.mtime(), about.mtime_nsec()) >= edition.modified)
    }
}

/// The relevant names in a folder.
#[derive(Default)]
struct Names {
    files: Vec<&'static str>,
    folders: Vec<String>,
    pages: Vec<String>,
    /// Whether a folder's name is not UTF-8, so that no address has it.
    unnamed: bool,
}

impl Names {
    fn add(&mut self, entry: &fs::DirEntry) {
        let Ok(kind) = entry.file_type() else { return };
        let Ok(name) = entry.file_name().into_string() else {
            self.unnamed |= kind.is_dir();
            return;
        };
        // A variant, or --out, may have given a run or a sweep such a name.
        let is_there = |file: &str| fs::symlink_metadata(entry.path().join(file)).is_ok_and(|about| about.is_file());
        let is_run = || [MANIFEST, SWEEP].iter().any(|file| is_there(file));
        if name.starts_with('.') && !(kind.is_dir() && is_run()) {
            return;
        }
        if kind.is_dir() {
            self.folders.push(name);
        } else if kind.is_file() {
            if let Some(known) = [MANIFEST, SWEEP, REPORT, RUN_ROWS].into_iter().find(|known| *known == name) {
                self.files.push(known);
            } else if name.ends_with(".html") {
                self.pages.push(name);
            }
        }
    }

    fn has(&self, name: &str) -> bool {
        self.files.contains(&name)
    }
}

/// Returns a path relative to the folder.
pub(super) fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") }
}

/// Returns why no report is made of the folder at `path`. Examines all files, since reports also read unlisted ones.
pub(super) fn obstacle(root: &Path, path: &str) -> Option<String> {
    let (mut folders, mut entries) = (vec![root.join(path)], 0);
    while let Some(folder) = folders.pop() {
        let listed = match fs::read_dir(folder) {
            Ok(listed) => listed,
            Err(e) if e.kind() == ErrorKind::NotFound => continue,
            Err(e) => return Some(format!("that cannot be examined ({e})")),
        };
        for entry in listed {
            entries += 1;
            match entry.and_then(|entry| Ok((entry.file_type()?, entry.path()))) {
                _ if entries > ENTRIES_MAX => return Some(format!("with more than {ENTRIES_MAX} files")),
                Ok((kind, _)) if kind.is_symlink() => return Some("with links".to_owned()),
                Ok((kind, path)) if kind.is_dir() => folders.push(path),
                Ok(_) => {}
                Err(e) => return Some(format!("that cannot be examined ({e})")),
            }
        }
    }
    None
}

/// Opens a file below `root` for reading, and checks its real path, since a folder on the path may have become a link.
pub(super) fn open(root: &Path, path: &str) -> Option<File> {
    let full = root.join(path);
    // Opening a pipe would block until it has a writer.
    fs::symlink_metadata(&full).ok().filter(Metadata::is_file)?;
    let file = File::open(&full).ok()?;
    let real = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
    (real == full).then_some(file)
}

fn summary(kind: Kind, file: File) -> Summary {
    let said = match kind {
        Kind::Run => read(file).map(|run| of_run(&run)),
        Kind::Sweep => read(file).map(|sweep| of_sweep(&sweep)),
    };
    said.unwrap_or_else(|why| {
        let why = format!("its {} cannot be read: {why}", if kind == Kind::Run { MANIFEST } else { SWEEP });
        let facts = json!({ "kind": kind.name(), "valid": false, "why": [why], "labels": {} });
        Summary { running: false, interrupted: false, facts }
    })
}

fn of_run(run: &RunFile) -> Summary {
    let faults = run.faults();
    let short = |why: &String| why.chars().take(WHY_CHARS).collect::<String>();
    let mut why: Vec<String> = faults.iter().take(WHY_MAX).map(short).collect();
    if faults.len() > WHY_MAX {
        why.push(format!("and {} more", faults.len() - WHY_MAX));
    }
    let facts = json!({
        "kind": Kind::Run.name(),
        "experiment": run.experiment,
        "valid": run.valid(),
        "why": why,
        "labels": run.labels,
        "seed": run.seed(),
        "part": run.part,
        "created_ms": run.created_ms(),
    });
    Summary { running: run.running(), interrupted: run.state == "interrupted", facts }
}

fn of_sweep(sweep: &SweepFile) -> Summary {
    let facts = json!({
        "kind": Kind::Sweep.name(),
        "experiment": sweep.experiment,
        "valid": null,
        "why": [],
        "labels": {},
        "runs": sweep.runs.len(),
    });
    Summary { running: false, interrupted: false, facts }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `tar`, `rsync -t` and `SOURCE_DATE_EPOCH` give them.
    #[test]
    fn a_run_in_the_place_of_another_of_its_length_and_time_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let time = root.metadata().unwrap().modified().unwrap();
        for (name, text) in [("a", "{\"seed\": 4}"), ("b", "{\"seed\": 5}")] {
            fs::create_dir_all(root.join("sweep").join(name)).unwrap();
            let path = root.join("sweep").join(name).join(MANIFEST);
            fs::write(&path, text).unwrap();
            let file = File::options().write(true).open(&path).unwrap();
            file.set_modified(time).unwrap();
        }
        fs::write(root.join("sweep").join(SWEEP), "{}").unwrap();
        let mut served = Folder::new(root.clone());
        let editions = |index: &Index| ["sweep/a", "sweep", ""].map(|path| index.edition(path));
        let before = editions(&served.scan());
        assert_eq!(editions(&served.scan()), before);
        for (from, to) in [("a", "c"), ("b", "a"), ("c", "b")] {
            fs::rename(root.join("sweep").join(from), root.join("sweep").join(to)).unwrap();
        }
        let after = editions(&served.scan());
        assert!(before.iter().zip(&after).all(|(before, after)| before != after), "{before:?} {after:?}");
    }
}
