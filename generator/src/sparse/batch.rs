//! What a worker pushes in an iteration: pairs of parameter and gradient, a pure function of worker and iteration.
//!
//! A parameter is in a push once or not at all (LIBRA §2.2), so how often it is updated is the chance that a batch has
//! it: `pairs · frequency`, independent of all others. Ranks are taken in blocks within which that chance hardly falls.
//! Within a block either every rank is drawn for, or, where most would be left out, the gap to the next candidate is
//! drawn; a candidate at the chance of the block's first rank stays with the share of its own. So the chances are exact,
//! nothing is drawn twice, and the work is in proportion to the pairs. Called once per iteration and worker.

use rand::Rng;

use super::Sparse;
use super::curve::Curve;
use super::keys::Keys;
use crate::gradient::STARTS;
use crate::seed::{Stream, mix};

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
pub(super) fn blocks(curve: &Curve, pairs: f64) -> Vec<Block> {
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

/// Uniform in [0, 1).
#[inline]
fn unit(stream: &mut Stream) -> f64 {
    (stream.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
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

impl Sparse {
    /// The pairs of `worker` in `iteration` into `into`, whose memory is used again.
    pub fn batch(&self, worker: u32, iteration: u32, into: &mut Batch) {
        let Batch { hot, cold } = into;
        hot.clear();
        cold.clear();
        let keys = self.keys_of(self.job_of(worker));
        let window = self.pool.window(worker, iteration);
        let place = mix(u64::from(worker) << 32 | u64::from(iteration));
        let values = Values { numbers: self.pool.from(0), factor: window.factor, place };
        self.dense_part(keys, &values, hot, cold);
        let mut stream = self.seed.stream("sparse.batch", worker.into(), iteration.into());
        let (dense, order, hot_end) = (self.hot().len() - self.hot().order().len(), self.hot().order(), self.hot_end);
        let exact = self.hot_is_exact;
        for block in &self.blocks {
            block.draw(&self.curve, self.pairs, &mut stream, |rank| {
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
        for number in 0..self.plan.dense {
            let key = keys.dense(number.into());
            if number < hot_dense {
                hot.push((number, values.of(key)));
            } else {
                cold.push((key, values.of(key)));
            }
        }
    }
}
