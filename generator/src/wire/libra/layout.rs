//! Libra's packets as data, for the dissector and the docs.

use super::control::PIECE_MAX;
use super::{HOT_PAIRS, PORT, WORKER_PORT};
use crate::wire::layout::{Count, Field, Layout, Message, PLAIN, Rest, Rule};

const HEAD: &[Field] = &[
    Field::uint("kind", 3, "What it is for").named(&[
        (0, "push"),
        (1, "end"),
        (2, "ack"),
        (3, "result"),
        (4, "pull"),
        (5, "control"),
    ]),
    Field::flag("resent", "It was sent before"),
    Field::uint("attempt", 4, "Which transmission it is; 15 for all further ones"),
    Field::uint("job", 8, "Job"),
    Field::uint("seq", 31, "Sequence number without its lowest bit, which says cold"),
    Field::flag("cold", "About parameters that the server sums"),
];

const VALUE: Field = Field::float("value", "Gradient, sum or parameter");
const HOT: Rest = Rest::Items {
    name: "pairs",
    count: Count::ToEnd(HOT_PAIRS),
    fields: &[Field::uint("index", 32, "Index of a hot parameter"), VALUE],
};
const COLD: Rest = Rest::Items {
    name: "pairs",
    count: Count::ToEnd(usize::MAX),
    fields: &[Field::uint("key", 64, "Key of a parameter"), VALUE],
};
/// A switch's result is not limited by what it parses.
const SUMS: Rest = match HOT {
    Rest::Items { name, fields, .. } => Rest::Items { name, count: Count::ToEnd(usize::MAX), fields },
    other => other,
};

const ITERATION: Field = Field::uint("iteration", 32, "Iteration");
/// Before the pairs of a switch's result; the opener is all ones if nobody sent any.
const RESULT: &[Field] = &[
    Field::uint("part", 16, "Which part of the sums it is, from 0 on"),
    Field::uint("parts", 16, "Of how many packets the sums of the iteration are"),
    ITERATION,
    Field::uint("opener_worker", 24, "Worker of the packet that opened the sum; all ones if none"),
    Field::uint("opener_attempt", 8, "Attempt of the packet that opened the sum; all ones if none"),
    Field::uint("opener_seq", 32, "Number of the packet that opened the sum; all ones if none"),
];

const CONTROL: &[Field] = &[
    Field::uint("what", 8, "What a control message says").named(&[
        (0, "heartbeat"),
        (1, "freeze"),
        (2, "fetch"),
        (3, "prepare"),
        (4, "restore"),
        (5, "begin"),
        (6, "activate"),
        (7, "retire"),
        (0x80, "status"),
        (0x81, "frozen"),
        (0x82, "piece"),
        (0x83, "prepared"),
        (0x84, "restored"),
        (0x85, "begun"),
        (0x86, "activated"),
        (0x87, "retired"),
    ]),
    Field::uint("from", 16, "Node that it comes from"),
    Field::uint("to", 16, "Node that it is for"),
    Field::uint("session", 32, "Which change of switches it is about; of a heartbeat its number"),
];
const PIECE: &[Field] = &[Field::uint("piece", 32, "Which piece of a switch's state")];
const STATE: Rest = Rest::Bytes { name: "state", most: PIECE_MAX };

pub(super) static LAYOUT: Layout = Layout {
    ports: &[(PORT, WORKER_PORT)],
    shared_ports: &[],
    telling: false,
    summary: &["job", "seq", "attempt", "iteration", "part", "parts", "piece", "from", "to", "session"],
    head: HEAD,
    rules: &[Rule::Together("resent", "attempt")],
    messages: &[
        Message { name: "push hot", when: &[("kind", 0), ("cold", 0)], rest: HOT, ..PLAIN },
        Message { name: "push cold", when: &[("kind", 0), ("cold", 1)], rest: COLD, ..PLAIN },
        Message { name: "pull hot", when: &[("kind", 4), ("cold", 0)], rest: HOT, ..PLAIN },
        Message { name: "pull cold", when: &[("kind", 4), ("cold", 1)], rest: COLD, ..PLAIN },
        Message {
            name: "result hot",
            when: &[("kind", 3), ("cold", 0)],
            groups: &[RESULT],
            rules: &[Rule::Below("part", "parts")],
            rest: SUMS,
            ..PLAIN
        },
        Message { name: "result cold", when: &[("kind", 3), ("cold", 1)], rest: COLD, ..PLAIN },
        Message { name: "end", when: &[("kind", 1)], groups: &[&[ITERATION]], ..PLAIN },
        Message { name: "ack", when: &[("kind", 2)], ..PLAIN },
        Message { name: "heartbeat", when: &[("kind", 5), ("what", 0)], groups: &[CONTROL], ..PLAIN },
        Message { name: "freeze", when: &[("kind", 5), ("what", 1)], groups: &[CONTROL], ..PLAIN },
        Message { name: "fetch", when: &[("kind", 5), ("what", 2)], groups: &[CONTROL, PIECE], ..PLAIN },
        Message {
            name: "prepare",
            when: &[("kind", 5), ("what", 3)],
            groups: &[CONTROL, &[Field::uint("fresh", 8, "1: no state of another switch will come")]],
            rules: &[Rule::AtMost("fresh", 1)],
            ..PLAIN
        },
        Message { name: "restore", when: &[("kind", 5), ("what", 4)], groups: &[CONTROL, PIECE], rest: STATE, ..PLAIN },
        Message { name: "begin", when: &[("kind", 5), ("what", 5)], groups: &[CONTROL], ..PLAIN },
        Message {
            name: "activate",
            when: &[("kind", 5), ("what", 6)],
            groups: &[CONTROL, &[Field::uint("node", 16, "The switch that sums from now on")]],
            ..PLAIN
        },
        Message { name: "retire", when: &[("kind", 5), ("what", 7)], groups: &[CONTROL], ..PLAIN },
        Message {
            name: "status",
            when: &[("kind", 5), ("what", 0x80)],
            groups: &[
                CONTROL,
                &[
                    Field::uint("packets", 64, "Packets that arrived"),
                    Field::uint("dropped", 64, "Packets that the switch lost"),
                    Field::uint("memory_ppm", 32, "Memory in use, in millionths"),
                ],
            ],
            ..PLAIN
        },
        Message {
            name: "frozen",
            when: &[("kind", 5), ("what", 0x81)],
            groups: &[CONTROL, &[Field::uint("pieces", 32, "Pieces of the switch's state")]],
            ..PLAIN
        },
        Message {
            name: "piece",
            when: &[("kind", 5), ("what", 0x82)],
            groups: &[CONTROL, PIECE],
            rest: STATE,
            ..PLAIN
        },
        Message { name: "prepared", when: &[("kind", 5), ("what", 0x83)], groups: &[CONTROL], ..PLAIN },
        Message { name: "restored", when: &[("kind", 5), ("what", 0x84)], groups: &[CONTROL, PIECE], ..PLAIN },
        Message { name: "begun", when: &[("kind", 5), ("what", 0x85)], groups: &[CONTROL], ..PLAIN },
        Message { name: "activated", when: &[("kind", 5), ("what", 0x86)], groups: &[CONTROL], ..PLAIN },
        Message { name: "retired", when: &[("kind", 5), ("what", 0x87)], groups: &[CONTROL], ..PLAIN },
    ],
};
