//! A switch that fails during training (LIBRA §3.6): failures that heartbeats announce lose nothing, whatever the
//! network does to packets; losses of other failures are reported, and training continues.

use std::cell::Cell;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use pktgen_core::config::Document;
use pktgen_core::record::{Fault, Manifest};
use pktgen_realtime::run::Experiment;
use pktgen_registry::all;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

/// One run.
#[derive(Debug, Clone, Default)]
struct Case {
    workers: u32,
    jobs: u32,
    iterations: u32,
    fails: &'static str,
    at_us: u32,
    mode: &'static str,
    /// Probabilities of lost, duplicated and reordered frames, in thousandths.
    faults: [u32; 3],
    seed: u64,
}

fn case(fails: &'static str, faults: [u32; 3]) -> Case {
    Case { workers: 4, jobs: 1, iterations: 6, fails, at_us: 450, mode: "sync", faults, seed: 1 }
}

fn text(case: &Case) -> String {
    let [lost, doubled, overtaken] = case.faults.map(|n| f64::from(n) / 1000.0);
    format!(
        "name = \"failover\"\nseed = {}\n[workload]\nkind = \"sparse\"\nmodel = \"oa\"\npairs = 1000\nworkers = {}\njobs = {}\n\
         iterations = {}\ncompute = \"100us\"\n[topology]\nkind = \"star\"\nhosts = 2\nstandby = 2\n\
         [endpoint]\nworkers = \"libra\"\nmode = \"{}\"\ntimeout = \"200us\"\nwindow = 64\nheartbeat = \"50us\"\n\
         heartbeat_timeout = \"400us\"\ndelay_max = \"150us\"\n\
         [target]\nprogram = \"libra\"\nfails = \"{}\"\nfails_at = \"{}us\"\nfails_loss = 0.1\nfails_delay = \"200us\"\n\
         result_timeout = \"200us\"\n\
         [transport]\nfault_loss = {lost}\nfault_duplicate = {doubled}\nfault_reorder = {overtaken}\n\
         fault_reorder_by = 300\nfault_reorder_hold = \"250us\"\n",
        case.seed, case.workers, case.jobs, case.iterations, case.mode, case.fails, case.at_us,
    )
}

fn run(case: &Case) -> Manifest {
    run_text(&text(case))
}

fn run_text(text: &str) -> Manifest {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("run");
    let experiment = Experiment::open(all(), Document::parse(text, "test").unwrap()).unwrap();
    experiment.execute(Path::new(&dir), 1, &AtomicBool::new(false), &|_, _| {}).unwrap();
    serde_json::from_slice(&std::fs::read(dir.join("manifest.json")).unwrap()).unwrap()
}

fn counter(manifest: &Manifest, name: &str) -> u64 {
    manifest.counters.device.get(name).copied().unwrap_or(0)
}

fn dropped(manifest: &Manifest, reason: &str) -> u64 {
    manifest.balance.dropped.get(reason).copied().unwrap_or(0)
}

/// Asserts that all workers finished, the balance closes, all sums are right, and nothing is counted twice.
fn is_sound(case: &Case) -> Manifest {
    let manifest = run(case);
    let (balance, counters) = (&manifest.balance, &manifest.counters);
    assert!(manifest.validity.is_valid(), "{case:?}: {:?}", manifest.validity);
    assert_eq!((balance.unknown, counters.sums_wrong, counters.foreign), (0, 0, 0), "{case:?}: {balance:?}");
    assert_eq!((counter(&manifest, "counted_twice"), counter(&manifest, "never_counted")), (0, 0), "{case:?}");
    manifest
}

/// Asserts that nothing was lost with a switch: every push is in one sum, which was delivered.
fn is_exact(case: &Case) -> Manifest {
    let manifest = is_sound(case);
    let balance = &manifest.balance;
    assert_eq!((dropped(&manifest, "device_lost"), balance.in_flight), (0, 0), "{case:?}: {balance:?}");
    // The server receives some more than once, and counts them once.
    assert!(balance.delivered_alone + balance.delivered_merged >= balance.generated, "{case:?}: {balance:?}");
    let sums = if case.mode == "sync" { u64::from(case.iterations * case.jobs) } else { u64::from(case.jobs) };
    assert_eq!((counter(&manifest, "sums"), counter(&manifest, "controller.takeovers")), (sums, 0), "{case:?}");
    manifest
}

#[test]
fn what_heartbeats_see_coming_loses_nothing() {
    for fails in ["loss", "memory", "slow"] {
        for mode in ["sync", "async"] {
            for faults in [[0; 3], [5, 10, 20]] {
                let manifest = is_exact(&Case { mode, ..case(fails, faults) });
                assert!(counter(&manifest, "controller.migrations") >= 1, "{fails} {mode}");
                let [detected, resumed] =
                    ["detected", "resumed"].map(|name| counter(&manifest, &format!("controller.{name}_ns")));
                assert!(450_000 <= detected && detected < resumed, "{fails}: {detected} {resumed}");
            }
        }
    }
}

#[test]
fn a_crash_loses_what_the_switch_had_and_says_so() {
    for mode in ["sync", "async"] {
        for faults in [[0; 3], [5, 10, 20]] {
            let manifest = is_sound(&Case { mode, at_us: 525, ..case("crash", faults) });
            assert_eq!(counter(&manifest, "controller.takeovers"), 1, "{mode}");
            let lost = dropped(&manifest, "device_lost");
            let balance = &manifest.balance;
            assert!(lost > 0 && counter(&manifest, "sums_lost") > 0, "{mode}: {balance:?}");
            let resumed = counter(&manifest, "controller.resumed_ns");
            // A heartbeat, its timeout, and three messages, one of which may be delayed.
            let held = if faults == [0; 3] { 0 } else { 250_000 };
            assert!((900_000..1_200_000 + held).contains(&resumed), "{mode}: {resumed}");
        }
    }
}

/// Every answer is later than `delay_max`, so that no standby switch is well.
#[test]
fn a_run_that_cannot_go_on_ends_and_says_why() {
    for mode in ["sync", "async"] {
        let text = text(&Case { mode, at_us: 525, ..case("crash", [0; 3]) });
        let late = text.replace("delay_max = \"150us\"", "delay_max = \"1ns\"");
        assert_ne!(late, text);
        let manifest = run_text(&late);
        let faults = &manifest.validity.faults;
        let says =
            |part: &str| faults.iter().any(|fault| matches!(fault, Fault::Unfinished { why } if why.contains(part)));
        assert!(says("did not finish") && says("no standby switch was well"), "{mode}: {faults:?}");
    }
}

#[test]
fn without_failure_nothing_changes_hands() {
    let manifest = is_exact(&case("none", [0; 3]));
    assert_eq!((counter(&manifest, "controller.migrations"), dropped(&manifest, "inactive")), (0, 0));
}

/// After training the server still sends results again, and nothing is monitored.
#[test]
fn what_the_server_sends_after_training_replaces_no_switch() {
    for seed in 1..=8 {
        let text = text(&Case { seed, ..case("none", [50, 0, 0]) });
        let slow = text.replace("\ntimeout = \"200us\"", "\ntimeout = \"2ms\"");
        assert_ne!(slow, text);
        assert_eq!(counter(&run_text(&slow), "controller.no_standby"), 0, "seed {seed}");
    }
}

/// A change of switches that is cut off by the end of a run, after one that had to wait for a standby switch, is no fault.
#[test]
fn a_change_that_the_end_of_a_run_cuts_off_is_no_fault() {
    let waited = (525..=532).map(|seed| {
        let case = Case {
            workers: 1,
            jobs: 2,
            iterations: 4,
            fails: "none",
            at_us: 0,
            mode: "async",
            faults: [5, 10, 20],
            seed,
        };
        counter(&is_exact(&case), "controller.no_standby")
    });
    assert!(waited.sum::<u64>() > 0);
}

#[test]
fn whatever_fails_whenever() {
    let strategy = (
        prop::sample::select(vec!["none", "loss", "memory", "slow", "crash"]),
        prop::sample::select(vec!["sync", "async"]),
        (0u32..1500, 1u32..5, 1u32..3),
        prop::sample::select(vec![[0, 0, 0], [5, 0, 0], [0, 20, 0], [0, 0, 30], [5, 10, 20]]),
        0u64..1000,
    );
    let migrated = Cell::new(0);
    let config = ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() };
    let run = TestRunner::new(config).run(&strategy, |(fails, mode, (at_us, workers, jobs), faults, seed)| {
        let case = Case { workers, jobs, iterations: 4, fails, at_us, mode, faults, seed };
        let manifest = if fails == "crash" { is_sound(&case) } else { is_exact(&case) };
        migrated.set(migrated.get() + u32::from(counter(&manifest, "controller.migrations") > 0));
        Ok(())
    });
    run.unwrap();
    assert!(migrated.get() >= 3, "{} of 48 cases moved their sums", migrated.get());
}

#[test]
fn what_cannot_be_is_refused() {
    let said = |from: &str, to: &str| {
        let text = text(&case("crash", [0; 3])).replace(from, to);
        let experiment = Experiment::open(all(), Document::parse(&text, "test").unwrap()).unwrap();
        experiment.plan(&experiment.runs[0]).err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert!(said("standby = 2", "standby = 0").contains("target.fails"));
    assert!(said("fails = \"crash\"", "fails = \"fire\"").contains("fire"));
    assert!(said("fails_loss = 0.1", "fails_device = 3").contains("0 to 2"));
    assert!(said("fails_loss = 0.1", "fails_loss = 1.1").contains("fails_loss"));
    assert!(said("fails_loss = 0.1", "fails_then = \"slow\"").contains("fails_then"), "it is gone");
    let early = "fails = \"loss\"\nfails_then = \"crash\"\nfails_then_at = \"100us\"";
    assert!(said("fails = \"crash\"", early).contains("fails_then_at"));
}
