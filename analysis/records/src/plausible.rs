//! Values that no run can have written: refused by file, row and column before anything is computed from them.
//!
//! Called by [`crate::run`]. Times of one clock only are compared, and those of real time with the slack of clocks that were joined.

use std::path::Path;

use pktgen_core::record::{Manifest, Note, RECEIVED, SENT};
use pktgen_core::time::{MS, SECOND, Time};
use pktgen_core::{Error, Result};

use crate::fates::is_update;
use crate::run::Records;

/// How far times of joined parts may be apart (`pktgen merge`), and those of frames that left before they were due.
const SLACK: Time = 100 * MS;
/// Longer than any run.
const LONGEST: Time = 30 * 24 * 3600 * SECOND;

/// Refuses records with an impossible value. Synchronous training has results without generation times: `ages` is false there.
pub(crate) fn check(dir: &Path, manifest: &Manifest, records: &Records, ages: bool) -> Result<()> {
    let clock = |column: &str| manifest.clocks.get(column).map(String::as_str);
    let (sent_by, received_by) = (clock("sent.t_sent_ps"), clock("received.t_recv_ps"));
    let slack = if sent_by == Some("virtual") { 0 } else { SLACK };
    let top = manifest.validity.notes.iter().any(|note| matches!(note, Note::TopSpeed {}));
    let refuse = |stream: &str, row: usize, what: String| {
        Err(Error::Invalid(format!(
            "{}: row {row}: {what}; the file was damaged or changed: restore it, or --no-verify to read it all the same",
            dir.join(format!("{stream}.parquet")).display()
        )))
    };
    let sent = &records.sent;
    for (row, (&made, &left)) in sent.t_gen_ps.iter().zip(&sent.t_sent_ps).enumerate() {
        if !(-slack..LONGEST).contains(&made) {
            return refuse(SENT, row, format!("t_gen_ps = {made} is no time of a run"));
        }
        // Frames that leave as fast as they can do not wait for their schedule.
        if let Some(left) = left.filter(|left| !top && *left < made.saturating_sub(slack)) {
            return refuse(SENT, row, format!("t_sent_ps = {left} lies before t_gen_ps = {made}"));
        }
    }
    let received = &records.received;
    for (row, &arrived) in received.t_recv_ps.iter().enumerate() {
        if !is_update(received.cluster[row]) || sent_by != received_by {
            continue;
        }
        if !(-slack..LONGEST).contains(&arrived) {
            return refuse(RECEIVED, row, format!("t_recv_ps = {arrived} is no time of a run"));
        }
        let made = received.newest_gen_ps[row];
        if ages && !top && arrived < made.saturating_sub(slack) {
            return refuse(
                RECEIVED,
                row,
                format!("t_recv_ps = {arrived} lies before newest_gen_ps = {made}: a negative age"),
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Story;

    #[test]
    fn impossible_times_are_named() {
        let told = |clock: &str, change: fn(&mut Records)| {
            let mut story = Story::new();
            story.sent_seq(0, 0, 1_000, Some(1_000), 0).received_seq(5_000, 0, 0, 1_000, 1);
            let mut manifest = story.manifest();
            for column in ["sent.t_sent_ps", "received.t_recv_ps"] {
                manifest.clocks.insert(column.into(), clock.into());
            }
            let mut records = story.records.clone();
            change(&mut records);
            check(Path::new("run"), &manifest, &records, true).map_err(|error| error.to_string())
        };
        assert_eq!(told("virtual", |_| {}), Ok(()));
        let early = |records: &mut Records| records.received.t_recv_ps[0] = 999;
        let message = told("virtual", early).unwrap_err();
        let place = "run/received.parquet: row 0: t_recv_ps = 999 lies before newest_gen_ps = 1000: a negative age";
        assert!(message.starts_with(place), "{message}");
        assert_eq!(told("monotonic", early), Ok(()), "clocks that were joined");
        assert!(told("monotonic", |records| records.received.t_recv_ps[0] = -SECOND).is_err());
        let message = told("virtual", |records| records.sent.t_sent_ps[0] = Some(10)).unwrap_err();
        assert!(
            message.starts_with("run/sent.parquet: row 0: t_sent_ps = 10 lies before t_gen_ps = 1000"),
            "{message}"
        );
        assert!(told("virtual", |records| records.sent.t_gen_ps[0] = i64::MAX).is_err());
        assert!(told("monotonic", |records| records.received.newest_gen_ps[0] = i64::MAX / 2).is_err());
    }
}
