//! Expected content of a received packet, according to the account.

use pktgen_core::record::PacketId;
use pktgen_wire::wire::{integers, update};

/// Expected content of a received packet.
#[derive(Debug, Clone, PartialEq)]
pub struct DuePacket {
    /// The members of the sum.
    pub members: Vec<PacketId>,
    /// Their sum.
    pub values: PayloadValues,
}

/// Values of a payload.
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
    /// Returns the number of values.
    pub fn len(&self) -> usize {
        match self {
            PayloadValues::Floats(values) => values.len(),
            PayloadValues::Integers(values) => values.len(),
            PayloadValues::Unkept => 0,
        }
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the values in payload encoding.
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

    /// Returns the digest of the payload; `None` if no sums are kept.
    pub fn digest(&self) -> Option<u64> {
        (!matches!(self, PayloadValues::Unkept)).then(|| update::digest(&self.bytes()))
    }
}
