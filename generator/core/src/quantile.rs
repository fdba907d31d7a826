//! Ranks of quantiles. The quantile `q` of n values by nearest rank is the value with rank ⌈q·n⌉, counted from 1.

/// Exceeds the relative error of q·n: half of ε each for q as a decimal, for its reduction and for the product.
const ROUNDING: f64 = 4.0 * f64::EPSILON;

/// Returns `q` reduced by more than rounding raises a product with it: 0.035·400 is 14, but 14.000000000000002 in f64.
pub fn reduced(q: f64) -> f64 {
    q * (1.0 - ROUNDING)
}

/// Returns the rank, from 1, of quantile `q` of `n` values; 1 without values. Exact for `q` as a decimal (0.035), or as a quotient.
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
        // Without values, and at and beyond the ends.
        assert_eq!([(0.5, 0), (0.0, 9), (1.0, 9), (2.0, 9)].map(|(q, n)| nearest_rank(q, n)), [1, 1, 9, 9]);
    }
}
