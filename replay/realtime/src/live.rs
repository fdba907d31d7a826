//! Live statistics of a run in progress: per cluster, sent and received updates, and the age of the model.
//!
//! Off the packet path. A role passes deliveries through a ring without ever waiting, and counts sent updates in
//! separate counters per cluster; the viewer computes the rest from these: ages by [`Sawtooth`], rates of the last
//! second, and warnings about the device. Deliveries that do not fit the ring are counted and excluded from ages.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use pktgen_core::age::Sawtooth;
use pktgen_core::record::Received;
use pktgen_core::time::{NEVER, SECOND, Time};
use rtrb::{Consumer, Producer, RingBuffer};

use crate::driver::real_time::Progress;
use crate::target::program::Expected;

mod interval;
mod late;
#[cfg(test)]
mod tests;
mod warning;

pub use interval::{DeviceCounts, LiveTotals, StatsInterval};
pub(crate) use interval::{DeviceSlot, Sees};
use interval::{Intervals, Look, RawTotals};
use late::LateCounts;
pub use warning::{Refused, Warning, WarningKind};

/// Capacity for unread deliveries: a tenth of a second at two million per second.
const WAITING: usize = 1 << 18;
/// Maximum number of clusters counted separately; those beyond are included in totals only.
pub const CLUSTERS_MAX: usize = 4096;
/// Window of rates.
const WINDOW: Time = SECOND;

/// A packet with updates that arrived at its destination.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Delivered {
    pub(crate) t: Time,
    pub(crate) generation: Time,
    pub(crate) bytes: u32,
    pub(crate) cluster: u16,
    pub(crate) count: u16,
}

impl Delivered {
    /// A delivery from a row; `members` is the number of represented updates, if its lanes tell it.
    #[inline]
    pub(crate) fn of(row: &Received, members: Option<u16>) -> Self {
        let Received { t_recv: t, newest_gen: generation, bytes, count, .. } = *row;
        let count = members.unwrap_or(count);
        Delivered { t, generation, bytes, cluster: row.tenant(), count }
    }
}

/// The feed for a role's deliveries.
pub(crate) struct Feed {
    ring: Producer<Delivered>,
    skipped: Arc<AtomicU64>,
}

impl Feed {
    /// Passes a delivery on, or counts it if there is no room.
    #[inline]
    pub(crate) fn delivered(&mut self, delivered: Delivered) {
        if self.ring.push(delivered).is_err() {
            self.skipped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Updates that workers sent, by cluster.
pub(crate) struct SentBy {
    clusters: Vec<SentCount>,
    /// Updates of clusters that are not counted separately.
    others: SentCount,
    late: LateCounts,
    /// Time up to which departures are counted; [`NEVER`] if another process sends.
    until: AtomicI64,
    /// Counters of the sending threads of an open loop, if there are any.
    lanes: OnceLock<Box<[LaneCount]>>,
}

/// Updates of one cluster.
#[derive(Default)]
struct SentCount {
    count: AtomicU64,
    /// The newest generation of an update that was due, sent or not.
    newest: AtomicI64,
}

impl SentCount {
    /// Called only by the thread that keeps the workers' rows.
    #[inline]
    fn add(&self, count: u64) {
        self.count.store(self.count.load(Ordering::Relaxed) + count, Ordering::Relaxed);
    }
}

/// Progress of one sending thread of an open loop.
#[derive(Default)]
struct LaneCount {
    left: AtomicU64,
    /// Time up to which departures are counted.
    until: AtomicI64,
}

/// The feed of a sending thread of an open loop.
pub(crate) struct LaneFeed {
    sent: Arc<SentBy>,
    lane: usize,
}

impl LaneFeed {
    /// Records that `count` frames left at `now`, or that none had.
    #[inline]
    pub(crate) fn left(&self, count: usize, now: Time) {
        let Some(lane) = self.sent.lanes.get().and_then(|lanes| lanes.get(self.lane)) else { return };
        lane.left.store(lane.left.load(Ordering::Relaxed) + count as u64, Ordering::Relaxed);
        lane.until.store(now, Ordering::Release);
    }
}

impl SentBy {
    /// Records that all departures up to `t` are counted.
    #[inline]
    pub(crate) fn counted(&self, t: Time) {
        self.until.store(t, Ordering::Release);
    }

    /// Makes the feeds of `count` sending threads of an open loop.
    pub(crate) fn lanes(self: &Arc<Self>, count: usize) -> impl Iterator<Item = LaneFeed> {
        self.lanes.get_or_init(|| (0..count).map(|_| LaneCount::default()).collect());
        let sent = self.clone();
        (0..count).map(move |lane| LaneFeed { sent: sent.clone(), lane })
    }

    /// Returns the time up to which departures are counted in the total.
    fn total_until(&self) -> Time {
        match self.lanes.get() {
            Some(lanes) => lanes.iter().map(|lane| lane.until.load(Ordering::Acquire)).min().unwrap_or(NEVER),
            None => self.until.load(Ordering::Acquire),
        }
    }

    /// Returns the total; `counted` is the number in clusters and outside.
    fn total(&self, counted: u64) -> u64 {
        self.lanes.get().map_or(counted, |lanes| lanes.iter().map(|lane| lane.left.load(Ordering::Relaxed)).sum())
    }

    /// Counts a departure with its lateness. Called only by the thread that keeps the workers' rows.
    #[inline]
    pub(crate) fn count(&self, cluster: u16, late_ns: u64) {
        self.of(cluster).add(1);
        self.late.count(late_ns);
    }

    /// Records that a worker generated an update at `t`. Called only by the thread that keeps the workers' rows.
    #[inline]
    pub(crate) fn generated(&self, cluster: u16, t: Time) {
        let newest = &self.of(cluster).newest;
        newest.store(newest.load(Ordering::Relaxed).max(t), Ordering::Relaxed);
    }

    #[inline]
    fn of(&self, cluster: u16) -> &SentCount {
        self.clusters.get(usize::from(cluster)).unwrap_or(&self.others)
    }

    /// Counts departures of one cluster without deadlines. Called only by the thread that keeps the workers' rows.
    pub(crate) fn count_all(&self, cluster: u16, count: u64) {
        self.of(cluster).add(count);
    }
}

/// The parts of live statistics that a run uses.
pub(crate) struct Ends {
    pub(crate) feed: Feed,
    /// The feed of the workers, if results arrive at them beside packets at the server.
    pub(crate) results: Option<Feed>,
    pub(crate) sent: Arc<SentBy>,
    /// Storage for a launched device's counters, and the interval of requesting them, if they are wanted.
    pub(crate) device: (DeviceSlot, Option<Time>),
}

/// Live statistics: made once, for all runs of an experiment.
#[derive(Default)]
pub struct View {
    watched: Mutex<Option<Watched>>,
    every: Option<Time>,
}

impl View {
    /// Makes statistics with intervals of this length.
    pub fn with_intervals(every: Option<Time>) -> Self {
        View { every, ..View::default() }
    }

    /// Begins a run with this name and run dir, of which this process sees `sees`.
    pub(crate) fn begin(&self, (name, dir): (String, &Path), clusters: usize, expected: Expected, sees: Sees) -> Ends {
        let (ring, deliveries) = RingBuffer::new(WAITING);
        let (results, at_workers) = (sees.server && sees.results).then(|| RingBuffer::new(WAITING)).unzip();
        let skipped = Arc::new(AtomicU64::new(0));
        let clusters = clusters.min(CLUSTERS_MAX);
        let counts = (0..clusters).map(|_| SentCount::default()).collect();
        let (others, late) = (SentCount::default(), LateCounts::default());
        let sent =
            Arc::new(SentBy { clusters: counts, others, late, until: AtomicI64::new(NEVER), lanes: OnceLock::new() });
        let device = DeviceSlot::default();
        let watched = Watched {
            name,
            dir: dir.into(),
            expected,
            sees,
            totals: RawTotals::default(),
            base: RawTotals::default(),
            intervals: self.every.map(Intervals::new),
            device: device.clone(),
            deliveries: std::iter::once(deliveries).chain(at_workers).collect(),
            pending: VecDeque::new(),
            skipped: skipped.clone(),
            sent: sent.clone(),
            clusters: (0..clusters).map(|_| Cluster::default()).collect(),
            begun: 0,
            before: Progress::default(),
            warnings: Vec::new(),
            refused: None,
        };
        *self.watched.lock().unwrap_or_else(PoisonError::into_inner) = Some(watched);
        let results = results.map(|ring| Feed { ring, skipped: skipped.clone() });
        Ends { feed: Feed { ring, skipped }, results, sent, device: (device, self.every) }
    }

    /// Ends the statistics of a run: the next one may be in virtual time, and has none.
    pub(crate) fn end(&self) {
        *self.watched.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Restarts totals at 0; the records are not affected.
    pub fn reset(&self) {
        if let Some(watched) = self.watched.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            watched.base = watched.totals;
        }
    }

    /// Returns the current statistics; `None` before the first run in real time, and during runs in virtual time.
    pub fn look(&self, progress: &Progress) -> Option<Glance> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(|watched| watched.look(progress))
    }
}

/// The state of one run.
struct Watched {
    name: String,
    dir: Arc<Path>,
    expected: Expected,
    sees: Sees,
    /// Counts at the last look.
    totals: RawTotals,
    /// Counts at the last reset, which totals exclude.
    base: RawTotals,
    intervals: Option<Intervals>,
    device: DeviceSlot,
    /// One ring, or two: the server's and the workers'.
    deliveries: Vec<Consumer<Delivered>>,
    /// Deliveries not yet in the counts of clusters: their workers' departures up to then are counted later.
    pending: VecDeque<Delivered>,
    skipped: Arc<AtomicU64>,
    sent: Arc<SentBy>,
    clusters: Vec<Cluster>,
    /// Beginning of the current window.
    begun: Time,
    /// Progress at that time.
    before: Progress,
    warnings: Vec<Warning>,
    refused: Option<Refused>,
}

/// Totals of a cluster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClusterTotals {
    /// Updates that its workers sent.
    pub sent: u64,
    /// Packets that arrived.
    pub packets: u64,
    /// Updates that they represent.
    pub updates: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl ClusterTotals {
    /// Counts of a window of this length as counts per second: whoever looks late has a longer one.
    fn per_second(self, length: Time) -> ClusterTotals {
        let length = length.max(1) as u128;
        let rate = |n: u64| ((u128::from(n) * SECOND as u128 + length / 2) / length) as u64;
        let ClusterTotals { sent, packets, updates, bytes } = self;
        ClusterTotals { sent: rate(sent), packets: rate(packets), updates: rate(updates), bytes: rate(bytes) }
    }

    fn since(self, before: ClusterTotals) -> ClusterTotals {
        ClusterTotals {
            sent: self.sent.saturating_sub(before.sent),
            packets: self.packets - before.packets,
            updates: self.updates - before.updates,
            bytes: self.bytes - before.bytes,
        }
    }
}

#[derive(Default)]
struct Cluster {
    age: Sawtooth,
    totals: ClusterTotals,
    /// Totals at the beginning of the window, and counts of the previous window.
    before: ClusterTotals,
    last: ClusterTotals,
}

impl Cluster {
    /// Updates the age. The first observed update starts it: earlier updates that were lost are unknown here.
    fn observe(&mut self, delivered: &Delivered) {
        if !self.age.started() {
            self.age.generated(delivered.generation);
        }
        self.age.delivered(delivered.t, delivered.generation);
    }
}

impl Watched {
    fn look(&mut self, progress: &Progress) -> Glance {
        // Later arrivals wait, so that nothing arrives before it is counted as sent. Ages are of the totals' moment, since
        // a paused run holds rows of clusters back.
        let until =
            if progress.over { [NEVER; 2] } else { [self.sent.total_until(), self.sent.until.load(Ordering::Acquire)] };
        for deliveries in &mut self.deliveries {
            while deliveries.peek().is_ok_and(|delivered| delivered.t <= until[0]) {
                if let Ok(delivered) = deliveries.pop() {
                    self.totals.received += 1;
                    self.totals.represented += u64::from(delivered.count);
                    self.totals.received_bytes += u64::from(delivered.bytes);
                    if let Some(cluster) = self.clusters.get_mut(usize::from(delivered.cluster)) {
                        cluster.observe(&delivered);
                    }
                    self.pending.push_back(delivered);
                }
            }
        }
        while let Some(delivered) = self.pending.pop_front_if(|delivered| delivered.t <= until[1]) {
            self.take(delivered);
        }
        let now = progress.t.min(until[0]);
        self.count(progress, now);
        let progress = &self.agreed(progress);
        let length = progress.t - self.begun;
        if length >= WINDOW {
            self.turn(length);
            self.begun = progress.t;
            self.refused = Refused::between(&self.before, progress);
            self.before = *progress;
        }
        let interval = self.intervals.as_mut().and_then(|intervals| {
            let device = || self.device.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let look = Look {
                t: progress.t,
                over: progress.over,
                queued: progress.queued,
                totals: &self.totals,
                base: &self.base,
                sees: self.sees,
                late: &self.sent.late,
            };
            intervals.turn(&look, device)
        });
        let Sees { dated, sends, .. } = self.sees;
        let seen = |((id, cluster), sent): ((usize, &mut Cluster), &SentCount)| {
            // Of a finished cluster the mean ends, as in reports; another process knows no end.
            let newest = if sends { sent.newest.load(Ordering::Relaxed) } else { NEVER };
            cluster.age.advance(now.min(newest));
            ClusterStats {
                id: id as u16,
                totals: cluster.totals,
                last: cluster.last,
                age: (dated && cluster.age.started()).then(|| cluster.age.age_at(now)),
                age_mean_ps: cluster.age.mean().filter(|_| dated),
            }
        };
        Glance {
            name: self.name.clone(),
            dir: self.dir.clone(),
            progress: *progress,
            expected: self.expected,
            clusters: self.clusters.iter_mut().enumerate().zip(&self.sent.clusters).map(seen).collect(),
            skipped: self.totals.unread,
            warnings: self.warnings.clone(),
            refused: self.refused,
            totals: self.totals.since(&self.base).known(self.sees),
            interval,
        }
    }

    /// Counts sent updates, after received ones, so that nothing is received before it is sent.
    fn count(&mut self, progress: &Progress, now: Time) {
        for (cluster, sent) in self.clusters.iter_mut().zip(&self.sent.clusters) {
            cluster.totals.sent = sent.count.load(Ordering::Relaxed);
        }
        let apart: u64 = self.clusters.iter().map(|cluster| cluster.totals.sent).sum();
        let totals = &mut self.totals;
        totals.t = now.max(totals.t);
        totals.sent = self.sent.total(apart + self.sent.others.count.load(Ordering::Relaxed));
        totals.unread = self.skipped.load(Ordering::Relaxed);
        (totals.lost, totals.refused) = (progress.lost, progress.refused);
        if !self.sees.receives() {
            totals.received = progress.received;
        }
    }

    /// Returns the progress with counts of the same moment.
    fn agreed(&self, progress: &Progress) -> Progress {
        let sent =
            if self.sees.sends { progress.sent.max(progress.sent_before + self.totals.sent) } else { progress.sent };
        let received = match self.totals.unread {
            0 => self.totals.received,
            _ => progress.received,
        };
        Progress { sent, received, ..*progress }
    }

    fn take(&mut self, delivered: Delivered) {
        let Delivered { bytes, cluster, count, .. } = delivered;
        let Some(cluster) = self.clusters.get_mut(usize::from(cluster)) else { return };
        cluster.totals.packets += 1;
        cluster.totals.updates += u64::from(count);
        cluster.totals.bytes += u64::from(bytes);
    }

    /// Ends a window.
    fn turn(&mut self, length: Time) {
        self.warnings.clear();
        for (id, cluster) in self.clusters.iter_mut().enumerate() {
            let last = cluster.totals.since(cluster.before);
            cluster.before = cluster.totals;
            self.warnings.extend(Warning::of(self.expected, id as u16, &last, length));
            cluster.last = last.per_second(length);
        }
    }
}

/// The current statistics.
#[derive(Debug, Clone)]
pub struct Glance {
    /// Name of the run.
    pub name: String,
    /// Its run dir.
    pub dir: Arc<Path>,
    /// Its progress.
    pub progress: Progress,
    /// The expected effect of the device.
    pub expected: Expected,
    /// Statistics by cluster number.
    pub clusters: Vec<ClusterStats>,
    /// Deliveries excluded from ages and clusters, because they were not read in time.
    pub skipped: u64,
    /// Warnings about the last second.
    pub warnings: Vec<Warning>,
    /// Set if the workers' wire accepted nothing in that time.
    pub refused: Option<Refused>,
    /// Counts since the beginning of the run, or since the last reset.
    pub totals: LiveTotals,
    /// The completed interval, if there is one.
    pub interval: Option<StatsInterval>,
}

/// Statistics of a cluster.
#[derive(Debug, Clone, Copy)]
pub struct ClusterStats {
    /// Its number.
    pub id: u16,
    /// Totals since the beginning.
    pub totals: ClusterTotals,
    /// Counts per second in the last window, of a second or more.
    pub last: ClusterTotals,
    /// Its current Age-of-Model; none before the first arrival, and where packets carry no generation times.
    pub age: Option<Time>,
    /// Its mean from the first arrival's generation to the last generation or arrival.
    pub age_mean_ps: Option<f64>,
}
