//! What each contribution is: the ledger adds them up again and compares.

use std::sync::Arc;

use pktgen_generator::dense::Dense;
use pktgen_generator::record::PacketId;
use pktgen_generator::wire::{switchml, trio_ml};

use crate::endpoint::Content;

/// Contributions of the dense workload, scaled to integers.
pub(in crate::endpoint) struct Contributions {
    dense: Arc<Dense>,
    scale: f32,
    /// Packets always have the same number of elements: the model's end is filled up with zeros.
    whole: bool,
    room: Vec<i32>,
}

impl Contributions {
    pub(in crate::endpoint) fn new(dense: Arc<Dense>, scale: f32, whole: bool) -> Self {
        let room = vec![0; usize::from(dense.elements_per_packet())];
        Contributions { dense, scale, whole, room }
    }
}

impl Content for Contributions {
    fn add(&mut self, packet: PacketId, sums: &mut [i32]) -> usize {
        let (iteration, block) = (packet.seq() / self.dense.blocks(), packet.seq() % self.dense.blocks());
        let elements = usize::from(self.dense.elements_of(block));
        self.dense.fixed(packet.worker(), iteration, block, self.scale, &mut self.room[..elements]);
        for (sum, value) in sums.iter_mut().zip(&self.room[..elements]) {
            *sum = sum.wrapping_add(*value);
        }
        if self.whole { self.room.len() } else { elements }
    }

    fn elements(&self) -> usize {
        self.room.len()
    }

    fn values<'a>(&self, payload: &'a [u8]) -> Option<&'a [u8]> {
        if self.whole {
            return switchml::Header::parse(payload).map(|header| switchml::values(payload, &header));
        }
        trio_ml::Header::parse(payload).map(|header| trio_ml::values(payload, &header))
    }
}
