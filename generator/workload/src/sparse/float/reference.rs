//! The same approximation without tables, in f64: what the tables are compared with on random input.

use super::{EXP_KEYS, MI_KEYS, TableScale};

/// The logarithm of a positive number, in whole steps, by equation 1.
pub(crate) fn log_steps(p: f32, steps: f64) -> f64 {
    let bits = p.to_bits();
    let exponent = f64::from(bits >> 23 & 0xff) - 127.0;
    let m = 1.0 + f64::from(bits >> 12 & 0x7ff) / 2048.0;
    let dm = f64::from(bits & 0xfff) / 4096.0 / 2048.0;
    let correction = match dm {
        0.0 => 0.0,
        _ => {
            let u = (steps * dm.log2()).round() - (steps * (m * std::f64::consts::LN_2).log2()).round();
            (steps * (u / steps).exp2()).round()
        }
    };
    exponent * steps + (steps * m.log2()).round() + correction
}

/// `x + y` of finite numbers.
pub fn add(x: f32, y: f32, scale: TableScale) -> f64 {
    let (large, small) = if x.abs() >= y.abs() { (x, y) } else { (y, x) };
    let has_log = |p: f32| scale.has_log(p.to_bits() >> 23 & 0xff);
    let opposite = x.is_sign_negative() != y.is_sign_negative();
    if opposite && x.abs() == y.abs() {
        return 0.0;
    }
    if !has_log(large) || !has_log(small) {
        return f64::from(large);
    }
    let steps = f64::from(scale.steps);
    let i = log_steps(large, steps);
    let z = (log_steps(small, steps) - i).min(0.0);
    if z < f64::from(*MI_KEYS.start()) {
        return f64::from(large);
    }
    if opposite && z == 0.0 {
        return 0.0;
    }
    let ratio = (z / steps).exp2();
    let sigma = (steps * (if opposite { 1.0 - ratio } else { 1.0 + ratio }).log2()).round();
    let t = i + sigma;
    if t < f64::from(*EXP_KEYS.start()) {
        return 0.0;
    }
    if t > f64::from(*EXP_KEYS.end()) {
        return f64::from(large);
    }
    // A fraction of so many bits.
    let (octave, ones) = ((t / steps).floor(), f64::from(1 << scale.fraction_bits));
    let fraction = ((t / steps - octave).exp2() * ones).round() / ones;
    (fraction * octave.exp2()).copysign(f64::from(large))
}
