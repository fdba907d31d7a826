//! Other sizes of a trace: more clusters and workers, more updates, other times, another frame.
//!
//! Recorded workers stay as they are; a copy is made of blocks of one recorded worker ([`walk`]), with gaps, rewards and
//! gradients at about their place in the training. All workers of a copied cluster use the same draws, so they stay in step with
//! each other. Where all workers go through iterations together, copies keep the recorded times. docs/traces.md says what is
//! kept and how that is tested. Nothing here grows with the trace but a few numbers per worker: its updates lie on disk
//! ([`spool`]).

mod payload;
mod spool;
mod walk;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::path::Path;

use spool::{Member, Spool};
use walk::{Walk, Way};

use super::manifest::TraceManifest;
use super::stretch::Stretch;
use super::write::{Writer, refuse_same};
use crate::record::{NO_CLUSTER, PacketId};
use crate::seed::Seed;
use crate::time::{Time, too_late};
use crate::units::{Decimal, Rate};
use crate::wire::frame::FRAME_MAX;
use crate::wire::update::{FRAME_MIN, elements_in};
use crate::workload::Update;
use crate::{Error, Result};

/// Largest exponent of a skew.
const SKEW_MAX: f64 = 4.0;
/// Most updates of a worker that a skew makes without a wanted number of them.
const SKEWED_MAX: f64 = (1u64 << 28) as f64;

/// What to make of a trace; what is none stays as it is.
#[derive(Debug, Clone, Default)]
pub struct ScalePlan {
    /// Clusters.
    pub clusters: Option<u16>,
    /// Workers in each.
    pub workers: Option<u32>,
    /// Updates of each worker.
    pub updates: Option<u32>,
    /// Mean rate over the whole run.
    pub offered: Option<Rate>,
    /// What times are multiplied by.
    pub time: Option<Decimal>,
    /// How unequal the workers' rates are: the exponent of each rate relative to their geometric mean. 1 is as recorded,
    /// 0 makes them equal.
    pub skew: Option<f64>,
    /// Frame size.
    pub bytes: Option<u32>,
    /// Seed of what copies draw.
    pub seed: u64,
}

impl ScalePlan {
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
        if self.offered.is_some() && self.time.is_some() {
            return Err(Error::config("--rate, --time: both say how long the trace is; give one of them"));
        }
        if let Some(time) = self.time.filter(|time| !time.is_within(9, 9)) {
            return refuse("--time", time.to_string(), "from 1e-9 to 1e9");
        }
        if let Some(skew) = self.skew.filter(|skew| !(0.0..=SKEW_MAX).contains(skew)) {
            return refuse("--skew", skew.to_string(), "from 0 to 4");
        }
        match self.bytes {
            Some(bytes) if !(FRAME_MIN..=FRAME_MAX).contains(&(bytes as usize)) => {
                refuse("--bytes", format!("{bytes} B"), &format!("from {FRAME_MIN} B to {FRAME_MAX} B"))
            }
            _ => Ok(()),
        }
    }
}

/// Writes `output` as `input` scaled.
pub fn scale(input: &Path, output: &Path, scaling: &ScalePlan) -> Result<TraceManifest> {
    scaling.check()?;
    refuse_same(input, output)?;
    let mut writer = Writer::create(output)?;
    let spool = Spool::fill(input, output)?;
    if spool.keyed && scaling.bytes.is_some() {
        return Err(Error::config(
            "--bytes: the trace has keys, so the size of a frame follows from its pairs; leave it out",
        ));
    }
    if spool.in_step.is_some() && scaling.skew.is_some_and(|skew| skew != 1.0) {
        return Err(Error::config(
            "--skew: the workers pass iterations together, and with other rates they would not; leave it out",
        ));
    }
    let (stretch, long) = measure(walks(&spool, scaling)?, scaling)?;
    write(walks(&spool, scaling)?, &spool, stretch, scaling, &mut writer)?;
    let origin = TraceManifest::load(input)?;
    let mut details = BTreeMap::from([
        ("from_sha256".to_owned(), super::file_hash(input)?),
        ("scaling".to_owned(), format!("{scaling:?}")),
    ]);
    if spool.plain > 0 {
        let words = format!("{} updates of background traffic; the other workers are renumbered", spool.plain);
        details.insert("left_out".to_owned(), words);
    }
    if let Some(words) = long {
        details.insert("long_copies".to_owned(), words);
    }
    let licence = origin.as_ref().map_or("unknown".to_owned(), |m| m.licence.clone());
    if let Some(origin) = origin {
        details.insert("origin".into(), origin.origin);
        details.extend(origin.details.into_iter().map(|(k, v)| (format!("origin.{k}"), v)));
    }
    writer.finish("scaled", details, &licence)
}

/// What the gaps of each recorded worker are multiplied by for a skew of rates.
fn paces(members: &[Member], skew: Option<f64>) -> Vec<f64> {
    let Some(skew) = skew.filter(|skew| *skew != 1.0) else { return vec![1.0; members.len()] };
    let logs: Vec<_> = members.iter().map(|m| (m.mean_gap() > 0).then(|| (m.mean_gap() as f64).ln())).collect();
    let known = logs.iter().flatten().count().max(1);
    let mean = logs.iter().flatten().sum::<f64>() / known as f64;
    // Gaps are one over rates: their logarithms' distances from the mean grow by the same factor.
    logs.iter().map(|log| log.map_or(1.0, |log| ((log - mean) * (skew - 1.0)).exp())).collect()
}

/// Refuses a skew that makes so many updates of a worker that they would fill a disk.
fn refuse_flood(own: &Member, pace: f64, updates: Option<u32>) -> Result<()> {
    let made = f64::from(own.n) / pace;
    if updates.is_some() || pace >= 1.0 || made <= SKEWED_MAX {
        return Ok(());
    }
    Err(Error::config(format!(
        "--skew: worker {} would have {made:.1e} updates; give --updates, or a skew nearer to 1",
        own.worker
    )))
}

/// The workers that are made, in the order of their ids.
fn walks<'a>(spool: &'a Spool, scaling: &ScalePlan) -> Result<Vec<Walk<'a>>> {
    let paces = paces(&spool.members, scaling.skew);
    let mut clusters: BTreeMap<u16, Vec<(&Member, f64)>> = BTreeMap::new();
    for (member, pace) in spool.members.iter().zip(paces) {
        clusters.entry(member.cluster).or_default().push((member, pace));
    }
    let clusters: Vec<_> = clusters.into_values().collect();
    let wanted = scaling.clusters.unwrap_or(clusters.len().min(NO_CLUSTER.into()) as u16);
    let mut walks = Vec::new();
    for cluster in 0..wanted {
        let source = &clusters[usize::from(cluster) % clusters.len()];
        let workers = scaling.workers.unwrap_or(source.len() as u32);
        if walks.len() + workers as usize > PacketId::WORKERS_MAX as usize {
            return Err(Error::config(format!(
                "--clusters, --workers: more than {} workers in all; ask for fewer",
                PacketId::WORKERS_MAX
            )));
        }
        for slot in 0..workers {
            let (own, pace) = source[slot as usize % source.len()];
            refuse_flood(own, pace, scaling.updates)?;
            let again = slot as usize / source.len();
            let first = usize::from(cluster) < clusters.len() && again == 0;
            let original = first && pace == 1.0 && scaling.updates.is_none_or(|updates| updates == own.n);
            let way = if original || spool.in_step.is_some() {
                Way::InOrder
            } else {
                // A second copy of a worker within its cluster must not march in step with the first.
                let draws = if again == 0 { 0 } else { u64::from(slot) + 1 };
                Way::Blocks(Seed(scaling.seed).stream("trace.scale", cluster.into(), draws))
            };
            let in_order = matches!(way, Way::InOrder);
            let mut walk = Walk::begin(spool, own, way, scaling.updates, pace)?;
            (walk.cluster, walk.worker, walk.original) = (cluster, walks.len() as u32, first && in_order);
            walks.push(walk);
        }
    }
    Ok(walks)
}

/// How times are stretched, and a note on copies with far more updates than expected. Refuses a trace that would be too
/// long.
fn measure(walks: Vec<Walk<'_>>, scaling: &ScalePlan) -> Result<(Stretch, Option<String>)> {
    let too_long = |ps: f64| {
        let keys = "ask for fewer --updates, a higher --rate or a smaller --time";
        Err(Error::config(too_late("the last update of the scaled trace", ps, keys)))
    };
    let (mut first, mut last, mut bits) = (Time::MAX, 0, 0u128);
    let (mut long, mut example) = (0u32, None);
    for mut walk in walks {
        first = first.min(walk.at);
        loop {
            bits += u128::from(scaling.bytes.unwrap_or(walk.row().bytes)) * 8;
            if !walk.step()? {
                break;
            }
        }
        if walk.at == Time::MAX {
            return too_long(Time::MAX as f64);
        }
        last = last.max(walk.at);
        if walk.is_long() {
            long += 1;
            let words = || format!("worker {}: {}, expected {:.0}", walk.worker, walk.seq, walk.expected());
            example.get_or_insert_with(words);
        }
    }
    if scaling.offered.is_some() && last <= first {
        return Err(Error::config("--rate: all updates are at one time, so there is no rate to be met; leave it out"));
    }
    let stretch = match (scaling.offered, scaling.time) {
        (Some(rate), _) => Stretch::offered(first, last, bits, rate),
        (None, Some(factor)) => Stretch::factor(0, factor),
        (None, None) => Stretch::none(0),
    };
    let note = |example: String| {
        format!("{long} with at least twice the updates expected ({example}); give --updates, or another --seed")
    };
    match stretch.at(last) {
        Some(_) => Ok((stretch, example.map(note))),
        None => too_long(stretch.about(last)),
    }
}

/// Writes all updates in the order of time, then of workers.
fn write(
    mut walks: Vec<Walk<'_>>,
    spool: &Spool,
    stretch: Stretch,
    scaling: &ScalePlan,
    writer: &mut Writer,
) -> Result<()> {
    let mut heap: BinaryHeap<_> = walks.iter().map(|walk| Reverse((walk.at, walk.worker))).collect();
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    while let Some(mut top) = heap.peek_mut() {
        let Reverse((at, worker)) = *top;
        let walk = &mut walks[worker as usize];
        let row = walk.row();
        let update = Update {
            // `measure` has seen the last one: all are in range.
            t_gen: stretch.at(at).unwrap_or(Time::MAX),
            cluster: walk.cluster,
            worker,
            seq: walk.seq,
            bytes: scaling.bytes.unwrap_or(row.bytes),
            reward: row.reward,
            iteration: row.iteration,
        };
        spool.payload(&row, &mut keys, &mut values)?;
        let wanted = scaling.bytes.map_or(values.len(), |bytes| elements_in(bytes as usize));
        payload::make(&mut values, wanted, worker, walk.seq, scaling.seed, !walk.is_recorded());
        writer.push_pairs(&update, &keys, &values)?;
        if walk.step()? {
            *top = Reverse((walk.at, worker));
        } else {
            std::collections::binary_heap::PeekMut::pop(top);
        }
    }
    Ok(())
}
