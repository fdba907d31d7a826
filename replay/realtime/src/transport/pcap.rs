//! Capture files instead of wires: a role writes what it would send, and the next role reads it. So each role runs
//! alone, in the files' time and at full speed, on our captures or on foreign ones.
//!
//! `transport.files` names two files, one per cable. Files contain one direction: from the workers to the device, from
//! the device to the server. Frames in the other direction (ACKs) are dropped and counted in the mode.
//!
//! Time is that of [`FileClock`]: it stands still while a role works, and waiting advances it to the end of the wait or
//! to the next frame's time. A frame is read at exactly the time at which it was written, so ages survive from role to
//! role: times are relative to an anchor noted in a pcapng file ([`Reader::anchor_unix_ns`]), and written files have
//! the anchor of those that were read. Without a file to read the anchor is 1970: the times in the file are the run's
//! own, in either form. A recent capture without a noted anchor begins at its first frame.

use std::path::{Path, PathBuf};

use pktgen_core::registry::Named;
use pktgen_core::time::{HORIZON, NEVER, NS, Time};
use pktgen_core::{Error, Result};
use pktgen_wire::pcap::{ETHERNET, Form, Reader, Writer, WriterOptions};
use pktgen_wire::wire::frame::TAGS_MAX;

use super::{Arrival, Capabilities, End, Found, Ports, Submitted, Transport, TransportPlan, Wire, WireCounters};
use crate::clock::FileClock;

/// Bytes that are kept of a frame beyond the longest one: tags that a device may add to raw frames, and a step of the buffers of pools, so that
/// longer foreign frames, which are passed on cut, are still too long to be taken for ours.
const BEYOND: usize = TAGS_MAX + 64;

/// `kind = "pcap"`.
pub(crate) struct CaptureFiles;

impl Named for CaptureFiles {
    fn name(&self) -> &'static str {
        "pcap"
    }
    fn about(&self) -> &'static str {
        "pcap or pcapng files, in virtual time, one role after the other; ACKs are dropped"
    }
}

impl Transport for CaptureFiles {
    fn capabilities(&self) -> Capabilities {
        Capabilities { own_time: true, ..Capabilities::CABLES }
    }

    fn check_together(&self, plan: &TransportPlan, ends: &[End]) -> Result<()> {
        let role = |end: &End| [0, 1, 1, 2][*end as usize];
        if ends.iter().any(|end| role(end) != role(&ends[0])) {
            return Err(Error::config(
                "transport.kind = \"pcap\": a file is written by one role and then read by the next; run the roles one \
                 after the other: pktgen replay --role workers, pktgen target, pktgen capture",
            ));
        }
        for end in ends {
            let path = file(plan, *end)?;
            if let End::Workers | End::DeviceUp = end {
                form(path)?;
            }
        }
        Ok(())
    }

    fn open(&self, plan: &TransportPlan, ends: &[End], frame_max: usize) -> Result<Vec<Ports>> {
        self.check_together(plan, ends)?;
        let clock = &plan.file_clock;
        clock.restart(0);
        let mut wires: Vec<Option<Box<dyn Wire>>> = ends.iter().map(|_| None).collect();
        // Readers first: they provide the anchor.
        for reads in [true, false] {
            for (wire, end) in wires.iter_mut().zip(ends) {
                *wire = match end {
                    End::DeviceDown | End::Server if reads => {
                        Some(Box::new(Incoming::open(file(plan, *end)?, clock, frame_max + BEYOND)?))
                    }
                    End::Workers | End::DeviceUp if !reads => {
                        Some(Box::new(Outgoing::create(file(plan, *end)?, clock)?))
                    }
                    _ => continue,
                };
            }
        }
        Ok(wires.into_iter().zip(ends).filter_map(|(wire, end)| Some(Ports::one(*end, wire?))).collect())
    }
}

/// Returns the file of an end's cable.
fn file(plan: &TransportPlan, end: End) -> Result<&Path> {
    match plan.files.get(end as usize / 2) {
        Some(name) if !name.is_empty() => Ok(Path::new(name)),
        _ => Err(Error::config(format!(
            "transport.files has {} names, and that of the cable of {} is needed; give two, as [\"workers.pcapng\", \
             \"server.pcapng\"]: workers - device, device - server (\"\" for one that this role has not)",
            plan.files.len(),
            end.name()
        ))),
    }
}

/// Returns the form of a file that is written.
fn form(path: &Path) -> Result<Form> {
    match path.extension().and_then(|e| e.to_str()) {
        Some("pcap") => Ok(Form::Pcap),
        Some("pcapng") => Ok(Form::Pcapng),
        _ => {
            let message = "what is written ends in .pcap or .pcapng, which says its form";
            Err(Error::config(format!("transport.files: \"{}\": {message}", path.display())))
        }
    }
}

/// A writing end: the workers', or the device's towards the server.
struct Outgoing {
    clock: FileClock,
    writer: Writer,
    path: PathBuf,
    counters: WireCounters,
}

impl Outgoing {
    fn create(path: &Path, clock: &FileClock) -> Result<Self> {
        let form = form(path)?;
        if path.exists() {
            let message = "exists, and may be all there is of a capture; remove it, or name another";
            return Err(Error::config(format!("transport.files: \"{}\" {message}", path.display())));
        }
        let options = WriterOptions { anchor_unix_ns: clock.anchor_unix_ns(), ..WriterOptions::new(form) };
        let writer = Writer::create_new(path, options)?;
        Ok(Outgoing { clock: clock.clone(), writer, path: path.to_owned(), counters: WireCounters::default() })
    }
}

impl Wire for Outgoing {
    fn send(&mut self, frames: &[&[u8]]) -> Result<Submitted> {
        let now = self.clock.now();
        for frame in frames {
            self.writer.packet(0, now, frame, frame.len() as u32)?;
        }
        self.counters.sent += frames.len() as u64;
        Ok(Submitted::all(frames.len()))
    }

    fn receive(&mut self, _most: usize, _each: &mut dyn FnMut(Arrival<'_>)) -> Result<Found> {
        Ok(Found::default())
    }

    fn wait(&mut self, timeout_ns: u64) -> Result<()> {
        wait(&self.clock, timeout_ns);
        Ok(())
    }

    fn flush(&mut self, _timeout_ns: u64) -> Result<()> {
        self.writer.flush()
    }

    fn counters(&mut self) -> WireCounters {
        self.counters
    }

    fn mode(&self) -> String {
        let anchor = self.clock.anchor_unix_ns();
        format!("writes {} in the files' time, from {anchor} ns since 1970; nothing comes back", self.path.display())
    }
}

/// A reading end: the device's towards the workers, or the server's.
struct Incoming {
    clock: FileClock,
    reader: Reader,
    path: PathBuf,
    /// The anchor; known once the first frame is read.
    anchor_unix_ns: Option<u64>,
    /// The next frame, cut to the maximum of the caller.
    frame: Vec<u8>,
    frame_max: usize,
    len: usize,
    /// Its arrival; [`NEVER`] if there is none.
    t: Time,
    /// Damage after the last frame.
    damage: Option<Error>,
    /// Frames sent in this direction, for which there is no file.
    dropped: u64,
    counters: WireCounters,
}

impl Incoming {
    fn open(path: &Path, clock: &FileClock, frame_max: usize) -> Result<Self> {
        let mut incoming = Incoming {
            clock: clock.clone(),
            reader: Reader::open(path)?,
            path: path.to_owned(),
            anchor_unix_ns: None,
            frame: Vec::with_capacity(frame_max),
            frame_max,
            len: 0,
            t: 0,
            damage: None,
            dropped: 0,
            counters: WireCounters::default(),
        };
        let first = incoming.load();
        clock.restart(*incoming.anchor_unix_ns.get_or_insert(0));
        incoming.reached(first);
        Ok(incoming)
    }

    /// Sets the time of the next frame in the clock.
    fn reached(&mut self, next: Result<Option<Time>>) {
        match next {
            Ok(t) => {
                self.t = t.unwrap_or(NEVER);
                self.clock.set_arrival(self.t);
            }
            Err(damage) => {
                self.t = NEVER;
                self.damage = Some(damage);
                // Reported at once, not after a wait for a missing frame.
                self.clock.set_arrival(self.clock.now());
            }
        }
    }

    /// Reads the next frame, and returns its arrival.
    #[inline]
    fn load(&mut self) -> Result<Option<Time>> {
        let noted = self.reader.noted_anchor_unix_ns();
        let anchor = self.anchor_unix_ns.or(noted);
        let Some(packet) = self.reader.next()? else {
            self.anchor_unix_ns = anchor;
            return Ok(None);
        };
        if packet.link_type != ETHERNET {
            let what = format!("packets of link type {}; only Ethernet (1) is read", packet.link_type);
            return Err(Error::data(&self.path, what));
        }
        self.frame.clear();
        self.frame.extend_from_slice(&packet.bytes[..packet.bytes.len().min(self.frame_max)]);
        self.len = packet.len as usize;
        // A packet without a time arrives together with the previous one.
        let Some(time) = packet.time else { return Ok(Some(self.t)) };
        let anchor = anchor.unwrap_or_else(|| self.reader.anchor_unix_ns(time));
        self.anchor_unix_ns = Some(anchor);
        match time.since(anchor) {
            Some(t) if t <= HORIZON => Ok(Some((t + NS - 1).div_euclid(NS) * NS)),
            _ => {
                let at = time.unix_ns();
                let what = format!("a packet at {at} ns since 1970, more than 26 days after the beginning at {anchor}");
                Err(Error::data(&self.path, what))
            }
        }
    }
}

impl Incoming {
    /// Returns the result for `frames` frames; the end is reached without a next frame or damage.
    fn found(&self, frames: usize) -> Found {
        Found { frames, ended: self.t == NEVER && self.damage.is_none() }
    }
}

impl Wire for Incoming {
    fn send(&mut self, frames: &[&[u8]]) -> Result<Submitted> {
        self.dropped += frames.len() as u64;
        self.counters.sent += frames.len() as u64;
        Ok(Submitted::all(frames.len()))
    }

    fn receive(&mut self, most: usize, each: &mut dyn FnMut(Arrival<'_>)) -> Result<Found> {
        let now = self.clock.now();
        for taken in 0..most {
            if self.t > now {
                return match self.damage.take() {
                    // Frames before the damage come first.
                    Some(damage) if taken == 0 => {
                        self.clock.set_arrival(NEVER);
                        Err(damage)
                    }
                    damage => {
                        self.damage = damage;
                        Ok(self.found(taken))
                    }
                };
            }
            each(Arrival { bytes: &self.frame, len: self.len, stamp_ns: None, lost: false });
            self.counters.received += 1;
            let next = self.load();
            self.reached(next);
        }
        Ok(self.found(most))
    }

    fn wait(&mut self, timeout_ns: u64) -> Result<()> {
        wait(&self.clock, timeout_ns);
        Ok(())
    }

    fn counters(&mut self) -> WireCounters {
        self.counters
    }

    fn mode(&self) -> String {
        format!("reads {} in its own time; frames the other way have no file and are dropped", self.path.display())
    }

    /// Returns notes that were not known when it was opened.
    fn notes(&mut self) -> Vec<(String, String)> {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let mut notes = vec![(format!("pcap.dropped.{name}"), self.dropped.to_string())];
        notes.extend(self.anchor_unix_ns.map(|ns| (format!("pcap.anchor_unix_ns.{name}"), ns.to_string())));
        notes
    }
}

fn wait(clock: &FileClock, timeout_ns: u64) {
    clock.wait_until(clock.now() + timeout_ns.min((HORIZON / NS) as u64) as Time * NS);
}

#[cfg(test)]
mod tests;
