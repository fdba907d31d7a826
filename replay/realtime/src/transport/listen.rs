//! Listening for captures: all frames of an interface, from any sender.
//!
//! A capture does not send, keeps only the first bytes of a frame, and must bridge busy periods without losses. So it
//! uses the transports' sockets, with deeper rings and smaller chunks.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pktgen_core::{Error, Result};
use pktgen_wire::wire::frame::TAGS_MAX;

use super::af_packet::{AfPacketOptions, BLOCK_HEAD, RingOptions, open_queues as open_packet};
use super::af_xdp::{Options, open_queues as open_xdp};
use super::gather::{Over, Receiver, Tally, gather};
use super::link::{ETHERNET_HEADER, Interface, stamping};
use super::stamps::{Stamps, check_card};
use super::{Fanout, QUEUES_MAX, Wire, ethtool, queues, safety};
use crate::clock::monotonic_ns;

/// Approximate size of the kernel's header before a frame in a packet socket's receive ring.
const RING_HEAD: u32 = 96;
/// Least size of a block of such a ring. A reader gets whole blocks, so they are much smaller than the ring.
const BLOCK: u32 = 64 << 10;
/// Time in ms after which a partial block is handed over. When few frames come, each block holds this time, whatever its size: the ring
/// bridges as many times this as it has blocks.
pub(crate) const RETIRE_MS: u32 = 10;
/// Permitted numbers of frames in a ring.
const RING: std::ops::RangeInclusive<u32> = 64..=1 << 20;
/// Chunk sizes, with the largest frame that each holds.
const CHUNKS: [(usize, usize); 2] = [(2048, 2048 - 256), (4096, 4096 - 256)];

/// The command is correct, and another build supports it; so this is an error of the host.
const NO_LIBPCAP: &str = "this pktgen was built without libpcap: apt-get install libpcap-dev && cargo build --release \
                          --features libpcap, or --kind af_packet, which receives the same and needs no library";

/// The socket for listening.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListenKind {
    /// AF_XDP: takes the frames before the network stack, which does not see them.
    AfXdp,
    /// A packet socket with a ring: sees a copy of each frame, with the kernel's time stamp.
    AfPacket,
    /// libpcap: like a packet socket, by the library of tcpdump; in builds with the feature `libpcap`.
    Libpcap,
}

impl ListenKind {
    /// All kinds.
    pub const ALL: [ListenKind; 3] = [ListenKind::AfXdp, ListenKind::AfPacket, ListenKind::Libpcap];

    /// Returns its name on the command line.
    pub fn name(self) -> &'static str {
        ["af_xdp", "af_packet", "libpcap"][self as usize]
    }

    /// Returns the source of stamps, unless the card is requested.
    fn stamps(self) -> Stamps {
        match self {
            ListenKind::AfXdp => Stamps::None,
            ListenKind::AfPacket | ListenKind::Libpcap => Stamps::Kernel,
        }
    }
}

/// Options for listening.
#[derive(Debug, Clone)]
pub struct Listen {
    /// The interface, in the network namespace of the opening thread.
    pub interface: String,
    /// The socket.
    pub kind: ListenKind,
    /// Number of bytes of each frame to keep. A packet socket does not even copy the rest.
    pub snap: u32,
    /// Whether to use stamps of the card, by its own clock, instead of the kernel's.
    pub card_stamps: bool,
    /// Number of queues, each read by a separate thread.
    pub queues: u32,
    /// Number of frames that the kernel buffers while we are busy.
    pub ring: u32,
    /// Whether to take the frames of an interface that carries the default route.
    pub allow_default_route: bool,
}

impl Listen {
    /// Returns the clock of the stamps, if there are any.
    pub fn stamps(&self) -> Option<String> {
        let who = if self.card_stamps { Stamps::Card } else { self.kind.stamps() };
        who.domain(&self.interface)
    }
}

/// Counts of an interface by a wire, beside its own frames.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Drops of the interface since it was opened, as reported.
    pub interface_dropped: AtomicU64,
    /// Whether a counter of losses ran backwards, so that its total is unreliable.
    pub doubtful: AtomicBool,
}

/// Frames that a listening end lost, by the kernel's counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Dropped {
    /// Of its sockets; of receivers that still run by their last count.
    pub by_socket: u64,
    /// Of the interface, on arrival, since it was opened. On many drivers, and on a veth, they include those that a full ring refused.
    pub by_interface: u64,
}

/// An open listening end.
pub struct Listener {
    /// The open socket; it only receives.
    pub wire: Box<dyn Wire>,
    /// Receivers of further queues, which feed the wire.
    pub(crate) receivers: Vec<Receiver>,
    /// Ends them on drop.
    pub(crate) over: Option<Over>,
    /// Counts of each queue.
    pub(crate) tally: Option<Tally>,
    /// When the socket was open, by the monotonic clock.
    pub(crate) opened_ns: i64,
    interface: Option<Interface>,
    longest: usize,
    told: Arc<Told>,
    /// Whether the interface's counters could not be read at the last attempt.
    uncounted: bool,
}

impl Listener {
    /// Listens to any wire, such as one that is not an interface of this host.
    pub fn over(wire: Box<dyn Wire>) -> Self {
        Listener {
            wire,
            receivers: Vec::new(),
            over: None,
            tally: None,
            opened_ns: monotonic_ns(),
            interface: None,
            longest: usize::MAX,
            told: Arc::default(),
            uncounted: false,
        }
    }

    /// Opens the socket. Its counters, and those of the interface, start here.
    pub fn open(listen: &Listen) -> Result<Self> {
        if !RING.contains(&listen.ring) {
            let (ring, least, most) = (listen.ring, RING.start(), RING.end());
            return Err(Error::config(format!("--ring {ring}: a ring holds {least} to {most} frames")));
        }
        // Checked first, for any interface.
        check_build(listen.kind, cfg!(feature = "libpcap"))?;
        let interface = Interface::open(&listen.interface)?;
        let (told, mut longest, snap) = (Arc::default(), usize::MAX, listen.snap as usize);
        // Frames of other queues than those counted are missed, and routes matter if frames are taken.
        if listen.kind == ListenKind::AfXdp || listen.queues > 1 {
            safety::check_namespace()?;
        }
        check_number(listen)?;
        check_stamps(listen, &interface)?;
        let mut wires: Vec<Box<dyn Wire>> = match listen.kind {
            ListenKind::AfXdp => {
                check_queues(listen)?;
                check_route(listen)?;
                let largest = interface.frame_max() + TAGS_MAX;
                let (chunk, room) = CHUNKS.into_iter().find(|(_, room)| *room >= largest).unwrap_or(CHUNKS[1]);
                longest = room;
                boxed(open_xdp(&Options::listening(&listen.interface, listen.ring, chunk), listen.queues)?)
            }
            ListenKind::AfPacket => {
                boxed(open_packet(&listen.interface, packet_options(listen), listen.queues, Fanout::Hash)?)
            }
            ListenKind::Libpcap => vec![open_libpcap(listen, &told)?],
        };
        let opened_ns = monotonic_ns();
        // Frames that came before there was a socket are no losses of this capture.
        let interface = Some(Interface::open(&listen.interface)?);
        if wires.len() == 1 {
            let wire = wires.remove(0);
            return Ok(Listener { opened_ns, interface, longest, told, ..Listener::over(wire) });
        }
        let (gathered, receivers) = gather(wires, "capture", snap)?;
        let (over, tally) = (Some(gathered.over()), Some(gathered.tally()));
        let wire = Box::new(gathered);
        Ok(Listener { receivers, over, tally, opened_ns, interface, longest, told, ..Listener::over(wire) })
    }

    /// Returns the lost frames so far. What a full ring of AF_XDP refuses counts at its socket first, then at the interface, which is
    /// therefore read before the socket: otherwise frames refused meanwhile were lost by the interface alone.
    pub(crate) fn dropped(&mut self) -> Dropped {
        let drops = self.interface.as_mut().map(Interface::drops);
        self.uncounted = drops == Some(None);
        let counted = drops.flatten().unwrap_or_default().receive;
        let by_socket = self.wire.counters().receive_dropped;
        // Two readings of the same counters, neither of which need be complete.
        Dropped { by_socket, by_interface: counted.max(self.told.interface_dropped.load(Ordering::Relaxed)) }
    }

    /// Returns why the count of losses is unreliable, if it is.
    pub(crate) fn doubt(&self) -> Option<&'static str> {
        if self.told.doubtful.load(Ordering::Relaxed) {
            return Some("a counter of losses ran backwards while it was read: how many frames were lost is not known");
        }
        self.uncounted.then_some(
            "the counters of the interface could not be read at the end (it is gone, or in another network namespace): \
             how many frames it dropped is not known",
        )
    }

    /// Returns the longest frame that this socket can take and the longest that may arrive, if the former is shorter.
    pub(crate) fn too_short_for(&self) -> Option<(usize, usize)> {
        let largest = self.interface.as_ref()?.frame_max();
        (self.longest < largest).then_some((self.longest, largest))
    }

    /// Returns facts about the interface for readers of the capture.
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

/// Checks whether this build, with or without libpcap, supports the kind.
fn check_build(kind: ListenKind, libpcap: bool) -> Result<()> {
    if kind == ListenKind::Libpcap && !libpcap { Err(Error::Host(NO_LIBPCAP.into())) } else { Ok(()) }
}

/// Returns the number and the size of the blocks of a packet socket's ring for this number of frames, or for 2 GiB. A frame is in one
/// block: with four or more in each, at most a fifth of a block is empty.
fn blocks(listen: &Listen) -> (u32, u32) {
    let frame = listen.snap + RING_HEAD;
    let size = (4 * frame + BLOCK_HEAD as u32).next_power_of_two().max(BLOCK);
    let in_each = (size - BLOCK_HEAD as u32) / frame;
    (listen.ring.div_ceil(in_each).clamp(2, (1 << 31) / size), size)
}

fn packet_options(listen: &Listen) -> AfPacketOptions {
    let (blocks, block_bytes) = blocks(listen);
    let snap_bytes = Some(listen.snap);
    let ring = RingOptions { blocks, block_bytes, retire_ms: RETIRE_MS, snap_bytes, card_stamps: listen.card_stamps };
    AfPacketOptions { send_slots: 0, ring: Some(ring), ..AfPacketOptions::default() }
}

#[cfg(feature = "libpcap")]
fn open_libpcap(listen: &Listen, told: &Arc<Told>) -> Result<Box<dyn Wire>> {
    // libpcap chooses the blocks; it takes the total in bytes, as a C int.
    let (blocks, size) = blocks(listen);
    let bytes = i32::try_from(u64::from(blocks) * u64::from(size)).unwrap_or(i32::MAX);
    Ok(Box::new(super::libpcap::Libpcap::open(&listen.interface, listen.snap, bytes, told.clone())?))
}

#[cfg(not(feature = "libpcap"))]
fn open_libpcap(_: &Listen, _: &Arc<Told>) -> Result<Box<dyn Wire>> {
    Err(Error::Host(NO_LIBPCAP.into()))
}

fn boxed<W: Wire + 'static>(wires: Vec<W>) -> Vec<Box<dyn Wire>> {
    wires.into_iter().map(|wire| Box::new(wire) as Box<dyn Wire>).collect()
}

/// Refuses card stamps if the socket does not report them, or the card makes none.
fn check_stamps(listen: &Listen, interface: &Interface) -> Result<()> {
    if !listen.card_stamps {
        return Ok(());
    }
    if listen.kind != ListenKind::AfPacket {
        let kind = listen.kind.name();
        return Err(Error::config(format!("--stamps card: {kind} does not tell them; use --kind af_packet")));
    }
    check_card(interface.name(), stamping(interface.name()), "--stamps card", "--stamps kernel")
}

/// Refuses more queues than there are, and several queues with a library that supports one.
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
            "--queues {queues}, and {interface} has {has} receive queues; ask for {has}, or give it more: {}",
            ethtool::set_queues(ethtool::driver(interface).as_deref(), interface, *queues)
        )));
    }
    Ok(())
}

/// Checks the number of queues: one socket sees one queue; frames on others would be missed, and not counted.
fn check_queues(listen: &Listen) -> Result<()> {
    let Listen { interface, queues, .. } = listen;
    let has = queues::count(Path::new("/sys/class/net"), interface).map_or(*queues, |(receive, _)| receive);
    if has != *queues {
        return Err(Error::Host(format!(
            "{interface} has {has} receive queues, and af_xdp listens to {queues}: --queues {has}, or {}, or --kind \
             af_packet, which reads all",
            ethtool::set_queues(ethtool::driver(interface).as_deref(), interface, *queues)
        )));
    }
    Ok(())
}

/// Checks the route: AF_XDP takes every frame, which could cut off this host.
fn check_route(listen: &Listen) -> Result<()> {
    safety::check_taking(&listen.interface, "af_xdp", listen.allow_default_route)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The build is the problem, not the command, and the message has the remedy.
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

    /// A ring has room for its frames, in blocks that hold one of the longest; the default bridges two seconds of few frames.
    #[test]
    fn a_packet_socket_s_ring_holds_what_was_asked_for() {
        let asked = |ring, snap| Listen {
            interface: "lo".into(),
            kind: ListenKind::AfPacket,
            snap,
            card_stamps: false,
            queues: 1,
            ring,
            allow_default_route: false,
        };
        for ring in [64, 1000, 65_536, 1 << 20] {
            for snap in [14, 128, 1514, 9018, 16_224, 22_000, 33_000, 65_280, 65_440, 65_549] {
                let (blocks, size) = blocks(&asked(ring, snap));
                assert!(size.is_power_of_two() && size > snap + BLOCK_HEAD as u32, "{snap}: {size}");
                let held = blocks * ((size - BLOCK_HEAD as u32) / (snap + RING_HEAD));
                assert!(held >= ring || blocks == (1 << 31) / size, "{ring} of {snap}: {blocks} of {size}");
                // Beside what is at the end of each block, no memory is taken in vain.
                let (needed, size) = (u64::from(ring) * u64::from(snap + RING_HEAD), u64::from(size));
                assert!(u64::from(blocks) * size <= needed * 5 / 4 + 2 * size, "{ring} of {snap}");
            }
        }
        let (blocks, _) = blocks(&asked(65_536, 128));
        assert!(blocks * RETIRE_MS >= 2000, "{blocks} blocks");
    }
}
