use pktgen_core::record::{InterfaceCounts, Unseen};
use pktgen_wire::device::Protocols;

use super::*;

const DEVICE: u32 = 900;
const GROUP: u32 = 0xef00_0001;

/// A packet of an exchange with worker `host`.
fn packet(what: What, host: u32, seq: u32, back: bool) -> (Sight, Datagram<'static>, bool) {
    let sight =
        Sight { what, cluster: 0, worker: None, seq, round: 0, attempt: 0, generation: None, count: 1, elements: 0 };
    let (src, dst) = if back { (DEVICE, host) } else { (host, DEVICE) };
    let datagram = Datagram { src, dst, src_port: 1, dst_port: 2, payload: b"pairs", whole: 5, six: None };
    (sight, datagram, back)
}

fn push(host: u32, seq: u32) -> (Sight, Datagram<'static>, bool) {
    packet(What::Update, host, seq, false)
}

fn ack(host: u32, seq: u32) -> (Sight, Datagram<'static>, bool) {
    packet(What::Ack, host, seq, true)
}

fn result(host: u32, seq: u32, attempt: u8) -> (Sight, Datagram<'static>, bool) {
    let (sight, datagram, back) = packet(What::Result, host, seq, true);
    (Sight { attempt, ..sight }, datagram, back)
}

type Packets<'a> = &'a [(Sight, Datagram<'static>, bool)];

fn exchanges(at_server: Packets, at_workers: Packets) -> Exchanges {
    let mut all = Exchanges::default();
    at_server.iter().for_each(|(sight, datagram, back)| all.at_server(sight, datagram, *back));
    for (number, (sight, datagram, back)) in (1..).zip(at_workers) {
        all.at_workers(sight, datagram, *back, (number, 0));
    }
    all
}

#[test]
fn a_repeated_packet_that_was_acknowledged_once_or_its_acknowledgement_is_lost_in_the_device() {
    let missing = exchanges(&[], &[push(1, 0), push(1, 2), ack(1, 2), push(1, 0), ack(1, 0)]).missing();
    assert_eq!((missing.repeated, missing.unanswered.frames, missing.unanswered.first, missing.late), (1, 1, 4, 0));
}

#[test]
fn a_packet_whose_every_transmission_was_acknowledged_is_late() {
    let missing = exchanges(&[], &[push(1, 0), push(1, 0), ack(1, 0), ack(1, 0)]).missing();
    assert_eq!((missing.unanswered.frames, missing.late), (0, 1));
    // The acknowledgement was there: the worker had not read it.
    let missing = exchanges(&[], &[push(1, 0), ack(1, 0), push(1, 0), ack(1, 0)]).missing();
    assert_eq!((missing.unanswered.frames, missing.late), (0, 0));
}

#[test]
fn captures_of_both_ends_tell_packets_to_the_server_from_its_answers() {
    let workers = [push(1, 1), push(1, 1), ack(1, 1)];
    let missing = exchanges(&[push(1, 1), ack(1, 1)], &workers).missing();
    assert_eq!((missing.to_server.frames, missing.from_server), (1, 0));
    let missing = exchanges(&[push(1, 1), ack(1, 1), push(1, 1), ack(1, 1)], &workers).missing();
    assert_eq!((missing.to_server.frames, missing.from_server), (0, 1));
    let missing = exchanges(&[push(1, 1), push(1, 1), ack(1, 1)], &workers).missing();
    assert_eq!((missing.to_server.frames, missing.from_server, missing.refused), (0, 0, 1));
    // A result that the server sent twice, since the first did not come.
    let missing = exchanges(&[result(1, 1, 0), result(1, 1, 1)], &[result(1, 1, 1)]).missing();
    assert_eq!(missing.from_server, 1);
}

#[test]
fn acknowledgements_of_what_was_not_sent_are_unasked() {
    let all = exchanges(&[], &[push(1, 0), push(2, 0), ack(2, 0), ack(2, 0), push(1, 0), ack(1, 0), ack(1, 4)]);
    assert_eq!((all.unasked.frames, all.unasked.first, all.missing().unanswered.frames), (2, 4, 1));
}

#[test]
fn results_of_the_server_hold_what_left_it() {
    let changed = |payload: &'static [u8]| {
        let (sight, datagram, back) = result(1, 1, 0);
        exchanges(&[result(1, 1, 0)], &[(sight, Datagram { payload, ..datagram }, back)]).changed.frames
    };
    assert_eq!((changed(b"pairs"), changed(b"pears")), (0, 1));
}

#[test]
fn results_that_came_only_when_they_were_repeated_were_lost() {
    let missing = exchanges(&[], &[push(1, 0), push(2, 0), result(GROUP, 0, 0), result(1, 0, 1)]).missing();
    assert_eq!((missing.results.frames, missing.results_again, missing.to_others.len()), (0, 1, 0));
    let missing = exchanges(&[], &[push(1, 0), push(2, 0), result(1, 0, 1), result(2, 0, 1)]).missing();
    assert_eq!((missing.results.frames, missing.results.first, missing.results_again), (1, 3, 0));
}

#[test]
fn results_that_never_came_to_a_worker_came_to_some_only() {
    let mut all = vec![push(1, 0), push(2, 0)];
    all.extend((0..9).map(|seq| result(1, seq, 0)));
    let missing = exchanges(&[], &all).missing();
    assert_eq!(missing.to_others, BTreeMap::from([(2, 9)]));
}

/// What is found in exchanges, beside causes that explain `told` frames, of a run with so many `foreign` ones.
fn found(all: &Exchanges, foreign: u64, told: u64) -> Vec<(&'static str, Certainty, u64)> {
    found_beside(Vec::new(), all, foreign, told)
}

/// The same, beside what other rules `found`.
fn found_beside(
    mut found: Vec<CauseFound>,
    all: &Exchanges,
    foreign: u64,
    told: u64,
) -> Vec<(&'static str, Certainty, u64)> {
    let mut manifest = crate::evidence::manifest(&[0, 0]);
    manifest.counters.foreign = foreign;
    // Both ends of a cable counted the same.
    manifest.counters.device.insert("received".to_owned(), 9);
    manifest.interfaces =
        vec![InterfaceCounts { end: "workers".to_owned(), sent: Some(9), tx_packets: 9, ..InterfaceCounts::default() }];
    let evidence = Evidence::of(Path::new(""), manifest);
    let missing = all.missing();
    let balances = Balances::of(&evidence);
    Lost { missing: &missing, all, balances: &balances, evidence: &evidence }.look(told, 0, &mut found);
    found.iter().map(|found| (found.cause.code, found.certainty, found.explains)).collect()
}

#[test]
fn each_loss_has_its_cause() {
    let mut lost = exchanges(&[], &[push(1, 0), push(1, 0), ack(1, 0)]);
    assert_eq!(found(&lost, 0, 0), [("results_lost", Certainty::Certain, 1)]);
    // Foreign frames of others say nothing.
    assert_eq!(found(&lost, 1, 0), [("results_lost", Certainty::Certain, 1)]);
    assert_eq!(found(&lost, 0, 1), []);
    // It came in another form.
    lost.unread = 1;
    assert_eq!(found(&lost, 1, 0), [("results_unmatched", Certainty::Likely, 1)]);
    let other = exchanges(&[], &[push(1, 0), push(2, 0), ack(2, 0), ack(2, 0), push(1, 0), ack(1, 0)]);
    assert_eq!(found(&other, 0, 0), [("results_unmatched", Certainty::Certain, 1)]);
    // Copies of other packets and losses are as likely.
    let both = exchanges(&[], &[push(1, 0), push(2, 1), ack(2, 1), ack(2, 1), push(1, 0), ack(1, 0)]);
    let possible = ["results_unmatched", "copies", "results_lost"].map(|code| (code, Certainty::Possible, 1));
    assert_eq!(found(&both, 0, 0), possible);
    let copied = exchanges(&[], &[push(1, 0), push(2, 5), ack(2, 5), ack(1, 5), push(1, 0), ack(1, 0)]);
    assert_eq!(found(&copied, 0, 0), possible, "to another worker, too");
    // More is missing than they could be.
    let more = exchanges(&[], &[push(1, 0), push(1, 0), push(2, 1), ack(2, 1), ack(2, 1)]);
    assert_eq!(found(&more, 0, 0).iter().filter(|one| one.0 == "results_lost").count(), 1);
    // A number that no worker sent is no copy.
    let renumbered = exchanges(&[], &[push(1, 0), ack(1, 7), push(1, 0), ack(1, 0)]);
    assert_eq!(found(&renumbered, 0, 0), [("results_unmatched", Certainty::Certain, 1)]);
    let twice = exchanges(&[], &[push(1, 0), ack(1, 0), ack(1, 0)]);
    assert_eq!(found(&twice, 0, 0), [("copies", Certainty::Certain, 1)]);
    let answers = [push(1, 1), push(1, 1), ack(1, 1), ack(1, 1)];
    let back = exchanges(&answers, &[push(1, 1), push(1, 1), ack(1, 1)]);
    assert_eq!(found(&back, 0, 0), [("acks_lost", Certainty::Certain, 1)]);
    let results = (0..9).map(|seq| result(1, seq, 0));
    let some: Vec<_> = [push(1, 0), push(2, 0)].into_iter().chain(results).collect();
    assert_eq!(found(&exchanges(&[], &some), 0, 0), [("results_to_some", Certainty::Certain, 9)]);
    // A worker can lack its own job's results only.
    let other_job = |host, seq| {
        let (sight, datagram, back) = result(host, seq, 0);
        (Sight { cluster: 1, ..sight }, datagram, back)
    };
    let (sight, datagram, back) = push(5, 0);
    let of_both = some.iter().cloned().chain([(Sight { cluster: 1, ..sight }, datagram, back)]);
    let of_both: Vec<_> = of_both.chain((0..20).map(|seq| other_job(5, seq))).collect();
    assert_eq!(found(&exchanges(&[], &of_both), 0, 0), [("results_to_some", Certainty::Certain, 9)]);
    let right = exchanges(&[], &[push(1, 0), ack(1, 0), result(GROUP, 0, 0)]);
    assert_eq!(found(&right, 0, 0), []);
}

/// A cable at the device fits as well.
#[test]
fn where_nothing_counts_the_frames_of_cables_a_loss_is_only_likely() {
    let evidence = Evidence::of(Path::new(""), crate::evidence::manifest(&[0, 0]));
    let answers = [push(1, 1), push(1, 1), ack(1, 1), ack(1, 1)];
    let all = exchanges(&answers, &[push(1, 0), push(1, 0), ack(1, 0), push(1, 1), push(1, 1), ack(1, 1)]);
    let (missing, balances) = (all.missing(), Balances::of(&evidence));
    let mut found = Vec::new();
    Lost { missing: &missing, all: &all, balances: &balances, evidence: &evidence }.look(0, 0, &mut found);
    let certain: Vec<_> = found.iter().map(|found| (found.cause.code, found.certainty)).collect();
    assert_eq!(certain, [("results_lost", Certainty::Likely), ("acks_lost", Certainty::Likely)]);
    assert!(found[0].proofs[0].says.ends_with("lost in it or on a cable at it"), "{}", found[0].proofs[0].says);
}

#[test]
fn results_that_come_twice_before_they_are_repeated_are_copies() {
    let twice: Vec<_> = (0..8).flat_map(|seq| [result(GROUP, seq, 0), result(GROUP, seq, 0)]).collect();
    assert_eq!(found(&exchanges(&[], &twice), 0, 0), [("copies", Certainty::Certain, 8)]);
    // One for each worker, and repetitions.
    let right: Vec<_> =
        (0..8).flat_map(|seq| [result(1, seq, 0), result(2, seq, 0), result(1, seq, 1), result(1, seq, 1)]).collect();
    assert_eq!(found(&exchanges(&[], &right), 0, 0), []);
    // One for each member of a group, at its Ethernet address.
    let mut apart = Exchanges::default();
    for (number, (sight, datagram, back)) in (1..).zip(&twice) {
        apart.at_workers(sight, datagram, *back, (number, number % 2));
    }
    assert_eq!(apart.copied.frames, 0);
    let acks = [push(1, 0), ack(1, 0), ack(1, 0)];
    let both: Vec<_> = acks.into_iter().chain(twice).collect();
    assert_eq!(found(&exchanges(&[], &both), 0, 0), [("copies", Certainty::Certain, 9)]);
}

#[test]
fn copies_in_the_captures_take_the_place_of_a_lower_bound() {
    let acks: Vec<_> = (1..5).flat_map(|host| [push(host, 0), ack(host, 0), ack(host, 0)]).collect();
    let all = exchanges(&[], &acks);
    let beside = |frames| {
        let known = CauseFound::new(&COPIES, Certainty::Certain, frames, Vec::new());
        found_beside(vec![known], &all, 0, 0)
    };
    assert_eq!(beside(3), [("copies", Certainty::Certain, 4)]);
    assert_eq!(beside(9), [("copies", Certainty::Certain, 9)]);
}

#[test]
fn a_packet_to_the_device_that_it_forwarded_was_refused_by_the_server() {
    let missing = exchanges(&[push(1, 0)], &[push(1, 0), push(1, 0), ack(1, 0)]).missing();
    assert_eq!((missing.refused, missing.unanswered.frames, missing.to_server.frames), (1, 0, 0));
}

/// Without captures: frames that match nothing in a run whose workers wait. Cold pushes came to the server.
#[test]
fn unmatched_frames_are_named_where_workers_wait_in_vain() {
    let causes = |foreign: u64, sums: u64, waits: bool, clock: &str, before: Option<&'static crate::cause::Cause>| {
        let mut manifest = crate::evidence::manifest(&[0, 0]);
        manifest.clocks.insert("sent.t_sent_ps".to_owned(), clock.to_owned());
        manifest.external = Some("libra".to_owned());
        manifest.counters.foreign = foreign;
        manifest.unseen = Some(Unseen { checked_by_key: sums, ..Unseen::default() });
        manifest.validity.faults.extend(waits.then(|| Fault::Unfinished { why: "2 workers wait".to_owned() }));
        let evidence = Evidence::of(Path::new(""), manifest);
        let known = Known::of(&evidence, &Protocols { formats: &[], planners: &[] });
        let balances = Balances::of(&evidence);
        let one = |cause| CauseFound::new(cause, Certainty::Certain, 4, Vec::new());
        let (mut found, mut unknown): (Vec<_>, _) = (before.into_iter().map(one).collect(), Vec::new());
        look_at(&evidence, &known, &balances, &mut found, &mut unknown).expect("no capture is read");
        assert!(unknown.is_empty(), "{unknown:?}");
        let own = found.iter().skip(usize::from(before.is_some()));
        own.map(|found| (found.certainty, found.explains)).collect::<Vec<_>>()
    };
    assert_eq!(causes(48, 0, true, "virtual", None), [(Certainty::Certain, 48)]);
    assert_eq!(causes(48, 8, true, "virtual", None), [(Certainty::Likely, 48)]);
    // Other causes explain why workers wait, but not that no sum came.
    assert_eq!(causes(48, 0, true, "virtual", Some(&PAYLOAD_CHANGED)), [(Certainty::Certain, 48)]);
    assert_eq!(causes(48, 8, true, "virtual", Some(&PAYLOAD_CHANGED)), []);
    for (foreign, waits, clock) in [(0, true, "virtual"), (48, false, "virtual"), (48, true, "monotonic")] {
        assert_eq!(causes(foreign, 0, waits, clock, None), [], "{foreign} {waits} {clock}");
    }
}

/// Code, certainty, and number of frames that it explains.
type Shown = (&'static str, Certainty, u64);

/// What the counters of a run without captures show and leave open, in lockstep or on wires.
fn counted(in_lockstep: bool, foreign: u64, counts: &[(&str, u64)]) -> (Vec<Shown>, Vec<String>) {
    let mut manifest = crate::evidence::manifest(&[0, 0]);
    manifest.external = Some("lockstep".to_owned()).filter(|_| in_lockstep);
    if !in_lockstep {
        manifest.clocks.insert("sent.t_sent_ps".to_owned(), "host".to_owned());
    }
    (manifest.balance.sent, manifest.counters.foreign) = (100, foreign);
    for (name, count) in counts {
        match *name {
            "retransmitted" => manifest.balance.retransmitted = *count,
            name => {
                manifest.counters.device.insert(name.to_owned(), *count);
            }
        }
    }
    let (mut found, mut unknown) = (Vec::new(), Vec::new());
    by_counters(&Evidence::of(Path::new(""), manifest), "n of 100", &mut found, &mut unknown);
    (found.iter().map(|found| (found.cause.code, found.certainty, found.explains)).collect(), unknown)
}

#[test]
fn counters_of_workers_show_results_that_the_device_repeated() {
    let open = |in_lockstep, foreign, counts: &[(&str, u64)]| {
        let (found, unknown) = counted(in_lockstep, foreign, counts);
        assert!(found.is_empty(), "{counts:?}: {found:?}");
        unknown.len()
    };
    // No host is late in virtual time: one in a hundred is left out there, on wires three are.
    for (in_lockstep, few) in [(true, 1), (false, 3)] {
        for name in ["retransmitted", REQUESTS_RESENT, RESULTS_AGAIN] {
            assert_eq!([few, few + 1].map(|count| open(in_lockstep, 0, &[(name, count)])), [0, 1], "{name}");
        }
        assert_eq!(open(in_lockstep, 0, &[]), 0);
    }
    // Ends are repeated as pushes are.
    assert_eq!(open(true, 0, &[("retransmitted", 1), (REQUESTS_RESENT, 1)]), 1);
    // Results whose first transmission did not come are lost in a device in lockstep, unless it sent them in a wrong form.
    assert_eq!(counted(true, 0, &[(RESULTS_LATE, 1)]), (vec![("results_lost", Certainty::Certain, 1)], Vec::new()));
    assert_eq!([1, 2].map(|count| open(true, 1, &[(RESULTS_LATE, count)])), [0, 1]);
    assert_eq!([3, 4].map(|count| open(false, 0, &[(RESULTS_LATE, count)])), [0, 1]);
}
