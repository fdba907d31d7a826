//! One judgement per metric and point (better, worse, same, or cannot tell), corrected for the number of judgements.
//!
//! Called by [`super`]. `docs/compare.md` defines the verdicts. The verdict follows from the interval that is shown, so
//! the two never contradict each other.

use std::cmp::Ordering;

use pktgen_core::Result;
use pktgen_records::human::{DECIMALS_MAX, Scale, scale_for};
use pktgen_records::stats::{self, Estimate, SEEDS_MIN, too_few};
use pktgen_report::sweep::data::{Labels, RunSummary, clock_error};
use pktgen_report::sweep::in_parallel;
use pktgen_workload::study::TIME;
use serde::Serialize;

use super::Side;
use super::effect::{Differences, EffectKind, Sample, resamples};
use super::pairs::{Pair, Paired};
use super::rules::{Direction, Rule, Rules};

/// Maximum number of digits after the decimal point of a shown effect.
const EFFECT_DECIMALS_MAX: usize = DECIMALS_MAX - 1;
/// Maximum number of further seeds that are recommended.
pub const FURTHER_MAX: usize = 1000;

/// Why differences are not judged whose sums, squares or tolerance overflow.
const TOO_FAR: &str = "the values are too far apart for sums and squares of their differences; use a larger unit";

/// A verdict on a metric at a point, or on all metrics and points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Beyond the tolerance on the bad side.
    Worse,
    /// The interval contains an end of the tolerance.
    CannotTell,
    /// Beyond the tolerance on the good side.
    Better,
    /// Within the tolerance.
    Same,
}

impl Outcome {
    /// Returns the verdict in words.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Worse => "worse",
            Outcome::CannotTell => "cannot tell",
            Outcome::Better => "better",
            Outcome::Same => "same",
        }
    }
}

/// The effect, as a share of the old value or in the metric's unit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Effect {
    /// The effect: the geometric mean of ratios − 1, or the mean of differences.
    pub value: f64,
    /// Lower end of the interval that it was judged by.
    pub lo: f64,
    /// Its upper end.
    pub hi: f64,
    /// Confidence level of that interval: 0.95 for a single judgement, higher for many simultaneous ones.
    pub level: f64,
    /// The interval for this effect alone (95 % unless the rules specify another alpha).
    pub alone: [f64; 2],
    /// The median over the pairs.
    pub median: f64,
}

/// How many further seeds would give a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Further {
    /// About this many.
    Seeds(usize),
    /// More than this many.
    MoreThan(usize),
}

/// The judgement of one metric at one point.
#[derive(Debug, Clone, Serialize)]
pub struct Judgement {
    /// Key of the metric.
    pub metric: String,
    /// Unit of its values.
    pub unit: String,
    /// The point.
    pub labels: Labels,
    /// Which way is better.
    pub direction: Direction,
    /// The change that does not matter, as written.
    pub tolerance: String,
    /// Whether it counts for the overall verdict.
    pub required: bool,
    /// Whether the effect is a share of the old value or a difference.
    pub kind: EffectKind,
    /// The tolerance as an effect: from −… to …
    pub band: [f64; 2],
    /// Number of pairs with both values.
    pub pairs: usize,
    /// Pairs in which only the old run has a value.
    pub new_lacks: usize,
    /// Pairs in which only the new run has a value.
    pub old_lacks: usize,
    /// Pairs in which neither run has a value.
    pub both_lack: usize,
    /// Median of the old runs in pairs.
    pub old: Option<Estimate>,
    /// Median of the new runs in pairs.
    pub new: Option<Estimate>,
    /// The effect; `None` for fewer than [`SEEDS_MIN`] pairs that differ, unless it is exact, and for values too far apart.
    pub effect: Option<Effect>,
    /// Whether no chance was involved in these runs, so the effect is not an estimate.
    pub exact: bool,
    /// The verdict.
    pub outcome: Outcome,
    /// Reason for "cannot tell"; otherwise empty.
    pub why: String,
    /// How many further seeds would give a verdict if there is none yet.
    pub further: Option<Further>,
}

/// A judgement before its confidence level is known.
pub(crate) struct Draft {
    judgement: Judgement,
    differences: Differences,
    sample: Option<Sample>,
    /// Maximum distance of the clocks of workers and server in old and new runs, in ns.
    clocks: [f64; 2],
}

/// Creates a draft for each rule and point of the pairs.
pub(crate) fn drafts(old: &Side, new: &Side, paired: &Paired, rules: &Rules) -> Result<Vec<Draft>> {
    let mut drafts = Vec::new();
    for rule in &rules.rules {
        if let Some(why) = &rule.withheld {
            drafts.push(Draft::absent(rule, why));
            continue;
        }
        let unit = new.sweep.units.get(&rule.metric).or_else(|| old.sweep.units.get(&rule.metric));
        let has = |pair: &&Pair| [pair.0, pair.1].iter().any(|run| run.value(&rule.metric).is_some());
        let present: Vec<_> = paired.points.iter().filter(|(_, pairs)| pairs.iter().any(|pair| has(&pair))).collect();
        if present.is_empty() && !rules.built_in {
            drafts.push(Draft::absent(rule, "no run has this metric"));
        }
        for (labels, pairs) in present {
            drafts.push(Draft::new(rule, unit.map_or("", String::as_str), labels, pairs)?);
        }
    }
    Ok(drafts)
}

impl Draft {
    /// Returns the draft of a metric that cannot be compared.
    fn absent(rule: &Rule, why: &str) -> Draft {
        let differences = Differences::of(&[], super::rules::Band::Absolute(0.0));
        let mut judgement = blank(rule, "", &Labels::new(), &differences);
        judgement.why = why.to_owned();
        Draft { judgement, differences, sample: None, clocks: [0.0; 2] }
    }

    fn new(rule: &Rule, unit: &str, labels: &Labels, pairs: &[Pair]) -> Result<Draft> {
        let band = rule.band(unit)?;
        let value = |run: &RunSummary| run.value(&rule.metric);
        let both: Vec<(f64, f64)> = pairs.iter().filter_map(|(old, new)| value(old).zip(value(new))).collect();
        let exact = rule.metric != TIME && pairs.iter().all(|(old, new)| old.exact && new.exact);
        let median = |pick: fn(&(f64, f64)) -> f64| stats::estimate(&both.iter().map(pick).collect::<Vec<_>>(), exact);
        let (old, new) = (median(|pair| pair.0), median(|pair| pair.1));
        // Values that differ between seeds are not exact, whatever their runs state.
        let exact = [old, new].iter().flatten().all(|side| side.exact);
        let (old_runs, new_runs): (Vec<&RunSummary>, Vec<&RunSummary>) = pairs.iter().copied().unzip();
        let sides = [old_runs, new_runs];
        let clocks = sides.each_ref().map(|runs| runs.iter().map(|run| run.clocks_within()).fold(0.0, f64::max));
        let errors = sides.map(|runs| clock_error(runs, &rule.metric));
        let differences = Differences::of(&both, band).exactly(exact).off_by(&both, errors);
        let mut judgement = blank(rule, unit, labels, &differences);
        judgement.pairs = both.len();
        judgement.new_lacks = pairs.iter().filter(|(old, new)| value(old).is_some() && value(new).is_none()).count();
        judgement.old_lacks = pairs.iter().filter(|(old, new)| value(old).is_none() && value(new).is_some()).count();
        judgement.both_lack = pairs.len() - both.len() - judgement.new_lacks - judgement.old_lacks;
        (judgement.old, judgement.new) = (old, new);
        Ok(Draft { judgement, differences, sample: None, clocks })
    }

    /// Returns the probability of the data if the suggested verdict is wrong; `None` if no judgement is possible.
    fn chance(&self) -> Option<f64> {
        let sample = self.sample.as_ref().filter(|sample| sample.is_judged())?;
        let limit = self.differences.limit();
        if sample.is_nothing() {
            return Some(0.0);
        }
        let outside = sample.above(limit).min(sample.below(-limit));
        let inside = sample.below(limit).max(sample.above(-limit));
        Some((2.0 * outside.min(inside)).min(1.0))
    }

    /// Returns the judgement at `level`, the probability of an error; `alpha` is that of the shown interval for this judgement alone.
    fn judged(self, level: f64, alpha: f64) -> Judgement {
        let Draft { mut judgement, differences, sample, clocks } = self;
        let Some(sample) = sample else { return judgement };
        if !sample.is_judged() {
            // Pairs without one of the values may be the worst; a number of seeds that would give a verdict is not known.
            if judgement.new_lacks + judgement.old_lacks > 0 {
                judgement.why = lacking(&judgement);
            } else {
                judgement.why = too_few(sample.n);
                judgement.further = Some(Further::Seeds(SEEDS_MIN - sample.n));
            }
            return judgement;
        }
        judgement.exact = sample.exact;
        let ((lo, hi), alone) = (sample.interval(level), sample.interval(alpha));
        let shown = |value: f64| differences.shown(value);
        judgement.effect = Some(Effect {
            value: shown(sample.mean),
            lo: shown(lo),
            hi: shown(hi),
            level: 1.0 - level,
            alone: [shown(alone.0), shown(alone.1)],
            median: shown(stats::median(&differences.values).unwrap_or(sample.mean)),
        });
        judgement.outcome = zone(lo, hi, differences.limit(), judgement.direction);
        // No number of seeds would tell.
        let (lo, hi) = sample.shifted();
        let is_of_clocks = lo < hi && zone(lo, hi, differences.limit(), judgement.direction) == Outcome::CannotTell;
        if judgement.is_hidden() {
            judgement.outcome = Outcome::CannotTell;
            judgement.why = lacking(&judgement);
        } else if judgement.outcome == Outcome::CannotTell && is_of_clocks {
            let [old, new] = clocks.map(|ns| ns / 1000.0);
            judgement.why = format!(
                "the clocks of workers and server may be apart by {old:.3} us in old runs and {new:.3} us in new ones, which may be the difference"
            );
        } else if judgement.outcome == Outcome::CannotTell {
            judgement.why = "the interval crosses an end of the tolerance".to_owned();
            let more = sample.further(differences.band, level, FURTHER_MAX);
            judgement.further = Some(more.map_or(Further::MoreThan(FURTHER_MAX), Further::Seeds));
        }
        judgement
    }
}

/// Returns a judgement without results.
fn blank(rule: &Rule, unit: &str, labels: &Labels, differences: &Differences) -> Judgement {
    Judgement {
        metric: rule.metric.clone(),
        unit: unit.to_owned(),
        labels: labels.clone(),
        direction: rule.direction,
        tolerance: rule.tolerance().to_owned(),
        required: rule.required,
        kind: differences.kind,
        band: [differences.shown(-differences.band), differences.shown(differences.band)],
        pairs: 0,
        new_lacks: 0,
        old_lacks: 0,
        both_lack: 0,
        old: None,
        new: None,
        effect: None,
        exact: false,
        outcome: Outcome::CannotTell,
        why: String::new(),
        further: None,
    }
}

/// Describes runs without a value. Such runs, for example without a time to a goal that they missed, may be the worst,
/// and the other runs do not represent them.
fn lacking(judgement: &Judgement) -> String {
    let Judgement { pairs, new_lacks, old_lacks, both_lack, .. } = judgement;
    let all = pairs + new_lacks + old_lacks + both_lack;
    match (new_lacks, old_lacks) {
        (0, _) => format!("in {old_lacks} of {all} pairs only the new run has a value"),
        (_, 0) => format!("in {new_lacks} of {all} pairs only the old run has a value"),
        _ => format!("in {new_lacks} of {all} pairs only the old run has a value, in {old_lacks} only the new one"),
    }
}

/// Returns where an interval lies: below, within (its ends included) or above the tolerance.
fn zone(lo: f64, hi: f64, limit: f64, direction: Direction) -> Outcome {
    if -limit <= lo && hi <= limit {
        return Outcome::Same;
    }
    let (up, down) = match direction {
        Direction::Lower => (Outcome::Worse, Outcome::Better),
        Direction::Higher => (Outcome::Better, Outcome::Worse),
        Direction::Equal => (Outcome::Worse, Outcome::Worse),
    };
    if lo > limit {
        up
    } else if hi < -limit {
        down
    } else {
        Outcome::CannotTell
    }
}

/// Judges all drafts of a report together.
pub(crate) fn judge(mut drafts: Vec<Draft>, alpha: f64) -> Vec<Judgement> {
    let resamples = resamples(drafts.len(), alpha);
    let sample = |draft: &Draft| Sample::of(&draft.differences, resamples, alpha);
    let samples = in_parallel(&drafts, &sample, &mut |_, _| {});
    for (draft, sample) in drafts.iter_mut().zip(samples) {
        draft.sample = sample.filter(|_| draft.differences.limit().is_finite());
        if draft.sample.is_none() && draft.judgement.why.is_empty() {
            let is_lacking = draft.differences.values.is_empty();
            draft.judgement.why = if is_lacking { lacking(&draft.judgement) } else { TOO_FAR.to_owned() };
        }
    }
    let chances: Vec<Option<f64>> = drafts.iter().map(Draft::chance).collect();
    let levels = holm(&chances, alpha);
    drafts.into_iter().zip(levels).map(|(draft, level)| draft.judged(level, alpha)).collect()
}

/// Returns the levels of Holm's procedure: the smallest probability is judged at `alpha` divided by the number of judgements, the next at
/// `alpha` divided by one less, until one fails; that one and all later ones are judged at its level.
pub(crate) fn holm(chances: &[Option<f64>], alpha: f64) -> Vec<f64> {
    let mut order: Vec<(f64, usize)> = chances.iter().enumerate().filter_map(|(i, p)| Some(((*p)?, i))).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut levels = vec![alpha; chances.len()];
    let (mut left, mut failed) = (order.len(), false);
    for (chance, i) in order {
        levels[i] = alpha / left as f64;
        failed |= chance > levels[i];
        if !failed {
            left -= 1;
        }
    }
    levels
}

/// Combines the required judgements: worse if any is worse; otherwise cannot tell if any is undecided or there are
/// none; otherwise better if any is better; otherwise same.
pub(crate) fn overall<'a>(judgements: impl IntoIterator<Item = &'a Judgement>) -> Outcome {
    let required = judgements.into_iter().filter(|judgement| judgement.required);
    required.map(|judgement| judgement.outcome).min().unwrap_or(Outcome::CannotTell)
}

impl Judgement {
    /// Whether pairs that lack a value may contradict the others. A run without a value may be the worst, so missing
    /// new values may make the verdict worse, and missing old values better.
    fn is_hidden(&self) -> bool {
        let differs = self.direction == Direction::Equal && self.outcome == Outcome::Worse;
        let by_new = self.new_lacks > 0 && self.outcome != Outcome::Worse;
        let by_old = self.old_lacks > 0 && self.outcome != Outcome::Better;
        !differs && (by_new || by_old)
    }

    /// Formats the effect with its interval.
    pub(crate) fn shown_effect(&self) -> String {
        let Some(effect) = &self.effect else { return "–".to_owned() };
        let (value, lo, hi) = (self.amount(effect.value), self.number(effect.lo), self.number(effect.hi));
        if effect.lo == effect.hi { value } else { format!("{value} [{lo}, {hi}]") }
    }

    /// Formats an effect with its unit.
    pub(crate) fn amount(&self, value: f64) -> String {
        match self.kind {
            EffectKind::Ratio => format!("{} %", self.number(value)),
            EffectKind::Difference => self.effect_scale().difference(value),
        }
    }

    /// Formats an effect without its unit, with a sign.
    fn number(&self, value: f64) -> String {
        let scale = self.effect_scale();
        if self.kind == EffectKind::Difference {
            return scale.number(value);
        }
        format!("{:+.*}", scale.decimals.unwrap_or(1), value * scale.factor).replace('-', "−")
    }

    /// Returns the scale of effects, with enough digits to show on which side of the tolerance an interval ends.
    fn effect_scale(&self) -> Scale {
        let (lo, hi) = self.effect.map_or((-1.0, 1.0), |effect| (effect.lo, effect.hi));
        let scale = match self.kind {
            // Intervals that are small compared with a percent need another digit.
            EffectKind::Ratio => Scale {
                factor: 100.0,
                unit: "%",
                difference_unit: "%",
                decimals: Some(if hi - lo < 0.01 { 2 } else { 1 }),
            },
            EffectKind::Difference => self.scale(),
        };
        let side = |value: f64, end: f64| {
            let apart = value - end * scale.factor;
            if apart.abs() <= 1e-9 * value.abs() { Ordering::Equal } else { apart.total_cmp(&0.0) }
        };
        scale.finer(0..=EFFECT_DECIMALS_MAX, |scale| {
            let of = |end: f64| [lo, hi].iter().all(|it| side(scale.shown(*it), end) == side(it * scale.factor, end));
            self.band.iter().all(|end| of(*end))
        })
    }

    /// Returns the scale of the values.
    pub fn scale(&self) -> Scale {
        let sizes = [self.old, self.new].into_iter().flatten().map(|interval| interval.median.abs());
        scale_for(&self.unit, sizes.fold(0.0, f64::max))
    }

    /// Formats the verdict with its reason and what would help.
    pub(crate) fn shown_outcome(&self) -> String {
        let further = match self.further {
            None => String::new(),
            Some(Further::Seeds(n)) if self.effect.is_none() => format!("; at least {n} more {}", seeds(n)),
            Some(Further::Seeds(n)) => format!("; about {n} more {} would tell", seeds(n)),
            Some(Further::MoreThan(n)) => format!("; more than {n} more seeds would be needed"),
        };
        match self.outcome {
            Outcome::CannotTell if self.is_of_too_few() => format!("{}{further}", self.why),
            Outcome::CannotTell => format!("cannot tell: {}{further}", self.why),
            outcome if self.exact => format!("{} (exact)", outcome.name()),
            outcome if self.pairs == 1 => format!("{}: equal in the one pair", outcome.name()),
            outcome if self.pairs < SEEDS_MIN => format!("{}: equal in all {} pairs", outcome.name(), self.pairs),
            outcome => outcome.name().to_owned(),
        }
    }

    /// Whether it is not judged because there are too few pairs: only further seeds are missing.
    pub(super) fn is_of_too_few(&self) -> bool {
        self.effect.is_none() && self.further.is_some()
    }
}

fn seeds(n: usize) -> &'static str {
    if n == 1 { "seed" } else { "seeds" }
}

/// Returns the verdicts of a report that applies `rule` to several sets of pairs, for simulations.
#[cfg(test)]
pub(crate) fn judged_together(rule: &Rule, pairs: &[Vec<(f64, f64)>]) -> Vec<Outcome> {
    let draft = |pairs: &Vec<(f64, f64)>| {
        let differences = Differences::of(pairs, rule.band("ns").unwrap());
        let judgement = blank(rule, "ns", &Labels::new(), &differences);
        Draft { judgement, differences, sample: None, clocks: [0.0; 2] }
    };
    judge(pairs.iter().map(draft).collect(), 0.05).into_iter().map(|judgement| judgement.outcome).collect()
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
