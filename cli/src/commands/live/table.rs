//! Formats the statistics of a run for the screen.

use pktgen_core::time::SECOND;
use pktgen_engine::target::program::Expected;
use pktgen_realtime::live::{ClusterStats, Glance};
use pktgen_records::human;

/// Column headings of [`row`].
pub(super) const COLUMNS: [&str; 8] =
    ["cluster", "sent/s", "packets/s", "updates/s", "per packet", "expected", "age", "mean age"];

/// Formats statistics of a cluster: per second, in the last window of a second or more.
pub(super) fn row(seen: &ClusterStats, expected: Expected) -> [String; COLUMNS.len()] {
    let counted = expected != Expected::SumsByKey;
    let per_packet = |n: f64| if counted && seen.totals.packets > 0 { format!("{n:.2}") } else { "-".to_owned() };
    let span = |ps: Option<f64>| ps.map_or("-".to_owned(), |ps| human::show("ns", ps / 1e3));
    [
        seen.id.to_string(),
        count(seen.last.sent),
        count(seen.last.packets),
        if counted { count(seen.last.updates) } else { "-".to_owned() },
        per_packet(seen.totals.updates as f64 / seen.totals.packets.max(1) as f64),
        expectation(expected, seen),
        span(seen.age.map(|age| age as f64)),
        span(seen.age_mean_ps),
    ]
}

/// Formats the number of updates that a packet should represent.
fn expectation(expected: Expected, seen: &ClusterStats) -> String {
    match expected {
        Expected::Single => "1".to_owned(),
        Expected::Sums(n) => n.to_string(),
        Expected::Elsewhere => "elsewhere".to_owned(),
        // Sent updates divided by arrived packets: if nothing is lost, the device merged this many into one.
        Expected::MergesUnderLoad if seen.last.packets > 0 => {
            format!("up to {:.1}", seen.last.sent.max(seen.last.updates) as f64 / seen.last.packets as f64)
        }
        Expected::MergesUnderLoad | Expected::Unknown | Expected::SumsByKey => "-".to_owned(),
    }
}

/// Formats the first lines with totals.
pub(super) fn totals(glance: &Glance) -> [String; 2] {
    let progress = &glance.progress;
    let seconds = progress.t as f64 / SECOND as f64;
    let rate = if seconds > 0.0 { (progress.sent - progress.sent_before) as f64 / seconds } else { 0.0 };
    let last = glance.clusters.iter().map(|seen| seen.last);
    let (sent, packets, bytes) =
        last.fold((0, 0, 0), |(a, b, c), last| (a + last.sent, b + last.packets, c + last.bytes));
    [
        format!(
            "{seconds:.1} s   sent {} ({}/s)   received {}   lost {}   late <= {}",
            count(glance.totals.sent.unwrap_or(progress.sent)),
            count(rate as u64),
            count(glance.totals.received.unwrap_or(progress.received)),
            glance.totals.lost.unwrap_or(progress.lost),
            human::show("ns", progress.late_ns as f64),
        ),
        format!(
            "last second: sent {}   received {} packets, {}   not looked at in time {}",
            count(sent),
            count(packets),
            human::show("bps", bytes as f64 * 8.0),
            glance.skipped
        ),
    ]
}

/// Formats a count with at most four digits.
fn count(n: u64) -> String {
    match n {
        0..10_000 => n.to_string(),
        10_000..10_000_000 => format!("{:.1}k", n as f64 / 1e3),
        _ => format!("{:.1}M", n as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pktgen_realtime::live::ClusterTotals;

    #[test]
    fn rows_say_what_is_expected_and_what_came() {
        let totals = ClusterTotals { sent: 40_000, packets: 10_000, updates: 30_000, bytes: 1 };
        let last = ClusterTotals { sent: 400, packets: 100, updates: 300, bytes: 1 };
        let seen = ClusterStats { id: 3, totals, last, age: Some(1_500_000), age_mean_ps: Some(2.5e9) };
        let cells = row(&seen, Expected::MergesUnderLoad);
        assert_eq!(cells, ["3", "400", "100", "300", "3.00", "up to 4.0", "1.50 µs", "2.50 ms"]);
        assert_eq!((row(&seen, Expected::Sums(6))[5].as_str(), row(&seen, Expected::Single)[5].as_str()), ("6", "1"));
        assert_eq!(row(&seen, Expected::SumsByKey)[1..6], ["400", "100", "-", "-", "-"]);
        let nothing = ClusterStats {
            id: 0,
            totals: ClusterTotals::default(),
            last: ClusterTotals::default(),
            age: None,
            age_mean_ps: None,
        };
        assert_eq!(row(&nothing, Expected::Unknown), ["0", "0", "0", "0", "-", "-", "-", "-"]);
        assert_eq!([count(9_999), count(12_345), count(12_345_678)], ["9999", "12.3k", "12.3M"]);
    }
}
