//! Wire formats: views over bytes, and the meaning of them.
//!
//! A format file has its fields in the tables of [`header!`](header), from which follow the plain struct with the meaning, its
//! reader and writer and the layout. Contract: `parse` checks lengths once; `emit` panics only if the buffer is shorter than
//! the length it was given, which is the caller's bug. Printing arbitrary bytes never panics.
//!
//! [`frame`] has what all formats share: Ethernet, IPv4, UDP and our addresses; [`layout`] says the same as data, from
//! which [`dissector`] makes the one for Wireshark.

pub mod dissector;
pub mod frame;
pub mod header;
pub mod integers;
pub mod lanes;
pub mod layout;
pub mod sight;
pub mod update;

use crate::registry::Named;
use layout::Value;

/// A packet, as its format's reader has it; for prints and tests.
#[derive(Debug, Clone, PartialEq)]
pub struct Packet {
    /// One line for people.
    pub line: String,
    /// What its fields say, those behind its items last.
    pub fields: header::Fields,
    /// What repeats behind them: gradients, pairs.
    pub items: Items,
    /// What follows that is not for this format to read.
    pub bytes: Vec<u8>,
    /// The payload with all fields written anew.
    pub again: Vec<u8>,
}

/// Values of items, each of one or several fields.
pub type Items = Vec<Vec<Value>>;

impl Packet {
    /// Of a payload whose fields `emit` writes anew.
    pub fn new(payload: &[u8], fields: header::Fields, emit: impl FnOnce(&mut [u8]), line: String) -> Self {
        let mut again = payload.to_vec();
        emit(&mut again);
        Packet { line, fields, items: Items::new(), bytes: Vec::new(), again }
    }

    /// The same with items.
    pub fn with(self, items: Items) -> Self {
        Packet { items, ..self }
    }
}

/// Little-endian floating-point numbers of 32 bits, as items.
pub fn floats(bytes: &[u8]) -> Items {
    let value = |four: &[u8; 4]| vec![Value::Float(u32::from_le_bytes(*four))];
    bytes.as_chunks::<4>().0.iter().map(value).collect()
}

/// What a format can do besides being emitted: enough for lists, printing, fuzzing and limits.
pub trait Format: Named + Sync {
    /// The bits of its packets, as data: the dissector and the docs follow from it.
    fn layout(&self) -> &'static layout::Layout;

    /// Reads a payload; none if it is not of this format.
    fn read(&self, payload: &[u8]) -> Option<Packet>;

    /// What a passive observer learns from a captured datagram; none where it is not of this format. The payload may have been
    /// cut behind its header.
    fn sight(&self, datagram: &sight::Datagram) -> Option<sight::Sight>;

    /// What holds for all its packets.
    fn facts(&self) -> &'static FormatFacts;

    /// Whether this is one of its UDP ports.
    fn has_port(&self, port: u16) -> bool {
        self.layout().ports.iter().any(|(first, last)| (*first..=*last).contains(&port))
    }

    /// The line of a payload that is not of this format.
    fn refuse(&self, payload: &[u8]) -> String {
        format!("not {}: {} bytes, first {:02x?}", self.name(), payload.len(), &payload[..payload.len().min(4)])
    }
}

/// What holds for all packets of a format.
#[derive(Debug)]
pub struct FormatFacts {
    /// Smallest and largest frame, in bytes without FCS.
    pub frame_bytes: (usize, usize),
    /// The Ethernet type of its frames, where they have IPv4 but no UDP; a payload then begins behind IPv4.
    pub ether_type: Option<u16>,
    /// Which captured packets deliver updates.
    pub delivery: sight::Delivery,
    /// When the number of a sum is another sum's.
    pub renewal: sight::Renewal,
    /// How lanes lie in its frames; none if they have no room for any.
    pub lanes: Option<lanes::LaneForm>,
    /// What captured updates are to who makes a trace of them.
    pub updates: Captured,
    /// UDP port of the workers, and the one that they send to, where there are two fixed ones.
    pub ports: Option<(u16, u16)>,
    /// Only IPv4 addresses tell what is on its way to a device from what comes back.
    pub by_address: bool,
    /// Writes the checksum that ends a frame and covers its addresses, where there is one; the frame begins with Ethernet's header.
    pub seal: Option<fn(&mut [u8])>,
    /// How a device that sums in slots of two sets is probed; none if its devices do not.
    pub round: Option<RoundForm>,
}

/// Contributions to a round of sums in a slot, and results of it, as probes of devices write and read them. Values are i32 in network
/// order and end the payload.
#[derive(Debug)]
pub struct RoundForm {
    /// Bytes of a payload before its values.
    pub head: usize,
    /// Writes them.
    pub write: fn(RoundMark, &mut [u8]),
    /// Reads them; none if the payload is of another kind.
    pub read: fn(&[u8]) -> Option<RoundMark>,
}

/// Which round a contribution or a result is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundMark {
    /// Number of the packet, which a result has as well.
    pub number: u32,
    /// Which of the two sets.
    pub set: bool,
    /// Slot of the set.
    pub slot: u16,
}

/// What captured updates of a format are to who makes a trace of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Captured {
    /// With [our header](update): every one has a number of its own, its reward and its gradients.
    Ours,
    /// A reward ends so many bytes, and gradients as binary32 follow, little-endian; in a trace they are as long as with our header.
    Headless(usize),
    /// Of a cluster or job that sums; numbers begin again with every iteration.
    OfJobs,
    /// Its jobs are tensors of one job, one after the other.
    OfTensors,
}

impl FormatFacts {
    /// UDP packets that deliver updates one by one, without lanes.
    pub const fn new(frame_bytes: (usize, usize)) -> Self {
        FormatFacts {
            frame_bytes,
            by_address: false,
            ether_type: None,
            delivery: sight::Delivery::Updates,
            renewal: sight::Renewal::Rounds,
            lanes: None,
            updates: Captured::OfJobs,
            ports: None,
            seal: None,
            round: None,
        }
    }
}

/// Known wire formats, in the order of lists.
pub type Formats = &'static [&'static dyn Format];

/// Most formats that a capture can be counted by.
pub const FORMATS_MAX: usize = 16;

impl<'a> dyn Format + 'a {
    /// Returns the Ethernet type of its frames, where they have IPv4 but no UDP.
    pub fn ether_type(&self) -> Option<u16> {
        self.facts().ether_type
    }

    /// Returns which captured packets deliver updates.
    pub fn delivery(&self) -> sight::Delivery {
        self.facts().delivery
    }

    /// Whether this UDP payload looks like ours. `port` is the destination or source port.
    pub fn recognises(&self, port: u16, payload: &[u8]) -> bool {
        (self.ether_type().is_some() || self.has_port(port)) && self.read(payload).is_some()
    }

    /// One line for people; never panics, whatever the bytes.
    pub fn print(&self, payload: &[u8]) -> String {
        self.read(payload).map_or_else(|| self.refuse(payload), |packet| packet.line)
    }

    /// Parses and emits again; none where the bytes are not of this format. For conformance tests.
    pub fn round_trip(&self, payload: &[u8]) -> Option<Vec<u8>> {
        self.read(payload).map(|packet| packet.again)
    }
}
