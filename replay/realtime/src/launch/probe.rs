//! What the probes of a device share: an exchange of frames with it, and when too many come back.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use pktgen_core::{Error, Result};

use crate::clock::Stopwatch;

/// How long copies of what was sent are waited for, after a device is ready.
const AFTER: Duration = Duration::from_millis(100);
/// So many frames that were not asked for are a flood, and so many copies of each that was, beyond a few: a host that is busy sees little of it.
const FLOOD: u64 = 10_000;
const COPIES: u64 = 10;
const FEW: u64 = 100;

/// Shows by frames that a device is ready.
pub(super) trait Probe {
    /// Sends something, and looks at what comes for a moment; whether that shows that the device is ready.
    fn exchange(&mut self) -> Result<bool>;

    /// Takes what has come, and refuses what no device that is ready does.
    fn look(&mut self) -> Result<()>;

    /// Whether the device is shown to be there, although more could be looked at.
    fn shown(&self) -> bool {
        false
    }

    /// What was missed, if the device is not ready.
    fn missed(&self) -> String;

    /// What showed that it is ready.
    fn found(&self) -> String;

    /// What was counted.
    fn seen(&self) -> &Seen;

    /// Waits for what still comes.
    fn settle(&mut self) -> Result<()> {
        let watch = Stopwatch::start();
        while watch.elapsed() < AFTER {
            std::thread::sleep(Duration::from_millis(1));
            self.look()?;
        }
        Ok(())
    }
}

/// What a probe saw on the wire.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) sent: u64,
    pub(super) came: u64,
    pub(super) unasked: u64,
}

impl Seen {
    /// Sends one of the probe's frames.
    pub(super) fn send(&mut self, over: &mut File, name: &str, frame: &[u8]) -> Result<()> {
        match over.write(frame) {
            Ok(_) => self.sent += 1,
            // An end of a cable whose other end is not up yet.
            Err(e) if [Some(libc::ENETDOWN), Some(libc::ENOBUFS), Some(libc::EAGAIN)].contains(&e.raw_os_error()) => {}
            Err(e) => return Err(Error::Host(format!("this host cannot send a marked frame over {name}: {e}"))),
        }
        Ok(())
    }

    /// Takes the frames that wait at a socket; `is_own` says which belong to the probe.
    pub(super) fn take(&mut self, from: &mut File, room: &mut [u8], mut is_own: impl FnMut(&[u8]) -> bool) {
        // So many at a time, else a flood would never let go.
        for _ in 0..FLOOD {
            match from.read(room) {
                Ok(got) if is_own(&room[..got]) => self.came += 1,
                Ok(_) => self.unasked += 1,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
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
