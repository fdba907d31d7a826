//! `pktgen replay --find-rate --rfc2544`: the tables of RFC 2544.

use std::path::Path;

use pktgen_core::config::Document;
use pktgen_core::whole::write_whole;
use pktgen_core::{Error, Result};
use pktgen_realtime::run::{
    Bench, Benchmark, BenchmarkPlan, Delays, Experiment, Finished, Limiter, Search, Searched, SizeRow, Task,
};
use pktgen_records::analyze_run;
use pktgen_records::human::show;
use pktgen_registry::all;

use crate::args::Replay;
use crate::commands::find_rate::{Limits, judge};
use crate::schemas;
use crate::ui::{Ui, stop_flag};

/// Sizes of RFC 2544 §9.1, with FCS.
const SIZES: [u32; 7] = [64, 128, 256, 512, 1024, 1280, 1518];

pub(super) fn run(document: &Document, replay: &Replay, sizes: &[u32], out: &Path, ui: &Ui) -> Result<u8> {
    let args = &replay.find;
    let search = Search {
        from_pps: args.from,
        to_pps: args.to,
        precision: args.precision,
        confirm: args.confirm,
        trials: args.trials,
        goal: None,
    };
    let sizes = if sizes.is_empty() { SIZES.to_vec() } else { sizes.to_vec() };
    let plan =
        BenchmarkPlan { sizes, search, trial: args.trial.clone(), repeats: args.repeats, probe: !replay.no_probe };
    let (run, may_launch) = (replay.run.as_deref(), replay.launch.allow_launch);
    let searched = Searched { catalogue: all(), document, run, may_launch };
    let stop = stop_flag();
    let bar = ui.spinner("RFC 2544");
    let task = Task { progress: &|_| bar.tick(), ..Task::whole(&stop) };
    let limits = Limits { loss: 0.0, aom_ns: None };
    let mut judged = |finished: &Finished| judge(finished, &limits);
    let mut next = |what: &str| {
        bar.set_message(what.to_owned());
        bar.suspend(|| ui.detail(what));
    };
    let mut bench = Bench { judge: &mut judged, delays: &mut delays, next: &mut next };
    let found = Experiment::rfc2544(searched, out, &plan, &task, &mut bench);
    bar.finish_and_clear();
    let found = found?;
    let text = serde_json::to_string_pretty(&found).map_err(|e| Error::data(out, e.to_string()))?;
    write_whole(&out.join("rfc2544.json"), text + "\n")?;
    if ui.json() {
        ui.object(&schemas::RFC2544, &serde_json::to_string(&found).unwrap_or_default());
    } else {
        tell(&found, ui);
    }
    Ok(u8::from(found.interrupted || found.rows.iter().any(|row| row.throughput_pps.is_none())))
}

/// Returns the delays of a run's frames, from the workers' end of the cable to the server's.
fn delays(dir: &Path) -> Result<Option<Delays>> {
    let measured = analyze_run(dir)?;
    let of = |metric: &str| {
        let line = measured.lines.iter().find(|line| line.key().as_deref() == Some(metric));
        line.and_then(|line| line.value)
    };
    let all = (of("host_latency_mean"), of("host_latency_p99"), of("host_latency_max"));
    let (Some(mean_ns), Some(p99_ns), Some(max_ns)) = all else { return Ok(None) };
    Ok(Some(Delays { mean_ns, p99_ns, max_ns }))
}

fn tell(found: &Benchmark, ui: &Ui) {
    for why in &found.shortened {
        ui.result(&format!("shortened: {why}"));
    }
    let head = ["bytes", "throughput", "", "limit", "latency", "p99", "longest", "burst", "losses"];
    ui.result(&line(head.map(str::to_owned)));
    found.rows.iter().for_each(|row| ui.result(&line(cells(row))));
    if found.interrupted {
        ui.result("interrupted: rows are missing");
    }
}

fn line(cells: [String; 9]) -> String {
    let [bytes, pps, bps, limit, mean, p99, max, burst, losses] = cells;
    format!("{bytes:>5}  {pps:>12}  {bps:>14}  {limit:<6}  {mean:>9}  {p99:>9}  {max:>9}  {burst:>9}  {losses}")
}

fn cells(row: &SizeRow) -> [String; 9] {
    let none = || "-".to_owned();
    let delay = |of: fn(&Delays) -> f64| row.latency.as_ref().map_or_else(none, |all| show("ns", of(all)));
    let losses: Vec<String> = row
        .losses
        .iter()
        .map(|at| {
            let share = at.loss.map_or("?".to_owned(), |loss| format!("{:.3} %", loss * 100.0));
            format!("{share} at {:.0}/s", at.pps)
        })
        .collect();
    let burst = match row.burst_frames {
        Some(frames) if row.burst_is_bound => format!(">= {frames}"),
        Some(frames) => frames.to_string(),
        None => none(),
    };
    [
        row.bytes.to_string(),
        row.throughput_pps.map_or_else(none, |pps| format!("{pps:.0}/s")),
        row.throughput_bps.map_or_else(none, |bps| show("bps", bps)),
        match row.limited_by {
            None => "none".into(),
            Some(Limiter::Host) => "host".into(),
            Some(Limiter::Device) => "device".into(),
        },
        delay(|all| all.mean_ns),
        delay(|all| all.p99_ns),
        delay(|all| all.max_ns),
        burst,
        losses.join(", "),
    ]
}
