//! Fitting curves to what LIBRA states: which share the hot parameters have (§3.1), and where adding more of them stops
//! to pay (§3.3, §5.3).

use super::curve::Curve;

/// Ranks that the rule of LIBRA §5.3 adds at a time.
pub(crate) const STEP: u64 = 1000;
/// Increase of the cumulative share below which it stops (LIBRA §5.3: "1% in our experiment").
pub const THRESHOLD: f64 = 0.01;

/// The exponent and the offset of a fitted law.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Law {
    /// `s`.
    pub exponent: f64,
    /// `q`.
    pub offset: f64,
}

/// Where `rising` passes 0 between `low` and `high`, which are above 0; the nearer end where it does not.
pub(super) fn bisect_log(low: f64, high: f64, rising: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (low.ln(), high.ln());
    for _ in 0..80 {
        let middle = 0.5 * (low + high);
        if rising(middle.exp()) < 0.0 { low = middle } else { high = middle }
    }
    (0.5 * (low + high)).exp()
}

/// The exponent with which the first `hot` of `ranks` have the share `share`, for an offset.
pub fn exponent(ranks: u64, hot: u64, share: f64, offset: f64) -> Result<f64, String> {
    if hot == 0 || hot >= ranks {
        return Err(format!(
            "{hot} of {ranks} parameters cannot be hot with a share of {share} of the updates: hot is from 1 to one less than parameters"
        ));
    }
    let random = hot as f64 / ranks as f64;
    if !(share > random && share < 1.0) {
        return Err(format!(
            "{hot} of {ranks} parameters cannot have a share of {share} of the updates: the share is above {random} (that of as many at \
             random) and below 1"
        ));
    }
    let found = bisect_log(1e-9, 1e6, |s| Curve::mandelbrot(ranks, s, offset).map_or(0.0, |c| c.share(hot) - share));
    Ok(found)
}

/// The Zipf-Mandelbrot law of `ranks` in which the first `hot` have the share `share` and the rule of LIBRA §5.3 stops
/// there: half a step before and after rank `hot` the share rises by `threshold` in between.
pub fn mandelbrot(ranks: u64, hot: u64, share: f64, step: u64, threshold: f64) -> Result<Law, String> {
    let law = |offset: f64| Ok(Law { exponent: exponent(ranks, hot, share, offset)?, offset });
    let increase = |law: Law| -> Result<f64, String> {
        let curve = Curve::mandelbrot(ranks, law.exponent, law.offset)?;
        let (middle, half) = (hot as f64, 0.5 * step as f64);
        Ok(curve.cumulative(middle + half) - curve.cumulative((middle - half).max(0.0)))
    };
    // A larger offset makes the head flatter and its end steeper, up to the exponential law.
    let (least, most) = (1.0, 1000.0 * hot as f64);
    let (lowest, highest) = (increase(law(least)?)?, increase(law(most)?)?);
    if !(lowest < threshold && threshold < highest) {
        return Err(format!(
            "no Zipf-Mandelbrot law has a share of {share} in its first {hot} ranks and a rise of {threshold} per {step} \
             ranks there: the rise is from {lowest:.5} to {highest:.5}"
        ));
    }
    let offset =
        bisect_log(least, most, |offset| law(offset).and_then(increase).map_or(0.0, |increase| increase - threshold));
    law(offset)
}

/// The joined curve ([`Curve::joined`]) in which the first `hot` have the share `share` and the rule of LIBRA §5.3 stops
/// there, as in [`mandelbrot`].
pub fn joined(ranks: u64, hot: u64, share: f64, step: u64, threshold: f64) -> Result<Curve, String> {
    let (least, half) = (threshold / step as f64, 0.5 * step as f64);
    Curve::joined(ranks, hot, share, least)?;
    let middle = hot as f64;
    let edge = bisect_log(least, share / middle * (1.0 - 1e-9), |edge| {
        let curve = Curve::joined(ranks, hot, share, edge);
        curve.map_or(0.0, |c| c.cumulative(middle + half) - c.cumulative((middle - half).max(0.0)) - threshold)
    });
    Curve::joined(ranks, hot, share, edge)
}

/// A curve of `ranks` for what is stated of hot parameters: the fitted Zipf-Mandelbrot law where there is one, else two
/// joined ones (our choice).
pub fn any(ranks: u64, hot: u64, share: f64, step: u64, threshold: f64) -> Result<Curve, String> {
    match mandelbrot(ranks, hot, share, step, threshold) {
        Ok(law) => Curve::mandelbrot(ranks, law.exponent, law.offset),
        Err(_) => joined(ranks, hot, share, step, threshold),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pure_zipf_law_contradicts_the_rule() {
        // LIBRA §3.1 has the shares of 30,000 hot parameters; the rule that found 30,000 of them (§3.3, §5.3) stops far
        // before on Zipf's law with these shares.
        for (ranks, share, expected, stop) in [(150_000_000, 0.5, 0.975, 5000), (9_000_000, 0.7, 1.024, 6000)] {
            let found = exponent(ranks, 30_000, share, 1.0).unwrap();
            assert!((found - expected).abs() < 5e-4, "{found}");
            let curve = Curve::zipf(ranks, found).unwrap();
            assert!((curve.share(30_000) - share).abs() < 1e-9);
            assert_eq!(curve.stop(STEP, THRESHOLD), stop);
        }
    }

    #[test]
    fn a_fitted_law_has_the_share_and_stops_there() {
        for (ranks, share) in [(150_000_000, 0.5), (9_000_000, 0.7), (9_000_000, 0.45)] {
            let law = mandelbrot(ranks, 30_000, share, STEP, THRESHOLD).unwrap();
            let curve = Curve::mandelbrot(ranks, law.exponent, law.offset).unwrap();
            assert!((curve.share(30_000) - share).abs() < 1e-9, "{law:?}");
            assert_eq!(curve.stop(STEP, THRESHOLD), 30_000, "{law:?}");
        }
    }

    #[test]
    fn some_facts_have_no_law() {
        // No law is flat enough up to 40,000 and more, and steep enough after that; two joined ones are.
        for (hot, share) in [(40_000, 0.55), (60_000, 0.75), (60_000, 0.65)] {
            assert!(mandelbrot(170_000_000, hot, share, STEP, THRESHOLD).is_err());
            let curve = any(170_000_000, hot, share, STEP, THRESHOLD).unwrap();
            assert!((curve.share(hot) - share).abs() < 1e-9);
            assert_eq!(curve.stop(STEP, THRESHOLD), hot);
        }
        // A share below 1 % per thousand contradicts the rule whatever the curve.
        assert!(any(170_000_000, 60_000, 0.59, STEP, THRESHOLD).is_err());
        assert!(exponent(100, 100, 0.5, 1.0).is_err() && exponent(100, 50, 0.5, 1.0).is_err());
    }
}
