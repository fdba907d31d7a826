//! Exact quantiles over time of ages that grow and fall, without sorting or holding all segments in memory.
//!
//! Called by [`crate::age`] and the plots. An age is a list of segments: it grows from one end to the other as time
//! passes, and the next segment begins lower. A first pass over the segments finds in which of about a thousand ranges
//! the quantiles are, and a second pass extracts only the ends in these ranges.

use pktgen_core::Result;
use pktgen_core::quantile::nearest_rank;

use crate::quantile::{FEW, RANGES, Ruler, SHORT, Values, nearest_ranks, place};

/// The age at the beginning and at the end of a segment.
pub type Segment = [i64; 2];

/// Segments that can be iterated repeatedly in the same order.
pub trait Segments {
    /// Returns the number of segments.
    fn len(&self) -> usize;
    /// Calls `each` with all segments, some at a time.
    fn scan(&self, each: &mut dyn FnMut(&[Segment])) -> Result<()>;
    /// Whether there are no segments.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Segments for [Segment] {
    fn len(&self) -> usize {
        <[Segment]>::len(self)
    }

    fn scan(&self, each: &mut dyn FnMut(&[Segment])) -> Result<()> {
        each(self);
        Ok(())
    }
}

/// Quantiles of an age.
#[derive(Debug, Clone, PartialEq)]
pub struct AgeQuantiles {
    /// The ages that are not exceeded for the requested shares of the time; `None` if no time passes.
    pub over_time: Option<Vec<f64>>,
    /// The peak at the requested rank; `None` without peaks.
    pub peak: Option<i64>,
}

/// Returns the ages that are not exceeded for the shares `q` of the time, in the unit of the numbers, and the peak at quantile `peak_q` by
/// nearest rank. A segment lasts as long as its ends differ, so the time spent below an age is piecewise linear with a slope of the number
/// of segments that cover it. The ends of all segments are peaks except that of the last, where the window ends.
pub fn quantiles(segments: &(impl Segments + ?Sized), q: &[f64], peak_q: f64) -> Result<AgeQuantiles> {
    if segments.len() * 2 <= SHORT {
        return of_few(segments, q, peak_q);
    }
    let (mut low, mut high, mut last) = (i64::MAX, i64::MIN, 0);
    segments.scan(&mut |part| {
        (low, high) = part.iter().flatten().fold((low, high), |(low, high), end| (low.min(*end), high.max(*end)));
        last = part.last().map_or(last, |segment| segment[1]);
    })?;
    let ruler = Ruler::over(low, high);
    let tally = Tally::of(segments, ruler, i128::from(high) + 1)?;
    let mut peaks = tally.counts[1].clone();
    peaks[ruler.range_of(last)] -= 1;
    let rank = nearest_rank(peak_q, segments.len() - 1);
    let (peak_range, peak_rank) = place(&peaks, rank as u64 - 1);
    let window = tally.window();
    let targets: Vec<f64> = q.iter().map(|q| q * window as f64).collect();
    let places: Vec<_> = targets.iter().map(|target| crossing(&tally, ruler, Below::default(), *target)).collect();
    let wanted: Vec<usize> = places.iter().map(|(range, _)| *range).chain([peak_range]).collect();
    let mut taken = take_out(segments, ruler, &wanted, &tally)?.into_iter();
    let mut ages = Vec::with_capacity(q.len());
    for (target, (range, below)) in targets.into_iter().zip(places) {
        ages.push(match taken.next().flatten() {
            Some([from, to]) => walk(from, to, ruler.begin(range), below, target),
            None => narrowed(segments, ruler, (range, below), target)?,
        });
    }
    let peak = match taken.next().flatten() {
        Some([_, mut ends]) => {
            if ruler.range_of(last) == peak_range
                && let Some(at) = ends.iter().position(|end| *end == last)
            {
                ends.swap_remove(at);
            }
            Some(*ends.select_nth_unstable(peak_rank as usize).1)
        }
        None => nearest_ranks(&Peaks(segments), [peak_q])?.map(|[peak]| peak),
    };
    Ok(AgeQuantiles { over_time: (window > 0).then_some(ages), peak })
}

/// Computes the same for few segments by sorting.
fn of_few(segments: &(impl Segments + ?Sized), q: &[f64], peak_q: f64) -> Result<AgeQuantiles> {
    let (mut from, mut to) = (Vec::new(), Vec::new());
    segments.scan(&mut |part| part.iter().for_each(|[a, b]| (from.push(*a), to.push(*b)).0))?;
    let sum = |ages: &[i64]| ages.iter().map(|age| i128::from(*age)).sum::<i128>();
    let window = sum(&to) - sum(&from);
    let begin = from.iter().min().map_or(0, |least| i128::from(*least));
    let at = |q: &f64| walk(from.clone(), to.clone(), begin, Below::default(), q * window as f64);
    let over_time = (window > 0).then(|| q.iter().map(at).collect());
    Ok(AgeQuantiles { over_time, peak: nearest_ranks(&Peaks(segments), [peak_q])?.map(|[peak]| peak) })
}

/// The ends of all segments but the last.
pub(crate) struct Peaks<'a, S: ?Sized>(pub(crate) &'a S);

impl<S: Segments + ?Sized> Values for Peaks<'_, S> {
    fn len(&self) -> usize {
        self.0.len().saturating_sub(1)
    }

    fn scan(&self, each: &mut dyn FnMut(&[i64])) -> Result<()> {
        let (mut ends, mut left) = (Vec::new(), self.len());
        self.0.scan(&mut |part| {
            ends.clear();
            ends.extend(part.iter().take(left).map(|segment| segment[1]));
            left -= ends.len();
            each(&ends);
        })
    }
}

/// Segment beginnings and ends below the beginning of a range: their numbers and sums.
#[derive(Clone, Copy, Default)]
struct Below {
    from: i128,
    from_sum: i128,
    to: i128,
    to_sum: i128,
}

impl Below {
    /// Returns the time spent below `x`.
    fn time(&self, x: i128) -> i128 {
        self.from * x - self.from_sum - (self.to * x - self.to_sum)
    }
}

/// Counts and sums of beginnings and ends by range.
struct Tally {
    counts: [Vec<u64>; 2],
    sums: [Vec<i128>; 2],
}

impl Tally {
    /// Counts values from the ruler's beginning up to `last` (exclusive).
    fn of(segments: &(impl Segments + ?Sized), ruler: Ruler, last: i128) -> Result<Tally> {
        // Counts, and sums of the offsets within their range: narrow types, so that all ranges fit into the nearest
        // cache; widened before they could overflow.
        let mut narrow = vec![[(0u32, 0u64); 2]; RANGES];
        let mut tally = Tally { counts: [vec![0; RANGES], vec![0; RANGES]], sums: [vec![0; RANGES], vec![0; RANGES]] };
        let room = 1usize << (u64::BITS - 1).saturating_sub(ruler.shift).min(30);
        let mut added = 0;
        let last = i64::try_from(last - 1).unwrap_or(i64::MAX);
        segments.scan(&mut |all| {
            for part in all.chunks(room) {
                if added + part.len() > room {
                    tally.widen(&mut narrow, ruler);
                    added = 0;
                }
                added += part.len();
                for segment in part {
                    for (side, end) in segment.iter().enumerate() {
                        if (ruler.low..=last).contains(end) {
                            let range = ruler.range_of(*end).min(RANGES - 1);
                            let (count, into) = &mut narrow[range][side];
                            *count += 1;
                            *into += end.wrapping_sub(ruler.low) as u64 & ((1 << ruler.shift) - 1);
                        }
                    }
                }
            }
        })?;
        tally.widen(&mut narrow, ruler);
        Ok(tally)
    }

    fn widen(&mut self, narrow: &mut [[(u32, u64); 2]], ruler: Ruler) {
        for (range, sides) in narrow.iter_mut().enumerate() {
            for (side, (count, into)) in sides.iter_mut().enumerate() {
                self.counts[side][range] += u64::from(*count);
                self.sums[side][range] += i128::from(*into) + i128::from(*count) * ruler.begin(range);
                (*count, *into) = (0, 0);
            }
        }
    }

    /// Returns the total duration of all segments.
    fn window(&self) -> i128 {
        let [from, to] = self.sums.each_ref().map(|sums| sums.iter().sum::<i128>());
        to - from
    }

    fn has_few(&self, range: usize) -> bool {
        self.counts.iter().all(|counts| counts[range] as usize <= FEW)
    }
}

/// Returns the beginnings and ends in each of `ranges`; `None` for ranges with too many.
fn take_out(
    segments: &(impl Segments + ?Sized),
    ruler: Ruler,
    ranges: &[usize],
    tally: &Tally,
) -> Result<Vec<Option<[Vec<i64>; 2]>>> {
    /// Marks a range that is not needed.
    const NOBODY: u8 = u8::MAX;
    let mut places = [NOBODY; RANGES];
    let mut taken: Vec<[Vec<i64>; 2]> = Vec::new();
    for &range in ranges {
        if tally.has_few(range) && places[range] == NOBODY && taken.len() < usize::from(NOBODY) {
            places[range] = taken.len() as u8;
            taken.push(tally.counts.each_ref().map(|counts| Vec::with_capacity(counts[range] as usize)));
        }
    }
    if !taken.is_empty() {
        segments.scan(&mut |part| {
            for segment in part {
                for (side, end) in segment.iter().enumerate() {
                    let place = places[ruler.range_of(*end)];
                    if place != NOBODY {
                        taken[usize::from(place)][side].push(*end);
                    }
                }
            }
        })?;
    }
    let of = |range: &usize| taken.get(usize::from(places[*range])).cloned();
    Ok(ranges.iter().map(of).collect())
}

/// Returns the range in which the time reaches `target`, and what is below it.
fn crossing(tally: &Tally, ruler: Ruler, mut below: Below, target: f64) -> (usize, Below) {
    let [from, to] = &tally.counts;
    let mut last = (0, below);
    for range in 0..RANGES {
        let next = Below {
            from: below.from + i128::from(from[range]),
            from_sum: below.from_sum + tally.sums[0][range],
            to: below.to + i128::from(to[range]),
            to_sum: below.to_sum + tally.sums[1][range],
        };
        if from[range] + to[range] > 0 {
            last = (range, below);
        }
        if next.time(ruler.begin(range + 1)) as f64 >= target {
            return (range, below);
        }
        below = next;
    }
    last
}

/// Makes further passes over a range with too many values.
fn narrowed(
    segments: &(impl Segments + ?Sized),
    ruler: Ruler,
    (range, below): (usize, Below),
    target: f64,
) -> Result<f64> {
    let (mut ruler, mut range, mut below) = (ruler, range, below);
    loop {
        let last = ruler.begin(range + 1);
        let finer = ruler.within(range);
        let tally = Tally::of(segments, finer, last)?;
        if ruler.shift == 0 {
            // All values are equal here: above, time grows with the segments that cover it there.
            let x = ruler.begin(range);
            let [a, b] = tally.counts.map(|counts| i128::from(counts.iter().sum::<u64>()));
            return Ok(ahead(x, below.time(x), below.from + a - below.to - b, target));
        }
        let (next, next_below) = crossing(&tally, finer, below, target);
        (ruler, range, below) = (finer, next, next_below);
        if tally.has_few(range) {
            let (begin, end) = (ruler.begin(range), ruler.begin(range + 1).min(last));
            let mut taken = [Vec::new(), Vec::new()];
            segments.scan(&mut |part| {
                for (side, taken) in taken.iter_mut().enumerate() {
                    let ends = part.iter().map(|segment| segment[side]);
                    taken.extend(ends.filter(|value| (begin..end).contains(&i128::from(*value))));
                }
            })?;
            let [from, to] = taken;
            return Ok(walk(from, to, begin, below, target));
        }
    }
}

/// Returns the age at which the time reaches `target`, from age `x` at time `time` with slope `covering`.
fn ahead(x: i128, time: i128, covering: i128, target: f64) -> f64 {
    if covering > 0 { x as f64 + (target - time as f64) / covering as f64 } else { x as f64 }
}

/// Proceeds from edge to edge until the time reaches `target`.
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
    use crate::quantile::tests::spread;
    use crate::stats::quantile_of_sorted;
    use proptest::prelude::*;

    /// Computes the same by sorting everything.
    fn over_time_by_sorting(segments: &[Segment], q: f64) -> f64 {
        let [from, to] = [0, 1].map(|side| segments.iter().map(|segment| segment[side]).collect::<Vec<_>>());
        let sum = |ends: &[i64]| ends.iter().map(|end| i128::from(*end)).sum::<i128>();
        let (window, least) = (sum(&to) - sum(&from), *from.iter().min().unwrap());
        walk(from, to, i128::from(least), Below::default(), q * window as f64)
    }

    fn peak_by_sorting(segments: &[Segment], q: f64) -> Option<i64> {
        let (_, peaks) = segments.split_last()?;
        let mut peaks: Vec<i64> = peaks.iter().map(|segment| segment[1]).collect();
        peaks.sort_unstable();
        quantile_of_sorted(&peaks, q)
    }

    fn agrees(segments: &[Segment]) {
        let q = [0.1, 0.5, 0.9, 0.99];
        for peak_q in [0.0, 0.5, 0.99, 1.0] {
            let found = quantiles(segments, &q, peak_q).unwrap();
            assert_eq!(found.peak, peak_by_sorting(segments, peak_q), "{peak_q}");
            let Some(over_time) = found.over_time else {
                assert!(segments.iter().all(|[from, to]| from == to));
                continue;
            };
            for (found, q) in over_time.into_iter().zip(q) {
                let plain = over_time_by_sorting(segments, q);
                assert!((found - plain).abs() <= 1e-9 * plain.abs().max(1.0), "{found} {plain}");
            }
        }
    }

    proptest! {
        #[test]
        fn all_are_those_of_sorting(begins in spread(), lengths in prop::collection::vec(0i64..1 << 30, 5000)) {
            let segments: Vec<Segment> = begins.iter().zip(&lengths).map(|(from, length)| [*from, from + length]).collect();
            agrees(&segments);
        }
    }

    #[test]
    fn many_numbers_of_few_values_are_narrowed_down() {
        // More values than are ever sorted, in one range of the first pass; the last end is the largest but not a peak.
        let mut segments: Vec<Segment> = (0..200_000).map(|i| [1_000_000 + i % 7, 1_000_040 + i % 7 + i % 3]).collect();
        agrees(&segments);
        segments.push([1 << 60, (1 << 60) + 40]);
        agrees(&segments);
        segments.push([5, 1_000_041]);
        agrees(&segments);
        let nothing = AgeQuantiles { over_time: None, peak: None };
        assert_eq!(quantiles(&[] as &[Segment], &[0.5], 0.5).unwrap(), nothing);
        assert_eq!(quantiles(&[[3, 3]][..], &[0.5], 0.5).unwrap(), nothing);
    }
}
