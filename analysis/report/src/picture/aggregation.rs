//! Numbers of updates that received packets represent: cumulative shares, with one chart per variant that aggregates.

use std::collections::BTreeSet;

use pktgen_core::registry::Named;

use super::Picture;
use crate::chart::{Chart, Kind, SERIES_MAX, Series, first_charts, first_of};
use crate::sweep::data::describe;
use crate::sweep::data::without_variant;
use crate::sweep::data::{Labels, RunSummary, SweepData};
use crate::sweep::settings::variants;

/// See the module documentation.
pub(super) struct Aggregation;

impl Named for Aggregation {
    fn name(&self) -> &'static str {
        "aggregation"
    }

    fn about(&self) -> &'static str {
        "CDF of updates per received packet, one line per setting"
    }
}

impl Picture for Aggregation {
    fn heading(&self) -> &'static str {
        "Aggregation"
    }

    fn charts(&self, sweep: &SweepData) -> Vec<Chart> {
        let runs: Vec<_> = sweep.runs.iter().collect();
        let aggregates =
            |runs: &[&RunSummary]| runs.iter().flat_map(|run| &run.aggregation_cdf).any(|(updates, _)| *updates > 1);
        let with = variants(&runs).into_iter().filter(|(_, runs)| aggregates(runs));
        first_charts(with, |(name, runs)| Some(draw(name, runs)), "variant")
    }
}

/// Returns cumulative shares of the aggregation count of a variant, with one line per other setting.
fn draw(name: &str, runs: Vec<&RunSummary>) -> Chart {
    let mut groups: Vec<(&Labels, Vec<&RunSummary>)> = Vec::new();
    for run in runs {
        match groups.iter_mut().find(|(labels, _)| *labels == &*run.labels) {
            Some((_, runs)) => runs.push(run),
            None => groups.push((&run.labels, vec![run])),
        }
    }
    let shown = groups.iter().take(SERIES_MAX);
    Chart {
        kind: Kind::Step,
        title: format!(
            "Updates per received packet (CDF), {name}, mean over seeds{}",
            first_of(groups.len(), "settings")
        ),
        x: ("updates in a packet, at most".to_owned(), ""),
        y: ("share of packets".to_owned(), "share"),
        series: shown.map(|(labels, runs)| cumulative(labels, runs)).collect(),
        ..Default::default()
    }
}

/// Returns the mean over the seeds of the cumulative shares, as corners of a step line.
fn cumulative(labels: &Labels, runs: &[&RunSummary]) -> Series {
    let rest = without_variant(labels);
    // Runs that could not be read, or received nothing, have no shares.
    let with: Vec<_> = runs.iter().filter(|run| !run.aggregation_cdf.is_empty()).collect();
    let corners: BTreeSet<u64> = with.iter().flat_map(|run| &run.aggregation_cdf).map(|(n, _)| *n).collect();
    let points = corners.into_iter().map(|n| {
        let sum: f64 = with.iter().map(|run| share_at(&run.aggregation_cdf, n)).sum();
        (n as f64, sum / with.len() as f64)
    });
    let name = if rest.is_empty() { "all".to_owned() } else { describe(&rest) };
    Series { name, points: points.collect(), ..Default::default() }
}

/// Returns the share of packets with at most `n` updates.
fn share_at(cdf: &[(u64, f64)], n: u64) -> f64 {
    let corners = cdf.partition_point(|(corner, _)| *corner <= n);
    corners.checked_sub(1).map_or(0.0, |last| cdf[last].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_without_packets_do_not_lower_the_shares() {
        let run = RunSummary { aggregation_cdf: vec![(1, 0.5), (2, 1.0)], ..Default::default() };
        let series = cumulative(&Labels::new(), &[&run, &RunSummary::default()]);
        assert_eq!(series.points, [(1.0, 0.5), (2.0, 1.0)]);
    }

    #[test]
    fn cumulative_shares_are_means_over_seeds() {
        let run = |cdf: &[(u64, f64)]| RunSummary { aggregation_cdf: cdf.to_vec(), ..Default::default() };
        let (a, b) = (run(&[(1, 0.5), (2, 1.0)]), run(&[(1, 0.25), (4, 1.0)]));
        let series = cumulative(&Labels::new(), &[&a, &b]);
        assert_eq!(series.points, [(1.0, 0.375), (2.0, 0.625), (4.0, 1.0)]);
        // The last share is 1, whatever the number of seeds.
        let alike = run(&[(1, 1.0)]);
        assert_eq!(cumulative(&Labels::new(), &[&alike; 7]).points, [(1.0, 1.0)]);
    }
}
