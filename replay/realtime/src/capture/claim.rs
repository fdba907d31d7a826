//! Exclusive folders: claims by one process.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pktgen_core::{Error, Result};

/// The file that marks a claimed folder until it has content.
const MARKER: &str = ".claimed";

/// A file that marks a folder made by `pktgen demo`; it may exist in a claimed folder.
pub const DEMO: &str = "made-by-demo";

/// An empty folder that only this process uses; released on drop. Held until its first file exists: without one, a
/// folder that was made for it is removed.
#[derive(Debug)]
pub struct Claim {
    dir: PathBuf,
    /// Whether it has the marker.
    marked: bool,
    /// It and the folders around it, if they were made for it; those before a `..` of its path stay, since it leads through them.
    made: Vec<PathBuf>,
}

impl Claim {
    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Removes the marker, which a kill would leave: the folder has its first file. It is removed on drop if it is empty by then.
    pub fn unmark(&mut self) {
        if std::mem::take(&mut self.marked) {
            // Readers of the folder ignore it.
            let _ = std::fs::remove_file(self.dir.join(MARKER));
        }
    }

    /// Releases the folder, which stays although it is empty.
    pub fn keep(mut self) {
        self.made.clear();
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.unmark();
        for folder in &self.made {
            // Only empty folders are removed.
            let _ = std::fs::remove_dir(folder);
        }
    }
}

/// Claims `dir`, which must be new or empty; a folder with content is refused. Of several concurrent processes, one succeeds.
pub fn claim(dir: &Path) -> Result<Claim> {
    let new = dir.ancestors().take_while(|it| it.file_name().is_some() && !it.exists());
    let made = new.map(Path::to_owned).collect();
    std::fs::create_dir_all(dir).map_err(Error::io("create folder", dir))?;
    let marker = dir.join(MARKER);
    match File::create_new(&marker) {
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
            return Err(Error::config(format!(
                "{}: another process is about to write into the folder ({MARKER}); choose another with --out, or remove it if \
                 no such process is alive",
                dir.display()
            )));
        }
        created => created.map_err(Error::io("create", &marker))?,
    };
    let claim = Claim { dir: dir.to_owned(), marked: true, made };
    for entry in std::fs::read_dir(dir).map_err(Error::io("read", dir))? {
        let name = entry.map_err(Error::io("read", dir))?.file_name();
        if name != MARKER && name != DEMO {
            return Err(Error::config(format!(
                "{}: the folder is not empty; choose another with --out, or remove it",
                dir.display()
            )));
        }
    }
    Ok(claim)
}

/// Number and interval of attempts to lock a folder that others inspect: they hold it for microseconds.
const TRIES: u32 = 20;
const BETWEEN: Duration = Duration::from_millis(5);

/// Locks `dir`, a run or a certificate in progress, until the result is dropped or the process ends, so that nobody
/// takes it for a killed one; refuses while another process holds it. `None` if the file system has no locks.
pub fn hold(dir: &Path) -> Result<Option<File>> {
    let folder = File::open(dir).map_err(Error::io("open", dir))?;
    for _ in 0..TRIES {
        match folder.try_lock() {
            Ok(()) => return Ok(Some(folder)),
            Err(TryLockError::Error(_)) => return Ok(None),
            Err(TryLockError::WouldBlock) => std::thread::sleep(BETWEEN),
        }
    }
    Err(Error::Invalid(format!(
        "{}: it is still under way: another process writes there; wait until that has ended",
        dir.display()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_under_way_is_held() {
        let folder = tempfile::tempdir().unwrap();
        let held = hold(folder.path()).unwrap().unwrap();
        let refusal = hold(folder.path()).unwrap_err().to_string();
        assert!(refusal.contains("still under way"), "{refusal}");
        drop(held);
        // A process that only inspects the folder is waited for.
        let looks = File::open(folder.path()).unwrap();
        looks.lock_shared().unwrap();
        let free = std::thread::spawn(move || {
            std::thread::sleep(BETWEEN);
            drop(looks);
        });
        assert!(hold(folder.path()).unwrap().is_some());
        free.join().unwrap();
    }

    #[test]
    fn one_of_many_gets_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        for round in 0..50 {
            let dir = folder.path().join(format!("a/{round}"));
            let work = || match claim(&dir) {
                // The first file exists before the folder is released.
                Ok(claim) => File::create_new(claim.dir().join("manifest.json")).is_ok(),
                Err(error) => {
                    assert_eq!(error.exit_code(), 2, "{error}");
                    false
                }
            };
            let won = std::thread::scope(|scope| {
                let all: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
                all.into_iter().map(|thread| thread.join().unwrap()).filter(|won| *won).count()
            });
            assert_eq!(won, 1);
        }
    }

    #[test]
    fn a_new_folder_without_a_file_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("a/b");
        drop(claim(&dir).unwrap());
        assert!(!folder.path().join("a").exists());
        claim(&dir).unwrap().keep();
        // It is there now, whoever claims it.
        drop(claim(&dir).unwrap());
        assert!(dir.is_dir());
        let inner = claim(&dir.join("c")).unwrap();
        std::fs::write(inner.dir().join("x"), "").unwrap();
        drop(inner);
        assert!(dir.join("c/x").exists());
    }

    #[test]
    fn folders_that_a_path_leads_through_stay() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("new/../a/b");
        let first = claim(&dir).unwrap();
        std::fs::write(dir.join("x"), "").unwrap();
        drop(first);
        assert!(dir.join("x").exists());
        std::fs::remove_file(dir.join("x")).unwrap();
        drop(claim(&dir.join("c")).unwrap());
        assert!(dir.is_dir() && !dir.join("c").exists());
    }

    #[test]
    fn a_folder_without_its_marker_is_removed_if_it_is_empty_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("a/b");
        let mut own = claim(&dir).unwrap();
        std::fs::write(dir.join("x"), "").unwrap();
        own.unmark();
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1);
        let refusal = claim(&dir).unwrap_err().to_string();
        assert!(refusal.contains("the folder is not empty"), "{refusal}");
        std::fs::remove_file(dir.join("x")).unwrap();
        drop(own);
        assert!(!folder.path().join("a").exists());
    }

    #[test]
    fn an_empty_folder_is_free_again() {
        let folder = tempfile::tempdir().unwrap();
        let first = claim(folder.path()).unwrap();
        let refusal = claim(folder.path()).unwrap_err().to_string();
        assert!(refusal.contains("another process is about to write"), "{refusal}");
        drop(first);
        drop(claim(folder.path()).unwrap());
        std::fs::write(folder.path().join("x"), "").unwrap();
        let refusal = claim(folder.path()).unwrap_err().to_string();
        assert!(refusal.contains("the folder is not empty; choose another with --out"), "{refusal}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
