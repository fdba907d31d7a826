//! A run in real time allocates for its setup and nothing per packet: four times as many packets need no more allocations.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use crate::support::counting;
use pktgen_core::config::Document;
use pktgen_realtime::run::Experiment;
use pktgen_registry::all;
use pktgen_testing::alone::in_own_process;

/// All middleware that needs no profile.
const FILTERS: &str = "tap = \"tap.pcapng\"\nlimit = \"10Gbps\"\nfault_loss = 0.01\nfault_duplicate = 0.01\nfault_reorder = 0.1\n\
                       fault_corrupt = 0.01\non_wire = \"strict\"";

/// Returns the allocations of a run with `updates` updates of each of 27 workers.
fn allocations(updates: u32, (target, endpoint, keys): (&str, &str, &str), dir: &Path) -> u64 {
    let text = format!(
        "name = \"counted\"\n[workload]\nupdates = {updates}\n[schedule]\njitter = 0.3\noffered = \"200Mbps\"\n\
         [topology]\nrate = \"100Mbps\"\ndownlink_rate = \"1Gbps\"\n[target]\n{target}\n[endpoint]\n{endpoint}\n\
         [transport]\nkind = \"ring\"\n{keys}\nlinger = \"50ms\"\n[capture]\nrecords = \"none\"\n"
    );
    let experiment = Experiment::open(all(), Document::parse(&text, "test").unwrap()).unwrap();
    let before = counting::of_all_threads();
    let finished = experiment.execute(dir, 1, &AtomicBool::new(false), &|_, _| {}).unwrap();
    let after = counting::of_all_threads();
    let verdict = &finished[0].validity;
    assert!(verdict.faults.iter().any(|fault| fault.code() == "not_settled"), "{verdict:?}");
    after - before
}

#[test]
fn nothing_is_allocated_per_packet() {
    let name = "nothing_is_allocated_per_packet";
    in_own_process(module_path!(), name, Path::new("."), runs_of_four_times_as_many_packets);
}

/// Counts the threads of the whole process, so no other test may run beside it.
fn runs_of_four_times_as_many_packets() {
    let folder = tempfile::tempdir().unwrap();
    let mut number = 0;
    for (target, endpoint, keys) in [
        ("program = \"forward\"\nqueue = \"fifo\"", "workers = \"open_loop\"", ""),
        ("slots = 8", "workers = \"open_loop\"", ""),
        ("slots = 8", "workers = \"open_loop\"", "queues = 2"),
        ("slots = 4", "workers = \"transmission_control\"\ndelta_t = \"20ms\"", ""),
        ("slots = 8", "workers = \"open_loop\"", FILTERS),
    ] {
        let mut run = |updates| {
            number += 1;
            allocations(updates, (target, endpoint, keys), &folder.path().join(number.to_string()))
        };
        // The first run of a process includes one-time allocations.
        run(100);
        let (few, many) = (run(500), run(2000));
        // 40,500 more packets and their ACKs. Queues that reached a new maximum length may have grown a few times.
        assert!(
            many < few + 400,
            "{target}, {endpoint}, {keys}: {few} allocations for 13,500 packets, {many} for 54,000"
        );
    }
}
