//! Captures of a wire format: what their packets say of the updates in them, and no more (docs/import.md).
//!
//! OLAF's header names worker, cluster, number, reward and generation time, so that an update comes back as it was sent.
//! Of all other formats the bytes say who and how large; the time is the capture's, and numbers are counted.

mod order;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::sink::Sink;
use super::{GZIP, ImportOptions, Importer, Notes, ZSTANDARD, counted, name_of};
use crate::pcap::{Packet, Reader, Stamp};
use crate::registry::Named;
use crate::time::{NS, SECOND};
use crate::wire::frame::HEAD;
use crate::wire::sight::{AttemptMarks, Datagram, Delivery, Look, Renewal, Sight, What, look_at};
use crate::wire::{Captured, Format, Formats, update};
use crate::{Error, Result};

/// Most updates, and most values of all: they are held in memory until they are in the order of time.
const UPDATES_MAX: usize = 1 << 24;
const VALUES_MAX: usize = 1 << 28;
/// How long after its original a copy may be, in picoseconds: a later packet with its number is of another run.
const COPY_WITHIN: i128 = SECOND as i128;
/// How many packets of its sender a copy may be behind that was cut, since it may have a part of the number only.
const NEAR: u64 = 1024;
/// Senders without a number of their own are known by their address: above all numbers.
const BY_ADDRESS: u64 = 1 << 32;

/// Who sent an update: a worker, in the order of their numbers or addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Sender {
    /// See [`BY_ADDRESS`].
    number: u64,
    /// Where packets name a job that sums: its workers may be numbered within it.
    job: Option<u16>,
}

impl Sender {
    /// Who it is, for people.
    fn name(self) -> String {
        let [a, b, c, d] = (self.number as u32).to_be_bytes();
        if self.number < BY_ADDRESS { self.number.to_string() } else { format!("{a}.{b}.{c}.{d}") }
    }
}

/// The importer.
pub struct Pcap;

impl Named for Pcap {
    fn name(&self) -> &'static str {
        "pcap"
    }
    fn about(&self) -> &'static str {
        "pcap and pcapng of a wire format, plain or compressed: first transmissions of updates, without ACKs and copies"
    }
}

impl Importer for Pcap {
    fn extensions(&self) -> &'static [&'static str] {
        &["pcap", "pcapng", "cap"]
    }

    fn unpacks(&self) -> &'static [&'static str] {
        &[GZIP, ZSTANDARD]
    }

    fn begins(&self, head: &[u8]) -> bool {
        let magics = [[0xd4, 0xc3, 0xb2, 0xa1], [0x4d, 0x3c, 0xb2, 0xa1], [0x0a, 0x0d, 0x0d, 0x0a]];
        magics.iter().any(|magic| head.starts_with(magic) || head.iter().take(4).rev().eq(magic))
    }

    fn several(&self) -> bool {
        true
    }

    fn flags(&self) -> &'static [&'static str] {
        &["--wire"]
    }

    fn read(&self, inputs: &[PathBuf], options: &ImportOptions, sink: &mut Sink) -> Result<Notes> {
        let mut gathered = Gathered::new(options.wire, options.formats);
        for (file, input) in inputs.iter().enumerate() {
            gathered.file = file;
            gathered.read(input)?;
        }
        let Some(format) = gathered.format.filter(|_| !gathered.found.is_empty()) else {
            return Err(Error::data(&inputs[0], gathered.nothing()));
        };
        let mut notes = Notes::new();
        notes.insert("wire".to_owned(), format.name().to_owned());
        if let Some(passed) = counted(gathered.passed.iter().map(|(what, n)| (*what, *n))) {
            notes.insert("passed_over".to_owned(), passed);
        }
        order::push(gathered, inputs, sink, &mut notes)?;
        Ok(notes)
    }
}

/// An update that was found.
struct Found {
    /// Generation in picoseconds where the packet says it, else when it was captured, in those since 1970.
    t: i128,
    file: usize,
    /// From 1 on, as tools count.
    packet: u64,
    sender: Sender,
    seq: u32,
    cluster: u16,
    bytes: u32,
    reward: Option<f32>,
    values: Range<usize>,
    /// Whether only a part of the packet was captured.
    is_cut: bool,
}

/// All updates of all files.
struct Gathered {
    /// Those that there are.
    formats: Formats,
    /// Given, or that of the first update.
    format: Option<&'static dyn Format>,
    given: bool,
    /// The one that is being read.
    file: usize,
    found: Vec<Found>,
    values: Vec<f32>,
    /// Sender, number and generation of what was found, where packets have these, with the transmission and the place in `found`.
    seen: HashMap<(Sender, u32, i64), (u8, usize)>,
    /// When packets were captured whose numbers go on, and how many of their sender came before; by receiver (IPv4, else 0), since a sender may
    /// count for each.
    first: HashMap<(Sender, u32, u32), (i128, u64)>,
    /// Number of such packets of each sender.
    sent: HashMap<Sender, u64>,
    /// What was no update, and what was seen before.
    passed: BTreeMap<&'static str, u64>,
    /// Updates of which not all was kept.
    cut: u64,
    /// Updates whose frame is another than the captured one.
    grown: u64,
    /// Updates that begin with lanes, and those that came without a header of ours.
    lanes: u64,
    headless: u64,
    /// What captured times count from, in ps since 1970, the earliest of all files: the start of the run (`true`) where a file notes one,
    /// else its earliest packet, also near 1970, where clocks of boards begin.
    origin: Option<(i128, bool)>,
}

impl Gathered {
    fn new(format: Option<&'static dyn Format>, formats: Formats) -> Self {
        Gathered {
            formats,
            format,
            given: format.is_some(),
            file: 0,
            found: Vec::new(),
            values: Vec::new(),
            seen: HashMap::new(),
            first: HashMap::new(),
            sent: HashMap::new(),
            passed: BTreeMap::new(),
            cut: 0,
            grown: 0,
            lanes: 0,
            headless: 0,
            origin: None,
        }
    }

    fn read(&mut self, path: &Path) -> Result<()> {
        let mut reader = Reader::open(path)?;
        let mut number = 0;
        let (mut first, mut noted) = (None, None);
        while let Some(packet) = reader.next()? {
            number += 1;
            // Packets need not be in the order of time.
            first = first.into_iter().chain(packet.time).min();
            self.packet(&packet, number).map_err(|what| Error::data(path, format!("packet {number}: {what}")))?;
            // As in analyses: the note of a later section is not that of the packets before.
            if number == 1 {
                noted = reader.noted_anchor_unix_ns();
            }
        }
        if let Some(first) = first {
            // Sections of several runs have no common start.
            let origin = match noted.filter(|_| !reader.anchors_differ()) {
                Some(noted) => (i128::from(noted) * i128::from(NS), true),
                None => (first.unix_ps(), false),
            };
            self.origin = self.origin.into_iter().chain([origin]).min();
        }
        Ok(())
    }

    fn pass(&mut self, what: &'static str) -> Result<(), String> {
        *self.passed.entry(what).or_insert(0) += 1;
        Ok(())
    }

    fn packet(&mut self, packet: &Packet, number: u64) -> Result<(), String> {
        let (datagram, format) = match look_at(packet) {
            Look::Udp(datagram) => (datagram, self.format_of(&datagram)),
            Look::Layer(kind, datagram) => match self.format_of_type(kind) {
                Some(format) => (format.packet_in(datagram), Some(format)),
                None => return self.pass("other"),
            },
            Look::Fragment => return self.pass("fragment"),
            Look::Unreadable => return self.pass("unreadable"),
            Look::Other | Look::Link => return self.pass("other"),
        };
        // A result could look like an update.
        let format = format.filter(|format| !format.lacks_direction(&datagram));
        let Some((format, sight)) = format.and_then(|format| Some((format, format.sight(&datagram)?))) else {
            return self.pass("foreign");
        };
        match sight.what {
            What::Update => self.update(packet, number, &datagram, format, sight),
            other => self.pass(other.name()),
        }
    }

    /// The format of an Ethernet type: only the one that was given, if any.
    fn format_of_type(&self, kind: u16) -> Option<&'static dyn Format> {
        if self.given {
            return self.format.filter(|format| format.ether_type() == Some(kind));
        }
        self.formats.iter().find(|format| format.ether_type() == Some(kind)).copied()
    }

    /// The format that was given, if it is over UDP, or what the ports say.
    fn format_of(&self, datagram: &Datagram) -> Option<&'static dyn Format> {
        if self.given {
            return self.format.filter(|format| format.ether_type().is_none());
        }
        let of = |port: u16| self.formats.iter().find(|format| format.has_port(port)).copied();
        of(datagram.dst_port).or_else(|| of(datagram.src_port))
    }

    fn update(
        &mut self,
        packet: &Packet,
        number: u64,
        datagram: &Datagram,
        format: &'static dyn Format,
        sight: Sight,
    ) -> Result<(), String> {
        let before = *self.format.get_or_insert(format);
        if before.name() != format.name() {
            return Err(format!(
                "{}, after updates of {}; name the one to take with --wire",
                format.name(),
                before.name()
            ));
        }
        let named = match (sight.worker, datagram.src) {
            (Some(worker), _) => u64::from(worker),
            (None, 0) => return Err(format!("neither {} nor an IPv4 address says who sent it", format.name())),
            (None, ip) => BY_ADDRESS | u64::from(ip),
        };
        let kind = format.facts().updates;
        let sender = Sender { number: named, job: (kind == Captured::OfJobs).then_some(sight.cluster) };
        let ours = kind == Captured::Ours;
        let flags = if ours { datagram.payload.get(1).copied().unwrap_or(0) } else { 0 };
        if sight.count != 1 || flags & (update::FLAG_MERGED | update::FLAG_PARTIAL) != 0 {
            return Err(format!(
                "an aggregate of {} updates, which does not name them; take a capture from before the device",
                sight.count
            ));
        }
        // Numbers of other formats begin again with every iteration, or there are none. A number with another generation is of
        // another update: its worker began anew.
        let update = (sender, sight.seq, sight.generation.unwrap_or_default());
        let is_cut = datagram.payload.len() < datagram.whole;
        if ours && let Some(&(attempt, at)) = self.seen.get(&update) {
            // A whole packet replaces a cut one, so that files may be in any order.
            if self.found[at].is_cut && !is_cut {
                let (reward, values) = self.content(format, datagram);
                self.room(self.found.len())?;
                let (file, found) = (self.file, &mut self.found[at]);
                (found.file, found.packet, found.is_cut) = (file, number, false);
                (found.reward, found.values) = (reward, values);
                self.cut -= 1;
            }
            return self.pass(if sight.attempt == attempt { "duplicate" } else { "retransmission" });
        }
        if ours {
            self.seen.insert(update, (sight.attempt, self.found.len()));
        }
        if !ours && sight.attempt > 0 {
            return self.pass("retransmission");
        }
        if !ours && self.is_copy((sender, datagram.dst, sight.seq), format, packet.time, is_cut) {
            return self.pass("duplicate");
        }
        let t = match (sight.generation, packet.time) {
            (Some(t), _) => i128::from(t),
            (None, Some(stamp)) => stamp.unix_ps(),
            (None, None) => return Err(format!("{} carries no time, and the capture has none for it", format.name())),
        };
        let (reward, values) = self.content(format, datagram);
        self.lanes += u64::from(flags & update::FLAG_LANES != 0);
        self.headless += u64::from(flags & update::FLAG_HEADLESS != 0);
        let bytes = self.frame_bytes(format, datagram, &sight);
        self.room(self.found.len() + 1)?;
        let (seq, cluster) = (sight.seq, if kind == Captured::OfTensors { 0 } else { sight.cluster });
        let file = self.file;
        self.found.push(Found { t, file, packet: number, sender, seq, cluster, bytes, reward, values, is_cut });
        Ok(())
    }

    /// Refuses more updates or values than are held.
    fn room(&self, updates: usize) -> Result<(), String> {
        if updates <= UPDATES_MAX && self.values.len() <= VALUES_MAX {
            return Ok(());
        }
        Err(format!(
            "there are more than {UPDATES_MAX} updates or {VALUES_MAX} values, which are held until they are in order; \
             split the capture by time"
        ))
    }

    /// Whether this number of a sender to a receiver was captured before, where numbers go on through all iterations.
    fn is_copy(&mut self, packet: (Sender, u32, u32), format: &dyn Format, time: Option<Stamp>, is_cut: bool) -> bool {
        let facts = format.facts();
        let goes_on = matches!(facts.transmissions, AttemptMarks::Numbered(_))
            || facts.renewal == Renewal::Sequences && format.delivery() == Delivery::Updates;
        let Some(t) = time.map(Stamp::unix_ps).filter(|_| goes_on) else { return false };
        let sent = self.sent.entry(packet.0).or_insert(0);
        *sent += 1;
        let before = self.first.insert(packet, (t, *sent));
        before.is_some_and(|(then, at)| (t - then).abs() <= COPY_WITHIN && !(is_cut && *sent - at > NEAR))
    }

    /// How long the frame is in a trace: tags of networks are no part of it.
    fn frame_bytes(&mut self, format: &dyn Format, datagram: &Datagram, sight: &Sight) -> u32 {
        // What has no ports has no UDP header.
        let captured = if datagram.dst_port == 0 { HEAD - 8 } else { HEAD } + datagram.whole;
        let wanted = match format.facts().updates {
            // What is sent of such a frame when it is replayed with `on_wire = "strict"` is what was captured.
            Captured::Headless(_) => HEAD + update::UPDATE_HEAD + usize::from(sight.elements) * 4,
            _ => captured.max(update::FRAME_MIN),
        };
        self.grown += u64::from(wanted != captured);
        wanted as u32
    }

    /// Reward and gradients, where the format has them as floats; the place of the gradients is given.
    fn content(&mut self, format: &dyn Format, datagram: &Datagram) -> (Option<f32>, Range<usize>) {
        let start = self.values.len();
        let kind = format.facts().updates;
        let head = match kind {
            Captured::Ours => update::UPDATE_HEAD,
            Captured::Headless(head) => head,
            Captured::OfJobs | Captured::OfTensors => return (None, start..start),
        };
        // The reward ends the head of both.
        let reward = datagram.payload.get(head - 4..head).and_then(|bytes| bytes.first_chunk::<4>().copied());
        if datagram.payload.len() < datagram.whole {
            self.cut += 1;
        } else {
            let gradients =
                if kind == Captured::Ours { update::gradients(datagram.payload) } else { &datagram.payload[head..] };
            self.values.extend(gradients.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)));
        }
        (reward.map(f32::from_le_bytes), start..self.values.len())
    }

    /// Why there is no update.
    fn nothing(&self) -> String {
        let passed =
            counted(self.passed.iter().map(|(what, n)| (*what, *n))).unwrap_or_else(|| "no packets".to_owned());
        let names: Vec<_> = self.formats.iter().map(|format| format.name()).collect();
        format!(
            "no updates of a format that is known, but {passed}; formats are known by their ports, or given by --wire: {}",
            names.join(", ")
        )
    }
}

/// Where an update was.
fn place(found: &Found, inputs: &[PathBuf]) -> String {
    let file = inputs.get(found.file).filter(|_| inputs.len() > 1).map(|path| name_of(path) + ": ");
    format!("{}packet {}", file.unwrap_or_default(), found.packet)
}
