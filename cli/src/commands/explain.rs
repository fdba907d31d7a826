//! `pktgen explain`: explains a metric, a column, a code or a registered name.
//!
//! All printed texts are next to the code that they describe; docs/schema.md is `pktgen explain --markdown`.

mod markdown;

use pktgen_capture::tables::TABLES;
use pktgen_capture::{CODES, DEFINITIONS};
use pktgen_core::column::{Column, StreamTable};
use pktgen_core::definition::{Better, Definition, Label, Timing};
use pktgen_core::record::{Action, Fault, Heat, Note, Reason, STREAMS, SumOk};
use pktgen_core::registry::suggest;
use pktgen_core::{Error, Result};
use pktgen_diagnose::CAUSES;
use pktgen_planning::STUDIES;
use pktgen_realtime::capture::frames;
use pktgen_report::definitions::families;
use pktgen_workload::trace::TRACE;
use serde_json::{Value, json};

use super::list::registries;
use super::shipped;
use crate::args::Explain;
use crate::commands::query::of_metric;
use crate::schemas;
use crate::ui::Ui;

/// Maximum number of label values that are listed; otherwise they are described.
const VALUES_MAX: usize = 6;

/// Something with a name and a meaning.
enum Entry {
    Metric { family: &'static str, about: &'static str, definition: Definition },
    Column { stream: StreamTable, column: Column },
    Code { list: &'static str, code: usize, name: &'static str, about: &'static str },
    Finding { list: &'static str, name: &'static str, about: &'static str },
    Named { list: &'static str, name: &'static str, about: &'static str },
}

fn entries() -> Vec<Entry> {
    let mut all = Vec::new();
    for family in families(&STUDIES, &DEFINITIONS) {
        let (family, about, definitions) = (family.name, family.about, family.definitions);
        all.extend(definitions.into_iter().map(|definition| Entry::Metric { family, about, definition }));
    }
    for stream in STREAMS.into_iter().chain([frames::STREAM, TRACE]).chain(TABLES) {
        all.extend(stream.columns.iter().map(|column| Entry::Column { stream, column: *column }));
    }
    let codes = [
        ("action", Action::ALL.map(|action| (action.name(), action.about())).to_vec()),
        ("drop reason", Reason::ALL.map(|reason| (reason.name(), reason.about())).to_vec()),
        ("heat", Heat::ALL.map(|heat| (heat.name(), heat.about())).to_vec()),
        ("sum_ok", SumOk::ALL.map(|sum| (sum.name(), sum.about())).to_vec()),
    ];
    for (list, codes) in codes {
        let code = |(code, (name, about))| Entry::Code { list, code, name, about };
        all.extend(codes.into_iter().enumerate().map(code));
    }
    for (list, codes) in [("fault", Fault::CODES), ("note", Note::CODES)] {
        let finding = |(name, about): &(&'static str, &'static str)| Entry::Finding { list, name, about: about.trim() };
        all.extend(codes.iter().map(finding));
    }
    for (list, names) in registries() {
        all.extend(names.into_iter().map(|(name, about)| Entry::Named { list, name, about }));
    }
    all
}

/// Returns the causes of `pktgen diagnose`, whose page is docs/diagnose.md: they are found by name only.
fn causes() -> impl Iterator<Item = Entry> {
    CAUSES.iter().map(|cause| Entry::Finding { list: "cause", name: cause.code, about: cause.what })
}

/// Returns the codes of notes about captures, whose page is docs/analyze.md: they are found by name only.
fn notes_of_captures() -> impl Iterator<Item = Entry> {
    CODES.iter().map(|(name, about)| Entry::Finding { list: "capture note", name, about })
}

/// Returns the built-in experiments and the kinds of JSON objects, which `pktgen list` prints on request: they are found by name only.
fn listed_on_request() -> impl Iterator<Item = Entry> {
    let configs = shipped::all().into_iter().map(|(name, about)| Entry::Named { list: "configs", name, about });
    let kinds = schemas::all().into_iter();
    configs.chain(kinds.map(|kind| Entry::Named { list: "schemas", name: kind.name, about: kind.about }))
}

impl Entry {
    /// Returns its names; columns are also known by their names alone.
    fn names(&self) -> Vec<String> {
        match self {
            Entry::Metric { definition, .. } => {
                std::iter::once(definition.metric.to_owned()).chain(definition.keys()).collect()
            }
            Entry::Column { stream, column } => {
                vec![format!("{}.{}", stream.name, column.name), column.name.to_owned()]
            }
            Entry::Code { name, .. } | Entry::Finding { name, .. } | Entry::Named { name, .. } => {
                vec![(*name).to_owned()]
            }
        }
    }

    fn answers(&self, name: &str) -> bool {
        let keyed = matches!(self, Entry::Metric { definition, .. } if definition.has_key(name));
        keyed || self.names().iter().any(|own| own == name)
    }

    fn kind(&self) -> String {
        match self {
            Entry::Metric { family, .. } => format!("metric ({family})"),
            Entry::Column { stream, .. } => format!("column of {}", stream.name),
            Entry::Code { list, .. } => (*list).to_owned(),
            Entry::Finding { list: "cause", .. } => "cause of a diagnosis (docs/diagnose.md)".to_owned(),
            Entry::Finding { list: "capture note", .. } => "note on a capture (docs/analyze.md)".to_owned(),
            Entry::Finding { list, .. } => format!("{list} of a verdict (docs/verdicts.md)"),
            Entry::Named { list, .. } => format!("in pktgen list {list}"),
        }
    }

    fn meaning(&self) -> &'static str {
        match self {
            Entry::Metric { definition, .. } => definition.definition,
            Entry::Column { column, .. } => column.about,
            Entry::Code { about, .. } | Entry::Finding { about, .. } | Entry::Named { about, .. } => about,
        }
    }

    /// Returns further facts with their headings; empty texts are omitted.
    fn facts(&self) -> Vec<(&'static str, String)> {
        let facts = match self {
            Entry::Metric { definition, family, .. } => {
                let better = match definition.better {
                    Better::Neither => "neither direction".to_owned(),
                    better => better.name().to_owned(),
                };
                vec![
                    ("unit", definition.unit.to_owned()),
                    ("better", better),
                    ("timing", definition.timing.map_or("", Timing::name).to_owned()),
                    ("labels", definition.labels.iter().map(label_text).collect::<Vec<_>>().join("; ")),
                    ("keys", keys_text(definition)),
                    ("needs", definition.needs.to_owned()),
                    ("source", definition.source.to_owned()),
                    ("query", of_metric(family, definition.metric)),
                ]
            }
            Entry::Column { stream, column } => {
                let empty = if column.optional { ", may be empty" } else { "" };
                vec![
                    ("type", format!("{}{empty}", column.data.name())),
                    ("unit", column.unit.to_owned()),
                    ("row", stream.row.to_owned()),
                ]
            }
            Entry::Code { code, .. } => vec![("code", code.to_string())],
            Entry::Named { list: "metrics", name, .. } => {
                let of = families(&STUDIES, &DEFINITIONS).into_iter().filter(|family| family.name == *name);
                let mut metrics: Vec<_> = of.flat_map(|family| family.definitions).map(|known| known.metric).collect();
                metrics.dedup();
                vec![("metrics", metrics.join(", "))]
            }
            Entry::Finding { .. } | Entry::Named { .. } => Vec::new(),
        };
        facts.into_iter().filter(|(_, text)| !text.is_empty()).collect()
    }

    fn text(&self) -> String {
        let name = &self.names()[0];
        let facts = self.facts().into_iter().map(|(what, text)| format!("\n  {what:<7} {text}")).collect::<String>();
        format!("{name}: {}\n  {}{facts}", self.kind(), self.meaning())
    }

    fn json(&self) -> Value {
        let name = &self.names()[0];
        match self {
            Entry::Metric { family, definition, .. } => json!({
                "kind": "metric", "name": name, "family": family, "unit": definition.unit, "labels": definition.labels,
                "definition": definition.definition, "better": definition.better, "keys": definition.keys(),
                "timing": definition.timing, "needs": definition.needs, "source": definition.source,
            }),
            Entry::Column { stream, column } => json!({
                "kind": "column", "name": name, "stream": stream.name, "column": column.name, "row": stream.row,
                "type": column.data.name(), "optional": column.optional, "unit": column.unit, "definition": column.about,
            }),
            Entry::Code { list, code, about, .. } => {
                json!({ "kind": list, "name": name, "code": code, "definition": about })
            }
            Entry::Finding { list, about, .. } | Entry::Named { list, about, .. } => {
                json!({ "kind": list, "name": name, "definition": about })
            }
        }
    }
}

fn label_text(label: &Label) -> String {
    let optional = if label.optional { " (not on all lines)" } else { "" };
    let Label { name, about, .. } = label;
    match label.values {
        values if values.is_empty() || values.len() > VALUES_MAX => format!("{name}{optional}: {about}"),
        values => format!("{name}{optional} = {}: {about}", values.join(" or ")),
    }
}

fn keys_text(definition: &Definition) -> String {
    let keys = definition.keys();
    match keys.len() {
        n if n > VALUES_MAX => format!("{}, … {} ({n} keys)", keys[..2].join(", "), keys[n - 1]),
        _ => keys.join(", "),
    }
}

pub(super) fn run(args: Explain, ui: &Ui) -> Result<u8> {
    if args.markdown && ui.json() {
        return Err(Error::config("--markdown and --json: choose one".to_owned()));
    }
    let mut all = entries();
    if !args.names.is_empty() && !args.markdown {
        all.extend(causes().chain(notes_of_captures()).chain(listed_on_request()));
    }
    for name in &args.names {
        if !all.iter().any(|entry| entry.answers(name)) {
            let names: Vec<String> = all.iter().flat_map(Entry::names).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            return Err(Error::config(format!(
                "there is no metric, column, code or registered name \"{name}\"{}; pktgen explain without a name prints all",
                suggest(name, &names)
            )));
        }
    }
    let wanted = |entry: &&Entry| args.names.is_empty() || args.names.iter().any(|name| entry.answers(name));
    let chosen: Vec<&Entry> = all.iter().filter(wanted).collect();
    if args.markdown {
        ui.result(&markdown::page(&chosen));
        return Ok(0);
    }
    for (i, entry) in chosen.iter().enumerate() {
        if ui.json() {
            ui.object(&schemas::DEFINITION, &entry.json().to_string());
        } else {
            ui.result(&format!("{}{}", if i > 0 { "\n" } else { "" }, entry.text()));
        }
    }
    Ok(0)
}
