//! `pktgen history`: metrics over time and their changes.

use std::path::Path;

use pktgen_compare::{Rules, history};
use pktgen_core::registry::suggest;
use pktgen_core::whole::write_whole;
use pktgen_core::{Error, Result};

use crate::args::History;
use crate::output::check_outputs;
use crate::schemas;
use crate::ui::Ui;

pub(super) fn run(args: History, ui: &Ui) -> Result<u8> {
    if let Some(path) = args.out.iter().find(|path| form(path).is_none()) {
        let what = format!("--out {}: the extension is not one of .html, .json, .txt", path.display());
        return Err(Error::config(what));
    }
    check_outputs(&args.out, [args.file.as_path()])?;
    let history = history::read(&args.file)?;
    let left_out = history.left_out();
    // The text has them.
    if ui.json() {
        left_out.lines.iter().for_each(|line| ui.note(&format!("warning: {line}")));
    }
    let known = history.metrics();
    let names: Vec<&str> = known.iter().map(String::as_str).collect();
    if let Some(wrong) = args.metric.iter().find(|metric| !known.contains(metric)) {
        let near = suggest(wrong, &names);
        return Err(Error::config(format!("--metric {wrong}: no entry has it{near}; there are: {}", names.join(", "))));
    }
    let usual =
        || Rules::built_in().rules.into_iter().map(|rule| rule.metric).filter(|key| known.contains(key)).collect();
    let metrics = if args.all || !args.metric.is_empty() { args.metric } else { usual() };
    let series = history.series(&metrics);
    let objects = series.iter().map(serde_json::to_string).collect::<std::result::Result<Vec<_>, _>>();
    let objects =
        objects.map_err(|fault| Error::Invalid(format!("the series could not be written as JSON: {fault}")))?;
    let objects: Vec<_> = objects.iter().map(|object| schemas::SERIES.stamp(object)).collect();
    for path in &args.out {
        let text = match form(path) {
            Some("html") => history::page(&series, &left_out),
            Some("json") => format!("[{}]", objects.join(",")),
            _ => history::text(&series, &left_out),
        };
        write_whole(path, text)?;
        ui.note(&format!("history: {}", path.display()));
    }
    if ui.json() {
        objects.iter().for_each(|object| ui.result(object));
    } else {
        ui.result(history::text(&series, &left_out).trim_end());
    }
    Ok(0)
}

fn form(path: &Path) -> Option<&'static str> {
    let asked = path.extension()?.to_str()?;
    ["html", "json", "txt"].into_iter().find(|known| *known == asked)
}
