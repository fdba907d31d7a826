//! Configuration values with their origin, and their conversion from and to TOML.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::document::Origin;
use crate::{Error, Result, units};

/// A table of entries, ordered by key.
pub type Table = BTreeMap<String, Entry>;

/// A value and its origin.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The value.
    pub value: Value,
    /// Its origin.
    pub origin: Origin,
}

/// A configuration value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Text, quantities included.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// A number.
    Float(f64),
    /// A number of `[paper]`, with its text: the digits show how exactly it is printed.
    Printed(f64, String),
    /// true or false.
    Bool(bool),
    /// An array.
    List(Vec<Entry>),
    /// A table.
    Table(Table),
}

impl Value {
    /// Returns the kind of the value, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Text(_) => "a text",
            Value::Integer(_) => "a whole number",
            Value::Float(_) | Value::Printed(..) => "a number",
            Value::Bool(_) => "true or false",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
        }
    }

    /// Returns the value as TOML on one line.
    pub fn to_toml(&self) -> String {
        match self {
            Value::Text(text) => toml::Value::String(text.clone()).to_string(),
            Value::Integer(n) => n.to_string(),
            Value::Float(x) => toml::Value::Float(*x).to_string(),
            Value::Printed(_, text) => text.clone(),
            Value::Bool(b) => b.to_string(),
            Value::List(items) => {
                let items: Vec<_> = items.iter().map(|e| e.value.to_toml()).collect();
                format!("[{}]", items.join(", "))
            }
            Value::Table(table) => {
                let items: Vec<_> =
                    table.iter().map(|(k, e)| format!("{} = {}", quote_key(k), e.value.to_toml())).collect();
                format!("{{ {} }}", items.join(", "))
            }
        }
    }

    /// Returns the value as plain text, for labels.
    pub fn to_label(&self) -> String {
        match self {
            Value::Text(text) => text.clone(),
            other => other.to_toml(),
        }
    }
}

/// Returns a key in TOML notation: bare where that is permitted.
pub(super) fn quote_key(key: &str) -> String {
    let bare = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if bare { key.to_owned() } else { toml::Value::String(key.to_owned()).to_string() }
}

/// Writes a table as TOML, sub-tables as `[path]` sections after plain keys.
pub(super) fn write_table(out: &mut String, path: &str, table: &Table) {
    let (tables, plain): (Vec<_>, Vec<_>) = table.iter().partition(|(_, e)| matches!(e.value, Value::Table(_)));
    if !path.is_empty() && (!plain.is_empty() || tables.is_empty()) {
        let _ = writeln!(out, "\n[{path}]");
    }
    for (key, entry) in plain {
        let _ = writeln!(out, "{} = {}", quote_key(key), entry.value.to_toml());
    }
    for (key, entry) in tables {
        let Value::Table(inner) = &entry.value else { continue };
        let inner_path = if path.is_empty() { quote_key(key) } else { format!("{path}.{}", quote_key(key)) };
        write_table(out, &inner_path, inner);
    }
}

/// The section whose numbers keep their text.
const PRINTED: &str = "paper";

/// Whether numbers at this dotted path keep their text.
pub(super) fn keeps_text(path: &str) -> bool {
    path.split('.').next() == Some(PRINTED)
}

/// Returns whether a value is a quantity without quotes: the parser takes `20_000Mbps` for a whole number.
pub(super) fn is_quantity(value: &toml::de::DeValue<'_>) -> bool {
    matches!(value, toml::de::DeValue::Integer(n) if n.radix() == 10 && !units::split(n.as_str()).1.is_empty())
}

/// Converts a parsed TOML value; keeps positions, and texts of numbers if they are `printed`.
pub(super) fn from_toml(
    key: &str,
    value: &toml::Spanned<toml::de::DeValue<'_>>,
    printed: bool,
    place: &dyn Fn(std::ops::Range<usize>) -> Origin,
) -> Result<Entry> {
    use toml::de::DeValue;
    let origin = place(value.span());
    let bad = |text: &str| {
        let (least, most) = (i64::MIN, i64::MAX);
        Error::config(format!("{origin}: {key} = {text} is out of range; whole numbers are from {least} to {most}"))
    };
    let converted = match value.get_ref() {
        DeValue::Integer(n) if is_quantity(value.get_ref()) => {
            return Err(Error::config(format!(
                "{origin}: {key} = {n} is no number; put a quantity in quotes: \"{n}\""
            )));
        }
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(n) => Value::Integer(i64::from_str_radix(n.as_str(), n.radix()).map_err(|_| bad(n.as_str()))?),
        DeValue::Float(x) => {
            let number = x.as_str().parse::<f64>().map_err(|_| bad(x.as_str()))?;
            if printed { Value::Printed(number, x.as_str().to_owned()) } else { Value::Float(number) }
        }
        DeValue::Boolean(b) => Value::Bool(*b),
        DeValue::Datetime(d) => Value::Text(d.to_string()),
        DeValue::Array(items) => {
            Value::List(items.iter().map(|item| from_toml(key, item, printed, place)).collect::<Result<_>>()?)
        }
        DeValue::Table(table) => Value::Table(table_from_toml(table, &|_| printed, place)?),
    };
    Ok(Entry { value: converted, origin })
}

/// Converts a parsed TOML table; keeps positions, and texts of numbers below the keys that are `printed`. The origin of an entry is the
/// position of its key.
pub(super) fn table_from_toml(
    table: &toml::de::DeTable<'_>,
    printed: &dyn Fn(&str) -> bool,
    place: &dyn Fn(std::ops::Range<usize>) -> Origin,
) -> Result<Table> {
    let mut out = Table::new();
    for (key, value) in table.iter() {
        let mut entry = from_toml(key.get_ref(), value, printed(key.get_ref()), place)?;
        entry.origin = place(key.span());
        out.insert(key.get_ref().to_string(), entry);
    }
    Ok(out)
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Value::Text(text)
    }
}

impl From<bool> for Value {
    fn from(b: bool) -> Self {
        Value::Bool(b)
    }
}

macro_rules! from_integer {
    ($($type:ty),*) => {$(
        impl From<$type> for Value {
            fn from(n: $type) -> Self {
                Value::Integer(n.into())
            }
        }
    )*};
}
from_integer!(u16, u32, i32, i64);

impl From<&[&str]> for Value {
    fn from(items: &[&str]) -> Self {
        let item = |text: &&str| Entry { value: (*text).into(), origin: Origin::Default };
        Value::List(items.iter().map(item).collect())
    }
}

impl From<f64> for Value {
    fn from(x: f64) -> Self {
        Value::Float(x)
    }
}
