//! Clauses at other settings than those of most tests: numbers of slots and speeds of the output.

use super::*;

/// Returns the ground of a card with these slots.
fn with_slots(slots: usize, is_held: bool) -> ProbeGround {
    let text = format!("[target]\nslots = {slots}\nslot_in_transmission = {is_held}\nreward_filter = true\n");
    ProbeGround { keys: Document::parse(&text, "test").unwrap(), ..ground() }
}

/// Returns a card with these slots.
fn card(slots: usize, holds_slot: bool, defect: Defect) -> Naive {
    Naive { slots, holds_slot, ..naive(defect) }
}

/// In lockstep nothing says how fast the output of a device is.
#[test]
fn a_long_merge_has_as_many_members_as_a_fast_output_leaves_time_for() {
    let clause = correctness().find(|clause| clause.id == "olaf-merge-long").expect("a clause");
    let ground = ProbeGround { output: None, ..ground() };
    for service in [SERVICE, 60 * US, 15 * US] {
        for (defect, passes) in [(Defect::None, true), (Defect::MergesTwelve, false)] {
            for seed in 0..10 {
                let mut card = Naive { service, ..naive(defect) };
                assert_eq!(holds_at(&ground, clause, &mut card, seed), passes, "{defect:?}, {} us", service / US);
            }
        }
    }
}

/// A card drops what has no slot (Algorithm 1, line 22).
#[test]
fn a_whole_card_with_few_slots_fails_nothing() {
    for (slots, is_held) in (1..=5).flat_map(|slots| [(slots, true), (slots, false)]) {
        let ground = with_slots(slots, is_held);
        let mut card = card(slots, is_held, Defect::None);
        let applies: Vec<_> = correctness().filter(|clause| (clause.exempt)(&ground).is_none()).collect();
        for clause in &applies {
            for seed in 0..10 {
                assert!(holds_at(&ground, clause, &mut card, seed), "{}: {slots} {is_held}", clause.id);
            }
        }
        let has = |id: &str| applies.iter().any(|clause| clause.id == id);
        let places = slots + usize::from(!is_held);
        assert_eq!((has("olaf-merge"), has("olaf-headers")), (places >= 3, places >= 3), "{slots} {is_held}");
        assert_eq!((has("olaf-merge-first"), has("olaf-pass")), (places >= 2, true), "{slots} {is_held}");
    }
}

#[test]
fn defects_are_found_with_the_fewest_slots() {
    for (defect, id) in [
        (Defect::Means, "olaf-merge"),
        (Defect::StaleIpChecksum, "olaf-headers"),
        (Defect::MergesInTransmission, "olaf-transmission"),
        (Defect::NeverReplaces, "olaf-replace"),
        (Defect::AnyProtocol, "olaf-not-udp"),
    ] {
        let clause = correctness().find(|clause| clause.id == id).expect("a clause");
        for (slots, is_held) in [(3, true), (2, false)] {
            let ground = with_slots(slots, is_held);
            let missed = (0..20).filter(|seed| holds_at(&ground, clause, &mut card(slots, is_held, defect), *seed));
            assert_eq!(missed.count(), 0, "{defect:?}: {slots} {is_held}");
        }
    }
}
