//! Extracts what charts need from a run's records while the run is analysed, since the records of all runs of a sweep
//! do not fit into memory together.
//!
//! Called by [`crate::sweep`] for the runs of the first seed.

use std::path::Path;

use pktgen_core::Result;
use pktgen_records::age::{PeaksOf, Sawtooth, Trace};
use pktgen_records::over_time::quantiles;
use pktgen_records::quantile::{Values, nearest_ranks};
use pktgen_records::resolved::Analysis;
use pktgen_records::stats::quantile_of_sorted;

use super::{lateness, network};
use crate::sweep::kept::{Cdf, Depth, Kept, OverTime};

/// Number of points of a curve of cumulative shares.
const POINTS: u32 = 200;
/// Number of time intervals in a heat map.
pub(crate) const BINS: usize = 40;
/// Maximum number of clusters of a run whose sawteeth are drawn, and in a heat map over time.
pub(crate) const CLUSTERS_MAX: usize = 40;

/// Extracts what charts need from `run`, which is in `dir`.
pub fn of(run: &Analysis, dir: &Path, depth: Depth) -> Result<Kept> {
    let mut kept = Kept::default();
    if depth == Depth::Values {
        return Ok(kept);
    }
    kept.lateness_cdf = lateness::read(dir).unwrap_or_default();
    let results = run.rounds.as_ref().and_then(|rounds| rounds.results.as_ref());
    if let Some(results) = results {
        let spans = results.t_recv_ps.iter().zip(&results.t_sent_ps).zip(&results.again);
        let own =
            spans.filter(|(_, again)| !**again).filter_map(|((recv, sent), _)| Some(recv.saturating_sub((*sent)?)));
        kept.result_cdf = cdf(own.collect());
    }
    if let Some(resolved) = &run.resolved {
        kept.device_cdf = cdf_of(resolved.device_ps())?;
        kept.host_cdf = cdf_of(resolved.host_ps())?;
    }
    keep_ages(run, depth, &mut kept)?;
    if depth == Depth::All {
        kept.network = network::of(run);
    }
    Ok(kept)
}

fn keep_ages(run: &Analysis, depth: Depth, kept: &mut Kept) -> Result<()> {
    let Some(ages) = run.ages() else { return Ok(()) };
    let shares: Vec<f64> = shares().collect();
    let found = quantiles(ages.traces.as_slice(), &shares, 1.0)?.over_time.unwrap_or_default();
    kept.age_cdf = found.into_iter().map(|ps| ps / 1000.0).zip(shares).collect();
    kept.peak_cdf = cdf_of(&PeaksOf(&ages.traces))?;
    kept.sawteeth = ages.sawteeth(if depth == Depth::All { CLUSTERS_MAX } else { 1 })?;
    if depth == Depth::All {
        kept.over_time = over_time(&kept.sawteeth, &ages.traces)?;
    }
    Ok(())
}

fn shares() -> impl Iterator<Item = f64> {
    (1..=POINTS).map(|i| f64::from(i) / f64::from(POINTS))
}

/// Returns the cumulative shares of `spans_ps` in ns: every value if there are few, otherwise those at every half percent by nearest rank.
pub(crate) fn cdf(mut spans_ps: Vec<i64>) -> Cdf {
    spans_ps.sort_unstable();
    let n = spans_ps.len();
    let least = spans_ps.first().map(|least| (*least as f64 / 1000.0, 0.0));
    if n <= POINTS as usize {
        let points = spans_ps.iter().enumerate().map(|(i, span)| (*span as f64 / 1000.0, (i + 1) as f64 / n as f64));
        return least.into_iter().chain(points).collect();
    }
    let points = shares().filter_map(|share| Some((quantile_of_sorted(&spans_ps, share)? as f64 / 1000.0, share)));
    least.into_iter().chain(points).collect()
}

/// Returns the same for spans that may exceed memory.
fn cdf_of(spans_ps: &dyn Values) -> Result<Cdf> {
    let mut few = Vec::new();
    if spans_ps.len() <= POINTS as usize {
        spans_ps.scan(&mut |part| few.extend_from_slice(part))?;
        return Ok(cdf(few));
    }
    let least = spans_ps.ends()?.map(|(least, _)| (least as f64 / 1000.0, 0.0));
    let shares: [f64; POINTS as usize] = std::array::from_fn(|i| (i + 1) as f64 / f64::from(POINTS));
    let ranks = nearest_ranks(spans_ps, shares)?.into_iter().flatten();
    Ok(least.into_iter().chain(ranks.map(|ps| ps as f64 / 1000.0).zip(shares)).collect())
}

/// Returns mean ages in equal intervals from the first beginning to the last end of all `traces`; `sawteeth` are of the first of them.
fn over_time(sawteeth: &[Sawtooth], traces: &[Trace]) -> Result<Option<OverTime>> {
    let windows = traces.iter().map(Trace::window).collect::<Result<Vec<_>>>()?;
    let ends = windows.iter().map(|(from, _)| *from).min().zip(windows.iter().map(|(_, to)| *to).max());
    let Some((from, to)) = ends.filter(|(from, to)| to > from) else { return Ok(None) };
    let step = (i128::from(to) - i128::from(from)) as f64 / BINS as f64;
    let edge = |i: usize| if i == BINS { to } else { from + (step * i as f64) as i64 };
    let of = |own: &Sawtooth| (own.id, (0..BINS).map(|i| own.mean_ns(edge(i), edge(i + 1))).collect());
    Ok(Some(OverTime {
        from_ns: from as f64 / 1000.0,
        step_ns: step / 1000.0,
        clusters: sawteeth.iter().map(of).collect(),
    }))
}

#[cfg(test)]
#[path = "keep_tests.rs"]
mod tests;
