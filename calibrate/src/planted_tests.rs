//! Calibrations of functions whose parameters are known.

use std::cell::RefCell;

use crate::answer::{CalibrationAnswer, ParameterState, calibrate};
use crate::page::Calibration;
use crate::parameter::{NumberRange, Parameter, ParameterRange, Setting, Space};
use crate::settings::CalibrateKeys;
use crate::target::{PointLabels, TargetValue};
use crate::twin::{Evaluated, Twin};
use pktgen_core::Result;
use pktgen_core::config::Value;

/// A function of a setting and a seed, and its first seed.
struct Function<F>(F, u64);

/// Seeds of each setting.
const SEEDS: u64 = 3;

impl<F: Fn(&[f64], u64) -> Vec<f64>> Twin for Function<F> {
    fn evaluate(&mut self, settings: &[Setting]) -> Result<Vec<Evaluated>> {
        let one = |setting: &Setting| {
            let seeds: Vec<Vec<f64>> = (self.1..self.1 + SEEDS).map(|seed| (self.0)(setting, seed)).collect();
            let targets = seeds.first().map_or(0, Vec::len);
            let values = (0..targets).map(|i| seeds.iter().map(|values| Some(values[i])).collect()).collect();
            Evaluated { setting: setting.clone(), values, invalid: 0, why: None }
        };
        Ok(settings.iter().map(one).collect())
    }
}

/// Normal, the same for the same numbers.
fn normal(seed: u64, which: u64) -> f64 {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ which.wrapping_mul(0xD1B5_4A32_D192_ED03);
    let mut uniform = || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    };
    let (a, b) = (uniform().max(1e-300), uniform());
    (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
}

fn numbers(key: &str, from: f64, to: f64) -> Parameter {
    let range = NumberRange { from, to, unit: String::new(), log: false, whole: false };
    Parameter { key: key.into(), variant: None, range: ParameterRange::Numbers(range) }
}

fn keys() -> CalibrateKeys {
    CalibrateKeys { seeds: 3, settings: 200, discrepancy: 1e-4, evenly: false }
}

/// A queue: throughput, loss and delay by its rate, its room and the load beside it; with noise of seeds.
fn queue(setting: &[f64], seed: u64) -> Vec<f64> {
    let (rate, room, beside) = (setting[0], setting[1], setting[2]);
    let noise = |which: u64, size: f64| size * normal(seed, which + (setting[0] * 1e3) as u64 % 7);
    let load = (60.0 + beside) / rate;
    let carried = 60.0 * (1.0 - (-1.0 / load).exp()) / (1.0 + (1.0 / room)) + noise(1, 0.15);
    let delay = room / rate * load / (0.3 + load) * 10.0 + noise(2, 0.02);
    let lost = load / (1.0 + load) / (1.0 + room / 8.0) + noise(3, 0.002);
    vec![carried, delay, lost]
}

fn planted(truth: &[f64], repeats: u64, first: u64) -> (CalibrationAnswer, Vec<TargetValue>) {
    let space = Space {
        parameters: vec![numbers("rate", 10.0, 100.0), numbers("room", 2.0, 64.0), numbers("beside", 0.0, 40.0)],
    };
    let runs: Vec<Vec<f64>> = (first..first + repeats).map(|seed| queue(truth, seed)).collect();
    let metrics = ["carried", "delay", "lost"];
    let target = |i: usize| {
        let values: Vec<f64> = runs.iter().map(|values| values[i]).collect();
        TargetValue::measured(metrics[i], &PointLabels::new(), &values).expect("values")
    };
    let targets: Vec<TargetValue> = (0..3).map(target).collect();
    let mut twin = Function(queue, first + repeats);
    (calibrate(&space, &targets, &keys(), &mut twin, &mut |_, _| {}).expect("an answer"), targets)
}

/// How many intervals of planted parameters cover them, and their median width.
fn coverage(calibrations: u64) -> (usize, usize, f64, usize) {
    let (mut covered, mut all, mut settings) = (0, 0, 0);
    let mut widths = Vec::new();
    for i in 0..calibrations {
        let share = |which: u64| 0.15 + 0.7 * ((i * 7 + which * 3) % 11) as f64 / 10.0;
        let truth = [10.0 + 90.0 * share(1), 2.0 + 62.0 * share(2), 40.0 * share(3)];
        let (answer, _) = planted(&truth, 10, 1000 + 100 * i);
        settings += answer.settings;
        for (found, truth) in answer.parameters.iter().zip(truth) {
            let [low, high] = found.ends.expect("numbers");
            covered += usize::from((low..=high).contains(&truth));
            all += 1;
            widths.push(found.width);
        }
    }
    widths.sort_by(f64::total_cmp);
    (covered, all, widths[widths.len() / 2], settings / calibrations as usize)
}

#[test]
fn intervals_cover_planted_parameters() {
    let (covered, all, width, settings) = coverage(4);
    // Of twelve intervals of 95 % fewer than nine hold the truth in 2 of 10,000 cases.
    assert!(covered >= 9 && all == 12 && width < 0.2 && settings <= 200, "{covered} of {all}, {width}, {settings}");
}

/// Copies of a target leave the interval as it is, targets with nearly the same information hardly narrow it, and independent ones do.
#[test]
fn only_new_information_narrows_an_interval() {
    let space = Space { parameters: vec![numbers("share", 0.0, 1.0)] };
    let metric = |which: u64, share: f64, seed: u64| {
        let received = 100.0 * share + 2.0 * normal(seed, 1);
        match which {
            0 => received,
            1..=7 => 1.0 - received / (320.0 * which as f64),
            8..=9 => 3.0 * received + 0.1 * normal(seed, which),
            _ => 100.0 * share + 2.0 * normal(seed, 2),
        }
    };
    let run = |metrics: &[u64]| {
        let target = |which: &u64| {
            let values: Vec<f64> = (100..110).map(|seed| metric(*which, 0.5, seed)).collect();
            TargetValue::measured(&format!("m{which}"), &PointLabels::new(), &values).expect("values")
        };
        let targets: Vec<TargetValue> = metrics.iter().map(target).collect();
        let all = |setting: &[f64], seed: u64| -> Vec<f64> {
            metrics.iter().map(|which| metric(*which, setting[0], seed)).collect()
        };
        calibrate(&space, &targets, &keys(), &mut Function(all, 50), &mut |_, _| {}).expect("an answer")
    };
    let one = run(&[0]);
    let copies = run(&[0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!((copies.parameters[0].ends, copies.freedom), (one.parameters[0].ends, 0));
    let said = "m1, m2, m3, m4, m5, m6, m7: copies of m0 in all runs; together with it one target";
    assert!(remarks(copies).iter().any(|remark| remark == said));
    let width = |metrics: &[u64]| run(metrics).parameters[0].width / one.parameters[0].width;
    let near = width(&[0, 8, 9]);
    assert!((0.95..1.05).contains(&near), "{near}");
    let independent = width(&[0, 10]);
    assert!(independent < 0.85, "{independent}");
}

/// Two targets of one line that cannot be met together: the interval reaches as far as the distance at the best says, whatever part of the
/// range was searched first.
#[test]
fn intervals_of_targets_that_contradict_each_other_reach_as_far_as_they_must() {
    let space = Space { parameters: vec![numbers("delay", 0.0, 6.0)] };
    let line =
        |setting: &[f64], seed: u64| vec![setting[0] + 1e-3 * normal(seed, 1), setting[0] + 1e-3 * normal(seed, 2)];
    let target = |metric: &str, value: f64| {
        let values: Vec<f64> = (0..10).map(|seed| value + 5e-3 * normal(seed, 3)).collect();
        TargetValue::measured(metric, &PointLabels::new(), &values).expect("values")
    };
    for apart in [0.2, 0.6, 1.2] {
        let targets = [target("first", 3.0 - apart / 2.0), target("second", 3.0 + apart / 2.0)];
        let mut twin = Function(line, 50);
        let answer = calibrate(&space, &targets, &keys(), &mut twin, &mut |_, _| {}).expect("an answer");
        let [low, high] = answer.parameters[0].ends.expect("a number");
        // With n deviations s off on either side and one degree of freedom: 2 (x/s)² within 3.84 · 2 (apart/2s)².
        let least = 1.96 * apart / 2.0;
        assert!((high - low) / 2.0 >= 0.95 * least.min(3.0), "{apart}: {low} to {high}");
        assert!(answer.inflation > 10.0, "{}", answer.inflation);
    }
}

/// The targets are met between two whole numbers, where nothing can be set: profiles are of settings that can be.
#[test]
fn profiles_have_whole_numbers_at_whole_values() {
    let slots = NumberRange { from: 2.0, to: 16.0, unit: String::new(), log: false, whole: true };
    let slots = Parameter { key: "slots".into(), variant: None, range: ParameterRange::Numbers(slots) };
    let space = Space { parameters: vec![slots, numbers("gap", 0.0, 60.0)] };
    let line = |setting: &[f64], seed: u64| {
        vec![10.0 * setting[0] + setting[1] + 0.1 * normal(seed, 1), setting[1] + 0.1 * normal(seed, 2)]
    };
    let target = |metric: &str, value: f64, by: f64| {
        let values: Vec<f64> = (0..10).map(|i| if i % 2 == 0 { value - by } else { value + by }).collect();
        TargetValue::measured(metric, &PointLabels::new(), &values).expect("values")
    };
    // With 6 slots the gap is 21.8 by the first target, and 20 by the second, whose deviation is twice as large: 21.44.
    let targets = [target("delay", 81.8, 0.9), target("gap", 20.0, 1.8)];
    let answer = calibrate(&space, &targets, &keys(), &mut Function(line, 50), &mut |_, _| {}).expect("an answer");
    let [slots, gap] = [0, 1].map(|k| &answer.parameters[k]);
    assert!(slots.profile.iter().all(|(value, _)| value.fract() == 0.0), "{:?}", slots.profile);
    let nearest = slots.profile.iter().min_by(|a, b| a.1.total_cmp(&b.1)).map(|(value, _)| *value);
    assert_eq!((nearest, slots.ends), (Some(6.0), Some([6.0; 2])));
    let least = gap.profile.iter().map(|(_, distance)| *distance).fold(f64::INFINITY, f64::min);
    assert!(least > 0.5 * answer.distance, "{least} {}", answer.distance);
    let [low, high] = gap.ends.expect("a number");
    assert!(low > 20.4 && high < 22.6, "{low} to {high}");
}

/// Two choices, each run in several waves: the progress counts the settings of both in the order in which they were run.
#[test]
fn progress_counts_settings_in_the_order_in_which_they_were_run() {
    let choices = ParameterRange::Choices(vec![Value::Integer(0), Value::Integer(1)]);
    let kind = Parameter { key: "kind".into(), variant: None, range: choices };
    let space = Space { parameters: vec![numbers("at", 0.0, 1.0), kind] };
    let ran = RefCell::new(Vec::new());
    let curve = |setting: &[f64], seed: u64| {
        // The second choice is nearer to the target everywhere.
        let value = match setting[1] as u64 {
            0 => 10.0 * (1.0 + (12.0 * setting[0]).sin()) + 4.0,
            _ => 3.0 + setting[0] + 0.2 * (9.0 * setting[0]).sin(),
        };
        let value = value + 1e-3 * normal(seed, 1);
        ran.borrow_mut().push(value);
        vec![value]
    };
    let targets = [TargetValue::measured("value", &PointLabels::new(), &[3.299, 3.3, 3.301]).expect("values")];
    let answer = calibrate(&space, &targets, &keys(), &mut Function(curve, 50), &mut |_, _| {}).expect("an answer");
    let mut nearest = f64::INFINITY;
    let mut wanted = Vec::new();
    for (i, values) in ran.borrow().chunks(SEEDS as usize).take(answer.settings).enumerate() {
        let off = (values.iter().sum::<f64>() / values.len() as f64 - targets[0].value).abs();
        if off < nearest {
            nearest = off;
            wanted.push(i + 1);
        }
    }
    let found: Vec<usize> = answer.progress.iter().map(|(settings, _)| *settings).collect();
    assert_eq!(found, wanted);
    // The first settings of the second choice come before the first wave of the first one.
    assert!(found.iter().any(|settings| (13..=24).contains(settings)), "{found:?}");
}

#[test]
fn a_search_ends_where_there_are_few_settings() {
    let target = [TargetValue::measured("m", &PointLabels::new(), &[0.99, 1.0, 1.01]).expect("a target")];
    let run = |range| {
        let space = Space { parameters: vec![Parameter { key: "a".into(), variant: None, range }] };
        let own = |setting: &[f64], _: u64| vec![setting[0]];
        calibrate(&space, &target, &keys(), &mut Function(own, 50), &mut |_, _| {})
    };
    let answer = run(ParameterRange::Choices(vec![Value::Integer(0), Value::Integer(1)])).expect("an answer");
    assert_eq!((answer.best, answer.targets[0].says_nothing), (vec![1.0], false));
    let two = NumberRange { from: 1.0, to: 2.0, unit: String::new(), log: false, whole: true };
    let few = run(ParameterRange::Numbers(two)).expect_err("two settings do not show a slope");
    assert!(few.to_string().contains("too few settings"), "{few}");
}

/// The best whole number is an end of the range, which is the truth or nearest to it: a bound.
#[test]
fn a_whole_number_at_an_end_of_its_range_is_found() {
    let target = [TargetValue::measured("m", &PointLabels::new(), &[10.9, 11.0, 11.1]).expect("a target")];
    for (from, to, best, state) in [
        (11.0, 40.0, 11.0, Some(ParameterState::AtMost)),
        (2.0, 11.0, 11.0, Some(ParameterState::AtLeast)),
        // The target cannot be met, which widens the interval.
        (20.0, 40.0, 20.0, None),
    ] {
        let range = NumberRange { from, to, unit: String::new(), log: false, whole: true };
        let parameter = Parameter { key: "a".into(), variant: None, range: ParameterRange::Numbers(range) };
        let space = Space { parameters: vec![parameter] };
        let own = |setting: &[f64], seed: u64| vec![setting[0] + 0.05 * normal(seed, 1)];
        let answer = calibrate(&space, &target, &keys(), &mut Function(own, 50), &mut |_, _| {}).expect("an answer");
        assert_eq!(answer.best, [best], "{from} to {to}");
        if let Some(state) = state {
            let found = &answer.parameters[0];
            assert_eq!((found.state, found.ends), (state, Some([best, best])), "{from} to {to}");
        }
    }
}

/// A target far above all values of the twin: its discrepancy, a share of the target, is more than all of the range moves the metric.
#[test]
fn a_target_out_of_reach_hides_no_effect() {
    let space = Space { parameters: vec![numbers("delay", 0.0, 20.0), numbers("idle", 0.0, 1.0)] };
    let line = |setting: &[f64], seed: u64| vec![40.0 + setting[0] + 0.05 * normal(seed, 1), 7.0];
    let keys = CalibrateKeys { settings: 40, ..keys() };
    let run = |latency: f64| {
        let target = |metric: &str, values: [f64; 3]| {
            TargetValue::measured(metric, &PointLabels::new(), &values).expect("values")
        };
        // The second metric is equal at all settings, and without noise.
        let targets = [target("latency", [latency - 0.05, latency, latency + 0.05]), target("size", [7.0; 3])];
        calibrate(&space, &targets, &keys, &mut Function(line, 50), &mut |_, _| {}).expect("an answer")
    };
    for latency in [50.0, 4e5] {
        let answer = run(latency);
        assert_eq!(answer.together, latency < 60.0, "{latency}");
        assert_eq!([0, 1].map(|i| answer.targets[i].says_nothing), [false, true], "{latency}");
        assert_eq!([0, 1].map(|k| answer.parameters[k].without_effect), [false, true], "{latency}");
        let nearest = [0, 1].map(|i| answer.targets[i].nearest.map(f64::round));
        assert_eq!(nearest, [(!answer.together).then_some(60.0), None], "{latency}");
        let out = remarks(answer).iter().any(|remark| remark.starts_with("latency: out of reach; "));
        assert_eq!(out, latency > 60.0, "{latency}");
    }
}

/// A step without a value between 0.29875 and 0.30125: settings on both sides of the target were run.
#[test]
fn a_target_between_the_values_of_settings_is_not_out_of_reach() {
    let space = Space { parameters: vec![numbers("rate", 0.0, 1.0)] };
    let step = |setting: &[f64], _: u64| vec![if setting[0] < 0.4 { 0.29875 } else { 0.30125 }];
    let keys = CalibrateKeys { settings: 40, evenly: true, ..keys() };
    for (value, nearest) in [(0.3, None), (0.29, Some(0.29875)), (0.31, Some(0.30125))] {
        let targets = [TargetValue::measured("loss", &PointLabels::new(), &[value; 3]).expect("values")];
        let answer = calibrate(&space, &targets, &keys, &mut Function(step, 50), &mut |_, _| {}).expect("an answer");
        assert!(!answer.together, "{value}");
        let found = answer.targets[0].nearest.map(|mean| (mean * 1e5).round() / 1e5);
        assert_eq!(found, nearest, "{value}");
    }
}

/// Values of two choices enclose the target: there is no choice between them.
#[test]
fn a_target_between_the_values_of_two_choices_is_out_of_reach() {
    let choices = ParameterRange::Choices(vec![Value::Integer(0), Value::Integer(1)]);
    let kind = Parameter { key: "kind".into(), variant: None, range: choices };
    let space = Space { parameters: vec![numbers("at", 0.0, 1.0), kind] };
    let loss = |setting: &[f64], _: u64| {
        vec![match (setting[1] as u64, setting[0] < 0.4) {
            (0, _) => 0.529,
            (_, true) => 0.072,
            (_, false) => 0.1,
        }]
    };
    let keys = CalibrateKeys { settings: 40, evenly: true, ..keys() };
    // The values of the second choice enclose 0.09.
    for (value, nearest) in [(0.25, Some(0.1)), (0.6, Some(0.529)), (0.05, Some(0.072)), (0.09, None)] {
        let targets = [TargetValue::measured("loss", &PointLabels::new(), &[value; 3]).expect("values")];
        let answer = calibrate(&space, &targets, &keys, &mut Function(loss, 50), &mut |_, _| {}).expect("an answer");
        assert!(!answer.together, "{value}");
        let found = answer.targets[0].nearest.map(|mean| (mean * 1e5).round() / 1e5);
        assert_eq!(found, nearest, "{value}");
        let is_out = remarks(answer).iter().any(|remark| remark.starts_with("loss: out of reach; "));
        assert_eq!(is_out, nearest.is_some(), "{value}");
    }
}

/// The number is idle: the choice alone moves the target, or nothing does.
#[test]
fn a_choice_moves_a_target() {
    let choices = ParameterRange::Choices(vec![Value::Integer(0), Value::Integer(1)]);
    let kind = Parameter { key: "kind".into(), variant: None, range: choices };
    let space = Space { parameters: vec![numbers("idle", 0.0, 1.0), kind] };
    let targets = [TargetValue::measured("size", &PointLabels::new(), &[7.0; 3]).expect("values")];
    let keys = CalibrateKeys { settings: 40, ..keys() };
    for apart in [0.0, 3.0] {
        let size = |setting: &[f64], _: u64| vec![7.0 + apart * setting[1]];
        let answer = calibrate(&space, &targets, &keys, &mut Function(size, 50), &mut |_, _| {}).expect("an answer");
        assert_eq!(answer.targets[0].says_nothing, apart == 0.0, "{apart}");
        assert!(answer.parameters[0].without_effect, "{apart}");
        let is_said = remarks(answer).contains(
            &"size: no parameter moves it by more than its noise or a tenth of its interquartile range".to_owned(),
        );
        assert_eq!(is_said, apart == 0.0, "{apart}");
    }
}

/// Two runs of these functions differ by nothing, or by little: emulators are off by more where a function is no plane. An idle parameter
/// is without effect, small ones have one, also of a value that is large.
#[test]
fn the_error_of_an_emulator_is_no_effect() {
    let space = Space { parameters: ["rate", "small", "idle"].map(|key| numbers(key, 0.0, 1.0)).into() };
    let loss = |setting: &[f64], _: u64| vec![(1.0 - (1.0 + 7.0 * setting[0]) / 6.0).max(0.0) + 0.03 * setting[1]];
    let large = |setting: &[f64], seed: u64| vec![1e9 + 500.0 * setting[0] + 50.0 * setting[1] + normal(seed, 1)];
    let without_effect = |twin: &mut dyn Twin, value: f64, evenly: bool| {
        let targets = [TargetValue::measured("m", &PointLabels::new(), &[value; 3]).expect("values")];
        let keys = CalibrateKeys { settings: 50, evenly, ..keys() };
        let answer = calibrate(&space, &targets, &keys, twin, &mut |_, _| {}).expect("an answer");
        assert!(!answer.targets[0].says_nothing, "{value}, {evenly}");
        [0, 1, 2].map(|k| answer.parameters[k].without_effect)
    };
    for evenly in [false, true] {
        assert_eq!(without_effect(&mut Function(loss, 50), 0.3, evenly), [false, false, true], "{evenly}");
        assert_eq!(without_effect(&mut Function(large, 50), 1e9 + 250.0, evenly), [false, false, true], "{evenly}");
    }
}

/// Some of the first settings are overloaded, or a number has a steep part: an effect of the other number that is below the error of the
/// emulator is not excluded.
#[test]
fn an_effect_below_the_error_of_an_emulator_is_not_excluded() {
    let space = Space { parameters: ["delay", "rate"].map(|key| numbers(key, 0.0, 1.0)).into() };
    let overloaded = |setting: &[f64], seed: u64| {
        let rate = 2.0 + 598.0 * setting[1];
        vec![7.0 + 400.0 * setting[0] + 4e4 * (40.0 / rate - 1.0).max(0.0) + 0.1 * normal(seed, 1)]
    };
    let steep = |setting: &[f64], _: u64| vec![0.3 / (setting[0] + 0.03) + setting[1]];
    let run = |twin: &mut dyn Twin, value: f64| {
        let targets = [TargetValue::measured("m", &PointLabels::new(), &[value; 3]).expect("values")];
        let keys = CalibrateKeys { settings: 40, ..keys() };
        let answer = calibrate(&space, &targets, &keys, twin, &mut |_, _| {}).expect("an answer");
        assert!(!answer.targets[0].says_nothing, "{value}");
        assert_eq!([0, 1].map(|k| answer.parameters[k].without_effect), [false; 2], "{value}");
        assert!(!remarks(answer).iter().any(|remark| remark.contains("no target changes with it")), "{value}");
    };
    run(&mut Function(overloaded, 50), 405.0);
    run(&mut Function(steep, 50), 1.5);
}

/// A twin whose metric has values with the second choice only, and the number of settings that it ran with it.
struct Half(usize);

impl Twin for Half {
    fn evaluate(&mut self, settings: &[Setting]) -> Result<Vec<Evaluated>> {
        self.0 += settings.iter().filter(|setting| setting[1] == 1.0).count();
        let one = |setting: &Setting| {
            let value = |seed: u64| (setting[1] == 1.0).then(|| setting[0] + 1e-3 * normal(seed, 1));
            let values = vec![(0..SEEDS).map(value).collect()];
            Evaluated { setting: setting.clone(), values, invalid: 0, why: None }
        };
        Ok(settings.iter().map(one).collect())
    }
}

#[test]
fn a_choice_without_values_leaves_the_settings_to_the_others() {
    let choices = ParameterRange::Choices(vec![Value::Integer(0), Value::Integer(1)]);
    let kind = Parameter { key: "kind".into(), variant: None, range: choices };
    let space = Space { parameters: vec![numbers("at", 0.0, 1.0), kind] };
    let targets = [TargetValue::measured("value", &PointLabels::new(), &[0.499, 0.5, 0.501]).expect("values")];
    let mut twin = Half(0);
    let keys = CalibrateKeys { settings: 60, ..keys() };
    let answer = calibrate(&space, &targets, &keys, &mut twin, &mut |_, _| {}).expect("an answer");
    assert_eq!(answer.best[1], 1.0);
    // The first twelve, and the best one once more, are run in any case.
    assert!(twin.0 > 13, "{}", twin.0);
}

/// Returns what a page with this answer remarks.
fn remarks(answer: CalibrationAnswer) -> Vec<String> {
    let calibration = Calibration {
        experiment: String::new(),
        tool: String::new(),
        to: Vec::new(),
        seeds: SEEDS as u32,
        runs_each: SEEDS as usize,
        units: Default::default(),
        notes: Vec::new(),
        answer,
        predictions: Vec::new(),
    };
    calibration.remarks()
}

/// Two branches do not divide the maximum: the search ends one setting before it. More settings would not help it.
#[test]
fn an_even_search_never_settles() {
    let choices = ParameterRange::Choices(vec![Value::Integer(0), Value::Integer(1)]);
    let kind = Parameter { key: "kind".into(), variant: None, range: choices };
    let space = Space { parameters: vec![numbers("at", 0.0, 1.0), kind] };
    let targets = [TargetValue::measured("value", &PointLabels::new(), &[0.499, 0.5, 0.501]).expect("values")];
    let line = |setting: &[f64], seed: u64| vec![setting[0] + 5.0 * setting[1] + 1e-3 * normal(seed, 1)];
    let search = |settings, evenly| {
        let keys = CalibrateKeys { settings, evenly, ..keys() };
        calibrate(&space, &targets, &keys, &mut Function(line, 50), &mut |_, _| {}).expect("an answer")
    };
    let even = search(25, true);
    assert_eq!((even.settings, even.settled), (24, false));
    assert!(!remarks(even).iter().any(|remark| remark.contains("settings")));
    // The first settings of both branches are all that is allowed.
    let guided = search(24, false);
    assert_eq!((guided.settings, guided.settled), (24, false));
    let wanted = "the search did not settle within 24 settings; raise calibrate.settings";
    assert!(remarks(guided).iter().any(|remark| remark == wanted));
}
