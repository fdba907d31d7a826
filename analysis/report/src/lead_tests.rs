//! Tests of the question and answer of a small sweep: with a baseline, of variants alone, along an axis, and of single runs.

use super::*;
use pktgen_core::record::Fault;
use pktgen_records::stats::{Interval, estimate};
use pktgen_records::testing::write_sweep;

use crate::answer::NAMED_MAX;
use crate::model::Model;

/// FIFO and Olaf at two rates.
fn sweep(seeds: u64) -> (tempfile::TempDir, SweepData) {
    let dir = tempfile::tempdir().unwrap();
    write_sweep(dir.path(), seeds);
    let sweep = SweepData::open(dir.path(), &mut |_, _| {}).unwrap();
    (dir, sweep)
}

#[test]
fn variants_answer_against_the_baseline_with_their_intervals() {
    let (_dir, mut sweep) = sweep(5);
    sweep.manifest.report.question = Some("Is a queue of one's own worth it?".into());
    let asked = Lead::of(&sweep);
    sweep.manifest.report.question = None;
    let lead = Lead::of(&sweep);
    assert_eq!((&asked.question[..], asked.answers.len()), ("Is a queue of one's own worth it?", lead.answers.len()));
    assert_eq!(lead.question, "How much younger are models than with fifo?");
    let [olaf] = lead.answers.as_slice() else { panic!("one line: {:?}", lead.answers) };
    assert_eq!((olaf.name.as_str(), olaf.told.as_str(), olaf.class), ("olaf", "better at all 2 points", "better"));
    assert!(
        olaf.values
            .iter()
            .all(|one| one.value.ends_with(" %") && one.interval.is_some() && one.at.starts_with("rate "))
    );
    // The chart shows the ages of both.
    let model = Model::build(&sweep);
    let chart = &model.charts[model.lead_chart.unwrap()];
    assert_eq!((chart.picture, chart.keys.as_slice()), ("against", ["aom_mean/cluster".to_owned()].as_slice()));
    assert_eq!(chart.series.len(), 2);
}

#[test]
fn few_seeds_have_values_and_no_verdict() {
    let (_dir, sweep) = sweep(1);
    let lead = Lead::of(&sweep);
    assert!(
        lead.answers.iter().all(|one| one.class == "open" && one.values.iter().all(|value| value.interval.is_none()))
    );
    assert_eq!(lead.answers[0].told, "one seed: not compared");
}

#[test]
fn without_a_baseline_the_best_variant_is_named() {
    let (_dir, mut sweep) = sweep(5);
    sweep.manifest.report.baseline = None;
    sweep.manifest.report.metrics = vec!["loss".to_owned()];
    let lead = Lead::of(&sweep);
    assert_eq!(lead.question, "Which of fifo and olaf has the lowest loss?");
    let told: Vec<_> =
        lead.answers.iter().chain(&lead.more).map(|one| (one.name.as_str(), one.told.as_str(), one.class)).collect();
    assert_eq!(told, [("olaf", "lowest at all 2 points", "better"), ("fifo", "", "open")]);
    // A variant without a value for a seed for which the other has one is not the best.
    let mut missed = sweep.clone();
    let runs: Vec<usize> = missed.points.iter().flat_map(|point| point.runs.clone()).collect();
    let first = *runs.iter().find(|run| missed.runs[**run].labels[VARIANT] == "olaf").unwrap();
    let scalars = &mut missed.runs[first].scalars;
    *scalars = scalars.iter().filter(|(key, _)| &***key != "loss").map(|(key, value)| (key.clone(), value)).collect();
    assert_eq!(Lead::of(&missed).answers[0].told, "lowest at 1 of 2 points");
    // Invalid runs are not compared.
    let invalid = Fault::Interrupted {};
    let mut broken = sweep.clone();
    let of_olaf = broken.runs.iter_mut().filter(|run| run.labels[VARIANT] == "olaf");
    of_olaf.for_each(|run| run.validity.faults.push(invalid.clone()));
    let lead = Lead::of(&broken);
    assert!(lead.answers.iter().all(|one| one.class != "better" && one.told.is_empty()), "{:?}", lead.answers);
    let of_olaf = broken.points.iter().filter(|point| point.labels[VARIANT] == "olaf");
    assert!(of_olaf.clone().all(|point| point.cells.contains_key("loss")));
    assert!(of_olaf.clone().all(|point| broken.of_valid(point, "loss").is_none()));
    let compared = crate::verdict::compare(&broken).lines.join("\n");
    assert!(
        compared.contains("received at rate=40, variant=olaf is published, but our valid runs have no"),
        "{compared}"
    );
    assert!(!compared.contains("ours"), "{compared}");
    // If intervals overlap, none is best; nor with few seeds.
    let mut near = sweep.clone();
    for point in &mut near.points {
        let cell = point.cells.get_mut("loss").unwrap();
        cell.interval = Some(Interval { lo: 0.0, hi: 1.0 });
    }
    let told = |sweep: &SweepData| -> Vec<String> {
        Lead::of(sweep).answers.iter().map(|one| format!("{} {}", one.told, one.class)).collect()
    };
    assert_eq!(told(&near), ["not told apart open", "not told apart open"]);
    for point in &mut near.points {
        let cell = point.cells.get_mut("loss").unwrap();
        (cell.interval, cell.n) = (None, 2);
    }
    assert!(told(&near).iter().all(|told| told.starts_with("2 seeds: not compared")), "{:?}", told(&near));
    // Equal exact variants are both best, and neither is marked.
    let mut equal = sweep.clone();
    for point in &mut equal.points {
        *point.cells.get_mut("loss").unwrap() = estimate(&[0.0], true).unwrap();
    }
    assert_eq!(told(&equal), ["lowest at all 2 points open", "lowest at all 2 points open"]);
    // Metrics without a better direction are not ranked.
    sweep.manifest.report.metrics = vec!["received".to_owned()];
    let lead = Lead::of(&sweep);
    assert_eq!(lead.question, "How do fifo and olaf compare in received?");
    assert!(lead.answers.iter().all(|one| one.told.is_empty() && one.class == "open"));
}

#[test]
fn metrics_answer_along_an_axis_and_alone() {
    let (_dir, mut sweep) = sweep(5);
    sweep.manifest.report.baseline = None;
    sweep.points.retain(|point| point.labels[VARIANT] == "olaf");
    for point in &mut sweep.points {
        point.labels.remove(VARIANT);
    }
    sweep.manifest.report.metrics = ["aom_mean/cluster", "aom_mean/worker", "loss"].map(str::to_owned).into();
    let lead = Lead::of(&sweep);
    assert_eq!(lead.question, "How does the AoM mean depend on the rate?");
    // A share does not fit into a chart of times.
    let names = |lead: &Lead| -> Vec<String> { lead.answers.iter().map(|one| one.name.clone()).collect() };
    assert_eq!(names(&lead), ["AoM mean, cluster", "AoM mean, worker"]);
    // Without metrics of the report's own, the ages of clusters are the first, once.
    let metrics = std::mem::take(&mut sweep.manifest.report.metrics);
    assert_eq!(names(&Lead::of(&sweep)), ["AoM mean, cluster", "AoM mean, worker"]);
    sweep.manifest.report.metrics = metrics;
    sweep.points.truncate(1);
    sweep.points[0].labels.clear();
    sweep.runs.truncate(1);
    sweep.manifest.axes.clear();
    let lead = Lead::of(&sweep);
    assert_eq!(lead.question, format!("What does {} measure?", sweep.manifest.experiment));
    assert_eq!(lead.answers.len(), 3);
    sweep.points.clear();
    assert!(Lead::of(&sweep).answers.is_empty());
}

#[test]
fn of_many_points_the_least_and_the_largest_stand() {
    let (_dir, mut sweep) = sweep(5);
    let point = sweep.points.pop().unwrap();
    for rate in 1..9 {
        let mut more = point.clone();
        more.labels.insert("rate".to_owned(), rate.to_string());
        if let Some(cell) = more.cells.get_mut("aom_cut/cluster") {
            cell.median = f64::from(rate) / 10.0;
        }
        sweep.points.push(more);
    }
    let lead = Lead::of(&sweep);
    let olaf = &lead.answers[0];
    assert!(olaf.points > NAMED_MAX && olaf.values.len() == 2);
    assert_eq!(olaf.values[1].value, "80.0 %");
}
