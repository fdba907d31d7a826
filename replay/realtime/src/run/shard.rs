//! One shard of a sweep: every n-th run of the plan, in a separate folder, resuming after a killed process.
//!
//! Used by `pktgen replay --shard`; [`super::join()`] joins the shards. Runs are assigned in turn, so that the
//! expensive points of a sweep, which are neighbours, spread over all shards (docs/sharding.md lists exceptions), and
//! shard i of n consists of shards i, i + n, i + 2n … of a multiple of n.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pktgen_core::config::Run;
use pktgen_core::record::{
    Fault, MANIFEST_VERSION, Manifest, PLANNED, RunState, SweepManifest, SweepShard, digest, plan_hash,
};
use pktgen_core::regular::check_regular;
use pktgen_core::shard::Shard;
use pktgen_core::whole::write_whole;
use pktgen_core::{Error, Result};
use serde::de::DeserializeOwned;

use super::{Experiment, Finished, SWEEP, sweep_text, tool, write_sweep};
use crate::driver::real_time::Progress;

/// Locked by the process that works in a shard's folder; the lock of a killed one is released.
const LOCK: &str = "shard.lock";
/// Interval of checks of the lock.
const LOOK: Duration = Duration::from_millis(50);

/// The result of a shard.
#[derive(Debug, Clone)]
pub struct Share {
    /// Runs that are complete, in the order of the plan.
    pub finished: Vec<Finished>,
    /// Number of runs of the shard.
    pub runs: usize,
    /// Number of runs of the whole sweep.
    pub planned: usize,
    /// Runs that an earlier process had finished.
    pub kept: usize,
    /// Runs that an earlier process had begun and not finished, or that a role's failure cut, which were repeated.
    pub redone: usize,
}

impl Experiment {
    /// Runs the part of the sweep that `shard` selects into `out`. Keeps runs that an earlier process finished there;
    /// repeats those it only began, and those that a role's failure cut. `say` is called with notes for the user.
    pub fn execute_shard(
        &self,
        shard: Shard,
        out: &Path,
        threads: usize,
        stop: &AtomicBool,
        progress: &(dyn Fn(usize, Progress) + Sync),
        say: &dyn Fn(&str),
    ) -> Result<Share> {
        let mine: Vec<&Run> = self.runs.iter().zip(0..).filter(|(_, i)| shard.takes(*i)).map(|(run, _)| run).collect();
        let names: HashSet<String> = mine.iter().map(|run| run.folder()).collect();
        let (real_time, points) = self.points(&|run| names.contains(&run.folder()))?;
        let single = (self.runs.len() == 1).then(|| &self.runs[0]);
        let planned = sweep_text(&self.sweep(single), &out.join(PLANNED))?;
        let mut own = self.sweep(None);
        own.runs.retain(|run| names.contains(&run.dir));
        own.shard = Some(SweepShard {
            shard: Some(shard.to_string()),
            of: shard.of(),
            planned: self.runs.len(),
            plan_hash: plan_hash(&planned, points.iter().map(String::as_str)),
            tool: tool(),
        });
        let _lock = open(out, &own, &planned, stop, say)?;
        let (mut finished, todo, redone) = sort_out(&mine, out)?;
        let kept = finished.len();
        progress(kept, Progress::default());
        // Concurrent runs in real time would disturb each other.
        let threads = if real_time { 1 } else { threads };
        finished.extend(self.run_all(&todo, out, threads, stop, &|runs, p| progress(kept + runs, p))?);
        let order: HashMap<PathBuf, usize> = mine.iter().zip(0..).map(|(run, i)| (out.join(run.folder()), i)).collect();
        finished.sort_by_key(|run| order.get(&run.dir).copied());
        write_sweep(out, &mut own)?;
        Ok(Share { finished, runs: mine.len(), planned: self.runs.len(), kept, redone })
    }

    /// Returns the resolved configuration of every point, for its first seed, and its trace; and whether any is in real
    /// time. Mistakes are found here, equally in every shard, before anything is written; files that two runs would write, where one shard
    /// `takes` both.
    fn points(&self, takes: &dyn Fn(&Run) -> bool) -> Result<(bool, Vec<String>)> {
        let (mut points, mut real_time) = (Vec::new(), false);
        self.check_points_of(takes, &mut |run, plan| {
            match plan {
                Some(plan) => {
                    real_time |= plan.spec.is_real_time();
                    // Files that the configuration names, such as a plan, are in it by name only.
                    let network = plan_hash(&format!("{:?}", plan.parts.topology), std::iter::empty());
                    points.extend([plan.spec.config.clone(), plan.spec.trace_hash.clone(), network]);
                    points.extend(plan.spec.profile_hash());
                }
                None => points.push(self.config(run)?),
            }
            Ok(())
        })?;
        Ok((real_time, points))
    }
}

/// Initialises the shard's folder, or checks an existing one; locks it until the result is dropped.
fn open(out: &Path, own: &SweepManifest, planned: &str, stop: &AtomicBool, say: &dyn Fn(&str)) -> Result<File> {
    std::fs::create_dir_all(out).map_err(Error::io("create folder", out))?;
    let sweep = out.join(SWEEP);
    // Checked again: another process may have begun the shard meanwhile.
    if !sweep.exists() && holds_others(out)? && !sweep.exists() {
        return Err(Error::config(format!(
            "{}: the folder is not empty, and no shard was begun there; choose another with --out, or remove it",
            out.display()
        )));
    }
    let lock = lock(out, stop, say)?;
    let begun = sweep.exists();
    if begun {
        same_shard(out, &read::<SweepManifest>(&sweep)?, own)?;
    }
    // The plan first: if there is a sweep.json, everything exists. A lost or damaged one has the same content.
    let plan = out.join(PLANNED);
    if !begun || std::fs::read(&plan).ok().as_deref() != Some(planned.as_bytes()) {
        write_whole(&plan, planned)?;
    }
    if !begun {
        write_whole(&sweep, sweep_text(own, &sweep)?)?;
    }
    Ok(lock)
}

/// Returns whether the folder has files other than those with which a shard begins.
fn holds_others(out: &Path) -> Result<bool> {
    let entries = std::fs::read_dir(out).map_err(Error::io("read", out))?;
    let partial = |name: &str, own: &&str| name.starts_with(*own) && name.ends_with(".partial");
    let ours = |name: &str| [LOCK, PLANNED, SWEEP].iter().any(|own| name == *own || partial(name, own));
    Ok(entries.filter_map(|entry| entry.ok()).any(|entry| !ours(&entry.file_name().to_string_lossy())))
}

/// Waits until no other process works in the folder: a launcher that lost contact with a process starts it again.
fn lock(out: &Path, stop: &AtomicBool, say: &dyn Fn(&str)) -> Result<File> {
    let path = out.join(LOCK);
    let opened = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let file = opened.map_err(Error::io("open", &path))?;
    let mut told = false;
    while !stop.load(Ordering::Relaxed) {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if !told => {
                say(&format!("{}: another process is at work on this shard; waiting for its end", out.display()));
                told = true;
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOOK),
            Err(TryLockError::Error(fault)) => {
                say(&format!(
                    "{}: the file system has no locks ({fault}); see to it that no two processes run this shard at once",
                    path.display()
                ));
                return Ok(file);
            }
        }
    }
    Err(Error::Invalid(format!("{}: interrupted while another process was at work on this shard", out.display())))
}

/// Refuses to mix runs of different sweeps or shards.
fn same_shard(out: &Path, there: &SweepManifest, own: &SweepManifest) -> Result<()> {
    let dir = out.display();
    let wrong = |what: String| Err(Error::config(format!("{dir}: {what}; choose another folder with --out")));
    let (Some(theirs), Some(ours)) = (&there.shard, &own.shard) else {
        return wrong(format!("the folder holds the whole sweep of \"{}\"", there.experiment));
    };
    let name = |part: &SweepShard| match &part.shard {
        Some(shard) => format!("shard {shard}"),
        None => "several shards, joined".to_owned(),
    };
    if name(theirs) != name(ours) {
        return wrong(format!("the folder holds {}, and this is {}", name(theirs), name(ours)));
    }
    if theirs.tool != ours.tool {
        let (theirs, ours) = (&theirs.tool, &ours.tool);
        return wrong(format!("the shard was begun by {theirs}, and this is {ours}: their runs are not mixed"));
    }
    if theirs.plan_hash != ours.plan_hash {
        return wrong(format!(
            "the shard is of another sweep of \"{}\" ({} runs; this one has {}), or its configuration was changed since",
            there.experiment, theirs.planned, ours.planned
        ));
    }
    Ok(())
}

/// Returns the complete runs, the runs to do, and how many of those had been begun; removes begun ones. A run that a role's failure
/// cut (a full disk, a cable) is not complete; such runs come last, so that a failure that remains stops no other run.
fn sort_out<'a>(mine: &[&'a Run], out: &Path) -> Result<(Vec<Finished>, Vec<&'a Run>, usize)> {
    let (mut finished, mut todo, mut cut, mut redone) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for run in mine {
        let dir = out.join(run.folder());
        match complete(&dir, &run.labels, run.seed, &tool())? {
            Some(whole) if !whole.validity.faults.iter().any(Fault::ends_early) => finished.push(whole),
            other => {
                if dir.exists() {
                    std::fs::remove_dir_all(&dir).map_err(Error::io("remove the unfinished run", &dir))?;
                    redone += 1;
                }
                let later = if other.is_some() { &mut cut } else { &mut todo };
                later.push(*run);
            }
        }
    }
    todo.append(&mut cut);
    Ok((finished, todo, redone))
}

/// Returns the run in `dir` if it is complete: its manifest is written last, by renaming, and has the state "finished"
/// only then. An interrupted run is not complete, and one that a role's failure cut is. A run other than the expected one is an error.
pub(super) fn complete(
    dir: &Path,
    labels: &BTreeMap<String, String>,
    seed: u64,
    tool: &str,
) -> Result<Option<Finished>> {
    let path = dir.join("manifest.json");
    if !path.try_exists().map_err(Error::io("read", &path))? {
        return Ok(None);
    }
    let manifest: Manifest = read(&path)?;
    if manifest.state != RunState::Finished {
        return Ok(None);
    }
    let wrong = if manifest.labels != *labels || manifest.seed != seed {
        format!("it is the run {:?} with seed {}, not {labels:?} with seed {seed}", manifest.labels, manifest.seed)
    } else if manifest.tool != tool {
        format!("{} made it, and the others of the sweep are by {tool}", manifest.tool)
    } else if let Some(part) = &manifest.part {
        format!("it is the {part} part of a run; pktgen merge joins the parts first")
    } else {
        return Ok(Some(Finished::of(dir, manifest)));
    };
    Err(Error::data(&path, wrong))
}

/// Reads a manifest of either kind, of this version or an older one.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    check_regular(path)?;
    let text = std::fs::read(path).map_err(Error::io("read", path))?;
    let value = of_known_version(path, &text)?;
    digest::is_sealed(path, &text)?;
    serde_json::from_value(value).map_err(|e| Error::data(path, format!("it is not what it should be: {e}")))
}

/// Parses a manifest of either kind; refuses one of a newer version.
pub(super) fn of_known_version(path: &Path, text: &[u8]) -> Result<serde_json::Value> {
    let value: serde_json::Value = serde_json::from_slice(text)
        .map_err(|e| Error::data(path, format!("it is not JSON: {e}; it may be truncated")))?;
    match value.get("version").and_then(serde_json::Value::as_u64) {
        None => Err(Error::data(path, "it has no \"version\"; is it from pktgen?")),
        Some(version) if version > u64::from(MANIFEST_VERSION) => {
            Err(Error::data(path, format!("version {version} is newer than {MANIFEST_VERSION}; update pktgen")))
        }
        Some(_) => Ok(value),
    }
}
