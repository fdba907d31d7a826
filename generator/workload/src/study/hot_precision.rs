//! How well training with a sample of the data finds the hot parameters (LIBRA §5.3, Figure 15).
//!
//! A whole training is counted, and its sample: every update of it is in the sample with the sampling rate, independently,
//! so the sampled data is part of the whole. On both the rule of §5.3 makes a list of hot parameters, and the precision
//! is the share of the whole's list that is in the sample's. Ranks are counted as far as a list may have them.
//!
//! The rule lets the two differ in length, and counts of a
//! sample lie further apart than frequencies do, so the precision with both lists cut to the model's number of hot
//! parameters (§5.2) is found too.
//!
//! Ties are broken at random in each list. A list that ends with a parameter without updates says nothing of what is hot:
//! its numbers have no value.

use super::{Finding, Study, Task};
use crate::config::{KeyTables, Section, settings};
use crate::definition::{Better, Definition};
use crate::registry::Named;
use crate::seed::Seed;
use crate::sparse::HOT_MAX;
use crate::sparse::fit::{STEP, THRESHOLD};
use crate::sparse::hot::{UpdateCounts, counted, precision, ties};
use crate::sparse::read::{Model, OfCurve, Shape, shape};
use crate::sparse::tail::Tail;
use crate::{Error, Result};

/// `kind = "hot_precision"`.
pub(crate) struct HotPrecision;

const fn found(metric: &'static str, unit: &'static str, better: Better, definition: &'static str) -> Definition {
    Definition::new(metric, unit, better, definition).source("LIBRA §5.3, Figure 15")
}

static METRICS: [Definition; 5] = [
    found(
        "hot_precision",
        "share",
        Better::Higher,
        "Share of the whole training's hot parameters found by training with a sample; ties are broken at random. No value if \
         a list includes parameters without updates.",
    ),
    found(
        "hot_precision_fixed",
        "share",
        Better::Higher,
        "`hot_precision` with both lists cut to the model's number of hot parameters.",
    ),
    found("hot_count_global", "parameters", Better::Neither, "Hot parameters of the whole training."),
    found("hot_count_sample", "parameters", Better::Neither, "Hot parameters of the sample."),
    found(
        "hot_share",
        "share",
        Better::Higher,
        "Share of the whole training's updates that go to the sample's hot parameters.",
    ),
];

impl Named for HotPrecision {
    fn name(&self) -> &'static str {
        "hot_precision"
    }
    fn about(&self) -> &'static str {
        "hot parameters found by training with a sample of the data, compared with those of the whole training"
    }
}

settings! {
    /// What it reads from `[study]` beside the model.
    struct Settings {
        /// Updates of the whole training. Our choice: the paper does not state its length, and the result of a sample
        /// depends on it.
        updates: f64 = 1e8 in 1.0..=1e15;
        /// Share of the data in the sample.
        sample_rate: f64 = 0.08 in 1e-9..=1.0;
        /// Step of the rule of §5.3, in parameters.
        step: u64 = (STEP as u32) in 1..=1_000_000_000;
        /// Threshold of the rule: minimum share of updates that a step must add.
        threshold: f64 = THRESHOLD in 1e-9..=1.0;
    }
}

impl Study for HotPrecision {
    fn keys(&self) -> KeyTables {
        &[Model::KEYS, OfCurve::KEYS, Settings::KEYS]
    }

    fn metrics(&self) -> &'static [Definition] {
        &METRICS
    }

    fn read(&self, section: &mut Section) -> Result<Task> {
        let shape = shape(section)?;
        let Settings { updates, sample_rate: rate, step, threshold } = Settings::read(section)?;
        // Of both lists, that of the rule alone may be too long: `hot` has a range.
        let list = shape.curve.stop(step, threshold).max(shape.hot.into());
        let (counts, most) = (counted(list).min(shape.curve.ranks()), u64::from(HOT_MAX));
        if list > most && counts > counted(most) {
            return Err(Error::config(format!(
                "{}: a list of {list} hot parameters needs counts of {counts} parameters, {} MB of memory; lists have at most \
                 {most} parameters, as many as the memory of a switch holds; lower study.step",
                section.place("step"),
                counts.saturating_mul(COUNT_BYTES) / 1_000_000
            )));
        }
        let place = section.place("threshold");
        let training = Training { shape, updates, rate, step, threshold, place };
        Ok(Box::new(move |seed, _| training.compare(seed)))
    }
}

/// Memory of a counted parameter: its counts in the whole and in the sample, its place in the one list, and its place
/// and count in the other, which is sorted.
const COUNT_BYTES: u64 = 40;

/// What is trained, and by which rule parameters are hot.
struct Training {
    shape: Shape,
    updates: f64,
    rate: f64,
    step: u64,
    threshold: f64,
    /// Where the threshold was written.
    place: String,
}

impl Training {
    fn compare(&self, seed: Seed) -> Result<Vec<Finding>> {
        let hot = u64::from(self.shape.hot);
        let counted = counted(hot.max(self.shape.curve.stop(self.step, self.threshold)));
        let mut stream = seed.stream("study.hot_precision.whole", 0, 0);
        let mut whole = UpdateCounts::draw(&self.shape.curve, self.updates, counted, &mut stream);
        let mut sample = whole.thinned(self.rate, &mut seed.stream("study.hot_precision.sample", 0, 0));
        let salts = ["sample", "whole"].map(|list| ties(seed, &format!("study.hot_precision.{list}.ties")));
        let rest = [sample.rest(), whole.rest() - sample.rest()];
        let later = seed.stream("study.hot_precision.later", 0, 0);
        let mut tail = Tail::new(&self.shape.curve, whole.first.len() as u64, rest, later);
        // Fewest updates, in the sample and in the whole, of which all later ranks are known.
        let mut least = [u64::MAX; 2];
        let ([sample_order, whole_order], [sampled, global]) = loop {
            let orders = [sample.order(salts[0]), whole.order(salts[1])];
            let lists = [(&sample, &orders[0]), (&whole, &orders[1])];
            let stops = lists.map(|(counts, order)| counts.stop(order, self.step as usize, self.threshold));
            let needed = [0, 1].map(|i| self.least(lists[i].0, lists[i].1, stops[i]));
            for (least, needed) in least.iter_mut().zip(needed) {
                // Longer lists may need fewer still: by halves, since each takes a sort.
                *least = if needed < *least { needed.min(*least / 2).max(1) } else { *least };
            }
            let refused = |why: String| Error::config(format!("study.updates: {}: {why} (study.curve)", self.updates));
            let found = tail.reach(least).map_err(refused)?;
            if found.is_empty() {
                break (orders, stops);
            }
            for (rank, [sampled, others]) in found {
                sample.later.insert(rank, sampled);
                whole.later.insert(rank, sampled + others);
            }
        };
        if global == 0 {
            return Err(Error::config(format!(
                "{}: no {} parameters get {} of the updates, so none are hot; lower it or raise study.step",
                self.place, self.step, self.threshold
            )));
        }
        let fixed = hot.min(whole_order.len() as u64) as usize;
        let found = |k, n| Some(precision(updated(&whole, &whole_order, k)?, updated(&sample, &sample_order, n)?));
        let list = |counts, order, k| updated(counts, order, k).map(|ranks| ranks.len() as f64);
        let intercepted = updated(&sample, &sample_order, sampled)
            .map(|ranks| ranks.iter().map(|rank| whole.of(*rank)).sum::<u64>() as f64 / whole.total as f64);
        let values = [
            found(global, sampled),
            found(fixed, fixed),
            list(&whole, &whole_order, global),
            list(&sample, &sample_order, sampled),
            intercepted,
        ];
        let finding = |(definition, value): (&Definition, Option<f64>)| Finding {
            value,
            ..Finding::new(definition.metric, definition.unit, 0.0)
        };
        Ok(METRICS.iter().zip(values).map(finding).collect())
    }

    /// Fewest updates, 1 or more, that decide where a list ends: those of the last rank of the step that the rule stops
    /// at, or of the model's last hot parameter.
    fn least(&self, counts: &UpdateCounts, order: &[u64], stop: usize) -> u64 {
        let ranks = (stop + self.step as usize).max(self.shape.hot as usize).min(order.len());
        order[..ranks].last().map_or(1, |rank| counts.of(*rank).max(1))
    }
}

/// The first `k` ranks of `order`; none if they include one without updates, or if there are no updates.
fn updated<'a>(counts: &UpdateCounts, order: &'a [u64], k: usize) -> Option<&'a [u64]> {
    let ranks = &order[..k];
    let all = ranks.last().map_or(counts.total, |rank| counts.of(*rank)) > 0;
    all.then_some(ranks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Value;
    use std::collections::BTreeSet;

    fn run(values: &[(&str, Value)], seed: u64) -> Vec<f64> {
        let findings = HotPrecision.run(&mut Section::of("study", values), Seed(seed)).unwrap();
        let names: Vec<_> = findings.iter().map(|finding| finding.metric.as_str()).collect();
        assert_eq!(names, METRICS.map(|definition| definition.metric));
        findings.iter().filter_map(|finding| finding.value).collect()
    }

    #[test]
    fn a_sample_finds_as_many_as_published() {
        // LIBRA §5.3: above 80 % at a sampling rate of 4 %, above 90 % at 8 %, for all five models.
        for model in ["oa", "se", "deeplight", "lstm", "ncf"] {
            for (rate, least) in [(0.04, 0.8), (0.08, 0.9)] {
                let found = run(&[("model", model.into()), ("sample_rate", rate.into())], 1);
                assert!(found[0] > least, "{model} at {rate}: {found:?}");
            }
        }
    }

    #[test]
    fn all_of_the_data_finds_all() {
        let found = run(&[("sample_rate", 1.0.into())], 2);
        // Ties at the ends of the lists are broken twice.
        assert!(found[..2].iter().all(|precision| (0.999..=1.0).contains(precision)), "{found:?}");
        assert_eq!(found[2], found[3]);
    }

    /// Of 50,000 sampled updates thousands of later parameters have as many as the last hot one. Without them 0.61 are found.
    #[test]
    fn a_short_sample_finds_as_many_as_if_all_were_counted() {
        for seed in 1..=3 {
            let values = [("updates", 1e5.into()), ("sample_rate", 0.5.into())];
            let findings = HotPrecision.run(&mut Section::of("study", &values), Seed(seed)).unwrap();
            let fixed = findings[1].value.unwrap();
            assert!((0.575..0.600).contains(&fixed), "{fixed}");
        }
    }

    #[test]
    fn lists_of_parameters_without_updates_have_no_precision() {
        let run = |updates: f64, rate: f64| {
            let values = [("updates", updates.into()), ("sample_rate", rate.into())];
            let findings = HotPrecision.run(&mut Section::of("study", &values), Seed(1)).unwrap();
            findings.iter().map(|finding| finding.value).collect::<Vec<_>>()
        };
        // 800 updates of 30,000 hot parameters; 100 updates of the whole, none of the sample.
        assert_eq!(run(1e4, 0.08)[..2], [None, None]);
        assert_eq!(run(100.0, 1e-9)[..2], [None, None]);
        assert_eq!(run(1e8, 1e-9)[1..], [None, Some(30_000.0), None, None]);
        assert!(run(1e8, 0.08).iter().all(Option::is_some));
    }

    #[test]
    fn keys_are_those_that_are_read() {
        let mut asked = BTreeSet::new();
        // Which keys of curves are read depends on the curve.
        for curve in ["fitted", "mandelbrot", "empirical"] {
            let mut section = Section::of("study", &[("updates", 1e6.into()), ("curve", curve.into())]);
            // One without its points refuses; it has read its key by then.
            let _ = HotPrecision.read(&mut section);
            asked.extend(section.asked().to_vec());
        }
        assert_eq!(asked, crate::config::names_of(HotPrecision.keys()).map(str::to_owned).collect());
    }

    #[test]
    fn lists_beyond_the_memory_are_refused_before_they_are_counted() {
        let list = ["study.step", "hot parameters", "6000 MB", "5000000"];
        let range = ["study.hot", "100000000 is not from 1 to 5000000", "a switch", "holds no more"];
        for (key, value, parts) in [("step", 1_000_000_000u32, list), ("hot", 100_000_000, range)] {
            let mut section = Section::of("study", &[("model", "oa".into()), (key, value.into())]);
            let why = HotPrecision.read(&mut section).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(parts.iter().all(|part| why.contains(part)), "{why}");
        }
        // As many as there are parameters are no more.
        let few = [("parameters", 200_000u32.into()), ("step", 1_000_000_000u32.into()), ("threshold", 0.1.into())];
        let mut section =
            Section::of("study", &[&[("curve", "zipf".into()), ("hot", 1000u32.into())], &few[..]].concat());
        assert!(HotPrecision.read(&mut section).is_ok());
    }

    #[test]
    fn what_cannot_be_studied_is_refused() {
        for (key, value) in
            [("updates", 0.0), ("sample_rate", 0.0), ("sample_rate", 1.1), ("threshold", 0.0), ("threshold", 0.9)]
        {
            let refused = HotPrecision.run(&mut Section::of("study", &[(key, value.into())]), Seed(1));
            assert!(refused.unwrap_err().to_string().contains(&format!("study.{key}")));
        }
        let refused = HotPrecision.run(&mut Section::of("study", &[("hot", 0i64.into())]), Seed(1));
        assert!(refused.unwrap_err().to_string().contains("study.hot"));
    }
}
