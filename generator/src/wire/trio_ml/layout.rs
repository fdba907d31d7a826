//! Trio-ML's packets as data, for the dissector and the docs.

use super::{PADDED, PORT};
use crate::wire::layout::{After, Count, Field, Layout, Message, PLAIN, Rest};

pub(super) static LAYOUT: Layout = Layout {
    ports: &[(PORT, PORT)],
    shared_ports: &[],
    telling: false,
    summary: &["job", "block", "generation", "source", "sources", "elements", "final", "degraded"],
    head: &[
        Field::uint("job", 8, "Aggregation job"),
        Field::uint("block", 32, "Block: a part of the model that fits a packet"),
        Field::uint("age_op", 4, "Has the block aged out?").named(&[(0, "none"), (1, "aged"), (2, "straggler")]),
        Field::flag("final", "It is the last block of the model"),
        Field::flag("degraded", "The sum is that of some of the sources only"),
        Field::unused(2),
        Field::uint("source", 8, "Who sent it; in a Result whose packet opened the block's record"),
        Field::uint("sources", 8, "Sources that the content represents"),
        Field::uint("generation", 16, "Iteration, modulo 65536"),
        Field::unused(4),
        Field::uint("elements", 12, "Gradients that follow"),
    ],
    rules: &[],
    messages: &[Message {
        name: "gradients",
        rest: Rest::Items {
            name: "gradients",
            count: Count::Field("elements"),
            fields: &[Field::int("gradient", 32, "Gradient")],
        },
        after: After::PaddingTo(PADDED),
        ..PLAIN
    }],
};
