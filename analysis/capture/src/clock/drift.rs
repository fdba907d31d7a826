//! The offsets that a steady drift of the clocks may have given.
//!
//! Called by [`super::Differences::widened`]. Where stamps are coarse, or delays vary, the bounds of the parts of a recording move by chance, which hides a
//! drift that moves both alike. Every straight line of time that is below all upper bounds and above all lower ones may be the offset.

use super::PARTS;

/// A time, and a bound of the offset at that time.
type Bound = (i128, i128);

/// Error of the arithmetic, in ps.
const ROUNDING: f64 = 2.0;

/// Returns the smallest and the largest offset of all steady drifts that the upper bounds `up` and the lower bounds `down` permit, between the
/// first and the last time with both; `None` if they permit none. A missing bound of a part is as far from the other one as in the widest part
/// with both, or by `width`.
pub(super) fn permitted(
    up: &[Bound],
    down: &[Bound],
    part: impl Fn(i128) -> usize,
    width: i128,
) -> Option<(i128, i128)> {
    // Lower bounds are upper ones of the negative offset.
    let down: Vec<Bound> = down.iter().map(|(at, bound)| (*at, -bound)).collect();
    let (highs, lows) = (tightest(up, &part), tightest(&down, &part));
    let widths = highs.iter().zip(&lows).filter_map(|(high, low)| Some((*high)?.1 + (*low)?.1));
    let width = widths.max().unwrap_or(width);
    let (uppers, lowers) = (completed(&highs, &lows, width, up), completed(&lows, &highs, width, &down));
    let (origin, base) = *uppers.first()?;
    let plain = |bounds: &[Bound], base: i128| -> Vec<(f64, f64)> {
        bounds.iter().map(|(at, bound)| ((at - origin) as f64, (bound - base) as f64)).collect()
    };
    let (uppers, lowers) = (plain(&uppers, base), plain(&lowers, -base));
    let extreme = |bounds: &[(f64, f64)], pick: fn(f64, f64) -> f64| bounds.iter().map(|(at, _)| *at).reduce(pick);
    let begin = extreme(&uppers, f64::min)?.max(extreme(&lowers, f64::min)?);
    let end = extreme(&uppers, f64::max)?.min(extreme(&lowers, f64::max)?);
    if begin >= end {
        return None;
    }
    // The extreme lines go through two bounds.
    let points: Vec<(f64, f64)> =
        uppers.iter().copied().chain(lowers.iter().map(|(at, bound)| (*at, -bound))).collect();
    let mut values: Vec<f64> = Vec::new();
    for (i, one) in points.iter().enumerate() {
        for other in points[i + 1..].iter().filter(|other| other.0 != one.0) {
            let slope = (other.1 - one.1) / (other.0 - one.0);
            let line = |at: f64| one.1 + slope * (at - one.0);
            let is_below = uppers.iter().all(|(at, bound)| line(*at) <= bound + ROUNDING);
            if is_below && lowers.iter().all(|(at, bound)| -line(*at) <= bound + ROUNDING) {
                values.extend([line(begin), line(end)]);
            }
        }
    }
    let highest = |bounds: &[(f64, f64)]| bounds.iter().map(|(_, bound)| *bound).reduce(f64::max);
    let least = values.iter().copied().reduce(f64::min)?.max(-highest(&lowers)?);
    let most = values.iter().copied().reduce(f64::max)?.min(highest(&uppers)?);
    Some((least.round() as i128 + base, most.round() as i128 + base))
}

/// Returns the least of the bounds in each part, and of equal ones the first.
fn tightest(bounds: &[Bound], part: impl Fn(i128) -> usize) -> Vec<Option<Bound>> {
    let mut parts: Vec<Option<Bound>> = vec![None; PARTS];
    for &(at, bound) in bounds {
        let own = &mut parts[part(at)];
        if own.is_none_or(|(then, least)| (bound, at) < (least, then)) {
            *own = Some((at, bound));
        }
    }
    parts
}

/// Returns the bounds of the parts, where one is missing that by the other kind, and the first and the last of all.
fn completed(own: &[Option<Bound>], other: &[Option<Bound>], width: i128, all: &[Bound]) -> Vec<Bound> {
    let by_other = |other: &Option<Bound>| other.map(|(at, bound)| (at, width - bound));
    let parts = own.iter().zip(other).filter_map(|(own, other)| own.or_else(|| by_other(other)));
    let last = all.iter().min_by_key(|(at, bound)| (-at, *bound));
    parts.chain(all.iter().min().copied()).chain(last.copied()).collect()
}
