//! A capture file as events: packets of known formats, with times in ps since the anchor.

use std::path::{Path, PathBuf};

use pktgen_core::index::IdMap;
use pktgen_core::record::digest::Verified;
use pktgen_core::record::{NO_CLUSTER, PacketId};
use pktgen_core::time::{HORIZON, NS};
use pktgen_core::{Error, Result};
use pktgen_wire::pcap::{Packet, Reader, Stamp};
use pktgen_wire::wire::frame::{HEAD, Ip, group_of};
use pktgen_wire::wire::sight::{Datagram, Delivery, Look, Sight, What, frame_bytes, glance, look_at};
use pktgen_wire::wire::update::is_headless;
use pktgen_wire::wire::{Captured, Format, Formats};

use serde::{Deserialize, Serialize};

use super::addresses::SourceNumbers;
use super::clock::Clocks;
use super::frames::Frames;
use super::{Event, Side};

/// Marks ports in [`Ports`] that belong to no format.
const NOBODY: u8 = u8::MAX;
/// Marks background traffic in [`Event::format`].
pub(crate) const BACKGROUND: u8 = u8::MAX - 1;
/// Number of events examined at a time.
const SCANNED: usize = 1024;
/// UDP port of background traffic, and its source network.
const DISCARD: u16 = 9;
const BACKGROUND_NET: u32 = 0xc613_0000;

/// Index of the format that each port belongs to.
struct Ports(Box<[u8; 1 << 16]>);

impl Ports {
    fn new(formats: Formats) -> Self {
        let mut table = Box::new([NOBODY; 1 << 16]);
        // A port of several formats belongs to the first.
        for (index, format) in formats.iter().enumerate().rev() {
            for (first, last) in format.ports() {
                table[usize::from(*first)..=usize::from(*last)].fill(index as u8);
            }
        }
        Ports(table)
    }

    /// Returns the format of the destination port or else of the source port.
    #[inline]
    fn format(&self, datagram: &Datagram) -> u8 {
        match self.0[usize::from(datagram.dst_port)] {
            NOBODY => self.0[usize::from(datagram.src_port)],
            format => format,
        }
    }
}

/// Counts of packets in a file, by the reason why they are not events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// All packets.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Packets of other protocols or link types.
    pub other: u64,
    /// Subset of `other`: packets of links whose types are not supported.
    #[serde(default)]
    pub links: u64,
    /// UDP packets of no known format, or damaged.
    pub foreign: u64,
    /// Subset of `foreign`: packets on ports of known formats.
    #[serde(default)]
    pub misfits: u64,
    /// Subset of `foreign`, beside `misfits`: packets that do not show whether they are contributions or results.
    #[serde(default)]
    pub undirected: u64,
    /// Packets cut so short that they cannot be identified.
    pub unreadable: u64,
    /// IP fragments.
    pub fragments: u64,
    /// Packets without a time.
    pub timeless: u64,
    /// Packets with a time, a generation or a worker that is impossible in a run.
    pub absurd: u64,
    /// Subset of `absurd`: packets further from the origin of times than a run may last.
    #[serde(default)]
    pub distant: u64,
    /// Packets earlier than the one before.
    pub unordered: u64,
    /// Whether such packets could not be sorted.
    #[serde(default)]
    pub disordered: bool,
    /// Updates whose worker number was used by another address before; and such workers of whom the address in a file before is another.
    #[serde(default)]
    pub shared: u64,
    /// Multicast group of results with all workers; `regrouped` counts those sent to another group.
    pub group: Option<u16>,
    /// See `group`.
    pub regrouped: u64,
    /// Largest number of bytes of values by which results were told apart, and the smallest of those that were cut within them.
    #[serde(default)]
    pub values_most: usize,
    /// See `values_most`.
    #[serde(default)]
    pub values_cut: Option<usize>,
    /// Packets captured before their generation by more than the uncertainty of times.
    pub early: u64,
    /// Coarsest resolution of timestamps.
    pub resolution_ps: u64,
}

impl Tally {
    /// Returns the number of packets that may hold updates but could not be read.
    pub(super) fn unread(&self) -> u64 {
        let unread =
            [self.links, self.misfits, self.undirected, self.unreadable, self.fragments, self.timeless, self.absurd];
        unread.into_iter().fold(0, u64::saturating_add)
    }

    /// Returns the number of UDP packets that may be of a format with other ports.
    pub(super) fn strange(&self) -> u64 {
        [self.misfits, self.undirected].into_iter().fold(self.foreign, u64::saturating_sub)
    }

    /// Returns the number of packets of known formats and of background traffic.
    pub(super) fn known(&self) -> u64 {
        let odd = [self.other, self.foreign, self.unreadable, self.fragments, self.timeless, self.absurd];
        odd.into_iter().fold(self.packets, u64::saturating_sub)
    }
}

/// Facts about a file, for the report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputFacts {
    /// Its path, as given.
    pub path: String,
    /// The side at which it was captured.
    pub side: Side,
    /// Its contents.
    pub tally: Tally,
    /// Where reading ended, if before the end of the file.
    pub damage: Option<String>,
    /// Packets dropped during the recording, by its own count.
    #[serde(default)]
    pub dropped: u64,
    /// Whether its sections note different origins of times: they are of several runs.
    #[serde(default)]
    pub several_runs: bool,
    /// Why its recording is invalid, besides what it lost.
    #[serde(default)]
    pub faults: Vec<String>,
    /// Whether the files of its recording were compared with their digests.
    #[serde(default)]
    pub verified: Verified,
}

impl InputFacts {
    /// Whether its packets are not in the order of time.
    pub(super) fn is_unordered(&self) -> bool {
        self.tally.disordered
    }
}

/// Where packets are read from.
enum Source {
    File(Box<Reader>),
    Frames(Box<Frames>),
}

/// An open capture.
pub(crate) struct Input {
    reader: Source,
    path: PathBuf,
    decoder: Decoder,
    /// The damage that ended reading, if any.
    damage: Option<Error>,
    /// Events read ahead in the order of time, and how many of them were consumed.
    ahead: (Vec<Event>, usize),
}

/// Converts packets into events.
struct Decoder {
    formats: Formats,
    side: Side,
    ports: Ports,
    /// The format that was specified; ports are ignored then.
    given: Option<u8>,
    /// What all UDP datagrams are if a format was specified: that format, or none if it is not over UDP.
    given_udp: Option<u8>,
    /// The format with our header, and the layout without it.
    ours_and_bare: Option<(u8, u8)>,
    /// Origin of times, in the clock of the capture.
    anchor_ps: i128,
    /// Uncertainty of times between the clocks; `None` if they are not compared.
    error_ps: Option<i64>,
    last: i64,
    tally: Tally,
    /// Address of each worker.
    addresses: IdMap<u32, Ip>,
    /// Numbers of IPv6 sources.
    sources: SourceNumbers,
}

impl Input {
    /// Opens a capture.
    pub(crate) fn open(path: &Path, side: Side, formats: Formats, format: Option<&'static dyn Format>) -> Result<Self> {
        let named = |format: &dyn Format| formats.iter().position(|other| other.name() == format.name());
        let given = format.and_then(named).map(|index| index as u8);
        let is_over_udp = format.is_none_or(|format| format.ether_type().is_none());
        Ok(Input {
            reader: if path.is_dir() {
                Source::Frames(Box::new(Frames::open(path)?))
            } else {
                Source::File(Box::new(Reader::open(path)?))
            },
            path: path.to_owned(),
            decoder: Decoder {
                formats,
                side,
                ports: Ports::new(formats),
                given,
                given_udp: given.map(|given| if is_over_udp { given } else { NOBODY }),
                ours_and_bare: ours_and_bare(formats),
                anchor_ps: 0,
                error_ps: None,
                last: i64::MIN,
                tally: Tally::default(),
                addresses: IdMap::default(),
                sources: SourceNumbers::default(),
            },
            damage: None,
            ahead: (Vec::new(), 0),
        })
    }

    /// Counts times from the clocks' anchor and converts those of the server to the senders' clock.
    pub(crate) fn use_clocks(&mut self, clocks: &Clocks) {
        let side = self.decoder.side;
        let shift_ps = if side == Side::Server { -clocks.offset_ps() } else { 0 };
        let error = clocks.measured_offset().map_or(0, |(_, error)| error);
        self.decoder.error_ps = clocks.comparable().then_some(error);
        self.decoder.anchor_ps = i128::from(clocks.anchor_of(side)) * i128::from(NS) - i128::from(shift_ps);
    }

    /// Tells senders apart as all other files that use `sources`.
    pub(crate) fn use_sources(&mut self, sources: &SourceNumbers) {
        self.decoder.sources = sources.clone();
    }

    /// Returns the facts about this file, which was compared with its digests or not.
    pub(crate) fn into_facts(self, verified: Verified) -> InputFacts {
        let damage = self.damage.map(|error| error.to_string());
        let Decoder { side, tally, .. } = self.decoder;
        let (dropped, several_runs, faults) = match &self.reader {
            Source::File(reader) => (reader.dropped(), reader.anchors_differ(), Vec::new()),
            Source::Frames(frames) => (frames.dropped(), false, frames.faults().to_vec()),
        };
        let path = self.path.display().to_string();
        InputFacts { path, side, tally, damage, dropped, several_runs, faults, verified }
    }

    /// Returns its path, as given.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the anchor noted by the writer of this project.
    pub(crate) fn noted_anchor_unix_ns(&self) -> Option<u64> {
        match &self.reader {
            Source::File(reader) => reader.noted_anchor_unix_ns(),
            // Senders have their own anchor.
            Source::Frames(_) => None,
        }
    }

    /// Returns the origin of times if `first` is the time of the first packet of a known format: see [`Reader::anchor_unix_ns`].
    pub(crate) fn anchor_for(&self, first: Stamp) -> u64 {
        match &self.reader {
            Source::File(reader) => reader.anchor_unix_ns(first),
            Source::Frames(_) => u64::try_from(first.unix_ns()).unwrap_or(0),
        }
    }

    /// Returns the number of bytes read so far.
    pub(crate) fn bytes_read(&self) -> u64 {
        match &self.reader {
            Source::File(reader) => reader.bytes_read(),
            Source::Frames(frames) => frames.bytes_read(),
        }
    }

    /// Returns the length of the file; `None` for pipes.
    pub(crate) fn file_bytes(&self) -> Option<u64> {
        match &self.reader {
            Source::File(reader) => reader.file_bytes(),
            Source::Frames(frames) => Some(frames.file_bytes()),
        }
    }

    /// Returns the next packet that has a time, as captured, for determining the clocks: with the resolution of that time in ps.
    pub(crate) fn next_stamped(&mut self) -> Option<(Stamp, u64, Option<Sight>)> {
        loop {
            let packet = match &mut self.reader {
                Source::File(reader) => reader.next(),
                Source::Frames(frames) => frames.next(),
            };
            match packet {
                Ok(Some(packet)) => {
                    let Some(time) = packet.time else { continue };
                    let found = match look_at(&packet) {
                        Look::Udp(datagram) => self.decoder.sight(&datagram),
                        Look::Layer(kind, datagram) => self.decoder.layer(kind, &datagram).ok(),
                        _ => None,
                    };
                    return Some((time, packet.resolution_ps, found.map(|(_, sight)| sight)));
                }
                Ok(None) | Err(_) => return None,
            }
        }
    }

    /// Returns the coarsest resolution of the stamps read so far if it was captured at the server.
    pub(super) fn resolution_at_server(&self) -> Option<u64> {
        (self.decoder.side == Side::Server).then_some(self.decoder.tally.resolution_ps)
    }

    /// Whether a packet was earlier than the one before and the events were not sorted.
    pub(crate) fn is_unordered(&self) -> bool {
        self.decoder.tally.unordered > 0 && self.ahead.0.is_empty() && !self.decoder.tally.disordered
    }

    /// Reads up to the first packet that is earlier than the one before; returns whether there is one.
    pub(crate) fn lacks_order(mut self) -> bool {
        let mut events = Vec::new();
        loop {
            events.clear();
            self.fill(&mut events, SCANNED);
            if events.is_empty() || self.is_unordered() {
                return self.is_unordered();
            }
        }
    }

    /// Sorts its events by time unless there are more than `most`. Returns how many are held.
    pub(crate) fn sort(&mut self, most: usize) -> usize {
        let mut events = Vec::new();
        self.fill(&mut events, most.saturating_add(1));
        self.decoder.tally.disordered = events.len() > most;
        if !self.decoder.tally.disordered {
            events.sort_by_key(|event| event.t);
        }
        self.ahead = (events, 0);
        self.ahead.0.len().min(most)
    }

    /// Appends the next events until there are `most`; fewer at the end or where the file is damaged.
    pub(crate) fn fill(&mut self, events: &mut Vec<Event>, most: usize) {
        let Input { reader, decoder, damage, ahead: (ahead, gone), .. } = self;
        let count = most.saturating_sub(events.len()).min(ahead.len() - *gone);
        events.extend_from_slice(&ahead[*gone..*gone + count]);
        *gone += count;
        while events.len() < most && damage.is_none() {
            // One branch per source: a packet that may come from either of two is copied once more.
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

/// Counts workers whose address in a file is another one than in a file before, of the same side.
pub(crate) fn compare_addresses(inputs: &mut [Input]) {
    for side in Side::ALL {
        let mut known: IdMap<u32, Ip> = IdMap::default();
        for input in inputs.iter_mut().filter(|input| input.decoder.side == side) {
            let Decoder { addresses, tally, .. } = &mut input.decoder;
            for (worker, ip) in addresses.iter() {
                tally.shared += u64::from(*known.entry(*worker).or_insert(*ip) != *ip);
            }
        }
    }
}

impl Decoder {
    /// Appends the events of a packet.
    #[inline(always)]
    fn take(&mut self, packet: &Packet, events: &mut Vec<Event>) {
        self.tally.packets += 1;
        self.tally.bytes += u64::from(frame_bytes(packet.link_type, packet.len));
        // Most packets are recognised by a quick check.
        if let Some(datagram) = glance(packet.link_type, packet.bytes) {
            let format = self.format(&datagram);
            if let Some(sight) = self.formats.get(usize::from(format)).and_then(|known| known.sight(&datagram)) {
                let (format, sight) = self.as_it_came(format, sight, &datagram);
                let content = self.content(format, &sight, &datagram);
                return self.keep(packet, Found { format, sight, content, src: datagram.src }, events);
            }
        }
        match self.closely(packet) {
            Ok(found) => self.keep(packet, found, events),
            Err(Odd::Other) => self.tally.other += 1,
            Err(Odd::Link) => {
                self.tally.other += 1;
                self.tally.links += 1;
            }
            Err(Odd::Foreign) => self.tally.foreign += 1,
            Err(Odd::Misfit) => {
                self.tally.foreign += 1;
                self.tally.misfits += 1;
            }
            Err(Odd::Undirected) => {
                self.tally.foreign += 1;
                self.tally.undirected += 1;
            }
            Err(Odd::Unreadable) => self.tally.unreadable += 1,
            Err(Odd::Fragment) => self.tally.fragments += 1,
        }
    }

    #[inline(always)]
    fn keep(&mut self, packet: &Packet, found: Found, events: &mut Vec<Event>) {
        let Found { format, sight, content, src } = found;
        let sane = |t: &i64| t.unsigned_abs() <= HORIZON as u64;
        let Some(time) = packet.time else {
            self.tally.timeless += 1;
            return;
        };
        let at = i64::try_from(time.unix_ps() - self.anchor_ps).ok().filter(sane);
        // Only packets with a generation time are known by their worker.
        let fits = |generation| sane(generation) && sight.worker.is_none_or(|worker| worker < PacketId::WORKERS_MAX);
        let Some(t) = at.filter(|_| sight.generation.as_ref().is_none_or(fits)) else {
            self.tally.absurd += 1;
            self.tally.distant += u64::from(at.is_none());
            return;
        };
        // An aggregate has the address of any of its members.
        if sight.count == 1
            && src != 0
            && let (What::Update, Some(worker), Some(_)) = (sight.what, sight.worker, sight.generation)
        {
            self.tally.shared += u64::from(*self.addresses.entry(worker).or_insert(src) != src);
        }
        self.tally.unordered += u64::from(t < self.last);
        self.last = t;
        self.tally.resolution_ps = self.tally.resolution_ps.max(packet.resolution_ps);
        if let Some(generation) = sight.generation
            && generation > t
            && self.side == Side::Server
            && sight.what == What::Update
        {
            self.early(generation - t, packet.resolution_ps);
        }
        // The address tells senders apart where the packet names no worker.
        let content = if (sight.what, sight.worker) == (What::Update, None) { src } else { content };
        let bytes = frame_bytes(packet.link_type, packet.len);
        events.push(Event { t, side: self.side, bytes, format, sight, content });
    }

    /// Counts a packet captured `before_ps` its generation, unless that is within the uncertainty of times.
    #[cold]
    fn early(&mut self, before_ps: i64, resolution_ps: u64) {
        if let Some(error_ps) = self.error_ps {
            self.tally.early += u64::from(before_ps >= uncertainty(error_ps, resolution_ps));
        }
    }

    #[inline(never)]
    fn closely(&mut self, packet: &Packet) -> std::result::Result<Found, Odd> {
        match look_at(packet) {
            Look::Udp(datagram) => match self.sight(&datagram) {
                Some((format, sight)) => {
                    let content = self.content(format, &sight, &datagram);
                    Ok(Found { format, sight, content, src: self.sources.of(&datagram) })
                }
                None if self.is_undirected(&datagram) => Err(Odd::Undirected),
                // It cannot be of the specified format, or its ports are of none.
                None if self.format(&datagram) == NOBODY => Err(Odd::Foreign),
                // A packet cut within its header may be of a known format.
                None if datagram.payload.len() < datagram.whole.min(CUT) => Err(Odd::Unreadable),
                None if self.ports.format(&datagram) != NOBODY => Err(Odd::Misfit),
                None => Err(Odd::Foreign),
            },
            Look::Layer(kind, datagram) => {
                let (format, sight) = self.layer(kind, &datagram)?;
                Ok(Found { format, sight, content: self.content(format, &sight, &datagram), src: datagram.src })
            }
            Look::Other => Err(Odd::Other),
            Look::Link => Err(Odd::Link),
            Look::Fragment => Err(Odd::Fragment),
            Look::Unreadable => Err(Odd::Unreadable),
        }
    }

    /// Records a result; returns a digest of its first values if several sums may share one header.
    #[inline]
    fn content(&mut self, format: u8, sight: &Sight, datagram: &Datagram) -> u32 {
        let Some(known) = self.formats.get(usize::from(format)).filter(|_| sight.what == What::Result) else {
            return 0;
        };
        match (known.delivery(), &known.facts().lanes) {
            (Delivery::ResultsOfAll, _) => self.note_group(datagram.dst),
            (Delivery::Results, Some(form)) => {
                let before = form.offset - HEAD;
                let values = datagram.payload.get(before..).unwrap_or_default();
                let first = values.len().min(DIGESTED);
                self.note_values(first, datagram.whole.saturating_sub(before).min(DIGESTED));
                return digest(&values[..first]);
            }
            _ => {}
        }
        0
    }

    /// Records by how many bytes of values a result is told apart, and by how many it would be if it were whole.
    #[inline]
    fn note_values(&mut self, first: usize, whole: usize) {
        let tally = &mut self.tally;
        tally.values_most = tally.values_most.max(first);
        if first < whole {
            tally.values_cut = Some(tally.values_cut.map_or(first, |least| least.min(first)));
        }
    }

    /// Records the group of a result with all workers: results of several jobs have the same numbers.
    fn note_group(&mut self, dst: Ip) {
        if let Some(group) = group_of(dst) {
            let first = *self.tally.group.get_or_insert(group);
            self.tally.regrouped += u64::from(first != group);
        }
    }

    /// Returns the specified format of a datagram if that is over UDP, or the one that its ports indicate.
    #[inline]
    fn format(&self, datagram: &Datagram) -> u8 {
        self.given_udp.unwrap_or_else(|| self.ports.format(datagram))
    }

    /// Whether the direction of a datagram cannot be determined.
    fn is_undirected(&self, datagram: &Datagram) -> bool {
        let format = self.formats.get(usize::from(self.format(datagram)));
        format.is_some_and(|format| format.lacks_direction(datagram))
    }

    /// Returns the format and contents of a datagram.
    fn sight(&self, datagram: &Datagram) -> Option<(u8, Sight)> {
        let format = self.format(datagram);
        if let Some(known) = self.formats.get(usize::from(format)) {
            return if self.is_undirected(datagram) {
                None
            } else {
                known.sight(datagram).map(|sight| self.as_it_came(format, sight, datagram))
            };
        }
        let background = datagram.dst_port == DISCARD && datagram.src & 0xffff_0000 == BACKGROUND_NET;
        let nothing = Sight {
            what: What::Update,
            cluster: NO_CLUSTER,
            worker: None,
            seq: 0,
            round: 0,
            attempt: 0,
            generation: None,
            count: 1,
            elements: 0,
        };
        background.then_some((BACKGROUND, nothing))
    }

    /// Returns what a packet shows if it came without our header, which a run restored: its number, time and count are no more known than
    /// on the wire (docs/strict.md).
    #[inline]
    fn as_it_came(&self, format: u8, sight: Sight, datagram: &Datagram) -> (u8, Sight) {
        match self.ours_and_bare {
            Some((ours, bare)) if format == ours && is_headless(datagram.payload) => {
                (bare, Sight { seq: 0, attempt: 0, generation: None, count: 1, ..sight })
            }
            _ => (format, sight),
        }
    }

    /// Parses a format that follows IPv4 in an Ethernet type of its own, if no other one was specified.
    fn layer(&self, kind: u16, datagram: &Datagram) -> std::result::Result<(u8, Sight), Odd> {
        let fits = |index: &usize| self.formats[*index].ether_type() == Some(kind);
        let known = match self.given {
            Some(given) => Some(usize::from(given)).filter(fits),
            None => (0..self.formats.len()).find(fits),
        };
        let known = known.ok_or(Odd::Other)?;
        let datagram = &self.formats[known].packet_in(*datagram);
        match self.formats[known].sight(datagram) {
            Some(sight) => Ok((known as u8, sight)),
            // Its Ethernet type is the format's own: it was cut within its header, or does not fit the format.
            None if datagram.payload.len() < datagram.whole.min(CUT) => Err(Odd::Unreadable),
            None => Err(Odd::Misfit),
        }
    }
}

/// Returns the indices of the format with our header and of the layout without it, if both are known.
fn ours_and_bare(formats: Formats) -> Option<(u8, u8)> {
    let ours = formats.iter().position(|format| format.facts().updates == Captured::Ours)?;
    let bare = formats.iter().position(|format| matches!(format.facts().updates, Captured::Headless(_)))?;
    Some((ours as u8, bare as u8))
}

/// A packet that is an event: see [`Event`].
struct Found {
    format: u8,
    sight: Sight,
    content: u32,
    /// Source address, or what stands for it.
    src: Ip,
}

/// Returns the uncertainty of a difference of times: that between the clocks, and the resolution of the stamps.
fn uncertainty(error_ps: i64, resolution_ps: u64) -> i64 {
    i64::try_from(resolution_ps).unwrap_or(i64::MAX).saturating_add(error_ps)
}

/// Returns by how much packets of the server may seem to arrive before their generation, with the coarsest of these resolutions: 0 if the
/// clocks are not compared.
pub(super) fn early_within_ps(clocks: &Clocks, resolutions_ps: impl Iterator<Item = u64>) -> i64 {
    let error_ps = clocks.measured_offset().map_or(0, |(_, error)| error);
    if clocks.comparable() { uncertainty(error_ps, resolutions_ps.max().unwrap_or(0)) } else { 0 }
}

/// Returns the 32-bit FNV-1a hash.
fn digest(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Why a packet is not an event.
enum Odd {
    Other,
    Link,
    Foreign,
    Misfit,
    Undirected,
    Unreadable,
    Fragment,
}

/// Shorter payloads than this may lack a part of a header.
const CUT: usize = 64;
/// Length of the values that distinguish results: captures of the first 128 bytes of packets contain them.
const DIGESTED: usize = 64;

#[cfg(test)]
mod tests {
    use pktgen_registry::all;

    use super::*;

    #[test]
    fn a_port_belongs_to_the_first_format_that_has_it() {
        let formats = all().protocols.formats;
        let Ports(table) = Ports::new(formats);
        for port in 0..=u16::MAX {
            let first = formats.iter().position(|format| format.has_port(port));
            assert_eq!(table[usize::from(port)], first.map_or(NOBODY, |first| first as u8), "port {port}");
        }
    }
}
