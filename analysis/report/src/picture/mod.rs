//! Pictures: one file per kind of chart, each creating its data from an analysed sweep.
//!
//! To add one: a new file here, its `mod` line and its entry in [`CHARTS`]; a picture of a kind that [`crate::plot`] already draws needs
//! nothing else. `keep` extracts what pictures need from a run's records while the run is analysed. Called by [`crate::model`].

mod against;
mod age_cdf;
mod aggregation;
mod clusters;
mod heat;
pub mod keep;
mod latency;
mod lateness;
mod loss;
pub(crate) mod network;
mod paper;
mod sawtooth;
pub(crate) mod states;

use pktgen_core::registry::Named;
use pktgen_records::human::displayed;
use pktgen_records::stats::{Estimate, SEEDS_MIN};

use crate::chart::Chart;
use crate::sweep::data::{SweepData, VARIANT};
use crate::sweep::settings::unread;

/// One kind of picture.
pub trait Picture: Named + Sync {
    /// Returns the heading of its charts on a page.
    fn heading(&self) -> &'static str;
    /// Returns its charts of a sweep or of a single run; empty if there is nothing to show.
    fn charts(&self, sweep: &SweepData) -> Vec<Chart>;
    /// Whether it draws runs of the first seed that have its data, as other seeds show. Without charts, these could not be read.
    fn is_of_first_seed(&self, _sweep: &SweepData) -> bool {
        false
    }
}

/// All pictures, in the order of a page.
pub static CHARTS: &[&dyn Picture] = &[
    &against::Against,
    &sawtooth::Sawteeth,
    &age_cdf::AgeCdf,
    &heat::Heat,
    &clusters::Clusters,
    &loss::Loss,
    &aggregation::Aggregation,
    &latency::Latency,
    &lateness::Lateness,
    &network::NetworkLoad,
    &states::States,
    &paper::Paper,
];

/// Describes the values after a title: their kind, and whether they have intervals.
pub(crate) fn medians<'a>(shown: impl Iterator<Item = &'a Estimate>) -> String {
    let shown: Vec<&Estimate> = shown.collect();
    let least = shown.iter().filter(|one| one.interval.is_none()).map(|one| one.n).min();
    let most = shown.iter().map(|one| one.n).max();
    let few = |n: usize| match most.filter(|most| *most > n) {
        Some(most) => format!("median over {n} to {most} seeds"),
        None if n == 1 => "one seed".to_owned(),
        None => format!("median over {n} seeds"),
    };
    match least {
        None if shown.iter().all(|one| one.exact) => "exact".to_owned(),
        None => "median over seeds with 95 % intervals".to_owned(),
        Some(n) if shown.iter().all(|one| one.interval.is_none()) => {
            format!("{} (no intervals: {SEEDS_MIN} are needed)", few(n))
        }
        Some(_) => format!("median over seeds, with 95 % intervals where there are {SEEDS_MIN} of them"),
    }
}

/// Returns the unit of an axis with values in `unit`; empty if it is not displayed. Axes of precisions have no percent.
fn unit_of_chart(unit: &str) -> &'static str {
    displayed(unit).filter(|unit| *unit != "precision").unwrap_or("")
}

/// Returns all charts of a sweep.
pub fn all(sweep: &SweepData) -> Vec<Chart> {
    let of = |picture: &&'static dyn Picture| {
        let name = picture.name();
        picture.charts(sweep).into_iter().map(move |chart| Chart { picture: name, ..chart })
    };
    let mut charts: Vec<Chart> = CHARTS.iter().flat_map(of).collect();
    let mut variants: Vec<&str> = Vec::new();
    for variant in sweep.points.iter().filter_map(|point| point.labels.get(VARIANT)) {
        if !variants.contains(&variant.as_str()) {
            variants.push(variant);
        }
    }
    charts.iter_mut().for_each(|chart| chart.colour(&variants));
    charts
}

/// Describes the pictures without any of `charts` since the runs of the first seed could not be read; `None` if there are none.
pub(crate) fn missing(sweep: &SweepData, charts: &[Chart]) -> Option<String> {
    let why = unread(&sweep.runs);
    let is_missing = |picture: &&&dyn Picture| {
        picture.is_of_first_seed(sweep) && !charts.iter().any(|chart| chart.picture == picture.name())
    };
    let names: Vec<&str> = CHARTS.iter().filter(is_missing).map(|picture| picture.heading()).collect();
    let is_due = !why.is_empty() && !names.is_empty();
    is_due.then(|| format!("{why} Pictures without charts for this reason: {}.", names.join("; ")))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pktgen_records::testing::write_sweep;

    use super::*;
    use crate::chart::{CHARTS_MAX, Network};
    use crate::sweep::data::RunSummary;

    #[test]
    fn pictures_count_the_charts_that_are_not_drawn() {
        let dir = tempfile::tempdir().unwrap();
        write_sweep(dir.path(), 1);
        let mut sweep = SweepData::open(dir.path(), &mut |_, _| {}).unwrap();
        let mut run = sweep.runs.iter().find(|run| run.dir == "olaf-20-1").unwrap().clone();
        Arc::make_mut(&mut run.kept).network = Some(Network::default());
        for (axis, what, pictures) in [
            ("rate", "settings", &["sawtooth", "age_cdf", "clusters", "latency"][..]),
            (VARIANT, "variants", &["aggregation", "network"]),
        ] {
            let of = |n: usize| {
                let labels = Arc::new([(axis.to_owned(), n.to_string())].into());
                RunSummary { labels, ..run.clone() }
            };
            sweep.runs = (0..CHARTS_MAX + 2).map(of).collect();
            let charts = all(&sweep);
            for picture in pictures {
                let mut own = charts.iter().filter(|chart| chart.picture == *picture && !chart.folded);
                assert_eq!(own.clone().count() % CHARTS_MAX, 0, "{picture}");
                let last = own.next_back().unwrap_or_else(|| panic!("no chart of {picture}"));
                assert!(last.note.ends_with(&format!("2 further {what} are not drawn.")), "{picture}: {}", last.note);
            }
        }
    }

    #[test]
    fn values_of_some_seeds_do_not_make_the_others_values_of_as_many() {
        let of = |seeds: &[usize]| {
            let all: Vec<Estimate> =
                seeds.iter().map(|n| Estimate { median: 1.0, interval: None, n: *n, exact: false }).collect();
            medians(all.iter())
        };
        for (seeds, said) in [
            (&[4, 1][..], "median over 1 to 4 seeds"),
            (&[2, 4, 4], "median over 2 to 4 seeds"),
            (&[4, 4], "median over 4 seeds"),
            (&[1, 1], "one seed"),
        ] {
            assert_eq!(of(seeds), format!("{said} (no intervals: 5 are needed)"));
        }
    }
}
