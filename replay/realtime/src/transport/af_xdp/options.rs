//! Options of an AF_XDP port, and the resulting capabilities.

use crate::transport::Capabilities;
use crate::transport::bpf::Attach;
use pktgen_core::{Error, Result};
use pktgen_wire::wire::frame::TAGS_MAX;

/// Bytes that the kernel keeps free before each frame (XDP_PACKET_HEADROOM).
pub(super) const HEADROOM: usize = 256;

/// Options of a port.
#[derive(Debug, Clone)]
pub struct Options {
    /// Interface name, in the network namespace of the opening thread.
    pub interface: String,
    /// Its queue.
    pub queue: u32,
    /// Whether to require zero copy: the driver sends from and receives into our memory. Refused if unsupported.
    pub zero_copy: bool,
    /// Whether its counters include the interface's count of drops, which covers all queues.
    pub tells_interface: bool,
    /// Whether to receive, too, which attaches a program. Otherwise the port only sends and does not change the interface.
    pub receive: bool,
    /// Attachment point of the program.
    pub attach: Attach,
    /// Bytes per chunk, 2048 or 4096; 256 of them belong to the kernel.
    pub chunk: usize,
    /// Places in the TX ring, a power of two. Few, so that chunks are reused while they are cached.
    pub tx_ring: u32,
    /// Places in the RX ring, a power of two, and number of chunks for reception.
    pub rx_ring: u32,
    /// Whether to request that the kernel sends a whole TX ring per call (Linux 6.17 and later), instead of 32 frames.
    pub whole_ring: bool,
}

impl Options {
    /// Options of a port that sends and receives on queue 0, in copy mode.
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

    /// Options of a listening port: a receive ring deep enough for busy periods, and the smallest one that the kernel permits for sending.
    pub fn listening(interface: &str, rx_ring: u32, chunk: usize) -> Self {
        Options { chunk, tx_ring: 64, rx_ring: rx_ring.next_power_of_two(), ..Options::new(interface) }
    }

    /// Returns the options with the smallest chunks for such frames, with tags that a device may add: they use fewer cache sets.
    pub(crate) fn for_frames(self, frame_max: usize) -> Self {
        let chunk = if frame_max + TAGS_MAX <= 2048 - HEADROOM { 2048 } else { 4096 };
        Options { chunk, ..self }
    }

    /// Returns the capabilities of such a port before it is opened: the interface's MTU may be lower.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_holds_the_longest_frame_with_its_tags() {
        let chunk = |frame_max| Options::new("x").for_frames(frame_max).chunk;
        assert_eq!((chunk(1784), chunk(1785)), (2048, 4096));
    }
}
