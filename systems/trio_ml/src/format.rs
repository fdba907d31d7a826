//! Trio-ML's aggregation packets over UDP (Figures 7 and 8): a 12-byte header, then 32-bit gradients.
//!
//! ```text
//! | job 8 | block 32 | age_op 4, final 1, degraded 1, unused 2 | source 8 | sources 8 | generation 16 |
//! | spare 4, gradients 12 | gradient i32 ... |
//! ```
//!
//! Header fields are in network order, so the block id begins at byte 1. The paper does not specify the byte order of
//! gradients: they are in network order, too (our choice, as its 32-bit adds require one). Contributions go to the
//! router, Results come from it: the addresses distinguish these. In a Result, `source` is the source whose packet
//! opened the block's record (our choice; the paper leaves it open), or for an engine below another the engine's own.

use pktgen_core::record::lanes::Number;
use pktgen_core::registry::Named;
use pktgen_wire::wire::frame::{ETHERNET_MIN, FRAME_MAX, HEAD, any_worker};
use pktgen_wire::wire::header::{Group, header};
use pktgen_wire::wire::lanes::LaneForm;
use pktgen_wire::wire::layout::{After, Count, Field, Layout, Message, PLAIN, Rest};
use pktgen_wire::wire::sight::{Datagram, Delivery, Sight, What};
use pktgen_wire::wire::{Format, FormatFacts, Packet, integers};

/// UDP port of the router (§4, "e.g., 12000").
pub const PORT: u16 = 12000;
/// Length of the payload before the gradients (Figure 8).
pub const HEADER: usize = Header::BYTES;
/// Maximum number of gradients in a packet: the field allows 4095, a jumbo frame 2245.
pub const ELEMENTS_MAX: u16 = ((FRAME_MAX - HEAD - HEADER) / 4) as u16;
/// Ethernet pads shorter payloads to this length.
const PADDED: usize = ETHERNET_MIN - HEAD;

/// `age_op` of a block that did not time out (§5).
pub const AGE_NONE: u8 = 0;
/// `age_op` of a block that timed out (§5).
pub const AGED: u8 = 1;
/// `age_op` of a notification without gradients: `source` is a permanent straggler (§5 "Advanced straggler mitigation"
/// requires one without specifying a layout; our choice).
pub const STRAGGLER: u8 = 2;

/// Names of `age_op`.
const AGE_OPS: &[(u64, &str)] = &[(AGE_NONE as u64, "none"), (AGED as u64, "aged"), (STRAGGLER as u64, "straggler")];

header! {
    /// What a packet says besides its gradients.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Header {
        job: u8, 8, "Aggregation job";
        block: u32, 32, "Block: a part of the model that fits a packet";
        /// Whether the block has aged out. 4 bits.
        age_op: u8 = [Field::uint("age_op", 4, "Has the block aged out?").named(AGE_OPS)];
        /// Whether it is the last block of the model.
        last: bool = [Field::flag("final", "It is the last block of the model")];
        degraded: bool, 1, "The sum is that of some of the sources only";
        unused 2;
        source: u8, 8, "Who sent it; in a Result whose packet opened the block's record";
        sources: u8, 8, "Sources that the content represents";
        generation: u16, 16, "Iteration, modulo 65536";
        unused 4;
        elements: u16, 12, "Gradients that follow";
    }
}

impl Header {
    /// Writes the header into a payload.
    #[inline]
    pub fn emit(&self, payload: &mut [u8]) {
        self.put(payload);
    }

    /// Parses a header; `None` if the payload does not have the length given by its gradients, apart from Ethernet's padding.
    #[inline]
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let header = Header::get(payload)?;
        let need = HEADER + usize::from(header.elements) * 4;
        (payload.len() >= need && payload.len() <= need.max(PADDED)).then_some(header)
    }
}

/// Returns the gradients of a parsed packet as big-endian bytes.
#[inline]
pub fn values<'a>(payload: &'a [u8], header: &Header) -> &'a [u8] {
    &payload[HEADER..HEADER + usize::from(header.elements) * 4]
}

/// Returns the length of a frame with `elements` gradients.
pub const fn frame_bytes(elements: u16) -> usize {
    HEAD + HEADER + elements as usize * 4
}

static LAYOUT: Layout = Layout {
    ports: &[(PORT, PORT)],
    shared_ports: &[],
    telling: false,
    summary: &["job", "block", "generation", "source", "sources", "elements", "final", "degraded"],
    head: Header::FIELDS,
    rules: &[],
    messages: &[Message {
        name: "gradients",
        rest: Rest::Items {
            name: "gradients",
            count: Count::Field("elements"),
            fields: &[Field::of::<i32>("gradient", 32, "Gradient")],
        },
        after: After::PaddingTo(PADDED),
        ..PLAIN
    }],
};

/// The registered format.
pub(crate) struct TrioMl;

impl Named for TrioMl {
    fn name(&self) -> &'static str {
        "trio_ml"
    }
    fn about(&self) -> &'static str {
        "Trio-ML blocks of i32 gradients and their Results over UDP port 12000"
    }
}

impl Format for TrioMl {
    fn layout(&self) -> &'static Layout {
        &LAYOUT
    }

    fn facts(&self) -> &'static FormatFacts {
        const FACTS: FormatFacts = FormatFacts {
            delivery: Delivery::Results,
            lanes: Some(LaneForm { number: Number::I32, offset: HEAD + HEADER, shared: true, filled: false }),
            ports: Some((PORT, PORT)),
            by_address: true,
            ..FormatFacts::new((frame_bytes(0), frame_bytes(ELEMENTS_MAX)))
        };
        &FACTS
    }

    fn read(&self, payload: &[u8]) -> Option<Packet> {
        let h = Header::parse(payload)?;
        let line = format!(
            "trio_ml job {} block {} generation {} source {} sources {} elements {}{}{}{}",
            h.job,
            h.block,
            h.generation,
            h.source,
            h.sources,
            h.elements,
            if h.last { " final" } else { "" },
            if h.degraded { " degraded" } else { "" },
            match h.age_op {
                AGE_NONE => String::new(),
                op => format!(" age_op {op}"),
            }
        );
        let items = integers::items(values(payload, &h));
        Some(Packet::new(payload, h.fields(), |out| h.emit(out), line).with(items))
    }
    fn sight(&self, datagram: &Datagram) -> Option<Sight> {
        let h = Header::get(datagram.payload)?;
        let need = HEADER + usize::from(h.elements) * 4;
        let what = match h.age_op {
            STRAGGLER => What::Control,
            _ if is_result(&h, datagram) => What::Result,
            _ => What::Update,
        };
        let fits = datagram.whole >= need && datagram.whole <= need.max(PADDED);
        fits.then_some(Sight {
            what,
            cluster: h.job.into(),
            worker: Some(h.source.into()),
            seq: h.block,
            round: h.generation,
            attempt: 0,
            generation: None,
            count: if what == What::Update { 1 } else { h.sources.into() },
            elements: h.elements,
        })
    }
}

/// Whether a packet is a result, whatever addresses the run has: results go to multicast groups, are partial or of several sources, or go to
/// a worker from what is none. Contributions are of one source.
fn is_result(header: &Header, datagram: &Datagram) -> bool {
    let is_multicast = datagram.dst >> 28 == 0xe;
    let from_above = any_worker(datagram.dst).is_some() && any_worker(datagram.src).is_none();
    is_multicast || header.sources > 1 || header.degraded || from_above
}

#[cfg(test)]
mod tests {
    use super::*;
    use pktgen_wire::wire::integers::add_values;
    use proptest::prelude::*;

    fn header() -> Header {
        Header {
            job: 0x12,
            block: 0x3456_789a,
            age_op: AGED,
            last: true,
            degraded: true,
            source: 0xfe,
            sources: 0x05,
            generation: 0xbcde,
            elements: 2,
        }
    }

    /// Contributions and results of any addresses: ours, a profile's within and outside of 10/8.
    #[test]
    fn results_are_known_in_every_network() {
        let (server, group) = (0xc612_0001, 0xefc0_0000);
        let one = Header { degraded: false, sources: 1, ..header() };
        for (device, workers, group) in [
            (server, 0x0a00_0001, group),
            (0x0a32_00fe, 0x0a32_0001, 0xef32_0000),
            (0xac1e_05fe, 0xac1e_0501, 0xef4d_0000),
        ] {
            let what = |header: &Header, src, dst| {
                let mut payload = vec![0; HEADER + 8];
                header.emit(&mut payload);
                let (whole, port) = (payload.len(), 13_000);
                let datagram =
                    Datagram { src, dst, src_port: port, dst_port: port, payload: &payload, whole, six: None };
                TrioMl.sight(&datagram).expect("it is one").what
            };
            assert_eq!(what(&one, workers, device), What::Update);
            assert_eq!(what(&Header { sources: 0, ..one }, workers, device), What::Update);
            for result in [Header { sources: 4, ..one }, Header { degraded: true, ..one }] {
                assert_eq!(what(&result, device, workers), What::Result);
            }
            assert_eq!(what(&one, device, group), What::Result);
        }
        assert_eq!(what_of_ours(&one, server), What::Result);
    }

    /// Returns what a packet from `src` to the first worker's address is.
    fn what_of_ours(header: &Header, src: u32) -> What {
        let mut payload = vec![0; HEADER + 8];
        header.emit(&mut payload);
        let (whole, port) = (payload.len(), PORT);
        let dst = 0x0a00_0001;
        let datagram = Datagram { src, dst, src_port: port, dst_port: port, payload: &payload, whole, six: None };
        TrioMl.sight(&datagram).expect("it is one").what
    }

    #[test]
    fn a_packet_byte_by_byte() {
        let mut payload = vec![0xa5; HEADER + 8];
        header().emit(&mut payload);
        payload[12..20].copy_from_slice(&[0, 0, 0, 1, 0xff, 0xff, 0xff, 0xfe]);
        let expected =
            [0x12, 0x34, 0x56, 0x78, 0x9a, 0x1c, 0xfe, 0x05, 0xbc, 0xde, 0, 2, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xfe];
        assert_eq!(payload, expected);
        assert_eq!(Header::parse(&payload), Some(header()));
        let mut sums = [i32::MIN, -1];
        add_values(&mut sums, values(&payload, &header()));
        assert_eq!(sums, [i32::MIN + 1, -3]);
        assert_eq!(frame_bytes(1024), 4150);
    }

    #[test]
    fn lengths_must_fit_the_gradients() {
        let mut payload = vec![0; HEADER + 40];
        Header { elements: 10, ..header() }.emit(&mut payload);
        assert!(Header::parse(&payload).is_some());
        payload.push(0);
        assert_eq!(Header::parse(&payload), None, "one byte too many");
        for short in 0..HEADER + 40 {
            assert_eq!(Header::parse(&payload[..short]), None);
        }
        // A frame with one gradient is padded by Ethernet.
        let mut padded = vec![0; PADDED];
        Header { elements: 1, ..header() }.emit(&mut padded);
        assert!(Header::parse(&padded).is_some());
        padded.push(0);
        assert_eq!(Header::parse(&padded), None);
    }

    proptest! {
        #[test]
        fn headers_round_trip(job: u8, block: u32, age_op in 0u8..16, last: bool, degraded: bool, source: u8, sources: u8, generation: u16, elements in 0u16..600) {
            let h = Header { job, block, age_op, last, degraded, source, sources, generation, elements };
            let mut payload = vec![0xa5; HEADER + usize::from(elements) * 4];
            h.emit(&mut payload);
            prop_assert_eq!(Header::parse(&payload), Some(h));
            prop_assert_eq!(payload[5] & 3, 0, "unused bits are 0");
        }

    }
}
