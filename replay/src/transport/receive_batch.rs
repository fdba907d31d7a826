//! Datagrams in by `recvmmsg`: up to a batch in one call, each as soon as it is there.
#![expect(unsafe_code, reason = "talks to the kernel; every block says why it is sound")]

use std::io;
use std::mem;
use std::os::fd::AsRawFd;

use super::socket::BATCH;
use super::udp::HEAD;

/// Room for the control messages of a datagram: a stamp (32 bytes with its header) and a count (24).
type Notes = [u64; 8];

/// Buffers and message headers for `recvmmsg`, made once and used for every call.
pub(super) struct ReceiveBatch {
    /// Per slot: room for a head, then the payload.
    frames: Box<[u8]>,
    stride: usize,
    payload_max: usize,
    notes: Box<[Notes; BATCH]>,
    pieces: Box<[libc::iovec; BATCH]>,
    messages: Box<[libc::mmsghdr; BATCH]>,
}

// SAFETY: the pointers inside are written anew at the start of each call and followed only during it, and, for the
// control data, right after it, into memory that this value owns; between calls any thread may own them.
unsafe impl Send for ReceiveBatch {}

impl ReceiveBatch {
    pub(super) fn new(payload_max: usize) -> Self {
        // SAFETY: both are C structs of integers and pointers, for which all bits zero is a valid value.
        let (piece, message): (libc::iovec, libc::mmsghdr) = unsafe { (mem::zeroed(), mem::zeroed()) };
        let stride = (HEAD + payload_max).next_multiple_of(64);
        ReceiveBatch {
            frames: vec![0; stride * BATCH].into_boxed_slice(),
            stride,
            payload_max,
            notes: Box::new([[0; 8]; BATCH]),
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
            header.msg_control = self.notes[slot].as_mut_ptr().cast();
            header.msg_controllen = mem::size_of::<Notes>() as _;
        }
        // With MSG_TRUNC the length is the datagram's own, also where it was cut.
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        let (fd, messages) = (socket.as_raw_fd(), self.messages.as_mut_ptr());
        // SAFETY: the first `most` messages were just pointed at buffers of the lengths given, each its own, all owned
        // by this value, which is borrowed for the call. No timeout is given.
        let taken = unsafe { libc::recvmmsg(fd, messages, most as libc::c_uint, flags as _, std::ptr::null_mut()) };
        if taken < 0 { Err(io::Error::last_os_error()) } else { Ok(taken as usize) }
    }

    /// When the kernel saw the datagram, and how many were dropped before it, if any.
    pub(super) fn notes(&self, slot: usize) -> (Option<u64>, Option<u32>) {
        let header = &raw const self.messages[slot].msg_hdr;
        let (mut stamp_ns, mut drops) = (None, None);
        // SAFETY: `receive` filled this message, so that its control pointer and length describe whole control messages
        // in `notes`; the kernel wrote their lengths, and the kinds say what they hold, which may be unaligned.
        unsafe {
            let mut note = libc::CMSG_FIRSTHDR(header);
            while !note.is_null() {
                let data = libc::CMSG_DATA(note);
                match ((*note).cmsg_level, (*note).cmsg_type) {
                    (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                        let time = data.cast::<libc::timespec>().read_unaligned();
                        stamp_ns = Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64);
                    }
                    (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => drops = Some(data.cast::<u32>().read_unaligned()),
                    _ => {}
                }
                note = libc::CMSG_NXTHDR(header, note);
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
