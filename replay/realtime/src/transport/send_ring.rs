//! The send ring of a packet socket: TPACKET_V2 slots that are filled here and emptied by one system call per batch.
//!
//! Used by `af_packet`. Compared with `sendmmsg` the kernel does not read a message header per frame. A ring by itself
//! would make frames that point into it: a frame waiting in a receiver's buffer would change when its slot is reused
//! (on veth a slot is free before the frame was read). So each slot starts with a virtio header that declares the whole
//! frame to be headers, which makes the kernel copy all of it; that is faster than pinning pages, too.
#![expect(unsafe_code, reason = "talks to the kernel; every block says why it is sound")]

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use super::socket::{self, BATCH};

/// Offset of a slot's data.
const DATA: usize = mem::size_of::<libc::tpacket2_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);
/// The virtio header before the frame: flags and kind, length of the headers, four words that stay 0.
const VIRTIO: usize = 10;
/// Status bits: the slot waits for the kernel, or was refused by it.
const NOT_TAKEN: u32 = libc::TP_STATUS_SEND_REQUEST | libc::TP_STATUS_WRONG_FORMAT;
/// Status bits: the slot waits for the kernel, or the card still has its frame. Other bits are stamps, which some
/// kernels before 5.14 leave on veth without a request.
const BUSY: u32 = libc::TP_STATUS_SEND_REQUEST | libc::TP_STATUS_SENDING;

/// The slots, and the index of the next.
///
/// Lifetime rule: `memory` is one mapping of `slots * slot_bytes` bytes that lives as long as this value. The kernel
/// reads a slot only during `kick`, in order, until the first that is not requested; so slots are filled in order, without
/// gaps, and those that it did not take are withdrawn before `send` returns.
pub(crate) struct SendRing {
    memory: NonNull<u8>,
    slots: usize,
    slot_bytes: usize,
    mapped: bool,
    /// The next slot, both for the kernel and for us.
    head: usize,
}

// SAFETY: the mapping belongs to this value alone; the kernel's side of it does not care which thread writes.
unsafe impl Send for SendRing {}

impl SendRing {
    /// Sets up a ring on `socket`, with room for frames up to `frame_max` bytes.
    pub fn set_up(socket: BorrowedFd<'_>, slots: usize, frame_max: usize) -> io::Result<Self> {
        const BLOCK_BYTES: usize = 1 << 16;
        let packet = |name, value: i32| socket::set_option(socket, libc::SOL_PACKET, name, value);
        packet(libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V2 as i32)?;
        packet(libc::PACKET_VNET_HDR, 1)?;
        // Powers of two, so that slots are contiguous across blocks.
        let slot_bytes = (DATA + VIRTIO + frame_max).next_power_of_two().max(2048);
        let slots = slots.next_power_of_two().max(BLOCK_BYTES / slot_bytes);
        let request = libc::tpacket_req {
            tp_block_size: BLOCK_BYTES as u32,
            tp_block_nr: (slots * slot_bytes / BLOCK_BYTES) as u32,
            tp_frame_size: slot_bytes as u32,
            tp_frame_nr: slots as u32,
        };
        socket::set_option(socket, libc::SOL_PACKET, libc::PACKET_TX_RING, request)?;
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_POPULATE);
        // SAFETY: a new mapping at a place that the kernel chooses touches nothing of ours.
        let memory = unsafe { libc::mmap(ptr::null_mut(), slots * slot_bytes, access, flags, socket.as_raw_fd(), 0) };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(SendRing { memory, slots, slot_bytes, mapped: true, head: 0 })
    }

    /// A ring in memory of the caller, who plays the kernel.
    ///
    /// # Safety
    ///
    /// `memory` has `slots * slot_bytes` bytes, is aligned to 16, and outlives the ring; whoever else uses it follows
    /// the protocol.
    #[cfg(test)]
    pub unsafe fn on(memory: NonNull<u8>, slots: usize, slot_bytes: usize) -> Self {
        SendRing { memory, slots, slot_bytes, mapped: false, head: 0 }
    }

    /// Returns the number of slots.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Sends frames in order and returns the number that the kernel took; `kick` notifies it. As with `sendmmsg`, an
    /// error always concerns the first frame of the call.
    pub fn send(&mut self, frames: &[&[u8]], kick: &mut dyn FnMut() -> io::Result<()>) -> io::Result<usize> {
        let mut taken = 0;
        for batch in frames.chunks(BATCH) {
            let put = self.put(batch);
            if put == 0 {
                break;
            }
            let result = kick();
            let count = self.settle(put);
            taken += count;
            match result {
                Err(error) if taken == 0 => return Err(error),
                _ if count < batch.len() => break,
                _ => {}
            }
        }
        Ok(taken)
    }

    /// Fills free slots from the head on, and returns their number.
    fn put(&mut self, frames: &[&[u8]]) -> usize {
        let mut put = 0;
        for frame in frames.iter().take(self.slots) {
            let slot = self.slot(put);
            let room = self.slot_bytes - DATA - VIRTIO;
            if self.status(put).load(Ordering::Acquire) & BUSY != 0 || frame.len() > room {
                break;
            }
            // SAFETY: the slot is free (acquired above), so that the kernel does not read it; header and frame fit it,
            // the latter as was just checked; the virtio header may be unaligned and is written as such.
            unsafe {
                (*slot.cast::<libc::tpacket2_hdr>()).tp_len = (VIRTIO + frame.len()) as u32;
                let data = slot.add(DATA);
                data.cast::<[u16; VIRTIO / 2]>().write_unaligned([0, frame.len() as u16, 0, 0, 0]);
                ptr::copy_nonoverlapping(frame.as_ptr(), data.add(VIRTIO), frame.len());
            }
            self.status(put).store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
            put += 1;
        }
        put
    }

    /// Counts how many of `put` slots the kernel took, advances the head, and withdraws the rest.
    fn settle(&mut self, put: usize) -> usize {
        let is_taken = |slot: usize| self.status(slot).load(Ordering::Acquire) & NOT_TAKEN == 0;
        // They are taken in order: if the last is taken, all are, which is almost always so.
        let count = if is_taken(put - 1) { put } else { (0..put).take_while(|slot| is_taken(*slot)).count() };
        for slot in count..put {
            self.status(slot).store(libc::TP_STATUS_AVAILABLE, Ordering::Release);
        }
        self.head = (self.head + count) % self.slots;
        count
    }

    /// Returns a slot, counted from the head.
    fn slot(&self, offset: usize) -> *mut u8 {
        // SAFETY: the number is below `slots`, so this stays in the mapping.
        unsafe { self.memory.as_ptr().add((self.head + offset) % self.slots * self.slot_bytes) }
    }

    /// Returns the status word of a slot, which states its owner; the first word of its header.
    fn status(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: the word lies in the mapping, is aligned as the slot is, lives as long as `self`, and is only used
        // atomically.
        unsafe { AtomicU32::from_ptr(self.slot(offset).cast()) }
    }
}

impl Drop for SendRing {
    fn drop(&mut self) {
        if self.mapped {
            // SAFETY: this is the mapping that `set_up` made, and nothing refers to it any more.
            unsafe { libc::munmap(self.memory.as_ptr().cast(), self.slots * self.slot_bytes) };
        }
    }
}

/// Makes the kernel send the content of the ring of `socket`.
pub(crate) fn kick(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no bytes and no address are passed; the kernel reads the ring that is set up on the socket.
    let code = unsafe { libc::sendto(socket.as_raw_fd(), ptr::null(), 0, libc::MSG_DONTWAIT, ptr::null(), 0) };
    if code < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SLOTS: usize = 8;
    const SLOT_BYTES: usize = 256;

    /// The simulated kernel: takes slots in order, and leaves some with the card for a while.
    struct Kernel {
        memory: *mut u8,
        head: usize,
        with_card: Vec<usize>,
        seen: Vec<Vec<u8>>,
    }

    impl Kernel {
        fn status(&self, slot: usize) -> *mut u32 {
            // SAFETY: within the memory.
            unsafe { self.memory.add(slot * SLOT_BYTES).cast() }
        }

        /// Takes at most `most` frames; refuses one that starts with 0xff.
        fn take(&mut self, most: usize) -> io::Result<()> {
            for count in 0.. {
                let (slot, status) = (self.head, self.status(self.head));
                // SAFETY: slots lie in the memory, and hold what `put` wrote.
                unsafe {
                    if *status != libc::TP_STATUS_SEND_REQUEST {
                        break;
                    }
                    if count == most {
                        return Err(io::Error::from_raw_os_error(libc::ENOBUFS));
                    }
                    let data = status.cast::<u8>().add(DATA);
                    let len = *status.add(1) as usize - VIRTIO;
                    assert_eq!(data.cast::<[u16; 5]>().read_unaligned(), [0, len as u16, 0, 0, 0]);
                    let frame = std::slice::from_raw_parts(data.add(VIRTIO), len).to_vec();
                    if frame.first() == Some(&0xff) {
                        *status = libc::TP_STATUS_WRONG_FORMAT;
                        return Err(io::Error::from_raw_os_error(libc::EINVAL));
                    }
                    self.seen.push(frame);
                    *status = libc::TP_STATUS_SENDING;
                }
                self.with_card.push(slot);
                self.head = (self.head + 1) % SLOTS;
            }
            Ok(())
        }

        fn complete(&mut self, count: usize) {
            for slot in self.with_card.drain(..count.min(self.with_card.len())).collect::<Vec<_>>() {
                // SAFETY: within the memory. A stamp bit stays behind, as on old kernels.
                unsafe { *self.status(slot) = libc::TP_STATUS_TS_SOFTWARE };
            }
        }
    }

    proptest! {
        /// Whatever the kernel takes, refuses or keeps: reported frames were sent, once, in order.
        #[test]
        fn counts_are_true(steps in prop::collection::vec(
            (prop::collection::vec((any::<u8>(), 1usize..250), 0..12), 0usize..12, 0usize..12), 1..60,
        )) {
            let mut memory = vec![0u128; SLOTS * SLOT_BYTES / 16];
            let place = NonNull::new(memory.as_mut_ptr().cast()).unwrap();
            // SAFETY: of that size and alignment, and kept until the end of the test, in one thread.
            let mut ring = unsafe { SendRing::on(place, SLOTS, SLOT_BYTES) };
            let mut kernel = Kernel { memory: place.as_ptr(), head: 0, with_card: Vec::new(), seen: Vec::new() };
            let (mut serial, mut expected) = (0u8, Vec::new());
            for (frames, most, complete) in steps {
                let frames: Vec<Vec<u8>> = frames.into_iter().map(|(first, len)| {
                    serial = serial.wrapping_add(1);
                    let mut frame = vec![serial; len];
                    frame[0] = first;
                    frame
                }).collect();
                let list: Vec<&[u8]> = frames.iter().map(|frame| &frame[..]).collect();
                let free = SLOTS - kernel.with_card.len();
                match ring.send(&list, &mut || kernel.take(most)) {
                    Ok(count) => {
                        let fit = frames.iter().take_while(|frame| frame.len() <= SLOT_BYTES - DATA - VIRTIO);
                        let good = fit.take_while(|frame| frame[0] != 0xff).count();
                        prop_assert_eq!(count, good.min(free).min(most));
                        expected.extend(frames.into_iter().take(count));
                    }
                    Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => prop_assert_eq!(most, 0),
                    Err(error) => {
                        prop_assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
                        prop_assert!(frames[0][0] == 0xff && most > 0);
                    }
                }
                kernel.complete(complete);
            }
            prop_assert_eq!(kernel.seen, expected);
        }
    }
}
