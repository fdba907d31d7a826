//! Exact quantiles of many numbers, without sorting all of them and without holding them in memory.
//!
//! Called by [`crate::age`] and [`crate::metric`]. A pass counts how many numbers fall into each of a few thousand ranges; that
//! says in which ranges the quantiles are, and a second pass takes out those alone. What comes out depends on
//! the numbers only, not on their order or on where they are kept.

use pktgen_generator::Result;

/// Numbers that can be gone through again and again.
pub trait Values {
    /// How many.
    fn len(&self) -> usize;
    /// Calls `each` with all of them, some at a time.
    fn scan(&self, each: &mut dyn FnMut(&[i64])) -> Result<()>;
    /// The smallest and the largest; none of none.
    fn ends(&self) -> Result<Option<(i64, i64)>> {
        let (mut low, mut high) = (i64::MAX, i64::MIN);
        self.scan(&mut |values| {
            for &value in values {
                (low, high) = (low.min(value), high.max(value));
            }
        })?;
        Ok((low <= high).then_some((low, high)))
    }
    /// Are there none?
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Numbers in memory.
pub struct Slice<'a>(pub &'a [i64]);

impl Values for Slice<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn scan(&self, each: &mut dyn FnMut(&[i64])) -> Result<()> {
        each(self.0);
        Ok(())
    }
}

/// Ranges of a pass, as a power of two.
const RANGES_LOG: u32 = 11;
const RANGES: usize = 1 << RANGES_LOG;
/// So few are sorted at once.
const SHORT: usize = 1 << 11;
/// So many numbers of a range are sorted.
const FEW: usize = 1 << 15;

/// Equal ranges from `low` on, which hold all up to the largest number.
#[derive(Clone, Copy)]
struct Ruler {
    low: i64,
    shift: u32,
}

impl Ruler {
    fn over(low: i64, high: i64) -> Self {
        let span = high.wrapping_sub(low) as u64;
        Ruler { low, shift: (u64::BITS - span.leading_zeros()).saturating_sub(RANGES_LOG) }
    }

    #[inline]
    fn range_of(self, value: i64) -> usize {
        (value.wrapping_sub(self.low) as u64 >> self.shift) as usize
    }

    /// Where range `index` begins.
    fn begin(self, index: usize) -> i128 {
        i128::from(self.low) + ((index as i128) << self.shift)
    }

    /// The numbers of a range, as a ruler of their own.
    fn within(self, index: usize) -> Ruler {
        Ruler { low: self.begin(index) as i64, shift: self.shift.saturating_sub(RANGES_LOG) }
    }
}

/// All of them.
fn all(values: &dyn Values) -> Result<Vec<i64>> {
    let mut all = Vec::with_capacity(values.len());
    values.scan(&mut |part| all.extend(part))?;
    Ok(all)
}

/// The values at quantiles `q` by nearest rank; none of no values.
pub fn nearest_ranks<const N: usize>(values: &dyn Values, q: [f64; N]) -> Result<Option<[i64; N]>> {
    let len = values.len();
    let rank = |q: f64| ((q * len as f64).ceil() as usize).clamp(1, len.max(1)) - 1;
    if len <= SHORT {
        let mut sorted = all(values)?;
        sorted.sort_unstable();
        return Ok((len > 0).then(|| q.map(|q| sorted[rank(q)])));
    }
    let Some((low, high)) = values.ends()? else { return Ok(None) };
    let ruler = Ruler::over(low, high);
    let mut counts = vec![0u64; RANGES];
    values.scan(&mut |part| part.iter().for_each(|value| counts[ruler.range_of(*value)] += 1))?;
    let mut found = [0; N];
    let places = q.map(|q| place(&counts, rank(q) as u64));
    let taken = take_out(values, ruler, &places.map(|(range, _)| range), &counts)?;
    for ((found, (range, before)), taken) in found.iter_mut().zip(places).zip(taken) {
        *found = match taken {
            Some(mut taken) => *taken.select_nth_unstable((before) as usize).1,
            None => ranked(values, ruler.within(range), before)?,
        };
    }
    Ok(Some(found))
}

/// The range with the value of this rank, and its rank there.
fn place(counts: &[u64], mut rank: u64) -> (usize, u64) {
    for (range, count) in counts.iter().enumerate() {
        if rank < *count {
            return (range, rank);
        }
        rank -= count;
    }
    (counts.len() - 1, 0)
}

/// The numbers in each of `ranges`; none where they are too many.
fn take_out(values: &dyn Values, ruler: Ruler, ranges: &[usize], counts: &[u64]) -> Result<Vec<Option<Vec<i64>>>> {
    /// Says that nobody wants a range.
    const NOBODY: u32 = u32::MAX;
    let mut places = vec![NOBODY; RANGES];
    let mut taken: Vec<Vec<i64>> = Vec::new();
    for &range in ranges {
        if counts[range] as usize <= FEW && places[range] == NOBODY {
            places[range] = taken.len() as u32;
            taken.push(Vec::with_capacity(counts[range] as usize));
        }
    }
    if !taken.is_empty() {
        values.scan(&mut |part| {
            for &value in part {
                let place = places[ruler.range_of(value)];
                if place != NOBODY {
                    taken[place as usize].push(value);
                }
            }
        })?;
    }
    let of = |range: &usize| taken.get(places[*range] as usize).cloned();
    Ok(ranges.iter().map(of).collect())
}

/// The number of rank `rank` among those that `ruler` measures: further passes, each a few thousand times finer.
fn ranked(values: &dyn Values, mut ruler: Ruler, mut rank: u64) -> Result<i64> {
    // What is here spans less than the ranges of the pass before did.
    let mut last = ruler.begin(RANGES);
    loop {
        let mut counts = vec![0u64; RANGES];
        values.scan(&mut |part| {
            for &value in part {
                if value >= ruler.low && i128::from(value) < last {
                    counts[ruler.range_of(value).min(RANGES - 1)] += 1;
                }
            }
        })?;
        let (range, rest) = place(&counts, rank);
        if ruler.shift == 0 {
            return Ok(ruler.begin(range) as i64);
        }
        last = ruler.begin(range + 1);
        (ruler, rank) = (ruler.within(range), rest);
    }
}

/// What is below the beginning of a range, of `from` and of `to`: how many, and their sum.
#[derive(Clone, Copy, Default)]
struct Below {
    from: i128,
    from_sum: i128,
    to: i128,
    to_sum: i128,
}

impl Below {
    /// Time spent below `x`.
    fn time(&self, x: i128) -> i128 {
        self.from * x - self.from_sum - (self.to * x - self.to_sum)
    }
}

/// Counts and sums of one list by range.
struct Tally {
    counts: Vec<u64>,
    sums: Vec<i128>,
}

impl Tally {
    /// Of the values from the ruler's beginning on and below `last`.
    fn of(values: &dyn Values, ruler: Ruler, last: i128) -> Result<Tally> {
        // How many, and the sum of how far they are into their range: narrow, so that a part of all ranges fits the nearest
        // cache; made wide before they could overflow.
        let mut narrow = vec![(0u32, 0u64); RANGES];
        let mut tally = Tally { counts: vec![0; RANGES], sums: vec![0; RANGES] };
        let room = 1usize << (u64::BITS - 1).saturating_sub(ruler.shift).min(30);
        let mut added = 0;
        let last = i64::try_from(last - 1).unwrap_or(i64::MAX);
        values.scan(&mut |all| {
            for part in all.chunks(room) {
                if added + part.len() > room {
                    tally.widen(&mut narrow, ruler);
                    added = 0;
                }
                added += part.len();
                for &value in part.iter().filter(|value| (ruler.low..=last).contains(value)) {
                    let range = ruler.range_of(value).min(RANGES - 1);
                    let (count, into) = &mut narrow[range];
                    *count += 1;
                    *into += value.wrapping_sub(ruler.low) as u64 & ((1 << ruler.shift) - 1);
                }
            }
        })?;
        tally.widen(&mut narrow, ruler);
        Ok(tally)
    }

    fn widen(&mut self, narrow: &mut [(u32, u64)], ruler: Ruler) {
        for (range, (count, into)) in narrow.iter_mut().enumerate() {
            self.counts[range] += u64::from(*count);
            self.sums[range] += i128::from(*into) + i128::from(*count) * ruler.begin(range);
            (*count, *into) = (0, 0);
        }
    }
}

/// The ages that are not exceeded for the shares `q` of the time, in the numbers' unit. Segment i lasts as long as its ends are
/// apart, and the age grows from `from[i]` to `to[i]` in it: so the time spent below an age is
/// piecewise linear, with a slope of the number of segments that cover it. None if no time passes.
pub fn over_time(from: &dyn Values, to: &dyn Values, q: &[f64]) -> Result<Option<Vec<f64>>> {
    if from.len() + to.len() <= SHORT {
        return Ok(over_short_time(all(from)?, all(to)?, q));
    }
    let ends = [from.ends()?, to.ends()?];
    let (low, high) =
        ends.into_iter().flatten().fold((i64::MAX, i64::MIN), |(low, high), (a, b)| (low.min(a), high.max(b)));
    if low > high {
        return Ok(None);
    }
    let ruler = Ruler::over(low, high);
    let all = i128::from(high) + 1;
    let tallies = [Tally::of(from, ruler, all)?, Tally::of(to, ruler, all)?];
    let start = Below::default();
    let window = {
        let sum = |tally: &Tally| tally.sums.iter().sum::<i128>();
        sum(&tallies[1]) - sum(&tallies[0])
    };
    if window <= 0 {
        return Ok(None);
    }
    let targets: Vec<f64> = q.iter().map(|q| q * window as f64).collect();
    let places: Vec<_> = targets.iter().map(|target| crossing(&tallies, ruler, start, *target)).collect();
    let ranges: Vec<usize> = places.iter().map(|(range, _)| *range).collect();
    let parts_from = take_out(from, ruler, &ranges, &tallies[0].counts)?;
    let parts_to = take_out(to, ruler, &ranges, &tallies[1].counts)?;
    let mut found = vec![0.0; q.len()];
    let parts = parts_from.into_iter().zip(parts_to);
    for (i, (parts, (range, below))) in parts.zip(places).enumerate() {
        found[i] = match parts {
            (Some(a), Some(b)) => walk(a, b, ruler.begin(range), below, targets[i]),
            _ => narrowed(from, to, ruler, (range, below), targets[i])?,
        };
    }
    Ok(Some(found))
}

/// The same of few, by sorting them.
fn over_short_time(from: Vec<i64>, to: Vec<i64>, q: &[f64]) -> Option<Vec<f64>> {
    let sum = |ages: &[i64]| ages.iter().map(|age| i128::from(*age)).sum::<i128>();
    let window = sum(&to) - sum(&from);
    let begin = i128::from(*from.iter().min()?);
    let at = |q: &f64| walk(from.clone(), to.clone(), begin, Below::default(), q * window as f64);
    (window > 0).then(|| q.iter().map(at).collect())
}

/// The range in which the time reaches `target`, and what is below it.
fn crossing(tallies: &[Tally; 2], ruler: Ruler, mut below: Below, target: f64) -> (usize, Below) {
    let mut last = (0, below);
    for range in 0..RANGES {
        let next = Below {
            from: below.from + i128::from(tallies[0].counts[range]),
            from_sum: below.from_sum + tallies[0].sums[range],
            to: below.to + i128::from(tallies[1].counts[range]),
            to_sum: below.to_sum + tallies[1].sums[range],
        };
        if tallies[0].counts[range] + tallies[1].counts[range] > 0 {
            last = (range, below);
        }
        if next.time(ruler.begin(range + 1)) as f64 >= target {
            return (range, below);
        }
        below = next;
    }
    last
}

/// Further passes over a range that holds too many.
fn narrowed(
    from: &dyn Values,
    to: &dyn Values,
    ruler: Ruler,
    (range, below): (usize, Below),
    target: f64,
) -> Result<f64> {
    let (mut ruler, mut range, mut below) = (ruler, range, below);
    loop {
        let last = ruler.begin(range + 1);
        if ruler.shift == 0 {
            // All that is here is one number: the time grows behind it as the segments that cover it then.
            let x = ruler.begin(range);
            let tallies = [Tally::of(from, ruler.within(range), last)?, Tally::of(to, ruler.within(range), last)?];
            let [a, b] = tallies.map(|tally| i128::from(tally.counts.iter().sum::<u64>()));
            let covering = below.from + a - below.to - b;
            return Ok(ahead(x, below.time(x), covering, target));
        }
        let finer = ruler.within(range);
        let tallies = [Tally::of(from, finer, last)?, Tally::of(to, finer, last)?];
        let (next, next_below) = crossing(&tallies, finer, below, target);
        (ruler, range, below) = (finer, next, next_below);
        if tallies.iter().all(|tally| tally.counts[range] as usize <= FEW) {
            let taken = |values: &dyn Values| -> Result<Vec<i64>> {
                let (begin, end) = (ruler.begin(range), ruler.begin(range + 1).min(last));
                let mut taken = Vec::new();
                let inside = |value: &&i64| (begin..end).contains(&i128::from(**value));
                values.scan(&mut |part| taken.extend(part.iter().filter(inside)))?;
                Ok(taken)
            };
            return Ok(walk(taken(from)?, taken(to)?, ruler.begin(range), below, target));
        }
    }
}

/// From `x`, where `time` has passed, to where it is `target`, with a slope of `covering`.
fn ahead(x: i128, time: i128, covering: i128, target: f64) -> f64 {
    if covering > 0 { x as f64 + (target - time as f64) / covering as f64 } else { x as f64 }
}

/// Goes from edge to edge until the time reaches `target`.
fn walk(mut from: Vec<i64>, mut to: Vec<i64>, begin: i128, below: Below, target: f64) -> f64 {
    from.sort_unstable();
    to.sort_unstable();
    let (mut i, mut j) = (0, 0);
    let (mut time, mut x) = (below.time(begin), begin);
    let mut covering = below.from - below.to;
    while i < from.len() || j < to.len() {
        let edge = [from.get(i), to.get(j)].into_iter().flatten().min().map_or(x, |edge| i128::from(*edge));
        let passed = time + covering * (edge - x);
        if passed as f64 >= target && covering > 0 {
            break;
        }
        (time, x) = (passed, edge);
        if from.get(i).is_some_and(|first| to.get(j).is_none_or(|second| first <= second)) {
            (i, covering) = (i + 1, covering + 1);
        } else {
            (j, covering) = (j + 1, covering - 1);
        }
    }
    ahead(x, time, covering, target)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::quantile_of_sorted;
    use proptest::prelude::*;

    /// By sorting everything.
    fn over_time_by_sorting(a: &[i64], b: &[i64], q: f64) -> f64 {
        let (mut from, mut to) = (a.to_vec(), b.to_vec());
        from.sort_unstable();
        to.sort_unstable();
        let window: i128 = to.iter().chain(&[]).map(|x| i128::from(*x)).sum::<i128>()
            - from.iter().map(|x| i128::from(*x)).sum::<i128>();
        walk(from.clone(), to, i128::from(from[0]), Below::default(), q * window as f64)
    }

    fn spread() -> impl Strategy<Value = Vec<i64>> {
        prop_oneof![
            prop::collection::vec(0i64..50, 1..5000),
            prop::collection::vec(-1i64 << 40..1 << 40, 1..5000),
            prop::collection::vec(prop_oneof![Just(7i64), 0i64..1 << 50], 1..5000),
        ]
    }

    proptest! {
        #[test]
        fn ranks_are_those_of_sorting(values in spread()) {
            let mut sorted = values.clone();
            sorted.sort_unstable();
            let q = [0.0, 0.5, 0.9, 0.99, 1.0];
            let found = nearest_ranks(&Slice(&values), q).unwrap().unwrap();
            prop_assert_eq!(found, q.map(|q| quantile_of_sorted(&sorted, q).unwrap()));
        }

        #[test]
        fn times_are_those_of_sorting(begins in spread(), lengths in prop::collection::vec(0i64..1 << 30, 5000)) {
            let ends: Vec<i64> = begins.iter().zip(&lengths).map(|(a, length)| a + length).collect();
            let found = over_time(&Slice(&begins), &Slice(&ends), &[0.5, 0.9, 0.99]).unwrap();
            match found {
                None => prop_assert_eq!(&begins, &ends),
                Some(found) => for (found, q) in found.into_iter().zip([0.5, 0.9, 0.99]) {
                    let plain = over_time_by_sorting(&begins, &ends, q);
                    prop_assert!((found - plain).abs() <= 1e-9 * plain.abs().max(1.0), "{} {}", found, plain);
                }
            }
        }
    }

    #[test]
    fn many_numbers_of_few_values_are_narrowed_down() {
        // More than are ever sorted, in one range of the first pass.
        let mut values: Vec<i64> = (0..200_000).map(|i| 1_000_000 + i % 7).collect();
        values.push(1 << 60);
        let mut sorted = values.clone();
        sorted.sort_unstable();
        let q = [0.1, 0.5, 0.99];
        assert_eq!(
            nearest_ranks(&Slice(&values), q).unwrap(),
            Some(q.map(|q| quantile_of_sorted(&sorted, q).unwrap()))
        );
        let ends: Vec<i64> = values.iter().enumerate().map(|(i, value)| value + 40 + (i % 3) as i64).collect();
        let found = over_time(&Slice(&values), &Slice(&ends), &q).unwrap().unwrap();
        for (found, q) in found.into_iter().zip(q) {
            let plain = over_time_by_sorting(&values, &ends, q);
            assert!((found - plain).abs() < 1e-6, "{found} {plain}");
        }
        assert_eq!(nearest_ranks::<1>(&Slice(&[]), [0.5]).unwrap(), None);
        assert_eq!(over_time(&Slice(&[3]), &Slice(&[3]), &[0.5]).unwrap(), None);
        assert_eq!(nearest_ranks(&Slice(&[i64::MIN, i64::MAX]), [0.5, 0.99]).unwrap(), Some([i64::MIN, i64::MAX]));
    }
}
