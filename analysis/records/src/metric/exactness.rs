//! Errors of a switch that sums by key, and the effort of correcting them, from the counters of the run.

use pktgen_core::Result;
use pktgen_core::definition::{Better, Definition};
use pktgen_core::record::{Family, Reason};
use pktgen_core::registry::Named;
use pktgen_core::time::NS;

use super::{Metric, counts};
use crate::line::{Line, SHARE, UPDATES};
use crate::resolved::Analysis;

/// See the module documentation.
pub(super) struct Exactness;

const fn by_key(metric: &'static str, unit: &'static str, better: Better, definition: &'static str) -> Definition {
    Definition::new(metric, unit, better, definition).needs("sums by key")
}

const DEFINITIONS: [Definition; 11] = [
    by_key("counted_twice", UPDATES, Better::Lower, "Hot updates contained in more than one sum.").source("LIBRA §3.6"),
    by_key(
        "never_counted",
        UPDATES,
        Better::Lower,
        "Hot updates contained in no sum, because they were taken for duplicates; updates lost with a failed device count as dropped.",
    )
    .source("LIBRA §3.6"),
    by_key("retransmitted_share", SHARE, Better::Lower, "Retransmissions per generated update."),
    by_key(
        "recirculations_per_packet",
        "passes per packet",
        Better::Lower,
        "Mean number of passes beyond the first, per added packet.",
    )
    .source("LIBRA §3.4"),
    by_key(
        "register_conflicts_per_packet",
        "pairs per packet",
        Better::Lower,
        "Mean number of pairs beyond the first of their register, per added packet.",
    )
    .source("LIBRA §3.4"),
    by_key(
        "hot_pairs_per_packet",
        "pairs per packet",
        Better::Higher,
        "Mean number of key-gradient pairs per added packet.",
    )
    .source("LIBRA §3.4"),
    by_key("aggregated_share", SHARE, Better::Higher, "Share of the pairs pushed by workers that switches added; no value if iterations did not end, if updates are missing or counted twice, or if another switch took over.")
        .source("LIBRA §3.1"),
    by_key(
        "server_busy_share",
        SHARE,
        Better::Lower,
        "Share of the run in which the parameter server was busy; mean over several servers; no value if the offset of the clocks of workers and server is unknown.",
    ),
    by_key("server_busy_most_share", SHARE, Better::Lower, "Share of the run in which the busiest of several parameter servers was busy.")
        .source("LIBRA §2.1"),
    by_key("memory_share", SHARE, Better::Lower, "Memory used, as a share of a switch's 20 MB, counted as in the paper.")
        .source("LIBRA §5.7"),
    by_key("memory_all_share", SHARE, Better::Lower, "Memory used, as a share of a switch's 20 MB, with all state."),
];

/// Returns the numbers of updates counted twice and never, for a run that sums by key; `None` for another run or without a ledger.
fn unlike_once(run: &Analysis) -> Option<(u64, u64)> {
    let of = |name: &str| run.manifest.counters.device.get(name).copied();
    of("counted_twice").zip(of("never_counted"))
}

/// Whether updates neither arrived nor are in flight, or may be such: without rows, a balance does not contain of which updates
/// transmissions arrived.
fn lacks_updates(run: &Analysis) -> bool {
    if let Some(resolved) = &run.resolved {
        return resolved.updates_lost() > 0;
    }
    let balance = run.balance();
    let came = balance.delivered_alone + balance.delivered_merged + balance.in_flight;
    if balance.generated.saturating_sub(balance.withheld) > came {
        return true;
    }
    // Workers retransmit until a packet is acknowledged (LIBRA §3.6), and no iteration ends before: updates of ended ones are
    // lost only with the sum of a failed device.
    let with_device = balance.dropped.get(Reason::DeviceLost.name()).is_some_and(|lost| *lost > 0);
    let may_wait = || run.iterations_short().is_some() && counts::loss(run, &balance).is_none_or(|share| share > 0.0);
    balance.retransmitted > 0 && (with_device || may_wait())
}

/// Whether sums by key contain every contribution once: by the ledger of devices or, without one, by their values.
pub(super) fn are_whole(run: &Analysis) -> bool {
    match (unlike_once(run), &run.manifest.unseen) {
        (Some(unlike), _) => unlike == (0, 0) && !lacks_updates(run),
        (None, Some(unseen)) => {
            let unproven = run.manifest.incidents.unproven_sums();
            unseen.unchecked == 0 && run.manifest.counters.sums_wrong == 0 && unproven.is_none()
        }
        // Older manifests lack these counts.
        (None, None) => true,
    }
}

impl Named for Exactness {
    fn name(&self) -> &'static str {
        "exactness"
    }

    fn about(&self) -> &'static str {
        "sums by key: updates counted twice or never, recirculations, server load, switch memory"
    }
}

impl Metric for Exactness {
    fn definitions(&self) -> Vec<Definition> {
        DEFINITIONS.to_vec()
    }

    fn compute(&self, run: &Analysis, out: &mut Vec<Line>) -> Result<()> {
        let counters = &run.manifest.counters;
        let of = |name: &str| counters.device.get(name).map(|n| *n as f64);
        let unlike = unlike_once(run);
        if unlike.is_none() && run.manifest.family() != Family::Pairs {
            return Ok(());
        }
        let share = |part: f64, whole: f64| (whole > 0.0).then(|| part / whole);
        let balance = run.balance();
        let (twice, never) = unlike.unzip();
        out.push(Line::new("counted_twice", UPDATES, twice.map(|n| n as f64)));
        out.push(Line::new("never_counted", UPDATES, never.map(|n| n as f64)));
        out.push(Line::new(
            "retransmitted_share",
            SHARE,
            share(balance.retransmitted as f64, balance.generated as f64),
        ));
        if let (Some(again), Some(packets)) = (of("recirculations"), of("added")) {
            out.push(Line::new("recirculations_per_packet", "passes per packet", share(again, packets)));
            // Counted as in LIBRA §3.4: pairs after the first one of their register.
            let conflicts = of("register_conflicts").unwrap_or(0.0);
            out.push(Line::new("register_conflicts_per_packet", "pairs per packet", share(conflicts, packets)));
            let pairs = of("pairs").unwrap_or(0.0);
            out.push(Line::new("hot_pairs_per_packet", "pairs per packet", share(pairs, packets)));
            let pushed =
                run.rounds.as_ref().map_or(0.0, |rounds| rounds.iterations.elements.iter().sum::<u64>() as f64);
            // Pairs of unfinished iterations, and pairs added by two switches, are not among the pushed ones.
            let ended = balance.in_flight == 0 && run.iterations_short().is_none();
            let whole = are_whole(run) && ended && of("controller.takeovers").unwrap_or(0.0) == 0.0;
            out.push(Line::new("aggregated_share", SHARE, share(pairs, pushed).filter(|_| whole)));
        }
        if let Some(busy) = of("server.busy_ns") {
            let (time, servers) = (counters.end_ps as f64 / NS as f64, of("servers").unwrap_or(1.0));
            // The run ends at the latest end of its parts, each by its own clock.
            let of_run = |busy: f64, time: f64| share(busy, time).filter(|_| run.manifest.has_one_clock());
            out.push(Line::new("server_busy_share", SHARE, of_run(busy, time * servers)));
            if let Some(most) = of("server.busy_most_ns") {
                out.push(Line::new("server_busy_most_share", SHARE, of_run(most, time)));
            }
        }
        // 0 for a run without a summing switch.
        if let Some(ppm) = of("memory_share_ppm") {
            out.push(Line::new("memory_share", SHARE, ppm / 1e6));
        }
        if let Some(ppm) = of("memory_all_share_ppm") {
            out.push(Line::new("memory_all_share", SHARE, ppm / 1e6));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use pktgen_core::record::{Manifest, Note, PacketId, Training, Unseen};

    use super::*;
    use crate::Options;
    use crate::metric_tests::{lines_of, value};
    use crate::testing::Story;

    /// Counters that are 0 if every update is in one sum.
    const ONCE: [&str; 2] = ["counted_twice", "never_counted"];

    fn is_whole(story: &Story, change: impl Fn(&mut Manifest)) -> bool {
        let dir = tempfile::tempdir().unwrap();
        let mut manifest = story.manifest();
        change(&mut manifest);
        story.write_with(dir.path(), &manifest);
        are_whole(&Analysis::open(dir.path(), Options::default()).unwrap())
    }

    /// Rows of a killed part are missing: differing sums may be right, and may lack a contribution.
    #[test]
    fn unproven_sums_are_not_known_to_be_whole() {
        let mut story = Story::new();
        story.sent_seq(1, 0, 0, Some(0), 0);
        let whole = |notes: &[Note]| {
            is_whole(&story, |manifest| {
                (manifest.external, manifest.unseen) = (Some("generic".into()), Some(Unseen::default()));
                manifest.incidents.notes = notes.to_vec();
            })
        };
        assert!(whole(&[]));
        assert!(!whole(&[Note::Unproven { packets: 412 }]));
    }

    /// An update whose only transmission is dropped for `reason`, unless it arrives `again`, and one that arrives twice.
    fn retransmits(reason: Reason, again: bool) -> Story {
        let mut story = Story::new();
        story.sent_seq(1, 0, 0, Some(0), 0).sent_seq(1, 1, 0, Some(0), 0).dropped(5, 0, 1, reason);
        story.sent_again(1, 1, 1, 5, 0);
        story.attempt_received(10, PacketId::new(1, 1, 0), 0, true);
        story.attempt_received(11, PacketId::new(1, 1, 1), 0, true);
        if again {
            story.sent_again(1, 0, 1, 5, 0).attempt_received(12, PacketId::new(1, 0, 1), 0, true);
        }
        story
    }

    #[test]
    fn retransmissions_that_arrive_do_not_stand_for_lost_updates() {
        let whole = |story: &Story, records: &str| {
            is_whole(story, |manifest| {
                manifest.records = records.to_owned();
                manifest.counters.device = ONCE.map(|name| (name.to_owned(), 0)).into();
            })
        };
        for (reason, again, full, none) in [
            (Reason::DeviceLost, false, false, false),
            (Reason::Fault, true, true, true),
            // Without rows, this differs from the first one in nothing.
            (Reason::DeviceLost, true, true, false),
        ] {
            let story = retransmits(reason, again);
            assert_eq!((whole(&story, "full"), whole(&story, "none")), (full, none), "{reason:?} {again}");
        }
        // A worker that still waits may have lost an update, and has not if nothing was dropped.
        let mut waits = retransmits(Reason::Fault, false);
        waits.training = Some(Training { jobs: 1, workers: 1, iterations: 1, ..Default::default() });
        assert_eq!((whole(&waits, "full"), whole(&waits, "none")), (false, false));
        let mut repeats = retransmits(Reason::Duplicate, true);
        repeats.training = waits.training;
        assert_eq!((whole(&repeats, "full"), whole(&repeats, "none")), (true, true));
    }

    /// Switches add pairs of iterations that have not ended; the pairs pushed in these are not known.
    #[test]
    fn unfinished_iterations_have_no_share_of_added_pairs() {
        let share = |iterations| {
            let mut story = Story::new();
            story.sent_seq(1, 0, 0, Some(0), 0).received_seq(10, 1, 0, 0, 1);
            story.training = Some(Training { jobs: 1, workers: 1, iterations, ..Default::default() });
            story.iterates(1, [0, 1, 2, 0], [1, 0, 0, 1]);
            story.rounds.iterations.elements = vec![96];
            let lines = lines_of(&story, |manifest| {
                let counters = [("added", 8), ("recirculations", 0), ("pairs", 24)];
                manifest.counters.device = counters.map(|(name, n)| (name.to_owned(), n)).into();
                manifest.counters.device.extend(ONCE.map(|name| (name.to_owned(), 0)));
            });
            value(&lines, "aggregated_share")
        };
        assert_eq!((share(1), share(2)), (Some(0.25), None));
    }

    #[test]
    fn counters_become_lines() {
        let mut story = Story::new();
        story.sent_seq(1, 0, 0, Some(0), 0).sent_seq(1, 2, 0, Some(0), 0).sent_again(1, 0, 1, 5, 0);
        let ours = |line: &Line| DEFINITIONS.iter().any(|known| known.metric == line.metric);
        assert!(!lines_of(&story, |_| ()).iter().any(ours));
        story.training = Some(Default::default());
        story.iterates(1, [0, 1, 2, 0], [2, 0, 0, 1]);
        story.rounds.iterations.elements = vec![96];
        let device = [
            ("counted_twice", 3),
            ("never_counted", 0),
            ("added", 8),
            ("recirculations", 2),
            ("register_conflicts", 4),
            ("pairs", 24),
            ("server.busy_ns", 25),
            ("server.busy_most_ns", 20),
            ("servers", 2),
            ("memory_share_ppm", 32_016),
            ("memory_all_share_ppm", 40_697),
        ];
        let counted = |manifest: &mut Manifest| {
            manifest.counters.device = device.map(|(name, n)| (name.to_owned(), n)).into();
            manifest.counters.end_ps = 100 * NS;
        };
        let lines = lines_of(&story, counted);
        let values = DEFINITIONS.map(|known| value(&lines, known.metric));
        let expected = [3.0, 0.0, 0.5, 0.25, 0.5, 3.0, f64::NAN, 0.125, 0.2, 0.032_016, 0.040_697];
        // There is no share of the pushed pairs if switches added some twice.
        assert_eq!(values, expected.map(|value| Some(value).filter(|value| !value.is_nan())));
        // The end may be that of the server, by another clock.
        let lines = lines_of(&story, |manifest| {
            counted(manifest);
            manifest.clocks.insert("received.t_recv_ps".to_owned(), "another host, not synchronised".to_owned());
        });
        assert_eq!(["server_busy_share", "server_busy_most_share"].map(|metric| value(&lines, metric)), [None; 2]);
        assert_eq!(value(&lines, "retransmitted_share"), Some(0.5));
    }
}
