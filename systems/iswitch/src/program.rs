//! One accumulator per cluster: updates are added as they arrive, and the sum leaves with the contribution that reaches
//! the threshold. See `docs/iswitch.md`.

use std::collections::VecDeque;
use std::sync::Arc;

use pktgen_core::Result;
use pktgen_core::config::{KeyTables, Section, above, settings};
use pktgen_core::record::{Action, Counter, PacketId, Reason};
use pktgen_core::registry::Named;
use pktgen_core::time::{NEVER, Time};
use pktgen_core::topology::{Move, NodeId, Population};
use pktgen_core::units::Span;
use pktgen_wire::wire::frame::{
    HEAD, SERVER_IP, group_ip, has_udp_checksum, readdress, set_udp_checksum, source_ip, worker_of,
};
use pktgen_wire::wire::update::{Ack, FLAG_PARTIAL, FORMAT, Header, is_ack};

use pktgen_engine::frame::{Frame, Kind};
use pktgen_engine::groups::Regroup;
use pktgen_engine::target::context::Context;
use pktgen_engine::target::program::{Expected, Limits, Place, Program, ProgramKind};
use pktgen_engine::target::sum::Sum;

/// Number of packets of a worker that are remembered for recognising copies made by the network.
const REMEMBERED: usize = 8;

/// `program = "iswitch"`.
pub(crate) struct IswitchKind;

impl Named for IswitchKind {
    fn name(&self) -> &'static str {
        "iswitch"
    }
    fn about(&self) -> &'static str {
        "sums the contributions of a cluster, and sends the sum at a threshold"
    }
}

settings! {
    /// What it reads from `[target]`.
    struct Settings {
        /// Contributions after which a sum is sent; if not set, the number of workers of the cluster.
        threshold: Option<u32> in 1..=u32::from(u16::MAX);
        /// Timeout after which a sum below the threshold is sent; none if not set.
        timeout: Option<Span> in above(Span::from_ps(0));
    }
}

impl ProgramKind for IswitchKind {
    fn keys(&self) -> KeyTables {
        &[Settings::KEYS]
    }

    fn format(&self) -> Option<&'static str> {
        Some(FORMAT)
    }

    fn queue(&self) -> &'static str {
        "fifo"
    }

    // With a threshold of 1, nothing is merged.
    fn expected(&self, _per_cluster: u32) -> Expected {
        Expected::Unknown
    }

    fn open(&self, section: &mut Section, place: Place) -> Result<Box<dyn Program>> {
        Ok(Box::new(Iswitch::open(section, place)?))
    }
}

/// Counters of one device.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    sums: u64,
    partial: u64,
    copies: u64,
}

/// An open sum with its number among all sums of the device.
#[derive(Debug, Clone, Copy)]
struct Open {
    sum: Sum,
    number: u64,
}

/// One device.
struct Iswitch {
    place: Place,
    threshold: Option<u32>,
    timeout: Option<Time>,
    /// Number of workers by cluster.
    sizes: Vec<u32>,
    /// By cluster.
    open: Vec<Option<Open>>,
    /// Number of open sums, and of all sums so far.
    held: usize,
    opened: u64,
    /// With a timeout: deadlines of sums with their clusters and numbers, in order. The first belongs to an open sum; some others have
    /// left since.
    deadlines: VecDeque<(Time, u16, u64)>,
    /// By worker: the latest packets, and the index of the next one.
    came: Vec<([Option<PacketId>; REMEMBERED], usize)>,
    counts: Counts,
}

impl Iswitch {
    fn open(section: &mut Section, place: Place) -> Result<Self> {
        let Settings { threshold, timeout } = Settings::read(section)?;
        let clusters = place.workers.clusters_ever();
        let mut sizes = vec![0; clusters];
        count_workers(&mut sizes, &place.workers);
        Ok(Iswitch {
            threshold,
            timeout: timeout.map(Span::ps),
            sizes,
            open: vec![None; clusters],
            held: 0,
            opened: 0,
            deadlines: VecDeque::with_capacity(clusters),
            came: vec![([None; REMEMBERED], 0); place.workers.len()],
            counts: Counts::default(),
            place,
        })
    }

    fn port(&self, flow: NodeId) -> u16 {
        self.place.routes.port(flow)
    }

    /// Whether the same packet arrived before. If not, it is remembered.
    #[inline]
    fn is_copy(&mut self, worker: u32, packet: PacketId) -> bool {
        let (packets, next) = &mut self.came[worker as usize];
        if packets.contains(&Some(packet)) {
            return true;
        }
        packets[*next] = Some(packet);
        *next = (*next + 1) % REMEMBERED;
        false
    }

    /// Opens the sum of an update's cluster, or adds the update to it.
    #[inline]
    fn up(&mut self, frame: &Frame, context: &mut Context) {
        let Some(worker) = worker_of(source_ip(context.pool.frame(frame)), self.place.workers.len()) else {
            return context.emit(self.port(frame.flow), *frame);
        };
        let Some(header) = Sum::header_of(frame, context.pool) else {
            return context.drop(*frame, Reason::Malformed);
        };
        let size = self.sizes.get(usize::from(header.cluster)).copied().unwrap_or(0);
        if size == 0 {
            return context.drop(*frame, Reason::UnknownJob);
        }
        if self.is_copy(worker, frame.packet) {
            // The packet was recorded when it arrived first.
            self.counts.copies += 1;
            return context.pool.release(frame.buffer);
        }
        match &mut self.open[usize::from(header.cluster)] {
            Some(open) => _ = open.sum.take(frame, header, context),
            none => {
                (self.held, self.opened) = (self.held + 1, self.opened + 1);
                *none = Some(Open { sum: Sum { frame: *frame, header }, number: self.opened });
                if let Some(timeout) = self.timeout {
                    // Those of sums that have left may be behind that of an open one.
                    if self.deadlines.len() >= 2 * self.open.len() {
                        let open = &self.open;
                        self.deadlines.retain(|(_, cluster, number)| {
                            open[usize::from(*cluster)].is_some_and(|open| open.number == *number)
                        });
                    }
                    self.deadlines.push_back((frame.t.saturating_add(timeout), header.cluster, self.opened));
                }
                context.books.passes(frame.t, frame, Action::Arrived);
            }
        }
        let count = self.open[usize::from(header.cluster)].map_or(0, |open| u32::from(open.sum.header.count));
        if count >= self.threshold.unwrap_or(size) {
            self.emit(frame.t, header.cluster, 0, context);
        }
    }

    /// Sends the sum of a cluster, if one is open.
    fn emit(&mut self, t: Time, cluster: u16, flags: u8, context: &mut Context) {
        let Some(Open { sum, .. }) = self.open[usize::from(cluster)].take() else { return };
        self.held -= 1;
        self.forget_deadlines();
        let header = Header { flags: sum.header.flags | flags, ..sum.header };
        self.counts.sums += 1;
        self.counts.partial += u64::from(flags & FLAG_PARTIAL != 0);
        // Others may share the bytes of a sum with one contribution.
        let frame = Frame { t, ..context.unshare(&sum.frame) };
        header.emit_update(context.pool.payload_mut(&frame));
        let bytes = &mut context.pool.bytes_mut(frame.buffer)[..usize::from(frame.len)];
        if has_udp_checksum(bytes) {
            set_udp_checksum(bytes);
        }
        context.emit(self.port(frame.flow), frame);
    }

    /// Sends sums whose deadline is reached at `t`.
    #[inline]
    fn give_up(&mut self, t: Time, context: &mut Context) {
        while let Some((deadline, cluster, _)) = self.deadlines.pop_front_if(|(deadline, ..)| *deadline <= t) {
            self.emit(deadline, cluster, FLAG_PARTIAL, context);
        }
    }

    /// Removes deadlines of sums that have left, so that the first one belongs to an open sum.
    #[inline]
    fn forget_deadlines(&mut self) {
        let open = &self.open;
        let gone = |entry: &mut (Time, u16, u64)| {
            let (_, cluster, number) = *entry;
            open[usize::from(cluster)].is_none_or(|open| open.number != number)
        };
        while self.deadlines.pop_front_if(gone).is_some() {}
    }

    /// Sends an answer of the server to a sum to all workers of the cluster, once through each port.
    fn down(&self, frame: &Frame, context: &mut Context) {
        let from_server = source_ip(context.pool.frame(frame)) == SERVER_IP;
        let payload = context.pool.payload(frame);
        let ack = (from_server && usize::from(frame.head) == HEAD && is_ack(payload)).then(|| Ack::parse(payload));
        let Some(ack) = ack.flatten() else { return context.emit(self.port(frame.flow), *frame) };
        let ports = self.place.group_ports.get(ack.header.cluster);
        let Some((last, others)) = ports.and_then(|ports| ports.split_last()) else {
            return context.drop(*frame, Reason::NoRoute);
        };
        let frame = context.unshare(frame);
        let bytes = &mut context.pool.bytes_mut(frame.buffer)[..usize::from(frame.len)];
        readdress(bytes, group_ip(ack.header.cluster));
        for &port in others {
            let copy = context.share(&frame);
            context.emit(port, copy);
        }
        context.emit(*last, frame);
    }
}

/// Counts the workers of each cluster.
fn count_workers(sizes: &mut [u32], workers: &Population) {
    sizes.fill(0);
    for cluster in &workers.cluster_of {
        if let Some(size) = sizes.get_mut(usize::from(*cluster)) {
            *size += 1;
        }
    }
}

impl Program for Iswitch {
    fn on_burst(&mut self, burst: &[Frame], context: &mut Context) {
        for frame in burst {
            self.give_up(frame.t, context);
            match frame.kind {
                Kind::Update => self.up(frame, context),
                Kind::Control => self.down(frame, context),
                Kind::Plain | Kind::Result | Kind::Request => context.emit(self.port(frame.flow), *frame),
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
        self.held
    }

    fn counters(&self) -> Vec<Counter> {
        let counts = &self.counts;
        vec![
            Counter::sum("sums", counts.sums),
            Counter::sum("sums_partial", counts.partial),
            Counter::sum("copies", counts.copies),
            Counter::sum("open_at_end", self.held as u64),
        ]
    }

    fn regroup(&mut self, regroup: &Regroup, node: usize) {
        let Move { worker, cluster, .. } = regroup.change;
        Arc::make_mut(&mut self.place.workers).cluster_of[worker as usize] = cluster;
        count_workers(&mut self.sizes, &self.place.workers);
        let table = Arc::make_mut(&mut self.place.group_ports);
        for (cluster, ports) in [regroup.from, cluster].into_iter().zip(&regroup.ports[node]) {
            table.set(cluster, ports);
        }
    }
}

#[cfg(test)]
mod tests;
