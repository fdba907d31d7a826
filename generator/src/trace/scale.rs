//! Other sizes of a trace: more clusters and workers, more updates, another rate, another frame.
//!
//! A new worker takes the gaps, rewards and values of a recorded one, rotated: gap `i` of the copy is gap
//! `i + r` of the original, around the end. That keeps the multiset of gaps, and so the whole
//! inter-arrival distribution, and every neighbourhood but one, and so the correlation. All
//! workers of a copied cluster rotate by the same fraction, so they stay in step with each other. The
//! first copy of each cluster is not rotated.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::path::Path;

use rand::RngExt;

use super::manifest::TraceManifest;
use super::read::Reader;
use super::rules::Rules;
use super::stretch::Stretch;
use super::write::{Writer, refuse_same};
use crate::record::{NO_CLUSTER, PacketId};
use crate::seed::Seed;
use crate::time::{Time, too_late};
use crate::units::Rate;
use crate::wire::frame::FRAME_MAX;
use crate::wire::olaf::{FRAME_MIN, elements_in};
use crate::workload::Update;
use crate::{Error, Result};

/// What to make of a trace; what is none stays as it is.
#[derive(Debug, Clone, Default)]
pub struct Scaling {
    /// Clusters.
    pub clusters: Option<u16>,
    /// Workers in each.
    pub workers: Option<u32>,
    /// Updates of each worker.
    pub updates: Option<u32>,
    /// Mean rate over the whole run.
    pub offered: Option<Rate>,
    /// Frame size.
    pub bytes: Option<u32>,
    /// Seed of the rotations.
    pub seed: u64,
}

impl Scaling {
    fn check(&self) -> Result<()> {
        let refuse = |flag: &str, value: String, allowed: &str| {
            Err(Error::config(format!("{flag}: {value} is not possible; it must be {allowed}")))
        };
        if self.clusters == Some(0) {
            return refuse("--clusters", "0".into(), "at least 1");
        }
        if self.workers == Some(0) {
            return refuse("--workers", "0".into(), "at least 1");
        }
        if self.updates == Some(0) {
            return refuse("--updates", "0".into(), "at least 1");
        }
        if self.offered.is_some_and(|rate| rate.bps() == 0) {
            return refuse("--rate", "0bps".into(), "above 0");
        }
        match self.bytes {
            Some(bytes) if !(FRAME_MIN..=FRAME_MAX).contains(&(bytes as usize)) => {
                refuse("--bytes", format!("{bytes} B"), &format!("from {FRAME_MIN} B to {FRAME_MAX} B"))
            }
            _ => Ok(()),
        }
    }
}

/// A recorded worker: its updates in order, with where their values are.
#[derive(Debug, Default)]
struct Recorded {
    updates: Vec<Update>,
    values: Vec<Vec<f32>>,
    /// Gap before update `i + 1`; the last one, back to the start, is their mean.
    gaps: Vec<Time>,
}

/// A worker that is made: it walks around a recorded one.
#[derive(Clone)]
struct Walk<'a> {
    own: &'a Recorded,
    cluster: u16,
    worker: u32,
    /// Position in the recording.
    i: usize,
    at: Time,
    seq: u32,
    left: u32,
}

impl Walk<'_> {
    /// A step to the next update; none at the end, or (with some left) where times leave their range.
    fn step(&mut self) -> Option<()> {
        if self.left <= 1 {
            self.left = 0;
            return None;
        }
        self.at = self.at.checked_add(self.own.gaps[self.i])?;
        self.left -= 1;
        self.i = (self.i + 1) % self.own.updates.len();
        self.seq += 1;
        Some(())
    }
}

/// Writes `output` as `input` scaled.
pub fn scale(input: &Path, output: &Path, scaling: &Scaling) -> Result<TraceManifest> {
    scaling.check()?;
    refuse_same(input, output)?;
    let recorded = load(input)?;
    let clusters: Vec<&Vec<Recorded>> = recorded.values().collect();
    let walks = walks(&clusters, scaling)?;
    let stretch = measure(&walks, scaling)?;
    let mut writer = Writer::create(output)?;
    write(walks, stretch, scaling, &mut writer)?;
    let origin = TraceManifest::load(input)?;
    let mut details = BTreeMap::from([
        ("from_sha256".to_owned(), super::file_hash(input)?),
        ("scaling".to_owned(), format!("{scaling:?}")),
    ]);
    let licence = origin.as_ref().map_or("unknown".to_owned(), |m| m.licence.clone());
    if let Some(origin) = origin {
        details.insert("origin".into(), origin.origin);
        details.extend(origin.details.into_iter().map(|(k, v)| (format!("origin.{k}"), v)));
    }
    writer.finish("scaled", details, &licence)
}

/// Reads a trace into memory by cluster and worker.
fn load(input: &Path) -> Result<BTreeMap<u16, Vec<Recorded>>> {
    let mut reader = Reader::open(input)?;
    let mut rules = Rules::default();
    let mut by_worker: BTreeMap<(u16, u32), Recorded> = BTreeMap::new();
    while let Some(block) = reader.next_block()? {
        for (i, update) in block.updates.iter().enumerate() {
            rules.update(update, block.values(i));
            if update.cluster != NO_CLUSTER {
                let recorded = by_worker.entry((update.cluster, update.worker)).or_default();
                recorded.updates.push(*update);
                recorded.values.push(block.values(i).to_vec());
            }
        }
    }
    if let Some(what) = rules.finish().1.first() {
        return Err(Error::data(input, format!("{what}; `pktgen trace check` tells more")));
    }
    let mut clusters: BTreeMap<u16, Vec<Recorded>> = BTreeMap::new();
    for ((cluster, _), mut recorded) in by_worker {
        recorded.gaps = recorded.updates.windows(2).map(|w| w[1].t_gen - w[0].t_gen).collect();
        let mean = recorded.gaps.iter().sum::<Time>() / recorded.gaps.len().max(1) as Time;
        recorded.gaps.push(mean);
        clusters.entry(cluster).or_default().push(recorded);
    }
    if clusters.is_empty() {
        return Err(Error::data(input, "the trace has no updates to scale"));
    }
    Ok(clusters)
}

/// The workers that are made, in the order of their ids.
fn walks<'a>(clusters: &[&'a Vec<Recorded>], scaling: &Scaling) -> Result<Vec<Walk<'a>>> {
    let mut walks = Vec::new();
    let wanted = scaling.clusters.unwrap_or(clusters.len().min(NO_CLUSTER.into()) as u16);
    for cluster in 0..wanted {
        let source = clusters[usize::from(cluster) % clusters.len()];
        let mut stream = Seed(scaling.seed).stream("trace.scale", cluster.into(), 0);
        let rotation: f64 = if usize::from(cluster) < clusters.len() { 0.0 } else { stream.random() };
        let workers = scaling.workers.unwrap_or(source.len() as u32);
        if walks.len() + workers as usize > PacketId::WORKERS_MAX as usize {
            return Err(Error::config(format!(
                "--clusters, --workers: more than {} workers in all; ask for fewer",
                PacketId::WORKERS_MAX
            )));
        }
        for slot in 0..workers {
            let own = &source[slot as usize % source.len()];
            // A second copy of a worker within its cluster must not march in step with the first.
            let extra: f64 = if (slot as usize) < source.len() { 0.0 } else { stream.random() };
            let n = own.updates.len();
            let i = ((rotation + extra).fract() * n as f64) as usize % n;
            let left = scaling.updates.unwrap_or(n as u32);
            let at = own.updates[0].t_gen;
            walks.push(Walk { own, cluster, worker: walks.len() as u32, i, at, seq: 0, left });
        }
    }
    Ok(walks)
}

/// How times are stretched; refuses a trace that would be too long.
fn measure(walks: &[Walk<'_>], scaling: &Scaling) -> Result<Stretch> {
    let too_long = |ps: f64| {
        let keys = "ask for fewer --updates or a higher --rate";
        Err(Error::config(too_late("the last update of the scaled trace", ps, keys)))
    };
    let (mut first, mut last, mut bits) = (Time::MAX, 0, 0u128);
    for walk in walks {
        let mut walk = walk.clone();
        first = first.min(walk.at);
        loop {
            let bytes = scaling.bytes.unwrap_or(walk.own.updates[walk.i].bytes);
            bits += u128::from(bytes) * 8;
            if walk.step().is_none() {
                break;
            }
        }
        if walk.left > 0 {
            return too_long(walk.at as f64 + walk.own.gaps[walk.i] as f64);
        }
        last = last.max(walk.at);
    }
    let stretch = scaling.offered.map_or(Stretch::none(0), |rate| Stretch::offered(first, last, bits, rate));
    match stretch.at(last) {
        Some(_) => Ok(stretch),
        None => too_long(stretch.about(last)),
    }
}

/// Writes all updates in the order of time, then of workers.
fn write(mut walks: Vec<Walk<'_>>, stretch: Stretch, scaling: &Scaling, writer: &mut Writer) -> Result<()> {
    let mut heap: BinaryHeap<_> = walks.iter().map(|walk| Reverse((walk.at, walk.worker))).collect();
    let mut repeated = Vec::new();
    while let Some(mut top) = heap.peek_mut() {
        let Reverse((at, worker)) = *top;
        let walk = &mut walks[worker as usize];
        let (update, values) = (walk.own.updates[walk.i], &walk.own.values[walk.i]);
        // `measure` has seen the last one: all are in range.
        let t_gen = stretch.at(at).unwrap_or(Time::MAX);
        let bytes = scaling.bytes.unwrap_or(update.bytes);
        let update = Update { t_gen, cluster: walk.cluster, worker, seq: walk.seq, bytes, ..update };
        match scaling.bytes {
            // A larger frame repeats the recorded values; a smaller one has their beginning.
            Some(bytes) if !values.is_empty() => {
                repeated.clear();
                repeated.extend(values.iter().cycle().take(elements_in(bytes as usize)));
                writer.push(&update, &repeated)?;
            }
            _ => writer.push(&update, values)?,
        }
        match walk.step() {
            Some(()) => *top = Reverse((walk.at, worker)),
            None => {
                std::collections::binary_heap::PeekMut::pop(top);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "scale_tests.rs"]
mod tests;
