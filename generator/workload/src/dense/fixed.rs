//! Gradients as whole numbers: switches add integers, so hosts scale, round, and divide afterwards.
//!
//! Trio §4, "Trio-ML packet format": 32-bit integers converted by scaling as in ATP, whose factor is constant
//! ([`ATP_SCALE`]). SwitchML agrees on a factor per packet from the largest exponent of all workers ([`exponent_of`],
//! [`scale_of`]). Both then do the same: a gradient `x` becomes the whole number nearest to the f32 product `x · scale`,
//! ties to the even one, as hosts round by default; what leaves 32 bits becomes the nearest limit, what is not a number
//! becomes 0, and both count as clipped.
//!
//! Rounding is on the path of every packet, and the baseline instructions of x86-64 have none: `f32::round_ties_even`
//! is a call there, and a saturating conversion is element by element. So a block whose largest product is below 2³¹,
//! which is nearly every block, is rounded by additions that the compiler turns into vectors (see [`whole`]).
//! Called by `dense/content.rs` and by endpoints that have sums to turn back.

/// The factor of ATP: gradients in millionths.
pub const ATP_SCALE: f32 = 1e6;

/// 2³¹: products below it in magnitude need no care.
const LIMIT: f32 = 2_147_483_648.0;
/// Added to a number below 2²² in magnitude, it leaves the nearest whole number in the low bits.
const ONES: f32 = 12_582_912.0;
/// The same for multiples of 2¹⁶ and numbers below 2³⁸. The part that is taken away makes up for the bits of [`ONES`]
/// itself, so that nothing is left to be corrected after both are added.
const HALVES: f32 = (ONES - 0x4b40 as f32) * 65_536.0;

/// The whole number nearest to `y`, ties to even, for `|y| < 2³¹`.
///
/// Every step but the last is exact: `y + HALVES` has a last place of 2¹⁶, so it holds the nearest multiple of 2¹⁶;
/// what is left of `y` is within ±2¹⁵ on the grid of `y`, and adding it to `ONES`, with a last place of 1, rounds it.
/// Since the multiple is even, the parity of the sum is that of the rest.
#[inline(always)]
fn whole(y: f32) -> i32 {
    let high = y + HALVES;
    let low = y - (high - HALVES) + ONES;
    (high.to_bits() << 16).wrapping_add(low.to_bits()) as i32
}

/// The whole number for any `y`, and whether it is clipped.
#[inline]
fn clipped(y: f32) -> (i32, bool) {
    if y.abs() < LIMIT {
        (whole(y), false)
    } else {
        // The lower limit itself is a number of 32 bits.
        (y as i32, y != -LIMIT)
    }
}

/// Gradients `number · factor`, of magnitudes up to `peak`, to be scaled.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block<'a> {
    pub(super) numbers: &'a [f32],
    pub(super) factor: f32,
    /// At least the magnitude of every number: products are monotone, so one tells whether any can be clipped.
    pub(super) peak: f32,
}

impl Block<'_> {
    /// Returns whether no element can leave 32 bits.
    #[inline]
    fn fits(&self, scale: f32) -> bool {
        self.peak * self.factor * scale.abs() < LIMIT
    }

    /// Whole numbers of as many elements as `out` has room for; returns how many are clipped.
    #[inline]
    pub(super) fn write(&self, scale: f32, out: &mut [i32]) -> u32 {
        let numbers = out.iter_mut().zip(self.numbers);
        if self.fits(scale) {
            numbers.for_each(|(to, number)| *to = whole(number * self.factor * scale));
            return 0;
        }
        numbers.map(|(to, number)| clip(number * self.factor * scale, |n| *to = n)).sum()
    }

    /// The same as bytes in network order.
    #[inline]
    pub(super) fn write_be(&self, scale: f32, out: &mut [u8]) -> u32 {
        let out = out.as_chunks_mut::<4>().0;
        let elements = out.len().min(self.numbers.len());
        let numbers = out[..elements].iter_mut().zip(self.numbers);
        if self.fits(scale) {
            numbers.for_each(|(to, number)| *to = whole(number * self.factor * scale).to_le_bytes());
            // In a second pass, while it is in the first cache: two short loops make better vectors than a long one.
            out[..elements].iter_mut().for_each(|bytes| *bytes = i32::from_le_bytes(*bytes).to_be_bytes());
            return 0;
        }
        numbers.map(|(to, number)| clip(number * self.factor * scale, |n| *to = n.to_be_bytes())).sum()
    }
}

/// Stores the whole number for `y`; 1 if it is clipped.
#[inline]
fn clip(y: f32, store: impl FnOnce(i32)) -> u32 {
    let (number, is_clipped) = clipped(y);
    store(number);
    is_clipped.into()
}

/// Scales and rounds `values` into `out`, as many as both have; returns how many are clipped.
pub(crate) fn quantise(values: &[f32], scale: f32, out: &mut [i32]) -> u32 {
    Block { numbers: values, factor: 1.0, peak: peak(values) }.write(scale, out)
}

/// Largest magnitude; what is not a number is larger than all, 0 if there is nothing.
pub(super) fn peak(values: &[f32]) -> f32 {
    f32::from_bits(values.iter().fold(0, |most, value| most.max(value.to_bits() & 0x7fff_ffff)))
}

/// SwitchML's exponent of a packet: the smallest `e` with every `|x| < 2^e`, from −126 (also for zeros alone).
///
/// One byte on the wire, so it ends at 127: larger gradients, infinities and what is not a number are clipped.
pub(crate) fn exponent_of(values: &[f32]) -> i8 {
    exponent_of_peak(peak(values))
}

/// The exponent of a packet whose largest magnitude this is.
#[inline]
pub(super) fn exponent_of_peak(peak: f32) -> i8 {
    let biased = (peak.to_bits() >> 23 & 0xff) as i32;
    (biased - 126).min(127) as i8
}

/// SwitchML's factor: with `exponent` the largest of all `workers`, `(2³¹ − 1) / (workers · 2^exponent)`.
///
/// Hosts multiply in f32, so the factor is an f32 and both directions use the same one; where that ends, at exponents
/// below about −97, it is the largest. The sum of up to 255 workers then stays within 32 bits. Without workers: as
/// with one.
pub fn scale_of(exponent: i8, workers: u32) -> f64 {
    let scale = f64::from(i32::MAX) / (f64::from(workers.max(1)) * f64::from(exponent).exp2());
    f64::from(scale.min(f64::from(f32::MAX)) as f32)
}

/// The mean gradient that a sum of `sources` workers stands for (Trio §5: a partial result is divided by the sources
/// that it has). Without sources: as with one.
#[inline]
pub fn average(sum: i32, scale: f64, sources: u32) -> f32 {
    (f64::from(sum) / (scale * f64::from(sources.max(1)))) as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition, with numbers that hold everything exactly.
    fn naive(x: f32, scale: f32) -> (i32, bool) {
        let y = f64::from(x * scale);
        if y.is_nan() {
            return (0, true);
        }
        let below = y.floor();
        let rest = y - below;
        let up = rest > 0.5 || (rest == 0.5 && below % 2.0 != 0.0);
        let number = (if up { below + 1.0 } else { below }).clamp(-1e18, 1e18) as i64;
        let kept = number.clamp(i32::MIN.into(), i32::MAX.into());
        (kept as i32, kept != number)
    }

    fn agree(values: &[f32], scale: f32) {
        let expected: Vec<_> = values.iter().map(|x| naive(*x, scale)).collect();
        let mut out = vec![7; values.len()];
        let count = quantise(values, scale, &mut out);
        assert_eq!(out, expected.iter().map(|e| e.0).collect::<Vec<_>>(), "{values:?} · {scale}");
        assert_eq!(count as usize, expected.iter().filter(|e| e.1).count());
        let mut bytes = vec![7; values.len() * 4 + 3];
        let block = Block { numbers: values, factor: 1.0, peak: peak(values) };
        assert_eq!(block.write_be(scale, &mut bytes), count);
        assert_eq!(bytes[..values.len() * 4], out.iter().flat_map(|n| n.to_be_bytes()).collect::<Vec<_>>());
        assert_eq!(bytes[values.len() * 4..], [7; 3]);
    }

    #[test]
    fn halves_limits_and_what_is_no_number() {
        let below = f32::from_bits(LIMIT.to_bits() - 1);
        let values = [
            0.0,
            -0.0,
            0.5,
            1.5,
            2.5,
            -0.5,
            -1.5,
            -2.5,
            0.499_999_97,
            32_767.5,
            32_768.0,
            32_768.5,
            -32_768.5,
            65_535.5,
            65_536.5,
            -65_535.5,
            98_304.0,
            -98_304.0,
            4_194_303.5,
            8_388_607.5,
            8_388_609.0,
            16_777_215.0,
            below,
            -below,
        ];
        agree(&values, 1.0);
        // Each alone and beside something that makes the whole block careful.
        for y in [LIMIT, -LIMIT, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, f32::MIN, -2_147_484_000.0] {
            agree(&[y], 1.0);
            agree(&[&values[..], &[y]].concat(), 1.0);
        }
        for scale in [0.0, -1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, f32::MIN_POSITIVE, 1e-45] {
            agree(&values, scale);
        }
        agree(&[], 1.0);
    }

    #[test]
    fn every_whole_and_half_near_a_carry_between_the_halves() {
        let near = (-40i32..40).flat_map(|h| (-9i32..9).map(move |l| (h * 32_768) as f32 + l as f32 / 4.0));
        agree(&near.collect::<Vec<_>>(), 1.0);
    }

    #[test]
    fn exponents_by_hand() {
        for (values, exponent) in [
            (&[][..], -126),
            (&[0.0], -126),
            (&[1.0], 1),
            (&[-0.999], 0),
            (&[0.5, -0.25], 0),
            (&[0.499], -1),
            (&[3.0, -4.0], 3),
            (&[f32::MIN_POSITIVE], -125),
            (&[1e-45], -126),
            (&[f32::MAX], 127),
            (&[f32::NAN, 1.0], 127),
            (&[f32::NEG_INFINITY], 127),
        ] {
            assert_eq!(exponent_of(values), exponent, "{values:?}");
        }
        assert_eq!(scale_of(0, 1), 2_147_483_648.0);
        assert_eq!(scale_of(3, 2), 134_217_728.0);
        assert_eq!(scale_of(-126, 1), f64::from(f32::MAX));
        assert_eq!(average(-30, 10.0, 3), -1.0);
        assert_eq!(average(30, 10.0, 0), 3.0);
    }

    #[test]
    fn sums_of_all_workers_stay_within_32_bits() {
        for workers in 1..=255u32 {
            for exponent in [-90i8, -11, 0, 1, 100] {
                // The largest f32 below the power of two.
                let largest = f32::from_bits(f32::from(exponent).exp2().to_bits() - 1);
                let scale = scale_of(exponent, workers) as f32;
                for sign in [1.0, -1.0] {
                    let mut out = [0];
                    assert_eq!(quantise(&[largest * sign], scale, &mut out), 0);
                    let sum = i64::from(out[0]) * i64::from(workers);
                    assert!(i32::try_from(sum).is_ok(), "{workers} workers, exponent {exponent}: {sum}");
                    assert!(sum.abs() > 2_147_000_000, "nor is room wasted: {sum}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn any_bits_round_as_defined(bits in prop::collection::vec(any::<u32>(), 0..40), scale: u32) {
            agree(&bits.into_iter().map(f32::from_bits).collect::<Vec<_>>(), f32::from_bits(scale));
        }

        #[test]
        fn numbers_around_every_magnitude_round_as_defined(
            parts in prop::collection::vec((any::<i32>(), 0u32..32), 1..40),
            scale in prop::sample::select(vec![1.0f32, 0.5, 1e6, 0.1, -3.0]),
        ) {
            // Whole numbers and their fractions by powers of two: many ties.
            let values: Vec<_> = parts.iter().map(|(n, shift)| *n as f32 / (1u64 << shift) as f32).collect();
            agree(&values, scale);
        }

        #[test]
        fn what_comes_back_is_near(
            values in prop::collection::vec(-8.0f32..8.0, 1..9),
            atp: bool,
        ) {
            // One gradient of each of several workers.
            let workers = values.len() as u32;
            let scale = if atp { f64::from(ATP_SCALE) } else { scale_of(exponent_of(&values), workers) };
            let mut out = vec![0; values.len()];
            prop_assert_eq!(quantise(&values, scale as f32, &mut out), 0);
            let sum = out.iter().try_fold(0i32, |sum, n| sum.checked_add(*n)).expect("within 32 bits");
            let back = f64::from(average(sum, scale, workers));
            let exact = values.iter().map(|x| f64::from(*x)).sum::<f64>() / f64::from(workers);
            let magnitude = values.iter().map(|x| f64::from(x.abs())).sum::<f64>() / f64::from(workers);
            // Half a unit of rounding each, the f32 product of each, and the f32 of the result.
            let bound = 0.5 / scale + (magnitude + back.abs()) * f64::from(f32::EPSILON) / 2.0;
            prop_assert!((back - exact).abs() <= bound * 1.000_001, "{back} {exact} {bound}");
        }
    }
}
