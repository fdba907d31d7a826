//! How often which parameter is updated: curves of update frequency over the ranks 0, 1, …, the most frequent first.
//!
//! LIBRA §3.1, Figure 5: a few ten thousand of many million parameters get most of the updates. A curve answers for
//! any rank without a table of ranks: it is made of pieces of the Zipf-Mandelbrot law `f(i) ~ (i + q)^-s`, whose sums
//! are taken as integrals. Where that would be too coarse (a law with a small `q` falls by half from rank 0 to rank 1)
//! the first ranks are summed one by one. [`Curve::share`], [`Curve::frequency`] and [`Curve::rank`] are of the same
//! function, so they agree with each other up to rounding (1e-9 relative); they agree with the sum over ranks up to
//! 1e-5 relative (exponents up to 3.4; 2e-6 up to 1.1). Called by the batches, by what identifies hot parameters, and by studies.

use super::fit;

/// Ranks that are summed one by one where integrals are too coarse.
const SUMMED: u64 = 256;
/// From this `q` on integrals are exact enough from the first rank on.
const SMOOTH_OFFSET: f64 = 1000.0;

/// Update frequencies over ranks. They never rise with the rank, and their sum is 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Ranks, after scaling.
    ranks: u64,
    /// Ranks before scaling, per rank after it.
    stretch: f64,
    /// Cumulative shares of the ranks that are summed one by one (before scaling), from the share of none.
    head: Vec<f64>,
    /// What follows, in order.
    parts: Vec<Part>,
}

/// A piece of a curve: density `~ (q + y)^-s` at the distance `y` from its start.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Part {
    from: f64,
    length: f64,
    /// Share of all before it, and of itself.
    below: f64,
    share: f64,
    offset: f64,
    /// `1 - s`.
    power: f64,
    /// Integral of `(1 + y/q)^-s / q` over its length.
    whole: f64,
}

/// Integral of `(1 + y/q)^-s / q` from 0 to `y`, with `power = 1 - s`.
fn integral(y: f64, offset: f64, power: f64) -> f64 {
    let log = (y / offset).ln_1p();
    if power == 0.0 { log } else { (power * log).exp_m1() / power }
}

impl Part {
    fn new(from: f64, length: f64, below: f64, share: f64, offset: f64, exponent: f64) -> Self {
        let power = 1.0 - exponent;
        Part { from, length, below, share, offset, power, whole: integral(length, offset, power) }
    }

    /// Share of its first `y` ranks, of all.
    fn cumulative(&self, y: f64) -> f64 {
        self.below + self.share * integral(y, self.offset, self.power) / self.whole
    }

    /// Share of the ranks from `y` to `y + width`, without the cancellation of a difference.
    fn slice(&self, y: f64, width: f64) -> f64 {
        let start = (self.power * (y / self.offset).ln_1p()).exp();
        self.share * start * integral(width, self.offset + y, self.power) / self.whole
    }

    /// Where its cumulative share is `u`.
    fn inverse(&self, u: f64) -> f64 {
        let part = (u - self.below) / self.share * self.whole;
        let log = if self.power == 0.0 { part } else { (self.power * part).max(-1.0).ln_1p() / self.power };
        (self.offset * log.exp_m1()).clamp(0.0, self.length)
    }
}

impl Curve {
    /// Zipf's law `f(i) ~ (i + 1)^-s` over `ranks`.
    #[cfg(test)]
    pub(crate) fn zipf(ranks: u64, exponent: f64) -> Result<Self, String> {
        Curve::mandelbrot(ranks, exponent, 1.0)
    }

    /// The Zipf-Mandelbrot law `f(i) ~ (i + q)^-s` over `ranks`.
    pub fn mandelbrot(ranks: u64, exponent: f64, offset: f64) -> Result<Self, String> {
        if ranks == 0 {
            return Err("a curve has 1 rank or more".to_owned());
        }
        if !(0.0..=1e6).contains(&exponent) {
            return Err(format!("the exponent {exponent} is not from 0 to 1e6"));
        }
        if !(1e-3..=1e15).contains(&offset) {
            return Err(format!("the offset {offset} is not from 0.001 to 1e15"));
        }
        let summed = if offset < SMOOTH_OFFSET { SUMMED.min(ranks) } else { 0 };
        // Relative to the first, so that a large exponent does not leave the range of numbers.
        let mut head = vec![0.0];
        let mut sum = 0.0;
        for rank in 0..summed {
            sum += (1.0 + rank as f64 / offset).powf(-exponent);
            head.push(sum);
        }
        // A rank is as much as the integral around its middle.
        let start = summed as f64 + offset - 0.5;
        let length = (ranks - summed) as f64;
        let rest = (start / offset).powf(-exponent) * start * integral(length, start, 1.0 - exponent);
        let total = sum + rest;
        head.iter_mut().for_each(|share| *share /= total);
        let parts = if length > 0.0 {
            vec![Part::new(summed as f64, length, sum / total, rest / total, start, exponent)]
        } else {
            Vec::new()
        };
        Ok(Curve { ranks, stretch: 1.0, head, parts })
    }

    /// Two laws of exponent 1, joined at rank `hot` where both have the frequency `edge`: the first has the share
    /// `share` of all, the second the rest. Both go as far as they must: there is one such curve for every `share` above
    /// `hot · edge`, if there are enough ranks for the rest.
    pub fn joined(ranks: u64, hot: u64, share: f64, edge: f64) -> Result<Self, String> {
        let (near, far) = (hot as f64, ranks.saturating_sub(hot) as f64);
        if !(hot > 0 && share < 1.0 && edge > 0.0 && share > near * edge) {
            return Err(format!(
                "the first {hot} ranks have a share of {share}, the last of them a frequency of {edge}; so much must be \
                 below 1 and above {} ({hot} times {edge}), as no rank is more frequent than the one before it",
                near * edge
            ));
        }
        // Without the last digits of the difference.
        let rest = ((1.0 - share) * 1e9).round() / 1e9;
        // One more than the quotient, which is rounded.
        let enough = hot.saturating_add((rest / edge).ceil() as u64).saturating_add(1);
        if far == 0.0 {
            return Err(format!(
                "a model of {ranks} parameters has none beside its {hot} hot ones, and the others have a share of {rest} of the updates; \
                 ask for {enough} parameters or more"
            ));
        }
        if far * edge <= 1.0 - share {
            // A little above the limit, with six digits.
            let least = (((1.0 - far * edge) * 1e6).round() + 1.0) / 1e6;
            return Err(format!(
                "the {far} ranks after the first {hot} have a share of {rest}, but at most {edge} each: so many cannot; ask \
                 for {enough} parameters or more, or a share of the first of {least} or more"
            ));
        }
        // The share of the first falls with its offset, that of the second rises: (hot + q) ln(1 + hot/q) and
        // q ln(1 + far/q), times the frequency at the joint.
        let first = fit::bisect_log(1e-9 * near, 1e9 * near, |q| share - edge * (near + q) * (near / q).ln_1p());
        let second = fit::bisect_log(1e-9, 1e9 * far, |q| edge * q * (far / q).ln_1p() - (1.0 - share));
        let parts =
            vec![Part::new(0.0, near, 0.0, share, first, 1.0), Part::new(near, far, share, 1.0 - share, second, 1.0)];
        Ok(Curve { ranks, stretch: 1.0, head: vec![0.0], parts })
    }

    /// Through points (ranks, their cumulative share), straight between them: as many ranks as the last has, and its
    /// share is 1. Shares rise and never faster than before.
    pub fn empirical(points: &[(u64, f64)]) -> Result<Self, String> {
        let mut parts: Vec<Part> = Vec::with_capacity(points.len());
        let (mut at, mut below, mut last) = (0u64, 0.0, f64::INFINITY);
        for &(ranks, share) in points {
            if ranks <= at || !(share > below && share <= 1.0) {
                return Err(format!(
                    "the point [{ranks}, {share}] does not follow [{at}, {below}]: ranks and cumulative shares rise, up \
                     to a share of 1"
                ));
            }
            let slope = (share - below) / (ranks - at) as f64;
            if slope > last * (1.0 + 1e-9) {
                return Err(format!(
                    "up to the point [{ranks}, {share}] every rank has a frequency of {slope}, the ranks before had \
                     {last}: ranks are in the order of their frequency, so it never rises"
                ));
            }
            // Of a law with exponent 0 the offset means nothing.
            parts.push(Part::new(at as f64, (ranks - at) as f64, below, share - below, 1.0, 0.0));
            (at, below, last) = (ranks, share, slope);
        }
        if below != 1.0 {
            return Err(format!("the last point has a cumulative share of {below}; it must be 1"));
        }
        Ok(Curve { ranks: at, stretch: 1.0, head: vec![0.0], parts })
    }

    /// The same shape over `scale` times as many ranks, at least one.
    pub fn scaled(&self, scale: f64) -> Self {
        let old = self.ranks as f64 * self.stretch;
        let ranks = ((self.ranks as f64 * scale).round() as u64).max(1);
        Curve { ranks, stretch: old / ranks as f64, ..self.clone() }
    }

    /// Ranks.
    pub fn ranks(&self) -> u64 {
        self.ranks
    }

    /// Share of the `k` most frequent.
    pub fn share(&self, k: u64) -> f64 {
        if k >= self.ranks { 1.0 } else { self.cumulative(k as f64) }
    }

    /// The same for a place between two ranks.
    pub(super) fn cumulative(&self, k: f64) -> f64 {
        let x = k * self.stretch;
        let summed = (self.head.len() - 1) as f64;
        if x < summed {
            let (rank, part) = (x as usize, x.fract());
            return self.head[rank] + part * (self.head[rank + 1] - self.head[rank]);
        }
        match self.part_at(x) {
            Some(part) => part.cumulative((x - part.from).clamp(0.0, part.length)).min(1.0),
            None => 1.0,
        }
    }

    fn part_at(&self, x: f64) -> Option<&Part> {
        let next = self.parts.partition_point(|part| part.from <= x);
        self.parts.get(next.saturating_sub(1))
    }

    /// Share of the parameter at `rank`; 0 where there is none.
    pub fn frequency(&self, rank: u64) -> f64 {
        if rank >= self.ranks {
            return 0.0;
        }
        self.between(rank, rank + 1)
    }

    /// Share of the parameters from rank `from` up to `end`, not beyond the last.
    pub(super) fn between(&self, from: u64, end: u64) -> f64 {
        let (x, y) = (from as f64 * self.stretch, end as f64 * self.stretch);
        match self.part_at(x) {
            // Within a part, where the difference of two shares would lose its digits far out.
            Some(part) if x >= part.from && y <= part.from + part.length * (1.0 + 1e-12) => {
                part.slice(x - part.from, (end - from) as f64 * self.stretch)
            }
            _ => self.share(end) - self.cumulative(from as f64),
        }
    }

    /// The rank at which the cumulative share passes `u`: of a uniform `u` in [0, 1), a rank as frequent as it is.
    pub fn rank(&self, u: f64) -> u64 {
        let summed = self.head.len() - 1;
        let x = if u < self.head[summed] {
            let next = self.head.partition_point(|share| *share <= u).max(1);
            let (below, above) = (self.head[next - 1], self.head[next]);
            (next - 1) as f64 + ((u - below) / (above - below)).clamp(0.0, 1.0 - 1e-12)
        } else {
            let next = self.parts.partition_point(|part| part.below <= u);
            self.parts.get(next.saturating_sub(1)).map_or(0.0, |part| part.from + part.inverse(u))
        };
        ((x / self.stretch) as u64).min(self.ranks - 1)
    }

    /// Where the rule of LIBRA §5.3 stops: ranks are added `step` at a time until that raises the cumulative share by
    /// less than `threshold`. Whether the step that does not raise it enough still counts is not said; it does not
    /// (our choice).
    pub fn stop(&self, step: u64, threshold: f64) -> u64 {
        let step = step.max(1);
        // Increments never rise, so the first that is too small can be searched for.
        let small = |n: u64| self.share((n + 1).saturating_mul(step)) - self.share(n.saturating_mul(step)) < threshold;
        let (mut low, mut high) = (0, self.ranks.div_ceil(step));
        while low < high {
            let middle = low + (high - low) / 2;
            if small(middle) { high = middle } else { low = middle + 1 }
        }
        low.saturating_mul(step).min(self.ranks)
    }

    /// Least number of ranks with a cumulative share of `share`.
    pub(crate) fn ranks_for(&self, share: f64) -> u64 {
        let (mut low, mut high) = (0, self.ranks);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.share(middle) < share { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// First rank after `rank` that is less frequent than `share` of `rank`'s frequency, or the number of ranks.
    pub(super) fn falls_below(&self, rank: u64, share: f64) -> u64 {
        let least = self.frequency(rank) * share;
        let (mut low, mut high) = (rank + 1, self.ranks);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.frequency(middle) < least { high = middle } else { low = middle + 1 }
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums of `(i + q)^-s`, one by one.
    fn naive(ranks: u64, exponent: f64, offset: f64) -> Vec<f64> {
        let weights: Vec<f64> = (0..ranks).map(|i| (i as f64 + offset).powf(-exponent)).collect();
        let total: f64 = weights.iter().sum();
        weights.iter().map(|weight| weight / total).collect()
    }

    fn laws() -> Vec<(u64, f64, f64)> {
        let mut laws = Vec::new();
        for ranks in [1, 2, 255, 256, 257, 5000, 100_000] {
            for exponent in [0.0, 0.5, 0.975, 1.0, 1.024, 3.4] {
                laws.extend([1.0, 2.7, 999.0, 1000.0, 88_500.0].map(|offset| (ranks, exponent, offset)));
            }
        }
        laws
    }

    #[test]
    fn a_law_is_what_its_sums_say() {
        for (ranks, exponent, offset) in laws() {
            let curve = Curve::mandelbrot(ranks, exponent, offset).unwrap();
            let mut share = 0.0;
            for (rank, frequency) in naive(ranks, exponent, offset).into_iter().enumerate() {
                let (found, below) = (curve.frequency(rank as u64), curve.share(rank as u64));
                let law = format!("s {exponent}, q {offset}, rank {rank} of {ranks}");
                let tolerance = if exponent < 1.1 { 2e-6 } else { 1e-5 };
                assert!((found / frequency - 1.0).abs() < tolerance, "{law}: {found} for {frequency}");
                assert!((below - share).abs() < 2e-6, "{law}: {below} for {share}");
                share += frequency;
            }
            assert_eq!((curve.share(ranks), curve.frequency(ranks)), (1.0, 0.0));
        }
    }

    fn others() -> Vec<Curve> {
        let points = [(10, 0.4), (1000, 0.7), (1001, 0.7002), (50_000, 1.0)];
        let mut all = vec![
            Curve::empirical(&points).unwrap(),
            Curve::empirical(&[(7, 1.0)]).unwrap(),
            Curve::joined(1_000_000, 6000, 0.75, 1e-4).unwrap(),
            Curve::zipf(150_000_000, 0.975).unwrap(),
        ];
        all.extend(laws().into_iter().map(|(n, s, q)| Curve::mandelbrot(n, s, q).unwrap()));
        let scaled: Vec<_> = all.iter().flat_map(|curve| [0.5, 0.0137].map(|scale| curve.scaled(scale))).collect();
        all.extend(scaled);
        all
    }

    #[test]
    fn share_frequency_and_rank_are_of_one_function() {
        for curve in others() {
            let ranks = curve.ranks();
            let places = (0..1000u64).map(|i| if i < 500 { i } else { i * i * 7 }).filter(|rank| *rank < ranks);
            let mut last = f64::INFINITY;
            for rank in places {
                let (frequency, share) = (curve.frequency(rank), curve.share(rank));
                let difference = curve.share(rank + 1) - share;
                assert!((frequency - difference).abs() < 1e-9 * frequency + 1e-14, "{rank}: {frequency}, {difference}");
                assert!(frequency <= last * (1.0 + 1e-9), "{rank} of {ranks} is more frequent than one before");
                last = frequency;
                // Far out a share hardly differs from its neighbour.
                if frequency > 1e-11 {
                    assert_eq!(curve.rank(share + 0.5 * frequency), rank, "of {ranks}");
                }
            }
            for u in (0..1000).map(|i| f64::from(i) / 1000.0) {
                let rank = curve.rank(u);
                assert!(rank < ranks && curve.share(rank) <= u + 1e-12 && u <= curve.share(rank + 1) + 1e-12, "{u}");
            }
            assert!(curve.rank(1.0 - f64::EPSILON) < ranks);
        }
    }

    #[test]
    fn a_scaled_curve_has_the_same_shares_over_fewer_ranks() {
        let whole = Curve::joined(1_000_000, 6000, 0.75, 1e-4).unwrap();
        let tenth = whole.scaled(0.1);
        assert_eq!(tenth.ranks(), 100_000);
        for rank in [0, 1, 599, 600, 601, 5000, 99_999] {
            assert!((tenth.share(rank) - whole.share(rank * 10)).abs() < 1e-12);
            let sum: f64 = (rank * 10..rank * 10 + 10).map(|r| whole.frequency(r)).sum();
            assert!((tenth.frequency(rank) / sum - 1.0).abs() < 1e-9, "{rank}");
        }
        assert_eq!(Curve::zipf(10, 1.0).unwrap().scaled(1e-9).ranks(), 1);
    }

    #[test]
    fn a_joined_curve_has_what_it_was_asked_for() {
        for (ranks, hot, share, edge) in
            [(565_000_000, 40_000, 0.55, 1e-5), (170_000_000, 60_000, 0.75, 1e-5), (100_000, 1000, 0.5, 4e-4)]
        {
            let curve = Curve::joined(ranks, hot, share, edge).unwrap();
            assert!((curve.share(hot) - share).abs() < 1e-9, "{}", curve.share(hot));
            assert!(curve.frequency(hot - 1) >= edge && curve.frequency(hot) <= edge);
            assert!(curve.frequency(hot - 1) / edge < 1.01 && curve.frequency(hot) / edge > 0.98);
        }
    }

    #[test]
    fn searches_find_what_a_walk_finds() {
        let curve = Curve::mandelbrot(20_000, 1.3, 40.0).unwrap();
        for (step, threshold) in [(1, 1e-4), (7, 1e-3), (1000, 0.01), (1000, 0.9), (1000, 1e-9), (30_000, 0.5)] {
            let mut k = 0;
            while k < 20_000 && curve.share(k + step) - curve.share(k) >= threshold {
                k += step;
            }
            assert_eq!(curve.stop(step, threshold), k.min(20_000), "{step}, {threshold}");
        }
        for share in [0.0, 1e-9, 0.3, 0.9, 1.0] {
            let walk = (0..=20_000).find(|k| curve.share(*k) >= share).unwrap();
            assert_eq!(curve.ranks_for(share), walk, "{share}");
        }
        let end = curve.falls_below(100, 0.9);
        assert!(
            curve.frequency(end - 1) >= 0.9 * curve.frequency(100) && curve.frequency(end) < 0.9 * curve.frequency(100)
        );
    }

    #[test]
    fn what_is_no_curve_is_refused() {
        for points in [
            &[][..],
            &[(0, 0.5), (1, 1.0)],
            &[(5, 0.5), (5, 1.0)],
            &[(5, 0.5), (6, 0.4)],
            &[(5, 0.1), (6, 1.0)],
            &[(5, 0.9)],
            &[(5, 1.1)],
            &[(5, f64::NAN)],
        ] {
            assert!(Curve::empirical(points).is_err(), "{points:?}");
        }
        for (ranks, exponent, offset) in
            [(0, 1.0, 1.0), (9, f64::NAN, 1.0), (9, -1.0, 1.0), (9, 1.0, 0.0), (9, 1.0, f64::NAN), (9, 1e9, 1.0)]
        {
            assert!(Curve::mandelbrot(ranks, exponent, offset).is_err());
        }
        for (ranks, hot, share, edge) in
            [(100, 10, 0.5, 0.06), (100, 0, 0.5, 0.01), (100, 10, 1.0, 0.01), (20, 10, 0.5, 0.01), (5, 10, 0.5, 0.01)]
        {
            assert!(Curve::joined(ranks, hot, share, edge).is_err());
        }
    }
}
