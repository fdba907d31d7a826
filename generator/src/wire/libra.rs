//! Libra's packets over UDP. The paper publishes no header (LIBRA §3.4, §3.6): this is our choice.
//!
//! ```text
//! | kind 3, resent 1, attempt 4 | job 8 | sequence number 32 | then, by kind: |
//! | push, pull, hot    | index u32, value f32 ...  |  | result, hot  | part u16, parts u16, iteration u32, opener u64, index u32, value f32 ... |
//! | push, pull, cold   | key u64, value f32 ...    |  | result, cold | key u64, value f32 ...                                 |
//! | end                | iteration u32             |  | control      | see [`control`]                                        |
//! ```
//!
//! All in network order. A hot packet is at most 192 bytes long, since the switch must parse all of it (§3.4, footnote 2): 42
//! bytes of headers and 6 of this one leave 18 pairs. The lowest bit of the sequence number tells hot from cold, so that
//! the switch and the server each see numbers without gaps. A resent packet has the number of the original (§3.6) and its
//! bit set; which attempt it is (15 for all later ones) is for books.

pub mod control;
mod layout;

use super::Format;
use super::frame::{HEAD, worker_of};
use super::sight::{Datagram, Delivery, Sight, What};
use crate::record::PacketId;
use crate::registry::Named;

/// UDP port of switch and server.
pub const PORT: u16 = 0x11b4;
/// UDP port of workers.
pub const WORKER_PORT: u16 = 0x11b5;
/// Bytes of the header.
pub const HEADER: usize = 6;
/// Longest packet that the switch sums (§3.4).
pub const HOT_FRAME_MAX: usize = 192;
/// Bytes of a hot pair.
pub const HOT_PAIR: usize = 8;
/// Bytes of a cold pair: keys have 64 bits.
pub const COLD_PAIR: usize = 12;
/// Pairs of a hot packet.
pub const HOT_PAIRS: usize = (HOT_FRAME_MAX - HEAD - HEADER) / HOT_PAIR;
/// Bytes before the pairs of a switch's result: which of how many packets of which iteration's sums it is, and which packet
/// opened them, for the books.
pub const RESULT_HEAD: usize = 16;
/// Pairs of a switch's result.
pub const RESULT_PAIRS: usize = (HOT_FRAME_MAX - HEAD - HEADER - RESULT_HEAD) / HOT_PAIR;
/// Bits of the number of a switch's result below those that say which switch began to count: one that takes over without
/// what was before does.
pub const FRESH_SHIFT: u32 = 27;
/// In records, beside the number of the part of a sum that was received: with it a worker has all parts.
pub const PART_LAST: u32 = 1 << 31;
/// Largest attempt that the header tells apart.
pub const ATTEMPT_MAX: u8 = 15;

/// What a packet is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Gradients of a worker.
    Push = 0,
    /// The worker has sent all of its iteration, and all was acknowledged.
    End = 1,
    /// The packet with this number arrived.
    Ack = 2,
    /// Sums.
    Result = 3,
    /// Asks for the sums of these keys; the answer is a result with the same number.
    Pull = 4,
    /// Between controller and switches.
    Control = 5,
}

impl Kind {
    const ALL: [Kind; 6] = [Kind::Push, Kind::End, Kind::Ack, Kind::Result, Kind::Pull, Kind::Control];

    /// Name in prints.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Push => "push",
            Kind::End => "end",
            Kind::Ack => "ack",
            Kind::Result => "result",
            Kind::Pull => "pull",
            Kind::Control => "control",
        }
    }
}

/// What a packet says besides its pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// What it is for.
    pub kind: Kind,
    /// Which transmission it is; [`ATTEMPT_MAX`] for all further ones. It was resent if this is not 0.
    pub attempt: u8,
    /// Job (§6, "Multi-tenant training").
    pub job: u8,
    /// Sequence number; its lowest bit says cold.
    pub seq: u32,
}

impl Header {
    /// Is it about cold parameters, which the server sums?
    #[inline]
    pub const fn is_cold(&self) -> bool {
        self.seq & 1 == 1
    }

    /// Writes it.
    #[inline]
    pub fn emit(&self, payload: &mut [u8]) {
        let attempt = if self.attempt < ATTEMPT_MAX { self.attempt } else { ATTEMPT_MAX };
        payload[0] = (self.kind as u8) << 5 | u8::from(attempt > 0) << 4 | attempt;
        payload[1] = self.job;
        payload[2..6].copy_from_slice(&self.seq.to_be_bytes());
    }

    /// Reads a packet's header; none if the payload is no packet of ours.
    #[inline]
    pub fn parse(payload: &[u8]) -> Option<Self> {
        Header::parse_head(payload.first_chunk()?, payload.len() - HEADER)
    }

    /// Reads a header that `rest` bytes follow.
    #[inline]
    fn parse_head(head: &[u8; HEADER], rest: usize) -> Option<Self> {
        let kind = *Kind::ALL.get(usize::from(head[0] >> 5))?;
        let attempt = head[0] & ATTEMPT_MAX;
        if (attempt > 0) != (head[0] & 0x10 != 0) {
            return None;
        }
        let header =
            Header { kind, attempt, job: head[1], seq: u32::from_be_bytes([head[2], head[3], head[4], head[5]]) };
        let fits = match (kind, header.is_cold()) {
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

/// The pairs of a push, pull or result, as they lie there; of other packets what is after the header.
#[inline]
pub fn pairs(payload: &[u8]) -> &[u8] {
    let from = match Header::parse(payload) {
        Some(Header { kind: Kind::Result, seq, .. }) if seq & 1 == 0 => HEADER + RESULT_HEAD,
        _ => HEADER,
    };
    payload.get(from..).unwrap_or_default()
}

/// What stands before the pairs of a switch's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultHead {
    /// Which of them it is, from 0 on.
    pub part: u16,
    /// Of how many packets the results of the iteration are; at least 1.
    pub parts: u16,
    /// Which iteration.
    pub iteration: u32,
    /// Which packet opened the sum; none if nobody sent any.
    pub opener: Option<PacketId>,
}

impl ResultHead {
    /// Reads it from a payload that is a hot result; none if there is no such part.
    #[inline]
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let head: &[u8; RESULT_HEAD] = payload.get(HEADER..)?.first_chunk()?;
        let (&[a, b, c, d, e, f, g, h], opener) = head.split_first_chunk::<8>()?;
        let opener = u64::from_be_bytes(*opener.first_chunk()?);
        let opener = (opener != u64::MAX).then_some(PacketId(opener));
        let (part, parts) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        (part < parts).then_some(ResultHead { part, parts, iteration: u32::from_be_bytes([e, f, g, h]), opener })
    }

    /// Writes it.
    #[inline]
    pub fn emit(&self, payload: &mut [u8]) {
        payload[HEADER..HEADER + 2].copy_from_slice(&self.part.to_be_bytes());
        payload[HEADER + 2..HEADER + 4].copy_from_slice(&self.parts.to_be_bytes());
        let opener = self.opener.map_or(u64::MAX, |packet| packet.0);
        payload[HEADER + 4..HEADER + 8].copy_from_slice(&self.iteration.to_be_bytes());
        payload[HEADER + 8..HEADER + RESULT_HEAD].copy_from_slice(&opener.to_be_bytes());
    }
}

/// Hot pairs, read.
#[inline]
pub fn hot_pairs(bytes: &[u8]) -> impl ExactSizeIterator<Item = (u32, f32)> + '_ {
    bytes
        .as_chunks::<HOT_PAIR>()
        .0
        .iter()
        .map(|&[a, b, c, d, e, f, g, h]| (u32::from_be_bytes([a, b, c, d]), f32::from_be_bytes([e, f, g, h])))
}

/// Cold pairs, read.
#[inline]
pub fn cold_pairs(bytes: &[u8]) -> impl ExactSizeIterator<Item = (u64, f32)> + '_ {
    bytes.as_chunks::<COLD_PAIR>().0.iter().map(|&[a, b, c, d, e, f, g, h, i, j, k, l]| {
        (u64::from_be_bytes([a, b, c, d, e, f, g, h]), f32::from_be_bytes([i, j, k, l]))
    })
}

/// Writes hot pairs.
#[inline]
pub fn emit_hot(pairs: &[(u32, f32)], bytes: &mut [u8]) {
    for (&(index, value), room) in pairs.iter().zip(bytes.as_chunks_mut::<HOT_PAIR>().0) {
        room[..4].copy_from_slice(&index.to_be_bytes());
        room[4..].copy_from_slice(&value.to_be_bytes());
    }
}

/// Writes cold pairs.
#[inline]
pub fn emit_cold(pairs: &[(u64, f32)], bytes: &mut [u8]) {
    for (&(key, value), room) in pairs.iter().zip(bytes.as_chunks_mut::<COLD_PAIR>().0) {
        room[..8].copy_from_slice(&key.to_be_bytes());
        room[8..].copy_from_slice(&value.to_be_bytes());
    }
}

/// The registered format.
pub struct Libra;

impl Named for Libra {
    fn name(&self) -> &'static str {
        "libra"
    }
    fn about(&self) -> &'static str {
        "key and value pairs of sparse training, hot ones by index in packets of at most 192 bytes; the header is ours"
    }
}

impl Format for Libra {
    fn recognises(&self, port: u16, payload: &[u8]) -> bool {
        self.has_port(port) && Header::parse(payload).is_some()
    }

    fn has_port(&self, port: u16) -> bool {
        matches!(port, PORT | WORKER_PORT)
    }

    fn sight(&self, datagram: &Datagram) -> Option<Sight> {
        let head: &[u8; HEADER] = datagram.payload.first_chunk()?;
        let header = Header::parse_head(head, datagram.whole - HEADER)?;
        let (what, before) = match header.kind {
            Kind::Push => (What::Update, 0),
            Kind::Result => (What::Result, if header.is_cold() { 0 } else { RESULT_HEAD }),
            Kind::Ack => (What::Ack, 0),
            Kind::End | Kind::Pull | Kind::Control => (What::Control, 0),
        };
        let pair = if header.is_cold() { COLD_PAIR } else { HOT_PAIR };
        let pairs =
            if matches!(what, What::Update | What::Result) { datagram.whole - HEADER - before } else { 0 } / pair;
        // The payload does not say whose it is; the address does, where it is one of ours.
        let workers = PacketId::WORKERS_MAX as usize;
        let worker = worker_of(datagram.src, workers).or_else(|| worker_of(datagram.dst, workers));
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

    fn delivery(&self) -> Delivery {
        Delivery::Unsaid
    }

    fn print(&self, payload: &[u8]) -> String {
        match Header::parse(payload) {
            Some(h) => {
                let (heat, size) = if h.is_cold() { ("cold", COLD_PAIR) } else { ("hot", HOT_PAIR) };
                let count = match h.kind {
                    Kind::Push | Kind::Pull | Kind::Result => pairs(payload).len() / size,
                    _ => 0,
                };
                let (kind, job, seq, attempt) = (h.kind.name(), h.job, h.seq >> 1, h.attempt);
                if h.kind == Kind::Control {
                    return control::Control::parse(&payload[HEADER..]).map_or_else(
                        || format!("libra control: {} bytes of no known message", payload.len() - HEADER),
                        |control| format!("libra control {control}"),
                    );
                }
                format!("libra {kind} {heat} job {job} seq {seq} attempt {attempt} pairs {count}")
            }
            None => format!("not libra: {} bytes, first {:02x?}", payload.len(), &payload[..payload.len().min(4)]),
        }
    }

    fn frame_bytes(&self) -> (usize, usize) {
        (HEAD + HEADER, super::frame::FRAME_MAX)
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

    proptest! {
        #[test]
        fn headers_round_trip(kind in 0usize..6, attempt in 0u8..16, job: u8, seq: u32) {
            let header = Header { kind: Kind::ALL[kind], attempt, job, seq };
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
