//! A run to a goal: every worker must have a number of its updates represented at the server (OLAF §8.2).

use pktgen_core::record::PacketId;

/// Counts different updates of each worker that were delivered, alone or in an aggregate.
#[derive(Debug, Clone)]
pub struct Goal {
    updates: u32,
    /// Seen sequence numbers of each worker, and their count.
    seen: Vec<Vec<u64>>,
    count: Vec<u32>,
    workers: u32,
    short: u32,
}

impl Goal {
    /// A goal of `updates` updates for each worker for which `counts` is true.
    pub fn new(updates: u32, counts: impl Iterator<Item = bool>) -> Self {
        let count: Vec<u32> = counts.map(|counts| if counts { 0 } else { updates }).collect();
        let short = count.iter().filter(|n| **n < updates).count() as u32;
        Goal { updates, seen: vec![Vec::new(); count.len()], count, workers: short, short }
    }

    /// Records the delivery of an attempt of an update; a second one does not count.
    #[inline]
    pub(super) fn represented(&mut self, packet: PacketId) {
        let worker = packet.worker() as usize;
        if self.count[worker] >= self.updates {
            return;
        }
        let (word, bit) = (packet.seq() as usize / 64, 1 << (packet.seq() % 64));
        let seen = &mut self.seen[worker];
        if seen.len() <= word {
            seen.resize(word + 1, 0);
        }
        if seen[word] & bit == 0 {
            seen[word] |= bit;
            self.count[worker] += 1;
            self.short -= u32::from(self.count[worker] == self.updates);
        }
    }

    /// Returns the number of workers that have not reached the goal.
    #[inline]
    pub fn short(&self) -> u32 {
        self.short
    }

    /// Returns the number of workers with a goal.
    pub fn workers(&self) -> u32 {
        self.workers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_updates_count_once() {
        let mut goal = Goal::new(2, [true, false, true].into_iter());
        assert_eq!((goal.short(), goal.workers()), (2, 2));
        for (worker, seq, attempt, short) in
            [(0, 70, 0, 2), (0, 70, 1, 2), (2, 0, 0, 2), (0, 3, 2, 1), (0, 4, 0, 1), (1, 0, 0, 1), (2, 1, 0, 0)]
        {
            goal.represented(PacketId::new(worker, seq, attempt));
            assert_eq!(goal.short(), short, "{worker} {seq} {attempt}");
        }
    }
}
