//! Age-of-Model of all clusters and workers. Both are called "flows" here.
//!
//! Called by [`crate::pass`], whose deliveries [`meter`] converts into segments; the definition is design §4. The sawtooth of a flow is
//! the list of the deliveries that lowered its age; between these, the age grows by one second per second, so the time average is an exact
//! sum of trapezia in integers, and a quantile over time an exact sweep over their ends. `pktgen_capture` finds the same segments in a
//! stream and uses the same [`Sums`]. Tests compare with `pktgen_core::age::Sawtooth`.
//!
//! A worker may move to another cluster during a run. An update then belongs both to the cluster in which it was
//! generated and to the one in which it was delivered: the age of the former begins with it and lasts at least until
//! it; the latter is refreshed by it. Workers are refreshed regardless of their cluster.

use pktgen_core::index;
use pktgen_core::registry::suggest;
use pktgen_core::{Error, Result};

use crate::column::{NumberList, PairList};
use crate::columns::{NO_PACKET, Records};
use crate::over_time::{self, Segment, Segments as Ends};
use crate::quantile::Values;

pub(crate) mod meter;

use meter::{Arrival, Meters};

const PS_PER_NS: f64 = 1000.0;
/// Shares of the time for quantiles over time.
const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];

/// Which member's generation time an aggregate carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AgeOf {
    /// The newest member's: the default.
    #[default]
    Newest,
    /// The oldest member's.
    Oldest,
    /// The mean over the members, rounded down to a picosecond.
    Mean,
    /// The newest member's for its cluster; for each worker its own update's.
    Own,
}

impl AgeOf {
    /// All choices, the default first.
    pub const ALL: [AgeOf; 4] = [AgeOf::Newest, AgeOf::Oldest, AgeOf::Mean, AgeOf::Own];

    /// Returns its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            AgeOf::Newest => "newest",
            AgeOf::Oldest => "oldest",
            AgeOf::Mean => "mean",
            AgeOf::Own => "own",
        }
    }

    /// Returns one line for the command line's help.
    pub fn about(self) -> &'static str {
        match self {
            AgeOf::Newest => "an aggregate has the age of its newest member",
            AgeOf::Oldest => "an aggregate has the age of its oldest member",
            AgeOf::Mean => "an aggregate has the mean age of its members",
            AgeOf::Own => "as newest for clusters; a worker has the age of its own update in the aggregate",
        }
    }

    /// Returns the choice with this name; `at` is the position of the name, for errors.
    pub fn named(name: &str, at: &str) -> Result<AgeOf> {
        AgeOf::ALL.into_iter().find(|choice| choice.name() == name).ok_or_else(|| {
            let names = AgeOf::ALL.map(AgeOf::name);
            let near = suggest(name, &names);
            Error::config(format!("{at}: there is no age \"{name}\"{near}; there are: {}", names.join(", ")))
        })
    }
}

/// The age of one flow.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowAge {
    /// Number of the cluster or worker.
    pub id: u32,
    /// Time average; `None` if the window is empty.
    pub mean_ns: Option<f64>,
    /// Mean of the peaks; `None` if nothing lowered the age.
    pub peak_mean_ns: Option<f64>,
    /// 99th percentile of the peaks.
    pub peak_p99_ns: Option<f64>,
    /// The largest peak.
    pub peak_max_ns: Option<f64>,
    /// Ages that are not exceeded for 50 %, 90 % and 99 % of the time.
    pub quantiles_ns: Option<[f64; 3]>,
    /// Whether anything was delivered.
    pub delivered: bool,
}

/// A delivery that lowered the age: its time, and the age before and after.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tooth {
    /// When.
    pub t_ps: i64,
    /// Age just before.
    pub before_ps: i64,
    /// Age just after.
    pub after_ps: i64,
}

/// The complete age of one cluster over its window.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sawtooth {
    /// Which cluster.
    pub id: u32,
    /// Beginning of its window, and the age at that time.
    pub start: (i64, i64),
    /// When the window ends.
    pub end_ps: i64,
    /// The deliveries that lowered the age, in chronological order.
    pub teeth: Vec<Tooth>,
}

impl Sawtooth {
    /// Returns the age at `t`, after deliveries at that time.
    pub fn age_ps(&self, t: i64) -> f64 {
        let next = self.teeth.partition_point(|tooth| tooth.t_ps <= t);
        let (since, age) =
            next.checked_sub(1).map_or(self.start, |last| (self.teeth[last].t_ps, self.teeth[last].after_ps));
        age as f64 + (t as f64 - since as f64)
    }

    /// Returns the teeth after `from` and up to `to`.
    pub fn inside(&self, from: i64, to: i64) -> &[Tooth] {
        let start = self.teeth.partition_point(|tooth| tooth.t_ps <= from);
        let end = self.teeth.partition_point(|tooth| tooth.t_ps <= to);
        &self.teeth[start..end.max(start)]
    }

    /// Returns the mean age between `from` and `to`, limited to the window, in ns; `None` if the interval is empty.
    pub fn mean_ns(&self, from: i64, to: i64) -> Option<f64> {
        let (from, to) = (from.max(self.start.0), to.min(self.end_ps));
        if from >= to {
            return None;
        }
        // Exact in integers: twice the area is the sum of (end − begin) · (end + begin) over the pieces.
        let begin = self.inside(i64::MIN, from).last().map_or(self.start, |tooth| (tooth.t_ps, tooth.after_ps));
        let mut twice = 0i128;
        let (mut t, mut age) = (i128::from(from), i128::from(begin.1) + i128::from(from) - i128::from(begin.0));
        let teeth = self.inside(from, to).iter().map(|tooth| (i128::from(tooth.t_ps), i128::from(tooth.after_ps)));
        for (at, after) in teeth.chain([(i128::from(to), 0)]) {
            twice = twice.saturating_add((at - t).saturating_mul(2 * age + (at - t)));
            (t, age) = (at, after);
        }
        Some(twice as f64 / 2.0 / (to as f64 - from as f64) / 1000.0)
    }
}

/// Ages of all flows of a run.
#[derive(Debug, Clone, Default)]
pub struct Ages {
    /// Ages of the clusters, by number.
    pub clusters: Vec<FlowAge>,
    /// Ages of the workers, by number.
    pub workers: Vec<FlowAge>,
    /// Sawteeth of the clusters, for plots.
    pub traces: Vec<Trace>,
}

/// The sawtooth of a cluster as a list of segments.
#[derive(Debug, Clone)]
pub struct Trace {
    /// Which cluster.
    pub id: u32,
    /// When its window begins.
    start: i64,
    segments: NumberList,
}

impl Trace {
    /// Returns all of it in memory.
    pub fn sawtooth(&self) -> Result<Sawtooth> {
        let (mut t, mut begin, mut teeth) = (self.start, None, Vec::<Tooth>::new());
        // Segments are in chronological order, and each lasts as long as the age grows. The last one ends with the window.
        PairList(&self.segments).scan(&mut |part| {
            for &[from, to] in part {
                match teeth.last_mut() {
                    Some(tooth) => tooth.after_ps = from,
                    None => begin = Some(from),
                }
                t = t.wrapping_add(to.wrapping_sub(from));
                teeth.push(Tooth { t_ps: t, before_ps: to, after_ps: 0 });
            }
        })?;
        teeth.pop();
        Ok(Sawtooth { id: self.id, start: (self.start, begin.unwrap_or(0)), end_ps: t, teeth })
    }

    /// Returns the beginning and the end of its window.
    pub fn window(&self) -> Result<(i64, i64)> {
        let mut end = self.start;
        PairList(&self.segments)
            .scan(&mut |part| part.iter().for_each(|[from, to]| end = end.wrapping_add(to.wrapping_sub(*from))))?;
        Ok((self.start, end))
    }
}

impl Ages {
    /// Computes the ages from records in memory; `members_of` returns the updates in each row of `received`, as rows of `sent`.
    pub fn compute<'a>(records: &Records, members_of: impl Fn(usize) -> &'a [u32], age_of: AgeOf) -> Result<Ages> {
        let (sent, received) = (&records.sent, &records.received);
        let member = |row: &u32| (sent.worker[*row as usize], sent.t_gen_ps[*row as usize]);
        Meters::settled(age_of, |meters| {
            (0..sent.cluster.len())
                .for_each(|row| meters.generated(sent.cluster[row], sent.worker[row], sent.t_gen_ps[row]));
            meters.begin();
            for row in 0..received.cluster.len() {
                let named = received.packet.get(row) != Some(&NO_PACKET);
                let arrival = Arrival {
                    t: received.t_recv_ps[row],
                    cluster: received.cluster[row],
                    newest: named.then_some(received.newest_gen_ps[row]),
                };
                meters.delivered(arrival, members_of(row).iter().map(member));
            }
            Ok(())
        })
    }

    /// Returns the sawteeth of the first `most` clusters.
    pub fn sawteeth(&self, most: usize) -> Result<Vec<Sawtooth>> {
        self.traces.iter().take(most).map(Trace::sawtooth).collect()
    }
}

/// Segments of several flows, one flow after another.
impl Ends for [Trace] {
    fn len(&self) -> usize {
        self.iter().map(|trace| PairList(&trace.segments).len()).sum()
    }

    fn scan(&self, each: &mut dyn FnMut(&[Segment])) -> Result<()> {
        self.iter().try_for_each(|trace| PairList(&trace.segments).scan(each))
    }
}

/// The peaks of several flows.
pub struct PeaksOf<'a>(pub &'a [Trace]);

impl Values for PeaksOf<'_> {
    fn len(&self) -> usize {
        self.0.iter().map(|trace| PairList(&trace.segments).len().saturating_sub(1)).sum()
    }

    fn scan(&self, each: &mut dyn FnMut(&[i64])) -> Result<()> {
        self.0.iter().try_for_each(|trace| over_time::Peaks(&PairList(&trace.segments)).scan(each))
    }
}

/// Returns the distinct numbers of `all`, sorted.
pub(crate) fn numbers(all: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut seen = index::with_room(256);
    for id in all {
        seen.insert(u64::from(id), 0);
    }
    let mut ids: Vec<u32> = seen.into_keys().map(|id| id as u32).collect();
    ids.sort_unstable();
    ids
}

/// Sums over a flow's sawtooth, exact in picoseconds: nothing is rounded before the last step.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sums {
    /// Twice the area under it.
    pub(crate) twice_area: i128,
    /// Length of its window.
    pub(crate) window: i128,
    /// Sum of the peaks, their number, and the largest.
    pub(crate) peak_sum: i128,
    pub(crate) peaks: u64,
    pub(crate) peak_max: i64,
}

impl Sums {
    /// Adds a segment in which the age grows from `a` to `b`; `lower` if a delivery lowered it at the end.
    #[inline]
    pub fn add(&mut self, a: i64, b: i64, lower: bool) {
        let (from, to) = (i128::from(a), i128::from(b));
        self.twice_area += to * to - from * from;
        self.window += to - from;
        if lower {
            self.peak_sum += to;
            self.peak_max = if self.peaks == 0 { b } else { self.peak_max.max(b) };
            self.peaks += 1;
        }
    }

    /// Computes the age of flow `id` with the ends of all segments: the last one ends with the window, all others with
    /// a delivery that lowered the age.
    pub fn age(&self, id: u32, delivered: bool, segments: &(impl Ends + ?Sized)) -> Result<FlowAge> {
        let ns = |ps: f64| ps / PS_PER_NS;
        let some = self.peaks > 0;
        let found = over_time::quantiles(segments, &QUANTILES, 0.99)?;
        Ok(FlowAge {
            id,
            mean_ns: (self.window > 0).then(|| ns(self.twice_area as f64 / 2.0 / self.window as f64)),
            peak_mean_ns: some.then(|| ns(self.peak_sum as f64 / self.peaks as f64)),
            peak_p99_ns: found.peak.map(|p99| ns(p99 as f64)),
            peak_max_ns: some.then(|| ns(self.peak_max as f64)),
            quantiles_ns: found.over_time.map(|ages| [0, 1, 2].map(|i| ns(ages[i]))),
            delivered,
        })
    }
}

#[cfg(test)]
#[path = "age_tests.rs"]
mod tests;
