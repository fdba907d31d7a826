//! What shows that a device is ready: marked frames that come out where they should, or a file. An exit code never does.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use pktgen_core::{Error, Result};
use pktgen_wire::device::{Addresses, CableEnd, Hop, Station};
use pktgen_wire::wire::frame::Template;

use super::kernel::readable;
use super::session::Launched;
use super::settings::{Launch, Ready};
use crate::clock::Stopwatch;
use crate::transport::{End, TransportPlan, all_frames};

/// One marked frame in so long.
const PAUSE_MS: i32 = 20;
/// How long copies of marked frames are waited for, after the first came.
const AFTER: Duration = Duration::from_millis(100);
/// So many frames that were not asked for are a flood, and so many copies of marked frames.
const FLOOD: u64 = 10_000;
const COPIES: u64 = 1000;
/// Bytes of a marked frame, without a tag; what it says; and the UDP port that it is for, which discards it.
const BYTES: usize = 106;
const MARK: &[u8] = b"pktgen launch probe ";
const DISCARD: u16 = 9;

/// How a device became ready.
#[derive(Debug, Clone)]
pub(crate) struct Readiness {
    /// Time from its start.
    pub(crate) after: Duration,
    /// What showed it.
    pub(crate) by: String,
    /// Frames that came and were not asked for.
    pub(crate) unasked: u64,
}

/// What a probe saw on the wire.
#[derive(Default)]
struct Seen {
    sent: u64,
    came: u64,
    unasked: u64,
}

/// Waits until a device is ready, or says why it is not.
pub(crate) fn await_ready(
    launch: &Launch,
    device: &Launched,
    transport: &TransportPlan,
    addresses: &Addresses,
) -> Result<Readiness> {
    let within = Duration::from_nanos((launch.timeout.ps() / 1000).max(0) as u64);
    let mut marks = match launch.ready {
        Ready::Forward => Some(Marks::open(transport, addresses)?),
        Ready::File => None,
    };
    let after = loop {
        if device.is_dead() {
            return Err(Error::Invalid(format!("not ready: {}", device.obituary())));
        }
        let ready = match (&mut marks, &launch.file) {
            (Some(marks), _) => marks.exchange()?,
            (None, Some(file)) => {
                std::thread::sleep(Duration::from_millis(PAUSE_MS as u64));
                device.has_file(file)?
            }
            (None, None) => true,
        };
        if ready {
            break device.watch.elapsed();
        }
        if device.watch.elapsed() > within {
            let what = match &marks {
                Some(marks) => marks.nothing(),
                None => format!("there is no {}", launch.file.as_deref().unwrap_or_default()),
            };
            return Err(Error::Invalid(format!(
                "not ready: {what} within {} (target.launch.timeout){}",
                launch.timeout,
                device.last_words()
            )));
        }
    };
    let Some(mut marks) = marks else {
        let by = format!("file: {} is there", launch.file.as_deref().unwrap_or_default());
        return Ok(Readiness { after, by, unasked: 0 });
    };
    marks.settle()?;
    let Seen { sent, came, unasked } = marks.seen;
    let by = format!("forward: {came} of {sent} marked frames came out at {}", marks.to);
    Ok(Readiness { after, by, unasked })
}

/// Marked frames, and where they come out.
struct Marks {
    frame: Vec<u8>,
    from: String,
    to: String,
    out: File,
    /// The far end, if it is another interface.
    back: Option<File>,
    seen: Seen,
}

impl Marks {
    fn open(transport: &TransportPlan, addresses: &Addresses) -> Result<Marks> {
        let from = transport.interface_at(End::Workers).unwrap_or_default();
        let to = if transport.has_server { transport.interface_at(End::Server) } else { None };
        let to = to.filter(|to| !to.is_empty() && *to != from);
        let frame = marked(addresses, transport.has_server)?;
        let open = |interface: &str| all_frames(interface).map(File::from);
        let (out, back) = (open(&from)?, to.as_deref().map(open).transpose()?);
        Ok(Marks { frame, to: to.unwrap_or_else(|| from.clone()), from, out, back, seen: Seen::default() })
    }

    /// Sends one, and looks at what comes for a moment; whether a marked frame came.
    fn exchange(&mut self) -> Result<bool> {
        match self.out.write(&self.frame) {
            Ok(_) => self.seen.sent += 1,
            // An end of a cable whose other end is not up yet.
            Err(e) if [Some(libc::ENETDOWN), Some(libc::ENOBUFS), Some(libc::EAGAIN)].contains(&e.raw_os_error()) => {}
            Err(e) => return Err(Error::Host(format!("this host cannot send a marked frame over {}: {e}", self.from))),
        }
        let watch = Stopwatch::start();
        let pause = Duration::from_millis(PAUSE_MS as u64);
        while watch.elapsed() < pause && self.seen.came == 0 {
            let left = pause.saturating_sub(watch.elapsed()).as_millis() as i32;
            readable(self.back.as_ref().unwrap_or(&self.out).as_fd(), left.max(1));
            self.look()?;
        }
        Ok(self.seen.came > 0)
    }

    /// Takes what has come, and refuses a flood.
    fn look(&mut self) -> Result<()> {
        let mut room = [0; 256];
        let mark = &self.frame[self.frame.len() - BYTES + 42..];
        for (socket, counts) in [(Some(&mut self.out), self.back.is_none()), (self.back.as_mut(), true)] {
            let Some(socket) = socket else { continue };
            // So many at a time, else a flood would never let go.
            for _ in 0..FLOOD {
                match socket.read(&mut room) {
                    Ok(got) if counts && room[..got].windows(mark.len()).any(|part| part == mark) => {
                        self.seen.came += 1
                    }
                    Ok(_) => self.seen.unasked += 1,
                    Err(e) if e.kind() == ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
        }
        match self.seen.came > self.seen.sent + COPIES || self.seen.unasked > FLOOD {
            true => Err(Error::Invalid(format!(
                "not ready: the device floods: {} frames that were not asked for and {} copies of {} marked frames came",
                self.seen.unasked, self.seen.came, self.seen.sent
            ))),
            false => Ok(()),
        }
    }

    /// Waits for what still comes.
    fn settle(&mut self) -> Result<()> {
        let watch = Stopwatch::start();
        while watch.elapsed() < AFTER {
            std::thread::sleep(Duration::from_millis(1));
            self.look()?;
        }
        Ok(())
    }

    fn nothing(&self) -> String {
        let Seen { sent, unasked, .. } = self.seen;
        format!(
            "none of {sent} marked frames that left at {} came out at {} ({unasked} others came)",
            self.from, self.to
        )
    }
}

/// A frame from worker 0 to the server, or to worker 1 where there is no server, that no system takes for its own.
fn marked(addresses: &Addresses, has_server: bool) -> Result<Vec<u8>> {
    let lacking = || {
        Error::config(
            "target.launch.ready = \"forward\": the profile says nobody whom worker 0 could send to; give addressing.server, or \
             another way to be ready",
        )
    };
    let from = *addresses.workers.first().ok_or_else(lacking)?;
    let to: Station = match has_server {
        true => addresses.peer(CableEnd::Server).ok_or_else(lacking)?,
        false => *addresses.workers.get(1).ok_or_else(lacking)?,
    };
    let hop = match addresses.hop {
        Hop::Direct => to.mac,
        Hop::Device => addresses.device.map_or(to.mac, |device| device.mac),
    };
    let mut frame = vec![0; BYTES];
    Template::new((from.ip.0, DISCARD), (to.ip.0, DISCARD), BYTES).emit(&mut frame);
    frame[..6].copy_from_slice(&hop.0);
    frame[6..12].copy_from_slice(&from.mac.0);
    frame[42..42 + MARK.len()].copy_from_slice(MARK);
    let own = format!("{:08x} {:016x}", std::process::id(), crate::clock::unix_ns());
    frame[42 + MARK.len()..][..own.len()].copy_from_slice(own.as_bytes());
    if addresses.vlan > 0 {
        let tag = [0x81, 0x00, (addresses.vlan >> 8) as u8, addresses.vlan as u8];
        frame.splice(12..12, tag);
    }
    Ok(frame)
}
