//! Wire formats: views of bytes, and their meaning.
//!
//! A format defines its fields in the tables of [`header!`](header), which generate the plain struct, its reader and
//! writer and the layout. Contract: `parse` checks lengths once; `emit` panics only if the buffer is shorter than its
//! given length, which is a bug of the caller. Printing arbitrary bytes never panics.
//!
//! [`frame`] has the common parts of all formats: Ethernet, IPv4, UDP and our addresses; [`layout`] describes formats
//! as data, from which [`dissector`] generates the one for Wireshark.

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

/// A packet as decoded by its format's reader; for prints and tests.
#[derive(Debug, Clone, PartialEq)]
pub struct Packet {
    /// Summary in one line.
    pub line: String,
    /// Values of its fields; those after its items come last.
    pub fields: header::Fields,
    /// Repeated content after them: gradients, pairs.
    pub items: Items,
    /// Further bytes that this format does not interpret.
    pub bytes: Vec<u8>,
    /// The payload with all fields written again.
    pub again: Vec<u8>,
}

/// Values of items, each of one or several fields.
pub type Items = Vec<Vec<Value>>;

impl Packet {
    /// A packet with the fields that `emit` writes again.
    pub fn new(payload: &[u8], fields: header::Fields, emit: impl FnOnce(&mut [u8]), line: String) -> Self {
        let mut again = payload.to_vec();
        emit(&mut again);
        Packet { line, fields, items: Items::new(), bytes: Vec::new(), again }
    }

    /// Returns the packet with items.
    pub fn with(self, items: Items) -> Self {
        Packet { items, ..self }
    }
}

/// Little-endian floating-point numbers of 32 bits, as items.
pub fn floats(bytes: &[u8]) -> Items {
    let value = |four: &[u8; 4]| vec![Value::Float(u32::from_le_bytes(*four))];
    bytes.as_chunks::<4>().0.iter().map(value).collect()
}

/// The operations on a format other than emitting: for lists, printing, fuzzing and limits.
pub trait Format: Named + Sync {
    /// Returns the bits of its packets as data: the source of the dissector and the docs.
    fn layout(&self) -> &'static layout::Layout;

    /// Decodes a payload; `None` if it is not of this format.
    fn read(&self, payload: &[u8]) -> Option<Packet>;

    /// Returns what a passive observer learns from a captured datagram; `None` if it is not of this format. The payload
    /// may be cut after its header.
    fn sight(&self, datagram: &sight::Datagram) -> Option<sight::Sight>;

    /// Returns whether a datagram does not show if it goes to a device or returns from it; it has no sight then.
    fn lacks_direction(&self, datagram: &sight::Datagram) -> bool {
        datagram.six.is_some() && self.facts().by_address
    }

    /// Returns the properties common to all its packets.
    fn facts(&self) -> &'static FormatFacts;

    /// Returns the ranges of UDP ports by which its packets are recognised.
    fn ports(&self) -> &'static [(u16, u16)] {
        self.layout().ports
    }

    /// Returns whether this is one of its UDP ports.
    fn has_port(&self, port: u16) -> bool {
        self.ports().iter().any(|(first, last)| (*first..=*last).contains(&port))
    }

    /// Returns the summary line of a payload that is not of this format.
    fn refuse(&self, payload: &[u8]) -> String {
        format!("not {}: {} bytes, first {:02x?}", self.name(), payload.len(), &payload[..payload.len().min(4)])
    }
}

/// Properties common to all packets of a format.
#[derive(Debug)]
pub struct FormatFacts {
    /// Smallest and largest frame, in bytes without FCS.
    pub frame_bytes: (usize, usize),
    /// The Ethernet type of its frames, if they have IPv4 but no UDP; the payload then begins after IPv4.
    pub ether_type: Option<u16>,
    /// The captured packets that deliver updates.
    pub delivery: sight::Delivery,
    /// The rule by which a reused number of a sum is recognised.
    pub renewal: sight::Renewal,
    /// What captured updates show of their transmission.
    pub transmissions: sight::AttemptMarks,
    /// Position of lanes in its frames; none if there is no room.
    pub lanes: Option<lanes::LaneForm>,
    /// How a trace is made of its captured updates.
    pub updates: Captured,
    /// UDP port of the workers, and the port to which they send, if both are fixed.
    pub ports: Option<(u16, u16)>,
    /// Whether only IPv4 addresses distinguish packets to a device from those that return.
    pub by_address: bool,
    /// Writes the checksum at the end of a frame that covers its addresses, if there is one; the frame begins with the Ethernet header.
    pub seal: Option<fn(&mut [u8])>,
    /// The probe of a device that sums in slots of two sets; none for other devices.
    pub round: Option<RoundForm>,
    /// Whether values at one place are added; if not, a diagnosis does not make results again. Values are i32 in network order; they begin
    /// where lanes do, and end the payload of a format without lanes.
    pub adds: bool,
    /// What devices make of such sums that 32 bits do not hold.
    pub registers: Registers,
    /// Reads the exponent in a packet: a result has the largest of its contributions. None in other formats.
    pub exponent: Option<ReadExponent>,
}

/// Reads the exponent in a payload.
pub type ReadExponent = fn(&[u8]) -> Option<i8>;

/// The behaviour of a device on a sum that exceeds 32 bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Registers {
    /// It wraps around: the result is independent of the order of additions.
    #[default]
    Wrap,
    /// It saturates: the result depends on the order.
    Saturate,
}

impl Registers {
    /// Returns whether 32 bits may not hold a sum, given the sums of its negative and of its positive values: of registers that wrap around the
    /// total, of those that saturate any partial sum, up to the end of the range.
    pub fn may_leave(self, [below, above]: [i64; 2]) -> bool {
        let end = i64::from(i32::MAX);
        match self {
            Registers::Wrap => i32::try_from(below + above).is_err(),
            Registers::Saturate => above >= end || below <= -end,
        }
    }
}

/// Contributions to a round of sums in a slot, and their results, as written and read by probes of devices. Values are i32 in network
/// order and end the payload.
#[derive(Debug)]
pub struct RoundForm {
    /// Bytes of a payload before its values.
    pub head: usize,
    /// Writes the bytes before the values.
    pub write: fn(RoundMark, &mut [u8]),
    /// Reads them; `None` if the payload is of another kind.
    pub read: fn(&[u8]) -> Option<RoundMark>,
}

/// The round of a contribution or a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundMark {
    /// Number of the packet, which its result has, too.
    pub number: u32,
    /// One of the two sets.
    pub set: bool,
    /// Slot of the set.
    pub slot: u16,
}

/// Properties of captured updates for making a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Captured {
    /// With [our header](update): every update has a separate number, its reward and its gradients.
    Ours,
    /// Without header: a reward ends this number of bytes, and little-endian binary32 gradients follow; in a trace they
    /// have the length with our header.
    Headless(usize),
    /// Of a cluster or job that sums; numbers restart with every iteration.
    OfJobs,
    /// As `OfJobs`, but the jobs in packets are successive tensors of one job.
    OfTensors,
}

impl FormatFacts {
    /// Facts of a format of UDP packets that deliver updates one by one, without lanes.
    pub const fn new(frame_bytes: (usize, usize)) -> Self {
        FormatFacts {
            frame_bytes,
            by_address: false,
            ether_type: None,
            delivery: sight::Delivery::Updates,
            renewal: sight::Renewal::Rounds,
            transmissions: sight::AttemptMarks::Marked,
            lanes: None,
            updates: Captured::OfJobs,
            ports: None,
            seal: None,
            round: None,
            adds: true,
            registers: Registers::Wrap,
            exponent: None,
        }
    }
}

/// Known wire formats, in the order of lists.
pub type Formats = &'static [&'static dyn Format];

/// Maximum bytes behind a packet in a captured frame: those of a frame check sequence. More could be a layout of more values.
const TRAILER_MAX: usize = 4;

/// Maximum number of formats by which a capture can be counted.
pub const FORMATS_MAX: usize = 16;

impl<'a> dyn Format + 'a {
    /// Returns the Ethernet type of its frames, where they have IPv4 but no UDP.
    pub fn ether_type(&self) -> Option<u16> {
        self.facts().ether_type
    }

    /// Returns the packet in what follows IPv4 in a frame of its Ethernet type, which does not contain its length: without a frame
    /// check sequence behind it. Of frames that are longer by more, it returns all.
    pub fn packet_in<'b>(&self, layer: sight::Datagram<'b>) -> sight::Datagram<'b> {
        let bytes = self.facts().frame_bytes.1 - frame::IP_END;
        match layer.whole.checked_sub(bytes) {
            Some(0..=TRAILER_MAX) => {
                let kept = layer.payload.len().min(bytes);
                sight::Datagram { payload: &layer.payload[..kept], whole: bytes, ..layer }
            }
            _ => layer,
        }
    }

    /// Returns which captured packets deliver updates.
    pub fn delivery(&self) -> sight::Delivery {
        self.facts().delivery
    }

    /// Returns whether this UDP payload looks like ours. `port` is the destination or source port.
    pub fn recognises(&self, port: u16, payload: &[u8]) -> bool {
        (self.ether_type().is_some() || self.has_port(port)) && self.read(payload).is_some()
    }

    /// Returns a summary line; never panics, for any bytes.
    pub fn print(&self, payload: &[u8]) -> String {
        self.read(payload).map_or_else(|| self.refuse(payload), |packet| packet.line)
    }

    /// Parses and emits again; `None` if the bytes are not of this format. For conformance tests.
    pub fn round_trip(&self, payload: &[u8]) -> Option<Vec<u8>> {
        self.read(payload).map(|packet| packet.again)
    }
}
