//! The common part of the probes of a device: an exchange of frames, and detection of floods.

use std::time::Duration;

use pktgen_core::{Error, Result};

use crate::clock::Stopwatch;
use crate::transport::AllFrames;

/// Wait for copies of sent frames after a device is ready.
const AFTER: Duration = Duration::from_millis(100);
/// Limit of unrequested frames, above which the device floods, and limit of copies per sent frame, plus a few: a busy
/// host sees only a part of a flood.
const FLOOD: u64 = 10_000;
const COPIES: u64 = 10;
const FEW: u64 = 100;

/// A probe that shows by frames that a device is ready.
pub(super) trait Probe {
    /// Sends frames and polls for answers briefly; returns whether the device is shown to be ready.
    fn exchange(&mut self) -> Result<bool>;

    /// Takes received frames, and refuses what no ready device does.
    fn look(&mut self) -> Result<()>;

    /// Returns whether the device is shown to be there, although more could be checked.
    fn shown(&self) -> bool {
        false
    }

    /// Returns whether it must go on although its time is over: the device would be left with content of the probe.
    fn is_midway(&self) -> bool {
        false
    }

    /// Returns what was missing if the device is not ready.
    fn missed(&self) -> String;

    /// Returns the evidence that it is ready.
    fn found(&self) -> String;

    /// Returns the counts.
    fn seen(&self) -> &Seen;

    /// Waits for late frames.
    fn settle(&mut self) -> Result<()> {
        let watch = Stopwatch::start();
        while watch.elapsed() < AFTER {
            std::thread::sleep(Duration::from_millis(1));
            self.look()?;
        }
        Ok(())
    }
}

/// The frames that a probe saw on the wire.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) sent: u64,
    pub(super) came: u64,
    pub(super) unasked: u64,
}

impl Seen {
    /// Sends one of the probe's frames.
    pub(super) fn send(&mut self, over: &mut AllFrames, name: &str, frame: &[u8]) -> Result<()> {
        match over.send(frame) {
            Ok(()) => self.sent += 1,
            // The other end of the cable is not up yet.
            Err(e) if [Some(libc::ENETDOWN), Some(libc::ENOBUFS), Some(libc::EAGAIN)].contains(&e.raw_os_error()) => {}
            Err(e) => return Err(Error::Host(format!("this host cannot send a marked frame over {name}: {e}"))),
        }
        Ok(())
    }

    /// Takes the frames that wait at a socket; `is_own` selects those that belong to the probe.
    pub(super) fn take(&mut self, from: &mut AllFrames, mut is_own: impl FnMut(&[u8]) -> bool) {
        // Bounded, since a flood would never end.
        let mut left = FLOOD as usize;
        while left > 0 {
            let got = from.take(|frame| match is_own(frame) {
                true => self.came += 1,
                false => self.unasked += 1,
            });
            match got {
                0 => break,
                got => left = left.saturating_sub(got),
            }
        }
    }

    /// Refuses a flood.
    pub(super) fn check(&self) -> Result<()> {
        match self.came > self.sent * COPIES + FEW || self.unasked > FLOOD {
            true => Err(Error::Invalid(format!(
                "not ready: the device floods: {} frames that were not asked for and {} answers to {} marked frames came",
                self.unasked, self.came, self.sent
            ))),
            false => Ok(()),
        }
    }
}
