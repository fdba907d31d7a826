//! `trace check ORIGINAL SCALED` on the recorded traces: faithful scalings pass, the property that was damaged is
//! named, and the frequency of chance results is measured.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pktgen_compare::trace::sample::{Own, Sample};
use pktgen_compare::trace::{Fidelity, PropertyOutcome, compare, compare_samples};
use pktgen_core::seed::Seed;
use pktgen_workload::trace::{Reader, ScalePlan, Writer, scale};
use pktgen_workload::workload::Update;
use rand::RngExt;
use rand::seq::SliceRandom;

const RL: &str = "rl-recorded.parquet";
const GRADIENTS: &str = "rl-recorded-gradients.parquet";
const SPARSE: &str = "sparse-recorded.parquet";

type Row = (Update, Vec<u64>, Vec<f32>);

fn recorded(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces").join(name)
}

fn read(path: &Path) -> Vec<Row> {
    let mut reader = Reader::open(path).expect("a trace");
    let mut rows = Vec::new();
    while let Some(block) = reader.next_block().expect("a block") {
        let row = |(i, u): (usize, &Update)| (*u, block.keys(i).to_vec(), block.values(i).to_vec());
        rows.extend(block.updates.iter().enumerate().map(row));
    }
    rows
}

/// Writes rows in the order of time, with new numbers.
fn write(path: &Path, mut rows: Vec<Row>) {
    rows.sort_by_key(|(update, ..)| (update.t_gen, update.worker, update.seq));
    let mut next: BTreeMap<u32, u32> = BTreeMap::new();
    let mut writer = Writer::create(path).expect("a writer");
    for (update, keys, values) in rows {
        let seq = next.entry(update.worker).or_default();
        writer.push_pairs(&Update { seq: *seq, ..update }, &keys, &values).expect("written");
        *seq += 1;
    }
    writer.finish("recorded", BTreeMap::new(), "CC0-1.0").expect("finished");
}

fn by_worker(rows: Vec<Row>) -> BTreeMap<u32, Vec<Row>> {
    let mut workers: BTreeMap<u32, Vec<Row>> = BTreeMap::new();
    rows.into_iter().for_each(|row| workers.entry(row.0.worker).or_default().push(row));
    workers
}

fn outcome(fidelity: &Fidelity, property: &str) -> PropertyOutcome {
    let of: Vec<_> = fidelity.findings.iter().filter(|f| f.property == property).map(|f| f.outcome).collect();
    assert!(!of.is_empty(), "{property} is looked at");
    *of.iter().find(|o| **o == PropertyOutcome::Fail).unwrap_or(&of[0])
}

fn large(seed: u64) -> ScalePlan {
    ScalePlan { clusters: Some(100), workers: Some(3), seed, ..ScalePlan::default() }
}

#[test]
fn workers_and_times_are_scaled_faithfully() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, time) = (folder.path().join("s.parquet"), Some("0.001".parse().expect("a number")));
    for scaling in [large(1), ScalePlan { time, ..ScalePlan::default() }, ScalePlan { time, ..large(2) }] {
        scale(&recorded(RL), &path, &scaling).expect("scaled");
        let fidelity = compare(&recorded(RL), &path).expect("compared");
        assert!(fidelity.passed, "{}", fidelity.text());
        let wanted = if scaling.time.is_some() { 0.001 } else { 1.0 };
        assert!((fidelity.time_factor.expect("a factor") / wanted - 1.0).abs() < 0.05, "{}", fidelity.text());
        for property in ["gaps", "autocorrelation", "burstiness", "pace", "correlation", "rates", "rewards"] {
            assert_eq!(outcome(&fidelity, property), PropertyOutcome::Pass);
        }
        assert_eq!(outcome(&fidelity, "keys"), PropertyOutcome::NotApplicable);
        assert_eq!(outcome(&fidelity, "values"), PropertyOutcome::NotApplicable);
    }
    for (name, scaling) in [
        (GRADIENTS, ScalePlan { bytes: Some(9000), ..large(3) }),
        ("dense-recorded.parquet", ScalePlan { workers: Some(16), ..ScalePlan::default() }),
    ] {
        scale(&recorded(name), &path, &scaling).expect("scaled");
        let fidelity = compare(&recorded(name), &path).expect("compared");
        assert!(fidelity.passed, "{name}\n{}", fidelity.text());
    }
    // Copies of workers in step have the same times, so they are reported as twins; the values they push are kept.
    scale(&recorded(SPARSE), &path, &ScalePlan { workers: Some(30), ..ScalePlan::default() }).expect("scaled");
    let sparse = compare(&recorded(SPARSE), &path).expect("compared");
    for property in ["gaps", "autocorrelation", "burstiness", "pace", "values", "keys"] {
        assert_eq!(outcome(&sparse, property), PropertyOutcome::Pass, "{}", sparse.text());
    }
    assert_eq!(outcome(&sparse, "correlation"), PropertyOutcome::Fail, "{}", sparse.text());
    let shipped = compare(&recorded(RL), &recorded("rl-recorded-300.parquet")).expect("compared");
    assert!(shipped.passed, "{}", shipped.text());
}

#[test]
fn the_scaled_trace_that_is_checked_in_is_what_its_command_makes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("s.parquet");
    scale(&recorded(RL), &path, &ScalePlan { bytes: Some(256), ..large(1) }).expect("scaled");
    assert!(read(&path) == read(&recorded("rl-recorded-300.parquet")), "traces/README.md has the command");
}

/// A damage: its name, the trace that it is applied to, the property that must be named, and the change.
type Damage = (&'static str, &'static str, &'static str, fn(Vec<Row>) -> Vec<Row>);

const DAMAGES: &[Damage] = &[
    ("shuffled gaps", RL, "autocorrelation", |rows| {
        new_times(rows, |gaps, worker| gaps.shuffle(&mut Seed(1).stream("test", worker.into(), 0)))
    }),
    ("gaps in another order of training", RL, "pace", |rows| new_times(rows, |gaps, _| gaps.reverse())),
    ("constant gaps", RL, "gaps", |rows| new_times(rows, constant)),
    ("constant gaps, too", RL, "burstiness", |rows| new_times(rows, constant)),
    ("one worker for all", RL, "correlation", one_for_all),
    ("one worker for all, too", RL, "rates", one_for_all),
    ("every other worker a copy", RL, "correlation", |rows| {
        let workers = by_worker(rows);
        let source = |worker: u32| &workers[&(worker / 2 * 2)];
        workers.keys().flat_map(|w| source(*w).iter().map(|row| as_worker(row, *w, &workers))).collect()
    }),
    ("rewards permuted", RL, "rewards", |mut rows| {
        let mut rewards: Vec<_> = rows.iter().map(|row| row.0.reward).collect();
        rewards.shuffle(&mut Seed(1).stream("test", 0, 0));
        rows.iter_mut().zip(rewards).for_each(|(row, reward)| row.0.reward = reward);
        rows
    }),
    ("no rewards", RL, "rewards", |mut rows| {
        rows.iter_mut().for_each(|row| row.0.reward = None);
        rows
    }),
    ("most rewards are gone", RL, "rewards", |mut rows| {
        rows.iter_mut().enumerate().filter(|(i, _)| i % 10 > 0).for_each(|(_, row)| row.0.reward = None);
        rows
    }),
    ("values are zero", GRADIENTS, "values", |rows| with_values(rows, |_| 0.0)),
    ("values are constant", GRADIENTS, "values", |rows| with_values(rows, |_| 0.001)),
    ("values are too large", GRADIENTS, "values", |rows| with_values(rows, |x| x * 1.5)),
    ("values without their signs", GRADIENTS, "values", |rows| with_values(rows, f32::abs)),
    ("most values are gone", GRADIENTS, "values", |mut rows| {
        rows.iter_mut().enumerate().filter(|(i, _)| i % 10 > 0).for_each(|(_, row)| row.2.clear());
        rows
    }),
    ("no values", GRADIENTS, "values", |mut rows| {
        rows.iter_mut().for_each(|row| row.2.clear());
        rows
    }),
    ("uniform keys", SPARSE, "keys", |mut rows| {
        let mut random = Seed(1).stream("test", 0, 0);
        rows.iter_mut().flat_map(|row| &mut row.1).for_each(|key| *key = random.random_range(0..162_040));
        rows
    }),
    ("other keys are hot", SPARSE, "keys", |mut rows| {
        rows.iter_mut().flat_map(|row| &mut row.1).for_each(|key| *key += 1_000_000);
        rows
    }),
    ("no keys", SPARSE, "keys", |mut rows| {
        rows.iter_mut().for_each(|row| row.1.clear());
        rows
    }),
];

fn new_times(rows: Vec<Row>, change: impl Fn(&mut [i64], u32)) -> Vec<Row> {
    let mut workers = by_worker(rows);
    for (worker, own) in &mut workers {
        let mut gaps: Vec<_> = own.windows(2).map(|w| w[1].0.t_gen - w[0].0.t_gen).collect();
        change(&mut gaps, *worker);
        for (i, gap) in gaps.into_iter().enumerate() {
            own[i + 1].0.t_gen = own[i].0.t_gen + gap;
        }
    }
    workers.into_values().flatten().collect()
}

fn constant(gaps: &mut [i64], _: u32) {
    let mean = gaps.iter().sum::<i64>() / gaps.len() as i64;
    gaps.fill(mean);
}

fn as_worker(row: &Row, worker: u32, workers: &BTreeMap<u32, Vec<Row>>) -> Row {
    let cluster = workers[&worker][0].0.cluster;
    (Update { worker, cluster, ..row.0 }, row.1.clone(), row.2.clone())
}

fn one_for_all(rows: Vec<Row>) -> Vec<Row> {
    let workers = by_worker(rows);
    workers.keys().flat_map(|w| workers[&0].iter().map(|row| as_worker(row, *w, &workers))).collect()
}

fn with_values(mut rows: Vec<Row>, make: impl Fn(f32) -> f32) -> Vec<Row> {
    rows.iter_mut().flat_map(|row| &mut row.2).for_each(|value| *value = make(*value));
    rows
}

#[test]
fn damage_fails_by_the_property_that_it_damages() {
    let folder = tempfile::tempdir().expect("a folder");
    let (small, path) = (folder.path().join("m.parquet"), folder.path().join("d.parquet"));
    for name in [RL, GRADIENTS, SPARSE] {
        write(&path, read(&recorded(name)));
        let same = compare(&recorded(name), &path).expect("compared");
        assert!(same.passed, "{name}: a trace against itself\n{}", same.text());
    }
    for name in [RL, GRADIENTS, SPARSE] {
        // The damage alone, and on top of a scaling that passes.
        let original = recorded(name);
        let clusters = Some(if name == SPARSE { 3 } else { 12 });
        scale(&original, &small, &ScalePlan { clusters, seed: 5, ..ScalePlan::default() }).expect("scaled");
        for (what, _, property, damage) in DAMAGES.iter().filter(|damage| damage.1 == name) {
            for sound in [&original, &small] {
                write(&path, damage(read(sound)));
                let fidelity = compare(&original, &path).expect("compared");
                assert_eq!(outcome(&fidelity, property), PropertyOutcome::Fail, "{what}\n{}", fidelity.text());
                assert!(!fidelity.passed && fidelity.text().contains("not kept: "));
            }
        }
    }
}

/// Returns workers in clusters of two, each with times of its own, or both with the same.
fn pairs(n: u64, twins: bool) -> Sample {
    let own = |worker: u64| {
        let mut random = Seed(if twins { worker / 2 } else { worker }).stream("test", 0, 0);
        let mut times: Vec<_> = (0..200).map(|_| random.random_range(0..1_000_000)).collect();
        times.sort_unstable();
        Own { cluster: (worker / 2) as u16, times, rewards: vec![0.0; 200] }
    };
    Sample { workers: (0..n).map(own).collect(), ..Sample::default() }
}

/// Returns the outcome of a statistic.
fn found(fidelity: &Fidelity, statistic: &str) -> PropertyOutcome {
    let finding = fidelity.findings.iter().find(|finding| finding.statistic.contains(statistic));
    finding.unwrap_or_else(|| panic!("\"{statistic}\" is not in\n{}", fidelity.text())).outcome
}

#[test]
fn damage_is_seen_among_thousands_of_workers() {
    let [good, bad] = [false, true].map(|twins| pairs(2400, twins));
    for (scaled, outcome) in [(&good, PropertyOutcome::Pass), (&bad, PropertyOutcome::Fail)] {
        let fidelity = compare_samples(&good, scaled);
        assert_eq!(found(&fidelity, "share of workers with a twin"), outcome);
        assert_eq!(found(&fidelity, "pairs of a cluster"), outcome);
        assert_eq!(found(&fidelity, "pairs of two clusters"), PropertyOutcome::Pass);
    }
}

#[test]
fn pairs_that_are_gone_are_lost() {
    let original = pairs(40, true);
    let alone = original.workers.iter().step_by(2).cloned().collect();
    let one = original.workers.iter().cloned().map(|own| Own { cluster: 0, ..own }).collect();
    for (workers, words) in [(alone, "no pairs of a cluster in"), (one, "no pairs of two clusters in")] {
        let fidelity = compare_samples(&original, &Sample { workers, ..Sample::default() });
        assert_eq!(found(&fidelity, words), PropertyOutcome::Fail);
    }
}

#[test]
fn a_tenth_without_rewards_is_no_loss() {
    let of = |n: u32, from: u32| {
        let reward = |i: u32| if i < from { f32::NAN } else { i as f32 / n as f32 };
        let own = Own { times: (0..n.into()).collect(), rewards: (0..n).map(reward).collect(), ..Own::default() };
        Sample { workers: vec![own; 4], ..Sample::default() }
    };
    let rewards = |scaled| outcome(&compare_samples(&of(5, 0), &scaled), "rewards");
    // Rewards in tenths 0, 2, 4, 6, 8 against 0, 1, 2, 4, 5, 7, 8.
    assert_eq!(rewards(of(7, 0)), PropertyOutcome::Pass);
    assert_eq!(rewards(of(7, 7)), PropertyOutcome::Fail);
    // A tenth in which the original has no rewards.
    assert_eq!(
        found(&compare_samples(&of(5, 0), &of(2, 1)), "no tenth of the run has rewards in both"),
        PropertyOutcome::Fail
    );
}

/// The largest value of each statistic relative to its limit.
#[derive(Default)]
struct Margins {
    runs: u32,
    alarms: u32,
    most: BTreeMap<(&'static str, String), f64>,
}

impl Margins {
    fn add(&mut self, fidelity: &Fidelity, without: &[&str]) {
        let mut alarm = false;
        for finding in fidelity.findings.iter().filter(|f| !without.contains(&f.property)) {
            let (Some(value), Some(limit)) = (finding.value, finding.limit) else { continue };
            // The name without the numbers that some statistics include.
            let statistic = finding.statistic.split(" (").next().unwrap_or_default().to_owned();
            let most = self.most.entry((finding.property, statistic)).or_default();
            *most = most.max(value / limit);
            alarm |= finding.outcome == PropertyOutcome::Fail;
        }
        self.runs += 1;
        self.alarms += u32::from(alarm);
    }

    fn show(&self, what: &str) -> String {
        let mut text = format!("{what}: {} of {} raise a false alarm\n", self.alarms, self.runs);
        for ((property, statistic), most) in &self.most {
            text += &format!("  {property}, {statistic}: at most {most:.2} of its limit\n");
        }
        text
    }
}

/// Returns the number of repetitions: 12, or up to 200 with a large `PROPTEST_CASES` (the long tests).
fn repetitions() -> u64 {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse::<u64>().ok());
    cases.map_or(12, |cases| (cases / 100).clamp(12, 200))
}

#[test]
#[expect(clippy::print_stdout, reason = "what docs/traces.md says of chance is what this prints")]
fn false_alarms_are_rare() {
    let folder = tempfile::tempdir().expect("a folder");
    let original = recorded(RL);
    let whole = Sample::read(&original).expect("a trace");
    let (mut scaled, mut halves) = (Margins::default(), Margins::default());
    for seed in 0..repetitions() {
        let path = folder.path().join("s.parquet");
        let clusters = Some([10, 18, 40, 100][seed as usize % 4]);
        scale(&original, &path, &ScalePlan { clusters, seed, ..ScalePlan::default() }).expect("scaled");
        scaled.add(&compare_samples(&whole, &Sample::read(&path).expect("a trace")), &[]);
        // Other workers of the same job, which no scaling made: their rates differ, so rates are left out.
        let mut workers = whole.workers.clone();
        workers.shuffle(&mut Seed(seed).stream("test", 0, 0));
        let other = Sample { workers: workers.split_off(13), ..Sample::default() };
        halves.add(&compare_samples(&Sample { workers, ..Sample::default() }, &other), &["rates"]);
    }
    let (scaled_text, halves_text) = (scaled.show("scalings of 27 workers"), halves.show("halves of the workers"));
    println!("{scaled_text}{halves_text}");
    assert!(scaled.alarms * 50 <= scaled.runs, "{scaled_text}");
    assert!(halves.alarms * 20 <= halves.runs, "{halves_text}");
}
