//! `[calibrate]`: parameters with their ranges, targets, and how much may be run.

use pktgen_core::config::{Document, Value, is_of_whole_sweep, settings};
use pktgen_core::record::plan_hash;
use pktgen_core::{Error, Result};

use crate::parameter::{Parameter, Space};
use crate::target::WantedTarget;

settings! {
    /// The plain keys of `[calibrate]`.
    #[derive(Debug, Clone, Copy)]
    pub struct CalibrateKeys {
        /// Runs per setting and point, with the same seeds everywhere: those of the sweep, then the following ones.
        seeds: u32 = 5 in 2..=1000, "two tell how much runs differ";
        /// Maximum number of settings that are run.
        settings: u32 = 200 in 1..=100_000;
        /// Model discrepancy: share of a target's value by which the experiment may differ from the real system at any setting.
        discrepancy: f64 = 0.001 in 0.0..1.0;
        /// Fills the ranges evenly to the end instead of following emulators; for comparison.
        evenly: bool = false;
    }
}

/// What `[calibrate]` says.
#[derive(Debug, Clone)]
pub struct CalibrateSettings {
    /// The plain keys.
    pub keys: CalibrateKeys,
    /// The parameters.
    pub space: Space,
    /// The targets that are named.
    pub targets: Vec<WantedTarget>,
    /// Metrics of what is measured that are targets; empty for those of the report.
    pub metrics: Vec<String>,
    /// Points to predict.
    pub predict: Vec<PredictPoint>,
}

/// Maximum length of a point's name in that of its folder.
const NAME_MAX: usize = 200;

/// A point that was not measured: keys with their values.
#[derive(Debug, Clone, PartialEq)]
pub struct PredictPoint {
    /// `key=value`s.
    pub set: Vec<(String, Value)>,
}

/// Returns whether a key has one value in all runs of an experiment, or is of a command that reads it instead of runs; seeds differ.
fn is_of_all_runs(key: &str) -> bool {
    let is_of_command = |section: &str| ["verify", "certify", "calibrate"].contains(&section);
    key != "seed" && is_of_whole_sweep(key) || key.split('.').next().is_some_and(is_of_command)
}

/// Refuses a key that has no effect on single runs; `name` says it.
fn must_differ(key: &str, name: &str, place: &str) -> Result<()> {
    if is_of_all_runs(key) {
        return Err(Error::config(format!(
            "{place}: {name} is no key that runs differ in (name, about, [sweep], [metrics], [report], [paper], [verify], [certify] and \
             [calibrate] are those of all runs); take it out"
        )));
    }
    Ok(())
}

impl PredictPoint {
    /// Of `key=value`s with commas between them.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = || Error::config(format!("--predict {text}: write KEY=VALUE, several with commas between them"));
        let mut layer = Document::parse("", "--predict")?;
        let mut set: Vec<(String, Value)> = Vec::new();
        for part in text.split(',') {
            let (key, _) = part.split_once('=').ok_or_else(wrong)?;
            let key = key.trim();
            must_differ(key, key, &format!("--predict {text}"))?;
            if set.iter().any(|(other, _)| other == key) {
                return Err(Error::config(format!("--predict {text}: {key} is there twice; take one out")));
            }
            layer.overlay(std::iter::empty(), &[part.to_owned()])?;
            set.push((key.to_owned(), layer.get(key).cloned().ok_or_else(wrong)?));
        }
        Ok(PredictPoint { set })
    }

    /// How it is called.
    pub fn name(&self) -> String {
        let each: Vec<_> = self.set.iter().map(|(key, value)| format!("{key}={}", value.to_label())).collect();
        each.join(", ")
    }

    /// Returns the name of its folder, valid on every file system.
    pub fn folder(&self) -> String {
        let safe = |c: char| if c.is_ascii_alphanumeric() || "=.-".contains(c) { c } else { '_' };
        let name = self.name();
        let mut folder: String = name.chars().take(NAME_MAX).map(safe).collect();
        if folder != name.replace(", ", "__") {
            // Another point may look alike.
            folder = format!("{folder}-{}", &plan_hash(&name, std::iter::empty())[..8]);
        }
        format!("predict-{folder}")
    }
}

impl CalibrateSettings {
    /// What an experiment says.
    pub fn of(document: &mut Document) -> Result<Self> {
        let mut section = document.section("calibrate")?;
        let keys = CalibrateKeys::read(&mut section)?;
        let metrics = section.get_list("metrics", &[])?;
        let [parameters_at, targets_at, predict_at] =
            ["parameters", "targets", "predict"].map(|key| section.place(key));
        let mut parameters: Vec<Parameter> = Vec::new();
        for (i, table) in section.get_tables("parameters")?.into_iter().enumerate() {
            let place = format!("{parameters_at} {}", i + 1);
            let new = Parameter::read(table, &place)?;
            if new.key == "seed" {
                let what = "is no parameter: every setting is run with the same seeds; take it out";
                return Err(Error::config(format!("{place}: {} {what}", new.name())));
            }
            must_differ(&new.key, &new.name(), &place)?;
            // Keys are set in the order of the file, so the last one of a run counts.
            let undone = |old: &&Parameter| old.key == new.key && (new.variant.is_none() || old.variant == new.variant);
            if let Some(old) = parameters.iter().find(undone) {
                return Err(Error::config(format!(
                    "{place}: {} would undo an earlier parameter of the same key, {}; take one out, or write that of all variants first",
                    new.name(),
                    old.name()
                )));
            }
            parameters.push(new);
        }
        let mut targets = Vec::new();
        for (i, table) in section.get_tables("targets")?.into_iter().enumerate() {
            targets.push(WantedTarget::read(table, &format!("{targets_at} {}", i + 1))?);
        }
        let predict: Vec<_> = section.get_tables("predict")?.into_iter().map(|set| PredictPoint { set }).collect();
        for (i, point) in predict.iter().enumerate() {
            point.set.iter().try_for_each(|(key, _)| must_differ(key, key, &format!("{predict_at} {}", i + 1)))?;
        }
        document.close(section)?;
        if parameters.is_empty() {
            return Err(Error::config(format!(
                "{}: no parameters; name them in [[calibrate.parameters]], each with key, from and to",
                document.name()
            )));
        }
        Ok(CalibrateSettings { keys, space: Space { parameters }, targets, metrics, predict })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_have_folders_of_their_own() {
        let folder = |value: &str| PredictPoint { set: vec![("workload.trace".to_owned(), value.into())] }.folder();
        assert_ne!(folder("a/b"), folder("a_b"));
        assert_ne!(folder(&format!("{}x", "a".repeat(300))), folder(&format!("{}y", "a".repeat(300))));
        let slots = PredictPoint { set: vec![("target.slots".to_owned(), 16i64.into())] };
        assert_eq!(slots.folder(), "predict-target.slots=16");
    }

    #[test]
    fn a_point_has_each_key_once() {
        let two = PredictPoint::parse("target.slots=5, topology.rate=1_0Gbps").expect("a point");
        assert_eq!(two.name(), "target.slots=5, topology.rate=1_0Gbps");
        let message = PredictPoint::parse("target.slots=5,target.slots=6").expect_err("twice").to_string();
        assert_eq!(message, "--predict target.slots=5,target.slots=6: target.slots is there twice; take one out");
    }

    #[test]
    fn a_point_has_keys_that_runs_differ_in() {
        for text in [
            "sweep.seeds=1..3",
            "name=x",
            "calibrate.settings=5",
            "certify.late=1s",
            "verify.epsilon=1ms",
            "target.slots=5,report.fitted=[]",
        ] {
            let message = PredictPoint::parse(text).expect_err(text).to_string();
            assert!(message.starts_with(&format!("--predict {text}: ")), "{message}");
            assert!(message.contains(" is no key that runs differ in ("), "{message}");
        }
        assert!(PredictPoint::parse("seed=7").is_ok());
        let parameter = "[[calibrate.parameters]]\nkey = \"target.slots\"\nfrom = 1\nto = 9\n";
        let file = format!("{parameter}[[calibrate.predict]]\nsweep.seeds = \"1..3\"\n");
        let mut document = Document::parse(&file, "x.toml").expect("an experiment");
        let message = CalibrateSettings::of(&mut document).expect_err("a sweep's").to_string();
        assert!(message.contains("1: sweep.seeds is no key that runs differ in ("), "{message}");
    }
}
