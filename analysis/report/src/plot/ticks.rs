//! Round values along an axis, and their text.

use pktgen_records::human::Scale;

use super::escape;

/// From this value on, numbers are written with an exponent.
const LONG: f64 = 1e6;

/// Returns the text of an axis: its name with the unit of its numbers.
pub fn axis_name(name: &str, scale: &Scale) -> String {
    if scale.unit.is_empty() { escape(name) } else { format!("{} ({})", escape(name), scale.unit) }
}

/// Minimum and maximum number of digits after the decimal point, without zeros at the end; the script has the same.
const DECIMALS: (f64, f64) = (6.0, 15.0);

/// Returns about `wanted` values inside `range` that are round in the display unit, with their texts.
pub fn marks(range: (f64, f64), scale: &Scale, wanted: usize) -> Vec<(f64, String)> {
    let all = ticks(range, scale.factor, wanted);
    let step = all.windows(2).next().map_or(1.0, |two| (two[1] - two[0]) * scale.factor);
    // As many digits as the step has, without rounding errors.
    let decimals = (-step.log10() - 1e-6).ceil().clamp(DECIMALS.0, DECIMALS.1) as usize;
    all.into_iter().map(|value| (value, tick_text(scale, value, decimals))).collect()
}

/// Formats a round value without the fixed number of digits in columns, with at most `decimals` after the decimal point.
fn tick_text(scale: &Scale, value: f64, decimals: usize) -> String {
    let shown = value * scale.factor;
    // Longer numbers would leave no space for the plot; the script formats them in the same way.
    if shown.abs() >= LONG {
        let rounded: f64 = format!("{shown:.5e}").parse().unwrap_or(shown);
        return format!("{rounded:e}").replace('-', "−");
    }
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
        assert_eq!(
            ticks((0.0, 3.2e9), 1e-9, 3).iter().map(|t| tick_text(&seconds, *t, 6)).collect::<Vec<_>>(),
            ["0", "2"]
        );
        assert_eq!(
            (tick_text(&seconds, 8.000_000_001e9, 6), tick_text(&seconds, 2.5e8, 6)),
            ("8".into(), "0.25".into())
        );
        assert_eq!(
            (tick_text(&scale_for("", 1.0), 0.1 + 0.2, 6), tick_text(&scale_for("share", 1.0), 0.2, 6)),
            ("0.3".into(), "20".into())
        );
        let plain = scale_for("", 1.0);
        assert_eq!(
            (tick_text(&plain, 5e8, 6), tick_text(&plain, -1_500_000.000_1, 6)),
            ("5e8".into(), "−1.5e6".into())
        );
    }

    #[test]
    fn marks_that_are_close_together_differ() {
        let texts = |range: (f64, f64), scale: &Scale| -> Vec<String> {
            marks(range, scale, 5).into_iter().map(|(_, text)| text).collect()
        };
        assert_eq!(texts((0.0, 2.4e-6), &scale_for("", 1.0)), ["0", "0.0000005", "0.000001", "0.0000015", "0.000002"]);
        let near = texts((5e9, 5e9 + 2000.0), &scale_for("ns", 5e9));
        assert!(near.contains(&"5.0000005".to_owned()) && near.contains(&"5.000001".to_owned()), "{near:?}");
        assert!((1..near.len()).all(|i| !near[..i].contains(&near[i])), "{near:?}");
        assert_eq!(texts((0.0, 0.97), &scale_for("share", 1.0)), ["0", "20", "40", "60", "80"]);
        assert!(texts((1.0, 1.0), &scale_for("", 1.0)).is_empty());
    }
}
