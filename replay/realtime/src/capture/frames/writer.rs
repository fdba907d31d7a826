//! The writing thread: writes blocks as batches of an Arrow stream and, on request, as packets of a pcapng file.
//!
//! Arrow passes the column buffers through; they are copied once, into the buffer that is written to the disk.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use pktgen_core::arrow::buffer::Buffer;
use pktgen_core::arrow::datatypes::SchemaRef;
use pktgen_core::arrow::ipc::reader::StreamReader;
use pktgen_core::arrow::ipc::writer::StreamWriter;
use pktgen_core::record::FileDigests;
use pktgen_core::record::digest::file_digest;
use pktgen_core::whole::WholeFile;
use pktgen_core::{Error, Result};
use pktgen_wire::pcap::{Drops, Form, Writer, WriterOptions};
use rtrb::{Consumer, Producer};

use super::block::{Block, ROWS};
use super::direct::DirectFile;
use super::{FRAMES, schema};

/// Interval between checks without work; the filling thread wakes this one earlier.
const NAP: Duration = Duration::from_millis(50);

/// Bytes written to the disk at once while the writer is behind; fewer otherwise.
const ROOM: usize = 4 << 20;

/// The packets of a capture, on request.
const PACKETS: &str = "capture.pcapng";

/// The files of a capture.
pub(super) struct Files {
    path: PathBuf,
    schema: SchemaRef,
    /// Buffer for missing stamps.
    blank: Buffer,
    stream: StreamWriter<DirectFile>,
    pcap: Option<Writer>,
}

fn failed(path: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::Io { action: "write", path: path.to_owned(), source: std::io::Error::other(error.to_string()) }
}

/// Returns the path of the stream.
pub(crate) fn stream_path(dir: &Path) -> PathBuf {
    dir.join(format!("{FRAMES}.arrows"))
}

impl Files {
    /// Creates them in `dir`.
    pub fn create(dir: &Path, pcap: bool) -> Result<Self> {
        let path = stream_path(dir);
        let file = DirectFile::create(&path, ROOM).map_err(Error::io("create", &path))?;
        let schema = schema();
        let mut stream = StreamWriter::try_new(file, &schema).map_err(|error| failed(&path, &error))?;
        // The schema is on disk from the start: a capture that is killed early leaves an empty, valid stream.
        stream.flush().map_err(|error| failed(&path, &error))?;
        let pcap = pcap.then(|| Writer::create(&dir.join(PACKETS), WriterOptions::new(Form::Pcapng))).transpose()?;
        Ok(Files { path, schema, blank: Buffer::from_vec(vec![0i64; ROWS]), stream, pcap })
    }

    /// Returns the method of writing the stream, for the manifest.
    pub fn way(&self) -> &'static str {
        self.stream.get_ref().way()
    }

    /// Sets the origin of times, in ns since 1970.
    pub fn set_anchor(&mut self, anchor_ns: u64) {
        if let Some(pcap) = &mut self.pcap {
            // It is the capture's anchor; senders have another.
            pcap.set_anchor(anchor_ns, false);
        }
    }

    /// Writes blocks as they arrive, and returns them empty, until `full` ends.
    pub fn work(mut self, full: &mut Consumer<Block>, empty: &mut Producer<Block>) -> Result<()> {
        // A capture that is killed before its first frame leaves valid files.
        self.flush()?;
        loop {
            match full.pop() {
                Ok(mut block) => {
                    self.write(&mut block)?;
                    // The ring has room for all blocks.
                    let _ = empty.push(block);
                    if full.is_empty() {
                        self.flush()?;
                    }
                }
                // The other end pushes its last block before it is dropped, so check once more.
                Err(_) if full.is_abandoned() && full.is_empty() => return self.finish(),
                Err(_) => std::thread::park_timeout(NAP),
            }
        }
    }

    fn write(&mut self, block: &mut Block) -> Result<()> {
        if let Some(pcap) = &mut self.pcap {
            for (stamp_ns, t, len, bytes) in block.frames() {
                // The time that analysis gives the frame in the stream.
                match stamp_ns {
                    Some(stamp_ns) => pcap.packet_at(0, stamp_ns, bytes, len)?,
                    None => pcap.packet(0, t, bytes, len)?,
                }
            }
        }
        let stream = &mut self.stream;
        block.write(&self.schema, &self.blank, |batch| stream.write(batch)).map_err(|error| failed(&self.path, &error))
    }

    /// Writes to the files what was passed to them.
    fn flush(&mut self) -> Result<()> {
        self.stream.flush().map_err(|error| failed(&self.path, &error))?;
        self.pcap.as_mut().map_or(Ok(()), Writer::flush)
    }

    fn finish(mut self) -> Result<()> {
        self.stream.finish().map_err(|error| failed(&self.path, &error))?;
        let file = self.stream.into_inner().map_err(|error| failed(&self.path, &error))?;
        file.finish().map_err(Error::io("write", &self.path))?;
        self.pcap.map_or(Ok(()), |pcap| pcap.finish().map(drop))
    }
}

/// Appends the counts of dropped packets to the packets file, if there is one.
pub(super) fn note_drops(dir: &Path, drops: Drops) -> Result<()> {
    let path = dir.join(PACKETS);
    if drops.by_interface + drops.by_host > 0 && path.exists() { drops.append_to(&path) } else { Ok(()) }
}

/// Adds the digests of the finished files in `dir` to `files`. Not done while writing: hashing is slower than the arrival of frames.
pub(super) fn sign(dir: &Path, files: &mut FileDigests) -> Result<()> {
    for name in [format!("{FRAMES}.arrows"), PACKETS.to_owned()] {
        let path = dir.join(&name);
        if path.exists() {
            files.insert(name, file_digest(&path)?);
        }
    }
    Ok(())
}

/// Converts the stream in `dir` to Parquet, which is smaller and takes a while; then removes it. Adds the digest to `files`.
pub(super) fn convert(dir: &Path, files: &mut FileDigests) -> Result<()> {
    let path = stream_path(dir);
    let file = File::open(&path).map_err(Error::io("open", &path))?;
    let reader = StreamReader::try_new(std::io::BufReader::new(file), None)
        .map_err(|error| Error::data(&path, format!("not an Arrow stream: {error}")))?;
    let name = format!("{FRAMES}.parquet");
    let finished = dir.join(&name);
    let failed = |error: &dyn std::fmt::Display| failed(&finished, error);
    let out = WholeFile::create(&finished)?;
    let level = ZstdLevel::try_new(1).map_err(|error| failed(&error))?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_dictionary_enabled(false)
        .set_max_row_group_row_count(Some(1 << 20))
        .build();
    let mut writer = ArrowWriter::try_new(out, schema(), Some(properties)).map_err(|error| failed(&error))?;
    for batch in reader {
        let batch = batch.map_err(|error| Error::data(&path, error.to_string()))?;
        writer.write(&batch).map_err(|error| failed(&error))?;
    }
    files.insert(name, writer.into_inner().map_err(|error| failed(&error))?.finish()?);
    std::fs::remove_file(&path).map_err(Error::io("remove", &path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    use pktgen_core::arrow::array::{AsArray, RecordBatch};
    use pktgen_core::record::digest::check_files;
    use pktgen_core::time::MS;
    use pktgen_wire::pcap::Reader;

    /// A block of `rows` frames numbered from `first` on.
    fn block(first: u32, rows: u32) -> Block {
        let mut block = Block::new(ROWS, 8, false);
        for n in first..first + rows {
            block.push(i64::from(n), None, 100 + n as usize, &n.to_le_bytes());
        }
        block
    }

    fn numbers(batch: &RecordBatch) -> Vec<u32> {
        let bytes = batch.column(3).as_binary::<i32>();
        bytes.iter().map(|b| u32::from_le_bytes(b.expect("bytes").try_into().expect("4 bytes"))).collect()
    }

    #[test]
    fn a_stream_is_readable_after_every_flush_and_as_parquet() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut files = Files::create(folder.path(), false).expect("files");
        let read = || -> Vec<u32> {
            let file = File::open(stream_path(folder.path())).expect("a stream");
            let reader = StreamReader::try_new(file, None).expect("a schema");
            reader.flat_map(|batch| numbers(&batch.expect("whole batches only"))).collect()
        };
        assert_eq!(read(), [0u32; 0]);
        for (first, rows) in [(0, 3), (3, 5000), (5003, 1)] {
            files.write(&mut block(first, rows)).expect("written");
            // The state left by a killed capture: no end of the stream, zeros up to the next 4 KiB.
            files.stream.flush().expect("flushed");
            assert_eq!(read(), (0..first + rows).collect::<Vec<_>>());
        }
        files.finish().expect("finished");
        assert_eq!(read().len(), 5004);
        let mut digests = FileDigests::new();
        sign(folder.path(), &mut digests).expect("hashed");
        check_files(folder.path(), &digests).expect("as it was written");
        let stream = digests.remove("frames.arrows").expect("its digest");
        convert(folder.path(), &mut digests).expect("converted");
        assert!(stream.bytes > 5004 && digests.contains_key("frames.parquet"), "{digests:?}");
        check_files(folder.path(), &digests).expect("as it was written");
        assert!(!stream_path(folder.path()).exists());
        let file = File::open(folder.path().join("frames.parquet")).expect("a Parquet file");
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).expect("a footer").build().expect("a reader");
        let all: Vec<u32> = reader.flat_map(|batch| numbers(&batch.expect("a batch"))).collect();
        assert_eq!(all, (0..5004).collect::<Vec<_>>());
    }

    /// Packets have the times of `stamp_ns`, also by a clock that is far from the host's, and can be read before the end.
    #[test]
    fn packets_have_the_stamps_of_the_socket() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut files = Files::create(folder.path(), true).expect("files");
        let anchor = 1_700_000_000_000_000_000;
        files.set_anchor(anchor);
        let times = || {
            let mut reader = Reader::open(&folder.path().join(PACKETS)).expect("a capture");
            let mut times = Vec::new();
            while let Some(packet) = reader.next().expect("a packet") {
                times.push(packet.time.expect("a time").unix_ns().cast_unsigned());
            }
            times
        };
        files.flush().expect("flushed");
        assert_eq!(times(), [0u64; 0]);
        let mut block = Block::new(ROWS, 8, true);
        for stamp in [Some(anchor + 1000), Some(anchor - 2000), Some(37), None] {
            block.push(5 * MS, stamp, 60, &[1; 8]);
        }
        files.write(&mut block).expect("written");
        files.flush().expect("flushed");
        assert_eq!(times(), [anchor + 1000, anchor - 2000, 37, anchor + 5_000_000]);
    }
}
