//! Times at which each update of a run was first represented, for runs to a goal.
//!
//! Called by [`crate::pass`].

use pktgen_core::index::Index;
use pktgen_core::record::PacketId;

use crate::packets::PacketTable;

/// The first time at which each update was represented, and its worker.
#[derive(Debug, Clone, Default)]
pub(crate) struct Firsts {
    known: Index,
    /// Worker and time.
    pub(crate) firsts: Vec<(u32, i64)>,
}

impl Firsts {
    /// Records that these updates arrived at `t`.
    pub(crate) fn add(&mut self, packets: &PacketTable, t: i64, members: &[u32]) {
        for &member in members.iter().filter(|member| packets.is_update(**member)) {
            let id = packets.id(member);
            let update = PacketId::new(id.worker(), id.seq(), 0).0;
            let at = *self.known.entry(update).or_insert(self.firsts.len() as u32) as usize;
            match self.firsts.get_mut(at) {
                Some((_, first)) => *first = t.min(*first),
                None => self.firsts.push((packets.worker(member), t)),
            }
        }
    }
}
