//! Tests of counters with events made here.

use pktgen_registry::all;

use super::*;

/// An update of a worker, or a result with `count` contributions.
fn sight(what: What, worker: u32, seq: u32, count: u16) -> Sight {
    Sight { what, cluster: 0, worker: Some(worker), seq, round: 0, attempt: 0, generation: None, count, elements: 64 }
}

/// Adds ten sums of two workers, the second of whom the senders' captures have or not.
fn sums_of(format: &str, whole: bool) -> Meter {
    let formats = all().protocols.formats;
    let format = formats.iter().position(|known| known.name() == format).expect("a format") as u8;
    let mut meter = Meter::new(formats, true, 1 << 20);
    for seq in 0..10 {
        let mut add = |side, what, worker, count| {
            let sight = sight(what, worker, seq, count);
            meter.add(&Event { t: i64::from(seq), side, bytes: 300, format, sight, content: 0 }).expect("it is added");
        };
        for worker in 0..2 {
            if whole || worker == 0 {
                add(Side::Sender, What::Update, worker, 1);
            }
            add(Side::Server, What::Update, worker, 1);
        }
        add(Side::Server, What::Result, 0, 2);
    }
    meter.compare_sides();
    meter.count_contributors();
    meter
}

#[test]
fn contributions_of_workers_that_no_sender_shows_are_a_proof() {
    for format in all().protocols.formats {
        let delivery = format.delivery();
        if !matches!(delivery, Delivery::Results | Delivery::ResultsOfAll) {
            continue;
        }
        for whole in [true, false] {
            let totals = sums_of(format.name(), whole).totals;
            assert_eq!(totals.lacks_senders(), !whole, "{}", format.name());
            // The number of workers is not that of those who were captured.
            let uncounted = totals.uncounted_results > 0;
            assert_eq!(uncounted, delivery == Delivery::ResultsOfAll && !whole, "{}", format.name());
        }
    }
}

/// Results do not name their contributors: one that sent again may be in two of them, unless each has all workers.
#[test]
fn results_may_hold_what_was_sent_again() {
    let formats = all().protocols.formats;
    let distinct = |name: &str, again: bool, results: [(u32, u16); 2]| {
        let format = formats.iter().position(|known| known.name() == name).expect("a format") as u8;
        let mut meter = Meter::new(formats, true, 1 << 20);
        let mut t = 0;
        let mut add = |side, what, worker, seq, count| {
            let sight = sight(what, worker, seq, count);
            t += 1;
            meter.add(&Event { t, side, bytes: 300, format, sight, content: 0 }).expect("it is added");
        };
        for (seq, worker) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            add(Side::Sender, What::Update, worker, seq, 1);
        }
        if again {
            add(Side::Sender, What::Update, 0, 1, 1);
        }
        for (seq, count) in results {
            add(Side::Server, What::Result, 0, seq, count);
        }
        meter.count_contributors();
        assert_eq!(meter.totals.resent, u64::from(again), "{name}");
        meter.totals.distinct()
    };
    // Two whole blocks; one whole, then of one contribution; two of one contribution each.
    let [whole, twice, single] = [[(0, 2), (1, 2)], [(1, 2), (1, 1)], [(0, 1), (1, 1)]];
    let trio = |again| [whole, twice, single].map(|results| distinct("trio_ml", again, results));
    assert_eq!(trio(false), [Some(4), Some(3), Some(2)]);
    assert_eq!(trio(true), [None, None, Some(2)]);
    assert_eq!([false, true].map(|again| distinct("switchml", again, single)), [Some(4), Some(4)]);
}

/// Only a worker beyond the limit is refused: packets of those that are known are counted still.
#[test]
fn as_many_workers_as_may_be_are_counted() {
    let formats = all().protocols.formats;
    let format = formats.iter().position(|known| known.name() == "olaf").expect("a format") as u8;
    let mut meter = Meter { workers_max: 2, ..Meter::new(formats, false, 1 << 20) };
    let mut add = |worker: u32, seq: u32| {
        let sight = Sight { generation: Some(i64::from(seq)), ..sight(What::Update, worker, seq, 1) };
        let t = i64::from(seq) + 10;
        meter.add(&Event { t, side: Side::Server, bytes: 300, format, sight, content: 0 })
    };
    for (worker, seq) in [(5, 0), (9, 1), (5, 2), (9, 3)] {
        add(worker, seq).expect("it is counted");
    }
    let message = add(7, 4).expect_err("a third one").to_string();
    assert!(message.contains("worker 7, after 2 others: a capture has at most 2 workers"), "{message}");
}

/// Adds sent updates of a worker, each with number and attempt.
fn sent_of(format: &str, packets: impl Iterator<Item = (u32, u8)>) -> Meter {
    let formats = all().protocols.formats;
    let format = formats.iter().position(|known| known.name() == format).expect("a format") as u8;
    let mut meter = Meter::new(formats, true, 1 << 20);
    for (t, (seq, attempt)) in (0..).zip(packets) {
        let sight = Sight { attempt, elements: 16, ..sight(What::Update, 3, seq, 1) };
        meter.add(&Event { t, side: Side::Sender, bytes: 192, format, sight, content: 0 }).expect("it is added");
    }
    meter
}

/// Hot and cold updates of Libra are numbered by receiver. The header does not tell attempts beyond the 14th.
#[test]
fn copies_of_libra_are_not_sent_twice() {
    let both =
        (0..2000u32).flat_map(|number| [(number << 1, 0), (((number / 10) << 1) | 1, u8::from(number % 10 > 0))]);
    let once: Vec<_> = both.filter(|(seq, attempt)| seq & 1 == 0 || *attempt == 0).collect();
    let counted = |packets: Vec<(u32, u8)>| {
        let totals = sent_of("libra", packets.into_iter()).totals;
        [totals.sent, totals.sent_updates, totals.resent, totals.copies]
    };
    assert_eq!(counted(once.clone()), [2200, 2200, 0, 0]);
    assert_eq!(counted(once.iter().flat_map(|packet| [*packet; 2]).collect()), [2200, 2200, 0, 2200]);
    let again = |attempt| vec![(0, 0), (0, 1), (0, attempt), (0, attempt)];
    assert_eq!(counted(again(2)), [3, 1, 2, 1]);
    assert_eq!(counted(again(15)), [4, 1, 3, 0]);
}

/// A worker restarts with number 0. Each of its updates is sent again, and captured at two interfaces.
#[test]
fn copies_of_retransmissions_after_a_restart_are_not_sent_twice() {
    let formats = all().protocols.formats;
    let format = formats.iter().position(|known| known.name() == "olaf").expect("a format") as u8;
    let mut meter = Meter::new(formats, true, 1 << 20);
    for update in 0..3000u32 {
        for (packet, attempt) in [0, 0, 1, 1].into_iter().enumerate() {
            let t = i64::from(update) * 10 + packet as i64;
            let generation = Some(i64::from(update) * 10);
            let sight = Sight { attempt, generation, ..sight(What::Update, 3, update % 2000, 1) };
            for side in Side::ALL.into_iter().filter(|side| *side == Side::Sender || packet % 2 == 0) {
                let event = Event { t: t + side as i64, side, bytes: 300, format, sight, content: 0 };
                meter.add(&event).expect("it is added");
            }
        }
    }
    let totals = &meter.totals;
    assert_eq!([totals.sent, totals.sent_updates, totals.resent, totals.copies], [6000, 3000, 3000, 6000]);
    assert_eq!([totals.received, totals.represented, totals.transmitted, totals.late], [6000, 3000, 6000, 0]);
    assert_eq!(totals.anew, [1, 1]);
}

#[test]
fn transmissions_that_packets_hide_are_named() {
    let hiding = ["switchml_roce", "olaf_strict"].map(|format| (format, vec![format]));
    for (format, hidden) in hiding.into_iter().chain([("libra", vec![]), ("switchml", vec![])]) {
        let totals = sent_of(format, (0..3).map(|seq| (seq, 0))).totals;
        assert_eq!((totals.sent, totals.hidden_transmissions()), (3, hidden));
    }
}

#[test]
fn late_copies_of_updates_without_generation_times_are_told() {
    let late = |seq: u32| sent_of("atp_udp", (0..100).chain([seq]).map(|seq| (seq, 0))).totals;
    assert_eq!((late(90).restarts, late(90).copies), ([0, 0], 1));
    assert_eq!((late(40).restarts, late(40).anew, late(40).copies, late(40).sent), ([1, 0], [0, 0], 0, 101));
}

/// Copies and retransmissions of ATP's updates at either side are the same updates.
#[test]
fn updates_with_numbers_are_counted_once() {
    let formats = all().protocols.formats;
    let format = formats.iter().position(|known| known.name() == "atp_udp").expect("a format") as u8;
    let counted = |sent: &[(u32, u8)], received: &[(u32, u8)]| {
        let mut meter = Meter::new(formats, true, 1 << 20);
        for (side, packets) in [(Side::Sender, sent), (Side::Server, received)] {
            for (t, (seq, attempt)) in (0..).zip(packets) {
                let sight = Sight {
                    what: What::Update,
                    cluster: 0,
                    worker: Some(3),
                    seq: *seq,
                    round: 0,
                    attempt: *attempt,
                    generation: None,
                    count: 1,
                    elements: 62,
                };
                meter.add(&Event { t, side, bytes: 300, format, sight, content: 0 }).expect("it is added");
            }
        }
        let totals = &meter.totals;
        let sent = [totals.sent, totals.sent_updates, totals.resent, totals.copies];
        (sent, [totals.received, totals.represented, totals.transmitted, totals.duplicates])
    };
    let (first, second) = ([(0, 0), (1, 0), (2, 0)], [(0, 0), (1, 0), (2, 0), (2, 1)]);
    assert_eq!(counted(&first, &first[..2]), ([3, 3, 0, 0], [2, 2, 2, 0]));
    // Number 1 is lost, and 2 comes twice: as two transmissions, or copied by the network.
    assert_eq!(counted(&second, &[(0, 0), (2, 0), (2, 1)]), ([4, 3, 1, 0], [3, 2, 3, 0]));
    assert_eq!(counted(&first, &[(0, 0), (2, 0), (2, 0)]), ([3, 3, 0, 0], [3, 2, 2, 1]));
    // Captured at two interfaces.
    let twice: Vec<_> = first.iter().flat_map(|packet| [*packet; 2]).collect();
    assert_eq!(counted(&twice, &first), ([3, 3, 0, 3], [3, 3, 3, 0]));
}

/// Of one format, or of one job, only contributions were captured.
#[test]
fn contributions_without_results_are_named_beside_others_with_results() {
    let formats = all().protocols.formats;
    let counted = |packets: &[(&str, What, u16)]| {
        let mut meter = Meter::new(formats, false, 1 << 20);
        for (t, (name, what, cluster)) in (0..).zip(packets) {
            let format = formats.iter().position(|known| known.name() == *name).expect("a format") as u8;
            let sight = Sight {
                what: *what,
                cluster: *cluster,
                worker: Some(3),
                seq: t as u32,
                round: 0,
                attempt: 0,
                generation: None,
                count: 1,
                elements: 64,
            };
            let side = Side::Server;
            meter.add(&Event { t, side, bytes: 300, format, sight, content: 0 }).expect("it is added");
        }
        meter.compare_sides();
        (meter.totals.formats_without_results(), meter.totals.silent_jobs.into_iter().collect::<Vec<_>>())
    };
    let (update, result) = (What::Update, What::Result);
    let trio = [("trio_ml", update, 1), ("trio_ml", result, 1)];
    assert_eq!(counted(&trio), (vec![], vec![]));
    let (without, jobs) = counted(&[&trio[..], &[("atp_ml", update, 1)]].concat());
    assert_eq!((without, jobs), (vec!["atp_ml"], vec!["atp_ml".to_owned()]));
    let (without, jobs) = counted(&[&trio[..], &[("trio_ml", update, 2)]].concat());
    assert_eq!((without, jobs), (vec![], vec!["trio_ml".to_owned()]));
    // Tensors are no jobs.
    let tensors = [("switchml", update, 1), ("switchml", result, 1), ("switchml", update, 2)];
    assert_eq!(counted(&tensors), (vec![], vec![]));
}

/// A packet with one update of ATP names it: its sending was captured in some transmission, unless the senders' captures are a part.
#[test]
fn lone_updates_with_numbers_show_what_the_senders_captures_lack() {
    let formats = all().protocols.formats;
    let format = formats.iter().position(|known| known.name() == "atp_udp").expect("a format") as u8;
    let lacks = |sides: [Side; 2], sent: &[u32], received: &[(u32, u16)]| {
        let mut meter = Meter::new(formats, true, 1 << 20);
        let mut add = |side: Side, seq, count| {
            // Other transmissions arrive than were captured at the senders.
            let sight = Sight { attempt: side as u8, ..sight(What::Update, 3, seq, count) };
            meter.add(&Event { t: 0, side, bytes: 300, format, sight, content: 0 }).expect("it is added");
        };
        for side in sides {
            match side {
                Side::Sender => sent.iter().for_each(|seq| add(side, *seq, 1)),
                Side::Server => received.iter().for_each(|(seq, count)| add(side, *seq, *count)),
            }
        }
        meter.compare_sides();
        (meter.totals.lacks_senders(), meter.totals.unseen)
    };
    let every: Vec<u32> = (0..100).collect();
    let part: Vec<u32> = (0..100).filter(|seq| !(7..10).contains(seq)).collect();
    // Number 7 arrives alone, 8 in a sum, 9 not.
    let received = (0..90).filter(|seq| *seq != 9).map(|seq| (seq, if seq == 8 { 4 } else { 1 }));
    let received: Vec<(u32, u16)> = received.collect();
    // Packets cut before their key have 16 bits of the number, which counts from 1 there.
    let whole: Vec<(u32, u16)> = (0..90).map(|seq| (seq + 65_535, 1)).collect();
    for sides in [Side::ALL, [Side::Server, Side::Sender]] {
        assert_eq!(lacks(sides, &every, &received), (false, 0), "{sides:?}");
        assert_eq!(lacks(sides, &every, &whole), (false, 0), "{sides:?}");
        assert_eq!(lacks(sides, &part, &received), (true, 1), "{sides:?}");
    }
}

/// The contribution of a worker to one sum of Trio-ML was not captured, or did not come in time.
#[test]
fn results_with_more_sources_than_contributions_show_what_the_senders_captures_lack() {
    let formats = all().protocols.formats;
    let format = formats.iter().position(|known| known.name() == "trio_ml").expect("a format") as u8;
    for sides in [Side::ALL, [Side::Server, Side::Sender]] {
        for (captured, sources, lacks) in [(true, 3, false), (true, 2, false), (false, 3, true), (false, 2, false)] {
            let mut meter = Meter::new(formats, true, 1 << 20);
            let mut add = |side, what, worker: u32, seq: u32, count: u16| {
                let sight = sight(what, worker, seq, count);
                meter.add(&Event { t: 0, side, bytes: 300, format, sight, content: 0 }).expect("it is added");
            };
            for (side, seq) in sides.into_iter().flat_map(|side| (0..10).map(move |seq| (side, seq))) {
                if side == Side::Server {
                    add(side, What::Result, 0, seq, if seq == 4 { sources } else { 3 });
                    continue;
                }
                for worker in (0..3).filter(|worker| captured || (*worker, seq) != (1, 4)) {
                    add(side, What::Update, worker, seq, 1);
                }
            }
            meter.compare_sides();
            let counted = (meter.totals.lacks_senders(), meter.totals.short_sums);
            assert_eq!(counted, (lacks, u64::from(lacks)), "{sides:?} {captured} {sources}");
        }
    }
}
