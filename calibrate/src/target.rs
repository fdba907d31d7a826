//! A target: a metric, the value that it should have, and how well that value is known.

use std::collections::{BTreeMap, HashSet};

use pktgen_core::config::Value;
use pktgen_core::record::{Bound, Published};
use pktgen_core::{Error, Result};
use pktgen_records::stats::mean;
use pktgen_report::sweep::data::{canonical_labels, is_at};

/// Axis → value of the runs that a target belongs to.
pub type PointLabels = BTreeMap<String, String>;

/// A metric of one point of the experiment, and what it should be.
#[derive(Debug, Clone, PartialEq)]
pub struct TargetValue {
    /// The metric, as reports name it.
    pub metric: String,
    /// The point's labels, or those of them that tell it from others.
    pub at: PointLabels,
    /// The target's value.
    pub value: f64,
    /// The value is a bound only.
    pub bound: Option<Bound>,
    /// How well it is known.
    pub known: Known,
    /// Its weight.
    pub weight: f64,
}

/// How well the value of a target is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Known {
    /// The mean of so many runs, with their standard deviation.
    Repeats {
        /// How many.
        n: usize,
        /// Their standard deviation.
        deviation: f64,
    },
    /// One run, of which it is not known how far runs differ: as far as those of the twin.
    Once,
    /// A printed number: one run, to within this much.
    Printed {
        /// Half of the unit of its last digit.
        half: f64,
    },
}

impl TargetValue {
    /// Returns its name: the metric, and the point.
    pub fn name(&self) -> String {
        named(&self.metric, &self.at)
    }

    /// Returns the targets of published rows: every value of every row.
    pub fn published(rows: &[Published]) -> Vec<TargetValue> {
        let of = |row: &Published| {
            let (at, bound) = (row.at.clone(), row.bound);
            let target = move |(metric, value): (&String, &f64)| TargetValue {
                metric: metric.clone(),
                at: at.clone(),
                value: *value,
                bound,
                known: Known::Printed { half: row.half(metric).unwrap_or_default() },
                weight: 1.0,
            };
            row.values.iter().map(target).collect::<Vec<_>>()
        };
        rows.iter().flat_map(of).collect()
    }

    /// Returns the target of the values of repeated runs.
    pub(crate) fn measured(metric: &str, at: &PointLabels, values: &[f64]) -> Option<TargetValue> {
        let value = mean(values)?;
        let squares: f64 = values.iter().map(|it| (it - value).powi(2)).sum();
        let n = values.len();
        let known = match n {
            1 => Known::Once,
            _ => Known::Repeats { n, deviation: (squares / (n - 1) as f64).sqrt() },
        };
        Some(TargetValue { metric: metric.to_owned(), at: at.clone(), value, bound: None, known, weight: 1.0 })
    }
}

/// A target in `[[calibrate.targets]]`: missing information comes from the measured or published values.
#[derive(Debug, Clone, PartialEq)]
pub struct WantedTarget {
    /// The metric.
    pub metric: String,
    /// Labels of its point.
    pub at: PointLabels,
    value: Option<f64>,
    deviation: Option<f64>,
    repeats: Option<usize>,
    precision: Option<f64>,
    weight: f64,
}

impl WantedTarget {
    /// Reads an entry of `[[calibrate.targets]]`.
    pub(crate) fn read(table: Vec<(String, Value)>, place: &str) -> Result<Self> {
        let mut wanted = WantedTarget {
            metric: String::new(),
            at: PointLabels::new(),
            value: None,
            deviation: None,
            repeats: None,
            precision: None,
            weight: 1.0,
        };
        for (name, value) in table {
            let number = match &value {
                Value::Integer(n) => Some(*n as f64),
                Value::Float(x) if x.is_finite() => Some(*x),
                _ => None,
            };
            match (name.as_str(), number, &value) {
                ("metric", _, Value::Text(text)) => wanted.metric = text.clone(),
                ("value", Some(x), _) => wanted.value = Some(x),
                ("deviation", Some(x), _) if x >= 0.0 => wanted.deviation = Some(x),
                ("precision", Some(x), _) if x > 0.0 => wanted.precision = Some(x),
                ("weight", Some(x), _) if x > 0.0 => wanted.weight = x,
                ("repeats", Some(x), Value::Integer(_)) if x >= 1.0 => wanted.repeats = Some(x as usize),
                (name, ..) if name.starts_with("at.") => {
                    wanted.at.insert(name["at.".len()..].to_owned(), value.to_label());
                }
                (name, ..) => {
                    return Err(Error::config(format!(
                        "{place}: {name} = {}; a target has metric, and may have at, value, deviation (of single runs), repeats, \
                         precision and weight, which are positive numbers",
                        value.to_toml()
                    )));
                }
            }
        }
        if wanted.metric.is_empty() {
            return Err(Error::config(format!("{place}: a target has no metric; write metric = \"throughput_bps\"")));
        }
        let without_effect = match wanted {
            WantedTarget { repeats: Some(n), deviation: None, .. } => Some(format!(
                "repeats = {n} has no effect without deviation; add the standard deviation of single runs, or leave repeats out"
            )),
            WantedTarget { precision: Some(half), deviation: Some(_), .. } => {
                Some(format!("precision = {half} has no effect beside deviation; leave one of the two out"))
            }
            _ => None,
        };
        if let Some(why) = without_effect {
            return Err(Error::config(format!("{place}: {why}")));
        }
        Ok(wanted)
    }

    /// Returns the target, completed by `found`.
    fn with(&self, found: Option<&TargetValue>) -> Result<TargetValue> {
        let name = named(&self.metric, &self.at);
        let Some(value) = self.value.or(found.map(|target| target.value)) else {
            return Err(Error::config(format!(
                "target {name} has no value: nothing that --to names has one; write value = in [[calibrate.targets]], or take it out"
            )));
        };
        let known = match (self.deviation, self.precision, found) {
            (Some(deviation), ..) => Known::Repeats { n: self.repeats.unwrap_or(1), deviation },
            (None, Some(half), _) => Known::Printed { half },
            (None, None, Some(found)) if self.value.is_none() => found.known,
            _ => Known::Once,
        };
        let at = found.map_or(&self.at, |target| &target.at).clone();
        let bound = found.and_then(|target| target.bound);
        Ok(TargetValue { metric: self.metric.clone(), at, value, bound, known, weight: self.weight })
    }
}

/// Returns the targets of `found` that are `wanted`; all if none are. `notes` say why others were not found.
pub fn choose(wanted: &[WantedTarget], found: Vec<TargetValue>, notes: &[String]) -> Result<Vec<TargetValue>> {
    let mut targets = if wanted.is_empty() {
        found
    } else {
        let of = |wanted: &WantedTarget| {
            let fits = |target: &&TargetValue| target.metric == wanted.metric && is_at(&wanted.at, &target.at);
            let mut fitting = found.iter().filter(fits).peekable();
            match fitting.peek() {
                None => Ok(vec![wanted.with(None)?]),
                Some(_) => fitting.map(|target| wanted.with(Some(target))).collect(),
            }
        };
        wanted.iter().map(of).collect::<Result<Vec<_>>>()?.concat()
    };
    if targets.is_empty() {
        let sources =
            "give --to (paper, a run dir, a folder of runs, or a capture), or [[calibrate.targets]] with values";
        let why = match notes {
            [] => sources.to_owned(),
            [a, b, c, rest @ ..] if !rest.is_empty() => format!("{a}; {b}; {c}; and {} more", rest.len()),
            _ => notes.join("; "),
        };
        return Err(Error::config(format!("there are no targets: {why}")));
    }
    let mut seen = HashSet::new();
    for target in &mut targets {
        // Targets at one point are of the same runs, so it has one spelling.
        target.at = canonical_labels(&target.at);
        if !seen.insert(target.name()) {
            return Err(Error::config(format!("target {} is there twice", target.name())));
        }
    }
    Ok(targets)
}

/// A metric and its point, in words.
pub(crate) fn named(metric: &str, at: &PointLabels) -> String {
    let at: Vec<_> = at.iter().map(|(axis, value)| format!("{axis}={value}")).collect();
    if at.is_empty() { metric.to_owned() } else { format!("{metric} ({})", at.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_number_is_known_to_half_of_its_last_digit() {
        let mut row = Published::default();
        [("a", 6109.0, "6109"), ("b", 1.6, "1.60")]
            .into_iter()
            .for_each(|(metric, value, text)| row.insert(metric, value, text));
        let halves = TargetValue::published(&[row]).into_iter().map(|target| match target.known {
            Known::Printed { half } => half,
            other => panic!("{other:?}"),
        });
        let halves: Vec<f64> = halves.collect();
        assert!(halves[0] == 0.5 && (halves[1] - 0.005).abs() < 1e-12, "{halves:?}");
    }

    #[test]
    fn repeats_have_a_mean_and_a_deviation() {
        let target = TargetValue::measured("loss", &PointLabels::new(), &[1.0, 2.0, 3.0]).unwrap();
        assert_eq!((target.value, target.known), (2.0, Known::Repeats { n: 3, deviation: 1.0 }));
        assert_eq!(TargetValue::measured("loss", &PointLabels::new(), &[1.0]).unwrap().known, Known::Once);
        assert!(TargetValue::measured("loss", &PointLabels::new(), &[]).is_none());
    }

    #[test]
    fn what_is_wanted_completes_what_was_found() {
        let found = TargetValue::measured("loss", &PointLabels::from([("rate".into(), "1".into())]), &[0.25]).unwrap();
        let read = |entries: &[(&str, Value)]| {
            WantedTarget::read(entries.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect(), "x:1")
        };
        let heavy = read(&[("metric", "loss".into()), ("weight", Value::Integer(4))]).unwrap();
        let chosen = choose(&[heavy], vec![found.clone()], &[]).unwrap();
        assert_eq!((chosen[0].value, chosen[0].weight, chosen[0].at.len()), (0.25, 4.0, 1));
        let at = |value: &str| read(&[("metric", "loss".into()), ("at.rate", value.into())]).unwrap();
        assert_eq!(choose(&[at("1.0")], vec![found.clone()], &[]).unwrap()[0].value, 0.25, "any spelling");
        assert!(choose(&[at("2")], vec![found.clone()], &[]).is_err());
        let other = read(&[("metric", "received".into())]).unwrap();
        let message = choose(std::slice::from_ref(&other), vec![found.clone()], &[]).unwrap_err().to_string();
        assert!(message.starts_with("target received has no value"), "{message}");
        let own =
            read(&[("metric", "received".into()), ("value", Value::Integer(9)), ("deviation", Value::Integer(1))]);
        assert_eq!(choose(&[own.unwrap()], vec![], &[]).unwrap()[0].known, Known::Repeats { n: 1, deviation: 1.0 });
        let repeated = [
            ("metric", "received".into()),
            ("value", Value::Integer(9)),
            ("deviation", Value::Integer(1)),
            ("repeats", Value::Integer(4)),
        ];
        let repeated = read(&repeated).unwrap();
        assert_eq!(choose(&[repeated], vec![], &[]).unwrap()[0].known, Known::Repeats { n: 4, deviation: 1.0 });
        assert!(choose(&[], vec![], &[]).unwrap_err().to_string().contains("no targets: give --to"));
        let note = "loss was not measured and is no target".to_owned();
        let message = choose(&[], vec![], &[note]).unwrap_err().to_string();
        assert!(message.contains("no targets: loss was not measured") && !message.contains("give --to"), "{message}");
        let again = TargetValue { at: PointLabels::from([("rate".into(), "1.0".into())]), ..found.clone() };
        assert!(choose(&[], vec![found.clone(), again], &[]).unwrap_err().to_string().contains("twice"));
        assert!(choose(&[], vec![found.clone(), found], &[]).unwrap_err().to_string().contains("twice"));
        for wrong in [("weight", Value::Integer(0)), ("valu", Value::Integer(1)), ("precision", "a".into())] {
            assert!(read(&[wrong]).unwrap_err().to_string().contains("a target has metric"));
        }
        for (more, part) in [
            (vec![("repeats", Value::Integer(4))], "x:1: repeats = 4 has no effect without deviation; add the"),
            (
                vec![("precision", Value::Float(0.5)), ("deviation", Value::Integer(1))],
                "x:1: precision = 0.5 has no effect beside deviation; leave one of the two out",
            ),
        ] {
            let message = read(&[vec![("metric", "loss".into())], more].concat()).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }
}
