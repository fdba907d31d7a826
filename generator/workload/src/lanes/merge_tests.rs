//! Random merges, replacements and drops, against all sets of candidates one by one.

use super::testing::{FLOATS, INTEGERS};
use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{Ask, Detail, Layout, Merge, Number};
use super::{Candidates, Decoded, LaneForm, Member, decode};

/// Sequence numbers that may be, by rank.
#[derive(Debug, Clone)]
struct Log(Vec<BTreeSet<u32>>);

impl Candidates for Log {
    fn list(&self, rank: u32, out: &mut Vec<u32>) {
        out.extend(&self.0[rank as usize]);
    }

    fn may(&self, rank: u32, seq: u32) -> bool {
        self.0[rank as usize].contains(&seq)
    }
}

impl Log {
    fn all(&self) -> Vec<Member> {
        let of = |(rank, numbers): (usize, &BTreeSet<u32>)| {
            numbers.iter().map(move |seq| Member { rank: rank as u32, seq: *seq }).collect::<Vec<_>>()
        };
        self.0.iter().enumerate().flat_map(of).collect()
    }
}

fn layout(form: LaneForm, detail: Detail, merge: Merge, (workers, window): (u32, u32)) -> Layout {
    Layout::plan((form.number, form.shared), Ask { detail, merge, window }, workers, 2000).unwrap()
}

/// The lanes of an update as they lie in its packet.
fn words(layout: &Layout, member: Member) -> Vec<u32> {
    let mut words = vec![0; layout.lanes()];
    layout.each(member.rank, member.seq, |lane, value| words[lane] = layout.number.of_whole(value));
    words
}

fn floats(a: u32, b: u32, of: impl Fn(f32, f32) -> f32) -> u32 {
    of(f32::from_bits(a), f32::from_bits(b)).to_bits()
}

/// What a device makes of two payloads.
fn merged(layout: &Layout, a: &[u32], b: &[u32]) -> Vec<u32> {
    let one = |(a, b): (&u32, &u32)| match (layout.number, layout.merge) {
        (Number::I32, _) => a.wrapping_add(*b),
        (Number::F32, Merge::RunningMean) => floats(*a, *b, |a, b| (a + b) / 2.0),
        (Number::F32, _) => floats(*a, *b, |a, b| a + b),
    };
    a.iter().zip(b).map(one).collect()
}

/// A payload under way, with its members (an update that is in it twice is named twice) and how deep its tree is.
#[derive(Debug, Clone)]
struct Payload {
    words: Vec<u32>,
    members: Vec<Member>,
    depth: u32,
}

/// A device: takes updates as they are named, and merges, replaces or drops what it holds; then gives all away.
fn device(layout: &Layout, updates: &[Member], moves: &[(u8, usize, usize)]) -> Vec<Payload> {
    let of = |member: &Member| Payload { words: words(layout, *member), members: vec![*member], depth: 0 };
    let mut held: Vec<Payload> = updates.iter().map(of).collect();
    for (what, a, b) in moves {
        if held.len() < 2 {
            break;
        }
        let (a, b) = (a % held.len(), b % held.len());
        let taken = held.swap_remove(a);
        let b = b.min(held.len() - 1);
        match what {
            // The other takes its place, or it is lost: the same to who sees payloads.
            0 | 1 => {}
            _ => {
                let into = &mut held[b];
                into.words = merged(layout, &into.words, &taken.words);
                into.members.extend(taken.members);
                into.depth = into.depth.max(taken.depth) + 1;
            }
        }
    }
    held.iter_mut().for_each(|payload| payload.members.sort_unstable());
    held
}

/// Is a payload beyond what its lanes hold exactly?
fn leaves(layout: &Layout, payload: &Payload) -> bool {
    let large = |word: &u32| layout.number == Number::F32 && f32::from_bits(*word) >= 16_777_216.0;
    payload.members.len() as u64 > layout.members_max() || payload.words.iter().any(large)
}

/// The mean of what was added up, rounded once or, through the reciprocal, twice.
fn mean(payload: &Payload, twice: bool) -> Vec<u32> {
    let count = payload.members.len() as f32;
    let one = |word: &u32| {
        let sum = f32::from_bits(*word);
        (if twice { sum * (1.0 / count) } else { sum / count }).to_bits()
    };
    payload.words.iter().map(one).collect()
}

/// All sets of candidates with these lanes, one by one.
fn explanations(layout: &Layout, log: &Log, arrived: &[u32]) -> Vec<Vec<Member>> {
    let all = log.all();
    assert!(all.len() <= 14);
    let sets = (1u32..1 << all.len())
        .map(|set| (0..all.len()).filter(|i| set >> i & 1 == 1).map(|i| all[i]).collect::<Vec<_>>());
    let same = |members: &Vec<Member>| {
        let mut sums = vec![0u32; layout.lanes()];
        for own in members {
            layout.each(own.rank, own.seq, |lane, value| sums[lane] = sums[lane].wrapping_add(value));
        }
        sums.iter().map(|sum| layout.number.of_whole(*sum)).eq(arrived.iter().copied())
    };
    sets.filter(same).collect()
}

/// Two or three workers, a window, hashes of few bits so that ambiguity happens, a log, and what a device does.
type Case = ((u32, u32), u32, Log, Vec<(u8, usize, usize)>, u64);

fn cases() -> impl Strategy<Value = Case> {
    let log = |workers| prop::collection::vec(prop::collection::btree_set(0u32..24, 1..5), workers);
    (2usize..=3).prop_flat_map(move |workers| {
        let moves = prop::collection::vec((0u8..8, any::<usize>(), any::<usize>()), 0..20);
        ((Just(workers as u32), 1u32..30), 0u32..20, log(workers).prop_map(Log), moves, any::<u64>())
    })
}

proptest! {
    #[test]
    fn sums_have_the_answer_that_all_explanations_give((size, check_bits, log, moves, _) in cases(), whole in any::<bool>()) {
        let form = if whole { LaneForm { shared: false, ..INTEGERS } } else { FLOATS };
        let ask = Ask { detail: Detail::Which, merge: Merge::Sum, window: size.1 };
        let layout = Layout::plan((form.number, form.shared), ask, size.0, 2000).unwrap();
        let layout = Layout { check_bits: layout.check_bits.min(check_bits.max(1)), ..layout };
        for payload in device(&layout, &log.all(), &moves) {
            let found = explanations(&layout, &log, &payload.words);
            prop_assert!(found.contains(&payload.members), "what happened explains it");
            match decode(&layout, &payload.words, &log) {
                Decoded::Members(members) => {
                    prop_assert_eq!(&members, &payload.members);
                    prop_assert_eq!(found.len(), 1);
                }
                Decoded::Ambiguous(known) => {
                    let beyond = leaves(&layout, &payload);
                    prop_assert!(found.len() > 1 || beyond, "{:?} of {:?}", known, found);
                    prop_assert_eq!(known.count, Some(payload.members.len() as u32));
                    if let Some(who) = known.who {
                        let of = |rank: u32| payload.members.iter().filter(|own| own.rank == rank).count() as u32;
                        prop_assert_eq!(who, (0..size.0).map(of).collect::<Vec<_>>());
                    }
                }
                Decoded::Contradiction(why) => prop_assert!(false, "{}: {:?}", why, payload),
            }
        }
    }

    #[test]
    fn what_nobody_sent_is_explained_by_nothing((size, check_bits, log, _, noise) in cases(), lane in any::<usize>()) {
        let layout = layout(FLOATS, Detail::Which, Merge::Sum, size);
        let layout = Layout { check_bits: layout.check_bits.min(check_bits.max(1)), ..layout };
        let all = log.all();
        let mut arrived = words(&layout, all[noise as usize % all.len()]);
        let lane = lane % arrived.len();
        arrived[lane] = floats(arrived[lane], ((noise % 4096) as f32).to_bits(), |a, b| a + b);
        let found = explanations(&layout, &log, &arrived);
        match decode(&layout, &arrived, &log) {
            Decoded::Members(members) => prop_assert_eq!(vec![members], found),
            Decoded::Ambiguous(known) => {
                let beyond = known.count.is_none_or(|count| u64::from(count) > layout.members_max());
                prop_assert!(found.len() > 1 || beyond || f32::from_bits(arrived[lane]) >= 16_777_216.0);
            }
            Decoded::Contradiction(_) => prop_assert!(found.is_empty()),
        }
    }

    /// Copies that a network made are in sums twice: never a wrong answer, where a mark has one candidate.
    #[test]
    fn copies_are_contradictions((size, _, log, mut moves, _) in cases(), copies in 1usize..4) {
        let layout = layout(FLOATS, Detail::Which, Merge::Sum, (size.0, 24));
        let mut updates = log.all();
        updates.extend(log.all().into_iter().take(copies));
        moves.iter_mut().for_each(|(what, ..)| *what = 7);
        for payload in device(&layout, &updates, &moves) {
            let twice = payload.members.windows(2).any(|pair| pair[0] == pair[1]);
            match decode(&layout, &payload.words, &log) {
                Decoded::Members(members) => prop_assert_eq!(members, payload.members),
                Decoded::Contradiction(_) => prop_assert!(twice),
                // Twice the highest mark of a lane is beyond it.
                Decoded::Ambiguous(_) => prop_assert!(twice && leaves(&layout, &payload)),
            }
        }
    }

    #[test]
    fn means_are_told_right_or_not_at_all((size, _, log, moves, _) in cases(), twice in any::<bool>()) {
        let layout = layout(FLOATS, Detail::Which, Merge::Mean, size);
        for payload in device(&layout, &log.all(), &moves) {
            match decode(&layout, &mean(&payload, twice), &log) {
                Decoded::Members(members) => prop_assert_eq!(members, payload.members),
                Decoded::Ambiguous(_) => {}
                Decoded::Contradiction(why) => {
                    prop_assert!(payload.members.len() as u64 > layout.members_max(), "{}: {:?}", why, payload);
                }
            }
        }
    }

    #[test]
    fn running_means_are_told_as_deep_as_digits_reach((size, _, log, moves, _) in cases()) {
        // A mark per update: what waits in a device is not that old.
        let layout = layout(FLOATS, Detail::Which, Merge::RunningMean, (size.0, 24));
        for payload in device(&layout, &log.all(), &moves) {
            match decode(&layout, &payload.words, &log) {
                Decoded::Members(members) => prop_assert_eq!(members, payload.members),
                Decoded::Ambiguous(_) => prop_assert!(payload.depth > 7, "{:?}", payload),
                Decoded::Contradiction(why) => prop_assert!(false, "{}: {:?}", why, payload),
            }
        }
        // Where marks are shared by candidates it is ambiguous, and never wrong.
        let layout = Layout { window: size.1, ..layout };
        for payload in device(&layout, &log.all(), &moves) {
            match decode(&layout, &payload.words, &log) {
                Decoded::Members(members) => prop_assert_eq!(members, payload.members),
                Decoded::Ambiguous(_) => {}
                Decoded::Contradiction(why) => prop_assert!(false, "{}: {:?}", why, payload),
            }
        }
    }

    /// Two members at depth 8, of the same lane: their halves are a whole one in digits whose marks nobody has.
    #[test]
    fn what_is_too_deep_is_not_held_against_a_device(at in 0usize..10) {
        let layout = layout(FLOATS, Detail::Which, Merge::RunningMean, (3, 24));
        let members: Vec<_> = [0, 1, 5, 6, 8, 13, 14, 20, 23].map(|seq| Member { rank: 1, seq }).into();
        let log = Log(vec![BTreeSet::new(), members.iter().map(|own| own.seq).collect(), BTreeSet::new()]);
        // The first two are merged first; every other halves what is there.
        let mut order: Vec<_> = members.iter().map(|own| words(&layout, *own)).collect();
        order.rotate_left(at % members.len());
        let deep = order.into_iter().reduce(|into, next| merged(&layout, &into, &next)).unwrap();
        prop_assert!(matches!(decode(&layout, &deep, &log), Decoded::Ambiguous(_)));
    }

    /// Beyond what lanes hold, floats round and integers wrap around; that is noticed.
    #[test]
    fn beyond_their_range_lanes_are_never_wrong(
        whole in any::<bool>(),
        updates in prop::collection::vec((0u32..3, 0u32..4000), 200..1200),
        moves in prop::collection::vec((2u8..8, any::<usize>(), any::<usize>()), 900..1200),
    ) {
        let form = if whole { LaneForm { shared: false, ..INTEGERS } } else { FLOATS };
        let layout = Layout::plan((form.number, form.shared), Ask { detail: Detail::Which, merge: Merge::Sum, window: 20 }, 3, 2000).unwrap();
        let updates: Vec<_> = updates.iter().map(|(rank, seq)| Member { rank: *rank, seq: *seq }).collect();
        for payload in device(&layout, &updates, &moves).into_iter().filter(|payload| payload.members.len() > 60) {
            let mut log = Log(vec![BTreeSet::new(); 3]);
            payload.members.iter().for_each(|own| _ = log.0[own.rank as usize].insert(own.seq));
            match decode(&layout, &payload.words, &log) {
                Decoded::Ambiguous(known) => prop_assert_eq!(known.count, Some(payload.members.len() as u32)),
                other => prop_assert!(false, "{:?} of {} members", other, payload.members.len()),
            }
        }
    }

    #[test]
    fn members_that_share_a_number_are_told(
        workers in 1u32..=32,
        set in 1u64..1 << 32,
        seq in any::<u32>(),
        other in any::<u32>(),
        wide in any::<bool>(),
    ) {
        let layout = layout(INTEGERS, Detail::Which, Merge::Sum, (workers, 64));
        let seq = if wide { seq } else { seq % 100_000 };
        let ranks: Vec<u32> = (0..workers).filter(|rank| set >> rank & 1 == 1).collect();
        prop_assume!(!ranks.is_empty());
        let log = Log(vec![BTreeSet::from([seq, other, seq ^ 1 << 31, 7]); workers as usize]);
        let members: Vec<_> = ranks.iter().map(|rank| Member { rank: *rank, seq }).collect();
        let sum = |members: &[Member]| {
            let all = members.iter().map(|own| words(&layout, *own));
            all.reduce(|a, b| merged(&layout, &a, &b)).unwrap_or_default()
        };
        prop_assert_eq!(decode(&layout, &sum(&members), &log), Decoded::Members(members.clone()));
        // A slot that was used again too early holds parts of two blocks.
        if members.len() > 1 && other != seq {
            let mut mixed = members.clone();
            mixed[0].seq = other;
            let answer = decode(&layout, &sum(&mixed), &log);
            prop_assert!(matches!(answer, Decoded::Contradiction(_)), "{:?}", answer);
        }
        // A worker that is in it twice.
        let twice = [&members[..], &members[..1]].concat();
        let answer = decode(&layout, &sum(&twice), &log);
        prop_assert!(!matches!(answer, Decoded::Members(_)), "{:?}", answer);
        // Nothing of it was sent.
        let nobody = Log(vec![BTreeSet::new(); workers as usize]);
        prop_assert!(matches!(decode(&layout, &sum(&members), &nobody), Decoded::Contradiction(_)));
    }

    #[test]
    fn counts_by_worker_are_right_or_left_out(
        updates in prop::collection::vec((0u32..5, any::<u32>()), 1..40),
        window in 1u32..12,
        whole in any::<bool>(),
    ) {
        let form = LaneForm { shared: false, ..if whole { INTEGERS } else { FLOATS } };
        let layout = Layout::plan((form.number, form.shared), Ask { detail: Detail::Who, merge: Merge::Sum, window }, 5, 2000).unwrap();
        let updates: Vec<_> = updates.iter().map(|(rank, seq)| Member { rank: *rank, seq: *seq }).collect();
        let moves: Vec<_> = (0..updates.len()).map(|i| (7, i, i / 2)).collect();
        for payload in device(&layout, &updates, &moves) {
            let Decoded::Ambiguous(known) = decode(&layout, &payload.words, &Log(vec![BTreeSet::new(); 5])) else {
                panic!("it says how many, not which")
            };
            let of = |rank: u32| payload.members.iter().filter(|own| own.rank == rank).count() as u32;
            let truth: Vec<_> = (0..5).map(of).collect();
            prop_assert_eq!(known.count, Some(payload.members.len() as u32));
            prop_assert!(known.who.as_ref().is_none_or(|who| *who == truth));
            let within = truth.iter().all(|n| *n < 1 << layout.digit_bits()) && payload.members.len() as u64 <= layout.members_max();
            prop_assert_eq!(known.who.is_some(), within);
        }
    }
}

#[test]
fn means_of_few_are_told_nearly_always() {
    let layout = layout(FLOATS, Detail::Which, Merge::Mean, (3, 16));
    let log = Log((0..3).map(|rank| (100..110 + rank).collect()).collect());
    let all = log.all();
    let (mut told, mut tried) = (0, 0);
    for set in (1u64..1 << all.len()).step_by(999_983).take(2000) {
        let members: Vec<Member> = (0..all.len()).filter(|i| set >> i & 1 == 1).map(|i| all[i]).collect();
        let lanes = members.iter().map(|own| words(&layout, *own)).reduce(|a, b| merged(&layout, &a, &b)).unwrap();
        let payload = Payload { words: lanes, members, depth: 0 };
        match decode(&layout, &mean(&payload, set % 2 == 0), &log) {
            Decoded::Members(members) => {
                assert_eq!(members, payload.members);
                told += 1;
            }
            Decoded::Ambiguous(_) => {}
            Decoded::Contradiction(why) => panic!("{why}: {payload:?}"),
        }
        tried += 1;
    }
    assert!(told * 1000 >= tried * 999, "{told} of {tried}");
}

/// A sum that is of nobody, of many candidates.
#[test]
fn a_search_ends_that_finds_nothing() {
    let layout = layout(FLOATS, Detail::Which, Merge::Sum, (3, 64));
    let log = Log(vec![(0..64 * 15).collect(); 3]);
    let members = log.all().into_iter().step_by(360).take(8);
    let mut lanes = members.map(|own| words(&layout, own)).reduce(|a, b| merged(&layout, &a, &b)).unwrap();
    let sum = f32::from_bits(lanes[1]) + 1.0;
    lanes[1] = sum.to_bits();
    assert!(!matches!(decode(&layout, &lanes, &log), Decoded::Members(_)));
}
