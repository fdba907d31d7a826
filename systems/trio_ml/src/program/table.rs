//! Block records (Trio §4 and Figure 18), found by (job, block), with their sums.
//!
//! Records and sums are in arenas that grow while a run warms up and never shrink; a record whose Result has not left yet is not in the
//! table but keeps its index. Each part of the table that a timer thread visits (§5) is a list in the order of creation.

use pktgen_core::record::PacketId;
use pktgen_core::time::Time;

use super::mask::Mask;

/// Denotes no record.
const NONE: u32 = u32::MAX;

/// A block in progress. Names are those of Figure 18; `job_ctx_paddr` and `aggr_paddr` are indices here, and `block_exp` and `block_age`
/// are the job's timeout and the REF flag of its hash record. The fields after `rcvd_mask` are our additions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockRecord {
    /// Its job.
    pub job: u8,
    /// Its id.
    pub block: u32,
    /// When it was opened.
    pub block_start_time: Time,
    /// Number of gradients.
    pub grad_cnt: u16,
    /// Number of contributions so far.
    pub rcvd_cnt: u8,
    /// The sources that have contributed.
    pub rcvd_mask: Mask,
    /// Iteration; the figure has no space for it, though §4 distinguishes iterations by it.
    pub generation: u16,
    /// Number of represented workers: the sum of the contributions' counts (§4, "Hierarchical aggregation").
    pub src_cnt: u8,
    /// The flag of §5: whether it was looked up since the last visit of a timer thread.
    pub referenced: bool,
    /// Whether a contribution belonged to the last block of the model.
    pub last: bool,
    /// Whether a contribution was partial.
    pub degraded: bool,
    /// Whether it timed out here, or a contribution had timed out.
    pub aged: bool,
    /// Whether it was opened by a packet of a finished block.
    pub late: bool,
    /// The packet that opened it.
    pub opener: PacketId,
    /// The source of that packet.
    pub source: u8,
    /// When the chip has added all contributions so far.
    pub summed: Time,
    list: u32,
    previous: u32,
    next: u32,
    chain: u32,
}

impl BlockRecord {
    /// Creates a record without contributions.
    pub fn new(job: u8, block: u32, opener: PacketId, t: Time) -> Self {
        BlockRecord {
            job,
            block,
            block_start_time: t,
            grad_cnt: 0,
            rcvd_cnt: 0,
            rcvd_mask: Mask::default(),
            generation: 0,
            src_cnt: 0,
            referenced: true,
            last: false,
            degraded: false,
            aged: false,
            late: false,
            opener,
            source: 0,
            summed: t,
            list: NONE,
            previous: NONE,
            next: NONE,
            chain: NONE,
        }
    }
}

/// Returns the hash of a key, which also determines the record's part of the table.
#[inline]
fn hash(job: u8, block: u32) -> u64 {
    let key = u64::from(job) << 32 | u64::from(block);
    let mixed = (key ^ 0x5bf0_3635).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// Returns which of `parts` equal parts of the table contains a block.
#[inline]
pub fn part_of(job: u8, block: u32, parts: u32) -> u32 {
    (((hash(job, block) & 0xffff_ffff) * u64::from(parts)) >> 32) as u32
}

/// All records.
pub struct Table {
    records: Vec<BlockRecord>,
    free: Vec<u32>,
    sums: Vec<i32>,
    stride: usize,
    /// First record of each bucket; a power of two.
    buckets: Vec<u32>,
    /// First and last record of each part.
    lists: Vec<(u32, u32)>,
    parts: u32,
    live: u32,
}

impl Table {
    /// Creates a table for blocks of up to `gradients`, in `parts` parts for each of `classes` timeouts.
    pub fn new(gradients: u16, parts: u32, classes: usize) -> Self {
        Table {
            records: Vec::new(),
            free: Vec::new(),
            sums: Vec::new(),
            // Whole cache lines.
            stride: usize::from(gradients).next_multiple_of(16),
            buckets: vec![NONE; 64],
            lists: vec![(NONE, NONE); parts as usize * classes],
            parts,
            live: 0,
        }
    }

    /// Returns the number of records in the table.
    #[inline]
    pub fn live(&self) -> u32 {
        self.live
    }

    /// Returns the number of indices in use, including those of Results that have not left.
    #[cfg(test)]
    pub fn in_use(&self) -> usize {
        self.records.len() - self.free.len()
    }

    #[inline]
    fn bucket(&self, job: u8, block: u32) -> usize {
        (hash(job, block) >> 32) as usize & (self.buckets.len() - 1)
    }

    /// Returns the record of a block.
    #[inline]
    pub fn find(&self, job: u8, block: u32) -> Option<u32> {
        let mut at = self.buckets[self.bucket(job, block)];
        while at != NONE {
            let record = &self.records[at as usize];
            if record.block == block && record.job == job {
                return Some(at);
            }
            at = record.chain;
        }
        None
    }

    /// Returns a record.
    #[inline]
    pub fn get(&self, index: u32) -> &BlockRecord {
        &self.records[index as usize]
    }

    /// Returns a record for changes; its key and index stay.
    #[inline]
    pub fn get_mut(&mut self, index: u32) -> &mut BlockRecord {
        &mut self.records[index as usize]
    }

    /// Returns the sums of a record.
    #[inline]
    pub fn sums(&self, index: u32) -> &[i32] {
        let start = index as usize * self.stride;
        &self.sums[start..start + usize::from(self.records[index as usize].grad_cnt)]
    }

    /// Returns the sums of a record for changes.
    #[inline]
    pub(crate) fn sums_mut(&mut self, index: u32) -> &mut [i32] {
        let start = index as usize * self.stride;
        &mut self.sums[start..start + usize::from(self.records[index as usize].grad_cnt)]
    }

    /// Puts a record into the table, in the lists of timeout `class`. Its sums are not initialised.
    pub fn insert(&mut self, record: BlockRecord, class: usize) -> u32 {
        if self.live as usize >= self.buckets.len() {
            self.grow();
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.records.push(record);
            self.sums.resize(self.sums.len() + self.stride, 0);
            (self.records.len() - 1) as u32
        });
        let bucket = self.bucket(record.job, record.block);
        let list = class as u32 * self.parts + part_of(record.job, record.block, self.parts);
        let (first, last) = &mut self.lists[list as usize];
        let previous = std::mem::replace(last, index);
        match previous {
            NONE => *first = index,
            previous => self.records[previous as usize].next = index,
        }
        let chain = std::mem::replace(&mut self.buckets[bucket], index);
        self.records[index as usize] = BlockRecord { list, previous, next: NONE, chain, ..record };
        self.live += 1;
        index
    }

    /// Removes a record from the table; its index is kept until [`release`](Self::release).
    pub fn remove(&mut self, index: u32) {
        let BlockRecord { job, block, list, previous, next, chain, .. } = self.records[index as usize];
        match previous {
            NONE => self.lists[list as usize].0 = next,
            previous => self.records[previous as usize].next = next,
        }
        match next {
            NONE => self.lists[list as usize].1 = previous,
            next => self.records[next as usize].previous = previous,
        }
        let bucket = self.bucket(job, block);
        if self.buckets[bucket] == index {
            self.buckets[bucket] = chain;
        } else {
            let mut at = self.buckets[bucket];
            while at != NONE {
                let record = &mut self.records[at as usize];
                if record.chain == index {
                    record.chain = chain;
                    break;
                }
                at = record.chain;
            }
        }
        self.live -= 1;
    }

    /// Allows the index of a removed record to be reused.
    #[inline]
    pub fn release(&mut self, index: u32) {
        self.free.push(index);
    }

    /// Returns the first record of a part.
    pub fn first(&self, class: usize, part: u32) -> Option<u32> {
        let (first, _) = self.lists[class * self.parts as usize + part as usize];
        (first != NONE).then_some(first)
    }

    /// Returns the record after this one in its part.
    pub fn next(&self, index: u32) -> Option<u32> {
        let next = self.records[index as usize].next;
        (next != NONE).then_some(next)
    }

    fn grow(&mut self) {
        self.buckets = vec![NONE; self.buckets.len() * 2];
        for list in 0..self.lists.len() {
            let mut at = self.lists[list].0;
            while at != NONE {
                let BlockRecord { job, block, next, .. } = self.records[at as usize];
                let bucket = self.bucket(job, block);
                self.records[at as usize].chain = std::mem::replace(&mut self.buckets[bucket], at);
                at = next;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_table_is_a_list_searched_from_the_front(
            steps in prop::collection::vec((0u8..3, 0u32..90, 0usize..2), 0..600), parts in 1u32..7,
        ) {
            let mut table = Table::new(5, parts, 2);
            let mut naive: Vec<(u8, u32, usize, u32)> = Vec::new();
            for (i, (job, block, class)) in steps.into_iter().enumerate() {
                let class = if job == 2 { 1 } else { class };
                let found = naive.iter().position(|(j, b, ..)| (*j, *b) == (job, block));
                prop_assert_eq!(table.find(job, block), found.map(|place| naive[place].3));
                match found {
                    Some(place) => {
                        let (.., index) = naive.remove(place);
                        prop_assert_eq!(table.sums(index), [i32::from(job), block as i32]);
                        table.remove(index);
                        table.release(index);
                    }
                    None => {
                        let mut record = BlockRecord::new(job, block, PacketId(i as u64), 0);
                        record.grad_cnt = 2;
                        let index = table.insert(record, class);
                        table.sums_mut(index).copy_from_slice(&[i32::from(job), block as i32]);
                        naive.push((job, block, class, index));
                    }
                }
                prop_assert_eq!((table.live() as usize, table.in_use()), (naive.len(), naive.len()));
            }
            for class in 0..2 {
                for part in 0..parts {
                    let listed: Vec<_> =
                        std::iter::successors(table.first(class, part), |index| table.next(*index)).collect();
                    let expected: Vec<_> = naive.iter()
                        .filter(|(j, b, c, _)| *c == class && part_of(*j, *b, parts) == part).map(|n| n.3).collect();
                    prop_assert_eq!(listed, expected);
                }
            }
        }
    }

    #[test]
    fn parts_are_of_equal_size() {
        let mut sizes = [0; 100];
        (0..100_000).for_each(|block| sizes[part_of(0, block, 100) as usize] += 1);
        assert!(sizes.iter().all(|size| (800..1200).contains(size)), "{sizes:?}");
    }
}
