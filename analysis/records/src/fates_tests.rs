//! Tests of [`super`], [`crate::packets`], [`crate::pass`] and the ages of a pass: random histories, valid or not,
//! compared with [`crate::model`], which uses whole columns, and with sorting.

use std::collections::BTreeMap;

use pktgen_core::record::Balance;
use proptest::prelude::*;

use super::*;
use crate::age::{FlowAge, Sums};
use crate::memory::MemoryBound;
use crate::model::Fates;
use crate::over_time::Segment;
use crate::quantile::Values;
use crate::run::{NO_REASON, Records, RunData};
use crate::stream::Streams;
use crate::testing::Story;
use crate::{Analysis, Options};

/// Numbers from which a history is generated.
type Row = (u8, u8, u8, u8, i64);

/// Returns an id with few workers, sequence numbers and attempts; some belong to no packet, and some are far from all others.
fn id((worker, seq, attempt): (u8, u8, u8)) -> PacketId {
    match seq {
        250.. => PacketId::new(u32::from(worker % 4), u32::MAX - u32::from(seq), attempt % 2),
        _ => {
            PacketId::new(u32::from(worker % 4), u32::from(seq % 9) * if seq > 200 { 70 } else { 1 }, (attempt % 8) / 6)
        }
    }
}

fn cluster(of: u8) -> u16 {
    if of > 230 { NO_CLUSTER } else { u16::from(of % 3) }
}

/// Creates a run; with `in_order`, rows are in chronological order.
fn story(sent: &[Row], books: &[Row], received: &[Row], in_order: bool) -> Story {
    let mut story = Story::new();
    let records = &mut story.records;
    for &(worker, seq, attempt, other, t) in sent {
        let id = id((worker, seq, attempt));
        let t = t % 1_000;
        records.sent.t_gen_ps.push(t);
        // Some are withheld, and some are sent much later.
        let later = if other == 3 { 1 << 43 } else { i64::from(other) };
        records.sent.t_sent_ps.push((other > 40 || other == 3).then_some(t + later));
        records.sent.cluster.push(cluster(worker.wrapping_add(other / 50)));
        records.sent.worker.push(id.worker());
        records.sent.seq.push(id.seq());
        records.sent.attempt.push(id.attempt());
        records.sent.reward.push((other > 20).then_some(f32::from(other)));
    }
    let in_time = |rows: &[Row]| {
        let mut rows = rows.to_vec();
        if in_order {
            rows.sort_by_key(|row| row.4);
        }
        rows
    };
    for (what, worker, seq, other, t) in in_time(books) {
        let action = Action::ALL[usize::from(what) % Action::ALL.len()];
        let replaced = matches!(action, Action::Merged | Action::Subsumed | Action::Outranked);
        let out = if other > 200 { id((worker, seq, what)) } else { id((other, seq, what)) };
        records.books.t_ps.push(1_000 + t);
        records.books.node.push(u16::from(other % 2));
        records.books.packet_in.push(id((worker, seq, what)).0);
        records.books.action.push(action as u8);
        records.books.packet_out.push(if replaced || other > 240 { out.0 } else { NO_PACKET });
        let reason = Reason::ALL[usize::from(other) % Reason::ALL.len()];
        records.books.reason.push(if action == Action::Dropped { reason as u8 } else { NO_REASON });
    }
    for (worker, seq, attempt, other, t) in in_time(received) {
        let packet = id((worker, seq, attempt));
        records.received.t_recv_ps.push(2_000 + t);
        records.received.packet.push(if other == 255 { NO_PACKET } else { packet.0 });
        records.received.cluster.push(cluster(worker.wrapping_add(other / 50)));
        records.received.newest_gen_ps.push(t % 1_000);
        records.received.count.push(u16::from(other % 4));
        records.received.bytes.push(u32::from(other));
        records.received.accepted.push(other % 2 == 0);
        records.received.heat.push(other % 2);
        records.received.last.push(other % 3 > 0);
        records.received.wrong.push(other % 5 == 0);
    }
    records.sent.bytes = vec![256; sent.len()];
    story
}

fn stories() -> impl Strategy<Value = Story> {
    let rows =
        |most: usize| prop::collection::vec((any::<u8>(), any::<u8>(), any::<u8>(), any::<u8>(), 0i64..5_000), 0..most);
    (rows(80), rows(120), rows(60), any::<bool>())
        .prop_map(|(sent, books, received, in_order)| story(&sent, &books, &received, in_order))
}

/// Results of a resolver.
#[derive(Debug, PartialEq)]
struct Told {
    balances: Vec<Balance>,
    all: Balance,
    updates: Balance,
    numbers: (u64, u64),
    device_ps: Vec<i64>,
    /// For each row of `received`: the packet and its members.
    received: Vec<(Option<u64>, Vec<u64>)>,
}

const WORKERS: usize = 4;

/// How a history is read: the family of its account, whether its device keeps no books, and whether results name their transmissions.
#[derive(Debug, Clone, Copy)]
struct Reading {
    family: Family,
    unseen: bool,
    exact: bool,
}

fn ours(records: &Records, manifest: &Manifest, Reading { family, unseen, exact }: Reading) -> Told {
    let mut packets = PacketTable::default();
    packets.read(&records.sent).unwrap();
    let mut resolver = Resolver::new(packets, family, exact);
    let unseen = unseen.then(|| Unseen::of(manifest));
    if unseen.is_none() {
        resolver.read_books(&records.books);
        resolver.close_books();
    }
    let mut received = Vec::new();
    resolver.read_received(&records.received, unseen.as_ref(), &mut |packets, _, packet, members| {
        let mut members: Vec<u64> = members.iter().map(|member| packets.id(*member).0).collect();
        members.sort_unstable();
        received.push((packet.map(|packet| packets.id(packet).0), members));
    });
    resolver.finish(unseen.is_some());
    let tallies = Tallies::of(&resolver.packets);
    let mut device_ps = Vec::new();
    resolver.device_ps.scan(&mut |part| device_ps.extend_from_slice(part)).unwrap();
    Told {
        balances: tallies.balances(WORKERS).0,
        all: tallies.balance_of(|_, _| true),
        updates: tallies.balance_of(|_, update| update),
        numbers: (resolver.duplicates, resolver.contradictions),
        device_ps,
        received,
    }
}

fn theirs(records: &Records, manifest: &Manifest, Reading { family, unseen, exact }: Reading) -> Told {
    let fates = match unseen {
        true => Fates::resolve_unseen(records, manifest, family),
        false => Fates::resolve_as(records, family, exact),
    };
    let sent = &records.sent;
    let id = |row: u32| {
        let row = row as usize;
        PacketId::new(sent.worker[row], sent.seq[row], sent.attempt[row]).0
    };
    let packet = |row: usize| Some(fates.received_packet[row]).filter(|row| *row != u32::MAX).map(id);
    let members = |row: usize| {
        let mut members: Vec<u64> = fates.members_of(row).iter().map(|row| id(*row)).collect();
        members.sort_unstable();
        members
    };
    let without = |mut balance: Balance| {
        balance.unknown -= fates.contradictions as i64;
        balance
    };
    let of_worker = |worker: usize| without(fates.balance_of(|row| sent.worker[row] as usize == worker));
    Told {
        balances: (0..WORKERS).map(of_worker).collect(),
        all: without(fates.balance()),
        updates: without(fates.balance_of(|row| is_update(sent.cluster[row]))),
        numbers: (fates.duplicates, fates.contradictions),
        device_ps: fates.device_latency_ps.clone(),
        received: (0..records.received.packet.len()).map(|row| (packet(row), members(row))).collect(),
    }
}

/// Computes ages by sorting the events of each flow.
fn sorted_ages(records: &Records, fates: &Fates) -> [Vec<FlowAge>; 2] {
    #[derive(Default)]
    struct Events {
        generated: Vec<i64>,
        older: Vec<i64>,
        deliveries: Vec<(i64, i64)>,
    }
    let (sent, received) = (&records.sent, &records.received);
    let mut flows: [BTreeMap<u32, Events>; 2] = Default::default();
    for row in (0..sent.cluster.len()).filter(|row| is_update(sent.cluster[*row])) {
        let t = sent.t_gen_ps[row];
        flows[0].entry(u32::from(sent.cluster[row])).or_default().generated.push(t);
        flows[1].entry(sent.worker[row]).or_default().generated.push(t);
    }
    for row in (0..received.cluster.len()).filter(|row| is_update(received.cluster[*row])) {
        let members = fates.members_of(row).iter().map(|member| sent.t_gen_ps[*member as usize]);
        let members: Vec<i64> = members.collect();
        if !members.is_empty() {
            flows[0].entry(u32::from(received.cluster[row])).or_default().older.extend(members);
        }
    }
    for row in (0..received.cluster.len()).filter(|row| is_update(received.cluster[*row])) {
        let delivery = (received.t_recv_ps[row], received.newest_gen_ps[row]);
        if received.packet[row] != NO_PACKET {
            let of_cluster = flows[0].get_mut(&u32::from(received.cluster[row]));
            of_cluster.into_iter().for_each(|flow| flow.deliveries.push(delivery));
            for member in fates.members_of(row) {
                let of_worker = flows[1].get_mut(&sent.worker[*member as usize]);
                of_worker.into_iter().for_each(|flow| flow.deliveries.push(delivery));
            }
        }
    }
    flows.map(|flows| {
        let age = |(id, mut flow): (u32, Events)| {
            let start = *flow.generated.iter().chain(&flow.older).min().unwrap();
            let end = *flow.generated.iter().chain(flow.deliveries.iter().map(|(t, _)| t)).max().unwrap_or(&i64::MIN);
            flow.deliveries.sort_by_key(|(t, _)| *t);
            let (mut since, mut fresh, mut sums, mut ends) = (start, start, Sums::default(), Vec::<Segment>::new());
            for &(t, generation) in flow.deliveries.iter().filter(|(t, _)| *t >= start) {
                if generation > fresh {
                    ends.push([since - fresh, t - fresh]);
                    (since, fresh) = (t, generation);
                }
            }
            ends.push([since - fresh, end - fresh]);
            let last = ends.len() - 1;
            ends.iter().enumerate().for_each(|(i, [a, b])| sums.add(*a, *b, i < last));
            sums.age(id, !flow.deliveries.is_empty(), ends.as_slice()).unwrap()
        };
        flows.into_iter().map(age).collect()
    })
}

fn analysis(story: &Story, records: Streams, dir: &std::path::Path, memory: MemoryBound) -> Analysis {
    let run = RunData {
        dir: dir.to_owned(),
        manifest: story.manifest(),
        records: Some(records),
        states: None,
        rounds: None,
        lanes: None,
        names: None,
        stamps: None,
        verified: pktgen_core::record::Verified::Waived,
    };
    Analysis::new(run, Options { memory, ..Options::default() }).unwrap()
}

proptest! {
    #[test]
    fn histories_are_resolved_as_by_the_model(story in stories()) {
        let mut manifest = story.manifest();
        manifest.clusters = vec![0, 0, 1, 1];
        for (family, at_server) in
            [(Family::Updates, false), (Family::Results, false), (Family::Results, true), (Family::Pairs, false)]
        {
            manifest.unseen = Some(pktgen_core::record::Unseen { at_server, ..Default::default() });
            for (unseen, exact) in [(false, false), (false, true), (true, false)] {
                let reading = Reading { family, unseen, exact };
                let told = ours(&story.records, &manifest, reading);
                prop_assert_eq!(told, theirs(&story.records, &manifest, reading), "{:?}", reading);
            }
        }
    }

    #[test]
    fn ages_are_those_of_sorting(story in stories()) {
        let fates = Fates::resolve(&story.records);
        let run = analysis(&story, story.records.clone().into(), "".as_ref(), MemoryBound::default());
        let ages = run.resolved.as_ref().unwrap().ages().unwrap();
        let [clusters, workers] = sorted_ages(&story.records, &fates);
        prop_assert_eq!(&ages.clusters, &clusters);
        prop_assert_eq!(&ages.workers, &workers);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn batches_of_files_that_spill_say_what_memory_says(story in stories()) {
        let dir = tempfile::tempdir().unwrap();
        story.write(dir.path());
        let whole = analysis(&story, story.records.clone().into(), dir.path(), MemoryBound::default());
        let parts = analysis(&story, Streams::Files(dir.path().to_owned()), dir.path(), MemoryBound::bytes(0));
        prop_assert_eq!(whole.lines().unwrap(), parts.lines().unwrap());
    }
}

#[test]
fn numbers_that_no_run_gives_are_found_in_a_map() {
    let mut sent = crate::run::SentColumns::default();
    for (worker, seq) in [(0, 0), (1 << 23, 7), (0, 1 << 30), (5, 1), (5, 4_000), (0, 1)] {
        sent.t_gen_ps.push(5);
        sent.t_sent_ps.push(Some(5 + (1 << 50)));
        sent.cluster.push(0);
        sent.worker.push(worker);
        sent.seq.push(seq);
        sent.attempt.push(0);
    }
    let mut packets = PacketTable::default();
    packets.read(&sent).unwrap();
    for (worker, seq) in sent.worker.iter().zip(&sent.seq) {
        let id = PacketId::new(*worker, *seq, 0);
        let number = packets.number(id.0).unwrap();
        assert_eq!(
            (packets.worker(number), packets.id(number), packets.t_sent(number)),
            (*worker, id, Some(5 + (1 << 50)))
        );
    }
    assert_eq!((packets.number(PacketId::new(5, 2, 0).0), packets.present().count()), (None, 6));
    assert!(packets.numbers() <= 6 * 64, "tables do not grow by what a damaged row says");
}

/// The size of a packet's entry equals that in docs/records.md.
#[test]
fn a_packet_takes_28_bytes() {
    assert_eq!(crate::packets::BYTES, 28);
}
