//! Exact quantiles of many numbers, without sorting or holding all of them in memory.
//!
//! Called by [`crate::metric`]; [`crate::over_time`] does the same for ages over time. A first pass counts how many
//! numbers fall into each of about a thousand ranges, which shows in which ranges the quantiles are, and a second pass
//! extracts only those. The result depends on the numbers alone, not on their order or on where they are stored.

use std::collections::BTreeMap;

use pktgen_core::Result;
use pktgen_core::quantile::nearest_rank;

/// Numbers that can be iterated repeatedly.
pub trait Values {
    /// Returns how many there are.
    fn len(&self) -> usize;
    /// Calls `each` with all numbers, some at a time.
    fn scan(&self, each: &mut dyn FnMut(&[i64])) -> Result<()>;
    /// Returns the minimum and maximum; `None` without numbers.
    fn ends(&self) -> Result<Option<(i64, i64)>> {
        let (mut low, mut high) = (i64::MAX, i64::MIN);
        self.scan(&mut |values| {
            for &value in values {
                (low, high) = (low.min(value), high.max(value));
            }
        })?;
        Ok((low <= high).then_some((low, high)))
    }
    /// Whether there are no numbers.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Numbers in memory.
pub(crate) struct Slice<'a>(pub &'a [i64]);

impl Values for Slice<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn scan(&self, each: &mut dyn FnMut(&[i64])) -> Result<()> {
        each(self.0);
        Ok(())
    }
}

/// Number of ranges of a pass, as a power of two.
const RANGES_LOG: u32 = 10;
pub(crate) const RANGES: usize = 1 << RANGES_LOG;
/// Up to this many numbers are sorted immediately.
pub(crate) const SHORT: usize = 1 << 11;
/// Up to this many numbers of a range are sorted.
pub(crate) const FEW: usize = 1 << 15;

/// Ranges of equal width from `low` on, covering all numbers up to the largest.
#[derive(Clone, Copy)]
pub(crate) struct Ruler {
    pub(crate) low: i64,
    pub(crate) shift: u32,
}

impl Ruler {
    pub(crate) fn over(low: i64, high: i64) -> Self {
        let span = high.wrapping_sub(low) as u64;
        Ruler { low, shift: (u64::BITS - span.leading_zeros()).saturating_sub(RANGES_LOG) }
    }

    #[inline]
    pub(crate) fn range_of(self, value: i64) -> usize {
        (value.wrapping_sub(self.low) as u64 >> self.shift) as usize
    }

    /// Returns the beginning of range `index`.
    pub(crate) fn begin(self, index: usize) -> i128 {
        i128::from(self.low) + ((index as i128) << self.shift)
    }

    /// Returns a ruler for the numbers in a range.
    pub(crate) fn within(self, index: usize) -> Ruler {
        Ruler { low: self.begin(index) as i64, shift: self.shift.saturating_sub(RANGES_LOG) }
    }
}

/// Returns all numbers.
fn all(values: &dyn Values) -> Result<Vec<i64>> {
    let mut all = Vec::with_capacity(values.len());
    values.scan(&mut |part| all.extend(part))?;
    Ok(all)
}

/// Returns the values at quantiles `q` by nearest rank; `None` without values.
pub fn nearest_ranks<const N: usize>(values: &dyn Values, q: [f64; N]) -> Result<Option<[i64; N]>> {
    let len = values.len();
    let rank = |q: f64| nearest_rank(q, len) - 1;
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
    let mut crowded: BTreeMap<usize, Vec<(usize, u64)>> = BTreeMap::new();
    for (at, ((range, before), taken)) in places.into_iter().zip(taken).enumerate() {
        match taken {
            Some(mut taken) => found[at] = *taken.select_nth_unstable(before as usize).1,
            None => crowded.entry(range).or_default().push((at, before)),
        }
    }
    for (range, wanted) in crowded {
        let last = ruler.begin(range + 1);
        ranked(values, ruler.within(range), last, &wanted, &mut found)?;
    }
    Ok(Some(found))
}

/// Returns the range with the value of this rank, and its rank within the range.
pub(crate) fn place(counts: &[u64], mut rank: u64) -> (usize, u64) {
    for (range, count) in counts.iter().enumerate() {
        if rank < *count {
            return (range, rank);
        }
        rank -= count;
    }
    (counts.len() - 1, 0)
}

/// Returns the numbers in each of `ranges`; `None` for ranges with too many.
fn take_out(values: &dyn Values, ruler: Ruler, ranges: &[usize], counts: &[u64]) -> Result<Vec<Option<Vec<i64>>>> {
    /// Marks a range that is not needed.
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

/// Finds the numbers of these ranks among those measured by `ruler` and below `last`, and stores each at its index of
/// `found`: makes further passes, each about a thousand times finer, for all ranks of a range at once.
fn ranked(values: &dyn Values, ruler: Ruler, last: i128, wanted: &[(usize, u64)], found: &mut [i64]) -> Result<()> {
    let mut counts = vec![0u64; RANGES];
    values.scan(&mut |part| {
        for &value in part {
            if value >= ruler.low && i128::from(value) < last {
                counts[ruler.range_of(value).min(RANGES - 1)] += 1;
            }
        }
    })?;
    let mut by_range: BTreeMap<usize, Vec<(usize, u64)>> = BTreeMap::new();
    for &(at, rank) in wanted {
        let (range, rest) = place(&counts, rank);
        found[at] = ruler.begin(range) as i64;
        by_range.entry(range).or_default().push((at, rest));
    }
    if ruler.shift == 0 {
        return Ok(());
    }
    let mut few: BTreeMap<usize, Vec<i64>> = BTreeMap::new();
    few.extend(by_range.keys().filter(|range| counts[**range] as usize <= FEW).map(|range| (*range, Vec::new())));
    values.scan(&mut |part| {
        for &value in part {
            if value >= ruler.low && i128::from(value) < last {
                let own = few.get_mut(&ruler.range_of(value).min(RANGES - 1));
                own.into_iter().for_each(|own| own.push(value));
            }
        }
    })?;
    for (range, wanted) in by_range {
        if let Some(own) = few.get_mut(&range) {
            own.sort_unstable();
            wanted.iter().for_each(|(at, rank)| found[*at] = own[*rank as usize]);
            continue;
        }
        ranked(values, ruler.within(range), last.min(ruler.begin(range + 1)), &wanted, found)?;
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::stats::quantile_of_sorted;
    use proptest::prelude::*;

    /// Returns numbers in a narrow range, in a wide one, and in a wide one of which half are equal.
    pub(crate) fn spread() -> impl Strategy<Value = Vec<i64>> {
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
            // As if nothing fitted into memory.
            let (low, high) = (sorted[0], sorted[sorted.len() - 1]);
            let wanted = q.map(|q| nearest_rank(q, sorted.len()) as u64 - 1);
            let wanted: Vec<(usize, u64)> = wanted.into_iter().enumerate().collect();
            let mut again = [0; 5];
            ranked(&Slice(&values), Ruler::over(low, high), i128::from(high) + 1, &wanted, &mut again).unwrap();
            prop_assert_eq!(again, found);
        }
    }

    #[test]
    fn many_numbers_of_few_values_are_narrowed_down() {
        // More numbers than are ever sorted, in one range of the first pass.
        let mut values: Vec<i64> = (0..200_000).map(|i| 1_000_000 + i % 7).collect();
        values.push(1 << 60);
        let mut sorted = values.clone();
        sorted.sort_unstable();
        let q = [0.1, 0.5, 0.99];
        assert_eq!(
            nearest_ranks(&Slice(&values), q).unwrap(),
            Some(q.map(|q| quantile_of_sorted(&sorted, q).unwrap()))
        );
        assert_eq!(nearest_ranks::<1>(&Slice(&[]), [0.5]).unwrap(), None);
        assert_eq!(nearest_ranks(&Slice(&[i64::MIN, i64::MAX]), [0.5, 0.99]).unwrap(), Some([i64::MIN, i64::MAX]));
    }
}
