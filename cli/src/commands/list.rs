//! `pktgen list`: what the registries hold.

use pktgen_core::config::Key;
use pktgen_core::registry::{Named, suggest};
use pktgen_core::{Error, Result, topology};
use pktgen_realtime::transport;
use pktgen_workload::{schedule, trace, workload};

use crate::args::List;
use crate::ui::Ui;

/// Names and descriptions of one registry.
type Entries = Vec<(&'static str, &'static str)>;

fn entries<T: Named + ?Sized>(list: &[&T]) -> Entries {
    list.iter().map(|entry| (entry.name(), entry.about())).collect()
}

/// Every registry, by the name of its kind.
pub(super) fn registries() -> Vec<(&'static str, Entries)> {
    let catalogue = pktgen_registry::all();
    vec![
        ("formats", entries(catalogue.protocols.formats)),
        ("importers", entries(trace::IMPORTERS)),
        ("workloads", entries(workload::WORKLOADS)),
        ("models", entries(pktgen_workload::dense::models::MODELS)),
        ("schedules", entries(schedule::SCHEDULES)),
        ("studies", entries(&pktgen_planning::STUDIES)),
        ("topologies", entries(topology::SHAPES)),
        ("programs", entries(catalogue.programs)),
        ("queues", entries(catalogue.queues)),
        ("endpoints", entries(catalogue.workers)),
        ("transports", entries(transport::TRANSPORTS)),
        ("middleware", entries(transport::middleware::MIDDLEWARE)),
        ("checks", entries(pktgen_doctor::CHECKS)),
        ("metrics", entries(pktgen_records::METRICS)),
        ("reports", entries(pktgen_report::REPORTS)),
        ("charts", entries(pktgen_report::CHARTS)),
        ("kept", entries(pktgen_compare::trace::FAITHFUL)),
        ("placers", entries(pktgen_planning::PLACERS)),
        ("properties", entries(pktgen_verify::PROPERTIES)),
    ]
}

/// What is declared of the keys of one entry.
fn settings(kind: &str, name: &str) -> Vec<Key> {
    let catalogue = pktgen_registry::all();
    let lists = match kind {
        "programs" => catalogue.programs.iter().find(|entry| entry.name() == name).map(|entry| entry.settings()),
        "queues" => catalogue.queues.iter().find(|entry| entry.name() == name).map(|entry| entry.settings()),
        "endpoints" => catalogue.workers.iter().find(|entry| entry.name() == name).map(|entry| entry.settings()),
        _ => None,
    };
    lists.unwrap_or_default().concat()
}

/// Shows them below their entry, which is left out if it has none.
fn show_keys(ui: &Ui, kind: &str, entries: &Entries) {
    for (name, about) in entries {
        let keys = settings(kind, name);
        if !keys.is_empty() && !ui.json() {
            ui.result(&format!("  {name:<14} {about}"));
        }
        for key in keys {
            let (default, range) = ((key.default)(), (key.range)());
            if ui.json() {
                let line = serde_json::json!({
                    "kind": kind, "name": name, "key": key.name, "default": default, "range": range, "about": key.about,
                });
                ui.result(&line.to_string());
            } else {
                let default = if default.is_empty() { "none" } else { &default };
                let range = if range.is_empty() { String::new() } else { format!("; {range}") };
                ui.result(&format!("    {:<16} {} [default: {default}{range}]", key.name, key.about));
            }
        }
    }
}

pub(super) fn run(args: List, ui: &Ui) -> Result<u8> {
    let all = registries();
    let kinds: Vec<_> = all.iter().map(|(kind, _)| *kind).collect();
    if let Some(kind) = &args.kind
        && !kinds.contains(&kind.as_str())
    {
        return Err(Error::config(format!(
            "there is no list of \"{kind}\"{}; there are: {}",
            suggest(kind, &kinds),
            kinds.join(", ")
        )));
    }
    for (kind, entries) in all.iter().filter(|(kind, _)| args.kind.as_deref().is_none_or(|wanted| wanted == *kind)) {
        if args.keys && entries.iter().all(|(name, _)| settings(kind, name).is_empty()) {
            continue;
        }
        if !ui.json() {
            ui.result(kind);
        }
        if args.keys {
            show_keys(ui, kind, entries);
            continue;
        }
        for (name, about) in entries {
            if ui.json() {
                ui.result(&serde_json::json!({ "kind": kind, "name": name, "about": about }).to_string());
            } else {
                ui.result(&format!("  {name:<14} {about}"));
            }
        }
    }
    Ok(0)
}
