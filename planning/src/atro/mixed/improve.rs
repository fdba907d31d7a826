//! Local search from a graph: moves, adds, drops and exchanges links at random, by simulated annealing with several seeds.

use pktgen_core::seed::{Seed, Stream};
use rand::RngExt;

use super::super::capacities::Capacities;
use super::bound::usable;
use super::graph::Graph;

/// Maximum number of switches for which it is tried.
pub(super) const SWITCHES_MAX: usize = 200;

/// Number of walks from the start.
const WALKS: u64 = 16;

/// Maximum number of switches for which one walk suffices, since the exhaustive search finishes.
const FEW: usize = 6;

/// Number of graphs tried in one walk, multiplied by the number of switches.
const TRIED: usize = 120_000;

/// Temperature: a step that loses this many workers is accepted once in e times; initial value, and final factor.
const HEAT: (f64, f64) = (0.55, 0.05);

/// Searches for a graph that holds `target` workers; returns the best one with its number of workers.
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
        // The same request always gives the same answer.
        let met = walk(capacities, &usable, start.clone(), target, Seed(0).stream("atro.mixed", number, 0));
        if met.0 > best.0 {
            best = met;
        }
    }
    best
}

/// Returns the best graph of one walk, or the first that holds `target` workers.
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
        // Two switches exchange their positions.
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
