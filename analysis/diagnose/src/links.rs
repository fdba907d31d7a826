//! Balances of the links at the device: what one end of each link counted as sent and the other as received; and the
//! device's own balance of received frames and their ends. If an end has no counter, the link is not judged.

use pktgen_core::record::{Family, InterfaceCounts};

use crate::cause::{COPIES, DEVICE_DROPS, DEVICE_ENDED, HOST_LATE, HOST_OVERRUN, LINK_LOST, NO_CARRIER};
use crate::counted::{DOWN_GIVEN, DOWN_TAKEN, DROPS, ENDS, ONE_GIVEN, OVERRUN, UP_GIVEN, UP_TAKEN};
use crate::evidence::Evidence;
use crate::finding::{CauseFound, Certainty, EvidenceItem};
use crate::sockets::{self, SocketCounts};

/// Number of frames lost on a link that may result from reading counters at different times.
const FEW: u64 = 3;

/// The count of an end.
#[derive(Clone)]
struct Count {
    at: String,
    frames: u64,
    /// Whether it is the run's, and not a counter of the device.
    is_of_run: bool,
    /// Frames that the run handed over there, or that its only interface or process there read; `None` if that was not counted.
    proven: Option<u64>,
}

/// A direction of a link at the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    FromWorkers,
    ToServer,
    FromServer,
    ToWorkers,
}

impl Way {
    const fn name(self) -> &'static str {
        match self {
            Way::FromWorkers => "from the workers to the device",
            Way::ToServer => "from the device to the server",
            Way::FromServer => "from the server to the device",
            Way::ToWorkers => "from the device to the workers",
        }
    }

    /// Returns the ends that send and that receive.
    const fn ends(self) -> [&'static str; 2] {
        match self {
            Way::FromWorkers => ["workers", "device.down"],
            Way::ToServer => ["device.up", "server"],
            Way::FromServer => ["server", "device.up"],
            Way::ToWorkers => ["device.down", "workers"],
        }
    }
}

/// A link in one direction.
struct Link {
    way: Way,
    given: Option<Count>,
    taken: Option<Count>,
}

impl Link {
    fn lost(&self) -> Option<u64> {
        Some(self.given.as_ref()?.frames.saturating_sub(self.taken.as_ref()?.frames))
    }

    /// Returns the frames that were read beyond those that were handed over, with what says so; `None` if they may be few.
    fn copied(&self) -> Option<(u64, EvidenceItem)> {
        let (given, taken) = (self.given.as_ref()?, self.taken.as_ref()?);
        let (sent, read) = (given.proven?, taken.proven?);
        let more = read.saturating_sub(sent);
        let says = format!("{read} frames came, {more} more than were sent: {}", taken.at);
        let at = format!("link {}; {}", self.way.name(), given.at);
        (more > FEW.max(sent / 1000)).then(|| (more, EvidenceItem::new(at, says)))
    }
}

/// Frames lost on links, as shown by counters of their ends. `None`: the experiment makes links lose frames, and nothing counts how many.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LostOnLinks(Option<u64>);

impl LostOnLinks {
    pub(crate) const NONE: LostOnLinks = LostOnLinks(Some(0));

    /// Adds `more` frames that were lost elsewhere outside the device.
    pub(crate) fn and(self, more: u64) -> LostOnLinks {
        LostOnLinks(self.0.map(|frames| frames.saturating_add(more)))
    }

    /// Returns the transmissions that workers repeat without them, if `workers` workers wait for each of these frames.
    pub(crate) fn times(self, workers: u64) -> LostOnLinks {
        LostOnLinks(self.0.map(|frames| frames.saturating_mul(workers)))
    }

    /// Whether these may be half of `missing` frames or more.
    pub(crate) fn may_explain(self, missing: u64) -> bool {
        self.0.is_none_or(|frames| frames.saturating_mul(2) >= missing)
    }

    /// Returns how many of `missing` frames are more than these.
    pub(crate) fn unexplained(self, missing: u64) -> u64 {
        self.0.map_or(0, |frames| missing.saturating_sub(frames))
    }
}

/// All balances.
pub(crate) struct Balances {
    links: Vec<Link>,
    /// Set if the device counted more than was sent to it.
    other_span: Option<String>,
    /// Whether links are as faulty as the experiment specifies.
    faulty: bool,
}

/// Returns the counts of an end over all hosts with interfaces there. Others may use these, so the run's own count is a limit.
fn of_interfaces(
    evidence: &Evidence,
    end: &str,
    what: &str,
    frames: impl Fn(&InterfaceCounts) -> u64,
) -> Option<Count> {
    evidence.interface(end)?;
    let all = || evidence.manifest.interfaces.iter().filter(|counts| counts.end == end);
    let names: Vec<_> = all().map(|counts| counts.interface.as_str()).collect();
    let at = format!("interface {}, {what}", names.join(", "));
    Some(Count { at, frames: all().map(frames).sum(), is_of_run: true, proven: None })
}

/// Returns the counts of an end over all processes with sockets there, if all that came was read.
fn of_sockets(evidence: &Evidence, end: &str, what: &str, frames: impl Fn(&SocketCounts) -> u64) -> Option<Count> {
    let counts = sockets_of(evidence, end)?;
    Some(Count { at: format!("socket of {end}, {what}"), frames: frames(&counts), is_of_run: true, proven: None })
}

/// Returns the counts of the sockets of an end, if all that came was read.
fn sockets_of(evidence: &Evidence, end: &str) -> Option<SocketCounts> {
    let is_counted = sockets::are_datagrams(evidence) && sockets::read_all(evidence);
    is_counted.then(|| SocketCounts::of(evidence, end)).flatten()
}

/// Returns the frames that the run handed over at an end, whatever became of them.
fn handed_over(evidence: &Evidence, end: &str) -> Option<u64> {
    let all = || evidence.manifest.interfaces.iter().filter(|counts| counts.end == end);
    if all().next().is_none() {
        return Some(sockets_of(evidence, end)?.handed_over);
    }
    all().map(|counts| counts.sent).sum()
}

/// Returns the frames that the run read at the only interface, or in the only process, of an end: frames to a group come to each of several.
fn read_at(evidence: &Evidence, end: &str) -> Option<u64> {
    let all = || evidence.manifest.interfaces.iter();
    let Some(own) = all().find(|counts| counts.end == end) else {
        let counts = sockets_of(evidence, end)?;
        return (counts.processes == 1).then_some(counts.received);
    };
    let shares = |other: &&InterfaceCounts| other.interface == own.interface && other.part == own.part;
    let is_only = all().filter(|other| other.end == end || shares(other)).count() == 1;
    is_only.then_some(own.received)
}

/// Returns the frames that the run sent there.
fn sent_by(evidence: &Evidence, end: &str) -> Option<Count> {
    let count = of_interfaces(evidence, end, "sent", InterfaceCounts::sent_of_run)
        .or_else(|| of_sockets(evidence, end, "sent", |counts| counts.sent))?;
    Some(Count { proven: handed_over(evidence, end), ..count })
}

/// Returns the frames that arrived at the host, whether useful or not.
fn came_to(evidence: &Evidence, end: &str) -> Option<Count> {
    // What another device sent with a wrong checksum arrived.
    let whole = evidence.manifest.external.is_none();
    let count = of_interfaces(evidence, end, "received", |counts| counts.came() + counts.rx_dropped + counts.rx_errors)
        .or_else(|| of_sockets(evidence, end, "received", |counts| counts.arrived(whole)))?;
    Some(Count { proven: read_at(evidence, end), ..count })
}

fn of_device(evidence: &Evidence, names: &[&'static str]) -> Option<Count> {
    let (name, frames) = evidence.device(names)?;
    Some(Count { at: format!("device counter {name}"), frames, is_of_run: false, proven: None })
}

/// Adds frames that the device's ports dropped to those that it received, as far as the other end sent more: they had reached the device. One
/// counter is of both ports, so it fills the gap at the workers' side first, and what is left fills that at the server's.
fn add_overrun(links: &mut [Link], mut overrun: u64) {
    for way in [Way::FromWorkers, Way::FromServer] {
        let Some(link) = links.iter_mut().find(|link| link.way == way) else { continue };
        let reached = link.lost().unwrap_or(0).min(overrun);
        overrun -= reached;
        if let Some(taken) = &mut link.taken {
            taken.frames += reached;
        }
    }
}

impl Balances {
    pub(crate) fn of(evidence: &Evidence) -> Balances {
        // A software device of this project, in this run or in a part of it, has interfaces of its own.
        let taken = |end: &str, names| came_to(evidence, end).or_else(|| of_device(evidence, names));
        let given = |end: &str, names| sent_by(evidence, end).or_else(|| of_device(evidence, names));
        let overrun = evidence.device(OVERRUN).map_or(0, |(_, frames)| frames);
        let mut links = vec![Link {
            way: Way::FromWorkers,
            given: sent_by(evidence, "workers"),
            taken: taken("device.down", DOWN_TAKEN),
        }];
        if evidence.has_server() {
            let way = Way::ToServer;
            links.push(Link { way, given: given("device.up", UP_GIVEN), taken: came_to(evidence, "server") });
            let way = Way::FromServer;
            let taken_back = taken("device.up", UP_TAKEN);
            links.push(Link { way, given: sent_by(evidence, "server"), taken: taken_back });
            let way = Way::ToWorkers;
            let taken = came_to(evidence, "workers");
            links.push(Link { way, given: given("device.down", DOWN_GIVEN), taken });
        } else {
            let given = given("device.down", ONE_GIVEN);
            links.push(Link { way: Way::ToWorkers, given, taken: came_to(evidence, "workers") });
        }
        add_overrun(&mut links, overrun);
        let mut balances = Balances { links, other_span: None, faulty: evidence.has_faulty_links() };
        balances.leave_out_other_spans();
        balances
    }

    /// Discards counters of a device that received more than was sent to it: they include another time or other traffic. The counts of a
    /// software device are of this run alone.
    fn leave_out_other_spans(&mut self) {
        let more = |link: &&Link| match (&link.given, &link.taken) {
            (Some(given), Some(taken)) if !taken.is_of_run => {
                taken.frames > given.frames.saturating_add(FEW.max(given.frames / 100))
            }
            _ => false,
        };
        let to_device = |link: &&Link| matches!(link.way, Way::FromWorkers | Way::FromServer);
        let Some(link) = self.links.iter().filter(to_device).find(more) else { return };
        let (Some(given), Some(taken)) = (&link.given, &link.taken) else { return };
        self.other_span = Some(format!(
            "what was lost at the device: it took more than was sent ({}: {}, {}: {}), so its counters are of another time or of other \
             traffic, too, or frames came to it more than once; read them before and after this run alone",
            taken.at, taken.frames, given.at, given.frames
        ));
        self.links.clear();
    }

    /// Finds links that lost frames.
    pub(crate) fn look(&self, evidence: &Evidence, found: &mut Vec<CauseFound>) {
        // In lockstep, nothing is lost unnoticed between the ports and the run.
        if evidence.is_lockstep() {
            let inner = (!evidence.is_results() && !evidence.forwards()).then(|| inner(evidence)).flatten();
            return found.extend(inner);
        }
        // A cable or device that disappeared takes its counters along.
        let gone = |found: &CauseFound| {
            [&NO_CARRIER, &DEVICE_ENDED].contains(&found.cause) && found.certainty == Certainty::Certain
        };
        if found.iter().any(gone) {
            return;
        }
        // Of links whose sockets were open throughout, and of others.
        let (mut proofs, mut late) = (Vec::new(), Vec::new());
        let (mut all, mut all_late, mut sure) = (0u64, 0u64, false);
        for link in &self.links {
            let (Some(lost), Some(given), Some(taken)) = (link.lost(), &link.given, &link.taken) else { continue };
            // A device that received nothing was never reached.
            if lost == 0 || taken.frames == 0 && link.way == Way::FromWorkers {
                continue;
            }
            let says = format!("{lost} of {} frames did not come: {} counted {}", given.frames, taken.at, taken.frames);
            let proof = EvidenceItem::new(format!("link {}; {}", link.way.name(), given.at), says);
            if sockets::may_have_closed(evidence, link.way.ends()) {
                all_late = all_late.saturating_add(lost);
                late.push(proof);
                continue;
            }
            all = all.saturating_add(lost);
            sure |= lost > FEW.max(given.frames / 1000);
            proofs.push(proof);
        }
        if all_late > 0 {
            let says = "they may have come when the socket was closed; raise it, and run again".to_owned();
            late.push(EvidenceItem::new("transport.linger", says));
            found.push(CauseFound::new(&LINK_LOST, Certainty::Possible, all_late, late));
        }
        if all > 0 {
            let certainty = if sure { Certainty::Certain } else { Certainty::Possible };
            found.push(CauseFound::new(&LINK_LOST, certainty, all, proofs));
        }
        if !evidence.is_results() && !evidence.forwards() && !self.links.is_empty() {
            found.extend(inner(evidence));
        }
    }

    /// Finds links that passed frames more than once, if rows do not show it: contributions that a device rejects, answers and results of
    /// which there are no rows. Frames of others may be among those that came.
    pub(crate) fn copied(&self, evidence: &Evidence, found: &mut Vec<CauseFound>) {
        if found.iter().any(|found| found.cause == &COPIES) {
            return;
        }
        let (frames, proofs): (Vec<u64>, Vec<_>) = self.links.iter().filter_map(Link::copied).unzip();
        let all = frames.into_iter().fold(0, u64::saturating_add);
        if all > 0 {
            let certainty = if all > unmatched(evidence) { Certainty::Certain } else { Certainty::Possible };
            found.push(CauseFound::new(&COPIES, certainty, all, proofs));
        }
    }

    /// Whether both ends of a link have a counter.
    fn known(&self, way: Way) -> bool {
        self.links.iter().any(|link| link.way == way && link.lost().is_some())
    }

    fn lost_on(&self, ways: &[Way]) -> LostOnLinks {
        let of_ways = self.links.iter().filter(|link| ways.contains(&link.way));
        LostOnLinks((!self.faulty).then(|| of_ways.filter_map(Link::lost).fold(0, u64::saturating_add)))
    }

    /// Returns the frames lost on links in the direction of updates.
    pub(crate) fn lost_forward(&self) -> LostOnLinks {
        self.lost_on(&[Way::FromWorkers, Way::ToServer])
    }

    /// Returns the frames lost on links on the way back.
    pub(crate) fn lost_back(&self) -> LostOnLinks {
        self.lost_on(&[Way::FromServer, Way::ToWorkers])
    }

    /// Returns the frames lost on links in both directions.
    pub(crate) fn lost_both_ways(&self) -> LostOnLinks {
        self.lost_on(&[Way::FromWorkers, Way::ToServer, Way::FromServer, Way::ToWorkers])
    }

    /// Describes what was not counted, and which counters would show it.
    pub(crate) fn unknown(&self, evidence: &Evidence, found: &[CauseFound]) -> Vec<String> {
        if let Some(why) = &self.other_span {
            return vec![why.clone()];
        }
        let external = evidence.manifest.external.is_some();
        let balance = &evidence.manifest.balance;
        let mut all = Vec::new();
        let merges = !evidence.is_results() && !evidence.forwards() && evidence.manifest.family() != Family::Pairs;
        if external && merges && balance.unaccounted > 0 {
            let of = format!("{} of {} transmissions are unaccounted for", balance.unaccounted, balance.sent);
            if !self.known(Way::ToServer) && !evidence.is_lockstep() {
                all.push(format!(
                    "whether all that the device sent came to the server: {of}, and nothing counts what it sent there; {}: received, sent, \
                     merged, replaced, dropped",
                    evidence.have_counted()
                ));
            } else if evidence.device(&["merged"]).is_none() && counted_drops(evidence) < balance.unaccounted {
                all.push(format!(
                    "what became of the updates that the device took and did not send: {of}; have it count what it merged, replaced and dropped \
                     (merged, replaced, full, dropped)"
                ));
            }
        }
        let lost_on_the_way = |found: &&CauseFound| {
            let of = [
                "dropped_at_random",
                "dropped_by_count",
                "dropped_in_bursts",
                "rate_limited",
                "results_lost",
                "acks_lost",
            ];
            of.contains(&found.cause.code)
        };
        let blamed = [&HOST_OVERRUN, &HOST_LATE, &LINK_LOST];
        let explained = found.iter().any(|found| blamed.contains(&found.cause));
        let nothing_known = external && !evidence.is_lockstep() && self.nothing_known();
        if let Some(first) = found.iter().find(lost_on_the_way).filter(|_| nothing_known && !explained) {
            all.push(format!(
                "whether the device or a cable at it loses frames ({}): nothing counts what the device took and sent; {}",
                first.cause.code,
                evidence.have_counted()
            ));
        }
        all
    }

    /// Whether no link has a counter at both ends.
    pub(crate) fn nothing_known(&self) -> bool {
        self.links.iter().all(|link| link.lost().is_none())
    }
}

/// Returns the number of frames of a run that match nothing of it, or that its device could not read.
fn unmatched(evidence: &Evidence) -> u64 {
    let dropped = &evidence.manifest.balance.dropped;
    let unread = ["malformed", "unknown_source", "unknown_job"].into_iter().filter_map(|reason| dropped.get(reason));
    unread.fold(evidence.manifest.counters.foreign, |all, frames| all.saturating_add(*frames))
}

/// Returns the number of frames that the device itself lost, by its counters.
fn counted_drops(evidence: &Evidence) -> u64 {
    DROPS
        .iter()
        .filter_map(|name| evidence.device(&[*name]))
        .fold(0, |all, (_, frames)| u64::saturating_add(all, frames))
}

/// Compares what a merging device received with the ends of these frames by its own counters.
fn inner(evidence: &Evidence) -> Option<CauseFound> {
    let count = |name: &'static str| evidence.device(&[name]).filter(|(_, frames)| *frames > 0);
    let own: Vec<_> = DROPS.iter().filter_map(|name| count(name)).collect();
    let dropped = counted_drops(evidence);
    let mut proofs: Vec<_> = own
        .iter()
        .map(|(name, frames)| EvidenceItem::new(format!("device counter {name}"), format!("{frames} frames")))
        .collect();
    let (taken, given) = (evidence.device(DOWN_TAKEN)?.1, evidence.device(UP_GIVEN)?.1);
    let merged = evidence.device(&["merged"]);
    // Counters may come from a file of the device: their sums have no bound.
    let ended = ENDS.iter().filter_map(|name| count(name)).fold(0, |all, (_, frames)| u64::saturating_add(all, frames));
    // A switch that sums by key consumes end markers and acknowledgements, which are not counted.
    let merged = merged.filter(|_| evidence.manifest.family() != Family::Pairs);
    let known = |merged| [given, merged, ended, dropped].into_iter().fold(0, u64::saturating_add);
    let gap = merged.map_or(0, |(_, merged)| taken.saturating_sub(known(merged)));
    let odd = gap > FEW.max(taken / 200);
    if odd {
        let says =
            format!("it took {taken}, sent {given} and accounts for {} more: {gap} are missing", taken - given - gap);
        proofs.push(EvidenceItem::new("device counters", says));
    }
    let lost = dropped.saturating_add(if odd { gap } else { 0 });
    let certainty = if dropped > 0 { Certainty::Certain } else { Certainty::Likely };
    (lost > 0).then(|| CauseFound::new(&DEVICE_DROPS, certainty, lost, proofs))
}

#[cfg(test)]
mod tests {
    use pktgen_core::record::{EndCounts, Fault};

    use super::*;
    use crate::evidence::manifest;

    #[test]
    fn frames_that_the_ports_of_the_device_dropped_explain_one_gap() {
        let balances = |overrun: u64, received: u64, back_received: u64| {
            let mut manifest = manifest(&[0; 2]);
            let counted = [("overrun", overrun), ("received", received), ("back_received", back_received)];
            manifest.counters.device.extend(counted.map(|(name, frames)| (name.to_owned(), frames)));
            let at = |end: &str, frames| InterfaceCounts {
                end: end.to_owned(),
                interface: end.to_owned(),
                sent: Some(frames),
                tx_packets: frames,
                ..InterfaceCounts::default()
            };
            manifest.interfaces = vec![at("workers", 100_000), at("server", 5000)];
            let evidence = Evidence::of(std::path::Path::new(""), manifest);
            let balances = Balances::of(&evidence);
            let mut found = Vec::new();
            balances.look(&evidence, &mut found);
            let lost: Vec<_> = balances.links.iter().filter_map(Link::lost).collect();
            (lost, found.len(), balances.other_span)
        };
        assert_eq!(balances(1000, 99_000, 5000), (vec![0, 0], 0, None));
        // The rest is of the server's port, and no frame explains two gaps.
        assert_eq!(balances(1000, 99_400, 4600), (vec![0, 0], 0, None));
        assert_eq!(balances(1000, 99_400, 4500), (vec![0, 100], 1, None));
        // Without a gap, the counters are right as they are.
        assert_eq!(balances(1000, 100_000, 5000), (vec![0, 0], 0, None));
        let (lost, _, other_span) = balances(0, 120_000, 5000);
        assert!(lost.is_empty() && other_span.is_some_and(|why| why.contains("took more than was sent")));
    }

    /// Evidence of a run of ATP with these interfaces: their ends, and the frames that they sent and received.
    fn of_atp(interfaces: &[(&str, u64, u64)], external: bool) -> Evidence {
        let mut manifest = manifest(&[0; 2]);
        manifest.family = Some(Family::Results);
        manifest.clocks.insert("sent.t_sent_ps".to_owned(), "monotonic".to_owned());
        if external {
            manifest.external = Some("profile".to_owned());
            let counted = [("received", 33_940), ("sent", 11_483)];
            manifest.counters.device.extend(counted.map(|(name, frames)| (name.to_owned(), frames)));
        }
        let at = |(end, sent, received): &(&str, u64, u64)| InterfaceCounts {
            end: (*end).to_owned(),
            interface: (*end).to_owned(),
            sent: Some(*sent),
            received: *received,
            tx_packets: *sent,
            rx_packets: *received,
            ..InterfaceCounts::default()
        };
        manifest.interfaces = interfaces.iter().map(at).collect();
        Evidence::of(std::path::Path::new(""), manifest)
    }

    type Causes = Vec<(&'static str, Certainty, u64)>;

    /// Causes of this run: of frames that links lost, and of those that came more than once.
    fn balanced(evidence: &Evidence) -> [Causes; 2] {
        let balances = Balances::of(evidence);
        let (mut lost, mut copied) = (Vec::new(), Vec::new());
        balances.look(evidence, &mut lost);
        balances.copied(evidence, &mut copied);
        assert!(balances.other_span.is_none());
        let of = |found: &CauseFound| (found.cause.code, found.certainty, found.explains);
        [lost, copied].map(|found| found.iter().map(of).collect())
    }

    #[test]
    fn copies_on_a_cable_of_our_own_device_hide_no_losses_of_others() {
        let lost = vec![("link_lost", Certainty::Certain, 103)];
        let copies = |certainty| vec![("copies", certainty, 555)];
        let device = [("device.down", 8301, 33_855), ("device.up", 11_000, 8301)];
        let all = [("workers", 33_300, 8301), device[0], device[1], ("server", 8301, 10_897)];
        let mut evidence = of_atp(&all, false);
        assert_eq!(balanced(&evidence), [lost.clone(), copies(Certainty::Certain)]);
        // They may be of others.
        evidence.manifest.counters.foreign = 555;
        assert_eq!(balanced(&evidence), [lost.clone(), copies(Certainty::Possible)]);
        evidence.manifest.counters.foreign = 0;
        // Frames to a group come to every interface of the workers, and a socket may see those of another on its interface.
        evidence.manifest.interfaces[1].interface = "device.up".to_owned();
        assert_eq!(balanced(&evidence), [lost, Vec::new()]);
        let mut evidence = of_atp(&[("workers", 9000, 4000), ("device.down", 4000, 9000), ("workers", 0, 4000)], false);
        assert_eq!(balanced(&evidence), [Vec::new(), Vec::new()]);
        // The copies are among the rows.
        evidence = of_atp(&all, false);
        let mut found = vec![CauseFound::new(&COPIES, Certainty::Certain, 9, Vec::new())];
        Balances::of(&evidence).copied(&evidence, &mut found);
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn the_links_of_a_server_are_balanced_where_results_come_back() {
        let lost = |interfaces: &[(&str, u64, u64)], external| {
            let [lost, _] = balanced(&of_atp(interfaces, external));
            lost
        };
        let with_server = |received: u64| {
            let device = [("device.down", 8357, 33_940), ("device.up", 11_483, 8352)];
            [("workers", 33_940, 8357), device[0], device[1], ("server", 8357, received)]
        };
        assert_eq!(lost(&with_server(11_254), false), [("link_lost", Certainty::Certain, 229 + 5)]);
        assert_eq!(lost(&with_server(11_483), false), [("link_lost", Certainty::Possible, 5)]);
        // What a device sent to the server is not compared with what came to the workers.
        let ends = |received: u64| [("workers", 33_940, 8357), ("server", 8357, received)];
        assert_eq!(lost(&ends(11_483), true), []);
        assert_eq!(lost(&ends(11_254), true), [("link_lost", Certainty::Certain, 229)]);
        // Without a server the device has one port.
        assert_eq!(lost(&[("workers", 33_940, 8357)], true), [("link_lost", Certainty::Certain, 11_483 - 8357)]);
    }

    /// Causes of a finished run over sockets, whose ends sent and received and dropped so many frames, with so many checksum errors.
    fn over_sockets(ends: [[u64; 3]; 4], errors: u64, faults: &[Fault]) -> Vec<(&'static str, Certainty, u64, String)> {
        let mut manifest = manifest(&[0; 2]);
        manifest.config = "[target]\nprogram = \"forward\"\n[transport]\nkind = \"udp\"\n".to_owned();
        manifest.clocks.insert("sent.t_sent_ps".to_owned(), "monotonic".to_owned());
        manifest.validity.faults = faults.to_vec();
        let names = [("workers", "workers"), ("device", "device.down"), ("device", "device.up"), ("server", "server")];
        for ((part, end), [sent, received, dropped]) in names.into_iter().zip(ends) {
            let says = EndCounts { sent, received, dropped_out: 0, dropped_unread: dropped }.to_string();
            manifest.host.insert(format!("{part}.{}", EndCounts::fact(end)), says);
            manifest.host.insert(format!("{part}.udp.checksum_errors"), errors.to_string());
        }
        let evidence = Evidence::of(std::path::Path::new(""), manifest);
        let mut found = Vec::new();
        Balances::of(&evidence).look(&evidence, &mut found);
        let of = |found: &CauseFound| (found.cause.code, found.certainty, found.explains, found.proofs[0].at.clone());
        found.iter().map(of).collect()
    }

    #[test]
    fn links_between_sockets_are_balanced_by_the_counts_of_the_run() {
        let ends = |at_device: u64, back: u64, damaged: u64| {
            let (up, down) = (2700 - 128, 2700);
            match at_device {
                0 => [[down, up, 0], [up, down, 0], [down, up, 0], [down, down, 0]],
                _ => [[down, at_device, 0], [back, at_device, damaged], [at_device, back, 0], [back, at_device, 0]],
            }
        };
        let lost = |way: &str, frames: u64| vec![("link_lost", Certainty::Certain, frames, way.to_owned())];
        let back = lost("link from the server to the device; socket of server, sent", 128);
        assert_eq!(over_sockets(ends(0, 0, 0), 0, &[]), back);
        let forth = "link from the workers to the device; socket of workers, sent";
        assert_eq!(over_sockets(ends(2572, 2572, 0), 0, &[]), lost(forth, 128));
        // What a cable damaged did not arrive; what a socket had no room for did.
        assert_eq!(over_sockets(ends(2558, 2558, 142), 142, &[]), lost(forth, 142));
        assert_eq!(over_sockets(ends(2558, 2558, 142), 0, &[]), []);
        // Answers may have come after the workers ended.
        let late = [[2700, 2600, 0], [2700, 2700, 0], [2700, 2700, 0], [2700, 2700, 0]];
        let way = "link from the device to the workers; socket of device.down, sent".to_owned();
        assert_eq!(over_sockets(late, 0, &[]), [("link_lost", Certainty::Possible, 100, way)]);
        // Sockets of a run that ended early hold what was not read.
        let failed = Fault::RoleFailed { why: "no route".to_owned() };
        assert_eq!(over_sockets(ends(2572, 2572, 0), 0, &[failed]), []);
    }

    /// Evidence of a device that took 720 updates and sent 641, with more counters.
    fn counted(more: &[(&str, u64)]) -> Evidence {
        let mut manifest = manifest(&[0; 2]);
        let counted = [("received", 720), ("sent", 641)].iter().chain(more);
        manifest.counters.device.extend(counted.map(|(name, frames)| ((*name).to_owned(), *frames)));
        Evidence::of(std::path::Path::new(""), manifest)
    }

    #[test]
    fn counters_without_bound_are_no_gap() {
        let lost = |more: &[(&str, u64)]| inner(&counted(more)).map(|found| (found.certainty, found.explains));
        assert_eq!(lost(&[("merged", 0)]), Some((Certainty::Likely, 79)));
        assert_eq!(lost(&[("merged", u64::MAX)]), None);
        assert_eq!(lost(&[("merged", 9), ("full", u64::MAX), ("replaced", 9)]), None);
        assert_eq!(lost(&[("merged", 0), ("dropped", u64::MAX), ("lost", 1)]), Some((Certainty::Certain, u64::MAX)));
    }

    #[test]
    fn drops_that_the_device_counted_need_no_further_counter() {
        let asked = |more: &[(&str, u64)]| {
            let mut evidence = counted(more);
            // In lockstep: links need no counters.
            evidence.manifest.external = Some("profile".to_owned());
            (evidence.manifest.balance.sent, evidence.manifest.balance.unaccounted) = (720, 79);
            let says = |why: &String| why.contains("what became of the updates");
            Balances::of(&evidence).unknown(&evidence, &[]).iter().any(says)
        };
        assert!(asked(&[]) && asked(&[("dropped", 40)]));
        assert!(!asked(&[("dropped", 79)]) && !asked(&[("dropped", 70), ("lost", 9)]));
    }
}
