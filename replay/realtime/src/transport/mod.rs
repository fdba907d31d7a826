//! Transports: how frames leave and enter the process.
//!
//! Virtual time needs no transport: its driver carries frames from link to link. In real time a [`Wire`] is one end of
//! a cable: it accepts whole Ethernet frames and passes on those that arrive. The capabilities of a kind of transport
//! are declared and checked against the experiment before anything is sent.

mod af_packet;
mod af_xdp;
mod bpf;
mod departures;
pub mod ethtool;
pub(crate) mod gather;
#[cfg(any(test, feature = "libpcap"))]
mod grown;
mod insn;
mod interface_counts;
#[cfg(feature = "libpcap")]
mod libpcap;
mod link;
mod listen;
pub mod middleware;
mod nowhere;
mod packet_ring;
mod packet_socket;
mod pcap;
mod plan;
mod queues;
mod receive_batch;
mod redirect;
mod ring;
pub mod routes;
pub mod safety;
mod send_ring;
mod sink;
mod socket;
mod stall;
mod stamps;
mod udp;
mod virtual_time;
mod xdp_live;
mod xsk;

use pktgen_core::Result;
use pktgen_core::registry::Named;
use pktgen_wire::wire::frame::FRAME_MAX;

pub use af_xdp::{XdpFacts, bind_sender, memory_of_a_port, xdp_facts};
pub use departures::{Departure, Departures};
pub(crate) use ethtool::card_clock;
pub(crate) use interface_counts::{InterfaceReading, checksum_errors};
pub use link::{Stamping, stamping};
pub(crate) use listen::{Dropped, RETIRE_MS};
pub use listen::{Listen, ListenKind, Listener};
pub(crate) use nowhere::Nowhere;
pub(crate) use packet_socket::AllFrames;
pub(crate) use plan::QUEUES_MAX;
pub use plan::{Fanout, Frames, Late, Pacing, RealTime, TransportPlan, Wait};
pub(crate) use queues::to_send as queues_to_send;
pub use queues::{Ports, check_enough_queues};
pub use sink::Sink;
pub use stamps::Stamps;

/// Frames between the one that is copied and the one whose memory is fetched: frames of a trace are always cold.
const AHEAD: usize = 2;

/// The transport of experiments that name none.
pub const DEFAULT: &str = "virtual";

/// Gives the binary all capabilities that transports need. `setcap` replaces what there was, so they are always given together.
pub const SETCAP: &str = "run as root, or once: sudo setcap \
    cap_net_raw,cap_net_admin,cap_bpf,cap_perfmon,cap_sys_admin,cap_ipc_lock+ep $(command -v pktgen)";

/// The capabilities of a kind of transport.
#[derive(Debug, Clone, Copy)]
pub struct Capabilities {
    /// Largest frame in bytes, from the Ethernet header on, without FCS.
    pub frame_max: usize,
    /// Whether it is in real time.
    pub real_time: bool,
    /// Whether it has a separate time, that of [`TransportPlan::file_clock`], which advances by [`Wire::wait`] only.
    pub own_time: bool,
    /// Whether it can receive.
    pub receives: bool,
    /// Minimum duration of a batch of frames, in ns; 0 if each frame can be paced separately.
    pub quantum_ns: u64,
    /// Whether the kernel or the card stamps arriving frames.
    pub stamps_received: bool,
    /// Whether the kernel or the card stamps departing frames.
    pub stamps_sent: bool,
    /// Whether frames can be [attached](Transport::attach).
    pub attaches: bool,
    /// Whether it supports zero copy.
    pub zero_copy: bool,
    /// Whether the kernel can divide one message into several frames.
    pub segments: bool,
    /// Whether it needs privileges.
    pub privileged: bool,
    /// Whether cables carry whole frames, with any addresses; addresses of sockets are the host's.
    pub heads: bool,
    /// Whether both ends of its cables are in this process.
    pub in_process: bool,
    /// VLAN tags are seen, also those that the kernel or the card took out of a frame.
    pub sees_tags: bool,
}

impl Capabilities {
    /// Capabilities of cables in real time that carry whole frames, without extras.
    pub(crate) const CABLES: Self = Capabilities {
        frame_max: FRAME_MAX,
        real_time: true,
        own_time: false,
        receives: true,
        quantum_ns: 0,
        stamps_received: false,
        stamps_sent: false,
        attaches: false,
        zero_copy: false,
        segments: false,
        privileged: false,
        heads: true,
        in_process: false,
        sees_tags: false,
    };
}

/// Counts of a wire.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WireCounters {
    /// Frames that were submitted and accepted.
    pub sent: u64,
    /// Frames that the kernel or card dropped on the way out, as far as it reports them.
    pub send_dropped: u64,
    /// Frames received.
    pub received: u64,
    /// Frames that arrived and were lost before they were read, as far as it reports them.
    pub receive_dropped: u64,
}

impl WireCounters {
    /// Returns the sum of both.
    pub fn plus(self, other: Self) -> Self {
        WireCounters {
            sent: self.sent + other.sent,
            send_dropped: self.send_dropped + other.send_dropped,
            received: self.received + other.received,
            receive_dropped: self.receive_dropped + other.receive_dropped,
        }
    }
}

/// An arriving frame.
#[derive(Debug, Clone, Copy)]
pub struct Arrival<'a> {
    /// The frame from the Ethernet header on, possibly cut to a snap length.
    pub bytes: &'a [u8],
    /// Its length on the wire.
    pub len: usize,
    /// Arrival at the kernel or card, in ns of its clock, if it stamps.
    pub stamp_ns: Option<u64>,
    /// Whether a fault lost it: it is only to be booked as dropped.
    pub lost: bool,
}

/// The result of submitting frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Submitted {
    /// Number of frames taken, from the first on.
    pub taken: usize,
    /// Frames among them lost to a fault, as bits: bit i is the i-th. With faults, a call takes at most 64.
    pub lost: u64,
    /// Whether the kernel or the card refused the last offered frame.
    pub refused: bool,
}

impl Submitted {
    /// All `taken` frames were taken, none lost and none refused.
    pub const fn all(taken: usize) -> Self {
        Submitted { taken, lost: 0, refused: false }
    }
}

/// The result of receiving.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Found {
    /// Number of frames passed on.
    pub frames: usize,
    /// Whether the file of this end has ended. Always false for other sources.
    pub ended: bool,
}

impl Found {
    /// `frames` frames, and more may come.
    pub const fn some(frames: usize) -> Self {
        Found { frames, ended: false }
    }
}

/// One end of a cable.
pub trait Wire: Send {
    /// Submits frames in order, without waiting. Returns the result; the caller offers frames again that were not
    /// taken. A wire that accepts nothing for about a second returns an error. Allocates nothing.
    fn send(&mut self, frames: &[&[u8]]) -> Result<Submitted>;

    /// Passes on frames that had arrived before the first of them is passed on, at most `most`, without waiting: a time that the caller
    /// reads then is not before the departure of any. Fewer than `most` do not mean that no more wait; none means so, apart from frames that
    /// a filter holds. Allocates nothing.
    fn receive(&mut self, most: usize, each: &mut dyn FnMut(Arrival<'_>)) -> Result<Found>;

    /// Waits until frames may have arrived, at most `timeout_ns`.
    fn wait(&mut self, timeout_ns: u64) -> Result<()>;

    /// Waits until submitted frames have left, at most about `timeout_ns`.
    fn flush(&mut self, _timeout_ns: u64) -> Result<()> {
        Ok(())
    }

    /// Returns a received frame as on the cable, for captures of a role. Wrappers undo their own translation and delegate.
    fn on_cable<'a>(&'a mut self, frame: &'a [u8]) -> &'a [u8] {
        frame
    }

    /// Returns the totals since it was opened.
    fn counters(&mut self) -> WireCounters;

    /// Returns the actual mode, for the manifest.
    fn mode(&self) -> String;

    /// Returns notes for the manifest. Called once, after the last frame: it ends written files.
    fn notes(&mut self) -> Vec<(String, String)> {
        Vec::new()
    }
}

/// Prepared frames that are sent on an interface repeatedly.
pub trait AttachedFrames: Send {
    /// Submits `count` of them from number `first` on, as [`Wire::send`] does.
    fn send(&mut self, first: usize, count: usize) -> Result<Submitted>;

    /// Returns the totals since they were attached.
    fn counters(&mut self) -> WireCounters;

    /// Returns the actual mode, for the manifest.
    fn mode(&self) -> String;
}

/// An end of one of the two cables of a run: workers – device – server. In the order of `transport.interfaces`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The workers' end, towards the device.
    Workers,
    /// The device's end, towards the workers.
    DeviceDown,
    /// The device's end, towards the server.
    DeviceUp,
    /// The server's end, towards the device.
    Server,
}

impl End {
    /// All four ends.
    pub const ALL: [End; 4] = [End::Workers, End::DeviceDown, End::DeviceUp, End::Server];
    /// The ends of a run without a server.
    pub(crate) const LOWER: [End; 2] = [End::Workers, End::DeviceDown];

    /// Returns the other end of its cable.
    pub fn opposite(self) -> End {
        match self {
            End::Workers => End::DeviceDown,
            End::DeviceDown => End::Workers,
            End::DeviceUp => End::Server,
            End::Server => End::DeviceUp,
        }
    }

    /// Returns its name in messages.
    pub fn name(self) -> &'static str {
        ["workers", "device.down", "device.up", "server"][self as usize]
    }
}

/// A registered transport.
pub trait Transport: Named + Sync {
    /// Returns its capabilities.
    fn capabilities(&self) -> Capabilities;

    /// Returns the numbers of the capabilities that its wires need after they were opened.
    fn keeps(&self) -> &'static [u32] {
        &[]
    }

    /// Returns whether it supports several queues at each end (`transport.queues`).
    fn has_queues(&self) -> bool {
        false
    }

    /// Refuses settings with which no host could open these ends.
    fn check(&self, _plan: &TransportPlan, _ends: &[End]) -> Result<()> {
        Ok(())
    }

    /// Refuses ends that no process could open together, or with these settings. An experiment for several hosts, or for parts that run one
    /// after the other, may have them.
    fn check_together(&self, plan: &TransportPlan, ends: &[End]) -> Result<()> {
        if self.capabilities().privileged { plan.apart(ends) } else { Ok(()) }
    }

    /// Opens these ends, in order, for frames up to `frame_max` bytes. The other ends belong to other processes or hardware.
    fn open(&self, plan: &TransportPlan, ends: &[End], frame_max: usize) -> Result<Vec<Ports>>;

    /// Prepares frames that the workers send repeatedly, in addition to their open wires. `None` if the transport does
    /// not support it, or these do not fit.
    fn attach(&self, _plan: &TransportPlan, _frames: &[&[u8]]) -> Result<Option<Box<dyn AttachedFrames>>> {
        Ok(None)
    }
}

/// All transports.
pub static TRANSPORTS: &[&dyn Transport] = &[
    &virtual_time::VirtualTime,
    &ring::Ring,
    &udp::UdpSockets,
    &af_packet::PacketSockets,
    &af_xdp::XdpSockets,
    &xdp_live::LiveFrames,
    &pcap::CaptureFiles,
];
