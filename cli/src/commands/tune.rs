//! `pktgen tune`: finds the best settings for sending from this host on an interface.

use std::path::PathBuf;

use pktgen_core::config::{Document, Origin};
use pktgen_core::whole::write_whole;
use pktgen_core::{Error, Result};
use pktgen_realtime::run::{Experiment, Task, Tuned, TunedSetting, TuningPlan};
use pktgen_records::human::show;
use pktgen_registry::all;

use crate::args;
use crate::args::Tune;
use crate::commands::experiment::{OutFolder, load};
use crate::schemas;
use crate::ui::{Ui, aligned, stop_flag};

/// The experiment whose workers send: all of its frames differ, and have the size that `--bytes` states as its default.
const SENT: &str = "wires/rates";
/// The key of `--bytes`.
const BYTES: &str = "workload.bytes";

pub(super) fn run(args: Tune, ui: &Ui) -> Result<u8> {
    let Tune { interface, peer, pps, bytes, rounds, trial, set, out } = args;
    let mut document = load(&args::Experiment { experiment: PathBuf::from(SENT), set })?;
    if let Some(bytes) = bytes {
        set_bytes(&mut document, &bytes.to_string())?;
    }
    let pps = pps.map(|rate| rate.ratio()).map(|(packets, seconds)| packets as f64 / seconds as f64);
    let plan = TuningPlan { interface, peer, pps, rounds, trial };
    let out = OutFolder::of(out, &format!("tune-{}", plan.interface))?;
    let stop = stop_flag();
    let bar = ui.bar("tuning", 0);
    let told = |[number, of]: [usize; 2], what: &str| {
        bar.set_length(of as u64);
        bar.set_position(number as u64);
        bar.set_message(what.to_owned());
    };
    let tuned = Experiment::tune((all(), &document), &out, &plan, &Task::whole(&stop), &told);
    bar.finish_and_clear();
    let tuned = tuned?;
    let path = out.join("tuning.json");
    let text = serde_json::to_string_pretty(&tuned).map_err(|e| Error::data(&path, e.to_string()))?;
    write_whole(&path, schemas::TUNING.stamp(&text) + "\n")?;
    let section = tuned.section();
    if let Some(section) = &section {
        write_whole(&out.join("transport.toml"), section.clone())?;
    }
    if ui.json() {
        ui.object(&schemas::TUNING, &serde_json::to_string(&tuned).unwrap_or_default());
    } else {
        tell(&tuned, section.as_deref(), &out, ui);
    }
    Ok(u8::from(section.is_none()))
}

/// Sets the size of frames; a `--set` of it is a contradiction.
fn set_bytes(document: &mut Document, bytes: &str) -> Result<()> {
    let flag = format!("--bytes {bytes}");
    if let Some(written @ Origin::Flag(_)) = document.origin(BYTES).cloned() {
        return Err(Error::config(format!("{flag}: it sets {BYTES}, and {written} was given too; leave one out")));
    }
    document.set(BYTES, bytes.into(), Origin::Flag(flag))
}

fn tell(tuned: &Tuned, section: Option<&str>, out: &std::path::Path, ui: &Ui) {
    let paced = tuned.plan.pps.is_some();
    let compared = if paced { "late (99 %)" } else { "sent" };
    let mut rows = vec![["", "setting", compared, "of the best", "95 % interval", "lost"].map(str::to_owned)];
    rows.extend(tuned.settings.iter().enumerate().map(|(at, setting)| row(setting, tuned.chosen == Some(at), paced)));
    aligned(&rows).iter().for_each(|line| ui.result(line));
    for setting in &tuned.settings {
        if let Some(why) = &setting.refused {
            ui.note(&format!("{} cannot be used: {why}", setting.name()));
        }
    }
    if tuned.interrupted {
        ui.reason("stopped: rounds are missing, so nothing was chosen");
    }
    let Some((section, chosen)) = section.zip(tuned.chosen) else { return };
    ui.result("");
    section.lines().for_each(|line| ui.result(line));
    let set: Vec<String> = tuned.settings[chosen].set.iter().map(|word| format!("--set {word}")).collect();
    ui.note(&format!("{}, or {}", out.join("transport.toml").display(), set.join(" ")));
}

fn row(setting: &TunedSetting, chosen: bool, paced: bool) -> [String; 6] {
    let none = || "-".to_owned();
    let rate = || setting.median_pps.map_or_else(none, |pps| format!("{:.3} M/s", pps / 1e6));
    let late = || setting.median_late_ns.map_or_else(none, |ns| show("ns", ns));
    [
        if chosen { "->" } else { "" }.to_owned(),
        setting.name(),
        if paced { late() } else { rate() },
        setting.of_best.map_or_else(none, |ratio| format!("{ratio:.3}")),
        setting.interval.map_or_else(none, |[low, high]| format!("{low:.3} to {high:.3}")),
        match (&setting.refused, setting.lost) {
            (Some(_), None | Some(0)) => "cannot be used".to_owned(),
            (_, Some(lost)) => lost.to_string(),
            (None, None) => "not known".to_owned(),
        },
    ]
}
