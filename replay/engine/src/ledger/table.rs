//! Packets under way, by id: a small ring per worker, indexed by sequence number.
//!
//! A worker's packets under way are close in sequence, so a ring of a few slots holds them without hashing; it doubles
//! when two of them collide.

use pktgen_core::record::PacketId;

/// Initial slots of a worker.
const START: usize = 4;

type Slot<T> = Option<(PacketId, T)>;

/// The packets of a worker: in place as long as they are few, so that a large network costs no pointer to follow.
#[derive(Debug, Clone)]
pub(super) enum Ring<T> {
    Few([Slot<T>; START]),
    Many(Box<[Slot<T>]>),
}

impl<T> Ring<T> {
    #[inline]
    fn slots(&self) -> &[Slot<T>] {
        match self {
            Ring::Few(slots) => slots,
            Ring::Many(slots) => slots,
        }
    }

    #[inline]
    fn slots_mut(&mut self) -> &mut [Slot<T>] {
        match self {
            Ring::Few(slots) => slots,
            Ring::Many(slots) => slots,
        }
    }
}

/// A map from packet ids to `T`.
pub(super) struct Table<T> {
    rings: Vec<Ring<T>>,
}

#[inline]
fn index(packet: PacketId, slots: usize) -> usize {
    // Several attempts of one update may be under way at once, as may updates at any distance, if some are lost: a
    // golden section of the ring separates attempts, and a larger ring separates any two. (With a fixed stride, two
    // that are one stride apart would collide in rings of every size.)
    let stride = ((slots as u64 * 0x9e37_79b9) >> 32) as usize | 1;
    (packet.seq() as usize).wrapping_add(usize::from(packet.attempt()) * stride) & (slots - 1)
}

impl<T: Copy> Table<T> {
    /// A table for workers below `workers`.
    pub(super) fn new(workers: usize) -> Self {
        Table { rings: vec![Ring::Few([None; START]); workers] }
    }

    /// Returns the value of `packet`.
    #[inline]
    pub(super) fn get_mut(&mut self, packet: PacketId) -> Option<&mut T> {
        let ring = self.rings.get_mut(packet.worker() as usize)?.slots_mut();
        let at = index(packet, ring.len());
        match &mut ring[at] {
            Some((id, value)) if *id == packet => Some(value),
            _ => None,
        }
    }

    /// The packets of a worker.
    #[inline]
    pub(super) fn ring(&self, worker: u32) -> Option<&Ring<T>> {
        self.rings.get(worker as usize)
    }

    /// Changes what is known of `packet`, if anything is.
    #[inline]
    pub(super) fn set(&mut self, packet: PacketId, value: T) {
        if let Some(known) = self.get_mut(packet) {
            *known = value;
        }
    }

    /// Removes `packet`.
    #[inline]
    pub(super) fn remove(&mut self, packet: PacketId) -> Option<T> {
        let ring = self.rings.get_mut(packet.worker() as usize)?.slots_mut();
        let at = index(packet, ring.len());
        match ring[at] {
            Some((id, value)) if id == packet => {
                ring[at] = None;
                Some(value)
            }
            _ => None,
        }
    }

    /// Inserts `packet`; returns false if it is already present, or is of an unknown worker.
    #[inline]
    pub(super) fn insert(&mut self, packet: PacketId, value: T) -> bool {
        let Some(ring) = self.rings.get_mut(packet.worker() as usize) else { return false };
        let slots = ring.slots_mut();
        let at = index(packet, slots.len());
        match slots[at] {
            None => slots[at] = Some((packet, value)),
            Some((id, _)) if id == packet => return false,
            Some(_) => {
                let mut larger = grown(slots, packet);
                larger[index(packet, larger.len())] = Some((packet, value));
                *ring = Ring::Many(larger);
            }
        }
        true
    }

    /// Returns all ids, in order.
    pub(super) fn ids(&self) -> Vec<PacketId> {
        let mut ids: Vec<_> = self.rings.iter().flat_map(Ring::slots).flatten().map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids
    }
}

/// Returns a larger ring: doubled until all its packets, and `packet`, have separate slots.
fn grown<T: Copy>(ring: &[Slot<T>], packet: PacketId) -> Box<[Slot<T>]> {
    let mut slots = ring.len() * 2;
    'size: loop {
        let mut larger = vec![None; slots];
        for entry in ring.iter().flatten() {
            let at = index(entry.0, slots);
            if larger[at].is_some() || at == index(packet, slots) {
                slots *= 2;
                continue 'size;
            }
            larger[at] = Some(*entry);
        }
        return larger.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_ring_in_place_is_no_larger_than_its_slots() {
        assert_eq!(size_of::<Ring<(u64, bool)>>(), START * size_of::<Slot<(u64, bool)>>());
    }

    #[test]
    fn any_two_packets_are_parted_by_rings_of_reasonable_size() {
        for attempt in 1..=u8::MAX {
            for seq in 0..20_000 {
                let (a, b) = (PacketId::new(0, 20_000 - seq, 0), PacketId::new(0, 20_000, attempt));
                let c = PacketId::new(0, 20_000 + seq, 0);
                for other in [a, c] {
                    let parted = (2..24).any(|bits| index(other, 1 << bits) != index(b, 1 << bits));
                    assert!(parted, "{seq} apart, attempt {attempt}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn is_a_map(steps in prop::collection::vec((0u32..3, 0u32..40, 0u8..3, 0u8..3), 0..300)) {
            let (mut table, mut map) = (Table::new(2), BTreeMap::new());
            for (i, (worker, seq, attempt, what)) in steps.into_iter().enumerate() {
                let id = PacketId::new(worker, seq, attempt);
                match what {
                    0 => prop_assert_eq!(table.remove(id), map.remove(&id)),
                    1 => prop_assert_eq!(table.get_mut(id).copied(), map.get(&id).copied()),
                    _ => {
                        let new = worker < 2 && !map.contains_key(&id);
                        if new {
                            map.insert(id, i);
                        }
                        prop_assert_eq!(table.insert(id, i), new);
                    }
                }
            }
            prop_assert_eq!(table.ids(), map.keys().copied().collect::<Vec<_>>());
        }
    }
}
