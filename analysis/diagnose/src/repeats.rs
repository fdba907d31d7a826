//! Sums by key: packets that were sent again, and which of them or of their answers are missing, by the captures of both ends; without
//! captures, frames that match nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;

use pktgen_core::Result;
use pktgen_core::record::{Fault, REQUESTS_RESENT, RESULTS_AGAIN, RESULTS_LATE};
use pktgen_wire::device::Address;
use pktgen_wire::pcap::{Packet, Reader};
use pktgen_wire::wire::Formats;
use pktgen_wire::wire::sight::{Datagram, Look, Sight, What, look};

use crate::cause::{
    ACKS_LOST, BITS_FLIPPED, BYTE_ORDER, COPIES, FIELD_CHANGED, HOST_LATE, PAYLOAD_CHANGED, REORDERED, RESULTS_LOST,
    RESULTS_TO_SOME, RESULTS_UNMATCHED,
};
use crate::counted::DOWN_TAKEN;
use crate::crossing::Odd;
use crate::evidence::Evidence;
use crate::finding::{CauseFound, Certainty, EvidenceItem};
use crate::frame::{Quick, digest};
use crate::known::{Known, PortsOnCable};
use crate::links::Balances;

/// Place of the workers' packets.
const TAP: &str = "tap of the workers";

/// Repetitions on wires about which nothing is said where no capture shows their reason: hosts are late now and then.
const FEW: u64 = 3;

/// Results of others by which a worker without any is conspicuous.
const RESULTS_MIN: u64 = 8;

/// The address of a worker, its job, and the number of a packet.
type Key = (u32, u16, u32);

/// A worker's packet, and what it was answered with.
#[derive(Default)]
struct Exchange {
    /// Transmissions at the workers, and those that came to the server.
    sent: u64,
    at_server: u64,
    /// Repetitions after an answer had come.
    needless: u64,
    /// Acknowledgements that left the server, and those that came to the worker.
    acks_left: u64,
    acks: u64,
    /// The same of results, with digests of those that left.
    results_left: Vec<u64>,
    results: u64,
    /// Place of the first repetition in the capture of the workers.
    repeated_at: u64,
}

/// What both captures show.
#[derive(Default)]
struct Exchanges {
    of: HashMap<Key, Exchange, Quick>,
    /// Acknowledgements of packets that the worker had not sent, or not so often.
    unasked: Odd,
    /// How often they came, by job and number.
    too_many: HashMap<(u16, u32), u64, Quick>,
    /// Datagrams with a port of the protocol that are none of its packets.
    unread: u64,
    /// Results of the server that came with a content that it did not send.
    changed: Odd,
    /// Results of the device that came as first transmissions to a worker or a group, and as repetitions to a worker.
    first: HashSet<Key, Quick>,
    again: HashMap<Key, (u64, u64), Quick>,
    /// The first transmissions, with digests of what they hold and the place where they came, and those that came there again.
    whole: HashSet<(Key, u64, u64), Quick>,
    copied: Odd,
}

/// The missing packets.
#[derive(Debug, Default, PartialEq, Eq)]
struct Missing {
    repeated: u64,
    /// Repetitions of packets of which every transmission was answered, after the timeout.
    late: u64,
    /// Transmissions to the device without an acknowledgement, with the first repetition.
    unanswered: Odd,
    /// Transmissions that left for the server and did not come there.
    to_server: Odd,
    /// Transmissions that came to the server, which did not answer them.
    refused: u64,
    /// Answers that left the server and did not come.
    from_server: u64,
    /// Acknowledgements too many that have the number of one that is missing at another worker, and those of numbers that no worker of the
    /// job sent.
    misdirected: u64,
    misnumbered: u64,
    /// Results of the device of which only a repetition came, and other results that it repeated.
    results: Odd,
    results_again: u64,
    /// Results of the device that came to others, by the worker that they did not come to.
    to_others: BTreeMap<u32, u64>,
    /// Workers that some result came to.
    reached: BTreeSet<u32>,
}

fn is_group(to: u32) -> bool {
    to >> 28 == 0xe
}

/// What a datagram is, and whether it is on its way to a worker; `None` if it is none of the protocol's.
fn sight(formats: Formats, ports: Option<PortsOnCable>, datagram: &Datagram) -> Option<(Sight, bool)> {
    if let Some((format, inside)) = ports.and_then(|ports| ports.inside(datagram)) {
        let (workers, _) = format.facts().ports?;
        return Some((format.sight(&inside)?, inside.dst_port == workers));
    }
    formats.iter().find_map(|format| {
        let (workers, receiver) = format.facts().ports?;
        let own = [workers, receiver].contains(&datagram.dst_port);
        Some((format.sight(datagram).filter(|_| own)?, datagram.dst_port == workers))
    })
}

/// Where a frame came: the interface, and the Ethernet address, by which a device may send a copy for each member of a group.
fn place(packet: &Packet) -> u64 {
    let station = packet.bytes.iter().take(6).fold(0u64, |station, byte| station << 8 | u64::from(*byte));
    u64::from(packet.interface) << 48 ^ station
}

/// Whether a datagram has a port of a protocol.
fn has_port(formats: Formats, ports: Option<PortsOnCable>, datagram: &Datagram) -> bool {
    let is_own = |(workers, receiver): (u16, u16)| {
        [datagram.src_port, datagram.dst_port].iter().any(|port| [workers, receiver].contains(port))
    };
    ports.is_some_and(|ports| ports.inside(datagram).is_some())
        || formats.iter().any(|format| format.facts().ports.is_some_and(is_own))
}

impl Exchanges {
    /// Reads what came to the server and left it, then what left the workers and came to them.
    fn read(workers: &Path, server: &Path, formats: Formats, ports: Option<PortsOnCable>) -> Result<Exchanges> {
        let mut all = Exchanges::default();
        for (path, at_server) in [(server, true), (workers, false)] {
            let (mut reader, mut number) = (Reader::open(path)?, 0);
            while let Some(packet) = reader.next()? {
                number += 1;
                let Look::Udp(datagram) = look(packet.link_type, packet.bytes) else { continue };
                let Some((sight, back)) = sight(formats, ports, &datagram) else {
                    all.unread += u64::from(has_port(formats, ports, &datagram));
                    continue;
                };
                match at_server {
                    true => all.at_server(&sight, &datagram, back),
                    false => all.at_workers(&sight, &datagram, back, (number, place(&packet))),
                }
            }
        }
        Ok(all)
    }

    fn at_server(&mut self, sight: &Sight, datagram: &Datagram, back: bool) {
        let host = if back { datagram.dst } else { datagram.src };
        let own = self.of.entry((host, sight.cluster, sight.seq)).or_default();
        match (sight.what, back) {
            (What::Update | What::Control, false) => own.at_server += 1,
            (What::Ack, true) => own.acks_left += 1,
            (What::Result, true) => own.results_left.push(digest(datagram.payload)),
            _ => {}
        }
    }

    fn at_workers(&mut self, sight: &Sight, datagram: &Datagram, back: bool, (number, place): (u64, u64)) {
        let key = (if back { datagram.dst } else { datagram.src }, sight.cluster, sight.seq);
        match (sight.what, back) {
            (What::Update | What::Control, false) => {
                let own = self.of.entry(key).or_default();
                own.sent += 1;
                if own.sent > 1 {
                    own.needless += u64::from(own.acks + own.results > 0);
                    own.repeated_at = if own.sent == 2 { number } else { own.repeated_at };
                }
            }
            // A request is answered with itself, and a repeated request again.
            (What::Ack | What::Control, true) => match self.of.get_mut(&key).filter(|own| own.acks < own.sent) {
                Some(own) => own.acks += 1,
                None => {
                    *self.too_many.entry((key.1, key.2)).or_default() += 1;
                    self.unasked.add(number, || {
                        format!("acknowledges packet {} to a worker that did not send it, or not so often", sight.seq)
                    });
                }
            },
            (What::Result, true) => match self.of.get_mut(&key).filter(|own| !own.results_left.is_empty()) {
                Some(own) => {
                    own.results += 1;
                    if !own.results_left.contains(&digest(datagram.payload)) {
                        self.changed.add(number, || {
                            format!("is the server's result {} and holds what the server did not send", sight.seq)
                        });
                    }
                }
                None if sight.attempt == 0 => {
                    let to = if is_group(key.0) { 0 } else { key.0 };
                    self.first.insert((to, key.1, key.2));
                    // What a device sends again has another attempt.
                    if !self.whole.insert((key, digest(datagram.payload), place)) {
                        self.copied.add(number, || format!("is the first transmission of result {} again", sight.seq));
                    }
                }
                None => self.again.entry(key).or_insert((number, 0)).1 += 1,
            },
            _ => {}
        }
    }

    fn missing(&self) -> Missing {
        let mut missing = Missing::default();
        let add = |odd: &mut Odd, frames: u64, at: u64| {
            odd.first = if odd.frames == 0 { at } else { odd.first.min(at) };
            odd.frames += frames;
        };
        let mut too_many = self.too_many.clone();
        let sent: HashSet<(u16, u32)> =
            self.of.iter().filter(|(_, own)| own.sent > 0).map(|((_, job, seq), _)| (*job, *seq)).collect();
        missing.misnumbered = too_many.iter().filter(|(id, _)| !sent.contains(*id)).map(|(_, n)| n).sum();
        for ((_, cluster, seq), own) in &self.of {
            let results_left = own.results_left.len() as u64;
            if results_left > 1 {
                missing.from_server += results_left.saturating_sub(own.results);
            }
            if own.sent < 2 {
                continue;
            }
            missing.repeated += own.sent - 1;
            let answers_left = own.acks_left.max(results_left);
            let refused = own.at_server.saturating_sub(answers_left);
            // A packet to the device may have been forwarded, once.
            let is_servers = answers_left > 0 || own.at_server > 0 && own.acks == 0;
            let (up, back) = match is_servers {
                true => (own.sent.saturating_sub(own.at_server), own.acks_left.saturating_sub(own.acks)),
                false => ((own.sent - own.acks).saturating_sub(refused), 0),
            };
            if up > 0 {
                let odd = if is_servers { &mut missing.to_server } else { &mut missing.unanswered };
                add(odd, up, own.repeated_at);
            }
            missing.from_server += back;
            missing.refused += refused;
            if let Some(left) = too_many.get_mut(&(*cluster, *seq)) {
                let placed = (up + back).min(*left);
                missing.misdirected += placed;
                *left -= placed;
            }
            if up + back + refused == 0 {
                missing.late += own.sent - 1 - own.needless;
            }
        }
        let mut only_again = BTreeMap::new();
        for ((to, cluster, seq), (number, frames)) in &self.again {
            if [0, *to].iter().any(|to| self.first.contains(&(*to, *cluster, *seq))) {
                missing.results_again += frames;
            } else {
                let first = only_again.entry((cluster, seq)).or_insert(*number);
                *first = (*first).min(*number);
            }
        }
        only_again.values().for_each(|number| add(&mut missing.results, 1, *number));
        self.to_others(&mut missing);
        missing
    }

    /// Finds workers that lack results which came to others of their job.
    fn to_others(&self, missing: &mut Missing) {
        let senders = self.of.iter().filter(|(_, own)| own.sent > 0);
        let workers: BTreeSet<_> = senders.map(|((host, cluster, _), _)| (*cluster, *host)).collect();
        let came: HashSet<&Key> = self.first.iter().chain(self.again.keys()).collect();
        let results: BTreeSet<_> = came.iter().map(|(_, cluster, seq)| (*cluster, *seq)).collect();
        for (cluster, seq) in results {
            for (_, host) in workers.range((cluster, 0)..=(cluster, u32::MAX)) {
                let has = [0, *host].iter().any(|to| came.contains(&(*to, cluster, seq)));
                if has {
                    missing.reached.insert(*host);
                }
                *missing.to_others.entry(*host).or_default() += u64::from(!has);
            }
        }
        missing.to_others.retain(|_, lacking| *lacking > 0);
    }
}

/// Finds packets and answers that were lost, where something was repeated, or that match nothing.
pub(crate) fn look_at(
    evidence: &Evidence,
    known: &Known,
    balances: &Balances,
    found: &mut Vec<CauseFound>,
    unknown: &mut Vec<String>,
) -> Result<()> {
    if evidence.has_faulty_links() {
        return Ok(());
    }
    let balance = &evidence.manifest.balance;
    let repeated = format!("{} of {} transmissions were repeated", balance.retransmitted, balance.sent);
    let (Some(workers), Some(server)) = (evidence.tap("workers"), evidence.tap("server")) else {
        unmatched(evidence, told(found), found);
        by_counters(evidence, &repeated, found, unknown);
        return Ok(());
    };
    let all = Exchanges::read(&workers, &server, known.formats, known.ports(evidence))?;
    let missing = all.missing();
    let before = told(found);
    // A frame with changed contents is one packet less, and no more than that.
    let changed = found.iter().filter(|found| [&BITS_FLIPPED, &BYTE_ORDER, &FIELD_CHANGED].contains(&found.cause));
    let changed = changed.map(|found| found.explains).sum::<u64>();
    let lost = Lost { missing: &missing, all: &all, balances, evidence };
    lost.look(before, changed.min(before), found);
    if missing.late > FEW.max(balance.sent / 100) && told(found) * 2 < missing.late {
        unknown.push(format!(
            "why {repeated}: every transmission of {} of these was acknowledged, but later than the timeout; the device or a host was late",
            missing.late
        ));
    }
    if missing.refused > 0 && told(found) * 2 < missing.refused {
        unknown.push(format!(
            "why {repeated}: {} of them came to the server, which did not take them; compare them in its capture with those of the workers",
            missing.refused
        ));
    }
    if missing.results_again > FEW.max(balance.sent / 100) && told(found) * 2 < missing.results_again {
        unknown.push(format!(
            "why the device sent {} results again that had left before: their acknowledgements were lost or late",
            missing.results_again
        ));
    }
    Ok(())
}

/// Finds frames of a device in virtual time that match nothing while workers wait; other causes explain `told` frames. On a cable, they may
/// belong to others.
fn unmatched(evidence: &Evidence, told: u64, found: &mut Vec<CauseFound>) {
    let frames = evidence.manifest.counters.foreign;
    let waits = evidence.faults().any(|fault| matches!(fault, Fault::Unfinished { .. }));
    if frames == 0 || !waits || evidence.is_real() {
        return;
    }
    let sums = evidence.manifest.unseen.as_ref().map_or(0, |unseen| unseen.checked_by_key + unseen.unchecked);
    let (certainty, lacks) = match sums {
        0 => (Certainty::Certain, "no sum of the device came"),
        _ if told > 0 => return,
        _ => (Certainty::Likely, "workers wait for results in vain"),
    };
    let says = format!("{frames} frames came that match no update or result of the run, and {lacks}");
    let proofs = vec![EvidenceItem::new("manifest.json, counters.foreign", says)];
    found.push(CauseFound::new(&RESULTS_UNMATCHED, certainty, frames, proofs));
}

/// Returns the number of transmissions and results that causes explain, but for copies, and hosts and frames that are late.
fn told(found: &[CauseFound]) -> u64 {
    let other = |found: &&CauseFound| ![&HOST_LATE, &COPIES, &REORDERED].contains(&found.cause);
    found.iter().filter(other).map(|found| found.explains).sum()
}

/// Without captures: what the balance and the counters of the workers show of repetitions, and what they leave open.
fn by_counters(evidence: &Evidence, repeated: &str, found: &mut Vec<CauseFound>, unknown: &mut Vec<String>) {
    let (balance, counters) = (&evidence.manifest.balance, &evidence.manifest.counters);
    let of = |name: &str| counters.device.get(name).copied().unwrap_or(0);
    let [requests, late, again] = [REQUESTS_RESENT, RESULTS_LATE, RESULTS_AGAIN].map(of);
    let told = told(found);
    let few = (balance.sent / 100).max(if evidence.is_real() { FEW } else { 0 });
    let is_open = |frames: u64| frames > few && told * 2 < frames;
    if is_open(balance.retransmitted + requests) {
        let requests = if requests > 0 { format!(", and {requests} of ends and pulls") } else { String::new() };
        unknown.push(format!(
            "why {repeated}{requests}: packets or their answers were lost or late, and no capture shows which; {}",
            evidence.next_step(false)
        ));
    }
    // Between a device in lockstep and its workers nothing is lost. Frames that match nothing may be the first transmissions.
    if evidence.is_lockstep() && counters.foreign == 0 {
        if late > 0 && told * 2 < late {
            let says = format!(
                "{late} results came to a worker only when they were sent again: their first transmissions did not come"
            );
            let proofs = vec![EvidenceItem::new(format!("manifest.json, counters.device, {RESULTS_LATE}"), says)];
            found.push(CauseFound::new(&RESULTS_LOST, Certainty::Certain, late, proofs));
        }
    } else if is_open(late) {
        unknown.push(format!(
            "why {late} results came to a worker only when they were sent again: their first transmissions were lost, or came in a form that \
             matches nothing; {}",
            evidence.next_step(false)
        ));
    }
    if is_open(again) {
        unknown.push(format!(
            "why the device sent {again} results again to workers that had them: their acknowledgements were lost or late; {}",
            evidence.next_step(false)
        ));
    }
}

/// What is missing, and by what it is judged.
struct Lost<'a> {
    missing: &'a Missing,
    all: &'a Exchanges,
    balances: &'a Balances,
    evidence: &'a Evidence,
}

impl Lost<'_> {
    /// Returns how certain it is that the device lost a frame: if nothing counts what it took and sent, a cable at it fits as well.
    fn certainty(&self) -> Certainty {
        if self.balances.nothing_known() { Certainty::Likely } else { Certainty::Certain }
    }

    /// Frames that came and were none of the run: in another form, or with numbers of none, and not of others.
    fn foreign(&self) -> u64 {
        let renumbered: u64 = self.all.of.values().filter(|own| own.sent == 0).map(|own| own.at_server).sum();
        self.evidence.manifest.counters.foreign.min(self.all.unread + renumbered)
    }

    /// `told` frames are explained by other causes, `changed` of them by changed contents.
    fn look(&self, told: u64, changed: u64, found: &mut Vec<CauseFound>) {
        let missing = self.missing;
        // What came with another number, to another worker or in another form is not lost.
        let strays = self.all.unasked.frames.max(self.foreign());
        let mut left = strays;
        let mut less_strays = |frames: u64| {
            let astray = frames.min(left);
            left -= astray;
            frames - astray
        };
        let unanswered = less_strays(missing.unanswered.frames);
        let to_server = less_strays(missing.to_server.frames);
        let results = less_strays(missing.results.frames);
        let from_server = less_strays(missing.from_server);
        let astray = strays - left;
        self.of_strays(astray, told, found);
        self.of_copies(if astray == 0 { self.all.unasked.frames } else { 0 }, told, found);
        let unlike = &self.all.changed;
        if unlike.frames > told * 2 {
            let says = format!("{}; {} such frames", unlike.says, unlike.frames);
            let proofs = vec![EvidenceItem::packet(TAP, unlike.first, says)];
            found.push(CauseFound::new(&PAYLOAD_CHANGED, Certainty::Certain, unlike.frames, proofs));
        }
        let limit = told * 2 - changed;
        let mut lost = self.contributions(unanswered, to_server);
        if results > 0 {
            let says = format!("repeats a result whose first transmission did not come; {results} such results");
            lost.push((results, EvidenceItem::packet(TAP, missing.results.first, says)));
        }
        lost.extend(self.of_others(strays + unlike.frames, found));
        let frames = lost.iter().map(|(frames, _)| frames).sum::<u64>();
        if frames > limit && !self.balances.lost_both_ways().may_explain(frames) {
            let taken = self.evidence.device(DOWN_TAKEN);
            let counter = taken.map(|(name, n)| EvidenceItem::new(format!("device counter {name}"), n.to_string()));
            let proofs = lost.into_iter().map(|(_, proof)| proof).chain(counter).collect();
            // What is certain replaces what was possible beside copies.
            found.retain(|found| found.cause != &RESULTS_LOST || found.certainty > Certainty::Possible);
            found.push(CauseFound::new(&RESULTS_LOST, self.certainty(), frames, proofs));
        }
        if from_server > limit && !self.balances.lost_back().may_explain(from_server) {
            let says = format!("{from_server} repeated answers left the server and did not come to the workers");
            let proofs = vec![EvidenceItem::new("taps of the server and of the workers", says)];
            // The counters may have shown some of them.
            found.retain(|found| found.cause != &ACKS_LOST);
            found.push(CauseFound::new(&ACKS_LOST, self.certainty(), from_server, proofs));
        }
    }

    /// Copies: so many of the acknowledgements, and first transmissions of results. They take the place of what the server's answers show at
    /// least.
    fn of_copies(&self, acks: u64, told: u64, found: &mut Vec<CauseFound>) {
        let Exchanges { unasked, copied, .. } = self.all;
        let results = if copied.frames > FEW { copied.frames } else { 0 };
        let frames = acks + results;
        let sure = |found: &&CauseFound| found.cause == &COPIES && found.certainty > Certainty::Possible;
        let known = found.iter().filter(sure).map(|found| found.explains).max();
        if known.map_or(frames <= told * 2, |known| known >= frames) {
            return;
        }
        let proofs = [(acks, unasked), (results, copied)].into_iter().filter(|(frames, _)| *frames > 0);
        let says = |odd: &Odd| format!("{}; {} such frames", odd.says, odd.frames);
        let proofs = proofs.map(|(_, odd)| EvidenceItem::packet(TAP, odd.first, says(odd))).collect();
        found.retain(|found| found.cause != &COPIES);
        found.push(CauseFound::new(&COPIES, Certainty::Certain, frames, proofs));
    }

    /// Acknowledgements that no worker asked for, of `astray` packets in the place of those that are missing; without any they are copies. Where
    /// only their number says so, both are possible, and that the missing ones are lost.
    fn of_strays(&self, astray: u64, told: u64, found: &mut Vec<CauseFound>) {
        let unasked = &self.all.unasked;
        let placed = self.missing.misnumbered + self.missing.misdirected;
        let mut add = |cause, certainty, frames: u64| {
            if frames <= told * 2 || found.iter().any(|found| found.cause == cause) {
                return;
            }
            let proof = match unasked.frames {
                0 => {
                    let foreign = self.foreign();
                    let says = format!("{foreign} frames came that are none of the run, and {astray} that are did not");
                    EvidenceItem::new("manifest.json, counters.foreign", says)
                }
                all => EvidenceItem::packet(TAP, unasked.first, format!("{}; {all} such frames", unasked.says)),
            };
            found.push(CauseFound::new(cause, certainty, frames, vec![proof]));
        };
        match (astray, unasked.frames) {
            (0, _) => {}
            (_, 0) => add(&RESULTS_UNMATCHED, Certainty::Likely, astray),
            (_, _) if astray <= placed => add(&RESULTS_UNMATCHED, Certainty::Certain, astray),
            (_, frames) => {
                add(&RESULTS_UNMATCHED, Certainty::Possible, astray);
                add(&COPIES, Certainty::Possible, frames);
                add(&RESULTS_LOST, Certainty::Possible, astray);
            }
        }
    }

    /// Contributions that were repeated because they or their acknowledgements are missing.
    fn contributions(&self, unanswered: u64, to_server: u64) -> Vec<(u64, EvidenceItem)> {
        let missing = self.missing;
        let mut lost = Vec::new();
        if unanswered > 0 {
            let place = if self.certainty() == Certainty::Certain { "in it" } else { "in it or on a cable at it" };
            let says = format!(
                "is repeated; {unanswered} transmissions to the device were never acknowledged: they or their acknowledgements are lost {place}"
            );
            lost.push((unanswered, EvidenceItem::packet(TAP, missing.unanswered.first, says)));
        }
        if to_server > 0 {
            let says = format!("is repeated; {to_server} transmissions to the server did not come there");
            lost.push((to_server, EvidenceItem::packet(TAP, missing.to_server.first, says)));
        }
        lost
    }

    /// Results that never came to some workers: to those that had none, or now and then. `odd` others came to single workers.
    fn of_others(&self, odd: u64, found: &mut Vec<CauseFound>) -> Option<(u64, EvidenceItem)> {
        let Missing { to_others, reached, .. } = self.missing;
        let told = |hosts: &[(&u32, &u64)]| {
            let lacking = hosts.iter().map(|(_, lacking)| **lacking).sum::<u64>();
            let names: Vec<_> = hosts.iter().map(|(host, _)| Address(**host).to_string()).collect();
            let says = format!("{lacking} results that came to others of the job never came to {}", names.join(", "));
            (lacking > odd * 2).then(|| (lacking, EvidenceItem::new(TAP, says)))
        };
        let (without, others): (Vec<_>, Vec<_>) =
            to_others.iter().partition(|(host, lacking)| **lacking >= RESULTS_MIN && !reached.contains(host));
        if let Some((lacking, proof)) = told(&without) {
            found.push(CauseFound::new(&RESULTS_TO_SOME, Certainty::Certain, lacking, vec![proof]));
        }
        told(&others)
    }
}

#[cfg(test)]
#[path = "repeats_tests.rs"]
mod tests;
