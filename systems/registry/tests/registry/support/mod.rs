//! Code shared by the tests of layouts and dissector: packets made from layouts, and the output of the formats' own readers and of tshark.

#![allow(dead_code, reason = "not every test that includes this uses all of it")]

pub mod make;
pub mod parsed;
pub mod tshark;

use pktgen_wire::wire::layout::{Decoded, Read, Value};

/// Contents of a packet: names and values of its fields, those of its items, and the remaining bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Said {
    pub fields: Vec<(&'static str, Value)>,
    pub items: Vec<Vec<Value>>,
    /// Fields after the items.
    pub tail: Vec<(&'static str, Value)>,
    pub bytes: Vec<u8>,
}

/// Returns the contents by layout, without the fields that identify the message unless the format's reader returns them, too.
pub fn by_layout(decoded: &Decoded, like: &Said) -> Said {
    let known = |name: &str| decoded.message.when.iter().any(|(when, _)| *when == name);
    let wanted = |read: &&Read| {
        let name = read.placed.field.name;
        !known(name) || like.fields.iter().any(|(given, _)| *given == name)
    };
    let values = |item: &Vec<Read>| item.iter().map(|read| read.value).collect();
    let mut fields: Vec<_> =
        decoded.fields.iter().filter(wanted).map(|read| (read.placed.field.name, read.value)).collect();
    let tail = fields.split_off(fields.len() - decoded.message.tail.len());
    Said { fields, tail, items: decoded.items.iter().map(values).collect(), bytes: decoded.bytes.to_vec() }
}
