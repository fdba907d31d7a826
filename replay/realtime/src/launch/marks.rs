//! The probe with marked frames, which must leave at the right port.

use std::os::fd::AsFd;
use std::time::Duration;

use pktgen_core::{Error, Result};
use pktgen_wire::device::{Addresses, CableEnd, Hop, Station};
use pktgen_wire::wire::frame::Template;

use super::kernel::readable;
use super::probe::{Probe, Seen};
use crate::clock::Stopwatch;
use crate::transport::{AllFrames, End, TransportPlan};

/// Interval of marked frames.
const PAUSE: Duration = Duration::from_millis(20);
/// Bytes of a marked frame, without a tag; room for one with tags; its content; and its UDP port, which discards it.
const BYTES: usize = 106;
const ROOM: usize = 256;
const MARK: &[u8] = b"pktgen launch probe ";
const DISCARD: u16 = 9;

/// Marked frames, and the interface where they should leave.
pub(super) struct Marks {
    frame: Vec<u8>,
    from: String,
    to: String,
    out: AllFrames,
    /// The far end, if it is another interface.
    back: Option<AllFrames>,
    seen: Seen,
}

impl Marks {
    /// Opens the probe; `key` names the key that requests it.
    pub(super) fn open(key: &str, transport: &TransportPlan, addresses: &Addresses) -> Result<Marks> {
        transport.guard(End::Workers)?;
        let from = transport.interface_at(End::Workers).unwrap_or_default();
        let to = if transport.has_server { transport.interface_at(End::Server) } else { None };
        let to = to.filter(|to| !to.is_empty() && *to != from);
        let frame = marked(key, addresses, transport.has_server)?;
        let open = |interface: &str| AllFrames::open(interface, ROOM);
        let (out, back) = (open(&from)?, to.as_deref().map(open).transpose()?);
        Ok(Marks { frame, to: to.unwrap_or_else(|| from.clone()), from, out, back, seen: Seen::default() })
    }
}

impl Probe for Marks {
    fn exchange(&mut self) -> Result<bool> {
        self.seen.send(&mut self.out, &self.from, &self.frame)?;
        let watch = Stopwatch::start();
        while watch.elapsed() < PAUSE && self.seen.came == 0 {
            let left = PAUSE.saturating_sub(watch.elapsed()).as_millis() as i32;
            readable(self.back.as_ref().unwrap_or(&self.out).as_fd(), left.max(1));
            self.look()?;
        }
        Ok(self.seen.came > 0)
    }

    fn look(&mut self) -> Result<()> {
        let mark = &self.frame[self.frame.len() - BYTES + 42..];
        for (socket, counts) in [(Some(&mut self.out), self.back.is_none()), (self.back.as_mut(), true)] {
            let Some(socket) = socket else { continue };
            self.seen.take(socket, |frame| counts && frame.windows(mark.len()).any(|part| part == mark));
        }
        self.seen.check()
    }

    fn missed(&self) -> String {
        let Seen { sent, unasked, .. } = self.seen;
        format!(
            "none of {sent} marked frames that left at {} came out at {} ({unasked} others came)",
            self.from, self.to
        )
    }

    fn found(&self) -> String {
        let Seen { sent, came, .. } = self.seen;
        format!("forward: {came} of {sent} marked frames came out at {}", self.to)
    }

    fn seen(&self) -> &Seen {
        &self.seen
    }
}

/// Returns whether these bytes are a marked frame, with or without a tag.
pub(crate) fn is_marked(frame: &[u8]) -> bool {
    [42, 46].into_iter().any(|at| frame.get(at..).is_some_and(|payload| payload.starts_with(MARK)))
}

/// Makes a frame from worker 0 to the server, or to worker 1 without a server, that no system takes for its own.
fn marked(key: &str, addresses: &Addresses, has_server: bool) -> Result<Vec<u8>> {
    let lacking = || {
        Error::config(format!(
            "{key} = \"forward\": the profile has no receiver for frames of worker 0; set addressing.server, or \
             choose another probe"
        ))
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
