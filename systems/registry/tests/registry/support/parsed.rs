//! Contents of a payload according to the formats' own readers.

use pktgen_registry::all;

use super::Said;

/// Returns the contents according to the reader of `format`; none if it refuses the payload.
pub fn parsed(format: &str, payload: &[u8]) -> Option<Said> {
    let of = all().protocols.formats.iter().find(|of| of.name() == format).expect("a format");
    let mut packet = of.read(payload)?;
    let tail = packet.fields.split_off(packet.fields.len() - of.layout().messages[0].tail.len());
    Some(Said { fields: packet.fields, items: packet.items, tail, bytes: packet.bytes })
}
