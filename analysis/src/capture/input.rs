//! A capture file as events: packets of formats that are known, with times in ps since the anchor.

use std::path::{Path, PathBuf};

use pktgen_generator::pcap::{Packet, Reader, Stamp};
use pktgen_generator::record::NO_CLUSTER;
use pktgen_generator::time::{HORIZON, NS};
use pktgen_generator::wire::sight::{Datagram, Look, Sight, What, look};
use pktgen_generator::wire::{FORMATS, Format};
use pktgen_generator::{Error, Result};

use serde::{Deserialize, Serialize};

use super::clock::Clocks;
use super::frames::Frames;
use super::{Event, Side};

/// Says in [`Ports`] that no format has a port.
const NOBODY: u8 = u8::MAX;
/// Says in [`Event::format`] that it is background traffic.
pub const BACKGROUND: u8 = u8::MAX - 1;
/// UDP port of background traffic, and where it comes from.
const DISCARD: u16 = 9;
const BACKGROUND_NET: u32 = 0xc613_0000;

/// Which format a port belongs to, by its number in [`FORMATS`].
struct Ports(Box<[u8; 1 << 16]>);

impl Ports {
    fn new() -> Self {
        let mut table = Box::new([NOBODY; 1 << 16]);
        for (port, of) in table.iter_mut().enumerate() {
            if let Some(format) = FORMATS.iter().position(|format| format.has_port(port as u16)) {
                *of = format as u8;
            }
        }
        Ports(table)
    }

    /// The destination's port decides, then the source's.
    #[inline]
    fn format(&self, datagram: &Datagram) -> u8 {
        match self.0[usize::from(datagram.dst_port)] {
            NOBODY => self.0[usize::from(datagram.src_port)],
            format => format,
        }
    }
}

/// What packets of a file were, if they were no events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// All packets.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Of another protocol, or of another kind of link.
    pub other: u64,
    /// UDP, but of no format that is known, or damaged.
    pub foreign: u64,
    /// Cut so short that nothing is known of them.
    pub unreadable: u64,
    /// Parts of datagrams.
    pub fragments: u64,
    /// Without a time.
    pub timeless: u64,
    /// With a time or a generation that no run has.
    pub absurd: u64,
    /// Earlier than the one before.
    pub unordered: u64,
}

/// What is said of a file in the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputFacts {
    /// Its path, as it was given.
    pub path: String,
    /// Which side it is of.
    pub side: Side,
    /// What was in it.
    pub tally: Tally,
    /// Where reading ended, if that was not the file's end.
    pub damage: Option<String>,
}

/// What is read.
enum Source {
    File(Box<Reader>),
    Frames(Frames),
}

impl Source {
    #[inline]
    fn next(&mut self) -> Result<Option<Packet<'_>>> {
        match self {
            Source::File(reader) => reader.next(),
            Source::Frames(frames) => frames.next(),
        }
    }
}

/// An open capture.
pub struct Input {
    reader: Source,
    path: PathBuf,
    side: Side,
    ports: Ports,
    /// The format that was given: then ports say nothing.
    given: Option<u8>,
    anchor_unix_ns: u64,
    shift_ps: i64,
    last: i64,
    tally: Tally,
    /// Where it is damaged, if it is.
    damage: Option<Error>,
}

impl Input {
    /// Opens a capture.
    pub fn open(path: &Path, side: Side, format: Option<&'static dyn Format>) -> Result<Self> {
        let named = |format: &dyn Format| FORMATS.iter().position(|other| other.name() == format.name());
        let given = format.and_then(named).map(|index| index as u8);
        Ok(Input {
            reader: if path.is_dir() {
                Source::Frames(Frames::open(path)?)
            } else {
                Source::File(Box::new(Reader::open(path)?))
            },
            path: path.to_owned(),
            side,
            ports: Ports::new(),
            given,
            anchor_unix_ns: 0,
            shift_ps: 0,
            last: i64::MIN,
            tally: Tally::default(),
            damage: None,
        })
    }

    /// Times count from the clocks' anchor, and those at the server are set to the sender's clock.
    pub fn use_clocks(&mut self, clocks: &Clocks) {
        self.anchor_unix_ns = clocks.anchor_unix_ns;
        self.shift_ps = if self.side == Side::Server { -clocks.offset_ps() } else { 0 };
    }

    /// What was in it.
    pub fn into_facts(self) -> InputFacts {
        let damage = self.damage.map(|error| error.to_string());
        InputFacts { path: self.path.display().to_string(), side: self.side, tally: self.tally, damage }
    }

    /// The anchor that our own writer noted.
    pub fn noted_anchor_unix_ns(&self) -> Option<u64> {
        match &self.reader {
            Source::File(reader) => reader.noted_anchor_unix_ns(),
            Source::Frames(frames) => Some(frames.anchor_unix_ns),
        }
    }

    /// From when times would count, `first` being the first packet's: see [`Reader::anchor_unix_ns`].
    pub fn anchor_for(&self, first: Stamp) -> u64 {
        match &self.reader {
            Source::File(reader) => reader.anchor_unix_ns(first),
            Source::Frames(frames) => frames.anchor_unix_ns,
        }
    }

    /// Bytes read so far.
    pub fn bytes_read(&self) -> u64 {
        match &self.reader {
            Source::File(reader) => reader.bytes_read(),
            Source::Frames(frames) => frames.bytes_read(),
        }
    }

    /// Length of the file; none for pipes.
    pub fn file_bytes(&self) -> Option<u64> {
        match &self.reader {
            Source::File(reader) => reader.file_bytes(),
            Source::Frames(frames) => Some(frames.file_bytes()),
        }
    }

    /// The next packet that has a time, as captured: for whoever looks for clocks.
    pub fn next_stamped(&mut self) -> Option<(Stamp, Option<(u8, Sight)>)> {
        loop {
            match self.reader.next() {
                Ok(Some(packet)) => {
                    let Some(time) = packet.time else { continue };
                    let found = match look(packet.link_type, packet.bytes) {
                        Look::Udp(datagram) => sight(&datagram, self.given, &self.ports),
                        Look::Layer(kind, datagram) => layer(kind, &datagram),
                        _ => None,
                    };
                    return Some((time, found));
                }
                Ok(None) | Err(_) => return None,
            }
        }
    }

    /// Appends the next events until there are `most`; fewer at the end, or where the file is damaged.
    pub fn fill(&mut self, events: &mut Vec<Event>, most: usize) {
        let anchor_ps = i128::from(self.anchor_unix_ns) * i128::from(NS) - i128::from(self.shift_ps);
        while events.len() < most && self.damage.is_none() {
            let packet = match self.reader.next() {
                Ok(Some(packet)) => packet,
                Ok(None) => return,
                Err(error) => {
                    self.damage = Some(error);
                    return;
                }
            };
            let tally = &mut self.tally;
            tally.packets += 1;
            tally.bytes += u64::from(packet.len);
            match event(&packet, self.given, &self.ports) {
                Ok((format, sight)) => {
                    let t = packet.time.map(|time| time.unix_ps() - anchor_ps);
                    let sane = |t: &i64| t.unsigned_abs() <= HORIZON as u64;
                    let t = match t.map(i64::try_from) {
                        Some(Ok(t)) if sane(&t) && sight.generation.as_ref().is_none_or(sane) => t,
                        Some(_) => {
                            tally.absurd += 1;
                            continue;
                        }
                        None => {
                            tally.timeless += 1;
                            continue;
                        }
                    };
                    tally.unordered += u64::from(t < self.last);
                    self.last = t;
                    events.push(Event { t, side: self.side, bytes: packet.len, format, sight });
                }
                Err(Odd::Other) => tally.other += 1,
                Err(Odd::Foreign) => tally.foreign += 1,
                Err(Odd::Unreadable) => tally.unreadable += 1,
                Err(Odd::Fragment) => tally.fragments += 1,
            }
        }
    }
}

/// Why a packet is no event.
enum Odd {
    Other,
    Foreign,
    Unreadable,
    Fragment,
}

#[inline]
fn event(packet: &Packet, given: Option<u8>, ports: &Ports) -> std::result::Result<(u8, Sight), Odd> {
    match look(packet.link_type, packet.bytes) {
        Look::Udp(datagram) => sight(&datagram, given, ports).ok_or(
            // What was cut within its header may be ours.
            if datagram.payload.len() < datagram.whole.min(CUT) { Odd::Unreadable } else { Odd::Foreign },
        ),
        Look::Layer(kind, datagram) => layer(kind, &datagram).ok_or(Odd::Foreign),
        Look::Other => Err(Odd::Other),
        Look::Fragment => Err(Odd::Fragment),
        Look::Unreadable => Err(Odd::Unreadable),
    }
}

/// What lies behind IPv4 in an Ethernet type of its own.
fn layer(kind: u16, datagram: &Datagram) -> Option<(u8, Sight)> {
    let format = FORMATS.iter().position(|format| format.ether_type() == Some(kind))?;
    FORMATS[format].sight(datagram).map(|sight| (format as u8, sight))
}

/// Shorter payloads than this may lack a part of a header.
const CUT: usize = 64;

/// What a datagram is, by the format that was given or that its ports say.
#[inline]
fn sight(datagram: &Datagram, given: Option<u8>, ports: &Ports) -> Option<(u8, Sight)> {
    let format = given.unwrap_or_else(|| ports.format(datagram));
    if let Some(known) = FORMATS.get(usize::from(format)) {
        return known.sight(datagram).map(|sight| (format, sight));
    }
    let background = datagram.dst_port == DISCARD && datagram.src & 0xffff_0000 == BACKGROUND_NET;
    let nothing = Sight {
        what: What::Update,
        cluster: NO_CLUSTER,
        worker: None,
        seq: 0,
        attempt: 0,
        generation: None,
        count: 1,
        elements: 0,
    };
    background.then_some((BACKGROUND, nothing))
}
