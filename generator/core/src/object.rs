//! JSON objects in files that people write. A struct that is deserialised alone is read from a list, too, whose values it takes in
//! the order of its fields.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

/// A struct that is read from an object only.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Object<T>(
    /// The struct.
    pub T,
);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfMap<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for OfMap<T> {
            type Value = Object<T>;
            fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
                out.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }
        deserializer.deserialize_map(OfMap(PhantomData))
    }
}

/// Deserialises a list of structs, each from an object only: for `deserialize_with`.
pub fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    Vec::<Object<T>>::deserialize(deserializer).map(|list| list.into_iter().map(|Object(each)| each).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Pair {
        a: u32,
        #[serde(default)]
        b: f64,
    }

    #[test]
    fn lists_in_place_of_objects_are_refused() {
        let read = |text: &str| serde_json::from_str::<Object<Pair>>(text).map_err(|why| why.to_string());
        assert_eq!(read(r#"{"a": 1, "b": 0.1}"#), Ok(Object(Pair { a: 1, b: 0.1 })));
        assert_eq!(read(r#"{"a": 1}"#), Ok(Object(Pair { a: 1, b: 0.0 })));
        assert_eq!(serde_json::to_string(&Object(Pair { a: 1, b: 0.5 })).unwrap(), r#"{"a":1,"b":0.5}"#);
        for (text, parts) in [
            ("[1, 0.5]", ["invalid type: sequence, expected an object", "line 1"]),
            ("7", ["invalid type: integer `7`, expected an object", "line 1"]),
            // Errors within the object have their place.
            ("{\"a\": 1,\n \"c\": 2}", ["unknown field `c`, expected `a` or `b`", "line 2"]),
            ("{\n\"b\": 1}", ["missing field `a`", "line 2"]),
        ] {
            let why = read(text).unwrap_err();
            assert!(parts.iter().all(|part| why.contains(part)), "{why}");
        }
    }
}
