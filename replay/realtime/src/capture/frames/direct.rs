//! A file that is written around the page cache.
//!
//! Writing through the page cache copies every byte and takes a new page for every 4 KiB; in a virtual machine each new
//! page may cost an exit to the host, which alone was measured to take more than half of a core at 1 Mpps. So bytes are
//! collected in one own buffer, which is written to the disk directly.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Memory, offsets and lengths are multiples of this; no disk needs more.
const ALIGN: usize = 4096;

/// A file that grows at its end. Flushed bytes are on their way to the disk; the rest of the last 4 KiB is zero until
/// the next flush, which an Arrow reader takes for the end of the stream.
pub(super) struct DirectFile {
    file: File,
    direct: bool,
    memory: Vec<u8>,
    /// Beginning of the aligned memory.
    start: usize,
    /// Number of collected bytes.
    used: usize,
    /// Number of those that are already in the file: a last, partial 4 KiB.
    known: usize,
    /// File offset of the collected bytes; a multiple of [`ALIGN`].
    offset: u64,
}

impl DirectFile {
    /// Creates the file, with a buffer of `room` bytes; falls back to the page cache if the file system requires it.
    pub fn create(path: &Path, room: usize) -> io::Result<Self> {
        let options = || {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(true);
            options
        };
        let direct = options().custom_flags(libc::O_DIRECT).open(path).and_then(|file| {
            // Some file systems accept the flag and refuse the first write.
            let blank = Self::over(file, true, ALIGN);
            blank.file.write_all_at(&blank.memory[blank.start..blank.start + ALIGN], 0)?;
            blank.file.set_len(0)?;
            Ok(blank.file)
        });
        match direct {
            Ok(file) => Ok(Self::over(file, true, room)),
            Err(_) => Ok(Self::over(options().open(path)?, false, room)),
        }
    }

    fn over(file: File, direct: bool, room: usize) -> Self {
        let room = room.next_multiple_of(ALIGN);
        let memory = vec![0u8; room + ALIGN];
        let start = memory.as_ptr().align_offset(ALIGN);
        DirectFile { file, direct, memory, start, used: 0, known: 0, offset: 0 }
    }

    /// Returns the method in use, for the manifest.
    pub fn way(&self) -> &'static str {
        if self.direct { "direct" } else { "page cache" }
    }

    fn room(&self) -> usize {
        self.memory.len() - ALIGN
    }

    /// Writes the collected bytes; keeps the part of a last, partial 4 KiB, to write it again when it is complete.
    fn write_out(&mut self) -> io::Result<()> {
        if self.used == self.known {
            return Ok(());
        }
        let whole = self.used.next_multiple_of(ALIGN);
        let bytes = &mut self.memory[self.start..self.start + whole];
        bytes[self.used..].fill(0);
        self.file.write_all_at(bytes, self.offset)?;
        let done = self.used / ALIGN * ALIGN;
        bytes.copy_within(done..self.used, 0);
        self.used -= done;
        self.known = self.used;
        self.offset += done as u64;
        Ok(())
    }

    /// Writes the rest and truncates the file to its length.
    pub fn finish(mut self) -> io::Result<()> {
        self.write_out()?;
        self.file.set_len(self.offset + self.used as u64)
    }
}

impl Write for DirectFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.used == self.room() {
            self.write_out()?;
        }
        let take = bytes.len().min(self.room() - self.used);
        let at = self.start + self.used;
        self.memory[at..at + take].copy_from_slice(&bytes[..take]);
        self.used += take;
        Ok(take)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write_out()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// The file contains what was written; after a flush also before its end, followed by zeros.
        #[test]
        fn what_is_written_is_in_the_file(pieces in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..9000), any::<bool>()), 0..12)) {
            // Not on tmpfs, which always uses the page cache.
            let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a folder");
            let path = folder.path().join("x");
            let mut file = DirectFile::create(&path, 2 * ALIGN).expect("a file");
            let mut expected = Vec::new();
            for (piece, flush) in &pieces {
                file.write_all(piece).expect("written");
                expected.extend_from_slice(piece);
                if *flush {
                    file.flush().expect("flushed");
                    let mut found = std::fs::read(&path).expect("readable");
                    prop_assert_eq!(found.len(), expected.len().next_multiple_of(ALIGN));
                    prop_assert!(found.split_off(expected.len()).iter().all(|byte| *byte == 0));
                    prop_assert_eq!(&found, &expected);
                }
            }
            file.finish().expect("finished");
            prop_assert_eq!(std::fs::read(&path).expect("readable"), expected);
        }
    }
}
