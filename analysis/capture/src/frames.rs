//! The frames that `pktgen capture --iface` recorded, as packets of a capture.

use std::path::Path;

use pktgen_core::arrow::array::{Array, AsArray, BinaryArray, Int64Array, RecordBatch, UInt32Array};
use pktgen_core::arrow::datatypes::{Int64Type, UInt32Type};
use pktgen_core::record::digest::{FRAME_FILES, Verified, verify_dir};
use pktgen_core::record::{Fault, Manifest};
use pktgen_core::time::NS;
use pktgen_core::{Error, Result};
use pktgen_wire::pcap::{ETHERNET, Packet, Stamp};

use pktgen_records::batches::Batches;
use pktgen_records::run::read_json;

/// Returns whether `dir` is the run dir of a recorded interface: its manifest says so, or cannot be read. Frames beside the manifest of a
/// run are not of the run.
pub(super) fn is_recording(dir: &Path) -> bool {
    #[derive(serde::Deserialize)]
    struct Kind {
        part: Option<String>,
    }
    let kind = || read_json::<Kind>(&dir.join("manifest.json"), "a run dir of frames");
    FRAME_FILES.iter().any(|name| dir.join(name).is_file())
        && kind().map_or(true, |kind| kind.part.as_deref() == Some("frames"))
}

/// Checks the digests of a run dir of frames. A recording that was killed or written by an older version lists no frames.
pub(super) fn verify(dir: &Path) -> Result<Verified> {
    let manifest: Manifest = read_json(&dir.join("manifest.json"), "a run dir of frames")?;
    let listed = FRAME_FILES.iter().any(|name| manifest.files.contains_key(*name));
    let verified = verify_dir(dir)?;
    Ok(if listed { verified } else { Verified::NoDigests })
}

/// Frames that a recording lost, if that is the fault.
fn lost(fault: &Fault) -> Option<u64> {
    match fault {
        Fault::CaptureLost { kernel, writer, .. } => Some(kernel + writer),
        Fault::InterfaceDropped { frames } => Some(*frames),
        _ => None,
    }
}

/// The columns of a batch of frames.
struct Columns {
    t: Int64Array,
    stamp: Int64Array,
    len: UInt32Array,
    bytes: BinaryArray,
}

impl Columns {
    /// Finds them in a batch; `None` if one is missing or of another type.
    fn of(batch: &RecordBatch) -> Option<Columns> {
        Some(Columns {
            t: batch.column_by_name("t_recv_ps")?.as_primitive_opt::<Int64Type>()?.clone(),
            stamp: batch.column_by_name("stamp_ns")?.as_primitive_opt::<Int64Type>()?.clone(),
            len: batch.column_by_name("len")?.as_primitive_opt::<UInt32Type>()?.clone(),
            bytes: batch.column_by_name("bytes")?.as_binary_opt::<i32>()?.clone(),
        })
    }
}

/// A run dir of frames that is being read.
pub(super) struct Frames {
    batches: Batches,
    columns: Option<Columns>,
    row: usize,
    read: u64,
    file_bytes: u64,
    anchor_unix_ns: u64,
    /// Frames missing from the stream, as stated by the recording.
    dropped: u64,
    /// Other reasons why the recording is invalid.
    faults: Vec<String>,
}

impl Frames {
    /// Opens the stream in `dir`: the one that the manifest lists, or, of an unfinished capture, the one that exists.
    pub(super) fn open(dir: &Path) -> Result<Self> {
        let manifest: Manifest = read_json(&dir.join("manifest.json"), "a run dir of frames")?;
        let there: Vec<&str> = FRAME_FILES.into_iter().filter(|name| dir.join(name).is_file()).collect();
        let name = there.iter().find(|name| manifest.files.contains_key(**name)).or(there.first());
        let [stream, finished] = FRAME_FILES;
        let name = name.ok_or_else(|| Error::data(dir, format!("it has neither {stream} nor {finished}")))?;
        let path = dir.join(name);
        let file_bytes = std::fs::metadata(&path).map_err(Error::io("read", &path))?.len();
        let batches = Batches::open(&path)?;
        let anchor_unix_ns = manifest.anchor_unix_ns;
        let faults = manifest.validity.faults.iter();
        let dropped = faults.clone().filter_map(lost).sum();
        let faults = faults.filter(|fault| lost(fault).is_none()).map(Fault::to_string).collect();
        Ok(Frames { batches, columns: None, row: 0, read: 0, file_bytes, anchor_unix_ns, dropped, faults })
    }

    /// Returns the next frame, with the kernel's timestamp if it has one.
    pub(super) fn next(&mut self) -> Result<Option<Packet<'_>>> {
        while self.columns.as_ref().is_none_or(|columns| self.row >= columns.t.len()) {
            let Some(batch) = self.batches.next_batch()? else { return Ok(None) };
            self.read += batch.get_array_memory_size() as u64;
            // Once per batch: names are not looked up for each frame.
            let columns = Columns::of(&batch).ok_or_else(|| {
                Error::data(
                    self.batches.path(),
                    "a column of t_recv_ps, stamp_ns, len, bytes is missing or of another type",
                )
            })?;
            (self.columns, self.row) = (Some(columns), 0);
        }
        let row = self.row;
        self.row += 1;
        let anchor_ps = i128::from(self.anchor_unix_ns) * 1000;
        let Some(Columns { t, stamp, len, bytes }) = &self.columns else { return Ok(None) };
        let bytes = bytes.value(row);
        let ps = if stamp.is_valid(row) {
            i128::from(stamp.value(row)) * 1000
        } else {
            anchor_ps + i128::from(t.value(row))
        };
        let len = len.value(row).max(bytes.len() as u32);
        let (time, resolution_ps) = (Some(Stamp::from_unix_ps(ps)), NS as u64);
        Ok(Some(Packet { section: 0, interface: 0, link_type: ETHERNET, time, resolution_ps, len, bytes }))
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    pub(super) fn faults(&self) -> &[String] {
        &self.faults
    }

    pub(super) fn bytes_read(&self) -> u64 {
        self.read.min(self.file_bytes)
    }

    pub(super) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pktgen_core::arrow::array::{ArrayRef, UInt64Array};

    use super::*;

    #[test]
    fn columns_are_known_by_name_and_type() {
        let t: ArrayRef = Arc::new(Int64Array::from(vec![5, 6]));
        let stamp: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), None]));
        let len: ArrayRef = Arc::new(UInt32Array::from(vec![60, 61]));
        let bytes: ArrayRef = Arc::new(BinaryArray::from(vec![&b"a"[..], b"bc"]));
        let long: ArrayRef = Arc::new(UInt64Array::from(vec![60, 61]));
        let batch = |name: &str, len: &ArrayRef| {
            let (t, stamp, len, bytes) = (t.clone(), stamp.clone(), len.clone(), bytes.clone());
            RecordBatch::try_from_iter([(name, len), ("bytes", bytes), ("stamp_ns", stamp), ("t_recv_ps", t)]).unwrap()
        };
        let columns = Columns::of(&batch("len", &len)).expect("all four");
        assert_eq!((columns.t.value(1), columns.stamp.is_valid(1), columns.len.value(1)), (6, false, 61));
        assert_eq!(columns.bytes.value(1), b"bc");
        assert!(Columns::of(&batch("len", &long)).is_none() && Columns::of(&batch("length", &len)).is_none());
    }
}
