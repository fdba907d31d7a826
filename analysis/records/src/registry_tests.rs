//! Checks that the registry of metrics contains every file of its folder under the file's name.

use std::path::Path;

use crate::METRICS;
use crate::testing::{files, names};

#[test]
fn every_metric_is_registered_under_its_name() {
    assert_eq!(names(METRICS), files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/metric")));
    assert!(METRICS.iter().all(|metric| !metric.about().is_empty()));
}
