//! Sums of pairs in vector registers, and the same one by one.
//!
//! The only `unsafe` code of what happens to frames in virtual time is here, so that the crates that use it need none.

#[cfg(target_arch = "x86_64")]
mod lanes;

use pktgen_workload::sparse::float::Tables;

/// Adds pairs to the sums at their indices by `tables`, one after the other; what has no sum is left out.
#[inline]
pub fn add_all(tables: &Tables, sums: &mut [f32], pairs: &[(u32, f32)]) {
    #[cfg(target_arch = "x86_64")]
    if lanes::add_all(tables, sums, pairs) {
        return;
    }
    add_each(sums, pairs, |x, y| tables.add(x, y));
}

/// Adds pairs to the sums at their indices by `add`.
#[inline]
pub fn add_each(sums: &mut [f32], pairs: &[(u32, f32)], add: impl Fn(f32, f32) -> f32) {
    for &(index, value) in pairs {
        if let Some(sum) = sums.get_mut(index as usize) {
            *sum = add(*sum, value);
        }
    }
}
