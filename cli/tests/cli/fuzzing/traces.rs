//! Traces: our Parquet with its manifest, CSV, and files that only claim to be either.

use std::fmt::Write;
use std::path::Path;

use pktgen_core::config::Document;
use pktgen_core::seed::Seed;
use pktgen_workload::trace::{self, ImportOptions, ScalePlan, Writer};
use pktgen_workload::workload::{self, Update};

use super::mutate::Random;
use super::{Samples, pktgen};

pub fn prepare(folder: &Path) -> Samples {
    let experiment = "[workload]\nclusters = 2\nworkers_per_cluster = 2\nupdates = 40\n\
                      [schedule]\nkind = \"poisson\"\noffered = \"10Gbps\"\n";
    std::fs::write(folder.join("x.toml"), experiment).expect("writable");
    pktgen(&["-q", "trace", "synth", "x.toml", "--values", "--out", "a/t.parquet"], made(folder, "a"));
    pktgen(&["-q", "trace", "synth", "x.toml", "--out", "b/t.parquet"], made(folder, "b"));
    let mut csv = "t_ps,cluster,worker,seq,reward,v0,v1\n".to_owned();
    for i in 0..60 {
        let _ = writeln!(csv, "{},{},{},{},0.5,{i}.25,-1e-3", i * 1000, i % 2, i % 4, i / 4);
    }
    made(folder, "c");
    std::fs::write(folder.join("c/t.csv"), csv).expect("writable");
    made(folder, "d");
    pairs(&folder.join("d/t.parquet"));
    Samples::of(folder, &["a", "b", "c", "d"])
}

/// Writes a trace of sparse training.
fn pairs(path: &Path) {
    let mut writer = Writer::create(path).expect("writable");
    for i in 0..60u32 {
        let (worker, seq, iteration) = (i % 3, i / 3, Some(i / 3));
        let update = Update { t_gen: i64::from(i), cluster: 0, worker, seq, bytes: 256, reward: None, iteration };
        let keys: Vec<u64> = (0..i % 7).map(|k| u64::from(k * k + i % 2)).collect();
        writer.push_pairs(&update, &keys, &vec![0.5; keys.len()]).expect("writable");
    }
    writer.finish("recorded", Default::default(), "CC0-1.0").expect("writable");
}

/// Makes the folder `name` in `folder`, and returns the latter.
fn made<'a>(folder: &'a Path, name: &str) -> &'a Path {
    std::fs::create_dir_all(folder.join(name)).expect("writable");
    folder
}

pub fn attempt(samples: &Samples, random: &mut Random) {
    let which = random.below(samples.groups.len());
    samples.change(which, random);
    let out = samples.folder.join("out.parquet");
    for (path, _) in &samples.groups[which] {
        let _ = (trace::info(path), trace::check(path));
        let _ = trace::convert(std::slice::from_ref(path), &out, None, &ImportOptions::default(), "none");
        let scaling = ScalePlan { clusters: Some(3), updates: Some(50), ..ScalePlan::default() };
        let _ = trace::scale(path, &out, &scaling);
        let text = format!("[workload]\nkind = \"sparse\"\ntrace = \"{}\"\n", path.display());
        let mut document = Document::parse(&text, "sparse").expect("it is TOML");
        let _ = workload::open(&mut document, Seed(1));
    }
    samples.restore(which);
}
