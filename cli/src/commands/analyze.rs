//! `pktgen analyze`: metrics of run dirs; `captured.rs` has captures.

use std::path::{Path, PathBuf};

use pktgen_analysis::line::write_table;
use pktgen_analysis::run::is_unfinished;
use pktgen_analysis::{Line, Measured, Options, analyze_run_with, run_dirs};
use pktgen_generator::Result;
use pktgen_replay::capture::recover;

use crate::args::Analyze;
use crate::commands::captured;
use crate::ui::Ui;

/// Prints the lines of every run that can be read and names the others; the result is 1 if there are others or
/// a run is invalid, and their error if there is nothing else.
pub(super) fn run(args: Analyze, ui: &Ui) -> Result<u8> {
    if captured::asked_for(&args) {
        return captured::run(&args, ui);
    }
    let mut dirs: Vec<PathBuf> = Vec::new();
    for path in &args.runs {
        dirs.extend(run_dirs(path)?);
    }
    let several = dirs.len() > 1;
    let bar = ui.bar("analysing", dirs.len() as u64);
    let (mut lines, mut bad, mut invalid) = (Vec::new(), Vec::new(), false);
    for dir in &dirs {
        match one(dir, &args, ui) {
            Ok(measured) => {
                say_notes(dir, &measured, ui);
                invalid |= measured.notes.iter().any(|note| note.note == "invalid");
                let named = |line: Line| if several { line.with("run", dir.display().to_string()) } else { line };
                lines.extend(measured.lines.into_iter().map(named));
            }
            Err(error) => bad.push((dir, error)),
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    if bad.len() == dirs.len()
        && let Some((_, error)) = bad.pop()
    {
        bad.iter().for_each(|(dir, error)| say_bad(dir, error, ui));
        return Err(error);
    }
    print(&lines, &args, ui)?;
    bad.iter().for_each(|(dir, error)| say_bad(dir, error, ui));
    Ok(u8::from(invalid || !bad.is_empty()))
}

fn one(dir: &Path, args: &Analyze, ui: &Ui) -> Result<Measured> {
    if args.recover && is_unfinished(dir)? {
        let [sent, books, received] = recover(dir)?;
        ui.note(&format!("{}: recovered {sent} sent, {books} book and {received} received rows", dir.display()));
    }
    analyze_run_with(dir, Options { age_of: args.age })
}

/// The lines, as they were asked for.
pub(super) fn print(lines: &[Line], args: &Analyze, ui: &Ui) -> Result<()> {
    if let Some(table) = &args.table {
        write_table(lines, table)?;
    }
    for line in lines {
        ui.result(&if ui.json() { line.to_json() } else { plain(line) });
    }
    Ok(())
}

/// Notes on stderr: as JSON for programs.
pub(super) fn say_notes(dir: &Path, measured: &Measured, ui: &Ui) {
    for note in &measured.notes {
        ui.note(&if ui.json() {
            serde_json::json!({ "note": note.note, "run": dir, "text": note.text }).to_string()
        } else {
            format!("note: {}: {}", dir.display(), note.text)
        });
    }
}

fn say_bad(dir: &Path, error: &pktgen_generator::Error, ui: &Ui) {
    ui.error(&format!("{} was not analysed: {error}", dir.display()));
}

fn plain(line: &Line) -> String {
    let labels: Vec<_> = line.labels.iter().map(|(k, v)| format!("{k}={}", v.to_string().trim_matches('"'))).collect();
    let value = line.value.map_or("-".to_owned(), |v| {
        if v.fract() == 0.0 && v.abs() < 1e15 { format!("{v:.0}") } else { format!("{v:.6}") }
    });
    format!("{:<34} {value:>18} {:<10} {}", line.metric, line.unit, labels.join(" "))
}
