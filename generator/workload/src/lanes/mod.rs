//! Lanes: the first gradients of every packet, reserved for saying which updates a packet holds.
//!
//! A device that aggregates adds, replaces or drops payloads and need not know of lanes: a one in every update adds up to
//! the number of updates, a mark per worker and sequence number adds up to the set of members, and a hash of each member
//! adds up to a check. [`Layout`] says what is where and is refused where numbers would leave their exact range;
//! [`decode`] names the members of a packet, or returns that they are unknown. docs/provenance.md has the rules and why they hold.

mod columns;
mod decode;
mod log;
mod members;
#[cfg(test)]
mod merge_tests;
mod read;
mod source;

use std::sync::Arc;

use crate::record::NO_CLUSTER;
use crate::topology::Population;
use crate::workload::Source;

pub use crate::record::LANES_MAX;
pub use crate::record::lanes::{Ask, Detail, Layout, Merge, Number};
pub use crate::wire::lanes::LaneForm;
pub use columns::{LaneColumns, next_at};
pub use decode::{Candidates, Decoded, Known, Member, decode};
pub use members::{Account, Answer, Arrived, Members, SentRows};
pub use read::{WINDOW, read};

/// What makes the lanes of the updates of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Lanes {
    layout: Layout,
    form: LaneForm,
    ranks: Vec<u32>,
}

impl Lanes {
    /// For these workers.
    pub fn new(layout: Layout, form: LaneForm, workers: &Population) -> Self {
        Lanes { layout, form, ranks: ranks(&workers.cluster_of) }
    }

    /// What is where.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Where it lies in frames.
    pub fn form(&self) -> LaneForm {
        self.form
    }

    /// How many gradients they take.
    pub fn count(&self) -> usize {
        self.layout.lanes()
    }

    /// Writes the lanes of update `seq` of `worker` over the first of its gradients, as these lie in packets. Does nothing
    /// where they have no room, or where the worker is of no cluster.
    #[inline]
    pub fn write(&self, worker: u32, seq: u32, values: &mut [u8]) {
        let Some(rank) = self.rank(worker) else { return };
        let Some(room) = values.as_chunks_mut::<4>().0.get_mut(..self.layout.lanes()) else { return };
        room.fill([0; 4]);
        let number = self.form.number;
        self.layout.each(rank, seq, |lane, value| room[lane] = number.bytes(number.of_whole(value)));
    }

    /// The same as integers.
    #[inline]
    pub fn write_whole(&self, worker: u32, seq: u32, values: &mut [i32]) {
        let Some(rank) = self.rank(worker) else { return };
        let Some(room) = values.get_mut(..self.layout.lanes()) else { return };
        room.fill(0);
        self.layout.each(rank, seq, |lane, value| room[lane] = value as i32);
    }

    /// How many updates a packet represents, by its first lane: for live statistics. None where devices make means.
    #[inline]
    pub fn members(&self, frame: &[u8]) -> Option<u16> {
        let mut words = [0];
        let has = self.layout.merge == Merge::Sum && self.form.words(frame, &mut words) == 1;
        let [word] = words;
        let members = match self.form.number {
            Number::F32 => f32::from_bits(word) as u32,
            Number::I32 => word,
        };
        u16::try_from(members).ok().filter(|_| has)
    }

    fn rank(&self, worker: u32) -> Option<u32> {
        self.ranks.get(worker as usize).copied().filter(|rank| *rank != NOBODY)
    }

    /// `source`, its gradients with these lanes. Integers are made by who scales gradients, so sources of those stay.
    pub fn over(self: &Arc<Self>, source: Box<dyn Source>) -> Box<dyn Source> {
        match self.form.number {
            Number::F32 => Box::new(source::Laned::new(source, self.clone())),
            Number::I32 => source,
        }
    }
}

/// The rank of what belongs to no cluster.
pub const NOBODY: u32 = u32::MAX;

/// The number of each worker in its cluster, by worker.
pub fn ranks(cluster_of: &[u16]) -> Vec<u32> {
    let clusters = cluster_of.iter().filter(|c| **c != NO_CLUSTER).map(|c| usize::from(*c) + 1).max().unwrap_or(0);
    let mut next = vec![0; clusters];
    let rank = |cluster: &u16| match next.get_mut(usize::from(*cluster)) {
        Some(next) if *cluster != NO_CLUSTER => {
            *next += 1;
            *next - 1
        }
        _ => NOBODY,
    };
    cluster_of.iter().map(rank).collect()
}

#[cfg(test)]
mod testing {
    use super::{LaneForm, Number};

    /// Gradients that any two updates of a cluster may be added of.
    pub const FLOATS: LaneForm = LaneForm { number: Number::F32, offset: 84, shared: false, filled: false };
    /// Those of a synchronous protocol.
    pub const INTEGERS: LaneForm = LaneForm { number: Number::I32, offset: 54, shared: true, filled: false };
}

#[cfg(test)]
mod tests {
    use super::testing::{FLOATS, INTEGERS};
    use super::*;

    #[test]
    fn ranks_count_within_clusters() {
        assert_eq!(ranks(&[0, 1, 0, NO_CLUSTER, 1, 0]), [0, 0, 1, NOBODY, 1, 2]);
        assert_eq!(ranks(&[NO_CLUSTER]), [NOBODY]);
    }

    #[test]
    fn lanes_lie_first_and_are_read_as_they_were_written() {
        let workers = Population::regular(2, 3);
        let ask = Ask { detail: Detail::Which, merge: Merge::Sum, window: 48 };
        for form in [FLOATS, INTEGERS] {
            let layout = Layout::plan((form.number, form.shared), ask, 3, 46).unwrap();
            let lanes = Lanes::new(layout, form, &workers);
            let mut frame = vec![0xff; form.offset + 46 * 4];
            lanes.write(4, 77, &mut frame[form.offset..]);
            assert!(frame[..form.offset].iter().all(|b| *b == 0xff));
            assert!(frame[form.offset + lanes.count() * 4..].iter().all(|b| *b == 0xff), "the rest are gradients");
            let mut words = [0; LANES_MAX];
            assert_eq!(form.words(&frame, &mut words[..lanes.count()]), lanes.count());
            let mut expected = vec![0; lanes.count()];
            layout.each(1, 77, |lane, value| expected[lane] = form.number.of_whole(value));
            assert_eq!(words[..lanes.count()], expected);
            assert_eq!((lanes.members(&frame), lanes.members(&frame[..form.offset + 3])), (Some(1), None));
            let mut short = vec![7; 4 * lanes.count() - 1];
            lanes.write(4, 77, &mut short);
            assert!(short.iter().all(|b| *b == 7), "no part of lanes");
        }
    }
}
