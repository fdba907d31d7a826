//! A capture file as events: packets of formats that are known, with times in ps since the anchor.

use std::path::{Path, PathBuf};

use pktgen_generator::pcap::{Packet, Reader, Stamp};
use pktgen_generator::record::NO_CLUSTER;
use pktgen_generator::time::{HORIZON, NS};
use pktgen_generator::wire::sight::{Datagram, Look, Sight, What, glance, look};
use pktgen_generator::wire::{FORMATS, Format, olaf};
use pktgen_generator::{Error, Result};

use serde::{Deserialize, Serialize};

use super::clock::Clocks;
use super::frames::Frames;
use super::{Event, Side};

/// Says in [`Ports`] that no format has a port.
const NOBODY: u8 = u8::MAX;
/// Says in [`Event::format`] that it is background traffic.
pub const BACKGROUND: u8 = u8::MAX - 1;
/// The place of OLAF's format in [`FORMATS`].
const OLAF: u8 = 0;
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

/// An open capture.
pub struct Input {
    reader: Source,
    path: PathBuf,
    decoder: Decoder,
    /// Where it is damaged, if it is.
    damage: Option<Error>,
}

/// Packets become events.
struct Decoder {
    side: Side,
    ports: Ports,
    /// The format that was given: then ports say nothing.
    given: Option<u8>,
    /// What times count from, in the clock of the capture.
    anchor_ps: i128,
    last: i64,
    tally: Tally,
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
            decoder: Decoder {
                side,
                ports: Ports::new(),
                given,
                anchor_ps: 0,
                last: i64::MIN,
                tally: Tally::default(),
            },
            damage: None,
        })
    }

    /// Times count from the clocks' anchor, and those at the server are set to the sender's clock.
    pub fn use_clocks(&mut self, clocks: &Clocks) {
        let shift_ps = if self.decoder.side == Side::Server { -clocks.offset_ps() } else { 0 };
        self.decoder.anchor_ps = i128::from(clocks.anchor_unix_ns) * i128::from(NS) - i128::from(shift_ps);
    }

    /// What was in it.
    pub fn into_facts(self) -> InputFacts {
        let damage = self.damage.map(|error| error.to_string());
        let Decoder { side, tally, .. } = self.decoder;
        InputFacts { path: self.path.display().to_string(), side, tally, damage }
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
            let packet = match &mut self.reader {
                Source::File(reader) => reader.next(),
                Source::Frames(frames) => frames.next(),
            };
            match packet {
                Ok(Some(packet)) => {
                    let Some(time) = packet.time else { continue };
                    let found = match look(packet.link_type, packet.bytes) {
                        Look::Udp(datagram) => self.decoder.sight(&datagram),
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
        let Input { reader, decoder, damage, .. } = self;
        while events.len() < most && damage.is_none() {
            // Each for itself: a packet that comes from either of two is copied once more.
            let more = match reader {
                Source::File(reader) => {
                    reader.next().map(|packet| packet.map(|packet| decoder.take(&packet, events)).is_some())
                }
                Source::Frames(frames) => {
                    frames.next().map(|packet| packet.map(|packet| decoder.take(&packet, events)).is_some())
                }
            };
            match more {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => *damage = Some(error),
            }
        }
    }
}

impl Decoder {
    /// Appends what a packet is.
    #[inline(always)]
    fn take(&mut self, packet: &Packet, events: &mut Vec<Event>) {
        self.tally.packets += 1;
        self.tally.bytes += u64::from(packet.len);
        // What most packets are is found without a call, and without a copy.
        if let Some(datagram) = glance(packet.link_type, packet.bytes)
            && self.format(&datagram) == OLAF
            && let Some(sight) = olaf::Olaf.sight(&datagram)
        {
            return self.keep(packet, OLAF, sight, events);
        }
        match self.closely(packet) {
            Ok((format, sight)) => self.keep(packet, format, sight, events),
            Err(Odd::Other) => self.tally.other += 1,
            Err(Odd::Foreign) => self.tally.foreign += 1,
            Err(Odd::Unreadable) => self.tally.unreadable += 1,
            Err(Odd::Fragment) => self.tally.fragments += 1,
        }
    }

    #[inline(always)]
    fn keep(&mut self, packet: &Packet, format: u8, sight: Sight, events: &mut Vec<Event>) {
        let sane = |t: &i64| t.unsigned_abs() <= HORIZON as u64;
        let Some(time) = packet.time else {
            self.tally.timeless += 1;
            return;
        };
        let t = i64::try_from(time.unix_ps() - self.anchor_ps).ok().filter(sane);
        let Some(t) = t.filter(|_| sight.generation.as_ref().is_none_or(sane)) else {
            self.tally.absurd += 1;
            return;
        };
        self.tally.unordered += u64::from(t < self.last);
        self.last = t;
        events.push(Event { t, side: self.side, bytes: packet.len, format, sight });
    }

    #[inline(never)]
    fn closely(&self, packet: &Packet) -> std::result::Result<(u8, Sight), Odd> {
        match look(packet.link_type, packet.bytes) {
            Look::Udp(datagram) => self.sight(&datagram).ok_or(
                // What was cut within its header may be ours.
                if datagram.payload.len() < datagram.whole.min(CUT) { Odd::Unreadable } else { Odd::Foreign },
            ),
            Look::Layer(kind, datagram) => layer(kind, &datagram).ok_or(Odd::Foreign),
            Look::Other => Err(Odd::Other),
            Look::Fragment => Err(Odd::Fragment),
            Look::Unreadable => Err(Odd::Unreadable),
        }
    }

    /// The format of a datagram: the one that was given, or what its ports say.
    #[inline]
    fn format(&self, datagram: &Datagram) -> u8 {
        self.given.unwrap_or_else(|| self.ports.format(datagram))
    }

    /// What a datagram is.
    fn sight(&self, datagram: &Datagram) -> Option<(u8, Sight)> {
        let format = self.format(datagram);
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
}

/// Why a packet is no event.
enum Odd {
    Other,
    Foreign,
    Unreadable,
    Fragment,
}

/// What lies behind IPv4 in an Ethernet type of its own.
fn layer(kind: u16, datagram: &Datagram) -> Option<(u8, Sight)> {
    let format = FORMATS.iter().position(|format| format.ether_type() == Some(kind))?;
    FORMATS[format].sight(datagram).map(|sight| (format as u8, sight))
}

/// Shorter payloads than this may lack a part of a header.
const CUT: usize = 64;
