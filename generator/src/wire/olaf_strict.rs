//! OLAF's packets as its devices have them: nothing of ours in them (docs/strict.md).
//!
//! The paper says what a packet holds and no more: the headers of Ethernet, IPv4 and UDP, "followed by the mean reward of
//! local iteration and the gradients"; ACKs "contain the aggregated gradients" and "up to 24-bit queue utilization, and 16-bit
//! # active clusters" (§7, "Packet Format"). Ids are not in it: the worker follows from the addresses, the cluster from the
//! worker ("Uplink"). The rest is our choice:
//!
//! ```text
//! update: | reward f32 LE | gradients f32 LE ... |
//! ack:    | occupancy 24 | active clusters 16 | model f32 LE ... |
//! ```
//!
//! Numbers are little-endian, as hosts have them in memory; queue state is in network order, as a P4 program writes it, and
//! stands first, since such a program sees the head of a packet only (VNP4₂ embeds it). Lengths tell the two apart: an
//! update's is a multiple of four, an ACK's one more. How many gradients there are follows from UDP's length. The ports are
//! others than those of [`super::olaf`], so that captures say which of the two they hold.

mod layout;

use super::Format;
use super::frame::{FRAME_MAX, HEAD, group_of, worker_of};
use super::olaf::Status;
use super::sight::{Datagram, Delivery, Sight, What};
use crate::record::PacketId;
use crate::registry::Named;

/// Its name.
pub const NAME: &str = "olaf_strict";
/// UDP port of the parameter server.
pub const PORT: u16 = 48510;
/// UDP port of workers.
pub const WORKER_PORT: u16 = 48511;
/// Bytes of the payload before the gradients of an update.
pub const UPDATE_HEAD: usize = 4;
/// Bytes of the payload before the model of an ACK.
pub const ACK_HEAD: usize = 5;

/// What an update says besides its gradients.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Update {
    /// Mean reward.
    pub reward: f32,
    /// Gradients that follow.
    pub elements: u16,
}

impl Update {
    /// Writes what stands before the gradients.
    #[inline]
    pub fn emit(&self, payload: &mut [u8]) {
        payload[..UPDATE_HEAD].copy_from_slice(&self.reward.to_le_bytes());
    }

    /// Reads an update; none if the length is not one's.
    #[inline]
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let reward = f32::from_le_bytes(*payload.first_chunk()?);
        elements(payload.len(), UPDATE_HEAD).map(|elements| Update { reward, elements })
    }
}

/// What an ACK says besides the model. How many slots the queue has, workers know from elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    /// Slots in use (Qn); 24 bits.
    pub occupancy: u32,
    /// Active clusters (N).
    pub active: u16,
    /// Parameters or gradients that follow.
    pub elements: u16,
}

impl Ack {
    /// An ACK with a queue's state; what is beyond the field becomes its maximum.
    pub fn of(status: Status, elements: u16) -> Self {
        Ack { occupancy: status.occupancy.min(0xff_ffff), active: status.active, elements }
    }

    /// Writes what stands before the model.
    #[inline]
    pub fn emit(&self, payload: &mut [u8]) {
        payload[..3].copy_from_slice(&self.occupancy.to_be_bytes()[1..]);
        payload[3..ACK_HEAD].copy_from_slice(&self.active.to_be_bytes());
    }

    /// Reads an ACK; none if the length is not one's.
    #[inline]
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let [a, b, c, d, e] = *payload.first_chunk::<ACK_HEAD>()?;
        elements(payload.len(), ACK_HEAD).map(|elements| Ack {
            occupancy: u32::from_be_bytes([0, a, b, c]),
            active: u16::from_be_bytes([d, e]),
            elements,
        })
    }
}

/// Numbers of four bytes that fill a payload behind its head.
fn elements(payload_bytes: usize, head: usize) -> Option<u16> {
    let rest = payload_bytes.checked_sub(head)?;
    if rest % 4 == 0 { u16::try_from(rest / 4).ok() } else { None }
}

/// The registered format.
pub struct OlafStrict;

impl Named for OlafStrict {
    fn name(&self) -> &'static str {
        NAME
    }
    fn about(&self) -> &'static str {
        "OLAF updates and ACKs without a header of ours: ids from addresses"
    }
}

impl Format for OlafStrict {
    fn has_port(&self, port: u16) -> bool {
        port == PORT || port == WORKER_PORT
    }

    /// Only addresses say who: the worker is that of an update, or the one that an ACK is for; a group's ACK names the
    /// cluster. Of an update the cluster is not known here, so all are in one, and numbers and times there are none.
    fn sight(&self, datagram: &Datagram) -> Option<Sight> {
        let worker = |ip| worker_of(ip, PacketId::WORKERS_MAX as usize);
        let head = if datagram.payload.len() < ACK_HEAD { return None } else { datagram.whole };
        let (what, worker, cluster, elements) = match (elements(head, UPDATE_HEAD), elements(head, ACK_HEAD)) {
            (Some(elements), _) => (What::Update, worker(datagram.src), 0, elements),
            (_, Some(elements)) => {
                (What::Ack, worker(datagram.dst), group_of(datagram.dst).unwrap_or_default(), elements)
            }
            _ => return None,
        };
        Some(Sight { what, cluster, worker, seq: 0, round: 0, attempt: 0, generation: None, count: 1, elements })
    }

    fn recognises(&self, port: u16, payload: &[u8]) -> bool {
        self.has_port(port) && (Update::parse(payload).is_some() || Ack::parse(payload).is_some())
    }

    fn delivery(&self) -> Delivery {
        Delivery::UncountedUpdates
    }

    fn print(&self, payload: &[u8]) -> String {
        match (Update::parse(payload), Ack::parse(payload)) {
            (Some(h), _) => format!("olaf_strict update reward {} elements {}", h.reward, h.elements),
            (_, Some(h)) => {
                format!("olaf_strict ack occupancy {} active {} elements {}", h.occupancy, h.active, h.elements)
            }
            _ => format!("not olaf_strict: {} bytes", payload.len()),
        }
    }

    fn frame_bytes(&self) -> (usize, usize) {
        (HEAD + UPDATE_HEAD + 4, FRAME_MAX)
    }

    fn round_trip(&self, payload: &[u8]) -> Option<Vec<u8>> {
        let mut out = payload.to_vec();
        match Update::parse(payload) {
            Some(update) => update.emit(&mut out),
            None => Ack::parse(payload)?.emit(&mut out),
        }
        Some(out)
    }

    fn layout(&self) -> &'static super::layout::Layout {
        &layout::LAYOUT
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
            assert_eq!(OlafStrict.recognises(PORT, &bytes[..len]), update.is_some() || ack.is_some());
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
