//! Tests of scaling: which properties of the recording a copy keeps, and which inputs are refused.

use std::collections::BTreeMap;
use std::path::Path;

use pktgen_core::config::Document;
use pktgen_core::record::NO_CLUSTER;
use pktgen_core::seed::Seed;
use pktgen_core::time::{HORIZON, SECOND, Time};
use pktgen_core::units::Rate;
use pktgen_wire::wire::update::elements_in;
use pktgen_workload::trace::{Reader, ScalePlan, Writer, check, scale, synthesise};
use pktgen_workload::workload::{self, Update};

/// Records 27 workers in 9 clusters whose gaps vary, are correlated and grow: workers under a poisson schedule have no
/// memory, so each gap is averaged with the previous one. Rewards grow with time; values depend on worker and number.
fn record(path: &Path) {
    let text = "[workload]\nupdates = 800\ncluster_sigma = 1.0\n[schedule]\nkind = \"poisson\"\noffered = \"1Gbps\"\n";
    let mut source = workload::open(&mut Document::parse(text, "x.toml").unwrap(), Seed(4)).unwrap().source;
    let raw = path.with_extension("raw.parquet");
    synthesise(source.as_mut(), &raw, false, BTreeMap::new(), &mut |_| {}).unwrap();
    let mut made = Vec::new();
    for own in workers(&raw) {
        let (mut at, mut before, mut last) = (own[0].0.t_gen, 0, own[0].0.t_gen);
        for (update, _) in own {
            before = (before + update.t_gen - last) / 2;
            last = update.t_gen;
            at += before * Time::from(800 + update.seq) / 800;
            made.push(Update { t_gen: at, reward: Some(update.seq as f32), ..update });
        }
    }
    made.sort_by_key(|update| (update.t_gen, update.worker));
    let mut writer = Writer::create(path).unwrap();
    made.iter().for_each(|u| writer.push(u, &[u.worker as f32 + 1.0, -(u.seq as f32) - 1.0, 0.0]).unwrap());
    writer.finish("recorded", BTreeMap::new(), "CC0-1.0").unwrap();
}

/// Returns the updates and values of each worker.
fn workers(path: &Path) -> Vec<Vec<(Update, Vec<f32>)>> {
    let mut reader = Reader::open(path).unwrap();
    let mut workers = Vec::new();
    while let Some(block) = reader.next_block().unwrap() {
        for (i, update) in block.updates.iter().enumerate() {
            let worker = update.worker as usize;
            workers.resize(workers.len().max(worker + 1), Vec::new());
            workers[worker].push((*update, block.values(i).to_vec()));
        }
    }
    workers
}

fn gaps(own: &[(Update, Vec<f32>)]) -> Vec<f64> {
    own.windows(2).map(|w| (w[1].0.t_gen - w[0].0.t_gen) as f64).collect()
}

fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len() as f64
}

fn lag_1(gaps: &[f64]) -> f64 {
    let mean = mean(gaps);
    let off: Vec<_> = gaps.iter().map(|gap| gap - mean).collect();
    off.windows(2).map(|w| w[0] * w[1]).sum::<f64>() / off.iter().map(|x| x * x).sum::<f64>()
}

#[test]
fn copies_keep_gaps_their_order_and_what_changes_in_time() {
    let folder = tempfile::tempdir().unwrap();
    let (small, large) = (folder.path().join("small.parquet"), folder.path().join("large.parquet"));
    record(&small);
    let scaling = ScalePlan { clusters: Some(100), workers: Some(3), seed: 7, ..Default::default() };
    scale(&small, &large, &scaling).unwrap();
    assert_eq!(check(&large).unwrap().workers, 300);
    let (sources, copies) = (workers(&small), workers(&large));
    assert!(sources.iter().map(|own| lag_1(&gaps(own))).sum::<f64>() / 27.0 > 0.3, "there is memory to keep");
    assert_eq!(copies[..27], sources[..], "recorded workers stay as they are");
    for (i, copy) in copies.iter().enumerate().skip(27) {
        let source = &sources[i % 27];
        let (own, theirs) = (gaps(copy), gaps(source));
        assert!(own.iter().zip(&theirs).filter(|(a, b)| a == b).count() < 400, "copy {i} marches in step");
        assert!((lag_1(&own) - lag_1(&theirs)).abs() < 0.15, "copy {i}: {} {}", lag_1(&own), lag_1(&theirs));
        // The copy ends with the recording.
        assert!(
            copy.last().unwrap().0.t_gen <= source[799].0.t_gen && copy.len().abs_diff(800) < 200,
            "{}",
            copy.len()
        );
        for (update, _) in copy {
            // The reward is the number in the recording: taken at most a 100th of the run (and a block) away.
            let place = source.partition_point(|(u, _)| u.t_gen < update.t_gen) as f32;
            assert!((update.reward.unwrap() - place).abs() < 130.0, "copy {i}: {update:?} {place}");
        }
        // Values are recorded ones with changes of their own; zeros stay zeros.
        for (update, values) in copy {
            let theirs = [(i % 27) as f32 + 1.0, -update.reward.unwrap() - 1.0, 0.0];
            assert!(values.iter().zip(theirs).all(|(a, b)| (a - b).abs() <= b.abs() * 0.126), "{values:?} {theirs:?}");
        }
    }
    let bytes = std::fs::read(&large).unwrap();
    scale(&small, &large, &scaling).unwrap();
    assert!(bytes == std::fs::read(&large).unwrap(), "the same seed");
    scale(&small, &large, &ScalePlan { seed: 8, ..scaling }).unwrap();
    assert!(bytes != std::fs::read(&large).unwrap(), "another seed");
}

#[test]
fn times_and_rates_are_scaled() {
    let folder = tempfile::tempdir().unwrap();
    let (small, made) = (folder.path().join("small.parquet"), folder.path().join("made.parquet"));
    record(&small);
    let sources = workers(&small);
    scale(&small, &made, &ScalePlan { time: Some("0.001".parse().unwrap()), ..Default::default() }).unwrap();
    for (own, source) in workers(&made).iter().zip(&sources) {
        assert!(own.iter().zip(source).all(|(a, b)| a.0.t_gen == b.0.t_gen / 1000 && a.1 == b.1));
    }
    let spread = |path: &Path| {
        let logs: Vec<_> = workers(path).iter().map(|own| mean(&gaps(own)).ln()).collect();
        let middle = mean(&logs);
        mean(&logs.iter().map(|log| (log - middle).abs()).collect::<Vec<_>>())
    };
    for skew in [0.0, 0.5, 1.5] {
        scale(&small, &made, &ScalePlan { skew: Some(skew), ..Default::default() }).unwrap();
        check(&made).unwrap();
        let (found, wanted) = (spread(&made), spread(&small) * skew);
        assert!((found - wanted).abs() < 0.03, "{skew}: {found} {wanted}");
    }
    scale(&small, &made, &ScalePlan { bytes: Some(9036), ..Default::default() }).unwrap();
    for (update, values) in workers(&made).concat() {
        assert!(values.len() == elements_in(9036) && values[0] == update.worker as f32 + 1.0);
        assert!(values.chunks(3).all(|v| v[0] != 0.0 && v.get(1).is_none_or(|x| *x != 0.0)), "no constant zeros");
    }
}

/// Passes of workers that a straggler made unlike begin together.
#[test]
fn barriers_of_a_recording_with_jitter_stay_where_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let (small, large) = (folder.path().join("small.parquet"), folder.path().join("large.parquet"));
    let mut writer = Writer::create(&small).unwrap();
    for seq in 0..4u32 {
        for worker in 0..2u32 {
            let late = if (worker, seq) == (1, 3) { 900 } else { 0 };
            let t_gen = Time::from(seq) * 1000 + late;
            let update = Update { t_gen, cluster: 0, worker, seq, bytes: 256, reward: None, iteration: Some(seq) };
            writer.push(&update, &[]).unwrap();
        }
    }
    writer.finish("recorded", BTreeMap::new(), "CC0-1.0").unwrap();
    scale(&small, &large, &ScalePlan { updates: Some(40), ..Default::default() }).unwrap();
    let mut all: Vec<_> = workers(&large).concat().iter().map(|(update, _)| (update.t_gen, update.iteration)).collect();
    all.sort_unstable();
    assert_eq!(all.len(), 80);
    assert!(all.iter().map(|(_, iteration)| iteration).is_sorted(), "{all:?}");
}

#[test]
fn iterations_and_instants_stay_together() {
    let folder = tempfile::tempdir().unwrap();
    let (small, large) = (folder.path().join("small.parquet"), folder.path().join("large.parquet"));
    // Two workers in step, three frames per iteration, with keys.
    let mut writer = Writer::create(&small).unwrap();
    let row = |iteration: u32, worker: u32, frame: u32| Update {
        t_gen: Time::from(iteration) * 1000 + Time::from(worker),
        cluster: 0,
        worker,
        seq: iteration * 3 + frame,
        bytes: 256,
        reward: None,
        iteration: Some(iteration),
    };
    for (iteration, worker) in (0..20).flat_map(|i| (0..2).map(move |w| (i, w))) {
        for frame in 0..3 {
            let keys = [u64::from(iteration) << 40, u64::from(frame)];
            writer.push_pairs(&row(iteration, worker, frame), &keys, &[0.5, -2.0]).unwrap();
        }
    }
    writer.finish("recorded", BTreeMap::new(), "CC0-1.0").unwrap();
    let scaling = ScalePlan { workers: Some(5), updates: Some(90), ..Default::default() };
    scale(&small, &large, &scaling).unwrap();
    assert_eq!(check(&large).unwrap().with_keys, 450);
    let (sources, copies) = (workers(&small), workers(&large));
    for (i, copy) in copies.iter().enumerate() {
        for (a, b) in copy.iter().zip(&sources[i % 2]) {
            assert_eq!((a.0.t_gen, a.0.iteration), (b.0.t_gen, b.0.iteration));
            assert_eq!(a.1 == b.1, i < 2, "copies have values of their own");
        }
        assert_eq!(copy[60].0.iteration, Some(20), "the second pass");
    }
    let mut reader = Reader::open(&large).unwrap();
    let block = reader.next_block().unwrap().unwrap();
    for (i, update) in block.updates.iter().enumerate() {
        assert_eq!(block.keys(i), [u64::from(update.iteration.unwrap() % 20) << 40, u64::from(update.seq % 3)]);
    }
    let refused = scale(&small, &large, &ScalePlan { bytes: Some(300), ..Default::default() }).unwrap_err();
    assert!(refused.to_string().contains("--bytes: the trace has keys"), "{refused}");
    let refused = scale(&small, &large, &ScalePlan { skew: Some(0.0), ..Default::default() }).unwrap_err();
    assert!(refused.to_string().contains("--skew: the workers pass iterations together"), "{refused}");
    // The first updates in the recorded order, not some of the whole run.
    scale(&small, &large, &ScalePlan { updates: Some(30), skew: Some(1.0), ..Default::default() }).unwrap();
    for (copy, source) in workers(&large).iter().zip(&sources) {
        assert_eq!(copy[..], source[..30]);
    }

    // The same without iterations: copies have times of their own, and frames of one instant stay together.
    let mut writer = Writer::create(&small).unwrap();
    for (iteration, worker) in (0..200).flat_map(|i| (0..2).map(move |w| (i, w))) {
        (0..3)
            .for_each(|k| writer.push(&Update { iteration: None, ..row(iteration, worker, k) }, &[k as f32]).unwrap());
    }
    writer.finish("recorded", BTreeMap::new(), "CC0-1.0").unwrap();
    scale(&small, &large, &ScalePlan { clusters: Some(3), updates: Some(900), ..Default::default() }).unwrap();
    for copy in workers(&large) {
        let torn = copy.windows(2).filter(|w| (w[1].0.t_gen == w[0].0.t_gen) == (w[1].1[0].abs() < 0.5)).count();
        assert_eq!(torn, 0, "frame 0 begins an instant, others do not");
    }
}

/// All iterations have the same keys, so a number that is used again has keys twice.
#[test]
fn copies_of_asynchronous_workers_number_their_iterations() {
    let folder = tempfile::tempdir().unwrap();
    let (small, large) = (folder.path().join("small.parquet"), folder.path().join("large.parquet"));
    // Each of four workers at a pace of its own; every other iteration has two updates.
    let mut rows = Vec::new();
    for worker in 0..4u32 {
        for i in 0..90u32 {
            let (round, part) = (i / 3 * 2 + i % 3 / 2, u32::from(i % 3 == 1));
            let t_gen = Time::from(i * i % 7 + 10 * i) * 1000 * Time::from(worker + 1);
            let (cluster, iteration) = ((worker / 2) as u16, Some(100 + 2 * round));
            rows.push((Update { t_gen, cluster, worker, seq: i, bytes: 256, reward: None, iteration }, part));
        }
    }
    rows.sort_by_key(|(update, _)| (update.t_gen, update.worker));
    let mut writer = Writer::create(&small).unwrap();
    for (update, part) in &rows {
        let keys = [2 * u64::from(*part), 2 * u64::from(*part) + 1];
        writer.push_pairs(update, &keys, &[0.5, -2.0]).unwrap();
    }
    writer.finish("recorded", BTreeMap::new(), "CC0-1.0").unwrap();
    let none = ScalePlan::default;
    for scaling in [
        none(),
        ScalePlan { clusters: Some(4), workers: Some(3), ..none() },
        ScalePlan { updates: Some(40), ..none() },
        ScalePlan { updates: Some(500), ..none() },
        ScalePlan { skew: Some(2.0), ..none() },
    ] {
        scale(&small, &large, &scaling).unwrap();
        for own in workers(&large) {
            let numbers: Vec<_> = own.iter().map(|(update, _)| update.iteration.unwrap()).collect();
            assert!(numbers[0] == 100 && numbers.is_sorted(), "{scaling:?}: {numbers:?}");
            assert!(numbers.chunk_by(|a, b| a == b).all(|same| same.len() <= 2), "{scaling:?}: {numbers:?}");
            // Distances within blocks stay.
            assert!(numbers.windows(2).any(|w| w[1] - w[0] == 2), "{scaling:?}: {numbers:?}");
        }
        let text = format!("[workload]\nkind = \"sparse\"\ntrace = \"{}\"\nhot = 2\n", large.display());
        let opened = workload::open(&mut Document::parse(&text, "x.toml").unwrap(), Seed(1));
        assert!(opened.is_ok(), "{scaling:?}: {:?}", opened.map(|_| ()).unwrap_err());
    }
}

/// Writes bursts of one worker each, given as time and number of updates.
fn bursts(path: &Path, workers: u32, bursts: &[(Time, u32)]) {
    let mut writer = Writer::create(path).unwrap();
    let mut seq = 0;
    for (t_gen, n) in bursts {
        for (worker, k) in (0..workers).flat_map(|worker| (0..*n).map(move |k| (worker, k))) {
            let update =
                Update { t_gen: *t_gen, cluster: 0, worker, seq: seq + k, bytes: 256, reward: None, iteration: None };
            writer.push(&update, &[]).unwrap();
        }
        seq += n;
    }
    writer.finish("recorded", BTreeMap::new(), "CC0-1.0").unwrap();
}

#[test]
fn instants_of_any_size_stay_together() {
    let folder = tempfile::tempdir().unwrap();
    let (small, large) = (folder.path().join("small.parquet"), folder.path().join("large.parquet"));
    let us = 1_000_000;
    let many: Vec<_> = (0..5).map(|k| (k * us, 150)).chain([(5 * us, 1)]).collect();
    // A burst larger than one read followed by one update; a mean gap below a picosecond; all updates at once.
    let few = [vec![(0, 2000), (1000 * us, 1)], vec![(7, 2000), (8, 1)], vec![(9, 500)]];
    for (recorded, own) in few.iter().map(|own| (own, 1)).chain([(&many, 4)]) {
        bursts(&small, own, recorded);
        scale(&small, &large, &ScalePlan { workers: Some(own * 2), ..Default::default() }).unwrap();
        let (whole, last) = (recorded[0].1 as usize, recorded[recorded.len() - 1].1 as usize);
        let n = recorded.iter().map(|(_, n)| *n as usize).sum::<usize>();
        for copy in workers(&large) {
            let sizes: Vec<_> = copy.chunk_by(|a, b| a.0.t_gen == b.0.t_gen).map(<[_]>::len).collect();
            assert!(sizes.iter().all(|size| [whole, last].contains(size)), "{recorded:?}: {sizes:?}");
            assert!(copy.len() <= n + whole, "{recorded:?}: {sizes:?}");
        }
        assert!(recorded.len() > 1 || workers(&large)[1].len() == n, "{recorded:?}");
    }
}

/// Writes a worker's updates.
fn one_worker(path: &Path, times: impl Iterator<Item = Time>) {
    let mut writer = Writer::create(path).unwrap();
    for (seq, t_gen) in (0..).zip(times) {
        let update = Update { t_gen, cluster: 0, worker: 0, seq, bytes: 256, reward: None, iteration: None };
        writer.push(&update, &[]).unwrap();
    }
    writer.finish("recorded", BTreeMap::new(), "CC0-1.0").unwrap();
}

#[test]
fn a_long_gap_before_the_last_update_ends_copies() {
    let folder = tempfile::tempdir().unwrap();
    let (small, large) = (folder.path().join("small.parquet"), folder.path().join("large.parquet"));
    let us: Time = 1_000_000;
    one_worker(&small, (0..300).map(|i: Time| 1000 * us * i).chain([3_300_000 * us]));
    let manifest = scale(&small, &large, &ScalePlan { workers: Some(20), ..Default::default() }).unwrap();
    for copy in workers(&large) {
        assert!(copy.len().abs_diff(301) < 60, "{} updates of 301", copy.len());
    }
    assert!(!manifest.details.contains_key("long_copies"), "{:?}", manifest.details);
    // Each block of one update has the long gap or not: with twice the updates expected, the next has it.
    one_worker(&small, [0, 1, 500 * us].into_iter());
    let manifest = scale(&small, &large, &ScalePlan { workers: Some(500), ..Default::default() }).unwrap();
    let longest = workers(&large).iter().map(Vec::len).max();
    assert!(longest <= Some(6), "{longest:?} updates of 3");
    let note = &manifest.details["long_copies"];
    let parts = [" with at least twice the updates expected (worker ", ": 6, expected 3); give --updates"];
    assert!(parts.iter().all(|part| note.contains(part)), "{note}");
}

#[test]
fn wanted_updates_come_from_their_place_in_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let (small, large) = (folder.path().join("small.parquet"), folder.path().join("large.parquet"));
    record(&small);
    for wanted in [400, 3000] {
        let scaling = ScalePlan { clusters: Some(20), updates: Some(wanted), ..Default::default() };
        scale(&small, &large, &scaling).unwrap();
        // The reward is the number in the recording; the blocks at both ends are incomplete.
        let place = |seq: u32| f64::from(seq) * 800.0 / f64::from(wanted);
        let inner =
            workers(&large).concat().into_iter().map(|(u, _)| u).filter(|u| (80.0..720.0).contains(&place(u.seq)));
        let off: Vec<_> = inner.map(|u| f64::from(u.reward.unwrap()) - place(u.seq)).collect();
        assert!(mean(&off).abs() < 2.0, "{wanted}: {} updates too late", mean(&off));
    }
}

#[test]
fn files_that_were_there_stay() {
    let folder = tempfile::tempdir().unwrap();
    let (small, large) = (folder.path().join("s.parquet.partial"), folder.path().join("s.parquet"));
    record(&small);
    let input = std::fs::read(&small).unwrap();
    let others = ["s.parquet.rows", "s.parquet.values"].map(|name| folder.path().join(name));
    others.iter().for_each(|path| std::fs::write(path, "mine").unwrap());
    scale(&small, &large, &ScalePlan { workers: Some(4), ..Default::default() }).unwrap();
    assert!(std::fs::read(&small).unwrap() == input, "the input is as it was");
    others.iter().for_each(|path| assert_eq!(std::fs::read(path).unwrap(), b"mine", "{}", path.display()));
}

#[test]
fn plain_flows_are_left_out_and_that_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let (small, large) = (folder.path().join("small.parquet"), folder.path().join("large.parquet"));
    let mut writer = Writer::create(&small).unwrap();
    for (t_gen, worker) in (0..40).flat_map(|i| (0..2).map(move |worker| (i * 1000, worker))) {
        let (cluster, seq) = (if worker == 0 { NO_CLUSTER } else { 3 }, t_gen as u32 / 1000);
        let update = Update { t_gen, cluster, worker, seq, bytes: 256, reward: None, iteration: None };
        writer.push(&update, &[]).unwrap();
    }
    writer.finish("recorded", BTreeMap::new(), "CC0-1.0").unwrap();
    let manifest = scale(&small, &large, &ScalePlan::default()).unwrap();
    assert_eq!((manifest.updates, check(&large).unwrap().workers), (40, 1));
    assert_eq!(manifest.details["left_out"], "40 updates of background traffic; the other workers are renumbered");
    record(&small);
    assert!(!scale(&small, &large, &ScalePlan::default()).unwrap().details.contains_key("left_out"));
}

#[test]
fn a_rate_is_met_to_the_picosecond() {
    let folder = tempfile::tempdir().unwrap();
    let (small, large) = (folder.path().join("small.parquet"), folder.path().join("large.parquet"));
    record(&small);
    let rate = Rate::from_bps(7_000_000_013);
    scale(&small, &large, &ScalePlan { offered: Some(rate), bytes: Some(300), ..Default::default() }).unwrap();
    let info = check(&large).unwrap();
    let wanted = u128::from(info.bytes) * 8 * SECOND as u128 / u128::from(rate.bps());
    assert_eq!((info.first_ps, info.last_ps as u128), (0, wanted));
}

/// Writes 100 updates of each of two workers, which have these periods.
fn two_paces(path: &Path, periods: [Time; 2]) {
    let mut updates = Vec::new();
    for (worker, seq) in (0..2u32).flat_map(|worker| (0..100u32).map(move |seq| (worker, seq))) {
        let t_gen = Time::from(seq) * periods[worker as usize];
        updates.push(Update { t_gen, cluster: 0, worker, seq, bytes: 256, reward: None, iteration: None });
    }
    updates.sort_by_key(|update| (update.t_gen, update.worker));
    let mut writer = Writer::create(path).unwrap();
    updates.iter().for_each(|update| writer.push(update, &[]).unwrap());
    writer.finish("recorded", BTreeMap::new(), "CC0-1.0").unwrap();
}

#[test]
fn gaps_below_a_picosecond_come_to_an_end() {
    let folder = tempfile::tempdir().unwrap();
    let (small, made) = (folder.path().join("small.parquet"), folder.path().join("made.parquet"));
    // The faster worker's gaps of 100 ps become a tenth of a picosecond, and are one.
    two_paces(&small, [100, 100_000_000]);
    scale(&small, &made, &ScalePlan { skew: Some(2.0), ..Default::default() }).unwrap();
    let updates = workers(&made)[0].len();
    assert!((5_000..=9_901).contains(&updates), "{updates}");
}

#[test]
fn what_cannot_be_is_refused_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let small = folder.path().join("small.parquet");
    let good = Update { t_gen: 0, cluster: 0, worker: 0, seq: 0, bytes: 256, reward: None, iteration: None };
    let write = |updates: &[Update]| {
        let mut writer = Writer::create(&small).unwrap();
        updates.iter().for_each(|update| writer.push(update, &[]).unwrap());
        writer.finish("recorded", BTreeMap::new(), "CC0-1.0").unwrap();
    };
    let refuses = |scaling: ScalePlan, output: &str, part: &str| {
        let message = scale(&small, &folder.path().join(output), &scaling).unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "{part}: only the input and its manifest");
    };
    write(&[good, Update { t_gen: HORIZON / 2, seq: 1, ..good }]);
    let none = ScalePlan::default;
    refuses(ScalePlan { offered: Some(Rate::from_bps(0)), ..none() }, "x.parquet", "--rate");
    refuses(ScalePlan { updates: Some(0), ..none() }, "x.parquet", "--updates");
    refuses(ScalePlan { clusters: Some(0), ..none() }, "x.parquet", "--clusters");
    refuses(ScalePlan { workers: Some(0), ..none() }, "x.parquet", "--workers");
    refuses(ScalePlan { workers: Some(u32::MAX), ..none() }, "x.parquet", "--workers");
    refuses(ScalePlan { bytes: Some(75), ..none() }, "x.parquet", "--bytes");
    refuses(ScalePlan { time: Some("0".parse().unwrap()), ..none() }, "x.parquet", "--time");
    refuses(ScalePlan { time: Some("1000".parse().unwrap()), ..none() }, "x.parquet", "26 days");
    refuses(ScalePlan { skew: Some(f64::NAN), ..none() }, "x.parquet", "--skew");
    let both = ScalePlan { time: Some("2".parse().unwrap()), offered: Some(Rate::from_bps(1)), ..none() };
    refuses(both, "x.parquet", "--rate, --time");
    refuses(ScalePlan { updates: Some(4), ..none() }, "x.parquet", "26 days");
    refuses(ScalePlan { updates: Some(400), ..none() }, "x.parquet", "26 days");
    refuses(ScalePlan { updates: Some(4000), offered: Some(Rate::from_bps(1)), ..none() }, "x.parquet", "26 days");
    refuses(
        ScalePlan { bytes: Some(9036), offered: Some(Rate::from_bps(1)), updates: Some(9), ..none() },
        "x.csv",
        ".parquet",
    );
    refuses(none(), "small.parquet", "another output");
    // A microsecond and 20 ms.
    two_paces(&small, [1_000_000, 20_000_000_000]);
    refuses(ScalePlan { skew: Some(4.0), ..none() }, "x.parquet", "--skew: worker 0 would have 2.8e8 updates");
    write(&[good, Update { seq: 1, ..good }]);
    let rate = Some(Rate::from_bps(1_000_000));
    refuses(ScalePlan { offered: rate, ..none() }, "x.parquet", "--rate: all updates are at one time");
    write(&[good, good]);
    refuses(none(), "x.parquet", "seq 0 after 1");
}
