//! Packets at the server as pcapng with nanosecond timestamps.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use pktgen_generator::time::{NS, Time};
use pktgen_generator::{Error, Result};

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;

/// A capture that is being written.
pub(super) struct Pcapng {
    path: PathBuf,
    out: BufWriter<File>,
    anchor_ns: u64,
}

impl Pcapng {
    /// Times of packets count from here, in ns since 1970.
    pub(super) fn set_anchor(&mut self, anchor_ns: u64) {
        self.anchor_ns = anchor_ns;
    }

    /// Creates the file; times count from `anchor_ns`, ns since 1970.
    pub(super) fn create(path: &Path, anchor_ns: u64) -> Result<Self> {
        let file = File::create(path).map_err(Error::io("create", path))?;
        let mut capture = Pcapng { path: path.to_owned(), out: BufWriter::new(file), anchor_ns };
        // Byte-order magic, version 1.0, section length unknown.
        let mut body = 0x1a2b_3c4du32.to_le_bytes().to_vec();
        body.extend([1, 0, 0, 0]);
        body.extend(u64::MAX.to_le_bytes());
        capture.block(SECTION, &body)?;
        // Ethernet, no snapping; option 9 (resolution): 10⁻⁹ s; end of options.
        capture.block(INTERFACE, &[1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0])?;
        Ok(capture)
    }

    fn block(&mut self, kind: u32, body: &[u8]) -> Result<()> {
        let padded = body.len().next_multiple_of(4);
        let length = (12 + padded as u32).to_le_bytes();
        let padding = [0u8; 3];
        let parts = [&kind.to_le_bytes()[..], &length, body, &padding[..padded - body.len()], &length];
        for part in parts {
            self.out.write_all(part).map_err(Error::io("write", &self.path))?;
        }
        Ok(())
    }

    /// Appends a frame that arrived at `t`.
    pub(super) fn packet(&mut self, t: Time, frame: &[u8]) -> Result<()> {
        self.cut_packet(t, frame, frame.len() as u32)
    }

    /// Appends the first bytes of a frame that had `len`.
    pub(super) fn cut_packet(&mut self, t: Time, kept: &[u8], len: u32) -> Result<()> {
        let stamp = self.anchor_ns + (t / NS) as u64;
        let mut body = Vec::with_capacity(20 + kept.len());
        body.extend(0u32.to_le_bytes());
        body.extend(((stamp >> 32) as u32).to_le_bytes());
        body.extend((stamp as u32).to_le_bytes());
        body.extend((kept.len() as u32).to_le_bytes());
        body.extend(len.to_le_bytes());
        body.extend(kept);
        self.block(PACKET, &body)
    }

    /// Writes what is buffered.
    pub(super) fn finish(mut self) -> Result<()> {
        self.out.flush().map_err(Error::io("write", &self.path))
    }
}
