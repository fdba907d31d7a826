//! A run dir: the manifest and, if everything was recorded, the three main streams, which [`crate::stream`] reads; the
//! workers' states, if recorded; and the rounds of synchronous training.
//!
//! Called by [`crate::analyze`]. Only the columns that metrics need are read.

use std::fs;
use std::path::{Path, PathBuf};

use pktgen_core::record::digest::{is_sealed, unsealed, verify_run};
use pktgen_core::record::{
    LANES, MANIFEST_VERSION, Manifest, NAMES, PacketId, RECEIVED, RunState, SENT, STAMPS, STATES, Verified,
};
use pktgen_core::regular::check_regular;
use pktgen_core::{Error, Result};
use serde::de::DeserializeOwned;

pub use crate::columns::*;
use crate::memory::MemoryBound;
use crate::plausible::Plausible;
use crate::rounds::Rounds;
use crate::stream::{Streams, file_of, rows_of};
use crate::table::Table;

/// Timestamps of packets.
#[derive(Debug, Clone, Default)]
pub struct StampColumns {
    /// Number of packets at the server that should have a timestamp.
    pub packets: u64,
    /// Packets with a timestamp: when they were read, in ps of the run's clock, and when they arrived, in ns of the timestamps' clock.
    pub received: Vec<(i64, i64)>,
    /// Number of marked frames of the workers.
    pub frames: u64,
    /// Frames with a timestamp: the time just before the call that sent them, and the time they left.
    pub sent: Vec<(i64, i64)>,
}

/// A run dir.
#[derive(Debug, Clone)]
pub struct RunData {
    /// Its path.
    pub dir: PathBuf,
    /// Its manifest.
    pub manifest: Manifest,
    /// Its streams; `None` unless every transmission was recorded (`records = "full"`).
    pub records: Option<Streams>,
    /// States of workers under transmission control; `None` unless the run recorded them.
    pub states: Option<StateColumns>,
    /// Iterations and results; `None` unless it is synchronous training.
    pub rounds: Option<Rounds>,
    /// The lanes of arrivals; `None` unless updates carried lanes and everything was recorded.
    pub lanes: Option<LaneColumns>,
    /// Ids of arrivals without one of their own; `None` if layouts contain ids.
    pub names: Option<NameColumns>,
    /// Timestamps of the kernel or a card; `None` unless the run recorded them.
    pub stamps: Option<StampColumns>,
    /// Whether its files were checked against their digests.
    pub verified: Verified,
}

impl RunData {
    /// Reads the run in `dir` and checks the digests of its files.
    pub fn open(dir: &Path) -> Result<RunData> {
        RunData::open_with(dir, false)
    }

    /// Reads the run in `dir`; with `no_verify` without checking digests.
    pub fn open_with(dir: &Path, no_verify: bool) -> Result<RunData> {
        RunData::open_bounded(dir, no_verify, MemoryBound::default())
    }

    /// Reads the run in `dir`; refuses if its analysis needs more than `memory`.
    pub(crate) fn open_bounded(dir: &Path, no_verify: bool, memory: MemoryBound) -> Result<RunData> {
        let (text, manifest) = open_manifest(dir)?;
        let full = manifest.records == "full";
        let verify = || match no_verify {
            true => Ok(Verified::Waived),
            false => verify_run(dir, text.as_bytes(), &manifest.files),
        };
        if full && let Err(fault) = memory.check(dir, &manifest) {
            // A changed or missing file is the cause of any error but that of too much memory, which is refused without hashing.
            let is_memory = matches!(fault, Error::Config(_));
            return Err(if is_memory { fault } else { verify().err().unwrap_or(fault) });
        }
        let verified = verify()?;
        let (states, rounds) = (read_states(dir)?, Rounds::read(dir, &manifest)?);
        let records = full.then(|| Streams::open(dir, manifest.lanes.is_some())).transpose()?;
        let names = if full { read_names(dir)? } else { None };
        let lanes = if full { read_lanes(dir, &manifest)? } else { None };
        let stamps = read_stamps(dir)?;
        let run = RunData { dir: dir.to_owned(), manifest, records, states, rounds, lanes, names, stamps, verified };
        // Runs that are larger than memory are checked during the pass.
        if let (Some(Streams::Memory(records)), Some(plausible)) = (&run.records, run.plausible()) {
            plausible.sent(&records.sent, 0)?;
            plausible.received(&records.received, 0)?;
        }
        Ok(run)
    }
}

impl RunData {
    /// Returns the plausibility check of its rows; `None` if checks were waived.
    pub(crate) fn plausible(&self) -> Option<Plausible> {
        // If packets carry no ids, generation times are the server's guess until ids are derived.
        let ages = self.rounds.is_none() && self.names.is_none();
        (self.verified != Verified::Waived).then(|| Plausible::of(&self.dir, &self.manifest, ages))
    }
}

/// Returns the manifest of the complete, finished run in `dir`, and its text.
pub fn open_manifest(dir: &Path) -> Result<(String, Manifest)> {
    let path = dir.join("manifest.json");
    let text = read_text(&path, "a run dir")?;
    let manifest: Manifest = parse_json(&path, &text, "a run dir")?;
    // A killed part is reported as a part.
    match manifest.part.as_deref() {
        Some("frames") => {
            let what =
                "it holds the frames of an interface, which are a capture and no run: pktgen analyze DIR, by itself";
            return Err(Error::data(dir, what));
        }
        Some(part) => {
            let what =
                format!("it is the {part} part of a run; join the parts: pktgen merge WORKERS DEVICE SERVER -o WHOLE");
            return Err(Error::data(dir, what));
        }
        None => {}
    }
    has_ended(dir, &manifest)?;
    Ok((text, manifest))
}

/// Refuses the run, or part of a run, in `dir` that is under way or was killed.
pub(crate) fn has_ended(dir: &Path, manifest: &Manifest) -> Result<()> {
    if manifest.state != RunState::Running {
        return Ok(());
    }
    let what = if manifest.part.is_some() { "part" } else { "run" };
    Err(Error::data(
        dir,
        format!(
            "the {what} was killed, or is still under way: its state is \"running\" and its streams are Arrow \
             IPC; if it was killed, `pktgen analyze --recover {}` keeps all up to the last whole batch",
            dir.display()
        ),
    ))
}

/// Whether the manifest of the run in `dir` says that it is running. Such a run is recovered before it is read. Whatever other
/// files its folder holds, a manifest in another state is written only when all streams have ended.
pub fn is_unfinished(dir: &Path) -> Result<bool> {
    let manifest: Manifest = read_json(&dir.join("manifest.json"), "a run dir")?;
    Ok(manifest.state == RunState::Running)
}

/// Reads JSON with a `version`, and refuses newer versions before looking at anything else.
pub fn read_json<T: DeserializeOwned>(path: &Path, what: &str) -> Result<T> {
    parse_json(path, &read_text(path, what)?, what)
}

/// Reads JSON that includes its own digest, which is required if `sealed` returns that it was written with one; with
/// `no_verify` the digest is ignored.
pub fn read_sealed<T: DeserializeOwned>(path: &Path, what: &str, no_verify: bool, sealed: fn(&T) -> bool) -> Result<T> {
    let text = read_text(path, what)?;
    let value = parse_json(path, &text, what)?;
    if !no_verify && !is_sealed(path, text.as_bytes())? && sealed(&value) {
        return Err(unsealed(path));
    }
    Ok(value)
}

fn read_text(path: &Path, what: &str) -> Result<String> {
    if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty() && !dir.exists()) {
        return Err(Error::config(format!("no such file or folder: {}", dir.display())));
    }
    check_regular(path)?;
    let bytes = fs::read(path).map_err(|fault| match fault.kind() {
        std::io::ErrorKind::NotFound => Error::data(path, format!("it is missing: the folder is not {what}")),
        _ => Error::io("read", path)(fault),
    })?;
    String::from_utf8(bytes).map_err(|fault| Error::data(path, format!("it is not JSON: {fault}; was it damaged?")))
}

fn parse_json<T: DeserializeOwned>(path: &Path, text: &str, what: &str) -> Result<T> {
    let value: serde_json::Value = serde_json::from_str(text)
        .map_err(|fault| Error::data(path, format!("it is not JSON: {fault}; was it cut short?")))?;
    let version = value.get("version").and_then(serde_json::Value::as_u64);
    match version {
        None => return Err(Error::data(path, "it has no \"version\"; is it from pktgen?")),
        Some(version) if version > u64::from(MANIFEST_VERSION) => {
            let text =
                format!("version {version} is newer than {MANIFEST_VERSION}, the newest known here; update pktgen");
            return Err(Error::data(path, text));
        }
        Some(_) => {}
    }
    serde_json::from_value(value).map_err(|fault| Error::data(path, format!("it does not describe {what}: {fault}")))
}

/// Reads the lanes; the stream exists only if updates carried lanes.
fn read_lanes(dir: &Path, manifest: &Manifest) -> Result<Option<LaneColumns>> {
    let Some(layout) = &manifest.lanes else { return Ok(None) };
    if !layout.is_sound() {
        return Err(Error::data(&dir.join("manifest.json"), "invalid lane layout (edited by hand?)"));
    }
    let table = Table::read_stream(&file_of(dir, LANES)?, LANES, &["t_recv_ps", "words"])?;
    let (words, starts) = table.u32_lists("words")?;
    let lanes = LaneColumns::new(words, starts);
    let (own, packets) = (lanes.rows(), rows_of(dir, RECEIVED)?);
    if manifest.state == RunState::Finished {
        if own != packets {
            let what =
                format!("it has the lanes of {own} packets, and {packets} were received; copy the whole run dir");
            return Err(Error::data(table.path(), what));
        }
        return Ok(Some(lanes));
    }
    // The last batches of a killed process reached the disk stream by stream; those of one rank lie among the rows of others.
    let received = Table::read_stream(&file_of(dir, RECEIVED)?, RECEIVED, &["t_recv_ps"])?.i64("t_recv_ps")?;
    Ok(Some(lanes.aligned(&table.i64("t_recv_ps")?, &received)))
}

/// Reads the derived ids; the stream exists only if packets arrived without ids.
fn read_names(dir: &Path) -> Result<Option<NameColumns>> {
    let path = dir.join(format!("{NAMES}.parquet"));
    if !path.exists() {
        return Ok(None);
    }
    let table = Table::read_stream(&path, NAMES, &["packet", "count"])?;
    let names = NameColumns { packet: table.u64_or("packet", NO_PACKET)?, count: table.u16("count")? };
    let (named, packets) = (names.packet.len(), rows_of(dir, RECEIVED)?);
    if named != packets {
        let what = format!("it has the names of {named} packets, and {packets} were received; copy the whole run dir");
        return Err(Error::data(table.path(), what));
    }
    Ok(Some(names))
}

/// Returns when the newest member of each packet of `received` was generated, by the packets that contents name: headers without ids carry no
/// such time. `None` for packets without a name, and for runs without names.
pub fn named_generations(dir: &Path) -> Result<Option<Vec<Option<i64>>>> {
    let Some(names) = read_names(dir)? else { return Ok(None) };
    let sent = Table::read_stream(&file_of(dir, SENT)?, SENT, &["worker", "seq", "attempt", "t_gen_ps"])?;
    let parts = sent.u32("worker")?.into_iter().zip(sent.u32("seq")?).zip(sent.u8("attempt")?);
    let ids = parts.map(|((worker, seq), attempt)| PacketId::new(worker, seq, attempt).0);
    let mut generations: Vec<(u64, i64)> = ids.zip(sent.i64("t_gen_ps")?).collect();
    // Of two rows with one id, the id refers to the later one.
    generations.sort_by_key(|(id, _)| *id);
    let of = |packet: &u64| {
        let (id, generation) = generations[generations.partition_point(|(id, _)| id <= packet).checked_sub(1)?];
        (id == *packet).then_some(generation)
    };
    Ok(Some(names.packet.iter().map(of).collect()))
}

/// Reads the states; the stream exists only if the run recorded it (`capture.states`).
fn read_states(dir: &Path) -> Result<Option<StateColumns>> {
    let path = dir.join(format!("{STATES}.parquet"));
    if !path.exists() {
        return Ok(None);
    }
    let table = Table::read(&path, &["t_ps", "worker", "active", "capacity", "ack_age_ps", "p_send", "sent"])?;
    Ok(Some(StateColumns {
        t_ps: table.i64("t_ps")?,
        worker: table.u32("worker")?,
        active: table.u16("active")?,
        capacity: table.u32("capacity")?,
        ack_age_ps: table.i64_or_none("ack_age_ps")?,
        p_send: table.f32_or_none("p_send")?,
        sent: table.bool_or_none("sent")?,
    }))
}

/// Reads the timestamps; the stream exists only if requested (`transport.stamps`, `transport.sent_stamps_every`).
fn read_stamps(dir: &Path) -> Result<Option<StampColumns>> {
    let path = dir.join(format!("{STAMPS}.parquet"));
    if !path.exists() {
        return Ok(None);
    }
    let table = Table::read(&path, &["t_ps", "packet", "received_ns", "sent_ns"])?;
    let t_ps = table.i64("t_ps")?;
    let packets = table.u64_or("packet", NO_PACKET)?.iter().filter(|packet| **packet != NO_PACKET).count() as u64;
    let stamped = |column: &str| -> Result<Vec<(i64, i64)>> {
        let stamps = table.i64_or_none(column)?;
        Ok(t_ps.iter().zip(stamps).filter_map(|(t, stamp)| Some((*t, stamp?))).collect())
    };
    let (received, sent) = (stamped("received_ns")?, stamped("sent_ns")?);
    Ok(Some(StampColumns { packets, received, frames: t_ps.len() as u64 - packets, sent }))
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
