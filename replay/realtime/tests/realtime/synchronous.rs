//! Synchronous training on wires: every worker receives every result, every sum is right, and balances close.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use pktgen_core::arrow::array::AsArray;
use pktgen_core::config::Document;
use pktgen_core::record::Manifest;
use pktgen_realtime::run::Experiment;
use pktgen_registry::all;
use pktgen_testing::undisturbed;

const BLOCKS: u64 = 50;
const ITERATIONS: u64 = 4;

/// `workers` of `endpoint` in `jobs` jobs train for [`ITERATIONS`]; `elements` suit its packets.
struct Case {
    endpoint: &'static str,
    elements: u32,
    workers: u32,
    jobs: u32,
    compute: &'static str,
    target: &'static str,
    transport: &'static str,
    /// Frames are lost, and retransmitted.
    lossy: bool,
}

const SWITCHML: Case = Case {
    endpoint: "workers = \"switchml\"\nscaling = \"fixed\"\npool = 16",
    elements: 64,
    workers: 4,
    jobs: 1,
    compute: "2ms",
    target: "",
    transport: "",
    lossy: false,
};

const TRIO_ML: Case = Case {
    endpoint: "workers = \"trio_ml\"\nwindow = 16",
    elements: 100,
    // A host that is busy with other work must not count as a straggler.
    target: "timeout = \"250ms\"",
    ..SWITCHML
};

fn text(case: &Case, kind: &str) -> String {
    format!(
        "name = \"synchronous\"\n[workload]\nkind = \"dense\"\nmodel = \"custom\"\nparameters = {}\nworkers = {}\njobs = {}\n\
         iterations = {ITERATIONS}\nelements = {}\ncompute = \"{}\"\n[topology]\nkind = \"rack\"\n[endpoint]\n{}\n\
         [target]\n{}\n[transport]\nkind = \"{kind}\"\n{}{}\n",
        // The last block is not full.
        BLOCKS * u64::from(case.elements) - 7,
        case.workers,
        case.jobs,
        case.elements,
        case.compute,
        case.endpoint,
        case.target,
        if kind == "virtual" { "" } else { "linger = \"100ms\"\n" },
        case.transport,
    )
}

/// Runs the case; an error gives the reason why it cannot run.
fn run(case: &Case, kind: &str, dir: &Path) -> Result<Manifest, String> {
    let experiment = Experiment::open(all(), Document::parse(&text(case, kind), "test").unwrap()).unwrap();
    experiment.execute(dir, 1, &AtomicBool::new(false), &|_, _| {}).map_err(|error| error.to_string())?;
    Ok(serde_json::from_slice(&std::fs::read(dir.join("manifest.json")).unwrap()).unwrap())
}

/// Returns the number of rows of a stream, and of those in which `column` is true.
fn rows(dir: &Path, stream: &str, column: &str) -> (u64, u64) {
    let file = File::open(dir.join(format!("{stream}.parquet"))).unwrap();
    let mut counts = (0, 0);
    for batch in ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap().map(Result::unwrap) {
        counts.0 += batch.num_rows() as u64;
        counts.1 += batch.column_by_name(column).unwrap().as_boolean().true_count() as u64;
    }
    counts
}

fn is_sound(case: &Case) {
    is_sound_over("ring", case);
}

fn is_sound_over(kind: &str, case: &Case) {
    let folder = tempfile::tempdir().unwrap();
    undisturbed(&format!("{} over {kind}", case.endpoint), |number| {
        let dir = folder.path().join(number.to_string());
        let manifest = run(case, kind, &dir).unwrap();
        // Workers that a host interrupts for the timeout are stragglers.
        let degraded = manifest.counters.device.get("degraded").copied().unwrap_or(0);
        (degraded == 0).then(|| is_complete(case, &dir, &manifest))
    });
}

fn is_complete(case: &Case, dir: &Path, manifest: &Manifest) {
    let (balance, counters) = (&manifest.balance, &manifest.counters);
    assert!(manifest.validity.is_valid(), "{:?}", manifest.validity);
    let workers = u64::from(case.workers * case.jobs);
    assert_eq!(balance.generated, BLOCKS * ITERATIONS * workers, "each block once");
    assert_eq!((balance.unknown, balance.in_flight, counters.foreign), (0, 0, 0), "{balance:?}");
    // One result per block, job and iteration, and all sums are right.
    assert_eq!((counters.sums_ok, counters.sums_wrong), (BLOCKS * ITERATIONS * u64::from(case.jobs), 0));
    assert_eq!(counters.packets_received, counters.sums_ok);
    let (replies, again) = rows(dir, "results", "again");
    assert_eq!((replies, replies - again), (counters.replies, BLOCKS * ITERATIONS * workers));
    assert_eq!(balance.retransmitted > 0, case.lossy, "{balance:?}");
    assert!(again == 0 || case.lossy, "{again}");
    assert_eq!(rows(dir, "iterations", "missed"), (ITERATIONS * workers, 0));
}

#[test]
fn every_worker_gets_every_result_over_a_ring() {
    is_sound(&SWITCHML);
    is_sound(&TRIO_ML);
}

#[test]
fn every_worker_gets_every_result_over_sockets() {
    is_sound_over("udp", &TRIO_ML);
    is_sound_over("udp", &Case { elements: 1024, ..TRIO_ML });
}

/// The public client's method: one more window of packets, whose results determine the exponents of the next gradients.
#[test]
fn exponents_are_negotiated_on_the_way() {
    let folder = tempfile::tempdir().unwrap();
    let mut errors = Vec::new();
    for (number, endpoint) in [SWITCHML.endpoint, "workers = \"switchml\"\npool = 16"].into_iter().enumerate() {
        for (kind, transport) in [("virtual", ""), ("ring", "")] {
            let case = Case { endpoint, transport, ..SWITCHML };
            let manifest = run(&case, kind, &folder.path().join(format!("{number}-{kind}"))).unwrap();
            assert!(manifest.validity.is_valid(), "{:?}", manifest.validity);
            let packets = BLOCKS + if number == 1 { 16 } else { 0 };
            let (sums, replies) = (packets * ITERATIONS, packets * ITERATIONS * u64::from(case.workers));
            let counters = &manifest.counters;
            assert_eq!((counters.sums_ok, counters.sums_wrong, counters.replies), (sums, 0, replies), "{kind}");
            errors.push(counters.scaling_error_ppb.unwrap());
        }
    }
    // The error does not depend on the transport; negotiated exponents make it far smaller.
    assert!(errors[0] == errors[1] && errors[2] == errors[3] && errors[2] * 20 < errors[0], "{errors:?}");
}

#[test]
fn jobs_do_not_disturb_each_other() {
    is_sound(&Case { jobs: 3, ..TRIO_ML });
    is_sound(&Case { jobs: 3, target: "jobs = \"several\"", ..SWITCHML });
}

#[test]
fn lost_frames_are_sent_again() {
    let endpoint = "workers = \"switchml\"\nscaling = \"fixed\"\npool = 16\nretransmit = \"1ms\"";
    is_sound(&Case { endpoint, transport: "fault_loss = 0.02", lossy: true, ..SWITCHML });
}

#[test]
fn a_computation_longer_than_linger_is_not_the_end() {
    is_sound(&Case { compute: "250ms", ..SWITCHML });
    is_sound(&Case { compute: "250ms", ..TRIO_ML });
}

#[test]
fn wires_that_do_not_carry_headers_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let why = run(&SWITCHML, "udp", &folder.path().join("run")).err().unwrap();
    let part = "transport.kind = \"udp\": nothing in the packets of these workers says which one sent them";
    assert!(why.contains(part), "{why}");
}
