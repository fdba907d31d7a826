use std::sync::LazyLock;

use proptest::prelude::*;

use super::integer::{Integer, Overflow, Rounding, negotiated};
use super::precision::{Precision, of_sum};
use super::*;

static TABLES: LazyLock<Tables> = LazyLock::new(Tables::new);
static WIDE: LazyLock<Seven> = LazyLock::new(|| Seven::new(TableScale::WIDE));

/// Both ways and both orders give the same bits; returns them as a number.
fn add(x: f32, y: f32) -> f32 {
    let sum = TABLES.add(x, y);
    for other in [TABLES.add(y, x), TABLES.add_by_seven(x, y), TABLES.add_by_seven(y, x)] {
        assert_eq!(sum.to_bits(), other.to_bits(), "{x} + {y}: {sum} {other}");
    }
    sum
}

fn power(exponent: i32) -> f32 {
    (exponent as f32).exp2()
}

#[test]
fn seven_tables_of_the_published_size() {
    // §3.5: 408.5 KB, from the widths of keys and entries.
    assert_eq!(TABLES.bytes(), 256 * 2 + 3 * 4096 * 2 + 3 * 65_536 * 2);
    assert_eq!(TABLES.bytes() as f64 / 1024.0, 408.5);
}

#[test]
fn merged_logarithms_are_those_of_the_five_tables_for_every_fraction() {
    for e in [EXPONENTS.start, 127, EXPONENTS.end - 1] {
        for fraction in 0..1u32 << 23 {
            let p = e << 23 | fraction;
            assert_eq!(Some(TABLES.merged.log(p)), TABLES.seven.log(p), "{p:#x}");
        }
    }
    for e in 0..256u32 {
        assert_eq!(TABLES.seven.log(e << 23).is_some(), EXPONENTS.contains(&e), "{e}");
    }
}

#[test]
fn merged_tables_are_the_seven_for_every_key() {
    for k in 0..MI_HALF as i32 {
        assert_eq!(TABLES.merged.mi[k as usize], TABLES.seven.mi[place(-k)]);
        assert_eq!(TABLES.merged.mi[MI_HALF + k as usize], TABLES.seven.mi[place(k + 1)]);
    }
    // Beyond that both miss.
    assert_eq!(TABLES.merged.mi[MI_HALF - 1], MISS);
    assert_eq!(TABLES.merged.mi[2 * MI_HALF - 1], MISS);
    assert!((MI_HALF as i32..65_536).all(|k| TABLES.seven.mi[place(-k)] == MISS));
    assert!((MI_HALF as i32..65_536).all(|k| TABLES.seven.mi[place(k + 1)] == MISS));
}

#[test]
fn logarithms_are_right_to_a_step_and_a_half() {
    for fraction in (0..1u32 << 23).step_by(97) {
        let p = 127 << 23 | fraction;
        let exact = 1000.0 * f64::from(f32::from_bits(p)).log2();
        let ours = f64::from(TABLES.merged.log(p));
        assert!((ours - exact).abs() <= 1.01, "{p:#x}: {ours} {exact}");
    }
}

#[test]
fn every_entry_of_the_final_table_is_the_nearest_of_its_width() {
    for key in EXP_KEYS {
        let value = (f64::from(key) / 1000.0).exp2();
        let ours = f64::from(made(TABLES.seven.exp_t[place(key)], 0, TableScale::FINE));
        // Half of the last of ten bits, and the rounding of f32 before it.
        assert!((ours - value).abs() <= value * (0.5 / 1024.0) * 1.001, "{key}: {ours} {value}");
    }
    assert_eq!(made(TABLES.seven.exp_t[place(-32_000)], 0, TableScale::FINE), power(-32));
    assert_eq!(made(TABLES.seven.exp_t[place(17_000)], SIGN, TableScale::FINE), -power(17));
    assert!((-HALF..-32_000).all(|key| TABLES.seven.exp_t[place(key)] == 0));
    assert!((17_001..HALF).all(|key| TABLES.seven.exp_t[place(key)] == MISS_EXP));
}

#[test]
fn the_wide_scale_reaches_from_the_smallest_number_to_2_to_the_66() {
    for (x, y, sum) in [(-125, -125, -124), (-100, -100, -99), (0, 0, 1), (65, 65, 66), (66, 66, 66), (0, -90, 0)] {
        let (sum, ours) = (power(sum), WIDE.add(power(x), power(y)));
        assert!((ours - sum).abs() <= sum * 0.004, "2^{x} + 2^{y}: {ours} {sum}");
    }
    assert_eq!(WIDE.bytes(), TABLES.bytes(), "the tables are as large");
    // 127 octaves of 256 steps, below 1: the 30,000 entries of §5.5 are as many to 8 %.
    assert_eq!(127 * TableScale::WIDE.steps, 32_512);
}

#[test]
fn zeros_and_what_is_too_small() {
    for x in [1.0f32, -1.0, 0.3, power(-32), 1e5, power(40), f32::MAX, 1e-40, f32::MIN_POSITIVE] {
        for nothing in [0.0, -0.0, 1e-45, -1e-39, power(-33)] {
            if x.abs() > nothing.abs() {
                assert_eq!(add(x, nothing), x, "{x} {nothing}");
            }
        }
        assert_eq!(add(x, -x).to_bits(), 0, "{x}");
    }
    for (x, y, bits) in [(0.0f32, 0.0f32, 0), (0.0, -0.0, 0), (-0.0, -0.0, SIGN)] {
        assert_eq!(add(x, y).to_bits(), bits);
    }
    // Both below 2⁻³²: the larger.
    assert_eq!(add(power(-33), power(-34)), power(-33));
    assert_eq!(add(power(-140), power(-140)), power(-140));
    // A difference below 2⁻³² is none.
    assert_eq!(add(power(-32) * 1.25, -power(-32)).to_bits(), 0);
    assert_eq!(add(power(-31), -power(-32)), power(-32));
    assert_eq!(add(power(-32), power(-32)), power(-31));
}

#[test]
fn sums_beyond_the_keys_and_numbers_that_are_none() {
    assert_eq!(add(power(16), power(16)), power(17));
    assert_eq!(add(power(17), power(17)), power(17));
    assert_eq!(add(-power(20), -power(20)), -power(20));
    assert_eq!(add(power(20), -power(19)), power(20));
    assert_eq!(add(power(17) * 1.5, -power(17)), power(16));
    assert_eq!(add(f32::MAX, f32::MAX), f32::MAX);
    // Out of reach of each other: from 15 octaves on.
    assert_eq!(add(1.0, power(-16)), 1.0);
    assert_eq!(add(1.000_000_1, -power(-16)), 1.000_000_1);
    for x in [0.0, 1.0, -1e-40, f32::MAX, f32::NEG_INFINITY] {
        assert!(add(f32::NAN, x).is_nan());
        if x.is_finite() {
            assert_eq!(add(f32::INFINITY, x), f32::INFINITY);
            assert_eq!(add(-f32::INFINITY, x), -f32::INFINITY);
        }
    }
    assert_eq!(add(f32::INFINITY, f32::INFINITY), f32::INFINITY);
    assert!(add(f32::INFINITY, f32::NEG_INFINITY).is_nan());
    assert!(add(f32::NAN, f32::NAN).is_nan());
}

#[test]
fn every_exponent_against_every_other() {
    let fractions = [0, 1, 0x7f_ffff, 0x55_5555];
    let numbers = || (0..255u32).flat_map(move |e| fractions.map(|fraction| e << 23 | fraction));
    for x in numbers() {
        for y in numbers() {
            for sign in [0, SIGN] {
                let (x, y) = (f32::from_bits(x), f32::from_bits(y | sign));
                let sum = add(x, y);
                assert_eq!(f64::from(sum), reference::add(x, y, TableScale::FINE), "{x} + {y}");
                assert_eq!(-sum, TABLES.add(-x, -y), "{x} + {y}");
                assert_eq!(f64::from(WIDE.add(x, y)), reference::add(x, y, TableScale::WIDE), "{x} + {y}, wide");
            }
        }
    }
}

#[test]
fn floats_as_integers() {
    let integer = |scale, overflow| Integer { scale, rounding: Rounding::Nearest, overflow };
    assert_eq!(integer(10.0, Overflow::Saturate).add(0.26, 0.34), 0.6);
    assert_eq!(integer(10.0, Overflow::Saturate).add(0.04, -0.04), 0.0);
    let truncating = Integer { rounding: Rounding::Truncate, ..integer(10.0, Overflow::Saturate) };
    assert_eq!([truncating.add(0.26, 0.34), truncating.add(-0.26, 0.0)], [0.5, -0.2]);
    let large = 2f32.powi(30);
    assert_eq!(integer(1.0, Overflow::Wrap).add(large, large), -2.0 * large);
    assert_eq!(integer(1.0, Overflow::Saturate).add(large, large), 2.0 * large);
    let scale = negotiated(&[0.3, -0.9, 0.1], 2);
    assert_eq!(scale, 2f32.powi(30));
    assert!((integer(scale, Overflow::Wrap).add(-0.9, -0.9) + 1.8).abs() < 1e-6);
}

#[test]
fn precision_by_hand() {
    assert_eq!(of_sum(1.5, 1.0), Some(0.5));
    assert_eq!(of_sum(-1.0, 1.0), Some(-1.0));
    assert_eq!(of_sum(1.0, 0.0), None);
    let pairs = [(1.0, 1.0), (2.0, 2.0), (1.0, -1.0), (4.0, 0.0), (1.0, 0.0)];
    // Sums of 2, 4, none, 4 and 1, answered with 4: precisions 0, 1, 1 and −2.
    let precision = Precision::of(pairs.into_iter(), |_, _| 4.0);
    assert_eq!(precision.without, 1);
    assert_eq!((precision.median(), precision.mean(), precision.mean_clamped()), (0.5, 0.0, 0.5));
    // Of the middle two, 0 and 1: the mean of 1/e and 1, not exp of their mean.
    assert_eq!(precision.median_exp(), ((-1f64).exp() + 1.0) / 2.0);
    // By nearest rank: the least one is that of the first quarter.
    assert_eq!([0.0, 0.25, 0.26, 0.5, 0.51, 1.0].map(|q| precision.quantile(q)), [-2.0, -2.0, 0.0, 0.0, 1.0, 1.0]);
    let none = Precision::default();
    let all = [none.median(), none.median_exp(), none.mean(), none.quantile(0.01)];
    assert!(all.iter().all(|value| value.is_nan()), "{all:?}");
}

proptest! {
    #[test]
    fn any_bits_add_as_defined(x: u32, y: u32) {
        let (x, y) = (f32::from_bits(x), f32::from_bits(y));
        if x.is_finite() && y.is_finite() {
            prop_assert_eq!(f64::from(add(x, y)), reference::add(x, y, TableScale::FINE));
            prop_assert_eq!(f64::from(WIDE.add(x, y)), reference::add(x, y, TableScale::WIDE));
        } else {
            let (ours, exact) = (TABLES.add(x, y), x + y);
            prop_assert!(ours == exact || ours.is_nan() && exact.is_nan(), "{} {} {}", x, y, ours);
        }
    }

    #[test]
    fn near_numbers_add_as_defined(x in -8.0f32..8.0, octaves in -17.0f32..17.0, negative: bool) {
        let y = x * octaves.exp2() * if negative { -1.0 } else { 1.0 };
        prop_assert_eq!(f64::from(add(x, y)), reference::add(x, y, TableScale::FINE));
    }

    #[test]
    fn sums_of_equal_signs_are_near_the_exact(x in 1e-9f32..6e4, y in 1e-9f32..6e4) {
        let (ours, exact) = (f64::from(add(x, y)), f64::from(x) + f64::from(y));
        // Logarithms to 1.01 steps each, z to the sum of them but weighed by the smaller, log2(1 + 2^z) to half a step,
        // the entry to half of 2⁻¹⁰: the worst is below 0.2 %.
        prop_assert!((ours - exact).abs() <= exact * 0.002, "{x} + {y}: {ours} {exact}");
        prop_assert_eq!(TABLES.add(-x, -y), -TABLES.add(x, y));
    }

    #[test]
    fn differences_are_off_by_little_of_the_operands(x in 1e-6f32..6e4, y in 1e-6f32..6e4) {
        let (ours, exact) = (f64::from(add(x, -y)), f64::from(x) - f64::from(y));
        prop_assert!((ours - exact).abs() <= f64::from(x.max(y)) * 0.003, "{x} - {y}: {ours} {exact}");
    }

    #[test]
    fn integers_are_off_by_a_unit(x in -1.0f32..1.0, y in -1.0f32..1.0) {
        let scale = negotiated(&[1.0 - f32::EPSILON], 2);
        let integer = Integer { scale, rounding: Rounding::Nearest, overflow: Overflow::Wrap };
        let exact = f64::from(x) + f64::from(y);
        // Half a unit each and the rounding of f32.
        let bound = 1.0 / f64::from(integer.scale) + exact.abs() * f64::from(f32::EPSILON);
        prop_assert!((f64::from(integer.add(x, y)) - exact).abs() <= bound);
    }
}
