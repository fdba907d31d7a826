//! The layout of lanes and their number: both follow from a few numbers, so that the reader of a capture derives the
//! same layout from the manifest.

use serde::{Deserialize, Serialize};

use super::LANES_MAX;
use crate::seed::mix;

/// Encoding of gradients on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Number {
    /// Little-endian f32s: whole numbers below 2²⁴ are exact.
    F32,
    /// 32-bit integers in network order. Lanes stay below 2³¹, so that devices that saturate do no harm.
    I32,
}

impl Number {
    /// Encodes a whole number as a summand.
    #[inline]
    pub fn of_whole(self, value: u32) -> u32 {
        match self {
            Number::F32 => (value as f32).to_bits(),
            Number::I32 => value,
        }
    }

    /// Encodes a word for a packet.
    #[inline]
    pub fn bytes(self, word: u32) -> [u8; 4] {
        match self {
            Number::F32 => word.to_le_bytes(),
            Number::I32 => word.to_be_bytes(),
        }
    }

    /// Decodes a word of a packet.
    #[inline]
    pub fn word(self, bytes: [u8; 4]) -> u32 {
        match self {
            Number::F32 => u32::from_le_bytes(bytes),
            Number::I32 => u32::from_be_bytes(bytes),
        }
    }
}

/// How a device combines two payloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Merge {
    /// Their sum.
    Sum,
    /// The mean of all members, regardless of the order of merging.
    Mean,
    /// The mean of two payloads, regardless of their members: (a + b) / 2 at every merge.
    RunningMean,
}

/// What lanes identify.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Detail {
    /// The number of updates.
    Count,
    /// The number of updates of each worker.
    Who,
    /// The updates themselves.
    Which,
}

/// Requirements of a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// What lanes identify.
    pub detail: Detail,
    /// How devices merge.
    pub merge: Merge,
    /// An arriving update is among the last `window` that its worker sent.
    pub window: u32,
}

/// Bits of a digit in running means: a member may be merged seven times.
const DEPTH_BITS: u32 = 8;
/// Minimum useful length of a hash, in bits.
const CHECK_MIN: u32 = 8;

/// The lanes of a run.
///
/// In the order of lanes: a one; for `Who` digits of workers; for `Which` a hash of worker and sequence number, then
/// marks, one per update, determined by worker and sequence number. Where members share their number: a one, the
/// number, the hash, and one mark per worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// Encoding of gradients.
    pub number: Number,
    /// How devices merge.
    pub merge: Merge,
    /// What lanes identify.
    pub detail: Detail,
    /// Most workers of a cluster.
    pub workers: u32,
    /// Sequence numbers of a worker that marks distinguish.
    pub window: u32,
    /// Whether all members of a sum have the same sequence number, and each worker contributes once.
    pub shared: bool,
    /// Bits of a member's hash.
    pub check_bits: u32,
}

/// Why a layout is impossible: the setting that demands too much, and the reason.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The setting, of section `format`.
    pub key: &'static str,
    /// The reason in words.
    pub why: String,
}

impl Refusal {
    fn of(key: &'static str, why: impl Into<String>) -> Self {
        Refusal { key, why: why.into() }
    }
}

/// Returns the number of bits that `n` needs.
fn bits_of(n: u64) -> u32 {
    64 - n.leading_zeros()
}

impl Layout {
    /// Returns the layout for clusters of up to `workers` workers and packets of at least `elements` gradients, or the reason for none.
    /// The format decides the encoding of gradients, and whether all members of a sum have the same sequence number.
    pub fn plan((number, shared): (Number, bool), ask: Ask, workers: u32, elements: usize) -> Result<Layout, Refusal> {
        let Ask { detail, merge, window } = ask;
        if window == 0 {
            return Err(Refusal::of("lanes_window", "0 updates cannot be distinguished; use 1 or more"));
        }
        if merge != Merge::Sum && number == Number::I32 {
            let why = "a mean of integers loses its remainder, and lanes with it; means need f32 gradients";
            return Err(Refusal::of("lanes_merge", why));
        }
        if merge != Merge::Sum && detail != Detail::Which {
            let why = "the mean of ones is one, whatever their number; of means use lanes = \"which\"";
            return Err(Refusal::of("lanes", why));
        }
        let layout = Layout { number, merge, detail, workers, window, shared, check_bits: 0 };
        let layout = Layout { check_bits: layout.bits_beside_sum(), ..layout };
        layout.fits(elements).map(|()| layout)
    }

    /// Returns whether a layout read from a file is one that a run can have.
    pub fn is_sound(&self) -> bool {
        let told = self.merge == Merge::Sum || (self.number == Number::F32 && self.detail == Detail::Which);
        let least = if self.detail == Detail::Which { 1 } else { 0 };
        self.window > 0 && told && (least..=self.bits()).contains(&self.check_bits) && self.fits(LANES_MAX).is_ok()
    }

    fn fits(&self, elements: usize) -> Result<(), Refusal> {
        let (need, room) = (self.lanes(), elements.min(LANES_MAX));
        let (workers, window) = (self.workers, self.window);
        if self.detail == Detail::Who && self.digit_bits() > self.bits() {
            let why = format!("the count of {window} updates is more than a lane's {} bits", self.bits());
            return Err(Refusal::of("lanes_window", why));
        }
        if self.detail == Detail::Which && self.check_bits < CHECK_MIN {
            let why = format!(
                "sums of up to {workers} · {window} updates leave {} of the {} bits of a lane to a hash, and {CHECK_MIN} are the \
                 least; lower format.lanes_window",
                self.check_bits,
                self.bits()
            );
            return Err(Refusal::of("lanes", why));
        }
        if need <= room {
            return Ok(());
        }
        let fitting = |window: &u32| Layout { window: *window, ..*self }.lanes() <= room;
        // Larger windows never need fewer lanes.
        let (mut most, mut high) = (0, window.saturating_sub(1));
        while most < high {
            let middle = most + (high - most).div_ceil(2);
            (most, high) = if fitting(&middle) { (middle, high) } else { (most, middle - 1) };
        }
        let advice = match most {
            1.. if !self.shared => format!("lower format.lanes_window to {most} or less"),
            _ => "use lanes = \"who\" or \"count\"".to_owned(),
        };
        let why = format!(
            "{need} lanes are needed for clusters of {workers} workers and windows of {window} updates, {} updates to a lane; the \
             smallest packet has {elements} gradients, and at most {LANES_MAX} can be lanes; {advice}, or make packets larger",
            self.per_lane()
        );
        Err(Refusal::of("lanes", why))
    }

    /// Returns whether the lanes of f32 sums name their members, so that the sums can be recomputed.
    pub fn proves_sums(&self) -> bool {
        self.number == Number::F32 && self.merge == Merge::Sum && self.detail == Detail::Which
    }

    /// Returns the number of lanes.
    pub fn lanes(&self) -> usize {
        let marks = self.marks().div_ceil(u64::from(self.per_lane().max(1)));
        // Capped: no packet has as many.
        self.before_marks() + marks.min(1 << 20) as usize
    }

    /// Returns the number of lanes ahead of the marks.
    #[inline]
    pub fn before_marks(&self) -> usize {
        match (self.detail, self.shared) {
            (Detail::Count | Detail::Who, _) => 1,
            (Detail::Which, false) => 2,
            (Detail::Which, true) => 3,
        }
    }

    /// Returns the usable bits of a lane.
    #[inline]
    pub fn bits(&self) -> u32 {
        match (self.number, self.merge) {
            (Number::I32, _) => 31,
            // A mean is rounded: multiplied by the number of members, its nearest integer must still be the sum.
            (Number::F32, Merge::Mean) => 20,
            (Number::F32, _) => 24,
        }
    }

    /// Returns the bits of a mark.
    #[inline]
    pub fn digit_bits(&self) -> u32 {
        match (self.detail, self.merge) {
            (Detail::Who, _) if self.shared => 1,
            (Detail::Who, _) => bits_of(self.window.into()),
            (_, Merge::RunningMean) => DEPTH_BITS,
            _ => 1,
        }
    }

    /// Returns the marks, or digits, per lane.
    #[inline]
    pub fn per_lane(&self) -> u32 {
        self.bits() / self.digit_bits()
    }

    /// Returns the total number of marks.
    pub fn marks(&self) -> u64 {
        match self.detail {
            Detail::Count => 0,
            Detail::Who => self.workers.into(),
            Detail::Which if self.shared => self.workers.into(),
            Detail::Which => u64::from(self.workers) * u64::from(self.window),
        }
    }

    /// Returns the maximum number of updates in a sum that lanes can hold.
    pub fn members_max(&self) -> u64 {
        if self.shared { self.workers.into() } else { u64::from(self.workers) * u64::from(self.window) }
    }

    /// Returns the bits of a number whose sum over all members fits a lane.
    #[inline]
    fn bits_beside_sum(&self) -> u32 {
        let of_sum = if self.merge == Merge::RunningMean { DEPTH_BITS } else { bits_of(self.members_max()) };
        self.bits().saturating_sub(of_sum)
    }

    /// Returns the bits of a sequence number that members share.
    #[inline]
    pub fn number_bits(&self) -> u32 {
        self.bits_beside_sum()
    }

    /// Returns the hash of a member.
    #[inline]
    pub fn check(&self, rank: u32, seq: u32) -> u32 {
        let key = 0x6c61_6e65_0000_0000 ^ (u64::from(rank) << 32 | u64::from(seq));
        (mix(key) >> (64 - self.check_bits)) as u32
    }

    /// Returns the mark of a member.
    #[inline]
    pub fn mark(&self, rank: u32, seq: u32) -> u32 {
        if self.shared || self.detail == Detail::Who { rank } else { rank * self.window + seq % self.window }
    }

    /// Calls `put` with the nonzero lanes of an update, as whole numbers.
    #[inline]
    pub fn each(&self, rank: u32, seq: u32, mut put: impl FnMut(usize, u32)) {
        put(0, 1);
        if self.detail == Detail::Count {
            return;
        }
        if self.detail == Detail::Which {
            if self.shared {
                put(1, seq & ((1 << self.number_bits()) - 1));
            }
            put(self.before_marks() - 1, self.check(rank, seq));
        }
        let (mark, per_lane) = (self.mark(rank, seq), self.per_lane());
        let digit = mark % per_lane * self.digit_bits();
        put(self.before_marks() + (mark / per_lane) as usize, 1 << digit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(
        format: &str,
        detail: Detail,
        merge: Merge,
        (workers, window): (u32, u32),
        elements: usize,
    ) -> Result<usize, Refusal> {
        let form = if format == "olaf" { (Number::F32, false) } else { (Number::I32, true) };
        Layout::plan(form, Ask { detail, merge, window }, workers, elements).map(|layout| layout.lanes())
    }

    #[test]
    fn lanes_that_are_needed() {
        use Detail::*;
        use Merge::*;
        for (format, detail, merge, size, lanes) in [
            ("olaf", Count, Sum, (3, 64), 1),
            // Seven bits count up to 64; three digits per lane.
            ("olaf", Who, Sum, (3, 64), 2),
            ("olaf", Who, Sum, (4, 64), 3),
            // 192 marks, 24 per lane.
            ("olaf", Which, Sum, (3, 64), 10),
            ("olaf", Which, Mean, (3, 64), 12),
            ("olaf", Which, RunningMean, (3, 40), 42),
            ("trio_ml", Which, Sum, (6, 64), 4),
            ("switchml", Which, Sum, (32, 64), 5),
            ("switchml", Who, Sum, (31, 64), 2),
        ] {
            assert_eq!(plan(format, detail, merge, size, 46), Ok(lanes), "{format} {detail:?} {merge:?} {size:?}");
        }
    }

    #[test]
    fn what_cannot_be_told_is_refused_with_its_limit() {
        use Detail::*;
        use Merge::*;
        for (format, detail, merge, size, elements, part) in [
            ("olaf", Which, Sum, (3, 64), 9, "10 lanes are needed"),
            ("olaf", Which, Sum, (3, 64), 9, "lanes_window to 56"),
            ("olaf", Which, Sum, (30, 64), 2000, "at most 64"),
            ("trio_ml", Which, Sum, (6, 64), 3, "use lanes = \"who\""),
            ("trio_ml", Which, Mean, (6, 64), 99, "remainder"),
            ("olaf", Count, Mean, (3, 64), 46, "mean of ones is one"),
            ("olaf", Which, RunningMean, (3, 64), 46, "lanes_window to 44"),
            ("olaf", Which, RunningMean, (3, u32::MAX), 46, "lanes_window to 44"),
            ("olaf", Which, Sum, (1, 1 << 20), 46, "leave 3 of the 24 bits"),
            ("olaf", Which, Sum, (3, 0), 46, "0 updates"),
        ] {
            let message = plan(format, detail, merge, size, elements).unwrap_err().why;
            assert!(message.contains(part), "{part}: {message}");
        }
        let key = |merge, window| plan("trio_ml", Which, merge, (6, window), 99).unwrap_err().key;
        assert_eq!([key(Mean, 64), key(Sum, 0)], ["lanes_merge", "lanes_window"]);
    }
}
