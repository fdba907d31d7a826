//! Hot parameters: which they are, found exactly or by training with a sample, and their indices.
//!
//! LIBRA §3.3: the training runs with a small sample of the data, parameters are ranked by how often they were updated,
//! and the top `k` are hot; a parameter's index is its rank there (§3.4). Called when a sparse workload is made, and by
//! the study of §5.3.

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::RngExt;
use rand_distr::{Binomial, Distribution, Poisson};

use super::curve::Curve;
use super::keys::Keys;
use super::tail::Tail;
use crate::seed::{Seed, Stream, mix};
use crate::{Error, Result};

/// On-chip memory of a switch, in bytes (LIBRA §3.3, Principle 1: "20MB"). Of 20480 KB, since §5.7 has 656.5 KB as 3.21 % of it.
pub const MEMORY_BYTES: u64 = 20 << 20;
/// What a hot parameter takes of it (LIBRA §3.3: "4 bytes of memory").
pub const BYTES_PER_PARAMETER: u64 = 4;

/// The hot parameters of a job. Index 0 is the hottest; dense parameters come first (our choice: every batch has
/// them).
#[derive(Debug, Clone)]
pub struct Hot {
    dense: u32,
    /// None of a recording: there ranks are keys.
    keys: Option<Keys>,
    order: Arc<HotOrder>,
}

/// Which sparse parameters are hot, in the order of their indices.
#[derive(Debug, Clone, PartialEq)]
pub enum HotOrder {
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

impl HotOrder {
    /// Of ranks in the order of their indices.
    pub fn identified(ranks: Vec<u64>) -> Self {
        let mut indices: Vec<_> = ranks.iter().zip(0u32..).map(|(rank, index)| (*rank, index)).collect();
        indices.sort_unstable();
        HotOrder::Identified { ranks, indices }
    }

    /// How many.
    pub fn len(&self) -> u32 {
        match self {
            HotOrder::Exact(count) => *count,
            HotOrder::Identified { ranks, .. } => ranks.len() as u32,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Index of a rank.
    #[inline]
    pub fn index_of(&self, rank: u64) -> Option<u32> {
        match self {
            HotOrder::Exact(count) => (rank < u64::from(*count)).then_some(rank as u32),
            HotOrder::Identified { indices, .. } => {
                indices.binary_search_by_key(&rank, |(rank, _)| *rank).ok().map(|at| indices[at].1)
            }
        }
    }

    /// Rank of an index below [`len`](Self::len).
    #[inline]
    pub fn rank_of(&self, index: u32) -> Option<u64> {
        match self {
            HotOrder::Exact(count) => (index < *count).then_some(index.into()),
            HotOrder::Identified { ranks, .. } => ranks.get(index as usize).copied(),
        }
    }

    /// One more than its last rank.
    pub(super) fn end(&self) -> u64 {
        match self {
            HotOrder::Exact(count) => (*count).into(),
            HotOrder::Identified { indices, .. } => indices.last().map_or(0, |(rank, _)| rank + 1),
        }
    }
}

impl Hot {
    pub(super) fn new(dense: u32, keys: Keys, order: Arc<HotOrder>) -> Self {
        Hot { dense, keys: Some(keys), order }
    }

    /// Of a recording, without dense ones: its ranks are keys.
    pub(super) fn recorded(order: Arc<HotOrder>) -> Self {
        Hot { dense: 0, keys: None, order }
    }

    /// How many.
    pub fn len(&self) -> u32 {
        self.dense + self.order.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Key of a hot parameter; an index beyond them has none, and gets `u64::MAX`.
    #[inline]
    pub fn key_of(&self, index: u32) -> u64 {
        let key = match (index.checked_sub(self.dense), self.keys) {
            (None, keys) => keys.map(|keys| keys.dense(index.into())),
            (Some(index), Some(keys)) => self.order.rank_of(index).map(|rank| keys.sparse(rank)),
            (Some(index), None) => self.order.rank_of(index),
        };
        key.unwrap_or(u64::MAX)
    }

    /// The sparse ones.
    pub fn order(&self) -> &HotOrder {
        &self.order
    }
}

/// How many parameters are hot by Principle 1 (LIBRA §3.3): the least number that gets the proportion `p` of the
/// updates, if it fits the share `c` of the memory.
pub(crate) fn principle(curve: &Curve, p: f64, c: f64) -> Result<u64, String> {
    fits(curve.ranks_for(p), p, c)
}

/// The same of what a training with the share `rate` of a data set of `updates` updates counted: §3.3 ranks parameters and adds
/// up their updates as the sample has them, since the curve is unknown. It is the sample that [`identify`] ranks, but
/// for later ranks.
pub(crate) fn principle_of_sample(
    curve: &Curve,
    p: f64,
    c: f64,
    rate: f64,
    updates: f64,
    seed: Seed,
) -> Result<u64, String> {
    let truth = curve.ranks_for(p);
    // More than the whole memory of a switch holds is refused without counting so many one by one.
    if counted(truth).min(curve.ranks()) > counted(memory_limit(1.0)) {
        return fits(truth, p, c);
    }
    let mut counts = sample(curve, counted(truth), rate, updates, seed);
    // With later ranks the proportion is reached no later.
    let least = counts.ranks_for(p).map_or(0, |ranks| counts.count_at(ranks as usize));
    add_later(&mut counts, curve, least, seed)
        .map_err(|why| format!("{why}; the sample has {rate} (sample_rate) of {updates} (training_updates)"))?;
    let few =
        || format!("{rate} of {updates} updates are too few to say which parameters have {p} of them; raise either");
    counts.ranks_for(p).ok_or_else(few).and_then(|least| fits(least, p, c))
}

/// The same of updates that were counted one by one.
pub(crate) fn principle_of_counts(counts: &UpdateCounts, p: f64, c: f64) -> Result<u64, String> {
    counts.ranks_for(p).ok_or_else(|| "there are no updates".to_owned()).and_then(|least| fits(least, p, c))
}

/// Both conditions of Principle 1, for the least number that meets the first.
fn fits(least: u64, p: f64, c: f64) -> Result<u64, String> {
    let most = memory_limit(c);
    if least > most {
        return Err(format!(
            "a proportion of {p} of the updates takes the {least} hottest parameters, but {c} of {MEMORY_BYTES} bytes \
             of memory holds {most} of {BYTES_PER_PARAMETER} bytes each; lower proportion or raise memory_share"
        ));
    }
    Ok(least)
}

/// Parameters that fit the share `c` of the memory.
pub(crate) fn memory_limit(c: f64) -> u64 {
    (c * MEMORY_BYTES as f64 / BYTES_PER_PARAMETER as f64) as u64
}

/// How often the parameters were updated in a training: one count per rank, of the first ranks and of later ones that may
/// be hot, and of all.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UpdateCounts {
    /// By rank, as far as they are counted one by one.
    pub first: Vec<u64>,
    /// Of later ranks, as far as they are known.
    pub later: BTreeMap<u64, u64>,
    /// All updates, those of later ranks too.
    pub total: u64,
}

impl UpdateCounts {
    /// Of a training of `updates` updates in the mean, `ranks` counted one by one: Poisson counts with the curve's
    /// means, the rest in bulk. Independent counts per rank are what a training of a Poisson number of updates has; no
    /// update needs to be drawn.
    pub fn draw(curve: &Curve, updates: f64, ranks: u64, stream: &mut Stream) -> Self {
        let ranks = ranks.min(curve.ranks());
        let first: Vec<u64> = (0..ranks).map(|rank| poisson(updates * curve.frequency(rank), stream)).collect();
        let rest = poisson(updates * (1.0 - curve.share(ranks)), stream);
        let total = first.iter().sum::<u64>() + rest;
        UpdateCounts { first, later: BTreeMap::new(), total }
    }

    /// Of a training with a sample of its data: every update is in it with the chance `rate`. Without later ranks.
    pub fn thinned(&self, rate: f64, stream: &mut Stream) -> Self {
        let first: Vec<u64> = self.first.iter().map(|count| binomial(*count, rate, stream)).collect();
        let total = first.iter().sum::<u64>() + binomial(self.rest(), rate, stream);
        UpdateCounts { first, later: BTreeMap::new(), total }
    }

    /// Updates of the ranks that are not counted one by one.
    pub(crate) fn rest(&self) -> u64 {
        self.total - self.first.iter().sum::<u64>()
    }

    /// Updates of a rank; 0 of a later one that is not known.
    pub fn of(&self, rank: u64) -> u64 {
        self.first.get(rank as usize).or_else(|| self.later.get(&rank)).copied().unwrap_or(0)
    }

    /// Updates of the `k`-th most updated of the first ranks; 0 if there are fewer, `u64::MAX` if `k` is 0.
    fn count_at(&self, k: usize) -> u64 {
        let mut counts = self.first.clone();
        match k.checked_sub(1) {
            None => u64::MAX,
            Some(at) if at >= counts.len() => 0,
            Some(at) => *counts.select_nth_unstable_by_key(at, |count| std::cmp::Reverse(*count)).1,
        }
    }

    /// Ranks by count, the most updated first; ties are in an arbitrary order that depends on `salt`. Two lists that are
    /// compared need different ones: with one order of ties they agree on parameters without updates.
    pub fn order(&self, salt: u64) -> Vec<u64> {
        let later = self.later.iter().map(|(rank, count)| (*count, *rank));
        // With counts: look-ups of later ranks in each comparison take most of the time.
        let mut order: Vec<(u64, u64)> = self.first.iter().copied().zip(0..).chain(later).collect();
        order.sort_unstable_by_key(|(count, rank)| (std::cmp::Reverse(*count), mix(salt ^ *rank)));
        order.into_iter().map(|(_, rank)| rank).collect()
    }

    /// How many of the most updated parameters have the share `p` of all updates; none if those whose counts are known
    /// have less.
    pub(crate) fn ranks_for(&self, p: f64) -> Option<u64> {
        let least = p * self.total as f64;
        let mut counts: Vec<u64> = self.first.iter().chain(self.later.values()).copied().collect();
        counts.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
        let mut sum = 0;
        let reached = counts.iter().position(|count| {
            sum += count;
            sum as f64 >= least
        });
        reached.filter(|_| sum > 0).map(|at| at as u64 + 1)
    }

    /// Where the rule of LIBRA §5.3 stops on ranks in `order`: `step` at a time, until that raises the cumulative share
    /// by less than `threshold`, or not at all. The step that does not raise it enough does not count (our choice, as in
    /// [`Curve::stop`]).
    pub fn stop(&self, order: &[u64], step: usize, threshold: f64) -> usize {
        let least = threshold * self.total as f64;
        let steps = order.chunks(step.max(1));
        let raises = steps.map(|ranks| ranks.iter().map(|rank| self.of(*rank)).sum::<u64>() as f64);
        (raises.take_while(|raise| *raise >= least && *raise > 0.0).count() * step.max(1)).min(order.len())
    }
}

/// A Poisson number; 0 of a mean that is none.
fn poisson(mean: f64, stream: &mut Stream) -> u64 {
    Poisson::new(mean).map_or(0, |poisson| poisson.sample(stream) as u64)
}

/// How many of `count` there are if each is with the chance `rate`; none of a chance that is none.
pub(super) fn binomial(count: u64, rate: f64, stream: &mut Stream) -> u64 {
    Binomial::new(count, rate).map_or(0, |binomial| binomial.sample(stream))
}

/// Ranks that are counted one by one: eight times `hot`, and never fewer than 200,000. In a long training none of the
/// others comes near the first `hot`; those that do in a short one are found by a `Tail`.
pub fn counted(hot: u64) -> u64 {
    hot.saturating_mul(8).max(200_000)
}

/// What a training with the share `rate` of a data set of `updates` updates counts. The first ranks are the same however many
/// are counted one by one.
fn sample(curve: &Curve, ranks: u64, rate: f64, updates: f64, seed: Seed) -> UpdateCounts {
    UpdateCounts::draw(curve, rate * updates, ranks, &mut seed.stream("sparse.identify", 0, 0))
}

/// Adds the later ranks with `least` updates or more to the counts of a [`sample`].
fn add_later(counts: &mut UpdateCounts, curve: &Curve, least: u64, seed: Seed) -> Result<(), String> {
    let stream = seed.stream("sparse.identify.later", 0, 0);
    let mut tail = Tail::new(curve, counts.first.len() as u64, [counts.rest(), 0], stream);
    let found = tail.reach([least.max(1), u64::MAX])?;
    counts.later.extend(found.into_iter().map(|(rank, [count, _])| (rank, count)));
    Ok(())
}

/// The salt of a list's ties ([`UpdateCounts::order`]).
pub(crate) fn ties(seed: Seed, list: &str) -> u64 {
    seed.stream(list, 0, 0).random()
}

/// The `hot` most updated parameters of a training with the share `rate` of a data set of `updates` updates (§3.3).
pub fn identify(curve: &Curve, hot: u32, rate: f64, updates: f64, seed: Seed) -> Result<HotOrder> {
    let mut counts = sample(curve, counted(hot.into()), rate, updates, seed);
    let least = counts.count_at(hot as usize);
    add_later(&mut counts, curve, least, seed).map_err(|why| {
        let what = format!("{updates}, of which the sample has {rate} (workload.sample_rate)");
        Error::config(format!("workload.training_updates: {what}: {why} (workload.curve)"))
    })?;
    let mut ranks = counts.order(ties(seed, "sparse.identify.ties"));
    ranks.truncate(hot as usize);
    match ranks.last().map(|last| counts.of(*last)) {
        Some(0) => Err(Error::config(format!(
            "workload.sample_rate: {rate} of {updates} updates does not update {hot} parameters even once; raise it, \
             raise workload.training_updates or lower workload.hot"
        ))),
        _ => Ok(HotOrder::identified(ranks)),
    }
}

/// Share of the parameters `global` that `sample` has too: `|H_g ∩ H_s| / |H_g|` (LIBRA §5.3).
pub fn precision(global: &[u64], sample: &[u64]) -> f64 {
    let mut sample = sample.to_vec();
    sample.sort_unstable();
    let common = global.iter().filter(|rank| sample.binary_search(rank).is_ok()).count();
    common as f64 / global.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::unit;
    use std::collections::HashSet;

    #[test]
    fn hot_parameters_have_keys_of_their_own() {
        let identified = HotOrder::identified(vec![7, 0, 1 << 40, 3]);
        for (dense, order) in
            [(0, HotOrder::Exact(50)), (9, HotOrder::Exact(50)), (9, HotOrder::Exact(0)), (2, identified)]
        {
            let all = dense + order.len();
            let hot = [1, 2].map(|job| Hot::new(dense, Keys::new(Seed(3), job), Arc::new(order.clone())));
            assert_eq!((hot[0].len(), hot[0].is_empty()), (all, false));
            assert!((0..all).all(|index| Keys::is_dense(hot[0].key_of(index)) == (index < dense)), "dense ones first");
            let of_both: HashSet<u64> = hot.iter().flat_map(|hot| (0..all).map(|index| hot.key_of(index))).collect();
            assert_eq!(of_both.len(), 2 * all as usize);
            let keys = Keys::new(Seed(3), 1);
            assert_eq!(hot[0].key_of(all), u64::MAX);
            let cold = [keys.sparse(60), keys.sparse((1 << 40) + 1), keys.dense(dense.into()), 0, u64::MAX];
            assert!(cold.iter().all(|key| !of_both.contains(key)));
        }
    }

    #[test]
    fn principle_1_is_both_of_its_conditions() {
        let curve = Curve::zipf(10_000_000, 0.9).unwrap();
        let least = principle(&curve, 0.3, 0.05).unwrap();
        assert!(curve.share(least) >= 0.3 && curve.share(least - 1) < 0.3 && least <= memory_limit(0.05));
        // LIBRA §5.1: 5 % of 20 MB is 1 MB.
        assert_eq!(memory_limit(0.05), (1 << 20) / 4);
        let refused = principle(&curve, 0.9, 0.05).unwrap_err();
        assert!(["0.9", "262144", "proportion", "memory_share"].iter().all(|part| refused.contains(part)), "{refused}");
    }

    /// §3.3: the proportion is that of the sample. In a short one the parameters at the top are those that were lucky, so fewer of
    /// them have it than the curve says; in a long one as many.
    #[test]
    fn a_sample_says_itself_how_many_have_the_proportion() {
        let curve = Curve::mandelbrot(1_000_000, 3.3, 20_000.0).unwrap();
        let (truth, p) = (curve.ranks_for(0.5), 0.5);
        let of = |updates: f64, seed: u64| principle_of_sample(&curve, p, 0.05, 0.08, updates, Seed(seed)).unwrap();
        let (short, long) = (of(3e6, 1), of(3e9, 1));
        assert!(short < truth * 97 / 100, "{short} of a short sample, {truth} in truth");
        assert!(long.abs_diff(truth) < truth / 100, "{long} of a long one, {truth} in truth");
        // These many are what the same sample ranks first, and have the proportion of its updates; one less has not.
        let counts = sample(&curve, counted(truth), 0.08, 3e6, Seed(1));
        let order = counts.order(ties(Seed(1), "sparse.identify.ties"));
        let share = |k: u64| {
            let own: u64 = order[..k as usize].iter().map(|rank| counts.first[*rank as usize]).sum();
            own as f64 / counts.total as f64
        };
        assert!(share(short) >= p && share(short - 1) < p);
        let HotOrder::Identified { ranks, .. } = identify(&curve, short as u32, 0.08, 3e6, Seed(1)).unwrap() else {
            panic!("identified")
        };
        assert_eq!(ranks, order[..short as usize]);
        assert!(principle_of_sample(&curve, 0.5, 0.05, 0.08, 1.0, Seed(1)).is_err());
    }

    /// A training, update by update.
    fn walk(curve: &Curve, updates: u64, rate: f64, stream: &mut Stream) -> [UpdateCounts; 2] {
        let none = UpdateCounts { first: vec![0; curve.ranks() as usize], ..UpdateCounts::default() };
        let mut both = [none.clone(), none];
        for _ in 0..updates {
            let rank = curve.rank(unit(stream)) as usize;
            let sampled = unit(stream) < rate;
            for counts in both.iter_mut().take(1 + usize::from(sampled)) {
                counts.first[rank] += 1;
                counts.total += 1;
            }
        }
        both
    }

    #[test]
    fn counts_per_rank_are_as_good_as_drawn_updates() {
        // 3000 parameters of which the rule, ten at a time, finds some hundred; both ways, sixty trainings each.
        let curve = Curve::mandelbrot(3000, 3.3, 870.0).unwrap();
        let (updates, rate, step, threshold) = (30_000u64, 0.2, 10, 0.01);
        let mut found = [[0.0; 4]; 2];
        let mut squares = [[0.0; 4]; 2];
        let trainings = 60;
        for (way, training) in (0..2usize).flat_map(|way| (0..trainings).map(move |training| (way, training))) {
            let mut stream = Seed(training).stream("test", way as u64, 0);
            let [whole, sample] = if way == 0 {
                walk(&curve, updates, rate, &mut stream)
            } else {
                // Only those counted that can come into a list.
                let whole = UpdateCounts::draw(&curve, updates as f64, 1500, &mut stream);
                let sample = whole.thinned(rate, &mut stream);
                [whole, sample]
            };
            let orders = [whole.order(training), sample.order(!training)];
            let stops = [whole.stop(&orders[0], step, threshold), sample.stop(&orders[1], step, threshold)];
            let values = [
                precision(&orders[0][..stops[0]], &orders[1][..stops[1]]),
                precision(&orders[0][..300], &orders[1][..300]),
                stops[0] as f64,
                stops[1] as f64,
            ];
            for (i, value) in values.into_iter().enumerate() {
                found[way][i] += value / trainings as f64;
                squares[way][i] += value * value / trainings as f64;
            }
        }
        for i in 0..4 {
            let variance = |way: usize| (squares[way][i] - found[way][i] * found[way][i]).max(0.0);
            let error = ((variance(0) + variance(1)) / trainings as f64).sqrt();
            let difference = (found[0][i] - found[1][i]).abs();
            assert!(difference < 4.5 * error + 1e-9, "{i}: {found:?}, error {error}");
        }
    }

    #[test]
    fn the_rule_adds_steps_while_they_raise_the_share() {
        let first = vec![50, 1, 30, 10, 9, 0, 0];
        let counts = UpdateCounts { first, total: 100, ..UpdateCounts::default() };
        let order = counts.order(1);
        assert_eq!(order[..5], [0, 2, 3, 4, 1]);
        for (step, threshold, expected) in
            [(1, 0.1, 3), (1, 0.01, 5), (2, 0.19, 4), (2, 0.2, 2), (1, 0.6, 0), (9, 0.5, 7)]
        {
            assert_eq!(counts.stop(&order, step, threshold), expected, "{step}, {threshold}");
        }
        let none = UpdateCounts { first: vec![0; 7], ..UpdateCounts::default() };
        assert_eq!(none.stop(&order, 2, 0.1), 0, "no parameter is hot without updates");
    }

    /// Of two lists of parameters without updates, each list has any parameter with the same chance.
    #[test]
    fn ties_of_two_lists_are_broken_independently() {
        let none = UpdateCounts { first: vec![0; 10_000], ..UpdateCounts::default() };
        let order = |seed: u64, list: &str| none.order(ties(Seed(seed), list));
        assert_eq!(order(1, "whole"), order(1, "whole"));
        for other in [order(1, "sample"), order(2, "whole")] {
            let common = precision(&order(1, "whole")[..1000], &other[..1000]);
            assert!((0.05..0.15).contains(&common), "{common} of 1000 out of 10000");
        }
    }

    /// In a short sample as many updates as the last hot parameter have many that are not counted one by one.
    #[test]
    fn later_parameters_are_identified_as_often_as_if_all_were_counted() {
        let curve = Curve::zipf(1_000_000, 0.5).unwrap();
        let (hot, updates) = (20_000u32, 1e5);
        let later = |ranks: &[u64]| ranks.iter().filter(|rank| **rank >= counted(hot.into())).count() as f64;
        for seed in 1..=2 {
            let all = UpdateCounts::draw(&curve, updates, curve.ranks(), &mut Seed(seed).stream("test", 0, 0));
            let expected = later(&all.order(seed)[..hot as usize]);
            let order = identify(&curve, hot, 0.5, 2.0 * updates, Seed(seed)).unwrap();
            let HotOrder::Identified { ranks, .. } = order else { panic!("identified") };
            let found = later(&ranks);
            assert!(expected > 1000.0 && (found - expected).abs() < 0.1 * expected, "{found}, not {expected}");
        }
    }

    #[test]
    fn a_training_too_short_to_tell_is_refused() {
        let curve = Curve::zipf(1_000_000, 1.0).unwrap();
        assert!(identify(&curve, 10_000, 0.01, 1e5, Seed(1)).is_err());
        let order = identify(&curve, 1000, 0.5, 1e8, Seed(1)).unwrap();
        let ranks: Vec<u64> = (0..order.len()).filter_map(|index| order.rank_of(index)).collect();
        assert_eq!(ranks.len(), 1000);
        assert!(precision(&(0..1000).collect::<Vec<_>>(), &ranks) > 0.97);
        assert_eq!(ranks[..5], [0, 1, 2, 3, 4]);
    }
}
