//! Numbers known in advance to both ends of a session: those chosen by the public client, or by this project where its card chooses.
//!
//! A message is one packet here, so every packet in flight has its own queue pair, which is identified by the slot.

use super::{Header, Immediate, Message, key_of, pair_of};
use crate::format as switchml;

/// Beginning of every worker's buffer: the client requests this address on each host.
pub const BUFFER: u64 = 1 << 44;
/// Number of queue pairs of a worker that the switch distinguishes: 9 bits of their number.
pub const PAIRS_MAX: u32 = 512;

/// Returns the switch's queue pair with the number that the public controller assigns: the highest bit is set, since
/// InfiniBand's management uses number 0, and the switch identifies a worker by the upper 8 bits.
pub const fn switch_pair(rank: u8, slot: u16) -> u32 {
    0x80_0000 | pair_of(rank, slot)
}

/// Returns the number that a worker's card assigned to one of its queue pairs (an arbitrary choice of this project).
pub const fn card_pair(rank: u8, slot: u16) -> u32 {
    0x40_0000 | pair_of(rank, slot)
}

/// Returns the key that a worker's card assigned to its buffer (an arbitrary choice of this project).
pub(crate) const fn card_key(rank: u8) -> u32 {
    0x1000 | rank as u32
}

/// Returns the number of the first packet of a queue pair in both directions: the client requests half of the pair's number.
pub const fn first_psn(card_pair: u32) -> u32 {
    card_pair / 2
}

/// Returns the address in the worker's memory of the values and results of a slot.
pub const fn address(slot: u16, elements: u16) -> u64 {
    BUFFER + slot as u64 * elements as u64 * 4
}

/// Returns the port that a worker's card sends from (an arbitrary choice of this project).
pub(crate) const fn card_port(rank: u8) -> u16 {
    0xc000 | rank as u16
}

/// Returns the packet with slot, set, values and exponent of `header` from the worker `rank` or, with `back`, to it.
/// `used` is how often the worker used the slot before, and `message` the packet's number in its job.
pub fn packet(header: &switchml::Header, rank: u8, used: u32, message: u16, back: bool) -> Header {
    let own = card_pair(rank, header.slot);
    let (pair, key) =
        if back { (own, card_key(rank)) } else { (switch_pair(rank, header.slot), key_of(header.slot, header.set)) };
    let whole = Message {
        pair,
        psn: first_psn(own).wrapping_add(used),
        migration: back,
        address: address(header.slot, header.elements),
        key,
        // The client's quantizer has one exponent and does not use the other.
        immediate: Immediate { message, exponents: [header.exponent, 0] },
        packets: 1,
    };
    whole.header(0, header.elements)
}

#[cfg(test)]
mod tests {
    use super::super::Part;
    use super::*;

    #[test]
    fn both_directions_of_a_packet_by_hand() {
        let header =
            switchml::Header { set: true, slot: 5, exponent: -3, attempt: 2, elements: 64, ..Default::default() };
        let up = packet(&header, 2, 7, 0x1234, false);
        assert_eq!((up.part, up.pair, up.migration), (Part::OnlyImmediate, 0x82_0005, false));
        assert_eq!((up.target.address, up.target.key, up.target.length), (0x1000_0000_0500, 11, 256));
        assert_eq!((up.psn, up.immediate.message, up.immediate.exponents), (0x21_0002 + 7, 0x1234, [-3, 0]));
        let down = packet(&header, 2, 7, 0x1234, true);
        assert_eq!((down.pair, down.migration, down.target.key), (0x42_0005, true, 0x1002));
        assert_eq!((down.psn, down.target.address, down.immediate), (up.psn, up.target.address, up.immediate));
        assert_eq!(packet(&header, 2, 0x100_0000, 0, false).psn, first_psn(0x42_0005), "24 bits");
    }
}
