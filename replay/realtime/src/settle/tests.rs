//! Sparse training: pushes are added in a device or travel alone; workers and server receive.

use std::ops::Range;
use std::sync::Arc;

use parquet::arrow::ArrowWriter;
use pktgen_core::config::Document;
use pktgen_core::record::{LANES_MAX, LaneWords, PayloadPart, Received, Reply, Row, Sent, Words};
use pktgen_core::seed::Seed;
use pktgen_libra::format::{COLD_PAIR, HOT_PAIR, emit_cold, emit_hot, heat_of};
use pktgen_wire::wire::update::digest;
use pktgen_workload::lanes::{Ask, Detail, LaneForm, Lanes, Merge, Number};
use pktgen_workload::workload;

use super::*;
use crate::capture::{RunDir, Sides, Wanted};
use crate::endpoint::Pairs;
use crate::ledger::{Evidence, Subject};
use crate::target::sparse::Adder;

const ROUNDS: Wanted = Wanted { rounds: true, server: true, ..Wanted::ROWS };

fn id(worker: u32, seq: u32, attempt: u8) -> PacketId {
    PacketId::new(worker, seq, attempt)
}

fn hot(pairs: &[(u32, f32)]) -> Vec<u8> {
    let mut bytes = vec![0; pairs.len() * HOT_PAIR];
    emit_hot(pairs, &mut bytes);
    bytes
}

fn cold(worker: u32) -> Vec<u8> {
    let mut bytes = vec![0; COLD_PAIR];
    emit_cold(&[(99, worker as f32 - 0.1)], &mut bytes);
    bytes
}

/// Workers 0 and 1: both push parameter 0, worker 0 pushes 1 and 2; one cold push each.
struct Pushed(Vec<u8>, Vec<(u32, f32)>);

impl Pairs for Pushed {
    fn payload(&mut self, packet: PacketId) -> &[u8] {
        self.0 = match heat_of(packet.seq()) {
            Heat::Hot => hot(Pairs::hot(self, packet)),
            Heat::Cold => cold(packet.worker()),
        };
        &self.0
    }
    fn hot(&mut self, packet: PacketId) -> &[(u32, f32)] {
        self.1 = match (packet.worker(), packet.seq()) {
            (0, 0) => vec![(0, 0.1), (1, 2.0)],
            (0, 2) => vec![(2, 1e-3)],
            (1, 0) => vec![(0, 0.2)],
            _ => Vec::new(),
        };
        &self.1
    }
    fn slots(&self) -> usize {
        3
    }
    fn part(&self) -> usize {
        18
    }
    fn write(&self, pairs: &[(u32, f32)], out: &mut Vec<u8>) {
        out.extend(hot(pairs));
    }
}

fn sent(sides: &mut Sides, t: Time, packet: PacketId) {
    let row = Sent {
        t_gen: t,
        t_due: t,
        t_sent: Some(t),
        cluster: None,
        job: Some(0),
        worker: packet.worker(),
        seq: packet.seq(),
        attempt: packet.attempt(),
        block: Some(0),
        bytes: 100,
        reward: None,
        heat: Some(heat_of(packet.seq())),
    };
    sides.workers.sent(&row).unwrap();
}

fn book(sides: &mut Sides, t: Time, packet_in: PacketId, action: Action, packet_out: Option<PacketId>) {
    let reason = (action == Action::Dropped).then_some(Reason::Duplicate);
    sides.device.book(&Book { t, node: 1, packet_in, action, packet_out, reason }).unwrap();
}

fn received(t_recv: Time, packet: PacketId, part: Option<u32>, values: &[u8]) -> Received {
    Received {
        t_recv,
        packet,
        cluster: None,
        job: Some(0),
        newest_worker: packet.worker(),
        newest_seq: packet.seq(),
        newest_gen: 0,
        count: 1,
        bytes: 100,
        reward: None,
        accepted: true,
        sum_ok: SumOk::Unknown,
        node: 0,
        digest: Some(digest(values)),
        heat: Some(heat_of(packet.seq())),
        part,
        last: part.map(|_| true),
    }
}

/// A run of both workers; the result holds `sum` of parameter 0.
fn settled(sum: f32) -> Settled {
    let dir = tempfile::tempdir().unwrap();
    let mut run = RunDir::bare(dir.path(), ROUNDS);
    let mut sides = run.sides().unwrap();
    let opener = id(1, 0, 0);
    for (t, packet) in [(0, id(0, 0, 0)), (0, id(0, 1, 0)), (1, id(1, 0, 0)), (1, id(1, 1, 0)), (2, id(0, 2, 0))] {
        sent(&mut sides, t, packet);
    }
    book(&mut sides, 10, opener, Action::Merged, Some(opener));
    book(&mut sides, 11, id(0, 0, 0), Action::Merged, Some(opener));
    book(&mut sides, 12, id(0, 2, 0), Action::Merged, Some(opener));
    // Its ACK was lost, and that of a cold push.
    sent(&mut sides, 20, id(0, 0, 1));
    book(&mut sides, 25, id(0, 0, 1), Action::Dropped, None);
    sent(&mut sides, 20, id(1, 1, 1));
    book(&mut sides, 30, opener, Action::Departed, None);
    sides.workers.received(&received(40, opener, Some(0), &hot(&[(0, sum), (1, 2.0), (2, 1e-3)])), &[]).unwrap();
    let server = sides.server.as_mut().unwrap();
    for (t, packet) in [(15, id(0, 1, 0)), (16, id(1, 1, 0)), (35, id(1, 1, 1))] {
        server.received(&received(t, packet, None, &cold(packet.worker())), &[]).unwrap();
    }
    run.close().unwrap();
    let ledger =
        Ledger::open(2, Subject::Pairs(Box::new(Pushed(Vec::new(), Vec::new())), Adder::Exact), Evidence::Books);
    let text = "name = \"x\"\n[schedule]\nperiod = \"1ms\"\n";
    let mut source = workload::open(&mut Document::parse(text, "test").unwrap(), Seed(1)).unwrap().source;
    settle(dir.path(), source.as_mut(), ledger, 0).unwrap()
}

#[test]
fn sparse_runs_settle_from_what_workers_and_server_received() {
    let mut settled = settled(0.2f32 + 0.1f32);
    assert_eq!((settled.sums, settled.unknown, settled.ledger.strangers()), ([4, 0], 0, 0));
    let balances = settled.ledger.close();
    assert!(balances.iter().all(|balance| balance.unknown == 0), "{balances:?}");
    let fates = |b: &pktgen_core::record::Balance| (b.sent, b.delivered_alone, b.delivered_merged, b.dropped_total());
    assert_eq!(balances.iter().map(fates).collect::<Vec<_>>(), [(4, 1, 2, 1), (3, 2, 1, 0)]);
}

#[test]
fn a_wrong_sum_is_found() {
    assert_eq!(settled(0.300_000_04).sums, [3, 1]);
}

/// As of two ranks of which one was killed, or of which one is slow.
#[test]
fn rows_of_a_sender_may_be_far_behind_those_of_another() {
    let text = "[workload]\nclusters = 1\nworkers_per_cluster = 2\nupdates = 70000\nbytes = \"96B\"\n[schedule]\noffered = \"1Gbps\"\n";
    let mut document = Document::parse(text, "x.toml").unwrap();
    let mut source = workload::open(&mut document, Seed(1)).unwrap().source;
    let mut gradients = Gradients::new(source.as_mut());
    for (worker, seq) in (0..2).flat_map(|worker| (0..70_000).map(move |seq| (worker, seq))) {
        let row = SentRow { worker, seq, attempt: 0, heat: None, left: true, head: 0 };
        assert!(gradients.of(&row).is_some(), "{worker} {seq}");
    }
    assert_eq!(gradients.bytes, 0);
}

fn write<R: Row>(dir: &Path, rows: &[R]) {
    write_batch(dir, R::STREAM.name, &RecordBatch::try_new(R::schema(), R::arrays(rows)).unwrap());
}

fn write_batch(dir: &Path, name: &str, rows: &RecordBatch) {
    let file = File::create(dir.join(format!("{name}.parquet"))).unwrap();
    let mut writer = ArrowWriter::try_new(file, rows.schema(), None).unwrap();
    writer.write(rows).unwrap();
    writer.close().unwrap();
}

/// A frame for the workers of a job is one, and two for one worker are two.
#[test]
fn frames_with_results_that_came_again_are_counted_by_their_rows() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(frames_again(dir.path()).unwrap(), 0, "no synchronous run");
    let row = |t_recv: Time, job: u16, worker: u32, again: bool| Reply {
        t_recv,
        t_sent: Some(0),
        worker,
        job,
        seq: 7,
        packet: id(worker, 7, 0),
        count: 2,
        degraded: false,
        again,
    };
    let first = [row(10, 0, 0, false), row(10, 0, 1, false)];
    write(dir.path(), &first);
    assert_eq!(frames_again(dir.path()).unwrap(), 0);
    let again = [row(20, 0, 0, true), row(20, 0, 1, true), row(20, 1, 2, true), row(30, 0, 0, true)];
    write(dir.path(), &[&first[..], &again].concat());
    assert_eq!(frames_again(dir.path()).unwrap(), 3);
    // A late contribution opens its block again: a partial result of another source is no copy.
    let of = |t_recv: Time, source: u32, again: bool| Reply {
        packet: id(source, 7, 0),
        degraded: true,
        ..row(t_recv, 0, 0, again)
    };
    write(dir.path(), &[of(10, 0, false), of(20, 3, true)]);
    assert_eq!(frames_again(dir.path()).unwrap(), 0);
    write(dir.path(), &[of(10, 0, false), of(11, 0, true), of(20, 3, true), of(21, 3, true)]);
    assert_eq!(frames_again(dir.path()).unwrap(), 2);
    // Versions without the column recorded no copies; version 1 has no jobs, either.
    let rows = RecordBatch::try_new(Reply::schema(), Reply::arrays(&first)).unwrap();
    let names = rows.schema();
    for lacks in [&["again"][..], &["again", "job"]] {
        let has = |column: &usize| !lacks.contains(&names.field(*column).name().as_str());
        let others: Vec<_> = (0..rows.num_columns()).filter(has).collect();
        assert_eq!(others.len() + lacks.len(), rows.num_columns());
        write_batch(dir.path(), RESULTS, &rows.project(&others).unwrap());
        assert_eq!(frames_again(dir.path()).unwrap(), 0, "{lacks:?}");
    }
}

/// Returns what lanes prove of three updates that arrived alone, of which these lanes and these of two parts of payload each
/// were recorded.
fn proven(lanes_of: Range<usize>, parts: Range<usize>) -> Proven {
    proven_at(lanes_of, parts, 1_000, true)
}

/// Returns the same if they arrived `after` they left, in `real_time` or not.
fn proven_at(lanes_of: Range<usize>, parts: Range<usize>, after: Time, real_time: bool) -> Proven {
    found_of(lanes_of, parts, after, real_time, (Open::Sum, 1), 1).0
}

/// Returns the same of all, if each packet says that it holds so many updates.
fn counted_of(says: u16) -> Proven {
    found_of(0..3, 0..6, 1_000, true, (Open::Sum, says), 1).0
}

/// Returns these values as words.
fn words(values: &[[u8; 4]]) -> Words {
    Words::new(|words| {
        words.iter_mut().zip(values).for_each(|(word, bytes)| *word = u32::from_le_bytes(*bytes));
        values.len()
    })
}

/// Returns the same, and the rows of right sums among those that claim to be one update, if all are `open_as` and say that they hold so
/// many updates, and each holds so many `members`.
fn found_of(
    lanes_of: Range<usize>,
    parts: Range<usize>,
    after: Time,
    real_time: bool,
    (open_as, says): (Open, u16),
    members: u32,
) -> (Proven, Vec<usize>) {
    let text = "[workload]\nclusters = 1\nworkers_per_cluster = 1\nupdates = 3\nbytes = \"472B\"\n[schedule]\nperiod = \"1ms\"\n";
    let open = || workload::open(&mut Document::parse(text, "test").unwrap(), Seed(1)).unwrap().source;
    let population = open().population().clone();
    let ask = Ask { detail: Detail::Which, merge: Merge::Sum, window: 64 };
    let layout = Layout::plan((Number::F32, false), ask, 1, 100).unwrap();
    let form = LaneForm { number: Number::F32, offset: 0, shared: false, filled: false };
    let lanes = Arc::new(Lanes::new(layout, form, &population));
    let mut source = lanes.over(open());
    let (mut left, mut arrived, mut first, mut payloads) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut sum = vec![0f32; elements_in(472)];
    while let Some(update) = source.peek().copied() {
        let mut values = vec![0; elements_in(update.bytes as usize) * 4];
        source.take(&mut values);
        let (t, t_recv, packet) = (update.t_gen, update.t_gen + after, id(update.worker, update.seq, 0));
        left.push(Sent {
            t_gen: t,
            t_due: t,
            t_sent: Some(t),
            cluster: Some(0),
            job: None,
            worker: update.worker,
            seq: update.seq,
            attempt: 0,
            block: None,
            bytes: update.bytes,
            reward: None,
            heat: None,
        });
        for (sum, value) in sum.iter_mut().zip(values.as_chunks::<4>().0) {
            *sum += f32::from_le_bytes(*value);
        }
        if !(update.seq + 1).is_multiple_of(members) {
            continue;
        }
        let values: Vec<u8> = sum.iter_mut().flat_map(|sum| std::mem::take(sum).to_le_bytes()).collect();
        let row = received(t_recv, packet, None, &values);
        arrived.push(Received { cluster: Some(0), job: None, heat: None, count: says, ..row });
        let values = values.as_chunks::<4>().0;
        first.push(LaneWords { t_recv, cluster: Some(0), job: None, words: words(&values[..lanes.count()]) });
        let own = (0..).zip(values.chunks(LANES_MAX));
        payloads.extend(own.map(|(part, values)| PayloadPart { t_recv, part, words: words(values) }));
    }
    assert_eq!((arrived.len(), payloads.len()), (3 / members as usize, 6 / members as usize));
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &left);
    write(dir.path(), &arrived);
    write(dir.path(), &first[lanes_of]);
    write(dir.path(), &payloads[parts]);
    let mut again = lanes.over(open());
    let mut rows = Vec::new();
    let mut found = |found: SumFound| match found {
        SumFound::RightSingle(row) => rows.push(row),
        SumFound::Wrong(_) => {}
    };
    let clusters = &population.cluster_of;
    let proven =
        sums::check(dir.path(), &layout, clusters, real_time, &[open_as; 3], again.as_mut(), &mut found).unwrap();
    (proven, rows)
}

/// A clock that runs by itself may be late by 50 µs; in virtual time, lockstep included, no update arrives before it left.
#[test]
fn exact_times_have_no_tolerance() {
    let found = |after, real_time| {
        let proven = proven_at(0..3, 0..6, after, real_time);
        (proven.right, proven.contradict)
    };
    assert_eq!(found(1_000, false), (3, 0));
    assert_eq!(found(-50_000_000, true), (3, 0));
    assert_eq!(found(-50_000_000, false), (0, 3));
}

/// The lanes or the payload of one are missing: the others belong to their packets by time.
#[test]
fn sums_are_checked_by_the_lanes_of_their_own_packets() {
    for (lanes_of, parts) in [(0..2, 0..6), (1..3, 0..6), (0..3, 2..6)] {
        let found = proven(lanes_of, parts);
        assert_eq!((found.right, found.wrong, found.contradict), (2, 0, 0));
    }
}

/// A device may count what it does not add.
#[test]
fn right_sums_of_another_number_of_updates_than_packets_say_are_counted() {
    let counted = |says| {
        let proven = counted_of(says);
        (proven.right, proven.miscounted, proven.overcounted)
    };
    assert_eq!(counted(1), (3, 0, 0));
    assert_eq!(counted(3), (3, 3, 3));
    assert_eq!(counted(0), (3, 3, 0));
}

/// A device may leave the count at 1: its right sums are no wrong packets, though each claims to be one update.
#[test]
fn right_sums_that_claim_to_be_one_update_are_named() {
    let found = |open_as, parts, members: u32| {
        let (proven, rows) = found_of(0..3 / members as usize, parts, 1_000, true, (open_as, 1), members);
        ([proven.unsaid, proven.wrong_single, proven.right], rows)
    };
    assert_eq!(found(Open::Single, 0..2, 3), ([1, 0, 0], vec![0]));
    assert_eq!(found(Open::Sum, 0..2, 3), ([0, 0, 1], vec![]));
    // It came, and is too short.
    assert_eq!(found(Open::Single, 0..1, 3), ([0, 1, 0], vec![]));
    // One update that the account found to differ from the one that its header names is no sum that nobody stated.
    assert_eq!(found(Open::Single, 0..6, 1), ([0, 0, 0], vec![]));
}

#[test]
fn a_payload_that_a_killed_server_cut_is_no_wrong_sum() {
    let found = |parts| {
        let proven = proven(0..3, 0..parts);
        (proven.right, proven.wrong)
    };
    assert_eq!(found(6), (3, 0));
    assert_eq!(found(4), (1, 0));
    assert_eq!(found(3), (1, 0));
    assert_eq!(found(5), (2, 1), "the last packet came, and is too short");
}

/// Clocks of parts are apart by at least as much as a row lies before those that it follows. Further attempts are no reference.
#[test]
fn rows_before_those_that_they_follow_are_counted() {
    let row = |t: Time, seq: u32, attempt: u8| Sent {
        t_gen: t,
        t_due: t,
        t_sent: Some(t),
        cluster: Some(0),
        job: None,
        worker: 0,
        seq,
        attempt,
        block: None,
        bytes: 100,
        reward: None,
        heat: None,
    };
    let book = |t: Time, seq: u32, action: Action| Book {
        t,
        node: 0,
        packet_in: id(0, seq, 0),
        action,
        packet_out: None,
        reason: None,
    };
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[row(0, 0, 0), row(100, 1, 0), row(200, 2, 0), row(900, 1, 1)]);
    write(dir.path(), &[book(30, 1, Action::Arrived), book(45, 1, Action::Departed), book(230, 2, Action::Departed)]);
    // Nobody sent the last one.
    let arrived = [(70, id(0, 0, 0)), (60, id(0, 1, 1)), (150, id(0, 2, 0)), (40, id(0, 9, 0))];
    write(dir.path(), &arrived.map(|(t, packet)| received(t, packet, None, &[])));
    let counted = |bound| early::arrivals(dir.path(), bound).unwrap();
    // The largest difference does not count against a bound: one packet of so few may be damaged.
    assert_eq!([0, 45, 50].map(|bound| (counted(bound).rows, counted(bound).most)), [(2, 40), (0, 40), (0, 40)]);
    assert_eq!(early::at_device(dir.path()).unwrap(), 80, "an arrival before its departure");
    write(dir.path(), &[book(30, 1, Action::Arrived), book(20, 2, Action::Departed)]);
    assert_eq!(early::at_device(dir.path()).unwrap(), 180, "before its transmission");
    // Without books, arrivals are not read: these could not be.
    write::<Book>(dir.path(), &[]);
    let others = RecordBatch::try_new(Book::schema(), Book::arrays(&[book(30, 1, Action::Arrived)])).unwrap();
    write_batch(dir.path(), RECEIVED, &others);
    assert_eq!(early::at_device(dir.path()).unwrap(), 0);
}
