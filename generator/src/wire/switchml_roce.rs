//! SwitchML's packets over RoCEv2, as its public client and P4 program have them (p4lang/p4app-switchML, `rdma_receiver.p4`
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
//! There is no header of SwitchML's: the slot is in the remote key of a message's first packet, the exponents are in the
//! immediate of its last one. To the switch, the key is `slot · 2 + set`, and each packet is of the slot after the one
//! before; the address says where the reply must land. The switch checks no ICRC and sends a stale one on; here it is
//! right, since a card that checks would drop the packet.

mod icrc;
mod layout;
mod message;
pub mod session;

use super::Format;
use super::frame::{HEAD, Ip, Template, set_ip_checksum, worker_of};
use super::sight::{Datagram, Delivery, Sight, What};
use super::switchml::ELEMENTS;
use crate::record::PacketId;
use crate::registry::Named;

pub use icrc::{icrc, set_icrc};
pub use message::{Message, Place, Receiver, after, key_of, pair_of};

/// Name of the format.
pub const NAME: &str = "switchml_roce";
/// UDP port of RoCEv2.
pub const PORT: u16 = 4791;
/// The partition that both ends match exactly.
pub const P_KEY: u16 = 0xffff;
/// Bytes that every payload begins with.
pub const BTH: usize = 12;
/// Bytes of what says where a message goes.
pub const RETH: usize = 16;
/// Bytes of an immediate.
pub const IMMEDIATE: usize = 4;
/// Bytes of the checksum at the end.
pub const ICRC: usize = 4;
/// Most values of a packet.
const VALUES_MAX: usize = 256;

/// Which part of a message a packet is, by its opcode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Part {
    /// RDMA WRITE First.
    First = 0x26,
    /// RDMA WRITE Middle.
    Middle = 0x27,
    /// RDMA WRITE Last.
    Last = 0x28,
    /// RDMA WRITE Last with Immediate.
    LastImmediate = 0x29,
    /// RDMA WRITE Only.
    Only = 0x2a,
    /// RDMA WRITE Only with Immediate.
    OnlyImmediate = 0x2b,
}

impl Part {
    const ALL: [Part; 6] =
        [Part::First, Part::Middle, Part::Last, Part::LastImmediate, Part::Only, Part::OnlyImmediate];

    /// Does a message begin with it?
    pub fn is_first(self) -> bool {
        matches!(self, Part::First | Part::Only | Part::OnlyImmediate)
    }

    /// Does a message end with it?
    pub fn is_last(self) -> bool {
        !matches!(self, Part::First | Part::Middle)
    }

    fn has_immediate(self) -> bool {
        matches!(self, Part::LastImmediate | Part::OnlyImmediate)
    }

    /// Bytes before the values.
    pub fn head(self) -> usize {
        BTH + RETH * usize::from(self.is_first()) + IMMEDIATE * usize::from(self.has_immediate())
    }
}

/// Where a message goes: RETH.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Target {
    /// To the switch where the reply must land, back the same.
    pub address: u64,
    /// To the switch slot and set ([`key_of`]), back the key that the worker registered.
    pub key: u32,
    /// Bytes of the message.
    pub length: u32,
}

/// What the last packet of a message brings at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Immediate {
    /// The worker's number of the message; little-endian.
    pub message: u16,
    /// Largest exponents of what the message describes.
    pub exponents: [i8; 2],
}

/// What a packet says besides its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Which part of a message it is.
    pub part: Part,
    /// Solicited event.
    pub solicited: bool,
    /// Migration: the switch sets it.
    pub migration: bool,
    /// Congestion, forward and backward.
    pub congestion: [bool; 2],
    /// Destination: to the switch worker and pair ([`pair_of`]), back the worker's queue pair; 24 bits.
    pub pair: u32,
    /// An acknowledgement is asked for: never.
    pub acknowledge: bool,
    /// Number of the packet; 24 bits.
    pub psn: u32,
    /// Of first packets.
    pub target: Target,
    /// Of last packets with an immediate.
    pub immediate: Immediate,
    /// Values that follow.
    pub elements: u16,
}

impl Header {
    /// Bytes of the payload, the checksum included.
    pub fn payload_bytes(&self) -> usize {
        self.part.head() + usize::from(self.elements) * 4 + ICRC
    }

    /// Writes all but values and checksum.
    pub fn emit(&self, payload: &mut [u8]) {
        payload[0] = self.part as u8;
        payload[1] = u8::from(self.solicited) << 7 | u8::from(self.migration) << 6;
        payload[2..4].copy_from_slice(&P_KEY.to_be_bytes());
        payload[4..8].copy_from_slice(&(self.pair & 0xff_ffff).to_be_bytes());
        payload[4] = u8::from(self.congestion[0]) << 7 | u8::from(self.congestion[1]) << 6;
        payload[8..BTH].copy_from_slice(&(self.psn & 0xff_ffff).to_be_bytes());
        payload[8] = u8::from(self.acknowledge) << 7;
        let mut at = BTH;
        if self.part.is_first() {
            payload[at..at + 8].copy_from_slice(&self.target.address.to_be_bytes());
            payload[at + 8..at + 12].copy_from_slice(&self.target.key.to_be_bytes());
            payload[at + 12..at + RETH].copy_from_slice(&self.target.length.to_be_bytes());
            at += RETH;
        }
        if self.part.has_immediate() {
            let [low, high] = self.immediate.message.to_le_bytes();
            let [e0, e1] = self.immediate.exponents;
            payload[at..at + IMMEDIATE].copy_from_slice(&[low, high, e0 as u8, e1 as u8]);
        }
    }

    /// Reads a packet; none if it is no RDMA write of this kind, or not as long as whole values make it. The checksum is not
    /// looked at.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let mut header = Header::of_head(payload)?;
        let values = payload.len().checked_sub(header.part.head() + ICRC)?;
        header.elements = (values / 4) as u16;
        (values % 4 == 0 && values / 4 <= VALUES_MAX).then_some(header)
    }

    /// What stands before the values; their number is left open.
    fn of_head(payload: &[u8]) -> Option<Self> {
        let bth: &[u8; BTH] = payload.first_chunk()?;
        let part = *Part::ALL.iter().find(|part| **part as u8 == bth[0])?;
        let three = |at: usize| u32::from_be_bytes([0, bth[at], bth[at + 1], bth[at + 2]]);
        if bth[1] & 0x3f != 0 || u16::from_be_bytes([bth[2], bth[3]]) != P_KEY {
            return None;
        }
        let mut rest = &payload[BTH..];
        let mut target = Target::default();
        if part.is_first() {
            let (reth, behind) = rest.split_first_chunk::<RETH>()?;
            let (address, words) = reth.split_first_chunk::<8>()?;
            let (key, length) = words.split_first_chunk::<4>()?;
            target.address = u64::from_be_bytes(*address);
            (target.key, target.length) = (u32::from_be_bytes(*key), u32::from_be_bytes(*length.first_chunk()?));
            rest = behind;
        }
        let mut immediate = Immediate::default();
        if part.has_immediate() {
            let [low, high, e0, e1] = *rest.first_chunk::<IMMEDIATE>()?;
            immediate = Immediate { message: u16::from_le_bytes([low, high]), exponents: [e0 as i8, e1 as i8] };
        }
        Some(Header {
            part,
            solicited: bth[1] & 0x80 != 0,
            migration: bth[1] & 0x40 != 0,
            congestion: [bth[4] & 0x80 != 0, bth[4] & 0x40 != 0],
            pair: three(5),
            acknowledge: bth[8] & 0x80 != 0,
            psn: three(9),
            target,
            immediate,
            elements: 0,
        })
    }
}

/// The values of a parsed packet, as big-endian bytes.
pub fn values<'a>(payload: &'a [u8], header: &Header) -> &'a [u8] {
    let head = header.part.head();
    &payload[head..head + usize::from(header.elements) * 4]
}

/// Which way a frame goes, and what it needs for that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From a worker's card, which chooses the source port.
    ToSwitch {
        /// The port.
        port: u16,
    },
    /// From the switch to a worker.
    ToWorker {
        /// Its number; 15 bits.
        worker: u16,
    },
}

/// Writes a whole frame around `values` (big-endian), checksums included; `frame` is as long as the frame.
pub fn emit_frame(way: Way, source: Ip, target: Ip, header: &Header, values: &[u8], frame: &mut [u8]) {
    let port = match way {
        Way::ToSwitch { port } => port,
        Way::ToWorker { worker } => 1 << 15 | worker,
    };
    Template::new((source, port), (target, PORT), frame.len()).emit(frame);
    if let Way::ToWorker { .. } = way {
        // What rdma_sender.p4 fills in: ECT(0), and 1 as the number of every packet.
        frame[15] = 0x02;
        frame[18..20].copy_from_slice(&[0, 1]);
        set_ip_checksum(frame);
    }
    header.emit(&mut frame[HEAD..]);
    let at = HEAD + header.part.head();
    frame[at..at + values.len()].copy_from_slice(values);
    set_icrc(frame);
}

/// The registered format.
pub struct SwitchMlRoce;

impl Named for SwitchMlRoce {
    fn name(&self) -> &'static str {
        NAME
    }
    fn about(&self) -> &'static str {
        "SwitchML over RoCEv2: RDMA writes, as the public client and switch have them"
    }
}

impl Format for SwitchMlRoce {
    fn has_port(&self, port: u16) -> bool {
        port == PORT
    }

    /// Packets to the switch name their worker, those back are known by their address; all have one port.
    fn sight(&self, datagram: &Datagram) -> Option<Sight> {
        let header = Header::of_head(datagram.payload)?;
        let values = datagram.whole.checked_sub(header.part.head() + ICRC)?;
        let back = worker_of(datagram.dst, PacketId::WORKERS_MAX as usize);
        (values % 4 == 0 && values / 4 <= VALUES_MAX).then_some(Sight {
            what: if back.is_some() { What::Result } else { What::Update },
            cluster: 0,
            worker: back.or(Some(header.pair >> 16)),
            seq: header.psn,
            round: 0,
            attempt: 0,
            generation: None,
            count: 1,
            elements: (values / 4) as u16,
        })
    }

    fn delivery(&self) -> Delivery {
        Delivery::Unsaid
    }

    fn recognises(&self, port: u16, payload: &[u8]) -> bool {
        self.has_port(port) && Header::parse(payload).is_some()
    }

    fn print(&self, payload: &[u8]) -> String {
        let Some(h) = Header::parse(payload) else {
            return format!(
                "not switchml_roce: {} bytes, first {:02x?}",
                payload.len(),
                &payload[..payload.len().min(4)]
            );
        };
        let mut text = format!("switchml_roce {:?} pair {:#x} psn {} elements {}", h.part, h.pair, h.psn, h.elements)
            .to_lowercase();
        if h.part.is_first() {
            let Target { address, key, length } = h.target;
            text += &format!(" address {address:#x} key {key:#x} length {length}");
        }
        if h.part.has_immediate() {
            let Immediate { message, exponents: [e0, e1] } = h.immediate;
            text += &format!(" message {message} exponents {e0} {e1}");
        }
        text
    }

    fn frame_bytes(&self) -> (usize, usize) {
        let of = |part: Part, elements: u16| HEAD + part.head() + usize::from(elements) * 4 + ICRC;
        (of(Part::Middle, ELEMENTS[0]), of(Part::OnlyImmediate, ELEMENTS[1]))
    }

    fn round_trip(&self, payload: &[u8]) -> Option<Vec<u8>> {
        let mut out = payload.to_vec();
        Header::parse(payload)?.emit(&mut out);
        Some(out)
    }

    fn layout(&self) -> &'static super::layout::Layout {
        &layout::LAYOUT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lengths_are_whole_values_and_a_checksum() {
        for part in Part::ALL {
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
        assert_eq!(SwitchMlRoce.frame_bytes(), (42 + 12 + 256 + 4, 42 + 32 + 1024 + 4));
    }

    proptest! {
        #[test]
        fn headers_round_trip(which in 0usize..6, bits: u8, pair in 0u32..1 << 24, psn in 0u32..1 << 24, address: u64, key: u32, length: u32, message: u16, e0: i8, e1: i8, elements in 0u16..=256) {
            let part = Part::ALL[which];
            let header = Header {
                part,
                solicited: bits & 1 != 0,
                migration: bits & 2 != 0,
                congestion: [bits & 4 != 0, bits & 8 != 0],
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
