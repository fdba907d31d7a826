//! What the configs of the Libra paper's figures show, read from the report that users read.

mod figures;

use figures::{report, values};

/// The seeds that suffice here.
const ONE_SEED: &str = "sweep.seeds=1";

/// Figure 12: Libra gives 1.5 to 4 times as much as PS-lite on 32 workers and gains with their number; SwitchML, which sends the
/// whole model, is below PS-lite for the sparsest one.
#[test]
fn libra_is_above_a_server_alone_and_that_above_switchml_for_what_is_sparse() {
    let models = "sweep.axes.workload.model=[\"oa\", \"se\", \"deeplight\", \"ncf\"]";
    let few = [ONE_SEED, models, "sweep.axes.workload.workers=[8, 32]", "workload.iterations=2"];
    let all = report("libra/figure12.toml", &few);
    for model in ["oa", "se", "deeplight", "ncf"] {
        let model = format!("workload.model={model}");
        let ratio = |variant: &str, workers: &str| {
            let found = values(&all, &[&model, &format!("variant={variant}"), workers], "throughput_ratio");
            assert_eq!(found.len(), 1, "{model} {variant} {workers}: {found:?}");
            found[0]
        };
        let (few, many) = (1.0 / ratio("PS-lite", "workload.workers=8"), 1.0 / ratio("PS-lite", "workload.workers=32"));
        assert!((1.5..=4.0).contains(&many) && few < many, "{model}: {few} on 8 workers, {many} on 32");
        let switchml = ratio("SwitchML", "workload.workers=32");
        assert!(switchml < 1.0 / many, "{model}: SwitchML {switchml}");
    }
}

/// Figure 14, with a curve that has a knee at the 30,000th parameter: more hot parameters help, and ever less.
#[test]
fn more_hot_parameters_help_less_and_less() {
    let all = report("libra/figure14.toml", &[ONE_SEED, "workload.iterations=2"]);
    for model in ["workload.model=oa", "workload.model=se"] {
        let ratio = |hot: &str| {
            let found =
                values(&all, &[model, "workload.curve=joined", &format!("variant={hot} hot")], "throughput_ratio");
            found.first().copied().unwrap_or(1.0)
        };
        let of = ["10,000", "20,000", "30,000", "60,000", "80,000"].map(ratio);
        assert!(of.windows(2).all(|pair| pair[0] < pair[1]), "{model}: {of:?}");
        assert!(of[4] - of[2] < of[2] - of[0], "{model}: {of:?}");
    }
}

/// Figure 16: below one recirculation per packet by heat and Algorithm 1, ten in a random layout.
#[test]
fn layout_and_packaging_avoid_recirculations() {
    let all = report("libra/figure16.toml", &[ONE_SEED]);
    let of = |variant: &str| values(&all, &[&format!("variant={variant}")], "recirculations_sum");
    let (ours, random) = (of("heat, Algorithm 1"), of("random, arrival order"));
    assert!(ours.len() == 2 && ours.iter().all(|n| *n < 1.0), "{ours:?}");
    assert!(random.len() == 2 && random.iter().all(|n| (9.0..11.0).contains(n)), "{random:?}");
}

/// Figure 18: less than 3 % longer with 0.1 % of frames lost, beside 100 ms of computation.
#[test]
fn losses_cost_little_beside_computation() {
    let set = [ONE_SEED, "sweep.axes.workload.compute=[\"100ms\"]", "workload.iterations=20"];
    let all = report("libra/figure18.toml", &set);
    let speedup = values(&all, &["variant=0.1 %"], "iteration_speedup");
    assert!(speedup.len() == 1 && (0.97..1.0).contains(&speedup[0]), "{speedup:?}");
}

/// Table 2: sums by tables are right to 99.8 % on both data sets, and so are those by negotiated integers.
#[test]
fn sums_by_tables_are_precise() {
    let all = report("libra/table2.toml", &[ONE_SEED]);
    let means = values(&all, &[], "sum_precision_mean");
    assert!(means.len() == 4 && means.iter().all(|mean| *mean >= 0.998), "{means:?}");
}
