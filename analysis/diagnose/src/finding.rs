//! Results of rules: symptoms, causes with their evidence, and missing information.

use serde::Serialize;

use crate::cause::{self, CAUSES, Cause};

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

/// Causes that may be consequences of a late host.
const OF_LATENESS: [&Cause; 8] = [
    &cause::HOST_LATE,
    &cause::LINK_LOST,
    &cause::HOST_OVERRUN,
    &cause::DEVICE_OVERRUN,
    &cause::ACKS_LOST,
    &cause::RATE_LIMITED,
    &cause::DROPPED_IN_BURSTS,
    &cause::DROPPED_AT_RANDOM,
];

/// Sorts by certainty, then by how much a cause explains, then by the order of the registry. A late host is placed
/// after causes that lateness does not explain.
pub(crate) fn rank(found: &mut [CauseFound]) {
    let apart = |found: &CauseFound| found.certainty > Certainty::Possible && !OF_LATENESS.contains(&found.cause);
    let others = found.iter().any(apart);
    let weight = |found: &CauseFound| match found.cause == &cause::HOST_LATE && others {
        true => (Certainty::Likely, 0),
        false => (found.certainty, found.explains),
    };
    let place = |found: &CauseFound| CAUSES.iter().position(|cause| std::ptr::eq(*cause, found.cause));
    found.sort_by_key(|found| (std::cmp::Reverse(weight(found)), place(found)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_host_comes_behind_what_lateness_does_not_bring_about() {
        let order = |causes: &[(&'static Cause, Certainty, u64)]| {
            let mut found: Vec<_> = causes.iter().map(|(c, sure, n)| CauseFound::new(c, *sure, *n, vec![])).collect();
            rank(&mut found);
            found.iter().map(|found| found.cause.code).collect::<Vec<_>>()
        };
        let late = (&cause::HOST_LATE, Certainty::Certain, 900);
        let overrun = (&cause::HOST_OVERRUN, Certainty::Certain, 70);
        assert_eq!(order(&[overrun, late]), ["host_late", "host_overrun"]);
        assert_eq!(order(&[late, (&cause::BYTE_ORDER, Certainty::Certain, 5)]), ["byte_order", "host_late"]);
        assert_eq!(order(&[late, (&cause::ADDS_WRONGLY, Certainty::Likely, 5)]), ["adds_wrongly", "host_late"]);
        assert_eq!(order(&[late, (&cause::BITS_FLIPPED, Certainty::Possible, 5)]), ["host_late", "bits_flipped"]);
    }
}
