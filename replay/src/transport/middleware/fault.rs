//! `fault_...`: frames that are lost, doubled, overtaken or damaged on the device's two cables.
//!
//! Faults act at the device's ends, in both directions, because the books are kept there: a frame that a fault takes is
//! handed over marked ([`Arrival::lost`]) or told of after the call ([`Wire::lost`]), so that every update that was sent
//! has its row. Everywhere else a frame that vanished would leave a balance that does not close.

use std::sync::Arc;

use pktgen_generator::Result;
use pktgen_generator::config::Section;
use pktgen_generator::registry::Named;
use pktgen_generator::time::{NS, Time};
use pktgen_generator::{Error, seed::Seed};

use super::fates::{Fates, Faults};
use super::lane::Lane;
use super::{Layer, Middleware, Site};
use crate::clock::RunClock;
use crate::frame::BURST;
use crate::transport::{Arrival, End, Wire, WireCounters};

/// `fault_loss = 0.01` and its like.
pub struct Fault;

/// While a frame waits for the wire to take it, so long at most is waited for anything else.
const RETRY_NS: u64 = 50_000;

impl Named for Fault {
    fn name(&self) -> &'static str {
        "fault"
    }
    fn about(&self) -> &'static str {
        "loss, in bursts too, duplication, reordering and flipped bits at the device's ends"
    }
}

impl Middleware for Fault {
    fn keys(&self) -> &'static [&'static str] {
        Faults::KEYS
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
        Ok(Box::new(Faulty::new(*self, end, site.seed, site.frame_max, site.clock.clone(), wire)))
    }
}

/// A wire with faults.
struct Faulty {
    wire: Box<dyn Wire>,
    faults: Faults,
    end: End,
    clock: RunClock,
    outgoing: Option<Lane>,
    incoming: Option<Lane>,
    /// Of the last call that sent.
    lost: u64,
}

impl Faulty {
    fn new(faults: Faults, end: End, seed: Seed, frame_max: usize, clock: RunClock, wire: Box<dyn Wire>) -> Self {
        let lane = |up: bool| {
            let wanted = if up { faults.up } else { faults.down };
            wanted.then(|| Lane::new(Fates::new(faults, seed, end as u64, up), &faults, frame_max))
        };
        // What the device sends on its upper end goes up; what it receives there goes down.
        let up = end == End::DeviceUp;
        Faulty { wire, faults, end, clock, outgoing: lane(up), incoming: lane(!up), lost: 0 }
    }

    /// Lets go of what was held for long enough. Reads the clock only if something is held.
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

/// Sends what is ready; is nothing left?
fn drain(lane: &mut Lane, wire: &mut dyn Wire) -> Result<bool> {
    lane.pass_on(|frame| Ok::<_, Error>(wire.send(&[frame.bytes])? == 1))?;
    Ok(!lane.has_ready())
}

impl Wire for Faulty {
    fn send(&mut self, frames: &[&[u8]]) -> Result<usize> {
        self.lost = 0;
        self.expire();
        let wire = self.wire.as_mut();
        let Some(lane) = &mut self.outgoing else { return wire.send(frames) };
        if !drain(lane, wire)? {
            return Ok(0);
        }
        let frames = &frames[..frames.len().min(BURST)];
        let mut taken = 0;
        while taken < frames.len() {
            let clean = lane.clean(frames.len() - taken);
            if clean > 0 {
                let sent = wire.send(&frames[taken..taken + clean])?;
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
                    Some(true) => self.lost |= 1 << taken,
                    Some(false) => lane.keep(&frame, false),
                    None => {}
                }
                lane.release();
                taken += 1;
            }
            if !drain(lane, wire)? {
                break;
            }
        }
        if taken > 0 && lane.holds() {
            lane.touch(self.clock.now());
        }
        Ok(taken)
    }

    fn receive(&mut self, most: usize, each: &mut dyn FnMut(Arrival<'_>)) -> Result<usize> {
        self.expire();
        if let Some(lane) = &mut self.outgoing
            && lane.has_ready()
        {
            drain(lane, self.wire.as_mut())?;
        }
        let Some(lane) = &mut self.incoming else { return self.wire.receive(most, each) };
        let most = most.min(BURST);
        let before = lane.tally.frames;
        let mut given = hand_over(lane, most, each);
        if given < most {
            self.wire.receive(most - given, &mut |arrival| {
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

    fn wait(&mut self, timeout_ns: u64) -> Result<()> {
        if Self::has_ready(&self.incoming) {
            return Ok(());
        }
        let mut timeout_ns = timeout_ns;
        if Self::has_ready(&self.outgoing) {
            timeout_ns = timeout_ns.min(RETRY_NS);
        }
        let lanes = [&self.outgoing, &self.incoming].into_iter().flatten();
        if lanes.clone().any(Lane::holds) {
            let now = self.clock.now();
            let patience = lanes.filter_map(|lane| lane.patience(now)).min().unwrap_or(0);
            timeout_ns = timeout_ns.min((patience / NS) as u64);
        }
        self.wire.wait(timeout_ns)
    }

    fn flush(&mut self, timeout_ns: u64) -> Result<()> {
        // What has to wait for the wire is offered once more after it was waited for.
        if let Some(lane) = &mut self.outgoing {
            lane.release_all();
            if !drain(lane, self.wire.as_mut())? {
                self.wire.flush(timeout_ns)?;
                drain(lane, self.wire.as_mut())?;
            }
        }
        self.wire.flush(timeout_ns)
    }

    fn refuses(&self) -> bool {
        self.wire.refuses()
    }

    fn ended(&self) -> bool {
        let holds = [&self.outgoing, &self.incoming].into_iter().flatten().any(|lane| lane.holds() || lane.has_ready());
        !holds && self.wire.ended()
    }

    fn lost(&self) -> u64 {
        if self.outgoing.is_some() { self.lost } else { self.wire.lost() }
    }

    fn on_cable<'a>(&'a mut self, frame: &'a [u8]) -> &'a [u8] {
        self.wire.on_cable(frame)
    }

    fn counters(&mut self) -> WireCounters {
        self.wire.counters()
    }

    fn mode(&self) -> String {
        let which = match (&self.incoming, &self.outgoing) {
            (Some(_), Some(_)) => "both directions",
            (Some(_), None) => "what is received",
            _ => "what is sent",
        };
        format!("{}; faults on {which}: {}", self.wire.mode(), self.faults)
    }

    fn notes(&mut self) -> Vec<(String, String)> {
        let mut notes = self.wire.notes();
        for (direction, lane) in [("received", &self.incoming), ("sent", &self.outgoing)] {
            let Some(lane) = lane else { continue };
            let left = match lane.under_way() {
                0 => String::new(),
                n => format!("; {n} were still held back"),
            };
            notes.push((format!("fault.{}.{direction}", self.end.name()), format!("{}{left}", lane.tally)));
        }
        notes
    }
}

/// Hands over what is ready, at most `most`; how many were there?
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
