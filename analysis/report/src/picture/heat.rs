//! Heat maps of mean ages: cluster by point of the sweep, and cluster by time in the first run.

use pktgen_core::registry::Named;
use pktgen_records::human::{Scale, scale_for, show};
use pktgen_records::stats;

use super::Picture;
use crate::chart::{Chart, Kind, ROWS_MAX, Series, not_drawn, rows_note};
use crate::sweep::data::{PointSummary, RunSummary, SweepData};
use crate::sweep::kept::OverTime;
use crate::sweep::settings::{is_first_unread, point_name};

/// Maximum number of columns: narrower cells are not visible.
const COLUMNS_MAX: usize = 40;

/// See the module documentation.
pub(super) struct Heat;

impl Named for Heat {
    fn name(&self) -> &'static str {
        "heat"
    }

    fn about(&self) -> &'static str {
        "heat maps of the mean Age-of-Model: cluster by point of the sweep, cluster by time in the first run"
    }
}

impl Picture for Heat {
    fn heading(&self) -> &'static str {
        "Clusters at a glance"
    }

    fn charts(&self, sweep: &SweepData) -> Vec<Chart> {
        let by_point = if sweep.points.len() > 1 { by_point(sweep) } else { None };
        let first = sweep.runs.iter().find_map(|run| Some((run, run.kept.over_time.as_ref()?)));
        let mut charts: Vec<Chart> =
            by_point.into_iter().chain(first.and_then(|(run, over)| by_time(run, over))).collect();
        if let Some(last) = charts.last_mut().filter(|_| first.is_none() && is_first_unread(sweep)) {
            last.remark("No map over time is drawn: the runs of the first setting and seed have no readable records.");
        }
        charts
    }

    fn is_of_first_seed(&self, sweep: &SweepData) -> bool {
        sweep.units.contains_key("aom_mean/cluster") && is_first_unread(sweep)
    }
}

/// Returns the median over the seeds of each cluster's mean age, with a row per point.
fn by_point(sweep: &SweepData) -> Option<Chart> {
    let mut ids: Vec<u64> = sweep.runs.iter().flat_map(|run| run.cluster_aom_ns.iter().map(|(id, _)| *id)).collect();
    ids.sort_unstable();
    ids.dedup();
    let more = ids.len().saturating_sub(COLUMNS_MAX);
    ids.truncate(COLUMNS_MAX);
    let row = |point: &PointSummary| {
        let of = |id: u64| {
            let runs = point.runs.iter().flat_map(|run| &sweep.runs[*run].cluster_aom_ns);
            stats::median(&runs.filter(|(other, _)| *other == id).map(|(_, age)| *age).collect::<Vec<_>>())
        };
        let points = ids.iter().enumerate().filter_map(|(x, id)| Some((x as f64, of(*id)?))).collect();
        Series { name: point_name(&point.labels), points, ..Default::default() }
    };
    let rows: Vec<Series> = sweep.points.iter().map(row).filter(|row| !row.points.is_empty()).collect();
    let note = format!("{} {}", rows_note(rows.len()), not_drawn(more, "cluster", ".")).trim().to_owned();
    (!rows.is_empty()).then(|| Chart {
        kind: Kind::Heat,
        title: "Mean Age-of-Model of each cluster at each point, median over seeds".to_owned(),
        note: note.trim().to_owned(),
        x: ("cluster".to_owned(), ""),
        y: ("mean age".to_owned(), "ns"),
        categories: ids.iter().map(u64::to_string).collect(),
        series: rows.into_iter().take(ROWS_MAX).collect(),
        ..Default::default()
    })
}

/// Describes how many of `all` clusters have no row, if any; the table has no single clusters.
fn more_clusters(all: usize) -> String {
    not_drawn(all.saturating_sub(ROWS_MAX), "cluster", ".")
}

/// Returns a row per cluster of `run`.
fn by_time(run: &RunSummary, over: &OverTime) -> Option<Chart> {
    let row = |(id, means): &(u32, Vec<Option<f64>>)| Series {
        name: format!("cluster {id}"),
        points: means.iter().enumerate().filter_map(|(x, mean)| Some((x as f64, (*mean)?))).collect(),
        ..Default::default()
    };
    let columns = over.clusters.first()?.1.len();
    let begin = |i: usize| over.from_ns + over.step_ns * i as f64;
    let scale = scale_for("ns", begin(columns));
    // Two digits of the distance between columns, so that their names differ.
    let decimals = (1.0 - (over.step_ns * scale.factor).log10().floor()).clamp(0.0, 9.0) as usize;
    let scale = Scale { decimals: Some(decimals), ..scale };
    let begins = (0..columns).map(|i| scale.show(begin(i)));
    Some(Chart {
        kind: Kind::Heat,
        title: format!("Mean Age-of-Model of each cluster over time, {}, seed {}", point_name(&run.labels), run.seed),
        // The first clusters alone are kept over time; all have a mean.
        note: format!(
            "A cell is {} long. {}",
            show("ns", over.step_ns),
            more_clusters(over.clusters.len().max(run.cluster_aom_ns.len()))
        )
        .trim()
        .to_owned(),
        x: ("time in the run".to_owned(), ""),
        y: ("mean age".to_owned(), "ns"),
        categories: begins.collect(),
        series: over.clusters.iter().map(row).take(ROWS_MAX).collect(),
        ..Default::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_a_late_window_have_different_names() {
        let clusters = vec![(0, vec![Some(1.0); COLUMNS_MAX])];
        let over = OverTime { from_ns: 1e11, step_ns: 2.5e7, clusters };
        let names = by_time(&RunSummary::default(), &over).unwrap().categories;
        assert_eq!(names[..3], ["100.000 s", "100.025 s", "100.050 s"]);
    }

    /// The table has one mean over all clusters.
    #[test]
    fn clusters_without_a_row_are_counted_and_not_said_to_be_in_the_table() {
        assert_eq!(more_clusters(ROWS_MAX), "");
        assert_eq!(more_clusters(ROWS_MAX + 1), "1 further cluster is not drawn.");
        assert_eq!(more_clusters(ROWS_MAX + 2), "2 further clusters are not drawn.");
        assert_eq!(rows_note(ROWS_MAX + 1), "1 further point is not drawn; the table has all.");
    }
}
