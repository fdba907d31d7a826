//! What rules find: symptoms, causes with their evidence, and what they would have to know.

use serde::Serialize;

use crate::cause::Cause;

/// How sure a cause is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// The evidence fits, and other causes fit it, too.
    Possible,
    /// The evidence fits, and what else was looked at does not.
    Likely,
    /// The evidence shows it directly.
    Certain,
}

impl Certainty {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Certainty::Possible => "possible",
            Certainty::Likely => "likely",
            Certainty::Certain => "certain",
        }
    }
}

/// What is wrong with a run, whatever the cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Symptom {
    /// Its code: `nothing`, `too_little`, `wrong`, `too_much`, `no_answer`, `unmerged`, `late`, `unfinished`.
    pub code: &'static str,
    /// One sentence.
    pub text: String,
}

/// One piece of evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EvidenceItem {
    /// Where it is: a file of the run, a counter, an interface, a table of the device.
    pub at: String,
    /// The number of the packet in that capture, as Wireshark counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packet: Option<u64>,
    /// What it says.
    pub says: String,
}

impl EvidenceItem {
    /// Something that a place says.
    pub fn new(at: impl Into<String>, says: impl Into<String>) -> Self {
        EvidenceItem { at: at.into(), packet: None, says: says.into() }
    }

    /// The same of a packet there.
    pub fn packet(at: impl Into<String>, packet: u64, says: impl Into<String>) -> Self {
        EvidenceItem { at: at.into(), packet: Some(packet), says: says.into() }
    }
}

/// A cause that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CauseFound {
    /// Which.
    pub cause: &'static Cause,
    /// How sure it is.
    pub certainty: Certainty,
    /// Transmissions or results that it explains.
    pub explains: u64,
    /// Its evidence.
    pub proofs: Vec<EvidenceItem>,
}

impl CauseFound {
    pub(crate) fn new(cause: &'static Cause, certainty: Certainty, explains: u64, proofs: Vec<EvidenceItem>) -> Self {
        CauseFound { cause, certainty, explains, proofs }
    }
}
