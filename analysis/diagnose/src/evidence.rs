//! The parts of a run dir that rules use: manifest, experiment, and the columns of its streams on what was sent and arrived when.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use pktgen_core::arrow::array::{AsArray, RecordBatch};
use pktgen_core::arrow::datatypes::{
    ArrowPrimitiveType, DataType, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use pktgen_core::record::digest::{Verified, verify_run};
use pktgen_core::record::{
    Family, Fault, InterfaceCounts, LOCKSTEP_COUNTER, Manifest, NAMES, NO_CLUSTER, Note, PacketId, RECEIVED, RESULTS,
    SENT,
};
use pktgen_core::{Error, Result};
use pktgen_records::run::open_manifest;
use pktgen_records::stream_file::StreamFile;

use crate::beside;
use crate::counted::{
    self, DOWN_GIVEN, DOWN_TAKEN, DROPS, ENDS, GIVEN, OF_PORT, OVERRUN, SUMMED, TAKEN, UNKNOWN, UP_GIVEN, UP_TAKEN,
};
use crate::join::Join;

/// Number of rows decoded at a time.
const BATCH: usize = 1 << 16;

/// Transmissions in the order of the file, one column each.
#[derive(Default)]
pub(crate) struct Sent {
    pub(crate) gen_ps: Vec<i64>,
    pub(crate) due_ps: Vec<i64>,
    /// `None` if it was not sent.
    pub(crate) sent_ps: Vec<Option<i64>>,
    pub(crate) packet: Vec<PacketId>,
    pub(crate) bytes: Vec<u32>,
}

/// Packets that arrived at the receiver.
#[derive(Default)]
pub(crate) struct Arrived {
    pub(crate) recv_ps: Vec<i64>,
    /// Id of the packet, or of its newest member; `None` if unknown.
    pub(crate) packet: Vec<Option<PacketId>>,
    /// Number of updates that it states to represent.
    pub(crate) count: Vec<u16>,
    /// Generation time that its header states; empty if contents identify packets.
    pub(crate) gen_ps: Vec<i64>,
    /// Worker of its newest member by its address; empty unless contents identify packets.
    pub(crate) newest: Vec<u32>,
}

/// Results at workers.
#[derive(Default)]
pub(crate) struct Results {
    pub(crate) recv_ps: Vec<i64>,
    pub(crate) worker: Vec<u32>,
    pub(crate) seq: Vec<u32>,
    pub(crate) again: Vec<bool>,
    /// Number of sources that it represents.
    pub(crate) count: Vec<u16>,
    /// Sources are missing.
    pub(crate) degraded: Vec<bool>,
}

/// All evidence of a run.
pub(crate) struct Evidence {
    pub(crate) dir: PathBuf,
    pub(crate) manifest: Manifest,
    /// The resolved experiment.
    pub(crate) config: toml::Table,
    pub(crate) sent: Sent,
    pub(crate) arrived: Arrived,
    pub(crate) results: Results,
    /// Join of transmissions and arrivals; in synchronous training, of transmissions and results that are not repeated.
    pub(crate) join: Join,
    /// Why captures of the taps are not examined, if they are not.
    pub(crate) taps_unread: Option<String>,
}

/// Results that differ from the first copy of their sum, with the worker and block of the first one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unlike {
    pub(crate) results: u64,
    pub(crate) worker: u32,
    pub(crate) block: u32,
}

impl Evidence {
    /// Opens the run in `dir` without its streams, with the counters that the `device` recorded during it.
    pub(crate) fn open(dir: &Path, device: Option<&Path>, no_verify: bool) -> Result<Evidence> {
        let (text, mut manifest) = open_manifest(dir)?;
        let verified = if no_verify { Verified::Waived } else { verify_run(dir, text.as_bytes(), &manifest.files)? };
        manifest.validity.notes.extend(verified.note());
        if let Some(device) = device {
            beside::add(device, &mut manifest)?;
        }
        Ok(Evidence::of(dir, manifest))
    }

    /// The same of a manifest, without streams.
    pub(crate) fn of(dir: &Path, manifest: Manifest) -> Evidence {
        // What a capture lacks at its end did not get lost.
        let is_killed = manifest.validity.faults.iter().any(Fault::is_kill);
        let taps_unread = is_killed.then(|| "the run was killed, and each of them ends at another frame".to_owned());
        Evidence {
            dir: dir.to_owned(),
            config: manifest.config.parse().unwrap_or_default(),
            manifest,
            taps_unread,
            sent: Sent::default(),
            arrived: Arrived::default(),
            results: Results::default(),
            join: Join::default(),
        }
    }

    /// Returns the same evidence with the columns of the streams.
    pub(crate) fn with_streams(&self) -> Result<Evidence> {
        Evidence::of(&self.dir, self.manifest.clone()).read()
    }

    fn read(mut self) -> Result<Evidence> {
        self.read_sent()?;
        match self.is_results() {
            true => self.read_results()?,
            false => self.read_arrived()?,
        }
        let (packets, results) = (&self.sent.packet, &self.results);
        let of_result = |at: usize| (!results.again[at]).then(|| PacketId::new(results.worker[at], results.seq[at], 0));
        self.join = match self.is_results() {
            true => Join::new(packets, (0..results.seq.len()).map(of_result)),
            false => Join::new(packets, self.arrived.packet.iter().copied()),
        };
        Ok(self)
    }

    fn read_sent(&mut self) -> Result<()> {
        let sent = &mut self.sent;
        let columns = ["t_gen_ps", "t_due_ps", "t_sent_ps", "worker", "seq", "attempt", "bytes"];
        each(&self.dir, SENT, &columns, &mut |batch| {
            sent.gen_ps.extend(required::<Int64Type>(batch, "t_gen_ps"));
            sent.due_ps.extend(required::<Int64Type>(batch, "t_due_ps"));
            sent.sent_ps.extend(optional::<Int64Type>(batch, "t_sent_ps"));
            sent.bytes.extend(required::<UInt32Type>(batch, "bytes"));
            let numbers = required::<UInt32Type>(batch, "worker").zip(required::<UInt32Type>(batch, "seq"));
            let attempts = required::<UInt8Type>(batch, "attempt");
            sent.packet
                .extend(numbers.zip(attempts).map(|((worker, seq), attempt)| PacketId::new(worker, seq, attempt)));
        })
    }

    fn read_arrived(&mut self) -> Result<()> {
        let arrived = &mut self.arrived;
        each(&self.dir, RECEIVED, &["t_recv_ps", "packet", "count", "newest_gen_ps"], &mut |batch| {
            arrived.recv_ps.extend(required::<Int64Type>(batch, "t_recv_ps"));
            arrived.packet.extend(required::<UInt64Type>(batch, "packet").map(|id| Some(PacketId(id))));
            arrived.count.extend(required::<UInt16Type>(batch, "count"));
            arrived.gen_ps.extend(required::<Int64Type>(batch, "newest_gen_ps"));
        })?;
        if !self.dir.join(format!("{NAMES}.parquet")).exists() {
            return Ok(());
        }
        // Packets have no ids of their own: their contents identify them.
        let mut names = Vec::with_capacity(arrived.packet.len());
        each(&self.dir, NAMES, &["packet"], &mut |batch| {
            names.extend(optional::<UInt64Type>(batch, "packet").map(|id| id.map(PacketId)));
        })?;
        if names.len() != arrived.packet.len() {
            let why = format!("names has {} rows, received {}; was a file changed?", names.len(), arrived.packet.len());
            return Err(Error::data(&self.dir, why));
        }
        arrived.packet = names;
        arrived.gen_ps.clear();
        each(&self.dir, RECEIVED, &["newest_worker"], &mut |batch| {
            arrived.newest.extend(required::<UInt32Type>(batch, "newest_worker"));
        })
    }

    fn read_results(&mut self) -> Result<()> {
        let results = &mut self.results;
        each(&self.dir, RESULTS, &["t_recv_ps", "worker", "seq", "count", "degraded", "again"], &mut |batch| {
            results.recv_ps.extend(required::<Int64Type>(batch, "t_recv_ps"));
            results.worker.extend(required::<UInt32Type>(batch, "worker"));
            results.seq.extend(required::<UInt32Type>(batch, "seq"));
            results.count.extend(required::<UInt16Type>(batch, "count"));
            results.degraded.extend(batch["degraded"].as_boolean().values());
            results.again.extend(batch["again"].as_boolean().values());
        })
    }

    /// Whether frames were sent in real time, so that counters of interfaces are meaningful.
    pub(crate) fn is_real(&self) -> bool {
        self.manifest.clocks.get("sent.t_sent_ps").is_some_and(|clock| clock != "virtual")
    }

    /// Whether frames went through capture files, from one role to the next: nothing comes back to the workers.
    pub(crate) fn is_over_files(&self) -> bool {
        self.text("transport", "kind") == "pcap"
    }

    /// Whether the device was a separate process in virtual time.
    pub(crate) fn is_lockstep(&self) -> bool {
        self.manifest.external.is_some() && !self.is_real()
    }

    /// Whether the device is software of this project in virtual time: its books have the end of every frame.
    pub(crate) fn has_books(&self) -> bool {
        !self.is_real() && self.manifest.external.is_none() && self.manifest.unseen.is_none()
    }

    /// Whether `capture.until` ended the run.
    pub(crate) fn is_cut(&self) -> bool {
        self.manifest.validity.notes.iter().any(|note| matches!(note, Note::CutOff { .. }))
    }

    /// Whether the run was cut while all that had left was in flight, by the books, or before anything left.
    pub(crate) fn is_cut_early(&self) -> bool {
        self.is_cut() && self.has_books() && self.left() <= self.manifest.balance.in_flight
    }

    /// Whether the experiment makes links lose, duplicate or delay frames. Parts of a joined run may have other keys of `[transport]` than the
    /// workers' part, whose experiment the run has: books of the device name the losses that its part asked for.
    pub(crate) fn has_faulty_links(&self) -> bool {
        let faults =
            ["fault_loss", "fault_burst_p", "fault_loss_good", "fault_duplicate", "fault_reorder", "fault_corrupt"];
        let in_books = self.is_real() && self.manifest.balance.dropped.get("fault").is_some_and(|frames| *frames > 0);
        in_books || faults.iter().any(|fault| self.is_asked(fault))
    }

    /// Whether the experiment makes links do this, by a key of `[transport]`.
    pub(crate) fn is_asked(&self, fault: &str) -> bool {
        let value = self.config.get("transport").and_then(|transport| transport.get(fault));
        value.is_some_and(|value| value.as_float().unwrap_or(0.0) != 0.0 || value.as_integer().unwrap_or(0) != 0)
    }

    /// Returns the workers that change their cluster during the run.
    pub(crate) fn moved(&self) -> HashSet<u32> {
        let moves = self.config.get("workload").and_then(|own| own.get("moves")).and_then(toml::Value::as_array);
        moves.into_iter().flatten().filter_map(|one| one.get("worker")?.as_integer()?.try_into().ok()).collect()
    }

    /// Whether workers wait for results and there is no receiving server.
    pub(crate) fn is_results(&self) -> bool {
        self.manifest.family() == Family::Results
    }

    /// Whether a server receives what the device sends on. Of the systems whose results come back, ATP has one.
    pub(crate) fn has_server(&self) -> bool {
        let counts = || self.manifest.counters.device.contains_key("server.results");
        let declared = || self.manifest.unseen.as_ref().is_some_and(|unseen| unseen.at_server);
        !self.is_results() || self.interface("server").is_some() || declared() || counts()
    }

    /// Returns the number of workers of the largest job or cluster, at least 1.
    pub(crate) fn workers_of_job(&self) -> u64 {
        let mut workers: BTreeMap<u16, u64> = BTreeMap::new();
        self.manifest.clusters.iter().for_each(|job| *workers.entry(*job).or_default() += 1);
        workers.into_values().max().unwrap_or(1)
    }

    /// Returns the number of results that arrive again because a server was asked for them again: it answers all workers of a job (ATP §3.2).
    pub(crate) fn resent(&self) -> u64 {
        let results = self.manifest.counters.device.get("server.results_resent").copied().unwrap_or(0);
        results.saturating_mul(self.workers_of_job())
    }

    /// After which the device goes on without workers that are late; none if it waits for all.
    pub(crate) fn timeout_ps(&self) -> Option<i64> {
        self.manifest.training.as_ref()?.timeout_ps
    }

    /// Whether every packet should come out as it went in.
    pub(crate) fn forwards(&self) -> bool {
        self.text("target", "program") == "forward"
            || self.manifest.unseen.as_ref().is_some_and(|unseen| !unseen.merges)
    }

    /// Returns a text value of the experiment; empty if absent.
    pub(crate) fn text(&self, section: &str, key: &str) -> &str {
        self.config.get(section).and_then(|section| section.get(key)).and_then(toml::Value::as_str).unwrap_or_default()
    }

    /// Whether the device's own counters are known. Those of the run's workers and servers are beside them, without the prefix of a device in
    /// lockstep and under other names.
    pub(crate) fn has_device_counters(&self) -> bool {
        let launch = self.config.get("target").and_then(|target| target.get("launch"));
        let read = launch.and_then(|launch| launch.get("counters")).and_then(toml::Value::as_array);
        let frames = [DOWN_TAKEN, DOWN_GIVEN, UP_TAKEN, UP_GIVEN, TAKEN, GIVEN, OVERRUN, UNKNOWN, ENDS, DROPS];
        read.is_some_and(|command| !command.is_empty())
            || self.manifest.counters.device.keys().any(|name| name.starts_with(LOCKSTEP_COUNTER))
            || frames.iter().any(|names| self.device(names).is_some())
    }

    /// Whether a key of the experiment is `true`.
    pub(crate) fn flag(&self, section: &str, key: &str) -> bool {
        let value = self.config.get(section).and_then(|section| section.get(key));
        value.and_then(toml::Value::as_bool).unwrap_or(false)
    }

    /// Whether the run, or a part of it, was killed: its counters and its last rows are missing.
    pub(crate) fn is_killed(&self) -> bool {
        self.manifest.validity.faults.iter().any(Fault::is_kill)
    }

    /// Whether the run recorded every transmission and arrival: rows of a part do not show what became of the others.
    pub(crate) fn has_all_rows(&self) -> bool {
        self.manifest.records == "full" && !self.is_killed()
    }

    /// Returns the number of transmissions that were sent: of the rows, or, if not all were recorded, of the account. A killed run may have
    /// no account.
    pub(crate) fn left(&self) -> u64 {
        let rows = || self.sent.sent_ps.iter().flatten().count() as u64;
        match self.has_all_rows() {
            true => rows(),
            false if self.is_killed() => self.manifest.balance.sent.max(rows()),
            false => self.manifest.balance.sent,
        }
    }

    /// Returns the number of packets that came back, whether useful or not. Counters of packets leave out background traffic, whose senders
    /// have no cluster: if nothing else is sent, books have it. A killed run has rows and no counters.
    pub(crate) fn came(&self) -> u64 {
        let Manifest { counters, balance, clusters, .. } = &self.manifest;
        let counted = counters.packets_received + if self.is_results() { counters.replies } else { 0 };
        let rows = if self.is_killed() { self.arrived.recv_ps.len() + self.results.seq.len() } else { 0 };
        let counted = counted.max(rows as u64);
        let background_alone = self.has_books() && clusters.iter().all(|cluster| *cluster == NO_CLUSTER);
        if background_alone { counted.max(balance.delivered_alone) } else { counted }
    }

    /// Returns the number of arrivals that may hold an update that is missing: those that name no transmission, and further ones
    /// of a transmission unless they and the first state its generation time. Such copies, damaged or not, hold what came.
    pub(crate) fn unnamed(&self) -> u64 {
        let is_of = |at: usize, row: usize| {
            self.arrived.gen_ps.get(at).is_none_or(|states| self.sent.gen_ps.get(row) == Some(states))
        };
        let is_copy = |at: usize| {
            let row = self.join.sent(at);
            row.is_some_and(|row| is_of(at, row) && self.join.came(row).is_some_and(|first| is_of(first, row)))
        };
        (0..self.arrived.packet.len()).filter(|at| self.join.first(*at).is_none() && !is_copy(*at)).count() as u64
    }

    /// Returns the number of processes that sent: ranks of a joined run, each with a share of the workers, or one.
    pub(crate) fn senders(&self) -> usize {
        let roles = self.manifest.host.iter().filter(|(fact, _)| fact.ends_with(".rank.role"));
        roles.filter(|(_, role)| role.starts_with("workers")).count().max(1)
    }

    /// Returns the interfaces of an end, of all its hosts, whose counters could be read: one that is absent at the end of a run has none.
    pub(crate) fn interfaces(&self, end: &str) -> impl Iterator<Item = &InterfaceCounts> {
        let known =
            move |counts: &&InterfaceCounts| counts.end == end && (counts.state != "absent" || counts.tx_packets > 0);
        self.manifest.interfaces.iter().filter(known)
    }

    /// Returns the first interface of an end whose counters could be read.
    pub(crate) fn interface(&self, end: &str) -> Option<&InterfaceCounts> {
        self.interfaces(end).next()
    }

    /// Returns the sum of the device's counters of all ports whose names end with `end`; `None` if it has no such counter.
    fn device_ports(&self, end: &str) -> Option<u64> {
        let counted = self.manifest.counters.device.iter();
        let own = counted.filter(|(name, _)| {
            let name = name.strip_prefix(LOCKSTEP_COUNTER).unwrap_or(name);
            name.starts_with("port") && name.ends_with(end)
        });
        own.map(|(_, frames)| *frames).reduce(u64::saturating_add)
    }

    /// Returns the frames that the device counted as received and as sent: at all ports, or from the workers and to those that they are for,
    /// or as summed and as results.
    pub(crate) fn through(&self) -> (Option<u64>, Option<u64>) {
        let named = |names| self.device(names).map(|(_, frames)| frames);
        let [ports_in, ports_out] = OF_PORT.map(|end| self.device_ports(end));
        let (up, down) = (named(UP_GIVEN), named(DOWN_GIVEN));
        let given = match self.manifest.family() {
            Family::Updates => up,
            Family::Results if !self.has_server() => down,
            // Some are for the server, and some for workers.
            Family::Results | Family::Pairs => up.zip(down).map(|(up, down)| up.saturating_add(down)),
        };
        let into = named(TAKEN).or(ports_in).or(named(DOWN_TAKEN)).or(named(SUMMED));
        (into, named(GIVEN).or(ports_out).or(given).or(named(counted::RESULTS)))
    }

    /// Returns the device's counter with the first of these names that it has.
    pub(crate) fn device(&self, names: &[&'static str]) -> Option<(&'static str, u64)> {
        let counted = &self.manifest.counters.device;
        let of = |name: &str| counted.get(name).or_else(|| counted.get(&format!("{LOCKSTEP_COUNTER}{name}"))).copied();
        names.iter().find_map(|name| Some((*name, of(name)?)))
    }

    /// Returns the cluster or job of a worker.
    pub(crate) fn cluster(&self, worker: u32) -> u16 {
        self.manifest.clusters.get(worker as usize).copied().unwrap_or(NO_CLUSTER)
    }

    /// Returns the faults of the run.
    pub(crate) fn faults(&self) -> impl Iterator<Item = &Fault> {
        self.manifest.validity.faults.iter().map(|fault| match fault {
            Fault::InPart { fault, .. } => fault.as_ref(),
            fault => fault,
        })
    }

    /// Returns the results that differ from the first copy of their sum, if any.
    pub(crate) fn unlike(&self) -> Option<Unlike> {
        self.faults().find_map(|fault| match *fault {
            Fault::UnlikeResults { results, worker, block } => Some(Unlike { results, worker, block }),
            _ => None,
        })
    }

    /// Returns the number of wrong results of a synchronous run. Sums at a server (ATP) are wrong before it answers, results behind it: the
    /// same ones, or others.
    pub(crate) fn wrong_results(&self) -> u64 {
        let of_server = |fault: &Fault| match fault {
            Fault::WrongResults { results } => Some(*results),
            _ => None,
        };
        let of_server = self.faults().filter_map(of_server).max().unwrap_or(0);
        let unlike = self.unlike().map_or(0, |unlike| unlike.results);
        self.manifest.counters.sums_wrong.max(of_server) + unlike
    }

    /// Describes how to find out what is wrong with payloads: captures on wires, with `lanes` or without, unless the run has them; or, in
    /// virtual time, checks by rules.
    pub(crate) fn next_step(&self, lanes: bool) -> String {
        const CERTIFY: &str = "pktgen certify tries the device rule by rule, where its program has clauses";
        if !self.is_real() {
            return format!("{CERTIFY}; a run on wires with transport.tap = \"tap.pcapng\" keeps its frames");
        }
        let keys = [
            (self.tap_file("workers").is_none(), "transport.tap = \"tap.pcapng\""),
            (lanes && self.manifest.lanes.is_none(), "format.lanes = true"),
        ];
        let unset: Vec<&str> = keys.into_iter().filter_map(|(unset, key)| unset.then_some(key)).collect();
        if unset.is_empty() { CERTIFY.to_owned() } else { format!("set {} and run again", unset.join(", ")) }
    }

    /// Describes how to know more of what the device counts.
    pub(crate) fn have_counted(&self) -> &'static str {
        match self.has_device_counters() {
            false => "have its counters read ([target.launch] counters, or --device FILE)",
            true => "have it count what its counters lack (--device FILE, if it names them otherwise)",
        }
    }

    /// Describes how to lose fewer frames in virtual time, as far as the experiment has them lost; begins with a semicolon.
    pub(crate) fn losing_less(&self) -> String {
        let faults = self.has_faulty_links().then_some("; lower transport.fault_*");
        faults.into_iter().chain(self.is_cut().then_some("; raise capture.until")).collect()
    }

    /// Returns the capture written by the tap of an end, if there is one that can be examined.
    pub(crate) fn tap(&self, end: &str) -> Option<PathBuf> {
        self.tap_file(end).filter(|_| self.taps_unread.is_none())
    }

    /// Returns the file of the tap of an end, if there is one.
    pub(crate) fn tap_file(&self, end: &str) -> Option<PathBuf> {
        let stem = self.text("transport", "tap").strip_suffix(".pcapng")?;
        Some(self.dir.join(format!("{stem}-{end}.pcapng"))).filter(|path| path.exists())
    }
}

/// Returns a name of interfaces, with the parts of the run that they are of, if it has any.
pub(crate) fn named<'a>(interfaces: impl IntoIterator<Item = &'a InterfaceCounts>) -> String {
    let name = |counts: &InterfaceCounts| match &counts.part {
        Some(part) => format!("{} ({part})", counts.interface),
        None => counts.interface.clone(),
    };
    let names: Vec<_> = interfaces.into_iter().map(name).collect();
    format!("interface {}", names.join(", "))
}

/// The manifest of a run of our tests: nothing but what it must have, and its workers' clusters.
#[cfg(test)]
pub(crate) fn manifest(clusters: &[u16]) -> Manifest {
    use pktgen_core::record::{Balance, Counters, Validity};
    let none = serde_json::Map::new();
    let text = serde_json::json!({
        "version": 2, "tool": "", "experiment": "", "labels": none, "seed": 1, "state": "finished", "anchor_unix_ns": 0, "created_unix_ns": 0,
        "trace_hash": "", "config": "", "clocks": none, "host": none, "nodes": [], "records": "full", "clusters": clusters,
        "balance": Balance::default(), "balance_by_worker": [], "counters": Counters::default(), "validity": Validity::default(),
    });
    serde_json::from_value(text).expect("a manifest")
}

/// Calls `use_it` with every batch of a stream of the run in `dir`; never, if there is none.
pub(crate) fn each(
    dir: &Path,
    stream: &str,
    columns: &[&'static str],
    use_it: &mut dyn FnMut(&RecordBatch),
) -> Result<()> {
    let path = dir.join(format!("{stream}.parquet"));
    if !path.exists() {
        return Ok(());
    }
    let mut batches = StreamFile::open(&path, stream)?.read(columns, None, BATCH)?;
    while let Some(batch) = batches.next_batch()? {
        for column in batch.schema().fields() {
            let (name, is) = (column.name(), column.data_type());
            if !fits(name, is) {
                let why = format!("the column \"{name}\" is of type {is}; is this a stream of a pktgen run?");
                return Err(Error::data(&path, why));
            }
        }
        use_it(&batch);
    }
    Ok(())
}

/// Whether a column that rules read has its expected type.
fn fits(column: &str, is: &DataType) -> bool {
    match column {
        "packet" => *is == DataType::UInt64,
        "worker" | "newest_worker" | "seq" | "bytes" => *is == DataType::UInt32,
        "count" | "part" | "cluster" | "job" => *is == DataType::UInt16,
        "attempt" | "action" | "reason" => *is == DataType::UInt8,
        "again" | "degraded" => *is == DataType::Boolean,
        "words" => matches!(is, DataType::List(item) if *item.data_type() == DataType::UInt32),
        _ => *is == DataType::Int64,
    }
}

fn required<'a, P: ArrowPrimitiveType>(batch: &'a RecordBatch, name: &str) -> impl Iterator<Item = P::Native> + 'a {
    batch[name].as_primitive::<P>().values().iter().copied()
}

fn optional<'a, P: ArrowPrimitiveType>(
    batch: &'a RecordBatch,
    name: &str,
) -> impl Iterator<Item = Option<P::Native>> + 'a {
    batch[name].as_primitive::<P>().iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Certainty;

    #[test]
    fn background_traffic_alone_comes_as_the_books_say() {
        let came = |clusters: &[u16], external: bool| {
            let mut manifest = manifest(clusters);
            manifest.external = external.then(|| "profile".to_owned());
            manifest.balance.delivered_alone = 7;
            Evidence::of(Path::new(""), manifest).came()
        };
        assert_eq!(came(&[NO_CLUSTER; 2], false), 7);
        // Updates are counted where they arrive.
        assert_eq!(came(&[0, NO_CLUSTER], false), 0);
        assert_eq!(came(&[NO_CLUSTER; 2], true), 0);
    }

    /// A killed run has rows and no counters, and may have no account.
    #[test]
    fn rows_of_a_killed_run_came_and_left() {
        let of = |fault: Option<Fault>| {
            let mut manifest = manifest(&[0]);
            manifest.validity.faults.extend(fault);
            let mut evidence = Evidence::of(Path::new(""), manifest);
            evidence.sent.sent_ps = vec![Some(0); 9];
            evidence.arrived.recv_ps = vec![0; 7];
            (evidence.left(), evidence.came(), evidence.has_all_rows())
        };
        assert_eq!(of(None), (9, 0, true));
        assert_eq!(of(Some(Fault::Killed {})), (9, 7, false));
        let of_rank = Fault::InPart { part: "rank 1".to_owned(), fault: Box::new(Fault::Killed {}) };
        assert_eq!(of(Some(of_rank)), (9, 7, false));
    }

    #[test]
    fn results_that_a_device_changes_behind_a_server_are_wrong() {
        let wrong = |sums_wrong: u64, faults: Vec<Fault>| {
            let mut manifest = manifest(&[0]);
            manifest.counters.sums_wrong = sums_wrong;
            manifest.validity.faults = faults;
            Evidence::of(Path::new(""), manifest).wrong_results()
        };
        let (behind, unlike) =
            (Fault::WrongResults { results: 3 }, Fault::UnlikeResults { results: 5, worker: 0, block: 0 });
        assert_eq!((wrong(0, vec![]), wrong(2, vec![])), (0, 2));
        assert_eq!((wrong(0, vec![behind.clone()]), wrong(7, vec![behind.clone()])), (3, 7));
        assert_eq!(wrong(0, vec![behind, unlike]), 8);
    }

    #[test]
    fn losses_in_bursts_are_faults_that_were_asked_for() {
        let faulty = |text: &str| {
            let mut manifest = manifest(&[0]);
            manifest.config = text.to_owned();
            Evidence::of(Path::new(""), manifest).has_faulty_links()
        };
        assert!(faulty("[transport]\nfault_burst_p = 0.01\nfault_burst_r = 0.3\n"));
        assert!(!faulty("[transport]\nfault_burst_p = 0.0\n"));
        assert!(faulty("[transport]\nfault_burst_p = 0.0\nfault_loss_good = 0.1\n"));
    }

    /// Advice names what the run does not have.
    #[test]
    fn what_a_run_has_is_not_advised() {
        use pktgen_core::record::lanes::{Detail, Layout, Merge, Number};
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("tap-workers.pcapng"), b"").unwrap();
        let layout = Layout {
            number: Number::F32,
            merge: Merge::Sum,
            detail: Detail::Which,
            workers: 2,
            window: 4,
            shared: false,
            check_bits: 8,
        };
        let of = |clock: &str, config: &str, lanes: Option<Layout>| {
            let mut manifest = manifest(&[0]);
            manifest.clocks.insert("sent.t_sent_ps".to_owned(), clock.to_owned());
            (manifest.config, manifest.lanes) = (config.to_owned(), lanes);
            Evidence::of(dir.path(), manifest)
        };
        let (tap, none) = ("[transport]\ntap = \"tap.pcapng\"\n", "");
        let both = "set transport.tap = \"tap.pcapng\", format.lanes = true and run again";
        assert_eq!(of("host", none, None).next_step(true), both);
        assert_eq!(of("host", none, None).next_step(false), "set transport.tap = \"tap.pcapng\" and run again");
        assert_eq!(of("host", none, Some(layout)).next_step(true), "set transport.tap = \"tap.pcapng\" and run again");
        assert_eq!(of("host", tap, None).next_step(true), "set format.lanes = true and run again");
        for all in [of("host", tap, Some(layout)).next_step(true), of("host", tap, None).next_step(false)] {
            assert!(all.starts_with("pktgen certify tries") && !all.contains("transport.tap"), "{all}");
        }
        let counted = of("host", "[target.launch]\ncounters = [\"cat\", \"/run/counters\"]\n", None).have_counted();
        let uncounted = of("host", none, None).have_counted();
        assert!(uncounted.contains("counters read") && !counted.contains("counters read"), "{counted}");
        let less = |config: &str, is_cut: bool| {
            let mut manifest = of("virtual", config, None).manifest;
            manifest.validity.notes.extend(is_cut.then_some(Note::CutOff { in_flight: 1 }));
            Evidence::of(dir.path(), manifest).losing_less()
        };
        let faulty = "[transport]\nfault_loss = 0.1\n";
        assert_eq!([less(none, false), less(faulty, false)], ["", "; lower transport.fault_*"]);
        assert_eq!(less(none, true), "; raise capture.until");
        assert_eq!(less(faulty, true), "; lower transport.fault_*; raise capture.until");
    }

    /// Counters of single ports show where frames ended. What a device sums is less than what it takes.
    #[test]
    fn counters_of_single_ports_show_where_frames_ended() {
        let causes = |family: Family, counters: &[(&str, u64)]| {
            let mut manifest = manifest(&[0; 2]);
            manifest.family = Some(family);
            manifest.clocks.insert("sent.t_sent_ps".to_owned(), "host".to_owned());
            manifest.counters.device = counters.iter().map(|(name, frames)| ((*name).to_owned(), *frames)).collect();
            let mut evidence = Evidence::of(Path::new(""), manifest);
            evidence.sent.sent_ps = vec![Some(0); 8];
            let (mut found, mut unknown) = (Vec::new(), Vec::new());
            crate::hosts::silence(&evidence, None, &mut found, &mut unknown);
            (found.iter().map(|found| (found.cause.code, found.certainty)).collect::<Vec<_>>(), unknown.len())
        };
        let certain = |code: &'static str| (vec![(code, Certainty::Certain)], 0);
        let taken = ("in_received", 8);
        assert_eq!(causes(Family::Updates, &[("down_received", 0)]), certain("device_unreached"));
        assert_eq!(causes(Family::Updates, &[taken, ("out_sent", 0)]), certain("device_silent"));
        assert_eq!(causes(Family::Updates, &[taken, ("up_sent", 0), ("packets", 0)]), certain("device_silent"));
        assert_eq!(causes(Family::Updates, &[taken, ("out_sent", 8)]), (vec![], 1), "lost behind it");
        assert_eq!(causes(Family::Updates, &[taken, ("in_sent", 0)]), (vec![], 1), "of the wrong port");
        assert_eq!(causes(Family::Results, &[taken, ("in_sent", 0)]), certain("device_silent"));
        assert_eq!(causes(Family::Pairs, &[taken, ("in_sent", 0)]), (vec![], 1), "half of what it sent is counted");
        assert_eq!(causes(Family::Pairs, &[taken, ("in_sent", 0), ("out_sent", 0)]), certain("device_silent"));
    }

    /// The experiment of the whole is that of the workers' part.
    #[test]
    fn losses_that_the_part_of_the_device_asked_for_are_in_its_books() {
        let faulty = |reason: &str| {
            let mut manifest = manifest(&[0]);
            manifest.clocks.insert("sent.t_sent_ps".to_owned(), "host".to_owned());
            manifest.balance.dropped.insert(reason.to_owned(), 5);
            Evidence::of(Path::new(""), manifest).has_faulty_links()
        };
        assert!(faulty("fault") && !faulty("reward_low"));
    }
}
