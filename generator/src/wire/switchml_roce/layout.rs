//! SwitchML over RoCEv2 as data, for the dissector and the docs.

use super::{P_KEY, PORT, Part, VALUES_MAX};
use crate::wire::layout::{Count, Field, Layout, Message, PLAIN, Rest};

const HEAD: &[Field] = &[
    Field::uint("opcode", 8, "Which part of a message").named(&[
        (0x26, "first"),
        (0x27, "middle"),
        (0x28, "last"),
        (0x29, "last with immediate"),
        (0x2a, "only"),
        (0x2b, "only with immediate"),
    ]),
    Field::flag("solicited", "Solicited event"),
    Field::flag("migration", "MigReq: the switch sets it"),
    Field::uint("padding", 2, "Bytes of padding: 0"),
    Field::uint("version", 4, "Version of the transport: 0"),
    Field::uint("p_key", 16, "Partition: 65535"),
    Field::flag("fecn", "Congestion, forward"),
    Field::flag("becn", "Congestion, backward"),
    Field::unused(6),
    Field::uint("pair", 24, "Queue pair: to the switch worker (bits 20-16) and pair"),
    Field::flag("acknowledge", "An acknowledgement is asked for"),
    Field::unused(7),
    Field::uint("psn", 24, "Number of the packet"),
];

const TARGET: &[Field] = &[
    Field::uint("address", 64, "Where the reply lands"),
    Field::uint("key", 32, "To the switch slot and set: 2 slot + set; back the worker's key"),
    Field::uint("length", 32, "Bytes of the message"),
];

const IMMEDIATE: &[Field] = &[
    Field::uint_little("message", 16, "The worker's number of the message"),
    Field::int("e0", 8, "Largest exponent"),
    Field::int("e1", 8, "Second exponent"),
];

const VALUES: Rest =
    Rest::Items { name: "values", count: Count::ToEnd(VALUES_MAX), fields: &[Field::int("value", 32, "Value")] };

const TAIL: &[Field] =
    &[Field::uint_little("icrc", 32, "Invariant CRC; the switch neither checks it nor makes it anew")];

const fn when(part: Part) -> &'static [(&'static str, u64)] {
    macro_rules! conditions {
        ($opcode:expr) => {
            &[("opcode", $opcode), ("padding", 0), ("version", 0), ("p_key", P_KEY as u64)]
        };
    }
    match part {
        Part::First => conditions!(0x26),
        Part::Middle => conditions!(0x27),
        Part::Last => conditions!(0x28),
        Part::LastImmediate => conditions!(0x29),
        Part::Only => conditions!(0x2a),
        Part::OnlyImmediate => conditions!(0x2b),
    }
}

const fn message(name: &'static str, part: Part, groups: &'static [&'static [Field]]) -> Message {
    Message { name, when: when(part), groups, rest: VALUES, tail: TAIL, ..PLAIN }
}

pub(super) static LAYOUT: Layout = Layout {
    ports: &[],
    // The port is RoCEv2's: what is not surely SwitchML's is left to whoever reads InfiniBand.
    shared_ports: &[PORT],
    telling: true,
    summary: &["pair", "psn", "key", "length", "message", "e0"],
    head: HEAD,
    rules: &[],
    messages: &[
        message("first", Part::First, &[TARGET]),
        message("middle", Part::Middle, &[]),
        message("last", Part::Last, &[]),
        message("last with immediate", Part::LastImmediate, &[IMMEDIATE]),
        message("only", Part::Only, &[TARGET]),
        message("only with immediate", Part::OnlyImmediate, &[TARGET, IMMEDIATE]),
    ],
};
