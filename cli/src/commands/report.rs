//! `pktgen report`: reports of run dirs, comparisons of these (`compare.rs`), and their history.

use std::path::{Path, PathBuf};

use pktgen_capture::replay::is_tables;
use pktgen_compare::history::{Entry, Runs};
use pktgen_core::whole::write_whole;
use pktgen_core::{Error, Result};
use pktgen_planning::STUDIES;
use pktgen_records::Options;
use pktgen_records::age::AgeOf;
use pktgen_records::memory::MemoryBound;
use pktgen_report::report::Report as Format;
use pktgen_report::{Model, REPORTS, SweepData, summary};

use super::experiment::is_capture_file;
use super::plots::Plots;
use crate::args::{History, Report};
use crate::commands::query::ANSWERS;
use crate::commands::{compare, history};
use crate::output::{check_output, check_outputs};
use crate::ui::Ui;

pub(super) fn run(args: Report, ui: &Ui) -> Result<u8> {
    if args.print_rules {
        ui.result(compare::rules(&args)?.to_toml().trim_end());
        return Ok(0);
    }
    check_files(&args.out, &args)?;
    refuse_ages_in_history(&args)?;
    let options = Options {
        age_of: args.age,
        no_verify: args.no_verify,
        memory: MemoryBound::mib(args.memory),
        studies: &STUDIES,
        user_metrics: ANSWERS,
    };
    let plots = Plots::of(args.plots.clone(), &args.plots_format, ui)?;
    if plots.is_some() && (args.runs.len() != 1 || args.baseline.is_some()) {
        return Err(Error::config("--plots is for the report of one RUN"));
    }
    match (args.runs.as_slice(), &args.baseline, &args.history) {
        ([], None, Some(file)) => {
            refuse_for_history(&args)?;
            let file = file.clone();
            history::run(History { file, metric: Vec::new(), all: false, out: args.out }, ui)
        }
        ([], ..) => Err(Error::config("pktgen report needs a RUN: a run dir or a folder of run dirs")),
        ([_], None, _) if args.rules.is_some() => {
            Err(Error::config("--rules is for comparisons: give --baseline OLD, or several RUNs"))
        }
        ([run], None, None) => report_with(run, &args.out, plots.as_ref(), options, ui),
        ([run], None, Some(file)) => {
            // An unknown extension is refused before the work.
            args.out.iter().try_for_each(|path| by_extension(path).map(drop))?;
            check_files(&files(run, &args.out), &args)?;
            let runs = Runs::of(run, options.no_verify);
            let data = analysed(run, options, ui)?;
            // If the history cannot be written, the report is written anyway.
            let remembered = runs.and_then(|runs| remember((run, runs), &data, file, ui));
            let code = written(&data, run, &args.out, plots.as_ref(), ui)?;
            remembered.map(|()| code)
        }
        _ => compare::run(&args, options, ui),
    }
}

/// Refuses files that would replace the history, to which a line is appended, or the rules.
pub(super) fn check_files(files: &[PathBuf], args: &Report) -> Result<()> {
    check_outputs(files, args.history.iter().chain(&args.rules).map(PathBuf::as_path))?;
    check_outputs(files.iter().chain(&args.history), args.rules.iter().map(PathBuf::as_path))
}

/// Returns the files of a report on the runs in `dir`: `out`, or one file of each format beside the runs.
fn files(dir: &Path, out: &[PathBuf]) -> Vec<PathBuf> {
    let beside = |format: &&'static dyn Format| dir.join(format!("report.{}", format.extension()));
    if out.is_empty() { REPORTS.iter().map(beside).collect() } else { out.to_vec() }
}

/// Refuses ages of other members for a line of a history, whose lines are compared with each other.
fn refuse_ages_in_history(args: &Report) -> Result<()> {
    if args.history.is_none() || args.runs.is_empty() || args.age == AgeOf::default() {
        return Ok(());
    }
    Err(Error::config(format!(
        "--age {}: a history has the Age-of-Model by the {} member only; leave out --age or --history",
        args.age.name(),
        AgeOf::default().name()
    )))
}

/// Refuses flags that change how runs are read or compared, for a history, whose numbers are final.
fn refuse_for_history(args: &Report) -> Result<()> {
    let given = [
        (args.age != Default::default(), "--age"),
        (args.memory.is_some(), "--memory"),
        (args.no_verify, "--no-verify"),
        (args.rules.is_some(), "--rules"),
    ];
    match given.into_iter().find(|(given, _)| *given) {
        Some((_, flag)) => {
            Err(Error::config(format!("{flag}: a history without RUN is only printed; leave it out, or name a RUN")))
        }
        None => Ok(()),
    }
}

/// Reports on the runs in `dir`: writes `out`, or one file of each format beside the runs, and prints the verdict and
/// the table. Returns the exit code: 1 if a run is invalid or the verdict is worse.
pub(super) fn report(dir: &Path, out: &[PathBuf], options: Options, ui: &Ui) -> Result<u8> {
    report_with(dir, out, None, options, ui)
}

/// Does the same, with plots as files if requested.
fn report_with(dir: &Path, out: &[PathBuf], plots: Option<&Plots>, options: Options, ui: &Ui) -> Result<u8> {
    // An unknown extension is refused before the work.
    out.iter().try_for_each(|path| by_extension(path).map(drop))?;
    written(&analysed(dir, options, ui)?, dir, out, plots, ui)
}

/// Reads and analyses the runs in `dir`.
pub(super) fn analysed(dir: &Path, options: Options, ui: &Ui) -> Result<SweepData> {
    let bar = ui.bar("analysing", 1);
    let data = SweepData::open_with(dir, options, &mut |done, total| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    data.map_err(|fault| without_runs(dir).unwrap_or(fault))
}

/// Returns the error for a capture, or a folder of tables of captures, in place of runs; `None` for anything else.
fn without_runs(path: &Path) -> Option<Error> {
    let what = if is_capture_file(path) {
        "it is a capture and no run; analyze it"
    } else if is_tables(path) && !path.join("sweep.json").exists() && !path.join("manifest.json").exists() {
        "it has tables of captures and no runs; analyze them"
    } else {
        return None;
    };
    Some(Error::data(path, format!("{what}: pktgen analyze {}", path.display())))
}

/// Appends a line about the runs in `dir` to the history in `file`.
pub(super) fn remember((dir, runs): (&Path, Runs), data: &SweepData, file: &Path, ui: &Ui) -> Result<()> {
    let (written, damaged) = Entry::of(dir, runs, data)?.append(file)?;
    damaged.iter().for_each(|line| ui.note(&format!("warning: {line}")));
    let (dir, file) = (dir.display(), file.display());
    ui.note(&if written {
        format!("history: {dir} in {file}")
    } else {
        format!("history: {dir} was in {file} already")
    });
    Ok(())
}

fn written(data: &SweepData, dir: &Path, out: &[PathBuf], plots: Option<&Plots>, ui: &Ui) -> Result<u8> {
    let files = files(dir, out);
    let files = files.into_iter().map(|path| Ok((by_extension(&path)?, path))).collect::<Result<Vec<_>>>()?;
    let model = Model::build(data);
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
    ui.note(&format!("runs: {}", model.made.line()));
    let fails = !model.verdict.valid || model.verdict.worse;
    for warning in &model.warnings {
        let text = format!("warning: {warning}");
        if fails { ui.reason(&text) } else { ui.note(&text) }
    }
    for (_, path) in &files {
        ui.note(&format!("report: {}", path.display()));
    }
    Ok(u8::from(fails))
}

/// Formats JSON on one line, keeping numbers as written.
pub(super) fn one_line(text: &str) -> String {
    let (mut line, mut inside, mut escaped) = (String::with_capacity(text.len()), false, false);
    for c in text.chars() {
        if inside || !c.is_ascii_whitespace() {
            line.push(c);
        }
        (inside, escaped) = match c {
            '"' if !escaped => (!inside, false),
            '\\' if inside => (true, !escaped),
            _ => (inside, false),
        };
    }
    line
}

fn by_extension(path: &Path) -> Result<&'static dyn Format> {
    let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    REPORTS.iter().find(|r| r.extension() == extension).copied().ok_or_else(|| {
        let known: Vec<_> = REPORTS.iter().map(|r| format!(".{}", r.extension())).collect();
        Error::config(format!("--out {}: the extension is not one of {}", path.display(), known.join(", ")))
    })
}

fn write(format: &dyn Format, model: &Model, path: &Path) -> Result<()> {
    check_output(path)?;
    write_whole(path, format.render(model)?).map(drop)
}

#[cfg(test)]
mod tests {
    use super::one_line;

    #[test]
    fn a_line_holds_what_the_file_does() {
        // If it were parsed and formatted again, this number would lose its last digit.
        let text = "{\n  \"a b\": [\n    -0.049201988599099036,\n    \"x \\\\\"\n  ],\n  \"c\": \"\\\" y\"\n}\n";
        assert_eq!(one_line(text), r#"{"a b":[-0.049201988599099036,"x \\"],"c":"\" y"}"#);
    }
}
