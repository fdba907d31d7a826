//! Whose limit a trial shows, and bounds that other trials contradict.

use super::*;

/// A trial of a second.
fn trial(offered: u64, forwarded: u64, unsent: u64, bench_limit: Option<&str>) -> MadeTrial {
    let account = LoadAccount { offered, forwarded, unsent, last_back: Some(SECOND), ..LoadAccount::default() };
    MadeTrial { account, bench_limit: bench_limit.map(str::to_owned), is_offered: true }
}

fn limiter(trial: &MadeTrial, on_wires: bool) -> Option<Limiter> {
    match judge(trial, 0.0, on_wires).attempt {
        Attempt::Failed(_, limiter) => Some(limiter),
        _ => None,
    }
}

#[test]
fn a_loop_that_only_stalled_at_its_end_is_no_limit_of_the_device() {
    // Of a device on a shared host.
    assert_eq!(limiter(&trial(32_000, 31_900, 100, None), true), Some(Limiter::Host));
    // The same in virtual time, where nothing stalls; one that lost; one that is behind by more than a bench may be.
    assert_eq!(limiter(&trial(32_000, 31_900, 100, None), false), Some(Limiter::Device));
    assert_eq!(limiter(&trial(32_000, 31_899, 100, None), true), Some(Limiter::Device));
    assert_eq!(limiter(&trial(69_792, 63_348, 6_444, None), true), Some(Limiter::Device));
    assert_eq!(limiter(&trial(69_792, 63_348, 6_444, Some("the bench was late")), true), Some(Limiter::Host));
    assert_eq!(limiter(&trial(32_000, 32_000, 0, None), true), None);
}

#[test]
fn a_trial_within_the_goal_of_a_late_bench_has_passed() {
    let judged = |forwarded, is_offered| {
        let late = trial(100_000, forwarded, 0, Some("the bench was late"));
        judge(&MadeTrial { is_offered, ..late }, 0.001, true)
    };
    let passed = judged(99_980, true);
    assert!(matches!(passed.attempt, Attempt::Passed(_)) && passed.loss.is_some_and(|loss| loss < 0.001));
    // Above the goal; and a rate that was not offered.
    for (forwarded, is_offered) in [(99_000, true), (99_980, false)] {
        let failed = judged(forwarded, is_offered);
        assert!(matches!(failed.attempt, Attempt::Failed(_, Limiter::Host)) && failed.loss.is_none(), "{forwarded}");
    }
}

#[test]
fn a_bound_that_another_trial_contradicts_is_none() {
    let made = |pps: f64, offered, forwarded| {
        Forwarded::of(pps, &trial(offered, forwarded, offered - forwarded, None).account, SECOND)
    };
    let all = [made(128_000.0, 128_000, 115_344), made(90_509.7, 90_508, 87_844), made(69_792.5, 69_792, 63_348)];
    let why = contradicted(69_792.5, 0.05, &all, "contributions/s").expect("a reason");
    assert!(why.starts_with("not monotonic") && why.contains("115344") && why.contains("128000"), "{why}");
    // A device that is as fast at all rates above its limit.
    let steady = [made(128_000.0, 128_000, 66_900), made(69_792.5, 69_792, 66_850)];
    assert_eq!(contradicted(69_792.5, 0.05, &steady, "contributions/s"), None);
}

/// A certificate that goes on reads bounds of its clauses, which are roots, and offers shares of them.
#[test]
fn a_number_that_is_read_again_is_the_same_to_the_last_bit() {
    for n in 1..1000 {
        let value = (1000.0 * f64::from(n) * f64::from(n + 1)).sqrt();
        let own = MeasuredNumber::of("lower_bound", value, "contributions/s");
        let text = serde_json::to_string(&own).expect("JSON");
        assert_eq!(serde_json::from_str::<MeasuredNumber>(&text).expect("the same"), own);
        let read: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(read["value"].as_f64(), Some(value));
    }
}
