//! Execution traces, encoded here by hand according to the schema.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

pub(super) fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

fn bytes(field: u64, value: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), varint(value.len() as u64), value.to_vec()].concat()
}

/// Encodes an attribute whose value is already encoded.
fn attr(name: &str, value: Vec<u8>) -> Vec<u8> {
    bytes(10, &[bytes(1, name.as_bytes()), value].concat())
}

fn with_length(message: Vec<u8>) -> Vec<u8> {
    [varint(message.len() as u64), message].concat()
}

/// A node under construction.
pub(super) struct Made(Vec<u8>);

impl Made {
    pub(super) fn new(id: u64, name: &str, kind: u64) -> Self {
        Made([number(1, id), bytes(2, name.as_bytes()), number(3, kind)].concat())
    }

    fn and(mut self, more: Vec<u8>) -> Self {
        self.0.extend(more);
        self
    }

    /// Adds control and data dependencies on other nodes, packed and not.
    pub(super) fn after(self, control: &[u64], data: &[u64]) -> Self {
        let packed: Vec<u8> = control.iter().flat_map(|id| varint(*id)).collect();
        let each: Vec<u8> = data.iter().flat_map(|id| number(5, *id)).collect();
        self.and(if packed.is_empty() { each } else { [bytes(4, &packed), each].concat() })
    }

    pub(super) fn at(self, start: u64, duration: u64) -> Self {
        let start = if start == 0 { Vec::new() } else { number(6, start) };
        self.and(start).and(number(7, duration))
    }

    /// Makes it a collective, with its attributes as 64-bit integers.
    pub(super) fn collective(self, kind: u64, size: i64) -> Self {
        self.and(attr("is_cpu_op", number(27, 0))).and(attr("comm_type", number(9, kind))).size(size)
    }

    pub(super) fn size(self, size: i64) -> Self {
        self.and(attr("comm_size", number(9, size as u64)))
    }

    pub(super) fn group(self, name: &str) -> Self {
        self.and(attr("pg_name", bytes(29, name.as_bytes())))
    }
}

const COMPUTE: u64 = 4;
const SEND: u64 = 5;
const RECEIVE: u64 = 6;
const COLLECTIVE: u64 = 7;

pub(super) fn file(nodes: Vec<Made>) -> Vec<u8> {
    let metadata = [bytes(1, b"0.0.4"), bytes(2, &bytes(1, b"schema"))].concat();
    nodes.into_iter().fold(with_length(metadata), |file, node| [file, with_length(node.0)].concat())
}

/// Two layers, back to front: each computes for a while, then sums, while computation continues. Then nodes that are no
/// updates, and a message to another rank.
pub(super) fn layers(slower: u64) -> Vec<Made> {
    vec![
        Made::new(1, "backward 2", COMPUTE).at(0, 100 + slower),
        Made::new(2, "all-reduce 2", COLLECTIVE).at(0, 30).after(&[1], &[]).collective(0, 20_000).group("0"),
        Made::new(3, "backward 1", COMPUTE).at(0, 50 + slower).after(&[1], &[]),
        // Starts after the end of the preceding sum.
        Made::new(4, "reduce 1", COLLECTIVE).at(0, 30).after(&[3], &[2]).collective(1, 3_001).group("0"),
        Made::new(5, "all-gather", COLLECTIVE).after(&[4], &[]).collective(2, 4_096),
        Made::new(6, "receive", RECEIVE).size(64),
        Made::new(7, "send", SEND).at(0, 5).after(&[], &[4, 5]).size(64).group("0"),
    ]
}

fn plain() -> ImportOptions {
    ImportOptions::default()
}

fn split() -> ImportOptions {
    ImportOptions { split: Some(9036), ..plain() }
}

/// Returns time in us, worker, number and bytes of each update.
fn seen(imported: &[(Update, Vec<f32>)]) -> Vec<(i64, u32, u32, u32)> {
    assert!(imported.iter().all(|(u, v)| u.t_gen % 1_000_000 == 0 && v.is_empty() && u.reward.is_none()));
    imported.iter().map(|(u, _)| (u.t_gen / 1_000_000, u.worker, u.seq, u.bytes)).collect()
}

#[test]
fn sums_and_sends_become_frames_at_the_times_that_follow() {
    let folder = Folder::with("job.0.et", file(layers(0)));
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(&file(layers(7))).unwrap();
    std::fs::write(folder.path("job.1.et.gz"), packed.finish().unwrap()).unwrap();
    // By rank, not by the order of the names.
    let (imported, notes) = folder.import(&["job.1.et.gz", "job.0.et"], &split()).unwrap();
    // 20,000 bytes need frames of 8,964, 8,964 and 2,072.
    let of = |t: i64, worker, first: u32, sizes: &[u32]| -> Vec<(i64, u32, u32, u32)> {
        sizes.iter().zip(first..).map(|(size, seq)| (t, worker, seq, *size)).collect()
    };
    let expected = [
        of(100, 0, 0, &[9036, 9036, 2144]),
        of(107, 1, 0, &[9036, 9036, 2144]),
        of(150, 0, 3, &[3073]),
        of(164, 1, 3, &[3073]),
        of(180, 0, 4, &[136]),
        of(194, 1, 4, &[136]),
    ];
    assert_eq!(seen(&imported), expected.concat());
    assert_eq!(notes["time"], "6 derived from what a node waits for");
    assert_eq!(notes["passed_over"], "2 all-gather, 2 receive");
    assert_eq!(notes["frames"], "10 of 6 messages, all of one at its time");
    let refused = folder.import(&["job.0.et"], &plain()).unwrap_err().to_string();
    for part in ["node 2: comm_size is 20000 bytes", "room for 8964", "--split 9036B makes 3"] {
        assert!(refused.contains(part), "{refused}");
    }
}

#[test]
fn recorded_times_count_from_the_first_of_all_ranks() {
    let base = 1_700_000_000_000_000;
    let rank = |late: u64| {
        file(vec![
            Made::new(1, "a", COMPUTE).at(base + late, 10),
            Made::new(2, "sum", COLLECTIVE).at(base + late + 25, 3).after(&[1], &[]).collective(0, 400),
            // Nodes without a time: after their dependencies, or at the time of the first node that has one.
            Made::new(3, "sum", COLLECTIVE).at(0, 3).after(&[1], &[2]).collective(0, 4),
            Made::new(4, "sum", COLLECTIVE).collective(0, 1),
        ])
    };
    let folder = Folder::with("x.9.et", rank(5));
    std::fs::write(folder.path("x.4.et"), rank(0)).unwrap();
    let (imported, notes) = folder.import(&["x.9.et", "x.4.et"], &plain()).unwrap();
    let expected = [(0, 0, 0, 76), (5, 1, 0, 76), (25, 0, 1, 472), (28, 0, 2, 76), (30, 1, 1, 472), (33, 1, 2, 76)];
    assert_eq!(seen(&imported), expected);
    assert_eq!(notes["time"], "2 recorded, 4 derived from what a node waits for");
    assert_eq!(notes["workers"], "0 is rank 4, 1 is rank 9");
    assert!(imported.iter().all(|(u, _)| u.cluster == 0));
}

#[test]
fn groups_can_be_clusters() {
    let rank = |group: &str| file(vec![Made::new(1, "sum", COLLECTIVE).collective(0, 100).group(group)]);
    let folder = Folder::with("x.0.et", rank("late"));
    std::fs::write(folder.path("x.1.et"), rank("early")).unwrap();
    let by_group = ImportOptions { by_group: true, ..plain() };
    let (imported, notes) = folder.import(&["x.0.et", "x.1.et"], &by_group).unwrap();
    assert_eq!(imported.iter().map(|(u, _)| (u.worker, u.cluster)).collect::<Vec<_>>(), [(0, 1), (1, 0)]);
    assert_eq!(notes["clusters"], "0 is \"early\", 1 is \"late\"");
    let several = vec![
        Made::new(1, "sum", COLLECTIVE).collective(0, 100).group("a"),
        Made::new(2, "sum", COLLECTIVE).collective(0, 100).group("b"),
    ];
    let folder = Folder::with("x.et", file(several));
    folder.refuses(&["x.et"], &by_group, &["node 2: group \"b\", after \"a\"", "--by-group"]);
    let folder = Folder::with("x.et", file(vec![Made::new(1, "sum", COLLECTIVE).collective(0, 100)]));
    folder.refuses(&["x.et"], &by_group, &["node 1: no attribute pg_name"]);
}

#[test]
fn attributes_of_every_whole_type_are_read() {
    let values = [
        number(7, 100),
        number(9, 100),
        number(11, 100),
        number(13, 100),
        number(15, 200),
        number(17, 200),
        [varint(19 << 3 | 5), 100u32.to_le_bytes().to_vec()].concat(),
        [varint(21 << 3 | 1), 100u64.to_le_bytes().to_vec()].concat(),
        [varint(23 << 3 | 5), 100u32.to_le_bytes().to_vec()].concat(),
        [varint(25 << 3 | 1), 100u64.to_le_bytes().to_vec()].concat(),
    ];
    for value in values {
        let folder = Folder::with("x.et", file(vec![Made::new(1, "s", SEND).and(attr("comm_size", value))]));
        assert_eq!(seen(&folder.import(&["x.et"], &plain()).unwrap().0), [(0, 0, 0, 172)]);
    }
    // An operation that the host only launches is executed by another node.
    let launch = Made::new(1, "nccl:all_reduce", COLLECTIVE).and(attr("is_cpu_op", number(27, 1)));
    let folder =
        Folder::with("x.et", file(vec![launch, Made::new(2, "s", SEND).size(8), Made::new(3, "s", SEND).size(0)]));
    assert_eq!(folder.import(&["x.et"], &plain()).unwrap().1["passed_over"], "1 empty, 1 launched by the host");
}

#[test]
fn what_is_wrong_is_named_by_byte_and_node() {
    let sum = |id| Made::new(id, "sum", COLLECTIVE).collective(0, 100);
    let good = file(vec![sum(1)]);
    let at = file(vec![]).len();
    let place = format!("byte {at}: node 9: ");
    let node = |node: Made| file(vec![node]);
    for (bytes, words) in [
        (vec![], &["it is empty"][..]),
        (
            good[..good.len() - 1].to_vec(),
            &[&format!("byte {at}: a message of 55 bytes, where 54 are left"), "truncated"],
        ),
        (vec![0x80], &["byte 0: the length of a message is cut off"]),
        (vec![0xff; 12], &["byte 0: a length that does not end"]),
        (
            [varint(1 << 60), vec![1; 9]].concat(),
            &["byte 0: a message of 1152921504606846976 bytes; they have at most"],
        ),
        (with_length(number(1, 3)), &["byte 0: no metadata", "version"]),
        (file(vec![]), &["none of its 0 nodes"]),
        (node(Made::new(1, "x", COMPUTE)), &["none of its 1 nodes is an all-reduce"]),
        (file(vec![sum(1), sum(1)]), &["node 1 is there twice", &format!("the first at byte {at}")]),
        (node(sum(9).and(vec![0x0b])), &[&place, "wire type 3"]),
        (node(sum(9).and(vec![0x52, 0x20, 1])), &[&place, "32 bytes, where 1 are left"]),
        (node(sum(9).and(bytes(6, b"x"))), &[&place, "start_time_micros is no number"]),
        (node(sum(9).and(number(10, 1))), &[&place, "attr is no text or message"]),
        (node(sum(9).size(-4)), &[&place, "comm_size is -4; it must be 0 or more"]),
        (node(Made::new(9, "s", SEND)), &[&place, "no attribute comm_size"]),
        (node(Made::new(9, "s", COLLECTIVE).size(4)), &[&place, "without the attribute comm_type"]),
        (node(Made::new(9, "s", COLLECTIVE).collective(10, 4)), &[&place, "comm_type is 10; there are 0 to 9"]),
        (node(sum(9).and(attr("comm_size", bytes(29, b"4")))), &[&place, "comm_size is no whole number"]),
        (node(sum(9).after(&[5], &[])), &[&place, "waits for node 5, which is not in the file"]),
        (node(sum(9).after(&[], &[9])), &[&place, "waits for node 9, which waits for it: a circle"]),
        (file(vec![sum(1).after(&[2], &[]), Made::new(2, "x", COMPUTE).after(&[1], &[])]), &["node 2: ", "a circle"]),
        (
            file(vec![sum(1).at(1, 0), sum(2).at(u64::MAX, 0)]),
            &["node 2: it begins 18446744073709551614 us after the first"],
        ),
        (
            file(vec![Made::new(1, "x", COMPUTE).at(u64::MAX, 9), sum(2).after(&[1], &[])]),
            &["node 2: ", "node 1 ends later than times reach"],
        ),
        (node(sum(9).size(i64::MAX)), &[&place, "more than 16777216 frames; give fewer ranks, or cut the trace"]),
        (node(sum(9).group(&"g".repeat(300))), &[&place, "pg_name has 300 bytes; at most 256"]),
        (b"\x1f\x8b\x08nothing".to_vec(), &["byte 0 of what gzip unpacks", "cannot be unpacked"]),
    ] {
        Folder::with("x.et", bytes).refuses(&["x.et"], &split(), words);
    }
    // Larger frames are advised where they are possible.
    let small = ImportOptions { split: Some(76), ..plain() };
    let words = [place.as_str(), "more than 16777216 frames; give a larger --split, to 9036B"];
    Folder::with("x.et", node(sum(9).size(i64::MAX))).refuses(&["x.et"], &small, &words);
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(&good).unwrap();
    let packed = packed.finish().unwrap();
    Folder::with("x.et", &packed[..packed.len() - 9]).refuses(&["x.et"], &split(), &["of what gzip unpacks"]);
}

#[test]
fn ranks_are_told_by_names() {
    let folder = Folder::new();
    for name in ["a.et", "b.et", "job.1.et", "other.1.et", "late.2.et"] {
        let start = if name == "late.2.et" { 77 } else { 0 };
        let node = Made::new(1, "s", SEND).at(start, 0).size(8);
        std::fs::write(folder.path(name), file(vec![node])).unwrap();
    }
    folder.refuses(&["a.et", "b.et"], &plain(), &["a.et", "does not say whose it is", "job.0.et"]);
    folder.refuses(&["job.1.et", "other.1.et"], &plain(), &["both of rank 1"]);
    folder.refuses(&["job.1.et", "late.2.et"], &plain(), &["late.2.et: it has start times, ranks before it have none"]);
    assert_eq!(folder.import(&["a.et"], &plain()).unwrap().0.len(), 1);
    assert_eq!(folder.import(&["job.1.et"], &plain()).unwrap().1["workers"], "0 is rank 1");
}

#[test]
fn a_long_chain_takes_no_stack() {
    let chain = (1..200_000).map(|id| Made::new(id, "", COMPUTE).at(0, 1).after(&[], &[id + 1]));
    let mut nodes: Vec<Made> = vec![Made::new(0, "sum", COLLECTIVE).collective(0, 100).after(&[1], &[])];
    nodes.extend(chain);
    nodes.push(Made::new(200_000, "", COMPUTE).at(0, 1));
    let mut bytes = file(vec![]);
    nodes.into_iter().for_each(|node| bytes.extend(with_length(node.0)));
    let folder = Folder::with("x.et", bytes);
    assert_eq!(seen(&folder.import(&["x.et"], &plain()).unwrap().0), [(200_000, 0, 0, 172)]);
}
