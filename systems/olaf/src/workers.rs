//! OLAF's transmission control (§5): workers withhold updates while the queue on the path is congested.
//!
//! A worker knows the contents (N, Qmax, Qn) and the time of the last ACK. It sends freely before the first ACK and while Qmax ≥ N;
//! otherwise with probability P_s ([`SendingRule`]). A withheld update is subsumed by the next one, so it is never sent.

use std::sync::Arc;

use pktgen_core::config::{FromValue, KeyTables, Section, Value, above, settings};
use pktgen_core::record::{NO_CLUSTER, State};
use pktgen_core::registry::Named;
use pktgen_core::seed::{Stream, unit};
use pktgen_core::time::Time;
use pktgen_core::topology::NodeId;
use pktgen_core::units::Span;
use pktgen_core::{Error, Result};
use pktgen_wire::wire::update::Status;
use pktgen_workload::control::SendingRule;
use pktgen_workload::workload::{Source, Update};

use pktgen_engine::endpoint::sender::{Audience, Sender, UPDATES};
use pktgen_engine::endpoint::{Behaviour, Crew, Facts, Host, Protocol, WorkerKind, Workers, WorkersEnd};
use pktgen_engine::frame::{BURST, Frame, Pool};

/// `workers = "transmission_control"`.
pub(crate) struct TransmissionControlKind;

impl Named for TransmissionControlKind {
    fn name(&self) -> &'static str {
        "transmission_control"
    }
    fn about(&self) -> &'static str {
        "OLAF's rule: in congestion a worker sends with probability min(Qmax/N + f(age of the last ACK), 1)"
    }
}

settings! {
    /// What it reads from `[endpoint]`.
    struct Settings {
        /// Age of the last acknowledgement above which the sending probability grows (§5).
        delta_t: Span = "400ms" in above(Span::from_ps(0));
        /// Slope of that growth: the paper's urgent (`1/delta_t`) or fair (`delta_t`) choice, or a number per second.
        slope: Slope = "1/delta_t";
        /// Fixed decisions instead of random ones: per worker a string of 1 (send) and 0 (withhold).
        choices: Vec<String> = [];
    }
}

impl WorkerKind for TransmissionControlKind {
    fn keys(&self) -> KeyTables {
        &[Settings::KEYS]
    }

    fn protocol(&self) -> &'static Protocol {
        &UPDATES
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour { listens: true, ..Behaviour::ASYNCHRONOUS }
    }

    fn open(&self, section: &mut Section, facts: &Facts, source: Box<dyn Source>) -> Result<Crew> {
        let settings = Settings::read(section)?;
        let rule = rule(&settings);
        let workers = facts.workers.len();
        let decisions = match choices(section, settings.choices, workers)? {
            Some(choices) => Decisions::Written { choices, at: vec![0; workers], missing: None },
            None => Decisions::Drawn(
                (0..workers).map(|w| facts.seed.stream("endpoint.transmission_control", w as u64, 0)).collect(),
            ),
        };
        let workers = TransmissionControl {
            sender: Sender::new(facts, source),
            audience: Audience::new(facts),
            rule,
            feedback: vec![None; workers],
            decisions,
            states: facts.states,
        };
        Ok(Crew::of_updates(workers, true))
    }
}

/// `slope`: one of the paper's two, or a number.
enum Slope {
    Urgent,
    Fair,
    PerSecond(f64),
}

impl FromValue for Slope {
    fn takes() -> String {
        "1/delta_t, delta_t, or a number per second from 0 on".to_owned()
    }

    fn from_value(value: &Value) -> Result<Self, String> {
        let number = f64::from_value(value).ok().filter(|x| *x >= 0.0);
        match (value, number) {
            (Value::Text(text), _) if text == "1/delta_t" => Ok(Slope::Urgent),
            (Value::Text(text), _) if text == "delta_t" => Ok(Slope::Fair),
            (_, Some(slope)) => Ok(Slope::PerSecond(slope)),
            _ => Err(format!(
                "{} is not a slope; write \"1/delta_t\" (urgent), \"delta_t\" (fair), or a number per second from 0 on",
                value.to_toml()
            )),
        }
    }
}

fn rule(settings: &Settings) -> SendingRule {
    let threshold = settings.delta_t.ps();
    match settings.slope {
        Slope::Urgent => SendingRule::urgent(threshold),
        Slope::Fair => SendingRule::fair(threshold),
        Slope::PerSecond(slope) => SendingRule { threshold, slope },
    }
}

/// `choices`: for each worker a string of 1 (send) and 0 (withhold), used instead of random decisions.
fn choices(section: &Section, choices: Vec<String>, workers: usize) -> Result<Option<Arc<Vec<String>>>> {
    if choices.is_empty() {
        return Ok(None);
    }
    let place = section.place("choices");
    if choices.len() != workers {
        let n = choices.len();
        return Err(Error::config(format!("{place}: {n} texts for {workers} workers; give one per worker, or none")));
    }
    if let Some(text) = choices.iter().find(|c| c.bytes().any(|b| b != b'0' && b != b'1')) {
        return Err(Error::config(format!("{place}: \"{text}\" is not made of 1 (send) and 0 (hold back)")));
    }
    Ok(Some(Arc::new(choices)))
}

/// How a worker decides where the rule leaves it open.
enum Decisions {
    /// By chance.
    Drawn(Vec<Stream>),
    /// As specified, to repeat a verified behaviour.
    Written { choices: Arc<Vec<String>>, at: Vec<usize>, missing: Option<u32> },
}

impl Decisions {
    fn send(&mut self, worker: usize, probability: f64) -> bool {
        match self {
            Decisions::Drawn(streams) => unit(&mut streams[worker]) < probability,
            Decisions::Written { choices, at, missing } => {
                let choice = choices[worker].as_bytes().get(at[worker]);
                at[worker] += 1;
                if choice.is_none() {
                    missing.get_or_insert(worker as u32);
                }
                choice == Some(&b'1')
            }
        }
    }
}

/// Contents and time of the last ACK.
#[derive(Clone, Copy)]
struct Feedback {
    t: Time,
    status: Status,
}

struct TransmissionControl {
    sender: Sender,
    audience: Audience,
    rule: SendingRule,
    feedback: Vec<Option<Feedback>>,
    decisions: Decisions,
    states: bool,
}

impl TransmissionControl {
    fn decide(&mut self, update: &Update, host: &mut Host) -> bool {
        let worker = update.worker as usize;
        let feedback = self.feedback[worker];
        let probability =
            feedback.map_or(1.0, |f| self.rule.probability(f.status.active, f.status.capacity, update.t_gen - f.t));
        let sends = probability >= 1.0 || self.decisions.send(worker, probability);
        if self.states {
            let state = state(update.t_gen, update.worker, feedback);
            host.states.push(State { p_send: Some(probability as f32), sent: Some(sends), ..state });
        }
        sends
    }
}

fn state(t: Time, worker: u32, feedback: Option<Feedback>) -> State {
    let status = feedback.map_or(Status::default(), |f| f.status);
    State {
        t,
        worker,
        active: status.active,
        capacity: status.capacity,
        occupancy: status.occupancy,
        ack_age: feedback.map(|f| t - f.t),
        p_send: None,
        sent: None,
    }
}

impl Workers for TransmissionControl {
    fn next_wake(&self) -> Time {
        self.sender.next_wake()
    }

    fn pull(&mut self, until: Time, pool: &mut Pool, host: &mut Host) {
        for _ in 0..BURST {
            let Some(update) = self.sender.due(until) else { break };
            // Traffic without a cluster gets no answer.
            if update.cluster == NO_CLUSTER || self.decide(&update, host) {
                self.sender.send(&update, pool, host);
            } else {
                self.sender.withhold(&update, host);
            }
        }
    }

    fn on_burst(&mut self, node: NodeId, burst: &[Frame], pool: &mut Pool, host: &mut Host) {
        for frame in burst {
            let (feedback, states, log) = (&mut self.feedback, self.states, &mut host.states);
            let known = self.audience.hear(node, frame, pool, |worker, ack| {
                let new = Some(Feedback { t: frame.t, status: ack.status });
                feedback[worker as usize] = new;
                if states {
                    log.push(state(frame.t, worker, new));
                }
            });
            host.acks_received += u64::from(known);
            host.foreign += u64::from(!known);
            pool.release(frame.buffer);
        }
    }

    fn end(&self) -> WorkersEnd {
        let end = self.sender.end();
        let Decisions::Written { missing: Some(worker), .. } = &self.decisions else { return end };
        WorkersEnd { failure: Some(format!("endpoint.choices of worker {worker} ended before the run did")), ..end }
    }
}
