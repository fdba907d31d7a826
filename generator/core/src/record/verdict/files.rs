//! Verdicts in files.

use std::fmt;

use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Fault, Note, Validity};

/// A finding in files: its code, fields and sentence.
#[derive(Serialize)]
struct Written<'a, T: Serialize> {
    #[serde(flatten)]
    finding: &'a T,
    text: String,
}

fn written<T: Serialize + fmt::Display>(findings: &[T]) -> Vec<Written<'_, T>> {
    findings.iter().map(|finding| Written { finding, text: finding.to_string() }).collect()
}

impl Serialize for Validity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_struct("Validity", 3)?;
        map.serialize_field("valid", &self.is_valid())?;
        map.serialize_field("faults", &written(&self.faults))?;
        map.serialize_field("notes", &written(&self.notes))?;
        map.end()
    }
}

/// Content of files; version 1 had sentences, with notes marked by a prefix.
#[derive(Deserialize)]
struct Read {
    #[serde(default)]
    valid: bool,
    #[serde(default)]
    faults: Vec<Fault>,
    #[serde(default)]
    notes: Vec<Note>,
    #[serde(default)]
    reasons: Vec<String>,
}

impl<'de> Deserialize<'de> for Validity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Read { valid, mut faults, mut notes, reasons } = Read::deserialize(deserializer)?;
        for reason in reasons {
            match reason.strip_prefix("note: ") {
                Some(text) => notes.push(Note::Told { said: text.to_owned() }),
                None => faults.push(Fault::Told { said: reason }),
            }
        }
        if !valid && faults.is_empty() {
            faults.push(Fault::Told { said: "it says that it is invalid, without a reason".into() });
        }
        Ok(Validity { faults, notes })
    }
}
