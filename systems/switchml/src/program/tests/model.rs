//! The switch in its simplest form: sets of workers, lists of contributions.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::*;

type Row = (Time, PacketId, Action, Option<PacketId>, Option<Reason>);

#[derive(Default)]
struct Cell {
    bits: BTreeSet<u32>,
    /// Number of missing packets; `None` while no sum is in progress.
    missing: Option<usize>,
    number: Option<u32>,
    parts: Vec<(u32, u32)>,
    since: BTreeMap<u32, PacketId>,
    result: Option<PacketId>,
}

/// A result: its destination, the requesting packet, and the contributions.
#[derive(Debug, Clone, PartialEq)]
struct Result {
    to: Vec<u32>,
    header: Header,
    sums: Vec<i32>,
}

struct Naive {
    jobs: Vec<Vec<u32>>,
    served: usize,
    pool: u16,
    check: bool,
    cells: HashMap<(u16, u16, bool), Cell>,
    rows: Vec<Row>,
    due: Vec<(Time, PacketId)>,
    results: Vec<Result>,
}

impl Naive {
    fn new(jobs: &[u8], pool: u16, check: bool, several: bool) -> Self {
        let mut next = 0..;
        let jobs: Vec<Vec<u32>> = jobs.iter().map(|n| next.by_ref().take(usize::from(*n)).collect()).collect();
        let served = if several { jobs.len() } else { 1 };
        let (cells, rows, due, results) = Default::default();
        Naive { jobs, served, pool, check, cells, rows, due, results }
    }

    fn leave(&mut self, t: Time) {
        while self.due.first().is_some_and(|(due, _)| *due <= t) {
            let (due, packet) = self.due.remove(0);
            self.rows.push((due, packet, Action::Departed, None, None));
        }
    }

    fn stale(&self, job: u16, worker: u32, header: &Header) -> bool {
        let empty = Cell::default();
        let cell = self.cells.get(&(job, header.slot, header.set)).unwrap_or(&empty);
        let other = self.cells.get(&(job, header.slot, !header.set)).unwrap_or(&empty);
        if other.missing.is_some() && other.bits.contains(&worker) {
            return true;
        }
        match (cell.missing, cell.number) {
            (_, None) => false,
            (Some(_), Some(number)) => number != header.packet,
            (None, Some(number)) if number == header.packet => !cell.bits.contains(&worker),
            (None, Some(number)) => !cell.bits.is_empty() || header.packet < number,
        }
    }

    fn arrive(&mut self, t: Time, worker: u32, job: u16, header: Header, packet: PacketId) {
        self.leave(t);
        let log = |rows: &mut Vec<Row>, reason| rows.push((t, packet, Action::Dropped, None, Some(reason)));
        let known = self.jobs.iter().flatten().any(|w| *w == worker);
        let verdict = match () {
            () if !known => Some(Reason::UnknownSource),
            () if usize::from(job) >= self.served => Some(Reason::UnknownJob),
            () if !self.jobs[usize::from(job)].contains(&worker) => Some(Reason::UnknownSource),
            () if header.elements != N => Some(Reason::WrongCount),
            () if header.slot >= self.pool => Some(Reason::TableFull),
            () if self.check && self.stale(job, worker, &header) => Some(Reason::Stale),
            () => None,
        };
        if let Some(reason) = verdict {
            return log(&mut self.rows, reason);
        }
        let workers = self.jobs[usize::from(job)].clone();
        self.cells.entry((job, header.slot, !header.set)).or_default().bits.remove(&worker);
        let cell = self.cells.entry((job, header.slot, header.set)).or_default();
        let fresh = cell.bits.is_empty();
        if !cell.bits.insert(worker) {
            log(&mut self.rows, Reason::Duplicate);
            if cell.missing.is_none() {
                self.results.push(answer(cell, &header, vec![worker]));
            }
            return;
        }
        self.rows.push((t, packet, Action::Queued, None, None));
        if fresh {
            cell.parts.clear();
            for lost in std::mem::take(&mut cell.since).into_values() {
                self.rows.push((t, lost, Action::Dropped, None, Some(Reason::Stale)));
            }
        }
        cell.number = Some(header.packet);
        cell.parts.push((worker, header.packet));
        if let Some(earlier) = cell.since.insert(worker, packet) {
            self.rows.push((t, earlier, Action::Merged, Some(packet), None));
        }
        let missing = cell.missing.unwrap_or(workers.len()) - 1;
        cell.missing = (missing > 0).then_some(missing);
        if missing == 0 {
            let mut members = std::mem::take(&mut cell.since).into_values();
            let stays = members.next().unwrap();
            self.rows.extend(members.map(|member| (t, member, Action::Merged, Some(stays), None)));
            cell.result = Some(stays);
            self.due.push((t + LATENCY, stays));
            self.results.push(answer(cell, &header, workers));
        }
    }
}

fn answer(cell: &Cell, asked: &Header, to: Vec<u32>) -> Result {
    let largest = |of: fn(u32, u32) -> i8| cell.parts.iter().map(|(w, n)| of(*w, *n)).max().unwrap();
    let one = |i| cell.parts.iter().map(|(w, n)| i64::from(value(*w, *n, i))).sum::<i64>() as i32;
    let header = Header { exponent: largest(exponent), attempt: largest(second), ..*asked };
    Result { to, header, sums: (0..N).map(one).collect() }
}

/// A packet of a random run.
#[derive(Debug, Clone)]
struct Step {
    worker: u32,
    job: u16,
    slot: u16,
    set: bool,
    round: u32,
    large: bool,
    wait: Time,
}

fn step() -> impl Strategy<Value = Step> {
    let wait = prop_oneof![4 => 0..LATENCY / 2, 1 => Just(LATENCY), 1 => Just(0i64)];
    let large = prop::bool::weighted(0.03);
    let job = prop_oneof![12 => Just(None), 1 => (0u16..4).prop_map(Some)];
    let parts = (0u32..5, job, 0u16..5, any::<bool>(), 0u32..3, large, wait);
    parts.prop_map(|(worker, job, slot, set, round, large, wait)| {
        // Workers 0 to 2 are in job 0, worker 3 in job 1, and worker 4 is unknown.
        let job = job.unwrap_or(u16::from(worker == 3));
        // Occasionally a slot outside the pool of two.
        Step { worker, job, slot: if slot == 4 { 2 } else { slot % 2 }, set, round, large, wait }
    })
}

const JOBS: [u8; 2] = [3, 1];

fn header(step: &Step) -> Header {
    let number = (step.round * 2 + u32::from(step.set)) * 2 + u32::from(step.slot);
    let exponent = exponent(step.worker, number);
    let elements = if step.large { 256 } else { N };
    Header {
        job: 9,
        packet: number,
        set: step.set,
        slot: step.slot,
        exponent,
        attempt: second(step.worker, number),
        elements,
    }
}

/// Runs the switch with bursts of these sizes; the timer is called as by a driver, or not at all.
fn run(steps: &[Step], check: bool, several: bool, sizes: &[usize], timers: bool) -> (Vec<Row>, Vec<Left>, Rig) {
    let mut rig = Rig::new(place(&JOBS), &keys(2, check, several));
    let mut t = 0;
    let mut frames = Vec::new();
    for (i, step) in steps.iter().enumerate() {
        t += step.wait;
        frames.push(rig.frame(step.worker, step.job, header(step), t, id(step.worker, i as u32, 0)));
    }
    let (mut rest, mut sizes) = (&frames[..], sizes.iter().cycle());
    while let Some(first) = rest.first() {
        while timers && rig.program.next_wake() <= first.t {
            rig.timer(rig.program.next_wake());
        }
        let size = (*sizes.next().unwrap()).min(rest.len());
        rig.burst(&rest[..size]);
        rest = &rest[size..];
    }
    let left = rig.finish();
    (rig.books.rows.iter().map(row).collect(), left, rig)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]
    #[test]
    fn agrees_with_the_blackboard(steps in prop::collection::vec(step(), 0..150), check: bool, several: bool) {
        let (rows, left, rig) = run(&steps, check, several, &[steps.len().max(1)], false);
        let mut naive = Naive::new(&JOBS, 2, check, several);
        let mut t = 0;
        for (i, step) in steps.iter().enumerate() {
            t += step.wait;
            naive.arrive(t, step.worker, step.job, header(step), id(step.worker, i as u32, 0));
        }
        naive.leave(NEVER);
        prop_assert_eq!(&rows, &naive.rows);
        prop_assert!(rows.is_sorted_by_key(|row| row.0));
        for worker in 0..4 {
            let link = u32::from(port_of(worker, 4));
            let mut got = left.iter().filter(|(l, _)| *l == link).map(|(_, bytes)| read(bytes));
            for result in naive.results.iter().filter(|result| result.to.contains(&worker)) {
                let (header, sums) = got.next().unwrap();
                prop_assert_eq!(header, result.header);
                prop_assert_eq!(sums, result.sums.clone());
            }
            prop_assert!(got.next().is_none(), "worker {} got more than it should", worker);
        }
        let dropped = rows.iter().filter(|row| row.4 == Some(Reason::Duplicate)).count() as u64;
        prop_assert_eq!(rig.counter("duplicates_answered") + rig.counter("duplicates_dropped"), dropped);
        prop_assert_eq!(rig.counter("packets"), steps.len() as u64);
        prop_assert!(!check || rig.counter("overwritten") == 0);
        // Each packet has one fate.
        let mut ended = HashSet::new();
        for (_, packet, action, ..) in &rows {
            prop_assert!(*action == Action::Queued || ended.insert(*packet), "{:?} ended twice", packet);
        }
    }

    #[test]
    fn with_the_check_no_packets_whatsoever_make_a_wrong_sum(
        steps in prop::collection::vec(step(), 0..300), several: bool,
    ) {
        let (_, left, _) = run(&steps, true, several, &[7], true);
        for (link, bytes) in left {
            let (header, sums) = read(&bytes);
            let workers = if link == 0 { 3..4 } else { 0..3 };
            prop_assert_eq!(sums, sum(workers, header.packet, N));
        }
    }

    #[test]
    fn splitting_a_burst_anywhere_changes_nothing(
        steps in prop::collection::vec(step(), 1..80), check: bool, sizes in prop::collection::vec(1usize..9, 1..20),
    ) {
        let whole = run(&steps, check, true, &[steps.len()], false);
        for (sizes, timers) in [(&sizes[..], false), (&sizes[..], true), (&[1], true), (&[1], false)] {
            let split = run(&steps, check, true, sizes, timers);
            prop_assert_eq!(&whole.0, &split.0);
            prop_assert_eq!(&whole.1, &split.1);
        }
    }
}
