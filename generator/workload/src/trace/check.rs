//! Looking at a trace, and distrusting it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;

use super::manifest::{TraceManifest, file_hash};
use super::read::Reader;
use super::rules::Rules;
use crate::record::NO_CLUSTER;
use crate::time::{SECOND, Time};
use crate::workload::Update;
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
    /// Mean rate over the whole trace; none if all updates are of one instant.
    pub offered_bps: Option<f64>,
    /// Smallest and largest update count of a worker.
    pub updates_per_worker: (u64, u64),
    /// Mean period of the fastest and the slowest worker, in ps; none if no worker has two updates.
    pub period_ps: Option<(f64, f64)>,
    /// Coefficient of variation of a worker's gaps, mean over workers; none if no worker has two updates at different times.
    pub gap_cv: Option<f64>,
    /// Updates with values, and with a reward.
    pub with_values: u64,
    /// Updates with a reward.
    pub with_reward: u64,
    /// Updates with keys.
    pub with_keys: u64,
    /// Whether the file matches the hash in its manifest. None without a manifest.
    pub hash_ok: Option<bool>,
    /// What is wrong, one line each, at most twenty.
    pub problems: Vec<String>,
}

/// Gaps of one worker.
#[derive(Debug, Default, Clone)]
struct WorkerState {
    count: u64,
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
            scan.update(update, block.keys(i), block.values(i));
        }
    }
    let manifest = TraceManifest::load(path)?;
    let hash_ok = manifest.map(|m| Ok::<_, Error>(m.sha256 == file_hash(path)?)).transpose()?;
    if hash_ok == Some(false) {
        scan.rules.problem("the file does not match the hash in its manifest: one of them was changed".into());
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
    rules: Rules,
    bytes: u64,
    first: Option<Time>,
    last: Time,
    with_values: u64,
    with_reward: u64,
    with_keys: u64,
    workers: BTreeMap<u32, WorkerState>,
}

impl Scan {
    fn update(&mut self, update: &Update, keys: &[u64], values: &[f32]) {
        self.rules.update(update, values);
        self.rules.pairs(update.bytes, keys, values);
        self.bytes += u64::from(update.bytes);
        self.with_values += u64::from(!values.is_empty());
        self.with_reward += u64::from(update.reward.is_some());
        self.with_keys += u64::from(!keys.is_empty());
        self.first.get_or_insert(update.t_gen);
        self.last = self.last.max(update.t_gen);
        let new = WorkerState { first: update.t_gen, ..Default::default() };
        let state = self.workers.entry(update.worker).or_insert(new);
        if state.count > 0 {
            let gap = distance(state.last, update.t_gen);
            state.gap_squares += gap * gap;
        }
        state.count += 1;
        state.last = update.t_gen;
    }

    fn finish(self, hash_ok: Option<bool>) -> Info {
        let updates = self.rules.rows();
        let (clusters, problems) = self.rules.finish();
        let first = self.first.unwrap_or(0);
        let span = distance(first, self.last);
        let mut info = Info {
            updates,
            workers: self.workers.len(),
            clusters: clusters.iter().filter(|c| **c != NO_CLUSTER).collect::<BTreeSet<_>>().len(),
            first_ps: first,
            last_ps: self.last,
            bytes: self.bytes,
            offered_bps: (span > 0.0).then(|| self.bytes as f64 * 8.0 * SECOND as f64 / span),
            updates_per_worker: (u64::MAX, 0),
            period_ps: None,
            gap_cv: None,
            with_values: self.with_values,
            with_reward: self.with_reward,
            with_keys: self.with_keys,
            hash_ok,
            problems,
        };
        let (mut variations, mut varied) = (0.0, 0u32);
        for state in self.workers.values() {
            info.updates_per_worker.0 = info.updates_per_worker.0.min(state.count);
            info.updates_per_worker.1 = info.updates_per_worker.1.max(state.count);
            if state.count > 1 {
                let gaps = (state.count - 1) as f64;
                let mean = distance(state.first, state.last) / gaps;
                let (fastest, slowest) = info.period_ps.unwrap_or((mean, mean));
                info.period_ps = Some((fastest.min(mean), slowest.max(mean)));
                if mean > 0.0 {
                    variations += (state.gap_squares / gaps / (mean * mean) - 1.0).max(0.0).sqrt();
                    varied += 1;
                }
            }
        }
        info.gap_cv = (varied > 0).then(|| variations / f64::from(varied));
        if info.updates_per_worker.0 == u64::MAX {
            info.updates_per_worker.0 = 0;
        }
        info
    }
}

/// Returns the time from `a` to `b`, subtracted before it is rounded; times of an invalid trace may be any number.
fn distance(a: Time, b: Time) -> f64 {
    (i128::from(b) - i128::from(a)) as f64
}
