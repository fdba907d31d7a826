//! Adds up events: counts, Age-of-Model, rates, latency. Memory does not grow with the length of the capture, only with the number of
//! workers and clusters; lists of numbers for quantiles go to a temporary file ([`pktgen_records::column`]).

mod jobs;
mod kinds;
mod sides;

use std::collections::{BTreeSet, HashSet};
use std::hash::BuildHasherDefault;

use pktgen_core::record::PacketId;
use pktgen_core::{Error, Result};
use pktgen_wire::wire::sight::{AttemptMarks, Delivery, Renewal, Sight, What};
use pktgen_wire::wire::{FORMATS_MAX, Format, Formats};

use super::flow::FlowMeter;
use super::numbers::{LatestPackets, Seen, Senders, update_of};
use super::recent::Recent;
use super::sums::Sums;
use super::window::{Known, Window};
use super::{Event, Side};
use jobs::Jobs;
use pktgen_core::index::{IdHasher, NOWHERE};
use pktgen_records::age::FlowAge;
use pktgen_records::column::{NumberList, Shared};
use pktgen_records::fates::is_update;
use pktgen_records::metric::throughput::AtServer;

/// Maximum number of workers in a capture: more indicate damage or another format.
const WORKERS_MAX: usize = 1 << 20;
/// Minimum number of sent packets whose times are remembered; the maximum is twice that.
const PENDING: usize = 1 << 22;
/// The same for received packets that were not sent before.
const AHEAD: usize = 1 << 18;

/// Packets by format and purpose.
pub(super) type Kinds = [[u64; What::ALL.len()]; FORMATS_MAX];

/// A cluster or a worker.
#[derive(Default)]
struct Flow {
    id: u32,
    age: FlowMeter,
}

#[derive(Default)]
struct Worker {
    flow: Flow,
    sent: Transmissions,
    received: Transmissions,
    /// Lowest and highest sequence number received.
    seqs: Option<(u32, u32)>,
}

/// Transmissions of a worker's updates captured at one side.
#[derive(Default)]
struct Transmissions {
    first: Window,
    /// Later transmissions, by attempt.
    later: Vec<(u8, Window)>,
    /// Sequence numbers of updates regardless of the transmission, if there were later transmissions.
    updates: Option<Box<Window>>,
}

/// Maps ids to dense indices.
#[derive(Default)]
struct Places(Vec<u32>);

impl Places {
    /// Returns the index of `id`, or assigns `next` if it is new.
    #[inline]
    fn of(&mut self, id: u32, next: usize) -> usize {
        let id = id as usize;
        if id >= self.0.len() {
            self.0.resize((id + 1).next_power_of_two(), NOWHERE);
        }
        let place = &mut self.0[id];
        if *place == NOWHERE {
            *place = next as u32;
        }
        *place as usize
    }
}

/// Send times of the latest packets.
type Pending = Recent<u64, i64, BuildHasherDefault<IdHasher>>;

/// A worker of a cluster, with its format.
type Source = (u8, u16, u32);

/// Returns how each format delivers updates.
fn deliveries(formats: Formats) -> [Delivery; FORMATS_MAX] {
    let mut all = [Delivery::Updates; FORMATS_MAX];
    all.iter_mut().zip(formats).for_each(|(delivery, format)| *delivery = format.delivery());
    all
}

/// All counters.
pub(super) struct Meter {
    clusters: Vec<Flow>,
    cluster_places: Places,
    workers: Vec<Worker>,
    worker_places: Places,
    /// See [`WORKERS_MAX`]; lower in tests.
    workers_max: usize,
    pending: Option<Pending>,
    /// Arrival times of packets whose sending was not captured.
    ahead: Option<Pending>,
    deliveries: [Delivery; FORMATS_MAX],
    sums: Sums,
    /// Numbers of updates without a generation time, by side.
    numbers: [Senders; 2],
    /// Latest packets of senders whose packets have an exact attempt, at the senders' side.
    latest: LatestPackets,
    /// Workers with updates without a generation time, by side, if there is a capture of the senders.
    sources: [HashSet<Source>; 2],
    /// Jobs at the server.
    jobs: Jobs,
    latency_ps: NumberList,
    /// See [`Meter::allow_early`].
    early_within_ps: i64,
    file: Shared,
    held: usize,
    held_max: usize,
    pub(super) totals: Totals,
}

/// Counters that do not belong to flows.
pub(super) struct Totals {
    /// All known formats.
    pub(super) formats: Formats,
    /// By side.
    pub(super) kinds: [Kinds; 2],
    /// Background traffic by side.
    pub(super) background: [u64; 2],
    /// Transmissions of updates, and those of them that are retransmissions.
    pub(super) sent: u64,
    pub(super) resent: u64,
    /// Number of different updates among them, and of packets with several.
    pub(super) sent_updates: u64,
    pub(super) sent_aggregates: u64,
    /// Updates whose number came before, by side: numbers restarted.
    pub(super) anew: [u64; 2],
    /// How often numbers of updates without generation times restarted, or a copy came late, by side.
    pub(super) restarts: [u64; 2],
    /// Transmissions that the senders' captures already contained; those too old to be recognised are counted as sent.
    pub(super) copies: u64,
    /// Packets with updates at the server.
    pub(super) received: u64,
    /// Number of packets by how many updates they represent.
    pub(super) bins: Vec<u64>,
    /// Number of different updates that packets represent.
    pub(super) represented: u64,
    /// Number of updates in different transmissions.
    pub(super) transmitted: u64,
    /// Whether packets with several updates arrived, and whether any packet was a retransmission.
    pub(super) aggregates: bool,
    pub(super) repeats: bool,
    /// Packets that were received before, and those too old to be recognised.
    pub(super) duplicates: u64,
    pub(super) late: u64,
    /// First copies of results, and those of them whose number of updates only contributions show.
    pub(super) results: u64,
    pub(super) results_of_all: u64,
    /// Results that may or may not be copies.
    pub(super) ambiguous: u64,
    /// See [`Sums::unclear`] and [`Sums::elsewhere`].
    pub(super) unclear: u64,
    pub(super) elsewhere: u64,
    /// Results whose number of contributors is unknown.
    pub(super) uncounted_results: u64,
    /// Packets of formats without a generation time or a worker.
    pub(super) ageless: u64,
    /// Different transmissions received whose sending was not captured.
    pub(super) unseen: u64,
    /// Sums of which a result has more sources than the senders' captures have contributions.
    pub(super) short_sums: u64,
    /// Whether some of the unseen packets may have been captured, and were forgotten.
    pub(super) forgot: bool,
    /// Whether the server's captures have contributions of a worker that the senders' captures lack.
    pub(super) unsent_workers: bool,
    /// Formats of jobs of which the server's captures have contributions and no result.
    pub(super) silent_jobs: BTreeSet<String>,
    /// Whether packets arrived without the header that the senders' captures have: which of these they deliver is not known.
    pub(super) bare: bool,
    /// Received packets that were sent later, and the maximum difference in ps.
    pub(super) backwards: u64,
    pub(super) backwards_ps: i64,
    /// Received packets whose sending was captured.
    pub(super) matched: u64,
    /// Whether any packet carried a generation time.
    pub(super) timed: bool,
    /// Rates.
    pub(super) at_server: AtServer,
    /// Number of elements, those of the first packet, and times of the first and last arrival.
    pub(super) elements: u64,
    pub(super) first_elements: u64,
    pub(super) received_ps: Option<(i64, i64)>,
    /// Times of the first and last sending.
    pub(super) sent_ps: Option<(i64, i64)>,
    /// Transmissions before the first arrival, and after the last.
    pub(super) sent_outside: [u64; 2],
    /// The largest latency, and the largest time between two arrivals.
    pub(super) latency_max_ps: i64,
    pub(super) pause_max_ps: i64,
}

impl Totals {
    /// Records the time of a transmission.
    #[inline]
    fn sent_at(&mut self, event: &Event) {
        let t = event.t;
        self.sent_aggregates += u64::from(event.sight.count > 1);
        let (first, last) = self.sent_ps.unwrap_or((t, t));
        self.sent_ps = Some((first.min(t), last.max(t)));
        self.sent_outside[0] += u64::from(self.received_ps.is_none());
        self.sent_outside[1] += 1;
    }

    /// Records a packet that delivered updates.
    #[inline]
    fn delivered(&mut self, event: &Event) {
        let (sight, t) = (&event.sight, event.t);
        self.received += 1;
        self.bins[usize::from(sight.count)] += 1;
        self.at_server.add(t, event.bytes, sight.count);
        self.sent_outside[1] = 0;
        let elements = u64::from(sight.elements) * u64::from(sight.count);
        self.elements += elements;
        match &mut self.received_ps {
            Some((first, last)) => {
                // Captures are not necessarily in the order of time.
                if t < *first {
                    (*first, self.first_elements) = (t, elements);
                }
                self.pause_max_ps = self.pause_max_ps.max(t.saturating_sub(*last));
                *last = (*last).max(t);
            }
            None => (self.received_ps, self.first_elements) = (Some((t, t)), elements),
        }
    }

    /// Makes every packet, counted as one update so far, represent `n` updates.
    fn multiply(&mut self, n: u16) {
        self.bins.swap(1, n.into());
        self.represented *= u64::from(n);
        self.transmitted *= u64::from(n);
        self.elements *= u64::from(n);
        self.first_elements *= u64::from(n);
        self.at_server.multiply(n);
    }

    /// Returns the number of different updates that arrived; `None` if an aggregate may hold a retransmitted one, since
    /// aggregates do not list all members.
    pub(super) fn distinct(&self) -> Option<u64> {
        (!self.aggregates || !self.repeats && self.resent == 0).then_some(self.represented)
    }

    /// Whether the captures of the senders certainly lack some of what arrived.
    pub(super) fn lacks_senders(&self) -> bool {
        self.unsent_workers || self.short_sums > 0 || self.unseen > 0 && !self.forgot
    }

    /// Returns the number of packets of known formats and of background traffic at a side.
    pub(super) fn found(&self, side: Side) -> u64 {
        self.kinds[side as usize].iter().flatten().sum::<u64>() + self.background[side as usize]
    }

    /// Returns the number of packets at the server that are or would be deliveries of formats with `delivery`.
    pub(super) fn at_server_by(&self, delivery: Delivery) -> u64 {
        self.deliveries_by(delivery).map(|(_, packets)| packets).sum()
    }

    /// Returns the names of the formats of sums of which the server's captures have contributions and no result.
    pub(super) fn formats_without_results(&self) -> Vec<&'static str> {
        let all = self.formats.iter().zip(&self.kinds[Side::Server as usize]);
        let lacking = all.filter(|(format, kinds)| {
            matches!(format.delivery(), Delivery::Results | Delivery::ResultsOfAll)
                && kinds[What::Update as usize] > 0
                && kinds[What::Result as usize] == 0
        });
        lacking.map(|(format, _)| format.name()).collect()
    }

    /// Whether packets are of formats whose sums follow each other in slots, with numbers that come again.
    pub(super) fn reuses_slots(&self) -> bool {
        let has = |at: usize| self.kinds.iter().any(|kinds| kinds[at].iter().any(|packets| *packets > 0));
        self.formats.iter().enumerate().any(|(at, format)| format.facts().renewal == Renewal::Slots && has(at))
    }

    /// Returns the names of the formats of sent updates that do not show which transmission they are.
    pub(super) fn hidden_transmissions(&self) -> Vec<&'static str> {
        let all = self.formats.iter().zip(&self.kinds[Side::Sender as usize]);
        let hidden = all.filter(|(format, kinds)| {
            format.facts().transmissions == AttemptMarks::Hidden && kinds[What::Update as usize] > 0
        });
        hidden.map(|(format, _)| format.name()).collect()
    }

    /// Returns the names of the formats of these packets.
    pub(super) fn formats_at_server_by(&self, delivery: Delivery) -> Vec<&'static str> {
        self.deliveries_by(delivery).filter(|(_, packets)| *packets > 0).map(|(format, _)| format.name()).collect()
    }

    fn deliveries_by(&self, delivery: Delivery) -> impl Iterator<Item = (&'static dyn Format, u64)> {
        let all = self.formats.iter().zip(&self.kinds[Side::Server as usize]);
        let of = all.filter(move |(format, _)| format.delivery() == delivery);
        of.map(|(format, kinds)| (*format, kinds[What::Update as usize] + kinds[What::Result as usize]))
    }
}

impl Meter {
    /// Creates a meter. `sender`: there is a capture of the senders, too. Holds at most `memory` bytes of numbers.
    pub(super) fn new(formats: Formats, sender: bool, memory: usize) -> Self {
        let mut sums = Sums::new(formats);
        sums.has_senders = sender;
        Meter {
            clusters: Vec::new(),
            cluster_places: Places::default(),
            workers: Vec::new(),
            worker_places: Places::default(),
            workers_max: WORKERS_MAX,
            pending: sender.then(|| Pending::new(PENDING)),
            ahead: sender.then(|| Pending::new(AHEAD)),
            deliveries: deliveries(formats),
            sums,
            numbers: Default::default(),
            latest: LatestPackets::default(),
            sources: Default::default(),
            jobs: Jobs::new(formats),
            latency_ps: NumberList::default(),
            early_within_ps: 0,
            file: Shared::default(),
            held: 0,
            held_max: memory / size_of::<i64>(),
            totals: Totals {
                formats,
                kinds: Default::default(),
                background: [0; 2],
                sent: 0,
                resent: 0,
                sent_updates: 0,
                sent_aggregates: 0,
                anew: [0; 2],
                restarts: [0; 2],
                copies: 0,
                received: 0,
                bins: vec![0; usize::from(u16::MAX) + 1],
                represented: 0,
                transmitted: 0,
                aggregates: false,
                repeats: false,
                duplicates: 0,
                late: 0,
                results: 0,
                results_of_all: 0,
                ambiguous: 0,
                unclear: 0,
                elsewhere: 0,
                uncounted_results: 0,
                ageless: 0,
                unseen: 0,
                short_sums: 0,
                forgot: false,
                unsent_workers: false,
                silent_jobs: BTreeSet::new(),
                bare: false,
                backwards: 0,
                backwards_ps: 0,
                matched: 0,
                timed: false,
                at_server: AtServer::default(),
                elements: 0,
                first_elements: 0,
                received_ps: None,
                sent_ps: None,
                sent_outside: [0; 2],
                latency_max_ps: 0,
                pause_max_ps: 0,
            },
        }
    }

    /// Sets the uncertainty of times at the server: an update that seems to arrive before its generation, by less than this, has the age 0.
    pub(super) fn allow_early(&mut self, within_ps: i64) {
        self.early_within_ps = within_ps;
    }

    /// Sets whether the two sides are in no common order of time.
    pub(super) fn leave_order(&mut self, unordered: bool) {
        self.sums.unordered = unordered;
    }

    /// Sets the file of the next event.
    #[inline]
    pub(super) fn read_file(&mut self, file: u32) {
        self.sums.file = file;
    }

    /// Adds an event. Events of a worker and of a cluster must be in the order of time.
    #[inline]
    pub(super) fn add(&mut self, event: &Event) -> Result<()> {
        let sight = &event.sight;
        // Background traffic has no format.
        let format = usize::from(event.format);
        if let Some(kinds) = self.totals.kinds[event.side as usize].get_mut(format) {
            kinds[sight.what as usize] += 1;
        }
        if !matches!(sight.what, What::Update | What::Result) {
            return Ok(());
        }
        if !is_update(sight.cluster) {
            self.totals.background[event.side as usize] += u64::from(sight.what == What::Update);
            return Ok(());
        }
        let Some(delivery) = self.deliveries.get(format).copied() else { return Ok(()) };
        match (event.side, sight.what, delivery) {
            (Side::Sender, What::Update, _) => self.sent(event, delivery)?,
            (Side::Server, What::Update, Delivery::Updates | Delivery::UncountedUpdates) => {
                self.received(event, delivery)?;
            }
            (Side::Server, What::Result, Delivery::Results | Delivery::ResultsOfAll) => self.result(event, delivery),
            (Side::Server, What::Update, Delivery::Results | Delivery::ResultsOfAll) => {
                self.source(event, event.sender());
                self.jobs.contribution(event);
            }
            _ => {}
        }
        if self.held > self.held_max { self.spill() } else { Ok(()) }
    }

    fn sent(&mut self, event: &Event, delivery: Delivery) -> Result<()> {
        let sight = &event.sight;
        let (Some(generation), Some(worker)) = (sight.generation, sight.worker) else {
            self.source(event, event.sender());
            if let Some(seen) = self.number(event, delivery) {
                self.sent_by_number(event, seen);
                return Ok(());
            }
            if self.latest.see(event, self.totals.formats) {
                self.totals.copies += 1;
                return Ok(());
            }
            // Contributions do not necessarily contain the transmission.
            let again = matches!(delivery, Delivery::Results | Delivery::ResultsOfAll) && self.sums.contribution(event);
            self.totals.sent += 1;
            self.totals.sent_at(event);
            self.totals.resent += u64::from(again || sight.attempt > 0);
            self.totals.sent_updates += u64::from(!(again || sight.attempt > 0));
            return Ok(());
        };
        // Only with a generation time does a packet show which transmission of an update it is.
        let (transmission, update) = self.worker(worker)?.sent.see(sight, generation);
        if transmission == Known::Again {
            self.totals.copies += 1;
            return Ok(());
        }
        self.totals.sent += 1;
        self.totals.sent_at(event);
        self.totals.resent += u64::from(sight.attempt > 0);
        self.totals.sent_updates += u64::from(update != Known::Again);
        self.totals.anew[Side::Sender as usize] += u64::from(update == Known::Anew);
        let packet = packet_of(worker, sight, generation);
        if let Some(received) = self.record_sending(packet, event.t) {
            self.totals.backwards += 1;
            self.totals.backwards_ps = self.totals.backwards_ps.max(event.t - received);
            self.latency_ps.push(received - event.t);
            self.held += 1;
        }
        self.cluster(sight.cluster).age.generated(generation);
        self.worker(worker)?.flow.age.generated(generation);
        Ok(())
    }

    /// Looks up the number of an update without a generation time; `None` if its format has no such numbers.
    fn number(&mut self, event: &Event, delivery: Delivery) -> Option<Seen> {
        let format = self.totals.formats.get(usize::from(event.format))?;
        let is_numbered = delivery == Delivery::Updates && format.facts().renewal == Renewal::Sequences;
        let seen = is_numbered.then(|| self.numbers[event.side as usize].see(event))?;
        self.totals.restarts[event.side as usize] += u64::from(seen.is_anew);
        Some(seen)
    }

    fn sent_by_number(&mut self, event: &Event, seen: Seen) {
        if seen.is_copy {
            self.totals.copies += 1;
            return;
        }
        self.totals.sent += 1;
        self.totals.sent_at(event);
        self.totals.resent += u64::from(event.sight.attempt > 0);
        self.totals.sent_updates += u64::from(seen.update == Known::New);
        if let Some(sender) = event.sender() {
            self.record_sending(update_of(event, sender), event.t);
        }
    }

    /// Records the sender of an update without a generation time.
    fn source(&mut self, event: &Event, sender: Option<u32>) {
        if let (Some(sender), 1, true) = (sender, event.sight.count, self.pending.is_some()) {
            self.sources[event.side as usize].insert((event.format, event.sight.cluster, sender));
        }
    }

    /// Records a result at the workers: its first copy delivers the sum.
    fn result(&mut self, event: &Event, delivery: Delivery) {
        let of_all = delivery == Delivery::ResultsOfAll;
        self.jobs.result(event);
        if self.sums.result(event, of_all) {
            let totals = &mut self.totals;
            totals.delivered(event);
            totals.results += 1;
            totals.results_of_all += u64::from(of_all);
            totals.aggregates |= event.sight.count > 1;
            totals.ageless += 1;
            totals.represented += u64::from(event.sight.count);
            totals.transmitted += u64::from(event.sight.count);
        }
    }

    #[inline]
    fn received(&mut self, event: &Event, delivery: Delivery) -> Result<()> {
        let (sight, t) = (&event.sight, event.t);
        let totals = &mut self.totals;
        totals.delivered(event);
        totals.aggregates |= sight.count > 1;
        totals.repeats |= sight.attempt > 0;
        let (Some(generation), Some(worker)) = (sight.generation, sight.worker) else {
            let seen = self.number(event, delivery);
            let (is_copy, is_again) = seen.map_or((false, false), |seen| (seen.is_copy, seen.update == Known::Again));
            let (totals, count) = (&mut self.totals, u64::from(sight.count));
            totals.ageless += 1;
            totals.duplicates += u64::from(is_copy);
            totals.represented += if is_again { 0 } else { count };
            totals.transmitted += if is_copy { 0 } else { count };
            // An aggregate may have the address of the device.
            self.source(event, sight.worker);
            if let (Some(worker), 1, true) = (sight.worker, sight.count, seen.is_some()) {
                self.record_arrival(update_of(event, worker), t);
            }
            return Ok(());
        };
        if let Some(sent) = self.record_arrival(packet_of(worker, sight, generation), t) {
            self.latency_ps.push(t - sent);
            self.totals.latency_max_ps = self.totals.latency_max_ps.max(t - sent);
            self.held += 1;
        }
        // Latencies below 0 stay, and an age is none: its update was generated before it arrived.
        let is_early = generation > t && generation.saturating_sub(t) < self.early_within_ps;
        let aged_at = if is_early { generation } else { t };
        let flow = self.cluster(sight.cluster);
        flow.age.generated(generation);
        let kept = flow.age.delivered(aged_at, generation);
        self.held += kept;
        let kept = self.received_of(worker, event, (aged_at, generation))?;
        self.held += kept;
        Ok(())
    }

    #[inline]
    fn received_of(&mut self, id: u32, event: &Event, (aged_at, generation): (i64, i64)) -> Result<usize> {
        let sight = &event.sight;
        let worker = self.worker(id)?;
        worker.seqs = Some(match worker.seqs {
            Some((low, high)) => (low.min(sight.seq), high.max(sight.seq)),
            None => (sight.seq, sight.seq),
        });
        let (transmission, update) = worker.received.see(sight, generation);
        worker.flow.age.generated(generation);
        let kept = worker.flow.age.delivered(aged_at, generation);
        let (totals, count) = (&mut self.totals, u64::from(sight.count));
        totals.duplicates += u64::from(transmission == Known::Again);
        totals.late += u64::from(transmission == Known::Late);
        totals.transmitted += if transmission == Known::Again { 0 } else { count };
        totals.represented += if update == Known::Again { 0 } else { count };
        totals.anew[Side::Server as usize] += u64::from(update == Known::Anew);
        Ok(kept)
    }

    #[inline]
    fn cluster(&mut self, cluster: u16) -> &mut Flow {
        let place = self.cluster_places.of(cluster.into(), self.clusters.len());
        if place == self.clusters.len() {
            self.clusters.push(Flow { id: cluster.into(), ..Flow::default() });
        }
        &mut self.clusters[place]
    }

    #[inline]
    fn worker(&mut self, worker: u32) -> Result<&mut Worker> {
        self.totals.timed = true;
        if worker >= PacketId::WORKERS_MAX {
            return Err(self.too_many_workers(worker));
        }
        let place = self.worker_places.of(worker, self.workers.len());
        if place == self.workers.len() {
            if place >= self.workers_max {
                return Err(self.too_many_workers(worker));
            }
            let flow = Flow { id: worker, ..Flow::default() };
            self.workers.push(Worker { flow, ..Worker::default() });
        }
        Ok(&mut self.workers[place])
    }

    #[cold]
    fn too_many_workers(&self, worker: u32) -> Error {
        Error::config(format!(
            "worker {worker}, after {} others: a capture has at most {} workers, numbered below {}; is it of this \
             format? (--format)",
            self.workers.len(),
            self.workers_max,
            PacketId::WORKERS_MAX
        ))
    }

    #[cold]
    fn spill(&mut self) -> Result<()> {
        let workers = self.workers.iter_mut().map(|worker| &mut worker.flow);
        for flow in self.clusters.iter_mut().chain(workers) {
            flow.age.spill(&self.file)?;
        }
        self.latency_ps.spill(&self.file)?;
        self.held = 0;
        Ok(())
    }

    /// Whether any packet represented several updates.
    pub(super) fn has_merged(&self) -> bool {
        self.totals.bins.iter().skip(2).any(|packets| *packets > 0)
    }

    /// Returns the number of updates that the received sequence numbers imply: from the lowest to the highest of each
    /// worker. 0 if numbers restarted.
    pub(super) fn numbered(&self) -> u64 {
        if self.totals.anew[Side::Server as usize] > 0 {
            return 0;
        }
        self.workers.iter().filter_map(|worker| worker.seqs).map(|(low, high)| u64::from(high - low) + 1).sum()
    }

    /// Multiplies what results with all workers represent by the number of workers, if it is known.
    pub(super) fn count_contributors(&mut self) {
        let totals = &mut self.totals;
        (totals.ambiguous, totals.unclear) = (self.sums.ambiguous, self.sums.unclear);
        if totals.results_of_all == 0 {
            return;
        }
        let all_seen = totals.results_of_all == totals.received && !totals.unsent_workers;
        match self.sums.workers().filter(|_| all_seen) {
            Some(workers) => totals.multiply(workers),
            None => totals.uncounted_results = totals.results_of_all,
        }
    }

    /// Returns latencies from host to host, and the ages of clusters and workers, by id.
    pub(super) fn finish(self) -> Result<(Totals, NumberList, [Vec<FlowAge>; 2])> {
        let ages = |mut flows: Vec<Flow>| -> Result<Vec<FlowAge>> {
            flows.sort_unstable_by_key(|flow| flow.id);
            flows.into_iter().filter_map(|flow| flow.age.age(flow.id).transpose()).collect()
        };
        let workers = self.workers.into_iter().map(|worker| worker.flow).collect();
        Ok((self.totals, self.latency_ps, [ages(self.clusters)?, ages(workers)?]))
    }
}

impl Transmissions {
    /// Returns whether there are none.
    fn is_empty(&self) -> bool {
        self.first.is_empty() && self.later.is_empty()
    }

    /// Records a transmission; returns what is known of it and of its update.
    #[inline]
    fn see(&mut self, sight: &Sight, generation: i64) -> (Known, Known) {
        if sight.attempt == 0 {
            let known = self.first.see(sight.seq, generation);
            return (known, self.updates.as_mut().map_or(known, |updates| updates.see(sight.seq, generation)));
        }
        let updates = self.updates.get_or_insert_with(|| Box::new(self.first.clone()));
        let update = updates.see(sight.seq, generation);
        let place = self.later.iter().position(|(of, _)| *of == sight.attempt);
        let place = place.unwrap_or_else(|| {
            self.later.push((sight.attempt, Window::default()));
            self.later.len() - 1
        });
        (self.later[place].1.see(sight.seq, generation), update)
    }
}

/// Identifies a transmission even if sequence numbers restart.
#[inline]
fn packet_of(worker: u32, sight: &Sight, generation: i64) -> u64 {
    PacketId::new(worker, sight.seq, sight.attempt).0 ^ (generation as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests;
