//! Reduce along a plan: every message is added up where the plan specifies, and sent once (SOAR §2, Algorithm 1; ATRO §III-A).
//!
//! An aggregator (a "blue" switch) keeps a sum per message and emits it when all flows that end there have delivered
//! their part; one without input sends nothing. Every other switch forwards each flow along its path. Answers take the
//! reversed paths: aggregators copy them to each of their inputs. See `docs/reduce.md`.

use std::collections::VecDeque;
use std::sync::Arc;

use pktgen_core::Result;
use pktgen_core::config::{KeyTables, Section, above, settings};
use pktgen_core::record::{Action, Counter, Reason};
use pktgen_core::registry::Named;
use pktgen_core::time::{NEVER, Time};
use pktgen_core::units::Span;
use pktgen_wire::wire::frame::{
    SERVER_IP, Template, device_ip, device_of, readdress, set_udp_checksum, source_ip, target_ip, worker_of,
};
use pktgen_wire::wire::update::{FLAG_PARTIAL, FORMAT, Header, PORT, WORKER_PORT};

use pktgen_engine::frame::{Frame, Kind};
use pktgen_engine::reduction::DeviceNames;
use pktgen_engine::target::context::Context;
use pktgen_engine::target::flows::NodeFlows;
use pktgen_engine::target::gather::{Gather, GatherStep};
use pktgen_engine::target::program::{Expected, Limits, Place, Program, ProgramKind};
use pktgen_engine::target::sum::Sum;

/// `program = "reduce"`.
pub(crate) struct ReduceKind;

impl Named for ReduceKind {
    fn name(&self) -> &'static str {
        "reduce"
    }
    fn about(&self) -> &'static str {
        "sums each message at the devices of a plan, when all its inputs have arrived"
    }
}

settings! {
    /// What it reads from `[target]`.
    struct Settings {
        /// Maximum number of open messages per cluster at an aggregator.
        open_messages: u32 = 1024 in 1..=1 << 20;
        /// Timeout after which an incomplete sum is sent, at each further level twice as long; none if not set.
        timeout: Option<Span> in above(Span::from_ps(0));
        /// Devices that aggregate, if there is no plan.
        aggregators: Option<DeviceNames>;
    }
}

impl ProgramKind for ReduceKind {
    fn keys(&self) -> KeyTables {
        &[Settings::KEYS]
    }

    fn format(&self) -> Option<&'static str> {
        Some(FORMAT)
    }

    fn queue(&self) -> &'static str {
        "fifo"
    }

    fn needs_flows(&self) -> bool {
        true
    }

    fn expected(&self, _per_cluster: u32) -> Expected {
        Expected::Unknown
    }

    fn open(&self, section: &mut Section, place: Place) -> Result<Box<dyn Program>> {
        Ok(Box::new(Reduce::open(section, place)?))
    }
}

/// Number of deadlines up to which those of closed messages are kept.
const DEADLINES_KEPT: usize = 128;

/// Returns the timeout of a device at which updates wait for the `levels`-th time. It is longer than those of all levels below together, so
/// that their incomplete sums are in time.
fn timeout_of(timeout: Time, levels: u32) -> Time {
    timeout.saturating_mul(1 << levels.saturating_sub(1).min(62))
}

/// The deadline of a message, its cluster and its number.
type Deadline = (Time, u16, u32);

/// Counters of one device.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    sums: u64,
    partial: u64,
    duplicates: u64,
    late: u64,
    full: u64,
}

/// One device.
struct Reduce {
    place: Place,
    flows: Arc<NodeFlows>,
    /// Messages by cluster, created when the first message of a cluster arrives.
    gathers: Vec<Option<Gather<Sum>>>,
    room: u32,
    timeout: Option<Time>,
    /// Deadlines of messages, in order; some messages have left since.
    deadlines: VecDeque<Deadline>,
    /// Headers of emitted packets.
    head: Template,
    open: usize,
    counts: Counts,
}

impl Reduce {
    fn open(section: &mut Section, place: Place) -> Result<Self> {
        // The aggregators were read with the network.
        let Settings { open_messages, timeout, .. } = Settings::read(section)?;
        let head = Template::new((device_ip(place.node), WORKER_PORT), (SERVER_IP, PORT), 64);
        let flows = place.flows.clone().unwrap_or_default();
        Ok(Reduce {
            gathers: vec![None; place.workers.clusters_ever()],
            room: open_messages,
            timeout: timeout.map(|timeout| timeout_of(timeout.ps(), flows.levels())),
            flows,
            deadlines: VecDeque::new(),
            head,
            open: 0,
            counts: Counts::default(),
            place,
        })
    }

    /// Forwards an update or adds it to its sum.
    #[inline]
    fn up(&mut self, frame: &Frame, context: &mut Context) {
        let source = source_ip(context.pool.frame(frame));
        let Some(input) = self.flows.taken(source) else {
            return context.emit(self.flows.up(source), *frame);
        };
        let Some(header) = Sum::header_of(frame, context.pool) else {
            return context.drop(*frame, Reason::Malformed);
        };
        let expected = self.flows.members(header.cluster).len();
        // A worker may only contribute to its own cluster.
        let own = worker_of(source, self.place.workers.len()).map(|w| self.place.workers.cluster_of[w as usize]);
        if expected == 0 || own.is_some_and(|own| own != header.cluster) {
            return context.drop(*frame, Reason::UnknownJob);
        }
        let inputs = self.flows.inputs().len();
        let gather = self.gathers[usize::from(header.cluster)]
            .get_or_insert_with(|| Gather::new(self.room, inputs, expected as u32));
        match gather.take(header.seq, input, header.attempt) {
            GatherStep::Opens => {
                gather.keep(header.seq, Sum { frame: *frame, header });
                self.open += 1;
                context.books.passes(frame.t, frame, Action::Arrived);
                if let Some(timeout) = self.timeout.filter(|_| expected > 1) {
                    self.note_deadline((frame.t.saturating_add(timeout), header.cluster, header.seq));
                }
            }
            GatherStep::Joins => {
                if let Some(sum) = gather.kept(header.seq)
                    && !sum.take(frame, header, context)
                {
                    gather.refuse(header.seq, input, header.attempt);
                }
            }
            GatherStep::Useless(reason) => {
                self.refused(reason);
                context.drop(*frame, reason);
            }
            GatherStep::Copy => {
                // The packet was recorded when it arrived first.
                self.counts.duplicates += 1;
                context.pool.release(frame.buffer);
            }
        }
        if self.gathers[usize::from(header.cluster)].as_ref().is_some_and(|gather| gather.is_whole(header.seq)) {
            self.emit(frame.t, header.cluster, header.seq, 0, context);
            self.forget_deadlines();
        }
    }

    fn refused(&mut self, reason: Reason) {
        match reason {
            Reason::Duplicate => self.counts.duplicates += 1,
            Reason::TableFull => self.counts.full += 1,
            _ => self.counts.late += 1,
        }
    }

    /// Sends the sum of a message, if it is open.
    fn emit(&mut self, t: Time, cluster: u16, seq: u32, flags: u8, context: &mut Context) {
        let gather = self.gathers[usize::from(cluster)].as_mut();
        let Some(Sum { frame, header }) = gather.and_then(|gather| gather.close(seq)) else { return };
        self.open -= 1;
        self.counts.sums += 1;
        let header = Header { flags: header.flags | flags, ..header };
        self.counts.partial += u64::from(header.flags & FLAG_PARTIAL != 0);
        let frame = Frame { t, flow: self.place.server, ..frame };
        let bytes = &mut context.pool.bytes_mut(frame.buffer)[..usize::from(frame.len)];
        self.head.emit_to_fit(bytes);
        header.emit_update(&mut bytes[usize::from(frame.head)..]);
        if self.place.udp_checksum {
            set_udp_checksum(bytes);
        }
        context.emit(self.flows.output(), frame);
    }

    /// Sends sums that are incomplete at their deadline, up to `t`.
    #[inline]
    fn give_up(&mut self, t: Time, context: &mut Context) {
        while let Some((deadline, cluster, seq)) = self.deadlines.pop_front_if(|(deadline, ..)| *deadline <= t) {
            self.emit(deadline, cluster, seq, FLAG_PARTIAL, context);
        }
        self.forget_deadlines();
    }

    /// Adds the deadline of a message. Deadlines of closed messages may be behind that of an open one, so they are removed when they are
    /// the majority.
    fn note_deadline(&mut self, deadline: Deadline) {
        if self.deadlines.len() >= DEADLINES_KEPT.max(2 * self.open) {
            let gathers = &mut self.gathers;
            self.deadlines.retain(|deadline| is_open(gathers, *deadline));
        }
        self.deadlines.push_back(deadline);
    }

    /// Removes deadlines of closed messages, so that the first one belongs to an open message.
    #[inline]
    fn forget_deadlines(&mut self) {
        let gathers = &mut self.gathers;
        while self.deadlines.pop_front_if(|deadline| !is_open(gathers, *deadline)).is_some() {}
    }

    /// Forwards an answer, or copies it to each input.
    fn down(&mut self, frame: &Frame, context: &mut Context) {
        let target = target_ip(context.pool.frame(frame));
        if device_of(target) != Some(self.place.node) {
            return context.emit(self.flows.down(target), *frame);
        }
        let cluster = Sum::header_of(frame, context.pool).map(|header| header.cluster);
        let members = cluster.map_or(&[][..], |cluster| self.flows.members(cluster));
        let Some((last, others)) = members.split_last() else {
            return context.drop(*frame, Reason::NoRoute);
        };
        let inputs = self.flows.inputs();
        for input in others {
            let input = inputs[*input as usize];
            let shared = context.share(frame);
            let copy = context.unshare(&shared);
            let len = usize::from(copy.len);
            readdress(&mut context.pool.bytes_mut(copy.buffer)[..len], input.source);
            context.emit(input.port, copy);
        }
        let (input, own) = (inputs[*last as usize], context.unshare(frame));
        let len = usize::from(own.len);
        readdress(&mut context.pool.bytes_mut(own.buffer)[..len], input.source);
        context.emit(input.port, own);
    }
}

/// Returns whether the message with this deadline is open.
#[inline]
fn is_open(gathers: &mut [Option<Gather<Sum>>], (_, cluster, seq): Deadline) -> bool {
    gathers[usize::from(cluster)].as_mut().is_some_and(|gather| gather.kept(seq).is_some())
}

impl Program for Reduce {
    fn on_burst(&mut self, burst: &[Frame], context: &mut Context) {
        for frame in burst {
            self.give_up(frame.t, context);
            match frame.kind {
                Kind::Update => self.up(frame, context),
                Kind::Result => self.down(frame, context),
                Kind::Plain | Kind::Control | Kind::Request => {
                    let port = self.place.routes.port(frame.flow);
                    context.emit(port, *frame);
                }
            }
        }
    }

    fn next_wake(&self) -> Time {
        self.deadlines.front().map_or(NEVER, |(deadline, ..)| *deadline)
    }

    fn on_timer(&mut self, t: Time, context: &mut Context) {
        self.give_up(t, context);
    }

    fn limits(&self) -> Limits {
        Limits { timeout: self.timeout, ..Limits::default() }
    }

    fn held(&self) -> usize {
        self.open
    }

    fn counters(&self) -> Vec<Counter> {
        let counts = &self.counts;
        vec![
            Counter::sum("sums", counts.sums),
            Counter::sum("sums_partial", counts.partial),
            Counter::sum("duplicates", counts.duplicates),
            Counter::sum("late", counts.late),
            Counter::sum("no_room", counts.full),
            Counter::sum("open_at_end", self.open as u64),
        ]
    }
}

#[cfg(test)]
mod tests;
