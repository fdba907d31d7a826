//! `pktgen list --keys`: the keys of an experiment's sections, as documented next to the code that reads them.

use pktgen_calibrate::CalibrateKeys;
use pktgen_certify::CertifySettings;
use pktgen_core::config::{Key, KeyTables};
use pktgen_core::registry::{Named, suggest};
use pktgen_core::user_metric::UserMetricKeys;
use pktgen_core::{Error, Result, topology};
use pktgen_engine::endpoint::server;
use pktgen_engine::target::port;
use pktgen_realtime::launch::{LAUNCH_KEYS, Probing};
use pktgen_realtime::lockstep::Lockstep;
use pktgen_realtime::transport::{self, RealTime};
use pktgen_workload::{schedule, workload};
use serde_json::json;

use super::structure;
use crate::schemas;
use crate::ui::Ui;

const HEAD: &str = "\
<!-- Written by `pktgen list --keys --markdown`; `UPDATE_DOCS=1 cargo test --release --workspace --test cli docs::` writes it anew. -->

# Settings

The keys of an experiment's sections, by what reads them; [verify.md](verify.md) has those of `[verify]`. `pktgen list --keys KIND` says the same, with `--json` one key a line;
a sweep may also write those of alternatives. [experiments.md](experiments.md) says how sections, files and `--set` go together.
";

/// A reader of keys: an entry of a registry, or the common part of all entries.
struct Reader {
    section: &'static str,
    kind: &'static str,
    name: &'static str,
    about: &'static str,
    keys: Vec<Key>,
}

impl Reader {
    fn new(section: &'static str, kind: &'static str, of: (&'static str, &'static str), keys: &[KeyTables]) -> Self {
        let mut all: Vec<Key> = Vec::new();
        for key in keys.iter().copied().flatten().copied().flatten() {
            if !all.iter().any(|known| known.name == key.name) {
                all.push(*key);
            }
        }
        Reader { section, kind, name: of.0, about: of.1, keys: all }
    }

    /// The keys that are read whichever entry of a registry is chosen: `names` choose it.
    fn common(section: &'static str, kind: &'static str, names: KeyTables, keys: KeyTables) -> Self {
        Self::new(section, kind, ("all", "Read whichever is chosen."), &[names, keys])
    }

    /// The keys of a section without a registry.
    fn own(section: &'static str, kind: &'static str, about: &'static str, keys: &'static [Key]) -> Self {
        Self { section, kind, name: kind, about, keys: keys.to_vec() }
    }
}

fn of<T: Named + ?Sized>(entry: &T) -> (&'static str, &'static str) {
    (entry.name(), entry.about())
}

/// Returns every reader with keys, section by section.
fn readers() -> Vec<Reader> {
    let catalogue = pktgen_registry::all();
    let mut all = vec![Reader::own("top level", "top", "Keys above all sections.", structure::TOP)];
    all.push(Reader::common("workload", "workloads", &[structure::WORKLOAD], workload::COMMON));
    all.extend(workload::WORKLOADS.iter().map(|it| Reader::new("workload", "workloads", of(*it), &[it.keys()])));
    all.push(Reader::common("schedule", "schedules", &[structure::SCHEDULE], schedule::COMMON));
    all.extend(schedule::SCHEDULES.iter().map(|it| Reader::new("schedule", "schedules", of(*it), &[it.keys()])));
    all.push(Reader::own("format", "format", "What the wire carries.", structure::FORMAT));
    all.push(Reader::common("topology", "topologies", &[structure::TOPOLOGY], &[]));
    all.extend(topology::SHAPES.iter().map(|it| Reader::new("topology", "topologies", of(*it), &[it.keys()])));
    all.push(Reader::common("endpoint", "endpoints", &[structure::ENDPOINT], server::KEYS));
    let endpoint = |it: &&'static dyn pktgen_engine::endpoint::WorkerKind| {
        Reader::new("endpoint", "endpoints", of(*it), &[it.keys(), it.server_keys()])
    };
    all.extend(catalogue.workers.iter().map(endpoint));
    all.push(Reader::common("target", "programs", &[structure::TARGET], &[port::PortSettings::KEYS, Probing::KEYS]));
    all.extend(catalogue.programs.iter().map(|it| Reader::new("target", "programs", of(*it), &[it.keys()])));
    all.extend(catalogue.queues.iter().map(|it| Reader::new("target", "queues", of(*it), &[it.keys()])));
    all.push(Reader::new("target.launch", "launch", ("all", "A device that is a command."), &[&[LAUNCH_KEYS]]));
    let device = ("device", "A device of another process, in virtual time.");
    all.push(Reader::new("target.lockstep", "lockstep", device, &[&[Lockstep::KEYS]]));
    all.push(Reader::common("transport", "transports", &[structure::TRANSPORT], &[RealTime::KEYS]));
    let filters = transport::middleware::MIDDLEWARE.iter();
    all.extend(filters.map(|it| Reader::new("transport", "middleware", of(*it), &[it.keys()])));
    all.push(Reader::own("capture", "capture", "What a run records, and when it ends.", structure::CAPTURE));
    all.push(Reader::own("sweep", "sweep", "More than one run.", structure::SWEEP));
    all.push(Reader::new(
        "metrics",
        "metrics",
        ("NAME", "A metric of the experiment's own."),
        &[&[UserMetricKeys::KEYS]],
    ));
    all.push(Reader::own("report", "report", "The report of the runs.", structure::REPORT));
    all.push(Reader::own("paper", "paper", "Published values beside those of the runs.", structure::PAPER));
    let certify = ("certify", "How `pktgen certify` waits and repeats.");
    all.push(Reader::new("certify", "certify", certify, &[&[CertifySettings::KEYS]]));
    let calibrate =
        ("calibrate", "How `pktgen calibrate` searches; docs/calibrate.md has the keys of parameters and targets.");
    all.push(Reader::new("calibrate", "calibrate", calibrate, &[&[CalibrateKeys::KEYS, structure::CALIBRATE]]));
    all.push(Reader::common("study", "studies", &[structure::STUDY], &[]));
    all.extend(pktgen_planning::STUDIES.iter().map(|it| Reader::new("study", "studies", of(*it), &[it.keys()])));
    all.retain(|reader| !reader.keys.is_empty());
    all
}

/// Prints the keys of `kind`, or all.
pub(super) fn run(kind: Option<&str>, markdown: bool, ui: &Ui) -> Result<u8> {
    let mut readers = readers();
    if let Some(kind) = kind {
        let mut kinds: Vec<_> = readers.iter().map(|reader| reader.kind).collect();
        kinds.dedup();
        readers.retain(|reader| reader.kind == kind);
        if readers.is_empty() {
            let (near, kinds) = (suggest(kind, &kinds), kinds.join(", "));
            return Err(Error::config(format!("there are no keys of \"{kind}\"{near}; there are those of: {kinds}")));
        }
    }
    if markdown {
        ui.result(page(&readers).trim_end());
        return Ok(0);
    }
    for Reader { section, kind, name, about, keys } in &readers {
        if !ui.json() {
            ui.result(&format!("[{section}] {kind}\n  {name:<14} {about}"));
        }
        for key in keys {
            let (default, range) = (key.default(), key.range());
            ui.result(&match ui.json() {
                true => schemas::KEY.stamp(
                    &json!({
                        "section": section, "kind": kind, "name": name, "key": key.name, "default": default,
                        "range": range, "about": key.about,
                    })
                    .to_string(),
                ),
                false => format!("    {:<16} {} [default: {default}; {range}]", key.name, key.about),
            });
        }
    }
    Ok(0)
}

fn page(readers: &[Reader]) -> String {
    let mut out = HEAD.to_owned();
    let mut section = "";
    for reader in readers {
        if section != reader.section {
            section = reader.section;
            out += &format!("\n## [{section}]\n");
        }
        let Reader { kind, name, about, .. } = reader;
        out += &format!(
            "\n### {kind}: {name}\n\n{about}\n\n| key | default | values | meaning |\n| --- | --- | --- | --- |\n"
        );
        for key in &reader.keys {
            let default = key.default();
            let in_words = default.contains(' ') && !default.starts_with(['"', '[']);
            let default = if in_words { default } else { format!("`{default}`") };
            let cells = [format!("`{}`", key.name), default, key.range(), key.about.to_owned()];
            out += &format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|")).join(" | "));
        }
    }
    out
}
