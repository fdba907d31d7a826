//! Updates of asynchronous workers and their acknowledgements over UDP: all devices forward them, OLAF merges them.
//!
//! OLAF's paper fixes: one update per datagram; after the Ethernet, IPv4 and UDP headers come the mean
//! reward and the gradients (§7, "Packet Format"); ACKs carry the model, up to 24 bits of queue
//! utilisation and 16 bits of active clusters (§7). It publishes no layout. Ours, our choice:
//!
//! ```text
//! update: | common 26 B | reward f32 LE | gradients f32 LE ... |
//! ack:    | common 26 B | occupancy 24 | active clusters 16 | capacity 24 | reward f32 LE | model f32 LE ... |
//! common: | version 4, kind 4 | flags 8 | cluster 16 | count 16 | worker 32 | seq 32 | generation 64 |
//!         | attempt 8 | reserved 8 | elements 16 |
//! ```
//!
//! Header fields are in network order. Rewards and gradients are little-endian, as the hosts and
//! accelerators that compute with them hold them, so no bytes are swapped on the packet path. With 42 bytes
//! of headers the gradients of an update start at byte 72. Worker, seq, attempt and generation are
//! those of the newest member; `count` says how many updates the payload represents.

use super::frame::HEAD;
use super::header::{Group, at, find, header};
use super::layout::Field;
use crate::record::PacketId;
use crate::time::Time;

/// Name of the format in lists and experiments.
pub const FORMAT: &str = "olaf";
/// UDP port of the parameter server.
pub const PORT: u16 = 48500;
/// UDP port of workers.
pub const WORKER_PORT: u16 = 48501;
/// Version in the first nibble.
pub const VERSION: u64 = 1;
/// Kind of an update in the header.
pub const KIND_UPDATE: u64 = 1;
/// Kind of an acknowledgement.
pub const KIND_ACK: u64 = 2;
/// First byte of an update.
pub const UPDATE: u8 = (VERSION << 4 | KIND_UPDATE) as u8;
/// First byte of an acknowledgement.
pub const ACK: u8 = (VERSION << 4 | KIND_ACK) as u8;

/// Bytes of the payload before the gradients of an update.
pub const UPDATE_HEAD: usize = Header::BYTES;
/// Bytes of the payload before the model of an acknowledgement: the queue status precedes the reward.
pub const ACK_HEAD: usize = Header::BYTES + Status::BYTES;
/// Smallest frame that carries an update of one gradient.
pub const FRAME_MIN: usize = HEAD + UPDATE_HEAD + 4;

header! {
    /// What an update says besides its gradients.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct Header {
        fixed version: 4 = VERSION, "Version of the format: 1";
        open kind: 4, "What it is", &[(KIND_UPDATE, "update"), (KIND_ACK, "ack")];
        /// Flags.
        flags: u8 = [
            Field::unused(2),
            Field::flag("headless", "It came without this header: nothing but its sender is known"),
            Field::flag("result", "The whole sum on its way back to the workers"),
            Field::flag("partial", "Some members are missing: a device waited for them no longer"),
            Field::flag("stamped", "A device has stamped its queue status into this ACK"),
            Field::flag("lanes", "The first gradients are lanes"),
            Field::flag("merged", "The content is a merge of several updates")
        ];
        cluster: u16, 16, "Cluster";
        count: u16, 16, "Updates that the content represents";
        worker: u32, 32, "Worker of the newest member";
        seq: u32, 32, "Sequence number of the newest member";
        generation: Time, 64, "Generation time of the newest member, in ps";
        attempt: u8, 8, "Transmission attempt of the newest member";
        unused 8;
        elements: u16, 16, "Numbers that follow";
        le reward: f32, 32, "Mean reward";
    }
}

header! {
    /// State of a queue as ACKs carry it (§5: {N, Qmax, Qn}).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Status {
        occupancy: u32, 24, "Slots in use in the device's queue (Qn)";
        active: u16, 16, "Clusters that are active there (N)";
        capacity: u32, 24, "Slots of the queue (Qmax)";
    }
}

/// The common fields, and the reward.
pub const PARTS: (&[Field], &[Field]) = Header::FIELDS.split_at(find(Header::FIELDS, "reward").0);
/// Bytes of the common fields.
const COMMON: usize = find(Header::FIELDS, "reward").1 / 8;

const fn flag(name: &str) -> u8 {
    0x80 >> (find(Header::FIELDS, name).1 % 8)
}

/// Flag: the content is a merge of several updates.
pub const FLAG_MERGED: u8 = flag("merged");
/// Flag: the first gradients are lanes (`pktgen_workload::lanes`).
pub const FLAG_LANES: u8 = flag("lanes");
/// Flag: a device has stamped its queue status into this ACK (§5).
pub const FLAG_STAMPED: u8 = flag("stamped");
/// Flag: some members are missing: the device stopped waiting for them.
pub const FLAG_PARTIAL: u8 = flag("partial");
/// Flag: the packet came without our header, and only its sender is known: its number counts the worker's packets at
/// the reader, its generation is its arrival there, its count is 1 (docs/strict.md).
pub const FLAG_HEADLESS: u8 = flag("headless");
/// Flag: the whole sum on its way back to the workers, as an update of the server.
pub const FLAG_RESULT: u8 = flag("result");

impl Header {
    /// Returns the id of the packet.
    #[inline]
    pub fn packet(&self) -> PacketId {
        PacketId::new(self.worker, self.seq, self.attempt)
    }

    /// Returns the mean of two rewards, weighted by the counts.
    #[inline]
    pub fn mean_reward(&self, other: &Header) -> f32 {
        let (own, others) = (f32::from(self.count), f32::from(other.count));
        let mean = (self.reward * own + other.reward * others) / (own + others);
        if mean.is_finite() { mean } else { self.mean_reward_wide(other) }
    }

    /// The same of rewards whose products with the counts are beyond the range of f32.
    #[cold]
    fn mean_reward_wide(&self, other: &Header) -> f32 {
        let (own, others) = (f64::from(self.count), f64::from(other.count));
        ((f64::from(self.reward) * own + f64::from(other.reward) * others) / (own + others)) as f32
    }

    /// Writes the common part and the reward of an update into a payload.
    #[inline]
    pub fn emit_update(&self, payload: &mut [u8]) {
        self.put(payload);
        at!(Header.kind).put(payload, KIND_UPDATE);
    }

    /// Overwrites the fields that differ between two updates of a worker.
    #[inline]
    pub fn renew(head: &mut [u8; UPDATE_HEAD], seq: u32, generation: Time, attempt: u8, reward: f32) {
        at!(Header.seq).put(head, seq);
        at!(Header.generation).put(head, generation);
        at!(Header.attempt).put(head, attempt);
        at!(Header.reward).put(head, reward);
    }

    /// Sets the generation time of an update in a payload; other payloads are unchanged.
    #[inline]
    pub fn date(payload: &mut [u8], generation: Time) {
        if payload.len() >= UPDATE_HEAD && payload[0] == UPDATE {
            at!(Header.generation).put(payload, generation);
        }
    }

    /// Reads the header of an update or an acknowledgement, regardless of what follows; `None` if the payload is too short.
    #[inline]
    pub fn peek(payload: &[u8]) -> Option<Self> {
        Header::get(payload)
    }

    /// Reads an update's header from a payload; `None` if it is not an update or too short for its elements.
    #[inline]
    pub fn parse_update(payload: &[u8]) -> Option<Self> {
        // Checks the first byte first: the fields that it fixes need no further check.
        let head: &[u8; UPDATE_HEAD] = payload.first_chunk().filter(|head| head[0] == UPDATE)?;
        let header = Header::get(head)?;
        (payload.len() >= UPDATE_HEAD + usize::from(header.elements) * 4 && header.count > 0).then_some(header)
    }
}

/// Returns the number of gradients that fit a frame of `bytes`; the remainder below four bytes is padding.
pub const fn elements_in(frame_bytes: usize) -> usize {
    (frame_bytes - HEAD - UPDATE_HEAD) / 4
}

/// Returns the gradients of a parsed update, as little-endian bytes.
#[inline]
pub fn values<'a>(payload: &'a [u8], header: &Header) -> &'a [u8] {
    &payload[UPDATE_HEAD..UPDATE_HEAD + usize::from(header.elements) * 4]
}

/// Returns the gradients of an update, as little-endian bytes; empty for other payloads.
#[inline]
pub fn gradients(payload: &[u8]) -> &[u8] {
    Header::parse_update(payload).map_or(&[], |header| values(payload, &header))
}

/// Adds little-endian f32 vectors: `sum += part`. The shorter length counts.
#[inline]
pub fn add_values(sum: &mut [u8], part: &[u8]) {
    for (s, p) in sum.as_chunks_mut::<4>().0.iter_mut().zip(part.as_chunks::<4>().0) {
        *s = (f32::from_le_bytes(*s) + f32::from_le_bytes(*p)).to_le_bytes();
    }
}

/// Returns a hash of gradients, for comparison without keeping them: equal bits have the same hash, others almost never.
#[inline]
pub fn digest(values: &[u8]) -> u64 {
    let (words, rest) = values.as_chunks::<4>();
    let last = padded(rest);
    words.iter().chain(&last).fold((words.len() + last.map_or(0, |_| 1)) as u64 * 4, |sum, value| {
        (sum ^ u64::from(u32::from_le_bytes(*value))).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    })
}

/// Returns the last word of an incomplete array of words, filled with the number of missing bytes; `None` if nothing remains.
pub fn padded(rest: &[u8]) -> Option<[u8; 4]> {
    let lack = 4usize.checked_sub(rest.len()).filter(|lack| *lack < 4)?;
    let mut word = [lack as u8; 4];
    word[..rest.len()].copy_from_slice(rest);
    Some(word)
}

/// An acknowledgement: the header of the acknowledged update, queue status and the server's reward.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ack {
    /// Worker, seq and generation of the newest acknowledged update; `elements` is the model's length.
    pub header: Header,
    /// Queue state; meaningful if [`FLAG_STAMPED`] is set.
    pub status: Status,
}

impl Ack {
    /// Writes everything before the model.
    pub fn emit(&self, payload: &mut [u8]) {
        self.header.put(payload);
        at!(Header.kind).put(payload, KIND_ACK);
        emit_status(payload, self.status);
        at!(Header.reward).put(&mut payload[Status::BYTES..], self.header.reward);
    }

    /// Reads an acknowledgement; `None` if it is not one or too short for its elements.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let head: &[u8; ACK_HEAD] = payload.first_chunk().filter(|head| head[0] == ACK)?;
        let reward = at!(Header.reward).get(&head[Status::BYTES..])?;
        let header = Header { reward, ..Header::get(head)? };
        let status = Status::get(&head[COMMON..])?;
        (payload.len() >= ACK_HEAD + usize::from(header.elements) * 4).then_some(Ack { header, status })
    }
}

/// Returns whether this payload is an acknowledgement, by its first byte and length.
#[inline]
pub fn is_ack(payload: &[u8]) -> bool {
    payload.len() >= ACK_HEAD && payload[0] == ACK
}

/// Returns whether the packet came without this header, which was restored from what its reader knew (docs/strict.md).
#[inline]
pub fn is_headless(payload: &[u8]) -> bool {
    const FLAGS: usize = find(Header::FIELDS, "headless").1 / 8;
    payload.get(FLAGS).is_some_and(|flags| flags & FLAG_HEADLESS != 0)
}

/// Stamps the status of a queue into an acknowledgement; values beyond the field's range become its maximum.
pub fn stamp(payload: &mut [u8], status: Status) {
    if is_ack(payload) {
        payload[find(Header::FIELDS, "stamped").1 / 8] |= FLAG_STAMPED;
        emit_status(payload, status);
    }
}

fn emit_status(payload: &mut [u8], status: Status) {
    let narrow = |n: u32| n.min(0xff_ffff);
    let Status { occupancy, active, capacity } = status;
    Status { occupancy: narrow(occupancy), active, capacity: narrow(capacity) }.put(&mut payload[COMMON..]);
}

#[cfg(test)]
mod tests {
    use super::super::frame::FRAME_MAX;
    use super::*;
    use proptest::prelude::*;

    fn header() -> Header {
        Header {
            flags: FLAG_MERGED,
            cluster: 0x0102,
            count: 3,
            worker: 0x0a0b0c,
            seq: 0x11223344,
            generation: 0x0102030405060708,
            attempt: 9,
            elements: 2,
            reward: 1.5,
        }
    }

    #[test]
    fn the_mean_of_finite_rewards_is_finite() {
        let of = |count: u16, reward: f32| Header { count, reward, ..header() };
        let mean = |a: (u16, f32), b: (u16, f32)| of(a.0, a.1).mean_reward(&of(b.0, b.1));
        assert_eq!(mean((1, 2.0), (3, 4.0)), 3.5);
        assert_eq!(mean((1, f32::MAX), (1, f32::MAX)), f32::MAX);
        assert_eq!(mean((2, f32::MAX), (2, -f32::MAX)), 0.0);
        assert!(mean((1, f32::INFINITY), (1, 1.0)).is_infinite());
    }

    #[test]
    fn an_update_byte_by_byte() {
        let mut payload = vec![0xa5; UPDATE_HEAD + 8];
        header().emit_update(&mut payload);
        payload[30..34].copy_from_slice(&2.0f32.to_le_bytes());
        payload[34..38].copy_from_slice(&(-1.0f32).to_le_bytes());
        #[rustfmt::skip]
        let expected = [
            0x11, 0x01, 0x01, 0x02, 0, 3, 0, 0x0a, 0x0b, 0x0c, 0x11, 0x22, 0x33, 0x44,
            1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0, 2,
            0x00, 0x00, 0xc0, 0x3f,
            0x00, 0x00, 0x00, 0x40, 0x00, 0x00, 0x80, 0xbf,
        ];
        assert_eq!(payload, expected);
        assert_eq!(Header::parse_update(&payload), Some(header()));
        assert_eq!(values(&payload, &header()).len(), 8);
        for short in 0..payload.len() {
            assert_eq!(Header::parse_update(&payload[..short]), None);
        }
    }

    #[test]
    fn an_ack_byte_by_byte() {
        let mut payload = vec![0xa5; ACK_HEAD + 8];
        let mut ack = Ack { header: header(), status: Status { occupancy: 0x010203, active: 0x0405, capacity: 8 } };
        ack.emit(&mut payload);
        assert_eq!(payload[0], 0x12);
        assert_eq!(&payload[26..38], &[1, 2, 3, 4, 5, 0, 0, 8, 0x00, 0x00, 0xc0, 0x3f]);
        assert_eq!(Ack::parse(&payload), Some(ack));
        stamp(&mut payload, Status { occupancy: u32::MAX, active: 7, capacity: 5 });
        ack.header.flags |= FLAG_STAMPED;
        ack.status = Status { occupancy: 0xff_ffff, active: 7, capacity: 5 };
        assert_eq!(Ack::parse(&payload), Some(ack));
    }

    #[test]
    fn what_fits_a_frame() {
        assert_eq!(elements_in(256), 46);
        assert_eq!(elements_in(FRAME_MIN), 1);
        assert_eq!(elements_in(FRAME_MAX), 2241);
    }

    proptest! {
        #[test]
        fn updates_round_trip(cluster: u16, count in 1u16.., worker: u32, seq: u32, generation: i64, attempt: u8, flags: u8, reward in -1e9f32..1e9, elements in 0u16..600) {
            let h = Header { flags, cluster, count, worker, seq, generation, attempt, elements, reward };
            let mut payload = vec![0xa5; UPDATE_HEAD + usize::from(elements) * 4];
            h.emit_update(&mut payload);
            prop_assert_eq!(Header::parse_update(&payload), Some(h));
            prop_assert!(Ack::parse(&payload).is_none());
        }

        #[test]
        fn sums_are_f32_sums(pairs in prop::collection::vec((any::<f32>(), any::<f32>()), 0..50)) {
            let bytes = |pick: fn(&(f32, f32)) -> f32| pairs.iter().flat_map(|p| pick(p).to_le_bytes()).collect::<Vec<_>>();
            let mut sum = bytes(|p| p.0);
            add_values(&mut sum, &bytes(|p| p.1));
            for (chunk, (a, b)) in sum.chunks(4).zip(&pairs) {
                let got = f32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]);
                prop_assert!(got.to_bits() == (a + b).to_bits() || (got.is_nan() && (a + b).is_nan()));
            }
        }
    }
}
