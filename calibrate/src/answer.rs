//! The results of a calibration: the best setting, an interval for each parameter, and what the targets leave undetermined.

use std::cell::Cell;

use pktgen_core::config::Value;
use pktgen_core::record::Bound;
use pktgen_core::{Error, Result};
use serde::Serialize;

use crate::emulator::Region;
use crate::fit::{Fit, Place, residual};
use crate::interval::{Profile, allowed, profile};
use crate::minimum::minimum;
use crate::noise::KnownCovariance;
use crate::parameter::{NumberRange, ParameterRange, Setting, Space};
use crate::search::{Branch, Effect, Look, Progress, Task, effect_of_choices, measured, search};
use crate::sequence::Sequence;
use crate::settings::CalibrateKeys;
use crate::target::{Known, PointLabels, TargetValue};
use crate::twin::Twin;

/// Minimum share of the range in an interval whose parameter counts as undetermined.
const ALL: f64 = 0.9;
/// Targets cannot be met together if chance makes such a distance in fewer than one of a thousand calibrations: the
/// normal quantile of that.
const TOGETHER: f64 = 3.090_232;
/// From this correlation on, two parameters are only known together.
const TOGETHER_ONLY: f64 = 0.9;
/// Maximum number of times that a region whose end lies within an interval is widened, the last time to the end of the range.
const WIDENED: usize = 5;
/// Number of settings that represent all plausible ones.
const DRAWN: usize = 16;
/// The error if no branch has emulators.
const TOO_FEW: &str =
    "too few settings have values: nothing can be said; write a range of two whole numbers as choices = [...]";
/// Number of settings within the intervals that are examined.
const LIKELY: usize = 2000;

/// What the targets determine about a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ParameterState {
    /// Its interval ends within the range on both sides.
    Determined,
    /// It is at least the lower end.
    AtLeast,
    /// It is at most the upper end.
    AtMost,
    /// Any value in the range is plausible.
    Undetermined,
}

/// The result for a parameter.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FoundParameter {
    /// Its key, and its variant.
    pub name: String,
    /// The best value.
    pub best: String,
    /// The interval of 95 %, with its unit; for choices, the plausible ones.
    pub interval: Vec<String>,
    /// The same as numbers; none for choices.
    pub ends: Option<[f64; 2]>,
    /// Share of the range that the interval has.
    pub width: f64,
    /// What the targets determine about it.
    pub state: ParameterState,
    /// Each target changes with it by at most twice its noise or a tenth of its interquartile range, with the emulator's error, anywhere in
    /// the ranges. False if that error leaves it open.
    pub without_effect: bool,
    /// Values, and the distance of the nearest setting with each from the targets.
    pub profile: Vec<(f64, f64)>,
    /// Unit of these values.
    #[serde(skip)]
    pub unit: String,
}

/// A target, and the twin's result for it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FoundTarget {
    /// The metric.
    pub metric: String,
    /// The point.
    pub at: PointLabels,
    /// The target's value.
    pub value: f64,
    /// It is a bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<Bound>,
    /// Half of the unit of its last digit, if it was printed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub printed: Option<f64>,
    /// The standard deviation of the value and of the twin's mean together.
    pub deviation: f64,
    /// The mean of the twin's runs at the best setting; none if one of them has no value.
    pub twin: Option<f64>,
    /// The difference between value and twin, in deviations.
    pub off: Option<f64>,
    /// Each number moves it by at most twice its noise or a tenth of its interquartile range, with the emulator's error, and its means over
    /// the settings of each combination of choices differ by at most twice its noise. False if that error leaves it open.
    pub says_nothing: bool,
    /// The nearest mean of all settings that were run, if those of each combination of choices are on one side of the target and chance does
    /// not explain how far off it is.
    #[serde(skip)]
    pub nearest: Option<f64>,
}

/// See the module.
#[derive(Debug, Clone, Serialize)]
pub struct CalibrationAnswer {
    /// The best setting, as values of the parameters' keys.
    pub parameters: Vec<FoundParameter>,
    /// The targets.
    pub targets: Vec<FoundTarget>,
    /// The square of the distance of the best setting, in deviations.
    pub distance: f64,
    /// Targets, without copies of others, less parameters that are numbers.
    pub freedom: i64,
    /// Whether chance explains the distance: the targets can be met together.
    pub together: bool,
    /// The factor by which intervals are widened if the targets cannot be met together.
    pub inflation: f64,
    /// Parameters that the targets determine only together, with the correlation.
    pub tied: Vec<(String, String, f64)>,
    /// Targets that are copied by others in all runs, and their copies, which do not count.
    #[serde(skip)]
    pub copied: Vec<(String, Vec<String>)>,
    /// Targets with nearly the same information, without copies.
    #[serde(skip)]
    pub alike: Vec<Vec<String>>,
    /// Targets without which the emulators expect that the others can be met together; empty if all can.
    pub left_out: Vec<String>,
    /// The two targets that contradict each other most, and how far off each is, in deviations, at every setting that was run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conflict: Option<Conflict>,
    /// Settings that were run.
    pub settings: usize,
    /// Whether the search ended by itself.
    pub settled: bool,
    /// Whether the settings filled the ranges evenly (`calibrate.evenly`).
    #[serde(skip)]
    pub evenly: bool,
    /// The number of settings that had been run when the distance first fell to each value.
    pub progress: Vec<(usize, f64)>,
    /// Number of invalid runs.
    pub invalid: usize,
    /// The best setting.
    #[serde(skip)]
    pub best: Setting,
    /// Settings that represent all plausible ones.
    #[serde(skip)]
    pub drawn: Vec<Setting>,
}

/// Two targets that cannot be met together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Conflict {
    /// Their names.
    pub targets: [String; 2],
    /// How far off both are, at each setting.
    pub settings: Vec<(f64, f64)>,
}

/// Finds the setting of `space` at which `twin` is nearest to `targets`.
pub fn calibrate(
    space: &Space,
    targets: &[TargetValue],
    keys: &CalibrateKeys,
    twin: &mut dyn Twin,
    progress: Progress,
) -> Result<CalibrationAnswer> {
    let task = Task { space, targets, keys, ran: &Cell::new(0) };
    let mut branches = search(task, twin, progress)?;
    let looks = branches.iter_mut().enumerate().filter_map(|(i, branch)| Some((branch.look(task)?.least, i)));
    let mut order: Vec<(f64, usize)> = looks.collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    let too_few = || Error::Invalid(TOO_FEW.to_owned());
    let (_, best) = order.first().copied().ok_or_else(too_few)?;
    let mut ran: usize = branches.iter().map(|branch| branch.places.len()).sum();
    let most = keys.settings as usize;
    let mut widened = 0;
    let (look, mut profiles, inflation) = loop {
        let look = branches[best].look(task).ok_or_else(too_few)?;
        let (profiles, inflation) = profiles(task, &look);
        let open: Vec<(bool, bool)> = profiles.iter().map(|profile| profile.open).collect();
        if !open.iter().any(|(low, high)| *low || *high) || widened >= WIDENED || ran >= most {
            break (look, profiles, inflation);
        }
        widened += 1;
        ran += branches[best].widen(task, twin, &open, (widened == WIDENED, most - ran))?;
        progress(ran, most);
    };
    // No setting was left for locating the end: it may be anywhere up to the end of the range.
    for Profile { ends, open, .. } in &mut profiles {
        *ends = (if open.0 { 0.0 } else { ends.0 }, if open.1 { 1.0 } else { ends.1 });
    }
    let branch = &mut branches[best];
    let setting = space.setting(&branch.choice, &look.best);
    // The results given for the best setting are those of runs.
    let at_best = twin.evaluate(std::slice::from_ref(&setting))?.pop();
    let at_best = at_best.map(|evaluated| Place { shares: look.best.clone(), evaluated, number: 0 });
    let chosen = plausible(&order, best, look.least + allowed(f64::INFINITY, inflation));
    let chosen: Vec<Vec<usize>> = chosen.into_iter().map(|i| branches[i].choice.clone()).collect();
    let branch = &branches[best];
    let found = AnswerParts { task, branch, look: &look, profiles: &profiles, chosen: &chosen, setting: &setting };
    let targets_found = found.targets(at_best.as_ref(), &branches);
    let likely = found.likely(inflation);
    let drawn = found.drawn(&likely);
    let distance = at_best.as_ref().and_then(|place| measured(targets, place, &look.fit.known));
    let freedom = look.fit.known.counted() as i64 - space.numbers().len() as i64;
    let distance = distance.unwrap_or(look.least);
    let together = distance <= most_by_chance(freedom);
    Ok(CalibrationAnswer {
        parameters: found.parameters(),
        conflict: if together { None } else { found.conflict(&targets_found) },
        targets: targets_found,
        distance,
        freedom,
        together,
        inflation,
        tied: found.tied(&likely),
        copied: found.copied(),
        alike: look.fit.known.alike().into_iter().map(|group| found.names(&group)).collect(),
        left_out: if together { Vec::new() } else { left_out(task, branch) },
        settings: ran,
        settled: !keys.evenly && ran < most,
        evenly: keys.evenly,
        progress: history(task, &branches, &look.fit.known),
        invalid: branches.iter().flat_map(|branch| &branch.places).map(|place| place.evaluated.invalid).sum(),
        best: setting.clone(),
        drawn,
    })
}

/// Returns the branches whose distance is at most `most`, with the best one: its distance was found before its region was widened.
fn plausible(order: &[(f64, usize)], best: usize, most: f64) -> Vec<usize> {
    order.iter().filter(|(least, branch)| *branch == best || *least <= most).map(|(_, branch)| *branch).collect()
}

/// Returns the profiles of all numbers, and the factor by which intervals are widened if the targets cannot be met together.
fn profiles(task: Task, look: &Look) -> (Vec<Profile>, f64) {
    let freedom = look.fit.known.counted() as i64 - look.best.len() as i64;
    // A distance that chance explains does not widen the intervals.
    let explained = look.least <= most_by_chance(freedom);
    let inflation = if explained { 1.0 } else { (look.least / freedom.max(1) as f64).max(1.0) };
    let others = look.plausible(20.0);
    let of = |k: usize| {
        let most = allowed(look.fit.freedom(&look.best, k), inflation);
        profile(&look.fit, task.space, &look.best, &others, k, most)
    };
    ((0..look.best.len()).map(of).collect(), inflation)
}

/// Returns the largest distance that chance makes, for this number of degrees of freedom (Wilson and Hilferty).
fn most_by_chance(freedom: i64) -> f64 {
    // With as many parameters as targets, all can be met.
    let n = freedom.max(1) as f64;
    let part = 2.0 / (9.0 * n);
    n * (1.0 - part + TOGETHER * part.sqrt()).powi(3)
}

/// Removes the target that is farthest off at the nearest setting, until the emulators of all ranges expect that the rest can be met.
fn left_out(task: Task, branch: &Branch) -> Vec<String> {
    let dimensions = task.space.numbers().len();
    let mut left: Vec<usize> = (0..task.targets.len()).collect();
    let mut out = Vec::new();
    while left.len() > dimensions {
        let targets: Vec<TargetValue> = left.iter().map(|i| task.targets[*i].clone()).collect();
        let floors: Vec<f64> = left.iter().map(|i| branch.floors[*i]).collect();
        let places: Vec<Place> = branch.places.iter().map(|place| place.only(&left)).collect();
        let Some(fit) = Fit::of(Region::whole(dimensions), &targets, &places, &floors) else { break };
        let mut starts: Vec<(f64, &Vec<f64>)> =
            places.iter().map(|place| (fit.distance(&place.shares), &place.shares)).collect();
        starts.sort_by(|a, b| a.0.total_cmp(&b.0));
        let found = starts.iter().take(3).map(|(_, at)| minimum(|x| fit.distance(x), at, &fit.region.0, 200));
        let Some((best, least)) = found.min_by(|a, b| a.1.total_cmp(&b.1)) else { break };
        if least <= most_by_chance(fit.known.counted() as i64 - dimensions as i64) {
            return out;
        }
        let off = |i: &usize| {
            let (mean, variance) = fit.emulated(*i, &best);
            let known = fit.known.whole[*i * targets.len() + *i];
            residual(&targets[*i], mean).powi(2) / (variance + known)
        };
        let Some(worst) = (0..left.len()).max_by(|a, b| off(a).total_cmp(&off(b))) else { break };
        out.push(task.targets[left.remove(worst)].name());
    }
    out
}

/// Returns the distance of the nearest setting, each time that a nearer one was run.
fn history(task: Task, branches: &[Branch], known: &KnownCovariance) -> Vec<(usize, f64)> {
    let mut nearest = f64::INFINITY;
    let mut out = Vec::new();
    let mut places: Vec<&Place> = branches.iter().flat_map(|branch| &branch.places).collect();
    places.sort_by_key(|place| place.number);
    for place in places {
        match measured(task.targets, place, known) {
            Some(distance) if distance < nearest => {
                nearest = distance;
                out.push((place.number, distance));
            }
            _ => {}
        }
    }
    out
}

/// The inputs of an answer.
struct AnswerParts<'a> {
    task: Task<'a>,
    branch: &'a Branch,
    look: &'a Look<'a>,
    profiles: &'a [Profile],
    chosen: &'a [Vec<usize>],
    setting: &'a Setting,
}

impl AnswerParts<'_> {
    fn names(&self, targets: &[usize]) -> Vec<String> {
        targets.iter().map(|i| self.task.targets[*i].name()).collect()
    }

    /// Returns the targets that others copy, each with its copies.
    fn copied(&self) -> Vec<(String, Vec<String>)> {
        let copies = &self.look.fit.known.copies;
        let of = |of: usize| (0..copies.len()).filter(|i| copies[*i] == Some(of)).collect::<Vec<_>>();
        let all = (0..copies.len()).map(|i| (self.task.targets[i].name(), self.names(&of(i))));
        all.filter(|(_, copies)| !copies.is_empty()).collect()
    }

    fn deviation(&self, target: usize) -> f64 {
        self.look.fit.known.whole[target * self.task.targets.len() + target].sqrt()
    }

    /// Returns whether this effect on a target is none. The discrepancy is no noise: it is a share of the target's value, which may be far
    /// above all values of the twin.
    fn is_none(&self, target: usize, effect: &Effect) -> bool {
        effect.is_none(self.look.fit.known.noise[target])
    }

    /// Returns the nearest mean of all settings that were run, and of the best one, if chance does not explain how far off it is. None if
    /// the means of a branch enclose the target: a setting between these may meet it. There is none between two branches.
    fn nearest(&self, target: usize, best: Option<f64>, branches: &[Branch]) -> Option<f64> {
        let off = |mean: f64| residual(&self.task.targets[target], mean).powi(2);
        let is_above = |mean: &f64| *mean > self.task.targets[target].value;
        let means = |branch: &Branch| -> Vec<f64> {
            let best = best.filter(|_| branch.choice == self.branch.choice);
            branch.places.iter().filter_map(|place| place.mean(target)).chain(best).collect()
        };
        let means: Vec<Vec<f64>> = branches.iter().map(means).collect();
        let is_one_side = means.iter().all(|of| of.iter().all(is_above) || !of.iter().any(is_above));
        let nearest = means.into_iter().flatten().min_by(|a, b| off(*a).total_cmp(&off(*b)))?;
        (is_one_side && off(nearest) > most_by_chance(1) * self.deviation(target).powi(2)).then_some(nearest)
    }

    fn parameters(&self) -> Vec<FoundParameter> {
        let values = self.task.space.values(self.setting);
        let mut k = 0;
        let mut out = Vec::new();
        for (i, parameter) in self.task.space.parameters.iter().enumerate() {
            out.push(match &parameter.range {
                ParameterRange::Numbers(numbers) => {
                    k += 1;
                    self.number(k - 1, parameter.name(), numbers, self.setting[i])
                }
                ParameterRange::Choices(choices) => self.choice(i, parameter.name(), choices, &values[i]),
            });
        }
        out
    }

    fn number(&self, k: usize, name: String, numbers: &NumberRange, best: f64) -> FoundParameter {
        let profile = &self.profiles[k];
        let (low, high) = profile.ends;
        let (at_low, at_high) = (low <= 1e-6, high >= 1.0 - 1e-6);
        let state = match (at_low, at_high) {
            _ if high - low >= ALL => ParameterState::Undetermined,
            (true, true) => ParameterState::Undetermined,
            (true, false) => ParameterState::AtMost,
            (false, true) => ParameterState::AtLeast,
            (false, false) => ParameterState::Determined,
        };
        let whole = |number: f64, up: bool| match numbers.whole {
            true if up => (number + 1e-6).floor().max(best),
            true => (number - 1e-6).ceil().min(best),
            false => number,
        };
        let ends = [whole(numbers.exact(low), false), whole(numbers.exact(high), true)];
        let value = |share: f64| if numbers.whole { numbers.at(share) } else { numbers.exact(share) };
        let is_none = |i: usize| self.branch.effects.get(i).is_some_and(|of| self.is_none(i, &of[k]));
        FoundParameter {
            name,
            best: numbers.show(end_shown(best, best)),
            interval: ends.iter().map(|end| numbers.show(end_shown(*end, best))).collect(),
            ends: Some(ends),
            width: high - low,
            state,
            without_effect: (0..self.task.targets.len()).all(is_none),
            profile: profile.curve.iter().map(|(share, distance)| (value(*share), *distance)).collect(),
            unit: numbers.unit.clone(),
        }
    }

    fn choice(&self, i: usize, name: String, choices: &[Value], best: &Value) -> FoundParameter {
        let mut could: Vec<usize> = self.chosen.iter().map(|choice| choice[i]).collect();
        could.sort_unstable();
        could.dedup();
        let state = match could.len() {
            1 => ParameterState::Determined,
            _ => ParameterState::Undetermined,
        };
        FoundParameter {
            name,
            best: best.to_label(),
            width: could.len() as f64 / choices.len() as f64,
            interval: could.into_iter().map(|place| choices[place].to_label()).collect(),
            ends: None,
            state,
            without_effect: false,
            profile: Vec::new(),
            unit: String::new(),
        }
    }

    fn targets(&self, best: Option<&Place>, branches: &[Branch]) -> Vec<FoundTarget> {
        let of = |(i, target): (usize, &TargetValue)| {
            let deviation = self.deviation(i);
            let twin = best.and_then(|place| place.mean(i));
            let numbers = branches.iter().filter_map(|branch| branch.effects.get(i)).flatten();
            let moves = numbers.chain([&effect_of_choices(branches, i)]).any(|effect| !self.is_none(i, effect));
            FoundTarget {
                metric: target.metric.clone(),
                at: target.at.clone(),
                value: target.value,
                bound: target.bound,
                printed: if let Known::Printed { half } = target.known { Some(half) } else { None },
                deviation,
                twin,
                off: twin.map(|twin| residual(target, twin) / deviation),
                says_nothing: self.branch.effects.get(i).is_some_and(|of| !of.is_empty()) && !moves,
                nearest: self.nearest(i, twin, branches),
            }
        };
        self.task.targets.iter().enumerate().map(of).collect()
    }

    /// Returns settings within the intervals, each with its likelihood.
    fn likely(&self, inflation: f64) -> Vec<(f64, Vec<f64>)> {
        let within = Region(self.profiles.iter().map(|profile| profile.ends).collect());
        let mut sequence = Sequence::new(within.0.len(), 0);
        let mut all = vec![self.look.best.clone()];
        let space = self.task.space;
        // Whole numbers have whole values.
        let permitted = |at: Vec<f64>| space.shares(&space.setting(&self.branch.choice, &at));
        let drawn = (0..if within.0.is_empty() { 0 } else { LIKELY }).map(|_| within.at(&sequence.next_point()));
        all.extend(drawn.map(permitted));
        let weight =
            |at: &Vec<f64>| (-(self.look.fit.distance(at) - self.look.least) / (2.0 * inflation)).exp().min(1.0);
        all.into_iter().map(|at| (weight(&at), at)).collect()
    }

    /// Returns whether the interval of a number contains only one whole value.
    fn is_one_value(&self, k: usize) -> bool {
        let place = self.task.space.numbers()[k];
        let (low, high) = self.profiles[k].ends;
        let first = |numbers: &NumberRange| (numbers.exact(low) - 1e-6).ceil();
        let last = |numbers: &NumberRange| (numbers.exact(high) + 1e-6).floor();
        let one = |numbers: &NumberRange| numbers.whole && last(numbers) <= first(numbers);
        self.task.space.parameters[place].numbers().is_some_and(one)
    }

    /// Draws some of them, in proportion to their likelihood.
    fn drawn(&self, likely: &[(f64, Vec<f64>)]) -> Vec<Setting> {
        let whole: f64 = likely.iter().map(|(weight, _)| weight).sum();
        let mut out = Vec::new();
        let mut sum = 0.0;
        for (weight, shares) in likely {
            sum += weight;
            while out.len() < DRAWN && sum >= whole * (out.len() as f64 + 0.5) / DRAWN as f64 {
                out.push(self.task.space.setting(&self.branch.choice, shares));
            }
        }
        out
    }

    /// Returns pairs of numbers that are correlated among the plausible settings.
    fn tied(&self, likely: &[(f64, Vec<f64>)]) -> Vec<(String, String, f64)> {
        let whole: f64 = likely.iter().map(|(weight, _)| weight).sum();
        let squares: f64 = likely.iter().map(|(weight, _)| weight * weight).sum();
        // A few settings are not enough.
        if whole * whole / squares < 20.0 {
            return Vec::new();
        }
        let mean = |of: &dyn Fn(&[f64]) -> f64| likely.iter().map(|(w, at)| w * of(at)).sum::<f64>() / whole;
        let numbers = self.task.space.numbers();
        let mut out = Vec::new();
        for a in 0..numbers.len() {
            for b in 0..a {
                let (ma, mb) = (mean(&|at| at[a]), mean(&|at| at[b]));
                let (va, vb) = (mean(&|at| (at[a] - ma).powi(2)), mean(&|at| (at[b] - mb).powi(2)));
                let both = mean(&|at| (at[a] - ma) * (at[b] - mb));
                let correlation = both / (va * vb).sqrt();
                if correlation.abs() > TOGETHER_ONLY && ![a, b].iter().any(|k| self.is_one_value(*k)) {
                    let name = |k: usize| self.task.space.parameters[numbers[k]].name();
                    out.push((name(b), name(a), correlation));
                }
            }
        }
        out
    }

    fn conflict(&self, found: &[FoundTarget]) -> Option<Conflict> {
        let off = |i: &usize| found[*i].off.map_or(0.0, f64::abs);
        let mut order: Vec<usize> = (0..found.len()).collect();
        order.sort_by(|a, b| off(b).total_cmp(&off(a)));
        let [a, b] = order.get(..2)?.try_into().ok()?;
        let at =
            |place: &Place, i: usize| Some(residual(&self.task.targets[i], place.mean(i)?).abs() / self.deviation(i));
        let settings = self.branch.places.iter().filter_map(|place| Some((at(place, a)?, at(place, b)?))).collect();
        Some(Conflict { targets: [a, b].map(|i| self.task.targets[i].name()), settings })
    }
}

/// Rounds a number to the digits that matter beside the best value.
fn end_shown(end: f64, best: f64) -> f64 {
    let size = end.abs().max(best.abs());
    if size == 0.0 {
        return end;
    }
    let digits = (3.0 - size.log10().floor()).clamp(0.0, 12.0);
    let factor = 10f64.powf(digits);
    (end * factor).round() / factor
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_choice_is_plausible_even_if_widening_brought_it_nearer() {
        let order = [(30.0, 1), (33.0, 0)];
        assert_eq!(plausible(&order, 1, 5.0 + 3.84), [1]);
        assert_eq!(plausible(&order, 1, 30.0 + 3.84), [1, 0]);
    }
}
