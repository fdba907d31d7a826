//! A simple card over bytes, correct and with planted defects: every clause passes with the correct one and detects its defects.

mod settings;

use std::collections::BTreeSet;
use std::sync::Arc;

use pktgen_core::Result;
use pktgen_core::config::Document;
use pktgen_core::seed::Seed;
use pktgen_core::time::{MS, NEVER, Time, US};
use pktgen_core::topology::{Link, Population};
use pktgen_core::units::Size;
use pktgen_wire::wire::frame::{
    Datagram, SERVER_IP, group_ip, readdress, set_ip_checksum, set_source, source_ip, worker_ip, worker_of,
};

use super::SUITE;
use super::card::departed;
use pktgen_engine::clause::{
    Clause, ClauseProbe, EachFrame, ProbeBench, ProbeGround, ProbeMemory, ProbeStop, ProbeWitness,
};

const CLUSTERS: u16 = 8;
const WORKERS: u32 = 3;
const SLOTS: usize = 4;
const SERVER: u16 = CLUSTERS * WORKERS as u16;
/// Reward and gradients in a frame of an update; queue state and model in that of an ACK.
const HEAD: usize = 42;
/// Transmission time of a frame on the output.
const SERVICE: Time = MS;

/// The defect of a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Defect {
    None,
    ClearsReward,
    Means,
    MergesTwo,
    MergesTwelve,
    CountsInFourBits,
    LastReward,
    OldestAddress,
    MixesClusters,
    AddsInDouble,
    FlushesDenormals,
    AppendsFirst,
    MergesInTransmission,
    KeepsResidue,
    NeverReplaces,
    ReplacesMerged,
    DropsAfterReplace,
    MovesToEnd,
    DropsOldest,
    DropsWhenFull,
    IgnoresRewards,
    ProtectsRewards,
    AcksOne,
    AcksAll,
    NoState,
    WritesModel,
    AckPort,
    AckStation,
    AckSender,
    AckChecksum,
    StaleIpChecksum,
    StaleUdpChecksum,
    NoHops,
    AnyoneIsFirst,
    OneTooMany,
    AnyProtocol,
    IgnoresLengths,
    AddsAnySize,
    PassesFirst,
    HasTwiceTheRate,
    NeverQueues,
    AddsCut,
    CopiesDown,
    CopiesMergesDown,
    AckToServerToo,
    AcksOthersAlone,
    AddsThirtyTwo,
}

/// Defects, and the clauses that must detect each.
const PLANTED: &[(Defect, &[&str])] = &[
    (Defect::ClearsReward, &["olaf-pass"]),
    (Defect::Means, &["olaf-merge"]),
    (Defect::MergesTwo, &["olaf-merge-many"]),
    (Defect::MergesTwelve, &["olaf-merge-long"]),
    (Defect::CountsInFourBits, &["olaf-merge-long"]),
    (Defect::LastReward, &["olaf-merge-reward"]),
    (Defect::OldestAddress, &["olaf-merge-address"]),
    (Defect::MixesClusters, &["olaf-merge-apart"]),
    (Defect::AddsInDouble, &["olaf-rounding"]),
    (Defect::FlushesDenormals, &["olaf-special"]),
    (Defect::AppendsFirst, &["olaf-append"]),
    (Defect::MergesInTransmission, &["olaf-transmission"]),
    (Defect::KeepsResidue, &["olaf-afterwards"]),
    (Defect::NeverReplaces, &["olaf-replace"]),
    (Defect::ReplacesMerged, &["olaf-replace-merged"]),
    (Defect::DropsAfterReplace, &["olaf-replace-then-merge"]),
    (Defect::MovesToEnd, &["olaf-place"]),
    (Defect::DropsOldest, &["olaf-full"]),
    (Defect::DropsWhenFull, &["olaf-full-merge"]),
    (Defect::IgnoresRewards, &["olaf-reward-higher", "olaf-reward-lower"]),
    (Defect::ProtectsRewards, &["olaf-reward-own"]),
    (Defect::AcksOne, &["olaf-ack-workers"]),
    (Defect::AcksAll, &["olaf-ack-workers"]),
    (Defect::NoState, &["olaf-ack-state"]),
    (Defect::WritesModel, &["olaf-ack-model"]),
    (Defect::AckPort, &["olaf-ack-headers"]),
    (Defect::AckStation, &["olaf-ack-headers"]),
    (Defect::AckSender, &["olaf-ack-headers"]),
    (Defect::AckChecksum, &["olaf-ack-headers"]),
    (Defect::StaleIpChecksum, &["olaf-headers"]),
    (Defect::StaleUdpChecksum, &["olaf-headers"]),
    (Defect::NoHops, &["olaf-headers"]),
    (Defect::AnyoneIsFirst, &["olaf-unknown-source"]),
    (Defect::OneTooMany, &["olaf-unknown-source"]),
    (Defect::AnyProtocol, &["olaf-not-udp"]),
    (Defect::IgnoresLengths, &["olaf-lengths"]),
    (Defect::AddsAnySize, &["olaf-other-size"]),
    (Defect::PassesFirst, &["olaf-merge-first"]),
    (Defect::HasTwiceTheRate, &["olaf-output"]),
    (Defect::NeverQueues, &["olaf-output"]),
    (Defect::AddsCut, &["olaf-truncated"]),
    (Defect::CopiesDown, &["olaf-pass"]),
    (Defect::CopiesMergesDown, &["olaf-merge", "olaf-merge-many"]),
    (Defect::AckToServerToo, &["olaf-ack-workers"]),
    (Defect::AcksOthersAlone, &["olaf-ack-workers"]),
    (Defect::AddsThirtyTwo, &["olaf-merge-sizes"]),
];

#[derive(Debug, Clone)]
struct Waiting {
    frame: Vec<u8>,
    worker: u32,
    count: u32,
    replaced: bool,
    /// Sums of a card that adds in double precision.
    doubles: Vec<f64>,
}

/// A card over bytes, with a port for every worker and one for the server.
struct Naive {
    defect: Defect,
    queue: Vec<Waiting>,
    /// The update in transmission and its departure time.
    leaving: Option<(Time, Waiting)>,
    residue: Vec<Option<Vec<f32>>>,
    seen: BTreeSet<u16>,
    out: Vec<(Time, u16, Vec<u8>)>,
    now: Time,
    /// Transmission time of a frame on the output.
    service: Time,
    /// Of rewards.
    threshold: f32,
    slots: usize,
    /// Whether the update in transmission holds its slot.
    holds_slot: bool,
}

fn cluster(worker: u32) -> u16 {
    (worker / WORKERS) as u16
}

fn floats(frame: &[u8]) -> Vec<f32> {
    frame[HEAD..].chunks(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

fn write(frame: &mut [u8], values: &[f32]) {
    frame[HEAD..].chunks_mut(4).zip(values).for_each(|(at, value)| at.copy_from_slice(&value.to_le_bytes()));
}

impl Naive {
    fn is(&self, defect: Defect) -> bool {
        self.defect == defect
    }

    /// Lets updates leave up to now.
    fn depart(&mut self, until: Time) {
        while let Some((t, update)) = self.leaving.take() {
            if t > until {
                self.leaving = Some((t, update));
                return;
            }
            if self.is(Defect::KeepsResidue) && update.count > 1 {
                self.residue[usize::from(cluster(update.worker))] = Some(floats(&update.frame));
            }
            if self.is(Defect::CopiesDown) || self.is(Defect::CopiesMergesDown) && update.count > 1 {
                self.out.push((t, 0, update.frame.clone()));
            }
            self.out.push((t, SERVER, update.frame));
            self.start(t);
        }
    }

    fn start(&mut self, t: Time) {
        if self.leaving.is_none() && !self.queue.is_empty() {
            let mut next = self.queue.remove(0);
            if self.is(Defect::ClearsReward) {
                next.frame[HEAD..HEAD + 4].fill(0);
            }
            let service = match self.defect {
                Defect::HasTwiceTheRate => self.service / 2,
                Defect::NeverQueues => 0,
                _ => self.service,
            };
            self.leaving = Some((t + service, next));
        }
    }

    fn update(&mut self, worker: u32, frame: &[u8]) {
        self.seen.insert(cluster(worker));
        let mut new = Waiting {
            frame: frame.to_vec(),
            worker,
            count: 1,
            replaced: false,
            doubles: floats(frame).iter().map(|value| f64::from(*value)).collect(),
        };
        if let (true, Some((_, leaving))) = (self.is(Defect::MergesInTransmission), &mut self.leaving)
            && cluster(leaving.worker) == cluster(worker)
        {
            return merge(leaving, new, Defect::None);
        }
        let mixes = self.is(Defect::MixesClusters);
        let same = |it: &Waiting| {
            cluster(it.worker) == cluster(worker) || mixes && cluster(it.worker) / 4 == cluster(worker) / 4
        };
        let from = usize::from(self.is(Defect::PassesFirst));
        let full = self.queue.len() + usize::from(self.holds_slot && self.leaving.is_some()) >= self.slots;
        match self.queue.iter().skip(from).position(same).map(|at| at + from) {
            Some(_) if full && self.is(Defect::DropsWhenFull) => {}
            Some(at) => {
                self.meet(at, new);
                if self.is(Defect::MovesToEnd) {
                    let moved = self.queue.remove(at);
                    self.queue.push(moved);
                }
            }
            None if full && !self.is(Defect::DropsOldest) => {}
            None => {
                if full {
                    self.queue.remove(1);
                }
                if let Some(old) = self.residue[usize::from(cluster(worker))].take() {
                    let sums: Vec<_> = floats(frame).iter().zip(old).map(|(a, b)| a + b).collect();
                    write(&mut new.frame, &sums);
                }
                let at = if self.is(Defect::AppendsFirst) { self.queue.len().min(1) } else { self.queue.len() };
                self.queue.insert(at, new);
                self.start(self.now);
            }
        }
    }

    /// Handles an update whose cluster is waiting.
    fn meet(&mut self, at: usize, new: Waiting) {
        let (defect, threshold) = (self.defect, self.threshold);
        let old = &mut self.queue[at];
        if old.frame.len() != new.frame.len() && defect != Defect::AddsAnySize {
            return;
        }
        let difference = floats(&new.frame)[0] - floats(&old.frame)[0];
        let own = old.worker == new.worker && (old.count == 1 || defect == Defect::ReplacesMerged);
        if own && defect != Defect::NeverReplaces && !(defect == Defect::ProtectsRewards && difference < -threshold) {
            *old = Waiting { replaced: true, ..new };
        } else if difference > threshold && defect != Defect::IgnoresRewards {
            *old = new;
        } else {
            let lower = difference < -threshold && defect != Defect::IgnoresRewards;
            let after = old.replaced && defect == Defect::DropsAfterReplace;
            let full =
                defect == Defect::MergesTwo && old.count == 2 || defect == Defect::MergesTwelve && old.count == 12;
            if !lower && !after && !full {
                merge(old, new, defect);
            }
        }
    }

    fn ack(&mut self, frame: &[u8]) {
        let Some(datagram) = Datagram::parse(frame) else { return };
        let Some(worker) = worker_of(datagram.dst, (u32::from(CLUSTERS) * WORKERS) as usize) else { return };
        let mut bytes = frame.to_vec();
        if !self.is(Defect::NoState) {
            let occupancy = (self.queue.len() + usize::from(self.leaving.is_some())) as u32;
            bytes[HEAD..HEAD + 3].copy_from_slice(&occupancy.to_be_bytes()[1..]);
            bytes[HEAD + 3..HEAD + 5].copy_from_slice(&(self.seen.len() as u16).to_be_bytes());
        }
        if self.is(Defect::WritesModel) {
            bytes[HEAD + 5] ^= 1;
        }
        let of = cluster(worker);
        let alone = self.is(Defect::AcksOne) || self.is(Defect::AcksOthersAlone) && !worker.is_multiple_of(WORKERS);
        readdress(&mut bytes, if alone { worker_ip(worker) } else { group_ip(of) });
        match self.defect {
            Defect::AckPort => bytes[37] ^= 1,
            Defect::AckStation => bytes[..6].fill(0xff),
            Defect::AckSender => bytes[11] ^= 1,
            Defect::AckChecksum => bytes[24] ^= 1,
            _ => {}
        }
        for other in 0..u32::from(CLUSTERS) * WORKERS {
            let meant = if alone { other == worker } else { cluster(other) == of };
            if meant || self.is(Defect::AcksAll) {
                self.out.push((self.now, other as u16, bytes.clone()));
            }
        }
        if self.is(Defect::AckToServerToo) {
            self.out.push((self.now, SERVER, bytes));
        }
    }
}

/// Adds an update to a waiting one.
fn merge(old: &mut Waiting, new: Waiting, defect: Defect) {
    let (a, b) = (floats(&old.frame), floats(&new.frame));
    let count = if defect == Defect::CountsInFourBits { ((old.count + 1) % 16) as f32 } else { (old.count + 1) as f32 };
    let mut sums: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
    old.doubles.iter_mut().zip(&b).for_each(|(sum, value)| *sum += f64::from(*value));
    match defect {
        Defect::Means => sums.iter_mut().for_each(|sum| *sum /= 2.0),
        Defect::AddsInDouble => sums = old.doubles.iter().map(|sum| *sum as f32).collect(),
        // The reward is in front of the gradients.
        Defect::AddsThirtyTwo => sums.iter_mut().zip(&a).skip(33).for_each(|(sum, a)| *sum = *a),
        Defect::FlushesDenormals => sums.iter_mut().filter(|sum| sum.is_subnormal()).for_each(|sum| *sum = 0.0),
        _ => {}
    }
    sums[0] = if defect == Defect::LastReward { b[0] } else { (a[0] * (count - 1.0) + b[0]) / count };
    write(&mut old.frame, &sums);
    old.count += 1;
    if defect != Defect::OldestAddress {
        set_source(&mut old.frame, worker_ip(new.worker));
        old.worker = new.worker;
    }
    if defect == Defect::NoHops {
        old.frame[22] = 0;
    }
    if defect != Defect::StaleIpChecksum {
        set_ip_checksum(&mut old.frame);
    }
    if defect != Defect::StaleUdpChecksum {
        old.frame[40..42].fill(0);
    }
}

/// Whether a frame's lengths are those of a datagram that fills it; for a truncated one, whether they are consistent.
fn agrees(frame: &[u8], may_be_cut: bool) -> bool {
    let said = |at: usize| usize::from(u16::from_be_bytes([frame[at], frame[at + 1]]));
    said(16) == said(38) + 20 && (said(16) + 14 == frame.len() || may_be_cut && said(16) + 14 > frame.len())
}

impl ProbeWitness for Naive {}

impl ProbeBench for Naive {
    fn now(&mut self) -> Time {
        self.now
    }
    fn frame_in(&mut self, _port: u16, bytes: &[u8]) -> Result<()> {
        self.now += US;
        self.depart(self.now);
        let mut read = bytes.to_vec();
        if self.is(Defect::AnyProtocol) {
            (read[12], read[13], read[14], read[23]) = (8, 0, 0x45, 17);
        }
        let known = usize::from(SERVER) + usize::from(self.is(Defect::OneTooMany));
        let first = self.is(Defect::AnyoneIsFirst).then_some(0);
        match worker_of(source_ip(&read), known) {
            _ if source_ip(&read) == SERVER_IP => self.ack(bytes),
            worker if agrees(bytes, self.is(Defect::AddsCut)) || self.is(Defect::IgnoresLengths) => {
                match worker.or(first) {
                    Some(worker) => self.update(worker, &read),
                    None => self.out.push((self.now, SERVER, bytes.to_vec())),
                }
            }
            _ => self.out.push((self.now, SERVER, bytes.to_vec())),
        }
        Ok(())
    }
    fn pass(&mut self, span: Time, each: EachFrame) -> Result<()> {
        self.now += span;
        self.depart(self.now);
        self.out.drain(..).for_each(|(t, port, bytes)| each(t, port, &bytes));
        Ok(())
    }
    fn settle(&mut self, each: EachFrame) -> Result<()> {
        self.depart(NEVER - 1);
        self.now = self.out.iter().map(|(t, ..)| *t).max().unwrap_or(0).max(self.now);
        self.pass(0, each)
    }
}

fn naive(defect: Defect) -> Naive {
    let residue = vec![None; usize::from(CLUSTERS) + 1];
    Naive {
        defect,
        queue: Vec::new(),
        leaving: None,
        residue,
        seen: BTreeSet::new(),
        out: Vec::new(),
        now: 0,
        service: SERVICE,
        threshold: 1.5,
        slots: SLOTS,
        holds_slot: true,
    }
}

fn ground() -> ProbeGround {
    with_threshold("1.5")
}

fn with_threshold(threshold: &str) -> ProbeGround {
    let text = format!(
        "[target]\nslots = {SLOTS}\nslot_in_transmission = true\nreward_filter = true\nreward_threshold = {threshold}\n"
    );
    let workers = Population::regular(CLUSTERS, WORKERS);
    ProbeGround {
        port_of: (0..workers.len() as u16).collect(),
        workers: Arc::new(workers),
        server: Some(SERVER),
        late: 100 * MS,
        output: Some(link("1.4Mbps")),
        links: Vec::new(),
        patience: 0,
        frame_bytes: 512,
        hot: None,
        keys: Document::parse(&text, "test").unwrap(),
    }
}

/// Returns a link with this rate behind the device.
fn link(rate: &str) -> Link {
    Link { from: 0, to: 1, rate: rate.parse().unwrap(), delay: 0, overhead: Size::from_bytes(0), slots: None }
}

/// Returns the ground on wires, behind a link with this rate.
fn on_wires(rate: &str) -> ProbeGround {
    ProbeGround { patience: US, output: Some(link(rate)), ..ground() }
}

/// Runs all repeats of a clause; returns whether it holds.
fn holds(clause: &Clause, card: &mut Naive, seed: u64) -> bool {
    holds_at(&ground(), clause, card, seed)
}

fn holds_at(ground: &ProbeGround, clause: &Clause, card: &mut Naive, seed: u64) -> bool {
    let mut memory = ProbeMemory::new();
    assert_eq!((clause.exempt)(ground), None, "{}", clause.id);
    (0..clause.repeats).all(|repeat| {
        let mut probe = ClauseProbe::new(ground, &mut memory, card, Seed(seed), (clause.id, repeat, 0)).unwrap();
        match (clause.probe)(&mut probe) {
            Ok(()) => true,
            Err(ProbeStop::Breach(_)) => false,
            Err(other) => panic!("{}: {other:?}", clause.id),
        }
    })
}

/// Returns the clauses that are checked by probes.
fn correctness() -> impl Iterator<Item = &'static Clause> {
    SUITE.numbered().map(|(_, clause)| clause).filter(|clause| clause.measure.is_none())
}

#[test]
fn a_whole_card_passes_every_clause_although_it_was_used_before() {
    for seed in 0..5 {
        let mut card = naive(Defect::None);
        for clause in correctness() {
            assert!(holds(clause, &mut card, seed), "{}", clause.id);
            assert!(holds_at(&on_wires("1.4Mbps"), clause, &mut card, seed), "{}", clause.id);
        }
    }
}

/// A correct card, and a host that sends late and may read in batches.
struct Hasty {
    card: Naive,
    /// Time before each frame, and before the second frame of a stimulus.
    gap: Time,
    second: Time,
    sent: u32,
    /// Whether all departures have the time at which they were read.
    is_batch: bool,
}

impl Hasty {
    fn read(&mut self, each: EachFrame, act: impl FnOnce(&mut Naive, EachFrame) -> Result<()>) -> Result<()> {
        let mut left = Vec::new();
        act(&mut self.card, &mut |t, port, bytes| left.push((t, port, bytes.to_vec())))?;
        self.sent = 0;
        let late = left.iter().map(|(t, ..)| *t).max();
        left.iter().for_each(|(t, port, bytes)| each(late.filter(|_| self.is_batch).unwrap_or(*t), *port, bytes));
        Ok(())
    }
}

impl ProbeWitness for Hasty {}

impl ProbeBench for Hasty {
    fn now(&mut self) -> Time {
        self.card.now
    }
    fn frame_in(&mut self, port: u16, bytes: &[u8]) -> Result<()> {
        self.sent += 1;
        self.card.now += if self.sent == 2 { self.second } else { self.gap };
        self.card.frame_in(port, bytes)
    }
    fn pass(&mut self, span: Time, each: EachFrame) -> Result<()> {
        self.read(each, |card, each| card.pass(span, each))
    }
    fn settle(&mut self, each: EachFrame) -> Result<()> {
        self.read(each, |card, each| card.settle(each))
    }
}

/// Outputs of 10 Gbit/s and 20 Mbit/s with frames 40 µs apart, and one of 1 Mbit/s that is idle when the second frame arrives.
#[test]
fn a_right_card_never_fails_for_its_speed_or_the_hosts_lateness() {
    for (rate, service, gap, second) in [
        ("10Gbps", US / 7, 40 * US, 40 * US),
        ("20Mbps", 70 * US, 40 * US, 40 * US),
        ("1Mbps", 1392 * US, 20 * US, 4610 * US),
    ] {
        for is_batch in [false, true] {
            let mut undecided = BTreeSet::new();
            let mut bench = Hasty { card: Naive { service, ..naive(Defect::None) }, gap, second, sent: 0, is_batch };
            let (ground, mut memory) = (on_wires(rate), ProbeMemory::new());
            for (clause, seed) in correctness().flat_map(|clause| (0..10).map(move |seed| (clause, seed))) {
                let mut probe =
                    ClauseProbe::new(&ground, &mut memory, &mut bench, Seed(seed), (clause.id, 0, 0)).unwrap();
                match (clause.probe)(&mut probe) {
                    Ok(()) => {}
                    Err(ProbeStop::Undecidable(_)) => drop(undecided.insert(clause.id)),
                    Err(other) => panic!("{rate}, batches {is_batch}: {}: {other:?}", clause.id),
                }
            }
            let shows = |id| undecided.contains(id);
            assert!(shows("olaf-merge-first") && shows("olaf-merge") == (rate == "10Gbps"), "{rate}: {undecided:?}");
            assert!(!undecided.contains("olaf-pass"), "{rate}: {undecided:?}");
        }
    }
}

#[test]
fn large_thresholds_of_rewards_convict_nobody() {
    let of = |id: &str| correctness().find(|clause| clause.id == id).expect("a clause");
    for (clause, threshold) in
        ["olaf-reward-higher", "olaf-reward-lower"].iter().flat_map(|id| [(of(id), 1e7), (of(id), 1e9)])
    {
        let mut card = Naive { threshold, ..naive(Defect::None) };
        let ground = with_threshold(&format!("{threshold:.1}"));
        assert!((0..6).all(|seed| holds_at(&ground, clause, &mut card, seed)), "{}: {threshold}", clause.id);
    }
    assert!((of("olaf-reward-higher").exempt)(&with_threshold("1e300")).is_some());
}

/// For a device not declared to have the queue, only clauses independent of it apply.
#[test]
fn clauses_of_what_a_device_is_not_said_to_have_do_not_apply() {
    let with = |program: &str, queue: &str| {
        let keys =
            Document::parse(&format!("[target]\nprogram = \"{program}\"\nqueue = \"{queue}\"\nslots = 4\n"), "test");
        let ground = ProbeGround { keys: keys.unwrap(), ..ground() };
        let apply: Vec<_> = correctness().filter(|clause| (clause.exempt)(&ground).is_none()).map(|it| it.id).collect();
        let why = correctness().find(|it| it.id == "olaf-merge").and_then(|it| (it.exempt)(&ground));
        (apply, why.unwrap_or_default())
    };
    let (apply, why) = with("forward", "fifo");
    assert_eq!(apply, ["olaf-pass", "olaf-append", "olaf-output"]);
    assert!(why.starts_with("target.queue = \"fifo\""), "{why}");
    assert_eq!(
        with("olaf", "fifo").0,
        ["olaf-pass", "olaf-append", "olaf-output", "olaf-ack-workers", "olaf-ack-model", "olaf-ack-headers"]
    );
    assert!(with("olaf", "olaf").0.len() > 20);
}

#[test]
fn a_link_that_is_too_fast_is_said_before() {
    let said = |rate| (SUITE.before)(&on_wires(rate));
    assert!(
        said("20Mbps").is_some_and(|why| why.contains("20Mbps") && why.contains("13.9Mbps")),
        "{:?}",
        said("20Mbps")
    );
    assert_eq!((said("1Mbps"), said("13.9Mbps"), (SUITE.before)(&ground())), (None, None, None));
}

#[test]
fn every_defect_is_found_by_the_clauses_that_name_it() {
    let mut misses = Vec::new();
    for (defect, ids) in PLANTED {
        for id in *ids {
            let Some((_, clause)) = SUITE.numbered().find(|(_, clause)| clause.id == *id) else {
                misses.push(format!("no clause {id}"));
                continue;
            };
            // Frames take as long as the experiment specifies.
            for ground in [ground(), on_wires("1.4Mbps")] {
                let missed = (0..20).filter(|seed| holds_at(&ground, clause, &mut naive(*defect), *seed)).count();
                if missed > 0 {
                    misses.push(format!("{defect:?} is missed by {id} with {missed} of 20 seeds"));
                }
            }
        }
    }
    assert!(misses.is_empty(), "{misses:#?}");
}

#[test]
fn every_clause_finds_a_defect() {
    let found: BTreeSet<_> = PLANTED.iter().flat_map(|(_, ids)| *ids).copied().collect();
    let without: Vec<_> = correctness().map(|clause| clause.id).filter(|id| !found.contains(id)).collect();
    assert!(without.is_empty(), "no defect fails {without:?}");
}

#[test]
fn an_output_that_is_never_busy_decides_nothing() {
    let (ground, mut memory) = (ground(), ProbeMemory::new());
    for (_, clause) in SUITE.numbered().filter(|(_, clause)| clause.stimulus.contains("two updates ahead")) {
        // Each frame finds an output that has long been free.
        let gap = 10 * SERVICE;
        let mut idle = Hasty { card: naive(Defect::None), gap, second: gap, sent: 0, is_batch: false };
        let mut probe = ClauseProbe::new(&ground, &mut memory, &mut idle, Seed(1), (clause.id, 0, 0)).unwrap();
        let ended = (clause.probe)(&mut probe);
        assert!(matches!(ended, Err(ProbeStop::Undecidable(_))), "{}: {ended:?}", clause.id);
    }
}

/// A host that slept while the first frame left received it just before the second: times of a C card in microseconds.
#[test]
fn a_frame_that_was_taken_late_had_left_before() {
    let taken = [1_902_618, 1_902_970, 1_905_627, 1_908_374, 1_911_111, 1_914_113, 1_916_747].map(|t| t * US);
    let last_sent = 1_902_608 * US;
    assert!(departed(&taken).is_some_and(|first| first < last_sent));
    assert!(departed(&taken[1..]).is_some_and(|second| second > last_sent));
    let even = [10, 12, 14, 17, 19].map(|t| t * MS);
    assert_eq!(departed(&even), Some(10 * MS));
    assert_eq!((departed(&even[..1]), departed(&[])), (Some(10 * MS), None));
}
