//! Frames of a capture, as they are.

use std::path::Path;
use std::sync::Arc;

use super::{BeginAgain, FlowSurvey, RawFrames, RawSource};
use crate::config::Section;
use crate::pcap::{ETHERNET, Reader};
use crate::registry::find;
use crate::schedule::{SCHEDULES, Tempo};
use crate::time::{HORIZON, Time, too_late};
use crate::wire::frame::FRAME_MAX;
use crate::{Error, Result};

/// Most bytes of frames, which are held in memory.
const BYTES_MAX: usize = 1 << 30;
/// The shortest frame: addresses and type.
const SHORTEST: usize = 14;

/// Frames in memory.
#[derive(Default)]
struct HeldFrames {
    bytes: Vec<u8>,
    /// Time of each, and where it ends.
    ends: Vec<(Time, usize)>,
}

/// One pass over them: all passes share what was read.
pub(super) struct Recorded {
    held: Arc<HeldFrames>,
    at: usize,
}

impl RawFrames for Recorded {
    fn next(&mut self, frame: &mut Vec<u8>) -> Option<Time> {
        let HeldFrames { bytes, ends } = &*self.held;
        let (t, end) = *ends.get(self.at)?;
        let from = self.at.checked_sub(1).map_or(0, |before| ends[before].1);
        frame.extend_from_slice(&bytes[from..end]);
        self.at += 1;
        Some(t)
    }

    fn failure(&self) -> Option<&str> {
        None
    }

    fn again(&self) -> Option<BeginAgain<Self>> {
        let held = self.held.clone();
        Some(Box::new(move || Recorded { held: held.clone(), at: 0 }))
    }
}

/// Opens the capture at `path`; its first frame is at time 0.
pub(super) fn open(path: &str, section: &Section, schedule: &mut Section) -> Result<RawSource<Recorded>> {
    let place = section.place("frames");
    let kind: String = schedule.get("kind", "as_recorded")?;
    find(SCHEDULES, "schedule", &kind, &schedule.place("kind"))?;
    schedule.settle("kind", "as_recorded");
    let (frames, survey) = read(Path::new(path), &place)?;
    let is_scaled = !Tempo::of_trace(&mut schedule.clone())?.is_none();
    if let Some((last, _)) = frames.held.ends.last().filter(|(last, _)| !is_scaled && *last > HORIZON) {
        let what = format!("{place}: the last packet");
        return Err(Error::config(too_late(&what, *last as f64, "cut the capture, or raise schedule.speed")));
    }
    Ok(RawSource::new(frames, Arc::new(survey.flows), survey.frame_max))
}

/// Reads the frames of a capture and finds their flows.
fn read(path: &Path, place: &str) -> Result<(Recorded, FlowSurvey)> {
    let refuse =
        |n: usize, why: String| Err(Error::config(format!("{place}: packet {n} of {}: {why}", path.display())));
    let mut reader = Reader::open(path).map_err(|error| match error {
        Error::Io { source, .. } => Error::config(format!(
            "{place} = \"{}\": it cannot be read: {source}; give the path of a capture from the folder that pktgen runs in",
            path.display()
        )),
        other => other,
    })?;
    let mut frames = HeldFrames::default();
    let mut survey = FlowSurvey::default();
    let mut anchor = None;
    while let Some(packet) = reader.next()? {
        let n = frames.ends.len() + 1;
        if packet.link_type != ETHERNET {
            return refuse(
                n,
                format!("its link type is {}, and frames of Ethernet ({ETHERNET}) are sent", packet.link_type),
            );
        }
        if (packet.len as usize) > packet.bytes.len() {
            let (kept, len) = (packet.bytes.len(), packet.len);
            return refuse(
                n,
                format!("only {kept} of its {len} bytes were kept; capture whole packets (tcpdump -s 0)"),
            );
        }
        if !(SHORTEST..=FRAME_MAX).contains(&packet.bytes.len()) {
            return refuse(
                n,
                format!("it has {} bytes; frames of {SHORTEST} to {FRAME_MAX} can be sent", packet.bytes.len()),
            );
        }
        let Some(stamp) = packet.time else {
            return refuse(n, "it has no time, so there is none to send it at".to_owned());
        };
        let unix_ps = stamp.unix_ps();
        let first_ps = *anchor.get_or_insert(unix_ps);
        let last = frames.ends.last().map_or(0, |(t, _)| *t);
        let Some(t) = unix_ps.checked_sub(first_ps).and_then(|ps| Time::try_from(ps).ok()) else {
            return refuse(n, "its time is farther from the first packet's than a run can last".to_owned());
        };
        survey.add(packet.bytes, place)?;
        frames.bytes.extend_from_slice(packet.bytes);
        if frames.bytes.len() > BYTES_MAX {
            return refuse(n, format!("more than {} MiB of frames; split the capture", BYTES_MAX >> 20));
        }
        // Captures of several queues may be out of order by a little: no frame leaves before one that stands ahead of it.
        frames.ends.push((t.max(last), frames.bytes.len()));
    }
    if frames.ends.is_empty() {
        return Err(Error::config(format!("{place}: there is no packet in {}", path.display())));
    }
    Ok((Recorded { held: Arc::new(frames), at: 0 }, survey))
}

/// The frames of a capture as patterns, without their times.
pub(super) fn patterns(path: &str, place: &str) -> Result<Vec<Vec<u8>>> {
    let (mut frames, _) = read(Path::new(path), place)?;
    let mut patterns = Vec::new();
    let mut frame = Vec::new();
    while frames.next(&mut frame).is_some() {
        patterns.push(std::mem::take(&mut frame));
    }
    Ok(patterns)
}
