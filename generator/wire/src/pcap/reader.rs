//! Reading captures: one packet after the other, in flat memory.

use std::io::Read;
use std::ops::Range;
use std::path::Path;

use super::classic::Classic;
use super::input::{Input, PACKED};
use super::ng::{Ng, SECTION};
use super::stamp::{Stamp, Ticks};
use crate::Result;
use crate::time::HORIZON;

/// A packet of a capture. Its bytes stay until the next one is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Section of the file, from 0; pcapng files that were joined have several, each with interfaces of its own.
    pub section: u32,
    /// Interface within the section.
    pub interface: u32,
    /// What the bytes begin with: [`super::ETHERNET`] for Ethernet.
    pub link_type: u16,
    /// When it was captured; simple packet blocks do not say.
    pub time: Option<Stamp>,
    /// Resolution of its time, which is rounded down, in ps.
    pub resolution_ps: u64,
    /// Its length on the wire; never less than what was kept.
    pub len: u32,
    /// What was kept of it.
    pub bytes: &'a [u8],
}

/// Where packets were captured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name, if the file says it.
    pub name: String,
    /// What its packets begin with.
    pub link_type: u16,
    /// So many bytes were kept of each packet; 0 for all.
    pub snap: u32,
    pub(super) ticks: Ticks,
    pub(super) offset_ps: i128,
}

impl Interface {
    pub(super) fn new(link_type: u16, snap: u32) -> Self {
        Interface { name: String::new(), link_type, snap, ticks: Ticks::MICRO, offset_ps: 0 }
    }
}

/// A packet's place in what the input holds.
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
    /// The packet's own among them.
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

/// A capture being read. What comes before damage is given out, then one error that names the byte.
pub struct Reader {
    input: Input,
    format: Format,
    over: bool,
}

/// Why a file that begins so is no capture, plain or packed; none where it may be one, or too few bytes say nothing.
pub fn no_capture(head: &[u8]) -> Option<String> {
    let magic = *head.first_chunk::<4>()?;
    let packed = PACKED.iter().any(|packed| head.starts_with(packed));
    let is_one = u32::from_le_bytes(magic) == SECTION || Classic::begins(magic) || packed;
    (!is_one).then(|| unknown(magic))
}

fn unknown([a, b, c, d]: [u8; 4]) -> String {
    format!(
        "neither pcap nor pcapng, plain or packed by gzip or Zstandard: it begins with {a:02x} {b:02x} {c:02x} {d:02x}"
    )
}

impl Reader {
    /// Opens a capture of any form; what it is, its first bytes say.
    pub fn open(path: &Path) -> Result<Self> {
        Reader::over(Input::open(path)?)
    }

    /// Reads a capture from anything, uncompressed; `name` stands for its path in messages.
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

    /// The next packet; none at the end, and after an error. Allocates nothing, unless a packet is larger than all before.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "a packet borrows the reader, which iterators cannot say")]
    pub fn next(&mut self) -> Result<Option<Packet<'_>>> {
        if self.over {
            return Ok(None);
        }
        // Each format for itself: what comes from either of two is copied once more.
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

    /// Interfaces described so far in the present section; pcap has one, without a name.
    pub fn interfaces(&self) -> &[Interface] {
        match &self.format {
            Format::Classic(classic) => &classic.interface,
            Format::Ng(ng) => &ng.interfaces,
        }
    }

    /// From when times of a run count, in ns since 1970, `first` being the time of the first packet: what our own
    /// [`super::Writer`] noted in a pcapng file; 1970, if `first` is within the 26 days after it that a run may last (no capture is from
    /// then: it is a run's own time, as written into pcap files with anchor 0); else `first` itself.
    pub fn anchor_unix_ns(&self, first: Stamp) -> u64 {
        if let Some(anchor) = self.noted_anchor_unix_ns() {
            return anchor;
        }
        match first.since(0) {
            Some(..=HORIZON) => 0,
            _ => u64::try_from(first.unix_ns()).unwrap_or(0),
        }
    }

    /// The anchor that our own writer noted, if it did.
    pub fn noted_anchor_unix_ns(&self) -> Option<u64> {
        match &self.format {
            Format::Classic(_) => None,
            Format::Ng(ng) => ng.anchor_unix_ns,
        }
    }

    /// Packets that were dropped where the capture was made, as far as the file has said so.
    pub fn dropped(&self) -> u64 {
        match &self.format {
            Format::Classic(_) => 0,
            Format::Ng(ng) => ng.dropped(),
        }
    }

    /// Bytes read of the file so far: for progress, also of compressed files.
    pub fn bytes_read(&self) -> u64 {
        self.input.progress().0
    }

    /// Bytes of memory that hold the file's.
    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        self.input.capacity()
    }

    /// Length of the file; none for pipes.
    pub fn file_bytes(&self) -> Option<u64> {
        self.input.progress().1
    }
}
