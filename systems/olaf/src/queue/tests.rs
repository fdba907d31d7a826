//! Compares the queue with a simple model, and tests corner cases of Algorithm 1 by hand.

use pktgen_core::record::{Book, PacketId};
use pktgen_core::units::{Rate, Size};
use pktgen_wire::wire::frame::HEAD;
use pktgen_wire::wire::update::values;
use proptest::prelude::*;

use super::*;
use pktgen_engine::frame::Kind;
use pktgen_engine::target::context::Outbox;
use pktgen_engine::target::port::{Port, PortTiming};

const ELEMENTS: usize = 3;
const BYTES: usize = HEAD + UPDATE_HEAD + 4 * ELEMENTS;

/// An update in the tests.
#[derive(Debug, Clone, PartialEq)]
struct Plain {
    id: PacketId,
    worker: u32,
    cluster: u16,
    generation: Time,
    count: u16,
    reward: f32,
    values: Vec<f32>,
}

fn plain(worker: u32, cluster: u16, seq: u32, generation: Time, reward: f32) -> Plain {
    let values = (0..ELEMENTS).map(|i| (worker * 31 + seq * 7 + i as u32) as f32 * 0.37).collect();
    Plain { id: PacketId::new(worker, seq, 0), worker, cluster, generation, count: 1, reward, values }
}

fn frame(update: &Plain, t: Time, pool: &mut Pool) -> Frame {
    let buffer = pool.take();
    let header = Header {
        flags: 0,
        cluster: update.cluster,
        count: update.count,
        worker: update.worker,
        seq: update.id.seq(),
        generation: update.generation,
        attempt: 0,
        elements: ELEMENTS as u16,
        reward: update.reward,
    };
    let payload = &mut pool.bytes_mut(buffer)[HEAD..BYTES];
    header.emit_update(payload);
    for (bytes, value) in payload[UPDATE_HEAD..].as_chunks_mut::<4>().0.iter_mut().zip(&update.values) {
        *bytes = value.to_le_bytes();
    }
    Frame {
        t,
        packet: update.id,
        buffer,
        worker: update.worker,
        len: BYTES as u16,
        cluster: update.cluster,
        flow: 0,
        head: HEAD as u8,
        kind: Kind::Update,
    }
}

fn read(frame: &Frame, pool: &Pool) -> Plain {
    let payload = pool.payload(frame);
    let header = Header::parse_update(payload).unwrap();
    assert_eq!(frame.packet, header.packet(), "metadata and bytes name the same packet");
    Plain {
        id: header.packet(),
        worker: header.worker,
        cluster: header.cluster,
        generation: header.generation,
        count: header.count,
        reward: header.reward,
        values: values(payload, &header).as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
    }
}

/// Algorithm 1 in its simplest form: a list, searched from the front.
struct Naive {
    waiting: Vec<(Plain, bool)>,
    locked: bool,
    settings: OlafSettings,
    log: Vec<(PacketId, Action, Option<PacketId>, Option<Reason>)>,
}

impl Naive {
    fn enqueue(&mut self, new: Plain) {
        let full =
            self.waiting.len() + usize::from(self.locked && self.settings.hold_slot) >= self.settings.slots as usize;
        let Some((old, flag)) = self.waiting.iter_mut().find(|(w, _)| w.cluster == new.cluster) else {
            if full {
                self.log.push((new.id, Action::Dropped, None, Some(Reason::QueueFull)));
            } else {
                self.log.push((new.id, Action::Queued, None, None));
                self.waiting.push((new, true));
            }
            return;
        };
        if *flag && old.worker == new.worker {
            if new.generation < old.generation {
                self.log.push((new.id, Action::Subsumed, Some(old.id), None));
            } else {
                self.log.push((old.id, Action::Subsumed, Some(new.id), None));
                *old = new;
            }
            return;
        }
        let difference = new.reward - old.reward;
        match self.settings.threshold {
            Some(threshold) if difference > threshold => {
                self.log.push((old.id, Action::Outranked, Some(new.id), None));
                (*old, *flag) = (new, true);
            }
            Some(threshold) if difference < -threshold => {
                self.log.push((new.id, Action::Dropped, Some(old.id), Some(Reason::RewardLow)));
            }
            _ => {
                let (a, b) = (f32::from(old.count), f32::from(new.count));
                let reward = (old.reward * a + new.reward * b) / (a + b);
                let sum = old.values.iter().zip(&new.values).map(|(x, y)| x + y).collect();
                let newer = new.generation >= old.generation;
                let (keeps, goes) = if newer { (&new, &*old) } else { (&*old, &new) };
                self.log.push((goes.id, Action::Merged, Some(keeps.id), None));
                let merged = Plain { count: old.count + new.count, reward, values: sum, ..keeps.clone() };
                (*old, *flag) = (merged, false);
            }
        }
    }

    fn dequeue(&mut self) -> Option<Plain> {
        let (update, _) = (!self.waiting.is_empty()).then(|| self.waiting.remove(0))?;
        self.locked = true;
        Some(update)
    }
}

fn settings(slots: u32, hold_slot: bool, threshold: Option<f32>) -> OlafSettings {
    OlafSettings { slots, hold_slot, threshold, merged_reward: MergedReward::Mean, active_window: NEVER }
}

/// The next step of a random run.
#[derive(Debug, Clone)]
enum Step {
    Arrive { worker: u32, late: i64, reward: i8 },
    Dequeue,
    Release,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0u32..12, 0i64..4, -3i8..4).prop_map(|(worker, late, reward)| Step::Arrive { worker, late, reward }),
        2 => Just(Step::Dequeue),
        2 => Just(Step::Release),
    ]
}

fn rows(books: &[Book]) -> Vec<(PacketId, Action, Option<PacketId>, Option<Reason>)> {
    books.iter().map(|b| (b.packet_in, b.action, b.packet_out, b.reason)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn agrees_with_the_blackboard(
        steps in prop::collection::vec(step(), 0..120), slots in 1u32..6, hold: bool, filter: bool,
    ) {
        let settings = settings(slots, hold, filter.then_some(1.0));
        let mut naive = Naive { waiting: Vec::new(), locked: false, settings, log: Vec::new() };
        let (mut pool, mut books) = (Pool::new(BYTES, 4), Books::default());
        let mut queue = OlafQueue::new(settings, 4);
        for (i, step) in steps.into_iter().enumerate() {
            match step {
                Step::Arrive { worker, late, reward } => {
                    // Four clusters of three workers; some updates arrive after newer ones.
                    let update = plain(worker, (worker / 3) as u16, i as u32, i as Time - late, f32::from(reward) * 0.6);
                    let frame = frame(&update, i as Time, &mut pool);
                    queue.enqueue(&[frame], &mut pool, &mut books);
                    naive.enqueue(update);
                }
                Step::Dequeue => {
                    let out = queue.dequeue(i as Time, &mut pool);
                    prop_assert_eq!(out.map(|f| read(&f, &pool)), naive.dequeue());
                    if let Some(frame) = out {
                        pool.release(frame.buffer);
                    }
                }
                Step::Release => {
                    queue.release();
                    naive.locked = false;
                }
            }
            prop_assert_eq!(rows(&books.rows), naive.log.clone());
            prop_assert_eq!(queue.waiting(), naive.waiting.len());
            prop_assert_eq!(pool.in_use(), naive.waiting.len(), "one buffer per waiting update");
        }
    }

    #[test]
    fn splitting_a_burst_changes_nothing(
        arrivals in prop::collection::vec((0u32..12, -3i8..4), 1..40), cuts in prop::collection::vec(1usize..6, 1..40),
    ) {
        let run = |sizes: &[usize]| {
            let (mut pool, mut books) = (Pool::new(BYTES, 64), Books::default());
            let mut queue = OlafQueue::new(settings(3, true, Some(1.0)), 4);
            let frames: Vec<_> = arrivals.iter().enumerate().map(|(i, (worker, reward))| {
                frame(&plain(*worker, (worker / 3) as u16, i as u32, i as Time, f32::from(*reward)), i as Time, &mut pool)
            }).collect();
            let (mut rest, mut sizes) = (&frames[..], sizes.iter().cycle());
            while !rest.is_empty() {
                let size = (*sizes.next().unwrap()).min(rest.len());
                queue.enqueue(&rest[..size], &mut pool, &mut books);
                rest = &rest[size..];
            }
            let mut out = Vec::new();
            while let Some(frame) = queue.dequeue(99, &mut pool) {
                out.push(pool.frame(&frame).to_vec());
            }
            (books.rows, out)
        };
        prop_assert_eq!(run(&[arrivals.len()]), run(&cuts));
    }
}

/// Offers updates at times 0, 1, 2 … and returns the queue's ledger rows and contents.
fn offer(settings: OlafSettings, updates: &[Plain]) -> (Vec<Book>, Vec<Plain>) {
    let (mut pool, mut books) = (Pool::new(BYTES, 4), Books::default());
    let mut queue = OlafQueue::new(settings, 4);
    for (t, update) in updates.iter().enumerate() {
        let frame = frame(update, t as Time, &mut pool);
        queue.enqueue(&[frame], &mut pool, &mut books);
    }
    let mut out = Vec::new();
    while let Some(frame) = queue.dequeue(99, &mut pool) {
        out.push(read(&frame, &pool));
    }
    (books.rows, out)
}

#[test]
fn a_merge_ends_replacement_by_the_same_worker() {
    // §3: an aggregation resets the subsuming property.
    let (a, b, c) = (plain(0, 0, 0, 0, 0.0), plain(1, 0, 0, 1, 0.0), plain(0, 0, 1, 2, 0.0));
    let (books, out) = offer(settings(2, true, None), &[a.clone(), b.clone(), c.clone()]);
    let actions: Vec<_> = books.iter().map(|b| b.action).collect();
    assert_eq!(actions, [Action::Queued, Action::Merged, Action::Merged]);
    assert_eq!((out.len(), out[0].count, out[0].id, out[0].generation), (1, 3, c.id, 2));
    assert_eq!(out[0].values[0], a.values[0] + b.values[0] + c.values[0]);
}

#[test]
fn the_same_worker_replaces_whatever_the_reward() {
    let (a, b) = (plain(0, 0, 0, 0, 9.0), plain(0, 0, 1, 1, -9.0));
    let (books, out) = offer(settings(2, true, Some(1.5)), &[a.clone(), b.clone()]);
    assert_eq!((books[1].packet_in, books[1].action, books[1].packet_out), (a.id, Action::Subsumed, Some(b.id)));
    assert_eq!(out, [b]);
}

#[test]
fn positions_are_kept_and_a_full_queue_still_merges() {
    let (a, b) = (plain(0, 0, 0, 0, 0.0), plain(3, 1, 0, 1, 0.0));
    let (c, d) = (plain(6, 2, 0, 2, 0.0), plain(1, 0, 0, 3, 0.0));
    let (books, out) = offer(settings(2, true, None), &[a, b, c, d]);
    assert_eq!((books[2].action, books[2].reason), (Action::Dropped, Some(Reason::QueueFull)));
    assert_eq!(books[3].action, Action::Merged);
    assert_eq!(out.iter().map(|u| u.cluster).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn the_locked_update_is_out_of_reach_but_may_hold_its_slot() {
    for (hold, expected) in [(true, Action::Dropped), (false, Action::Queued)] {
        let (mut pool, mut books) = (Pool::new(BYTES, 4), Books::default());
        let mut queue = OlafQueue::new(settings(1, hold, None), 4);
        let first = frame(&plain(0, 0, 0, 0, 0.0), 0, &mut pool);
        queue.enqueue(&[first], &mut pool, &mut books);
        assert!(queue.dequeue(0, &mut pool).is_some());
        let second = frame(&plain(1, 0, 0, 1, 0.0), 1, &mut pool);
        queue.enqueue(&[second], &mut pool, &mut books);
        assert_eq!(books.rows[1].action, expected, "slot held: {hold}");
        assert_eq!(queue.status(1).occupancy, 1);
    }
}

/// A port with this window of activity. An update occupies the engine, if there is one, and the link for 0.7 µs.
fn port(engine: bool, engine_buffer: usize, active_window: Time) -> Port {
    let rate = Rate::from_bps(1_000_000_000);
    let engine_rate = if engine { rate } else { Rate::from_bps(0) };
    let timing = PortTiming { engine_rate, engine_buffer, ..PortTiming::link(rate, Size::default(), 0) };
    let settings = OlafSettings { active_window, ..settings(4, true, None) };
    Port::new(0, Box::new(OlafQueue::new(settings, 4)), &timing)
}

/// §5: N counts the clusters that send updates, also those whose updates the engine drops or has not accepted yet.
#[test]
fn clusters_of_updates_before_the_engine_are_active_from_their_arrival() {
    for (buffer, dropped) in [(0, 2), (1, 1), (2, 0)] {
        let mut port = port(true, buffer, 100);
        let (mut pool, mut books, mut out) = (Pool::new(BYTES, 4), Books::default(), Outbox::default());
        for cluster in 0..3u16 {
            let frame = frame(&plain(cluster.into(), cluster, 0, 0, 0.0), 0, &mut pool);
            port.offer(frame, &mut pool, &mut books, &mut out);
        }
        let busy = books.rows.iter().filter(|row| row.reason == Some(Reason::EngineBusy));
        assert_eq!(busy.count(), dropped);
        let mut active = |t: Time| port.status(t, &mut pool, &mut books, &mut out).active;
        assert_eq!((active(0), active(99), active(100)), (3, 3, 0), "buffer {buffer}");
        // By then the engine has accepted the others.
        assert_eq!(active(2_000_000), 0, "buffer {buffer}");
    }
}

proptest! {
    /// The simplest form of N: a search through all arrivals at the device.
    #[test]
    fn active_clusters_are_those_of_arrivals(
        arrivals in prop::collection::vec((0i64..400_000, 0u16..4), 1..40), engine: bool, buffer in 0usize..4,
        window in 1i64..2_000_000,
    ) {
        let mut port = port(engine, buffer, window);
        let (mut pool, mut books, mut out) = (Pool::new(BYTES, 4), Books::default(), Outbox::default());
        let (mut t, mut seen): (Time, Vec<(Time, u16)>) = (0, Vec::new());
        for (seq, (gap, cluster)) in arrivals.into_iter().enumerate() {
            let between = t + gap / 2;
            t += gap;
            for (now, arrives) in [(between, false), (t, true)] {
                if arrives {
                    let frame = frame(&plain(cluster.into(), cluster, seq as u32, t, 0.0), t, &mut pool);
                    port.offer(frame, &mut pool, &mut books, &mut out);
                    seen.push((t, cluster));
                }
                let is_active = |of: &u16| seen.iter().any(|(at, cluster)| cluster == of && now - at < window);
                let expected = (0..4).filter(is_active).count();
                prop_assert_eq!(usize::from(port.status(now, &mut pool, &mut books, &mut out).active), expected);
            }
        }
    }
}

#[test]
fn what_cannot_be_summed_is_dropped_by_name() {
    let (mut pool, mut books) = (Pool::new(BYTES, 4), Books::default());
    let mut queue = OlafQueue::new(settings(2, true, None), 1);
    let strange = frame(&plain(9, 3, 0, 0, 0.0), 0, &mut pool);
    let mut broken = frame(&plain(0, 0, 0, 0, 0.0), 1, &mut pool);
    broken.len -= 1;
    let whole = frame(&plain(0, 0, 1, 0, 0.0), 2, &mut pool);
    let mut short = frame(&plain(1, 0, 0, 0, 0.0), 3, &mut pool);
    pool.payload_mut(&short)[25] = ELEMENTS as u8 - 1;
    short.len -= 4;
    let mut heavy = plain(1, 0, 1, 0, 0.0);
    heavy.count = u16::MAX;
    let heavy = frame(&heavy, 4, &mut pool);
    queue.enqueue(&[strange, broken, whole, short, heavy], &mut pool, &mut books);
    let reasons: Vec<_> = books.rows.iter().map(|b| b.reason).collect();
    let malformed = Some(Reason::Malformed);
    assert_eq!(reasons, [malformed, malformed, None, malformed, Some(Reason::CountFull)]);
    assert_eq!(pool.in_use(), 1);
}

#[test]
fn the_maximum_is_kept_on_request() {
    let settings = OlafSettings { merged_reward: MergedReward::Max, ..settings(2, true, None) };
    let (_, out) = offer(settings, &[plain(0, 0, 0, 0, 3.0), plain(1, 0, 0, 1, 1.0)]);
    assert_eq!(out[0].reward, 3.0);
}
