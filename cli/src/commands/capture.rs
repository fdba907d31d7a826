//! `pktgen capture`: records every frame of an interface into a run dir.

use std::sync::atomic::Ordering;
use std::time::Duration;

use pktgen_core::record::RunState;
use pktgen_core::time::SECOND;
use pktgen_core::{Error, Result};
use pktgen_realtime::capture::frames::{RecordedFrames, RecordingLimits, RecordingPlan, RecordingTotals, capture};
use pktgen_realtime::clock::Stopwatch;
use pktgen_realtime::driver::real_time::Roles;
use pktgen_realtime::transport::{Listen, Sink, Wait};
use serde_json::json;

use crate::args::{Capture, Experiment, ListenFlags, Serve};
use crate::commands::experiment::OutFolder;
use crate::commands::part;
use crate::schemas;
use crate::ui::{Ui, stop_flag};

pub(super) fn run(args: Capture, ui: &Ui) -> Result<u8> {
    let Capture { experiment, set, tempo, serve, listen } = args;
    match (experiment, &listen.iface) {
        (Some(experiment), _) => part::serve(&Experiment { experiment, set }, &tempo, serve, Roles::SERVER, ui),
        (None, Some(interface)) if listen.count_only => count(interface, &serve, listen.allow_default_route, ui),
        (None, Some(interface)) => record(interface, serve, &listen, ui),
        (None, None) => Err(Error::config("pktgen capture needs an experiment, or --iface IF")),
    }
}

/// Counts in the kernel until a stop is requested, or the interface is down or gone.
fn count(interface: &str, serve: &Serve, allow_default_route: bool, ui: &Ui) -> Result<u8> {
    let most = part::positive("--for", serve.most)?.map(|ps| Duration::from_nanos(ps as u64 / 1000));
    // Before the note, which may be the signal for a Ctrl-C.
    let stop = stop_flag();
    let sink = Sink::attach(interface, allow_default_route)?;
    ui.note("ready; Ctrl-C ends");
    let (watch, bar) = (Stopwatch::start(), ui.spinner("counting"));
    let mut counts = Ok(());
    while counts.is_ok() && !stop.load(Ordering::Relaxed) && most.is_none_or(|most| watch.elapsed() < most) {
        std::thread::sleep(Duration::from_millis(20));
        bar.set_message(format!("{} frames", sink.counts().0));
        counts = sink.check();
    }
    bar.finish_and_clear();
    let (frames, bytes) = sink.counts();
    ui.result(&match ui.json() {
        true => {
            schemas::COUNTED.stamp(&json!({ "interface": interface, "frames": frames, "bytes": bytes }).to_string())
        }
        false => format!("{interface}: {frames} frames, {bytes} B"),
    });
    counts.map(|()| 0)
}

fn record(interface: &str, serve: Serve, args: &ListenFlags, ui: &Ui) -> Result<u8> {
    let plan = plan(interface, &serve, args)?;
    let out = OutFolder::of(serve.out, &format!("capture-{interface}"))?;
    let (stop, idle) = (stop_flag(), serve.idle.is_some());
    let bar = ui.bar("capturing", plan.limits.count.unwrap_or(0));
    let mut before = (0, 0);
    let captured = capture(&plan, &out, &stop, &mut |t, totals| {
        let (frames, seconds) = (totals.counts.captured, t as f64 / SECOND as f64);
        let rate = (frames - before.1) as f64 / (seconds - before.0 as f64 / SECOND as f64) / 1e6;
        before = (t, frames);
        if plan.limits.count.is_none() {
            bar.set_length(frames);
        }
        bar.set_position(frames);
        bar.set_message(format!("{rate:.3} Mpps, {} lost,", totals.lost()));
        // A bar draws nothing if stderr is not a terminal.
        if bar.is_hidden() {
            ui.note(&format!("{seconds:.0} s: {frames} frames, {rate:.3} Mpps, {} lost", totals.lost()));
        }
    })?;
    bar.finish_and_clear();
    for fault in &captured.validity.faults {
        ui.error(&format!("invalid capture {}: {fault}", out.display()));
    }
    captured.validity.notes.iter().for_each(|note| ui.note(&format!("note: {note}")));
    ui.detail(&captured.mode);
    ui.result(&match ui.json() {
        true => schemas::CAPTURED.stamp(&in_json(&captured, &out.display().to_string())),
        false => in_words(&captured.totals, &out.display().to_string()),
    });
    let nothing = idle && captured.totals.counts.captured == 0 && !stop.load(Ordering::Relaxed);
    if nothing {
        ui.error(&format!("no frame came at {interface}; what is sent there? (ip -s link show {interface})"));
    }
    Ok(u8::from(!captured.validity.is_valid() || nothing))
}

fn plan(interface: &str, serve: &Serve, args: &ListenFlags) -> Result<RecordingPlan> {
    let limits = RecordingLimits {
        count: args.count,
        length: part::positive("--for", serve.most)?,
        idle: part::positive("--idle", serve.idle)?,
        wait: if args.spin { Wait::Spin } else { Wait::Block },
    };
    let listen = Listen {
        interface: interface.to_owned(),
        kind: args.kind,
        snap: args.snap,
        queues: args.queues,
        card_stamps: args.stamps == "card",
        ring: args.ring,
        allow_default_route: args.allow_default_route,
    };
    let buffer_bytes = usize::from(args.buffer) << 20;
    Ok(RecordingPlan { listen, limits, buffer_bytes, pcapng: args.pcapng, parquet: args.parquet })
}

fn in_words(totals: &RecordingTotals, out: &str) -> String {
    let RecordingTotals { counts, kernel_dropped, interface_dropped } = totals;
    let length = Duration::from_nanos((counts.end_ps / 1000) as u64);
    format!(
        "{out}: {} frames, {} B on the wire, {} cut, in {:.1} s; lost: {kernel_dropped} in the kernel, {} before the \
         writer; dropped by the interface: {interface_dropped}",
        counts.captured,
        counts.bytes,
        counts.cut,
        length.as_secs_f64(),
        counts.writer_dropped
    )
}

fn in_json(captured: &RecordedFrames, out: &str) -> String {
    let interrupted = captured.state == RunState::Interrupted;
    let RecordedFrames { totals, validity, mode, .. } = captured;
    json!({
        "dir": out, "capture": totals, "lost": totals.lost(), "valid": validity.is_valid(), "validity": validity,
        "interrupted": interrupted, "mode": mode,
    })
    .to_string()
}
