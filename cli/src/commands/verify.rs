//! `pktgen verify`: a formal check that replays every behaviour it finds in virtual time.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use pktgen_core::config::Document;
use pktgen_core::registry::find;
use pktgen_core::time::US;
use pktgen_core::whole::write_whole;
use pktgen_core::{Error, Result};
use pktgen_realtime::capture::claim;
use pktgen_realtime::clock::Stopwatch;
use pktgen_realtime::run::Experiment;
use pktgen_records::{Analysis, Options};
use pktgen_registry::all;
use pktgen_verify::reference::Run;
use pktgen_verify::setup::{Arrivals, Setup, Ticks};
use pktgen_verify::witness::{self, EXPERIMENT};
use pktgen_verify::{Case, CheckedQuery, PROPERTIES, Probe, Proof, Question, RateReport, Solver};
use serde_json::{Value, json};

use crate::args::Verify;
use crate::commands::experiment::{OutFolder, load};
use crate::output::check_outputs;
use crate::schemas;
use crate::ui::Ui;

pub(super) fn run(args: Verify, ui: &Ui) -> Result<u8> {
    let property = find(PROPERTIES, "property", &args.property, "PROPERTY")?;
    let question = property.open(load(&args.experiment)?)?;
    let watch = Stopwatch::start();
    let timeout = Duration::try_from_secs_f64(args.timeout)
        .map_err(|_| Error::config(format!("--timeout {}: give seconds from 0 on", args.timeout)))?;
    let solver = Solver { command: args.solver.clone(), timeout, clock: Box::new(move || watch.elapsed()) };
    // What is found is written at the end: a folder that cannot be used is refused before the work.
    args.out.as_deref().map_or(Ok(()), check_folder)?;
    if let Some(path) = &args.emit {
        emit(question.as_ref(), path, &args.experiment.experiment, ui)?;
        // The model may be in the folder.
        args.out.as_deref().map_or(Ok(()), check_folder)?;
    }
    let mut folder = Folder { name: question.name().to_owned(), asked: args.out.clone(), made: None };
    match args.find {
        Some(_) => find_rate(&args.property, question.as_ref(), &solver, &mut folder, ui),
        None => check(&args.property, question.as_ref(), &solver, &mut folder, ui),
    }
}

/// Refuses a folder of behaviours that is not new or empty, or cannot be written; leaves none behind.
fn check_folder(out: &Path) -> Result<()> {
    claim(out).map(drop)
}

/// Writes the models of an experiment; with several cases, their number is added before the extension.
fn emit(question: &dyn Question, path: &Path, experiment: &Path, ui: &Ui) -> Result<()> {
    let own = |index: usize| {
        let mut own = path.to_owned();
        if question.cases() > 1 {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            let extension = path.extension().map_or("smt2".into(), |e| e.to_string_lossy());
            own.set_file_name(format!("{stem}-{}.{extension}", index + 1));
        }
        own
    };
    let outputs: Vec<PathBuf> = (0..question.cases()).map(own).collect();
    check_outputs(&outputs, [experiment])?;
    for (index, own) in outputs.iter().enumerate() {
        write_whole(own, question.script(index))?;
        ui.detail(&format!("wrote {}", own.display()));
    }
    Ok(())
}

/// The folder of behaviours, created when the first is written.
struct Folder {
    name: String,
    asked: Option<PathBuf>,
    made: Option<PathBuf>,
}

impl Folder {
    /// Returns a new folder for one behaviour.
    fn own(&mut self, parts: &[&str]) -> Result<PathBuf> {
        let base = match &self.made {
            Some(base) => base.clone(),
            None => {
                let base = OutFolder::of(self.asked.take(), &format!("verify-{}", self.name))?;
                let _claim = claim(&base)?;
                std::fs::create_dir_all(parts.iter().fold(base.to_path_buf(), |path, part| path.join(part)))
                    .map_err(Error::io("create folder", &base))?;
                self.made.insert(base.to_path_buf()).clone()
            }
        };
        let own = parts.iter().fold(base, |path, part| path.join(part));
        std::fs::create_dir_all(&own).map_err(Error::io("create folder", &own))?;
        Ok(own)
    }
}

fn check(property: &str, question: &dyn Question, solver: &Solver, folder: &mut Folder, ui: &Ui) -> Result<u8> {
    let bar = ui.bar("verifying", question.cases() as u64);
    let (mut rows, mut objects, mut code) = (Vec::new(), Vec::new(), 0);
    for index in 0..question.cases() {
        let case = question.check(index, solver)?;
        if rows.is_empty() {
            rows.extend(head(property, question.name(), &case.setup));
        }
        let label = format!("slots={},epsilon={}", case.setup.slots, micros(case.setup.epsilon));
        let mut object = case_object(&case);
        rows.push(format!(
            "{:>5} {:>9}   {:<22} {:<22}",
            case.setup.slots,
            micros(case.setup.epsilon),
            verdict(&case.all),
            verdict(&case.any)
        ));
        for (what, key, answer) in [("counterexample", "all", &case.all), ("witness", "any", &case.any)] {
            let Some(found) = &answer.found else { continue };
            let own = folder.own(&[&label, what])?;
            replayed(&own, &format!("{}-{what}", question.name()), &case.setup, &found.run)?;
            object[key]["behaviour"]["folder"] = json!(own.display().to_string());
            object[key]["behaviour"]["replayed"] = json!("same AoM");
            rows.push(format!("                  {what}: {}", averages(&found.run)));
        }
        for (what, answer) in [("all behaviours", &case.all), ("some behaviour", &case.any)] {
            if answer.verdict == Proof::Unknown {
                rows.push(format!(
                    "                  {what}: unknown after {:.2} s: {}",
                    answer.spent.as_secs_f64(),
                    answer.note
                ));
            }
        }
        code = code.max(u8::from(case.all.verdict != Proof::Holds));
        objects.push(object);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let made = folder.made.as_ref().map(|path| path.display().to_string());
    if ui.json() {
        let whole = json!({ "property": property, "name": question.name(), "solver": solver.command, "cases": objects, "folder": made });
        ui.object(&schemas::VERIFICATION, &whole.to_string());
        return Ok(code);
    }
    rows.iter().for_each(|row| ui.result(row));
    if let Some(made) = made {
        ui.result(&format!("replayed: same AoM, for every behaviour above; they are in {made}"));
    }
    Ok(code)
}

/// Returns the lines above the table.
fn head(property: &str, name: &str, setup: &Setup) -> Vec<String> {
    let cluster = |(v, c): (usize, &pktgen_verify::setup::Cluster)| {
        let updates = c.updates;
        match c.arrivals {
            Arrivals::Periodic { period, phase, jitter } => {
                let phase = phase.map_or("any phase".to_owned(), |p| format!("phase {}", micros(p)));
                let jitter = if jitter > 0 { format!(", jitter up to {}", micros(jitter)) } else { String::new() };
                format!("  cluster {v}: {updates} updates, one every {}, {phase}{jitter}", micros(period))
            }
            Arrivals::Free { gap_min, gap_max } => {
                format!("  cluster {v}: {updates} updates, any gaps from {} to {}", micros(gap_min), micros(gap_max))
            }
        }
    };
    let mut rows = vec![format!("{property} of \"{name}\": average peak AoM of any two clusters within epsilon")];
    rows.extend(setup.clusters.iter().enumerate().map(cluster));
    rows.push(format!("  p/C {}, delta_t {}", micros(setup.service), micros(setup.rule.threshold / US)));
    rows.push(format!("{:>5} {:>9}   {:<22} {:<22}", "Qmax", "epsilon", "all behaviours", "some behaviour"));
    rows
}

fn verdict(answer: &CheckedQuery) -> String {
    format!("{} ({:.2} s)", answer.verdict.word(), answer.spent.as_secs_f64())
}

/// Formats a time in the largest unit with a readable number.
fn micros(ticks: Ticks) -> String {
    match ticks.unsigned_abs() {
        0..1000 => format!("{ticks}us"),
        1000..10_000_000 => format!("{}ms", ticks as f64 / 1e3),
        _ => format!("{}s", ticks as f64 / 1e6),
    }
}

/// Formats the clusters' average peaks.
fn averages(run: &Run) -> String {
    let one = |(v, flow): (usize, &pktgen_verify::reference::Flow)| match flow.total() {
        (_, 0) => format!("cluster {v} has no peak"),
        (total, count) => format!("cluster {v} {:.3}ms", total as f64 / count as f64 / 1e3),
    };
    run.flows.iter().enumerate().map(one).collect::<Vec<_>>().join(", ")
}

fn case_object(case: &Case) -> Value {
    let answer = |answer: &CheckedQuery| {
        let mut object = json!({ "verdict": answer.verdict, "seconds": answer.spent.as_secs_f64() });
        if !answer.note.is_empty() {
            object["note"] = json!(answer.note);
        }
        if let Some(found) = &answer.found {
            let mean = |(total, count): (i128, i128)| (count > 0).then(|| total as f64 / count as f64);
            let peaks: Vec<_> = found.run.flows.iter().map(|flow| mean(flow.total())).collect();
            object["behaviour"] = json!({ "found_by": found.source, "average_peak_us": peaks });
        }
        object
    };
    json!({ "slots": case.setup.slots, "epsilon_us": case.setup.epsilon, "all": answer(&case.all), "any": answer(&case.any) })
}

/// Writes a behaviour into `folder`, replays it in virtual time, and requires the same deliveries and peaks.
fn replayed(folder: &Path, name: &str, setup: &Setup, run: &Run) -> Result<()> {
    let about = format!("found by pktgen verify: {}", averages(run));
    let run = witness::write(folder, name, &about, setup, run)?;
    let path = folder.join(EXPERIMENT);
    let text = std::fs::read_to_string(&path).map_err(Error::io("read", &path))?;
    let experiment = Experiment::open(all(), Document::parse(&text, &path.display().to_string())?)?;
    let out = folder.join("run");
    let finished = experiment.execute(&out, 1, &AtomicBool::new(false), &|_, _| {})?;
    let differs = |what: String| {
        Error::Invalid(format!(
            "{}: the replay is not the behaviour that was found: {what}; this is a defect of pktgen, please report it with this folder",
            folder.display()
        ))
    };
    if let Some(invalid) = finished.iter().find(|run| !run.validity.is_valid()) {
        return Err(differs(invalid.validity.why()));
    }
    let analysis = Analysis::open(&out, Options::default())?;
    let lines = analysis.lines()?;
    let Some(resolved) = &analysis.resolved else { return Err(differs("it kept no records".into())) };
    let records = resolved.streams.whole()?;
    let received = &records.received;
    for (v, flow) in run.flows.iter().enumerate() {
        let expected: Vec<_> = flow.deliveries.iter().map(|d| (d.time * US, flow.generated[d.update] * US)).collect();
        let rows = (0..received.t_recv_ps.len()).filter(|row| usize::from(received.cluster[*row]) == v);
        let measured: Vec<_> = rows.map(|row| (received.t_recv_ps[row], received.newest_gen_ps[row])).collect();
        if expected != measured {
            return Err(differs(format!(
                "deliveries of cluster {v}, (time, generation) in ps: {expected:?} became {measured:?}"
            )));
        }
        let own = |line: &&pktgen_records::Line| {
            line.metric == "aom_peak_mean"
                && line.labels.get("flow") == Some(&json!("cluster"))
                && line.labels.get("id") == Some(&json!(v))
        };
        let measured = lines.iter().find(own).and_then(|line| line.value);
        let expected = match flow.total() {
            (_, 0) => None,
            (total, count) => Some((total * i128::from(US)) as f64 / count as f64 / 1e3),
        };
        // Both are one division of the same integers; only the last bit may differ.
        let same = match (expected, measured) {
            (Some(a), Some(b)) => (a - b).abs() <= a.abs() * 1e-14,
            (a, b) => a == b,
        };
        if !same {
            return Err(differs(format!("mean peak of cluster {v} in ns: {expected:?} became {measured:?}")));
        }
    }
    Ok(())
}

fn find_rate(property: &str, question: &dyn Question, solver: &Solver, folder: &mut Folder, ui: &Ui) -> Result<u8> {
    let (mut objects, mut code) = (Vec::new(), 0);
    for index in 0..question.cases() {
        let report = question.max_rate(index, solver, &mut |probe| ui.detail(&probe_line(probe)))?;
        let Some(setup) = report.probes.values().next().map(|probe| probe.setup.clone()) else {
            return Err(Error::config("--find max-rate: no rate could be tested; check verify.access"));
        };
        if let Some(beyond) = &report.beyond
            && let Some(found) = &beyond.answer.found
        {
            let label = format!("slots={},epsilon={}", setup.slots, micros(setup.epsilon));
            let own = folder.own(&[&label, &format!("period={}us", beyond.period)])?;
            replayed(&own, &format!("{}-max-rate", question.name()), &beyond.setup, &found.run)?;
        }
        code = code.max(u8::from(report.holds.is_none()));
        objects.push(rate_object(&report, &setup));
        if !ui.json() {
            rate_rows(&report, &setup).iter().for_each(|row| ui.result(row));
        }
    }
    let made = folder.made.as_ref().map(|path| path.display().to_string());
    if ui.json() {
        let whole = json!({ "property": property, "name": question.name(), "find": "max-rate", "cases": objects, "folder": made });
        ui.object(&schemas::VERIFIED_RATE, &whole.to_string());
    } else if let Some(made) = made {
        ui.result(&format!("replayed: same AoM, for every counterexample above; they are in {made}"));
    }
    Ok(code)
}

fn probe_line(probe: &Probe) -> String {
    format!("  period {}us ({:.3} updates/s): {}", probe.period, 1e6 / probe.period as f64, verdict(&probe.answer))
}

fn rate_rows(report: &RateReport, setup: &Setup) -> Vec<String> {
    let whose =
        report.cluster.map_or("all clusters scaled, cluster 0".to_owned(), |v| format!("cluster {v} scaled, it"));
    let mut rows = vec![format!("Qmax {}, epsilon {}: {whose} at", setup.slots, micros(setup.epsilon))];
    match &report.holds {
        Some(probe) => rows.push(probe_line(probe)),
        None => rows.push(format!(
            "  no rate was found for which all behaviours keep the objective ({} tried)",
            report.probes.len()
        )),
    }
    match &report.beyond {
        Some(probe) => rows.push(probe_line(probe)),
        None if report.holds.is_some() => {
            rows.push("  no higher rate could be asked: the workers' links would be too slow".into())
        }
        None => {}
    }
    rows.push(format!(
        "  {} rates tried; between them the objective is assumed to be monotone in the rate",
        report.probes.len()
    ));
    if !report.violations.is_empty() {
        let word = |period: &Ticks| report.probes.get(period).map_or("", |probe| probe.answer.verdict.word());
        let list: Vec<_> = report.violations.iter().map(|period| format!("{period}us {}", word(period))).collect();
        rows.push(format!("  it is not everywhere: {}", list.join(", ")));
    }
    rows
}

fn rate_object(report: &RateReport, setup: &Setup) -> Value {
    let probe = |probe: &Probe| {
        json!({ "period_us": probe.period, "updates_per_s": 1e6 / probe.period as f64, "verdict": probe.answer.verdict,
            "seconds": probe.answer.spent.as_secs_f64() })
    };
    json!({
        "slots": setup.slots,
        "epsilon_us": setup.epsilon,
        "cluster": report.cluster,
        "holds": report.holds.as_ref().map(probe),
        "beyond": report.beyond.as_ref().map(probe),
        "probes": report.probes.values().map(probe).collect::<Vec<_>>(),
        "not_monotone_at_us": report.violations,
    })
}
