//! Other sizes of a trace: more clusters and workers, more updates, another rate, another frame.
//!
//! A new worker takes the gaps, rewards and values of a recorded one, rotated: gap `i` of the copy is gap
//! `i + r` of the original, around the end. That keeps the multiset of gaps, and so the whole
//! inter-arrival distribution, and every neighbourhood but one, and so the correlation. All
//! workers of a copied cluster rotate by the same fraction, so they stay in step with each other. The
//! first copy of each cluster is not rotated.

use std::collections::BTreeMap;
use std::path::Path;

use rand::RngExt;

use super::manifest::TraceManifest;
use super::read::Reader;
use super::write::Writer;
use crate::record::NO_CLUSTER;
use crate::seed::Seed;
use crate::time::{SECOND, Time};
use crate::units::Rate;
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

/// A recorded worker: its updates in order, with where their values are.
#[derive(Debug, Default)]
struct Recorded {
    updates: Vec<Update>,
    values: Vec<Vec<f32>>,
    /// Gap before update `i + 1`; the last one, back to the start, is their mean.
    gaps: Vec<Time>,
}

/// Writes `output` as `input` scaled.
pub fn scale(input: &Path, output: &Path, scaling: &Scaling) -> Result<TraceManifest> {
    let recorded = load(input)?;
    let clusters: Vec<&Vec<Recorded>> = recorded.values().collect();
    let wanted_clusters = scaling.clusters.unwrap_or(clusters.len() as u16);
    let mut made = Vec::new();
    let mut worker_id = 0;
    for cluster in 0..wanted_clusters {
        let source = clusters[usize::from(cluster) % clusters.len()];
        let mut stream = Seed(scaling.seed).stream("trace.scale", cluster.into(), 0);
        let rotation: f64 = if usize::from(cluster) < clusters.len() { 0.0 } else { stream.random() };
        let workers = scaling.workers.unwrap_or(source.len() as u32);
        for slot in 0..workers {
            let own = &source[slot as usize % source.len()];
            // A second copy of a worker within its cluster must not march in step with the first.
            let extra: f64 = if (slot as usize) < source.len() { 0.0 } else { stream.random() };
            let copies = scaling.updates.unwrap_or(own.updates.len() as u32);
            made.extend(copy(own, cluster, worker_id, (rotation + extra).fract(), copies));
            worker_id += 1;
        }
    }
    made.sort_by_key(|(update, _)| (update.t_gen, update.worker));
    resize(&mut made, scaling);
    let mut writer = Writer::create(output)?;
    for (update, values) in &made {
        writer.push(update, values)?;
    }
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
    let mut by_worker: BTreeMap<(u16, u32), Recorded> = BTreeMap::new();
    while let Some(block) = reader.next_block()? {
        for (i, update) in block.updates.iter().enumerate().filter(|(_, u)| u.cluster != NO_CLUSTER) {
            let recorded = by_worker.entry((update.cluster, update.worker)).or_default();
            recorded.updates.push(*update);
            recorded.values.push(block.values(i).to_vec());
        }
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

/// `count` updates that repeat `own` from the fraction `rotation` on.
fn copy(own: &Recorded, cluster: u16, worker: u32, rotation: f64, count: u32) -> Vec<(Update, Vec<f32>)> {
    let n = own.updates.len();
    let start = (rotation * n as f64) as usize % n;
    let mut at = own.updates[0].t_gen;
    let mut out = Vec::with_capacity(count as usize);
    for seq in 0..count {
        let i = (start + seq as usize) % n;
        out.push((Update { t_gen: at, cluster, worker, seq, ..own.updates[i] }, own.values[i].clone()));
        at += own.gaps[i];
    }
    out
}

/// Applies the frame size, then the rate: times are stretched so that the whole run has it.
fn resize(made: &mut [(Update, Vec<f32>)], scaling: &Scaling) {
    if let Some(bytes) = scaling.bytes {
        let room = crate::wire::olaf::elements_in(bytes as usize);
        for (update, values) in made.iter_mut() {
            update.bytes = bytes;
            let recorded = values.len();
            // A larger frame repeats the recorded values; a smaller one has their beginning.
            if recorded > 0 {
                *values = (0..room).map(|i| values[i % recorded]).collect();
            }
        }
    }
    let (Some(first), Some(last)) = (made.first().map(|m| m.0.t_gen), made.last().map(|m| m.0.t_gen)) else { return };
    if let Some(rate) = scaling.offered
        && last > first
    {
        let bits: u128 = made.iter().map(|(u, _)| u128::from(u.bytes) * 8).sum();
        let wanted = bits * SECOND as u128 / u128::from(rate.bps());
        for (update, _) in made.iter_mut() {
            update.t_gen = ((update.t_gen - first) as u128 * wanted / (last - first) as u128) as Time;
        }
    }
}
