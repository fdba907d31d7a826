//! `pktgen calibrate`: finds the settings for which an experiment gives measured or published values.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pktgen_calibrate::{
    CalibrateSettings, Calibration, ExperimentTwin, MeasuredValues, PredictPoint, TargetSource, TargetValue, TwinPlan,
    at_point, calibrate, choose, predict,
};
use pktgen_capture::{CapturePlan, analyze_captures};
use pktgen_core::config::{Document, Origin};
use pktgen_core::whole::write_whole;
use pktgen_core::{Error, Result};
use pktgen_planning::STUDIES;
use pktgen_realtime::capture::claim;
use pktgen_realtime::run::Experiment;
use pktgen_records::{METRICS, Options};
use pktgen_registry::all;
use pktgen_report::sweep::data::is_same;

use crate::args::Calibrate;
use crate::commands::analyze::FAILURES;
use crate::commands::experiment::{OutFolder, load, open};
use crate::commands::query::ANSWERS;
use crate::schemas;
use crate::ui::{Ui, aligned, stop_flag};

pub(super) fn run(args: Calibrate, ui: &Ui) -> Result<u8> {
    let document = load(&args.experiment)?;
    let mut own = document.clone();
    let mut settings = CalibrateSettings::of(&mut own)?;
    for text in &args.predict {
        settings.predict.push(PredictPoint::parse(text)?);
    }
    let experiment = open(document.clone())?;
    let options = Options { no_verify: true, studies: &STUDIES, user_metrics: ANSWERS, ..Options::default() };
    // Runs of the twin were just written; measured ones may have changed since they were written.
    let measured = Options { no_verify: args.no_verify, ..options };
    let (targets, notes) = targets(&args.to, &settings, &experiment, measured)?;
    let folder = OutFolder::of(args.out.clone(), &format!("calibrate-{}", experiment.name))?;
    if !pktgen_calibrate::is_in(&folder) {
        claim(&folder)?.keep();
    }
    let stop = stop_flag();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = args.jobs.map_or(cores, usize::from);
    let (space, seeds) = (&settings.space, settings.keys.seeds);
    let plan = TwinPlan { space, targets: &targets, over: &[], seeds, jobs, options, stop: &stop };
    let identity = identity(&document, &settings, &targets);
    let mut twin = ExperimentTwin::open(experiment.clone(), plan, &folder, &identity)?;
    if twin.remembered > 0 {
        ui.note(&format!("note: {} settings were run before and are kept", twin.remembered));
    }
    // Opened before the search, which may take hours.
    let points = points(&document, &settings, &experiment, plan, &folder, &identity)?;
    let bar = ui.bar("calibrating", settings.keys.settings.into());
    let answer = calibrate(&settings.space, &targets, &settings.keys, &mut twin, &mut |ran, most| {
        bar.set_length(most as u64);
        bar.set_position(ran as u64);
    });
    bar.finish_and_clear();
    let answer = answer?;
    let mut predictions = Vec::new();
    for (point, mut twin) in points {
        predictions.extend(predict(&answer, &targets, point, &mut twin)?);
    }
    let found = Calibration {
        experiment: experiment.name.clone(),
        tool: format!("pktgen {}", env!("CARGO_PKG_VERSION")),
        to: args.to.iter().map(|path| path.display().to_string()).collect(),
        seeds: settings.keys.seeds,
        runs_each: twin.runs_each(),
        units: units(),
        notes,
        answer,
        predictions,
    };
    write(&found, &document, &settings, &folder)?;
    say(&found, &folder, ui);
    Ok(u8::from(!found.is_whole()))
}

/// Returns the points to predict, each once, with their twins; refuses other values of axes that targets are of.
fn points<'a>(
    document: &Document,
    settings: &'a CalibrateSettings,
    experiment: &Experiment,
    plan: TwinPlan<'a>,
    folder: &Path,
    identity: &str,
) -> Result<Vec<(&'a PredictPoint, ExperimentTwin<'a>)>> {
    let mut points: Vec<(&PredictPoint, ExperimentTwin)> = Vec::new();
    for point in &settings.predict {
        let name = point.name();
        if points.iter().any(|(other, _)| other.name() == name) {
            continue;
        }
        let is_axis = |key: &str| experiment.axes().iter().any(|(axis, _)| axis == key);
        for (key, value) in point.set.iter().filter(|(key, _)| is_axis(key)) {
            let label = value.to_label();
            if plan.targets.iter().any(|target| target.at.get(key).is_some_and(|own| !is_same(key, own, &label))) {
                return Err(Error::config(format!(
                    "--predict {name}: the sweep varies {key}, and targets are of its values; write these as [[sweep.variants]], \
                     whose keys a point replaces"
                )));
            }
        }
        let (own, dir) = (open(at_point(document, point)?)?, folder.join(point.folder()));
        let plan = TwinPlan { over: &point.set, ..plan };
        points.push((point, ExperimentTwin::open(own, plan, &dir, &format!("{identity}{name}"))?));
    }
    Ok(points)
}

/// Returns the targets, with notes on them.
fn targets(
    to: &[PathBuf],
    settings: &CalibrateSettings,
    experiment: &Experiment,
    options: Options,
) -> Result<(Vec<TargetValue>, Vec<String>)> {
    let mut measured = MeasuredValues::default();
    let mut found = Vec::new();
    for path in to {
        match TargetSource::named(path)? {
            TargetSource::Paper => found.extend(TargetValue::published(experiment.paper())),
            TargetSource::Runs(dir) => measured.add_runs(&dir, experiment, options)?,
            TargetSource::Capture(file) => {
                let plan = CapturePlan::new(all().protocols.formats, vec![file], Vec::new());
                let of = analyze_captures(&plan, &mut |_, _| {})?;
                let spoils = of.notes.iter().find(|note| FAILURES.contains(&note.note));
                if let Some(note) = spoils.filter(|_| !options.no_verify) {
                    return Err(Error::Invalid(format!(
                        "--to {}: {}; use a whole capture, or --no-verify to take what it has",
                        path.display(),
                        note.text
                    )));
                }
                measured.add_capture(path, &of.lines)?;
            }
        }
    }
    let mut metrics = settings.metrics.clone();
    if metrics.is_empty() && settings.targets.is_empty() {
        metrics = experiment.shown().to_vec();
    }
    metrics.extend(settings.targets.iter().map(|target| target.metric.clone()));
    metrics.sort();
    metrics.dedup();
    if !measured.metrics().is_empty() {
        found.extend(measured.targets(&metrics));
    }
    Ok((choose(&settings.targets, found, &measured.notes)?, measured.notes))
}

/// Returns the data that must be equal for resuming a calibration.
fn identity(document: &Document, settings: &CalibrateSettings, targets: &[TargetValue]) -> String {
    // The twin compares the contents of traces, captures and networks.
    let leaves = document.leaves().into_iter().filter(|(key, _)| !key.starts_with("calibrate."));
    let keys: Vec<_> = leaves.map(|(key, value)| format!("{key}={value}")).collect();
    format!("{}\n{:?}\n{:?}\n{}", keys.join("\n"), settings.space, targets, settings.keys.seeds)
}

/// Returns the units of all metrics by their names.
fn units() -> BTreeMap<String, String> {
    let definitions = METRICS.iter().flat_map(|metric| metric.definitions());
    definitions.map(|it| (it.metric.to_owned(), it.unit.to_owned())).collect()
}

/// Writes the result, its page, and an experiment file with the best setting.
fn write(found: &Calibration, document: &Document, settings: &CalibrateSettings, folder: &Path) -> Result<()> {
    let text = schemas::CALIBRATION.stamp(&found.json().to_string());
    write_whole(&folder.join("calibration.json"), text)?;
    write_whole(&folder.join("calibration.html"), found.html())?;
    let mut best = document.clone();
    let values = settings.space.values(&found.answer.best);
    for (parameter, value) in settings.space.parameters.iter().zip(&values) {
        best.set_for(parameter.variant.as_deref(), &parameter.key, value, &Origin::Default)?;
    }
    write_whole(&folder.join("best.toml"), best.written(&["calibrate"]))?;
    Ok(())
}

fn say(found: &Calibration, folder: &Path, ui: &Ui) {
    if ui.json() {
        ui.object(&schemas::CALIBRATION, &found.json().to_string());
        return;
    }
    ui.result(&found.verdict());
    found.remarks().iter().for_each(|remark| ui.result(&format!("  {remark}")));
    for rows in [aligned(&found.parameter_rows()), aligned(&found.target_rows())] {
        ui.result("");
        rows.iter().for_each(|row| ui.result(row));
    }
    if !found.predictions.is_empty() {
        ui.result("");
        aligned(&found.prediction_rows()).iter().for_each(|row| ui.result(row));
    }
    ui.result("");
    let (settings, each, folder) = (found.answer.settings, found.runs_each, folder.display());
    ui.result(&format!("{settings} settings, {each} runs each; {folder}/best.toml, {folder}/calibration.html"));
}
