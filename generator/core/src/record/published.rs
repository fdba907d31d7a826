//! Published values of `[paper]`, and the precision with which they are printed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One published row: `[[paper.rows]]`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// Labels of the runs to which it applies.
    pub at: BTreeMap<String, String>,
    /// Table or section.
    pub source: String,
    /// Metric → published value, in the metric's unit.
    pub values: BTreeMap<String, f64>,
    /// Metric → half of the unit of the last digit of its value, as the experiment file has it (`half_digit`). Files of older versions
    /// have none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub precision: BTreeMap<String, f64>,
    /// Set if the values are bounds: the text says "more than" or "less than".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<Bound>,
}

impl Published {
    /// Adds the value of `metric`, whose printed form is `text`.
    pub fn insert(&mut self, metric: &str, value: f64, text: &str) {
        self.values.insert(metric.to_owned(), value);
        self.precision.insert(metric.to_owned(), half_digit(text));
    }

    /// Returns the least and the most that the printed value of `metric` stands for; `None` without a value.
    pub fn printed(&self, metric: &str) -> Option<(f64, f64)> {
        let value = *self.values.get(metric)?;
        let half = self.half(metric)?;
        Some((value - half, value + half))
    }

    /// Returns half of the unit of the last digit of the value of `metric`; `None` without a value.
    pub fn half(&self, metric: &str) -> Option<f64> {
        let value = *self.values.get(metric)?;
        Some(self.precision.get(metric).copied().unwrap_or_else(|| half_of_shortest(value)))
    }
}

/// Returns half of the unit of the last digit of a number as it is written: 0.005 for 1.60, half a million for 1714e6.
fn half_digit(text: &str) -> f64 {
    let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let decimals = digits.split_once('.').map_or(0, |(_, decimals)| decimals.len()) as i32;
    0.5 * 10f64.powi(exponent.parse::<i32>().unwrap_or(0).saturating_sub(decimals))
}

/// The same of a number of which the text is not known: that of its shortest form. Below 1 at most half a hundredth, since 0.9 may have
/// been 90 %; whole millions may have been written with an exponent.
fn half_of_shortest(value: f64) -> f64 {
    let half = half_digit(&value.to_string());
    if value.fract() != 0.0 {
        return if value.abs() < 1.0 { half.min(0.005) } else { half };
    }
    let mut unit = 1.0;
    while value.abs() >= 1e6 && value.abs() >= 1000.0 * unit && value % (1000.0 * unit) == 0.0 {
        unit *= 1000.0;
    }
    half * unit
}

/// The side of a published bound on which the true value lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// More than it.
    Above,
    /// Less than it.
    Below,
}

impl Bound {
    /// Returns the sign that reports put before the value.
    pub const fn sign(bound: Option<Bound>) -> &'static str {
        match bound {
            None => "",
            Some(Bound::Above) => "> ",
            Some(Bound::Below) => "< ",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_close(half: f64, wanted: f64) -> bool {
        (half / wanted - 1.0).abs() < 1e-9
    }

    #[test]
    fn the_last_digit_is_that_of_the_text() {
        for (text, half) in [
            ("1.60", 0.005),
            ("1.6", 0.05),
            ("2.0", 0.05),
            ("0.88", 0.005),
            ("0.9", 0.05),
            ("0.045", 0.0005),
            ("-7.43", 0.005),
            ("6109", 0.5),
            ("6000", 0.5),
            ("1714e6", 0.5e6),
            ("1.70E+3", 5.0),
            ("5e-4", 0.5e-4),
        ] {
            assert!(is_close(half_digit(text), half), "{text}: {}", half_digit(text));
        }
    }

    #[test]
    fn a_value_without_a_text_has_the_digits_of_its_shortest_form() {
        for (value, half) in [(1.6, 0.05), (0.9, 0.005), (0.045, 0.0005), (6000.0, 0.5), (1714e6, 0.5e6), (6e9, 0.5e9)]
        {
            let row = Published { values: BTreeMap::from([("loss".to_owned(), value)]), ..Published::default() };
            assert!(row.half("loss").is_some_and(|found| is_close(found, half)), "{value}: {:?}", row.half("loss"));
        }
        let mut row = Published::default();
        row.insert("loss", 1.6, "1.60");
        let (least, most) = row.printed("loss").unwrap();
        assert!((least - 1.595).abs() < 1e-12 && (most - 1.605).abs() < 1e-12, "{least} {most}");
        assert_eq!((row.half("received"), row.printed("received")), (None, None));
        let json = serde_json::to_string(&row).unwrap();
        assert_eq!(serde_json::from_str::<Published>(&json).unwrap(), row);
    }
}
