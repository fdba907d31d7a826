//! The device's role: passes arriving frames to program and queue, and sends their output when the link is due.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use pktgen_core::Result;
use pktgen_core::record::Reason;
use pktgen_core::time::{MS, NEVER, Time, US};
use pktgen_core::topology::{NodeId, Role, Topology};

use super::frames::{ByBuffer, Waiting};
use super::shared::PATIENCE;
use super::{Beside, LOOK, RealOutcome, RoleTally, Shared, lost};
use crate::capture::DeviceRows;
use crate::driver::admit::{admit, strangers};
use crate::endpoint::Facts;
use crate::frame::{BURST, Frame, Pool};
use crate::groups::Regroup;
use crate::launch::is_marked;
use crate::target::context::Outbox;
use crate::target::device::Device;
use crate::target::port::Port;
use crate::transport::{Found, Wire};

/// Towards the workers, and towards the server.
const DOWN: usize = 0;
const UP: usize = 1;

/// Maximum number of marked frames that are forwarded.
const MARKS_MAX: usize = 1000;

/// Maximum time without a look at the wires while nothing is due.
const NAP: Time = MS;
/// The same with a server: a wait ends by frames of the workers only. 50 µs of it are slept.
const NAP_BESIDE: Time = 75 * US;

/// Maximum time for the last frames to leave.
const FLUSH_NS: u64 = 1_000_000_000;

/// The device.
pub(super) struct DeviceRole<'a> {
    device: Device,
    node: usize,
    wires: [Box<dyn Wire>; 2],
    /// Whether each of them has ended.
    ended: [bool; 2],
    /// Wire of each link that leaves the device.
    wire_of: Vec<usize>,
    waiting: [Waiting<()>; 2],
    pool: Pool,
    out: Outbox,
    touched: Vec<u16>,
    batch: Vec<Frame>,
    /// Frames lost to a fault on arrival.
    faulted: Vec<Frame>,
    changes: VecDeque<Regroup>,
    rows: DeviceRows<'a>,
    facts: Facts,
    foreign: u64,
    /// Marked frames of a probe to be forwarded, and the number of forwarded ones.
    marks: Vec<Vec<u8>>,
    marked: usize,
    /// Whether there is a second cable.
    has_server: bool,
    downlink_bytes: u64,
    /// Time of the last check of losses.
    looked: Time,
    /// Traffic from the workers.
    tally: RoleTally,
    /// Excess length on the cable of the frames being processed.
    beside: ByBuffer<Beside>,
}

/// The device's ends of its two cables.
pub(super) struct Cables {
    pub(super) down: Box<dyn Wire>,
    pub(super) up: Box<dyn Wire>,
}

impl<'a> DeviceRole<'a> {
    #[expect(clippy::too_many_arguments, reason = "called once, with what a plan consists of")]
    pub(super) fn new(
        device: Device,
        topology: &Topology,
        node: NodeId,
        facts: &Facts,
        cables: Cables,
        frame_bytes: usize,
        changes: Vec<Regroup>,
        rows: DeviceRows<'a>,
    ) -> Self {
        let to_server = |to: NodeId| to == facts.server || topology.nodes[to as usize].role == Role::Server;
        let wire_of = topology.links.iter().map(|link| if to_server(link.to) { UP } else { DOWN }).collect();
        DeviceRole {
            device,
            node: node as usize,
            wires: [cables.down, cables.up],
            ended: [false; 2],
            wire_of,
            waiting: [Waiting::new(), Waiting::new()],
            pool: Pool::new(frame_bytes, 1024),
            out: Outbox::default(),
            touched: Vec::new(),
            batch: Vec::with_capacity(BURST),
            faulted: Vec::with_capacity(BURST),
            changes: changes.into(),
            rows,
            facts: facts.clone(),
            foreign: 0,
            marks: Vec::new(),
            marked: 0,
            has_server: topology.servers().next().is_some(),
            downlink_bytes: 0,
            looked: 0,
            tally: RoleTally::default(),
            beside: ByBuffer::default(),
        }
    }

    pub(super) fn run(&mut self, shared: &Shared) -> Result<()> {
        let (mut quiet_since, mut moved) = (0, 0);
        loop {
            let (mut busy, mut own) = (0, 0);
            for side in [DOWN, UP] {
                // A run does not wait for foreign frames.
                let (found, ours) = self.receive(side, shared)?;
                (busy, own) = (busy + found, own + ours);
            }
            let now = shared.clock.now();
            if self.device.program.next_wake() <= now {
                self.on_timer(now);
            }
            let ports = self.device.ports.iter_mut().filter(|port| port.wake() <= now);
            ports.for_each(|port| port.advance(now, &mut self.pool, &mut self.device.books, &mut self.out));
            self.settle()?;
            for side in [DOWN, UP] {
                let books = &mut self.device.books;
                // A frame lost to a fault on the way out has left the device and goes no further.
                let each = |frame: Frame, (), lost| {
                    if lost {
                        books.dropped(now, &frame, Reason::Fault, None);
                    }
                    Ok(())
                };
                let sent =
                    self.waiting[side].send_due((now, BURST), self.wires[side].as_mut(), &mut self.pool, each)?;
                (busy, own) = (busy + sent.taken, own + sent.taken);
            }
            let ports = self.device.ports.iter().map(|port| port.wake());
            let next = ports.chain(self.waiting.iter().map(Waiting::next)).min().unwrap_or(NEVER);
            let next = next.min(self.device.program.next_wake());
            if shared.is_cut_off(now) {
                return self.flush();
            }
            if own > 0 || next > now {
                moved = now;
            }
            // Due frames that are not accepted for long wait for a peer that is gone.
            if own > 0 || (next != NEVER && now - moved < PATIENCE) {
                quiet_since = now;
            } else if shared.over(quiet_since) || self.ended[DOWN] {
                return self.flush();
            }
            self.look(shared, now)?;
            if busy == 0 {
                rest(shared, self.wires[DOWN].as_mut(), self.has_server, (now, next))?;
            }
        }
    }

    /// Calls the program at its requested time.
    fn on_timer(&mut self, now: Time) {
        let DeviceRole { device, pool, out, touched, .. } = self;
        device.call(pool, out, touched, |program, context| program.on_timer(now, context));
        self.touched.clear();
    }

    /// Reports losses and queues periodically: reading losses takes one or two system calls.
    fn look(&mut self, shared: &Shared, now: Time) -> Result<()> {
        if now - self.looked > LOOK {
            self.looked = now;
            // A ring tells of an interface that went down only here, if nothing waits (`wait = "spin"`).
            self.wires.iter_mut().try_for_each(|wire| wire.wait(0))?;
            let lost: u64 = self.wires.iter_mut().map(|wire| wire.counters().receive_dropped).sum();
            shared.live.lost.fetch_max(lost, Ordering::Relaxed);
            let waiting: usize = self.device.ports.iter().map(Port::waiting).sum();
            shared.live.queued.store(waiting as u64, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Passes a burst from one wire to the program, with the time at which it was found; returns the number of its frames, and of those
    /// of the run.
    fn receive(&mut self, side: usize, shared: &Shared) -> Result<(usize, usize)> {
        let (pool, batch, foreign, facts) = (&mut self.pool, &mut self.batch, &mut self.foreign, &self.facts);
        let (faulted, marks, marked) = (&mut self.faulted, &mut self.marks, self.marked);
        let beside = &mut self.beside;
        let Found { frames: found, ended } =
            self.wires[side].receive(BURST, &mut |arrival| match admit(arrival.bytes, pool, facts) {
                Some(frame) if arrival.lost => faulted.push(frame),
                Some(frame) => {
                    beside.keep(frame.buffer, Beside::of(arrival.len, usize::from(frame.len)));
                    batch.push(frame);
                }
                None if marked + marks.len() < MARKS_MAX && is_marked(arrival.bytes) => {
                    marks.push(arrival.bytes.to_vec())
                }
                None => *foreign += strangers(arrival.bytes),
            })?;
        self.ended[side] = ended;
        let own = self.batch.len() + self.faulted.len() + self.marks.len();
        if shared.device_only {
            shared.live.received.fetch_add(found as u64, Ordering::Relaxed);
        }
        if !self.marks.is_empty() {
            self.pass_marks(side)?;
        }
        if !self.faulted.is_empty() {
            let now = shared.clock.now();
            for frame in self.faulted.drain(..) {
                self.device.books.dropped(now, &frame, Reason::Fault, None);
                self.pool.release(frame.buffer);
            }
        }
        if !self.batch.is_empty() {
            // Read after the frames were found, so that no arrival precedes its departure.
            let now = shared.clock.now();
            self.regroup(now);
            self.batch.iter_mut().for_each(|frame| frame.t = now);
            if side == DOWN {
                self.tally.burst(now, &self.batch, &self.beside);
            }
            let DeviceRole { device, pool, out, touched, batch, .. } = self;
            device.call(pool, out, touched, |program, context| program.on_burst(batch, context));
            self.batch.clear();
            self.touched.clear();
            self.settle()?;
        }
        Ok((found, own))
    }

    /// Forwards marked frames unchanged, towards the server, or back if there is none, so that a probe of this device,
    /// as if it were hardware, succeeds.
    fn pass_marks(&mut self, side: usize) -> Result<()> {
        let to = if self.has_server { 1 - side } else { side };
        for mark in self.marks.drain(..) {
            self.marked += self.wires[to].send(&[&mark])?.taken;
        }
        Ok(())
    }

    /// Applies due control-plane events.
    fn regroup(&mut self, now: Time) {
        while self.changes.front().is_some_and(|regroup| regroup.change.at <= now) {
            if let Some(regroup) = self.changes.pop_front() {
                self.device.program.regroup(&regroup, self.node);
            }
        }
    }

    /// Passes books to the records, and frames to their wires.
    fn settle(&mut self) -> Result<()> {
        for row in self.device.books.rows.drain(..) {
            self.rows.book(&row)?;
        }
        for (link, frame) in self.out.frames.drain(..) {
            if frame.goes_down() {
                self.downlink_bytes += u64::from(frame.len);
            }
            self.waiting[self.wire_of[link as usize]].push(frame, ());
        }
        Ok(())
    }

    /// Lets the last frames leave.
    fn flush(&mut self) -> Result<()> {
        self.wires.iter_mut().try_for_each(|wire| wire.flush(FLUSH_NS))
    }

    pub(super) fn count(&mut self, outcome: &mut RealOutcome) {
        outcome.counters.acks_dropped += self.device.books.control_dropped;
        outcome.counters.downlink_bytes += self.downlink_bytes;
        self.device.program.counters().iter().for_each(|own| outcome.counters.count(own));
        outcome.counters.foreign += self.foreign;
        outcome.tallies.push(("device", self.tally));
        for (name, wire) in ["device.down", "device.up"].into_iter().zip(&mut self.wires) {
            lost(name, wire.as_mut(), outcome);
        }
    }
}

/// Idles from `now` until `next`, or until frames of the workers arrive on `down`.
fn rest(shared: &Shared, down: &mut dyn Wire, has_server: bool, (now, next): (Time, Time)) -> Result<()> {
    // The time of files advances by waits, and all of their frames are there.
    let beside = has_server && shared.clock.file().is_none();
    shared.idle(down, next.min(now + if beside { NAP_BESIDE } else { NAP }))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::super::{Progress, Roles, RunOrder, Serve};
    use super::*;
    use crate::clock::RunClock;
    use crate::transport::{Arrival, Submitted, TRANSPORTS, TransportPlan, WireCounters};

    /// Test wire: its longest wait, in ns.
    struct Waits(u64);

    impl Wire for Waits {
        fn send(&mut self, frames: &[&[u8]]) -> Result<Submitted> {
            Ok(Submitted::all(frames.len()))
        }
        fn receive(&mut self, _most: usize, _each: &mut dyn FnMut(Arrival<'_>)) -> Result<Found> {
            Ok(Found::default())
        }
        fn wait(&mut self, timeout_ns: u64) -> Result<()> {
            self.0 = self.0.max(timeout_ns);
            Ok(())
        }
        fn counters(&mut self) -> WireCounters {
            WireCounters::default()
        }
        fn mode(&self) -> String {
            "waits".into()
        }
    }

    /// Returns the longest of many waits in which nothing is due.
    fn longest(has_server: bool) -> u64 {
        let (plan, stop, progress) = (TransportPlan::of(TRANSPORTS[0]), AtomicBool::new(false), |_: Progress| ());
        let order = RunOrder {
            plan: &plan,
            roles: Roles::ALL,
            serve: Serve::default(),
            begin: None,
            until: NEVER,
            stop: &stop,
            steering: None,
            progress: &progress,
        };
        let (shared, mut down) = (Shared::new(RunClock::start(), &order, 0), Waits(0));
        for _ in 0..1000 {
            let now = shared.clock.now();
            rest(&shared, &mut down, has_server, (now, NEVER)).unwrap();
        }
        down.0
    }

    #[test]
    fn a_wait_beside_a_server_is_short() {
        let (without, beside) = (longest(false), longest(true));
        assert!(without > 50_000 && (1..=50_000).contains(&beside), "{without}, {beside}");
    }
}
