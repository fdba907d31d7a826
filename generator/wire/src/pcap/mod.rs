//! Capture files: pcap and pcapng, read and written.
//!
//! [`Writer`] writes the packets of a run; [`Reader`] reads captures of any tool, in constant memory, up to the first damage.
//! The transport over files (replay) and the analysis of plain captures use both.
//!
//! Implemented here because neither of the two maintained crates has all of this: `pcap-file` (2.0 and 3.0-rc) stores
//! times as unsigned nanoseconds, which loses finer ones and negative offsets, and ends with a bare "unexpected end" at
//! blocks over 8 MB; `pcap-parser` returns times as 32-bit seconds or as floats, lacks the obsolete packet block, and
//! both allocate a list of options for every packet that has some.
//!
//! | | read | written |
//! | --- | --- | --- |
//! | pcap | either byte order, micro- or nanoseconds | little-endian, micro- or nanoseconds |
//! | pcapng | either byte order, sections, interfaces, any resolution and offset; enhanced, simple and obsolete packet blocks | little-endian, micro- or nanoseconds, several interfaces |
//! | gzip, Zstandard | around either, known by their first bytes | no |

mod classic;
mod input;
mod ng;
mod reader;
mod stamp;
mod writer;

#[cfg(test)]
mod encode;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tool_tests;

pub use input::{PACKED, packing};
pub use reader::{Interface, Packet, Reader, no_capture};
pub use stamp::Stamp;
pub use writer::{Drops, Form, Precision, Writer, WriterOptions};

/// Link type of Ethernet.
pub const ETHERNET: u16 = 1;

/// Largest packet or block that is kept in memory, in bytes. Larger ones count as damage; skipped blocks may have any size.
pub const BLOCK_MAX: usize = 16 << 20;
