//! Selects the settings to run: first some that fill the ranges, then, in waves, plausible ones about which the emulators are least
//! certain; the region shrinks to the plausible ones. Every combination of choices is a separate branch.

use std::cell::Cell;
use std::collections::HashSet;

use pktgen_core::{Error, Result};

use crate::cholesky::Cholesky;
use crate::emulator::Region;
use crate::fit::{Fit, Place, residual};
use crate::minimum::minimum;
use crate::noise::KnownCovariance;
use crate::parameter::Space;
use crate::sequence::Sequence;
use crate::settings::CalibrateKeys;
use crate::target::TargetValue;
use crate::twin::Twin;

/// Number of settings that are passed to the emulators in a wave.
const ASKED: usize = 1500;
/// Minimum share of them that stays in the region, so that it shrinks in steps.
const STAY: f64 = 0.05;
/// Maximum additional distance, compared with the nearest setting, of a plausible one.
const PLAUSIBLE: f64 = 12.0;
/// Additional distance at which a branch is given up.
const GIVEN_UP: f64 = 30.0;
/// Maximum share of the emulators in the variances when a search has settled.
const SURE: f64 = 0.12;
/// Margin of a region around the plausible settings, on each side.
const MARGIN: f64 = 0.15;
/// Maximum number of evaluations of the distance from one start.
const STEPS: usize = 150;
/// Share of a metric's value up to which emulators of equal values differ by rounding.
const ROUNDED: f64 = 1e-9;
/// Deviations of the difference of two emulated values that are its error.
const UNSURE: f64 = 2.0;
/// Errors from which on an effect is seen: along idle parameters of smooth functions, emulated values differ by up to half an error, of
/// stepped ones, which no smooth process describes, by up to 1.8.
const SEEN: f64 = 2.0;
/// Share of a metric's interquartile range up to which an effect is none, whatever the noise: of idle parameters of smooth functions,
/// emulators of 28 to 50 settings exclude an effect above 0.06.
const NEGLIGIBLE: f64 = 0.1;

/// The task of a search.
#[derive(Clone, Copy)]
pub(crate) struct Task<'a> {
    pub(crate) space: &'a Space,
    pub(crate) targets: &'a [TargetValue],
    pub(crate) keys: &'a CalibrateKeys,
    /// Settings that were run, of all branches.
    pub(crate) ran: &'a Cell<usize>,
}

/// One combination of choices, and its runs.
pub(crate) struct Branch {
    pub(crate) choice: Vec<usize>,
    pub(crate) region: Region,
    pub(crate) places: Vec<Place>,
    /// For each target and number: how far the whole range moves the metric.
    pub(crate) effects: Vec<Vec<Effect>>,
    /// Deviations of the targets by the discrepancy.
    pub(crate) floors: Vec<f64>,
    /// The least distance that its emulators expect; infinite if too few settings have values.
    least: f64,
    sequence: Sequence,
    taken: HashSet<Vec<u64>>,
    waves: usize,
    settled: bool,
}

/// How far a number moves a target over the whole range, by an emulator, or how far choices move it, by the settings that were run.
pub(crate) struct Effect {
    span: f64,
    /// The error of the span.
    error: f64,
    /// An effect up to this is none, whatever the noise.
    negligible: f64,
}

impl Effect {
    /// Returns whether there is no effect: none is seen, and one of more than twice the noise, or than a negligible one, is excluded. An
    /// emulator with a large error leaves it open.
    pub(crate) fn is_none(&self, noise: f64) -> bool {
        let is_seen = self.span > (SEEN * self.error).max(2.0 * noise);
        !is_seen && self.span + self.error <= self.negligible.max(2.0 * noise)
    }
}

/// Estimates of the emulators in a region.
pub(crate) struct Look<'a> {
    pub(crate) fit: Fit<'a>,
    /// The nearest setting.
    pub(crate) best: Vec<f64>,
    pub(crate) least: f64,
    /// Other settings, the nearest first.
    pub(crate) asked: Vec<(f64, Vec<f64>)>,
}

impl Look<'_> {
    /// Returns the plausible settings.
    pub(crate) fn plausible(&self, farther: f64) -> Vec<Vec<f64>> {
        let near = self.asked.iter().take_while(|(distance, _)| distance - self.least <= farther);
        near.map(|(_, shares)| shares.clone()).collect()
    }
}

impl Branch {
    fn new(task: Task, choice: Vec<usize>) -> Self {
        let dimensions = task.space.numbers().len();
        Branch {
            choice,
            region: Region::whole(dimensions),
            places: Vec::new(),
            effects: Vec::new(),
            floors: vec![0.0; task.targets.len()],
            least: 0.0,
            sequence: Sequence::new(dimensions, 0),
            taken: HashSet::new(),
            waves: 0,
            settled: false,
        }
    }

    /// Returns the nearest permitted setting: whole numbers are whole.
    fn snapped(&self, task: Task, shares: &[f64]) -> Vec<f64> {
        task.space.shares(&task.space.setting(&self.choice, shares))
    }

    /// Runs these settings, unless they have been run.
    fn run(&mut self, task: Task, twin: &mut dyn Twin, shares: &[Vec<f64>]) -> Result<usize> {
        let mut settings = Vec::new();
        for one in shares {
            let setting = task.space.setting(&self.choice, one);
            if self.taken.insert(setting.iter().map(|number| number.to_bits()).collect()) {
                settings.push(setting);
            }
        }
        let found = twin.evaluate(&settings)?;
        let place = |evaluated: crate::Evaluated| {
            task.ran.set(task.ran.get() + 1);
            Place { shares: task.space.shares(&evaluated.setting), evaluated, number: task.ran.get() }
        };
        self.places.extend(found.into_iter().map(place));
        Ok(settings.len())
    }

    /// Fills the region with `n` settings.
    fn fill(&mut self, task: Task, twin: &mut dyn Twin, n: usize) -> Result<usize> {
        let mut shares = Vec::new();
        let mut new = HashSet::new();
        // A range with few whole numbers has fewer settings.
        for _ in 0..20 * n {
            let next = self.sequence.next_point();
            let at = self.snapped(task, &self.region.at(&next));
            let key: Vec<u64> = task.space.setting(&self.choice, &at).iter().map(|number| number.to_bits()).collect();
            if shares.len() < n && !self.taken.contains(&key) && new.insert(key) {
                shares.push(at);
            }
        }
        self.run(task, twin, &shares)
    }

    /// Estimates the region by emulators of the runs.
    pub(crate) fn look<'a>(&mut self, task: Task<'a>) -> Option<Look<'a>> {
        let fit = Fit::of(self.region.clone(), task.targets, &self.places, &self.floors)?;
        let mut sequence = Sequence::new(self.region.0.len(), self.waves as u32 + 1);
        let mut shares: Vec<Vec<f64>> = (0..if self.region.0.is_empty() { 1 } else { ASKED })
            .map(|_| self.snapped(task, &self.region.at(&sequence.next_point())))
            .collect();
        shares.extend(self.places.iter().map(|place| place.shares.clone()).filter(|at| self.region.holds(at, 0.0)));
        let mut asked: Vec<(f64, Vec<f64>)> = shares.into_iter().map(|at| (fit.distance(&at), at)).collect();
        asked.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (mut least, mut best) = asked[0].clone();
        for (_, start) in asked.iter().take(3) {
            let (at, _) = minimum(|x| fit.distance(x), start, &self.region.0, STEPS);
            let at = self.snapped(task, &at);
            // Whole numbers stay fixed here.
            let mut bounds = self.region.0.clone();
            for (k, place) in task.space.numbers().into_iter().enumerate() {
                if task.space.parameters[place].numbers().is_some_and(|numbers| numbers.whole) {
                    bounds[k] = (at[k], at[k]);
                }
            }
            let (at, distance) = minimum(|x| fit.distance(x), &at, &bounds, STEPS);
            if distance < least {
                (least, best) = (distance, at);
            }
        }
        self.least = least;
        if self.effects.is_empty() {
            self.effects = effects(&fit, &asked, &self.places);
        }
        Some(Look { fit, best, least, asked })
    }

    /// Shrinks the region to the plausible settings, and runs some there.
    fn wave(&mut self, task: Task, twin: &mut dyn Twin, most: usize) -> Result<usize> {
        let Some(look) = self.look(task) else {
            // Too few settings have values: one more wave, then a branch with values is nearer.
            let ran = self.fill(task, twin, (4 * self.region.0.len() + 4).min(most))?;
            (self.least, self.settled) = (f64::INFINITY, ran == 0);
            self.waves += 1;
            return Ok(ran);
        };
        let plausible = look.plausible(4.0);
        let sure = |shares: &Vec<f64>| look.fit.unsure(shares);
        let mean = plausible.iter().map(sure).sum::<f64>() / plausible.len().max(1) as f64;
        self.settled = self.waves >= 2 && sure(&look.best) < SURE && mean < SURE && self.as_expected(&look);
        if self.settled || self.region.0.is_empty() {
            self.settled = true;
            return Ok(0);
        }
        self.region = around(&look, task.space);
        let wanted = (4 * self.region.0.len() + 4).min(most);
        let shares = self.next(task, &look, wanted);
        self.waves += 1;
        let ran = self.run(task, twin, &shares)?;
        // A region of few whole numbers has no new settings left.
        self.settled = ran == 0;
        Ok(ran)
    }

    /// Returns whether the emulators agree with the runs near the best setting.
    fn as_expected(&self, look: &Look) -> bool {
        let targets = self.floors.len();
        let near = self.places.iter().filter(|place| {
            self.region.holds(&place.shares, 0.0) && look.fit.distance(&place.shares) - look.least < PLAUSIBLE
        });
        let mut errors = Vec::new();
        for place in near {
            for i in (0..targets).filter(|i| !look.fit.known.is_copy(*i)) {
                if let Some(mean) = place.mean(i) {
                    let error = look.fit.emulated(i, &place.shares).0 - mean;
                    errors.push(error * error / look.fit.known.whole[i * targets + i].max(f64::MIN_POSITIVE));
                }
            }
        }
        errors.is_empty() || errors.iter().sum::<f64>() / errors.len() as f64 <= 1.0
    }

    /// Returns the best setting, and plausible ones that are far from each other and uncertain.
    fn next(&mut self, task: Task, look: &Look, wanted: usize) -> Vec<Vec<f64>> {
        let points: Vec<Vec<f64>> = (0..400).map(|_| self.sequence.next_point()).collect();
        let points = points.iter().map(|at| self.snapped(task, &self.region.at(at)));
        let mut pool: Vec<(f64, Vec<f64>)> = points.map(|at| (look.fit.distance(&at), at)).collect();
        pool.sort_by(|a, b| a.0.total_cmp(&b.0));
        let near = pool.iter().take_while(|(distance, _)| distance - look.least <= 2.0 * PLAUSIBLE).count();
        pool.truncate(near.max(pool.len() / 3));
        let pool: Vec<(f64, Vec<f64>)> = pool.into_iter().map(|(_, at)| (look.fit.unsure(&at) + 0.05, at)).collect();
        let apart = |a: &[f64], b: &[f64]| -> f64 {
            let each = self.region.0.iter().zip(a.iter().zip(b));
            each.map(|((low, high), (a, b))| ((a - b) / (high - low).max(1e-9)).powi(2)).sum::<f64>().sqrt()
        };
        let mut chosen = vec![self.snapped(task, &look.best)];
        let mut nearest: Vec<f64> = pool
            .iter()
            .map(|(_, at)| {
                let ran = self.places.iter().map(|place| apart(&place.shares, at)).fold(f64::INFINITY, f64::min);
                ran.min(apart(&chosen[0], at))
            })
            .collect();
        while chosen.len() < wanted {
            let worth = |i: &usize| pool[*i].0 * nearest[*i];
            let Some(i) = (0..pool.len()).max_by(|a, b| worth(a).total_cmp(&worth(b))) else { break };
            if nearest[i] <= 0.0 {
                break;
            }
            let at = pool[i].1.clone();
            nearest.iter_mut().zip(&pool).for_each(|(least, (_, other))| *least = least.min(apart(&at, other)));
            chosen.push(at);
        }
        chosen
    }

    /// Widens the region where it is `open`, by a half or to the end of the range, and runs there, at most so often.
    pub(crate) fn widen(
        &mut self,
        task: Task,
        twin: &mut dyn Twin,
        open: &[(bool, bool)],
        (to_the_end, most): (bool, usize),
    ) -> Result<usize> {
        for ((low, high), (below, above)) in self.region.0.iter_mut().zip(open) {
            let width = if to_the_end { 2.0 } else { *high - *low };
            *low = (*low - if *below { width / 2.0 } else { 0.0 }).max(0.0);
            *high = (*high + if *above { width / 2.0 } else { 0.0 }).min(1.0);
        }
        let n = (4 * self.region.0.len() + 4).min(most);
        self.fill(task, twin, n)
    }
}

/// Returns the distance of a setting that was run from the targets; none if a metric has no value.
pub(crate) fn measured(targets: &[TargetValue], place: &Place, known: &KnownCovariance) -> Option<f64> {
    let left = targets.iter().enumerate().map(|(i, target)| {
        let left = residual(target, place.mean(i)?) * target.weight.sqrt();
        Some(if known.is_copy(i) { 0.0 } else { left })
    });
    let mut left = left.collect::<Option<Vec<_>>>()?;
    Some(Cholesky::of(known.whole.clone(), targets.len())?.quadratic(&mut left))
}

/// Returns for each target how far each number moves it over the region, from settings all over it.
fn effects(fit: &Fit, asked: &[(f64, Vec<f64>)], places: &[Place]) -> Vec<Vec<Effect>> {
    let targets = fit.known.freedom.len();
    let bases: Vec<&Vec<f64>> = asked.iter().step_by((asked.len() / 40).max(1)).map(|(_, at)| at).collect();
    let of = |target: usize, k: usize| {
        let mut sums = [0.0; 3];
        for base in &bases {
            let value = |step: u32| {
                let mut at = (*base).clone();
                at[k] = fit.region.0[k].0 + (fit.region.0[k].1 - fit.region.0[k].0) * f64::from(step) / 6.0;
                (fit.emulated(target, &at).0, at)
            };
            let mut along: Vec<(f64, Vec<f64>)> = (0..=6).map(value).collect();
            along.sort_by(|a, b| a.0.total_cmp(&b.0));
            let ((least, low), (most, high)) = (&along[0], &along[6]);
            let rounded = ROUNDED * least.abs().max(most.abs());
            // The values at both ends have a large common error if another number has a steep part.
            let error = UNSURE * fit.difference(target, low, high).sqrt();
            sums = [sums[0] + most - least, sums[1] + error.max(rounded), sums[2] + rounded];
        }
        let [span, error, rounded] = sums.map(|sum| sum / bases.len().max(1) as f64);
        // Twice: the error is at least the rounding, too.
        let negligible = (NEGLIGIBLE * interquartile_range(places, target)).max(2.0 * rounded);
        Effect { span, error, negligible }
    };
    (0..targets).map(|target| (0..fit.region.0.len()).map(|k| of(target, k)).collect()).collect()
}

/// Returns how far the choices move a target: the largest difference between branches of its mean over all their settings.
pub(crate) fn effect_of_choices(branches: &[Branch], target: usize) -> Effect {
    let mean = |branch: &Branch| {
        let means: Vec<f64> = branch.places.iter().filter_map(|place| place.mean(target)).collect();
        (!means.is_empty()).then(|| means.iter().sum::<f64>() / means.len() as f64)
    };
    let means: Vec<f64> = branches.iter().filter_map(mean).collect();
    let least = means.iter().copied().fold(f64::INFINITY, f64::min);
    let most = means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let rounded = ROUNDED * least.abs().max(most.abs());
    Effect { span: most - least, error: rounded, negligible: 2.0 * rounded }
}

/// Returns the interquartile range of a target's means at the settings that were run: a few steep ones do not widen it.
fn interquartile_range(places: &[Place], target: usize) -> f64 {
    let mut means: Vec<f64> = places.iter().filter_map(|place| place.mean(target)).collect();
    means.sort_by(f64::total_cmp);
    let quartile = |i: usize| means.get(i * means.len() / 4).copied().unwrap_or(0.0);
    quartile(3) - quartile(1)
}

/// Returns the box around all plausible settings, with a margin.
fn around(look: &Look, space: &Space) -> Region {
    let far = look.plausible(PLAUSIBLE).len().max((look.asked.len() as f64 * STAY) as usize).max(1);
    let near = look.asked.iter().take(far).map(|(_, at)| at).chain([&look.best]);
    let mut region: Vec<(f64, f64)> = look.best.iter().map(|x| (*x, *x)).collect();
    for at in near {
        region.iter_mut().zip(at).for_each(|((low, high), x)| (*low, *high) = (low.min(*x), high.max(*x)));
    }
    for (k, place) in space.numbers().into_iter().enumerate() {
        let step = match space.parameters[place].numbers() {
            Some(numbers) if numbers.whole => (numbers.share(numbers.at(region[k].1) + 1.0) - region[k].1).abs() * 1.01,
            _ => 1e-4,
        };
        let margin = (MARGIN * (region[k].1 - region[k].0)).max(step);
        region[k] = ((region[k].0 - margin).max(0.0), (region[k].1 + margin).min(1.0));
    }
    Region(region)
}

/// Receives the number of settings that were run, and the maximum.
pub(crate) type Progress<'a> = &'a mut dyn FnMut(usize, usize);

/// Runs settings until the emulators are certain about the plausible ones, or the maximum number was run.
pub(crate) fn search(task: Task, twin: &mut dyn Twin, progress: Progress) -> Result<Vec<Branch>> {
    let (ways, dimensions) = (task.space.ways(), task.space.numbers().len());
    let most = task.keys.settings as usize;
    let evenly = task.keys.evenly;
    let each = ways.map_or(0, |ways| most / ways);
    let first = if evenly { each } else { (8 * dimensions + 4).min(each) };
    if first < dimensions + 3 {
        let needed = ways.and_then(|ways| ways.checked_mul(dimensions + 3));
        let text = |number: Option<usize>| number.map_or("too many".to_owned(), |number| number.to_string());
        return Err(Error::config(format!(
            "calibrate.settings = {most}: {} ways to choose and {dimensions} numbers need {} at least",
            text(ways),
            text(needed)
        )));
    }
    let mut branches: Vec<Branch> = task.space.choices().into_iter().map(|choice| Branch::new(task, choice)).collect();
    let mut ran = 0;
    for branch in &mut branches {
        // Emulators need some, at once would be too many for one sweep.
        ran += branch.fill(task, twin, first)?;
        progress(ran, most);
    }
    floors(task, &mut branches)?;
    while !evenly && ran < most {
        let nearest = branches.iter().map(|branch| branch.least).fold(f64::INFINITY, f64::min);
        let mut any = false;
        for branch in &mut branches {
            // If no branch has a distance, none is nearer.
            let is_far = nearest.is_finite() && branch.least - nearest > GIVEN_UP;
            if branch.settled || (branch.waves >= 1 && is_far) || ran >= most {
                continue;
            }
            any = true;
            ran += branch.wave(task, twin, most - ran)?;
            progress(ran, most);
        }
        if !any {
            break;
        }
    }
    Ok(branches)
}

/// Computes the targets' deviations by the discrepancy; refuses targets without a value at more than half of the settings.
fn floors(task: Task, branches: &mut [Branch]) -> Result<()> {
    for (i, target) in task.targets.iter().enumerate() {
        let values: Vec<f64> =
            branches.iter().flat_map(|branch| branch.places.iter().filter_map(|place| place.mean(i))).collect();
        let all: usize = branches.iter().map(|branch| branch.places.len()).sum();
        if 2 * values.len() < all {
            let places = || branches.iter().flat_map(|branch| &branch.places);
            let why = places().find_map(|place| place.evaluated.why.clone());
            return Err(Error::Invalid(format!(
                "target {}: {} of {all} settings have a value of it{}",
                target.name(),
                values.len(),
                why.map_or(String::new(), |why| format!("; a run is invalid: {why}"))
            )));
        }
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let spread = (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt();
        let floor = task.keys.discrepancy * target.value.abs().max(spread);
        let size = target.value.abs().max(spread);
        // What is 0 at every setting, as it should be, says nothing at any scale.
        let least = if size > 0.0 { 1e-9 * size } else { 1.0 };
        branches.iter_mut().for_each(|branch| branch.floors[i] = floor.max(least));
    }
    Ok(())
}
