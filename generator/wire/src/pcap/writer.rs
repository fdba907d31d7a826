//! Writing captures.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use super::classic::{MAGIC_MICRO, MAGIC_NANO, RECORD};
use super::ng::{
    ANCHOR, COMMENT, DROPPED_BY_HOST, DROPPED_BY_INTERFACE, IF_NAME, IF_RESOLUTION, INTERFACE, NO_ANCHOR, ORDER_MAGIC,
    PACKET, REMAINDER, REMAINDER_OWNER, SECTION, STATISTICS,
};
use super::{BLOCK_MAX, ETHERNET};
use crate::record::{FileDigest, Hashing};
use crate::time::{NS, Time};
use crate::{Error, Result};

/// Size of the write buffer, in bytes.
const BUFFER: usize = 256 << 10;
/// Snap length in pcap files with whole packets: the maximum that libpcap accepts.
const SNAP_MAX: u32 = 262_144;
/// Bytes before a packet's data in its pcapng block.
const PACKET_HEAD: usize = 28;

/// Bytes of the option for picoseconds, including the end of options.
const REMAINDER_BYTES: usize = 16;

/// A form of capture files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// pcap: readable by every tool; one interface, no notes.
    Pcap,
    /// pcapng: interfaces with names, and a note of the run's anchor.
    Pcapng,
}

/// Resolution of times in a file. Finer parts are cut off, or stored separately ([`WriterOptions::remainders`]).
/// Limited to nanoseconds: tshark 4.0 misreads picoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// 10⁻⁶ s.
    Micro,
    /// 10⁻⁹ s.
    Nano,
}

/// Options of a capture to be written.
#[derive(Debug, Clone)]
pub struct WriterOptions {
    /// pcap or pcapng.
    pub form: Form,
    /// Resolution of times.
    pub precision: Precision,
    /// Maximum number of bytes kept of each packet, besides its length; 0 for all.
    pub snap: u32,
    /// Origin of times, in ns since 1970.
    pub anchor_unix_ns: u64,
    /// Whether to note the anchor in pcapng files: generation times in packets are relative to it, too.
    pub noted: bool,
    /// Names of the interfaces; pcap has one and cannot store its name.
    pub interfaces: Vec<String>,
    /// Whether to store the picoseconds of a packet's time beyond nanoseconds in a custom option, in pcapng files: our
    /// reader adds them, other readers see nanoseconds.
    pub remainders: bool,
    /// Whether to hash the output, for [`Writer::finish`].
    pub hashed: bool,
}

impl WriterOptions {
    /// Options for whole packets of one interface, in nanoseconds.
    pub fn new(form: Form) -> Self {
        let interfaces = vec![String::new()];
        WriterOptions {
            form,
            precision: Precision::Nano,
            snap: 0,
            anchor_unix_ns: 0,
            noted: true,
            interfaces,
            remainders: false,
            hashed: false,
        }
    }

    fn check(&self, path: &Path) -> Result<()> {
        if self.form == Form::Pcap && self.interfaces.len() != 1 {
            return Err(Error::config(format!(
                "{}: pcap keeps one interface, and {} were asked for; write pcapng",
                path.display(),
                self.interfaces.len(),
            )));
        }
        if self.interfaces.is_empty() || self.interfaces.iter().any(|name| name.len() > 1024) {
            let path = path.display();
            return Err(Error::config(format!(
                "{path}: an interface or more, with names of at most 1024 bytes, is needed"
            )));
        }
        Ok(())
    }
}

/// A capture being written: Ethernet, little-endian. Allocates nothing per packet.
///
/// Buffered data are written on drop, but only [`Writer::finish`] and [`Writer::flush`] report failures.
pub struct Writer {
    out: BufWriter<Hashing<Box<dyn Write + Send>>>,
    path: PathBuf,
    options: WriterOptions,
    /// Bytes kept of each packet.
    keep: usize,
    /// Whether the file header is written.
    begun: bool,
    /// Whether a section has a note of its anchor.
    has_note: bool,
}

impl Writer {
    /// Creates the file, or replaces it.
    pub fn create(path: &Path, options: WriterOptions) -> Result<Self> {
        options.check(path)?;
        let file = File::create(path).map_err(Error::io("create", path))?;
        Writer::new(Box::new(file), path, options)
    }

    /// Creates the file, which must not exist.
    pub fn create_new(path: &Path, options: WriterOptions) -> Result<Self> {
        options.check(path)?;
        let file = File::create_new(path).map_err(Error::io("create", path))?;
        Writer::new(Box::new(file), path, options)
    }

    /// Writes to any sink; `name` stands for its path in messages.
    pub fn new(out: Box<dyn Write + Send>, name: &Path, options: WriterOptions) -> Result<Self> {
        options.check(name)?;
        let out = if options.hashed { Hashing::new(out) } else { Hashing::pass(out) };
        let keep = if options.snap == 0 { BLOCK_MAX - 64 } else { (options.snap as usize).min(BLOCK_MAX - 64) };
        Ok(Writer {
            out: BufWriter::with_capacity(BUFFER, out),
            path: name.to_owned(),
            options,
            keep,
            begun: false,
            has_note: false,
        })
    }

    /// Sets the origin of all further times, in ns since 1970. A pcapng file that already has packets gets a new
    /// section, so that its note remains correct; one that is not noted takes the note of sections before it back.
    pub fn set_anchor(&mut self, anchor_unix_ns: u64, noted: bool) {
        self.options.anchor_unix_ns = anchor_unix_ns;
        self.options.noted &= noted;
        self.begun &= self.options.form == Form::Pcap;
    }

    /// Appends a packet of `len` bytes, of which `bytes` were kept, captured at `t` since the anchor.
    #[inline]
    pub fn packet(&mut self, interface: u32, t: Time, bytes: &[u8], len: u32) -> Result<()> {
        let ticks =
            self.ticks(t).ok_or_else(|| self.unfit(format_args!("{t} ps after {} ns", self.options.anchor_unix_ns)))?;
        let nano = self.options.precision == Precision::Nano;
        let beyond = if self.options.remainders && nano { t.rem_euclid(NS) as u32 } else { 0 };
        self.append(interface, ticks, beyond, bytes, len)
    }

    /// Appends a packet captured at `unix_ns`, in ns since 1970, whatever the anchor is.
    #[inline]
    pub fn packet_at(&mut self, interface: u32, unix_ns: u64, bytes: &[u8], len: u32) -> Result<()> {
        let ticks = if self.options.precision == Precision::Micro { unix_ns / 1000 } else { unix_ns };
        self.append(interface, ticks, 0, bytes, len)
    }

    /// Appends a packet captured at `ticks` of the file since 1970 and `beyond` ps.
    #[inline]
    fn append(&mut self, interface: u32, ticks: u64, beyond: u32, bytes: &[u8], len: u32) -> Result<()> {
        if !self.begun {
            self.begin()?;
        }
        let bytes = &bytes[..bytes.len().min(self.keep)];
        let kept = bytes.len() as u32;
        self.make_room(PACKET_HEAD + bytes.len() + 3 + REMAINDER_BYTES + 4)?;
        match self.options.form {
            Form::Pcap => {
                let parts = if self.options.precision == Precision::Micro { 1_000_000 } else { 1_000_000_000 };
                let seconds =
                    u32::try_from(ticks / parts).map_err(|_| self.unfit(format_args!("{ticks}/{parts} s")))?;
                let head: [u8; RECORD] = words([seconds, (ticks % parts) as u32, kept, len]);
                self.put(&head)?;
                self.put(bytes)
            }
            Form::Pcapng => {
                if interface as usize >= self.options.interfaces.len() {
                    let known = self.options.interfaces.len();
                    return Err(Error::data(
                        &self.path,
                        format!("a packet of interface {interface}; there are {known}"),
                    ));
                }
                let padding = bytes.len().next_multiple_of(4) - bytes.len();
                let options = if beyond > 0 { REMAINDER_BYTES } else { 0 };
                let length = (PACKET_HEAD + bytes.len() + padding + options + 4) as u32;
                let (high, low) = ((ticks >> 32) as u32, ticks as u32);
                let head: [u8; PACKET_HEAD] = words([PACKET, length, interface, high, low, kept, len]);
                self.put(&head)?;
                self.put(bytes)?;
                self.put(&[0; 3][..padding])?;
                if beyond > 0 {
                    // Code and length, owner, value; then the end of options.
                    let head = u32::from(REMAINDER) | 8 << 16;
                    self.put(&words::<REMAINDER_BYTES, 4>([head, REMAINDER_OWNER, beyond, 0]))?;
                }
                self.put(&length.to_le_bytes())
            }
        }
    }

    /// Converts a time to ticks of the file; `None` before 1970, or if it does not fit.
    #[inline]
    fn ticks(&self, t: Time) -> Option<u64> {
        let ns = self.options.anchor_unix_ns.checked_add_signed(t.div_euclid(NS))?;
        Some(if self.options.precision == Precision::Micro { ns / 1000 } else { ns })
    }

    #[cold]
    fn unfit(&self, time: std::fmt::Arguments<'_>) -> Error {
        let what = format!("a time of {time} since 1970 cannot be written in this form and precision");
        Error::data(&self.path, what)
    }

    /// Writes buffered data if a block of at most `bytes` does not fit behind them: files of a killed process end with a whole one.
    #[inline]
    fn make_room(&mut self, bytes: usize) -> Result<()> {
        if self.out.capacity() - self.out.buffer().len() < bytes {
            self.out.flush().map_err(Error::io("write", &self.path))?;
        }
        Ok(())
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(|e| Error::io("write", &self.path)(e))
    }

    /// Writes the file header.
    #[cold]
    fn begin(&mut self) -> Result<()> {
        self.begun = true;
        let snap = self.options.snap;
        match self.options.form {
            Form::Pcap => {
                let magic = if self.options.precision == Precision::Micro { MAGIC_MICRO } else { MAGIC_NANO };
                let snap = if snap == 0 { SNAP_MAX } else { snap };
                // Version 2.4; times are UTC.
                let head: [u8; 24] = words([magic, 2 | 4 << 16, 0, 0, snap, u32::from(ETHERNET)]);
                self.put(&head)
            }
            Form::Pcapng => {
                // Version 1.0; length of the section unknown.
                let mut body = words::<16, 4>([ORDER_MAGIC, 1, u32::MAX, u32::MAX]).to_vec();
                let anchor = self.options.anchor_unix_ns;
                let note = match (self.options.noted, self.has_note) {
                    (true, _) => Some(format!("{ANCHOR}{anchor}: the run's times count from here")),
                    (false, true) => Some(format!("{ANCHOR}{NO_ANCHOR}: the times of a run do not count from here")),
                    (false, false) => None,
                };
                if let Some(note) = note {
                    option(&mut body, COMMENT, note.as_bytes());
                    option(&mut body, 0, &[]);
                }
                self.has_note |= self.options.noted;
                self.block(SECTION, &body)?;
                for index in 0..self.options.interfaces.len() {
                    let body = self.interface(index);
                    self.block(INTERFACE, &body)?;
                }
                Ok(())
            }
        }
    }

    fn interface(&self, index: usize) -> Vec<u8> {
        let mut body = words::<8, 2>([u32::from(ETHERNET), self.options.snap]).to_vec();
        let name = &self.options.interfaces[index];
        if !name.is_empty() {
            option(&mut body, IF_NAME, name.as_bytes());
        }
        let digits = if self.options.precision == Precision::Micro { 6 } else { 9 };
        option(&mut body, IF_RESOLUTION, &[digits]);
        option(&mut body, 0, &[]);
        body
    }

    fn block(&mut self, kind: u32, body: &[u8]) -> Result<()> {
        let length = 12 + body.len() as u32;
        self.make_room(length as usize)?;
        self.put(&words::<8, 2>([kind, length]))?;
        self.put(body)?;
        self.put(&length.to_le_bytes())
    }

    /// Writes buffered data; also writes the file header of a file without packets.
    pub fn flush(&mut self) -> Result<()> {
        if !self.begun {
            self.begin()?;
        }
        self.out.flush().map_err(Error::io("write", &self.path))
    }

    /// Writes buffered data and ends the file. Returns the digest of the file if it was hashed.
    pub fn finish(mut self) -> Result<Option<FileDigest>> {
        self.flush()?;
        Ok(self.out.get_mut().digest())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // `finish` returns failures.
        let _ = self.flush();
    }
}

/// Packets of the first interface that were dropped before they reached a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drops {
    /// Time of the count, in ns since 1970.
    pub unix_ns: u64,
    /// Dropped by the interface.
    pub by_interface: u64,
    /// Dropped by the host, after the interface.
    pub by_host: u64,
}

impl Drops {
    /// Appends the counts as statistics to a pcapng file of a [`Writer`] that has finished, with times in ns.
    pub fn append_to(self, path: &Path) -> Result<()> {
        let mut body = words::<12, 3>([0, (self.unix_ns >> 32) as u32, self.unix_ns as u32]).to_vec();
        option(&mut body, DROPPED_BY_INTERFACE, &self.by_interface.to_le_bytes());
        option(&mut body, DROPPED_BY_HOST, &self.by_host.to_le_bytes());
        option(&mut body, 0, &[]);
        let length = 12 + body.len() as u32;
        let block = [&words::<8, 2>([STATISTICS, length])[..], &body, &length.to_le_bytes()].concat();
        let appended = File::options().append(true).open(path).and_then(|mut file| file.write_all(&block));
        appended.map_err(Error::io("write", path))
    }
}

/// Encodes words in the files' byte order.
#[inline]
fn words<const BYTES: usize, const WORDS: usize>(words: [u32; WORDS]) -> [u8; BYTES] {
    const { assert!(BYTES == 4 * WORDS) };
    let mut bytes = [0; BYTES];
    bytes.chunks_exact_mut(4).zip(words).for_each(|(to, word)| to.copy_from_slice(&word.to_le_bytes()));
    bytes
}

/// Appends an option to a block's body.
fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}
