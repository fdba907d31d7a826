//! Tests of times by hand, and of random traffic with a simple model.

mod bed;
mod traffic;

use super::*;
use crate::format::Kind as What;
use bed::{Bed, US, packets};
use pktgen_core::record::PacketId;
use pktgen_core::time::{MS, SECOND};

/// 1 µs per pair and 2 µs per packet.
const SLOW: [(&str, &str); 2] = [("service_rate", "1000000"), ("service_per_packet", "2us")];

#[test]
fn one_message_after_the_other() {
    let mut bed = Bed::new(1, 2, &SLOW, false);
    let ten: Vec<_> = (0..10).map(|key| (key, 1.0)).collect();
    bed.push(0, 0, 1, 0, &ten);
    bed.push(5 * US, 1, 1, 0, &ten[..3]);
    bed.push(100 * US, 0, 3, 0, &ten[..1]);
    bed.push(100 * US, 1, 1, 1, &ten[..3]);
    let acks: Vec<_> = bed.out(1000 * US).iter().map(|p| (p.t / US, p.worker, p.header.kind, p.header.seq)).collect();
    assert_eq!(acks, [(12, 0, What::Ack, 1), (17, 1, What::Ack, 1), (103, 0, What::Ack, 3), (105, 1, What::Ack, 1)]);
    let rows: Vec<_> = bed.rows.iter().map(|row| (row.packet, row.accepted)).collect();
    let id = PacketId::new;
    assert_eq!(rows, [(id(0, 1, 0), true), (id(1, 1, 0), true), (id(0, 3, 0), true), (id(1, 1, 1), false)]);
    assert_eq!(bed.counter("busy_ns"), 12_000 + 5_000 + 3_000 + 2_000);
    assert_eq!((bed.counter("packets"), bed.counter("pairs"), bed.counter("duplicates")), (4, 14, 1));
    assert_eq!((bed.counter("queue_max"), bed.host.acks_sent), (2, 4));
    bed.is_over();
}

#[test]
fn an_ack_is_the_shortest_frame() {
    let mut bed = Bed::new(1, 1, &[("service_rate", "0")], false);
    bed.push(7, 0, 1, 0, &[(1, 1.0)]);
    let frame = bed.host.outgoing[0].frame;
    assert_eq!((frame.len, frame.t, frame.flow, frame.kind, bed.host.outgoing[0].node), (48, 7, 1, Kind::Control, 0));
    assert!(bed.host.outgoing[0].record.is_none());
    let bytes = bed.pool.frame(&frame);
    assert_eq!(&bytes[42..], &[2 << 5, 0, 0, 0, 0, 1]);
    assert_eq!(&bytes[26..38], &[198, 18, 0, 1, 10, 0, 0, 1, 0x11, 0xb4, 0x11, 0xb5]);
}

#[test]
fn results_follow_the_last_end_in_the_order_of_the_pushes() {
    let mut bed = Bed::new(1, 2, &SLOW, false);
    bed.push(0, 0, 1, 0, &[(7, 1.0), (8, 2.0)]);
    bed.push(0, 1, 1, 0, &[(8, 0.5), (9, -0.25)]);
    bed.push(0, 0, 3, 0, &[(9, 4.0)]);
    bed.end(20 * US, 0, 5, 0);
    assert!(bed.out(60 * US).iter().all(|p| p.header.kind == What::Ack), "the other worker has not ended");
    bed.end(60 * US, 1, 3, 0);
    bed.end(60 * US, 1, 3, 0);
    let out = bed.out(80 * US);
    let told: Vec<_> = out.iter().map(|p| (p.t / US, p.worker, p.header.kind, p.header.seq, p.pairs.clone())).collect();
    assert_eq!(
        told,
        [
            (62, 1, What::Ack, 3, vec![]),
            (66, 0, What::Result, 1, vec![(7, 1.0), (8, 2.5)]),
            (70, 1, What::Result, 1, vec![(8, 2.5), (9, 3.75)]),
            (73, 0, What::Result, 3, vec![(9, 3.75)]),
            (75, 1, What::Ack, 3, vec![]),
        ]
    );
    for (worker, seq) in [(0, 1), (1, 1), (0, 3), (0, 1)] {
        bed.ack(80 * US, worker, seq);
    }
    // The sums are cleared.
    bed.push(100 * US, 0, 7, 0, &[(8, 1.0)]);
    bed.end(110 * US, 0, 9, 1);
    bed.end(110 * US, 1, 5, 1);
    let last = bed.out(130 * US).pop().unwrap();
    assert_eq!((last.header.kind, last.pairs), (What::Result, vec![(8, 1.0)]));
    assert_eq!(bed.server.unfinished(), None);
    assert_eq!((bed.counter("results"), bed.counter("results_resent")), (4, 0));
    bed.ack(140 * US, 0, 7);
    bed.is_over();
}

#[test]
fn a_result_is_sent_again_fifteen_times() {
    let mut bed = Bed::new(1, 1, &[("service_rate", "0"), ("timeout", "1ms")], false);
    bed.push(0, 0, 1, 0, &[(7, 1.5)]);
    bed.end(0, 0, 3, 0);
    let results: Vec<_> = packets(&bed.out(SECOND), What::Result);
    let times: Vec<_> = results.iter().map(|p| p.t / MS).collect();
    assert_eq!(times, [0, 1, 3, 7, 15, 31, 47, 63, 79, 95, 111, 127, 143, 159, 175, 191]);
    assert_eq!(results.iter().map(|p| p.header.attempt).collect::<Vec<_>>(), (0..16).collect::<Vec<u8>>());
    assert!(results.iter().all(|p| p.pairs == [(7, 1.5)]));
    assert_eq!((bed.counter("results"), bed.counter("results_resent")), (1, 15));
    let why = bed.server.unfinished().unwrap();
    assert!(why.contains("1 results") && why.contains("16 times"), "{why}");
    bed.is_over();
}

#[test]
fn an_acknowledged_result_is_not_sent_again() {
    let mut bed = Bed::new(1, 1, &[("service_rate", "1000"), ("timeout", "1ms")], false);
    bed.push(0, 0, 1, 0, &[(7, 1.5)]);
    bed.end(0, 0, 3, 0);
    // It leaves at 2 ms, and takes 1 ms again after the timer: it is acknowledged while it waits.
    assert_eq!(packets(&bed.out(3 * MS), What::Result).len(), 1);
    bed.ack(3 * MS + US, 0, 1);
    assert_eq!(bed.out(SECOND).len(), 0);
    assert_eq!(bed.server.unfinished(), None);
    bed.is_over();
}

#[test]
fn no_more_than_a_window_of_results_is_under_way() {
    let mut bed = Bed::new(1, 1, &[("service_rate", "0"), ("cold_window", "4")], false);
    for i in [1, 2, 3, 0, 5, 4] {
        bed.push(0, 0, 2 * i + 1, 0, &[(1, 1.0)]);
    }
    bed.end(0, 0, 13, 0);
    let numbers =
        |bed: &mut Bed| packets(&bed.out(US), What::Result).iter().map(|p| p.header.seq >> 1).collect::<Vec<_>>();
    assert_eq!(numbers(&mut bed), [1, 2, 3, 0]);
    bed.ack(US, 0, 5);
    assert_eq!(numbers(&mut bed), [0u32; 0], "0 and 1 are not acknowledged");
    bed.ack(US, 0, 1);
    assert_eq!(numbers(&mut bed), [0u32; 0], "5 is 4 after 1");
    bed.ack(US, 0, 3);
    assert_eq!(numbers(&mut bed), [5, 4]);
    for seq in [7, 9, 11] {
        bed.ack(US, 0, seq);
    }
    bed.is_over();
}

#[test]
fn pulls_read_the_sums_as_they_are() {
    let mut bed = Bed::new(1, 2, &SLOW, true);
    bed.push(0, 0, 1, 0, &[(7, 1.0), (8, 2.0)]);
    bed.pull(US, 1, 1, 0, &[7, 9]);
    bed.push(2 * US, 1, 3, 0, &[(7, 0.5)]);
    bed.pull(3 * US, 1, 1, 1, &[7, 9]);
    let out = packets(&bed.out(SECOND), What::Result);
    let told: Vec<_> =
        out.iter().map(|p| (p.t / US, p.worker, p.header.seq, p.header.attempt, p.pairs.clone())).collect();
    assert_eq!(
        told,
        [(8, 1, 1, 0, vec![(7, 1.0), (9, 0.0)]), (15, 1, 1, 1, vec![(7, 1.5), (9, 0.0)])],
        "4 µs per pull, behind 4 µs and 3 µs of pushes"
    );
    // Ends are acknowledged, and no results are sent.
    bed.end(MS, 0, 3, 9);
    bed.end(MS, 1, 5, 9);
    assert!(bed.out(SECOND).iter().all(|p| p.header.kind == What::Ack));
    bed.pull(2 * MS, 0, 5, 0, &[7]);
    assert_eq!(bed.out(SECOND)[0].pairs, [(7, 1.5)], "the sums stay");
    bed.is_over();
}

#[test]
fn jobs_do_not_wait_for_each_other() {
    let mut bed = Bed::new(2, 1, &[("service_rate", "0")], false);
    bed.push(0, 0, 1, 0, &[(7, 1.0)]);
    bed.push(0, 1, 1, 0, &[(7, 8.0)]);
    bed.end(0, 1, 3, 0);
    let results = packets(&bed.out(US), What::Result);
    assert_eq!(
        (results.len(), results[0].worker, results[0].header.job, &results[0].pairs[..]),
        (1, 1, 1, &[(7, 8.0)][..])
    );
}

#[test]
fn a_worker_without_pushes_may_be_an_iteration_ahead() {
    let mut bed = Bed::new(1, 2, &[("service_rate", "0")], false);
    bed.end(0, 0, 1, 0);
    bed.push(US, 0, 3, 0, &[(7, 1.0)]);
    bed.end(US, 0, 5, 1);
    bed.push(US, 1, 1, 0, &[(7, 16.0)]);
    bed.end(US, 1, 3, 0);
    let results = packets(&bed.out(2 * US), What::Result);
    assert_eq!((results.len(), &results[0].pairs[..]), (1, &[(7, 16.0)][..]), "not that of the next iteration");
    bed.end(3 * US, 1, 5, 1);
    assert_eq!(packets(&bed.out(4 * US), What::Result)[0].pairs, [(7, 1.0)]);
}

#[test]
fn what_cannot_be_is_foreign() {
    let mut bed = Bed::new(1, 2, &[("service_rate", "0"), ("cold_window", "8")], false);
    bed.push(0, 0, 2, 0, &[]);
    bed.push(0, 0, 101, 0, &[(1, 1.0)]);
    bed.end(0, 0, 1, 4);
    bed.pull(0, 0, 1, 0, &[1]);
    bed.other_job(0, 0, 1);
    assert_eq!((bed.host.foreign, bed.out(US).len(), bed.rows.len()), (5, 0, 0));
    bed.is_over();
}

#[test]
fn impossible_keys_are_named_and_real_time_takes_its_own() {
    for (key, value) in [("service_rate", "-1"), ("service_per_packet", "2s"), ("cold_window", "0"), ("timeout", "0ns")]
    {
        let error = bed::open(1, 1, &[(key, value)], false, false).err().unwrap().to_string();
        assert!(error.contains(key), "{error}");
    }
    let mut server = bed::open(1, 1, &SLOW, false, true).unwrap();
    assert_eq!(server.service.serve(5, 1000), 5);
}
