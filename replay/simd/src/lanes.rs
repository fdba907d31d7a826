//! Eight sums by tables at once, where the processor has AVX2: the same lookups as [`Tables::add`], by instructions that
//! look up eight entries. Bit for bit the same sums; the tests compare.
//!
//! Rare cases are computed outside the registers: the sums of infinities and of what is not a number are made one by one.
#![expect(unsafe_code, reason = "asks for instructions that a processor may lack, and reads tables by them")]

use std::arch::x86_64::*;
use std::mem::transmute;

use pktgen_workload::sparse::float::{
    EXP_ROOM, EXPONENTS, INFINITY, LOW_BITS, MI_HALF, MISS, MISS_EXP, NOTHING, OFFSET, SHIFT, STEPS, Tables,
};

use super::add_each;

/// Elements of a register (`lane` in names, as in the processor's manuals).
const LANES: usize = 8;

/// Adds pairs to the sums at their indices, one after the other; what has no sum is left out. False, and nothing done, if
/// this processor cannot.
#[inline]
pub(super) fn add_all(tables: &Tables, sums: &mut [f32], pairs: &[(u32, f32)]) -> bool {
    let can = is_x86_feature_detected!("avx2");
    if can {
        // SAFETY: the processor has AVX2.
        unsafe { add_by_eight(tables, sums, pairs) }
    }
    can
}

#[target_feature(enable = "avx2")]
fn add_by_eight(tables: &Tables, sums: &mut [f32], pairs: &[(u32, f32)]) {
    let (groups, rest) = pairs.as_chunks::<LANES>();
    for group in groups {
        let (at, values) = (group.map(|pair| pair.0), group.map(|pair| pair.1));
        let Some(sum) = add_group(tables, sums, at, values) else {
            add_each(sums, group, |x, y| tables.add(x, y));
            continue;
        };
        for (index, sum) in at.into_iter().zip(sum) {
            sums[index as usize] = sum;
        }
    }
    add_each(sums, rest, |x, y| tables.add(x, y));
}

/// The sums of eight registers and values; none if some are one register, are none, or add what is no finite number.
#[target_feature(enable = "avx2")]
fn add_group(tables: &Tables, sums: &[f32], at: [u32; LANES], values: [f32; LANES]) -> Option<[f32; LANES]> {
    // SAFETY: both are 32 bytes, and any bits are such a vector.
    let (index, y) = unsafe { (transmute::<[u32; LANES], __m256i>(at), transmute::<[f32; LANES], __m256i>(values)) };
    let room = i32::try_from(sums.len()).ok()?;
    // Unsigned: an index is below the room if it is not the larger of both.
    let beyond = _mm256_cmpeq_epi32(_mm256_max_epu32(index, _mm256_set1_epi32(room)), index);
    if _mm256_movemask_epi8(_mm256_or_si256(beyond, alike(index))) != 0 {
        return None;
    }
    // SAFETY: every index is below `sums.len()`, and so not negative.
    let x = unsafe { _mm256_i32gather_epi32::<4>(sums.as_ptr().cast(), index) };
    let sum = add_lanes(tables, x, y)?;
    // SAFETY: any 32 bits are an f32.
    Some(unsafe { transmute::<__m256i, [f32; LANES]>(sum) })
}

/// Elements that equal another one: of any two, one is at most four turns from the other.
#[target_feature(enable = "avx2")]
fn alike(index: __m256i) -> __m256i {
    let turned = |by: i32| {
        let lane = |l: i32| (l + by) % LANES as i32;
        let order = _mm256_setr_epi32(lane(0), lane(1), lane(2), lane(3), lane(4), lane(5), lane(6), lane(7));
        _mm256_cmpeq_epi32(index, _mm256_permutevar8x32_epi32(index, order))
    };
    let near = _mm256_or_si256(turned(1), turned(2));
    _mm256_or_si256(near, _mm256_or_si256(turned(3), turned(4)))
}

/// [`Tables::add`] for every element; none if one has no finite number. Numbers are turned left by one bit, so that their
/// order is that of their magnitudes and the sign is the lowest bit.
#[target_feature(enable = "avx2")]
fn add_lanes(tables: &Tables, x: __m256i, y: __m256i) -> Option<__m256i> {
    let all = |n: i32| _mm256_set1_epi32(n);
    let or = |a, b| _mm256_or_si256(a, b);
    let turned = |v| or(_mm256_slli_epi32::<1>(v), _mm256_srli_epi32::<31>(v));
    let (x, y) = (turned(x), turned(y));
    let (large, small) = (_mm256_max_epu32(x, y), _mm256_min_epu32(x, y));
    let (above, below) = (_mm256_srli_epi32::<1>(large), _mm256_srli_epi32::<1>(small));
    if _mm256_movemask_epi8(_mm256_cmpgt_epi32(above, all(INFINITY as i32 - 1))) != 0 {
        return None;
    }
    let (differ, sign) = (_mm256_xor_si256(large, small), _mm256_slli_epi32::<31>(large));
    let (sigma, entry) = look_up(tables, above, below, _mm256_and_si256(differ, all(1)));
    let number = _mm256_slli_epi32::<{ SHIFT as i32 }>(_mm256_add_epi32(entry, all(OFFSET as i32)));
    // The larger operand stays as it is: an operand has no logarithm, or a table no entry.
    let unknown = or(
        _mm256_cmpgt_epi32(above, all((EXPONENTS.end << 23) as i32 - 1)),
        _mm256_cmpgt_epi32(all((EXPONENTS.start << 23) as i32), below),
    );
    let missed = or(_mm256_cmpeq_epi32(sigma, all(MISS.into())), _mm256_cmpeq_epi32(entry, all(MISS_EXP.into())));
    let keep = or(unknown, missed);
    // Nothing is left: they cancel, cannot be distinguished, or are below the keys.
    let none = or(_mm256_cmpeq_epi32(sigma, all(NOTHING.into())), _mm256_cmpeq_epi32(entry, all(0)));
    let nothing = or(_mm256_cmpeq_epi32(differ, all(1)), _mm256_andnot_si256(keep, none));
    let sum = or(_mm256_blendv_epi8(number, above, keep), sign);
    Some(_mm256_andnot_si256(nothing, sum))
}

/// Entries of the miTable and of the final expTable for finite magnitudes, and for elements that are 1 where signs differ.
#[target_feature(enable = "avx2")]
fn look_up(tables: &Tables, above: __m256i, below: __m256i, opposite: __m256i) -> (__m256i, __m256i) {
    let merged = tables.merged();
    let all = |n: i32| _mm256_set1_epi32(n);
    // Steps from the exponent 0.
    let log = |v: __m256i| {
        let key = _mm256_and_si256(_mm256_srli_epi32::<{ LOW_BITS as i32 }>(v), all(0x7ff));
        // SAFETY: keys have 11 bits, the table 2048 entries of four bytes.
        let entry = unsafe { _mm256_i32gather_epi32::<4>(merged.logs.as_ptr().cast(), key) };
        let fraction = _mm256_add_epi32(entry, _mm256_and_si256(v, all((1 << LOW_BITS) - 1)));
        let octaves = _mm256_madd_epi16(_mm256_srli_epi32::<23>(v), all(STEPS));
        _mm256_add_epi32(octaves, _mm256_srli_epi32::<{ LOW_BITS as i32 }>(fraction))
    };
    let i = log(above);
    let k = _mm256_sub_epi32(i, log(below));
    let k = _mm256_min_epi32(_mm256_max_epi32(k, all(0)), all(MI_HALF as i32 - 1));
    let k = _mm256_or_si256(_mm256_slli_epi32::<{ MI_HALF.ilog2() as i32 }>(opposite), k);
    // SAFETY: keys are below 2 · MI_HALF; where the last entry of two bytes begins there are four.
    let sigma = unsafe { _mm256_i32gather_epi32::<2>(merged.mi.as_ptr().cast(), k) };
    let sigma = _mm256_srai_epi32::<16>(_mm256_slli_epi32::<16>(sigma));
    let t = _mm256_add_epi32(_mm256_add_epi32(i, sigma), all(EXP_ROOM as i32 / 2 - 127 * STEPS));
    let t = _mm256_and_si256(t, all(EXP_ROOM as i32 - 1));
    // SAFETY: keys are below EXP_ROOM; where the last entry of two bytes begins there are four.
    let entry = unsafe { _mm256_i32gather_epi32::<2>(merged.exp_t.as_ptr().cast(), t) };
    (sigma, _mm256_and_si256(entry, all(0xffff)))
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::*;

    static TABLES: LazyLock<Tables> = LazyLock::new(Tables::new);

    /// Any bits, with numbers that have a logarithm, that are close to each other and that are special among them often.
    fn bits() -> impl Strategy<Value = f32> {
        let known = (94u32..160, 0u32..1 << 23, any::<bool>());
        let special = [0.0, -0.0, 1.0, -1.0, f32::MAX, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MIN_POSITIVE];
        prop_oneof![
            8 => known.prop_map(|(e, m, sign)| f32::from_bits(e << 23 | m | u32::from(sign) << 31)),
            2 => (120u32..126, 0u32..64, any::<bool>())
                .prop_map(|(e, m, sign)| f32::from_bits(e << 23 | m << 14 | u32::from(sign) << 31)),
            1 => any::<u32>().prop_map(f32::from_bits),
            1 => prop::sample::select(special.to_vec()),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn lanes_add_as_one_by_one(
            sums in prop::collection::vec(bits(), 1..60),
            pairs in prop::collection::vec((0u32..64, bits()), 0..40),
            far: bool,
        ) {
            let pairs: Vec<_> =
                pairs.into_iter().map(|(i, y)| (if far && i > 60 { u32::MAX - i } else { i }, y)).collect();
            let (mut ours, mut theirs) = (sums.clone(), sums);
            if add_all(&TABLES, &mut ours, &pairs) {
                add_each(&mut theirs, &pairs, |x, y| TABLES.add(x, y));
            }
            let of = |sums: &[f32]| sums.iter().map(|x| if x.is_nan() { u32::MAX } else { x.to_bits() }).collect::<Vec<_>>();
            prop_assert_eq!(of(&ours), of(&theirs));
        }
    }
}
