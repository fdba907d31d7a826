//! Capturing: every frame of an interface, from any sender.
//!
//! A capture does not send, keeps only the first bytes of a frame, and must sleep through a busy moment without losing
//! anything. So the sockets are the transports' own, with deeper rings and smaller chunks.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pktgen_core::{Error, Result};

use super::af_packet::{AfPacketOptions, RingOptions, open_queues as open_packet};
use super::af_xdp::{Options, open_queues as open_xdp};
use super::gather::{Over, Receiver, Tally, gather};
use super::link::{ETHERNET_HEADER, Interface};
use super::stamps::{Stamps, check_card};
use super::{Fanout, QUEUES_MAX, Wire, queues, safety};

/// What the kernel puts before a frame in a receive ring of a packet socket, about.
const RING_HEAD: u64 = 96;
/// Size of a block of such a ring. A reader gets whole blocks, so they are much smaller than the ring.
const BLOCK: u32 = 256 << 10;
/// A block that is not full is handed over after so many ms.
pub(crate) const RETIRE_MS: u32 = 2;
/// Fewest and most frames that a ring may hold.
const RING: std::ops::RangeInclusive<u32> = 64..=1 << 20;
/// The largest frame that a chunk of 2048 bytes holds, and one of 4096.
const CHUNKS: [(usize, usize); 2] = [(2048, 2048 - 256), (4096, 4096 - 256)];

/// Nothing is wrong with the command, and another build can do it; so it is the host's lack.
const NO_LIBPCAP: &str = "this pktgen was built without libpcap: apt-get install libpcap-dev && cargo build --release \
                          --features libpcap, or --kind af_packet, which receives the same and needs no library";

/// The socket that listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListenKind {
    /// AF_XDP: takes the frames before the network stack sees them, which then does not see them.
    AfXdp,
    /// A packet socket with a ring: sees a copy of each frame, with the kernel's time stamp.
    AfPacket,
    /// libpcap: as a packet socket, by the library that tcpdump uses; in builds with the feature `libpcap`.
    Libpcap,
}

impl ListenKind {
    /// All kinds.
    pub const ALL: [ListenKind; 3] = [ListenKind::AfXdp, ListenKind::AfPacket, ListenKind::Libpcap];

    /// What it is called on the command line.
    pub fn name(self) -> &'static str {
        ["af_xdp", "af_packet", "libpcap"][self as usize]
    }

    /// Who stamps frames, unless the card is asked.
    fn stamps(self) -> Stamps {
        match self {
            ListenKind::AfXdp => Stamps::None,
            ListenKind::AfPacket | ListenKind::Libpcap => Stamps::Kernel,
        }
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
    /// Stamps of the card, by its own clock, instead of the kernel's.
    pub card_stamps: bool,
    /// Queues that are read, each by a thread of its own.
    pub queues: u32,
    /// Frames that the kernel holds for us while we are not looking.
    pub ring: u32,
    /// Take the frames away from an interface that carries the default route.
    pub allow_default_route: bool,
}

impl Listen {
    /// What clock stamps are of, if there are any.
    pub fn stamps(&self) -> Option<String> {
        let who = if self.card_stamps { Stamps::Card } else { self.kind.stamps() };
        who.domain(&self.interface)
    }
}

/// What a wire counted of its interface beside its own frames.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Frames that it says the interface dropped since it was opened.
    pub interface_dropped: AtomicU64,
    /// A counter of losses ran backwards, so that its total cannot be relied on.
    pub doubtful: AtomicBool,
}

/// An interface that is listened to.
pub struct Listener {
    /// The open socket; it only receives.
    pub wire: Box<dyn Wire>,
    /// Receivers of other queues than the first, which feed the wire.
    pub(crate) receivers: Vec<Receiver>,
    /// Ends them when it is dropped.
    pub(crate) over: Option<Over>,
    /// What each queue did.
    pub(crate) tally: Option<Tally>,
    interface: Option<Interface>,
    longest: usize,
    told: Arc<Told>,
}

impl Listener {
    /// Listens to any wire: one that is no interface of this host.
    pub fn over(wire: Box<dyn Wire>) -> Self {
        let told = Arc::default();
        Listener { wire, receivers: Vec::new(), over: None, tally: None, interface: None, longest: usize::MAX, told }
    }

    /// Opens the socket. Its counters, and those of the interface, start here.
    pub fn open(listen: &Listen) -> Result<Self> {
        if !RING.contains(&listen.ring) {
            let (ring, least, most) = (listen.ring, RING.start(), RING.end());
            return Err(Error::config(format!("--ring {ring}: a ring holds {least} to {most} frames")));
        }
        // Said whatever the interface is.
        check_build(listen.kind, cfg!(feature = "libpcap"))?;
        let interface = Interface::open(&listen.interface)?;
        let (told, mut longest, snap) = (Arc::default(), usize::MAX, listen.snap as usize);
        check_number(listen)?;
        check_stamps(listen, &interface)?;
        let mut wires: Vec<Box<dyn Wire>> = match listen.kind {
            ListenKind::AfXdp => {
                check_queues(listen)?;
                check_route(listen)?;
                let largest = interface.frame_max() + 4;
                let (chunk, room) = CHUNKS.into_iter().find(|(_, room)| *room >= largest).unwrap_or(CHUNKS[1]);
                longest = room;
                boxed(open_xdp(&Options::listening(&listen.interface, listen.ring, chunk), listen.queues)?)
            }
            ListenKind::AfPacket => {
                boxed(open_packet(&listen.interface, packet_options(listen), listen.queues, Fanout::Hash)?)
            }
            ListenKind::Libpcap => vec![open_libpcap(listen, &told)?],
        };
        let interface = Some(interface);
        if wires.len() == 1 {
            let wire = wires.remove(0);
            return Ok(Listener { interface, longest, told, ..Listener::over(wire) });
        }
        let (gathered, receivers) = gather(wires, "capture", snap)?;
        let (over, tally) = (Some(gathered.over()), Some(gathered.tally()));
        Ok(Listener { wire: Box::new(gathered), receivers, over, tally, interface, longest, told })
    }

    /// Frames that the interface counted as dropped on the way in since it was opened. On many drivers, and on a veth,
    /// those that a full ring of ours refused are among them.
    pub(crate) fn interface_drops(&mut self) -> u64 {
        let counted = self.interface.as_mut().map_or(0, |interface| interface.drops().receive);
        // Two readings of the same counters, of which neither need have all.
        counted.max(self.told.interface_dropped.load(Ordering::Relaxed))
    }

    /// Why what was counted as lost cannot be relied on, if it cannot.
    pub(crate) fn doubt(&self) -> Option<&'static str> {
        let doubtful = self.told.doubtful.load(Ordering::Relaxed);
        doubtful
            .then_some("a counter of losses ran backwards while it was read: how many frames were lost is not known")
    }

    /// The longest frame that this socket can take, if it is shorter than the longest that may arrive.
    pub(crate) fn too_short_for(&self) -> Option<(usize, usize)> {
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

/// Whether a build with or without libpcap can listen so.
fn check_build(kind: ListenKind, libpcap: bool) -> Result<()> {
    if kind == ListenKind::Libpcap && !libpcap { Err(Error::Host(NO_LIBPCAP.into())) } else { Ok(()) }
}

/// Blocks for so many frames: a packet socket has a ring in bytes.
fn blocks(listen: &Listen) -> u32 {
    let bytes = u64::from(listen.ring) * (u64::from(listen.snap) + RING_HEAD);
    bytes.div_ceil(u64::from(BLOCK)).clamp(2, (1 << 31) / u64::from(BLOCK)) as u32
}

fn packet_options(listen: &Listen) -> AfPacketOptions {
    let blocks = blocks(listen);
    let snap_bytes = Some(listen.snap);
    let ring =
        RingOptions { blocks, block_bytes: BLOCK, retire_ms: RETIRE_MS, snap_bytes, card_stamps: listen.card_stamps };
    AfPacketOptions { send_slots: 0, ring: Some(ring), ..AfPacketOptions::default() }
}

#[cfg(feature = "libpcap")]
fn open_libpcap(listen: &Listen, told: &Arc<Told>) -> Result<Box<dyn Wire>> {
    // Blocks of libpcap are as large as ours; it takes their number in bytes, as a C int.
    let bytes = i32::try_from(u64::from(blocks(listen)) * u64::from(BLOCK)).unwrap_or(i32::MAX);
    Ok(Box::new(super::libpcap::Libpcap::open(&listen.interface, listen.snap, bytes, told.clone())?))
}

#[cfg(not(feature = "libpcap"))]
fn open_libpcap(_: &Listen, _: &Arc<Told>) -> Result<Box<dyn Wire>> {
    Err(Error::Host(NO_LIBPCAP.into()))
}

fn boxed<W: Wire + 'static>(wires: Vec<W>) -> Vec<Box<dyn Wire>> {
    wires.into_iter().map(|wire| Box::new(wire) as Box<dyn Wire>).collect()
}

/// Refuses stamps of a card from a socket that does not tell them, or of a card that makes none.
fn check_stamps(listen: &Listen, interface: &Interface) -> Result<()> {
    if !listen.card_stamps {
        return Ok(());
    }
    if listen.kind != ListenKind::AfPacket {
        let kind = listen.kind.name();
        return Err(Error::config(format!("--stamps card: {kind} does not tell them; use --kind af_packet")));
    }
    check_card(interface, "--stamps card", "--stamps kernel")
}

/// Refuses more queues than there are, and those of a library that knows none.
fn check_number(listen: &Listen) -> Result<()> {
    let Listen { interface, kind, queues, .. } = listen;
    if !(1..=QUEUES_MAX).contains(queues) {
        return Err(Error::config(format!("--queues {queues}: 1 to {QUEUES_MAX} are possible")));
    }
    if *queues > 1 && *kind == ListenKind::Libpcap {
        return Err(Error::config(format!(
            "--queues {queues}: libpcap reads all queues by one socket; use --kind af_packet"
        )));
    }
    let has = queues::count(Path::new("/sys/class/net"), interface).map_or(*queues, |(receive, _)| receive);
    if *queues > has {
        return Err(Error::Host(format!(
            "--queues {queues}, and {interface} has {has} receive queues; ask for {has}, or give it more: ethtool -L \
             {interface} combined {queues}, or rx {queues}"
        )));
    }
    Ok(())
}

/// One socket sees one queue. What arrives on others would be missed, and not counted.
fn check_queues(listen: &Listen) -> Result<()> {
    let Listen { interface, queues, .. } = listen;
    let has = queues::count(Path::new("/sys/class/net"), interface).map_or(*queues, |(receive, _)| receive);
    if has != *queues {
        return Err(Error::Host(format!(
            "{interface} has {has} receive queues, and af_xdp listens to {queues}: --queues {has}, or ethtool -L {interface} \
             combined {queues} (or rx {queues}), or --kind af_packet, which reads all"
        )));
    }
    Ok(())
}

/// AF_XDP takes every frame: on the way into this host, that cuts it off.
fn check_route(listen: &Listen) -> Result<()> {
    safety::check_taking(&listen.interface, "af_xdp", listen.allow_default_route)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The build is at fault and not the command, and the message has the remedy.
    #[test]
    fn a_build_without_libpcap_says_so() {
        for kind in ListenKind::ALL {
            assert!(check_build(kind, true).is_ok());
            assert_eq!(check_build(kind, false).is_ok(), kind != ListenKind::Libpcap);
        }
        let Err(Error::Host(text)) = check_build(ListenKind::Libpcap, false) else { panic!("the host lacks it") };
        for part in ["without libpcap", "libpcap-dev", "--features libpcap", "--kind af_packet"] {
            assert!(text.contains(part), "{part} is in: {text}");
        }
    }
}
