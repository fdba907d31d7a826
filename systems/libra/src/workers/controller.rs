//! The controller of switches (LIBRA §3.6, "Failover mechanism"; `docs/libra.md`): it monitors switches, and moves the work of one that is
//! about to fail to a standby switch, with its state. A switch that no longer answers is replaced without its state.
//!
//! It has its own node but shares the endpoint of the parameter server: [`open`] combines both. [`watch`] draws
//! conclusions from heartbeats.

#[cfg(test)]
mod tests;
pub(super) mod watch;

use crate::format::control::{Control, What};
use crate::format::{self, HEADER, Header, PORT, SESSION_MAX};
use pktgen_core::config::Section;
use pktgen_core::record::{Counter, PacketId};
use pktgen_core::time::{NS, Time};
use pktgen_core::topology::NodeId;
use pktgen_core::{Error, Result};
use pktgen_wire::wire::frame::{HEAD, SERVER_IP, Template, set_udp_checksum};

use super::server::SparseServer;
use pktgen_engine::endpoint::{Facts, Host, Outgoing, Receiver, Server, ServerEnd, Standby};
use pktgen_engine::frame::{Frame, Kind, Pool};
use watch::{Settings, Verdict, Watch};

/// Maximum number of pieces of a state in flight.
const WINDOW: usize = 64;

/// Opens the server, with a controller if there are standby switches.
pub(super) fn open(section: &mut Section, facts: &Facts, server: SparseServer) -> Result<Receiver> {
    let ready = |server: Box<dyn Server>| Receiver { server, timers: true, answers_all: false };
    let Some(standby) = &facts.standby else { return Ok(ready(Box::new(server))) };
    if facts.real_time {
        return Err(Error::config(
            "topology.standby: standby switches are for transport.kind = \"virtual\" only; give 0 or that",
        ));
    }
    let settings = Settings::read(section)?;
    let controller = Controller::new(standby.clone(), settings, facts.udp_checksum);
    Ok(ready(Box::new(PsAndController { server, controller })))
}

/// A request without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ask {
    Freeze,
    Fetch(u32),
    Prepare { fresh: bool },
    Restore(u32),
    Begin,
    Activate(NodeId),
    Retire,
}

/// A request that is sent again until it is answered.
#[derive(Debug, Clone, Copy)]
struct Request {
    to: NodeId,
    session: u32,
    ask: Ask,
    due: Time,
}

/// Where a piece of the state is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Wanted,
    Fetching,
    Here(Vec<u8>),
    Moved,
}

/// The current change of switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Change {
    /// The switch that takes over.
    to: usize,
    /// Whether the state was lost with its switch.
    fresh: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    migrations: u64,
    takeovers: u64,
    no_standby: u64,
    pieces: u64,
    moved_bytes: u64,
    resent: u64,
    detected: Time,
    resumed: Time,
}

/// The controller.
struct Controller {
    known: Standby,
    settings: Settings,
    udp_checksum: bool,
    watch: Watch,
    /// The switch that adds up.
    active: usize,
    session: u32,
    change: Option<Change>,
    /// Whether a switch must be replaced but no standby switch is healthy, or there were as many changes as there may be.
    stuck: bool,
    /// Whether the switch that adds up was silent for too long at the last look, outside of a change.
    silent: bool,
    requests: Vec<Request>,
    pieces: Vec<Piece>,
    /// The last arrival.
    payload: Vec<u8>,
    counts: Counts,
}

impl Controller {
    fn new(known: Standby, settings: Settings, udp_checksum: bool) -> Self {
        Controller {
            watch: Watch::new(known.aggregators.len()),
            known,
            settings,
            udp_checksum,
            active: 0,
            session: 0,
            change: None,
            stuck: false,
            silent: false,
            requests: Vec::new(),
            pieces: Vec::new(),
            payload: Vec::new(),
            counts: Counts::default(),
        }
    }

    fn node(&self, switch: usize) -> NodeId {
        self.known.aggregators[switch]
    }

    /// Returns the time of its next action.
    fn next(&self) -> Time {
        self.requests.iter().map(|request| request.due).fold(self.watch.next_beat(), Time::min)
    }

    /// Goes on at `t` if its last action is overdue, since it was not called while no worker could proceed: nothing was asked
    /// meanwhile, so silence means nothing.
    fn resume(&mut self, t: Time) {
        if self.next() < t {
            self.watch.resume(t);
            self.requests.iter_mut().for_each(|request| request.due = request.due.max(t));
        }
    }

    /// Performs the actions that are due at `t`.
    fn tick(&mut self, t: Time, pool: &mut Pool, host: &mut Host) {
        if self.watch.next_beat() <= t {
            self.look(t, pool, host);
            let beat = self.watch.beat(t, &self.settings);
            for switch in 0..self.known.aggregators.len() {
                let to = self.node(switch);
                self.say(t, to, beat, What::Heartbeat, pool, host);
            }
        }
        for i in 0..self.requests.len() {
            if self.requests[i].due <= t {
                self.requests[i].due = t.saturating_add(self.settings.heartbeat);
                self.counts.resent += 1;
                self.send(self.requests[i], t, pool, host);
            }
        }
    }

    /// Declares switches dead that have not answered for too long.
    fn look(&mut self, t: Time, pool: &mut Pool, host: &mut Host) {
        let silent = |switch| self.watch.is_silent(switch, t, &self.settings);
        let gone = match self.change {
            None => silent(self.active),
            Some(change) => silent(change.to) || (!change.fresh && self.misses_pieces() && silent(self.active)),
        };
        if !gone {
            (self.stuck, self.silent) = (false, false);
            return;
        }
        // The switch in the middle may send packets to the silent switch already: from then on this one has the sums.
        if let Some(change) = self.change
            && self.requests.iter().any(|request| matches!(request.ask, Ask::Activate(_)))
        {
            self.complete(change, t, pool, host);
        }
        let fresh = self.watch.is_silent(self.active, t, &self.settings);
        self.silent = self.change.is_none();
        self.change(fresh, t, pool, host);
    }

    /// Whether parts of the state exist only in the switch that adds up.
    fn misses_pieces(&self) -> bool {
        let frozen = !self.requests.iter().any(|request| request.ask == Ask::Freeze);
        !frozen || self.pieces.iter().any(|piece| matches!(piece, Piece::Wanted | Piece::Fetching))
    }

    /// Begins to replace the switch that adds up.
    fn change(&mut self, fresh: bool, t: Time, pool: &mut Pool, host: &mut Host) {
        let healthy = |switch: &usize| self.watch.is_healthy(*switch, t, &self.settings);
        let mut others = (0..self.known.aggregators.len()).filter(|switch| *switch != self.active);
        let Some(to) = others.find(healthy).filter(|_| self.session < SESSION_MAX) else {
            self.counts.no_standby += 1;
            self.stuck = true;
            return;
        };
        self.stuck = false;
        if self.change.is_none() {
            self.counts.detected = t;
        }
        // The switch that was to take over may have begun, and then has the sums: it retires when it is heard again.
        if let Some(before) = self.change
            && self.requests.iter().any(|request| request.ask == Ask::Begin)
        {
            self.watch.leaves(before.to, true);
        }
        self.session += 1;
        self.change = Some(Change { to, fresh });
        self.requests.retain(|request| request.ask == Ask::Retire);
        self.pieces.clear();
        match fresh {
            true => self.ask(self.node(to), Ask::Prepare { fresh }, t, pool, host),
            false => self.ask(self.node(self.active), Ask::Freeze, t, pool, host),
        }
    }

    fn ask(&mut self, to: NodeId, ask: Ask, t: Time, pool: &mut Pool, host: &mut Host) {
        let due = t.saturating_add(self.settings.heartbeat);
        let request = Request { to, session: self.session, ask, due };
        self.requests.push(request);
        self.send(request, t, pool, host);
    }

    fn send(&self, request: Request, t: Time, pool: &mut Pool, host: &mut Host) {
        let what = match request.ask {
            Ask::Freeze => What::Freeze,
            Ask::Fetch(number) => What::Fetch(number),
            Ask::Prepare { fresh } => What::Prepare { fresh },
            Ask::Restore(number) => match self.pieces.get(number as usize) {
                Some(Piece::Here(bytes)) => What::Restore(number, bytes),
                _ => return,
            },
            Ask::Begin => What::Begin,
            Ask::Activate(node) => What::Activate(node as u16),
            Ask::Retire => What::Retire,
        };
        self.say(t, request.to, request.session, what, pool, host);
    }

    fn say(&self, t: Time, to: NodeId, session: u32, what: What, pool: &mut Pool, host: &mut Host) {
        // Devices and controllers have numbers that fit into rows.
        let control = Control { from: self.known.controller as u16, to: to as u16, session, what };
        let len = HEAD + HEADER + control.len();
        let buffer = pool.take();
        let bytes = &mut pool.bytes_mut(buffer)[..len];
        Template::new((SERVER_IP, PORT), (SERVER_IP, PORT), len).emit(bytes);
        Header { kind: format::Kind::Control, attempt: 0, job: 0, seq: 0 }.emit(&mut bytes[HEAD..]);
        control.emit(&mut bytes[HEAD + HEADER..]);
        if self.udp_checksum {
            set_udp_checksum(bytes);
        }
        let frame = Frame {
            t,
            packet: PacketId(0),
            buffer,
            worker: 0,
            len: len as u16,
            cluster: 0,
            flow: to,
            head: HEAD as u8,
            kind: Kind::Request,
        };
        host.outgoing.push(Outgoing { node: self.known.controller, frame, record: None });
    }

    /// Handles an arrival.
    fn receive(&mut self, frame: &Frame, pool: &mut Pool, host: &mut Host) {
        let mut payload = std::mem::take(&mut self.payload);
        payload.clear();
        payload.extend_from_slice(pool.payload(frame));
        pool.release(frame.buffer);
        let known = Header::parse(&payload).filter(|header| header.kind == format::Kind::Control);
        let control = known.and_then(|_| Control::parse(&payload[HEADER..]));
        match control.filter(|control| NodeId::from(control.to) == self.known.controller) {
            Some(control) => self.hear(&control, frame.t, pool, host),
            None => host.foreign += 1,
        }
        self.payload = payload;
    }

    fn hear(&mut self, control: &Control, t: Time, pool: &mut Pool, host: &mut Host) {
        let switch = self.known.aggregators.iter().position(|node| *node == NodeId::from(control.from));
        if let Some(switch) = switch {
            self.watch.heard(switch, t);
            self.silent &= switch != self.active;
        }
        match (control.what, switch) {
            (What::Status { packets, dropped, memory_ppm }, Some(switch)) => {
                let status = (packets, dropped, memory_ppm);
                let verdict = self.watch.judge(switch, t, control.session, status, &self.settings);
                self.conclude(switch, verdict, t, pool, host);
            }
            _ => self.answered(control, t, pool, host),
        }
    }

    /// Handles a switch's report on its health.
    fn conclude(&mut self, switch: usize, verdict: Verdict, t: Time, pool: &mut Pool, host: &mut Host) {
        if switch == self.active && self.change.is_none() && verdict == Verdict::Failing {
            return self.change(false, t, pool, host);
        }
        // It was considered dead but is not: its sums no longer count.
        let to = self.node(switch);
        let asked = self.requests.iter().any(|request| request.to == to && request.ask == Ask::Retire);
        if self.watch.is_gone(switch) && !asked {
            self.ask(to, Ask::Retire, t, pool, host);
        }
    }

    /// Removes the request that this message answers; returns false if there is none.
    fn settle(&mut self, from: NodeId, session: u32, which: impl Fn(Ask) -> bool) -> bool {
        let at = |request: &Request| request.to == from && request.session == session && which(request.ask);
        self.requests.iter().position(at).map(|at| self.requests.swap_remove(at)).is_some()
    }

    /// Handles the answer to a request.
    fn answered(&mut self, control: &Control, t: Time, pool: &mut Pool, host: &mut Host) {
        let Control { from, session, what, .. } = *control;
        let from = NodeId::from(from);
        if let What::Retired = what
            && self.settle(from, session, |ask| ask == Ask::Retire)
            && let Some(switch) = self.known.aggregators.iter().position(|node| *node == from)
        {
            return self.watch.retired(switch);
        }
        let Some(change) = self.change.filter(|_| session == self.session) else {
            // Perhaps of a change that was completed without this answer.
            if what == What::Activated {
                self.settle(from, session, |ask| matches!(ask, Ask::Activate(_)));
            }
            return;
        };
        let heir = self.node(change.to);
        match what {
            What::Frozen(pieces) if self.settle(from, session, |ask| ask == Ask::Freeze) => {
                self.pieces = vec![Piece::Wanted; pieces.min(1 << 22) as usize];
                self.ask(heir, Ask::Prepare { fresh: false }, t, pool, host);
            }
            What::Prepared if self.settle(from, session, |ask| matches!(ask, Ask::Prepare { .. })) => {
                self.go_on(change, t, pool, host);
            }
            What::Piece(number, piece) if self.settle(from, session, |ask| ask == Ask::Fetch(number)) => {
                if let Some(place) = self.pieces.get_mut(number as usize) {
                    self.counts.pieces += 1;
                    self.counts.moved_bytes += piece.len() as u64;
                    *place = Piece::Here(piece.to_vec());
                    self.ask(heir, Ask::Restore(number), t, pool, host);
                }
            }
            What::Restored(number) if self.settle(from, session, |ask| ask == Ask::Restore(number)) => {
                if let Some(place) = self.pieces.get_mut(number as usize) {
                    *place = Piece::Moved;
                }
                self.go_on(change, t, pool, host);
            }
            What::Begun if self.settle(from, session, |ask| ask == Ask::Begin) => {
                self.ask(self.known.switch, Ask::Activate(heir), t, pool, host);
            }
            What::Activated if self.settle(from, session, |ask| matches!(ask, Ask::Activate(_))) => {
                self.complete(change, t, pool, host);
            }
            _ => {}
        }
    }

    /// Requests further pieces, or lets the switch begin if it has all of them.
    fn go_on(&mut self, change: Change, t: Time, pool: &mut Pool, host: &mut Host) {
        let from = self.node(self.active);
        let mut number = 0;
        while self.requests.len() < WINDOW && number < self.pieces.len() {
            if self.pieces[number] == Piece::Wanted {
                self.pieces[number] = Piece::Fetching;
                self.ask(from, Ask::Fetch(number as u32), t, pool, host);
            }
            number += 1;
        }
        if self.pieces.iter().all(|piece| *piece == Piece::Moved) {
            self.ask(self.node(change.to), Ask::Begin, t, pool, host);
        }
    }

    /// Completes a change: the other switch adds up.
    fn complete(&mut self, change: Change, t: Time, pool: &mut Pool, host: &mut Host) {
        let from = self.node(self.active);
        self.watch.leaves(self.active, change.fresh);
        self.active = change.to;
        self.change = None;
        self.pieces.clear();
        match change.fresh {
            true => self.counts.takeovers += 1,
            false => self.counts.migrations += 1,
        }
        self.counts.resumed = t;
        if !change.fresh {
            // It may forget its state.
            self.ask(from, Ask::Retire, t, pool, host);
        }
    }

    /// Returns why training could not go on, if it could not.
    fn unfinished(&self) -> Option<String> {
        let why = match self.session {
            SESSION_MAX => {
                "a switch was to be replaced after 15 changes of switches, which is as many as results have numbers for; raise \
                 endpoint.heartbeat_timeout"
            }
            _ => "a switch was to be replaced and no standby switch was well; raise topology.standby",
        };
        (self.stuck && (self.silent || self.change.is_some())).then(|| why.to_owned())
    }

    fn counters(&self) -> Vec<Counter> {
        let ns = |t: Time| (t / NS) as u64;
        vec![
            Counter::sum("controller.heartbeats", self.watch.beats()),
            Counter::sum("controller.migrations", self.counts.migrations),
            Counter::sum("controller.takeovers", self.counts.takeovers),
            Counter::sum("controller.no_standby", self.counts.no_standby),
            Counter::sum("controller.pieces", self.counts.pieces),
            Counter::sum("controller.moved_bytes", self.counts.moved_bytes),
            Counter::sum("controller.requests_resent", self.counts.resent),
            Counter::largest("controller.detected_ns", ns(self.counts.detected)),
            Counter::largest("controller.resumed_ns", ns(self.counts.resumed)),
        ]
    }
}

/// The parameter server and the controller.
struct PsAndController {
    server: SparseServer,
    controller: Controller,
}

impl Server for PsAndController {
    fn next_wake(&self) -> Time {
        self.server.next_wake()
    }

    fn watches(&self) -> Time {
        self.controller.next()
    }

    fn pull(&mut self, until: Time, pool: &mut Pool, host: &mut Host) {
        // At exactly this time while there is anything to monitor. After it the server's timers are no heartbeats.
        if self.controller.next() == until {
            self.controller.tick(until, pool, host);
        }
        self.server.pull(until, pool, host);
    }

    fn on_burst(&mut self, node: NodeId, burst: &[Frame], pool: &mut Pool, host: &mut Host) {
        if let Some(first) = burst.first() {
            self.controller.resume(first.t);
        }
        if node != self.controller.known.controller {
            return self.server.on_burst(node, burst, pool, host);
        }
        for frame in burst {
            self.controller.receive(frame, pool, host);
        }
    }

    fn end(&self, worked: Option<Time>) -> ServerEnd {
        let mut end = self.server.end(worked);
        end.unfinished = end.unfinished.or_else(|| self.controller.unfinished());
        end.counters.extend(self.controller.counters());
        end
    }
}
