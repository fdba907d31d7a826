//! Delays between stamps of the kernel or a card and the run's own times: how late hosts are at reading.
//!
//! The two are of different clocks. They are compared by what was measured between the clocks before the run and after it
//! (`stamp_clocks` of the manifest), and not at all where that is not known or too far off.

use pktgen_generator::Result;
use pktgen_generator::definition::{Better, Definition, Label};
use pktgen_generator::record::{Manifest, STAMPS_RECEIVED};
use pktgen_generator::registry::Named;
use pktgen_generator::time;

use super::Metric;
use super::latency::describe;
use crate::analyze::Analysis;
use crate::line::{Line, NS, SHARE};
use crate::quantile::Slice;

/// See the module.
pub(super) struct Stamps;

impl Named for Stamps {
    fn name(&self) -> &'static str {
        "stamps"
    }

    fn about(&self) -> &'static str {
        "from stamps of the kernel or a card to the run's own times, and how far that may be off"
    }
}

const NEEDS: &str = "transport.stamps; clocks that were measured";
const SIDE: Label = Label::one_of("side", &["received"], "which stamps");

const fn read(metric: &'static str, definition: &'static str) -> Definition {
    Definition::new(metric, NS, Better::Lower, definition).needs(NEEDS)
}

const READ: [Definition; 4] = [
    read(
        "receive_delay_mean",
        "From the stamp of a packet (of the kernel or a card) to when the server had read it, mean over stamped packets.",
    ),
    read("receive_delay_p50", "Median of the same."),
    read("receive_delay_p99", "99th percentile of the same."),
    read("receive_delay_max", "Largest of the same."),
];

const ERROR: Definition = Definition::new(
    "stamp_clock_error",
    NS,
    Better::Lower,
    "How far delays by stamps may be off: what the readings of the clocks before and after the run may be, and half of what lies \
     between them. Above 100 us delays are withheld.",
)
.labels(&[SIDE])
.needs(NEEDS);

const STAMPED: Definition = Definition::new(
    "stamped",
    SHARE,
    Better::Higher,
    "Share of the packets to be stamped that were, whether or not their clock is known.",
)
.labels(&[SIDE])
.needs("transport.stamps");

/// Delays that may be off by more than this say nothing of what is measured by them.
const ERROR_MAX_NS: u64 = 100_000;

/// The run's time of each stamp of `column` is later than the stamp by what, in ps, and how far that may be off; or why that is not
/// told.
fn delays(run: &Manifest, column: &str, rows: &[(i64, i64)]) -> Result<(Vec<i64>, u64), String> {
    let clock = run.stamp_clocks.get(column).ok_or("how their clock stood to the run's was not measured")?;
    let (zero, error_ns) = clock.zero();
    if error_ns > ERROR_MAX_NS {
        return Err(format!(
            "their clock and the run's moved against each other: delays may be off by {:.3} us, more than the 100 that are allowed; \
             let phc2sys hold the wall clock to the card's",
            error_ns as f64 / 1000.0
        ));
    }
    let delay = |(t, stamp): &(i64, i64)| t.saturating_sub(stamp.saturating_sub(zero).saturating_mul(time::NS));
    Ok((rows.iter().map(delay).collect(), error_ns))
}

/// Why delays are not told although there are stamps.
pub(crate) fn refusal(run: &Analysis) -> Option<String> {
    let stamps = run.stamps.as_ref()?;
    delays(&run.manifest, STAMPS_RECEIVED, &stamps.received).err()
}

impl Metric for Stamps {
    fn definitions(&self) -> Vec<Definition> {
        [&READ[..], &[STAMPED, ERROR]].concat()
    }

    fn compute(&self, run: &Analysis, out: &mut Vec<Line>) -> Result<()> {
        let Some(stamps) = &run.stamps else { return Ok(()) };
        let share = stamps.received.len() as f64 / stamps.packets as f64;
        out.push(Line::of(&STAMPED, (stamps.packets > 0).then_some(share)).with("side", "received"));
        let Ok((delays_ps, error_ns)) = delays(&run.manifest, STAMPS_RECEIVED, &stamps.received) else {
            return Ok(());
        };
        describe(&READ, &Slice(&delays_ps), out)?;
        out.push(Line::of(&ERROR, Some(error_ns as f64)).with("side", "received"));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use pktgen_generator::record::StampClock;

    use super::*;
    use crate::Options;
    use crate::run::{RunData, StampColumns};
    use crate::testing::Story;

    /// A run with these stamps; times in ns, of the run and of the card.
    fn run(clock: Option<StampClock>, rows: &[(i64, i64)]) -> Analysis {
        let mut manifest = Story::default().manifest();
        manifest.stamp_clocks.extend(clock.map(|clock| (STAMPS_RECEIVED.to_owned(), clock)));
        let received: Vec<_> = rows.iter().map(|(t, stamp)| (t * 1000, *stamp)).collect();
        let stamps = Some(StampColumns { packets: received.len() as u64 + 1, received });
        let run = RunData { dir: "".into(), manifest, records: None, states: None, rounds: None, lanes: None, stamps };
        Analysis::new(run, Options::default()).unwrap()
    }

    fn value(run: &Analysis, metric: &str) -> Option<f64> {
        run.lines().unwrap().iter().find(|line| line.metric == metric).and_then(|line| line.value)
    }

    /// The card showed 5,000,000 when the run began, and 5,000,010 by the reading afterwards.
    #[test]
    fn delays_are_by_the_offset_that_was_measured() {
        let clock = StampClock { zero_ns: [5_000_000, 5_000_010], error_ns: 20 };
        let run = run(Some(clock), &[(1000, 5_000_905), (2000, 5_001_705), (3000, 5_002_405)]);
        assert_eq!(value(&run, "receive_delay_p50"), Some(300.0));
        assert_eq!(
            (value(&run, "receive_delay_max"), value(&run, "receive_delay_mean")),
            (Some(600.0), Some(1000.0 / 3.0))
        );
        assert_eq!((value(&run, "stamp_clock_error"), value(&run, "stamped")), (Some(25.0), Some(0.75)));
        assert!(refusal(&run).is_none() && run.notes().iter().all(|note| note.note != "stamps_not_comparable"));
    }

    #[test]
    fn clocks_that_nobody_measured_or_that_moved_apart_are_not_compared() {
        let apart = StampClock { zero_ns: [0, 200_000], error_ns: 1 };
        for (clock, part) in [(None, "was not measured"), (Some(apart), "off by 100.001 us")] {
            let run = run(clock, &[(1000, 905)]);
            assert_eq!((value(&run, "receive_delay_mean"), value(&run, "stamped")), (None, Some(0.5)));
            let notes = run.notes();
            let note = notes.iter().find(|note| note.note == "stamps_not_comparable").expect("it is said");
            assert!(note.text.contains(part), "{}", note.text);
        }
    }
}
