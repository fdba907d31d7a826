//! Fields of made frames that count or are drawn.

use crate::seed::mix;
use crate::wire::frame::{FRAME_MAX, HEAD};

/// Fields by name: where they lie in a frame of Ethernet, IPv4 and UDP without tags, and their bytes.
const NAMES: [(&str, usize, usize); 10] = [
    ("eth_dst", 0, 6),
    ("eth_src", 6, 6),
    ("ip_tos", 15, 1),
    ("ip_id", 18, 2),
    ("ip_ttl", 22, 1),
    ("ip_src", 26, 4),
    ("ip_dst", 30, 4),
    ("udp_src", 34, 2),
    ("udp_dst", 36, 2),
    ("payload", 42, 8),
];

/// A field that differs from frame to frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Vary {
    /// Its first byte in the frame, and how many it has.
    at: usize,
    bytes: usize,
    random: bool,
    from: u64,
    to: u64,
    /// Makes what is drawn.
    salt: u64,
}

impl Vary {
    /// Reads `FIELD=count`, `FIELD=count:FROM..TO`, `FIELD=random` or `FIELD=random:FROM..TO`; a field is a name or `OFFSET+BYTES`.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let names = || NAMES.map(|(name, ..)| name).join(", ");
        let form = || {
            format!(
                "\"{text}\" is no field that varies; write FIELD=count or FIELD=random, with :FROM..TO behind it if not over all values, as \
                 udp_src=count:1024..2047; FIELD is OFFSET+BYTES, as 26+4, or one of {}",
                names()
            )
        };
        let (field, how) = text.split_once('=').ok_or_else(form)?;
        let named = NAMES.iter().find(|(name, ..)| *name == field).map(|(_, at, bytes)| (*at, *bytes));
        let by_place = || {
            let (at, bytes) = field.split_once('+')?;
            Some((at.trim().parse().ok()?, bytes.trim().parse().ok()?))
        };
        let (at, bytes): (usize, usize) = named.or_else(by_place).ok_or_else(form)?;
        if !(1..=8).contains(&bytes) {
            return Err(format!("\"{text}\": a field has 1 to 8 bytes, not {bytes}"));
        }
        if at.checked_add(bytes).is_none_or(|end| end > FRAME_MAX) {
            return Err(format!("\"{text}\": no frame has this field; frames have at most {FRAME_MAX} bytes"));
        }
        let all = if bytes == 8 { u64::MAX } else { (1 << (8 * bytes)) - 1 };
        let (how, range) = how.split_once(':').map_or((how, None), |(how, range)| (how, Some(range)));
        let random = match how {
            "count" => false,
            "random" => true,
            _ => return Err(form()),
        };
        let (from, to) = match range {
            None => (0, all),
            Some(range) => {
                let (from, to) = range.split_once("..").ok_or_else(form)?;
                (value(from).ok_or_else(form)?, value(to).ok_or_else(form)?)
            }
        };
        if from > to || to > all {
            return Err(format!("\"{text}\": {from}..{to} is no range of values of {bytes} bytes, which end at {all}"));
        }
        Ok(Vary { at, bytes, random, from, to, salt: 0 })
    }

    /// The same, drawn by this.
    pub(super) fn salted(self, salt: u64) -> Self {
        Vary { salt, ..self }
    }

    /// Whether it is in the headers of Ethernet, IPv4 and UDP.
    pub(super) fn is_in_headers(&self) -> bool {
        self.at < HEAD
    }

    /// Writes what frame `n` has; nothing where the frame is too short.
    pub(super) fn write(&self, n: u64, frame: &mut [u8]) {
        let Some(room) = frame.get_mut(self.at..self.at + self.bytes) else { return };
        let values = (self.to - self.from).wrapping_add(1);
        let step = if self.random { mixed(self.salt ^ n) } else { n };
        // All values of 64 bits are 0 here.
        let value = if values == 0 { step } else { self.from + step % values };
        room.copy_from_slice(&value.to_be_bytes()[8 - self.bytes..]);
    }
}

/// SplitMix64's output function: every bit depends on every bit.
fn mixed(n: u64) -> u64 {
    mix(n.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// A number, or an IPv4 address.
fn value(text: &str) -> Option<u64> {
    let hex = text.strip_prefix("0x").map(|digits| u64::from_str_radix(digits, 16).ok());
    let address = || text.parse::<core::net::Ipv4Addr>().ok().map(|ip| u64::from(u32::from(ip)));
    hex.unwrap_or_else(|| text.parse().ok().or_else(address))
}
