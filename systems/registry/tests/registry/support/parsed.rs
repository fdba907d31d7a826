//! What the formats' own readers say of a payload.

use pktgen_registry::all;

use super::Said;

/// What the reader of `format` says; none if it refuses the payload.
pub fn parsed(format: &str, payload: &[u8]) -> Option<Said> {
    let of = all().protocols.formats.iter().find(|of| of.name() == format).expect("a format");
    let mut packet = of.read(payload)?;
    let tail = packet.fields.split_off(packet.fields.len() - of.layout().messages[0].tail.len());
    Some(Said { fields: packet.fields, items: packet.items, tail, bytes: packet.bytes })
}
