//! Libra's packets over UDP. The paper publishes no header (LIBRA §3.4, §3.6): this is our choice.
//!
//! ```text
//! | kind 3, resent 1, attempt 4 | job 8 | sequence number 32 | then, by kind: |
//! | push, pull, hot    | index u32, value f32 ...  |  | result, hot  | part u16, parts u16, iteration u32, opener u64, index u32, value f32 ... |
//! | push, pull, cold   | key u64, value f32 ...    |  | result, cold | key u64, value f32 ...                                 |
//! | end                | iteration u32             |  | control      | see [`control`]                                        |
//! ```
//!
//! All fields are in network order. A hot packet is at most 192 bytes long, since the switch must parse all of it
//! (§3.4, footnote 2): with 42 bytes of headers and 6 of this one, 18 pairs remain. The lowest bit of the sequence
//! number distinguishes hot from cold, so that the switch and the server each receive numbers without gaps. A resent
//! packet has the number of the original (§3.6) and its bit set; the attempt (15 for all later ones) is for the ledger.

pub mod control;
mod numbers;

use control::{CONTROL_MAX, Control, PIECE_MAX};

use pktgen_core::record::{Heat, PacketId};
use pktgen_core::registry::Named;
use pktgen_wire::wire::frame::{FRAME_MAX, HEAD, any_worker};
use pktgen_wire::wire::header::{Group, header, values};
use pktgen_wire::wire::layout::{Count, Field, Layout, Message, PLAIN, Rest, Rule, Value};
use pktgen_wire::wire::sight::{AttemptMarks, Datagram, Delivery, Sight, What};
use pktgen_wire::wire::{Format, FormatFacts, Items, Packet};

pub use numbers::Numbers;

/// UDP port of switch and server.
pub const PORT: u16 = 0x11b4;
/// UDP port of workers.
pub const WORKER_PORT: u16 = 0x11b5;
/// Length of the header.
pub const HEADER: usize = Header::BYTES;
/// Maximum length of a packet that the switch adds up (§3.4).
pub const HOT_FRAME_MAX: usize = 192;
/// Length of a hot pair.
pub const HOT_PAIR: usize = HotPair::BYTES;
/// Length of a cold pair: keys have 64 bits.
pub const COLD_PAIR: usize = ColdPair::BYTES;
/// Maximum number of pairs in a hot packet.
pub const HOT_PAIRS: usize = (HOT_FRAME_MAX - HEAD - HEADER) / HOT_PAIR;
/// Length before the pairs of a switch's result: the part, the number of parts, the iteration, and the packet that
/// opened the sums, for the ledger.
pub(crate) const RESULT_HEAD: usize = ResultHead::BYTES;
/// Maximum number of pairs in a switch's result.
pub(crate) const RESULT_PAIRS: usize = (HOT_FRAME_MAX - HEAD - HEADER - RESULT_HEAD) / HOT_PAIR;
/// Number of low bits of a switch's result number; the bits above identify the switch that began counting, since one
/// that takes over without the previous state restarts.
pub const FRESH_SHIFT: u32 = 27;
/// Maximum number of changes of switches: a result number has 31 bits, beside the one that marks cold packets.
pub(crate) const SESSION_MAX: u32 = (1 << (31 - FRESH_SHIFT)) - 1;
/// Maximum attempt in the header.
pub const ATTEMPT_MAX: u8 = 15;

/// Returns which parameters the packet with this sequence number is about.
#[inline]
pub const fn heat_of(seq: u32) -> Heat {
    if seq & 1 == 1 { Heat::Cold } else { Heat::Hot }
}

values! {
    /// What a packet is for.
    pub enum Kind {
        Push = 0, "push", "Gradients of a worker.";
        End = 1, "end", "The worker has sent all of its iteration, and all was acknowledged.";
        Ack = 2, "ack", "The packet with this number arrived.";
        Result = 3, "result", "Sums.";
        Pull = 4, "pull", "Asks for the sums of these keys; the answer is a result with the same number.";
        Control = 5, "control", "Between controller and switches.";
    }
}

header! {
    /// What a packet says besides its pairs.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Header {
        kind: Kind, 3, "What it is for";
        /// Which transmission it is; [`ATTEMPT_MAX`] for all further ones. It was resent if this is not 0.
        attempt: u8 = [
            Field::flag("resent", "It was sent before"),
            Field::uint("attempt", 4, "Which transmission it is; 15 for all further ones")
        ] via (attempt_of, bits_of);
        /// Job (§6, "Multi-tenant training").
        job: u8 = [Field::uint("job", 8, "Job")];
        /// Sequence number; its lowest bit says cold.
        seq: u32 = [
            Field::uint("seq", 31, "Sequence number without its lowest bit, which says cold"),
            Field::flag("cold", "About parameters that the server sums")
        ];
    }
}

#[inline]
fn attempt_of(bits: u64) -> Option<u8> {
    let (resent, attempt) = (bits > ATTEMPT_MAX.into(), bits as u8 & ATTEMPT_MAX);
    (resent == (attempt > 0)).then_some(attempt)
}

#[inline]
fn bits_of(attempt: u8) -> u64 {
    let attempt = if attempt < ATTEMPT_MAX { attempt } else { ATTEMPT_MAX };
    (u8::from(attempt > 0) << 4 | attempt).into()
}

header! {
    /// What stands before the pairs of a switch's result.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct ResultHead {
        part: u16, 16, "Which part of the sums it is, from 0 on";
        parts: u16, 16, "Of how many packets the sums of the iteration are";
        iteration: u32, 32, "Iteration";
        /// Which packet opened the sum; none if none was sent.
        opener: Option<PacketId> = [
            Field::uint("opener_worker", 24, "Worker of the packet that opened the sum; all ones if none"),
            Field::uint("opener_attempt", 8, "Attempt of the packet that opened the sum; all ones if none"),
            Field::uint("opener_seq", 32, "Number of the packet that opened the sum; all ones if none")
        ] via (|bits: u64| Some((bits != u64::MAX).then_some(PacketId(bits))),
               |opener: Option<PacketId>| opener.map_or(u64::MAX, |packet| packet.0));
    }
}

header! {
    /// What follows the header of an end.
    struct End {
        iteration: u32, 32, "Iteration";
    }
}

header! {
    #[derive(Clone, Copy, Default)]
    struct HotPair {
        index: u32, 32, "Index of a hot parameter";
        value: f32, 32, "Gradient, sum or parameter";
    }
}

header! {
    #[derive(Clone, Copy, Default)]
    struct ColdPair {
        key: u64, 64, "Key of a parameter";
        value: f32, 32, "Gradient, sum or parameter";
    }
}

impl Header {
    /// Whether it is about cold parameters, which the server adds up.
    #[inline]
    pub const fn is_cold(&self) -> bool {
        matches!(heat_of(self.seq), Heat::Cold)
    }

    /// Writes the header.
    #[inline]
    pub fn emit(&self, payload: &mut [u8]) {
        self.put(payload);
    }

    /// Parses a packet's header; `None` if the payload is not a Libra packet.
    #[inline]
    pub fn parse(payload: &[u8]) -> Option<Self> {
        Header::parse_head(payload, payload.len())
    }

    /// Parses the header of a payload of `whole` bytes.
    #[inline]
    fn parse_head(payload: &[u8], whole: usize) -> Option<Self> {
        let header = Header::get(payload)?;
        let rest = whole.checked_sub(HEADER)?;
        let fits = match (header.kind, header.is_cold()) {
            (Kind::Push | Kind::Pull, false) => rest.is_multiple_of(HOT_PAIR) && rest <= HOT_PAIRS * HOT_PAIR,
            (Kind::Result, false) => rest >= RESULT_HEAD && (rest - RESULT_HEAD).is_multiple_of(HOT_PAIR),
            (Kind::Push | Kind::Pull | Kind::Result, true) => rest.is_multiple_of(COLD_PAIR),
            (Kind::End, _) => rest == 4,
            (Kind::Ack, _) => rest == 0,
            (Kind::Control, _) => rest > 0,
        };
        fits.then_some(header)
    }
}

/// Returns the pairs of a push, pull or result as bytes; for other packets, everything after the header.
#[inline]
pub fn pairs(payload: &[u8]) -> &[u8] {
    let from = match Header::parse(payload) {
        Some(Header { kind: Kind::Result, seq, .. }) if matches!(heat_of(seq), Heat::Hot) => HEADER + RESULT_HEAD,
        _ => HEADER,
    };
    payload.get(from..).unwrap_or_default()
}

impl ResultHead {
    /// Parses the head from the payload of a hot result; `None` if the part is impossible.
    #[inline]
    pub fn parse(payload: &[u8]) -> Option<Self> {
        ResultHead::get(payload.get(HEADER..)?).filter(|head| head.part < head.parts)
    }

    /// Writes the head.
    #[inline]
    pub fn emit(&self, payload: &mut [u8]) {
        self.put(&mut payload[HEADER..]);
    }
}

/// Parses hot pairs.
#[inline]
pub fn hot_pairs(bytes: &[u8]) -> impl ExactSizeIterator<Item = (u32, f32)> + '_ {
    bytes.as_chunks::<HOT_PAIR>().0.iter().map(|pair| {
        let HotPair { index, value } = HotPair::get(pair).unwrap_or_default();
        (index, value)
    })
}

/// Parses cold pairs.
#[inline]
pub fn cold_pairs(bytes: &[u8]) -> impl ExactSizeIterator<Item = (u64, f32)> + '_ {
    bytes.as_chunks::<COLD_PAIR>().0.iter().map(|pair| {
        let ColdPair { key, value } = ColdPair::get(pair).unwrap_or_default();
        (key, value)
    })
}

/// Writes hot pairs.
#[inline]
pub fn emit_hot(pairs: &[(u32, f32)], bytes: &mut [u8]) {
    for (&(index, value), room) in pairs.iter().zip(bytes.as_chunks_mut::<HOT_PAIR>().0) {
        HotPair { index, value }.put(room);
    }
}

/// Writes cold pairs.
#[inline]
pub fn emit_cold(pairs: &[(u64, f32)], bytes: &mut [u8]) {
    for (&(key, value), room) in pairs.iter().zip(bytes.as_chunks_mut::<COLD_PAIR>().0) {
        ColdPair { key, value }.put(room);
    }
}

const fn pairs_of(fields: &'static [Field], most: usize) -> Rest {
    Rest::Items { name: "pairs", count: Count::ToEnd(most), fields }
}

const HOT: Rest = pairs_of(HotPair::FIELDS, HOT_PAIRS);
const COLD: Rest = pairs_of(ColdPair::FIELDS, usize::MAX);
/// A switch's result is not limited by what switches can parse.
const SUMS: Rest = pairs_of(HotPair::FIELDS, usize::MAX);

/// A message by its kind, and by whether it is about cold parameters.
macro_rules! pairs {
    ($name:literal, $kind:ident, $cold:literal, $rest:expr) => {
        Message { name: $name, when: &[("kind", Kind::$kind as u64), ("cold", $cold)], rest: $rest, ..PLAIN }
    };
}

/// A control message by its code.
macro_rules! control {
    ($code:ident, [$($group:expr),*] $(, $field:ident: $value:expr)?) => {
        Message {
            name: control::Code::$code.name(),
            when: &[("kind", Kind::Control as u64), ("what", control::Code::$code as u64)],
            groups: &[control::Head::FIELDS, $($group),*],
            $($field: $value,)?
            ..PLAIN
        }
    };
}

const STATE: Rest = Rest::Bytes { name: "state", most: PIECE_MAX };

static LAYOUT: Layout = Layout {
    ports: &[(PORT, WORKER_PORT)],
    shared_ports: &[],
    telling: false,
    summary: &["job", "seq", "attempt", "iteration", "part", "parts", "piece", "from", "to", "session"],
    head: Header::FIELDS,
    rules: &[Rule::Together("resent", "attempt")],
    messages: &[
        pairs!("push hot", Push, 0, HOT),
        pairs!("push cold", Push, 1, COLD),
        pairs!("pull hot", Pull, 0, HOT),
        pairs!("pull cold", Pull, 1, COLD),
        Message {
            groups: &[ResultHead::FIELDS],
            rules: &[Rule::Below("part", "parts")],
            ..pairs!("result hot", Result, 0, SUMS)
        },
        pairs!("result cold", Result, 1, COLD),
        Message { name: "end", when: &[("kind", Kind::End as u64)], groups: &[End::FIELDS], ..PLAIN },
        Message { name: "ack", when: &[("kind", Kind::Ack as u64)], ..PLAIN },
        control!(Heartbeat, []),
        control!(Freeze, []),
        control!(Fetch, [control::Piece::FIELDS]),
        control!(Prepare, [control::Fresh::FIELDS], rules: &[Rule::AtMost("fresh", 1)]),
        control!(Restore, [control::Piece::FIELDS], rest: STATE),
        control!(Begin, []),
        control!(Activate, [control::Node::FIELDS]),
        control!(Retire, []),
        control!(Status, [control::Counts::FIELDS]),
        control!(Frozen, [control::Pieces::FIELDS]),
        control!(Piece, [control::Piece::FIELDS], rest: STATE),
        control!(Prepared, []),
        control!(Restored, [control::Piece::FIELDS]),
        control!(Begun, []),
        control!(Activated, []),
        control!(Retired, []),
    ],
};

/// The registered format.
pub struct Libra;

impl Named for Libra {
    fn name(&self) -> &'static str {
        "libra"
    }
    fn about(&self) -> &'static str {
        "key-value pairs of sparse training, hot ones by index in packets of at most 192 bytes; pktgen's own header"
    }
}

impl Format for Libra {
    fn layout(&self) -> &'static Layout {
        &LAYOUT
    }

    fn facts(&self) -> &'static FormatFacts {
        const FACTS: FormatFacts = FormatFacts {
            delivery: Delivery::Unsaid,
            transmissions: AttemptMarks::Numbered(ATTEMPT_MAX - 1),
            ports: Some((WORKER_PORT, PORT)),
            ..FormatFacts::new((HEAD + HEADER, FRAME_MAX))
        };
        &FACTS
    }

    fn read(&self, payload: &[u8]) -> Option<Packet> {
        let h = Header::parse(payload)?;
        let rest = &payload[HEADER..];
        let (mut fields, mut count) = (h.fields(), 0);
        let (heat, size) = if h.is_cold() { ("cold", COLD_PAIR) } else { ("hot", HOT_PAIR) };
        match h.kind {
            Kind::Push | Kind::Pull | Kind::Result => count = pairs(payload).len() / size,
            Kind::End => fields.extend(End::get(rest)?.fields()),
            Kind::Ack => {}
            Kind::Control => {
                let control = Control::parse(rest)?;
                fields.extend(control.fields());
                let bytes = match control.what {
                    control::What::Restore(_, state) | control::What::Piece(_, state) => state.to_vec(),
                    _ => Vec::new(),
                };
                let line = format!("libra control {control}");
                return Some(Packet { bytes, ..Packet::new(payload, fields, |out| h.emit(out), line) });
            }
        }
        if h.kind == Kind::Result && !h.is_cold() {
            fields.extend(ResultHead::parse(payload)?.fields());
        }
        let line = format!(
            "libra {} {heat} job {} seq {} attempt {} pairs {count}",
            h.kind.name(),
            h.job,
            h.seq >> 1,
            h.attempt
        );
        let float = |value: f32| Value::Float(value.to_bits());
        let pairs = pairs(payload);
        let items = match (h.kind, h.is_cold()) {
            (Kind::End | Kind::Ack | Kind::Control, _) => Items::new(),
            (_, true) => cold_pairs(pairs).map(|(key, value)| vec![Value::Int(key.into()), float(value)]).collect(),
            (_, false) => hot_pairs(pairs).map(|(i, value)| vec![Value::Int(i.into()), float(value)]).collect(),
        };
        Some(Packet::new(payload, fields, |out| h.emit(out), line).with(items))
    }

    fn sight(&self, datagram: &Datagram) -> Option<Sight> {
        let header = Header::parse_head(datagram.payload, datagram.whole).filter(|header| {
            let rest = &datagram.payload[HEADER..];
            match (header.kind, datagram.whole - HEADER) {
                (Kind::Control, whole) if rest.len() < whole => whole <= CONTROL_MAX,
                (Kind::Control, _) => Control::parse(rest).is_some(),
                _ => true,
            }
        })?;
        let (what, before) = match header.kind {
            Kind::Push => (What::Update, 0),
            Kind::Result => (What::Result, if header.is_cold() { 0 } else { RESULT_HEAD }),
            Kind::Ack => (What::Ack, 0),
            Kind::End | Kind::Pull | Kind::Control => (What::Control, 0),
        };
        let pair = if header.is_cold() { COLD_PAIR } else { HOT_PAIR };
        let pairs =
            if matches!(what, What::Update | What::Result) { datagram.whole - HEADER - before } else { 0 } / pair;
        // The payload does not contain the worker; the address identifies it, if it is one of this project.
        let back = || any_worker(datagram.dst).filter(|_| what != What::Update);
        let worker = any_worker(datagram.src).or_else(back);
        Some(Sight {
            what,
            cluster: header.job.into(),
            worker,
            seq: header.seq,
            round: 0,
            attempt: header.attempt,
            generation: None,
            count: 1,
            elements: pairs.min(usize::from(u16::MAX)) as u16,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pktgen_wire::wire::header::Bits;
    use proptest::prelude::*;

    #[test]
    fn a_packet_byte_by_byte() {
        let header = Header { kind: Kind::Pull, attempt: 3, job: 7, seq: 0x0102_0304 };
        let mut payload = vec![0; HEADER + 2 * HOT_PAIR];
        header.emit(&mut payload);
        emit_hot(&[(5, 1.0), (0x0a0b_0c0d, -2.0)], &mut payload[HEADER..]);
        let first = [0x93, 7, 1, 2, 3, 4, 0, 0, 0, 5, 0x3f, 0x80, 0, 0, 0x0a, 0x0b, 0x0c, 0x0d, 0xc0, 0, 0, 0];
        assert_eq!(payload, first);
        assert_eq!(Header::parse(&payload), Some(header));
        assert_eq!(hot_pairs(pairs(&payload)).collect::<Vec<_>>(), [(5, 1.0), (0x0a0b_0c0d, -2.0)]);
        let mut cold = vec![0; HEADER + COLD_PAIR];
        Header { kind: Kind::Push, attempt: 0, job: 0, seq: 1 }.emit(&mut cold);
        emit_cold(&[(u64::MAX - 1, 0.5)], &mut cold[HEADER..]);
        assert_eq!(&cold[HEADER..], &[255, 255, 255, 255, 255, 255, 255, 254, 0x3f, 0, 0, 0]);
        assert_eq!(cold_pairs(pairs(&cold)).collect::<Vec<_>>(), [(u64::MAX - 1, 0.5)]);
    }

    #[test]
    fn a_result_byte_by_byte() {
        let head = ResultHead { part: 2, parts: 3, iteration: 0x0102_0304, opener: Some(PacketId(5)) };
        let mut payload = vec![0; HEADER + RESULT_HEAD];
        Header { kind: Kind::Result, attempt: 0, job: 0, seq: 2 }.emit(&mut payload);
        head.emit(&mut payload);
        assert_eq!(payload[HEADER..], [0, 2, 0, 3, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 5]);
        assert_eq!(ResultHead::parse(&payload), Some(head));
        let none = ResultHead { opener: None, ..head };
        none.emit(&mut payload);
        assert_eq!((ResultHead::parse(&payload), &payload[HEADER + 8..]), (Some(none), &[255; 8][..]));
        ResultHead { part: 3, ..head }.emit(&mut payload);
        assert_eq!(ResultHead::parse(&payload), None);
    }

    #[test]
    fn eighteen_pairs_make_192_bytes() {
        assert_eq!((HOT_PAIRS, HEAD + HEADER + HOT_PAIRS * HOT_PAIR), (18, HOT_FRAME_MAX));
        assert_eq!(RESULT_PAIRS, 16);
    }

    #[test]
    fn what_does_not_fit_is_no_packet() {
        let of = |kind, seq, rest| {
            let mut payload = vec![0; HEADER + rest];
            Header { kind, attempt: 0, job: 0, seq }.emit(&mut payload);
            Header::parse(&payload).is_some()
        };
        assert!(of(Kind::Push, 0, 18 * 8) && !of(Kind::Push, 0, 19 * 8) && !of(Kind::Push, 0, 9));
        assert!(of(Kind::Push, 1, 100 * 12) && !of(Kind::Push, 1, 100 * 12 + 4));
        assert!(of(Kind::Result, 0, 16) && !of(Kind::Result, 0, 8) && of(Kind::Ack, 3, 0) && !of(Kind::Ack, 3, 1));
        assert!(of(Kind::End, 0, 4) && !of(Kind::End, 0, 3) && !of(Kind::Control, 0, 0));
        assert_eq!(Header::parse(&[0x10, 0, 0, 0, 0, 0]), None, "resent, and the first attempt");
        assert_eq!(Header::parse(&[0x05, 0, 0, 0, 0, 0]), None, "a further attempt that was not resent");
        assert_eq!(Header::parse(&[0xe0, 0, 0, 0, 0, 0]), None, "no such kind");
    }

    /// Of a message that was cut only the length is known.
    #[test]
    fn messages_that_are_invalid_are_no_control() {
        let control = Control { from: 1, to: 2, session: 3, what: control::What::Begin };
        let mut bytes = vec![0; HEADER + control.len() + 1];
        Header { kind: Kind::Control, attempt: 0, job: 0, seq: 0 }.emit(&mut bytes);
        control.emit(&mut bytes[HEADER..]);
        let what = |kept: usize, whole: usize| {
            let (src_port, dst_port, payload) = (PORT, PORT, &bytes[..kept]);
            let datagram = Datagram { src: 1, dst: 2, src_port, dst_port, payload, whole, six: None };
            Libra.sight(&datagram).map(|sight| sight.what)
        };
        let (long, exact) = (bytes.len(), bytes.len() - 1);
        assert_eq!((what(exact, exact), what(exact - 1, exact)), (Some(What::Control), Some(What::Control)));
        assert_eq!((what(long, long), what(exact - 1, exact - 1)), (None, None));
        let most = HEADER + CONTROL_MAX;
        assert_eq!((what(exact, most), what(exact, most + 1)), (Some(What::Control), None));
    }

    proptest! {
        #[test]
        fn headers_round_trip(kind in 0u64..6, attempt in 0u8..16, job: u8, seq: u32) {
            let header = Header { kind: Kind::decode(kind).unwrap(), attempt, job, seq };
            let rest = match (header.kind, header.is_cold()) {
                (Kind::Ack, _) => 0,
                (Kind::Control, _) => 1,
                (Kind::End, _) => 4,
                (Kind::Result, false) => RESULT_HEAD,
                (_, cold) => if cold { COLD_PAIR } else { HOT_PAIR },
            };
            let mut payload = vec![0xa5; HEADER + rest];
            header.emit(&mut payload);
            prop_assert_eq!(Header::parse(&payload), Some(header));
        }
    }
}
