//! Compares the meter with a straightforward computation from the tables of a run dir, on random input.

mod clusters;
mod cut;
mod early;
mod order;
mod origin;
mod recordings;
mod sources;

use pktgen_core::record::PacketId;
use pktgen_records::age::{AgeOf, Ages, FlowAge};
use pktgen_records::line::{Line, Note};
use pktgen_records::model::Fates;
use pktgen_records::run::{ReceivedColumns, Records, SentColumns};
use pktgen_registry::all;
use pktgen_wire::pcap::{Form, Writer, WriterOptions};
use pktgen_wire::wire::frame::{HEAD, SERVER_IP, Template, set_ip_checksum, worker_ip};
use pktgen_wire::wire::sight::Delivery;
use pktgen_wire::wire::update::{Header, PORT, UPDATE_HEAD, WORKER_PORT};
use proptest::prelude::*;

use super::replay::{analyze_tables, merge_tables};
use super::tables::TableForm;
use super::*;

/// An update: its worker, its generation and send times, and its arrival time if it arrived.
#[derive(Debug, Clone, Copy)]
struct Sent {
    worker: u32,
    seq: u32,
    t_gen: i64,
    t_sent: i64,
    arrives: Option<i64>,
}

const CLUSTERS: u32 = 3;

/// Generates workers with random generation times, some of whose updates arrive, in any order.
fn story() -> impl Strategy<Value = Vec<Sent>> {
    let update = (0u32..7, 0i64..5000, 0i64..50, prop::option::weighted(0.8, 0i64..3000));
    prop::collection::vec(update, 1..120).prop_map(|mut updates| {
        updates.sort_by_key(|(_, t_gen, ..)| *t_gen);
        let mut next = [0u32; 7];
        let to_sent = |(worker, t_gen, wait, way): (u32, i64, i64, Option<i64>)| {
            let seq = next[worker as usize];
            next[worker as usize] += 1;
            let t_sent = t_gen + wait;
            Sent { worker, seq, t_gen, t_sent, arrives: way.map(|way| t_sent + way) }
        };
        updates.into_iter().map(to_sent).collect()
    })
}

fn frame_of(update: &Sent, count: u16) -> Vec<u8> {
    let mut frame = vec![0; HEAD + UPDATE_HEAD + 8];
    Template::new((worker_ip(update.worker), WORKER_PORT), (SERVER_IP, PORT), frame.len()).emit(&mut frame);
    let Sent { worker, seq, t_gen, .. } = *update;
    let cluster = (worker % CLUSTERS) as u16;
    let header =
        Header { flags: 0, cluster, count, worker, seq, generation: t_gen, attempt: 0, elements: 2, reward: 0.0 };
    header.emit_update(&mut frame[HEAD..]);
    frame
}

/// Writes captures of sent and of received packets; returns the files.
fn captures(dir: &Path, updates: &[Sent], anchors: [u64; 2], server_ahead: i64) -> [PathBuf; 2] {
    let names = ["sent.pcapng", "received.pcapng"].map(|name| dir.join(name));
    let of = |side: usize, mut rows: Vec<(i64, Vec<u8>)>| {
        rows.sort_by_key(|row| row.0);
        let options =
            WriterOptions { remainders: true, anchor_unix_ns: anchors[side], ..WriterOptions::new(Form::Pcapng) };
        let mut writer = Writer::create(&names[side], options).unwrap();
        for (t, frame) in rows {
            writer.packet(0, t, &frame, frame.len() as u32).unwrap();
        }
        writer.finish().unwrap();
    };
    of(0, updates.iter().map(|update| (update.t_sent, frame_of(update, 1))).collect());
    let arrived = updates.iter().filter_map(|update| Some((update.arrives? + server_ahead, frame_of(update, 1))));
    of(1, arrived.collect());
    names
}

/// Returns the same updates as tables of a run.
fn records(updates: &[Sent]) -> Records {
    let mut sent = SentColumns::default();
    for update in updates {
        sent.t_gen_ps.push(update.t_gen);
        sent.t_sent_ps.push(Some(update.t_sent));
        sent.cluster.push((update.worker % CLUSTERS) as u16);
        sent.worker.push(update.worker);
        sent.seq.push(update.seq);
        sent.attempt.push(0);
    }
    let mut arrived: Vec<&Sent> = updates.iter().filter(|update| update.arrives.is_some()).collect();
    arrived.sort_by_key(|update| update.arrives);
    let mut received = ReceivedColumns::default();
    for update in arrived {
        received.t_recv_ps.extend(update.arrives);
        received.packet.push(PacketId::new(update.worker, update.seq, 0).0);
        received.cluster.push((update.worker % CLUSTERS) as u16);
        received.newest_gen_ps.push(update.t_gen);
        received.count.push(1);
        received.bytes.push(0);
        received.accepted.push(true);
        received.wrong.push(false);
    }
    Records { sent, received, ..Records::default() }
}

fn both(names: &[PathBuf; 2]) -> CapturePlan {
    CapturePlan::new(all().protocols.formats, vec![names[1].clone()], vec![names[0].clone()])
}

fn analysed(plan: &CapturePlan) -> Measured {
    analyze_captures(plan, &mut |_, _| ()).unwrap()
}

fn value(lines: &[Line], metric: &str) -> Option<f64> {
    let found = lines.iter().find(|line| line.metric == metric && line.labels.is_empty());
    found.unwrap_or_else(|| panic!("no {metric}")).value
}

/// Returns the ages of one kind of flow, parsed from lines.
fn aom_of(lines: &[Line], flow: &str, id: u32) -> Vec<Option<f64>> {
    let of = |line: &&Line| {
        line.metric.starts_with("aom_")
            && line.labels.get("flow").is_some_and(|it| it == flow)
            && line.labels.get("id").is_some_and(|it| *it == id)
    };
    lines.iter().filter(of).map(|line| line.value).collect()
}

fn expected(age: &FlowAge) -> Vec<Option<f64>> {
    let quantile = |i: usize| age.quantiles_ns.map(|q| q[i]);
    vec![age.mean_ns, age.peak_mean_ns, age.peak_p99_ns, age.peak_max_ns, quantile(0), quantile(1), quantile(2)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(150)))]

    #[test]
    fn two_captures_say_what_the_tables_of_a_run_say(updates in story(), memory in prop_oneof![Just(0usize), Just(MEMORY)]) {
        let dir = tempfile::tempdir().unwrap();
        let plan = CapturePlan { memory, forwards: true, ..both(&captures(dir.path(), &updates, [0, 0], 0)) };
        let lines = analysed(&plan).lines;
        let records = records(&updates);
        let fates = Fates::resolve(&records);
        let ages = Ages::compute(&records, |row| fates.members_of(row), AgeOf::Newest).unwrap();
        // Must match bit by bit, whether numbers are in memory or in a file.
        for (flow, ages) in [("cluster", &ages.clusters), ("worker", &ages.workers)] {
            for age in ages {
                prop_assert_eq!(aom_of(&lines, flow, age.id), expected(age), "{} {}", flow, age.id);
            }
        }
        let arrived = records.received.packet.len() as f64;
        prop_assert_eq!(value(&lines, "received"), Some(arrived));
        // If nothing arrived, the capture may be of another place.
        let dropped = (arrived > 0.0).then_some(updates.len() as f64 - arrived);
        prop_assert_eq!(value(&lines, "dropped"), dropped);
        let mut ways: Vec<i64> = updates.iter().filter_map(|update| Some(update.arrives? - update.t_sent)).collect();
        ways.sort_unstable();
        prop_assert_eq!(value(&lines, "host_latency_max"), ways.last().map(|way| *way as f64 / 1000.0));
    }

    #[test]
    fn shards_join_to_what_one_would_have_been(updates in story(), of in 1u64..5, form in prop_oneof![Just(TableForm::Parquet), Just(TableForm::Arrow)]) {
        let dir = tempfile::tempdir().unwrap();
        let plan = both(&captures(dir.path(), &updates, [0, 0], 0));
        let whole = analysed(&plan);
        let mut folders = Vec::new();
        for i in 1..=of {
            let folder = dir.path().join(format!("shard-{i}"));
            let tables = TablesPlan { dir: folder.clone(), run: "x".into(), form };
            analysed(&CapturePlan { tables: Some(tables), shard: Shard::new(i, of).unwrap(), ..plan.clone() });
            folders.push(folder);
        }
        let joined = if of == 1 { folders[0].clone() } else {
            let out = dir.path().join("joined");
            merge_tables(&folders, &out, false).unwrap();
            out
        };
        let again = analyze_tables(&joined, all().protocols.formats, false, false).unwrap();
        prop_assert_eq!(again.lines, whole.lines);
        prop_assert_eq!(again.notes, whole.notes);
        if of > 1 {
            let missing = merge_tables(&folders[1..], &dir.path().join("less"), false).unwrap_err().to_string();
            prop_assert!(missing.contains("shards are missing: 1/"), "{}", missing);
        }
    }

    #[test]
    fn a_given_offset_is_taken_away(updates in story(), ahead in -1i64 << 40..1 << 40) {
        let dir = tempfile::tempdir().unwrap();
        let names = captures(dir.path(), &updates, [1 << 60, 1 << 60], 0);
        let straight = analysed(&both(&names)).lines;
        // A different anchor, so that the two clocks are not considered the same.
        let anchors = [1 << 60, (1 << 60) + 1];
        let names = captures(dir.path(), &updates, anchors, ahead - 1000);
        let offset = Some(Offset { ps: ahead, error_ps: 0 });
        let bent = analysed(&CapturePlan { offset, ..both(&names) }).lines;
        let bent: Vec<_> = bent.into_iter().filter(|line| !line.metric.starts_with("clock_")).collect();
        prop_assert_eq!(bent, straight);
        // Not stated, and not shown by acknowledgements: no times.
        let refused = analysed(&both(&names));
        prop_assert!(!refused.lines.iter().any(|line| line.metric.starts_with("aom") || line.metric.starts_with("host_latency")));
        prop_assert!(refused.notes.iter().any(|note| note.note == "clocks" && note.text.contains("withheld")));
    }
}

/// Writes updates of worker 1 to a file: time, sequence number, number of updates in the packet.
fn capture_of(path: &Path, updates: &[(i64, u32, u16)]) {
    let mut writer = Writer::create(path, WriterOptions::new(Form::Pcapng)).unwrap();
    for (t, seq, count) in updates {
        // Copies have the same generation time.
        let update = Sent { worker: 1, seq: *seq, t_gen: i64::from(*seq) * 100, t_sent: 0, arrives: None };
        let frame = frame_of(&update, *count);
        writer.packet(0, *t, &frame, frame.len() as u32).unwrap();
    }
    writer.finish().unwrap();
}

#[test]
fn what_cannot_be_missing_is_not_counted() {
    let dir = tempfile::tempdir().unwrap();
    let (server, workers) = (dir.path().join("server.pcapng"), dir.path().join("workers.pcapng"));
    // The aggregate has members with numbers below the lowest that arrived; the workers' capture lacks most of them.
    capture_of(&server, &[(1_000, 3, 1), (2_000, 4, 9)]);
    capture_of(&workers, &[(900, 3, 1), (1_900, 4, 1)]);
    let formats = all().protocols.formats;
    let alone = analysed(&CapturePlan::new(formats, vec![server.clone()], Vec::new()));
    let both = analysed(&CapturePlan::new(formats, vec![server], vec![workers]));
    for (measured, code) in [(&alone, "numbers_incomplete"), (&both, "senders_incomplete")] {
        assert_eq!(value(&measured.lines, "represented"), Some(10.0));
        let missing: Vec<_> = measured.lines.iter().filter(|line| line.metric.contains("missing")).collect();
        assert!(!missing.is_empty() && missing.iter().all(|line| line.value.is_none()), "{missing:?}");
        assert!(measured.notes.iter().any(|note| note.note == code), "{code}: {:?}", measured.notes);
    }
}

#[test]
fn what_the_senders_captured_twice_was_sent_once() {
    let dir = tempfile::tempdir().unwrap();
    let (server, workers) = (dir.path().join("server.pcapng"), dir.path().join("workers.pcapng"));
    capture_of(&server, &[(1_000, 3, 1), (1_001, 3, 1), (2_000, 4, 1)]);
    capture_of(&workers, &[(900, 3, 1), (901, 3, 1), (1_900, 4, 1), (1_901, 4, 1), (2_900, 5, 1)]);
    let measured = analysed(&CapturePlan::new(all().protocols.formats, vec![server], vec![workers]));
    let of = |metric| value(&measured.lines, metric).unwrap();
    assert_eq!((of("sent"), of("retransmissions"), of("missing")), (3.0, 0.0, 1.0));
    assert_eq!((of("received"), of("duplicates"), of("represented")), (3.0, 1.0, 2.0));
    for (code, part) in [("copies", "2 packets"), ("duplicates", "1 of 3 packets")] {
        let note = measured.notes.iter().find(|note| note.note == code).expect(code);
        assert!(note.text.contains(part), "{}", note.text);
    }
}

#[test]
fn a_side_where_nothing_is_known_says_nothing_of_losses() {
    let dir = tempfile::tempdir().unwrap();
    let [server, workers] = ["server.pcapng", "workers.pcapng"].map(|name| dir.path().join(name));
    capture_of(&server, &[]);
    capture_of(&workers, &[(900, 3, 1)]);
    let formats = all().protocols.formats;
    let plan = CapturePlan { forwards: true, ..CapturePlan::new(formats, vec![server], vec![workers]) };
    let measured = analysed(&plan);
    assert_eq!(value(&measured.lines, "sent"), Some(1.0));
    assert!(["missing", "loss", "dropped"].iter().all(|metric| value(&measured.lines, metric).is_none()));
    let note = measured.notes.iter().find(|note| note.note == "nothing_found").expect("a note");
    assert_eq!(note.text, "there is no packet at the server");
    // Cut within its headers: no name of a format would help.
    let mut frame = some(0, 100)[1][0].1.clone();
    frame.truncate(HEAD + 4);
    write(&plan.server[0], &[(1000, frame)]);
    let notes = analysed(&plan).notes;
    let note = notes.iter().find(|note| note.note == "nothing_found").expect("a note");
    assert!(note.text.starts_with("no packet at the server could be counted, of 1: "), "{}", note.text);
}

/// The clocks of boards without a battery begin in 1970, too.
#[test]
fn times_of_1970_are_virtual_only_where_all_are() {
    let dir = tempfile::tempdir().unwrap();
    let files = ["server.pcap", "workers.pcap"].map(|name| dir.path().join(name));
    let about = |anchors: [u64; 2]| {
        for (path, anchor_unix_ns) in files.iter().zip(anchors) {
            let options = WriterOptions { anchor_unix_ns, ..WriterOptions::new(Form::Pcap) };
            let mut writer = Writer::create(path, options).unwrap();
            let update = Sent { worker: 1, seq: 0, t_gen: 0, t_sent: 0, arrives: None };
            let frame = frame_of(&update, 1);
            writer.packet(0, 5_000_000, &frame, frame.len() as u32).unwrap();
            writer.finish().unwrap();
        }
        let [server, workers] = files.clone();
        let notes = analysed(&CapturePlan::new(all().protocols.formats, vec![server], vec![workers])).notes;
        notes.into_iter().find(|note| note.note == "clocks").expect("a note").text
    };
    assert!(about([0, 0]).contains("taken to be virtual"), "{}", about([0, 0]));
    let mixed = about([1_700_000_000_000_000_000, 0]);
    assert!(mixed.contains("withheld"), "{mixed}");
    // Files of one side have one clock. A stated origin needs no assumption.
    let [late, early] = files;
    for server in [[early.clone(), late.clone()], [late, early]] {
        let plan = CapturePlan::new(all().protocols.formats, server.into(), Vec::new());
        let refusal = Clocks::find(&plan, &mut |_, _| ()).unwrap_err().to_string();
        let expected = ["workers.pcap begins within 26 days of 1970", "server.pcap, of the same side, begins 1700"];
        assert!(expected.iter().all(|part| refusal.contains(part)), "{refusal}");
        assert!(Clocks::find(&CapturePlan { anchor: Some(Anchor(0)), ..plan }, &mut |_, _| ()).is_ok());
    }
}

#[test]
fn aggregates_hide_their_members_and_gaps_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.pcapng");
    let mut writer = Writer::create(&path, WriterOptions::new(Form::Pcapng)).unwrap();
    let mut put = |t: i64, worker: u32, seq: u32, count: u16| {
        let update = Sent { worker, seq, t_gen: i64::from(seq) * 100, t_sent: 0, arrives: None };
        let frame = frame_of(&update, count);
        writer.packet(0, t, &frame, frame.len() as u32).unwrap();
    };
    // Worker 1: numbers 3 to 7, of which 5 is in an aggregate of two and 7 comes twice.
    put(1_000, 1, 3, 1);
    put(2_000, 1, 5, 2);
    put(3_000, 1, 7, 1);
    put(4_000, 1, 7, 1);
    writer.finish().unwrap();
    let measured = analysed(&CapturePlan::new(all().protocols.formats, vec![path], Vec::new()));
    let of = |metric| value(&measured.lines, metric).unwrap();
    assert_eq!((of("received"), of("merged"), of("represented"), of("duplicates")), (4.0, 2.0, 4.0, 1.0));
    // The second member of the aggregate may be any number, also one that no packet is known by.
    assert_eq!(of("numbered"), 5.0);
    assert_eq!(["numbers_missing", "numbers_missing_share"].map(|metric| value(&measured.lines, metric)), [None; 2]);
    let note = measured.notes.iter().find(|note| note.note == "numbers_incomplete").unwrap();
    assert!(note.text.contains("at least 1 "), "{}", note.text);
    assert!(aom_of(&measured.lines, "worker", 1).is_empty() && !aom_of(&measured.lines, "cluster", 1).is_empty());
    assert!(measured.notes.iter().any(|note| note.note == "members_unknown"));
    assert!(!measured.lines.iter().any(|line| ["sent", "loss", "missing"].contains(&&*line.metric)));
}

#[test]
fn damage_and_strangers_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let updates = [Sent { worker: 1, seq: 0, t_gen: 0, t_sent: 5, arrives: Some(90) }; 1];
    let names = captures(dir.path(), &updates, [0, 0], 0);
    let whole = std::fs::read(&names[1]).unwrap();
    // Two packets, the second cut.
    let packet = &whole[whole.len() - (32 + HEAD + UPDATE_HEAD + 8 + 16)..];
    std::fs::write(&names[1], [&whole[..], &packet[..packet.len() - 5]].concat()).unwrap();
    let measured = analysed(&CapturePlan::new(all().protocols.formats, vec![names[1].clone()], Vec::new()));
    assert_eq!(value(&measured.lines, "received"), Some(1.0));
    let damage = measured.notes.iter().find(|note| note.note == "damaged").expect("a note");
    assert!(damage.text.contains(&format!("damaged at byte {}", whole.len())), "{}", damage.text);
    // A packet of another port.
    let mut writer = Writer::create(&names[1], WriterOptions::new(Form::Pcap)).unwrap();
    let mut frame = frame_of(&updates[0], 1);
    frame[36..38].copy_from_slice(&[0, 80]);
    frame[34..36].copy_from_slice(&[0, 80]);
    writer.packet(0, 1, &frame, frame.len() as u32).unwrap();
    writer.finish().unwrap();
    let plan = CapturePlan::new(all().protocols.formats, vec![names[1].clone()], Vec::new());
    let measured = analysed(&plan);
    assert!(measured.notes.iter().any(|note| note.note == "nothing_found" && note.text.contains("--format olaf|")));
    // Packets of an unsupported link type are not counted as received, nor as lost.
    let mut bytes = std::fs::read(&names[1]).unwrap();
    bytes[20..22].copy_from_slice(&9999u16.to_le_bytes());
    std::fs::write(&names[1], bytes).unwrap();
    let found = analysed(&CapturePlan::new(all().protocols.formats, vec![names[1].clone()], Vec::new()));
    assert!(
        found.notes.iter().any(|note| note.note == "invalid" && note.text.contains("a link type that is not read"))
    );
    let mut bytes = std::fs::read(&names[1]).unwrap();
    bytes[20..22].copy_from_slice(&1u16.to_le_bytes());
    std::fs::write(&names[1], bytes).unwrap();
    // Unless the format is specified.
    let format = all().protocols.formats.iter().find(|format| format.name() == "olaf").copied();
    assert_eq!(value(&analysed(&CapturePlan { format, ..plan }).lines, "received"), Some(1.0));
}

#[test]
fn formats_are_those_that_there_are() {
    let captured = DEFINITIONS.iter().find(|known| known.metric == "captured").expect("captured packets");
    let format = captured.labels.iter().find(|label| label.name == "format").expect("a format");
    assert!(format.values.is_empty());
}

#[test]
fn columns_of_tables_say_what_they_are() {
    for stream in tables::TABLES {
        for column in stream.columns {
            let what = format!("{}.{}", stream.name, column.name);
            assert!(column.about.ends_with('.') && !column.unit.is_empty(), "{what}");
            assert_eq!(column.name.ends_with("_ps"), column.unit == "ps", "{what}");
        }
    }
}

/// Writes these frames with their times, in this order.
fn write(path: &Path, frames: &[(i64, Vec<u8>)]) {
    let options = WriterOptions { remainders: true, ..WriterOptions::new(Form::Pcapng) };
    let mut writer = Writer::create(path, options).unwrap();
    frames.iter().for_each(|(t, frame)| writer.packet(0, *t, frame, frame.len() as u32).unwrap());
    writer.finish().unwrap();
}

/// Returns twenty updates of three workers, sent one after another and received later.
fn some(start: i64, way: i64) -> [Vec<(i64, Vec<u8>)>; 2] {
    let update = |n: i64| Sent {
        worker: (n % 3) as u32,
        seq: (n / 3) as u32,
        t_gen: start + n * 1000,
        t_sent: 0,
        arrives: None,
    };
    [500, 500 + way].map(|later| (0..20).map(|n| (start + n * 1000 + later, frame_of(&update(n), 1))).collect())
}

fn of_sides(dir: &Path, sides: &[Vec<(i64, Vec<u8>)>; 2]) -> Measured {
    let names = ["sent.pcapng", "received.pcapng"].map(|name| dir.join(name));
    names.iter().zip(sides).for_each(|(name, frames)| write(name, frames));
    analysed(&both(&names))
}

/// Two runs in one capture, and a worker that restarted: different generation times show that these are not copies.
#[test]
fn numbers_that_begin_anew_are_other_updates() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = (some(0, 100), some(1_000_000, 100));
    let sides = [0, 1].map(|side| [first[side].clone(), second[side].clone()].concat());
    let measured = of_sides(dir.path(), &sides);
    let of = |metric| value(&measured.lines, metric);
    assert_eq!(
        (of("sent"), of("represented"), of("duplicates"), of("missing")),
        (Some(40.0), Some(40.0), Some(0.0), Some(0.0))
    );
    assert_eq!(of("host_latency_max"), Some(0.1), "each with its own sending");
    assert!(measured.lines.iter().all(|line| line.metric != "numbers_missing"));
    assert!(
        measured.notes.iter().any(|note| note.note == "anew" && note.text.starts_with("20 ")),
        "{:?}",
        measured.notes
    );
}

/// All numbers equal those of the sorted file, whatever the order of packets; those of tables, too.
#[test]
fn files_out_of_order_are_sorted() {
    let dir = tempfile::tempdir().unwrap();
    let ordered = some(0, 1700);
    let expected = of_sides(dir.path(), &ordered);
    let mut mixed = ordered.clone();
    mixed[0].rotate_left(7);
    mixed[1].reverse();
    let found = of_sides(dir.path(), &mixed);
    // The only other difference is the number of packets out of order.
    let told = |measured: &Measured| -> Vec<Line> {
        let is_count = |line: &&Line| line.labels.get("kind").is_none_or(|kind| kind != "unordered");
        measured.lines.iter().filter(is_count).cloned().collect()
    };
    assert!(told(&found) == told(&expected) && found.lines.len() == expected.lines.len() + 2);
    assert_eq!(found.notes.iter().filter(|note| note.note == "unordered").count(), 2);
    let names = ["sent.pcapng", "received.pcapng"].map(|name| dir.path().join(name));
    let tables = TablesPlan { dir: dir.path().join("tables"), run: "run".into(), form: TableForm::Parquet };
    let kept = analysed(&CapturePlan { tables: Some(tables), ..both(&names) });
    let again = analyze_tables(&dir.path().join("tables"), all().protocols.formats, false, false).unwrap();
    assert!(told(&kept) == told(&expected) && told(&again) == told(&expected));
    // Too many to be sorted: no ages and latencies.
    let small = analysed(&CapturePlan { memory: 10, ..both(&names) });
    assert!(small.lines.iter().all(|line| !line.metric.starts_with("aom") && !line.metric.starts_with("host_latency")));
    assert_eq!(value(&small.lines, "represented"), Some(20.0));
}

/// A clock that is behind causes negative latencies; if they were left out, the rest would look valid.
#[test]
fn latencies_below_zero_are_counted_and_invalid() {
    let dir = tempfile::tempdir().unwrap();
    let mut sides = some(0, 3000);
    sides[1].iter_mut().for_each(|(t, _)| *t -= 3200);
    sides[1][19].0 += 9000;
    let measured = of_sides(dir.path(), &sides);
    let of = |metric| value(&measured.lines, metric).unwrap();
    assert!((of("host_latency_mean") - (-0.2 * 19.0 + 8.8) / 20.0).abs() < 1e-9, "{}", of("host_latency_mean"));
    assert_eq!(of("host_latency_max"), 8.8);
    let invalid =
        |note: &&Note| note.note == "invalid" && note.text.contains("19 packets arrived before they were sent");
    assert!(measured.notes.iter().any(|note| invalid(&note)), "{:?}", measured.notes);
    // Exchanged files look like clocks that do not agree.
    let exchanged = |notes: &[Note]| notes.iter().any(|note| note.note == "invalid" && note.text.contains("exchanged"));
    let [workers, server] = some(0, 3000);
    assert!(exchanged(&of_sides(dir.path(), &[server.clone(), workers.clone()]).notes));
    let mut early = server;
    early[3].0 -= 3500;
    early.sort_by_key(|(t, _)| *t);
    assert!(!exchanged(&of_sides(dir.path(), &[workers, early]).notes));
}

/// Transmissions of one update count as one update; with a device that only forwards, every one that did not arrive was lost.
#[test]
fn updates_are_counted_once_however_often_they_are_sent() {
    let dir = tempfile::tempdir().unwrap();
    let mut sides = some(0, 100);
    let again = |frames: &[(i64, Vec<u8>)], which: &[usize]| -> Vec<(i64, Vec<u8>)> {
        which
            .iter()
            .map(|n| {
                let (t, mut frame) = frames[*n].clone();
                let header = Header { attempt: 1, ..Header::peek(&frame[HEAD..]).unwrap() };
                header.emit_update(&mut frame[HEAD..]);
                (t + 50_000, frame)
            })
            .collect()
    };
    let (sent, received) = (again(&sides[0], &[3, 4, 5]), again(&sides[1], &[4, 5]));
    sides[1].retain(|(t, _)| *t != 3600 && *t != 5600);
    sides[0].extend(sent);
    sides[1].extend(received);
    let measured = of_sides(dir.path(), &sides);
    let of = |metric| value(&measured.lines, metric);
    assert_eq!(
        (of("sent"), of("retransmissions"), of("represented"), of("missing")),
        (Some(23.0), Some(3.0), Some(19.0), Some(1.0))
    );
    let names = ["sent.pcapng", "received.pcapng"].map(|name| dir.path().join(name));
    let forwards = analysed(&CapturePlan { forwards: true, ..both(&names) });
    assert_eq!(value(&forwards.lines, "dropped"), Some(3.0));
    assert!(forwards.notes.iter().all(|note| note.note != "not_only_forwarded"));
    // An aggregate may contain one of them again.
    let header = Header { count: 2, ..Header::peek(&sides[1][0].1[HEAD..]).unwrap() };
    header.emit_update(&mut sides[1][0].1[HEAD..]);
    let merged = of_sides(dir.path(), &sides);
    let forwards = analysed(&CapturePlan { forwards: true, ..both(&names) });
    assert!(forwards.notes.iter().any(|note| note.note == "not_only_forwarded"), "{:?}", forwards.notes);
    for metric in ["represented", "missing", "missing_share", "numbers_missing"] {
        assert_eq!(value(&merged.lines, metric), None, "{metric}");
    }
    assert_eq!(value(&merged.lines, "sent"), Some(23.0));
    let notes: Vec<_> = merged.notes.iter().map(|note| note.note).collect();
    assert!(notes.contains(&"repeats_unknown") && !notes.contains(&"senders_incomplete"), "{notes:?}");
    let numbers = merged.notes.iter().find(|note| note.note == "numbers_incomplete").expect("a note");
    assert!(!numbers.text.contains("at least"), "nothing is known of them: {}", numbers.text);
}

/// Unreadable packets may be the missing ones: cut within the header, or two datagrams joined by the host.
#[test]
fn what_could_not_be_read_is_not_missing() {
    let dir = tempfile::tempdir().unwrap();
    let sides = some(0, 100);
    let missing = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut sides = sides.clone();
        change(&mut sides[1][4].1);
        let measured = of_sides(dir.path(), &sides);
        assert_eq!(value(&measured.lines, "represented"), Some(19.0));
        assert!(measured.notes.iter().any(|note| note.note == "not_counted"), "{:?}", measured.notes);
        ["missing", "missing_share", "numbers_missing"].map(|metric| value(&measured.lines, metric))
    };
    assert_eq!(missing(&|frame| frame.truncate(HEAD + 4)), [None; 3]);
    let joined = |frame: &mut Vec<u8>| {
        let second = frame[HEAD..].to_vec();
        frame.extend(second);
        let len = frame.len() as u16;
        frame[16..18].copy_from_slice(&(len - 14).to_be_bytes());
        frame[38..40].copy_from_slice(&(len - 34).to_be_bytes());
        set_ip_checksum(frame);
    };
    assert_eq!(missing(&joined), [None; 3]);
    // Over IPv6, on a port of a format whose packets need the addresses of IPv4.
    let six = |frame: &mut Vec<u8>| {
        let head = [0x86, 0xdd, 0x60, 0, 0, 0, 0, 28, 17, 64];
        *frame = [&[2; 12][..], &head, &[1; 32], &[0x2e, 0xe0, 0x2e, 0xe0, 0, 28, 0, 0], &[0; 20]].concat();
    };
    assert_eq!(missing(&six), [None; 3]);
}

/// What a part of the workers sent is not what all sent: the losses of the others are not in it.
#[test]
fn a_part_of_the_senders_says_nothing_of_losses() {
    let dir = tempfile::tempdir().unwrap();
    let mut sides = some(0, 100);
    // Of each worker two updates are lost; the senders' capture has worker 0 only.
    sides[1].drain(3..9);
    sides[0].retain(|(_, frame)| Header::peek(&frame[HEAD..]).unwrap().worker == 0);
    // Copies at the server are no further proof.
    let copy = sides[1][1].clone();
    sides[1].insert(2, copy);
    let names = ["sent.pcapng", "received.pcapng"].map(|name| dir.path().join(name));
    names.iter().zip(&sides).for_each(|(name, frames)| write(name, frames));
    let measured = analysed(&CapturePlan { forwards: true, ..both(&names) });
    assert_eq!(value(&measured.lines, "sent"), Some(7.0));
    for metric in ["missing", "missing_share", "loss", "dropped"] {
        assert_eq!(value(&measured.lines, metric), None, "{metric}");
    }
    let note = measured.notes.iter().find(|note| note.note == "senders_incomplete").expect("a note");
    assert!(note.text.starts_with("9 packets arrived whose sending was not captured: "), "{}", note.text);
}

/// A capture of the server that began later or ended earlier lacks what arrived meanwhile: it was not lost.
#[test]
fn a_server_that_was_captured_for_less_time_is_noted() {
    let dir = tempfile::tempdir().unwrap();
    let update = |n: i64| Sent { worker: 1, seq: n as u32, t_gen: n * 1000, t_sent: 0, arrives: None };
    let frames = |later: i64| (0..100).map(|n| (n * 1000 + later, frame_of(&update(n), 1))).collect::<Vec<_>>();
    let noted = |from: usize, to: usize| {
        let sides = [frames(500), frames(600)[from..to].to_vec()];
        let found = of_sides(dir.path(), &sides).notes.into_iter().find(|note| note.note == "spans_differ");
        found.map(|note| note.text)
    };
    // Some at the beginning and at the end may have been lost.
    assert_eq!((noted(0, 100), noted(10, 90)), (None, None));
    assert!(noted(40, 100).expect("a note").contains("in which 41 updates were sent"));
    assert!(noted(0, 70).expect("a note").contains("in which 30 updates were sent"));
    assert!(noted(40, 70).expect("a note").contains("in which 71 updates were sent"));
}

/// Two jobs with the same worker numbers, at the server: their updates are no copies of each other.
#[test]
fn jobs_that_share_worker_numbers_are_not_one_job() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.pcapng");
    let measured = |addresses: u32, count: u16| {
        let frame = |n: u32| {
            let seq = n / 2;
            let update = Sent { worker: 1, seq, t_gen: i64::from(seq) * 1000, t_sent: 0, arrives: None };
            let mut frame = frame_of(&update, count);
            frame[26..30].copy_from_slice(&worker_ip(n % addresses).to_be_bytes());
            set_ip_checksum(&mut frame);
            (i64::from(n) * 1000 + 500, frame)
        };
        write(&path, &(0..20).map(frame).collect::<Vec<_>>());
        analysed(&CapturePlan::new(all().protocols.formats, vec![path.clone()], Vec::new()))
    };
    let has = |measured: &Measured, name: &str| measured.lines.iter().any(|line| line.metric.starts_with(name));
    let two = measured(2, 1);
    assert!(
        ["represented", "duplicates", "received", "aom_mean"].iter().all(|name| !has(&two, name)),
        "{:?}",
        two.lines
    );
    let note = two.notes.iter().find(|note| note.note == "deliveries_unknown").expect("a note");
    assert!(note.text.contains("worker numbers that several addresses use"), "{}", note.text);
    assert!(two.notes.iter().all(|note| note.note != "duplicates"), "{:?}", two.notes);
    // One job, with copies; and aggregates, which have the address of any of their members.
    for one in [measured(1, 1), measured(2, 2)] {
        assert!(has(&one, "represented") && has(&one, "aom_mean"), "{:?}", one.notes);
    }
}

/// One damaged packet does not end the analysis of all others.
#[test]
fn a_worker_that_no_run_has_is_absurd() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.pcapng");
    let update = |worker: u32| Sent { worker, seq: 0, t_gen: 0, t_sent: 0, arrives: None };
    let workers = [1, PacketId::WORKERS_MAX - 1, PacketId::WORKERS_MAX, u32::MAX];
    let frame = |(t, worker): (i64, u32)| {
        let mut frame = frame_of(&update(1), 1);
        let header = Header { worker, ..Header::peek(&frame[HEAD..]).unwrap() };
        header.emit_update(&mut frame[HEAD..]);
        frame[26..30].copy_from_slice(&(0x0a00_0000 + t as u32).to_be_bytes());
        set_ip_checksum(&mut frame);
        (t, frame)
    };
    write(&path, &(10..).zip(workers).map(frame).collect::<Vec<_>>());
    let measured = analysed(&CapturePlan::new(all().protocols.formats, vec![path], Vec::new()));
    assert_eq!(value(&measured.lines, "received"), Some(2.0));
    let note = measured.notes.iter().find(|note| note.note == "not_counted").expect("a note");
    assert!(note.text.contains("2 packets have a generation or a worker that no run has"), "{}", note.text);
}

/// A format without generation times gains nothing from the origin of times.
#[test]
fn an_origin_of_times_is_asked_for_only_where_it_gives_something() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.pcap");
    let options = WriterOptions { anchor_unix_ns: 1_700_000_000_000_000_000, ..WriterOptions::new(Form::Pcap) };
    let asked = |frame: &[u8]| {
        let mut writer = Writer::create(&path, options.clone()).unwrap();
        writer.packet(0, 1000, frame, frame.len() as u32).unwrap();
        writer.finish().unwrap();
        let measured = analysed(&CapturePlan::new(all().protocols.formats, vec![path.clone()], Vec::new()));
        assert!(measured.notes.iter().all(|note| note.note != "nothing_found"), "{:?}", measured.notes);
        measured.notes.iter().any(|note| note.text.contains("--anchor"))
    };
    let formats = all().protocols.formats;
    let strict =
        formats.iter().find(|format| format.delivery() == Delivery::UncountedUpdates).expect("a strict format");
    let port = (0..u16::MAX).find(|port| strict.has_port(*port)).expect("a port");
    let mut frame = vec![0; HEAD + 64];
    Template::new((worker_ip(1), port), (SERVER_IP, port), frame.len()).emit(&mut frame);
    let update = Sent { worker: 1, seq: 0, t_gen: 0, t_sent: 0, arrives: None };
    assert_eq!((asked(&frame_of(&update, 1)), asked(&frame)), (true, false));
}
