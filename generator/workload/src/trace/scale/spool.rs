//! A trace on disk by worker, so that traces larger than memory can be scaled: a copy reads blocks of one worker, and a
//! Parquet file has all workers mixed. Two files without names, gone when they are closed.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::record::NO_CLUSTER;
use crate::time::Time;
use crate::trace::{Reader, Rules};
use crate::whole::beside;
use crate::workload::Update;
use crate::{Error, Result};

/// Bytes of a row on disk.
const ROW: usize = 48;
/// Rows of a worker that are written at once.
const CHUNK: usize = 64;

/// A recorded worker.
#[derive(Debug, Clone, Default)]
pub(super) struct Member {
    pub(super) cluster: u16,
    pub(super) worker: u32,
    /// Updates, and instants that have any.
    pub(super) n: u32,
    instants: u32,
    /// Number of its first iteration, if its updates have one.
    pub(super) iteration: Option<u32>,
    pub(super) first: Time,
    pub(super) last: Time,
    /// Place of its first row, in rows.
    base: u64,
}

impl Member {
    /// Its mean gap; 0 of a single update.
    pub(super) fn mean_gap(&self) -> Time {
        // Times do not go back, but the first may be far below zero in no trace that the rules pass.
        (self.last - self.first) / Time::from(self.n.max(2) - 1)
    }

    /// The mean time between instants, at least a picosecond; 0 of a single one.
    pub(super) fn mean_pause(&self) -> Time {
        (self.last - self.first) / Time::from(self.instants.max(2) - 1)
    }
}

/// A recorded update, and where its values are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Row {
    /// Time since the worker's update before; for its first, which begins the next pass, the mean time between instants, or in step
    /// what is left of the longest pass.
    pub(super) gap: Time,
    /// When it was generated.
    t: Time,
    pub(super) bytes: u32,
    pub(super) reward: Option<f32>,
    pub(super) iteration: Option<u32>,
    /// Place of its values, then of its keys, and how many there are.
    at: u64,
    values: u32,
    keyed: bool,
}

impl Row {
    fn encode(&self) -> [u8; ROW] {
        let flags =
            u32::from(self.reward.is_some()) | u32::from(self.iteration.is_some()) << 1 | u32::from(self.keyed) << 2;
        let mut row = [0; ROW];
        row[..8].copy_from_slice(&self.gap.to_le_bytes());
        row[8..16].copy_from_slice(&self.at.to_le_bytes());
        row[16..24].copy_from_slice(&self.t.to_le_bytes());
        let words = [self.bytes, self.reward.unwrap_or(0.0).to_bits(), self.iteration.unwrap_or(0), self.values, flags];
        for (to, word) in row[24..].as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *to = word.to_le_bytes();
        }
        row
    }

    fn decode(row: &[u8; ROW]) -> Row {
        let long = |i: usize| u64::from_le_bytes(std::array::from_fn(|k| row[i + k]));
        let word = |i: usize| u32::from_le_bytes(std::array::from_fn(|k| row[24 + 4 * i + k]));
        Row {
            gap: long(0) as Time,
            at: long(8),
            t: long(16) as Time,
            bytes: word(0),
            reward: (word(4) & 1 != 0).then(|| f32::from_bits(word(1))),
            iteration: (word(4) & 2 != 0).then(|| word(2)),
            values: word(3),
            keyed: word(4) & 4 != 0,
        }
    }
}

/// All updates of a trace, by worker.
pub(super) struct Spool {
    path: PathBuf,
    rows: File,
    payloads: File,
    /// In the order of clusters, then of workers.
    pub(super) members: Vec<Member>,
    /// Iterations, if all workers go through them together: then a copy must not leave its place in time.
    pub(super) in_step: Option<u32>,
    /// Whether any update has keys.
    pub(super) keyed: bool,
    /// Updates of background traffic, which are not in it.
    pub(super) plain: u64,
}

/// A file beside `output` that has no name any more.
fn nameless(output: &Path, what: &str) -> Result<File> {
    let mut name = output.as_os_str().to_owned();
    name.push(what);
    let (file, path) = beside(Path::new(&name))?;
    std::fs::remove_file(&path).map_err(Error::io("remove", &path))?;
    Ok(file)
}

/// What the first pass learns.
#[derive(Default)]
struct Census {
    members: BTreeMap<(u16, u32), Member>,
    iteration: Option<u32>,
    out_of_step: bool,
    keyed: bool,
    plain: u64,
}

impl Census {
    fn take(input: &Path) -> Result<Census> {
        let mut census = Census::default();
        let mut rules = Rules::default();
        let mut reader = Reader::open(input)?;
        while let Some(block) = reader.next_block()? {
            for (i, update) in block.updates.iter().enumerate() {
                rules.update(update, block.values(i));
                rules.pairs(update.bytes, block.keys(i), block.values(i));
                census.keyed |= !block.keys(i).is_empty();
                match update.cluster {
                    NO_CLUSTER => census.plain += 1,
                    _ => census.update(update),
                }
            }
        }
        match rules.finish().1.first() {
            Some(what) => Err(Error::data(input, format!("{what}; `pktgen trace check` says more"))),
            None if census.members.is_empty() => Err(Error::data(input, "the trace has no updates to scale")),
            None => Ok(census),
        }
    }

    fn update(&mut self, update: &Update) {
        // Between barriers no worker is an iteration ahead of another.
        self.out_of_step |= update.iteration.is_none() || update.iteration < self.iteration;
        self.iteration = self.iteration.max(update.iteration);
        let (cluster, worker) = (update.cluster, update.worker);
        let (first, iteration) = (update.t_gen, update.iteration);
        let new = || Member { cluster, worker, first, iteration, ..Member::default() };
        let member = self.members.entry((cluster, worker)).or_insert_with(new);
        member.instants += u32::from(member.n == 0 || update.t_gen != member.last);
        member.n = member.n.saturating_add(1);
        member.last = update.t_gen;
    }
}

/// Rows of a worker that are not written yet.
#[derive(Default)]
struct Pending {
    rows: Vec<u8>,
    written: u32,
    last: Time,
}

impl Spool {
    /// Reads `input` twice: who is in it, then what they sent. The files lie beside `output` while they are open.
    pub(super) fn fill(input: &Path, output: &Path) -> Result<Spool> {
        let census = Census::take(input)?;
        let in_step = census.iteration.filter(|_| !census.out_of_step).map(|last| last.saturating_add(1));
        let mut spool = Spool {
            path: output.to_owned(),
            rows: nameless(output, ".rows")?,
            payloads: nameless(output, ".values")?,
            members: census.members.into_values().collect(),
            in_step,
            keyed: census.keyed,
            plain: census.plain,
        };
        let mut base = 0;
        for member in &mut spool.members {
            member.base = base;
            base += u64::from(member.n);
        }
        spool.copy(input)?;
        Ok(spool)
    }

    fn copy(&self, input: &Path) -> Result<()> {
        let index: BTreeMap<u32, usize> = self.members.iter().enumerate().map(|(i, m)| (m.worker, i)).collect();
        // In step, all begin the next pass after the last of this one: a pass of each worker's own would move its barriers.
        let begin = self.members.iter().map(|member| member.first).min().unwrap_or(0);
        let length = |member: &Member| {
            let own = (member.last - member.first).saturating_add(member.mean_pause());
            own.max((member.last - begin).saturating_add(1))
        };
        let round = self.members.iter().map(length).max().filter(|_| self.in_step.is_some());
        let mut pending: Vec<Pending> = self.members.iter().map(|_| Pending::default()).collect();
        let (mut at, mut payload) = (0, Vec::new());
        let mut reader = Reader::open(input)?;
        while let Some(block) = reader.next_block()? {
            payload.clear();
            let start = at;
            for (i, update) in block.updates.iter().enumerate().filter(|(_, u)| u.cluster != NO_CLUSTER) {
                let (keys, values) = (block.keys(i), block.values(i));
                let member = index.get(&update.worker).copied();
                let Some(own) = member.filter(|m| pending[*m].written < self.members[*m].n) else {
                    return Err(Error::data(input, "the trace was changed while it was read"));
                };
                let (member, own) = (&self.members[own], &mut pending[own]);
                let first = own.written == 0;
                let row = Row {
                    gap: match round {
                        _ if !first => update.t_gen - own.last,
                        Some(round) => round - (member.last - member.first),
                        None => member.mean_pause(),
                    },
                    t: update.t_gen,
                    bytes: update.bytes,
                    reward: update.reward,
                    iteration: update.iteration,
                    at,
                    values: values.len() as u32,
                    keyed: !keys.is_empty(),
                };
                payload.extend(values.iter().flat_map(|v| v.to_le_bytes()));
                payload.extend(keys.iter().flat_map(|k| k.to_le_bytes()));
                at = start + payload.len() as u64;
                own.last = update.t_gen;
                own.written += 1;
                own.rows.extend_from_slice(&row.encode());
                if own.rows.len() >= CHUNK * ROW {
                    self.put(member, own)?;
                }
            }
            self.payloads.write_all_at(&payload, start).map_err(Error::io("write beside", &self.path))?;
        }
        self.members.iter().zip(&mut pending).try_for_each(|(member, own)| self.put(member, own))
    }

    /// Writes what is pending of a worker.
    fn put(&self, member: &Member, own: &mut Pending) -> Result<()> {
        let place = (member.base + u64::from(own.written)) * ROW as u64 - own.rows.len() as u64;
        self.rows.write_all_at(&own.rows, place).map_err(Error::io("write beside", &self.path))?;
        own.rows.clear();
        Ok(())
    }

    /// Rows `from` to `to` of a worker, into `rows`.
    pub(super) fn read(&self, member: &Member, from: u32, to: u32, rows: &mut Vec<Row>) -> Result<()> {
        let mut bytes = vec![0; to.saturating_sub(from) as usize * ROW];
        let place = (member.base + u64::from(from)) * ROW as u64;
        self.rows.read_exact_at(&mut bytes, place).map_err(Error::io("read beside", &self.path))?;
        rows.clear();
        rows.extend(bytes.as_chunks::<ROW>().0.iter().map(Row::decode));
        Ok(())
    }

    /// How many updates of a worker are before `t`.
    pub(super) fn place(&self, member: &Member, t: Time) -> Result<u32> {
        let (mut low, mut high) = (0, member.n);
        let mut row = Vec::new();
        while low < high {
            let middle = low + (high - low) / 2;
            self.read(member, middle, middle + 1, &mut row)?;
            if row[0].t < t { low = middle + 1 } else { high = middle }
        }
        Ok(low)
    }

    /// Number of the first update of the instant that update `at` is in.
    pub(super) fn instant_begin(&self, member: &Member, at: u32) -> Result<u32> {
        let mut row = Vec::new();
        self.read(member, at, at + 1, &mut row)?;
        if row[0].gap == 0 { self.place(member, row[0].t) } else { Ok(at) }
    }

    /// Number of the first update from `at` on that is not of the instant of the one before `at`.
    pub(super) fn instant_end(&self, member: &Member, at: u32) -> Result<u32> {
        if at >= member.n {
            return Ok(member.n);
        }
        let mut row = Vec::new();
        self.read(member, at, at + 1, &mut row)?;
        if row[0].gap == 0 { self.place(member, row[0].t.saturating_add(1)) } else { Ok(at) }
    }

    /// The keys and values of an update, into `keys` and `values`.
    pub(super) fn payload(&self, row: &Row, keys: &mut Vec<u64>, values: &mut Vec<f32>) -> Result<()> {
        keys.clear();
        values.clear();
        let numbers = row.values as usize;
        let mut bytes = vec![0; numbers * if row.keyed { 12 } else { 4 }];
        self.payloads.read_exact_at(&mut bytes, row.at).map_err(Error::io("read beside", &self.path))?;
        let (own, named) = bytes.split_at(numbers * 4);
        values.extend(own.as_chunks::<4>().0.iter().map(|v| f32::from_le_bytes(*v)));
        keys.extend(named.as_chunks::<8>().0.iter().map(|k| u64::from_le_bytes(*k)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_as_it_was_written() {
        let row =
            Row { gap: -3, t: 5, bytes: 9, reward: Some(-0.5), iteration: None, at: 1 << 40, values: 7, keyed: true };
        assert_eq!(Row::decode(&row.encode()), row);
        let other = Row { reward: None, iteration: Some(u32::MAX), keyed: false, ..row };
        assert_eq!(Row::decode(&other.encode()), other);
    }
}
