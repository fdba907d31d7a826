//! Traces: Parquet of ours with its manifest, CSV, and what claims to be either.

use std::fmt::Write;
use std::path::Path;

use pktgen_generator::trace::{self, ImportOptions, Scaling};

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
    Samples::of(folder, &["a", "b", "c"])
}

/// Makes a folder, and gives the one around it.
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
        let scaling = Scaling { clusters: Some(3), updates: Some(50), ..Scaling::default() };
        let _ = trace::scale(path, &out, &scaling);
    }
    samples.restore(which);
}
