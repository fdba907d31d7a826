//! Age-of-Model of all clusters and workers at once, as polars expressions. Either is a "flow" here.
//!
//! Called by [`crate::analyze`]; the definition is design §4. Every flow's sawtooth is the list of the
//! deliveries that lowered its age; between them the age grows by one second per second, so the time
//! average is an exact sum of trapezia, in integers, and a quantile over time an exact sweep over their ends.
//! `pktgen_capture` finds the same segments in a stream and takes its numbers from the same [`Sums`].
//! `pktgen_core::age::Sawtooth` is the oracle that the tests compare with.
//!
//! A worker may move to another cluster during a run. An update then belongs to the cluster in which it was
//! generated and to the one in which it was delivered: the former's age starts with it and lasts until it at
//! least, the latter is refreshed by it. Workers are refreshed whatever their cluster.

use std::ops::Range;

use pktgen_core::registry::suggest;
use pktgen_core::{Error, Result};
use polars::prelude::*;

use crate::fates::{Fates, is_update};
use crate::over_time::{self, Segment, Segments as Ends};
use crate::run::{NO_PACKET, Records};
use crate::table::polars_fault;
use pktgen_core::index::{self, Index};

const PS_PER_NS: f64 = 1000.0;
/// Shares of the time for which quantiles over time are given.
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
}

impl AgeOf {
    /// All, the default first.
    pub const ALL: [AgeOf; 3] = [AgeOf::Newest, AgeOf::Oldest, AgeOf::Mean];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            AgeOf::Newest => "newest",
            AgeOf::Oldest => "oldest",
            AgeOf::Mean => "mean",
        }
    }

    /// One line for the command line's help.
    pub fn about(self) -> &'static str {
        match self {
            AgeOf::Newest => "an aggregate is as old as its newest member",
            AgeOf::Oldest => "as its oldest member",
            AgeOf::Mean => "as its members on the mean",
        }
    }

    /// The choice called `name`; `at` says where the name stands.
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
    /// Cluster or worker number.
    pub id: u32,
    /// Time average; none if the window is empty.
    pub mean_ns: Option<f64>,
    /// Mean of the peaks; none if nothing lowered the age.
    pub peak_mean_ns: Option<f64>,
    /// Their 99th percentile.
    pub peak_p99_ns: Option<f64>,
    /// The largest.
    pub peak_max_ns: Option<f64>,
    /// Age that is not exceeded for 50 %, 90 % and 99 % of the time.
    pub quantiles_ns: Option<[f64; 3]>,
    /// Returns whether anything was delivered.
    pub delivered: bool,
}

/// A delivery that lowered the age: when, and the age before and after.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tooth {
    /// When.
    pub t_ps: i64,
    /// Age just before.
    pub before_ps: i64,
    /// Age just after.
    pub after_ps: i64,
}

/// The age of one cluster over its window, whole.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sawtooth {
    /// Which cluster.
    pub id: u32,
    /// When its window begins, and how old it is then.
    pub start: (i64, i64),
    /// When the window ends.
    pub end_ps: i64,
    /// The deliveries that lowered the age, in the order of time.
    pub teeth: Vec<Tooth>,
}

impl Sawtooth {
    /// The age at `t`, after what was delivered then.
    pub fn age_ps(&self, t: i64) -> f64 {
        let next = self.teeth.partition_point(|tooth| tooth.t_ps <= t);
        let (since, age) =
            next.checked_sub(1).map_or(self.start, |last| (self.teeth[last].t_ps, self.teeth[last].after_ps));
        age as f64 + (t as f64 - since as f64)
    }

    /// The teeth after `from` and up to `to`.
    pub fn inside(&self, from: i64, to: i64) -> &[Tooth] {
        let start = self.teeth.partition_point(|tooth| tooth.t_ps <= from);
        let end = self.teeth.partition_point(|tooth| tooth.t_ps <= to);
        &self.teeth[start..end.max(start)]
    }

    /// The mean age between `from` and `to`, as far as the window goes, in ns; none if that is no time at all.
    pub fn mean_ns(&self, from: i64, to: i64) -> Option<f64> {
        let (from, to) = (from.max(self.start.0), to.min(self.end_ps));
        if from >= to {
            return None;
        }
        // Exact in whole numbers: twice the area is the sum of (end − begin) · (end + begin) of the pieces.
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
    /// Of the clusters, by number.
    pub clusters: Vec<FlowAge>,
    /// Of the workers, by number.
    pub workers: Vec<FlowAge>,
    /// The sawteeth of the clusters, for plots.
    pub sawteeth: Vec<Sawtooth>,
}

impl Ages {
    /// Computes them.
    pub fn compute(records: &Records, fates: &Fates, age_of: AgeOf) -> Result<Ages> {
        let flows = Flows::find(records, fates);
        let events = Events::collect(records, fates, &flows, age_of);
        let delivered = events.delivered.clone();
        let (mut clusters, mut sawteeth) = summarise(events, &flows.ids, &delivered)?;
        let workers = clusters.split_off(flows.clusters);
        sawteeth.truncate(flows.clusters);
        Ok(Ages { clusters, workers, sawteeth })
    }
}

/// The flows of a run: clusters first, then workers, each sorted by number.
struct Flows {
    ids: Vec<u32>,
    clusters: usize,
    of_cluster: Index,
    of_worker: Index,
}

impl Flows {
    fn find(records: &Records, fates: &Fates) -> Flows {
        let sent = &records.sent;
        let rows = || (0..sent.cluster.len()).filter(|row| is_update(sent.cluster[*row]));
        // A device may know of a worker's move before the worker has generated anything in its new cluster.
        let delivered = (0..records.received.cluster.len()).filter(|row| !fates.members_of(*row).is_empty());
        let delivered = delivered.map(|row| records.received.cluster[row]).filter(|cluster| is_update(*cluster));
        let clusters = numbers(rows().map(|row| sent.cluster[row]).chain(delivered).map(u32::from));
        let workers = numbers(rows().map(|row| sent.worker[row]));
        let dense = |ids: &[u32], base: usize| {
            let mut flow = index::with_room(ids.len());
            flow.extend(ids.iter().enumerate().map(|(i, id)| (u64::from(*id), (base + i) as u32)));
            flow
        };
        let (of_cluster, of_worker) = (dense(&clusters, 0), dense(&workers, clusters.len()));
        let count = clusters.len();
        Flows { ids: [clusters, workers].concat(), clusters: count, of_cluster, of_worker }
    }

    fn cluster(&self, cluster: u16) -> Option<u32> {
        self.of_cluster.get(&u64::from(cluster)).copied()
    }

    fn worker(&self, worker: u32) -> Option<u32> {
        self.of_worker.get(&u64::from(worker)).copied()
    }
}

/// The different numbers of `all`, sorted.
pub(crate) fn numbers(all: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut seen = index::with_room(256);
    for id in all {
        seen.insert(u64::from(id), 0);
    }
    let mut ids: Vec<u32> = seen.into_keys().map(|id| id as u32).collect();
    ids.sort_unstable();
    ids
}

/// What an event does to a flow.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    /// The first generation: age 0.
    Start = 0,
    /// A delivery.
    Delivery = 1,
    /// The end of the window.
    End = 2,
}

/// Events of all flows, to become a frame. Starts come first and ends last, so that a stable sort by
/// flow and time puts them around the deliveries at the same time.
#[derive(Default)]
struct Events {
    flow: Vec<u32>,
    t: Vec<i64>,
    generation: Vec<i64>,
    kind: Vec<u8>,
    delivered: Vec<bool>,
}

impl Events {
    fn push(&mut self, flow: u32, t: i64, generation: i64, kind: Kind) {
        self.flow.push(flow);
        self.t.push(t);
        self.generation.push(generation);
        self.kind.push(kind as u8);
    }

    fn collect(records: &Records, fates: &Fates, flows: &Flows, age_of: AgeOf) -> Events {
        let n = flows.ids.len();
        let (mut start, mut end) = (vec![i64::MAX; n], vec![i64::MIN; n]);
        let sent = &records.sent;
        for row in 0..sent.t_gen_ps.len() {
            if !is_update(sent.cluster[row]) {
                continue;
            }
            for flow in [flows.cluster(sent.cluster[row]), flows.worker(sent.worker[row])].into_iter().flatten() {
                let (flow, t) = (flow as usize, sent.t_gen_ps[row]);
                start[flow] = start[flow].min(t);
                end[flow] = end[flow].max(t);
            }
        }
        // What is delivered in a cluster belongs to it, even if its worker generated it in another and has moved.
        for row in 0..records.received.cluster.len() {
            let Some(flow) = flows.cluster(records.received.cluster[row]) else { continue };
            let generations = fates.members_of(row).iter().map(|member| sent.t_gen_ps[*member as usize]);
            start[flow as usize] = generations.fold(start[flow as usize], i64::min);
        }
        let mut events = Events { delivered: vec![false; n], ..Default::default() };
        for (flow, &t) in start.iter().enumerate() {
            events.push(flow as u32, t, t, Kind::Start);
        }
        events.deliveries(records, fates, flows, age_of);
        for row in n..events.flow.len() {
            let flow = events.flow[row] as usize;
            end[flow] = end[flow].max(events.t[row]);
            events.delivered[flow] = true;
        }
        for (flow, &t) in end.iter().enumerate() {
            events.push(flow as u32, t, i64::MIN, Kind::End);
        }
        events
    }

    fn deliveries(&mut self, records: &Records, fates: &Fates, flows: &Flows, age_of: AgeOf) {
        let (sent, received) = (&records.sent, &records.received);
        for row in 0..received.t_recv_ps.len() {
            // Without a name the generation is unknown.
            if !is_update(received.cluster[row]) || received.packet.get(row) == Some(&NO_PACKET) {
                continue;
            }
            let t = received.t_recv_ps[row];
            let members = fates.members_of(row);
            let generations = || members.iter().map(|member| sent.t_gen_ps[*member as usize]);
            let newest = received.newest_gen_ps[row];
            let generation = match age_of {
                AgeOf::Newest => newest,
                AgeOf::Oldest => generations().min().unwrap_or(newest),
                AgeOf::Mean if members.is_empty() => newest,
                AgeOf::Mean => (generations().map(i128::from).sum::<i128>().div_euclid(members.len() as i128)) as i64,
            };
            if let Some(flow) = flows.cluster(received.cluster[row]) {
                self.push(flow, t, generation, Kind::Delivery);
            }
            for &member in members {
                if let Some(flow) = flows.worker(sent.worker[member as usize]) {
                    self.push(flow, t, generation, Kind::Delivery);
                }
            }
        }
    }

    fn frame(self) -> PolarsResult<DataFrame> {
        DataFrame::new_infer_height(vec![
            Column::new("flow".into(), self.flow),
            Column::new("t".into(), self.t),
            Column::new("generation".into(), self.generation),
            Column::new("kind".into(), self.kind),
        ])
    }
}

/// The segments between the deliveries that lower the age: `a` is the age at their start, `b` at their end.
fn segments(frame: DataFrame) -> PolarsResult<LazyFrame> {
    let is = |kind: Kind| col("kind").eq(lit(kind as u8));
    // One thread: frames are small, and a sweep analyses one run per core.
    let order = SortMultipleOptions::default().with_maintain_order(true).with_multithreaded(false);
    let fresh = col("generation").cum_max(false).over([col("flow")])?;
    Ok(frame
        .lazy()
        .sort(["flow", "t"], order)
        .with_column(fresh.alias("fresh"))
        // A flow's first row is its start, which neither of the two shifts below is used for.
        .with_column(col("fresh").shift(lit(1)).alias("old"))
        .filter(is(Kind::Delivery).not().or(col("generation").gt(col("old"))))
        .with_column(col("t").shift(lit(1)).alias("since"))
        .filter(is(Kind::Start).not())
        .select([
            col("flow"),
            col("t"),
            (col("since") - col("old")).alias("a"),
            (col("t") - col("old")).alias("b"),
            (col("t") - col("generation")).alias("after"),
            is(Kind::Delivery).alias("lower"),
        ]))
}

/// What is added up of a flow's sawtooth, in picoseconds and exactly: no number is rounded before the last step.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sums {
    /// Twice the area under it.
    pub(crate) twice_area: i128,
    /// How long it is.
    pub(crate) window: i128,
    /// Sum of the peaks, how many they are, and the largest.
    pub(crate) peak_sum: i128,
    pub(crate) peaks: u64,
    pub(crate) peak_max: i64,
}

impl Sums {
    /// Adds a segment in which the age grows from `a` to `b`, where it was lowered if `lower`.
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

    /// The age of flow `id` from the ends of all segments: the last one ends with the window, all others where it was lowered.
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

fn summarise(events: Events, flows: &[u32], delivered: &[bool]) -> Result<(Vec<FlowAge>, Vec<Sawtooth>)> {
    if events.flow.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    let collect = || -> PolarsResult<Segments> { Segments::read(&segments(events.frame()?)?.collect()?) };
    let segments = collect().map_err(polars_fault("computing the Age-of-Model"))?;
    let mut ages = Vec::with_capacity(flows.len());
    let (mut sawteeth, mut ends, mut end) = (Vec::with_capacity(flows.len()), Vec::<Segment>::new(), 0);
    // Sorted by flow; every flow has an end.
    for of_flow in segments.flow.chunk_by(|a, b| a == b) {
        let rows = end..end + of_flow.len();
        end = rows.end;
        let mut sums = Sums::default();
        ends.clear();
        for row in rows.clone() {
            let (a, b) = (segments.a[row], segments.b[row]);
            sums.add(a, b, segments.lower[row]);
            ends.push([a, b]);
        }
        let flow = of_flow[0] as usize;
        ages.push(sums.age(flows[flow], delivered[flow], ends.as_slice())?);
        sawteeth.push(segments.sawtooth(flows[flow], rows));
    }
    Ok((ages, sawteeth))
}

/// Columns of [`segments`].
struct Segments {
    flow: Vec<u32>,
    t: Vec<i64>,
    a: Vec<i64>,
    b: Vec<i64>,
    after: Vec<i64>,
    lower: Vec<bool>,
}

impl Segments {
    /// Those of one flow.
    fn sawtooth(&self, id: u32, rows: Range<usize>) -> Sawtooth {
        let (first, last) = (rows.start, rows.end - 1);
        let tooth = |row: usize| Tooth { t_ps: self.t[row], before_ps: self.b[row], after_ps: self.after[row] };
        Sawtooth {
            id,
            start: (self.t[first] - (self.b[first] - self.a[first]), self.a[first]),
            end_ps: self.t[last],
            teeth: rows.filter(|row| self.lower[*row]).map(tooth).collect(),
        }
    }

    fn read(frame: &DataFrame) -> PolarsResult<Segments> {
        let whole =
            |name: &str| -> PolarsResult<Vec<i64>> { Ok(frame.column(name)?.i64()?.into_no_null_iter().collect()) };
        Ok(Segments {
            flow: frame.column("flow")?.u32()?.into_no_null_iter().collect(),
            t: whole("t")?,
            a: whole("a")?,
            b: whole("b")?,
            after: whole("after")?,
            lower: frame.column("lower")?.bool()?.iter().map(|lower| lower == Some(true)).collect(),
        })
    }
}

#[cfg(test)]
#[path = "age_tests.rs"]
mod tests;
