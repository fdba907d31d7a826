//! Results of synchronous aggregation: integers, whose sums are made again from what the workers contributed.
//!
//! The device's books say who the members of a result are, and a contribution is a pure function of its packet: nothing of
//! it need be kept while it is under way.

use pktgen_generator::record::{PacketId, SumOk};
use pktgen_generator::wire::{olaf, trio_ml};

use super::{END, Fate, Ledger};
use crate::endpoint::Error;

/// Every so many blocks the error of scaling is looked at.
const SAMPLED: u32 = 64;

impl Ledger {
    /// A result arrived for the first time; `same` compares it with the sum of its members.
    pub(super) fn received_result(&mut self, packet: PacketId, count: u16, same: impl FnOnce(&[i32]) -> bool) -> SumOk {
        if self.black_box.is_some() {
            return self.unseen_result(packet, count, same);
        }
        let packet = self.sent_as(packet, count);
        let (Some(content), Some(group)) = (&mut self.content, self.groups.get_mut(packet)) else {
            self.strangers += 1;
            return SumOk::Unknown;
        };
        self.sums.fill(0);
        self.under_way.clear();
        let mut member = group.first;
        while member != END {
            self.under_way.push(self.members[member as usize]);
            member = self.next[member as usize];
        }
        let elements = content.add(&self.under_way, &mut self.sums);
        if packet.seq().is_multiple_of(SAMPLED) {
            let Error { off, of } = content.error(&self.under_way, &self.sums[..elements]);
            self.error = Error { off: self.error.off + off, of: self.error.of + of };
        }
        let right = u32::from(count) == group.count && same(&self.sums[..elements]);
        self.end(packet, Fate::Delivered);
        if right { SumOk::Yes } else { SumOk::No }
    }
}

impl Ledger {
    /// How far the means that workers make of results are from those of gradients before they were scaled: Σ|error| in
    /// 10⁻⁹ of Σ|exact|, over every 64th block; none where nothing was scaled.
    pub fn scaling_error_ppb(&self) -> Option<u64> {
        (self.error.of > 0.0).then(|| (self.error.off / self.error.of * 1e9).round() as u64)
    }

    /// A result on a wire does not say which transmission of the packet it is known by is in it: it is the one that has as
    /// many members as the result. Others may be under way, too, where a network lost them unseen.
    fn sent_as(&mut self, packet: PacketId, count: u16) -> PacketId {
        let mut lone = None;
        for attempt in packet.attempt()..=u8::MAX {
            let id = PacketId::new(packet.worker(), packet.seq(), attempt);
            match self.groups.get_mut(id) {
                Some(group) if group.count == u32::from(count) => return id,
                Some(_) => lone = lone.or(Some(id)),
                None => {}
            }
        }
        lone.unwrap_or(packet)
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

#[cfg(test)]
mod tests {
    use super::super::*;

    /// Every contribution is its worker's number.
    struct Numbers;

    impl Content for Numbers {
        fn add(&mut self, members: &[PacketId], sums: &mut [i32]) -> usize {
            members.iter().for_each(|packet| sums[0] += packet.worker() as i32 + 1);
            1
        }
        fn elements(&self) -> usize {
            1
        }
    }

    fn ledger(packets: &[PacketId], members: &[PacketId]) -> Ledger {
        let mut ledger = Ledger::of_results(3, Box::new(Numbers));
        packets.iter().for_each(|packet| ledger.sent(*packet, &[]));
        for packet in &members[1..] {
            let (packet_in, packet_out) = (*packet, Some(members[0]));
            ledger.book(&Book { t: 0, node: 0, packet_in, action: Action::Merged, packet_out, reason: None });
        }
        ledger
    }

    #[test]
    fn a_result_is_that_of_the_transmission_which_has_its_members() {
        let id = |worker, attempt| PacketId::new(worker, 5, attempt);
        // The first transmission of worker 0 was lost, nobody knows where; the third came too late.
        let sent = [id(0, 0), id(0, 1), id(1, 0), id(2, 0), id(0, 2)];
        let mut one = ledger(&sent, &[id(0, 1), id(1, 0), id(2, 0)]);
        assert_eq!(one.received(id(0, 0), 3, 0, &6i32.to_be_bytes()), SumOk::Yes);
        let balance = total(&one.close());
        assert_eq!((balance.delivered_merged, balance.in_flight, balance.unknown), (3, 2, 0));
        assert_eq!(one.strangers(), 0);
    }

    #[test]
    fn wrong_sums_and_results_of_nobody_are_seen() {
        let id = |worker| PacketId::new(worker, 5, 0);
        let all = [id(0), id(1), id(2)];
        for (packet, count, sum, verdict) in [
            (id(0), 3, 6i32, SumOk::Yes),
            (id(0), 3, 7, SumOk::No),
            (id(0), 2, 6, SumOk::No),
            (PacketId::new(0, 6, 0), 3, 6, SumOk::Unknown),
        ] {
            let mut ledger = ledger(&all, &all);
            assert_eq!(ledger.received(packet, count, 0, &sum.to_be_bytes()), verdict);
            assert_eq!(ledger.strangers(), u64::from(verdict == SumOk::Unknown));
        }
        let bytes = digest_of_sum();
        assert_eq!(ledger(&all, &all).received_digest(id(0), 3, 0, bytes), SumOk::Yes);
        assert_eq!(ledger(&all, &all).received_digest(id(0), 3, 0, bytes + 1), SumOk::No);
    }

    fn digest_of_sum() -> u64 {
        olaf::digest(&6i32.to_be_bytes())
    }
}
