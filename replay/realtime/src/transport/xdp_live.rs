//! Replay inside the kernel: an XDP program writes our frames into live frames and sends them on an interface.
//!
//! `BPF_PROG_TEST_RUN` with live frames runs a program on frames that the kernel makes. Ours copies the next frame from
//! a shared map, and redirects it to the interface: no packet is built around it and no system call is made per frame.
//! It requires an interface that can send redirected frames, and it only sends.
//!
//! Registration: a call with more than one frame registers the program with the kernel's dispatcher and waits twice for RCU, tens of
//! milliseconds. While the program is attached anywhere, it stays registered and a call costs about 13 µs. So it is attached to the
//! loopback of a separate network namespace, which is down and never receives a frame; the namespace ends with the process.
#![expect(unsafe_code, reason = "talks to the kernel; every block says why it is sound")]

use super::AHEAD;
use super::af_xdp::{self, takes_redirected};
use super::bpf::{Attach, BpfLink, BpfProgram, Map, Memory, host_error};
use super::insn::*;
use super::link::Interface;
use super::stall::{Card, Stall};
use super::{
    Arrival, AttachedFrames, Capabilities, End, Found, Ports, Submitted, Transport, TransportPlan, Wire, WireCounters,
};
use crate::clock::Stopwatch;
use pktgen_core::registry::Named;
use pktgen_core::{Error, Result, prefetch};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Frames that the kernel makes per inner round. A veth's ring of 256 is emptied once per round: rounds of 256 lost
/// frames when measured, and were slower; 32 to 128 were equal.
const BATCH: u32 = 64;
/// Alignment of frames in the shared area: a cache line.
const ALIGN: usize = 64;
/// The shortest frame: an Ethernet header.
const FRAME_MIN: usize = 14;
/// Maximum of all kernels: a page less the kernel's 256 bytes before the frame.
const FRAME_LIMIT: usize = 4096 - 256;
/// Minimum duration of a call with a few frames, which is the quantum of pacing.
const QUANTUM_NS: u64 = 50_000;
/// Interval of readings of the interface's drop counter.
const LOOK: Duration = Duration::from_millis(50);
/// A slower call means that the program is not registered.
const CALL_SLOW_NS: u64 = 2_000_000;
/// Up to this length, frames of one length are copied without a helper: 61 ns instead of 64 per frame of 60 bytes when measured.
const COPY_MAX: usize = 256;
/// Maximum number of frames and bytes in the shared area.
const FRAMES_MAX: u32 = 1 << 22;
const BYTES_MAX: usize = (1 << 28) + (1 << 16);

// Layout of the shared state: four numbers, then start and length of each frame of a call.
const NEXT: i16 = 0;
const END: i16 = 8;
const SENT: i16 = 16;
const FAILED: i16 = 24;
const TABLE: i16 = 64;

/// Options of a port.
#[derive(Debug, Clone)]
pub struct Options {
    /// Interface name, in the network namespace of the opening thread.
    pub interface: String,
    /// Maximum number of frames per call: more cost less each, fewer permit finer pacing.
    pub quantum_frames: u32,
    /// Maximum bytes of frames per call.
    pub quantum_bytes: usize,
    /// The common length of all frames, if they have one.
    pub length: Option<usize>,
    /// Whether its counters include the interface's count of drops, which covers all senders there.
    pub tells_interface: bool,
}

impl Options {
    /// Calls of at most 2048 frames and 2 MiB, the fastest of those measured; shorter if fewer are offered.
    pub fn new(interface: &str) -> Self {
        Options {
            interface: interface.to_owned(),
            quantum_frames: 2048,
            quantum_bytes: 2 << 20,
            length: None,
            tells_interface: true,
        }
    }

    /// Returns the capabilities of such a port before it is opened: the kernel's limit or the interface's MTU may be lower.
    pub fn capabilities(&self) -> Capabilities {
        Capabilities {
            frame_max: FRAME_LIMIT,
            receives: false,
            attaches: true,
            quantum_ns: QUANTUM_NS,
            privileged: true,
            ..Capabilities::CABLES
        }
    }

    fn check(&self) -> Result<()> {
        let Options { quantum_frames: frames, quantum_bytes: bytes, .. } = self;
        if !(1..=FRAMES_MAX).contains(frames) {
            return Err(Error::config(format!("quantum_frames = {frames}: 1 to {FRAMES_MAX} are possible")));
        }
        if !(2 * FRAME_LIMIT..=BYTES_MAX).contains(bytes) {
            return Err(Error::config(format!(
                "quantum_bytes = {bytes}: {} to {BYTES_MAX} are possible",
                2 * FRAME_LIMIT,
            )));
        }
        Ok(())
    }
}

/// The counters at the start of the shared state.
struct Shared {
    memory: Memory,
    frames: u32,
}

impl Shared {
    fn number(&self, at: i16) -> &AtomicU64 {
        // SAFETY: `at` is one of the four numbers: inside the mapping and aligned. The program changes them only
        // while a call of ours runs, so nothing else races; atomics because it is the kernel that writes.
        unsafe { AtomicU64::from_ptr(self.memory.start().as_ptr().add(at as usize).cast()) }
    }

    fn get(&self, at: i16) -> u64 {
        self.number(at).load(Ordering::Relaxed)
    }

    fn set(&self, at: i16, value: u64) {
        self.number(at).store(value, Ordering::Relaxed);
    }

    fn set_frame(&self, index: usize, start: usize, len: usize) {
        debug_assert!(index < self.frames as usize);
        // SAFETY: the table has `frames` entries of 8 bytes and `index` is below; no call is running.
        unsafe {
            self.memory.start().add(TABLE as usize).cast::<[u32; 2]>().add(index).write([start as u32, len as u32])
        }
    }
}

/// A port that sends by calls.
pub(crate) struct XdpLive {
    // Fields drop in this order: detach, then unload.
    _registration: Registration,
    program: BpfProgram,
    _maps: [Map; 3],
    shared: Shared,
    area: Memory,
    interface: Interface,
    options: Options,
    /// Initial content of each live frame; only its length matters.
    blank: Vec<u8>,
    /// Number of frames that stay in the shared area, and the length of the longest.
    attached: Option<(usize, usize)>,
    frame_max: usize,
    call_ns: u64,
    sent: u64,
    failed: u64,
    stall: Stall,
    card: Card,
    watch: Stopwatch,
    /// Time of the last reading of the interface's drops, its value, and the frames sent by then.
    looked: (Duration, u64, u64),
    /// Frames that the interface had sent at the last reading; `None` if it was gone.
    left: Option<u64>,
}

/// Returns whether an interface takes the frames of a port that sent `sent` of them: drops are counted for all of its senders together, so
/// they may be of others if some frames left.
fn takes(dropped: u64, sent: u64, some_left: bool) -> bool {
    dropped < sent || some_left
}

impl XdpLive {
    /// Loads the program and registers it.
    pub fn open(options: &Options) -> Result<Self> {
        options.check()?;
        let mut interface = Interface::open(&options.interface)?;
        if !takes_redirected(&interface)? {
            let name = interface.name();
            return Err(Error::Host(format!(
                "this host cannot send live frames on {name}: its driver takes no redirected frames (ndo_xdp_xmit); \
                 the peer of a veth must have an XDP program or GRO: ethtool -K PEER gro on"
            )));
        }
        let frames = options.quantum_frames;
        let (state, memory) = Map::shared("pktgen_state", TABLE as usize + frames as usize * 8)?;
        let (frames_map, area) = Map::shared("pktgen_frames", options.quantum_bytes)?;
        let interfaces = Map::of_interfaces(1)?;
        let why = |e: io::Error| host_error(&format!("redirect frames to {}", interface.name()), &e);
        interfaces.set(0, interface.index()).map_err(why)?;
        let code = replay_program(&state, &frames_map, &interfaces, options);
        let program = BpfProgram::load("pktgen_live", code.insns(), false)?;
        let registration = Registration::new(&program)?;
        let left = interface.sent();
        let mut port = XdpLive {
            _registration: registration,
            program,
            _maps: [state, frames_map, interfaces],
            shared: Shared { memory, frames },
            area,
            interface,
            options: options.clone(),
            blank: vec![0; FRAME_LIMIT],
            attached: None,
            frame_max: 0,
            call_ns: 0,
            sent: 0,
            failed: 0,
            stall: Stall::new(),
            card: Card::open(&options.interface),
            watch: Stopwatch::start(),
            looked: (Duration::ZERO, 0, 0),
            left,
        };
        port.probe()?;
        Ok(port)
    }

    /// Determines the kernel's longest live frame, and the cost of a call. Without a frame of ours, the program drops the kernel's frames.
    fn probe(&mut self) -> Result<()> {
        self.shared.set(END, 0);
        let run = |len: usize, repeat| self.program.run_live(&self.blank[..len], repeat, BATCH);
        run(60, 1).map_err(|e| host_error("run XDP programs on live frames (Linux 5.18 and later do)", &e))?;
        let (mut fits, mut above) = (60, FRAME_LIMIT + 1);
        while fits + 1 < above {
            let middle = fits.midpoint(above);
            match run(middle, 1) {
                Ok(()) => fits = middle,
                Err(_) => above = middle,
            }
        }
        self.frame_max = fits.min(self.interface.frame_max());
        let mut best = u64::MAX;
        for _ in 0..5 {
            let watch = Stopwatch::start();
            run(60, 2).map_err(|e| host_error("run XDP programs on live frames", &e))?;
            best = best.min(watch.elapsed().as_nanos() as u64);
        }
        self.call_ns = best;
        if best > CALL_SLOW_NS {
            return Err(Error::Host(format!(
                "this host cannot keep the program registered: a call lasts {} µs instead of about 13; use af_xdp",
                best / 1000
            )));
        }
        Ok(())
    }

    /// Returns the largest frame that this port sends on this interface.
    pub fn frame_max(&self) -> usize {
        self.frame_max
    }

    /// Fails if the interface has dropped everything for a while: calls do not report it, only the interface's counters.
    fn look(&mut self, bytes: usize) -> Result<()> {
        let now = self.watch.elapsed();
        let (then, dropped_before, sent_before) = self.looked;
        if now.saturating_sub(then) < LOOK {
            return Ok(());
        }
        let dropped = self.interface.drops().unwrap_or_default().send;
        let left = self.interface.sent();
        self.looked = (now, dropped, self.sent);
        let some_left = std::mem::replace(&mut self.left, left) != left;
        let (dropped, sent) = (dropped - dropped_before.min(dropped), self.sent - sent_before);
        if sent > 0 && takes(dropped, sent, some_left) {
            self.stall.taken();
        } else if sent > 0 && self.stall.refused() {
            return Err(self.stall.of_interface(&self.card, &io::Error::other("dropped by the driver"), bytes));
        }
        Ok(())
    }

    /// Opens a port to whose area these frames are attached; `None` if they are too many or too long. Drops of the
    /// interface are reported by the port beside it.
    pub fn attaching(interface: &str, frames: &[&[u8]]) -> Result<Option<Self>> {
        let area = frames.iter().map(|frame| frame.len().next_multiple_of(ALIGN)).sum::<usize>() + 2 * FRAME_LIMIT;
        if frames.len() > FRAMES_MAX as usize || area > BYTES_MAX {
            return Ok(None);
        }
        let length = frames.first().map(|frame| frame.len()).filter(|len| *len <= COPY_MAX);
        let mut port = Self::open(&Options {
            quantum_frames: (frames.len() as u32).max(1),
            quantum_bytes: area,
            length: length.filter(|len| frames.iter().all(|frame| frame.len() == *len)),
            tells_interface: false,
            ..Options::new(interface)
        })?;
        let (taken, longest) = port.lay_out(frames);
        port.attached = Some((taken, longest));
        Ok((taken == frames.len()).then_some(port))
    }

    /// Sends `count` frames of the area from number `first` on, of at most `longest` bytes.
    fn call(&mut self, first: usize, count: usize, longest: usize) -> Result<Submitted> {
        for (at, value) in [(NEXT, first), (SENT, 0), (FAILED, 0), (END, first + count)] {
            self.shared.set(at, value as u64);
        }
        let run = self.program.run_live(&self.blank[..longest], count as u32, BATCH);
        self.shared.set(END, 0);
        let taken = self.shared.get(NEXT) - first as u64;
        self.sent += taken;
        self.failed += self.shared.get(FAILED);
        let submitted = |own: &Self| Submitted { refused: own.stall.refuses(), ..Submitted::all(taken as usize) };
        match run {
            Ok(()) => self.look(longest).map(|()| submitted(self)),
            // A signal ends a call early; the caller offers the rest again.
            Err(e) if e.raw_os_error() == Some(libc::EINTR) => Ok(submitted(self)),
            Err(e) => Err(host_error(&format!("send live frames on {}", self.options.interface), &e)),
        }
    }

    /// Writes frames into the shared area until one does not fit. Returns their number, and the longest length.
    fn lay_out(&mut self, frames: &[&[u8]]) -> (usize, usize) {
        let (mut taken, mut longest, mut at) = (0, 0, 0);
        // The program checks against the limit, not the length: the last frame starts where any would fit.
        let last = self.area.size() - FRAME_LIMIT;
        for (i, frame) in frames.iter().enumerate().take(self.options.quantum_frames as usize) {
            frames.get(i + AHEAD).into_iter().for_each(|f| prefetch::<[u8]>(f));
            if at > last || frame.len() > self.frame_max || frame.len() < FRAME_MIN {
                break;
            }
            // SAFETY: at + len is inside the area, as at <= size - limit and len <= frame_max <= limit; `frame` is
            // memory of the caller, not of the mapping, which nobody else has; no call is running.
            unsafe { self.area.start().add(at).as_ptr().copy_from_nonoverlapping(frame.as_ptr(), frame.len()) }
            self.shared.set_frame(taken, at, frame.len());
            at += frame.len().next_multiple_of(ALIGN);
            longest = longest.max(frame.len());
            taken += 1;
        }
        (taken, longest)
    }
}

/// `kind = "xdp_live"`: the workers send live frames; everything else goes through AF_XDP sockets.
pub(crate) struct LiveFrames;

impl Named for LiveFrames {
    fn name(&self) -> &'static str {
        "xdp_live"
    }
    fn about(&self) -> &'static str {
        "frames of the workers replayed by the kernel (XDP live frames), in quanta; the rest as af_xdp; root"
    }
}

impl Transport for LiveFrames {
    fn capabilities(&self) -> Capabilities {
        Capabilities { receives: true, ..Options::new("").capabilities() }
    }

    fn has_queues(&self) -> bool {
        true
    }

    fn keeps(&self) -> &'static [u32] {
        // Running a program requires the same capabilities as loading it: CAP_NET_ADMIN, CAP_PERFMON, CAP_BPF.
        &[12, 38, 39]
    }

    fn open(&self, plan: &TransportPlan, ends: &[End], frame_max: usize) -> Result<Vec<Ports>> {
        self.check_together(plan, ends)?;
        let open = |end: &End| -> Result<Ports> {
            let interface = plan.interface(*end)?;
            let ports = af_xdp::ports(plan, *end, frame_max)?;
            if *end != End::Workers {
                return Ok(ports);
            }
            // Calls of several threads run concurrently, each with a separate program and frames.
            ports.around(|queue, back| -> Result<Box<dyn Wire>> {
                let out = XdpLive::open(&Options { tells_interface: queue == 0, ..Options::new(interface) })?;
                plan.check_fit(frame_max, interface, out.frame_max())?;
                Ok(Box::new(Live { out, back }))
            })
        };
        // The device's end first: a veth passes live frames on only to a peer with a program.
        let mut wires: Vec<_> = ends.iter().rev().map(open).collect::<Result<_>>()?;
        wires.reverse();
        Ok(wires)
    }

    fn attach(&self, plan: &TransportPlan, frames: &[&[u8]]) -> Result<Option<Box<dyn AttachedFrames>>> {
        let port = XdpLive::attaching(plan.interface(End::Workers)?, frames)?;
        Ok(port.map(|port| Box::new(AttachedLive(port)) as Box<dyn AttachedFrames>))
    }
}

/// Sends by live frames, receives by an AF_XDP socket on the same interface.
struct Live {
    out: XdpLive,
    back: Box<dyn Wire>,
}

impl Wire for Live {
    fn send(&mut self, frames: &[&[u8]]) -> Result<Submitted> {
        self.out.send(frames)
    }

    fn receive(&mut self, most: usize, each: &mut dyn FnMut(Arrival<'_>)) -> Result<Found> {
        self.back.receive(most, each)
    }

    fn wait(&mut self, timeout_ns: u64) -> Result<()> {
        self.back.wait(timeout_ns)
    }

    fn counters(&mut self) -> WireCounters {
        let (out, back) = (self.out.counters(), self.back.counters());
        WireCounters { received: back.received, receive_dropped: back.receive_dropped, ..out }
    }

    fn mode(&self) -> String {
        format!("{}; {}", self.out.mode(), self.back.mode())
    }

    fn notes(&mut self) -> Vec<(String, String)> {
        self.back.notes()
    }
}

impl Wire for XdpLive {
    fn send(&mut self, frames: &[&[u8]]) -> Result<Submitted> {
        let Some(first) = frames.first() else { return Ok(Submitted::all(0)) };
        if first.len() > self.frame_max || first.len() < FRAME_MIN {
            return Err(Error::config(format!(
                "a frame of {} B on {} over xdp_live: {FRAME_MIN} to {} B are possible (one page less the kernel's \
                 room, MTU and header {}); send smaller ones, raise the MTU, or use af_packet",
                first.len(),
                self.options.interface,
                self.frame_max,
                self.interface.frame_max(),
            )));
        }
        let (count, longest) = self.lay_out(frames);
        self.call(0, count, longest)
    }

    fn receive(&mut self, _most: usize, _each: &mut dyn FnMut(Arrival<'_>)) -> Result<Found> {
        Ok(Found::default())
    }

    fn wait(&mut self, timeout_ns: u64) -> Result<()> {
        // Nothing ever arrives, so waiting is a sleep.
        std::thread::sleep(Duration::from_nanos(timeout_ns));
        Ok(())
    }

    fn counters(&mut self) -> WireCounters {
        // Frames for which the driver's ring had no room are in the interface's count only.
        let of_interface =
            if self.options.tells_interface { self.interface.drops().unwrap_or_default().send } else { 0 };
        let send_dropped = self.failed + of_interface;
        WireCounters { sent: self.sent, send_dropped, ..WireCounters::default() }
    }

    fn mode(&self) -> String {
        let Options { interface, quantum_frames, quantum_bytes, .. } = &self.options;
        let frames = match self.attached {
            Some((frames, _)) => format!("{frames} frames attached once"),
            None => format!("up to {quantum_frames} frames and {quantum_bytes} B per call"),
        };
        let call_us = self.call_ns as f64 / 1000.0;
        format!("xdp_live {interface}: live frames, registered, {call_us:.1} µs per call, {frames}, batch {BATCH}")
    }
}

/// A port whose area keeps its frames.
struct AttachedLive(XdpLive);

impl AttachedFrames for AttachedLive {
    fn send(&mut self, first: usize, count: usize) -> Result<Submitted> {
        match self.0.attached {
            Some((frames, longest)) if first + count <= frames => self.0.call(first, count, longest),
            _ => {
                Err(Error::Invalid(format!("frames {first} to {} are not attached; please report this", first + count)))
            }
        }
    }

    fn counters(&mut self) -> WireCounters {
        self.0.counters()
    }

    fn mode(&self) -> String {
        self.0.mode()
    }
}

/// Keeps a program registered with the dispatcher: attached to the loopback of a separate namespace.
struct Registration {
    _link: BpfLink,
    /// Any socket holds the namespace in which it was made.
    _namespace: OwnedFd,
}

impl Registration {
    fn new(program: &BpfProgram) -> Result<Self> {
        // In a separate thread, as leaving a namespace is irreversible.
        let made = std::thread::scope(|scope| scope.spawn(|| Self::in_new_namespace(program)).join());
        let made = made.unwrap_or_else(|_| Err(io::Error::other("its thread panicked")));
        made.map_err(|e| {
            host_error("keep an XDP program registered in a network namespace of its own (CAP_SYS_ADMIN)", &e)
        })
    }

    fn in_new_namespace(program: &BpfProgram) -> io::Result<Self> {
        // SAFETY: concerns this thread only, which ends soon.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: no addresses; a non-negative result is a new descriptor that nobody else owns.
        let namespace = unsafe {
            let fd = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        // SAFETY: a C string that outlives the call.
        let loopback = unsafe { libc::if_nametoindex(c"lo".as_ptr()) };
        Ok(Registration { _link: program.attach(loopback, Attach::Generic)?, _namespace: namespace })
    }
}

/// Returns the program: reads the next frame's start and length from the table, adapts the live frame's length, copies
/// and redirects. Without a next frame, it drops.
fn replay_program(state: &Map, frames: &Map, interfaces: &Map, options: &Options) -> Code {
    let mut code = Code::new();
    let (drop, fail) = (code.label(), code.label());
    code.copy(R6, R1);
    code.load_value(R7, state.fd());
    // R8: the next frame's number, if there is one.
    code.load_u64(R8, R7, NEXT);
    code.load_u64(R1, R7, END);
    code.jump_ge_reg(R8, R1, drop);
    code.jump(When::Ge, R8, options.quantum_frames as i32, drop);
    code.copy(R2, R8);
    code.add(R2, 1);
    code.store_u64(R7, NEXT, R2);
    // R9: its start, R8: its length; the verifier requires bounds of both.
    code.shift_left(R8, 3);
    code.copy(R1, R7);
    code.add_reg(R1, R8);
    code.load_u32(R9, R1, TABLE);
    code.load_u32(R8, R1, TABLE + 4);
    code.jump(When::Gt, R9, (options.quantum_bytes - FRAME_LIMIT) as i32, fail);
    match options.length {
        Some(length) => copy_short(&mut code, frames, length, fail),
        None => copy_any(&mut code, frames, fail),
    }
    code.load_map(R1, interfaces.fd());
    code.set(R2, 0);
    code.set(R3, 0);
    code.call(REDIRECT_MAP);
    code.jump(When::Ne, R0, XDP_REDIRECT, fail);
    count(&mut code, SENT);
    code.exit();
    code.place(fail);
    count(&mut code, FAILED);
    code.place(drop);
    code.set(R0, XDP_DROP);
    code.exit();
    code
}

/// Copies a frame of `length` bytes from R9 on: the live frame has the same length.
fn copy_short(code: &mut Code, frames: &Map, length: usize, fail: JumpLabel) {
    let copy = code.label();
    code.load_value(R3, frames.fd());
    code.add_reg(R3, R9);
    code.load_u32(R1, R6, CTX_DATA);
    code.load_u32(R2, R6, CTX_DATA_END);
    code.copy(R4, R1);
    code.add(R4, length as i32);
    code.jump_ge_reg(R2, R4, copy);
    // Otherwise.
    code.set(R0, 0);
    code.jump(When::Eq, R0, 0, fail);
    code.place(copy);
    code.copy_bytes(R1, R3, length, R4);
}

/// Copies a frame of R8 bytes from R9 on.
fn copy_any(code: &mut Code, frames: &Map, fail: JumpLabel) {
    let copy = code.label();
    code.jump(When::Gt, R8, FRAME_LIMIT as i32, fail);
    code.jump(When::Lt, R8, FRAME_MIN as i32, fail);
    // The live frame is as long as the call's longest: cut it if ours is shorter.
    code.load_u32(R1, R6, CTX_DATA);
    code.load_u32(R3, R6, CTX_DATA_END);
    code.sub_reg(R3, R1);
    code.copy(R2, R8);
    code.sub_reg(R2, R3);
    code.jump(When::Eq, R2, 0, copy);
    code.copy(R1, R6);
    code.call(XDP_ADJUST_TAIL);
    code.jump(When::Ne, R0, 0, fail);
    code.place(copy);
    code.copy(R1, R6);
    code.set(R2, 0);
    code.load_value(R3, frames.fd());
    code.add_reg(R3, R9);
    code.copy(R4, R8);
    code.call(XDP_STORE_BYTES);
    code.jump(When::Ne, R0, 0, fail);
}

/// Adds one to a number of the state, whose address is in R7.
fn count(code: &mut Code, at: i16) {
    code.load_u64(R1, R7, at);
    code.add(R1, 1);
    code.store_u64(R7, at, R1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_beside_frames_that_left_are_no_refusal() {
        assert!(takes(1000, 500, true), "drops of other queues");
        assert!(takes(0, 1, false), "the interface has not counted the frame yet");
        assert!(!takes(500, 500, false));
    }
}
