//! What the system calls of a transport allow: `bare KIND INTERFACE SIZE FRAMES SECONDS CALL` makes them again and again on CALL frames
//! each, and does nothing else. FRAMES different frames are sent in turn: those of xdp_live are attached once, those of af_xdp
//! and af_packet are copied to where the kernel takes them from, since a ring that holds them all is slower than a short one. No code of the
//! transports is used for these two. Prints what left.
//! Send only where the traffic cannot leave: a veth pair in a network namespace, for example.
#![expect(unsafe_code, reason = "talks to the kernel; every block says why it is sound")]
#![expect(clippy::print_stdout, reason = "an example says what it did")]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use pktgen_core::registry::find;
use pktgen_core::{Error, Result};
use pktgen_realtime::clock::Stopwatch;
use pktgen_realtime::transport::{AttachedFrames, TRANSPORTS, TransportPlan};
use pktgen_wire::wire::frame::{HEAD, SERVER_IP, Template, worker_ip};

/// Bytes of a chunk of AF_XDP, and of a slot of a packet ring.
const PLACE: usize = 2048;
/// Places of a ring: few stay in the cache, as the transports have them.
const PLACES: u32 = 256;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let usage = || Error::config("usage: bare KIND INTERFACE SIZE FRAMES SECONDS CALL (CALL divides FRAMES)");
    let [kind, interface, numbers @ ..] = &args[..] else { return Err(usage()) };
    let numbers: Vec<usize> = numbers.iter().filter_map(|text| text.parse().ok()).collect();
    let [size, count, seconds, call] = numbers[..] else { return Err(usage()) };
    if size < HEAD + 8 || call == 0 || !count.is_multiple_of(call) {
        return Err(usage());
    }
    let template = Template::new((worker_ip(1), 9000), (SERVER_IP, 9000), size);
    let mut frames = vec![vec![0xa5u8; size]; count];
    for (frame, number) in frames.iter_mut().zip(0u64..) {
        template.emit(frame);
        frame[HEAD..HEAD + 8].copy_from_slice(&number.to_le_bytes());
    }
    let slices: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
    let failed = |e: io::Error| Error::Host(format!("{kind} on {interface}: {e}"));
    let mut sender: Box<dyn Sender> = match kind.as_str() {
        "af_xdp" => Box::new(XdpRing::open(interface).map_err(failed)?),
        "af_packet" => Box::new(PacketRing::open(interface).map_err(failed)?),
        _ => {
            let kind = find(TRANSPORTS, "transport", kind, "KIND")?;
            let plan = TransportPlan { interfaces: vec![interface.clone()], ..TransportPlan::of(kind) };
            let unfit = || Error::config(format!("{count} frames of {size} B cannot be attached to {}", kind.name()));
            Box::new(Attached(plan.kind.attach(&plan, &slices)?.ok_or_else(unfit)?))
        }
    };
    let (mut sent, mut at, watch) = (0, 0, Stopwatch::start());
    while watch.elapsed().as_secs() < seconds as u64 {
        let taken = sender.send(&slices, at, call).map_err(failed)?;
        sent += taken;
        at = (at + taken) % count;
    }
    let spent = watch.elapsed().as_secs_f64();
    println!("sent={sent} dropped={} mpps={:.3}", sender.dropped(), sent as f64 / spent / 1e6);
    Ok(())
}

/// Sends frames from number `at` on, up to the last, in one call.
trait Sender {
    fn send(&mut self, frames: &[&[u8]], at: usize, call: usize) -> io::Result<usize>;

    /// Frames that it knows to be lost.
    fn dropped(&mut self) -> u64 {
        0
    }
}

/// Live frames, attached once.
struct Attached(Box<dyn AttachedFrames>);

impl Sender for Attached {
    fn send(&mut self, frames: &[&[u8]], at: usize, call: usize) -> io::Result<usize> {
        let sent = self.0.send(at, call.min(frames.len() - at)).map_err(io::Error::other)?;
        Ok(sent.taken)
    }

    fn dropped(&mut self) -> u64 {
        self.0.counters().send_dropped
    }
}

/// Memory shared with the kernel, for as long as the process lives.
struct Shared(*mut u8);

impl Shared {
    /// Maps `bytes` of `file` from `offset` on; of no file without one.
    fn map(bytes: usize, file: Option<(&OwnedFd, i64)>) -> io::Result<Self> {
        let (access, populate) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_POPULATE);
        let (kind, fd, offset) = match file {
            Some((file, offset)) => (libc::MAP_SHARED, file.as_raw_fd(), offset),
            None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0),
        };
        // SAFETY: a new mapping at a place that the kernel chooses.
        let memory = unsafe { libc::mmap(ptr::null_mut(), bytes, access, kind | populate, fd, offset) };
        if memory == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(Shared(memory.cast())) }
    }

    /// A word at `at`, which is in the mapping and aligned.
    fn word(&self, at: usize) -> &AtomicU32 {
        // SAFETY: as the callers say; the kernel, too, uses it as one word.
        unsafe { AtomicU32::from_ptr(self.0.add(at).cast()) }
    }

    /// Writes a value at `at`; it fits the mapping, and the kernel does not read it now.
    fn put<T>(&self, at: usize, value: T) {
        // SAFETY: as the callers say.
        unsafe { self.0.add(at).cast::<T>().write_unaligned(value) }
    }

    /// The same of bytes.
    fn copy(&self, at: usize, bytes: &[u8]) {
        // SAFETY: as the callers say; `bytes` is other memory.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.0.add(at), bytes.len()) }
    }
}

fn socket(family: i32) -> io::Result<OwnedFd> {
    // SAFETY: no addresses; a result that is not negative is a new descriptor.
    match unsafe { libc::socket(family, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) } {
        fd if fd < 0 => Err(io::Error::last_os_error()),
        // SAFETY: nothing else owns it.
        fd => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
    }
}

fn set<T>(socket: &OwnedFd, level: i32, name: i32, value: T) -> io::Result<()> {
    // SAFETY: the kernel reads the value, which outlives the call.
    let got = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), size_of::<T>() as libc::socklen_t)
    };
    if got < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn bind<T>(socket: &OwnedFd, address: T) -> io::Result<()> {
    // SAFETY: the kernel reads the address, which outlives the call.
    let got = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size_of::<T>() as libc::socklen_t) };
    if got < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Has the kernel send what a ring holds.
fn kick(socket: &OwnedFd) -> io::Result<()> {
    // SAFETY: no bytes and no address are passed.
    let got = unsafe { libc::sendto(socket.as_raw_fd(), ptr::null(), 0, libc::MSG_DONTWAIT, ptr::null(), 0) };
    if got < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn index(interface: &str) -> io::Result<u32> {
    let name = CString::new(interface)?;
    // SAFETY: a C string that outlives the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

const SOL_XDP: i32 = 283;
/// Frames that one call may send, since Linux 6.17.
const XDP_MAX_TX_SKB_BUDGET: i32 = 9;

/// An AF_XDP socket in copy mode that only sends. Chunks come back in the order in which they were given.
struct XdpRing {
    socket: OwnedFd,
    chunks: Shared,
    send: Shared,
    done: Shared,
    at: libc::xdp_mmap_offsets,
    given: u32,
}

impl XdpRing {
    fn open(interface: &str) -> io::Result<Self> {
        let socket = socket(libc::AF_XDP)?;
        let bytes = PLACE * PLACES as usize;
        let chunks = Shared::map(bytes, None)?;
        let umem = libc::xdp_umem_reg {
            addr: chunks.0 as u64,
            len: bytes as u64,
            chunk_size: PLACE as u32,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        set(&socket, SOL_XDP, libc::XDP_UMEM_REG, umem)?;
        for ring in [libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_COMPLETION_RING, libc::XDP_TX_RING] {
            set(&socket, SOL_XDP, ring, PLACES)?;
        }
        // SAFETY: numbers, of which 0 is one.
        let mut at: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
        let mut len = size_of_val(&at) as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes to `at`.
        let got = unsafe {
            libc::getsockopt(socket.as_raw_fd(), SOL_XDP, libc::XDP_MMAP_OFFSETS, (&raw mut at).cast(), &raw mut len)
        };
        if got < 0 {
            return Err(io::Error::last_os_error());
        }
        let size = |desc: u64, each: usize| desc as usize + PLACES as usize * each;
        let send =
            Shared::map(size(at.tx.desc, size_of::<libc::xdp_desc>()), Some((&socket, libc::XDP_PGOFF_TX_RING)))?;
        let done = (&socket, libc::XDP_UMEM_PGOFF_COMPLETION_RING as i64);
        let done = Shared::map(size(at.cr.desc, size_of::<u64>()), Some(done))?;
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: libc::XDP_COPY,
            sxdp_ifindex: index(interface)?,
            sxdp_queue_id: 0,
            sxdp_shared_umem_fd: 0,
        };
        bind(&socket, address)?;
        // Older kernels have no such limit to raise: then a call sends 32 frames.
        let _ = set(&socket, SOL_XDP, XDP_MAX_TX_SKB_BUDGET, PLACES);
        Ok(XdpRing { socket, chunks, send, done, at, given: 0 })
    }
}

impl Sender for XdpRing {
    fn send(&mut self, frames: &[&[u8]], at: usize, call: usize) -> io::Result<usize> {
        let back = self.done.word(self.at.cr.producer as usize).load(Ordering::Acquire);
        self.done.word(self.at.cr.consumer as usize).store(back, Ordering::Release);
        let room = PLACES - self.given.wrapping_sub(back);
        let mut taken = 0;
        for frame in frames[at..].iter().take(call.min(room as usize)) {
            let place = (self.given % PLACES) as usize;
            self.chunks.copy(place * PLACE, frame);
            let desc = libc::xdp_desc { addr: (place * PLACE) as u64, len: frame.len() as u32, options: 0 };
            self.send.put(self.at.tx.desc as usize + place * size_of::<libc::xdp_desc>(), desc);
            self.given = self.given.wrapping_add(1);
            taken += 1;
        }
        self.send.word(self.at.tx.producer as usize).store(self.given, Ordering::Release);
        while let Err(error) = kick(&self.socket) {
            match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EBUSY | libc::EINTR) => {}
                Some(libc::ENOBUFS) => break,
                _ => return Err(error),
            }
        }
        Ok(taken)
    }
}

/// What a slot has before the frame: its header, and that of virtio by which the kernel copies the frame.
const SLOT_HEAD: usize = size_of::<libc::tpacket2_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);
const VIRTIO: usize = 10;
/// Bytes of a block of slots.
const BLOCK: usize = 1 << 16;

/// A packet socket with a send ring, past the queueing discipline.
struct PacketRing {
    socket: OwnedFd,
    slots: Shared,
    head: usize,
}

impl PacketRing {
    fn open(interface: &str) -> io::Result<Self> {
        let socket = socket(libc::AF_PACKET)?;
        set(&socket, libc::SOL_PACKET, libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V2 as i32)?;
        set(&socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
        set(&socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1)?;
        let bytes = PLACE * PLACES as usize;
        let ring = libc::tpacket_req {
            tp_block_size: BLOCK as u32,
            tp_block_nr: (bytes / BLOCK) as u32,
            tp_frame_size: PLACE as u32,
            tp_frame_nr: PLACES,
        };
        set(&socket, libc::SOL_PACKET, libc::PACKET_TX_RING, ring)?;
        let slots = Shared::map(bytes, Some((&socket, 0)))?;
        // SAFETY: numbers, of which 0 is one.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_ifindex = index(interface)? as i32;
        bind(&socket, address)?;
        Ok(PacketRing { socket, slots, head: 0 })
    }
}

impl Sender for PacketRing {
    fn send(&mut self, frames: &[&[u8]], at: usize, call: usize) -> io::Result<usize> {
        const LENGTH: usize = std::mem::offset_of!(libc::tpacket2_hdr, tp_len);
        let mut taken = 0;
        for frame in frames[at..].iter().take(call) {
            let slot = self.head * PLACE;
            let busy = libc::TP_STATUS_SEND_REQUEST | libc::TP_STATUS_SENDING;
            if self.slots.word(slot).load(Ordering::Acquire) & busy != 0 {
                break;
            }
            self.slots.put(slot + LENGTH, (VIRTIO + frame.len()) as u32);
            self.slots.put(slot + SLOT_HEAD, [0u16, frame.len() as u16, 0, 0, 0]);
            self.slots.copy(slot + SLOT_HEAD + VIRTIO, frame);
            self.slots.word(slot).store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
            self.head = (self.head + 1) % PLACES as usize;
            taken += 1;
        }
        match kick(&self.socket) {
            Err(error) if !matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR)) => {
                Err(error)
            }
            _ => Ok(taken),
        }
    }
}
