//! What a worker pushes in an iteration: pairs of parameter and gradient, a pure function of worker and iteration.
//!
//! A parameter is in a push once or not at all (LIBRA §2.2), so how often it is updated is the chance that a batch has
//! it: `pairs · frequency`, independent of all others. Ranks are taken in blocks within which that chance hardly falls.
//! Within a block either every rank is drawn for, or, where most would be left out, the gap to the next candidate is
//! drawn; a candidate at the chance of the block's first rank stays with the share of its own. So the chances are exact,
//! nothing is drawn twice, and the work is in proportion to the pairs. Called once per iteration and worker.

use super::Sparse;
use super::curve::Curve;
use super::hot::HotOrder;
use super::keys::Keys;
use crate::gradient::{GradientPool, STARTS};
use crate::seed::{Seed, Stream, mix, unit};

/// Least frequency at the end of a block, per frequency at its start.
const FALL: f64 = 0.9;
/// From this chance on every rank is drawn for: a gap costs a logarithm.
const MANY: f64 = 0.15;

/// The pairs of a worker in an iteration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Batch {
    /// Hot parameters: index in the hot set and gradient, by index.
    pub hot: Vec<(u32, f32)>,
    /// Cold parameters: key and gradient, by key.
    pub cold: Vec<(u64, f32)>,
}

/// Ranks of nearly the same chance.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    from: u64,
    end: u64,
    /// Chances of its first and its last rank.
    most: f64,
    least: f64,
    /// `1 / ln(1 - most)`.
    gap: f64,
}

/// The blocks of a curve for batches of `pairs`.
fn blocks(curve: &Curve, pairs: f64) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut from = 0;
    while from < curve.ranks() {
        let end = curve.falls_below(from, FALL);
        let (most, least) = (pairs * curve.frequency(from), pairs * curve.frequency(end - 1));
        // Chances that no float tells from none end it: nothing is drawn there.
        if most <= 0.0 {
            break;
        }
        blocks.push(Block { from, end, most: most.min(1.0), least, gap: (-most.min(1.0)).ln_1p().recip() });
        from = end;
    }
    blocks
}

impl Block {
    /// Calls `take` with every rank of the block that is in the batch, in order.
    #[inline]
    fn draw(&self, curve: &Curve, pairs: f64, stream: &mut Stream, mut take: impl FnMut(u64)) {
        // Most candidates are below the least chance: only the others need their own.
        let stays = |rank: u64, u: f64| u < self.least || (u < self.most && u < pairs * curve.frequency(rank));
        if self.most >= MANY {
            (self.from..self.end).filter(|rank| stays(*rank, unit(stream))).for_each(take);
            return;
        }
        let mut rank = self.from;
        loop {
            // 1 - u is above 0, so the logarithm is finite; what is beyond all ranks saturates.
            let gap = ((1.0 - unit(stream)).ln() * self.gap) as u64;
            rank = rank.saturating_add(gap);
            if rank >= self.end {
                return;
            }
            if stays(rank, unit(stream) * self.most) {
                take(rank);
            }
            rank += 1;
        }
    }
}

/// Gradients of a batch: numbers of the pool, chosen by key, times the batch's factor.
struct Values<'a> {
    numbers: &'a [f32],
    factor: f32,
    place: u64,
}

impl Values<'_> {
    #[inline]
    fn of(&self, key: u64) -> f32 {
        // Keys are mixed already; one product spreads what differs by batch over the bits that are used.
        let bits = (key ^ self.place).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52;
        self.numbers[bits as usize % STARTS] * self.factor
    }
}

/// What batches are drawn from.
#[derive(Debug)]
pub(super) struct Drawn {
    curve: Curve,
    pairs: f64,
    pool: GradientPool,
    blocks: Vec<Block>,
    /// One more than the last hot rank.
    hot_end: u64,
    hot_is_exact: bool,
}

impl Drawn {
    pub(super) fn new(curve: Curve, pairs: u32, seed: Seed, order: &HotOrder) -> Self {
        let pairs = f64::from(pairs);
        let hot_is_exact = matches!(order, HotOrder::Exact(_));
        let (blocks, pool) = (blocks(&curve, pairs), GradientPool::new(seed, 0));
        Drawn { curve, pairs, pool, blocks, hot_end: order.end(), hot_is_exact }
    }

    #[cfg(test)]
    pub(super) fn curve(&self) -> &Curve {
        &self.curve
    }
}

impl Sparse {
    /// Draws the pairs of `worker` in `iteration`.
    pub(super) fn draw(&self, drawn: &Drawn, worker: u32, iteration: u32, into: &mut Batch) {
        let Batch { hot, cold } = into;
        hot.clear();
        cold.clear();
        let keys = self.keys_of(self.job_of(worker));
        let window = drawn.pool.window(worker, iteration);
        let place = mix(u64::from(worker) << 32 | u64::from(iteration));
        let values = Values { numbers: drawn.pool.from(0), factor: window.factor, place };
        self.dense_part(keys, &values, hot, cold);
        let mut stream = self.seed.stream("sparse.batch", worker.into(), iteration.into());
        let (dense, order) = (self.hot().len() - self.hot().order().len(), self.hot().order());
        let (hot_end, exact) = (drawn.hot_end, drawn.hot_is_exact);
        for block in &drawn.blocks {
            block.draw(&drawn.curve, drawn.pairs, &mut stream, |rank| {
                let key = keys.sparse(rank);
                let index = match rank < hot_end {
                    true if exact => Some(rank as u32),
                    true => order.index_of(rank),
                    false => None,
                };
                match index {
                    Some(index) => hot.push((dense + index, values.of(key))),
                    None => cold.push((key, values.of(key))),
                }
            });
        }
        if !exact {
            hot.sort_unstable_by_key(|(index, _)| *index);
        }
        cold.sort_unstable_by_key(|(key, _)| *key);
    }

    /// The dense parameters: in every batch, the first of them hot.
    fn dense_part(&self, keys: Keys, values: &Values, hot: &mut Vec<(u32, f32)>, cold: &mut Vec<(u64, f32)>) {
        let hot_dense = self.hot().len() - self.hot().order().len();
        for number in 0..self.dense {
            let key = keys.dense(number.into());
            if number < hot_dense {
                hot.push((number, values.of(key)));
            } else {
                cold.push((key, values.of(key)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{HotFrom, Sparse, SparsePlan};
    use super::*;
    use std::collections::HashSet;

    const ALL: [&str; 5] = ["oa", "se", "deeplight", "lstm", "ncf"];

    fn sparse(model: &str, scale: f64, change: impl FnOnce(&mut SparsePlan)) -> Sparse {
        let mut plan = SparsePlan::of(model, scale).unwrap();
        change(&mut plan);
        Sparse::new(plan, Seed(5)).unwrap()
    }

    /// Ranks of the sparse parameters of a batch, and how many of them are hot.
    fn ranks(sparse: &Sparse, worker: u32, iteration: u32, batch: &mut Batch) -> (Vec<u64>, usize) {
        sparse.batch(worker, iteration, batch);
        let job = sparse.job_of(worker);
        let hot = batch.hot.iter().map(|(index, _)| sparse.hot_of(job).key_of(*index));
        let mut all: Vec<u64> = hot.filter(|key| !Keys::is_dense(*key)).collect();
        let count = all.len();
        all.extend(batch.cold.iter().map(|(key, _)| *key).filter(|key| !Keys::is_dense(*key)));
        (all.into_iter().map(|key| sparse.keys_of(job).rank(key)).collect(), count)
    }

    /// Compares how often each of the first ranks was in a batch with its chance, and sums with their means.
    fn compare(sparse: &Sparse, batches: u32, name: &str) {
        let (curve, pairs) = (sparse.curve(), f64::from(sparse.pairs()));
        let (mut counts, mut hot, mut all) = (vec![0u32; 4 * sparse.hot().len() as usize], 0usize, 0usize);
        let mut batch = Batch::default();
        for number in 0..batches {
            let (ranks, count) = ranks(sparse, number % 8, number / 8, &mut batch);
            hot += count;
            all += ranks.len();
            for rank in ranks {
                assert!(rank < curve.ranks());
                if let Some(count) = counts.get_mut(rank as usize) {
                    *count += 1;
                }
            }
        }
        let n = f64::from(batches);
        let (mut squares, mut ranks) = (0.0, 0.0);
        let (mut hot_mean, mut hot_variance) = (0.0, 0.0);
        for (rank, count) in (0..).zip(&counts) {
            let chance = pairs * curve.frequency(rank);
            squares += (f64::from(*count) - n * chance).powi(2) / (n * chance * (1.0 - chance)).max(1e-9);
            ranks += 1.0;
            if sparse.hot().order().index_of(rank).is_some() {
                hot_mean += chance;
                hot_variance += chance * (1.0 - chance);
            }
        }
        // A sum of squares of so many normalised counts: its deviation is √2 per root of their number, more where counts
        // are small, as far ranks' are.
        let excess = (squares - ranks) / (2.0 * ranks).sqrt();
        assert!(excess.abs() < 6.0, "{name}: {squares} of {ranks} ranks");
        let off = (hot as f64 - n * hot_mean) / (n * hot_variance).sqrt();
        assert!(off.abs() < 4.5, "{name}: hot ones are {off} deviations off");
        // Fewer than as many independent draws: the variance of a batch is at most its mean.
        let off = (all as f64 - n * pairs) / (n * pairs).sqrt();
        assert!(off.abs() < 4.5, "{name}: {all} pairs are {off} deviations off");
        let (share, expected) = (hot as f64 / all as f64, hot_mean / pairs);
        assert!((share - expected).abs() < 5.0 / (all as f64).sqrt(), "{name}: {share} for {expected}");
    }

    #[test]
    fn parameters_are_updated_as_often_as_the_curve_says() {
        for model in ALL {
            let sparse = sparse(model, 0.01, |_| {});
            compare(&sparse, 4000, model);
        }
        compare(&sparse("oa", 1.0, |_| {}), 60, "oa, whole");
        compare(&sparse("se", 0.1, |plan| plan.hot_from = HotFrom::Sample), 400, "se, sampled");
        compare(&sparse("se", 0.01, |plan| plan.pairs = plan.pairs_limit() as u32), 2000, "se, at the limit");
        compare(&sparse("se", 1.0, |plan| plan.pairs = 5), 20_000, "se, few pairs");
        let zipf = |plan: &mut SparsePlan| {
            plan.curve = Curve::zipf(plan.parameters, 1.024).unwrap();
            plan.pairs = 10;
        };
        compare(&sparse("se", 0.1, zipf), 10_000, "zipf");
    }

    #[test]
    fn parameters_of_a_batch_are_independent() {
        // Two neighbours are together in a batch as often as the product of their chances says; so is one of them in two
        // batches that follow each other.
        let sparse = sparse("oa", 0.001, |_| {});
        let mut batch = Batch::default();
        let (mut both, mut next) = (0u32, 0u32);
        let mut last = [false; 30];
        for iteration in 0..8000 {
            let (ranks, _) = ranks(&sparse, 1, iteration, &mut batch);
            let mut now = [false; 30];
            ranks.iter().filter(|rank| **rank < 30).for_each(|rank| now[*rank as usize] = true);
            both += (0..29).map(|i| u32::from(now[i] && now[i + 1])).sum::<u32>();
            next += (0..29).map(|i| u32::from(now[i] && last[i])).sum::<u32>();
            last = now;
        }
        let chance = |rank| f64::from(sparse.pairs()) * sparse.curve().frequency(rank);
        let expected =
            [(0..29).map(|i| chance(i) * chance(i + 1)).sum::<f64>(), (0..29).map(|i| chance(i).powi(2)).sum()];
        for (count, expected) in [both, next].into_iter().zip(expected) {
            let found = f64::from(count) / 8000.0;
            assert!((found / expected - 1.0).abs() < 0.02, "{found} of 29 pairs for {expected}");
        }
    }

    #[test]
    fn batches_are_pure_and_in_order() {
        let sparse = sparse("se", 0.02, |plan| {
            (plan.jobs, plan.workers_per_job, plan.hot_from) = (2, 3, HotFrom::Sample);
            plan.pairs = 200;
        });
        let hot: [HashSet<u64>; 2] = [0, 1].map(|job| {
            let hot = sparse.hot_of(job);
            (0..hot.len()).map(|index| hot.key_of(index)).collect()
        });
        let (mut first, mut again) = (Batch::default(), Batch::default());
        let mut seen = HashSet::new();
        for (worker, iteration) in (0..6).flat_map(|w| (0..20).map(move |i| (w, i))) {
            sparse.batch(worker, iteration, &mut first);
            assert!(first.hot.is_sorted_by(|a, b| a.0 < b.0) && first.cold.is_sorted_by(|a, b| a.0 < b.0));
            assert!(first.hot.iter().all(|(index, _)| *index < sparse.hot().len()));
            assert!(first.cold.iter().all(|(key, _)| !hot[usize::from(sparse.job_of(worker))].contains(key)));
            assert!((0..sparse.dense()).all(|i| first.hot[i as usize].0 == i), "dense ones are in every batch");
            assert!(first.hot.iter().map(|(_, x)| x).chain(first.cold.iter().map(|(_, x)| x)).all(|x| x.is_normal()));
            assert!(seen.insert(format!("{first:?}")));
            sparse.batch((worker + 1) % 6, iteration, &mut again);
            sparse.batch(worker, iteration, &mut again);
            assert_eq!(first, again);
        }
    }

    #[test]
    fn dense_parameters_beyond_the_hot_ones_are_cold() {
        let sparse = sparse("se", 0.01, |plan| (plan.dense, plan.hot) = (500, 400));
        let mut batch = Batch::default();
        sparse.batch(0, 0, &mut batch);
        assert!(batch.hot.iter().map(|(index, _)| *index).eq(0..400));
        assert_eq!(batch.cold.iter().filter(|(key, _)| Keys::is_dense(*key)).count(), 100);
    }
}
