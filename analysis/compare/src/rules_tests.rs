//! Tests of [`super`]: valid rules, and errors with their positions.

use pktgen_report::check::known_keys;

use super::*;

const GOOD: &str = r#"
alpha = 0.1
[[rule]]
metric = "aom_mean/cluster"
direction = "lower"
tolerance = "2%"
[[rule]]
metric = "loss"
direction = "higher"
tolerance = "0.5pp"
required = false
[[rule]]
metric = "host_latency_mean"
direction = "equal"
tolerance = "1us"
[[rule]]
metric = "received"
direction = "higher"
tolerance = 3
"#;

#[test]
fn rules_are_read_and_written_again() {
    let rules = Rules::parse(GOOD, "r.toml").unwrap();
    assert_eq!((rules.alpha, rules.rules.len()), (0.1, 4));
    let bands: Vec<Band> =
        rules.rules.iter().zip(["ns", "share", "ns", "packets"]).map(|(rule, unit)| rule.band(unit).unwrap()).collect();
    let wanted = [Band::Relative(0.02), Band::Absolute(0.005), Band::Absolute(1000.0), Band::Absolute(3.0)];
    assert_eq!(bands, wanted);
    assert_eq!(rules.rules.iter().map(|rule| rule.required).collect::<Vec<_>>(), [true, false, true, true]);
    for rules in [rules, Rules::built_in()] {
        let again = Rules::parse(&rules.to_toml(), "again").unwrap();
        let same = |a: &Rule, b: &Rule| {
            (&a.metric, a.direction, a.tolerance(), a.required) == (&b.metric, b.direction, b.tolerance(), b.required)
        };
        assert!(again.alpha == rules.alpha && again.rules.len() == rules.rules.len());
        assert!(again.rules.iter().zip(&rules.rules).all(|(a, b)| same(a, b)));
    }
}

#[test]
fn built_in_rules_are_about_metrics_that_exist() {
    let rules = Rules::built_in();
    assert_eq!(rules.rules.len(), BUILT_IN.len());
    let known = known_keys(&[]);
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    for rule in &rules.rules {
        rule.check(&known).unwrap();
        assert_ne!(rule.tolerance(), "0");
    }
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    for (from, to, words) in [
        (
            "tolerance = \"2%\"",
            "tolerence = \"2%\"",
            &["r.toml:6:", "\"rule.tolerence\"", "did you mean \"tolerance\"?"][..],
        ),
        ("\"lower\"", "\"lowre\"", &["r.toml:5:", "did you mean \"lower\"?", "there are: lower, higher, equal"]),
        ("tolerance = \"2%\"", "tolerance = \"-2%\"", &["r.toml:6:", "zero or more"]),
        ("tolerance = \"2%\"", "tolerance = \"2 apples\"", &["r.toml:6:", "2 apples"]),
        ("tolerance = \"2%\"", "tolerance = true", &["r.toml:6:", "must be a text"]),
        ("tolerance = \"2%\"", "", &["r.toml:3:", "no \"tolerance\""]),
        ("metric = \"loss\"", "metric = \"aom_mean/cluster\"", &["has a rule already"]),
        ("alpha = 0.1", "alpha = 0", &["alpha = 0 ", "0.05"]),
        ("alpha = 0.1", "alhpa = 0.1", &["r.toml:2:", "did you mean \"alpha\"?"]),
        ("required = false", "required = \"no\"", &["r.toml:11:", "true or false"]),
        (GOOD, "", &["there is no rule"]),
        (GOOD, "rule = 3", &["[[rule]]"]),
        (
            GOOD,
            "[[rule]]\nmetric = \"loss\"\ndirection = \"lower\"\ntolerance = \"1%\"\nrequired = false",
            &["none decides"],
        ),
        (GOOD, "rule = [3]", &["r.toml:1:", "a table"]),
        (GOOD, "alpha = ", &["r.toml:1:", "TOML"]),
    ] {
        let message = Rules::parse(&GOOD.replacen(from, to, 1), "r.toml").unwrap_err().to_string();
        for word in words {
            assert!(message.contains(word), "{to:?} should say {word:?}: {message}");
        }
    }
}

/// Rates are in bps or bit/s, and times in ns or s.
#[test]
fn tolerances_fit_both_units_of_rates_and_times() {
    for (tolerance, unit, amount) in
        [("10Mbps", "bps", 1e7), ("10Mbps", "bit/s", 1e7), ("1us", "ns", 1e3), ("1us", "s", 1e-6), ("2s", "s", 2.0)]
    {
        let text = GOOD.replacen("\"2%\"", &format!("\"{tolerance}\""), 1);
        let rules = Rules::parse(&text, "r.toml").unwrap();
        assert_eq!(rules.rules[0].band(unit).unwrap(), Band::Absolute(amount), "{tolerance} of {unit}");
        assert!(rules.rules[0].band("share").is_err(), "{tolerance}");
    }
}

#[test]
fn tolerances_must_fit_the_unit_and_metrics_must_exist() {
    let rules = Rules::parse(GOOD, "r.toml").unwrap();
    let message = rules.rules[2].band("share").unwrap_err().to_string();
    assert!(
        message.contains("r.toml:12:") && message.contains("does not fit host_latency_mean, which is in share"),
        "{message}"
    );
    let message = rules.rules[2].band("").unwrap_err().to_string();
    assert!(message.ends_with("which has no unit; write a share such as 2%, or a number such as 3"), "{message}");
    let wrong = Rules::parse(&GOOD.replace("aom_mean/cluster", "aom_mean/clutser"), "r.toml").unwrap();
    let message = wrong.rules[0].check(&["aom_mean/cluster", "received"]).unwrap_err().to_string();
    assert!(message.contains("did you mean \"aom_mean/cluster\"?"), "{message}");
    wrong.rules[0].check(&["aom_mean/clutser"]).unwrap();
}
