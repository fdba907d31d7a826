//! `pktgen analyze`: metrics of run dirs; `captured.rs` has captures.

use std::path::{Path, PathBuf};

use pktgen_core::{Error, Result};
use pktgen_realtime::capture::recover;
use pktgen_realtime::run::refresh_sweep;
use pktgen_records::human::scale_for;
use pktgen_records::line::write_table;
use pktgen_records::memory::MemoryBound;
use pktgen_records::run::is_unfinished;
use pktgen_records::summary::summary;
use pktgen_records::{Line, Measured, Options, analyze_run_with};
use pktgen_report::run_dirs;
use pktgen_report::sweep::Listed;

use crate::args::Analyze;
use crate::commands::query::ANSWERS;
use crate::commands::{captured, wrong};
use crate::output::check_outputs;
use crate::schemas;
use crate::ui::Ui;

/// Prints the lines of every run that can be read and lists the others; returns 1 if there are others or a run is
/// invalid, and their error if no run can be read, unless a file could not be written.
pub(super) fn run(args: Analyze, ui: &Ui) -> Result<u8> {
    if captured::asked_for(&args) {
        return captured::run(&args, ui);
    }
    captured::refuse_flags(&args)?;
    let mut unwritten = false;
    for path in args.runs.iter().filter(|_| args.recover) {
        unwritten |= !recover_all(path, args.no_verify, ui)?;
    }
    if args.wrong {
        return wrong::run(&args, ui).or_else(|error| match unwritten {
            true => {
                ui.error(&error.to_string());
                Ok(1)
            }
            false => Err(error),
        });
    }
    let mut dirs: Vec<Listed> = Vec::new();
    for path in &args.runs {
        dirs.extend(run_dirs(path, args.no_verify)?);
    }
    let several = dirs.len() > 1;
    let bar = ui.bar("analysing", dirs.len() as u64);
    let (mut summaries, mut lines, mut bad, mut invalid) = (Vec::new(), Vec::new(), Vec::new(), false);
    for run in &dirs {
        let dir = &run.dir;
        match one(run, &args) {
            Ok(measured) => {
                invalid |= say_notes(dir, &measured, ui);
                summaries.push(summary_text(dir, &measured, "valid"));
                let named = |line: Line| if several { line.with("run", dir.display().to_string()) } else { line };
                lines.extend(measured.lines.into_iter().map(named));
            }
            Err(error) => bad.push((dir, error)),
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    if unwritten && bad.len() == dirs.len() {
        bad.iter().for_each(|(dir, error)| say_bad(dir, error, ui));
        return Ok(1);
    }
    if bad.len() == dirs.len()
        && let Some((_, error)) = bad.pop()
    {
        bad.iter().for_each(|(dir, error)| say_bad(dir, error, ui));
        return Err(error);
    }
    // Before a metric that only these may have is missed.
    bad.iter().for_each(|(dir, error)| say_bad(dir, error, ui));
    print(&summaries, &lines, &args, ui)?;
    Ok(u8::from(invalid || !bad.is_empty()))
}

/// Recovers the unfinished runs at `path`. Runs that cannot be recovered are reported when they are analysed. Returns whether all files
/// that this needs could be written.
fn recover_all(path: &Path, no_verify: bool, ui: &Ui) -> Result<bool> {
    let (mut recovered, mut written) = (false, true);
    for Listed { dir, .. } in run_dirs(path, no_verify)? {
        if is_unfinished(&dir).unwrap_or(false) {
            match recover(&dir, no_verify) {
                Ok([sent, books, received]) => {
                    let rows = format!("{sent} sent, {books} book and {received} received rows");
                    ui.note(&format!("{}: recovered {rows}", dir.display()));
                    recovered = true;
                }
                Err(error) => {
                    written &= !matches!(error, Error::Io { .. }) || error.exit_code() != 1;
                    ui.error(&format!("{} was not recovered: {error}", dir.display()));
                }
            }
        }
    }
    if recovered {
        refresh_sweep(path)?;
    }
    Ok(written)
}

fn one(run: &Listed, args: &Analyze) -> Result<Measured> {
    let dir = &run.dir;
    run.check(args.no_verify)?;
    analyze_run_with(
        dir,
        Options {
            age_of: args.age,
            no_verify: args.no_verify,
            memory: MemoryBound::mib(args.memory),
            user_metrics: ANSWERS,
            ..Options::default()
        },
    )
}

/// Returns the verdict on a run or a capture with its summary; `sound` is the verdict if there are no failures.
pub(super) fn summary_text(name: &Path, measured: &Measured, sound: &str) -> String {
    let against = measured.notes.iter().find(|note| FAILURES.contains(&note.note));
    let verdict = against.map_or(sound, |note| note.text.as_str());
    let rows = summary(&measured.lines);
    rows.iter().fold(format!("{}: {verdict}", name.display()), |text, (about, values)| {
        format!("{text}\n  {about:<16} {values}")
    })
}

/// Prints summaries, then the requested lines: means over clusters and workers first, those of single ones on request.
pub(super) fn print(summaries: &[String], lines: &[Line], args: &Analyze, ui: &Ui) -> Result<()> {
    let chosen = chosen(lines, &args.metrics)?;
    if let Some(table) = &args.table {
        check_outputs([table], args.runs.iter().chain(&args.capture.sent).map(PathBuf::as_path))?;
        let owned: Vec<Line> = chosen.iter().copied().cloned().collect();
        write_table(&owned, table)?;
    }
    if ui.json() {
        chosen.iter().for_each(|line| ui.object(&schemas::METRIC, &line.to_json()));
        return Ok(());
    }
    if args.metrics.is_empty() {
        summaries.iter().for_each(|summary| ui.result(&format!("{summary}\n")));
    }
    let (of_all, of_one): (Vec<&Line>, Vec<&Line>) = chosen.into_iter().partition(|line| line.key().is_some());
    of_all.iter().for_each(|line| ui.result(&plain(line)));
    if args.all || !args.metrics.is_empty() {
        of_one.iter().for_each(|line| ui.result(&plain(line)));
    } else if !of_one.is_empty() {
        ui.note(&format!(
            "{} more lines, of single clusters, workers and bins: --all, --metric NAME or --json",
            of_one.len()
        ));
    }
    Ok(())
}

/// Returns the lines whose metric matches any of the patterns; all of them without patterns.
fn chosen<'a>(lines: &'a [Line], patterns: &[String]) -> Result<Vec<&'a Line>> {
    let missing = |pattern: &&String| !lines.iter().any(|line| matches(pattern, &line.metric));
    if let Some(pattern) = patterns.iter().find(missing) {
        return Err(Error::config(format!(
            "--metric {pattern}: no such metric in these runs; pktgen explain lists all metrics, and --metric 'aom_*' \
             selects by prefix"
        )));
    }
    let wanted = |line: &&Line| patterns.is_empty() || patterns.iter().any(|pattern| matches(pattern, &line.metric));
    Ok(lines.iter().filter(wanted).collect())
}

/// Whether `pattern`, in which `*` matches anything, matches all of `text`.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, rest)) => text
            .strip_prefix(head)
            .is_some_and(|tail| (0..=tail.len()).any(|at| tail.get(at..).is_some_and(|tail| matches(rest, tail)))),
    }
}

/// Notes that cause exit code 1.
pub(super) const FAILURES: [&str; 4] = ["invalid", "damaged", "nothing_found", "metric_failed"];

/// Prints notes on stderr, as JSON for programs. Returns whether the numbers may not be used.
pub(super) fn say_notes(dir: &Path, measured: &Measured, ui: &Ui) -> bool {
    let mut fails = false;
    for note in &measured.notes {
        let text = if ui.json() {
            let object = serde_json::json!({ "note": note.note, "run": dir.display().to_string(), "text": note.text });
            schemas::NOTE.stamp(&object.to_string())
        } else {
            format!("note: {}: {}", dir.display(), note.text)
        };
        if FAILURES.contains(&note.note) {
            fails = true;
            ui.reason(&text);
        } else {
            ui.note(&text);
        }
    }
    fails
}

fn say_bad(dir: &Path, error: &pktgen_core::Error, ui: &Ui) {
    ui.error(&format!("{} was not analysed: {error}", dir.display()));
}

fn plain(line: &Line) -> String {
    let labels: Vec<_> = line.labels.iter().map(|(k, v)| format!("{k}={}", v.to_string().trim_matches('"'))).collect();
    let value = line.value.map_or("-".to_owned(), |value| {
        let scale = scale_for(&line.unit, value);
        // Display units are self-explanatory.
        if scale.unit.is_empty() { format!("{} {}", scale.show(value), line.unit) } else { scale.show(value) }
    });
    format!("{:<36} {value:>24}  {}", line.metric, labels.join(" ")).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, text, expected) in [
            ("sent", "sent", true),
            ("sent", "sent_again", false),
            ("aom_*", "aom_mean", true),
            ("*_mean", "aom_peak_mean", true),
            ("aom*p99", "aom_peak_p99", true),
            ("aom*p99", "aom_peak_p90", false),
            ("*", "µs", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn people_read_units_that_suit_the_value() {
        let line = Line::new("aom_mean", "ns", 551_651.970_2).with("flow", "cluster");
        assert_eq!(plain(&line).split_whitespace().collect::<Vec<_>>(), ["aom_mean", "551.7", "µs", "flow=cluster"]);
        let line = Line::new("sent", "updates", 4346.0);
        assert_eq!(plain(&line).split_whitespace().collect::<Vec<_>>(), ["sent", "4346", "updates"]);
    }
}
