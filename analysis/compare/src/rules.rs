//! Rules: which metrics decide, which direction is better, which change does not matter.
//!
//! Read by the CLI from a TOML file, or built in; used by [`super::judge`]. `docs/compare.md` describes the file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use pktgen_core::config::{Document, Entry, FromValue, Origin, Table, Value};
use pktgen_core::definition::Better;
use pktgen_core::registry::suggest;
use pktgen_core::regular::check_regular;
use pktgen_core::units::{Rate, Size, Span};
use pktgen_core::user_metric::UserMetric;
use pktgen_core::{Error, Result};
use pktgen_records::user::is_taken;
use pktgen_report::check::definition;
use pktgen_report::sweep::data::RunSummary;
use serde::Serialize;

use super::Side;

/// Keys of a rule, and top-level keys.
const KEYS: [&str; 4] = ["metric", "direction", "tolerance", "required"];
const TOP: [&str; 2] = ["alpha", "rule"];
/// Probability of a wrong verdict if the file does not specify it.
const ALPHA: f64 = 0.05;

/// The Age-of-Model judged by the built-in rules.
const AGE: &str = "aom_mean/cluster";
/// The same metric, based on the members listed in payloads.
const AGE_BY_LANES: &str = "lanes_aom_mean/cluster";

/// The built-in rules: metric, direction, tolerance.
const BUILT_IN: [(&str, Direction, &str); 5] = [
    (AGE, Direction::Lower, "2%"),
    ("loss", Direction::Lower, "0.5pp"),
    ("elements_per_s", Direction::Higher, "2%"),
    ("time_to_goal", Direction::Lower, "2%"),
    ("iteration_time_mean", Direction::Lower, "2%"),
];

/// The tolerance of an experiment's own metrics.
const OWN: &str = "2%";

/// Direction in which a metric should change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Less is better.
    Lower,
    /// More is better.
    Higher,
    /// Any change is worse.
    Equal,
}

impl Direction {
    const ALL: [Direction; 3] = [Direction::Lower, Direction::Higher, Direction::Equal];

    /// Returns its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Direction::Lower => "lower",
            Direction::Higher => "higher",
            Direction::Equal => "equal",
        }
    }
}

/// A change that does not matter, in the unit of the metric or as a share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Band {
    /// Share of the old value.
    Relative(f64),
    /// Amount in the metric's unit.
    Absolute(f64),
}

/// A tolerance as written: a share, or an amount in a unit.
#[derive(Debug, Clone, PartialEq)]
struct Tolerance {
    text: String,
    amount: f64,
    /// Units of the metrics that it fits; if empty, all metrics for a relative tolerance and those without a unit for others.
    units: &'static [&'static str],
    relative: bool,
}

/// One rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Key of the metric, such as `aom_mean/cluster`.
    pub metric: String,
    /// Which way is better.
    pub direction: Direction,
    /// Whether it counts for the overall verdict.
    pub required: bool,
    /// Why the metric is not compared; `None` if it is.
    pub(crate) withheld: Option<String>,
    tolerance: Tolerance,
    /// Where it was written, for error messages.
    place: String,
}

/// All rules of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// Probability that any verdict on a metric and point is wrong.
    pub alpha: f64,
    /// The rules.
    pub rules: Vec<Rule>,
    /// Whether these are the built-in rules, which ignore metrics that no run has.
    pub built_in: bool,
}

impl Rule {
    /// Returns the rule for a key of an experiment's own metric; `None` if the metric has no better direction.
    fn of_user(metric: &UserMetric, key: &str) -> Option<Rule> {
        let direction = match metric.better {
            Better::Lower => Direction::Lower,
            Better::Higher => Direction::Higher,
            Better::Neither => return None,
        };
        let place = format!("metrics.{}", metric.name);
        let (metric, tolerance) = (key.to_owned(), tolerance(OWN).ok()?);
        Some(Rule { metric, direction, required: true, withheld: None, tolerance, place })
    }

    /// Returns the tolerance as written.
    pub(crate) fn tolerance(&self) -> &str {
        &self.tolerance.text
    }

    /// Converts the tolerance for a metric in `unit`.
    pub(crate) fn band(&self, unit: &str) -> Result<Band> {
        let Tolerance { amount, units, relative, text } = &self.tolerance;
        if *relative {
            return Ok(Band::Relative(*amount));
        }
        if units.is_empty() || units.contains(&unit) {
            return Ok(Band::Absolute(*amount));
        }
        if unit == "s" && units.contains(&"ns") {
            return Ok(Band::Absolute(amount / 1e9));
        }
        let (of, write) = if unit.is_empty() {
            ("has no unit".to_owned(), "a number such as 3")
        } else {
            (format!("is in {unit}"), "an amount in that unit")
        };
        Err(Error::config(format!(
            "{}: the tolerance \"{text}\" does not fit {}, which {of}; write a share such as 2%, or {write}",
            self.place, self.metric
        )))
    }

    /// Refuses a metric that is not among the `known` keys.
    pub(crate) fn check(&self, known: &[&str]) -> Result<()> {
        if known.contains(&self.metric.as_str()) {
            return Ok(());
        }
        let near = suggest(&self.metric, known);
        Err(Error::config(format!(
            "{}: there is no metric \"{}\"{near}; pktgen analyze RUN --json shows those of a run",
            self.place, self.metric
        )))
    }
}

/// Returns why a metric is not the same number on all sides: the sections `[report]` of their experiments define it, and
/// differ. `None` if it is the same.
fn defined_otherwise(sides: &[Side], key: &str) -> Option<String> {
    let of = |side: &Side| definition(&side.sweep.manifest.report, key);
    let first = of(sides.first()?);
    let (side, other) = sides.iter().map(|side| (side, of(side))).find(|(_, other)| *other != first)?;
    let shown = |definition: Option<String>| definition.unwrap_or_else(|| "none".to_owned());
    let (a, b) = (&sides[0].name, &side.name);
    Some(format!("{key} is not defined alike ({a}: {}, {b}: {})", shown(first), shown(other)))
}

/// Returns the metric of a key.
fn metric_of(key: &str) -> &str {
    key.split('/').next().unwrap_or_default()
}

impl Rules {
    /// Returns the built-in rules.
    pub fn built_in() -> Rules {
        let rule = |(metric, direction, text): (&str, Direction, &str)| {
            let tolerance = tolerance(text).unwrap_or_else(|_| Tolerance::none());
            let place = "built-in rules".to_owned();
            Rule { metric: metric.to_owned(), direction, required: true, withheld: None, tolerance, place }
        };
        Rules { alpha: ALPHA, rules: BUILT_IN.map(rule).to_vec(), built_in: true }
    }

    /// Adds a rule for every own metric of the experiments that has a better direction, if these are the built-in
    /// rules, and replaces or removes Age-of-Model if packets hide their members. Excludes metrics whose definitions
    /// differ between `sides`; those with a rule of a file are withheld. Returns notes on these changes.
    pub(crate) fn with_own(&self, sides: &[Side]) -> (Rules, Vec<String>) {
        let mut known: BTreeMap<&str, (&UserMetric, bool)> = BTreeMap::new();
        let runs = sides.iter().flat_map(|side| &side.sweep.runs);
        for metric in runs.flat_map(|run| run.user_metrics.iter()).filter(|metric| !is_taken(&metric.name)) {
            let (first, same) = known.entry(&metric.name).or_insert((metric, true));
            *same &= first.sql == metric.sql && first.unit == metric.unit && first.better == metric.better;
        }
        let mut rules = self.clone();
        if self.built_in {
            let keys: BTreeSet<&String> = sides.iter().flat_map(|side| side.sweep.units.keys()).collect();
            let rule = |key: &String| Rule::of_user(known.get(metric_of(key))?.0, key);
            rules.rules.extend(keys.into_iter().filter_map(rule));
        }
        let mut notes = Vec::new();
        let valued = |key: &str| sides.iter().any(|side| side.sweep.runs.iter().any(|run| run.value(key).is_some()));
        let own = rules.rules.iter().filter(|rule| known.contains_key(metric_of(&rule.metric)));
        let without = own.filter(|rule| self.built_in && !valued(&rule.metric));
        notes.extend(
            without.map(|rule| format!("metrics.{} has no value in any run: it is not compared.", rule.metric)),
        );
        let any = |is: fn(&RunSummary) -> bool| sides.iter().any(|side| side.sweep.runs.iter().any(is));
        let (hidden, loses_unseen) = (any(|run| run.hides_members), any(|run| run.hides_losses));
        for (metric, is_lacking, why) in [
            ("loss", loses_unseen, "a device that may merge does not say what it lost"),
            (
                "elements_per_s",
                any(|run| run.hides_elements),
                "packets of the device do not say how many updates they hold",
            ),
        ] {
            if self.built_in && is_lacking && valued(metric) {
                rules.rules.retain(|rule| rule.metric != metric);
                notes.push(format!("{metric} is not compared: {why}."));
            }
        }
        if self.built_in && hidden && rules.rules.iter().any(|rule| rule.metric == AGE) {
            let by_lanes = sides.iter().all(|side| side.sweep.units.contains_key(AGE_BY_LANES));
            let what = "a packet of the device does not say which updates it holds, and counts as one of them";
            if by_lanes {
                let age = rules.rules.iter_mut().filter(|rule| rule.metric == AGE);
                age.for_each(|rule| rule.metric = AGE_BY_LANES.to_owned());
                notes.push(format!("Age-of-Model is compared by the lanes of payloads: {what}."));
            } else {
                rules.rules.retain(|rule| rule.metric != AGE);
                notes.push(format!(
                    "Age-of-Model is not compared: {what}; lanes in payloads would say it (docs/provenance.md)."
                ));
            }
        }
        let why = |name: &str| format!("metrics.{name} is not defined alike in all runs (sql, unit or better differ)");
        for rule in &mut rules.rules {
            let name = metric_of(&rule.metric);
            let own = known.get(name).filter(|(_, same)| !same).map(|_| why(name));
            rule.withheld = own.or_else(|| defined_otherwise(sides, &rule.metric));
        }
        let plans = rules.rules.iter().filter(|rule| !known.contains_key(metric_of(&rule.metric)));
        notes.extend(plans.filter_map(|rule| Some(format!("{}: it is not compared.", rule.withheld.as_ref()?))));
        if self.built_in {
            rules.rules.retain(|rule| rule.withheld.is_none());
        }
        let unlike = known.iter().filter(|(_, (_, same))| !same);
        notes.extend(unlike.map(|(name, _)| format!("{}: it is not compared.", why(name))));
        (rules, notes)
    }

    /// Reads the rules in `path`.
    pub fn load(path: &Path) -> Result<Rules> {
        check_regular(path)?;
        let text = std::fs::read_to_string(path).map_err(Error::io("read rules", path))?;
        Rules::parse(&text, &path.display().to_string())
    }

    /// Parses the rules in the text of a file called `name`.
    pub fn parse(text: &str, name: &str) -> Result<Rules> {
        let mut document = Document::parse(text, name)?;
        let (alpha, written) = (document.get("alpha").cloned(), document.get("rule").cloned());
        TOP.iter().for_each(|key| document.unset(key));
        document.finish(&TOP)?;
        let alpha = match alpha {
            None => ALPHA,
            Some(value) => f64::from_value(&value).map_err(|why| Error::config(format!("{name}: alpha: {why}")))?,
        };
        if !(alpha > 0.0 && alpha <= 0.5) {
            return Err(Error::config(format!("{name}: alpha = {alpha} is not above 0 and up to 0.5; usual is 0.05")));
        }
        let none =
            || Error::config(format!("{name}: there is no rule; write [[rule]] with metric, direction, tolerance"));
        let Value::List(items) = written.ok_or_else(none)? else {
            return Err(Error::config(format!("{name}: \"rule\" must be a list of tables: write [[rule]]")));
        };
        let rules = items.iter().map(read).collect::<Result<Vec<Rule>>>()?;
        for (i, rule) in rules.iter().enumerate() {
            if rules[..i].iter().any(|other| other.metric == rule.metric) {
                return Err(Error::config(format!("{}: {} has a rule already", rule.place, rule.metric)));
            }
        }
        if rules.iter().all(|rule| !rule.required) {
            return Err(Error::config(format!(
                "{name}: no rule is required, so none decides; leave out required = false"
            )));
        }
        Ok(Rules { alpha, rules, built_in: false })
    }

    /// Formats the rules as a file with the same contents.
    pub fn to_toml(&self) -> String {
        let mut out = format!("alpha = {}\n", self.alpha);
        for rule in &self.rules {
            let text = |text: &str| Value::Text(text.to_owned()).to_toml();
            // Writing to a String cannot fail.
            let _ = write!(
                out,
                "\n[[rule]]\nmetric = {}\ndirection = {}\ntolerance = {}\n",
                text(&rule.metric),
                text(rule.direction.name()),
                text(rule.tolerance())
            );
            if !rule.required {
                out.push_str("required = false\n");
            }
        }
        out
    }
}

/// Reads a rule from its table.
fn read(item: &Entry) -> Result<Rule> {
    let Value::Table(table) = &item.value else {
        return Err(Error::config(format!("{}: a rule is {}; it must be a table", item.origin, item.value.kind())));
    };
    if let Some((key, entry)) = table.iter().find(|(key, _)| !KEYS.contains(&key.as_str())) {
        let near = suggest(key, &KEYS);
        let keys = KEYS.join(", ");
        return Err(Error::config(format!("{}: unknown key \"rule.{key}\"{near}; keys here: {keys}", entry.origin)));
    }
    let (metric, _): (String, _) = needed(table, item, "metric")?;
    let (direction, at): (String, _) = needed(table, item, "direction")?;
    let direction = Direction::ALL.into_iter().find(|known| known.name() == direction).ok_or_else(|| {
        let names = Direction::ALL.map(Direction::name);
        let near = suggest(&direction, &names);
        let all = names.join(", ");
        Error::config(format!("{at}: rule.direction: \"{direction}\" is not known{near}; there are: {all}"))
    })?;
    let (Text(written), at) = needed(table, item, "tolerance")?;
    let tolerance = tolerance(&written).map_err(|why| Error::config(format!("{at}: rule.tolerance: {why}")))?;
    let required = match table.get("required") {
        None => true,
        Some(entry) => bool::from_value(&entry.value)
            .map_err(|why| Error::config(format!("{}: rule.required: {why}", entry.origin)))?,
    };
    Ok(Rule { metric, direction, required, withheld: None, tolerance, place: item.origin.to_string() })
}

/// A text, or a number converted to text.
struct Text(String);

impl FromValue for Text {
    fn from_value(value: &Value) -> Result<Self, String> {
        match value {
            Value::Text(_) | Value::Integer(_) | Value::Float(_) => Ok(Text(value.to_label())),
            other => Err(format!("{} is {}; it must be a text such as \"2%\"", other.to_toml(), other.kind())),
        }
    }
}

fn needed<T: FromValue>(table: &Table, item: &Entry, key: &str) -> Result<(T, Origin)> {
    let entry = table.get(key).ok_or_else(|| {
        Error::config(format!("{}: the rule has no \"{key}\"; it needs metric, direction and tolerance", item.origin))
    })?;
    let value =
        T::from_value(&entry.value).map_err(|why| Error::config(format!("{}: rule.{key}: {why}", entry.origin)))?;
    Ok((value, entry.origin.clone()))
}

impl Tolerance {
    fn none() -> Tolerance {
        Tolerance { text: "0".to_owned(), amount: 0.0, units: &[], relative: false }
    }
}

fn tolerance(text: &str) -> Result<Tolerance, String> {
    let trimmed = text.trim();
    let (amount, units, relative): (f64, &'static [&'static str], bool) =
        if let Some(number) = trimmed.strip_suffix('%') {
            (number_of(number)? / 100.0, &[], true)
        } else if let Some(number) = trimmed.strip_suffix("pp") {
            (number_of(number)? / 100.0, &["share", "precision"], false)
        } else if let Ok(span) = trimmed.parse::<Span>() {
            (span.ps() as f64 / 1000.0, &["ns"], false)
        } else if let Ok(rate) = trimmed.parse::<Rate>() {
            (rate.bps() as f64, &["bps", "bit/s"], false)
        } else if let Ok(size) = trimmed.parse::<Size>() {
            (size.bits() as f64 / 8.0, &["bytes"], false)
        } else {
            (number_of(trimmed)?, &[], false)
        };
    Ok(Tolerance { text: trimmed.to_owned(), amount, units, relative })
}

fn number_of(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.trim().parse().ok();
    number.filter(|number| number.is_finite() && *number >= 0.0).ok_or_else(|| {
        format!(
            "\"{text}\" is no amount of zero or more; write a share (2%), points of a share (0.5pp), a time (1us), a rate \
             (10Mbps), a size (8B) or a number in the metric's unit"
        )
    })
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
