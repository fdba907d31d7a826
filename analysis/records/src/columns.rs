//! Rows of streams as columns: what is read of them, batch by batch or whole.
//!
//! Used by all that reads records.

/// Stands for "no packet" in [`BookColumns::packet_out`].
pub const NO_PACKET: u64 = u64::MAX;
/// Stands for "no reason" in [`BookColumns::reason`].
pub const NO_REASON: u8 = u8::MAX;

/// Stands for "no heat" in [`ReceivedColumns::heat`].
pub(crate) const NO_HEAT: u8 = u8::MAX;

/// Columns of `sent`, one entry per transmission (or withheld update).
#[derive(Debug, Clone, Default)]
pub struct SentColumns {
    /// Generation times.
    pub t_gen_ps: Vec<i64>,
    /// Times of the first bit; none if withheld.
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
    /// Rewards, where updates have any.
    pub reward: Vec<Option<f32>>,
}

/// Columns of `books`, in the order in which things happened.
#[derive(Debug, Clone, Default)]
pub struct BookColumns {
    /// Times.
    pub t_ps: Vec<i64>,
    /// Devices.
    pub node: Vec<u16>,
    /// The packets whose fate the rows tell.
    pub packet_in: Vec<u64>,
    /// Codes of [`Action`], checked.
    pub action: Vec<u8>,
    /// The packets that stand in their place, or [`NO_PACKET`].
    pub packet_out: Vec<u64>,
    /// Codes of [`Reason`], checked, or [`NO_REASON`].
    pub reason: Vec<u8>,
}

/// Columns of `received`.
#[derive(Debug, Clone, Default)]
pub struct ReceivedColumns {
    /// Times of the last bit.
    pub t_recv_ps: Vec<i64>,
    /// Packets.
    pub packet: Vec<u64>,
    /// Clusters, or jobs.
    pub cluster: Vec<u16>,
    /// Generation times of the newest members.
    pub newest_gen_ps: Vec<i64>,
    /// Represented updates.
    pub count: Vec<u16>,
    /// Frame lengths.
    pub bytes: Vec<u32>,
    /// Whether the server's reward gate accepted them.
    pub accepted: Vec<bool>,
    /// Codes of [`Heat`], checked, or [`NO_HEAT`].
    pub heat: Vec<u8>,
    /// Whether a worker has all of a sum by key with it.
    pub last: Vec<bool>,
}

/// Columns of `states`: one entry per ACK at a worker and per update that it generated.
#[derive(Debug, Clone, Default)]
pub struct StateColumns {
    /// Times.
    pub t_ps: Vec<i64>,
    /// Workers.
    pub worker: Vec<u32>,
    /// Active clusters (N) as the last ACK said; 0 before the first.
    pub active: Vec<u16>,
    /// Slots of that queue (Qmax).
    pub capacity: Vec<u32>,
    /// Ages of the last ACK; none before the first.
    pub ack_age_ps: Vec<Option<i64>>,
    /// Probabilities of sending; none in entries about ACKs.
    pub p_send: Vec<Option<f32>>,
    /// Whether it was sent. None in entries about ACKs.
    pub sent: Vec<Option<bool>>,
}

/// What the content of each row of `received` says it is, where layouts carry no names.
#[derive(Debug, Clone, Default)]
pub struct NameColumns {
    /// Packets, or [`NO_PACKET`].
    pub packet: Vec<u64>,
    /// Represented updates; 0 where that is not known.
    pub count: Vec<u16>,
}

/// The lanes of each row of `received`.
#[derive(Debug, Clone, Default)]
pub struct LaneColumns {
    pub(crate) words: Vec<u32>,
    pub(crate) starts: Vec<usize>,
}

impl LaneColumns {
    /// The lanes of row `row` of `received`.
    pub(crate) fn words_of(&self, row: usize) -> &[u32] {
        match (self.starts.get(row), self.starts.get(row + 1)) {
            (Some(from), Some(to)) => &self.words[*from..*to],
            _ => &[],
        }
    }

    /// The lanes of one more row.
    #[cfg(test)]
    pub(crate) fn push(&mut self, words: &[u32]) {
        if self.starts.is_empty() {
            self.starts.push(0);
        }
        self.words.extend_from_slice(words);
        self.starts.push(self.words.len());
    }
}

/// The three streams, or rows of them.
#[derive(Debug, Clone, Default)]
pub struct Records {
    /// What workers sent.
    pub sent: SentColumns,
    /// What devices did.
    pub books: BookColumns,
    /// What reached the parameter server.
    pub received: ReceivedColumns,
}
