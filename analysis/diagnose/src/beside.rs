//! Counters that the device recorded during a run: a JSON object, or the run dir of a software device in a process of its own.

use std::collections::BTreeMap;
use std::path::Path;

use pktgen_core::arrow::array::AsArray;
use pktgen_core::arrow::datatypes::UInt8Type;
use pktgen_core::record::{Action, BOOKS, Family, InterfaceCounts, Manifest, Reason};
use pktgen_core::{Error, Result};

use crate::counted::{DOWN_TAKEN, GIVEN, ONE_GIVEN, TAKEN, UP_GIVEN};
use crate::evidence::each;

/// Adds the counters in `path` to those of the run's device.
pub(crate) fn add(path: &Path, manifest: &mut Manifest) -> Result<()> {
    let mut counters = if path.is_dir() { of_run_dir(path)? } else { of_file(path)? };
    // A probe before the run passed through the device but is in no counter of the run.
    let (out, sent) = manifest.host.get("device.probe").and_then(|probe| probed(probe)).unwrap_or_default();
    // Its frames leave towards the server, or back if there is none.
    let has_server = match manifest.interfaces.as_slice() {
        // Over sockets the manifest names no interfaces.
        [] => manifest.family() != Family::Results,
        own => own.iter().any(|counts| counts.end == "server"),
    };
    let outlet = if has_server { UP_GIVEN } else { ONE_GIVEN };
    for (name, frames) in &mut counters {
        let is_of = |names: &[&str]| names.contains(&name.as_str());
        if is_of(DOWN_TAKEN) || is_of(TAKEN) {
            *frames = frames.saturating_sub(sent);
        } else if is_of(outlet) || is_of(GIVEN) {
            *frames = frames.saturating_sub(out);
        }
    }
    manifest.counters.device.extend(counters);
    Ok(())
}

/// Returns the numbers of a probe's frames that came out and that were sent, from a run's description of it.
fn probed(probe: &str) -> Option<(u64, u64)> {
    marked(probe).or_else(|| contributed(probe))
}

/// The same of marked frames.
fn marked(probe: &str) -> Option<(u64, u64)> {
    let (_, counts) = probe.split_once(": ")?;
    let (out, rest) = counts.split_once(" of ")?;
    let (sent, _) = rest.split_once(" marked frames")?;
    Some((out.parse().ok()?, sent.parse().ok()?))
}

/// The same of rounds of sums.
fn contributed(probe: &str) -> Option<(u64, u64)> {
    let (_, counts) = probe.rsplit_once(" (")?;
    let (sent, rest) = counts.split_once(" frames sent, ")?;
    let (came, _) = rest.split_once(" results came")?;
    Some((came.parse().ok()?, sent.parse().ok()?))
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
        assert_eq!(probed("forward: 1 of 3 marked frames came out at eth2"), Some((1, 3)));
        assert_eq!(probed(ROUNDS), Some((64, 256)));
        assert_eq!(probed("round: 2 rounds were right"), None);
    }

    const ROUNDS: &str = "round: 64 of 64 rounds of 4 workers in slots 0 to 31 came back as the right sum, the last two from both sets \
                          (256 frames sent, 64 results came)";

    #[test]
    fn frames_of_a_probe_are_in_no_counter_of_the_run() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("counted.json");
        let counted = |probe: &str, ends: &[&str], counters: serde_json::Value| {
            std::fs::write(&file, counters.to_string()).expect("writable");
            let mut manifest = crate::evidence::manifest(&[0; 4]);
            manifest.host.insert("device.probe".to_owned(), probe.to_owned());
            let at = |end: &&str| InterfaceCounts { end: (*end).to_owned(), ..InterfaceCounts::default() };
            manifest.interfaces = ends.iter().map(at).collect();
            add(&file, &mut manifest).expect("counters");
            serde_json::json!(manifest.counters.device)
        };
        let both = serde_json::json!({ "port0_in": 1003, "port0_out": 50, "port1_in": 50, "port1_out": 1001 });
        // Over sockets no interface is known.
        for ends in [&["workers", "server"][..], &[]] {
            assert_eq!(
                counted("forward: 1 of 3 marked frames came out at eth2", ends, both.clone()),
                serde_json::json!({ "port0_in": 1000, "port0_out": 50, "port1_in": 50, "port1_out": 1000 })
            );
        }
        let one =
            serde_json::json!({ "received": 1256, "sent": 314, "in_sent": 314, "rx_packets": 1256, "overrun": 7 });
        assert_eq!(
            counted(ROUNDS, &["workers"], one),
            serde_json::json!({ "received": 1000, "sent": 250, "in_sent": 250, "rx_packets": 1000, "overrun": 7 })
        );
    }
}
