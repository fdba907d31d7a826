//! A packet socket that sees all frames of an interface, for probes.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use super::packet_socket::{bind, examine, listen_to_all, socket};
use super::receive_batch::ReceiveBatch;
use super::socket::{BATCH, set_option};
use super::stamps::Stamps;
use pktgen_core::{Error, Result};

/// A socket for all frames of an interface except our own, as they were on the wire, with their VLAN tags.
pub(crate) struct AllFrames {
    socket: File,
    batch: ReceiveBatch,
}

impl AllFrames {
    /// Opens it for frames of at most `frame_max` bytes; longer ones are cut.
    pub(crate) fn open(interface: &str, frame_max: usize) -> Result<Self> {
        let io = |action| Error::io(action, Path::new(interface));
        let opened = socket(interface)?;
        let index = examine(&opened, interface)?.index;
        set_option(opened.as_fd(), libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1i32)
            .map_err(io("leave out our own frames on"))?;
        // The kernel takes VLAN tags out of frames, and says here what they were.
        set_option(opened.as_fd(), libc::SOL_PACKET, libc::PACKET_AUXDATA, 1i32).map_err(io("ask for VLAN tags of"))?;
        listen_to_all(&opened, index).map_err(io("switch to promiscuous mode"))?;
        bind(&opened, index, (libc::ETH_P_ALL as u16).to_be()).map_err(io("bind a packet socket to"))?;
        Ok(AllFrames { socket: File::from(opened), batch: ReceiveBatch::new(frame_max, Stamps::None) })
    }

    /// Sends a frame.
    pub(crate) fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        self.socket.write(frame).map(drop)
    }

    /// Takes frames that wait, a batch at most; returns their number.
    pub(crate) fn take(&mut self, mut each: impl FnMut(&[u8])) -> usize {
        let got = loop {
            match self.batch.receive(&self.socket, BATCH) {
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                got => break got.unwrap_or(0),
            }
        };
        for slot in 0..got {
            let notice = self.batch.notice(slot);
            each(self.batch.whole(slot, &notice).0);
        }
        got
    }
}

impl AsFd for AllFrames {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
