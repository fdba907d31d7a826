//! `[sweep]`: axes, variants and seeds, expanded into runs.

use std::collections::BTreeMap;

use super::document::{Document, Origin};
use super::section::FromValue;
use super::value::{Entry, Value};
use crate::{Error, Result};

/// An axis or `variant`, its label, and the keys that it sets.
type Choice = (String, String, Vec<(String, Entry)>);

/// Maximum number of runs of a sweep: more is a mistake, and would exhaust memory before disk space.
const RUNS_MAX: usize = 1_000_000;

/// One run of a sweep: its labels and the keys that it sets.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Axis → value, and `variant` → name, in the order of the file's axes.
    pub labels: BTreeMap<String, String>,
    /// Seed.
    pub seed: u64,
    /// Keys that it sets, with the origin of each value.
    pub set: Vec<(String, Entry)>,
}

/// A sweep as written.
#[derive(Debug, Clone, Default)]
pub struct Sweep {
    /// Seeds, in order.
    pub seeds: Vec<u64>,
    /// Axes with their values.
    pub axes: Vec<(String, Vec<Value>)>,
    /// Origins of the values of `axes`, in the same order.
    origins: Vec<Vec<Origin>>,
    /// Variants with the keys that they set.
    pub variants: Vec<(String, Vec<(String, Entry)>)>,
    /// Overriding keys that are overridden in their other form: `a.b` and `sweep.axes.a.b`, `seed` and `sweep.seeds`.
    pub overridden: Vec<String>,
}

impl Sweep {
    /// Removes `[sweep]` from a document and reads it. Without one, the sweep is a single run with seed `seed`.
    pub fn read(document: &mut Document, seed: u64) -> Result<Self> {
        // As for axes: the later layer wins; within a layer there is one of them.
        let (own, listed) = (document.overriding("seed"), document.overriding("sweep.seeds"));
        let is_given = match (&own, &listed) {
            (Some(own), Some(listed)) if own.origin.is_later(&listed.origin) => true,
            (Some(own), Some(listed)) if !listed.origin.is_later(&own.origin) => {
                return Err(both_set(&listed.origin, &own.origin, "the seeds"));
            }
            (own, listed) => own.is_some() && listed.is_none(),
        };
        let loser = if is_given { "sweep.seeds" } else { "seed" };
        let overridden = own.and(listed).map(|_| loser.to_owned()).into_iter().collect();
        let mut section = document.section("sweep")?;
        let Seeds(mut seeds) = section.get("seeds", seed.to_string())?;
        if is_given {
            seeds = vec![seed];
        }
        let mut sweep = Sweep { seeds, overridden, ..Sweep::default() };
        for (path, entry) in section.get_entries("axes")? {
            may_vary(&path, &entry.origin)?;
            let Value::List(items) = entry.value else {
                return Err(Error::config(format!("{}: {path} must be a list of values", entry.origin)));
            };
            if items.is_empty() {
                return Err(Error::config(format!("{}: {path} has no values", entry.origin)));
            }
            if items.iter().any(|item| matches!(item.value, Value::Table(_))) {
                return Err(Error::config(format!(
                    "{}: {path}: a value of an axis cannot be a table; several keys are set at once by [[sweep.variants]]",
                    entry.origin
                )));
            }
            let (values, origins) = items.into_iter().map(|item| (item.value, item.origin)).unzip();
            sweep.axes.push((path, values));
            sweep.origins.push(origins);
        }
        for table in section.get_entry_tables("variants")? {
            let place = section.place("variants");
            sweep.variants.push(read_variant(table, &place)?);
        }
        for (path, _) in &sweep.axes {
            let sets = |set: &[(String, Entry)]| set.iter().any(|(own, _)| own == path);
            if let Some((name, _)) = sweep.variants.iter().find(|(_, set)| sets(set)) {
                return Err(Error::config(format!(
                    "{}: {path} is an axis, and variant \"{name}\" sets it; leave one of them out",
                    section.place("axes")
                )));
            }
        }
        sweep.yield_to_overrides(document)?;
        let lengths = sweep.axes.iter().map(|(_, values)| values.len());
        let points = lengths.chain([sweep.seeds.len(), sweep.variants.len().max(1)]);
        if points.fold(1, usize::saturating_mul) > RUNS_MAX {
            let place = section.place("axes");
            return Err(Error::config(format!("{place}: more than {RUNS_MAX} runs; sweep fewer values or seeds")));
        }
        document.close(section)?;
        Ok(sweep)
    }

    /// Reduces axes that a later layer overrides to the overriding value. Keys that variants set are unaffected. Refuses a
    /// key and its axis in one layer above the file.
    fn yield_to_overrides(&mut self, document: &Document) -> Result<()> {
        for ((path, values), origins) in self.axes.iter_mut().zip(&mut self.origins) {
            let Some(Entry { value, origin }) = document.overriding(path) else { continue };
            match origins.first() {
                Some(own) if own.is_later(&origin) => {
                    self.overridden.push(path.clone());
                    continue;
                }
                Some(own) if own.is_override() && !origin.is_later(own) => {
                    return Err(both_set(own, &origin, path));
                }
                Some(own) if own.is_override() => self.overridden.push(format!("sweep.axes.{path}")),
                _ => {}
            }
            (*values, *origins) = (vec![value], vec![origin]);
        }
        Ok(())
    }

    /// Returns every run: variants vary slowest, then axes, then seeds.
    pub fn runs(&self) -> Vec<Run> {
        let mut points = vec![Run { labels: BTreeMap::new(), seed: 0, set: Vec::new() }];
        let mut cross = |choices: Vec<Choice>| {
            points = points
                .iter()
                .flat_map(|point| {
                    choices.iter().map(move |(key, label, set)| {
                        let mut next = point.clone();
                        next.labels.insert(key.clone(), label.clone());
                        next.set.extend(set.iter().cloned());
                        next
                    })
                })
                .collect();
        };
        if !self.variants.is_empty() {
            cross(self.variants.iter().map(|(name, set)| ("variant".into(), name.clone(), set.clone())).collect());
        }
        for ((path, values), origins) in self.axes.iter().zip(&self.origins) {
            let choice = |(value, origin): (&Value, &Origin)| {
                let entry = Entry { value: value.clone(), origin: origin.clone() };
                (path.clone(), value.to_label(), vec![(path.clone(), entry)])
            };
            cross(values.iter().zip(origins).map(choice).collect());
        }
        let seeded = |point: &Run| {
            let point = point.clone();
            self.seeds.iter().map(move |&seed| Run { seed, ..point.clone() }).collect::<Vec<_>>()
        };
        points.iter().flat_map(seeded).collect()
    }
}

impl Run {
    /// Sets the keys of this run in a document.
    pub fn apply(&self, document: &mut Document) -> Result<()> {
        for (path, Entry { value, origin }) in &self.set {
            document.set(path, value.clone(), origin.clone())?;
        }
        Ok(())
    }

    /// Returns the folder name: labels and seed, valid on every file system, and not hidden by a dot at its beginning.
    pub fn folder(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        if let Some(variant) = self.labels.get("variant") {
            parts.push(variant.clone());
        }
        let axes = self.labels.iter().filter(|(key, _)| *key != "variant");
        parts.extend(axes.map(|(key, value)| format!("{}={value}", key.rsplit('.').next().unwrap_or(key))));
        parts.push(format!("seed={}", self.seed));
        let safe = |c: char| if c.is_ascii_alphanumeric() || "=.-".contains(c) { c } else { '_' };
        let name: String = parts.join(",").chars().map(|c| if c == ',' { ',' } else { safe(c) }).collect();
        name.strip_prefix('.').map(|rest| format!("_{rest}")).unwrap_or(name)
    }
}

/// Returns the overrides (`key=value`), each with the variants of `runs` in which it has no effect because they set its key.
pub fn with_variants(overrides: &[String], runs: &[Run]) -> Vec<String> {
    let told = |text: &String| {
        let key = text.split_once('=').map_or(text.as_str(), |(key, _)| key);
        let sets = |run: &&Run| run.set.iter().any(|(path, entry)| path == key && !entry.origin.is_override());
        let mut variants: Vec<_> = runs.iter().filter(sets).filter_map(|run| run.labels.get("variant")).collect();
        variants.dedup();
        match &variants[..] {
            [] => text.clone(),
            some => {
                let names: Vec<_> = some.iter().map(|name| format!("\"{name}\"")).collect();
                format!("{text} (without effect in {}, which sets it)", names.join(", "))
            }
        }
    };
    overrides.iter().map(told).collect()
}

/// The error about two values on one layer for `what`.
fn both_set(one: &Origin, other: &Origin, what: &str) -> Error {
    Error::config(format!("{one} and {other} both set {what}; leave one of them out"))
}

/// Reads a variant: its name and the keys that it sets.
fn read_variant(table: Vec<(String, Entry)>, place: &str) -> Result<(String, Vec<(String, Entry)>)> {
    let mut name = None;
    let mut set = Vec::new();
    for (path, entry) in table {
        match entry.value {
            Value::Text(text) if path == "name" => name = Some(text),
            value if path == "name" => {
                let Entry { origin, .. } = entry;
                return Err(Error::config(format!("{origin}: a variant is called {}; write a text", value.to_toml())));
            }
            value => {
                may_vary(&path, &entry.origin)?;
                set.push((path, Entry { value, origin: entry.origin }));
            }
        }
    }
    let name = name.ok_or_else(|| Error::config(format!("{place}: a variant has no name; give it name = \"...\"")))?;
    Ok((name, set))
}

/// Returns whether a sweep cannot vary a key by a variant or an axis.
pub fn is_of_whole_sweep(path: &str) -> bool {
    let first = path.split('.').next().unwrap_or(path);
    ["seed", "metrics", "report", "paper", "sweep", "name", "about"].contains(&first)
}

/// Refuses keys that a sweep cannot vary by a variant or an axis.
fn may_vary(path: &str, origin: &Origin) -> Result<()> {
    if !is_of_whole_sweep(path) {
        return Ok(());
    }
    let why = match path.split('.').next() {
        Some("seed") => "seeds are listed in sweep.seeds, for example seeds = \"1..30\"",
        _ => {
            "name, about, [sweep], [metrics], [report] and [paper] are those of the whole sweep; set it outside of [sweep]"
        }
    };
    Err(Error::config(format!("{origin}: a sweep cannot set \"{path}\": {why}")))
}

/// `sweep.seeds` as written: one seed, or a list in a text.
struct Seeds(Vec<u64>);

impl FromValue for Seeds {
    fn from_value(value: &Value) -> Result<Self, String> {
        let seeds = match value {
            Value::Integer(seed) => u64::try_from(*seed).ok().map(|seed| vec![seed]),
            Value::Text(text) => parse_seeds(text),
            _ => None,
        };
        seeds
            .map(Seeds)
            .ok_or_else(|| format!("{} is not a list of seeds; write \"1..30\", \"3,5,7\" or 5", value.to_toml()))
    }
}

/// Parses `1..30` (both ends included), `3,5,7` or a mix.
fn parse_seeds(text: &str) -> Option<Vec<u64>> {
    // The resolved configuration repeats a seed as a whole number of TOML.
    let seed = |text: &str| text.trim().parse().ok().filter(|seed: &u64| i64::try_from(*seed).is_ok());
    let mut seeds = Vec::new();
    for part in text.split(',') {
        match part.split_once("..") {
            None => seeds.push(seed(part)?),
            Some((first, last)) => {
                let (first, last) = (seed(first)?, seed(last)?);
                if first > last || last - first >= RUNS_MAX as u64 {
                    return None;
                }
                seeds.extend(first..=last);
            }
        }
    }
    Some(seeds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_name_the_variants_that_set_their_keys() {
        let text = "[[sweep.variants]]\nname = \"a\"\ntarget.queue = \"fifo\"\n[[sweep.variants]]\nname = \"b\"\n";
        let mut document = Document::parse(text, "x.toml").unwrap();
        for (key, value) in [("target.queue", "olaf"), ("target.slots", "2")] {
            document.set(key, value.into(), Origin::Flag(format!("--set {key}"))).unwrap();
        }
        let (overrides, sweep) = (document.overrides(), Sweep::read(&mut document, 1).unwrap());
        let wanted = ["target.queue=olaf (without effect in \"a\", which sets it)", "target.slots=2"];
        assert_eq!(with_variants(&overrides, &sweep.runs()), wanted);
        assert_eq!(with_variants(&overrides, &sweep.runs()[1..]), overrides);
    }

    #[test]
    fn a_sweep_is_the_product_of_its_parts() {
        let text = r#"
[sweep]
seeds = "1..2,7"
[sweep.axes]
topology.rate = ["40Gbps", "20Gbps"]
[[sweep.variants]]
name = "FIFO"
target.queue = "fifo"
[[sweep.variants]]
name = "Olaf"
"target.queue" = "olaf"
"#;
        let mut doc = Document::parse(text, "x.toml").unwrap();
        let sweep = Sweep::read(&mut doc, 1).unwrap();
        let runs = sweep.runs();
        assert_eq!(runs.len(), 2 * 2 * 3);
        assert_eq!(runs[0].folder(), "FIFO,rate=40Gbps,seed=1");
        assert_eq!(runs[11].folder(), "Olaf,rate=20Gbps,seed=7");
        runs[11].apply(&mut doc).unwrap();
        assert_eq!(doc.get("target.queue"), Some(&Value::Text("olaf".into())));
        assert_eq!(doc.get("topology.rate"), Some(&Value::Text("20Gbps".into())));
    }

    #[test]
    fn no_folder_of_a_run_is_hidden() {
        let text = "[[sweep.variants]]\nname = \".dot\"\n[[sweep.variants]]\nname = \"..\"\n";
        let folders: Vec<_> = read(text, &[]).unwrap().runs().iter().map(Run::folder).collect();
        assert_eq!(folders, ["_dot,seed=1", "_.,seed=1"]);
    }

    #[test]
    fn what_lies_over_the_file_wins_over_axes_and_leaves_variants_theirs() {
        let text = "[sweep.axes]\ntarget.slots = [1, 2]\ntarget.queue = [\"a\", \"b\"]\n\
                    [[sweep.variants]]\nname = \"x\"\nworkload.kind = \"p\"\n\
                    [[sweep.variants]]\nname = \"y\"\nworkload.kind = \"q\"\n";
        let runs = |flags: &[&str]| {
            let mut document = Document::parse(text, "test").unwrap();
            let flags: Vec<_> = flags.iter().map(|flag| (*flag).to_owned()).collect();
            document.overlay(std::iter::empty(), &flags).unwrap();
            Sweep::read(&mut document, 1).unwrap().runs()
        };
        assert_eq!(runs(&[]).len(), 8);
        let all = runs(&["target.slots=7"]);
        assert_eq!(all.len(), 4);
        assert!(all.iter().all(|run| run.labels["target.slots"] == "7"));
        assert_eq!(runs(&["workload.kind=r"]).len(), 8);
    }

    #[test]
    fn a_key_is_set_by_an_axis_or_by_a_variant() {
        let both = "[sweep.axes]\na.b = [1, 2]\n[[sweep.variants]]\nname = \"x\"\na.b = 3\n";
        let why = read(both, &[]).unwrap_err().to_string();
        assert!(why.contains("a.b is an axis, and variant \"x\" sets it"), "{why}");
        let why = read("[sweep.axes]\na = [{ b = 1 }]", &["a.c=2"]).unwrap_err().to_string();
        assert!(why.contains("cannot be a table"), "{why}");
    }

    #[test]
    fn without_a_sweep_there_is_one_run() {
        let mut doc = Document::parse("", "x.toml").unwrap();
        let runs = Sweep::read(&mut doc, 42).unwrap().runs();
        assert_eq!((runs.len(), runs[0].seed), (1, 42));
        assert_eq!(parse_seeds("3..1"), None);
        assert_eq!(parse_seeds("a"), None);
        assert_eq!(parse_seeds("9223372036854775807"), Some(vec![i64::MAX as u64]));
        assert_eq!(parse_seeds("1,9223372036854775808"), None);
    }

    fn read(text: &str, flags: &[&str]) -> Result<Sweep> {
        let mut doc = Document::parse(text, "x.toml").unwrap();
        let flags: Vec<_> = flags.iter().map(|f| (*f).to_owned()).collect();
        doc.overlay(std::iter::empty(), &flags).unwrap();
        Sweep::read(&mut doc, 1)
    }

    #[test]
    fn a_flag_replaces_an_axis_in_either_spelling_and_a_key_is_written_once() {
        let sweep = read("[sweep.axes]\n\"a.b\" = [1, 2]", &["sweep.axes.a.b=[3]"]).unwrap();
        assert_eq!(sweep.axes, [("a.b".to_owned(), vec![Value::Integer(3)])]);
        let sweep = read("[sweep.axes.\"a.b\"]\nc = [1, 2]", &["sweep.axes.a.b.c=[3]"]).unwrap();
        assert_eq!(sweep.axes, [("a.b.c".to_owned(), vec![Value::Integer(3)])]);
        let twice = read("[sweep.axes]\na.b = [1]\n\"a.b\" = [2]", &[]).unwrap_err().to_string();
        assert!(twice.contains("a.b is written twice"), "{twice}");
    }

    #[test]
    fn a_seed_that_is_given_is_the_seed_of_the_sweep() {
        assert_eq!(read("[sweep]\nseeds = \"3..9\"", &["seed=1"]).unwrap().seeds, [1]);
        assert_eq!(read("seed = 1\n[sweep]\nseeds = \"3..5\"", &[]).unwrap().seeds, [3, 4, 5]);
        assert_eq!(read("seed = 1", &["sweep.seeds=4"]).unwrap().seeds, [4]);
        for flags in [["seed=1", "sweep.seeds=4"], ["sweep.seeds=4", "seed=1"]] {
            let why = read("[sweep]\nseeds = \"3..9\"", &flags).unwrap_err().to_string();
            let wanted = "--set sweep.seeds=4 and --set seed=1 both set the seeds; leave one of them out";
            assert!(why.contains(wanted), "{why}");
        }
    }

    #[test]
    fn a_flag_overrides_the_environment_in_either_form() {
        let read = |environment: &[(&str, &str)], flags: &[&str]| {
            let mut document =
                Document::parse("[sweep]\nseeds = \"3..9\"\n[sweep.axes]\na.b = [1, 2, 3]", "x.toml").unwrap();
            let environment = environment.iter().map(|(key, value)| (format!("PKTGEN_SET_{key}"), (*value).to_owned()));
            let flags: Vec<_> = flags.iter().map(|flag| (*flag).to_owned()).collect();
            document.overlay(environment, &flags).unwrap();
            Sweep::read(&mut document, 9)
        };
        let sweep = read(&[("A__B", "7"), ("SWEEP__SEEDS", "1..3")], &["sweep.axes.a.b=[4, 5]", "seed=9"]).unwrap();
        assert_eq!((sweep.axes[0].1.len(), sweep.seeds), (2, vec![9]));
        assert_eq!(sweep.overridden, ["sweep.seeds", "a.b"]);
        let sweep = read(&[("SWEEP__AXES__A__B", "[4, 5]"), ("SEED", "9")], &["a.b=7", "sweep.seeds=1..3"]).unwrap();
        assert_eq!((sweep.axes[0].1.len(), sweep.seeds), (1, vec![1, 2, 3]));
        assert_eq!(sweep.overridden, ["seed", "sweep.axes.a.b"]);
        let why = read(&[], &["a.b=7", "sweep.axes.a.b=[4, 5]"]).unwrap_err().to_string();
        assert!(why.contains("--set sweep.axes.a.b=[4, 5] and --set a.b=7 both set a.b"), "{why}");
        assert!(read(&[("A__B", "7"), ("SWEEP__AXES__A__B", "[4, 5]")], &[]).is_err());
        assert!(read(&[("SEED", "7"), ("SWEEP__SEEDS", "1..3")], &[]).is_err());
    }

    #[test]
    fn one_seed_needs_no_quotes() {
        assert_eq!(read("[sweep]\nseeds = 5", &[]).unwrap().seeds, [5]);
        assert_eq!(read("[sweep]\nseeds = \"1..9\"", &["sweep.seeds=3"]).unwrap().seeds, [3]);
        assert_eq!(read("", &["sweep.seeds=3,4"]).unwrap().seeds, [3, 4]);
        for wrong in ["seeds = -1", "seeds = 1.5", "seeds = \"2..1\"", "seeds = [1]"] {
            let message = read(&format!("[sweep]\n{wrong}"), &[]).unwrap_err().to_string();
            assert!(message.starts_with("x.toml:2:1: sweep.seeds") && message.contains("1..30"), "{message}");
        }
    }

    #[test]
    fn what_is_the_same_for_all_runs_is_refused() {
        for (text, part) in [
            ("[sweep.axes]\nseed = [1, 2]", "x.toml:2:1: a sweep cannot set \"seed\": seeds are listed in sweep.seeds"),
            ("[[sweep.variants]]\nname = \"a\"\nseed = 1", "x.toml:3:1: a sweep cannot set \"seed\""),
            ("[sweep.axes]\nreport.baseline = [\"a\"]", "\"report.baseline\""),
            ("[[sweep.variants]]\nname = \"a\"\nabout = \"b\"", "\"about\""),
            ("[[sweep.variants]]\nname = \"a\"\npaper.rows = 1", "\"paper.rows\""),
            ("[sweep.axes]\nsweep.seeds = [1]", "\"sweep.seeds\""),
            ("[sweep.axes]\nname = [\"a\"]", "\"name\""),
            ("[[sweep.variants]]\nname = 3", "x.toml:2:1: a variant is called 3"),
            ("[sweep]\nseeds = \"1..600000\"\n[sweep.axes]\na.b = [1, 2]", "more than 1000000 runs"),
        ] {
            let message = read(text, &[]).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn a_wrong_value_is_found_where_it_was_written() {
        let text =
            "[sweep.axes]\ntarget.slots = [\n  8,\n  \"x\",\n]\n[[sweep.variants]]\nname = \"a\"\ntarget.rate = 3\n";
        let mut doc = Document::parse(text, "x.toml").unwrap();
        let runs = Sweep::read(&mut doc, 1).unwrap().runs();
        runs[1].apply(&mut doc).unwrap();
        let mut target = doc.section("target").unwrap();
        let slots = target.get::<u32>("slots", 1u32).unwrap_err().to_string();
        assert!(slots.starts_with("x.toml:4:3: target.slots: \"x\""), "{slots}");
        let rate = target.get::<crate::units::Rate>("rate", "1bps").unwrap_err().to_string();
        assert!(rate.starts_with("x.toml:8:8: target.rate"), "{rate}");
        let mut doc = Document::parse("", "x.toml").unwrap();
        doc.overlay(std::iter::empty(), &["sweep.axes.a.b=[1, 2]".into()]).unwrap();
        let runs = Sweep::read(&mut doc, 1).unwrap().runs();
        assert_eq!(runs[1].set[0].1.origin.to_string(), "--set sweep.axes.a.b=[1, 2]");
    }
}
