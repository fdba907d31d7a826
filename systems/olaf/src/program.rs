//! OLAF's accelerator around its queue (§7, "Olaf Packet Processing Pipeline").
//!
//! Uplink: an update from a known worker gets the cluster of that worker and goes to the queue; all other frames bypass
//! the model-related processing on the same link. Downlink: an ACK of the server is stamped with the state of the
//! uplink's queue and multicast to the workers of its cluster. The paper identifies the worker by a hash of the
//! five-tuple; here the address is used, which is equivalent but without collisions.

use std::sync::Arc;

use pktgen_core::Result;
use pktgen_core::config::Section;
use pktgen_core::record::NO_CLUSTER;
use pktgen_core::registry::Named;
use pktgen_core::topology::{Move, NO_PORT, NodeId};
use pktgen_wire::wire::frame::{SERVER_IP, group_ip, readdress, source_ip, worker_of};
use pktgen_wire::wire::update::{Ack, FLAG_STAMPED, Header, Status, is_ack, stamp};

use crate::queue::relabel;
use pktgen_engine::frame::{Frame, Kind};
use pktgen_engine::groups::Regroup;
use pktgen_engine::target::context::Context;
use pktgen_engine::target::program::{Expected, Place, Program, ProgramKind};

/// `program = "olaf"`.
pub(crate) struct OlafKind;

impl Named for OlafKind {
    fn name(&self) -> &'static str {
        "olaf"
    }
    fn about(&self) -> &'static str {
        "identifies workers, queues their updates, stamps and multicasts ACKs"
    }
}

impl ProgramKind for OlafKind {
    fn identifies(&self) -> bool {
        true
    }

    fn expected(&self, _per_cluster: u32) -> Expected {
        Expected::MergesUnderLoad
    }

    fn queue(&self) -> &'static str {
        "olaf"
    }

    fn open(&self, _section: &mut Section, place: Place) -> Result<Box<dyn Program>> {
        Ok(Box::new(Olaf { place }))
    }
}

struct Olaf {
    place: Place,
}

impl Olaf {
    fn port(&self, flow: NodeId) -> u16 {
        self.place.routes.port(flow)
    }

    /// Assigns worker and cluster to a frame that is an update of a known worker; returns whether it is one.
    ///
    /// The cluster is looked up, and written into the header if the packet states another one, because its worker has moved. An aggregate
    /// has the addresses of one of its members and belongs to the cluster under which a device merged it, wherever that member is now.
    #[inline]
    fn identify(&self, frame: &mut Frame, context: &mut Context) -> bool {
        let Some(worker) = worker_of(source_ip(context.pool.frame(frame)), self.place.workers.len()) else {
            return false;
        };
        let cluster = self.place.workers.cluster_of[worker as usize];
        let Some(header) = Header::parse_update(context.pool.payload(frame)) else { return false };
        let merged = header.count > 1 && usize::from(header.cluster) < self.place.group_ports.clusters();
        *frame = match merged {
            true => Frame { worker: header.worker, cluster: header.cluster, kind: Kind::Update, ..*frame },
            false => Frame { worker, cluster, kind: Kind::Update, ..*frame },
        };
        if cluster != NO_CLUSTER && frame.cluster != header.cluster {
            relabel(&Header { cluster, ..header }, frame, context.pool);
        }
        cluster != NO_CLUSTER
    }

    /// Stamps an ACK and sends it to the cluster's workers. Every port gets one copy, so that copies are made at the
    /// last hop where paths diverge (§10, "Increased Downlink Traffic").
    fn acknowledge(&self, frame: &Frame, ack: &Ack, context: &mut Context) {
        let cluster = ack.header.cluster;
        // A device further up may have multicast the same bytes to other ports.
        let frame = &context.unshare(frame);
        if let Some(status) = context.status(self.port(self.place.server), frame.t) {
            let earlier = (ack.header.flags & FLAG_STAMPED != 0).then_some(ack.status);
            if earlier.is_none_or(|earlier| more_congested(status, earlier)) {
                stamp(context.pool.payload_mut(frame), status);
            }
        }
        let len = usize::from(frame.len);
        readdress(&mut context.pool.bytes_mut(frame.buffer)[..len], group_ip(cluster));
        let Some((last, others)) = self.place.group_ports.get(cluster).and_then(|p| p.split_last()) else {
            return context.emit_around(NO_PORT, *frame);
        };
        for &port in others {
            let copy = context.share(frame);
            context.emit_around(port, copy);
        }
        context.emit_around(*last, *frame);
    }
}

/// Whether the own state is more congested: of several devices on the way, one overwrites the state only if its N/Qmax is larger.
fn more_congested(own: Status, earlier: Status) -> bool {
    u64::from(own.active) * u64::from(earlier.capacity) > u64::from(earlier.active) * u64::from(own.capacity)
}

impl Program for Olaf {
    fn regroup(&mut self, regroup: &Regroup, node: usize) {
        let Move { worker, cluster, .. } = regroup.change;
        Arc::make_mut(&mut self.place.workers).cluster_of[worker as usize] = cluster;
        let table = Arc::make_mut(&mut self.place.group_ports);
        for (cluster, ports) in [regroup.from, cluster].into_iter().zip(&regroup.ports[node]) {
            table.set(cluster, ports);
        }
    }

    fn on_burst(&mut self, burst: &[Frame], context: &mut Context) {
        for frame in burst {
            let mut update = *frame;
            if self.identify(&mut update, context) {
                context.emit(self.port(frame.flow), update);
                continue;
            }
            let from_server = source_ip(context.pool.frame(frame)) == SERVER_IP;
            let payload = context.pool.payload(frame);
            match from_server && is_ack(payload) {
                true => match Ack::parse(payload) {
                    Some(ack) => self.acknowledge(frame, &ack, context),
                    None => context.emit_around(self.port(frame.flow), *frame),
                },
                false => context.emit_around(self.port(frame.flow), *frame),
            }
        }
    }
}
