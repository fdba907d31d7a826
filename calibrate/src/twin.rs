//! The twin: the experiment at a setting of its parameters, run with several seeds, and the resulting metrics of the targets.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use pktgen_core::config::{Entry, Origin, Run, Value};
use pktgen_core::record::plan_hash;
use pktgen_core::{Error, Result};
use pktgen_realtime::run::Experiment;
use pktgen_records::Options;
use pktgen_report::SweepData;
use pktgen_report::sweep::data::{RunSummary, is_at};
use serde::{Deserialize, Serialize};

use crate::parameter::{Parameter, Setting, Space};
use crate::target::TargetValue;

/// Settings per sweep: a kill loses at most these.
const AT_ONCE: usize = 8;
/// The label that tells settings apart within a sweep.
const LABEL: &str = "setting";
/// The file with the evaluated settings.
const FILE: &str = "evaluations.jsonl";
const VERSION: u32 = 3;

/// Returns whether a calibration has begun in `dir`.
pub fn is_in(dir: &Path) -> bool {
    dir.join(FILE).exists()
}

/// The results of one setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluated {
    /// The setting.
    pub setting: Setting,
    /// For each target a value per seed; none where the run has none, or is invalid.
    pub values: Vec<Vec<Option<f64>>>,
    /// Number of invalid runs.
    pub invalid: usize,
    /// Why the first of them may not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// What runs settings.
pub trait Twin {
    /// Runs these, or remembers them, in this order.
    fn evaluate(&mut self, settings: &[Setting]) -> Result<Vec<Evaluated>>;
}

/// The first line of what was run.
#[derive(Debug, Serialize, Deserialize, PartialEq)]
struct Head {
    version: u32,
    tool: String,
    digest: String,
}

/// An experiment as a twin. What was run is kept in a file, so that a calibration that was killed goes on.
pub struct ExperimentTwin<'a> {
    experiment: Experiment,
    space: &'a Space,
    targets: &'a [TargetValue],
    over: &'a [(String, Value)],
    dir: PathBuf,
    jobs: usize,
    options: Options,
    stop: &'a AtomicBool,
    known: HashMap<Vec<u64>, Evaluated>,
    file: File,
    /// Settings remembered from before.
    pub remembered: usize,
}

/// How a twin is run.
#[derive(Clone, Copy)]
pub struct TwinPlan<'a> {
    /// Its parameters.
    pub space: &'a Space,
    /// What is measured.
    pub targets: &'a [TargetValue],
    /// Keys with values that replace those of variants and parameters.
    pub over: &'a [(String, Value)],
    /// Seeds of each point.
    pub seeds: u32,
    /// Runs at once.
    pub jobs: usize,
    /// How runs are analysed.
    pub options: Options,
    /// Set when the user requests a stop.
    pub stop: &'a AtomicBool,
}

impl<'a> ExperimentTwin<'a> {
    /// Keeps of `experiment` the points that targets are of, and goes on with what is in `dir`; `identity` says what must be the same
    /// for that.
    pub fn open(mut experiment: Experiment, plan: TwinPlan<'a>, dir: &Path, identity: &str) -> Result<Self> {
        check(&experiment, plan.space)?;
        experiment.runs = chosen(&experiment, plan.targets, plan.seeds)?;
        let digest = digest(&experiment, &plan, identity)?;
        fs::create_dir_all(dir).map_err(Error::io("create folder", dir))?;
        let path = dir.join(FILE);
        let tool = format!("pktgen {}", env!("CARGO_PKG_VERSION"));
        let head = Head { version: VERSION, tool, digest };
        let mut file = OpenOptions::new().create(true).append(true).open(&path).map_err(Error::io("open", &path))?;
        // A launcher that lost sight of a process starts it a second time.
        if matches!(file.try_lock(), Err(fs::TryLockError::WouldBlock)) {
            return Err(Error::Invalid(format!(
                "{}: another process calibrates in this folder; wait until that has ended, or choose another with --out",
                dir.display()
            )));
        }
        let known = remembered(&path, &head)?;
        if known.is_none() {
            line(&mut file, &path, &head)?;
        }
        let known = known.unwrap_or_default();
        Ok(ExperimentTwin {
            experiment,
            space: plan.space,
            targets: plan.targets,
            over: plan.over,
            dir: dir.to_owned(),
            jobs: plan.jobs,
            options: plan.options,
            stop: plan.stop,
            remembered: known.len(),
            known: known.into_iter().map(|one| (key(&one.setting), one)).collect(),
            file,
        })
    }

    /// Runs of each setting.
    pub fn runs_each(&self) -> usize {
        self.experiment.runs.len()
    }

    fn run(&mut self, settings: &[Setting]) -> Result<()> {
        let mut experiment = self.experiment.clone();
        experiment.runs.clear();
        for (i, setting) in settings.iter().enumerate() {
            let applied = |run| self.space.applied(run, i, setting, self.over);
            experiment.runs.extend(self.experiment.runs.iter().map(applied));
        }
        let folder = self.dir.join("runs");
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(Error::io("remove", &folder))?;
        }
        let finished = experiment.execute(&folder, self.jobs, self.stop, &|_, _| {})?;
        if finished.len() < experiment.runs.len() || self.stop.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(Error::Invalid(format!("stopped; the same command with --out {} goes on", self.dir.display())));
        }
        let data = SweepData::open_with(&folder, self.options, &mut |_, _| {})?;
        for (i, setting) in settings.iter().enumerate() {
            let own = i.to_string();
            let runs: Vec<&RunSummary> = data.runs.iter().filter(|run| run.labels.get(LABEL) == Some(&own)).collect();
            let one = self.read(setting, &runs);
            line(&mut self.file, &self.dir.join(FILE), &one)?;
            self.known.insert(key(setting), one);
        }
        fs::remove_dir_all(&folder).map_err(Error::io("remove", &folder))
    }

    fn read(&self, setting: &Setting, runs: &[&RunSummary]) -> Evaluated {
        let value = |target: &TargetValue, run: &&&RunSummary| {
            run.scalars.get(target.metric.as_str()).filter(|value| value.is_finite() && run.validity.is_valid())
        };
        let values = |target: &TargetValue| {
            runs.iter().filter(|run| is_at(&target.at, &run.labels)).map(|run| value(target, &run)).collect()
        };
        let mut invalid = runs.iter().filter(|run| !run.validity.is_valid()).peekable();
        let why = invalid.peek().map(|run| format!("{}: {}", run.dir, run.validity.why()));
        Evaluated {
            setting: setting.clone(),
            values: self.targets.iter().map(values).collect(),
            why,
            invalid: invalid.count(),
        }
    }
}

impl Twin for ExperimentTwin<'_> {
    fn evaluate(&mut self, settings: &[Setting]) -> Result<Vec<Evaluated>> {
        let mut new: Vec<Setting> = Vec::new();
        for setting in settings {
            if !self.known.contains_key(&key(setting)) && !new.contains(setting) {
                new.push(setting.clone());
            }
        }
        new.chunks(AT_ONCE).try_for_each(|some| self.run(some))?;
        Ok(settings.iter().filter_map(|setting| self.known.get(&key(setting)).cloned()).collect())
    }
}

impl Space {
    /// A run with a setting over it, the `i`-th of a sweep, and `over` over both.
    fn applied(&self, run: &Run, i: usize, setting: &[f64], over: &[(String, Value)]) -> Run {
        let entry = |key: &str, value: Value, origin: fn(String) -> Origin| {
            let origin = origin(format!("{key}={}", value.to_label()));
            (key.to_owned(), Entry { value, origin })
        };
        let mut run = run.clone();
        let variant = run.labels.get("variant").cloned();
        run.labels.insert(LABEL.to_owned(), i.to_string());
        for (parameter, value) in self.parameters.iter().zip(self.values(setting)) {
            if parameter.variant.is_none() || parameter.variant == variant {
                run.set.push(entry(&parameter.key, value, Origin::Parameter));
            }
        }
        run.set.extend(over.iter().map(|(key, value)| entry(key, value.clone(), Origin::Flag)));
        run
    }

    /// Adds to the refusal of a setting why a parameter with whole ends, such as 2 and 64.0, has values like 33.0.
    fn explained(&self, error: Error) -> Error {
        let text = match error {
            Error::Config(text) => text,
            other => return other,
        };
        let is_blamed = |parameter: &&Parameter| {
            let numbers = parameter.numbers().filter(|it| !it.whole && it.unit.is_empty());
            numbers.is_some_and(|it| it.from.fract() == 0.0 && it.to.fract() == 0.0)
                && text.contains(&format!("{}=", parameter.key))
        };
        match self.parameters.iter().find(is_blamed) {
            None => Error::Config(text),
            Some(parameter) => Error::Config(format!(
                "{text}; if {} has whole numbers, write both ends of its range without a point",
                parameter.key
            )),
        }
    }
}

fn key(setting: &[f64]) -> Vec<u64> {
    setting.iter().map(|number| number.to_bits()).collect()
}

/// Refuses parameters that the sweep varies, and variants that there are not.
fn check(experiment: &Experiment, space: &Space) -> Result<()> {
    let variants: Vec<&String> = experiment.runs.iter().filter_map(|run| run.labels.get("variant")).collect();
    for parameter in &space.parameters {
        let name = parameter.name();
        if experiment.axes().iter().any(|(axis, _)| *axis == parameter.key) {
            return Err(Error::config(format!("parameter {name}: the sweep varies it; take it out of [sweep.axes]")));
        }
        if let Some(variant) = &parameter.variant
            && !variants.contains(&variant)
        {
            let mut known: Vec<_> = variants.iter().map(|name| name.as_str()).collect();
            known.dedup();
            return Err(Error::config(format!(
                "parameter {name}: there is no such variant; there are: {}",
                known.join(", ")
            )));
        }
    }
    Ok(())
}

/// The runs of the points that targets are of, and of what they are compared with, each with so many seeds.
fn chosen(experiment: &Experiment, targets: &[TargetValue], seeds: u32) -> Result<Vec<Run>> {
    let mut points: Vec<&Run> = Vec::new();
    for run in &experiment.runs {
        if !points.iter().any(|point| point.labels == run.labels) {
            points.push(run);
        }
    }
    let mut wanted = vec![false; points.len()];
    for target in targets {
        let fitting: Vec<usize> = (0..points.len()).filter(|i| is_at(&target.at, &points[*i].labels)).collect();
        let [only] = fitting[..] else {
            let all: Vec<_> = points.iter().map(|point| format!("{:?}", point.labels)).take(4).collect();
            return Err(Error::config(format!(
                "target {} fits {} of the experiment's {} points; say at.AXIS = so that it is one of: {} ...",
                target.name(),
                fitting.len(),
                points.len(),
                all.join(" ")
            )));
        };
        wanted[only] = true;
        let rest = |run: &Run| {
            let mut labels = run.labels.clone();
            labels.remove("variant");
            labels
        };
        for (i, point) in points.iter().enumerate() {
            let is_baseline = point.labels.get("variant").map(String::as_str) == experiment.baseline();
            wanted[i] |= is_baseline && point.labels.contains_key("variant") && rest(point) == rest(points[only]);
        }
    }
    let mut all: Vec<u64> =
        experiment.runs.iter().filter(|run| run.labels == points[0].labels).map(|run| run.seed).collect();
    all.truncate(seeds as usize);
    while all.len() < seeds as usize {
        all.push(all.iter().max().map_or(1, |most| most.wrapping_add(1)));
    }
    let of = |point: &&Run| all.iter().map(|seed| Run { seed: *seed, ..(*point).clone() }).collect::<Vec<_>>();
    Ok(points.iter().zip(&wanted).filter(|(_, wanted)| **wanted).flat_map(|(point, _)| of(point)).collect())
}

/// Returns the digest of what must be the same for going on: `identity`, and the updates, network and profile of each point, whose files may
/// have been made anew.
fn digest(experiment: &Experiment, plan: &TwinPlan, identity: &str) -> Result<String> {
    let setting = plan.space.setting(&vec![0; plan.space.parameters.len()], &[]);
    let mut seen = HashSet::new();
    let mut contents = Vec::new();
    for run in experiment.runs.iter().filter(|run| seen.insert(&run.labels)) {
        let point = experiment.prepare(&plan.space.applied(run, 0, &setting, plan.over));
        let point = point.map_err(|error| plan.space.explained(error))?;
        contents.extend([point.spec.trace_hash.clone(), format!("{:?}", point.parts.topology)]);
        contents.extend(point.spec.hardware.as_ref().map(|hardware| hardware.profile.hash.clone()));
    }
    Ok(plan_hash(identity, contents.iter().map(String::as_str)))
}

/// What a file says that was run before; none if there is no file.
fn remembered(path: &Path, head: &Head) -> Result<Option<Vec<Evaluated>>> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("read", path)(error)),
    };
    // A kill may cut the last line: it goes.
    let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
    if whole.len() < text.len() {
        // Truncated in place: whatever happens meanwhile, the evaluations before it stay.
        let cut = OpenOptions::new().write(true).open(path).and_then(|file| file.set_len(whole.len() as u64));
        cut.map_err(Error::io("truncate", path))?;
    }
    let mut lines = whole.lines();
    let Some(first) = lines.next() else { return Ok(None) };
    let found: Head = serde_json::from_str(first).map_err(|error| Error::data(path, error.to_string()))?;
    if found != *head {
        return Err(Error::config(format!(
            "{}: another calibration's (experiment, its trace, frames or network, parameters, targets, seeds or version \
             differ); choose another folder with --out",
            path.display()
        )));
    }
    let each = lines.map(|line| serde_json::from_str(line).map_err(|error| Error::data(path, error.to_string())));
    each.collect::<Result<Vec<_>>>().map(Some)
}

fn line(file: &mut File, path: &Path, what: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string(what).map_err(|error| Error::data(path, error.to_string()))?;
    file.write_all(format!("{text}\n").as_bytes()).map_err(Error::io("write", path))
}
