//! How an AF_XDP port is opened, and what it can do then.

use crate::transport::Capabilities;
use crate::transport::bpf::Attach;
use pktgen_core::{Error, Result};

/// What the kernel keeps free before each frame (XDP_PACKET_HEADROOM).
pub(super) const HEADROOM: usize = 256;

/// How a port is opened.
#[derive(Debug, Clone)]
pub struct Options {
    /// Interface by name, in the network namespace of the thread that opens.
    pub interface: String,
    /// Its queue.
    pub queue: u32,
    /// Ask the driver to send from and receive into our memory. Refused where it cannot; never assumed.
    pub zero_copy: bool,
    /// Its counters have the interface's own count of drops, which is of all queues.
    pub tells_interface: bool,
    /// Receive too: attaches a program. Without, the port only sends and leaves the interface as it is.
    pub receive: bool,
    /// Where the program sits.
    pub attach: Attach,
    /// Bytes per chunk, 2048 or 4096; 256 of them are the kernel's.
    pub chunk: usize,
    /// Places in the TX ring, a power of two. Few: chunks are used again while they are in the cache.
    pub tx_ring: u32,
    /// Places in the RX ring, a power of two, and as many chunks to receive into.
    pub rx_ring: u32,
    /// Ask the kernel to send a whole TX ring per call where it can (Linux 6.17 and later), instead of 32 frames.
    pub whole_ring: bool,
}

impl Options {
    /// A port that sends and receives on queue 0, in copy mode.
    pub fn new(interface: &str) -> Self {
        Options {
            interface: interface.to_owned(),
            queue: 0,
            zero_copy: false,
            tells_interface: true,
            receive: true,
            attach: Attach::Driver,
            chunk: 4096,
            tx_ring: 256,
            rx_ring: 4096,
            whole_ring: true,
        }
    }

    /// A port that listens: a receive ring as deep as a busy moment is long, and the smallest that the kernel allows for
    /// sending.
    pub fn listening(interface: &str, rx_ring: u32, chunk: usize) -> Self {
        Options { chunk, tx_ring: 64, rx_ring: rx_ring.next_power_of_two(), ..Options::new(interface) }
    }

    /// With the smallest chunks that hold such frames: they share the cache's sets with fewer others.
    pub(crate) fn for_frames(self, frame_max: usize) -> Self {
        let chunk = if frame_max <= 2048 - HEADROOM { 2048 } else { 4096 };
        Options { chunk, ..self }
    }

    /// What a port opened so can do, before it is: the interface's MTU may be lower.
    pub fn capabilities(&self) -> Capabilities {
        Capabilities {
            frame_max: self.chunk.saturating_sub(HEADROOM),
            receives: self.receive,
            zero_copy: true,
            privileged: true,
            ..Capabilities::CABLES
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        for (key, value) in [("tx_ring", self.tx_ring), ("rx_ring", self.rx_ring)] {
            if !value.is_power_of_two() || !(64..=1 << 20).contains(&value) {
                return Err(Error::config(format!("{key} = {value}: a power of two from 64 to 1048576 is needed")));
            }
        }
        match self.chunk {
            2048 | 4096 => Ok(()),
            other => Err(Error::config(format!("chunk = {other}: AF_XDP has chunks of 2048 or 4096 bytes"))),
        }
    }
}
