//! The protocol: messages, their order, and forbidden behaviour of a device. All integers are little-endian.
//!
//! Frames for the device wait in a buffer until it has to advance, so an exchange takes one call out and one or two in.

use std::io::{ErrorKind, Read, Write};

use pktgen_core::time::{HORIZON, NEVER, Time};
use pktgen_core::units::Span;
use pktgen_core::{Error, Result};

use super::process::Process;
use crate::clock::Stopwatch;
use crate::counters;
use crate::target::remote::Advanced;

/// The version of the protocol.
const VERSION: u16 = 1;
/// Maximum bytes of a message after its length.
const MESSAGE_MAX: usize = 65_536;
/// Maximum bytes that are buffered while the device need not advance.
const WRITE_AT: usize = 1 << 16;
/// Maximum number of frames that may leave at one instant.
const FRAMES_MAX: usize = 1 << 16;

/// Kinds of messages.
mod kind {
    pub(super) const HELLO: u8 = 1;
    pub(super) const WELCOME: u8 = 2;
    pub(super) const FRAME_IN: u8 = 3;
    pub(super) const ADVANCE: u8 = 4;
    pub(super) const FRAME_OUT: u8 = 5;
    pub(super) const ADVANCED: u8 = 6;
    pub(super) const COUNTERS: u8 = 7;
    pub(super) const COUNTED: u8 = 8;
    pub(super) const QUIT: u8 = 9;
}

/// A session with a device.
pub(super) struct Session {
    process: Process,
    ports: u16,
    /// Messages to be written.
    out: Vec<u8>,
    /// Received bytes; those from `begin` on are unread.
    input: Vec<u8>,
    begin: usize,
    end: usize,
    /// The time to which the device has advanced.
    reached: Time,
    /// The time of the last frame in or out.
    last: Time,
}

/// Reads numbers from the front of a message's body.
struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    fn time(&mut self) -> Option<Time> {
        self.take().map(Time::from_le_bytes)
    }

    /// Returns whether nothing is left.
    fn is_over(&self) -> bool {
        self.0.is_empty()
    }
}

impl Session {
    /// Exchanges greetings with a device, which must have `ports` ports.
    pub(super) fn begin(process: Process, ports: u16, seed: u64) -> Result<Session> {
        let room = MESSAGE_MAX + 4;
        let mut own = Session {
            process,
            ports,
            out: Vec::with_capacity(2 * WRITE_AT),
            input: vec![0; 2 * room],
            begin: 0,
            end: 0,
            reached: Time::MIN,
            last: Time::MIN,
        };
        own.greet(seed)?;
        Ok(own)
    }

    fn greet(&mut self, seed: u64) -> Result<()> {
        let (kind, at) = self.message(&Stopwatch::start())?;
        let mut body = Body(&self.input[at.0..at.1]);
        let fields = (body.u16(), body.u16(), body.time());
        let ((kind::HELLO, true), (Some(version), Some(ports), Some(clock_ps))) = ((kind, at.1 > at.0), fields) else {
            return Err(
                self.wrong(format!("its first message is of kind {kind}, {} bytes, instead of a hello", at.1 - at.0))
            );
        };
        let name = String::from_utf8_lossy(body.0).into_owned();
        if version != VERSION {
            return Err(self.wrong(format!("it speaks version {version}, and this program {VERSION}")));
        }
        if ports != self.ports {
            let needed = self.ports;
            return Err(
                self.wrong(format!("it has {ports} ports, and this network gives it {needed} links (topology)"))
            );
        }
        if clock_ps < 0 {
            return Err(self.wrong(format!("its clock has a period of {clock_ps} ps")));
        }
        if !name.is_empty() {
            self.process.name = name;
        }
        self.put(kind::WELCOME, &[&VERSION.to_le_bytes(), &seed.to_le_bytes()]);
        self.write()
    }

    /// Sends a frame to the device.
    pub(super) fn frame_in(&mut self, t: Time, port: u16, frame: &[u8]) -> Result<()> {
        self.last = self.last.max(t);
        self.put(kind::FRAME_IN, &[&t.to_le_bytes(), &port.to_le_bytes(), frame]);
        if self.out.len() >= WRITE_AT { self.write() } else { Ok(()) }
    }

    /// Advances the device up to `until`; calls `each` with time, port and bytes of each departing frame.
    pub(super) fn advance(&mut self, until: Time, each: &mut dyn FnMut(Time, u16, &[u8])) -> Result<Advanced> {
        self.put(kind::ADVANCE, &[&until.to_le_bytes()]);
        self.write()?;
        let since = Stopwatch::start();
        let (mut left, mut frames) = (None, 0);
        loop {
            let (kind, at) = self.message(&since)?;
            let mut body = Body(&self.input[at.0..at.1]);
            match kind {
                kind::FRAME_OUT => {
                    let (Some(t), Some(port)) = (body.time(), body.u16()) else { return Err(self.cut(kind)) };
                    frames += 1;
                    if let Some(why) = self.refused(t, port, until, left).or_else(|| flood(frames)) {
                        return Err(self.wrong(why));
                    }
                    left = Some(t);
                    self.last = self.last.max(t);
                    each(t, port, body.0);
                }
                kind::ADVANCED => {
                    let (Some(t), Some(next), true) = (body.time(), body.time(), body.is_over()) else {
                        return Err(self.cut(kind));
                    };
                    return self.advanced(t, next, left.unwrap_or(until));
                }
                other => return Err(self.wrong(format!("it answers advance with a message of kind {other}"))),
            }
        }
    }

    /// Returns why a frame may not leave at that time and port, if so.
    fn refused(&self, t: Time, port: u16, until: Time, left: Option<Time>) -> Option<String> {
        if t < self.reached {
            return Some(format!("it goes back in time: a frame leaves at {t} ps, and it was at {} ps", self.reached));
        }
        if t > until {
            return Some(format!("a frame leaves at {t} ps, beyond {until} ps, up to which it was to act"));
        }
        if left.is_some_and(|left| left != t) {
            return Some(format!("frames of one answer leave at {} ps and at {t} ps", left.unwrap_or(t)));
        }
        (port >= self.ports).then(|| format!("a frame leaves by port {port}, and it has {}", self.ports))
    }

    fn advanced(&mut self, t: Time, next: Time, expected: Time) -> Result<Advanced> {
        if t != expected {
            return Err(self.wrong(format!("it says that it advanced to {t} ps, and it had to, to {expected} ps")));
        }
        if next != -1 && next < t {
            return Err(self.wrong(format!("it goes back in time: it is at {t} ps, and acts next at {next} ps")));
        }
        self.reached = t;
        // All events up to and including t are done.
        Ok(Advanced { t, next: if next == -1 { NEVER } else { next.max(t + 1) } })
    }

    /// Requests the device's counters, and ends it.
    pub(super) fn end(&mut self) -> Result<Vec<(String, u64)>> {
        self.put(kind::COUNTERS, &[]);
        self.write()?;
        let (kind, at) = self.message(&Stopwatch::start())?;
        if kind != kind::COUNTED {
            return Err(self.wrong(format!("it answers counters with a message of kind {kind}")));
        }
        let counted = counters::parse(&self.input[at.0..at.1])
            .map_err(|e| self.wrong(format!("its counters are no JSON object of whole numbers: {e}")))?;
        self.put(kind::QUIT, &[]);
        self.write()?;
        if self.process.is_own() {
            match self.process.ended() {
                None => {
                    return Err(
                        self.wrong(format!("it did not end within {:?} when it was to quit", self.process.timeout))
                    );
                }
                Some(status) if !status.success() => return Err(self.wrong(format!("it ended with {status}"))),
                Some(_) => {}
            }
        }
        Ok(counted.into_iter().collect())
    }

    fn put(&mut self, kind: u8, parts: &[&[u8]]) {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        self.out.extend_from_slice(&(len as u32 + 1).to_le_bytes());
        self.out.push(kind);
        parts.iter().for_each(|part| self.out.extend_from_slice(part));
    }

    fn write(&mut self) -> Result<()> {
        let written = self.process.stream.write_all(&self.out);
        self.out.clear();
        written.map_err(|e| match e.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                self.wrong(format!("it does not read what it is sent within {:?}", self.process.timeout))
            }
            _ => self.gone(),
        })
    }

    /// Returns the next message: its kind, and the position of its body in the input. `since` measures the device's time to answer.
    fn message(&mut self, since: &Stopwatch) -> Result<(u8, (usize, usize))> {
        loop {
            let have = self.end - self.begin;
            if let Some((length, _)) = self.input[self.begin..self.end].split_first_chunk::<4>() {
                let length = u32::from_le_bytes(*length) as usize;
                if !(1..=MESSAGE_MAX).contains(&length) {
                    return Err(self.wrong(format!("a message has {length} bytes; 1 to {MESSAGE_MAX} are possible")));
                }
                if have >= 4 + length {
                    let at = self.begin + 4;
                    self.begin = at + length;
                    return Ok((self.input[at], (at + 1, at + length)));
                }
            }
            self.read(since)?;
        }
    }

    /// Reads more of the input.
    fn read(&mut self, since: &Stopwatch) -> Result<()> {
        if self.begin == self.end {
            (self.begin, self.end) = (0, 0);
        } else if self.begin > 0 && self.input.len() - self.end < MESSAGE_MAX + 4 {
            self.input.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
        }
        let silent = |own: &Self| own.wrong(format!("it does not answer within {:?}", own.process.timeout));
        if since.elapsed() >= self.process.timeout {
            return Err(silent(self));
        }
        match self.process.stream.read(&mut self.input[self.end..]) {
            Ok(0) => Err(self.gone()),
            Ok(got) => {
                self.end += got;
                Ok(())
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => Ok(()),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Err(silent(self)),
            Err(_) => Err(self.gone()),
        }
    }

    /// Returns the error for the end of the connection.
    fn gone(&mut self) -> Error {
        match self.process.ended() {
            Some(status) => self.wrong(format!("it ended during the run ({status})")),
            None => self.wrong("it closed the connection during the run"),
        }
    }

    fn cut(&self, kind: u8) -> Error {
        self.wrong(format!("a message of kind {kind} has another length than it must have"))
    }

    /// Returns the error for a misbehaviour of the device, with its time.
    fn wrong(&self, what: impl std::fmt::Display) -> Error {
        // Without further events a device has advanced to the end of time.
        let at = if self.reached < HORIZON { self.reached } else { self.last };
        let when = if at == Time::MIN { "at the beginning".to_owned() } else { format!("after {}", Span::from_ps(at)) };
        Error::Host(format!("target.lockstep: {}, {when}: {what} (docs/lockstep.md)", self.process.name))
    }
}

/// Returns the reason if there are too many frames.
fn flood(frames: usize) -> Option<String> {
    (frames > FRAMES_MAX).then(|| format!("more than {FRAMES_MAX} frames leave at one instant"))
}
