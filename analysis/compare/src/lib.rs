//! COMPARISON: compares runs of two implementations, paired by labels and seed, and a scaled trace with its original.
//!
//! This crate contains differences and their uncertainty, verdicts and their output formats, and the history of
//! medians. It contains neither metrics (`pktgen-records`) nor reports of single sweeps (`pktgen-report`). It must not
//! compute numbers from formatted text, print, or use `unsafe`.
//!
//! Called by the CLI's `report --baseline`. `docs/compare.md` defines every number and verdict.
//!
//! [`pairs`] finds the pairs, [`settings`] the differences between their configurations. [`rules`] specify which metrics count, [`effect`]
//! computes how large a difference is and its uncertainty (`student` of the records is its distribution), [`judge`] gives verdicts, and
//! [`rank`] orders several implementations. [`text`], [`markdown`], [`html`] and [`junit`] are the output formats. [`history`] stores
//! medians of runs over time, and [`changes`] finds where they changed. [`trace`] compares two traces, with one property per file.
#![forbid(unsafe_code)]

pub mod changes;
mod effect;
mod forest;
pub mod history;
mod html;
mod judge;
mod junit;
mod markdown;
mod pairs;
mod rank;
mod rules;
mod settings;
mod text;
pub mod trace;

#[cfg(test)]
mod simulation_tests;
#[cfg(test)]
mod tests;

use pktgen_core::json_kind::JsonKind;
use pktgen_core::{Error, Result};
use serde::Serialize;

pub use effect::EffectKind;
pub use judge::{Effect, FURTHER_MAX, Further, Judgement, Outcome};
pub use pairs::{Pairing, Unpaired};
pub use rank::{Ranking, Standing};
pub use rules::{Direction, Rule, Rules};

use judge::overall;
use pktgen_report::check::known_keys;
use pktgen_report::made::RunProvenance;
use pktgen_report::model::ages_note;
use pktgen_report::sweep::data::SweepData;
use pktgen_report::sweep::data::{name_of, why_invalid};
use pktgen_report::{cautions, remarks};

/// The JSON format.
pub const JSON: JsonKind =
    JsonKind { name: "comparison", version: 1, about: "a comparison: `pktgen report --baseline`, compare.json" };
/// Maximum number of runs named in a sentence.
const NAMED_MAX: usize = 3;

/// The runs of one implementation.
#[derive(Debug, Clone)]
pub struct Side {
    /// Its name.
    pub name: String,
    /// Its runs, analysed.
    pub sweep: SweepData,
}

/// Summary of one implementation.
#[derive(Debug, Clone, Serialize)]
pub struct Implementation {
    /// Its name.
    pub name: String,
    /// Name of its experiment.
    pub experiment: String,
    /// Number of its runs.
    pub runs: usize,
    /// Its invalid runs, with reasons.
    pub invalid: Vec<String>,
    /// Sentences shown before any of its numbers: cautions, runs of a point that differ in settings, files without digests, planned
    /// runs that are missing.
    pub cautions: Vec<String>,
    /// Other remarks of its runs, one sentence per kind.
    pub remarks: Vec<String>,
    /// What made them, when, where and how.
    pub made: RunProvenance,
}

/// Comparison of a new implementation with the old one.
#[derive(Debug, Clone, Serialize)]
pub struct Versus {
    /// Name of the baseline.
    pub old: String,
    /// Name of the new implementation.
    pub new: String,
    /// Differences between their configurations, such as `target.slots: 8 → 6`; `None` if these were not recorded, and without a pair.
    pub differences: Option<Vec<String>>,
    /// Combined verdict of the required judgements.
    pub outcome: Outcome,
    /// Which runs were compared.
    pub pairing: Pairing,
    /// One per rule and point.
    pub judgements: Vec<Judgement>,
}

/// A comparison, independent of its output format.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// The tool that made the runs of the new side: version and commit.
    pub tool: String,
    /// What was compared.
    pub title: String,
    /// Whether all runs are valid.
    pub valid: bool,
    /// The verdict; `None` without a baseline.
    pub outcome: Option<Outcome>,
    /// The answer in sentences, validity first.
    pub lines: Vec<String>,
    /// Probability that any judgement is wrong.
    pub alpha: f64,
    /// The compared implementations.
    pub implementations: Vec<Implementation>,
    /// Comparisons of the others with the baseline.
    pub versus: Vec<Versus>,
    /// Rankings by metric and point, if there are more than two implementations or no baseline.
    pub rankings: Vec<Ranking>,
    /// Runs that are left out of rankings, since not all implementations have a valid run with their labels and seed.
    pub unranked: Vec<Unpaired>,
    /// Further notes for readers.
    pub notes: Vec<String>,
}

/// An output format: file extension and renderer.
type Form = (&'static str, fn(&Comparison) -> Result<String>);

/// All output formats.
const FORMS: [Form; 4] = [
    ("html", |it| Ok(html::page(it))),
    ("md", |it| Ok(markdown::page(it))),
    ("json", json),
    ("xml", |it| Ok(junit::page(it))),
];

/// Returns the file extensions of all formats, the main one first.
pub fn extensions() -> impl Iterator<Item = &'static str> {
    FORMS.iter().map(|(extension, _)| *extension)
}

fn json(comparison: &Comparison) -> Result<String> {
    let text = serde_json::to_string_pretty(comparison);
    let text = text.map_err(|fault| Error::Invalid(format!("the comparison could not be written as JSON: {fault}")))?;
    Ok(JSON.stamp(&text))
}

impl Comparison {
    /// Compares all others with `sides[baseline]`, if there is a baseline; ranks them if there are more than two or no baseline.
    pub fn of(sides: &[Side], baseline: Option<usize>, rules: &Rules) -> Result<Comparison> {
        let first = baseline.unwrap_or(0);
        let (Some(old), true) = (sides.get(first), sides.len() > 1) else {
            return Err(Error::config(
                "a comparison needs two implementations, each in a folder of its own: pktgen report NEW --baseline OLD",
            ));
        };
        let (rules, mut notes) = rules.with_own(sides);
        let rules = &rules;
        let present: Vec<&str> = sides.iter().flat_map(|side| side.sweep.units.keys().map(String::as_str)).collect();
        let known = known_keys(old.sweep.options.studies);
        let known: Vec<&str> = known.iter().map(String::as_str).chain(present.iter().copied()).collect();
        rules.rules.iter().try_for_each(|rule| rule.check(&known))?;
        if !rules.rules.iter().any(|rule| present.contains(&rule.metric.as_str())) {
            return Err(Error::config(nothing_to_compare(rules)));
        }
        let others: Vec<&Side> = sides.iter().enumerate().filter(|(i, _)| *i != first).map(|(_, side)| side).collect();
        let paired = others.iter().map(|new| pairs::pair(old, new)).collect::<Result<Vec<_>>>()?;
        let mut drafts = Vec::new();
        let mut counts = Vec::new();
        for (new, paired) in others.iter().zip(&paired) {
            let its = if baseline.is_some() { judge::drafts(old, new, paired, rules)? } else { Vec::new() };
            counts.push(its.len());
            drafts.extend(its);
        }
        let mut judgements = judge::judge(drafts, rules.alpha).into_iter();
        let versus = others.iter().zip(paired).zip(counts).map(|((new, paired), count)| {
            let judgements: Vec<Judgement> = judgements.by_ref().take(count).collect();
            let outcome = overall(&judgements);
            let differences = settings::of_pairs(&paired);
            Versus {
                differences,
                old: old.name.clone(),
                new: new.name.clone(),
                outcome,
                pairing: paired.said,
                judgements,
            }
        });
        let versus: Vec<Versus> = versus.collect();
        let ranked = sides.len() > 2 || baseline.is_none();
        let rankings = if ranked { rank::rank(sides, rules) } else { Vec::new() };
        if ranked && rankings.is_empty() {
            notes.push(rank::nothing(rules));
        }
        let unranked = if ranked { pairs::outside(sides, rank::across_all(sides)) } else { Vec::new() };
        let mut comparison =
            Comparison::told(sides, old, baseline.is_some(), versus, (rankings, unranked), rules.alpha);
        comparison.notes.append(&mut notes);
        comparison.notes.extend(ages_note(&old.sweep));
        Ok(comparison)
    }

    /// Describes the results in sentences.
    fn told(
        sides: &[Side],
        old: &Side,
        judged: bool,
        versus: Vec<Versus>,
        (rankings, unranked): (Vec<Ranking>, Vec<Unpaired>),
        alpha: f64,
    ) -> Comparison {
        let implementations: Vec<Implementation> = sides.iter().map(Implementation::of).collect();
        let names: Vec<&str> = versus.iter().map(|versus| versus.new.as_str()).collect();
        let made = sides.last().map(|side| RunProvenance::of(&side.sweep)).unwrap_or_default();
        let mut comparison = Comparison {
            tool: format!("pktgen {} ({})", made.version, made.commit),
            title: match judged {
                true => format!("{} against {}", names.join(", "), old.name),
                false => format!("{} and {} ranked", old.name, names.join(", ")),
            },
            valid: implementations.iter().all(|one| one.invalid.is_empty()),
            outcome: versus.iter().map(|versus| versus.outcome).min().filter(|_| judged),
            lines: Vec::new(),
            alpha,
            implementations,
            versus,
            rankings,
            unranked,
            notes: Vec::new(),
        };
        comparison.lines = text::lines(&comparison);
        comparison.notes = text::notes(&comparison);
        comparison
    }

    /// Whether the comparison fails: worse, invalid, or, if `strict`, undecided.
    pub fn fails(&self, strict: bool) -> bool {
        let undecided = strict && self.outcome == Some(Outcome::CannotTell);
        !self.valid || self.outcome == Some(Outcome::Worse) || undecided
    }

    /// Returns the verdict in one or two words.
    pub fn verdict(&self) -> &'static str {
        match (self.valid, self.outcome) {
            (false, _) => "invalid",
            (true, Some(outcome)) => outcome.name(),
            (true, None) => "no baseline",
        }
    }

    /// Renders the format with this extension; `None` if there is no such format.
    pub fn render(&self, extension: &str) -> Option<Result<String>> {
        FORMS.iter().find(|(known, _)| *known == extension).map(|(_, form)| form(self))
    }

    /// Returns the text for the terminal; `see` is where to read on.
    pub fn summary(&self, see: &str) -> String {
        text::summary(self, see)
    }
}

impl Implementation {
    fn of(side: &Side) -> Implementation {
        let runs = &side.sweep.runs;
        let said =
            |run: &pktgen_report::sweep::data::RunSummary| format!("{}: {}", name_of(run), why_invalid(run).join("; "));
        Implementation {
            name: side.name.clone(),
            experiment: side.sweep.manifest.experiment.clone(),
            runs: runs.len(),
            invalid: runs.iter().filter(|run| !run.validity.is_valid()).map(said).collect(),
            cautions: cautions(&side.sweep),
            remarks: remarks(runs),
            made: RunProvenance::of(&side.sweep),
        }
    }
}

fn nothing_to_compare(rules: &Rules) -> String {
    let metrics: Vec<&str> = rules.rules.iter().map(|rule| rule.metric.as_str()).collect();
    format!(
        "no run has any of the metrics {}; give rules for those that they have (--rules FILE; pktgen report --print-rules \
         shows how they look)",
        metrics.join(", ")
    )
}
