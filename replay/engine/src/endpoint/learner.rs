//! Workers that learn in the loop (OLAF §2.1, §8.2; docs/learning.md).
//!
//! Each computes its update on the model that it has. Received models are adopted when the iteration is over: workers "do not preempt when
//! receiving an updated global model but use it as soon as they finish the current iteration" (§8.2). Workers that do not wait continue
//! with the model that they have, so a lost update or answer costs freshness and no time; in synchronous mode they wait for the answer.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use pktgen_core::config::{KeyTables, Section};
use pktgen_core::record::{Note, PacketId};
use pktgen_core::registry::Named;
use pktgen_core::time::{HORIZON, NEVER, Time, too_late};
use pktgen_core::topology::NodeId;
use pktgen_core::{Error, Result};
use pktgen_wire::wire::frame::{HEAD, set_udp_checksum};
use pktgen_wire::wire::update::{ACK_HEAD, UPDATE_HEAD};
use pktgen_workload::learner::{Agent, Learning};
use pktgen_workload::workload::Source;
use pktgen_workload::workload::build::Builder;

use super::gate::{self, Mode};
use super::sender::{Audience, UPDATES, row};
use super::{Behaviour, Crew, Facts, Host, Outgoing, Protocol, WorkerKind, Workers, WorkersEnd};
use crate::frame::{BURST, Frame, Kind, Pool};

/// `workers = "learner"`.
pub(crate) struct LearnerKind;

impl Named for LearnerKind {
    fn name(&self) -> &'static str {
        "learner"
    }
    fn about(&self) -> &'static str {
        "learning workers: each update is the gradient of the model of the last acknowledgement"
    }
}

impl WorkerKind for LearnerKind {
    fn keys(&self) -> KeyTables {
        &[gate::Learners::KEYS]
    }

    fn server_keys(&self) -> KeyTables {
        &[gate::Steps::KEYS]
    }

    fn protocol(&self) -> &'static Protocol {
        &UPDATES
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour { learns: true, ..Behaviour::ASYNCHRONOUS }
    }

    fn open(&self, section: &mut Section, facts: &Facts, source: Box<dyn Source>) -> Result<Crew> {
        Ok(Crew::of_updates(Learners::open(section, facts, source.as_ref())?, true))
    }
}

struct Learners {
    learning: Arc<Learning>,
    agents: Vec<Agent>,
    /// Whether each worker waits for an answer before it continues.
    waiting: Vec<bool>,
    /// Ends of the workers' iterations; ties go to the lower worker.
    turns: BinaryHeap<Reverse<(Time, u32)>>,
    /// Whether workers wait for the answer.
    waits: bool,
    builder: Builder,
    audience: Audience,
    facts: Facts,
    failure: Option<String>,
    /// Worker and iteration of the first gradient that is not finite.
    diverged: Option<(u32, u32)>,
}

impl Learners {
    fn open(section: &mut Section, facts: &Facts, source: &dyn Source) -> Result<Self> {
        let place = section.place("workers");
        let Some(learning) = source.known().learning() else {
            return Err(Error::config(format!(
                "{place}: \"learner\" needs updates that are made while it runs; use workload.kind = \"learn\", without a trace, lanes, \
                 passes, moves, schedule.stop, another speed or traffic beside it"
            )));
        };
        if facts.real_time {
            return Err(Error::config(format!(
                "{place}: \"learner\" runs in virtual time, where its updates can be verified; use transport.kind = \"virtual\""
            )));
        }
        let mode = gate::Learners::mode(section)?;
        let mut learners = Learners {
            agents: (0..learning.workers()).map(|worker| Agent::new(&learning, worker)).collect(),
            waiting: vec![false; learning.workers() as usize],
            turns: BinaryHeap::new(),
            waits: mode == Mode::Synchronous,
            builder: Builder::new(&facts.workers, false),
            audience: Audience::new(facts),
            facts: facts.clone(),
            failure: None,
            diverged: None,
            learning,
        };
        (0..learners.learning.workers()).for_each(|worker| learners.begin(worker, 0));
        Ok(learners)
    }

    /// Begins the next iteration of `worker` at `t`, if there is one.
    fn begin(&mut self, worker: u32, t: Time) {
        let Some(time) = self.agents[worker as usize].begin(&self.learning) else { return };
        let end = t.saturating_add(time);
        if end > HORIZON {
            let keys = "lower workload.step_time or workload.updates";
            self.failure = Some(too_late("the end of the next iteration", end as f64, keys));
            return;
        }
        self.turns.push(Reverse((end, worker)));
    }

    /// Sends what `worker` has computed by `t`.
    fn send(&mut self, worker: u32, t: Time, pool: &mut Pool, host: &mut Host) {
        let agent = &self.agents[worker as usize];
        let update = self.learning.update(agent, worker, t);
        if self.diverged.is_none() && !agent.is_finite() {
            self.diverged = Some((worker, agent.iteration()));
        }
        let buffer = pool.take();
        let bytes = &mut pool.bytes_mut(buffer)[..update.bytes as usize];
        self.builder.emit(&update, 0, bytes);
        agent.write(&mut bytes[HEAD + UPDATE_HEAD..]);
        if self.facts.udp_checksum {
            set_udp_checksum(bytes);
        }
        let frame = Frame {
            t,
            packet: PacketId::new(worker, update.seq, 0),
            buffer,
            worker,
            len: update.bytes as u16,
            cluster: update.cluster,
            flow: self.facts.server,
            head: HEAD as u8,
            kind: Kind::Update,
        };
        let node = self.facts.host_of[worker as usize];
        host.outgoing.push(Outgoing { node, frame, record: Some(row(&update, 0, t)) });
    }

    /// Processes a frame at a host; returns whether it is an answer. Appends workers that waited for it to `heard`.
    fn hear(&mut self, node: NodeId, frame: &Frame, pool: &Pool, heard: &mut Vec<u32>) -> bool {
        let Learners { audience, agents, waiting, .. } = self;
        audience.hear(node, frame, pool, |worker, ack| {
            let model = &pool.payload(frame)[ACK_HEAD..][..4 * usize::from(ack.header.elements)];
            agents[worker as usize].hear(model);
            // Where a device multicasts acknowledgements, late ones of a finished round arrive, too.
            if waiting[worker as usize] && ack.header.seq >= agents[worker as usize].iteration() {
                waiting[worker as usize] = false;
                heard.push(worker);
            }
        })
    }
}

impl Workers for Learners {
    fn next_wake(&self) -> Time {
        self.turns.peek().map_or(NEVER, |turn| turn.0.0)
    }

    fn pull(&mut self, until: Time, pool: &mut Pool, host: &mut Host) {
        for _ in 0..BURST {
            let Some(&Reverse((t, worker))) = self.turns.peek().filter(|turn| turn.0.0 <= until) else { break };
            self.turns.pop();
            self.send(worker, t, pool, host);
            if self.waits {
                self.waiting[worker as usize] = true;
            } else {
                self.begin(worker, t);
            }
        }
    }

    fn on_burst(&mut self, node: NodeId, burst: &[Frame], pool: &mut Pool, host: &mut Host) {
        let mut heard = Vec::new();
        for frame in burst {
            let known = self.hear(node, frame, pool, &mut heard);
            host.acks_received += u64::from(known);
            host.foreign += u64::from(!known);
            pool.release(frame.buffer);
            heard.drain(..).for_each(|worker| self.begin(worker, frame.t));
        }
    }

    fn end(&self) -> WorkersEnd {
        let waiting = self.waiting.iter().filter(|waits| **waits).count();
        let unfinished = (waiting > 0).then(|| {
            format!(
                "{waiting} workers wait for the end of a round that never comes: an update or an answer was lost, and synchronous mode \
                 has no remedy; use a network that loses nothing, or endpoint.mode = \"asynchronous\" or \"periodic\""
            )
        });
        let note = self.diverged.map(|(worker, iteration)| Note::Diverged { worker, iteration });
        WorkersEnd { failure: self.failure.clone(), unfinished, note, ..WorkersEnd::default() }
    }
}

#[cfg(test)]
mod tests;
