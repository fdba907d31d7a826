//! SwitchML's packets over UDP, as in its public client and P4 program (p4lang/p4app-switchML).
//!
//! ```text
//! | type 4, unused 1, size 3 | job 8 | packet 32 LE | set 1, unused 1, slot 14 | e0 i8 | e1 i8 | value i32 ... |
//! ```
//!
//! The packet number is in the byte order of the client's host, little-endian: the switch only echoes it. Everything else is in network
//! order. A packet has 64 or 256 values; the codes for 32 and 128 exist, but the public program drops them. The client never writes the
//! second exponent, and the switch takes the maximum of all: here it contains the number of the transmission (our use), so that the ledger
//! can identify it. Packets are numbered over a whole run, whereas the client restarts with every job. [`Header::strict`] and
//! [`Header::out_of_strict`] convert between the two.

use pktgen_core::record::lanes::Number;
use pktgen_core::registry::Named;
use pktgen_wire::wire::frame::{HEAD, any_worker};
use pktgen_wire::wire::header::{Group, header};
use pktgen_wire::wire::lanes::LaneForm;
use pktgen_wire::wire::layout::{Count, Field, Layout, Message, PLAIN, Rest};
use pktgen_wire::wire::sight::{Datagram, Delivery, Renewal, Sight, What};
use pktgen_wire::wire::{Captured, Format, FormatFacts, Packet, RoundForm, RoundMark, integers};

/// First UDP port of the switch, which has 16; the client uses the first.
pub const PORT: u16 = 0xbee0;
/// Number of ports of the switch.
pub(crate) const PORTS: u16 = 16;
/// UDP port of workers.
pub const WORKER_PORT: u16 = 4000;
/// Length of the payload before the values, including exponents.
pub const HEADER: usize = Header::BYTES;
/// The numbers of values that packets may have.
pub const ELEMENTS: [u16; 2] = [64, 256];
/// Maximum number of workers of a job: a slot's bitmap has 32 bits.
pub(crate) const WORKERS_MAX: usize = 32;
/// Maximum number of slots per set: a pair of registers has 16,384 entries, shared by two sets.
pub(crate) const POOL_MAX: u16 = 8192;

/// The only packet type.
const TYPE: u64 = 1;

header! {
    /// What a packet says besides its values.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Header {
        fixed type: 4 = TYPE, "Type: 1";
        fixed spare: 1 = 0, "Always 0";
        /// 64 or 256.
        elements: u16 = [Field::uint("size", 3, "How many values there are").named(&[(1, "64 values"), (3, "256 values")])]
            via (elements_of, size_of);
        /// Low bits of the job's number, which the client raises with every tensor; the switch does not look at it.
        job: u8 = [Field::uint("job", 8, "Low bits of the job's number")];
        /// Number of the packet; the switch echoes it. Here it runs on over all iterations of a run.
        packet: u32 = [Field::uint("packet", 32, "Number of the packet, which the switch echoes").little()];
        /// Which of the two sets of slots: the version bit.
        set: bool = [Field::uint("set", 1, "Which of the two sets of slots: the version bit")];
        unused 1;
        slot: u16, 14, "Slot in the set";
        exponent: i8, 8, "Largest exponent of the values of the packet this one describes";
        attempt: i8, 8, "Which transmission of the packet this is; 127 for all further ones";
    }
}

/// Returns the number of values with this size code; `None` for an undefined code.
#[inline]
fn elements_of(code: u64) -> Option<u16> {
    match code {
        1 => Some(64),
        3 => Some(256),
        _ => None,
    }
}

/// Returns the size code of this number of values.
#[inline]
fn size_of(elements: u16) -> u64 {
    match elements {
        64 => 1,
        256 => 3,
        _ => panic!("no packet has so many values"),
    }
}

impl Header {
    /// Writes the header into a payload. `elements` must be one of [`ELEMENTS`].
    #[inline]
    pub fn emit(&self, payload: &mut [u8]) {
        self.put(payload);
    }

    /// Converts to the header of the public client with jobs of this many packets: numbered within the job, with second exponent 0.
    #[inline]
    pub fn strict(self, packets: u32) -> Self {
        Header { packet: self.packet % packets.max(1), attempt: 0, ..self }
    }

    /// Converts back: assumes the job closest to `latest` whose number ends with these bits. The number of the
    /// transmission is unknown. Also returns the job's number; `None` if the header is impossible.
    #[inline]
    pub(crate) fn out_of_strict(self, packets: u32, latest: u32) -> Option<(Self, u32)> {
        let job = latest.checked_add_signed(i32::from(self.job.wrapping_sub(latest as u8) as i8))?;
        let packet = job.checked_mul(packets)?.checked_add(self.packet).filter(|_| self.packet < packets)?;
        Some((Header { packet, attempt: 0, ..self }, job))
    }

    /// Parses a header; `None` if the type or size is undefined, or the payload does not have the resulting length.
    #[inline]
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let header = Header::get(payload)?;
        (payload.len() == HEADER + usize::from(header.elements) * 4).then_some(header)
    }
}

/// Returns the values of a parsed packet as big-endian bytes.
#[inline]
pub fn values<'a>(payload: &'a [u8], header: &Header) -> &'a [u8] {
    &payload[HEADER..HEADER + usize::from(header.elements) * 4]
}

/// Returns the length of a frame with this number of values.
pub const fn frame_bytes(elements: u16) -> usize {
    HEAD + HEADER + elements as usize * 4
}

fn exponent_of(payload: &[u8]) -> Option<i8> {
    Header::get(payload).map(|header| header.exponent)
}

const VALUE: &[Field] = &[Field::of::<i32>("value", 32, "Value")];

const fn integers(count: usize) -> Rest {
    Rest::Items { name: "values", count: Count::Fixed(count), fields: VALUE }
}

static LAYOUT: Layout = Layout {
    ports: &[(PORT, PORT + PORTS - 1)],
    shared_ports: &[WORKER_PORT],
    telling: true,
    summary: &["job", "packet", "set", "slot", "exponent", "attempt"],
    head: Header::FIELDS,
    rules: &[],
    messages: &[
        Message { name: "64 values", when: &[("type", TYPE), ("spare", 0), ("size", 1)], rest: integers(64), ..PLAIN },
        Message {
            name: "256 values",
            when: &[("type", TYPE), ("spare", 0), ("size", 3)],
            rest: integers(256),
            ..PLAIN
        },
    ],
};

/// Contributions of probes, without exponents.
const ROUND: RoundForm = RoundForm {
    head: HEADER,
    write: |RoundMark { number, set, slot }, payload| {
        let elements = (payload.len().saturating_sub(HEADER) / 4) as u16;
        Header { elements, packet: number, set, slot, ..Header::default() }.emit(payload);
    },
    read: |payload| {
        let Header { packet: number, set, slot, .. } = Header::parse(payload)?;
        Some(RoundMark { number, set, slot })
    },
};

/// The registered format.
pub(crate) struct SwitchMl;

impl Named for SwitchMl {
    fn name(&self) -> &'static str {
        "switchml"
    }
    fn about(&self) -> &'static str {
        "SwitchML packets of 64 or 256 i32 values over UDP, as in the public client"
    }
}

impl Format for SwitchMl {
    fn layout(&self) -> &'static Layout {
        &LAYOUT
    }

    fn facts(&self) -> &'static FormatFacts {
        const FACTS: FormatFacts = FormatFacts {
            delivery: Delivery::ResultsOfAll,
            renewal: Renewal::Slots,
            lanes: Some(LaneForm { number: Number::I32, offset: HEAD + HEADER, shared: true, filled: true }),
            updates: Captured::OfTensors,
            ports: Some((WORKER_PORT, PORT)),
            round: Some(ROUND),
            exponent: Some(exponent_of),
            ..FormatFacts::new((frame_bytes(ELEMENTS[0]), frame_bytes(ELEMENTS[1])))
        };
        &FACTS
    }

    fn read(&self, payload: &[u8]) -> Option<Packet> {
        let h = Header::parse(payload)?;
        let line = format!(
            "switchml job {} packet {} set {} slot {} exponent {} attempt {} elements {}",
            h.job,
            h.packet,
            u8::from(h.set),
            h.slot,
            h.exponent,
            h.attempt,
            h.elements
        );
        let items = integers::items(values(payload, &h));
        Some(Packet::new(payload, h.fields(), |out| h.emit(out), line).with(items))
    }
    fn sight(&self, datagram: &Datagram) -> Option<Sight> {
        let h = Header::get(datagram.payload)?;
        let update = self.has_port(datagram.dst_port);
        // Packets do not contain their worker; its address identifies it, if it is a worker of this project.
        let worker = any_worker(if update { datagram.src } else { datagram.dst });
        (datagram.whole == HEADER + usize::from(h.elements) * 4).then_some(Sight {
            what: if update { What::Update } else { What::Result },
            cluster: h.job.into(),
            worker,
            seq: h.packet,
            round: (u16::from(h.set) << 15) | h.slot,
            attempt: h.attempt.max(0) as u8,
            generation: None,
            count: 1,
            elements: h.elements,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_packet_byte_by_byte() {
        let header =
            Header { job: 7, packet: 0x0102_0304, set: true, slot: 0x1fff, exponent: -3, attempt: 1, elements: 64 };
        let mut payload = vec![0; HEADER + 256];
        header.emit(&mut payload);
        assert_eq!(&payload[..HEADER], &[0x11, 7, 4, 3, 2, 1, 0x9f, 0xff, 0xfd, 1]);
        assert_eq!(Header::parse(&payload), Some(header));
        assert_eq!(SwitchMl.facts().exponent.and_then(|exponent| exponent(&payload)), Some(-3));
        assert_eq!((frame_bytes(64), frame_bytes(256)), (308, 1076), "without FCS");
    }

    #[test]
    fn what_the_public_program_drops_is_no_packet() {
        let mut payload = vec![0; HEADER + 1024];
        Header { elements: 256, ..Header::default() }.emit(&mut payload);
        assert!(Header::parse(&payload).is_some());
        for first in [0x10, 0x12, 0x23, 0x03, 0x17] {
            let mut other = payload.clone();
            other[0] = first;
            assert_eq!(Header::parse(&other), None, "{first:#04x}");
        }
        payload[0] = 0x11;
        assert_eq!(Header::parse(&payload), None, "too long for 64");
        payload[0] = 0x13;
        for short in 0..payload.len() {
            assert_eq!(Header::parse(&payload[..short]), None);
        }
    }

    proptest! {
        #[test]
        fn strict_numbers_are_found_again(iteration in 0u32..100_000, packets in 1u32..2000, at: u32, ahead in -128i64..128, attempt: i8) {
            let h = Header {
                job: iteration as u8,
                packet: iteration * packets + at % packets,
                attempt,
                elements: 64,
                ..Header::default()
            };
            let strict = h.strict(packets);
            prop_assert_eq!((strict.packet, strict.attempt, strict.job), (at % packets, 0, h.job));
            // A job less than 128 away is recognised, since workers are within a window of each other.
            let latest = (i64::from(iteration) - ahead).max(0) as u32;
            prop_assert_eq!(strict.out_of_strict(packets, latest), Some((Header { attempt: 0, ..h }, iteration)));
            let beyond = Header { packet: packets, ..strict };
            prop_assert_eq!(beyond.out_of_strict(packets, latest), None);
        }

        #[test]
        fn headers_round_trip(job: u8, packet: u32, set: bool, slot in 0u16..1 << 14, exponent: i8, attempt: i8, large: bool) {
            let h = Header { job, packet, set, slot, exponent, attempt, elements: ELEMENTS[usize::from(large)] };
            let mut payload = vec![0xa5; HEADER + usize::from(h.elements) * 4];
            h.emit(&mut payload);
            prop_assert_eq!(Header::parse(&payload), Some(h));
        }
    }
}
