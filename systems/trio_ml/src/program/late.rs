//! Remembers recently finished blocks to recognise late packets (our addition; the paper's device forgets a block with
//! its Result, so that such a packet opens a new record).

/// A direct-mapped memory of one job's finished blocks by block id: an entry is replaced when another block with the
/// same low bits is finished, so it suffices for models with at most as many blocks as it has entries.
#[derive(Debug, Clone)]
pub(crate) struct FinishedBlocks {
    entries: Vec<Entry>,
}

/// Number of blocks of the largest model, and maximum number of entries of all jobs.
const MODEL: usize = 1 << 17;
const ENTRIES_MAX: usize = 1 << 20;

#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    block: u32,
    generation: u16,
    used: bool,
}

impl FinishedBlocks {
    /// Creates a memory for twice the number of blocks that a job may have in progress, for at least 64, and for the
    /// largest models (VGG11 has 129,750 blocks of 1024) if the number of jobs permits.
    pub fn new(blocks: u16, jobs: usize) -> Self {
        let model = (ENTRIES_MAX / jobs.max(1)).min(MODEL);
        let room = (usize::from(blocks) * 2).max(64).max(model);
        FinishedBlocks { entries: vec![Entry::default(); room.next_power_of_two()] }
    }

    #[inline]
    fn place(&self, block: u32) -> usize {
        block as usize & (self.entries.len() - 1)
    }

    /// Records that the block is finished; the record of a late packet does not hide a later generation.
    #[inline]
    pub fn remember(&mut self, block: u32, generation: u16) {
        if self.knows(block, generation) {
            return;
        }
        let place = self.place(block);
        self.entries[place] = Entry { block, generation, used: true };
    }

    /// Whether the block was finished in this generation or in a later one.
    #[inline]
    pub fn knows(&self, block: u32, generation: u16) -> bool {
        let entry = self.entries[self.place(block)];
        entry.used && entry.block == block && !is_newer(generation, entry.generation)
    }
}

/// Whether generation `a` is after `b`. Generations are modulo 2¹⁶ (Figure 8, `gen_id`): `a` is later if it is less
/// than half the range ahead.
#[inline]
pub(crate) fn is_newer(a: u16, b: u16) -> bool {
    (a.wrapping_sub(b) as i16) > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_finished_is_known_until_its_place_is_needed() {
        let mut finished = FinishedBlocks::new(3, ENTRIES_MAX);
        assert!(!finished.knows(0, 0), "nothing was finished");
        finished.remember(5, 65535);
        assert!(finished.knows(5, 65535) && finished.knows(5, 65000) && !finished.knows(5, 0));
        assert!(!finished.knows(69, 65535));
        finished.remember(5, 65533);
        assert!(finished.knows(5, 65534), "an earlier generation hides no later one");
        finished.remember(69, 0);
        assert!(!finished.knows(5, 65535) && finished.knows(69, 0));
    }

    #[test]
    fn generations_run_in_a_circle() {
        assert!(is_newer(1, 0) && is_newer(0, 65535) && is_newer(32767, 0));
        assert!(!is_newer(0, 0) && !is_newer(65535, 0) && !is_newer(32768, 0));
    }
}
