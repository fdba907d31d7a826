//! System calls shared by the socket transports: options, batches of messages, waiting.
//!
//! Used by `af_packet` and `udp`. Nothing here allocates after a [`SendBatch`] was made.
#![expect(unsafe_code, reason = "talks to the kernel; every block says why it is sound")]

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::ptr;

use pktgen_wire::wire::frame::{ETHERNET_MIN, unpadded};

use super::departures::Mark;

/// Maximum number of messages per system call. Larger batches gave no measurable benefit on veth.
pub const BATCH: usize = 64;

/// Where the UDP header begins in a frame, and the place of its length.
const UDP: usize = 34;
const UDP_LENGTH: usize = UDP + 4;

/// Sets a socket option to a plain value.
pub(crate) fn set_option<T: Copy>(socket: BorrowedFd<'_>, level: i32, name: i32, value: T) -> io::Result<()> {
    let bytes = mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointer is valid for `bytes` bytes for the whole call, and the kernel only reads them.
    let code = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, ptr::from_ref(&value).cast(), bytes) };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads a socket option of `N` words; words that the kernel does not fill are 0.
pub fn option<const N: usize>(socket: BorrowedFd<'_>, level: i32, name: i32) -> io::Result<[u32; N]> {
    let mut words = [0u32; N];
    let mut bytes = mem::size_of_val(&words) as libc::socklen_t;
    // SAFETY: the kernel writes at most `bytes` bytes, which is the size of `words`; any bits are valid for integers.
    let code = unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, words.as_mut_ptr().cast(), &mut bytes) };
    if code == 0 { Ok(words) } else { Err(io::Error::last_os_error()) }
}

/// A buffer of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SocketBuffer {
    /// For frames to be sent.
    Send,
    /// For arrived frames.
    Receive,
}

/// Requests a socket buffer of `bytes`, beyond the system's limit if permitted, and returns the actual size.
///
/// The kernel doubles the requested size, for its own bookkeeping, and reports the double.
pub(crate) fn set_buffer(socket: BorrowedFd<'_>, buffer: SocketBuffer, bytes: usize) -> io::Result<usize> {
    let (force, plain) = match buffer {
        SocketBuffer::Send => (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
        SocketBuffer::Receive => (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
    };
    let asked = i32::try_from(bytes).unwrap_or(i32::MAX);
    if set_option(socket, libc::SOL_SOCKET, force, asked).is_err() {
        set_option(socket, libc::SOL_SOCKET, plain, asked)?;
    }
    option::<1>(socket, libc::SOL_SOCKET, plain).map(|words| words[0] as usize)
}

/// Waits until the socket is readable, at most `timeout_ns`. A pending error counts as readable: the next receive
/// reports it. A signal ends the wait early, as the caller checks the time anyway.
pub(crate) fn wait_readable(socket: BorrowedFd<'_>, timeout_ns: u64) -> io::Result<()> {
    let mut entry = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    poll(std::slice::from_mut(&mut entry), timeout_ns).map(drop)
}

/// Descriptors, any of which may become readable.
pub struct Waiting(Vec<libc::pollfd>);

impl Waiting {
    /// Makes the list, once.
    pub fn on(descriptors: Vec<RawFd>) -> Self {
        Waiting(descriptors.into_iter().map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect())
    }

    /// Waits until one of them is readable, at most `timeout_ns`; returns whether one is. A pending error alone ends the wait, too.
    pub fn wait(&mut self, timeout_ns: u64) -> io::Result<bool> {
        poll(&mut self.0, timeout_ns)
    }
}

/// Sleeps for about `timeout_ns`.
pub fn sleep(timeout_ns: u64) -> io::Result<()> {
    poll(&mut [], timeout_ns).map(drop)
}

/// Returns whether one of them is readable.
fn poll(entries: &mut [libc::pollfd], timeout_ns: u64) -> io::Result<bool> {
    let timeout =
        libc::timespec { tv_sec: (timeout_ns / 1_000_000_000) as _, tv_nsec: (timeout_ns % 1_000_000_000) as _ };
    // SAFETY: the pointer and the length are of one slice, which the kernel may write to; the time outlives the call.
    let code = unsafe { libc::ppoll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, &timeout, ptr::null()) };
    match io::Error::last_os_error() {
        error if code < 0 && error.kind() != io::ErrorKind::Interrupted => Err(error),
        _ => Ok(code > 0 && entries.iter().any(|entry| entry.revents & libc::POLLIN != 0)),
    }
}

/// Returns the bytes of the socket's buffer that have not left yet.
pub fn unsent(socket: BorrowedFd<'_>) -> io::Result<usize> {
    let mut waiting: libc::c_int = 0;
    // SAFETY: this request (SIOCOUTQ) writes one int, to a place that holds one.
    let code = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &mut waiting) };
    if code < 0 { Err(io::Error::last_os_error()) } else { Ok(usize::try_from(waiting).unwrap_or(0)) }
}

/// Waits until everything that was sent has left the socket's buffer, at most about `timeout_ns`.
///
/// The kernel frees a frame's buffer when the card has it, or, on veth, when it passed to the other side. No event
/// reports this, so the buffer is checked every 50 µs; time is counted in checks, because no clock is read here.
pub fn drain(socket: BorrowedFd<'_>, timeout_ns: u64) -> io::Result<()> {
    const LOOK_NS: u64 = 50_000;
    let mut left_ns = timeout_ns;
    loop {
        if unsent(socket)? == 0 || left_ns == 0 {
            return Ok(());
        }
        let look_ns = left_ns.min(LOOK_NS);
        sleep(look_ns)?;
        left_ns -= look_ns;
    }
}

/// Takes an entry from the socket's error queue, without waiting. Writes its messages to `room` and returns their
/// length; `None` if the queue is empty.
pub(crate) fn take_error(socket: BorrowedFd<'_>, room: &mut [u8]) -> io::Result<Option<usize>> {
    // SAFETY: a C struct of integers and pointers, for which all bits zero is a valid value.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_control = room.as_mut_ptr().cast();
    header.msg_controllen = room.len() as _;
    // SAFETY: the header has no pieces, and room of the length that it says, which outlives the call.
    let code = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) };
    match io::Error::last_os_error() {
        _ if code >= 0 => Ok(Some(header.msg_controllen as _)),
        error if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        error => Err(error),
    }
}

/// A control message that requests a departure stamp of a frame: header, flags, padding.
#[repr(C, align(8))]
struct Marking {
    len: usize,
    level: libc::c_int,
    kind: libc::c_int,
    flags: u32,
    padding: u32,
}

/// Largest payload of UDP over IPv4, and maximum total of the datagrams of one message.
pub(super) const PAYLOAD_MAX: usize = 65_507;

/// A control message that divides a message into datagrams of a given length, the last of which may be shorter.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Dividing {
    len: usize,
    level: libc::c_int,
    kind: libc::c_int,
    bytes: u16,
    padding: [u16; 3],
}

/// Message headers for `sendmmsg`, made once and reused.
pub(crate) struct SendBatch {
    pieces: Box<[libc::iovec; BATCH]>,
    messages: Box<[libc::mmsghdr; BATCH]>,
    marking: Box<Marking>,
    dividing: Box<[Dividing; BATCH]>,
    /// Whether frames of one length are sent as one message, which the kernel divides (UDP).
    segmented: bool,
}

// SAFETY: the pointers inside are written anew at the start of each call, from arguments that outlive it, and are never
// followed outside of it; between calls they are dead values, which any thread may own. The marking is this value's own.
unsafe impl Send for SendBatch {}

impl SendBatch {
    /// Headers for messages without addresses or control data: the socket is bound or connected.
    pub fn new() -> Self {
        // SAFETY: both are C structs of integers and pointers, for which all bits zero is a valid value.
        let (piece, message): (libc::iovec, libc::mmsghdr) = unsafe { (mem::zeroed(), mem::zeroed()) };
        let (level, kind) = (libc::SOL_SOCKET, libc::SO_TIMESTAMPING);
        let marking = Marking { len: mem::offset_of!(Marking, padding), level, kind, flags: 0, padding: 0 };
        let len = mem::offset_of!(Dividing, padding);
        let dividing = Dividing { len, level: libc::SOL_UDP, kind: libc::UDP_SEGMENT, bytes: 0, padding: [0; 3] };
        SendBatch {
            pieces: Box::new([piece; BATCH]),
            messages: Box::new([message; BATCH]),
            marking: Box::new(marking),
            dividing: Box::new([dividing; BATCH]),
            segmented: false,
        }
    }

    /// Headers for a UDP socket whose kernel divides messages.
    pub fn segmented() -> Self {
        SendBatch { segmented: true, ..SendBatch::new() }
    }

    /// Returns whether one message can be several frames.
    pub(super) fn is_segmented(&self) -> bool {
        self.segmented
    }

    /// Sends frames in order, without the first `skip` bytes of each, and returns the number that the kernel took. One
    /// of them may be marked for a departure stamp.
    ///
    /// Fewer than all means that the kernel has no room now, or that the next frame is at fault: offering it again as
    /// the first decides. An error therefore always concerns the first frame of the call, of which no frame was taken.
    /// ENOBUFS may mean "no room now" as well as "dropped": only later calls distinguish these ([`super::stall`]).
    pub fn send(&mut self, socket: BorrowedFd<'_>, frames: &[&[u8]], skip: usize, mark: Mark) -> io::Result<usize> {
        let mut taken = 0;
        for batch in frames.chunks(BATCH) {
            let here = mark.and_then(|(at, flags)| Some((at.checked_sub(taken)?, flags)));
            let mark = here.filter(|(at, _)| *at < batch.len());
            let sent = match (self.segmented, mark) {
                (true, None) => self.submit_divided(socket, batch, skip),
                _ => self.submit(socket, batch, skip, mark),
            };
            let count = match sent {
                Err(error) if taken == 0 => return Err(error),
                result => result.unwrap_or(0),
            };
            taken += count;
            if count < batch.len() {
                break;
            }
        }
        Ok(taken)
    }

    /// Submits frames as few messages: runs of one length, which the kernel divides again. It takes a message as a whole or not at all.
    fn submit_divided(&mut self, socket: BorrowedFd<'_>, frames: &[&[u8]], skip: usize) -> io::Result<usize> {
        for (frame, piece) in frames.iter().zip(self.pieces.iter_mut()) {
            let bytes = content(frame, skip);
            *piece = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        }
        let (mut at, mut count) = (0, 0);
        while at < frames.len().min(BATCH) {
            let run = run_of_one_length(&frames[at..], skip);
            let header = &mut self.messages[count].msg_hdr;
            header.msg_iov = &raw mut self.pieces[at];
            header.msg_iovlen = run as _;
            if run > 1 {
                self.dividing[count].bytes = content(frames[at], skip).len() as u16;
                header.msg_control = (&raw mut self.dividing[count]).cast();
                header.msg_controllen = mem::size_of::<Dividing>() as _;
            }
            (at, count) = (at + run, count + 1);
        }
        // SAFETY: the first `count` messages were just pointed at pieces of frames, all of which outlive the call, and at control messages
        // of this value. The kernel reads all of these and writes only to the messages.
        let taken = unsafe {
            libc::sendmmsg(socket.as_raw_fd(), self.messages.as_mut_ptr(), count as _, libc::MSG_DONTWAIT as _)
        };
        let error = io::Error::last_os_error();
        let whole = self.messages[..count].iter().take(taken.max(0) as usize);
        let sent = whole.map(|message| -> usize { message.msg_hdr.msg_iovlen as _ }).sum();
        let first = self.messages[0].msg_hdr.msg_iovlen;
        for message in &mut self.messages[..count] {
            (message.msg_hdr.msg_control, message.msg_hdr.msg_controllen) = (ptr::null_mut(), 0);
        }
        match taken {
            // The faulty frame of a run is unknown: the first one, submitted alone, fails or passes.
            ..0 if first > 1 => self.submit(socket, &frames[..1], skip, None),
            ..0 => Err(error),
            _ => Ok(sent),
        }
    }

    fn submit(&mut self, socket: BorrowedFd<'_>, frames: &[&[u8]], skip: usize, mark: Mark) -> io::Result<usize> {
        let slots = self.pieces.iter_mut().zip(self.messages.iter_mut());
        for (frame, (piece, message)) in frames.iter().zip(slots) {
            let bytes = content(frame, skip);
            *piece = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
            message.msg_hdr.msg_iov = piece;
            message.msg_hdr.msg_iovlen = 1;
        }
        if let Some((at, flags)) = mark {
            self.marking.flags = flags;
            let header = &mut self.messages[at].msg_hdr;
            header.msg_control = (&raw mut *self.marking).cast();
            header.msg_controllen = mem::size_of::<Marking>() as _;
        }
        let count = frames.len().min(BATCH) as libc::c_uint;
        // SAFETY: the first `count` messages were just pointed at pieces, and these at frames, all of which outlive the
        // call, and one perhaps at the marking, which is of this value. The kernel reads all of these and writes only to the messages.
        let taken =
            unsafe { libc::sendmmsg(socket.as_raw_fd(), self.messages.as_mut_ptr(), count, libc::MSG_DONTWAIT as _) };
        let error = io::Error::last_os_error();
        if let Some((at, _)) = mark {
            let header = &mut self.messages[at].msg_hdr;
            (header.msg_control, header.msg_controllen) = (ptr::null_mut(), 0);
        }
        if taken >= 0 { Ok(taken as usize) } else { Err(error) }
    }
}

/// Returns a frame without its first `skip` bytes. A datagram has no padding of Ethernet: that is left out if both lengths of the headers, which a
/// fault may have changed, name the same end.
#[inline]
fn content(frame: &[u8], skip: usize) -> &[u8] {
    if skip == 0 || frame.len() != ETHERNET_MIN {
        return &frame[skip..];
    }
    let whole = unpadded(frame);
    let datagram = usize::from(u16::from_be_bytes([frame[UDP_LENGTH], frame[UDP_LENGTH + 1]]));
    if UDP + datagram == whole.len() { &whole[skip..] } else { &frame[skip..] }
}

/// Returns how many frames, from the first on, fit one message: all as long as the first, except a shorter last one.
fn run_of_one_length(frames: &[&[u8]], skip: usize) -> usize {
    let length = content(frames[0], skip).len();
    let (mut run, mut bytes) = (1, length);
    for frame in frames[1..].iter().take(BATCH - 1) {
        let next = content(frame, skip).len();
        // An empty datagram would vanish.
        if next > length || next == 0 || bytes + next > PAYLOAD_MAX {
            break;
        }
        (run, bytes) = (run + 1, bytes + next);
        if next < length {
            break;
        }
    }
    run
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    use pktgen_wire::wire::frame::{Template, worker_ip};

    fn pair() -> (UdpSocket, UdpSocket) {
        let (a, b) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        a.connect(b.local_addr().unwrap()).unwrap();
        b.set_nonblocking(true).unwrap();
        set_buffer(b.as_fd(), SocketBuffer::Receive, 4 << 20).unwrap();
        (a, b)
    }

    /// Returns the length of the next datagram, which a busy kernel may deliver later.
    fn next(socket: &UdpSocket, room: &mut [u8]) -> usize {
        let mut len = None;
        pktgen_testing::eventually("a datagram", || {
            len = socket.recv(room).ok();
            len.is_some()
        });
        len.unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// For any lengths, datagrams arrive as frames without their heads, one each and in order, divided or not.
        #[test]
        fn divided_messages_are_the_datagrams(
            lengths in prop::collection::vec(prop_oneof![Just(42usize), Just(298), Just(300), 42usize..1500], 1..200),
        ) {
            let frames: Vec<Vec<u8>> = lengths.iter().enumerate().map(|(i, len)| vec![i as u8; *len]).collect();
            let slices: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
            for mut batch in [SendBatch::new(), SendBatch::segmented()] {
                let (a, b) = pair();
                let mut sent = 0;
                while sent < slices.len() {
                    sent += batch.send(a.as_fd(), &slices[sent..], 42, None).unwrap();
                }
                let mut room = [0; 2000];
                for frame in &frames {
                    let len = next(&b, &mut room);
                    prop_assert_eq!(&room[..len], &frame[42..]);
                }
                prop_assert!(b.recv(&mut room).is_err());
            }
        }
    }

    /// A frame with 16 bytes of payload, padded to Ethernet's minimum.
    fn padded() -> Vec<u8> {
        let (mut frame, end) = (vec![0; ETHERNET_MIN], (worker_ip(0), 12000));
        Template::new(end, end, 58).emit(&mut frame[..58]);
        frame[42..58].fill(9);
        frame
    }

    #[test]
    fn datagrams_have_no_padding_of_ethernet() {
        let (short, long) = (padded(), vec![7; 61]);
        let frames = [&short[..], &short[..], &short[..], &long[..]];
        for mut batch in [SendBatch::new(), SendBatch::segmented()] {
            let (a, b) = pair();
            assert_eq!(batch.send(a.as_fd(), &frames, 42, None).unwrap(), 4);
            let mut room = [0; 100];
            let lengths: Vec<_> = frames.iter().map(|_| next(&b, &mut room)).collect();
            assert_eq!(lengths, [16, 16, 16, 19]);
        }
        assert_eq!((content(&short, 42), content(&short, 0)), (&[9; 16][..], &short[..]));
    }

    #[test]
    fn a_damaged_length_cuts_no_datagram() {
        for (byte, bit) in [16, 17, 38, 39].into_iter().flat_map(|byte| (0..8).map(move |bit| (byte, bit))) {
            let mut frame = padded();
            frame[byte] ^= 1 << bit;
            assert_eq!(content(&frame, 42), &frame[42..], "bit {bit} of byte {byte}");
        }
    }

    #[test]
    fn a_run_is_of_one_length_and_what_is_shorter_ends_it() {
        let frames: Vec<Vec<u8>> = [100, 100, 80, 80, 90, 42, 42].iter().map(|len| vec![0; *len]).collect();
        let slices: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
        let mut runs = Vec::new();
        let mut at = 0;
        while at < slices.len() {
            runs.push(run_of_one_length(&slices[at..], 42));
            at += runs[runs.len() - 1];
        }
        assert_eq!(runs, [3, 1, 1, 1, 1]);
        let large = [&[0u8; 9042][..]; 20];
        assert_eq!(run_of_one_length(&large, 42), PAYLOAD_MAX / 9000);
    }

    #[test]
    fn the_frame_at_fault_is_found_in_a_run() {
        let (a, b) = pair();
        let large = vec![7; 70_000];
        let small = vec![7; 50];
        let mut frames: Vec<&[u8]> = vec![&small; 90];
        frames[70] = &large;
        frames[71] = &large;
        let mut batch = SendBatch::segmented();
        assert_eq!(batch.send(a.as_fd(), &frames, 42, None).unwrap(), 70);
        let error = batch.send(a.as_fd(), &frames[70..], 42, None).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE));
        assert_eq!(batch.send(a.as_fd(), &frames[72..], 42, None).unwrap(), 18);
        let mut room = [0; 2000];
        (0..88).for_each(|_| _ = next(&b, &mut room));
        assert!(b.recv(&mut room).is_err());
    }

    #[test]
    fn a_batch_stops_at_the_frame_that_is_at_fault() {
        let (a, b) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        a.connect(b.local_addr().unwrap()).unwrap();
        let (small, large) = (vec![7; 50], vec![7; 70_000]);
        let mut frames: Vec<&[u8]> = vec![&small; 150];
        frames[100] = &large;
        let mut batch = SendBatch::new();
        assert_eq!(batch.send(a.as_fd(), &frames, 42, None).unwrap(), 100);
        let error = batch.send(a.as_fd(), &frames[100..], 42, None).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE));
        assert_eq!(batch.send(a.as_fd(), &frames[101..], 42, None).unwrap(), 49);
        assert_eq!(batch.send(a.as_fd(), &[], 42, None).unwrap(), 0);
        drain(a.as_fd(), 1_000_000).unwrap();
    }

    #[test]
    fn options_are_read_back() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(set_buffer(socket.as_fd(), SocketBuffer::Receive, 100_000).unwrap() >= 100_000);
        assert!(set_buffer(socket.as_fd(), SocketBuffer::Send, 50_000).unwrap() >= 50_000);
        assert!(set_option(socket.as_fd(), libc::SOL_SOCKET, 9999, 1i32).is_err());
        assert!(option::<1>(socket.as_fd(), libc::SOL_SOCKET, 9999).is_err());
        wait_readable(socket.as_fd(), 1000).unwrap();
    }
}
