//! Where the lanes of a format lie: the first gradients of its packets (docs/provenance.md).

use crate::record::lanes::Number;

/// How the lanes of a wire format lie in its frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneForm {
    /// What gradients are.
    pub number: Number,
    /// Where gradients begin in a frame.
    pub offset: usize,
    /// All members of a sum have the same sequence number, and a worker is in it once: what synchronous protocols sum.
    pub shared: bool,
    /// Packets are filled up to one length; elsewhere the last of an iteration may be short.
    pub filled: bool,
}

impl LaneForm {
    /// All gradients of a frame as they lie there.
    #[inline]
    pub fn values<'a>(&self, frame: &'a [u8]) -> &'a [[u8; 4]] {
        frame.get(self.offset..).unwrap_or_default().as_chunks::<4>().0
    }

    /// The first gradients of a frame as they lie there, as many as `out` has room for; returns how many there are.
    #[inline]
    pub fn words(&self, frame: &[u8], out: &mut [u32]) -> usize {
        let values = self.values(frame);
        let count = values.len().min(out.len());
        for (word, bytes) in out.iter_mut().zip(values) {
            *word = self.number.word(*bytes);
        }
        count
    }
}
