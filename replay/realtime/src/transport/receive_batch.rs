//! Reception of datagrams by `recvmmsg`: up to a batch per call, each as soon as it arrives.
#![expect(unsafe_code, reason = "talks to the kernel; every block says why it is sound")]

use std::io;
use std::mem;
use std::os::fd::AsRawFd;

use pktgen_wire::wire::frame::{ETHERNET_MIN, HEAD};

use super::socket::BATCH;
use super::stamps::{Notes, Stamps};

/// Room for the control messages of a datagram: stamps (64 bytes with their header), a count (24), and what a packet socket says (40).
#[repr(align(8))]
#[derive(Clone, Copy)]
struct Room([u8; 136]);

/// Ethernet's addresses, and the bytes of a VLAN tag behind them.
const ADDRESSES: usize = 12;
const TAG: usize = 4;

/// What the kernel says of a datagram.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Notice {
    /// When it arrived, if it was stamped.
    pub(super) stamp_ns: Option<u64>,
    /// How many were dropped before it, if any.
    pub(super) drops: Option<u32>,
    /// The VLAN tag that the kernel or the card took out of it.
    tag: Option<[u8; TAG]>,
}

/// Buffers and message headers for `recvmmsg`, made once and reused.
pub(super) struct ReceiveBatch {
    /// Per slot: room for a head, then the payload.
    frames: Box<[u8]>,
    stride: usize,
    payload_max: usize,
    notes: Box<[Room; BATCH]>,
    /// The source of returned stamps.
    stamps: Stamps,
    pieces: Box<[libc::iovec; BATCH]>,
    messages: Box<[libc::mmsghdr; BATCH]>,
}

// SAFETY: the pointers inside are written anew at the start of each call and followed only during it; between calls they are dead
// values, which any thread may own.
unsafe impl Send for ReceiveBatch {}

impl ReceiveBatch {
    /// For payloads up to `payload_max`, of a socket with these stamps enabled.
    pub(super) fn new(payload_max: usize, stamps: Stamps) -> Self {
        // SAFETY: both are C structs of integers and pointers, for which all bits zero is a valid value.
        let (piece, message): (libc::iovec, libc::mmsghdr) = unsafe { (mem::zeroed(), mem::zeroed()) };
        let stride = (HEAD + payload_max).next_multiple_of(64);
        ReceiveBatch {
            frames: vec![0; stride * BATCH].into_boxed_slice(),
            stride,
            payload_max,
            notes: Box::new([Room([0; 136]); BATCH]),
            stamps,
            pieces: Box::new([piece; BATCH]),
            messages: Box::new([message; BATCH]),
        }
    }

    /// Takes at most `most` datagrams that have arrived, and returns their number.
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
        // With MSG_TRUNC the length is that of the datagram, even if it was cut.
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        let (fd, messages) = (socket.as_raw_fd(), self.messages.as_mut_ptr());
        // SAFETY: the first `most` messages were just pointed at buffers of the lengths given, each its own, all owned
        // by this value, which is borrowed for the call. No timeout is given.
        let taken = unsafe { libc::recvmmsg(fd, messages, most as libc::c_uint, flags as _, std::ptr::null_mut()) };
        if taken < 0 { Err(io::Error::last_os_error()) } else { Ok(taken as usize) }
    }

    /// What the kernel says of the datagram.
    pub(super) fn notice(&self, slot: usize) -> Notice {
        let len: usize = self.messages[slot].msg_hdr.msg_controllen as _;
        let mut notice = Notice::default();
        for (level, kind, content) in Notes(self.notes[slot].0.get(..len).unwrap_or(&[])) {
            match (level, kind) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => notice.stamp_ns = self.stamps.read(content),
                (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                    notice.drops = content.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
                }
                (libc::SOL_PACKET, libc::PACKET_AUXDATA) => notice.tag = tag_of(content),
                _ => {}
            }
        }
        notice
    }

    /// What was kept of a frame, with the tag that was taken out of it, and its length on the wire.
    pub(super) fn whole(&mut self, slot: usize, notice: &Notice) -> (&[u8], usize) {
        let len = self.messages[slot].msg_len as usize;
        let (start, kept) = (slot * self.stride + HEAD, len.min(self.payload_max));
        match notice.tag.filter(|_| kept >= ADDRESSES) {
            None => (&self.frames[start..][..kept], len),
            Some(tag) => {
                // The addresses move into the room for a head.
                let before = start - TAG;
                self.frames.copy_within(start..start + ADDRESSES, before);
                self.frames[before + ADDRESSES..][..TAG].copy_from_slice(&tag);
                (&self.frames[before..][..kept + TAG], len + TAG)
            }
        }
    }

    /// Returns a datagram's head for writing, its kept payload, and its length on the wire.
    pub(super) fn datagram(&mut self, slot: usize) -> (&mut [u8; HEAD], &[u8], usize) {
        let len = self.messages[slot].msg_len as usize;
        let frame = &mut self.frames[slot * self.stride..][..HEAD + len.min(self.payload_max)];
        let (head, payload) = frame.split_first_chunk_mut::<HEAD>().expect("room for a head");
        (head, payload, len)
    }

    /// Returns the frame with the written head; a short one has Ethernet's padding, as on other transports.
    pub(super) fn frame(&mut self, slot: usize) -> &[u8] {
        let len = self.messages[slot].msg_len as usize;
        let kept = HEAD + len.min(self.payload_max);
        // A stride has room for it. What was cut is no padding.
        let padded = if len > self.payload_max { kept } else { kept.max(ETHERNET_MIN) };
        let frame = &mut self.frames[slot * self.stride..][..padded];
        frame[kept..].fill(0);
        frame
    }
}

/// The tag in a packet socket's own data, if there is one.
fn tag_of(content: &[u8]) -> Option<[u8; TAG]> {
    let word = |at: usize| Some(u16::from_ne_bytes(*content.get(at..)?.first_chunk()?));
    let status = u32::from_ne_bytes(*content.get(mem::offset_of!(libc::tpacket_auxdata, tp_status)..)?.first_chunk()?);
    if status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let [number, kind] =
        [mem::offset_of!(libc::tpacket_auxdata, tp_vlan_tci), mem::offset_of!(libc::tpacket_auxdata, tp_vlan_tpid)];
    Some(vlan_tag(status, word(number)?, word(kind)?))
}

/// Returns the tag that a packet socket describes by its status, number and kind; old kernels do not give the kind.
pub(super) fn vlan_tag(status: u32, number: u16, kind: u16) -> [u8; TAG] {
    let kind = if status & libc::TP_STATUS_VLAN_TPID_VALID == 0 { libc::ETH_P_8021Q as u16 } else { kind };
    let ([a, b], [c, d]) = (kind.to_be_bytes(), number.to_be_bytes());
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a kernel writes: status, lengths, offsets, tag, kind of tag.
    fn auxdata(status: u32, tci: u16, kind: u16) -> Vec<u8> {
        let words = [status, 128, 128].into_iter().flat_map(u32::to_ne_bytes);
        words.chain([0, 14, tci, kind].into_iter().flat_map(u16::to_ne_bytes)).collect()
    }

    #[test]
    fn tags_are_read_from_what_the_kernel_says() {
        let both = libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID;
        assert_eq!(tag_of(&auxdata(both, 0x60cd, 0x88a8)), Some([0x88, 0xa8, 0x60, 0xcd]));
        assert_eq!(tag_of(&auxdata(libc::TP_STATUS_VLAN_VALID, 205, 0)), Some([0x81, 0x00, 0x00, 0xcd]));
        assert_eq!(tag_of(&auxdata(0, 205, 0x8100)), None);
        assert_eq!(tag_of(&auxdata(both, 205, 0x8100)[..17]), None);
    }

    #[test]
    fn a_tag_is_put_back_behind_the_addresses() {
        let mut batch = ReceiveBatch::new(60, Stamps::None);
        for slot in [0, BATCH - 1] {
            let frame: Vec<u8> = (0..60).collect();
            batch.frames[slot * batch.stride + HEAD..][..60].copy_from_slice(&frame);
            batch.messages[slot].msg_len = 70;
            let tag = [0x81, 0x00, 0x00, 0xcd];
            assert_eq!(batch.whole(slot, &Notice::default()), (&frame[..], 70));
            let whole = [&frame[..12], &tag, &frame[12..]].concat();
            assert_eq!(batch.whole(slot, &Notice { tag: Some(tag), ..Notice::default() }), (&whole[..], 74));
        }
    }
}
