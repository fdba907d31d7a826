//! Rows of streams as columns: the data that is read, batch by batch or at once.
//!
//! Used by all readers of records.

pub use pktgen_workload::lanes::LaneColumns;

/// Denotes "no packet" in [`BookColumns::packet_out`].
pub const NO_PACKET: u64 = u64::MAX;
/// Denotes "no reason" in [`BookColumns::reason`].
pub const NO_REASON: u8 = u8::MAX;

/// Denotes "no heat" in [`ReceivedColumns::heat`].
pub(crate) const NO_HEAT: u8 = u8::MAX;

/// Columns of `sent`, one entry per transmission (or withheld update).
#[derive(Debug, Clone, Default)]
pub struct SentColumns {
    /// Generation times.
    pub t_gen_ps: Vec<i64>,
    /// Times of the first bit; `None` if withheld.
    pub t_sent_ps: Vec<Option<i64>>,
    /// Clusters, or jobs.
    pub cluster: Vec<u16>,
    /// Workers.
    pub worker: Vec<u32>,
    /// Sequence numbers.
    pub seq: Vec<u32>,
    /// Attempts.
    pub attempt: Vec<u8>,
    /// Frame lengths.
    pub bytes: Vec<u32>,
    /// Rewards, if updates have any.
    pub reward: Vec<Option<f32>>,
}

/// Columns of `books`, in the order of events.
#[derive(Debug, Clone, Default)]
pub struct BookColumns {
    /// Times.
    pub t_ps: Vec<i64>,
    /// Devices.
    pub node: Vec<u16>,
    /// Ids of the packets that the events happened to.
    pub packet_in: Vec<u64>,
    /// Codes of [`Action`], checked.
    pub action: Vec<u8>,
    /// Ids of the packets that replace them, or [`NO_PACKET`].
    pub packet_out: Vec<u64>,
    /// Codes of [`Reason`], checked, or [`NO_REASON`].
    pub reason: Vec<u8>,
}

/// Columns of `received`.
#[derive(Debug, Clone, Default)]
pub struct ReceivedColumns {
    /// Times of the last bit.
    pub t_recv_ps: Vec<i64>,
    /// Packet ids.
    pub packet: Vec<u64>,
    /// Clusters, or jobs.
    pub cluster: Vec<u16>,
    /// Generation times of the newest members.
    pub newest_gen_ps: Vec<i64>,
    /// Represented updates.
    pub count: Vec<u16>,
    /// Frame lengths.
    pub bytes: Vec<u32>,
    /// Whether their receiver took their content.
    pub accepted: Vec<bool>,
    /// Codes of [`Heat`], checked, or [`NO_HEAT`].
    pub heat: Vec<u8>,
    /// Whether this part completes a sum by key at a worker.
    pub last: Vec<bool>,
    /// Whether their content is a wrong sum.
    pub wrong: Vec<bool>,
}

/// Columns of `states`: one entry per ACK at a worker and per update that it generated.
#[derive(Debug, Clone, Default)]
pub struct StateColumns {
    /// Times.
    pub t_ps: Vec<i64>,
    /// Workers.
    pub worker: Vec<u32>,
    /// Number of active clusters (N) in the last ACK; 0 before the first.
    pub active: Vec<u16>,
    /// Slots of that queue (Qmax).
    pub capacity: Vec<u32>,
    /// Ages of the last ACK; `None` before the first.
    pub ack_age_ps: Vec<Option<i64>>,
    /// Probabilities of sending; `None` in entries about ACKs.
    pub p_send: Vec<Option<f32>>,
    /// Whether the update was sent; `None` in entries about ACKs.
    pub sent: Vec<Option<bool>>,
}

/// Id of each row of `received` derived from its contents, for layouts without ids.
#[derive(Debug, Clone, Default)]
pub struct NameColumns {
    /// Packet ids, or [`NO_PACKET`].
    pub packet: Vec<u64>,
    /// Number of represented updates; 0 if unknown.
    pub count: Vec<u16>,
}

/// The three main streams, or some rows of them.
#[derive(Debug, Clone, Default)]
pub struct Records {
    /// Transmissions of workers.
    pub sent: SentColumns,
    /// Events in devices.
    pub books: BookColumns,
    /// Arrivals at the parameter server.
    pub received: ReceivedColumns,
}
