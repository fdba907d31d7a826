//! Results of synchronous aggregation: integers, whose sums are recomputed from the workers' contributions.
//!
//! The device's books name the members of a result, and a contribution is a pure function of its packet: it need not be
//! stored while it is under way.

use std::collections::HashSet;

use pktgen_core::record::{Book, PacketId, SumOk};

use super::chains::{Chains, Step};
use super::fates::{Fate, FateCounts};
use super::{Carried, DuePacket, PayloadValues, Receipt};
use crate::endpoint::overflow::Overflow;
use crate::endpoint::{Content, Registers, ScalingError};

/// Maximum number of choices of workers that are tried for a partial result.
const CHOICES_MAX: u64 = 256;

/// The members of a result in the books, compared with its header.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Composition {
    /// Contributions to its block, one of each worker, as many as its header says.
    Right,
    /// Such contributions, and not as many.
    Miscounted,
    /// Some are of other blocks, or a worker is in it twice.
    Mixed,
    /// All are of other blocks.
    OtherBlock,
}

/// The account of results.
pub(super) struct Results {
    chains: Chains,
    content: Box<dyn Content>,
    /// Whether the id of a result names its transmission.
    exact: bool,
    /// Buffers for a sum of contributions and its members.
    sums: Vec<i32>,
    members: Vec<PacketId>,
    /// Results that arrived and are [`Composition::Mixed`].
    mixed: HashSet<PacketId>,
    /// Number of judged results, and by worker the last of them that it is in.
    judged: u64,
    last_in: Vec<u64>,
    /// Errors of scaling.
    error: ScalingError,
    overflow: Overflow,
}

impl Results {
    pub(super) fn new(workers: usize, content: Box<dyn Content>, exact: bool) -> Self {
        let sums = vec![0; content.elements()];
        Results {
            chains: Chains::new(workers),
            content,
            exact,
            sums,
            members: Vec::new(),
            mixed: HashSet::new(),
            judged: 0,
            last_in: vec![0; workers],
            error: ScalingError::default(),
            overflow: Overflow::default(),
        }
    }

    #[inline]
    pub(super) fn sent(&mut self, packet: PacketId, counts: &mut FateCounts) {
        let (_, fresh) = self.chains.open(packet, 0);
        counts.stranger_if(!fresh);
    }

    #[inline]
    pub(super) fn book(&mut self, row: &Book, counts: &mut FateCounts) {
        match Step::of(row) {
            Step::Stays | Step::Leaves => {}
            Step::Joins(out) => counts.stranger_if(self.chains.join(row.packet_in, out).is_none()),
            Step::Ends(fate) => self.end(row.packet_in, fate, counts),
        }
    }

    /// Returns whether a packet is under way, with others or alone.
    pub(super) fn is_under_way(&mut self, packet: PacketId) -> bool {
        self.chains.group(packet).is_some()
    }

    /// Records the first arrival of a result under this header. One with members of other blocks than the header's, or with a worker twice, is
    /// wrong, also if it is their sum: a switch that compares no numbers adds late packets to the sums of others, and answers them with these.
    pub(super) fn received(&mut self, receipt: &Receipt, counts: &mut FateCounts) -> SumOk {
        // A copy of a mixed result: another transmission of its opener may be under way.
        if self.mixed.contains(&receipt.packet) {
            return SumOk::No;
        }
        let packet = self.sent_as(receipt.packet, receipt.count);
        let right = match self.judge(packet, receipt) {
            None if packet.seq() == receipt.seq => {
                counts.strangers += 1;
                return SumOk::Unknown;
            }
            // The result of another block: the arrival under its own header, before or after, decides the fate of its members.
            None | Some(Composition::OtherBlock) => return SumOk::No,
            Some(Composition::Mixed) => {
                self.mixed.insert(receipt.packet);
                Some(false)
            }
            Some(composition) => {
                let elements = self.add();
                self.error.add(self.content.error(&self.members, &self.sums[..elements]));
                match composition == Composition::Right {
                    true => self.is_right(elements, &receipt.carried),
                    false => Some(false),
                }
            }
        };
        self.end(packet, Fate::Delivered, counts);
        SumOk::of(right)
    }

    /// Judges the members of a result by its header, and sets `members` to those expected: contributions to its block, one of each of its
    /// workers. Returns `None` if it is not under way.
    fn judge(&mut self, packet: PacketId, receipt: &Receipt) -> Option<Composition> {
        let group = self.chains.group(packet)?;
        self.members.clear();
        self.judged += 1;
        let mut of_block = 0;
        for member in self.chains.members(group) {
            let (worker, is_of_block) = (member.worker(), member.seq() == receipt.seq);
            of_block += u32::from(is_of_block);
            let last = &mut self.last_in[worker as usize];
            if *last != self.judged {
                *last = self.judged;
                self.members.push(if is_of_block { member } else { PacketId::new(worker, receipt.seq, 0) });
            }
        }
        Some(if of_block == 0 {
            Composition::OtherBlock
        } else if of_block < group.count || self.members.len() < group.count as usize {
            Composition::Mixed
        } else if group.count != u32::from(receipt.count) {
            Composition::Miscounted
        } else {
            Composition::Right
        })
    }

    /// Returns whether a packet carries the sum of the members just added up; `None` if it cannot be known.
    fn is_right(&mut self, elements: usize, carried: &Carried) -> Option<bool> {
        let sums = &self.sums[..elements];
        let same = carried.is_sums(sums);
        let values = match carried {
            Carried::Bytes(bytes) => Some(*bytes),
            Carried::Digest(_) => None,
        };
        self.overflow.judge(&mut *self.content, &self.members, sums, (same, values))
    }

    /// Returns the transmission contained in a result: on a wire a result does not name the attempt; it is the one that
    /// has as many members as the result. Others may be under way, too, if a network lost them unseen. An exact id names it.
    fn sent_as(&mut self, packet: PacketId, count: u16) -> PacketId {
        if self.exact {
            return packet;
        }
        let mut lone = None;
        for attempt in packet.attempt()..=u8::MAX {
            let id = PacketId::new(packet.worker(), packet.seq(), attempt);
            match self.chains.group(id) {
                Some(group) if group.count == u32::from(count) => return id,
                Some(_) => lone = lone.or(Some(id)),
                None => {}
            }
        }
        lone.unwrap_or(packet)
    }

    /// Records that a transmission arrived by itself from a device without books; returns whether it was under way.
    pub(super) fn deliver_one(&mut self, packet: PacketId, counts: &mut FateCounts) -> bool {
        self.chains.end(packet, |member, alone| counts.of(member).count(Fate::Delivered, alone))
    }

    /// Records the arrival of the first transmission under way of a packet's worker and block, and returns it; `None` if none is under way.
    pub(super) fn deliver_first(&mut self, packet: PacketId, counts: &mut FateCounts) -> Option<PacketId> {
        let first = self.first_under_way(packet.worker(), packet.seq())?;
        self.deliver_one(first, counts).then_some(first)
    }

    /// Returns the members that were just added up.
    pub(super) fn members(&self) -> &[PacketId] {
        &self.members
    }

    /// Returns the first transmission of a block by a worker that is under way.
    fn first_under_way(&mut self, worker: u32, seq: u32) -> Option<PacketId> {
        let mut attempts = (0..=u8::MAX).map(|attempt| PacketId::new(worker, seq, attempt));
        attempts.find(|id| self.chains.group(*id).is_some())
    }

    /// Records a result of these workers from a device without books: the first transmission of each that is under way is in it, and otherwise
    /// one that `came_alone` before. Returns whether it is their sum, if known; `None`, without delivery, if one of them has neither, or none
    /// is under way.
    pub(super) fn received_of_all(
        &mut self,
        workers: &[u32],
        seq: u32,
        carried: &Carried,
        came_alone: &dyn Fn(u32) -> bool,
        counts: &mut FateCounts,
    ) -> Option<SumOk> {
        let elements = self.add_up_first(workers, seq, came_alone)?;
        let (right, alone) = (SumOk::of(self.is_right(elements, carried)), workers.len() == 1);
        // Members that came alone have ended.
        for member in &self.members {
            self.chains.end(*member, |member, _| counts.of(member).count(Fate::Delivered, alone));
        }
        Some(right)
    }

    /// Returns whether a result is the sum of any `count` of these workers; `None` if there are too many choices, or registers saturate and
    /// the sum of one of them may have left 32 bits.
    pub(super) fn is_sum_of_some(&mut self, workers: &[u32], receipt: &Receipt) -> Option<bool> {
        let (all, some) = (workers.len(), usize::from(receipt.count));
        // The members or, if they are fewer, the others.
        let chosen = some.min(all.checked_sub(some)?);
        if some == 0 || choices(all, chosen) > CHOICES_MAX {
            return None;
        }
        let mut each: Vec<Vec<i32>> = Vec::with_capacity(all);
        for worker in workers {
            self.sums.fill(0);
            let elements = self.content.add(&[PacketId::new(*worker, receipt.packet.seq(), 0)], &mut self.sums);
            each.push(self.sums[..elements].to_vec());
        }
        if some > 1 && self.content.registers() == Registers::Saturate && may_leave(&each, some) {
            return None;
        }
        let elements = each.first().map_or(0, Vec::len);
        let mut whole = vec![0i32; elements];
        if chosen < some {
            each.iter()
                .for_each(|own| whole.iter_mut().zip(own).for_each(|(sum, value)| *sum = sum.wrapping_add(*value)));
            each.iter_mut().flatten().for_each(|value| *value = value.wrapping_neg());
        }
        let mut sums = whole.clone();
        Some(any_choice(all, chosen, &mut |picked| {
            sums.copy_from_slice(&whole);
            for own in picked.iter().map(|at| &each[*at]) {
                sums.iter_mut().zip(own).for_each(|(sum, value)| *sum = sum.wrapping_add(*value));
            }
            receipt.carried.is_sums(&sums)
        }))
    }

    /// Returns the expected content of a result: contributions of its block, one of each of its workers, also if it holds others.
    pub(super) fn expected(&mut self, receipt: &Receipt) -> Option<DuePacket> {
        let packet = self.sent_as(receipt.packet, receipt.count);
        self.judge(packet, receipt)?;
        let elements = self.add();
        Some(self.added(elements))
    }

    /// Returns the expected content of a result of these workers.
    pub(super) fn expected_of_all(
        &mut self,
        workers: &[u32],
        seq: u32,
        came_alone: &dyn Fn(u32) -> bool,
    ) -> Option<DuePacket> {
        let elements = self.add_up_first(workers, seq, came_alone)?;
        Some(self.added(elements))
    }

    fn added(&self, elements: usize) -> DuePacket {
        DuePacket { members: self.members.clone(), values: PayloadValues::Integers(self.sums[..elements].to_vec()) }
    }

    /// Adds up the first transmission under way of each of these workers, or of one that `came_alone` its first; `None` if one has neither, or
    /// none is under way.
    fn add_up_first(&mut self, workers: &[u32], seq: u32, came_alone: &dyn Fn(u32) -> bool) -> Option<usize> {
        self.members.clear();
        let mut under_way = false;
        for worker in workers {
            let open = self.first_under_way(*worker, seq);
            under_way |= open.is_some();
            let first = PacketId::new(*worker, seq, 0);
            self.members.push(open.or_else(|| came_alone(*worker).then_some(first))?);
        }
        under_way.then(|| self.add())
    }

    /// Adds up the contributions of `members`; returns their number of elements.
    fn add(&mut self) -> usize {
        self.sums.fill(0);
        self.content.add(&self.members, &mut self.sums)
    }

    fn end(&mut self, packet: PacketId, fate: Fate, counts: &mut FateCounts) {
        let known = self.chains.end(packet, |member, alone| counts.of(member).count(fate, alone));
        counts.stranger_if(!known);
    }

    pub(super) fn close(&mut self, counts: &mut FateCounts) {
        for packet in self.chains.ids() {
            self.end(packet, Fate::InFlight, counts);
        }
    }

    /// Returns the results with sums that exceed 32 bits.
    pub(super) fn overflowed(&self) -> u64 {
        self.overflow.results
    }

    /// Returns the error of the means that workers compute from results, relative to the gradients before scaling:
    /// Σ|error| in 10⁻⁹ of Σ|exact|, over every 64th block; `None` if nothing was scaled.
    pub(super) fn scaling_error_ppb(&self) -> Option<u64> {
        self.error.ppb()
    }
}

/// Returns the number of choices of `k` of `n`, saturating.
fn choices(n: usize, k: usize) -> u64 {
    (0..k as u64).fold(1u64, |count, i| count.saturating_mul(n as u64 - i) / (i + 1))
}

/// Returns whether sums of `some` of these contributions may leave the 32 bits of registers that saturate.
fn may_leave(each: &[Vec<i32>], some: usize) -> bool {
    let mut values: Vec<i64> = Vec::with_capacity(each.len());
    (0..each.first().map_or(0, Vec::len)).any(|at| {
        values.clear();
        values.extend(each.iter().filter_map(|own| own.get(at)).map(|value| i64::from(*value)));
        values.sort_unstable();
        let below = values.iter().take(some).map(|value| (*value).min(0)).sum();
        let above = values.iter().rev().take(some).map(|value| (*value).max(0)).sum();
        Registers::Saturate.may_leave([below, above])
    })
}

/// Returns whether `is_it` holds for any choice of `k` of the numbers below `n`.
fn any_choice(n: usize, k: usize, is_it: &mut dyn FnMut(&[usize]) -> bool) -> bool {
    let mut picked: Vec<usize> = (0..k).collect();
    loop {
        if is_it(&picked) {
            return true;
        }
        // Advances the last number that can advance; those after it follow.
        let Some(at) = (0..k).rfind(|at| picked[*at] < n - k + at) else { return false };
        let next = picked[at] + 1;
        picked[at..].iter_mut().zip(next..).for_each(|(place, value)| *place = value);
    }
}

#[cfg(test)]
mod tests {
    use pktgen_core::record::Action;

    use super::super::tests::whole;
    use super::super::*;

    /// Test content: every contribution is its worker's number.
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

    /// Test content of registers that saturate: every worker has this value.
    struct Large(i32);

    impl Content for Large {
        fn add(&mut self, members: &[PacketId], sums: &mut [i32]) -> usize {
            members.iter().for_each(|_| sums[0] = sums[0].wrapping_add(self.0));
            1
        }
        fn elements(&self) -> usize {
            1
        }
        fn registers(&self) -> crate::endpoint::Registers {
            crate::endpoint::Registers::Saturate
        }
    }

    #[test]
    fn partial_sums_that_may_have_left_32_bits_are_undecided_where_registers_saturate() {
        let is_right = |each: i32, count: u16, value: i32| {
            let bytes = value.to_be_bytes();
            let mut results = super::Results::new(4, Box::new(Large(each)), false);
            results.is_sum_of_some(&[0, 1, 2, 3], &whole(PacketId::new(0, 5, 0), count, &bytes))
        };
        let large = i32::MAX - 1;
        assert_eq!((is_right(large, 2, i32::MAX), is_right(large, 2, -4)), (None, None));
        assert_eq!((is_right(large, 1, large), is_right(large, 1, 0)), (Some(true), Some(false)), "none is added");
        let third = i32::MAX / 3;
        assert_eq!((is_right(third, 2, 2 * third), is_right(third, 2, 7)), (Some(true), Some(false)), "no two leave");
    }

    fn ledger(packets: &[PacketId], members: &[PacketId]) -> Ledger {
        ledger_of(packets, &[members], false)
    }

    /// Returns a ledger in which `packets` were sent and those of each group were merged into its first.
    fn ledger_of(packets: &[PacketId], groups: &[&[PacketId]], exact: bool) -> Ledger {
        let mut ledger = Ledger::open(3, Subject::Results { content: Box::new(Numbers), exact }, Evidence::Books);
        packets.iter().for_each(|packet| ledger.sent(*packet, None, &[]));
        for members in groups {
            for packet in &members[1..] {
                let (packet_in, packet_out) = (*packet, Some(members[0]));
                ledger.book(&Book { t: 0, node: 0, packet_in, action: Action::Merged, packet_out, reason: None });
            }
        }
        ledger
    }

    #[test]
    fn a_result_is_that_of_the_transmission_which_has_its_members() {
        let id = |worker, attempt| PacketId::new(worker, 5, attempt);
        // The first transmission of worker 0 was lost at an unknown place; the third was too late.
        let sent = [id(0, 0), id(0, 1), id(1, 0), id(2, 0), id(0, 2)];
        let mut one = ledger(&sent, &[id(0, 1), id(1, 0), id(2, 0)]);
        assert_eq!(one.received(&whole(id(0, 0), 3, &6i32.to_be_bytes())), SumOk::Yes);
        let balance = total(&one.close());
        assert_eq!((balance.delivered_merged, balance.in_flight, balance.unknown), (3, 2, 0));
        assert_eq!(one.strangers(), 0);
    }

    /// In virtual time a result names its transmission. Another one of the same number, with as many members as the header says, is that of
    /// another sum, whose result is still to come.
    #[test]
    fn exact_ids_are_not_replaced() {
        let id = |worker, attempt| PacketId::new(worker, 5, attempt);
        let (twice, next) = ([id(0, 0), id(1, 0), id(1, 1)], [id(0, 1), id(2, 0)]);
        let sent = [twice.as_slice(), &next].concat();
        let sums = [5i32, 4].map(i32::to_be_bytes);
        let verdicts = |exact: bool| {
            let mut ledger = ledger_of(&sent, &[&twice, &next], exact);
            let results = [whole(twice[0], 2, &sums[0]), whole(next[0], 2, &sums[1])];
            let due = results.map(|result| ledger.expected(&result).map(|due| due.members));
            let verdicts = results.map(|result| ledger.received(&result));
            (due, verdicts, ledger.strangers(), total(&ledger.close()).in_flight)
        };
        let [due, rest] = [Some(twice[..2].to_vec()), Some(next.to_vec())];
        assert_eq!(verdicts(true), ([due, rest.clone()], [SumOk::No, SumOk::Yes], 0, 0));
        // On a wire the first of both names may be that of either sum.
        assert_eq!(verdicts(false), ([rest.clone(), rest], [SumOk::No, SumOk::Unknown], 1, 3));
    }

    #[test]
    fn a_partial_result_is_right_if_it_is_of_any_so_many_workers() {
        use super::{Results, any_choice, choices};
        for (n, k, wanted) in [(4, 2, 6), (5, 0, 1), (5, 1, 5), (22, 2, 231), (10, 5, 252), (66, 33, u64::MAX)] {
            assert!(choices(n, k) == wanted || wanted == u64::MAX && choices(n, k) > 1 << 40, "{n} {k}");
            if wanted < 300 {
                let mut all = std::collections::BTreeSet::new();
                assert!(!any_choice(n, k, &mut |picked| !all.insert(picked.to_vec())), "none comes twice");
                assert_eq!(all.len() as u64, wanted);
            }
        }
        let mut results = Results::new(70, Box::new(Numbers), false);
        let workers: Vec<u32> = (0..6).collect();
        for count in 1..=5u16 {
            // The numbers of workers are 1 to 6: any sum between the least and the largest of `count` of them.
            let (least, most) = ((1..=i32::from(count)).sum::<i32>(), (1..=6).rev().take(count.into()).sum::<i32>());
            for sum in least - 3..most + 3 {
                let bytes = sum.to_be_bytes();
                let right = results.is_sum_of_some(&workers, &whole(PacketId::new(9, 5, 0), count, &bytes));
                assert_eq!(right, Some((least..=most).contains(&sum)), "{sum} of {count}");
            }
        }
        let many: Vec<u32> = (0..70).collect();
        let bytes = (70 * 71 / 2 - 7i32).to_be_bytes();
        assert_eq!(results.is_sum_of_some(&many, &whole(PacketId::new(0, 5, 0), 69, &bytes)), Some(true));
        assert_eq!(results.is_sum_of_some(&many, &whole(PacketId::new(0, 5, 0), 68, &bytes)), None, "too many");
        assert_eq!(results.is_sum_of_some(&many, &whole(PacketId::new(0, 5, 0), 71, &bytes)), None);
    }

    /// A result with a late packet of another block is wrong, whichever of both identifies it, and so is each copy.
    #[test]
    fn results_with_members_of_several_blocks_are_wrong() {
        let id = PacketId::new;
        let sum = 3i32.to_be_bytes();
        for (members, verdict) in [
            ([id(0, 3, 0), id(1, 1, 0)], SumOk::No),
            ([id(0, 1, 0), id(1, 3, 0)], SumOk::No),
            // Attempts are of one block.
            ([id(0, 3, 1), id(1, 3, 2)], SumOk::Yes),
        ] {
            let mut ledger = ledger(&members, &members);
            let result = Receipt { seq: 3, ..whole(members[0], 2, &sum) };
            let due = ledger.expected(&result).expect("members");
            assert!(due.members.iter().all(|member| member.seq() == 3), "{due:?}");
            assert_eq!(ledger.received(&result), verdict, "{members:?}");
            if verdict == SumOk::No {
                assert_eq!(ledger.received(&result), SumOk::No, "a copy");
                assert_eq!(ledger.received(&Receipt { seq: 1, ..result }), SumOk::No, "a copy under another header");
            }
            assert_eq!(ledger.strangers(), 0);
            let balance = total(&ledger.close());
            assert_eq!((balance.delivered_merged, balance.in_flight, balance.unknown), (2, 0, 0));
        }
    }

    /// With a worker twice a result is wrong, also if it is the sum of as many members as its header says.
    #[test]
    fn results_with_a_worker_twice_are_wrong() {
        let id = |worker, attempt| PacketId::new(worker, 5, attempt);
        let members = [id(0, 0), id(1, 0), id(1, 1)];
        let sum = 5i32.to_be_bytes();
        let result = whole(members[0], 3, &sum);
        let mut ledger = ledger(&members, &members);
        let due = ledger.expected(&result).expect("members");
        assert_eq!((&due.members[..], due.values), (&members[..2], PayloadValues::Integers(vec![3])));
        assert_eq!([ledger.received(&result), ledger.received(&result)], [SumOk::No; 2], "and so is a copy");
        assert_eq!((ledger.strangers(), total(&ledger.close()).delivered_merged), (0, 3));
        // Workers are told apart result by result.
        let mut ledger = self::ledger(&members, &members[..2]);
        let sum = 3i32.to_be_bytes();
        assert_eq!(ledger.received(&whole(members[0], 2, &sum)), SumOk::Yes);
        let alone = 2i32.to_be_bytes();
        assert_eq!(ledger.received(&whole(members[2], 1, &alone)), SumOk::Yes);
    }

    /// The result of block 6 in answers to requests for that of block 0: it arrives with its own header only.
    #[test]
    fn results_of_other_blocks_are_wrong_and_deliver_nothing() {
        let members = [PacketId::new(0, 6, 0), PacketId::new(1, 6, 0)];
        let sum = 3i32.to_be_bytes();
        let mut ledger = ledger(&members, &members);
        let own = whole(members[0], 2, &sum);
        let answer = Receipt { seq: 0, ..own };
        assert_eq!([answer, own, answer].map(|receipt| ledger.received(&receipt)), [SumOk::No, SumOk::Yes, SumOk::No]);
        assert_eq!(ledger.strangers(), 0);
        assert_eq!((ledger.received(&own), ledger.strangers()), (SumOk::Unknown, 1), "it has arrived");
        let balance = total(&ledger.close());
        assert_eq!((balance.delivered_merged, balance.unknown), (2, 0));
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
            assert_eq!(ledger.received(&whole(packet, count, &sum.to_be_bytes())), verdict);
            assert_eq!(ledger.strangers(), u64::from(verdict == SumOk::Unknown));
        }
        let digested = |digest| Receipt { carried: Carried::Digest(digest), ..whole(id(0), 3, &[]) };
        let bytes = digest_of_sum();
        assert_eq!(ledger(&all, &all).received(&digested(bytes)), SumOk::Yes);
        assert_eq!(ledger(&all, &all).received(&digested(bytes + 1)), SumOk::No);
    }

    fn digest_of_sum() -> u64 {
        update::digest(&6i32.to_be_bytes())
    }
}
