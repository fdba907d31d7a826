//! Checks that the registries of reports and charts contain every file of their folders under the file's name.

use std::path::Path;

use pktgen_records::testing::{files, names};

use crate::{CHARTS, REPORTS};

#[test]
fn every_form_is_registered_under_its_name() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    assert_eq!(names(REPORTS), files(&source.join("report")));
    let pictures = files(&source.join("picture")).into_iter().filter(|name| name != "keep");
    assert_eq!(names(CHARTS), pictures.collect::<Vec<_>>());
    assert!(CHARTS.iter().all(|picture| !picture.about().is_empty() && !picture.heading().is_empty()));
    assert!(REPORTS.iter().all(|report| !report.about().is_empty() && !report.extension().is_empty()));
}
