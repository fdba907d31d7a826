//! Flows: who a frame is from and to, whatever tags it has.

use std::collections::HashMap;

use crate::wire::frame::tags_of;

/// What frames of one flow have in common: addresses, protocol and ports, or the addresses of Ethernet where there is no IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct FlowKey {
    ether_type: u16,
    protocol: u8,
    from: [u8; 16],
    to: [u8; 16],
    ports: [u8; 4],
}

impl FlowKey {
    pub(super) fn of(frame: &[u8]) -> Self {
        // Tags may be taken off or put on by a device.
        let at = 12 + tags_of(frame);
        let short = |at: usize| frame.get(at..at + 2).map_or(0, |two| u16::from_be_bytes([two[0], two[1]]));
        let ether_type = short(at);
        let packet = frame.get(at + 2..).unwrap_or_default();
        let (mut from, mut to) = ([0; 16], [0; 16]);
        let mut copy = |into: usize, bytes: &[u8]| [&mut from, &mut to][into][..bytes.len()].copy_from_slice(bytes);
        let (protocol, rest) = match (ether_type, packet) {
            (0x0800, [first, ..]) if packet.len() >= 20 => {
                copy(0, &packet[12..16]);
                copy(1, &packet[16..20]);
                let later = u16::from_be_bytes([packet[6], packet[7]]) & 0x1fff != 0;
                let head = usize::from(first & 0x0f) * 4;
                (packet[9], if later { None } else { packet.get(head..) })
            }
            (0x86dd, _) if packet.len() >= 40 => {
                copy(0, &packet[8..24]);
                copy(1, &packet[24..40]);
                (packet[6], packet.get(40..))
            }
            _ => {
                copy(0, frame.get(6..12).unwrap_or_default());
                copy(1, frame.get(..6).unwrap_or_default());
                (0, None)
            }
        };
        // TCP, UDP, DCCP and SCTP have their ports first.
        let ports = rest.filter(|_| matches!(protocol, 6 | 17 | 33 | 132)).and_then(|rest| rest.first_chunk::<4>());
        FlowKey { ether_type, protocol, from, to, ports: ports.copied().unwrap_or_default() }
    }
}

/// The flows of raw frames, by number.
#[derive(Debug, Default)]
pub struct RawFlows {
    numbers: HashMap<FlowKey, u32>,
    /// Whether the checksums of a frame that is sent do not fit.
    pub(super) misfit: bool,
}

impl RawFlows {
    /// Most flows.
    pub(super) const MOST: usize = 1 << 16;

    /// Takes a flow up, if it is new; false if there is no room.
    pub(super) fn add(&mut self, key: FlowKey) -> bool {
        let next = self.numbers.len();
        self.numbers.entry(key).or_insert(next as u32);
        self.numbers.len() <= Self::MOST
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Returns whether frames are sent whose own checksums of IPv4 or UDP do not fit.
    pub fn has_misfits(&self) -> bool {
        self.misfit
    }

    /// The flow of a frame; none if it is of no flow.
    pub fn of(&self, frame: &[u8]) -> Option<u32> {
        self.numbers.get(&FlowKey::of(frame)).copied()
    }
}
