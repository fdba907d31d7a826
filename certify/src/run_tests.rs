//! Draws of repeats against a recount of what each draw says.

use pktgen_engine::clause::ClauseProbe;
use proptest::prelude::*;

use super::*;

static CLAUSE: Clause = Clause {
    id: "test",
    title: "",
    rule: "",
    precondition: "",
    exempt: |_| None,
    stimulus: "",
    observation: "",
    oracle: "",
    repeats: 1,
    error: "",
    probe: |_: &mut ClauseProbe| Ok(()),
    measure: None,
};

/// What comes of repeats whose draws end so, and which draws were made.
fn carried_out(repeats: u32, ends: impl Fn(u32, u32) -> Ended) -> (ClauseOutcome, Vec<(u32, u32)>) {
    let mut own = Repeats::new(blank("1.1".into(), &CLAUSE), repeats);
    let mut made = Vec::new();
    for repeat in 0..repeats {
        let one = |draw| {
            made.push((repeat, draw));
            Ok((ends(repeat, draw), Vec::new()))
        };
        own.carry_out(repeat, one).unwrap();
    }
    (own.end(), made)
}

fn breach(what: &str, fits: &str) -> RepeatStop {
    let (expected, observed) = ("1".into(), "2".into());
    RepeatStop::Breach(ClauseBreach { what: what.into(), expected, observed, fits: fits.into() })
}

const UNDECIDED: fn() -> Ended = || Some(RepeatStop::Undecidable("who knows".into()));

proptest! {
    /// 0: it holds, 1: it does not, 2: not decidable.
    #[test]
    fn verdicts_follow_from_the_last_draw_of_every_repeat(ends in prop::collection::vec([0u8..3, 0u8..3, 0u8..3, 0u8..3], 1..12)) {
        let repeats = ends.len() as u32;
        let end = |repeat: u32, draw: u32| match ends[repeat as usize][draw as usize] {
            0 => None,
            1 => Some(breach(&format!("repeat {repeat}"), "")),
            _ => UNDECIDED(),
        };
        let (outcome, made) = carried_out(repeats, end);
        // A recount: the first draw that is decided counts, while there are draws left.
        let (mut left, mut last, mut draws) = (repeats.max(3), Vec::new(), 0);
        for own in &ends {
            let decided = own.iter().position(|end| *end < 2).unwrap_or(3) as u32;
            let hopeless = !last.is_empty() && last.iter().all(|end| *end == 2);
            let more = if hopeless { 0 } else { decided.min(left) };
            (left, draws) = (left - more, draws + 1 + more);
            last.push(own[more as usize]);
        }
        let count = |what: u8| last.iter().filter(|end| **end == what).count() as u32;
        prop_assert_eq!((made.len() as u32, outcome.redrawn), (draws, draws - repeats));
        prop_assert_eq!(outcome.undecided, count(2));
        let verdict = match (count(1), count(2)) {
            (0, undecided) if undecided > repeats - undecided => ClauseVerdict::NotDecidable,
            (0, _) => ClauseVerdict::Passed,
            _ => ClauseVerdict::Failed,
        };
        prop_assert_eq!(outcome.verdict, verdict);
        let first = last.iter().position(|end| *end == 1).map(|at| format!("repeat {at}: expected 1, observed 2"));
        let why = match verdict { ClauseVerdict::Failed => first.unwrap(), ClauseVerdict::Passed => String::new(), _ => "who knows".into() };
        prop_assert_eq!(outcome.why, why);
    }
}

#[test]
fn what_never_decides_is_not_decidable_and_ends() {
    for repeats in [1, 2, 5, 50] {
        let (outcome, made) = carried_out(repeats, |_, _| UNDECIDED());
        assert_eq!(outcome.verdict, ClauseVerdict::NotDecidable);
        assert_eq!((outcome.times, outcome.undecided), (repeats, repeats));
        assert_eq!(made.len() as u32, repeats + 3);
        assert!(outcome.line().contains(&format!("({repeats} of {repeats}): who knows")), "{}", outcome.line());
    }
}

#[test]
fn a_clause_says_what_was_not_decidable_on_the_way() {
    let (outcome, _) = carried_out(4, |repeat, draw| if repeat == 1 && draw < 2 { UNDECIDED() } else { None });
    assert_eq!((outcome.verdict, outcome.undecided, outcome.redrawn), (ClauseVerdict::Passed, 0, 2));
    assert!(outcome.line().ends_with("test (2 drawn again)"), "{}", outcome.line());
    let (outcome, _) = carried_out(4, |repeat, _| if repeat == 1 { UNDECIDED() } else { None });
    assert_eq!((outcome.verdict, outcome.undecided, outcome.redrawn), (ClauseVerdict::Passed, 1, 3));
    assert!(outcome.line().ends_with("test (1 of 4 repeats not decidable, 3 drawn again)"), "{}", outcome.line());
}

/// A setting that explains some of the failed repeats does not explain the device.
#[test]
fn a_setting_is_named_if_it_fits_all_failed_repeats() {
    for (fits, named) in [(["a = 1"; 3], true), (["a = 1", "a = 1", ""], false), (["a = 1", "", "a = 1"], false)] {
        let end = |repeat: u32, _| fits.get(repeat as usize).map(|fits| breach("it", fits));
        let (outcome, _) = carried_out(4, end);
        assert_eq!((outcome.verdict, outcome.times), (ClauseVerdict::Failed, 3));
        assert_eq!(outcome.why.ends_with("; fits a = 1"), named, "{fits:?}: {}", outcome.why);
    }
}
