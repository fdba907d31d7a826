//! Matches arrivals with transmissions: one join of sent and arrived packets for all rules.

use std::collections::HashMap;

use pktgen_core::record::PacketId;

use crate::frame::Quick;

/// Marks the absence of a row.
const NONE: u32 = u32::MAX;
/// Maximum number of table entries per row; above, sequence numbers are too sparse for a table.
const SPREAD: usize = 4;

/// Rows of first transmissions by worker and sequence number, which workers count up; rows of other transmissions by id.
struct RowIndex {
    /// Beginning of each worker's part of the table, and the end.
    starts: Vec<usize>,
    table: Vec<u32>,
    others: HashMap<PacketId, u32, Quick>,
}

impl RowIndex {
    fn new(packets: &[PacketId]) -> RowIndex {
        let most = packets.len() * SPREAD + 4096;
        let mut lens: Vec<usize> = Vec::new();
        for packet in packets.iter().filter(|packet| packet.attempt() == 0) {
            let worker = packet.worker() as usize;
            if worker >= lens.len() && worker < most {
                lens.resize(worker + 1, 0);
            }
            if let Some(len) = lens.get_mut(worker) {
                *len = (*len).max(packet.seq() as usize + 1);
            }
        }
        if lens.iter().fold(0usize, |all, len| all.saturating_add(*len)) > most {
            lens.clear();
        }
        let mut starts = vec![0];
        starts.extend(lens.iter().scan(0, |end, len| {
            *end += len;
            Some(*end)
        }));
        let table = vec![NONE; starts[starts.len() - 1]];
        let mut index = RowIndex { starts, table, others: HashMap::default() };
        for (row, packet) in packets.iter().enumerate() {
            match index.place(*packet) {
                Some(at) => index.table[at] = row as u32,
                None => drop(index.others.insert(*packet, row as u32)),
            }
        }
        index
    }

    /// Returns the table index of a packet, if it has one.
    fn place(&self, packet: PacketId) -> Option<usize> {
        let worker = packet.worker() as usize;
        let end = *self.starts.get(worker + 1).filter(|_| packet.attempt() == 0)?;
        Some(self.starts[worker] + packet.seq() as usize).filter(|at| *at < end)
    }

    fn row(&self, packet: PacketId) -> u32 {
        match self.place(packet) {
            Some(at) => self.table[at],
            None => self.others.get(&packet).copied().unwrap_or(NONE),
        }
    }
}

/// Sent and arrived packets side by side.
#[derive(Default)]
pub(crate) struct Join {
    /// For each arrival: its transmission.
    sent: Vec<u32>,
    /// For each transmission: its first arrival.
    came: Vec<u32>,
}

impl Join {
    /// Joins transmissions and arrivals, some of which have no id.
    pub(crate) fn new(packets: &[PacketId], arrivals: impl Iterator<Item = Option<PacketId>>) -> Join {
        let index = RowIndex::new(packets);
        let mut came = vec![NONE; packets.len()];
        let mut of = |(at, packet): (usize, Option<PacketId>)| {
            let row = packet.map_or(NONE, |packet| index.row(packet));
            if let Some(first) = came.get_mut(row as usize).filter(|first| **first == NONE) {
                *first = at as u32;
            }
            row
        };
        let sent = arrivals.enumerate().map(&mut of).collect();
        Join { sent, came }
    }

    /// Returns the first arrival of a transmission.
    pub(crate) fn came(&self, row: usize) -> Option<usize> {
        self.came.get(row).filter(|at| **at != NONE).map(|at| *at as usize)
    }

    /// Returns the transmission of an arrival.
    pub(crate) fn sent(&self, at: usize) -> Option<usize> {
        self.sent.get(at).filter(|row| **row != NONE).map(|row| *row as usize)
    }

    /// Returns the transmission of an arrival if it is the first arrival of it.
    pub(crate) fn first(&self, at: usize) -> Option<usize> {
        self.sent(at).filter(|row| self.came[*row] as usize == at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_join_that_a_map_makes() {
        let mut state = 1u64;
        let mut next = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        // Numbers close together, far apart, with distant worker ids, and repeated ones.
        for (workers, step, factor) in [(9, 1, 1), (3, 1 << 24, 1), (2, 1, (1 << 23) - 1)] {
            let packets: Vec<PacketId> = (0..600u32)
                .map(|i| PacketId::new(i % workers * factor, i / workers * step, u8::from(next(8) == 0)))
                .collect();
            let arrivals: Vec<Option<PacketId>> = (0..900)
                .map(|_| match next(10) {
                    0 => None,
                    1 => Some(PacketId::new(77, 5, 2)),
                    _ => Some(packets[next(600) as usize]),
                })
                .collect();
            let join = Join::new(&packets, arrivals.iter().copied());
            for (row, packet) in packets.iter().enumerate() {
                assert_eq!(join.came(row), arrivals.iter().position(|came| *came == Some(*packet)));
            }
            for (at, came) in arrivals.iter().enumerate() {
                let row = came.and_then(|came| packets.iter().position(|packet| *packet == came));
                assert_eq!(join.sent(at), row);
                assert_eq!(join.first(at), row.filter(|row| join.came(*row) == Some(at)));
            }
        }
    }
}
