//! `pktgen analyze`: metrics of run dirs.

use std::path::{Path, PathBuf};

use pktgen_analysis::{Line, analyze_run};
use pktgen_generator::record::SweepManifest;
use pktgen_generator::{Error, Result};
use pktgen_replay::capture::recover;

use crate::args::Analyze;
use crate::ui::Ui;

pub(super) fn run(args: Analyze, ui: &Ui) -> Result<u8> {
    let mut dirs = Vec::new();
    for path in &args.runs {
        dirs.extend(run_dirs(path)?);
    }
    let several = dirs.len() > 1;
    let bar = ui.bar("analysing", dirs.len() as u64);
    let mut all = Vec::new();
    for dir in &dirs {
        if args.recover && dir.join("sent.arrows").exists() {
            let [sent, books, received] = recover(dir)?;
            ui.note(&format!("{}: recovered {sent} sent, {books} book and {received} received rows", dir.display()));
        }
        for mut line in analyze_run(dir)? {
            if several {
                line = line.with("run", dir.display().to_string());
            }
            all.push(line);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    if let Some(table) = &args.table {
        pktgen_analysis::line::write_table(&all, table)?;
    }
    for line in &all {
        ui.result(&if ui.json() { line.to_json() } else { plain(line) });
    }
    Ok(0)
}

/// The run dirs at `path`: itself, or those that its `sweep.json` names.
fn run_dirs(path: &Path) -> Result<Vec<PathBuf>> {
    let sweep = path.join("sweep.json");
    if !sweep.exists() {
        return Ok(vec![path.to_owned()]);
    }
    let text = std::fs::read(&sweep).map_err(Error::io("read", &sweep))?;
    let sweep: SweepManifest =
        serde_json::from_slice(&text).map_err(|e| Error::data(&sweep, format!("not a sweep manifest: {e}")))?;
    Ok(sweep.runs.iter().map(|run| path.join(&run.dir)).collect())
}

fn plain(line: &Line) -> String {
    let labels: Vec<_> = line.labels.iter().map(|(k, v)| format!("{k}={}", v.to_string().trim_matches('"'))).collect();
    let value = line.value.map_or("-".to_owned(), |v| {
        if v.fract() == 0.0 && v.abs() < 1e15 { format!("{v:.0}") } else { format!("{v:.6}") }
    });
    format!("{:<34} {value:>18} {:<10} {}", line.metric, line.unit, labels.join(" "))
}
