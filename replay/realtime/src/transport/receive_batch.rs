//! Datagrams in by `recvmmsg`: up to a batch in one call, each as soon as it is there.
#![expect(unsafe_code, reason = "talks to the kernel; every block says why it is sound")]

use std::io;
use std::mem;
use std::os::fd::AsRawFd;

use pktgen_wire::wire::frame::HEAD;

use super::socket::BATCH;
use super::stamps::{Notes, Stamps};

/// Room for the control messages of a datagram: stamps (64 bytes with their header) and a count (24).
#[repr(align(8))]
#[derive(Clone, Copy)]
struct Room([u8; 96]);

/// Buffers and message headers for `recvmmsg`, made once and used for every call.
pub(super) struct ReceiveBatch {
    /// Per slot: room for a head, then the payload.
    frames: Box<[u8]>,
    stride: usize,
    payload_max: usize,
    notes: Box<[Room; BATCH]>,
    /// Which stamps are returned.
    stamps: Stamps,
    pieces: Box<[libc::iovec; BATCH]>,
    messages: Box<[libc::mmsghdr; BATCH]>,
}

// SAFETY: the pointers inside are written anew at the start of each call and followed only during it; between calls they are dead
// values, which any thread may own.
unsafe impl Send for ReceiveBatch {}

impl ReceiveBatch {
    /// For payloads up to `payload_max`, of a socket that was asked for these stamps.
    pub(super) fn new(payload_max: usize, stamps: Stamps) -> Self {
        // SAFETY: both are C structs of integers and pointers, for which all bits zero is a valid value.
        let (piece, message): (libc::iovec, libc::mmsghdr) = unsafe { (mem::zeroed(), mem::zeroed()) };
        let stride = (HEAD + payload_max).next_multiple_of(64);
        ReceiveBatch {
            frames: vec![0; stride * BATCH].into_boxed_slice(),
            stride,
            payload_max,
            notes: Box::new([Room([0; 96]); BATCH]),
            stamps,
            pieces: Box::new([piece; BATCH]),
            messages: Box::new([message; BATCH]),
        }
    }

    /// Takes at most `most` datagrams that have arrived, and returns how many.
    pub(super) fn receive(&mut self, socket: &impl AsRawFd, most: usize) -> io::Result<usize> {
        let most = most.min(BATCH);
        for slot in 0..most {
            let payload = &mut self.frames[slot * self.stride + HEAD..][..self.payload_max];
            self.pieces[slot] = libc::iovec { iov_base: payload.as_mut_ptr().cast(), iov_len: payload.len() };
            let header = &mut self.messages[slot].msg_hdr;
            header.msg_iov = &raw mut self.pieces[slot];
            header.msg_iovlen = 1;
            header.msg_control = self.notes[slot].0.as_mut_ptr().cast();
            header.msg_controllen = mem::size_of::<Room>() as _;
        }
        // With MSG_TRUNC the length is the datagram's own, also where it was cut.
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        let (fd, messages) = (socket.as_raw_fd(), self.messages.as_mut_ptr());
        // SAFETY: the first `most` messages were just pointed at buffers of the lengths given, each its own, all owned
        // by this value, which is borrowed for the call. No timeout is given.
        let taken = unsafe { libc::recvmmsg(fd, messages, most as libc::c_uint, flags as _, std::ptr::null_mut()) };
        if taken < 0 { Err(io::Error::last_os_error()) } else { Ok(taken as usize) }
    }

    /// When the datagram arrived, if it was stamped, and how many were dropped before it, if any.
    pub(super) fn notes(&self, slot: usize) -> (Option<u64>, Option<u32>) {
        let len: usize = self.messages[slot].msg_hdr.msg_controllen as _;
        let (mut stamp_ns, mut drops) = (None, None);
        for (level, kind, content) in Notes(self.notes[slot].0.get(..len).unwrap_or(&[])) {
            match (level, kind) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => stamp_ns = self.stamps.read(content),
                (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                    drops = content.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
                }
                _ => {}
            }
        }
        (stamp_ns, drops)
    }

    /// A datagram's head to be written, what was kept of it, and its length on the wire.
    pub(super) fn datagram(&mut self, slot: usize) -> (&mut [u8; HEAD], &[u8], usize) {
        let len = self.messages[slot].msg_len as usize;
        let frame = &mut self.frames[slot * self.stride..][..HEAD + len.min(self.payload_max)];
        let (head, payload) = frame.split_first_chunk_mut::<HEAD>().expect("room for a head");
        (head, payload, len)
    }

    /// The frame with the head that was written.
    pub(super) fn frame(&self, slot: usize) -> &[u8] {
        let len = self.messages[slot].msg_len as usize;
        &self.frames[slot * self.stride..][..HEAD + len.min(self.payload_max)]
    }
}
