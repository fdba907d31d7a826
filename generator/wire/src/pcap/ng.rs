//! pcapng: sections of blocks. Every block has its kind and, twice, its length; unknown blocks are skipped.

use super::BLOCK_MAX;
use super::input::{Input, Order};
use super::reader::{Found, Interface};
use super::stamp::Ticks;
use crate::Result;
use crate::time::{NS, SECOND};

/// Begins a section; the same in both byte orders.
pub(super) const SECTION: u32 = 0x0a0d_0d0a;
/// Describes an interface.
pub(super) const INTERFACE: u32 = 1;
/// A packet in the obsolete form.
const OBSOLETE_PACKET: u32 = 2;
/// Statistics of an interface.
pub(super) const STATISTICS: u32 = 5;
/// A packet of the first interface, without a time.
const SIMPLE_PACKET: u32 = 3;
/// A packet.
pub(super) const PACKET: u32 = 6;
/// Byte-order magic of a section.
pub(super) const ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// Kind and length before a block's body, in bytes.
const HEAD: usize = 8;
/// Repeated length after it, in bytes.
const TAIL: usize = 4;
/// A packet's fields before its data, in bytes.
const FIXED: usize = 20;
/// Maximum number of interfaces of a section.
const INTERFACES_MAX: usize = 1 << 16;

/// Options: a comment; an interface's name, time resolution and time offset.
pub(super) const COMMENT: u16 = 1;
pub(super) const IF_NAME: u16 = 2;
pub(super) const IF_RESOLUTION: u16 = 9;
const IF_OFFSET: u16 = 14;
/// Options of statistics: packets that interface and host have dropped so far; of a packet: packets dropped before it.
pub(super) const DROPPED_BY_INTERFACE: u16 = 5;
pub(super) const DROPPED_BY_HOST: u16 = 7;
const DROPPED_BEFORE: u16 = 4;
/// A custom option; the number after it names its owner. Ours holds the picoseconds of a packet's time beyond the
/// interface's resolution, under the number reserved for examples (RFC 5612), as we have none.
pub(super) const REMAINDER: u16 = 2989;
pub(super) const REMAINDER_OWNER: u32 = 32473;
/// Prefix of the anchor of a run's times in a section's comment.
pub(super) const ANCHOR: &str = "anchor_unix_ns=";
/// The anchor of a section for which the note of an earlier section does not hold.
pub(super) const NO_ANCHOR: &str = "none";

/// A pcapng file being read: the state after the blocks so far.
pub(super) struct Ng {
    order: Order,
    /// Number of sections so far.
    sections: u32,
    pub(super) interfaces: Vec<Interface>,
    pub(super) anchor_unix_ns: Option<u64>,
    /// Whether a section has another anchor than one before.
    pub(super) anchors_differ: bool,
    /// Packets dropped at capture: in previous sections; by each interface of this section, from its statistics; and
    /// before packets, from their options.
    over: u64,
    by_interface: Vec<u64>,
    before: u64,
}

impl Ng {
    /// Reads the first block.
    pub(super) fn open(input: &mut Input) -> Result<Self> {
        let mut ng = Ng {
            order: Order::Little,
            sections: 0,
            interfaces: Vec::new(),
            anchor_unix_ns: None,
            anchors_differ: false,
            over: 0,
            by_interface: Vec::new(),
            before: 0,
        };
        // The first block exists: its first bytes were already seen.
        if let Some((kind, length)) = ng.block(input)? {
            ng.whole(input, kind, length)?;
            ng.section(input, length)?;
            input.pass(length);
        }
        Ok(ng)
    }

    /// Returns the next packet; reads or skips other blocks before it.
    #[inline]
    pub(super) fn next(&mut self, input: &mut Input) -> Result<Option<Found>> {
        if let Some(found) = self.plain(input.held()) {
            return Ok(Some(found));
        }
        while let Some((kind, length)) = self.block(input)? {
            match kind {
                PACKET | SIMPLE_PACKET | OBSOLETE_PACKET => {
                    self.whole(input, kind, length)?;
                    return self.packet(input, kind, length).map(Some);
                }
                SECTION | INTERFACE | STATISTICS => {
                    self.whole(input, kind, length)?;
                    match kind {
                        SECTION => self.section(input, length)?,
                        STATISTICS => self.statistics(input, length),
                        _ => self.interface(input, length)?,
                    }
                    input.pass(length);
                }
                _ => self.skip(input, kind, length)?,
            }
        }
        Ok(None)
    }

    /// Decodes the packet that begins here in the common case: the whole block is buffered, and little-endian. The
    /// result is the same as that of [`Self::packet`].
    #[inline]
    fn plain(&self, held: &[u8]) -> Option<Found> {
        let head = held.first_chunk::<{ HEAD + FIXED }>()?;
        let field = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (length, kept, len) = (field(4) as usize, field(20) as usize, field(24));
        let start = HEAD + FIXED;
        let block = held.get(..length)?;
        let (before, again) = block.split_last_chunk::<TAIL>()?;
        let usual = self.order == Order::Little
            && field(0) == PACKET
            && length.is_multiple_of(4)
            && length <= BLOCK_MAX
            && u32::from_le_bytes(*again) as usize == length;
        if !usual || before.len() < start || kept > before.len() - start {
            return None;
        }
        let index = field(8);
        let interface = self.interfaces.get(index as usize)?;
        let ticks = u64::from(field(12)) << 32 | u64::from(field(16));
        let beyond = match before.get(start + kept.next_multiple_of(4)..) {
            Some(rest) if self.dropped_before(rest) > 0 => return None,
            Some(rest) if !rest.is_empty() => self.beyond(rest),
            _ => None,
        };
        Some(Found {
            section: self.sections - 1,
            interface: index,
            link_type: interface.link_type,
            time: Some(interface.ticks.stamp(ticks, interface.offset_ps + beyond.unwrap_or(0))),
            resolution_ps: if beyond.is_some() { 1 } else { interface.ticks.ps() },
            len,
            whole: length,
            bytes: start..start + kept,
        })
    }

    /// Returns kind and length of the block that begins here; `None` at the end.
    #[inline]
    fn block(&mut self, input: &mut Input) -> Result<Option<(u32, usize)>> {
        let at = input.offset();
        let mut have = input.want(HEAD)?;
        if have == 0 {
            return Ok(None);
        }
        if have == HEAD && self.order.u32(input.held(), 0) == SECTION {
            // The length is in the byte order that follows it.
            have = input.want(HEAD + 4)?;
            if have == HEAD + 4 {
                let magic = [Order::Little, Order::Big].map(|order| order.u32(input.held(), HEAD));
                self.order = match magic {
                    [ORDER_MAGIC, _] => Order::Little,
                    [_, ORDER_MAGIC] => Order::Big,
                    [other, _] => {
                        return Err(input.damage(
                            at,
                            format!("a section whose byte order is {other:#010x}, not {ORDER_MAGIC:#010x}"),
                        ));
                    }
                };
            } else {
                have = HEAD - 1;
            }
        }
        if have < HEAD {
            let have = input.held().len();
            return Err(input.damage(at, format!("a block begins, and the file ends after {have} bytes of it")));
        }
        let (kind, length) = (self.order.u32(input.held(), 0), self.order.u32(input.held(), 4));
        if !length.is_multiple_of(4) || length < (HEAD + TAIL) as u32 {
            let what = format!("a block of kind {kind:#x} of {length} bytes; lengths are multiples of 4 from 12 on");
            return Err(input.damage(at, what));
        }
        Ok(Some((kind, length as usize)))
    }

    /// Buffers a whole block and compares its two lengths.
    #[inline]
    fn whole(&self, input: &mut Input, kind: u32, length: usize) -> Result<()> {
        let at = input.offset();
        if length > BLOCK_MAX {
            let what = format!("a block of kind {kind:#x} of {length} bytes; at most {BLOCK_MAX} are believed");
            return Err(input.damage(at, what));
        }
        let have = input.want(length)?;
        if have < length {
            return Err(short(input, at, kind, length, have as u64));
        }
        self.same(input, at, kind, length, length - TAIL)
    }

    /// Skips a block of any size.
    fn skip(&self, input: &mut Input, kind: u32, length: usize) -> Result<()> {
        let at = input.offset();
        let have = input.skip((length - TAIL) as u64)? + input.want(TAIL)? as u64;
        if have < length as u64 {
            return Err(short(input, at, kind, length, have));
        }
        self.same(input, at, kind, length, 0)?;
        input.pass(TAIL);
        Ok(())
    }

    fn same(&self, input: &Input, at: u64, kind: u32, length: usize, tail: usize) -> Result<()> {
        match self.order.u32(input.held(), tail) as usize {
            again if again == length => Ok(()),
            again => {
                let what = format!("a block of kind {kind:#x} says {length} bytes before and {again} after its body");
                Err(input.damage(at, what))
            }
        }
    }

    fn section(&mut self, input: &Input, length: usize) -> Result<()> {
        // Byte order, version, section length.
        let body = &input.held()[HEAD..length - TAIL];
        if body.len() < 16 {
            return Err(input.damage(input.offset(), format!("a section's block of {length} bytes; 28 are the least")));
        }
        let version = (self.order.u16(body, 4), self.order.u16(body, 6));
        if version.0 != 1 {
            let what = format!("pcapng version {}.{}; 1.x is read", version.0, version.1);
            return Err(input.damage(input.offset(), what));
        }
        self.sections += 1;
        self.over = self.dropped();
        (self.before, self.by_interface) = (0, Vec::new());
        self.interfaces.clear();
        let mut anchor = self.anchor_unix_ns;
        self.options(input, &body[16..], |code, value| {
            if code == COMMENT
                && let Some(number) = std::str::from_utf8(value).ok().and_then(|text| text.split(ANCHOR).nth(1))
            {
                let digits = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
                let kept = anchor.filter(|_| !number.starts_with(NO_ANCHOR));
                anchor = number[..digits].parse().ok().or(kept);
            }
        })?;
        self.anchors_differ |= self.anchor_unix_ns.is_some() && anchor != self.anchor_unix_ns;
        self.anchor_unix_ns = anchor;
        Ok(())
    }

    fn interface(&mut self, input: &Input, length: usize) -> Result<()> {
        let body = &input.held()[HEAD..length - TAIL];
        if body.len() < 8 || self.interfaces.len() == INTERFACES_MAX {
            let what = match body.len() {
                0..8 => format!("an interface's block of {length} bytes; 20 are the least"),
                _ => format!("more than {INTERFACES_MAX} interfaces in a section"),
            };
            return Err(input.damage(input.offset(), what));
        }
        let order = self.order;
        let mut interface = Interface::new(order.u16(body, 0), order.u32(body, 4));
        self.options(input, &body[8..], |code, value| match (code, value.len()) {
            (IF_NAME, _) => interface.name = String::from_utf8_lossy(value).trim_end_matches('\0').to_owned(),
            (IF_RESOLUTION, 1) => interface.ticks = Ticks::of(value[0]),
            (IF_OFFSET, 8) => interface.offset_ps = i128::from(order.u64(value, 0) as i64) * i128::from(SECOND),
            _ => {}
        })?;
        self.interfaces.push(interface);
        Ok(())
    }

    /// Returns the packets dropped at capture so far. The counts of packets may be included in the statistics, so the larger is taken.
    pub(super) fn dropped(&self) -> u64 {
        let counted = self.by_interface.iter().fold(0, |sum: u64, frames| sum.saturating_add(*frames));
        self.over.saturating_add(self.before.max(counted))
    }

    /// Reads the latest counts of an interface. Damaged statistics are ignored.
    fn statistics(&mut self, input: &Input, length: usize) {
        let body = &input.held()[HEAD..length - TAIL];
        let Some(rest) = body.get(12..) else { return };
        let of = |wanted: u16| {
            let value = self.option_where(rest, |code, value| code == wanted && value.len() == 8);
            value.map_or(0, |value| self.order.u64(value, 0))
        };
        let dropped = of(DROPPED_BY_INTERFACE).saturating_add(of(DROPPED_BY_HOST));
        let index = self.order.u32(body, 0) as usize;
        if index < self.interfaces.len() {
            self.by_interface.resize(self.interfaces.len(), 0);
            self.by_interface[index] = self.by_interface[index].max(dropped);
        }
    }

    /// Calls `each` with every option at the end of a block.
    fn options(&self, input: &Input, mut rest: &[u8], mut each: impl FnMut(u16, &[u8])) -> Result<()> {
        while rest.len() >= 4 {
            let (code, len) = (self.order.u16(rest, 0), usize::from(self.order.u16(rest, 2)));
            if code == 0 {
                break;
            }
            let Some(value) = rest.get(4..4 + len) else {
                let what = format!("option {code} of {len} bytes in a block that has {} left", rest.len() - 4);
                return Err(input.damage(input.offset(), what));
            };
            each(code, value);
            rest = rest.get(4 + len.next_multiple_of(4)..).unwrap_or_default();
        }
        Ok(())
    }

    #[inline]
    fn packet(&mut self, input: &Input, kind: u32, length: usize) -> Result<Found> {
        let (at, order) = (input.offset(), self.order);
        let body = &input.held()[HEAD..length - TAIL];
        let fixed = if kind == SIMPLE_PACKET { 4 } else { FIXED };
        if body.len() < fixed {
            let what = format!("a packet's block of {length} bytes; {} are the least", HEAD + fixed + TAIL);
            return Err(input.damage(at, what));
        }
        let index = match kind {
            SIMPLE_PACKET => 0,
            OBSOLETE_PACKET => u32::from(order.u16(body, 0)),
            _ => order.u32(body, 0),
        };
        let Some(interface) = self.interfaces.get(index as usize) else {
            let described = self.interfaces.len();
            return Err(input.damage(at, format!("a packet of interface {index}, and {described} are described")));
        };
        let (ticks, kept, len) = match kind {
            SIMPLE_PACKET => {
                let len = order.u32(body, 0);
                let snap = if interface.snap == 0 { u32::MAX } else { interface.snap };
                (None, len.min(snap), len)
            }
            _ => {
                let ticks = u64::from(order.u32(body, 4)) << 32 | u64::from(order.u32(body, 8));
                (Some(ticks), order.u32(body, 12), order.u32(body, 16))
            }
        };
        let room = body.len() - fixed;
        if kept as usize > room {
            return Err(input.damage(at, format!("a packet of {kept} bytes in a block that has room for {room}")));
        }
        let start = HEAD + fixed;
        let options = fixed + (kept as usize).next_multiple_of(4);
        // Drops since the packet before; all ones if unknown.
        let mut before = match kind {
            OBSOLETE_PACKET => u64::from(Some(order.u16(body, 2)).filter(|drops| *drops != u16::MAX).unwrap_or(0)),
            _ => 0,
        };
        let beyond = match body.get(options..) {
            Some(rest) if kind == PACKET && !rest.is_empty() => {
                before = self.dropped_before(rest);
                self.beyond(rest)
            }
            _ => None,
        };
        let found = Found {
            section: self.sections - 1,
            interface: index,
            link_type: interface.link_type,
            time: ticks.map(|ticks| interface.ticks.stamp(ticks, interface.offset_ps + beyond.unwrap_or(0))),
            resolution_ps: if beyond.is_some() { 1 } else { interface.ticks.ps() },
            len,
            whole: length,
            bytes: start..start + kept as usize,
        };
        self.before = self.before.saturating_add(before);
        Ok(found)
    }
}

impl Ng {
    /// Returns the picoseconds that our writer stored in a packet's options. Damaged options of other writers are ignored.
    #[inline]
    fn beyond(&self, rest: &[u8]) -> Option<i128> {
        let ours = |code: u16, value: &[u8]| {
            code == REMAINDER && value.len() == 8 && self.order.u32(value, 0) == REMAINDER_OWNER
        };
        let value = self.option_where(rest, ours)?;
        Some(i128::from(self.order.u32(value, 4)) % i128::from(NS))
    }

    /// Returns the packets of its interface that were dropped before this one.
    #[inline]
    fn dropped_before(&self, rest: &[u8]) -> u64 {
        let value = self.option_where(rest, |code, value| code == DROPPED_BEFORE && value.len() == 8);
        value.map_or(0, |value| self.order.u64(value, 0))
    }

    #[inline]
    fn option_where<'a>(&self, mut rest: &'a [u8], is_it: impl Fn(u16, &[u8]) -> bool) -> Option<&'a [u8]> {
        while rest.len() >= 4 {
            let (code, len) = (self.order.u16(rest, 0), usize::from(self.order.u16(rest, 2)));
            if code == 0 {
                break;
            }
            if let Some(value) = rest.get(4..4 + len).filter(|value| is_it(code, value)) {
                return Some(value);
            }
            rest = rest.get(4 + len.next_multiple_of(4)..).unwrap_or_default();
        }
        None
    }
}

fn short(input: &Input, at: u64, kind: u32, length: usize, have: u64) -> crate::Error {
    let what = format!("a block of kind {kind:#x} has {length} bytes, and the file ends after {have} of them");
    input.damage(at, what)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;

    /// A packet block in the form of our writer, little-endian.
    fn block(index: u32, kept: &[u8], len: u32, remainder: Option<u32>) -> Vec<u8> {
        let mut body = Vec::new();
        [index, 5, 0x8000_0001, kept.len() as u32, len].iter().for_each(|word| body.extend(word.to_le_bytes()));
        body.extend(kept);
        body.resize(body.len().next_multiple_of(4), 0);
        if let Some(ps) = remainder {
            body.extend([REMAINDER.to_le_bytes(), 8u16.to_le_bytes()].concat());
            [REMAINDER_OWNER, ps, 0].iter().for_each(|word| body.extend(word.to_le_bytes()));
        }
        let length = (HEAD + body.len() + TAIL) as u32;
        [&PACKET.to_le_bytes()[..], &length.to_le_bytes(), &body, &length.to_le_bytes()].concat()
    }

    proptest! {
        #[test]
        fn the_plain_way_says_what_the_long_way_says(
            index in 0u32..3, kept in prop::collection::vec(any::<u8>(), 0..40), more in 0u32..9, remainder in prop::option::of(any::<u32>()),
            change in prop::option::of((0usize..90, any::<u8>())), cut in 0usize..6, big: bool,
        ) {
            let mut bytes = block(index, &kept, kept.len() as u32 + more, remainder);
            if let Some((at, value)) = change && let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
            bytes.truncate(bytes.len() - cut);
            let order = if big { Order::Big } else { Order::Little };
            let interfaces = vec![Interface::new(1, 0), Interface::new(101, 9)];
            let mut ng = Ng { order, sections: 1, interfaces, anchor_unix_ns: None, anchors_differ: false, over: 0, by_interface: Vec::new(), before: 0 };
            let mut input = Input::new(Box::new(Cursor::new(bytes.clone())), Path::new("x"));
            let plain = ng.plain(&bytes);
            let long = match ng.block(&mut input) {
                Ok(Some((kind, length))) if kind == PACKET => {
                    ng.whole(&mut input, kind, length).and_then(|()| ng.packet(&input, kind, length)).ok()
                }
                _ => None,
            };
            if big {
                prop_assert_eq!(plain, None);
            } else {
                prop_assert_eq!(plain, long);
            }
        }
    }
}
