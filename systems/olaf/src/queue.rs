//! OLAF's queue: opportunistic aggregation of waiting updates (§3, §4, Algorithm 1).
//!
//! At most one update per cluster waits; with the one in transmission, which is locked, up to two are
//! active (§12.1). An arrival that finds its cluster waiting
//! 1. takes the place of an unmerged update of the same worker, whatever the rewards (§3: the newer
//!    one subsumes it; Algorithm 1, lines 7–9);
//! 2. else is compared by reward (§3): comparable rewards merge (lines 10–15), a reward higher by more
//!    than the threshold takes the place of what waits, a lower one is dropped.
//!
//! Otherwise it is appended if there is a slot (lines 16–19), or else dropped (line 22). Positions are kept (§4,
//! "Dequeue Process"). The paper leaves open the order of rules 1 and 2 (our choice), whether a merge is a sum or a
//! mean (a sum, with the count in the header), and its reward (the mean weighted by counts, or optionally the maximum).

use std::collections::VecDeque;

use pktgen_core::config::{FromValue, KeyTables, Section, Value, settings};
use pktgen_core::record::{Action, PacketId, Reason};
use pktgen_core::registry::Named;
use pktgen_core::time::{NEVER, Time};
use pktgen_core::units::Span;
use pktgen_core::{Result, prefetch};
use pktgen_wire::wire::frame;
use pktgen_wire::wire::update::{FLAG_MERGED, Header, Status, UPDATE_HEAD, add_values};

use pktgen_engine::frame::{Frame, Pool};
use pktgen_engine::target::activity::Activity;
use pktgen_engine::target::books::Books;
use pktgen_engine::target::queue::fifo::read_slots;
use pktgen_engine::target::queue::{Discipline, Queue, Slots};

/// `queue = "olaf"`.
pub(crate) struct OlafDiscipline;

impl Named for OlafDiscipline {
    fn name(&self) -> &'static str {
        "olaf"
    }
    fn about(&self) -> &'static str {
        "one waiting update per cluster: newer updates replace it, others merge, low rewards are dropped"
    }
}

impl Discipline for OlafDiscipline {
    fn keys(&self) -> KeyTables {
        &[Slots::KEYS, Settings::KEYS]
    }

    fn needs_identified(&self) -> bool {
        true
    }

    fn open(&self, section: &mut Section, clusters: usize, slots: Option<u32>) -> Result<Box<dyn Queue>> {
        let (slots, hold_slot) = read_slots(section, slots, self.slots())?;
        let Settings { reward_filter, reward_threshold, active_window, merged_reward } = Settings::read(section)?;
        let settings = OlafSettings {
            slots,
            hold_slot,
            threshold: reward_filter.then_some(reward_threshold as f32),
            merged_reward,
            active_window: active_window.0,
        };
        Ok(Box::new(OlafQueue::new(settings, clusters)))
    }
}

/// Time for which a cluster counts as active after an arrival.
struct Window(Time);

impl FromValue for Window {
    fn takes() -> String {
        "a span of time above 0, or \"ever\"".to_owned()
    }

    fn from_value(value: &Value) -> Result<Self, String> {
        match (value, Span::from_value(value)) {
            (Value::Text(text), _) if text == "ever" => Ok(Window(NEVER)),
            (_, Ok(span)) if span.ps() > 0 => Ok(Window(span.ps())),
            (_, Ok(_)) => Err("a window of 0 holds no arrival; \"ever\" has no end".to_owned()),
            (_, Err(why)) => Err(why),
        }
    }
}

settings! {
    /// What it reads from `[target]` beside what all disciplines do.
    struct Settings {
        /// Whether rewards of updates are compared (§3).
        reward_filter: bool = true;
        /// Difference of rewards above which updates are not comparable.
        reward_threshold: f64 = 1.5 in 0.0.., "a threshold is not negative";
        /// Time for which a cluster counts as active after an arrival. §5 says "currently" without a figure: a second
        /// is our choice, three of the longest intervals between updates of §8.3.
        active_window: Window = "1s";
        /// Which reward a merged update carries.
        merged_reward: MergedReward = "mean" of [
            ("mean", MergedReward::Mean, "weighted by counts"), ("max", MergedReward::Max, "")
        ];
    }
}

/// The reward of a merged update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergedReward {
    /// The mean, weighted by counts.
    Mean,
    /// The maximum.
    Max,
}

/// Parameters of the queue.
#[derive(Debug, Clone, Copy)]
pub struct OlafSettings {
    /// Number of memory segments for one update each.
    pub slots: u32,
    /// Whether the update in transmission holds its slot.
    pub hold_slot: bool,
    /// Difference above which rewards are not comparable; `None` disables the filter.
    pub threshold: Option<f32>,
    /// The reward of a merged update.
    pub merged_reward: MergedReward,
    /// Time for which a cluster counts as active after an arrival.
    pub active_window: Time,
}

/// A waiting update.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    frame: Frame,
    header: Header,
    /// `R[u].flag` of Algorithm 1: unmerged, so that its own worker may replace it.
    replaceable: bool,
    /// Whether the header in memory is older than `header`.
    dirty: bool,
}

/// The queue.
pub struct OlafQueue {
    settings: OlafSettings,
    /// Waiting updates, oldest first.
    ring: VecDeque<Waiting>,
    /// Position of the oldest; positions only grow.
    head: u64,
    locked: bool,
    activity: Activity,
    /// `S` of Algorithm 1: 1 + position of the cluster's waiting update, 0 for none; indexed as in `activity`.
    position: Vec<u64>,
}

impl OlafQueue {
    /// Creates a queue for clusters below `clusters`.
    pub fn new(settings: OlafSettings, clusters: usize) -> Self {
        OlafQueue {
            // Long queues grow when used: a network may have a hundred thousand of them.
            ring: VecDeque::with_capacity((settings.slots as usize).min(16)),
            head: 0,
            locked: false,
            position: Vec::new(),
            activity: Activity::new(clusters, settings.active_window),
            settings,
        }
    }

    fn occupancy(&self) -> u64 {
        self.ring.len() as u64 + u64::from(self.locked && self.settings.hold_slot)
    }

    /// Appends at the tail, or drops if there is no slot.
    #[inline(always)]
    fn append(&mut self, place: usize, frame: &Frame, header: Header, pool: &mut Pool, books: &mut Books) {
        if self.occupancy() >= u64::from(self.settings.slots) {
            books.dropped(frame.t, frame, Reason::QueueFull, None);
            pool.release(frame.buffer);
            return;
        }
        books.passes(frame.t, frame, Action::Queued);
        let waiting = Waiting { frame: *frame, header, replaceable: header.count == 1, dirty: false };
        self.ring.push_back(waiting);
        self.position[place] = self.head + self.ring.len() as u64;
    }

    /// Notes the arrival of an update; returns its header and the place of its cluster, or `None` if no queue can hold it.
    #[inline(always)]
    fn arrival(&mut self, frame: &Frame, pool: &Pool) -> Option<(Header, usize)> {
        let header = Header::parse_update(pool.payload(frame))?;
        // The cluster is the one looked up by the device, not the one stated in the packet (§7).
        let place = self.activity.arrival(frame.t, frame.cluster)?;
        if place == self.position.len() {
            self.position.push(0);
        }
        Some((header, place))
    }

    /// Keeps, merges or drops an update; `found` is its header and the place of its cluster, `None` if no queue can hold it.
    #[inline(always)]
    fn offer(&mut self, frame: &Frame, found: Option<(Header, usize)>, pool: &mut Pool, books: &mut Books) {
        let Some((header, place)) = found else {
            return refuse(frame, Reason::Malformed, None, pool, books);
        };
        match self.position[place] {
            0 => self.append(place, frame, header, pool, books),
            position => {
                let waiting = &mut self.ring[(position - 1 - self.head) as usize];
                meet(waiting, frame, header, &self.settings, pool, books);
            }
        }
    }
}

/// Drops an update that no queue can hold.
#[cold]
fn refuse(frame: &Frame, reason: Reason, by: Option<PacketId>, pool: &mut Pool, books: &mut Books) {
    books.dropped(frame.t, frame, reason, by);
    pool.release(frame.buffer);
}

/// Writes `header` into an update and recomputes its checksum, if any.
pub(crate) fn relabel(header: &Header, frame: &Frame, pool: &mut Pool) {
    header.emit_update(pool.payload_mut(frame));
    let bytes = pool.bytes_mut(frame.buffer);
    if usize::from(frame.head) >= frame::HEAD && frame::has_udp_checksum(bytes) {
        frame::set_udp_checksum(&mut bytes[..usize::from(frame.len)]);
    }
}

/// Handles an arrival while `waiting`, an update of its cluster, waits.
#[inline(always)]
fn meet(
    waiting: &mut Waiting,
    frame: &Frame,
    header: Header,
    settings: &OlafSettings,
    pool: &mut Pool,
    books: &mut Books,
) {
    let same_worker = waiting.replaceable && header.count == 1 && waiting.header.worker == header.worker;
    if same_worker {
        if header.generation >= waiting.header.generation {
            take_place(waiting, frame, header, Action::Subsumed, pool, books);
        } else {
            // It was overtaken on the way here: the waiting update is newer.
            books.yields(frame.t, frame.packet, Action::Subsumed, waiting.frame.packet);
            pool.release(frame.buffer);
        }
        return;
    }
    if let Some(threshold) = settings.threshold {
        let difference = header.reward - waiting.header.reward;
        if difference > threshold {
            return take_place(waiting, frame, header, Action::Outranked, pool, books);
        }
        if difference < -threshold {
            books.dropped(frame.t, frame, Reason::RewardLow, Some(waiting.frame.packet));
            pool.release(frame.buffer);
            return;
        }
    }
    merge(waiting, frame, header, settings.merged_reward, pool, books);
}

/// Replaces the bytes of the waiting update by the arrival's; the position stays.
#[inline]
fn take_place(
    waiting: &mut Waiting,
    frame: &Frame,
    header: Header,
    action: Action,
    pool: &mut Pool,
    books: &mut Books,
) {
    books.yields(frame.t, waiting.frame.packet, action, frame.packet);
    pool.release(waiting.frame.buffer);
    *waiting = Waiting { frame: *frame, header, replaceable: header.count == 1, dirty: false };
}

/// Adds the arrival's gradients to the waiting update. The result is identified by its newest member.
#[inline(always)]
fn merge(waiting: &mut Waiting, frame: &Frame, new: Header, reward: MergedReward, pool: &mut Pool, books: &mut Books) {
    let old = waiting.header;
    let Some(count) = old.count.checked_add(new.count) else {
        return refuse(frame, Reason::CountFull, Some(waiting.frame.packet), pool, books);
    };
    if old.elements != new.elements {
        return refuse(frame, Reason::Malformed, Some(waiting.frame.packet), pool, books);
    }
    let bytes = usize::from(new.elements) * 4;
    let (sum, part) = pool.payload_pair(&waiting.frame, frame);
    add_values(&mut sum[UPDATE_HEAD..UPDATE_HEAD + bytes], &part[UPDATE_HEAD..UPDATE_HEAD + bytes]);
    let newest = if new.generation >= old.generation {
        books.yields(frame.t, waiting.frame.packet, Action::Merged, frame.packet);
        waiting.frame.packet = frame.packet;
        waiting.frame.worker = frame.worker;
        new
    } else {
        books.yields(frame.t, frame.packet, Action::Merged, waiting.frame.packet);
        old
    };
    waiting.header = Header {
        flags: old.flags | new.flags | FLAG_MERGED,
        count,
        reward: if reward == MergedReward::Mean { old.mean_reward(&new) } else { old.reward.max(new.reward) },
        ..newest
    };
    waiting.replaceable = false;
    waiting.dirty = true;
    pool.release(frame.buffer);
}

impl Queue for OlafQueue {
    fn enqueue(&mut self, burst: &[Frame], pool: &mut Pool, books: &mut Books) {
        for frame in burst {
            let found = self.arrival(frame, pool);
            self.offer(frame, found, pool, books);
        }
    }

    fn arrived(&mut self, frame: &Frame, pool: &Pool) {
        self.arrival(frame, pool);
    }

    fn admit(&mut self, frame: &Frame, pool: &mut Pool, books: &mut Books) {
        let found = Header::parse_update(pool.payload(frame)).zip(self.activity.place(frame.cluster));
        self.offer(frame, found, pool, books);
    }

    fn dequeue(&mut self, _t: Time, pool: &mut Pool) -> Option<Frame> {
        let waiting = self.ring.pop_front()?;
        self.head += 1;
        if self.ring.is_empty() {
            // The next one waits in the same memory, which may still be in a cache.
            self.ring.clear();
        }
        if let Some(place) = self.activity.place(waiting.frame.cluster) {
            self.position[place] = 0;
        }
        self.locked = true;
        if waiting.dirty {
            relabel(&waiting.header, &waiting.frame, pool);
        }
        Some(waiting.frame)
    }

    fn release(&mut self) {
        self.locked = false;
    }

    fn fetch(&self, step: usize, cluster: u16, pool: &Pool) -> Option<PacketId> {
        if step == 0 {
            self.activity.fetch(cluster);
            return None;
        }
        let place = self.activity.place(cluster)?;
        if step == 1 {
            self.activity.fetch_at(place);
            self.position.get(place).into_iter().for_each(prefetch);
            return None;
        }
        let position = self.position.get(place)?;
        let waiting = self.ring.get(position.checked_sub(1 + self.head)? as usize)?;
        prefetch(waiting);
        prefetch(pool.frame(&waiting.frame));
        Some(waiting.frame.packet)
    }

    fn status(&mut self, t: Time) -> Status {
        Status { occupancy: self.occupancy() as u32, active: self.activity.active(t), capacity: self.settings.slots }
    }

    fn waiting(&self) -> usize {
        self.ring.len()
    }
}

#[cfg(test)]
mod tests;
