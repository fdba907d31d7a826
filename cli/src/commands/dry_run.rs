//! `pktgen replay --dry-run`: prints what would be sent and what should come back, without sending.

use pktgen_core::units::Span;
use pktgen_core::{Error, Result};
use pktgen_realtime::draft::{CounterReading, Draft, Load, draft};
use pktgen_realtime::run::Experiment;

use crate::commands::experiment::say_unused;
use crate::schemas;
use crate::ui::Ui;

/// Maximum number of lines of workers in text; JSON has all.
const LINES: usize = 12;

pub(super) fn run(experiment: &Experiment, frames: usize, ui: &Ui) -> Result<u8> {
    let run = &experiment.runs[0];
    let others = experiment.runs.len() - 1;
    let name = run.folder();
    let drafted =
        draft(experiment.draft(run)?, experiment.updates(run)?, (experiment.name.as_str(), name.as_str()), frames)?;
    if ui.json() {
        let text = serde_json::to_string(&drafted);
        let text = text.map_err(|e| Error::Invalid(format!("the draft cannot be written as JSON: {e}")))?;
        ui.object(&schemas::DRAFT, &text);
    } else {
        print(&drafted, ui);
    }
    experiment.check_drafts()?;
    say_unused(experiment.unused(), ui);
    if others > 0 {
        ui.note(&format!("{others} more runs in the sweep; choose another with --run NAME"));
    }
    Ok(0)
}

fn print(drafted: &Draft, ui: &Ui) {
    let profile = drafted.profile.as_deref().unwrap_or("no profile");
    ui.result(&format!("{}, run {}: nothing is sent", drafted.experiment, drafted.run));
    ui.result(&format!(
        "target {} ({profile}), transport {}, format {}",
        drafted.target, drafted.transport, drafted.format
    ));
    drafted.checks.iter().for_each(|text| ui.result(&format!("ok: {text}")));
    drafted.notes.iter().for_each(|text| ui.result(text));
    for frame in &drafted.frames {
        let t = Span::from_ps(frame.t_ps);
        ui.result(&format!("\n{}: worker {}, {} bytes, at {t}", frame.kind, frame.worker, frame.bytes));
        for (name, value) in &frame.fields {
            ui.result(&format!("  {name:<24} {value}"));
        }
        ui.result(frame.hex.trim_end());
    }
    totals(drafted, ui);
    // Workers that wait for results have no rates, nor have updates that are all at one time.
    let unrated = if drafted.closed_loop { "as results come" } else { "all at once" };
    loads("worker", &drafted.workers, unrated, ui);
    loads("port", &drafted.ports, unrated, ui);
    let expected = &drafted.expected;
    let fewer = if drafted.closed_loop { "" } else { "; fewer where updates are replaced or dropped" };
    ui.result(&format!(
        "\nexpected: {} {} if all are aggregated fully, {} if none is{fewer}",
        expected.fully_aggregated, expected.what, expected.most
    ));
    for CounterReading { name, read, least, most } in &drafted.counters {
        let range = match least {
            least if least == most => format!("= {least}"),
            0 => format!("at most {most}"),
            least => format!("= {least} to {most}"),
        };
        ui.result(&format!("counter: {name} {range} ({read})"));
    }
}

fn totals(drafted: &Draft, ui: &Ui) {
    let at_least = if drafted.complete { "" } else { "more than " };
    // Frames of training are taken to have the largest size.
    let (about, most, lasts) = if drafted.closed_loop { ("about ", "at most ", "at least ") } else { ("", "", "") };
    ui.result(&format!(
        "\nin all: {at_least}{about}{} frames, {most}{} bytes, {lasts}{:.6} s",
        drafted.frames_total,
        drafted.bytes_total,
        drafted.duration_ps as f64 / 1e12
    ));
}

/// Prints a table of loads; `unrated` stands where there is no rate.
fn loads(what: &str, all: &[Load], unrated: &str, ui: &Ui) {
    let title = "    frames         bytes     mean [Gbit/s]    peak [Gbit/s]  line [Gbit/s]";
    ui.result(&format!("\n{what:<12}{title}"));
    let rate = |bps: Option<u64>| bps.map_or(unrated.to_owned(), |bps| format!("{:.6}", bps as f64 / 1e9));
    for load in all.iter().take(LINES) {
        ui.result(&format!(
            "{:<12}{:>10}{:>14}{:>18}{:>17}{:>15}",
            load.name,
            load.frames,
            load.bytes,
            rate(load.mean_bps),
            rate(load.peak_bps),
            rate(Some(load.line_bps))
        ));
    }
    if all.len() > LINES {
        ui.result(&format!("... and {} more (--json has all)", all.len() - LINES));
    }
}
