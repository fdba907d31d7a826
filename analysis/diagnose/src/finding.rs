//! Results of rules: symptoms, causes with their evidence, and missing information.

use serde::Serialize;

use crate::cause::Cause;

/// Certainty of a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// The evidence fits, but other causes also fit it.
    Possible,
    /// The evidence fits, and it does not fit the other causes that were considered.
    Likely,
    /// The evidence shows it directly.
    Certain,
}

impl Certainty {
    /// Returns its name.
    pub const fn name(self) -> &'static str {
        match self {
            Certainty::Possible => "possible",
            Certainty::Likely => "likely",
            Certainty::Certain => "certain",
        }
    }
}

/// A problem of a run, whatever its cause.
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
    /// Its source: a file of the run, a counter, an interface, or a table of the device.
    pub at: String,
    /// The number of the packet in that capture, as counted by Wireshark.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packet: Option<u64>,
    /// Its contents.
    pub says: String,
}

impl EvidenceItem {
    /// Creates evidence from a source.
    pub fn new(at: impl Into<String>, says: impl Into<String>) -> Self {
        EvidenceItem { at: at.into(), packet: None, says: says.into() }
    }

    /// Creates evidence from a packet in a source.
    pub fn packet(at: impl Into<String>, packet: u64, says: impl Into<String>) -> Self {
        EvidenceItem { at: at.into(), packet: Some(packet), says: says.into() }
    }
}

/// A cause that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CauseFound {
    /// The cause.
    pub cause: &'static Cause,
    /// Its certainty.
    pub certainty: Certainty,
    /// Number of transmissions or results that it explains.
    pub explains: u64,
    /// Its evidence.
    pub proofs: Vec<EvidenceItem>,
}

impl CauseFound {
    pub(crate) fn new(cause: &'static Cause, certainty: Certainty, explains: u64, proofs: Vec<EvidenceItem>) -> Self {
        CauseFound { cause, certainty, explains, proofs }
    }
}
