//! What a packet that arrives should hold, by the account.

use pktgen_core::record::PacketId;
use pktgen_wire::wire::{integers, update};

/// What a packet that arrives should hold.
#[derive(Debug, Clone, PartialEq)]
pub struct DuePacket {
    /// Whose sum it is.
    pub members: Vec<PacketId>,
    /// The sum of what they sent.
    pub values: PayloadValues,
}

/// PayloadValues of a payload.
#[derive(Debug, Clone, PartialEq)]
pub enum PayloadValues {
    /// Gradients, as little-endian binary32.
    Floats(Vec<f32>),
    /// Integers, in network order.
    Integers(Vec<i32>),
    /// No sums are kept.
    Unkept,
}

impl PayloadValues {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            PayloadValues::Floats(values) => values.len(),
            PayloadValues::Integers(values) => values.len(),
            PayloadValues::Unkept => 0,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// As they lie in packets.
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            PayloadValues::Floats(values) => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            PayloadValues::Integers(sums) => {
                let mut bytes = vec![0; sums.len() * 4];
                integers::emit_values(sums, &mut bytes);
                bytes
            }
            PayloadValues::Unkept => Vec::new(),
        }
    }

    /// The digest of the payload; none where no sums are kept.
    pub fn digest(&self) -> Option<u64> {
        (!matches!(self, PayloadValues::Unkept)).then(|| update::digest(&self.bytes()))
    }
}
