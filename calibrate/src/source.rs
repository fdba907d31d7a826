//! The sources of targets: published values of the experiment, measured runs, or captures.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use pktgen_core::record::FileDigests;
use pktgen_core::record::digest::{file_digest, manifest_digest};
use pktgen_core::{Error, Result};
use pktgen_realtime::run::Experiment;
use pktgen_records::{Line, Options};
use pktgen_report::SweepData;
use pktgen_report::sweep::data::{canonical_labels, describe, is_at, name_of};
use serde::Deserialize;

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

/// What identifies a run or a capture: digests of its content, which copies share.
struct Identity {
    /// Of the manifest, equal also for the same run made again, and of a capture.
    own: Vec<String>,
    /// Of the captures that the manifest lists.
    captures: Vec<String>,
}

impl Identity {
    fn of_run(dir: &Path) -> Result<Self> {
        #[derive(Default, Deserialize)]
        struct Listed {
            #[serde(default)]
            files: FileDigests,
        }
        let path = dir.join("manifest.json");
        let text = fs::read(&path).map_err(Error::io("read", &path))?;
        let listed: Listed = serde_json::from_slice(&text).unwrap_or_default();
        let is_capture = |name: &str| [".pcap", ".pcapng"].iter().any(|end| name.ends_with(end));
        let captures = listed.files.into_iter().filter(|(name, _)| is_capture(name)).map(|(_, file)| file.sha256);
        Ok(Identity { own: vec![manifest_digest(&text)], captures: captures.collect() })
    }

    /// Returns that of the capture in `file`; a capture in a run dir is of that run.
    fn of_capture(file: &Path) -> Result<Self> {
        let file = fs::canonicalize(file).map_err(Error::io("find", file))?;
        let run = file.parent().filter(|folder| folder.join("manifest.json").is_file());
        let mut identity = match run {
            Some(folder) => Identity::of_run(folder)?,
            None => Identity { own: Vec::new(), captures: Vec::new() },
        };
        identity.own.push(file_digest(&file)?.sha256);
        Ok(identity)
    }
}

/// Measured values: metric and point → a value per repeat.
#[derive(Debug, Default)]
pub struct MeasuredValues {
    values: BTreeMap<(PointLabels, String), Vec<f64>>,
    /// The points of measured runs that are one point of the experiment.
    points: BTreeMap<PointLabels, BTreeSet<String>>,
    /// The digests of runs and captures that were added, with their places.
    added: BTreeMap<String, PathBuf>,
    /// The digests of the captures in these runs, with the places of the runs.
    captures: BTreeMap<String, PathBuf>,
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
            let place = if ["", "."].contains(&run.dir.as_str()) { dir.to_owned() } else { dir.join(&run.dir) };
            self.add_once(Identity::of_run(&place)?, &place, dir, &name_of(run))?;
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

    /// Adds the run or capture `name` at `place`, of `--to`; refuses one that was added before, as itself or as a copy: it would be
    /// a repeat without any difference.
    fn add_once(&mut self, identity: Identity, place: &Path, to: &Path, name: &str) -> Result<()> {
        let Identity { own, captures } = identity;
        let added = |digest: &String| self.added.get(digest);
        let known = own.iter().find_map(|digest| added(digest).or_else(|| self.captures.get(digest)));
        if let Some(first) = known.or_else(|| captures.iter().find_map(added)) {
            let what = if first == place {
                "name it once".to_owned()
            } else {
                format!("{} and {} hold the same run; name one of them", first.display(), place.display())
            };
            return Err(Error::config(format!(
                "--to {}: {name} is there twice, and a run is one repeat; {what}",
                to.display()
            )));
        }
        self.added.extend(own.into_iter().map(|digest| (digest, place.to_owned())));
        self.captures.extend(captures.into_iter().map(|digest| (digest, place.to_owned())));
        Ok(())
    }

    /// Adds the numbers of the capture in `file`, of the one point that the experiment has.
    pub fn add_capture(&mut self, file: &Path, lines: &[Line]) -> Result<()> {
        self.add_once(Identity::of_capture(file)?, file, file, "the run of this capture")?;
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
