//! Tests of [`super`]: fates event by event.

use super::*;
use crate::testing::Story;
use Fate::*;

#[test]
fn members_inherit_the_fate_of_their_carrier_over_several_hops() {
    // 1 and 2 merge at node 0 (as 2), 2 and 3 at node 1 (as 2, the newest), then node 2 drops 2.
    let mut story = Story::new();
    for worker in 1..=4 {
        story.sent(worker, 0, Some(0), 0);
    }
    story.queued(1, 0, 1).merged(2, 0, 1, 2).departed(3, 0, 2);
    story.queued(4, 1, 2).merged(5, 1, 3, 2).departed(6, 1, 2);
    story.dropped(7, 2, 2, Reason::QueueFull);
    story.queued(8, 0, 4).departed(9, 0, 4).received(10, 4, 0, 1);
    let fates = Fates::resolve(&story.records);
    let full = Dropped(Reason::QueueFull);
    assert_eq!(fates.fate, [full, full, full, DeliveredAlone]);
    assert_eq!(fates.contradictions, 0);
    // 2 arrived at node 0 with its merge at 2 and left at 3; at node 1 from 4 to 6; packet 4 from 8 to 9.
    assert_eq!(fates.device_latency_ps, [1, 2, 1]);
}

#[test]
fn a_hierarchy_of_synchronous_aggregation_closes() {
    // Nodes 0 and 1 have three workers each, node 2 is above them. Node 0 gives up on worker 3, whose contribution then
    // reopens the block; its result reaches node 2 too late. Worker 7 sends twice.
    let mut story = Story::new();
    for worker in 1..=7 {
        story.sent(worker, 0, Some(0), 0);
    }
    story.sent_again(7, 0, 1, 1, 0);
    story.queued(1, 0, 1).merged(2, 0, 2, 1).departed(10, 0, 1);
    story.queued(3, 1, 4).merged(4, 1, 5, 4).merged(5, 1, 6, 4).departed(6, 1, 4);
    story.queued(8, 2, 4).merged(12, 2, 1, 4).departed(13, 2, 4);
    story.queued(14, 0, 3).departed(15, 0, 3).dropped(17, 2, 3, Reason::Late);
    story.queued(14, 1, 7).departed(15, 1, 7).queued(16, 2, 7).departed(20, 2, 7);
    story.dropped(18, 1, 8, Reason::Duplicate);
    // The last row of `books` is about worker 7's second attempt.
    *story.records.books.packet_in.last_mut().unwrap() = PacketId::new(7, 0, 1).0;
    story.received(14, 4, 0, 5).received(21, 7, 0, 1);
    let fates = Fates::resolve(&story.records);
    let (late, twice) = (Dropped(Reason::Late), Dropped(Reason::Duplicate));
    let merged = DeliveredMerged;
    assert_eq!(fates.fate, [merged, merged, late, merged, merged, merged, DeliveredAlone, twice]);
    assert_eq!((fates.contradictions, fates.balance().unknown, fates.balance().in_flight), (0, 0, 0));
    let mut members = fates.members_of(0).to_vec();
    members.sort_unstable();
    assert_eq!(members, [0, 1, 3, 4, 5]);
    // Packets that departed: 1 from 1 to 10, 4 from 3 to 6 and from 8 to 13, 3 and 7 from 14 to 15, 7 from 16 to 20.
    assert_eq!(fates.device_latency_ps, [9, 3, 5, 1, 1, 4]);
    // A result with more sources than the ledger is a contradiction.
    story.records.received.count[0] = 6;
    assert_eq!(Fates::resolve(&story.records).balance().unknown, 1);
}

#[test]
fn an_aggregate_is_delivered_with_all_its_members() {
    let mut story = Story::new();
    for worker in 1..=3 {
        story.sent(worker, 5, Some(5), 0);
    }
    story.queued(1, 0, 1).merged(2, 0, 2, 1).merged(3, 0, 1, 3).departed(4, 0, 3).received(5, 3, 5, 3);
    let fates = Fates::resolve(&story.records);
    assert_eq!(fates.fate, [DeliveredMerged; 3]);
    let mut members = fates.members_of(0).to_vec();
    members.sort_unstable();
    assert_eq!(members, [0, 1, 2]);
    assert_eq!((fates.contradictions, fates.balance().unknown), (0, 0));
}

#[test]
fn subsumed_outranked_withheld_and_in_flight() {
    let mut story = Story::new();
    for worker in 1..=6 {
        story.sent(worker, 0, (worker != 6).then_some(0), 0);
    }
    // 1 merged into 2, then 3 replaces both; 4 outranked by 5, which stays in the queue.
    story.queued(1, 0, 1).merged(1, 0, 1, 2).subsumed(2, 0, 2, 3).outranked(3, 0, 4, 5).received(9, 3, 0, 1);
    let fates = Fates::resolve(&story.records);
    assert_eq!(fates.fate, [Subsumed, Subsumed, DeliveredAlone, Outranked, InFlight, Withheld]);
    let balance = fates.balance();
    assert_eq!((balance.generated, balance.withheld, balance.sent, balance.in_flight), (6, 1, 5, 1));
    assert_eq!((balance.subsumed, balance.outranked, balance.unknown), (2, 1, 0));
}

#[test]
fn later_attempts_are_no_new_updates() {
    let mut story = Story::new();
    story.sent(1, 0, Some(0), 0).sent_again(1, 0, 1, 5, 0).sent_again(1, 0, 2, 9, 0).sent(2, 0, None, 0);
    story.dropped(1, 0, 1, Reason::QueueFull).attempt_received(8, PacketId::new(1, 0, 1), 0, true);
    let balance = Fates::resolve(&story.records).balance();
    assert_eq!((balance.generated, balance.retransmitted, balance.withheld, balance.sent), (2, 2, 1, 3));
    assert_eq!((balance.delivered_alone, balance.dropped_total(), balance.in_flight, balance.unknown), (1, 1, 1, 0));
}

/// A wrong sum is a fault of its own, also if it has another number of members than its header says. All else that the records deny of it
/// is a contradiction.
#[test]
fn a_wrong_sum_may_have_any_number_of_members() {
    let mut story = Story::new();
    story.sent(1, 0, Some(0), 0).sent(2, 0, Some(0), 0).sent(3, 0, Some(0), 0).merged(1, 0, 2, 1).received(2, 1, 0, 3);
    let told = |story: &Story, wrong: &[bool]| {
        let mut records = story.records.clone();
        records.received.wrong = wrong.to_vec();
        let fates = Fates::resolve_as(&records, Family::Results, true);
        (fates.fate.clone(), fates.balance().unknown)
    };
    let delivered = vec![DeliveredMerged, DeliveredMerged, InFlight];
    assert_eq!(told(&story, &[true]), (delivered.clone(), 0));
    assert_eq!(told(&story, &[false]), (delivered.clone(), 1));
    // A member of another sum, and a packet that no worker sent.
    story.received(3, 2, 0, 3).received(4, 77, 0, 3);
    assert_eq!(told(&story, &[true; 3]), (delivered, 2));
}

/// In virtual time a result names its transmission, also if another one of its packet is in a sum of as many members as the header says.
#[test]
fn exact_ids_of_results_are_not_replaced() {
    let id = |worker, attempt| PacketId::new(worker, 0, attempt);
    let mut story = Story::new();
    story.sent(1, 0, Some(0), 0).sent(2, 0, Some(0), 0).sent(3, 0, Some(0), 0);
    story.sent_again(1, 0, 1, 5, 0).sent_again(2, 0, 1, 5, 0);
    // Worker 2 is in the first sum twice.
    story.merged_into(6, id(2, 0), id(1, 0)).merged_into(7, id(2, 1), id(1, 0)).merged_into(8, id(3, 0), id(1, 1));
    story.attempt_received(9, id(1, 0), 0, true).attempt_received(10, id(1, 1), 0, true);
    story.records.received.count = vec![2, 2];
    let members = |exact: bool| {
        let fates = Fates::resolve_as(&story.records, Family::Results, exact);
        [0, 1].map(|row| {
            let mut members = fates.members_of(row).to_vec();
            members.sort_unstable();
            members
        })
    };
    assert_eq!(members(true), [vec![0, 1, 4], vec![2, 3]]);
    assert_eq!(members(false), [vec![2, 3], vec![2, 3]], "on a wire the first of both names may be that of either sum");
}

#[test]
fn contradictions_are_counted() {
    let mut base = Story::new();
    base.sent(1, 0, Some(0), 0).sent(2, 0, Some(0), 0);
    let count = |tell: &dyn Fn(&mut Story) -> &mut Story| {
        let mut story = base.clone();
        tell(&mut story);
        Fates::resolve(&story.records).balance().unknown
    };
    assert_eq!(count(&|story| story), 0);
    // Received after a drop; a packet that nobody sent; a count that differs from the number of members.
    assert_eq!(count(&|s| s.dropped(1, 0, 1, Reason::NoRoute).received(2, 1, 0, 1)), 1);
    assert_eq!(count(&|s| s.received(2, 77, 0, 1)), 1);
    assert_eq!(count(&|s| s.received(2, 1, 0, 3)), 2);
    // Merged into a packet that had ended; sent twice under one id.
    assert_eq!(count(&|s| s.dropped(1, 0, 1, Reason::NoRoute).merged(2, 0, 2, 1)), 1);
    assert_eq!(count(&|s| s.sent(1, 0, Some(0), 0)), 1);
    // A duplicate is no contradiction.
    assert_eq!(count(&|s| s.received(2, 1, 0, 1).received(3, 1, 0, 1)), 0);
}

#[test]
fn only_sums_by_key_have_copies() {
    let mut story = Story::new();
    story.sent(1, 0, Some(0), 0).sent(2, 0, Some(0), 0);
    // Dropped, then received; received, then dropped; dropped, then merged.
    for tell in [
        &(|s: &mut Story| _ = s.dropped(1, 0, 1, Reason::QueueFull).received(2, 1, 0, 1)) as &dyn Fn(&mut Story),
        &|s| _ = s.queued(1, 0, 2).merged(2, 0, 1, 2).dropped(3, 0, 1, Reason::Duplicate),
        &|s| _ = s.queued(1, 0, 2).dropped(2, 0, 1, Reason::TableFull).merged(3, 0, 1, 2),
    ] {
        let mut story = story.clone();
        tell(&mut story);
        assert_eq!(Fates::resolve(&story.records).balance().unknown, 1);
        assert_eq!(Fates::resolve_as(&story.records, Family::Pairs, true).balance().unknown, 0);
    }
    // A sum that begins later applies to the packets before, too; events that are not about copies stay contradictions.
    story.dropped(1, 0, 1, Reason::QueueFull).merged(2, 0, 1, 1).merged(3, 0, 2, 2).received(4, 1, 0, 0);
    story.records.received.last = vec![true];
    let fates = Fates::resolve(&story.records);
    assert_eq!((fates.fate, fates.contradictions), (vec![DeliveredAlone, InFlight], 0));
    story.dropped(5, 0, 2, Reason::NoRoute).merged(6, 0, 2, 2).received(7, 2, 0, 0);
    assert_eq!(Fates::resolve(&story.records).contradictions, 1);
}
