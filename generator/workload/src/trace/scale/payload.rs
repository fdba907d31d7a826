//! The values of an update that is made: recorded ones, repeated for a larger frame, each copy a little different.

use crate::seed::mix;

/// Largest relative change of a number: a copy has gradients of its own, of the same magnitudes (log2 moves by less than
/// a fifth).
const CHANGE: f32 = 0.125;

/// Makes `values` `wanted` long: cut, or repeated. `key` says how numbers are changed; none leaves the recorded ones (not
/// their repetitions) as they are. Zeros stay zeros, and nothing else becomes one.
pub(super) fn make(values: &mut Vec<f32>, wanted: usize, worker: u32, seq: u32, seed: u64, change: bool) {
    let recorded = values.len();
    values.truncate(wanted);
    if recorded > 0 {
        values.reserve(wanted.saturating_sub(recorded));
        for i in values.len()..wanted {
            values.push(values[i - recorded]);
        }
    }
    let key = mix(seed ^ mix(u64::from(worker) << 32 | u64::from(seq)));
    let first = if change { 0 } else { recorded.min(values.len()) };
    for (i, value) in values.iter_mut().enumerate().skip(first) {
        let drawn = (mix(key ^ i as u64) >> 40) as f32 / (1 << 23) as f32 - 1.0;
        let changed = *value * (1.0 + CHANGE * drawn);
        // Not where the range of numbers ends, at either end.
        if changed.is_finite() && (changed != 0.0 || *value == 0.0) {
            *value = changed;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_repeat_with_small_changes() {
        let recorded = [1.0f32, 0.0, -2.0, f32::MAX, f32::from_bits(1)];
        let made = |wanted, worker, change| {
            let mut values = recorded.to_vec();
            make(&mut values, wanted, worker, 3, 7, change);
            values
        };
        assert_eq!(made(3, 0, false), recorded[..3]);
        assert_eq!(made(5, 0, false), recorded);
        let long = made(1000, 0, false);
        assert_eq!(long[..5], recorded);
        let near = |a: f32, b: f32| a.is_finite() && (a - b).abs() <= b.abs() * 0.1251 && (a == 0.0) == (b == 0.0);
        assert!(long.iter().zip(recorded.iter().cycle()).all(|(a, b)| near(*a, *b)));
        assert!(long.windows(10).all(|w| w[0] != w[5] || w[0] == 0.0 || w[0].abs() > 1e30 || w[0].abs() < 1e-30));
        assert_ne!(made(5, 0, true)[0], 1.0);
        assert_ne!(made(5, 0, true), made(5, 1, true));
        assert_eq!(made(5, 1, true), made(5, 1, true));
        let mut none = Vec::new();
        make(&mut none, 10, 0, 0, 1, true);
        assert!(none.is_empty(), "nothing to repeat");
    }
}
