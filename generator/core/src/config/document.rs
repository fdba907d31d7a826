//! The merged configuration tree: default < file < environment < flag, in one function.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::section::Section;
use super::value::{Entry, Table, Value, from_toml, is_quantity, keeps_text, table_from_toml, write_table};
use crate::registry::suggest;
use crate::regular::check_regular;
use crate::{Error, Result};

/// Top-level names of an experiment file, for readers of parts of it and for the error about an unknown name.
pub const SECTIONS: &[&str] = &[
    "name",
    "about",
    "seed",
    "study",
    "workload",
    "schedule",
    "format",
    "topology",
    "target",
    "endpoint",
    "transport",
    "capture",
    "sweep",
    "metrics",
    "report",
    "paper",
    "verify",
    "certify",
    "calibrate",
];

/// Name of experiments without one.
pub const UNNAMED: &str = "unnamed";

/// Where a value was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// In a file.
    File {
        /// Path as the user gave it.
        path: Arc<str>,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
    /// In an environment variable.
    Environment(String),
    /// On the command line: what follows `--set`, or a flag of its own with its value.
    Flag(String),
    /// Chosen by a search, as `key=value`: a parameter of a calibration.
    Parameter(String),
    /// Not written: the default.
    Default,
}

impl Origin {
    /// Returns whether the value overrides files.
    pub fn is_override(&self) -> bool {
        matches!(self, Origin::Environment(_) | Origin::Flag(_) | Origin::Parameter(_))
    }

    /// Returns whether it lies over `other`: flags over the environment, and both over files.
    pub(super) fn is_later(&self, other: &Origin) -> bool {
        let layer = |origin: &Origin| match origin {
            Origin::Default => 0,
            Origin::File { .. } => 1,
            Origin::Environment(_) => 2,
            Origin::Flag(_) | Origin::Parameter(_) => 3,
        };
        layer(self) > layer(other)
    }

    /// Returns whether it is a flag of its own (`--rate`), not `--set`.
    pub fn is_flag(&self) -> bool {
        matches!(self, Origin::Flag(text) if text.starts_with("--"))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File { path, line, column } => write!(f, "{path}:{line}:{column}"),
            Origin::Environment(name) => write!(f, "environment variable {name}"),
            Origin::Flag(text) if self.is_flag() => f.write_str(text),
            Origin::Flag(text) => write!(f, "--set {text}"),
            Origin::Parameter(text) => write!(f, "parameter {text}"),
            Origin::Default => f.write_str("default"),
        }
    }
}

/// An experiment as written, merged over its layers.
#[derive(Debug, Clone)]
pub struct Document {
    root: Table,
    /// The values that were read, with defaults filled in; grows as sections are closed.
    resolved: Table,
    unused: Vec<Unused>,
    name: Arc<str>,
}

/// A value that was written and is without effect: alternatives of what was chosen would read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unused {
    /// Dotted path of the key.
    pub path: String,
    /// Where it was written.
    pub origin: Origin,
}

impl fmt::Display for Unused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.path, self.origin)
    }
}

/// Prefix of environment variables that set a key: `PKTGEN_SET_TARGET__SLOTS=16`.
const ENVIRONMENT: &str = "PKTGEN_SET_";

impl Document {
    /// Reads `path` and lays the environment and the flags (`key=value`) over it.
    pub fn load(path: &Path, flags: &[String]) -> Result<Self> {
        check_regular(path)?;
        let text = std::fs::read_to_string(path).map_err(Error::io("read experiment", path))?;
        Self::read(&text, &path.display().to_string(), flags)
    }

    /// Parses the text of a file called `name`; the environment and then `flags` lie over it.
    pub fn read(text: &str, name: &str, flags: &[String]) -> Result<Self> {
        let mut document = Self::parse(text, name)?;
        document.overlay(readable(std::env::vars_os())?.into_iter(), flags)?;
        Ok(document)
    }

    /// Parses the text of a file called `name`.
    pub fn parse(text: &str, name: &str) -> Result<Self> {
        let name: Arc<str> = name.into();
        let starts: Vec<usize> = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        // The last place, and the characters of its line before it: long lists have their items in one line.
        let last = Cell::new((0, 0));
        let place = |span: std::ops::Range<usize>| {
            let at = span.start.min(text.len());
            let line = starts.partition_point(|start| *start <= at);
            let begin = starts[line - 1];
            let (from, before) =
                Some(last.get()).filter(|(known, _)| (begin..=at).contains(known)).unwrap_or((begin, 0));
            let column = before + text[from..at].chars().count();
            last.set((at, column));
            Origin::File { path: name.clone(), line, column: column + 1 }
        };
        let parsed = toml::de::DeTable::parse(text).map_err(|e| {
            let at = e.span().map_or_else(|| name.to_string(), |span| place(span).to_string());
            Error::config(format!("{at}: not valid TOML: {}", e.message()))
        })?;
        let root = table_from_toml(parsed.get_ref(), &keeps_text, &place)?;
        Ok(Document { root, resolved: Table::new(), unused: Vec::new(), name: name.clone() })
    }

    /// Returns the name of the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Lays environment variables, then flags, over the document.
    pub fn overlay(&mut self, environment: impl Iterator<Item = (String, String)>, flags: &[String]) -> Result<()> {
        let mut variables: Vec<_> = environment.filter(|(name, _)| name.starts_with(ENVIRONMENT)).collect();
        variables.sort();
        for (name, text) in variables {
            let path = name[ENVIRONMENT.len()..].to_lowercase().replace("__", ".");
            let origin = Origin::Environment(name);
            self.set(&path, parse_value(&path, &text, &origin)?, origin)?;
        }
        for flag in flags {
            let Some((path, text)) = flag.split_once('=') else {
                return Err(Error::config(format!("--set {flag}: write key=value, for example target.slots=16")));
            };
            let origin = Origin::Flag(flag.clone());
            let path = path.trim();
            self.set(path, parse_value(path, text.trim(), &origin)?, origin)?;
        }
        Ok(())
    }

    /// Sets the dotted `path`, creating tables on the way.
    pub fn set(&mut self, path: &str, value: Value, origin: Origin) -> Result<()> {
        forget(&mut self.root, path);
        let mut table = &mut self.root;
        let mut rest = path;
        loop {
            let (part, next) = rest.split_once('.').map_or((rest, None), |(part, next)| (part, Some(next)));
            if part.is_empty() {
                return Err(Error::config(format!("{origin}: \"{path}\" has an empty part")));
            }
            let Some(next) = next else {
                table.insert(part.to_owned(), Entry { value, origin });
                return Ok(());
            };
            rest = next;
            let entry = table
                .entry(part.to_owned())
                .or_insert_with(|| Entry { value: Value::Table(Table::new()), origin: origin.clone() });
            let kind = entry.value.kind();
            let Value::Table(inner) = &mut entry.value else {
                return Err(Error::config(format!("{origin}: \"{part}\" in \"{path}\" is {kind}, not a table")));
            };
            table = inner;
        }
    }

    /// Removes the value at the dotted `path`, if one was written: a flag that replaces several keys removes them first.
    pub fn unset(&mut self, path: &str) {
        let (tables, key) = path.rsplit_once('.').map_or((None, path), |(tables, key)| (Some(tables), key));
        let mut table = &mut self.root;
        for part in tables.into_iter().flat_map(|tables| tables.split('.')) {
            match table.get_mut(part).map(|entry| &mut entry.value) {
                Some(Value::Table(inner)) => table = inner,
                _ => return,
            }
        }
        table.remove(key);
    }

    /// Returns the value at the dotted `path`, if it was written.
    pub fn get(&self, path: &str) -> Option<&Value> {
        self.entry(path).map(|entry| &entry.value)
    }

    /// Returns where the value at the dotted `path` was written, if it was.
    pub fn origin(&self, path: &str) -> Option<&Origin> {
        self.entry(path).map(|entry| &entry.origin)
    }

    /// Returns whether the value at this path was written at this place.
    pub fn holds(&self, Unused { path, origin }: &Unused) -> bool {
        self.entry(path).is_some_and(|entry| entry.origin == *origin)
    }

    fn entry(&self, path: &str) -> Option<&Entry> {
        let mut table = &self.root;
        let mut parts = path.split('.').peekable();
        while let Some(part) = parts.next() {
            let entry = table.get(part)?;
            match (&entry.value, parts.peek()) {
                (_, None) => return Some(entry),
                (Value::Table(inner), Some(_)) => table = inner,
                _ => return None,
            }
        }
        None
    }

    /// Returns the value at the dotted `path` if it comes from the environment or a flag.
    pub(super) fn overriding(&self, path: &str) -> Option<Entry> {
        let mut all = BTreeMap::new();
        flatten(&self.root, "", &mut all);
        all.get(path).filter(|entry| entry.origin.is_override()).map(|entry| (*entry).clone())
    }

    /// Returns the values from the environment and from flags, as `key=value` in the order of the keys.
    pub fn overrides(&self) -> Vec<String> {
        let mut all = BTreeMap::new();
        flatten(&self.root, "", &mut all);
        let over = all.into_iter().filter(|(_, entry)| entry.origin.is_override());
        over.map(|(key, entry)| format!("{key}={}", entry.value.to_label())).collect()
    }

    /// Returns every written value by its dotted path, in the notation of `--set`.
    pub fn leaves(&self) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        flatten(&self.root, "", &mut all);
        all.into_iter().map(|(key, entry)| (key, entry.value.to_label())).collect()
    }

    /// Takes the section `name` out (an empty one if it was not written); give it back to
    /// [`close`](Self::close).
    pub fn section(&mut self, name: &str) -> Result<Section> {
        match self.root.remove(name) {
            None => Ok(Section::new(name, Table::new(), Origin::Default)),
            Some(Entry { value: Value::Table(table), origin }) => Ok(Section::new(name, table, origin)),
            Some(Entry { value, origin }) => {
                Err(Error::config(format!("{origin}: \"{name}\" is {}; it must be a section, [{name}]", value.kind())))
            }
        }
    }

    /// Returns a copy of the section at the dotted `path`, if it was written, for reading ahead; to be closed with [`end`](Section::end).
    pub fn subsection(&self, path: &str) -> Result<Option<Section>> {
        match self.get(path) {
            None => Ok(None),
            Some(Value::Table(table)) => Ok(Some(Section::new(path, table.clone(), Origin::Default))),
            Some(value) => {
                Err(Error::config(format!("\"{path}\" is {}; it must be a section, [{path}]", value.kind())))
            }
        }
    }

    /// Ends the reading of a section: refuses keys that no reader requested.
    pub fn close(&mut self, section: Section) -> Result<()> {
        let (name, resolved, unused) = section.finish()?;
        for key in unused {
            let origin = resolved.get(&key).map_or(Origin::Default, |entry| entry.origin.clone());
            self.unused.push(Unused { path: format!("{name}.{key}"), origin });
        }
        if !resolved.is_empty() {
            let value = Value::Table(resolved);
            self.resolved.insert(name, Entry { value, origin: Origin::Default });
        }
        Ok(())
    }

    /// Takes out a section that only another command reads: overrides in it are without effect here.
    pub fn leave(&mut self, name: &str) -> Result<()> {
        let mut all = BTreeMap::new();
        if let Some(Entry { value: Value::Table(table), .. }) = self.root.get(name) {
            flatten(table, name, &mut all);
        }
        let over = all.into_iter().filter(|(_, entry)| entry.origin.is_override());
        self.unused.extend(over.map(|(path, entry)| Unused { path, origin: entry.origin }));
        self.section(name).map(drop)
    }

    /// Refuses keys of a section that are not in `keys`, also those that a sweep sets, without taking it out.
    pub fn check_keys(&self, name: &str, keys: &[&str]) -> Result<()> {
        let check = |table: Table, origin: &Origin| {
            let mut section = Section::new(name, table, origin.clone());
            keys.iter().for_each(|key| section.allow_elsewhere(key));
            section.end()
        };
        if let Some(Entry { value: Value::Table(table), origin }) = self.root.get(name) {
            check(table.clone(), origin)?;
        }
        let Some(Entry { value: Value::Table(table), origin }) = self.root.get("sweep") else { return Ok(()) };
        let mut sweep = Section::new("sweep", table.clone(), origin.clone());
        let (axes, variants) = (sweep.get_entries("axes")?, sweep.get_entry_tables("variants")?);
        let own = |(path, entry): (String, Entry)| {
            let rest = path.strip_prefix(name)?.strip_prefix('.')?;
            Some((rest.split('.').next()?.to_owned(), entry))
        };
        check(axes.into_iter().chain(variants.into_iter().flatten()).filter_map(own).collect(), origin)
    }

    /// Returns the written keys of closed sections that were not read, because only alternatives read them.
    pub fn unused(&self) -> &[Unused] {
        &self.unused
    }

    /// Reads a top-level key.
    pub fn top(&mut self, key: &str, default: &str) -> Result<String> {
        let (found, value) = match self.root.remove(key) {
            None => (default.to_owned(), Value::Text(default.to_owned())),
            Some(Entry { value: Value::Text(text), .. }) => (text.clone(), Value::Text(text)),
            Some(Entry { value: Value::Integer(n), .. }) => (n.to_string(), Value::Integer(n)),
            Some(Entry { value, origin }) => {
                return Err(Error::config(format!("{origin}: \"{key}\" is {}; it must be a text", value.kind())));
            }
        };
        self.resolved.insert(key.to_owned(), Entry { value, origin: Origin::Default });
        Ok(found)
    }

    /// Removes section `name` from the resolved document: a single run of a sweep is not a sweep.
    pub fn forget(&mut self, name: &str) {
        self.resolved.remove(name);
    }

    /// Refuses sections and keys that were not read; called after all sections are closed.
    pub fn finish(&self, known: &[&str]) -> Result<()> {
        match self.root.iter().next() {
            None => Ok(()),
            Some((key, entry)) => Err(Error::config(format!(
                "{}: unknown section or key \"{key}\"{}; there are: {}",
                entry.origin,
                suggest(key, known),
                known.join(", ")
            ))),
        }
    }

    /// Returns the written values as TOML, without the sections `without`: another experiment file.
    pub fn written(&self, without: &[&str]) -> String {
        let mut out = String::new();
        let kept: Table = self
            .root
            .iter()
            .filter(|(key, _)| !without.contains(&key.as_str()))
            .map(|(k, e)| (k.clone(), e.clone()))
            .collect();
        write_table(&mut out, "", &kept);
        out.trim_start().to_owned()
    }

    /// Sets the dotted `path` for all runs, or for those of one variant of the sweep; overrides variants that set it themselves.
    pub fn set_for(&mut self, variant: Option<&str>, path: &str, value: &Value, origin: &Origin) -> Result<()> {
        let entry = Entry { value: value.clone(), origin: origin.clone() };
        if variant.is_none() {
            self.set(path, value.clone(), origin.clone())?;
        }
        let Some(Entry { value: Value::Table(sweep), .. }) = self.root.get_mut("sweep") else { return Ok(()) };
        let Some(Entry { value: Value::List(variants), .. }) = sweep.get_mut("variants") else { return Ok(()) };
        for one in variants {
            let Value::Table(table) = &mut one.value else { continue };
            let mut flat = BTreeMap::new();
            flatten(table, "", &mut flat);
            let mut flat: Table = flat.into_iter().map(|(key, entry)| (key, entry.clone())).collect();
            let is_meant = variant.is_some_and(|name| flat.get("name").is_some_and(|it| it.value.to_label() == name));
            if is_meant || variant.is_none() && flat.contains_key(path) {
                flat.insert(path.to_owned(), entry.clone());
                *table = flat;
            }
        }
        Ok(())
    }

    /// Returns the resolved document as TOML: the output of `--print-config`, kept in the manifest.
    pub fn resolved(&self) -> String {
        let mut out = String::new();
        write_table(&mut out, "", &self.resolved);
        out
    }

    /// Returns one resolved section as TOML, for hashing.
    pub fn resolved_section(&self, name: &str) -> String {
        let mut out = String::new();
        if let Some(Entry { value: Value::Table(table), .. }) = self.resolved.get(name) {
            write_table(&mut out, name, table);
        }
        out
    }
}

/// Returns the variables with the prefix [`ENVIRONMENT`]. Their values must be text; others may hold any bytes.
fn readable(variables: impl Iterator<Item = (OsString, OsString)>) -> Result<Vec<(String, String)>> {
    let mut texts = Vec::new();
    for (name, value) in variables {
        let shown = name.to_string_lossy();
        if !shown.starts_with(ENVIRONMENT) {
            continue;
        }
        match (name.to_str(), value.to_str()) {
            (Some(name), Some(value)) => texts.push((name.to_owned(), value.to_owned())),
            (None, _) => {
                return Err(Error::config(format!("environment variable {shown}: its name is not UTF-8; unset it")));
            }
            (_, None) => {
                return Err(Error::config(format!(
                    "environment variable {shown}: its value \"{}\" is not UTF-8; set it to a value of an experiment \
                     file, or unset it",
                    value.to_string_lossy()
                )));
            }
        }
    }
    Ok(texts)
}

/// Parses a value on the command line: TOML if it parses, else text, so that `40Gbps` and `20_000Mbps` need no quotes.
fn parse_value(path: &str, text: &str, origin: &Origin) -> Result<Value> {
    match toml::de::DeValue::parse(text) {
        Ok(value) if !is_quantity(value.get_ref()) => {
            Ok(from_toml("value", &value, keeps_text(path), &|_| origin.clone())?.value)
        }
        _ => Ok(Value::Text(text.to_owned())),
    }
}

/// Removes what is written at `path`, in any spelling: `"a.b" = …` and `"a.b".c = …` are others of a.b and a.b.c.
fn forget(table: &mut Table, path: &str) {
    table.remove(path);
    for (at, _) in path.match_indices('.') {
        if let Some(Entry { value: Value::Table(inner), .. }) = table.get_mut(&path[..at]) {
            forget(inner, &path[at + 1..]);
        }
    }
}

/// Flattens nested tables to dotted paths: `[sweep.axes] target.slots = [..]` and
/// `"target.slots" = [..]` are equivalent. Values keep their origins. Returns a path that is written in both spellings, if any.
pub(super) fn flatten(table: &Table, prefix: &str, out: &mut BTreeMap<String, Entry>) -> Option<(String, Origin)> {
    let mut twice = None;
    for (key, entry) in table {
        let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        let hidden = match &entry.value {
            Value::Table(inner) => flatten(inner, &path, out),
            _ => out.insert(path.clone(), entry.clone()).map(|first| (path, first.origin)),
        };
        twice = twice.or(hidden);
    }
    twice
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_lie_over_each_other_in_order() {
        let mut doc = Document::parse("[target]\nslots = 1\nqueue = \"fifo\"\nkeep = 1", "x.toml").unwrap();
        let env = [("PKTGEN_SET_TARGET__SLOTS".to_owned(), "2".to_owned()), ("HOME".into(), "/".into())];
        doc.overlay(env.into_iter(), &["target.queue=olaf".into(), "topology.rate=20Gbps".into()]).unwrap();
        assert_eq!(doc.get("target.slots"), Some(&Value::Integer(2)));
        assert_eq!(doc.get("target.queue"), Some(&Value::Text("olaf".into())));
        assert_eq!(doc.get("target.keep"), Some(&Value::Integer(1)));
        assert_eq!(doc.get("topology.rate"), Some(&Value::Text("20Gbps".into())));
        assert_eq!(doc.overrides(), ["target.queue=olaf", "target.slots=2", "topology.rate=20Gbps"]);
        for (text, value) in [
            ("20_000Mbps", Value::Text("20_000Mbps".into())),
            ("-1_0x", Value::Text("-1_0x".into())),
            ("20_000", Value::Integer(20_000)),
            ("-1_0", Value::Integer(-10)),
            ("0xff_ff", Value::Integer(0xffff)),
        ] {
            doc.overlay(std::iter::empty(), &[format!("a.b={text}")]).unwrap();
            assert_eq!(doc.get("a.b"), Some(&value), "{text}");
        }
    }

    #[test]
    fn unknown_keys_name_place_and_neighbour() {
        let mut doc = Document::parse("[target]\n  slotz = 1\n", "x.toml").unwrap();
        let mut section = doc.section("target").unwrap();
        let slots: u32 = section.get("slots", 8u32).unwrap();
        assert_eq!(slots, 8);
        let message = doc.close(section).unwrap_err().to_string();
        assert_eq!(message, "x.toml:2:3: unknown key \"target.slotz\", did you mean \"slots\"?; keys here: slots");
        let doc = Document::parse("[tarjet]\na = 1", "x.toml").unwrap();
        let message = doc.finish(&["target", "workload"]).unwrap_err().to_string();
        assert!(message.contains("x.toml:1:2") && message.contains("did you mean \"target\"?"), "{message}");
    }

    #[test]
    fn of_a_section_of_another_command_keys_are_known_and_overrides_without_effect() {
        let mut doc = Document::parse("[certify]\nlate = \"1s\"", "x.toml").unwrap();
        doc.overlay(std::iter::empty(), &["certify.trial=1s".into()]).unwrap();
        assert!(doc.check_keys("certify", &["late", "trial"]).is_ok() && doc.check_keys("verify", &[]).is_ok());
        let message = doc.check_keys("certify", &["late", "trials"]).unwrap_err().to_string();
        assert!(message.contains("--set certify.trial=1s") && message.contains("did you mean \"trials\""), "{message}");
        doc.leave("certify").unwrap();
        let unused: Vec<_> = doc.unused().iter().map(Unused::to_string).collect();
        assert_eq!(unused, ["certify.trial (--set certify.trial=1s)"]);
        assert!(doc.finish(&[]).is_ok());
    }

    #[test]
    fn keys_of_a_section_of_another_command_are_checked_in_sweeps() {
        let axis = "[sweep.axes]\ntarget.x = [1]\ncertify.trails = [1, 2]";
        let quoted = "[sweep.axes]\n\"certify.trails\" = [1, 2]";
        let variant = "[[sweep.variants]]\nname = \"a\"\ncertify.late = \"1s\"\ncertify.trails = 1";
        for text in [axis, quoted, variant] {
            let doc = Document::parse(text, "x.toml").unwrap();
            assert!(doc.check_keys("certify", &["late", "trails"]).is_ok() && doc.check_keys("verify", &[]).is_ok());
            let message = doc.check_keys("certify", &["late", "trials"]).unwrap_err().to_string();
            assert!(message.starts_with("x.toml:"), "{message}");
            assert!(message.contains("unknown key \"certify.trails\", did you mean \"trials\""), "{message}");
        }
    }

    #[test]
    fn what_is_wrong_says_where() {
        let message = Document::parse("a = \n", "x.toml").unwrap_err().to_string();
        assert!(message.starts_with("x.toml:1:"), "{message}");
        let message = Document::parse("a = 20_000Mbps", "x.toml").unwrap_err().to_string();
        assert_eq!(message, "x.toml:1:5: a = 20000Mbps is no number; put a quantity in quotes: \"20000Mbps\"");
        let message = Document::parse("a = 9223372036854775808", "x.toml").unwrap_err().to_string();
        assert!(message.contains("9223372036854775808 is out of range"), "{message}");
        // Errors without a position name the file, not a flag.
        let message = Document::parse(&format!("a = {}", "[".repeat(5000)), "x.toml").unwrap_err().to_string();
        assert!(message.starts_with("x.toml") && !message.contains("--set"), "{message}");
        let mut doc = Document::parse("target = 3", "x.toml").unwrap();
        assert!(doc.section("target").unwrap_err().to_string().contains("must be a section"));
        assert!(doc.set("target.x", Value::Bool(true), Origin::Default).is_ok());
        assert!(doc.overlay(std::iter::empty(), &["novalue".into()]).is_err());
    }

    #[test]
    fn the_resolved_whole_parses_again() {
        let mut doc = Document::parse("[a]\nx = [1, 2]\ny = \"q\\\"\"\n[a.b]\n\"k.l\" = 2.5", "x.toml").unwrap();
        let mut section = doc.section("a").unwrap();
        ["x", "y", "b"].iter().for_each(|key| section.allow_elsewhere(key));
        doc.close(section).unwrap();
        let again = Document::parse(&doc.resolved(), "again").unwrap();
        assert_eq!(again.get("a.y"), Some(&Value::Text("q\"".into())));
        assert_eq!(again.get("a.x").unwrap().to_toml(), "[1, 2]");
    }

    #[test]
    fn numbers_of_the_paper_keep_their_text() {
        let mut doc =
            Document::parse("[paper]\nrows = [{ loss = 1.60, at = { \"a.b\" = 0.50 } }]\n[target]\nx = 1.60", "x")
                .unwrap();
        doc.overlay(std::iter::empty(), &["paper.more=2.0".into(), "target.y=2.0".into()]).unwrap();
        assert_eq!(doc.get("paper.rows").unwrap().to_toml(), "[{ at = { \"a.b\" = 0.50 }, loss = 1.60 }]");
        assert_eq!(doc.get("paper.more"), Some(&Value::Printed(2.0, "2.0".into())));
        assert_eq!((doc.get("target.x"), doc.get("target.y")), (Some(&Value::Float(1.6)), Some(&Value::Float(2.0))));
        let again = Document::parse(&doc.written(&[]), "again").unwrap();
        assert_eq!(again.get("paper.rows").unwrap().to_toml(), doc.get("paper.rows").unwrap().to_toml());
    }

    #[cfg(unix)]
    #[test]
    fn variables_that_are_not_text_are_refused_only_if_they_are_ours() {
        use std::os::unix::ffi::OsStringExt;
        let os = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        let read = |name: &[u8], value: &[u8]| readable([(os(name), os(value))].into_iter());
        assert_eq!(read(b"\xff", b"1").unwrap(), []);
        assert_eq!(read(b"LS_COLORS", b"\xff").unwrap(), []);
        assert_eq!(read(b"PKTGEN_SET_A", b"1").unwrap(), [("PKTGEN_SET_A".to_owned(), "1".to_owned())]);
        for (name, value) in [(&b"PKTGEN_SET_A"[..], &b"\xff"[..]), (b"PKTGEN_SET_A\xff", b"1")] {
            let message = read(name, value).unwrap_err().to_string();
            assert!(message.contains("PKTGEN_SET_A") && message.contains("UTF-8"), "{message}");
        }
    }
}
