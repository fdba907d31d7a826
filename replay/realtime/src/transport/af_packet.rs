//! Packet sockets: whole frames out through a send ring or by `sendmmsg`, bypassing the queueing discipline; in through a receive ring.
//!
//! Works with every driver and every frame that the MTU allows, at the cost of a copy and a kernel buffer per frame. Losses are counted: a
//! frame that the kernel refuses is offered again by the caller, for as long as [`super::stall`] allows, and the ring's drops are counted
//! by the kernel. Sending and receiving use separate sockets, because their rings have different versions.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::path::Path;

use super::departures::Sampler;
use super::link::Interface;
use super::packet_ring::{Geometry, PacketRing, TAG};
use super::packet_socket as open;
use super::queues;
use super::receive_batch::ReceiveBatch;
use super::send_ring::{self, SendRing};
use super::socket::{self, SendBatch, SocketBuffer};
use super::stall::{Card, Stall};
use super::{
    Arrival, Capabilities, End, Fanout, Found, Ports, Stamps, Submitted, Transport, TransportPlan, Wire, WireCounters,
};
use pktgen_core::registry::Named;
use pktgen_core::{Error, Result};

/// Capabilities of packet sockets; an end's own limit follows from the interface's MTU.
pub(crate) const CAPABILITIES: Capabilities = Capabilities {
    frame_max: 65_535 + ETHERNET,
    stamps_received: true,
    stamps_sent: true,
    privileged: true,
    sees_tags: true,
    ..Capabilities::CABLES
};

/// `kind = "af_packet"`.
pub(crate) struct PacketSockets;

impl Named for PacketSockets {
    fn name(&self) -> &'static str {
        "af_packet"
    }
    fn about(&self) -> &'static str {
        "packet sockets on four interfaces of this host (two veth pairs, say), in real time; root"
    }
}

impl Transport for PacketSockets {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn open(&self, plan: &TransportPlan, ends: &[End], frame_max: usize) -> Result<Vec<Ports>> {
        self.check_together(plan, ends)?;
        let open = |end: &End| -> Result<Ports> {
            let interface = plan.interface(*end)?;
            queues::check_enough_queues(Path::new("/sys/class/net"), interface, "transport.queues", plan.queues)?;
            plan.check_stamps(*end)?;
            let stamps = plan.stamps_at(*end);
            let card_stamps = stamps == Stamps::Card;
            let ring = plan.receive_ring.then(|| RingOptions { card_stamps, ..RingOptions::default() });
            let options = AfPacketOptions { ring, calls: true, stamps, ..AfPacketOptions::default() };
            // Frames in the ring cannot be marked.
            let marks = Sampler::of(plan, *end).is_some();
            let send_slots = if marks { 0 } else { options.send_slots };
            let mut ports =
                open_queues(interface, AfPacketOptions { send_slots, ..options }, plan.queues, plan.fanout)?;
            ports.iter_mut().try_for_each(|port| port.mark_with(Sampler::of(plan, *end)))?;
            plan.check_fit(frame_max, interface, ports[0].frame_max())?;
            let waitable = |port: AfPacket| (port.descriptor(), Box::new(port) as Box<dyn Wire>);
            Ok(Ports::waitable(*end, ports.into_iter().map(waitable)))
        };
        ends.iter().map(open).collect()
    }

    fn has_queues(&self) -> bool {
        true
    }
}

/// Opens `queues` sockets on `interface`, among which the kernel divides arriving frames. They receive nothing until
/// all are open: a single socket would receive everything.
pub(crate) fn open_queues(
    interface: &str,
    options: AfPacketOptions,
    queues: u32,
    fanout: Fanout,
) -> Result<Vec<AfPacket>> {
    if queues == 1 {
        return Ok(vec![AfPacket::open(interface, options)?]);
    }
    let mut group = Group { number: None, fanout };
    let mut ports = Vec::new();
    for queue in 0..queues {
        let mut port = AfPacket::open_in(interface, options, Some(&mut group))?;
        port.mode += &format!(", socket {queue} of {queues}, frames divided by {}", fanout.name());
        ports.push(port);
    }
    let io = |action| Error::io(action, Path::new(interface));
    for port in &ports {
        let snap = options.ring.and_then(|ring| ring.snap_bytes);
        if let Receiver::Ring(_, socket) | Receiver::Calls(_, socket) = &port.receiver {
            let hear = snap.map_or_else(|| open::keep_all(socket), |bytes| open::keep_only(socket, bytes));
            hear.map_err(io("begin to receive on"))?;
        }
    }
    Ok(ports)
}

/// Sockets that share arriving frames.
struct Group {
    /// Number of the group, once there is a member.
    number: Option<u16>,
    fanout: Fanout,
}

/// Bytes of an Ethernet header, which the MTU excludes.
const ETHERNET: usize = 14;
/// Bytes 12 and 13 of a frame with an 802.1Q tag, which the MTU excludes as well.
const TAGGED: [u8; 2] = [0x81, 0x00];
/// Size of the socket buffer when receiving by calls.
const RECEIVE_BUFFER: usize = 16 << 20;
/// Larger frames are sent by `sendmmsg`: the ring needs each in one piece of kernel memory.
const SLOT_MAX: usize = 16_000;
/// Bytes of the kernel's header before the first frame of a block, rounded up.
pub(super) const BLOCK_HEAD: usize = 256;

/// Options of an end. The default sends and receives.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AfPacketOptions {
    /// Whether to bypass the queueing discipline, as a packet generator does.
    pub qdisc_bypass: bool,
    /// Slots of the send ring, rounded up to a power of two; 0 to send by `sendmmsg`, which is slower.
    pub send_slots: usize,
    /// Buffer for frames that the card has not sent yet, in bytes.
    pub send_buffer_bytes: usize,
    /// The receive ring; none for an end that only sends, which then costs the host nothing on receive.
    pub ring: Option<RingOptions>,
    /// Without a ring, whether to receive by calls: each frame as soon as it arrives.
    pub calls: bool,
    /// Without a ring: the source of arrival stamps.
    pub stamps: Stamps,
    /// Whether to receive frames for other addresses than the interface's: our addresses belong to no card.
    pub promiscuous: bool,
}

/// A receive ring.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RingOptions {
    /// Number of blocks, at least 2.
    pub blocks: u32,
    /// Least size of a block: a power of two from 4 KiB on. Blocks are larger where the longest frame needs it.
    pub block_bytes: u32,
    /// A block is handed over after this time even if it is not full: the ring's latency. At low rates it also limits
    /// how long the receiver may sleep without loss, to `blocks` times this, regardless of free bytes.
    pub retire_ms: u32,
    /// Keeps only the first bytes of each frame. The rest is not even copied.
    pub snap_bytes: Option<u32>,
    /// Whether stamps are by the card's clock instead of the kernel's.
    pub card_stamps: bool,
}

impl Default for AfPacketOptions {
    fn default() -> Self {
        let ring = Some(RingOptions::default());
        AfPacketOptions {
            qdisc_bypass: true,
            send_slots: 256,
            send_buffer_bytes: 1 << 20,
            ring,
            calls: false,
            stamps: Stamps::None,
            promiscuous: true,
        }
    }
}

impl Default for RingOptions {
    fn default() -> Self {
        RingOptions { blocks: 256, block_bytes: 64 << 10, retire_ms: 2, snap_bytes: None, card_stamps: false }
    }
}

/// The sending method. The ring comes first, so that it is unmapped before its socket is closed.
enum Sender {
    Ring(SendRing, OwnedFd),
    Calls(SendBatch, OwnedFd),
}

/// The receiving method.
enum Receiver {
    /// No reception.
    Nothing,
    /// By blocks: little work per frame, but a frame may wait for its block.
    Ring(PacketRing, OwnedFd),
    /// By calls: each frame as soon as it arrives.
    Calls(ReceiveBatch, OwnedFd),
}

/// An end of a cable: an interface of this host.
pub struct AfPacket {
    sender: Sender,
    /// Marks some of the sent frames, if requested.
    sampler: Option<Sampler>,
    receiver: Receiver,
    counters: WireCounters,
    stall: Stall,
    card: Card,
    interface: String,
    mtu: usize,
    mode: String,
}

impl AfPacket {
    /// Opens an end on `interface`.
    pub fn open(interface: &str, options: AfPacketOptions) -> Result<Self> {
        Self::open_in(interface, options, None)
    }

    /// Opens one of several ends, which receives nothing yet.
    fn open_in(interface: &str, options: AfPacketOptions, group: Option<&mut Group>) -> Result<Self> {
        // Fails if it is down or has no carrier: the kernel would accept nothing, without an error.
        Interface::open(interface)?;
        let socket = open::socket(interface)?;
        let found = open::examine(&socket, interface)?;
        let (sender, mut mode) = open_sender(socket, interface, &found, &options)?;
        let mut receiver = Receiver::Nothing;
        if let Some(ring) = options.ring.map(|ring| ring.for_mtu(found.mtu)) {
            ring.check()?;
            let (ring, socket) = open_ring(&ring, interface, &found, options.promiscuous, group, &mut mode)?;
            receiver = Receiver::Ring(ring, socket);
        } else if options.calls {
            let socket = open_calls(interface, &found, options, group, &mut mode)?;
            receiver = Receiver::Calls(ReceiveBatch::new(found.mtu + ETHERNET + TAG, options.stamps), socket);
        }
        let (stall, card) = (Stall::new(), Card::open(interface));
        let (interface, mtu, counters) = (interface.to_owned(), found.mtu, WireCounters::default());
        Ok(AfPacket { sender, sampler: None, receiver, counters, stall, card, interface, mtu, mode })
    }

    /// Enables the marking of frames.
    fn mark_with(&mut self, sampler: Option<Sampler>) -> Result<()> {
        if let (Some(sampler), Sender::Calls(_, socket)) = (&sampler, &self.sender) {
            sampler.ask(socket.as_fd()).map_err(|error| self.io("ask for stamps of", error))?;
        }
        self.sampler = sampler;
        Ok(())
    }

    /// Returns the largest frame of the interface, without FCS and VLAN tags.
    pub fn frame_max(&self) -> usize {
        self.mtu + ETHERNET
    }

    // Takes the error, and so is only called when there is one: it allocates.
    fn io(&self, action: &'static str, source: io::Error) -> Error {
        Error::io(action, Path::new(&self.interface))(source)
    }

    /// Handles a refusal of the kernel: returns an error once it has lasted too long.
    #[cold]
    fn refused(&mut self, why: &io::Error, frame: &[u8]) -> Result<usize> {
        match self.stall.refused() {
            true => Err(self.stall.of_interface(&self.card, why, frame.len())),
            false => Ok(0),
        }
    }

    /// Returns whether a frame of this shape can be sent. The kernel checks the same for `sendmmsg`, but not for frames in a send ring.
    fn fits(&self, frame: &[u8]) -> bool {
        let max = self.frame_max();
        let is_tagged = || frame.get(12..14) == Some(&TAGGED);
        frame.len() >= ETHERNET && (frame.len() <= max || frame.len() <= max + TAG && is_tagged())
    }

    /// Returns the error for a frame that does not fit.
    #[cold]
    fn misfit(&self, frame: &[u8]) -> Error {
        let (name, len, mtu) = (&self.interface, frame.len(), self.mtu);
        Error::config(match len {
            ..ETHERNET => {
                format!("cannot send a frame of {len} bytes on {name}: an Ethernet header alone has {ETHERNET}")
            }
            _ => format!(
                "cannot send a frame of {len} bytes on {name}: its MTU of {mtu} allows {} with the Ethernet header; \
                 send smaller frames, or raise it: ip link set {name} mtu {}",
                self.frame_max(),
                len - ETHERNET
            ),
        })
    }
}

fn open_sender(
    socket: OwnedFd,
    interface: &str,
    found: &open::InterfaceFacts,
    options: &AfPacketOptions,
) -> Result<(Sender, String)> {
    let io = |action| Error::io(action, Path::new(interface));
    let prepare = |socket: &OwnedFd| -> Result<usize> {
        if options.qdisc_bypass {
            socket::set_option(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1i32)
                .map_err(io("bypass the queueing discipline of"))?;
        }
        let got = socket::set_buffer(socket.as_fd(), SocketBuffer::Send, options.send_buffer_bytes)
            .map_err(io("set the send buffer of a packet socket on"))?;
        open::bind(socket, found.index, 0).map_err(io("bind a packet socket to"))?;
        Ok(got)
    };
    let largest = found.mtu + ETHERNET + TAG;
    let mut why = String::new();
    let (sender, how, got) = 'sender: {
        if options.send_slots > 0 && largest <= SLOT_MAX {
            match SendRing::set_up(socket.as_fd(), options.send_slots, largest) {
                Ok(ring) => {
                    let (got, how) = (prepare(&socket)?, format!("send ring of {} slots", ring.slots()));
                    break 'sender (Sender::Ring(ring, socket), how, got);
                }
                Err(error) => why = format!(" (no send ring: {error})"),
            }
        }
        // A new socket: the other may be configured for virtio headers.
        let socket = open::socket(interface)?;
        let got = prepare(&socket)?;
        (Sender::Calls(SendBatch::new(), socket), format!("sendmmsg{why}"), got)
    };
    let way = if options.qdisc_bypass { "qdisc bypassed" } else { "through the qdisc" };
    Ok((sender, format!("copy, {how}, {way}, send buffer {got} B, MTU {}", found.mtu)))
}

fn open_ring(
    options: &RingOptions,
    interface: &str,
    found: &open::InterfaceFacts,
    promiscuous: bool,
    group: Option<&mut Group>,
    mode: &mut String,
) -> Result<(PacketRing, OwnedFd)> {
    let io = |action| Error::io(action, Path::new(interface));
    let socket = open::socket(interface)?;
    let ring = options.set_up(&socket).map_err(io("set up a TPACKET_V3 ring on"))?;
    *mode += &options.describe();
    // Without this option (before Linux 4.20) our own frames take room in the ring; they are skipped when read.
    if socket::set_option(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1i32).is_err() {
        *mode += ", own frames pass the ring";
    }
    bind(&socket, interface, found, group)?;
    if promiscuous {
        open::listen_to_all(&socket, found.index).map_err(io("switch to promiscuous mode"))?;
        *mode += ", promiscuous";
    }
    Ok((ring, socket))
}

/// Binds a receiving socket, alone or in a group.
fn bind(socket: &OwnedFd, interface: &str, found: &open::InterfaceFacts, group: Option<&mut Group>) -> Result<()> {
    let io = |action| Error::io(action, Path::new(interface));
    if group.is_some() {
        open::keep_only(socket, 0).map_err(io("block reception on"))?;
    }
    let all = (libc::ETH_P_ALL as u16).to_be();
    open::bind(socket, found.index, all).map_err(io("bind a packet socket to"))?;
    if let Some(group) = group {
        let joined = open::join(socket, group.number, group.fanout);
        group.number = Some(joined.map_err(io("join the sockets of several queues on"))?);
    }
    Ok(())
}

/// Opens a socket that receives by calls.
fn open_calls(
    interface: &str,
    found: &open::InterfaceFacts,
    options: AfPacketOptions,
    group: Option<&mut Group>,
    mode: &mut String,
) -> Result<OwnedFd> {
    let io = |action| Error::io(action, Path::new(interface));
    let socket = open::socket(interface)?;
    // Our own frames do not count as arrivals; this needs Linux 4.20.
    socket::set_option(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1i32)
        .map_err(io("leave out our own frames on"))?;
    let buffer = socket::set_buffer(socket.as_fd(), SocketBuffer::Receive, RECEIVE_BUFFER)
        .map_err(io("set up the buffer of"))?;
    options.stamps.ask(socket.as_fd()).map_err(io("ask for stamps of"))?;
    // The kernel takes VLAN tags out of frames, and says here what they were.
    socket::set_option(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_AUXDATA, 1i32)
        .map_err(io("ask for VLAN tags of"))?;
    bind(&socket, interface, found, group)?;
    if options.promiscuous {
        open::listen_to_all(&socket, found.index).map_err(io("switch to promiscuous mode"))?;
    }
    *mode += &format!(", receive by recvmmsg with a buffer of {buffer} B");
    Ok(socket)
}

impl AfPacket {
    /// Returns the descriptor that becomes readable on arrivals.
    fn descriptor(&self) -> Option<RawFd> {
        match &self.receiver {
            Receiver::Nothing => None,
            Receiver::Ring(_, socket) | Receiver::Calls(_, socket) => Some(socket.as_raw_fd()),
        }
    }

    /// Returns the result for `taken` frames, including whether the card refuses more.
    fn submitted(&self, taken: usize) -> Submitted {
        Submitted { taken, lost: 0, refused: self.stall.refuses() }
    }
}

impl Wire for AfPacket {
    fn send(&mut self, frames: &[&[u8]]) -> Result<Submitted> {
        // A frame that cannot be sent causes an error only when it is next, like the kernel's errors.
        let good = frames.iter().position(|frame| !self.fits(frame)).unwrap_or(frames.len());
        if good == 0 {
            return frames.first().map_or(Ok(self.submitted(0)), |frame| Err(self.misfit(frame)));
        }
        let result = match &mut self.sender {
            Sender::Ring(ring, socket) => ring.send(&frames[..good], &mut || send_ring::kick(socket.as_fd())),
            Sender::Calls(batch, socket) => {
                let mark = self.sampler.as_mut().and_then(|sampler| sampler.mark(socket.as_fd(), good));
                let result = batch.send(socket.as_fd(), &frames[..good], 0, mark);
                if let (Some(sampler), Ok(count)) = (&mut self.sampler, &result) {
                    sampler.sent(*count, mark);
                }
                result
            }
        };
        let taken = match result {
            // All slots belong to the card.
            Ok(0) if good > 0 => self.refused(&io::ErrorKind::WouldBlock.into(), frames[0])?,
            Ok(count) => {
                self.stall.taken();
                self.counters.sent += count as u64;
                count
            }
            Err(error) => self.refused(&error, frames[0])?,
        };
        Ok(self.submitted(taken))
    }

    fn receive(&mut self, most: usize, each: &mut dyn FnMut(Arrival<'_>)) -> Result<Found> {
        let count = match &mut self.receiver {
            Receiver::Nothing => 0,
            Receiver::Ring(ring, _) => ring.receive(most, each),
            Receiver::Calls(batch, socket) => match batch.receive(socket, most) {
                Ok(count) => {
                    for slot in 0..count {
                        let notice = batch.notice(slot);
                        let (bytes, len) = batch.whole(slot, &notice);
                        each(Arrival { bytes, len, stamp_ns: notice.stamp_ns, lost: false });
                    }
                    count
                }
                Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) => 0,
                Err(error) => return Err(self.card.failed("receive", &error)),
            },
        };
        self.counters.received += count as u64;
        Ok(Found::some(count))
    }

    fn wait(&mut self, timeout_ns: u64) -> Result<()> {
        let ready = |receiver: &Receiver| matches!(receiver, Receiver::Ring(ring, _) if ring.is_ready());
        let (Receiver::Ring(_, socket) | Receiver::Calls(_, socket)) = &self.receiver else {
            return socket::sleep(timeout_ns).map_err(|error| self.io("wait for", error));
        };
        if ready(&self.receiver) {
            return Ok(());
        }
        socket::wait_readable(socket.as_fd(), timeout_ns).map_err(|error| self.io("wait for", error))?;
        if ready(&self.receiver) {
            return Ok(());
        }
        // Woken without a frame: the kernel leaves an error on the socket when the interface goes down.
        let [code] = socket::option::<1>(socket.as_fd(), libc::SOL_SOCKET, libc::SO_ERROR).unwrap_or([0]);
        if code == 0 { Ok(()) } else { Err(self.card.failed("receive", &io::Error::from_raw_os_error(code as i32))) }
    }

    fn flush(&mut self, timeout_ns: u64) -> Result<()> {
        let (Sender::Ring(_, socket) | Sender::Calls(_, socket)) = &self.sender;
        socket::drain(socket.as_fd(), timeout_ns).map_err(|error| self.io("flush", error))
    }

    fn counters(&mut self) -> WireCounters {
        if let (Some(sampler), Sender::Calls(_, socket)) = (&mut self.sampler, &self.sender) {
            sampler.hand_over(socket.as_fd());
        }
        // Packets and drops (and a third number for a ring), which reset with each read. Packets include the drops.
        let drops = match &self.receiver {
            Receiver::Nothing => None,
            Receiver::Ring(_, socket) => {
                socket::option::<3>(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS).ok().map(|n| n[1])
            }
            Receiver::Calls(_, socket) => {
                socket::option::<2>(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS).ok().map(|n| n[1])
            }
        };
        self.counters.receive_dropped += u64::from(drops.unwrap_or(0));
        self.counters
    }

    fn mode(&self) -> String {
        self.mode.clone()
    }
}

impl RingOptions {
    /// Returns the options with blocks that hold the longest frame, or what is kept of it, at an interface with this MTU.
    fn for_mtu(self, mtu: usize) -> Self {
        let frame = self.snap_bytes.map_or((mtu + ETHERNET).min(CAPABILITIES.frame_max), |bytes| bytes as usize);
        let needed = u32::try_from((frame + BLOCK_HEAD).next_power_of_two()).unwrap_or(0);
        RingOptions { block_bytes: self.block_bytes.max(needed), ..self }
    }

    fn check(&self) -> Result<()> {
        let RingOptions { blocks, block_bytes, retire_ms, snap_bytes, .. } = *self;
        if blocks < 2 || u64::from(blocks) * u64::from(block_bytes) > 1 << 31 {
            return Err(Error::config(format!(
                "a receive ring of {blocks} blocks of {block_bytes} bytes: 2 blocks to 2 GiB are possible"
            )));
        }
        if !block_bytes.is_power_of_two() || block_bytes < 4096 {
            return Err(Error::config(format!(
                "ring blocks of {block_bytes} bytes: their size is a power of two from 4096 on"
            )));
        }
        if !(1..=1000).contains(&retire_ms) {
            return Err(Error::config(format!("ring blocks are retired after 1 to 1000 ms, not {retire_ms}")));
        }
        match snap_bytes {
            Some(snap @ 0..14) => Err(Error::config(format!("snap length {snap}: an Ethernet header has 14 bytes"))),
            _ => Ok(()),
        }
    }

    /// Returns a description for the manifest.
    fn describe(&self) -> String {
        let RingOptions { blocks, block_bytes, retire_ms, snap_bytes, card_stamps } = *self;
        let stamps = if card_stamps { ", stamps of the card" } else { "" };
        let snap = snap_bytes.map_or(String::new(), |bytes| format!(", {bytes} B kept"));
        format!(", TPACKET_V3 ring of {blocks} x {block_bytes} B retired after {retire_ms} ms{snap}{stamps}")
    }

    /// Sets up the ring on a socket that is not bound yet, so that frames of other interfaces do not enter it.
    fn set_up(&self, socket: &OwnedFd) -> io::Result<PacketRing> {
        let packet = |name, value: u32| socket::set_option(socket.as_fd(), libc::SOL_PACKET, name, value);
        packet(libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V3 as u32)?;
        packet(libc::PACKET_RESERVE, TAG as u32)?;
        if let Some(bytes) = self.snap_bytes {
            open::keep_only(socket, bytes)?;
        }
        if self.card_stamps {
            packet(libc::PACKET_TIMESTAMP, libc::SOF_TIMESTAMPING_RAW_HARDWARE)?;
        }
        // Frames are packed in a version 3 block; the kernel only checks that these sizes are consistent.
        let frame_bytes = 2048;
        let request = libc::tpacket_req3 {
            tp_block_size: self.block_bytes,
            tp_block_nr: self.blocks,
            tp_frame_size: frame_bytes,
            tp_frame_nr: self.block_bytes / frame_bytes * self.blocks,
            tp_retire_blk_tov: self.retire_ms,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        socket::set_option(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_RX_RING, request)?;
        let geometry = Geometry { blocks: self.blocks as usize, block_bytes: self.block_bytes as usize };
        let mut ring = PacketRing::map(socket.as_fd(), geometry)?;
        if self.card_stamps {
            ring.tell_stamps_of_the_card();
        }
        Ok(ring)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_a_ring_hold_the_longest_frame() {
        for (mtu, bytes) in
            [(1500, 65_536), (65_266, 65_536), (65_267, 131_072), (65_535, 131_072), (usize::MAX >> 1, 131_072)]
        {
            let ring = RingOptions::default().for_mtu(mtu);
            assert_eq!(ring.block_bytes, bytes, "{mtu}");
            ring.check().unwrap();
            let kept = RingOptions { snap_bytes: Some(128), ..RingOptions::default() };
            assert_eq!(kept.for_mtu(mtu).block_bytes, 65_536, "{mtu}");
        }
    }
}
