//! `pktgen list`: lists the contents of the registries.

mod keys;
mod structure;

use pktgen_calibrate::CalibrateKeys;
use pktgen_core::json_kind::JsonKind;
use pktgen_core::registry::{Named, suggest};
use pktgen_core::{Error, Result, topology};
use pktgen_realtime::transport;
use pktgen_workload::{schedule, trace, workload};

use super::shipped;
use crate::args::List;
use crate::schemas;
use crate::ui::Ui;

/// The kind of the built-in experiments, which are in no registry.
const CONFIGS: &str = "configs";
/// The kind of the versions of printed and written data, which are in no registry either.
const SCHEMAS: &str = "schemas";

/// Names and descriptions of one registry.
type Entries = Vec<(&'static str, &'static str)>;

fn entries<T: Named + ?Sized>(list: &[&T]) -> Entries {
    list.iter().map(|entry| (entry.name(), entry.about())).collect()
}

/// Returns the names of the keys of `[calibrate]`.
pub(super) fn calibrate_keys() -> Vec<&'static str> {
    structure::CALIBRATE.iter().chain(CalibrateKeys::KEYS).map(|key| key.name).collect()
}

/// Returns every registry by the name of its kind.
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

pub(super) fn run(args: List, ui: &Ui) -> Result<u8> {
    if args.markdown && ui.json() {
        return Err(Error::config("--markdown and --json: choose one"));
    }
    if args.keys {
        return keys::run(args.kind.as_deref(), args.markdown, ui);
    }
    let mut all = registries();
    // Only on request, since there are many.
    if args.kind.as_deref() == Some(CONFIGS) {
        all = vec![(CONFIGS, shipped::all())];
    }
    if args.kind.as_deref() == Some(SCHEMAS) {
        versions(ui);
        return Ok(0);
    }
    let kinds: Vec<_> = all.iter().map(|(kind, _)| *kind).chain([CONFIGS, SCHEMAS]).collect();
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
        if !ui.json() {
            ui.result(kind);
        }
        for (name, about) in entries {
            if ui.json() {
                let object = serde_json::json!({ "kind": kind, "name": name, "about": about });
                ui.object(&schemas::ENTRY, &object.to_string());
            } else {
                ui.result(&format!("  {name:<14} {about}"));
            }
        }
    }
    Ok(0)
}

/// Prints the versions of printed and written data.
fn versions(ui: &Ui) {
    if !ui.json() {
        ui.result(SCHEMAS);
    }
    for kind in schemas::all() {
        if ui.json() {
            let JsonKind { name, version, about } = kind;
            let object = serde_json::json!({ "kind": SCHEMAS, "name": name, "version": version, "about": about });
            ui.object(&schemas::ENTRY, &object.to_string());
        } else {
            ui.result(&format!("  {:<20} {}", format!("{}/{}", kind.name, kind.version), kind.about));
        }
    }
}
