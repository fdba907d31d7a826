//! Hot parameters: which they are, found exactly or by training with a sample, and their indices.
//!
//! LIBRA §3.3: the training runs with a small sample of the data, parameters are ranked by how often they were updated,
//! and the top `k` are hot; a parameter's index is its rank there (§3.4). Called when a sparse workload is made, and by
//! the study of §5.3.

use std::sync::Arc;

use rand_distr::{Distribution, Poisson};

use super::curve::Curve;
use super::keys::Keys;
use crate::seed::{Seed, Stream, mix};
use crate::{Error, Result};

/// On-chip memory of a switch, in bytes (LIBRA §3.3, Principle 1: "20MB").
pub const MEMORY_BYTES: f64 = 20e6;
/// What a hot parameter takes of it (LIBRA §3.3: "4 bytes of memory").
pub const BYTES_PER_PARAMETER: f64 = 4.0;

/// The hot parameters of a job. Index 0 is the hottest; dense parameters come first (our choice: every batch has
/// them).
#[derive(Debug, Clone)]
pub struct Hot {
    dense: u32,
    keys: Keys,
    order: Arc<Order>,
}

/// Which sparse parameters are hot, in the order of their indices.
#[derive(Debug, Clone, PartialEq)]
pub enum Order {
    /// So many first ranks.
    Exact(u32),
    /// Ranks as they were identified.
    Identified {
        /// By index.
        ranks: Vec<u64>,
        /// Rank and index, by rank.
        indices: Vec<(u64, u32)>,
    },
}

impl Order {
    /// Of ranks in the order of their indices.
    pub fn identified(ranks: Vec<u64>) -> Self {
        let mut indices: Vec<_> = ranks.iter().zip(0u32..).map(|(rank, index)| (*rank, index)).collect();
        indices.sort_unstable();
        Order::Identified { ranks, indices }
    }

    /// How many.
    pub fn len(&self) -> u32 {
        match self {
            Order::Exact(count) => *count,
            Order::Identified { ranks, .. } => ranks.len() as u32,
        }
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Index of a rank.
    #[inline]
    pub fn index_of(&self, rank: u64) -> Option<u32> {
        match self {
            Order::Exact(count) => (rank < u64::from(*count)).then_some(rank as u32),
            Order::Identified { indices, .. } => {
                indices.binary_search_by_key(&rank, |(rank, _)| *rank).ok().map(|at| indices[at].1)
            }
        }
    }

    /// Rank of an index below [`len`](Self::len).
    #[inline]
    pub fn rank_of(&self, index: u32) -> Option<u64> {
        match self {
            Order::Exact(count) => (index < *count).then_some(index.into()),
            Order::Identified { ranks, .. } => ranks.get(index as usize).copied(),
        }
    }

    /// One more than its last rank.
    pub(super) fn end(&self) -> u64 {
        match self {
            Order::Exact(count) => (*count).into(),
            Order::Identified { indices, .. } => indices.last().map_or(0, |(rank, _)| rank + 1),
        }
    }
}

impl Hot {
    pub(super) fn new(dense: u32, keys: Keys, order: Arc<Order>) -> Self {
        Hot { dense, keys, order }
    }

    /// How many.
    pub fn len(&self) -> u32 {
        self.dense + self.order.len()
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Index of a parameter; none if it is cold, or no parameter of the job.
    #[inline]
    pub fn index_of(&self, key: u64) -> Option<u32> {
        if Keys::is_dense(key) {
            let number = self.keys.dense_number(key);
            return (number < u64::from(self.dense)).then_some(number as u32);
        }
        self.order.index_of(self.keys.rank(key)).map(|index| self.dense + index)
    }

    /// Key of a hot parameter; an index beyond them has none, and gets `u64::MAX`.
    #[inline]
    pub fn key_of(&self, index: u32) -> u64 {
        match index.checked_sub(self.dense) {
            None => self.keys.dense(index.into()),
            Some(index) => self.order.rank_of(index).map_or(u64::MAX, |rank| self.keys.sparse(rank)),
        }
    }

    /// The sparse ones.
    pub fn order(&self) -> &Order {
        &self.order
    }
}

/// How many parameters are hot by Principle 1 (LIBRA §3.3): the least number that gets the proportion `p` of the
/// updates, if it fits the share `c` of the memory.
pub fn principle(curve: &Curve, p: f64, c: f64) -> Result<u64, String> {
    let least = curve.ranks_for(p);
    let most = memory_limit(c);
    if least > most {
        return Err(format!(
            "a proportion of {p} of the updates takes the {least} hottest parameters, but {c} of {MEMORY_BYTES:.0} bytes \
             of memory holds {most} of {BYTES_PER_PARAMETER} bytes each; lower proportion or raise memory_share"
        ));
    }
    Ok(least)
}

/// Parameters that fit the share `c` of the memory.
pub fn memory_limit(c: f64) -> u64 {
    (c * MEMORY_BYTES / BYTES_PER_PARAMETER) as u64
}

/// How often the parameters were updated in a training: one count per rank, of the first ranks, and of all.
#[derive(Debug, Clone, PartialEq)]
pub struct Counts {
    /// By rank, as far as they are counted one by one.
    pub first: Vec<u64>,
    /// All updates, those of later ranks too.
    pub total: u64,
}

impl Counts {
    /// Of a training of `updates` updates in the mean, `ranks` counted one by one: Poisson counts with the curve's
    /// means, the rest in bulk. Independent counts per rank are what a training of a Poisson number of updates has; no
    /// update needs to be drawn.
    pub fn draw(curve: &Curve, updates: f64, ranks: u64, stream: &mut Stream) -> Self {
        let ranks = ranks.min(curve.ranks());
        let first: Vec<u64> = (0..ranks).map(|rank| poisson(updates * curve.frequency(rank), stream)).collect();
        let rest = poisson(updates * (1.0 - curve.share(ranks)), stream);
        let total = first.iter().sum::<u64>() + rest;
        Counts { first, total }
    }

    /// Of two trainings together.
    pub fn plus(&self, other: &Counts) -> Self {
        let first = self.first.iter().zip(&other.first).map(|(a, b)| a + b).collect();
        Counts { first, total: self.total + other.total }
    }

    /// Ranks by count, the most updated first. Equal counts are in an order that says nothing of the true ranks: a
    /// training knows keys, not ranks.
    pub fn order(&self) -> Vec<u64> {
        let mut order: Vec<u64> = (0..self.first.len() as u64).collect();
        order.sort_unstable_by_key(|rank| (std::cmp::Reverse(self.first[*rank as usize]), mix(!*rank)));
        order
    }

    /// Where the rule of LIBRA §5.3 stops on ranks in `order`: `step` at a time, until that raises the cumulative share
    /// by less than `threshold`. The step that does not raise it enough does not count (our choice, as in
    /// [`Curve::stop`]).
    pub fn stop(&self, order: &[u64], step: usize, threshold: f64) -> usize {
        let least = threshold * self.total as f64;
        let steps = order.chunks(step.max(1));
        let raises = steps.map(|ranks| ranks.iter().map(|rank| self.first[*rank as usize]).sum::<u64>() as f64);
        (raises.take_while(|raise| *raise >= least).count() * step.max(1)).min(order.len())
    }
}

/// A Poisson number; 0 of a mean that is none.
fn poisson(mean: f64, stream: &mut Stream) -> u64 {
    Poisson::new(mean).map_or(0, |poisson| poisson.sample(stream) as u64)
}

/// Ranks that are counted one by one so that none of the others comes near the first `hot`: eight times as many, and
/// never fewer than 200,000.
pub fn counted(hot: u64) -> u64 {
    hot.saturating_mul(8).max(200_000)
}

/// The `hot` most updated parameters of a training with the share `rate` of a data set of `updates` updates (§3.3).
pub fn identify(curve: &Curve, hot: u32, rate: f64, updates: f64, seed: Seed) -> Result<Order> {
    let mut stream = seed.stream("sparse.identify", 0, 0);
    let counts = Counts::draw(curve, rate * updates, counted(hot.into()), &mut stream);
    let mut ranks = counts.order();
    ranks.truncate(hot as usize);
    match ranks.last().map(|last| counts.first[*last as usize]) {
        Some(0) => Err(Error::config(format!(
            "workload.sample_rate: {rate} of {updates} updates does not update {hot} parameters even once; raise it, \
             raise workload.training_updates or lower workload.hot"
        ))),
        _ => Ok(Order::identified(ranks)),
    }
}

/// Share of the parameters `global` that `sample` has too: `|H_g ∩ H_s| / |H_g|` (LIBRA §5.3).
pub fn precision(global: &[u64], sample: &[u64]) -> f64 {
    let mut sample = sample.to_vec();
    sample.sort_unstable();
    let common = global.iter().filter(|rank| sample.binary_search(rank).is_ok()).count();
    common as f64 / global.len() as f64
}
