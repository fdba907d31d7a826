//! `pktgen init`: creates a checked experiment and the profile of its device from a few answers.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::IsTerminal;
use std::path::Path;

use pktgen_core::config::Document;
use pktgen_core::units::Rate;
use pktgen_core::{Error, Result};
use pktgen_doctor::{Finding, Host, Level, choices, judge, text};
use pktgen_realtime::draft::draft;
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

/// Names of the files in the folder.
const EXPERIMENT: &str = "experiment.toml";
const DEVICE: &str = "device.toml";
/// Exit code if the experiment cannot run on this host.
const CANNOT: u8 = 3;
/// Template for devices that only forward.
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

/// Returns the experiment template of a device.
fn template(profile: &Profile) -> &'static DeviceTemplate {
    profile.planner.template().unwrap_or(&FORWARD)
}

/// Returns the profile with this name or path, or the first built-in one for this system.
fn device_of(device: &str) -> Result<(String, Profile)> {
    let protocols = &all().protocols;
    let of_system =
        |name: &&str| open_profile(name, "--device", protocols).is_ok_and(|own| own.planner.name() == device);
    let name = SHIPPED.iter().map(|(name, _)| *name).find(of_system).unwrap_or(device);
    Ok((name.to_owned(), open_profile(name, "--device", protocols)?))
}

/// Source of answers: flags, otherwise the user at the terminal, otherwise none.
struct Answers<'a> {
    asks: bool,
    ui: &'a Ui,
}

impl Answers<'_> {
    /// Returns the answer to the question of flag `flag`; an empty line selects `default`.
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

/// Returns an interface of this host; refuses one that a run would refuse.
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
        None if name == "lo" => Err(Error::config(format!(
            "--{flag} lo: it is the loopback interface, which no device is connected to; {known}"
        ))),
        None => Err(Error::config(format!("--{flag} {name}: there is no such interface; {known}"))),
        Some(one) if one.level == Level::Cannot => Err(Error::Host(format!("--{flag}: {}; {}", one.why, one.remedy))),
        Some(_) => Ok(name),
    }
}

/// Returns the interfaces of a launched device's cables on this host: the specified names, or two names unique to this
/// experiment, since processes with the same names conflict.
fn made(out: &Path, given: [Option<String>; 2], server: bool, all: &[Finding]) -> Result<(String, Option<String>)> {
    let taken = |name: &str| all.iter().any(|one| one.subject == name);
    let mut hasher = DefaultHasher::new();
    (std::path::absolute(out).ok(), std::process::id()).hash(&mut hasher);
    let mut tag = hasher.finish();
    let free = loop {
        tag = tag.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17);
        let names = ["w", "s"].map(|end| format!("pk{:05x}{end}", tag & 0xf_ffff));
        if !names.iter().any(|name| taken(name)) {
            break names;
        }
    };
    let [workers, servers] = given;
    for (flag, name) in [("workers-if", &workers), ("server-if", &servers)] {
        if let Some(name) = name.as_ref().filter(|name| taken(name)) {
            return Err(Error::config(format!(
                "--{flag} {name}: the interface exists, and the launch with --ports would create it; name another, or \
                 leave the flag out"
            )));
        }
    }
    let [first, second] = free;
    Ok((workers.unwrap_or(first), server.then(|| servers.unwrap_or(second))))
}

/// Splits a command into words at blanks, with quotes, like a shell.
fn words(flag: &str, command: &str) -> Result<Vec<String>> {
    let (mut all, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in command.chars() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(c),
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, _) if c.is_whitespace() => all.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(c),
        }
    }
    all.extend(word);
    match (quote, all.is_empty()) {
        (Some(open), _) => Err(Error::config(format!("--{flag} {command}: a {open} is open at its end"))),
        (None, true) => Err(Error::config(format!("--{flag}: a command is needed, as './device --port e0'"))),
        _ => Ok(all),
    }
}

/// How the device is launched.
struct Launched {
    command: Vec<String>,
    ports: Vec<String>,
    counters: Vec<String>,
    /// Whether it adds up in slots of two sets.
    rounds: bool,
}

impl Launched {
    fn of(args: &Init, profile: &Profile) -> Result<Option<Launched>> {
        let Some(command) = &args.launch else { return Ok(None) };
        let sums = |name: &String| {
            let mut all = all().protocols.formats.iter();
            all.any(|format| format.name() == name && format.facts().round.is_some())
        };
        let ends = if template(profile).server { 2 } else { 1 };
        if !args.ports.is_empty() && args.ports.len() != ends {
            return Err(Error::config(format!(
                "--ports {}: {} has {ends}; name them in the order workers' side, server's side",
                args.ports.join(","),
                profile.name
            )));
        }
        Ok(Some(Launched {
            command: words("launch", command)?,
            ports: args.ports.clone(),
            counters: args.counters.as_ref().map_or(Ok(Vec::new()), |command| words("counters", command))?,
            rounds: ends == 1 && profile.formats.iter().any(sums),
        }))
    }

    fn text(&self) -> String {
        let key = |name: &str, value: &[String]| match value.is_empty() {
            true => String::new(),
            false => format!("{name} = {}\n", json!(value)),
        };
        format!(
            "\n[target.launch]\n{}{}ready = {}\n{}# tables = [\"sh\", \"-c\", \"…\"]   # a command that fills the device's tables, \
             from pktgen device plan\n",
            key("command", &self.command),
            key("ports", &self.ports),
            if self.rounds { "\"round\"            # right sums show that it is ready" } else { "\"forward\"" },
            key("counters", &self.counters),
        )
    }
}

/// The answers.
struct Chosen {
    device: String,
    workers_if: String,
    server_if: Option<String>,
    workers: u32,
    rate: Option<String>,
    launched: Option<Launched>,
}

fn choose(args: Init, answers: &Answers) -> Result<(Chosen, Profile)> {
    let names: Vec<_> = SHIPPED.iter().map(|(name, _)| *name).collect();
    let systems: Vec<_> = all().protocols.planners.iter().map(|planner| planner.name()).collect();
    let known = format!("a profile: {}; a system: {}; or the path of a profile", names.join(", "), systems.join(", "));
    let device = answers.of("device", args.device.clone(), "device", Some("generic"), &known)?;
    let (device, profile) = device_of(&device)?;
    let shape = template(&profile);
    let there = choices(&Host::this());
    let launched = Launched::of(&args, &profile)?;
    if let (false, Some(name)) = (shape.server, &args.server_if) {
        return Err(Error::config(format!("--server-if {name}: {} has no server; leave the flag out", profile.name)));
    }
    let (workers_if, server_if) = if launched.as_ref().is_some_and(|launched| !launched.ports.is_empty()) {
        let there = there.as_deref().unwrap_or_default();
        made(&args.out, [args.workers_if, args.server_if], shape.server, there)?
    } else {
        let there = there?;
        if answers.asks {
            answers.ui.reason(text(&there).trim_end());
        }
        let workers_if = interface(answers, "workers-if", args.workers_if, "workers", &there)?;
        let server = |given| interface(answers, "server-if", given, "parameter server", &there);
        (workers_if, shape.server.then(|| server(args.server_if)).transpose()?)
    };
    if server_if.as_ref() == Some(&workers_if) {
        return Err(Error::config(format!("--server-if {workers_if}: it is the workers' interface; name another")));
    }
    let default = shape.workers.to_string();
    let workers = args.workers.map(|n| n.to_string());
    let workers = answers.of("workers", workers, "number of workers", Some(&default), "1 and more")?;
    let workers = workers.parse::<u32>().ok().filter(|n| *n > 0);
    let workers = workers.ok_or_else(|| Error::config("--workers: a whole number from 1 is needed"))?;
    let rate = match (args.rate, answers.asks) {
        (None, true) => {
            let known = if is_paced(shape) { "as 20Mbps" } else { "as 20Mbps, or none: no limit" };
            Some(answers.of("rate", None, "rate of all workers together", Some(shape.rate), known)?)
        }
        (given, _) => given,
    };
    let rate = rate.filter(|rate| is_paced(shape) || rate != "none");
    if let Some(rate) = &rate {
        let bps = rate.parse::<Rate>().map(Rate::bps);
        let bps = bps.map_err(|why| Error::config(format!("--rate {rate}: {why}; write it as 20Mbps")))?;
        if bps == 0 {
            return Err(Error::config(format!("--rate {rate}: it is not above 0; write it as 20Mbps")));
        }
    }
    Ok((Chosen { device, workers_if, server_if, workers, rate, launched }, profile))
}

/// Whether its workers send by a schedule with a rate, instead of waiting for results.
fn is_paced(shape: &DeviceTemplate) -> bool {
    shape.text.contains("[schedule]")
}

/// Returns the text of the experiment.
fn experiment(chosen: &Chosen, profile: &Profile, name: &str) -> String {
    let Chosen { workers, .. } = chosen;
    let rate = chosen.rate.as_deref().unwrap_or(template(profile).rate);
    let per_cluster = [3, 2, 1].into_iter().find(|per| workers.is_multiple_of(*per)).unwrap_or(1);
    let shape = template(profile);
    let text = shape.text.replace("PER_CLUSTER", &per_cluster.to_string());
    let text = text.replace("CLUSTERS", &(workers / per_cluster).to_string());
    let text = text.replace("WORKERS", &workers.to_string()).replace("RATE", &json!(rate).to_string());
    let interfaces = match &chosen.server_if {
        Some(server) => json!([chosen.workers_if, "", "", server]),
        None => json!([chosen.workers_if, ""]),
    };
    // Workers without a schedule are limited to the rate at the interface, if one was specified.
    let limit = match &chosen.rate {
        Some(rate) if !is_paced(shape) => format!("limit = {}\n", json!(rate)),
        _ => String::new(),
    };
    let tap = "tap = \"tap.pcapng\"           # what is on the cable at each end, for pktgen diagnose\n";
    // Certificates of the same experiment write their own captures.
    let (tap, launched) = match &chosen.launched {
        Some(launched) => (format!("# {tap}"), launched.text()),
        None => (tap.to_owned(), String::new()),
    };
    let strict = "on_wire = \"strict\"           # the device's own layout\n";
    let on_wire = if shape.strict { strict } else { "" };
    format!(
        "name = {}\n\n{text}kind = \"external\"\nprofile = \"{DEVICE}\"      # commands run in this folder\n\n[transport]\n\
         kind = \"af_packet\"\nwait = \"block\"               # \"spin\" where each thread has a core of its own\n\
         interfaces = {interfaces}\n{on_wire}{limit}{tap}{launched}",
        json!(name)
    )
}

/// Returns the text of a profile.
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
        // Files of a refused experiment are removed.
        let _ = [EXPERIMENT, DEVICE].map(|file| fs::remove_file(out.join(file)));
        if made {
            let _ = fs::remove_dir(&out);
        }
    })?;
    let cannot = verdict.iter().any(|finding| finding.level == Level::Cannot);
    let commands = next(chosen.launched.as_ref(), &profile);
    if ui.json() {
        let line = json!({
            "folder": out.display().to_string(), "experiment": EXPERIMENT, "device": DEVICE, "runs_here": !cannot, "findings": verdict, "commands": commands,
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

/// Returns the next commands.
fn next(launched: Option<&Launched>, profile: &Profile) -> Vec<String> {
    let certified = all().suites.iter().any(|suite| suite.name == profile.planner.name());
    let check = format!("pktgen device check {DEVICE} {EXPERIMENT}");
    let (ready, allow) = match launched {
        None => (vec![check, format!("pktgen doctor {EXPERIMENT}")], ""),
        Some(_) => {
            let plan = format!("pktgen device plan {DEVICE} {EXPERIMENT} >plan.json");
            (vec![check, plan, format!("pktgen target check {EXPERIMENT} --allow-launch")], " --allow-launch")
        }
    };
    let run = [format!("pktgen replay {EXPERIMENT}{allow} --out run"), "pktgen diagnose run".to_owned()];
    let certify =
        (launched.is_some() && certified).then(|| format!("pktgen certify {EXPERIMENT}{allow} --out certificate"));
    ready.into_iter().chain(run).chain(certify).collect()
}

/// Writes both files and checks that the profile permits the experiment and this host can run it.
fn write(out: &Path, device: &str, experiment: &str) -> Result<Vec<Finding>> {
    let (path, profile) = (out.join(EXPERIMENT), out.join(DEVICE));
    fs::write(&profile, device).map_err(Error::io("write", &profile))?;
    fs::write(&path, experiment).map_err(Error::io("write", &path))?;
    // Independent of the current folder.
    let set = format!("target.profile={}", json!(profile.display().to_string()));
    let experiment = open(Document::load(&path, &[set])?)?;
    let verdict = judge(&experiment, Roles::ALL, &Host::this())?;
    // The preview refuses rates above those of the device's ports.
    let run = &experiment.runs[0];
    draft(experiment.draft(run)?, experiment.updates(run)?, (experiment.name.as_str(), run.folder().as_str()), 1)?;
    Ok(verdict.findings)
}
