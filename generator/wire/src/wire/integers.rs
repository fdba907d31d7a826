//! Vectors of 32-bit integers in network order, as sent by protocols that sum integers.

use super::Items;
use super::layout::Value;

/// Adds big-endian 32-bit integers to sums, with wrap-around (Trio §6.3: 32-bit adds). The shorter length counts.
#[inline]
pub fn add_values(sums: &mut [i32], part: &[u8]) {
    for (sum, bytes) in sums.iter_mut().zip(part.as_chunks::<4>().0) {
        *sum = sum.wrapping_add(i32::from_be_bytes(*bytes));
    }
}

/// Sets sums to big-endian 32-bit integers. The shorter length counts.
#[inline]
pub fn set_values(sums: &mut [i32], part: &[u8]) {
    for (sum, bytes) in sums.iter_mut().zip(part.as_chunks::<4>().0) {
        *sum = i32::from_be_bytes(*bytes);
    }
}

/// Writes sums as big-endian 32-bit integers. The shorter length counts.
#[inline]
pub fn emit_values(sums: &[i32], out: &mut [u8]) {
    for (bytes, sum) in out.as_chunks_mut::<4>().0.iter_mut().zip(sums) {
        *bytes = sum.to_be_bytes();
    }
}

/// Returns the integers as items.
pub fn items(bytes: &[u8]) -> Items {
    let value = |four: &[u8; 4]| vec![Value::Int(i32::from_be_bytes(*four).into())];
    bytes.as_chunks::<4>().0.iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn sums_wrap(pairs in prop::collection::vec((any::<i32>(), any::<i32>()), 0..70)) {
            let bytes: Vec<u8> = pairs.iter().flat_map(|p| p.1.to_be_bytes()).collect();
            let mut sums: Vec<i32> = pairs.iter().map(|p| p.0).collect();
            add_values(&mut sums, &bytes);
            let mut out = vec![0; bytes.len()];
            emit_values(&sums, &mut out);
            for ((a, b), got) in pairs.iter().zip(out.as_chunks::<4>().0) {
                prop_assert_eq!((i64::from(*a) + i64::from(*b)) as i32, i32::from_be_bytes(*got));
            }
            set_values(&mut sums, &bytes);
            prop_assert!(sums.iter().zip(&pairs).all(|(s, p)| *s == p.1));
        }
    }
}
