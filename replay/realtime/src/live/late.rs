//! Lateness of departing frames, counted during a run: one thread writes, others read, and none waits.

use std::sync::atomic::{AtomicU64, Ordering};

use pktgen_core::quantile::nearest_rank;

/// Buckets per power of two: a quantile is at most 1/32 too high.
const PARTS: usize = 1 << PART_BITS;
const PART_BITS: u32 = 5;
/// Lateness above 2⁴² ns (73 minutes) is counted as that.
const TOP_BITS: u32 = 42;
const BUCKETS: usize = (TOP_BITS - PART_BITS + 1) as usize * PARTS;

/// Numbers of frames by lateness.
pub(super) struct LateCounts(Box<[AtomicU64]>);

impl Default for LateCounts {
    fn default() -> Self {
        LateCounts((0..BUCKETS).map(|_| AtomicU64::new(0)).collect())
    }
}

impl LateCounts {
    /// Counts a frame. Called by one thread only.
    #[inline]
    pub(super) fn count(&self, late_ns: u64) {
        let own = &self.0[bucket(late_ns)];
        own.store(own.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

/// Returns the bucket of a lateness.
#[inline]
fn bucket(late_ns: u64) -> usize {
    let late = late_ns.min((1 << TOP_BITS) - 1);
    let shift = (u64::BITS - late.leading_zeros()).saturating_sub(PART_BITS + 1);
    shift as usize * PARTS + (late >> shift) as usize
}

/// Returns the highest lateness of a bucket.
fn highest(bucket: usize) -> u64 {
    let shift = (bucket / PARTS).saturating_sub(1);
    (((bucket - shift * PARTS) as u64 + 1) << shift) - 1
}

/// Counts at the last look.
pub(super) struct LateLooks(Vec<u64>);

impl Default for LateLooks {
    fn default() -> Self {
        LateLooks(vec![0; BUCKETS])
    }
}

impl LateLooks {
    /// Returns the lateness of frames since the last look, in ns: median, 99 %, maximum; `None` without frames.
    pub(super) fn since(&mut self, counts: &LateCounts) -> Option<[u64; 3]> {
        let mut new = Vec::new();
        for (bucket, (before, now)) in self.0.iter_mut().zip(&counts.0).enumerate() {
            let now = now.load(Ordering::Relaxed);
            if now > *before {
                new.push((bucket, now - *before));
            }
            *before = now;
        }
        let all: u64 = new.iter().map(|(_, count)| count).sum();
        let at = |share: f64| {
            let mut left = nearest_rank(share, all as usize) as u64;
            let found = new.iter().find(|(_, count)| {
                let here = left <= *count;
                left = left.saturating_sub(*count);
                here
            });
            found.map(|(bucket, _)| highest(*bucket))
        };
        Some([at(0.5)?, at(0.99)?, at(1.0)?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_what_is_at_most_a_32nd_lower() {
        let mut last = None;
        for late in (0..5000).chain((13..42).flat_map(|bits| [(1 << bits) - 1, 1 << bits, (1 << bits) + 77])) {
            let found = bucket(late);
            let top = highest(found);
            assert!(late <= top && top - late <= late / 32, "{late} is in {found}, up to {top}");
            assert!(last <= Some(found), "{late}");
            last = Some(found);
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn each_look_has_its_own_frames() {
        let (counts, mut looks) = (LateCounts::default(), LateLooks::default());
        assert_eq!(looks.since(&counts), None);
        (0..98).for_each(|_| counts.count(10));
        counts.count(20);
        counts.count(31);
        assert_eq!(looks.since(&counts), Some([10, 20, 31]));
        counts.count(5);
        assert_eq!(looks.since(&counts), Some([5, 5, 5]));
        assert_eq!(looks.since(&counts), None);
    }
}
