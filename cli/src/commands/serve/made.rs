//! Reports and comparisons that do not exist as files: created by a separate process, one at a time, and kept until the server ends.

use std::collections::VecDeque;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pktgen_core::{Error, Result};
use tempfile::TempDir;
use tokio::sync::{OnceCell, Semaphore};

use super::index::Edition;
use super::shared::SharedIndex;

/// Maximum number of pages that are kept; the oldest are removed, except those that a request waits for.
const KEPT: usize = 32;
/// Maximum number of requests waiting while a page is created, also for the same page.
const WAITING: usize = 8;
/// Interval and maximum number of checks whether a page is finished.
const LOOK: Duration = Duration::from_millis(50);
const LOOKS: u32 = 20 * 600;

/// Why no page is made at present.
pub(super) const BUSY: &str = "a run below this folder is in progress, and a report would take processor time from \
     it; reload this page when the run has ended";

/// The subject of a page: a run, and its baseline, in their present state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) run: (String, Edition),
    pub(super) baseline: Option<(String, Edition)>,
}

/// A page, once it is created.
type Page = Arc<OnceCell<PathBuf>>;

/// Creates pages and keeps them.
pub(super) struct Workshop {
    /// The folder of pages, once it was created; removed with the server.
    folder: Mutex<Option<TempDir>>,
    pages: Mutex<VecDeque<(Wanted, Page)>>,
    turn: Semaphore,
    waiting: AtomicUsize,
    count: AtomicUsize,
    stop: Arc<AtomicBool>,
}

impl Workshop {
    pub(super) fn new(stop: Arc<AtomicBool>) -> Self {
        Workshop {
            folder: Mutex::default(),
            pages: Mutex::default(),
            turn: Semaphore::new(1),
            waiting: AtomicUsize::new(0),
            count: AtomicUsize::new(0),
            stop,
        }
    }

    /// Returns the folder of pages. Temporary folders are cleaned: it is created again if it is gone.
    fn folder(&self) -> Result<PathBuf> {
        let mut folder = self.folder.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(existing) = folder.as_ref().filter(|folder| folder.path().is_dir()) {
            return Ok(existing.path().to_owned());
        }
        Ok(folder.insert(own_folder()?).path().to_owned())
    }

    /// Returns the page, creating it if necessary. Errors explain why there is none.
    pub(super) async fn page(
        &self,
        root: &Path,
        shared: &SharedIndex,
        wanted: Wanted,
    ) -> std::result::Result<File, String> {
        let (page, _waits) = self.kept(&wanted)?;
        let path = page.get_or_try_init(|| self.make(root, shared, &wanted)).await?;
        File::open(path).map_err(|e| e.to_string())
    }

    /// Returns the entry of a page, and of one that does not exist yet the place of a request that waits for it. A
    /// refused request displaces no page.
    fn kept(&self, wanted: &Wanted) -> std::result::Result<(Page, Option<Waits<'_>>), String> {
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        // The file of a page may be gone, as the folder may.
        let gone = |page: &Page| page.get().is_some_and(|path| !path.is_file());
        pages.retain(|(known, page)| known != wanted || !gone(page));
        let known = pages.iter().find(|(known, _)| known == wanted).map(|(_, page)| page.clone());
        if let Some(page) = known.as_ref().filter(|page| page.initialized()) {
            return Ok((page.clone(), None));
        }
        let waits = Waits::begin(&self.waiting).ok_or("too many reports are waiting to be made; try again later")?;
        if let Some(page) = known {
            return Ok((page, Some(waits)));
        }
        // Requests hold the pages that they wait for or open.
        let held = |page: &Page| Arc::strong_count(page) > 1;
        pages.retain(|(_, page)| page.initialized() || held(page));
        while pages.len() >= KEPT {
            let Some(oldest) = pages.iter().position(|(_, page)| !held(page)) else { break };
            let path = pages.remove(oldest).and_then(|(_, page)| page.get().cloned());
            path.into_iter().for_each(|path| drop(fs::remove_file(path)));
        }
        let page = Page::default();
        pages.push_back((wanted.clone(), page.clone()));
        Ok((page, Some(waits)))
    }

    async fn make(&self, root: &Path, shared: &SharedIndex, wanted: &Wanted) -> std::result::Result<PathBuf, String> {
        let _turn = self.turn.acquire().await.map_err(|e| e.to_string())?;
        // It may have begun while the page waited.
        if shared.index().await.busy() {
            return Err(BUSY.to_owned());
        }
        let folder = self.folder().map_err(|e| e.to_string())?;
        let path = folder.join(format!("{}.html", self.count.fetch_add(1, Ordering::Relaxed)));
        let mut command = Command::new(std::env::current_exe().map_err(|e| e.to_string())?);
        command.args(["--quiet", "report"]).arg(root.join(&wanted.run.0)).arg("--out").arg(&path);
        if let Some((baseline, _)) = &wanted.baseline {
            command.arg("--baseline").arg(root.join(baseline));
        }
        let (stop, errors) = (self.stop.clone(), folder.join("errors.txt"));
        let made = path.clone();
        tokio::task::spawn_blocking(move || run(&mut command, &made, &errors, &stop))
            .await
            .map_err(|e| e.to_string())??;
        Ok(path)
    }
}

/// Creates a new folder that others cannot enter.
fn own_folder() -> Result<TempDir> {
    tempfile::Builder::new()
        .prefix("pktgen-serve-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir()
        .map_err(Error::io("create a folder in", &std::env::temp_dir()))
}

/// Counts one more request while it exists: one whose page is being created, and those that wait.
struct Waits<'a>(&'a AtomicUsize);

impl<'a> Waits<'a> {
    fn begin(waiting: &'a AtomicUsize) -> Option<Self> {
        let waits = Waits(waiting);
        (waiting.fetch_add(1, Ordering::Relaxed) <= WAITING).then_some(waits)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs the command that creates a page.
fn run(command: &mut Command, made: &Path, errors: &Path, stop: &AtomicBool) -> std::result::Result<(), String> {
    let said = File::create(errors).map_err(|e| e.to_string())?;
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
    let mut child = command.spawn().map_err(|e| e.to_string())?;
    let mut why = "it was not made within ten minutes";
    for _ in 0..LOOKS {
        match child.try_wait().map_err(|e| e.to_string())? {
            // Invalid runs have reports, too.
            Some(_) if made.is_file() => return Ok(()),
            Some(status) => {
                let said = fs::read_to_string(errors).unwrap_or_default();
                return Err(if said.trim().is_empty() { status.to_string() } else { said.trim().to_owned() });
            }
            None if stop.load(Ordering::Relaxed) => {
                why = "the server ends";
                break;
            }
            None => std::thread::sleep(LOOK),
        }
    }
    let _ = (child.kill(), child.wait());
    Err(why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::index::Index;
    use super::*;

    #[test]
    fn pages_wait_while_one_is_created() {
        let waiting = AtomicUsize::new(0);
        let mut held: Vec<_> = (0..20).filter_map(|_| Waits::begin(&waiting)).collect();
        assert_eq!(held.len(), 1 + WAITING);
        held.pop();
        assert!(Waits::begin(&waiting).is_some());
    }

    fn wanted(run: &str) -> Wanted {
        Wanted { run: (run.to_owned(), Index::default().edition(run)), baseline: None }
    }

    #[test]
    fn no_page_is_displaced_by_a_refused_request_or_while_it_is_created() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let at = |i: usize| folder.path().join(i.to_string());
        let workshop = Workshop::new(Arc::default());
        let (slow, waits) = workshop.kept(&wanted("slow")).expect("the first");
        for i in 0..KEPT {
            let (page, _waits) = workshop.kept(&wanted(&i.to_string())).expect("one waits");
            fs::write(at(i), "").expect("writable");
            page.set(at(i)).expect("a new page");
        }
        // The oldest made way, and not the one that is still being created, whose file nothing would remove later.
        assert!(!at(0).exists() && (1..KEPT).all(|i| at(i).exists()));
        assert_eq!(Arc::strong_count(&slow), 2);
        // Those that wait for the same page count, too.
        let same: Vec<_> = (0..20).filter_map(|_| workshop.kept(&wanted("slow")).ok()).collect();
        assert_eq!(same.len(), WAITING);
        assert!((0..2 * KEPT).all(|i| workshop.kept(&wanted(&format!("other {i}"))).is_err()));
        assert!((1..KEPT).all(|i| at(i).exists()));
        // Pages that exist are served meanwhile.
        assert!(workshop.kept(&wanted("5")).is_ok_and(|(_, waits)| waits.is_none()));
        drop((slow, waits, same));
        assert!(workshop.kept(&wanted("other")).is_ok());
    }

    #[test]
    fn pages_whose_files_are_gone_are_created_again() {
        let workshop = Workshop::new(Arc::default());
        let folder = workshop.folder().expect("a folder");
        let (page, waits) = workshop.kept(&wanted("run")).expect("the first");
        fs::write(folder.join("0.html"), "").expect("writable");
        page.set(folder.join("0.html")).expect("a new page");
        drop((page, waits));
        assert!(workshop.kept(&wanted("run")).is_ok_and(|(page, _)| page.initialized()));
        assert_eq!(workshop.folder().expect("a folder"), folder);
        fs::remove_dir_all(&folder).expect("it is there");
        assert!(workshop.kept(&wanted("run")).is_ok_and(|(page, waits)| !page.initialized() && waits.is_some()));
        assert!(workshop.folder().expect("another folder").is_dir());
    }

    #[test]
    fn no_page_is_created_beside_a_run_that_began_while_it_waited() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = folder.path().canonicalize().expect("a folder");
        let (workshop, shared) = (Arc::new(Workshop::new(Arc::default())), SharedIndex::new(root.clone()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let made = runtime.block_on(async {
            let turn = workshop.turn.acquire().await.expect("it is free");
            let (maker, run) = (workshop.clone(), root.join("run"));
            let page = tokio::spawn(async move { maker.page(&root, &shared, wanted("other")).await.map(drop) });
            // The page waits for its turn.
            tokio::task::yield_now().await;
            fs::create_dir(&run).expect("a folder");
            fs::write(run.join("manifest.json"), "{\"state\":\"running\"}").expect("writable");
            let held = File::open(&run).expect("a folder");
            held.lock().expect("nothing else holds it");
            drop(turn);
            page.await.expect("no panic")
        });
        assert_eq!(made.expect_err("no page"), BUSY);
    }

    #[test]
    fn a_page_that_is_not_made_has_a_reason() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (made, errors) = (folder.path().join("made.html"), folder.path().join("errors.txt"));
        let ended = |script: &str, stop: bool| {
            run(Command::new("sh").args(["-c", script]), &made, &errors, &AtomicBool::new(stop)).expect_err("no page")
        };
        assert_eq!(ended("exec sleep 1000", true), "the server ends");
        assert_eq!(ended("echo no run >&2; exit 2", false), "no run");
    }
}
