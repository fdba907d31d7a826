//! `pktgen doctor`: checks what this host can do, with reasons and remedies.

use pktgen_core::Result;
use pktgen_doctor::{Finding, Host, Level, Suitability, View, examine, judge, text, transports};
use pktgen_realtime::driver::real_time::Roles;

use crate::args;
use crate::args::Doctor;
use crate::commands::experiment::{load, open};
use crate::schemas;
use crate::ui::Ui;

/// Exit code if an experiment cannot run here.
const CANNOT: u8 = 3;

pub(super) fn run(args: Doctor, ui: &Ui) -> Result<u8> {
    let host = Host::this();
    let verdict = match args.experiment {
        None => None,
        Some(experiment) => {
            let document = load(&args::Experiment { experiment, set: args.set })?;
            let roles = args.role.as_deref().and_then(Roles::named).unwrap_or(Roles::ALL);
            Some(judge(&open(document)?, roles, &host)?)
        }
    };
    let mut interfaces = args.iface;
    interfaces.extend(verdict.iter().flat_map(|verdict| verdict.interfaces.clone()));
    let view = View::new(&host, interfaces, args.probe);
    if let Some(verdict) = &verdict {
        print("this experiment", &verdict.findings, ui);
    }
    print("this host", &examine(&view), ui);
    print("transports", &transports(&view), ui);
    Ok(verdict.map_or(0, |verdict| conclude(&verdict, ui)))
}

/// Prints a part of the result: an object per line for programs, a heading and aligned lines as text.
fn print(heading: &str, findings: &[Finding], ui: &Ui) {
    if !ui.json() {
        ui.result(&format!("{heading}\n{}", text(findings)));
        return;
    }
    for finding in findings {
        match serde_json::to_string(finding) {
            Ok(line) => ui.object(&schemas::FINDING, &line),
            Err(error) => ui.error(&format!("a finding of {} cannot be written as JSON: {error}", finding.check)),
        }
    }
}

/// Returns the exit code; if the experiment cannot run here, prints the first reason and its remedy on stderr.
fn conclude(verdict: &Suitability, ui: &Ui) -> u8 {
    let reasons: Vec<_> = verdict.findings.iter().filter(|finding| finding.level == Level::Cannot).collect();
    let Some(Finding { subject, value, why, remedy, .. }) = reasons.first() else { return 0 };
    let more = match reasons.len() {
        1 => String::new(),
        n => format!(" (and {} more)", n - 1),
    };
    ui.error(&format!("the experiment cannot run on this host: {subject}, {value}: {why}; {remedy}{more}"));
    CANNOT
}
