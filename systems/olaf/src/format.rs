//! OLAF's format: the packets of `update` as its devices process them.

use pktgen_core::record::lanes::Number;
use pktgen_core::registry::Named;
use pktgen_wire::wire::frame::{FRAME_MAX, HEAD};
use pktgen_wire::wire::header::Group;
use pktgen_wire::wire::lanes::LaneForm;
use pktgen_wire::wire::layout::{After, Count, Field, Layout, Message, PLAIN, Rest, Rule};
use pktgen_wire::wire::sight::{Datagram, Sight, What};
use pktgen_wire::wire::update::{
    ACK, ACK_HEAD, Ack, FLAG_RESULT, FORMAT, FRAME_MIN, Header, KIND_ACK, KIND_UPDATE, PARTS, PORT, Status, UPDATE,
    UPDATE_HEAD, VERSION, WORKER_PORT, values,
};
use pktgen_wire::wire::{self, Captured, Format, FormatFacts, Packet};

const fn floats(name: &'static str, fields: &'static [Field]) -> Rest {
    Rest::Items { name, count: Count::Field("elements"), fields }
}

static LAYOUT: Layout = Layout {
    ports: &[(PORT, WORKER_PORT)],
    shared_ports: &[],
    telling: true,
    summary: &["cluster", "worker", "seq", "attempt", "count", "elements", "stamped", "partial", "result"],
    head: PARTS.0,
    rules: &[],
    messages: &[
        Message {
            name: "update",
            when: &[("version", VERSION), ("kind", KIND_UPDATE)],
            groups: &[PARTS.1],
            rules: &[Rule::NotZero("count")],
            rest: floats("gradients", &[Field::of::<f32>("gradient", 32, "Gradient").little()]),
            after: After::Anything,
            ..PLAIN
        },
        Message {
            name: "ack",
            when: &[("version", VERSION), ("kind", KIND_ACK)],
            groups: &[Status::FIELDS, PARTS.1],
            rest: floats("model", &[Field::of::<f32>("parameter", 32, "Parameter of the model").little()]),
            after: After::Anything,
            ..PLAIN
        },
    ],
};

/// The registered format.
pub struct Olaf;

impl Named for Olaf {
    fn name(&self) -> &'static str {
        FORMAT
    }
    fn about(&self) -> &'static str {
        "OLAF updates (reward, f32 gradients) and ACKs (model, queue state) over UDP"
    }
}

impl Format for Olaf {
    fn layout(&self) -> &'static Layout {
        &LAYOUT
    }

    fn facts(&self) -> &'static FormatFacts {
        const FACTS: FormatFacts = FormatFacts {
            lanes: Some(LaneForm { number: Number::F32, offset: HEAD + UPDATE_HEAD, shared: false, filled: false }),
            updates: Captured::Ours,
            ports: Some((WORKER_PORT, PORT)),
            ..FormatFacts::new((FRAME_MIN, FRAME_MAX))
        };
        &FACTS
    }

    fn read(&self, payload: &[u8]) -> Option<Packet> {
        if let Some(h) = Header::parse_update(payload) {
            let line = format!(
                "olaf update cluster {} worker {} seq {} attempt {} generated {} ps count {} reward {} elements {} flags {:#04x}",
                h.cluster, h.worker, h.seq, h.attempt, h.generation, h.count, h.reward, h.elements, h.flags
            );
            let items = wire::floats(values(payload, &h));
            return Some(Packet::new(payload, h.fields(), |out| h.emit_update(out), line).with(items));
        }
        let ack = Ack::parse(payload)?;
        let Ack { header: h, status: s } = ack;
        let mut fields = h.fields();
        fields.splice(fields.len() - 1..fields.len() - 1, s.fields());
        let line = format!(
            "olaf ack cluster {} worker {} seq {} reward {} occupancy {}/{} active {} elements {} flags {:#04x}",
            h.cluster, h.worker, h.seq, h.reward, s.occupancy, s.capacity, s.active, h.elements, h.flags
        );
        let model = payload.get(ACK_HEAD..ACK_HEAD + usize::from(h.elements) * 4)?;
        Some(Packet::new(payload, fields, |out| ack.emit(out), line).with(wire::floats(model)))
    }

    #[inline]
    fn sight(&self, datagram: &Datagram) -> Option<Sight> {
        let (ack, before) = match *datagram.payload.first()? {
            UPDATE => (false, UPDATE_HEAD),
            ACK => (true, ACK_HEAD),
            _ => return None,
        };
        let header = Header::peek(datagram.payload)?;
        // Bytes that are not a whole gradient are padding; a second packet after the first was another datagram on the wire.
        let need = before + usize::from(header.elements) * 4;
        let is_one = ack || datagram.whole < need + before;
        let fits = datagram.whole >= need && is_one && (ack || header.count > 0);
        let what = match (ack, header.flags & FLAG_RESULT != 0) {
            (true, _) => What::Ack,
            (false, true) => What::Result,
            (false, false) => What::Update,
        };
        let Header { cluster, worker, seq, attempt, count, elements, .. } = header;
        let generation = Some(header.generation);
        fits.then_some(Sight {
            what,
            cluster,
            worker: Some(worker),
            seq,
            round: 0,
            attempt,
            generation,
            count,
            elements,
        })
    }
}
