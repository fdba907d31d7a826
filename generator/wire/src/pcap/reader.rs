//! Reading captures packet by packet, in constant memory.

use std::io::Read;
use std::ops::Range;
use std::path::Path;

use super::classic::Classic;
use super::input::{Input, packing};
use super::ng::{Ng, SECTION};
use super::stamp::{Stamp, Ticks};
use crate::Result;
use crate::time::HORIZON;

/// A packet of a capture. Its bytes are valid until the next one is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Section of the file, from 0; joined pcapng files have several, each with its own interfaces.
    pub section: u32,
    /// Interface within the section.
    pub interface: u32,
    /// Link type of the bytes: [`super::ETHERNET`] for Ethernet.
    pub link_type: u16,
    /// Capture time; simple packet blocks have none.
    pub time: Option<Stamp>,
    /// Resolution of its time in ps; the time is rounded down.
    pub resolution_ps: u64,
    /// Its length on the wire; never less than the kept bytes.
    pub len: u32,
    /// The bytes that were kept.
    pub bytes: &'a [u8],
}

/// An interface at which packets were captured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name, if the file has it.
    pub name: String,
    /// Link type of its packets.
    pub link_type: u16,
    /// Maximum number of bytes kept of each packet; 0 for all.
    pub snap: u32,
    pub(super) ticks: Ticks,
    pub(super) offset_ps: i128,
}

impl Interface {
    pub(super) fn new(link_type: u16, snap: u32) -> Self {
        Interface { name: String::new(), link_type, snap, ticks: Ticks::MICRO, offset_ps: 0 }
    }
}

/// Position of a packet in the buffered input.
#[derive(Debug, PartialEq)]
pub(super) struct Found {
    pub(super) section: u32,
    pub(super) interface: u32,
    pub(super) link_type: u16,
    pub(super) time: Option<Stamp>,
    pub(super) resolution_ps: u64,
    pub(super) len: u32,
    /// Bytes of its record or block.
    pub(super) whole: usize,
    /// The packet's data within it.
    pub(super) bytes: Range<usize>,
}

impl Found {
    #[inline]
    fn packet(self, input: &mut Input) -> Packet<'_> {
        let Found { section, interface, link_type, time, resolution_ps, len, whole, bytes } = self;
        let bytes = input.take(whole, bytes);
        Packet { section, interface, link_type, time, resolution_ps, len: len.max(bytes.len() as u32), bytes }
    }
}

enum Format {
    Classic(Classic),
    Ng(Ng),
}

/// A capture being read. Packets before damage are returned, then one error with the byte offset.
pub struct Reader {
    input: Input,
    format: Format,
    over: bool,
}

/// Returns why a file with this beginning is not a capture, plain or compressed; `None` if it may be one, or for fewer than 4 bytes.
pub fn no_capture(head: &[u8]) -> Option<String> {
    let magic = *head.first_chunk::<4>()?;
    let is_one = u32::from_le_bytes(magic) == SECTION || Classic::begins(magic) || packing(head).is_some();
    (!is_one).then(|| unknown(magic))
}

fn unknown([a, b, c, d]: [u8; 4]) -> String {
    format!(
        "neither pcap nor pcapng, plain or packed by gzip or Zstandard: it begins with {a:02x} {b:02x} {c:02x} {d:02x}"
    )
}

impl Reader {
    /// Opens a capture of any form, detected from its first bytes.
    pub fn open(path: &Path) -> Result<Self> {
        Reader::over(Input::open(path)?)
    }

    /// Reads an uncompressed capture from any source; `name` stands for its path in messages.
    pub fn from_read(source: impl Read + Send + 'static, name: &Path) -> Result<Self> {
        Reader::over(Input::new(Box::new(source), name))
    }

    fn over(mut input: Input) -> Result<Self> {
        input.want(4)?;
        let Some(&magic) = input.held().first_chunk::<4>() else {
            let length = input.held().len();
            return Err(input.damage(0, format!("no capture fits in {length} bytes")));
        };
        let format = if u32::from_le_bytes(magic) == SECTION {
            Format::Ng(Ng::open(&mut input)?)
        } else if Classic::begins(magic) {
            Format::Classic(Classic::open(&mut input)?)
        } else {
            return Err(input.refusal(unknown(magic)));
        };
        Ok(Reader { input, format, over: false })
    }

    /// Returns the next packet; `None` at the end and after an error. Allocates only if a packet is larger than all before.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "a packet borrows the reader, which iterators cannot say")]
    pub fn next(&mut self) -> Result<Option<Packet<'_>>> {
        if self.over {
            return Ok(None);
        }
        // Separate per format: a common result would be copied once more.
        let end = match &mut self.format {
            Format::Classic(classic) => match classic.next(&mut self.input) {
                Ok(Some(found)) => return Ok(Some(found.packet(&mut self.input))),
                end => end,
            },
            Format::Ng(ng) => match ng.next(&mut self.input) {
                Ok(Some(found)) => return Ok(Some(found.packet(&mut self.input))),
                end => end,
            },
        };
        self.over = true;
        end.map(|_| None)
    }

    /// Returns the interfaces described so far in the current section; pcap has one, without a name.
    pub fn interfaces(&self) -> &[Interface] {
        match &self.format {
            Format::Classic(classic) => &classic.interface,
            Format::Ng(ng) => &ng.interfaces,
        }
    }

    /// Returns the origin of a run's times, in ns since 1970, where `first` is the time of the first packet: the anchor that our
    /// [`super::Writer`] noted in a pcapng file; else 1970, if `first` is within the 26 days after it that a run may last (no capture is
    /// that old: it is a run's own time, as written into pcap files with anchor 0); else `first` itself.
    pub fn anchor_unix_ns(&self, first: Stamp) -> u64 {
        if let Some(anchor) = self.noted_anchor_unix_ns() {
            return anchor;
        }
        match first.since(0) {
            Some(..=HORIZON) => 0,
            _ => u64::try_from(first.unix_ns()).unwrap_or(0),
        }
    }

    /// Returns the anchor noted by our writer, if there is one.
    pub fn noted_anchor_unix_ns(&self) -> Option<u64> {
        match &self.format {
            Format::Classic(_) => None,
            Format::Ng(ng) => ng.anchor_unix_ns,
        }
    }

    /// Whether sections so far have different anchors: they are of several runs.
    pub fn anchors_differ(&self) -> bool {
        matches!(&self.format, Format::Ng(ng) if ng.anchors_differ)
    }

    /// Returns the packets dropped at capture, as far as the file has stated them.
    pub fn dropped(&self) -> u64 {
        match &self.format {
            Format::Classic(_) => 0,
            Format::Ng(ng) => ng.dropped(),
        }
    }

    /// Returns the bytes read from the file so far: the progress, also for compressed files.
    pub fn bytes_read(&self) -> u64 {
        self.input.progress().0
    }

    /// Returns the size of the buffer.
    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        self.input.capacity()
    }

    /// Returns the length of the file; `None` for pipes.
    pub fn file_bytes(&self) -> Option<u64> {
        self.input.progress().1
    }
}
