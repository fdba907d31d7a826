//! Computes ages from deliveries in the order in which they are read: state per flow, and a list of segments that may exceed memory.
//!
//! Called by [`crate::pass`]. A flow's beginning must be known before its first delivery, and its deliveries must be in
//! chronological order. Both hold for all but a few runs. If a member turns out to be older than its flow, or a
//! delivery is out of order, the pass is repeated with that knowledge ([`Meters::settled`]).

use std::cmp::Reverse;
use std::collections::BTreeMap;

use pktgen_core::Result;

use super::{AgeOf, Ages, FlowAge, Sums, Trace};
use crate::column::{NumberList, PairList, Shared};
use crate::fates::is_update;
use crate::places::Places;

/// A packet arriving at the server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) t: i64,
    pub(crate) cluster: u16,
    /// The generation time that it carries; `None` for a packet without an id.
    pub(crate) newest: Option<i64>,
}

/// What must be known about a flow in advance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    start: i64,
    /// Whether its deliveries must be sorted.
    disordered: bool,
}

/// One flow.
#[derive(Debug)]
struct Flow {
    id: u32,
    /// First and last generation.
    generated: (i64, i64),
    /// The beginning, including its deliveries.
    oldest: i64,
    last: i64,
    /// The newest generation delivered.
    fresh: i64,
    /// Beginning of the open segment.
    since: i64,
    delivered: bool,
    disordered: bool,
    /// Deliveries that have to be sorted.
    waiting: Option<Vec<(i64, i64)>>,
    sums: Sums,
    segments: NumberList,
}

impl Flow {
    fn new(id: u32) -> Flow {
        Flow {
            id,
            generated: (i64::MAX, i64::MIN),
            oldest: i64::MAX,
            last: i64::MIN,
            fresh: i64::MIN,
            since: 0,
            delivered: false,
            disordered: false,
            waiting: None,
            sums: Sums::default(),
            segments: NumberList::default(),
        }
    }

    #[inline]
    fn generated(&mut self, t: i64) {
        self.generated = (self.generated.0.min(t), self.generated.1.max(t));
    }

    /// Ends the generations: its age is 0 at the first one.
    fn begin(&mut self, known: Option<&Known>) {
        if let Some(known) = known {
            self.generated.0 = self.generated.0.min(known.start);
            self.waiting = known.disordered.then(Vec::new);
        }
        let start = self.generated.0;
        (self.oldest, self.fresh, self.since) = (start, start, start);
    }

    #[inline]
    fn deliver(&mut self, t: i64, generation: i64) {
        self.delivered = true;
        if let Some(waiting) = &mut self.waiting {
            self.last = self.last.max(t);
            return waiting.push((t, generation));
        }
        if t < self.last {
            self.disordered = true;
            return;
        }
        self.last = t;
        self.lower(t, generation);
    }

    #[inline]
    fn lower(&mut self, t: i64, generation: i64) {
        if generation <= self.fresh {
            return;
        }
        // A flow has no age before its beginning.
        if t >= self.generated.0 {
            self.close(t, true);
            self.since = t;
        }
        self.fresh = generation;
    }

    /// Ends the open segment.
    #[inline]
    fn close(&mut self, t: i64, lower: bool) {
        let segment = [self.since.wrapping_sub(self.fresh), t.wrapping_sub(self.fresh)];
        self.segments.push_pair(segment);
        self.sums.add(segment[0], segment[1], lower);
    }

    /// Returns what another pass must know about this flow; `None` if this pass was correct.
    fn again(&self) -> Option<Known> {
        let disordered = self.disordered || self.waiting.is_some();
        let wrong = self.disordered || self.oldest < self.generated.0;
        let known = Known { start: self.oldest.min(self.generated.0), disordered };
        wrong.then_some(known)
    }

    /// Ends the window.
    fn finish(&mut self) {
        let mut waiting = self.waiting.take().unwrap_or_default();
        waiting.sort_by_key(|(t, _)| *t);
        waiting.iter().for_each(|(t, generation)| self.lower(*t, *generation));
        self.close(self.generated.1.max(self.last), false);
    }

    fn age(&self) -> Result<FlowAge> {
        self.sums.age(self.id, self.delivered, &PairList(&self.segments))
    }
}

/// All clusters, or all workers.
#[derive(Debug, Default)]
struct Flows {
    places: Places,
    all: Vec<Flow>,
    known: BTreeMap<u32, Known>,
}

impl Flows {
    #[inline]
    fn of(&mut self, id: u32) -> &mut Flow {
        let place = self.places.place(id);
        if place == self.all.len() {
            self.all.push(Flow::new(id));
        }
        &mut self.all[place]
    }

    #[inline]
    fn get(&mut self, id: u32) -> Option<&mut Flow> {
        self.all.get_mut(self.places.get(id)?)
    }

    fn begin(&mut self) {
        let known = std::mem::take(&mut self.known);
        known.keys().for_each(|id| _ = self.of(*id));
        self.all.iter_mut().for_each(|flow| flow.begin(known.get(&flow.id)));
        self.known = known;
    }

    /// Stores what another pass must know; returns whether one is necessary.
    fn again(&mut self) -> bool {
        let found: Vec<_> = self.all.iter().filter_map(|flow| Some((flow.id, flow.again()?))).collect();
        let wrong = !found.is_empty();
        for (id, new) in found {
            let known = self.known.entry(id).or_insert(new);
            *known = Known { start: known.start.min(new.start), disordered: known.disordered || new.disordered };
        }
        wrong
    }

    fn finish(&mut self) {
        self.all.iter_mut().for_each(Flow::finish);
        self.all.sort_unstable_by_key(|flow| flow.id);
    }

    fn held(&self) -> usize {
        self.all.iter().map(|flow| flow.segments.held()).sum()
    }
}

/// All flows of a run.
#[derive(Debug, Default)]
pub(crate) struct Meters {
    age_of: AgeOf,
    clusters: Flows,
    workers: Flows,
    /// Workers and generations of the members of a packet.
    own: Vec<(u32, i64)>,
}

impl Meters {
    /// Computes ages from `pass`, which is called again if it finds facts that must be known in advance. It first reports all generations
    /// ([`generated`](Self::generated)), then calls [`begin`](Self::begin), then reports all deliveries ([`delivered`](Self::delivered)).
    pub(crate) fn settled(age_of: AgeOf, mut pass: impl FnMut(&mut Meters) -> Result<()>) -> Result<Ages> {
        let mut meters = Meters { age_of, ..Meters::default() };
        loop {
            pass(&mut meters)?;
            match meters.again() {
                Some(next) => meters = next,
                None => return meters.finish(),
            }
        }
    }

    /// Records that an update of `worker` in `cluster` was generated.
    #[inline]
    pub(crate) fn generated(&mut self, cluster: u16, worker: u32, t: i64) {
        if is_update(cluster) {
            self.clusters.of(u32::from(cluster)).generated(t);
            self.workers.of(worker).generated(t);
        }
    }

    /// Ends the generations.
    pub(crate) fn begin(&mut self) {
        self.clusters.begin();
        self.workers.begin();
    }

    /// Records a packet that arrived with these members: worker and generation time of each.
    #[inline]
    pub(crate) fn delivered(&mut self, packet: Arrival, members: impl Iterator<Item = (u32, i64)> + Clone) {
        if !is_update(packet.cluster) {
            return;
        }
        // A delivery in a cluster belongs to it, even if its worker generated the update in another one and has moved.
        let (mut oldest, mut count, mut sum) = (i64::MAX, 0, 0i128);
        for (_, t) in members.clone() {
            oldest = oldest.min(t);
            (count, sum) = (count + 1, sum + i128::from(t));
        }
        let cluster = if count > 0 {
            // A device may know of a worker's move before the worker has generated anything in its new cluster.
            let flow = self.clusters.of(u32::from(packet.cluster));
            flow.oldest = flow.oldest.min(oldest);
            Some(flow)
        } else {
            self.clusters.get(u32::from(packet.cluster))
        };
        // Without an id the generation is unknown.
        let Some(newest) = packet.newest else { return };
        let generation = match self.age_of {
            AgeOf::Oldest if count > 0 => oldest,
            AgeOf::Mean if count > 0 => sum.div_euclid(count) as i64,
            _ => newest,
        };
        if let Some(flow) = cluster {
            flow.deliver(packet.t, generation);
        }
        if self.age_of == AgeOf::Own {
            return self.deliver_own(packet.t, members);
        }
        for (worker, _) in members {
            if let Some(flow) = self.workers.get(worker) {
                flow.deliver(packet.t, generation);
            }
        }
    }

    /// Makes one delivery per worker, with the newest of its updates in the packet.
    fn deliver_own(&mut self, t: i64, members: impl Iterator<Item = (u32, i64)>) {
        self.own.clear();
        self.own.extend(members);
        self.own.sort_unstable_by_key(|(worker, generation)| (*worker, Reverse(*generation)));
        self.own.dedup_by_key(|(worker, _)| *worker);
        for (worker, generation) in &self.own {
            if let Some(flow) = self.workers.get(*worker) {
                flow.deliver(t, *generation);
            }
        }
    }

    /// Returns the number of numbers in memory.
    pub(crate) fn held(&self) -> usize {
        self.clusters.held() + self.workers.held()
    }

    /// Moves these numbers to `file`.
    pub(crate) fn spill(&mut self, file: &Shared) -> Result<()> {
        let mut flows = self.clusters.all.iter_mut().chain(&mut self.workers.all);
        flows.try_for_each(|flow| flow.segments.spill(file).map(drop))
    }

    /// Returns meters for another pass, with the facts found by this one; `None` if this pass was correct.
    pub(crate) fn again(&mut self) -> Option<Meters> {
        let wrong = [self.clusters.again(), self.workers.again()];
        let next = |flows: &mut Flows| Flows { known: std::mem::take(&mut flows.known), ..Flows::default() };
        let (clusters, workers) = (&mut self.clusters, &mut self.workers);
        wrong.contains(&true).then(|| Meters {
            age_of: self.age_of,
            clusters: next(clusters),
            workers: next(workers),
            own: Vec::new(),
        })
    }

    /// Ends the windows of all flows.
    pub(crate) fn finish(mut self) -> Result<Ages> {
        self.clusters.finish();
        self.workers.finish();
        let clusters = ages(&self.clusters.all)?;
        let workers = ages(&self.workers.all)?;
        let trace = |flow: Flow| Trace { id: flow.id, start: flow.generated.0, segments: flow.segments };
        Ok(Ages { clusters, workers, traces: self.clusters.all.into_iter().map(trace).collect() })
    }
}

/// Number of segments above which flows are summarised on two cores.
const MANY: usize = 1 << 18;

fn ages(flows: &[Flow]) -> Result<Vec<FlowAge>> {
    let few = flows.iter().map(|flow| flow.sums.peaks as usize).sum::<usize>() < MANY;
    let all = |flows: &[Flow]| flows.iter().map(Flow::age).collect::<Result<Vec<FlowAge>>>();
    if few || flows.len() < 2 {
        return all(flows);
    }
    let (front, back) = flows.split_at(flows.len() / 2);
    std::thread::scope(|scope| {
        let back = scope.spawn(|| all(back));
        let mut front = all(front)?;
        front.append(&mut back.join().unwrap_or_else(|fault| std::panic::resume_unwind(fault))?);
        Ok(front)
    })
}
