//! Queues of an end that are received by one thread each, for a role with a single state.
//!
//! A server, a device or a capture is one state machine, so one thread finally handles all frames. Receiving frames from the kernel is
//! divided nevertheless: the role's own thread has the first queue, from which it also sends, and one thread per other queue copies frames
//! into batches, reads the time once per batch, and passes them on through a separate ring. The role takes batches in the order of those
//! times, after frames of its own queue, for which every call reserves a share. So frames of one queue stay in order; those of the other
//! threads are taken in the order in which they were found, as far as the rings showed it when the call began: what is found during a call
//! is left for the next one. Nothing is allocated, locked or read from the clock per frame.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pktgen_core::record::{Note, QueueCounts};
use pktgen_core::time::{MS, Time};
use pktgen_core::{Error, Result};
use rtrb::{Consumer, Producer, RingBuffer};

use super::{Arrival, Found, Submitted, Wait, Wire, WireCounters};
use crate::clock::RunClock;

/// Maximum number of frames of a batch, found in one poll of a queue.
const BURST: usize = 64;
/// Number of circulating batches of a queue.
const BATCHES: usize = 64;
/// Interval at which a sleeping role checks the other rings.
const LOOK_NS: u64 = 50_000;
/// Sleep of a thread whose role is behind.
const REST: Duration = Duration::from_micros(50);
/// Maximum sleep of a thread that finds nothing, as a stop may be requested.
const NAP_NS: u64 = 1_000_000;
/// Interval at which a thread counts the losses of its queue, a system call.
const COUNT: Time = 100 * MS;
/// A spinning thread reads the clock for this at every n-th empty poll: well below a millisecond if a poll is a system call.
const POLLS: u32 = 256;

/// Fewer frames than this may all arrive at one queue by chance.
const FEW: u64 = 1000;

/// A frame in a batch.
struct Item {
    kept: usize,
    len: usize,
    stamp_ns: Option<u64>,
    lost: bool,
}

/// The result of one poll of a queue.
struct Batch {
    bytes: Box<[u8]>,
    items: Vec<Item>,
    /// Time at which it was found.
    found: Time,
    /// Number of frames that the role has taken.
    taken: usize,
}

impl Batch {
    fn push(&mut self, arrival: &Arrival<'_>, stride: usize) {
        let kept = arrival.bytes.len().min(stride);
        self.bytes[self.items.len() * stride..][..kept].copy_from_slice(&arrival.bytes[..kept]);
        let Arrival { len, stamp_ns, lost, .. } = *arrival;
        self.items.push(Item { kept, len, stamp_ns, lost });
    }
}

/// Counters of a queue shared by both sides of its ring.
#[derive(Default)]
struct Told {
    /// Frames that the role has taken.
    handed: AtomicU64,
    /// Frames lost before the thread read them, by its last count; all once it has ended.
    dropped: AtomicU64,
    full_waits: AtomicU64,
}

/// The thread of one queue.
pub(crate) struct Receiver {
    wire: Box<dyn Wire>,
    stride: usize,
    free: Consumer<Batch>,
    full: Producer<Batch>,
    told: Arc<Told>,
    over: Arc<AtomicBool>,
}

/// The role's side of a ring.
struct Lane {
    full: Consumer<Batch>,
    free: Producer<Batch>,
    /// The batch being taken.
    head: Option<Batch>,
    /// Number of further batches that were there when the call began.
    there: usize,
    told: Arc<Told>,
}

/// The role's end: its own queue, and the batches of the other threads.
pub(crate) struct Gathered {
    own: Box<dyn Wire>,
    lanes: Vec<Lane>,
    stride: usize,
    tally: Tally,
    over: Arc<AtomicBool>,
}

/// Counts of each queue of an end, available once its receivers have ended and the role has read its wire's counters.
#[derive(Clone)]
pub(crate) struct Tally {
    name: &'static str,
    own: Arc<Mutex<WireCounters>>,
    lanes: Vec<Arc<Told>>,
}

/// Ends the threads of the other queues when the role ends, however it does.
pub(crate) struct Over(Arc<AtomicBool>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Combines `wires` into the end called `name`, which receives from the first one, and the receivers of the others.
/// Frames longer than `longest` are passed on cut.
pub(crate) fn gather(
    mut wires: Vec<Box<dyn Wire>>,
    name: &'static str,
    longest: usize,
) -> Result<(Gathered, Vec<Receiver>)> {
    if wires.is_empty() {
        return Err(Error::Invalid("an end without a queue; please report this".into()));
    }
    let own = wires.remove(0);
    // Whole cache lines, and room for a tag.
    let stride = (longest + 4).next_multiple_of(64);
    let over = Arc::new(AtomicBool::new(false));
    let pair = |wire| {
        let (full, to_role) = RingBuffer::new(BATCHES);
        let (mut emptied, free) = RingBuffer::new(BATCHES);
        for _ in 0..BATCHES {
            let bytes = vec![0; stride * BURST].into_boxed_slice();
            // The ring has room for all batches.
            let _ = emptied.push(Batch { bytes, items: Vec::with_capacity(BURST), found: 0, taken: 0 });
        }
        let told = Arc::<Told>::default();
        let lane = Lane { full: to_role, free: emptied, head: None, there: 0, told: told.clone() };
        (lane, Receiver { wire, stride, free, full, told, over: over.clone() })
    };
    let (lanes, receivers): (Vec<Lane>, _) = wires.into_iter().map(pair).unzip();
    let told = lanes.iter().map(|lane| lane.told.clone()).collect();
    let tally = Tally { name, own: Arc::default(), lanes: told };
    Ok((Gathered { own, lanes, stride, tally, over }, receivers))
}

impl Receiver {
    /// Receives until the role has ended, or `failed`.
    pub fn run(&mut self, clock: &RunClock, wait: Wait, failed: &AtomicBool) -> Result<()> {
        let result = self.work(clock, wait, failed);
        self.count();
        result
    }

    fn count(&mut self) {
        self.told.dropped.store(self.wire.counters().receive_dropped, Ordering::Relaxed);
    }

    /// Counts losses if the last count is long ago.
    #[inline]
    fn count_at(&mut self, now: Time, looks: &mut Looks) {
        if now - looks.counted >= COUNT {
            looks.counted = now;
            self.count();
        }
    }

    fn work(&mut self, clock: &RunClock, wait: Wait, failed: &AtomicBool) -> Result<()> {
        let (mut spare, mut hungry, mut looks) = (None::<Batch>, false, Looks::default());
        while !self.over.load(Ordering::Relaxed) && !failed.load(Ordering::Relaxed) {
            let Some(mut batch) = spare.take().or_else(|| self.free.pop().ok()) else {
                self.told.full_waits.fetch_add(u64::from(!hungry), Ordering::Relaxed);
                hungry = true;
                rest(wait);
                if looks.is_due(wait) {
                    self.count_at(clock.now(), &mut looks);
                }
                continue;
            };
            hungry = false;
            let stride = self.stride;
            let found = self.wire.receive(BURST, &mut |arrival| batch.push(&arrival, stride))?;
            if found.frames == 0 {
                spare = Some(batch);
                match wait {
                    Wait::Spin => std::hint::spin_loop(),
                    Wait::Block => self.wire.wait(NAP_NS)?,
                }
                if looks.is_due(wait) {
                    self.count_at(clock.now(), &mut looks);
                }
                continue;
            }
            // Read after they were found.
            let now = clock.now();
            batch.found = now;
            // The ring has room for all batches.
            let _ = self.full.push(batch);
            self.count_at(now, &mut looks);
        }
        Ok(())
    }
}

/// When a thread counts its losses.
#[derive(Default)]
struct Looks {
    /// Time of the last count.
    counted: Time,
    /// Polls that found nothing.
    idle: u32,
}

impl Looks {
    /// Returns whether to read the clock after a poll that found nothing.
    #[inline]
    fn is_due(&mut self, wait: Wait) -> bool {
        self.idle = self.idle.wrapping_add(1);
        matches!(wait, Wait::Block) || self.idle.is_multiple_of(POLLS)
    }
}

/// Lets other threads work first.
fn rest(wait: Wait) {
    match wait {
        Wait::Spin => std::hint::spin_loop(),
        Wait::Block => std::thread::sleep(REST),
    }
}

impl Lane {
    /// Begins a call; returns how many frames there may be for it.
    fn begin(&mut self) -> usize {
        self.there = self.full.slots();
        self.next();
        self.head.as_ref().map_or(0, |batch| batch.items.len() - batch.taken) + self.there * BURST
    }

    /// Returns when the next batch of this call was found, if there is one.
    fn next(&mut self) -> Option<Time> {
        if self.head.is_none() && self.there > 0 {
            self.there -= 1;
            self.head = self.full.pop().ok();
        }
        self.head.as_ref().map(|batch| batch.found)
    }

    /// Passes on frames of the batch, at most `most`.
    fn take(&mut self, most: usize, stride: usize, each: &mut dyn FnMut(Arrival<'_>)) -> usize {
        let Some(batch) = &mut self.head else { return 0 };
        let until = batch.items.len().min(batch.taken + most);
        let count = until - batch.taken;
        for (at, item) in batch.items.iter().enumerate().take(until).skip(batch.taken) {
            let bytes = &batch.bytes[at * stride..][..item.kept];
            each(Arrival { bytes, len: item.len, stamp_ns: item.stamp_ns, lost: item.lost });
        }
        batch.taken = until;
        if until == batch.items.len()
            && let Some(mut batch) = self.head.take()
        {
            batch.items.clear();
            batch.taken = 0;
            let _ = self.free.push(batch);
        }
        self.told.handed.fetch_add(count as u64, Ordering::Relaxed);
        count
    }
}

impl Gathered {
    /// Returns a guard that ends the receivers on drop.
    pub fn over(&self) -> Over {
        Over(self.over.clone())
    }

    /// Returns the counts to be read at the end.
    pub fn tally(&self) -> Tally {
        self.tally.clone()
    }
}

impl Tally {
    /// Returns the frames lost before they were read: of the role's own queue when its counters were last read.
    pub fn receive_dropped(&self) -> u64 {
        self.own().receive_dropped + self.lanes.iter().map(|told| told.totals().1).sum::<u64>()
    }

    fn own(&self) -> WireCounters {
        self.own.lock().map_or_else(|poisoned| *poisoned.into_inner(), |own| *own)
    }

    /// Returns the counts of each queue.
    pub fn queues(&self) -> Vec<QueueCounts> {
        let mut all = vec![counts(self.name, 0, self.own())];
        for (told, queue) in self.lanes.iter().zip(1..) {
            let (received, dropped) = told.totals();
            let full_waits = told.full_waits.load(Ordering::Relaxed);
            all.push(QueueCounts {
                end: self.name.into(),
                queue,
                received,
                dropped,
                full_waits,
                ..QueueCounts::default()
            });
        }
        all
    }
}

/// Returns notes if one queue of an end received or sent all frames, so that the work is not divided. Few frames are
/// not sufficient evidence.
pub(crate) fn imbalance(queues: &[QueueCounts]) -> Vec<Note> {
    let ends: BTreeSet<_> = queues.iter().map(|queue| queue.end.as_str()).collect();
    let said = |end: &str, verb: &str, why: &str, count: &dyn Fn(&QueueCounts) -> u64| {
        let of_end = || queues.iter().filter(|queue| queue.end == end);
        let (number, total) = (of_end().count(), of_end().map(count).sum::<u64>());
        let one = of_end().find(|queue| count(queue) == total)?;
        (number > 1 && total >= FEW).then(|| Note::OneQueue {
            queue: one.queue,
            of: number,
            end: end.to_owned(),
            verb: verb.to_owned(),
            frames: total,
            why: why.to_owned(),
        })
    };
    let of_end = |end: &&str| {
        let sent = said(end, "sent", "the workers of one queue sent, as there are too few", &|queue| queue.sent);
        // Reception and answers are separate: receivers send on their first queue by design.
        let received = said(
            end,
            "received",
            "they had one pair of addresses and ports, or their sender has one queue, as a software device; see \
             `pktgen doctor --iface`, or transport.fanout = \"queue\"",
            &|queue| queue.received,
        );
        if *end == "workers" { sent } else { received }
    };
    ends.iter().filter_map(of_end).collect()
}

/// Returns the counts of a wire that is a queue.
pub(crate) fn counts(end: &str, queue: u32, counters: WireCounters) -> QueueCounts {
    let WireCounters { sent, received, send_dropped, receive_dropped } = counters;
    QueueCounts {
        end: end.into(),
        queue,
        sent,
        received,
        dropped: send_dropped + receive_dropped,
        ..QueueCounts::default()
    }
}

impl Told {
    /// Returns the frames that the role received, and those lost before they were read. Frames found but not taken
    /// before the role's end are neither: with one queue they would have stayed in the kernel.
    fn totals(&self) -> (u64, u64) {
        (self.handed.load(Ordering::Relaxed), self.dropped.load(Ordering::Relaxed))
    }
}

impl Wire for Gathered {
    fn send(&mut self, frames: &[&[u8]]) -> Result<Submitted> {
        self.own.send(frames)
    }

    fn receive(&mut self, most: usize, each: &mut dyn FnMut(Arrival<'_>)) -> Result<Found> {
        // A share is reserved for the own queue, which busy others would starve.
        let share = most - most / (self.lanes.len() + 1);
        // Callers read the clock once per call, so what other threads find during it is left for the next one. The own queue is first, since
        // its frames may be sent until it is polled.
        let others: usize = self.lanes.iter_mut().map(Lane::begin).sum();
        let own = self.own.receive(most - share.min(others), each)?;
        let mut total = own.frames;
        while total < most {
            let earliest = self.lanes.iter_mut().filter_map(|lane| Some((lane.next()?, lane))).min_by_key(|(t, _)| *t);
            let Some((_, lane)) = earliest else { break };
            total += lane.take(most - total, self.stride, each);
        }
        Ok(Found { frames: total, ..own })
    }

    fn wait(&mut self, timeout_ns: u64) -> Result<()> {
        if self.lanes.iter().any(|lane| lane.head.is_some() || !lane.full.is_empty()) {
            return Ok(());
        }
        self.own.wait(timeout_ns.min(LOOK_NS))
    }

    fn flush(&mut self, timeout_ns: u64) -> Result<()> {
        self.own.flush(timeout_ns)
    }

    fn counters(&mut self) -> WireCounters {
        let own = self.own.counters();
        if let Ok(mut told) = self.tally.own.lock() {
            *told = own;
        }
        let others = self.lanes.iter().map(|lane| lane.told.totals());
        let others = others.map(|(received, receive_dropped)| WireCounters {
            received,
            receive_dropped,
            ..WireCounters::default()
        });
        others.fold(own, WireCounters::plus)
    }

    fn mode(&self) -> String {
        let count = self.lanes.len() + 1;
        format!(
            "{}; {count} queues with a thread each, this one first, the others in the order of being found; sends on this one",
            self.own.mode()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::ring::cable;
    use super::*;
    use pktgen_testing::eventually;
    use std::collections::VecDeque;

    /// Test queue: these frames, this many per poll.
    struct Has(VecDeque<Vec<u8>>, u64);

    impl Wire for Has {
        fn send(&mut self, frames: &[&[u8]]) -> Result<Submitted> {
            Ok(Submitted::all(frames.len()))
        }
        fn receive(&mut self, most: usize, each: &mut dyn FnMut(Arrival<'_>)) -> Result<Found> {
            let count = most.min(7).min(self.0.len());
            for frame in self.0.drain(..count) {
                each(Arrival { bytes: &frame, len: frame.len() + 100, stamp_ns: Some(self.1), lost: false });
                self.1 += 1;
            }
            Ok(Found::some(count))
        }
        fn wait(&mut self, _timeout_ns: u64) -> Result<()> {
            std::thread::yield_now();
            Ok(())
        }
        fn counters(&mut self) -> WireCounters {
            WireCounters { received: self.1, receive_dropped: 3, ..WireCounters::default() }
        }
        fn mode(&self) -> String {
            "has".into()
        }
    }

    /// Frames of three queues: all arrive once, whole, and those of a queue in order.
    #[test]
    fn frames_of_every_queue_come_in_order_and_are_counted() {
        const EACH: u32 = 20_000;
        let wire = |queue: u32| -> Box<dyn Wire> {
            let frame =
                |serial: u32| [&queue.to_le_bytes()[..], &serial.to_le_bytes(), &vec![9; queue as usize * 30]].concat();
            Box::new(Has((0..EACH).map(frame).collect(), 0))
        };
        let (mut gathered, receivers) = gather((0..3).map(wire).collect(), "server", 68).unwrap();
        let (clock, failed) = (RunClock::start(), AtomicBool::new(false));
        let mut next = [0u32; 3];
        std::thread::scope(|scope| {
            let over = gathered.over();
            for mut receiver in receivers {
                let (clock, failed) = (&clock, &failed);
                scope.spawn(move || receiver.run(clock, Wait::Block, failed).unwrap());
            }
            while next.iter().sum::<u32>() < 3 * EACH {
                let found = gathered.receive(64, &mut |arrival| {
                    let word = |at: usize| u32::from_le_bytes(arrival.bytes[at..at + 4].try_into().unwrap());
                    let (queue, serial) = (word(0) as usize, word(4));
                    assert_eq!((serial, arrival.stamp_ns), (next[queue], Some(u64::from(serial))));
                    assert_eq!((arrival.bytes.len(), arrival.len), (8 + queue * 30, 108 + queue * 30));
                    next[queue] += 1;
                });
                assert!(found.unwrap().frames <= 64);
            }
            drop(over);
        });
        let each = u64::from(EACH);
        let total = gathered.counters();
        let counts: Vec<_> = gathered.tally().queues().iter().map(|q| (q.queue, q.received, q.dropped)).collect();
        assert_eq!(counts, [(0, each, 3), (1, each, 3), (2, each, 3)]);
        assert_eq!((total.received, total.receive_dropped), (3 * each, 9));
    }

    /// A time that a caller reads during a call is after the sending of all of its frames.
    #[test]
    fn frames_found_during_a_call_are_left_for_the_next_one() {
        let (mut far, own) = cable(256, 64);
        let (mut gathered, mut receivers) = gather(vec![own, Box::new(Has(VecDeque::new(), 0))], "server", 60).unwrap();
        let Receiver { stride, free, full, .. } = &mut receivers[0];
        let mut find = |byte: u8| {
            let mut batch = free.pop().unwrap();
            batch.push(&Arrival { bytes: &[byte; 8], len: 8, stamp_ns: None, lost: false }, *stride);
            assert!(full.push(batch).is_ok());
        };
        assert_eq!(far.send(&[&[0; 8]]).unwrap().taken, 1);
        find(1);
        let mut got = Vec::new();
        let found = gathered.receive(64, &mut |arrival| {
            got.push(arrival.bytes[0]);
            assert_eq!(far.send(&[&[2; 8]]).unwrap().taken, 1);
            find(3);
        });
        assert_eq!((found.unwrap().frames, got), (2, vec![0, 1]));
        let mut got = Vec::new();
        let found = gathered.receive(64, &mut |arrival| got.push(arrival.bytes[0]));
        assert_eq!((found.unwrap().frames, got), (4, vec![2, 2, 3, 3]));
        assert_eq!(gathered.receive(64, &mut |_| {}).unwrap().frames, 0);
    }

    /// A role that takes nothing stops its receivers when their ring is full; frames found but not taken are not its losses.
    #[test]
    fn what_is_found_after_the_end_of_a_role_is_no_loss() {
        let wires: Vec<Box<dyn Wire>> =
            vec![Box::new(Has(VecDeque::new(), 0)), Box::new(Has((0..10_000).map(|_| vec![1; 20]).collect(), 0))];
        let (mut gathered, mut receivers) = gather(wires, "server", 60).unwrap();
        let (clock, failed) = (RunClock::start(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let over = gathered.over();
            let mut receiver = receivers.remove(0);
            let (clock, failed) = (&clock, &failed);
            let told = receiver.told.clone();
            scope.spawn(move || receiver.run(clock, Wait::Block, failed).unwrap());
            while told.full_waits.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            assert_eq!(gathered.receive(64, &mut |_| ()).unwrap().frames, 64);
            drop(over);
        });
        let counts = &gathered.tally().queues()[1];
        assert_eq!(counts.received, 64);
        assert!(counts.dropped == 3 && counts.full_waits > 0, "{counts:?}");
    }

    /// Of queues without frames, too.
    #[test]
    fn losses_of_every_queue_are_counted_during_the_run() {
        for wait in [Wait::Block, Wait::Spin] {
            let wire = |_: u32| -> Box<dyn Wire> { Box::new(Has(VecDeque::new(), 0)) };
            let (mut gathered, receivers) = gather((0..3).map(wire).collect(), "server", 60).unwrap();
            let (clock, failed) = (RunClock::start(), AtomicBool::new(false));
            std::thread::scope(|scope| {
                let over = gathered.over();
                for mut receiver in receivers {
                    let (clock, failed) = (&clock, &failed);
                    scope.spawn(move || receiver.run(clock, wait, failed).unwrap());
                }
                eventually("a count of all losses", || gathered.counters().receive_dropped == 9);
                drop(over);
            });
        }
    }

    #[test]
    fn a_spinning_thread_reads_the_clock_at_few_of_its_empty_polls() {
        let due = |wait| {
            let mut looks = Looks::default();
            (0..10 * POLLS).filter(|_| looks.is_due(wait)).count()
        };
        assert_eq!((due(Wait::Spin), due(Wait::Block)), (10, 10 * POLLS as usize));
    }

    #[test]
    fn one_queue_that_does_everything_is_named() {
        let queue = |end: &str, queue, sent, received| QueueCounts {
            end: end.into(),
            queue,
            sent,
            received,
            ..QueueCounts::default()
        };
        let good = [
            queue("server", 0, 900, 700),
            queue("server", 1, 0, 400),
            queue("workers", 0, 600, 0),
            queue("workers", 1, 500, 0),
        ];
        assert_eq!(imbalance(&good), []);
        let bad = [
            queue("server", 0, 900, 0),
            queue("server", 1, 0, 5000),
            queue("workers", 0, 2000, 0),
            queue("workers", 1, 0, 9),
        ];
        let said: Vec<_> = imbalance(&bad).iter().map(Note::to_string).collect();
        assert!(said[0].contains("queue 1 of the 2 of server received all 5000"), "{said:?}");
        assert!(said[1].contains("queue 0 of the 2 of workers sent all 2000") && said.len() == 2, "{said:?}");
        let few = [queue("server", 0, 0, 0), queue("server", 1, 0, 999)];
        assert_eq!(imbalance(&few), []);
    }
}
