//! ATP's packets as in its public code (in-ATP/ATP): without UDP, but with an Ethernet type of their own and IPv4.
//!
//! ```text
//! | bitmap 32 | workers 8 | overflow 1, PS index 2, data index 1, ECN 1, resend 1, collision 1, ACK 1 | app 16 | seq 16 |
//! | aggregator 16 | aggregator of the second half 16 | 62 values of 32 | key 64 LE | tensor length 32 |
//! ```
//!
//! Values are integers in network order, which represent floats in millionths; if one does not fit, the whole packet is
//! sent again with the overflow flag and raw floats in the byte order of the host (little-endian). The switch adds up
//! in two passes of 31 values, so a packet contains two aggregators, the second larger by 20,000. An ACK with the
//! overflow flag that is not resent requests the raw floats, and its values have no meaning. The client never swaps the
//! key, so it is little-endian. Wireshark uses the name ATP for AppleTalk's protocol, so the format has another name.
//!
//! Over UDP (our choice, so that packets can cross any network and socket) the payload is the same, and the key, which
//! devices only carry, identifies the packet: see [`Name`].
//!
//! The IPv4 header is a template from the public code: it states 0x54 bytes of ICMP, with a checksum for other
//! addresses, which nothing checks. [`emit_head`] writes the same.

use pktgen_core::record::lanes::Number;
use pktgen_core::registry::Named;
use pktgen_wire::wire::frame::{self, Ip, any_worker};
use pktgen_wire::wire::header::{Group, header};
use pktgen_wire::wire::lanes::LaneForm;
use pktgen_wire::wire::layout::{Count, Field, Layout, Message, PLAIN, Rest};
use pktgen_wire::wire::sight::{Datagram, Delivery, Renewal, Sight, What};
use pktgen_wire::wire::{Format, FormatFacts, Packet, Registers, floats, integers};

/// Ethernet type of packets that the switch sums.
pub(crate) const ETHER_TYPE: u16 = 0x0700;
/// Length of the Ethernet and IPv4 headers.
pub const HEAD: usize = 34;
/// Number of values in a packet.
pub const ELEMENTS: usize = 62;
/// Length of a packet after the IPv4 header.
pub const BYTES: usize = BEHIND + Tail::BYTES;
/// UDP port of servers (our choice).
pub const PORT: u16 = 48_520;
/// UDP port of workers (our choice).
pub const WORKER_PORT: u16 = 48_521;
/// Length of a frame over UDP.
pub(crate) const UDP_FRAME_BYTES: usize = frame::HEAD + BYTES;
/// Length of a frame.
pub const FRAME_BYTES: usize = HEAD + BYTES;
/// Distance of the aggregators of second halves.
pub const SECOND: u16 = 20_000;
/// Length before the values.
const BEFORE: usize = Header::BYTES;
/// End of the values.
const BEHIND: usize = BEFORE + ELEMENTS * 4;
/// The template of the IPv4 header, up to the addresses.
const IP: [u8; 12] = [0x45, 0, 0, 0x54, 0, 0, 0x40, 0, 0x40, 0x01, 0xaf, 0xb6];

/// Direction of frames: their destination Ethernet address consists of it and of the sending thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Towards {
    /// From a worker to the parameter server.
    Server,
    /// From the parameter server to workers.
    Workers,
}

header! {
    /// What a packet says besides its values.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Header {
        /// One bit per host that has contributed; the switch ORs them.
        bitmap: u32 = [Field::uint("bitmap", 32, "One bit per host that has contributed")];
        workers: u8, 8, "Contributions that complete an aggregate";
        overflow: bool, 1, "Values are raw floats, in the byte order of the host";
        server: u8, 2, "Which parameter server";
        second_half: bool, 1, "Which half of the values a pass is at";
        /// Congestion was seen.
        congested: bool = [Field::flag("ecn", "Congestion was seen")];
        resent: bool, 1, "Sent again";
        collision: bool, 1, "Another packet had its aggregator: not summed";
        ack: bool, 1, "From the parameter server";
        app: u16, 16, "Job";
        seq: u16, 16, "Number at the job, from 1 on";
        aggregator: u16, 16, "Aggregator of the first half";
        second: u16, 16, "Aggregator of the second half";
        beside key: u64, "Key of the tensor.";
        beside tensor: u32, "Elements of the tensor.";
    }
}

header! {
    /// What stands behind the values.
    struct Tail {
        /// Key of the tensor.
        key: u64 = [
            Field::uint("key_low", 32, "Key of the tensor, its lower half").little(),
            Field::uint("key_high", 32, "Key of the tensor, its upper half").little()
        ];
        tensor: u32, 32, "Elements of the tensor";
    }
}

/// The contents of the key of a packet in this project: devices carry it and do not read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name {
    /// The packet's number over all iterations.
    pub number: u32,
    /// Number of the transmission; 0 for the first.
    pub attempt: u8,
    /// Number of its worker in the job.
    pub source: u8,
}

impl Name {
    /// Returns the key.
    #[inline]
    pub fn key(self) -> u64 {
        u64::from(self.number) | u64::from(self.attempt) << 32 | u64::from(self.source) << 40
    }

    /// Returns the name in a key.
    #[inline]
    pub fn of(key: u64) -> Self {
        Name { number: key as u32, attempt: (key >> 32) as u8, source: (key >> 40) as u8 }
    }

    /// Returns the number by which the switch distinguishes packets of a job: after 65,535 numbers restart at 1.
    #[inline]
    pub fn seq(self) -> u16 {
        (self.number % u32::from(u16::MAX)) as u16 + 1
    }
}

impl Header {
    /// Writes everything except the values.
    pub fn emit(&self, layer: &mut [u8]) {
        self.put(layer);
        self.tail().put(&mut layer[BEHIND..BYTES]);
    }

    /// Parses a packet after its IPv4 header; `None` if it does not have the length of all packets.
    pub fn parse(layer: &[u8]) -> Option<Self> {
        let Tail { key, tensor } = Tail::get(layer.get(BEHIND..).filter(|_| layer.len() == BYTES)?)?;
        Some(Header { key, tensor, ..Header::get(layer)? })
    }

    /// Returns whether a server asks for the raw floats: its values have no meaning.
    pub(crate) fn asks_for_floats(&self) -> bool {
        self.ack && self.overflow && !self.resent
    }

    /// Returns the purpose of the packet. A server that asks for floats has no result yet.
    fn what(&self) -> What {
        match self.ack {
            true if self.asks_for_floats() => What::Control,
            true => What::Result,
            false => What::Update,
        }
    }

    fn tail(&self) -> Tail {
        Tail { key: self.key, tensor: self.tensor }
    }
}

/// Returns the values of a packet as bytes.
pub fn values(layer: &[u8]) -> Option<&[u8]> {
    if layer.len() == BYTES { layer.get(BEFORE..BEHIND) } else { None }
}

/// Returns the values of a packet for writing.
pub fn values_mut(layer: &mut [u8]) -> &mut [u8] {
    &mut layer[BEFORE..BEHIND]
}

/// Writes the Ethernet and IPv4 headers of a frame, of which only the addresses are meaningful.
pub fn emit_head(frame: &mut [u8], source_mac: [u8; 6], towards: Towards, thread: u8, source: Ip, target: Ip) {
    let target_mac = match towards {
        Towards::Server => [0x77, 0x77, 0x77, 0x77, 0x77, thread],
        Towards::Workers => [0x05, 0x04, 0x03, 0x02, 0x01, thread],
    };
    frame[..6].copy_from_slice(&target_mac);
    frame[6..12].copy_from_slice(&source_mac);
    frame[12..14].copy_from_slice(&ETHER_TYPE.to_be_bytes());
    frame[14..26].copy_from_slice(&IP);
    frame[26..30].copy_from_slice(&source.to_be_bytes());
    frame[30..HEAD].copy_from_slice(&target.to_be_bytes());
}

const fn items(fields: &'static [Field]) -> Rest {
    Rest::Items { name: "values", count: Count::Fixed(ELEMENTS), fields }
}

const LAYOUT: Layout = Layout {
    ports: &[],
    shared_ports: &[],
    telling: false,
    summary: &["app", "seq", "workers", "aggregator", "resent", "collision", "ecn", "ack"],
    head: Header::FIELDS,
    rules: &[],
    messages: MESSAGES,
};

static UDP_LAYOUT: Layout = Layout { ports: &[(PORT, WORKER_PORT)], ..LAYOUT };

const MESSAGES: &[Message] = &[
    Message {
        name: "integers",
        when: &[("overflow", 0)],
        rest: items(&[Field::of::<i32>("value", 32, "Value, in millionths")]),
        tail: Tail::FIELDS,
        ..PLAIN
    },
    Message {
        name: "floats",
        when: &[("overflow", 1)],
        rest: items(&[Field::of::<f32>("raw", 32, "Value as it was").little()]),
        tail: Tail::FIELDS,
        ..PLAIN
    },
];

/// The registered format.
pub(crate) struct AtpMl;

impl Named for AtpMl {
    fn name(&self) -> &'static str {
        "atp_ml"
    }
    fn about(&self) -> &'static str {
        "ATP packets of 62 values over IPv4 without UDP, as in the public code"
    }
}

impl Format for AtpMl {
    fn layout(&self) -> &'static Layout {
        &LAYOUT
    }

    fn facts(&self) -> &'static FormatFacts {
        const FACTS: FormatFacts = FormatFacts {
            ether_type: Some(ETHER_TYPE),
            delivery: Delivery::Results,
            renewal: Renewal::Sequences,
            // Values do not end its payload, and no lanes say where they begin.
            adds: false,
            registers: Registers::Saturate,
            ..FormatFacts::new((FRAME_BYTES, FRAME_BYTES))
        };
        &FACTS
    }

    fn read(&self, payload: &[u8]) -> Option<Packet> {
        read(self.name(), payload)
    }

    fn refuse(&self, payload: &[u8]) -> String {
        format!("not atp_ml: {} bytes", payload.len())
    }

    /// If the bitmap has one bit, it identifies the host.
    fn sight(&self, datagram: &Datagram) -> Option<Sight> {
        let header = Header::get(datagram.payload).filter(|_| datagram.whole == BYTES)?;
        let (bits, host) = (header.bitmap.count_ones(), header.bitmap.trailing_zeros());
        let worker = any_worker(datagram.src).or((bits == 1).then_some(host));
        Some(Sight {
            what: header.what(),
            cluster: header.app,
            worker,
            seq: header.seq.into(),
            round: 0,
            attempt: header.resent.into(),
            generation: None,
            count: bits.max(1) as u16,
            elements: ELEMENTS as u16,
        })
    }
}

/// Describes a packet of the format with this name.
fn read(name: &str, payload: &[u8]) -> Option<Packet> {
    let h = Header::parse(payload)?;
    let flags = [
        (h.overflow, " overflow"),
        (h.second_half, " second half"),
        (h.congested, " ECN"),
        (h.resent, " resent"),
        (h.collision, " collision"),
        (h.ack, " ack"),
    ];
    let flags: String = flags.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect();
    let line = format!(
        "{name} app {} seq {} bitmap {:#x} of {} aggregators {} {} key {} tensor {}{flags}",
        h.app, h.seq, h.bitmap, h.workers, h.aggregator, h.second, h.key, h.tensor
    );
    let fields = [h.fields(), h.tail().fields()].concat();
    let items = values(payload).map(if h.overflow { floats } else { integers::items });
    Some(Packet::new(payload, fields, |out| h.emit(out), line).with(items.unwrap_or_default()))
}

/// The format of this project's runs.
pub(crate) struct AtpUdp;

impl Named for AtpUdp {
    fn name(&self) -> &'static str {
        "atp_udp"
    }
    fn about(&self) -> &'static str {
        "ATP packets over UDP (pktgen's own layout), with sequence number, attempt and worker in the key"
    }
}

impl Format for AtpUdp {
    fn layout(&self) -> &'static Layout {
        &UDP_LAYOUT
    }

    fn facts(&self) -> &'static FormatFacts {
        const FACTS: FormatFacts = FormatFacts {
            lanes: Some(LaneForm { number: Number::I32, offset: frame::HEAD + BEFORE, shared: true, filled: true }),
            ports: Some((WORKER_PORT, PORT)),
            renewal: Renewal::Sequences,
            registers: Registers::Saturate,
            ..FormatFacts::new((UDP_FRAME_BYTES, UDP_FRAME_BYTES))
        };
        &FACTS
    }

    fn read(&self, payload: &[u8]) -> Option<Packet> {
        read(self.name(), payload)
    }

    fn refuse(&self, payload: &[u8]) -> String {
        format!("not atp_udp: {} bytes", payload.len())
    }

    /// The key is after the values: for a truncated packet, only the 16 bits of its number are known.
    fn sight(&self, datagram: &Datagram) -> Option<Sight> {
        let header = Header::get(datagram.payload).filter(|_| datagram.whole == BYTES)?;
        let name = Header::parse(datagram.payload).map(|whole| Name::of(whole.key));
        let from_server = header.ack;
        Some(Sight {
            what: header.what(),
            // Jobs are numbered from 1 on.
            cluster: header.app.checked_sub(1)?,
            worker: any_worker(if from_server { datagram.dst } else { datagram.src }),
            seq: name.map_or(u32::from(header.seq.wrapping_sub(1)), |name| name.number),
            round: 0,
            attempt: name.map_or(u8::from(header.resent), |name| name.attempt),
            generation: None,
            count: if from_server { u16::from(header.workers) } else { header.bitmap.count_ones().max(1) as u16 },
            elements: ELEMENTS as u16,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pktgen_wire::pcap::Packet;
    use pktgen_wire::wire::sight::{Look, look, look_at};
    use proptest::prelude::*;

    fn header() -> Header {
        Header { bitmap: 4, workers: 8, app: 3, seq: 7, aggregator: 11, second: 11 + SECOND, ..Header::default() }
    }

    #[test]
    fn a_frame_is_found_by_its_ethernet_type() {
        let mut frame = vec![0; FRAME_BYTES];
        emit_head(&mut frame, [2; 6], Towards::Server, 1, 0x0102_0304, 0x0506_0708);
        header().emit(&mut frame[HEAD..]);
        let Look::Layer(ETHER_TYPE, datagram) = look(1, &frame) else { panic!("{:?}", look(1, &frame)) };
        assert_eq!((datagram.src, datagram.dst, datagram.payload.len()), (0x0102_0304, 0x0506_0708, BYTES));
        let sight = AtpMl.sight(&datagram).unwrap();
        assert_eq!((sight.what, sight.cluster, sight.worker, sight.seq), (What::Update, 3, Some(2), 7));
        // After a VLAN tag, too; a frame truncated within its header has no contents.
        let tagged = [&frame[..12], &[0x81, 0, 0, 5], &frame[12..]].concat();
        assert!(matches!(look(1, &tagged), Look::Layer(ETHER_TYPE, found) if found == datagram));
        let seen = |bytes: &[u8], len: usize| {
            let (len, time) = (len as u32, None);
            match look_at(&Packet { section: 0, interface: 0, link_type: 1, time, resolution_ps: 1, len, bytes }) {
                Look::Layer(_, datagram) => AtpMl.sight(&(&AtpMl as &dyn Format).packet_in(datagram)),
                _ => None,
            }
        };
        for kept in 0..frame.len() {
            let kept = &frame[..kept];
            assert_eq!(seen(kept, FRAME_BYTES), (kept.len() >= HEAD + BEFORE).then_some(sight), "{}", kept.len());
            // Frames of this length are no packets, and neither are longer ones.
            assert_eq!((seen(kept, kept.len()), seen(kept, FRAME_BYTES + 5)), (None, None), "{}", kept.len());
        }
        for behind in 0..=4 {
            let longer = [&frame[..], &[7; 4][..behind]].concat();
            assert_eq!(seen(&longer, FRAME_BYTES + behind), Some(sight), "{behind} bytes behind it");
        }
        frame[13] = 1;
        assert!(!matches!(look(1, &frame), Look::Layer(ETHER_TYPE, _)), "background traffic of another type");
    }

    /// The key and the length of the tensor are behind the values.
    #[test]
    fn results_are_made_again_of_the_values_alone() {
        let begin = |facts: &FormatFacts| facts.lanes.map(|form| form.offset - frame::HEAD).filter(|_| facts.adds);
        assert_eq!((begin(AtpUdp.facts()), begin(AtpMl.facts())), (Some(BEFORE), None));
        assert!(!AtpMl.facts().adds);
    }

    #[test]
    fn a_request_for_floats_is_no_result() {
        for (ack, overflow, resent, what) in [
            (true, false, false, What::Result),
            (true, true, false, What::Control),
            (true, true, true, What::Result),
            (true, false, true, What::Result),
            (false, true, false, What::Update),
            (false, true, true, What::Update),
        ] {
            let mut payload = vec![0; BYTES];
            Header { ack, overflow, resent, ..header() }.emit(&mut payload);
            let (src_port, dst_port) = (PORT, WORKER_PORT);
            let datagram = Datagram { src: 1, dst: 2, src_port, dst_port, payload: &payload, whole: BYTES, six: None };
            let of = |format: &dyn Format| format.sight(&datagram).map(|sight| sight.what);
            assert_eq!([of(&AtpMl), of(&AtpUdp)], [Some(what); 2], "{ack} {overflow} {resent}");
        }
    }

    /// Job 0 does not exist: one less would be the mark of background traffic.
    #[test]
    fn packets_over_udp_are_of_a_job() {
        let cluster = |app: u16| {
            let mut payload = vec![0; BYTES];
            Header { app, ..header() }.emit(&mut payload);
            let (src_port, dst_port) = (WORKER_PORT, PORT);
            let datagram = Datagram { src: 1, dst: 2, src_port, dst_port, payload: &payload, whole: BYTES, six: None };
            AtpUdp.sight(&datagram).map(|sight| sight.cluster)
        };
        assert_eq!([0, 1, u16::MAX].map(cluster), [None, Some(0), Some(u16::MAX - 1)]);
    }

    #[test]
    fn only_the_one_length_is_a_packet() {
        let bytes = [0; BYTES + 1];
        for len in 0..=bytes.len() {
            assert_eq!(Header::parse(&bytes[..len]).is_some(), len == BYTES);
            assert_eq!(values(&bytes[..len]).map(<[u8]>::len), (len == BYTES).then_some(ELEMENTS * 4));
        }
    }

    proptest! {
        #[test]
        fn headers_round_trip(bytes in prop::collection::vec(any::<u8>(), BYTES)) {
            let header = Header::parse(&bytes).unwrap();
            let mut again = vec![0; BYTES];
            header.emit(&mut again);
            values_mut(&mut again).copy_from_slice(values(&bytes).unwrap());
            prop_assert_eq!(again, bytes);
        }
    }
}
