//! `pktgen certify`: tests a device's conformance to its protocol clause by clause, with frames as evidence.

use std::path::{Path, PathBuf};

use pktgen_certify::{
    Certificate, CertificateProgress, CertificateTable, CertifiedRun, CertifyOptions, CertifyProfile, CertifySettings,
    ClauseVerdict, LockstepBench, MeasurePlan, ProgramBench, WireBench, certify, methodology,
};
use pktgen_core::config::{Document, Run};
use pktgen_core::time::SECOND;
use pktgen_core::{Error, Result};
use pktgen_engine::clause::{ClauseSuite, ProbeBench, ProbeGround};
use pktgen_realtime::capture::{claim, hold};
use pktgen_realtime::plan::Plan;
use pktgen_realtime::run::{Experiment, refuse_study};
use pktgen_registry::all;
use serde_json::{Value, json};

use crate::args::{self, Certify};
use crate::commands::experiment::{OutFolder, load};
use crate::schemas;
use crate::ui::Ui;

pub(super) fn run(args: Certify, ui: &Ui) -> Result<u8> {
    if args.markdown && ui.json() {
        return Err(Error::config("--markdown and --json: choose one"));
    }
    if args.markdown {
        ui.result(methodology(all().suites).trim_end());
        return Ok(0);
    }
    let Some(experiment) = args.experiment.clone().filter(|_| !args.list) else {
        all().suites.iter().for_each(|suite| list(suite, ui));
        return Ok(0);
    };
    let document = load(&args::Experiment { experiment, set: args.set.clone() })?;
    refuse_study(&document)?;
    let experiment = Experiment::open(all(), document.clone())?.launching(args.launch.allow_launch);
    let chosen = match (&args.run, args.all_runs) {
        (_, true) => experiment.runs.iter().collect(),
        (None, false) => vec![&experiment.runs[0]],
        (name, false) => vec![experiment.choose(name.as_deref())?],
    };
    if let (Some(seed), Some(other)) = (args.seed, chosen.iter().find(|run| run.seed != chosen[0].seed)) {
        return Err(Error::config(format!(
            "--seed {seed}: the runs of this sweep have several seeds ({}, {}, ...), and all would get the same packet contents; leave \
             --seed out, or have runs of one seed (--set seed={seed})",
            chosen[0].seed, other.seed
        )));
    }
    // All are checked before the first one begins.
    let mut runs = Vec::new();
    for run in chosen {
        let named = |error| if args.all_runs { Error::config(format!("run {}: {error}", run.folder())) } else { error };
        runs.push(RunToCertify::new(&experiment, &document, run, &args).map_err(named)?);
    }
    match args.all_runs {
        false => alone(&experiment, &runs[0], args.out.clone(), ui),
        true => tabled(&experiment, &runs, args.out.clone(), ui),
    }
}

fn list(suite: &'static ClauseSuite, ui: &Ui) {
    for (number, clause) in suite.numbered() {
        if ui.json() {
            let object = json!({ "suite": suite.name, "number": number, "clause": clause.id, "title": clause.title });
            ui.object(&schemas::CLAUSE, &object.to_string());
        } else {
            ui.result(&format!("{number:<5} {:<26} {}", clause.id, clause.title));
        }
    }
}

/// A run to certify, with its plan and settings.
struct RunToCertify<'a> {
    run: &'a Run,
    plan: Plan,
    settings: CertifySettings,
    options: CertifyOptions,
    /// The flags that select what is executed.
    chosen: String,
    /// The certificate without results.
    certificate: Certificate,
}

impl<'a> RunToCertify<'a> {
    fn new(experiment: &Experiment, document: &Document, run: &'a Run, args: &Certify) -> Result<Self> {
        let mut own = document.clone();
        run.apply(&mut own)?;
        let settings = CertifySettings::of(&mut own)?;
        let plan = experiment.prepare(run)?;
        let suite = suite(&plan, &experiment.name)?;
        // Only this bench observes frames at the far ends of links.
        if has_program_bench(&plan)
            && let Some(why) = (suite.refuses)(&ProgramBench::ground(&plan, settings.late(false))?)
        {
            return Err(Error::config(why));
        }
        let seed = args.seed.unwrap_or(run.seed);
        let repeats = args.repeats.or(settings.repeats);
        let profiles = [CertifyProfile::Correctness, CertifyProfile::Quick, CertifyProfile::Full];
        let profile = profiles.into_iter().find(|it| it.name() == args.profile).unwrap_or_default();
        let certificate = Certificate {
            suite: (suite.name, suite.version),
            profile,
            by: format!("pktgen {}", env!("CARGO_PKG_VERSION")),
            device: device(&plan),
            experiment: experiment.name.clone(),
            seed,
            config: format!("{}\n{}", plan.spec.config.trim_end(), own.resolved_section("certify")),
            notes: notes(&plan),
            outcomes: Vec::new(),
            not_chosen: 0,
        };
        let measures = MeasurePlan::new(profile, &settings, plan.spec.is_real_time());
        let (only, except) = (args.clause.clone(), args.except.clone());
        let options = CertifyOptions { seed, repeats, only, except, done: Vec::new(), profile, plan: measures };
        options.check(suite)?;
        let certificate = Certificate { not_chosen: options.not_chosen(suite), ..certificate };
        Ok(RunToCertify { run, plan, settings, options, chosen: chosen(args, repeats), certificate })
    }

    /// Executes or resumes it in a folder; returns the certificate, and the progress that marks it as unfinished.
    fn carry_out(&self, experiment: &Experiment, folder: &Path, ui: &Ui) -> Result<(Certificate, CertificateProgress)> {
        let (mut certificate, mut options) = (self.certificate.clone(), self.options.clone());
        let suite = suite(&self.plan, &experiment.name)?;
        // If it fails before its first file is written, a new folder is removed again.
        let mut claim = (!CertificateProgress::is_in(folder)).then(|| claim(folder)).transpose()?;
        let _held = hold(folder)?;
        let (mut progress, done) = match &mut claim {
            None => CertificateProgress::resume(folder, &certificate, &self.chosen, suite)?,
            Some(claim) => {
                let progress = CertificateProgress::begin(folder, &certificate, &self.chosen)?;
                // The device may take long to start: a process killed meanwhile can be resumed.
                claim.unmark();
                (progress, Vec::new())
            }
        };
        let opened = bench(experiment, &self.plan, self.run, folder, self.settings);
        let (mut bench, ground) = match opened {
            // A device that is refused or does not start leaves no certificate under way.
            Err(error) if claim.is_some() => {
                progress.end()?;
                return Err(error);
            }
            opened => opened?,
        };
        drop(claim);
        if !done.is_empty() {
            ui.note(&format!("note: {} clauses were carried out before and are kept", done.len()));
        }
        options.done = done;
        certificate.notes.extend((suite.before)(&ground));
        certificate.notes.iter().for_each(|note| ui.note(&format!("note: {note}")));
        if let Some(estimate) = options.estimate(suite, &ground) {
            let seconds = (estimate as f64 / SECOND as f64).ceil();
            ui.note(&format!(
                "note: performance takes {seconds} s of the device's time at most, and correctness comes before"
            ));
        }
        let bar = ui.spinner("certifying");
        let outcomes = certify(suite, &ground, bench.as_mut(), &options, &mut |outcome| {
            bar.set_message(outcome.line());
            progress.keep(outcome)
        });
        bar.finish_and_clear();
        certificate.outcomes = outcomes?;
        certificate.write(folder)?;
        Ok((certificate, progress))
    }
}

/// Creates one certificate.
fn alone(experiment: &Experiment, run: &RunToCertify, out: Option<PathBuf>, ui: &Ui) -> Result<u8> {
    let folder = OutFolder::of(out, &format!("certify-{}", experiment.name))?;
    let (certificate, progress) = run.carry_out(experiment, &folder, ui)?;
    progress.end()?;
    say(&certificate, None, ui)?;
    ui.detail(&format!("certificate and evidence in {}", folder.display()));
    Ok(u8::from(!certificate.is_whole()))
}

/// Creates a certificate for each run, and tables of all. Each is marked as unfinished until the tables are written, so
/// that a killed process can be resumed.
fn tabled(experiment: &Experiment, runs: &[RunToCertify], out: Option<PathBuf>, ui: &Ui) -> Result<u8> {
    let folder = OutFolder::of(out, &format!("certify-{}", experiment.name))?;
    let under_way = |run: &RunToCertify| CertificateProgress::is_in(&folder.join(run.run.folder()));
    let is_written = |run: &RunToCertify| folder.join(run.run.folder()).join("certificate.json").is_file();
    if folder.join("certificates.md").is_file() && runs.iter().any(under_way) && runs.iter().all(is_written) {
        return end_written(experiment, runs, &folder, ui);
    }
    if !runs.iter().any(under_way) {
        drop(claim(&folder)?);
    }
    let (mut all, mut open) = (Vec::new(), Vec::new());
    for (at, own) in runs.iter().enumerate() {
        let name = own.run.folder();
        ui.note(&format!("run {} of {}: {name}", at + 1, runs.len()));
        let (certificate, progress) = own.carry_out(experiment, &folder.join(&name), ui)?;
        say(&certificate, Some(&name), ui)?;
        let mut labels = own.run.labels.clone();
        labels.insert("seed".into(), certificate.seed.to_string());
        all.push(CertifiedRun { name, labels, certificate });
        open.push(progress);
    }
    let is_whole = all.iter().all(|run| run.certificate.is_whole());
    let table = CertificateTable::new(all);
    table.write(&folder)?;
    open.into_iter().try_for_each(CertificateProgress::end)?;
    if !ui.json() {
        ui.result(table.page().trim_end());
    }
    ui.detail(&format!("certificates, certificates.md and measured.csv in {}", folder.display()));
    Ok(u8::from(!is_whole))
}

/// Ends a table whose process was killed after everything was written, before no certificate was marked as unfinished.
fn end_written(experiment: &Experiment, runs: &[RunToCertify], folder: &Path, ui: &Ui) -> Result<u8> {
    let (mut open, mut is_whole) = (Vec::new(), true);
    for own in runs {
        let name = own.run.folder();
        let folder = folder.join(&name);
        if CertificateProgress::is_in(&folder) {
            let _held = hold(&folder)?;
            let suite = suite(&own.plan, &experiment.name)?;
            open.push(CertificateProgress::resume(&folder, &own.certificate, &own.chosen, suite)?.0);
        }
        let path = folder.join("certificate.json");
        let text = std::fs::read_to_string(&path).map_err(Error::io("read", &path))?;
        let damaged = || Error::Invalid(format!("{}: no certificate; remove the folder", path.display()));
        let mut whole: Value = serde_json::from_str(&text).map_err(|_| damaged())?;
        let clauses = whole.as_object_mut().and_then(|members| members.remove("clauses")).ok_or_else(damaged)?;
        if ui.json() {
            for clause in clauses.as_array().into_iter().flatten() {
                ui.object(&schemas::CLAUSE_VERDICT, &named(clause.clone(), Some(&name)));
            }
            ui.object(&schemas::CERTIFICATE, &named(whole.clone(), Some(&name)));
        }
        is_whole &= whole["failed"] == 0 && whole["not_decidable"] == 0;
    }
    open.into_iter().try_for_each(CertificateProgress::end)?;
    ui.note("note: all certificates were written before and are kept");
    if !ui.json() {
        let path = folder.join("certificates.md");
        ui.result(std::fs::read_to_string(&path).map_err(Error::io("read", &path))?.trim_end());
    }
    ui.detail(&format!("certificates, certificates.md and measured.csv in {}", folder.display()));
    Ok(u8::from(!is_whole))
}

/// Returns an object of a run with the name of the run, if there are several.
fn named(mut object: Value, run: Option<&str>) -> String {
    object["run"] = json!(run);
    object.to_string()
}

/// Returns notes on the bench for readers.
fn notes(plan: &Plan) -> Vec<String> {
    let transport = &plan.spec.transport;
    let tap = plan.spec.is_real_time() && transport.middleware.has("tap");
    tap.then(|| "transport.tap is ignored: a certificate keeps its own captures".to_owned()).into_iter().collect()
}

/// Returns the flags that select what is executed.
fn chosen(args: &Certify, repeats: Option<u32>) -> String {
    let only = args.clause.iter().map(|name| format!("--clause {name}"));
    let except = args.except.iter().map(|name| format!("--except {name}"));
    let all: Vec<_> = only.chain(except).chain(repeats.map(|n| format!("--repeats {n}"))).collect();
    if all.is_empty() { "all".to_owned() } else { all.join(" ") }
}

/// Returns the clauses of the device's format and program.
fn suite(plan: &Plan, experiment: &str) -> Result<&'static ClauseSuite> {
    let format = plan.parts.facts.protocol.format;
    let suite = all().suites.iter().copied().find(|suite| suite.format == format).ok_or_else(|| {
        let known: Vec<_> = all().suites.iter().map(|suite| suite.format).collect();
        Error::config(format!(
            "{experiment}: there are no clauses for devices that use {format}; use an experiment of {}",
            known.join(" or ")
        ))
    })?;
    let keys = Document::parse(&plan.spec.config, "the resolved experiment")?;
    let program = keys.get("target.program").map(|value| value.to_label());
    match program.filter(|program| !suite.programs.is_empty() && !suite.programs.contains(&program.as_str())) {
        Some(program) => Err(Error::config(format!(
            "{experiment}: there are no clauses for devices of target.program = \"{program}\"; use one of {}",
            suite.programs.join(" or ")
        ))),
        None => Ok(suite),
    }
}

type Bench<'a> = Box<dyn ProbeBench + 'a>;

/// Returns whether the device is the program of this project.
fn has_program_bench(plan: &Plan) -> bool {
    !plan.spec.is_real_time() && plan.spec.transport.lockstep.is_none()
}

/// Returns the bench that sends frames to the device: on wires, in lockstep, or around the program of this project.
fn bench<'a>(
    experiment: &'a Experiment,
    plan: &'a Plan,
    run: &'a Run,
    folder: &'a Path,
    settings: CertifySettings,
) -> Result<(Bench<'a>, ProbeGround)> {
    if plan.spec.is_real_time() {
        let (bench, ground) = WireBench::open(plan, folder, settings, |plan| experiment.start_device(plan))?;
        return Ok((Box::new(bench), ground));
    }
    if let Some(lockstep) = &plan.spec.transport.lockstep {
        let couple = |plan: &Plan| experiment.couple_device(plan, run.seed);
        let (bench, ground) = LockstepBench::open(experiment.prepare(run)?, settings, lockstep.is_started(), couple)?;
        return Ok((Box::new(bench), ground));
    }
    let suite = suite(plan, &experiment.name)?;
    let (bench, ground) = ProgramBench::new(suite, settings.late(false), || experiment.plan(run))?;
    Ok((Box::new(bench), ground))
}

/// Describes the certified device.
fn device(plan: &Plan) -> String {
    let transport = &plan.spec.transport;
    let name = plan.spec.hardware.as_ref().map_or("a device", |own| own.profile.name.as_str());
    match (plan.spec.is_real_time(), &transport.lockstep) {
        (true, _) => format!("{name} at {} ({})", transport.interfaces.join(" "), transport.kind.name()),
        (false, Some(_)) => format!("{name} of another process in virtual time (target.lockstep)"),
        (false, None) => "the software device of pktgen in virtual time".to_owned(),
    }
}

/// Prints the result of a run, with its name if there are several.
fn say(certificate: &Certificate, run: Option<&str>, ui: &Ui) -> Result<()> {
    for outcome in &certificate.outcomes {
        match ui.json() {
            true => ui.object(&schemas::CLAUSE_VERDICT, &named(outcome.to_json(), run)),
            false if outcome.verdict == ClauseVerdict::NotApplicable => ui.detail(&outcome.line()),
            false => ui.result(&outcome.line()),
        }
    }
    match ui.json() {
        true => ui.object(&schemas::CERTIFICATE, &named(certificate.to_json()?, run)),
        false => {
            ui.result(&certificate.summary());
            let exempt = certificate.outcomes.iter().filter(|it| it.verdict == ClauseVerdict::NotApplicable);
            let exempt: Vec<_> = exempt.map(|it| it.clause.id).collect();
            if !exempt.is_empty() {
                ui.result(&format!("not applicable (certificate.md says why): {}", exempt.join(", ")));
            }
            ui.result(&certificate.statement());
        }
    }
    Ok(())
}
