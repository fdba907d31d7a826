//! `fault_...`: lost, duplicated, delayed or damaged frames on the device's two cables.
//!
//! Faults apply at the device's ends, in both directions, because the books are kept there: a frame lost to a fault is
//! passed on with a mark ([`Arrival::lost`]) or reported after the call ([`Submitted::lost`]), so that every sent
//! update has its row. A frame that vanished elsewhere would leave a balance that does not close.

use std::sync::Arc;

use pktgen_core::Result;
use pktgen_core::config::{KeyTables, Section, Value};
use pktgen_core::registry::Named;
use pktgen_core::time::{NS, Time};
use pktgen_core::{Error, seed::Seed};

use super::filter::{Fetch, Filter, Filtered, Offer};
use super::lane::Lane;
use super::{Declared, Layer, Middleware, Site};
use super::{FaultStreams, Faults};
use crate::clock::RunClock;
use crate::frame::BURST;
use crate::transport::Submitted;
use crate::transport::{Arrival, End, Wire};

/// `fault_loss = 0.01` and similar keys.
pub struct Fault;

/// While a frame waits for acceptance by the wire, other waits are limited to this time.
const RETRY_NS: u64 = 50_000;

impl Named for Fault {
    fn name(&self) -> &'static str {
        "fault"
    }
    fn about(&self) -> &'static str {
        "loss (also bursty), duplication, reordering and bit errors at the device's ends"
    }
}

impl Middleware for Fault {
    fn keys(&self) -> KeyTables {
        &[Faults::KEYS]
    }

    fn declares(&self) -> Declared {
        Declared { by_time: true, virtual_time: true, ..Declared::default() }
    }

    fn sample(&self) -> Vec<(&'static str, Value)> {
        vec![("fault_loss", 1e-9.into())]
    }

    fn read(&self, section: &mut Section, linger: Time) -> Result<Option<Arc<dyn Layer>>> {
        Ok(Faults::read(section, linger)?.map(|faults| Arc::new(faults) as Arc<dyn Layer>))
    }
}

impl Layer for Faults {
    fn wrap(&self, end: End, site: &Site, wire: Box<dyn Wire>) -> Result<Box<dyn Wire>> {
        if !matches!(end, End::DeviceDown | End::DeviceUp) {
            return Ok(wire);
        }
        let filter = Faulty::new(*self, end, site.seed, site.frame_max, site.clock.clone());
        Ok(Box::new(Filtered::new(wire, filter)))
    }
}

/// Faults in both directions of an end.
struct Faulty {
    faults: Faults,
    end: End,
    clock: RunClock,
    outgoing: Option<Lane>,
    incoming: Option<Lane>,
}

impl Faulty {
    fn new(faults: Faults, end: End, seed: Seed, frame_max: usize, clock: RunClock) -> Self {
        let lane = |up: bool| {
            let wanted = if up { faults.up } else { faults.down };
            wanted.then(|| Lane::new(FaultStreams::new(faults, seed, end as u64, up), &faults, frame_max))
        };
        // Frames that the device sends on its upper end go up; those it receives there go down.
        let up = end == End::DeviceUp;
        Faulty { faults, end, clock, outgoing: lane(up), incoming: lane(!up) }
    }

    /// Releases frames that were held long enough. Reads the clock only if frames are held.
    fn expire(&mut self) {
        let (clock, mut now) = (self.clock.clone(), None);
        let lanes = [&mut self.outgoing, &mut self.incoming].into_iter().flatten();
        for lane in lanes.filter(|lane| lane.holds()) {
            lane.expire(*now.get_or_insert_with(|| clock.now()));
        }
    }

    fn has_ready(lane: &Option<Lane>) -> bool {
        lane.as_ref().is_some_and(Lane::has_ready)
    }
}

/// Sends ready frames; returns whether none is left.
fn drain(lane: &mut Lane, offer: &mut Offer<'_>) -> Result<bool> {
    lane.pass_on(|frame| Ok::<_, Error>(offer(&[frame.bytes])?.taken == 1))?;
    Ok(!lane.has_ready())
}

impl Filter for Faulty {
    fn outward(&mut self, frames: &[&[u8]], offer: &mut Offer<'_>) -> Result<Submitted> {
        let Some(lane) = &mut self.outgoing else { return offer(frames) };
        let frames = &frames[..frames.len().min(BURST)];
        let (mut taken, mut lost) = (0, 0);
        while taken < frames.len() {
            let clean = lane.clean(frames.len() - taken);
            if clean > 0 {
                let sent = offer(&frames[taken..taken + clean])?.taken;
                lane.passed(sent);
                taken += sent;
                if sent < clean {
                    break;
                }
            } else {
                let bytes = frames[taken];
                if bytes.len() > lane.frame_max() {
                    return Err(Error::Invalid(format!(
                        "a frame of {} bytes was to be sent, and the run's largest has {}",
                        bytes.len(),
                        lane.frame_max()
                    )));
                }
                let frame = Arrival { bytes, len: bytes.len(), stamp_ns: None, lost: false };
                match lane.strike(&frame) {
                    Some(true) => lost |= 1 << taken,
                    Some(false) => lane.keep(&frame, false),
                    None => {}
                }
                lane.release();
                taken += 1;
            }
            if !drain(lane, offer)? {
                break;
            }
        }
        if taken > 0 && lane.holds() {
            lane.touch(self.clock.now());
        }
        Ok(Submitted { taken, lost, refused: false })
    }

    fn inward(&mut self, most: usize, fetch: &mut Fetch<'_>, each: &mut dyn FnMut(Arrival<'_>)) -> Result<usize> {
        let Some(lane) = &mut self.incoming else { return fetch(most, each) };
        let most = most.min(BURST);
        let before = lane.tally.frames;
        // Alone: callers read the clock once per call, and frames that are fetched after it may be sent during it.
        let mut given = hand_over(lane, most, each);
        if given == 0 {
            fetch(most, &mut |arrival| {
                match lane.strike(&arrival) {
                    Some(lost) if given < most => {
                        each(Arrival { lost, ..arrival });
                        given += 1;
                    }
                    Some(lost) => lane.keep(&arrival, lost),
                    None => {}
                }
                lane.release();
                given += hand_over(lane, most - given, each);
            })?;
        }
        if lane.tally.frames > before && lane.holds() {
            lane.touch(self.clock.now());
        }
        Ok(given)
    }

    fn due_ns(&self) -> Option<u64> {
        if Self::has_ready(&self.incoming) {
            return Some(0);
        }
        let retry_ns = Self::has_ready(&self.outgoing).then_some(RETRY_NS);
        let lanes = [&self.outgoing, &self.incoming].into_iter().flatten().filter(|lane| lane.holds());
        // Reads the clock only if frames are held.
        let mut now = None;
        let held = lanes.filter_map(|lane| lane.patience(*now.get_or_insert_with(|| self.clock.now())));
        held.map(|patience| (patience / NS) as u64).chain(retry_ns).min()
    }

    fn release(&mut self, all: bool, offer: &mut Offer<'_>) -> Result<bool> {
        if !all {
            self.expire();
        }
        let Some(lane) = &mut self.outgoing else { return Ok(true) };
        if all {
            lane.release_all();
        }
        drain(lane, offer)
    }

    fn mode(&self) -> String {
        let which = match (&self.incoming, &self.outgoing) {
            (Some(_), Some(_)) => "both directions",
            (Some(_), None) => "what is received",
            _ => "what is sent",
        };
        format!("faults on {which}: {}", self.faults)
    }

    fn notes(&mut self) -> Vec<(String, String)> {
        let lanes = [("received", &self.incoming), ("sent", &self.outgoing)];
        let note = |(direction, lane): (&str, &Option<Lane>)| {
            let lane = lane.as_ref()?;
            let left = match lane.under_way() {
                0 => String::new(),
                n => format!("; {n} were still held back"),
            };
            Some((format!("fault.{}.{direction}", self.end.name()), format!("{}{left}", lane.tally)))
        };
        lanes.into_iter().filter_map(note).collect()
    }
}

/// Passes on ready frames, at most `most`; returns their number.
fn hand_over(lane: &mut Lane, most: usize, each: &mut dyn FnMut(Arrival<'_>)) -> usize {
    let mut given = 0;
    let passed = lane.pass_on(|arrival| {
        let room = given < most;
        if room {
            each(arrival);
            given += 1;
        }
        Ok::<_, std::convert::Infallible>(room)
    });
    let Ok(()) = passed;
    given
}

#[cfg(test)]
#[path = "fault_tests.rs"]
mod tests;
