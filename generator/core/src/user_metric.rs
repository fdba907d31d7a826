//! Metrics defined by an experiment: `[metrics.NAME]`, one SELECT each.
//!
//! Parsed here; `pktgen_query` evaluates them, and reports, comparisons and history show them beside the others.

use serde::{Deserialize, Serialize};

use crate::config::Document;
use crate::definition::Better;
use crate::{Error, Result, settings};

/// Maximum length of a metric's name, in bytes.
const NAME_MAX: usize = 48;
/// Maximum number of metrics of an experiment.
const METRICS_MAX: usize = 64;

settings! {
    /// The keys of a metric.
    pub struct UserMetricKeys {
        /// Definition: one SELECT over the tables of a run, with a column `value`; all other columns are labels.
        sql: String = "" said "must be written";
        /// Unit of the values; `ns`, `share`, `bps` and `bytes` are formatted as for built-in metrics, others are printed unchanged.
        unit: String = "";
        /// Which values are better; comparisons judge only metrics with a direction.
        better: Better = "neither" of [
            ("lower", Better::Lower, "lower values"),
            ("higher", Better::Higher, "higher values"),
            ("neither", Better::Neither, "no direction"),
        ];
        /// Description, shown in reports.
        about: String = "";
    }
}

/// A metric defined by an experiment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserMetric {
    /// Its name.
    pub name: String,
    /// One SELECT over the tables of a run.
    pub sql: String,
    /// Its unit.
    pub unit: String,
    /// Which direction is better.
    pub better: Better,
    /// Description.
    pub about: String,
}

impl UserMetric {
    /// Reads `[metrics]`.
    pub fn read_all(document: &mut Document) -> Result<Vec<UserMetric>> {
        let mut section = document.section("metrics")?;
        let mut metrics = Vec::new();
        for (name, mut own) in section.named_sections()? {
            let place = section.place(&name);
            let is_word = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
            if !is_word || !name.starts_with(|first: char| first.is_ascii_lowercase()) || name.len() > NAME_MAX {
                let what = format!("a metric's name has lower-case letters, digits and _, at most {NAME_MAX}");
                return Err(Error::config(format!("{place}: {what}, and begins with a letter")));
            }
            let UserMetricKeys { sql, unit, better, about } = UserMetricKeys::read(&mut own)?;
            if sql.trim().is_empty() {
                let what = "the metric has no sql; write sql = \"SELECT … AS value FROM …\"";
                return Err(Error::config(format!("{place}: {what}")));
            }
            own.end()?;
            metrics.push(UserMetric { name, sql, unit, better, about });
        }
        if metrics.len() > METRICS_MAX {
            let what = format!("{} metrics, and an experiment has at most {METRICS_MAX}", metrics.len());
            return Err(Error::config(format!("{}: [metrics] has {what}", section.origin())));
        }
        document.close(section)?;
        Ok(metrics)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<UserMetric>, String> {
        let mut document = Document::parse(text, "x.toml").unwrap();
        UserMetric::read_all(&mut document).map_err(|fault| fault.to_string())
    }

    #[test]
    fn metrics_are_read_with_their_defaults() {
        let text =
            "[metrics.tail]\nsql = \"SELECT 1 AS value\"\nunit = \"ns\"\nbetter = \"lower\"\n[metrics.a]\nsql = \"S\"";
        let [a, tail]: [UserMetric; 2] = read(text).unwrap().try_into().unwrap();
        assert_eq!((a.name.as_str(), a.unit.as_str(), a.better, a.sql.as_str()), ("a", "", Better::Neither, "S"));
        assert_eq!((tail.name.as_str(), tail.unit.as_str(), tail.better), ("tail", "ns", Better::Lower));
        assert_eq!(read("name = \"x\""), Ok(Vec::new()));
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        for (text, wanted) in [
            ("[metrics.a]\nunit = \"ns\"", "x.toml:1:10: metrics.a: the metric has no sql"),
            ("[metrics.a]\nsql = \" \"", "metrics.a: the metric has no sql"),
            (
                "[metrics.a]\nsql = \"S\"\nunits = \"ns\"",
                "x.toml:3:1: unknown key \"metrics.a.units\", did you mean \"unit\"?",
            ),
            ("[metrics.a]\nsql = \"S\"\nbetter = \"less\"", "\"less\" is not known"),
            ("[metrics.\"a/b\"]\nsql = \"S\"", "a metric's name has lower-case letters"),
            ("[metrics.Tail]\nsql = \"S\"", "a metric's name has lower-case letters"),
            ("[metrics]\na = 3", "metrics.a is a whole number; it must be a table, [metrics.a]"),
        ] {
            let fault = read(text).unwrap_err();
            assert!(fault.contains(wanted), "{text}: {fault}");
        }
        let many: String = (0..65).map(|i| format!("[metrics.m{i}]\nsql = \"S\"\n")).collect();
        assert!(read(&many).unwrap_err().contains("has 65 metrics, and an experiment has at most 64"));
    }
}
