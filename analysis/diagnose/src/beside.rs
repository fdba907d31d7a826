//! Counters that the device recorded during a run: a JSON object, or the run dir of a software device in a process of its own.

use std::collections::BTreeMap;
use std::path::Path;

use pktgen_core::arrow::array::AsArray;
use pktgen_core::arrow::datatypes::UInt8Type;
use pktgen_core::record::{Action, BOOKS, InterfaceCounts, Manifest, Reason};
use pktgen_core::{Error, Result};

use crate::evidence::each;

/// Adds the counters in `path` to those of the run's device.
pub(crate) fn add(path: &Path, manifest: &mut Manifest) -> Result<()> {
    let mut counters = if path.is_dir() { of_run_dir(path)? } else { of_file(path)? };
    // A probe before the run passed through the device but is in no counter of the run.
    let (out, sent) = manifest.host.get("device.probe").and_then(|probe| marked(probe)).unwrap_or_default();
    for (name, frames) in [("received", sent), ("sent", out)] {
        counters.entry(name.to_owned()).and_modify(|own| *own = own.saturating_sub(frames));
    }
    manifest.counters.device.extend(counters);
    Ok(())
}

/// Returns the numbers of marked frames that came out and that were sent, from a run's description of its probe.
fn marked(probe: &str) -> Option<(u64, u64)> {
    let (_, counts) = probe.split_once(": ")?;
    let (out, rest) = counts.split_once(" of ")?;
    let (sent, _) = rest.split_once(" marked frames")?;
    Some((out.parse().ok()?, sent.parse().ok()?))
}

fn of_file(path: &Path) -> Result<BTreeMap<String, u64>> {
    let text = std::fs::read_to_string(path).map_err(Error::io("read", path))?;
    serde_json::from_str(&text).map_err(|e| {
        Error::data(path, format!("{e}; it is to be one JSON object of whole numbers, as {{\"received\": 8}}"))
    })
}

fn of_run_dir(dir: &Path) -> Result<BTreeMap<String, u64>> {
    let path = dir.join("manifest.json");
    let text = std::fs::read_to_string(&path).map_err(Error::io("read", &path))?;
    let own: Manifest = serde_json::from_str(&text).map_err(|e| Error::data(&path, e.to_string()))?;
    let mut counters = own.counters.device.clone();
    counters.extend(at_interfaces(&own.interfaces));
    if counters.is_empty() {
        let why = "it has no counters of a device; name the run dir of pktgen target, or a JSON object of counters";
        return Err(Error::data(dir, why));
    }
    let mut ends: BTreeMap<&str, u64> = ["merged", "replaced", "full", "dropped"].map(|name| (name, 0)).into();
    each(dir, BOOKS, &["action", "reason"], &mut |batch| {
        let (actions, reasons) =
            (batch["action"].as_primitive::<UInt8Type>(), batch["reason"].as_primitive::<UInt8Type>());
        for (action, reason) in actions.values().iter().zip(reasons) {
            if let Some(end) = end_of(*action, reason) {
                *ends.entry(end).or_default() += 1;
            }
        }
    })?;
    counters.extend(ends.into_iter().map(|(name, frames)| (name.to_owned(), frames)));
    Ok(counters)
}

/// Returns the frames received and sent by a software device at its interfaces. The kernel sends frames of its own
/// there, so what the device itself sent is an upper limit.
fn at_interfaces(interfaces: &[InterfaceCounts]) -> Vec<(String, u64)> {
    let mut all = Vec::new();
    for counts in interfaces {
        let [took, gave] = match counts.end.as_str() {
            "device.down" if interfaces.len() == 1 => ["received", "sent"],
            "device.down" => ["received", "back_sent"],
            "device.up" => ["back_received", "sent"],
            _ => continue,
        };
        all.extend([(took.to_owned(), counts.came()), (gave.to_owned(), counts.sent_of_run())]);
    }
    all
}

/// Returns the end of an update according to a row of the ledger; `None` if it continues.
fn end_of(action: u8, reason: Option<u8>) -> Option<&'static str> {
    let is = |one: Action| action == one as u8;
    let full = [Reason::QueueFull, Reason::RewardLow, Reason::EngineBusy, Reason::BypassFull];
    if is(Action::Merged) {
        Some("merged")
    } else if is(Action::Subsumed) || is(Action::Outranked) {
        Some("replaced")
    } else if is(Action::Dropped) {
        Some(if full.iter().any(|known| reason == Some(*known as u8)) { "full" } else { "dropped" })
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_the_kernel_are_none_that_the_device_sent() {
        let at = |end: &str, sent: Option<u64>, tx_packets| InterfaceCounts {
            end: end.to_owned(),
            sent,
            tx_packets,
            received: 40,
            rx_packets: 41,
            ..InterfaceCounts::default()
        };
        let counted = |all: &[InterfaceCounts]| at_interfaces(all).into_iter().collect::<BTreeMap<_, _>>();
        let both = counted(&[at("device.down", Some(30), 35), at("device.up", None, 7), at("workers", Some(1), 1)]);
        let expected = [("back_received", 41), ("back_sent", 30), ("received", 41), ("sent", 7)];
        assert_eq!(both, expected.map(|(name, n)| (name.to_owned(), n)).into());
        let one = counted(&[at("device.down", Some(0), 5)]);
        assert_eq!(one, [("received", 41), ("sent", 0)].map(|(name, n)| (name.to_owned(), n)).into());
    }

    #[test]
    fn a_probe_is_read_where_it_says_frames() {
        assert_eq!(marked("forward: 1 of 3 marked frames came out at eth2"), Some((1, 3)));
        assert_eq!(marked("round: 2 rounds were right"), None);
    }
}
