//! Age-of-Model of clusters and workers: time average, peaks, quantiles over time.

use pktgen_core::Result;
use pktgen_core::definition::{Better, Definition, Timing};
use pktgen_core::registry::Named;

use super::Metric;
use crate::age::FlowAge;
use crate::labels::{AGED, FLOW, ONE, ONE_OR_MEAN};
use crate::line::{Line, NS};
use crate::resolved::Analysis;
use crate::stats;

/// See the module documentation.
pub(super) struct Aom;

impl Named for Aom {
    fn name(&self) -> &'static str {
        "aom"
    }

    fn about(&self) -> &'static str {
        "Age-of-Model per cluster and worker: exact time average, peaks, quantiles over time, starvation"
    }
}

/// A metric and the source of its value.
type Part = (Definition, fn(&FlowAge) -> Option<f64>);

const fn age(metric: &'static str, definition: &'static str) -> Definition {
    Definition::new(metric, NS, Better::Lower, definition)
        .labels(&[FLOW, ONE_OR_MEAN])
        .timed(Timing::OneWay)
        .source("design §4")
        .needs(AGED)
}

const PARTS: [Part; 7] = [
    (
        age(
            "aom_mean",
            "Age-of-Model averaged over time: the exact integral of the sawtooth by its window, from the first generation of the cluster or worker (of updates delivered in the cluster, too, if workers move) to its last delivery or generation.",
        ),
        |age| age.mean_ns,
    ),
    (age("aom_peak_mean", "Mean peak age: ages just before each delivery that lowers them."), |age| age.peak_mean_ns),
    (age("aom_peak_p99", "99th percentile of peak ages: ages just before each delivery that lowers them."), |age| {
        age.peak_p99_ns
    }),
    (age("aom_peak_max", "Maximum peak age: ages just before each delivery that lowers them."), |age| age.peak_max_ns),
    (age("aom_p50", "Median age over time: the age is below it for half of the time."), |age| {
        age.quantiles_ns.map(|q| q[0])
    }),
    (age("aom_p90", "90th percentile of the age over time."), |age| age.quantiles_ns.map(|q| q[1])),
    (age("aom_p99", "99th percentile of the age over time."), |age| age.quantiles_ns.map(|q| q[2])),
];

const STARVED: [Definition; 2] = [
    Definition::new(
        "flows_never_delivered",
        "flows",
        Better::Lower,
        "Clusters, or workers, that generated updates but had none delivered.",
    )
    .labels(&[FLOW])
    .source("design §4")
    .needs(AGED),
    Definition::new(
        "flow_never_delivered",
        "flows",
        Better::Neither,
        "1 for each cluster, or worker, that generated updates but had none delivered.",
    )
    .labels(&[FLOW, ONE])
    .source("design §4")
    .needs(AGED),
];

impl Metric for Aom {
    fn definitions(&self) -> Vec<Definition> {
        PARTS.iter().map(|(definition, _)| *definition).chain(STARVED).collect()
    }

    fn compute(&self, run: &Analysis, out: &mut Vec<Line>) -> Result<()> {
        if run.resolved.as_ref().is_none_or(|resolved| resolved.ages().is_none()) {
            return Ok(());
        }
        for (flow, ages) in [("cluster", run.ages().map(|ages| &ages.clusters[..])), ("worker", run.ages_of_workers())]
        {
            match ages {
                Some(ages) => lines(flow, ages, out),
                None => out.extend(PARTS.iter().map(|(metric, _)| Line::of(metric, None).with("flow", flow))),
            }
        }
        Ok(())
    }
}

/// Outputs the lines of all clusters or all workers.
pub fn lines(flow: &'static str, ages: &[FlowAge], out: &mut Vec<Line>) {
    for (metric, value) in &PARTS {
        // The mean over those with a value; by design §4 it has no id.
        let values: Vec<f64> = ages.iter().filter_map(value).collect();
        out.push(Line::of(metric, stats::mean(&values)).with("flow", flow));
        out.extend(ages.iter().map(|age| Line::of(metric, value(age)).with("flow", flow).with("id", age.id)));
    }
    let starved: Vec<_> = ages.iter().filter(|age| !age.delivered).collect();
    out.push(Line::new("flows_never_delivered", "flows", starved.len() as f64).with("flow", flow));
    let named = |age: &&FlowAge| Line::new("flow_never_delivered", "flows", 1.0).with("flow", flow).with("id", age.id);
    out.extend(starved.iter().map(named));
}
