//! Looking at a trace, and distrusting it.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use super::manifest::{TraceManifest, file_hash};
use super::read::Reader;
use crate::record::{NO_CLUSTER, PacketId};
use crate::time::{SECOND, Time};
use crate::wire::frame::{FRAME_MAX, HEAD};
use crate::{Error, Result};

/// What a trace holds.
#[derive(Debug, Clone, Serialize)]
pub struct Info {
    /// Updates.
    pub updates: u64,
    /// Workers.
    pub workers: usize,
    /// Clusters.
    pub clusters: usize,
    /// First generation.
    pub first_ps: Time,
    /// Last generation.
    pub last_ps: Time,
    /// Bytes of all frames.
    pub bytes: u64,
    /// Mean rate over the whole trace.
    pub offered_bps: f64,
    /// Smallest and largest update count of a worker.
    pub updates_per_worker: (u64, u64),
    /// Mean period of the fastest and the slowest worker, in ps.
    pub period_ps: (f64, f64),
    /// Coefficient of variation of a worker's gaps, mean over workers.
    pub gap_cv: f64,
    /// Updates with values, and with a reward.
    pub with_values: u64,
    /// Updates with a reward.
    pub with_reward: u64,
    /// Does the file match the hash in its manifest? None without a manifest.
    pub hash_ok: Option<bool>,
    /// What is wrong, one line each, at most twenty.
    pub problems: Vec<String>,
}

/// Running state of one worker.
#[derive(Debug, Default, Clone)]
struct WorkerState {
    cluster: u16,
    count: u64,
    next_seq: u32,
    first: Time,
    last: Time,
    gap_squares: f64,
}

/// Reads the whole trace and says what it holds and what is wrong with it.
pub fn info(path: &Path) -> Result<Info> {
    let mut reader = Reader::open(path)?;
    let mut scan = Scan::default();
    while let Some(block) = reader.next_block()? {
        for (i, update) in block.updates.iter().enumerate() {
            scan.update(update, block.values(i));
        }
    }
    let manifest = TraceManifest::load(path)?;
    let hash_ok = manifest.map(|m| Ok::<_, Error>(m.sha256 == file_hash(path)?)).transpose()?;
    if hash_ok == Some(false) {
        scan.problem("the file does not match the hash in its manifest: one of them was changed".into());
    }
    Ok(scan.finish(hash_ok))
}

/// Like [`info`], but problems are an error.
pub fn check(path: &Path) -> Result<Info> {
    let info = info(path)?;
    if info.problems.is_empty() { Ok(info) } else { Err(Error::data(path, info.problems.join("; "))) }
}

#[derive(Default)]
struct Scan {
    rows: u64,
    bytes: u64,
    first: Option<Time>,
    last: Time,
    with_values: u64,
    with_reward: u64,
    workers: BTreeMap<u32, WorkerState>,
    problems: Vec<String>,
}

impl Scan {
    fn problem(&mut self, what: String) {
        if self.problems.len() < 20 {
            self.problems.push(what);
        }
    }

    fn update(&mut self, update: &crate::workload::Update, values: &[f32]) {
        let row = self.rows;
        self.rows += 1;
        self.bytes += u64::from(update.bytes);
        self.with_values += u64::from(!values.is_empty());
        self.with_reward += u64::from(update.reward.is_some());
        if update.t_gen < self.last || update.t_gen < 0 {
            self.problem(format!(
                "row {row}: time {} ps is before {} ps; times must not go back",
                update.t_gen, self.last
            ));
        }
        self.first.get_or_insert(update.t_gen);
        self.last = self.last.max(update.t_gen);
        if !(HEAD as u32..=FRAME_MAX as u32).contains(&update.bytes) {
            self.problem(format!("row {row}: {} bytes; frames have {HEAD} to {FRAME_MAX}", update.bytes));
        }
        if update.worker >= PacketId::WORKERS_MAX {
            self.problem(format!("row {row}: worker {} is not below {}", update.worker, PacketId::WORKERS_MAX));
        }
        if values.iter().chain(&update.reward).any(|v| !v.is_finite()) {
            self.problem(format!("row {row}: a value or reward is not a finite number"));
        }
        let new = WorkerState { cluster: update.cluster, first: update.t_gen, ..Default::default() };
        let state = self.workers.entry(update.worker).or_insert(new);
        let expected = state.next_seq;
        let moved = state.cluster != update.cluster;
        if state.count > 0 {
            let gap = (update.t_gen - state.last) as f64;
            state.gap_squares += gap * gap;
        }
        state.count += 1;
        state.last = update.t_gen;
        state.next_seq = update.seq.wrapping_add(1);
        if update.seq != expected {
            self.problem(format!(
                "row {row}: worker {} has seq {} after {expected} updates",
                update.worker, update.seq
            ));
        }
        if moved {
            self.problem(format!("row {row}: worker {} is in two clusters", update.worker));
        }
    }

    fn finish(mut self, hash_ok: Option<bool>) -> Info {
        if self.rows == 0 {
            self.problem("the trace is empty".into());
        }
        if let Some((&last, _)) = self.workers.last_key_value()
            && last as usize + 1 != self.workers.len()
        {
            self.problem(format!("{} workers have ids up to {last}; ids must be dense from 0", self.workers.len()));
        }
        let first = self.first.unwrap_or(0);
        let span = (self.last - first) as f64;
        let mut info = Info {
            updates: self.rows,
            workers: self.workers.len(),
            clusters: self
                .workers
                .values()
                .map(|w| w.cluster)
                .filter(|c| *c != NO_CLUSTER)
                .collect::<std::collections::BTreeSet<_>>()
                .len(),
            first_ps: first,
            last_ps: self.last,
            bytes: self.bytes,
            offered_bps: if span > 0.0 { self.bytes as f64 * 8.0 * SECOND as f64 / span } else { 0.0 },
            updates_per_worker: (u64::MAX, 0),
            period_ps: (f64::INFINITY, 0.0),
            gap_cv: 0.0,
            with_values: self.with_values,
            with_reward: self.with_reward,
            hash_ok,
            problems: self.problems,
        };
        let mut varied = 0u32;
        for state in self.workers.values() {
            info.updates_per_worker.0 = info.updates_per_worker.0.min(state.count);
            info.updates_per_worker.1 = info.updates_per_worker.1.max(state.count);
            if state.count > 1 {
                let gaps = (state.count - 1) as f64;
                let mean = (state.last - state.first) as f64 / gaps;
                info.period_ps = (info.period_ps.0.min(mean), info.period_ps.1.max(mean));
                if mean > 0.0 {
                    info.gap_cv += (state.gap_squares / gaps / (mean * mean) - 1.0).max(0.0).sqrt();
                    varied += 1;
                }
            }
        }
        info.gap_cv /= f64::from(varied.max(1));
        if info.updates_per_worker.0 == u64::MAX {
            info.updates_per_worker.0 = 0;
        }
        if !info.period_ps.0.is_finite() {
            info.period_ps.0 = 0.0;
        }
        info
    }
}
