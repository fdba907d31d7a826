//! Random contributions: the model agrees, bursts may be split, jobs do not affect each other, and nothing panics.

use std::collections::{BTreeMap, BTreeSet};

use crate::format::Header;
use pktgen_core::config::Value;
use pktgen_core::record::{Action, PacketId, Reason};
use pktgen_core::time::{MS, Time, US};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::naive::{Job, Naive};
use super::rig::{Input, Plain, ROOM, Rig, Row, job};
use pktgen_engine::frame::{Frame, Kind};
use pktgen_engine::groups::JobPlace;

/// Sources of two jobs; the second has a device below, and an id beyond the first word of the mask.
const SOURCES: [&[(u8, u8)]; 2] = [&[(0, 1), (1, 1), (2, 1)], &[(0, 1), (2, 3), (200, 1)]];

fn jobs() -> Vec<JobPlace> {
    vec![job(SOURCES[0], None, &[0, 1]), job(SOURCES[1], None, &[1, 2])]
}

fn keys(blocks: u32, mitigation: bool, tombstones: bool, chip: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("block_cnt_max", blocks.into()),
        ("block_grad_max", 4u32.into()),
        ("timers", 3u32.into()),
        ("timeout", "1ms".into()),
        ("mitigation", mitigation.into()),
        ("tombstones", tombstones.into()),
        ("straggler_interval", "1000s".into()),
        ("chip", chip.into()),
    ]
}

/// Numbers from which a contribution is generated.
type Step = ((i64, u8, u32, u16, usize), (u8, u8, usize, [i32; 5]));

fn inputs(most: usize) -> impl Strategy<Value = Vec<Input>> {
    let numbers = (0i64..900, 0u8..40, 0u32..3, 0u16..40, 0usize..40);
    let words = (1u8..40, 0u8..40, prop::sample::select(vec![3usize, 3, 3, 3, 3, 3, 3, 2, 5]), any::<[i32; 5]>());
    let one = (numbers, words);
    prop::collection::vec(one, 1..most).prop_map(|steps| {
        let mut t = 0;
        let make = |(i, step): (usize, Step)| {
            let ((dt, which, block, generation, source), (sources, flags, elements, values)) = step;
            // Occasionally a long pause; many at the same time.
            t += if dt < 750 { 0 } else { (dt - 750) * 10 * US };
            let job = [0, 0, 1, 1, 1, 0, 0, 1].get(usize::from(which)).copied().unwrap_or(which % 2);
            let job = if which == 39 { 7 } else { job };
            let ids = SOURCES[usize::from(job % 2)];
            let header = Header {
                job,
                // Workers proceed from block to block.
                block: i as u32 / 24 + block,
                age_op: if flags < 3 { flags } else { 0 },
                last: flags == 5,
                degraded: flags == 6,
                source: if source > 38 { 77 } else { ids[source % 3].0 },
                sources: if sources < 34 { 1 } else { sources - 34 },
                // Mostly one iteration; the other ones are around the wrap-around.
                generation: generation.saturating_sub(37).wrapping_sub(1),
                elements: 0,
            };
            Input { t, header, values: values[..elements].to_vec(), packet: PacketId::new(0, i as u32, 0) }
        };
        steps.into_iter().enumerate().map(make).collect()
    })
}

fn not_departed(rows: &[Row]) -> Vec<Row> {
    rows.iter().filter(|row| row.2 != Action::Departed).copied().collect()
}

/// Every packet ends once: dropped, merged, or as the one whose id a departing Result has.
fn fates(rows: &[Row], inputs: usize) -> Result<(), TestCaseError> {
    let mut ends = BTreeMap::new();
    for (_, packet, action, ..) in rows {
        *ends.entry((*packet, *action as u8)).or_insert(0) += 1;
    }
    for i in 0..inputs {
        let count = |action: Action| ends.get(&(PacketId::new(0, i as u32, 0), action as u8)).copied().unwrap_or(0);
        let departed = count(Action::Departed);
        prop_assert_eq!(count(Action::Queued), departed);
        prop_assert_eq!(count(Action::Merged) + count(Action::Dropped) + departed, 1);
    }
    prop_assert!(rows.windows(2).all(|pair| pair[0].0 <= pair[1].0), "times never decrease");
    Ok(())
}

#[test]
fn random_contributions_reach_every_rule() {
    let (mut runner, strategy) = (TestRunner::deterministic(), inputs(150));
    let (mut reasons, mut counters) = (BTreeSet::new(), BTreeMap::new());
    for _ in 0..100 {
        let inputs = strategy.new_tree(&mut runner).unwrap().current();
        let mut rig = Rig::new(jobs(), &keys(3, true, true, "none"));
        inputs.iter().for_each(|input| rig.offer(input));
        rig.finish();
        reasons.extend(rig.drops().iter().map(|reason| reason.name()));
        rig.program.counters().iter().for_each(|own| *counters.entry(own.name).or_insert(0) += own.value);
    }
    use Reason::*;
    for reason in [Malformed, UnknownJob, UnknownSource, WrongCount, Duplicate, Stale, TableFull, Late] {
        assert!(reasons.contains(reason.name()), "{}", reason.name());
    }
    for name in ["aged", "evicted", "late", "duplicates"] {
        assert!(counters[name] > 50, "{name}: {}", counters[name]);
    }
    let complete = counters["results"] - counters["aged"] - counters["evicted"];
    assert!(complete > 200, "{complete} blocks were complete");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]
    #[test]
    fn agrees_with_the_blackboard(
        inputs in inputs(150), blocks in 1u32..6, mitigation: bool, tombstones: bool,
    ) {
        let mut naive = Naive::new(vec![
            Job { sources: SOURCES[0].to_vec(), timeout_ms: 1 },
            Job { sources: SOURCES[1].to_vec(), timeout_ms: 2 },
        ]);
        (naive.blocks_max, naive.gradients_max) = (blocks as usize, 4);
        (naive.mitigation, naive.tombstones) = (mitigation, tombstones);
        inputs.iter().for_each(|input| naive.offer(input));
        naive.pass(inputs.last().unwrap().t + 10 * MS);
        for chip in ["none", "trio"] {
            let mut rig = Rig::new(jobs(), &keys(blocks, mitigation, tombstones, chip));
            for input in &inputs {
                rig.pass(input.t);
                rig.offer(input);
            }
            rig.finish();
            let mut sent = rig.sent();
            let mut expected: Vec<(u32, Plain)> = Vec::new();
            for (link, own) in [(0, vec![0]), (1, vec![0, 1]), (2, vec![1])] {
                let results = naive.results.iter().filter(|result| own.contains(&result.header[0]));
                expected.extend(results.map(|result| (link, result.clone())));
            }
            let rows = rig.rows();
            if chip == "trio" {
                // The chip delays the output and changes nothing else.
                sent.sort();
                expected.sort();
                prop_assert_eq!(not_departed(&rows), not_departed(&naive.rows));
                prop_assert!(naive.results.is_empty() || rig.counter("packet_time_ps") > 0);
            } else {
                prop_assert_eq!(&rows, &naive.rows);
            }
            prop_assert_eq!(&sent, &expected);
            prop_assert_eq!(rig.counter("late"), naive.late);
            prop_assert_eq!(rig.counter("results") as usize, naive.results.len());
            prop_assert_eq!(rig.pool.in_use(), 0, "records that wait hold no buffer, and nothing leaks");
            if mitigation {
                fates(&rows, inputs.len())?;
                prop_assert!(naive.open.is_empty());
            }
        }
    }

    #[test]
    fn splitting_a_burst_anywhere_changes_nothing(
        inputs in inputs(80), sizes in prop::collection::vec(1usize..9, 1..20), chip in prop::sample::select(vec!["none", "trio"]),
    ) {
        let mut keys = keys(3, true, false, chip);
        keys.retain(|(key, _)| *key != "straggler_interval");
        keys.extend([
            ("straggler_interval", "2ms".into()), ("straggler_min", 1u32.into()), ("straggler_misses", 0.5.into()),
            ("remove_stragglers", true.into()), ("chip_threads", 2u32.into()),
        ]);
        let run = |sizes: &[usize], timers: bool| {
            let mut rig = Rig::new(jobs(), &keys);
            let frames: Vec<Frame> = inputs.iter().map(|input| rig.frame(input)).collect();
            let (mut rest, mut sizes) = (&frames[..], sizes.iter().cycle());
            while !rest.is_empty() {
                let size = (*sizes.next().unwrap()).min(rest.len());
                if timers {
                    rig.pass(rest[0].t);
                }
                rig.burst(&rest[..size]);
                rest = &rest[size..];
            }
            rig.finish();
            (rig.rows(), rig.sent(), rig.program.counters())
        };
        let whole = run(&[inputs.len()], false);
        prop_assert_eq!(&run(&sizes, false), &whole);
        prop_assert_eq!(&run(&sizes, true), &whole);
        prop_assert_eq!(&run(&[1], true), &whole);
    }

    #[test]
    fn jobs_do_not_disturb_each_other(inputs in inputs(120), blocks in 1u32..4, tombstones: bool) {
        let run = |only: Option<u8>| {
            let mut rig = Rig::new(jobs(), &keys(blocks, true, tombstones, "none"));
            inputs.iter().filter(|input| only.is_none_or(|job| input.header.job == job)).for_each(|i| rig.offer(i));
            rig.finish();
            (rig.rows(), rig.sent())
        };
        let (rows, sent) = run(None);
        for job in 0..2 {
            let alone = run(Some(job));
            let own = |packet: PacketId| inputs[packet.seq() as usize].header.job == job;
            let mine: Vec<_> = rows.iter().filter(|row| own(row.1)).copied().collect();
            prop_assert_eq!(mine, alone.0);
            let mine: Vec<_> = sent.iter().filter(|(_, plain)| plain.header[0] == u32::from(job)).cloned().collect();
            prop_assert_eq!(mine, alone.1);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        packets in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..120), 0u8..6, any::<bool>()), 1..40),
    ) {
        let mut rig = Rig::new(jobs(), &keys(2, true, false, "trio"));
        for (i, (bytes, kind, plausible)) in packets.iter().enumerate() {
            let input = Input {
                t: i as Time * 100 * US, header: Header::default(), values: vec![0; 16],
                packet: PacketId::new(0, i as u32, 0),
            };
            let mut frame = rig.frame(&input);
            frame.kind = [Kind::Update, Kind::Update, Kind::Update, Kind::Result, Kind::Plain, Kind::Control][usize::from(*kind)];
            let len = bytes.len().min(usize::from(ROOM));
            frame.len = 42 + len as u16;
            let payload = rig.pool.payload_mut(&frame);
            payload.copy_from_slice(&bytes[..len]);
            if *plausible && len > 12 {
                (payload[0], payload[10]) = (payload[0] & 1, 0);
                (payload[6], payload[7]) = (payload[6] & 3, 1);
                payload[11] = ((len - 12) / 4) as u8;
                frame.len = 54 + (len - 12) as u16 / 4 * 4;
            }
            rig.burst(&[frame]);
        }
        rig.finish();
        rig.sent();
        prop_assert_eq!(rig.pool.in_use(), 0);
    }

    #[test]
    fn whoever_waits_for_a_straggler_waits_between_one_and_two_timeouts(
        blocks in prop::collection::vec((any::<u32>(), 0i64..30_000), 1..20), timers in 1u32..120, timeout_ms in 1i64..20,
    ) {
        let keys = [
            ("timers", timers.into()), ("timeout", format!("{timeout_ms}ms").into()), ("chip", "none".into()),
        ];
        let mut rig = Rig::new(vec![job(SOURCES[0], None, &[0])], &keys);
        let mut t = 0;
        let mut sent = BTreeMap::new();
        for (i, (block, dt)) in blocks.iter().enumerate() {
            t += dt * US;
            let packet = PacketId::new(0, i as u32, 0);
            let header = Header { block: *block, sources: 1, ..Default::default() };
            rig.pass(t);
            rig.offer(&Input { t, header, values: vec![1], packet });
            sent.insert(packet, t);
        }
        rig.finish();
        // Repeated blocks are dropped as duplicates or opened again.
        let mut departed = 0;
        for (t, packet, action, ..) in rig.rows() {
            if action == Action::Departed && rig.counter("duplicates") == 0 {
                departed += 1;
                let waited = t - sent[&packet];
                prop_assert!(waited > timeout_ms * MS && waited <= 2 * timeout_ms * MS, "{}", waited);
            }
        }
        prop_assert!(departed > 0 || rig.counter("duplicates") > 0);
        rig.sent();
    }
}
