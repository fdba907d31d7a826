//! OLAF's packets as data, for the dissector and the docs.

use super::{PORT, WORKER_PORT};
use crate::wire::layout::{After, Count, Field, Layout, Message, PLAIN, Rest, Rule};

const HEAD: &[Field] = &[
    Field::uint("version", 4, "Version of the format: 1"),
    Field::uint("kind", 4, "What it is").named(&[(1, "update"), (2, "ack")]),
    Field::unused(2),
    Field::flag("headless", "It came without this header: nothing but its sender is known"),
    Field::flag("result", "The whole sum on its way back to the workers"),
    Field::flag("partial", "Some members are missing: a device waited for them no longer"),
    Field::flag("stamped", "A device has stamped its queue status into this ACK"),
    Field::flag("lanes", "The first gradients are lanes"),
    Field::flag("merged", "The content is a merge of several updates"),
    Field::uint("cluster", 16, "Cluster"),
    Field::uint("count", 16, "Updates that the content represents"),
    Field::uint("worker", 32, "Worker of the newest member"),
    Field::uint("seq", 32, "Sequence number of the newest member"),
    Field::int("generation", 64, "Generation time of the newest member, in ps"),
    Field::uint("attempt", 8, "Transmission attempt of the newest member"),
    Field::unused(8),
    Field::uint("elements", 16, "Numbers that follow"),
];

const REWARD: Field = Field::float_little("reward", "Mean reward");

const fn floats(name: &'static str, fields: &'static [Field]) -> Rest {
    Rest::Items { name, count: Count::Field("elements"), fields }
}

pub(super) static LAYOUT: Layout = Layout {
    ports: &[(PORT, WORKER_PORT)],
    shared_ports: &[],
    telling: true,
    summary: &["cluster", "worker", "seq", "attempt", "count", "elements", "stamped", "partial", "result"],
    head: HEAD,
    rules: &[],
    messages: &[
        Message {
            name: "update",
            when: &[("version", 1), ("kind", 1)],
            groups: &[&[REWARD]],
            rules: &[Rule::NotZero("count")],
            rest: floats("gradients", &[Field::float_little("gradient", "Gradient")]),
            tail: &[],
            after: After::Anything,
        },
        Message {
            name: "ack",
            when: &[("version", 1), ("kind", 2)],
            groups: &[&[
                Field::uint("occupancy", 24, "Slots in use in the device's queue (Qn)"),
                Field::uint("active", 16, "Clusters that are active there (N)"),
                Field::uint("capacity", 24, "Slots of the queue (Qmax)"),
                REWARD,
            ]],
            rest: floats("model", &[Field::float_little("parameter", "Parameter of the model")]),
            after: After::Anything,
            ..PLAIN
        },
    ],
};
