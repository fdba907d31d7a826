//! Tests of windows: permitted blocks, their order, retransmissions, and adaptation to marks.

use std::sync::Arc;

use pktgen_core::record::Training;
use pktgen_core::seed::Seed;
use pktgen_workload::dense::DensePlan;

use super::super::{Scaling, WindowControl};
use super::*;

const BLOCKS: u32 = 40;

struct Bed {
    worker: Worker,
    settings: Settings,
    layout: Layout,
    host: Host,
    now: Time,
}

impl Bed {
    fn new(window: u32, settings: impl FnOnce(Settings) -> Settings) -> Self {
        Bed::of(u64::from(BLOCKS) * 64, window, settings)
    }

    fn of(elements_total: u64, window: u32, settings: impl FnOnce(Settings) -> Settings) -> Self {
        let plan = DensePlan { elements_total, elements_per_packet: 64, compute: 0, ..DensePlan::default() };
        let layout = Layout::new(Arc::new(Dense::new(plan, Seed(1)).unwrap()), Scaling::Fixed(1.0), window);
        let settings = settings(Settings {
            window,
            order: Order::Sliding,
            control: None,
            gaps: false,
            missed: Missed::Compute,
            typical: 0,
            measured: false,
            retransmit: None,
            training: Training::default(),
        });
        let mut worker = Worker::new(0, &layout, &settings);
        let mut host = Host::default();
        worker.begin(0, &layout, &settings, &mut host);
        Bed { worker, settings, layout, host, now: 0 }
    }

    /// Sends everything it may send now; each frame leaves at once.
    fn send(&mut self) -> Vec<(u32, u8)> {
        let mut sent = Vec::new();
        while self.worker.wake(&self.settings) <= self.now {
            let Some((block, attempt)) = self.worker.next(self.now, &self.settings) else { break };
            let seq = self.worker.iteration * BLOCKS + block;
            self.worker.left(PacketId::new(0, seq, attempt), BLOCKS, self.now, &self.settings);
            sent.push((block, attempt));
        }
        sent
    }

    /// Sends `frames` over a link that takes one per unit of time. `result` returns whether the result of a frame is marked, which comes as
    /// the frame leaves; `None` if there is none.
    fn send_over_link(&mut self, frames: u32, result: impl Fn(u32, u8) -> Option<bool>) -> Vec<(u32, u8)> {
        let (mut link, mut sent) = (VecDeque::new(), Vec::new());
        for _ in 0..frames {
            while self.worker.wake(&self.settings) <= self.now
                && let Some(next) = self.worker.next(self.now, &self.settings)
            {
                link.push_back(next);
            }
            let (block, attempt) = link.pop_front().expect("the link is busy");
            self.worker.left(PacketId::new(0, block, attempt), BLOCKS, self.now, &self.settings);
            sent.push((block, attempt));
            match result(block, attempt) {
                Some(marked) => self.result(block, marked),
                None => self.now += 1,
            }
        }
        sent
    }

    fn result(&mut self, block: u32, congested: bool) {
        self.now += 1;
        let seq = self.worker.iteration * BLOCKS + block;
        let head = ResultHead { job: None, seq, count: 1, degraded: false, exponent: 0, congested };
        self.worker.arrived(&head, self.now, BLOCKS, &self.settings);
        self.worker.end_if_all(self.now, &self.layout, &self.settings, &mut self.host);
    }
}

fn first(blocks: std::ops::Range<u32>) -> Vec<(u32, u8)> {
    blocks.map(|block| (block, 0)).collect()
}

#[test]
fn no_block_leaves_a_window_beyond_the_oldest_without_a_result() {
    let mut bed = Bed::new(5, |settings| settings);
    assert_eq!(bed.send(), first(0..5));
    bed.result(1, false);
    bed.result(2, false);
    assert_eq!(bed.send(), [], "0 holds all others up");
    bed.result(0, false);
    assert_eq!(bed.send(), first(5..8));
    (3..BLOCKS).for_each(|block| {
        bed.result(block, false);
        bed.send();
    });
    assert_eq!(bed.worker.iteration, 1);
    assert_eq!(bed.send(), [], "it began within the last call");
    assert_eq!(bed.worker.next, 5);
}

/// In virtual time departures are known in advance.
#[test]
fn nothing_is_handed_over_before_the_last_frame_departs() {
    let mut bed = Bed::new(4, |settings| Settings { control: Some(WindowControl { step: 4 }), ..settings });
    for block in 0..4 {
        assert_eq!(bed.worker.next(0, &bed.settings), Some((block, 0)));
        bed.worker.left(PacketId::new(0, block, 0), BLOCKS, Time::from(10 * block), &bed.settings);
    }
    (0..3).for_each(|block| bed.result(block, false));
    assert_eq!(bed.worker.wake(&bed.settings), 30, "although the window permits 4, 5 and 6");
    bed.result(3, true);
    bed.now = 30;
    assert_eq!(bed.send(), first(4..6), "the window was halved meanwhile");
}

#[test]
fn a_worker_needs_one_result_of_each_block() {
    let mut bed = Bed::new(5, |settings| settings);
    bed.send();
    bed.result(1, false);
    assert!(bed.worker.needs(0, 0) && !bed.worker.needs(0, 1), "of its iteration");
    assert!(bed.worker.needs(1, 1) && bed.worker.needs(9, 0), "of later iterations");
    (0..BLOCKS).for_each(|block| {
        bed.result(block, false);
        bed.send();
    });
    assert_eq!(bed.worker.iteration, 1);
    assert!(!bed.worker.needs(0, 0) && bed.worker.needs(1, 0), "of the iteration that it ended, and of the next");
}

#[test]
fn what_later_results_overtake_is_sent_again_once() {
    let mut bed = Bed::new(6, |settings| Settings { gaps: true, ..settings });
    assert_eq!(bed.send(), first(0..6));
    bed.result(2, false);
    assert_eq!(bed.send(), [(0, 1), (1, 1)]);
    bed.result(4, false);
    assert_eq!(bed.send(), [(3, 1)], "2 has a result, 0 and 1 have been sent again");
    bed.result(5, false);
    assert_eq!(bed.send(), []);
    bed.result(0, false);
    bed.result(1, false);
    assert_eq!(bed.send(), first(6..9), "3 is the oldest");
}

/// A first window longer than what waits for the link, which takes one frame per unit of time.
#[test]
fn the_first_window_leaves_before_freed_slots_and_retransmissions() {
    let window = 3 * UNSENT_MAX;
    for results in [true, false] {
        let mut bed = Bed::new(window, |settings| Settings { order: Order::Slots, retransmit: Some(5), ..settings });
        let frames = if results { BLOCKS } else { window + 1 };
        let sent = bed.send_over_link(frames, |_, _| results.then_some(false));
        let expected = if results { first(0..BLOCKS) } else { [first(0..window), vec![(0, 1)]].concat() };
        assert_eq!(sent, expected, "results: {results}");
    }
}

/// Windows longer than what waits for the link.
#[test]
fn what_is_overtaken_leaves_behind_its_window_and_before_the_next_blocks() {
    let again = |blocks: std::ops::Range<u32>| blocks.map(|block| (block, 1)).collect::<Vec<_>>();
    let window = 3 * UNSENT_MAX;
    // The lost blocks, the block whose result is marked and halves the window, and where the blocks that are sent again leave.
    for (lost, marked, at) in [(0..1, BLOCKS, window), (0..2 * UNSENT_MAX, BLOCKS, window), (22..23, 23, 34)] {
        let control = Some(WindowControl { step: 4 });
        let mut bed = Bed::new(window, |settings| Settings { gaps: true, control, ..settings });
        let result = |block: u32, attempt: u8| (attempt > 0 || !lost.contains(&block)).then_some(block == marked);
        let sent = bed.send_over_link(BLOCKS + lost.end - lost.start, result);
        assert_eq!(sent, [first(0..at), again(lost.clone()), first(at..BLOCKS)].concat(), "{lost:?}");
    }
}

/// A frame takes as long on the link as the timeout.
#[test]
fn silence_sends_nothing_again_before_its_window() {
    let window = 3 * UNSENT_MAX;
    let mut bed = Bed::new(window, |settings| Settings { retransmit: Some(1), ..settings });
    assert_eq!(bed.send_over_link(window + 1, |_, _| None), [first(0..window), vec![(0, 1)]].concat());
}

#[test]
fn silence_sends_the_oldest_again_and_waits_twice_as_long() {
    let mut bed = Bed::new(3, |settings| Settings { retransmit: Some(100), ..settings });
    assert_eq!(bed.send(), first(0..3));
    for (at, attempt) in [(100, 1), (300, 2), (700, 3)] {
        bed.now = at - 1;
        assert_eq!((bed.worker.wake(&bed.settings), bed.send()), (at, vec![]));
        bed.now = at;
        assert_eq!(bed.send(), [(0, attempt)]);
    }
    bed.result(1, false);
    assert_eq!(bed.worker.wake(&bed.settings), bed.now + 100, "something came");
    bed.result(0, false);
    assert_eq!(bed.send(), first(3..5));
    bed.now += 100;
    assert_eq!(bed.send(), [(2, 1)]);
}

/// The window changes once per window, with the result that ends it: it is halved if that is marked, else it grows by a step.
#[test]
fn a_window_follows_the_marks_of_results() {
    let mut bed = Bed::new(10, |settings| Settings { control: Some(WindowControl { step: 4 }), ..settings });
    let mut windows = Vec::new();
    bed.send();
    for block in 0..BLOCKS - 1 {
        // Marked are the results that end the first two windows, and others that do not count.
        bed.result(block, [3, 9, 11, 14].contains(&block));
        bed.send();
        if windows.last() != Some(&bed.worker.window().0) {
            windows.push(bed.worker.window().0);
        }
    }
    assert_eq!(windows, [10, 5, 2, 6, 10]);
    assert_eq!(bed.worker.window().1, 2, "halved twice");
}

#[test]
fn the_share_of_a_large_model_does_not_overflow() {
    assert_eq!(share_of(1000, 1, 3), 333);
    let (elements, packets) = (1 << 38, 1 << 28);
    assert_eq!(share_of(elements, packets / 2, packets), elements / 2);
    assert_eq!(share_of(u64::MAX, u64::MAX, u64::MAX), u64::MAX);
}

/// Results of the other blocks were there before it sent anything.
#[test]
fn a_short_last_block_counts_as_the_elements_that_it_has() {
    let (last, whole) = (BLOCKS - 1, u64::from(BLOCKS - 1) * 64);
    for (early, sent, elements) in [(0..0, BLOCKS, whole + 1), (0..last, 1, 1), (last..BLOCKS, last, whole)] {
        let mut bed = Bed::of(whole + 1, BLOCKS, |s| Settings { order: Order::Outstanding, ..s });
        early.clone().for_each(|block| bed.result(block, false));
        bed.send();
        (0..BLOCKS).filter(|block| !early.contains(block)).for_each(|block| bed.result(block, false));
        let row = &bed.host.iterations[0];
        assert_eq!((row.sent, row.skipped, row.elements), (sent, BLOCKS - sent, elements));
    }
}

#[test]
fn an_iteration_that_it_joined_is_as_long_as_the_others() {
    let mut bed =
        Bed::new(BLOCKS, |s| Settings { missed: Missed::Join, order: Order::Outstanding, measured: true, ..s });
    (bed.now, bed.worker.t_start, bed.worker.t_others) = (60, 60, 0);
    bed.send();
    (0..BLOCKS).for_each(|block| bed.result(block, false));
    assert_eq!(bed.worker.shortest, 60 + Time::from(BLOCKS));
}

/// A window whose last result comes behind those of the next window, and marked.
#[test]
fn a_window_goes_on_changing_after_its_last_result_was_overtaken() {
    let mut bed = Bed::new(10, |s| Settings { control: Some(WindowControl { step: 4 }), ..s });
    bed.send();
    for block in (0..9).chain(10..19) {
        bed.result(block, false);
        bed.send();
    }
    bed.result(9, true);
    bed.send();
    assert_eq!(bed.worker.window(), (5, 1));
    for block in 19..BLOCKS - 1 {
        bed.result(block, false);
        bed.send();
    }
    assert_eq!(bed.worker.window(), (10, 1));
}
