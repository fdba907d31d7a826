//! The fields of a frame with their positions: of Ethernet, VLAN, IPv4 and UDP, and of a format's layout.

use pktgen_wire::wire::Format;
use pktgen_wire::wire::layout::{Placed, Value};

/// A field of a frame.
pub(super) struct Part {
    /// Its name, such as `ip.dst` or `olaf.cluster`.
    pub(super) name: String,
    /// Its first bit in the frame.
    pub(super) first: usize,
    bits: usize,
    /// Whether it belongs to the format's header, or to the content after it.
    pub(super) is_header: bool,
    pub(super) is_content: bool,
    /// Its encoding in the format.
    placed: Option<Placed>,
}

/// Fields of the headers: name, first byte, bytes.
const HEADS: [(&str, usize, usize); 18] = [
    ("eth.dst", 0, 6),
    ("eth.src", 6, 6),
    ("eth.type", 12, 2),
    ("ip.version", 14, 1),
    ("ip.tos", 15, 1),
    ("ip.length", 16, 2),
    ("ip.id", 18, 2),
    ("ip.fragment", 20, 2),
    ("ip.ttl", 22, 1),
    ("ip.protocol", 23, 1),
    ("ip.checksum", 24, 2),
    ("ip.src", 26, 4),
    ("ip.dst", 30, 4),
    ("udp.src", 34, 2),
    ("udp.dst", 36, 2),
    ("udp.length", 38, 2),
    ("udp.checksum", 40, 2),
    ("vlan", 12, 4),
];
/// Their bytes without the VLAN tag.
const HEAD: usize = 42;

/// Returns the fields of `frame`, in order.
pub(super) fn parts(format: &dyn Format, frame: &[u8]) -> Vec<Part> {
    let tag = if frame.get(12..14) == Some(&[0x81, 0x00]) { 4 } else { 0 };
    let head = |(name, byte, bytes): &(&str, usize, usize)| {
        let later = if *byte >= 12 && *name != "vlan" { tag } else { 0 };
        let (is_header, is_content) = (false, false);
        Part {
            name: (*name).to_owned(),
            first: (byte + later) * 8,
            bits: bytes * 8,
            is_header,
            is_content,
            placed: None,
        }
    };
    let mut all: Vec<Part> = HEADS.iter().filter(|(name, ..)| tag > 0 || *name != "vlan").map(head).collect();
    all.sort_by_key(|part| part.first);
    let begin = HEAD + tag;
    let payload = frame.get(begin..).unwrap_or_default();
    let Some(decoded) = format.layout().decode(payload) else {
        // Not a packet of the format: byte by byte.
        all.extend((begin..frame.len()).map(|byte| Part {
            name: format!("{}[{}]", format.name(), byte - begin),
            first: byte * 8,
            bits: 8,
            is_header: false,
            is_content: true,
            placed: None,
        }));
        return all;
    };
    let own = |placed: Placed, name: String, is_content: bool| Part {
        name: format!("{}.{name}", format.name()),
        first: begin * 8 + placed.first,
        bits: placed.field.bits,
        is_header: !is_content,
        is_content,
        placed: Some(placed),
    };
    all.extend(decoded.fields.iter().map(|read| own(read.placed, read.placed.field.name.to_owned(), false)));
    for (i, item) in decoded.items.iter().enumerate() {
        all.extend(item.iter().map(|read| own(read.placed, format!("{}[{i}]", read.placed.field.name), true)));
    }
    all.sort_by_key(|part| part.first);
    all
}

impl Part {
    fn raw(&self, frame: &[u8]) -> Option<u128> {
        let bytes = frame.get(self.first / 8..(self.first + self.bits).div_ceil(8))?;
        let whole = bytes.iter().fold(0u128, |sum, byte| sum << 8 | u128::from(*byte));
        let after = (8 - (self.first + self.bits) % 8) % 8;
        Some(whole >> after & (u128::MAX >> (128 - self.bits)))
    }

    /// Returns whether two frames have the same value.
    pub(super) fn alike(&self, one: &[u8], other: &[u8]) -> bool {
        self.raw(one) == self.raw(other)
    }

    /// Returns its value in a frame, as text.
    pub(super) fn text(&self, frame: &[u8]) -> String {
        let Some(raw) = self.raw(frame) else { return "nothing: the frame ends before".into() };
        if let Some(placed) = self.placed {
            let from = (self.first - placed.first) / 8;
            return match frame.get(from..).and_then(|payload| placed.field.read(payload, placed.first)) {
                Some(Value::Int(n)) => n.to_string(),
                Some(Value::Float(bits)) => f32::from_bits(bits).to_string(),
                None => format!("{raw:#x}"),
            };
        }
        let bytes = raw.to_be_bytes();
        match self.name.as_str() {
            "eth.dst" | "eth.src" => bytes[10..].iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":"),
            "ip.src" | "ip.dst" => bytes[12..].iter().map(u8::to_string).collect::<Vec<_>>().join("."),
            "udp.src" | "udp.dst" | "udp.length" | "ip.length" | "ip.ttl" => raw.to_string(),
            _ => format!("{raw:#x}"),
        }
    }
}
