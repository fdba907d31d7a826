//! Results of synchronous aggregation: integers, whose sums are made again from what the workers contributed.
//!
//! The device's books say who the members of a result are, and a contribution is a pure function of its packet: nothing of
//! it need be kept while it is under way.

use pktgen_generator::record::{PacketId, SumOk};
use pktgen_generator::wire::{olaf, trio_ml};

use super::{END, Fate, Ledger};

impl Ledger {
    /// A result arrived for the first time; `same` compares it with the sum of its members.
    pub(super) fn received_result(&mut self, packet: PacketId, count: u16, same: impl FnOnce(&[i32]) -> bool) -> SumOk {
        let (Some(content), Some(group)) = (&mut self.content, self.groups.get_mut(packet)) else {
            self.strangers += 1;
            return SumOk::Unknown;
        };
        self.sums.fill(0);
        let (mut member, mut elements) = (group.first, 0);
        while member != END {
            elements = content.add(self.members[member as usize], &mut self.sums);
            member = self.next[member as usize];
        }
        let right = u32::from(count) == group.count && same(&self.sums[..elements]);
        self.end(packet, Fate::Delivered);
        if right { SumOk::Yes } else { SumOk::No }
    }
}

/// Are these big-endian bytes the sums?
pub(super) fn same(sums: &[i32], bytes: &[u8]) -> bool {
    let (values, rest) = bytes.as_chunks::<4>();
    // Without an early end the loop is one of vectors.
    let differ = values.iter().zip(sums).fold(0, |differ, (value, sum)| differ | (i32::from_be_bytes(*value) ^ sum));
    differ == 0 && rest.is_empty() && values.len() == sums.len()
}

/// The digest of sums as they lie in packets.
pub(super) fn digest_of(sums: &[i32]) -> u64 {
    let mut bytes = vec![0; sums.len() * 4];
    trio_ml::emit_values(sums, &mut bytes);
    olaf::digest(&bytes)
}
