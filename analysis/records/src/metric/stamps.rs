//! Delays between timestamps of the kernel or a card and the run's own times: how late hosts read and send.
//!
//! The two use different clocks. They are compared by the offset measured between the clocks before and after the run
//! (`stamp_clocks` of the manifest), and not compared if it is unknown or too inaccurate.

use pktgen_core::Result;
use pktgen_core::definition::{Better, Definition, Label, Timing};
use pktgen_core::record::{Manifest, STAMPS_RECEIVED, STAMPS_SENT};
use pktgen_core::registry::Named;
use pktgen_core::time;

use super::Metric;
use super::latency::describe;
use crate::line::{Line, NS, SHARE};
use crate::quantile::Slice;
use crate::resolved::Analysis;
use crate::run::StampColumns;

/// See the module documentation.
pub(super) struct Stamps;

impl Named for Stamps {
    fn name(&self) -> &'static str {
        "stamps"
    }

    fn about(&self) -> &'static str {
        "delays between timestamps of the kernel or card and the run's times, with their uncertainty"
    }
}

const NEEDS: &str = "transport.stamps, transport.sent_stamps_every; clocks that were measured";
const SIDE: Label = Label::one_of("side", &["received", "sent"], "which stamps");

const fn read(metric: &'static str, definition: &'static str) -> Definition {
    Definition::new(metric, NS, Better::Lower, definition).timed(Timing::OneClock).needs(NEEDS)
}

const READ: [Definition; 4] = [
    read(
        "receive_delay_mean",
        "Mean delay from a packet's timestamp (of the kernel or a card) to its reading by the server, over stamped packets.",
    ),
    read("receive_delay_p50", "Median delay from a packet's timestamp to its reading by the server."),
    read("receive_delay_p99", "99th percentile of the delay from a packet's timestamp to its reading by the server."),
    read("receive_delay_max", "Maximum delay from a packet's timestamp to its reading by the server."),
];

const SEND: [Definition; 4] = [
    read(
        "send_delay_mean",
        "Mean delay from just before the send call of a frame to its send timestamp (of the kernel's driver or a \
         card), over stamped frames.",
    ),
    read("send_delay_p50", "Median delay from just before the send call to the send timestamp."),
    read("send_delay_p99", "99th percentile of the delay from just before the send call to the send timestamp."),
    read("send_delay_max", "Maximum delay from just before the send call to the send timestamp."),
];

const ERROR: Definition = Definition::new(
    "stamp_clock_error",
    NS,
    Better::Lower,
    "Uncertainty of delays by timestamps: that of the clock readings before and after the run, plus half of the \
     difference between them. Above 100 us delays are withheld.",
)
.labels(&[SIDE])
.timed(Timing::OneClock)
.needs(NEEDS);

const STAMPED: Definition = Definition::new(
    "stamped",
    SHARE,
    Better::Higher,
    "Share of packets to be stamped that have a timestamp, whether or not its clock is known.",
)
.labels(&[SIDE])
.needs("transport.stamps, transport.sent_stamps_every");

/// Maximum error of delays; above, these are meaningless.
const ERROR_MAX_NS: u64 = 100_000;

/// Timestamps of one side: the column, the number of packets that should have one, those that do, and the metrics computed from them.
struct Side<'a> {
    name: &'static str,
    column: &'static str,
    packets: u64,
    rows: &'a [(i64, i64)],
    lines: &'static [Definition; 4],
    /// Whether timestamps are later than the run's times.
    stamps_follow: bool,
}

/// Returns the sides that have packets.
fn sides(stamps: &StampColumns) -> impl Iterator<Item = Side<'_>> {
    let StampColumns { packets, received, frames, sent } = stamps;
    let (read, left) = (false, true);
    let side =
        |name, column, packets, rows, lines, stamps_follow| Side { name, column, packets, rows, lines, stamps_follow };
    let all = [
        side("received", STAMPS_RECEIVED, *packets, received.as_slice(), &READ, read),
        side("sent", STAMPS_SENT, *frames, sent.as_slice(), &SEND, left),
    ];
    all.into_iter().filter(|side| side.packets > 0)
}

impl Side<'_> {
    /// Returns the differences of timestamps and the run's times in ps, with their error, or why these are not reported.
    fn delays(&self, run: &Manifest) -> Result<(Vec<i64>, u64), String> {
        let clock = run.stamp_clocks.get(self.column).ok_or("how their clock stood to the run's was not measured")?;
        let (zero, error_ns) = clock.zero();
        if error_ns > ERROR_MAX_NS {
            return Err(format!(
                "their clock and the run's moved against each other: delays may be off by {:.3} us, more than the 100 that are \
                 allowed; let phc2sys hold the wall clock to the card's",
                error_ns as f64 / 1000.0
            ));
        }
        let delay = |(t, stamp): &(i64, i64)| {
            let later = t.saturating_sub(stamp.saturating_sub(zero).saturating_mul(time::NS));
            if self.stamps_follow { later.saturating_neg() } else { later }
        };
        Ok((self.rows.iter().map(delay).collect(), error_ns))
    }
}

/// Returns why delays are not reported although there are timestamps.
pub(crate) fn refusal(run: &Analysis) -> Option<String> {
    sides(run.stamps.as_ref()?).find_map(|side| Some(format!("{}: {}", side.column, side.delays(&run.manifest).err()?)))
}

impl Metric for Stamps {
    fn definitions(&self) -> Vec<Definition> {
        [&READ[..], &SEND, &[STAMPED, ERROR]].concat()
    }

    fn compute(&self, run: &Analysis, out: &mut Vec<Line>) -> Result<()> {
        for side in run.stamps.iter().flat_map(sides) {
            let share = side.rows.len() as f64 / side.packets as f64;
            out.push(Line::of(&STAMPED, Some(share)).with("side", side.name));
            let Ok((delays_ps, error_ns)) = side.delays(&run.manifest) else { continue };
            describe(side.lines, &Slice(&delays_ps), out)?;
            out.push(Line::of(&ERROR, Some(error_ns as f64)).with("side", side.name));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use pktgen_core::record::StampClock;

    use super::*;
    use crate::Options;
    use crate::run::RunData;
    use crate::testing::Story;

    /// Creates a run with these timestamps; times in ns, of the run and of the card.
    fn run(clock: Option<StampClock>, rows: &[(i64, i64)]) -> Analysis {
        let mut manifest = Story::default().manifest();
        manifest.stamp_clocks.extend(clock.map(|clock| (STAMPS_RECEIVED.to_owned(), clock)));
        let received: Vec<_> = rows.iter().map(|(t, stamp)| (t * 1000, *stamp)).collect();
        let stamps = Some(StampColumns { packets: received.len() as u64 + 1, received, ..StampColumns::default() });
        let run = RunData {
            dir: "".into(),
            manifest,
            records: None,
            states: None,
            rounds: None,
            lanes: None,
            names: None,
            stamps,
            verified: Default::default(),
        };
        Analysis::new(run, Options::default()).unwrap()
    }

    fn value(run: &Analysis, metric: &str) -> Option<f64> {
        run.lines().unwrap().iter().find(|line| line.metric == metric).and_then(|line| line.value)
    }

    /// The card showed 5,000,000 when the run began, and 5,000,010 at the reading afterwards.
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

    /// Frames leave after their calls; the clock of received packets gives no information on those sent.
    #[test]
    fn each_side_has_its_clock() {
        let mut run = run(None, &[]);
        let sent = vec![(1_000_000, 7_300), (2_000_000, 8_500)];
        run.stamps = Some(StampColumns { packets: 1, received: vec![(5, 5)], frames: 2, sent });
        run.manifest.stamp_clocks.insert(STAMPS_SENT.to_owned(), StampClock { zero_ns: [6_000; 2], error_ns: 9 });
        assert_eq!((value(&run, "send_delay_max"), value(&run, "send_delay_mean")), (Some(500.0), Some(400.0)));
        assert_eq!((value(&run, "receive_delay_mean"), value(&run, "stamp_clock_error")), (None, Some(9.0)));
        assert!(refusal(&run).is_some_and(|why| why.starts_with("stamps.received_ns: ")));
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
