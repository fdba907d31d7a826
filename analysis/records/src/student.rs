//! Student's t distribution: tail and quantiles.
//!
//! Called by comparisons and calibration.

/// Returns the probability that t with `df` degrees of freedom exceeds `t`.
pub fn tail(t: f64, df: f64) -> f64 {
    if t.is_infinite() {
        return if t > 0.0 { 0.0 } else { 1.0 };
    }
    let half = 0.5 * incomplete_beta(df / (df + t * t), df / 2.0, 0.5);
    if t >= 0.0 { half } else { 1.0 - half }
}

/// Returns the t ≥ 0 that t with `df` degrees of freedom exceeds with probability `p` (at most a half).
pub fn quantile(p: f64, df: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while tail(high, df) > p && high < 1e150 {
        (low, high) = (high, high * 2.0);
    }
    while high - low > 1e-11 * high {
        let middle = (low + high) / 2.0;
        if tail(middle, df) > p {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// Returns the regularised incomplete beta function.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return if x <= 0.0 { 0.0 } else { 1.0 };
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p()).exp();
    // Each of the two fractions converges quickly on its side of the mean.
    if x < (a + 1.0) / (a + b + 2.0) {
        front * fraction(x, a, b) / a
    } else {
        1.0 - front * fraction(1.0 - x, b, a) / b
    }
}

/// Returns the continued fraction of the incomplete beta function, evaluated from the front (Lentz).
fn fraction(x: f64, a: f64, b: f64) -> f64 {
    let away = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / away(1.0 - (a + b) * x / (a + 1.0));
    let mut value = d;
    for m in 1..500 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut step = 1.0;
        for term in [even, odd] {
            d = 1.0 / away(1.0 + term * d);
            c = away(1.0 + term / c);
            step = c * d;
            value *= step;
        }
        if (step - 1.0).abs() < 1e-15 {
            break;
        }
    }
    value
}

/// Returns the logarithm of the gamma function by Stirling's series, for positive `x`.
fn ln_gamma(x: f64) -> f64 {
    // The series is accurate from 10 on; smaller arguments are shifted there.
    let (mut x, mut product) = (x, 1.0f64);
    while x < 10.0 {
        product *= x;
        x += 1.0;
    }
    let y = 1.0 / (x * x);
    let series = (1.0 / 12.0 - y * (1.0 / 360.0 - y * (1.0 / 1260.0 - y / 1680.0))) / x;
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series - product.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Published quantiles of the t distribution.
    #[test]
    fn quantiles_as_in_the_tables() {
        for (p, df, t) in [
            (0.025, 1.0, 12.706_204_7),
            (0.025, 2.0, 4.302_652_7),
            (0.025, 4.0, 2.776_445_1),
            (0.025, 9.0, 2.262_157_2),
            (0.005, 9.0, 3.249_835_5),
            (0.025, 29.0, 2.045_229_6),
            (0.0005, 4.0, 8.610_301_6),
            (0.025, 1e6, 1.959_966_4),
        ] {
            assert!((quantile(p, df) / t - 1.0).abs() < 1e-6, "{p} {df}: {}", quantile(p, df));
            assert!((tail(t, df) / p - 1.0).abs() < 1e-5);
        }
        assert_eq!(quantile(0.5, 3.0), quantile(0.5, 3.0).min(1e-9));
        assert!((tail(-2.0, 5.0) + tail(2.0, 5.0) - 1.0).abs() < 1e-14);
        assert_eq!((tail(f64::INFINITY, 3.0), tail(f64::NEG_INFINITY, 3.0)), (0.0, 1.0));
        // With one degree of freedom: the arc tangent.
        assert!((tail(3.0, 1.0) - (0.5 - 3f64.atan() / std::f64::consts::PI)).abs() < 1e-11);
    }
}
