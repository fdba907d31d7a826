//! Columns of frames, filled and written in place.
//!
//! A block is allocated once. The receiving thread copies each frame's first bytes into it, the writer lends its memory
//! to Arrow and takes it back for reuse: nothing is allocated per frame or per block.

use std::sync::Arc;

use pktgen_core::arrow::array::{Array, ArrayRef, BinaryArray, Int64Array, RecordBatch, UInt32Array};
use pktgen_core::arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use pktgen_core::arrow::datatypes::SchemaRef;
use pktgen_core::arrow::error::ArrowError;
use pktgen_core::time::Time;

/// Most frames per block, and per batch of the stream.
pub(super) const ROWS: usize = 1 << 13;

/// Marks a missing stamp.
const MISSING: i64 = i64::MIN;

/// Columns with room for some frames, at most [`ROWS`].
#[derive(Debug)]
pub(super) struct Block {
    /// Number of frames that it has room for.
    most: usize,
    times: Vec<i64>,
    /// One per frame if the socket stamps frames, otherwise empty.
    stamps: Vec<i64>,
    stamped: bool,
    lens: Vec<u32>,
    /// The end of each frame in `bytes`, after an initial 0.
    ends: Vec<i32>,
    bytes: Vec<u8>,
}

impl Block {
    /// Allocates room for `most` frames of which `snap` bytes are kept, and touches the memory.
    pub fn new(most: usize, snap: usize, stamped: bool) -> Self {
        debug_assert!(most <= ROWS);
        // Written once: the kernel allocates pages on the first write, which must not happen while receiving.
        fn touched<T: Clone>(value: T, count: usize) -> Vec<T> {
            let mut memory = Vec::with_capacity(count);
            memory.resize(count, value);
            memory.clear();
            memory
        }
        let mut block = Block {
            most,
            times: touched(1, most),
            stamps: touched(1, if stamped { most } else { 0 }),
            stamped,
            lens: touched(1, most),
            ends: touched(1, most + 1),
            bytes: touched(1, most * snap),
        };
        block.ends.push(0);
        block
    }

    /// Returns the approximate size of a frame in a block for `snap`, in bytes.
    pub(super) fn frame_size(snap: usize) -> usize {
        snap + 24
    }

    /// Returns the number of frames.
    #[inline]
    pub fn rows(&self) -> usize {
        self.lens.len()
    }

    /// Returns whether it is full.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.lens.len() >= self.most
    }

    /// Returns the arrival time of its first frame.
    pub fn first(&self) -> Option<Time> {
        self.times.first().copied()
    }

    /// Adds a frame of which `bytes` are kept; there must be room.
    #[inline]
    pub fn push(&mut self, t: Time, stamp_ns: Option<u64>, len: usize, bytes: &[u8]) {
        debug_assert!(self.rows() < self.most && self.bytes.len() + bytes.len() <= self.bytes.capacity());
        self.times.push(t);
        if self.stamped {
            self.stamps.push(stamp_ns.map_or(MISSING, |stamp| stamp as i64));
        }
        self.lens.push(len as u32);
        self.bytes.extend_from_slice(bytes);
        self.ends.push(self.bytes.len() as i32);
    }

    /// Returns its frames: the socket's stamp in ns since 1970, if it has one; arrival time, length on the wire, kept bytes.
    pub fn frames(&self) -> impl Iterator<Item = (Option<u64>, Time, u32, &[u8])> {
        let stamps = &self.stamps;
        let stamp = move |at: usize| stamps.get(at).and_then(|stamp| u64::try_from(*stamp).ok());
        let ranges = self.ends.windows(2).map(|pair| &self.bytes[pair[0] as usize..pair[1] as usize]);
        let frames = self.times.iter().zip(&self.lens).zip(ranges).enumerate();
        frames.map(move |(at, ((t, len), bytes))| (stamp(at), *t, *len, bytes))
    }

    /// Lends the columns to `write` as a batch, and empties the block.
    pub fn write(
        &mut self,
        schema: &SchemaRef,
        blank: &Buffer,
        write: impl FnOnce(&RecordBatch) -> Result<(), ArrowError>,
    ) -> Result<(), ArrowError> {
        let rows = self.rows();
        let has_stamps = self.stamped && rows > 0;
        // A card may leave out the stamp of a frame.
        let nulls = self.stamps.contains(&MISSING).then(|| self.stamps.iter().map(|stamp| *stamp != MISSING).collect());
        let lent = |column: &mut Vec<i64>| Buffer::from_vec(std::mem::take(column));
        let times = Int64Array::new(ScalarBuffer::new(lent(&mut self.times), 0, rows), None);
        let stamps = match has_stamps {
            true => Int64Array::new(ScalarBuffer::new(lent(&mut self.stamps), 0, rows), nulls),
            false => Int64Array::new(ScalarBuffer::new(blank.clone(), 0, rows), Some(NullBuffer::new_null(rows))),
        };
        let lens = UInt32Array::from(std::mem::take(&mut self.lens));
        let ends = OffsetBuffer::new(ScalarBuffer::from(std::mem::take(&mut self.ends)));
        let bytes = BinaryArray::new(ends, Buffer::from_vec(std::mem::take(&mut self.bytes)), None);
        let columns: Vec<ArrayRef> = vec![Arc::new(times), Arc::new(stamps), Arc::new(lens), Arc::new(bytes)];
        let batch = RecordBatch::try_new(schema.clone(), columns)?;
        let written = write(&batch);
        self.take_back(batch, has_stamps);
        written
    }

    /// Takes back the memory of a batch that is no longer shared. If it still is, new memory is allocated, which is slower.
    fn take_back(&mut self, batch: RecordBatch, has_stamps: bool) {
        let (_, columns, _) = batch.into_parts();
        for (at, column) in columns.into_iter().enumerate() {
            let buffers = column.to_data().buffers().to_vec();
            drop(column);
            for (part, buffer) in buffers.into_iter().enumerate() {
                match (at, part) {
                    (0, _) => self.times = reclaim(buffer, self.most),
                    (1, _) if has_stamps => self.stamps = reclaim(buffer, self.most),
                    (1, _) => {}
                    (2, _) => self.lens = reclaim(buffer, self.most),
                    (_, 0) => self.ends = reclaim(buffer, self.most + 1),
                    _ => self.bytes = reclaim(buffer, 0),
                }
            }
        }
        self.ends.push(0);
    }
}

/// Returns the vector underlying `buffer`, empty, with room for `most`.
fn reclaim<T: pktgen_core::arrow::datatypes::ArrowNativeType>(buffer: Buffer, most: usize) -> Vec<T> {
    let mut memory = buffer.into_vec().unwrap_or_default();
    memory.clear();
    memory.reserve(most);
    memory
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::frames::schema;
    use pktgen_core::arrow::array::{AsArray, cast::as_primitive_array};
    use pktgen_core::arrow::datatypes::{Int64Type, UInt32Type};
    use proptest::prelude::*;

    proptest! {
        /// A block returns what was pushed, stamped or not, and gets its memory back.
        #[test]
        fn what_goes_in_comes_out(frames in prop::collection::vec((any::<u32>(), prop::collection::vec(any::<u8>(), 0..64)), 1..200), stamped: bool) {
            let mut block = Block::new(ROWS, 64, stamped);
            let memory = (block.times.as_ptr(), block.bytes.as_ptr());
            let blank = Buffer::from_vec(vec![0i64; ROWS]);
            for round in 0..2 {
                for (i, (len, bytes)) in frames.iter().enumerate() {
                    block.push(i as i64 + round, stamped.then_some(7 + i as u64), *len as usize, bytes);
                }
                let seen: Vec<_> = block.frames().map(|(_, _, len, bytes)| (len, bytes.to_vec())).collect();
                prop_assert_eq!(&seen, &frames);
                block.write(&schema(), &blank, |batch| {
                    let times = as_primitive_array::<Int64Type>(batch.column(0));
                    let lens = as_primitive_array::<UInt32Type>(batch.column(2));
                    assert_eq!(batch.column(1).null_count(), if stamped { 0 } else { frames.len() });
                    for (i, (len, bytes)) in frames.iter().enumerate() {
                        assert_eq!((times.value(i), lens.value(i)), (i as i64 + round, *len));
                        assert_eq!(batch.column(3).as_binary::<i32>().value(i), &bytes[..]);
                        if stamped {
                            assert_eq!(as_primitive_array::<Int64Type>(batch.column(1)).value(i), 7 + i as i64);
                        }
                    }
                    Ok(())
                }).expect("a batch");
                prop_assert_eq!(block.rows(), 0);
                prop_assert_eq!((block.times.as_ptr(), block.bytes.as_ptr()), memory);
            }
        }
    }

    /// Frames that a card left out have no stamp, and the others keep theirs, in this batch and the next.
    #[test]
    fn a_frame_without_a_stamp_has_none_and_the_others_keep_theirs() {
        let blank = Buffer::from_vec(vec![0i64; ROWS]);
        let mut block = Block::new(ROWS, 64, true);
        for stamps in [[Some(5), None, Some(7)], [None, None, Some(9)], [Some(1), Some(2), Some(3)]] {
            for stamp in stamps {
                block.push(1, stamp, 60, &[1, 2]);
            }
            let mut seen = Vec::new();
            let write = |batch: &RecordBatch| {
                let column = as_primitive_array::<Int64Type>(batch.column(1));
                seen.extend(column.iter().map(|stamp| stamp.map(|stamp| stamp as u64)));
                Ok(())
            };
            block.write(&schema(), &blank, write).unwrap();
            assert_eq!(seen, stamps);
        }
    }
}
