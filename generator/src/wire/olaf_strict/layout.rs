//! OLAF's packets without a header of ours as data, for the dissector and the docs.

use super::{PORT, WORKER_PORT};
use crate::wire::layout::{Count, Field, Layout, Message, PLAIN, Rest};

const fn floats(name: &'static str, fields: &'static [Field]) -> Rest {
    Rest::Items { name, count: Count::ToEnd(usize::MAX), fields }
}

pub(super) static LAYOUT: Layout = Layout {
    ports: &[(PORT, WORKER_PORT)],
    shared_ports: &[],
    telling: false,
    summary: &["occupancy", "active"],
    head: &[],
    rules: &[],
    messages: &[
        Message {
            name: "update",
            groups: &[&[Field::float_little("reward", "Mean reward")]],
            rest: floats("gradients", &[Field::float_little("gradient", "Gradient")]),
            ..PLAIN
        },
        Message {
            name: "ack",
            groups: &[&[
                Field::uint("occupancy", 24, "Slots in use in the device's queue (Qn)"),
                Field::uint("active", 16, "Clusters that are active there (N)"),
            ]],
            rest: floats("model", &[Field::float_little("parameter", "Parameter of the model")]),
            ..PLAIN
        },
    ],
};
