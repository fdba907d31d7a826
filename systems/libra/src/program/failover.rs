//! How a switch answers the controller that monitors it, and how it begins and stops adding up (LIBRA §3.6, "Failover
//! mechanism"; `docs/libra.md`).
//!
//! Requests contain the number of the change of switches that they belong to. Requests older than the last one executed
//! change nothing, so messages may arrive repeatedly and late.

use crate::format::control::{Control, What};
use crate::format::{HEADER, Header, Kind as Wire, PORT};
use pktgen_core::record::{Action, Reason};
use pktgen_core::time::NEVER;
use pktgen_core::topology::NodeId;
use pktgen_wire::wire::frame::{HEAD, SERVER_IP, Template, set_udp_checksum};

use super::line::To;
use super::{Libra, Role};
use pktgen_engine::frame::{Frame, Kind};
use pktgen_engine::target::books::Books;
use pktgen_engine::target::context::Context;

/// The duty of a switch that can add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Duty {
    /// It waits until it is needed.
    Standby,
    /// It receives the state of another one.
    Restoring,
    /// It adds up.
    Active,
    /// It keeps its state for the controller.
    Frozen,
    /// Another one adds up; its state was moved there or is lost.
    Retired,
    /// It is dead.
    Dead,
}

/// A switch's state in failovers.
#[derive(Debug)]
pub(super) struct Failover {
    pub(super) duty: Duty,
    /// The last change of switches that it participated in; 0 for none.
    session: u32,
    /// Its state at the time of the freeze.
    pieces: Vec<Vec<u8>>,
    /// Number of packets that arrived, and how many of them it lost.
    arrived: u64,
    pub(super) lost: u64,
    /// Number of packets for a switch that adds up, while this one does not.
    pub(super) inactive: u64,
    /// Number of sums lost with it: neither known to be complete at a worker, nor moved to another switch.
    pub(super) sums_lost: u64,
}

impl Failover {
    pub(super) fn new(active: bool) -> Self {
        let duty = if active { Duty::Active } else { Duty::Standby };
        Failover { duty, session: 0, pieces: Vec::new(), arrived: 0, lost: 0, inactive: 0, sums_lost: 0 }
    }
}

impl Libra {
    /// Handles a frame that arrives at a switch that can add up; returns whether a failure drops it.
    #[inline]
    pub(super) fn fails(&mut self, frame: &Frame, context: &mut Context) -> bool {
        if self.role != Role::Sums {
            return false;
        }
        self.failover.arrived += 1;
        if self.settings.failing.begins() > self.now {
            return false;
        }
        if self.failover.duty == Duty::Dead {
            context.drop(*frame, Reason::Inactive);
            return true;
        }
        let lost = self.settings.failing.loses(self.now, self.failover.arrived);
        if lost {
            self.failover.lost += 1;
            context.drop(*frame, Reason::Fault);
        }
        lost
    }

    /// Declares the switch dead, with all its state.
    pub(super) fn die(&mut self, context: &mut Context) {
        // Moved state survives once the controller has confirmed it; before, it may have been requested but not have arrived.
        if matches!(self.failover.duty, Duty::Active | Duty::Frozen) {
            self.lose(context.books);
        }
        while let Some((frame, _)) = self.line.pop(NEVER - 1) {
            context.drop(Frame { t: self.now, ..frame }, Reason::Inactive);
        }
        self.forget();
        self.failover.duty = Duty::Dead;
    }

    /// Ends the open sums, and those that no worker is known to have. Results in flight may still suffice for a worker:
    /// then the sum is delivered, whatever the ledger states here.
    fn lose(&mut self, books: &mut Books) {
        for job in &mut self.jobs {
            let kept = job.results.sums(job.workers).into_iter().filter(|(_, known)| !known).map(|(opener, _)| opener);
            for opener in kept.chain(job.opener.take()) {
                self.failover.sums_lost += 1;
                books.lost(self.now, opener, Reason::DeviceLost);
            }
        }
    }

    /// Records that the sums of another switch are here now.
    fn take_over(&mut self, books: &mut Books) {
        for job in &self.jobs {
            let kept = job.results.sums(job.workers).into_iter().map(|(opener, _)| opener);
            kept.chain(job.opener).for_each(|opener| books.yields(self.now, opener, Action::Arrived, opener));
        }
    }

    /// Whether it is a message of the controller for this device.
    #[inline]
    pub(super) fn is_control(&self, frame: &Frame, context: &Context) -> bool {
        frame.flow == self.place.node
            && frame.kind == Kind::Request
            && usize::from(frame.head) == HEAD
            && Header::parse(context.pool.payload(frame)).is_some_and(|header| header.kind == Wire::Control)
    }

    /// Executes the controller's request and answers it.
    pub(super) fn control(&mut self, frame: &Frame, context: &mut Context) {
        let payload = context.pool.payload(frame);
        let Some(control) =
            payload.get(HEADER..).and_then(Control::parse).filter(|c| NodeId::from(c.to) == self.place.node)
        else {
            return context.drop(*frame, Reason::Malformed);
        };
        let (back, session) = (control.from, control.session);
        let answer =
            if self.role == Role::Steers { self.steered(&control) } else { self.asked(&control, context.books) };
        let Some(answer) = answer else { return context.drop(*frame, Reason::Inactive) };
        let pieces = std::mem::take(&mut self.failover.pieces);
        let what = match answer {
            What::Piece(number, _) => What::Piece(number, pieces.get(number as usize).map_or(&[], Vec::as_slice)),
            other => other,
        };
        let answer = Control { from: self.place.node as u16, to: back, session, what };
        self.answer(frame, &answer, context);
        self.failover.pieces = pieces;
    }

    /// Handles the controller's message to the switch in the middle.
    fn steered(&mut self, control: &Control) -> Option<What<'static>> {
        let What::Activate(node) = control.what else { return None };
        if control.session > self.failover.session {
            self.failover.session = control.session;
            self.activate(node.into());
        }
        (control.session == self.failover.session).then_some(What::Activated)
    }

    /// Handles a request to a switch that can add up. The bytes of a piece are filled in later.
    fn asked(&mut self, control: &Control, books: &mut Books) -> Option<What<'static>> {
        let (newer, same) = (control.session > self.failover.session, control.session == self.failover.session);
        let duty = self.failover.duty;
        match control.what {
            What::Heartbeat => Some(self.status()),
            What::Freeze if newer && matches!(duty, Duty::Active | Duty::Frozen) => {
                (self.failover.session, self.failover.duty) = (control.session, Duty::Frozen);
                if duty == Duty::Active {
                    self.failover.pieces = self.state();
                }
                Some(What::Frozen(self.failover.pieces.len() as u32))
            }
            What::Freeze if same && duty == Duty::Frozen => Some(What::Frozen(self.failover.pieces.len() as u32)),
            What::Fetch(number) if same && duty == Duty::Frozen => {
                self.failover.pieces.get(number as usize)?;
                Some(What::Piece(number, &[]))
            }
            What::Prepare { fresh } if newer && matches!(duty, Duty::Standby | Duty::Restoring | Duty::Active) => {
                // It began, but its answer was lost and another switch was chosen in the meantime.
                if duty == Duty::Active {
                    self.lose(books);
                }
                (self.failover.session, self.failover.duty) = (control.session, Duty::Restoring);
                self.forget();
                if fresh {
                    self.begin_fresh(control.session);
                }
                Some(What::Prepared)
            }
            What::Prepare { .. } if same => Some(What::Prepared),
            What::Restore(number, piece) if same => {
                (duty != Duty::Restoring || self.restore(piece)).then_some(What::Restored(number))
            }
            What::Begin if same && matches!(duty, Duty::Restoring | Duty::Active) => {
                if duty == Duty::Restoring {
                    self.take_over(books);
                }
                self.failover.duty = Duty::Active;
                Some(What::Begun)
            }
            // Everything that was requested has arrived.
            What::Retire if same && duty == Duty::Frozen => {
                self.failover.duty = Duty::Retired;
                Some(What::Retired)
            }
            What::Retire if newer && matches!(duty, Duty::Restoring | Duty::Active | Duty::Frozen) => {
                (self.failover.session, self.failover.duty) = (control.session, Duty::Retired);
                // What it was still being given is elsewhere.
                if duty != Duty::Restoring {
                    self.lose(books);
                }
                Some(What::Retired)
            }
            What::Retire if same && duty == Duty::Retired => Some(What::Retired),
            _ => None,
        }
    }

    /// Begins without knowledge of what workers have sent: their numbers begin anywhere, and results of this switch
    /// must be distinguishable from those of another one.
    fn begin_fresh(&mut self, session: u32) {
        self.members.iter_mut().for_each(|member| member.record.open(self.known.window));
        let first = super::results::fresh_number(session);
        for job in &mut self.jobs {
            job.results.span(first, first);
        }
    }

    fn status(&self) -> What<'static> {
        let usual = self.settings.resources.share_ppm().min(u64::from(u32::MAX)) as u32;
        What::Status {
            packets: self.failover.arrived,
            dropped: self.failover.lost,
            memory_ppm: self.settings.failing.memory_ppm(self.now, usual),
        }
    }

    /// Replaces the contents of the frame by the answer.
    fn answer(&mut self, frame: &Frame, control: &Control, context: &mut Context) {
        let frame = context.unshare(frame);
        let len = HEAD + HEADER + control.len();
        let Some(bytes) = context.pool.bytes_mut(frame.buffer).get_mut(..len) else {
            self.counts.no_room += 1;
            return context.drop(frame, Reason::Malformed);
        };
        Template::new((SERVER_IP, PORT), (SERVER_IP, PORT), len).emit(bytes);
        Header { kind: Wire::Control, attempt: 0, job: 0, seq: 0 }.emit(&mut bytes[HEAD..]);
        control.emit(&mut bytes[HEAD + HEADER..]);
        if self.place.udp_checksum {
            set_udp_checksum(bytes);
        }
        let to = To::Port(self.route(control.to.into()));
        self.send(Frame { len: len as u16, flow: control.to.into(), ..frame }, to);
    }
}
