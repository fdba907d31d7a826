//! Refuses implausible values by file, row and column before anything is computed from them.
//!
//! Called by [`crate::pass`]. Times are compared only within one clock, and in real time with a tolerance for joined clocks.

use std::path::{Path, PathBuf};

use pktgen_core::record::{Fault, Manifest, Note, RECEIVED, SENT};
use pktgen_core::time::{MS, NS, SECOND, Time};
use pktgen_core::{Error, Result};

use crate::columns::{ReceivedColumns, SentColumns};
use crate::fates::is_update;

/// Tolerance for times of joined parts (`pktgen merge`) and of frames that left before they were due.
const SLACK: Time = 100 * MS;
/// Maximum duration of a run.
const LONGEST: Time = 30 * 24 * 3600 * SECOND;

/// Returns the maximum distance of the clocks of workers and server, if they are different ones and it is known.
pub fn clocks_within(notes: &[Note]) -> Option<Time> {
    notes.iter().find_map(|note| match note {
        Note::ClocksWithin { ns } => Some(i64::try_from(*ns).unwrap_or(i64::MAX).saturating_mul(NS)),
        _ => None,
    })
}

/// Limits of plausible values in a run.
#[derive(Debug, Clone)]
pub(crate) struct Plausible {
    dir: PathBuf,
    slack: Time,
    /// The same for arrivals: clocks of hosts may be further apart, within a known bound.
    arrival_slack: Time,
    /// Whether frames left at top speed, without waiting for their schedule.
    top: bool,
    one_clock: bool,
    /// Whether arrivals have the generation time of the newest member.
    ages: bool,
    /// The run's own verdict on damaged frames; empty without such faults.
    damage: String,
}

/// Returns whether damaged frames can be the cause of `fault`.
fn is_damage(fault: &Fault) -> bool {
    match fault {
        Fault::BalanceOpen { .. } | Fault::WrongSums { .. } | Fault::Damaged { .. } => true,
        Fault::InPart { fault, .. } => is_damage(fault),
        _ => false,
    }
}

impl Plausible {
    /// Determines the limits for the run in `dir`. `ages` is false for synchronous training, whose results have no generation times.
    pub(crate) fn of(dir: &Path, manifest: &Manifest, ages: bool) -> Plausible {
        let sent_by = manifest.clocks.get("sent.t_sent_ps").map(String::as_str);
        let top = manifest.is_at_top_speed();
        let slack = if sent_by == Some("virtual") { 0 } else { SLACK };
        let within = clocks_within(&manifest.validity.notes);
        let arrival_slack = slack.max(within.unwrap_or(0).min(LONGEST));
        let damage: Vec<String> =
            manifest.validity.faults.iter().filter(|fault| is_damage(fault)).map(Fault::to_string).collect();
        let damage = damage.join("; ");
        let one_clock = manifest.has_one_clock();
        Plausible { dir: dir.to_owned(), slack, arrival_slack, top, one_clock, ages, damage }
    }

    /// Refuses an arrival whose header, damaged on its way or in the device, can be the cause: the run's own verdict has the reason.
    fn refuse_header(&self, row: usize, what: String) -> Result<()> {
        if self.damage.is_empty() {
            return self.refuse(RECEIVED, row, what);
        }
        Err(Error::Invalid(format!(
            "{}: row {row}: {what}; the run is invalid: {}; so a header may have been damaged on its way or in the device, or else the \
             file was: restore it then; --no-verify reads it all the same",
            self.dir.join(format!("{RECEIVED}.parquet")).display(),
            self.damage
        )))
    }

    fn refuse(&self, stream: &str, row: usize, what: String) -> Result<()> {
        Err(Error::Invalid(format!(
            "{}: row {row}: {what}; the file was damaged or changed: restore it, or --no-verify to read it all the same",
            self.dir.join(format!("{stream}.parquet")).display()
        )))
    }

    /// Refuses transmissions with an implausible value.
    pub(crate) fn sent(&self, sent: &SentColumns, first_row: usize) -> Result<()> {
        for (row, (&made, &left)) in (first_row..).zip(sent.t_gen_ps.iter().zip(&sent.t_sent_ps)) {
            if !(-self.slack..LONGEST).contains(&made) {
                return self.refuse(SENT, row, format!("t_gen_ps = {made} is no time of a run"));
            }
            if let Some(left) = left.filter(|left| !self.top && *left < made.saturating_sub(self.slack)) {
                return self.refuse(SENT, row, format!("t_sent_ps = {left} lies before t_gen_ps = {made}"));
            }
        }
        Ok(())
    }

    /// Refuses arrivals at the server with an implausible value.
    pub(crate) fn received(&self, received: &ReceivedColumns, first_row: usize) -> Result<()> {
        if !self.one_clock {
            return Ok(());
        }
        for (row, &arrived) in
            received.t_recv_ps.iter().enumerate().filter(|(row, _)| is_update(received.cluster[*row]))
        {
            let (made, place) = (received.newest_gen_ps[row], first_row + row);
            if !(-self.arrival_slack..LONGEST).contains(&arrived) {
                return self.refuse(RECEIVED, place, format!("t_recv_ps = {arrived} is no time of a run"));
            }
            if self.ages && !self.top && arrived < made.saturating_sub(self.arrival_slack) {
                let what = format!("t_recv_ps = {arrived} lies before newest_gen_ps = {made}: a negative age");
                return self.refuse_header(place, what);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::Records;
    use crate::testing::Story;

    #[test]
    fn impossible_times_are_named() {
        let read = |clock: &str, config: &str, change: fn(&mut Records)| {
            let mut story = Story::new();
            story.sent_seq(0, 0, 1_000, Some(1_000), 0).received_seq(5_000, 0, 0, 1_000, 1);
            let mut manifest = story.manifest();
            manifest.config = config.into();
            for column in ["sent.t_sent_ps", "received.t_recv_ps"] {
                manifest.clocks.insert(column.into(), clock.into());
            }
            let mut records = story.records.clone();
            change(&mut records);
            let plausible = Plausible::of(Path::new("run"), &manifest, true);
            let checked = plausible.sent(&records.sent, 0).and_then(|()| plausible.received(&records.received, 0));
            checked.map_err(|error| error.to_string())
        };
        let told = |clock: &str, change: fn(&mut Records)| read(clock, "", change);
        assert_eq!(told("virtual", |_| {}), Ok(()));
        let early = |records: &mut Records| records.received.t_recv_ps[0] = 999;
        let message = told("virtual", early).unwrap_err();
        let place = "run/received.parquet: row 0: t_recv_ps = 999 lies before newest_gen_ps = 1000: a negative age";
        assert!(message.starts_with(place), "{message}");
        assert!(message.contains("the file was damaged or changed: restore it"), "{message}");
        assert_eq!(told("monotonic", early), Ok(()), "clocks that were joined");
        assert!(told("monotonic", |records| records.received.t_recv_ps[0] = -SECOND).is_err());
        let message = told("virtual", |records| records.sent.t_sent_ps[0] = Some(10)).unwrap_err();
        assert!(
            message.starts_with("run/sent.parquet: row 0: t_sent_ps = 10 lies before t_gen_ps = 1000"),
            "{message}"
        );
        assert!(told("virtual", |records| records.sent.t_gen_ps[0] = i64::MAX).is_err());
        assert!(told("monotonic", |records| records.received.newest_gen_ps[0] = i64::MAX / 2).is_err());
        // At top speed frames leave before they are due. The manifest has no note: the run was killed, or is of an older version.
        let ahead = |records: &mut Records| {
            records.sent.t_gen_ps[0] = SECOND;
            records.received.newest_gen_ps[0] = SECOND;
        };
        let top = "[transport]\npacing = \"top\"\n";
        assert_eq!(read("monotonic", top, ahead), Ok(()));
        assert!(read("monotonic", "[transport]\npacing = \"deadlines\"\n", ahead).is_err());
        assert!(read("virtual", top, ahead).is_err(), "virtual time does not pace");
    }

    /// Clocks of hosts that differ by more than the tolerance, within a bound that the user stated.
    #[test]
    fn arrivals_are_as_early_as_clocks_may_differ() {
        let mut story = Story::new();
        story.sent_seq(0, 0, 1_000, Some(1_000), 0).received_seq(-150 * MS, 0, 0, 1_000, 1);
        let mut manifest = story.manifest();
        for column in ["sent.t_sent_ps", "received.t_recv_ps"] {
            manifest.clocks.insert(column.into(), "monotonic".into());
        }
        let mut read = |notes: &[Note]| {
            manifest.validity.notes = notes.to_vec();
            Plausible::of(Path::new("run"), &manifest, true).received(&story.records.received, 0)
        };
        assert!(read(&[]).is_err());
        assert!(read(&[Note::ClocksWithin { ns: 149_999_000 }]).is_err());
        assert!(read(&[Note::ClocksWithin { ns: 5_000_000_000 }]).is_ok());
        assert!(read(&[Note::ClocksWithin { ns: u64::MAX }]).is_ok());
    }

    #[test]
    fn damaged_headers_are_explained_by_the_runs_own_verdict() {
        let mut story = Story::new();
        story.sent_seq(0, 0, 1_000, Some(1_000), 0).received_seq(5_000, 0, 0, 1_000, 1);
        let mut manifest = story.manifest();
        for column in ["sent.t_sent_ps", "received.t_recv_ps"] {
            manifest.clocks.insert(column.into(), "monotonic".into());
        }
        let mut received = story.records.received.clone();
        received.newest_gen_ps[0] = 1 << 62;
        let read = |manifest: &Manifest| {
            let plausible = Plausible::of(Path::new("run"), manifest, true);
            plausible.received(&received, 0).unwrap_err().to_string()
        };
        manifest.validity.faults = vec![Fault::Interrupted {}];
        assert!(read(&manifest).contains("restore it"), "{}", read(&manifest));
        let wrong = Fault::WrongSums { packets: 41 };
        for fault in [wrong.clone(), Fault::InPart { part: "device".into(), fault: Box::new(wrong) }] {
            manifest.validity.faults = vec![fault, Fault::Interrupted {}];
            let message = read(&manifest);
            assert!(message.starts_with("run/received.parquet: row 0: t_recv_ps = 5000 lies before"), "{message}");
            assert!(message.contains("41 packets carried a wrong sum; so a header may have been damaged"), "{message}");
            assert!(message.contains("or else the file was: restore it then"), "{message}");
        }
    }
}
