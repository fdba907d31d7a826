//! Workers that send every update when it is generated, and again until it is acknowledged.
//!
//! OLAF §8.2 lets FIFO's workers retransmit lost updates and specifies neither when nor which. Our choice: a worker
//! retransmits only its newest update, since that subsumes earlier ones (§2.2); without an ACK
//! within a timeout after it left, it is sent again, up to 255 times.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use pktgen_core::config::{KeyTables, Section, settings};
use pktgen_core::record::{NO_CLUSTER, PacketId};
use pktgen_core::registry::Named;
use pktgen_core::time::{HORIZON, NEVER, Time};
use pktgen_core::topology::NodeId;
use pktgen_core::units::Span;
use pktgen_core::{Error, Result};
use pktgen_wire::wire::frame::{HEAD, has_udp_checksum, set_udp_checksum};
use pktgen_wire::wire::update::{Ack, Header};
use pktgen_workload::workload::{Source, Update};

use super::sender::{Audience, Sender, UPDATES, row};
use super::{Behaviour, Crew, Facts, Host, Outgoing, Protocol, WorkerKind, Workers, WorkersEnd};
use crate::frame::{BURST, Frame, Pool};

/// `workers = "retransmit"`.
pub(crate) struct RetransmitKind;

impl Named for RetransmitKind {
    fn name(&self) -> &'static str {
        "retransmit"
    }
    fn about(&self) -> &'static str {
        "like open_loop; retransmits the newest update after a timeout without its ACK"
    }
}

settings! {
    /// Keys of `[endpoint]`; one of them is given.
    keys Timeouts {
        /// Retransmission timeout of the newest update, in unloaded round trips.
        timeout_rtts: f64 = 2.0;
        /// Retransmission timeout as a time, instead of `timeout_rtts`.
        timeout: Option<Span>;
    }
}

impl WorkerKind for RetransmitKind {
    fn keys(&self) -> KeyTables {
        &[Timeouts::KEYS]
    }

    fn protocol(&self) -> &'static Protocol {
        &UPDATES
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour::ASYNCHRONOUS
    }

    fn open(&self, section: &mut Section, facts: &Facts, source: Box<dyn Source>) -> Result<Crew> {
        let fixed = Timeouts::timeout(section)?;
        let rtts: Option<f64> = section.get_opt("timeout_rtts")?;
        if fixed.is_some() && rtts.is_some() {
            return Err(Error::config(format!(
                "{}: timeout and timeout_rtts are both given; give one",
                section.place("timeout")
            )));
        }
        let rtts = if fixed.is_some() { 0.0 } else { Timeouts::timeout_rtts(section)? };
        let timeout = fixed.map_or((rtts * facts.round_trip as f64) as Time, Span::ps);
        if !(1..=HORIZON).contains(&timeout) {
            let key = if fixed.is_some() { "timeout" } else { "timeout_rtts" };
            return Err(Error::config(format!(
                "{}: a timeout of {timeout} ps; it must be above 0 and at most 26 days, and the unloaded round trip is {} ps",
                section.place(key),
                facts.round_trip
            )));
        }
        let count = facts.workers.len();
        let workers = Retransmit {
            sender: Sender::new(facts, source),
            audience: Audience::new(facts),
            timeout,
            newest: (0..count).map(|_| None).collect(),
            memory: vec![Vec::new(); count],
            timers: BinaryHeap::new(),
        };
        Ok(Crew::of_updates(workers, true))
    }
}

/// A worker's newest update while it is not acknowledged.
struct Newest {
    update: Update,
    attempt: u8,
    frame: Frame,
}

/// The timeout of an attempt of a worker's update.
type Timer = Reverse<(Time, PacketId)>;

struct Retransmit {
    sender: Sender,
    audience: Audience,
    timeout: Time,
    newest: Vec<Option<Newest>>,
    /// The frame of each worker's newest update.
    memory: Vec<Vec<u8>>,
    timers: BinaryHeap<Timer>,
}

impl Retransmit {
    fn next_timer(&self) -> Time {
        self.timers.peek().map_or(NEVER, |timer| timer.0.0)
    }

    /// Removes leading timers whose update is acknowledged or no longer its worker's newest: they would wake the
    /// workers in vain, and keep a finished run alive.
    fn drop_settled_timers(&mut self) {
        let newest = &self.newest;
        let waits =
            |packet: PacketId| newest[packet.worker() as usize].as_ref().is_some_and(|n| n.frame.packet == packet);
        while self.timers.peek().is_some_and(|timer| !waits(timer.0.1)) {
            self.timers.pop();
        }
    }

    fn first_attempt(&mut self, update: &Update, pool: &mut Pool, host: &mut Host) {
        let frame = self.sender.send(update, pool, host);
        if update.cluster == NO_CLUSTER {
            return;
        }
        let worker = update.worker as usize;
        self.memory[worker].clear();
        self.memory[worker].extend_from_slice(pool.frame(&frame));
        self.newest[worker] = Some(Newest { update: *update, attempt: 0, frame });
    }

    /// Handles the timeout of `packet` at `t`: if it is the last attempt of its worker's newest update, and attempts
    /// remain, sends the next one.
    fn next_attempt(&mut self, t: Time, packet: PacketId, pool: &mut Pool, host: &mut Host) {
        let worker = packet.worker() as usize;
        let Some(newest) = self.newest[worker].as_mut().filter(|n| n.frame.packet == packet) else { return };
        let Some(attempt) = newest.attempt.checked_add(1) else { return };
        newest.attempt = attempt;
        newest.frame = Frame {
            t,
            packet: PacketId::new(newest.update.worker, newest.update.seq, attempt),
            buffer: pool.take(),
            ..newest.frame
        };
        let bytes = &mut pool.bytes_mut(newest.frame.buffer)[..self.memory[worker].len()];
        bytes.copy_from_slice(&self.memory[worker]);
        if let Some(header) = Header::parse_update(&bytes[HEAD..]) {
            Header { attempt, ..header }.emit_update(&mut bytes[HEAD..]);
        }
        if has_udp_checksum(bytes) {
            set_udp_checksum(bytes);
        }
        let record = Some(row(&newest.update, attempt, t));
        host.outgoing.push(Outgoing { node: self.sender.host_of[worker], frame: newest.frame, record });
    }
}

/// Returns whether `ack` acknowledges `update`: only if it names it or a later one of the same worker. An ACK to a
/// cluster names the newest member of an aggregate, and does not tell whether others were members or were lost.
fn covers(ack: &Ack, update: &Update) -> bool {
    ack.header.worker == update.worker && ack.header.seq >= update.seq
}

impl Workers for Retransmit {
    fn next_wake(&self) -> Time {
        self.sender.next_wake().min(self.next_timer())
    }

    fn pull(&mut self, until: Time, pool: &mut Pool, host: &mut Host) {
        for _ in 0..BURST {
            let timer = self.next_timer();
            // A new update precedes the timer of the one that it subsumes.
            if let Some(update) = self.sender.due(until.min(timer)) {
                self.first_attempt(&update, pool, host);
            } else if timer <= until
                && let Some(Reverse((t, packet))) = self.timers.pop()
            {
                self.next_attempt(t, packet, pool, host);
            } else {
                break;
            }
        }
        self.drop_settled_timers();
    }

    fn left(&mut self, packet: PacketId, t: Time) {
        let newest = self.newest[packet.worker() as usize].as_ref();
        if newest.is_some_and(|n| n.frame.packet == packet) {
            self.timers.push(Reverse((t + self.timeout, packet)));
        }
    }

    fn on_burst(&mut self, node: NodeId, burst: &[Frame], pool: &mut Pool, host: &mut Host) {
        for frame in burst {
            let newest = &mut self.newest;
            let known = self.audience.hear(node, frame, pool, |worker, ack| {
                let own = &mut newest[worker as usize];
                if own.as_ref().is_some_and(|n| covers(ack, &n.update)) {
                    *own = None;
                }
            });
            host.acks_received += u64::from(known);
            host.foreign += u64::from(!known);
            pool.release(frame.buffer);
        }
        self.drop_settled_timers();
    }

    fn end(&self) -> WorkersEnd {
        self.sender.end()
    }
}
