//! `pktgen analyze` of captures, and of tables made from these.

use std::path::{Path, PathBuf};

use pktgen_capture::clock::{Anchor, OFFSET_LIMIT, Offset};
use pktgen_capture::replay::{analyze_tables, is_tables};
use pktgen_capture::spool::Spool;
use pktgen_capture::tables::{TableForm, TablesPlan, is_plain};
use pktgen_capture::{CapturePlan, DEFINITIONS, analyze_captures, is_capture};
use pktgen_core::shard::Shard;
use pktgen_core::units::Span;
use pktgen_core::{Error, Result, registry};
use pktgen_planning::STUDIES;
use pktgen_records::Measured;
use pktgen_registry::all;
use pktgen_report::definitions::families;

use crate::args::{Analyze, CaptureFlags};
use crate::commands::analyze::{matches, print, say_notes, summary_text};
use crate::ui::Ui;

/// Whether there are captures or tables among the arguments.
pub(super) fn asked_for(args: &Analyze) -> bool {
    !args.capture.sent.is_empty() || args.runs.iter().any(|path| is_capture(path) || is_tables(path))
}

/// Prints the metrics of all captures together; returns 1 if a file is damaged, clocks contradict each other, or there
/// is no packet of a known format.
pub(super) fn run(args: &Analyze, ui: &Ui) -> Result<u8> {
    if let Some(other) = args.runs.iter().find(|path| !is_capture(path) && !is_tables(path)) {
        std::fs::metadata(other).map_err(Error::io("read", other))?;
        return Err(Error::config(format!(
            "{} is not a capture; analyse run dirs and captures separately",
            other.display()
        )));
    }
    if args.wrong {
        return Err(Error::config(
            "--wrong: captures do not record what was sent; give a run dir, or use pktgen diagnose for the captures \
             of a run",
        ));
    }
    if args.recover || args.age != Default::default() {
        return Err(Error::config(
            "--recover and --age: captures do not name the members of aggregates; give run dirs",
        ));
    }
    let measured = match args.runs.as_slice() {
        [dir] if is_tables(dir) && args.capture.sent.is_empty() => {
            let flags: Vec<_> = own_flags(&args.capture).into_iter().filter(|flag| *flag != "--forwards").collect();
            if !flags.is_empty() {
                return Err(Error::config(format!(
                    "{}: {} has what was given when its captures were read; leave it out, or give the captures",
                    flags.join(", "),
                    dir.display()
                )));
            }
            if args.memory.is_some() {
                return Err(Error::config("--memory: it is for captures and run dirs, not for tables; leave it out"));
            }
            analyze_tables(dir, all().protocols.formats, args.capture.forwards, args.no_verify)?
        }
        all if all.iter().any(|path| is_tables(path)) => {
            return Err(Error::config("one folder of tables at a time; pktgen merge joins those of shards"));
        }
        _ => {
            let mut plan = plan(args)?;
            let waiting = |path: &Path| ui.note(&format!("waiting for packets from {}", path.display()));
            let spool = Spool::fill(&mut plan, &mut { waiting })?;
            let bar = ui.bytes("reading");
            let measured = analyze_captures(&plan, &mut |done, total| {
                bar.set_length(total.max(done));
                bar.set_position(done);
            });
            bar.finish_and_clear();
            let mut measured = measured.map_err(|error| spool.renamed_error(error))?;
            measured.notes.iter_mut().for_each(|note| note.text = spool.renamed(&note.text));
            measured
        }
    };
    let name = args.runs.first().or(args.capture.sent.first()).map_or(Path::new(""), PathBuf::as_path);
    let fails = say_notes(name, &measured, ui);
    refuse_valueless(&args.metrics, &measured)?;
    print(&[summary_text(name, &measured, "read whole")], &measured.lines, args, ui)?;
    Ok(u8::from(fails))
}

/// Notes that give no reason why a metric has no value.
const NO_REASONS: [&str; 3] = ["clocks", "resolution", "unordered"];

/// Refuses patterns of metrics that exist and have no line here: the capture is at fault, not the name.
fn refuse_valueless(patterns: &[String], measured: &Measured) -> Result<()> {
    let lacks = |pattern: &&String| !measured.lines.iter().any(|line| matches(pattern, &line.metric));
    let Some(pattern) = patterns.iter().find(lacks) else { return Ok(()) };
    let families = families(&STUDIES, &DEFINITIONS);
    let mut known = families.iter().flat_map(|family| &family.definitions);
    let Some(known) = known.find(|known| matches(pattern, known.metric)) else { return Ok(()) };
    let reasons = measured.notes.iter().filter(|note| !NO_REASONS.contains(&note.note));
    let reasons: Vec<&str> = reasons.map(|note| note.text.as_str()).collect();
    let why = if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join("; ")) };
    let what = format!("--metric {pattern}: has no value in these captures{why}");
    Err(Error::Invalid(format!(
        "{what} (`pktgen explain {}` says what it needs, and docs/analyze.md which sides show what)",
        known.metric
    )))
}

/// Returns the flags that only captures have; those of tables, and those which require others, are named by these.
fn own_flags(flags: &CaptureFlags) -> Vec<&'static str> {
    let given = [
        ("--format", flags.format.is_some()),
        ("--anchor", flags.anchor.is_some()),
        ("--offset", flags.offset.is_some()),
        ("--tables", flags.tables.is_some()),
        ("--forwards", flags.forwards),
    ];
    given.into_iter().filter_map(|(flag, given)| given.then_some(flag)).collect()
}

/// Refuses flags of captures for run dirs, which would ignore them.
pub(super) fn refuse_flags(args: &Analyze) -> Result<()> {
    match own_flags(&args.capture) {
        flags if flags.is_empty() => Ok(()),
        flags => Err(Error::config(format!(
            "{}: for captures only, and these are run dirs, whose records have formats, times and tables; leave it out, or give \
             RUN/capture.pcapng",
            flags.join(", ")
        ))),
    }
}

fn plan(args: &Analyze) -> Result<CapturePlan> {
    let flags = &args.capture;
    let format =
        flags.format.as_deref().map(|name| registry::find(all().protocols.formats, "format", name, "--format"));
    let tables = flags.tables.as_ref().map(|dir| {
        let first = args.runs.first().or(flags.sent.first());
        let stem = || first.and_then(|path| path.file_stem()).map_or("capture".into(), |stem| stem.to_string_lossy());
        let plain = |c| if is_plain(c) { c } else { '_' };
        let run = flags.run.clone().unwrap_or_else(|| stem().chars().map(plain).collect());
        let form = TableForm::ALL.into_iter().find(|form| form.name() == flags.form).unwrap_or(TableForm::Parquet);
        TablesPlan { dir: dir.clone(), run, form }
    });
    let error_ps = flags.offset_error.ps();
    let offset = flags.offset.as_deref().map(|text| Ok(Offset { ps: signed(text)?, error_ps })).transpose()?;
    Ok(CapturePlan {
        format: format.transpose()?,
        anchor: flags.anchor.as_deref().map(anchor).transpose()?,
        offset,
        forwards: flags.forwards,
        shard: flags.shard.unwrap_or(Shard::WHOLE),
        tables,
        memory: (args.memory.unwrap_or(256) as usize) << 20,
        no_verify: args.no_verify,
        ..CapturePlan::new(all().protocols.formats, args.runs.clone(), flags.sent.clone())
    })
}

/// Parses a time that may be negative.
fn signed(text: &str) -> Result<i64> {
    let (sign, size) = text.strip_prefix('-').map_or((1, text), |size| (-1, size));
    let span: Span =
        size.parse().map_err(|error| Error::config(format!("--offset {text}: {error}; {OFFSET_LIMIT}")))?;
    Ok(sign * span.ps())
}

/// Parses the path of a run dir, or ns since 1970.
fn anchor(text: &str) -> Result<Anchor> {
    match text.parse() {
        Ok(ns) => Ok(Anchor(ns)),
        Err(_) => Anchor::of_run(Path::new(text)),
    }
}
