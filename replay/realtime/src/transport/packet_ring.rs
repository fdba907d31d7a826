//! The receive ring of a packet socket: TPACKET_V3, blocks of frames that kernel and process pass to each other.
//!
//! Used by `af_packet`. The kernel fills a block and hands it over when it is full or has been open for the retire
//! timeout; frames are read in place; after the last one the block is returned. A block's status word states its owner,
//! and is the only word that both sides write.
#![expect(unsafe_code, reason = "talks to the kernel; every block says why it is sound")]

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use super::Arrival;
use super::receive_batch::vlan_tag;

/// Offset of the sender's address after a frame's header.
const ADDRESS: usize = mem::size_of::<libc::tpacket3_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);
/// Bytes of an 802.1Q tag; they are reserved before each frame, so that a tag can be restored.
pub const TAG: usize = 4;
/// The tag follows the two Ethernet addresses.
const ADDRESSES: usize = 12;

/// Sizes of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Number of blocks.
    pub blocks: usize,
    /// Size of each, a power of two and at least a page.
    pub block_bytes: usize,
}

/// A ring, and the reading position.
///
/// Lifetime rule: `memory` is one mapping of `blocks * block_bytes` bytes, aligned to a page, that lives as long as this
/// value. Only a block whose status says USER is read or written, and only until it is given back.
pub(crate) struct PacketRing {
    memory: NonNull<u8>,
    geometry: Geometry,
    mapped: bool,
    /// The block being read, or the next one.
    block: usize,
    /// Number of blocks, from that one on, that the kernel is known to have handed over.
    ready: usize,
    /// Remaining frames in it; 0 if it is not ours.
    left: u32,
    /// Offset of the next of them in the block.
    next: usize,
    /// Whether only the card's stamps are returned; the kernel writes its own where the card made none.
    card_only: bool,
}

/// Frame status: the card stamped it (TP_STATUS_TS_RAW_HARDWARE).
const BY_CARD: u32 = 1 << 31;

// SAFETY: the mapping belongs to this value alone; the kernel's side of it does not care which thread reads.
unsafe impl Send for PacketRing {}

impl PacketRing {
    /// Maps the ring that was set up on `socket`.
    pub fn map(socket: BorrowedFd<'_>, geometry: Geometry) -> io::Result<Self> {
        let bytes = geometry.blocks * geometry.block_bytes;
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_POPULATE);
        // SAFETY: a new mapping at a place that the kernel chooses touches nothing of ours.
        let memory = unsafe { libc::mmap(ptr::null_mut(), bytes, access, flags, socket.as_raw_fd(), 0) };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(PacketRing { memory, geometry, mapped: true, block: 0, ready: 0, left: 0, next: 0, card_only: false })
    }

    /// A ring in memory of the caller, who plays the kernel.
    ///
    /// # Safety
    ///
    /// `memory` has `blocks * block_bytes` bytes, is aligned to 16, and outlives the ring; whoever else writes to it
    /// follows the protocol.
    #[cfg(test)]
    pub unsafe fn on(memory: NonNull<u8>, geometry: Geometry) -> Self {
        PacketRing { memory, geometry, mapped: false, block: 0, ready: 0, left: 0, next: 0, card_only: false }
    }

    /// Restricts stamps to those of the card, with none for frames that it did not stamp: times of two clocks in one
    /// column would be useless.
    pub(crate) fn tell_stamps_of_the_card(&mut self) {
        self.card_only = true;
    }

    /// Returns whether there is something to receive.
    pub(crate) fn is_ready(&self) -> bool {
        self.left > 0 || self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// Passes on at most `most` frames, in order, and returns their number.
    pub fn receive(&mut self, most: usize, each: &mut dyn FnMut(Arrival<'_>)) -> usize {
        // Callers read the clock once per call, so a block handed over during it is left for the next one.
        self.look();
        let mut count = 0;
        while count < most && self.ready > 0 {
            if self.left == 0 && !self.open_block() {
                break;
            }
            // An empty block is returned at once; kernels before 3.19 made such blocks.
            if self.left > 0 {
                count += usize::from(self.hand_over(each));
            }
            if self.left == 0 {
                self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
                self.block = (self.block + 1) % self.geometry.blocks;
                self.ready -= 1;
            }
        }
        count
    }

    /// Counts the blocks that the kernel has handed over.
    fn look(&mut self) {
        while self.ready < self.geometry.blocks {
            let next = (self.block + self.ready) % self.geometry.blocks;
            if self.status_of(next).load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                break;
            }
            self.ready += 1;
        }
    }

    /// Takes the current block if the kernel has handed it over.
    fn open_block(&mut self) -> bool {
        if self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return false;
        }
        let description = self.place(0).cast::<libc::tpacket_block_desc>();
        // SAFETY: a block starts with its description, aligned to a page; it is ours (acquired above), so that the
        // kernel does not write to it. The union has one member.
        let header = unsafe { (*description).hdr.bh1 };
        self.left = header.num_pkts;
        self.next = header.offset_to_first_pkt as usize;
        true
    }

    /// Passes on the next frame of the open block, unless this host sent it.
    fn hand_over(&mut self, each: &mut dyn FnMut(Arrival<'_>)) -> bool {
        let at = self.next;
        // SAFETY: the block is ours and `left` frames of it are still to be read, so a header lies at `at`, aligned to 8,
        // with an address behind it; both are plain values.
        let (header, kind) = unsafe {
            let header = self.place(at).cast::<libc::tpacket3_hdr>().read();
            let address = self.place(at + ADDRESS).cast::<libc::sockaddr_ll>();
            (header, (*address).sll_pkttype)
        };
        // Advanced before the frame is shown: if the caller's function panics, it is not shown twice.
        self.left -= 1;
        self.next = at + header.tp_next_offset as usize;
        if kind == libc::PACKET_OUTGOING {
            return false;
        }
        let (mut start, mut kept, mut len) =
            (at + usize::from(header.tp_mac), header.tp_snaplen as usize, header.tp_len as usize);
        debug_assert!(start + kept <= self.geometry.block_bytes);
        if header.tp_status & libc::TP_STATUS_VLAN_VALID != 0 && kept >= ADDRESSES {
            self.restore_tag(&header, start);
            (start, kept, len) = (start - TAG, kept + TAG, len + TAG);
        }
        // SAFETY: the kernel wrote these bytes into the block, and it is ours until `receive` gives it back, which is
        // after `each` has returned; the bytes cannot be kept beyond that because of their lifetime.
        let bytes = unsafe { std::slice::from_raw_parts(self.place(start), kept) };
        let stamp_ns = u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec);
        let is_told = !self.card_only || header.tp_status & BY_CARD != 0;
        each(Arrival { bytes, len, stamp_ns: is_told.then_some(stamp_ns), lost: false });
        true
    }

    /// Restores the tag that the kernel or the card removed from the frame, by moving the addresses in front of it.
    fn restore_tag(&mut self, header: &libc::tpacket3_hdr, start: usize) {
        let tag = vlan_tag(header.tp_status, header.hv1.tp_vlan_tci as u16, header.hv1.tp_vlan_tpid);
        // SAFETY: the block is ours; `TAG` bytes before each frame were reserved (PACKET_RESERVE), and the frame has the
        // addresses that are moved. The move may overlap.
        unsafe {
            let frame = self.place(start - TAG);
            ptr::copy(frame.add(TAG), frame, ADDRESSES);
            ptr::copy_nonoverlapping(tag.as_ptr(), frame.add(ADDRESSES), TAG);
        }
    }

    /// Returns an address in the current block.
    fn place(&self, offset: usize) -> *mut u8 {
        self.place_in(self.block, offset)
    }

    /// Returns an address in a block.
    fn place_in(&self, block: usize, offset: usize) -> *mut u8 {
        debug_assert!(block < self.geometry.blocks && offset < self.geometry.block_bytes);
        // SAFETY: `block` is below the number of blocks and `offset` within one, so this stays in the mapping.
        unsafe { self.memory.as_ptr().add(block * self.geometry.block_bytes + offset) }
    }

    /// Returns the status word of the current block, which states its owner.
    fn status(&self) -> &AtomicU32 {
        self.status_of(self.block)
    }

    /// Returns the status word of a block.
    fn status_of(&self, block: usize) -> &AtomicU32 {
        let at = mem::offset_of!(libc::tpacket_block_desc, hdr) + mem::offset_of!(libc::tpacket_hdr_v1, block_status);
        // SAFETY: the word lies in the mapping, is aligned to 4, lives as long as `self`, and is only used atomically.
        unsafe { AtomicU32::from_ptr(self.place_in(block, at).cast()) }
    }
}

impl Drop for PacketRing {
    fn drop(&mut self) {
        if self.mapped {
            // SAFETY: this is the mapping that `map` made, and nothing refers to it any more.
            unsafe { libc::munmap(self.memory.as_ptr().cast(), self.geometry.blocks * self.geometry.block_bytes) };
        }
    }
}

#[cfg(test)]
#[path = "packet_ring_tests.rs"]
mod tests;
