//! `pktgen device`: hardware profiles, and checks of experiments against these.

use std::path::Path;

use pktgen_core::registry::suggest;
use pktgen_core::whole::write_whole;
use pktgen_core::{Error, Result};
use pktgen_realtime::capture::claim;
use pktgen_realtime::draft::{At, Compared, compare};
use pktgen_registry::all;
use pktgen_wire::device::check::{Checked, check};
use pktgen_wire::device::plan::{Job, SyntaxFile, plan};
use pktgen_wire::device::shipped::SHIPPED;
use pktgen_wire::device::{Facts, LIMITS, Profile, open};
use serde_json::{Value, json};

use crate::args::{Captured, Device, DeviceOf};
use crate::commands::experiment;
use crate::schemas;
use crate::ui::Ui;

pub(super) fn run(args: Device, ui: &Ui) -> Result<u8> {
    match args {
        Device::Compare(of) => compared(&of, ui),
        Device::List => list(ui),
        Device::Show { profile } => show(&open(&profile, "PROFILE", &all().protocols)?, ui),
        Device::Check(of) => of_experiment(&of, ui).and_then(|(profile, facts)| checked(&profile, &facts, ui)),
        Device::Plan { of, syntax, out } => {
            let (profile, facts) = of_experiment(&of, ui)?;
            check(&profile, &facts).into_result()?;
            let addresses = profile.addressing.resolve(&facts.workers).map_err(Error::config)?;
            write(&Job { profile: &profile, facts: &facts, addresses: &addresses }, &syntax, out.as_deref(), ui)
        }
    }
}

/// Compares a capture with the packets that its run should have sent.
fn compared(of: &Captured, ui: &Ui) -> Result<u8> {
    let experiment = experiment::open(experiment::load(&of.experiment)?)?;
    let run = match &of.run {
        Some(name) => experiment.choose(Some(name))?,
        None => &experiment.runs[0],
    };
    let at = if of.at == "server" { At::Server } else { At::Workers };
    let found = compare(experiment.draft(run)?, &of.capture, at)?;
    if ui.json() {
        ui.object(&schemas::DEVICE_COMPARISON, &json!(found).to_string());
    } else {
        let Compared { packets, others, right, wrong, copies, reordered, passed_over, first, .. } = &found;
        if let Some(first) = first {
            ui.result(&first.to_string());
        }
        let copies = if *copies > 0 { format!(" ({copies} copies)") } else { String::new() };
        let behind = if *reordered > 0 { format!(" ({reordered} behind later ones)") } else { String::new() };
        let missing = match passed_over {
            Some(missing) => format!("{missing} frames of the run are not there"),
            None => "frames that are not there are not counted, since the capture is damaged".to_owned(),
        };
        ui.result(&format!(
            "{packets} packets: {right} right{behind}, {wrong} wrong{copies}, {others} of others; {missing}"
        ));
    }
    let is_empty = found.right + found.wrong == 0;
    if is_empty {
        ui.error(&format!(
            "{}: no packet of the run's senders is in it; give the capture of this experiment, of an interface where its frames pass",
            of.capture.display()
        ));
    }
    if let Some(damage) = &found.damage {
        ui.error(damage);
    }
    Ok(u8::from(is_empty || found.wrong > 0 || found.damage.is_some()))
}

fn list(ui: &Ui) -> Result<u8> {
    for (name, _) in SHIPPED {
        let profile = open(name, "built in", &all().protocols)?;
        ui.result(&match ui.json() {
            true => {
                let object = json!({ "kind": "devices", "name": name, "about": profile.about });
                schemas::ENTRY.stamp(&object.to_string())
            }
            false => format!("{name:<16} {}", profile.about),
        });
    }
    Ok(0)
}

/// Prints a profile, with the syntaxes of its planner.
fn show(profile: &Profile, ui: &Ui) -> Result<u8> {
    let whole = described(profile);
    if ui.json() {
        ui.object(&schemas::DEVICE_PROFILE, &whole.to_string());
        return Ok(0);
    }
    ui.result(&format!("{}\n  {}", profile.name, profile.about));
    let list = |key: &str| {
        let texts: Vec<_> = whole[key].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if texts.is_empty() { "-".to_owned() } else { texts.join(", ") }
    };
    for (title, key) in [("formats", "formats"), ("rewrites", "rewrites"), ("keeps", "keeps"), ("syntaxes", "syntaxes")]
    {
        ui.result(&format!("{title:<10} {}", list(key)));
    }
    ui.result(&format!("{:<10} {} of {}", "ports", profile.ports.count, profile.ports.rate));
    ui.result("limits");
    for limit in &profile.limits {
        let kind = if limit.note { "tested up to" } else { "limit" };
        ui.result(&format!("  {:<20} {} ({kind}: {})", limit.of, limit.allows(), limit.source));
    }
    ui.result("counters");
    profile.counters.iter().for_each(|own| ui.result(&format!("  {} = {} ({})", own.name, own.is, own.read)));
    Ok(0)
}

fn described(profile: &Profile) -> Value {
    let limit = |limit: &pktgen_wire::device::Limit| json!({ "of": limit.of, "most": limit.most, "one_of": limit.one_of, "source": limit.source, "note": limit.note });
    let counters = profile.counters.iter().map(|own| json!({ "name": own.name, "read": own.read, "is": own.is }));
    let planner = profile.planner;
    let syntaxes = planner.syntaxes().iter().map(|syntax| syntax.name);
    let addressing = &profile.addressing;
    let station = |own: Option<pktgen_wire::device::Station>| {
        own.map(|own| json!({ "ip": own.ip.to_string(), "mac": own.mac.to_string() }))
    };
    json!({
        "name": profile.name,
        "about": profile.about,
        "plan": planner.name(),
        "syntaxes": std::iter::once("json").chain(syntaxes).collect::<Vec<_>>(),
        "formats": profile.formats,
        "rewrites": profile.rewrites,
        "keeps": profile.keeps,
        "limits": profile.limits.iter().map(limit).collect::<Vec<_>>(),
        "counters": counters.collect::<Vec<_>>(),
        "ports": { "count": profile.ports.count, "rate_bps": profile.ports.rate.bps() },
        "addressing": {
            "workers": addressing.workers.to_string(), "worker_macs": addressing.worker_macs.to_string(),
            "server": station(addressing.server), "device": station(addressing.device),
            "groups": addressing.groups.to_string(), "vlan": addressing.vlan,
        },
    })
}

/// Returns the profile, and the requirements of a run of the experiment.
fn of_experiment(of: &DeviceOf, ui: &Ui) -> Result<(Profile, Facts)> {
    let profile = open(&of.profile, "PROFILE", &all().protocols)?;
    let experiment = experiment::open(experiment::load(&of.experiment)?)?;
    let run = match &of.run {
        Some(name) => experiment.choose(Some(name))?,
        None => &experiment.runs[0],
    };
    ui.detail(&format!("{} of {}", run.folder(), experiment.name));
    let facts = experiment.draft(run)?.asks_all(&experiment.name)?;
    Ok((profile, facts))
}

/// Prints everything that was checked, with the results.
fn checked(profile: &Profile, facts: &Facts, ui: &Ui) -> Result<u8> {
    let Checked { kept, findings } = check(profile, facts);
    if ui.json() {
        for text in &kept {
            ui.object(&schemas::DEVICE_CHECK, &json!({ "level": "ok", "text": text }).to_string());
        }
        for finding in &findings {
            let level = if finding.refused { "refused" } else { "note" };
            let object = json!({ "level": level, "what": finding.what, "text": finding.text });
            ui.object(&schemas::DEVICE_CHECK, &object.to_string());
        }
    } else {
        kept.iter().for_each(|text| ui.result(&format!("ok       {text}")));
        for finding in &findings {
            let level = if finding.refused { "refused" } else { "note" };
            ui.result(&format!("{level:<8} {}", finding.text));
        }
        let unnamed = LIMITS.iter().filter(|kind| !profile.limits.iter().any(|limit| limit.of == kind.name));
        let unnamed: Vec<_> = unnamed.map(|kind| kind.name).collect();
        ui.detail(&format!("no limit is known of: {}", unnamed.join(", ")));
    }
    Checked { kept, findings }.into_result().map(|_| 0)
}

/// Prints the entries, or writes the files of a syntax.
fn write(job: &Job, syntax: &str, out: Option<&Path>, ui: &Ui) -> Result<u8> {
    let whole = plan(job);
    let text = schemas::DEVICE_PLAN.stamp(&if ui.json() { whole.to_string() } else { format!("{whole:#}") });
    let parts: Vec<SyntaxFile> = match syntax {
        "json" => vec![("plan.json".into(), text + "\n")],
        own => of_syntax(job, own)?,
    };
    let Some(out) = out else {
        if syntax != "json" && ui.json() {
            return Err(Error::config(format!("--syntax {syntax} and --json: choose one, or write files with --out")));
        }
        for (name, text) in &parts {
            if syntax != "json" {
                ui.result(&format!("# file: {name}"));
            }
            ui.result(text.trim_end());
        }
        return Ok(0);
    };
    let _claim = claim(out)?;
    for (name, text) in parts {
        let path = out.join(name);
        write_whole(&path, text)?;
        ui.wrote(&path);
    }
    Ok(0)
}

fn of_syntax(job: &Job, name: &str) -> Result<Vec<SyntaxFile>> {
    let planner = job.profile.planner;
    match planner.syntaxes().iter().find(|syntax| syntax.name == name) {
        Some(syntax) => (syntax.write)(job),
        None => {
            let mut names = vec!["json"];
            names.extend(planner.syntaxes().iter().map(|syntax| syntax.name));
            let why =
                if planner.unpublished().is_empty() { String::new() } else { format!(" ({})", planner.unpublished()) };
            Err(Error::config(format!(
                "--syntax {name}: {} has no such syntax{}{why}; there are: {}",
                job.profile.name,
                suggest(name, &names),
                names.join(", ")
            )))
        }
    }
}
