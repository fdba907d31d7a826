//! Round values along an axis, and their text.

use pktgen_records::human::Scale;

use super::escape;

/// From this value on, numbers are written with an exponent: longer ones would leave no space for the plot. The script formats
/// them in the same way.
const LONG: f64 = 1e6;
/// All numbers of an axis are written with an exponent if all are below this value.
const SMALL: f64 = 1e-3;

/// Returns the text of an axis: its name with the unit of its numbers.
pub fn axis_name(name: &str, scale: &Scale) -> String {
    if scale.unit.is_empty() { escape(name) } else { format!("{} ({})", escape(name), scale.unit) }
}

/// Minimum and maximum number of digits after the decimal point, without zeros at the end; the script has the same.
const DECIMALS: (f64, f64) = (6.0, 15.0);
/// The same of numbers with an exponent.
const DECIMALS_OF_EXPONENT: (f64, f64) = (5.0, 15.0);

/// Returns about `wanted` values inside `range` that are round in the display unit, with their texts.
pub fn marks(range: (f64, f64), scale: &Scale, wanted: usize) -> Vec<(f64, String)> {
    let all = ticks(range, scale.factor, wanted);
    let step = all.windows(2).next().map_or(1.0, |two| (two[1] - two[0]) * scale.factor);
    let are_small = all.iter().all(|value| (value * scale.factor).abs() < SMALL);
    all.into_iter().map(|value| (value, tick_text(scale, value, step, are_small))).collect()
}

/// Formats a round value without the fixed number of digits in columns, with those of the step between values. `are_small` if all
/// values of the axis are.
fn tick_text(scale: &Scale, value: f64, step: f64, are_small: bool) -> String {
    let shown = value * scale.factor;
    // As many digits as the step has, without rounding errors.
    let places = (-step.log10() - 1e-6).ceil();
    if shown.abs() >= LONG || are_small && value != 0.0 {
        let (least, most) = DECIMALS_OF_EXPONENT;
        let decimals = (shown.abs().log10().floor() + places).clamp(least, most) as usize;
        let rounded: f64 = format!("{shown:.decimals$e}").parse().unwrap_or(shown);
        return format!("{rounded:e}").replace('-', "−");
    }
    let decimals = places.clamp(DECIMALS.0, DECIMALS.1) as usize;
    let text = format!("{shown:.decimals$}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if ["0", "-0"].contains(&text) && value != 0.0 { scale.number(value) } else { text.replace('-', "−") }
}

/// Returns about `wanted` values inside `range` that are round in the display unit.
pub fn ticks(range: (f64, f64), factor: f64, wanted: usize) -> Vec<f64> {
    let (from, to) = (range.0 * factor, range.1 * factor);
    let raw = (to - from) / wanted as f64;
    if !raw.is_finite() || raw <= 0.0 {
        return Vec::new();
    }
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|step| *step >= raw).unwrap_or(raw);
    let first = (from / step).ceil() as i64;
    // An upper limit of their number, even with rounding errors.
    (0..=2 * wanted as i64)
        .map(|i| (first + i) as f64 * step)
        .take_while(|x| *x <= to + step * 1e-9)
        .map(|x| x / factor)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pktgen_records::human::scale_for;

    #[test]
    fn ticks_are_round_in_the_shown_unit() {
        assert_eq!(ticks((0.0, 0.97), 100.0, 5), [0.0, 0.2, 0.4, 0.6, 0.8]);
        assert_eq!(ticks((1_200.0, 9_800.0), 1e-3, 5), [2000.0, 4000.0, 6000.0, 8000.0]);
        assert!(ticks((1.0, 1.0), 1.0, 5).is_empty() && ticks((0.0, f64::NAN), 1.0, 5).is_empty());
    }

    #[test]
    fn ticks_are_written_alike() {
        let seconds = scale_for("ns", 8e9);
        let text = |scale: &Scale, value: f64| tick_text(scale, value, 0.1, false);
        assert_eq!(ticks((0.0, 3.2e9), 1e-9, 3).iter().map(|t| text(&seconds, *t)).collect::<Vec<_>>(), ["0", "2"]);
        assert_eq!((text(&seconds, 8.000_000_001e9), text(&seconds, 2.5e8)), ("8".into(), "0.25".into()));
        let plain = scale_for("", 1.0);
        assert_eq!((text(&plain, 0.1 + 0.2), text(&scale_for("share", 1.0), 0.2)), ("0.3".into(), "20".into()));
        let large = |value: f64| tick_text(&plain, value, 1e5, false);
        assert_eq!((large(5e8), large(-1_500_000.000_1)), ("5e8".into(), "−1.5e6".into()));
    }

    /// The column of an axis is as wide as six digits.
    #[test]
    fn texts_of_small_and_of_large_values_are_short() {
        let texts = |range: (f64, f64)| -> Vec<String> {
            marks(range, &scale_for("", range.1), 5).into_iter().map(|(_, text)| text).collect()
        };
        assert_eq!(texts((0.0, 1.1e-10)), ["0", "5e−11", "1e−10"]);
        assert_eq!(texts((-2.4e-5, 0.0)), ["−2e−5", "−1.5e−5", "−1e−5", "−5e−6", "0"]);
        assert_eq!(texts((0.0, 2.4e-3)), ["0", "0.0005", "0.001", "0.0015", "0.002"]);
        assert_eq!(texts((0.0, 9e-25)), ["0", "2e−25", "4e−25", "6e−25", "8e−25"]);
        let near = texts((1e11, 1e11 + 1e4));
        assert!(near.contains(&"1.00000002e11".to_owned()) && near.contains(&"1.00000004e11".to_owned()), "{near:?}");
    }

    #[test]
    fn marks_that_are_close_together_differ() {
        let texts = |range: (f64, f64), scale: &Scale| -> Vec<String> {
            marks(range, scale, 5).into_iter().map(|(_, text)| text).collect()
        };
        assert_eq!(texts((0.0, 2.4e-6), &scale_for("", 1.0)), ["0", "5e−7", "1e−6", "1.5e−6", "2e−6"]);
        let near = texts((5e9, 5e9 + 2000.0), &scale_for("ns", 5e9));
        assert!(near.contains(&"5.0000005".to_owned()) && near.contains(&"5.000001".to_owned()), "{near:?}");
        assert!((1..near.len()).all(|i| !near[..i].contains(&near[i])), "{near:?}");
        assert_eq!(texts((0.0, 0.97), &scale_for("share", 1.0)), ["0", "20", "40", "60", "80"]);
        assert!(texts((1.0, 1.0), &scale_for("", 1.0)).is_empty());
    }
}
