//! DIAGNOSES: finds out why nothing, too little or wrong sums came back in a run, from its run dir.
//!
//! This crate contains the registry of causes, the rules that find them, their ranking, and the breakdown of time. It contains neither
//! metrics (`pktgen-records`), nor the verdict on a run (`pktgen_core::record::judge`), nor checks of a host's abilities
//! (`pktgen-doctor`). It must not print or use `unsafe`; invalid input gives an error message, never a panic.
//!
//! [`diagnose`] reads a run dir (`evidence`) and the captures of its taps (`crossing`, `sums`), applies the rules
//! (`hosts`, `loss`, `frames`, `results`, `merging`), and ranks the causes. docs/diagnose.md lists the causes.
#![forbid(unsafe_code)]

mod beside;
mod breakdown;
mod cause;
mod caution;
mod counted;
mod crossing;
mod digests;
mod evidence;
mod finding;
mod floats;
mod frame;
mod frames;
mod hosts;
mod join;
mod links;
mod loss;
mod merging;
mod results;
mod sums;
mod text;

use std::collections::HashSet;
use std::path::Path;

use pktgen_core::Result;
use pktgen_core::record::{Family, Fault};
use pktgen_wire::device::Protocols;
use pktgen_wire::device::shipped;

pub use breakdown::Breakdown;
pub use cause::{CAUSES, Cause, CausePlace, DIAGNOSIS};
pub use caution::Caution;
use crossing::{Crossing, Traffic};
use evidence::Evidence;
pub use finding::{CauseFound, Certainty, EvidenceItem, Symptom};
use links::{Balances, LostOnLinks};
pub use text::{json, list, text};

/// The problems of a run and their causes.
#[derive(Debug, Clone, Default)]
pub struct Diagnosis {
    /// Notes of the run for readers, and what these leave undecided.
    pub cautions: Vec<Caution>,
    /// Problems; empty if the run is as it should be.
    pub symptoms: Vec<Symptom>,
    /// Causes, the most likely first.
    pub causes: Vec<CauseFound>,
    /// What could not be determined, and which data would show it.
    pub unknown: Vec<String>,
    /// Where time was spent.
    pub breakdown: Option<Breakdown>,
}

/// The conclusion in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conclusion {
    /// Nothing is wrong, and all data that would show a problem is present.
    Healthy,
    /// At least one cause is likely or certain.
    Found,
    /// Something is wrong and no cause is more than possible, or the data that would show it is missing.
    CannotTell,
}

impl Conclusion {
    /// Returns its name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Conclusion::Healthy => "healthy",
            Conclusion::Found => "found",
            Conclusion::CannotTell => "cannot_tell",
        }
    }
}

impl Diagnosis {
    /// Adds the cause with this code, for causes that a host or a device shows, not a run.
    pub fn add(&mut self, code: &str, certainty: Certainty, proof: EvidenceItem) {
        let cause = CAUSES.iter().find(|cause| cause.code == code);
        self.causes.extend(cause.map(|cause| CauseFound::new(cause, certainty, 0, vec![proof])));
    }

    /// Whether something that a healthy run must show is undecided.
    pub fn is_open(&self) -> bool {
        !self.unknown.is_empty() || self.cautions.iter().any(|caution| caution.open.is_some())
    }

    /// Returns the conclusion.
    pub fn answer(&self) -> Conclusion {
        match self.causes.first().map(|first| first.certainty) {
            Some(Certainty::Likely | Certainty::Certain) => Conclusion::Found,
            None if self.symptoms.is_empty() && !self.is_open() => Conclusion::Healthy,
            _ => Conclusion::CannotTell,
        }
    }
}

/// Diagnoses the run in `dir`, whose packets are of one of these formats.
///
/// `device` has the counters recorded by the device during the run: a JSON object, or the run dir of a software device.
/// With `no_verify`, files are read without checking their digests.
pub fn diagnose(dir: &Path, device: Option<&Path>, protocols: &Protocols, no_verify: bool) -> Result<Diagnosis> {
    let about = Evidence::open(dir, device, no_verify)?;
    // Captures are longer than streams, so both are read concurrently.
    let (crossing, evidence) = std::thread::scope(|scope| {
        let evidence = scope.spawn(|| about.with_streams());
        let crossing = cross(&about, protocols);
        (crossing, evidence.join())
    });
    let evidence = evidence.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    let crossing = crossing?;
    let mut found = Vec::new();
    let mut unknown = Vec::new();
    hosts::look(&evidence, &mut found);
    let balances = Balances::of(&evidence);
    let kept_apart = evidence.is_real() || evidence.is_lockstep();
    if kept_apart {
        balances.look(&evidence, &mut found);
    }
    if let Some(crossing) = crossing.as_ref().filter(|_| evidence.manifest.external.is_some()) {
        let place = if evidence.is_results() { "tap of the workers" } else { "tap of the server" };
        let kept = kept_fields(&evidence, protocols);
        frames::look(&evidence, crossing, &kept, place, &mut found);
    } else {
        found.extend(hosts::checksums(&evidence));
    }
    if evidence.came() == 0 {
        hosts::silence(&evidence, crossing.as_ref(), &mut found, &mut unknown);
    } else if evidence.manifest.unseen.is_some() || evidence.manifest.external.is_some() {
        came(&evidence, crossing.as_ref(), protocols, &balances, &mut found, &mut unknown)?;
    }
    if kept_apart && evidence.came() > 0 {
        let on_host =
            found.iter().filter(|found| found.cause == &cause::HOST_OVERRUN).map(|found| found.explains).sum::<u64>();
        found.extend(
            merging::answers(&evidence, balances.lost_back().and(on_host))
                .filter(|lost| !hosts::is_counted(&found, lost.explains, LostOnLinks::NONE))
                .filter(|lost| crossing.as_ref().is_none_or(|crossing| crossing.answers.frames * 2 < lost.explains)),
        );
        merging::copies_of_answers(&evidence, &mut found);
        unknown.extend(balances.unknown(&evidence, &found));
    }
    let symptoms = symptoms(&evidence, &found);
    if found.is_empty() && !symptoms.is_empty() && unknown.is_empty() {
        unknown.push(what_would_tell(&evidence));
    }
    rank(&mut found);
    let cautions = caution::of(&evidence);
    Ok(Diagnosis { cautions, symptoms, causes: found, unknown, breakdown: breakdown::of(&evidence) })
}

/// Applies the rules for runs in which something came back.
fn came(
    evidence: &Evidence,
    crossing: Option<&Crossing>,
    protocols: &Protocols,
    balances: &Balances,
    found: &mut Vec<CauseFound>,
    unknown: &mut Vec<String>,
) -> Result<()> {
    let tap = evidence.tap("workers");
    let wrong = evidence.manifest.counters.sums_wrong;
    if evidence.is_results() {
        let results = crossing.map_or(0, |crossing| crossing.came);
        results::look(evidence, results, balances.lost_both_ways(), found);
        let wrong = wrong + evidence.unlike().map_or(0, |unlike| unlike.results);
        match (&tap, wrong) {
            (_, 0) => {}
            (Some(tap), _) => sums::look_at(tap, protocols.formats, wrong, found)?,
            (None, _) => unknown.push(format!("what is wrong with {wrong} sums: {}", evidence.next_step(""))),
        }
        return Ok(());
    }
    found.extend(merging::copies(evidence, crossing));
    if evidence.forwards() {
        let altered = match crossing {
            Some(crossing) => crossing.unlike,
            None => evidence.manifest.unseen.as_ref().map_or(0, |unseen| unseen.damaged),
        };
        found.extend(loss::order(evidence, altered));
        // Frames to other addresses arrived, too, but the run did not accept them.
        let elsewhere = found.iter().any(|found| found.cause == &cause::WRONG_DESTINATION);
        let elsewhere = crossing.filter(|_| elsewhere).map_or(0, |crossing| crossing.readdressed);
        loss::look(evidence, altered + elsewhere, balances.lost_forward(), found);
    } else if evidence.manifest.family() != Family::Pairs {
        // Sums by key contain no updates that packets could identify.
        merging::look(evidence, crossing, balances.lost_forward(), found)?;
        loss::ends(evidence, balances.lost_forward(), found);
    }
    let unchecked = evidence.manifest.unseen.as_ref().map_or(0, |unseen| unseen.unchecked);
    let told = found.iter().any(|found| found.explains >= wrong);
    if wrong > 0 && !floats::look_at(evidence, found)? && !told {
        // Sums by key have no lanes; their workers count errors.
        let next = match evidence.manifest.family() {
            Family::Pairs => "the run's counters hot_sums_* say in which way they are (docs/libra.md)".to_owned(),
            _ => evidence.next_step(", format.lanes = true"),
        };
        unknown.push(format!("what is wrong with {wrong} sums: {next}"));
    } else if wrong == 0 && unchecked > 0 {
        floats::look_at(evidence, found)?;
    }
    Ok(())
}

/// Compares the captures of the run's taps, if there are any.
fn cross(evidence: &Evidence, protocols: &Protocols) -> Result<Option<Crossing>> {
    let Some(workers) = evidence.tap("workers") else { return Ok(None) };
    let groups = groups(evidence, protocols);
    if evidence.is_results() {
        return Crossing::downward(&workers, groups.as_ref()).map(Some);
    }
    let traffic = if evidence.text("workload", "kind") == "raw" { Traffic::Raw } else { Traffic::Updates };
    evidence.tap("server").map(|server| Crossing::upward(&workers, &server, traffic, groups.as_ref())).transpose()
}

/// Returns the parts of a frame that the device must not change, if the run's profile can be read.
fn kept_fields(evidence: &Evidence, protocols: &Protocols) -> Vec<String> {
    let profile = shipped::open(evidence.text("target", "profile"), "target.profile", protocols);
    profile.map_or(Vec::new(), |profile| profile.keeps)
}

/// Returns the groups that results may be sent to, if the run's profile can be read.
fn groups(evidence: &Evidence, protocols: &Protocols) -> Option<HashSet<u32>> {
    let profile = shipped::open(evidence.text("target", "profile"), "target.profile", protocols).ok()?;
    let base = profile.addressing.groups;
    let clusters = evidence.manifest.clusters.iter().max().map_or(0, |last| u32::from(*last));
    Some((0..=clusters).filter_map(|cluster| Some(base.after(cluster)?.0)).collect())
}

fn symptoms(evidence: &Evidence, found: &[CauseFound]) -> Vec<Symptom> {
    let mut symptoms = Vec::new();
    let mut add = |code, text: String| symptoms.push(Symptom { code, text });
    for fault in evidence.faults() {
        let code = match fault {
            Fault::NothingReceived { .. } | Fault::NothingMatched { .. } => "nothing",
            Fault::WrongSums { .. }
            | Fault::WrongResults { .. }
            | Fault::UnlikeResults { .. }
            | Fault::Damaged { .. } => "wrong",
            Fault::Unfinished { .. } | Fault::WorkersStopped { .. } | Fault::RoleFailed { .. } => "unfinished",
            _ => "invalid",
        };
        add(code, fault.to_string());
    }
    let balance = &evidence.manifest.balance;
    if evidence.forwards() && !evidence.is_results() && balance.unaccounted > 0 && evidence.came() > 0 {
        add("too_little", format!("{} of {} transmissions did not come", balance.unaccounted, balance.sent));
    }
    // A problem that only a rule finds is a symptom of its own.
    let known = symptoms.is_empty();
    let seen: Vec<_> =
        found.iter().filter(|found| known || found.explains == 0).map(|found| found.cause.what).collect();
    symptoms.extend(seen.first().map(|what| Symptom { code: "seen", text: (*what).to_owned() }));
    symptoms
}

/// Describes which data to record so that the next run shows more.
fn what_would_tell(evidence: &Evidence) -> String {
    match (evidence.tap("workers").is_some(), evidence.manifest.counters.device.is_empty()) {
        (false, _) => format!("no rule explains it: {}", evidence.next_step("")),
        (true, true) => {
            "no rule explains it: have [target.launch] counters read what the device counts, and run again".into()
        }
        (true, false) => {
            "no rule explains it, with captures and the device's counters: pktgen certify tries the device rule by rule, where its program \
             has clauses"
                .into()
        }
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
fn rank(found: &mut [CauseFound]) {
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
