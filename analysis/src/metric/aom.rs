//! Age-of-Model of clusters and workers: time average, peaks, quantiles over time.

use pktgen_generator::Result;
use pktgen_generator::registry::Named;

use super::Metric;
use crate::age::FlowAge;
use crate::analyze::Analysis;
use crate::line::{Line, NS};
use crate::stats;

/// See the module.
pub(super) struct Aom;

impl Named for Aom {
    fn name(&self) -> &'static str {
        "aom"
    }

    fn about(&self) -> &'static str {
        "Age-of-Model per cluster and worker: exact time average, peaks, quantiles over time, starved flows"
    }
}

/// A metric's name and where its value is.
type Part = (&'static str, fn(&FlowAge) -> Option<f64>);

const PARTS: [Part; 7] = [
    ("aom_mean", |age| age.mean_ns),
    ("aom_peak_mean", |age| age.peak_mean_ns),
    ("aom_peak_p99", |age| age.peak_p99_ns),
    ("aom_peak_max", |age| age.peak_max_ns),
    ("aom_p50", |age| age.quantiles_ns.map(|q| q[0])),
    ("aom_p90", |age| age.quantiles_ns.map(|q| q[1])),
    ("aom_p99", |age| age.quantiles_ns.map(|q| q[2])),
];

impl Metric for Aom {
    fn keys(&self) -> Vec<String> {
        let names = PARTS.iter().map(|(name, _)| *name).chain(["flows_never_delivered"]);
        names.flat_map(|name| [format!("{name}/cluster"), format!("{name}/worker")]).collect()
    }

    fn compute(&self, run: &Analysis, out: &mut Vec<Line>) -> Result<()> {
        let Some(ages) = run.resolved.as_ref().and_then(|resolved| resolved.ages.as_ref()) else { return Ok(()) };
        lines("cluster", &ages.clusters, out);
        lines("worker", &ages.workers, out);
        Ok(())
    }
}

/// The lines of all flows of a kind.
pub(crate) fn lines(flow: &'static str, ages: &[FlowAge], out: &mut Vec<Line>) {
    for (metric, value) in PARTS {
        // The mean over the flows that have a value; design §4 gives it no id.
        let values: Vec<f64> = ages.iter().filter_map(value).collect();
        out.push(Line::new(metric, NS, stats::mean(&values)).with("flow", flow));
        out.extend(ages.iter().map(|age| Line::new(metric, NS, value(age)).with("flow", flow).with("id", age.id)));
    }
    let starved: Vec<_> = ages.iter().filter(|age| !age.delivered).collect();
    out.push(Line::new("flows_never_delivered", "flows", starved.len() as f64).with("flow", flow));
    let named = |age: &&FlowAge| Line::new("flow_never_delivered", "flows", 1.0).with("flow", flow).with("id", age.id);
    out.extend(starved.iter().map(named));
}
