//! The parts of manifests of run dirs and sweeps that the page shows, also from other versions.

use std::fs::File;
use std::io::Read;

use pktgen_core::record::Validity;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Map, Value};

/// Maximum length of a manifest: about 200,000 workers.
const MANIFEST_MAX: u64 = 64 << 20;

/// Manifest of a run. Parts that are not shown, accounts of workers and digests, are skipped.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RunFile {
    pub(super) state: String,
    validity: Option<Validity>,
    pub(super) experiment: String,
    pub(super) labels: Value,
    seed: Value,
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

impl RunFile {
    /// Whether it has not ended.
    pub(super) fn running(&self) -> bool {
        self.state == "running"
    }

    /// Returns its verdict after it has ended.
    fn verdict(&self) -> Option<&Validity> {
        self.validity.as_ref().filter(|_| !self.running())
    }

    /// Whether it is valid; `None` before it has ended.
    pub(super) fn valid(&self) -> Option<bool> {
        self.verdict().map(Validity::is_valid)
    }

    /// Returns why it is invalid; empty before it has ended.
    pub(super) fn faults(&self) -> Vec<String> {
        self.verdict().into_iter().flat_map(|verdict| &verdict.faults).map(ToString::to_string).collect()
    }

    /// Returns its seed as text, since numbers of a browser have 53 bits.
    pub(super) fn seed(&self) -> Option<String> {
        self.seed.as_u64().map(|seed| seed.to_string())
    }

    /// Returns its notes for readers.
    pub(super) fn notes(&self) -> Vec<String> {
        self.validity.iter().flat_map(|verdict| &verdict.notes).map(ToString::to_string).collect()
    }

    /// Returns its creation time in ms since 1970.
    pub(super) fn created_ms(&self) -> Option<u64> {
        (self.created_unix_ns > 0).then_some(self.created_unix_ns / 1_000_000)
    }
}

/// Manifest of a sweep.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SweepFile {
    pub(super) experiment: String,
    pub(super) runs: Vec<IgnoredAny>,
}

/// Reads a manifest; errors explain why that is impossible.
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
        let faults = "[{\"code\":\"damaged\",\"packets\":3,\"text\":\"\"}]";
        let text =
            |state: &str| format!("{{\"state\":\"{state}\",\"validity\":{{\"valid\":false,\"faults\":{faults}}}}}");
        let (running, finished) = (read(&text("running")), read(&text("finished")));
        assert_eq!((running.valid(), running.faults()), (None, Vec::new()));
        assert_eq!((finished.valid(), finished.faults().len()), (Some(false), 1));
        assert!(finished.faults()[0].starts_with("3 packets"), "{:?}", finished.faults());
        let older =
            read("{\"state\":\"finished\",\"validity\":{\"valid\":false,\"reasons\":[\"note: slow\",\"lost\"]}}");
        assert_eq!((older.faults(), older.notes()), (vec!["lost".to_owned()], vec!["slow".to_owned()]));
        assert_eq!(read("{}").valid(), None);
    }
}
