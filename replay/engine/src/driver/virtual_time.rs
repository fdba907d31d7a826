//! Virtual time: a discrete-event simulation that moves real, encoded frames.
//!
//! Frames are in flight on links, each a FIFO line. The calendar has one slot per device
//! port, per timer and per link; the driver takes the earliest event, lets the node handle it and
//! carries the output. At equal times: departures, then timers, then arrivals; then by node, port and
//! sequence (the order of slots). A device of another process comes last ([`remote`]).

mod fetch;
mod places;
mod remote;
mod struck;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};

use pktgen_core::Result;
use pktgen_core::record::{Book, Counters, Fault, LinkLoad, Note, PacketId, Reason, Sent, SumOk};
use pktgen_core::time::{HORIZON, NEVER, Time};
use pktgen_core::topology::NodeId;
use pktgen_wire::wire::update::digest;

use super::calendar::Calendar;
use super::faults::LinkFaults;
use super::uplink::Uplink;
use crate::endpoint::{Facts, Host, Server, Workers};
use crate::frame::{BURST, Frame, Kind, Pool};
use crate::groups::Regroup;
use crate::ledger::{Ledger, Receipt};
use crate::parts::Parts;
use crate::recorder::Recorder;
use crate::target::context::{Context, Outbox};
use crate::target::device::Device;
use crate::target::meter::Meter;
use crate::target::program::Program;
use crate::target::remote::Remote;
use places::{add_slot, lazy_host, lines, places};
use remote::RemotePlace;

/// A node. Hosts are the most: each is in two cache lines.
#[repr(align(64))]
enum Place {
    Host(Uplink),
    Server(Uplink),
    Device(Box<Device>),
    Remote(Box<RemotePlace>),
}

const _: () = assert!(size_of::<Place>() == 128);

/// A line of frames in flight.
struct Line {
    to: NodeId,
    frames: VecDeque<Frame>,
    slot: u32,
    /// Whether it leads to hosts that do not react: arrivals are handed over in bursts, without events.
    lazy: bool,
}

#[derive(Clone, Copy)]
enum Slot {
    Port { node: NodeId, port: u16 },
    Timer { node: NodeId },
    Control,
    Workers,
    Server,
    Faults,
    Arrival { link: u32 },
    Remote { node: NodeId },
}

/// A run in virtual time.
pub struct Simulation {
    places: Vec<Place>,
    lines: Vec<Line>,
    slots: Vec<Slot>,
    calendar: Calendar,
    workers_slot: u32,
    control: VecDeque<Regroup>,
    /// The host of all workers, if it is the only one and they do not react: see `schedule_workers`.
    lazy_host: Option<NodeId>,
    workers: Box<dyn Workers>,
    /// Whether workers react to arrivals.
    react: bool,
    /// Whether updates may be pulled before they are generated, because no event can change them or end the run.
    ahead: bool,
    /// The latest generation that was pulled.
    generated_to: Time,
    server: Box<dyn Server>,
    /// None if the server has no timers.
    server_slot: Option<u32>,
    faults: Option<LinkFaults>,
    /// Valid only if links have faults.
    faults_slot: u32,
    /// Results under way of which a device dropped a copy: the last such device, and its reason.
    results_dropped: BTreeMap<PacketId, (u16, Reason)>,
    /// Number of frames handed at once to a host that does not react. Small if there are many hosts: buffers are held
    /// as long as the slowest one's.
    burst: usize,
    /// The knowledge of hosts and devices.
    facts: Facts,
    /// Whether a device is another process: it keeps no books, and the account is settled from the records.
    unsettled: bool,
    /// Misbehaviour of that device, which ends the run.
    failure: Option<String>,
    pool: Pool,
    ledger: Ledger,
    host: Host,
    out: Outbox,
    touched: Vec<u16>,
    /// Shared memory for rows of books, lent to the acting device: in a large network each device acts rarely, and
    /// separate memory would not be in the cache.
    rows: Vec<Book>,
    shares_rows: bool,
    /// Frames on their way to devices, of a network that is in no cache.
    coming: fetch::Coming,
    counters: Counters,
    sent: u64,
    until: Time,
}

/// The outcome of a run.
pub struct Outcome {
    /// Totals.
    pub counters: Counters,
    /// The account, not yet closed.
    pub ledger: Ledger,
    /// Whether the user stopped it.
    pub interrupted: bool,
    /// Whether the configured end came before everything had arrived.
    pub cut: bool,
    /// Whether every worker reached the goal.
    pub goal_reached: bool,
    /// Reason of an early end of the source, if it ended early.
    pub source_failure: Option<String>,
    /// Whether an event would have been after [`HORIZON`]: the run was stopped there.
    pub beyond_horizon: bool,
    /// Reasons against the run's numbers.
    pub faults: Vec<Fault>,
    /// The workers' note, if they have one.
    pub note: Option<Note>,
    /// Events that nodes of virtual time handled.
    pub events: u64,
    /// Buffers that were not released although nothing was in flight: a defect.
    pub leaked: usize,
}

/// Number of nodes whose memory for rows of books stays in the nearest caches.
const NODES_NEAR: usize = 64;

/// Nodes whose memory stays in the caches of a core.
const NODES_CACHED: usize = 16_384;

/// Frames that hosts which do not react have not got yet, at most.
const HELD_MAX: usize = 4096;

/// Events between two checks of the stop flag and updates of the progress bar.
const CHECK_EVERY: u64 = 1 << 14;

/// Gives the devices slots for their timers, and lets them collect dropped results where there is no server: what the results of ATP's
/// server sum has been delivered, and those of Libra are parts of a sum ([`Ledger::is_result_under_way`]).
fn set_up_devices(places: &mut [Place], slots: &mut Vec<Slot>) {
    let is_served = places.iter().any(|place| matches!(place, Place::Server(_)));
    for (id, place) in places.iter_mut().enumerate() {
        if let Place::Device(device) = place {
            device.books.results_dropped = (!is_served).then(Vec::new);
            device.timer_slot = slots.len() as u32;
            slots.push(Slot::Timer { node: id as NodeId });
        }
    }
}

impl Simulation {
    /// Makes a simulation of the parts of a plan.
    pub fn new(parts: Parts) -> Self {
        Self::beside(parts, None)
    }

    /// Makes a simulation in which the device at a node is another process.
    pub fn beside(parts: Parts, remote: Option<(NodeId, Box<dyn Remote>)>) -> Self {
        let Parts {
            topology,
            mut devices,
            workers,
            declared,
            receiver,
            ledger,
            frame_bytes,
            changes,
            facts,
            faults,
            ..
        } = parts;
        let (mut slots, unsettled) = (Vec::new(), remote.is_some());
        let mut places = places(&topology, &mut devices, remote, facts.flows.is_some(), &mut slots);
        set_up_devices(&mut places, &mut slots);
        // The control plane acts before generations and arrivals at the same time.
        let control_slot = slots.len() as u32;
        let workers_slot = control_slot + 1;
        slots.extend([Slot::Control, Slot::Workers]);
        // Every slot is scanned for the next event, so unused ones are left out.
        let server_slot = receiver.timers.then(|| add_slot(&mut slots, Slot::Server));
        let faults_slot = if faults.is_some() { add_slot(&mut slots, Slot::Faults) } else { 0 };
        let faults = faults.map(|faults| LinkFaults::new(faults, &topology, facts.seed));
        // The end of a run to a goal is not known before.
        let ahead = !declared.reacts && ledger.goal().is_none();
        let lines = lines(&topology, !ahead || faults.is_some(), &mut slots);
        remote::add_slots(&mut places, &mut slots);
        let mut simulation = Simulation {
            calendar: Calendar::new(slots.len()),
            burst: (HELD_MAX / lines.iter().filter(|line| line.lazy).count().max(1)).clamp(1, BURST),
            places,
            lines,
            slots,
            workers_slot,
            control: changes.into(),
            lazy_host: lazy_host(&topology).filter(|_| !declared.reacts),
            react: declared.reacts,
            ahead,
            generated_to: 0,
            workers,
            server: receiver.server,
            server_slot,
            faults,
            faults_slot,
            results_dropped: BTreeMap::new(),
            facts,
            unsettled,
            failure: None,
            pool: Pool::new(frame_bytes, 256),
            ledger,
            host: Host::default(),
            out: Outbox::default(),
            touched: Vec::new(),
            rows: Vec::new(),
            shares_rows: topology.nodes.len() > NODES_NEAR,
            coming: fetch::Coming::new(topology.nodes.len() > NODES_CACHED),
            counters: Counters::default(),
            sent: 0,
            until: NEVER,
        };
        simulation.schedule_workers();
        simulation.schedule_server();
        simulation.calendar.set(control_slot, simulation.control.front().map_or(NEVER, |regroup| regroup.change.at));
        simulation
    }

    /// Runs until no event is left, or past `until`, or until `stop` is set.
    pub fn run(
        mut self,
        mut until: Time,
        stop: &AtomicBool,
        recorder: &mut dyn Recorder,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Outcome> {
        self.until = until;
        let mut events = 0u64;
        let (mut interrupted, mut cut, mut beyond_horizon, mut goal_reached) = (false, false, false, false);
        loop {
            let (t, slot) = self.calendar.first();
            if t == NEVER || self.only_control_is_left(slot) {
                cut = !interrupted && self.is_late(until);
                if cut {
                    self.counters.end_ps = until;
                }
                break;
            }
            if t > HORIZON {
                beyond_horizon = true;
                break;
            }
            if t > until {
                if interrupted || !self.is_over(slot, until) {
                    self.counters.end_ps = until;
                    cut = !interrupted;
                }
                break;
            }
            self.event(t, slot, recorder)?;
            if self.coming.is_active() {
                fetch::events(&self, events);
            }
            // A device of another process announces instants at which nothing may leave (`advance_remote`).
            if !matches!(self.slots[slot as usize], Slot::Remote { .. }) {
                self.counters.end_ps = t;
            }
            if self.failure.is_some() {
                break;
            }
            if self.ledger.goal().is_some_and(|goal| goal.short() == 0) {
                goal_reached = true;
                self.counters.goal_ps = Some(t);
                break;
            }
            events += 1;
            if events.is_multiple_of(CHECK_EVERY) {
                progress(self.sent);
                if stop.load(Ordering::Relaxed) && !interrupted {
                    // Updates pulled ahead of time have been sent: the run ends at their generation.
                    interrupted = true;
                    until = until.min(self.generated_to.max(t));
                    self.until = until;
                }
            }
        }
        let early = interrupted || cut || beyond_horizon || goal_reached || self.failure.is_some();
        let end = self.counters.end_ps;
        if early {
            self.send_rest(end, recorder)?;
        }
        progress(self.sent);
        self.hand_over_rest(if early { end } else { NEVER });
        if !early {
            self.book_lost_results(recorder)?;
        }
        Ok(Outcome { interrupted, cut, beyond_horizon, goal_reached, events, ..self.finish(!early) })
    }

    /// Returns whether frames are on their way to hosts that do not react, and have no events, after `until`.
    fn is_late(&self, until: Time) -> bool {
        self.lines.iter().any(|line| line.lazy && line.frames.back().is_some_and(|frame| frame.t > until))
    }

    /// Returns whether only the control plane would still act.
    fn only_control_is_left(&mut self, slot: u32) -> bool {
        if !matches!(self.slots[slot as usize], Slot::Control) {
            return false;
        }
        self.calendar.set(slot, NEVER);
        self.calendar.first().0 == NEVER
    }

    /// Sends updates generated by `until` that still wait for their host's link: they count as in flight.
    fn send_rest(&mut self, until: Time, recorder: &mut dyn Recorder) -> Result<()> {
        while self.workers.next_wake() <= until {
            self.workers.pull(until, &mut self.pool, &mut self.host);
            self.settle_hosts(recorder)?;
        }
        Ok(())
    }

    /// Hands over arrivals by `until` at hosts that do not react.
    fn hand_over_rest(&mut self, until: Time) {
        for index in 0..self.lines.len() {
            let line = &mut self.lines[index];
            if line.lazy {
                let arrived = line.frames.iter().take_while(|f| f.t <= until).count();
                let frames: Vec<_> = line.frames.drain(..arrived).collect();
                if let Some(last) = frames.last() {
                    self.counters.end_ps = self.counters.end_ps.max(last.t);
                }
                self.workers.on_burst(line.to, &frames, &mut self.pool, &mut self.host);
            }
        }
    }

    /// Returns the loads of the plan's links.
    fn link_loads(&self) -> Vec<[LinkLoad; 2]> {
        let Some(flows) = &self.facts.flows else { return Vec::new() };
        let mut loads = vec![[LinkLoad::default(); 2]; flows.plan.links.len()];
        let mut add = |link: u32, meter: Option<&Meter>| {
            if let (Some((link, back)), Some(meter)) = (flows.link(link), meter) {
                loads[link][usize::from(back)] = meter.load;
            }
        };
        for place in &self.places {
            match place {
                Place::Host(uplink) | Place::Server(uplink) => add(uplink.link, uplink.meter.as_deref()),
                Place::Device(device) => device.ports.iter().for_each(|port| add(port.link, port.meter())),
                Place::Remote(remote) => remote.uplinks.iter().for_each(|port| add(port.link, port.meter.as_deref())),
            }
        }
        loads
    }

    fn finish(mut self, ended_by_itself: bool) -> Outcome {
        let (workers, server) = (self.workers.end(), self.server.end(None));
        let mut held = server.held;
        self.counters.links = self.link_loads();
        let unfinished = server.unfinished.filter(|_| ended_by_itself).map(|why| Fault::Unfinished { why });
        self.end_remotes();
        let failed = self.failure.take().map(|why| Fault::RoleFailed { why });
        let faults = failed.into_iter().chain(workers.faults(ended_by_itself)).chain(unfinished).collect();
        self.counters.answers = workers.answers;
        for place in &self.places {
            if let Place::Device(device) = place {
                held += device.program.held();
                self.counters.acks_dropped += device.books.control_dropped;
                device.program.counters().iter().for_each(|own| self.counters.count(own));
            }
        }
        server.counters.iter().chain(&workers.counters).for_each(|own| self.counters.count(own));
        self.counters.acks_sent = self.host.acks_sent;
        self.counters.acks_received = self.host.acks_received;
        self.counters.frames_again = self.host.frames_again;
        self.counters.foreign = self.host.foreign;
        self.counters.clipped = workers.clipped;
        self.counters.scaling_error_ppb = workers.scaling_error_ppb;
        if let Some(goal) = self.ledger.goal() {
            self.counters.workers_at_goal = goal.workers() - goal.short();
        }
        // Frames kept in incomplete sums are not leaked.
        let leaked = if ended_by_itself { self.pool.in_use().saturating_sub(held) } else { 0 };
        Outcome {
            source_failure: workers.failure,
            counters: self.counters,
            ledger: self.ledger,
            interrupted: false,
            cut: false,
            beyond_horizon: false,
            goal_reached: false,
            events: 0,
            faults,
            note: workers.note,
            leaked,
        }
    }

    #[inline]
    fn event(&mut self, t: Time, slot: u32, recorder: &mut dyn Recorder) -> Result<()> {
        match self.slots[slot as usize] {
            Slot::Port { node, port } => {
                let Place::Device(device) = &mut self.places[node as usize] else { unreachable!("ports are devices'") };
                lend(self.shares_rows, &mut self.rows, &mut device.books.rows);
                device.ports[usize::from(port)].advance(t, &mut self.pool, &mut device.books, &mut self.out);
                self.touched.push(port);
                self.settle_device(node, recorder)
            }
            Slot::Timer { node } => self.on_timer(t, node, recorder),
            Slot::Control => {
                self.regroup(slot);
                Ok(())
            }
            Slot::Workers => {
                let until = if self.ahead { self.until } else { t };
                self.workers.pull(until, &mut self.pool, &mut self.host);
                self.settle_hosts(recorder)?;
                self.schedule_workers();
                Ok(())
            }
            Slot::Server => {
                self.server.pull(t, &mut self.pool, &mut self.host);
                self.settle_hosts(recorder)?;
                self.schedule_server();
                Ok(())
            }
            Slot::Faults => {
                let Some((_, link)) = self.faults.as_ref().map(LinkFaults::next) else { return Ok(()) };
                self.release_held(link, t, recorder)
            }
            Slot::Arrival { link } => {
                let line = &mut self.lines[link as usize];
                let Some(&frame) = line.frames.front() else { unreachable!("an arrival has a frame") };
                line.frames.pop_front();
                if line.frames.is_empty() {
                    // The next one is put into the same memory, which may still be in a cache.
                    line.frames.clear();
                }
                self.calendar.set(slot, line.frames.front().map_or(NEVER, |f| f.t));
                if self.faults.is_some() {
                    return self.arrive_perhaps(link as usize, frame, recorder);
                }
                self.arrive(link as usize, frame, recorder)
            }
            Slot::Remote { node } => self.advance_remote(t, node, recorder),
        }
    }

    /// Calls a device's program at `t`, as it requested.
    fn on_timer(&mut self, t: Time, node: NodeId, recorder: &mut dyn Recorder) -> Result<()> {
        let Place::Device(device) = &mut self.places[node as usize] else { unreachable!("timers are devices'") };
        lend(self.shares_rows, &mut self.rows, &mut device.books.rows);
        device.call(&mut self.pool, &mut self.out, &mut self.touched, |program, context| program.on_timer(t, context));
        self.settle_device(node, recorder)
    }

    /// Notifies every device of a change of clusters.
    fn regroup(&mut self, slot: u32) {
        if let Some(regroup) = self.control.pop_front() {
            for (node, place) in self.places.iter_mut().enumerate() {
                if let Place::Device(device) = place {
                    device.program.regroup(&regroup, node);
                }
            }
        }
        self.calendar.set(slot, self.control.front().map_or(NEVER, |regroup| regroup.change.at));
    }

    /// Sets the workers' timer. An update has no effect before its host's link is free, so with a single host frames
    /// are built when the link is ready, and a backlog costs neither memory nor cache.
    #[inline]
    fn schedule_workers(&mut self) {
        let mut wake = self.workers.next_wake();
        if let Some(Place::Host(uplink)) = self.lazy_host.map(|node| &self.places[node as usize])
            && wake != NEVER
        {
            wake = wake.max(uplink.free_at);
        }
        self.calendar.set(self.workers_slot, wake);
    }

    /// Sets the server's timer.
    #[inline]
    fn schedule_server(&mut self) {
        let Some(slot) = self.server_slot else { return };
        let watch = match self.server.watches() {
            NEVER => NEVER,
            // After training there is nothing to monitor. Without a timer of workers or server nothing ends a wait.
            at if self.workers.waits() && self.workers.next_wake().min(self.server.next_wake()) != NEVER => at,
            _ => NEVER,
        };
        self.calendar.set(slot, self.server.next_wake().min(watch));
    }

    /// Handles the arrival of `frame` over `link`.
    #[inline]
    fn arrive(&mut self, link: usize, frame: Frame, recorder: &mut dyn Recorder) -> Result<()> {
        let node = self.lines[link].to;
        match &mut self.places[node as usize] {
            Place::Device(device) => {
                let act = |program: &mut dyn Program, context: &mut Context| program.on_burst(&[frame], context);
                lend(self.shares_rows, &mut self.rows, &mut device.books.rows);
                device.call(&mut self.pool, &mut self.out, &mut self.touched, act);
                self.settle_device(node, recorder)
            }
            Place::Server(_) => {
                self.server.on_burst(node, &[frame], &mut self.pool, &mut self.host);
                self.settle_hosts(recorder)?;
                self.schedule_server();
                Ok(())
            }
            Place::Host(_) => {
                self.workers.on_burst(node, &[frame], &mut self.pool, &mut self.host);
                self.settle_hosts(recorder)?;
                self.schedule_workers();
                Ok(())
            }
            Place::Remote(_) => {
                self.arrive_remote(node, link, frame);
                Ok(())
            }
        }
    }

    /// Carries the output of a device: books, frames, new wake-up times.
    #[inline]
    fn settle_device(&mut self, node: NodeId, recorder: &mut dyn Recorder) -> Result<()> {
        let Place::Device(device) = &mut self.places[node as usize] else { unreachable!("only devices settle here") };
        for port in self.touched.drain(..) {
            device.last_port = port;
            self.calendar.set(device.first_slot + u32::from(port), device.ports[usize::from(port)].wake());
        }
        self.calendar.set(device.timer_slot, device.program.next_wake());
        lend(self.shares_rows, &mut device.books.rows, &mut self.rows);
        let rows = if self.shares_rows { &mut self.rows } else { &mut device.books.rows };
        for row in rows.drain(..) {
            self.ledger.book(&row);
            recorder.book(&row)?;
        }
        for (packet, reason) in device.books.results_dropped.iter_mut().flat_map(|dropped| dropped.drain(..)) {
            if self.ledger.is_result_under_way(packet) {
                self.results_dropped.insert(packet, (device.books.node, reason));
            }
        }
        self.carry();
        Ok(())
    }

    /// Puts the output of a device on its links.
    #[inline]
    fn carry(&mut self) {
        for (link, frame) in self.out.frames.drain(..) {
            if frame.goes_down() {
                self.counters.downlink_bytes += u64::from(frame.len);
            }
            let line = &mut self.lines[link as usize];
            if line.lazy {
                line.frames.push_back(frame);
                if line.frames.len() >= self.burst && frame.t <= self.until {
                    self.workers.on_burst(line.to, line.frames.make_contiguous(), &mut self.pool, &mut self.host);
                    line.frames.clear();
                }
            } else {
                put(line, frame, &mut self.calendar);
                self.coming.push((link, frame), &self.places, &self.lines, &self.pool, &self.ledger);
            }
        }
    }

    /// Carries the output of hosts and the server: frames to their links, deliveries to the records.
    #[inline]
    fn settle_hosts(&mut self, recorder: &mut dyn Recorder) -> Result<()> {
        for row in self.host.withheld.drain(..) {
            if !self.unsettled {
                self.ledger.withheld(row.worker);
            }
            recorder.sent(&row)?;
        }
        for row in self.host.states.drain(..) {
            recorder.state(&row)?;
        }
        for row in self.host.iterations.drain(..) {
            recorder.iteration(&row)?;
        }
        self.counters.replies += self.host.replies.len() as u64;
        for row in self.host.replies.drain(..) {
            recorder.reply(&row)?;
        }
        let mut leaving = self.host.outgoing.drain(..);
        while let Some(outgoing) = leaving.next() {
            self.coming.senders(leaving.as_slice(), &self.places, &self.lines, &self.ledger);
            let (Place::Host(uplink) | Place::Server(uplink)) = &mut self.places[outgoing.node as usize] else {
                unreachable!("only hosts and servers have uplinks")
            };
            let frame = outgoing.frame;
            let (link, (leaves, arrives)) = (uplink.link, uplink.send(&frame));
            match outgoing.record {
                Some(row) => {
                    self.sent += 1;
                    self.generated_to = self.generated_to.max(row.t_gen);
                    if !self.unsettled {
                        let values = self.facts.protocol.values(self.pool.payload(&frame));
                        self.ledger.sent(frame.packet, row.heat, values);
                    }
                    recorder.left(frame.t, leaves, self.pool.frame(&frame))?;
                    recorder.sent(&Sent { t_sent: Some(leaves), ..row })?;
                    if self.react {
                        self.workers.left(frame.packet, leaves);
                    }
                }
                None if frame.goes_down() => self.counters.downlink_bytes += u64::from(frame.len),
                None => {}
            }
            put(&mut self.lines[link as usize], Frame { t: arrives, ..frame }, &mut self.calendar);
            self.coming.push((link, frame), &self.places, &self.lines, &self.pool, &self.ledger);
        }
        for delivery in self.host.deliveries.drain(..) {
            let (mut row, frame) = (delivery.row, delivery.frame);
            if row.packet == PacketId::NOBODY {
                self.pool.release(frame.buffer);
                continue;
            }
            let values = self.facts.protocol.values(self.pool.payload(&frame));
            let verdict = match self.unsettled {
                false => self.ledger.received(&Receipt::of(&row, values)),
                true => {
                    row.digest = Some(digest(values));
                    // The verdict of the workers.
                    row.sum_ok
                }
            };
            if matches!(frame.kind, Kind::Update | Kind::Result) {
                row.sum_ok = verdict;
                self.counters.delivered(&row, self.facts.protocol.elements(row.packet, values));
                self.counters.sums_ok += u64::from(verdict == SumOk::Yes);
                self.counters.sums_wrong += u64::from(verdict == SumOk::No);
            }
            recorder.received(&row, self.pool.frame(&frame))?;
            self.pool.release(frame.buffer);
        }
        Ok(())
    }
}

/// Lends the memory of `from` to the owner of `to`, if it is shared.
#[inline]
fn lend(shared: bool, from: &mut Vec<Book>, to: &mut Vec<Book>) {
    if shared {
        std::mem::swap(from, to);
    }
}

/// Puts a frame on a line; lines are FIFO, so only a new head changes the calendar.
#[inline]
fn put(line: &mut Line, frame: Frame, calendar: &mut Calendar) {
    if line.frames.is_empty() {
        calendar.set(line.slot, frame.t);
    }
    line.frames.push_back(frame);
}
