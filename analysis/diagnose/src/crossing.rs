//! Compares two captures of the same frames, before and after the device: which frames arrived unchanged, and how the others differ.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use pktgen_core::Result;
use pktgen_wire::pcap::Reader;

use crate::answers::{AnswersCame, AnswersLeft, OddAnswers, of_group};
use crate::digests::Digests;
use crate::frame::{Datagram, Quick, content, digest, dotted, is_fragment};
use crate::kept::Kept;
use crate::known::Addressed;
use crate::stations::Stations;

/// Maximum numbers of whole frames stored for comparison: arrived and missing ones.
const CAME_MAX: usize = 64;
const MISSING_MAX: usize = 4096;
/// Frames by which the receiver is found.
const LOOKED_AT: usize = 4096;
/// Frames for which there is room before they are counted.
const ROOM_MAX: usize = 1 << 22;

/// Frames with one anomaly: their number, the first, and a description.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Odd {
    pub(crate) frames: u64,
    pub(crate) first: u64,
    pub(crate) says: String,
}

impl Odd {
    pub(crate) fn add(&mut self, packet: u64, says: impl FnOnce() -> String) {
        self.frames += 1;
        if self.frames == 1 {
            self.first = packet;
            self.says = says();
        }
    }
}

/// Differences between a payload and the most similar one that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Altered {
    /// Numbers of the packets that arrived and that were sent.
    pub(crate) came: u64,
    pub(crate) sent: u64,
    pub(crate) bytes: usize,
    pub(crate) bits: u32,
    /// Position of the first byte of the payload that differs.
    pub(crate) first: usize,
    pub(crate) reversed: bool,
    pub(crate) shorter: usize,
}

/// Frames with one source address.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OfSource {
    /// Number sent.
    pub(crate) sent: u64,
    /// Number that arrived unchanged.
    pub(crate) same: u64,
    /// Number that arrived with another payload.
    pub(crate) other: u64,
}

/// Results of comparing both captures.
#[derive(Debug, Default)]
pub(crate) struct Crossing {
    /// Number of frames that arrived, without foreign ones.
    pub(crate) came: u64,
    /// Frames that arrived more than once.
    pub(crate) copies: Odd,
    /// Number of frames with a payload that was not sent.
    pub(crate) unlike: u64,
    pub(crate) address: Odd,
    /// Subset of `address`: number of frames with a payload that was sent.
    pub(crate) readdressed: u64,
    /// With an Ethernet address that the host does not have which they are for.
    pub(crate) station: Odd,
    /// At the server, with the IPv4 address of a worker or of a group.
    pub(crate) misled: Odd,
    /// The field of a profile that differs in the first of those.
    pub(crate) field: &'static str,
    /// Frames in which a field differs that the device must keep.
    pub(crate) kept: Odd,
    pub(crate) tag: Odd,
    pub(crate) checksum: Odd,
    pub(crate) short: Odd,
    /// Frames with the length of one that was sent but other lengths in their headers.
    pub(crate) length: Odd,
    pub(crate) strangers: Odd,
    /// Number of frames that are fragments of IPv4 packets, which are not compared.
    pub(crate) fragments: u64,
    /// What is odd about answers of the server that came to the workers.
    pub(crate) answers: OddAnswers,
    pub(crate) altered: Vec<Altered>,
    /// By source address.
    pub(crate) by_source: HashMap<u32, OfSource, Quick>,
}

/// Kinds of frames in a capture of the workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Traffic {
    /// Updates to one server, and replies.
    Updates,
    /// Contributions to one device, and results.
    Contributions,
    /// Frames of any kind to any destination, without replies.
    Raw,
}

/// What frames must be like, as far as the profile says.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rules<'a> {
    /// Addresses that the device may multicast to; none where they are not known.
    pub(crate) groups: Option<&'a HashSet<u32>>,
    /// Addresses on the cables.
    pub(crate) addresses: Option<&'a Addressed>,
    /// Fields that the device must keep.
    pub(crate) keeps: &'a [String],
    /// Whether captures have the tags of the cable: without this, a card may have taken one off.
    pub(crate) shows_tags: bool,
}

/// What is known of the frames that left.
#[derive(Default)]
struct Outward {
    /// The host that workers send to.
    receiver: Option<u32>,
    /// Where the first went.
    first: Option<(u32, u16)>,
    /// Whether all frames of the capture were sent by workers.
    all: bool,
    to: HashSet<(u32, u16), Quick>,
    to_hosts: HashSet<u32, Quick>,
    from: HashSet<(u32, u16), Quick>,
    /// Frames of each host, and the Ethernet address that it sends from.
    from_hosts: HashMap<u32, (u64, [u8; 6]), Quick>,
    /// First bytes of contributions.
    heads: HashSet<u32, Quick>,
    /// Whether frames were sent with a wrong IPv4 checksum, or shorter than their headers state.
    misfits: bool,
    cut: bool,
    /// Whether frames were sent with inconsistent lengths in their headers.
    disagree: bool,
    /// Ethernet addresses that they went to.
    stations: HashSet<[u8; 6], Quick>,
    ports: HashSet<u16, Quick>,
    tags: HashSet<Option<u16>, Quick>,
    /// See [`Rules::shows_tags`].
    shows_tags: bool,
    lengths: HashSet<usize, Quick>,
    /// Properties of the last frame: most frames have the same ones.
    last: Option<(u16, Option<u16>, usize)>,
    last_to: Option<((u32, u16), [u8; 6])>,
    answers: AnswersCame,
    /// Number of fragments of IPv4 packets.
    fragments: u64,
    /// Fields that the device must keep.
    kept: Kept,
    digests: Digests,
}

/// Whether a device may multicast to this address: to one of `groups`, or to any where they are not known.
fn is_group(to: u32, groups: Option<&HashSet<u32>>) -> bool {
    groups.map_or(to >> 28 == 0xe, |groups| groups.contains(&to))
}

/// The host that the frames in the capture of the workers go to: the `declared` one, or, if nothing goes there, the one that most go to, of
/// frames that are not for a group. Others may send at the same end, and first.
fn receiver(path: &Path, declared: Option<u32>) -> Result<Option<u32>> {
    let mut hosts: Vec<(u32, u64)> = Vec::new();
    let mut reader = Reader::open(path)?;
    let mut looked = 0;
    while let Some(packet) = reader.next()?.filter(|_| looked < LOOKED_AT) {
        looked += 1;
        let Some(datagram) = Datagram::read(packet.bytes).filter(|datagram| datagram.dst.0 >> 28 < 0xe) else {
            continue;
        };
        match hosts.iter_mut().find(|(host, _)| *host == datagram.dst.0) {
            Some((_, frames)) => *frames += 1,
            None => hosts.push((datagram.dst.0, 1)),
        }
    }
    let declared = declared.filter(|declared| hosts.iter().any(|(host, _)| host == declared));
    let most = hosts.iter().map(|(_, frames)| *frames).max();
    Ok(declared.or_else(|| Some(hosts.iter().find(|(_, frames)| Some(*frames) == most)?.0)))
}

/// The first bytes of a payload, in which protocols of sums name sum or job.
fn head(payload: &[u8]) -> u32 {
    payload.first_chunk::<4>().map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

impl Outward {
    fn is_own(&self, datagram: &Datagram) -> bool {
        self.all || self.receiver == Some(datagram.dst.0)
    }

    fn read(path: &Path, traffic: Traffic, rules: Rules) -> Result<Outward> {
        let all = traffic == Traffic::Raw;
        let declared = rules.addresses.and_then(|addresses| addresses.receiver);
        let receiver = if all { None } else { receiver(path, declared)? };
        let (kept, shows_tags) = (Kept::new(rules.keeps), rules.shows_tags);
        let mut out = Outward { all, receiver, kept, shows_tags, ..Outward::default() };
        let mut reader = Reader::open(path)?;
        let bytes = reader.file_bytes().unwrap_or(0) as usize;
        let mut number = 0;
        while let Some(packet) = reader.next()? {
            number += 1;
            let Some(datagram) = Datagram::read(packet.bytes) else {
                if out.all {
                    out.digests.left(digest(content(packet.bytes)));
                } else {
                    out.fragments += u64::from(is_fragment(packet.bytes));
                }
                continue;
            };
            if !out.is_own(&datagram) {
                if out.receiver == Some(datagram.src.0) {
                    out.answers.add(&datagram, number);
                }
                continue;
            }
            out.add(&datagram);
            out.kept.left(&datagram);
            if traffic == Traffic::Contributions {
                out.heads.insert(head(datagram.payload));
                continue;
            }
            if out.digests.is_empty() {
                // Reserves space for all frames at once, since a growing table is copied.
                out.digests.reserve((bytes / (packet.bytes.len() + 32)).min(ROOM_MAX));
            }
            out.digests.left(digest(datagram.payload));
        }
        Ok(out)
    }

    /// Whether network cards of workers accept a frame: its Ethernet address is that of its host, of its group, or the
    /// broadcast address; for a group, the address of any worker is accepted.
    fn reaches(&self, datagram: &Datagram) -> bool {
        let station = datagram.station;
        station == [0xff; 6]
            || match self.from_hosts.get(&datagram.dst.0) {
                Some((_, own)) => station == *own,
                None => station == of_group(datagram.dst.0) || self.from_hosts.values().any(|(_, own)| *own == station),
            }
    }

    fn add(&mut self, datagram: &Datagram) {
        self.first.get_or_insert(datagram.dst);
        let to = (datagram.dst, datagram.station);
        if self.last_to.replace(to) != Some(to) {
            self.stations.insert(datagram.station);
            self.to.insert(datagram.dst);
            self.to_hosts.insert(datagram.dst.0);
        }
        self.from.insert(datagram.src);
        let host = self.from_hosts.entry(datagram.src.0).or_default();
        *host = (host.0 + 1, datagram.from_station);
        let own = (datagram.src.1, datagram.tag, datagram.payload.len());
        if self.last.replace(own) != Some(own) {
            self.ports.insert(own.0);
            self.tags.insert(own.1);
            self.lengths.insert(own.2);
        }
        self.misfits |= !datagram.ip_fits || datagram.lacking == 0 && !datagram.udp_fits();
        self.disagree |= !datagram.agrees;
        self.cut |= datagram.lacking > 0;
    }

    /// Whether a frame has a VLAN tag with which nothing was sent, or certainly lacks that of all sent frames.
    fn has_other_tag(&self, datagram: &Datagram) -> bool {
        (datagram.tag.is_some() || self.shows_tags) && !self.tags.contains(&datagram.tag)
    }

    /// Returns the address field whose value no sent frame had.
    fn foreign_part(&self, datagram: &Datagram) -> Option<(&'static str, String)> {
        let to = self.first?;
        if !self.to.contains(&datagram.dst) {
            let field = if self.to_hosts.contains(&datagram.dst.0) { "udp_dst" } else { "ip_dst" };
            let sent =
                if self.to.len() > 1 { "nothing was sent there".into() } else { format!("was sent to {}", dotted(to)) };
            return Some((field, format!("goes to {}, and {sent}", dotted(datagram.dst))));
        }
        let field = if self.from_hosts.contains_key(&datagram.src.0) { "udp_src" } else { "ip_src" };
        let from = !self.from.contains(&datagram.src);
        from.then(|| (field, format!("comes from {}, from which nothing was sent", dotted(datagram.src))))
    }
}

impl Crossing {
    /// Compares what left at the workers with what came at the server.
    pub(crate) fn upward(workers: &Path, server: &Path, traffic: Traffic, rules: Rules) -> Result<Crossing> {
        let mut out = Outward::read(workers, traffic, rules)?;
        let of = |(from, (sent, _)): (&u32, &(u64, [u8; 6]))| (*from, OfSource { sent: *sent, ..OfSource::default() });
        let by_source = out.from_hosts.iter().map(of).collect();
        let mut crossing = Crossing { by_source, fragments: out.fragments, ..Crossing::default() };
        let mut kept = Vec::new();
        let mut stations = Stations::default();
        let mut answered = AnswersLeft::default();
        let mut reader = Reader::open(server)?;
        let mut number = 0;
        while let Some(packet) = reader.next()? {
            number += 1;
            let datagram = Datagram::read(packet.bytes);
            // What the server answers leaves here.
            let answer = datagram.filter(|datagram| !out.all && out.receiver == Some(datagram.src.0));
            if let Some(answer) = answer {
                stations.own = Some(answer.from_station);
                answered.add(&answer);
                continue;
            }
            if out.all && datagram.is_none() && crossing.other(&mut out, packet.bytes, number) {
                continue;
            }
            if datagram.is_none() && is_fragment(packet.bytes) {
                crossing.fragments += 1;
                continue;
            }
            if let Some(datagram) = datagram.filter(|datagram| !out.all && out.to_hosts.contains(&datagram.dst.0)) {
                stations.add(&datagram, number);
            }
            crossing.arrival(&mut out, datagram.as_ref(), number, &mut kept);
        }
        crossing.station = stations.odd(&out.stations, rules.addresses.and_then(|all| all.server_station));
        let is_known = |to| out.from_hosts.contains_key(&to) || is_group(to, rules.groups);
        let is_station = |own: &[u8; 6]| out.from_hosts.values().any(|(_, known)| known == own);
        let keeps_port = rules.keeps.iter().any(|kept| kept == "udp_src");
        crossing.answers = out.answers.odd(&answered, &out.tags, out.shows_tags, keeps_port, is_known, is_station);
        if !kept.is_empty() {
            crossing.altered = compared(&missing(workers, &mut out)?, &kept);
        }
        Ok(crossing)
    }

    /// Records a frame that is not a datagram if an identical one was sent.
    fn other(&mut self, out: &mut Outward, frame: &[u8], number: u64) -> bool {
        let Some(again) = out.digests.arrive(digest(content(frame))) else { return false };
        self.came += 1;
        if again {
            self.copies.add(number, || "holds what came before".into());
        }
        true
    }

    fn arrival(&mut self, out: &mut Outward, datagram: Option<&Datagram>, number: u64, kept: &mut Vec<(u64, Vec<u8>)>) {
        let Some(datagram) = datagram else {
            self.strangers.add(number, || "is no UDP over IPv4".into());
            return;
        };
        let seen = out.digests.arrive(digest(datagram.payload));
        let known = seen.is_some();
        if !known && !out.to_hosts.contains(&datagram.dst.0) && !out.from_hosts.contains_key(&datagram.src.0) {
            self.strangers.add(number, || {
                format!("goes from {} to {}, and is none of the run's", dotted(datagram.src), dotted(datagram.dst))
            });
            return;
        }
        self.came += 1;
        if seen == Some(true) {
            self.copies.add(number, || "holds what came before".into());
        }
        let elsewhere = out.from_hosts.contains_key(&datagram.dst.0) || datagram.dst.0 >> 28 == 0xe;
        if elsewhere && !out.all && !out.to_hosts.contains(&datagram.dst.0) {
            self.misled
                .add(number, || format!("is an update and goes to {}, a worker or a group", dotted(datagram.dst)));
        }
        if let Some((field, says)) = out.foreign_part(datagram) {
            self.field = if self.address.frames == 0 { field } else { self.field };
            self.address.add(number, || says);
            self.readdressed += u64::from(known);
        }
        // A stranger's frame to the server has what it likes.
        let ours = known || out.from_hosts.contains_key(&datagram.src.0);
        if let Some(says) = out.kept.changed(datagram).filter(|_| ours) {
            self.kept.add(number, || says);
        }
        // A device may add tags to raw frames, or remove them.
        if !out.all && out.has_other_tag(datagram) {
            self.tag.add(number, || other_tag(datagram.tag));
        }
        let right_length = self.of_headers(out, datagram, known, number);
        let of_source = self.by_source.entry(datagram.src.0).or_default();
        *if known { &mut of_source.same } else { &mut of_source.other } += 1;
        if !known {
            self.unlike += 1;
            if right_length && kept.len() < CAME_MAX {
                kept.push((number, datagram.payload.to_vec()));
            }
        }
    }

    /// Checks the headers, ignoring anomalies that were already sent. `known`: its payload was sent. Returns whether
    /// the headers state the frame's length.
    fn of_headers(&mut self, out: &mut Outward, datagram: &Datagram, known: bool, number: u64) -> bool {
        let (says, has) = (datagram.payload.len() + datagram.lacking, datagram.behind.len());
        // If many lengths were sent, a truncated frame may be as long as another one.
        let is_whole = |out: &mut Outward| {
            let sure = out.lengths.len() == 1 || known && datagram.payload.len() == has;
            out.lengths.contains(&has) && (sure || out.digests.is_missing(digest(datagram.behind)))
        };
        let right_length = says == has || out.cut || out.lengths.contains(&says) || !is_whole(out);
        if !datagram.agrees && !out.disagree {
            self.length.add(number, || "the lengths in its headers of IPv4 and UDP do not fit each other".into());
        } else if !right_length {
            self.length.add(number, || format!("its headers say {says} bytes of payload, and it has {has}"));
        } else if datagram.lacking > 0 && !out.cut {
            self.short.add(number, || format!("{} bytes of the datagram are not there", datagram.lacking));
        }
        if !datagram.ip_fits && !out.misfits {
            self.checksum.add(number, || "the checksum of IPv4 does not fit".into());
        } else if datagram.lacking == 0 && !datagram.udp_fits() && !out.misfits {
            self.checksum.add(number, || "the checksum of UDP does not fit".into());
        }
        right_length && (datagram.agrees || out.disagree)
    }

    /// What comes to the workers.
    pub(crate) fn downward(workers: &Path, rules: Rules) -> Result<Crossing> {
        let mut out = Outward::read(workers, Traffic::Contributions, Rules { keeps: &[], ..rules })?;
        let mut crossing = Crossing { fragments: out.fragments, ..Crossing::default() };
        let Some(to) = out.first else { return Ok(crossing) };
        let mut stations = Stations::default();
        let mut reader = Reader::open(workers)?;
        let mut number = 0;
        while let Some(packet) = reader.next()? {
            number += 1;
            let Some(datagram) = Datagram::read(packet.bytes) else {
                // Counted above, in the same capture.
                if !is_fragment(packet.bytes) {
                    crossing.strangers.add(number, || "is no UDP over IPv4".into());
                }
                continue;
            };
            if out.is_own(&datagram) {
                continue;
            }
            let in_group = is_group(datagram.dst.0, rules.groups);
            let rightly = in_group || out.from_hosts.contains_key(&datagram.dst.0);
            // A reply to what was sent: from its destination, or to the workers, or with the same length and first bytes.
            let ours = datagram.src.0 == to.0
                || out.from_hosts.contains_key(&datagram.dst.0)
                || out.lengths.contains(&datagram.payload.len()) && out.heads.contains(&head(datagram.payload));
            if !ours {
                crossing.strangers.add(number, || {
                    format!("goes from {} to {}, and is none of the run's", dotted(datagram.src), dotted(datagram.dst))
                });
                continue;
            }
            crossing.came += 1;
            if !rightly {
                crossing.address.add(number, || {
                    format!("goes to {}, which is no worker and no group of the profile", dotted(datagram.dst))
                });
            } else if datagram.src != to {
                crossing
                    .address
                    .add(number, || format!("comes from {}, and {} was asked", dotted(datagram.src), dotted(to)));
            } else if !out.ports.contains(&datagram.dst.1) {
                crossing
                    .address
                    .add(number, || format!("goes to {}, and no worker has that port", dotted(datagram.dst)));
            }
            if out.has_other_tag(&datagram) {
                crossing.tag.add(number, || other_tag(datagram.tag));
            }
            if in_group {
                stations.add(&datagram, number);
            }
            if rightly && !out.reaches(&datagram) {
                crossing.station.add(number, || {
                    format!("goes to {} at an Ethernet address that no worker takes", dotted(datagram.dst))
                });
            }
            crossing.of_headers(&mut out, &datagram, false, number);
        }
        if let Some(addresses) = rules.addresses.filter(|_| crossing.station.frames == 0) {
            crossing.station = stations.of_one(&addresses.members);
        }
        Ok(crossing)
    }
}

/// Describes a VLAN tag with which nothing was sent.
pub(crate) fn other_tag(tag: Option<u16>) -> String {
    match tag {
        Some(tag) => format!("has the VLAN tag {tag}, with which nothing was sent"),
        None => "has no VLAN tag, and all that was sent has one".into(),
    }
}

/// Returns the whole frames that were sent and did not arrive unchanged.
fn missing(workers: &Path, out: &mut Outward) -> Result<Vec<(u64, Vec<u8>)>> {
    let (mut missing, mut number) = (Vec::new(), 0);
    let mut reader = Reader::open(workers)?;
    while let Some(packet) = reader.next()? {
        number += 1;
        let Some(datagram) = Datagram::read(packet.bytes).filter(|datagram| out.is_own(datagram)) else { continue };
        if out.digests.is_missing(digest(datagram.payload)) {
            missing.push((number, datagram.payload.to_vec()));
            if missing.len() == MISSING_MAX {
                break;
            }
        }
    }
    Ok(missing)
}

/// Compares each frame with the most similar missing one; frames similar to none are ignored.
fn compared(missing: &[(u64, Vec<u8>)], came: &[(u64, Vec<u8>)]) -> Vec<Altered> {
    let nearest = |(number, bytes): &(u64, Vec<u8>)| {
        let all = missing.iter().map(|(sent, whole)| altered(*sent, whole, *number, bytes));
        all.min_by_key(|found| if found.reversed { 0 } else { found.bytes })
    };
    let alike = |found: &Altered| found.reversed || found.shorter > 0 && found.bytes == 0 || found.bytes > 0;
    came.iter().filter_map(nearest).filter(alike).collect()
}

fn altered(sent: u64, whole: &[u8], came: u64, bytes: &[u8]) -> Altered {
    let differing = || whole.iter().zip(bytes).enumerate().filter(|(_, (a, b))| a != b);
    // Values have four bytes and are at the end of the payload.
    let tail = whole.len().min(bytes.len()) / 8 * 4;
    let reversed = whole.len() == bytes.len() && tail >= 8 && {
        let (a, b) = (&whole[whole.len() - tail..], &bytes[bytes.len() - tail..]);
        a != b && a.as_chunks::<4>().0.iter().zip(b.as_chunks::<4>().0).all(|(a, b)| a.iter().eq(b.iter().rev()))
    };
    Altered {
        came,
        sent,
        bytes: differing().count(),
        bits: differing().map(|(_, (a, b))| (a ^ b).count_ones()).sum(),
        first: differing().next().map_or(0, |(at, _)| at),
        reversed,
        shorter: whole.len().saturating_sub(bytes.len()),
    }
}

#[cfg(test)]
#[path = "crossing_tests.rs"]
mod tests;
