//! ATP's packets as data, for the dissector and the docs: what stands behind IPv4.

use super::ELEMENTS;
use crate::wire::layout::{Count, Field, Layout, Message, PLAIN, Rest};

const fn values(fields: &'static [Field]) -> Rest {
    Rest::Items { name: "values", count: Count::Fixed(ELEMENTS), fields }
}

const TAIL: &[Field] = &[
    Field::uint_little("key_low", 32, "Key of the tensor, its lower half"),
    Field::uint_little("key_high", 32, "Key of the tensor, its upper half"),
    Field::uint("tensor", 32, "Elements of the tensor"),
];

pub(super) static LAYOUT: Layout = Layout {
    ports: &[],
    shared_ports: &[],
    telling: false,
    summary: &["app", "seq", "workers", "aggregator", "resent", "collision", "ecn", "ack"],
    head: &[
        Field::uint("bitmap", 32, "One bit per host that has contributed"),
        Field::uint("workers", 8, "Contributions that complete an aggregate"),
        Field::flag("overflow", "Values are raw floats, in the byte order of the host"),
        Field::uint("server", 2, "Which parameter server"),
        Field::flag("second_half", "Which half of the values a pass is at"),
        Field::flag("ecn", "Congestion was seen"),
        Field::flag("resent", "Sent again"),
        Field::flag("collision", "Another packet had its aggregator: not summed"),
        Field::flag("ack", "From the parameter server"),
        Field::uint("app", 16, "Job"),
        Field::uint("seq", 16, "Number at the job, from 1 on"),
        Field::uint("aggregator", 16, "Aggregator of the first half"),
        Field::uint("second", 16, "Aggregator of the second half"),
    ],
    rules: &[],
    messages: &[
        Message {
            name: "integers",
            when: &[("overflow", 0)],
            rest: values(&[Field::int("value", 32, "Value, in millionths")]),
            tail: TAIL,
            ..PLAIN
        },
        Message {
            name: "floats",
            when: &[("overflow", 1)],
            rest: values(&[Field::float_little("raw", "Value as it was")]),
            tail: TAIL,
            ..PLAIN
        },
    ],
};
