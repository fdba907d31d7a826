//! Tests that speeds, packet rates, passes and several traces keep the specified times, one test for each way in which
//! other generators deviate from them.

use std::path::{Path, PathBuf};

use pktgen_core::config::Document;
use pktgen_core::record::NO_CLUSTER;
use pktgen_core::seed::Seed;
use pktgen_core::time::{HORIZON, MS, NS, SECOND, Time};
use pktgen_core::{Error, Result};
use pktgen_workload::trace::{Writer, info};
use pktgen_workload::workload::{self, Update};
use proptest::prelude::*;

/// One worker's update.
const UPDATE: Update =
    Update { t_gen: 0, cluster: 0, worker: 0, seq: 0, bytes: 256, reward: Some(1.0), iteration: None };

/// Writes a trace of one worker with the given times.
fn trace(folder: &Path, name: &str, times: impl IntoIterator<Item = Time>) -> PathBuf {
    let updates = times.into_iter().enumerate().map(|(i, t_gen)| Update { t_gen, seq: i as u32, ..UPDATE });
    written(folder, name, updates)
}

fn written(folder: &Path, name: &str, updates: impl IntoIterator<Item = Update>) -> PathBuf {
    let path = folder.join(name);
    let mut writer = Writer::create(&path).unwrap();
    updates.into_iter().for_each(|update| writer.push(&update, &[]).unwrap());
    writer.finish("test", Default::default(), "CC0-1.0").unwrap();
    path
}

/// Returns the updates of an experiment, its hash, and the reason for an early end, if any.
fn open(text: &str) -> Result<(Vec<Update>, String, Option<String>)> {
    let mut document = Document::parse(text, "x.toml")?;
    let mut opened = workload::open(&mut document, Seed(1))?;
    document.finish(&[])?;
    let mut updates = Vec::new();
    while let Some(update) = opened.source.peek().copied() {
        updates.push(update);
        opened.source.take(&mut []);
    }
    let failure = opened.source.failure().map(str::to_owned);
    Ok((updates, opened.hash, failure))
}

fn times(text: &str) -> Vec<Time> {
    let (updates, _, failure) = open(text).unwrap();
    assert_eq!(failure, None, "{text}");
    assert!(updates.is_sorted_by_key(|u| u.t_gen), "{text}");
    updates.iter().map(|u| u.t_gen).collect()
}

fn refusal(text: &str) -> String {
    let error = open(text).expect_err(text);
    assert!(matches!(error, Error::Config(_)), "{error}");
    error.to_string()
}

/// Returns the text of an experiment that replays `paths`.
fn replay(paths: &[&Path], workload: &str, schedule: &str) -> String {
    let paths: Vec<_> = paths.iter().map(|path| format!("\"{}\"", path.display())).collect();
    format!("[workload]\ntrace = [{}]\n{workload}\n[schedule]\n{schedule}\n", paths.join(", "))
}

/// Packets per second by definition: the number of gaps divided by their total time.
fn pps(times: &[Time]) -> f64 {
    (times.len() - 1) as f64 / ((times[times.len() - 1] - times[0]) as f64 / SECOND as f64)
}

fn near(is: f64, wanted: f64) -> bool {
    (is / wanted - 1.0).abs() < 1e-9
}

#[test]
fn one_packet_per_second_is_one_packet_per_second() {
    let folder = tempfile::tempdir().unwrap();
    let even = trace(folder.path(), "even.parquet", (0..1000).map(|i| 77 + i * MS));
    let second: Vec<Time> = (0..1000).map(|i| i * SECOND).collect();
    for pps in ["\"1\"", "1", "1.0", "\"1pps\"", "\"0.001k\""] {
        assert_eq!(times(&replay(&[&even], "", &format!("pps = {pps}"))), second, "{pps}");
    }
    let half = times(&replay(&[&even], "", "pps = 0.5"));
    assert!(half.iter().zip(&second).all(|(half, second)| *half == 2 * second));
    let fast = times(&replay(&[&even], "", "pps = \"2M\""));
    assert!(fast.iter().zip(0..).all(|(t, i)| *t == i * 500 * NS));
}

#[test]
fn the_gap_before_the_second_packet_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let uneven = trace(folder.path(), "t.parquet", [5, 5 + 7 * MS, 5 + 8 * MS, 5 + 10 * MS]);
    assert_eq!(times(&replay(&[&uneven], "", "")), [0, 7 * MS, 8 * MS, 10 * MS]);
    assert_eq!(times(&replay(&[&uneven], "", "speed = 0.5")), [0, 14 * MS, 16 * MS, 20 * MS]);
    assert_eq!(times(&replay(&[&uneven], "", "pps = 300")), [0, 7 * MS, 8 * MS, 10 * MS]);
    let twice = times(&replay(&[&uneven], "repeat = 2", "pps = 3"));
    assert_eq!(twice[3..6], [SECOND, SECOND * 4 / 3, SECOND * 61 / 30]);
}

#[test]
fn a_tiny_factor_makes_hours_of_milliseconds_without_drift() {
    let folder = tempfile::tempdir().unwrap();
    let mut at = 123_456_789;
    let mut next = |i: u64| {
        at += (i * i % 9973) as Time;
        at
    };
    let recorded: Vec<Time> = (0..1_000_000).map(&mut next).collect();
    let path = trace(folder.path(), "t.parquet", recorded.iter().copied());
    assert!((4 * MS..6 * MS).contains(&(recorded[999_999] - recorded[0])), "milliseconds");
    for speed in ["0.0000002", "2e-7", "\"0.0000002\"", "\"2e-7\""] {
        let slow = times(&replay(&[&path], "", &format!("speed = {speed}")));
        assert_eq!(slow.len(), 1_000_000);
        // 1 / 0.0000002 is exactly five million: no update is early or late, and the last gap is as exact as the first.
        assert!(slow.iter().zip(&recorded).all(|(slow, t)| *slow == (t - recorded[0]) * 5_000_000), "{speed}");
        assert!(slow[999_999] > 6 * 3600 * SECOND, "hours");
    }
    // A speed that no float can represent.
    let exact = times(&replay(&[&path], "", "speed = \"0.000000300000000001\""));
    let wanted = |t: Time| i128::from(t - recorded[0]) * 1_000_000_000_000_000_000 / 300_000_000_001;
    assert!(exact.iter().zip(&recorded).all(|(is, t)| i128::from(*is) == wanted(*t)));
}

#[test]
fn traces_follow_each_other_at_the_mean_gap() {
    let folder = tempfile::tempdir().unwrap();
    let a = trace(folder.path(), "a.parquet", [50, 50 + MS, 50 + 6 * MS]);
    let b = trace(folder.path(), "b.parquet", [9 * SECOND, 9 * SECOND + 2 * MS]);
    let both = replay(&[&a, &b], "", "");
    let (updates, hash, failure) = open(&both).unwrap();
    assert_eq!(failure, None);
    assert!(updates.iter().zip(0..).all(|(u, i)| u.seq == i), "sequence numbers go on");
    let played = [0, MS, 6 * MS, 9 * MS, 11 * MS];
    assert_eq!(times(&both), played);
    assert_eq!(times(&replay(&[&a, &b], "", "speed = 0.25")), played.map(|t| t * 4));
    assert_eq!(times(&replay(&[&a, &b], "", "pps = 4")), played.map(|t| t * 1000 / 11));
    // A pass consists of all traces, and passes follow each other in the same way.
    let (twice, _, _) = open(&replay(&[&a, &b], "repeat = 2", "")).unwrap();
    let again = played.map(|t| 11 * MS + 11 * MS / 4 + t);
    assert!(twice.iter().map(|u| u.t_gen).eq(played.into_iter().chain(again)));
    assert!(twice.iter().zip(0..).all(|(u, i)| u.seq == i), "and on");
    assert_eq!(times(&replay(&[&a, &a], "", ""))[3..], [9 * MS, 10 * MS, 15 * MS]);
    // The hash covers all traces in their order.
    let hashes = [&[&*a][..], &[&b], &[&a, &b], &[&b, &a]].map(|paths| open(&replay(paths, "", "")).unwrap().1);
    assert_eq!(hashes[2], hash);
    assert!((0..4).all(|i| (0..i).all(|j| hashes[i] != hashes[j])));
    let alone = format!("[workload]\ntrace = \"{}\"\n", a.display());
    assert_eq!(open(&alone).unwrap().1, hashes[0], "a list of one is one");
}

#[test]
fn traces_of_other_workers_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let a = trace(folder.path(), "a.parquet", [0, MS]);
    let more = written(folder.path(), "more.parquet", [UPDATE, Update { worker: 1, ..UPDATE }]);
    let plain = written(folder.path(), "plain.parquet", [Update { cluster: NO_CLUSTER, reward: None, ..UPDATE }]);
    let far = written(folder.path(), "far.parquet", [Update { cluster: 5, ..UPDATE }]);
    let gone = folder.path().join("gone.parquet");
    let late = trace(folder.path(), "late.parquet", [0, Time::MAX / 2]);
    assert!(open(&replay(&[&a, &gone], "", "")).is_err());
    for (paths, words) in [
        (&[&*a, &more][..], ["workload.trace", "more.parquet has 2 workers"]),
        (&[&a, &plain], ["workload.trace", "0 workers in 0 clusters and 1 senders"]),
        (&[&a, &far], ["far.parquet has 1 workers in 1 clusters", ", and worker 0 is not in the same cluster"]),
        (&[], ["workload.trace", "at least one"]),
        (&[&late], ["schedule.speed", "26 days"]),
        (&[&late, &late], ["workload.trace", "26 days"]),
        (&[&late, &late, &late], ["workload.trace", "26 days"]),
    ] {
        let message = refusal(&replay(paths, "", ""));
        assert!(words.iter().all(|word| message.contains(word)), "{message}");
    }
    assert!(refusal("[workload]\ntrace = [3]\n").contains("workload.trace: 3 is a whole number"));
}

#[test]
fn traces_with_and_without_rewards_do_not_follow_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let a = written(folder.path(), "a.parquet", [UPDATE]);
    let b = written(folder.path(), "b.parquet", [Update { reward: None, ..UPDATE }]);
    for (pair, file, words) in [
        ([&*a, &*b], "b.parquet", "has no reward, updates before have one"),
        ([&*b, &*a], "a.parquet", "has a reward, updates before have none"),
    ] {
        let why = open(&replay(&pair, "", "")).expect_err(words).to_string();
        assert!(why.contains(words) && why.contains(file), "{why}");
        assert!(why.ends_with("give each update one, or none any"), "the check takes each: {why}");
        assert_eq!(times(&replay(&[pair[1], pair[1]], "", "")).len(), 2, "alike ones do");
    }
}

#[test]
fn what_a_trace_holds_does_not_depend_on_its_first_time() {
    let folder = tempfile::tempdir().unwrap();
    // 2^60 ps are 13 days, where floats have steps of 256 ps.
    let infos = [("early.parquet", 0i64), ("late.parquet", 1i64 << 60)].map(|(name, first)| {
        let path = trace(folder.path(), name, (0..50).map(|i| first + i * 100));
        let info = info(&path).unwrap();
        (info.offered_bps, info.period_ps, info.gap_cv)
    });
    assert_eq!(infos[0].1, Some((100.0, 100.0)));
    assert_eq!(infos[0].2, Some(0.0));
    assert_eq!(infos[0], infos[1]);
}

/// Every kind of workload and schedule, and the number of updates of a pass.
const KINDS: [(&str, &str, usize); 6] = [
    ("clusters = 3\nupdates = 50", "kind = \"constant\"\noffered = \"1Gbps\"\njitter = 0.3", 450),
    ("clusters = 3\nupdates = 50\ncluster_sigma = 1.1", "kind = \"poisson\"\nperiod = \"3ms\"", 450),
    ("clusters = 3\nupdates = 50", "kind = \"on_off\"\nburst = 64", 450),
    ("kind = \"background\"\npackets = 70\nflows = 3", "kind = \"poisson\"\noffered = \"1Gbps\"", 210),
    ("kind = \"background\"\npackets = 70\nflows = 3", "kind = \"constant\"\nperiod = \"1us\"", 210),
    ("clusters = 3\nupdates = 50", "offered = \"1Gbps\"\nline_rate = \"2Gbps\"", 450),
];

fn made((workload, schedule, _): (&str, &str, usize), passes: u32, more: &str) -> String {
    format!("[workload]\n{workload}\nrepeat = {passes}\n[schedule]\n{schedule}\n{more}\n")
}

#[test]
fn every_kind_has_the_mean_asked_for_in_one_pass_and_in_many() {
    for kind in KINDS {
        for (written, asked) in [("1", 1.0), ("\"0.05\"", 0.05), ("\"31.7k\"", 31_700.0), ("12345.6789", 12_345.678_9)]
        {
            let [once, thrice] = [1, 3].map(|passes| times(&made(kind, passes, &format!("pps = {written}"))));
            let count = kind.2;
            assert_eq!((once.len(), thrice.len()), (count, 3 * count));
            assert!(near(pps(&once), asked), "{kind:?}: {} for {asked}", pps(&once));
            assert!(near(pps(&thrice), asked), "{kind:?}: {} for {asked} in passes", pps(&thrice));
            // Every pass has the pacing of the first.
            assert_eq!(thrice[..count], once);
            for pass in thrice.chunks(count) {
                assert!(pass.iter().map(|t| t - pass[0]).eq(once.iter().map(|t| t - once[0])), "{kind:?}");
            }
        }
    }
}

#[test]
fn a_stop_cuts_scaled_times_and_passes() {
    for kind in KINDS {
        for scaling in ["pps = 5000", "speed = 3"] {
            let whole = times(&made(kind, 2, scaling));
            for part in [3, 2] {
                let stop = whole[whole.len() * part / 4];
                let cut = times(&made(kind, 2, &format!("{scaling}\nstop = \"{stop}ps\"")));
                assert!(whole.iter().filter(|t| **t <= stop).eq(&cut), "{kind:?}: {scaling} until {stop} ps");
            }
        }
    }
    // The definition in words says the same.
    let page = include_str!("../../../../docs/experiments.md").split_once("## Speed and rate").unwrap().1;
    assert!(page.contains("`schedule.stop` cuts the run after all scaling") && !page.contains("up to `schedule.stop`"));
}

#[test]
fn a_speed_divides_the_times_of_every_kind() {
    for kind in KINDS {
        let plain = times(&made(kind, 1, ""));
        for (written, numerator, denominator) in [("2", 2, 1), ("2.0", 2, 1), ("0.3", 3, 10), ("\"1e-3\"", 1, 1000)] {
            let scaled = times(&made(kind, 1, &format!("speed = {written}")));
            let wanted = |t: &Time| (i128::from(*t) * denominator / numerator) as Time;
            assert!(scaled.iter().copied().eq(plain.iter().map(wanted)), "{kind:?}: {written}");
        }
    }
}

#[test]
fn a_trace_is_scaled_like_the_schedule_that_it_is_made_from() {
    let folder = tempfile::tempdir().unwrap();
    for kind in KINDS {
        let path = written(folder.path(), "t.parquet", open(&made(kind, 1, "")).unwrap().0);
        for more in ["pps = 777", "speed = 0.125"] {
            let (made, replayed) = (times(&made(kind, 1, more)), times(&replay(&[&path], "", more)));
            assert_eq!(made.len(), replayed.len());
            // The replay starts at the first update; both round down.
            let apart = |(m, r): (&Time, &Time)| (m - made[0] - r).abs();
            assert!(made.iter().zip(&replayed).all(|both| apart(both) <= 1), "{kind:?} {more}");
        }
    }
}

#[test]
fn a_background_beside_keeps_its_own_rate() {
    let text =
        "[workload]\nupdates = 200\nbackground_rate = \"8Mbps\"\n[schedule]\noffered = \"1Gbps\"\npps = \"5k\"\n";
    let (updates, _, _) = open(text).unwrap();
    let (own, beside): (Vec<Update>, Vec<Update>) = updates.iter().partition(|u| u.cluster != NO_CLUSTER);
    let rate = |updates: &[Update]| pps(&updates.iter().map(|u| u.t_gen).collect::<Vec<_>>());
    assert!(near(rate(&own), 5000.0));
    assert!((rate(&beside) / 1000.0 - 1.0).abs() < 0.15, "1000 bytes at 8 Mbit/s: {}", rate(&beside));
}

/// Passes of a workload are those that it has without background traffic, which goes on between them.
#[test]
fn passes_do_not_count_the_background() {
    for (updates, phase) in [(1, "random"), (2, "zero"), (3, "random")] {
        let text = |beside: &str| {
            format!(
                "[workload]\nclusters = 1\nworkers_per_cluster = 1\nupdates = {updates}\nrepeat = 3\n{beside}\n\
                 [schedule]\nperiod = \"1s\"\nphase = \"{phase}\"\npps = 1\n"
            )
        };
        let (all, _, failure) = open(&text("background_rate = \"8Mbps\"")).unwrap();
        assert_eq!(failure, None);
        let (own, beside): (Vec<Update>, Vec<Update>) = all.iter().partition(|u| u.cluster != NO_CLUSTER);
        assert_eq!(own, open(&text("")).unwrap().0);
        let per_second = beside.len() as f64 / (own[own.len() - 1].t_gen as f64 / SECOND as f64);
        assert!((per_second / 1000.0 - 1.0).abs() < 0.15, "1000 bytes at 8 Mbit/s: {per_second}");
    }
}

#[test]
fn rates_of_traces_are_met_and_a_speed_goes_on_top() {
    let folder = tempfile::tempdir().unwrap();
    let path = trace(folder.path(), "t.parquet", (0..2000).map(|i| i * i * 1000));
    let bps = |times: &[Time]| 2000.0 * 2048.0 / ((times[1999] - times[0]) as f64 / SECOND as f64);
    let rate = times(&replay(&[&path], "", "offered = \"10Mbps\""));
    assert!(near(bps(&rate), 1e7), "{}", bps(&rate));
    let twice = times(&replay(&[&path], "", "offered = \"10Mbps\"\nspeed = 2"));
    assert!(near(bps(&twice), 2e7), "{}", bps(&twice));
    let packets = times(&replay(&[&path], "", "offered = \"10Mbps\"\npps = 77"));
    assert!(near(pps(&packets), 77.0), "pps wins over offered");
}

#[test]
fn a_pass_of_one_update_repeats_at_the_mean() {
    let folder = tempfile::tempdir().unwrap();
    let one = trace(folder.path(), "one.parquet", [MS]);
    let seconds: Vec<Time> = (0..4).map(|i| i * SECOND).collect();
    assert_eq!(times(&replay(&[&one], "repeat = 4", "pps = 1")), seconds);
    assert_eq!(times(&replay(&[&one], "repeat = 4", "offered = \"2048bps\"")), seconds);
    assert_eq!(times(&replay(&[&one, &one, &one, &one], "", "pps = 1")), seconds);
    assert_eq!(times(&replay(&[&one], "repeat = 3", "")), [0, 1, 2], "nothing says how long it lasts");
    let lone = ("clusters = 1\nworkers_per_cluster = 1\nupdates = 1", "period = \"1s\"", 1);
    let made = times(&made(lone, 3, "pps = 4"));
    assert_eq!([made[1] - made[0], made[2] - made[1]], [SECOND / 4; 2]);
}

#[test]
fn runs_beyond_26_days_are_refused_before_they_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = trace(folder.path(), "t.parquet", [0, MS, HORIZON]);
    for (text, key) in [
        (replay(&[&path], "", "speed = 0.999999"), "schedule.speed"),
        (replay(&[&path], "", "pps = 0.0000001"), "schedule.pps"),
        (replay(&[&path], "", "offered = \"1bps\"\nspeed = \"1e-6\""), "schedule.speed"),
        (made(KINDS[1], 1, "speed = 1e-9"), "schedule.speed"),
        (made(KINDS[1], 1, "pps = 0.0001"), "schedule.pps"),
    ] {
        let message = refusal(&text);
        assert!(message.contains(key) && message.contains("26 days"), "{message}");
    }
    // A trace longer than the maximum run fits at a higher speed; the last update may be at the very end.
    assert_eq!(times(&replay(&[&path], "", ""))[2], HORIZON);
    let late = trace(folder.path(), "late.parquet", [0, HORIZON * 3]);
    assert_eq!(times(&replay(&[&late], "", "speed = 3"))[1], HORIZON);
    let message = open(&replay(&[&path], "repeat = 3", "")).unwrap().2.expect("passes beyond the end of time say so");
    assert!(message.contains("workload.repeat") && message.contains("26 days"), "{message}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn any_trace_has_the_mean_asked_for(
        gaps in prop::collection::vec(0i64..10_000_000, 1..200), asked in 1u64..1_000_000_000, passes in 1u32..4,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let recorded = gaps.iter().scan(0, |at, gap| { *at += gap; Some(*at) });
        let path = trace(folder.path(), "t.parquet", [0].into_iter().chain(recorded));
        let replayed = times(&replay(&[&path], &format!("repeat = {passes}"), &format!("pps = {asked}")));
        prop_assert_eq!(replayed.len(), (gaps.len() + 1) * passes as usize);
        if gaps.iter().any(|gap| *gap > 0) {
            // The error is below a picosecond for the span of each pass and for each gap between passes.
            let span = (replayed[replayed.len() - 1] - replayed[0]) as f64;
            let wanted = (replayed.len() - 1) as f64 * 1e12 / asked as f64;
            prop_assert!((span - wanted).abs() <= 2.0 * f64::from(passes) + wanted * 1e-12, "{} for {}", span, wanted);
        }
    }
}
