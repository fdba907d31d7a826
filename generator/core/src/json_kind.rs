//! Kinds of JSON objects that are printed or written, each with a version: docs/stability.md.

/// A kind of JSON object. Its version rises when a member is removed, is renamed, or changes its type, unit or meaning;
/// members may be added without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsonKind {
    /// Its name.
    pub name: &'static str,
    /// Its version.
    pub version: u32,
    /// Description of an object of this kind.
    pub about: &'static str,
}

impl JsonKind {
    /// Returns the object with `schema` as its first member: name and version.
    pub fn stamp(&self, object: &str) -> String {
        let Some(rest) = object.strip_prefix('{') else { return object.to_owned() };
        let JsonKind { name, version, .. } = self;
        let inner = rest.trim_start();
        // In pretty-printed objects a line break and indentation precede each member.
        let gap = &rest[..rest.len() - inner.len()];
        let (comma, space) = (if inner.starts_with('}') { "" } else { "," }, if gap.is_empty() { "" } else { " " });
        format!("{{{gap}\"schema\":{space}\"{name}/{version}\"{comma}{rest}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::JsonKind;

    #[test]
    fn a_stamp_adds_one_member_and_keeps_the_form() {
        let kind = JsonKind { name: "thing", version: 3, about: "" };
        for value in [json!({}), json!({ "a": 1, "b": { "c": [] } })] {
            let mut whole = value.clone();
            whole["schema"] = json!("thing/3");
            for text in [value.to_string(), format!("{value:#}")] {
                assert_eq!(serde_json::from_str::<Value>(&kind.stamp(&text)).unwrap(), whole, "{text}");
            }
        }
        assert_eq!(kind.stamp("{\"a\":1}"), "{\"schema\":\"thing/3\",\"a\":1}");
        assert_eq!(kind.stamp("{\n  \"a\": 1\n}"), "{\n  \"schema\": \"thing/3\",\n  \"a\": 1\n}");
        assert_eq!(kind.stamp("[1]"), "[1]");
    }
}
