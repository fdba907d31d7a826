//! Compares two captures of the same frames, before and after the device: which frames arrived unchanged, and how the others differ.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use pktgen_core::Result;
use pktgen_wire::pcap::Reader;

use crate::digests::Digests;
use crate::frame::{Datagram, Quick, content, digest, dotted};

/// Maximum numbers of whole frames stored for comparison: arrived and missing ones.
const CAME_MAX: usize = 64;
const MISSING_MAX: usize = 4096;
/// Maximum number of frames for which memory is reserved before they are counted.
const ROOM_MAX: usize = 1 << 22;

/// Frames with one anomaly: their number, the first, and a description.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Odd {
    pub(crate) frames: u64,
    pub(crate) first: u64,
    pub(crate) says: String,
}

impl Odd {
    fn add(&mut self, packet: u64, says: impl FnOnce() -> String) {
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
    /// Frames whose Ethernet address differs from that of most frames to the same host.
    pub(crate) station: Odd,
    /// The profile field that differs in the first frame of `address`.
    pub(crate) field: &'static str,
    pub(crate) tag: Odd,
    pub(crate) checksum: Odd,
    pub(crate) short: Odd,
    /// Frames with the length of one that was sent but other lengths in their headers.
    pub(crate) length: Odd,
    pub(crate) strangers: Odd,
    /// Answers of the server that arrived at addresses that no worker has and to which no answer was sent.
    pub(crate) answers: Odd,
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

/// Properties of the frames that were sent.
#[derive(Default)]
struct Outward {
    /// Destination of the first frame.
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
    lengths: HashSet<usize, Quick>,
    /// Properties of the last frame: most frames have the same ones.
    last: Option<(u16, Option<u16>, usize)>,
    last_to: Option<((u32, u16), [u8; 6])>,
    /// Destinations of the server's answers, with the first answer to each.
    answers: Vec<(u32, Odd)>,
    digests: Digests,
}

/// Frames of one host by destination Ethernet address, in the order of the capture.
#[derive(Default)]
struct Stations {
    of: Vec<Station>,
    /// Ethernet address from which the host itself sends.
    own: Option<[u8; 6]>,
    /// Index for the last frame: most frames have the same.
    last: usize,
}

struct Station {
    host: u32,
    address: [u8; 6],
    frames: u64,
    first: u64,
}

/// Maximum number of Ethernet addresses that are distinguished.
const STATIONS_MAX: usize = 64;

impl Stations {
    fn add(&mut self, datagram: &Datagram, number: u64) {
        let (host, address) = (datagram.dst.0, datagram.station);
        let is_it = |own: &Station| own.host == host && own.address == address;
        if !self.of.get(self.last).is_some_and(is_it) {
            match self.of.iter().position(is_it) {
                Some(at) => self.last = at,
                None if self.of.len() < STATIONS_MAX => {
                    self.last = self.of.len();
                    self.of.push(Station { host, address, frames: 0, first: number });
                }
                None => return,
            }
        }
        self.of[self.last].frames += 1;
    }

    /// Returns frames whose address differs from that of most frames to the same host or, if all have the same, is
    /// neither in `sent_to` nor the host's own.
    fn odd(&self, sent_to: &HashSet<[u8; 6], Quick>) -> Odd {
        let text = |address: &[u8; 6]| address.map(|byte| format!("{byte:02x}")).join(":");
        let most =
            |own: &Station| self.of.iter().filter(|other| other.host == own.host).max_by_key(|other| other.frames);
        let others = || {
            self.of.iter().filter_map(|own| Some((own, most(own)?))).filter(|(own, most)| own.address != most.address)
        };
        if let Some((first, most)) = others().min_by_key(|(own, _)| own.first) {
            return Odd {
                frames: others().map(|(own, _)| own.frames).sum(),
                first: first.first,
                says: format!(
                    "goes to the Ethernet address {}, and most frames to that host go to {}",
                    text(&first.address),
                    text(&most.address)
                ),
            };
        }
        let Some(host) = self.own else { return Odd::default() };
        // The lowest bit of the first byte marks multicast and broadcast addresses.
        let foreign =
            |own: &&Station| own.address != host && own.address[0] & 1 == 0 && !sent_to.contains(&own.address);
        let Some(first) = self.of.iter().filter(foreign).min_by_key(|own| own.first) else { return Odd::default() };
        Odd {
            frames: self.of.iter().filter(foreign).map(|own| own.frames).sum(),
            first: first.first,
            says: format!(
                "goes to the Ethernet address {}, to which nothing was sent, and the server's own is {}",
                text(&first.address),
                text(&host)
            ),
        }
    }
}

/// Whether a device may multicast to this address: one of `groups`, or any multicast address if these are unknown.
fn is_group(to: u32, groups: Option<&HashSet<u32>>) -> bool {
    groups.map_or(to >> 28 == 0xe, |groups| groups.contains(&to))
}

/// Returns the first bytes of a payload, which contain the sum or job in aggregation protocols.
fn head(payload: &[u8]) -> u32 {
    payload.first_chunk::<4>().map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

impl Outward {
    fn is_own(&self, datagram: &Datagram) -> bool {
        self.all || self.first.is_none_or(|to| to.0 == datagram.dst.0)
    }

    fn read(path: &Path, traffic: Traffic) -> Result<Outward> {
        let mut out = Outward { all: traffic == Traffic::Raw, ..Outward::default() };
        let mut reader = Reader::open(path)?;
        let bytes = reader.file_bytes().unwrap_or(0) as usize;
        let mut number = 0;
        while let Some(packet) = reader.next()? {
            number += 1;
            let Some(datagram) = Datagram::read(packet.bytes) else {
                if out.all {
                    out.digests.left(digest(content(packet.bytes)));
                }
                continue;
            };
            if !out.is_own(&datagram) {
                out.answer(&datagram, number);
                continue;
            }
            out.add(&datagram);
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
        let (station, [_, b, c, d]) = (datagram.station, datagram.dst.0.to_be_bytes());
        station == [0xff; 6]
            || match self.from_hosts.get(&datagram.dst.0) {
                Some((_, own)) => station == *own,
                None => {
                    station == [1, 0, 0x5e, b & 0x7f, c, d] || self.from_hosts.values().any(|(_, own)| *own == station)
                }
            }
    }

    /// Records the destination of an answer of the server.
    fn answer(&mut self, datagram: &Datagram, number: u64) {
        if self.first.is_none_or(|server| server.0 != datagram.src.0) {
            return;
        }
        let says = || format!("is an answer of the server and goes to {}", dotted(datagram.dst));
        let known = self.answers.iter().position(|(to, _)| *to == datagram.dst.0);
        if known.is_none() && self.answers.len() == STATIONS_MAX {
            return;
        }
        let at = known.unwrap_or_else(|| {
            self.answers.push((datagram.dst.0, Odd::default()));
            self.answers.len() - 1
        });
        self.answers[at].1.add(number, says);
    }

    /// Returns answers to addresses that are neither workers nor in `groups` and to which the server sent none.
    fn odd_answers(&self, answered: &HashSet<u32, Quick>, groups: Option<&HashSet<u32>>) -> Odd {
        let foreign = |(to, _): &&(u32, Odd)| {
            !answered.contains(to) && !self.from_hosts.contains_key(to) && !is_group(*to, groups)
        };
        let mut all = self.answers.iter().filter(foreign).map(|(_, odd)| odd.clone());
        let first = all.next().unwrap_or_default();
        all.fold(first, |sum, one| Odd { frames: sum.frames + one.frames, ..sum })
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
    /// Compares the frames sent by the workers with those that arrived at the server.
    pub(crate) fn upward(
        workers: &Path,
        server: &Path,
        traffic: Traffic,
        groups: Option<&HashSet<u32>>,
    ) -> Result<Crossing> {
        let mut out = Outward::read(workers, traffic)?;
        let of = |(from, (sent, _)): (&u32, &(u64, [u8; 6]))| (*from, OfSource { sent: *sent, ..OfSource::default() });
        let mut crossing = Crossing { by_source: out.from_hosts.iter().map(of).collect(), ..Crossing::default() };
        let mut kept = Vec::new();
        let mut stations = Stations::default();
        let mut answered: HashSet<u32, Quick> = HashSet::default();
        let mut reader = Reader::open(server)?;
        let mut number = 0;
        while let Some(packet) = reader.next()? {
            number += 1;
            let datagram = Datagram::read(packet.bytes);
            // The answers of the server are sent here.
            let answer = datagram.filter(|datagram| !out.all && out.first.is_some_and(|to| datagram.src.0 == to.0));
            if let Some(answer) = answer {
                stations.own = Some(answer.from_station);
                answered.insert(answer.dst.0);
                continue;
            }
            if out.all && datagram.is_none() && crossing.other(&mut out, packet.bytes, number) {
                continue;
            }
            if let Some(datagram) = datagram.filter(|datagram| !out.all && out.to_hosts.contains(&datagram.dst.0)) {
                stations.add(&datagram, number);
            }
            crossing.arrival(&mut out, datagram.as_ref(), number, &mut kept);
        }
        crossing.station = stations.odd(&out.stations);
        crossing.answers = out.odd_answers(&answered, groups);
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
        if let Some((field, says)) = out.foreign_part(datagram) {
            self.field = if self.address.frames == 0 { field } else { self.field };
            self.address.add(number, || says);
            self.readdressed += u64::from(known);
        }
        if datagram.tag.is_some() && !out.tags.contains(&datagram.tag) {
            self.tag
                .add(number, || format!("has the VLAN tag {}, with which nothing was sent", datagram.tag.unwrap_or(0)));
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

    /// Checks the frames that arrive at the workers: `groups` are the addresses that the device may multicast to, if these are known.
    pub(crate) fn downward(workers: &Path, groups: Option<&HashSet<u32>>) -> Result<Crossing> {
        let mut out = Outward::read(workers, Traffic::Contributions)?;
        let mut crossing = Crossing::default();
        let Some(to) = out.first else { return Ok(crossing) };
        let mut reader = Reader::open(workers)?;
        let mut number = 0;
        while let Some(packet) = reader.next()? {
            number += 1;
            let Some(datagram) = Datagram::read(packet.bytes) else {
                crossing.strangers.add(number, || "is no UDP over IPv4".into());
                continue;
            };
            if out.is_own(&datagram) {
                continue;
            }
            let in_group = is_group(datagram.dst.0, groups);
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
            if datagram.tag.is_some() && !out.tags.contains(&datagram.tag) {
                crossing.tag.add(number, || {
                    format!("has the VLAN tag {}, with which nothing was sent", datagram.tag.unwrap_or(0))
                });
            }
            if rightly && !out.reaches(&datagram) {
                crossing.station.add(number, || {
                    format!("goes to {} at an Ethernet address that no worker takes", dotted(datagram.dst))
                });
            }
            crossing.of_headers(&mut out, &datagram, false, number);
        }
        Ok(crossing)
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
