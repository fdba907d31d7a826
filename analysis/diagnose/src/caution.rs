//! Notes of a run for readers, and what each leaves undecided.

use pktgen_core::record::Note;
use serde::Serialize;

use crate::breakdown::{self, Times};
use crate::evidence::Evidence;

/// Share of frames delayed by the host above which a caution is given.
const LATE_SHARE: f64 = 0.01;

/// A caution of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Caution {
    /// Its code: that of a note (docs/verdicts.md), `late_by_host`, `cut_off`, `faults_asked`, `fragments` or
    /// `taps_unread`.
    pub code: &'static str,
    /// One sentence.
    pub text: String,
    /// What it leaves undecided; `None` if it affects no conclusion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open: Option<&'static str>,
}

/// Returns the caution of captures with this many fragments of IPv4 packets.
pub(crate) fn of_fragments(count: u64) -> Option<Caution> {
    let text = format!(
        "{count} frames in the captures are fragments of IPv4 packets, which are not joined: they were skipped"
    );
    (count > 0).then_some(Caution { code: "fragments", text, open: None })
}

/// Returns the caution of captures that are not examined, since they are damaged, or of a killed run.
fn of_taps(evidence: &Evidence) -> Option<Caution> {
    let why = evidence.taps_unread.as_ref()?;
    let taps = ["workers", "server"].into_iter().filter_map(|end| evidence.tap_file(end));
    let taps: Vec<_> = taps.map(|path| path.display().to_string()).collect();
    let text = format!("the captures of the taps ({}) are not examined: {why}", taps.join(", "));
    let open = Some("whether frames changed on their way");
    (!taps.is_empty()).then_some(Caution { code: "taps_unread", text, open })
}

/// Returns the caution that a note on the clocks is for the breakdown of time, if arrivals at a server are in it.
fn of_clocks(evidence: &Evidence, times: Option<&Times>, note: &Note) -> Option<Caution> {
    if evidence.is_results() || !breakdown::has_rows(evidence) {
        return None;
    }
    let text = match note {
        Note::ClocksWithin { .. } => {
            let times = times?;
            if times.has_breakdown() {
                format!("{note}, as may the device's time in the breakdown")
            } else {
                let mean_us = times.mean_us();
                format!("{note}; there is no breakdown of time, since its mean by these clocks is {mean_us:.3} us")
            }
        }
        Note::ClocksUnknown { .. } => format!("there is no breakdown of time, and {note}"),
        _ => return None,
    };
    Some(Caution { code: note.code(), text, open: None })
}

/// Returns the cautions of a run, whose updates took these times.
pub(crate) fn of(evidence: &Evidence, times: Option<&Times>) -> Vec<Caution> {
    let notes = &evidence.manifest.validity.notes;
    // In real time a result is one frame for the workers of a job; older builds counted it once per worker.
    let is_one = evidence.is_real() && evidence.manifest.counters.frames_again > 0;
    let resent = match (evidence.is_results(), is_one) {
        (false, _) => 0,
        (true, true) => evidence.resent() / evidence.workers_of_job(),
        (true, false) => evidence.resent(),
    };
    let has_reason = |note: &Note| matches!(note, Note::Duplicates { packets } if *packets <= resent);
    let told = notes.iter().filter(|note| (note.is_doubt() || note.leaves_open().is_some()) && !has_reason(note));
    let mut all: Vec<_> =
        told.map(|note| Caution { code: note.code(), text: note.to_string(), open: note.leaves_open() }).collect();
    all.extend(notes.iter().filter_map(|note| of_clocks(evidence, times, note)));
    all.extend(of_taps(evidence));
    if evidence.is_cut_early() && evidence.came() == 0 {
        let text = "capture.until ended the run before anything came: raise it to see what becomes of the updates";
        all.push(Caution { code: "cut_off", text: text.to_owned(), open: None });
    }
    if evidence.has_faulty_links() {
        let text = "the experiment has links lose, double, change or hold back frames (transport.fault_*): what that explains is no cause here";
        all.push(Caution { code: "faults_asked", text: text.to_owned(), open: None });
    }
    let pacing = evidence.manifest.pacing.as_ref();
    all.extend(pacing.filter(|pacing| pacing.share_by_host().is_some_and(|share| share >= LATE_SHARE)).map(|pacing| {
        let text = format!(
            "the host made {} of {} frames late: ages and latencies hold that, and bursts at the device may be the host's",
            pacing.late_by_host, pacing.frames
        );
        Caution { code: "late_by_host", text, open: None }
    }));
    all
}

#[cfg(test)]
mod tests {
    use pktgen_core::record::{Fault, Training};

    use super::*;
    use crate::evidence::manifest;

    /// A server that sent nine results again sent them to the four workers of a job; asynchronous systems have no such server.
    #[test]
    fn results_that_a_server_sent_again_have_a_reason() {
        for (packets, in_training, cautions) in [(36, true, 0), (37, true, 1), (36, false, 1)] {
            let mut manifest = manifest(&[0, 0, 0, 0, 1, 1, 1, 1]);
            manifest.training = in_training.then(|| Training { workers: 4, ..Training::default() });
            manifest.counters.device.insert("server.results_resent".into(), 9);
            manifest.validity.notes.push(Note::Duplicates { packets });
            let evidence = Evidence::of(std::path::Path::new(""), manifest);
            assert_eq!(of(&evidence, None).len(), cautions, "{packets} {in_training}");
        }
        // On a wire each is one frame for the four workers.
        for (packets, cautions) in [(9, 0), (10, 1)] {
            let mut manifest = manifest(&[0, 0, 0, 0, 1, 1, 1, 1]);
            manifest.clocks.insert("sent.t_sent_ps".to_owned(), "host".to_owned());
            manifest.training = Some(Training { workers: 4, ..Training::default() });
            manifest.counters.device.insert("server.results_resent".into(), 9);
            manifest.counters.frames_again = packets;
            manifest.validity.notes.push(Note::Duplicates { packets });
            let evidence = Evidence::of(std::path::Path::new(""), manifest);
            assert_eq!(of(&evidence, None).len(), cautions, "{packets}");
        }
    }

    #[test]
    fn captures_of_a_killed_run_are_named_and_not_examined() {
        let dir = tempfile::tempdir().unwrap();
        let taps = ["workers", "server"].map(|end| dir.path().join(format!("tap-{end}.pcapng")));
        taps.iter().for_each(|tap| std::fs::write(tap, b"").unwrap());
        let run = |config: &str, faults: &[Fault]| {
            let mut manifest = manifest(&[0]);
            manifest.config = config.to_owned();
            manifest.validity.faults.extend_from_slice(faults);
            Evidence::of(dir.path(), manifest)
        };
        let tapped = "[transport]\ntap = \"tap.pcapng\"\n";
        let whole = run(tapped, &[Fault::Interrupted {}]);
        assert_eq!((whole.tap("workers").as_ref(), of(&whole, None)), (Some(&taps[0]), vec![]));
        let killed = run(tapped, &[Fault::Killed {}]);
        let cautions = of(&killed, None);
        assert_eq!((killed.tap("workers"), cautions.len(), cautions[0].code), (None, 1, "taps_unread"));
        assert!(taps.iter().all(|tap| cautions[0].text.contains(&tap.display().to_string())), "{cautions:?}");
        assert_eq!(of(&run("", &[Fault::Killed {}]), None), vec![], "it has no captures");
    }
}
