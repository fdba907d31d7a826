//! The flags of `pktgen replay` that say how fast and how often: `--set` in other words.

use pktgen_generator::config::{Document, Origin, Run, Value};
use pktgen_generator::{Error, Result};

use crate::args::Tempo;

/// A flag with the key that it sets, and the keys that it is instead of.
pub(super) struct Change {
    flag: String,
    key: &'static str,
    value: Value,
    instead: &'static [&'static str],
}

/// The flags that were given.
fn changes(tempo: &Tempo) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut text = |flag: &str, value: &Option<String>, key, instead| {
        if let Some(value) = value {
            changes.push(Change { flag: format!("{flag} {value}"), key, value: value.as_str().into(), instead });
        }
    };
    text("--speed", &tempo.speed, "schedule.speed", &["schedule.pps"]);
    text("--rate", &tempo.rate, "schedule.offered", &["schedule.period", "schedule.pps", "schedule.speed"]);
    text("--pps", &tempo.pps, "schedule.pps", &["schedule.speed"]);
    if tempo.top {
        changes.push(Change { flag: "--top".into(), key: "transport.pacing", value: "top".into(), instead: &[] });
    }
    if let Some(passes) = tempo.passes {
        let flag = format!("--loop {passes}");
        changes.push(Change { flag, key: "workload.repeat", value: passes.into(), instead: &[] });
    }
    changes
}

/// Lays the flags over the file and the environment; a `--set` of a key that one is instead of contradicts it.
pub(super) fn apply(tempo: &Tempo, set: &[String], document: &mut Document) -> Result<Vec<Change>> {
    let changes = changes(tempo);
    for Change { flag, key, value, instead } in &changes {
        for written in set {
            let path = written.split_once('=').map_or(written.as_str(), |(path, _)| path).trim();
            if path == *key || instead.contains(&path) {
                return Err(Error::config(format!(
                    "{flag}: it sets {key}, and --set {written} was given too; leave one out"
                )));
            }
        }
        instead.iter().for_each(|path| document.unset(path));
        document.set(key, value.clone(), Origin::Flag(flag.clone()))?;
    }
    Ok(changes)
}

/// Refuses a sweep that sets what a flag sets: the flag would do nothing.
pub(super) fn check(changes: &[Change], runs: &[Run]) -> Result<()> {
    for Change { flag, key, instead, .. } in changes {
        let set = runs.iter().flat_map(|run| &run.set);
        if let Some((path, entry)) = set.into_iter().find(|(path, _)| path == key || instead.contains(&path.as_str())) {
            return Err(Error::config(format!(
                "{flag}: it sets {key}, but the sweep sets {path} in its runs ({}); change the sweep, or leave \
                 the flag out",
                entry.origin
            )));
        }
    }
    Ok(())
}
