//! libpcap, as a third way to listen: only in builds with the feature of that name.
//!
//! For hosts where captures must be made by the library that other tools use. The library maps the same ring as `af_packet`, so it is not
//! faster. It runs without its immediate mode, which would give each frame a slot of maximum size and a separate wake-up.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ::pcap::{Active, Capture, Direction, Linktype, Packet, Precision};
use pktgen_core::{Error, Result};

use super::grown::Grown;
use super::listen::{RETIRE_MS, Told};
use super::{Arrival, Found, Submitted, Wire, WireCounters, socket};

/// A receive-only wire.
pub(super) struct Libpcap {
    capture: Capture<Active>,
    interface: String,
    mode: String,
    received: u64,
    socket_drops: Grown,
    interface_drops: Grown,
    told: Arc<Told>,
}

impl Libpcap {
    /// Listens to all frames that arrive at the interface, `snap` bytes of each, with a ring of about `ring_bytes`.
    /// Stores the library's counts of the interface in `told`.
    pub fn open(interface: &str, snap: u32, ring_bytes: i32, told: Arc<Told>) -> Result<Self> {
        let host = |action: &str, error: ::pcap::Error| {
            Error::Host(format!(
                "this host cannot {action} {interface} by libpcap: {error}; --kind af_packet needs no library"
            ))
        };
        let inactive = Capture::from_device(interface).map_err(|e| host("capture from", e))?;
        let inactive = inactive
            .promisc(true)
            .snaplen(i32::try_from(snap).unwrap_or(i32::MAX))
            .buffer_size(ring_bytes)
            .timeout(RETIRE_MS as i32)
            .immediate_mode(false)
            .precision(Precision::Nano);
        let capture = inactive.open().map_err(|e| host("capture from", e))?;
        let link = capture.get_datalink();
        if link != Linktype::ETHERNET {
            let link = link.get_name().unwrap_or_else(|_| link.0.to_string());
            return Err(Error::Host(format!("{interface} carries {link} and not Ethernet frames, which pktgen reads")));
        }
        // Our own frames do not count as arrivals; before Linux 4.20 they take room in the ring, and libpcap skips them.
        let _ = socket::set_option(capture.as_fd(), libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1i32);
        capture.direction(Direction::In).map_err(|e| host("leave out own frames of", e))?;
        let mut capture = capture.setnonblock().map_err(|e| host("look without waiting at", e))?;
        // An empty filter tells the kernel how many bytes to keep. Without it, whole frames are copied.
        capture.filter("", true).map_err(|e| host("cut the frames of", e))?;
        // Earlier counts belong to no capture, or are garbage.
        let start = capture.stats().map_err(|e| host("count the losses of", e))?;
        let version = version();
        let mode = format!("copy, {version}, ring of {ring_bytes} B asked for, {snap} B of each frame, promiscuous");
        Ok(Libpcap {
            capture,
            interface: interface.to_owned(),
            mode,
            received: 0,
            socket_drops: Grown::from(start.dropped),
            interface_drops: Grown::from(start.if_dropped),
            told,
        })
    }
}

impl Wire for Libpcap {
    fn send(&mut self, _frames: &[&[u8]]) -> Result<Submitted> {
        let name = &self.interface;
        Err(Error::Host(format!(
            "libpcap only listens on {name}; frames are sent by the transports: pktgen list transports"
        )))
    }

    fn receive(&mut self, most: usize, each: &mut dyn FnMut(Arrival<'_>)) -> Result<Found> {
        let taken = self.capture.dispatch(Some(most), |packet| each(arrival(&packet)));
        match taken {
            Ok(taken) => {
                self.received += taken as u64;
                Ok(Found::some(taken))
            }
            Err(error) => {
                Err(Error::io("receive by libpcap from", Path::new(&self.interface))(io::Error::other(error)))
            }
        }
    }

    fn wait(&mut self, timeout_ns: u64) -> Result<()> {
        let waited = socket::wait_readable(self.capture.as_fd(), timeout_ns);
        waited.map_err(Error::io("wait for frames of", Path::new(&self.interface)))
    }

    fn counters(&mut self) -> WireCounters {
        if let Ok(now) = self.capture.stats() {
            self.socket_drops.advance(now.dropped);
            self.interface_drops.advance(now.if_dropped);
            self.told.interface_dropped.store(self.interface_drops.total, Ordering::Relaxed);
            let doubtful = self.socket_drops.backwards || self.interface_drops.backwards;
            self.told.doubtful.store(doubtful, Ordering::Relaxed);
        }
        let receive_dropped = self.socket_drops.total;
        WireCounters { received: self.received, receive_dropped, ..WireCounters::default() }
    }

    fn mode(&self) -> String {
        self.mode.clone()
    }
}

#[inline]
fn arrival<'a>(packet: &Packet<'a>) -> Arrival<'a> {
    let header = packet.header;
    // With `Precision::Nano` the field for microseconds contains nanoseconds.
    let stamp_ns = header.ts.tv_sec as u64 * 1_000_000_000 + header.ts.tv_usec as u64;
    Arrival { bytes: packet.data, len: header.len as usize, stamp_ns: Some(stamp_ns), lost: false }
}

/// Returns the library in use, by its file name: the crate does not provide its version.
fn version() -> String {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let file = maps.lines().filter_map(|line| line.rsplit('/').next()).find(|name| name.starts_with("libpcap."));
    file.unwrap_or("libpcap, linked in").to_owned()
}
