//! The definition of a number in results: name, unit, labels, description, timing, and which direction is better.
//!
//! A number is defined beside the code that makes it: the metrics of analysis, and studies. `pktgen explain` and
//! docs/schema.md print definitions, and keys of reports follow from them.

use serde::{Deserialize, Serialize};

/// The direction in which values of a metric are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Lower ones.
    Lower,
    /// Higher ones.
    Higher,
    /// Descriptive, or dependent on the experiment.
    Neither,
}

impl Better {
    /// Returns the printed name.
    pub const fn name(self) -> &'static str {
        match self {
            Better::Lower => "lower",
            Better::Higher => "higher",
            Better::Neither => "neither",
        }
    }
}

/// The clocks by which a time is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Timing {
    /// One clock, or clocks of one host.
    OneClock,
    /// From a time at a worker to one at a server: the value is as wrong as their clocks are apart.
    OneWay,
}

impl Timing {
    /// Returns the printed name.
    pub const fn name(self) -> &'static str {
        match self {
            Timing::OneClock => "one clock",
            Timing::OneWay => "one-way",
        }
    }
}

/// A label, which distinguishes lines of one metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Label {
    /// Its name.
    pub name: &'static str,
    /// Its values; empty if they are not known beforehand.
    pub values: &'static [&'static str],
    /// Its description.
    pub about: &'static str,
    /// Whether lines without it exist.
    pub optional: bool,
}

/// Labels that do not become part of keys: their lines are about one cluster, one worker or one bin of a histogram.
const UNKEYED: [&str; 2] = ["id", "n"];

impl Label {
    /// A label on every line, with any value.
    pub const fn new(name: &'static str, about: &'static str) -> Label {
        Label { name, values: &[], about, optional: false }
    }

    /// A label on every line, with one of these values.
    pub const fn one_of(name: &'static str, values: &'static [&'static str], about: &'static str) -> Label {
        Label { name, values, about, optional: false }
    }

    /// Returns the same label, on some lines only.
    pub const fn optional(self) -> Label {
        Label { optional: true, ..self }
    }

    fn takes(&self, value: &str) -> bool {
        self.values.is_empty() || self.values.contains(&value)
    }
}

/// The definition of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Definition {
    /// Its name.
    pub metric: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The labels of its lines.
    pub labels: &'static [Label],
    /// The definition as text.
    pub definition: &'static str,
    /// Which direction is better.
    pub better: Better,
    /// By which clocks it is measured; `None` of what is no time in ns.
    pub timing: Option<Timing>,
    /// Its source: a section of the design or of a paper; empty if it is ours.
    pub source: &'static str,
    /// What a run must record or be for this metric; empty if every run has it.
    pub needs: &'static str,
}

impl Definition {
    /// A definition without labels, timing, source and needs. A time in ns has a [timing](Self::timed).
    pub const fn new(metric: &'static str, unit: &'static str, better: Better, definition: &'static str) -> Definition {
        Definition { metric, unit, labels: &[], definition, better, timing: None, source: "", needs: "" }
    }

    /// Returns the definition with these labels.
    pub const fn labels(self, labels: &'static [Label]) -> Definition {
        Definition { labels, ..self }
    }

    /// Returns the definition of a time with the clocks by which it is measured.
    pub const fn timed(self, timing: Timing) -> Definition {
        Definition { timing: Some(timing), ..self }
    }

    /// Returns the definition with its source.
    pub const fn source(self, source: &'static str) -> Definition {
        Definition { source, ..self }
    }

    /// Returns the definition with its needs.
    pub const fn needs(self, needs: &'static str) -> Definition {
        Definition { needs, ..self }
    }

    /// Returns the labels in the order of keys.
    fn sorted(&self) -> Vec<&'static Label> {
        let mut labels: Vec<_> = self.labels.iter().collect();
        labels.sort_by_key(|label| label.name);
        labels
    }

    /// Returns the keys of its lines that reports can tabulate, as far as they are known beforehand.
    pub fn keys(&self) -> Vec<String> {
        let mut keys = vec![self.metric.to_owned()];
        for label in self.sorted() {
            let values = if UNKEYED.contains(&label.name) { &[] } else { label.values };
            let longer = keys.iter().flat_map(|key| values.iter().map(move |value| format!("{key}/{value}")));
            let longer: Vec<String> = longer.collect();
            if !label.optional {
                keys.clear();
            }
            keys.extend(longer);
        }
        keys
    }

    /// Returns whether a line of this metric may have this key.
    pub fn has_key(&self, key: &str) -> bool {
        let mut parts = key.split('/');
        parts.next() == Some(self.metric) && matches(&self.sorted(), &parts.collect::<Vec<_>>())
    }

    /// Returns whether a line with this unit and these labels (names and values) conforms to the definition.
    pub fn covers(&self, metric: &str, unit: &str, labels: &[(&str, &str)]) -> bool {
        let declared =
            |(name, value): &(&str, &str)| self.labels.iter().any(|label| label.name == *name && label.takes(value));
        let given = |label: &Label| label.optional || labels.iter().any(|(name, _)| *name == label.name);
        self.metric == metric && self.unit == unit && labels.iter().all(declared) && self.labels.iter().all(given)
    }
}

fn matches(labels: &[&Label], parts: &[&str]) -> bool {
    let Some((label, rest)) = labels.split_first() else { return parts.is_empty() };
    let taken = || {
        let (part, parts) = parts.split_first()?;
        Some(!UNKEYED.contains(&label.name) && label.takes(part) && matches(rest, parts))
    };
    (label.optional && matches(rest, parts)) || taken().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOW: Label = Label::one_of("flow", &["cluster", "worker"], "whose");
    const AGE: Definition = Definition::new("age", "ns", Better::Lower, "An age.").labels(&[
        Label::new("id", "which").optional(),
        FLOW,
        Label::new("group", "of which").optional(),
    ]);

    const SOMETIMES: Definition = AGE.labels(&[FLOW.optional()]);
    const ONE: Definition = AGE.labels(&[FLOW, Label::new("id", "which")]);

    #[test]
    fn keys_follow_from_labels() {
        assert_eq!(AGE.keys(), ["age/cluster", "age/worker"]);
        assert_eq!(SOMETIMES.keys(), ["age", "age/cluster", "age/worker"]);
        assert!(ONE.keys().is_empty());
        for (key, has) in [
            ("age/cluster", true),
            ("age/cluster/S1", true),
            ("age/S1/cluster", false),
            ("age/rack", false),
            ("age", false),
            ("ages/cluster", false),
        ] {
            assert_eq!(AGE.has_key(key), has, "{key}");
        }
    }

    #[test]
    fn lines_are_covered_with_their_unit_and_declared_labels_only() {
        assert!(AGE.covers("age", "ns", &[("flow", "worker"), ("id", "3")]));
        for (metric, unit, labels) in [
            ("age", "ps", &[("flow", "worker")][..]),
            ("ages", "ns", &[("flow", "worker")]),
            ("age", "ns", &[("flow", "rack")]),
            ("age", "ns", &[("flow", "worker"), ("n", "3")]),
            ("age", "ns", &[("id", "3")]),
        ] {
            assert!(!AGE.covers(metric, unit, labels), "{metric} {unit} {labels:?}");
        }
    }
}
