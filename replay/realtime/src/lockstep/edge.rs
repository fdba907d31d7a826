//! Translation of frames for the device: into the layout of `transport.on_wire` and the profile's addresses, if
//! configured, and back into frames with our header.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use pktgen_core::Result;
use pktgen_core::time::Time;
use pktgen_core::topology::{NO_PORT, NodeId, Role};
use pktgen_wire::device::{GROWTH_MAX, Translator};
use pktgen_wire::wire::frame::{Checksums, checksums, unpadded};

use super::session::Session;
use crate::acks::{AcksAtEnds, AcksThrough};
use crate::dialect::Dialect;
use crate::plan::Plan;
use crate::target::remote::{Advanced, Remote};
use crate::transport::End;

/// The translation on one side of the device, as at the end of a cable.
struct Side {
    dialect: Option<Box<dyn Dialect>>,
    translator: Option<Translator>,
}

/// The acknowledgements that pass a device, during its run and after it.
#[derive(Clone)]
pub(crate) struct SharedAcks(Arc<Mutex<AcksThrough>>);

impl SharedAcks {
    fn with<T>(&self, count: impl FnOnce(&mut AcksThrough) -> T) -> T {
        count(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the number of acknowledgements from the server, and what is known of them at both sides of the device.
    pub(crate) fn ends(&self) -> (u64, AcksAtEnds) {
        self.with(|acks| acks.ends())
    }
}

/// The sides of the device.
const WORKERS: usize = 0;
const SERVER: usize = 1;

/// The translation between the network and the device.
pub(super) struct Edge {
    /// The workers' side, and the server's.
    sides: [Side; 2],
    /// The side of each port of the device.
    side_of: Vec<usize>,
    /// Two frame buffers.
    rooms: [Vec<u8>; 2],
    /// Frames of the device with a wrong IPv4 or UDP checksum.
    checksums_wrong: u64,
    acks: SharedAcks,
}

/// An edge with the device behind it.
pub(super) struct Coupled {
    edge: Edge,
    session: Session,
}

impl Edge {
    /// Makes the edge of the device at `node`.
    pub(super) fn of(plan: &Plan, node: NodeId) -> Result<Edge> {
        let (transport, traffic, topology) = (&plan.spec.transport, plan.parts.traffic(), &plan.parts.topology);
        let exchanged = transport.middleware.declaring(|it| it.addresses).next().is_some();
        let side = |end: End| -> Result<Side> {
            let dialect = transport.dialect.map_or(Ok(None), |kind| (kind.open)(&traffic))?;
            let outer = transport.outer.as_ref().filter(|_| exchanged);
            Ok(Side { dialect, translator: outer.map(|outer| outer.translator(end)) })
        };
        let room = vec![0; transport.wire_bytes(plan.parts.frame_bytes) + GROWTH_MAX];
        let is_host = |to: NodeId| matches!(topology.nodes[to as usize].role, Role::Host(_));
        let ports: HashMap<NodeId, u16> = topology.ports(node).map(|(_, link)| link.to).zip(0..).collect();
        let hosts = topology.host_of(plan.spec.workers.len());
        let port_of = hosts.iter().map(|host| ports.get(host).copied().unwrap_or(NO_PORT)).collect();
        Ok(Edge {
            sides: [side(End::Workers)?, side(End::Server)?],
            side_of: topology.ports(node).map(|(_, link)| usize::from(!is_host(link.to))).collect(),
            rooms: [room.clone(), room],
            checksums_wrong: 0,
            acks: SharedAcks(Arc::new(Mutex::new(AcksThrough::of(&plan.spec.workers, port_of)))),
        })
    }

    /// Returns the acknowledgements that pass the device.
    pub(super) fn acks(&self) -> SharedAcks {
        self.acks.clone()
    }

    /// Couples it with a device.
    pub(super) fn around(self, session: Session) -> Coupled {
        Coupled { edge: self, session }
    }
}

impl Side {
    /// Translates a copy of a frame for the device.
    fn outward<'a>(&mut self, frame: &'a [u8], copy: usize, rooms: &'a mut [Vec<u8>; 2]) -> &'a [u8] {
        let [first, second] = rooms;
        let written = match self.dialect.as_mut().and_then(|dialect| dialect.copy(frame, copy, first)) {
            Some(len) => &first[..len],
            None => frame,
        };
        let Some(translator) = &self.translator else { return written };
        let len = match translator.outward(written, second) {
            Some(len) => Some(len),
            None => translator.outward_odd(written, second),
        };
        len.map_or(written, |len| &second[..len])
    }

    /// Translates a frame that left the device at `t` into one with our addresses and header.
    fn inward<'a>(&mut self, frame: &'a [u8], t: Time, rooms: &'a mut [Vec<u8>; 2]) -> &'a [u8] {
        let [first, second] = rooms;
        // As on a cable: padding after the packet is removed.
        let frame = unpadded(frame);
        let ours = match self.translator.as_ref().and_then(|translator| translator.inward(frame, second)) {
            Some(len) => &second[..len],
            None => frame,
        };
        match self.dialect.as_mut().and_then(|dialect| dialect.inward(ours, t, first)) {
            Some(len) => &first[..len],
            None => ours,
        }
    }
}

impl Remote for Coupled {
    fn frame_in(&mut self, t: Time, port: u16, frame: &[u8]) -> Result<()> {
        let Edge { sides, side_of, rooms, acks, .. } = &mut self.edge;
        let at = side_of[usize::from(port)];
        acks.with(|acks| match at {
            SERVER => acks.count_sent(frame),
            _ => acks.note_worker(frame),
        });
        let side = &mut sides[at];
        let copies = side.dialect.as_ref().map_or(1, |dialect| dialect.copies(frame));
        for copy in 0..copies {
            self.session.frame_in(t, port, side.outward(frame, copy, rooms))?;
        }
        Ok(())
    }

    fn advance(&mut self, until: Time, each: &mut dyn FnMut(u16, &[u8])) -> Result<Advanced> {
        let Edge { sides, side_of, rooms, checksums_wrong, acks } = &mut self.edge;
        self.session.advance(until, &mut |t, port, frame| {
            *checksums_wrong += u64::from(checksums(frame) != Checksums::Fit);
            let at = side_of[usize::from(port)];
            let frame = sides[at].inward(frame, t, rooms);
            if at == WORKERS {
                acks.with(|acks| acks.count_came(port, frame));
            }
            each(port, frame);
        })
    }

    fn checksums_wrong(&self) -> u64 {
        self.edge.checksums_wrong
    }

    fn end(&mut self) -> Result<Vec<(String, u64)>> {
        self.session.end()
    }
}
