//! Tests of [`super`]: computed by hand, and compared with a naive model.

use std::collections::BTreeSet;

use pktgen_core::record::PacketId;
use proptest::prelude::*;

use super::*;
use crate::run::RunData;
use crate::testing::Story;
use crate::{Analysis, Options};

fn analysis(story: &Story, change: impl Fn(&mut Manifest)) -> Analysis {
    let mut manifest = story.manifest();
    change(&mut manifest);
    let records = (manifest.records == "full").then(|| story.records.clone().into());
    Analysis::new(
        RunData {
            dir: "run".into(),
            manifest,
            records,
            states: None,
            rounds: None,
            lanes: None,
            names: None,
            stamps: None,
            verified: Default::default(),
        },
        Options::default(),
    )
    .unwrap()
}

fn value(run: &Analysis, key: &str) -> Option<f64> {
    run.lines().unwrap().iter().find(|line| line.key().as_deref() == Some(key)).and_then(|line| line.value)
}

/// Workers 0 and 1 with two updates each. The second of worker 1 was lost and sent again; the first of worker 0 arrives twice.
fn two_workers() -> Story {
    let mut story = Story::new();
    story.sent_seq(0, 0, 0, Some(0), 0).sent_seq(0, 1, 10, Some(10), 0);
    story.sent_seq(1, 0, 0, Some(0), 0).sent_seq(1, 1, 10, Some(10), 0).sent_again(1, 1, 1, 30, 0);
    story.sent_again(0, 0, 1, 12, 0);
    story.merged_seq(15, 0, 1, 0).received_seq(20_000, 1, 0, 0, 2);
    story.attempt_received(25_000, PacketId::new(0, 0, 1), 0, true).dropped_seq(30, 1, 1);
    story.received_seq(40_000, 0, 1, 10, 1).attempt_received(50_000, PacketId::new(1, 1, 1), 0, false);
    story
}

fn reached(manifest: &mut Manifest) {
    manifest.goal = Some(2);
    manifest.counters.goal_ps = Some(50_000);
    manifest.counters.workers_at_goal = 2;
}

#[test]
fn a_goal_by_hand() {
    let run = analysis(&two_workers(), reached);
    assert_eq!((value(&run, "time_to_goal"), value(&run, "workers_at_goal")), (Some(50.0), Some(2.0)));
    // Five deliveries of four updates.
    assert_eq!(value(&run, "represented"), Some(4.0));
    let lines = run.lines().unwrap();
    let of_worker = |line: &&crate::Line| line.metric == "time_to_goal" && line.labels.contains_key("id");
    assert_eq!(lines.iter().filter(of_worker).map(|line| line.value).collect::<Vec<_>>(), [Some(40.0), Some(50.0)]);
    assert!(run.validity().is_valid() && run.notes().is_empty(), "{:?}", run.notes());
    assert_eq!((value(&run, "retransmissions"), value(&run, "accepted")), (Some(2.0), Some(0.75)));
    // One of a worker's updates arrives in the aggregate.
    let one = analysis(&two_workers(), |manifest| {
        manifest.goal = Some(1);
        manifest.counters.goal_ps = Some(20_000);
        manifest.counters.workers_at_goal = 2;
    });
    assert_eq!(value(&one, "time_to_goal"), Some(20.0));
    let none = analysis(&two_workers(), |_| {});
    assert_eq!((value(&none, "time_to_goal"), value(&none, "represented")), (None, None));
}

#[test]
fn counters_speak_where_records_do_not() {
    let counted = analysis(&two_workers(), |manifest| {
        reached(manifest);
        manifest.records = "every:8".into();
    });
    assert_eq!((value(&counted, "time_to_goal"), value(&counted, "workers_at_goal")), (Some(50.0), Some(2.0)));
    assert_eq!(value(&counted, "represented"), None);
    assert_eq!((value(&counted, "accepted"), value(&counted, "retransmissions")), (Some(0.75), Some(2.0)));
}

#[test]
fn a_goal_that_was_missed_has_no_time_and_says_who_was_short() {
    let run = analysis(&two_workers(), |manifest| manifest.goal = Some(3));
    assert_eq!((value(&run, "time_to_goal"), value(&run, "workers_at_goal")), (None, Some(0.0)));
    let notes = run.notes();
    assert_eq!((notes.len(), notes[0].note), (1, "goal_missed"));
    assert!(notes[0].text.contains("3 updates per worker was not reached: 2 of 2 workers"), "{}", notes[0].text);
    // A worker that never sent is counted as short, too.
    let silent = analysis(&two_workers(), |manifest| {
        manifest.goal = Some(1);
        manifest.clusters.push(7);
        manifest.counters.workers_at_goal = 2;
    });
    assert_eq!((value(&silent, "time_to_goal"), silent.goal.as_ref().unwrap().short()), (None, 1));
    assert!(silent.validity().is_valid());
}

#[test]
fn records_and_counters_that_disagree_make_a_run_invalid() {
    for (goal_ps, workers) in [(Some(40_000), 2), (None, 2), (Some(50_000), 1)] {
        let run = analysis(&two_workers(), |manifest| {
            reached(manifest);
            (manifest.counters.goal_ps, manifest.counters.workers_at_goal) = (goal_ps, workers);
        });
        let notes = run.notes();
        assert_eq!(notes[0].note, "invalid");
        assert!(notes[0].text.contains("disagree about the goal: 2 workers"), "{}", notes[0].text);
        assert!(notes[0].text.contains("50000 ps"), "{}", notes[0].text);
    }
    // A killed run has nothing to compare with.
    let killed = analysis(&two_workers(), |manifest| {
        manifest.goal = Some(2);
        manifest.balance = Default::default();
        manifest.balance_by_worker.clear();
    });
    assert!(killed.validity().is_valid() && value(&killed, "time_to_goal") == Some(50.0));
}

/// Generates receptions in chronological order: each has a few (worker, sequence number, attempt), merged into the first.
fn receptions() -> impl Strategy<Value = Vec<BTreeSet<(u32, u32, u8)>>> {
    let one = prop::collection::btree_set((0u32..4, 0u32..6, 0u8..3), 1..5);
    prop::collection::vec(one, 0..30)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn agrees_with_naive_counting(receptions in receptions(), goal in 1u32..5) {
        let mut story = Story::new();
        let mut told = BTreeSet::new();
        // Every worker sends everything; the receptions below are a subset.
        for (worker, seq, attempt) in (0..4).flat_map(|w| (0..6).flat_map(move |s| (0..3).map(move |a| (w, s, a)))) {
            story.sent_again(worker, seq, attempt, i64::from(seq), 0);
        }
        let mut seen: Vec<BTreeSet<u32>> = vec![BTreeSet::new(); 4];
        let mut expected = None;
        for (i, members) in receptions.iter().enumerate() {
            let fresh: Vec<_> = members.iter().filter(|member| told.insert(**member)).copied().collect();
            let Some(&(worker, seq, attempt)) = fresh.first() else { continue };
            let t = 1_000 * (i as i64 + 1);
            let carrier = PacketId::new(worker, seq, attempt);
            for &(w, s, a) in &fresh[1..] {
                story.merged_into(t, PacketId::new(w, s, a), carrier);
            }
            story.attempt_received(t, carrier, 0, true);
            *story.records.received.count.last_mut().unwrap() = fresh.len() as u16;
            for (w, s, _) in fresh {
                seen[w as usize].insert(s);
            }
            if expected.is_none() && seen.iter().all(|seqs| seqs.len() >= goal as usize) {
                expected = Some(t);
            }
        }
        let at_goal = seen.iter().filter(|seqs| seqs.len() >= goal as usize).count();
        let run = analysis(&story, |manifest| {
            manifest.goal = Some(goal);
            manifest.counters.goal_ps = expected;
            manifest.counters.workers_at_goal = at_goal as u32;
        });
        let found = run.goal.as_ref().unwrap();
        prop_assert_eq!((found.t_ps, found.workers_at_goal), (expected, at_goal));
        prop_assert_eq!(found.detail.as_ref().unwrap().represented, seen.iter().map(BTreeSet::len).sum::<usize>());
        prop_assert!(run.validity().is_valid(), "{:?}", run.validity());
    }
}
