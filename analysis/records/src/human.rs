//! Units for display: nanoseconds become microseconds, shares percent, bits per second Gbit/s.
//!
//! Called by `pktgen_report::model` (verdicts), `pktgen_report::plot` (axes) and the reports (tables), so that all of
//! them agree. One scale per column or axis, so that its values can be compared easily.

use std::ops::RangeInclusive;

use serde::Serialize;

/// Maximum number of digits after the decimal point that make a comparison visible.
pub const DECIMALS_MAX: usize = 9;

/// How the values of a column are displayed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Scale {
    /// Factor that values are multiplied by.
    pub factor: f64,
    /// The displayed unit; may be empty.
    pub unit: &'static str,
    /// The displayed unit of differences: for percentages, percentage points.
    pub difference_unit: &'static str,
    /// Number of digits after the decimal point; `None` for as many as four significant digits need.
    pub decimals: Option<usize>,
}

const fn scale(factor: f64, unit: &'static str) -> Scale {
    Scale { factor, unit, difference_unit: unit, decimals: None }
}

/// A scale, and the least value that it is for.
type Step = (f64, Scale);

/// Scales of rates in bit/s.
const BIT_RATES: &[Step] = &[
    (1e9, scale(1e-9, "Gbit/s")),
    (1e6, scale(1e-6, "Mbit/s")),
    (1e3, scale(1e-3, "kbit/s")),
    (0.0, scale(1.0, "bit/s")),
];

/// All units of values that have a display unit, and their scales, the largest first.
static SCALES: [(&str, &[Step]); 9] = [
    ("ns", &[(1e9, scale(1e-9, "s")), (1e6, scale(1e-6, "ms")), (1e3, scale(1e-3, "µs")), (0.0, scale(1.0, "ns"))]),
    ("s", &[(0.0, scale(1.0, "s"))]),
    ("bps", BIT_RATES),
    ("bit/s", BIT_RATES),
    ("updates/s", &[(1e6, scale(1e-6, "M/s")), (1e3, scale(1e-3, "k/s")), (0.0, scale(1.0, "/s"))]),
    ("elements/s", &[(1e9, scale(1e-9, "G/s")), (1e6, scale(1e-6, "M/s")), (0.0, scale(1.0, "/s"))]),
    ("share", &[(0.0, Scale { factor: 100.0, unit: "%", difference_unit: "pp", decimals: Some(1) })]),
    ("precision", &[(0.0, Scale { factor: 100.0, unit: "%", difference_unit: "pp", decimals: Some(3) })]),
    ("bytes", &[(0.0, scale(1.0, "B"))]),
];

/// Returns the name of `unit` if its values have a display unit.
pub fn displayed(unit: &str) -> Option<&'static str> {
    SCALES.iter().map(|(name, _)| *name).find(|name| *name == unit)
}

/// Returns the scale for values in `unit` of up to `largest`.
pub fn scale_for(unit: &str, largest: f64) -> Scale {
    let steps = SCALES.iter().find(|(name, _)| *name == unit).map_or(&[][..], |(_, steps)| *steps);
    let fitting = steps.iter().find(|(from, _)| largest.abs() >= *from);
    fitting.map_or(scale(1.0, ""), |(_, scale)| *scale)
}

/// Formats `value` in a suitable display unit with three significant digits.
pub fn show(unit: &str, value: f64) -> String {
    let scale = scale_for(unit, value);
    let scaled = value * scale.factor;
    // Rounded first, so that 999.7 becomes 1000 without a superfluous digit.
    let digits = if scaled == 0.0 { 0 } else { scaled.abs().log10().floor() as i32 };
    let step = 10f64.powi(digits.clamp(-12, 300) - 2);
    let rounded = (scaled / step).round() * step;
    let decimals = if rounded == rounded.round() || rounded.abs() >= 100.0 { 0 } else { (2 - digits).clamp(0, 14) };
    let number = format!("{rounded:.*}", decimals as usize);
    with_unit(number.replace('-', "−"), scale.unit)
}

/// Returns the display name of a metric's key: "AoM cut, cluster" for `aom_cut/cluster`.
pub fn title(key: &str) -> String {
    let (metric, of) = key.split_once('/').unwrap_or((key, ""));
    let name = match metric {
        "aggregation_mean" => "updates/packet".to_owned(),
        "throughput_bps" => "throughput".to_owned(),
        "updates_per_s" => "update rate".to_owned(),
        "elements_per_s" => "element rate".to_owned(),
        "over_ideal" => "time/ideal".to_owned(),
        "sources_mean" => "sources in results".to_owned(),
        "downlink_bytes_per_delivered_update" => "downlink/update".to_owned(),
        other => other.replace("aom", "AoM").replace('_', " "),
    };
    // A group's name comes last and is displayed as written.
    let (of, group) = of.split_once('/').map_or((of, String::new()), |(of, group)| (of, format!(" {group}")));
    // A number denotes a job.
    let of = if of.parse::<u16>().is_ok() { format!("job {of}") } else { of.to_owned() };
    if of.is_empty() { name } else { format!("{name}, {}{group}", of.replace('_', " ")) }
}

/// Formats a setting of a sweep: "rate 40 Gbit/s" for `topology.rate` of `40Gbps`.
pub fn setting(axis: &str, value: &str) -> String {
    const UNITS: [(&str, &str); 8] = [
        ("Gbps", "Gbit/s"),
        ("Mbps", "Mbit/s"),
        ("kbps", "kbit/s"),
        ("bps", "bit/s"),
        ("us", "µs"),
        ("ms", "ms"),
        ("ns", "ns"),
        ("s", "s"),
    ];
    let name = axis.rsplit('.').next().unwrap_or(axis).replace('_', " ");
    let shown = UNITS.iter().find_map(|(written, unit)| {
        let number = value.strip_suffix(written)?.trim();
        number.parse::<f64>().is_ok().then(|| format!("{number} {unit}"))
    });
    format!("{name} {}", shown.as_deref().unwrap_or(value))
}

impl Scale {
    /// Formats the number alone.
    pub fn number(&self, value: f64) -> String {
        let scaled = value * self.factor;
        let decimals = self.decimals.unwrap_or_else(|| decimals_of(scaled));
        let text = format!("{scaled:.decimals$}");
        // "-0.0" is displayed as "0.0".
        if text.trim_start_matches('-').bytes().all(|c| c == b'0' || c == b'.') {
            return text.trim_start_matches('-').to_owned();
        }
        text.replace('-', "−")
    }

    /// Returns the number that is shown for `value`, in the displayed unit.
    pub fn shown(&self, value: f64) -> f64 {
        self.number(value).replace('−', "-").parse().unwrap_or(value * self.factor)
    }

    /// Returns this scale, or else one with the fewest further digits for which `is_true` holds, if there is any. Of `decimals`, the first
    /// is tried first if this scale has no number of digits, and the last is the maximum.
    pub fn finer(self, decimals: RangeInclusive<usize>, is_true: impl Fn(&Scale) -> bool) -> Scale {
        if is_true(&self) {
            return self;
        }
        let first = self.decimals.map_or(*decimals.start(), |own| own + 1);
        let mut finer = (first..=*decimals.end()).map(|decimals| Scale { decimals: Some(decimals), ..self });
        finer.find(is_true).unwrap_or(self)
    }

    /// Formats the number with its unit.
    pub fn show(&self, value: f64) -> String {
        with_unit(self.number(value), self.unit)
    }

    /// Formats a difference with its sign and unit.
    pub fn difference(&self, value: f64) -> String {
        let number = self.number(value);
        let sign = if value > 0.0 { "+" } else { "" };
        with_unit(format!("{sign}{number}"), self.difference_unit)
    }
}

/// Returns a number with its unit, if it has one.
pub fn with_unit(number: String, unit: &str) -> String {
    if unit.is_empty() { number } else { format!("{number} {unit}") }
}

/// Returns the number of decimals: 0 for integers, otherwise as many as four significant digits need, or three below 1.
fn decimals_of(value: f64) -> usize {
    let size = value.abs();
    if value == value.trunc() || size >= 10_000.0 {
        0
    } else if size >= 100.0 {
        1
    } else if size >= 10.0 {
        2
    } else if size >= 0.1 {
        3
    } else {
        (2 - size.log10().floor() as i32).clamp(3, 15) as usize
    }
}

/// Formats the day of a time in ns since 1970 (Gregorian, UTC).
pub fn day(unix_ns: u64) -> String {
    let days = (unix_ns / 86_400_000_000_000) as i64 + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    // Years begin in March here, so that the leap day is the last day.
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{day:02}", year + era * 400 + next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_value_is_not_shown_as_0() {
        assert_eq!(scale_for("ratio", 1.0).number(3e-5), "0.0000300");
        assert_eq!(scale_for("ns", 5e9).show(300_000.0), "0.000300 s");
        assert_eq!(scale_for("ratio", 1.0).number(-0.0004), "−0.000400");
        assert_eq!(scale_for("ratio", 1.0).number(0.0), "0");
    }

    #[test]
    fn units_that_are_displayed_have_scales() {
        let units = ["ns", "s", "bps", "bit/s", "updates/s", "elements/s", "share", "precision", "bytes"];
        for unit in units {
            assert_eq!((displayed(unit), scale_for(unit, 0.0).unit.is_empty()), (Some(unit), false));
        }
        for unit in ["packets", "ratio", ""] {
            assert_eq!((displayed(unit), scale_for(unit, 0.0).unit), (None, ""));
        }
    }

    #[test]
    fn values_for_people() {
        assert_eq!(scale_for("ns", 2500.0).show(2500.0), "2.500 µs");
        assert_eq!(scale_for("ns", 3e6).show(1_234_567.0), "1.235 ms");
        assert_eq!(scale_for("ns", 12.0).show(12.0), "12 ns");
        assert_eq!(scale_for("share", 0.5).show(0.5584), "55.8 %");
        assert_eq!(scale_for("share", 0.5).difference(-0.0132), "−1.3 pp");
        assert_eq!(scale_for("bps", 4e10).show(4e10), "40 Gbit/s");
        assert_eq!(scale_for("bit/s", 4e10).show(4e10), "40 Gbit/s");
        assert_eq!(scale_for("s", 35.0).show(35.0), "35 s");
        assert_eq!(scale_for("packets", 6109.0).show(6109.0), "6109");
        assert_eq!(scale_for("packets", 6109.0).difference(12.5), "+12.50");
        assert_eq!(scale_for("share", 0.5).number(-0.0001), "0.0");
    }

    #[test]
    fn three_significant_digits() {
        for (unit, value, text) in [
            ("ns", 386_566_718_432.0, "387 s"),
            ("ns", 1_234.5, "1.23 µs"),
            ("ns", 0.0512, "0.0512 ns"),
            ("ns", 12_000_000.0, "12 ms"),
            ("ns", 99_960.0, "100 µs"),
            ("ns", 0.0, "0 ns"),
            ("ns", -4_560.0, "−4.56 µs"),
            ("bps", 87_412.0, "87.4 kbit/s"),
            ("bps", 6e10, "60 Gbit/s"),
            ("ns", 1e308, "1000000000"),
        ] {
            assert!(show(unit, value).starts_with(text), "{unit} {value}: {}", show(unit, value));
        }
        assert!(!show("ns", f64::NAN).is_empty() && !show("bps", f64::INFINITY).is_empty());
    }

    #[test]
    fn settings_in_words() {
        for (axis, value, said) in [
            ("topology.rate", "40Gbps", "rate 40 Gbit/s"),
            ("endpoint.timeout", "2us", "timeout 2 µs"),
            ("study.loads", "power_law", "loads power_law"),
            ("study.k", "16", "k 16"),
            ("pings", "s", "pings s"),
        ] {
            assert_eq!(setting(axis, value), said);
        }
    }

    #[test]
    fn titles_of_keys() {
        assert_eq!(title("aom_cut/cluster"), "AoM cut, cluster");
        assert_eq!(title("dropped/queue_full"), "dropped, queue full");
        assert_eq!(title("aom_mean/cluster/S_1"), "AoM mean, cluster S_1");
        assert_eq!(
            (title("over_ideal/1"), title("device/packets")),
            ("time/ideal, job 1".into(), "device, packets".into())
        );
        assert_eq!((title("in_flight"), title("aggregation_mean")), ("in flight".into(), "updates/packet".into()));
    }
}
