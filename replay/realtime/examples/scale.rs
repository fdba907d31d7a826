//! What an event of virtual time costs in networks of any size: `scale SYSTEM PORTS WORKERS UPDATES`, or `scale EXPERIMENT.toml`.
//!
//! The network is a fat tree of switches of PORTS ports (and one more below each edge, for the server). `olaf`: workers in clusters send an update of 256 B
//! every 100 ms through Olaf's queues, the links carry a thirtieth of what arrives at the server's, and ACKs go back to clusters. `reduce`: every
//! switch sums, and sums go back to all workers. Prints seconds to plan and to run, events, ns per event, and the most memory that was in use.

#![expect(clippy::print_stdout, reason = "an example says what it did")]

use std::sync::atomic::AtomicBool;

use pktgen_core::config::Document;
use pktgen_core::record::{Book, Received, Sent};
use pktgen_core::time::{SECOND, Time};
use pktgen_core::{Error, Result};
use pktgen_engine::driver::virtual_time::Simulation;
use pktgen_engine::recorder::Recorder;
use pktgen_realtime::clock::RunClock;
use pktgen_realtime::run::{Experiment, use_large_pages};
use pktgen_registry::all;

/// No records; how many updates were sent.
struct Count(u64);

impl Recorder for Count {
    fn sent(&mut self, _row: &Sent) -> Result<()> {
        self.0 += 1;
        Ok(())
    }
    fn book(&mut self, _row: &Book) -> Result<()> {
        Ok(())
    }
    fn received(&mut self, _row: &Received, _frame: &[u8]) -> Result<()> {
        Ok(())
    }
}

fn seconds(t: Time) -> f64 {
    t as f64 / SECOND as f64
}

fn text(system: &str, ports: u64, workers: u64, updates: u64) -> Result<String> {
    let half = ports / 2;
    let network = format!(
        "[topology]\nkind = \"fat_tree\"\npods = {ports}\npod_switches = {half}\ncores = {}\nedge_hosts = {}\n",
        half * half,
        half + 1
    );
    let of = |clusters: u64| {
        let each = workers / clusters;
        format!(
            "[workload]\nkind = \"rl\"\nclusters = {clusters}\nworkers_per_cluster = {each}\nupdates = {updates}\nbytes = \"256B\"\n"
        )
    };
    match system {
        "olaf" => {
            let (clusters, rate) = ((workers / 16).max(1), 768 * workers);
            Ok(format!(
                "{network}rate = \"{rate}bps\"\n{}[schedule]\nkind = \"constant\"\nperiod = \"100ms\"\njitter = 0.3\n\
                 [target]\nprogram = \"olaf\"\nqueue = \"olaf\"\nslots = {clusters}\n",
                of(clusters)
            ))
        }
        "reduce" => Ok(format!(
            "{network}rate = \"100Gbps\"\n{}[schedule]\nkind = \"constant\"\nperiod = \"1ms\"\n\
             [endpoint]\nallreduce = true\n[target]\nprogram = \"reduce\"\nopen_messages = {}\nslots = 65536\n",
            of((workers / 4096).max(1)),
            updates.clamp(1, 64)
        )),
        _ => Err(Error::config(format!("system \"{system}\": olaf or reduce"))),
    }
}

/// The most memory that this process had in use, in bytes.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// What the command line asks for.
fn asked(words: &[String]) -> Result<String> {
    let numbers: Vec<u64> = words.iter().skip(1).filter_map(|word| word.parse().ok()).collect();
    match (words, &numbers[..]) {
        ([file], _) => std::fs::read_to_string(file).map_err(|why| Error::config(format!("{file}: {why}"))),
        ([system, ..], [ports, workers, updates]) => text(system, *ports, *workers, *updates),
        _ => Err(Error::config("usage: scale olaf|reduce PORTS WORKERS UPDATES, or scale EXPERIMENT.toml")),
    }
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let clock = RunClock::start_in(0);
    let text = asked(&words)?;
    let experiment = Experiment::open(all(), Document::parse(&text, "scale")?)?;
    let plan = experiment.plan(&experiment.runs[0])?;
    let (nodes, workers) = (plan.parts.topology.nodes.len(), plan.spec.catalogue.workers.len());
    let simulation = Simulation::new(plan.parts);
    use_large_pages(nodes);
    let planned = clock.now();
    let mut count = Count(0);
    let outcome = simulation.run(plan.spec.capture.until, &AtomicBool::new(false), &mut count, &mut |_| {})?;
    let ran = clock.now() - planned;
    let (counters, events) = (&outcome.counters, outcome.events);
    println!(
        "{}: {workers} workers, {nodes} nodes: planned in {:.2} s, {events} events in {:.2} s, {:.0} ns per event, {:.0} MB; sent {}, received {}, \
         {} leaked",
        words[0],
        seconds(planned),
        seconds(ran),
        ran as f64 / 1e3 / events as f64,
        peak().unwrap_or_default() as f64 / 1e6,
        count.0,
        counters.packets_received,
        outcome.leaked
    );
    Ok(())
}
