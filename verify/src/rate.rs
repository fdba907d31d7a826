//! `--find max-rate`: the maximum update rate for which every behaviour keeps the objective.
//!
//! Called by [`super::aom_fairness`]. All arrival times (or those of one cluster) are scaled together; the search finds the shortest
//! period (minimum gap) in whole ticks, with powers of two first, then bisection. This assumes that an objective that fails also fails at
//! every higher rate. This is not always true: points on both sides are tested, too, and contradictions are reported.

use std::collections::BTreeMap;

use pktgen_core::config::Section;
use pktgen_core::{Error, Result};

use super::decide::{CheckedQuery, Proof, check_all};
use super::setup::{Setup, Ticks};
use super::solver::Solver;

/// Maximum number of times the period is doubled in the search for one that holds.
const DOUBLINGS: u32 = 12;

/// One tested period.
#[derive(Debug, Clone)]
pub struct Probe {
    /// Period or minimum gap of the first scaled cluster.
    pub period: Ticks,
    /// The tested setup.
    pub setup: Setup,
    /// Whether all behaviours keep the objective.
    pub answer: CheckedQuery,
}

/// Results of the search.
#[derive(Debug, Clone)]
pub struct RateReport {
    /// The cluster that was scaled; `None`: all.
    pub cluster: Option<usize>,
    /// The border: the shortest tested period of the slowest range of periods that hold.
    pub holds: Option<Probe>,
    /// The longest shorter tested period: it fails or is unknown.
    pub beyond: Option<Probe>,
    /// All probes by period.
    pub probes: BTreeMap<Ticks, Probe>,
    /// Longer periods that do not hold, and shorter ones that do: the objective is not monotone in the rate, so there
    /// may be another border between the probes.
    pub violations: Vec<Ticks>,
}

/// Reads `rate_cluster` of `[verify]`.
pub fn read(section: &mut Section, clusters: usize) -> Result<Option<usize>> {
    match section.get_opt::<u32>("rate_cluster")? {
        Some(cluster) if cluster as usize >= clusters => Err(Error::config(format!(
            "{}: there is no cluster {cluster}; there are 0 to {}",
            section.place("rate_cluster"),
            clusters - 1
        ))),
        cluster => Ok(cluster.map(|c| c as usize)),
    }
}

struct Search<'a> {
    setup: &'a Setup,
    cluster: Option<usize>,
    solver: &'a Solver,
    progress: &'a mut dyn FnMut(&Probe),
    probes: BTreeMap<Ticks, Probe>,
}

impl Search<'_> {
    fn base(&self) -> Ticks {
        self.setup.clusters[self.cluster.unwrap_or(0)].arrivals.base()
    }

    /// Returns the setup with `period`; `None` if it could not be replayed: a worker's link would be too slow, or the run too long.
    fn at(&self, period: Ticks) -> Option<Setup> {
        let mut setup = self.setup.clone();
        for (v, cluster) in setup.clusters.iter_mut().enumerate() {
            if self.cluster.is_none_or(|chosen| chosen == v) {
                cluster.arrivals = cluster.arrivals.scaled(period, self.base());
            }
        }
        setup.check(&|key| key.to_owned()).is_ok().then_some(setup)
    }

    /// Returns whether it holds with `period`; `None` if it cannot be tested.
    fn probe(&mut self, period: Ticks) -> Result<Option<bool>> {
        if let Some(probe) = self.probes.get(&period) {
            return Ok(Some(probe.answer.verdict == Proof::Holds));
        }
        let Some(setup) = self.at(period) else { return Ok(None) };
        let answer = check_all(&setup, self.solver)?;
        let holds = answer.verdict == Proof::Holds;
        let probe = Probe { period, setup, answer };
        (self.progress)(&probe);
        self.probes.insert(period, probe);
        Ok(Some(holds))
    }

    /// Returns, among the base multiplied by powers of two, the shortest period of the slowest range that holds, and a
    /// shorter one that does not hold (or cannot be tested, or 0). Slower than the base only if nothing else holds.
    fn bracket(&mut self) -> Result<Option<(Ticks, Ticks)>> {
        let (base, mut found, mut ended) = (self.base(), None, false);
        let mut period = base;
        while period > 0 {
            match self.probe(period)? {
                None => break,
                Some(true) if !ended => found = Some((period / 2, period)),
                // Faster ones are tested anyway: they show whether this is the only border.
                _ => ended = found.is_some(),
            }
            period /= 2;
        }
        for doubling in 1..=DOUBLINGS {
            if found.is_some() {
                break;
            }
            if self.probe(base << doubling)? == Some(true) {
                found = Some((base << (doubling - 1), base << doubling));
            }
        }
        Ok(found)
    }
}

/// Performs the search; `progress` is called with every probe.
pub fn search(
    setup: &Setup,
    cluster: Option<usize>,
    solver: &Solver,
    progress: &mut dyn FnMut(&Probe),
) -> Result<RateReport> {
    let mut search = Search { setup, cluster, solver, progress, probes: BTreeMap::new() };
    if let Some((mut bad, mut good)) = search.bracket()? {
        while good - bad > 1 {
            let middle = bad + (good - bad) / 2;
            if search.probe(middle)? == Some(true) { good = middle } else { bad = middle }
        }
        // A few points on each side show, though not with certainty, whether there is only one border.
        for (times, parts) in [(1, 8), (1, 4), (1, 2), (3, 4), (9, 10), (11, 10), (5, 4), (3, 2), (2, 1), (3, 1)] {
            search.probe((good * times / parts).max(1))?;
        }
    }
    let probes = search.probes;
    let holds = |probe: &Probe| probe.answer.verdict == Proof::Holds;
    // From the longest period that holds to the last one before a shorter period does not.
    let from_slow = probes.values().rev().skip_while(|probe| !holds(probe)).take_while(|probe| holds(probe));
    let best = from_slow.last().cloned();
    let border = best.as_ref().map_or(Ticks::MAX, |probe| probe.period);
    let beyond = probes.range(..border).next_back().map(|(_, probe)| probe.clone());
    let astray = probes.values().filter(|probe| (probe.period >= border) != holds(probe));
    let violations = astray.map(|probe| probe.period).collect();
    Ok(RateReport { cluster, holds: best, beyond, probes, violations })
}
