//! The number of workers that fit: N(m), the maximum number of workers with at most m flows on every link (docs/atro.md).
//!
//! Closed forms if available; otherwise proved bounds from above and below, and between these the best of the known shapes.

use pktgen_core::Result;

use super::cluster::Cluster;
use super::heads::Shares;
use super::infeasible;
use super::shapes;

/// The number of workers that fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    /// The maximum number of workers for which a shape is known.
    pub workers: u64,
    /// A proved upper bound.
    pub bound: u64,
    /// Whether all shapes were tried (otherwise only the one of the lower bound): then `workers` is exact in all
    /// comparisons with the program so far.
    pub searched: bool,
}

impl Reach {
    fn exact(workers: u64) -> Self {
        Reach { workers, bound: workers, searched: true }
    }

    /// Returns the limit for judging a plan: the proved bound, or the best of all shapes.
    pub fn limit(&self) -> u64 {
        if self.searched { self.workers } else { self.bound }
    }
}

/// Returns N(m): the maximum number of workers with at most `m` flows per link.
pub(crate) fn most_workers(cluster: &Cluster, m: u64) -> Reach {
    closed_form(cluster, m).map(Reach::exact).unwrap_or_else(|| {
        let upper = upper(cluster, m);
        if cluster.layers == 2 {
            return Reach { workers: two_layers(cluster, m), bound: upper, searched: true };
        }
        let lower = shapes::lower(cluster, m);
        if lower >= upper {
            return Reach::exact(upper);
        }
        match shapes::best(cluster, m) {
            Some(workers) => Reach { workers: workers.max(lower).min(upper), bound: upper, searched: true },
            None => Reach { workers: lower, bound: upper, searched: false },
        }
    })
}

/// Returns N(m) where a formula is proved.
fn closed_form(cluster: &Cluster, m: u64) -> Option<u64> {
    let Cluster { switches, aggregators, ports, layers, .. } = *cluster;
    if m == 0 || switches == 0 || layers == 0 || ports < 2 {
        return Some(0);
    }
    let tree = cluster.tree(layers);
    if aggregators == 0 {
        return Some(m.min(1 + switches.min(tree) * (ports - 2)));
    }
    if m == 1 || ports == 2 {
        return Some(1 + aggregators.min(tree) * (ports - 2));
    }
    if layers == 1 {
        return Some(ports - 1);
    }
    let gain = Shares::new(ports, m).gain(aggregators);
    (layers > 2 && switches <= ports).then(|| 1 + aggregators * (ports - 2) + cluster.commons() * gain)
}

/// L = 2: an aggregator next to the server with everything below it, or a common switch.
fn two_layers(cluster: &Cluster, m: u64) -> u64 {
    let (p, commons) = (cluster.ports, cluster.commons());
    let inner = cluster.aggregators.min(cluster.tree(2));
    // Below an aggregator, each common switch has one link.
    let hung = commons.min(p - inner);
    let below_aggregator = 1 + inner * (p - 2) + hung * (m - 1).min(p - 2);
    if commons == 0 {
        return below_aggregator;
    }
    let direct = cluster.aggregators.min(m).min(p - 1);
    let further = (commons - 1).min(p - 1 - direct);
    let below_common = direct * (p - 1) + (m - direct).min(p - 1 - direct + further * (p - 2));
    below_aggregator.max(below_common)
}

/// Returns an upper bound, by counting link ends and flows.
fn upper(cluster: &Cluster, m: u64) -> u64 {
    let Cluster { aggregators, ports: p, layers, .. } = *cluster;
    let (inner, commons) = (aggregators.min(cluster.tree(layers)), cluster.commons());
    let base = 1 + inner * (p - 2);
    let heads = aggregators.min(cluster.tree(layers - 1));
    let by_ports = base + commons * Shares::new(p, m).gain(u64::MAX);
    let by_links = base.saturating_add(commons.saturating_mul(heads).saturating_mul(m - 1));
    let by_flows = m.saturating_add(aggregators.saturating_mul((m.saturating_mul(p - 1)).saturating_sub(1)));
    let by_layers = u32::try_from(layers).ok().and_then(|layers| (p - 1).checked_pow(layers)).unwrap_or(u64::MAX);
    by_ports.min(by_links).min(by_flows).min(by_layers)
}

/// Returns the minimum number of flows per link with which this many workers fit, or why none is sufficient.
pub fn flows_per_link(cluster: &Cluster, workers: u64) -> Result<u64> {
    infeasible::check(cluster, workers)?;
    Ok(fewest(workers, |m| most_workers(cluster, m).workers >= workers))
}

/// Returns the minimum number of flows per link for which the number of workers does not exceed the (proved) bound.
pub(super) fn bound_flows(cluster: &Cluster, workers: u64, proved: bool) -> u64 {
    fewest(workers, |m| {
        let reach = most_workers(cluster, m);
        (if proved { reach.bound } else { reach.limit() }) >= workers
    })
}

/// Returns the smallest of 1..=most with `fits`, which must be monotone, by doubling and bisection.
fn fewest(most: u64, fits: impl Fn(u64) -> bool) -> u64 {
    let mut high = 1;
    while high < most && !fits(high) {
        high = (high * 2).min(most);
    }
    let mut low = high / 2;
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        if fits(middle) { high = middle } else { low = middle }
    }
    high
}
