//! A parameter: a key of the experiment, and the values that it may have.

use pktgen_core::config::Value;
use pktgen_core::{Error, Result, units};

/// A key whose value is to be found.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// The key.
    pub key: String,
    /// The variant of the sweep to which it is limited.
    pub variant: Option<String>,
    /// Its possible values.
    pub range: ParameterRange,
}

/// The values that a parameter may have.
#[derive(Debug, Clone, PartialEq)]
pub enum ParameterRange {
    /// Numbers.
    Numbers(NumberRange),
    /// One of these.
    Choices(Vec<Value>),
}

impl ParameterRange {
    /// Returns the number of choices; numbers count as one.
    fn ways(&self) -> usize {
        match self {
            ParameterRange::Numbers(_) => 1,
            ParameterRange::Choices(choices) => choices.len(),
        }
    }
}

/// A range of numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct NumberRange {
    /// The least.
    pub from: f64,
    /// The greatest.
    pub to: f64,
    /// The unit after the number.
    pub unit: String,
    /// Whether steps are factors.
    pub log: bool,
    /// Whether only whole numbers are permitted.
    pub whole: bool,
}

impl Parameter {
    /// Returns its name: its key, and the variant.
    pub fn name(&self) -> String {
        match &self.variant {
            None => self.key.clone(),
            Some(variant) => format!("{} ({variant})", self.key),
        }
    }

    /// Its numbers, unless it is a choice.
    pub fn numbers(&self) -> Option<&NumberRange> {
        match &self.range {
            ParameterRange::Numbers(numbers) => Some(numbers),
            ParameterRange::Choices(_) => None,
        }
    }

    /// Reads an entry of `[[calibrate.parameters]]`; `place` says where it stands.
    pub(crate) fn read(table: Vec<(String, Value)>, place: &str) -> Result<Self> {
        let (mut key, mut variant, mut choices, mut scale) = (None, None, None, None);
        let mut ends = [None, None];
        for (name, value) in table {
            match (name.as_str(), value) {
                ("key", Value::Text(text)) => key = Some(text),
                ("variant", Value::Text(text)) => variant = Some(text),
                ("scale", Value::Text(text)) if ["linear", "log"].contains(&text.as_str()) => scale = Some(text),
                ("choices", Value::List(items)) if !items.is_empty() => {
                    choices = Some(items.into_iter().map(|item| item.value).collect::<Vec<_>>());
                }
                ("from", value) => ends[0] = Some(value),
                ("to", value) => ends[1] = Some(value),
                (name, value) => {
                    return Err(Error::config(format!(
                        "{place}: {name} = {}; a parameter has key, from and to (or choices, a list), and may have scale (\"linear\" or \
                         \"log\") and variant",
                        value.to_toml()
                    )));
                }
            }
        }
        let Some(key) = key else {
            return Err(Error::config(format!("{place}: a parameter has no key; write key = \"target.slots\"")));
        };
        let range = match (choices, ends) {
            (Some(_), [None, None]) if scale.is_some() => {
                return Err(Error::config(format!("{place}: {key}: scale has no effect on choices; leave it out")));
            }
            (Some(choices), [None, None]) => ParameterRange::Choices(choices),
            (None, [Some(from), Some(to)]) => {
                ParameterRange::Numbers(NumberRange::read(&from, &to, scale.as_deref() == Some("log")).map_err(
                    |why| Error::config(format!("{place}: {key} from {} to {}: {why}", from.to_toml(), to.to_toml())),
                )?)
            }
            _ => {
                return Err(Error::config(format!(
                    "{place}: {key} has no range; write from = and to =, or choices = [...]"
                )));
            }
        };
        Ok(Parameter { key, variant, range })
    }
}

impl NumberRange {
    fn read(from: &Value, to: &Value, log: bool) -> std::result::Result<Self, String> {
        let whole = matches!((from, to), (Value::Integer(_), Value::Integer(_)));
        let ((from, unit), (to, other)) = (number(from)?, number(to)?);
        if unit != other {
            return Err(format!("\"{unit}\" and \"{other}\" are two units; write both ends in one"));
        }
        if from.partial_cmp(&to) != Some(std::cmp::Ordering::Less) {
            return Err("the first must be below the second".to_owned());
        }
        if log && from <= 0.0 {
            return Err("a logarithmic scale begins above 0".to_owned());
        }
        if let Some(places) = binary_places(&unit, to) {
            let (least, most) = places_between(from, to, places);
            if most - least < 2.0 {
                return Err(
                    "there are fewer than three sizes between the two; write both in B, or the sizes as choices = [...]".to_owned()
                );
            }
        }
        Ok(NumberRange { from, to, unit, log, whole })
    }

    /// Returns the unrounded number at a share of the range.
    pub(crate) fn exact(&self, share: f64) -> f64 {
        match self.log {
            true => (self.from.ln() + share * (self.to / self.from).ln()).exp(),
            false => self.from + share * (self.to - self.from),
        }
    }

    /// Returns the number at a share of the range, as written.
    pub fn at(&self, share: f64) -> f64 {
        let number = self.exact(share);
        if self.whole {
            return number.round();
        }
        // Rounded as written, so that a setting and its text are equal.
        match binary_places(&self.unit, self.to) {
            Some(places) => {
                let steps = 2f64.powi(places);
                let (least, most) = places_between(self.from, self.to, places);
                (number * steps).round().max(least).min(most) / steps
            }
            None => rounded(number, (self.to - self.from).abs().max(self.to.abs()), decimal_places(&self.unit)),
        }
    }

    /// Returns the share of the range at a number.
    pub fn share(&self, number: f64) -> f64 {
        match self.log {
            true => (number / self.from).ln() / (self.to / self.from).ln(),
            false => (number - self.from) / (self.to - self.from),
        }
    }

    /// A number as a value of the key.
    pub fn value(&self, number: f64) -> Value {
        match (self.whole, self.unit.is_empty()) {
            (true, _) => Value::Integer(number as i64),
            (false, true) => Value::Float(number),
            (false, false) => Value::Text(format!("{number}{}", self.unit)),
        }
    }

    /// A number with its unit.
    pub fn show(&self, number: f64) -> String {
        format!("{number}{}", self.unit)
    }
}

/// Maximum number of digits of a decimal that a float has exactly.
const DIGITS: i32 = 15;

/// Returns the decimal places that numbers of a unit can have: times are whole ps, sizes whole bits, rates whole bit/s.
fn decimal_places(unit: &str) -> i32 {
    let Some(factor) = units::base_units(unit) else { return 300 };
    let tenths = std::iter::successors(Some(factor), |factor| (factor % 10 == 0).then_some(factor / 10));
    tenths.count() as i32 - 1
}

/// Returns the binary places of numbers up to `most` of KiB, MiB or GiB, none for other units: sizes are whole bytes, and a number has as
/// many decimal as binary places, which must be exact.
fn binary_places(unit: &str, most: f64) -> Option<i32> {
    let bytes = units::base_units(unit).filter(|_| unit.ends_with("iB"))? / 8;
    let before = most.abs().log10().floor() as i32 + 1;
    Some(DIGITS.saturating_sub(before).clamp(0, bytes.trailing_zeros() as i32))
}

/// Returns the first and the last number from `from` to `to` with so many binary places, in units of the last place.
fn places_between(from: f64, to: f64, places: i32) -> (f64, f64) {
    let steps = 2f64.powi(places);
    ((from * steps).ceil(), (to * steps).floor())
}

/// Rounds to a millionth of `size`, or six digits, whichever is finer, with at most `most` decimal places.
fn rounded(number: f64, size: f64, most: i32) -> f64 {
    let finest = size.min(number.abs().max(size * 1e-6));
    let digits = ((6.0 - finest.log10().floor()).clamp(-300.0, 300.0) as i32).min(most);
    let factor = 10f64.powi(digits);
    let text = format!("{:.*}", usize::try_from(digits).unwrap_or(0), number);
    if digits >= 0 { text.parse().unwrap_or(number) } else { (number * factor).round() / factor }
}

/// Splits a value into a number and its unit.
fn number(value: &Value) -> std::result::Result<(f64, String), String> {
    match value {
        Value::Integer(n) => Ok((*n as f64, String::new())),
        Value::Float(x) if x.is_finite() => Ok((*x, String::new())),
        Value::Text(text) => {
            let (number, unit) = units::split(text);
            let number = number.parse().map_err(|_| format!("\"{text}\" does not begin with a number"))?;
            Ok((number, unit.to_owned()))
        }
        other => Err(format!("{} is no number", other.to_toml())),
    }
}

/// Ranges and choices of all parameters: a setting is a share of each range, and a place in each list of choices.
#[derive(Debug, Clone, PartialEq)]
pub struct Space {
    /// The parameters, in the order of the file.
    pub parameters: Vec<Parameter>,
}

/// A setting of all parameters: for each the number, or the place of its choice.
pub type Setting = Vec<f64>;

impl Space {
    /// Those of `parameters` that are numbers, by their places.
    pub(crate) fn numbers(&self) -> Vec<usize> {
        (0..self.parameters.len()).filter(|i| self.parameters[*i].numbers().is_some()).collect()
    }

    /// Returns the number of combinations of choices; none if it overflows.
    pub(crate) fn ways(&self) -> Option<usize> {
        self.parameters.iter().try_fold(1usize, |ways, parameter| ways.checked_mul(parameter.range.ways()))
    }

    /// Returns every combination of choices: for each parameter the place of its choice, 0 for numbers.
    pub(crate) fn choices(&self) -> Vec<Vec<usize>> {
        let mut all = vec![Vec::new()];
        for parameter in &self.parameters {
            let n = parameter.range.ways();
            all = all
                .iter()
                .flat_map(|before| (0..n).map(move |i| before.iter().copied().chain([i]).collect::<Vec<usize>>()))
                .collect();
        }
        all
    }

    /// The setting with these choices, at these shares of the numbers' ranges.
    pub(crate) fn setting(&self, choice: &[usize], shares: &[f64]) -> Setting {
        let mut shares = shares.iter();
        self.parameters
            .iter()
            .zip(choice)
            .map(|(parameter, place)| match &parameter.range {
                ParameterRange::Numbers(numbers) => numbers.at(shares.next().copied().unwrap_or(0.5).clamp(0.0, 1.0)),
                ParameterRange::Choices(_) => *place as f64,
            })
            .collect()
    }

    /// The shares of the numbers of a setting.
    pub(crate) fn shares(&self, setting: &[f64]) -> Vec<f64> {
        self.parameters
            .iter()
            .zip(setting)
            .filter_map(|(parameter, number)| parameter.numbers().map(|numbers| numbers.share(*number)))
            .collect()
    }

    /// A setting as values of the keys.
    pub fn values(&self, setting: &[f64]) -> Vec<Value> {
        self.parameters
            .iter()
            .zip(setting)
            .map(|(parameter, number)| match &parameter.range {
                ParameterRange::Numbers(numbers) => numbers.value(*number),
                ParameterRange::Choices(choices) => choices[(*number as usize).min(choices.len() - 1)].clone(),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pktgen_core::units::{Rate, Size, Span};

    fn read(entries: &[(&str, Value)]) -> Result<Parameter> {
        Parameter::read(entries.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect(), "x.toml:3")
    }

    #[test]
    fn numbers_keep_their_unit_and_their_digits() {
        let gap = read(&[("key", "a.gap".into()), ("from", "0ns".into()), ("to", "50 ns".into())]).unwrap();
        let gap = gap.numbers().unwrap();
        assert_eq!(gap.value(gap.at(0.306_131_7)), Value::Text("15.307ns".into()));
        assert!((gap.share(gap.at(0.25)) - 0.25).abs() < 1e-9);
        let rate =
            read(&[("key", "a.rate".into()), ("from", "10_000 Mbps".into()), ("to", "80_000Mbps".into())]).unwrap();
        let rate = rate.numbers().unwrap();
        assert_eq!((rate.from, rate.value(rate.at(0.5))), (10_000.0, Value::Text("45000Mbps".into())));
        let slots = read(&[
            ("key", "a.slots".into()),
            ("from", Value::Integer(2)),
            ("to", Value::Integer(128)),
            ("scale", "log".into()),
        ])
        .unwrap();
        let slots = slots.numbers().unwrap();
        assert_eq!((slots.at(0.0), slots.at(0.5), slots.at(1.0)), (2.0, 16.0, 128.0));
        assert_eq!(slots.value(16.0), Value::Integer(16));
        let large = NumberRange { from: 0.0, to: 3e9, unit: "bps".into(), log: false, whole: false };
        assert_eq!(large.at(1.0 / 3.0), 1e9);
        let small = NumberRange { from: 1e-9, to: 1e-3, unit: String::new(), log: true, whole: false };
        assert!((small.at(0.5) / 1e-6 - 1.0).abs() < 1e-5);
    }

    #[test]
    fn numbers_of_every_unit_are_whole_in_the_base_unit() {
        for unit in ["ps", "ns", "us", "ms", "s", "min", "h"] {
            let range = NumberRange { from: 0.0, to: 0.005, unit: unit.into(), log: false, whole: false };
            let text = range.show(range.at(0.000_123_456_78));
            assert!(text.parse::<Span>().is_ok(), "{text}");
        }
        for unit in ["bps", "kbps", "Mbps", "Gbps", "Tbps"] {
            let range = NumberRange { from: 0.0, to: 0.005, unit: unit.into(), log: false, whole: false };
            let text = range.show(range.at(0.000_123_456_78));
            assert!(text.parse::<Rate>().is_ok(), "{text}");
        }
        for unit in ["bit", "B", "kB", "KiB", "MB", "MiB", "GB", "GiB"] {
            for (from, to) in [(1.1, 3.4), (0.002, 0.4), (3.0, 70_000.5)] {
                let range = NumberRange { from, to, unit: unit.into(), log: false, whole: false };
                for share in [0.0, 0.123_456_78, 0.5, 0.77, 1.0] {
                    let number = range.at(share);
                    let text = range.show(number);
                    assert!(text.parse::<Size>().is_ok(), "{text}");
                    let [near, within] = [(number - range.exact(share)).abs() < 1e-3, (from..=to).contains(&number)];
                    assert!(!unit.ends_with("iB") || (near && within), "{text}");
                }
            }
        }
    }

    #[test]
    fn what_is_no_range_is_refused_by_its_name() {
        let key = ("key", Value::from("a.b"));
        let choices = Value::from(["x", "y"].as_slice());
        for (entries, part) in [
            (vec![("from", Value::Integer(1))], "has no key"),
            (vec![key.clone()], "a.b has no range; write from = and to ="),
            (vec![key.clone(), ("from", Value::Integer(1))], "a.b has no range"),
            (vec![key.clone(), ("from", "1ns".into()), ("to", "2us".into())], "\"ns\" and \"us\" are two units"),
            (vec![key.clone(), ("from", Value::Integer(3)), ("to", Value::Integer(3))], "the first must be below"),
            (
                vec![key.clone(), ("from", Value::Integer(0)), ("to", Value::Integer(3)), ("scale", "log".into())],
                "begins above 0",
            ),
            (vec![key.clone(), ("from", "fast".into()), ("to", "2".into())], "does not begin with a number"),
            (
                vec![key.clone(), ("choices", choices), ("scale", "log".into())],
                "x.toml:3: a.b: scale has no effect on choices",
            ),
            (vec![key.clone(), ("from", "0.000001GiB".into()), ("to", "0.000003GiB".into())], "write both in B"),
            (
                vec![key.clone(), ("from", "0.2500001KiB".into()), ("to", "0.2500009KiB".into())],
                "fewer than three sizes",
            ),
            (vec![key, ("step", Value::Integer(1))], "x.toml:3: step = 1; a parameter has"),
        ] {
            let message = read(&entries).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn every_choice_is_combined_with_every_other() {
        let choices = |n: i64| ParameterRange::Choices((0..n).map(Value::Integer).collect());
        let of = |key: &str, range| Parameter { key: key.into(), variant: None, range };
        let numbers = NumberRange { from: 0.0, to: 10.0, unit: String::new(), log: false, whole: true };
        let parameters = vec![of("a", choices(2)), of("b", ParameterRange::Numbers(numbers)), of("c", choices(3))];
        let space = Space { parameters };
        assert_eq!(space.choices().len(), 6);
        let setting = space.setting(&[1, 0, 2], &[0.42]);
        assert_eq!(setting, [1.0, 4.0, 2.0]);
        assert_eq!(space.shares(&setting), [0.4]);
        assert_eq!(space.values(&setting), [Value::Integer(1), Value::Integer(4), Value::Integer(2)]);
    }
}
