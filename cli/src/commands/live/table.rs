//! Formats the statistics of a run for the screen.

use pktgen_core::time::SECOND;
use pktgen_engine::target::program::Expected;
use pktgen_realtime::live::{ClusterStats, Glance};
use pktgen_records::human;

/// Column headings of [`row`].
pub(super) const COLUMNS: [&str; 8] =
    ["cluster", "sent/s", "packets/s", "updates/s", "per packet", "expected", "age", "mean age"];

/// Minimum widths of the columns, so that they remain at their places while numbers change.
const WIDTHS: [usize; COLUMNS.len()] = [7, 8, 9, 9, 10, 11, 8, 8];
/// The columns by importance: the last ones are left out on narrow screens.
const IMPORTANCE: [usize; COLUMNS.len()] = [0, 1, 6, 2, 3, 7, 4, 5];

/// Returns the columns of these rows that fit into `wide` characters as a whole, with their widths.
pub(super) fn fitting(rows: &[[String; COLUMNS.len()]], wide: u16) -> Vec<(usize, u16)> {
    let width = |column: usize| {
        rows.iter().map(|cells| cells[column].chars().count()).fold(WIDTHS[column], |most, count| most.max(count))
    };
    // With a space between two columns.
    let mut used = 0;
    let fits = |(_, width): &(usize, usize)| {
        used += width + 1;
        used <= usize::from(wide) + 1
    };
    let columns = IMPORTANCE.into_iter().map(|column| (column, width(column))).take_while(fits);
    let mut columns: Vec<(usize, u16)> = columns.map(|(column, width)| (column, width as u16)).collect();
    columns.sort_unstable();
    columns
}

/// Breaks a text into lines of at most `wide` characters: between its parts, which three spaces separate, and longer parts
/// between words.
pub(super) fn folded(text: &str, wide: u16) -> Vec<String> {
    let most = usize::from(wide).max(1);
    let mut lines: Vec<String> = Vec::new();
    let mut add = |gap: &str, piece: &str| match lines.last_mut() {
        Some(line) if line.chars().count() + gap.len() + piece.chars().count() <= most => {
            line.push_str(gap);
            line.push_str(piece);
        }
        _ => {
            let letters: Vec<char> = piece.chars().collect();
            lines.extend(letters.chunks(most).map(|letters| letters.iter().collect::<String>()));
        }
    };
    for part in text.split("   ") {
        if part.chars().count() <= most {
            add("   ", part);
            continue;
        }
        for (i, word) in part.split(' ').enumerate() {
            add(if i == 0 { "   " } else { " " }, word);
        }
    }
    lines
}

/// Returns whether this process knows what is sent, and what arrives, perhaps not all of it.
pub(super) fn known(glance: &Glance) -> [bool; 2] {
    [glance.totals.sent.is_some(), glance.totals.received_bytes.is_some() || glance.skipped > 0]
}

/// Formats statistics of a cluster: per second, in the last window of a second or more; [`known`] are those of this process.
pub(super) fn row(seen: &ClusterStats, expected: Expected, [sends, receives]: [bool; 2]) -> [String; COLUMNS.len()] {
    let counted = expected != Expected::SumsByKey;
    let per_packet = |n: f64| if counted && seen.totals.packets > 0 { format!("{n:.2}") } else { "-".to_owned() };
    let span = |ps: Option<f64>| ps.map_or("-".to_owned(), |ps| human::show("ns", ps / 1e3));
    [
        seen.id.to_string(),
        or_dash(sends.then_some(seen.last.sent)),
        or_dash(receives.then_some(seen.last.packets)),
        or_dash((receives && counted).then_some(seen.last.updates)),
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

/// Formats the first lines with totals; those that this process does not know are dashes.
pub(super) fn totals(glance: &Glance) -> [String; 2] {
    let Glance { progress, totals, skipped, .. } = glance;
    let [sends, receives] = known(glance);
    let seconds = progress.t as f64 / SECOND as f64;
    let rate = if seconds > 0.0 { (progress.sent - progress.sent_before) as f64 / seconds } else { 0.0 };
    let last = glance.clusters.iter().map(|seen| seen.last);
    let (sent, packets, bytes) =
        last.fold((0, 0, 0), |(a, b, c), last| (a + last.sent, b + last.packets, c + last.bytes));
    let window = format!(
        "last second: sent {}   received {} packets, {}",
        or_dash(sends.then_some(sent)),
        or_dash(receives.then_some(packets)),
        if receives { human::show("bps", bytes as f64 * 8.0) } else { "-".to_owned() },
    );
    let unseen = format!("not looked at in time {skipped}");
    [
        format!(
            "{seconds:.1} s   sent {} ({}/s)   received {}   lost {}   late <= {}",
            or_dash(totals.sent),
            or_dash(sends.then_some(rate as u64)),
            or_dash(totals.received.or(receives.then_some(progress.received))),
            totals.lost.map_or("-".to_owned(), |lost| lost.to_string()),
            if sends { human::show("ns", progress.late_ns as f64) } else { "-".to_owned() },
        ),
        // Where rows and ages lack deliveries, this is said first.
        if *skipped > 0 { format!("{unseen}   {window}") } else { format!("{window}   {unseen}") },
    ]
}

/// Formats a count; a dash if it is not known.
fn or_dash(n: Option<u64>) -> String {
    n.map_or("-".to_owned(), count)
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
    use std::path::Path;
    use std::sync::Arc;

    use pktgen_realtime::driver::real_time::Progress;
    use pktgen_realtime::live::{ClusterTotals, LiveTotals};

    use super::*;

    #[test]
    fn narrow_screens_have_fewer_whole_columns() {
        let cells = COLUMNS.map(|_| "-".to_owned());
        let kept = |wide: u16| fitting(std::slice::from_ref(&cells), wide).into_iter().map(|(i, _)| COLUMNS[i]);
        assert!(kept(77).eq(COLUMNS));
        assert!(kept(76).eq(COLUMNS.into_iter().filter(|name| *name != "expected")));
        assert_eq!(kept(40).collect::<Vec<_>>(), ["cluster", "sent/s", "packets/s", "age"]);
        assert_eq!(kept(6).count(), 0);
        // A long text makes its column wider.
        let mut long = cells.clone();
        long[5] = "up to 12345.6".to_owned();
        assert_eq!(fitting(&[cells, long], 80)[5], (5, 13));
    }

    #[test]
    fn lines_are_broken_between_parts_and_words() {
        assert_eq!(folded("1.0 s   sent 5 (5/s)   lost 0", 21), ["1.0 s   sent 5 (5/s)", "lost 0"]);
        assert_eq!(folded("one two three   four", 7), ["one two", "three", "four"]);
        assert_eq!(folded("a/long/path of", 6), ["a/long", "/path", "of"]);
        assert_eq!(folded("short   line", 80), ["short   line"]);
    }

    #[test]
    fn rows_say_what_is_expected_and_what_came() {
        let totals = ClusterTotals { sent: 40_000, packets: 10_000, updates: 30_000, bytes: 1 };
        let last = ClusterTotals { sent: 400, packets: 100, updates: 300, bytes: 1 };
        let seen = ClusterStats { id: 3, totals, last, age: Some(1_500_000), age_mean_ps: Some(2.5e9) };
        let cells = row(&seen, Expected::MergesUnderLoad, [true; 2]);
        assert_eq!(cells, ["3", "400", "100", "300", "3.00", "up to 4.0", "1.50 µs", "2.50 ms"]);
        for (expected, text) in [(Expected::Sums(6), "6"), (Expected::Single, "1")] {
            assert_eq!(row(&seen, expected, [true; 2])[5], text);
        }
        assert_eq!(row(&seen, Expected::SumsByKey, [true; 2])[1..6], ["400", "100", "-", "-", "-"]);
        let nothing = ClusterStats {
            id: 0,
            totals: ClusterTotals::default(),
            last: ClusterTotals::default(),
            age: None,
            age_mean_ps: None,
        };
        assert_eq!(row(&nothing, Expected::Unknown, [true; 2]), ["0", "0", "0", "0", "-", "-", "-", "-"]);
        assert_eq!(row(&nothing, Expected::Unknown, [false; 2])[..4], ["0", "-", "-", "-"]);
        assert_eq!([count(9_999), count(12_345), count(12_345_678)], ["9999", "12.3k", "12.3M"]);
    }

    #[test]
    fn what_a_part_does_not_know_is_a_dash() {
        let part = |totals| Glance {
            name: "x".to_owned(),
            dir: Arc::from(Path::new("x")),
            progress: Progress { received: 7, t: SECOND, ..Progress::default() },
            expected: Expected::Single,
            clusters: Vec::new(),
            skipped: 0,
            warnings: Vec::new(),
            refused: None,
            totals,
            interval: None,
        };
        let device = part(LiveTotals { received: Some(7), lost: Some(0), ..LiveTotals::default() });
        assert_eq!(
            totals(&device),
            [
                "1.0 s   sent - (-/s)   received 7   lost 0   late <= -",
                "last second: sent -   received - packets, -   not looked at in time 0"
            ]
        );
        let workers = part(LiveTotals { sent: Some(3), refused: Some(0), ..LiveTotals::default() });
        assert!(totals(&workers)[0].starts_with("1.0 s   sent 3 (0/s)   received -   lost -   late <= 0"));
        // Without some deliveries the run's own count is shown.
        let unread = Glance { skipped: 2, ..workers };
        assert!(totals(&unread)[0].contains("received 7"));
    }
}
