//! Updates that reach the server without their names (strict layouts, docs/strict.md): who sent the newest member is known, and
//! what the packet holds. So it is the first packet of that worker that left the device and holds the same, bit for bit; if none
//! does, nothing is said of it, and what left stays under way.

use std::collections::VecDeque;

use pktgen_generator::record::{PacketId, SumOk};
use pktgen_generator::wire::olaf;

use super::{Fate, Ledger};

/// Packets of a worker that are compared: more than a cable loses in a row.
const LOOK: usize = 1024;

/// What left devices and has not arrived, by worker, oldest first.
pub(super) type Departed = Vec<VecDeque<PacketId>>;

impl Ledger {
    /// The same for packets that arrive without their names.
    pub fn without_names(mut self) -> Self {
        self.departed = Some(vec![VecDeque::new(); self.fates.len()]);
        self
    }

    /// A packet leaves a device.
    #[inline]
    pub(super) fn leaves(&mut self, packet: PacketId) {
        if let Some(own) = self.departed.as_mut().and_then(|all| all.get_mut(packet.worker() as usize)) {
            own.push_back(packet);
        }
    }

    /// Do packets reach the server without their names?
    pub fn is_nameless(&self) -> bool {
        self.departed.is_some()
    }

    /// A packet whose newest member is of `worker` arrived, with gradients of this digest: the verdict, and which packet it is and how
    /// many updates it represents, if that is known.
    pub fn received_unnamed(&mut self, worker: u32, digest: u64) -> (SumOk, Option<(PacketId, u16)>) {
        let Some(mut own) = self.departed.as_mut().and_then(|all| all.get_mut(worker as usize)).map(std::mem::take)
        else {
            return (SumOk::Unknown, None);
        };
        let found = own.iter().take(LOOK).position(|packet| self.digest_of(*packet) == Some(digest));
        let packet = found.and_then(|at| own.remove(at));
        if let Some(all) = &mut self.departed {
            all[worker as usize] = own;
        }
        if self.black_box.is_some() {
            return self.unseen_unnamed(worker, digest, packet);
        }
        let Some(packet) = packet else { return (SumOk::Unknown, None) };
        let count = self.groups.get_mut(packet).map_or(0, |group| group.count);
        self.end(packet, Fate::Delivered);
        (SumOk::Yes, Some((packet, u16::try_from(count).unwrap_or(u16::MAX))))
    }

    /// The digest of what a packet under way holds, as far as that is known.
    fn digest_of(&mut self, packet: PacketId) -> Option<u64> {
        let group = *self.groups.get_mut(packet).filter(|group| !group.broken)?;
        let start = group.first as usize * self.stride;
        let sum = &self.values[start..start + usize::from(group.elements)];
        let bytes: Vec<u8> = sum.iter().flat_map(|value| value.to_le_bytes()).collect();
        Some(olaf::digest(&bytes))
    }
}

#[cfg(test)]
mod tests {
    use pktgen_generator::record::{Action, Book};

    use super::*;

    fn id(worker: u32, seq: u32) -> PacketId {
        PacketId::new(worker, seq, 0)
    }

    fn bytes(value: f32) -> Vec<u8> {
        value.to_le_bytes().to_vec()
    }

    fn book(packet_in: PacketId, action: Action, packet_out: Option<PacketId>) -> Book {
        Book { t: 0, node: 0, packet_in, action, packet_out, reason: None }
    }

    /// Worker 0 sends 1, 2, 3 and worker 1 sends 10, of which 2 and 10 are merged.
    fn ledger() -> Ledger {
        let mut ledger = Ledger::new(2, 1, None).without_names();
        for (packet, value) in [(id(0, 0), 1.0), (id(0, 1), 2.0), (id(1, 0), 10.0), (id(0, 2), 3.0)] {
            ledger.sent(packet, &bytes(value));
        }
        ledger.book(&book(id(0, 0), Action::Departed, None));
        ledger.book(&book(id(0, 1), Action::Merged, Some(id(1, 0))));
        ledger.book(&book(id(1, 0), Action::Departed, None));
        ledger.book(&book(id(0, 2), Action::Departed, None));
        ledger
    }

    fn receive(ledger: &mut Ledger, worker: u32, value: f32) -> SumOk {
        ledger.received_unnamed(worker, olaf::digest(&bytes(value))).0
    }

    #[test]
    fn a_packet_is_known_by_what_it_holds() {
        let mut ledger = ledger();
        assert_eq!([(0, 1.0), (1, 12.0), (0, 3.0)].map(|(w, v)| receive(&mut ledger, w, v)), [SumOk::Yes; 3]);
        let balances = ledger.close();
        assert_eq!(
            (balances[0].delivered_alone, balances[0].delivered_merged, balances[1].delivered_merged),
            (2, 1, 1)
        );
        assert!(balances.iter().all(|b| b.in_flight == 0 && b.unknown == 0) && ledger.strangers() == 0);
    }

    #[test]
    fn a_lost_one_is_passed_over_and_what_nobody_sent_is_unknown() {
        let mut ledger = ledger();
        assert_eq!(receive(&mut ledger, 0, 3.0), SumOk::Yes, "the first of worker 0 was lost");
        for (worker, value) in [(0, 3.0), (1, 10.0), (0, 12.0), (9, 1.0)] {
            assert_eq!(receive(&mut ledger, worker, value), SumOk::Unknown, "{worker} {value}");
        }
        let balances = ledger.close();
        assert_eq!((balances[0].delivered_alone, balances[0].in_flight, balances[1].in_flight), (1, 2, 1));
    }
}
