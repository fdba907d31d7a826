//! Joins the shards of a sweep into the folder that a single process would have written.
//!
//! Used by `pktgen merge`. Files are linked, or copied if they cannot be, and never changed. `sweep.json` lists the
//! planned runs from the start, so that a killed merge leaves no folder that looks complete; it is written again at the end,
//! with the digests of the runs.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader};
use std::path::{Component, Path, PathBuf};

use pktgen_core::record::digest::verify_dir;
use pktgen_core::record::{PLANNED, SweepManifest, SweepRun, SweepShard};
use pktgen_core::whole::{copy_whole, write_whole};
use pktgen_core::{Error, Result};
use serde_json::Value;

use super::shard::{complete, read};
use super::{Finished, SWEEP, write_sweep};
use crate::capture::claim;

/// Maximum number of shards, and of runs of each, named in an error.
const NAMED: usize = 8;

/// What to do about a plan that is missing or damaged.
const AGAIN: &str = "run the shard again, with the same command and --out, which writes it and keeps what is finished";

/// The result of joining.
#[derive(Debug, Clone)]
pub struct Joined {
    /// The runs, in the order of the plan.
    pub finished: Vec<Finished>,
    /// Number of planned runs.
    pub planned: usize,
    /// Missing runs by shard, as a sentence; none if complete.
    pub missing: Option<String>,
    /// Runs that were present more than once, bit for bit equal.
    pub twice: usize,
    /// Files that were copied, since the folders are on different file systems.
    pub copied: usize,
}

/// Returns whether the folder is a shard of a sweep, or several joined.
pub fn is_shard(dir: &Path) -> Result<bool> {
    let path = dir.join(SWEEP);
    Ok(path.exists() && read::<Value>(&path)?.get("shard").is_some())
}

/// Joins the shards in `dirs` into `out`. Every planned run must be present, unless `partial`. `waived`: digests of files are not checked.
pub fn join(dirs: &[PathBuf], out: &Path, partial: bool, waived: bool) -> Result<Joined> {
    let folders = dirs.iter().map(|dir| Folder::read(dir)).collect::<Result<Vec<_>>>()?;
    let first = folders.first().ok_or_else(|| Error::config("there is nothing to join; give the shards' folders"))?;
    folders.iter().try_for_each(|other| first.same_sweep(other))?;
    let mut plan: SweepManifest = read(&first.dir.join(PLANNED))?;
    plan.runs.iter().try_for_each(|run| inside(first, run))?;
    let (held, twice) = collect(&folders, &plan, waived)?;
    let missing = missing(&held, &plan, &first.part)?;
    if held.iter().all(Option::is_none) {
        return Err(Error::config(format!("none of the {} planned runs is there yet", plan.runs.len())));
    }
    if let Some(what) = missing.as_ref().filter(|_| !partial) {
        return Err(Error::config(format!(
            "{what}; run these shards again, with the same command and --out, which keeps what is finished, or give their \
             folders too; --partial joins what there is"
        )));
    }
    let _claim = claim(out)?;
    write_sweep(out, &mut plan)?;
    let mut copied = 0;
    let mut finished = Vec::new();
    for (run, planned) in held.iter().zip(&plan.runs) {
        if let Some(run) = run {
            let dir: PathBuf = out.join(&planned.dir).components().collect();
            link(&run.dir, &dir, &mut copied)?;
            finished.push(Finished { dir, ..run.clone() });
        }
    }
    if missing.is_none() {
        write_sweep(out, &mut plan)?;
    } else {
        let there = plan.runs.iter().zip(&held).filter(|(_, run)| run.is_some()).map(|(planned, _)| planned.clone());
        let part = SweepShard { shard: None, ..first.part.clone() };
        let mut sweep = SweepManifest { runs: there.collect(), shard: Some(part), ..plan.clone() };
        write_whole(&out.join(PLANNED), &first.planned)?;
        write_sweep(out, &mut sweep)?;
    }
    Ok(Joined { finished, planned: plan.runs.len(), missing, twice, copied })
}

/// A shard's folder.
struct Folder {
    dir: PathBuf,
    sweep: SweepManifest,
    part: SweepShard,
    /// The text of the whole sweep's `sweep.json`.
    planned: Vec<u8>,
    /// The same without the overrides of its command, which the configurations contain.
    plan: Value,
}

impl Folder {
    fn read(dir: &Path) -> Result<Self> {
        let path = dir.join(SWEEP);
        if !path.exists() {
            let what = "it is no shard of a sweep: it has no sweep.json; shards are made by pktgen replay --shard";
            return Err(Error::data(dir, what));
        }
        let sweep: SweepManifest = read(&path)?;
        let Some(part) = sweep.shard.clone() else {
            return Err(Error::data(dir, "it is a whole sweep, or a run, and no shard of one; leave it out"));
        };
        let path = dir.join(PLANNED);
        if !path.exists() {
            return Err(Error::data(&path, format!("it is missing; {AGAIN}")));
        }
        let planned = std::fs::read(&path).map_err(Error::io("read", &path))?;
        let mut plan: Value = serde_json::from_slice(&planned)
            .map_err(|fault| Error::data(&path, format!("it is not JSON: {fault}; {AGAIN}")))?;
        if let Some(object) = plan.as_object_mut() {
            ["overrides", "digest"].iter().for_each(|key| drop(object.remove(*key)));
        }
        Ok(Folder { dir: dir.to_owned(), sweep, part, planned, plan })
    }

    /// Refuses shards of different sweeps, or of different builds.
    fn same_sweep(&self, other: &Folder) -> Result<()> {
        let (a, b) = (&self.part, &other.part);
        let what = if a.tool != b.tool {
            format!("{} made one, {} the other", a.tool, b.tool)
        } else if self.sweep.experiment != other.sweep.experiment {
            format!("\"{}\" and \"{}\"", self.sweep.experiment, other.sweep.experiment)
        } else if a.planned != b.planned {
            format!("one has {} runs, the other {}", a.planned, b.planned)
        } else if self.plan != other.plan {
            "their axes, seeds, [report] or [paper] differ".to_owned()
        } else if a.plan_hash != b.plan_hash {
            "their configurations differ (a key in the file, in the environment or by --set, or a trace)".to_owned()
        } else {
            return Ok(());
        };
        let (a, b) = (self.dir.display(), other.dir.display());
        Err(Error::config(format!("{a} and {b} are not shards of one sweep: {what}")))
    }
}

/// Refuses folders of runs outside the sweep's folder.
fn inside(folder: &Folder, run: &SweepRun) -> Result<()> {
    match Path::new(&run.dir).components().collect::<Vec<_>>()[..] {
        [Component::Normal(_) | Component::CurDir] => Ok(()),
        _ => Err(Error::data(&folder.dir, format!("a run's folder cannot be called \"{}\"", run.dir))),
    }
}

/// Returns the complete runs of the folders, by their places in the plan, and the number of repeated ones.
fn collect(folders: &[Folder], plan: &SweepManifest, waived: bool) -> Result<(Vec<Option<Finished>>, usize)> {
    let places: HashMap<_, usize> = plan.runs.iter().zip(0..).map(|(run, at)| ((&run.labels, run.seed), at)).collect();
    let mut held: Vec<Option<Finished>> = vec![None; plan.runs.len()];
    let mut twice = 0;
    for folder in folders {
        for run in &folder.sweep.runs {
            inside(folder, run)?;
            let Some(&at) = places.get(&(&run.labels, run.seed)) else {
                return Err(Error::data(&folder.dir, format!("its run {} is not in the plan of the sweep", run.dir)));
            };
            let Some(found) = complete(&folder.dir.join(&run.dir), &run.labels, run.seed, &folder.part.tool)? else {
                continue;
            };
            if !waived {
                verify_dir(&found.dir)?;
            }
            match &held[at] {
                None => held[at] = Some(found),
                Some(other) => {
                    same_run(&other.dir, &found.dir)?;
                    twice += 1;
                }
            }
        }
    }
    Ok((held, twice))
}

/// Refuses two runs that should be equal and are not.
fn same_run(a: &Path, b: &Path) -> Result<()> {
    let (of_a, of_b) = (files(a)?, files(b)?);
    let mut differs = of_a.keys().chain(of_b.keys()).find(|name| of_a.contains_key(*name) != of_b.contains_key(*name));
    for (name, path) in &of_a {
        if differs.is_none() && !same_file(path, &b.join(name))? {
            differs = Some(name);
        }
    }
    let Some(name) = differs else { return Ok(()) };
    Err(Error::config(format!(
        "{} and {} are the same run of the plan with different results ({} differs); one of them cannot be trusted: remove \
         it and run its shard again (runs in real time and studies that measure time differ every time: keep one)",
        a.display(),
        b.display(),
        name.display()
    )))
}

/// Returns whether two files are equal. Manifests may differ in creation time and command.
fn same_file(a: &Path, b: &Path) -> Result<bool> {
    if a.file_name().is_some_and(|name| name == "manifest.json") {
        let manifest = |path: &Path| {
            let mut manifest: Value = read(path)?;
            manifest["created_unix_ns"] = Value::Null;
            manifest["command"] = Value::Null;
            manifest["digest"] = Value::Null;
            Ok::<_, Error>(manifest)
        };
        return Ok(manifest(a)? == manifest(b)?);
    }
    let open = |path: &Path| std::fs::File::open(path).map(BufReader::new).map_err(Error::io("open", path));
    let (mut left, mut right) = (open(a)?, open(b)?);
    loop {
        let (x, y) = (left.fill_buf().map_err(Error::io("read", a))?, right.fill_buf().map_err(Error::io("read", b))?);
        let n = x.len().min(y.len());
        if n == 0 || x[..n] != y[..n] {
            // Both ended, or they differ.
            return Ok(x.len() == y.len() && n == 0);
        }
        left.consume(n);
        right.consume(n);
    }
}

/// Returns the files of a run dir, by their names in it, without reports: these are made later, and overwritten in
/// place, which would change linked copies.
fn files(dir: &Path) -> Result<BTreeMap<PathBuf, PathBuf>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let at = dir.join(&folder);
        for entry in std::fs::read_dir(&at).map_err(Error::io("read", &at))? {
            let entry = entry.map_err(Error::io("read", &at))?;
            let name = folder.join(entry.file_name());
            if entry.path().is_dir() {
                folders.push(name);
            } else if !entry.file_name().to_string_lossy().starts_with("report.") {
                files.insert(name, entry.path());
            }
        }
    }
    Ok(files)
}

/// Makes `to` a copy of the run dir `from`.
fn link(from: &Path, to: &Path, copied: &mut usize) -> Result<()> {
    let mut all: Vec<_> = files(from)?.into_iter().collect();
    // The manifest last: a run dir that has one has all of its files.
    all.sort_by_key(|(name, _)| name == Path::new("manifest.json"));
    for (name, path) in all {
        let target = to.join(name);
        if let Some(folder) = target.parent() {
            std::fs::create_dir_all(folder).map_err(Error::io("create folder", folder))?;
        }
        if std::fs::hard_link(&path, &target).is_err() {
            copy_whole(&path, &target)?;
            *copied += 1;
        }
    }
    Ok(())
}

/// Returns which shards lack which runs; `None` if complete.
fn missing(held: &[Option<Finished>], plan: &SweepManifest, part: &SweepShard) -> Result<Option<String>> {
    let mut lacks: BTreeMap<_, Vec<&str>> = BTreeMap::new();
    for (at, run) in plan.runs.iter().enumerate().filter(|(at, _)| held[*at].is_none()) {
        lacks.entry(part.taking(at).map_err(Error::config)?).or_default().push(match run.dir.as_str() {
            "." => "the only one",
            dir => dir,
        });
    }
    if lacks.is_empty() {
        return Ok(None);
    }
    let sum: usize = lacks.values().map(Vec::len).sum();
    let named = |all: &[&str]| {
        let more = all.len().saturating_sub(NAMED);
        let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{}{tail}", all[..all.len().min(NAMED)].join(" "))
    };
    let shards = lacks.iter().map(|(shard, runs)| format!("shard {shard} lacks {}: {}", runs.len(), named(runs)));
    let texts: Vec<String> = shards.collect();
    let more = texts.len().saturating_sub(NAMED);
    let rest: Vec<_> = lacks.keys().skip(NAMED).map(ToString::to_string).collect();
    let tail = if more > 0 { format!("; and shards {}", rest.join(" ")) } else { String::new() };
    Ok(Some(format!(
        "{sum} of {} planned runs are missing: {}{tail}",
        plan.runs.len(),
        texts[..texts.len().min(NAMED)].join("; ")
    )))
}
