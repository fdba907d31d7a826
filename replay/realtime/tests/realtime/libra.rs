//! Sparse training as a whole, over links that lose, duplicate and delay frames: every contribution is counted exactly once.
//!
//! Small random experiments run twice. The first run has real values: the results that workers receive, hot and cold,
//! are compared with sums computed without registers, packets or books. The second has digits instead of values, so
//! that a sum shows how often each worker is in it.

mod cases;
mod naive;
mod recorded;
mod spy;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use pktgen_core::Result;
use pktgen_core::config::Document;
use pktgen_core::record::{Action, Balance, Book, PacketId, Received, Sent};
use pktgen_core::time::NEVER;
use pktgen_core::topology::Racks;
use pktgen_engine::driver::virtual_time::{Outcome, Simulation};
use pktgen_engine::ledger::total;
use pktgen_engine::recorder::Recorder;
use pktgen_libra::format::FRESH_SHIFT;
use pktgen_realtime::plan::{prepare, source};
use pktgen_registry::all;
use pktgen_workload::sparse::Sparse;

use cases::Case;
use spy::{Seen, Spy};

/// The recorded rows that the tests use.
#[derive(Default)]
struct Rows {
    books: Vec<Book>,
    received: Vec<Received>,
}

impl Recorder for Rows {
    fn sent(&mut self, _: &Sent) -> Result<()> {
        Ok(())
    }

    fn book(&mut self, row: &Book) -> Result<()> {
        self.books.push(*row);
        Ok(())
    }

    fn received(&mut self, row: &Received, _: &[u8]) -> Result<()> {
        self.received.push(*row);
        Ok(())
    }
}

/// A finished run.
struct Over {
    outcome: Outcome,
    balance: Balance,
    seen: Seen,
    rows: Rows,
    sparse: Arc<Sparse>,
    racks: Arc<Racks>,
}

fn run(case: &Case, target: &str, counting: bool) -> Over {
    let document = Document::parse(&case.text(target), "test").expect("it is TOML");
    let sparse =
        source(all(), document.clone(), case.number).expect("a workload").known().sparse().expect("it is sparse");
    let mut plan = prepare(all(), document, case.number).expect("a plan");
    let (facts, case) = (plan.parts.facts.clone(), case.clone());
    let racks = facts.racks.clone();
    let seen = Arc::new(Mutex::new(Seen::of(&racks)));
    let inner = plan.parts.workers;
    plan.parts.workers = Box::new(Spy { inner, seen: seen.clone(), facts, counting, case });
    let mut rows = Rows::default();
    let simulation = Simulation::new(plan.parts);
    let mut outcome = simulation.run(NEVER, &AtomicBool::new(false), &mut rows, &mut |_| {}).expect("it runs");
    let balance = total(&outcome.ledger.close());
    let seen = std::mem::take(&mut *seen.lock().expect("one thread"));
    Over { outcome, balance, seen, rows, sparse, racks }
}

/// Returns how often each hot push was merged, counting all attempts.
fn merged(over: &Over) -> BTreeMap<(u32, u32), u32> {
    let mut merged: BTreeMap<_, u32> =
        over.seen.pushes.keys().filter(|(_, seq)| seq & 1 == 0).map(|place| (*place, 0)).collect();
    for row in over.rows.books.iter().filter(|row| row.action == Action::Merged) {
        *merged.get_mut(&(row.packet_in.worker(), row.packet_in.seq())).expect("it was pushed") += 1;
    }
    merged
}

/// Asserts that the run came to its end and that its balance closes.
fn is_closed(over: &Over, case: &Case, counting: bool) {
    let (outcome, counters) = (&over.outcome, &over.outcome.counters);
    assert!(outcome.faults.is_empty(), "{:?}", outcome.faults);
    assert!(!outcome.cut && !outcome.beyond_horizon && outcome.source_failure.is_none());
    assert_eq!((outcome.leaked, outcome.ledger.strangers(), over.balance.unknown), (0, 0, 0), "{:?}", over.balance);
    assert_eq!(counters.foreign, 0);
    if !counting {
        assert_eq!((counters.sums_wrong, counters.sums_ok), (0, counters.packets_received));
    }
    assert_eq!(over.seen.ended.len() as u32, case.workers * case.jobs * case.iterations);
    let pushes = over.seen.pushes.len() as u64;
    assert_eq!(over.balance.generated, pushes, "{:?}", over.balance);
}

/// Asserts that the first copy of each part of a sum is its delivery.
fn is_delivered_once(over: &Over) {
    let parts = over.rows.received.iter().filter_map(|row| Some((row.packet, row.part?, row.last)));
    let mut parts: Vec<(PacketId, u32, Option<bool>)> = parts.collect();
    let rows = parts.len();
    parts.sort_unstable();
    parts.dedup();
    assert_eq!(parts.len(), rows);
}

fn counts_exactly_once(case: &Case) {
    for counting in [false, true] {
        let over = run(case, "add = \"exact\"\n", counting);
        is_closed(&over, case, counting);
        is_delivered_once(&over);
        naive::check_pushes(&over.seen, &over.sparse, case);
        naive::check_division(&over.seen, &over.sparse, case, &over.racks.rack_of);
        naive::check_results(&over.seen, &over.sparse, case, counting);
        if counting {
            naive::check_pulls(&over.seen, &over.sparse, case);
        }
        if case.hot {
            assert!(merged(&over).values().all(|n| *n == 1));
        }
        let exact = over.outcome.ledger.exactness().expect("pairs are counted");
        assert_eq!((exact.twice, exact.never), (0, 0));
    }
}

/// Calls `check` with each case; reports those that failed.
fn each(cases: impl Iterator<Item = Case>, mut check: impl FnMut(&Case)) {
    let mut wrong = Vec::new();
    for case in cases {
        if catch_unwind(AssertUnwindSafe(|| check(&case))).is_err() {
            wrong.push(case.to_string());
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn strict_switches_count_everything_exactly_once() {
    let mut copied = 0;
    each((0..40).map(Case::of), |case| {
        counts_exactly_once(case);
        // A result that was not acknowledged in time comes in a further attempt, which is no copy.
        let again = run(case, "add = \"exact\"\n", false).outcome.counters.frames_again;
        assert!(again == 0 || !case.faults.contains("fault_duplicate = 0\n"), "{again} frames with results came again");
        copied += u32::from(again > 0);
    });
    assert!(copied > 0, "no result was copied");
}

/// LIBRA §2.1, §6: each server has its own parameters, and the switch of each rack sums those of its servers.
#[test]
fn several_servers_and_their_racks_count_everything_exactly_once() {
    let (mut around, mut racks) = (0, 0);
    each((0..60).map(Case::of_servers), |case| {
        counts_exactly_once(case);
        let over = run(case, "add = \"exact\"\n", false);
        let known = (over.racks.servers.len() as u64, counter(&over, "servers"));
        assert_eq!(known.0, known.1);
        around += u32::from(over.racks.devices.len() == 1);
        racks += u32::from(over.racks.devices.len() > 1);
    });
    assert!(around > 10 && racks > 20, "{around} with one rack, {racks} with several");
}

/// Returns the total over all iterations of the returned values, by job and key. Each result of the switch is one sum;
/// so are the server's answers, which are the same for all workers.
fn returned(over: &Over, case: &Case) -> BTreeMap<(u32, u64), f64> {
    let mut sums: BTreeMap<(u32, u32, u64), f32> = BTreeMap::new();
    for job in 0..case.jobs {
        let known = over.sparse.hot_of(job as u16);
        for (iteration, range) in (0..).zip(over.seen.results_of(job as u8)) {
            let parts = range.map(|number| &over.seen.parts[&(job as u8, number)]);
            let values = parts.flat_map(|part| &part.values);
            sums.extend(values.map(|(index, value)| ((job, iteration, known.key_of(*index as u32)), *value)));
        }
    }
    for (place, answer) in &over.seen.answers {
        let (iteration, _) = over.seen.pushes[place];
        let job = place.0 / case.workers;
        for (key, value) in answer {
            assert_eq!(*value, *sums.entry((job, iteration, *key)).or_insert(*value), "answers differ");
        }
    }
    let mut totals = BTreeMap::new();
    for ((job, _, key), value) in sums {
        *totals.entry((job, key)).or_default() += f64::from(value);
    }
    totals
}

/// Recorded pairs are pushed as in the rows of the trace, which repeat, and the sums of each key over all iterations
/// equal the sums of the rows.
#[test]
fn recorded_pairs_add_up_to_the_rows_of_the_trace() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    each((0..30).map(Case::of), |case| {
        let mut case = case.clone();
        let rows = recorded::record(&mut case, folder.path());
        counts_exactly_once(&case);
        if case.asynchronous {
            return;
        }
        let over = run(&case, "add = \"exact\"\n", false);
        let (mut pushed, mut totals) = (BTreeMap::new(), BTreeMap::<_, (f64, f64)>::new());
        for ((worker, seq), (iteration, values)) in &over.seen.pushes {
            let known = over.sparse.hot_of((worker / case.workers) as u16);
            let key = |key: u64| if seq & 1 == 0 { known.key_of(key as u32) } else { key };
            let own: &mut BTreeMap<u64, f32> = pushed.entry((*worker, *iteration)).or_default();
            values.iter().for_each(|(at, value)| assert!(own.insert(key(*at), *value).is_none()));
        }
        for (worker, iteration) in (0..case.workers * case.jobs).flat_map(|w| (0..case.iterations).map(move |i| (w, i)))
        {
            let expected = recorded::sent(&rows, worker, iteration);
            assert_eq!(&pushed.remove(&(worker, iteration)).unwrap_or_default(), expected, "{worker}, {iteration}");
            for (key, value) in expected {
                let (sum, size) = totals.entry((worker / case.workers, *key)).or_default();
                (*sum, *size) = (*sum + f64::from(*value), *size + f64::from(value.abs()));
            }
        }
        let returned = returned(&over, &case);
        assert!(returned.keys().all(|place| totals.contains_key(place)));
        for (place, (sum, size)) in totals {
            let found = returned.get(&place).copied().unwrap_or_default();
            assert!((found - sum).abs() <= 1e-5 * size, "{place:?}: {found} instead of {sum}");
        }
    });
}

/// Returns a counter of the devices and the controller.
fn counter(over: &Over, name: &str) -> u64 {
    over.outcome.counters.device.get(name).copied().unwrap_or_default()
}

#[test]
fn what_heartbeats_see_coming_counts_everything_exactly_once() {
    let mut migrated = 0;
    let fails = ["fails = \"loss\"", "fails = \"memory\"", "fails = \"slow\""];
    each((0..24).map(|number| Case::failing(number, &fails)), |case| {
        counts_exactly_once(case);
        let over = run(case, "add = \"exact\"\n", true);
        assert_eq!((counter(&over, "controller.takeovers"), counter(&over, "results_missed")), (0, 0));
        migrated += u64::from(counter(&over, "controller.migrations") > 0);
    });
    assert!(migrated >= 18, "{migrated} of 24 cases moved their sums");
}

/// Returns the sums that workers have, by opener: of the switches before one restarted, and of those after.
fn had(over: &Over, case: &Case) -> BTreeMap<(PacketId, bool), Vec<(u8, u32)>> {
    let mut had = BTreeMap::new();
    for ((worker, ..), (first, opener)) in &over.seen.has {
        let job = (worker / case.workers) as u8;
        let Some(opener) = opener else { continue };
        let parts = (*first..).take(usize::from(over.seen.parts[&(job, *first)].head.parts));
        let fresh = first >> FRESH_SHIFT > 0;
        had.insert((*opener, fresh), parts.map(|number| (job, number)).collect());
    }
    had
}

/// Asserts that the digits in the sums that workers have match the merges in the books, and that the balance reports
/// the other merges as lost with a device. Returns how many transmissions were lost.
fn loses_what_it_says(case: &Case) -> u64 {
    let over = run(case, "add = \"exact\"\n", false);
    is_closed(&over, case, false);
    let over = run(case, "add = \"exact\"\n", true);
    is_closed(&over, case, true);
    naive::check_pushes(&over.seen, &over.sparse, case);
    let had = had(&over, case);
    let mut digits: BTreeMap<(u32, u64), u32> = BTreeMap::new();
    let mut openers: BTreeMap<PacketId, Vec<u16>> = BTreeMap::new();
    let (mut merged, mut counted) = (BTreeSet::new(), BTreeMap::<_, u32>::new());
    for row in over.rows.books.iter().filter(|row| row.action == Action::Merged) {
        let (packet, opener) = (row.packet_in, row.packet_out.expect("it has an opener"));
        let nodes = openers.entry(opener).or_default();
        if packet == opener {
            nodes.push(row.node);
        }
        merged.insert(packet);
        let fresh = [nodes.len() > 1, nodes.len() == 1 && !had.contains_key(&(opener, false))];
        if had.contains_key(&(opener, fresh.contains(&true))) {
            *counted.entry(packet).or_default() += 1;
            for (index, _) in &over.seen.pushes[&(packet.worker(), packet.seq())].1 {
                *digits.entry((packet.worker(), *index)).or_default() += 1;
            }
        }
    }
    for (job, number) in had.values().flatten() {
        for (index, sum) in &over.seen.parts[&(*job, *number)].values {
            for (rank, n) in (0..).zip(spy::counts(*sum, case.workers)).filter(|(_, n)| *n > 0) {
                let left = digits.get_mut(&(u32::from(*job) * case.workers + rank, *index)).expect("in the books");
                *left = left.checked_sub(n).expect("no more than the books say");
            }
        }
    }
    assert!(digits.values().all(|n| *n == 0), "the books say more");
    let lost = merged.iter().filter(|packet| !counted.contains_key(packet)).count() as u64;
    let said = over.balance.dropped.get("device_lost").copied().unwrap_or_default();
    assert_eq!((said, over.balance.in_flight), (lost, 0), "{:?}", over.balance);
    let mut times: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    for (packet, n) in &counted {
        *times.entry((packet.worker(), packet.seq())).or_default() += n;
    }
    let exact = over.outcome.ledger.exactness().expect("pairs are counted");
    assert_eq!(exact.twice, times.values().filter(|n| **n > 1).count() as u64);
    lost
}

#[test]
fn a_switch_that_dies_loses_what_the_books_say() {
    let (mut lost, mut cases) = (0, 0);
    let fails = [
        "fails = \"crash\"",
        "fails = \"memory\"\nfails_then = \"crash\"",
        "fails = \"loss\"\nfails_then = \"crash\"",
        "fails = \"slow\"\nfails_then = \"crash\"",
    ];
    each((0..48).map(|number| Case::failing(number, &fails)), |case| {
        let of_this = loses_what_it_says(case);
        (lost, cases) = (lost + of_this, cases + u32::from(of_this > 0));
    });
    assert!(lost > 200 && cases >= 10, "{lost} in {cases} cases");
}

/// Errors of a switch according to its books: pushes that are in several sums or merged several times, and pushes that are in none.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
struct Wrong {
    twice: u64,
    never: u64,
}

/// Asserts that the results match the books, errors included, and that the counters report the errors.
fn counts_as_its_books_say(case: &Case, target: &str) -> Wrong {
    let over = run(case, target, false);
    is_closed(&over, case, false);
    let merged = merged(&over);
    let count = |wanted: fn(u32) -> bool| merged.values().filter(|n| wanted(**n)).count() as u64;
    let wrong = Wrong { twice: count(|n| n > 1), never: count(|n| n == 0) };
    let exact = over.outcome.ledger.exactness().expect("pairs are counted");
    assert_eq!(wrong, Wrong { twice: exact.twice, never: exact.never });
    let over = run(case, target, true);
    let departed: BTreeSet<PacketId> =
        over.rows.books.iter().filter(|row| row.action == Action::Departed).map(|row| row.packet_in).collect();
    let mut counts: BTreeMap<(u32, u64), u32> = BTreeMap::new();
    for row in over.rows.books.iter().filter(|row| row.action == Action::Merged) {
        let (worker, seq) = (row.packet_in.worker(), row.packet_in.seq());
        // Contributions that arrived after the end stay in the registers.
        if row.packet_out.is_some_and(|opener| departed.contains(&opener)) {
            for (index, _) in &over.seen.pushes[&(worker, seq)].1 {
                *counts.entry((worker, *index)).or_default() += 1;
            }
        }
    }
    for ((job, _), part) in &over.seen.parts {
        for (index, sum) in &part.values {
            for (rank, n) in (0..).zip(spy::counts(*sum, case.workers)).filter(|(_, n)| *n > 0) {
                let left =
                    counts.get_mut(&(u32::from(*job) * case.workers + rank, *index)).expect("it is in the books");
                *left = left.checked_sub(n).expect("no more than the books say");
            }
        }
    }
    assert!(counts.values().all(|n| *n == 0), "the books say more");
    wrong
}

#[test]
fn other_switches_say_what_they_count_wrong() {
    let mut all = [Wrong::default(); 3];
    each((0..).map(Case::of).filter(|case| case.hot && !case.asynchronous).take(16), |case| {
        let targets = [
            "repeat_writes = \"paper\"\n",
            "repeat_writes = \"bloom\"\n",
            "repeat_writes = \"bloom\"\nbloom_bits = 64\n",
        ];
        for (all, target) in all.iter_mut().zip(targets) {
            let wrong = counts_as_its_books_say(case, &format!("add = \"exact\"\n{target}"));
            (all.twice, all.never) = (all.twice + wrong.twice, all.never + wrong.never);
        }
    });
    let [paper, bloom, few_bits] = all;
    // Originals that arrive after their retransmission, and copies made by the network, have no bit that marks them.
    // Only a Bloom filter loses packets, and one with few bits loses many.
    assert!(paper.twice > 50 && paper.never == 0, "{all:?}");
    assert!(bloom.twice > 50 && few_bits.twice > 50, "{all:?}");
    assert!(few_bits.never > 50 && few_bits.never > 10 * bloom.never, "{all:?}");
}
