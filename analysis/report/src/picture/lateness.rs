//! Lateness of frames in real time, from the run's `lateness.hlog` (an HdrHistogram interval log).

use std::path::Path;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use pktgen_core::registry::Named;
use pktgen_records::human::show;

use super::Picture;
use super::age_cdf::{FirstView, curves, of};
use crate::chart::Chart;
use crate::sweep::data::SweepData;
use crate::sweep::kept::Cdf;

/// Beyond it there are few, very late frames.
const FIRST_VIEW: FirstView = FirstView { share: 0.999, words: "99.9 % of the frames had left" };
/// How [`cdf`] thins points.
const THINNED: &str = "A line has a point at every half percent, and at every hundredth of a percent from 99 % on.";

/// See the module documentation.
pub(super) struct Lateness;

impl Named for Lateness {
    fn name(&self) -> &'static str {
        "lateness"
    }

    fn about(&self) -> &'static str {
        "CDF of the lateness of frames in real time"
    }
}

impl Picture for Lateness {
    fn heading(&self) -> &'static str {
        "Lateness"
    }

    fn charts(&self, sweep: &SweepData) -> Vec<Chart> {
        let mut words = of("How late frames left (CDF)", "time after the deadline", "share of frames");
        (words.thinned, words.first_view) = (THINNED, FIRST_VIEW);
        let mut charts = curves(sweep, &words, |kept| &kept.lateness_cdf);
        if let Some(host) = by_host(sweep) {
            charts.iter_mut().for_each(|chart| chart.note = format!("{} {host}", chart.note));
        }
        charts
    }

    fn is_of_first_seed(&self, sweep: &SweepData) -> bool {
        sweep.units.contains_key("late_by_host")
    }
}

/// Describes the frames delayed by the host, for runs that distinguish these.
fn by_host(sweep: &SweepData) -> Option<String> {
    let most = |metric| sweep.runs.iter().filter_map(|run| run.scalars.get(metric)).reduce(f64::max);
    let late = format!("The host made at most {} of a run's frames late", show("share", most("late_by_host")?));
    Some(match most("late_others_p99") {
        Some(p99_ns) => format!("{late}; of the others 99 % left within {}.", show("ns", p99_ns)),
        None => format!("{late}."),
    })
}

/// Returns the cumulative shares of the lateness of the run in `dir`; `None` if the file is missing or damaged.
pub(super) fn read(dir: &Path) -> Option<Cdf> {
    let text = std::fs::read(dir.join("lateness.hlog")).ok()?;
    let mut all: Option<Histogram<u64>> = None;
    for entry in IntervalLogIterator::new(&text) {
        let LogEntry::Interval(interval) = entry.ok()? else { continue };
        let bytes = base64(interval.encoded_histogram())?;
        let own: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).ok()?;
        match &mut all {
            Some(all) => all.add(own).ok()?,
            None => all = Some(own),
        }
    }
    all.map(|all| cdf(&all))
}

/// Returns a point at each value of frames, thinned to every half percent below 99 %.
fn cdf(lateness: &Histogram<u64>) -> Cdf {
    let all = lateness.len();
    let mut points: Cdf = Vec::new();
    let mut below = 0u64;
    for step in lateness.iter_recorded() {
        below += step.count_since_last_iteration();
        let share = below as f64 / all as f64;
        let last = points.last().map_or(-1.0, |point| point.1);
        if share - last >= 0.005 || share >= 0.99 && share - last >= 0.000_1 || below == all {
            points.push((step.value_iterated_to() as f64, share));
        }
    }
    points
}

/// Decodes Base64 (RFC 4648 §4); `None` if a character is invalid.
fn base64(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut held) = (0u32, 0);
    for c in text.trim_end_matches('=').bytes() {
        let value = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        (bits, held) = (bits << 6 | u32::from(value), held + 6);
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
            bits &= (1 << held) - 1;
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use hdrhistogram::serialization::V2Serializer;
    use hdrhistogram::serialization::interval_log::IntervalLogWriterBuilder;
    use std::time::Duration;

    #[test]
    fn a_log_is_read_back_as_what_was_recorded() {
        let dir = tempfile::tempdir().unwrap();
        assert!(read(dir.path()).is_none());
        let mut lateness = Histogram::<u64>::new(3).unwrap();
        let values: Vec<u64> = (0..1000u64).map(|i| i * i % 1999).collect();
        values.iter().for_each(|value| lateness.record(*value).unwrap());
        let mut out = Vec::new();
        let mut serializer = V2Serializer::new();
        let mut log = IntervalLogWriterBuilder::new().begin_log_with(&mut out, &mut serializer).unwrap();
        log.write_histogram(&lateness, Duration::ZERO, Duration::from_secs(1), None).unwrap();
        std::fs::write(dir.path().join("lateness.hlog"), &out).unwrap();
        let cdf = read(dir.path()).unwrap();
        assert_eq!(cdf.last().unwrap().1, 1.0);
        assert_eq!(cdf.last().unwrap().0, *values.iter().max().unwrap() as f64);
        for (value, share) in cdf {
            let naive = values.iter().filter(|own| **own as f64 <= value).count() as f64 / 1000.0;
            assert_eq!(naive, share, "at {value}");
        }
        std::fs::write(dir.path().join("lateness.hlog"), &out[..out.len() / 2]).unwrap();
        assert!(read(dir.path()).is_none_or(|cdf| cdf.iter().all(|point| point.1 <= 1.0)));
    }

    #[test]
    fn the_first_view_ends_where_few_frames_are_later() {
        let dir = tempfile::tempdir().unwrap();
        pktgen_records::testing::write_sweep(dir.path(), 1);
        let mut sweep = SweepData::open(dir.path(), &mut |_, _| {}).unwrap();
        sweep.runs.truncate(1);
        Arc::make_mut(&mut sweep.runs[0].kept).lateness_cdf = vec![(1.0, 0.95), (2.0, 0.999), (9.0, 1.0)];
        let charts = Lateness.charts(&sweep);
        assert_eq!(charts[0].zoom, Some((0.0, 2.0)));
        assert_eq!(charts[0].note, format!("The first view ends where 99.9 % of the frames had left. {THINNED}"));
    }

    #[test]
    fn delays_by_the_host_have_units_and_digits() {
        let dir = tempfile::tempdir().unwrap();
        pktgen_records::testing::write_sweep(dir.path(), 1);
        let mut sweep = SweepData::open(dir.path(), &mut |_, _| {}).unwrap();
        sweep.runs[0].scalars.insert("late_by_host", 0.000_01);
        let said = "The host made at most 0.00100 % of a run's frames late";
        assert_eq!(by_host(&sweep), Some(format!("{said}.")));
        sweep.runs[0].scalars.insert("late_others_p99", 12e6);
        assert_eq!(by_host(&sweep), Some(format!("{said}; of the others 99 % left within 12 ms.")));
    }

    #[test]
    fn base64_of_the_rfc() {
        for (text, bytes) in [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9v", "foo"), ("Zm9vYmFy", "foobar")] {
            assert_eq!(base64(text).unwrap(), bytes.as_bytes());
        }
        assert!(base64("Zm 9").is_none());
    }
}
