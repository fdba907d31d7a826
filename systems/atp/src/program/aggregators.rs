//! The registers of the switch and its stateful operations (`p4src/includes/common.p4`, `registers.p4`).
//!
//! One entry for both halves of a packet: the public program processes these one after the other in the same way.

use pktgen_core::record::PacketId;
use pktgen_wire::wire::integers::{emit_values, set_values};

use crate::format::{ELEMENTS, Header};

/// A packet of a worker as its aggregator receives it.
pub(super) struct Part<'a> {
    pub(super) header: &'a Header,
    /// Its id in the ledger.
    pub(super) packet: PacketId,
    /// Its values as bytes.
    pub(super) values: &'a [u8],
}

/// Outcome of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The aggregator was free and now belongs to the packet.
    Opens,
    /// It is in the sum, which this packet represents.
    Joins(PacketId),
    /// It completes the sum, which leaves in it; another packet represented the sum, unless this is the only one.
    Whole(Option<PacketId>),
    /// It is a retransmission and leaves with the sum that it joined; this packet represented the sum.
    Flushed(PacketId),
    /// The same if it already was in the sum.
    FlushedBy(PacketId),
    /// It is a retransmission and its sum is not here.
    Passes,
    /// The aggregator belongs to another packet.
    Collides,
}

/// An aggregator.
#[derive(Debug, Clone, Copy)]
struct Entry {
    /// Job and number of its packets; 0 if it is free, since jobs count from 1.
    owner: u32,
    bitmap: u32,
    /// Number of contributions.
    count: u8,
    congested: bool,
    /// The packet that represents the sum; `None` after it has left.
    first: Option<PacketId>,
}

const FREE: Entry = Entry { owner: 0, bitmap: 0, count: 0, congested: false, first: None };

/// All aggregators.
pub(super) struct Aggregators {
    entries: Vec<Entry>,
    sums: Vec<i32>,
    /// Contents that leave with the current packet: index of the sums, bitmap, and whether one of them met congestion.
    out: usize,
    out_bitmap: u32,
    out_congested: bool,
    pub(super) in_use: usize,
    pub(super) in_use_max: usize,
}

/// Adds to a register, which saturates and then keeps its value (`noequ0_write_data_entry` of `registers.p4`).
#[inline]
fn add(register: i32, value: i32) -> i32 {
    if register < i32::MAX && register > -i32::MAX { register.saturating_add(value) } else { register }
}

fn owner(app: u16, seq: u16) -> u32 {
    u32::from(app) << 16 | u32::from(seq)
}

impl Aggregators {
    pub(super) fn new(count: u16) -> Self {
        Aggregators {
            entries: vec![FREE; usize::from(count)],
            sums: vec![0; usize::from(count) * ELEMENTS],
            out: 0,
            out_bitmap: 0,
            out_congested: false,
            in_use: 0,
            in_use_max: 0,
        }
    }

    /// Whether the sum of this packet is complete and still present. If so, it becomes the sum that leaves.
    pub(super) fn is_whole(&mut self, header: &Header) -> bool {
        let at = usize::from(header.aggregator);
        let id = owner(header.app, header.seq);
        let Some(entry) = self.entries.get(at).filter(|own| own.owner == id && own.count == header.workers) else {
            return false;
        };
        (self.out, self.out_bitmap, self.out_congested) = (at, entry.bitmap, entry.congested);
        true
    }

    /// Processes a packet of a worker without overflow; first transmissions must not arrive twice.
    pub(super) fn offer(&mut self, part: &Part) -> Outcome {
        let (header, at) = (part.header, usize::from(part.header.aggregator));
        let id = owner(header.app, header.seq);
        let Some(entry) = self.entries.get_mut(at) else {
            return if header.resent { Outcome::Passes } else { Outcome::Collides };
        };
        let is_own = entry.owner == id;
        match header.resent {
            true if !is_own => return Outcome::Passes,
            true => return self.flush(at, part),
            false if !is_own && entry.owner != 0 => return Outcome::Collides,
            false => {}
        }
        if !is_own {
            *entry = Entry { owner: id, ..FREE };
            self.in_use += 1;
            self.in_use_max = self.in_use_max.max(self.in_use);
        }
        let sums = &mut self.sums[at * ELEMENTS..][..ELEMENTS];
        let before = entry.bitmap;
        let met = entry.congested;
        entry.congested |= header.congested;
        entry.bitmap |= header.bitmap;
        entry.count += 1;
        match before {
            0 => set_values(sums, part.values),
            _ => add_values(sums, part.values),
        }
        if entry.count == header.workers {
            (self.out, self.out_bitmap, self.out_congested) = (at, entry.bitmap, met);
            return Outcome::Whole(entry.first.take());
        }
        match entry.first {
            Some(first) => Outcome::Joins(first),
            None => {
                entry.first = Some(part.packet);
                Outcome::Opens
            }
        }
    }

    /// Lets a retransmitted packet take the contents of its aggregator along and frees it.
    fn flush(&mut self, at: usize, part: &Part) -> Outcome {
        let entry = std::mem::replace(&mut self.entries[at], FREE);
        self.in_use -= 1;
        let sums = &mut self.sums[at * ELEMENTS..][..ELEMENTS];
        let is_in = entry.bitmap & part.header.bitmap != 0;
        if !is_in {
            add_values(sums, part.values);
        }
        let bitmap = entry.bitmap | part.header.bitmap;
        (self.out, self.out_bitmap, self.out_congested) = (at, bitmap, entry.congested);
        match (entry.first, is_in) {
            (Some(first), false) => Outcome::Flushed(first),
            (Some(first), true) => Outcome::FlushedBy(first),
            // The sum was complete and has left: the retransmission leaves alone with the whole sum.
            (None, _) => Outcome::Passes,
        }
    }

    /// Writes the contents that leave into the current packet; returns the bitmap, and whether one of them met congestion.
    pub(super) fn read(&self, values: &mut [u8]) -> (u32, bool) {
        emit_values(&self.sums[self.out * ELEMENTS..][..ELEMENTS], values);
        (self.out_bitmap, self.out_congested)
    }

    /// Frees the aggregator of a number whose result passes. Returns the packet that represents a sum that never left.
    pub(super) fn free(&mut self, app: u16, seq: u16, aggregator: u16) -> Option<PacketId> {
        let entry = self.entries.get_mut(usize::from(aggregator)).filter(|entry| entry.owner == owner(app, seq))?;
        self.in_use -= 1;
        std::mem::replace(entry, FREE).first
    }
}

/// Adds values with the registers' saturation.
fn add_values(sums: &mut [i32], values: &[u8]) {
    for (sum, value) in sums.iter_mut().zip(values.as_chunks::<4>().0) {
        *sum = add(*sum, i32::from_be_bytes(*value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_saturate_and_stay() {
        for (register, value, sum) in [
            (5, -7, -2),
            (i32::MAX - 1, 5, i32::MAX),
            (i32::MAX, -5, i32::MAX),
            (-i32::MAX + 1, -9, i32::MIN),
            (-i32::MAX, 9, -i32::MAX),
            (i32::MIN, 9, i32::MIN),
        ] {
            assert_eq!(add(register, value), sum, "{register} + {value}");
        }
    }
}
