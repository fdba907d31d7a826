//! The sources of targets: published values of the experiment, measured runs, or captures.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use pktgen_core::{Error, Result};
use pktgen_realtime::run::Experiment;
use pktgen_records::{Line, Options};
use pktgen_report::SweepData;
use pktgen_report::sweep::data::{canonical_labels, describe, is_at, name_of};

use crate::target::{PointLabels, TargetValue};

/// The word for published values.
const PAPER: &str = "paper";

/// A source of targets.
#[derive(Debug, Clone, PartialEq)]
pub enum TargetSource {
    /// The published values of the experiment.
    Paper,
    /// A run dir, or a folder of runs.
    Runs(PathBuf),
    /// A capture at the server: a repeat.
    Capture(PathBuf),
}

impl TargetSource {
    /// Parses the user's text.
    pub fn named(text: &Path) -> Result<Self> {
        if text == Path::new(PAPER) {
            return Ok(TargetSource::Paper);
        }
        // Also a folder of run dirs without a sweep.json; one without any is refused when it is read.
        if text.is_dir() {
            return Ok(TargetSource::Runs(text.to_owned()));
        }
        if text.is_file() {
            return Ok(TargetSource::Capture(text.to_owned()));
        }
        Err(Error::config(format!(
            "--to {}: neither \"{PAPER}\", nor a run dir or a folder of runs, nor a capture",
            text.display()
        )))
    }
}

/// Measured values: metric and point → a value per repeat.
#[derive(Debug, Default)]
pub struct MeasuredValues {
    values: BTreeMap<(PointLabels, String), Vec<f64>>,
    /// The points of measured runs that are one point of the experiment.
    points: BTreeMap<PointLabels, BTreeSet<String>>,
    /// Run dirs, and captures outside of run dirs, that were added.
    added: BTreeSet<PathBuf>,
    /// Information that a reader needs.
    pub notes: Vec<String>,
}

impl MeasuredValues {
    /// Adds all valid runs in `dir`.
    pub fn add_runs(&mut self, dir: &Path, experiment: &Experiment, options: Options) -> Result<()> {
        let data = SweepData::open_with(dir, options, &mut |_, _| {})?;
        let axes: BTreeSet<&str> = experiment.axes().iter().map(|(axis, _)| axis.as_str()).collect();
        for run in &data.runs {
            if !run.validity.is_valid() {
                self.notes.push(format!("{} is invalid and no target: {}", name_of(run), run.validity.why()));
                continue;
            }
            let own = dir.join(&run.dir);
            let own = fs::canonicalize(&own).map_err(Error::io("find", &own))?;
            self.add_once(own, dir, &name_of(run))?;
            let labels: PointLabels = run
                .labels
                .iter()
                .filter(|(axis, _)| axes.contains(axis.as_str()))
                .map(|(a, v)| (a.clone(), v.clone()))
                .collect();
            let Some(own) = experiment.runs.iter().find(|own| is_at(&labels, &own.labels)) else {
                return Err(Error::config(format!(
                    "{}: {} is at {}, and the experiment has no such point",
                    dir.display(),
                    name_of(run),
                    describe(&labels)
                )));
            };
            // In the experiment's spelling, so that runs of one point are repeats.
            let labels: PointLabels = own
                .labels
                .iter()
                .filter(|(axis, _)| labels.contains_key(*axis))
                .map(|(a, v)| (a.clone(), v.clone()))
                .collect();
            let same = self.points.entry(labels.clone()).or_default();
            same.insert(describe(&canonical_labels(&run.labels)));
            if same.len() > 1 {
                return Err(Error::config(format!(
                    "{}: runs at {} are one point of the experiment; give the folder of one of them, or sweep the same axes",
                    dir.display(),
                    same.iter().cloned().collect::<Vec<_>>().join(" and at ")
                )));
            }
            for (metric, value) in run.scalars.iter().filter(|(_, value)| value.is_finite()) {
                self.values.entry((labels.clone(), metric.to_string())).or_default().push(value);
            }
        }
        Ok(())
    }

    /// Refuses a run that was added before: it would be a repeat without any difference.
    fn add_once(&mut self, own: PathBuf, to: &Path, name: &str) -> Result<()> {
        match self.added.insert(own) {
            true => Ok(()),
            false => Err(Error::config(format!(
                "--to {}: {name} is there twice, and a run is one repeat; name it once",
                to.display()
            ))),
        }
    }

    /// Adds the numbers of the capture in `file`, of the one point that the experiment has.
    pub fn add_capture(&mut self, file: &Path, lines: &[Line]) -> Result<()> {
        let own = fs::canonicalize(file).map_err(Error::io("find", file))?;
        // A capture in a run dir is of that run.
        let run = own.parent().filter(|folder| folder.join("manifest.json").is_file()).map(Path::to_owned);
        self.add_once(run.unwrap_or(own), file, "the run of this capture")?;
        for line in lines {
            if let (Some(metric), Some(value)) = (line.key(), line.value.filter(|value| value.is_finite())) {
                self.values.entry((PointLabels::new(), metric)).or_default().push(value);
            }
        }
        Ok(())
    }

    /// Returns the targets: these metrics at every point, if they were measured.
    pub fn targets(&mut self, metrics: &[String]) -> Vec<TargetValue> {
        let mut targets = Vec::new();
        for metric in metrics {
            let own = self.values.iter().filter(|((_, name), _)| name == metric);
            let before = targets.len();
            targets.extend(own.filter_map(|((at, _), values)| TargetValue::measured(metric, at, values)));
            if targets.len() == before {
                self.notes.push(format!("{metric} was not measured and is no target"));
            }
        }
        targets
    }

    /// The metrics that were measured.
    pub fn metrics(&self) -> BTreeSet<&str> {
        self.values.keys().map(|(_, metric)| metric.as_str()).collect()
    }
}
