//! The parts of a run, of processes or hosts of their own, joined into one run dir whose balance closes.

use std::path::{Path, PathBuf};

use hdrhistogram::Histogram;
use pktgen_generator::config::Document;
use pktgen_generator::record::{Counters, Manifest, RunState};
use pktgen_generator::time::{MS, NS, Time};
use pktgen_generator::{Error, Result};

use super::real::settle_into;
use super::{Experiment, Finished, text};
use crate::capture::{PartDirs, claim, join_records, write_manifest};
use crate::driver::real_time::RealOutcome;
use crate::endpoint::ENDPOINTS;
use crate::ledger::Ledger;
use crate::plan::source;

/// The parts, in the order of the way.
const PARTS: [&str; 3] = ["workers", "device", "server"];
/// Sections of a configuration that may differ between the parts: each has interfaces and files of its own.
const OWN: [&str; 2] = ["transport", "capture"];
/// How far clocks of different hosts may be apart.
const SLACK: Time = 100 * MS;

/// Joins the run dirs of workers, device and, where there is one, server, in any order, into `out`.
pub fn merge(dirs: &[PathBuf], out: &Path) -> Result<Finished> {
    let parts = find_parts(dirs)?;
    let workers = &parts[0];
    for other in &parts[1..] {
        same_run(workers, other)?;
    }
    let (late, one_host) = anchors(&parts)?;
    same_time(&parts, &late, if one_host { 0 } else { SLACK })?;
    let dir_of = |place: usize| (parts[place].dir.as_path(), late[place]);
    // The books of hardware are empty, as those of the workers' part are.
    let external = workers.manifest.external.is_some();
    let server = parts.iter().position(|part| part.name() == PARTS[2]);
    let dirs = PartDirs {
        workers: &workers.dir,
        device: if external { dir_of(0) } else { dir_of(1) },
        server: server.map(dir_of),
        workers_receive: workers.manifest.training.is_some(),
    };
    let mut manifest = joined(&parts, &late, one_host);
    let name = workers.dir.join("manifest.json").display().to_string();
    let experiment = Experiment::open(Document::parse(&workers.manifest.config, &name)?)?;
    let run = experiment.choose(None)?;
    let mut plan = experiment.prepare(run)?;
    claim(out)?;
    join_records(&dirs, out)?;
    let ledger = std::mem::replace(&mut plan.engine.ledger, Ledger::new(0, 0, None));
    let lateness = Histogram::new(3).map_err(|e| Error::Invalid(format!("no histogram: {e}")))?;
    let outcome = RealOutcome {
        counters: std::mem::take(&mut manifest.counters),
        lateness,
        skipped: 0,
        achieved_pps: None,
        faults: faults(&parts),
        facts: Vec::new(),
        interrupted: parts.iter().any(|part| part.manifest.state == RunState::Interrupted),
        cut: false,
    };
    let slack = if one_host { 0 } else { SLACK };
    settle_into(&mut manifest, out, source(experiment.resolve(run)?, run.seed)?, outcome, ledger, slack)?;
    write_manifest(out, &manifest)?;
    let sweep = workers.dir.join("sweep.json");
    std::fs::copy(&sweep, out.join("sweep.json")).map_err(Error::io("copy", &sweep))?;
    Ok(Finished {
        dir: out.to_owned(),
        labels: manifest.labels,
        seed: run.seed,
        achieved_pps: None,
        balance: manifest.balance,
        validity: manifest.validity,
        state: manifest.state,
    })
}

/// A part: its folder and manifest.
struct Part {
    dir: PathBuf,
    manifest: Manifest,
}

impl Part {
    fn read(dir: &Path) -> Result<Self> {
        let path = dir.join("manifest.json");
        let text = std::fs::read(&path).map_err(|e| {
            Error::config(format!(
                "{}: it cannot be read: {e}; give the run dirs of workers, device and, if there is one, server",
                path.display()
            ))
        })?;
        let manifest: Manifest =
            serde_json::from_slice(&text).map_err(|e| Error::data(&path, format!("not a run manifest: {e}")))?;
        if manifest.state == RunState::Running {
            return Err(Error::data(&path, "the run is still under way, or was killed: pktgen analyze --recover"));
        }
        if manifest.part.is_some() && manifest.records != "full" {
            return Err(Error::config(format!(
                "{}: its records are \"{}\", and the balance is settled from all of them; run the parts with capture.records = \"full\"",
                dir.display(),
                manifest.records
            )));
        }
        Ok(Part { dir: dir.to_owned(), manifest })
    }

    fn name(&self) -> &str {
        self.manifest.part.as_deref().unwrap_or("whole run")
    }

    fn fact(&self, key: &str) -> &str {
        self.manifest.host.get(key).map_or("", String::as_str)
    }

    /// Is it of a run with a server? Without one the results go back to the workers.
    fn has_server(&self) -> Result<bool> {
        let document = Document::parse(&self.manifest.config, &self.dir.join("manifest.json").display().to_string())?;
        let workers = text(&document, "endpoint.workers", "open_loop");
        Ok(ENDPOINTS.iter().find(|kind| kind.name() == workers).is_none_or(|kind| kind.has_server()))
    }

    /// The configuration without what may differ.
    fn shared_config(&self) -> String {
        let own =
            |line: &str| OWN.iter().any(|name| line == format!("[{name}]") || line.starts_with(&format!("[{name}.")));
        let mut keep = true;
        let lines = self.manifest.config.lines().filter(|line| {
            if line.starts_with('[') {
                keep = !own(line);
            }
            keep
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// One part of each kind, in the order of the way; of a run without a server two.
fn find_parts(dirs: &[PathBuf]) -> Result<Vec<Part>> {
    let mut found: [Option<Part>; 3] = [None, None, None];
    for dir in dirs {
        let part = Part::read(dir)?;
        let Some(place) = PARTS.iter().position(|name| *name == part.name()) else {
            return Err(Error::config(format!(
                "{} is a {}, not a part of one: parts are made by pktgen replay --role workers, pktgen target and pktgen capture",
                dir.display(),
                part.name()
            )));
        };
        if let Some(other) = found[place].replace(part) {
            let name = PARTS[place];
            return Err(Error::config(format!(
                "{} and {} are both the {name} part; give one of each: workers, device, server",
                other.dir.display(),
                dir.display()
            )));
        }
    }
    let mut has_server = true;
    let external = found.iter().flatten().any(|part| part.manifest.external.is_some());
    for part in found.iter().flatten() {
        has_server &= part.has_server()?;
    }
    let places = if has_server { PARTS.len() } else { PARTS.len() - 1 };
    let missing = found[..places].iter().zip(PARTS).position(|(part, name)| {
        // Hardware leaves no run dir.
        part.is_none() && !(external && name == PARTS[1])
    });
    if let Some(missing) = missing {
        let all = if has_server { "all three: workers, device, server" } else { "both: workers, device" };
        return Err(Error::config(format!("the {} part is missing; give the run dirs of {all}", PARTS[missing])));
    }
    if let Some(server) = found[2].as_ref().filter(|_| !has_server) {
        return Err(Error::config(format!(
            "{} is a server part, and others are of a run without a server: workers and device are all of it",
            server.dir.display()
        )));
    }
    Ok(found.into_iter().flatten().collect())
}

/// Refuses parts of different runs.
fn same_run(workers: &Part, other: &Part) -> Result<()> {
    let (a, b) = (&workers.manifest, &other.manifest);
    let what = if a.seed != b.seed {
        format!("seed {} and {}", a.seed, b.seed)
    } else if a.trace_hash != b.trace_hash {
        "different workloads".to_owned()
    } else if let Some(line) = first_difference(&workers.shared_config(), &other.shared_config()) {
        line
    } else {
        return Ok(());
    };
    Err(Error::config(format!("{} and {} are not of one run: {what}", workers.dir.display(), other.dir.display())))
}

fn first_difference(a: &str, b: &str) -> Option<String> {
    let (mut a, mut b) = (a.lines(), b.lines());
    loop {
        match (a.next(), b.next()) {
            (None, None) => return None,
            (x, y) if x == y => {}
            (x, y) => return Some(format!("\"{}\" and \"{}\"", x.unwrap_or_default(), y.unwrap_or_default())),
        }
    }
}

/// How much later than the workers each part started, and whether that is by the same clock.
fn anchors(parts: &[Part]) -> Result<(Vec<Time>, bool)> {
    let boot = parts[0].fact("clock.boot_id");
    let one_host = !boot.is_empty() && parts.iter().all(|part| part.fact("clock.boot_id") == boot);
    let anchor_ns = |part: &Part| -> Result<i64> {
        if !one_host {
            return Ok(part.manifest.anchor_unix_ns as i64);
        }
        let text = part.fact("clock.anchor_monotonic_ns");
        text.parse().map_err(|_| Error::data(&part.dir, format!("its clock's anchor \"{text}\" is no number")))
    };
    let base = anchor_ns(&parts[0])?;
    let late = parts.iter().map(|part| Ok((anchor_ns(part)? - base) * NS)).collect::<Result<_>>()?;
    Ok((late, one_host))
}

/// Refuses parts that did not run at the same time: they are of different executions of one configuration.
fn same_time(parts: &[Part], late: &[Time], slack: Time) -> Result<()> {
    let workers = &parts[0];
    let end = workers.manifest.counters.end_ps;
    for (part, &start) in parts.iter().zip(late).skip(1) {
        if start > end + slack || start + part.manifest.counters.end_ps < -slack {
            return Err(Error::config(format!(
                "{} and {} did not run at the same time: one began {:.3} s after the other and they lasted {:.3} s and {:.3} s",
                workers.dir.display(),
                part.dir.display(),
                start as f64 / 1e12,
                end as f64 / 1e12,
                part.manifest.counters.end_ps as f64 / 1e12
            )));
        }
    }
    Ok(())
}

/// What counted against the parts.
fn faults(parts: &[Part]) -> Vec<String> {
    let mut faults = Vec::new();
    for part in parts {
        let reasons = part.manifest.validity.reasons.iter().filter(|reason| !reason.starts_with("note:"));
        faults.extend(reasons.map(|reason| format!("{}: {reason}", part.name())));
    }
    faults
}

/// The manifest of the whole, the account still open.
fn joined(parts: &[Part], late: &[Time], one_host: bool) -> Manifest {
    let mut manifest = parts[0].manifest.clone();
    manifest.part = None;
    manifest.host.clear();
    manifest.validity.reasons.clear();
    manifest.state = RunState::Finished;
    if !one_host {
        manifest.validity.reasons.push(
            "note: the parts are of different hosts: their times were joined by their wall clocks, and one-way ages are as \
             exact as those agree"
                .into(),
        );
    }
    for part in parts {
        let of_part = |(key, value): (&String, &String)| (format!("{}.{key}", part.name()), value.clone());
        manifest.host.extend(part.manifest.host.iter().map(of_part));
        let told =
            part.manifest.validity.reasons.iter().filter(|r| r.starts_with("note:") && !r.contains("pktgen merge"));
        for reason in told {
            if !manifest.validity.reasons.contains(reason) {
                manifest.validity.reasons.push(reason.clone());
            }
        }
    }
    for (part, late) in parts.iter().zip(late).skip(1) {
        let own = &part.manifest.counters;
        let received_ps = own.received_ps.map(|(first, last)| (first + late, last + late));
        manifest.counters.add(&Counters { end_ps: own.end_ps + late, received_ps, ..own.clone() });
    }
    manifest
}
