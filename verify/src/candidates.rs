//! Behaviours that are tried before the solver: corner cases and a seeded sample, executed by the reference.
//!
//! Used by [`super::decide`]. A behaviour found here is as good a witness as the solver's and takes microseconds; if
//! none is found, the solver decides.

use super::reference::{Run, run};
use super::setup::{Arrivals, Setup, Ticks};

/// A separate small generator (xorshift64*): the candidates must not depend on anything else.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    fn within(&mut self, low: Ticks, high: Ticks) -> Ticks {
        low + (self.next() % (high - low + 1) as u64) as Ticks
    }
}

/// How a candidate selects times and decisions of one cluster.
#[derive(Clone, Copy)]
struct Habit {
    /// First update and gaps: 0 for the earliest, 1000 for the latest, more for random values.
    first: Ticks,
    gaps: Ticks,
    /// How many of 8 decisions send; more than 8 for random ones.
    sends: u64,
}

const CHANCE: Ticks = 1001;

fn pick(numbers: &mut Numbers, low: Ticks, high: Ticks, at: Ticks) -> Ticks {
    if at >= CHANCE { numbers.within(low, high) } else { low + (high - low) * at / 1000 }
}

fn times(arrivals: &Arrivals, updates: usize, habit: Habit, numbers: &mut Numbers) -> Vec<Ticks> {
    match *arrivals {
        Arrivals::Periodic { period, phase, jitter } => {
            let phase = phase.unwrap_or_else(|| pick(numbers, 0, period - 1, habit.first));
            (0..updates as Ticks).map(|k| phase + k * period + pick(numbers, 0, jitter, habit.gaps)).collect()
        }
        Arrivals::Free { gap_min, gap_max } => {
            let mut t = pick(numbers, 0, gap_max, habit.first);
            let mut all = vec![t];
            for _ in 1..updates {
                t += pick(numbers, gap_min, gap_max, habit.gaps);
                all.push(t);
            }
            all
        }
    }
}

/// Returns the habits of candidate `index`: first all equal, then one cluster against the others, then random ones.
fn habits(index: u32, clusters: usize, numbers: &mut Numbers) -> Vec<Habit> {
    let corner = |n: u32| Habit {
        first: if n & 1 == 0 { 0 } else { 1000 },
        gaps: if n & 2 == 0 { 0 } else { 1000 },
        sends: if n & 4 == 0 { 8 } else { 0 },
    };
    let against = 8 * 8 * clusters as u32;
    match index {
        0..8 => vec![corner(index); clusters],
        n if n < 8 + against => {
            let n = n - 8;
            let chosen = (n / 64) as usize;
            (0..clusters).map(|v| if v == chosen { corner(n % 8) } else { corner(n / 8 % 8) }).collect()
        }
        _ => (0..clusters)
            .map(|_| Habit {
                first: numbers.within(0, 2 * CHANCE).min(CHANCE),
                gaps: numbers.within(0, 2 * CHANCE).min(CHANCE),
                sends: numbers.next() % 10,
            })
            .collect(),
    }
}

/// Free arrivals in which `u` has the longest first gap and the others the shortest; from then on all gaps are equal and `u` comes last,
/// immediately after the others, of which `v` comes first: `u` leads `v` by the maximum ([`bounds`]).
///
/// [`bounds`]: super::bounds
fn chase(setup: &Setup, u: usize, v: usize) -> Option<Vec<Vec<Ticks>>> {
    let mut gaps = Vec::new();
    for cluster in &setup.clusters {
        let Arrivals::Free { gap_min, gap_max } = cluster.arrivals else { return None };
        gaps.push((gap_min, gap_max));
    }
    let common = gaps.iter().map(|gap| gap.0).max()?;
    // At equal ticks the lower cluster comes first; a higher one must be earlier.
    let ahead = |x: usize| match x {
        _ if x == u => 0,
        _ if x == v => Ticks::from(x > u) + Ticks::from((0..x).any(|w| w != u && (w > u) == (x > u))),
        _ => Ticks::from(x > u),
    };
    let second = |x: usize, start: Ticks| start + gaps[u].1 - ahead(x);
    let first_gap = |x: usize| if x == u { gaps[x].1 } else { gaps[x].0 };
    let start = (0..gaps.len()).map(|x| first_gap(x) - second(x, 0)).max()?.max(0);
    let all = setup.clusters.iter().enumerate().map(|(x, cluster)| {
        let second = second(x, start);
        let rest = (1..cluster.updates as Ticks).map(|k| second + (k - 1) * common);
        std::iter::once(second - first_gap(x)).chain(rest).collect()
    });
    let all: Vec<Vec<Ticks>> = all.collect();
    let fits = |(times, gap): (&Vec<Ticks>, &(Ticks, Ticks))| times[0] <= gap.1 && common <= gap.1;
    all.iter().zip(&gaps).all(fits).then_some(all)
}

/// Returns the first of the setup's candidates for which `wanted` is true.
pub fn find(setup: &Setup, wanted: impl Fn(&Run) -> bool) -> Option<Run> {
    let clusters = 0..if setup.candidates > 0 { setup.clusters.len() } else { 0 };
    let pairs = clusters.clone().flat_map(|u| clusters.clone().filter(move |v| *v != u).map(move |v| (u, v)));
    let mut chased = pairs.filter_map(|(u, v)| chase(setup, u, v)).map(|times| run(setup, &times, &mut |_, _| true));
    chased.find(|run| wanted(run)).or_else(|| sampled(setup, wanted))
}

fn sampled(setup: &Setup, wanted: impl Fn(&Run) -> bool) -> Option<Run> {
    (0..setup.candidates).find_map(|index| {
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15 ^ (u64::from(index) << 32 | 1));
        // The first numbers of similar seeds are similar.
        for _ in 0..4 {
            numbers.next();
        }
        let habits = habits(index, setup.clusters.len(), &mut numbers);
        let generated: Vec<_> = setup
            .clusters
            .iter()
            .zip(&habits)
            .map(|(cluster, habit)| times(&cluster.arrivals, cluster.updates, *habit, &mut numbers))
            .collect();
        let run = run(setup, &generated, &mut |v, _| match habits[v].sends {
            9.. => numbers.next().is_multiple_of(2),
            eighths => numbers.next() % 8 < eighths,
        });
        wanted(&run).then_some(run)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::Cluster;
    use crate::tests::tiny;

    #[test]
    fn candidates_stay_within_the_arrivals() {
        let free = Arrivals::Free { gap_min: 30, gap_max: 50 };
        let periodic = Arrivals::Periodic { period: 40, phase: None, jitter: 7 };
        for arrivals in [[free, periodic, free], [free, Arrivals::Free { gap_min: 40, gap_max: 40 }, free]] {
            let clusters = arrivals.map(|arrivals| Cluster { updates: 5, arrivals }).to_vec();
            stay_within(&Setup { clusters, candidates: 500, ..tiny() });
        }
    }

    fn stay_within(setup: &Setup) {
        let found = find(setup, |run| {
            for (flow, cluster) in run.flows.iter().zip(&setup.clusters) {
                for (k, t) in flow.generated.iter().enumerate() {
                    let (low, high) = cluster.arrivals.window(k);
                    assert!((low..=high).contains(t));
                }
                assert!(flow.generated.windows(2).all(|w| w[1] - w[0] >= cluster.arrivals.least_gap()));
            }
            false
        });
        assert_eq!(found, None);
    }
}
