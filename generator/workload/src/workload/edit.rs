//! What an experiment changes about any source: where it stops, and workers that move to another cluster.

use super::{Known, Source, Update};
use crate::config::{FromValue, Section, Value};
use crate::record::NO_CLUSTER;
use crate::schedule::Line;
use crate::time::Time;
use crate::topology::{Move, Population};
use crate::units::Span;
use crate::{Error, Result};

/// The key of `[workload]` that lists moves.
pub(super) const MOVES: &str = "moves";

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
    let stop = Line::stop(schedule)?;
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
    let tables = section.get_tables(MOVES)?;
    let place = section.place(MOVES);
    let mut moves = Vec::new();
    for table in tables {
        moves.push(read_move(&table).map_err(|why| Error::config(format!("{place}: {why}")))?);
    }
    moves.sort_by_key(|m| m.at);
    let mut clusters = workers.clusters();
    for Move { worker, cluster, .. } in &moves {
        if workers.cluster_of.get(*worker as usize).is_none_or(|c| *c == NO_CLUSTER) {
            let senders = workers.cluster_of.iter().filter(|c| **c != NO_CLUSTER).count();
            return Err(Error::config(format!("{place}: worker {worker} is none of the {senders} that send updates")));
        }
        // Tables are sized by the highest.
        if usize::from(*cluster) > clusters || *cluster == NO_CLUSTER {
            return Err(Error::config(format!(
                "{place}: cluster {cluster} leaves a gap; by then there are clusters 0 to {}, and a new one is the next number",
                clusters.saturating_sub(1)
            )));
        }
        clusters = clusters.max(usize::from(*cluster) + 1);
    }
    Ok(moves)
}

fn read_move(table: &[(String, Value)]) -> Result<Move, String> {
    let (mut at, mut worker, mut cluster) = (None, None, None);
    for (key, value) in table {
        match key.as_str() {
            "at" => at = Some(Span::from_value(value)?),
            "worker" => worker = Some(u32::from_value(value)?),
            "cluster" => cluster = Some(u16::from_value(value)?),
            other => return Err(format!("unknown key \"{other}\"; a move has at, worker and cluster")),
        }
    }
    match (at, worker, cluster) {
        (Some(at), Some(worker), Some(cluster)) if at.ps() >= 0 => Ok(Move { at: at.ps(), worker, cluster }),
        (Some(at), Some(_), Some(_)) => Err(format!("at = {at} is before the run")),
        _ => Err("a move has at, worker and cluster; one of them is missing".to_owned()),
    }
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

// No `dense`, no `sparse`: they know no end of generation and no moves.
impl Source for Edited {
    fn population(&self) -> &Population {
        &self.population
    }

    fn known(&self) -> Known {
        self.source.known().changed()
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
        // Updates after the stop are not lost.
        if self.head.is_none() && self.source.peek().is_some() { None } else { self.source.failure() }
    }
}
