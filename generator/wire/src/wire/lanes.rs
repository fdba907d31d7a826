//! Position of the lanes of a format: the first gradients of its packets (docs/provenance.md).

use crate::record::lanes::Number;

/// Position and properties of the lanes of a wire format in its frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneForm {
    /// Encoding of gradients.
    pub number: Number,
    /// Offset of the gradients in a frame.
    pub offset: usize,
    /// Whether all members of a sum have the same sequence number and each worker contributes once: the sums of synchronous protocols.
    pub shared: bool,
    /// Whether packets are padded to one length; else the last of an iteration may be short.
    pub filled: bool,
}

impl LaneForm {
    /// Returns all gradients of a frame in their encoding.
    #[inline]
    pub fn values<'a>(&self, frame: &'a [u8]) -> &'a [[u8; 4]] {
        frame.get(self.offset..).unwrap_or_default().as_chunks::<4>().0
    }

    /// Copies the first gradients of a frame, decoded to words, to `out`, as far as it has room; returns their number.
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
