//! The flags of `pktgen replay` for speed and repetition, as alternatives to `--set`.

use pktgen_core::config::{Document, Origin, Run, Value};
use pktgen_core::{Error, Result};

use crate::args::Tempo;

/// A flag with the key that it sets, and the keys that it replaces.
pub(super) struct Change {
    flag: String,
    key: &'static str,
    value: Value,
    instead: &'static [&'static str],
}

/// Returns the flags that were given.
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

/// Applies the flags to the document after file and environment; a `--set` of a replaced key is a contradiction.
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

/// Refuses a sweep that sets a flag's key: the flag would have no effect.
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

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "[schedule]\nperiod = \"1ms\"\nspeed = 2\npps = 3\n";

    fn flags(tempo: &Tempo, set: &[&str]) -> Result<Document> {
        let mut document = Document::parse(FILE, "x.toml").unwrap();
        let set: Vec<_> = set.iter().map(|flag| (*flag).to_owned()).collect();
        apply(tempo, &set, &mut document).map(|_| document)
    }

    fn text(value: &str) -> Option<String> {
        Some(value.to_owned())
    }

    #[test]
    fn each_flag_sets_its_key_and_takes_out_what_it_is_instead_of() {
        let keys = ["schedule.period", "schedule.speed", "schedule.pps", "schedule.offered"];
        let written = |tempo: &Tempo| {
            let document = flags(tempo, &["workload.updates=1"]).unwrap();
            keys.map(|key| document.get(key).map(Value::to_label).unwrap_or_default())
        };
        assert_eq!(written(&Tempo::default()), ["1ms", "2", "3", ""]);
        assert_eq!(written(&Tempo { speed: text("0.5"), ..Tempo::default() }), ["1ms", "0.5", "", ""]);
        assert_eq!(written(&Tempo { pps: text("2M"), ..Tempo::default() }), ["1ms", "", "2M", ""]);
        assert_eq!(written(&Tempo { rate: text("10Gbps"), ..Tempo::default() }), ["", "", "", "10Gbps"]);
        let document = flags(&Tempo { top: true, passes: Some(0), ..Tempo::default() }, &[]).unwrap();
        assert_eq!(document.get("transport.pacing"), Some(&"top".into()));
        assert_eq!(document.get("workload.repeat"), Some(&0u32.into()));
    }

    #[test]
    fn a_set_or_a_sweep_of_the_same_is_refused() {
        let rate = Tempo { rate: text("1Gbps"), ..Tempo::default() };
        for set in ["schedule.offered=2Gbps", " schedule.period =1ms", "schedule.speed=1"] {
            let message = flags(&rate, &[set]).unwrap_err().to_string();
            assert!(message.contains("--rate 1Gbps") && message.contains(set), "{message}");
        }
        let sweep = "[schedule]\nperiod = \"1ms\"\n[sweep]\naxes = { schedule.period = [\"1ms\", \"2ms\"] }\n";
        let mut document = Document::parse(sweep, "x.toml").unwrap();
        let runs = pktgen_core::config::Sweep::read(&mut document, 1).unwrap().runs();
        let message = check(&changes(&rate), &runs).unwrap_err().to_string();
        assert!(message.contains("--rate 1Gbps") && message.contains("schedule.period"), "{message}");
        assert!(check(&changes(&Tempo { pps: text("1"), ..Tempo::default() }), &runs).is_ok());
    }
}
