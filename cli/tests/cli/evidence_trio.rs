//! Results of the configs for the Trio paper's figures, read from the report that users read.

use std::fs;
use std::path::Path;

use crate::support::figures::{report, values};

const TRIO: &str = "variant=Trio-ML";

/// Figure 13: the ratio grows with p from SwitchML's own overhead; Trio-ML stays near the ideal.
#[test]
fn the_more_stragglers_the_more_partial_results_help() {
    let all = report("trio/figure13.toml", &["sweep.seeds=1", "sweep.axes.workload.model=[\"resnet50\"]"]);
    let speedups = values(&all, &[TRIO], "iteration_speedup");
    assert!((1.1..=1.2).contains(&speedups[0]), "{speedups:?}");
    assert!(speedups.len() == 5 && speedups.windows(2).all(|pair| pair[0] <= pair[1]), "{speedups:?}");
    let over_ideal = values(&all, &[TRIO], "over_ideal");
    assert!(over_ideal.iter().all(|ratio| *ratio <= 1.1), "{over_ideal:?}");
    // One straggler of 0.5 to 2 iterations at three points: SwitchML waits for all of it, 1 + 3 · 0.16 · 1.25.
    let switchml = values(&all, &["variant=SwitchML", "workload.straggler_probability=0.16"], "over_ideal");
    assert!((1.45..=1.75).contains(&switchml[0]), "{switchml:?}");
}

/// The page compares both systems with one ideal: the ratios to it differ by the speedup.
#[test]
fn the_table_of_figure_13_has_one_ideal() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/training.md");
    let page = fs::read_to_string(page).expect("docs/training.md");
    let (_, table) = page.split_once("| Trio-ML / ideal | SwitchML / ideal |\n").expect("the table");
    let rows: Vec<Vec<&str>> = table
        .lines()
        .skip(1)
        .map_while(|line| line.strip_prefix("| 0."))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    assert_eq!(rows.len(), 5);
    let number = |text: &str| text.trim().parse::<f64>().expect("a number");
    for row in rows {
        let (trio, switchml) = (row[4].split(','), row[5].split(','));
        for ((speedup, trio), switchml) in row[1..4].iter().copied().zip(trio).zip(switchml) {
            assert!((number(switchml) / number(trio) - number(speedup)).abs() < 0.025, "{row:?}");
        }
    }
}

/// The map of Figure 13: one straggler cannot give the published ratio, independent ones can.
#[test]
fn the_published_ratio_needs_independent_stragglers() {
    let all = report(
        "trio/figure13-map.toml",
        &["sweep.seeds=1", "sweep.axes.workload.compute=[\"250ms\"]", "sweep.axes.endpoint.window=[41]"],
    );
    let one = values(&all, &[TRIO, "workload.stragglers=one"], "iteration_speedup");
    let each = values(&all, &[TRIO, "workload.stragglers=each"], "iteration_speedup");
    assert!(one.len() == 4 && one.iter().all(|ratio| *ratio < 1.6), "{one:?}");
    assert!(each.iter().any(|ratio| (1.6..=1.9).contains(ratio)), "{each:?}");
}

/// Figure 15, predicted: 200 µs at 1024 gradients from the paper's numbers alone, and the remainder that is unexplained at 64.
#[test]
fn the_chip_is_as_fast_as_the_text_says() {
    let all = report("trio/figure15.toml", &["sweep.seeds=\"1\""]);
    let latency = |variant: &str| values(&all, &[&format!("variant={variant}")], "aggregation_latency_mean")[0] / 1e3;
    assert!((latency("1024") / 200.0 - 1.0).abs() < 0.05, "{}", latency("1024"));
    assert!(latency("64") < 15.0, "{}", latency("64"));
    let fitted = |n: u32| {
        let at = all
            .iter()
            .find(|((labels, key), _)| labels == &format!("variant={n} fitted") && key == "aggregation_latency_mean");
        *at.expect("a value").1 / 1e3
    };
    assert!((fitted(64) - 30.0).abs() < 1.0 && (fitted(1024) - 200.0).abs() < 2.0);
    // The rate flattens: doubling to 128 gains much, doubling to 1024 little.
    let rate = |n: u32| f64::from(n) / fitted(n);
    assert!(rate(128) / rate(64) > 1.4 && rate(1024) / rate(512) < 1.1);
}

/// Figure 16: throughput grows with the window to 6 billion additions per second, at about 300 blocks of 1024; beyond
/// that, latency grows instead.
#[test]
fn the_window_saturates_the_engines() {
    let windows = ["1", "16", "128", "293", "1024", "4096"];
    let axis = format!("sweep.axes.endpoint.window=[{}]", windows.join(","));
    let all = report("trio/figure16.toml", &["sweep.seeds=\"1\"", &axis]);
    let of = |metric: &str| {
        windows.map(|w| values(&all, &["variant=Trio-ML-1024", &format!("endpoint.window={w}")], metric)[0])
    };
    let (rates, latencies) = (of("elements_per_s"), of("aggregation_latency_mean"));
    assert!(rates.windows(2).all(|pair| pair[0] <= pair[1] * 1.001), "{rates:?}");
    assert!(rates[2] < 3e9 && (5.8e9..=6.2e9).contains(&rates[3]) && rates[5] < 6.2e9, "{rates:?}");
    assert!(latencies[2] < 2.1e5 && latencies.windows(2).all(|pair| pair[0] <= pair[1] * 1.001), "{latencies:?}");
    assert!(latencies[5] > 4.0 * latencies[3], "{latencies:?}");
}
