//! Local search from a graph: links moved, added, dropped and exchanged at random, by simulated annealing from several random numbers.

use pktgen_core::seed::{Seed, Stream};
use rand::RngExt;

use super::super::capacities::Capacities;
use super::bound::usable;
use super::graph::Graph;

/// Beyond so many switches it is not tried.
pub(super) const SWITCHES_MAX: usize = 200;

/// How often it begins again at the start.
const WALKS: u64 = 16;

/// Up to so many switches once is enough: the exhaustive search comes to its end.
const FEW: usize = 6;

/// Graphs that are tried in one walk, times switches.
const TRIED: usize = 120_000;

/// A step that loses so many workers is taken once in e times: at first, and what is left of that at last.
const HEAT: (f64, f64) = (0.55, 0.05);

/// Looks for a graph that holds `target` workers; the best that was met, with its workers.
pub(super) fn improve(capacities: &Capacities, start: (u64, Graph), target: u64) -> (u64, Graph) {
    let usable = usable(capacities);
    let mut best = start.clone();
    if usable.len() < 2 || usable.len() > SWITCHES_MAX {
        return best;
    }
    let walks = if usable.len() > FEW { WALKS } else { 1 };
    for number in 0..walks {
        if best.0 >= target {
            break;
        }
        // The same request has the same answer.
        let met = walk(capacities, &usable, start.clone(), target, Seed(0).stream("atro.mixed", number, 0));
        if met.0 > best.0 {
            best = met;
        }
    }
    best
}

/// The best of one walk, or the first that holds `target` workers.
fn walk(
    capacities: &Capacities,
    usable: &[usize],
    start: (u64, Graph),
    target: u64,
    mut stream: Stream,
) -> (u64, Graph) {
    let mut best = start.clone();
    let (mut workers, mut graph) = start;
    let rounds = TRIED / usable.len();
    for round in 0..rounds {
        let mut next = graph.clone();
        change(capacities, usable, &mut next, &mut stream);
        let Some(found) = next.workers(capacities) else { continue };
        let heat = HEAT.0 + (HEAT.1 - HEAT.0) * round as f64 / rounds as f64;
        let lost = workers.saturating_sub(found) as f64;
        if lost == 0.0 || stream.random::<f64>() < (-lost / heat).exp() {
            (workers, graph) = (found, next);
        }
        if workers > best.0 {
            best = (workers, graph.clone());
            if workers >= target {
                break;
            }
        }
    }
    best
}

fn change(capacities: &Capacities, usable: &[usize], graph: &mut Graph, stream: &mut Stream) {
    let pick = |stream: &mut Stream| usable[stream.random_range(0..usable.len())];
    let (switch, other) = (pick(stream), pick(stream));
    if switch == other {
        return;
    }
    let aggregates = |switch: usize| capacities.inventory.switches[switch].aggregates;
    match stream.random_range(0..5) {
        // Two switches exchange their places.
        0 => {
            graph.up.swap(switch, other);
            for above in graph.up.iter_mut().flatten() {
                *above = match *above {
                    end if end == switch => other,
                    end if end == other => switch,
                    end => end,
                };
            }
        }
        1 if !graph.feeds(switch) && graph.up[switch].first() != Some(&capacities.switches()) => {
            graph.up[switch].clear()
        }
        2 if !aggregates(switch) && graph.up[switch].len() > 1 => {
            let at = stream.random_range(0..graph.up[switch].len());
            graph.up[switch].remove(at);
        }
        3 if !aggregates(switch) => {
            if !graph.up[switch].contains(&other) && capacities.flows(switch, other) > 0 {
                graph.up[switch].push(other);
            }
        }
        _ => {
            if graph.up[switch].contains(&other) || capacities.flows(switch, other) == 0 {
                return;
            }
            match graph.up[switch].len() {
                0 => graph.up[switch].push(other),
                links => graph.up[switch][stream.random_range(0..links)] = other,
            }
        }
    }
}
