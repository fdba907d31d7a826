//! DIAGNOSES: finds out why nothing, too little or wrong sums came back in a run, from its run dir.
//!
//! This crate contains the registry of causes, the rules that find them, their ranking, and the breakdown of time. It contains neither
//! metrics (`pktgen-records`), nor the verdict on a run (`pktgen_core::record::judge`), nor checks of a host's abilities
//! (`pktgen-doctor`). It must not print or use `unsafe`; invalid input gives an error message, never a panic.
//!
//! [`diagnose`] reads a run dir (`evidence`) and the captures of its taps (`crossing`, `sums`), asks the rules (`hosts`, `loss`, `frames`,
//! `results`, `partial`, `merging`, `senders`), and ranks what they found. docs/diagnose.md has the causes.
#![forbid(unsafe_code)]

mod ageing;
mod answers;
mod beside;
mod breakdown;
mod cause;
mod caution;
mod counted;
mod crossing;
mod digests;
mod evidence;
mod exponents;
mod finding;
mod floats;
mod frame;
mod frames;
mod hosts;
mod join;
mod kept;
mod known;
mod links;
mod loss;
mod meetings;
mod merging;
mod partial;
mod repeats;
mod results;
mod senders;
mod sockets;
mod stations;
mod sums;
mod text;

use std::collections::BTreeMap;
use std::path::Path;

use pktgen_core::record::{Family, Fault};
use pktgen_core::{Error, Result};
use pktgen_wire::device::Protocols;
use pktgen_wire::pcap::Reader;

pub use breakdown::Breakdown;
pub use cause::{CAUSES, Cause, CausePlace, DIAGNOSIS};
pub use caution::Caution;
use crossing::{Crossing, Rules, Traffic};
use evidence::Evidence;
use finding::rank;
pub use finding::{CauseFound, Certainty, EvidenceItem, Symptom};
use known::Known;
use links::{Balances, LostOnLinks};
use partial::LeftOut;
use sums::{Remade, Sums, Taken};
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

/// What links that the experiment makes faulty bring about, by the key of `[transport]`.
const OF_LINKS: [(&str, &[&cause::Cause]); 3] = [
    ("fault_duplicate", &[&cause::COPIES]),
    ("fault_reorder", &[&cause::REORDERED]),
    ("fault_corrupt", &[&cause::BITS_FLIPPED, &cause::BAD_CHECKSUM, &cause::PAYLOAD_CHANGED]),
];

/// Diagnoses the run in `dir`, whose packets are of one of these formats.
///
/// `device` has the counters recorded by the device during the run: a JSON object, or the run dir of a software device.
/// With `no_verify`, files are read without checking their digests.
pub fn diagnose(dir: &Path, device: Option<&Path>, protocols: &Protocols, no_verify: bool) -> Result<Diagnosis> {
    let about = Evidence::open(dir, device, no_verify)?;
    let known = Known::of(&about, protocols);
    // Captures are longer than streams: both are read at once.
    let (crossing, evidence) = std::thread::scope(|scope| {
        let evidence = scope.spawn(|| about.with_streams());
        let crossing = cross(&about, &known);
        (crossing, evidence.join())
    });
    let mut evidence = evidence.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    let crossing = match crossing {
        Err(damage @ Error::Data { .. }) => {
            evidence.taps_unread = Some(damage.to_string());
            None
        }
        crossing => crossing?,
    };
    let mut found = Vec::new();
    let mut unknown: Vec<String> = without_all_rows(&evidence).into_iter().collect();
    hosts::look(&evidence, &mut found);
    let balances = Balances::of(&evidence);
    let kept_apart = evidence.is_real() || evidence.is_lockstep();
    if kept_apart {
        balances.look(&evidence, &mut found);
    }
    if let Some(crossing) = crossing.as_ref().filter(|_| evidence.manifest.external.is_some()) {
        let place = if evidence.is_results() { "tap of the workers" } else { "tap of the server" };
        frames::look(&evidence, crossing, known.keeps(), place, &mut found);
    } else {
        found.extend(hosts::checksums(&evidence));
    }
    if evidence.came() == 0 {
        hosts::silence(&evidence, crossing.as_ref(), &mut found, &mut unknown);
    } else if evidence.manifest.unseen.is_some() || evidence.manifest.external.is_some() {
        came(&evidence, crossing.as_ref(), &known, &balances, &mut found, &mut unknown)?;
    } else if evidence.is_real() && evidence.has_all_rows() {
        on_cables(&evidence, &mut found);
    }
    if evidence.is_real() && evidence.came() > 0 && evidence.manifest.external.is_none() {
        balances.copied(&evidence, &mut found);
    }
    if kept_apart && evidence.came() > 0 {
        let on_hosts = hosts::dropped_on_way_back(&evidence);
        found.extend(
            merging::answers(&evidence, balances.lost_back().and(on_hosts))
                .filter(|lost| !hosts::is_counted(&found, lost.explains, LostOnLinks::NONE))
                .filter(|lost| crossing.as_ref().is_none_or(|crossing| crossing.answers.refused() * 2 < lost.explains)),
        );
        unknown.extend(merging::unknown_answers(&evidence));
        let shown = crossing.as_ref().map_or(0, |crossing| crossing.answers.station.frames);
        merging::copies_of_answers(&evidence, shown, &mut found);
    }
    if evidence.came() > 0 && evidence.manifest.external.is_some() && evidence.manifest.family() == Family::Pairs {
        repeats::look_at(&evidence, &known, &balances, &mut found, &mut unknown)?;
    }
    if kept_apart && evidence.came() > 0 {
        unknown.extend(balances.unknown(&evidence, &found));
    }
    senders::look(&evidence, &mut found, &mut unknown);
    let is_asked = leave_out_asked(&evidence, &mut found);
    let symptoms = symptoms(&evidence, &found);
    if found.is_empty() && !symptoms.is_empty() && unknown.is_empty() && !is_asked && !is_interrupted(&evidence) {
        unknown.push(what_would_tell(&evidence));
    }
    rank(&mut found);
    let times = breakdown::times(&evidence);
    let mut cautions = caution::of(&evidence, times.as_ref());
    cautions.extend(caution::of_fragments(crossing.as_ref().map_or(0, |crossing| crossing.fragments)));
    let breakdown = breakdown::of(&evidence, times.as_ref());
    Ok(Diagnosis { cautions, symptoms, causes: found, unknown, breakdown })
}

/// Removes causes that the experiment asked for; returns whether there were any.
fn leave_out_asked(evidence: &Evidence, found: &mut Vec<CauseFound>) -> bool {
    let before = found.len();
    // In virtual time a damaged frame is lost: what came damaged was so by the device.
    let explains = |fault: &str| evidence.is_asked(fault) && (fault != "fault_corrupt" || evidence.is_real());
    for (_, causes) in OF_LINKS.iter().filter(|(fault, _)| explains(fault)) {
        found.retain(|found| !causes.contains(&found.cause));
    }
    found.len() < before
}

/// Whether nothing is wrong but that the run was interrupted, as its symptom says.
fn is_interrupted(evidence: &Evidence) -> bool {
    let mut faults = evidence.faults().peekable();
    faults.peek().is_some() && faults.all(|fault| matches!(fault, Fault::Interrupted {}))
}

/// Returns what is not known of a run that recorded a part of its transmissions or none, or was killed: rules that read rows are not applied.
fn without_all_rows(evidence: &Evidence) -> Option<String> {
    let records = &evidence.manifest.records;
    if evidence.is_killed() {
        return Some(
            "what became of the frames: the run was killed, and its last rows are missing; run again".to_owned(),
        );
    }
    (!evidence.has_all_rows()).then(|| {
        format!("what became of the frames: the run kept capture.records = \"{records}\"; set \"full\" and run again")
    })
}

/// Applies the rules for runs in which something came back.
fn came(
    evidence: &Evidence,
    crossing: Option<&Crossing>,
    known: &Known,
    balances: &Balances,
    found: &mut Vec<CauseFound>,
    unknown: &mut Vec<String>,
) -> Result<()> {
    let all = evidence.has_all_rows();
    if evidence.is_results() {
        if all {
            let results = crossing.map_or(0, |crossing| crossing.came);
            results::look(evidence, results, [balances.lost_both_ways(), balances.lost_back()], found);
        }
        let left_out = if all { LeftOut::of(evidence) } else { LeftOut::default() };
        let taken = remade(evidence, known, left_out.contributions, found, unknown)?;
        left_out.look(evidence, &taken, balances.lost_both_ways(), found, unknown);
        found.extend(all.then(|| ageing::look(evidence)).flatten());
        return Ok(());
    }
    found.extend(merging::copies(evidence, crossing));
    let is_forwarded = all && evidence.forwards();
    if let Some(merges) = is_forwarded.then(|| merging::not_only_forwarded(evidence)).flatten() {
        unknown.push(merges);
    } else if is_forwarded {
        let damaged = evidence.manifest.unseen.as_ref().map_or(0, |unseen| unseen.damaged);
        let altered = crossing.map_or(damaged, |crossing| crossing.unlike);
        found.extend(loss::order(evidence, altered));
        // Damaged packets that name their update came; the updates of others are among those that are missing.
        let altered = altered.saturating_sub(damaged.saturating_sub(evidence.unnamed()));
        // Frames to other addresses arrived, too, but the run did not accept them.
        let elsewhere = found.iter().any(|found| found.cause == &cause::WRONG_DESTINATION);
        let elsewhere = crossing.filter(|_| elsewhere).map_or(0, |crossing| crossing.readdressed);
        loss::look(evidence, altered + elsewhere, balances.lost_forward(), found);
    } else if all && evidence.manifest.family() != Family::Pairs {
        // Sums by key contain no updates that packets could identify.
        merging::look(evidence, crossing, balances.lost_forward(), found)?;
        loss::ends(evidence, balances.lost_forward(), found);
    }
    let wrong = evidence.manifest.counters.sums_wrong;
    let unchecked = evidence.manifest.unseen.as_ref().map_or(0, |unseen| unseen.unchecked.max(unseen.lanes_contradict));
    if evidence.manifest.family() == Family::Pairs {
        unknown.extend(wrong_by_key(evidence, found));
    } else if wrong > 0 && !(all && floats::look_at(evidence, found)?) && told_of_sums(found) < wrong {
        let next = evidence.next_step(true);
        unknown.push(format!("what is wrong with {wrong} sums: {next}"));
    } else if all && wrong == 0 && unchecked > 0 {
        floats::look_at(evidence, found)?;
    }
    Ok(())
}

/// Finds copies and frames that overtook others on the cables of a device with books. What it loses is in its books; what its cables do to
/// frames is not.
fn on_cables(evidence: &Evidence, found: &mut Vec<CauseFound>) {
    match evidence.manifest.family() {
        Family::Results => found.extend(results::copies_of_results(evidence)),
        Family::Updates => {
            found.extend(merging::copies(evidence, None));
            // Frames of several queues have no defined order.
            let keeps_order = evidence.forwards() && evidence.text("target", "queue") == "fifo";
            let order = keeps_order.then(|| loss::order(evidence, 0)).flatten();
            found.extend(order.filter(|order| order.certainty > Certainty::Possible));
        }
        Family::Pairs => {}
    }
}

/// Makes results again of the capture of the workers where some are wrong or contributions are `left_out` of them. Returns whose contributions
/// they hold, by address.
fn remade(
    evidence: &Evidence,
    known: &Known,
    left_out: u64,
    found: &mut Vec<CauseFound>,
    unknown: &mut Vec<String>,
) -> Result<BTreeMap<u32, Taken>> {
    let wrong = evidence.wrong_results();
    let Some(tap) = evidence.tap("workers") else {
        if wrong > 0 {
            unknown.push(format!("what is wrong with {wrong} sums: {}", evidence.next_step(false)));
        }
        return Ok(BTreeMap::new());
    };
    if wrong + left_out == 0 {
        return Ok(BTreeMap::new());
    }
    let (ports, timeout_ps) = (known.ports(evidence), evidence.timeout_ps());
    let by = Sums { formats: known.formats, ports, timeout_ps, scaled_by: scaled_by(evidence) };
    let Remade { taken, checked } = sums::look_at(&tap, by, wrong, found)?;
    if wrong > 0 && checked == 0 {
        unknown.push(format!(
            "what is wrong with {wrong} sums: no result in the capture of the workers could be made again of contributions"
        ));
    }
    Ok(taken)
}

/// Returns the workers by whose exponents results are scaled; `None` if there are several jobs, or the factor is fixed.
fn scaled_by(evidence: &Evidence) -> Option<usize> {
    let jobs = &evidence.manifest.clusters;
    let is_one = jobs.windows(2).all(|pair| pair[0] == pair[1]);
    (is_one && evidence.text("endpoint", "scaling") != "fixed").then_some(jobs.len())
}

/// Causes that make sums wrong.
const OF_SUMS: [&Cause; 12] = [
    &cause::LENGTH_WRONG,
    &cause::TRUNCATED,
    &cause::WRONG_CLUSTER,
    &cause::BITS_FLIPPED,
    &cause::BYTE_ORDER,
    &cause::CONTRIBUTION_MISSING,
    &cause::CONTRIBUTION_TWICE,
    &cause::STALE_SUM,
    &cause::EXPONENT_WRONG,
    &cause::SATURATED,
    &cause::ADDS_WRONGLY,
    &cause::PAYLOAD_CHANGED,
];

/// Returns the number of wrong sums that the causes explain: a late host and lost frames explain none.
fn told_of_sums(found: &[CauseFound]) -> u64 {
    found.iter().filter(|found| OF_SUMS.contains(&found.cause)).map(|found| found.explains).max().unwrap_or(0)
}

/// Returns what is not known of wrong sums by key. They have no lanes: workers count the errors of hot ones, and cold
/// pushes are compared with what was sent.
fn wrong_by_key(evidence: &Evidence, found: &[CauseFound]) -> Vec<String> {
    let counters = &evidence.manifest.counters;
    let of_hot: Vec<_> = counters.device.iter().filter(|(name, _)| name.starts_with("hot_sums_")).collect();
    let hot = of_hot.iter().map(|(_, packets)| **packets).sum::<u64>().min(counters.sums_wrong);
    let mut unknown = Vec::new();
    if hot > 0 {
        let counted: Vec<_> = of_hot.iter().map(|(name, packets)| format!("{name} {packets}")).collect();
        let counted = counted.join(", ");
        unknown.push(format!("what is wrong with {hot} hot sums: the run counted {counted} (docs/libra.md)"));
    }
    let cold = counters.sums_wrong - hot;
    if cold > told_of_sums(found) {
        let next = match evidence.tap("server") {
            Some(_) => "compare these pushes in the captures of both ends (sum_ok in received)".to_owned(),
            None => evidence.next_step(false),
        };
        unknown.push(format!("why {cold} cold pushes came otherwise than their workers sent them: {next}"));
    }
    unknown
}

/// Compares the captures of the run's taps, if there are any.
fn cross(evidence: &Evidence, known: &Known) -> Result<Option<Crossing>> {
    let Some(workers) = evidence.tap("workers") else { return Ok(None) };
    let (groups, addresses) = (known.groups(evidence), known.addresses(evidence));
    let shows_tags = evidence.text("transport", "kind") == "af_packet";
    let rules = Rules { groups: groups.as_ref(), addresses: addresses.as_ref(), keeps: known.keeps(), shows_tags };
    if evidence.is_results() {
        return Crossing::downward(&workers, rules).map(Some);
    }
    let traffic = if evidence.text("workload", "kind") == "raw" { Traffic::Raw } else { Traffic::Updates };
    let Some(server) = evidence.tap("server") else {
        // Sums are made again of this one alone.
        let mut whole = Reader::open(&workers)?;
        while whole.next()?.is_some() {}
        return Ok(None);
    };
    Crossing::upward(&workers, &server, traffic, rules).map(Some)
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
    let has_tap = evidence.tap_file("workers").is_some();
    if evidence.is_real() && evidence.manifest.external.is_none() {
        let first = if has_tap { "" } else { "set transport.tap = \"tap.pcapng\", run again, and " };
        // Without interfaces no cable is known.
        let of = if evidence.manifest.interfaces.is_empty() { "run" } else { "two ends of each cable of the device" };
        return format!("no rule explains it: {first}compare the captures of the {of}");
    }
    match (has_tap, evidence.has_device_counters()) {
        (false, _) => format!("no rule explains it: {}", evidence.next_step(false)),
        (true, false) => {
            "no rule explains it: have [target.launch] counters read what the device counts, and run again".into()
        }
        (true, true) => {
            "no rule explains it, with captures and the device's counters: pktgen certify tries the device rule by rule, where its program \
             has clauses"
                .into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Causes on the cables of a software device with this queue, of 20 frames that came as `arrivals` says, in ms.
    fn of_cables(queue: &str, arrivals: impl Fn(u32) -> Vec<u32>) -> Vec<(&'static str, Certainty, u64)> {
        use pktgen_core::record::PacketId;
        let mut manifest = evidence::manifest(&[0, 0]);
        manifest.config = format!("[target]\nprogram = \"forward\"\nqueue = \"{queue}\"\n");
        manifest.clocks.insert("sent.t_sent_ps".to_owned(), "monotonic".to_owned());
        let mut evidence = Evidence::of(Path::new(""), manifest);
        let mut rows = Vec::new();
        for seq in 0..20u32 {
            let packet = PacketId::new(seq % 2, seq / 2, 0);
            evidence.sent.packet.push(packet);
            evidence.sent.sent_ps.push(Some(i64::from(seq) * 1_000_000_000));
            rows.extend(arrivals(seq).into_iter().map(|ms| (i64::from(ms) * 1_000_000_000 + 1, packet)));
        }
        rows.sort_by_key(|(t, _)| *t);
        evidence.arrived.recv_ps = rows.iter().map(|(t, _)| *t).collect();
        evidence.arrived.packet = rows.iter().map(|(_, packet)| Some(*packet)).collect();
        evidence.join = join::Join::new(&evidence.sent.packet, evidence.arrived.packet.iter().copied());
        let mut found = Vec::new();
        on_cables(&evidence, &mut found);
        found.iter().map(|found| (found.cause.code, found.certainty, found.explains)).collect()
    }

    #[test]
    fn cables_of_our_own_device_may_copy_and_reorder() {
        assert_eq!(of_cables("fifo", |seq| vec![seq]), []);
        let twice = |seq: u32| if seq.is_multiple_of(5) { vec![seq, seq + 1] } else { vec![seq] };
        assert_eq!(of_cables("fifo", twice), [("copies", Certainty::Certain, 4)]);
        let late = |seq: u32| vec![if seq.is_multiple_of(5) { seq + 4 } else { seq }];
        assert_eq!(of_cables("fifo", late), [("reordered", Certainty::Likely, 4)]);
        // A queue that merges what waits has an order of its own.
        assert_eq!(of_cables("merging", late), []);
    }

    /// Causes of 40 lost frames of 400, where a device that should forward alters so many others, which say `count` updates; without ids
    /// these are missing, too. With `copies`, 40 more come again, damaged, with a generation that is so much later.
    fn of_altered(altered: u32, has_ids: bool, count: u16, copies: Option<i64>) -> Vec<u64> {
        use pktgen_core::record::{PacketId, Unseen};
        let mut manifest = evidence::manifest(&[0, 0]);
        manifest.external = Some("other".to_owned());
        manifest.config = "[target]\nprogram = \"forward\"\n".to_owned();
        let damaged = u64::from(altered) + copies.map_or(0, |_| 40);
        manifest.unseen = Some(Unseen { damaged, ..Unseen::default() });
        let mut evidence = Evidence::of(Path::new(""), manifest);
        let (mut came_intact, mut came_altered) = (0, 0);
        for at in 0..400u32 {
            let (packet, t_ps) = (PacketId::new(at % 2, at / 2, 0), i64::from(at) * 1_000_000_000);
            evidence.sent.packet.push(packet);
            evidence.sent.gen_ps.push(t_ps);
            evidence.sent.due_ps.push(t_ps);
            evidence.sent.sent_ps.push(Some(t_ps));
            evidence.sent.bytes.push(256);
            if at % 10 == 5 {
                continue;
            }
            let is_altered = came_altered < altered && at % 2 == 0;
            came_altered += u32::from(is_altered);
            came_intact += u32::from(!is_altered);
            evidence.arrived.recv_ps.push(t_ps + 1);
            evidence.arrived.packet.push(Some(packet).filter(|_| has_ids || !is_altered));
            evidence.arrived.count.push(if is_altered { count } else { 1 });
            evidence.arrived.gen_ps.push(t_ps);
            if let Some(later_ps) = copies.filter(|_| at % 10 == 3) {
                evidence.arrived.recv_ps.push(t_ps + 2);
                evidence.arrived.packet.push(Some(packet));
                evidence.arrived.count.push(1);
                evidence.arrived.gen_ps.push(t_ps + later_ps);
            }
        }
        assert_eq!((came_altered, came_intact), (altered, 360 - altered));
        evidence.join = join::Join::new(&evidence.sent.packet, evidence.arrived.packet.iter().copied());
        let protocols = Protocols { formats: &[], planners: &[] };
        let (known, balances) = (Known::of(&evidence, &protocols), Balances::of(&evidence));
        let (mut found, mut unknown) = (Vec::new(), Vec::new());
        came(&evidence, None, &known, &balances, &mut found, &mut unknown).expect("no file is read");
        found.iter().map(|found| found.explains).collect()
    }

    #[test]
    fn altered_frames_that_name_their_update_are_none_of_the_lost_ones() {
        for (altered, has_ids) in [(0, true), (20, true), (200, true), (20, false), (100, false)] {
            assert_eq!(of_altered(altered, has_ids, 1, None), [40], "{altered} altered, ids: {has_ids}");
        }
        // What is missing may be in packets of two updates, of which there are too many with 200.
        assert_eq!((of_altered(20, true, 2, None), of_altered(200, true, 2, None)), (vec![], vec![40]));
        // One packet of two may hold one of them, which says nothing of the others.
        assert_eq!((of_altered(1, true, 2, None), of_altered(10, true, 2, None)), (vec![40], vec![]));
    }

    #[test]
    fn damaged_copies_of_updates_that_came_are_none_of_the_lost_ones() {
        assert_eq!(of_altered(0, true, 1, Some(0)), [40]);
        assert_eq!(of_altered(20, true, 1, Some(0)), [40]);
        // Their headers may name an update that came, and they hold one that is missing.
        assert_eq!(of_altered(0, true, 1, Some(1)), [] as [u64; 0]);
    }

    #[test]
    fn captures_of_both_ends_of_a_cable_show_what_it_does() {
        let says = |external: Option<&str>, end: Option<&str>| {
            let mut manifest = evidence::manifest(&[0, 0]);
            manifest.interfaces.extend(
                end.map(|end| pktgen_core::record::InterfaceCounts { end: end.to_owned(), ..Default::default() }),
            );
            manifest.clocks.insert("sent.t_sent_ps".to_owned(), "monotonic".to_owned());
            manifest.external = external.map(str::to_owned);
            what_would_tell(&Evidence::of(Path::new(""), manifest))
        };
        let own = says(None, Some("workers"));
        assert!(own.contains("run again, and compare the captures of the two ends"), "{own}");
        assert!(!says(None, None).contains("cable") && !says(Some("profile"), Some("workers")).contains("compare"));
    }

    #[test]
    fn what_was_asked_for_or_interrupted_needs_no_rule() {
        let mut manifest = evidence::manifest(&[0, 0]);
        manifest.config = "[transport]\nfault_duplicate = 0.02\n".to_owned();
        let mut evidence = Evidence::of(Path::new(""), manifest);
        let mut found = vec![CauseFound::new(&cause::COPIES, Certainty::Certain, 9, vec![])];
        assert!(leave_out_asked(&evidence, &mut found) && found.is_empty());
        assert!(!leave_out_asked(&evidence, &mut found) && !is_interrupted(&evidence));
        evidence.manifest.validity.faults.push(Fault::Interrupted {});
        assert!(is_interrupted(&evidence));
        evidence.manifest.validity.faults.push(Fault::WrongResults { results: 3 });
        assert!(!is_interrupted(&evidence));
    }

    #[test]
    fn results_that_are_wrong_behind_a_server_are_named_without_a_capture() {
        let mut manifest = evidence::manifest(&[0, 0]);
        manifest.validity.faults.push(Fault::WrongResults { results: 3 });
        let evidence = Evidence::of(Path::new(""), manifest);
        let protocols = Protocols { formats: &[], planners: &[] };
        let (mut found, mut unknown) = (Vec::new(), Vec::new());
        remade(&evidence, &Known::of(&evidence, &protocols), 0, &mut found, &mut unknown).expect("no capture is read");
        assert!(unknown.len() == 1 && unknown[0].starts_with("what is wrong with 3 sums: "), "{unknown:?}");
    }

    #[test]
    fn rows_of_a_part_of_the_frames_are_no_evidence_of_all() {
        use pktgen_core::record::PacketId;
        let run_by = |clock: &str, records: &str, rows: u32| {
            let mut manifest = evidence::manifest(&[0, 0]);
            manifest.clocks.insert("sent.t_sent_ps".to_owned(), clock.to_owned());
            manifest.records = records.to_owned();
            (manifest.balance.generated, manifest.balance.sent) = (1000, 1000);
            let mut evidence = Evidence::of(Path::new(""), manifest);
            for row in 0..rows {
                evidence.sent.packet.push(PacketId::new(0, row, 0));
                evidence.sent.due_ps.push(i64::from(row));
                evidence.sent.sent_ps.push(Some(i64::from(row) + 10_000_000_000));
            }
            evidence
        };
        let run = |records: &str, rows: u32| run_by("host", records, rows);
        let codes = |evidence: &Evidence| {
            let (mut found, mut unknown) = (Vec::new(), Vec::new());
            hosts::look(evidence, &mut found);
            hosts::silence(evidence, None, &mut found, &mut unknown);
            found.iter().map(|found: &CauseFound| found.cause.code).collect::<Vec<_>>()
        };
        assert_eq!(codes(&run("full", 0)), ["nothing_sent"]);
        assert_eq!(codes(&run("full", 1000)), ["host_late"]);
        // In virtual time frames wait for links.
        assert_eq!(codes(&run_by("virtual", "full", 1000)), ["device_silent"]);
        for (records, rows) in [("none", 0), ("every:100", 10)] {
            let part = run(records, rows);
            assert_eq!((part.left(), codes(&part)), (1000, vec!["device_silent"]));
            assert!(breakdown::of(&part, breakdown::times(&part).as_ref()).is_none());
            let says = without_all_rows(&part).expect("something is not known");
            assert!(says.contains(&format!("capture.records = \"{records}\"; set \"full\"")), "{says}");
        }
        assert_eq!(without_all_rows(&run("full", 0)), None);
    }

    /// What a killed run received is among its rows, so no device is silent that they show to have sent.
    #[test]
    fn of_a_killed_run_the_last_rows_are_not_known() {
        let mut manifest = evidence::manifest(&[0, 0]);
        manifest.clocks.insert("sent.t_sent_ps".to_owned(), "host".to_owned());
        manifest.validity.faults.push(Fault::Killed {});
        (manifest.counters.acks_sent, manifest.counters.acks_received) = (9, 0);
        let evidence = Evidence::of(Path::new(""), manifest);
        let says = without_all_rows(&evidence).expect("something is not known");
        assert!(says.contains("the run was killed"), "{says}");
        // The counters of the workers are missing, and not the answers.
        assert!(merging::answers(&evidence, LostOnLinks::NONE).is_none());
    }

    /// Counters of pktgen's workers and servers, which are beside the device's, are none of the device.
    #[test]
    fn counters_of_the_run_are_no_counters_of_the_device() {
        let of = |config: &str, name: &str| {
            let mut manifest = evidence::manifest(&[0, 0]);
            manifest.config = config.to_owned();
            manifest.counters.device.insert(name.to_owned(), 4);
            Evidence::of(Path::new(""), manifest).has_device_counters()
        };
        let launch = |counters: &str| format!("[target.launch]\ncounters = {counters}\n");
        assert!(!of("", "results_overflowed") && !of(&launch("[]"), "results_overflowed"));
        assert!(of(&launch("[\"cat\", \"/run/counters\"]"), "results_overflowed"));
        assert!(of("", "received") && of("", "overrun") && of("", "dropped"), "given by --device");
        assert!(of("", "device.received") && of("", "device.rounds"), "of a device in lockstep");
    }

    #[test]
    fn wrong_sums_are_named_beside_a_late_host_hot_and_cold_ones_apart() {
        let mut manifest = evidence::manifest(&[0, 0]);
        manifest.counters.sums_wrong = 7;
        manifest.counters.device.insert("hot_sums_off".to_owned(), 4);
        let evidence = Evidence::of(Path::new(""), manifest);
        let late = || CauseFound::new(&cause::HOST_LATE, Certainty::Certain, 900, vec![]);
        let unknown = wrong_by_key(&evidence, &[late()]);
        assert_eq!(unknown.len(), 2, "{unknown:?}");
        assert!(unknown[0].contains("4 hot sums: the run counted hot_sums_off 4"), "{unknown:?}");
        assert!(unknown[1].contains("3 cold pushes"), "{unknown:?}");
        // Flipped bits explain the cold ones.
        let flipped = CauseFound::new(&cause::BITS_FLIPPED, Certainty::Certain, 3, vec![]);
        assert_eq!(wrong_by_key(&evidence, &[late(), flipped]).len(), 1);
        assert_eq!(told_of_sums(&[late()]), 0);
    }
}
