//! Quantities with units: `40Gbps`, `1.5us`, `2048bit`, `8KiB`. Exact integers inside.
//!
//! Text is converted to an integer of the base unit by decimal arithmetic; a value that is not a whole number of base
//! units is refused, not rounded. Printing is exact, too: `parse(print(x)) == x`.

use std::fmt;
use std::str::FromStr;

use crate::time::Time;

/// A unit's name and its size in base units.
type Unit = (&'static str, u64);

const RATES: &[Unit] =
    &[("bps", 1), ("kbps", 1_000), ("Mbps", 1_000_000), ("Gbps", 1_000_000_000), ("Tbps", 1_000_000_000_000)];
const SIZES: &[Unit] = &[
    ("bit", 1),
    ("B", 8),
    ("kB", 8_000),
    ("KiB", 8 * 1024),
    ("MB", 8_000_000),
    ("MiB", 8 * 1024 * 1024),
    ("GB", 8_000_000_000),
    ("GiB", 8 * 1024 * 1024 * 1024),
];
const SPANS: &[Unit] = &[
    ("ps", 1),
    ("ns", 1_000),
    ("us", 1_000_000),
    ("ms", 1_000_000_000),
    ("s", 1_000_000_000_000),
    ("min", 60_000_000_000_000),
    ("h", 3_600_000_000_000_000),
];

/// The error for a text that is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is not a {kind}: {why}; write for example {example}")]
pub struct UnitError {
    text: String,
    kind: &'static str,
    why: String,
    example: &'static str,
}

/// Splits the text of a number or quantity into the number, with its sign and without underscores, and the unit.
pub fn split(text: &str) -> (String, &str) {
    let text = text.trim();
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let rest = digits.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '_');
    let (number, unit) = text.split_at(text.len() - rest.len());
    (number.replace('_', ""), unit.trim_start())
}

/// Returns the size of a unit in base units: bit/s, bits or picoseconds; none if no quantity has it.
pub fn base_units(unit: &str) -> Option<u64> {
    [RATES, SIZES, SPANS].into_iter().flatten().find(|(name, _)| *name == unit).map(|(_, factor)| *factor)
}

/// Splits `text` into number and unit and returns the exact value in base units.
fn parse(text: &str, kind: &'static str, units: &[Unit], example: &'static str) -> Result<u64, UnitError> {
    let fail = |why: String| UnitError { text: text.to_owned(), kind, why, example };
    let (number, unit) = split(text);
    if number.is_empty() || number.starts_with(['+', '-']) {
        return Err(fail("it does not start with a number that is zero or more".into()));
    }
    let Some(&(_, factor)) = units.iter().find(|(name, _)| *name == unit) else {
        let names: Vec<_> = units.iter().map(|(name, _)| *name).collect();
        let found = if unit.is_empty() { "no unit".to_owned() } else { format!("the unit \"{unit}\"") };
        return Err(fail(format!("it has {found}, not one of {}", names.join(", "))));
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || digits.contains('.') || digits.len() > 30 {
        return Err(fail("the number is not a decimal".into()));
    }
    let mantissa: u128 = digits.parse().map_err(|_| fail("the number is not a decimal".into()))?;
    let scale = 10u128.pow(fraction.len() as u32);
    let product = mantissa.checked_mul(u128::from(factor)).ok_or_else(|| fail("it is too large".into()))?;
    if product % scale != 0 {
        return Err(fail(format!("it is not a whole number of {}", units[0].0)));
    }
    // i64::MAX rather than u64::MAX: every quantity also fits the signed picoseconds of `Time`.
    i64::try_from(product / scale).map(|v| v as u64).map_err(|_| fail("it is too large".into()))
}

/// Prints exactly: in the largest of `units` that is not above the value and needs at most three decimals, or else in
/// the largest that divides it.
fn print(value: u64, units: &[Unit], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for &(name, factor) in units.iter().rev() {
        if factor > value && factor > 1 {
            continue;
        }
        let (whole, rest) = (value / factor, value % factor);
        if rest == 0 {
            return f.pad(&format!("{whole}{name}"));
        }
        let milli = u128::from(rest) * 1000;
        if milli % u128::from(factor) == 0 {
            let text = format!("{:03}", milli / u128::from(factor));
            return f.pad(&format!("{whole}.{}{name}", text.trim_end_matches('0')));
        }
    }
    f.pad(&format!("{value}{}", units[0].0))
}

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $units:ident, $example:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(u64);

        impl FromStr for $name {
            type Err = UnitError;
            fn from_str(text: &str) -> Result<Self, UnitError> {
                parse(text, $kind, $units, $example).map($name)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                print(self.0, $units, f)
            }
        }
    };
}

quantity!(
    /// A link rate, in bits per second.
    Rate, "rate", RATES, "40Gbps"
);
quantity!(
    /// A size, in bits.
    Size, "size", SIZES, "2048bit or 8KiB"
);
quantity!(
    /// A span of time, in picoseconds, never negative.
    Span, "time", SPANS, "1.5us"
);

impl Rate {
    /// Converts from bits per second.
    pub const fn from_bps(bps: u64) -> Self {
        Rate(bps)
    }

    /// Returns bits per second.
    pub const fn bps(self) -> u64 {
        self.0
    }
}

impl Size {
    /// Converts from bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        Size(bytes * 8)
    }

    /// Returns bits.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Returns the bytes, if the size is a whole number of them.
    pub const fn bytes(self) -> Option<u64> {
        if self.0.is_multiple_of(8) { Some(self.0 / 8) } else { None }
    }
}

impl Span {
    /// Converts from picoseconds; negative spans become zero.
    pub const fn from_ps(ps: Time) -> Self {
        Span(if ps < 0 { 0 } else { ps as u64 })
    }

    /// Returns picoseconds.
    pub const fn ps(self) -> Time {
        self.0 as Time
    }
}

/// A number, or a quantity of any kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Quantity {
    /// Without a unit.
    Number(f64),
    /// A rate.
    Rate(Rate),
    /// A time.
    Span(Span),
    /// A size.
    Size(Size),
}

impl Quantity {
    /// Parses `text`; `None` if it is neither a finite number nor a quantity.
    pub fn read(text: &str) -> Option<Quantity> {
        let number = text.parse().ok().filter(|number: &f64| number.is_finite()).map(Quantity::Number);
        let rate = || text.parse().ok().map(Quantity::Rate);
        let span = || text.parse().ok().map(Quantity::Span);
        let size = || text.parse().ok().map(Quantity::Size);
        number.or_else(rate).or_else(span).or_else(size)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Quantity::Number(number) => number.fmt(f),
            Quantity::Rate(rate) => rate.fmt(f),
            Quantity::Span(span) => span.fmt(f),
            Quantity::Size(size) => size.fmt(f),
        }
    }
}

/// Largest number up to which all integers are numbers of 64 bits.
const INTEGERS_MAX: f64 = 9_007_199_254_740_992.0;

/// Returns a number or quantity in canonical spelling, independent of its unit; any other text unchanged, and integers
/// that would be rounded.
pub fn canonical(text: &str) -> String {
    match Quantity::read(text) {
        Some(Quantity::Number(number)) if number.abs() >= INTEGERS_MAX => text.to_owned(),
        Some(quantity) => quantity.to_string(),
        None => text.to_owned(),
    }
}

/// Returns a value of a configuration with `spell` applied to each text, number and quantity in it: to the parts of a list or table, else
/// to all of it.
pub fn respelled(text: &str, spell: impl Fn(&str) -> String) -> String {
    const QUOTES: [char; 2] = ['"', '\''];
    if !text.starts_with(['[', '{']) {
        return spell(text);
    }
    let (mut out, mut rest) = (String::new(), text);
    while let Some(first) = rest.chars().next() {
        let quoted = QUOTES.contains(&first);
        let (quote, inside) = rest.split_at(usize::from(quoted));
        let is_end = |c: char| if quoted { c == first } else { QUOTES.contains(&c) || "[]{}=, ".contains(c) };
        let (part, behind) = inside.split_at(inside.find(is_end).unwrap_or(inside.len()));
        // A quote behind a part without quotes begins the next one.
        let end = behind.chars().next().filter(|c| quoted || !QUOTES.contains(c)).map_or(0, char::len_utf8);
        let (border, next) = behind.split_at(end);
        out.extend([quote, &spell(part), border]);
        rest = next;
    }
    out
}

/// An exact decimal number, zero or more, of at most 18 significant digits: a factor without float rounding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Decimal {
    /// The number times 10 to the power of `places`, with as few places as possible.
    digits: u128,
    places: u32,
}

impl Decimal {
    /// Maximum number of places before and after the point: a ratio and its products with 10⁹ fit 128 bits.
    const PLACES_MAX: i64 = 28;

    /// Parses `text`, with an optional exponent; `power` is added to the exponent.
    fn read(text: &str, power: i64) -> Result<Self, String> {
        let wrong = || "the number is not a decimal that is zero or more".to_owned();
        let (number, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let exponent: i64 = exponent.parse().map_err(|_| wrong())?;
        let number = number.replace('_', "");
        let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
        let digits = format!("{whole}{fraction}");
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(wrong());
        }
        let significant = digits.trim_start_matches('0').trim_end_matches('0');
        if significant.is_empty() {
            return Ok(Decimal { digits: 0, places: 0 });
        }
        if significant.len() > 18 {
            return Err("it has more than 18 digits".to_owned());
        }
        let zeros = digits.len() - digits.trim_end_matches('0').len();
        let places =
            (fraction.len() as i64).saturating_sub(zeros as i64).saturating_sub(exponent.saturating_add(power));
        let before = significant.len() as i64 - places.clamp(-1000, 1000);
        if places > Self::PLACES_MAX || before > Self::PLACES_MAX {
            return Err("it is too large or too small".to_owned());
        }
        let digits: u128 = significant.parse().map_err(|_| wrong())?;
        let scale = 10u128.pow(places.min(0).unsigned_abs() as u32);
        Ok(Decimal { digits: digits * scale, places: places.max(0) as u32 })
    }

    /// Returns numerator and denominator; the latter is a power of ten.
    pub const fn ratio(self) -> (u128, u128) {
        (self.digits, 10u128.pow(self.places))
    }

    /// Returns whether it is from 10 to the power of `-low` to 10 to the power of `high`; `low` is at most 10.
    pub const fn is_within(self, low: u32, high: u32) -> bool {
        let (digits, scale) = self.ratio();
        digits * 10u128.pow(low) >= scale && digits <= scale.saturating_mul(10u128.pow(high))
    }

    /// Returns whether it is 1 or more.
    pub const fn is_at_least_one(self) -> bool {
        self.is_within(0, Self::PLACES_MAX as u32)
    }
}

impl FromStr for Decimal {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let fail = |why| UnitError { text: text.to_owned(), kind: "number", why, example: "0.25 or 2e-7" };
        Decimal::read(text.trim(), 0).map_err(fail)
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = self.places as usize;
        let digits = format!("{:0width$}", self.digits, width = places + 1);
        let (whole, fraction) = digits.split_at(digits.len() - places);
        f.pad(&if fraction.is_empty() { whole.to_owned() } else { format!("{whole}.{fraction}") })
    }
}

/// A rate of packets: 2M, 100k, 0.5 or 1 packets per second, also with the unit `pps`. Above 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PacketRate(Decimal);

impl PacketRate {
    /// Returns packets and seconds, as a ratio; both are above 0, packets below 2⁷⁰, seconds below 2³⁰.
    pub const fn ratio(self) -> (u128, u128) {
        self.0.ratio()
    }
}

impl FromStr for PacketRate {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let fail = |why| UnitError { text: text.to_owned(), kind: "packet rate", why, example: "2M, 100k, 1 or 0.5" };
        let number = text.trim();
        let number = number.strip_suffix("pps").unwrap_or(number).trim_end();
        let split = number.strip_suffix(['k', 'M', 'G']).map_or(number, str::trim_end);
        let power = match number[split.len()..].trim_start() {
            "k" => 3,
            "M" => 6,
            "G" => 9,
            _ => 0,
        };
        let rate = Decimal::read(split, power).map_err(fail)?;
        if rate.places > 9 || !rate.is_within(9, 12) {
            return Err(fail("it is not from 1e-9 to 1e12 packets per second, with at most 9 decimals".to_owned()));
        }
        Ok(PacketRate(rate))
    }
}

impl fmt::Display for PacketRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}pps", self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_quantity_has_one_spelling() {
        for (texts, one) in [
            (["20Gbps", "20000Mbps", "20_000 Mbps"], "20Gbps"),
            (["1.5us", "1500ns", "0.0015ms"], "1.5us"),
            (["1KiB", "1024B", "8192bit"], "1KiB"),
            (["0.1", "0.10", "1e-1"], "0.1"),
        ] {
            assert_eq!(texts.map(canonical), [one; 3], "{texts:?}");
        }
        // Integers above 2⁵³ are not rounded to the same number.
        for text in ["olaf", "", "NaN", "inf", "[\"20Gbps\"]", "20 Gb", "9007199254740993", "18446744073709551615"] {
            assert_eq!(canonical(text), text);
        }
    }

    #[test]
    fn a_list_has_its_parts_in_one_spelling() {
        for (text, one) in [
            ("1000ns", "1us"),
            ("[1.0, 1, \"1000ns\", '0.10']", "[1, 1, \"1us\", '0.1']"),
            ("[{ at = \"1000 ns\", worker = 1 }]", "[{ at = \"1us\", worker = 1 }]"),
            ("[\"of 1000ns, 1.0\", true, \"µ\", [], \"\"]", "[\"of 1000ns, 1.0\", true, \"µ\", [], \"\"]"),
            ("[\"not closed", "[\"not closed"),
        ] {
            assert_eq!(respelled(text, canonical), one);
        }
    }

    #[test]
    fn the_papers_quantities() {
        assert_eq!("40Gbps".parse::<Rate>().unwrap().bps(), 40_000_000_000);
        assert_eq!("0.8Mbps".parse::<Rate>().unwrap().bps(), 800_000);
        assert_eq!("1.5us".parse::<Span>().unwrap().ps(), 1_500_000);
        assert_eq!("2048bit".parse::<Size>().unwrap().bytes(), Some(256));
        assert_eq!("8KiB".parse::<Size>().unwrap().bytes(), Some(8192));
        assert_eq!(" 1_000 B ".parse::<Size>().unwrap().bytes(), Some(1000));
        assert_eq!(Size::from_bytes(256).to_string(), "256B");
        assert_eq!(Span::from_ps(1_500_000).to_string(), "1.5us");
        assert_eq!(Rate::from_bps(0).to_string(), "0bps");
    }

    #[test]
    fn a_quantity_is_a_number_and_a_unit() {
        for (text, number, unit) in [
            ("20_000 Mbps", "20000", "Mbps"),
            (" 1.5us ", "1.5", "us"),
            ("-3Gbps", "-3", "Gbps"),
            ("1-3", "1", "-3"),
            ("µs", "", "µs"),
        ] {
            assert_eq!(split(text), (number.to_owned(), unit), "{text}");
        }
        assert_eq!(
            ["ns", "KiB", "Gbps", "", "x"].map(base_units),
            [Some(1000), Some(8192), Some(1_000_000_000), None, None]
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, part) in [
            ("40", "no unit"),
            ("40gbps", "the unit \"gbps\", not one of bps, kbps, Mbps"),
            ("-3Gbps", "zero or more"),
            ("+3Gbps", "zero or more"),
            ("0.3bps", "whole number of bps"),
            ("1.2.3Gbps", "not a decimal"),
            ("99999999999Tbps", "too large"),
            ("", "does not start with a number"),
            (".", "no unit"),
            (".Gbps", "not a decimal"),
        ] {
            let message = text.parse::<Rate>().unwrap_err().to_string();
            assert!(message.contains(part), "{text}: {message}");
            assert!(message.contains("40Gbps"), "{message}");
        }
    }

    #[test]
    fn decimals_are_exact() {
        for (text, ratio) in [
            ("0.0000002", (2, 10_000_000)),
            ("2e-7", (2, 10_000_000)),
            ("20E-8", (2, 10_000_000)),
            (" 1_000.50 ", (10_005, 10)),
            ("1e9", (1_000_000_000, 1)),
            ("0", (0, 1)),
            (".5", (5, 10)),
            // A float holds 16 of these digits.
            ("0.123456789012345678", (123_456_789_012_345_678, 1_000_000_000_000_000_000)),
        ] {
            assert_eq!(text.parse::<Decimal>().unwrap().ratio(), ratio, "{text}");
        }
        for text in
            ["", ".", "-1", "+1", "1.2.3", "1e", "e3", "0x10", "inf", "NaN", "1e30", "1e-30", "1234567890123456789"]
        {
            assert!(text.parse::<Decimal>().is_err(), "{text}");
        }
        for text in ["1e99999999999999999999", "1e9223372036854775807", "1e-9223372036854775808"] {
            assert!(text.parse::<Decimal>().is_err(), "{text}");
        }
        assert_eq!("2e-7".parse::<Decimal>().unwrap().to_string(), "0.0000002");
    }

    #[test]
    fn packet_rates_have_prefixes() {
        for (text, ratio) in [
            ("2M", (2_000_000, 1)),
            ("100k", (100_000, 1)),
            ("0.5", (5, 10)),
            ("1", (1, 1)),
            ("1 pps", (1, 1)),
            ("1.5 Mpps", (1_500_000, 1)),
            ("0.0005k", (5, 10)),
            ("1000G", (1_000_000_000_000, 1)),
        ] {
            assert_eq!(text.parse::<PacketRate>().unwrap().ratio(), ratio, "{text}");
        }
        for text in ["", "0", "M", "pps", "2X", "2Mbps", "-1", "2m", "1001G", "1e-10", "1.0000000001", "2 000"] {
            let message = text.parse::<PacketRate>().unwrap_err().to_string();
            assert!(message.contains("100k"), "{message}");
        }
        assert_eq!("2M".parse::<PacketRate>().unwrap().to_string(), "2000000pps");
    }

    proptest! {
        #[test]
        fn decimals_print_as_they_are(digits in 0u64..1_000_000_000_000_000_000, places in 0u32..10) {
            let number = Decimal::read(&digits.to_string(), -i64::from(places)).unwrap();
            let (numerator, denominator) = number.ratio();
            prop_assert_eq!(numerator * 10u128.pow(places), u128::from(digits) * denominator);
            prop_assert_eq!(number.to_string().parse::<Decimal>().unwrap(), number);
        }

        #[test]
        fn printing_and_parsing_agree(value in 0..=i64::MAX as u64) {
            prop_assert_eq!(Rate(value).to_string().parse::<Rate>().unwrap(), Rate(value));
            prop_assert_eq!(Size(value).to_string().parse::<Size>().unwrap(), Size(value));
            prop_assert_eq!(Span(value).to_string().parse::<Span>().unwrap(), Span(value));
        }

        #[test]
        fn round_values_too(value in 0u64..10_000, power in 0u32..12) {
            let span = Span(value * 10u64.pow(power));
            prop_assert_eq!(span.to_string().parse::<Span>().unwrap(), span);
        }

        #[test]
        fn no_text_panics(text in ".*") {
            let _ = (text.parse::<Rate>(), text.parse::<Size>(), text.parse::<Span>());
            let _ = (text.parse::<Decimal>(), text.parse::<PacketRate>());
        }
    }
}
