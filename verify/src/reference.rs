//! One behaviour of the model of `docs/verify.md`, executed exactly: a small discrete event simulation.
//!
//! It shares only the setup with the encoding, so that each checks the other: every model of the solver is executed
//! here ([`super::decide`]), and tests enumerate all behaviours of tiny instances with it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use pktgen_core::time::US;

use super::setup::{Setup, Ticks};

/// A delivered update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery {
    /// Start of its transmission at the device.
    pub start: Ticks,
    /// Arrival at the server.
    pub time: Ticks,
    /// Its index in the cluster: the newest of those that shared its place in the queue.
    pub update: usize,
}

/// Behaviour of one cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flow {
    /// Generation times.
    pub generated: Vec<Ticks>,
    /// Which updates were sent.
    pub sent: Vec<bool>,
    /// The decisions with 0 < P_s < 1, in order: 1 for sent.
    pub choices: String,
    /// For each update, the start of transmission of the cluster's latest queue entry at its arrival (also if it was
    /// not sent, was merged or dropped); `None` before the first.
    pub latest_start: Vec<Option<Ticks>>,
    /// Deliveries.
    pub deliveries: Vec<Delivery>,
    /// Peaks of the Age-of-Model (design §4), just before each delivery that lowers it.
    pub peaks: Vec<Ticks>,
    /// Number of updates dropped.
    pub dropped: usize,
}

impl Flow {
    /// Returns the sum of the peaks and their number.
    pub fn total(&self) -> (i128, i128) {
        (self.peaks.iter().map(|p| i128::from(*p)).sum(), self.peaks.len() as i128)
    }
}

/// A behaviour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// By cluster.
    pub flows: Vec<Flow>,
}

impl Run {
    /// Whether every cluster's average peak is within ε of every other's. A cluster without a peak has no average,
    /// which violates the objective (our choice).
    pub fn keeps(&self, epsilon: Ticks) -> bool {
        let totals: Vec<_> = self.flows.iter().map(Flow::total).collect();
        totals.iter().all(|(_, n)| *n > 0)
            && totals.iter().all(|(a, n)| totals.iter().all(|(b, m)| a * m - b * n <= i128::from(epsilon) * n * m))
    }
}

/// Events; the order of the variants is the order at equal times, as in the driver of virtual time (design §2:
/// departures, timers, arrivals by node).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    LinkFree,
    Generated(usize, usize),
    AtDevice(usize, usize),
    AckAtDevice(usize),
    AtServer(usize, usize, Ticks),
    AckAtWorker(usize, u16),
}

/// An update in the queue.
struct Waiting {
    cluster: usize,
    update: usize,
    /// All updates in this place.
    members: Vec<usize>,
}

struct Machine<'a> {
    setup: &'a Setup,
    events: BinaryHeap<Reverse<(Ticks, Event)>>,
    queue: VecDeque<Waiting>,
    busy: bool,
    last_arrival: Vec<Option<Ticks>>,
    feedback: Vec<Option<(Ticks, u16)>>,
    /// For each update, the cluster's latest queue entry at its arrival: the update that opened it.
    entry_of: Vec<Vec<Option<usize>>>,
    start_of: Vec<Vec<Option<Ticks>>>,
    latest: Vec<Option<usize>>,
    flows: Vec<Flow>,
}

/// Executes the behaviour with these generation times; `choose(cluster, update)` decides where the rule leaves it open.
pub fn run(setup: &Setup, generated: &[Vec<Ticks>], choose: &mut dyn FnMut(usize, usize) -> bool) -> Run {
    let clusters = generated.len();
    let flow =
        |times: &Vec<Ticks>| Flow { generated: times.clone(), sent: vec![false; times.len()], ..Flow::default() };
    let mut machine = Machine {
        setup,
        events: BinaryHeap::new(),
        queue: VecDeque::new(),
        busy: false,
        last_arrival: vec![None; clusters],
        feedback: vec![None; clusters],
        entry_of: generated.iter().map(|times| vec![None; times.len()]).collect(),
        start_of: generated.iter().map(|times| vec![None; times.len()]).collect(),
        latest: vec![None; clusters],
        flows: generated.iter().map(flow).collect(),
    };
    for (v, times) in generated.iter().enumerate() {
        for (k, time) in times.iter().enumerate() {
            machine.events.push(Reverse((*time, Event::Generated(v, k))));
        }
    }
    while let Some(Reverse((now, event))) = machine.events.pop() {
        machine.step(now, event, choose);
    }
    machine.finish()
}

impl Machine<'_> {
    fn at(&mut self, time: Ticks, event: Event) {
        self.events.push(Reverse((time, event)));
    }

    fn step(&mut self, now: Ticks, event: Event, choose: &mut dyn FnMut(usize, usize) -> bool) {
        let setup = self.setup;
        match event {
            Event::LinkFree => {
                self.busy = false;
                self.transmit(now);
            }
            Event::Generated(v, k) => {
                if self.decide(now, v, k, choose) {
                    self.flows[v].sent[k] = true;
                    self.at(now + setup.inbound(), Event::AtDevice(v, k));
                }
            }
            Event::AtDevice(v, k) => self.arrive(now, v, k),
            Event::AtServer(v, k, start) => {
                self.flows[v].deliveries.push(Delivery { start, time: now, update: k });
                self.at(now + setup.ack_hop(), Event::AckAtDevice(v));
            }
            Event::AckAtDevice(v) => {
                let recent = |last: &Option<Ticks>| last.is_some_and(|t| setup.window.is_none_or(|w| now - t < w));
                let active = self.last_arrival.iter().filter(|last| recent(last)).count() as u16;
                self.at(now + setup.ack_hop(), Event::AckAtWorker(v, active));
            }
            Event::AckAtWorker(v, active) => self.feedback[v] = Some((now, active)),
        }
    }

    /// §5: sends before the first ACK and without congestion; otherwise with P_s, which is a choice below 1.
    fn decide(&mut self, now: Ticks, v: usize, k: usize, choose: &mut dyn FnMut(usize, usize) -> bool) -> bool {
        let Some((heard, active)) = self.feedback[v] else { return true };
        if self.setup.rule.probability(active, self.setup.slots, (now - heard) * US) >= 1.0 {
            return true;
        }
        let sends = choose(v, k);
        self.flows[v].choices.push(if sends { '1' } else { '0' });
        sends
    }

    /// §4, Algorithm 1 with one worker per cluster: a newer update replaces the waiting one.
    fn arrive(&mut self, now: Ticks, v: usize, k: usize) {
        self.last_arrival[v] = Some(now);
        if let Some(own) = self.queue.iter_mut().find(|waiting| waiting.cluster == v) {
            own.update = k;
            own.members.push(k);
        } else if self.queue.len() + usize::from(self.busy && self.setup.hold_slot) < self.setup.slots as usize {
            self.queue.push_back(Waiting { cluster: v, update: k, members: vec![k] });
            self.latest[v] = Some(k);
        } else {
            self.flows[v].dropped += 1;
        }
        self.entry_of[v][k] = self.latest[v];
        self.transmit(now);
    }

    fn transmit(&mut self, now: Ticks) {
        if self.busy {
            return;
        }
        let Some(next) = self.queue.pop_front() else { return };
        self.busy = true;
        self.start_of[next.cluster][next.members[0]] = Some(now);
        self.at(now + self.setup.service, Event::LinkFree);
        self.at(now + self.setup.outbound(), Event::AtServer(next.cluster, next.update, now));
    }

    fn finish(mut self) -> Run {
        for (v, flow) in self.flows.iter_mut().enumerate() {
            let start = |entry: &Option<usize>| entry.and_then(|opener| self.start_of[v][opener]);
            // An update that was not sent has the latest entry among the updates before it.
            let mut latest = None;
            for k in 0..flow.generated.len() {
                if flow.sent[k] {
                    latest = start(&self.entry_of[v][k]);
                }
                flow.latest_start.push(latest);
            }
            let mut fresh = flow.generated[0];
            for delivery in &flow.deliveries {
                let generation = flow.generated[delivery.update];
                if generation > fresh {
                    flow.peaks.push(delivery.time - fresh);
                    fresh = generation;
                }
            }
        }
        Run { flows: self.flows }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::tiny;

    #[test]
    fn a_run_by_hand() {
        // p/C = 10, access 1, two slots of which the wire holds one. Cluster 0 at 0, 5, 40; cluster 1 at 0, 3, 40.
        let setup = Setup { service: 10, slots: 2, ..tiny() };
        let run = run(&setup, &[vec![0, 5, 40], vec![0, 3, 40]], &mut |_, _| true);
        let [a, b] = &run.flows[..] else { panic!("two flows") };
        // At 1 both arrive; 0 is sent immediately, 1 waits; at 4 the newer update of 1 replaces it; at 6 there is no
        // slot for 0 (one waits, one is on the wire), so it is dropped.
        assert_eq!(a.dropped, 1);
        assert_eq!(
            a.deliveries,
            [Delivery { start: 1, time: 11, update: 0 }, Delivery { start: 41, time: 51, update: 2 }]
        );
        assert_eq!(
            b.deliveries,
            [Delivery { start: 11, time: 21, update: 1 }, Delivery { start: 51, time: 61, update: 2 }]
        );
        // The delivery of a first update lowers nothing; the one at 21 lowers 21 − 0.
        assert_eq!((a.peaks.clone(), b.peaks.clone()), (vec![51], vec![21, 58]));
        assert_eq!(a.latest_start, [Some(1), Some(1), Some(41)]);
        assert!(run.keeps(12) && !run.keeps(11), "51 and 39.5");
    }
}
