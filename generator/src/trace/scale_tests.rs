//! Tests of scaling: what a copy keeps of the recording, and what is refused.

use super::*;
use crate::config::Document;
use crate::time::HORIZON;
use crate::trace::{check, synthesise};
use crate::workload;

/// 27 workers in 9 clusters whose gaps vary and are correlated: learning workers under a poisson schedule would
/// have no memory, so every other gap is stretched.
fn record(path: &Path) {
    let text = "[workload]\nupdates = 2000\ncluster_sigma = 1.0\n[schedule]\nkind = \"poisson\"\noffered = \"1Gbps\"\n";
    let mut source = workload::open(&mut Document::parse(text, "x.toml").unwrap(), Seed(4)).unwrap().source;
    let raw = path.with_extension("raw.parquet");
    synthesise(source.as_mut(), &raw, false, BTreeMap::new(), &mut |_| {}).unwrap();
    let mut made = Vec::new();
    for recorded in load(&raw).unwrap().values().flatten() {
        let mut at = recorded.updates[0].t_gen;
        let mut before = 0;
        for (update, gap) in recorded.updates.iter().zip(&recorded.gaps) {
            made.push(Update { t_gen: at, ..*update });
            // A gap like the one before: lag-1 correlation well above 0.
            before = (before + gap) / 2;
            at += before;
        }
    }
    made.sort_by_key(|update| (update.t_gen, update.worker));
    let mut writer = Writer::create(path).unwrap();
    made.iter().for_each(|update| writer.push(update, &[]).unwrap());
    writer.finish("recorded", BTreeMap::new(), "CC0-1.0").unwrap();
}

/// Gaps in order, by cluster and worker.
fn gaps(path: &Path) -> Vec<Vec<Vec<Time>>> {
    let own = |recorded: &Recorded| recorded.gaps[..recorded.gaps.len() - 1].to_vec();
    load(path).unwrap().values().map(|cluster| cluster.iter().map(own).collect()).collect()
}

fn lag_1(gaps: &[Time]) -> f64 {
    let mean = gaps.iter().sum::<Time>() as f64 / gaps.len() as f64;
    let off: Vec<_> = gaps.iter().map(|gap| *gap as f64 - mean).collect();
    off.windows(2).map(|w| w[0] * w[1]).sum::<f64>() / off.iter().map(|x| x * x).sum::<f64>()
}

#[test]
fn copies_keep_the_distribution_and_the_correlation_of_gaps() {
    let folder = tempfile::tempdir().unwrap();
    let (small, large) = (folder.path().join("small.parquet"), folder.path().join("large.parquet"));
    record(&small);
    let scaling = Scaling { clusters: Some(100), workers: Some(3), seed: 7, ..Default::default() };
    scale(&small, &large, &scaling).unwrap();
    assert_eq!(check(&large).unwrap().workers, 300);
    let (sources, copies) = (gaps(&small), gaps(&large));
    assert_eq!((sources.len(), copies.len()), (9, 100));
    assert!(sources.iter().flatten().map(|gaps| lag_1(gaps)).sum::<f64>() / 27.0 > 0.3, "there is memory to keep");
    let mut rotated = 0;
    for (i, copy) in copies.iter().enumerate() {
        for (own, source) in copy.iter().zip(&sources[i % 9]) {
            let mean = source.iter().sum::<Time>() / source.len() as Time;
            let (mut a, mut b) = (own.clone(), source.clone());
            rotated += usize::from(a != b);
            // A rotation has the seam, which is the mean gap, in place of one gap of the source.
            b.push(mean);
            a.sort_unstable();
            b.sort_unstable();
            let missing = (0..a.len()).find(|i| a[*i] != b[*i]).unwrap_or(a.len());
            b.remove(missing);
            assert_eq!(a, b, "cluster {i}");
            assert!((lag_1(own) - lag_1(source)).abs() < 0.05, "cluster {i}: {} {}", lag_1(own), lag_1(source));
        }
    }
    assert!(rotated > 200, "{rotated} of 273 copies begin elsewhere");
}

#[test]
fn a_rate_is_met_to_the_picosecond() {
    let folder = tempfile::tempdir().unwrap();
    let (small, large) = (folder.path().join("small.parquet"), folder.path().join("large.parquet"));
    record(&small);
    let rate = Rate::from_bps(7_000_000_013);
    scale(&small, &large, &Scaling { offered: Some(rate), bytes: Some(300), ..Default::default() }).unwrap();
    let info = check(&large).unwrap();
    let wanted = u128::from(info.bytes) * 8 * crate::time::SECOND as u128 / u128::from(rate.bps());
    assert_eq!((info.first_ps, info.last_ps as u128), (0, wanted));
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
    let refuses = |scaling: Scaling, output: &str, part: &str| {
        let message = scale(&small, &folder.path().join(output), &scaling).unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "{part}: only the input and its manifest");
    };
    write(&[good, Update { t_gen: HORIZON / 2, seq: 1, ..good }]);
    let none = Scaling::default;
    refuses(Scaling { offered: Some(Rate::from_bps(0)), ..none() }, "x.parquet", "--rate");
    refuses(Scaling { updates: Some(0), ..none() }, "x.parquet", "--updates");
    refuses(Scaling { clusters: Some(0), ..none() }, "x.parquet", "--clusters");
    refuses(Scaling { workers: Some(0), ..none() }, "x.parquet", "--workers");
    refuses(Scaling { workers: Some(u32::MAX), ..none() }, "x.parquet", "--workers");
    refuses(Scaling { bytes: Some(75), ..none() }, "x.parquet", "--bytes");
    refuses(Scaling { updates: Some(4), ..none() }, "x.parquet", "26 days");
    refuses(Scaling { updates: Some(400), ..none() }, "x.parquet", "26 days");
    refuses(Scaling { updates: Some(4000), offered: Some(Rate::from_bps(1)), ..none() }, "x.parquet", "26 days");
    refuses(
        Scaling { bytes: Some(9036), offered: Some(Rate::from_bps(1)), updates: Some(9), ..none() },
        "x.csv",
        ".parquet",
    );
    refuses(none(), "small.parquet", "another output");
    write(&[good, good]);
    refuses(none(), "x.parquet", "seq 0 after 1");
}
