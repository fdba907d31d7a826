//! Copies of results: all workers receive the same sum, and a repeated result is the same sum.

use std::collections::{HashSet, VecDeque};

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

/// Partial results that are remembered: more than a network has copies of under way.
const PARTIALS: usize = 1 << 16;

const NONE: Known = Known { packet: PacketId::NOBODY, digest: 0, seq: 0 };

/// The latest delivered results of a run, by place: a job and a block.
pub(super) struct Copies {
    /// Two are enough: a worker has the result before when it contributes to the next, so what is older than both has arrived, and comes
    /// once more, however late.
    known: Vec<[Known; 2]>,
    /// The latest [`PARTIALS`] partial results that came, and their order: nobody waits for them, so they and their copies may come behind
    /// later ones.
    partials: HashSet<PacketId>,
    order: VecDeque<PacketId>,
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
        let (known, partials) = (vec![[NONE; 2]; places], HashSet::new());
        Copies { known, partials, order: VecDeque::new(), compared, partial, unlike: 0, first: None }
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
        let known = &mut self.known[place];
        let earlier = known.iter().find(|known| known.packet == packet).copied();
        if earlier.is_some() && !self.compared {
            return false;
        }
        let is_old = known[1].packet != PacketId::NOBODY && known.iter().all(|known| head.seq < known.seq);
        if earlier.is_none() && is_old {
            return head.degraded && self.is_new_partial(packet);
        }
        let digest = if self.compared { of(head, values()) } else { 0 };
        let Some(earlier) = earlier else {
            *known = [Known { packet, digest, seq: head.seq }, known[0]];
            if head.degraded {
                self.is_new_partial(packet);
            }
            return true;
        };
        if earlier.digest != digest && !(self.partial && head.degraded) {
            self.unlike += 1;
            self.first.get_or_insert((worker, head.seq));
        }
        false
    }

    /// Remembers a partial result; returns whether it had not come.
    fn is_new_partial(&mut self, packet: PacketId) -> bool {
        if !self.partials.insert(packet) {
            return false;
        }
        if self.order.len() == PARTIALS
            && let Some(oldest) = self.order.pop_front()
        {
            self.partials.remove(&oldest);
        }
        self.order.push_back(packet);
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
        for seq in 0..2 * PARTIALS as u32 {
            assert!(copies.is_first((0, PacketId::new(2, seq, 0)), 0, &head(seq, 2, true), || &[0; 4]));
        }
        assert_eq!((copies.partials.len(), copies.order.len()), (PARTIALS, PARTIALS));
    }
}
