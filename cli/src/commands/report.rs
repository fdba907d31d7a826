//! `pktgen report`: reports from run dirs.

use std::path::{Path, PathBuf};

use pktgen_analysis::report::Report as Format;
use pktgen_analysis::{Model, REPORTS, SweepData, summary_table};
use pktgen_generator::{Error, Result};

use crate::args::Report;
use crate::ui::Ui;

pub(super) fn run(args: Report, ui: &Ui) -> Result<u8> {
    report(&args.run, &args.out, ui)
}

/// Reports on the runs in `dir`: writes `out`, or one file of each format beside the runs, and prints the
/// table. The result is the exit code: 1 if a run is invalid.
pub(super) fn report(dir: &Path, out: &[PathBuf], ui: &Ui) -> Result<u8> {
    let bar = ui.bar("analysing", 1);
    let data = SweepData::open(dir, &mut |done, total| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
    })?;
    let model = Model::build(&data);
    bar.finish_and_clear();
    let mut written = Vec::new();
    if out.is_empty() {
        for format in REPORTS {
            written.push(write(*format, &model, &dir.join(format!("report.{}", format.extension())))?);
        }
    }
    for path in out {
        written.push(write(by_extension(path)?, &model, path)?);
    }
    if ui.json() {
        let json = REPORTS.iter().find(|r| r.extension() == "json");
        if let Some(json) = json {
            ui.result(&one_line(&json.render(&model)?));
        }
    } else {
        ui.result(summary_table(&model).trim_end());
    }
    for path in &written {
        ui.note(&format!("report: {}", path.display()));
    }
    Ok(u8::from(!model.verdict.valid))
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

fn write(format: &dyn Format, model: &Model, path: &Path) -> Result<PathBuf> {
    std::fs::write(path, format.render(model)?).map_err(Error::io("write report", path))?;
    Ok(path.to_owned())
}
