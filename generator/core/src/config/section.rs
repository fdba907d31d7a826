//! A section of an experiment file, read key by key.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::ops::{RangeBounds, RangeInclusive};

use super::document::Origin;
use super::key::{Choice, KeyTables, names, names_of};
use super::value::{Entry, Table, Value};
use crate::registry::suggest;
use crate::units::{Decimal, PacketRate, Rate, Size, Span};
use crate::{Error, Result};

/// A section being read. Every `get` marks its key as valid; keys without a reader are refused at the end.
#[derive(Debug, Clone)]
pub struct Section {
    name: String,
    table: Table,
    origin: Origin,
    known: Vec<String>,
    resolved: Table,
    /// Keys that were written and not read, because only alternatives read them.
    unused: Vec<String>,
}

/// Types that are read from a configuration value; the error names the expected form.
pub trait FromValue: Sized {
    /// Whether it reads whole numbers only: one that it does not hold is outside of every range of it.
    const IS_INTEGER: bool = false;

    /// Converts `value`.
    fn from_value(value: &Value) -> Result<Self, String>;

    /// Returns the expected form, for lists of keys.
    fn takes() -> String {
        "a value".to_owned()
    }
}

impl Section {
    /// A section called `name`.
    pub(super) fn new(name: &str, table: Table, origin: Origin) -> Self {
        Section { name: name.to_owned(), table, origin, known: Vec::new(), resolved: Table::new(), unused: Vec::new() }
    }

    /// A section of `values` and defaults alone; for tests and library users.
    pub fn of(name: &str, values: &[(&str, Value)]) -> Self {
        let entry = |value: &Value| Entry { value: value.clone(), origin: Origin::Default };
        let table = values.iter().map(|(key, value)| ((*key).to_owned(), entry(value))).collect();
        Section::new(name, table, Origin::Default)
    }

    /// Reads `key`, or `default` where it was not written.
    pub fn get<T: FromValue>(&mut self, key: &str, default: impl Into<Value>) -> Result<T> {
        let entry = self.take(key);
        let entry = entry.unwrap_or_else(|| Entry { value: default.into(), origin: Origin::Default });
        let value = self.convert(key, &entry);
        self.resolved.insert(key.to_owned(), entry);
        value
    }

    /// Whether `key` was written and nobody read it yet.
    pub fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Reads `key` if it was written.
    pub fn get_opt<T: FromValue>(&mut self, key: &str) -> Result<Option<T>> {
        let Some(entry) = self.take(key) else { return Ok(None) };
        let value = self.convert(key, &entry).map(Some);
        self.resolved.insert(key.to_owned(), entry);
        value
    }

    /// Reads `key`, or `default`, which must be the name of one of `choices`; returns its value.
    pub fn choose<T: Clone>(&mut self, key: &str, default: &str, choices: &[Choice<T>]) -> Result<T> {
        let name: String = self.get(key, default)?;
        let found = choices.iter().find(|(choice, ..)| *choice == name).map(|(_, value, _)| value.clone());
        found.ok_or_else(|| {
            let all: Vec<_> = choices.iter().map(|(choice, ..)| *choice).collect();
            let (place, near) = (self.place(key), suggest(&name, &all));
            Error::config(format!("{place}: \"{name}\" is not known{near}; there are: {}", names(choices)))
        })
    }

    /// Reads `key`, or `default`, which must be in `range`.
    pub fn get_in<T: FromValue + PartialOrd + Display>(
        &mut self,
        key: &str,
        default: impl Into<Value>,
        range: RangeInclusive<T>,
    ) -> Result<T> {
        let read = self.get::<T>(key, default);
        let value = self.or_beyond(key, read, &range, "")?;
        self.within(key, [&value], &range, "")?;
        Ok(value)
    }

    /// Returns what was `read` of `key`; of a whole number that its type does not hold, that it is not in `range`.
    pub fn or_beyond<T: FromValue + PartialOrd + Display, R>(
        &self,
        key: &str,
        read: Result<R>,
        range: &impl RangeBounds<T>,
        why: &str,
    ) -> Result<R> {
        match (&read, self.resolved.get(key).map(|entry| &entry.value)) {
            (Err(_), Some(Value::Integer(n))) if T::IS_INTEGER => Err(self.beyond(key, n, range, why)),
            _ => read,
        }
    }

    /// Reads a list of texts or quantities, or `default`.
    pub fn get_list<T: FromValue>(&mut self, key: &str, default: &[&str]) -> Result<Vec<T>> {
        let entry = self.take(key).unwrap_or_else(|| Entry { value: default.into(), origin: Origin::Default });
        let Value::List(items) = &entry.value else {
            return Err(self.wrong(key, &entry, "a list"));
        };
        let values = items.iter().map(|item| self.convert(key, item)).collect();
        self.resolved.insert(key.to_owned(), entry);
        values
    }

    /// Reads a table of arbitrary content, flattened to dotted keys, with the origin of each value; empty if it was not written.
    pub(crate) fn get_entries(&mut self, key: &str) -> Result<Vec<(String, Entry)>> {
        let Some(entry) = self.take(key) else { return Ok(Vec::new()) };
        let Value::Table(table) = &entry.value else {
            return Err(self.wrong(key, &entry, "a table"));
        };
        let out = flat(table)?;
        self.resolved.insert(key.to_owned(), entry);
        Ok(out.into_iter().collect())
    }

    /// Reads a list of tables (`[[section.key]]`), each flattened; empty if it was not written.
    pub fn get_tables(&mut self, key: &str) -> Result<Vec<Vec<(String, Value)>>> {
        let plain = |table: Vec<(String, Entry)>| table.into_iter().map(|(path, entry)| (path, entry.value)).collect();
        Ok(self.get_entry_tables(key)?.into_iter().map(plain).collect())
    }

    /// Like [`get_tables`](Self::get_tables), with the origin of each value.
    pub(crate) fn get_entry_tables(&mut self, key: &str) -> Result<Vec<Vec<(String, Entry)>>> {
        let Some(entry) = self.take(key) else { return Ok(Vec::new()) };
        let Value::List(items) = &entry.value else {
            return Err(self.wrong(key, &entry, "a list of tables"));
        };
        let mut tables = Vec::new();
        for item in items {
            let Value::Table(table) = &item.value else {
                return Err(self.wrong(key, item, "a table"));
            };
            let out = flat(table)?;
            tables.push(out.into_iter().collect());
        }
        self.resolved.insert(key.to_owned(), entry);
        Ok(tables)
    }

    /// Reads a list of tables as separate sections; each must be [`ended`](Self::end) after reading.
    pub fn get_sections(&mut self, key: &str) -> Result<Vec<Section>> {
        let name = format!("{}.{key}", self.name);
        let section = |table: Vec<(String, Entry)>| {
            let origin = table.first().map_or(Origin::Default, |(_, entry)| entry.origin.clone());
            Section::new(&name, table.into_iter().collect(), origin)
        };
        Ok(self.get_entry_tables(key)?.into_iter().map(section).collect())
    }

    /// Reads a table, `[section.KEY]`, as a separate section, if it was written; it must be [`ended`](Self::end) after reading.
    pub fn table(&mut self, key: &str) -> Result<Option<Section>> {
        let Some(entry) = self.take(key) else { return Ok(None) };
        let Value::Table(table) = &entry.value else {
            return Err(self.wrong(key, &entry, &format!("a table, [{}.{key}]", self.name)));
        };
        let own = Section::new(&format!("{}.{key}", self.name), table.clone(), entry.origin.clone());
        self.resolved.insert(key.to_owned(), entry);
        Ok(Some(own))
    }

    /// Reads all tables of the section, `[section.NAME]`, as separate sections; each must be [`ended`](Self::end) after reading.
    pub(crate) fn named_sections(&mut self) -> Result<Vec<(String, Section)>> {
        let mut sections = Vec::new();
        for (name, entry) in std::mem::take(&mut self.table) {
            let Value::Table(table) = &entry.value else {
                return Err(self.wrong(&name, &entry, &format!("a table, [{}.{name}]", self.name)));
            };
            let own = Section::new(&format!("{}.{name}", self.name), table.clone(), entry.origin.clone());
            self.resolved.insert(name.clone(), entry);
            sections.push((name, own));
        }
        Ok(sections)
    }

    /// Ends the reading of one of [`get_sections`](Self::get_sections) or [`named_sections`](Self::named_sections): refuses unknown keys.
    pub fn end(self) -> Result<()> {
        self.finish().map(drop)
    }

    /// Accepts keys that this run does not read: those of the alternatives that a sweep also visits. Their written
    /// values stay unchanged in the resolved document, so that it can be run again and nothing is hidden;
    /// [`unused`](super::Document::unused) lists them.
    pub fn allow(&mut self, keys: KeyTables) {
        for key in names_of(keys) {
            if self.table.contains_key(key) {
                self.unused.push(key.to_owned());
            }
            self.allow_elsewhere(key);
        }
    }

    /// Accepts a key that another reader reads, or another driver for the same file.
    pub fn allow_elsewhere(&mut self, key: &str) {
        if let Some(entry) = self.table.remove(key) {
            self.resolved.insert(key.to_owned(), entry);
        }
        if !self.known.iter().any(|known| known == key) {
            self.known.push(key.to_owned());
        }
    }

    /// Replaces the resolved value of `key`, which was read, with the `value` in effect, where that differs from what was
    /// written.
    pub fn settle(&mut self, key: &str, value: impl Into<Value>) {
        let origin = self.resolved.get(key).map_or(Origin::Default, |entry| entry.origin.clone());
        self.resolved.insert(key.to_owned(), Entry { value: value.into(), origin });
    }

    /// Returns the keys that were requested so far.
    pub fn asked(&self) -> &[String] {
        &self.known
    }

    /// Returns `file:line:column: section.key`, for messages about a value that was read.
    pub fn place(&self, key: &str) -> String {
        match self.resolved.get(key).map_or(&self.origin, |e| &e.origin) {
            Origin::Default => format!("{}.{key}", self.name),
            origin => format!("{origin}: {}.{key}", self.name),
        }
    }

    /// Returns the origin of the section.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Returns the name of the section.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the entry of `key`, also if it was read before: all ports of a device read the same keys.
    fn take(&mut self, key: &str) -> Option<Entry> {
        if let Some(entry) = self.resolved.get(key) {
            return Some(entry.clone());
        }
        self.known.push(key.to_owned());
        self.table.remove(key)
    }

    fn convert<T: FromValue>(&self, key: &str, entry: &Entry) -> Result<T> {
        T::from_value(&entry.value)
            .map_err(|why| Error::config(format!("{}: {}.{key}: {why}", entry.origin, self.name)))
    }

    fn wrong(&self, key: &str, entry: &Entry, wanted: &str) -> Error {
        Error::config(format!("{}: {}.{key} is {}; it must be {wanted}", entry.origin, self.name, entry.value.kind()))
    }

    /// Refuses unknown keys; returns the values that were read, with defaults filled in, and the keys that were not read.
    pub(super) fn finish(self) -> Result<(String, Table, Vec<String>)> {
        if let Some((key, entry)) = self.table.iter().next() {
            let mut seen = BTreeSet::new();
            let names: Vec<_> = self.known.iter().map(String::as_str).filter(|name| seen.insert(*name)).collect();
            return Err(Error::config(format!(
                "{}: unknown key \"{}.{key}\"{}; keys here: {}",
                entry.origin,
                self.name,
                suggest(key, &names),
                names.join(", ")
            )));
        }
        Ok((self.name, self.resolved, self.unused))
    }
}

macro_rules! from_text {
    ($($type:ty: $takes:literal, as $example:literal;)*) => {$(
        impl FromValue for $type {
            fn takes() -> String {
                $takes.to_owned()
            }

            fn from_value(value: &Value) -> Result<Self, String> {
                match value {
                    Value::Text(text) => text.parse().map_err(|e: crate::units::UnitError| e.to_string()),
                    other => Err(format!(
                        "{} is {}; it must be a text with a unit, such as {:?}",
                        other.to_toml(),
                        other.kind(),
                        $example
                    )),
                }
            }
        }
    )*};
}
from_text! {
    Rate: "a rate", as "10Gbps";
    Size: "a size", as "256B";
    Span: "a span of time", as "1.5us";
}

macro_rules! from_number {
    ($($type:ty: $takes:literal),*) => {$(
        /// Reads a text or a number; a float stands for the shortest decimal number that parses to it.
        impl FromValue for $type {
            fn takes() -> String {
                $takes.to_owned()
            }

            fn from_value(value: &Value) -> Result<Self, String> {
                let text = match value {
                    Value::Text(text) => text.clone(),
                    Value::Integer(n) => n.to_string(),
                    Value::Float(x) => x.to_string(),
                    other => return Err(format!("{} is {}; it must be a number", other.to_toml(), other.kind())),
                };
                text.parse().map_err(|e: crate::units::UnitError| e.to_string())
            }
        }
    )*};
}
from_number!(Decimal: "a decimal number", PacketRate: "packets per second");

macro_rules! from_integer {
    ($($type:ty),*) => {$(
        impl FromValue for $type {
            const IS_INTEGER: bool = true;

            fn takes() -> String {
                // TOML's are signed.
                let most = (<$type>::MAX as i128).min(i64::MAX as i128);
                format!("a whole number from {} to {most}", <$type>::MIN)
            }

            fn from_value(value: &Value) -> Result<Self, String> {
                let fail = || format!("{} is not {}", value.to_toml(), Self::takes());
                match value {
                    Value::Integer(n) => <$type>::try_from(*n).map_err(|_| fail()),
                    _ => Err(fail()),
                }
            }
        }
    )*};
}
from_integer!(u8, u16, u32, u64, i64);

impl FromValue for f64 {
    fn takes() -> String {
        "a number".to_owned()
    }

    fn from_value(value: &Value) -> Result<Self, String> {
        match value {
            Value::Float(x) if x.is_finite() => Ok(*x),
            Value::Integer(n) => Ok(*n as f64),
            other => Err(format!("{} is not a finite number", other.to_toml())),
        }
    }
}

impl FromValue for bool {
    fn takes() -> String {
        "true or false".to_owned()
    }

    fn from_value(value: &Value) -> Result<Self, String> {
        match value {
            Value::Bool(b) => Ok(*b),
            other => Err(format!("{} is not true or false", other.to_toml())),
        }
    }
}

impl FromValue for String {
    fn takes() -> String {
        "a text".to_owned()
    }

    fn from_value(value: &Value) -> Result<Self, String> {
        match value {
            Value::Text(text) => Ok(text.clone()),
            other => Err(format!("{} is {}; it must be a text", other.to_toml(), other.kind())),
        }
    }
}

/// Flattens a table whose keys are written once each, with or without quotes.
fn flat(table: &Table) -> Result<BTreeMap<String, Entry>> {
    let mut out = BTreeMap::new();
    match super::document::flatten(table, "", &mut out) {
        Some((path, origin)) => {
            Err(Error::config(format!("{origin}: {path} is written twice, with and without quotes; leave one out")))
        }
        None => Ok(out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_ranges_are_checked() {
        let values = [("order", "randon".into()), ("n", 9u32.into()), ("below", (-1i64).into()), ("share", 1.5.into())];
        let mut section = Section::of("x", &values);
        let orders = [("random", 1, ""), ("reversed", 2, "")];
        assert_eq!(section.choose("other", "reversed", &orders).unwrap(), 2);
        assert_eq!(section.get_in("n", 1u32, 1..=9u32).unwrap(), 9);
        let message = section.choose("order", "random", &orders).unwrap_err().to_string();
        assert_eq!(message, "x.order: \"randon\" is not known, did you mean \"random\"?; there are: random, reversed");
        let message = |result: Result<String>| result.unwrap_err().to_string();
        let n = section.get_in("n", 1u32, 1..=8u32).map(|n| n.to_string());
        assert_eq!(message(n), "x.n: 9 is not from 1 to 8");
        let n = section.get_in("below", 1u32, 1..=8u32).map(|n| n.to_string());
        assert_eq!(message(n), "x.below: -1 is not from 1 to 8");
        let share = section.get_in("share", 0.5, 0.0..=1.0).map(|share: f64| share.to_string());
        assert_eq!(message(share), "x.share: 1.5 is not from 0 to 1");
    }

    #[test]
    fn allowed_keys_stay_in_the_resolved_whole() {
        let values = [("kind", "a".into()), ("other", 3i64.into()), ("rubbish", true.into())];
        let mut section = Section::of("x", &values);
        let _: String = section.get("kind", "b").unwrap();
        section.settle("kind", "c");
        ["other", "absent", "kind"].iter().for_each(|key| section.allow_elsewhere(key));
        let message = section.finish().unwrap_err().to_string();
        assert!(message.contains("\"x.rubbish\"") && message.matches("kind").count() == 1, "{message}");
        let mut section = Section::of("x", &values[..2]);
        let _: String = section.get("kind", "b").unwrap();
        section.settle("kind", "c");
        ["other", "absent"].iter().for_each(|key| section.allow_elsewhere(key));
        let (_, resolved, _) = section.finish().unwrap();
        let found: Vec<_> = resolved.iter().map(|(key, entry)| (key.as_str(), entry.value.to_toml())).collect();
        assert_eq!(found, [("kind", "\"c\"".into()), ("other", "3".into())]);
    }
}
