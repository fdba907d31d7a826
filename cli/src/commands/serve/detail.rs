//! The parts of a run's manifest that its page shows.

use std::collections::{BTreeMap, BTreeSet};

use pktgen_core::config::Document;
use pktgen_core::units::Rate;
use serde_json::{Map, Value, json};

use super::index::Found;
use super::manifest::RunFile;

/// Facts about the host that show how exact a run was.
const HOST: [&str; 6] =
    ["lateness", "lateness.by_host", "rate.achieved", "cores", "clock.wall.before", "start.first_late_ns"];
/// Counters in a summary.
const COUNTERS: [&str; 8] =
    ["packets_received", "bytes_received", "acks_sent", "acks_received", "sums_ok", "sums_wrong", "foreign", "replies"];

/// Returns the data of the run at `path` from the contents of its manifest.
pub(super) fn of_run(path: &str, found: &Found, run: &RunFile) -> Value {
    // Before the end of a run, its manifest has zeros.
    let ended = |value: Value| if run.running() { Value::Null } else { value };
    let counter = |name: &str| Some((name.to_owned(), run.counters.get(name)?.clone()));
    let counters: Map<_, _> = COUNTERS.iter().filter_map(|name| counter(name)).collect();
    let shown = |name: &str| HOST.contains(&name) || name.starts_with("frames.") || name.starts_with("device.");
    let host: Map<_, _> = run.host.clone().into_iter().filter(|(name, _)| shown(name)).collect();
    json!({
        "path": path,
        "state": found.state.name(),
        "rows": found.rows,
        "report": found.report,
        "valid": run.valid(),
        "faults": run.faults(),
        "notes": run.notes(),
        "experiment": run.experiment,
        "labels": run.labels,
        "seed": run.seed(),
        "part": run.part,
        "tool": run.tool,
        "created_ms": run.created_ms(),
        "command": run.command,
        "overrides": run.overrides,
        "records": run.records,
        "balance": ended(run.balance.clone()),
        "counters": ended(Value::Object(counters)),
        "device_counters": ended(run.counters.get("device").cloned().unwrap_or_default()),
        "host": host,
        "network": network(run),
        "config": run.config,
    })
}

/// Returns the network's participants according to the configuration.
fn network(run: &RunFile) -> Value {
    let keys: BTreeMap<_, _> = Document::parse(&run.config, "config").map(|read| read.leaves()).unwrap_or_default();
    let key = |name: &str| keys.get(name).map(|text| text.trim_matches('"').to_owned());
    let rate = key("topology.rate").and_then(|text| text.parse::<Rate>().ok()).map(Rate::bps);
    let ids: Option<BTreeSet<_>> = run.clusters.as_ref().map(|clusters| clusters.iter().collect());
    let topology = key("topology.kind");
    let bottleneck = topology.as_deref() == Some("bottleneck");
    // Without a server, results return to the workers.
    let server = match topology.as_deref() {
        None | Some("rack") => false,
        Some("custom") => key("topology.server").is_none_or(|names| !names.trim().is_empty()),
        Some(_) => true,
    };
    json!({
        "workers": run.clusters.as_ref().map(Vec::len),
        "clusters": ids.map(|ids| ids.len()),
        "nodes": run.nodes.len(),
        "topology": topology,
        "server": server,
        // Rate of the link towards the server.
        "rate_bps": rate.filter(|_| bottleneck),
        "device": key("target.kind"),
        "program": key("target.program"),
        "queue": key("target.queue"),
        "transport": key("transport.kind"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_return_to_workers_only_without_a_server() {
        for (topology, server, has_rate) in [
            ("kind = \"bottleneck\"\nrate = \"5Mbps\"", true, true),
            ("kind = \"star\"\nrate = \"5Mbps\"", true, false),
            ("kind = \"multi_hop\"", true, false),
            ("kind = \"custom\"", true, false),
            ("kind = \"custom\"\nserver = \"ps\"", true, false),
            ("kind = \"custom\"\nserver = \"\"", false, false),
            ("kind = \"rack\"", false, false),
        ] {
            let config = format!("[topology]\n{topology}\n");
            let run: RunFile = serde_json::from_value(json!({"config": config})).expect("a manifest");
            let network = network(&run);
            assert_eq!(network["server"], json!(server), "{topology}");
            assert_eq!(!network["rate_bps"].is_null(), has_rate, "{topology}");
        }
    }
}
