//! Writes a behaviour as an experiment: a trace, an experiment file, and the expected result of replaying it.
//!
//! Called by the CLI's `verify`, which then replays it in virtual time and compares. One host per cluster with one
//! worker, one device, the server; frames and rates for which every transmission takes a whole number of ticks.

use std::fmt::Write;
use std::path::{Path, absolute};

use pktgen_core::time::US;
use pktgen_core::whole::write_whole;
use pktgen_core::{Error, Result};
use pktgen_wire::wire::frame::HEAD;
use pktgen_wire::wire::update::ACK_HEAD;
use pktgen_workload::trace::Writer;
use pktgen_workload::workload::Update;
use serde_json::json;

use super::reference::Run;
use super::setup::{Setup, Ticks};

/// The experiment file of a witness.
pub const EXPERIMENT: &str = "experiment.toml";
/// The expected result of its replay.
pub const EXPECTED: &str = "expected.json";
/// Its trace.
pub const TRACE: &str = "trace.parquet";

/// Returns the same behaviour with time 0 at its first update, as in the replay of a trace.
pub fn shifted(run: &Run) -> Run {
    let first = run.flows.iter().filter_map(|flow| flow.generated.first()).min().copied().unwrap_or(0);
    let mut run = run.clone();
    for flow in &mut run.flows {
        flow.generated.iter_mut().for_each(|t| *t -= first);
        flow.latest_start.iter_mut().flatten().for_each(|t| *t -= first);
        for delivery in &mut flow.deliveries {
            delivery.start -= first;
            delivery.time -= first;
        }
    }
    run
}

/// Writes the three files into the existing `folder`; returns the behaviour as in the files.
pub fn write(folder: &Path, name: &str, about: &str, setup: &Setup, run: &Run) -> Result<Run> {
    let run = shifted(run);
    let Some(bytes) = setup.frame_bytes() else {
        return Err(Error::config("verify.service: no frame fits these times; choose rounder ones"));
    };
    let trace = folder.join(TRACE);
    write_trace(&trace, bytes as u32, name, &run)?;
    let save = |file: &str, text: String| {
        let path = folder.join(file);
        write_whole(&path, text).map(drop)
    };
    let trace = absolute(&trace).map_err(Error::io("find", &trace))?;
    save(EXPERIMENT, experiment(name, about, &trace, bytes, setup, &run))?;
    let mut expected = serde_json::to_string_pretty(&expected(setup, &run)).unwrap_or_default();
    expected.push('\n');
    save(EXPECTED, expected)?;
    Ok(run)
}

fn write_trace(path: &Path, bytes: u32, name: &str, run: &Run) -> Result<()> {
    let mut updates = Vec::new();
    for (v, flow) in run.flows.iter().enumerate() {
        for (k, t) in flow.generated.iter().enumerate() {
            let (cluster, worker, seq) = (v as u16, v as u32, k as u32);
            updates.push(Update { t_gen: t * US, cluster, worker, seq, bytes, reward: Some(0.0), iteration: None });
        }
    }
    updates.sort_by_key(|update| (update.t_gen, update.worker));
    let mut writer = Writer::create(path)?;
    for update in &updates {
        writer.push(update, &[])?;
    }
    let details = [("behaviour".to_owned(), name.to_owned())].into();
    writer.finish("synthesised", details, "CC0-1.0").map(drop)
}

/// Formats a text for TOML.
fn quoted(text: &str) -> String {
    pktgen_core::config::Value::Text(text.to_owned()).to_toml()
}

fn experiment(name: &str, about: &str, trace: &Path, bytes: usize, setup: &Setup, run: &Run) -> String {
    let rate = |bits: usize, ticks: Ticks| format!("{}bps", bits as i64 * US / ticks);
    let (update, ack) = (bytes * 8, (HEAD + ACK_HEAD) * 8);
    let clusters = 0..setup.clusters.len();
    let list = |items: Vec<String>| format!("[{}]", items.join(", "));
    let hosts = list(clusters.clone().map(|v| format!("\"w{v} {v}\"")).collect());
    // Workers' links first and in order: at equal ticks, updates arrive by cluster, and before an ACK.
    let (up, down) = (rate(update, setup.access), rate(ack, setup.ack));
    let mut links: Vec<_> = clusters.map(|v| format!("\"w{v} olaf {up} {down}\"")).collect();
    links.push(format!("\"olaf ps {} {down}\"", rate(update, setup.service)));
    let choices = list(run.flows.iter().map(|flow| format!("\"{}\"", flow.choices)).collect());
    let mut text = String::new();
    // Writing to a text cannot fail.
    let _ = write!(
        text,
        "# Made by `pktgen verify`; {EXPECTED} has what it must give. If the folder was moved, add\n\
         # --set workload.trace=FILE to `pktgen replay`.\n\
         name = {}\nabout = {}\nseed = 1\n\n\
         [workload]\nkind = \"trace\"\ntrace = {}\n\n\
         [topology]\nkind = \"custom\"\ndevices = [\"olaf\"]\nserver = \"ps\"\nhosts = {hosts}\nlinks = {}\ndelay = \"{}us\"\noverhead = \"0B\"\n\n\
         [target]\nprogram = \"olaf\"\nqueue = \"olaf\"\nslots = {}\nslot_in_transmission = {}\nreward_filter = false\n",
        quoted(name),
        quoted(about),
        quoted(&trace.display().to_string()),
        list(links),
        setup.delay,
        setup.slots,
        setup.hold_slot,
    );
    let window = setup.window.map_or("ever".into(), |window| format!("{window}us"));
    let _ = writeln!(text, "active_window = \"{window}\"");
    let _ = write!(
        text,
        "\n[endpoint]\nworkers = \"transmission_control\"\nack_model = \"none\"\ndelta_t = \"{}ps\"\nslope = {}\nchoices = {choices}\n",
        setup.rule.threshold,
        setup.slope.to_toml(),
    );
    text
}

fn expected(setup: &Setup, run: &Run) -> serde_json::Value {
    let flows = run.flows.iter().enumerate().map(|(v, flow)| {
        let (total, count) = flow.total();
        let deliveries = flow.deliveries.iter();
        json!({
            "cluster": v,
            "generated_us": flow.generated,
            "sent": flow.sent,
            "choices": flow.choices,
            "dropped": flow.dropped,
            "delivered_us": deliveries.clone().map(|d| d.time).collect::<Vec<_>>(),
            "delivered_update": deliveries.map(|d| d.update).collect::<Vec<_>>(),
            "peaks_us": flow.peaks,
            "average_peak_us": (count > 0).then(|| total as f64 / count as f64),
        })
    });
    json!({
        "epsilon_us": setup.epsilon,
        "slots": setup.slots,
        "keeps_objective": run.keeps(setup.epsilon),
        "clusters": flows.collect::<Vec<_>>(),
    })
}
