//! SwitchML's packets as data, for the dissector and the docs.

use super::{PORT, WORKER_PORT};
use crate::wire::layout::{Count, Field, Layout, Message, PLAIN, Rest};

const VALUE: &[Field] = &[Field::int("value", 32, "Value")];

const fn values(count: usize) -> Rest {
    Rest::Items { name: "values", count: Count::Fixed(count), fields: VALUE }
}

pub(super) static LAYOUT: Layout = Layout {
    ports: &[(PORT, PORT + 15)],
    shared_ports: &[WORKER_PORT],
    telling: true,
    summary: &["job", "packet", "set", "slot", "exponent", "attempt"],
    head: &[
        Field::uint("type", 4, "Type: 1"),
        Field::uint("spare", 1, "Always 0"),
        Field::uint("size", 3, "How many values there are").named(&[(1, "64 values"), (3, "256 values")]),
        Field::uint("job", 8, "Low bits of the job's number"),
        Field::uint_little("packet", 32, "Number of the packet, which the switch echoes"),
        Field::uint("set", 1, "Which of the two sets of slots: the version bit"),
        Field::unused(1),
        Field::uint("slot", 14, "Slot in the set"),
        Field::int("exponent", 8, "Largest exponent of the values of the packet this one describes"),
        Field::int("attempt", 8, "Which transmission of the packet this is; 127 for all further ones"),
    ],
    rules: &[],
    messages: &[
        Message { name: "64 values", when: &[("type", 1), ("spare", 0), ("size", 1)], rest: values(64), ..PLAIN },
        Message { name: "256 values", when: &[("type", 1), ("spare", 0), ("size", 3)], rest: values(256), ..PLAIN },
    ],
};
