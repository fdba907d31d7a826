//! Local search from a graph: links moved, added, dropped and exchanged at random, never to much fewer workers.

use pktgen_core::seed::Seed;
use rand::RngExt;

use super::super::capacities::Capacities;
use super::bound::usable;
use super::graph::Graph;

/// Beyond so many switches it is not tried.
pub(super) const SWITCHES_MAX: usize = 200;

/// Graphs that are tried, times switches.
const TRIED: usize = 120_000;

/// Looks for a graph that holds `target` workers; the best that was met, with its workers.
pub(super) fn improve(capacities: &Capacities, start: (u64, Graph), target: u64) -> (u64, Graph) {
    let usable = usable(capacities);
    if start.0 >= target || usable.len() < 2 || usable.len() > SWITCHES_MAX {
        return start;
    }
    // The same request has the same answer.
    let mut stream = Seed(0).stream("atro.mixed", 0, 0);
    let mut best = start.clone();
    let (mut workers, mut graph) = start;
    let rounds = TRIED / usable.len();
    for round in 0..rounds {
        let mut next = graph.clone();
        change(capacities, &usable, &mut next, &mut stream);
        let Some(found) = next.workers(capacities) else { continue };
        // How many workers a step may lose: fewer and fewer.
        let loss = (2 * (rounds - round) / rounds) as u64 + u64::from(stream.random_range(0..8) == 0);
        if found + loss >= workers {
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

fn change(capacities: &Capacities, usable: &[usize], graph: &mut Graph, stream: &mut pktgen_core::seed::Stream) {
    let pick = |stream: &mut pktgen_core::seed::Stream| usable[stream.random_range(0..usable.len())];
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
