//! Causes shown by hosts, cables and a launched device, and reasons why nothing arrived.

use std::collections::BTreeMap;

use pktgen_core::record::{CHECKSUMS_WRONG, Fault, InterfaceCounts, Note, WIRES_CHECKSUMS_WRONG};

use crate::cause::{
    BAD_CHECKSUM, DEVICE_DROPS, DEVICE_ENDED, DEVICE_OVERRUN, DEVICE_SILENT, DEVICE_UNREACHED, HOST_LATE, HOST_OVERRUN,
    LINK_LOST, LOCKSTEP_BROKEN, NO_CARRIER, NOTHING_SENT, RESULTS_UNMATCHED, SEND_REFUSED, WAITS_FOR_OTHERS,
    WORKER_UNKNOWN,
};
use crate::counted::{OVERRUN, RESULTS, UNKNOWN};
use crate::crossing::Crossing;
use crate::evidence::{Evidence, named};
use crate::finding::{CauseFound, Certainty, EvidenceItem};
use crate::links::LostOnLinks;
use crate::sockets;

/// Reasons in a device's ledger that indicate a fault: full queues, full tables and repeated packets do not.
const FAULTY: &[&str] =
    &["fault", "no_route", "malformed", "unknown_job", "unknown_source", "wrong_count", "device_lost"];
/// Median lateness at the end above which the schedule was not kept: in ps, and as a fraction (1/n) of the schedule.
const LATE_PS: i64 = 5_000_000_000;
const BEHIND: i64 = 5;

/// Examines interfaces, sockets, schedule and launch.
pub(crate) fn look(evidence: &Evidence, found: &mut Vec<CauseFound>) {
    found.extend(ended(evidence));
    if evidence.is_lockstep() {
        of_lockstep(evidence, found);
    }
    let dead = found.iter().any(|found| found.cause == &DEVICE_ENDED);
    // A software device, in this run or in a part of it, has interfaces of its own.
    for end in ["workers", "device.down", "device.up", "server"] {
        let mut any = false;
        for counts in evidence.interfaces(end) {
            // Cables of a launched device disappear with it; without a carrier every frame is refused.
            let carrier = carrier(evidence, counts).filter(|_| !dead);
            let refused = refused(evidence, counts).filter(|_| carrier.is_none());
            any |= carrier.is_some() || refused.is_some();
            found.extend(refused);
            found.extend(carrier);
        }
        found.extend(refused_at(evidence, end).filter(|_| !any));
    }
    found.extend(overrun(evidence));
    found.extend(discarded(evidence));
    found.extend(device_overrun(evidence));
    found.extend(by_books(evidence));
    found.extend(late(evidence));
}

fn ended(evidence: &Evidence) -> Option<CauseFound> {
    let why = evidence.faults().find_map(|fault| match fault {
        Fault::DeviceEnded { why } => Some(why.clone()),
        _ => None,
    })?;
    let missing = evidence.left().saturating_sub(evidence.came());
    Some(CauseFound::new(
        &DEVICE_ENDED,
        Certainty::Certain,
        missing,
        vec![EvidenceItem::new("manifest.json, validity", why)],
    ))
}

/// Examines the session of a device in lockstep.
fn of_lockstep(evidence: &Evidence, found: &mut Vec<CauseFound>) {
    let missing = evidence.left().saturating_sub(evidence.came());
    let broken = evidence.faults().find_map(|fault| match fault {
        Fault::RoleFailed { why } => Some((Certainty::Certain, why.clone())),
        Fault::BeyondHorizon {} => Some((Certainty::Likely, fault.to_string())),
        _ => None,
    });
    found.extend(broken.map(|(certainty, says)| {
        CauseFound::new(&LOCKSTEP_BROKEN, certainty, missing, vec![EvidenceItem::new("manifest.json, validity", says)])
    }));
}

/// Returns wrong checksums counted by the run, if no capture shows the frames.
pub(crate) fn checksums(evidence: &Evidence) -> Option<CauseFound> {
    let (name, wrong) = [CHECKSUMS_WRONG, WIRES_CHECKSUMS_WRONG]
        .into_iter()
        .find_map(|name| Some((name, *evidence.manifest.counters.device.get(name)?)))?;
    let proof = EvidenceItem::new(format!("counter {name}"), format!("{wrong} frames that left the device"));
    Some(CauseFound::new(&BAD_CHECKSUM, Certainty::Certain, 0, vec![proof]))
}

fn carrier(evidence: &Evidence, counts: &InterfaceCounts) -> Option<CauseFound> {
    let down = !["up", "unknown", ""].contains(&counts.state.as_str());
    let missing = evidence.left().saturating_sub(evidence.came());
    (down || counts.carrier_changes > 0).then(|| {
        let certainty = if missing > 0 || down { Certainty::Certain } else { Certainty::Possible };
        CauseFound::new(&NO_CARRIER, certainty, missing, vec![EvidenceItem::new(named([counts]), counts.to_string())])
    })
}

/// Finds frames that an interface refused: by its own counters, or, if no other is of its end, by the run's.
fn refused(evidence: &Evidence, counts: &InterfaceCounts) -> Option<CauseFound> {
    let lost = counts.tx_dropped + counts.tx_errors;
    let is_it = lost > 0 || evidence.interfaces(&counts.end).count() == 1;
    let failed = evidence.faults().find_map(|fault| match fault {
        Fault::RoleFailed { why } if lost > 0 && why.contains(&counts.interface) => Some(why.clone()),
        Fault::FramesLost { end, out, .. } if *end == counts.end && *out > 0 && is_it => Some(fault.to_string()),
        _ => None,
    });
    let sent = counts.sent.unwrap_or(counts.tx_packets);
    if failed.is_none() && lost * 200 <= sent {
        return None;
    }
    let mut proofs = vec![EvidenceItem::new(named([counts]), counts.to_string())];
    proofs.extend(failed.map(|why| EvidenceItem::new("manifest.json, validity", why)));
    Some(CauseFound::new(&SEND_REFUSED, Certainty::Certain, lost.clamp(1, sent.max(1)), proofs))
}

/// Finds frames that an end lost on the way out by the run's count, where several interfaces are of it and none counted a loss.
fn refused_at(evidence: &Evidence, end: &str) -> Option<CauseFound> {
    if evidence.interfaces(end).count() < 2 {
        return None;
    }
    let (frames, says) = evidence.faults().find_map(|fault| match fault {
        Fault::FramesLost { end: of, out, .. } if of == end && *out > 0 => Some((*out, fault.to_string())),
        _ => None,
    })?;
    let proofs = vec![EvidenceItem::new("manifest.json, validity", says)];
    Some(CauseFound::new(&SEND_REFUSED, Certainty::Certain, frames, proofs))
}

/// Returns the frames that sockets dropped before they were read, by end.
fn before_read(evidence: &Evidence) -> BTreeMap<&str, u64> {
    let mut all: BTreeMap<&str, u64> = BTreeMap::new();
    for fault in evidence.faults() {
        if let Fault::FramesLost { end, before_read, .. } = fault
            && *before_read > 0
        {
            *all.entry(end.as_str()).or_default() += *before_read;
        }
    }
    all
}

/// Finds datagrams of a device without books that hosts discarded for a wrong checksum.
fn discarded(evidence: &Evidence) -> Option<CauseFound> {
    evidence.manifest.external.as_ref()?;
    let (mut proofs, mut all) = (Vec::new(), 0);
    for (end, dropped) in before_read(evidence) {
        let damaged = sockets::damaged(evidence, end).unwrap_or(0).min(dropped);
        if damaged > 0 {
            all += damaged;
            let says = format!(
                "{damaged} datagrams were discarded for a wrong checksum, by the kernel's count of all sockets"
            );
            proofs.push(EvidenceItem::new(format!("socket of {end}"), says));
        }
    }
    (all > 0).then(|| CauseFound::new(&BAD_CHECKSUM, Certainty::Likely, all, proofs))
}

fn overrun(evidence: &Evidence) -> Option<CauseFound> {
    let (mut proofs, mut lost, mut unsure) = (Vec::new(), 0, false);
    for (end, dropped) in before_read(evidence) {
        let damaged = sockets::damaged(evidence, end);
        let frames = dropped.saturating_sub(damaged.unwrap_or(0));
        if frames > 0 {
            lost += frames;
            unsure |= damaged.is_none() && sockets::are_datagrams(evidence);
            let says = format!("{frames} frames were dropped before they were read");
            proofs.push(EvidenceItem::new(format!("socket of {end}"), says));
        }
    }
    for counts in &evidence.manifest.interfaces {
        let frames = dropped_by(counts);
        if frames > 0 {
            lost += frames;
            let says = format!("{frames} of {} frames dropped on the way in", counts.rx_packets);
            proofs.push(EvidenceItem::new(named([counts]), says));
        }
    }
    if unsure {
        let says = "datagrams of a wrong checksum may be among them, and are not counted by socket: compare UdpInCsumErrors and UdpRcvbufErrors (nstat -a)";
        proofs.push(EvidenceItem::new("count of the kernel", says.to_owned()));
    }
    let certainty = if unsure { Certainty::Possible } else { Certainty::Certain };
    (lost > 0).then(|| CauseFound::new(&HOST_OVERRUN, certainty, lost, proofs))
}

/// Returns the frames that an interface dropped on the way in, unless they are few.
fn dropped_by(counts: &InterfaceCounts) -> u64 {
    let frames = counts.rx_dropped + counts.rx_errors;
    if frames > (counts.rx_packets / 200).max(3) { frames } else { 0 }
}

/// Returns the frames on the way from the server to the workers that hosts lost after they had arrived there.
pub(crate) fn dropped_on_way_back(evidence: &Evidence) -> u64 {
    ["device.up", "workers"].iter().map(|end| dropped_at(evidence, end)).sum()
}

/// Returns the frames that hosts of an end lost after they had arrived there. Where a socket takes frames before the
/// stack, its interface counts the same ones.
fn dropped_at(evidence: &Evidence, end: &str) -> u64 {
    let at_sockets = before_read(evidence).get(end).copied().unwrap_or(0);
    // Damaged datagrams of a software device count as lost on the cable.
    let own = evidence.manifest.external.is_none();
    let damaged = if own { sockets::damaged(evidence, end).unwrap_or(0) } else { 0 };
    let at_sockets = at_sockets.saturating_sub(damaged);
    let of_end = evidence.manifest.interfaces.iter().filter(|counts| counts.end == end);
    at_sockets.max(of_end.map(dropped_by).sum())
}

/// Returns frames that the device's own ports dropped by its counters.
fn device_overrun(evidence: &Evidence) -> Option<CauseFound> {
    let (name, frames) = evidence.device(OVERRUN).filter(|(_, frames)| *frames > 0)?;
    let proof = EvidenceItem::new(format!("device counter {name}"), format!("{frames} frames"));
    Some(CauseFound::new(&DEVICE_OVERRUN, Certainty::Certain, frames, vec![proof]))
}

/// Returns frames that a device with a ledger dropped for reasons that a working device does not have.
fn by_books(evidence: &Evidence) -> Option<CauseFound> {
    let dropped = &evidence.manifest.balance.dropped;
    // If the experiment makes links lose frames, faults are expected.
    let asked = |reason: &str| reason == "fault" && evidence.has_faulty_links();
    let is_odd = |reason: &str| FAULTY.contains(&reason) && !asked(reason);
    let odd: Vec<_> = dropped.iter().filter(|(reason, frames)| is_odd(reason) && **frames > 0).collect();
    let proofs =
        odd.iter().map(|(reason, frames)| EvidenceItem::new(format!("books, {reason}"), format!("{frames} dropped")));
    let all = odd.iter().map(|(_, frames)| **frames).sum();
    (all > 0).then(|| CauseFound::new(&DEVICE_DROPS, Certainty::Certain, all, proofs.collect()))
}

/// Whether most of `lost` was dropped by the device's ports or lost on links, by the counters of their ends.
pub(crate) fn is_counted(found: &[CauseFound], lost: u64, on_links: LostOnLinks) -> bool {
    let overrun = found.iter().find(|found| found.cause == &DEVICE_OVERRUN).map_or(0, |found| found.explains);
    on_links.and(overrun).may_explain(lost)
}

/// Finds frames that left increasingly late, or were skipped for that reason. In virtual time no host is late: frames wait for its link, as
/// the experiment says.
fn late(evidence: &Evidence) -> Option<CauseFound> {
    if !evidence.is_real() || !evidence.has_all_rows() {
        return None;
    }
    let skipped = evidence.manifest.validity.notes.iter().find_map(|note| match note {
        Note::TooLate { frames } => Some(*frames),
        _ => None,
    });
    let lateness: Vec<i64> = evidence
        .sent
        .sent_ps
        .iter()
        .zip(&evidence.sent.due_ps)
        .filter_map(|(sent, due)| Some((*sent)? - due))
        .collect();
    // Closed loops have no schedule set by others.
    let scheduled = !evidence.is_results() && !evidence.text("transport", "pacing").contains("top");
    let due = &evidence.sent.due_ps;
    let span = due.iter().max().copied().unwrap_or(0) - due.iter().min().copied().unwrap_or(0);
    // A pause is made up for; a schedule that is too fast is not, so lateness is highest at the end.
    let end = median(lateness[lateness.len() - lateness.len() / 10..].to_vec());
    let behind = scheduled && end > LATE_PS.max(span / BEHIND);
    let skips = skipped.filter(|frames| *frames * 100 > lateness.len() as u64);
    if !behind && skips.is_none() {
        return None;
    }
    let (end_ms, span_ms) = (end as f64 / 1e9, span as f64 / 1e9);
    let says = format!(
        "in the last tenth of a schedule of {span_ms:.1} ms half of the frames left more than {end_ms:.1} ms late"
    );
    let mut proofs = vec![EvidenceItem::new("sent.parquet, t_due_ps and t_sent_ps", says)];
    proofs.extend(skips.map(|frames| {
        EvidenceItem::new("manifest.json, validity", format!("{frames} frames were too late and were not sent"))
    }));
    let frames = skips.unwrap_or(0).max(lateness.iter().filter(|late| **late > LATE_PS).count() as u64);
    Some(CauseFound::new(&HOST_LATE, Certainty::Certain, frames, proofs))
}

fn median(mut values: Vec<i64>) -> i64 {
    let middle = values.len() / 2;
    if values.is_empty() { 0 } else { *values.select_nth_unstable(middle).1 }
}

/// Finds the reason why nothing came back.
pub(crate) fn silence(
    evidence: &Evidence,
    crossing: Option<&Crossing>,
    found: &mut Vec<CauseFound>,
    unknown: &mut Vec<String>,
) {
    let left = evidence.left();
    if evidence.is_cut_early() {
        return;
    }
    let lost = [&NO_CARRIER, &SEND_REFUSED, &DEVICE_ENDED, &LOCKSTEP_BROKEN];
    let sure = |found: &CauseFound| {
        found.certainty == Certainty::Certain && (found.explains > 0 || lost.contains(&found.cause))
    };
    let explained = found.iter().any(sure);
    if left == 0 && !explained && evidence.has_all_rows() {
        let proof = EvidenceItem::new(
            "sent.parquet",
            format!("{} rows, none with a time of sending", evidence.sent.packet.len()),
        );
        found.push(CauseFound::new(&NOTHING_SENT, Certainty::Certain, evidence.sent.packet.len() as u64, vec![proof]));
    }
    let unmatched = evidence.manifest.counters.foreign;
    let on_cable = crossing.is_some_and(|crossing| crossing.came > 0);
    // Results on a cable that no worker takes, and that have no fault of their own, such as another address or length.
    let are_results = unmatched > 0 && evidence.is_results() && found.is_empty();
    if left == 0 || explained || on_cable && !are_results {
        return;
    }
    if unmatched > 0 && (on_cable || !evidence.is_real()) {
        // Frames on a cable may belong to others.
        let certainty = if on_cable { Certainty::Likely } else { Certainty::Certain };
        let says = format!("{unmatched} frames came that match no update or result of the run, and none that does");
        let proof = EvidenceItem::new("manifest.json, counters.foreign", says);
        found.push(CauseFound::new(&RESULTS_UNMATCHED, certainty, left, vec![proof]));
        return;
    }
    let receiver = if evidence.is_results() { "workers" } else { "server" };
    let took: Vec<_> = evidence.interfaces(receiver).filter(|counts| counts.rx_packets > 3).collect();
    if !took.is_empty() && crossing.is_none() {
        let frames: u64 = took.iter().map(|counts| counts.rx_packets).sum();
        unknown.push(format!(
            "{} counted {frames} frames that the run did not take: what is wrong with them, only a capture shows; set transport.tap = \"tap.pcapng\" and run again",
            named(took)
        ));
        return;
    }
    by_counters(evidence, receiver, found, unknown);
}

/// Examines counters along the path of frames if nothing arrived.
fn by_counters(evidence: &Evidence, receiver: &str, found: &mut Vec<CauseFound>, unknown: &mut Vec<String>) {
    let left = evidence.left();
    let total = |end: &str, count: fn(&InterfaceCounts) -> u64| {
        evidence.interface(end)?;
        Some((named(evidence.interfaces(end)), evidence.interfaces(end).map(count).sum::<u64>()))
    };
    let handed = total("workers", |counts| counts.tx_packets)
        .map(|(at, frames)| EvidenceItem::new(at, format!("{frames} of {left} frames left")));
    let (into, out) = evidence.through();
    let told = |name: &str, value: u64| EvidenceItem::new("device counters", format!("{name} {value}"));
    let proofs = |more: Vec<EvidenceItem>| handed.iter().cloned().chain(more).collect::<Vec<_>>();
    match (into, out) {
        (Some(0), _) => match of_unreached_device(evidence, proofs(vec![told("in", 0)])) {
            Ok(cause) => found.push(cause),
            Err(why) => unknown.push(why),
        },
        (Some(into), Some(0)) => match of_silent_device(evidence, into) {
            Ok((cause, certainty, more)) => {
                let all = [told("in", into), told("out", 0)].into_iter().chain(more).collect();
                found.push(CauseFound::new(cause, certainty, left, proofs(all)));
            }
            Err(why) => unknown.push(why),
        },
        (Some(into), out) => {
            let out = out.map_or("does not say what it sent".into(), |out| format!("sent {out}"));
            // Losses shown by the balance of the link are a cause of their own.
            if !found.iter().any(|found| found.cause == &LINK_LOST) {
                let next = match evidence.is_real() {
                    true => "look at the cable behind it, and at transport.interfaces",
                    false => "look at transport.fault_*, and at the ports out of which it sends",
                };
                unknown.push(format!("the device counted {into} frames and {out}, and none came: {next}"));
            }
        }
        // Its counters are missing: what came is not known.
        _ if evidence.is_killed() => {}
        _ => {
            let nothing = total(receiver, |counts| counts.rx_packets)
                .map(|(at, frames)| EvidenceItem::new(at, format!("{frames} frames came")));
            found.push(CauseFound::new(
                &DEVICE_SILENT,
                Certainty::Possible,
                left,
                proofs(nothing.into_iter().collect()),
            ));
            if evidence.is_results() {
                found.push(CauseFound::new(&WAITS_FOR_OTHERS, Certainty::Possible, left, Vec::new()));
            }
            unknown.push(
                "whether frames reach the device: compare its counters, or have [target.launch] counters read them"
                    .into(),
            );
        }
    }
}

/// Returns the cause if the device counted none of the frames that left, or what is not known. In virtual time there is no cable: such
/// frames were lost by faulty links, were under way when the run was cut, or are not counted by the device.
fn of_unreached_device(evidence: &Evidence, proofs: Vec<EvidenceItem>) -> Result<CauseFound, String> {
    let left = evidence.left();
    if evidence.is_real() {
        return Ok(CauseFound::new(&DEVICE_UNREACHED, Certainty::Certain, left, proofs));
    }
    if evidence.is_lockstep() && !evidence.has_faulty_links() && !evidence.is_cut() {
        return Ok(CauseFound::new(&DEVICE_SILENT, Certainty::Likely, left, proofs));
    }
    Err(format!(
        "what the device does: it counted none of {left} frames, and in virtual time only links lose frames on the way to it{}",
        evidence.losing_less()
    ))
}

/// Whether a device that received `into` contributions and added up `summed` lacks exactly the contributions of a number of workers.
fn lacks_workers(evidence: &Evidence, into: u64, summed: u64) -> bool {
    let workers = evidence.manifest.clusters.len() as u64;
    let out = into.saturating_sub(summed);
    workers > 0
        && into == evidence.left()
        && into.is_multiple_of(workers)
        && out > 0
        && out.is_multiple_of(into / workers)
}

/// Whether a device that received `into` contributions and summed `summed` may lack some, for faulty links or the end of a cut run. With
/// duplicates, counts do not show that none is missing.
fn may_lack(evidence: &Evidence, into: u64, summed: u64) -> bool {
    let lacks = into.min(summed) < evidence.left();
    lacks && (evidence.has_faulty_links() || evidence.is_cut()) || evidence.is_asked("fault_duplicate")
}

/// Returns what counters show about a device that receives frames and sends none, or what is not known.
fn of_silent_device(
    evidence: &Evidence,
    into: u64,
) -> Result<(&'static crate::cause::Cause, Certainty, Option<EvidenceItem>), String> {
    let unknown = evidence.device(UNKNOWN).filter(|(_, value)| *value > 0);
    let counter = |name: &str, says: String| Some(EvidenceItem::new(format!("device counter {name}"), says));
    if let Some((name, value)) = unknown {
        return Ok((&WORKER_UNKNOWN, Certainty::Likely, counter(name, format!("{value} of {into}"))));
    }
    let summed = evidence.device(&["merged", "contributions", "packets"]).filter(|(_, value)| *value > 0);
    let lacking = summed.filter(|(_, value)| evidence.is_results() && lacks_workers(evidence, into, *value));
    if let Some((name, value)) = lacking {
        let says = format!("{value} of {into}: what it does not sum is as much as some workers sent");
        return Ok((&WORKER_UNKNOWN, Certainty::Likely, counter(name, says)));
    }
    let made = evidence.device(RESULTS).filter(|(_, value)| *value > 0);
    if let Some((name, value)) = made.filter(|_| evidence.is_results()) {
        let says = format!("{value}: results were made, and none came");
        return Ok((&DEVICE_SILENT, Certainty::Certain, counter(name, says)));
    }
    match (evidence.is_results(), summed) {
        (true, Some((name, value))) if may_lack(evidence, into, value) => Err(format!(
            "what the device waits for: no sum was complete, {name} is {value} of {}, and faulty links or the end of the run lose \
             contributions{}",
            evidence.left(),
            evidence.losing_less()
        )),
        (true, Some((name, value))) => {
            let says = format!("{value}: contributions were summed, and no sum was complete");
            Ok((&WAITS_FOR_OTHERS, Certainty::Likely, counter(name, says)))
        }
        _ => Ok((&DEVICE_SILENT, Certainty::Certain, None)),
    }
}

#[cfg(test)]
mod tests {
    use pktgen_core::record::{EndCounts, Family};

    use super::*;
    use crate::evidence::manifest;

    fn at_workers(part: &str, tx_dropped: u64) -> InterfaceCounts {
        InterfaceCounts {
            part: Some(part.to_owned()),
            end: "workers".to_owned(),
            interface: "eth1".to_owned(),
            sent: Some(1000),
            tx_packets: 1000 - tx_dropped,
            tx_dropped,
            state: "up".to_owned(),
            ..InterfaceCounts::default()
        }
    }

    /// Without a cable, a device that counts no frame takes none, or faulty links lose them all.
    #[test]
    fn a_cable_is_blamed_in_real_time_only() {
        let causes = |clock: &str, lockstep: bool, config: &str| {
            let mut manifest = manifest(&[0; 2]);
            manifest.clocks.insert("sent.t_sent_ps".to_owned(), clock.to_owned());
            manifest.external = lockstep.then(|| "profile".to_owned());
            manifest.config = config.to_owned();
            manifest.counters.device.insert("packets".to_owned(), 0);
            let mut evidence = Evidence::of(std::path::Path::new(""), manifest);
            evidence.sent.sent_ps = vec![Some(0); 8];
            let (mut found, mut unknown) = (Vec::new(), Vec::new());
            silence(&evidence, None, &mut found, &mut unknown);
            let causes: Vec<_> = found.iter().map(|found| (found.cause.code, found.certainty)).collect();
            (causes, unknown.len())
        };
        let lossy = "[transport]\nfault_loss = 1.0\n";
        assert_eq!(causes("host", false, ""), (vec![("device_unreached", Certainty::Certain)], 0));
        assert_eq!(causes("virtual", true, ""), (vec![("device_silent", Certainty::Likely)], 0));
        assert_eq!(causes("virtual", true, lossy), (vec![], 1));
        assert_eq!(causes("virtual", false, lossy), (vec![], 1));
    }

    /// A sum lacks what a link lost or a cut left on the way. A device that has all contributions and waits is at fault.
    #[test]
    fn a_device_waits_for_contributions_that_were_lost() {
        let causes = |config: &str, cut: bool, summed: u64| {
            let mut manifest = manifest(&[0; 4]);
            (manifest.family, manifest.config) = (Some(Family::Results), config.to_owned());
            manifest.validity.notes.extend(cut.then_some(Note::CutOff { in_flight: 1 }));
            manifest.counters.device.extend([("packets".to_owned(), summed), ("results".to_owned(), 0)]);
            let mut evidence = Evidence::of(std::path::Path::new(""), manifest);
            evidence.sent.sent_ps = vec![Some(0); 4];
            let (mut found, mut unknown) = (Vec::new(), Vec::new());
            silence(&evidence, None, &mut found, &mut unknown);
            (found.iter().map(|found| found.cause.code).collect::<Vec<_>>(), unknown.len())
        };
        let (lossy, doubling) = ("[transport]\nfault_loss = 0.3\n", "[transport]\nfault_duplicate = 0.3\n");
        for (config, cut, summed) in [("", false, 4), (lossy, false, 4), ("", true, 4), ("", false, 3)] {
            assert_eq!(causes(config, cut, summed), (vec!["waits_for_others"], 0), "{config} {cut} {summed}");
        }
        let undecided = [causes(lossy, false, 3), causes(doubling, false, 4), causes("", true, 3)];
        assert!(undecided.iter().all(|(causes, unknown)| causes.is_empty() && *unknown == 1), "{undecided:?}");
    }

    /// A device of which no result matches is no better than one of which some do not.
    #[test]
    fn results_on_a_cable_that_all_match_nothing_are_unmatched() {
        let causes = |family: Family, before: &[&'static crate::cause::Cause]| {
            let mut manifest = manifest(&[0; 2]);
            manifest.clocks.insert("sent.t_sent_ps".to_owned(), "host".to_owned());
            manifest.family = Some(family);
            manifest.counters.foreign = 16;
            let mut evidence = Evidence::of(std::path::Path::new(""), manifest);
            evidence.sent.sent_ps = vec![Some(0); 16];
            let one = |cause: &&'static crate::cause::Cause| CauseFound::new(cause, Certainty::Likely, 16, Vec::new());
            let (mut found, mut unknown): (Vec<_>, _) = (before.iter().map(one).collect(), Vec::new());
            let crossing = Crossing { came: 16, ..Crossing::default() };
            silence(&evidence, Some(&crossing), &mut found, &mut unknown);
            found.iter().map(|found| (found.cause.code, found.certainty)).collect::<Vec<_>>()
        };
        assert_eq!(causes(Family::Results, &[]), [("results_unmatched", Certainty::Likely)]);
        assert_eq!(causes(Family::Results, &[&BAD_CHECKSUM]), [("bad_checksum", Certainty::Likely)]);
        assert_eq!(causes(Family::Updates, &[]), []);
    }

    /// What was under way at the end of a cut run needs no cause, and what was lost before it does.
    #[test]
    fn a_cut_is_no_fault() {
        let causes = |cut: bool, sent: u64, in_flight: u64| {
            let mut manifest = manifest(&[0; 2]);
            manifest.validity.notes.extend(cut.then_some(Note::CutOff { in_flight }));
            (manifest.balance.sent, manifest.balance.in_flight) = (sent, in_flight);
            let mut evidence = Evidence::of(std::path::Path::new(""), manifest);
            evidence.sent.sent_ps = vec![Some(0); sent as usize];
            let (mut found, mut unknown) = (Vec::new(), Vec::new());
            silence(&evidence, None, &mut found, &mut unknown);
            found.iter().map(|found| found.cause.code).collect::<Vec<_>>()
        };
        assert!(causes(true, 8, 8).is_empty() && causes(true, 0, 0).is_empty());
        assert_eq!(causes(true, 8, 7), ["device_silent"]);
        assert_eq!([causes(false, 8, 8), causes(false, 0, 0)], [["device_silent"], ["nothing_sent"]]);
    }

    /// What a killed server received is not known, and its device may have sent.
    #[test]
    fn no_device_is_silent_for_a_server_that_was_killed() {
        let causes = |faults: Vec<Fault>| {
            let mut manifest = manifest(&[0; 2]);
            (manifest.balance.sent, manifest.validity.faults) = (8, faults);
            let evidence = Evidence::of(std::path::Path::new(""), manifest);
            let (mut found, mut unknown) = (Vec::new(), Vec::new());
            by_counters(&evidence, "server", &mut found, &mut unknown);
            found.iter().map(|found| found.cause.code).collect::<Vec<_>>()
        };
        assert_eq!(causes(Vec::new()), ["device_silent"]);
        let killed = Fault::InPart { part: "rank 2".to_owned(), fault: Box::new(Fault::Killed {}) };
        assert!(causes(vec![killed]).is_empty());
    }

    fn causes(evidence: &Evidence) -> Vec<(&'static str, u64, String)> {
        let mut found = Vec::new();
        look(evidence, &mut found);
        found.iter().map(|found| (found.cause.code, found.explains, found.proofs[0].at.clone())).collect()
    }

    #[test]
    fn the_interfaces_of_all_senders_are_examined() {
        let mut manifest = manifest(&[0; 2]);
        manifest.interfaces = vec![at_workers("one", 0), at_workers("two", 300)];
        let lost = Fault::FramesLost { end: "workers".to_owned(), out: 300, before_read: 0 };
        manifest.validity.faults.push(Fault::InPart { part: "two".to_owned(), fault: Box::new(lost) });
        let mut evidence = Evidence::of(std::path::Path::new(""), manifest);
        let of = |at: &str| vec![("send_refused", 300u64, at.to_owned())];
        assert_eq!(causes(&evidence), of("interface eth1 (two)"));
        evidence.manifest.balance.unaccounted = 1000;
        let ended = |evidence: &Evidence| crate::breakdown::ends(evidence, 0);
        assert!(ended(&evidence).contains(&(crate::CausePlace::Wire, 300)));
        // Lost, and no interface counted it.
        evidence.manifest.interfaces = vec![at_workers("one", 0), at_workers("two", 0)];
        assert_eq!(causes(&evidence), of("manifest.json, validity"));
    }

    #[test]
    fn an_interface_of_our_own_device_that_went_down_is_named() {
        let of = |end: &str, state: &str, carrier_changes: u64| {
            let mut manifest = manifest(&[0]);
            (manifest.counters.acks_sent, manifest.counters.acks_received) = (100, 90);
            manifest.interfaces = vec![InterfaceCounts {
                end: end.to_owned(),
                interface: "d1".to_owned(),
                state: state.to_owned(),
                carrier_changes,
                tx_packets: 2303,
                ..InterfaceCounts::default()
            }];
            let evidence = Evidence::of(std::path::Path::new(""), manifest);
            let mut found = Vec::new();
            look(&evidence, &mut found);
            let named: Vec<_> = found.iter().map(|found| (found.cause.code, found.certainty)).collect();
            (named, crate::merging::answers(&evidence, LostOnLinks::NONE).is_some())
        };
        // Answers that were on the way when it went down are not lost in the device.
        for end in ["device.up", "device.down", "workers"] {
            assert_eq!(of(end, "down", 1), (vec![("no_carrier", Certainty::Certain)], false), "{end}");
        }
        assert_eq!(of("server", "down", 1), (vec![("no_carrier", Certainty::Certain)], true));
        assert_eq!(of("device.up", "up", 0), (vec![], true));
    }

    /// The kernel's count of a socket's drops has datagrams with a wrong checksum, which no host was too slow for.
    #[test]
    fn datagrams_with_a_wrong_checksum_are_no_overrun() {
        let of = |kind: &str, errors: Option<u64>, external: bool| {
            let mut manifest = manifest(&[0; 2]);
            manifest.config = format!("[transport]\nkind = \"{kind}\"\n");
            manifest.external = external.then(|| "profile".to_owned());
            let frames = EndCounts { sent: 0, received: 2558, dropped_out: 0, dropped_unread: 142 };
            manifest.host.insert(format!("device.{}", EndCounts::fact("server")), frames.to_string());
            manifest.host.extend(errors.map(|n| ("device.udp.checksum_errors".to_owned(), n.to_string())));
            let fault = Fault::FramesLost { end: "server".to_owned(), out: 0, before_read: 142 };
            manifest.validity.faults.push(Fault::InPart { part: "device".to_owned(), fault: Box::new(fault) });
            let mut found = Vec::new();
            look(&Evidence::of(std::path::Path::new(""), manifest), &mut found);
            found.iter().map(|found| (found.cause.code, found.certainty, found.explains)).collect::<Vec<_>>()
        };
        assert_eq!(of("udp", Some(142), false), []);
        assert_eq!(of("udp", Some(40), false), [("host_overrun", Certainty::Certain, 102)]);
        assert_eq!(of("udp", Some(0), true), [("host_overrun", Certainty::Certain, 142)]);
        assert_eq!(of("udp", Some(500), true), [("bad_checksum", Certainty::Likely, 142)]);
        // A socket of the device dropped frames on the same host, which counts the errors of both.
        let beside = |dropped: u64| {
            let mut manifest = manifest(&[0; 2]);
            manifest.config = "[transport]\nkind = \"udp\"\n".to_owned();
            for (part, end, dropped) in [("device", "device.down", 142), ("server", "server", dropped)] {
                let frames = EndCounts { sent: 0, received: 2558, dropped_out: 0, dropped_unread: dropped };
                manifest.host.insert(format!("{part}.{}", EndCounts::fact(end)), frames.to_string());
                manifest.host.insert(format!("{part}.udp.checksum_errors"), "142".to_owned());
                let fault = Fault::FramesLost { end: end.to_owned(), out: 0, before_read: dropped };
                manifest.validity.faults.push(Fault::InPart { part: part.to_owned(), fault: Box::new(fault) });
            }
            let mut found = Vec::new();
            look(&Evidence::of(std::path::Path::new(""), manifest), &mut found);
            found.iter().map(|found| (found.cause.code, found.certainty, found.explains)).collect::<Vec<_>>()
        };
        assert_eq!(beside(100), [("host_overrun", Certainty::Possible, 242)]);
        assert_eq!(beside(0), []);
        // Not counted by the run.
        assert_eq!(of("udp", None, false), [("host_overrun", Certainty::Possible, 142)]);
        assert_eq!(of("af_packet", None, false), [("host_overrun", Certainty::Certain, 142)]);
    }

    /// Frames that the server's socket dropped were updates, and no answers.
    #[test]
    fn what_the_server_dropped_excuses_no_lost_answers() {
        let answers_lost = |end: &str| {
            let mut manifest = manifest(&[0; 2]);
            (manifest.counters.acks_sent, manifest.counters.acks_received) = (9500, 8700);
            manifest.validity.faults.push(Fault::FramesLost { end: end.to_owned(), out: 0, before_read: 500 });
            let evidence = Evidence::of(std::path::Path::new(""), manifest);
            let found = crate::merging::answers(&evidence, LostOnLinks::NONE.and(dropped_on_way_back(&evidence)));
            found.map(|found| (found.cause.code, found.explains))
        };
        assert_eq!(["server", "workers"].map(answers_lost), [Some(("acks_lost", 800)), None]);
    }

    #[test]
    fn a_frame_that_socket_and_interface_count_is_lost_once() {
        let mut manifest = manifest(&[0; 2]);
        manifest.interfaces = vec![InterfaceCounts { rx_dropped: 500, ..at_workers("one", 0) }];
        let lost = Fault::FramesLost { end: "workers".to_owned(), out: 0, before_read: 500 };
        manifest.validity.faults.push(lost);
        assert_eq!(dropped_at(&Evidence::of(std::path::Path::new(""), manifest), "workers"), 500);
    }
}
