//! Tests of [`super`] on constructed runs and sweeps.

use std::collections::BTreeMap;

use pktgen_core::record::{Manifest, Reason, Unseen};
use pktgen_records::testing::{Story, small_run, write_sweep};
use pktgen_records::{Options, stats};

use super::*;
use crate::check::warnings;
use crate::model::Model;
use crate::sweep::data::SweepData;

fn plan(groups: &[(&str, &[u16])]) -> ReportPlan {
    let group = |(name, clusters): &(&str, &[u16])| Group { name: (*name).to_owned(), clusters: clusters.to_vec() };
    ReportPlan { groups: groups.iter().map(group).collect(), ..Default::default() }
}

/// Cluster c generates at 0 and is delivered at (c + 1) · 10 µs; the second update of cluster 2 is lost.
fn three_clusters() -> Story {
    let mut story = Story::new();
    for worker in 0..3u32 {
        let t = i64::from(worker + 1) * 10_000_000;
        story.sent_seq(worker, 0, 0, Some(0), worker as u16).received_seq(t, worker, 0, 0, 1);
    }
    story.sent_seq(2, 1, 1, Some(1), 2).dropped_seq(2, 2, 1);
    story
}

fn values(story: &Story, records: &str, plan: &ReportPlan) -> BTreeMap<String, Option<f64>> {
    let dir = tempfile::tempdir().unwrap();
    let mut manifest = story.manifest();
    manifest.records = records.to_owned();
    story.write_with(dir.path(), &manifest);
    let run = Analysis::open(dir.path(), Options::default()).unwrap();
    lines(&run, plan).into_iter().map(|line| (line.key().unwrap(), line.value)).collect()
}

#[test]
fn ages_losses_and_fairness_of_groups() {
    let plan = plan(&[("S1", &[0, 1]), ("S2", &[2])]);
    let found = values(&three_clusters(), "full", &plan);
    assert_eq!(found.keys().cloned().collect::<Vec<_>>(), {
        let mut keys = keys(&plan);
        keys.sort();
        keys
    });
    // Averages are half of the windows of 10, 20 and 30 µs.
    assert_eq!((found["aom_mean/cluster/S1"], found["aom_mean/cluster/S2"]), (Some(7_500.0), Some(15_000.0)));
    assert_eq!((found["aom_mean/worker/S1"], found["aom_mean/worker/S2"]), (Some(7_500.0), Some(15_000.0)));
    assert_eq!((found["loss/S1"], found["loss/S2"]), (Some(0.0), Some(0.5)));
    assert_eq!(found["aom_fairness/groups"], stats::jain(&[7_500.0, 15_000.0]));
    // Without records there are no ages, but the loss is the same.
    let counted = values(&three_clusters(), "none", &plan);
    assert_eq!(counted, [("loss/S1".to_owned(), Some(0.0)), ("loss/S2".to_owned(), Some(0.5))].into());
}

#[test]
fn loss_of_a_group_is_defined_as_that_of_a_run() {
    let plan = plan(&[("S1", &[0, 1]), ("S2", &[2])]);
    let of = |change: &dyn Fn(&mut Manifest)| {
        let (dir, story) = (tempfile::tempdir().unwrap(), three_clusters());
        let mut manifest = story.manifest();
        manifest.records = "none".to_owned();
        change(&mut manifest);
        story.write_with(dir.path(), &manifest);
        let run = Analysis::open(dir.path(), Options::default()).unwrap();
        let found = lines(&run, &plan);
        ["loss/S1", "loss/S2"].map(|key| found.iter().find(|line| line.key().as_deref() == Some(key)).unwrap().value)
    };
    assert_eq!(of(&|_| ()), [Some(0.0), Some(0.5)]);
    // What the device or the server had already is not lost.
    let repeated = |manifest: &mut Manifest| {
        let balance = &mut manifest.balance_by_worker[2];
        balance.dropped = [(Reason::Duplicate.name().to_owned(), 1)].into();
    };
    assert_eq!(of(&repeated), [Some(0.0), Some(0.0)]);
    // Some of them were mistaken for repeats: it is not known which, unless one group has all.
    let mistaken = |duplicates: [u64; 3]| {
        move |manifest: &mut Manifest| {
            for (balance, n) in manifest.balance_by_worker.iter_mut().zip(duplicates) {
                balance.sent = 20;
                balance.dropped = [(Reason::Duplicate.name().to_owned(), n)].into();
            }
            manifest.counters.device.insert("never_counted".to_owned(), 3);
        }
    };
    assert_eq!(of(&mistaken([3, 0, 10])), [None, None]);
    assert_eq!(of(&mistaken([0, 0, 10])), [Some(0.0), Some(0.15)]);
    let (dir, mut manifest) = (tempfile::tempdir().unwrap(), three_clusters().manifest());
    manifest.records = "none".to_owned();
    mistaken([3, 0, 10])(&mut manifest);
    three_clusters().write_with(dir.path(), &manifest);
    let run = Analysis::open(dir.path(), Options::default()).unwrap();
    assert_eq!(counts::loss(&run, &run.balance()), Some(3.0 / 60.0));
    // A device without books that may merge does not say what it lost, one that forwards has lost what did not arrive.
    let unseen = |merges| {
        move |manifest: &mut Manifest| {
            manifest.unseen = Some(Unseen { merges, ..Default::default() });
            manifest.balance_by_worker[0].unaccounted = 1;
        }
    };
    assert_eq!((of(&unseen(true)), of(&unseen(false))), ([None, None], [Some(0.5), Some(0.0)]));
}

#[test]
fn a_group_of_clusters_that_no_run_has_has_no_values() {
    let found = values(&three_clusters(), "full", &plan(&[("S1", &[0]), ("gone", &[7, 70])]));
    assert_eq!((found["aom_mean/cluster/gone"], found["loss/gone"]), (None, None));
    assert!(!found.contains_key("aom_fairness/groups"));
    assert!(values(&small_run(true, 1_000), "full", &plan(&[])).is_empty());
}

/// Returns the small sweep with groups, after `change` was applied to its plan.
fn sweep_with(change: impl Fn(&mut ReportPlan)) -> SweepData {
    let dir = tempfile::tempdir().unwrap();
    write_sweep(dir.path(), 2);
    let path = dir.path().join("sweep.json");
    let mut manifest: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let mut edited: ReportPlan = serde_json::from_value(manifest["report"].clone()).unwrap();
    edited.groups = plan(&[("S1", &[0]), ("S2", &[1])]).groups;
    change(&mut edited);
    manifest["report"] = serde_json::to_value(edited).unwrap();
    std::fs::write(&path, manifest.to_string()).unwrap();
    SweepData::open(dir.path(), &mut |_, _| {}).unwrap()
}

#[test]
fn reports_tabulate_and_draw_groups() {
    let sweep = sweep_with(|plan| {
        plan.metrics = vec!["aom_mean/cluster/S1".into(), "loss/S2".into(), "aom_fairness/groups".into()]
    });
    let model = Model::build(&sweep);
    assert!(model.rows.iter().all(|row| row.cells.iter().all(|cell| cell.ours.is_some())), "{:?}", model.rows);
    assert_eq!((model.columns[0].unit.as_str(), model.columns[1].unit.as_str()), ("ns", "share"));
    let own: Vec<_> = model.warnings.iter().filter(|warning| !warning.contains("no_such_metric")).collect();
    assert!(own.is_empty(), "{own:?}");
    let by_group = |chart: &&crate::chart::Chart| chart.title.starts_with("Average Age-of-Model of clusters by group");
    let chart = model.charts.iter().find(by_group).expect("a chart of groups");
    let names: Vec<_> = chart.series.iter().map(|series| series.name.as_str()).collect();
    assert_eq!(names, ["fifo, S1", "fifo, S2", "olaf, S1", "olaf, S2"]);
    assert_eq!(chart.series[0].points.iter().map(|point| point.0).collect::<Vec<_>>(), [20.0, 40.0]);
}

#[test]
fn mistakes_in_groups_are_named() {
    let sweep = sweep_with(|plan| {
        plan.metrics = vec!["aom_mean/cluster/S3".into(), "loss/S1".into()];
        plan.groups[1].clusters = vec![1, 12, 13];
        plan.groups.push(plan.groups[0].clone());
    });
    let all = warnings(&sweep).join("\n");
    for part in [
        "report.groups \"S2\": no run has cluster 12, 13; there are: 0 to 1",
        "report.groups: two groups are called \"S1\"",
        "no metric \"aom_mean/cluster/S3\", did you mean \"aom_mean/cluster/S",
    ] {
        assert!(all.contains(part), "{part} is not in\n{all}");
    }
    assert!(!all.contains("no metric \"loss/S1"), "{all}");
}
