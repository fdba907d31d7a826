//! Ranks of quantiles. The quantile `q` of n values by nearest rank is the value with rank ⌈q·n⌉, counted from 1.

/// The least that suffices: it leads to the f64 before that of q, which is less than q as a decimal or quotient, so that the product with n
/// does not exceed q·n where that is a whole number, even after rounding.
const ROUNDING: f64 = f64::EPSILON / 2.0;

/// Returns `q` reduced to less than its decimal, which rounding exceeds: 0.035·400 is 14, but 14.000000000000002 in f64.
pub fn reduced(q: f64) -> f64 {
    q * (1.0 - ROUNDING)
}

/// Returns the rank, from 1, of quantile `q` of `n` values; 1 without values. Exact for `q` as a decimal with d digits (0.035) or as a
/// quotient by 10ᵈ or less, as long as n·10ᵈ is at most 2⁵¹; beyond, it may be one too low.
pub fn nearest_rank(q: f64, n: usize) -> usize {
    ((reduced(q) * n as f64).ceil() as usize).clamp(1, n.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_integers() {
        for parts in [1usize, 2, 3, 7, 10, 100, 200, 1000, 10_000] {
            for part in 0..=parts {
                let many = [999_999usize, 1_000_000, 123_456_000, 1_000_000_000];
                for n in (1..=60usize).chain([100, 400, 675, 900]).chain(many) {
                    let rank = (part * n).div_ceil(parts).max(1);
                    assert_eq!(nearest_rank(part as f64 / parts as f64, n), rank, "{part}/{parts} of {n}");
                }
            }
        }
        assert_eq!([nearest_rank(0.035, 400), nearest_rank(0.0351, 400), nearest_rank(0.28, 25)], [14, 15, 7]);
        // Above whole numbers by 5·10⁻¹⁶ to 9·10⁻¹⁶ of them: 6.000000000000003, 9.000000000000009, 133.000000000000133.
        let above = [(0.666_666_666_666_667, 9), (0.818_181_818_181_819, 11), (0.208_791_208_791_209, 637)];
        assert_eq!(above.map(|(q, n)| nearest_rank(q, n)), [7, 10, 134]);
        // Without values, and at and beyond the ends.
        assert_eq!([(0.5, 0), (0.0, 9), (1.0, 9), (2.0, 9)].map(|(q, n)| nearest_rank(q, n)), [1, 1, 9, 9]);
    }
}
