//! Copies of results: all workers receive the same sum, and a repeated result is the same sum.

use std::collections::{HashSet, VecDeque};
use std::hash::Hash;

use pktgen_core::record::{Fault, PacketId};
use pktgen_wire::wire::update::digest;

use super::ResultHead;

/// A result that was delivered.
#[derive(Clone, Copy)]
struct Known {
    packet: PacketId,
    digest: u64,
    /// Which result of the run it is: the later ones of a place have the higher numbers.
    seq: u32,
}

/// Results that are remembered beside the two latest of each place: more than a network has copies of under way.
const OTHERS: usize = 1 << 16;

/// The latest [`OTHERS`] keys, and their order.
struct Recent<K> {
    known: HashSet<K>,
    order: VecDeque<K>,
}

impl<K> Default for Recent<K> {
    fn default() -> Self {
        Recent { known: HashSet::new(), order: VecDeque::new() }
    }
}

impl<K: Copy + Eq + Hash> Recent<K> {
    /// Remembers a key; returns whether it was not there.
    fn insert(&mut self, key: K) -> bool {
        if !self.known.insert(key) {
            return false;
        }
        if self.order.len() == OTHERS
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        self.order.push_back(key);
        true
    }
}

/// The partial results that workers had. A block has any number of them, each of other contributions: one that comes after its block was aged
/// opens the block again (Trio §5). Only a partial result that its worker had is a copy.
#[derive(Default)]
pub struct PartialResults(Recent<(u32, PacketId)>);

impl PartialResults {
    /// Notes a result that came to `worker`, `degraded` or whole, and `again` if the worker had one of its block. Returns whether it is a copy.
    #[inline]
    pub fn is_copy(&mut self, (worker, packet): (u32, PacketId), degraded: bool, again: bool) -> bool {
        let is_further = degraded && self.0.insert((worker, packet));
        again && !is_further
    }
}

const NONE: Known = Known { packet: PacketId::NOBODY, digest: 0, seq: 0 };

/// The latest delivered results of a run, by place: a job and a block.
pub(super) struct Copies {
    /// The two latest of each place, the later one first. A worker has a result before it contributes to the next one: what is older
    /// than both has arrived before, if it is whole.
    known: Vec<[Known; 2]>,
    /// The latest [`OTHERS`] results that `known` does not tell from copies. All partial results are among them: a block
    /// has any number of these, and workers do not wait for them, so they and their copies may arrive behind later results. Whole results
    /// are among them if others of the same block displaced them.
    others: Recent<PacketId>,
    /// Whether copies are compared. Devices of this program share the bytes of all copies.
    compared: bool,
    /// Whether a partial result may be repeated with other contributions, because these are repeated.
    partial: bool,
    unlike: u64,
    first: Option<(u32, u32)>,
}

impl Copies {
    /// Copies at `places` places; `compared` if the device is external, `partial` if one packet may open two results.
    pub(super) fn new(places: usize, compared: bool, partial: bool) -> Self {
        let (known, others) = (vec![[NONE; 2]; places], Recent::default());
        Copies { known, others, compared, partial, unlike: 0, first: None }
    }

    /// Notes a result, by its place and packet, that arrived at `worker` with these `values`; returns whether it is the first copy.
    #[inline]
    pub(super) fn is_first<'a>(
        &mut self,
        (place, packet): (usize, PacketId),
        worker: u32,
        head: &ResultHead,
        values: impl FnOnce() -> &'a [u8],
    ) -> bool {
        let [newest, second] = self.known[place];
        if let Some(earlier) = [newest, second].into_iter().find(|known| known.packet == packet) {
            if self.compared && earlier.digest != of(head, values()) && !(self.partial && head.degraded) {
                self.unlike += 1;
                self.first.get_or_insert((worker, head.seq));
            }
            return false;
        }
        let is_old = head.seq < second.seq;
        let is_new = match head.degraded {
            true => self.others.insert(packet),
            false => !is_old && (head.seq > second.seq || !self.others.known.contains(&packet)),
        };
        if is_old || !is_new {
            return is_new;
        }
        let digest = if self.compared { of(head, values()) } else { 0 };
        let latest = Known { packet, digest, seq: head.seq };
        let known = if head.seq < newest.seq { [newest, latest] } else { [latest, newest] };
        self.known[place] = known;
        // The displaced result does not count as old if the remaining two are not later.
        if second.packet != PacketId::NOBODY && second.seq == known[1].seq {
            self.others.insert(second.packet);
        }
        true
    }

    /// Returns the fault of the device, if copies differ.
    pub(super) fn fault(&self) -> Option<Fault> {
        self.first.map(|(worker, block)| Fault::UnlikeResults { results: self.unlike, worker, block })
    }
}

/// Returns the digest of the fields that all copies share.
fn of(head: &ResultHead, values: &[u8]) -> u64 {
    let told = u64::from(head.count) << 16 | u64::from(head.degraded) << 8 | u64::from(head.exponent as u8);
    digest(values) ^ told.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(seq: u32, count: u16, degraded: bool) -> ResultHead {
        ResultHead { job: None, seq, count, degraded, exponent: 0, congested: false }
    }

    /// Each copy is compared with the first: values, count and exponent.
    #[test]
    fn copies_that_differ_are_counted() {
        let packet = PacketId::new(0, 7, 0);
        let other = ResultHead { exponent: 1, ..head(7, 4, false) };
        for (second, values, unlike) in [
            (head(7, 4, false), [1u8, 2, 3, 4], 0),
            (head(7, 4, false), [1, 2, 3, 5], 1),
            (head(7, 3, false), [1, 2, 3, 4], 1),
            (head(7, 4, true), [1, 2, 3, 4], 1),
            (other, [1, 2, 3, 4], 1),
        ] {
            for compared in [true, false] {
                let mut copies = Copies::new(2, compared, false);
                assert!(copies.is_first((1, packet), 0, &head(7, 4, false), || &[1, 2, 3, 4]));
                assert!(!copies.is_first((1, packet), 2, &second, || &values));
                let expected =
                    (compared && unlike > 0).then_some(Fault::UnlikeResults { results: 1, worker: 2, block: 7 });
                assert_eq!(copies.fault(), expected);
            }
        }
    }

    /// A repeated contribution may open a partial result again, with other contributions.
    #[test]
    fn partial_results_of_repeats_may_differ() {
        let packet = PacketId::new(0, 7, 0);
        for (degraded, unlike) in [(true, false), (false, true)] {
            let mut copies = Copies::new(1, true, true);
            assert!(copies.is_first((0, packet), 0, &head(7, 2, true), || &[1; 4]));
            assert!(!copies.is_first((0, packet), 1, &head(7, 2, degraded), || &[2; 4]));
            assert_eq!(copies.fault().is_some(), unlike);
        }
    }

    /// Of each place the last two results are known, and older ones came before.
    #[test]
    fn the_last_two_results_of_a_place_are_known() {
        let mut copies = Copies::new(1, true, false);
        let mut first = |seq| copies.is_first((0, PacketId::new(0, seq, 0)), 0, &head(seq, 4, false), || &[0; 4]);
        assert_eq!(
            [first(0), first(8), first(0), first(16), first(8), first(0)],
            [true, true, false, true, false, false]
        );
        let mut of = |(worker, seq), degraded| {
            let packet = PacketId::new(worker, seq, 0);
            copies.is_first((0, packet), 0, &head(seq, if degraded { 2 } else { 4 }, degraded), || &[0; 4])
        };
        assert!(of((1, 0), true), "a partial one that is made behind later ones");
        assert!(!of((1, 0), true) && !of((0, 8), false) && !of((0, 16), false), "their copies are known still");
        // One that was in time, and whose copy comes behind two later ones.
        assert!(of((1, 24), true) && of((0, 32), false) && of((0, 40), false) && !of((1, 24), true));
        assert_eq!(copies.fault(), None);
        for seq in 0..2 * OTHERS as u32 {
            assert!(copies.is_first((0, PacketId::new(2, seq, 0)), 0, &head(seq, 2, true), || &[0; 4]));
        }
        assert_eq!((copies.others.known.len(), copies.others.order.len()), (OTHERS, OTHERS));
    }

    /// Late contributions make further partial results of a block; what a worker had is a copy.
    #[test]
    fn further_partial_results_of_a_block_are_no_copies() {
        let mut partial = PartialResults::default();
        let mut is_copy =
            |worker, source, degraded, again| partial.is_copy((worker, PacketId::new(source, 7, 0)), degraded, again);
        for worker in [0, 1] {
            assert!(!is_copy(worker, 0, true, false), "the first");
            assert!(!is_copy(worker, 3, true, true), "one of a late contribution");
            assert!(is_copy(worker, 0, true, true) && is_copy(worker, 3, true, true), "both come twice");
            assert!(is_copy(worker, 0, false, true), "a whole one is of contributions that were in results");
        }
        assert!(!is_copy(2, 0, false, false) && is_copy(2, 0, false, true), "a whole one, twice");
    }

    /// A block whose contributions are more than a timeout apart has a partial result of each, and copies of them at slower hosts.
    #[test]
    fn every_partial_result_of_a_block_is_delivered_once() {
        for compared in [true, false] {
            let mut copies = Copies::new(1, compared, false);
            let mut is_first = |worker, seq, count| {
                let packet = PacketId::new(worker, seq, 0);
                copies.is_first((0, packet), 0, &head(seq, count, count < 4), || &[0; 4])
            };
            for seq in [0, 1] {
                assert!((0..4).all(|worker| is_first(worker, seq, 1)), "the results of block {seq}");
                assert!((0..4).all(|worker| !is_first(worker, seq, 1)), "copies of those of block {seq}");
            }
            assert!((0..4).all(|worker| !is_first(worker, 0, 1)), "copies behind those of a later block");
            assert!(is_first(0, 2, 4) && is_first(0, 3, 4) && !is_first(3, 1, 1) && !is_first(0, 2, 4));
            assert_eq!(copies.fault(), None);
        }
    }

    /// Contributions that are repeated make partial results of a block that has a whole one.
    #[test]
    fn partial_results_do_not_displace_whole_ones() {
        let mut copies = Copies::new(1, false, true);
        let mut is_first = |worker, seq, attempt, count| {
            let packet = PacketId::new(worker, seq, attempt);
            copies.is_first((0, packet), 0, &head(seq, count, count < 4), || &[0; 4])
        };
        assert!(is_first(0, 0, 0, 4) && (0..4).all(|worker| is_first(worker, 0, 1, 1)));
        assert!(!is_first(0, 0, 0, 4), "a copy behind partial results of its block");
        assert!(is_first(1, 0, 2, 4), "a whole result behind partial ones");
        assert!(is_first(0, 1, 0, 4) && is_first(2, 0, 2, 1) && is_first(3, 0, 2, 1) && !is_first(0, 1, 0, 4));
        assert!(!is_first(0, 0, 0, 4) && !is_first(1, 0, 2, 4), "copies behind a later block");
        assert!(is_first(0, 2, 0, 4) && !is_first(1, 0, 2, 4) && !is_first(0, 1, 0, 4));
    }
}
