//! All runs of a sweep: each is analysed, then summarised per point over the seeds.
//!
//! Called by the CLI's `report` and by [`crate::model`]. A point is a set of labels without the seed. A single run dir
//! is a sweep of one run.

pub(crate) mod common;
pub mod configuration;
pub mod data;
mod gather;
pub mod kept;
pub mod scalars;
pub(crate) mod settings;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;

use pktgen_core::record::digest::manifest_digest;
use pktgen_core::record::{Fault, MANIFEST_VERSION, Manifest, ReportPlan, SweepManifest, SweepRun, Validity};
use pktgen_core::seed::mix;
use pktgen_core::study::TIME;
use pktgen_core::{Error, Result};
use pktgen_records::fates::is_update;
use pktgen_records::line::Line;
use pktgen_records::metric::{counts, findings};
use pktgen_records::resolved::{Analysis, Options};
use pktgen_records::run::{read_json, read_sealed};
use pktgen_records::stats;
use serde_json::Value;

use crate::picture::{keep, network, states};
use crate::sweep::kept::{Depth, Kept};
use crate::{baseline, group};
use common::{Common, without_seed};
use data::{GoalSummary, Labels, PointSummary, RunMade, RunSummary, SweepData, with_all_reasons, without_variant};
use gather::gathered;
use scalars::Scalars;
use settings::is_first_unread;

impl SweepData {
    /// Reads and analyses the sweep (or the single run) in `dir`; `progress` is called with the number of finished runs and their total.
    pub fn open(dir: &Path, progress: &mut dyn FnMut(usize, usize)) -> Result<SweepData> {
        SweepData::open_with(dir, Options::default(), progress)
    }

    /// Does the same with options.
    pub fn open_with(dir: &Path, options: Options, progress: &mut dyn FnMut(usize, usize)) -> Result<SweepData> {
        let mut manifest = read_manifest(dir, options.no_verify)?;
        // The summaries contain what is said of each run there.
        let planned = std::mem::take(&mut manifest.runs);
        let first_seeds = first_seeds(&planned);
        let first = planned.first().map(|run| without_variant(&run.labels));
        // Everything is extracted for the first setting, and only small data for others.
        let depth = |run: &SweepRun| match &first {
            _ if first_seeds.get(&run.labels) != Some(&run.seed) => Depth::Values,
            Some(setting) if *setting == without_variant(&run.labels) => Depth::All,
            _ => Depth::Curves,
        };
        let plan = &manifest.report;
        let at_once = thread::available_parallelism().map_or(2, usize::from).min(planned.len());
        let options = Options { memory: options.memory.shared_by(at_once), ..options };
        let nothing_kept = Arc::new(Kept::default());
        let (keys, common) = (Mutex::new(Keys::default()), Mutex::new(Common::default()));
        let job = |(number, run): &(usize, &SweepRun)| {
            let own = below(dir, run)?;
            own.check(options.no_verify)?;
            let (mut summary, lines) = summarise(&own.dir, run, plan, options, depth(run))?;
            if depth(run) == Depth::Values {
                summary.kept = nothing_kept.clone();
            }
            summary.scalars = keys.lock().unwrap_or_else(PoisonError::into_inner).scalars(lines, *number);
            common.lock().unwrap_or_else(PoisonError::into_inner).share(&mut summary);
            Ok(summary)
        };
        let numbered: Vec<_> = planned.iter().enumerate().collect();
        let results: Vec<Result<RunSummary>> = in_parallel(&numbered, &job, progress);
        // A damaged run among many is reported; if all are damaged, the first error is returned.
        if results.iter().all(Result::is_err) {
            let fault = results.into_iter().find_map(Result::err);
            return Err(fault.unwrap_or_else(|| Error::data(dir, "the sweep has no runs")));
        }
        let mut units = keys.into_inner().unwrap_or_else(PoisonError::into_inner).units();
        let readable = |(result, planned): (Result<_>, &SweepRun)| {
            result.unwrap_or_else(|fault| RunSummary {
                undrawn: depth(planned) != Depth::Values,
                ..unreadable(planned, &fault)
            })
        };
        let mut runs: Vec<_> = results.into_iter().zip(&planned).map(readable).collect();
        drop(planned);
        let mut common = common.into_inner().unwrap_or_else(PoisonError::into_inner);
        with_all_reasons(&mut runs, &mut common);
        if let Some(baseline) = &manifest.report.baseline {
            baseline::compare(&mut runs, &mut units, baseline, &mut common);
        }
        let points = points(&runs);
        let mut sweep = SweepData { manifest, options, units, runs, points };
        // Read in no other case, and topologies may be large.
        if sweep.runs.iter().any(|run| run.undrawn) && is_first_unread(&sweep) {
            mark_network(dir, &mut sweep.runs);
        }
        Ok(sweep)
    }
}

/// Marks the first of the runs that could be read whose network can be drawn.
fn mark_network(dir: &Path, runs: &mut [RunSummary]) {
    let is_known = |run: &&mut RunSummary| {
        let was_read = !matches!(&run.validity.faults[..], [Fault::NotAnalysed { .. }]);
        let manifest = || read_json::<Manifest>(&dir.join(&run.dir).join("manifest.json"), "a run dir");
        was_read && manifest().is_ok_and(|manifest| network::is_known(&manifest))
    };
    if let Some(run) = runs.iter_mut().find(is_known) {
        run.has_network = true;
    }
}

/// Returns the seed of each point that is drawn: the first of its setting, so that variants are drawn by the same seed, else its own
/// first. Folders of runs may have other seeds at each point.
fn first_seeds(planned: &[SweepRun]) -> HashMap<Labels, u64> {
    let mut of_settings: HashMap<Labels, u64> = HashMap::new();
    let mut of_points: HashMap<Labels, u64> = HashMap::new();
    for run in planned {
        let first = *of_settings.entry(without_variant(&run.labels)).or_insert(run.seed);
        let own = of_points.entry(run.labels.clone()).or_insert(run.seed);
        if run.seed == first {
            *own = first;
        }
    }
    of_points
}

/// A run dir, with the digest of its manifest listed by its sweep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its path.
    pub dir: PathBuf,
    /// Whether a `sweep.json` lists it.
    planned: bool,
    digest: Option<String>,
}

impl Listed {
    /// Refuses a run that never began, one whose manifest is missing and, unless `no_verify`, one whose manifest differs from that
    /// listed by the sweep.
    pub fn check(&self, no_verify: bool) -> Result<()> {
        let path = self.dir.join("manifest.json");
        if self.planned && !path.exists() {
            // A sweep lists the digests of the manifests that exist when it ends.
            if self.digest.is_some() {
                let what = "it is missing, and sweep.json lists it; restore it, or run the experiment again into another folder (a \
                            sweep begun with --shard: with the same --shard into the same folder, which keeps its other runs)";
                return Err(Error::Invalid(format!("{}: {what}", path.display())));
            }
            let what = "the run never began: its sweep ended before; run the experiment again into another folder (a sweep begun \
                        with --shard 1/1 goes on where it stopped; of shards, the merge ended before: join them again into \
                        another folder)";
            return Err(Error::data(&self.dir, what));
        }
        let (Some(said), Ok(text), false) = (&self.digest, std::fs::read(&path), no_verify) else { return Ok(()) };
        let found = manifest_digest(&text);
        if found == *said {
            return Ok(());
        }
        Err(Error::Invalid(format!(
            "{}: its content is not what was written ({found}, sweep.json says {said}); restore it, or --no-verify to read it \
             all the same",
            path.display()
        )))
    }
}

/// Returns the run dirs at `path`: those listed by its `sweep.json`, or itself without one.
pub fn run_dirs(path: &Path, no_verify: bool) -> Result<Vec<Listed>> {
    match read_sweep(path, no_verify)? {
        Some(sweep) => sweep.runs.iter().map(|run| below(path, run)).collect(),
        None => Ok(vec![Listed { dir: path.to_owned(), planned: false, digest: None }]),
    }
}

/// Returns the path of `run` in `dir`; the only run of a folder is in "." or "". Refuses paths outside `dir`.
fn below(dir: &Path, run: &SweepRun) -> Result<Listed> {
    let refuse = |why: &str| {
        let what = format!("the run's folder \"{}\" {why}; the runs of a sweep are in its folder", run.dir);
        Err(Error::data(&dir.join("sweep.json"), what))
    };
    let inside = |part: Component| matches!(part, Component::Normal(_) | Component::CurDir);
    if !Path::new(&run.dir).components().all(inside) {
        return refuse("leads out of the sweep's");
    }
    let own: PathBuf = dir.join(&run.dir).components().collect();
    match (own.canonicalize(), dir.canonicalize()) {
        (Ok(there), Ok(home)) if !there.starts_with(&home) => refuse("is a link that leads out of the sweep's"),
        _ => Ok(Listed { dir: own, planned: true, digest: run.manifest.clone() }),
    }
}

/// Returns the `sweep.json` of `dir`, or an equivalent for the runs in its folders; `None` for a run dir. With
/// `no_verify`, its digest is not checked.
pub fn read_sweep(dir: &Path, no_verify: bool) -> Result<Option<SweepManifest>> {
    let path = dir.join("sweep.json");
    if !path.exists() {
        return if dir.join("manifest.json").exists() || !dir.is_dir() { Ok(None) } else { gathered(dir, no_verify) };
    }
    let listed = |sweep: &SweepManifest| sweep.runs.iter().any(|run| run.manifest.is_some());
    let mut manifest: SweepManifest = read_sealed(&path, "a sweep", no_verify, listed)?;
    if manifest.runs.is_empty() {
        return Err(Error::data(&path, "it lists no runs: there is nothing to analyse"));
    }
    for run in &mut manifest.runs {
        run.labels.remove("seed");
    }
    Ok(Some(manifest))
}

fn read_manifest(dir: &Path, no_verify: bool) -> Result<SweepManifest> {
    if let Some(sweep) = read_sweep(dir, no_verify)? {
        return Ok(sweep);
    }
    if !dir.join("manifest.json").exists() {
        let what =
            "it has neither sweep.json nor manifest.json, and no folder in it has: it is no run dir and no sweep";
        return Err(Error::data(dir, what));
    }
    let run: Manifest = read_json(&dir.join("manifest.json"), "a run dir")?;
    let labels: Labels = run.labels.into_iter().filter(|(axis, _)| axis != "seed").collect();
    Ok(SweepManifest {
        version: MANIFEST_VERSION,
        experiment: run.experiment,
        about: String::new(),
        overrides: run.overrides,
        axes: labels.iter().map(|(axis, value)| (axis.clone(), vec![value.clone()])).collect(),
        runs: vec![SweepRun { dir: String::new(), labels, seed: run.seed, manifest: None }],
        report: ReportPlan::default(),
        paper: Vec::new(),
        shard: None,
    })
}

/// Runs `job` on every item on all cores; results are in the order of the items.
pub fn in_parallel<T: Sync, R: Send>(
    items: &[T],
    job: &(dyn Fn(&T) -> R + Sync),
    progress: &mut dyn FnMut(usize, usize),
) -> Vec<R> {
    let workers = thread::available_parallelism().map_or(2, usize::from).min(items.len());
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    let mut results: Vec<Option<R>> = items.iter().map(|_| None).collect();
    thread::scope(|scope| {
        for _ in 0..workers {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(i) else { return };
                    // The receiver outlives the threads of the scope; if it is gone, results are not needed.
                    if sender.send((i, job(item))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for (done, (i, result)) in receiver.iter().enumerate() {
            results[i] = Some(result);
            progress(done + 1, items.len());
        }
    });
    results.into_iter().flatten().collect()
}

fn unreadable(planned: &SweepRun, fault: &Error) -> RunSummary {
    RunSummary {
        dir: planned.dir.clone(),
        labels: Arc::new(planned.labels.clone()),
        seed: planned.seed,
        validity: Validity { faults: vec![Fault::NotAnalysed { why: fault.to_string() }], notes: Vec::new() },
        ..Default::default()
    }
}

/// The keys of a sweep, each stored once for all runs, with the unit in the last run that has it.
#[derive(Debug, Default)]
struct Keys(BTreeMap<Arc<str>, (usize, String)>);

/// A line as needed by reports. One without a value still has a column.
struct Cell {
    key: String,
    unit: String,
    value: Option<f64>,
}

impl Cell {
    fn of(line: &Line) -> Option<Cell> {
        Some(Cell { key: line.key()?, unit: line.unit.to_string(), value: line.value })
    }
}

impl Keys {
    /// Returns the values of run `number`.
    fn scalars(&mut self, cells: Vec<Cell>, number: usize) -> Scalars {
        let mut keyed = |Cell { key, unit, value }| {
            let shared = self.0.get_key_value(key.as_str()).map_or_else(|| Arc::from(key), |(known, _)| known.clone());
            let last = self.0.entry(shared.clone()).or_default();
            if number >= last.0 {
                *last = (number, unit);
            }
            Some((shared, value?))
        };
        cells.into_iter().filter_map(&mut keyed).collect()
    }

    fn units(self) -> BTreeMap<String, String> {
        self.0.into_iter().map(|(key, (_, unit))| (key.to_string(), unit)).collect()
    }
}

fn summarise(
    dir: &Path,
    planned: &SweepRun,
    plan: &ReportPlan,
    options: Options,
    depth: Depth,
) -> Result<(RunSummary, Vec<Cell>)> {
    let analysis = Analysis::open(dir, options)?;
    let mut lines = analysis.lines()?;
    lines.extend(group::lines(&analysis, plan));
    let mut summary = RunSummary {
        dir: planned.dir.clone(),
        labels: Arc::new(planned.labels.clone()),
        seed: planned.seed,
        // The run's own verdict may be valid; its records may show otherwise.
        validity: analysis.validity(),
        notes: analysis.remarks(),
        ..Default::default()
    };
    // Experiments' own metrics have a column even without values.
    let valued = lines.iter().filter(|line| line.value.is_some());
    let own = analysis.user.lines.iter().filter_map(Cell::of).map(|cell| Cell { value: None, ..cell });
    let cells = valued.filter_map(Cell::of).chain(own).collect();
    summary.cluster_aom_ns = series(&lines, "aom_mean", "id", Some("cluster"));
    summary.aggregation_cdf = series(&lines, "aggregation_cdf", "n", None);
    summary.clusters = clusters_of(&analysis);
    summary.workload = analysis.manifest.trace_hash.clone();
    summary.network = analysis.manifest.planned.as_ref().and_then(|planned| {
        let text = serde_json::to_string(&planned.plan).ok()?;
        Some(text.bytes().fold(0, |hash, byte| mix(hash ^ u64::from(byte))))
    });
    summary.profile = analysis.manifest.profile_hash.clone();
    summary.exact = !analysis.manifest.uses_chance;
    summary.config = without_seed(&analysis.manifest.config);
    summary.made = RunMade {
        tool: analysis.manifest.tool.clone(),
        unix_ns: analysis.manifest.created_unix_ns,
        host: Arc::new(analysis.manifest.host.clone()),
        command: Arc::new(analysis.manifest.command.clone()),
        predates_overrides: analysis.manifest.predates_overrides(),
    };
    summary.goal = analysis.goal.as_ref().map(|goal| GoalSummary {
        updates: goal.updates,
        workers: goal.workers,
        short: goal.short(),
    });
    summary.hides_members = analysis.hides_members();
    summary.hides_elements = analysis.hides_elements();
    summary.hides_losses = !counts::knows_loss(&analysis);
    summary.user_metrics = Arc::new(analysis.manifest.metrics.clone());
    summary.study_keys = Arc::new(findings::default_keys(&analysis.manifest, options.studies));
    (summary.states, summary.deciders) = states::thinned(&analysis);
    summary.kept = Arc::new(keep::of(&analysis, dir, depth)?);
    Ok((summary, cells))
}

/// Returns the clusters in which workers began, and those that had updates.
fn clusters_of(run: &Analysis) -> Vec<u32> {
    let began = run.manifest.clusters.iter().filter(|cluster| is_update(**cluster)).map(|cluster| u32::from(*cluster));
    let aged = run.ages().into_iter().flat_map(|ages| ages.clusters.iter().map(|age| age.id));
    let mut clusters: Vec<u32> = began.chain(aged).collect();
    clusters.sort_unstable();
    clusters.dedup();
    clusters
}

/// Returns the values of `metric` by its numeric label `label`, for clusters or workers if it has both.
fn series(lines: &[Line], metric: &str, label: &str, flow: Option<&str>) -> Vec<(u64, f64)> {
    let wanted = |line: &&Line| line.metric == metric && line.labels.get("flow").and_then(Value::as_str) == flow;
    lines.iter().filter(wanted).filter_map(|line| Some((line.labels.get(label)?.as_u64()?, line.value?))).collect()
}

fn points(runs: &[RunSummary]) -> Vec<PointSummary> {
    let all_exact = runs.iter().all(|run| run.exact);
    let mut points: Vec<PointSummary> = Vec::new();
    let mut known: HashMap<&Labels, usize> = HashMap::new();
    for (i, run) in runs.iter().enumerate() {
        let at = *known.entry(&run.labels).or_insert_with(|| {
            points.push(PointSummary { labels: Labels::clone(&run.labels), ..Default::default() });
            points.len() - 1
        });
        points[at].runs.push(i);
    }
    for point in &mut points {
        let mut values: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for (key, value) in point.runs.iter().flat_map(|run| runs[*run].scalars.iter()) {
            values.entry(key).or_default().push(value);
        }
        for (key, lack) in point.runs.iter().flat_map(|run| &runs[*run].lacks) {
            point.lacking.entry(*key).or_default().count(*lack);
        }
        let own = point.runs.iter().all(|run| runs[*run].exact);
        // Comparisons also depend on the baseline's runs; wall time is never exact.
        let exact = |key: &str| own && key != TIME && (all_exact || !baseline::keys().any(|derived| derived == key));
        let cell = |(key, values): (&&str, &Vec<f64>)| Some(((*key).to_owned(), stats::estimate(values, exact(key))?));
        point.cells = values.iter().filter_map(cell).collect();
        let of_point: Vec<&RunSummary> = point.runs.iter().map(|run| &runs[*run]).collect();
        let apart: BTreeSet<&str> = of_point.iter().flat_map(|run| &run.apart).map(|(key, _)| *key).collect();
        for key in apart {
            point.cells.extend(data::estimate(&of_point, key, exact(key)).map(|cell| (key.to_owned(), cell)));
        }
    }
    points
}

#[cfg(test)]
#[path = "sweep_tests.rs"]
mod tests;
