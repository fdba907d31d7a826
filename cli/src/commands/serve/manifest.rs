//! Manifests of run dirs and sweeps, as far as the page shows them: those of other versions, too.

use std::fs::File;
use std::io::Read;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Map, Value};

/// Bytes of a manifest that is read: about 200,000 workers.
const MANIFEST_MAX: u64 = 64 << 20;

/// A run's. What is not shown, accounts of workers and digests, is skipped.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RunFile {
    pub(super) state: String,
    validity: Validity,
    pub(super) experiment: String,
    pub(super) labels: Value,
    pub(super) seed: Value,
    pub(super) part: Value,
    created_unix_ns: u64,
    pub(super) tool: Value,
    pub(super) command: Value,
    pub(super) overrides: Value,
    pub(super) records: Value,
    pub(super) balance: Value,
    pub(super) counters: Map<String, Value>,
    pub(super) host: Map<String, Value>,
    pub(super) config: String,
    pub(super) nodes: Vec<IgnoredAny>,
    pub(super) clusters: Option<Vec<u16>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Validity {
    valid: Option<bool>,
    faults: Vec<Finding>,
    notes: Vec<Finding>,
    /// What manifests of version 1 had.
    reasons: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Finding {
    code: String,
    text: String,
}

impl Finding {
    fn sentence(&self) -> String {
        if self.text.is_empty() { self.code.clone() } else { self.text.clone() }
    }
}

impl RunFile {
    /// Whether it has not ended.
    pub(super) fn running(&self) -> bool {
        self.state == "running"
    }

    /// Its verdict; none before it has ended.
    pub(super) fn valid(&self) -> Option<bool> {
        self.validity.valid.filter(|_| !self.running())
    }

    /// Why it is invalid; nothing before it has ended.
    pub(super) fn faults(&self) -> Vec<String> {
        if self.running() {
            return Vec::new();
        }
        let older = self.validity.reasons.iter().filter(|reason| !reason.starts_with("note: ")).cloned();
        self.validity.faults.iter().map(Finding::sentence).chain(older).collect()
    }

    /// What its readers must know.
    pub(super) fn notes(&self) -> Vec<String> {
        let older = self.validity.reasons.iter().filter_map(|reason| reason.strip_prefix("note: ")).map(str::to_owned);
        self.validity.notes.iter().map(Finding::sentence).chain(older).collect()
    }

    /// When it was made, in ms since 1970.
    pub(super) fn created_ms(&self) -> Option<u64> {
        (self.created_unix_ns > 0).then_some(self.created_unix_ns / 1_000_000)
    }
}

/// A sweep's.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SweepFile {
    pub(super) experiment: String,
    pub(super) runs: Vec<IgnoredAny>,
}

/// Reads one; an error says why that cannot be.
pub(super) fn read<T: DeserializeOwned>(file: File) -> Result<T, String> {
    let mut bytes = Vec::new();
    file.take(MANIFEST_MAX + 1).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    if bytes.len() as u64 > MANIFEST_MAX {
        return Err("it is larger than 64 MiB".to_owned());
    }
    serde_json::from_slice(&bytes).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> RunFile {
        serde_json::from_str(text).expect("a manifest")
    }

    #[test]
    fn a_run_that_has_not_ended_has_no_verdict() {
        let text = |state: &str| {
            format!(
                "{{\"state\":\"{state}\",\"validity\":{{\"valid\":false,\"faults\":[{{\"code\":\"x\",\"text\":\"lost\"}}]}}}}"
            )
        };
        let (running, finished) = (read(&text("running")), read(&text("finished")));
        assert_eq!((running.valid(), running.faults()), (None, Vec::new()));
        assert_eq!((finished.valid(), finished.faults()), (Some(false), vec!["lost".to_owned()]));
        let older =
            read("{\"state\":\"finished\",\"validity\":{\"valid\":false,\"reasons\":[\"note: slow\",\"lost\"]}}");
        assert_eq!((older.faults(), older.notes()), (vec!["lost".to_owned()], vec!["slow".to_owned()]));
        assert_eq!(read("{}").valid(), None);
    }
}
