//! What each contribution is: the ledger adds them up again and compares.

use pktgen_core::record::PacketId;
use pktgen_workload::dense::fixed;

use super::Layout;
use crate::endpoint::{Content, ScalingError};

/// Contributions of the dense workload, scaled to integers.
pub struct Contributions {
    layout: Layout,
    /// Packets always have the same number of elements: the model's end is filled up with zeros.
    whole: bool,
    room: Vec<i32>,
    floats: Vec<f32>,
    exact: Vec<f64>,
}

impl Contributions {
    /// Of this layout; `whole` if all elements of a packet are summed.
    pub fn new(layout: Layout, whole: bool) -> Self {
        let elements = usize::from(layout.dense.elements_per_packet());
        Contributions {
            layout,
            whole,
            room: vec![0; elements],
            floats: vec![0.0; elements],
            exact: vec![0.0; elements],
        }
    }

    /// Iteration and block of a packet; no block if its data counts for nothing.
    fn find(&self, packet: PacketId) -> (u32, Option<u32>) {
        let packets = self.layout.packets();
        (packet.seq() / packets, self.layout.block_of(packet.seq() % packets))
    }
}

/// Adds as devices do: integers wrap around.
fn add(sums: &mut [i32], values: &[i32]) {
    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum = sum.wrapping_add(*value));
}

impl Content for Contributions {
    fn add(&mut self, members: &[PacketId], sums: &mut [i32]) -> usize {
        let mut elements = self.room.len();
        // All members are of one block and job, unless a device is wrong: then each is what it is.
        let mut known = None;
        for packet in members {
            let (iteration, block) = self.find(*packet);
            let worker = packet.worker();
            let lanes = self.layout.lanes.as_ref();
            let Some(block) = block else {
                // Lanes are all that it carries.
                if let Some(lanes) = lanes {
                    let own = &mut self.room[..lanes.count()];
                    lanes.write_whole(worker, packet.seq(), own);
                    add(sums, own);
                }
                continue;
            };
            let dense = &self.layout.dense;
            let key = (dense.job_of(worker), iteration, block);
            let scale = match known {
                Some((same, scale)) if same == key => scale,
                _ => self.layout.scale_of(worker, iteration, block),
            };
            known = Some((key, scale));
            let own = usize::from(dense.elements_of(block));
            dense.fixed(worker, iteration, block, scale, &mut self.room[..own]);
            let mut filled = own;
            if let Some(lanes) = lanes {
                filled = own.max(lanes.count());
                self.room[own..filled].fill(0);
                lanes.write_whole(worker, packet.seq(), &mut self.room);
            }
            add(sums, &self.room[..filled]);
            elements = if self.whole { self.room.len() } else { own };
        }
        elements
    }

    fn error(&mut self, members: &[PacketId], sums: &[i32]) -> ScalingError {
        let Some((iteration, Some(block))) = members.first().map(|first| self.find(*first)) else {
            return ScalingError::default();
        };
        let elements = usize::from(self.layout.dense.elements_of(block));
        let scale = f64::from(self.layout.scale_of(members[0].worker(), iteration, block));
        self.exact.fill(0.0);
        for member in members {
            let floats = &mut self.floats[..elements];
            self.layout.dense.floats(member.worker(), iteration, block, floats);
            self.exact.iter_mut().zip(floats).for_each(|(sum, value)| *sum += f64::from(*value));
        }
        let mut error = ScalingError::default();
        // Lanes are no gradients.
        let lanes = self.layout.lanes.as_ref().map_or(0, |lanes| lanes.count());
        for (sum, exact) in sums.iter().zip(&self.exact[..elements]).skip(lanes) {
            let exact = exact / members.len() as f64;
            error.off += (f64::from(fixed::average(*sum, scale, members.len() as u32)) - exact).abs();
            error.of += exact.abs();
        }
        error
    }

    fn elements(&self) -> usize {
        self.room.len()
    }
}
