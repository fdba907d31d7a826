//! pcap: a header of 24 bytes, then records of one packet each.

use super::BLOCK_MAX;
use super::input::{Input, Order};
use super::reader::{Found, Interface};
use super::stamp::Ticks;
use crate::Result;

/// Timestamps in microseconds.
pub(super) const MAGIC_MICRO: u32 = 0xa1b2_c3d4;
/// Timestamps in nanoseconds.
pub(super) const MAGIC_NANO: u32 = 0xa1b2_3c4d;
/// Records with additional fields, by an old patch of one tool; refused by name.
const MAGIC_MODIFIED: u32 = 0xa1b2_cd34;
/// Bytes of the file header.
pub(super) const HEAD: usize = 24;
/// Bytes of a record header.
pub(super) const RECORD: usize = 16;

/// A pcap file being read.
pub(super) struct Classic {
    order: Order,
    fraction: Ticks,
    pub(super) interface: [Interface; 1],
}

impl Classic {
    /// Returns whether a pcap file begins with these bytes.
    pub(super) fn begins(magic: [u8; 4]) -> bool {
        [u32::from_le_bytes(magic), u32::from_be_bytes(magic)]
            .iter()
            .any(|magic| [MAGIC_MICRO, MAGIC_NANO, MAGIC_MODIFIED].contains(magic))
    }

    /// Reads the file header.
    pub(super) fn open(input: &mut Input) -> Result<Self> {
        let have = input.want(HEAD)?;
        if have < HEAD {
            return Err(input.damage(0, format!("a pcap file starts with {HEAD} bytes, and this one has {have}")));
        }
        let head = input.held();
        let little = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
        let order =
            if [MAGIC_MICRO, MAGIC_NANO, MAGIC_MODIFIED].contains(&little) { Order::Little } else { Order::Big };
        let fraction = match order.u32(head, 0) {
            MAGIC_MICRO => Ticks::MICRO,
            MAGIC_NANO => Ticks::NANO,
            _ => {
                return Err(input
                    .refusal("\"modified\" pcap (magic a1b2cd34) is not read; editcap -F pcap makes it plain".into()));
            }
        };
        let version = (order.u16(head, 4), order.u16(head, 6));
        if version.0 != 2 {
            return Err(input.refusal(format!("pcap version {}.{} is not read; 2.x is", version.0, version.1)));
        }
        // The upper half of the last word is about the FCS.
        let link_type = order.u32(head, 20) as u16;
        let interface = [Interface::new(link_type, order.u32(head, 16))];
        input.pass(HEAD);
        Ok(Classic { order, fraction, interface })
    }

    /// Reads the next record.
    #[inline]
    pub(super) fn next(&self, input: &mut Input) -> Result<Option<Found>> {
        let have = input.want(RECORD)?;
        if have < RECORD {
            return match have {
                0 => Ok(None),
                _ => Err(input.damage(
                    input.offset(),
                    format!("a packet's head has {RECORD} bytes, and the file ends after {have} of them"),
                )),
            };
        }
        // One bounds check for all four fields.
        let Some(head) = input.held().first_chunk::<RECORD>() else { return Ok(None) };
        let field = |at: usize| self.order.u32(head, at);
        let (seconds, fraction, kept, len) = (field(0), field(4), field(8) as usize, field(12));
        if kept > BLOCK_MAX {
            let what = format!("a packet of {kept} bytes; at most {BLOCK_MAX} are believed");
            return Err(input.damage(input.offset(), what));
        }
        let whole = RECORD + kept;
        let have = input.want(whole)?;
        if have < whole {
            let what = format!("a packet's record has {whole} bytes, and the file ends after {have} of them");
            return Err(input.damage(input.offset(), what));
        }
        let seconds = i128::from(seconds) * i128::from(crate::time::SECOND);
        Ok(Some(Found {
            section: 0,
            interface: 0,
            link_type: self.interface[0].link_type,
            time: Some(self.fraction.stamp(fraction.into(), seconds)),
            resolution_ps: self.fraction.ps(),
            len,
            whole,
            bytes: RECORD..whole,
        }))
    }
}
