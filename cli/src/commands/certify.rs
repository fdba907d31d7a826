//! `pktgen certify`: does a device do what its protocol says? Clause by clause, with the frames that prove it.

use pktgen_certify::{Certificate, CertifyOptions, ClauseVerdict, ProgramBench, WireBench, certify, methodology};
use pktgen_core::{Error, Result};
use pktgen_engine::clause::{ClauseSuite, ProbeBench, ProbeGround};
use pktgen_realtime::capture::claim;
use pktgen_realtime::plan::Plan;
use pktgen_realtime::run::Experiment;
use pktgen_registry::all;
use serde_json::json;

use crate::args::{self, Certify};
use crate::commands::experiment::{OutFolder, load};
use crate::schemas;
use crate::ui::Ui;

pub(super) fn run(args: Certify, ui: &Ui) -> Result<u8> {
    if args.markdown {
        ui.result(methodology(all().suites).trim_end());
        return Ok(0);
    }
    let Some(experiment) = args.experiment.clone().filter(|_| !args.list) else {
        all().suites.iter().for_each(|suite| list(suite, ui));
        return Ok(0);
    };
    let document = load(&args::Experiment { experiment, set: args.set.clone() })?;
    let experiment = Experiment::open(all(), document)?;
    carry_out(&experiment, args, ui)
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

fn carry_out(experiment: &Experiment, args: Certify, ui: &Ui) -> Result<u8> {
    let run = match &args.run {
        None => &experiment.runs[0],
        name => experiment.choose(name.as_deref())?,
    };
    let plan = experiment.prepare(run)?;
    let format = plan.parts.facts.protocol.format;
    let Some(suite) = all().suites.iter().find(|suite| suite.format == format) else {
        let known: Vec<_> = all().suites.iter().map(|suite| suite.format).collect();
        return Err(Error::config(format!(
            "{}: there are no clauses for devices that use {format}; use an experiment of {}",
            experiment.name,
            known.join(" or ")
        )));
    };
    let folder = OutFolder::of(args.out, &format!("certify-{}", experiment.name))?;
    let _claim = claim(&folder)?;
    let device = device(&plan);
    let config = plan.spec.config.clone();
    let (mut bench, ground): (Box<dyn ProbeBench>, ProbeGround) = match plan.spec.is_real_time() {
        true => {
            let (bench, ground) = WireBench::open(&plan, &folder)?;
            (Box::new(bench), ground)
        }
        false => {
            let (bench, ground) = ProgramBench::new(suite, || experiment.plan(run))?;
            (Box::new(bench), ground)
        }
    };
    let options = CertifyOptions {
        seed: args.seed.unwrap_or(run.seed),
        repeats: args.repeats,
        only: args.clause,
        except: args.except,
    };
    let bar = ui.spinner("certifying");
    let outcomes = certify(suite, &ground, bench.as_mut(), &options, &mut |outcome| bar.set_message(outcome.line()));
    bar.finish_and_clear();
    let mut certificate = Certificate {
        suite: (suite.name, suite.version),
        by: format!("pktgen {}", env!("CARGO_PKG_VERSION")),
        device,
        experiment: experiment.name.clone(),
        seed: options.seed,
        config,
        outcomes: outcomes?,
    };
    certificate.write(&folder)?;
    say(&certificate, ui)?;
    ui.detail(&format!("certificate and evidence in {}", folder.display()));
    Ok(u8::from(!certificate.is_whole()))
}

/// What is certified, in words.
fn device(plan: &Plan) -> String {
    let transport = &plan.spec.transport;
    let name = plan.spec.hardware.as_ref().map_or("a device", |own| own.profile.name.as_str());
    match plan.spec.is_real_time() {
        true => format!("{name} at {} ({})", transport.interfaces.join(" "), transport.kind.name()),
        false => "the software device of pktgen in virtual time".to_owned(),
    }
}

fn say(certificate: &Certificate, ui: &Ui) -> Result<()> {
    for outcome in &certificate.outcomes {
        match ui.json() {
            true => ui.object(&schemas::CLAUSE_VERDICT, &outcome.to_json().to_string()),
            false if outcome.verdict == ClauseVerdict::NotApplicable => ui.detail(&outcome.line()),
            false => ui.result(&outcome.line()),
        }
    }
    match ui.json() {
        true => ui.object(&schemas::CERTIFICATE, &certificate.to_json()?.to_string()),
        false => {
            ui.result(&certificate.summary());
            ui.result(if certificate.is_whole() { "the device conforms" } else { "the device does not conform" });
        }
    }
    Ok(())
}
