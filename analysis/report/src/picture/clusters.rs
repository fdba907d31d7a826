//! Average age of each cluster as bars, the variants side by side.

use pktgen_core::registry::Named;
use pktgen_records::stats;

use super::Picture;
use crate::chart::{Chart, Kind, SERIES_MAX, Series, first_charts, first_of, not_drawn};
use crate::sweep::data::{Labels, RunSummary, SweepData};
use crate::sweep::settings::{at, settings, variants};

/// Maximum number of clusters: more bars are not readable, and the table has the mean.
const CLUSTERS_MAX: usize = 40;

/// See the module documentation.
pub(super) struct Clusters;

impl Named for Clusters {
    fn name(&self) -> &'static str {
        "clusters"
    }

    fn about(&self) -> &'static str {
        "average Age-of-Model per cluster as bars, the variants side by side"
    }
}

impl Picture for Clusters {
    fn heading(&self) -> &'static str {
        "Age-of-Model per cluster"
    }

    fn charts(&self, sweep: &SweepData) -> Vec<Chart> {
        let all = settings(sweep);
        let with = all.iter().map(|(rest, runs)| (rest, runs, clusters(runs))).filter(|(.., ids)| !ids.is_empty());
        first_charts(with, |(rest, runs, ids)| Some(bars(rest, runs, ids)), "setting")
    }
}

/// Returns the numbers of the runs' clusters that have an average age.
fn clusters(runs: &[&RunSummary]) -> Vec<u64> {
    let mut ids: Vec<u64> = runs.iter().flat_map(|run| run.cluster_aom_ns.iter().map(|(id, _)| *id)).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// Returns the average age of the clusters `ids` with the variants side by side, as medians over the seeds.
fn bars(rest: &Labels, runs: &[&RunSummary], mut ids: Vec<u64>) -> Chart {
    let more = ids.len().saturating_sub(CLUSTERS_MAX);
    ids.truncate(CLUSTERS_MAX);
    let of = |runs: &[&RunSummary]| {
        let value = |id: &u64| {
            let of_id =
                |run: &&RunSummary| run.cluster_aom_ns.iter().find(|(other, _)| other == id).map(|(_, age)| *age);
            stats::median(&runs.iter().filter_map(of_id).collect::<Vec<_>>())
        };
        ids.iter().enumerate().filter_map(|(x, id)| Some((x as f64, value(id)?))).collect()
    };
    let variants = variants(runs);
    let more_variants = first_of(variants.len(), "variants");
    let series = variants.into_iter().take(SERIES_MAX);
    Chart {
        kind: Kind::Bars,
        title: format!("Average Age-of-Model per cluster{}, median over seeds{more_variants}", at(rest)),
        note: not_drawn(more, "cluster", "."),
        x: ("cluster".to_owned(), ""),
        y: ("average age".to_owned(), "ns"),
        categories: ids.iter().map(u64::to_string).collect(),
        series: series
            .map(|(name, runs)| Series { name: name.to_owned(), points: of(&runs), ..Default::default() })
            .collect(),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn the_title_counts_variants_that_are_not_drawn() {
        let of = |variants: usize| {
            let run = |n: usize| RunSummary {
                labels: Arc::new([("variant".to_owned(), n.to_string())].into()),
                cluster_aom_ns: vec![(0, 1.0)],
                ..Default::default()
            };
            let runs: Vec<RunSummary> = (0..variants).map(run).collect();
            let runs: Vec<&RunSummary> = runs.iter().collect();
            bars(&Labels::new(), &runs, clusters(&runs))
        };
        let (eight, ten) = (of(8), of(10));
        assert_eq!((eight.series.len(), ten.series.len()), (8, 8));
        assert!(eight.title.ends_with("median over seeds"), "{}", eight.title);
        assert!(ten.title.ends_with("median over seeds (first 8 of 10 variants)"), "{}", ten.title);
    }

    #[test]
    fn clusters_that_are_not_drawn_are_counted() {
        let of = |clusters: u64| {
            let cluster_aom_ns = (0..clusters).map(|id| (id, 1.0)).collect();
            let run = RunSummary { cluster_aom_ns, ..Default::default() };
            let chart = bars(&Labels::new(), &[&run], super::clusters(&[&run]));
            (chart.categories.len(), chart.note)
        };
        assert_eq!(of(40), (40, String::new()));
        assert_eq!(of(41), (40, "1 further cluster is not drawn.".to_owned()));
        assert_eq!(of(60), (40, "20 further clusters are not drawn.".to_owned()));
    }
}
