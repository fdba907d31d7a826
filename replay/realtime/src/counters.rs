//! Counters of a device, as a JSON object of whole numbers.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserializer;
use serde::de::{self, MapAccess, Visitor};

/// A reader of counters, which refuses a name that comes twice: it is not known which of the values counts.
struct Counters;

impl<'de> Visitor<'de> for Counters {
    type Value = BTreeMap<String, u64>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object of whole numbers")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut counters = BTreeMap::new();
        while let Some((name, value)) = map.next_entry::<String, u64>()? {
            if counters.contains_key(&name) {
                return Err(de::Error::custom(format!("\"{name}\" comes twice")));
            }
            counters.insert(name, value);
        }
        Ok(counters)
    }
}

/// Parses counters.
pub(crate) fn parse(text: &[u8]) -> serde_json::Result<BTreeMap<String, u64>> {
    let mut json = serde_json::Deserializer::from_slice(text);
    let counters = json.deserialize_map(Counters)?;
    json.end().map(|()| counters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_comes_twice_is_refused() {
        let counters = BTreeMap::from([("a".to_owned(), 1), ("b".to_owned(), u64::MAX)]);
        assert_eq!(parse(b" {\"a\": 1, \"b\": 18446744073709551615}\n").unwrap(), counters);
        assert_eq!(parse(b"{}").unwrap(), BTreeMap::new());
        let twice = parse(b"{\"a\": 1, \"b\": 2, \"a\": 1}").unwrap_err().to_string();
        assert!(twice.contains("\"a\" comes twice"), "{twice}");
        for text in ["", "3", "[]", "{\"a\": -1}", "{\"a\": 0.5}", "{\"a\": 1", "{\"a\": 1} {}"] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
