//! The provenance of the runs of a report: what made them, when, where and how, for every output format.
//!
//! Called by [`crate::model`] and [`crate::compare`].

use std::collections::{BTreeMap, BTreeSet};

use pktgen_records::human::day;
use serde::Serialize;

use crate::sweep::data::{RunSummary, SweepData};

/// Maximum number of facts about a host that are shown, and maximum length of each.
const FACTS_MAX: usize = 6;
const FACT_MAX: usize = 60;
/// Prefixes of facts about a run, not about its host, which are shown only in its manifest.
const OF_THE_RUN: [&str; 12] = [
    "clock.anchor",
    "clock.boot",
    "clock.wall",
    "control.",
    "device.ready",
    "device.unasked",
    "frames.",
    "lateness",
    "on_wire.",
    "rate.",
    "readdress.",
    "start.",
];

/// Provenance of the runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RunProvenance {
    /// Version of the tool that made the runs.
    pub version: String,
    /// Its commit.
    pub commit: String,
    /// Tools that made some of the runs, if there are others: version and commit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<String>,
    /// Time of the first run, UTC.
    pub date: String,
    /// Facts about the host; "virtual time" if no host affects the results.
    pub host: String,
    /// Seeds, in words.
    pub seeds: String,
    /// The command line; `None` if it was not recorded.
    pub command: Option<String>,
    /// Settings changed in addition to the experiment file, as `key=value`.
    pub overrides: Vec<String>,
    /// Whether some of the runs are of a version that did not record them; in JSON the command is `null` then.
    #[serde(skip)]
    pub predates_overrides: bool,
}

impl RunProvenance {
    /// Returns the provenance of the runs of `sweep`.
    pub fn of(sweep: &SweepData) -> RunProvenance {
        let mut tools: Vec<&str> = Vec::new();
        for run in sweep.runs.iter().filter(|run| !run.made.tool.is_empty()) {
            if !tools.contains(&run.made.tool.as_str()) {
                tools.push(&run.made.tool);
            }
        }
        let (version, commit) = tools.first().map_or(("unknown", "unknown"), |tool| parts(tool));
        let first = sweep.runs.iter().map(|run| run.made.unix_ns).filter(|time| *time > 0).min();
        let mut commands = sweep.runs.iter().map(|run| &run.made.command).filter(|command| !command.is_empty());
        RunProvenance {
            version: version.to_owned(),
            commit: commit.to_owned(),
            others: tools.iter().skip(1).map(|tool| (*tool).to_owned()).collect(),
            date: first.map_or("unknown".to_owned(), date),
            host: host(&sweep.runs),
            seeds: seeds(&sweep.runs.iter().map(|run| run.seed).collect()),
            command: commands.next().map(|words| words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")),
            overrides: sweep.manifest.overrides.clone(),
            predates_overrides: sweep.runs.iter().any(|run| run.made.predates_overrides),
        }
    }

    /// Returns the overrides that the text of the experiment file does not reflect: all except seeds.
    pub fn changed(&self) -> Vec<&str> {
        let seeds = ["seed=", "sweep.seeds="];
        let all = self.overrides.iter().map(String::as_str);
        all.filter(|one| !seeds.iter().any(|key| one.starts_with(key))).collect()
    }

    /// Returns an introduction for texts of the experiment file that overrides may have made obsolete; `None` without overrides.
    pub(crate) fn before_overrides(&self) -> Option<String> {
        let changed = self.changed();
        (!changed.is_empty()).then(|| format!("Of the experiment file, before the overrides {}", changed.join(", ")))
    }

    /// Returns names and values, for tables.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let others = self.others.iter().map(|tool| format!("; also {tool}")).collect::<String>();
        let overrides = match self.overrides.as_slice() {
            [] if self.predates_overrides => "not recorded".to_owned(),
            [] => "none".to_owned(),
            all => all.join(", "),
        };
        vec![
            ("version", format!("pktgen {}{others}", self.version)),
            ("commit", self.commit.clone()),
            ("date", self.date.clone()),
            ("host", self.host.clone()),
            ("seeds", self.seeds.clone()),
            ("command", self.command.clone().unwrap_or_else(|| "not recorded".to_owned())),
            ("overrides", overrides),
        ]
    }

    /// Returns the same as one line for terminals.
    pub fn line(&self) -> String {
        let said = self.lines().into_iter().map(|(name, value)| format!("{name}: {value}"));
        said.collect::<Vec<_>>().join("; ")
    }
}

/// Returns version and commit of `pktgen 0.1.0 (0123abc)`.
fn parts(tool: &str) -> (&str, &str) {
    let rest = tool.strip_prefix("pktgen ").unwrap_or(tool);
    rest.split_once(" (").map_or((rest, "unknown"), |(version, commit)| (version, commit.trim_end_matches(')')))
}

/// Formats day and minute of a time in ns since 1970.
fn date(unix_ns: u64) -> String {
    let minutes = unix_ns / 60_000_000_000;
    format!("{} {:02}:{:02} UTC", day(unix_ns), minutes / 60 % 24, minutes % 60)
}

fn host(runs: &[RunSummary]) -> String {
    let mut facts: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, value) in runs.iter().flat_map(|run| run.made.host.iter()) {
        facts.entry(name).or_default().insert(value);
    }
    if facts.is_empty() {
        return "none: virtual time".to_owned();
    }
    let said = |(name, values): (&&str, &BTreeSet<&str>)| match values.iter().next() {
        Some(value) if values.len() == 1 => {
            let cut: String = value.chars().take(FACT_MAX).collect();
            format!("{name} {cut}{}", if cut.len() < value.len() { "…" } else { "" })
        }
        _ => format!("{name} in {} ways", values.len()),
    };
    let of_host = facts.iter().filter(|(name, _)| !OF_THE_RUN.iter().any(|start| name.starts_with(start)));
    let mut shown: Vec<String> = of_host.take(FACTS_MAX).map(said).collect();
    let more = facts.len() - shown.len();
    if more > 0 {
        shown.push(format!("{more} more facts in manifest.json"));
    }
    shown.join(", ")
}

/// Formats seeds: "10 (1 to 10)", "3 (1, 4, 9)".
fn seeds(seeds: &BTreeSet<u64>) -> String {
    let (Some(first), Some(last)) = (seeds.first(), seeds.last()) else { return "none".to_owned() };
    let n = seeds.len();
    if n > 2 && last - first == n as u64 - 1 {
        return format!("{n} ({first} to {last})");
    }
    let named: Vec<String> = seeds.iter().take(10).map(u64::to_string).collect();
    let more = if n > 10 { format!(" and {} more", n - 10) } else { String::new() };
    format!("{n} ({}{more})", named.join(", "))
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=,:+@%^".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::data::RunMade;

    #[test]
    fn values_for_people() {
        assert_eq!(parts("pktgen 0.1.0 (7799c96)"), ("0.1.0", "7799c96"));
        assert_eq!(parts("test"), ("test", "unknown"));
        assert_eq!(date(1_795_433_400_000_000_000), "2026-11-23 11:30 UTC");
        assert_eq!(seeds(&(1..=10).collect()), "10 (1 to 10)");
        assert_eq!(seeds(&[4, 9].into()), "2 (4, 9)");
        assert_eq!((quoted("a=1"), quoted("x y"), quoted("it's")), ("a=1".into(), "'x y'".into(), "'it'\\''s'".into()));
    }

    #[test]
    fn a_host_is_told_in_a_few_words() {
        let run = |moved: &str, cores: &str| {
            let facts = [
                ("clock.wall_moved_ns", moved),
                ("cores", cores),
                ("frames.server", "sent 9"),
                ("wire.server", &"x".repeat(99)),
            ];
            let host: BTreeMap<String, String> = facts.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
            RunSummary { made: RunMade { host: host.into(), ..RunMade::default() }, ..RunSummary::default() }
        };
        let cut = "x".repeat(60);
        assert_eq!(
            host(&[run("1", "any"), run("2", "any")]),
            format!("cores any, wire.server {cut}…, 2 more facts in manifest.json")
        );
        let ways = host(&[run("1", "any"), run("2", "0")]);
        assert!(ways.starts_with("cores in 2 ways, "), "{ways}");
    }

    #[test]
    fn overrides_that_no_manifest_lists_are_not_recorded_or_none() {
        let shown = |overrides: &[&str], predates_overrides: bool| {
            let overrides = overrides.iter().map(|one| (*one).to_owned()).collect();
            let made = RunProvenance { overrides, predates_overrides, ..RunProvenance::default() };
            made.lines().pop().unwrap().1
        };
        assert_eq!([shown(&[], true), shown(&[], false), shown(&["x=1"], true)], ["not recorded", "none", "x=1"]);
    }

    #[test]
    fn seeds_change_nothing_that_a_text_states() {
        let of = |overrides: &[&str]| RunProvenance {
            overrides: overrides.iter().map(|one| (*one).to_owned()).collect(),
            ..RunProvenance::default()
        };
        assert_eq!(of(&["sweep.seeds=1..3", "seed=4"]).before_overrides(), None);
        let changed = of(&["sweep.seeds=1..3", "target.slots=6"]).before_overrides().unwrap();
        assert_eq!(changed, "Of the experiment file, before the overrides target.slots=6");
    }
}
