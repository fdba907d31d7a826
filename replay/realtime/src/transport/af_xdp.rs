//! AF_XDP: frames through rings shared with the kernel, one queue of an interface and one UMEM per port; an end of a
//! cable is as many ports as its interface has queues (`queues.rs`).
//!
//! Built on the crate `xdp`, imported as `afxdp` and used in this file only. The crate has the rings; waking the
//! kernel, counting what is under way and keeping frames inside their chunk is done here:
//!
//! - In copy mode one call sends at most 32 frames, or a budget that Linux 6.17 and later let us raise. The crate wakes
//!   once per submission, and not at all when its ring is full. We wake until the kernel says that its ring is empty.
//! - Chunks are divided once: so many for sending as the TX ring has places, the rest for receiving. So the TX ring
//!   can never overflow, and receiving is never starved by sending.
//!
//! Lifetimes: packets point into the UMEM. They live in `burst` within one call only, and fields drop in order: the
//! socket and its rings before the UMEM.
#![expect(unsafe_code, reason = "talks to the kernel; every block says why it is sound")]

use super::AHEAD;
use super::bpf::{Attach, host_error};
use super::link::Interface;
use super::redirect::Redirect;
use super::stall::{Card, Stall};
use super::xsk;
use super::{Arrival, Capabilities, End, Found, Ports, Submitted, Transport, TransportPlan, Wire, WireCounters};
use crate::clock::Stopwatch;
use afxdp::slab::Slab;
use afxdp::socket::{SocketError, XdpSocket, XdpSocketBuilder};
use afxdp::umem::{FrameSize, UmemCfgBuilder};
use afxdp::{Packet, RingConfigBuilder, Umem, WakableRings, nic::NicIndex};
use pktgen_core::registry::Named;
use pktgen_core::{Error, Result, prefetch};
use std::collections::VecDeque;
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

mod options;
mod queues;

use options::HEADROOM;
pub use options::Options;
pub(super) use queues::{open as open_queues, ports};

/// Frames that go through the rings at once.
const BURST: usize = 64;
/// So much of a frame that arrives is fetched ahead: another core has just written it. Measured with a capture of 128 B of
/// each frame: its thread takes 99 ns per frame instead of 148.
const LOOKED_AT: usize = 128;
/// A queue stays busy briefly after its last socket was closed: number of attempts to bind, and pause between them.
const BIND_TRIES: u32 = 50;
const BIND_PAUSE: Duration = Duration::from_millis(10);

/// Returns whether the interface can send frames that a program redirects to it (`ndo_xdp_xmit`). A veth can only if
/// its peer has a program or GRO.
pub fn takes_redirected(interface: &Interface) -> Result<bool> {
    let features = NicIndex::new(interface.index()).query_capabilities().map(|c| c.xdp_features.0);
    let features = features
        .map_err(|e| Error::Host(format!("this host cannot ask for the XDP features of {}: {e}", interface.name())))?;
    Ok(features & afxdp::nic::XdpAct::NdoXmit as u64 != 0)
}

/// XDP features of an interface's driver, as reported by the kernel (Linux 6.3 and later).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct XdpFacts {
    /// Whether programs run in the driver, and may redirect to sockets.
    pub driver: bool,
    /// Whether it sends frames that a program redirects to it.
    pub takes_redirected: bool,
    /// Whether it supports AF_XDP without copying.
    pub zero_copy: bool,
    /// Whether it receives frames that span buffers.
    pub fragments: bool,
    /// Whether programs can read the card's receive timestamps.
    pub stamps_received: bool,
    /// Whether AF_XDP can request the card's send timestamps.
    pub stamps_sent: bool,
}

/// Reads the XDP features of an interface; changes nothing.
pub fn xdp_facts(interface: &str) -> Result<XdpFacts> {
    use afxdp::nic::XdpAct;
    let cannot = |why: String| Error::Host(format!("this host cannot ask for the XDP features of {interface}: {why}"));
    let name = std::ffi::CString::new(interface).map_err(|e| cannot(e.to_string()))?;
    let index = NicIndex::lookup_by_name(&name).map_err(|e| cannot(e.to_string()))?;
    let index = index.ok_or_else(|| cannot("there is none of that name here".into()))?;
    let all = index.query_capabilities().map_err(|e| cannot(e.to_string()))?;
    let features = all.xdp_features;
    Ok(XdpFacts {
        driver: features.basic() && features.redirect(),
        takes_redirected: features.0 & XdpAct::NdoXmit as u64 != 0,
        zero_copy: features.zero_copy(),
        fragments: features.0 & XdpAct::RxSg as u64 != 0,
        stamps_received: all.rx_metadata.timestamp(),
        stamps_sent: all.tx_metadata.timestamp(),
    })
}

/// Returns the bytes that the kernel locks for a port that sends and receives: RLIMIT_MEMLOCK must permit them.
pub fn memory_of_a_port() -> u64 {
    let Options { chunk, tx_ring, rx_ring, .. } = Options::new("");
    chunk as u64 * u64::from(tx_ring + rx_ring)
}

/// Opens a port that only sends, in copy mode, with small rings, and closes it again: the interface is not changed.
pub fn bind_sender(interface: &str) -> Result<String> {
    let options = Options { receive: false, tx_ring: 64, rx_ring: 64, ..Options::new(interface) };
    AfXdp::open(&options).map(|port| port.mode())
}

/// Packets under way between us and a ring, in order.
struct Burst {
    packets: VecDeque<Packet>,
    room: usize,
}

impl Slab for Burst {
    fn available(&self) -> usize {
        self.room - self.packets.len()
    }
    fn len(&self) -> usize {
        self.packets.len()
    }
    fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }
    fn push_front(&mut self, packet: Packet) -> Option<Packet> {
        if self.available() == 0 {
            return Some(packet);
        }
        self.packets.push_front(packet);
        None
    }
    fn pop_back(&mut self) -> Option<Packet> {
        self.packets.pop_back()
    }
}

/// A port on one queue.
pub struct AfXdp {
    // Fields drop in this order.
    socket: XdpSocket,
    rings: WakableRings,
    burst: Burst,
    umem: Umem,
    redirect: Option<Arc<Redirect>>,
    interface: Interface,
    options: Options,
    zero_copy: bool,
    frame_max: usize,
    /// Maximum frames per waking call.
    budget: u32,
    /// Submitted frames whose chunk has not returned.
    under_way: u32,
    /// Whether the kernel has not reported an empty ring yet.
    pending: bool,
    sent: u64,
    received: u64,
    /// Frames that the kernel reported as dropped.
    refused: u64,
    /// Frames whose chunk has returned, and the maximum number of departures seen among them.
    returned: u64,
    left: u64,
    /// Frames that the interface had sent at the last refusal.
    departed: u64,
    stall: Stall,
    card: Card,
}

// SAFETY: the only members that are not Send are packets in `burst`, which point into `umem`, which moves along;
// between calls there are none. The descriptor and the rings belong to this value alone.
unsafe impl Send for AfXdp {}

impl AfXdp {
    /// Opens one queue.
    pub fn open(options: &Options) -> Result<Self> {
        let interface = Interface::open(&options.interface)?;
        let attach = || Redirect::attach(&interface, options.attach, options.queue + 1).map(Arc::new);
        let redirect = options.receive.then(attach).transpose()?;
        Self::over(interface, options, redirect)
    }

    fn over(interface: Interface, options: &Options, redirect: Option<Arc<Redirect>>) -> Result<Self> {
        options.check()?;
        let frame_size = if options.chunk == 2048 { FrameSize::TwoK } else { FrameSize::FourK };
        // Some drivers need chunks in the fill ring even for sending, but only with zero copy.
        let to_fill = if options.receive || options.zero_copy { options.rx_ring } else { 0 };
        let frame_count = options.tx_ring + to_fill;
        let config = UmemCfgBuilder { frame_size, frame_count, ..UmemCfgBuilder::default() };
        let config = config.build().map_err(|e| Error::config(format!("UMEM of {frame_count} chunks: {e}")))?;
        let size = frame_count as usize * options.chunk;
        let mut umem = Umem::map(config).map_err(|e| {
            Error::Host(format!("this host cannot reserve {size} B of memory for {frame_count} chunks: {e}"))
        })?;
        let (socket, mut rings) = bind(&umem, options, interface.index())?;
        let why = |e: io::Error| host_error(&format!("use queue {} of {}", options.queue, options.interface), &e);
        fill(&mut rings, &mut umem, to_fill as usize, options.zero_copy && options.receive).map_err(why)?;
        if let Some(redirect) = &redirect {
            redirect.add(options.queue, socket.raw_fd()).map_err(why)?;
        }
        let zero_copy = xsk::got_zero_copy(socket.raw_fd()).map_err(why)?;
        if options.zero_copy && !zero_copy {
            return Err(Error::Host(format!(
                "this host copies the frames of {}, queue {}, although zero copy was asked for (transport.zero_copy) and not \
                 refused; leave it out to have frames copied",
                options.interface, options.queue
            )));
        }
        let budget = match options.whole_ring {
            true => xsk::raise_budget(socket.raw_fd(), options.tx_ring),
            false => xsk::KERNEL_BATCH,
        };
        Ok(AfXdp {
            budget,
            frame_max: options.capabilities().frame_max.min(interface.frame_max()),
            socket,
            rings,
            burst: Burst { packets: VecDeque::with_capacity(BURST), room: BURST },
            umem,
            redirect,
            interface,
            options: options.clone(),
            zero_copy,
            under_way: 0,
            pending: false,
            sent: 0,
            received: 0,
            refused: 0,
            returned: 0,
            left: 0,
            departed: 0,
            stall: Stall::new(),
            card: Card::open(&options.interface),
        })
    }

    /// Returns the largest frame that this port sends on this interface.
    pub fn frame_max(&self) -> usize {
        self.frame_max
    }

    /// Takes back the chunks of frames that have left.
    fn reap(&mut self) -> u32 {
        let got = self.rings.completion_ring.dequeue(&mut self.umem, self.under_way as usize) as u32;
        self.under_way -= got;
        self.returned += u64::from(got);
        got
    }

    /// Returns whether the interface has sent a frame since the last call.
    #[cold]
    fn departed(&mut self) -> bool {
        let sent = self.interface.sent();
        sent.is_none_or(|sent| std::mem::replace(&mut self.departed, sent) != sent)
    }

    /// Checks whether the kernel refused frames, or the card sent nothing of a full ring; returns an error once that has lasted too long.
    fn look(&mut self, refused_before: u64, taken: usize, bytes: usize) -> Result<()> {
        // A dropped frame returns its chunk as well.
        let left = self.returned.saturating_sub(self.refused);
        if left > self.left {
            self.left = left;
            // Waiting makes the kernel send as well, which does not report its drops: after refusals, the interface's
            // count tells whether a frame has left.
            if self.refused == 0 || !self.stall.refuses() || self.departed() {
                self.stall.taken();
            }
        } else if (taken == 0 || self.refused > refused_before) && self.stall.refused() {
            let code = if taken == 0 { libc::EAGAIN } else { libc::EBUSY };
            return Err(self.stall.of_interface(&self.card, &io::Error::from_raw_os_error(code), bytes));
        }
        Ok(())
    }

    /// Puts frames into the TX ring until one does not fit; does not notify the kernel.
    fn submit(&mut self, frames: &[&[u8]]) -> usize {
        let room = (self.options.tx_ring - self.under_way) as usize;
        let mut taken = 0;
        self.burst.room = BURST;
        for chunk in frames[..frames.len().min(room)].chunks(BURST) {
            for (i, frame) in chunk.iter().enumerate().take_while(|(_, f)| f.len() <= self.frame_max) {
                chunk.get(i + AHEAD).into_iter().for_each(|f| prefetch::<[u8]>(f));
                // SAFETY: the packet goes to the TX ring below; the UMEM outlives the socket: see the struct.
                let Some(mut packet) = (unsafe { self.umem.alloc() }) else { break };
                if packet.append(frame).is_err() {
                    self.umem.free_packet(packet);
                    break;
                }
                self.burst.packets.push_front(packet);
            }
            let ready = self.burst.packets.len();
            let Some(tx) = &mut self.rings.tx_ring else { break };
            // SAFETY: the UMEM outlives the socket: see the struct. Without a wake-up this is no system call and
            // cannot fail; there is room, as chunks for sending are as many as places in the ring.
            let put = unsafe { tx.send(&mut self.burst, false) }.unwrap_or(0);
            self.under_way += put as u32;
            taken += put;
            while let Some(packet) = self.burst.pop_back() {
                self.umem.free_packet(packet);
            }
            if put < ready || ready < chunk.len() {
                break;
            }
        }
        taken
    }

    /// Wakes the kernel until it reports an empty ring, or refuses temporarily; the next call then tries again.
    fn wake(&mut self) -> Result<()> {
        let most = self.options.tx_ring / self.budget + 2;
        self.pending = true;
        for _ in 0..most {
            let Err(error) = xsk::wake(self.socket.raw_fd()) else {
                self.pending = false;
                return Ok(());
            };
            match error.raw_os_error() {
                // The budget of one call is used up, or the driver's queue is full.
                Some(libc::EAGAIN | libc::EINTR) => {}
                // One frame was dropped on the way out; later ones are still in the ring.
                Some(libc::EBUSY) => self.refused += 1,
                // No memory for packets: leave the kernel time to free some.
                Some(libc::ENOBUFS | libc::ENOMEM) => break,
                _ => {
                    let Options { interface, queue, .. } = &self.options;
                    return Err(host_error(&format!("send on {interface}, queue {queue}"), &error));
                }
            }
        }
        Ok(())
    }
}

/// `kind = "af_xdp"`.
pub(crate) struct XdpSockets;

impl Named for XdpSockets {
    fn name(&self) -> &'static str {
        "af_xdp"
    }
    fn about(&self) -> &'static str {
        "AF_XDP sockets on four interfaces of this host, copy mode, in real time; root"
    }
}

impl Transport for XdpSockets {
    fn capabilities(&self) -> Capabilities {
        Options::new("").capabilities()
    }

    fn open(&self, plan: &TransportPlan, ends: &[End], frame_max: usize) -> Result<Vec<Ports>> {
        self.check_together(plan, ends)?;
        ends.iter().map(|at| ports(plan, *at, frame_max)).collect()
    }

    fn has_queues(&self) -> bool {
        true
    }
}

impl AfXdp {
    /// Returns the descriptor that becomes readable on arrivals.
    fn descriptor(&self) -> RawFd {
        self.socket.raw_fd()
    }
}

impl Wire for AfXdp {
    fn send(&mut self, frames: &[&[u8]]) -> Result<Submitted> {
        if let Some(frame) = frames.first().filter(|f| f.len() > self.frame_max) {
            return Err(Error::config(format!(
                "a frame of {} B on {} over af_xdp: at most {} B (chunk {} less {HEADROOM}, MTU and header {}); \
                 send smaller ones, raise the MTU, or use af_packet",
                frame.len(),
                self.options.interface,
                self.frame_max,
                self.options.chunk,
                self.interface.frame_max(),
            )));
        }
        self.reap();
        let refused = self.refused;
        let taken = self.submit(frames);
        self.sent += taken as u64;
        // Even if nothing was taken: a full ring is emptied by waking only.
        if taken > 0 || self.pending || !frames.is_empty() {
            self.wake()?;
        }
        if let Some(first) = frames.first() {
            self.look(refused, taken, first.len())?;
        }
        Ok(Submitted { taken, lost: 0, refused: self.stall.refuses() })
    }

    fn receive(&mut self, most: usize, each: &mut dyn FnMut(Arrival<'_>)) -> Result<Found> {
        if self.pending {
            self.wake()?;
        }
        let Some(rx) = &mut self.rings.rx_ring else { return Ok(Found::some(0)) };
        self.burst.room = BURST.min(most);
        debug_assert!(self.burst.is_empty());
        // Callers read the clock once per call, so what is sent during it is left for the next one. The ring shows first what it showed before.
        let mut got = 0;
        while got < self.burst.room {
            // SAFETY: the packets are freed below, before anything else can touch the UMEM.
            let more = unsafe { rx.recv(&self.umem, &mut self.burst) };
            if more == 0 {
                break;
            }
            got += more;
        }
        if got == 0 {
            return Ok(Found::some(0));
        }
        while let Some(packet) = self.burst.pop_back() {
            let later = self.burst.packets.len().wrapping_sub(AHEAD);
            self.burst.packets.get(later).into_iter().for_each(|p| prefetch(&p[..p.len().min(LOOKED_AT)]));
            each(Arrival { bytes: &packet, len: packet.len(), stamp_ns: None, lost: false });
            self.umem.free_packet(packet);
        }
        let Options { interface, queue, .. } = &self.options;
        fill(&mut self.rings, &mut self.umem, got, self.zero_copy)
            .map_err(|e| host_error(&format!("receive on {interface}, queue {queue}"), &e))?;
        self.received += got as u64;
        Ok(Found::some(got))
    }

    fn wait(&mut self, timeout_ns: u64) -> Result<()> {
        let fd = self.socket.raw_fd();
        let is_readable = xsk::wait_readable(&mut [xsk::readable(fd)], timeout_ns)
            .map_err(|e| host_error(&format!("wait for frames on {}", self.options.interface), &e))?;
        // Nothing came: perhaps because the interface is down.
        if is_readable || self.rings.rx_ring.is_none() {
            return Ok(());
        }
        xsk::check_up(fd).map_err(|e| self.card.failed("receive", &e))
    }

    fn flush(&mut self, timeout_ns: u64) -> Result<()> {
        let watch = Stopwatch::start();
        loop {
            self.reap();
            if self.under_way == 0 || watch.elapsed().as_nanos() >= u128::from(timeout_ns) {
                return Ok(());
            }
            self.wake()?;
        }
    }

    fn counters(&mut self) -> WireCounters {
        let kernel = self.socket.statistics().ok();
        // The interface's count includes frames that its driver drops silently, and most of the reported ones.
        let of_interface = match self.options.tells_interface {
            true => self.interface.drops().unwrap_or_default().send.max(self.refused),
            false => 0,
        };
        WireCounters {
            sent: self.sent,
            send_dropped: of_interface + kernel.as_ref().map_or(0, |k| k.tx_invalid_descs),
            received: self.received,
            // In copy mode a missing chunk counts in `rx_dropped`, too, so the fill ring's count is excluded.
            receive_dropped: kernel.map_or(0, |k| k.rx_dropped + k.rx_ring_full),
        }
    }

    fn mode(&self) -> String {
        let copy = if self.zero_copy { "zero copy" } else { "copy" };
        let Options { interface, queue, attach, tx_ring, rx_ring, chunk, .. } = &self.options;
        let rx = match (&self.redirect, attach) {
            (None, _) => "no program, sends only".to_owned(),
            (Some(_), Attach::Driver) => format!("program in the driver, rx ring {rx_ring}"),
            (Some(_), Attach::Generic) => format!("generic program, rx ring {rx_ring}"),
        };
        let budget = self.budget;
        format!("af_xdp {interface} queue {queue}: {copy}, {rx}, tx ring {tx_ring}, {budget} per call, chunk {chunk}")
    }
}

/// Passes chunks for reception to the kernel. The UMEM must outlive the socket, as it does in [`AfXdp`].
fn fill(rings: &mut WakableRings, umem: &mut Umem, chunks: usize, wake: bool) -> io::Result<()> {
    // SAFETY: the UMEM is dropped after the socket: see the fields of `AfXdp`, and the locals of `AfXdp::over`.
    match unsafe { rings.fill_ring.enqueue(umem, chunks, wake) } {
        Ok(put) if put == chunks => Ok(()),
        Ok(_) => Err(io::Error::other("the fill ring takes fewer chunks than it has places")),
        // The chunks are in the ring; the wake-up is repeated with the next ones.
        Err(error) if xsk::is_passing(&error) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Makes a socket and binds it; retries for a bounded time if the queue is still busy.
fn bind(umem: &Umem, options: &Options, index: u32) -> Result<(XdpSocket, WakableRings)> {
    for attempt in 1.. {
        match try_bind(umem, options, index) {
            Ok(done) => return Ok(done),
            Err(SocketError::Bind(e)) if e.raw_os_error() == Some(libc::EBUSY) && attempt < BIND_TRIES => {
                std::thread::sleep(BIND_PAUSE);
            }
            Err(error) => return Err(explain(&error, options)),
        }
    }
    unreachable!("the last attempt returns")
}

fn try_bind(umem: &Umem, options: &Options, index: u32) -> Result<(XdpSocket, WakableRings), SocketError> {
    let mut builder = XdpSocketBuilder::new()?;
    let config = RingConfigBuilder {
        rx_count: if options.receive { options.rx_ring } else { 0 },
        tx_count: options.tx_ring,
        // Twice the chunks: the kernel shows a frame before it shows that it took the chunk from this ring.
        fill_count: 2 * options.rx_ring,
        completion_count: options.tx_ring,
    };
    let config = config.build().expect("powers of two: checked with the options");
    let (rings, mut flags) = builder.build_wakable_rings(umem, config)?;
    match options.zero_copy {
        true => flags.force_zerocopy(),
        false => flags.force_copy(),
    }
    Ok((builder.bind(NicIndex::new(index), options.queue, flags)?, rings))
}

fn explain(error: &SocketError, options: &Options) -> Error {
    let Options { interface, queue, zero_copy, .. } = options;
    let what = format!("bind an AF_XDP socket to {interface}, queue {queue}");
    let (SocketError::SocketCreation(e)
    | SocketError::Bind(e)
    | SocketError::SetSockOpt { inner: e, .. }
    | SocketError::GetSockOpt { inner: e, .. }
    | SocketError::RingMap { inner: e, .. }) = error;
    let remedy = match (error, e.raw_os_error()) {
        (SocketError::Bind(_), Some(libc::EBUSY)) => "another socket holds the queue; end it or use another queue",
        (SocketError::Bind(_), Some(libc::EOPNOTSUPP)) if *zero_copy => {
            "its driver has no zero copy (transport.zero_copy); leave it out to have frames copied"
        }
        (SocketError::Bind(_), Some(libc::EINVAL)) => "the queue may not exist; ethtool -l shows their number",
        (SocketError::SetSockOpt { .. }, Some(libc::ENOBUFS | libc::ENOMEM)) => {
            "too little memory may be locked; ulimit -l, or smaller rings"
        }
        (SocketError::SocketCreation(_), Some(libc::EAFNOSUPPORT)) => "the kernel has no AF_XDP (CONFIG_XDP_SOCKETS)",
        _ => return host_error(&what, e),
    };
    Error::Host(format!("this host cannot {what}: {e}; {remedy}"))
}
