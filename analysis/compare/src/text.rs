//! A comparison in sentences, and its output for the terminal.
//!
//! Called by [`super`]; all output formats use the same sentences.

use std::cmp::Ordering;
use std::fmt::Write;

use pktgen_core::printable::one_line;
use pktgen_records::human::{scale_for, title};
use pktgen_records::stats::{Estimate, Interval, too_few};
use pktgen_report::answer::setting;
use pktgen_report::sweep::data::{Labels, VARIANT};

use super::effect::{EffectKind, extends};
use super::{Comparison, Implementation, Judgement, NAMED_MAX, Outcome, Pairing, Ranking, Unpaired, Versus, settings};

/// Maximum number of judgements that the terminal lists.
const LISTED_MAX: usize = 40;

/// Returns the result: validity, then each verdict and what was paired.
pub(super) fn lines(comparison: &Comparison) -> Vec<String> {
    let invalid: usize = comparison.implementations.iter().map(|one| one.invalid.len()).sum();
    let all: usize = comparison.implementations.iter().map(|one| one.runs).sum();
    let mut lines = vec![match invalid {
        0 => format!("Valid: all {all} runs."),
        _ => format!(
            "INVALID: {invalid} of {all} runs are invalid and were left out; do not rely on what follows before reading why."
        ),
    }];
    let cautions =
        |one: &Implementation| one.cautions.iter().map(|text| format!("{}: {text}", one.name)).collect::<Vec<_>>();
    lines.extend(comparison.implementations.iter().flat_map(cautions));
    let differences = |one: &Versus| settings::sentence(&one.old, &one.new, one.differences.as_deref(), &one.pairing);
    lines.extend(comparison.versus.iter().filter_map(differences));
    if comparison.outcome.is_some() {
        lines.extend(comparison.versus.iter().map(verdict));
        lines.extend(comparison.versus.iter().filter_map(|versus| partners(&versus.pairing)));
    }
    lines.extend(unranked(&comparison.unranked));
    lines.extend(overall_rankings(comparison).map(ranked));
    lines
}

/// Returns the number of [`lines`] before the results: validity and cautions.
pub(super) fn doubts(comparison: &Comparison) -> usize {
    1 + comparison.implementations.iter().map(|one| one.cautions.len()).sum::<usize>()
}

/// Returns the invalid runs with the names of their implementations and the reasons.
pub(super) fn invalid(comparison: &Comparison) -> Vec<String> {
    let mut all = Vec::new();
    for one in &comparison.implementations {
        all.extend(one.invalid.iter().map(|run| format!("invalid, of {}: {run}", one.name)));
    }
    all
}

/// Returns the rankings over all points, or all rankings if no metric has one.
fn overall_rankings(comparison: &Comparison) -> impl Iterator<Item = &Ranking> {
    let any = comparison.rankings.iter().any(|ranking| ranking.labels.is_none());
    comparison.rankings.iter().filter(move |ranking| ranking.labels.is_none() || !any)
}

fn verdict(versus: &Versus) -> String {
    let count = |outcome| versus.judgements.iter().filter(|one| one.outcome == outcome).count();
    let (worse, better) = (count(Outcome::Worse), count(Outcome::Better));
    let (same, unknown) = (count(Outcome::Same), count(Outcome::CannotTell));
    let mut text = format!(
        "{} against {}: {}; {worse} worse, {better} better, {same} same, {unknown} cannot tell.",
        versus.new,
        versus.old,
        versus.outcome.name().to_uppercase()
    );
    let telling = versus.judgements.iter().filter(|one| one.outcome == versus.outcome && one.required);
    // The largest is the most informative; a verdict of "same" needs no example.
    let few =
        telling.clone().all(Judgement::is_of_too_few).then(|| telling.clone().map(|one| one.pairs).min()).flatten();
    if let Some(pairs) = few {
        let _ = write!(text, " {}.", too_few(pairs));
    } else if let Some(most) = telling.min_by(|a, b| by_size(a, b))
        && versus.outcome != Outcome::Same
    {
        let (what, at) = (title(&most.metric), point(&most.labels));
        let _ = match versus.outcome {
            Outcome::CannotTell => write!(text, " {what} at {at}: {}.", most.shown_outcome()),
            _ => write!(text, " Largest difference: {what} {} at {at}.", most.shown_effect()),
        };
    }
    text
}

/// Returns the remarks of the runs of all sides that are no cautions.
pub(super) fn remarks(comparison: &Comparison) -> Vec<String> {
    let of = |one: &Implementation| one.remarks.iter().map(|text| format!("{}: {text}", one.name)).collect::<Vec<_>>();
    comparison.implementations.iter().flat_map(of).collect()
}

/// Describes runs without a partner; `None` if all have one.
fn partners(pairing: &Pairing) -> Option<String> {
    let Pairing { unpaired, pairs, .. } = pairing;
    let runs = if unpaired.len() == 1 { "run is" } else { "runs are" };
    Some(format!("{pairs} pairs; {} {runs} in none: {}.", unpaired.len(), first_of(unpaired)?))
}

/// Describes runs that are left out of rankings; `None` if there are none.
fn unranked(runs: &[Unpaired]) -> Option<String> {
    let are = if runs.len() == 1 { "run is" } else { "runs are" };
    let all = runs.len();
    Some(format!("Rankings use the runs that all implementations have; {all} {are} left out: {}.", first_of(runs)?))
}

/// Names the first of these runs, with the reason of the first.
fn first_of(runs: &[Unpaired]) -> Option<String> {
    let first = runs.first()?;
    let named = runs.iter().take(NAMED_MAX).map(|one| format!("{} of {}", one.run, one.implementation));
    let named = named.collect::<Vec<_>>().join(", ");
    let more = if runs.len() > NAMED_MAX { format!(" and {} more", runs.len() - NAMED_MAX) } else { String::new() };
    Some(format!("{named}{more} (the first: {})", first.why))
}

/// Returns these runs with the reasons.
pub(super) fn reasons(runs: &[Unpaired]) -> Vec<String> {
    runs.iter().map(|one| format!("{} of {}: {}", one.run, one.implementation, one.why)).collect()
}

fn ranked(ranking: &Ranking) -> String {
    let at = ranking.shown_point();
    let places = ranking.places.iter().map(|one| format!("{} {}", one.shown(), one.implementation));
    let order = if ranking.compared { places.collect::<Vec<_>>().join(", ") } else { too_few(ranking.seeds) };
    format!("{} ({} is better) at {at}: {order}.", title(&ranking.metric), ranking.direction.name())
}

/// Describes a point, its variant first.
pub(super) fn point(labels: &Labels) -> String {
    let variant = labels.get(VARIANT).cloned();
    let rest = Some(setting(labels)).filter(|rest| !rest.is_empty());
    let parts: Vec<String> = variant.into_iter().chain(rest).collect();
    if parts.is_empty() { "all defaults".to_owned() } else { parts.join(", ") }
}

/// Returns the confidence level in percent, without the noise of floating-point arithmetic.
fn level(alpha: f64) -> f64 {
    (1e11 * (1.0 - alpha)).round() / 1e9
}

/// Returns further notes for readers.
pub(super) fn notes(comparison: &Comparison) -> Vec<String> {
    let mut notes = Vec::new();
    for versus in &comparison.versus {
        let Pairing { across, other_workload, one_workload, pairs, points, .. } = &versus.pairing;
        if let Some([old, new]) = across {
            notes.push(format!("The variants are what is compared: {old} (old) and {new} (new)."));
        }
        if *other_workload > 0 {
            notes.push(format!(
                "{} against {}: in {other_workload} of {pairs} pairs the workload or schedule was not the same, so the \
                 seeds of a pair do not stand for the same updates.",
                versus.new, versus.old
            ));
        }
        if *one_workload > 0 {
            notes.push(format!(
                "{} against {}: at {one_workload} of {points} {} all seeds replay the same workload and schedule: intervals say how \
                 runs of it vary, not what other workloads would give.",
                versus.new,
                versus.old,
                if *points == 1 { "point" } else { "points" }
            ));
        }
    }
    // Those without an effect are not judged.
    let judgements = comparison.versus.iter().flat_map(|versus| &versus.judgements);
    let judged = judgements.filter(|one| one.effect.is_some()).count();
    let level = level(comparison.alpha);
    if judged > 1 {
        notes.push(format!(
            "{judged} judgements are made at once. Each interval is the one that its judgement was made by: {level} % or \
             more, by Holm's procedure, so that all verdicts together are right with a chance of {level} %."
        ));
    } else if judged == 1 {
        notes.push(format!("The interval is at {level} %."));
    }
    // The places of a ranking are tests of all pairs of implementations.
    let sides = comparison.implementations.len();
    let compared = comparison.rankings.iter().filter(|ranking| ranking.compared).count();
    let most = judged.max(compared * (sides * sides.saturating_sub(1) / 2));
    if most > 0 && extends(most, comparison.alpha) {
        let (what, need) = if most == 1 { ("judgement", "needs") } else { ("judgements at once", "need") };
        notes.push(format!(
            "{most} {what} with alpha = {} {need} more resamples than are drawn: intervals that end beyond all of \
             them are extended in Student's proportion. Fewer metrics or points, or a larger alpha, need no such extension.",
            comparison.alpha
        ));
    }
    if !comparison.rankings.is_empty() {
        notes.push(format!(
            "Places are from 1 + those that are surely better to all − those that are surely worse ({level} % for all \
             places together); implementations that share a place cannot be distinguished."
        ));
        let lacks = |ranking: &&Ranking| ranking.places.iter().any(|one| one.lacking > 0);
        let lacking = comparison.rankings.iter().filter(lacks).count();
        if lacking > 0 {
            notes.push(format!(
                "In {lacking} of {} rankings an implementation has runs without a value (such as a goal that was missed) where \
                 another has one: it is placed before none of those that have it.",
                comparison.rankings.len()
            ));
        }
    }
    notes
}

/// Column headings of a table of judgements.
pub(super) const HEADS: [&str; 8] = ["metric", "at", "old", "new", "effect", "tolerance", "pairs", "verdict"];

/// Sorts by verdict: worse, undecided, better, same; within each, required judgements and larger effects first.
pub(super) fn by_severity(a: &Judgement, b: &Judgement) -> Ordering {
    let kind = |one: &Judgement| (one.outcome, !one.required);
    kind(a).cmp(&kind(b)).then(by_size(a, b))
}

/// Sorts larger effects first, in multiples of the tolerance: shares of the old value and amounts have no other common measure. Ratios are
/// measured by their logarithms, as they are judged: half is as far from the same as twice.
fn by_size(a: &Judgement, b: &Judgement) -> Ordering {
    let on_scale = |one: &Judgement, value: f64| match one.kind {
        EffectKind::Ratio => value.ln_1p().abs(),
        EffectKind::Difference => value.abs(),
    };
    let size = |one: &Judgement| one.effect.map_or(0.0, |effect| on_scale(one, effect.value));
    let times = |one: &Judgement| if size(one) == 0.0 { 0.0 } else { size(one) / on_scale(one, one.band[1]) };
    times(b).total_cmp(&times(a)).then_with(|| size(b).total_cmp(&size(a)))
}

/// Returns the cells of a judgement's row.
pub(super) fn cells(judgement: &Judgement) -> [String; 8] {
    let scale = judgement.scale();
    let shown = |value: Option<Estimate>| value.map_or("–".to_owned(), |one| scale.show(one.median));
    let lacking = judgement.new_lacks + judgement.old_lacks + judgement.both_lack;
    let pairs = if lacking == 0 {
        judgement.pairs.to_string()
    } else {
        format!("{} of {}", judgement.pairs, judgement.pairs + lacking)
    };
    let optional = if judgement.required { "" } else { " (does not count)" };
    [
        title(&judgement.metric),
        point(&judgement.labels),
        shown(judgement.old),
        shown(judgement.new),
        judgement.shown_effect(),
        format!("{}, {}", judgement.tolerance, judgement.direction.name()),
        pairs,
        format!("{}{optional}", judgement.shown_outcome()),
    ]
}

/// Returns the column headings of rankings: metric, point, seeds, then place and median of each implementation.
pub(super) fn ranking_heads(comparison: &Comparison) -> Vec<String> {
    let names = comparison.implementations.iter().map(|one| one.name.clone());
    ["metric", "at", "seeds"].map(str::to_owned).into_iter().chain(names).collect()
}

/// See [`ranking_heads`].
pub(super) fn ranking_cells(comparison: &Comparison, ranking: &Ranking) -> Vec<String> {
    let largest = ranking.places.iter().filter_map(|one| one.value).map(|one| one.median.abs()).fold(0.0, f64::max);
    let scale = scale_for(&ranking.unit, largest);
    let cell = |name: &str| {
        let place = ranking.places.iter().find(|one| one.implementation == name)?;
        let spread = place.value.and_then(|value| value.spread());
        let interval = spread
            .map_or(String::new(), |Interval { lo, hi }| format!(" [{}, {}]", scale.number(lo), scale.number(hi)));
        let lacking = match place.lacking {
            0 => String::new(),
            n => format!(" ({n} without a value)"),
        };
        let value = place.value.map_or("–".to_owned(), |value| scale.show(value.median));
        let place = if ranking.compared { format!("{}: ", place.shown()) } else { String::new() };
        Some(format!("{place}{value}{interval}{lacking}"))
    };
    let at = ranking.shown_point();
    let seeds = if ranking.compared { ranking.seeds.to_string() } else { too_few(ranking.seeds) };
    let cells = comparison.implementations.iter().map(|one| cell(&one.name).unwrap_or_else(|| "–".to_owned()));
    [title(&ranking.metric), at, seeds].into_iter().chain(cells).collect()
}

/// Returns the text for the terminal.
pub(super) fn summary(comparison: &Comparison, see: &str) -> String {
    let mut out = String::new();
    for line in &comparison.lines {
        let _ = writeln!(out, "{}", one_line(line));
    }
    let invalid = invalid(comparison);
    for one in invalid.iter().take(NAMED_MAX) {
        let _ = writeln!(out, "{}", one_line(one));
    }
    if invalid.len() > NAMED_MAX {
        let _ = writeln!(out, "invalid: {} more; see {see}", invalid.len() - NAMED_MAX);
    }
    for versus in comparison.versus.iter().filter(|versus| !versus.judgements.is_empty()) {
        let mut judgements: Vec<&Judgement> = versus.judgements.iter().collect();
        judgements.sort_by(|a, b| by_severity(a, b));
        if comparison.versus.len() > 1 {
            let _ = write!(out, "\n{} against {}", one_line(&versus.new), one_line(&versus.old));
        }
        out.push('\n');
        let rows: Vec<Vec<String>> = judgements.iter().take(LISTED_MAX).map(|one| cells(one).to_vec()).collect();
        table(&HEADS.map(str::to_owned), &rows, &mut out);
        if judgements.len() > LISTED_MAX {
            let _ = writeln!(out, "{} more: see {see}", judgements.len() - LISTED_MAX);
        }
    }
    if !comparison.rankings.is_empty() {
        out.push('\n');
        let rows: Vec<Vec<String>> =
            comparison.rankings.iter().map(|ranking| ranking_cells(comparison, ranking)).collect();
        table(&ranking_heads(comparison), &rows, &mut out);
    }
    let remarks = remarks(comparison);
    if !remarks.is_empty() {
        out.push('\n');
        out.extend(remarks.iter().map(|remark| format!("{}\n", one_line(remark))));
    }
    if !comparison.notes.is_empty() {
        out.push('\n');
        out.extend(comparison.notes.iter().map(|note| format!("Note: {}\n", one_line(note))));
    }
    out
}

impl Ranking {
    /// Describes its point.
    fn shown_point(&self) -> String {
        match (&self.labels, self.points_left_out) {
            (Some(labels), _) => point(labels),
            (None, 0) => "all points".to_owned(),
            (None, 1) => "all points but one".to_owned(),
            (None, n) => format!("all points but {n}"),
        }
    }
}

/// Outputs aligned columns; the last one is not padded.
fn table(heads: &[String], rows: &[Vec<String>], out: &mut String) {
    let all = std::iter::once(heads).chain(rows.iter().map(Vec::as_slice));
    let all: Vec<Vec<String>> = all.map(|row| row.iter().map(|cell| one_line(cell)).collect()).collect();
    let length = |text: &String| text.chars().count();
    let width = |i: usize| all.iter().map(|row| length(&row[i])).max().unwrap_or(0);
    for row in &all {
        let cell = |(i, text): (usize, &String)| format!("{text}{}", " ".repeat(width(i) - length(text)));
        let line = row.iter().enumerate().map(cell).collect::<Vec<_>>().join("  ");
        let _ = writeln!(out, "{}", line.trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rules;
    use crate::tests::{AOM, invalid as invalid_for, run, side};
    use pktgen_core::record::Note;

    #[test]
    fn half_is_a_larger_difference_than_half_as_much_again_in_either_order() {
        let of = |name: &str, values: [f64; 2]| {
            let at = |(rate, value): (u64, f64)| {
                (1..=6).map(move |seed| run(&format!("rate={rate}"), seed, &[(AOM, value)]))
            };
            side(name, [20, 40].into_iter().zip(values).flat_map(at).collect())
        };
        let (old, new) = (of("old", [100.0, 100.0]), of("new", [50.0, 155.0]));
        for sides in [[old.clone(), new.clone()], [new, old]] {
            let comparison = Comparison::of(&sides, Some(0), &Rules::built_in()).unwrap();
            let mut judgements: Vec<&Judgement> = comparison.versus[0].judgements.iter().collect();
            judgements.sort_by(|a, b| by_size(a, b));
            assert_eq!(judgements[0].labels["rate"], "20", "{judgements:?}");
        }
    }

    #[test]
    fn notes_on_intervals_count_judgements_that_are_made() {
        // The new runs lack a loss, which is not judged.
        let of = |seeds: u64, alpha: f64| {
            let age = |seed: u64| (AOM, 100.0 + seed as f64);
            let old = (1..=seeds).map(|seed| run("rate=20", seed, &[age(seed), ("loss", 0.5)])).collect();
            let new = (1..=seeds).map(|seed| run("rate=20", seed, &[age(seed * seed)])).collect();
            let sides = [side("old", old), side("new", new)];
            let comparison = Comparison::of(&sides, Some(0), &Rules { alpha, ..Rules::built_in() }).unwrap();
            assert!(comparison.versus[0].judgements.len() > 1, "{:?}", comparison.versus);
            let of_intervals = |note: &String| note.starts_with("The interval is") || note.contains("judgement");
            comparison.notes.into_iter().filter(of_intervals).collect::<Vec<_>>()
        };
        assert_eq!(of(6, 0.05), ["The interval is at 95 %."]);
        let extended = of(6, 1e-6);
        assert_eq!((extended.len(), extended[0].as_str()), (2, "The interval is at 99.9999 %."));
        assert!(extended[1].starts_with("1 judgement with alpha = 0.000001 needs more resamples"), "{extended:?}");
        for alpha in [0.05, 1e-6] {
            assert!(of(3, alpha).is_empty(), "{:?}", of(3, alpha));
        }
    }

    #[test]
    fn invalid_runs_have_the_name_of_their_side_and_the_rest_is_counted() {
        let of = |name: &str, failed: u64| {
            let one = |seed: u64| {
                let mut run = run("", seed, &[(AOM, 100.0)]);
                if seed <= failed {
                    run.validity = invalid_for("it was aborted");
                }
                run
            };
            side(name, (1..=8).map(one).collect())
        };
        let told = |old: u64, new: u64| {
            let comparison = Comparison::of(&[of("old", old), of("new", new)], Some(0), &Rules::built_in()).unwrap();
            let text = summary(&comparison, "compare.html");
            let lines = text.lines().filter(|line| line.starts_with("invalid")).map(str::to_owned).collect::<Vec<_>>();
            (lines, ["md", "xml"].map(|form| comparison.render(form).unwrap().unwrap()))
        };
        let (lines, forms) = told(1, 4);
        let why =
            |name: &str, seed: u64| format!("invalid, of {name}: -{seed} (all defaults, seed {seed}): it was aborted");
        let wanted = [why("old", 1), why("new", 1), why("new", 2), "invalid: 2 more; see compare.html".to_owned()];
        assert_eq!(lines, wanted);
        for form in forms {
            assert!(form.contains("invalid, of old: -1 (") && form.contains("invalid, of new: -4 ("), "{form}");
        }
        let (lines, _) = told(0, 3);
        assert_eq!((lines.len(), &lines[2]), (3, &why("new", 3)));
    }

    #[test]
    fn a_row_is_one_line_whatever_a_label_contains() {
        let at = "variant=a\n\u{202e}\tb";
        let of = |name: &str| side(name, (1..=6).map(|seed| run(at, seed, &[(AOM, 100.0)])).collect());
        let comparison = Comparison::of(&[of("old"), of("new")], Some(0), &Rules::built_in()).unwrap();
        let text = summary(&comparison, "compare.html");
        let row = text.lines().find(|line| line.contains("\\u202e")).unwrap();
        assert!(row.contains(" a\\n\\u202e\\tb "), "{text}");
        let head = text.lines().find(|line| line.starts_with("metric")).unwrap();
        assert_eq!(row.find("same"), head.find("verdict"), "{text}");
    }

    /// A side that sent less may be the better one for that alone.
    #[test]
    fn remarks_of_runs_are_in_every_form_and_frames_not_sent_are_a_caution() {
        let of = |name: &str, notes: &[Note]| {
            let one = |seed: u64| {
                let mut run = run("rate=20", seed, &[(AOM, 100.0)]);
                run.validity.notes = notes.to_vec();
                run.notes = vec![pktgen_records::Note { note: "goal_missed", text: "no goal".to_owned() }];
                run
            };
            side(name, (1..=6).map(one).collect())
        };
        let sides = [of("old", &[]), of("new", &[Note::ClocksWithin { ns: 5_000_000 }, Note::TooLate { frames: 9 }])];
        let comparison = Comparison::of(&sides, Some(0), &Rules::built_in()).unwrap();
        assert!(comparison.lines[1].starts_with("new: Caution, 6 of 6 runs: 9 frames were too late"), "{comparison:?}");
        let said = remarks(&comparison);
        assert_eq!((said.len(), said[0].as_str()), (3, "old: Remark, 6 of 6 runs: no goal."), "{said:?}");
        let forms = crate::extensions().map(|form| comparison.render(form).unwrap().unwrap());
        for text in forms.chain([summary(&comparison, "x")]) {
            for part in ["Remark, 6 of 6 runs: workers and server are on different hosts", "runs: no goal", "too late"]
            {
                assert!(text.contains(part), "{part}: {text}");
            }
        }
    }

    #[test]
    fn levels_are_as_alpha_was_written() {
        let all = [0.07, 0.05, 0.29, 1e-9].map(|alpha| level(alpha).to_string());
        assert_eq!(all, ["93", "95", "71", "99.9999999"]);
    }
}
