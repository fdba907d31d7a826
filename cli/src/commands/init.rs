//! `pktgen init`: an experiment and the profile of its device, checked, from a few answers.

use std::fs;
use std::io::IsTerminal;
use std::path::Path;

use pktgen_core::config::Document;
use pktgen_core::units::Rate;
use pktgen_core::{Error, Result};
use pktgen_doctor::{Finding, Host, Level, choices, judge, text};
use pktgen_realtime::driver::real_time::Roles;
use pktgen_registry::all;
use pktgen_wire::device::plan::DeviceTemplate;
use pktgen_wire::device::shipped::SHIPPED;
use pktgen_wire::device::{Profile, open as open_profile};
use serde_json::json;

use crate::args::Init;
use crate::commands::experiment::open;
use crate::schemas;
use crate::ui::Ui;

/// Files in the folder.
const EXPERIMENT: &str = "experiment.toml";
const DEVICE: &str = "device.toml";
/// Exit code of what cannot run on this host.
const CANNOT: u8 = 3;
/// Of devices that only forward.
static FORWARD: DeviceTemplate = DeviceTemplate {
    server: true,
    workers: 9,
    rate: "20Mbps",
    strict: false,
    text: "[workload]\nkind = \"rl\"\nclusters = CLUSTERS\nworkers_per_cluster = PER_CLUSTER\nupdates = 500\nbytes = \"256B\"\n\n\
           [schedule]\nkind = \"constant\"\njitter = 0.3\noffered = RATE\n\n\
           [topology]\nkind = \"bottleneck\"\nrate = RATE\n\n\
           [target]\nprogram = \"forward\"\nqueue = \"fifo\"\n",
};

/// The experiment of a device.
fn template(profile: &Profile) -> &'static DeviceTemplate {
    profile.planner.template().unwrap_or(&FORWARD)
}

/// The profile of this name, of this path, or the first that ships for this system.
fn device_of(device: &str) -> Result<(String, Profile)> {
    let protocols = &all().protocols;
    let of_system =
        |name: &&str| open_profile(name, "--device", protocols).is_ok_and(|own| own.planner.name() == device);
    let name = SHIPPED.iter().map(|(name, _)| *name).find(of_system).unwrap_or(device);
    Ok((name.to_owned(), open_profile(name, "--device", protocols)?))
}

/// Who answers: the flags, else the person at the terminal, else nobody.
struct Answers<'a> {
    asks: bool,
    ui: &'a Ui,
}

impl Answers<'_> {
    /// The answer to a question whose flag is `flag`; `default` may be taken by an empty line.
    fn of(
        &self,
        flag: &str,
        given: Option<String>,
        question: &str,
        default: Option<&str>,
        known: &str,
    ) -> Result<String> {
        if let Some(given) = given {
            return Ok(given);
        }
        if !self.asks {
            return Err(Error::config(format!("--{flag} is missing: {question}; {known}")));
        }
        loop {
            let shown = default.map_or(String::new(), |default| format!(" [{default}]"));
            let Some(line) = self.ui.ask(&format!("{question} ({known}){shown}: "))? else {
                return Err(Error::config(format!("--{flag} is missing: {question}; {known}")));
            };
            match (line.trim(), default) {
                ("", Some(default)) => return Ok(default.to_owned()),
                ("", None) => {}
                (line, _) => return Ok(line.to_owned()),
            }
        }
    }
}

/// An interface of this host; what a run would refuse is refused here.
fn interface(answers: &Answers, flag: &str, given: Option<String>, whose: &str, all: &[Finding]) -> Result<String> {
    let usable: Vec<_> = all.iter().filter(|one| one.level != Level::Cannot).map(|one| one.subject.as_str()).collect();
    let refused: Vec<_> = all.iter().filter(|one| one.level == Level::Cannot).map(|one| one.subject.as_str()).collect();
    let known = format!(
        "there are {}{}",
        if usable.is_empty() { "none that can be used".to_owned() } else { usable.join(", ") },
        if refused.is_empty() { String::new() } else { format!("; refused: {}", refused.join(", ")) }
    );
    let name = answers.of(flag, given, &format!("interface of the {whose}"), None, &known)?;
    match all.iter().find(|one| one.subject == name) {
        None => Err(Error::config(format!("--{flag} {name}: there is no such interface; {known}"))),
        Some(one) if one.level == Level::Cannot => Err(Error::Host(format!("--{flag}: {}; {}", one.why, one.remedy))),
        Some(_) => Ok(name),
    }
}

/// What was answered.
struct Chosen {
    device: String,
    workers_if: String,
    server_if: Option<String>,
    workers: u32,
    rate: String,
}

fn choose(args: Init, answers: &Answers) -> Result<(Chosen, Profile)> {
    let names: Vec<_> = SHIPPED.iter().map(|(name, _)| *name).collect();
    let systems: Vec<_> = all().protocols.planners.iter().map(|planner| planner.name()).collect();
    let known = format!("a profile: {}; a system: {}; or the path of a profile", names.join(", "), systems.join(", "));
    let device = answers.of("device", args.device, "device", Some("generic"), &known)?;
    let (device, profile) = device_of(&device)?;
    let shape = template(&profile);
    let there = choices(&Host::this());
    if answers.asks {
        answers.ui.reason(text(&there).trim_end());
    }
    let workers_if = interface(answers, "workers-if", args.workers_if, "workers", &there)?;
    let server_if = match (shape.server, args.server_if) {
        (true, given) => Some(interface(answers, "server-if", given, "parameter server", &there)?),
        (false, Some(name)) => {
            return Err(Error::config(format!(
                "--server-if {name}: {} has no server; leave the flag out",
                profile.name
            )));
        }
        (false, None) => None,
    };
    if server_if.as_ref() == Some(&workers_if) {
        return Err(Error::config(format!("--server-if {workers_if}: it is the workers' interface; name another")));
    }
    let default = shape.workers.to_string();
    let workers = args.workers.map(|n| n.to_string());
    let workers = answers.of("workers", workers, "number of workers", Some(&default), "1 and more")?;
    let workers = workers.parse::<u32>().ok().filter(|n| *n > 0);
    let workers = workers.ok_or_else(|| Error::config("--workers: a whole number from 1 is needed"))?;
    let rate = answers.of("rate", args.rate, "rate of all workers together", Some(shape.rate), "as 20Mbps")?;
    rate.parse::<Rate>().map_err(|why| Error::config(format!("--rate {rate}: {why}; write it as 20Mbps")))?;
    Ok((Chosen { device, workers_if, server_if, workers, rate }, profile))
}

/// The text of the experiment.
fn experiment(chosen: &Chosen, profile: &Profile, name: &str) -> String {
    let Chosen { workers, rate, .. } = chosen;
    let per_cluster = [3, 2, 1].into_iter().find(|per| workers.is_multiple_of(*per)).unwrap_or(1);
    let shape = template(profile);
    let text = shape.text.replace("PER_CLUSTER", &per_cluster.to_string());
    let text = text.replace("CLUSTERS", &(workers / per_cluster).to_string());
    let text = text.replace("WORKERS", &workers.to_string()).replace("RATE", &json!(rate).to_string());
    let interfaces = match &chosen.server_if {
        Some(server) => json!([chosen.workers_if, "", "", server]),
        None => json!([chosen.workers_if, ""]),
    };
    // What has no schedule is held to the rate at the interface.
    let limit = if text.contains("[schedule]") { String::new() } else { format!("limit = {}\n", json!(rate)) };
    let strict = "on_wire = \"strict\"           # the device's own layout\n";
    let on_wire = if shape.strict { strict } else { "" };
    format!(
        "name = {}\n\n{text}kind = \"external\"\nprofile = \"{DEVICE}\"      # commands run in this folder\n\n[transport]\n\
         kind = \"af_packet\"\nwait = \"block\"               # \"spin\" where each thread has a core of its own\n\
         interfaces = {interfaces}\n{on_wire}{limit}tap = \"tap.pcapng\"           # what is on the cable at each end, for pktgen diagnose\n",
        json!(name)
    )
}

/// The text of a profile.
fn profile_text(device: &str) -> Result<String> {
    match SHIPPED.iter().find(|(name, _)| *name == device) {
        Some((_, text)) => Ok((*text).to_owned()),
        None => fs::read_to_string(device).map_err(Error::io("read", Path::new(device))),
    }
}

fn check_free(out: &Path) -> Result<()> {
    let taken = fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_some()) || out.is_file();
    match taken {
        true => Err(Error::config(format!("{}: it exists and is not empty; name a new folder", out.display()))),
        false => Ok(()),
    }
}

pub(super) fn run(args: Init, ui: &Ui) -> Result<u8> {
    let out = args.out.clone();
    check_free(&out)?;
    let answers = Answers { asks: std::io::stdin().is_terminal() && !ui.json(), ui };
    let (chosen, profile) = choose(args, &answers)?;
    let device = profile_text(&chosen.device)?;
    let name = out.file_name().map_or_else(|| "experiment".into(), |name| name.to_string_lossy().into_owned());
    let text_of = experiment(&chosen, &profile, &name);
    let made = !out.exists();
    fs::create_dir_all(&out).map_err(Error::io("create folder", &out))?;
    let verdict = write(&out, &device, &text_of).inspect_err(|_| {
        // What is refused is not left behind.
        let _ = [EXPERIMENT, DEVICE].map(|file| fs::remove_file(out.join(file)));
        if made {
            let _ = fs::remove_dir(&out);
        }
    })?;
    let cannot = verdict.iter().any(|finding| finding.level == Level::Cannot);
    let commands = [
        format!("pktgen device check {DEVICE} {EXPERIMENT}"),
        format!("pktgen doctor {EXPERIMENT}"),
        format!("pktgen replay {EXPERIMENT} --out run"),
        "pktgen diagnose run".to_owned(),
    ];
    if ui.json() {
        let line = json!({
            "folder": out, "experiment": EXPERIMENT, "device": DEVICE, "runs_here": !cannot, "findings": verdict, "commands": commands,
        });
        ui.object(&schemas::INITIATED, &line.to_string());
    } else {
        ui.result(&format!(
            "{}: {EXPERIMENT}, {DEVICE}\n{}next:\n  cd {}",
            out.display(),
            text(&verdict),
            out.display()
        ));
        commands.iter().for_each(|command| ui.result(&format!("  {command}")));
    }
    Ok(if cannot { CANNOT } else { 0 })
}

/// Writes both files and checks them: the profile holds the experiment, and this host can run it.
fn write(out: &Path, device: &str, experiment: &str) -> Result<Vec<Finding>> {
    let (path, profile) = (out.join(EXPERIMENT), out.join(DEVICE));
    fs::write(&profile, device).map_err(Error::io("write", &profile))?;
    fs::write(&path, experiment).map_err(Error::io("write", &path))?;
    // Not from within the folder.
    let set = format!("target.profile={}", json!(profile.display().to_string()));
    Ok(judge(&open(Document::load(&path, &[set])?)?, Roles::ALL, &Host::this())?.findings)
}
