//! Counts of the ranks after those that are counted one by one, as far as they may be hot.
//!
//! In a short training many of the later ranks have as many updates as the last hot one, and there are too many of them
//! to count each. Their updates are divided instead: each half of the ranks gets a binomial number, by its share of the
//! curve. A part is left as it is if it has fewer updates than a hot rank needs, or if its ranks are too rare to get as
//! many. These are independent Poisson numbers with a known sum, as if counted one by one. Called by
//! [`hot`](super::hot) and by the study of LIBRA §5.3.

use super::curve::Curve;
use super::hot::binomial;
use crate::seed::Stream;

/// Updates of a training: those in its sample, and the others.
pub(crate) type Updates = [u64; 2];

/// Most divisions for a training: some seconds.
const DIVISIONS_MAX: u64 = 20_000_000;

/// A part is left if the chance that any rank has enough updates is below exp(-28), less than 1e-12.
const CERTAIN: f64 = 28.0;

/// The later ranks of a training.
#[derive(Debug)]
pub(crate) struct Tail<'a> {
    curve: &'a Curve,
    stream: Stream,
    /// First rank.
    from: u64,
    /// Parts that are not divided further yet: first rank, one more than the last, updates.
    parts: Vec<(u64, u64, Updates)>,
    /// Divisions so far.
    divisions: u64,
}

impl<'a> Tail<'a> {
    /// The ranks from `from` on, which have `updates` together.
    pub(crate) fn new(curve: &'a Curve, from: u64, updates: Updates, stream: Stream) -> Self {
        Tail { curve, stream, from, parts: vec![(from, curve.ranks(), updates)], divisions: 0 }
    }

    /// Divides on; returns further ranks with at least `least[0]` updates in the sample or `least[1]` in the whole
    /// training. Both are 1 or more.
    pub(crate) fn reach(&mut self, least: [u64; 2]) -> Result<Vec<(u64, Updates)>, String> {
        self.divide(least, DIVISIONS_MAX)
    }

    /// The same; more than `most` divisions in all are refused.
    fn divide(&mut self, least: [u64; 2], most: u64) -> Result<Vec<(u64, Updates)>, String> {
        let (mut found, mut left) = (Vec::new(), Vec::new());
        while let Some((from, end, updates)) = self.parts.pop() {
            if !self.may_reach(from, end, updates, least) {
                left.extend((updates != [0, 0]).then_some((from, end, updates)));
                continue;
            }
            if end - from == 1 {
                found.push((from, updates));
                continue;
            }
            if self.divisions == most {
                return Err(format!(
                    "too many of the {} parameters after the first {} may be hot: to find those that are takes more \
                     than {most} divisions of their updates; give the training far more or far fewer updates, or \
                     choose a curve that falls faster",
                    self.curve.ranks() - self.from,
                    self.from
                ));
            }
            self.divisions += 1;
            let middle = from + (end - from) / 2;
            let (lower, upper) = (self.curve.between(from, middle), self.curve.between(middle, end));
            let share = lower / (lower + upper);
            let first = updates.map(|count| binomial(count, share, &mut self.stream).min(count));
            self.parts.push((middle, end, [updates[0] - first[0], updates[1] - first[1]]));
            self.parts.push((from, middle, first));
        }
        self.parts = left;
        Ok(found)
    }

    /// Whether a rank of a part may have enough updates. The first is the most frequent. By Chernoff's bound a count
    /// of mean m is x or more with a chance of at most exp(x - m - x ln(x/m)). That times the number of ranks must be
    /// negligible.
    fn may_reach(&self, from: u64, end: u64, [sampled, others]: Updates, least: [u64; 2]) -> bool {
        let ranks = (self.curve.ranks() - self.from) as f64;
        let share = || self.curve.frequency(from) / self.curve.between(from, end);
        let may = |count: u64, least: u64| {
            // Each update is of a rank, and of the only one.
            if count < least || least == 1 || end - from == 1 {
                return count >= least;
            }
            let (mean, least) = (count as f64 * share(), least as f64);
            let beyond = mean < least && least * (least / mean).ln() - least + mean > ranks.ln() + CERTAIN;
            !beyond
        };
        may(sampled, least[0]) || may(sampled + others, least[1])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::seed::{Seed, unit};

    /// Mean and its squared error.
    fn mean(values: &[f64]) -> (f64, f64) {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        (mean, values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n * n))
    }

    #[test]
    fn ranks_have_as_many_updates_as_if_each_was_drawn() {
        let curve = Curve::zipf(5000, 0.7).unwrap();
        let (from, updates, least) = (100, 4000u64, 3);
        let mut seen: [[Vec<f64>; 3]; 2] = Default::default();
        for training in 0..60 {
            let mut stream = Seed(training).stream("test", 0, 0);
            let below = curve.share(from);
            let mut drawn = BTreeMap::new();
            for _ in 0..updates {
                *drawn.entry(curve.rank(below + (1.0 - below) * unit(&mut stream))).or_insert(0u64) += 1;
            }
            drawn.retain(|_, count| *count >= least);
            let mut tail = Tail::new(&curve, from, [updates, 0], Seed(training).stream("test", 1, 0));
            let found: BTreeMap<u64, u64> =
                tail.reach([least, u64::MAX]).unwrap().into_iter().map(|(rank, [count, _])| (rank, count)).collect();
            for (way, counts) in [drawn, found].iter().enumerate() {
                assert!(counts.iter().all(|(rank, count)| (from..5000).contains(rank) && *count >= least));
                seen[way][0].push(counts.len() as f64);
                seen[way][1].push(counts.range(..1000).count() as f64);
                seen[way][2].push(counts.values().sum::<u64>() as f64);
            }
        }
        let [drawn, found] = seen;
        for (drawn, found) in drawn.iter().zip(&found) {
            let [(drawn, a), (found, b)] = [drawn, found].map(|values| mean(values));
            assert!(drawn > 50.0 && (drawn - found).abs() < 4.5 * (a + b).sqrt(), "{drawn} drawn, {found} found");
        }
    }

    /// What is found for lower and lower counts is of one training.
    #[test]
    fn no_update_is_lost_or_found_twice() {
        let curve = Curve::mandelbrot(1 << 40, 1.2, 500.0).unwrap();
        let updates = [2000, 30_000];
        let mut tail = Tail::new(&curve, 1000, updates, Seed(1).stream("test", 0, 0));
        let mut all = BTreeMap::new();
        for least in [[u64::MAX; 2], [9, u64::MAX], [3, 20], [2, 2], [1, 1]] {
            for (rank, [sampled, others]) in tail.reach(least).unwrap() {
                assert!(sampled >= least[0] || sampled + others >= least[1], "{least:?}: {sampled}, {others}");
                assert_eq!(all.insert(rank, [sampled, others]), None);
            }
        }
        assert_eq!(all.values().fold([0, 0], |sum, own| [sum[0] + own[0], sum[1] + own[1]]), updates);
        assert!(tail.reach([1, 1]).unwrap().is_empty());
        // No ranks, no updates.
        assert_eq!(Tail::new(&curve, 1 << 40, [0, 0], Seed(1).stream("test", 0, 0)).reach([1, 1]), Ok(Vec::new()));
    }

    /// Each of 10,000 ranks takes some 40 divisions: the limit is that of the work, not of the ranks that are found.
    #[test]
    fn a_curve_that_does_not_fall_is_refused() {
        let curve = Curve::zipf(1 << 50, 0.0).unwrap();
        let tail = || Tail::new(&curve, 200_000, [10_000, 0], Seed(1).stream("test", 0, 0));
        let why = tail().divide([1, u64::MAX], 100_000).unwrap_err();
        let parts = ["after the first 200000", "100000 divisions", "parameters", "far more or far fewer updates"];
        assert!(parts.iter().all(|part| why.contains(part)), "{why}");
        let mut enough = tail();
        assert_eq!(enough.divide([1, u64::MAX], 1_000_000).unwrap().len(), 10_000);
        assert!((100_000..1_000_000).contains(&enough.divisions), "{}", enough.divisions);
        // Divisions for lower and lower counts add up.
        let (curve, most) = (Curve::mandelbrot(1 << 40, 1.2, 500.0).unwrap(), enough.divisions);
        let mut tail = Tail::new(&curve, 1000, [2000, 0], Seed(1).stream("test", 0, 0));
        tail.divide([3, u64::MAX], most).unwrap();
        let so_far = tail.divisions;
        assert!(so_far > 0 && tail.divide([1, u64::MAX], so_far).is_err());
    }

    /// In a long training no later rank comes near the last hot one, however many later ranks there are.
    #[test]
    fn a_long_training_needs_no_divisions() {
        let curve = Curve::zipf(1_000_000_000, 0.6).unwrap();
        // The first later rank has 567 of these updates in the mean.
        let tail = || Tail::new(&curve, 8_000_000, [67_000_000_000, 0], Seed(1).stream("test", 0, 0));
        for least in [1000, 2000] {
            assert_eq!(tail().divide([least, u64::MAX], 0), Ok(Vec::new()), "{least}");
        }
        assert!(tail().divide([700, u64::MAX], 0).is_err());
    }

    /// Parts whose ranks are all too rare are not divided; what they have is found when fewer updates are enough.
    #[test]
    fn parts_of_rare_ranks_are_divided_when_it_is_their_turn() {
        let curve = Curve::mandelbrot(1 << 30, 1.5, 1.0).unwrap();
        let (from, updates) = (1000, 1_000_000u64);
        let mut tail = Tail::new(&curve, from, [updates, 0], Seed(1).stream("test", 0, 0));
        let mean = |rank: u64| updates as f64 * curve.frequency(rank) / curve.between(from, curve.ranks());
        let mut all = BTreeMap::new();
        for least in [400, 100, 20, 1] {
            all.extend(tail.reach([least, u64::MAX]).unwrap().into_iter().map(|(rank, [count, _])| (rank, count)));
            // All that have more in the mean, up to what chance takes away.
            let sure = (from..).take_while(|rank| mean(*rank) > (least + 40) as f64 * 1.5).count();
            assert!((from..).take(sure).all(|rank| all.contains_key(&rank)), "{least}");
            if least >= 20 {
                assert!(tail.parts.iter().any(|(.., [count, _])| *count > 10 * least), "{least}: all are divided");
            }
        }
        assert_eq!(all.values().sum::<u64>(), updates);
    }
}
