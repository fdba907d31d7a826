//! `pktgen report`: reports from run dirs.

use std::path::{Path, PathBuf};

use pktgen_analysis::report::Report as Format;
use pktgen_analysis::{Model, Options, REPORTS, SweepData, summary};
use pktgen_generator::{Error, Result};

use super::plots::Plots;
use crate::args::Report;
use crate::ui::Ui;

pub(super) fn run(args: Report, ui: &Ui) -> Result<u8> {
    let plots = Plots::of(args.plots, &args.plots_format)?;
    report_with(&args.run, &args.out, plots.as_ref(), Options { age_of: args.age }, ui)
}

/// Reports on the runs in `dir`: writes `out`, or one file of each format beside the runs, and prints the
/// verdict and the table. The result is the exit code: 1 if a run is invalid or the verdict is worse.
pub(super) fn report(dir: &Path, out: &[PathBuf], options: Options, ui: &Ui) -> Result<u8> {
    report_with(dir, out, None, options, ui)
}

/// The same, with plots as files if they are wanted.
fn report_with(dir: &Path, out: &[PathBuf], plots: Option<&Plots>, options: Options, ui: &Ui) -> Result<u8> {
    // An extension that nobody can write is told before the work.
    let chosen = out.iter().map(|path| Ok((by_extension(path)?, path.clone()))).collect::<Result<Vec<_>>>()?;
    let bar = ui.bar("analysing", 1);
    let data = SweepData::open_with(dir, options, &mut |done, total| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
    })?;
    let model = Model::build(&data);
    bar.finish_and_clear();
    let beside = |format: &&'static dyn Format| (*format, dir.join(format!("report.{}", format.extension())));
    let files = if chosen.is_empty() { REPORTS.iter().map(beside).collect() } else { chosen };
    for (format, path) in &files {
        write(*format, &model, path)?;
    }
    if let Some(plots) = plots {
        plots.write(&model, ui)?;
    }
    if ui.json() {
        let json = REPORTS.iter().find(|r| r.extension() == "json");
        if let Some(json) = json {
            ui.result(&one_line(&json.render(&model)?));
        }
    } else {
        let see = files.first().map_or(dir.display().to_string(), |(_, path)| path.display().to_string());
        ui.result(summary(&model, &see).trim_end());
    }
    for warning in &model.warnings {
        ui.note(&format!("warning: {warning}"));
    }
    for (_, path) in &files {
        ui.note(&format!("report: {}", path.display()));
    }
    Ok(u8::from(!model.verdict.valid || model.verdict.worse))
}

/// JSON on one line.
fn one_line(text: &str) -> String {
    serde_json::from_str::<serde_json::Value>(text).map_or_else(|_| text.to_owned(), |v| v.to_string())
}

fn by_extension(path: &Path) -> Result<&'static dyn Format> {
    let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    REPORTS.iter().find(|r| r.extension() == extension).copied().ok_or_else(|| {
        let known: Vec<_> = REPORTS.iter().map(|r| format!(".{}", r.extension())).collect();
        Error::config(format!("--out {}: the extension is not one of {}", path.display(), known.join(", ")))
    })
}

fn write(format: &dyn Format, model: &Model, path: &Path) -> Result<()> {
    std::fs::write(path, format.render(model)?).map_err(Error::io("write report", path))
}
