//! What an experiment changes about any source: where it stops, and workers that move to another cluster.

use super::{Source, Update};
use crate::config::Section;
use crate::record::NO_CLUSTER;
use crate::time::Time;
use crate::topology::{Move, Population};
use crate::units::Span;
use crate::{Error, Result};

/// The key of `[workload]` that lists moves.
pub(super) const MOVES: &str = "moves";
/// The key of `[schedule]` that ends generation.
pub(super) const STOP: &str = "stop";

/// A source that stops and whose workers move.
struct Edited {
    source: Box<dyn Source>,
    population: Population,
    /// Cluster of each worker now.
    cluster_of: Vec<u16>,
    /// The next move.
    at: usize,
    stop: Option<Time>,
    head: Option<Update>,
}

/// Reads `[[workload.moves]]` and `schedule.stop`, and applies them to `source`.
pub(super) fn edited(
    section: &mut Section,
    schedule: &mut Section,
    source: Box<dyn Source>,
) -> Result<Box<dyn Source>> {
    let moves = read_moves(section, source.population())?;
    let stop: Option<Span> = schedule.get_opt(STOP)?;
    if moves.is_empty() && stop.is_none() {
        return Ok(source);
    }
    let population = Population { moves, ..source.population().clone() };
    let cluster_of = population.cluster_of.clone();
    let mut edited = Edited { source, population, cluster_of, at: 0, stop: stop.map(Span::ps), head: None };
    edited.load();
    Ok(Box::new(edited))
}

/// `at`, `worker` and `cluster` of every move, in the order of time.
fn read_moves(section: &mut Section, workers: &Population) -> Result<Vec<Move>> {
    let mut moves = Vec::new();
    let mut clusters = workers.clusters();
    for table in section.get_tables(MOVES)? {
        let values: Vec<(&str, _)> = table.iter().map(|(key, value)| (key.as_str(), value.clone())).collect();
        let mut row = Section::of("workload.moves", &values);
        let needs = |key: &str| {
            Error::config(format!("[[workload.moves]]: {key} is missing; a move has at, worker and cluster"))
        };
        let at: Span = row.get_opt("at")?.ok_or_else(|| needs("at"))?;
        let worker: u32 = row.get_opt("worker")?.ok_or_else(|| needs("worker"))?;
        let cluster: u16 = row.get_opt("cluster")?.ok_or_else(|| needs("cluster"))?;
        if let Some((key, _)) = values.iter().find(|(key, _)| !["at", "worker", "cluster"].contains(key)) {
            return Err(Error::config(format!(
                "[[workload.moves]]: unknown key \"{key}\"; a move has at, worker and cluster"
            )));
        }
        if workers.cluster_of.get(worker as usize).is_none_or(|c| *c == NO_CLUSTER) {
            return Err(Error::config(format!(
                "[[workload.moves]]: worker {worker} is none of the {} workers that send updates",
                workers.cluster_of.iter().filter(|c| **c != NO_CLUSTER).count()
            )));
        }
        // Tables are sized by the highest.
        if usize::from(cluster) > clusters || cluster == NO_CLUSTER {
            return Err(Error::config(format!(
                "[[workload.moves]]: cluster {cluster} leaves a gap; there are clusters 0 to {}, and a new one is the next number",
                clusters.saturating_sub(1)
            )));
        }
        clusters = clusters.max(usize::from(cluster) + 1);
        moves.push(Move { at: at.ps(), worker, cluster });
    }
    moves.sort_by_key(|m| m.at);
    Ok(moves)
}

impl Edited {
    fn load(&mut self) {
        self.head = self.source.peek().copied().filter(|u| self.stop.is_none_or(|stop| u.t_gen <= stop));
        let Some(update) = &mut self.head else { return };
        while let Some(m) = self.population.moves.get(self.at).filter(|m| m.at <= update.t_gen) {
            self.cluster_of[m.worker as usize] = m.cluster;
            self.at += 1;
        }
        if update.cluster != NO_CLUSTER {
            update.cluster = self.cluster_of[update.worker as usize];
        }
    }
}

impl Source for Edited {
    fn population(&self) -> &Population {
        &self.population
    }

    fn frame_max(&self) -> u32 {
        self.source.frame_max()
    }

    fn peek(&self) -> Option<&Update> {
        self.head.as_ref()
    }

    fn take(&mut self, values: &mut [u8]) {
        if self.head.is_some() {
            self.source.take(values);
            self.load();
        }
    }

    fn failure(&self) -> Option<&str> {
        // What would have come after the stop is nobody's loss.
        if self.head.is_none() && self.source.peek().is_some() { None } else { self.source.failure() }
    }
}
