//! The rows of the three streams.

use crate::lanes::LANES_MAX;
use crate::time::Time;

/// Names one attempt of one update everywhere: in books, captures and balances.
///
/// 24 bits of worker, 8 of attempt, 32 of sequence number, so that any observer can compute it from
/// a packet's header. An aggregate is known by the id of its newest member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PacketId(pub u64);

impl PacketId {
    /// Most workers that ids can tell apart.
    pub const WORKERS_MAX: u32 = 1 << 24;

    /// The id of this attempt.
    #[inline]
    pub const fn new(worker: u32, seq: u32, attempt: u8) -> Self {
        PacketId((worker as u64) << 40 | (attempt as u64) << 32 | seq as u64)
    }

    /// The worker that sent it.
    #[inline]
    pub const fn worker(self) -> u32 {
        (self.0 >> 40) as u32
    }

    /// Its sequence number.
    #[inline]
    pub const fn seq(self) -> u32 {
        self.0 as u32
    }

    /// 0 for the first transmission.
    #[inline]
    pub const fn attempt(self) -> u8 {
        (self.0 >> 32) as u8
    }
}

/// The cluster of traffic that belongs to none.
pub const NO_CLUSTER: u16 = u16::MAX;

/// One transmission by a worker.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sent {
    /// When the update was generated.
    pub t_gen: Time,
    /// When the schedule wanted it out.
    pub t_due: Time,
    /// When its first bit left; none where the transport cannot know, or when it was withheld.
    pub t_sent: Option<Time>,
    /// Cluster, or [`NO_CLUSTER`].
    pub cluster: u16,
    /// Worker.
    pub worker: u32,
    /// Sequence number of the update at its worker.
    pub seq: u32,
    /// 0 for the first transmission.
    pub attempt: u8,
    /// Block or iteration in synchronous systems.
    pub block: Option<u32>,
    /// Frame length.
    pub bytes: u32,
    /// Reward; none for traffic that carries none.
    pub reward: Option<f32>,
}

/// Codes that stand in columns: an enumeration whose entries each have a code, a name and a sentence.
macro_rules! codes {
    ($(#[$meta:meta])* $kind:ident { $($entry:ident = $code:literal, $name:literal, $about:literal;)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum $kind {
            $(#[doc = $about] $entry = $code,)*
        }

        impl $kind {
            /// All, in the order of their codes.
            pub const ALL: [$kind; [$($code),*].len()] = [$($kind::$entry),*];

            /// Names of all, in the same order.
            pub const NAMES: [&'static str; $kind::ALL.len()] = [$($name),*];

            /// Name in reports.
            pub const fn name(self) -> &'static str {
                $kind::NAMES[self as usize]
            }

            /// What it says.
            pub const fn about(self) -> &'static str {
                match self {
                    $($kind::$entry => $about,)*
                }
            }
        }
    };
}

codes! {
    /// What a device did. `packet_in` is always the packet whose fate the row tells.
    Action {
        Queued = 0, "queued", "It waits in a queue.";
        Merged = 1, "merged", "It became part of `packet_out`.";
        Subsumed = 2, "subsumed", "`packet_out`, a newer update of the same worker, took its place.";
        Outranked = 3, "outranked", "`packet_out` took its place because of a higher reward.";
        Dropped = 4, "dropped", "It was dropped for `reason`.";
        Departed = 5, "departed", "Its first bit left the device.";
        Bypassed = 6, "bypassed", "It goes around the queue on the same link.";
        Arrived = 7, "arrived", "It arrived and waits for the engine to take it in.";
    }
}

codes! {
    /// Why a packet was dropped. The list is the enumeration that reports use.
    Reason {
        QueueFull = 0, "queue_full", "The queue had no free slot (and, for Olaf, none of the cluster to join).";
        RewardLow = 1, "reward_low", "Its reward was lower than the waiting update's by more than the threshold.";
        EngineBusy = 2, "engine_busy", "The engine's input buffer was full: it arrived faster than the engine's rate.";
        BypassFull = 3, "bypass_full", "The bypass around the queue was full.";
        NoRoute = 4, "no_route", "No route to where it goes.";
        Malformed = 5, "malformed", "Not a packet of the format it claims.";
        CountFull = 6, "count_full", "The waiting aggregate already represents as many updates as its 16-bit count can say.";
        Fault = 7, "fault", "A fault that the experiment asked for took it on a wire of the device.";
        Duplicate = 8, "duplicate", "The same source has contributed to the block already.";
        UnknownJob = 9, "unknown_job", "No such aggregation job is configured.";
        UnknownSource = 10, "unknown_source", "The job has no such source, or no longer.";
        TableFull = 11, "table_full", "The job has as many blocks under way as it may, or the device has no room for one more.";
        WrongCount = 12, "wrong_count", "It has another number of gradients than its block, or more than its job may.";
        Stale = 13, "stale", "It is of an earlier iteration than the block that is being aggregated.";
        Late = 14, "late", "Its block was finished without it, and the device remembers that (`target.tombstones`).";
        DeviceLost = 15, "device_lost", "The device that had added it to a sum failed before the sum left.";
        Inactive = 16, "inactive", "The device takes nothing: it failed, or another does its work.";
    }
}

impl Reason {
    /// May it be a copy that a network made which was dropped, and not the packet? Of protocols whose packets are sums by
    /// key: the others take no copies.
    pub const fn may_be_copy(self) -> bool {
        matches!(self, Reason::Duplicate | Reason::Fault | Reason::QueueFull | Reason::TableFull | Reason::Inactive)
    }
}

/// One line of a device's books.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Book {
    /// When.
    pub t: Time,
    /// Which device, as an index into the topology's nodes.
    pub node: u16,
    /// The packet whose fate this is.
    pub packet_in: PacketId,
    /// What happened to it.
    pub action: Action,
    /// The packet that stands in its place or carries it now.
    pub packet_out: Option<PacketId>,
    /// Why, for drops.
    pub reason: Option<Reason>,
}

codes! {
    /// Does the payload equal the aggregate recomputed in the books' order?
    SumOk {
        Yes = 0, "yes", "Bit for bit (or within the bound where there are no books).";
        No = 1, "no", "No.";
        Unknown = 2, "unknown", "Nobody knows what it should be.";
    }
}

/// One packet at the parameter server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Received {
    /// When its last bit arrived.
    pub t_recv: Time,
    /// Which packet.
    pub packet: PacketId,
    /// Cluster, or [`NO_CLUSTER`].
    pub cluster: u16,
    /// Worker of the newest member.
    pub newest_worker: u32,
    /// Sequence number of the newest member.
    pub newest_seq: u32,
    /// Generation time of the newest member.
    pub newest_gen: Time,
    /// How many updates its content represents.
    pub count: u16,
    /// Frame length.
    pub bytes: u32,
    /// Count-weighted mean reward.
    pub reward: Option<f32>,
    /// Did the server's reward gate accept it?
    pub accepted: bool,
    /// Does the payload hold the sum it should?
    pub sum_ok: SumOk,
    /// The server, as an index into the topology's nodes.
    pub node: u16,
    /// [`crate::wire::olaf::digest`] of the gradients, where the sum is verified after the run.
    pub digest: Option<u64>,
}

/// What a worker under transmission control knew and did (OLAF §5): one row per ACK and per generated update.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct State {
    /// When.
    pub t: Time,
    /// Who.
    pub worker: u32,
    /// Clusters that were active, as the last ACK says; 0 before the first.
    pub active: u16,
    /// Slots of that queue.
    pub capacity: u32,
    /// Slots in use.
    pub occupancy: u32,
    /// Time since the last ACK; none before the first.
    pub ack_age: Option<Time>,
    /// Probability with which it sends; none for a row about an ACK.
    pub p_send: Option<f32>,
    /// Did it send? None for a row about an ACK.
    pub sent: Option<bool>,
}

/// What an iteration was to a worker of synchronous training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Iteration {
    /// When it began: with its computation.
    pub t_start: Time,
    /// When the worker had computed its gradients, delays included, and began to send.
    pub t_ready: Time,
    /// When it had the results of all blocks.
    pub t_end: Time,
    /// How long it was held up as a straggler.
    pub delay: Time,
    /// Who.
    pub worker: u32,
    /// Its job.
    pub cluster: u16,
    /// Which iteration.
    pub iteration: u32,
    /// Blocks that it sent.
    pub sent: u32,
    /// Blocks that it did not send, since their result was there.
    pub skipped: u32,
    /// Results that lacked sources.
    pub degraded: u32,
    /// Sources of all results together.
    pub sources: u64,
    /// Gradients other than 0 that it contributed.
    pub elements: u64,
    /// It had all results when it wanted to begin, and computed nothing.
    pub missed: bool,
}

/// A result that a worker of synchronous training got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// When its last bit arrived.
    pub t_recv: Time,
    /// When the worker sent its own contribution to the block; none if it had not.
    pub t_sent: Option<Time>,
    /// Who.
    pub worker: u32,
    /// Its job.
    pub cluster: u16,
    /// The block, numbered over all iterations.
    pub seq: u32,
    /// Which result: the id under which the aggregate is known.
    pub packet: PacketId,
    /// Sources that it represents.
    pub count: u16,
    /// Not all of them.
    pub degraded: bool,
    /// The worker had a result of this block already.
    pub again: bool,
}

/// The name of a packet that arrived without one, as its content tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name {
    /// When its last bit arrived.
    pub t_recv: Time,
    /// The packet that holds the same; none if none is known to.
    pub packet: Option<PacketId>,
    /// Updates that it represents; 0 if that is not known.
    pub count: u16,
}

/// Part of the payload of a packet that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PayloadPart {
    /// When its last bit arrived.
    pub t_recv: Time,
    /// Which part, from 0.
    pub part: u16,
    /// How many words it has.
    pub count: u8,
    /// The words as they lay in it.
    pub words: [u32; LANES_MAX],
}

/// The lanes of a packet that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneWords {
    /// When its last bit arrived.
    pub t_recv: Time,
    /// Its cluster, or [`NO_CLUSTER`].
    pub cluster: u16,
    /// How many words it has.
    pub count: u8,
    /// The words as they lay in it.
    pub words: [u32; LANES_MAX],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_ids_hold_their_parts() {
        let id = PacketId::new(PacketId::WORKERS_MAX - 1, u32::MAX, 255);
        assert_eq!((id.worker(), id.seq(), id.attempt()), (PacketId::WORKERS_MAX - 1, u32::MAX, 255));
        assert_eq!(PacketId::new(1, 2, 3), PacketId((1 << 40) | (3 << 32) | 2));
    }

    #[test]
    fn codes_are_positions_in_the_lists() {
        assert!(Action::ALL.iter().enumerate().all(|(i, a)| *a as usize == i));
        assert!(Reason::ALL.iter().enumerate().all(|(i, r)| *r as usize == i));
        assert!(SumOk::ALL.iter().enumerate().all(|(i, s)| *s as usize == i));
        assert_eq!((Reason::CountFull.name(), Action::Merged.name()), ("count_full", "merged"));
    }
}
