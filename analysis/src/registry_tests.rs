//! The registries hold every file of their folders, under the file's name.

use pktgen_generator::registry::Named;

use crate::{CHARTS, METRICS, REPORTS};

/// Names of the Rust files in `src/<folder>` but `mod.rs`, sorted.
fn files(folder: &str) -> Vec<String> {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(folder);
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let rust = entries.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let names = rust.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned());
    let mut names: Vec<String> = names.filter(|name| name != "mod").collect();
    names.sort();
    names
}

fn sorted<'a, T: Named + ?Sized + 'a>(list: impl Iterator<Item = &'a &'a T>) -> Vec<String> {
    let mut names: Vec<String> = list.map(|entry| entry.name().to_owned()).collect();
    names.sort();
    names
}

#[test]
fn every_file_is_registered_under_its_name() {
    assert_eq!(sorted(METRICS.iter()), files("metric"));
    assert_eq!(sorted(REPORTS.iter()), files("report"));
    let helpers = ["keep", "keep_tests", "against_tests", "network_tests", "sawtooth_tests", "states_tests"];
    let pictures: Vec<String> = files("picture").into_iter().filter(|name| !helpers.contains(&name.as_str())).collect();
    assert_eq!(sorted(CHARTS.iter()), pictures);
    assert!(CHARTS.iter().all(|picture| !picture.about().is_empty() && !picture.heading().is_empty()));
    assert!(METRICS.iter().all(|metric| !metric.about().is_empty()));
    assert!(REPORTS.iter().all(|report| !report.about().is_empty() && !report.extension().is_empty()));
}
