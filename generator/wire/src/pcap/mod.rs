//! Capture files: pcap and pcapng, read and written.
//!
//! [`Writer`] writes what a run saw; [`Reader`] reads captures of any tool, in flat memory, up to the first damage.
//! The transport over files (replay) and the analysis of plain captures use both.
//!
//! Written here and not taken from a crate, since neither of the two kept ones gives all of this: `pcap-file` (2.0 and
//! 3.0-rc) keeps times as unsigned nanoseconds, so finer ones and negative offsets are lost, and ends with a bare "unexpected end" at
//! blocks over 8 MB; `pcap-parser` gives times as 32-bit seconds or as floats, knows no obsolete packet block, and both make a list of
//! options for every packet that has some.
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

pub use reader::{Interface, Packet, Reader, no_capture};
pub use stamp::Stamp;
pub use writer::{Drops, Form, Precision, Writer, WriterOptions};

/// Link type of Ethernet.
pub const ETHERNET: u16 = 1;

/// Largest packet or block that is kept in memory, in bytes. What claims to be larger is damage; blocks that are
/// skipped may have any size.
pub const BLOCK_MAX: usize = 16 << 20;
