//! SwitchML's packets over RoCEv2, as in its public client and P4 program (p4lang/p4app-switchML, `rdma_receiver.p4`
//! and `rdma_sender.p4`): RDMA writes of the unreliable connected service, to UDP port 4791 in both directions.
//!
//! ```text
//! | opcode 8 | SE 1, MigReq 1, pad 2, version 4 | P_Key 16 | FECN 1, BECN 1, unused 6 | queue pair 24 |
//! | ack 1, unused 7 | PSN 24 |                                       BTH: every packet
//! | address 64 | rkey 32 | length 32 |                                RETH: FIRST, ONLY
//! | message 16 LE | e0 i8 | e1 i8 |                                   immediate: LAST and ONLY with immediate
//! | value i32 ... | ICRC 32 LE |
//! ```
//!
//! There is no header of SwitchML: the slot is in the remote key of a message's first packet, the exponents are in the
//! immediate of its last one. To the switch, the key is `slot · 2 + set`, and each packet belongs to the slot after the
//! previous one; the address is the destination of the reply. The switch neither checks nor updates the ICRC; here it
//! is correct, since a card that checks it would drop the packet otherwise.

mod icrc;
mod message;
pub mod session;

use crate::format::{ELEMENTS, WORKERS_MAX};
use pktgen_core::registry::Named;
use pktgen_wire::wire::frame::{HEAD, Ip, Template, any_worker, set_ip_checksum};
use pktgen_wire::wire::header::{Group, header, split, values};
use pktgen_wire::wire::layout::{Count, Field, Layout, PLAIN, Rest};
use pktgen_wire::wire::sight::{AttemptMarks, Datagram, Delivery, Sight, What};
use pktgen_wire::wire::{Captured, Format, FormatFacts, Packet, integers, layout};

pub use icrc::icrc;
pub(crate) use icrc::set_icrc;
pub use message::{Message, Receiver, SlotPlace, after, key_of, pair_of};

/// Name of the format.
pub const NAME: &str = "switchml_roce";
/// UDP port of RoCEv2.
pub const PORT: u16 = 4791;
/// The partition key, which must be equal at both ends.
pub(crate) const P_KEY: u16 = 0xffff;
/// Length of the header with which every payload begins.
pub(crate) const BTH: usize = Header::BYTES;
/// Length of the header with the destination of a message.
pub(crate) const RETH: usize = Target::BYTES;
/// Length of an immediate.
pub(crate) const IMMEDIATE: usize = Immediate::BYTES;
/// Length of the checksum at the end.
pub(crate) const ICRC: usize = 4;
/// The source port from which the switch sends to worker 0; those to other workers follow.
const SWITCH_PORT: u16 = 1 << 15;
/// The switch uses 15 bits of the key, so the keys of its slots are below this.
const KEYS: u32 = 1 << 15;
/// Maximum number of values in a packet.
const VALUES_MAX: usize = 256;

values! {
    /// Which part of a message a packet is, by its opcode.
    pub enum Part {
        First = 0x26, "first", "RDMA WRITE First.";
        Middle = 0x27, "middle", "RDMA WRITE Middle.";
        Last = 0x28, "last", "RDMA WRITE Last.";
        LastImmediate = 0x29, "last with immediate", "RDMA WRITE Last with Immediate.";
        Only = 0x2a, "only", "RDMA WRITE Only.";
        OnlyImmediate = 0x2b, "only with immediate", "RDMA WRITE Only with Immediate.";
    }
}

impl Part {
    /// Whether it begins a message.
    pub const fn is_first(self) -> bool {
        matches!(self, Part::First | Part::Only | Part::OnlyImmediate)
    }

    /// Whether it ends a message.
    pub fn is_last(self) -> bool {
        !matches!(self, Part::First | Part::Middle)
    }

    const fn has_immediate(self) -> bool {
        matches!(self, Part::LastImmediate | Part::OnlyImmediate)
    }

    /// Returns the length before the values.
    pub const fn head(self) -> usize {
        BTH + RETH * self.is_first() as usize + IMMEDIATE * self.has_immediate() as usize
    }
}

header! {
    /// Where a message goes: RETH.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Target {
        address: u64, 64, "Where the reply lands";
        /// To the switch slot and set ([`key_of`]), back the key that the worker registered.
        key: u32 = [Field::uint("key", 32, "To the switch slot and set: 2 slot + set; back the worker's key")];
        length: u32, 32, "Bytes of the message";
    }
}

header! {
    /// What the last packet of a message brings at once.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Immediate {
        le message: u16, 16, "The worker's number of the message";
        /// Largest exponents of what the message describes.
        exponents: [i8; 2] = [Field::of::<i8>("e0", 8, "Largest exponent"), Field::of::<i8>("e1", 8, "Second exponent")]
            via (|bits: u64| Some((bits as u16).to_be_bytes().map(|byte| byte as i8)),
                |both: [i8; 2]| u16::from_be_bytes(both.map(|exponent| exponent as u8)).into());
    }
}

header! {
    /// What a packet says besides its values.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Header {
        /// Which part of a message it is.
        part: Part = [Field::of::<Part>("opcode", 8, "Which part of a message")];
        solicited: bool, 1, "Solicited event";
        migration: bool, 1, "MigReq: the switch sets it";
        fixed padding: 2 = 0, "Bytes of padding: 0";
        fixed version: 4 = 0, "Version of the transport: 0";
        fixed p_key: 16 = P_KEY as u64, "Partition: 65535";
        fecn: bool, 1, "Congestion, forward";
        becn: bool, 1, "Congestion, backward";
        unused 6;
        /// Destination: to the switch worker and pair ([`pair_of`]), back the worker's queue pair.
        pair: u32 = [Field::uint("pair", 24, "Queue pair: to the switch worker (bits 20-16) and pair")];
        /// An acknowledgement is asked for: never.
        acknowledge: bool = [Field::flag("acknowledge", "An acknowledgement is asked for")];
        unused 7;
        psn: u32, 24, "Number of the packet";
        beside target: Target, "Of first packets.";
        beside immediate: Immediate, "Of last packets with an immediate.";
        beside elements: u16, "Values that follow.";
    }
}

impl Header {
    /// Returns the length of the payload, including the checksum.
    pub fn payload_bytes(&self) -> usize {
        self.part.head() + usize::from(self.elements) * 4 + ICRC
    }

    /// Writes everything except values and checksum.
    pub fn emit(&self, payload: &mut [u8]) {
        self.put(payload);
        let mut at = BTH;
        if self.part.is_first() {
            self.target.put(&mut payload[at..]);
            at += RETH;
        }
        if self.part.has_immediate() {
            self.immediate.put(&mut payload[at..]);
        }
    }

    /// Parses a packet; `None` if it is not an RDMA write of this kind, or its length does not fit whole values. The
    /// checksum is not checked.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let mut header = Header::of_head(payload)?;
        let values = payload.len().checked_sub(header.part.head() + ICRC)?;
        header.elements = (values / 4) as u16;
        (values % 4 == 0 && values / 4 <= VALUES_MAX).then_some(header)
    }

    /// Returns the direction of a packet from this UDP port; `None` if it is neither from the public switch nor to a slot of it. Cards
    /// choose their port, and some set MigReq: only the switch has both marks.
    fn direction(&self, src_port: u16) -> Option<What> {
        let worker = src_port.checked_sub(SWITCH_PORT).filter(|worker| usize::from(*worker) < WORKERS_MAX);
        if self.migration && worker.is_some() {
            return Some(What::Result);
        }
        (!self.part.is_first() || self.target.key < KEYS).then_some(What::Update)
    }

    /// Parses everything before the values; their number is not set.
    fn of_head(payload: &[u8]) -> Option<Self> {
        let mut header = Header::get(payload)?;
        let mut at = BTH;
        if header.part.is_first() {
            header.target = Target::get(&payload[at..])?;
            at += RETH;
        }
        if header.part.has_immediate() {
            header.immediate = Immediate::get(&payload[at..])?;
        }
        Some(header)
    }
}

/// Returns the values of a parsed packet as big-endian bytes.
pub fn values<'a>(payload: &'a [u8], header: &Header) -> &'a [u8] {
    let head = header.part.head();
    &payload[head..head + usize::from(header.elements) * 4]
}

/// Direction of a frame, with what it requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From a worker's card, which selects the source port.
    ToSwitch {
        /// The port.
        port: u16,
    },
    /// From the switch to a worker.
    ToWorker {
        /// Its number, with 15 bits.
        worker: u16,
    },
}

/// Writes a whole frame around `values` (big-endian), including checksums; `frame` has the length of the frame.
pub fn emit_frame(way: Way, source: Ip, target: Ip, header: &Header, values: &[u8], frame: &mut [u8]) {
    let port = match way {
        Way::ToSwitch { port } => port,
        Way::ToWorker { worker } => SWITCH_PORT | worker,
    };
    Template::new((source, port), (target, PORT), frame.len()).emit(frame);
    if let Way::ToWorker { .. } = way {
        // Values filled in by rdma_sender.p4: ECT(0), and 1 as the number of every packet.
        frame[15] = 0x02;
        frame[18..20].copy_from_slice(&[0, 1]);
        set_ip_checksum(frame);
    }
    header.emit(&mut frame[HEAD..]);
    let at = HEAD + header.part.head();
    frame[at..at + values.len()].copy_from_slice(values);
    set_icrc(frame);
}

const TAIL: &[Field] =
    &[Field::uint("icrc", 8 * ICRC, "Invariant CRC; the switch neither checks it nor makes it anew").little()];

macro_rules! message {
    ($part:ident, $groups:expr) => {
        layout::Message {
            name: Part::$part.name(),
            when: &[("opcode", Part::$part as u64), ("padding", 0), ("version", 0), ("p_key", P_KEY as u64)],
            groups: $groups,
            rest: Rest::Items {
                name: "values",
                count: Count::ToEnd(VALUES_MAX),
                fields: &[Field::of::<i32>("value", 32, "Value")],
            },
            tail: TAIL,
            ..PLAIN
        }
    };
}

static LAYOUT: Layout = Layout {
    ports: &[],
    // The port is RoCEv2's: packets that are not certainly SwitchML are left to InfiniBand dissectors.
    shared_ports: &[PORT],
    telling: true,
    summary: &["pair", "psn", "key", "length", "message", "e0"],
    head: Header::FIELDS,
    rules: &[],
    messages: &[
        message!(First, &[Target::FIELDS]),
        message!(Middle, &[]),
        message!(Last, &[]),
        message!(LastImmediate, &[Immediate::FIELDS]),
        message!(Only, &[Target::FIELDS]),
        message!(OnlyImmediate, &[Target::FIELDS, Immediate::FIELDS]),
    ],
};

/// The registered format.
pub(crate) struct SwitchMlRoce;

impl Named for SwitchMlRoce {
    fn name(&self) -> &'static str {
        NAME
    }
    fn about(&self) -> &'static str {
        "SwitchML over RoCEv2: RDMA writes, as in the public client and switch"
    }
}

impl Format for SwitchMlRoce {
    fn layout(&self) -> &'static Layout {
        &LAYOUT
    }

    fn facts(&self) -> &'static FormatFacts {
        const fn of(part: Part, elements: u16) -> usize {
            HEAD + part.head() + elements as usize * 4 + ICRC
        }
        const FACTS: FormatFacts = FormatFacts {
            delivery: Delivery::Unsaid,
            // Cards give a retransmission a new number.
            transmissions: AttemptMarks::Hidden,
            updates: Captured::OfTensors,
            seal: Some(set_icrc),
            // The ICRC ends a packet, and numbers are of a queue pair: they do not say which contributions are of one sum.
            adds: false,
            ..FormatFacts::new((of(Part::Middle, ELEMENTS[0]), of(Part::OnlyImmediate, ELEMENTS[1])))
        };
        &FACTS
    }

    fn ports(&self) -> &'static [(u16, u16)] {
        &[(PORT, PORT)]
    }

    fn read(&self, payload: &[u8]) -> Option<Packet> {
        let h = Header::parse(payload)?;
        let mut fields = h.fields();
        let mut text = format!("switchml_roce {:?} pair {:#x} psn {} elements {}", h.part, h.pair, h.psn, h.elements)
            .to_lowercase();
        if h.part.is_first() {
            let Target { address, key, length } = h.target;
            fields.extend(h.target.fields());
            text += &format!(" address {address:#x} key {key:#x} length {length}");
        }
        if h.part.has_immediate() {
            let Immediate { message, exponents: [e0, e1] } = h.immediate;
            fields.extend(h.immediate.fields());
            text += &format!(" message {message} exponents {e0} {e1}");
        }
        split(TAIL, u32::from_le_bytes(*payload.last_chunk()?).into(), &mut fields);
        let items = integers::items(values(payload, &h));
        Some(Packet::new(payload, fields, |out| h.emit(out), text).with(items))
    }

    fn lacks_direction(&self, datagram: &Datagram) -> bool {
        Header::of_head(datagram.payload).is_some_and(|header| header.direction(datagram.src_port).is_none())
    }

    /// The header and the source port tell the direction, the address the worker, if it is one of this project.
    fn sight(&self, datagram: &Datagram) -> Option<Sight> {
        let header = Header::of_head(datagram.payload)?;
        let values = datagram.whole.checked_sub(header.part.head() + ICRC)?;
        let what = header.direction(datagram.src_port)?;
        (values % 4 == 0 && values / 4 <= VALUES_MAX).then_some(Sight {
            what,
            cluster: 0,
            // A queue pair has the rank of its worker within the job, which workers of other jobs have, too.
            worker: any_worker(if what == What::Update { datagram.src } else { datagram.dst }),
            seq: header.psn,
            round: 0,
            attempt: 0,
            generation: None,
            count: 1,
            elements: (values / 4) as u16,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pktgen_wire::wire::frame::{SERVER_IP, worker_ip};
    use pktgen_wire::wire::header::Bits;
    use pktgen_wire::wire::sight::glance;
    use proptest::prelude::*;

    #[test]
    fn results_are_not_made_again_of_packets_that_name_no_sum() {
        assert!(!SwitchMlRoce.facts().adds);
    }

    #[test]
    fn workers_of_two_jobs_are_told_apart() {
        // Both of rank 0.
        for worker in [0, 5] {
            let header = Message { pair: crate::roce::session::switch_pair(0, 3), ..Message::default() }.header(0, 64);
            let mut payload = vec![0; header.payload_bytes()];
            header.emit(&mut payload);
            let datagram = Datagram {
                src: 0x0a00_0001 + worker,
                dst: 0xc612_0001,
                src_port: 0xc000,
                dst_port: PORT,
                whole: payload.len(),
                payload: &payload,
                six: None,
            };
            assert_eq!(SwitchMlRoce.sight(&datagram).unwrap().worker, Some(worker));
        }
    }

    /// A packet of a session, in a frame between a worker and the switch.
    fn packet(worker: Ip, switch: Ip, way: Way, change: impl Fn(&mut Header)) -> Vec<u8> {
        let back = matches!(way, Way::ToWorker { .. });
        let ours = crate::format::Header { elements: 64, ..Default::default() };
        let mut header = session::packet(&ours, 0, 0, 0, back);
        change(&mut header);
        let mut frame = vec![0; HEAD + header.payload_bytes()];
        let (source, target) = if back { (switch, worker) } else { (worker, switch) };
        emit_frame(way, source, target, &header, &[0; 256], &mut frame);
        frame
    }

    /// Addresses of this project, of others, and of others within the range of this project's workers.
    #[test]
    fn the_direction_does_not_depend_on_addresses() {
        let (up, down) = (Way::ToSwitch { port: 0xc000 }, Way::ToWorker { worker: 31 });
        for (worker, switch) in [
            (worker_ip(0), SERVER_IP),
            (0xc0a8_0701, 0xc0a8_07fe),
            (0x0a28_0001, 0x0a28_00fe),
            (SERVER_IP, worker_ip(0)),
        ] {
            // The last two are of cards that set MigReq, and that send from a port of the switch.
            for (way, migration, what) in [
                (up, false, What::Update),
                (down, true, What::Result),
                (up, true, What::Update),
                (Way::ToSwitch { port: SWITCH_PORT | 3 }, false, What::Update),
            ] {
                let frame = packet(worker, switch, way, |header| header.migration = migration);
                let datagram = glance(1, &frame).expect("a datagram");
                let sight = SwitchMlRoce.sight(&datagram).expect("it is one");
                assert_eq!((sight.what, sight.worker), (what, any_worker(worker)), "{worker:#x} {way:?} {migration}");
                assert!(!SwitchMlRoce.lacks_direction(&datagram));
            }
        }
    }

    /// RDMA writes of a switch without these marks, or of other programs.
    #[test]
    fn a_packet_to_no_slot_and_of_no_switch_has_no_direction() {
        let frame = packet(worker_ip(0), SERVER_IP, Way::ToSwitch { port: 0xc000 }, |header| header.target.key = KEYS);
        let datagram = glance(1, &frame).expect("a datagram");
        assert!(SwitchMlRoce.lacks_direction(&datagram) && SwitchMlRoce.sight(&datagram).is_none());
        let short = Datagram { payload: &datagram.payload[..BTH], ..datagram };
        assert!(!SwitchMlRoce.lacks_direction(&short), "it is cut");
    }

    #[test]
    fn lengths_are_whole_values_and_a_checksum() {
        for part in (0x26..=0x2b).map(|opcode| Part::decode(opcode).unwrap()) {
            let header = Message::default().header(0, 64);
            let header = Header { part, ..header };
            let mut payload = vec![0; header.payload_bytes()];
            header.emit(&mut payload);
            assert_eq!(Header::parse(&payload).map(|h| (h.part, h.elements)), Some((part, 64)));
            for short in 0..payload.len() {
                let parsed = Header::parse(&payload[..short]);
                let whole = short >= part.head() + ICRC && (short - part.head()) % 4 == 0;
                assert_eq!(parsed.is_some(), whole, "{part:?} {short}");
            }
            payload.resize(part.head() + 257 * 4 + ICRC, 0);
            assert_eq!(Header::parse(&payload), None, "more than a packet has");
        }
        assert_eq!(SwitchMlRoce.facts().frame_bytes, (42 + 12 + 256 + 4, 42 + 32 + 1024 + 4));
    }

    proptest! {
        #[test]
        fn headers_round_trip(which in 0u64..6, bits: u8, pair in 0u32..1 << 24, psn in 0u32..1 << 24, address: u64, key: u32, length: u32, message: u16, e0: i8, e1: i8, elements in 0u16..=256) {
            let part = Part::decode(0x26 + which).unwrap();
            let header = Header {
                part,
                solicited: bits & 1 != 0,
                migration: bits & 2 != 0,
                fecn: bits & 4 != 0,
                becn: bits & 8 != 0,
                pair,
                acknowledge: bits & 16 != 0,
                psn,
                target: if part.is_first() { Target { address, key, length } } else { Target::default() },
                immediate: if part.has_immediate() { Immediate { message, exponents: [e0, e1] } } else { Immediate::default() },
                elements,
            };
            let mut payload = vec![0xa5; header.payload_bytes()];
            header.emit(&mut payload);
            prop_assert_eq!(Header::parse(&payload), Some(header));
        }
    }
}
