//! An experiment with a section `[study]`: measurements without a network.
//!
//! Used by [`super::Experiment`]. The study reads its keys and produces findings; they go into the manifest of a run
//! dir without streams. Sweeps, seeds and reports work as for runs.

use std::collections::HashSet;
use std::path::Path;

use pktgen_core::config::{Document, Run, SECTIONS, Section, Unused, Value, with_variants};
use pktgen_core::record::{MANIFEST_VERSION, Manifest, RunState};
use pktgen_core::registry::find;
use pktgen_core::seed::{Seed, drawn};
use pktgen_core::{Error, Result};
use pktgen_workload::study::{Finding, Study, TIME_TAKEN, Task as Ready};

use super::{Experiment, Finished, Task, points, tool};
use crate::capture::{claim, write_manifest};
use crate::clock;
use crate::plan::read_top;

/// The studies that an experiment may name.
pub(super) type Studies = &'static [&'static dyn Study];

/// Sections about frames and networks, which a study does not have.
const NOT_BESIDE: [&str; 8] =
    ["workload", "schedule", "format", "topology", "target", "endpoint", "transport", "capture"];

/// Returns whether this is a study.
pub(super) fn is_one(document: &Document) -> bool {
    document.get("study").is_some()
}

/// Returns whether a key is `study` or one of its section.
fn is_of_study(key: &str) -> bool {
    key == "study" || key.starts_with("study.")
}

/// Returns whether each run of the sweep is a study, chosen by its variant or by an axis.
fn is_swept(document: &Document) -> bool {
    // Keys may be in quotes: "study.kind".
    let sets_study = |value: &Value| matches!(value, Value::Table(keys) if keys.keys().any(|key| is_of_study(key)));
    let every = match document.get("sweep.variants") {
        Some(Value::List(variants)) => {
            !variants.is_empty() && variants.iter().all(|variant| sets_study(&variant.value))
        }
        _ => false,
    };
    every || document.get("sweep.axes").is_some_and(sets_study)
}

/// Refuses a study where frames are required.
pub fn refuse(document: &Document) -> Result<()> {
    if !is_one(document) && !is_swept(document) {
        return Ok(());
    }
    Err(Error::config(format!(
        "{}: it is a study ([study]), which is measured without a network; run it with pktgen replay (--find-rate and --dry-run are \
         not for studies)",
        document.name()
    )))
}

/// Returns the metrics of the studies in an experiment, each once; `None` if it has no study.
pub(super) fn metrics(experiment: &Document, runs: &[Run], studies: Studies) -> Result<Option<Vec<&'static str>>> {
    if !is_one(experiment) && !runs.iter().any(|run| run.set.iter().any(|(path, _)| is_of_study(path))) {
        return Ok(None);
    }
    let mut metrics: Vec<&str> = Vec::new();
    let mut seen = HashSet::new();
    for run in runs.iter().filter(|run| seen.insert(&run.labels)) {
        let mut document = experiment.clone();
        run.apply(&mut document)?;
        if is_one(&document) {
            let (study, _) = open(&mut document, studies)?;
            let named = study.metrics().iter().map(|definition| definition.metric);
            let new: Vec<_> = named.filter(|metric| !metrics.contains(metric)).collect();
            metrics.extend(new);
        }
    }
    Ok(Some(metrics))
}

/// Finds the study; its section is to be read and closed.
fn open(document: &mut Document, studies: Studies) -> Result<(&'static dyn Study, Section)> {
    let mut section = document.section("study")?;
    let Some(kind) = section.get_opt::<String>("kind")? else {
        let names: Vec<_> = studies.iter().map(|study| study.name()).collect();
        return Err(Error::config(format!(
            "{} is missing: it says which study this is; there are: {}",
            section.place("kind"),
            names.join(", ")
        )));
    };
    let study = find(studies, "study", &kind, &section.place("kind"))?;
    Ok((study, section))
}

/// Finds mistakes in names of keys and sections before anything is done.
pub(super) fn check(mut document: Document, seed: u64, studies: Studies) -> Result<()> {
    if let Some(name) = NOT_BESIDE.iter().copied().find(|name| document.get(name).is_some()) {
        let section = document.section(name)?;
        return Err(Error::config(format!(
            "{}: [{name}] cannot stand beside [study], which is measured without a network; take out one of them",
            section.origin()
        )));
    }
    read_top(&mut document, seed)?;
    let (study, mut section) = open(&mut document, studies)?;
    section.allow(study.keys());
    document.close(section)?;
    document.finish(SECTIONS)
}

/// Returns the keys that were written and that the study does not read.
pub(super) fn unused(document: Document, seed: u64, studies: Studies) -> Result<Vec<Unused>> {
    Ok(read(document, seed, studies)?.2.unused().to_vec())
}

/// Reads the study. Returns it, its task, and the document as it was read.
fn read(mut document: Document, seed: u64, studies: Studies) -> Result<(&'static dyn Study, Ready, Document)> {
    check(document.clone(), seed, studies)?;
    read_top(&mut document, seed)?;
    let (study, mut section) = open(&mut document, studies)?;
    let ready = study.read(&mut section)?;
    // Keys that this run does not use: a sweep visits others.
    section.allow(study.keys());
    document.close(section)?;
    document.finish(SECTIONS)?;
    Ok((study, ready, document))
}

/// Runs the study. Returns its name, its findings, and the document as it was read.
fn find_out(document: Document, seed: u64, studies: Studies) -> Result<(&'static str, Vec<Finding>, Document)> {
    let (study, ready, read) = read(document, seed, studies)?;
    let watch = clock::Stopwatch::start();
    let mut findings = ready(Seed(seed), &|| watch.elapsed().as_nanos() as u64)?;
    if study.metrics().contains(&TIME_TAKEN) {
        findings.push(Finding::new(TIME_TAKEN.metric, TIME_TAKEN.unit, watch.elapsed().as_nanos() as f64));
    }
    Ok((study.name(), findings, read))
}

impl Experiment {
    /// Returns the resolved configuration of one run. For a study its keys are read, without running it.
    pub fn config(&self, run: &Run) -> Result<String> {
        let document = self.resolve(run)?;
        if is_one(&document) {
            Ok(read(document, run.seed, self.studies)?.2.resolved())
        } else {
            Ok(self.prepare(run)?.spec.config)
        }
    }

    /// Runs a study into `dir`.
    pub(super) fn run_study(&self, run: &Run, document: Document, dir: &Path, task: &Task) -> Result<Finished> {
        if let Some(part) = task.roles.part() {
            return Err(Error::config(format!(
                "{}: [study] moves no frames, so it has no part \"{part}\"; run it whole, with pktgen replay",
                self.document.name()
            )));
        }
        let _claim = claim(dir)?;
        let before = drawn();
        let (study, findings, read) = find_out(document, run.seed, self.studies)?;
        let uses_chance = drawn() != before;
        let manifest = Manifest {
            version: MANIFEST_VERSION,
            tool: tool(),
            experiment: self.name.clone(),
            labels: run.labels.clone(),
            seed: run.seed,
            state: RunState::Finished,
            created_unix_ns: clock::unix_ns(),
            config: read.resolved(),
            command: self.command.clone(),
            overrides: points::with_unused(with_variants(&self.overrides, std::slice::from_ref(run)), read.unused()),
            uses_chance,
            records: "none".into(),
            metrics: self.metrics.clone(),
            study: Some(study.to_owned()),
            findings,
            ..Manifest::default()
        };
        write_manifest(dir, &manifest)?;
        Ok(Finished::of(dir, manifest))
    }
}
