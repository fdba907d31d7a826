//! System calls on AF_XDP sockets that the crate lacks: options of newer kernels, wake-ups, waiting.
#![expect(unsafe_code, reason = "talks to the kernel; every block says why it is sound")]

use std::io;
use std::os::fd::RawFd;

const SOL_XDP: i32 = 283;
const XDP_OPTIONS: i32 = 8;
const XDP_MAX_TX_SKB_BUDGET: i32 = 9;
const XDP_OPTIONS_ZEROCOPY: u32 = 1;
/// Default number of frames that the kernel sends per call in copy mode.
pub(crate) const KERNEL_BATCH: u32 = 32;

/// Returns whether an error is temporary: trying again is the remedy.
pub(crate) fn is_passing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR))
}

/// Makes the kernel send from the TX ring. Succeeds when the ring is empty.
pub fn wake(fd: RawFd) -> io::Result<()> {
    // SAFETY: an empty message to a socket: no addresses.
    let got = unsafe { libc::sendto(fd, std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0) };
    if got < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns whether the socket has zero copy.
pub(crate) fn got_zero_copy(fd: RawFd) -> io::Result<bool> {
    let mut flags = 0u32;
    let mut len = size_of::<u32>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `flags`.
    let got = unsafe { libc::getsockopt(fd, SOL_XDP, XDP_OPTIONS, (&raw mut flags).cast(), &raw mut len) };
    if got < 0 { Err(io::Error::last_os_error()) } else { Ok(flags & XDP_OPTIONS_ZEROCOPY != 0) }
}

/// Requests a whole ring per waking call; returns the actual budget.
pub(crate) fn raise_budget(fd: RawFd, tx_ring: u32) -> u32 {
    let len = size_of::<u32>() as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes of `tx_ring`.
    let got = unsafe { libc::setsockopt(fd, SOL_XDP, XDP_MAX_TX_SKB_BUDGET, (&raw const tx_ring).cast(), len) };
    if got < 0 { KERNEL_BATCH } else { tx_ring }
}

/// Makes the entry of a socket for [`wait_readable`].
pub fn readable(fd: RawFd) -> libc::pollfd {
    libc::pollfd { fd, events: libc::POLLIN, revents: 0 }
}

/// Fails if the interface of a receiving socket is down or gone: the kernel makes the socket neither readable nor an error then.
pub(crate) fn check_up(fd: RawFd) -> io::Result<()> {
    // SAFETY: asks for no bytes, so that nothing is written.
    let got = unsafe { libc::recv(fd, std::ptr::null_mut(), 0, libc::MSG_DONTWAIT) };
    let error = io::Error::last_os_error();
    let is_gone = got < 0 && matches!(error.raw_os_error(), Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV));
    if is_gone { Err(error) } else { Ok(()) }
}

/// Waits until one of them is readable, at most `timeout_ns`; returns whether one is.
pub(crate) fn wait_readable(sockets: &mut [libc::pollfd], timeout_ns: u64) -> io::Result<bool> {
    let timeout = libc::timespec {
        tv_sec: (timeout_ns / 1_000_000_000) as _,
        tv_nsec: (timeout_ns % 1_000_000_000) as libc::c_long,
    };
    let count = sockets.len() as libc::nfds_t;
    // SAFETY: so many pollfds and one timespec that outlive the call; no signal mask.
    let got = unsafe { libc::ppoll(sockets.as_mut_ptr(), count, &raw const timeout, std::ptr::null()) };
    match (got, io::Error::last_os_error()) {
        (0.., _) => Ok(sockets.iter().any(|socket| socket.revents & libc::POLLIN != 0)),
        (_, error) if is_passing(&error) => Ok(false),
        (_, error) => Err(error),
    }
}
