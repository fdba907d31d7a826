//! `pktgen query`: SQL over run dirs, sweeps and captures.

use pktgen_core::Result;
use pktgen_realtime::run::Experiment;
use pktgen_records::resolved::UserAnswers;

use crate::args::Query;
use crate::ui::Ui;

#[cfg(not(feature = "query"))]
pub(super) fn run(_: &Query, _: &Ui) -> Result<u8> {
    let what =
        "this build has no SQL; cargo build --release --features pktgen-cli/query makes one that has (docs/build.md)";
    Err(pktgen_core::Error::config(what))
}

#[cfg(feature = "query")]
pub(super) fn run(args: &Query, ui: &Ui) -> Result<u8> {
    asked::run(args, ui)
}

/// The implementation of experiments' own metrics.
#[cfg(feature = "query")]
pub(super) const ANSWERS: UserAnswers = UserAnswers::By(&pktgen_query::user::SqlMetrics);
#[cfg(not(feature = "query"))]
pub(super) const ANSWERS: UserAnswers = UserAnswers::NotBuilt;

/// Returns a metric of runs of this family as queries; empty if there is none.
pub(super) fn of_metric(family: &str, metric: &str) -> String {
    #[cfg(feature = "query")]
    {
        let is_of_runs = pktgen_records::METRICS.iter().any(|known| known.name() == family);
        let own = pktgen_query::metrics::queries().into_iter().filter(|query| is_of_runs && query.metric == metric);
        own.map(|query| query.sql.lines().map(str::trim).collect::<Vec<_>>().join(" "))
            .collect::<Vec<_>>()
            .join("; or ")
    }
    #[cfg(not(feature = "query"))]
    {
        _ = (family, metric);
        String::new()
    }
}

/// Refuses an experiment whose own metrics are invalid, if this build can check them.
pub(super) fn check_metrics(experiment: &Experiment) -> Result<()> {
    #[cfg(feature = "query")]
    {
        let axes = experiment.axes().iter().map(|(axis, _)| axis.clone()).filter(|axis| axis != "variant");
        pktgen_query::user::check(experiment.metrics(), &axes.collect::<Vec<_>>())?;
    }
    _ = experiment;
    Ok(())
}

#[cfg(feature = "query")]
mod asked {
    use std::io::{self, BufWriter, Write};
    use std::path::Path;

    use pktgen_capture::tables::{TableForm, TablesPlan};
    use pktgen_capture::{CapturePlan, analyze_captures, is_capture};
    use pktgen_core::units::Size;
    use pktgen_core::whole::WholeFile;
    use pktgen_core::{Error, Result};
    use pktgen_query::tables::{QueryTable, of_captures};
    use pktgen_query::{AnswerForm, Database, Options, QueryAnswer};
    use pktgen_records::Measured;
    use pktgen_records::memory::of_machine;
    use pktgen_registry::all;
    use tempfile::TempDir;

    use crate::args::Query;
    use crate::commands::analyze::say_notes;
    use crate::output::check_outputs;
    use crate::schemas;
    use crate::ui::Ui;

    /// Executes a query; returns 1 if a run is invalid or could not be read.
    pub(super) fn run(args: &Query, ui: &Ui) -> Result<u8> {
        // Not by clap, which sees a global flag before the command only after its checks. With a file, --format is its
        // form, and --json that of notes.
        if args.format.is_some() && ui.json() && args.out.is_none() {
            return Err(Error::config("--format and --json: choose one, or write the answer to a file (-o FILE)"));
        }
        if let Some(out) = &args.out {
            check_outputs([out], [args.path.as_path()])?;
        }
        let in_bytes = |size: Size| {
            let what = || Error::config(format!("--memory {size}: not a whole number of bytes; write for example 2GB"));
            size.bytes().ok_or_else(what)
        };
        let memory = args.memory.map_or_else(|| Ok(of_machine() / 2), in_bytes)?;
        let options = Options { no_verify: args.no_verify, memory, process: memory };
        let sql = args.sql.as_deref().unwrap_or_default();
        let captured = is_capture(&args.path);
        if captured && args.tables {
            of_captures().iter().for_each(|table| list(table, ui));
            return Ok(0);
        }
        if captured {
            Database::check_of_capture(sql, options)?;
        }
        let folder = captured.then(|| tabulated(&args.path, args.no_verify, ui)).transpose()?;
        let mut fails = folder.as_ref().is_some_and(|(_, fails)| *fails);
        let database = match &folder {
            Some((folder, _)) => Database::of_capture(folder.path(), &args.path, options)?,
            None => Database::open(&args.path, options)?,
        };
        if args.tables {
            database.tables().iter().for_each(|table| list(table, ui));
            return Ok(0);
        }
        for (dir, error) in database.unread() {
            ui.error(&format!("{} was not read: {error}", dir.display()));
            fails = true;
        }
        for (dir, note) in database.notes() {
            fails |= say_notes(&dir, &Measured { lines: Vec::new(), notes: vec![note] }, ui);
        }
        let answer = if args.explain { database.explain(sql) } else { database.query(sql) }?;
        print(&answer, args, ui)?;
        Ok(u8::from(fails))
    }

    /// Writes the tables of a capture to a temporary folder; also returns whether parts could not be read.
    fn tabulated(path: &Path, no_verify: bool, ui: &Ui) -> Result<(TempDir, bool)> {
        let folder = TempDir::new().map_err(Error::io("create", Path::new("a temporary folder")))?;
        let name = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
        let run: String = path.file_stem().unwrap_or_default().to_string_lossy().chars().map(name).collect();
        let tables = Some(TablesPlan { dir: folder.path().to_owned(), run, form: TableForm::Parquet });
        let captures = CapturePlan::new(all().protocols.formats, vec![path.to_owned()], Vec::new());
        let measured = analyze_captures(&CapturePlan { tables, no_verify, ..captures }, &mut |_, _| {})?;
        let fails = say_notes(path, &measured, ui);
        Ok((folder, fails))
    }

    fn list(table: &QueryTable, ui: &Ui) {
        if ui.json() {
            return table.to_json().iter().for_each(|line| ui.object(&schemas::QUERY_COLUMN, line));
        }
        let needs = if table.needs.is_empty() { String::new() } else { format!(" (needs {})", table.needs) };
        ui.result(&format!("{}: a row is {}{needs}", table.name, table.row));
        for column in &table.columns {
            let mark = if column.optional { "?" } else { "" };
            let name = format!("{}{mark}", column.name);
            ui.result(&format!("  {name:<16} {:<8} {}", column.kind.name(), column.about));
        }
    }

    fn print(answer: &QueryAnswer, args: &Query, ui: &Ui) -> Result<()> {
        let named = |name: &String| AnswerForm::ALL.into_iter().find(|form| form.name() == name);
        let default = if ui.json() { AnswerForm::Jsonl } else { AnswerForm::Table };
        let form = args.format.as_ref().and_then(named).unwrap_or(default);
        if let Some(path) = &args.out {
            let mut file = BufWriter::new(WholeFile::create(path)?);
            answer.write(form, &mut file).map_err(Error::io("write", path))?;
            let file = file.into_inner().map_err(|fault| Error::io("write", path)(fault.into_error()))?;
            return file.finish().map(drop);
        }
        let mut out = BufWriter::new(io::stdout().lock());
        match answer.write(form, &mut out).and_then(|()| out.flush()) {
            // The reader closed the pipe.
            Err(fault) if fault.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Err(fault) => Err(Error::io("write", Path::new("standard output"))(fault)),
            Ok(()) => Ok(()),
        }
    }
}
