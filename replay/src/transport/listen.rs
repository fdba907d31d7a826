//! Listening: an interface whose every frame is wanted, whoever sent it.
//!
//! A capture does not send, keeps only the first bytes of a frame, and must sleep through a busy moment without losing
//! anything. So the sockets are the transports' own, with deeper rings and smaller chunks.

use std::fs;
use std::path::Path;

use pktgen_generator::{Error, Result};

use super::af_packet::{AfPacket, AfPacketOptions, RingOptions};
use super::af_xdp::{AfXdp, Options};
use super::link::{ETHERNET_HEADER, Interface};
use super::{Wire, safety};

/// What the kernel puts before a frame in a receive ring of a packet socket, about.
const RING_HEAD: u64 = 96;
/// Size of a block of such a ring. A reader gets whole blocks, so they are much smaller than the ring.
const BLOCK: u32 = 256 << 10;
/// A block that is not full is handed over after so many ms.
pub const RETIRE_MS: u32 = 2;
/// Fewest and most frames that a ring may hold.
const RING: std::ops::RangeInclusive<u32> = 64..=1 << 20;
/// The largest frame that a chunk of 2048 bytes holds, and one of 4096.
const CHUNKS: [(usize, usize); 2] = [(2048, 2048 - 256), (4096, 4096 - 256)];

/// The socket that listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListenKind {
    /// AF_XDP: takes the frames before the network stack sees them, which then does not see them.
    AfXdp,
    /// A packet socket with a ring: sees a copy of each frame, with the kernel's time stamp.
    AfPacket,
}

impl ListenKind {
    /// All kinds.
    pub const ALL: [ListenKind; 2] = [ListenKind::AfXdp, ListenKind::AfPacket];

    /// What it is called on the command line.
    pub fn name(self) -> &'static str {
        ["af_xdp", "af_packet"][self as usize]
    }
}

/// How to listen.
#[derive(Debug, Clone)]
pub struct Listen {
    /// The interface, in the network namespace of the thread that opens.
    pub interface: String,
    /// The socket.
    pub kind: ListenKind,
    /// Bytes of each frame that are wanted. A packet socket does not even copy the rest.
    pub snap: u32,
    /// Frames that the kernel holds for us while we are not looking.
    pub ring: u32,
    /// Take the frames away from an interface that carries the default route.
    pub allow_default_route: bool,
}

/// An interface that is listened to.
pub struct Listener {
    /// The open socket; it only receives.
    pub wire: Box<dyn Wire>,
    interface: Option<Interface>,
    longest: usize,
}

impl Listener {
    /// Listens to any wire: one that is no interface of this host.
    pub fn over(wire: Box<dyn Wire>) -> Self {
        Listener { wire, interface: None, longest: usize::MAX }
    }

    /// Opens the socket. Its counters, and those of the interface, start here.
    pub fn open(listen: &Listen) -> Result<Self> {
        if !RING.contains(&listen.ring) {
            let (ring, least, most) = (listen.ring, RING.start(), RING.end());
            return Err(Error::config(format!("--ring {ring}: a ring holds {least} to {most} frames")));
        }
        let interface = Interface::open(&listen.interface)?;
        let (wire, longest): (Box<dyn Wire>, _) = match listen.kind {
            ListenKind::AfXdp => {
                check_queues(&listen.interface)?;
                check_route(listen)?;
                let largest = interface.frame_max() + 4;
                let (chunk, longest) = CHUNKS.into_iter().find(|(_, room)| *room >= largest).unwrap_or(CHUNKS[1]);
                (Box::new(AfXdp::open(&Options::listening(&listen.interface, listen.ring, chunk))?), longest)
            }
            ListenKind::AfPacket => (Box::new(AfPacket::open(&listen.interface, packet_options(listen))?), usize::MAX),
        };
        Ok(Listener { wire, interface: Some(interface), longest })
    }

    /// Frames that the interface counted as dropped on the way in since it was opened. On many drivers, and on a veth,
    /// those that a full ring of ours refused are among them.
    pub fn interface_drops(&mut self) -> u64 {
        self.interface.as_mut().map_or(0, |interface| interface.drops().receive)
    }

    /// The longest frame that this socket can take, if it is shorter than the longest that may arrive.
    pub fn too_short_for(&self) -> Option<(usize, usize)> {
        let largest = self.interface.as_ref()?.frame_max();
        (self.longest < largest).then_some((self.longest, largest))
    }

    /// What a reader of the capture should know of the interface.
    pub fn facts(&self) -> Vec<(String, String)> {
        let mut facts = vec![("wire.capture".to_owned(), self.wire.mode())];
        let Some(interface) = &self.interface else { return facts };
        let name = interface.name();
        facts.extend([
            ("interface".to_owned(), name.to_owned()),
            ("driver".to_owned(), interface.driver().unwrap_or_else(|| "unknown".into())),
            ("mtu".to_owned(), (interface.frame_max() - ETHERNET_HEADER).to_string()),
        ]);
        let threaded = fs::read_to_string(Path::new("/sys/class/net").join(name).join("threaded"));
        facts.extend(threaded.map(|text| ("napi.threaded".to_owned(), text.trim().to_owned())));
        facts
    }
}

/// A packet socket has a ring in bytes.
fn packet_options(listen: &Listen) -> AfPacketOptions {
    let bytes = u64::from(listen.ring) * (u64::from(listen.snap) + RING_HEAD);
    let blocks = bytes.div_ceil(u64::from(BLOCK)).clamp(2, (1 << 31) / u64::from(BLOCK)) as u32;
    let snap_bytes = Some(listen.snap);
    let ring = RingOptions { blocks, block_bytes: BLOCK, retire_ms: RETIRE_MS, snap_bytes };
    AfPacketOptions { send_slots: 0, ring: Some(ring), ..AfPacketOptions::default() }
}

/// One socket sees one queue. What arrives on others would be missed, and not counted.
fn check_queues(interface: &str) -> Result<()> {
    let folder = Path::new("/sys/class/net").join(interface).join("queues");
    let is_receive = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with("rx-");
    let queues = fs::read_dir(&folder).map_or(1, |entries| entries.flatten().filter(is_receive).count());
    if queues > 1 {
        return Err(Error::Host(format!(
            "{interface} has {queues} receive queues, and af_xdp listens to one: ethtool -L {interface} combined 1 \
             (or rx 1), or --kind af_packet, which hears all"
        )));
    }
    Ok(())
}

/// AF_XDP takes every frame: on the way into this host, that cuts it off.
fn check_route(listen: &Listen) -> Result<()> {
    if !listen.allow_default_route && safety::carries_default_route(&listen.interface) {
        return Err(Error::Host(format!(
            "interface {} carries the host's default route, and af_xdp would take all of its frames away from the host; \
             use --kind af_packet, another interface, or --allow-default-route if that is what you want",
            listen.interface
        )));
    }
    Ok(())
}
