//! A measured value, and lines as a table.
//!
//! The format is design §5: `{"metric":"aom_mean","unit":"ns","value":…,"labels":{"flow":"cluster","id":3}}`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use pktgen_core::Result;
use pktgen_core::definition::Definition;
use pktgen_core::user_metric::UserMetric;
use polars::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::labels::NUMBERS;
use crate::table;

/// Unit of lines: nanoseconds.
pub const NS: &str = "ns";
/// Unit of lines: a share from 0 to 1.
pub const SHARE: &str = "share";
/// Unit of lines: updates (attempts).
pub const UPDATES: &str = "updates";
/// Unit of lines: packets on the last link.
pub const PACKETS: &str = "packets";

/// A measured value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Name of the metric.
    pub metric: Cow<'static, str>,
    /// Its unit.
    pub unit: Cow<'static, str>,
    /// The value; `None` if it is undefined, such as the mean of nothing.
    pub value: Option<f64>,
    /// Labels: `flow`, `id`, `reason`, `n`, `traffic`, `job`, `counter`; `run` if there are several runs.
    pub labels: BTreeMap<String, Value>,
}

impl Line {
    /// Creates a line without labels.
    pub fn new(metric: &'static str, unit: &'static str, value: impl Into<Option<f64>>) -> Line {
        // JSON has no infinities; null means "undefined".
        let value = value.into().filter(|value: &f64| value.is_finite());
        Line { metric: Cow::Borrowed(metric), unit: Cow::Borrowed(unit), value, labels: BTreeMap::new() }
    }

    /// Creates a line of this metric, without labels.
    pub fn of(definition: &Definition, value: impl Into<Option<f64>>) -> Line {
        Line::new(definition.metric, definition.unit, value)
    }

    /// Creates a line of an experiment's own metric, without labels.
    pub fn of_user(metric: &UserMetric, value: impl Into<Option<f64>>) -> Line {
        let value = value.into().filter(|value: &f64| value.is_finite());
        let (metric, unit) = (Cow::Owned(metric.name.clone()), Cow::Owned(metric.unit.clone()));
        Line { metric, unit, value, labels: BTreeMap::new() }
    }

    /// Adds a label.
    pub fn with(mut self, label: &str, value: impl Into<Value>) -> Line {
        self.labels.insert(label.to_owned(), value.into());
        self
    }

    /// Returns the key of the line in reports: the metric with its `flow`, `reason`, `traffic`, `job` or `counter` after a slash. `None`
    /// for lines about one cluster, one worker or one bin of a histogram, which reports do not list.
    pub fn key(&self) -> Option<String> {
        let mut key = self.metric.to_string();
        for (label, value) in &self.labels {
            match (label.as_str(), value) {
                ("id" | "n", _) => return None,
                (_, Value::String(text)) => key = format!("{key}/{text}"),
                (_, other) => key = format!("{key}/{other}"),
            }
        }
        Some(key)
    }

    /// Whether `definition` defines this line. The label `run` distinguishes several runs and is ignored.
    pub fn is_of(&self, definition: &Definition) -> bool {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let labels = self.labels.iter().filter(|(name, _)| *name != "run");
        let labels: Vec<(&str, String)> = labels.map(|(name, value)| (name.as_str(), text(value))).collect();
        let labels: Vec<(&str, &str)> = labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
        definition.covers(&self.metric, &self.unit, &labels)
    }

    /// Formats the line as one JSON object.
    pub fn to_json(&self) -> String {
        // Strings, numbers and a map with string keys: serialisation cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Labels with a column of their own: all but those of an experiment's own metrics.
const COLUMNS: [&str; 16] = [
    "flow",
    "id",
    "n",
    "reason",
    "traffic",
    "job",
    "counter",
    "side",
    "format",
    "kind",
    "link",
    "direction",
    "end",
    "tenth",
    "group",
    "run",
];

/// Returns the labels that no column holds, as `name=value`s; `None` if there are none.
fn others(line: &Line) -> Option<String> {
    // A column of numbers holds no text, and one of text no numbers.
    let held = |name: &str, value: &Value| {
        if NUMBERS.contains(&name) { value.is_u64() } else { COLUMNS.contains(&name) && value.is_string() }
    };
    let others = line.labels.iter().filter(|(name, value)| !held(name, value));
    let texts: Vec<_> = others
        .map(|(name, value)| format!("{name}={}", value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
        .collect();
    (!texts.is_empty()).then(|| texts.join(" "))
}

/// Converts the lines to a table: metric, unit, value, one column per label, and `other` for labels that these do not hold.
pub(crate) fn to_frame(lines: &[Line]) -> Result<DataFrame> {
    let text = |name: &str, cell: &dyn Fn(&Line) -> Option<String>| -> Column {
        Column::new(name.into(), lines.iter().map(cell).collect::<Vec<_>>())
    };
    let number = |name: &str| -> Column {
        let cell = |line: &Line| line.labels.get(name).and_then(Value::as_u64);
        Column::new(name.into(), lines.iter().map(cell).collect::<Vec<_>>())
    };
    let label = |line: &Line, name: &str| line.labels.get(name).and_then(Value::as_str).map(str::to_owned);
    let labels = COLUMNS
        .iter()
        .map(|&name| if NUMBERS.contains(&name) { number(name) } else { text(name, &|line| label(line, name)) });
    let mut columns = vec![
        text("metric", &|line| Some(line.metric.to_string())),
        text("unit", &|line| Some(line.unit.to_string())),
        Column::new("value".into(), lines.iter().map(|line| line.value).collect::<Vec<_>>()),
    ];
    columns.extend(labels);
    columns.push(text("other", &others));
    DataFrame::new(lines.len(), columns).map_err(table::polars_fault("tabulating metrics"))
}

/// Writes the lines as a Parquet table.
pub fn write_table(lines: &[Line], path: &Path) -> Result<()> {
    table::write(path, &to_frame(lines)?)
}

/// A note for readers of the lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Note {
    /// A fixed word for programs.
    pub note: &'static str,
    /// A text for readers.
    pub text: String,
}

/// The lines of a run, with notes.
#[derive(Debug, Clone)]
pub struct Measured {
    /// All metrics.
    pub lines: Vec<Line>,
    /// Notes, for example on metrics that could not be computed.
    pub notes: Vec<Note>,
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn a_line_is_written_as_the_design_says() {
        let line = Line::new("aom_mean", NS, 1.5).with("flow", "cluster").with("id", 3);
        assert_eq!(
            line.to_json(),
            r#"{"metric":"aom_mean","unit":"ns","value":1.5,"labels":{"flow":"cluster","id":3}}"#
        );
        assert_eq!(Line::new("x", NS, None).to_json(), r#"{"metric":"x","unit":"ns","value":null,"labels":{}}"#);
        assert_eq!(Line::new("x", NS, f64::NAN).value, None);
        assert_eq!(serde_json::from_str::<Line>(&line.to_json()).unwrap(), line);
    }

    #[test]
    fn keys_name_what_reports_tabulate() {
        let line = Line::new("aom_mean", NS, 1.0).with("flow", "worker");
        assert_eq!(line.key().as_deref(), Some("aom_mean/worker"));
        assert_eq!(line.with("id", 1).key(), None);
        assert_eq!(Line::new("dropped", UPDATES, 1.0).with("reason", "no_route").key().unwrap(), "dropped/no_route");
    }

    #[test]
    fn every_label_of_a_metric_has_a_column() {
        let definitions = crate::METRICS.iter().flat_map(|metric| metric.definitions());
        for label in definitions.flat_map(|definition| definition.labels) {
            assert!(COLUMNS.contains(&label.name), "the label {} has no column", label.name);
        }
    }

    #[test]
    fn the_table_holds_every_line_and_label() {
        let lines = [
            Line::new("aom_mean", NS, 2.5).with("flow", "cluster").with("id", 7),
            Line::new("aom_mean", NS, None).with("flow", "cluster"),
            Line::new("aggregation_count", PACKETS, 4.0).with("n", 3).with("run", "a/b"),
            Line::new("captured", PACKETS, 9.0).with("side", "server").with("format", "olaf").with("kind", "ack"),
            Line::new("link_load", SHARE, 0.5).with("link", "SW1 SW2").with("direction", "up").with("colour", "red"),
            Line::new("own", SHARE, 1.0).with("kind", 3).with("n", -2),
        ];
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.parquet");
        write_table(&lines, &path).unwrap();
        let columns = to_frame(&lines).unwrap().get_column_names_owned();
        let columns: Vec<_> = columns.iter().map(PlSmallStr::as_str).collect();
        let mut read = crate::batches::Batches::open(&path).unwrap();
        let back = crate::frame::frame(read.next_batch().unwrap().unwrap()).unwrap();
        assert_eq!(back.get_column_names(), columns);
        assert_eq!(back.height(), 6);
        let text = |name: &str, row: usize| back.column(name).unwrap().str().unwrap().get(row).map(str::to_owned);
        assert_eq!(["side", "format", "kind"].map(|name| text(name, 3).unwrap()), ["server", "olaf", "ack"]);
        assert_eq!((text("other", 3), text("other", 4).unwrap()), (None, "colour=red".to_owned()));
        assert_eq!(["link", "direction"].map(|name| text(name, 4).unwrap()), ["SW1 SW2", "up"]);
        assert_eq!(text("other", 5).unwrap(), "kind=3 n=-2", "columns of another type");
        assert_eq!(back.column("id").unwrap().u64().unwrap().get(0), Some(7));
        assert_eq!(
            back.column("value").unwrap().f64().unwrap().iter().collect::<Vec<_>>(),
            [Some(2.5), None, Some(4.0), Some(9.0), Some(0.5), Some(1.0)]
        );
        assert_eq!(back.column("n").unwrap().u64().unwrap().get(2), Some(3));
        assert_eq!(
            back.column("run").unwrap().str().unwrap().iter().collect::<Vec<_>>(),
            [None, None, Some("a/b"), None, None, None]
        );
    }
}
