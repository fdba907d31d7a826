//! Frames of a run as on the wire: in strict layout and with the profile's addresses, if configured.

use std::collections::HashSet;

use pktgen_core::Result;
use pktgen_wire::device::{GROWTH_MAX, Translator};
use pktgen_wire::wire::Format;
use pktgen_wire::wire::frame::{Ip, worker_ip};
use pktgen_wire::wire::update::FORMAT;

use crate::dialect::Dialect;
use crate::plan::Plan;
use crate::transport::End;

/// The components between the workers and their cable.
pub(super) struct Outward {
    dialect: Option<Box<dyn Dialect>>,
    translator: Option<Translator>,
    /// Format on the wire.
    pub(super) format: &'static dyn Format,
    /// Whether frames have our header, which our devices rewrite.
    pub(super) ours: bool,
    /// Addresses of the workers.
    pub(super) sources: HashSet<Ip>,
    rooms: [Vec<u8>; 2],
}

impl Outward {
    pub(super) fn of(plan: &Plan) -> Result<Self> {
        let traffic = plan.parts.traffic();
        let kind = plan.spec.transport.dialect;
        let name = kind.map_or(traffic.format, |kind| kind.on_wire);
        let outer = plan.spec.transport.on_cable();
        let sources = match outer {
            Some(outer) => outer.addresses.workers.iter().map(|worker| worker.ip.0).collect(),
            None => (0..plan.parts.facts.workers.len() as u32).map(worker_ip).collect(),
        };
        let room = vec![0; plan.spec.transport.wire_bytes(plan.parts.frame_bytes) + GROWTH_MAX];
        Ok(Outward {
            dialect: kind.map_or(Ok(None), |kind| (kind.open)(&traffic))?,
            translator: outer.map(|outer| outer.translator(End::Workers)),
            format: plan.spec.catalogue.format(name, "the experiment")?,
            ours: kind.is_none() && traffic.format == FORMAT,
            sources,
            rooms: [room.clone(), room],
        })
    }

    /// Returns a frame as it leaves.
    pub(super) fn frame<'a>(&'a mut self, frame: &'a [u8]) -> &'a [u8] {
        let [first, second] = &mut self.rooms;
        let strict = match self.dialect.as_mut().and_then(|dialect| dialect.outward(frame, first)) {
            Some(len) => &first[..len],
            None => frame,
        };
        match self.translator.as_ref().and_then(|translator| translator.outward(strict, second)) {
            Some(len) => &second[..len],
            None => strict,
        }
    }
}
