//! Sentences about values at several points: each value with its interval, and the number of points at which they are better or worse.
//!
//! Called by [`crate::verdict`].

use std::fmt;
use std::ops::RangeInclusive;

use pktgen_records::human::{self, DECIMALS_MAX, Scale, scale_for};
use pktgen_records::stats::{Estimate, Interval, SEEDS_MIN, too_few};

use crate::headings::{heading, metric_keys};
use crate::sweep::data::{Labels, Lacking, SweepData, VARIANT};

/// Maximum number of points whose values a sentence lists; for more, only the smallest and the largest.
pub(crate) const NAMED_MAX: usize = 4;
/// Maximum number of variants that a sentence about measurements lists.
const VARIANTS_MAX: usize = 8;

/// Reason why some points are not compared.
const FEWER: &str = " (fewer than 5 seeds)";
const _: () = assert!(SEEDS_MIN == 5, "FEWER says how many");
/// Reason why pairs have no value of a comparison although both runs have one.
const NO_RATIO: &str = "there is no ratio (a value of 0 or less, or within the bound of clocks)";

/// A value at a point.
pub(crate) type At<'a> = (&'a Labels, Estimate);

/// Describes the settings of a point except its variant; empty without settings.
pub fn setting(labels: &Labels) -> String {
    let others = labels.iter().filter(|(axis, _)| *axis != VARIANT);
    others.map(|(axis, value)| human::setting(axis, value)).collect::<Vec<_>>().join(", ")
}

/// Digits after the decimal point that are tried.
const DECIMALS: RangeInclusive<usize> = 2..=DECIMALS_MAX;

/// Returns `scale` with enough digits to show whether the interval contains `value`.
pub(crate) fn placing(value: f64, interval: Interval, scale: Scale) -> Scale {
    let Interval { lo, hi } = interval;
    scale.finer(DECIMALS, |scale| {
        let (lo_shown, value_shown, hi_shown) = (scale.shown(lo), scale.shown(value), scale.shown(hi));
        (lo_shown <= value_shown) == (lo <= value) && (value_shown <= hi_shown) == (value <= hi)
    })
}

/// Returns `scale` with enough digits to show on which side of `zero` the ends of the interval are, if there is one.
fn telling(value: &Estimate, zero: f64, scale: Scale) -> Scale {
    let Some(Interval { lo, hi }) = value.interval else { return scale };
    let is_told = |scale: &Scale, end: f64| {
        let end_shown = scale.shown(end);
        let zero_shown = zero * scale.factor;
        (end_shown < zero_shown) == (end < zero) && (end_shown > zero_shown) == (end > zero)
    };
    scale.finer(DECIMALS, |scale| is_told(scale, lo) && is_told(scale, hi))
}

/// A formatted value.
#[derive(Debug, Clone)]
pub(crate) struct Shown {
    /// The median with its unit.
    pub(crate) value: String,
    /// Its interval.
    pub(crate) interval: Option<String>,
    /// The point.
    pub(crate) at: String,
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.value)?;
        if let Some(interval) = &self.interval {
            write!(f, " {interval}")?;
        }
        if self.at.is_empty() { Ok(()) } else { write!(f, " at {}", self.at) }
    }
}

/// Formats each value with its interval and its point; for many points only the smallest and the largest. Where a value of no
/// effect is given, the digits show on which side of it an interval ends.
pub(crate) fn shown(values: &[At], scale: &Scale, zero: Option<f64>) -> Vec<Shown> {
    let one = |(labels, value): &At| {
        let scale = zero.map_or(*scale, |zero| telling(value, zero, *scale));
        let interval =
            value.spread().map(|Interval { lo, hi }| format!("[{}, {}]", scale.number(lo), scale.number(hi)));
        Shown { value: scale.show(value.median), interval, at: setting(labels) }
    };
    if values.len() <= NAMED_MAX {
        return values.iter().map(one).collect();
    }
    extremes(values).map_or_else(Vec::new, |(least, most)| vec![one(least), one(most)])
}

/// Lists the values that [`shown`] formats.
pub(crate) fn each(values: &[At], scale: &Scale, zero: Option<f64>) -> String {
    match shown(values, scale, zero).as_slice() {
        [least, most] if values.len() > NAMED_MAX => format!("{least} (least) to {most} (largest)"),
        all => all.iter().map(Shown::to_string).collect::<Vec<_>>().join(", "),
    }
}

/// Returns the smallest and the largest of the values.
fn extremes<'a, 'b>(values: &'b [At<'a>]) -> Option<(&'b At<'a>, &'b At<'a>)> {
    let by_size = |a: &&At, b: &&At| a.1.median.total_cmp(&b.1.median);
    Some((values.iter().min_by(by_size)?, values.iter().max_by(by_size)?))
}

/// Describes the kind of values: "medians, 95 % intervals", "exact", or "medians".
pub(crate) fn kind(values: &[At]) -> &'static str {
    if values.iter().all(|(_, value)| value.exact) {
        "exact"
    } else if values.iter().all(|(_, value)| value.spread().is_none()) {
        "medians"
    } else {
        "medians, 95 % intervals"
    }
}

/// Numbers of points whose interval is above `zero`, below it, or contains it, and of points with too few seeds. A run
/// without a value, such as one that missed its goal, may be the worst: where only the variant's runs lack values no point
/// is above, where only the baseline's lack them none is below. Where values of pairs differ and have no ratio none is either.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) above: usize,
    pub(crate) below: usize,
    pub(crate) undecided: usize,
    /// Pairs of undecided points that lack a value, and the number of pairs of these points.
    hidden: Option<(Lacking, usize)>,
    /// Number of points with too few seeds, and the minimum number of seeds among them.
    pub(crate) few: Option<(usize, usize)>,
}

impl Tally {
    /// Counts `values`; `lacking` are the points that have pairs without a value.
    pub(crate) fn of(values: &[At], zero: f64, lacking: &[(&Labels, Lacking)]) -> Tally {
        let mut tally = Tally::default();
        for (labels, value) in values {
            let lacks = lacking.iter().find(|(at, _)| at == labels).map_or(Lacking::default(), |(_, lacks)| *lacks);
            match value.interval {
                None => {
                    let (points, least) = tally.few.unwrap_or((0, usize::MAX));
                    tally.few = Some((points + 1, least.min(value.n)));
                }
                Some(interval) if interval.lo > zero && lacks.own + lacks.ratio == 0 => tally.above += 1,
                Some(interval) if interval.hi < zero && lacks.baseline + lacks.ratio == 0 => tally.below += 1,
                Some(interval) if interval.lo > zero || interval.hi < zero => tally.hide(lacks, value.n),
                Some(_) => tally.undecided += 1,
            }
        }
        // Points at which no pair has a value: if all pairs are equal, nothing is hidden.
        for (_, lacks) in lacking.iter().filter(|(at, _)| !values.iter().any(|(labels, _)| labels == at)) {
            if lacks.own + lacks.baseline + lacks.ratio > 0 {
                tally.hide(*lacks, 0);
            }
        }
        tally
    }

    fn hide(&mut self, lacks: Lacking, valued: usize) {
        let (sum, pairs) = self.hidden.unwrap_or_default();
        let Lacking { own, baseline, ratio, equal } = lacks;
        let sum = Lacking {
            own: sum.own + own,
            baseline: sum.baseline + baseline,
            ratio: sum.ratio + ratio,
            equal: sum.equal + equal,
        };
        self.hidden = Some((sum, pairs + valued + own + baseline + ratio + equal));
        self.undecided += 1;
    }

    /// Returns how many pairs lack a value at points that are undecided for that reason; empty if there are none.
    fn shown_hidden(&self) -> String {
        let Some((Lacking { own, baseline, ratio, .. }, pairs)) = self.hidden else { return String::new() };
        let mut parts = match (own, baseline) {
            (0, 0) => Vec::new(),
            (_, 0) => vec![format!("in {own} of {pairs} pairs only the baseline has a value")],
            (0, _) => vec![format!("in {baseline} of {pairs} pairs the baseline has no value")],
            _ => vec![format!("in {own} of {pairs} pairs only the baseline has a value, in {baseline} it has none")],
        };
        if ratio > 0 {
            let of = if parts.is_empty() { format!(" of {pairs} pairs") } else { String::new() };
            parts.push(format!("in {ratio}{of} {NO_RATIO}"));
        }
        parts.join(", ")
    }

    /// Describes the numbers, with the given words for above and below.
    pub(crate) fn told(&self, above: &str, below: &str) -> String {
        let few = self.few.map_or(0, |(points, _)| points);
        let all = self.above + self.below + self.undecided + few;
        if let Some((_, least)) = self.few.filter(|(points, _)| *points == all) {
            return too_few(least);
        }
        let hidden = match self.shown_hidden() {
            hidden if hidden.is_empty() => hidden,
            hidden => format!(": {hidden}"),
        };
        let mut parts: Vec<String> = Vec::new();
        for (n, word) in
            [(self.above, above), (self.below, below), (self.undecided, "undecided"), (few, "not compared")]
        {
            match n {
                0 => {}
                n if n == all && all == 1 => return format!("{word}{hidden}"),
                n if n == all => return format!("{word} at all {all} points{hidden}"),
                n => parts.push(format!("{word} at {n}")),
            }
        }
        let more = if few > 0 {
            FEWER
        } else if self.undecided == 0 {
            ", no undecided points"
        } else if self.above + self.below > 0 {
            ", each by its own 95 % interval"
        } else {
            ""
        };
        format!("{} of {all} points{more}{hidden}", parts.join(", "))
    }
}

/// Describes the measurements of an experiment without comparisons: the first metric of its table, by variant.
pub(crate) fn measured(sweep: &SweepData) -> Option<String> {
    let key =
        metric_keys(sweep).into_iter().find(|key| sweep.points.iter().any(|point| point.cells.contains_key(key)))?;
    let scale = heading(sweep, &key).scale;
    let mut variants: Vec<(&str, Vec<At>)> = Vec::new();
    for point in &sweep.points {
        let Some(cell) = point.cells.get(&key) else { continue };
        let variant = point.labels.get(VARIANT).map_or("", String::as_str);
        match variants.iter_mut().find(|(name, _)| *name == variant) {
            Some((_, values)) => values.push((&point.labels, *cell)),
            None => variants.push((variant, vec![(&point.labels, *cell)])),
        }
    }
    let all: Vec<At> = variants.iter().flat_map(|(_, values)| values.iter().copied()).collect();
    let more = variants.len().saturating_sub(VARIANTS_MAX);
    let told = variants.iter().take(VARIANTS_MAX).map(|(variant, values)| match *variant {
        "" => range(values, &scale),
        name => format!("{name} {}", range(values, &scale)),
    });
    let mut told: Vec<String> = told.collect();
    if more > 0 {
        told.push(format!("{more} more variants"));
    }
    Some(format!("Measured: {}: {} ({}).", human::title(&key), told.join("; "), kind(&all)))
}

/// Lists the values of a few points, or the range of many.
fn range(values: &[At], scale: &Scale) -> String {
    if values.len() <= NAMED_MAX {
        return each(values, scale, None);
    }
    let medians = || values.iter().map(|(_, value)| value.median);
    let (least, most) = (medians().fold(f64::INFINITY, f64::min), medians().fold(f64::NEG_INFINITY, f64::max));
    format!("{} to {} at {} points", scale.show(least), scale.show(most), values.len())
}

/// Returns a percent scale.
pub(crate) fn percent() -> Scale {
    scale_for("share", 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pktgen_records::stats::estimate;

    /// A verdict stands beside numbers that show it.
    #[test]
    fn a_small_effect_is_not_shown_as_none() {
        let five = at("5Gbps");
        let said = |values: &[f64], exact: bool, scale: &Scale, zero: f64| {
            each(&[(&five, estimate(values, exact).unwrap())], scale, Some(zero))
        };
        let cuts = [0.0003, 0.0004, 0.0004, 0.0004, 0.0005];
        assert_eq!(said(&cuts, false, &percent(), 0.0), "0.04 % [0.03, 0.05] at rate 5 Gbit/s");
        assert_eq!(said(&[-0.0003], true, &percent(), 0.0), "−0.03 % at rate 5 Gbit/s");
        assert_eq!(said(&[0.0], true, &percent(), 0.0), "0.0 % at rate 5 Gbit/s");
        assert_eq!(said(&[0.99996], true, &scale_for("ratio", 1.0), 1.0), "0.99996 at rate 5 Gbit/s");
    }

    fn at(rate: &str) -> Labels {
        [(VARIANT.to_owned(), "Olaf".to_owned()), ("topology.rate".to_owned(), rate.to_owned())].into()
    }

    /// Pairs with equal values and no ratio decide nothing, and are among the pairs of a sentence.
    #[test]
    fn equal_pairs_without_a_ratio_are_pairs() {
        let (five, forty) = (at("5Gbps"), at("40Gbps"));
        let values = [(&five, estimate(&[0.50, 0.51, 0.52, 0.53, 0.54], false).unwrap())];
        let told = |at: &Labels, lacks: Lacking| Tally::of(&values, 0.0, &[(at, lacks)]).told("better", "worse");
        let equal = Lacking { equal: 2, ..Lacking::default() };
        assert_eq!((told(&five, equal).as_str(), told(&forty, equal).as_str()), ("better", "better"));
        let differ = Lacking { ratio: 3, ..equal };
        assert_eq!(told(&five, differ), format!("undecided: in 3 of 10 pairs {NO_RATIO}"));
        assert!(told(&forty, differ).ends_with(&format!(": in 3 of 5 pairs {NO_RATIO}")));
    }

    #[test]
    fn every_point_has_its_value_and_few_seeds_no_verdict() {
        let (five, forty) = (at("5Gbps"), at("40Gbps"));
        let cut = |middle: f64, n: usize| {
            let values: Vec<f64> = (0..n).map(|i| middle + 0.01 * i as f64).collect();
            estimate(&values, false).unwrap()
        };
        let enough = [(&five, cut(0.50, SEEDS_MIN)), (&forty, cut(0.60, SEEDS_MIN))];
        let said = each(&enough, &percent(), Some(0.0));
        assert_eq!(said, "52.0 % [50.0, 54.0] at rate 5 Gbit/s, 62.0 % [60.0, 64.0] at rate 40 Gbit/s");
        assert_eq!(Tally::of(&enough, 0.0, &[]).told("better", "worse"), "better at all 2 points");
        assert_eq!(
            Tally::of(&enough, 0.55, &[]).told("better", "worse"),
            "better at 1, worse at 1 of 2 points, no undecided points"
        );
        assert_eq!(
            Tally::of(&enough, 0.53, &[]).told("better", "worse"),
            "better at 1, undecided at 1 of 2 points, each by its own 95 % interval"
        );
        for n in 1..SEEDS_MIN {
            let few = [(&five, cut(0.5, n)), (&forty, cut(0.6, n))];
            let tally = Tally::of(&few, 0.0, &[]);
            assert_eq!((tally.above, tally.below, tally.undecided), (0, 0, 0));
            assert_eq!(tally.told("better", "worse"), too_few(n));
            assert!(!each(&few, &percent(), Some(0.0)).contains('['));
        }
        let mixed = [(&five, cut(0.5, 5)), (&forty, cut(0.6, 3))];
        let said = Tally::of(&mixed, 0.0, &[]).told("better", "worse");
        assert_eq!(said, "better at 1, not compared at 1 of 2 points (fewer than 5 seeds)");
        // A variant without values in some pairs is not better, and may be worse.
        let own = [(&five, Lacking { own: 3, ..Lacking::default() })];
        let told =
            |zero: f64, lacking: &[(&Labels, Lacking)]| Tally::of(&enough, zero, lacking).told("better", "worse");
        assert_eq!(
            told(0.0, &own),
            "better at 1, undecided at 1 of 2 points, each by its own 95 % interval: in 3 of 8 pairs only the baseline has a value"
        );
        assert_eq!(told(0.7, &own), "worse at all 2 points");
        let baseline = [(&forty, Lacking { baseline: 1, ..Lacking::default() })];
        assert_eq!(
            (told(0.0, &baseline).as_str(), &told(0.7, &baseline)[..9]),
            ("better at all 2 points", "worse at ")
        );
        // Pairs without a ratio may be on either side.
        let ratio = [(&five, Lacking { ratio: 3, ..Lacking::default() })];
        for (zero, wanted) in [(0.0, "better at 1, undecided at 1 of 2 points"), (0.7, "worse at 1, undecided at 1 of")]
        {
            let said = told(zero, &ratio);
            assert!(said.starts_with(wanted), "{said}");
            assert!(said.ends_with(&format!(": in 3 of 8 pairs {NO_RATIO}")), "{said}");
        }
        let both = [(&five, Lacking { own: 2, ratio: 1, ..Lacking::default() })];
        let said = told(0.0, &both);
        let wanted = format!("in 2 of 8 pairs only the baseline has a value, in 1 {NO_RATIO}");
        assert!(said.ends_with(&wanted), "{said}");
        // At one more point no pair has a value.
        let one = Tally::of(&enough[..1], 0.0, &[(&forty, Lacking { own: 5, ..Lacking::default() })]);
        assert!(one.told("better", "worse").starts_with("better at 1, undecided at 1 of 2 points"), "{one:?}");
        let alone = Tally::of(&enough[..1], 0.0, &own).told("better", "worse");
        assert_eq!(alone, "undecided: in 3 of 8 pairs only the baseline has a value");
        let exact = [(&five, estimate(&[0.5], true).unwrap())];
        assert_eq!((Tally::of(&exact, 0.0, &[]).told("better", "worse").as_str(), kind(&exact)), ("better", "exact"));
    }
}
