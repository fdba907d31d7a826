//! `pktgen trace`: creates, scales and inspects traces.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pktgen_compare::trace as fidelity;
use pktgen_core::config::{SECTIONS, Value};
use pktgen_core::registry::{find, suggest};
use pktgen_core::seed::Seed;
use pktgen_core::units::{Decimal, Rate, Size};
use pktgen_core::{Error, Result};
use pktgen_realtime::run::refuse_study;
use pktgen_records::human;
use pktgen_registry::all;
use pktgen_workload::trace::{self, FRAME_BYTES, ImportOptions, Info, ScalePlan, TraceManifest};
use pktgen_workload::workload;

use crate::args::{Convert, Experiment, Scale, Trace};
use crate::commands::experiment::load;
use crate::output::check_outputs;
use crate::schemas;
use crate::ui::Ui;

pub(super) fn run(args: Trace, ui: &Ui) -> Result<u8> {
    match args {
        Trace::Synth { experiment, out, seed, values } => synth(&experiment, &out, seed, values, ui)?,
        Trace::Scale(args) => scale(args, ui)?,
        Trace::Info { input } => {
            let info = trace::info(&input)?;
            show(&info, ui)?;
        }
        Trace::Check { input, scaled: Some(scaled) } => return kept(&input, &scaled, ui),
        Trace::Check { input, scaled: None } => {
            let info = trace::check(&input)?;
            show(&info, ui)?;
        }
        Trace::Convert(args) => convert(&args, ui)?,
    }
    Ok(0)
}

fn scale(args: Scale, ui: &Ui) -> Result<()> {
    let Scale { input, out, clusters, workers, updates, rate, time, skew, bytes, seed } = args;
    let offered = rate.map(|r| r.parse::<Rate>().map_err(|e| flag("--rate", e))).transpose()?;
    let time = time.map(|t| t.parse::<Decimal>().map_err(|e| flag("--time", e))).transpose()?;
    let bytes = bytes.map(|b| frame_bytes("--bytes", &b)).transpose()?;
    zero_is_wrong(&[("--clusters", clusters.map(u32::from)), ("--workers", workers), ("--updates", updates)])?;
    let scaling = ScalePlan { clusters, workers, updates, offered, time, skew, bytes, seed };
    check_outputs([&out], [input.as_path()])?;
    let manifest = trace::scale(&input, &out, &scaling)?;
    made(&out, &manifest, ui);
    for (key, label) in [("left_out", "left out"), ("long_copies", "long copies")] {
        if let Some(words) = manifest.details.get(key).filter(|_| !ui.json()) {
            ui.result(&format!("  {label:<12} {words}"));
        }
    }
    Ok(())
}

fn flag(name: &str, error: impl std::fmt::Display) -> Error {
    Error::config(format!("{name}: {error}"))
}

fn zero_is_wrong(flags: &[(&str, Option<u32>)]) -> Result<()> {
    match flags.iter().find(|(_, value)| *value == Some(0)) {
        Some((name, _)) => Err(flag(name, "0 is not allowed; it must be at least 1")),
        None => Ok(()),
    }
}

fn frame_bytes(name: &str, text: &str) -> Result<u32> {
    let size: Size = text.parse().map_err(|e| flag(name, e))?;
    match size.bytes().and_then(|bytes| u32::try_from(bytes).ok()).filter(|bytes| FRAME_BYTES.contains(bytes)) {
        Some(bytes) => Ok(bytes),
        None => {
            let (least, most) = FRAME_BYTES.into_inner();
            Err(flag(name, format!("{size} is not a frame; frames have {least} B to {most} B")))
        }
    }
}

/// The sections of an experiment that a trace is made from.
const SYNTHESISED: [&str; 2] = ["workload", "schedule"];

/// Returns the texts in a value: any of them may name a file, such as the traces and captures of a workload.
fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::Text(text) => vec![text],
        Value::List(items) => items.iter().flat_map(|item| texts(&item.value)).collect(),
        Value::Table(table) => table.values().flat_map(|item| texts(&item.value)).collect(),
        Value::Integer(_) | Value::Float(_) | Value::Printed(..) | Value::Bool(_) => Vec::new(),
    }
}

fn synth(experiment: &Experiment, out: &PathBuf, seed: Option<u64>, values: bool, ui: &Ui) -> Result<()> {
    let mut document = load(experiment)?;
    refuse_study(&document)?;
    let read = SYNTHESISED.into_iter().filter_map(|section| document.get(section)).flat_map(texts).map(Path::new);
    check_outputs([out], read.chain([experiment.experiment.as_path()]))?;
    let leaves = document.leaves();
    let top = |path: &String| path.split('.').next().unwrap_or_default().to_owned();
    if let Some(key) = leaves.keys().map(top).find(|key| !SECTIONS.contains(&key.as_str())) {
        let near = suggest(&key, SECTIONS);
        return Err(Error::config(format!("\"{key}\" is no section or key{near}; there are: {}", SECTIONS.join(", "))));
    }
    let own = match document.get("seed") {
        None => 1,
        Some(Value::Integer(seed)) if *seed >= 0 => *seed as u64,
        Some(other) => {
            return Err(Error::config(format!("seed = {}: a seed is a whole number from 0 on", other.to_toml())));
        }
    };
    let seed = seed.unwrap_or(own);
    let mut opened = workload::open(&mut document, Seed(seed))?;
    if opened.endless {
        return Err(Error::config(
            "workload.repeat = 0 has no end: give schedule.stop, or a number of passes (--set workload.repeat=1)",
        ));
    }
    let details = BTreeMap::from([
        ("tool".to_owned(), format!("pktgen {}", env!("CARGO_PKG_VERSION"))),
        ("seed".to_owned(), seed.to_string()),
        ("workload".to_owned(), document.resolved_section("workload")),
        ("schedule".to_owned(), document.resolved_section("schedule")),
    ]);
    let bar = ui.bar("writing", 0);
    let manifest = trace::synthesise(opened.source.as_mut(), out, values, details, &mut |n| bar.set_position(n))?;
    bar.finish_and_clear();
    made(out, &manifest, ui);
    Ok(())
}

fn made(out: &Path, manifest: &TraceManifest, ui: &Ui) {
    if ui.json() {
        let object = serde_json::json!({ "trace": out.display().to_string(), "updates": manifest.updates, "sha256": manifest.sha256 });
        ui.object(&schemas::TRACE_MADE, &object.to_string());
    } else {
        ui.result(&format!("{}: {} updates, {}", out.display(), manifest.updates, manifest.origin));
    }
}

fn convert(args: &Convert, ui: &Ui) -> Result<()> {
    let bytes = frame_bytes("--bytes", &args.bytes)?;
    let split = args.split.as_ref().map(|size| frame_bytes("--split", size)).transpose()?;
    let wire =
        args.wire.as_ref().map(|name| find(all().protocols.formats, "wire format", name, "--wire")).transpose()?;
    let options = ImportOptions { bytes, split, wire, formats: all().protocols.formats, by_group: args.by_group };
    check_outputs([&args.out], args.inputs.iter().map(PathBuf::as_path))?;
    let manifest = trace::convert(&args.inputs, &args.out, args.format.as_deref(), &options, &args.licence)?;
    converted(&args.out, &manifest, ui);
    Ok(())
}

/// Prints what was created, and what differs from the file.
fn converted(out: &Path, manifest: &TraceManifest, ui: &Ui) {
    if ui.json() {
        let TraceManifest { updates, sha256, details, .. } = manifest;
        let object = serde_json::json!({ "trace": out.display().to_string(), "updates": updates, "sha256": sha256, "details": details });
        return ui.object(&schemas::TRACE_MADE, &object.to_string());
    }
    made(out, manifest, ui);
    for (key, words) in manifest.details.iter().filter(|(key, _)| !key.starts_with("from")) {
        ui.result(&format!("  {key:<12} {words}"));
    }
}

/// Compares a scaled trace with its original.
fn kept(original: &Path, scaled: &Path, ui: &Ui) -> Result<u8> {
    let fidelity = fidelity::compare(original, scaled)?;
    if ui.json() {
        ui.object(
            &schemas::TRACE_FIDELITY,
            &serde_json::to_string(&fidelity).map_err(|e| Error::Invalid(e.to_string()))?,
        );
    } else {
        ui.result(&fidelity.text());
    }
    Ok(u8::from(!fidelity.passed))
}

fn show(info: &Info, ui: &Ui) -> Result<()> {
    if ui.json() {
        let text = serde_json::to_string(info).map_err(|e| Error::Invalid(e.to_string()))?;
        ui.object(&schemas::TRACE_INFO, &text);
        return Ok(());
    }
    let span = |ps: f64| human::show("ns", ps / 1e3);
    let unknown = || "unknown".to_owned();
    let period = |(fastest, slowest)| format!("{} to {}", span(fastest), span(slowest));
    let variation = |cv: f64| format!("{cv:.2}");
    ui.result(&format!(
        "updates      {} of {} workers in {} clusters\nper worker   {} to {} updates, mean period {}, gap variation {}\n\
         span         {} to {}\noffered      {} on the mean, {} bytes in all\nvalues       {} updates; reward: {}; keys: {}\nhash         {}",
        info.updates, info.workers, info.clusters,
        info.updates_per_worker.0, info.updates_per_worker.1, info.period_ps.map_or_else(unknown, period),
        info.gap_cv.map_or_else(unknown, variation),
        span(info.first_ps as f64), span(info.last_ps as f64),
        info.offered_bps.map_or_else(unknown, |bps| human::show("bps", bps)), info.bytes, info.with_values, info.with_reward, info.with_keys,
        match info.hash_ok { None => "no manifest", Some(true) => "matches the manifest", Some(false) => "DOES NOT match the manifest" },
    ));
    for problem in &info.problems {
        ui.result(&format!("problem      {problem}"));
    }
    Ok(())
}
