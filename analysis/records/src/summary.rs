//! The most important numbers in display units, with which the output of `pktgen analyze` begins.
//!
//! Nothing is computed here: a row lists metrics and shows those that the lines contain.

use crate::human::{DECIMALS_MAX, Scale, scale_for};
use crate::line::Line;

/// A part of a row: the key of a metric, the text for its value, and whether 0 is omitted.
struct Told {
    key: &'static str,
    /// The key whose value is used if there is none.
    instead: Option<&'static str>,
    words: &'static str,
    unless_zero: bool,
}

const fn told(key: &'static str, words: &'static str) -> Told {
    Told { key, instead: None, words, unless_zero: false }
}

/// Uses the value from lanes if the device provides none.
const fn or_lanes(key: &'static str, instead: &'static str, words: &'static str) -> Told {
    Told { key, instead: Some(instead), words, unless_zero: false }
}

const fn if_any(key: &'static str, words: &'static str) -> Told {
    Told { key, instead: None, words, unless_zero: true }
}

/// All rows.
const ROWS: [(&str, &[Told]); 9] = [
    (
        "sent",
        &[
            told("sent", "{} updates"),
            if_any("retransmissions", "{} of them again"),
            if_any("withheld_share", "{} of what was due was withheld"),
        ],
    ),
    (
        "received",
        &[
            told("received", "{} packets"),
            or_lanes("aggregation_mean", "lanes_aggregation_mean", "{} updates each"),
            told("throughput_bps", "{}"),
            told("elements_per_s", "elements at {}"),
            if_any("duplicates", "{} that had come before"),
        ],
    ),
    (
        "updates",
        &[
            told("loss", "{} lost"),
            told("unrepresented", "{} dropped or replaced"),
            if_any("in_flight", "{} under way at the end"),
        ],
    ),
    ("sums", &[told("sums_ok", "{} right"), told("sums_wrong", "{} wrong")]),
    (
        "Age-of-Model",
        &[
            or_lanes("aom_mean/cluster", "lanes_aom_mean/cluster", "mean {} by cluster"),
            told("aom_p99/cluster", "p99 {}"),
            or_lanes("aom_mean/worker", "lanes_aom_mean/worker", "mean {} by worker"),
        ],
    ),
    (
        "iterations",
        &[
            told("iterations", "{}"),
            told("iteration_time_mean", "mean {}"),
            told("iteration_time_p99", "p99 {}"),
            if_any("results_degraded", "{} results without all sources"),
        ],
    ),
    ("in the device", &[told("device_latency_p50", "median {}"), told("device_latency_p99", "p99 {}")]),
    ("worker to server", &[told("host_latency_p50", "median {}"), told("host_latency_p99", "p99 {}")]),
    ("results", &[told("result_latency_p50", "median {} after sending"), told("result_latency_p99", "p99 {}")]),
];

/// A row of the summary: its topic, and its values in words.
pub type SummaryRow = (&'static str, String);

/// Returns the rows for which these lines, of one run or capture, have a value.
pub fn summary(lines: &[Line]) -> Vec<SummaryRow> {
    let value = |told: &Told| {
        let of = |key: &str| {
            let line = lines.iter().find(|line| line.key().as_deref() == Some(key))?;
            line.value.map(|value| (line, value))
        };
        let (line, value) = of(told.key).or_else(|| of(told.instead?))?;
        let said = told.words.replace("{}", &telling(scale_for(&line.unit, value), value).show(value));
        (value != 0.0 || !told.unless_zero).then_some(said)
    };
    let row = |(about, parts): &(&'static str, &[Told])| {
        let values: Vec<String> = parts.iter().filter_map(value).collect();
        (!values.is_empty()).then(|| (*about, values.join(", ")))
    };
    ROWS.iter().filter_map(row).collect()
}

/// Returns the scale with enough digits that a share is shown as 0 % or 100 % only if it is.
fn telling(scale: Scale, value: f64) -> Scale {
    let Some(first) = scale.decimals else { return scale };
    scale.finer(first..=DECIMALS_MAX, |scale| {
        let shown = scale.shown(value);
        [0.0, 1.0].iter().all(|end| (shown == *end * scale.factor) == (value == *end))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::METRICS;

    #[test]
    fn every_row_is_of_metrics_that_there_are() {
        let known: Vec<&str> =
            METRICS.iter().flat_map(|metric| metric.definitions()).map(|known| known.metric).collect();
        for told in ROWS.iter().flat_map(|(_, parts)| *parts) {
            for key in told.instead.iter().chain([&told.key]) {
                let metric = key.split('/').next().unwrap();
                assert!(known.contains(&metric), "{metric}");
            }
            assert!(told.words.contains("{}"), "{}", told.words);
        }
    }

    #[test]
    fn what_a_device_does_not_say_is_what_lanes_say() {
        let age = |metric: &'static str, value: Option<f64>| Line::new(metric, "ns", value).with("flow", "cluster");
        let lanes = age("lanes_aom_mean", Some(5e6));
        let shown = |own: Option<f64>| summary(&[age("aom_mean", own), lanes.clone()])[0].1.clone();
        assert_eq!(shown(None), "mean 5 ms by cluster");
        assert_eq!(shown(Some(7e6)), "mean 7 ms by cluster");
    }

    #[test]
    fn a_share_is_0_or_all_only_if_it_is() {
        for (share, said) in [
            (0.0, "0.0 % lost"),
            (0.0004, "0.04 % lost"),
            (0.09, "9.0 % lost"),
            (0.9997, "99.97 % lost"),
            (1.0, "100.0 % lost"),
        ] {
            assert_eq!(summary(&[Line::new("loss", "share", share)]), [("updates", said.to_owned())]);
        }
    }

    #[test]
    fn updates_under_way_at_the_end_are_shown_if_there_are_any() {
        let row = |in_flight: f64| {
            let shares = ["loss", "unrepresented"].map(|metric| Line::new(metric, "share", 0.0));
            summary(&[&shares[..], &[Line::new("in_flight", "updates", in_flight)]].concat())[0].1.clone()
        };
        assert_eq!(row(0.0), "0.0 % lost, 0.0 % dropped or replaced");
        assert_eq!(row(18_000.0), "0.0 % lost, 0.0 % dropped or replaced, 18000 under way at the end");
    }

    #[test]
    fn what_has_no_value_is_left_out() {
        let lines = [
            Line::new("sent", "updates", 90_000.0),
            Line::new("retransmissions", "updates", 0.0),
            Line::new("loss", "share", 0.09),
            Line::new("unrepresented", "share", None),
            Line::new("sums_ok", "packets", 12.0),
            Line::new("sums_wrong", "packets", 0.0),
            Line::new("aom_mean", "ns", 399_500.0).with("flow", "cluster"),
            Line::new("aom_mean", "ns", 1.0).with("flow", "cluster").with("id", 3),
            Line::new("host_latency_p50", "ns", 51_200.0),
            Line::new("host_latency_p99", "ns", 1_250_000.0),
        ];
        let expected = [
            ("sent", "90000 updates"),
            ("updates", "9.0 % lost"),
            ("sums", "12 right, 0 wrong"),
            ("Age-of-Model", "mean 399.5 µs by cluster"),
            ("worker to server", "median 51.20 µs, p99 1.250 ms"),
        ];
        assert_eq!(summary(&lines), expected.map(|(about, text)| (about, text.to_owned())));
    }
}
