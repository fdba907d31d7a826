//! Tests of the slow timer.

use crate::format::{Header, STRAGGLER};
use pktgen_core::config::Value;
use pktgen_core::record::PacketId;
use pktgen_core::time::{MS, NEVER, SECOND, Time};

use super::rig::{Input, Rig, job};

fn rig(remove: bool) -> Rig {
    let keys: [(&str, Value); 2] = [("chip", "none".into()), ("remove_stragglers", remove.into())];
    Rig::new(vec![job(&[(0, 1), (1, 1), (2, 1)], None, &[0, 1])], &keys)
}

/// Sends every block of `blocks` from these sources, 40 ms apart.
fn send(rig: &mut Rig, from: Time, blocks: std::ops::Range<u32>, sources: impl Fn(u32) -> Vec<u8>) {
    for block in blocks {
        let t = from + Time::from(block) * 40 * MS;
        for source in sources(block) {
            let header = Header { block, source, sources: 1, ..Default::default() };
            rig.pass(t);
            rig.offer(&Input { t, header, values: vec![1], packet: PacketId::new(source.into(), block, 0) });
        }
    }
}

#[test]
fn who_misses_nearly_all_is_out_of_service_and_the_others_are_told() {
    let mut rig = rig(false);
    // Source 2 is always missing, source 1 misses two blocks.
    send(&mut rig, 0, 0..20, |block| if block < 2 { vec![0] } else { vec![0, 1] });
    rig.pass(2 * SECOND);
    assert_eq!(
        (rig.counter("aged"), rig.counter("permanent_stragglers")),
        (20, 0),
        "no tick yet: nothing is under way"
    );
    assert_eq!(rig.program.next_wake(), NEVER, "and a simulation can end");
    send(&mut rig, 2 * SECOND, 20..21, |_| vec![0, 1]);
    assert_eq!((rig.counter("permanent_stragglers"), rig.counter("temporary_stragglers")), (1, 1), "it is made up for");
    rig.finish();
    let told: Vec<_> = rig.sent().into_iter().filter(|(_, plain)| plain.header[6] == u32::from(STRAGGLER)).collect();
    let expected = [0, 0, 0, 2, 0, 0, u32::from(STRAGGLER), 0, 0];
    assert_eq!(
        told.iter().map(|(link, plain)| (*link, plain.header)).collect::<Vec<_>>(),
        [(0, expected), (1, expected)]
    );
    assert_eq!(rig.counter("notifications"), 1);
    assert_eq!(rig.pool.in_use(), 0);
}

#[test]
fn the_slow_timer_ticks_by_itself_while_blocks_are_under_way() {
    let mut rig = rig(false);
    send(&mut rig, 0, 0..25, |_| vec![0, 1]);
    // A block is in progress across the tick at 1 s.
    send(&mut rig, -10 * MS, 25..26, |_| vec![0]);
    rig.pass(SECOND - 1);
    assert_eq!(rig.counter("permanent_stragglers"), 0);
    rig.pass(SECOND);
    assert_eq!((rig.counter("aged"), rig.counter("permanent_stragglers")), (25, 1));
    rig.finish();
    rig.sent();
}

#[test]
fn few_aged_blocks_make_nobody_permanent() {
    let mut rig = rig(true);
    send(&mut rig, 0, 0..9, |_| vec![0, 1]);
    send(&mut rig, SECOND, 9..10, |_| vec![0, 1, 2]);
    assert_eq!((rig.counter("permanent_stragglers"), rig.counter("temporary_stragglers")), (0, 1));
    rig.finish();
    rig.sent();
}

#[test]
fn second_records_of_late_packets_blame_nobody() {
    let mut rig = rig(false);
    send(&mut rig, 0, 0..12, |_| vec![0, 1]);
    // Source 2 arrives 30 ms after the others each time: too late.
    let mut other = self::rig(false);
    for block in 0..12u32 {
        for (source, late) in [(0, 0), (1, 0), (2, 30 * MS)] {
            let t = Time::from(block) * 60 * MS + late;
            let header = Header { block, source, sources: 1, ..Default::default() };
            other.pass(t);
            other.offer(&Input { t, header, values: vec![1], packet: PacketId::new(source.into(), block, 0) });
        }
    }
    other.pass(SECOND);
    for rig in [&mut rig, &mut other] {
        send(rig, SECOND, 40..41, |_| vec![0, 1, 2]);
        assert_eq!((rig.counter("permanent_stragglers"), rig.counter("temporary_stragglers")), (1, 0));
        rig.finish();
        rig.sent();
    }
    assert_eq!((rig.counter("aged"), other.counter("aged"), other.counter("late")), (12, 24, 12));
}

#[test]
fn who_is_removed_comes_back_when_it_sends_again() {
    let mut rig = rig(true);
    send(&mut rig, 0, 0..20, |_| vec![0, 1]);
    rig.pass(2 * SECOND);
    send(&mut rig, 2 * SECOND, 20..22, |_| vec![0, 1]);
    assert_eq!((rig.counter("removed_stragglers"), rig.counter("results")), (1, 22), "complete without it, at once");
    let last = rig.sent().pop().unwrap().1;
    assert_eq!((last.header[4], last.header[6], last.header[8]), (2, 0, 1), "two sources, not aged, partial");
    assert_eq!(rig.program.next_wake(), NEVER);
    // It sends, is not accepted yet, and the next slow tick readmits it although nothing else is in progress.
    send(&mut rig, 2 * SECOND, 22..23, |_| vec![2]);
    // Its contribution is not lost: those of the others may still arrive.
    assert!(rig.drops().is_empty());
    rig.pass(3 * SECOND);
    assert_eq!((rig.counter("readmitted_stragglers"), rig.program.next_wake()), (1, NEVER));
    let alone = rig.sent().pop().unwrap().1;
    assert_eq!((alone.header[4], alone.header[8]), (1, 1), "aged");
    send(&mut rig, 4 * SECOND, 23..24, |_| vec![0, 1, 2]);
    let last = rig.sent().pop().unwrap().1;
    assert_eq!((last.header[4], last.header[8]), (3, 0));
    assert_eq!(rig.pool.in_use(), 0);
}

#[test]
fn a_job_keeps_its_sources_where_all_would_go() {
    let keys: [(&str, Value); 3] =
        [("chip", "none".into()), ("remove_stragglers", true.into()), ("straggler_misses", 0.3.into())];
    let mut rig = Rig::new(vec![job(&[(0, 1), (1, 1), (2, 1)], None, &[0])], &keys);
    send(&mut rig, 0, 0..12, |block| vec![(block % 3) as u8]);
    rig.pass(SECOND);
    send(&mut rig, SECOND, 12..13, |_| vec![0, 1, 2]);
    assert_eq!((rig.counter("permanent_stragglers"), rig.counter("removed_stragglers")), (3, 0));
    rig.sent();
}

/// Source 2 is removed, and sends again or not; sources 0 and 1 then miss half of the blocks each.
#[test]
fn a_source_that_comes_back_lets_the_others_go() {
    let keys: [(&str, Value); 3] =
        [("chip", "none".into()), ("remove_stragglers", true.into()), ("straggler_misses", 0.3.into())];
    for (is_back, removed) in [(true, 3), (false, 1)] {
        let mut rig = Rig::new(vec![job(&[(0, 1), (1, 1), (2, 1)], None, &[0])], &keys);
        send(&mut rig, 0, 0..12, |_| vec![0, 1]);
        rig.pass(SECOND);
        send(&mut rig, SECOND, 12..13, |_| vec![0, 1]);
        assert_eq!((rig.counter("removed_stragglers"), rig.counter("readmitted_stragglers")), (1, 0));
        send(&mut rig, SECOND, 13..25, |block| vec![(block % 2) as u8]);
        send(&mut rig, SECOND, 24..25, |_| if is_back { vec![2] } else { Vec::new() });
        rig.pass(2 * SECOND);
        send(&mut rig, 2 * SECOND, 25..26, |_| vec![0, 1, 2]);
        assert_eq!(rig.counter("permanent_stragglers"), 3, "source 2 once, then sources 0 and 1");
        assert_eq!(rig.counter("removed_stragglers"), removed, "nobody would be left without source 2");
        rig.finish();
        rig.sent();
    }
}
