//! The bytes of a file, in order, through one buffer.

use std::fs::File;
use std::io::{self, Cursor, ErrorKind, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::BLOCK_MAX;
use crate::{Error, Result};

/// First bytes of files compressed by gzip and Zstandard.
pub const PACKED: [&[u8]; 2] = [&[0x1f, 0x8b], &[0x28, 0xb5, 0x2f, 0xfd]];

/// Returns the index in [`PACKED`] of the compression of a file that begins with `head`. Zstandard files may begin with a frame that
/// decoders skip, as those of pzstd do (RFC 8878, 3.1.2).
pub fn packing(head: &[u8]) -> Option<usize> {
    let is_skipped = matches!(head, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..]);
    PACKED.iter().position(|magic| head.starts_with(magic)).or(is_skipped.then_some(1))
}

/// Bytes per read, and initial size of the buffer, which grows if a block needs more.
const CHUNK: usize = 64 << 10;

/// Byte order of a file or section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Little,
    Big,
}

impl Order {
    /// Returns the 16 bits at `at`.
    #[inline]
    pub(super) fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let array = [bytes[at], bytes[at + 1]];
        if self == Order::Little { u16::from_le_bytes(array) } else { u16::from_be_bytes(array) }
    }

    /// Returns the 32 bits at `at`.
    #[inline]
    pub(super) fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let array = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        if self == Order::Little { u32::from_le_bytes(array) } else { u32::from_be_bytes(array) }
    }

    /// Returns the 64 bits at `at`.
    pub(super) fn u64(self, bytes: &[u8], at: usize) -> u64 {
        let (first, second) = (u64::from(self.u32(bytes, at)), u64::from(self.u32(bytes, at + 4)));
        if self == Order::Little { second << 32 | first } else { first << 32 | second }
    }
}

/// Counts the bytes read from a file: the progress, also for compressed files.
struct Counted {
    file: File,
    count: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read(into)?;
        self.count.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

/// A file being read: its buffered bytes and their offset.
pub(super) struct Input {
    source: Box<dyn Read + Send>,
    path: PathBuf,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Offset of `start` in the capture.
    offset: u64,
    /// Names the compression in messages, since offsets are within the uncompressed data.
    unpacked: &'static str,
    count: Arc<AtomicU64>,
    file_bytes: Option<u64>,
}

impl Input {
    /// Opens a file; decompresses it if necessary.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(Error::io("open", path))?;
        let facts = file.metadata().map_err(Error::io("open", path))?;
        let count = Arc::new(AtomicU64::new(0));
        let mut counted = Counted { file, count: count.clone() };
        // Without seeking, since it may be a pipe.
        let mut head = Vec::new();
        counted.by_ref().take(4).read_to_end(&mut head).map_err(Error::io("read", path))?;
        let packing = packing(&head);
        let whole = Cursor::new(head).chain(counted);
        let (source, unpacked): (Box<dyn Read + Send>, _) = match packing {
            None => (Box::new(whole), ""),
            Some(0) => (Box::new(flate2::read::MultiGzDecoder::new(whole)), " of what gzip unpacks"),
            Some(_) => {
                let decoder = zstd::stream::read::Decoder::new(whole).map_err(Error::io("unpack", path))?;
                (Box::new(decoder), " of what Zstandard unpacks")
            }
        };
        let file_bytes = facts.is_file().then_some(facts.len());
        Ok(Input { unpacked, count, file_bytes, ..Input::new(source, path) })
    }

    /// Reads bytes from any source; `path` names it in messages.
    pub(super) fn new(source: Box<dyn Read + Send>, path: &Path) -> Self {
        Input {
            source,
            path: path.to_owned(),
            buffer: vec![0; CHUNK],
            start: 0,
            end: 0,
            offset: 0,
            unpacked: "",
            count: Arc::default(),
            file_bytes: None,
        }
    }

    /// Returns the current offset in bytes.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the buffered bytes from the current offset.
    #[inline]
    pub(super) fn held(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.buffer.len()
    }

    /// Returns the bytes read from the file so far, and the file's length if it has one.
    pub(super) fn progress(&self) -> (u64, Option<u64>) {
        (self.count.load(Ordering::Relaxed), self.file_bytes)
    }

    /// Buffers `n` bytes, unless the file ends before. Returns how many of them are buffered.
    #[inline]
    pub(super) fn want(&mut self, n: usize) -> Result<usize> {
        if self.end - self.start < n {
            self.fetch(n)?;
        }
        Ok(n.min(self.end - self.start))
    }

    fn fetch(&mut self, n: usize) -> Result<()> {
        debug_assert!(n <= BLOCK_MAX + 64, "lengths are checked before");
        if self.start + n > self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        while self.end - self.start < n {
            if self.end == self.buffer.len() {
                // Doubling, so that a declared length alone takes no memory.
                self.buffer.resize(self.buffer.len() * 2, 0);
            }
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => break,
                Ok(got) => self.end += got,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failure(error)),
            }
        }
        Ok(())
    }

    /// Converts an error: decompression errors are damage; others come from the system.
    fn failure(&self, error: io::Error) -> Error {
        if self.unpacked.is_empty() || error.raw_os_error().is_some() {
            return Error::io("read", &self.path)(error);
        }
        let at = self.offset + (self.end - self.start) as u64;
        Error::data(&self.path, format!("damaged at byte {at}{}: {error}", self.unpacked))
    }

    /// Advances by `whole` buffered bytes and returns a part of them, valid until more are requested.
    #[inline]
    pub(super) fn take(&mut self, whole: usize, part: Range<usize>) -> &[u8] {
        let from = self.start;
        self.pass(whole);
        &self.buffer[from + part.start..from + part.end]
    }

    /// Advances by `n` buffered bytes.
    #[inline]
    pub(super) fn pass(&mut self, n: usize) {
        self.start += n;
        self.offset += n as u64;
    }

    /// Advances by `n` bytes, buffered or not. Returns how many there were.
    pub(super) fn skip(&mut self, n: u64) -> Result<u64> {
        let mut left = n;
        while left > 0 {
            let got = self.want(left.min(CHUNK as u64) as usize)?;
            if got == 0 {
                break;
            }
            self.pass(got);
            left -= got as u64;
        }
        Ok(n - left)
    }

    /// Returns the error for damage at `offset`.
    pub(super) fn damage(&self, offset: u64, what: String) -> Error {
        Error::data(&self.path, format!("damaged at byte {offset}{}: {what}", self.unpacked))
    }

    /// Returns the error for a file of another kind.
    pub(super) fn refusal(&self, what: String) -> Error {
        Error::data(&self.path, what)
    }
}
