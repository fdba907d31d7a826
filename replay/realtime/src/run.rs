//! Running an experiment: a single run dir, or a sweep.

mod conclude;
mod declared;
mod find_rate;
mod join;
mod large_pages;
mod launched;
mod merge;
mod points;
mod ranks;
mod real;
mod report_plan;
mod rfc2544;
mod shard;
mod simulated;
mod study;
mod summary;
mod sweep_file;
mod tune;
mod wrong;

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use pktgen_core::config::{Document, Run, Sweep, UNNAMED, Unused, Value, with_variants};
use pktgen_core::record::{
    Balance, Family, Fault, Incidents, MANIFEST_VERSION, Manifest, Note, Published, ReportPlan, RunState,
    SweepManifest, SweepRun, Unseen, Validity,
};
use pktgen_core::registry::suggest;
use pktgen_core::seed::drawn;
use pktgen_core::shard::Shard;
use pktgen_core::user_metric::UserMetric;
use pktgen_core::{Error, Result};
use pktgen_workload::study::{STUDIES, Study};
use pktgen_workload::workload::{Source, share};

use crate::capture::{RunDir, claim, hold};
use crate::catalogue::Catalogue;
use crate::clock;
use crate::driver::real_time::{Progress, Roles, Serve};
use crate::launch::LaunchedDevice;
use crate::live::{Sees, View};
use crate::plan::{Plan, plan, prepare, prepare_share, source};
use crate::steer::Steering;
use crate::target::program::Expected;
use crate::transport::{Pacing, Transport};

use declared::{default_metrics, expected};
pub use find_rate::{
    Attempt, JudgedTrial, Limiter, LoadClass, RateFound, RateLoad, Search, SearchGoal, Searched, Trial, TrialLoss,
    search_trials,
};
pub use join::{Joined, is_shard, join};
pub use large_pages::use_large_pages;
pub use launched::DeviceCheck;
pub use merge::{Merged, Skew, merge};
pub use ranks::{Instant, LaunchedRank, Meeting, RankCrew, RankFlag};
use report_plan::{read_paper, read_report};
pub use rfc2544::{Bench, Benchmark, BenchmarkPlan, Delays, LossAt, SizeRow};
pub use shard::Share;
pub use study::refuse as refuse_study;
pub use summary::{RoleSummary, Summary};
pub use sweep_file::refresh_sweep;
use sweep_file::{SWEEP, sweep_text, write_sweep};
pub use tune::{Tuned, TunedSetting, TuningPlan};
pub use wrong::{PayloadNumber, WrongKind, WrongPacket, WrongPackets, WrongValue, wrong_packets};

/// An experiment with its sweep expanded.
#[derive(Clone)]
pub struct Experiment {
    catalogue: &'static Catalogue,
    document: Document,
    /// Name.
    pub name: String,
    /// Description.
    pub about: String,
    /// The runs.
    pub runs: Vec<Run>,
    axes: Vec<(String, Vec<String>)>,
    report: ReportPlan,
    paper: Vec<Published>,
    metrics: Vec<UserMetric>,
    overrides: Vec<String>,
    command: Vec<String>,
    studies: study::Studies,
    view: Option<Arc<View>>,
    steering: Option<Arc<Steering>>,
    may_launch: bool,
    probes: bool,
    unused: OnceLock<Vec<Unused>>,
    /// Transports of its points, once these are planned.
    transports: OnceLock<Vec<&'static dyn Transport>>,
}

/// Longest name of a folder, in bytes.
const FOLDER_MAX: usize = 255;

/// Checks that each run has a folder of its own, with a name that file systems take.
fn check_folders(runs: &[Run]) -> Result<()> {
    let mut seen = HashSet::new();
    for run in runs {
        let folder = run.folder();
        if runs.len() > 1 && folder.len() > FOLDER_MAX {
            return Err(Error::config(format!(
                "[sweep]: the folder of a run would be called \"{folder}\", {} bytes, and file systems take {FOLDER_MAX}; give \
                 variants shorter names, or set long values in [[sweep.variants]]",
                folder.len()
            )));
        }
        if !seen.insert(folder) {
            return Err(Error::config(format!(
                "[sweep]: two runs would be called \"{}\"; give variants different names (letters, digits and signs of ASCII tell them \
                 apart) and list seeds once",
                run.folder()
            )));
        }
    }
    Ok(())
}

impl Experiment {
    /// Reads the sweep, the report and the published values of a document.
    pub fn open(catalogue: &'static Catalogue, document: Document) -> Result<Self> {
        Self::open_with(catalogue, document, STUDIES)
    }

    /// Reads it with other studies.
    pub fn open_with(
        catalogue: &'static Catalogue,
        mut document: Document,
        studies: &'static [&'static dyn Study],
    ) -> Result<Self> {
        let name = text(&document, "name", UNNAMED);
        let mut overrides = document.overrides();
        let about = text(&document, "about", "");
        let seed = seed(&document)?;
        let sweep = Sweep::read(&mut document, seed)?;
        overrides
            .retain(|text| !text.split_once('=').is_some_and(|(key, _)| sweep.overridden.iter().any(|own| own == key)));
        let runs = sweep.runs();
        check_folders(&runs)?;
        let mut axes: Vec<(String, Vec<String>)> = Vec::new();
        if !sweep.variants.is_empty() {
            axes.push(("variant".into(), sweep.variants.iter().map(|(name, _)| name.clone()).collect()));
        }
        axes.extend(sweep.axes.iter().map(|(key, values)| (key.clone(), values.iter().map(Value::to_label).collect())));
        let metrics = UserMetric::read_all(&mut document)?;
        let mut section = document.section("report")?;
        let mut shown = match study::metrics(&document, &runs, studies)? {
            Some(metrics) => metrics,
            None => default_metrics(catalogue, &document).to_vec(),
        };
        shown.extend(metrics.iter().map(|metric| metric.name.as_str()));
        let report = read_report(&mut section, &shown)?;
        // A single run of a sweep keeps its report's plan; there is nothing to compare it with.
        if let Some(baseline) = &report.baseline
            && !sweep.variants.is_empty()
            && !sweep.variants.iter().any(|(name, _)| name == baseline)
        {
            let names: Vec<_> = sweep.variants.iter().map(|(name, _)| name.as_str()).collect();
            return Err(Error::config(format!(
                "{}: \"{baseline}\" is no variant{}; there are: {}",
                section.place("baseline"),
                suggest(baseline, &names),
                names.join(", ")
            )));
        }
        document.close(section)?;
        let mut section = document.section("paper")?;
        let paper = read_paper(&mut section)?;
        document.close(section)?;
        Ok(Experiment {
            catalogue,
            document,
            name,
            about,
            runs,
            axes,
            report,
            paper,
            metrics,
            overrides,
            command: Vec::new(),
            studies,
            view: None,
            steering: None,
            may_launch: false,
            probes: false,
            unused: OnceLock::new(),
            transports: OnceLock::new(),
        })
    }

    /// Sets the command line, to be recorded with its runs.
    pub fn asked_by(self, command: Vec<String>) -> Self {
        Experiment { command, ..self }
    }

    /// Whether its workload is recorded.
    pub(crate) fn replays_trace(&self) -> bool {
        self.document.get("workload.trace").is_some()
    }

    /// Returns the axes of the sweep with their values; `variant` is first, if present.
    pub fn axes(&self) -> &[(String, Vec<String>)] {
        &self.axes
    }

    /// Returns the variant with which its report compares others.
    pub fn baseline(&self) -> Option<&str> {
        self.report.baseline.as_deref()
    }

    /// Returns the metrics of its report.
    pub fn shown(&self) -> &[String] {
        &self.report.metrics
    }

    /// Returns the published values.
    pub fn paper(&self) -> &[Published] {
        &self.paper
    }

    /// Returns the metrics that it defines.
    pub fn metrics(&self) -> &[UserMetric] {
        &self.metrics
    }

    /// Returns the overrides, with the variants in which they have no effect.
    pub fn overrides(&self) -> Vec<String> {
        with_variants(&self.overrides, &self.runs)
    }

    /// Returns the overrides that have no effect in a variant.
    pub fn overrides_without_effect(&self) -> Vec<String> {
        self.overrides().into_iter().filter(|text| !self.overrides.contains(text)).collect()
    }

    /// Publishes live statistics of its runs in real time to `view`.
    pub fn watched_by(self, view: Arc<View>) -> Self {
        Experiment { view: Some(view), ..self }
    }

    /// Lets `steering` change its runs in real time while they are in progress.
    pub fn steered_by(self, steering: Arc<Steering>) -> Self {
        Experiment { steering: Some(steering), ..self }
    }

    fn resolve(&self, run: &Run) -> Result<Document> {
        let mut document = self.document.clone();
        run.apply(&mut document)?;
        Ok(document)
    }

    /// Plans one run in virtual time: everything is read and checked, nothing is sent.
    pub fn plan(&self, run: &Run) -> Result<Plan> {
        let document = self.resolve(run)?;
        study::refuse(&document)?;
        plan(self.catalogue, document, run.seed)
    }

    /// Plans one run for any driver.
    pub fn prepare(&self, run: &Run) -> Result<Plan> {
        self.prepare_share(run, Shard::WHOLE)
    }

    /// Plans one run for a process with a share of the workers.
    fn prepare_share(&self, run: &Run, share: Shard) -> Result<Plan> {
        let document = self.resolve(run)?;
        study::refuse(&document)?;
        let plan = prepare_share(self.catalogue, document, run.seed, share)?;
        plan.check_external()?;
        if plan.spec.is_real_time() {
            real::check(&plan)?;
        }
        Ok(plan)
    }

    /// Plans one run for inspection: hardware in virtual time is permitted.
    pub fn draft(&self, run: &Run) -> Result<Plan> {
        let document = self.resolve(run)?;
        study::refuse(&document)?;
        prepare(self.catalogue, document, run.seed)
    }

    /// Refuses a run whose workers offer more than their interface's link carries, on a host whose files are below `root`.
    pub fn check_rate(&self, run: &Run, plan: &Plan, root: &Path) -> Result<()> {
        plan.check_rate(root, || self.updates(run))
    }

    /// Returns whether several processes may have shares of the workers of a run that can be planned as a whole.
    pub fn may_share(&self, run: &Run) -> bool {
        Shard::new(1, 2).is_ok_and(|half| self.prepare_share(run, half).is_ok())
    }

    /// Reopens the updates of a run.
    pub fn updates(&self, run: &Run) -> Result<Box<dyn Source>> {
        source(self.catalogue, self.resolve(run)?, run.seed)
    }

    /// Runs everything into `out`: a run dir, or a folder of them with `sweep.json`. `progress` is called with the
    /// numbers of finished runs and of updates sent in total; `stop` ends it cleanly.
    pub fn execute(
        &self,
        out: &Path,
        threads: usize,
        stop: &AtomicBool,
        progress: &(dyn Fn(usize, Progress) + Sync),
    ) -> Result<Vec<Finished>> {
        // Planning every point first finds mistakes before anything is written.
        let real_time = self.transports()?.iter().any(|kind| kind.capabilities().real_time);
        if self.runs.len() == 1 {
            let task = Task { progress: &|p| progress(0, p), ..Task::whole(stop) };
            let finished = self.run_one(&self.runs[0], out, &task)?;
            // A sweep of one run: the report finds its plan and the published values in the same place.
            self.write_sweep(out, Some(&self.runs[0]))?;
            progress(1, Progress { sent: finished.balance.sent, ..Progress::default() });
            return Ok(vec![finished]);
        }
        let claim = claim(out)?;
        // During the runs the folder lists the planned ones.
        self.write_sweep(out, None)?;
        drop(claim);
        // Concurrent runs in real time would disturb each other.
        let threads = if real_time { 1 } else { threads };
        let finished = self.run_all(&self.runs.iter().collect::<Vec<_>>(), out, threads, stop, progress);
        if finished.is_err() {
            self.clear(out);
        }
        let finished = finished?;
        self.write_sweep(out, None)?;
        Ok(finished)
    }

    /// Removes the rest of a sweep of which no run began: its folder is free for the next.
    fn clear(&self, out: &Path) {
        let folders: Vec<_> = self.runs.iter().map(|run| out.join(run.folder())).collect();
        if folders.iter().any(|folder| folder.join("manifest.json").exists()) {
            return;
        }
        // Only empty folders are removed.
        for folder in folders.iter().flat_map(|folder| folder.ancestors().take_while(|it| *it != out)) {
            let _ = std::fs::remove_dir(folder);
        }
        let _ = std::fs::remove_file(out.join(SWEEP));
        let _ = std::fs::remove_dir(out);
    }

    /// Runs these, each into its folder in `out`.
    fn run_all(
        &self,
        runs: &[&Run],
        out: &Path,
        threads: usize,
        stop: &AtomicBool,
        progress: &(dyn Fn(usize, Progress) + Sync),
    ) -> Result<Vec<Finished>> {
        let next = AtomicUsize::new(0);
        let results: Mutex<Vec<(usize, Result<Finished>)>> = Mutex::new(Vec::new());
        let tally = Mutex::new((0usize, 0u64, Progress::default()));
        // Runs in real time are sequential, and their progress is shown while they run.
        let live = |p: Progress| {
            if let Ok(mut tally) = tally.lock() {
                tally.2 = Progress { sent: tally.1 + p.sent, sent_before: tally.1, ..p };
                progress(tally.0, tally.2);
            }
        };
        let task = Task::whole(stop);
        let task = if threads == 1 { Task { progress: &live, ..task } } else { task };
        let work = || {
            while !stop.load(Ordering::Relaxed) {
                let i = next.fetch_add(1, Ordering::Relaxed);
                let Some(run) = runs.get(i) else { break };
                let result = self.run_one(run, &out.join(run.folder()), &task);
                if let (Ok(finished), Ok(mut tally)) = (&result, tally.lock()) {
                    let (over, sent, last) = *tally;
                    *tally = (over + 1, sent + finished.balance.sent, Progress::default());
                    // Of a run in real time its end is shown until the next one begins.
                    progress(tally.0, Progress { sent: tally.1, ..last });
                }
                let failed = result.is_err();
                if let Ok(mut results) = results.lock() {
                    results.push((i, result));
                }
                if failed {
                    next.store(runs.len(), Ordering::Relaxed);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads.max(1) {
                scope.spawn(work);
            }
            work();
        });
        let mut results = results.into_inner().unwrap_or_default();
        results.sort_by_key(|(i, _)| *i);
        results.into_iter().map(|(_, result)| result).collect()
    }

    /// Restricts the experiment to the run with this folder name.
    pub fn only(mut self, folder: &str) -> Result<Self> {
        let run = self.choose(Some(folder))?.clone();
        for (key, values) in &mut self.axes {
            values.retain(|value| run.labels.get(key) == Some(value));
        }
        (self.runs, self.transports) = (vec![run], OnceLock::new());
        Ok(self)
    }

    /// Returns the run with this folder name, or the only one.
    pub fn choose(&self, folder: Option<&str>) -> Result<&Run> {
        let names = || self.runs.iter().take(8).map(Run::folder).collect::<Vec<_>>().join(" ");
        match (folder, &self.runs[..]) {
            (None, [only]) => Ok(only),
            (None, runs) => Err(Error::config(format!(
                "the experiment has {} runs, and this command needs one; name it with --run, as --run {}; there are: \
                 {} ...",
                runs.len(),
                runs.first().map(Run::folder).unwrap_or_default(),
                names()
            ))),
            (Some(name), runs) => runs.iter().find(|run| run.folder() == name).ok_or_else(|| {
                Error::config(format!("--run {name}: there is no such run; there are: {} ...", names()))
            }),
        }
    }

    /// Runs one part of a run in this process; the others run elsewhere, or are hardware.
    pub fn execute_part(&self, run: &Run, out: &Path, task: &Task) -> Result<Finished> {
        let finished = self.run_one(run, out, task)?;
        self.write_sweep(out, Some(run))?;
        Ok(finished)
    }

    fn run_one(&self, run: &Run, dir: &Path, task: &Task) -> Result<Finished> {
        self.view.iter().for_each(|view| view.end());
        let document = self.resolve(run)?;
        if study::is_one(&document) {
            return self.run_study(run, document, dir, task);
        }
        let before = drawn();
        let plan = self.plan_part(run, task.roles, task.share, task.meeting.is_some())?;
        let mut manifest = self.manifest(run, &plan);
        manifest.rank = task.meeting.map(Meeting::rank);
        let external = plan.spec.is_external();
        if task.roles.part().is_some() && !plan.spec.is_real_time() {
            return Err(Error::config(format!(
                "transport.kind = \"{}\" moves frames within one process; a part of a run needs wires: udp, af_packet, \
                 af_xdp, xdp_live, or files: pcap",
                plan.spec.transport.kind.name()
            )));
        }
        let roles = task.roles.of_run(plan.spec.transport.has_server, external)?;
        let task = &Task { roles, steering: self.steering.as_deref(), ..*task };
        manifest.part = roles.part().map(str::to_owned);
        // An empty folder is not a run dir: a refusal of the host leaves nothing behind.
        let claim = claim(dir)?;
        let _held = hold(dir)?;
        let source = || Ok(share(source(self.catalogue, self.resolve(run)?, run.seed)?, task.share));
        let device = self.start_device(&plan)?;
        manifest.host.extend(device.iter().flat_map(LaunchedDevice::facts));
        manifest.host.extend(self.probe(&plan, task)?.map(|found| ("device.probe".to_owned(), found)));
        if let Some(socket) = task.steering.and_then(Steering::socket) {
            manifest.host.insert("control.socket".into(), socket);
        }
        let remote = simulated::open(&plan, run.seed, self.may_launch)?;
        let opened = plan
            .spec
            .is_real_time()
            .then(|| real::open(&plan, source, (task.roles, task.steering.is_some())))
            .transpose()?;
        let recorder = RunDir::create(claim, &manifest, plan.spec.wanted())?;
        let mut summary = None;
        if let Some(opened) = opened {
            let expected = expected(&plan, task.roles);
            let sees = sees(&plan, task.roles, expected);
            let begin =
                |view: &Arc<View>| view.begin((run.folder(), dir), plan.spec.workers.clusters(), expected, sees);
            let watched = self.view.as_ref().map(begin);
            summary = Some(real::run(plan, (opened, device), source, &mut manifest, recorder, task, watched)?);
        } else {
            simulated::run(plan, remote, &source, &mut manifest, recorder, task, before)?;
        }
        Ok(Finished { summary, ..Finished::of(dir, manifest) })
    }

    /// Returns the manifest of a run that is about to start.
    pub fn manifest(&self, run: &Run, plan: &Plan) -> Manifest {
        let mut remarks = plan.spec.remarks.clone();
        // Known before: a run that is killed has its times, too.
        let is_top = plan.spec.is_real_time() && plan.spec.transport.pacing == Pacing::Top;
        remarks.extend(is_top.then_some(Note::TopSpeed {}));
        let domain = if plan.spec.is_real_time() { "monotonic" } else { "virtual" };
        let clock = |column: &str| (column.to_owned(), domain.to_owned());
        Manifest {
            version: MANIFEST_VERSION,
            tool: tool(),
            experiment: self.name.clone(),
            family: Some(plan.spec.family),
            labels: run.labels.clone(),
            seed: run.seed,
            created_unix_ns: clock::unix_ns(),
            trace_hash: plan.spec.trace_hash.clone(),
            config: plan.spec.config.clone(),
            command: self.command.clone(),
            overrides: points::with_unused(
                with_variants(&self.overrides, std::slice::from_ref(run)),
                &plan.spec.unused,
            ),
            uses_chance: true,
            clocks: [
                "sent.t_gen_ps",
                "sent.t_due_ps",
                "sent.t_sent_ps",
                "books.t_ps",
                "received.t_recv_ps",
                "states.t_ps",
                "iterations.t_start_ps",
                "iterations.t_ready_ps",
                "iterations.t_end_ps",
                "results.t_recv_ps",
                "results.t_sent_ps",
                "lanes.t_recv_ps",
                "stamps.t_ps",
            ]
            .map(clock)
            .into(),
            nodes: plan.spec.nodes.clone(),
            records: plan.spec.capture.records.to_string(),
            clusters: plan.spec.workers.cluster_of.clone(),
            metrics: self.metrics.clone(),
            external: plan.spec.external(),
            profile_hash: plan.spec.profile_hash(),
            training: plan.spec.training.clone(),
            planned: plan.spec.planned.clone(),
            lanes: plan.spec.lanes.as_ref().map(|lanes| *lanes.layout()),
            goal: plan.spec.capture.goal,
            incidents: Incidents { notes: remarks.clone(), ..Incidents::default() },
            validity: Validity { faults: vec![Fault::UnderWay {}], notes: remarks },
            ..Manifest::default()
        }
    }

    /// Returns the sweep manifest of a folder: all runs, or a single one.
    fn sweep(&self, single: Option<&Run>) -> SweepManifest {
        let folder = |r: &Run| if single.is_some() { ".".to_owned() } else { r.folder() };
        let runs = self.runs.iter().filter(|run| single.is_none_or(|only| std::ptr::eq(only, *run)));
        let runs = runs.map(|r| SweepRun { dir: folder(r), labels: r.labels.clone(), seed: r.seed, manifest: None });
        let mut axes = self.axes.clone();
        for (key, values) in &mut axes {
            values.retain(|value| single.is_none_or(|run| run.labels.get(key) == Some(value)));
        }
        SweepManifest {
            version: MANIFEST_VERSION,
            experiment: self.name.clone(),
            about: self.about.clone(),
            overrides: self.overrides(),
            axes,
            runs: runs.collect(),
            report: self.report.clone(),
            paper: self.paper.clone(),
            shard: None,
        }
    }

    /// Writes the folder's `sweep.json`, with the digests of the existing runs.
    fn write_sweep(&self, out: &Path, single: Option<&Run>) -> Result<()> {
        write_sweep(out, &mut self.sweep(single))
    }
}

/// Returns what a process with these roles sees of a run behind a device with this effect.
fn sees(plan: &Plan, roles: Roles, expected: Expected) -> Sees {
    let by_key = expected == Expected::SumsByKey;
    let paced = plan.spec.transport.pacing == Pacing::Deadlines;
    Sees {
        sends: roles.workers,
        device: roles.device,
        server: roles.server,
        results: roles.workers && (by_key || !plan.spec.transport.has_server),
        paced,
        counted: !by_key,
        dated: paced && plan.spec.family == Family::Updates && !plan.spec.raw,
    }
}

/// The part of a run that this process does.
#[derive(Clone, Copy)]
pub struct Task<'a> {
    /// Its roles.
    pub roles: Roles,
    /// Its share of the workers, if it has that role.
    pub share: Shard,
    /// How it finds the other processes of the run, if they begin together.
    pub meeting: Option<&'a Meeting>,
    /// Conditions for its end, if it has no workers.
    pub serve: Serve,
    /// Steering during the run, if wanted.
    pub steering: Option<&'a Steering>,
    /// Set when the user requests a stop.
    pub stop: &'a AtomicBool,
    /// Whether its run dir is removed afterwards.
    pub is_trial: bool,
    /// Called with the progress of the run.
    pub progress: &'a (dyn Fn(Progress) + Sync),
}

impl<'a> Task<'a> {
    /// The task of a whole run in this process.
    pub fn whole(stop: &'a AtomicBool) -> Self {
        Task {
            roles: Roles::ALL,
            share: Shard::WHOLE,
            meeting: None,
            serve: Serve::default(),
            steering: None,
            stop,
            is_trial: false,
            progress: &|_| {},
        }
    }
}

/// The outcome of a run.
#[derive(Debug, Clone)]
pub struct Finished {
    /// Its folder.
    pub dir: PathBuf,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its seed.
    pub seed: u64,
    /// Traffic of its process, in real time.
    pub summary: Option<Summary>,
    /// The fates of all updates and of background traffic.
    pub balance: Balance,
    /// The fates of updates alone; of all traffic, if no worker has a cluster.
    pub updates: Balance,
    /// Observations about a device that keeps no books.
    pub unseen: Option<Unseen>,
    /// Whether its numbers may be used.
    pub validity: Validity,
    /// Its progress.
    pub state: RunState,
}

/// Returns tool version and commit.
pub(crate) fn tool() -> String {
    format!("pktgen {} ({})", env!("CARGO_PKG_VERSION"), env!("PKTGEN_COMMIT"))
}

fn text(document: &Document, key: &str, default: &str) -> String {
    document.get(key).map_or(default.to_owned(), Value::to_label)
}

/// The seed of experiments that state none.
pub const SEED: u64 = 1;

/// Returns the seed of runs without a list of seeds.
fn seed(document: &Document) -> Result<u64> {
    match document.get("seed") {
        None => Ok(SEED),
        Some(Value::Integer(seed)) if *seed >= 0 => Ok(*seed as u64),
        Some(other) => Err(Error::config(format!("seed = {}: a seed is a whole number from 0 on", other.to_toml()))),
    }
}
