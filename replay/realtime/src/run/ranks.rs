//! One run by several processes started by a launcher: their roles, their common start and their end. See docs/ranks.md.

mod instant;
mod launcher;
mod meeting;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pktgen_core::config::Run;
use pktgen_core::record::{Manifest, Rank, RunState};
use pktgen_core::shard::Shard;
use pktgen_core::{Error, Result};

use super::{Experiment, Finished, Task};
use crate::clock;
use crate::driver::real_time::{Progress, Roles, Serve};

pub use instant::Instant;
pub use launcher::{LaunchedRank, RankFlag};
pub use meeting::Meeting;
pub(super) use meeting::SHARED;

/// Interval of checks of other manifests.
const LOOK: Duration = Duration::from_millis(50);

/// The processes of a run, and the number of this one.
#[derive(Debug, Clone)]
pub struct RankCrew {
    place: LaunchedRank,
    roles: Vec<Roles>,
}

impl RankCrew {
    /// Assigns roles: `roles` lists those of the ranks, such as `workers,workers,device,server`; without it, the last
    /// rank is the server, all others are workers.
    pub fn new(place: LaunchedRank, roles: Option<&str>) -> Result<Self> {
        let of = place.of as usize;
        let roles = match roles {
            Some(list) => list.split(',').map(|name| role(name.trim(), list)).collect::<Result<Vec<_>>>()?,
            None => (0..of).map(|rank| if rank + 1 == of { Roles::SERVER } else { Roles::WORKERS }).collect(),
        };
        if roles.len() != of {
            return Err(Error::config(format!(
                "--roles has {} entries, and there are {of} ranks; give one role per rank, as workers,workers,server",
                roles.len()
            )));
        }
        let count = |role| roles.iter().filter(|r| **r == role).count();
        if count(Roles::WORKERS) == 0 {
            return Err(Error::config(format!(
                "none of the {of} ranks would be workers; start at least two, or set their roles by --roles"
            )));
        }
        for (role, name) in [(Roles::DEVICE, "device"), (Roles::SERVER, "server")] {
            if count(role) > 1 {
                return Err(Error::config(format!("--roles: {} ranks are {name}; a run has one", count(role))));
            }
        }
        Ok(RankCrew { place, roles })
    }

    /// Returns the number of this rank, the number of ranks, and their origin.
    pub fn place(&self) -> &LaunchedRank {
        &self.place
    }

    /// Returns the role of this rank.
    pub fn role(&self) -> Roles {
        self.roles[self.place.rank as usize]
    }

    /// Returns the share of the workers of this rank; meaningless if it has no workers.
    pub fn share(&self) -> Shard {
        let senders: Vec<_> = self.senders().collect();
        let own = senders.iter().position(|rank| *rank == self.place.rank);
        own.and_then(|i| Shard::new(i as u64 + 1, senders.len() as u64).ok()).unwrap_or(Shard::WHOLE)
    }

    /// Returns the ranks that are workers.
    fn senders(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.roles).filter(|(_, roles)| roles.workers).map(|(rank, _)| rank)
    }

    /// Returns this process's entry in the manifest.
    fn record(&self) -> Rank {
        Rank {
            rank: self.place.rank,
            of: self.place.of,
            share: self.role().workers.then(|| self.share().to_string()),
            host: of_kernel("/proc/sys/kernel/hostname"),
            boot_id: clock::boot_id(),
            pid_space: pid_space(),
            pid: std::process::id(),
        }
    }
}

fn role(name: &str, list: &str) -> Result<Roles> {
    let known = [Roles::WORKERS, Roles::DEVICE, Roles::SERVER];
    known.into_iter().find(|role| role.part() == Some(name)).ok_or_else(|| {
        Error::config(format!("--roles {list}: \"{name}\" is no role; there are: workers, device, server"))
    })
}

/// Reads a one-line file of the kernel.
fn of_kernel(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// Returns the PID namespace, which identifies the processes visible to this one.
fn pid_space() -> String {
    std::fs::read_link("/proc/self/ns/pid").map(|link| link.display().to_string()).unwrap_or_default()
}

/// Returns whether the process with this entry is running; `None` if it is not visible from here.
fn lives(rank: &Rank) -> Option<bool> {
    let seen = !rank.pid_space.is_empty()
        && clock::boot_of(&rank.boot_id) == clock::boot_of(&clock::boot_id())
        && rank.pid_space == pid_space();
    // The text after the name, which may contain anything, begins with the state; a zombie counts as ended.
    let stat = || std::fs::read_to_string(format!("/proc/{}/stat", rank.pid)).ok();
    let alive = || stat().is_some_and(|text| !text.rsplit(')').next().unwrap_or("").trim_start().starts_with('Z'));
    seen.then(alive)
}

/// Returns whether the process of `rank` still writes the run dir `dir`; `None` if it is not visible from here. Its number may be
/// another's by now; the lock of the folder ends with it.
pub(super) fn writes(dir: &Path, rank: &Rank) -> Option<bool> {
    let free = || std::fs::File::open(dir).is_ok_and(|folder| folder.try_lock_shared().is_ok());
    lives(rank).map(|alive| alive && !free())
}

/// Returns the manifest in `dir`, if there is one yet.
fn manifest_in(dir: &Path) -> Option<Manifest> {
    serde_json::from_slice(&std::fs::read(dir.join("manifest.json")).ok()?).ok()
}

/// Returns whether the process of this run dir has ended, as far as visible.
fn has_ended(dir: &Path) -> bool {
    let gone = |manifest: &Manifest| manifest.rank.as_ref().and_then(|rank| writes(dir, rank)) == Some(false);
    manifest_in(dir).is_some_and(|manifest| manifest.state != RunState::Running || gone(&manifest))
}

impl Meeting {
    /// Returns the folder of rank `rank`.
    pub fn dir(&self, rank: u32) -> PathBuf {
        self.folder.join(format!("rank-{rank}"))
    }

    /// Returns the folder of this rank.
    pub(crate) fn own_dir(&self) -> PathBuf {
        self.dir(self.crew.place.rank)
    }

    /// Returns the run dirs to be joined after [`Self::wait_for_ends`], and the folder of the whole.
    pub fn parts(&self) -> (Vec<PathBuf>, PathBuf) {
        ((0..self.crew.place.of).map(|rank| self.dir(rank)).collect(), self.folder.join("whole"))
    }

    /// Waits until every rank has ended, or `stop` is set. Names a rank that is not visible and has not reported its end.
    pub fn wait_for_ends(&self, stop: &AtomicBool) -> Result<()> {
        let watch = clock::Stopwatch::start();
        loop {
            let left: Vec<_> = (0..self.crew.place.of).filter(|rank| !has_ended(&self.dir(*rank))).collect();
            if left.is_empty() {
                return Ok(());
            }
            let (stopped, waited) = (stop.load(Ordering::Relaxed), watch.elapsed());
            if stopped || waited > self.wait {
                let after = if stopped { format!("{waited:.0?}, interrupted") } else { format!("{:.0?}", self.wait) };
                return Err(Error::Invalid(format!(
                    "{} not ended after {after}; when they have: pktgen merge {} -o {}",
                    named(&left, "has", "have"),
                    self.folder.join("rank-*").display(),
                    self.folder.join("whole").display()
                )));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Returns whether the user ended this rank, a device or a server, before the workers had ended.
    pub(super) fn was_left(&self) -> bool {
        self.left.load(Ordering::Relaxed)
    }

    fn workers_have_ended(&self) -> bool {
        self.crew.senders().all(|rank| has_ended(&self.dir(rank)))
    }
}

/// Formats ranks with the matching verb.
fn named(ranks: &[u32], one: &str, several: &str) -> String {
    let all: Vec<_> = ranks.iter().map(u32::to_string).collect();
    match ranks {
        [rank] => format!("rank {rank} {one}"),
        _ => format!("ranks {} {several}", all.join(", ")),
    }
}

/// Ends the thread that watches the workers, however the run ends.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Experiment {
    /// Runs this rank's part of `run`. Device and server end when all workers have, or according to `serve`.
    pub fn execute_rank(
        &self,
        run: &Run,
        meeting: &Meeting,
        serve: Serve,
        stop: &AtomicBool,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<Finished> {
        let (roles, share) = (meeting.crew.role(), meeting.crew.share());
        // The end of the workers is not a stop by the user.
        let (over, ended) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            if !roles.workers {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        let (stopped, all_sent) = (stop.load(Ordering::Relaxed), meeting.workers_have_ended());
                        if stopped || all_sent {
                            meeting.left.store(!all_sent, Ordering::Relaxed);
                            ended.store(true, Ordering::Release);
                            return;
                        }
                        std::thread::sleep(LOOK);
                    }
                });
            }
            let _over = Over(&over);
            let stop = if roles.workers { stop } else { &ended };
            let task = Task { roles, share, meeting: Some(meeting), serve, progress, ..Task::whole(stop) };
            self.execute_part(run, &meeting.own_dir(), &task)
        })
    }
}

#[cfg(test)]
mod tests;
