//! Messages of several packets: the headers of their packets, and their handling by the switch.

use super::{Header, Immediate, Part, Target};

/// Returns the switch's queue pair for messages of a worker: bits 20 to 16 are the worker, the lower 16 select one of its pairs.
pub const fn pair_of(worker: u8, index: u16) -> u32 {
    (worker as u32 & 31) << 16 | index as u32
}

/// Returns the key by which the switch knows where a message begins.
pub const fn key_of(slot: u16, set: bool) -> u32 {
    (slot as u32) << 1 | set as u32
}

/// Returns the number of the next packet, with 24 bits.
pub const fn after(psn: u32) -> u32 {
    psn.wrapping_add(1) & 0xff_ffff
}

/// A message: a write of one or more packets, the last one with an immediate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// Destination.
    pub pair: u32,
    /// Number of its first packet.
    pub psn: u32,
    /// Migration bit, which the switch sets in its messages.
    pub migration: bool,
    /// Destination of replies, or of the reply itself.
    pub address: u64,
    /// Slot and set, or the worker's key.
    pub key: u32,
    /// The immediate of the last packet.
    pub immediate: Immediate,
    /// Number of packets; not 0.
    pub packets: u32,
}

impl Default for Message {
    fn default() -> Self {
        let immediate = Immediate::default();
        Message { pair: 0, psn: 0, migration: false, address: 0, key: 0, immediate, packets: 1 }
    }
}

impl Message {
    /// Returns the header of packet `index`; every packet has the same number of values. Fields that a part lacks are 0.
    pub fn header(&self, index: u32, elements: u16) -> Header {
        let part = match (index, index + 1 >= self.packets) {
            (0, true) => Part::OnlyImmediate,
            (0, false) => Part::First,
            (_, true) => Part::LastImmediate,
            (_, false) => Part::Middle,
        };
        let length = self.packets * u32::from(elements) * 4;
        let target = Target { address: self.address, key: self.key, length };
        Header {
            part,
            solicited: false,
            migration: self.migration,
            fecn: false,
            becn: false,
            pair: self.pair,
            acknowledge: false,
            psn: self.psn.wrapping_add(index) & 0xff_ffff,
            target: if part.is_first() { target } else { Target::default() },
            immediate: if part.is_last() { self.immediate } else { Immediate::default() },
            elements,
        }
    }
}

/// Position of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotPlace {
    /// Slot.
    pub slot: u16,
    /// Set.
    pub set: bool,
    /// Whether a message ends with it.
    pub ends: bool,
}

/// The switch's state of a queue pair (`rdma_receiver.p4`).
#[derive(Debug, Clone, Copy, Default)]
pub struct Receiver {
    /// Number of the next packet.
    expected: u32,
    /// Slot and set of the last packet; `None` before the first message, and after a gap until the next message begins.
    key: Option<u32>,
}

impl Receiver {
    /// Returns the position of a packet; `None` if a packet of the message before it is missing.
    pub fn take(&mut self, header: &Header) -> Option<SlotPlace> {
        if header.part.is_first() {
            self.key = Some(header.target.key);
        } else if header.psn == self.expected {
            self.key = self.key.map(|key| key.saturating_add(2));
        } else {
            // The expected number stays: no later packet can complete this message.
            self.key = None;
            return None;
        }
        self.expected = after(header.psn);
        // The switch uses 15 bits of the key.
        self.key.map(|key| SlotPlace {
            slot: (key >> 1 & 0x3fff) as u16,
            set: key & 1 != 0,
            ends: header.part.is_last(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(packets: u32) -> Message {
        Message { pair: pair_of(3, 5), psn: 0xff_fffe, key: key_of(7, true), packets, ..Message::default() }
    }

    #[test]
    fn packets_of_a_message_by_hand() {
        let of = |packets: u32| (0..packets).map(|i| message(packets).header(i, 64)).collect::<Vec<_>>();
        assert_eq!(of(1).iter().map(|h| h.part).collect::<Vec<_>>(), [Part::OnlyImmediate]);
        let three = of(3);
        assert_eq!(
            three.iter().map(|h| (h.part, h.psn)).collect::<Vec<_>>(),
            [(Part::First, 0xff_fffe), (Part::Middle, 0xff_ffff), (Part::LastImmediate, 0)]
        );
        assert_eq!((three[0].target.length, three[1].target), (3 * 256, Target::default()));
        assert_eq!((pair_of(31, 0xffff), key_of(0x3fff, false)), (0x1f_ffff, 0x7ffe));
    }

    #[test]
    fn slots_follow_each_other_and_a_gap_ends_the_message() {
        let mut receiver = Receiver::default();
        assert_eq!(receiver.take(&message(3).header(1, 64)), None, "nothing has begun");
        let places: Vec<_> = (0..3).map(|i| receiver.take(&message(3).header(i, 64)).unwrap()).collect();
        let place = |slot, ends| SlotPlace { slot, set: true, ends };
        assert_eq!(places, [place(7, false), place(8, false), place(9, true)]);
        // The second is lost: neither the third nor the second, when it arrives, has a position.
        assert!(receiver.take(&message(3).header(0, 64)).is_some());
        assert_eq!([2, 1, 2].map(|i| receiver.take(&message(3).header(i, 64))), [None; 3]);
        assert_eq!(receiver.take(&message(1).header(0, 64)), Some(place(7, true)), "the next message is whole");
    }

    proptest! {
        /// Compared with a model that knows the whole sequence: a packet gets a position if all packets of its message
        /// before it arrived in order.
        #[test]
        fn only_prefixes_of_messages_are_placed(lost in prop::collection::vec(any::<bool>(), 1..60), packets in 1u32..6, start in 0u32..1 << 24) {
            let (mut receiver, mut psn) = (Receiver::default(), start);
            for (number, losses) in lost.chunks(packets as usize).enumerate() {
                let message = Message { psn, key: key_of(number as u16 * 8, number % 2 == 1), packets, ..Message::default() };
                for (i, lost) in losses.iter().enumerate() {
                    if *lost { continue; }
                    let place = receiver.take(&message.header(i as u32, 256));
                    // If a first packet is lost, the previous message may seem to continue: the switch cannot detect this.
                    let whole = !losses[..i].contains(&true);
                    if whole {
                        prop_assert_eq!(place.map(|p| (p.slot, p.set)), Some((number as u16 * 8 + i as u16, number % 2 == 1)));
                    } else {
                        prop_assert_eq!(place, None);
                    }
                }
                psn = (psn + packets) & 0xff_ffff;
            }
        }
    }
}
