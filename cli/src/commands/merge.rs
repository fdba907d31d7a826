//! `pktgen merge`: joins the parts of a run, or the shards of a sweep or capture.

use std::path::{Path, PathBuf};

use pktgen_capture::replay::{is_tables, merge_tables};
use pktgen_core::units::Span;
use pktgen_core::{Error, Result};
use pktgen_realtime::run::{is_shard, join, merge};
use pktgen_registry::all;

use crate::args::Merge;
use crate::commands::experiment::say_validity;
use crate::schemas;
use crate::ui::Ui;

pub(super) fn run(args: &Merge, ui: &Ui) -> Result<u8> {
    if args.parts.iter().any(|part| is_tables(part)) {
        if args.partial {
            return Err(Error::config(
                "--partial is for shards of a sweep: a capture without some of its clusters is another one",
            ));
        }
        refuse_clock_error(args)?;
        let index = merge_tables(&args.parts, &args.out, args.no_verify)?;
        if args.no_verify {
            ui.note("note: the digests of the files were not checked; the merged tables state those of the shards");
        }
        ui.note(&format!("{}: the updates of {} captures", args.out.display(), index.inputs.len()));
        ui.wrote(&args.out);
        return Ok(0);
    }
    for dir in &args.parts {
        if is_shard(dir)? {
            refuse_clock_error(args)?;
            return shards(args, ui);
        }
    }
    if args.partial {
        return Err(Error::config("--partial is for shards of a sweep, and none of the given folders is one"));
    }
    parts(&args.parts, &args.out, args.clock_error, args.no_verify, ui)
}

/// Refuses a flag that only parts of a run have a use for.
fn refuse_clock_error(args: &Merge) -> Result<()> {
    match args.clock_error {
        Some(_) => Err(Error::config("--clock-error is for parts of a run: leave it out")),
        None => Ok(()),
    }
}

/// Joins the parts of a run, and prints the result.
pub(super) fn parts(dirs: &[PathBuf], out: &Path, clock_error: Option<Span>, no_verify: bool, ui: &Ui) -> Result<u8> {
    let clock_error = match clock_error {
        Some(span) if span.ps() < 0 => {
            return Err(Error::config(format!("--clock-error {span}: give 0 or more, as 1us")));
        }
        span => span.map(Span::ps),
    };
    let merged = merge(all(), dirs, out, clock_error, no_verify)?;
    let balance = &merged.finished.balance;
    ui.note(&format!(
        "{}: {}: {} sent, {} delivered, {} unaccounted, {} dropped, {} in flight, {} unknown",
        out.display(),
        if merged.finished.validity.is_valid() { "valid" } else { "INVALID" },
        balance.sent,
        balance.delivered_alone + balance.delivered_merged,
        balance.unaccounted,
        balance.dropped_total(),
        balance.in_flight,
        balance.unknown
    ));
    if let Some(skew) = &merged.skew {
        ui.note(&skew.to_string());
    }
    let valid = say_validity(std::slice::from_ref(&merged.finished), ui);
    ui.wrote(out);
    Ok(u8::from(!valid))
}

/// Joins shards, and prints which runs were present twice or missing.
fn shards(args: &Merge, ui: &Ui) -> Result<u8> {
    let joined = join(&args.parts, &args.out, args.partial, args.no_verify)?;
    let (runs, planned, twice, copied) = (joined.finished.len(), joined.planned, joined.twice, joined.copied);
    ui.note(&format!("{}: {runs} of {planned} runs", args.out.display()));
    if twice > 0 {
        ui.note(&format!("{twice} runs were there more than once, the same bit for bit, and are counted once"));
    }
    if copied > 0 {
        ui.detail(&format!("{copied} files could not be linked and were copied"));
    }
    if let Some(missing) = &joined.missing {
        ui.note(&format!("incomplete: {missing}"));
    }
    let valid = say_validity(&joined.finished, ui);
    ui.result(&if ui.json() {
        let missing = planned - runs;
        let object =
            serde_json::json!({ "out": args.out.display().to_string(), "runs": runs, "planned": planned, "missing": missing, "twice": twice });
        schemas::MERGED.stamp(&object.to_string())
    } else {
        args.out.display().to_string()
    });
    Ok(u8::from(!valid))
}
