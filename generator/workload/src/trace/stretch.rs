//! Scaling the times of a trace in exact integer arithmetic; replaying and `trace scale` do.

use crate::time::{HORIZON, SECOND, Time};
use crate::units::{Decimal, Rate};

/// Moves times so that they start at 0 and multiplies them by a ratio of integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stretch {
    first: Time,
    numerator: u128,
    denominator: u128,
}

impl Stretch {
    /// Times from `first` on, not scaled.
    pub(crate) fn none(first: Time) -> Self {
        Stretch { first, numerator: 1, denominator: 1 }
    }

    /// Times from `first` to `last` such that `bits` in that span have the mean rate `rate`, which is above 0. All
    /// at once stay all at once.
    pub(crate) fn offered(first: Time, last: Time, bits: u128, rate: Rate) -> Self {
        if last <= first {
            return Stretch::none(first);
        }
        // Traces have below 2⁶⁴ updates of below 2¹⁷ bits; a product beyond 128 bits would be beyond time anyway.
        let wanted = bits.saturating_mul(SECOND as u128) / u128::from(rate.bps().max(1));
        Stretch::span(first, last.abs_diff(first).into(), wanted)
    }

    /// Times from `first` on such that a span of `since`, which is above 0, becomes one of `wanted`.
    pub(crate) fn span(first: Time, since: u128, wanted: u128) -> Self {
        Stretch { first, numerator: wanted, denominator: since }
    }

    /// Times from `first` on, divided by `speed`, which is from 10⁻⁹ to 10⁹.
    pub(crate) fn speed(first: Time, speed: Decimal) -> Self {
        let (digits, scale) = speed.ratio();
        Stretch { first, numerator: scale, denominator: digits.max(1) }
    }

    /// Times from `first` on, multiplied by `factor`, which is from 10⁻⁹ to 10⁹.
    pub(crate) fn factor(first: Time, factor: Decimal) -> Self {
        let (digits, scale) = factor.ratio();
        Stretch { first, numerator: digits, denominator: scale }
    }

    /// The scaled time of `t`; none if it is before the first or later than time reaches.
    pub(crate) fn at(&self, t: Time) -> Option<Time> {
        let since = u128::try_from(i128::from(t) - i128::from(self.first)).ok()?;
        // Denominators are below 2⁶⁴: what overflows here is longer than 2⁶⁴ picoseconds, also beyond time.
        let scaled = since.checked_mul(self.numerator)? / self.denominator;
        Time::try_from(scaled).ok().filter(|t| *t <= HORIZON)
    }

    /// The scaled time as a float, for messages about times that are out of range.
    pub(crate) fn about(&self, t: Time) -> f64 {
        (t as f64 - self.first as f64) * self.numerator as f64 / self.denominator as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_bigint::BigUint;
    use proptest::prelude::*;

    fn speed(first: Time, text: &str) -> Stretch {
        Stretch::speed(first, text.parse().unwrap())
    }

    #[test]
    fn speeds_are_the_decimal_numbers_that_they_say() {
        assert_eq!(speed(5, "0.1").at(6), Some(10));
        assert_eq!(speed(0, "2.0").at(7), Some(3));
        assert_eq!(speed(0, "1e-9").at(3), Some(3_000_000_000));
        assert_eq!(speed(0, "1e9").at(3_000_000_000), Some(3));
        assert_eq!(speed(0, "0.3").at(HORIZON / 4), Some((i128::from(HORIZON / 4) * 10 / 3) as Time));
        assert_eq!(speed(0, "0.1").at(HORIZON / 2), None);
        assert_eq!(Stretch::none(4).at(3), None);
    }

    #[test]
    fn long_traces_keep_every_picosecond() {
        // 2³² parts of one, as a fixed-point factor has, would be off by minutes here.
        let (first, last) = (17, HORIZON);
        let bits = 1_000_000_007u128 * 2048;
        let rate = Rate::from_bps(7_000_000);
        let stretch = Stretch::offered(first, last, bits, rate);
        assert_eq!(stretch.at(first), Some(0));
        assert_eq!(stretch.at(last), Some((bits * SECOND as u128 / 7_000_000) as Time));
        assert_eq!(Stretch::offered(5, 5, bits, rate).at(5), Some(0));
    }

    /// `since · numerator / denominator` rounded down, by numbers without an end; none beyond the range of a run.
    fn oracle(since: u64, numerator: BigUint, denominator: BigUint) -> Option<Time> {
        let time = Time::try_from(BigUint::from(since) * numerator / denominator).ok()?;
        (time <= HORIZON).then_some(time)
    }

    proptest! {
        #[test]
        fn ratios_agree_with_numbers_without_an_end(
            first in 0..HORIZON, since in 0u64..=HORIZON as u64, bits in 0u32..62, speed_digits in 1u64..1_000_000_000_000_000_000,
            places in 0u32..27, span in 1u64..=u64::MAX / 2, wanted: u128,
        ) {
            let since = since >> bits;
            let t = first.saturating_add(since as Time);
            let speed: Decimal = format!("{speed_digits}e-{places}").parse().unwrap();
            if speed.is_within(9, 9) {
                let wanted = oracle(since, BigUint::from(10u32).pow(places), BigUint::from(speed_digits));
                prop_assert_eq!(Stretch::speed(first, speed).at(t), wanted);
            }
            let stretch = Stretch::span(first, span.into(), wanted >> bits);
            prop_assert_eq!(stretch.at(t), oracle(since, (wanted >> bits).into(), span.into()));
        }

        #[test]
        fn order_is_kept_and_nothing_panics(a: i64, b: i64, first: i64, factor in 1e-9f64..1e9, bits: u64, bps: u64) {
            let (low, high) = (a.min(b), a.max(b));
            for stretch in [speed(first, &factor.to_string()), Stretch::offered(first, high, bits.into(), Rate::from_bps(bps))] {
                if let (Some(low), Some(high)) = (stretch.at(low), stretch.at(high)) {
                    prop_assert!(0 <= low && low <= high && high <= HORIZON);
                }
            }
        }
    }
}
