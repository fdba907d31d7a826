//! OLAF's packets as its devices process them, without additions of this project (docs/strict.md).
//!
//! The paper specifies only the contents of a packet: the headers of Ethernet, IPv4 and UDP, "followed by the mean
//! reward of local iteration and the gradients"; ACKs "contain the aggregated gradients" and "up to 24-bit queue
//! utilization, and 16-bit # active clusters" (§7, "Packet Format"). It contains no ids: the worker follows from the
//! addresses, the cluster from the worker ("Uplink"). The rest is our choice:
//!
//! ```text
//! update: | reward f32 LE | gradients f32 LE ... |
//! ack:    | occupancy 24 | active clusters 16 | model f32 LE ... |
//! ```
//!
//! Numbers are little-endian, as in hosts' memory. Queue state is in network order, as a P4 program writes it, and comes first, since such
//! a program processes only the beginning of a packet (VNP4₂ embeds it). Lengths distinguish the two: that of an update is a multiple of
//! four, that of an ACK is larger by one. The number of gradients follows from the UDP length. The ports differ from those of
//! [`pktgen_wire::wire::update`], so that captures show which of the two they contain.

use pktgen_core::registry::Named;
use pktgen_wire::wire::frame::{FRAME_MAX, HEAD, any_worker, group_of};
use pktgen_wire::wire::header::{Group, header};
use pktgen_wire::wire::layout::{Count, Field, Layout, Message, PLAIN, Rest};
use pktgen_wire::wire::sight::{AttemptMarks, Datagram, Delivery, Sight, What};
use pktgen_wire::wire::update::Status;
use pktgen_wire::wire::{self, Captured, Format, FormatFacts, Packet};

/// Its name.
pub const NAME: &str = "olaf_strict";
/// UDP port of the parameter server.
pub const PORT: u16 = 48510;
/// UDP port of workers.
pub const WORKER_PORT: u16 = 48511;
/// Length of the payload before the gradients of an update.
pub const UPDATE_HEAD: usize = Update::BYTES;
/// Length of the payload before the model of an ACK.
pub const ACK_HEAD: usize = Ack::BYTES;

header! {
    /// What an update says besides its gradients.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct Update {
        le reward: f32, 32, "Mean reward";
        beside elements: u16, "Gradients that follow.";
    }
}

impl Update {
    /// Writes everything before the gradients.
    #[inline]
    pub fn emit(&self, payload: &mut [u8]) {
        self.put(payload);
    }

    /// Parses an update; `None` if the length does not fit.
    #[inline]
    pub fn parse(payload: &[u8]) -> Option<Self> {
        Some(Update { elements: elements(payload.len(), UPDATE_HEAD)?, ..Update::get(payload)? })
    }
}

header! {
    /// What an ACK says besides the model. How many slots the queue has, workers know from elsewhere.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Ack {
        occupancy: u32, 24, "Slots in use in the device's queue (Qn)";
        active: u16, 16, "Clusters that are active there (N)";
        beside elements: u16, "Parameters or gradients that follow.";
    }
}

impl Ack {
    /// Creates an ACK with a queue's state; values that exceed the field are replaced by its maximum.
    pub fn of(status: Status, elements: u16) -> Self {
        Ack { occupancy: status.occupancy.min(0xff_ffff), active: status.active, elements }
    }

    /// Writes everything before the model.
    #[inline]
    pub fn emit(&self, payload: &mut [u8]) {
        self.put(payload);
    }

    /// Parses an ACK; `None` if the length does not fit.
    #[inline]
    pub fn parse(payload: &[u8]) -> Option<Self> {
        Some(Ack { elements: elements(payload.len(), ACK_HEAD)?, ..Ack::get(payload)? })
    }
}

/// Returns how many four-byte numbers fill a payload after its header.
fn elements(payload_bytes: usize, head: usize) -> Option<u16> {
    let rest = payload_bytes.checked_sub(head)?;
    if rest % 4 == 0 { u16::try_from(rest / 4).ok() } else { None }
}

const fn floats(name: &'static str, fields: &'static [Field]) -> Rest {
    Rest::Items { name, count: Count::ToEnd(usize::MAX), fields }
}

static LAYOUT: Layout = Layout {
    ports: &[(PORT, WORKER_PORT)],
    shared_ports: &[],
    telling: false,
    summary: &["occupancy", "active"],
    head: &[],
    rules: &[],
    messages: &[
        Message {
            name: "update",
            groups: &[Update::FIELDS],
            rest: floats("gradients", &[Field::of::<f32>("gradient", 32, "Gradient").little()]),
            ..PLAIN
        },
        Message {
            name: "ack",
            groups: &[Ack::FIELDS],
            rest: floats("model", &[Field::of::<f32>("parameter", 32, "Parameter of the model").little()]),
            ..PLAIN
        },
    ],
};

/// The registered format.
pub(crate) struct OlafStrict;

impl Named for OlafStrict {
    fn name(&self) -> &'static str {
        NAME
    }
    fn about(&self) -> &'static str {
        "OLAF updates and ACKs without pktgen's header; ids follow from addresses"
    }
}

impl Format for OlafStrict {
    fn layout(&self) -> &'static Layout {
        &LAYOUT
    }

    fn facts(&self) -> &'static FormatFacts {
        const FACTS: FormatFacts = FormatFacts {
            delivery: Delivery::UncountedUpdates,
            // There are neither numbers nor attempts.
            transmissions: AttemptMarks::Hidden,
            updates: Captured::Headless(UPDATE_HEAD),
            ports: Some((WORKER_PORT, PORT)),
            ..FormatFacts::new((HEAD + UPDATE_HEAD + 4, FRAME_MAX))
        };
        &FACTS
    }

    fn read(&self, payload: &[u8]) -> Option<Packet> {
        if let Some(h) = Update::parse(payload) {
            let line = format!("olaf_strict update reward {} elements {}", h.reward, h.elements);
            return Some(
                Packet::new(payload, h.fields(), |out| h.emit(out), line).with(wire::floats(&payload[UPDATE_HEAD..])),
            );
        }
        let h = Ack::parse(payload)?;
        let line = format!("olaf_strict ack occupancy {} active {} elements {}", h.occupancy, h.active, h.elements);
        Some(Packet::new(payload, h.fields(), |out| h.emit(out), line).with(wire::floats(&payload[ACK_HEAD..])))
    }

    fn refuse(&self, payload: &[u8]) -> String {
        format!("not olaf_strict: {} bytes", payload.len())
    }
    /// Only addresses identify the worker: that of an update, or the one that an ACK is for; an ACK to a group identifies the cluster. The
    /// cluster of an update is unknown here, so all are in one; there are no numbers or times.
    fn sight(&self, datagram: &Datagram) -> Option<Sight> {
        let head = if datagram.payload.len() < ACK_HEAD { return None } else { datagram.whole };
        let (what, worker, cluster, elements) = match (elements(head, UPDATE_HEAD), elements(head, ACK_HEAD)) {
            (Some(elements), _) => (What::Update, any_worker(datagram.src), 0, elements),
            (_, Some(elements)) => {
                (What::Ack, any_worker(datagram.dst), group_of(datagram.dst).unwrap_or_default(), elements)
            }
            _ => return None,
        };
        Some(Sight { what, cluster, worker, seq: 0, round: 0, attempt: 0, generation: None, count: 1, elements })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lengths_tell_updates_from_acks() {
        let bytes = [0u8; 40];
        for len in 0..bytes.len() {
            let (update, ack) = (Update::parse(&bytes[..len]), Ack::parse(&bytes[..len]));
            assert_eq!(update.is_some(), len >= 4 && len % 4 == 0, "{len}");
            assert_eq!(ack.is_some(), len >= 5 && len % 4 == 1, "{len}");
            assert_eq!((&OlafStrict as &dyn Format).recognises(PORT, &bytes[..len]), update.is_some() || ack.is_some());
        }
    }

    #[test]
    fn a_queue_beyond_its_field_is_the_largest() {
        let ack = Ack::of(Status { occupancy: u32::MAX, active: 9, capacity: 8 }, 0);
        assert_eq!((ack.occupancy, ack.active), (0xff_ffff, 9));
    }

    proptest! {
        #[test]
        fn both_round_trip(reward in -1e9f32..1e9, occupancy in 0u32..1 << 24, active: u16, elements in 0u16..600) {
            let (update, ack) = (Update { reward, elements }, Ack { occupancy, active, elements });
            let mut payload = vec![0xa5; UPDATE_HEAD + usize::from(elements) * 4];
            update.emit(&mut payload);
            prop_assert_eq!(Update::parse(&payload), Some(update));
            payload.push(0);
            ack.emit(&mut payload);
            prop_assert_eq!(Ack::parse(&payload), Some(ack));
        }
    }
}
