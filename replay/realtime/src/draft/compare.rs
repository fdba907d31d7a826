//! Comparison of a capture with the expected frames of its run: finds the first wrong field of the first wrong packet.
//!
//! Used by `pktgen device compare`. Frames are made as workers make them; a captured frame is compared with those of
//! its sender that have not been seen yet, and is identified with the most similar one. Towards the device every bit
//! must be equal; behind it, fields that the device rewrites, according to its profile, are ignored.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use pktgen_core::time::NEVER;
use pktgen_core::{Error, Result};
use pktgen_wire::pcap::Reader;
use pktgen_wire::wire::Format;
use pktgen_wire::wire::frame::Ip;
use serde::Serialize;

use super::outward::Outward;
use super::parts::{Part, parts};
use crate::endpoint::{Host, Workers};
use crate::frame::Pool;
use crate::launch::is_marked;
use crate::parts::Parts;
use crate::plan::Plan;

/// Number of a sender's next frames with which a captured one is compared: as many may be lost in a row.
const LOOK: usize = 256;
/// Maximum bytes of frames held for other senders during the search for one sender's.
const HELD_MAX: usize = 1 << 30;

/// The place of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// On the cable between workers and device.
    Workers,
    /// Behind the device.
    Server,
}

/// A wrong packet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Wrong {
    /// Its number in the capture, from 1 on, as in Wireshark.
    pub packet: u64,
    /// Its defect.
    #[serde(flatten)]
    pub mistake: Mistake,
}

/// A defect of a packet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "mistake", rename_all = "snake_case")]
pub enum Mistake {
    /// A field with a wrong value.
    Field {
        /// The field, such as `ip.dst`, `olaf.cluster` or `olaf.gradient[17]`.
        field: String,
        /// Its first byte in the frame.
        byte: usize,
        /// The expected value.
        expected: String,
        /// The actual value.
        found: String,
    },
    /// A copy: the same bytes came before.
    Copy {
        /// The number of the earlier packet.
        of: u64,
    },
    /// A surplus packet: all frames of its sender came before.
    Surplus,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Wrong { packet, mistake } = self;
        match mistake {
            Mistake::Field { field, byte, expected, found } => {
                write!(f, "packet {packet}: {field} (byte {byte}) is {found}, and should be {expected}")
            }
            Mistake::Copy { of } => write!(f, "packet {packet} is a copy of packet {of}"),
            Mistake::Surplus => write!(f, "packet {packet} is more than this sender should send"),
        }
    }
}

/// The result of a comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Compared {
    /// Packets of the capture.
    pub packets: u64,
    /// Packets from addresses outside the run, and probes: answers, and foreign traffic.
    pub others: u64,
    /// Correct packets.
    pub right: u64,
    /// Wrong packets.
    pub wrong: u64,
    /// Wrong packets that are copies of earlier packets.
    pub copies: u64,
    /// Right packets that came behind later ones of their sender.
    pub reordered: u64,
    /// Frames of the run that are not in the capture. Of a run that a goal ends, only those before the last one that is there; `None` for a
    /// damaged file, which may contain them behind the damage.
    pub passed_over: Option<u64>,
    /// The first wrong packet.
    pub first: Option<Wrong>,
    /// Damage at which reading ended before the capture's end.
    pub damage: Option<String>,
}

/// Compares `capture` with the frames of a run.
pub fn compare(plan: Plan, capture: &Path, at: At) -> Result<Compared> {
    if plan.parts.declared.reacts {
        return Err(Error::config(
            "endpoint.workers: their frames depend on results, which a capture does not contain; only frames of \
             \"open_loop\" can be compared",
        ));
    }
    let rewrites = match at {
        At::Workers => Vec::new(),
        At::Server => plan.spec.hardware.as_ref().map_or_else(Vec::new, |hardware| hardware.profile.rewrites.clone()),
    };
    let has_goal = plan.spec.capture.goal.is_some();
    let mut expected = Expected::new(plan)?;
    let judge = Judge { rewrites, at, ours: expected.outward.ours, format: expected.outward.format };
    let mut compared = Compared::default();
    let mut passed_over = 0;
    let mut earlier = Earlier::default();
    let mut reader = Reader::open(capture)?;
    loop {
        let packet = match reader.next() {
            Ok(Some(packet)) => packet,
            Ok(None) => break,
            Err(error) => {
                compared.damage = Some(error.to_string());
                break;
            }
        };
        compared.packets += 1;
        let number = compared.packets;
        let is_probe = is_marked(packet.bytes);
        if packet.bytes.len() < packet.len as usize && !is_probe && !expected.is_of_others(packet.bytes) {
            return Err(was_cut(capture, number, packet.bytes.len(), packet.len));
        }
        // The probe before a run has the address of a worker.
        let waiting = if is_probe { None } else { expected.waiting(packet.bytes)? };
        let Some(waiting) = waiting else {
            compared.others += 1;
            continue;
        };
        let exact = judge.exact(waiting, packet.bytes);
        let copied = earlier.seen(packet.bytes, number).filter(|_| exact.is_none());
        let found = match (exact, copied) {
            (Some(place), _) => Ok(place),
            (None, Some(of)) => Err(Mistake::Copy { of }),
            (None, None) => judge.nearest(waiting, packet.bytes),
        };
        match found {
            Ok(place) => {
                compared.reordered += u64::from(matches!(place, Place::Behind(_)));
                let (gone, lost) = waiting.take(place);
                expected.held -= gone;
                passed_over += lost;
                compared.right += 1;
            }
            Err(mistake) => {
                compared.wrong += 1;
                compared.copies += u64::from(matches!(mistake, Mistake::Copy { .. }));
                compared.first.get_or_insert(Wrong { packet: number, mistake });
            }
        }
    }
    if compared.damage.is_none() {
        passed_over += expected.waiting.values().map(|own| own.behind.len() as u64).sum::<u64>();
        let rest = if has_goal { 0 } else { expected.rest() };
        compared.passed_over = Some(passed_over + rest);
    }
    Ok(compared)
}

/// An error for a packet of the run that is not whole.
fn was_cut(capture: &Path, number: u64, kept: usize, len: u32) -> Error {
    Error::data(
        capture,
        format!(
            "packet {number} was cut to {kept} of {len} bytes; capture whole frames (pktgen capture --snap 65549, tcpdump -s 0)"
        ),
    )
}

/// The latest packets of every sender, by a hash of their bytes, with their numbers.
#[derive(Default)]
struct Earlier(HashMap<Option<Ip>, VecDeque<(u64, u64)>>);

impl Earlier {
    /// Registers a packet; returns the number of an earlier one with the same bytes.
    fn seen(&mut self, frame: &[u8], number: u64) -> Option<u64> {
        let mut hasher = DefaultHasher::new();
        frame.hash(&mut hasher);
        let hash = hasher.finish();
        let own = self.0.entry(source_of(frame)).or_default();
        let found = own.iter().find(|(other, _)| *other == hash).map(|(_, number)| *number);
        if found.is_none() {
            if own.len() == LOOK {
                own.pop_front();
            }
            own.push_back((hash, number));
        }
        found
    }
}

/// The frames of a sender that have not been seen.
#[derive(Default)]
struct Waiting {
    /// Those before the last one seen, the latest [`LOOK`] of them.
    behind: VecDeque<Vec<u8>>,
    /// Those after it.
    ahead: VecDeque<Vec<u8>>,
}

/// The place of a frame that was not seen yet.
#[derive(Debug, Clone, Copy)]
enum Place {
    Behind(usize),
    Ahead(usize),
}

impl Waiting {
    /// Returns the candidates for a captured frame, those in order first.
    fn all(&self) -> impl Iterator<Item = (Place, &Vec<u8>)> {
        let ahead = self.ahead.iter().take(LOOK).enumerate().map(|(i, frame)| (Place::Ahead(i), frame));
        ahead.chain(self.behind.iter().enumerate().map(|(i, frame)| (Place::Behind(i), frame)))
    }

    /// Takes the frame at `place`. Returns the bytes that are no longer ahead, and the number of frames that are given up.
    fn take(&mut self, place: Place) -> (usize, u64) {
        match place {
            Place::Behind(place) => {
                self.behind.remove(place);
                (0, 0)
            }
            Place::Ahead(place) => {
                let passed = self.ahead.iter().take(place + 1).map(Vec::len).sum();
                self.behind.extend(self.ahead.drain(..place));
                self.ahead.pop_front();
                let lost = self.behind.len().saturating_sub(LOOK);
                self.behind.drain(..lost);
                (passed, lost as u64)
            }
        }
    }
}

/// The frames of the run by sender, made on demand.
struct Expected {
    workers: Box<dyn Workers>,
    until: i64,
    outward: Outward,
    pool: Pool,
    host: Host,
    /// By source address.
    waiting: HashMap<Ip, Waiting>,
    /// Total bytes of those ahead; those behind are few for each sender.
    held: usize,
    over: bool,
}

impl Expected {
    fn new(plan: Plan) -> Result<Self> {
        let outward = Outward::of(&plan)?;
        let Parts { workers, frame_bytes, .. } = plan.parts;
        Ok(Expected {
            workers,
            until: plan.spec.capture.until,
            outward,
            pool: Pool::new(frame_bytes, 64),
            host: Host::default(),
            waiting: HashMap::new(),
            held: 0,
            over: false,
        })
    }

    /// Whether a captured frame, of which a part may be missing, is certainly from an address outside the run.
    fn is_of_others(&self, captured: &[u8]) -> bool {
        let at = if captured.get(12..14) == Some(&[0x81, 0x00][..]) { 16 } else { 12 };
        match captured.get(at..at + 2) {
            Some([0x08, 0x00]) => source_of(captured).is_some_and(|source| !self.outward.sources.contains(&source)),
            Some(_) => true,
            None => false,
        }
    }

    /// Returns the candidates for a captured frame; `None` if no worker of the run has its source address.
    fn waiting(&mut self, captured: &[u8]) -> Result<Option<&mut Waiting>> {
        let Some(source) = source_of(captured).filter(|source| self.outward.sources.contains(source)) else {
            return Ok(None);
        };
        while !self.over && self.waiting.get(&source).is_none_or(|own| own.ahead.len() < LOOK) {
            self.make();
            if self.held > HELD_MAX {
                return Err(Error::config(format!(
                    "the capture lacks so many frames of other workers that more than {HELD_MAX} bytes wait for them; \
                     compare a capture of all workers, or a shorter run"
                )));
            }
        }
        Ok(Some(self.waiting.entry(source).or_default()))
    }

    /// How many frames are left after the last ones that were seen.
    fn rest(&mut self) -> u64 {
        let mut left = 0;
        loop {
            left += self.waiting.values_mut().map(|own| own.ahead.drain(..).len() as u64).sum::<u64>();
            if self.over {
                return left;
            }
            self.make();
        }
    }

    /// The next frames.
    fn make(&mut self) {
        let wake = self.workers.next_wake();
        if wake == NEVER || wake > self.until {
            self.over = true;
            return;
        }
        self.workers.pull(wake, &mut self.pool, &mut self.host);
        for outgoing in self.host.outgoing.drain(..) {
            let bytes = self.outward.frame(self.pool.frame(&outgoing.frame));
            if let Some(source) = source_of(bytes) {
                self.held += bytes.len();
                self.waiting.entry(source).or_default().ahead.push_back(bytes.to_vec());
            }
            self.pool.release(outgoing.frame.buffer);
        }
        self.host.withheld.clear();
        self.host.states.clear();
        self.host.iterations.clear();
    }
}

/// Returns the IPv4 source address of a frame, with or without a VLAN tag.
fn source_of(frame: &[u8]) -> Option<Ip> {
    let skip = if frame.get(12..14)? == [0x81, 0x00] { 4 } else { 0 };
    let head = frame.get(skip..skip + 34)?;
    (head[12..14] == [0x08, 0x00]).then(|| Ip::from_be_bytes([head[26], head[27], head[28], head[29]]))
}

/// The rules of the comparison.
struct Judge {
    rewrites: Vec<String>,
    at: At,
    ours: bool,
    format: &'static dyn Format,
}

impl Judge {
    /// Returns the place of the candidate that equals the captured frame.
    fn exact(&self, waiting: &Waiting, found: &[u8]) -> Option<Place> {
        waiting.all().find(|(_, frame)| *frame == found).map(|(place, _)| place)
    }

    /// Returns the place of the candidate that is equal in all relevant fields; else the defect relative to the most similar one.
    fn nearest(&self, waiting: &Waiting, found: &[u8]) -> std::result::Result<Place, Mistake> {
        let mut best: Option<(usize, &Vec<u8>)> = None;
        for (place, frame) in waiting.all() {
            let wrong = usize::from(frame.len() != found.len()) * 1000 + self.wrong_parts(frame, found).count();
            if wrong == 0 {
                return Ok(place);
            }
            if best.is_none_or(|(least, _)| wrong < least) {
                best = Some((wrong, frame));
            }
        }
        let (_, expected) = best.ok_or(Mistake::Surplus)?;
        let part = self.wrong_parts(expected, found).next();
        let shorter = expected.len() != found.len() && part.as_ref().is_none_or(|part| part.is_content);
        Err(match part.filter(|_| !shorter) {
            None => Mistake::Field {
                field: "frame length".into(),
                byte: found.len().min(expected.len()),
                expected: format!("{} bytes", expected.len()),
                found: format!("{} bytes", found.len()),
            },
            Some(part) => Mistake::Field {
                field: part.name.clone(),
                byte: part.first / 8,
                expected: part.text(expected),
                // Without a tag other fields are where it should be.
                found: match part.name == "vlan" && found.get(12..14) != Some(&[0x81, 0x00]) {
                    true => "missing".to_owned(),
                    false => part.text(found),
                },
            },
        })
    }

    /// Returns the relevant fields that differ.
    fn wrong_parts(&self, frame: &[u8], found: &[u8]) -> impl Iterator<Item = Part> {
        parts(self.format, frame).into_iter().filter(|part| self.counts(part) && !part.alike(frame, found))
    }

    fn counts(&self, part: &Part) -> bool {
        if self.at == At::Workers {
            return true;
        }
        let rewritten = |name: &str| self.rewrites.iter().any(|own| own == name);
        match (part.is_content, part.is_header) {
            (true, _) => !rewritten("payload"),
            // For a device that changes payloads or our header: the fields that no merge changes.
            (_, true) if self.ours && (rewritten("payload") || rewritten("header")) => {
                ["version", "kind", "cluster", "elements"].iter().any(|own| part.name.ends_with(own))
            }
            (_, true) => !(rewritten("header") || rewritten("payload") && part.name.ends_with("reward")),
            _ => !rewritten(&part.name.replace('.', "_")),
        }
    }
}

#[cfg(test)]
#[path = "compare_tests.rs"]
mod tests;
